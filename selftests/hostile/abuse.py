#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Abuse: attacks on a group, and attacks on others via a group.

abuse.py [case...]		names or parts of names; default: all

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh, the attacker is
in rar3 (lib/in_topo.sh 4 hostile/abuse.py). The attacker may forge any source address.
Off the path it knows group, ranks, addresses and ports, but no epoch and no nonce. An
insider knows epoch and nonces of its own group. There must never be a wrong sum, a crash,
unbounded memory, or an answer that is larger than its question. An insider may stop its
own group, but no other group of the same hosts.
"""
import fcntl
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
import rarpkt
from live import note
from rarpkt import (RS, AG, ACK, PROBE, JOIN, JOIN_ACK, REJECT, COLLECT, PROPOSE,
                    COMMIT, ABORT, RESET, FIN, FIN_ACK, VERSION, Packet)

LATE = 20
N = live.N
PORT = 18118
EARLY_TRUESIZE = 8      # held memory per credit, see design/link.rst
REPLIES = 16            # answers to strangers per tick and namespace
TICK = time.clock_getres(6)     # CLOCK_MONOTONIC_COARSE
# Growth of the kernel's memory that is allowed beyond the bounds. The debug kernel keeps
# freed memory for a while.
GROWN = (256 if os.environ.get("RAR_KERNEL", "").startswith("uml-debug") else 64) << 20
COUNT = 6000            # elements of an operation: several chunks per block

SEED = int(os.environ.get("SEED", time.time_ns() % 10**9))

rng = random.Random(SEED)
tests = []
tap_nr = tap_failed = 0


def result(ok, name):
    global tap_nr, tap_failed
    tap_nr += 1
    tap_failed += not ok
    print(f"{'ok' if ok else 'not ok'} {tap_nr} {name}", flush=True)


def test(name):
    """Marks a function as a test; it returns True for a pass."""
    def add(function):
        tests.append((name, function))
        return function
    return add


# ------------------------------------------------------------------ wire

def mac(ns, dev="eth0"):
    rarpkt.enter(ns)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return fcntl.ioctl(s, 0x8927, struct.pack("16s16x", dev.encode()))[18:24]


def raw_socket(ns, dev):
    rarpkt.enter(ns)
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)       # SO_RCVBUFFORCE
    s.bind((dev, 3))
    s.setblocking(False)
    return s


class Wire:
    """The attacker's device, and the packets of each rank, seen at the bridge."""

    def __init__(self):
        self.mac = [mac(f"rar{r}") for r in range(N + 1)]
        self.out = raw_socket(f"rar{N}", "eth0")
        self.ports = [None] * N
        for r in range(N):
            for host in (10, N + 1):
                subprocess.run(
                    ["ip", "-n", f"rar{r}", "neigh", "replace",
                     socket.inet_ntop(socket.AF_INET, address(host - 1)),
                     "lladdr", ":".join(f"{b:02x}" for b in self.mac[N]),
                     "dev", "eth0", "nud", "permanent"], check=True)

    def listen(self):
        """Record packets from now on; until they are fetched they take memory."""
        self.deaf()
        self.ports = [raw_socket("rarbr", f"p{r}") for r in range(N)]

    def deaf(self):
        for s in self.ports:
            if s:
                s.close()
        self.ports = [None] * N

    def frames(self, rank):
        """The frames that a rank sent since listen(), or since the last call."""
        out = []
        while True:
            try:
                frame, where = self.ports[rank].recvfrom(70000)
            except BlockingIOError:
                return out
            if where[2] != 4:           # PACKET_OUTGOING: sent to the rank
                out.append(frame)

    def to(self, rank):
        return self.mac[rank] + self.mac[N] + b"\x08\x00"

    def send(self, frames):
        for frame in frames:
            while True:
                try:
                    self.out.send(frame)
                    break
                except (BlockingIOError, OSError):      # the queue is full
                    time.sleep(0.0005)


def address(host):
    return live.address(host)


def packet(wire, victim, source, srank, kind, token, body, group):
    """A packet to rank victim, as if it came from the host of rank source."""
    return Packet(eth=wire.to(victim), src=address(source), dst=address(victim),
                  sport=PORT, dport=PORT, version=VERSION, type=kind, srank=srank,
                  drank=victim, group=group, token=token, payload=body)


def join_body(nonce, size=N, payload=1200, flags=0, pad=0):
    return struct.pack(">QIIHHI", nonce, size, payload, PORT, flags, 0) + bytes(pad)


def notice_body(err=104, reason=1, rank=0):
    return struct.pack(">IIIIQII16x", err, reason, rank, rank, 0, 0, 0)


def token():
    return rng.randrange(1, 1 << 64)


class Flood:
    """A child that sends frames again and again until it is stopped."""

    def __init__(self, wire, frames):
        self.pid = os.fork()
        if not self.pid:
            try:
                while os.getppid() != 1:
                    wire.send(frames)
            finally:
                os._exit(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


# ------------------------------------------------------------------ rings

def counters(rank):
    rarpkt.enter(f"rar{rank}")
    return {k[3:]: v for k, v in rarpkt.tables("rar_netstat").items()}


def moved(rank, before):
    return {k: v - before[k] for k, v in counters(rank).items() if v != before[k]}


def kernel_bytes():
    with open("/proc/meminfo") as f:
        info = {line.split(":")[0]: int(line.split()[1]) for line in f}
    return (info["Slab"] + info.get("VmallocUsed", 0)) << 10


def sysctl(rank, name):
    rarpkt.enter(f"rar{rank}")
    with open("/proc/sys/net/rar/" + name) as f:
        return int(f.read())


def set_all(name, value):
    for r in range(N):
        rarpkt.enter(f"rar{r}")
        rarpkt.sysctl(name, value)


def early_bytes(ring, rank):
    """RAR_INFO.early_bytes"""
    info = ring.fd[rank].getsockopt(rarpkt.SOL_RAR, 8, 512)
    return struct.unpack_from("=Q", info, 152)[0]


def works(ring, rounds=1, count=COUNT):
    return all(ring.allreduce(live.Data(count)) for _ in range(rounds))


def errors(ring):
    return [ring.error(r)[:3] for r in range(N) if ring.error(r)[0]]


def fine(ring, what):
    """Has the ring no error, and are the sums right? Prints errors."""
    try:
        ok = not errors(ring) and works(ring)
    except (OSError, TimeoutError) as e:
        note(f"{what}: {e}")
        ok = False
    for r in range(N):
        if ring.error(r)[0]:
            note(f"{what}: rank {r} has error {ring.error(r)}")
    return ok


def not_wrong(ring, data):
    """An insider may stop the operation or the group, but no sum is wrong."""
    for r in range(N):
        try:
            ring.poll(ring.fd[r], 1, 1)
            if ring.fd[r].recv(4 * data.count + 4) != data.sum:
                note(f"rank {r}: wrong sum")
                return False
        except (OSError, TimeoutError):
            pass
    return True


class Known:
    """What an insider knows of its ring: the packets of some operations, and of the
    idle time after them, up to a keepalive."""

    def __init__(self, wire, ring, idle=0.05):
        wire.listen()
        works(ring, 3)
        time.sleep(idle)
        self.packets = [[p for p in map(Packet.parse, wire.frames(r))
                         if p and p.group == ring.group] for r in range(N)]
        wire.deaf()
        self.wire = wire
        self.epoch = self.last(0, type=RS).token

    def last(self, rank, **want):
        return live.last(self.packets[rank], **want)

    def forged(self, victim, p, **change):
        """The packet from the attacker's device."""
        return p.copy(eth=self.wire.to(victim), **change)


# ------------------------------------------------------------------ off the path

TYPES = list(range(22)) + [255]
LENGTHS = (0, 1, 23, 24, 25, 31, 32, 47, 48, 55, 56, 64, 95, 96, 112, 128, 160,
           1152, 1400)


def sized(rar, length):
    """Cut or pad a packet to a length, with a length field that agrees."""
    rar = rar[:length].ljust(length, b"\0")
    if length >= 8:
        rar = rar[:6] + struct.pack(">H", max(length - 24, 0)) + rar[8:]
    return rar


def open_member(rank, group, size=N):
    """A member that begins to join and does not wait."""
    def sockaddr(r):
        a = bytearray(live.sockaddr(r, group))
        struct.pack_into("=II", a, 12, r, size)
        return bytes(a)
    rarpkt.enter(f"rar{rank}")
    s = socket.socket(rarpkt.AF_RAR, socket.SOCK_SEQPACKET)
    s.setsockopt(rarpkt.SOL_RAR, live.RAR_JOIN,
                 sockaddr(rank) + sockaddr((rank + 1) % size))
    return s


class Victims:
    """Members of rank 1 in every state: (name, group)."""

    def __init__(self):
        self.rings, self.fds = [], []
        running, failed, left = live.Ring(), live.Ring(), live.Ring()
        failed.fd[1].setsockopt(rarpkt.SOL_RAR, 6, bytes(4))        # RAR_ABORT
        left.close()
        self.rings += [running, failed]
        for group, members in ((0x70176, ((1, N),)), (0x515e, ((1, N), (0, N + 1)))):
            for rank, size in members:
                self.fds.append(open_member(rank, group, size))
        self.all = (("running", running.group), ("failed", failed.group),
                    ("left", left.group), ("joining", 0x70176),
                    ("refused for its size", 0x515e), ("nobody", 0x60d0))
        time.sleep(0.5)

    def close(self):
        for ring in self.rings:
            ring.close()
        for fd in self.fds:
            fd.close()


def questions(wire, victims):
    """(packet, mark that its answers carry), in random order"""
    out = []
    for _, group in victims.all:
        for kind in TYPES:
            for length in LENGTHS:
                source, srank = rng.choice(((N, 0), (0, 0), (2, 2), (N, 2)))
                mark = token()
                p = packet(wire, 1, source, srank, kind, mark,
                           notice_body(), group)
                if kind == JOIN:        # its answers carry the nonce
                    p.token, p.payload = 0, join_body(
                        mark, rng.choice((N, N, N + 1)), flags=rng.randrange(2))
                p.raw = sized(p.rar(), length)
                out.append((p, mark))
    rng.shuffle(out)
    return out


def ask(wire, asked):
    """Send all questions, not faster than they are answered. Returns rank 1's frames."""
    sent = []
    wire.listen()
    for i in range(0, len(asked), REPLIES // 2):
        wire.send([p.frame() for p, _ in asked[i:i + REPLIES // 2]])
        time.sleep(2 * TICK)
        sent += wire.frames(1)
    time.sleep(0.1)
    sent += wire.frames(1)
    wire.deaf()
    return sent


def own_affairs(p, victims):
    """Does rank 1 send this packet without being asked?"""
    return p.type in (ACK, PROBE, JOIN) and p.group in (g for _, g in victims.all)


def answers(wire, frames, asked, victims):
    """{mark: IP bytes of all answers}; None if a packet is no answer."""
    source = {mark: p.src for p, mark in asked}
    size, strange = {}, 0
    for frame in frames:
        if frame[12:14] != b"\x08\x00":
            continue
        p = Packet.parse(frame)
        length = struct.unpack(">H", frame[16:18])[0]
        if p and p.token in source and p.dst == source[p.token]:
            size[p.token] = size.get(p.token, 0) + length
        elif not p or not own_affairs(p, victims):
            strange += 1
            note(f"rank 1 sent {length} bytes to {frame[30:34].hex('.')}: "
                 f"{frame[34:66].hex()}")
    return None if strange else size


@test("no answer is larger than its question")
def amplification(wire):
    victims = Victims()
    asked = questions(wire, victims)
    size = answers(wire, ask(wire, asked), asked, victims)
    victims.close()
    if size is None:
        return False
    worst, larger = 0, 0
    for p, mark in asked:
        question = 28 + len(p.raw)
        worst = max(worst, size.get(mark, 0) / question)
        if size.get(mark, 0) > question:
            larger += 1
            note(f"type {p.type}, {question} bytes: answered by {size[mark]}")
    note(f"abuse questions={len(asked)} answered={len(size)} "
         f"largest ratio={worst:.2f}")
    return not larger and len(size) > 50


@test("answers to strangers are limited")
def answer_rate(wire):
    ring = live.Ring()
    works(ring)
    ok = True
    for name, kind, body in (("RS", RS, bytes(40)), ("JOIN", JOIN,
                                                     join_body(1, pad=8))):
        frames = [packet(wire, 1, N, 0, kind, token() if kind == RS else 0, body,
                         ring.group).frame() for _ in range(200)]
        before, start, slab = counters(1), time.monotonic(), kernel_bytes()
        for _ in range(100):
            wire.send(frames)
        time.sleep(0.2)
        seconds = time.monotonic() - start
        sent = moved(1, before).get("TxCtl", 0)
        bound = REPLIES * (seconds / TICK + 2) + 10 * seconds
        grown = kernel_bytes() - slab
        note(f"abuse flood of {len(frames) * 100} {name}s in {seconds:.1f} s: "
             f"answers={sent} bound={bound:.0f} kernel grown={grown}")
        ok &= sent <= bound and grown < GROWN
    ok &= fine(ring, "after the floods")
    ring.close()
    return ok


def spoofed(wire, ring, n):
    """Packets of all types from the neighbours' addresses, with guessed tokens."""
    out = []
    for _ in range(n):
        source = rng.choice((0, 2))
        kind = rng.choice(TYPES)
        body = rng.randbytes(rng.choice((8, 24, 32, 40, 72, 104, 140, 1400)))
        out.append(packet(wire, 1, source, source, kind, rng.choice(
            (0, token(), rng.randrange(1 << 32))), body, ring.group).frame())
    return out


@test("spoofed packets of all types while an operation waits")
def off_path(wire):
    ring, data = live.Ring(), live.Data(COUNT)
    ok = works(ring)
    frames = spoofed(wire, ring, 1500)
    before = counters(1)
    for r in (1, 2):
        ring.post(r, data)
    wire.send(frames * 2)
    time.sleep(0.3)
    ring.post(0, data)
    ok &= all([ring.collect(r, data) for r in range(N)])
    got = moved(1, before)
    note(f"abuse spoofed={2 * len(frames)} DropEpoch={got.get('DropEpoch', 0)} "
         f"DropRank={got.get('DropRank', 0)}")
    ok &= got.get("DropEpoch", 0) > len(frames) / 4 and fine(ring, "afterwards")
    ring.close()
    return ok


@test("a group joins and works during a flood from outside")
def join_in_flood(wire):
    other = live.Ring()
    works(other)
    frames = spoofed(wire, other, 500) + [
        packet(wire, r, N, (r - 1) % N, JOIN, 0, join_body(token(), pad=8),
               other.group).frame() for r in range(N) for _ in range(100)]
    start = time.monotonic()
    ring = live.Ring()
    alone = time.monotonic() - start
    ring.close()
    with Flood(wire, frames):
        time.sleep(0.3)
        start = time.monotonic()
        ring = live.Ring()
        joined = time.monotonic() - start
        ok = fine(ring, "the new group") and fine(other, "the flooded group")
    note(f"abuse join takes {alone * 1000:.0f} ms, in a flood "
         f"{joined * 1000:.0f} ms")
    ring.close()
    other.close()
    return ok


def ask_for_nonce(wire, group):
    """While rank 1 joins, any host may claim to be its predecessor and get its nonce."""
    wire.listen()
    wire.send([packet(wire, 1, N, 0, JOIN, 0, join_body(token(), pad=1200),
                      group).frame()])
    time.sleep(0.2)
    told = [struct.unpack(">Q", p.payload[:8])[0]
            for p in map(Packet.parse, wire.frames(1))
            if p and p.type == JOIN_ACK and p.dst == address(N)]
    wire.deaf()
    return told[0]


@test("a nonce learned by asking is no weapon from another address")
def learned_nonce(wire):
    ring = live.Ring.__new__(live.Ring)
    live.Ring.group += 1
    ring.group, ring.fd = live.Ring.group, [None] * N
    ring.fd[1] = open_member(1, ring.group)
    nonce = ask_for_nonce(wire, ring.group)
    for r in (0, 2):
        ring.fd[r] = open_member(r, ring.group)
    for s in ring.fd:
        ring.poll(s, 4)                 # POLLOUT: joined, or failed
    ok = fine(ring, "after the question")
    for kind, source, body in ((REJECT, 2, notice_body()), (ABORT, 0, notice_body()),
                               (ABORT, 2, notice_body()),
                               (JOIN, 0, join_body(token(), pad=1200)),
                               (PROPOSE, 0, bytes(104)), (COMMIT, 0, bytes(104))):
        wire.send([packet(wire, 1, source, source, kind, nonce, body,
                          ring.group).frame()])
        time.sleep(0.1)
        if errors(ring):
            note(f"type {kind} with the nonce ended the group: {errors(ring)}")
            ok = False
            break
    ok = ok and fine(ring, "afterwards")
    for s in ring.fd:
        s.close()
    return ok


# ------------------------------------------------------------------ replay

def record(wire, tombstone_ms):
    """All packets of a group's life: join, operations, failure."""
    wire.listen()
    ring = live.Ring()
    works(ring, 4)
    for r in (1, 2):
        ring.post(r, live.Data(COUNT))    # never complete
    time.sleep(0.3)
    ring.fd[1].setsockopt(rarpkt.SOL_RAR, 6, bytes(4))      # RAR_ABORT
    time.sleep(0.1)
    set_all("dead_ms", tombstone_ms // 2)
    ring.close()
    set_all("dead_ms", 10000)
    # built again, since packets on veth lack checksums
    frames = [p.copy(eth=p.eth[:6] + wire.mac[N] + p.eth[12:]).frame()
              for r in range(N) for p in map(Packet.parse, wire.frames(r))
              if p and p.group == ring.group]
    wire.deaf()
    rng.shuffle(frames)
    return ring.group, frames


def replayed(wire, tombstone_ms, drop):
    group, frames = record(wire, tombstone_ms)
    if tombstone_ms < 1000:
        time.sleep(tombstone_ms / 1000 + 0.5)
    before = [counters(r) for r in range(N)]
    live.Ring.group = group - 1
    with Flood(wire, frames):
        ring, data = live.Ring(), live.Data(COUNT)
        ok = works(ring, 10)
        for r in (1, 2):
            ring.post(r, data)
        time.sleep(0.5)
        ring.post(0, data)
        ok &= all([ring.collect(r, data) for r in range(N)])
        ok &= fine(ring, "during the replay")
        ring.close()
        time.sleep(0.5)                 # replayed to its tombstones
    got = [moved(r, before[r]).get(drop, 0) for r in range(N)]
    note(f"abuse replayed {len(frames)} packets again and again: {drop}={got}")
    return ok and all(got)


@test("packets of an old epoch, replayed into the next one")
def replay(wire):
    return replayed(wire, 200, "DropEpoch")


@test("packets of an old epoch, replayed to its tombstones")
def replay_tombstones(wire):
    return replayed(wire, 20000, "DropState")


# ------------------------------------------------------------------ insiders

class Bystander:
    """Another group of the same hosts, which must not be disturbed."""

    def __init__(self):
        self.ring = live.Ring()
        works(self.ring)

    def fine(self, rounds=20):
        return fine(self.ring, "the other group") and works(self.ring, rounds) \
            and not errors(self.ring)

    def close(self):
        self.ring.close()


def early_frames(known, ring, op, ahead):
    """Chunks of operations that rank 1 has not posted."""
    p = known.last(0, type=RS)
    whole = [q for q in known.packets[0] if q.type == RS and q.drank == 1 and
             len(q.payload) == len(p.payload)]
    out = []
    for i in range(250):
        q = rng.choice(whole)
        out.append(known.forged(1, q, op=op + i % ahead, seq=q.seq + i + 100,
                                una=q.seq + 1,
                                payload=rng.randbytes(len(q.payload))).frame())
    return out


@test("insider: a flood of early packets beyond all credit")
def early_flood(wire):
    by, ring = Bystander(), live.Ring()
    known = Known(wire, ring)
    frames = early_frames(known, ring, 3, 60)
    bound = EARLY_TRUESIZE * sysctl(1, "early_bytes")
    before, slab, most = counters(1), kernel_bytes(), 0
    ok = True
    with Flood(wire, frames):
        for i in range(200):    # a slow machine takes longer to use up the credit
            ok &= by.fine(5)
            most = max(most, early_bytes(ring, 1))
            got = moved(1, before)
            if i >= 9 and got.get("DropEarlyFull", 0):
                break
    grown = kernel_bytes() - slab
    note(f"abuse early={most} bound={bound} kernel grown={grown} "
         f"EarlyHeld={got.get('EarlyHeld', 0)} "
         f"DropEarlyFull={got.get('DropEarlyFull', 0)}")
    ok &= 0 < most <= bound and grown < bound + GROWN and \
        got.get("DropEarlyFull", 0) > 0
    ring.close()
    ok &= by.fine()
    by.close()
    return ok


def hoard_early(wire, rings):
    """Uses up rank 1's memory for early packets. Returns the bytes held."""
    for ring in rings:
        known = Known(wire, ring)
        wire.send(early_frames(known, ring, 3, 60) * 4)
    held = sum(early_bytes(ring, 1) for ring in rings)
    for ring in rings:
        ring.close()
    return held


@test("insider: early packets for many groups: a quarter of net.rar.mem")
def early_many(wire):
    mem, ok = sysctl(1, "mem"), True
    set_all("mem", 16 << 20)
    by = Bystander()
    for what in ("", "closed groups give it back at once: "):
        held = hoard_early(wire, [live.Ring() for _ in range(4)])
        note(f"abuse {what}early of 4 groups={held} bound={4 << 20}")
        ok &= (3 << 20) < held <= 4 << 20 and by.fine()
    by.close()
    set_all("mem", mem)
    return ok


@test("insider: storms of true ACKs and PROBEs change nothing")
def storm(wire):
    by, ring = Bystander(), live.Ring()
    known = Known(wire, ring, 1.5)
    frames = [known.forged(1, known.last(2, type=ACK, drank=1)).frame(),
              known.forged(1, known.last(0, type=PROBE, drank=1)).frame()] * 200
    before = counters(1)
    wire.listen()
    with Flood(wire, frames):
        start = time.monotonic()
        ok = fine(ring, "the stormed group") and works(ring, 20) and by.fine()
        time.sleep(0.5)
        seconds = time.monotonic() - start
    got = moved(1, before)
    to = {p.dst for p in map(Packet.parse, wire.frames(1)) if p}
    wire.deaf()
    note(f"abuse storm: {got.get('TxAck', 0)} ACKs in {seconds:.1f} s")
    ok &= to <= {address(0), address(2)}
    ring.close()
    by.close()
    return ok


def bogus_ack(ack):
    """An ACK with some fields near their values, far, or beyond all numbers sent."""
    body = bytearray(ack.payload)
    cum = struct.unpack(">I", body[:4])[0]
    for offset in rng.sample((0, 4, 16, 20, 24, 28, 32), rng.randrange(1, 4)):
        value = rng.choice((cum, cum - 1, cum + 1, cum + 256, cum + 8191,
                            cum - 300, cum + (1 << 31), rng.randrange(1 << 32)))
        struct.pack_into(">I", body, offset, value % (1 << 32))
    if rng.randrange(2):
        struct.pack_into(">Q", body, 8, rng.choice(
            (0, 1, 63, 64, 1 << 32, (1 << 64) - 1, token())))
    body[-32:] = rng.choice((bytes(32), b"\xff" * 32, rng.randbytes(32)))
    return bytes(body)


@test("insider: bogus ACKs: no wrong sum, no other group is disturbed")
def bogus(wire):
    by, ok = Bystander(), True
    for _ in range(3):
        ring, data = live.Ring(), live.Data(40 * COUNT)
        known = Known(wire, ring)
        ack = known.last(2, type=ACK, drank=1)
        frames = [known.forged(1, ack, payload=bogus_ack(ack)).frame()
                  for _ in range(400)]
        for r in range(N):
            ring.post(r, data)
            wire.send(frames)
        ok &= not_wrong(ring, data) and by.fine(5)
        ring.close()
    by.close()
    return ok


@test("insider: every type with the right token and any content")
def any_content(wire):
    by, ok = Bystander(), True
    for kind in (RS, AG, ACK, PROBE, COLLECT, PROPOSE, COMMIT, ABORT, FIN,
                 FIN_ACK, LATE, JOIN, JOIN_ACK, REJECT, RESET):
        ring, data = live.Ring(), live.Data(4 * COUNT)
        epoch = Known(wire, ring, 0).epoch
        for r in range(N):
            ring.post(r, data)
        for source in (0, 2):
            wire.send([packet(wire, 1, source, source, kind, epoch, rng.randbytes(
                rng.choice((0, 8, 24, 32, 40, 72, 88, 104, 136, 1400))),
                ring.group).frame() for _ in range(30)])
        # a chunk with the right token and random content is a contribution
        ok &= kind in (RS, AG) or not_wrong(ring, data)
        ok &= by.fine(1)
        ring.close()
    by.close()
    return ok


@test("insider: optimistic ACKs of packets the successor never got")
def optimistic(wire):
    by, ring, data = Bystander(), live.Ring(), live.Data(10 * COUNT)
    known = Known(wire, ring)
    ack = known.last(2, type=ACK, drank=1)
    cum = struct.unpack(">I", ack.payload[:4])[0]
    frames = [known.forged(1, ack, payload=struct.pack(">II", c, c) +
                           ack.payload[8:]).frame()
              for c in range(cum + 1, cum + 200)]
    tc = ["tc", "-n", "rarbr", "qdisc", "replace", "dev", "p2", "root"]
    subprocess.run(tc + ["netem", "loss", "100%"], check=True)
    for r in range(N):
        ring.post(r, data)
    for _ in range(5):
        wire.send(frames)
        time.sleep(0.05)
    subprocess.run(tc + ["pfifo"], check=True)
    ok = not_wrong(ring, data)
    ring.close()
    time.sleep(0.5)
    again = live.Ring()
    ok &= fine(again, "the next group") and by.fine()
    again.close()
    by.close()
    return ok


# ------------------------------------------------------------------ all

def chosen():
    return [(name, f) for name, f in tests
            if not sys.argv[1:] or any(w in name for w in sys.argv[1:])]


def run(name, function, wire):
    log = live.Log()
    start = time.monotonic()
    try:
        ok = function(wire)
    except (OSError, LookupError, TimeoutError, subprocess.SubprocessError):
        for line in traceback.format_exc().splitlines():
            note(line)
        ok = False
    for line in log.lines():
        note("kernel log: " + line.strip())
        ok = False
    note(f"{time.monotonic() - start:.1f} s")
    result(ok, name)


def main():
    note(f"SEED={SEED}")
    live.Ring.group = 0xab05e0
    set_all("dead_ms", 10000)
    subprocess.run(["modprobe", "-q", "sch_netem"], check=False)
    wire = Wire()
    for name, function in chosen():
        run(name, function, wire)
    print(f"1..{tap_nr}", flush=True)
    return tap_failed > 0


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    sys.exit(main())
