#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Ranks whose addresses lie in a VRF, by name or as the route has them. A socket that is bound to the
VRF has these addresses, as a UDP socket has. Run by lib/in_topo.sh 2.
"""
import os
import pathlib
import select
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import RAR_ERROR, SOL_RAR, Ring, enter, sysctl
from pair import close, pair
from tap import finish, note, result, skip_all

DEAD_MS = 1000


def run(command):
    return not subprocess.run(command.split()).returncode


def works(title, *args, **kind):
    ranks, why = pair(*args, **kind)
    note(f"{title}: {why or 'works'}")
    result(ranks, title)
    close(ranks or ())


def silent(title, *args, **kind):
    """The other rank cannot be heard any more: it is named, and not this rank."""
    ranks, why = pair(*args, **kind)
    rank = None
    run("ip -n rarbr link set p1 down")
    if ranks:
        Ring.poll(ranks[0], select.POLLIN, 30)
        err, why, rank, _ = struct.unpack("=iIII", ranks[0].getsockopt(
            SOL_RAR, RAR_ERROR, 104)[:16])
        why = f"{os.strerror(err)}, reason {why}, rank {rank}"
        close(ranks)
    note(f"{title}: {why}")
    result(rank == 1, title)
    run("ip -n rarbr link set p1 up")


def refused(title, *args):
    ranks, why = pair(*args)
    note(f"{title}: {why}")
    result(why == "EADDRNOTAVAIL", title)


def main():
    if not run("ip -n rar0 link add blue type vrf table 10"):
        skip_all("no VRF")
    for command in ("link set blue up", "link set eth0 master blue",
                    "addr replace fd77::1/64 dev eth0 nodad"):
        run("ip -n rar0 " + command)
    for r in range(2):
        enter(f"rar{r}")
        sysctl("join_ms", 10000)
        sysctl("dead_ms", DEAD_MS)
    works("IPv4", "10.77.0.1", "10.77.0.2", "blue")
    works("IPv4, bound to a device of the VRF", "10.77.0.1", "10.77.0.2", "eth0")
    works("IPv6", "fd77::1", "fd77::2", "blue")
    works("the address of the route", "", "10.77.0.2", "blue", at="10.77.0.1")
    refused("not bound", "10.77.0.1", "10.77.0.2")
    refused("not bound, IPv6", "fd77::1", "fd77::2")
    silent("silence, IPv4", "10.77.0.1", "10.77.0.2", "blue")
    silent("silence, the address of the route", "", "10.77.0.2", "blue", at="10.77.0.1")
    silent("silence, IPv6", "fd77::1", "fd77::2", "blue")
    finish()


main()
