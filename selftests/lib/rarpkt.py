# SPDX-License-Identifier: GPL-2.0
"""Shared by the tests in Python: network namespaces, counters, and RAR packets
with all layers below them."""
import ctypes
import os
import struct

AF_RAR, SOL_RAR = 22, 522
VERSION = 0xa2          # magic and version of the wire format
RS, AG, ACK, PROBE, JOIN, JOIN_ACK, REJECT, COLLECT, PROPOSE, COMMIT = (
    1, 2, 3, 4, 8, 9, 10, 11, 12, 13)
ABORT, RESET, FIN, FIN_ACK, LATE = 16, 17, 18, 19, 20
DIRECT, DONE, PAIR, PAIR_ACK = 5, 6, 14, 15
WANT, RETURN, ENTER, ENTERED, OFFER, PEER_ACK, RAIL = 21, 22, 23, 24, 25, 26, 27
BOX_RANK, LOWER_RANK = 0xffff, 0xe000

libc = ctypes.CDLL(None, use_errno=True)


# ------------------------------------------------------------------ namespaces

def enter(ns):
    fd = os.open("/run/netns/" + ns, os.O_RDONLY)
    if libc.setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns " + ns)
    os.close(fd)


def sysctl(name, value):
    with open("/proc/sys/net/rar/" + name, "w") as f:
        f.write(str(value))


def tables(*names):
    """The counters of /proc/net files in nstat's format, prefix + name."""
    out = {}
    for name in names:
        with open("/proc/self/net/" + name) as f:
            lines = f.read().splitlines()
        for keys, values in zip(lines[::2], lines[1::2]):
            prefix = keys.split(":")[0]
            for k, v in zip(keys.split()[1:], values.split()[1:]):
                out[prefix + k] = int(v)
    return out


# ------------------------------------------------------------------ packets

def csum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Packet:
    """A RAR packet and all layers below it; tests change any field."""

    DATA = ("seq", "una", "op", "count", "chunk", "mode", "root", "collective", "dtype",
            "redop", "flags", "prio", "chunks", "ranks")
    DATA_HEAD = ">IIQQIHHBBBBBBH"

    def __init__(self, **kw):
        # below RAR
        self.proto = 17             # with a body of its own
        self.options = b""          # IPv4 options
        self.ext = []               # IPv6: (next header number, bytes)
        self.frag = None            # (offset in bytes, more, id)
        self.ip_extra = 0           # added to the IP length
        self.udp_extra = 0          # added to the UDP length
        self.check = "good"         # or bad, zero
        self.bad_ip_check = False
        self.trailer = b""          # behind the IP packet
        # RAR
        self.len_extra = 0
        self.payload = b""
        self.raw = None             # instead of all of RAR
        self.seal = None            # makes its seal, of the packet and its bytes
        self.__dict__.update(kw)

    @property
    def v6(self):
        return len(self.src) == 16

    def copy(self, **kw):
        p = Packet(**self.__dict__)
        p.__dict__.update(kw)
        return p

    @staticmethod
    def parse(frame):
        eth = frame[:14]
        proto = struct.unpack(">H", eth[12:])[0]
        if proto == 0x0800 and frame[23] == 17:
            ip, src, dst = 14, frame[26:30], frame[30:34]
            udp = ip + (frame[14] & 15) * 4
        elif proto == 0x86dd and frame[20] == 17:
            ip, src, dst, udp = 14, frame[22:38], frame[38:54], 54
        else:
            return None
        if len(frame) < udp + 32 or frame[udp + 8] != VERSION:
            return None
        sport, dport, ulen = struct.unpack(">HHH", frame[udp:udp + 6])
        rar = frame[udp + 8:udp + ulen]
        v, t, s, d, _, group, token = struct.unpack(">BBHHHQQ", rar[:24])
        p = Packet(eth=eth, src=src, dst=dst, sport=sport, dport=dport,
                   version=v, type=t, srank=s, drank=d, group=group,
                   token=token, payload=rar[24:])
        if t in (RS, AG):
            p.__dict__.update(zip(Packet.DATA, struct.unpack(
                Packet.DATA_HEAD, rar[24:64])))
            p.payload = rar[64:]
        return p

    @staticmethod
    def segments(frame, size):
        """The packets that a superpacket is cut into, @size bytes of UDP each."""
        at = 54 if frame[12:14] == b"\x86\xdd" else 14 + (frame[14] & 15) * 4
        rar = frame[at + 8:]
        parts = [rar[i:i + size] for i in range(0, len(rar), size)]
        return [Packet.parse(frame[:at + 4] + struct.pack(">HH", 8 + len(part), 0) + part)
                for part in parts if len(part) >= 64]

    def rar(self):
        if self.raw is not None:
            return self.raw
        body = self.payload
        if self.type in (RS, AG) and hasattr(self, "seq"):
            body = struct.pack(self.DATA_HEAD, *(
                getattr(self, f) for f in self.DATA)) + body
        rar = struct.pack(">BBHHHQQ", self.version, self.type, self.srank,
                          self.drank, (len(body) + self.len_extra) & 0xffff, self.group,
                          self.token) + body
        return rar + self.seal(self, rar) if self.seal else rar

    def udp(self):
        rar = self.rar()
        n = 8 + len(rar) + self.udp_extra
        head = struct.pack(">HHH", self.sport, self.dport, n)
        # the right checksum for the length field
        check = csum(self.pseudo(n) + head + b"\0\0" + rar[:n - 8]) or 0xffff
        if self.check == "bad":
            check ^= 0x0100
        if self.check == "zero":
            check = 0
        return head + struct.pack(">H", check) + rar

    def ip4(self, body):
        offset, more, ident = self.frag or (0, False, 0)
        head = bytearray(struct.pack(
            ">BBHHHBBH4s4s", 0x45 + len(self.options) // 4, 2,
            20 + len(self.options) + len(body) + self.ip_extra, ident,
            offset // 8 | (0x2000 if more else 0) |
            (0 if self.frag else 0x4000), 64, self.proto, 0, self.src, self.dst))
        head += self.options
        struct.pack_into(">H", head, 10,
                         csum(bytes(head)) ^ (0x10 if self.bad_ip_check else 0))
        return bytes(head) + body

    def ip6(self, body):
        chain, following = b"", self.proto
        if self.frag:
            offset, more, ident = self.frag
            body = struct.pack(">BBHI", 17, 0, offset | more, ident) + body
            following = 44
        for number, data in reversed(self.ext):
            chain = bytes([following]) + data[1:] + chain
            following = number
        body = chain + body
        return struct.pack(">IHBB16s16s", 6 << 28 | 2 << 20,
                           len(body) + self.ip_extra, following, 64, self.src,
                           self.dst) + body

    def frame(self, body=None):
        body = self.udp() if body is None else body
        return self.eth + (self.ip6(body) if self.v6 else self.ip4(body)) + \
            self.trailer

    def pseudo(self, n):
        """The pseudo header that UDP's checksum covers; @n: its length field."""
        return self.src + self.dst + (
            struct.pack(">IHBB", n, 0, 0, 17) if self.v6 else
            struct.pack(">BBH", 0, 17, n))

    def superpacket(self, segments, size):
        """@segments in one packet, after the headers of this one, for a socket with
        PACKET_VNET_HDR: the receiving device cuts it up and makes the checksums."""
        rar = b"".join(s.rar() for s in segments)
        n = 8 + len(rar)
        check = csum(self.pseudo(n)) ^ 0xffff
        frame = self.frame(struct.pack(">HHHH", self.sport, self.dport, n, check) + rar)
        udp = len(frame) - n
        return struct.pack("=BBHHHH", 1, 5, udp + 8, size, udp, 6) + frame

    def fragments(self, ident):
        body, cut = self.udp(), 512
        return [self.copy(frag=(0, True, ident)).frame(body[:cut]),
                self.copy(frag=(cut, False, ident)).frame(body[cut:])]
