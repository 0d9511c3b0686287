#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A rank leaves when all operations are complete, and joins the same group again while the others
still have their old sockets: these stay at the end of the file. Run by lib/in_topo.sh 3.
"""
import pathlib
import select
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import COUNT, N, Data, Ring, enter, note, sysctl
from tap import finish, result

DEAD_MS = 300


def at_end(s):
    """Does recv() say the end of the file, without an error?"""
    Ring.poll(s, select.POLLIN)
    try:
        said = s.recv(1, socket.MSG_DONTWAIT)
    except OSError as e:
        said = e
    err = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if said or err:
        note(f"recv: {said}, SO_ERROR {err}")
    return not said and not err


def come_back(name, wait):
    ring, data = Ring(), Data(COUNT)
    ok = ring.allreduce(data)
    ring.fd[1].close()
    result(ok and all([at_end(ring.fd[r]) for r in (0, 2)]), f"{name}: a rank leaves")
    time.sleep(wait)
    ring.fd[1] = ring.member(1)
    time.sleep(1)
    result(all([at_end(ring.fd[r]) for r in (0, 2)]), f"{name}: it joins again")
    for r in (0, 2):
        ring.fd[r].close()
        ring.fd[r] = ring.member(r)
    result(not any(ring.joined(s) for s in ring.fd) and ring.allreduce(data),
           f"{name}: the others join again, too")
    ring.close()


def main():
    for r in range(N):
        enter(f"rar{r}")
        sysctl("dead_ms", DEAD_MS)
    come_back("at once", 0)
    come_back("when its tombstone is gone", 5 * DEAD_MS / 1000)
    finish()


main()
