#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""attack.py [PACKETS]: attacks on a group with seals (RAR_SECURITY), by a host on the path: it sees
every packet, and changes, repeats, reflects, cuts and makes up packets of every type. It does not
have the key.

Nothing of that may be accepted: each packet is dropped and counted, no sum is wrong, no rank has an
error, and groups that join meanwhile do join. PACKETS is about how many are sent in all, as many of
each type; without it, 10,000 of each type in User-Mode Linux, fewer where that takes long.

The ranks are sockets of this process in the namespaces rar0 rar1 rar2 (lib/in_topo.sh 3); the
packets are for rank 1.
"""
import collections
import errno
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
from live import COUNT, KEY, N, RAR_INFO, RAR_JOIN, RAR_KEY, RAR_SECURITY, Data, Ring, wait_quiet
from rarpkt import (ABORT, ACK, AF_RAR, AG, COLLECT, COMMIT, DIRECT, DONE, ENTER, ENTERED, FIN,
                    FIN_ACK, JOIN, JOIN_ACK, LATE, OFFER, PAIR, PAIR_ACK, PEER_ACK, PROBE, PROPOSE,
                    RAIL, REJECT, RESET, RETURN, RS, SOL_RAR, WANT, Packet, enter, sysctl)
from seal import AUTH, ENCRYPT, TAIL, join_key, join_tag, key_of, tag_of
from tap import finish, get_seed, note, result

RAR_SCHEDULE, BY_RANKS, BY_DIRECT, BY_HALVING = 13, 0, 3, 4      # the last: see main()
SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
RAR_R_SIZE, RAR_R_KEY, RAR_R_SECURITY = 10, 23, 28
HEADER = 24
OF_JOIN = (JOIN, JOIN_ACK, COLLECT, PROPOSE, COMMIT, PAIR, PAIR_ACK)
# What a rank may get, by the schedule in which its group sends it, if any.
TYPES = {BY_RANKS: {"RS": RS, "AG": AG, "ACK": ACK, "PROBE": PROBE, "ABORT": ABORT, "RESET": RESET,
                    "FIN": FIN, "FIN_ACK": FIN_ACK, "LATE": LATE, "WANT": WANT, "REJECT": REJECT,
                    "JOIN": JOIN, "JOIN_ACK": JOIN_ACK, "COLLECT": COLLECT, "PROPOSE": PROPOSE,
                    "COMMIT": COMMIT, "ENTER": ENTER, "ENTERED": ENTERED, "RETURN": RETURN,
                    "OFFER": OFFER, "RAIL": RAIL},
         BY_DIRECT: {"DIRECT": DIRECT, "DONE": DONE, "PAIR": PAIR, "PAIR_ACK": PAIR_ACK},
         BY_HALVING: {"DIRECT with numbers": DIRECT, "PEER_ACK": PEER_ACK}}
USUAL = {"uml": 10000, "uml-debug": 1000, "uml-debug-smp": 1000}    # of each type
KERNEL = os.environ.get("RAR_KERNEL", "")
PARTS = 2 * (sum(map(len, TYPES.values())) + 1)                     # the last one: a rank that joins
EACH = -(-int(sys.argv[1]) // PARTS) if len(sys.argv) > 1 else USUAL.get(KERNEL, 40)
BATCH = 200             # attacks between two sums
JOINS = 10              # batches while another group joins
OPS = 6                 # before the attacks, so that there are packets to change
level = AUTH            # of the groups
rng = live.rng
sent = collections.Counter()        # packets, by the way in which they are wrong


def seals(key=KEY, asked=None):
    """The options of a rank with seals"""
    return (RAR_KEY, key), (RAR_SECURITY, struct.pack("=I", asked or level))


# ------------------------------------------------------------------ the group

class Sealed(Ring):
    """A ring with seals. Its packets are kept one by one: (headers below, bytes of RAR)."""

    def __init__(self, schedule=BY_RANKS, group=None, start=True):
        self.options = (*seals(), (RAR_SCHEDULE, struct.pack("=I", schedule)))
        self.listen()
        self.group = group or self.group
        self.count = 500 if schedule == BY_DIRECT else COUNT
        self.fd = []
        if start:
            self.start()

    def start(self):
        self.fd = [self.member(r) for r in range(N)]
        for s in self.fd:
            if err := self.joined(s):
                raise OSError(err, "join")

    def keep(self, packet, frame):
        at = 54 if packet.v6 else 34
        rar = frame[at + 8:at + struct.unpack_from(">H", frame, at + 4)[0]]
        while len(rar) >= HEADER + TAIL:
            size = HEADER + struct.unpack_from(">H", rar, 6)[0] + TAIL
            self.seen.append((packet, rar[:size]))
            rar = rar[size:]

    def packets(self, dst=1, src=None, kind=None):
        return [(below, rar) for below, rar in self.sniff()
                if rar[4:6] == struct.pack(">H", dst) and
                src in (None, struct.unpack_from(">H", rar, 2)[0]) and kind in (None, rar[1])]

    def info(self, rank, at, form="=Q"):
        return struct.unpack_from(form, self.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 232), at)[0]

    @staticmethod
    def dropped():
        """Packets that the attacked end has dropped"""
        return sum(v for k, v in live.counters().items() if k.startswith("Drop"))

    @staticmethod
    def accepted():
        """Chunks that it has accepted"""
        return live.counters()["RxData"]

    def works(self, rounds=1):
        try:
            ok = all([self.allreduce(Data(self.count)) for _ in range(rounds)])
        except OSError as e:
            note(f"the group: {e}, {[self.error(r) for r in range(N)]}")
            return False
        return ok and not any(self.error(r)[0] for r in range(N))


def inject(ring, packets):
    live.inject(ring, (Packet(**{**live.plain(below), "raw": rar}).frame()
                       for below, rar in packets))


# ------------------------------------------------------------------ attacks

class Attacks:
    """What a host makes of the packets of a type. @samples are for rank 1, @own are of rank 1, and
    @old of an older group of the same number, ranks and key.
    """

    of_join = OF_JOIN       # an old one is answered, and proves nothing (design/seal.rst)

    def __init__(self, samples, own=(), old=()):
        self.samples, self.own, self.old = samples, own, old
        kind, size = samples[0][1][1], len(samples[0][1])
        self.headers = 64 if kind in (RS, AG, DIRECT) else size - TAIL
        self.bits = []
        again = () if kind in self.of_join else (self.again, *([self.older] if old else []))
        self.ways = (self.altered, self.made_up, self.renumbered, self.swapped, self.cut,
                     self.unsealed, self.by_other_link, *again, *([self.reflected] if own else []))

    def make(self, n):
        """Yield @n packets, the ways in turns."""
        for i in range(n):
            way = self.ways[i % len(self.ways)]
            sent[way.__name__] += 1
            yield way(*rng.choice(self.samples))

    def altered(self, below, rar):
        """One bit is another one: each of the headers, and of the seal, before one comes again; then
        some between."""
        if not self.bits:
            self.bits = [*range(8 * self.headers), *range(-8 * TAIL, 0),
                         *rng.sample(range(8 * len(rar)), 64)]
            rng.shuffle(self.bits)
        at = self.bits.pop() % (8 * len(rar))
        return below, rar[:at // 8] + bytes([rar[at // 8] ^ 1 << at % 8]) + rar[at // 8 + 1:]

    def made_up(self, below, rar):
        """Right in its header, with other bytes behind it"""
        return below, rar[:HEADER] + rng.randbytes(len(rar) - HEADER)

    def renumbered(self, below, rar):
        """With another counter"""
        number = rng.choice((0, 1, rng.getrandbits(12), rng.getrandbits(64))) + 5000
        return below, rar[:-8] + struct.pack(">Q", number & 2**64 - 1)

    def swapped(self, below, rar):
        """With the seal of another packet"""
        other = rng.choice(self.samples)[1]
        return self.altered(below, rar) if other == rar else (below, rar[:-TAIL] + other[-TAIL:])

    def cut(self, below, rar):
        """It ends early; its length says so, or not."""
        n = rng.randrange(len(rar))
        if n < HEADER or rng.randrange(2):
            return below, rar[:n]
        return below, rar[:6] + struct.pack(">H", max(0, n - HEADER - TAIL)) + rar[8:n]

    def unsealed(self, below, rar):
        """Without its seal"""
        return below, rar[:-TAIL]

    def by_other_link(self, below, rar):
        """As if the other neighbour had sent it"""
        other = struct.unpack_from(">H", rar, 2)[0] ^ 2
        return below.copy(src=live.address(other)), rar[:2] + struct.pack(">H", other) + rar[4:]

    def again(self, below, rar):
        """As it came"""
        return below, rar

    def older(self, *_):
        """As it came to the older group"""
        return rng.choice(self.old)

    def reflected(self, *_):
        """What rank 1 sent comes back to it, as if from the rank that it was for."""
        below, rar = rng.choice(self.own)
        back = below.copy(eth=below.eth[6:12] + below.eth[:6] + below.eth[12:], src=below.dst,
                          dst=below.src, sport=below.dport, dport=below.sport)
        return back, rar[:2] + rar[4:6] + rar[2:4] + rar[6:]


def of_type(rar, kind):
    """A packet as another type, with random content"""
    size = {RESET: 0, RAIL: 120, WANT: 56, RETURN: 56, ABORT: 48, LATE: 48, FIN: 48, FIN_ACK: 48, DONE: 40,
            DIRECT: 64, REJECT: 32}.get(kind, 64)
    return (rar[:1] + bytes([kind]) + rar[2:6] + struct.pack(">H", size) + rar[8:HEADER] +
            rng.randbytes(size + TAIL))


class Newcomers:
    """A group that joins while another one is attacked: its rank 2 comes last."""

    def __init__(self):
        self.ring = Sealed(start=False)
        self.ring.tap.close()
        self.ring.fd = [self.ring.member(r) for r in range(2)]

    def come(self):
        """Do all of them join, and add?"""
        self.ring.fd.append(self.ring.member(2))
        joined = [self.ring.joined(s) for s in self.ring.fd]
        ok = joined == [0] * N and self.ring.works()
        if not ok:
            note(f"those who joined meanwhile: {joined}")
        self.ring.close()
        return ok


def attack_batch(ring, batch):
    """Is each packet dropped, and none of them accepted? Is the next sum right?"""
    wait_quiet(ring)
    before, had = ring.dropped(), ring.accepted()
    inject(ring, batch)
    end = time.monotonic() + 5
    while ring.dropped() - before < len(batch) and time.monotonic() < end:
        time.sleep(0.002)
    ok = ring.dropped() - before == len(batch) and ring.accepted() == had
    if not ok:
        note(f"{len(batch)} sent, {ring.dropped() - before} dropped, "
             f"{ring.accepted() - had} chunks accepted")
    return ring.works() and ok


def attack_type(ring, name, attacks, each=EACH):
    """All attacks on packets of a type, while sums are made and others join"""
    ok, todo, joined = True, each, 0
    while todo and ok:
        newcomers = Newcomers()
        for _ in range(JOINS):
            n = min(BATCH, todo)
            ok = ok and attack_batch(ring, list(attacks.make(n)))
            todo -= n
        ok = newcomers.come() and ok
        joined += 1
    result(ok, f"{name}: {each} packets, 0 accepted; {joined} groups joined")
    return ok


def past(ring, ops, packets):
    """Let a group work and end. Return its number, and those of its packets that packets() gives"""
    ring.works(ops)
    wait_quiet(ring)
    for s in ring.fd:
        s.close()
    time.sleep(0.3)
    kept = packets(ring)
    ring.tap.close()
    return ring.group, kept


def running(schedule):
    """Attacks on the packets of a group that runs"""
    group, older = past(Sealed(schedule), OPS, Sealed.packets)
    ring = Sealed(schedule, group)
    ring.works(OPS)
    # without chunks the links keep alive by PROBE
    time.sleep(1)
    wait_quiet(ring)
    for name, kind in TYPES[schedule].items():
        samples = ring.packets(kind=kind)
        how = "seen" if samples else "made up"
        if not samples:
            template = ring.packets(src=0)[-1]
            samples = [(template[0], of_type(template[1], kind)) for _ in range(50)]
        own = [p for dst in (0, 2) for p in ring.packets(dst, 1) if p[1][1] not in OF_JOIN]
        old = [p for p in older if p[1][1] == kind]
        if not attack_type(ring, f"{name}, {how}", Attacks(samples, own, old)):
            ring.close()
            ring = Sealed(schedule)
            ring.works(OPS)
    ring.close()


def old_epoch():
    """Packets of a group that was come into one with the same number and key: while it joins, and
    while it runs."""
    for schedule in (BY_RANKS, BY_DIRECT, BY_HALVING):
        group, old = past(Sealed(schedule), OPS, Sealed.packets)
        ring = Sealed(schedule, group, start=False)
        ring.fd = [None] * N
        for rank in (1, 0, 2):
            ring.fd[rank] = ring.member(rank)
            inject(ring, old)
            time.sleep(0.05)
        inject(ring, old)
        joined = [ring.joined(s) for s in ring.fd] == [0] * N
        ok = joined and ring.works(2)
        inject(ring, old)
        time.sleep(0.2)
        result(ok and ring.works(3), f"schedule {schedule}: {len(old)} packets of an older group "
               "of the same ranks, five times")
        ring.close()


def joining():
    """Attacks on a rank that joins"""
    ring = Sealed(start=False)
    ring.fd = [None] * N
    ring.fd[1] = ring.member(1)
    ring.fd[0] = ring.member(0)
    time.sleep(0.5)
    seen = ring.packets(src=0)
    attacks = Attacks(seen)
    for _ in range(0, EACH, BATCH):
        inject(ring, attacks.make(BATCH))
        for kind in (ABORT, REJECT, JOIN_ACK, COLLECT, PROPOSE, COMMIT, PAIR, RESET):
            below, rar = rng.choice(seen)
            inject(ring, [(below, of_type(rar, kind))])
    ring.fd[2] = ring.member(2)
    inject(ring, attacks.make(BATCH))
    joined = [ring.joined(s) for s in ring.fd]
    note(f"joined: {joined}")
    result(seen and joined == [0] * N and ring.works(3),
           f"{EACH} packets while the ranks join: the group runs")
    ring.close()


# ------------------------------------------------------------------ memory of the attacker

def network(*args):
    subprocess.run(["ip", *args], check=True)


def zerocopy(rar):
    """Send a packet of rank 0 to rank 1 from pages of this process. Returns the socket, and the
    memory."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    memory[:len(rar)] = rar
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    s.bind(("10.77.0.1", 18118))
    s.sendmsg([memoryview(memory)[:len(rar)]], [], MSG_ZEROCOPY, ("10.77.0.2", 18118))
    return s, memory


def changed_later():
    """A packet of rank 0 does not come. The attacker brings it, in memory of its own that it
    changes while rank 1 holds the packet for an operation that is not posted yet."""
    ring = Sealed()
    ring.works(2)
    wait_quiet(ring)
    data, before = Data(COUNT), live.counters()
    enter("rarbr")
    network("link", "set", "p0", "nomaster")
    network("address", "add", "10.77.0.1/24", "dev", "br0")
    tap, ring.tap = ring.tap, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ring.tap.bind(("p0", 3))
    ring.tap.setblocking(False)
    ring.seen = []
    ring.post(0, data)
    end = time.monotonic() + 2
    while not ring.packets(src=0, kind=RS) and time.monotonic() < end:
        time.sleep(0.01)
    below, first = ring.packets(src=0, kind=RS)[0]
    enter("rarbr")
    # without asking: rank 1 would learn another way to rank 0
    network("neighbor", "replace", "10.77.0.2", "lladdr", below.eth[:6].hex(":"), "dev", "br0")
    s, memory = zerocopy(first)
    end = time.monotonic() + 2
    while not live.moved(before, live.counters()) and time.monotonic() < end:
        time.sleep(0.01)
    came = live.moved(before, live.counters())
    note(f"it came: {came}")
    memory[64:len(first) - TAIL] = bytes(len(first) - TAIL - 64)
    enter("rarbr")
    network("address", "del", "10.77.0.1/24", "dev", "br0")
    network("link", "set", "p0", "master", "br0")
    ring.tap.close()
    ring.tap = tap
    ring.post(1, data)
    ring.post(2, data)
    try:
        right = all([ring.collect(r, data) for r in range(N)])
    except OSError as e:
        note(f"{e}, {[ring.error(r) for r in range(N)]}")
        right = False
    result(came == {"EarlyHeld": 1} and right and ring.works(),
           "a packet whose sender changes its memory later: the sums are right")
    s.close()
    ring.close()


def watch(rank):
    """A packet socket of a rank's host"""
    enter(f"rar{rank}")
    watcher = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    watcher.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)    # SO_RCVBUFFORCE
    watcher.bind(("eth0", 3))
    watcher.setblocking(False)
    return watcher


def watched(ring, watcher, data):
    """How many RS and AG of rank 0 a watcher has seen, and how many with elements of an operation"""
    tap, ring.tap, ring.seen = ring.tap, watcher, []
    seen = [rar for _, rar in ring.packets(src=0) if rar[1] in (RS, AG)]
    ring.tap = tap
    parts = data.x[0].tobytes()[:1024], data.sum[:1024]
    read = sum(any(part in rar for part in parts) for rar in seen)
    note(f"{len(seen)} packets seen, {read} of them with elements")
    return len(seen), read


def read_late():
    """Another host gets copies of the packets for rank 1, as a bridge floods them, and reads them
    when rank 1 has decrypted its own. They share pages."""
    ring = Sealed()
    enter("rar1")
    subprocess.run(["ethtool", "-K", "eth0", "gro", "on"], check=True)
    enter("rarbr")
    # else veth leaves GRO out
    subprocess.run(["ethtool", "-K", "p1", "tso", "off"], check=live.path != "xdp")
    network("link", "set", "p1", "type", "bridge_slave", "learning", "off")
    subprocess.run(["bridge", "fdb", "del", ring.packets()[0][0].eth[:6].hex(":"), "dev", "p1",
                    "master"], check=False)
    late = watch(2)
    data = Data(COUNT)
    right = ring.allreduce(data)
    wait_quiet(ring)
    copies, read = watched(ring, late, data)
    result(right and copies >= 4 and (read > 0) == (level == AUTH),
           "copies that are read later are as they were sent")
    enter("rar1")
    subprocess.run(["ethtool", "-K", "eth0", "gro", "off"], check=True)
    enter("rarbr")
    subprocess.run(["ethtool", "-K", "p1", "tso", "on"], check=live.path != "xdp")
    network("link", "set", "p1", "type", "bridge_slave", "learning", "on")
    late.close()
    ring.close()


def seen_again():
    """Packets with elements come again to rank 1, whose host has a packet socket. With XDP they end
    before it."""
    ring = Sealed()
    data = Data(COUNT)
    right = ring.allreduce(data)
    wait_quiet(ring)
    copies = [p for p in ring.packets(src=0) if p[1][1] in (RS, AG)]
    watcher, xdp = watch(1), live.path == "xdp"
    before = ring.dropped()
    inject(ring, copies)
    wait_quiet(ring)
    dropped = ring.dropped() - before
    seen, read = watched(ring, watcher, data)
    result(right and dropped == len(copies) >= 4 and (xdp or seen >= dropped) and
           (read > 0) == (level == AUTH and not xdp),
           f"{dropped} packets that come again are seen as they were sent")
    watcher.close()
    ring.close()


# ------------------------------------------------------------------ what the page says

def published():
    """Make the tags of packets that were sent."""
    ring = Sealed()
    ring.works(2)
    data = Data(COUNT)
    ring.allreduce(data)
    wait_quiet(ring)
    epoch = ring.info(1, 24)
    proposal = ring.packets(src=0, kind=PROPOSE)[-1]
    proposed = proposal[1]
    nonces = [struct.unpack_from(">Q", proposed, 152 + 32 * r)[0] for r in range(N)]
    good = {}
    for below, rar in ring.packets(src=0)[-60:] + ring.packets(kind=JOIN) + [proposal]:
        counter = struct.unpack_from(">Q", rar, len(rar) - 8)[0]
        if rar[1] in OF_JOIN:
            want = join_tag(join_key(KEY, ring.group), below, rar[:-TAIL])
        else:
            key = key_of(KEY, ring.group, epoch, nonces, 0, 1, level)
            want = tag_of(key, counter, rar[:-TAIL], level)
        good.setdefault(rar[1], []).append(want == rar[-TAIL:-8])
    note(f"types and tags: { {k: f'{sum(v)} of {len(v)}' for k, v in good.items()} }")
    result({RS, AG, JOIN, PROPOSE} <= good.keys() and all(all(v) for v in good.values()),
           "the tags are those that the page describes")
    # of the first block: what rank 0 contributes, and the sum
    plain = data.x[0].tobytes()[:1024], data.sum[:1024]
    there = [any(part in rar for _, rar in ring.packets(src=0)) for part in plain]
    result(there == [level == AUTH] * 2,
           f"elements can {'be' if level == AUTH else 'not be'} read")
    counters = [struct.unpack_from(">Q", rar, len(rar) - 8)[0]
                for _, rar in ring.packets(src=0) if rar[1] not in OF_JOIN]
    result(len(counters) == len(set(counters)) > 10, "no counter is used twice")
    ring.close()


# ------------------------------------------------------------------ mixed groups

def mixed(name, odd, err, reason, size=N):
    """Rank 1 differs. No rank joins, and its neighbours say why."""
    group = Ring.group = Ring.group + 1
    fd = []
    for rank in range(N):
        enter(f"rar{rank}")
        s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
        for option, value in odd if rank == 1 else seals():
            s.setsockopt(SOL_RAR, option, value)
        s.setsockopt(SOL_RAR, RAR_JOIN, struct.pack(
            "=64s64s64s16sII16x", *(live.sockaddr(r, group, size if rank == 1 else N)
                                    for r in (rank, (rank + 1) % N)),
            b"", b"", 1500, 0))
        fd.append(s)
    said = []
    for s in fd:
        Ring.poll(s, 4)
        said.append((s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
                     *struct.unpack_from("=III", s.getsockopt(SOL_RAR, live.RAR_ERROR, 104), 4)))
    # not earlier: a rank that failed tells those that ask later why
    for s in fd:
        s.close()
    note(f"{name}: {said}")
    result(all(e and 1 in ranks for e, _, *ranks in said) and said[1][:2] == (err, reason) and
           said[2][:2] == (err, reason), f"{name}: all ranks fail, and name it")


def main():
    global level
    rng.seed(get_seed())
    for r in range(N):
        enter(f"rar{r}")
        sysctl("dead_ms", 3000)
        # RAR_DOUBLING: all that is longer than 8 bytes goes by halving.
        sysctl("direct_bytes", 8)
        sysctl("halving_bytes", 1 << 20)
    for level in (AUTH, ENCRYPT):
        note("auth" if level == AUTH else "encrypt")
        published()
        running(BY_RANKS)
        running(BY_DIRECT)
        running(BY_HALVING)
        joining()
        old_epoch()
        changed_later()
        read_late()
        seen_again()
    mixed("rank 1 has no key", (), errno.ETIMEDOUT, RAR_R_SECURITY)
    mixed("rank 1 has a key and no seals", seals()[:1], errno.ETIMEDOUT, RAR_R_SECURITY)
    mixed("rank 1 has another level", seals(asked=AUTH), errno.EBADMSG, RAR_R_SECURITY)
    mixed("rank 1 has another key", seals(KEY[::-1]), errno.ETIMEDOUT, RAR_R_KEY)
    mixed("rank 1 has a shorter key", seals(KEY[:16]), errno.ETIMEDOUT, RAR_R_KEY)
    mixed("rank 1 believes in more ranks", seals(), errno.EBADMSG, RAR_R_SIZE, N + 1)
    note(f"{sum(sent.values())} packets: " + ", ".join(f"{w} {n}" for w, n in sent.items()))
    result(sum(sent.values()) >= PARTS * EACH, f"{PARTS * EACH} packets were sent")
    finish()


if __name__ == "__main__":
    main()
