#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Mutants of real packets are injected into running rings.

fuzz_packets.py [SECONDS]

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. The program
"ring" runs again and again: IPv4 and IPv6, both receive paths, with and without
superpackets. The ports of the bridge show all packets, and mutants are sent to the
packets' destinations. There are three classes:

outsider   packets that a host off the path or a broken device can send: another
           token, a flipped bit, a cut, a fragment, options, a duplicate, a late copy,
           parts of a superpacket in any order. Every run must succeed.
insider    the token is right and any header field may be wrong, except the fields
           that say which chunk the payload is. A run may fail, or stall until it is
           killed, but a sum that is delivered is right.
vandal     as insider, but any field may be wrong. A run may end in any way.

The kernel must never complain, and in the end no member and no memory is left. With
RAR_FUZZ_BOX in the environment the ranks use an aggregation box in the namespace rar3. With
RAR_SECURITY=auth the groups have seals. Insiders and vandals have the key: each mutant of theirs
has a right tag, and a counter that was not used yet. Outsiders repeat seals, or make them up.
"""
import os
import pathlib
import random
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from rarpkt import (ABORT, ACK, AG, BOX_RANK, COLLECT, COMMIT, DIRECT, DONE, ENTER, ENTERED, FIN,
                    FIN_ACK, JOIN, JOIN_ACK, LATE, OFFER, PAIR, PAIR_ACK, PEER_ACK, PROBE, PROPOSE,
                    RAIL, REJECT, RESET, RETURN, RS, WANT, Packet, enter, sysctl, tables)
from seal import TAIL, join_key, join_tag, key_of, tag_of
from tap import finish, get_seed, note, result

N = 3
SECRET = b"a key that all ranks of it have\0"       # of rar_set_security() in lib/rar_util.c
SEALED = os.environ.get("RAR_SECURITY") == "auth"
BOX = "RAR_FUZZ_BOX" in os.environ
HOSTS = N + BOX         # the box is in a namespace of its own
KEEP = 60               # packets of each type and destination
OUTSIDER, INSIDER, VANDAL = "outsider", "insider", "vandal"
WRONG = re.compile(r"is [0-9a-f]+, not [0-9a-f]+$|wrong bits|rank 0 differ$", re.M)

# Fields after the common header: (offset, bytes).
SLOW_FIELDS = [(0, 8), (8, 4), (12, 2), (14, 2)]
ACK_FIELDS = [(0, 4), (4, 4), (8, 8)] + [(at, 4) for at in range(16, 40, 4)] + \
    [(40 + at, n) for at, n in SLOW_FIELDS] + [(56 + i, 1) for i in range(32)]
PROBE_FIELDS = [(0, 4), (4, 4)] + [(8 + at, n) for at, n in SLOW_FIELDS]
JOIN_FIELDS = [(0, 8), (8, 4), (12, 4), (16, 2), (18, 2), (20, 4)]
TABLE_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 4), (36, 2), (38, 2), (40, 2), (42, 2)] + \
    [(44 + 4 * i, 4) for i in range(21)] + \
    [(128 + 32 * m + at, n) for m in range(N)
     for at, n in ((0, 8), (8, 4), (24, 2), (26, 2), (28, 2), (30, 2))]
# Not op_seq and chunk: an insider may send right data in a wrong place.
DIRECT_FIELDS = [(0, 8), (16, 8), (28, 2), (30, 2)] + [(at, 1) for at in range(32, 36)] + [(36, 4)]
DONE_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 4), (36, 4)]
PAIR_FIELDS = [(0, 8), (8, 4), (12, 4)]
CHUNKS_FIELDS = [(0, 8), (8, 4), (12, 4), (16, 4), (20, 4)] + [(24 + i, 1) for i in range(32)]
ENTER_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 4), (28, 2), (30, 2), (32, 8), (40, 4), (44, 4)]
NOTICE_FIELDS = [(0, 4), (4, 4), (8, 4), (12, 4), (16, 8), (24, 4)]
FIELDS = {
    ACK: ACK_FIELDS, PROBE: PROBE_FIELDS, JOIN: JOIN_FIELDS, JOIN_ACK: JOIN_FIELDS,
    COLLECT: TABLE_FIELDS, PROPOSE: TABLE_FIELDS, COMMIT: TABLE_FIELDS,
    REJECT: NOTICE_FIELDS, ABORT: NOTICE_FIELDS, FIN: NOTICE_FIELDS,
    FIN_ACK: NOTICE_FIELDS, LATE: NOTICE_FIELDS, DIRECT: DIRECT_FIELDS, DONE: DONE_FIELDS,
    PEER_ACK: ACK_FIELDS, RAIL: [(0, 1), (1, 1), (2, 2)] + [(8 + i, 1) for i in range(112)],
    PAIR: PAIR_FIELDS, PAIR_ACK: PAIR_FIELDS, WANT: CHUNKS_FIELDS, RETURN: CHUNKS_FIELDS,
    ENTER: ENTER_FIELDS, ENTERED: ENTER_FIELDS[:4], OFFER: [(0, 16), (16, 2), (18, 2), (20, 4)],
}
SOL_PACKET, PACKET_VNET_HDR = 263, 15
WHOLE = 0x08            # RAR_F_WHOLE
ALONE = bytes(10)       # struct virtio_net_hdr of a single packet
TYPES = list(FIELDS) + [RS, AG, RESET]
# Answers to packets whose token may be wrong. They carry a token that a mutant brought, too.
ANSWERS = (RESET, JOIN_ACK, REJECT, PAIR_ACK, ENTERED, OFFER)
# Fields of the data header with their widths; IDENTITY says which chunk it is.
DATA_BITS = {"seq": 32, "una": 32, "op": 64, "count": 64, "chunk": 32, "mode": 16,
             "root": 16, "collective": 8, "dtype": 8, "redop": 8, "flags": 8, "prio": 8,
             "chunks": 8, "ranks": 16}
IDENTITY = ("op", "chunk")

rng = random.Random()


# ------------------------------------------------------------------ values

def other(value, bits):
    """Another value for a field: at its borders, near its value, or far."""
    top = (1 << bits) - 1
    value = rng.choice((
        0, 1, top, top >> 1, 1 << (bits - 1), value + 1, value - 1,
        value ^ 1 << rng.randrange(bits), rng.getrandbits(bits),
        value + rng.randrange(16384), value - rng.randrange(16384), rng.randrange(8)))
    return value & top


def change_field(p):
    """Change a field of the header of the packet's type."""
    fields = [f for f in FIELDS.get(p.type, ()) if sum(f) <= len(p.payload)]
    if not fields:
        return
    at, n = rng.choice(fields)
    value = other(int.from_bytes(p.payload[at:at + n], "big"), 8 * n)
    p.payload = p.payload[:at] + value.to_bytes(n, "big") + p.payload[at + n:]


def change_data(p, vandal):
    name = rng.choice([f for f in DATA_BITS if vandal or f not in IDENTITY])
    setattr(p, name, other(getattr(p, name), DATA_BITS[name]))


def change_common(p, vandal):
    what = rng.randrange(6)
    if what == 0:
        p.version = other(p.version, 8)
    elif what == 1 and (vandal or p.type not in (RS, AG)):
        retype(p, rng.choice(TYPES) if rng.randrange(4) else rng.randrange(256), vandal)
    elif what == 2:
        p.srank = other(p.srank, 16) if rng.randrange(3) else rng.randrange(N)
    elif what == 3:
        p.drank = other(p.drank, 16) if rng.randrange(3) else rng.randrange(N)
    elif what == 4:
        p.len_extra = rng.choice((-24, -4, -1, 1, 4, 100, 65535 - 2000))
    else:
        p.group = other(p.group, 64)


def retype(p, new, vandal):
    """Change the packet's type; only a vandal makes RS and AG of other types."""
    if new in (RS, AG) and not vandal:
        new = RESET
    if p.type in (RS, AG) and new not in (RS, AG):
        p.payload = p.payload[:rng.choice((0, 8, 24, 32, 72, 104, 200))]
    if p.type not in (RS, AG) and new in (RS, AG):
        for name in DATA_BITS:
            setattr(p, name, rng.choice((0, 1, rng.getrandbits(DATA_BITS[name]))))
    p.type = new


def notice(p, new):
    """A forged ABORT, FIN, LATE ..."""
    q = plain(p)
    q.type = new
    q.payload = struct.pack(">IIIIQII16x", rng.choice((104, 110, 74, other(104, 32))),
                            rng.randrange(24), rng.randrange(4), rng.randrange(4),
                            other(5, 64), rng.randrange(10000), 0)
    return q


def plain(p):
    return Packet(**{k: v for k, v in p.__dict__.items() if k not in Packet.DATA})


# ------------------------------------------------------------------ mutants

def insider(p, vandal):
    """A packet with the right token and other fields wrong."""
    if not rng.randrange(12):
        p = notice(p, rng.choice((ABORT, FIN, FIN_ACK, LATE, REJECT, RESET)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not rng.randrange(5):
            change_common(p, vandal)
        elif p.type in (RS, AG):
            change_data(p, vandal)
        else:
            change_field(p)
    if vandal and not rng.randrange(3):
        p.payload = rng.choice((p.payload[:rng.randrange(len(p.payload) + 1)],
                                p.payload + rng.randbytes(rng.randrange(64)),
                                rng.randbytes(len(p.payload))))
    return [p.frame()]


def other_token(token, seen):
    """A token that no rank knows; 0 is no secret."""
    wrong = token
    while wrong == token or wrong in seen.tokens:
        wrong = rng.choice((0, token ^ 1 << rng.randrange(64), rng.getrandbits(64),
                            token & 0xffffffff, *seen.old))
    return wrong


def wrong_token(p, seen):
    """A packet with any changes, and a token that is not the receiver's."""
    token = other_token(p.token, seen)
    for _ in range(rng.randrange(4)):
        rng.choice((lambda: change_common(p, True),
                    lambda: change_data(p, True) if p.type in (RS, AG)
                    else change_field(p)))()
    if not rng.randrange(4):
        p = notice(p, rng.choice((ABORT, FIN, FIN_ACK, LATE, REJECT, RESET, JOIN)))
    p.token = token
    return [p.frame()]


def flipped(frame, first):
    """Flip a bit after the link header, without correcting checksums."""
    at = rng.randrange(first, len(frame))
    return frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1:]


def damaged(p):
    """A packet as damaged by a broken device, an odd router or a simple attacker."""
    what = rng.randrange(9)
    frame = p.frame()
    if what == 0:
        return [flipped(frame, 14)]
    if what == 1:
        return [frame[:rng.randrange(15, len(frame))]]
    if what == 2 and len(p.udp()) > 520:
        parts = p.fragments(rng.randrange(1, 65536))
        rng.shuffle(parts)
        return parts[:rng.randrange(1, 3)]
    if what == 3 and not p.v6:
        p.options = rng.choice((b"\1\1\1\1", b"\x94\4\0\0", rng.randbytes(8)))
        return [p.frame()]
    if what == 4 and p.v6:
        p.ext = [(rng.choice((0, 60, 43)), b"\0\0\1\4\0\0\0\0")]
        return [p.frame()]
    if what == 5:
        p.check = rng.choice(("bad", "zero"))
        return [p.frame()]
    if what == 6:
        p.src = p.src[:-1] + bytes([rng.randrange(100, 250)])
        return [p.frame()] if p.type != JOIN else []
    if what == 7:
        p.trailer = rng.randbytes(rng.randrange(1, 40))
        return [p.frame()]
    return [frame] * rng.randrange(1, 4)


def outsider(p, seen):
    return wrong_token(p, seen) if rng.randrange(3) else damaged(p)


# ------------------------------------------------------------------ superpackets

def cut_out(segs):
    """Some consecutive segments."""
    first = rng.randrange(len(segs))
    return segs[first:first + rng.randrange(1, len(segs) + 1)]


def rearranged(segs):
    """The segments in another order or number; all except the last are equally long."""
    what = rng.randrange(4)
    if what == 0:
        return cut_out(segs)
    if what == 1:
        first = cut_out(segs)
        return first[:-1] + cut_out(segs) if len(first) > 1 else segs
    if what == 2:
        return rng.sample(segs[:-1], len(segs) - 1) + segs[-1:]
    return segs


def super_outsider(segs, size, seen):
    segs = rearranged([s.copy() for s in segs])
    if rng.randrange(3):
        some = rng.choice((1.0, 0.5, 0.05))
        for s in segs:
            if rng.random() < some:
                s.token = other_token(s.token, seen)
    return segs, size


def super_insider(segs, size, vandal):
    segs = rearranged([s.copy() for s in segs])
    for _ in range(rng.choice((1, 1, 2, 8))):
        s = rng.choice(segs)
        if rng.randrange(3) and s.type in (RS, AG):
            change_data(s, vandal)
        elif rng.randrange(3):
            change_field(s)
        else:
            change_common(s, vandal)
        if vandal and not rng.randrange(4):
            s.payload = rng.choice((s.payload[:rng.randrange(len(s.payload) + 1)],
                                    rng.randbytes(len(s.payload))))
    if vandal and not rng.randrange(4):
        size = rng.choice((1, 63, 64, size - 1, size + 1, size // 2, 2 * size, 65535))
    return segs, size


def carrier_mutant(p, size, kind, seen):
    """It never counts as a carrier: what a socket injects says how many segments it has."""
    p = p.copy()
    if kind == OUTSIDER:
        p.token = other_token(p.token, seen)
    elif rng.randrange(3):
        change_data(p, kind == VANDAL)
    else:
        change_common(p, kind == VANDAL)
    return [p.superpacket([p], size)]


def super_mutant(frame, size, kind, seen):
    whole = sealer.strip(Packet.parse(frame), kind)
    if getattr(whole, "flags", 0) & WHOLE:
        return carrier_mutant(whole, size, kind, seen)
    segs = [sealer.strip(s, kind) for s in Packet.segments(frame, size)]
    if kind == OUTSIDER:
        segs, size = super_outsider(segs, size, seen)
    else:
        segs, size = super_insider(segs, size, kind == VANDAL)
    # More than an IP packet can hold is no packet.
    while len(segs) > 1 and sum(len(s.rar()) for s in segs) > 65000:
        segs.pop()
    if rng.randrange(4):
        return [segs[0].superpacket(segs, size)]
    return [ALONE + s.frame() for s in segs]


# ------------------------------------------------------------------ seals

class Sealer:
    """Makes the seals of mutants with the key of the group, which it learns from the packets."""

    def __init__(self):
        self.nonces = {}    # of the ranks, by group
        self.epochs = set()
        self.counters = {}  # the highest of each direction
        self.keys = {}

    def learn(self, p, tail):
        if p.type == PROPOSE and len(p.payload) >= 128 + 32 * N:
            self.nonces[p.group] = [struct.unpack_from(">Q", p.payload, 128 + 32 * r)[0]
                                    for r in range(N)]
        if p.type in (RS, AG, ACK, PROBE, DIRECT, DONE):
            self.epochs.add(p.token)
        way, counter = (p.token, p.srank, p.drank), int.from_bytes(tail[-8:], "big")
        self.counters[way] = max(counter, self.counters.get(way, 0))

    def right(self, p, rar):
        """The seal that the sender would make"""
        way = p.token, p.srank, p.drank
        if p.token not in self.epochs or p.type == RESET:
            return join_tag(join_key(SECRET, p.group), p, rar) + bytes(8)
        if max(way[1:]) >= N or p.group not in self.nonces:
            return rng.randbytes(TAIL)
        if way not in self.keys:
            self.keys[way] = key_of(SECRET, p.group, p.token, self.nonces[p.group], *way[1:])
        counter = self.counters.get(way, 0) + rng.choice((1, 1, 1, 2, 30))
        self.counters[way] = counter
        return tag_of(self.keys[way], counter, rar) + counter.to_bytes(8, "big")

    @staticmethod
    def wrong(p, _):
        """The seal that it had, or any"""
        return p.tail if rng.randrange(3) else rng.randbytes(TAIL)

    def strip(self, p, kind=None):
        """Take the seal of a packet that came off, and let mutants have one."""
        if p and SEALED:
            p.tail, p.payload = p.payload[-TAIL:], p.payload[:-TAIL]
            p.seal = self.wrong if kind == OUTSIDER else self.right
        return p


sealer = Sealer()

# ------------------------------------------------------------------ the network

class Seen:
    """The last packets of a run, and the tokens that its ranks know."""

    def __init__(self):
        self.kept = {}      # (rank, type, superpacket?): packets
        self.tokens = set()
        self.old = []       # tokens of groups that are gone

    def forget(self):
        self.old = (self.old + sorted(self.tokens))[-50:]
        self.tokens = set()
        self.kept = {}

    def add(self, rank, p, frame, size):
        """An answer that carries the token of a mutant is left out: a second mutation of the
        token might undo the first."""
        if p.type not in ANSWERS:
            self.tokens |= {p.token} - {0}
        elif p.token not in self.tokens:
            return
        kept = self.kept.setdefault((rank, p.type, size > 0), [])
        kept.append((p, frame, size))
        del kept[:-KEEP]


class Ports:
    """The bridge's ports: each shows the packets to its rank, and takes mutants for it."""

    def __init__(self):
        enter("rarbr")
        self.sock = []
        for r in range(HOSTS):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            s.bind((f"p{r}", 3))
            s.setblocking(False)
            self.sock.append(s)
        self.seen = Seen()
        self.supers = self.refused = 0

    def sniff(self, budget=12):
        for rank, s in enumerate(self.sock):
            for _ in range(budget):
                try:
                    frame, where = s.recvfrom(70000)
                except (BlockingIOError, OSError):
                    break
                # packets to this rank go out of the port
                if where[2] != socket.PACKET_OUTGOING:
                    continue
                size, frame = int.from_bytes(frame[4:6], sys.byteorder), frame[10:]
                p = sealer.strip(Packet.parse(frame))
                if p and p.drank == (rank if rank < N else BOX_RANK) and p.type in TYPES:
                    if SEALED:
                        sealer.learn(p, p.tail)
                    self.seen.add(rank, p, frame, size)

    def inject(self, kind):
        """Send a mutant of a packet; rare types are chosen as often as common ones."""
        if not self.seen.kept:
            return 0
        rank, _, _ = key = rng.choice(sorted(self.seen.kept))
        p, frame, size = rng.choice(self.seen.kept[key])
        if SEALED:
            p = p.copy(seal=sealer.wrong if kind == OUTSIDER else sealer.right)
        if size:
            frames = super_mutant(frame, size, kind, self.seen)
            self.supers += len(frames) == 1
        elif kind == OUTSIDER:
            frames = [ALONE + f[:9014] for f in outsider(p.copy(), self.seen)]
        else:
            frames = [ALONE + f[:9014] for f in insider(p.copy(), kind == VANDAL)]
        for frame in frames:
            try:
                self.sock[rank].send(frame)
            except OSError:
                self.refused += 1   # too long for the device, or its queue is full
        return len(frames)


# ------------------------------------------------------------------ one run

def start_ring(kind, v6, log):
    repeats, limit = ("3", "60") if kind == OUTSIDER else ("30", "6")
    env = dict(os.environ, SEED=str(rng.randrange(1 << 31)))
    halving = ("-2", "-s", "direct_bytes=8,halving_bytes=1000000")
    how = rng.choice(((), (), ("-E",), halving))
    if BOX:
        how = "-w", "-s", f"box={'fd77::' if v6 else '10.77.0.'}{N + 1}"
    return subprocess.Popen(
        ["ring", "-n", str(N), *how, "-a", "6" if v6 else "4", "-t", "i32,f32,f64",
         "-c", "std,40k", "-r", repeats, "-T", limit],
        stdout=log, stderr=log, env=env)


def one_run(ports, kind):
    """Returns (exit status of ring, its output, packets injected)."""
    v6, path, sent = rng.randrange(2), rng.choice(("ingress", "udp")), 0
    burst, chunks = rng.choice((2, 6, 40)), rng.choice((1, 4, 64))
    carriers = rng.randrange(2)
    for r in range(HOSTS):
        enter(f"rar{r}")
        sysctl("rx_path", path)
        sysctl("super_chunks", chunks)
        sysctl("carriers", carriers)
    ports.seen.forget()
    with tempfile.TemporaryFile("w+") as log:
        ring = start_ring(kind, v6, log)
        while ring.poll() is None:
            select.select(ports.sock, [], [], 0.002)
            ports.sniff()
            for _ in range(rng.randrange(burst)):
                sent += ports.inject(kind)
        log.seek(0)
        return ring.returncode, log.read(), sent


def fuzz(ports, kind, seconds):
    """Fuzzes for a number of seconds. If no mutant was a superpacket by then, it goes on until
    there is one, at most five times as long: a busy machine sends few superpackets."""
    begin, runs, failed, sent, ok = time.monotonic(), 0, 0, 0, True

    def goes_on():
        took = time.monotonic() - begin
        return not runs or took < seconds or (not ports.supers and took < 5 * seconds)

    while ok and goes_on():
        status, said, n = one_run(ports, kind)
        runs, failed, sent = runs + 1, failed + bool(status), sent + n
        if kind == OUTSIDER:
            ok = not status
        elif kind == INSIDER:
            ok = not WRONG.search(said)
        if not ok:
            note("\n".join(said.splitlines()[-40:]))
    note(f"{kind}: {sent} packets, {runs} runs, {failed} of them failed")
    result(ok and sent > 0, {OUTSIDER: "no outsider disturbs a ring",
                             INSIDER: "no insider makes a wrong sum of right data",
                             VANDAL: "rings ran with vandals"}[kind])


def drops():
    """The reasons for which mutants were dropped, over all ranks."""
    total = {}
    for r in range(HOSTS):
        enter(f"rar{r}")
        for name, value in tables("rar_netstat").items():
            if name.startswith("RarDrop") and value:
                total[name[7:]] = total.get(name[7:], 0) + value
    return total


def empty(rank):
    enter(f"rar{rank}")
    with open("/proc/thread-self/net/rar") as f:
        lines = f.read().splitlines()
    with open("/proc/thread-self/net/rar_box") as f:
        box = f.readline()
    return len(lines) == 2 and " mem 0 " in lines[0] and box.endswith(" used 0 jobs 0\n")


def test_end():
    end = time.monotonic() + 60
    while not all(empty(r) for r in range(HOSTS)) and time.monotonic() < end:
        time.sleep(0.1)
    result(all(empty(r) for r in range(HOSTS)), "no member and no memory is left")


def main():
    seconds = float(sys.argv[1]) if sys.argv[1:] else 20
    rng.seed(get_seed())
    ports = Ports()
    if BOX:
        enter(f"rar{N}")
        sysctl("box_mem", "1M")
    for kind, share in ((OUTSIDER, 0.4), (INSIDER, 0.3), (VANDAL, 0.3)):
        fuzz(ports, kind, seconds * share)
    found = drops()
    note(f"superpackets {ports.supers}, refused by the device {ports.refused}")
    result(ports.supers > 0, "some mutants were superpackets")
    note("drops: " + " ".join(f"{k} {v}" for k, v in sorted(found.items())))
    result(len(found) >= 10, f"packets were dropped for {len(found)} reasons")
    test_end()
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
