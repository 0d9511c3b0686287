#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Random generic netlink messages beside a ring that runs.

fuzz_netlink.py [SECONDS]

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. A request is one that
the module knows, with attributes that are right, or of a wrong type, length or value, cut, nested
or repeated, and any flags. Messages go in bursts, and answers are read seldom, so that dumps
overlap and buffers are full. An abort may end the ring, and a new one is made; nothing else may
disturb it.
"""
import errno
import pathlib
import random
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from genl import DUMP, Genl, attr, constants                # noqa: E402
from live import N, Data, Ring                              # noqa: E402
from rarpkt import enter                                    # noqa: E402
from tap import finish, get_seed, note, result              # noqa: E402

K = constants()
COMMANDS = [value for name, value in K.items() if name.startswith("RAR_CMD_")]
GROUP, RANK, ABORT = K["RAR_A_MEMBER_GROUP"], K["RAR_A_MEMBER_RANK"], K["RAR_CMD_ABORT"]


def some_attr(rng, ring, depth=0):
    """Return an attribute: right, nearly right, or anything."""
    kind = rng.choice((GROUP, RANK, rng.randrange(24), rng.getrandbits(16)))
    luck = rng.random()
    if kind == GROUP and luck < 0.7:
        return attr(GROUP, ("Q", rng.choice((ring.group, 0, 2**64 - 1, rng.getrandbits(64)))))
    if kind == RANK and luck < 0.7:
        return attr(RANK, ("I", rng.choice((0, N - 1, 4095, 4096, rng.getrandbits(32)))))
    if luck < 0.8 and depth < 3:
        return attr(kind, b"".join(some_attr(rng, ring, depth + 1)
                                   for _ in range(rng.randrange(4))))
    data = bytearray(attr(kind, rng.randbytes(rng.choice((0, 1, 4, 8, 12, 300)))))
    if rng.random() < 0.3:
        struct.pack_into("=H", data, 0, rng.choice((0, 1, 3, 4, 5, 9, 2**16 - 1)))
    return bytes(data)


def some_request(rng, ring):
    """Return arguments of Genl.send()."""
    cmd = rng.choice(COMMANDS) if rng.random() < 0.9 else rng.randrange(256)
    if cmd == ABORT and rng.random() < 0.9:
        cmd = K["RAR_CMD_MEMBER_GET"]
    payload = b"".join(some_attr(rng, ring) for _ in range(rng.randrange(4)))
    if rng.random() < 0.1:
        payload = payload[:rng.randrange(len(payload) + 1)]
    flags = rng.choice((1, 5, 1 | DUMP, 1 | DUMP, 1 | rng.getrandbits(12)))
    return (cmd, payload), {"flags": flags, "reserved": rng.choice((0, 0, 0, 0, 1))}


def drain(c):
    """Read all answers. Return how many requests were refused, or answers lost."""
    refused = 0
    try:
        while True:
            for kind, _, body in c.receive():
                refused += kind == 2 and struct.unpack_from("=i", body)[0] != 0
    except BlockingIOError:
        return refused
    except OSError as e:
        if e.errno != errno.ENOBUFS:
            raise
        return refused + 1


def opened(rng):
    """Return a socket, which may listen and may be small."""
    enter(f"rar{rng.randrange(N)}")
    c = Genl()
    if rng.random() < 0.5:
        c.listen()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rng.choice((1, 1 << 18)))
    c.sock.setblocking(False)
    return c


def burst(rng, clients, ring):
    """Send some requests. Return how many were sent, and how many answers were refusals."""
    refused = 0
    for i in range(50):
        c = rng.choice(clients)
        args, options = some_request(rng, ring)
        try:
            c.send(*args, **options)
        except BlockingIOError:
            pass
        if rng.random() < 0.2:
            refused += drain(c)
    return i + 1, refused


def alive(ring):
    """Is the ring as it was? If an abort ended it: nobody but an abort."""
    errors = [ring.error(r)[:2] for r in range(N)]
    if any(e[0] for e in errors):
        return False, all(e == (errno.ECONNRESET, 6) for e in errors)
    return True, ring.allreduce(Data(500))


def main():
    """Run for some seconds."""
    seconds = float(sys.argv[1]) if sys.argv[1:] else 20
    rng = random.Random(get_seed())
    end = time.monotonic() + seconds
    ring, sent, refused, aborted, good = Ring(), 0, 0, 0, True
    clients = [opened(rng) for _ in range(4)]
    while time.monotonic() < end:
        numbers = burst(rng, clients, ring)
        sent, refused = sent + numbers[0], refused + numbers[1]
        runs, right = alive(ring)
        good = good and right
        if not runs:
            aborted += 1
            ring.close()
            ring = Ring()
        if rng.random() < 0.1:
            clients.pop(0).sock.close()
            clients.append(opened(rng))
    note(f"{sent} requests, {refused} refused, {aborted} rings aborted")
    result(good and refused > 0 and sent > refused, "only an abort ends a ring")
    for c in clients:
        c.sock.close()
    enter("rar1")
    shown = [m[RANK][0] for m in Genl().dump(K["RAR_CMD_MEMBER_GET"])]
    result(struct.pack("=I", 1) in shown and ring.allreduce(Data(500)), "the family still answers")
    ring.close()
    finish()


main()
