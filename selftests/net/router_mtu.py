#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A router between two ranks, and a smaller MTU behind it. The router says so while the ranks join, and
the join goes on with smaller packets. If it says nothing, the join finds a size that passes. Run by
RAR_NETWORK=router lib/in_topo.sh 2, so rarbr is the router.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from live import enter, sysctl
from pair import close, pair
from tap import finish, note, result

NAMES = (("IPv4", "10.77.0.1", "10.77.0.2"), ("IPv6", "fd77::1", "fd77::2"))


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
    for r in range(2):
        enter(f"rar{r}")
        sysctl("join_ms", 10000)
    for title, *names in NAMES:
        for count in ("first", "second"):
            ranks, why = pair(*names)
            note(f"{title}, {count} join: {why or 'works'}")
            result(ranks, f"{title}, the {count} join")
            close(ranks or ())
    silence()
    for title, *names in NAMES:
        ranks, why = pair(*names)
        note(f"{title}, the router is silent: {why or 'works'}")
        result(ranks, f"{title}, the router says nothing")
        close(ranks or ())
    finish()


main()
