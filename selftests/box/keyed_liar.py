#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A box that breaks the rules towards the root of a keyed reduction.

The members are sockets of this process in rar0, rar1 and rar2, and the box is a part of this
program in rar3 (lib/in_topo.sh 4 box/keyed_liar.py). It sends the root batches that are malformed,
that come again, and of chunks that cannot be. Each is dropped or refused, and the sums are right.
"""
import collections
import os
import pathlib
import select
import socket
import struct
import sys
import time

LIB = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(LIB / "lib"), str(LIB / "hostile")]
import live                                                                 # noqa: E402
from keyedring import RECORD, SLOTS, KeyedRing                              # noqa: E402
from live import Log, counters, moved, note, result, rng                    # noqa: E402
from rarpkt import AG, BOX_RANK, ENTER, ENTERED, RS, VERSION, WANT, enter           # noqa: E402

RAR_BOX = 19
ROOT, N = 1, 3
KEYED = 8               # RAR_EF_KEYED
REFUSED, LAST = 1, 1    # RAR_WF_REFUSED, RAR_BF_LAST
HEAD = ">IIQQIHHBBBBI"
NAMES = ("seq", "batch", "op", "count", "chunk", "mode", "root", "collective", "dtype", "redop",
         "flags", "pieces")


class Box:
    """It lets the members in, and remembers what they send."""

    def __init__(self):
        enter("rar3")
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind(("10.77.0.4", 18118))
        self.s.setblocking(False)
        self.epoch = rng.getrandbits(63) | 1
        self.at, self.entered = {}, set()       # address by rank; ranks that have the epoch
        self.chunks, self.head = {}, None       # {(rank, chunk): records}, of one of them
        self.wants = {}                         # {number: (flags, map)}, the last answers
        self.taken = 0                          # batches that were taken before their chunks came
        self.number = 0

    def header(self, kind, rank, length, token):
        return struct.pack(">BBHHHQQ", VERSION, kind, BOX_RANK, rank, length - 24, self.group, token)

    def take(self, packet, address):
        """Answer a packet, or remember it."""
        kind, rank = packet[1], struct.unpack_from(">H", packet, 2)[0]
        if kind == ENTER:
            self.group, token = struct.unpack_from(">QQ", packet, 8)
            nonce, = struct.unpack_from(">Q", packet, 32)
            self.at[rank] = address
            epoch = self.epoch if len(self.at) == N else 0
            self.entered |= {rank} if epoch else set()
            body = struct.pack(">QQQII", nonce, 1000 + rank, epoch, KEYED, 0)
            self.s.sendto(self.header(ENTERED, rank, 56, token) + body, address)
        elif kind == RS:
            fields = dict(zip(NAMES, struct.unpack_from(HEAD, packet, 24)))
            self.head = fields
            self.chunks[rank, fields["chunk"]] = packet[64:]
            return rank, fields["chunk"]
        elif kind == WANT:
            _, number, _, flags = struct.unpack_from(">QIII", packet, 24)
            self.wants[number] = flags, struct.unpack_from("<Q", packet, 48)[0]
        return None

    def serve(self, until, seconds=5, each=lambda chunk: None):
        """Take packets until a condition holds. each(): called with each chunk that comes"""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            if not select.select([self.s], [], [], 0.02)[0]:
                continue
            chunk = self.take(*self.s.recvfrom(2048))
            if chunk:
                each(chunk)
        return until()

    def piece(self, number, index, pieces, data, token=None, rank=ROOT, **change):
        """Send a piece of a batch, with other fields."""
        fields = {**self.head, "seq": 0, "batch": number, "chunk": index, "pieces": pieces,
                  "flags": 0, **change}
        body = struct.pack(HEAD, *(fields[n] for n in NAMES))
        packet = self.header(AG, rank, 64 + len(data), token or self.epoch) + body + data
        self.s.sendto(packet, self.at[rank])

    def next_number(self):
        self.number += 1
        return self.number

    def batch(self, chunks, last=(), data=b""):
        """Send a batch in two pieces, or one without records. Return its number."""
        number = self.next_number()
        self.piece(number, 0, 2 if data else 1, rows(chunks, last))
        if data:
            self.piece(number, 1, 2, data)
        return number


def rows(chunks, last=()):
    """The list of a batch: {rank: (first, map)}"""
    return b"".join(struct.pack(">IIQ", chunks.get(r, (0, 0))[0], LAST if r in last else 0,
                                chunks.get(r, (0, 0))[1]) for r in range(N))


class Victims(KeyedRing):
    """Members with that box"""

    def __init__(self):
        super().__init__(ROOT, {RAR_BOX: live.sockaddr(3, 0)})

    def collect(self):
        """The result at the root"""
        got, s = collections.Counter(), self.fd[ROOT]
        while sum(got.values()) != sum(self.sent.values()):
            self.poll(s, select.POLLIN)
            for key, value in struct.iter_unpack("=Qq", s.recv(RECORD * 1000)):
                got[key] += value
        return got


def refused(box, name, *args, **how):
    """A batch that cannot be is refused."""
    number = box.batch(*args, **how)
    box.serve(lambda: number in box.wants, 3)
    result(box.wants.get(number) == (REFUSED, 0), f"refused: {name}: {box.wants.get(number)}")


def dropped(box, name, reason, **how):
    """A piece that cannot be is dropped."""
    before = counters()
    number = how.pop("number", None) or box.next_number()
    box.piece(number, how.pop("index", 0), how.pop("pieces", 2), how.pop("data", rows({})), **how)
    end = time.monotonic() + 3
    while reason not in moved(before, counters()) and time.monotonic() < end:
        time.sleep(0.01)
    result(reason in moved(before, counters()), f"{reason}: {name}: {moved(before, counters())}")


def take_one(ring, box):
    """Have the root take a batch. The box has to be quick, before the chunk goes to the root."""
    numbers = {}

    def each(chunk):
        rank, i = chunk
        numbers[box.batch({rank: (i, 1)}, data=box.chunks[chunk])] = chunk

    def some():
        return [n for n in numbers if box.wants.get(n) == (0, 0)]

    for _ in range(20):
        ring.give(0)
        if box.serve(some, 0.5, each):
            break
    got = some()
    result(got, f"a batch that is right is taken: {len(got)} of {len(numbers)}")
    return numbers[got[0]]


def lies(ring, box):
    """What the root says to lies"""
    rank, chunk = take_one(ring, box)
    data = box.chunks[rank, chunk]
    refused(box, "the same chunk again", {rank: (chunk, 1)}, data=data)
    ring.give(2)
    box.serve(lambda: (2, 0) in box.chunks)
    time.sleep(0.5)             # the chunks go to the root
    refused(box, "a chunk that came from its rank", {2: (0, 1)}, data=data)
    refused(box, "a chunk of the root", {ROOT: (0, 1)}, data=data)
    refused(box, "a chunk far ahead", {0: (1 << 20, 1)}, data=data)
    refused(box, "a chunk far behind", {0: ((1 << 32) - 9, 1)}, data=data)
    refused(box, "many chunks, one of which came", {2: (0, (1 << 63) - 1)}, data=data)
    refused(box, "an end before chunks that came", {2: (0, 1)}, (2,), data=data)
    number = box.next_number()
    dropped(box, "a list that is short", "DropLength", number=number, data=rows({})[:-1])
    dropped(box, "half a record", "DropLength", index=1, data=data[:RECORD // 2])
    dropped(box, "no records", "DropLength", index=1, data=b"")
    dropped(box, "a short piece in the middle", "DropLength", index=1, pieces=3, data=data[:RECORD])
    dropped(box, "a piece beyond the last", "DropLength", index=2, data=data)
    dropped(box, "no pieces", "DropLength", pieces=0)
    dropped(box, "too many pieces", "DropChunk", pieces=1 << 31)
    dropped(box, "the next operation", "DropEarlyFull", op=1)
    dropped(box, "another number of records", "DropOp", count=SLOTS + 1)
    newest = box.next_number()
    box.piece(newest, 1, 2, data)       # it lacks its list
    result(box.serve(lambda: newest in box.wants, 3) and box.wants[newest] == (0, 1),
           f"a list that is missing is asked for: {box.wants.get(newest)}")
    dropped(box, "an older batch", "DropSeq", number=number)
    box.piece(newest + 1, 0, 2, rows({ROOT: (0, 1)}))
    box.piece(newest + 2, 1, 2, data)   # it does not complete the batch before it
    box.number = newest + 2
    result(box.serve(lambda: newest + 2 in box.wants, 3) and newest + 1 not in box.wants,
           "pieces of two batches make none")
    dropped(box, "another epoch", "DropEpoch", token=box.epoch ^ 2)


def main():
    log = Log()
    print("TAP version 13", flush=True)
    note(f"SEED={os.environ.get('SEED', '1')}")
    box = Box()
    ring = Victims()
    result(box.serve(lambda: len(box.entered) == N, 20), "the members come to the box")
    ring.begin()
    lies(ring, box)
    for rank in range(N):
        ring.give(rank, more=False)
    got = ring.collect()
    result(got == ring.sent, f"{sum(got.values())} in {len(got)} keys, as sent")
    number = box.batch({0: (0, 1)}, data=box.chunks[0, 0])
    result(box.serve(lambda: number in box.wants, 3), "a batch after the end is answered")
    ring.close()
    bad = [line for line in log.lines() if "WARN" in line or "BUG" in line]
    result(not bad, f"nothing in the log {bad[:1]}")
    print(f"1..{live.tap_nr}", flush=True)
    sys.exit(bool(live.tap_failed))


main()
