#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A rank's address is removed while its group does nothing. If it is set again soon, the group goes on; if
not, the group ends and names this rank. Run by networks.sh, with two ranks.
"""
import pathlib
import select
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import RAR_ERROR, SOL_RAR, Ring, enter, sysctl
from pair import add, close, pair

DEAD_MS = 2000
SILENT, NODEV = 3, 20       # RAR_R_...


def address(verb):
    subprocess.run(f"ip -n rar0 address {verb} 10.77.0.1/24 dev eth0".split(), check=True)


def error(sock):
    """Of a group that ends: its reason, and the rank that is named"""
    Ring.poll(sock, select.POLLIN, 30)
    return struct.unpack("=iIII", sock.getsockopt(SOL_RAR, RAR_ERROR, 104)[:16])[1:3]


def main():
    for rank in range(2):
        enter(f"rar{rank}")
        sysctl("dead_ms", DEAD_MS)
    ranks, why = pair("10.77.0.1", "10.77.0.2")
    if not ranks:
        sys.exit(why)
    for seconds in (0, DEAD_MS / 4000):
        address("del")
        time.sleep(seconds)
        address("add")
        if not add(ranks):
            sys.exit("a sum is wrong")
        print(f"without its address for {seconds} s: the group goes on")
    address("del")
    said = [error(sock) for sock in ranks]
    address("add")
    print(f"without its address: reason and rank are {said}")
    close(ranks)
    sys.exit(said != [(NODEV, 0), (SILENT, 0)])


main()
