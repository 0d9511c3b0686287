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
import os
import pathlib
import select
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
from live import COUNT, N, SOL_PACKET, Data, Ring, address, next_packet, sockaddr
from rarpkt import (ENTER, JOIN, JOIN_ACK, OFFER, SOL_RAR, Packet, enter, sysctl, tables)
from tap import finish, note, result

RAR_JOIN, RAR_ABORT, RAR_INFO, RAR_BOX_STATE = 1, 6, 8, 0
PORT, PAYLOAD = 18118, 1408
FAR = 3                 # the stranger's host
JOINING, READY, RUN = 2, 3, 4
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

    def __init__(self, key=b""):
        self.listen()
        self.key = key
        self.fd = [None] * N

    def start(self, *ranks):
        for r in ranks:
            enter(f"rar{r}")
            self.fd[r] = self.fd[r] or socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
            self.fd[r].setsockopt(SOL_RAR, RAR_JOIN, struct.pack(
                "=64s64s64s16sII16x", sockaddr(r, self.group), sockaddr((r + 1) % N, self.group),
                b"", self.key, 0, 0))

    def state(self, rank):
        return struct.unpack_from("=I", self.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 192))[0]

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
        self.s.sendto(struct.pack(">BBHHHQQ", 0xa1, kind, src, dst, len(body), self.group, token)
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

    def join(self, src, dst, token=0):
        """Ask as the predecessor does. Returns what the rank gives as its nonce, or 0"""
        self.send(JOIN, src, dst, token, struct.pack(
            ">QIIHHIQ", self.nonce, N, PAYLOAD, self.port, 0, 0, 0).ljust(PAYLOAD + 40, b"\0"))
        answer = self.receive(JOIN_ACK)
        return struct.unpack_from(">Q", answer, 24)[0] if answer else 0

    def close(self):
        self.s.close()


# ------------------------------------------------------------------ boxes

def offer_body(port):
    return struct.pack(">16sHHI", address(FAR) + bytes(12), 4, port, 0)


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


@test("no box is taken unless the administrator wants one")
def default_box():
    ok = True
    for r in range(N):
        enter(f"rar{r}")
        with open("/proc/sys/net/rar/box") as f:
            ok &= f.read().strip() == "-"
    return ok


# ------------------------------------------------------------------ the end

def main():
    for name, function in sorted(TESTS, key=lambda t: t[1] is not default_box):
        result(function(), name)
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
