#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Joins that go wrong: the error that each member gets, and how soon.

Ranks join in the namespaces rar0 ... of selftests/lib/lib.sh, each a process of its own.
Meanwhile links, routes and addresses come and go. Strangers who know a group and its
addresses send packets from a UDP socket on the host of rank 3.
"""
import errno
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from rarpkt import AF_RAR, JOIN, JOIN_ACK, REJECT, SOL_RAR, VERSION, enter, sysctl, tables

RAR_JOIN, RAR_ERROR = 1, 7
RAR_JF_BIG = 4
PORT = 18118
REASONS = {8: "JOIN_TIMEOUT", 9: "DUPLICATE", 10: "SIZE", 19: "MTU", 20: "NODEV", 23: "KEY",
           24: "PREV", 26: "BYTE_ORDER"}

tap_nr = tap_failed = 0
group = 0x10145


def note(text):
    print("#", text, flush=True)


def result(ok, name):
    global tap_nr, tap_failed
    tap_nr += 1
    tap_failed += not ok
    print(f"{'ok' if ok else 'not ok'} {tap_nr} {name}", flush=True)


def run(rank, command, **kw):
    """Run a command in a rank's namespace"""
    subprocess.run(["nsenter", f"--net=/run/netns/rar{rank}", *command.split()],
                   check=True, **kw)


def rules(rank, text):
    """Filter the packets that a rank receives"""
    run(rank, "nft -f -", text=True, input=f"""add table netdev t
add chain netdev t in {{ type filter hook ingress device eth0 priority -500; }}
add rule netdev t in {text}
""")


def address(rank):
    return socket.inet_aton(f"10.77.0.{rank + 1}")


def sockaddr(rank, size, af=socket.AF_INET, port=0, at=None):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, struct.pack(">H", port), af, 0, 0, rank,
                       size, 0, group, address(rank if at is None else at) if af else b"")


def outcome(s):
    """How a member's join ended"""
    data = s.getsockopt(SOL_RAR, RAR_ERROR, 104)
    err, reason, rank, other = struct.unpack("=iIII", data[:16])
    return {"err": errno.errorcode.get(err, err), "reason": REASONS.get(reason, reason),
            "rank": rank, "other": other}


class Member:
    """A process that joins; @prev: host number of its predecessor's address"""

    def __init__(self, rank, size, join_ms=20000, af=socket.AF_INET, prev=None, key=b""):
        self.rank = rank
        self.pipe, out = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(out)
            return
        try:
            self.said = self.join(rank, size, join_ms, af, prev, key)
        except OSError as e:
            self.said = {"err": errno.errorcode[e.errno], "at": str(e)}
        os.write(out, json.dumps(self.said).encode())
        os._exit(0)

    def join(self, rank, size, join_ms, af, prev, key):
        enter(f"rar{rank}")
        start = time.monotonic()
        with socket.socket(AF_RAR, socket.SOCK_SEQPACKET) as s:
            where = sockaddr((rank - 1) % size, size, at=prev) if prev is not None else b""
            s.setsockopt(SOL_RAR, RAR_JOIN, struct.pack(
                "=64s64s64s16sII16x", sockaddr(rank, size, af),
                sockaddr((rank + 1) % size, size), where, key, join_ms, 0))
            select.select([], [s], [], 40)
            s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            said = outcome(s)
            said["s"] = round(time.monotonic() - start, 1)
            os.write(1, f"# rank {rank}: {said}\n".encode())
            if not said["err"]:
                time.sleep(1)       # until all have joined
            else:
                time.sleep(3)       # still here for members that get the error later
        return said

    def end(self):
        if not hasattr(self, "said"):
            with os.fdopen(self.pipe) as f:
                self.said = json.loads(f.read() or "{}")
            os.waitpid(self.pid, 0)
        return self.said


def all_say(members, within=15, **what):
    """Has each member's join ended like this, and in time?"""
    said = [m.end() for m in members]
    return all(all(s.get(k) == v for k, v in what.items()) and s.get("s", 99) < within
               for s in said)


def fresh():
    global group
    group += 1


def black_hole():
    """Packets from rank 1 that no MTU allows to be smaller do not reach rank 2; small ones do."""
    rules(2, "ip saddr 10.77.0.2 ip length > 1200 drop")
    members = [Member(r, 4) for r in range(4)]
    result(all_say(members, err="EMSGSIZE", reason="MTU", rank=1, other=2),
           "an MTU black hole: all get EMSGSIZE with the ranks of the link")
    run(2, "nft flush ruleset")


def link_blinks():
    """The device of rank 2 is down as it begins."""
    run(2, "ip link set eth0 down")
    members = [Member(r, 3, af=0 if r == 2 else socket.AF_INET) for r in range(3)]
    time.sleep(1.5)
    run(2, "ip link set eth0 up")
    result(all_say(members, err=0), "the link comes back: all join")


def gives_up():
    """Rank 2 has no route to rank 3, until it gives up."""
    run(2, "ip route add unreachable 10.77.0.4/32")
    members = [Member(r, 4, join_ms=2000 if r == 2 else 20000) for r in range(4)]
    own = members[2].end()
    others = all_say([m for m in members if m.rank != 2], within=8, err="ECONNRESET",
                     reason="NODEV", rank=2, other=3)
    result(own.get("err") == "EHOSTUNREACH" and own.get("reason") == "NODEV" and others,
           "a rank without a route gives up: all get an error that names it")
    run(2, "ip route del unreachable 10.77.0.4/32")


# ------------------------------------------------------------------ strangers

class Stranger:
    """On rank 3's host: claims to be @rank of @size to that rank's successor"""

    def __init__(self, rank, size, port=0, flags=0):
        self.rank, self.size, self.nonce, self.token = rank, size, rank + 0x51, 0
        self.flags = flags
        self.to = (f"10.77.0.{(rank + 1) % 3 + 1}", PORT)
        self.dst = (rank + 1) % 3
        self.answers = []
        ours = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter("rar3")
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((f"10.77.0.{3 + 1}", port))
        enter_fd(ours)
        self.s.settimeout(0.3)

    def ask(self):
        """Send a padded JOIN that echoes the last nonce. Returns the answer's type, or 0"""
        body = struct.pack(">QIIHHIQ", self.nonce, self.size, 1408, self.s.getsockname()[1],
                           self.flags, 0, 0).ljust(1448, b"\0")
        self.s.sendto(struct.pack(">BBHHHQQ", VERSION, JOIN, self.rank, self.dst, len(body),
                                  group, self.token) + body, self.to)
        try:
            answer = self.s.recv(2000)
        except OSError:
            return 0
        if answer[1] == JOIN_ACK:
            self.token = struct.unpack(">Q", answer[24:32])[0]
        self.answers.append(answer[1])
        return answer[1]


def enter_fd(fd):
    import rarpkt
    if rarpkt.libc.setns(fd, 0x40000000):
        raise OSError("setns")
    os.close(fd)


def refused_count(rank):
    """RarJoinsRefused of a rank's namespace"""
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(f"rar{rank}")
    n = tables("rar_netstat")["RarJoinsRefused"]
    enter_fd(ours)
    return n


def stranger_disagrees():
    """A stranger with another size is refused, and the join goes on."""
    before = refused_count(1)
    members = [Member(r, 3) for r in (0, 1)]
    time.sleep(0.5)
    stranger = Stranger(0, 5)
    for _ in range(4):
        stranger.ask()
    refused = refused_count(1) - before
    members.append(Member(2, 3))
    result(all_say(members, err=0) and REJECT in stranger.answers and refused >= 1,
           f"a stranger disagrees: {refused} times refused, all join")


def stranger_takes(name, told_apart, **kw):
    """For two seconds a stranger has the place of rank 0, before rank 0 comes."""
    member = Member(1, 3, **{"prev": 0} if "prev" in kw else kw)
    time.sleep(0.3)
    stranger = Stranger(0, 3)
    for _ in range(3):
        stranger.ask()
    members = [member, *(Member(r, 3, **{"prev": (r - 1) % 3} if "prev" in kw else kw)
                         for r in (0, 2))]
    end = time.monotonic() + 2
    while time.monotonic() < end:
        stranger.ask()
        time.sleep(0.1)
    joined = all_say(members, err=0)
    soon = all(m.said.get("s", 99) < 1.9 for m in members if m.rank != 1)
    result(joined and soon == told_apart, name)


def place_taken():
    stranger_takes("a stranger has the predecessor's place as long as it lives", False)


def place_by_address():
    stranger_takes("a stranger, where the predecessor's address is known", True, prev=True)


def place_by_key():
    stranger_takes("a stranger, where members have a key", True, key=b"0123456789abcdef")


def one_key():
    """All members have the same key; they agree about the epoch that is derived from it."""
    members = [Member(r, 3, key=b"0123456789abcdef") for r in range(3)]
    result(all_say(members, err=0), "one key: all join")


def other_key():
    """Rank 1 has another key, or none. An answer with a bad proof may be forged, so ranks 0 and 1,
    which get such answers, wait for a good one until their joins time out. Rank 0 tells rank 2."""
    ok = True
    for key in (b"0123456789abcdeF", b""):
        fresh()
        members = [Member(r, 3, key=key if r == 1 else b"0123456789abcdef",
                          join_ms=2000 if r < 2 else 20000) for r in range(3)]
        ok &= all_say(members, err="EACCES", reason="KEY")
    result(ok, "another key, or none: all get EACCES")


def other_address():
    """Rank 1 expects its predecessor at another address."""
    members = [Member(r, 3, prev=3 if r == 1 else None) for r in range(3)]
    said = [m.end() for m in members]
    result(said[0].get("err") == "EACCES" and said[0].get("reason") == "PREV",
           "a predecessor at an unexpected address gets EACCES")


def big_endian():
    """The predecessor of rank 1 says that its elements are big endian."""
    member = Member(1, 3, prev=3)
    time.sleep(0.3)
    other = Stranger(0, 3, PORT, RAR_JF_BIG)
    for _ in range(3):
        other.ask()
    result(all_say([member], err="EBADMSG", reason="BYTE_ORDER", rank=0, other=1) and
           REJECT in other.answers, "a big-endian predecessor: EBADMSG that names it")


CASES = [black_hole, link_blinks, gives_up, stranger_disagrees, place_taken, place_by_address,
         place_by_key, one_key, other_key, other_address, big_endian]

print(f"TAP version 13\n1..{len(CASES)}", flush=True)
for case in CASES:
    fresh()
    case()
sys.exit(tap_failed > 0)
