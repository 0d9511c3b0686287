#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Joins that go wrong: which member learns what, and when.

Ranks join in the namespaces rar0 ... of selftests/lib.sh, each a process of its own. Links,
routes and addresses come and go meanwhile.
"""
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

from rarpkt import AF_RAR, SOL_RAR, enter, sysctl

RAR_JOIN, RAR_ERROR = 1, 7
REASONS = {8: "JOIN_TIMEOUT", 9: "DUPLICATE", 10: "SIZE", 19: "MTU", 20: "NODEV"}

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
    """A command in a rank's namespace"""
    subprocess.run(["nsenter", f"--net=/run/netns/rar{rank}", *command.split()],
                   check=True, **kw)


def rules(rank, text):
    """For what a rank receives"""
    run(rank, "nft -f -", text=True, input=f"""add table netdev t
add chain netdev t in {{ type filter hook ingress device eth0 priority -500; }}
add rule netdev t in {text}
""")


def address(rank):
    return socket.inet_aton(f"10.77.0.{rank + 1}")


def sockaddr(rank, size, af=socket.AF_INET, port=0):
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, struct.pack(">H", port), af, 0, 0, rank,
                       size, 0, group, address(rank) if af else b"")


def outcome(s):
    """How a member's join ended"""
    data = s.getsockopt(SOL_RAR, RAR_ERROR, 104)
    err, reason, rank, other = struct.unpack("=iIII", data[:16])
    return {"err": errno.errorcode.get(err, err), "reason": REASONS.get(reason, reason),
            "rank": rank, "other": other}


class Member:
    """A process that joins; @before is run between bind() and connect()."""

    def __init__(self, rank, size, join_ms=20000, af=socket.AF_INET, before=None):
        self.rank = rank
        self.pipe, out = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(out)
            return
        try:
            self.said = self.join(rank, size, join_ms, af, before)
        except OSError as e:
            self.said = {"err": errno.errorcode[e.errno], "at": str(e)}
        os.write(out, json.dumps(self.said).encode())
        os._exit(0)

    def join(self, rank, size, join_ms, af, before):
        enter(f"rar{rank}")
        sysctl("join_ms", join_ms)
        start = time.monotonic()
        with socket.socket(AF_RAR, socket.SOCK_SEQPACKET) as s:
            if before:
                before()
            s.setsockopt(SOL_RAR, RAR_JOIN, sockaddr(rank, size, af) +
                         sockaddr((rank + 1) % size, size))
            select.select([], [s], [], 40)
            s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            said = outcome(s)
            said["s"] = round(time.monotonic() - start, 1)
            os.write(1, f"# rank {rank}: {said}\n".encode())
            if not said["err"]:
                time.sleep(1)       # until all have joined
            else:
                time.sleep(3)       # who is told later finds this one here
        return said

    def end(self):
        if not hasattr(self, "said"):
            with os.fdopen(self.pipe) as f:
                self.said = json.loads(f.read() or "{}")
            os.waitpid(self.pid, 0)
        return self.said


def all_say(members, within=15, **what):
    """Does each of them say this in time?"""
    said = [m.end() for m in members]
    return all(all(s.get(k) == v for k, v in what.items()) and s.get("s", 99) < within
               for s in said)


def fresh():
    global group
    group += 1


def black_hole():
    """Full-size packets from rank 1 do not reach rank 2; small ones do."""
    rules(2, "ip saddr 10.77.0.2 ip length > 1400 drop")
    members = [Member(r, 4) for r in range(4)]
    result(all_say(members, err="EMSGSIZE", reason="MTU", rank=1, other=2),
           "an MTU black hole: all learn of it, and which link it is")
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
           "a rank without a route gives up: all learn of it")
    run(2, "ip route del unreachable 10.77.0.4/32")


CASES = [black_hole, link_blinks, gives_up]

print(f"TAP version 13\n1..{len(CASES)}", flush=True)
for case in CASES:
    fresh()
    case()
sys.exit(tap_failed > 0)
