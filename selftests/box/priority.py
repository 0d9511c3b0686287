#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The priority of operations in packets: contributions to the box carry it, all others carry 0.

Rank 1's packets are captured. The box is in the namespace rar3.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import live     # noqa: E402
from live import N, RAR_INFO, Data, Ring    # noqa: E402
from rarpkt import AG, BOX_RANK, RS, SOL_RAR, enter, sysctl     # noqa: E402
from tap import finish, note, result    # noqa: E402

RAR_PRIORITY = 20
BOX_AWAY, BOX_OPEN = 1, 2
BOX_STATE = 208     # of struct rar_info


def until_box(ring, state):
    """Wait until all members say so."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if all(struct.unpack_from("=I", s.getsockopt(SOL_RAR, RAR_INFO, 512), BOX_STATE)[0] ==
               state for s in ring.fd):
            return
        time.sleep(0.05)
    raise TimeoutError(f"box_state {state}")


def option(ring, prio):
    """Set RAR_PRIORITY of rank 1."""
    ring.fd[1].setsockopt(SOL_RAR, RAR_PRIORITY, struct.pack("=I", prio))


def seen(ring, prio=0):
    """Run an operation with the priority at rank 1; return the priorities seen, by way."""
    data, first = Data(9000), len(ring.sniff())
    for r in range(N):
        ring.post(r, data, prio if r == 1 else 50 + r)
    if not all([ring.collect(r, data) for r in range(N)]):
        raise ValueError("a wrong sum")
    live.wait_quiet(ring)
    out = {}
    for p in ring.sniff()[first:]:
        if p.type in (RS, AG):
            way = ("up" if p.drank == BOX_RANK else "down" if p.srank == BOX_RANK else
                   "ring", p.type)
            out.setdefault(way, set()).add(p.prio)
    note(str(out))
    return out


def by_ring(name):
    """Chunks go by the ring, without a priority."""
    ring = Ring()
    option(ring, 200)
    result(seen(ring) == seen(ring, 9) == {("ring", RS): {0}, ("ring", AG): {0}}, name)
    return ring


def by_box(ring):
    """Chunks go by the box, with one."""
    def up(prio):
        return {("up", RS): {prio}, ("down", AG): {0}}

    result(seen(ring) == up(128), "the default")
    option(ring, 7)
    result(seen(ring) == up(7), "an option set after connect()")
    result(seen(ring, 255) == up(255), "an operation's own")
    result(seen(ring) == up(7), "the option again")


def main():
    by_ring("no box").close()
    enter("rar3")
    sysctl("box_mem", "16M")
    enter("rar0")
    sysctl("box", f"10.77.0.{N + 1}")
    ring = Ring()
    until_box(ring, BOX_OPEN)
    by_box(ring)
    enter("rar3")
    sysctl("box_mem", 0)
    until_box(ring, BOX_AWAY)
    result(seen(ring, 9) == {("ring", RS): {0}, ("ring", AG): {0}}, "a box that is away")
    ring.close()
    finish()


if __name__ == "__main__":
    main()
