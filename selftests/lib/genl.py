# SPDX-License-Identifier: GPL-2.0
"""Generic netlink by hand, for tests that must be able to send what no library would."""
import errno
import os
import pathlib
import re
import socket
import struct

SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NETLINK_EXT_ACK = 270, 1, 11
REQUEST, ACK, DUMP, DUMP_INTR = 1, 4, 0x300, 0x10
ACK_TLVS, CAPPED = 0x200, 0x100
ERROR, DONE, CTRL = 2, 3, 0x10
NESTED = 0x8000
HEADER = pathlib.Path(__file__).resolve().parents[2] / "include/uapi/linux/rar_netlink.h"
if not HEADER.exists():         # the tests are in a kernel's tree, or installed
    HEADER = pathlib.Path(os.environ.get("RAR_BIN", ".")) / "rar_netlink.h"


def constants(header=HEADER):
    """Return {name: value} of all enumerations of the header; a new one begins at 0 or "= 1"."""
    names = {}
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    for body in re.findall(r"enum \w+ \{(.*?)\};", text, re.S):
        value = 0
        for name, given in re.findall(r"(\w+)(?:\s*=\s*(\d+))?\s*(?:,|$)", body):
            if name.startswith("__"):
                continue
            value = int(given) if given else value
            names[name] = value
            value += 1
    return names


class Refused(OSError):
    """The kernel's answer to a request that it refuses; @said is its explanation, or ""."""

    def __init__(self, code, said):
        super().__init__(code, os.strerror(code))
        self.said = said


def attr(kind, data):
    """Return an attribute; @data are bytes, or (format, value)."""
    data = data if isinstance(data, bytes) else struct.pack("=" + data[0], data[1])
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def attrs(data):
    """Return {type: [bytes]} of a sequence of attributes."""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        found.setdefault(kind & 0x3fff, []).append(data[4:size])
        data = data[max(4, size + 3 & ~3):]
    return found


def number(data):
    """Return the value of an integer attribute."""
    return int.from_bytes(data, "little")


def messages(data):
    """Yield type, flags and payload of each message."""
    while len(data) >= 16:
        size, kind, flags = struct.unpack_from("=IHH", data)
        yield kind, flags, data[16:size]
        data = data[size + 3 & ~3:]


def said(flags, body):
    """Return the explanation in an error's payload."""
    if not flags & ACK_TLVS:
        return ""
    size = struct.unpack_from("=I", body, 4)[0]
    rest = body[20 if flags & CAPPED else 4 + (size + 3 & ~3):]
    told = attrs(rest)
    if 5 in told:
        return f"no attribute {number(told[5][0])}"
    return told.get(1, [b""])[0].rstrip(b"\0").decode()


class Genl:
    """A socket, and the family "rar"."""

    def __init__(self, family="rar"):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.sock.bind((0, 0))
        self.sock.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.sock.settimeout(10)
        self.seq = 0
        self.interrupted = False
        answer = self.do(3, attr(2, family.encode() + b"\0"), CTRL)[0]
        self.family = number(answer[1][0])
        group = attrs(attrs(answer[7][0])[1][0])
        self.group = number(group[2][0])

    def listen(self):
        """Join the group of events."""
        self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, self.group)

    def send(self, cmd, payload=b"", kind=None, flags=REQUEST | ACK, reserved=0):
        """Send a request."""
        self.seq += 1
        body = struct.pack("=BBH", cmd, 1, reserved) + payload
        self.sock.send(struct.pack("=IHHII", 16 + len(body),
                                   self.family if kind is None else kind, flags, self.seq, 0) +
                       body)

    def receive(self):
        """Return the next messages: [(type, flags, payload)]."""
        return list(messages(self.sock.recv(1 << 16)))

    def do(self, *args, flags=REQUEST | ACK, **options):
        """Send a request and return the attributes of each message of the answer."""
        self.send(*args, flags=flags, **options)
        found, self.interrupted = [], False
        while True:
            for kind, bits, body in self.receive():
                self.interrupted |= bool(bits & DUMP_INTR)
                if kind == ERROR and (code := struct.unpack_from("=i", body)[0]):
                    raise Refused(-code, said(bits, body))
                if kind in (ERROR, DONE):
                    return found
                found.append(attrs(body[4:]))

    def dump(self, cmd, payload=b""):
        """Return the attributes of each message of a dump."""
        return self.do(cmd, payload, flags=REQUEST | DUMP)

    def refusal(self, *args, **options):
        """Return (name of the error, explanation) of a request, ("", "") if it is accepted."""
        try:
            self.do(*args, **options)
        except Refused as e:
            return errno.errorcode[e.errno], e.said
        return "", ""
