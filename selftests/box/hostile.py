#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A group that exists only in this program uses a box, and sends chunks as far apart as it can.

For each such chunk the box keeps a mark until the members say that they have completed the
operation, which they never do. What that costs the kernel counts against net.rar.box_mem.

Then a member asks for chunks of a broadcast, as many as it likes, and for more than there can be.
Of a reduction to a root only the root gets the sum, however often the others send.

Then senders say that they are boxes below it, for ranks that they cannot have. A right box below
brings partial sums of floating-point numbers at wrong times, and asks for some at wrong times.

All of them are in the namespace rar0, the box is in rar3 (lib/in_topo.sh 4 box/hostile.py).
"""
import os
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from boxleg import (ALLREDUCE, BROADCAST, F32, I32, IN_TURN, REDUCE, SUM, Group, Leg, enter_all,
                    mib, until, used)
from rarpkt import AG, RETURN, RS, enter, sysctl
from tap import finish, note, result, skip_all

PAYLOAD = 16
GROUP = Group(0x5ca77e2ed, 77, 2, PAYLOAD)
APART = 4096                    # chunks of one leaf and of one node above it
NCHUNKS = 1 << 22
COUNT = NCHUNKS * PAYLOAD // 4
MARKS = 300                     # while there is room for all
ANY_ORDER = 1                   # RAR_EF_ANY_ORDER
LIMIT = 1 << 20
NODE = "radix_tree_node"        # the slab cache of the box's tables
NODE_BYTES = 576
AGAIN = 0.0005                  # AGAIN_US


def ints(value):
    """A chunk of four integers"""
    return struct.pack("<4i", *[value] * 4)


class Rank(Leg):
    """A leg of the group, whose numbers are of 4 bytes"""

    def __init__(self, rank, group=GROUP, ranks=0, flags=0):
        super().__init__(group, rank, ranks, flags)

    def up(self, chunk, value, op=0):
        """Send a contribution."""
        self.contribute(op, chunk, COUNT, (ALLREDUCE, I32, SUM), ints(value))

    def floats(self, value, turn=0, op=0, dtype=F32):
        """Contribute a partial sum, to which turn ranks have added; or without a value ask for turn
        chunks."""
        data = b"" if value is None else struct.pack("<4f", *[value] * 4)
        self.contribute(op, 0, COUNT, (ALLREDUCE, dtype, SUM), data,
                        **{"chunks" if value is None else "ranks": turn})

    def cast(self, chunk, n, op=0, root=0, count=COUNT):
        """Ask for n chunks of a broadcast."""
        self.contribute(op, chunk, count, (BROADCAST, I32, SUM), root=root, chunks=n,
                        numbers=n if 0 < n <= 64 else 1)

    def cast_root(self, chunk, op, value):
        """Contribute a chunk of a broadcast, as its root."""
        self.contribute(op, chunk, COUNT, (BROADCAST, I32, SUM), ints(value))

    def reduce(self, chunk, value, op, root):
        """Contribute to a reduction to a root."""
        self.contribute(op, chunk, COUNT, (REDUCE, I32, SUM), ints(value), root=root)

    def came(self, kind=AG):
        return super().came(kind)

    def answers(self):
        """[(first number, chunks of a header without payload, elements)] of packets that have come"""
        return [(struct.unpack_from(">I", packet, 24)[0], packet[61],
                 struct.unpack_from(f"<{len(packet[64:80]) // 4}i", packet, 64))
                for packet in self.came()]

    def partial_sums(self, kind=RS):
        """[(ranks that have added, elements)] of packets that have come"""
        return [(struct.unpack_from(">H", packet, 62)[0], struct.unpack_from("<4f", packet, 64))
                for packet in self.came(kind)]

    def sums(self):
        """The sums that have come: {chunk: elements}"""
        return {struct.unpack_from(">I", packet, 48)[0]: struct.unpack_from("<4i", packet, 64)
                for packet in self.came()}


def node_bytes():
    """Bytes of all tables of the kernel"""
    with open("/proc/slabinfo") as f:
        return next(int(line.split()[1]) * NODE_BYTES for line in f if line.startswith(NODE))


def both():
    """Both ranks of the group, with open legs"""
    return enter_all([Rank(0), Rank(1)])


def refused(counter, *args):
    """A box below is not let in, and a counter says so. It asks for a cookie first."""
    enter("rar0")
    rank = Rank(*args)
    rank.enter()
    before = mib(counter)
    rank.enter()
    return until(lambda: mib(counter) > before, 2) and not rank.epoch


def levels():
    """A group of three, of which two are at a box below"""
    group = GROUP._replace(id=GROUP.id + 1, size=3)
    enter("rar0")
    alone = Rank(2, group)
    alone.enter()
    alone.enter()
    for what, counter, first, ranks in (
            ("a rank that is beyond the group", "DropLength", 0, 0b1001),
            ("a rank that is not the lowest of its ranks", "DropLength", 1, 0b011),
            ("all ranks", "DropLength", 0, 0b111),
            ("a rank that has come itself", "JoinsRefused", 0, 0b101)):
        result(refused(counter, first, group, ranks), f"a box below for {what}")
    enter("rar0")
    below = Rank(0, group, 0b011)
    for rank in (below, below, alone):
        rank.enter()
    below.up(0, 30)
    alone.up(0, 4)
    result(all(rank.sums().get(0) == (34,) * 4 for rank in (below, alone)), "a right box below")
    before = mib("DropRank")
    alone.s.send(alone.header(RETURN, 80) + bytes(56))
    result(until(lambda: mib("DropRank") > before, 2), "RETURN of a member is refused")


def partial_sums():
    """A group of three, of which the first and the last are at a box below. Floats"""
    enter("rar0")
    group = GROUP._replace(id=GROUP.id + 2, size=3)
    alone = Rank(1, group)
    below = Rank(0, group, 0b101, IN_TURN)
    for rank in (alone, alone, below, below, alone):
        rank.enter()
    result(alone.told == below.told == IN_TURN, "partial sums go from box to box")
    for turn, what in ((2, "a rank of others"), (3, "all ranks"), (4, "more ranks than there are"),
                       (0xffff, "more ranks than there can be"), (0, "no rank")):
        below.floats(100., turn)
        result(not below.came(RS), f"a partial sum of {what} is ignored")
    alone.floats(2.)
    result(not below.came(RS) and not alone.came(), "a rank waits for its turn")
    below.floats(1., 1)
    again = [(2, (3.,) * 4)]
    result(below.partial_sums() == again, "the partial sum of two ranks comes to the box below")
    below.floats(9., 1)
    result(below.partial_sums() == again, "it comes again when an older one comes again")
    below.floats(None, 1)
    result(below.partial_sums() == again, "it comes again when the box asks")
    alone.floats(2.)
    result(not below.came(RS), "not when another rank contributes again")
    below.floats(7., 3)
    result(all(rank.partial_sums(AG) == [(0, (7.,) * 4)] for rank in (below, alone)),
           "all get the sum of all")
    for op, rank, dtype, what in ((1, below, I32, "a sum that has no order"),
                                  (2, alone, F32, "a rank asks")):
        before = mib("DropChunk")
        enter("rar0")
        rank.floats(None, 1, op, dtype)
        result(until(lambda was=before: mib("DropChunk") > was, 2), f"no partial sum: {what}")


def plain_box():
    """The box below does not know partial sums."""
    enter("rar0")
    group = GROUP._replace(id=GROUP.id + 3, size=3)
    alone = Rank(1, group)
    below = Rank(0, group, 0b101)
    for rank in (alone, alone, below, below, alone):
        rank.enter()
    result(alone.told == below.told == ANY_ORDER, "a box below that passes no partial sums on")
    alone.floats(2.)
    result(alone.came(RETURN), "sums with an order are returned")


def reductions(root, other):
    """Contributions to a reduction to a root, right ones and others"""
    for rank in (root, other):
        rank.reduce(0, 5 + rank.rank, 10, 0)
    result([data for _, _, data in root.answers()] == [(11,) * 4], "the root gets the sum")
    result(other.answers() == [(other.seq - 1, 1, ())], "the other rank gets a header")
    other.reduce(0, 9, 10, 0)
    result(other.answers() == [(other.seq - 1, 1, ())], "and a header again, when it sends again")
    root.reduce(0, 5, 10, 0)
    result([data for _, _, data in root.answers()] == [(11,) * 4], "the sum stays as it is")
    for root_rank in (2, 0xffff):
        for rank in (root, other):
            rank.reduce(0, 1, 11, root_rank)
        result(not root.answers() and not other.answers(), f"no reduction to rank {root_rank}")


def broadcasts():
    """Questions for chunks of a broadcast, right ones and others"""
    enter("rar0")
    root, other = ranks = both()
    for n, what in ((0, "no chunk"), (65, "more than a run"), (255, "the most that it can ask for"),
                    (64, "chunks beyond the last")):
        before = mib("DropChunk")
        other.cast(0, n, count=63 * PAYLOAD // 4)
        result(until(lambda was=before: mib("DropChunk") > was, 2), f"a question for {what}")
    other.cast(0, 3, 1)
    result(not root.answers() and not other.answers(), "a question waits for the root")
    first = other.seq - 3
    for chunk in range(3):
        root.cast_root(chunk, 1, 7 + chunk)
    got = {number: data for number, n, data in other.answers()}
    result(got == {first + i: (7 + i,) * 4 for i in range(3)}, "it gets the root's chunks")
    result([(number, n, data) for number, n, data in root.answers()] ==
           [(i, 1, ()) for i in range(3)], "the root gets headers, once for each chunk")
    start = time.monotonic()
    for _ in range(100):
        other.cast(0, 3, 1)
    took = time.monotonic() - start
    n = len(other.answers())
    note(f"100 questions for 3 chunks in {took * 1000:.0f} ms: {n} answers")
    result(0 < n <= 3 * (took / AGAIN + 2), "a chunk is not sent again at once")
    other.cast(0, 3, 1, root=5)
    result(not other.answers(), "a root that is beyond the group")

    reductions(root, other)
    enter("rar3")
    sysctl("box_mem", LIMIT)
    for op in range(2, 10):
        for i in range(0, 64 * 500, 64):
            other.cast(i, 64, op)
        time.sleep(0.05)
    note(f"after questions for {8 * 64 * 500} chunks: used {used()} of {LIMIT}")
    result(used() <= LIMIT, "the limit holds for questions")
    ranks[0].reset()
    result(until(lambda: used() == 0), "all of it is given back")
    sysctl("box_mem", 64 << 20)


def main():
    enter("rar3")
    sysctl("box_mem", 64 << 20)
    broadcasts()
    enter("rar0")
    ranks = both()
    for rank in ranks:
        rank.up(0, 5 + rank.rank)
    result(all(rank.sums().get(0) == (11,) * 4 for rank in ranks), "the box sums for the group")

    enter("rar3")
    before, nodes = used(), node_bytes()
    for i in range(1, MARKS + 1):
        ranks[0].up(i * APART, 1)
    until(lambda: node_bytes() - nodes >= MARKS * NODE_BYTES)
    grown, nodes = used() - before, node_bytes() - nodes
    note(f"{MARKS} chunks: used {grown} bytes more, nodes of tables {nodes}")
    result(nodes >= MARKS * NODE_BYTES, "chunks that are far apart need nodes")
    result(grown >= 2 * MARKS * NODE_BYTES, "the nodes are counted")

    sysctl("box_mem", LIMIT)
    nodes = node_bytes()
    for op in range(8):
        for i in range(NCHUNKS // APART):
            for rank in ranks:
                rank.up(i * APART + op, 1, op)
        time.sleep(0.05)
    nodes = node_bytes() - nodes
    note(f"then used {used()} of {LIMIT}, nodes of tables {nodes} more")
    result(used() <= LIMIT and nodes <= LIMIT + (LIMIT >> 1), "the limit holds")

    ranks[0].reset()
    result(until(lambda: used() == 0), "all of it is given back")
    levels()
    partial_sums()
    plain_box()
    enter("rar3")
    sysctl("box_mem", 0)
    finish()


if __name__ == "__main__":
    if not os.access("/proc/slabinfo", os.R_OK):
        skip_all("no /proc/slabinfo")
    main()
