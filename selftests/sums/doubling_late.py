#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A long operation by the ring and a short one by doubling, whose successor is late.

Rank 0 owes rank 1 a long broadcast. In the second stage of the sum that follows, rank 2 sends its
partial sum to rank 0. That does not prove that rank 1 has posted: it has posted neither operation.
So rank 0 must not send it more than rank 1 has lent it room for. All ranks get both results when
rank 1 posts, long after dead_ms.

And a short broadcast, which rank 2 has to pass on to rank 3. Rank 2 does not post it. It is named by
RAR_OP_TIMEOUT, and not the root, for which rank 3 seems to wait.

And a reduction to rank 0, to which rank 1 contributes and closes. Rank 3 is late by far more than rank
1 lingers. Nobody needs rank 1 any more, so none of its neighbours names it.
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
RAR_OP_TIMEOUT, RAR_ERROR, RAR_SCHEDULE, RAR_DOUBLING = 4, 7, 13, 4
RAR_R_TIMEOUT = 7
ALLREDUCE, BROADCAST, REDUCE, F32, SUM = 1, 2, 3, 1, 1
LONG = 8 << 20
LATE_S = 5


def counter(name):
    """Return a counter, of all ranks together."""
    total = 0
    for rank in range(N):
        enter(f"rar{rank}")
        total += tables("rar_netstat")[name]
    return total


def member(rank, group):
    """Return a socket that joins."""
    enter(f"rar{rank}")
    s = socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
    s.setsockopt(SOL_RAR, RAR_SCHEDULE, struct.pack("=I", RAR_DOUBLING))
    s.setsockopt(SOL_RAR, live.RAR_JOIN, live.sockaddr(rank, group) +
                 live.sockaddr((rank + 1) % N, group))
    return s


def group_up(group):
    """Return the sockets of a group."""
    sockets = [member(rank, group) for rank in range(N)]
    for s in sockets:
        select.select([], [s], [], 30)
    return sockets


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


def accused():
    """A rank that is to pass a broadcast on does not post it."""
    sockets = group_up(78)
    for rank, s in enumerate(sockets):
        s.setsockopt(SOL_RAR, RAR_OP_TIMEOUT, struct.pack("=I", 500))
        if rank != 2:
            s.sendmsg([b"\1" * 8 if not rank else b""], op(BROADCAST, 8))
    select.select([sockets[3]], [], [], 30)
    try:
        sockets[3].recv(8)
        why = None
    except OSError:
        why = struct.unpack("=iIII", sockets[3].getsockopt(SOL_RAR, RAR_ERROR, 104)[:16])
    note(f"errno, reason, rank, other: {why}")
    result(why and why[1:3] == (RAR_R_TIMEOUT, 2), "a rank that does not pass a broadcast on is named")


def early_leaver():
    """A rank that has only to send to the root closes, long before another rank posts."""
    sockets = group_up(79)
    for rank in (0, 1, 2):
        sockets[rank].sendmsg([struct.pack("=2f", rank + 1, 1)], op(REDUCE, 8))
    select.select([sockets[1]], [], [], 30)
    sockets[1].recv(8)
    sockets[1].close()
    time.sleep(LATE_S)
    got = []
    try:
        sockets[3].sendmsg([struct.pack("=2f", 4, 1)], op(REDUCE, 8))
        for rank in (0, 2, 3):
            select.select([sockets[rank]], [], [], 30)
            got.append(sockets[rank].recv(8))
    except OSError as error:
        note(f"rank {rank}: {error}")
        note(str([struct.unpack("=iIIIQ", s.getsockopt(SOL_RAR, RAR_ERROR, 104)[:24]) for s in
              (sockets[0], sockets[2], sockets[3])]))
    note(f"{got}")
    result(got == [struct.pack("=2f", 10, 4), b"", b""], "a rank that has sent may leave")


def main():
    """Run all."""
    for rank in range(N):
        enter(f"rar{rank}")
        sysctl("dead_ms", 1000)
        sysctl("linger_ms", 1000)
    before = counter("RarDropEarlyFull")
    sockets = group_up(77)
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
    for s in sockets:
        s.close()
    accused()
    early_leaver()
    finish()


main()
