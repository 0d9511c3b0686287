#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets at a box that is a router (net.rar.box_roce), built here byte by byte: which are
held, what comes out, and what is left alone. rar0, rar1 and rar2 are hosts, rarbr is the router.

The ranks of a job are in turn at rar0, rar1 and rar2, and send to the next of them.

"roce.py survive" sends messages while allocations of the box fail: see faults/alloc_fail.py.
"""
import os
import socket
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from rarpkt import csum, enter, sysctl, tables     # noqa: E402
from tap import finish, note, result    # noqa: E402

MAGIC, F32, I32, SUM, AVG = 0x52415201, 1, 3, 1, 11
FIRST, MIDDLE, LAST, ONLY, ACK = 0, 1, 2, 4, 0x11
HOLD_MS = 400
N = 3
MTU = 256
hosts, mac, port_mac = [], [], []   # by rank; the latter of the router's port


# ------------------------------------------------------------------ packets

class Msg:
    """The fields of a message; tests change any of them."""

    def __init__(self, job, rank, msg, data, **fields):
        self.job, self.rank, self.msg, self.data = job, rank, msg, data
        self.magic, self.dtype, self.redop, self.window, self.pad = MAGIC, I32, SUM, 1, 0
        self.size, self.bytes, self.count, self.v6, self.csum = N, None, 1, False, False
        self.psn, self.qpn = 1000 * rank + 100 * msg, 0
        self.__dict__.update(fields)

    def header(self, length):
        """struct rar_roce_hdr."""
        return struct.pack(">IBBBBQHHIII", self.magic, self.dtype, self.redop, self.window,
                           self.pad, self.job, self.rank, self.size, self.msg,
                           length if self.bytes is None else self.bytes, 0)

    def payloads(self):
        """The payload of each packet."""
        out, rest, index = [], self.data, 0
        while rest or not index:
            room = MTU - 8 - (0 if index else 32)
            out.append([rest[:room], struct.pack(">IHH", self.msg, index, self.count)])
            rest, index = rest[room:], index + 1
        length = 32 + sum(len(a) + len(b) for a, b in out)
        return [(b"" if i else self.header(length)) + a + b for i, (a, b) in enumerate(out)]

    def frames(self):
        """The packets as frames."""
        parts = self.payloads()
        kinds = [ONLY] if len(parts) == 1 else [FIRST] + [MIDDLE] * (len(parts) - 2) + [LAST]
        return [frame(self, kind, self.psn + i, part)
                for i, (kind, part) in enumerate(zip(kinds, parts))]


def icrc(packet, v6):
    """The invariant CRC of an IP packet without it."""
    p = bytearray(packet)
    if v6:
        p[0] |= 0xf
        p[1:4], p[7:8] = b"\xff" * 3, b"\xff"
        udp = 40
    else:
        p[1:2], p[8:9], p[10:12] = b"\xff", b"\xff", b"\xff\xff"
        udp = 20
    p[udp + 6:udp + 8] = b"\xff\xff"
    p[udp + 8 + 4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(p)))


def frame(m, kind, psn, payload):
    """A frame from the host of rank m.rank to the next host."""
    src, dst = m.rank % N, (m.rank + 1) % N
    body = struct.pack(">BBHII", kind, 0x40, 0xffff, m.qpn or 256 * m.job + m.rank, psn) + payload
    length = 8 + len(body) + 4
    if m.v6:
        addrs = (socket.inet_pton(socket.AF_INET6, f"fd77::{src + 1}") +
                 socket.inet_pton(socket.AF_INET6, f"fd77::{dst + 1}"))
        ip = struct.pack(">IHBB", 6 << 28, length, 17, 64) + addrs
        pseudo = addrs + struct.pack(">II", length, 17)
    else:
        addrs = socket.inet_aton(f"10.77.0.{src + 1}") + socket.inet_aton(f"10.77.0.{dst + 1}")
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 7, 0x4000, 64, 17, 0) + addrs
        ip = ip[:10] + struct.pack(">H", csum(ip)) + ip[12:]
        pseudo = addrs + struct.pack(">HH", 17, length)
    udp = struct.pack(">HHHH", 0xc000 + m.rank, 4791, length, 0)
    crc = icrc(ip + udp + body, m.v6)
    if m.csum:
        udp = udp[:6] + struct.pack(">H", csum(pseudo + udp + body + crc) or 0xffff)
    return (port_mac[src] + mac[src] + (b"\x86\xdd" if m.v6 else b"\x08\x00") +
            ip + udp + body + crc)


def udp_at(data):
    """Where the UDP header of a frame is."""
    return 14 + (40 if data[12:14] == b"\x86\xdd" else 20)


def sound(data):
    """Are all checksums of a frame right?"""
    v6 = data[12:14] == b"\x86\xdd"
    ip = data[14:]
    at = 40 if v6 else 20
    if ip[-4:] != icrc(ip[:-4], v6):
        return False
    udp = ip[at:]
    if udp[6:8] == b"\0\0":
        return True
    addrs = ip[8:40] if v6 else ip[12:20]
    pseudo = addrs + (struct.pack(">II", len(udp), 17) if v6 else
                      struct.pack(">HH", 17, len(udp)))
    return csum(pseudo + udp) == 0


# ------------------------------------------------------------------ the hosts

def open_host(r):
    """Return a packet socket at a host, and its MAC address."""
    enter(f"rar{r}")
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind(("eth0", 0))
    s.setblocking(False)
    return s, s.getsockname()[4]


def send(frames):
    """Send frames, each from the host that its source port tells."""
    for f in frames:
        hosts[struct.unpack_from(">H", f, udp_at(f))[0] % 0xc000 % N].send(f)


def arrived(seconds=0.1):
    """Return the RoCEv2 frames that came to each host."""
    time.sleep(seconds)
    out = []
    for r, s in enumerate(hosts):
        got = []
        while True:
            try:
                f, where = s.recvfrom(9000)
            except BlockingIOError:
                break
            at = udp_at(f)
            if where[2] != socket.PACKET_OUTGOING and f[:6] == mac[r] and \
                    f[at + 2:at + 4] == struct.pack(">H", 4791):
                got.append(f)
        out.append(got)
    return out


def same(got, want):
    """Are these the same packets for each host, from the UDP header on?"""
    def cut(frames):
        return [[f[udp_at(f):] for f in host] for host in frames]
    return cut(got) == cut(want) and all(map(sound, sum(want, [])))


def settle():
    """Wait until nothing is held, and forget what came."""
    while held()[1]:
        time.sleep(0.05)
    arrived()


def nothing():
    """Does nothing come?"""
    return arrived() == [[], [], []]


def with_sum(b, sums):
    """A frame from its transport header to its CRC, with its part of the sums and the mark N."""
    at = udp_at(b) + 8
    data = at + 12 + (32 if b[at] in (FIRST, ONLY) else 0)
    index = struct.unpack(">H", b[-8:-6])[0]
    first = 0 if not index else MTU - 40 + (index - 1) * (MTU - 8)
    return (b[at:data] + sums[first:first + len(b) - 12 - data] + b[-12:-6] +
            struct.pack(">H", N))


def content(f):
    """A frame from its transport header to its CRC."""
    return f[udp_at(f) + 8:-4]


def summed(before, sums, got):
    """Is each frame of @got one of @before with its part of the sums, and the mark N?"""
    if [len(g) for g in got] != [len(b) for b in before] or not all(map(sound, sum(got, []))):
        note(f"frames {[len(g) for g in got]}, not {[len(b) for b in before]}")
        return False
    for b, g in zip(sum(before, []), sum(got, [])):
        want = with_sum(b, sums)
        if content(g) != want:
            note(f"packet {b[-8:-6].hex()}: {content(g).hex()} is not {want.hex()}")
            return False
    return True


def unharmed(before, sums, got):
    """Has each frame of @before come once, in any order, as it was or with the sums?"""
    for sent, came in zip(before, got):
        rest = list(map(content, came))
        for b in sent:
            whole = [x for x in (content(b), with_sum(b, sums)) if x in rest]
            if not whole:
                note(f"a packet did not come, or not whole: {content(b).hex()}")
                return False
            rest.remove(whole[0])
        if rest or not all(map(sound, came)):
            note(f"{len(rest)} frames more, or checksums are wrong")
            return False
    return True


def by_host(messages):
    """The frames that each host receives of messages."""
    out = [[], [], []]
    for m in messages:
        out[(m.rank + 1) % N] += m.frames()
    return out


def counted(name):
    """A counter of the box."""
    return tables("rar_netstat")["Rar" + name]


def held():
    """Bytes that the box uses, packets that it holds, and jobs."""
    with open("/proc/self/net/rar_box") as f:
        words = next((line.split() for line in f if line.startswith("roce")), None)
    return (int(words[2]), int(words[4]), int(words[6])) if words else (0, 0, 0)


# ------------------------------------------------------------------ the tests

def ints(*x):
    """Elements of i32."""
    return struct.pack(f"<{len(x)}i", *x)


def trio(job, msg, count=4, **fields):
    """The same message of all ranks, and its sums."""
    values = [[(r + 1) * 10 ** 8 + i for i in range(count)] for r in range(N)]
    sums = [(sum(v) + 2 ** 31) % 2 ** 32 - 2 ** 31 for v in zip(*values)]
    return [Msg(job, r, msg, ints(*values[r]), **fields) for r in range(N)], ints(*sums)


def test_one(v6, checksum):
    """Packets wait for the last rank's, then all go with the sum."""
    ms, sums = trio(1 + v6, 0, v6=v6, csum=checksum)
    send(ms[2].frames() + ms[0].frames())
    quiet = nothing() and held()[1] == 2
    send(ms[1].frames())
    return quiet and summed(by_host(ms), sums, arrived())


def test_many():
    """Several packets of a message."""
    ms, sums = trio(3, 0, 150)
    for m in ms:
        send(m.frames())
    return len(ms[0].frames()) == 3 and summed(by_host(ms), sums, arrived())


def test_order():
    """Floats are added in the order of the ranks, in whatever order they come."""
    x = [1, 1e8, -1e8]
    ms = [Msg(4, r, 0, struct.pack("<f", x[r]), dtype=F32) for r in range(N)]

    def single(v):
        return struct.unpack("<f", struct.pack("<f", v))[0]
    want = single(single(x[0] + x[1]) + x[2])
    for m in (ms[2], ms[1], ms[0]):
        send(m.frames())
    return want != single(x[0] + single(x[1] + x[2])) and \
        summed(by_host(ms), struct.pack("<f", want), arrived())


def test_again():
    """What comes again is held once, and gets the sum when that is made."""
    ms, sums = trio(5, 0)
    send(ms[0].frames() * 3)
    one = nothing() and held()[1] == 1
    send(ms[1].frames() + ms[2].frames())
    first = summed(by_host(ms), sums, arrived())
    before = counted("BoxRoceAgain")
    send(ms[1].frames())
    return one and first and summed(by_host([ms[1]]), sums, arrived()) and \
        counted("BoxRoceAgain") == before + 1


def test_gap():
    """A loss of rank 0 shows at the receiver of rank 0 only; the others' packets wait."""
    ms, sums = trio(6, 0, 150)
    send(ms[0].frames()[:1] + ms[0].frames()[2:] + ms[1].frames() + ms[2].frames())
    got = arrived()
    fine = [len(g) for g in got] == [1, 2, 1]
    send(ms[0].frames()[1:2])
    late = arrived()
    both = [got[0] + late[0], [got[1][0], late[1][0], got[1][1]], got[2] + late[2]]
    return fine and summed(by_host(ms), sums, both)


def test_window():
    """When all have begun the next message, the one before it is forgotten."""
    old, _ = trio(7, 0)
    new, sums = trio(7, 1)
    for m in old:
        send(m.frames())
    arrived()
    for m in new:
        send(m.frames())
    fine = summed(by_host(new), sums, arrived())
    send(old[0].frames())
    return fine and same(arrived(), by_host([old[0]]))


def test_late():
    """Packets that wait for too long go as they came, and so do those that come then."""
    ms, _ = trio(8, 0)
    before = counted("BoxRoceLate")
    send(ms[0].frames() + ms[1].frames())
    quiet = nothing()
    fine = same(arrived(2 * HOLD_MS / 1000), by_host(ms[:2]))
    send(ms[2].frames())
    return quiet and fine and same(arrived(), by_host(ms[2:])) and \
        counted("BoxRoceLate") == before + 1


def test_ahead():
    """A rank that is a window ahead sends nothing of the old message again: it is given up."""
    old, _ = trio(9, 0)
    new, _ = trio(9, 1)
    send(old[0].frames() + old[1].frames())
    quiet = nothing()
    send(new[2].frames())
    return quiet and same(arrived(), by_host(old[:2]))


def test_crc():
    """A packet with a wrong CRC is for its receiver to drop."""
    ms, sums = trio(10, 0)
    bad = bytearray(ms[0].frames()[0])
    bad[-1] ^= 1
    send([bytes(bad)] + ms[1].frames() + ms[2].frames())
    got = arrived()
    passed = [len(g) for g in got] == [0, 1, 0] and got[1][0][34:] == bad[34:]
    send(ms[0].frames())
    return passed and summed(by_host(ms), sums, arrived())


def test_foreign():
    """Packets without a header, and other operations, pass and leave nothing behind."""
    m = Msg(11, 0, 0, ints(1, 2, 3), magic=MAGIC ^ 1)
    long = Msg(11, 1, 0, ints(*range(200)), magic=0)
    ack = frame(m, ACK, 5, struct.pack(">I", 0x1f000005) + bytes(12))
    jobs = held()[2]
    frames = m.frames() + [ack]
    send(frames + long.frames())
    return same(arrived(), [[], frames, long.frames()]) and held()[2] <= jobs


def test_headers():
    """Headers that make no sense pass, and so does what has a sum already."""
    bad = [dict(size=1), dict(size=65), dict(rank=3), dict(window=0), dict(window=9),
           dict(dtype=99), dict(redop=99), dict(redop=AVG), dict(pad=1), dict(bytes=48),
           dict(count=2), dict(data=b""), dict(data=ints(1)[:3] + bytes(4))]
    jobs, fine = held()[2], True
    for i, fields in enumerate(bad):
        m = Msg(100 + i, 0, 0, ints(1), psn=7)
        m.__dict__.update(fields)
        send(m.frames())
        if not same([sum(arrived(0.05), [])], [m.frames()]) or held()[2] > jobs:
            note(f"{fields}: held, or changed")
            fine = False
    return fine


def test_disagree():
    """Ranks that disagree about a message get no sum."""
    fine = True
    for i, fields in enumerate((dict(dtype=F32), dict(redop=4), dict(data=ints(1, 2)),
                                dict(size=2), dict(window=2))):
        ms, _ = trio(20 + i, 0)
        ms[1].__dict__.update(fields)
        send(ms[0].frames())
        quiet = nothing()
        send(ms[1].frames())
        fine &= quiet and same(arrived(), by_host([ms[1]]))
        settle()
    return fine


def test_mark():
    """A mark of another message or place is not summed."""
    ms, _ = trio(30, 0, 150)
    send(ms[0].frames()[:1])
    wrong = bytearray(ms[0].payloads()[1])
    wrong[-8:] = struct.pack(">IHH", 0, 2, 1)
    bad = frame(ms[0], MIDDLE, ms[0].psn + 1, bytes(wrong))
    send([bad])
    return same(arrived(), [[], [bad], []])


def test_stranger():
    """Hosts that may not use the box."""
    ms, _ = trio(31, 0)
    before = counted("BoxRoceRefused")
    sysctl("box_allow", "10.99.0.0/16")
    for m in ms:
        send(m.frames())
    fine = same(arrived(), by_host(ms)) and counted("BoxRoceRefused") == before + 3
    sysctl("box_allow", "link")
    return fine


def test_forged():
    """A header in the name of a rank ends no job, and moves no message."""
    ms, sums = trio(35, 0)
    forged = [Msg(36, 0, 0, ints(1), psn=77, qpn=256 * 35), Msg(35, 0, 0, ints(1, 2, 3, 4), psn=77),
              Msg(35, 0, 1, ints(1, 2, 3, 4), psn=0)]
    send(ms[0].frames() + ms[1].frames())
    quiet = nothing()
    frames = sum([m.frames() for m in forged], [])
    send(frames)
    raw = same(arrived(), [[], frames, []])
    send(ms[2].frames())
    return quiet and raw and summed(by_host(ms), sums, arrived())


def test_many_jobs():
    """A host does not hold the places of all jobs."""
    ms, sums = trio(37, 0)
    send(sum([Msg(1000 + i, 0, 0, ints(1), size=64, qpn=1000 + i).frames() for i in range(64)], []))
    jobs = held()[2]
    send(ms[2].frames() + ms[1].frames() + ms[0].frames())
    got = arrived()
    fine = summed(by_host(ms), sums, [got[0], got[1][-1:], got[2]])
    note(f"{jobs} jobs of one host")
    return fine and 16 <= jobs <= 33


def test_memory():
    """Without memory packets pass."""
    ms, _ = trio(32, 0)
    sysctl("box_mem", 1000)
    for m in ms:
        send(m.frames())
    fine = same(arrived(), by_host(ms))
    sysctl("box_mem", 1 << 24)
    return fine


def test_idle():
    """What is idle is forgotten, and its memory is given back."""
    for _ in range(100):
        if held() == (0, 0, 0):
            return True
        time.sleep(0.1)
    note(f"held: {held()}")
    return False


def test_off():
    """Switching off lets all go that is held, and then nothing is held."""
    ms, _ = trio(33, 0)
    send(ms[0].frames() + ms[1].frames())
    quiet = nothing()
    sysctl("box_roce", 0)
    fine = same(arrived(), by_host(ms[:2]))
    for m in ms:
        send(m.frames())
    return quiet and fine and same(arrived(), by_host(ms))


def test_end():
    """Packets that are held when the namespace ends"""
    ms, _ = trio(34, 0)
    sysctl("box_roce_ms", 5000)
    sysctl("box_roce", 1)
    send(ms[0].frames() + ms[1].frames())
    return nothing() and held()[1] == 2


def survive():
    """While allocations fail, packets go on with the sum or as they came."""
    fine = True
    for job in range(40, 48):
        ms, sums = trio(job, 0, 150)
        for m in ms:
            send(m.frames())
        got = arrived()
        while held()[1]:
            got = [a + b for a, b in zip(got, arrived())]
        got = [a + b for a, b in zip(got, arrived())]
        fine &= unharmed(by_host(ms), sums, got)
    return fine and test_idle()


def switch_on():
    """Sum what comes. While allocations fail, try again."""
    for _ in range(10):
        try:
            sysctl("box_roce", 1)
            return
        except OSError as e:
            note(str(e))


def open_router():
    """Make the box a router between the hosts."""
    enter("rarbr")
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        with open("/proc/sys/net/" + name, "w") as f:
            f.write("1")
    lines = []
    for r in range(N):
        lines += [f"link set p{r} nomaster", f"address add 10.77.0.100/32 dev p{r}",
                  f"address add fe80::100/64 dev p{r} nodad",
                  f"route add 10.77.0.{r + 1} dev p{r}", f"route add fd77::{r + 1} dev p{r}"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
    for r in range(N):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind((f"p{r}", 0))
            port_mac.append(s.getsockname()[4])


def main():
    global hosts, mac
    opened = [open_host(r) for r in range(N)]
    hosts, mac = [o[0] for o in opened], [o[1] for o in opened]
    open_router()
    try:
        sysctl("box_roce", 1)
        result(False, "box_roce needs a box")
    except OSError:
        result(True, "box_roce needs a box")
    sysctl("box_mem", 1 << 24)
    switch_on()
    sysctl("box_roce_ms", HOLD_MS)
    for v6 in (False, True):    # the router learns where the hosts are
        send(sum(by_host([Msg(0, r, 0, b"", magic=0, v6=v6) for r in range(N)]), []))
    arrived(1.5)
    if sys.argv[1:] == ["survive"]:
        result(survive(), survive.__doc__.rstrip("."))
        finish()
    result(test_one(False, False), "IPv4")
    result(test_one(True, True), "IPv6, with a UDP checksum")
    for test in (test_many, test_order, test_again, test_gap, test_window, test_late, test_ahead,
                 test_crc, test_foreign, test_headers, test_disagree, test_mark, test_stranger,
                 test_forged, test_many_jobs, test_memory, test_idle, test_off, test_end):
        settle()
        result(test(), test.__doc__.split("\n")[0].rstrip("."))
    finish()


if __name__ == "__main__":
    main()
