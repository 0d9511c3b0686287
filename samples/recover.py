#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""recover.py RANK STEPS ADDRESS...: like recover.c, and may share a ring with it."""
import errno
import select
import socket
import struct
import sys
import time

AF_RAR, SOL_RAR, RAR_JOIN, RAR_ERROR, RAR_INFO = 22, 522, 1, 7, 8
WAIT = (errno.ETIMEDOUT, errno.ECONNRESET, errno.EADDRINUSE, errno.ENETUNREACH)
INFO = struct.Struct("=4I2Q8I10Q2I3Q")  # up to resume_epoch
EPOCH, RESUME_OP, RESUME_EPOCH = 5, 27, 28

rank, steps, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
size = len(addresses)


class Failed(Exception):
    """The ring has failed"""


def address(r):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0, r, size,
                       0, 43, socket.inet_aton(addresses[r]))


def allreduce(s, *numbers):
    """Return the sums, or raise Failed"""
    data, got = struct.pack(f"{len(numbers)}f", *numbers), b""
    try:
        s.sendall(data)
        while len(got) < len(data):
            piece = s.recv(len(data) - len(got))
            if not piece:       # another rank is through, and has left
                raise Failed
            got += piece
    except OSError as e:
        raise Failed from e
    return struct.unpack(f"{len(numbers)}f", got)


def join(s):
    """Join. After a failure RAR_JOIN makes a new member, like connect()"""
    while True:
        s.setsockopt(SOL_RAR, RAR_JOIN, address(rank) + address((rank + 1) % size))
        poll = select.poll()
        poll.register(s, select.POLLOUT)
        poll.poll()
        err = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not err:
            return
        if err not in WAIT:
            raise OSError(err, "join")


class State:
    """What must survive: the next step, the totals before it and before the last step"""

    def __init__(self):
        self.known, self.step, self.total, self.before = 0, 0, 0.0, 0.0
        self.epoch = self.first = 0     # the last ring's; step of its operation 1

    def go_back(self, info):
        """Go to the first operation not complete on all ranks that were in the ring"""
        step = self.first + info[RESUME_OP] - 1
        if info[RESUME_EPOCH] != self.epoch:
            sys.exit("the ranks come from different rings: start all from a checkpoint")
        if not info[RESUME_OP] or step == self.step:
            return
        if step != self.step - 1:
            sys.exit(f"step {step} is gone")
        self.step, self.total = step, self.before

    def agree(self, s):
        """Operation 0: ranks that have a state contribute it, the others learn it"""
        info = INFO.unpack(s.getsockopt(SOL_RAR, RAR_INFO, INFO.size))
        if self.known:
            self.go_back(info)
        self.epoch = info[EPOCH]
        n, step, total = allreduce(s, *((1, self.step, self.total) if self.known else
                                        (0, 0, 0)))
        if n:
            self.step, self.total = round(step / n), total / n
        self.known, self.before, self.first = 1, self.total, self.step

    def one_step(self, s):
        """Do a step. Its contribution does not depend on when or which process does it"""
        x, = allreduce(s, (rank + 1) * (self.step % 100))
        self.before, self.total, self.step = self.total, self.total + x, self.step + 1
        time.sleep(0.01)


state = State()
with socket.socket(AF_RAR, socket.SOCK_SEQPACKET) as sock:
    while state.step < steps:
        join(sock)
        try:
            state.agree(sock)
            while state.step < steps:
                state.one_step(sock)
        except Failed:
            why = struct.unpack("=iIII", sock.getsockopt(SOL_RAR, RAR_ERROR, 16))
            print(f"rank {rank}: step {state.step}: error {why[0]}, reason {why[1]}, "
                  f"rank {why[2]}", file=sys.stderr)
    print(f"rank {rank}: {state.step} steps, total {state.total:.0f}")
