#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Bad packets are injected into a running ring.

badpkt.py [ingress|udp|xdp 4|6]	ingress and udp by default, xdp with RAR_XDP

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. The bridge's
namespace sees all traffic of rank 1 at its port p1. There the test learns group, epoch,
sequence numbers and addresses, and injects packets that rank 0 might have sent. Rank 1
has posted an operation and waits for rank 0, so every packet that got past the checks
would spoil the sum. Each packet must move its own counter, and no other. In the end the
sums must be bit-identical to the reference, and the kernel log must have no new lines.

Also tested are packets whose bytes lie in unusual memory, false, odd and old notices,
and packets that only pass through rank 1's host.
"""
import ctypes
import errno
import mmap
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
from live import (BIG, COPIES, COUNT, MAX, N, PACKET_VNET_HDR, RAR_INFO, SOL_PACKET, Data, Log,
                  Lone, Ring, address, counters, inject, last, moved, next_packet, note, plain,
                  result, rng, settle, wait_for, wait_quiet)
from rarpkt import (ABORT, ACK, AG, BOX_RANK, COLLECT, COMMIT, ENTER, ENTERED, FIN, FIN_ACK, JOIN,
                    JOIN_ACK, OFFER, PROBE, PROPOSE, REJECT, RESET, RETURN, RS, SOL_RAR, WANT, Packet,
                    csum, enter, libc, sysctl)

WHOLE = 0x08                        # RAR_F_WHOLE
SLOTS = 8192                        # RAR_TX_SLOTS of net/rar/rar.h

# ------------------------------------------------------------------ the cases

def fragments(packet):
    return packet.fragments(rng.randrange(1, 65536))


def make_cases(good, dup, ack, probe):
    """(name, frames, expected with ingress, expected with udp)

    good:  the packet that rank 0 would send next, with other data
    dup:   an unchanged packet of a finished operation
    ack, probe: unchanged packets to rank 1
    """
    junk = rng.randbytes(600)
    all_data = good.payload
    cases = []

    def case(name, frames, expect, udp=None):
        """frames: a packet or a list of frames; expect: a counter or a dict."""
        if isinstance(frames, Packet):
            frames = [frames.frame()]
        expect = {expect: 1} if isinstance(expect, str) else expect
        udp = {udp: 1} if isinstance(udp, str) else udp
        cases.append((name, frames, expect, expect if udp is None else udp))

    g = good.copy

    # lengths
    case("no payload at all", g(raw=b""), "DropShort")
    case("one byte", g(raw=b"\xa1"), "DropShort")
    case("half a common header", g(raw=good.rar()[:12]), "DropShort")
    case("common header less one byte", g(raw=good.rar()[:23]), "DropShort")
    head = good.copy(payload=b"")
    case("common header only", g(raw=good.copy(payload=b"").rar()[:6] +
         bytes(2) + good.rar()[8:24]), "DropShort")
    case("data header less one byte",
         g(raw=head.rar()[:6] + struct.pack(">H", 39) + head.rar()[8:63]),
         "DropShort")
    case("chunk empty", g(payload=b""), "DropLength")
    case("chunk 4 bytes short", g(payload=all_data[:-4]), "DropLength")
    case("chunk 1 byte short", g(payload=all_data[:-1]), "DropLength")
    case("chunk 4 bytes long", g(payload=all_data + junk[:4]), "DropLength")
    case("a carrier that is no carrier", g(flags=WHOLE), "DropCut")
    case("the first piece of a carrier", g(flags=WHOLE, len_extra=1), "DropCut")
    case("a carrier too short for a header", g(flags=WHOLE, raw=g(flags=WHOLE).rar()[:63]),
         "DropShort")
    case("length field 1 too small", g(len_extra=-1), "DropLength")
    case("length field 1 too large", g(len_extra=1), "DropLength")
    case("length field 65535",
         g(raw=good.rar()[:6] + b"\xff\xff" + good.rar()[8:]), "DropLength")
    if live.V6:
        no_check = "Udp6InCsumErrors"
        cut_off, bad_len = "Ip6InTruncatedPkts", "Udp6InErrors"
        bad_sum = "Udp6InCsumErrors"
    else:
        no_check = "DropNoChecksum"
        cut_off, bad_len = "IpExtInTruncatedPkts", "UdpInErrors"
        bad_sum = "UdpInCsumErrors"
    case("IP length beyond the packet", g(ip_extra=20), "DropTruncated",
         cut_off)
    case("UDP length beyond the IP packet", g(udp_extra=8), "DropTruncated",
         bad_len)
    # the stack would cut such a packet, so use one that does no harm when accepted
    case("UDP length less than the IP packet",
         dup.copy(udp_extra=-4, raw=dup.rar() + bytes(4)), "DropLength",
         "RxDup")
    case("a trailer of the link after the packet", dup.copy(trailer=junk[:9]),
         "RxDup")

    # IP
    case("first fragment", fragments(good)[:1], {} if live.V6 else "DropFragment", {})
    case("both fragments", [x for _ in range(COPIES)
                            for x in fragments(good)],
         {"DropFragment": COPIES})
    if live.V6:
        case("atomic fragment", [good.copy(frag=(0, False, 77)).frame(
            good.udp())], "DropFragment")
        case("hop-by-hop options", g(ext=[(0, b"\0\0\1\4\0\0\0\0")]),
             "DropIpOptions")
        case("destination options", g(ext=[(60, b"\0\0\1\4\0\0\0\0")]),
             "DropIpOptions")
    else:
        case("options: NOP", g(options=b"\1\1\1\0"), "DropIpOptions")
        case("options: 40 bytes", g(options=b"\1" * 40), "DropIpOptions")
        case("bad IP checksum", g(bad_ip_check=True), "DropChecksum",
             "IpExtInCsumErrors")
    case("bad UDP checksum", g(check="bad"), "DropChecksum", bad_sum)
    case("no UDP checksum", g(check="zero"), "DropNoChecksum", no_check)
    case("another host's MAC address",
         g(eth=b"\2\0\0\0\0\x99" + good.eth[6:]), {})
    case("from a member that is not the neighbour", g(src=address(2)),
         "DropAddress")
    case("from a stranger", g(src=address(99)), "DropAddress")
    case("to another of our addresses", g(dst=address(50)), "DropAddress")

    # common header
    for v in (0xa0, 0xa1, 0xa3, 0xaf):
        case(f"version {v & 15}", g(version=v), "DropVersion")
    for v in (0x00, 0x11, 0xb1, 0x1a):
        case(f"first byte {v:#04x}", g(version=v), "DropForeign")
    case("text", g(raw=b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
         "DropForeign")
    for t, why in ((0, "Type"), (7, "Type"), (28, "Type"), (31, "Type"), (255, "Type"),
                   (5, "Rank"), (6, "Rank"), (26, "Rank"), (14, "State"), (15, "State")):
        # DIRECT, DONE, PEER_ACK, PAIR and PAIR_ACK in a group by ranks that runs
        case(f"type {t}", g(raw=good.rar()[:1] + bytes([t]) +
             good.rar()[2:]), f"Drop{why}")
    case("a group without members", g(group=good.group + 1000), "DropGroup")
    case("group, high bits", g(group=good.group | 1 << 63), "DropGroup")
    case("to a rank that is not here", g(drank=0), "DropGroup")
    case("to a rank beyond", g(drank=N), "DropGroup")
    case("from the rank itself", g(srank=1), "DropRank")
    case("from a rank beyond", g(srank=N), "DropRank")
    case("from rank 65535", g(srank=65535), "DropRank")
    case("data from the successor", g(srank=2), "DropRank")
    for name, token in (("0", 0), ("one bit off", good.token ^ 1),
                        ("high bit off", good.token ^ 1 << 63),
                        ("low half", good.token & 0xffffffff)):
        case(f"epoch: {name}", g(token=token), "DropEpoch")
    notice = struct.pack(">IIIIQII16x", errno.ECONNRESET, 1, 0, 0, 0, 0, 0)
    wrong = good.token ^ 0x5555
    for name, t in (("ABORT", ABORT), ("FIN", FIN), ("FIN_ACK", FIN_ACK),
                    ("RESET", RESET)):
        case(f"{name} of another epoch",
             Packet(**{**plain(good), "type": t, "token": wrong,
                       "payload": notice}), "DropEpoch")
    for name, t, size, src in (
            ("JOIN_ACK", JOIN_ACK, 32, 2), ("REJECT", REJECT, 32, 2),
            ("COLLECT", COLLECT, 128, 0), ("PROPOSE", PROPOSE, 128, 0),
            ("COMMIT", COMMIT, 128, 0)):
        case(f"{name} with a wrong nonce",
             Packet(**{**plain(good), "type": t, "token": wrong, "srank": src,
                       "src": address(src), "payload": bytes(size)}),
             "DropEpoch")
    chunks = struct.pack(">QIIII", good.op, 0, 0, 0, 0) + b"\xff" * 32
    want = {**plain(good), "type": WANT, "srank": 2, "src": address(2), "payload": chunks}
    case("WANT of another epoch", Packet(**{**want, "token": wrong}), "DropEpoch")
    case("WANT from the predecessor",
         Packet(**{**want, "srank": 0, "src": address(0)}), "DropRank")
    case("WANT cut off", Packet(**{**want, "payload": chunks[:-1]}), "DropShort")
    for name, t, payload, why in (
            ("sum", AG, good.payload, "Rank"), ("partial sum", RS, good.payload, "Rank"),
            ("RETURN", RETURN, chunks, "Rank"),
            ("ENTERED", ENTERED, bytes(32), "Epoch"), ("RESET", RESET, b"", "Rank")):
        p = g(type=t, payload=payload) if t in (AG, RS) else \
            Packet(**{**plain(good), "type": t, "payload": payload})
        case(f"{name} of a box that the group does not have", p.copy(srank=BOX_RANK), f"Drop{why}")
    offer = {**plain(good), "type": OFFER, "srank": BOX_RANK, "payload": bytes(24)}
    case("OFFER of a host that saw no JOIN", Packet(**{**offer, "token": wrong}), "DropEpoch")
    case("OFFER cut off", Packet(**{**offer, "payload": bytes(23)}), "DropShort")
    case("ENTER to a member", Packet(**{**plain(good), "type": ENTER, "payload": bytes(60)}),
         "DropType")
    case("ABORT cut off", Packet(**{**plain(good), "type": ABORT,
                                    "payload": notice[:-1]}), "DropShort")

    # the operation
    case("operation finished, other count",
         dup.copy(count=dup.count + 1), "DropOp")
    case("operation finished, other type", dup.copy(dtype=1), "DropOp")
    case("operation finished, unchanged packet", dup, "RxDup")
    case("operation finished, a priority", dup.copy(prio=77), "RxDup")
    case("operation far ahead", g(op=good.op + 1 + 64), "DropOp")
    case("operation 2^64 - 1", g(op=2**64 - 1), "DropOp")
    ahead = good.copy(op=good.op + 1)
    case("next operation, count 2^63", ahead.copy(count=2**63), "DropOp")
    case("next operation, no such type", ahead.copy(dtype=99), "DropOp")
    case("next operation, chunk beyond",
         ahead.copy(chunk=good.nchunks), "DropChunk")
    case("next operation, chunk short", ahead.copy(payload=all_data[:-4]),
         "DropLength")
    case("chunk beyond the last", g(chunk=good.nchunks), "DropChunk")
    case("chunk 2^32 - 1", g(chunk=2**32 - 1), "DropChunk")
    case("chunk of another block's length", g(chunk=good.nchunks - 1),
         "DropLength")
    case("RS of the block that rank 1 injects", g(chunk=good.per_block),
         "DropChunk")
    case("AG of the block that rank 1 finishes",
         g(type=AG, chunk=2 * good.per_block), "DropChunk")
    case("AG of a chunk that rank 1 has not added to", g(type=AG), "DropChunk")
    case("sequence number far ahead", g(seq=(good.una + SLOTS) % 2**32),
         "DropSeq")
    case("una beyond seq", g(una=(good.seq + 1) % 2**32), "DropSeq")

    # acknowledgements and probes
    body = ack.payload
    case("ACK of a number never sent",
         ack.copy(payload=struct.pack(">I", (struct.unpack(">I", body[:4])[0] +
                                             500) % 2**32) + body[4:]),
         "DropSeq")
    case("ACK cut off", ack.copy(payload=body[:-1]), "DropShort")
    case("ACK from the predecessor", ack.copy(srank=0, src=address(0)),
         "DropRank")
    case("ACK from another address", ack.copy(src=address(99)), "DropAddress")
    case("PROBE from the successor",
         probe.copy(srank=2, src=address(2)), "DropRank")
    case("PROBE cut off", probe.copy(payload=probe.payload[:47]), "DropShort")
    return cases


def run_case(ring, name, frames, expect):
    many = len(frames) > 1
    expect = {k: v if many else v * COPIES for k, v in expect.items()}
    stack = [k for k in expect if not k.startswith(("Drop", "Rx"))]
    before = counters(stack)
    inject(ring, frames if many else frames * COPIES)
    got = settle(before, expect, stack)
    if got != expect:
        note(f"{name}: counters moved by {got}, not {expect}")
    result(got == expect, name)


# ------------------------------------------------------------------ the network

def ip(ns, *words):
    subprocess.run(["ip", "-n", ns, *words], check=True)


def addresses():
    """Add a second address to rank 1, and an address to the bridge's namespace."""
    for ns, dev, host in (("rar1", "eth0", 50), ("rarbr", "br0", 99)):
        ip(ns, "address", "add", f"10.77.0.{host + 1}/24", "dev", dev)
        ip(ns, "address", "add", f"fd77::{host + 1}/64", "dev", dev, "nodad")


def links():
    """Allow long packets, and give rank 1 a network to which it can route."""
    for r in range(N):
        ip("rarbr", "link", "set", f"p{r}", "mtu", "9000")
        ip(f"rar{r}", "link", "set", "eth0", "mtu", "9000")
    ip("rarbr", "link", "add", "far", "type", "veth", "peer", "name", "near",
       "netns", "rar1")
    for ns, dev in (("rarbr", "far"), ("rar1", "near")):
        ip(ns, "link", "set", dev, "addrgenmode", "none", "up")
    ip("rar1", "address", "add", "10.78.0.1/24", "dev", "near")
    ip("rar1", "address", "add", "fd78::1/64", "dev", "near", "nodad")
    for far in ("10.78.0.9", "fd78::9"):
        ip("rar1", "neigh", "add", far, "lladdr", "02:00:00:00:00:09", "dev", "near")


# ------------------------------------------------------------------ pages

def transparent_socket():
    """A UDP socket of the bridge's namespace that sends as rank 0."""
    enter("rarbr")
    af = socket.AF_INET6 if live.V6 else socket.AF_INET
    s = socket.socket(af, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6 if live.V6 else socket.IPPROTO_IP,
                 75 if live.V6 else 19, 1)
    s.bind((socket.inet_ntop(af, address(0)), 18118))
    s.connect((socket.inet_ntop(af, address(1)), 18118))
    return s


def test_stranger():
    """An ordinary socket sends text, which also lets the bridge's namespace learn
    rank 1's MAC address."""
    before = counters()
    enter("rarbr")
    af = socket.AF_INET6 if live.V6 else socket.AF_INET
    with socket.socket(af, socket.SOCK_DGRAM) as s:
        s.sendto(b"hello", (socket.inet_ntop(af, address(1)), 18118))
    expect = {"DropForeign": 1}
    got = settle(before, expect, (), 5)
    if got != expect:
        note(f"text: counters moved by {got}")
    result(got == expect, "text from a stranger's socket")


def spliced(s, packet, how):
    """Sends a packet whose bytes all lie in pages that the kernel must not write to:
    of a file, or of this process. Returns a function that tells whether they are
    unchanged."""
    content = packet.rar()
    if how == "vmsplice":
        area = mmap.mmap(-1, mmap.PAGESIZE)
        area[:len(content)] = content
        base = ctypes.addressof(ctypes.c_char.from_buffer(area))
        r, w = os.pipe()
        iov = (ctypes.c_size_t * 2)(base, len(content))
        if libc.vmsplice(w, iov, 1, 0) != len(content):
            raise OSError(ctypes.get_errno(), "vmsplice")
        os.splice(r, s.fileno(), len(content))
        return lambda: area[:len(content)] == content
    name = f"/tmp/badpkt.{os.getpid()}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.unlink(name)
    os.write(fd, content)
    view = mmap.mmap(fd, len(content), access=mmap.ACCESS_READ)
    if os.sendfile(s.fileno(), fd, 0, len(content)) != len(content):
        raise OSError("sendfile")
    return lambda: view[:] == content and os.pread(fd, 70000, 0) == content


def test_spliced(ring, s, how, op):
    """The packet that rank 0 would send, with the right data, in foreign pages. It may
    be used; the sums must be right, and the pages unchanged."""
    data = Data(COUNT)
    ring.post(1, data)
    ring.post(2, data)
    wait_quiet(ring)
    packet = next_packet(ring, data, op)
    before = counters()
    unchanged = spliced(s, packet, how)
    got = settle(before, {"RxData": 1}, ())
    ok = got == {"RxData": 1}
    if not ok:
        note(f"{how}: counters moved by {got}")
    ok_pages = unchanged()
    if not ok_pages:
        note(f"{how}: the pages were written")
    ring.post(0, data)
    sums = [ring.collect(r, data) for r in range(N)]
    if not all(sums):
        note(f"{how}: sums right: {sums}")
    result(ok and ok_pages and all(sums) and unchanged(),
           f"a packet in foreign pages, {how}")


# ------------------------------------------------------------------ pieces

def in_pieces(frames, head):
    """Sends frames whose first bytes lie in the skb's head and the rest in pages, as
    from devices that split packets."""
    enter("rarbr")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        s.bind(("p1", 0))
        for frame in frames:
            s.send(struct.pack("=BBHHHH", 0, 0, head, 0, 0, 0) + frame)


def with_trailers(ring, data, op):
    """Packets that rank 0 would send of an operation: its first chunk, and the last
    chunk, where the buffer ends. Both are followed by a trailer of the link."""
    first = next_packet(ring, data, op)
    chunk, size = first.nchunks - 1, len(first.payload)
    at = 2 * first.block + (chunk - 2 * first.per_block) * size
    final = first.copy(seq=first.seq + 1, chunk=chunk,
                       payload=data.of(2, 0, first=at // 4))
    return [first.copy(trailer=rng.randbytes(8)).frame(),
            final.copy(trailer=rng.randbytes(64)).frame()]


def test_pieces(ring, op, head, early):
    """The right data, in pieces that do not end where the packet ends.
    early: rank 1 has not posted the operation yet."""
    data = Data(BIG)
    for r in (2,) if early else (1, 2):
        ring.post(r, data)
    wait_quiet(ring)
    frames = with_trailers(ring, data, op)
    expect = {"EarlyHeld": 2} if early else {"RxData": 2}
    before = counters()
    in_pieces(frames, head)
    got = settle(before, expect, ())
    if got != expect:
        note(f"counters moved by {got}, not {expect}")
    for r in (0, 1) if early else (0,):
        ring.post(r, data)
    sums = [ring.collect(r, data) for r in range(N)]
    if not all(sums):
        note(f"sums right: {sums}")
    result(got == expect and all(sums), "trailer of the link, in pieces, "
           f"{head} bytes in the head{', early' if early else ''}")


def pieces():
    ring, headers = Ring(), 14 + (40 if live.V6 else 20) + 8 + 64
    result(ring.allreduce(Data(BIG)), "the ring works with long packets")
    # elements that straddle pages, and pieces that begin with one
    for op, (head, early) in enumerate(
            ((64, False), (headers, False), (headers + 6, False), (64, True)), 1):
        test_pieces(ring, op, head, early)
    ring.close()


# ------------------------------------------------------------------ notices

# Errors that calls may return because of other ranks, and errors that they may not.
KNOWN = (errno.ECONNRESET, errno.ETIMEDOUT, errno.EBADMSG, errno.EADDRINUSE,
         errno.EMSGSIZE)
ODD = (0, errno.EAGAIN, errno.EPIPE, 512, 529, 4095, 4096, 2**32 - 1)
UAPI = pathlib.Path(os.environ["RAR_BIN"], "rar.h")
RAR_R_SIZE = 10
NO_REASON = len(re.findall(r"^\tRAR_R_\w+,", UAPI.read_text(), re.M))   # RAR_R_NR


NO_RANK = 2**32 - 1


def notice(err, reason, rank=0, other=0):
    return struct.pack(">IIIIQII16x", err, reason, rank, other, 0, 0, 0)


def test_abort(err):
    """A neighbour ends the group with an errno. Other errnos become ECONNRESET."""
    ring, data = Ring(), Data(COUNT)
    ok = ring.allreduce(data)
    ring.post(1, data)
    good = last(ring.sniff(), srank=0, drank=1, type=RS)
    inject(ring, [Packet(**{**plain(good), "type": ABORT, "payload": notice(
        err, 1 if err in KNOWN else NO_REASON)}).frame()])
    want = err if err in KNOWN else errno.ECONNRESET
    for r in range(N):
        got, said, why, _, _ = ring.failure(r)
        if (got, said) != (want, want) or why >= NO_REASON:
            note(f"errno {err}: rank {r}: recv {got}, error {said} reason {why}")
            ok = False
    ring.close()
    return ok


def test_ranks(reason, named, want, kind=ABORT):
    """A neighbour names a rank that may not exist. After such a FIN the ring goes on."""
    ring, data = Ring(), Data(COUNT)
    ok = ring.allreduce(data)
    ring.post(1, data)
    good = last(ring.sniff(), srank=0, drank=1, type=RS)
    inject(ring, [Packet(**{**plain(good), "type": kind, "payload": notice(
        errno.EBADMSG, reason, named, named)}).frame()])
    if kind == FIN:
        for r in (0, 2):
            ring.post(r, data)
        ok = all([ring.collect(r, data) for r in range(N)]) and ring.allreduce(data) and ok
    else:
        said = ring.failure(1)[3:5]
        if said != (want, want):
            note(f"reason {reason}, rank {named}: RAR_ERROR names {said}")
            ok = False
    ring.close()
    return ok


def test_refusal(err, kind, reason):
    """The successor of a member that joins refuses it, or gives up."""
    lone = Lone()
    while not lone.sniff():
        time.sleep(0.01)
    p = last(lone.seen, srank=1, drank=2, type=JOIN)
    inject(lone, [p.copy(
        eth=p.eth[6:12] + p.eth[:6] + p.eth[12:], src=p.dst, dst=p.src, srank=2,
        drank=1, type=kind, token=struct.unpack(">Q", p.payload[:8])[0],
        payload=notice(err, reason)).frame()])
    got = lone.joined(lone.fd[0])
    want = err if err in KNOWN else errno.ECONNRESET
    if got != want:
        note(f"type {kind}, errno {err}: SO_ERROR is {got}")
    lone.close()
    return got == want


def errors_of_others():
    result(all([test_abort(err) for err in KNOWN + ODD]),
           "ABORT: an unexpected errno becomes ECONNRESET")
    result(all([test_ranks(6, N, NO_RANK), test_ranks(6, N - 1, N - 1),
                test_ranks(6, 2**32 - 2, NO_RANK), test_ranks(RAR_R_SIZE, N, N),
                test_ranks(RAR_R_SIZE, 4096, NO_RANK), test_ranks(0, N, N, FIN)]),
           "ABORT, FIN: ranks that do not exist")
    result(all([test_refusal(err, kind, reason) for err in
                (errno.EBADMSG, errno.EMSGSIZE) + ODD
                for kind, reason in ((REJECT, 1), (ABORT, 6))]),
           "REJECT, ABORT: an unexpected errno while joining")


def cwnd(ring, rank):
    """RAR_INFO.cwnd"""
    return struct.unpack_from("=I", ring.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 192),
                              184)[0]


def test_old_acks():
    """An ACK that was overtaken has lower counters of marks and duplicates, which must
    have no effect. An ACK that brings new marks closes the window."""
    ring, data = Ring(), Data(BIG)
    ok = ring.allreduce(data)
    for _ in range(50):
        if cwnd(ring, 1) >= 8:      # large enough to be reduced twice
            break
        ok &= ring.allreduce(data)
    wait_quiet(ring)
    ack = last(ring.sniff(), srank=2, drank=1, type=ACK)

    def window_after(ce, dups):
        body = bytearray(ack.payload)
        for at, more in ((24, ce), (36, dups)):
            value = struct.unpack_from(">I", body, at)[0] + more
            struct.pack_into(">I", body, at, value % 2**32)
        inject(ring, [ack.copy(payload=bytes(body)).frame()] * COPIES)
        time.sleep(0.02)
        return cwnd(ring, 1)

    windows = [cwnd(ring, 1), window_after(9, 9)]
    windows += [window_after(ce, dups) for ce, dups in
                ((0, 0), (9, 9), (5, 2), (9, 0), (0, 9), (-2**31 + 20, -2**31 + 20))]
    note(f"link window: {windows}")
    ok &= windows[0] > windows[1] and len(set(windows[1:])) == 1
    ok &= ring.allreduce(data)
    ring.close()
    result(ok, "ACKs that were overtaken do not change the link window")


def too_big(p, n):
    """A router says that a packet is too long, and quotes n bytes of it."""
    quoted = p.frame()[14:14 + n]
    icmp = Packet(eth=p.eth[6:12] + p.eth[:6] + p.eth[12:], src=address(98),
                  dst=p.src, proto=58 if live.V6 else 1)
    if live.V6:
        body = struct.pack(">BBHI", 2, 0, 0, 1400) + quoted
        pseudo = icmp.src + icmp.dst + struct.pack(">II", len(body), icmp.proto)
    else:
        body, pseudo = struct.pack(">BBHHH", 3, 4, 0, 0, 1400) + quoted, b""
    check = struct.pack(">H", csum(pseudo + body))
    return icmp.frame(body[:2] + check + body[4:])


def test_too_big(name, rar, flip, lowers):
    """rar: quoted bytes of the RAR header; flip: bits of the epoch that differ, None:
    the epoch is 0; lowers: the error is believed and ends the group."""
    ring, data = Ring(), Data(BIG)
    ok = ring.allreduce(data)
    wait_quiet(ring)
    p = last(ring.sniff(), srank=1, drank=2, type=RS)
    p.token = 0 if flip is None else p.token ^ flip
    inject(ring, [too_big(p, (40 if live.V6 else 20) + 8 + rar)] * COPIES)
    time.sleep(0.05)
    try:
        ok &= ring.allreduce(data) and not lowers
    except OSError:
        failures = [ring.failure(r) for r in range(N)]
        want = (errno.EMSGSIZE, errno.EMSGSIZE, 19, 1, 2)      # RAR_R_MTU
        if not lowers or set(failures) != {want}:
            note(f"{name}: {failures}")
            ok = False
    ring.close()
    for family in ("-4", "-6"):
        ip("rar1", family, "route", "flush", "cache")
    result(ok, f"packet too big, quoting {name}: "
           f"{'believed' if lowers else 'ignored'}")


def packets_too_big():
    test_too_big("addresses and ports", 0, 0, False)
    test_too_big("half a header", 12, 0, False)
    test_too_big("another epoch", 64, 1 << 40, False)
    test_too_big("no epoch", 64, None, False)
    test_too_big("the epoch", 24, 0, True)


# ------------------------------------------------------------------ passing through

def set_router(on):
    """Let rank 1's host route packets, or not."""
    enter("rar1")
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        with open("/proc/sys/net/" + name, "w") as f:
            f.write(str(int(on)))


def carried(frame):
    """(destination, IP payload)"""
    if frame[12:14] == b"\x86\xdd":
        return frame[38:54], frame[54:]
    return frame[30:34], frame[14 + 4 * (frame[14] & 15):]


def passes(ring, out, frames):
    """Do all frames pass the router unchanged?"""
    before, want, got = counters(), sorted(map(carried, frames)), []
    inject(ring, frames)
    while len(got) < len(want) and select.select([out], [], [], 0.5)[0]:
        frame = carried(out.recv(70000))
        if frame[0] == want[0][0]:
            got.append(frame)
    return sorted(got) == want and not moved(before, counters())


def test_passing(ring, out, p, ack, member):
    """Packets of a foreign ring with a group and rank that exist here, too."""
    far = socket.inet_pton(socket.AF_INET6 if live.V6 else socket.AF_INET,
                           "fd78::9" if live.V6 else "10.78.0.9")
    p, ack = p.copy(dst=far), ack.copy(dst=far)
    kinds = {"data": [p.frame()], "ACK": [ack.frame()],
             "PROBE": [Packet(**{**plain(p), "type": PROBE, "payload": bytes(48)})
                       .frame()],
             "bad UDP checksum": [p.copy(check="bad").frame()],
             "no UDP checksum": [p.copy(check="zero").frame()],
             "wrong length": [p.copy(len_extra=1).frame()],
             "another version": [p.copy(version=0xa1).frame()],
             "header only": [p.copy(raw=p.rar()[:24]).frame()],
             "fragments": fragments(p)}
    if not live.V6:
        kinds["options"] = [p.copy(options=b"\1\1\1\0").frame()]
    eaten = [name for name, frames in kinds.items()
             if not passes(ring, out, frames)]
    if eaten:
        note(f"did not pass: {', '.join(eaten)}")
    result(not eaten, f"packets only pass through the host of {member}")


def passing_through():
    ring, data = Ring(), Data(COUNT)
    ok = ring.allreduce(data)
    wait_quiet(ring)
    p = last(ring.sniff(), srank=0, drank=1, type=RS)
    p.payload = p.payload[:960]     # room for options and a tag
    ack = last(ring.sniff(), srank=2, drank=1, type=ACK)
    enter("rar1")
    sysctl("join_ms", 100)
    lone = Lone()
    ok &= lone.joined(lone.fd[0]) == errno.ETIMEDOUT
    sysctl("join_ms", 30000)
    set_router(True)
    enter("rarbr")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as out:
        out.bind(("far", 3))
        test_passing(ring, out, p, ack, "a member")
        test_passing(ring, out, p.copy(group=lone.group),
                     ack.copy(group=lone.group), "a member that could not join")
    set_router(False)
    lone.close()
    ok &= ring.allreduce(data)
    ring.close()
    result(ok, "packets that pass through do no harm to the member")


# ------------------------------------------------------------------ the end

DISAGREEMENTS = (("redop", MAX, 15), ("collective", 2, 13), ("root", 1, 17),
                 ("mode", 1, 18))


def test_disagreement(field, value, reason):
    """A forged packet says that rank 0 posted another operation: all get EBADMSG."""
    ring, data = Ring(), Data(COUNT)
    ok = ring.allreduce(data)
    ring.post(1, data)
    packet = next_packet(ring, data, 1)
    inject(ring, [packet.copy(**{field: value}).frame()])
    for r in range(N):
        got, err, why, rank, other = ring.failure(r)
        if (got, err, why, {rank, other}) != (errno.EBADMSG, errno.EBADMSG,
                                              reason, {0, 1}):
            note(f"rank {r}: recv {got}, error {err} reason {why} of {rank} "
                 f"and {other}")
            ok = False
    ring.close()
    result(ok, f"ranks disagree about {field}")


def test_join(ring, good, size, flags):
    """A stranger sends a JOIN for the predecessor's rank. No answer is larger than the
    JOIN, and the running group is not disturbed."""
    ring.sniff()
    nonce = rng.getrandbits(64)
    body = struct.pack(">QIIHHI", nonce, N, 1200, 18118, flags, 0)
    join = Packet(**{**plain(good), "type": JOIN, "token": 0,
                     "src": address(99), "payload": body.ljust(size, b"\0")})
    before, n = counters(), len(ring.seen)
    inject(ring, [join.frame()] * COPIES)
    time.sleep(0.05)
    answers = [p for p in ring.sniff()[n:] if p.dst == address(99)]
    got = moved(before, counters())
    ok = not got and len(answers) <= COPIES and all(
        len(p.payload) <= size for p in answers)
    if not ok:
        note(f"JOIN of {size} bytes: counters moved by {got}, answers of "
             f"{[len(p.payload) for p in answers]} bytes")
    result(ok, f"JOIN of a stranger, {size} bytes, flags {flags}")


def test_cases(ring, data):
    ok = ring.allreduce(data)
    result(ok, "the ring works")
    wait_quiet(ring)
    probe = wait_for(ring, srank=0, drank=1, type=PROBE)
    ack = last(ring.sniff(), srank=2, drank=1, type=ACK)
    dup = last(ring.seen, srank=0, drank=1, type=RS, op=0)
    # now operation 1 waits only for rank 0
    ring.post(1, data)
    ring.post(2, data)
    wait_quiet(ring)
    good = next_packet(ring, data, 1)
    good.payload = rng.randbytes(len(good.payload))
    for name, frames, ingress, udp in make_cases(good, dup, ack, probe):
        run_case(ring, name, frames, udp if live.path == "udp" else ingress)
    for size, flags in ((32, 1), (32, 0), (1200, 0)):
        test_join(ring, good, size, flags)
    ring.post(0, data)
    sums = [ring.collect(r, data) for r in range(N)]
    result(all(sums), "the sums are right")


def variant():
    ring, data = Ring(), Data(COUNT)
    log = Log()
    test_cases(ring, data)
    test_stranger()
    with transparent_socket() as s:
        for op, how in enumerate(("sendfile", "vmsplice"), 2):
            test_spliced(ring, s, how, op)
    ring.close()
    pieces()
    packets_too_big()
    passing_through()
    if live.path != "udp" and not live.V6:
        errors_of_others()
        test_old_acks()
    lines = log.lines()
    for line in lines:
        note("kernel log: " + re.sub(r"\s+", " ", line))
    result(not lines, "the kernel log has no new lines")
    for field, value, reason in DISAGREEMENTS:
        test_disagreement(field, value, reason)


def main():
    for r in range(N):
        enter(f"rar{r}")
        sysctl("dead_ms", 3000)
    addresses()
    links()
    paths = ("xdp",) if os.environ.get("RAR_XDP") else ("ingress", "udp")
    variants = [sys.argv[1:]] if sys.argv[1:] else [(p, f) for p in paths for f in "46"]
    for path, family in variants:
        live.path, live.V6 = path, family == "6"
        variant()
    print(f"1..{live.tap_nr}", flush=True)
    return live.tap_failed > 0


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    try:
        sys.exit(main())
    except (OSError, LookupError) as e:
        traceback.print_exc(file=sys.stdout)
        print("Bail out!", e, flush=True)
        sys.exit(1)
