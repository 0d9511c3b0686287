#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Packets come while the kernel itself holds the FPU.

Processes keep a CPU in the vector code of the crypto layer (AF_ALG sockets). A ring
runs on the same CPU. Its packets are delayed, so a timer interrupt delivers them in the
middle of an FPU section. The chunks must then be added without the FPU and with the same
bits, and neither side may spoil the other's registers.
"""
import errno
import hashlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from rarpkt import libc, tables
from tap import finish, note, result, skip_all

CPU = 0
SECONDS = 60                    # time to meet a busy FPU often enough
ENOUGH = 5
HASH, CIPHER = "sha256", "xts(aes)"
MODULES = "sha256_ssse3", "aesni_intel"     # not loaded by themselves
DATA = bytes(range(256)) * 128
VECTOR = re.compile(r"avx|sse|aesni|pclmul|simd|ni$")
CLONE_NEWNET = 0x40000000


# ------------------------------------------------------------------ the kernel's FPU

def algorithm(kind, name):
    s = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    s.bind((kind, name))
    return s


def driver(name):
    """The driver that serves an algorithm: the one with the highest priority."""
    found = []
    with open("/proc/crypto") as f:
        for entry in f.read().split("\n\n"):
            e = dict(re.findall(r"^(\w+)\s*: (.*)$", entry, re.M))
            if e.get("name") == name and e.get("internal") != "yes":
                found.append((int(e["priority"]), e["driver"]))
    return max(found)[1] if found else "none"


def digest(alg):
    op, _ = alg.accept()
    with op:
        op.sendall(DATA)
        return op.recv(64)


def cipher(alg, op, data):
    fd, _ = alg.accept()
    with fd:
        fd.sendmsg_afalg([data], op=op, iv=bytes(16))
        return fd.recv(len(data))


def hog_hash():
    want = hashlib.sha256(DATA).digest()
    with algorithm("hash", HASH) as alg:
        while digest(alg) == want:
            pass


def hog_cipher():
    with algorithm("skcipher", CIPHER) as alg:
        alg.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, bytes(range(64)))
        want = cipher(alg, socket.ALG_OP_ENCRYPT, DATA)
        while cipher(alg, socket.ALG_OP_ENCRYPT, DATA) == want and \
                cipher(alg, socket.ALG_OP_DECRYPT, want) == DATA:
            pass


def start(hog):
    """A process that ends only when a result was wrong, or when it is killed."""
    pid = os.fork()
    if not pid:
        try:
            hog()
        finally:
            os._exit(1)
    return pid


def stop(pid):
    """Kill a hog. Was it still running, without an error?"""
    if os.waitpid(pid, os.WNOHANG)[0]:
        return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


# ------------------------------------------------------------------ the ring

def counters():
    c = tables("rar_netstat")
    return c["RarReduceSimd"], c["RarReduceScalar"]


def ring():
    out = subprocess.run(["ring", "-n", "3", "-m", "same", "-a", "lo4", "-t", "all",
                          "-c", "1000,20k", "-r", "5", "-T", "100"],
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if out.returncode:
        note(out.stdout)
    return not out.returncode


def test_busy():
    before, end, runs, ok = counters(), time.monotonic() + SECONDS, 0, True
    while ok and (not runs or (counters()[1] - before[1] < ENOUGH and
                               time.monotonic() < end)):
        ok, runs = ring(), runs + 1
    simd, scalar = (b - a for a, b in zip(before, counters()))
    note(f"{runs} runs, chunks added with the FPU {simd}, without {scalar}")
    result(ok, "the sums are right")
    result(scalar > 0, "packets came while the FPU was busy")
    result(simd > 0, "packets came while the FPU was free")


def main():
    os.sched_setaffinity(0, {CPU})
    subprocess.run(["modprobe", "-qa", *MODULES], check=False)
    if libc.unshare(CLONE_NEWNET):
        skip_all("no network namespaces")
    subprocess.run("ip link set lo up && tc qdisc add dev lo root netem delay 300us && "
                   "echo 0 > /proc/sys/net/rar/local",
                   shell=True, check=True)
    with open("/proc/net/rar_reduce") as f:
        if not re.search(r"^avx\S+ yes yes", f.read(), re.M):
            skip_all("sums are made without the FPU here")
    try:
        algorithm("hash", HASH).close()
        algorithm("skcipher", CIPHER).close()
    except OSError as e:
        skip_all(f"no AF_ALG: {errno.errorcode[e.errno]}")
    drivers = driver(HASH), driver(CIPHER)
    note("the FPU is kept busy by " + " and ".join(drivers))
    if not any(VECTOR.search(d) for d in drivers):
        skip_all("the crypto layer does not use the FPU here")
    hogs = [start(hog_hash), start(hog_cipher)]
    test_busy()
    result(all([stop(pid) for pid in hogs]), "hashes and ciphers are right")
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
