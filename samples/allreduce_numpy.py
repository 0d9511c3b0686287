#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two threads reduce NumPy arrays over AF_RAR in place: a maximum of f32, a sum of bf16."""
import select
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np

AF_RAR, SOL_RAR = 22, 522
RAR_JOIN, RAR_DTYPE, RAR_REDOP, RAR_NONEMPTY = 1, 2, 3, 17
RAR_F32, RAR_BF16 = 1, 12
RAR_SUM, RAR_MAX = 1, 4
MSG_ZEROCOPY = 0x4000000
SIZE = 2


def member(rank):
    """struct sockaddr_rar: group 45, all ranks on this host"""
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0,
                       rank, SIZE, 0, 45, socket.inet_aton("127.0.0.1"))


def join(rank):
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.setsockopt(SOL_RAR, RAR_JOIN, member(rank) + member((rank + 1) % SIZE))
    select.select([], [s], [], 10)          # writable when the join has ended
    if err := s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(err, "join")
    s.setsockopt(SOL_RAR, RAR_NONEMPTY, 1)
    return s


def allreduce(s, array, dtype, redop):
    """Replace the elements of an array, which is contiguous, by the results."""
    s.setsockopt(SOL_RAR, RAR_DTYPE, dtype)
    s.setsockopt(SOL_RAR, RAR_REDOP, redop)
    s.send(array, MSG_ZEROCOPY)             # from here on the array is the kernel's ...
    if not s.recv(1):                       # ... until this returns
        raise EOFError("a member has left")


# NumPy has no bf16. A bf16 is the upper half of an f32, so an array of uint16 holds it.
def to_bf16(array):
    """Round f32 to the nearest bf16, of two to the even one; not for NaNs."""
    bits = array.view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(array):
    return (array.astype(np.uint32) << 16).view(np.float32)


def run(rank):
    gradient = np.array([[1, 0.5, rank], [-3 * rank, 1 / 3, 1000]], np.float32)
    with join(rank) as s:
        largest = np.abs(gradient).max(axis=0)
        allreduce(s, largest, RAR_F32, RAR_MAX)
        short = to_bf16(gradient)
        allreduce(s, short, RAR_BF16, RAR_SUM)
    return [*largest, *from_bf16(short).flat]


with ThreadPoolExecutor(SIZE) as threads:
    for result in threads.map(run, range(SIZE)):
        print(*result)
