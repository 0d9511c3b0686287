#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Routers say that a packet between a member and the box was too big; some of them lie.

A group that exists only in this program is in rar0, with the box in rar3. Members of another group
are in rar0, rar1 and rar2 (lib/in_topo.sh 4 box/too_big.py).
"""
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from boxleg import ALLREDUCE, BOX, I32, SUM, Group, Leg, enter_all, until
from rarpkt import AG, BOX_RANK, RESET, RS, Packet, csum, enter, sysctl, tables
from tap import finish, note, result

GROUP = Group(0x5ca77e2ed, 77, 2, 16)


def both():
    """Both ranks of the group, with open legs"""
    return enter_all([Leg(GROUP, 0), Leg(GROUP, 1)])


def too_big(src, dst, rar, n):
    """A router says that a packet from src to dst is too big, and quotes n bytes of RAR."""
    quoted = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(rar), 0, 0x4000, 64, 17, 0,
                         socket.inet_aton(src[0]), socket.inet_aton(dst[0]))
    quoted += struct.pack(">4H", src[1], dst[1], 8 + len(rar), 0) + rar[:n]
    icmp = struct.pack(">BBHHH", 3, 4, 0, 0, 1400) + quoted
    icmp = icmp[:2] + struct.pack(">H", csum(icmp)) + icmp[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        s.sendto(icmp, (src[0], 0))


def judge(what, src, dst, rar, lost):
    """The host of src gets errors that quote a packet of its own: a part, a lie, the truth."""
    lie = bytearray(rar)
    lie[18] ^= 1
    for name, quoted, n in (("half a header", rar, 12), ("another epoch", lie, 64)):
        too_big(src, dst, bytes(quoted), n)
        result(not until(lost, 1), f"too big {what}, quoting {name}: ignored")
    too_big(src, dst, rar, 24)
    # Sooner than silence would be noticed.
    result(until(lost, 3), f"too big {what}, quoting the epoch: believed")


def forget(host):
    """Kernels believe all errors, and the next packets would not fit."""
    subprocess.run(["ip", "-n", host, "route", "flush", "cache"], check=True)


def too_big_below(what, packet_of):
    """Packets of the box to a member; then the job ends, and the other member is told."""
    enter("rar0")
    ranks = both()
    for rank in ranks:
        rank.contribute(0, 0, 1 << 20, (ALLREDUCE, I32, SUM), bytes(16))
    packet = packet_of(*[(rank, rank.came(AG)) for rank in ranks][0])
    came = []

    def lost():
        try:
            came.append(ranks[1].s.recv(2048)[1])
        except TimeoutError:
            pass
        return RESET in came

    judge(what, BOX, ranks[0].s.getsockname(), packet, lost)
    # To its kernel, rank 0 is now its own gateway. The packets of this group are short.
    result(all(rank.epoch for rank in both()), "a host whose path MTU is known is on the link")
    forget("rar3")


def too_big_above():
    """Packets of a member to the box; then the member loses its leg, and the group goes on."""
    enter("rar0")
    with tempfile.TemporaryDirectory() as folder, \
         socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sniffer:
        sniffer.bind(("eth0", 0))
        sniffer.settimeout(20)
        enough = pathlib.Path(folder) / "enough"
        with subprocess.Popen(["ring", "-w", "-n", "3", "-s", "box=" + BOX[0], "-t", "i32", "-c",
                               "30k,3001", "-p", "4", "-z", "cio", "-d", "100", "-e", enough],
                              stdout=subprocess.PIPE, text=True) as ring:
            p = None
            while not p or p.drank != BOX_RANK or p.type != RS:
                p = Packet.parse(sniffer.recv(65536))
            lost = tables("rar_netstat")["RarBoxLost"]
            judge("to the box", (socket.inet_ntoa(p.src), p.sport), BOX, p.rar(),
                  lambda: tables("rar_netstat")["RarBoxLost"] > lost)
            forget("rar0")
            enough.touch()
            said = ring.communicate()[0]
        for line in said.splitlines():
            note(line)
        result(ring.returncode == 0, "the group goes on")


def main():
    enter("rar3")
    sysctl("box_mem", 64 << 20)
    too_big_below("from the box", lambda rank, sums: sums[0])
    too_big_below("that lets a member in", lambda rank, sums: rank.entered)
    too_big_above()
    enter("rar3")
    sysctl("box_mem", 0)
    finish()


if __name__ == "__main__":
    main()
