#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Packets of a neighbour come by the device by which it is reached: if the socket is bound to that
device, if the device encrypts or signs, or if it belongs to a VRF. A stranger who knows all tokens
of the group sends its packets by another device. Run by lib/in_topo.sh 3.

Each rank has a second device eth1, whose other end (q0 ...) is in the namespace of the bridge.
"""
import errno
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
import tunnel
from live import N, Data, Ring, wait_quiet
from rarpkt import ABORT, JOIN, RS, SOL_RAR, VERSION, Packet, csum, enter, sysctl, tables
from tap import finish, note, result
from tun import Tuns

PORT = 18118
INFO, EPOCH = 192, 24       # bytes of RAR_INFO, and where the epoch is
PIN = "/sys/fs/bpf/rar-test"
plain_address = live.address


def run(command, quiet=False):
    return not subprocess.run(command.split(), stderr=subprocess.DEVNULL if quiet else None,
                              check=False).returncode


def ip(rank, command, quiet=False):
    return tunnel.ip(f"rar{rank}", command, quiet)


def mac(rank, device):
    return tunnel.mac(f"rar{rank}", device)


def tunnel_address(rank):
    return socket.inet_aton(f"10.78.0.{rank + 1}")


class Group(Ring):
    """A ring whose sockets are bound to a device"""

    def __init__(self, device=None):
        self.device = device
        super().__init__()

    def member(self, rank):
        enter(f"rar{rank}")
        sysctl("rx_path", live.path)
        s = socket.socket(live.AF_RAR, socket.SOCK_SEQPACKET)
        if self.device:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.device.encode())
        s.setsockopt(SOL_RAR, live.RAR_JOIN, live.sockaddr(rank, self.group) +
                     live.sockaddr((rank + 1) % N, self.group))
        return s

    def epoch(self):
        return struct.unpack_from("=Q", self.fd[1].getsockopt(SOL_RAR, live.RAR_INFO, INFO),
                                  EPOCH)[0]

    def works(self):
        try:
            return all([self.allreduce(Data(live.COUNT)) for _ in range(3)])
        except OSError as e:
            note(f"the group: {e}")
            return False


# ------------------------------------------------------------------ what the stranger sends

class Stranger:
    """Sends by a port of the bridge's namespace, to a device of rank 1"""

    def __init__(self, port, device):
        self.eth = mac(1, device) + b"\2\0\0\0\0\1\x08\0"
        enter("rarbr")
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.s.bind((port, 0))

    def send(self, frame):
        for _ in range(2):
            self.s.send(self.eth + frame[14:])
        time.sleep(0.05)

    def packet(self, group, kind, token, payload):
        return Packet(eth=self.eth, src=live.address(0), dst=live.address(1), sport=PORT,
                      dport=PORT, version=VERSION, type=kind, srank=0, drank=1, group=group,
                      token=token, payload=payload)

    def abort(self, ring):
        self.send(self.packet(ring.group, ABORT, ring.epoch(), struct.pack(
            ">IIIIQII16x", errno.ECONNRESET, 6, 0, 2, 0, 0, 0)).frame())

    def join(self, group):
        self.send(self.packet(group, JOIN, 0, struct.pack(
            ">QIIHHIQ", 0x77, N, 1408, PORT, 0, 0, 0)).frame())

    def too_big(self, ring):
        """A router says that a chunk of rank 1 was too big."""
        quoted = Packet(eth=self.eth, src=live.address(1), dst=live.address(2), sport=PORT,
                        dport=PORT, version=VERSION, type=RS, srank=1, drank=2, group=ring.group,
                        token=ring.epoch(), payload=bytes(40)).frame()[14:]
        body = struct.pack(">BBHHH", 3, 4, 0, 0, 1300) + quoted
        body = body[:2] + struct.pack(">H", csum(body)) + body[4:]
        self.send(Packet(eth=self.eth, src=live.address(0), dst=live.address(1),
                         proto=1).frame(body))

    def chunk(self, ring, op):
        """Rank 0's chunk of the next operation, with other numbers. Is the sum right?"""
        data = Data(live.COUNT)
        ring.post(1, data)
        ring.post(2, data)
        p = live.next_packet(ring, data, op)
        self.send(p.copy(payload=bytes(len(p.payload))).frame())
        ring.post(0, data)
        return all([ring.collect(r, data) for r in range(N)])


def dropped():
    enter("rar1")
    return tables("rar_netstat").get("RarDropDevice", 0)


def refuses(title, stranger, device=None, chunks=True, counts=True):
    """Are packets by the wrong device not taken, each of them counted?"""
    group, before, sent = Group(device), dropped(), 2
    try:
        ok = group.works()
        stranger.abort(group)
        ok = group.works() and ok
        if chunks:
            wait_quiet(group)
            ok = stranger.chunk(group, 6) and ok
            sent += 2
        stranger.too_big(group)
        ok = group.works() and ok
    except OSError as e:
        note(f"the group: {e}")
        ok = False
    got = dropped() - before
    if got != (sent if counts else 0):
        note(f"RarDropDevice {got}, {sent} were sent")
        ok = False
    group.close()
    result(ok, title)


def joins(title, stranger, device):
    """Is a JOIN by the wrong device not answered?"""
    Ring.group += 1
    group = Group.__new__(Group)
    group.device, group.group = device, Ring.group
    s = group.member(1)
    before = dropped()
    stranger.join(group.group)
    got = dropped() - before
    s.close()
    result(got == 2, title)


def early(title, stranger, device):
    """Is a packet of the predecessor refused before this rank has sent it one?"""
    Ring.group += 1
    group = Group.__new__(Group)
    group.device, group.group, token = None, Ring.group, 0
    enter("rar1")
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) as tap:
        tap.bind((device, 3))
        tap.settimeout(5)
        ranks = [group.member(r) for r in (0, 1)]
        while not token:        # of a JOIN of rank 0 that is accepted
            packet = tap.recv(70000)
            if len(packet) > 52 and packet[28:32] == bytes((VERSION, JOIN, 0, 0)):
                token = struct.unpack_from(">Q", packet, 44)[0]
    time.sleep(0.1)
    before = dropped()
    stranger.send(stranger.packet(group.group, ABORT, token, struct.pack(
        ">IIIIQII16x", errno.ECONNRESET, 6, 0, 2, 0, 0, 0)).frame())
    got = dropped() - before
    for s in ranks:
        s.close()
    result(got == 2, title)


def takes(title, stranger, device=None):
    """The same packet by the right device ends the group: the tests above can fail."""
    group = Group(device)
    ok = group.works()
    stranger.abort(group)
    ok = ok and group.failure(1)[0] == errno.ECONNRESET
    group.close()
    result(ok, title)


# ------------------------------------------------------------------ devices

def second_devices():
    for r in range(N):
        run(f"ip link add eth1 netns rar{r} type veth peer name q{r} netns rarbr")
        ip(r, "link set eth1 addrgenmode none up")
        run(f"ip -n rarbr link set q{r} addrgenmode none up")


def tun():
    """A tunnel by a process: packets go from one TUN device to the other in memory."""
    Tuns("tun", N)
    for r in range(N):
        ip(r, f"addr add 10.78.0.{r + 1}/24 dev tun0")
        ip(r, "link set tun0 up mtu 1400")


def macsec(encrypt):
    """Do all ranks have a device macsec0 over eth0?"""
    for r in range(N):
        peers = [mac(other, "eth0") for other in range(N) if other != r]
        if not tunnel.macsec(f"rar{r}", "eth0", "macsec0", peers, encrypt):
            return False
        ip(r, f"addr add 10.78.0.{r + 1}/24 dev macsec0")
    return True


def wireguard():
    """Do all ranks have a device wg0?"""
    if not tunnel.wireguard([f"rar{r}" for r in range(N)], plain_address, tunnel_address):
        return False
    for r in range(N):
        ip(r, f"addr add 10.78.0.{r + 1}/24 dev wg0")
    return True


def by_xdp():
    for r in range(N):
        enter(f"rar{r}")
        for device in ("eth0", "eth1"):
            run(f"ip -force link set {device} xdpdrv pinned {PIN}")
        enter("rarbr")
        run(f"ip -force link set q{r} xdpdrv pinned {PIN}")


# ------------------------------------------------------------------ the tests

def bound(wrong, right):
    for live.path in ("ingress", "udp", "xdp"):
        if live.path == "xdp":
            if not os.path.exists(PIN):
                continue
            by_xdp()
        refuses(f"bound to a device, {live.path}", wrong, "eth0")
    live.path = "ingress"
    joins("a JOIN, bound to a device", wrong, "eth0")
    takes("bound to this device", right, "eth0")
    takes("bound to no device", wrong)


def filtered(wrong):
    """The stack's own rule for devices."""
    path = "/proc/sys/net/ipv4/conf/eth1/rp_filter"
    enter("rar1")
    with open(path, "w") as f:
        f.write("1")
    refuses("bound to no device, rp_filter", wrong, counts=False)
    enter("rar1")
    with open(path, "w") as f:
        f.write("0")


def vrf(wrong):
    if not ip(1, "link add blue type vrf table 10", quiet=True):
        note("no VRF in this kernel")
        return
    ip(1, "link set blue up")
    ip(1, "link set eth1 master blue")
    refuses("from a VRF, bound to no device", wrong, counts=False)
    ip(1, "link set eth1 nomaster")


def shows(title, shown):
    """Can who reads the packets see the token of the group?"""
    group = Group()
    token, seen = struct.pack(">Q", group.epoch()), False
    ok = group.works()
    while True:
        try:
            seen |= token in group.tap.recv(70000)
        except BlockingIOError:
            break
    group.close()
    result(ok and seen == shown, title)


def through(name, device, right, shown):
    refuses(f"through {name}", right, chunks=False)
    joins(f"a JOIN, through {name}", right, "")
    early(f"while the group joins, through {name}", right, device)
    shows(f"the token {'is seen' if shown else 'is hidden'}, through {name}", shown)


def tunnels(right):
    live.address = tunnel_address
    run("modprobe -qa tun macsec wireguard")
    tun()
    through("a TUN device", "tun0", right, False)
    for r in range(N):
        ip(r, "link del tun0")
    for encrypt, name in (("off", "MACsec without encryption"), ("on", "MACsec")):
        if macsec(encrypt):
            through(name, "macsec0", right, encrypt == "off")
        else:
            note("no MACsec in this kernel")
        for r in range(N):
            ip(r, "link del macsec0", quiet=True)
    if wireguard():
        through("WireGuard", "wg0", right, False)
    else:
        note("no WireGuard in this kernel")


def main():
    second_devices()
    for r in range(N):
        enter(f"rar{r}")
        sysctl("local", 0)
        sysctl("dead_ms", 2000)
    wrong, right = Stranger("q1", "eth1"), Stranger("p1", "eth0")
    bound(wrong, right)
    filtered(wrong)
    vrf(wrong)
    tunnels(right)
    finish()


main()
