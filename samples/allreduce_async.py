#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two tasks of one event loop sum their numbers over AF_RAR, in place."""
import array
import asyncio
import socket
import struct

AF_RAR, SOL_RAR, RAR_JOIN, RAR_NONEMPTY = 22, 522, 1, 17
MSG_ZEROCOPY = 0x4000000
SIZE = 2


def member(rank):
    """struct sockaddr_rar: group 43, all ranks on this host"""
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0,
                       rank, SIZE, 0, 43, socket.inet_aton("127.0.0.1"))


async def writable(s):
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(s, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_writer(s)


async def join(rank):
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    s.setsockopt(SOL_RAR, RAR_JOIN, member(rank) + member((rank + 1) % SIZE))
    await writable(s)                       # the join has ended
    if err := s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(err, "join")
    s.setsockopt(SOL_RAR, RAR_NONEMPTY, 1)
    return s


async def allreduce(s, numbers):
    """The sums replace the numbers, which the kernel owns until this returns."""
    while True:
        try:
            s.send(numbers, MSG_ZEROCOPY)
            break
        except BlockingIOError:
            await writable(s)
    if not await asyncio.get_running_loop().sock_recv(s, 1):
        raise EOFError("a member has left")


async def run(rank):
    numbers = array.array("f", [1, 0.5, rank])
    with await join(rank) as s:
        await allreduce(s, numbers)
    return numbers


async def main():
    for total in await asyncio.wait_for(asyncio.gather(*map(run, range(SIZE))), 20):
        print(*total)


asyncio.run(main())
