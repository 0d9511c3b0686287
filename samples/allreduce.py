#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two threads sum their numbers over AF_RAR, with the standard library only."""
import select
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

AF_RAR, SOL_RAR, RAR_JOIN = 22, 522, 1
SIZE = 2


def member(rank):
    """struct sockaddr_rar: group 42, all ranks on this host"""
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0,
                       rank, SIZE, 0, 42, socket.inet_aton("127.0.0.1"))


def allreduce(rank):
    numbers = struct.pack("3f", 1, 0.5, rank)
    with socket.socket(AF_RAR, socket.SOCK_SEQPACKET) as s:
        s.settimeout(10)
        s.setsockopt(SOL_RAR, RAR_JOIN, member(rank) + member((rank + 1) % SIZE))
        select.select([], [s], [], 10)      # writable when the join has ended
        if err := s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(err, "join")
        s.send(numbers)
        return struct.unpack("3f", s.recv(len(numbers)))


with ThreadPoolExecutor(SIZE) as threads:
    for total in threads.map(allreduce, range(SIZE)):
        print(*total)
