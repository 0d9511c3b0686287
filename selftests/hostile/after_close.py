#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Packet sockets that hold packets of operations in place, and are read when the processes have their
memory back. What a process writes then is in no packet. Run by lib/in_topo.sh 3.
"""
import ctypes
import mmap
import pathlib
import select
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import I32, N, RAR_OP, SOL_RAR, Ring, enter
from rarpkt import tables
from tap import finish, note, result

RAR_REG = 11
MSG_ZEROCOPY = 0x4000000
ALLREDUCE, BROADCAST = 1, 2
SIZE = 384 << 10
SECRET = b"what the process wrote later."
NUMBER = struct.pack("=i", 0x01010101)


def carriers():
    """Chunks that all ranks sent in carriers."""
    total = 0
    for r in range(N):
        enter(f"rar{r}")
        total += tables("rar_netstat")["RarTxWhole"]
    return total


def tap(where, device):
    enter(where)
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)       # SO_RCVBUFFORCE
    s.bind((device, 3))
    s.setblocking(False)
    return s


def frames(taps):
    for s in taps:
        while True:
            try:
                yield s.recv(1 << 17)
            except BlockingIOError:
                break


def memory():
    m = mmap.mmap(-1, SIZE)
    m[:] = NUMBER * (SIZE // 4)
    return m


def address(m):
    return ctypes.addressof(ctypes.c_char.from_buffer(m))


class Job:
    """One operation in place, or out of place."""

    def __init__(self, collective, apart=False, region=False):
        self.ring = Ring()
        self.collective = collective
        self.src = [memory() for _ in range(N)]
        self.dst = [memory() for _ in range(N)] if apart else self.src
        self.apart = apart
        if region:
            for r in range(N):
                self.ring.fd[r].setsockopt(SOL_RAR, RAR_REG, struct.pack(
                    "=QQI4x", address(self.src[r]), SIZE, 0))

    def run(self):
        for r in range(N):
            op = struct.pack("=IBBBBIIQQQB7x", 48, self.collective, I32, 0, 0, 0, 0, SIZE, 0,
                             address(self.dst[r]) if self.apart else 0, 0)
            self.ring.fd[r].sendmsg([self.src[r]], [(SOL_RAR, RAR_OP, op)], MSG_ZEROCOPY)
        for s in self.ring.fd:
            Ring.poll(s, select.POLLIN)
            s.recv(0)
        want = N if self.collective == ALLREDUCE else 1
        return all(struct.unpack_from("=i", m, SIZE - 4)[0] == 0x01010101 * want
                   for m in self.dst)

    def write(self):
        text = SECRET * (SIZE // len(SECRET) + 1)
        for m in self.src + self.dst:
            m[:] = text[:SIZE]


def case(name, collective, close, **kind):
    job = Job(collective, **kind)
    taps = [tap("rarbr", "p0"), tap("rar1", "eth0"), tap("rar2", "eth0")]
    before = carriers()
    ok = job.run()
    whole = carriers() - before
    if close:
        job.ring.close()
    job.write()
    seen = list(frames(taps))
    told = sum(SECRET in frame for frame in seen)
    note(f"{name}: {whole} chunks in carriers, {len(seen)} packets seen, {told} tell")
    result(ok and whole and len(seen) and not told, name)
    for s in taps:
        s.close()
    if not close:
        job.ring.close()


def main():
    for close in (False, True):
        when = "after close()" if close else "when it is done"
        case(f"in place, {when}", ALLREDUCE, close)
        case(f"out of place, {when}", ALLREDUCE, close, apart=True)
        case(f"in a region, {when}", ALLREDUCE, close, region=True)
        case(f"broadcast, {when}", BROADCAST, close)
    finish()


main()
