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
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from rarpkt import (AG, BOX_RANK, ENTER, ENTERED, LOWER_RANK, RESET, RETURN, RS, enter, sysctl,
                    tables)
from tap import finish, note, result, skip_all

BOX = "10.77.0.4", 18118
GROUP, EPOCH = 0x5ca77e2ed, 77
PAYLOAD = 16
APART = 4096                    # chunks of one leaf and of one node above it
NCHUNKS = 1 << 22
MARKS = 300                     # while there is room for all
F32, I32, SUM, ALLREDUCE, BROADCAST, REDUCE = 1, 3, 1, 1, 2, 3
ANY_ORDER, IN_TURN = 1, 16      # RAR_EF_*
LIMIT = 1 << 20
NODE = "radix_tree_node"        # the slab cache of the box's tables
NODE_BYTES = 576


class Rank:
    """A rank with a leg to the box; or a box below it, with a mask of ranks"""

    def __init__(self, rank, size=2, ranks=0, group=GROUP, flags=0):
        self.rank, self.seq, self.epoch, self.cookie, self.entered = rank, 0, 0, 0, b""
        self.size, self.ranks, self.group, self.flags = size, ranks, group, flags
        self.told = 0
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.settimeout(0.3)
        self.s.connect(BOX)

    def header(self, kind, token, length):
        return struct.pack(">BBHHHQQ", 0xa1, kind, self.rank, BOX_RANK, length - 24, self.group,
                           token)

    def enter(self):
        """Ask; learn the cookie, or the leg's epoch."""
        body = struct.pack(">QQQIHHQI", 1, 100 + self.rank, self.cookie, PAYLOAD, self.size, 0,
                           self.ranks, self.flags)
        self.s.send((self.header(ENTER, EPOCH, 80) + body).ljust(80, b"\0"))
        try:
            packet = self.s.recv(2048)
        except TimeoutError:
            return
        if packet[1] == ENTERED:
            self.cookie, self.epoch, self.told = struct.unpack_from(">QQI", packet, 32)
            self.entered = packet

    def up(self, chunk, value, op=0):
        """Send a contribution."""
        body = struct.pack(">IIQQIBBBBHBBI", self.seq, self.seq, op, NCHUNKS * PAYLOAD // 4,
                           chunk, ALLREDUCE, I32, SUM, 0, 0, 0, 128, 0)
        self.s.send(self.header(RS, self.epoch, 80) + body + struct.pack("<4i", *[value] * 4))
        self.seq += 1

    def floats(self, value, turn=0, op=0, dtype=F32):
        """Contribute a partial sum, to which turn ranks have added; or without a value, ask."""
        body = struct.pack(">IIQQIBBBBHBBI", self.seq, self.seq, op, NCHUNKS * PAYLOAD // 4, 0,
                           ALLREDUCE, dtype, SUM, 0, 0, 0, 128, turn)
        data = b"" if value is None else struct.pack("<4f", *[value] * 4)
        self.s.send(self.header(RS, self.epoch, 64 + len(data)) + body + data)
        self.seq += 1

    def cast(self, chunk, n, op=0, root=0, count=NCHUNKS * PAYLOAD // 4, value=None):
        """Ask for n chunks of a broadcast; or, with a value, contribute one."""
        body = struct.pack(">IIQQIBBBBHBBI", self.seq, self.seq, op, count, chunk, BROADCAST, I32,
                           SUM, 0, root, 0, 128, 0 if value is not None else n & 0xffffffff)
        data = b"" if value is None else struct.pack("<4i", *[value] * 4)
        self.s.send(self.header(RS, self.epoch, 64 + len(data)) + body + data)
        self.seq += n if 0 < n <= 64 else 1

    def reduce(self, chunk, value, op, root):
        """Contribute to a reduction to a root."""
        body = struct.pack(">IIQQIBBBBHBBI", self.seq, self.seq, op, NCHUNKS * PAYLOAD // 4, chunk,
                           REDUCE, I32, SUM, 0, root, 0, 128, 0)
        self.s.send(self.header(RS, self.epoch, 80) + body + struct.pack("<4i", *[value] * 4))
        self.seq += 1

    def came(self, kind=AG):
        """The packets of a kind that have come"""
        out = []
        while True:
            try:
                packet = self.s.recv(2048)
            except TimeoutError:
                return out
            if packet[1] == kind:
                out.append(packet)

    def answers(self):
        """[(first number, chunks of a header without payload, elements)] of packets that have come"""
        return [(struct.unpack_from(">I", packet, 24)[0], struct.unpack_from(">I", packet, 60)[0],
                 struct.unpack_from(f"<{len(packet[64:80]) // 4}i", packet, 64))
                for packet in self.came()]

    def partial_sums(self, kind=RS):
        """[(ranks that have added, elements)] of packets that have come"""
        return [(struct.unpack_from(">I", packet, 60)[0], struct.unpack_from("<4f", packet, 64))
                for packet in self.came(kind)]

    def sums(self):
        """The sums that have come: {chunk: elements}"""
        return {struct.unpack_from(">I", packet, 48)[0]: struct.unpack_from("<4i", packet, 64)
                for packet in self.came()}


def used():
    """Bytes of the box that are in use, by its own account"""
    with open("/proc/thread-self/net/rar_box") as f:
        return int(f.readline().split()[3])


def node_bytes():
    """Bytes of all tables of the kernel"""
    with open("/proc/slabinfo") as f:
        return next(int(line.split()[1]) * NODE_BYTES for line in f if line.startswith(NODE))


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def group():
    """Both ranks enter."""
    ranks = [Rank(0), Rank(1)]
    for _ in range(20):
        for rank in ranks:
            if not rank.epoch:
                rank.enter()
        if all(rank.epoch for rank in ranks):
            break
    return ranks


def mib(name):
    """A counter of the box"""
    enter("rar3")
    return tables("rar_netstat")["Rar" + name]


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
    group = 3, 0, GROUP + 1
    enter("rar0")
    alone = Rank(2, *group)
    alone.enter()
    alone.enter()
    for what, counter, first, ranks in (
            ("a rank that is beyond the group", "DropLength", 0, 0b1001),
            ("a rank that is not the lowest of its ranks", "DropLength", 1, 0b011),
            ("all ranks", "DropLength", 0, 0b111),
            ("a rank that has come itself", "JoinsRefused", 0, 0b101)):
        result(refused(counter, LOWER_RANK + first, 3, ranks, GROUP + 1), f"a box below for {what}")
    enter("rar0")
    below = Rank(LOWER_RANK, 3, 0b011, GROUP + 1)
    for rank in (below, below, alone):
        rank.enter()
    below.up(0, 30)
    alone.up(0, 4)
    result(all(rank.sums().get(0) == (34,) * 4 for rank in (below, alone)), "a right box below")
    before = mib("DropRank")
    alone.s.send(alone.header(RETURN, alone.epoch, 80) + bytes(56))
    result(until(lambda: mib("DropRank") > before, 2), "RETURN of a member is refused")


def partial_sums():
    """A group of three, of which the first and the last are at a box below. Floats"""
    enter("rar0")
    alone = Rank(1, 3, 0, GROUP + 2)
    below = Rank(LOWER_RANK, 3, 0b101, GROUP + 2, IN_TURN)
    for rank in (alone, alone, below, below, alone):
        rank.enter()
    result(alone.told == below.told == IN_TURN, "partial sums go from box to box")
    for turn, what in ((2, "a rank of others"), (3, "all ranks"), (4, "more ranks than there are"),
                       (0xffffffff, "more ranks than there can be"), (0, "no rank")):
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


def older_box():
    """The box below does not know partial sums."""
    enter("rar0")
    alone = Rank(1, 3, 0, GROUP + 3)
    below = Rank(LOWER_RANK, 3, 0b101, GROUP + 3)
    for rank in (alone, alone, below, below, alone):
        rank.enter()
    result(alone.told == below.told == ANY_ORDER, "a box below of an earlier version")
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
    root, other = ranks = group()
    for n, what in ((0, "no chunk"), (65, "more than a run"), (0xffffffff, "more than there are numbers"),
                    (64, "chunks beyond the last")):
        before = mib("DropChunk")
        other.cast(0, n, count=63 * PAYLOAD // 4)
        result(until(lambda was=before: mib("DropChunk") > was, 2), f"a question for {what}")
    other.cast(0, 3, 1)
    result(not root.answers() and not other.answers(), "a question waits for the root")
    first = other.seq - 3
    for chunk in range(3):
        root.cast(chunk, 1, 1, value=7 + chunk)
    got = {number: data for number, n, data in other.answers()}
    result(got == {first + i: (7 + i,) * 4 for i in range(3)}, "it gets the root's chunks")
    result([(number, n, data) for number, n, data in root.answers()] ==
           [(i, 1, ()) for i in range(3)], "the root gets headers, once for each chunk")
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
    ranks[0].s.send(ranks[0].header(RESET, ranks[0].epoch, 24))
    result(until(lambda: used() == 0), "all of it is given back")
    sysctl("box_mem", 64 << 20)


def main():
    enter("rar3")
    sysctl("box_mem", 64 << 20)
    broadcasts()
    enter("rar0")
    ranks = group()
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

    ranks[0].s.send(ranks[0].header(RESET, ranks[0].epoch, 24))
    result(until(lambda: used() == 0), "all of it is given back")
    levels()
    partial_sums()
    older_box()
    enter("rar3")
    sysctl("box_mem", 0)
    finish()


if __name__ == "__main__":
    if not os.access("/proc/slabinfo", os.R_OK):
        skip_all("no /proc/slabinfo")
    main()
