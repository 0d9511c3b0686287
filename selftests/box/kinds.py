#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""All-reduces and reductions to each root, of every type and reduction: the box makes all of the
sums, and they have the bits of the ring. The box is in the namespace rar3.
"""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from live import N, RAR_OP, Ring    # noqa: E402
from priority import BOX_OPEN, until_box    # noqa: E402
from rarpkt import SOL_RAR, enter, sysctl, tables   # noqa: E402
from tap import finish, note, result    # noqa: E402

ALLREDUCE, REDUCE = 1, 3
COUNT = 3001
SIZES = (4, 8, 4, 8, 1, 1, 2, 2, 4, 8, 2, 2)    # of types 1 ... in rar.h
REDOPS = range(1, 12)
WIDE = 0x20
KINDS = [(dtype, redop, flags) for dtype in range(1, len(SIZES) + 1) for redop in REDOPS
         for flags in (0, WIDE)]
WHERE = [(ALLREDUCE, 0)] + [(REDUCE, root) for root in range(N)]


def gather(ring, collective, root, kind):
    """The results of all ranks, or None if there is no such reduction."""
    dtype, redop, flags = kind
    rng = random.Random(str((collective, root, kind)))
    op = struct.pack("=IBBBBIIQQQB7x", 48, collective, dtype, redop, 0, root, flags, 0, 0, 0, 0)
    for rank in range(N):
        try:
            ring.fd[rank].sendmsg([rng.randbytes(COUNT * SIZES[dtype - 1])],
                                  [(SOL_RAR, RAR_OP, op)])
        except OSError:
            if rank:
                raise
            return None
    out = []
    for rank in range(N):
        ring.poll(ring.fd[rank], 1)
        out.append(ring.fd[rank].recv(COUNT * 8 + 1))
    return out


def box_counters():
    """What the box counts"""
    enter("rar3")
    return tables("rar_netstat")


def results(box):
    """The results of all operations"""
    ring = Ring()
    if box:
        until_box(ring, BOX_OPEN)
    out = {(where, kind): gather(ring, *where, kind) for where in WHERE for kind in KINDS}
    ring.close()
    return {key: value for key, value in out.items() if value}


def main():
    want = results(False)
    before = box_counters()
    sysctl("box_mem", "64M")
    enter("rar0")
    sysctl("box", f"10.77.0.{N + 1}")
    got = results(True)
    after = box_counters()
    sums = after["RarBoxSums"] - before["RarBoxSums"]
    note(f"{len(got)} operations, sums {sums}, gave up "
         f"{after['RarBoxGaveUp'] - before['RarBoxGaveUp']}")
    result(len(got) > 100 * len(WHERE) and got.keys() == want.keys(), "every type and reduction")
    result(sums >= len(got), "the box makes sums")
    for where in WHERE:
        bad = [kind for w, kind in got if w == where and got[w, kind] != want[w, kind]]
        note(f"wrong: {bad[:5]}")
        result(not bad, f"collective {where[0]}, root {where[1]}: the bits of the ring")
    finish()


if __name__ == "__main__":
    main()
