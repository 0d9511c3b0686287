# SPDX-License-Identifier: GPL-2.0
"""A ring that runs while a test throws packets at it: rank r is a socket of this process in the
namespace rar<r> of lib/lib.sh. The bridge's namespace sees all packets, and sends any.
"""
import array
import os
import random
import select
import socket
import struct
import time

from rarpkt import AF_RAR, AG, RS, SOL_RAR, Packet, enter, sysctl, tables

RAR_JOIN, RAR_ERROR, RAR_INFO, RAR_OP = 1, 7, 8, 32
RAR_KEY, RAR_SECURITY = 15, 23
KEY = b"a key that all ranks of it have\0"
SEALED = ((RAR_KEY, KEY), (RAR_SECURITY, struct.pack("=I", 1)))
SOL_PACKET, PACKET_VNET_HDR = 263, 15
I32, SUM, MAX = 3, 1, 4
N = 3
COUNT = 2060        # elements: two chunks per block, the last one shorter
BIG = 11900         # two chunks per block, in frames of more than a page
COPIES = 2          # of each bad packet

path, V6 = "xdp" if os.environ.get("RAR_XDP") else "ingress", False     # of the variant that runs
rng = random.Random(int(os.environ.get("SEED", "1")))


# ------------------------------------------------------------------ TAP

tap_nr = tap_failed = 0


def note(text):
    print("#", text, flush=True)


def result(ok, name):
    global tap_nr, tap_failed
    tap_nr += 1
    tap_failed += not ok
    print(f"{'ok' if ok else 'not ok'} {tap_nr} {path} IPv{6 if V6 else 4}: "
          f"{name}", flush=True)


# ------------------------------------------------------------------ counters

def snmp6():
    with open("/proc/self/net/snmp6") as f:
        return {k: int(v) for k, v in (line.split() for line in f)}


def counters(stack=()):
    """Counters of rank 1: all drops, chunks accepted, and those named of the stack."""
    enter("rar1")
    c = tables("rar_netstat")
    out = {k[3:]: v for k, v in c.items()
           if k.startswith("RarDrop") or k in ("RarRxData", "RarRxDup",
                                               "RarEarlyHeld")}
    if stack:
        s = tables("snmp", "netstat")
        s.update(snmp6())
        out.update({k: s[k] for k in stack})
    return out


def moved(before, after):
    return {k: after[k] - before[k] for k in after if after[k] != before[k]}


class Log:
    """The lines of the kernel log that are new."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        out = []
        while True:
            try:
                out.append(os.read(self.fd, 8192).decode(errors="replace"))
            except BlockingIOError:
                return out


# ------------------------------------------------------------------ the ring

def address(rank):
    text = f"fd77::{rank + 1}" if V6 else f"10.77.0.{rank + 1}"
    return socket.inet_pton(socket.AF_INET6 if V6 else socket.AF_INET, text)


def sockaddr(rank, group, size=None):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2),
                       socket.AF_INET6 if V6 else socket.AF_INET, 0, 0, rank,
                       size or N, 0, group, address(rank))


class Data:
    """An operation on random i32: their sums do not depend on the order."""

    def __init__(self, count):
        self.count = count
        self.x = [array.array("i", rng.randbytes(4 * count)) for _ in range(N)]
        self.sum = self.of(*range(N))

    def of(self, *ranks, first=0, end=None):
        """The bytes of the sum over some ranks."""
        end = self.count if end is None else end
        return array.array("I", (
            sum(v) % (1 << 32) for v in zip(*(self.x[r][first:end] for r in ranks))
        )).tobytes()


class Ring:
    """Three members of this process, one per namespace."""

    group = 0xbad0
    options = ()        # of each rank's socket, before it joins
    port = "p1"         # of the bridge, where packets are captured and sent

    def __init__(self):
        self.listen()
        self.fd = [self.member(r) for r in range(N)]
        for s in self.fd:
            err = self.joined(s)
            if err:
                raise OSError(err, "join")

    def listen(self):
        Ring.group += 1
        self.group = Ring.group
        self.seen = []      # frames there
        enter("rarbr")
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                 socket.htons(3))
        self.tap.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)    # SO_RCVBUFFORCE
        self.tap.bind((self.port, 3))
        self.tap.setblocking(False)

    def member(self, rank):
        """Begin to join."""
        enter(f"rar{rank}")
        sysctl("rx_path", path)
        s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
        for name, value in self.options:
            s.setsockopt(SOL_RAR, name, value)
        s.setsockopt(SOL_RAR, RAR_JOIN, sockaddr(rank, self.group) +
                     sockaddr((rank + 1) % N, self.group))
        return s

    def joined(self, s):
        self.poll(s, select.POLLOUT)
        return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    @staticmethod
    def poll(s, events, seconds=10):
        p = select.poll()
        p.register(s, events)
        if not p.poll(seconds * 1000):
            raise TimeoutError("poll")

    def post(self, rank, data, prio=0):
        op = struct.pack("=IBBBBIIQQQB7x", 48, 0, I32, 0, 0, 0, 0, 0, 0, 0, prio)
        self.fd[rank].sendmsg([data.x[rank]], [(SOL_RAR, RAR_OP, op)])

    def collect(self, rank, data):
        self.poll(self.fd[rank], select.POLLIN)
        return self.fd[rank].recv(4 * data.count + 4) == data.sum

    def allreduce(self, data):
        for r in range(N):
            self.post(r, data)
        return all([self.collect(r, data) for r in range(N)])

    def error(self, rank):
        return struct.unpack("=iIII", self.fd[rank].getsockopt(
            SOL_RAR, RAR_ERROR, 104)[:16])

    def failure(self, rank):
        """The result of recv(), which never waits, and RAR_ERROR."""
        try:
            self.poll(self.fd[rank], select.POLLIN)
            self.fd[rank].recv(4, socket.MSG_DONTWAIT)
            got = 0
        except OSError as e:
            got = e.errno
        return got, *self.error(rank)

    def sniff(self):
        """All frames captured so far, as parsed packets."""
        while True:
            try:
                frame = self.tap.recv(70000)
            except BlockingIOError:
                return self.seen
            p = Packet.parse(frame)
            if p and p.group == self.group:
                self.keep(p, frame)

    def keep(self, packet, frame):
        """Remember a packet of this group."""
        del frame
        self.seen.append(packet)

    def close(self):
        for s in self.fd:
            s.close()
        self.tap.close()


class Lone(Ring):
    """Rank 1 alone: it looks for the others."""

    def __init__(self):
        self.listen()
        self.fd = [self.member(1)]


# ------------------------------------------------------------------ packets of it

def plain(p):
    """The fields of a packet, without those of the data header."""
    return {k: v for k, v in p.__dict__.items() if k not in Packet.DATA}


def inject(ring, frames):
    for frame in frames:
        ring.tap.send(frame)


def settle(before, expect, stack, seconds=1):
    """The counters once they are as expected, or after a while. On a slow machine a rank may send
    a chunk again, so duplicates count only if they are expected.
    """
    def news():
        got = moved(before, counters(stack))
        return got if "RxDup" in expect else {k: v for k, v in got.items() if k != "RxDup"}

    end = time.monotonic() + seconds
    while True:
        got = news()
        if got == expect and expect:
            return got
        if time.monotonic() > end or not expect:
            time.sleep(0.02)
            return news()
        time.sleep(0.002)


def last(packets, **want):
    for p in reversed(packets):
        if all(getattr(p, k, None) == v for k, v in want.items()):
            return p
    raise LookupError(f"no packet with {want} seen")


def next_packet(ring, data, op):
    """The packet that rank 0 will send first in operation op: RS of chunk 0."""
    packets = ring.sniff()
    seen = [p for p in packets if p.srank == 0 and p.drank == 1 and
            p.type in (RS, AG)]
    template = last(packets, srank=0, drank=1, type=RS, chunk=0)
    highest = max(p.seq for p in seen)
    block = (4 * data.count + N - 1) // N
    block = (block + 63) // 64 * 64
    size = len(template.payload)
    p = template.copy(seq=highest + 1, una=highest + 1, op=op,
                      count=data.count, flags=0,
                      payload=data.x[0].tobytes()[:size])
    p.block = block
    p.per_block = (block + size - 1) // size
    p.nchunks = 2 * p.per_block + (
        4 * data.count - 2 * block + size - 1) // size
    return p


def wait_quiet(ring):
    """Wait until all packets of posted operations have come and are acknowledged."""
    n = -1
    while n != len(ring.sniff()):
        n = len(ring.seen)
        time.sleep(0.03)


def wait_for(ring, **want):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            return last(ring.sniff(), **want)
        except LookupError:
            time.sleep(0.05)
    raise LookupError(f"no packet with {want} came")
