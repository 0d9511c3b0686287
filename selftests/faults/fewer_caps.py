#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A member that knows less than the others: what it does not know fails with EOPNOTSUPP at all
other ranks, at the call. RAR_CAPS says what is left. A join that it holds up leaves nothing behind.
A member of version 1 is refused by name.

Ranks 0 and 1 are real, in rar0 and rar1. Rank 2 is a process of this test in rar2 that speaks
the protocol of the join, and takes its own abilities out of COLLECT.
"""
import contextlib
import errno
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from rarpkt import AF_RAR, COLLECT, COMMIT, JOIN, JOIN_ACK, PROPOSE, SOL_RAR, VERSION, enter, sysctl
from tap import finish, note, result

SIZE, LESSER, PORT, PAYLOAD = 3, 2, 18118, 1408
RAR_JOIN, RAR_ABORT, RAR_ERROR, RAR_INFO, RAR_PEERS, RAR_CAPS, RAR_SCHEDULE, RAR_USER_RANK, \
    RAR_OP = 1, 6, 7, 8, 9, 10, 13, 21, 32
BY_HOSTS, READY, NO_RANK = 1, 3, 0xffffffff
JF_HOSTS, WM_BESIDE, R_VERSION, R_TABLE = 2, 0x8000, 11, 12
ALLREDUCE, BROADCAST, REDUCE, REDUCE_SCATTER, ALLGATHER, BARRIER, REDUCE_BY_KEY = range(1, 8)
IN_ORDER = 0x40
F32, F64, I32, I64, I8, U8, I16, U16, U32, U64, F16, BF16 = range(1, 13)
SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, AVG = range(1, 12)
ROW = struct.Struct(">Q16sHHI")         # struct rar_wire_member
CAPS = struct.Struct(">I16I")           # struct rar_wire_caps
CAPS_AT, ROWS_AT = 24 + 60, 152         # in COLLECT


def bits(*numbers):
    return sum(1 << n for n in numbers)


def caps(collectives, dtypes):
    return (bits(*collectives), *(bits(*dtypes.get(redop, ())) for redop in range(16)))


# One that knows sums only, and one that lacks a barrier, averages and products of bfloat16.
ALL = tuple(range(F32, BF16 + 1))
INTEGERS = tuple(range(I32, U64 + 1))
FIRST = caps([ALLREDUCE], {SUM: (F32, F64, I32, I64)})
LATER = caps([ALLREDUCE, BROADCAST, REDUCE, REDUCE_SCATTER, ALLGATHER],
             {SUM: ALL, MIN: ALL, MAX: ALL, PROD: ALL[:-1]}
             | {redop: INTEGERS for redop in range(BAND, AVG)})


class Member:
    """Rank 2: joins with what it knows, and passes the table on"""

    def __init__(self, group, knows, flags, marks, passes, version):
        self.version = version
        self.group, self.knows, self.nonce, self.next_nonce = group, knows, 0x01d, 0
        self.flags, self.marks = flags, marks       # of JOIN; in the word of the own payload
        self.passes = passes                        # types of packets
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((f"10.77.0.{LESSER + 1}", PORT))

    def send(self, rank, type, token, body):
        self.s.sendto(struct.pack(">BBHHHQQ", self.version, type, LESSER, rank, len(body), self.group,
                                  token) + body, (f"10.77.0.{rank + 1}", PORT))

    def join_body(self, flags=0):
        return struct.pack(">QIIHHIQ", self.nonce, SIZE, PAYLOAD, PORT, flags, 0, 0)

    def ask(self):
        self.send(0, JOIN, self.next_nonce, self.join_body(self.flags).ljust(PAYLOAD + 40, b"\0"))

    def collect(self, packet):
        """Add the own row, and take out of the abilities what this member does not know"""
        p = bytearray(packet)
        those = CAPS.unpack_from(p, CAPS_AT)
        CAPS.pack_into(p, CAPS_AT, *(a & b for a, b in zip(those, self.knows)))
        ROW.pack_into(p, ROWS_AT + LESSER * ROW.size, self.nonce, socket.inet_aton(
            f"10.77.0.{LESSER + 1}") + bytes(12), 4, PORT, PAYLOAD | self.marks)
        return bytes(p)

    def receive(self, packet):
        type, source = packet[1], struct.unpack_from(">H", packet, 2)[0]
        if type == JOIN and source == 1:
            nonce, flags = struct.unpack_from(">Q10xH", packet, 24)
            self.send(1, JOIN_ACK, nonce, self.join_body(flags & 1 | self.flags))
        elif type == JOIN_ACK and source == 0:
            self.next_nonce = struct.unpack_from(">Q", packet, 24)[0]
        elif type in self.passes and source == 1:
            packet = self.collect(packet) if type == COLLECT else packet
            self.send(0, type, self.next_nonce, packet[24:])

    def serve(self):
        while True:
            self.ask()
            end = time.monotonic() + 0.05
            while (left := end - time.monotonic()) > 0:
                if select.select([self.s], [], [], left)[0]:
                    self.receive(self.s.recv(2048))


@contextlib.contextmanager
def lesser(group, knows, flags=0, marks=0, passes=(COLLECT, PROPOSE, COMMIT), version=VERSION):
    pid = os.fork()
    if not pid:
        try:
            enter(f"rar{LESSER}")
            Member(group, knows, flags, marks, passes, version).serve()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def sockaddr(rank, size, group):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0, rank, size,
                       0, group, socket.inet_aton(f"10.77.0.{rank + 1}"))


def member(rank, size, group, options=()):
    enter(f"rar{rank}")
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    for option, value in options:
        s.setsockopt(SOL_RAR, option, struct.pack("=I", value))
    join(s, rank, size, group)
    return s


def join(s, rank, size, group):
    s.setsockopt(SOL_RAR, RAR_JOIN, sockaddr(rank, size, group)
                 + sockaddr((rank + 1) % size, size, group))


def joined(s):
    return bool(select.select([], [s], [], 15)[1]) and not s.getsockopt(socket.SOL_SOCKET,
                                                                        socket.SO_ERROR)


def caps_of(s):
    return struct.unpack("=4xI16I", s.getsockopt(SOL_RAR, RAR_CAPS, 72))


def call(s, rank, collective, redop, dtype, flags):
    """The errno of an operation on 24 bytes, 0 if it is accepted"""
    given = {BARRIER: 0, ALLGATHER: 8, BROADCAST: 0 if rank else 24}.get(collective, 24)
    op = struct.pack("=IBBBxIIQQQ", 40, collective, dtype, redop, 0, flags,
                     0 if collective == BARRIER else 24, 0, 0)
    try:
        s.sendmsg([bytes(given)], [(SOL_RAR, RAR_OP, op)], socket.MSG_DONTWAIT)
    except OSError as e:
        return e.errno
    return 0


def wanted(knows, collective, redop, dtype, flags):
    adds = collective in (ALLREDUCE, REDUCE, REDUCE_SCATTER)
    redop, dtype = redop if adds else SUM, U8 if collective == BARRIER else dtype
    known = knows[0] >> collective & 1 and knows[1 + redop] >> dtype & 1 and not (
        flags & ~knows[1])
    return 0 if known else errno.EOPNOTSUPP


def all_calls():
    for collective in range(ALLREDUCE, BARRIER + 1):
        for redop, dtype in ((SUM, I32), (SUM, F32), (MAX, F32), (SUM, BF16), (PROD, BF16),
                             (AVG, F32), (LXOR, U64)):
            yield collective, redop, dtype, 0
    yield ALLREDUCE, SUM, F32, IN_ORDER


def test(name, group, knows):
    with lesser(group, knows):
        ranks = [member(r, SIZE, group, [(RAR_USER_RANK, user)])
                 for r, user in ((0, 65535), (1, 0))]
        result(all([joined(s) for s in ranks]), f"{name}: the ring closes")
        found = [caps_of(s) for s in ranks]
        result(found == [knows, knows], f"{name}: RAR_CAPS says what all members know")
        names = [[user for _, user in struct.iter_unpack("=II64x", s.getsockopt(
            SOL_RAR, RAR_PEERS, 72 * SIZE))] for s in ranks]
        result(names == [[65535, 0, LESSER]] * 2, f"{name}: it passes on what users call ranks")
        wrong = [(rank, *what, got) for what in all_calls() for rank, s in enumerate(ranks)
                 if (got := call(s, rank, *what)) != wanted(knows, *what)]
        if wrong:
            note(f"rank, collective, redop, dtype, flags, errno: {wrong}")
        result(not wrong, f"{name}: what it does not know fails at every other rank")
        for s in ranks:
            s.close()


def hosts_of(s):
    return struct.unpack_from("=I", s.getsockopt(SOL_RAR, RAR_INFO, 192), 188)[0]


def state_of(s):
    return struct.unpack_from("=I", s.getsockopt(SOL_RAR, RAR_INFO, 192))[0]


def liar(group):
    """Rank 2 claims to be in one kernel with rank 1, which knows better"""
    with lesser(group, LATER, JF_HOSTS, WM_BESIDE):
        ranks = [member(r, SIZE, group, [(RAR_SCHEDULE, BY_HOSTS)]) for r in (0, 1)]
        up = joined(ranks[1])
        found = struct.unpack("=iIII", ranks[1].getsockopt(SOL_RAR, RAR_ERROR, 16))
        result(not up and found == (errno.EBADMSG, R_TABLE, 1, 0),
               f"a rank that claims to be in this kernel: {found}")
        for s in ranks:
            s.close()


def again(group):
    """Sockets that join again, with other nonces, find each other again"""
    ranks = [member(r, SIZE, group, [(RAR_SCHEDULE, BY_HOSTS)]) for r in range(SIZE)]
    for turn in range(3):
        up = all([joined(s) for s in ranks])
        found = [hosts_of(s) for s in ranks]
        result(up and found == [2] * SIZE, f"join {turn}: {found} hosts")
        ranks[turn].setsockopt(SOL_RAR, RAR_ABORT, bytes(4))
        for s in ranks:
            select.select([s], [], [], 15)
        for rank, s in enumerate(ranks):
            s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            join(s, rank, SIZE, group)
    for s in ranks:
        s.close()


def failure(s):
    """The rank that a failure names, and what its user calls it"""
    select.select([s], [], [], 15)
    s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return struct.unpack_from("=8xI24xI", s.getsockopt(SOL_RAR, RAR_ERROR, 104))


def forgotten(group):
    """A join that fails names no rank by the numbers of the join before it"""
    with lesser(group, LATER, passes=(COLLECT,)):
        ranks = [member(r, SIZE, group, [(RAR_USER_RANK, user)])
                 for r, user in ((0, 65535), (1, 7))]
        end = time.monotonic() + 15
        while state_of(ranks[1]) != READY and time.monotonic() < end:
            time.sleep(0.05)    # until PROPOSE has come
        result(state_of(ranks[1]) == READY, "a join that a member holds up")
        ranks[1].setsockopt(SOL_RAR, RAR_ABORT, bytes(4))
        first = failure(ranks[0])
    ranks[1].close()
    enter("rar0")
    sysctl("join_ms", 1000)
    join(ranks[0], 0, SIZE, group)
    second = failure(ranks[0])
    sysctl("join_ms", 30000)
    ranks[0].close()
    result(first == (1, 7), f"a failed join that knew all ranks: {first}")
    result(second in ((1, NO_RANK), (2, NO_RANK)), f"the next one knows none: {second}")


def alone():
    """How to find out what one host knows: a group of one"""
    s = member(0, 1, 0x01d0)
    ok = joined(s) and caps_of(s)[0] == bits(*range(ALLREDUCE, REDUCE_BY_KEY + 1))
    result(ok, "a group of one says what this host knows")
    s.close()


def other_version(group):
    """A member of version 1 is refused, and the others are told who it is"""
    enter("rar0")
    sysctl("join_ms", 2000)
    with lesser(group, LATER, version=VERSION - 1):
        ranks = [member(r, SIZE, group) for r in (0, 1)]
        up = joined(ranks[0])
        enter("rar0")
        sysctl("join_ms", 30000)
        why, rank = struct.unpack_from("=4xII", ranks[0].getsockopt(SOL_RAR, RAR_ERROR, 16))
        result(not up and (why, rank) == (R_VERSION, LESSER), f"version 1: reason {why}, rank {rank}")
        for s in ranks:
            s.close()


test("sums only", 0x01d1, FIRST)
test("most", 0x01d2, LATER)
other_version(0x01d3)
forgotten(0x01d7)
for old_rank in (0, 1):
    enter(f"rar{old_rank}")
    sysctl("one_host", 1)
liar(0x01d5)
again(0x01d6)
alone()
finish()
