#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A long operation by the ring and a short one by doubling, whose successor is late.

Rank 0 owes rank 1 a long broadcast. In the second stage of the sum that follows, rank 2 sends its
partial sum to rank 0. That does not prove that rank 1 has posted: it has posted neither operation.
So rank 0 must not send it more than rank 1 has lent it room for. All ranks get both results when
rank 1 posts, long after dead_ms.
"""
import os
import select
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import live                                                     # noqa: E402
from live import RAR_OP, SOL_RAR, enter, sysctl                 # noqa: E402
from rarpkt import tables                                       # noqa: E402
from tap import finish, note, result                            # noqa: E402

N = live.N = 4
RAR_SCHEDULE, RAR_DOUBLING = 13, 4
ALLREDUCE, BROADCAST, F32, SUM = 1, 2, 1, 1
LONG = 8 << 20
LATE_S = 5


def counter(name):
    """Return a counter, of all ranks together."""
    total = 0
    for rank in range(N):
        enter(f"rar{rank}")
        total += tables("rar_netstat")[name]
    return total


def member(rank):
    """Return a socket that joins."""
    enter(f"rar{rank}")
    s = socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
    s.setsockopt(SOL_RAR, RAR_SCHEDULE, struct.pack("=I", RAR_DOUBLING))
    s.setsockopt(SOL_RAR, live.RAR_JOIN, live.sockaddr(rank, 77) +
                 live.sockaddr((rank + 1) % N, 77))
    return s


def op(collective, size):
    """Return the ancillary data of an operation."""
    return [(SOL_RAR, RAR_OP, struct.pack("=IBBBBIIQQQB7x", 48, collective, F32, SUM, 0, 0, 0,
                                          size, 0, 0, 0))]


def post(s, rank):
    """Broadcast from rank 0, then a short sum."""
    s.sendmsg([b"\1" * LONG if not rank else b""], op(BROADCAST, LONG))
    s.sendmsg([struct.pack("=2f", rank + 1, 1)], op(ALLREDUCE, 8))


def collect(s):
    """Return whether both results are right."""
    got = b""
    while len(got) < LONG:
        select.select([s], [], [], 30)
        part = s.recv(LONG - len(got))
        if not part:
            return False
        got += part
    select.select([s], [], [], 30)
    return got == b"\1" * LONG and struct.unpack("=2f", s.recv(8)) == (10, 4)


def main():
    """Run the case."""
    for rank in range(N):
        enter(f"rar{rank}")
        sysctl("dead_ms", 1000)
    before = counter("RarDropEarlyFull")
    sockets = [member(rank) for rank in range(N)]
    for s in sockets:
        select.select([], [s], [], 30)
    for rank in (0, 2, 3):
        post(sockets[rank], rank)
    time.sleep(LATE_S)
    full = counter("RarDropEarlyFull") - before
    result(not full, f"{full} chunks were sent for which there was no room")
    try:
        post(sockets[1], 1)
        good = [collect(s) for s in sockets]
    except OSError as error:
        note(f"{error}")
        good = [False]
    result(all(good), "all get both results")
    finish()


main()
