# SPDX-License-Identifier: GPL-2.0
"""MACsec and WireGuard between namespaces: for tests, and for the bench. "tunnel.py macsec|wireguard
RANKS" makes devices macsec0 or wg0 above eth0 of the namespaces rar0 ..., whose own addresses are
10.76.0.(r+1). The ranks' addresses 10.77.0.(r+1) are left to the caller.
"""
import json
import socket
import struct
import subprocess
import sys

from genl import CTRL, NESTED, Genl, attr, number
from rarpkt import enter

SA_KEY = "01 " + "0123456789abcdef" * 2
WG_PORT = 51820


def ip(namespace, command, quiet=False):
    """Does "ip" do it there?"""
    return not subprocess.run(f"ip -n {namespace} {command}".split(), check=False,
                              stderr=subprocess.DEVNULL if quiet else None).returncode


def mac(namespace, device):
    """The address of a device"""
    out = subprocess.run(f"ip -n {namespace} -j link show {device}".split(), check=True,
                         capture_output=True).stdout
    return bytes.fromhex(json.loads(out)[0]["address"].replace(":", ""))


def macsec(namespace, link, device, peers, encrypt):
    """Make a device of MACsec, which @encrypt says "on" or "off" of, above @link; @peers: the
    addresses of the others. False: not in this kernel.
    """
    if not (ip(namespace, f"link add link {link} {device} type macsec encrypt {encrypt}",
               quiet=True) and ip(namespace, f"macsec add {device} tx sa 0 pn 1 on key {SA_KEY}")):
        return False
    for peer in peers:
        rx = f"macsec add {device} rx port 1 address {peer.hex(':')}"
        ip(namespace, rx)
        ip(namespace, f"{rx} sa 0 pn 1 on key {SA_KEY}")
    return ip(namespace, f"link set {device} up")


def wireguard(namespaces, outer, inner):
    """Make a device wg0 in each namespace, by which all reach the others' addresses @inner(i) at
    @outer(i). "ip" knows no keys and peers; netlink does. Leaves this process in one of the
    namespaces. False: not in this kernel.
    """
    sockets = []
    for i, namespace in enumerate(namespaces):
        if not ip(namespace, "link add wg0 type wireguard", quiet=True):
            return False
        ip(namespace, "link set wg0 up")
        enter(namespace)
        genl = Genl()
        genl.family = number(genl.do(3, attr(2, b"wireguard\0"), CTRL)[0][1][0])
        sockets.append(genl)
        wg_set(genl, attr(3, bytes(range(i, i + 32))) + attr(6, ("H", WG_PORT)))
    keys = [genl.dump(0, attr(2, b"wg0\0"))[0][4][0] for genl in sockets]
    for i, genl in enumerate(sockets):
        wg_set(genl, attr(8 | NESTED, b"".join(
            attr(NESTED, wg_peer(key, outer(j), inner(j)))
            for j, key in enumerate(keys) if j != i)))
    return True


def wg_set(genl, what):
    genl.do(1, attr(2, b"wg0\0") + what)


def wg_peer(key, outer, inner):
    endpoint = struct.pack("=H", socket.AF_INET) + struct.pack(">H", WG_PORT) + outer + bytes(8)
    allowed = attr(1, ("H", socket.AF_INET)) + attr(2, inner) + attr(3, ("B", 32))
    return attr(1, key) + attr(4, endpoint) + attr(9 | NESTED, attr(NESTED, allowed))


def main():
    kind, ranks = sys.argv[1], range(int(sys.argv[2]))
    spaces = [f"rar{r}" for r in ranks]
    if kind == "wireguard":
        return wireguard(spaces, *(lambda r, net=net: socket.inet_aton(f"10.{net}.0.{r + 1}")
                                   for net in (76, 77)))
    macs = [mac(space, "eth0") for space in spaces]
    return all([macsec(space, "eth0", "macsec0", macs[:r] + macs[r + 1:], "on")
                for r, space in enumerate(spaces)])


if __name__ == "__main__":
    sys.exit(not main())
