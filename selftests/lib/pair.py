# SPDX-License-Identifier: GPL-2.0
"""Two ranks of one process, each in a namespace, and the addresses that a test gives them."""
import array
import errno
import select
import socket
import struct

from live import AF_RAR, RAR_JOIN, SOL_RAR, Ring, enter

COUNT = 100000
group = 0


def address(text):
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return family, socket.inet_pton(family, text)


def name(rank, text):
    """A rank's address; without a text, that of the route."""
    family, ip = address(text) if text else (0, b"")
    return struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, bytes(2), family, 0, 0, rank, 2, 0, group,
                       ip)


def member(rank, own, other, device):
    enter(f"rar{rank}")
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    s.setsockopt(SOL_RAR, RAR_JOIN, name(rank, own) + name(1 - rank, other))
    return s


def joined(s):
    Ring.poll(s, select.POLLOUT, 40)
    return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def add(ranks):
    """Do both get the sum?"""
    for i, s in enumerate(ranks):
        s.sendmsg([array.array("f", [i + 1]) * COUNT])
    for s in ranks:
        Ring.poll(s, select.POLLIN)
    want = (array.array("f", [3]) * COUNT).tobytes()
    return all(s.recv(4 * COUNT + 4) == want for s in ranks)


def pair(own, other, device=None, at=""):
    """Two ranks that have added, and None; or None, and why not. Rank 0, which is bound to a device, is at
    @own, or, without that, where the route begins: @at.
    """
    global group
    group += 1
    try:
        ranks = [member(0, own, other, device), member(1, other, own or at, None)]
    except OSError as e:
        return None, errno.errorcode[e.errno]
    err = [errno.errorcode.get(joined(s)) for s in ranks]
    if any(err):
        return None, " ".join(map(str, err))
    return (ranks, None) if add(ranks) else (None, "sum")


def close(ranks):
    for s in ranks:
        s.close()
