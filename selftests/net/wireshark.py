#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tcpdump captures rings, and tshark reads the captures with tools/wireshark/rar.lua; rar_unseal
opens those of rings whose elements are encrypted.

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. One ring ends well and
one is aborted. All packets must be recognised, none as malformed, and all that were cut into
pieces by the device must be shown piece by piece.
"""
import collections
import importlib.util
import itertools
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
import live             # noqa: E402
from dissector import LUA, tshark, unseal           # noqa: E402
from live import KEY, RAR_KEY, RAR_SECURITY, Data, Ring, note    # noqa: E402
from rarpkt import (ABORT, ACK, AG, COLLECT, COMMIT, FIN, FIN_ACK, JOIN, JOIN_ACK, PROPOSE, RS,
                    SOL_RAR, enter)                 # noqa: E402
from tap import finish, result, skip_all            # noqa: E402

RAR_ABORT = 6
FIELDS = ("ipv6.version", "rar.type", "rar.chunks", "rar.malformed", "rar.failure",
          "rar.seal.tag", "rar.seal.verdict", "rar.data", "_ws.lua.error")
ENCRYPTED = ((RAR_KEY, KEY), (RAR_SECURITY, struct.pack("=I", 2)))


def run_rings():
    """By IPv4 and IPv6, without seals and with them, a ring whose members close, and a ring that
    a member aborts."""
    good = True
    for live.V6, abort, sealed in itertools.product((False, True), repeat=3):
        Ring.options = live.SEALED if sealed else ()
        ring = Ring()
        for count in (1, 2060, 100000):
            good &= ring.allreduce(Data(count))
        if abort:
            ring.fd[0].setsockopt(SOL_RAR, RAR_ABORT, struct.pack("=I", 0))
            note(f"rank 2 fails with {ring.failure(2)}")
        ring.close()
    return good


def capture(file, job):
    """Return what @job returns, with rank 1's packets in @file."""
    enter("rar1")
    dump = subprocess.Popen(["tcpdump", "-Z", "root", "-p", "-n", "-U", "-B", "32768",
                             "--immediate-mode", "-i", "eth0", "-w", file,
                             "udp", "port", "18118"], stderr=subprocess.PIPE, text=True)
    dump.stderr.readline()              # "listening on ..."
    out = job()
    time.sleep(2)                       # it drops what it has not read when the signal comes
    dump.send_signal(signal.SIGINT)
    note(dump.communicate()[1])
    return out


def read(file):
    """Return the rows of FIELDS that tshark shows, and its complaints."""
    args = [part for field in FIELDS for part in ("-e", field)]
    said, complaints, _ = tshark("-n", "-T", "fields", *args, capture=file)
    note("\n".join(complaints))
    rows = [dict(zip(FIELDS, line.split("\t"))) for line in said.splitlines()]
    return rows, complaints


def check_packets(rows, version):
    """All packets of an IP version are recognised, and all types are there."""
    types = collections.Counter(int(kind) for row in rows
                                for kind in row["rar.type"].split(",") if kind)
    chunks = collections.Counter(int(row["rar.chunks"] or "1") for row in rows)
    note(f"{version}: {len(rows)} packets, types {dict(types)}, chunks {dict(chunks)}")
    result(rows and all(row["rar.type"] for row in rows), f"{version}: each is recognised")
    result(not any(row["rar.malformed"] for row in rows), f"{version}: none is malformed")
    result({RS, AG, ACK, JOIN, JOIN_ACK, COLLECT, PROPOSE, COMMIT, ABORT, FIN,
            FIN_ACK} <= types.keys(), f"{version}: the types of a ring's life")
    for sealed in (False, True):
        result(any(int(row["rar.chunks"] or "1") > 1 for row in rows
                   if bool(row["rar.seal.tag"]) == sealed),
               f"{version}: superpackets, {'with' if sealed else 'without'} seals")
    failures = {row["rar.type"] for row in rows if row["rar.failure"]}
    result(failures == {str(ABORT)}, f"{version}: the abort is marked as a failure")


def run_encrypted():
    """By IPv4 and IPv6, a ring that encrypts. Returns the operations that were right."""
    Ring.options, done = ENCRYPTED, []
    for live.V6 in (False, True):
        ring = Ring()
        done += [data for data in (Data(1), Data(2060), Data(100000)) if ring.allreduce(data)]
        ring.close()
    return done


def with_flipped_bit(capture):
    """Return the bytes of a capture, with another bit in the last RS by IPv4."""
    at, last, out = 24, None, bytearray(capture)
    while at < len(out):
        frame, size = at + 16, struct.unpack_from("=I", out, at + 8)[0]
        if out[frame + 12:frame + 14] == b"\x08\x00" and out[frame + 43] == RS:
            last = frame + size - 1
        at = frame + size
    out[last] ^= 1
    return out


def numbers(said):
    """Return the sums over all groups of what rar_unseal counted: opened, not authentic, without
    join, cut."""
    rows = [re.findall(r"(\d+) [a-z]", line.split(":")[1]) for line in said.splitlines()]
    return [sum(map(int, column)) for column in zip(*rows)]


def check_opened(folder):
    """Elements that were encrypted are shown if one has the key."""
    file, key, wrong, flipped = (f"{folder}/{name}" for name in ("pcap", "key", "wrong", "flipped"))
    done = capture(file, run_encrypted)
    result(len(done) == 6, "encrypted: the sums are right")
    for path, content in ((key, KEY), (wrong, KEY[::-1])):
        pathlib.Path(path).write_bytes(content)
    pathlib.Path(flipped).write_bytes(with_flipped_bit(pathlib.Path(file).read_bytes()))
    # what rank 0 contributes to the first block, and the sum
    plain = [part[:1024].hex() for data in done if data.count > 1000
             for part in (data.x[0].tobytes(), data.sum)]
    seen = "".join(row["rar.data"] for row in read(file)[0])
    result(not any(part in seen for part in plain), "encrypted: no elements in the capture")
    status, said = unseal(key, file, f"{file}.opened")
    note(said)
    rows, complaints = read(f"{file}.opened")
    seen = ",".join(row["rar.data"] for row in rows)
    packets, *others = numbers(said)
    result(status == 0 and packets > 100 and others == [0, 0, 0], "encrypted: all are opened")
    result(all(part in seen for part in plain), "encrypted: the elements are shown")
    result(rows and not complaints and not any(row["rar.malformed"] for row in rows) and
           {row["rar.seal.verdict"] for row in rows} >= {"opened"},
           "encrypted: the dissector knows what was opened")
    status, said = unseal(wrong, file, f"{file}.wrong")
    note(said)
    result(status == 0 and numbers(said) == [0, packets, 0, 0], "encrypted: another key opens none")
    status, said = unseal(key, flipped, f"{file}.flipped")
    note(said)
    result(status == 0 and numbers(said) == [packets - 1, 1, 0, 0],
           "encrypted: a bit that changed is noticed")


def main():
    """Capture, read and compare."""
    for program in ("tcpdump", "tshark"):
        if not shutil.which(program):
            skip_all(f"no {program}")
    if not LUA.exists():
        skip_all(f"there is no {LUA} here")
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/ring.pcap"
        result(capture(file, run_rings), "the sums are right")
        rows, complaints = read(file)
        if importlib.util.find_spec("cryptography"):
            check_opened(folder)
        else:
            note("no python3-cryptography")
    result(rows and not complaints and not any(row["_ws.lua.error"] for row in rows),
           "the dissector does not fail")
    check_packets([row for row in rows if not row["ipv6.version"]], "IPv4")
    check_packets([row for row in rows if row["ipv6.version"]], "IPv6")
    finish()


main()
