# SPDX-License-Identifier: GPL-2.0
"""Three members, sockets of this process, that make one keyed reduction"""
import collections
import socket
import struct

import live
from live import RAR_OP, SOL_RAR, Ring, rng

RAR_SCHEDULE, RAR_DIRECT = 13, 3
REDUCE_BY_KEY, I64, SUM = 7, 4, 1
KEY = 8
RECORD = 16
SLOTS = 10000
KEYS = 700
RECORDS = 2000      # that a rank gives, some packets


class KeyedRing(Ring):
    """root: the rank that gets the result; options: {name: value}, further options of sockets"""

    def __init__(self, root, options=()):
        self.root = root
        self.options = dict(options)
        self.sent = collections.Counter()
        super().__init__()

    def member(self, rank):
        live.enter(f"rar{rank}")
        s = socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
        s.setsockopt(SOL_RAR, RAR_SCHEDULE, struct.pack("=I", RAR_DIRECT))
        for name, value in self.options.items():
            s.setsockopt(SOL_RAR, name, value)
        s.setsockopt(SOL_RAR, live.RAR_JOIN, live.sockaddr(rank, self.group) +
                     live.sockaddr((rank + 1) % live.N, self.group))
        return s

    def begin(self):
        for s in self.fd:
            op = struct.pack("=IBBBBIIQQQB7x", 48, REDUCE_BY_KEY, I64, SUM, KEY, self.root, 0,
                             SLOTS * RECORD, 0, 0, 0)
            s.sendmsg([b""], [(SOL_RAR, RAR_OP, op)], socket.MSG_MORE)

    def give(self, rank, more=True, records=RECORDS):
        """Send random records of a rank; more: others may follow"""
        out = bytearray()
        for _ in range(records):
            key, value = rng.randrange(KEYS), rng.randrange(1000)
            self.sent[key] += value
            out += struct.pack("=Qq", key, value)
        at = 0
        while at < len(out):
            at += self.fd[rank].send(out[at:], socket.MSG_MORE)
        if not more:
            self.fd[rank].send(b"")
