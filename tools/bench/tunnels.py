#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tunnels.py KIND PREFIX RANKS MTU: leads the routes between ranks through WireGuard, or through MACsec
with or without encryption. agent.py calls it when the namespaces PREFIX0 ... have their cables.
"""
import pathlib
import socket
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
import tunnel                               # noqa: E402

WG_OVERHEAD = 80        # what the device itself allows for, with IPv6 outside


def inner(rank):
    """Where the ring finds a rank: agent.py gives it this address"""
    return f"10.77.0.{rank + 1}"


def outer(rank):
    return f"10.76.0.{rank + 1}"


def by_macsec(spaces, encrypt):
    """Each cable has a device of its own above it"""
    for rank, space in enumerate(spaces):
        for peer, its in enumerate(spaces):
            if peer == rank:
                continue
            if not tunnel.macsec(space, f"to{peer}", f"sec{peer}",
                                 [tunnel.mac(its, f"to{rank}")], encrypt):
                sys.exit("no MACsec in this kernel")
            tunnel.ip(space, f"route replace {inner(peer)}/32 dev sec{peer} src {inner(rank)}")


def by_wireguard(spaces, mtu):
    """One device for all cables, whose own packets have other addresses"""
    ranks = range(len(spaces))
    for rank, space in enumerate(spaces):
        peers = [p for p in ranks if p != rank]
        tunnel.ip(space, f"address add {outer(rank)}/32 dev to{peers[0]}")
        for peer in peers:
            tunnel.ip(space, f"route add {outer(peer)}/32 dev to{peer} src {outer(rank)}")
    if not tunnel.wireguard(spaces, lambda r: socket.inet_aton(outer(r)),
                            lambda r: socket.inet_aton(inner(r))):
        sys.exit("no WireGuard in this kernel")
    for rank, space in enumerate(spaces):
        tunnel.ip(space, f"link set wg0 mtu {mtu - WG_OVERHEAD}")
        for peer in ranks:
            if peer != rank:
                tunnel.ip(space, f"route replace {inner(peer)}/32 dev wg0 src {inner(rank)}")


def main():
    kind, prefix, ranks, mtu = sys.argv[1:]
    spaces = [f"{prefix}{r}" for r in range(int(ranks))]
    if kind == "wireguard":
        by_wireguard(spaces, int(mtu))
    else:
        by_macsec(spaces, "on" if kind == "macsec" else "off")


main()
