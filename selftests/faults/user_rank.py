#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""RAR_USER_RANK: a program that has permuted its ranks finds its own numbers wherever the kernel
names a rank: RAR_PEERS, RAR_INFO, RAR_ERROR, netlink, /proc/net/rar and rarctl.

Rank r of the ring is in the namespace rar<r>. The rank that dies is another process.
"""
import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from genl import Genl, attrs, constants, number     # noqa: E402
from rarpkt import AF_RAR, SOL_RAR, enter           # noqa: E402
from tap import finish, note, result                # noqa: E402

RARCTL = pathlib.Path(os.environ.get("RAR_BIN", TOP / "build/selftests/bin")) / "rarctl"
RAR_JOIN, RAR_ABORT, RAR_ERROR, RAR_INFO, RAR_PEERS, RAR_USER_RANK = 1, 6, 7, 8, 9, 21
NO_RANK = 0xffffffff
SIZE, DIES = 4, 2
USER = (2, 0, 65535, 3)         # what the program calls the ranks of the ring
A = constants()


def sockaddr(rank, group):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), socket.AF_INET, 0, 0, rank, SIZE,
                       0, group, socket.inet_aton(f"10.77.0.{rank + 1}"))


def member(rank, group, user):
    enter(f"rar{rank}")
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    if user is not None:
        s.setsockopt(SOL_RAR, RAR_USER_RANK, struct.pack("=I", user))
    s.setsockopt(SOL_RAR, RAR_JOIN, sockaddr(rank, group) + sockaddr((rank + 1) % SIZE, group))
    return s


def joined(s):
    return bool(select.select([], [s], [], 15)[1]) and not s.getsockopt(socket.SOL_SOCKET,
                                                                        socket.SO_ERROR)


class Ranks(contextlib.AbstractContextManager):
    """A ring whose rank DIES is another process, and whose other ranks are sockets here."""

    def __init__(self, group, users):
        self.pid = os.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                s = member(DIES, group, users[DIES])
                while s:
                    signal.pause()
            os._exit(1)
        self.group = group
        self.fd = {r: member(r, group, users[r]) for r in range(SIZE) if r != DIES}
        self.up = all([joined(s) for s in self.fd.values()])

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0

    def __exit__(self, *_):
        self.kill()
        for s in self.fd.values():
            s.close()

    def get(self, option, form):
        """The option of all ranks that are here"""
        return [struct.unpack_from(form, s.getsockopt(SOL_RAR, option, 512))
                for s in self.fd.values()]

    def peers(self):
        return [[user for _, user in struct.iter_unpack("=II64x", s.getsockopt(
            SOL_RAR, RAR_PEERS, 72 * SIZE))] for s in self.fd.values()]


def events(genl, group, n):
    """The next n events of a group"""
    found = []
    while len(found) < n:
        found += [e for e in (attrs(body[4:]) for _, _, body in genl.receive())
                  if number(e[A["RAR_A_EVENT_GROUP"]][0]) == group]
    return found


def told(tree, name):
    """The value of an attribute, None if it is absent"""
    return number(tree[A[name]][0]) if A[name] in tree else None


def rarctl(*args):
    return subprocess.run([RARCTL, *args], text=True, check=False, stdout=subprocess.PIPE).stdout


def check_lists(ring, user):
    """What rank 1 shows of itself and its neighbours; @user[rank] is None where it is the same"""
    enter("rar1")
    shown, = json.loads(rarctl("-j", "show", hex(ring.group)))
    found = [shown.get("user_rank"), *(link.get("user_rank") for link in shown["links"])]
    result(found == [user[1], user[2], user[0]], f"rarctl as JSON: {found}")
    text = rarctl("show", hex(ring.group)).splitlines()[1].split()[1]
    result(text == ("1/4" if user[1] is None else f"1({user[1]})/4"), f"rarctl in columns: {text}")
    rows = pathlib.Path("/proc/self/net/rar").read_text(encoding="ascii").splitlines()[1:]
    row = [dict(zip(rows[0].split(), r.split())) for r in rows[1:] if r.startswith(
        f"{ring.group:016x}")][0]
    result(row["user_rank"] == str(1 if user[1] is None else user[1]), "/proc/net/rar")


def check_slow(ring, user):
    """Rank DIES posts nothing: it keeps the others waiting"""
    for s in ring.fd.values():
        s.send(bytes(4096))
    time.sleep(1)
    names = ring.get(RAR_INFO, "=176xI4x112x2I")
    own = [(DIES, user[r], user[DIES]) for r in ring.fd]
    if names != own:
        note(f"{names}, not {own}")
    result(names == own, "RAR_INFO: own number, and the straggler's")


def check_death(ring, user, genl, shown):
    ring.kill()
    for s in ring.fd.values():
        select.select([s], [], [], 15)
    names = [(rank, name) for rank, name in ring.get(RAR_ERROR, "=8xI24xI")]
    result(names == [(DIES, user[DIES])] * 3, f"RAR_ERROR names the dead rank: {names}")
    result(ring.peers() == [list(user)] * 3, "RAR_PEERS after the failure")
    event, = events(genl, ring.group, 1)
    error = attrs(event[A["RAR_A_EVENT_ERROR"]][0])
    found = (told(event, "RAR_A_EVENT_USER_RANK"), told(error, "RAR_A_ERROR_RANK"),
             told(error, "RAR_A_ERROR_USER_RANK"))
    result(found == (shown[1], DIES, shown[DIES]), f"the event of the failure: {found}")
    enter("rar1")
    text = rarctl("show", hex(ring.group))
    name = DIES if shown[DIES] is None else f"{DIES}({shown[DIES]})"
    result(f"rank {name}:" in text or f"rank {name} and" in text, f"rarctl names rank {name}")


def test(name, group, users):
    user = [r if u is None else u for r, u in enumerate(users)]
    shown = [None if u == r else u for r, u in enumerate(user)]
    note(name)
    enter("rar1")
    genl = Genl()
    genl.listen()
    with Ranks(group, users) as ring:
        result(ring.up, f"{name}: the ring closes")
        event, = events(genl, group, 1)
        result(told(event, "RAR_A_EVENT_USER_RANK") == shown[1], "the event of the join")
        result(ring.peers() == [user] * 3, f"RAR_PEERS: {user}")
        check_lists(ring, shown)
        check_slow(ring, user)
        check_death(ring, user, genl, shown)


def failed_join(group):
    """A join that fails knows the own number only"""
    ranks = [member(r, group, USER[r]) for r in (0, 1)]
    time.sleep(1)       # they know each other
    ranks[1].setsockopt(SOL_RAR, RAR_ABORT, bytes(4))
    select.select([ranks[0]], [], [], 15)
    found = [struct.unpack_from("=8xI24xI", s.getsockopt(SOL_RAR, RAR_ERROR, 104)) for s in ranks]
    result(found == [(1, NO_RANK), (1, USER[1])], f"a join that fails: {found}")
    for s in ranks:
        s.close()


test("permuted", 0x05e1, USER)
test("one has a number of its own", 0x05e2, (None, None, 0, None))
test("no rank has", 0x05e3, (None,) * SIZE)
failed_join(0x05e4)
finish()
