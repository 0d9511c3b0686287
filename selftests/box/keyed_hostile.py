#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A group that exists only in this program has a box combine records, and breaks the rules.

The members are in the namespace rar0, the box is in rar3 (lib/in_topo.sh 4 box/keyed_hostile.py).
What comes to the root is compared with what was sent: a chunk is in a batch once or not at all, and
all that is not in one is returned. Memory is limited, whatever comes.
"""
import collections
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from boxleg import BY_KEY, I64, SUM, Group, Leg, enter_all, mib, until, used
from rarpkt import AG, RETURN, enter, sysctl
from tap import finish, note, result

PAYLOAD = 256
RECORD = 16
PER = PAYLOAD // RECORD
MAX = 63 * PER                  # records of a batch
SIZE, ROOT = 3, 0
GROUP = Group(0x5ca77e2ee, 78, SIZE, PAYLOAD)
ACK_NOW, LAST = 1, 2
REFUSED = 1
LIMIT = 1 << 20
QUIET = 0.15                    # seconds without a packet: nothing follows
TRIES = 10
FORGOTTEN = 1.2                 # seconds after which the box forgets an operation


class Member(Leg):
    """A rank with a leg to the box"""

    def __init__(self, rank):
        super().__init__(GROUP, rank, quiet=QUIET)

    def give(self, op, chunk, records, flags=0, root=ROOT, key=1, rank=None, cut=0):
        """Send a chunk of records, (key, value) each; cut: bytes that are left out."""
        data = b"".join(struct.pack("<Qq", *r) for r in records)
        self.contribute(op, chunk, 100000, (BY_KEY, I64, SUM), data[:len(data) - cut], numbers=0,
                        root=root, mode=key << 9, flags=flags, rank=rank)

    def batches(self):
        """{number: {piece: content}} of what has come"""
        out = collections.defaultdict(dict)
        for p in self.came(AG):
            chunk = struct.unpack_from(">I", p, 48)[0]
            out[struct.unpack_from(">I", p, 28)[0]][chunk] = p[64:]
        return out

    def batch(self):
        """The number and pieces of the next batch, at once: the box does not wait long"""
        out = {}
        self.s.settimeout(5)
        while not out or len(out) < pieces:
            p = self.s.recv(2048)
            if p[1] == AG:
                number, = struct.unpack_from(">I", p, 28)
                pieces, = struct.unpack_from(">I", p, 60)
                out[struct.unpack_from(">I", p, 48)[0]] = p[64:]
        self.s.settimeout(QUIET)
        return number, out


def chunks_of(pieces):
    """{(rank, chunk)} in the list of a batch, and the ranks of which it has the last"""
    out, last = set(), set()
    for rank in range(SIZE):
        first, flags, bits = struct.unpack_from(">IIQ", pieces[0], 16 * rank)
        out |= {(rank, first + i) for i in range(64) if bits >> i & 1}
        last |= {rank} if flags else set()
    return out, last


def records_of(pieces):
    return [r for i in sorted(pieces) if i for r in struct.iter_unpack("<Qq", pieces[i])]


def total(records):
    out = collections.Counter()
    for key, value in records:
        out[key] += value
    return out


def together(root, first, gives, chunks):
    """Have the box combine chunks in one batch, as it does if they come soon after each other.

    gives: for each chunk a member and what to give for an operation; chunks: those of the batch.
    On a slow machine some may come too late: then the next operation is tried.
    Returns the operation, and the number and pieces of the batch.
    """
    for op in range(first, first + TRIES):
        for member, *args in gives:
            member.give(op, *args)
        number, pieces = root.batch()
        if chunks_of(pieces)[0] == chunks:
            break
        note(f"operation {op}: some chunks came too late")
        time.sleep(FORGOTTEN)
        root.came(AG)
        for member in (root, *(m for m, *_ in gives)):
            member.came(RETURN)
    return op, number, pieces


def right(root, a, b):
    """Two ranks with a key in common; a chunk that comes again"""
    some, others = [(1, 5), (2, 6), (1, 7)], [(1, 100), (3, -4)]
    op, number, pieces = together(root, 100, [(a, 0, some, LAST), (a, 0, some, LAST),
                                              (b, 0, others, LAST)], {(1, 0), (2, 0)})
    result(chunks_of(pieces) == ({(1, 0), (2, 0)}, {1, 2}),
           "a batch has both chunks, the last ones")
    result(set(root.batches()) <= {number}, "there is no other batch")
    got = records_of(pieces)
    result(len(got) == 3 and total(got) == total(some + others), "each record once, combined")
    before = mib("BoxBatches")
    a.want(op, number)
    root.want(op, number + 1)
    root.want(op + 1, number)
    time.sleep(0.02)
    result(mib("BoxBatches") == before, "answers of others, and about others, do not count")
    a.give(op, 1, some, LAST | ACK_NOW)
    root.batches()
    result(a.returned() >= {(op, 0)} and (op, 0) in b.returned(),
           "a batch that the root does not answer is returned")


def answers(root, a, b):
    """What the root says to a batch"""
    records = [(i, i) for i in range(PER)]
    op, number, pieces = together(root, 200, [(a, 0, records), (b, 7, records, LAST),
                                              (a, 1, records[:3], LAST)],
                                  {(1, 0), (1, 1), (2, 7)})
    root.want(op, number, 2 | 1 << 40)
    again = root.s.recv(2048)
    root.want(op, number, 0, REFUSED)
    result(again[1] == AG and again[64:] == pieces[1], "a piece that is lost comes again")
    result(a.returned() == {(op, 0), (op, 1)} and b.returned() == {(op, 7)},
           "a batch that is refused is returned, chunk by chunk")
    before = mib("BoxBatches")
    a.give(op, 2, records, ACK_NOW)
    number, pieces = root.batch()
    root.want(op, number)
    result(chunks_of(pieces)[0] == {(1, 2)}, "a chunk after the last one goes on")
    result(until(lambda: mib("BoxBatches") == before + 1, 2), "a batch that was taken is counted")
    result(not a.returned(), "and not returned")


def wrong(root, a, b):
    """Chunks that cannot be"""
    records = [(i, 1) for i in range(PER)]
    for what, args in (("half a record", {"cut": 8, "flags": LAST}),
                       ("a short chunk that is not the last", {"cut": RECORD})):
        before = mib("DropChunk")
        a.give(2, 0, records, **args)
        result(until(lambda was=before: mib("DropChunk") > was, 2), what)
    before = mib("DropRank")
    a.give(2, 0, records, rank=7)
    result(until(lambda: mib("DropRank") > before, 2), "a rank that is beyond the group")
    root.give(2, 0, records)
    result(root.returned() == {(2, 0)}, "records of the root are returned")
    a.give(3, 0, records, root=9)
    result((3, 0) in a.returned(), "so are those for a root that is beyond the group")
    a.give(2, 0, records)
    b.give(2, 0, records, key=2)
    result(b.returned() == {(2, 0)}, "and those of ranks that disagree")
    for chunk in (1000, 0, 1 << 31, 0xffffffff):
        b.give(2, chunk, records)
    found = root.batches()
    got = [c for p in found.values() for c in chunks_of(p)[0]]
    result(len(got) == len(set(got)), "chunks that are far apart are in one batch at most")
    result(all(total(records_of(p)) == total(records * len(chunks_of(p)[0]))
               for p in found.values()), "with all their records")


def too_much(root, a, b):
    """More keys than a batch has room for, and a root that does not answer; many operations"""
    sent, key = {}, 0
    for chunk in range(60):
        for rank in (a, b):
            sent[rank.rank, chunk] = [(key + i, 1) for i in range(PER)]
            key += PER
            rank.give(4, chunk, sent[rank.rank, chunk])
    found = root.batches()
    first = min(found)
    listed = chunks_of(found[first])[0]
    got = records_of(found[first])
    note(f"{len(listed)} chunks, {len(got)} records")
    result(total(got) == total(r for c in listed for r in sent[c]) and len(got) <= MAX,
           "the first batch has the records of its chunks")
    enter("rar3")
    result(used() <= LIMIT, f"the limit holds: {used()}")
    enter("rar0")
    back = {(a.rank, c) for op, c in a.returned() if op == 4}
    back |= {(b.rank, c) for op, c in b.returned() if op == 4}
    for pieces in found.values():
        back |= chunks_of(pieces)[0]
    result(back == set(sent), "each chunk is in a batch or is returned")
    for op in range(20, 40):
        a.give(op, 0, sent[1, 0])
    refused = a.returned()
    enter("rar3")
    result(len(refused) >= 16 and used() <= LIMIT, "many operations at a time are returned")
    enter("rar0")


def main():
    enter("rar3")
    sysctl("box_mem", LIMIT)
    enter("rar0")
    root, a, b = ranks = enter_all([Member(rank) for rank in range(SIZE)])
    for step in (right, answers, wrong, too_much):
        step(*ranks)
        enter("rar0")
        time.sleep(0.2)         # until nothing of the step is under way
        for rank in ranks:
            rank.came(RETURN)
    root.reset()
    enter("rar3")
    result(until(lambda: used() == 0), "all of it is given back")
    sysctl("box_mem", 0)
    finish()


if __name__ == "__main__":
    main()
