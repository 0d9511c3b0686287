#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A TCP flow; counts the bytes of it and of a ring's link that arrive in the same time.

tcp_flow.py send ADDRESS               until the receiver closes
tcp_flow.py receive WARM-UP SECONDS    "flow: tcp=BYTES ring=BYTES us=TIME", counted
                                       after the warm-up; ring: this namespace's
                                       RarRxBytes
            ... ring                   says "flow: connected", and the warm-up begins
                                       when the ring does
"""
import socket
import sys
import time

PORT = 5001
LIMIT_S = 60        # without news from the other side


def ring_bytes():
    with open("/proc/thread-self/net/rar_netstat", encoding="ascii") as f:
        names, values = f.readline().split(), f.readline().split()
    return int(values[names.index("RxBytes")])


def send(address):
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            s = socket.create_connection((address, PORT), LIMIT_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    data = bytes(1 << 16)
    try:
        while True:
            s.sendall(data)
    except (ConnectionResetError, BrokenPipeError):
        pass


def drain(s, buf, seconds):
    """Received bytes in at least so many seconds"""
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        got = s.recv_into(buf)
        if not got:
            sys.exit("the sender has closed")
        n += got
    return n


def await_ring(s, buf):
    print("flow: connected", flush=True)
    before, deadline = ring_bytes(), time.monotonic() + LIMIT_S
    while ring_bytes() == before:
        if time.monotonic() > deadline:
            sys.exit("the ring does not begin")
        drain(s, buf, 0.05)


def receive(warm_up, seconds, with_ring):
    with socket.create_server(("", PORT)) as listener:
        listener.settimeout(LIMIT_S)
        s, _ = listener.accept()
    s.settimeout(LIMIT_S)
    buf = bytearray(1 << 18)
    if with_ring:
        await_ring(s, buf)
    drain(s, buf, warm_up)
    ring, start = ring_bytes(), time.monotonic()
    tcp = drain(s, buf, seconds)
    ring, us = ring_bytes() - ring, (time.monotonic() - start) * 1e6
    print(f"flow: tcp={tcp} ring={ring} us={us:.0f}")


if sys.argv[1] == "send":
    send(sys.argv[2])
else:
    receive(float(sys.argv[2]), float(sys.argv[3]), "ring" in sys.argv[4:])
