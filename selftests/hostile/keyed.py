#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Packets of a keyed reduction that no member sends, thrown at rank 1: at a root, and at a rank
that sends a stream. Each is dropped for its reason, no record is lost or counted twice, and ranks
that disagree are named. Run by lib/in_topo.sh 3.
"""
import collections
import errno
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import live     # noqa: E402
from keyedring import I64, RECORD, REDUCE_BY_KEY, SLOTS, SUM, KeyedRing    # noqa: E402
from live import Log, counters, moved, note, result, rng    # noqa: E402
from rarpkt import DIRECT, DONE    # noqa: E402

EBADMSG_ROOT, EBADMSG_COUNT = 17, 16     # RAR_R_ROOT, RAR_R_COUNT
STREAM, FULL, OPEN, CE, ALL = 2, 4, 8, 0x10, 0x20
NONE = (1 << 64) - 1     # no chunk has come
LAST = 2
DIRECT_HEAD = ">QQQIHHBBBBI"


class Target(KeyedRing):
    """The members that packets are thrown at"""

    def collect(self):
        """The result at the root: as many records as there are keys, and no more."""
        got, s = collections.Counter(), self.fd[self.root]
        records = 0
        while records < len(self.sent):
            self.poll(s, live.select.POLLIN)
            data = s.recv(RECORD * 1000)
            records += len(data) // RECORD
            for key, value in struct.iter_unpack("=Qq", data):
                got[key] += value
        p = live.select.poll()
        p.register(s, live.select.POLLIN)
        got.update({"too many": 1} if p.poll(100) else {})
        return got

    def template(self, kind, srank, drank):
        """A packet of that way that was seen at rank 1."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for p in reversed(self.sniff()):
                if p.type == kind and p.srank == srank and p.drank == drank:
                    return p
            time.sleep(0.01)
        raise TimeoutError(f"no packet of type {kind}")


def chunk_of(p, data=None, **change):
    """A chunk of a stream with other fields; @data: its records."""
    names = ("complete", "op", "count", "chunk", "mode", "root", "collective", "dtype", "redop",
             "flags", "base")
    fields = dict(zip(names, struct.unpack(DIRECT_HEAD, p.payload[:40])))
    fields.update(change)
    data = p.payload[40:] if data is None else data
    return p.copy(payload=struct.pack(DIRECT_HEAD, *(fields[n] for n in names)) + data)


def field(p, at, size):
    return int.from_bytes(p.payload[at:at + size], "big")


def throw(ring, name, p, want):
    """Send a packet twice; @want: the drop that is counted."""
    before = counters()
    live.inject(ring, [p.frame()] * 2)
    end = time.monotonic() + 2
    while moved(before, counters()).get(want, 0) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    got = moved(before, counters()).get(want, 0)
    result(got >= 2, f"{name}: {want} {got}")


def at_root(ring):
    """Rank 1 is the root, and rank 2 is impersonated."""
    ring.begin()
    for rank in (0, 2):
        ring.give(rank, True)
    p = ring.template(DIRECT, 2, 1)
    size = len(p.payload) - 40
    records = rng.randbytes(size)
    top = max(field(q, 24, 4) for q in ring.sniff() if q.type == DIRECT and q.srank == 2)
    throw(ring, "a chunk again, other records", chunk_of(p, records), "RxDup")
    throw(ring, "far ahead", chunk_of(p, records, chunk=top + 200), "DropSeq")
    throw(ring, "far behind", chunk_of(p, records, chunk=(1 << 32) - 5), "RxDup")
    throw(ring, "half a record", chunk_of(p, records[:-RECORD // 2], chunk=top + 1), "DropLength")
    throw(ring, "a short chunk in the middle", chunk_of(p, records[:-RECORD], chunk=top + 1),
          "DropLength")
    throw(ring, "no records", chunk_of(p, b"", chunk=top + 1), "DropLength")
    throw(ring, "the last chunk before one that came", chunk_of(p, records, chunk=0, flags=LAST),
          "RxDup")
    throw(ring, "of the next operation", chunk_of(p, records, op=1), "DropEarlyFull")
    throw(ring, "of an operation in a year", chunk_of(p, records, op=1 << 50), "DropEarlyFull")
    for rank in (0, 1, 2):
        ring.give(rank, False)
    got = ring.collect()
    result(got == ring.sent, f"{sum(got.values())} in {len(got)} keys, as sent")
    throw(ring, "after the end", chunk_of(p, records), "RxDup")
    throw(ring, "after the end, of other operations", chunk_of(p, records, count=SLOTS + 1), "DropOp")


def done_of(p, chunk, lacks, flags, op=0):
    """A DONE from rank 0 to rank 1, made from a packet of that way."""
    return p.copy(type=DONE, payload=struct.pack(">QQQQII", 0, 0, op, lacks, flags, chunk))


def at_stream(ring):
    """Rank 1 sends a stream to rank 0, which is impersonated. No lie makes it forget a chunk."""
    ring.begin()
    ring.give(1, True)
    p = ring.template(DONE, 0, 1)
    live.inject(ring, [q.frame() for q in (
        done_of(p, 1 << 20, 0, STREAM), done_of(p, (1 << 32) - 1, 0, STREAM),
        done_of(p, 0, NONE, STREAM | ALL), done_of(p, 0, 0, STREAM | ALL, op=1),
        done_of(p, 0, 0, STREAM | ALL, op=1 << 50), done_of(p, 0, NONE, STREAM | FULL | OPEN | CE),
        done_of(p, 7, 0, 0xffffffff, op=9))])
    time.sleep(0.2)
    q = chunk_of(p.copy(type=DIRECT, payload=struct.pack(
        DIRECT_HEAD, 0, 0, SLOTS, 0, 1 << 9, 0, REDUCE_BY_KEY, I64, SUM, LAST, 0)), rng.randbytes(160))
    throw(ring, "a chunk for a rank that is not the root", q, "DropChunk")
    for rank in (0, 1, 2):
        ring.give(rank, False)
    got = ring.collect()
    result(got == ring.sent, f"{sum(got.values())} in {len(got)} keys, after false acknowledgments")


def news_from(ring, rank):
    """A DONE from a rank that has sent rank 1 nothing yet."""
    p = ring.template(DONE, 0, 1)
    address = live.address(rank)
    eth = next(q.eth for q in ring.sniff() if q.srank == rank and q.drank == 1)
    return p.copy(eth=eth, src=address, srank=rank,
                  payload=struct.pack(">QQQQII", 0, 0, 0, 0, STREAM, 0))


def disagreement(name, root, make, reason):
    """A packet of a rank that disagrees ends the group, and names both ranks."""
    ring = Target(root)
    ring.begin()
    for rank in (0, 1, 2):
        if rank != root:
            ring.give(rank, True)
    live.inject(ring, [make(ring).frame()])
    got = ring.failure(1)
    ok = got[0] == errno.EBADMSG and got[2] == reason and 1 in got[3:]
    result(ok, f"{name}: {got}")
    ring.close()


def main():
    log = Log()
    print("TAP version 13\n1..17", flush=True)
    note(f"SEED={os.environ.get('SEED', '1')}")
    for root, test in ((1, at_root), (0, at_stream)):
        ring = Target(root)
        test(ring)
        ring.close()
    disagreement("another number of records", 1,
                 lambda ring: chunk_of(ring.template(DIRECT, 2, 1), count=SLOTS + 1),
                 EBADMSG_COUNT)
    disagreement("two ranks take themselves for the root", 0,
                 lambda ring: news_from(ring, 2), EBADMSG_ROOT)
    bad = [line for line in log.lines() if "WARN" in line or "BUG" in line]
    result(not bad, f"nothing in the log {bad[:1]}")
    sys.exit(bool(live.tap_failed))


main()
