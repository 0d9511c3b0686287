#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two ranks as two threads of one process, with settimeout(), on 127.0.0.1.

Standard library only. Python's socket refuses addresses of unknown families, so
the group is joined with the RAR_JOIN option.
"""
import array
import os
import random
import select
import socket
import struct
import sys
import threading

AF_RAR = 22
SOL_RAR = 522
RAR_JOIN = 1
SIZE = 2
ROUNDS = 30
SEED = int(os.environ.get("SEED", random.randrange(1 << 30)))
LOOPBACK = bytes([127, 0, 0, 1]).ljust(16, b"\0")


def address(group, rank):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0,
                       0, rank, SIZE, 0, group, LOOPBACK)


def join(group, rank):
    sock = socket.socket(AF_RAR, socket.SOCK_SEQPACKET, 0)
    sock.setsockopt(SOL_RAR, RAR_JOIN,
                    address(group, rank) + address(group, (rank + 1) % SIZE))
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    if not poll.poll(30000):
        raise TimeoutError("join")
    err = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if err:
        raise OSError(err, os.strerror(err))
    sock.settimeout(20)
    return sock


def contribution(rank, number):
    rng = random.Random(SEED * 1000 + number * SIZE + rank)
    count = random.Random(number).choice([1, 7, 1000, 5000])
    return array.array("f", [rng.uniform(-1e6, 1e6) for _ in range(count)])


def expected(number):
    a, b = (contribution(rank, number) for rank in range(SIZE))
    return array.array("f", [x + y for x, y in zip(a, b)])


def receive(sock, nbytes):
    data = b""
    while len(data) < nbytes:
        part = sock.recv(nbytes - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def time_out(sock):
    """Nothing was sent yet: recv() gives up and cancels nothing."""
    sock.settimeout(0.2)
    try:
        sock.recv(4)
        raise AssertionError("recv() returned without an operation")
    except TimeoutError:
        sock.settimeout(20)


def run(rank, meet):
    sock = join(1, rank)
    time_out(sock)
    meet.wait(30)
    for number in range(ROUNDS):
        sock.send(contribution(rank, number))
        want = expected(number).tobytes()
        if receive(sock, len(want)) != want:
            raise AssertionError(f"rank {rank} operation {number}: wrong bits")
    meet.wait(30)
    sock.close()


def main():
    failures = []
    meet = threading.Barrier(SIZE)

    def thread(rank):
        try:
            run(rank, meet)
        except Exception as exc:  # pylint: disable=broad-except
            failures.append(f"rank {rank}: {exc!r}")
            meet.abort()

    print(f"SEED={SEED}")
    threads = [threading.Thread(target=thread, args=(rank,), daemon=True)
               for rank in range(SIZE)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(90)
        if each.is_alive():
            failures.append("a thread hangs")
    for line in failures:
        print(line)
    os._exit(1 if failures else 0)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
