#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A router between two ranks, and a smaller MTU behind it. The router says so while the ranks join, and
the join goes on with smaller packets. If it says nothing, the join finds a size that passes. Run by
lib/in_topo.sh 2.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import enter, sysctl
from pair import close, pair
from tap import finish, note, result

MTU = 1400


def ip(ns, *commands):
    for command in commands:
        subprocess.run(["ip", "-n", ns, *command.split()], check=True)


def route():
    """rarbr is the router: rank 0 is at its bridge, and rank 1 at p1."""
    ip("rarbr", "link set p1 nomaster", f"link set p1 mtu {MTU}",
       "addr add 10.77.0.254/24 dev br0", "addr add fd77::fe/64 dev br0 nodad",
       "addr add 10.78.0.254/24 dev p1", "addr add fd78::fe/64 dev p1 nodad",
       "addr add fe80::fe/64 dev p1 nodad")
    ip("rar0", "route add 10.78.0.0/24 via 10.77.0.254", "-6 route add fd78::/64 via fd77::fe")
    ip("rar1", "addr flush dev eth0", f"link set eth0 mtu {MTU}",
       "addr add 10.78.0.2/24 dev eth0", "addr add fd78::2/64 dev eth0 nodad",
       "addr add fe80::77:2/64 dev eth0 nodad",
       "route add 10.77.0.0/24 via 10.78.0.254", "-6 route add fd77::/64 via fd78::fe")
    enter("rarbr")
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        with open("/proc/sys/net/" + name, "w") as f:
            f.write("1")


def silence():
    """The router keeps its ICMP to itself, as firewalls do, and the ranks forget what it said."""
    enter("rarbr")
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input="""
        table inet silent {
            chain out {
                type filter hook output priority 0;
                icmp type destination-unreachable drop
                icmpv6 type packet-too-big drop
            }
        }""")
    for r in range(2):
        enter(f"rar{r}")
        subprocess.run(["ip", "route", "flush", "cache"], check=True)
        subprocess.run(["ip", "-6", "route", "flush", "cache"], check=True)


def main():
    route()
    for r in range(2):
        enter(f"rar{r}")
        sysctl("join_ms", 10000)
    for title, *names in (("IPv4", "10.77.0.1", "10.78.0.2"), ("IPv6", "fd77::1", "fd78::2")):
        for count in ("first", "second"):
            ranks, why = pair(*names)
            note(f"{title}, {count} join: {why or 'works'}")
            result(ranks, f"{title}, the {count} join")
            close(ranks or ())
    silence()
    for title, *names in (("IPv4", "10.77.0.1", "10.78.0.2"), ("IPv6", "fd77::1", "fd78::2")):
        ranks, why = pair(*names)
        note(f"{title}, the router is silent: {why or 'works'}")
        result(ranks, f"{title}, the router says nothing")
        close(ranks or ())
    finish()


main()
