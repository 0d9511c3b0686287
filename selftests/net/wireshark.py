#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tcpdump captures rings, and tshark reads the captures with tools/wireshark/rar.lua.

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. One ring ends well and
one is aborted. All packets must be recognised, none as malformed, and all that were cut into
pieces by the device must be shown piece by piece.
"""
import collections
import itertools
import pathlib
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
from dissector import LUA, tshark                   # noqa: E402
from live import Data, Ring, note                   # noqa: E402
from rarpkt import (ABORT, ACK, AG, COLLECT, COMMIT, FIN, FIN_ACK, JOIN, JOIN_ACK, PROPOSE, RS,
                    SOL_RAR, enter)                 # noqa: E402
from tap import finish, result, skip_all            # noqa: E402

RAR_ABORT = 6
FIELDS = ("ipv6.version", "rar.type", "rar.chunks", "rar.malformed", "rar.failure",
          "rar.seal.tag", "_ws.lua.error")


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
    result(rows and not complaints and not any(row["_ws.lua.error"] for row in rows),
           "the dissector does not fail")
    check_packets([row for row in rows if not row["ipv6.version"]], "IPv4")
    check_packets([row for row in rows if row["ipv6.version"]], "IPv6")
    finish()


main()
