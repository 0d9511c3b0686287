#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Strangers: hosts that carry no packet of a group, but know its number, ranks and addresses.

They ask for cookies as any host may, they know nonces of joins that are over, they send copies of
packets that came long ago, and they forge sources. Nothing of that may be believed: no group ends,
no join ends, no box is taken, and every sum is right.

The ranks are sockets of this process in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. The
stranger's own host is rar3. A forged packet leaves the bridge at the port of the rank it is for.
"""
import errno
import pathlib
import select
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import boxleg
import live
from live import COUNT, N, Data, Ring, address, last, sockaddr, wait_for
from rarpkt import (ABORT, COLLECT, COMMIT, ENTER, FIN, JOIN, JOIN_ACK, OFFER, PAIR, PROPOSE,
                    REJECT, RESET, SOL_RAR, VERSION, Packet, enter, sysctl,
                    tables)
from tap import finish, note, result

RAR_JOIN, RAR_INFO, RAR_SCHEDULE = 1, 8, 13
BY_RANKS, DIRECT = 0, 3
JF_DIRECT = 0x10
PORT, PAYLOAD = 18118, 1408
FAR = 3                 # the stranger's host
RUN = 4
MASK = 2**64 - 1
TESTS = []


def test(name):
    def add(function):
        TESTS.append((name, function))
        return function
    return add


def set_all(name, value):
    for r in range(N + 1):
        enter(f"rar{r}")
        sysctl(name, value)


# ------------------------------------------------------------------ the group

class Group(Ring):
    """A ring whose ranks begin to join one by one"""

    def __init__(self, key=b"", schedule=BY_RANKS):
        self.listen()
        self.key, self.schedule = key, schedule
        self.fd = [None] * N
        self.ports = [0] * N        # of the ranks, 0 = the usual one

    def start(self, *ranks):
        for r in ranks:
            enter(f"rar{r}")
            self.fd[r] = self.fd[r] or socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
            self.fd[r].setsockopt(SOL_RAR, RAR_SCHEDULE, struct.pack("=I", self.schedule))
            following = bytearray(sockaddr((r + 1) % N, self.group))
            struct.pack_into(">H", following, 2, self.ports[(r + 1) % N])
            self.fd[r].setsockopt(SOL_RAR, RAR_JOIN, struct.pack(
                "=64s64s64s16sII16x", sockaddr(r, self.group), following, b"", self.key, 0, 0))

    def state(self, rank):
        return struct.unpack_from("=I", self.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 192))[0]

    def epoch(self, rank):
        return struct.unpack_from("=Q", self.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 192), 24)[0]

    def nonce(self):
        """Rank 1's, as who carries its packets sees it in its JOIN"""
        return struct.unpack_from(">Q", wait_for(self, srank=1, type=JOIN).payload)[0]

    def runs(self):
        """Does the join of each rank succeed?"""
        return [self.joined(s) for s in self.fd] == [0] * N

    def works(self, rounds=3):
        """Are sums right, and has no rank an error?"""
        try:
            ok = all([self.allreduce(Data(COUNT)) for _ in range(rounds)])
        except OSError as e:
            note(f"the group: {e}")
            return False
        return ok and not any(self.error(r)[0] for r in range(N))

    def close(self):
        for s in self.fd:
            if s:
                s.close()
        self.tap.close()


# ------------------------------------------------------------------ the stranger

class Stranger:
    """An ordinary UDP socket of another host. It may claim any rank of any group."""

    def __init__(self, group, port=0):
        enter(f"rar{FAR}")
        self.group, self.nonce = group, live.rng.getrandbits(64)
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((socket.inet_ntoa(address(FAR)), port))
        self.s.settimeout(0.3)
        self.port = self.s.getsockname()[1]

    def send(self, kind, src, dst, token, body):
        self.s.sendto(struct.pack(">BBHHHQQ", VERSION, kind, src, dst, len(body), self.group, token)
                      + body, (socket.inet_ntoa(address(dst)), PORT))

    def receive(self, kind=None, seconds=0.3):
        """The next packet of a type, or None"""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.s], [], [], left)[0]:
                break
            packet = self.s.recv(4096)
            if len(packet) >= 24 and kind in (None, packet[1]):
                return packet
        return None

    def join(self, src, dst, token=0, flags=0):
        """Ask as the predecessor does. Returns the cookie, or 0"""
        self.send(JOIN, src, dst, token, struct.pack(
            ">QIIHHIQ", self.nonce, N, PAYLOAD, self.port, flags, 0, 0).ljust(PAYLOAD + 40, b"\0"))
        answer = self.receive(JOIN_ACK)
        return struct.unpack_from(">Q", answer, 24)[0] if answer else 0

    def close(self):
        self.s.close()


# ------------------------------------------------------------------ nonces, and the table

def siphash(key, data):
    """SipHash-2-4, as the kernel's"""
    def rotate(x, n):
        return (x << n | x >> 64 - n) & MASK

    def rounds(v, n):
        for _ in range(n):
            v[0], v[2] = (v[0] + v[1]) & MASK, (v[2] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & MASK, (v[0] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    v = [key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
         key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573]
    tail = data[len(data) // 8 * 8:]
    words = [w for w, in struct.iter_unpack("<Q", data[:len(data) // 8 * 8])]
    for word in (*words, int.from_bytes(tail, "little") | (len(data) & 255) << 56):
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def chain(before, data):
    return siphash((0, 0), struct.pack("<Q", before) + data)


def table(group, drawn, nonces, port):
    """Bodies of COLLECT, PROPOSE and COMMIT: a table of a ring in which all ranks are at the
    stranger's address"""
    payload = 1024
    rows = [struct.pack(">Q16sHHHH", nonce, address(FAR), 4, port, 0, payload)
            for nonce in nonces]
    value = chain(0, struct.pack(">QQQQQQ", group, drawn, N, payload << 32, 0, 0))
    for row in rows:
        value = chain(value, row)
    digest = siphash((0, 0), struct.pack("<QQ", value, 1))

    def body(drawn, digest, rows):
        return struct.pack(">QQQQIHHHHIIII68s", drawn, digest, 0, 0, payload, 0, 0, len(rows), 0,
                           0, 0, 0, 0, b"\xff" * 68) + b"".join(rows)

    return body(0, drawn - 1, rows), body(drawn, digest, rows), body(drawn, digest, [])


class Usurper(Stranger):
    """A stranger that has the place of rank 0 at rank 1, which no key and no address guards"""

    def __init__(self, group, flags=0):
        super().__init__(group)
        self.flags, self.heard, self.drawn = flags, [], 1 << 40
        self.token = self.join(0, 1, 0, flags)
        self.stay()

    def stay(self):
        self.join(0, 1, self.token, self.flags)

    def collect(self):
        self.drawn += 1000
        self.send(COLLECT, 0, 1, self.token,
                  table(self.group, self.drawn, [self.nonce] * N, self.port)[0])

    def propose(self, nonce):
        """Propose a table in which rank 1 has a nonce, and commit it"""
        self.drawn += 1000
        bodies = table(self.group, self.drawn, [self.nonce, nonce, self.nonce], self.port)
        for kind, body in zip((COLLECT, PROPOSE, COMMIT), bodies):
            self.send(kind, 0, 1, self.token, body)
            time.sleep(0.02)

    def listen(self, seconds=0.2):
        while packet := self.receive(seconds=seconds):
            self.heard.append(packet)

    def numbers(self):
        """All numbers of 64 bits in short packets that came, and the tokens of others"""
        return {struct.unpack_from(">Q", p, at)[0] for p in self.heard
                for at in range(16, min(len(p), 64) - 7, 8)}


def asks(schedule):
    """A stranger asks each rank for its nonce, by all types, and takes the place of one."""
    group = Group(schedule=schedule)
    group.start(1, 2)
    nonce = group.nonce()
    flags = JF_DIRECT if schedule == DIRECT else 0
    usurper = Usurper(group.group, flags)
    cookies = [usurper.join(1, 2), usurper.token]
    for kind in (PAIR, OFFER, COLLECT, PROPOSE):
        for cookie in (*cookies, 0):
            usurper.send(kind, 2, 1, cookie, struct.pack(">QII", 0x77, 0, 0).ljust(1400, b"\0"))
    for _ in range(3):
        usurper.collect()
    usurper.listen()
    return group, usurper, nonce


@test("no rank's nonce is told to a host that asks")
def told():
    ok = True
    for schedule in (BY_RANKS, DIRECT):
        group, usurper, nonce = asks(schedule)
        if nonce in usurper.numbers():
            note(f"schedule {schedule}: the nonce was in {len(usurper.heard)} packets that came")
            ok = False
        usurper.close()
        group.start(0)
        ok &= group.runs() and group.works()
        group.close()
    return ok


@test("who carries the packets of a rank may make up a table: the next test can fail")
def insider():
    group, usurper, nonce = asks(BY_RANKS)
    usurper.propose(nonce)
    ok = group.state(1) == RUN
    usurper.close()
    group.close()
    return ok


@test("connect() does not succeed in a ring that does not exist")
def ghost():
    group, usurper, _ = asks(DIRECT)
    tried = usurper.numbers() | {usurper.token, usurper.nonce}
    ok = True
    for number in tried:
        usurper.stay()
        usurper.propose(number)
        if group.state(1) == RUN:
            note("the stranger's table is believed")
            ok = False
            break
    note(f"{len(tried)} numbers tried as the nonce")
    usurper.close()
    group.start(0)
    ok = ok and group.runs() and group.works()
    group.close()
    return ok


@test("a table with the addresses of victims brings them no more than twice its bytes")
def amplified():
    group = Group(schedule=DIRECT)
    group.start(1, 2)
    usurper = Usurper(group.group, JF_DIRECT)
    usurper.listen()
    usurper.heard = []
    sent = 0
    for _ in range(10):
        usurper.collect()
        sent += 28 + 152 + N * 32
        usurper.listen(0.05)
    pairs = [28 + len(p) for p in usurper.heard if p[1] == PAIR]
    note(f"{sent} bytes of COLLECT, {sum(pairs)} bytes in {len(pairs)} packets PAIR")
    usurper.close()
    group.close()
    return 0 < sum(pairs) <= 2 * sent


# ------------------------------------------------------------------ forged sources

KEY = b"0123456789abcdef"


def forged(group, src, kind, token, body):
    """A packet to rank 1 as if from a rank, in the frames that its packets come in"""
    wait_for(group, drank=1)
    seen = last(group.seen, drank=1)
    return Packet(**{**live.plain(seen), "type": kind, "srank": src, "src": address(src),
                     "token": token, "sport": PORT, "payload": body}).frame()


def notice(err, reason):
    return struct.pack(">IIIIQII16x", err, reason, 0, 2, 0, 0, 0)


def join_answer(nonce):
    return struct.pack(">QIIHHIQ", nonce, N, PAYLOAD, PORT, 0, 0, 0x5eed)


@test("nonce and cookie of a join end no group that runs, with a key or without")
def after_the_join():
    ok = True
    for key in (b"", KEY):
        group = Group(key)
        group.start(0, 1, 2)
        ok &= group.runs() and group.works()
        nonce = group.nonce()
        cookie = [p.token for p in group.seen if p.type == JOIN and p.drank == 1 and p.token][0]
        for token in (nonce, cookie):
            for src in (0, 2):
                for kind, body in ((ABORT, notice(errno.ECONNRESET, 6)),
                                   (REJECT, notice(errno.EACCES, 23)),
                                   (JOIN_ACK, join_answer(1)), (OFFER, offer_body(PORT)),
                                   (COLLECT, bytes(112)), (RESET, b""), (FIN, notice(0, 0))):
                    live.inject(group, [forged(group, src, kind, token, body)])
        time.sleep(0.1)
        ok &= group.works()
        group.close()
    return ok


@test("a forged answer of the successor does not end a join with a key")
def bad_proof():
    group = Group(KEY)
    group.start(1)
    nonce = group.nonce()
    asked = last(group.seen, srank=1, type=JOIN)
    for kind, body in ((JOIN_ACK, join_answer(1)), (REJECT, notice(errno.EACCES, 23)),
                       (REJECT, notice(errno.EBADMSG, 10))):
        live.inject(group, [asked.copy(
            eth=asked.eth[6:12] + asked.eth[:6] + asked.eth[12:], src=asked.dst, dst=asked.src,
            srank=2, drank=1, type=kind, token=nonce, payload=body).frame()])
    time.sleep(0.1)
    group.start(0, 2)
    ok = group.runs() and group.works()
    group.close()
    return ok


# ------------------------------------------------------------------ late copies

@test("a JOIN of an earlier attempt does not end a group, with a key or without")
def late_join():
    ok = True
    for key in (b"", KEY):
        group = Group(key)
        group.start(1, 0)
        wait_for(group, srank=0, drank=1, type=JOIN)
        time.sleep(0.2)         # until it has echoed
        old = [p.frame() for p in group.sniff() if p.type == JOIN and p.drank == 1 and p.token]
        group.fd[0].close()
        group.fd[0] = None
        group.start(0, 2)
        ok &= bool(old) and group.runs() and group.works()
        live.inject(group, old)
        time.sleep(0.1)
        ok &= group.works()
        group.close()
    return ok


class Holder:
    """Rank 2 as a process of this test: it takes part in the join, and lets no proposal pass that
    it is not told to"""

    def __init__(self, group):
        self.group, self.nonce, self.token, self.passes = group.group, 0x01d, 0, False
        enter("rar2")
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((socket.inet_ntoa(address(2)), 0))
        self.port = group.ports[2] = self.s.getsockname()[1]

    def send(self, rank, kind, token, body):
        self.s.sendto(struct.pack(">BBHHHQQ", VERSION, kind, 2, rank, len(body), self.group, token)
                      + body, (socket.inet_ntoa(address(rank)), PORT))

    def body(self, flags=0):
        return struct.pack(">QIIHHIQ", self.nonce, N, PAYLOAD, self.port, flags, 0, 0)

    def receive(self, packet):
        kind, source = packet[1], struct.unpack_from(">H", packet, 2)[0]
        if kind == JOIN and source == 1:
            nonce, flags = struct.unpack_from(">Q10xH", packet, 24)
            self.send(1, JOIN_ACK, nonce, self.body(flags))
        elif kind == JOIN_ACK and source == 0:
            self.token = struct.unpack_from(">Q", packet, 24)[0]
        elif kind == COLLECT:
            row = struct.pack(">Q16sHHHH", self.nonce, address(2), 4, self.port, 0, PAYLOAD)
            self.send(0, kind, self.token, packet[24:-32] + row)
        elif kind in (PROPOSE, COMMIT) and self.passes:
            self.send(0, kind, self.token, packet[24:])

    def serve(self, until, seconds=8):
        """Take part until something is so. Returns whether it is"""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            self.send(0, JOIN, self.token, self.body().ljust(PAYLOAD + 40, b"\0"))
            step = time.monotonic() + 0.05
            while (left := step - time.monotonic()) > 0:
                if select.select([self.s], [], [], left)[0]:
                    self.receive(self.s.recv(4096))
        return until()


@test("late copies of COLLECT and PROPOSE do not lead back to an older epoch")
def late_table():
    group = Group()
    holder = Holder(group)
    group.start(0, 1)

    def seen(kind):
        return [p for p in group.sniff() if p.type == kind and p.drank == 1]

    def proposals():
        return len({p.payload[:8] for p in seen(PROPOSE)})

    ok = holder.serve(lambda: proposals() == 2)
    first = seen(PROPOSE)[0]
    old = [p for p in seen(COLLECT) if p.payload[8:16] < first.payload[:8]][-1:] + [first]
    time.sleep(0.1)
    before = group.epoch(1)
    epochs = set()
    for p in old * 2:
        live.inject(group, [p.frame()])
        epochs.add(group.epoch(1))      # rank 0 proposes again and again, so look at once
        time.sleep(0.02)
        epochs.add(group.epoch(1))
    ok &= before != 0 and epochs == {before}
    if epochs != {before}:
        note("the member was ready for the epoch before again")
    holder.passes = True
    ok &= holder.serve(lambda: group.state(0) == group.state(1) == RUN)
    ok &= group.epoch(0) == group.epoch(1) == before
    holder.s.close()
    group.close()
    return ok


# ------------------------------------------------------------------ boxes

def counter(rank, name):
    enter(f"rar{rank}")
    return tables("rar_netstat")["Rar" + name]


def count_up(name, start):
    """Wait until a counter of rank 1 has grown"""
    end = time.monotonic() + 10
    while counter(1, name) <= start and time.monotonic() < end:
        time.sleep(0.02)
    return counter(1, name) > start


def ip(ns, *words):
    subprocess.run(["ip", "-n", ns, *words], check=True)


def set_box(memory):
    enter(f"rar{FAR}")
    sysctl("box_mem", memory)


@test("a late ENTER does not end a job of a box")
def late_enter():
    set_box(1 << 24)
    enter("rar0")
    sysctl("box", socket.inet_ntoa(address(FAR)))
    opened, lost = counter(1, "BoxOpened"), counter(1, "BoxLost")
    group = Group()
    group.start(0, 1, 2)
    ok = group.runs() and count_up("BoxOpened", opened) and group.works()
    old = [p.frame() for p in group.sniff() if p.type == ENTER and p.srank == 1]
    opened = counter(1, "BoxOpened")
    set_box(0)
    ok &= count_up("BoxLost", lost)
    set_box(1 << 24)
    ok &= bool(old) and count_up("BoxOpened", opened) and group.works()
    lost = counter(1, "BoxLost")
    enter("rarbr")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.bind((f"p{FAR}", 0))
        for frame in old:
            s.send(frame)
    time.sleep(0.3)
    ok &= group.works() and counter(1, "BoxLost") == lost
    group.close()
    set_box(0)
    enter("rar0")
    sysctl("box", "-")
    return ok


def offer_body(port):
    return struct.pack(">16sHHI", address(FAR) + bytes(12), 4, port, 0)


def from_host(host, leg):
    """The leg, from an address of rar2"""
    leg.s.close()
    leg.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    leg.s.settimeout(0.02)
    leg.s.bind((host, 0))
    leg.s.connect(boxleg.BOX)
    leg.enter()
    leg.enter()
    return leg


def full_box(ranks):
    """Are there places of a box for others? A host takes as many as it can, with groups of two of
    which so many ranks enter."""
    set_box(1 << 26)
    sysctl("dead_ms", 20000)
    hosts = [f"10.77.0.{200 + i}" for i in range(8)]
    for host in hosts:
        ip("rar2", "address", "add", f"{host}/24", "dev", "eth0")
    enter("rar2")
    legs = [from_host(hosts[i // 8], boxleg.Leg(boxleg.Group(0x7000 + i, 5, 2, 64), rank))
            for i in range(64) for rank in range(ranks)]
    enter(f"rar{FAR}")
    with open("/proc/self/net/rar_box") as f:
        jobs = int(f.readline().split()[-1])
    note(f"{jobs} jobs of one host")
    enter("rar0")
    sysctl("box", boxleg.BOX[0])
    opened = counter(1, "BoxOpened")
    group = Group()
    group.start(0, 1, 2)
    ok = group.runs() and count_up("BoxOpened", opened) and group.works()
    group.close()
    for leg in legs:
        leg.s.close()
    for host in hosts:
        ip("rar2", "address", "del", f"{host}/24", "dev", "eth0")
    set_box(0)
    sysctl("dead_ms", 2000)
    enter("rar0")
    sysctl("box", "-")
    return ok and 16 <= jobs <= 32


@test("a host of many addresses does not hold the places of a box")
def full_of_entering():
    return full_box(1)


@test("nor does it with jobs that all ranks have entered")
def full_of_open():
    return full_box(2)


@test("no box is taken unless the administrator wants one")
def default_box():
    ok = True
    for r in range(N):
        enter(f"rar{r}")
        with open("/proc/sys/net/rar/box") as f:
            ok &= f.read().strip() == "-"
    return ok


@test("the box of a group, offered with a cookie")
def offered():
    set_all("box", "offered")
    group = Group()
    group.start(1, 2)
    stranger = Stranger(group.group)
    ok = True
    for rank in (1, 2):
        cookie = stranger.join((rank - 1) % N, rank)
        ok &= cookie != 0
        for src in (0xffff, 0, rank):
            stranger.send(OFFER, src, rank, cookie, offer_body(stranger.port))
    group.start(0)
    ok &= group.runs() and group.works()
    asked = stranger.receive(ENTER, 0.5)
    if asked:
        note("a rank enters at the stranger's box")
    stranger.close()
    group.close()
    set_all("box", "-")
    return ok and not asked


# ------------------------------------------------------------------ the end

def main():
    set_all("dead_ms", 2000)
    for name, function in TESTS:
        try:
            ok = function()
        except (OSError, LookupError) as e:
            note(f"{type(e).__name__}: {e}")
            ok = False
        result(ok, name)
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
