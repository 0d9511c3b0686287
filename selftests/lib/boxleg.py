# SPDX-License-Identifier: GPL-2.0
"""Legs to the aggregation box, made of packets: groups that exist only in a test.

The tests run with lib/in_topo.sh 4: the members are in the namespace rar0, the box is in rar3.
"""
import collections
import socket
import struct
import time

from rarpkt import (BOX_RANK, ENTER, ENTERED, LOWER_RANK, RESET, RETURN, RS, VERSION, WANT, Packet,
                    enter, tables)

BOX = "10.77.0.4", 18118
IN_TURN = 16                    # RAR_EF_IN_TURN
I32, I64, F32, SUM = 3, 4, 1, 1
ALLREDUCE, BROADCAST, REDUCE, BY_KEY = 1, 2, 3, 7

# payload: bytes of a full chunk
Group = collections.namedtuple("Group", "id epoch size payload")


class Leg:
    """A leg of a rank; or, with a mask of ranks, of a box below"""

    def __init__(self, group, rank, ranks=0, flags=0, quiet=0.3):
        """quiet: after so many seconds without a packet, none is expected to follow."""
        self.group, self.ranks, self.flags = group, ranks, flags
        self.rank = LOWER_RANK + rank if ranks else rank
        self.seq, self.epoch, self.cookie, self.told, self.entered = 0, 0, 0, 0, b""
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.settimeout(quiet)
        self.s.connect(BOX)

    def header(self, kind, length=24, token=None, rank=None):
        """The header of a packet of so many bytes; its token is the leg's epoch."""
        return struct.pack(">BBHHHQQ", VERSION, kind, self.rank if rank is None else rank, BOX_RANK,
                           length - 24, self.group.id, self.epoch if token is None else token)

    def enter(self):
        """Ask; learn the cookie, or the leg's epoch."""
        length = 64 + self.group.payload
        body = struct.pack(">QQQIHHQI", 1, 100 + self.rank, self.cookie, self.group.payload,
                           self.group.size, 0, self.ranks, self.flags)
        self.s.send((self.header(ENTER, length, self.group.epoch) + body).ljust(length, b"\0"))
        try:
            packet = self.s.recv(2048)
        except TimeoutError:
            return
        if packet[1] == ENTERED:
            self.cookie, self.epoch, self.told = struct.unpack_from(">QQI", packet, 32)
            self.entered = packet

    def reset(self):
        """Say that the leg is lost."""
        self.s.send(self.header(RESET))

    def contribute(self, op, chunk, count, kind, data=b"", *, numbers=1, root=0, mode=0,
                   flags=0, chunks=0, ranks=0, rank=None):
        """Send a chunk of an operation of count elements, or without data a question.

        kind: collective, type and reduction; numbers: how many the packet takes up.
        """
        body = struct.pack(Packet.DATA_HEAD, self.seq, self.seq, op, count, chunk, mode, root, *kind,
                           flags, 128, chunks, ranks)
        self.s.send(self.header(RS, 64 + len(data), rank=rank) + body + data)
        self.seq += numbers

    def want(self, op, number, lacks=0, flags=0):
        """Answer a batch of a keyed reduction; lacks: mask of the pieces that have not come."""
        body = struct.pack(">QIIII", op, number, 0, flags, 0) + struct.pack("<4Q", lacks, 0, 0, 0)
        self.s.send(self.header(WANT, 80) + body)

    def came(self, kind):
        """The packets of a kind that have come"""
        out = []
        while True:
            try:
                packet = self.s.recv(2048)
            except TimeoutError:
                return out
            if packet[1] == kind:
                out.append(packet)

    def returned(self):
        """{(operation, chunk)} that have come in RETURNs"""
        out = set()
        for p in self.came(RETURN):
            op, first = struct.unpack_from(">QI", p, 24)
            bits = struct.unpack_from("<Q", p, 48)[0]
            out |= {(op, first + i) for i in range(64) if bits >> i & 1}
        return out


def enter_all(legs):
    """Have all legs of a group open; return them."""
    for _ in range(20):
        for leg in legs:
            if not leg.epoch:
                leg.enter()
        if all(leg.epoch for leg in legs):
            break
    return legs


def until(condition, seconds=10):
    """Wait until it is true; return whether it is."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def used():
    """Bytes of the box that are in use, by its own account. In its namespace"""
    with open("/proc/thread-self/net/rar_box") as f:
        return int(f.readline().split()[3])


def mib(name):
    """A counter of the box, whose namespace this enters"""
    enter("rar3")
    return tables("rar_netstat")["Rar" + name]
