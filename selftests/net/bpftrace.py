#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The scripts of tools/bpftrace find the slow link and the late rank of a ring that runs.

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from live import N, Data, Ring, note                    # noqa: E402
from rarpkt import enter                                # noqa: E402
from tap import finish, result, skip_all                # noqa: E402

SCRIPTS = TOP / "tools/bpftrace"
OPS = 8
DELAY_MS = 200      # much longer than an emulated machine needs for a hop
LATE_S = 0.3


class Script:
    """A script of tools/bpftrace that runs."""

    def __init__(self, name, *args):
        self.run = subprocess.Popen(["bpftrace", "-f", "json", SCRIPTS / name, *args], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = []
        while not any("Ctrl-C" in line for line in self.said):
            line = self.run.stdout.readline()
            if not line:
                break
            self.said.append(line)

    def end(self):
        """Return its maps by name."""
        self.run.send_signal(signal.SIGINT)
        text, _ = self.run.communicate(timeout=60)
        maps = {}
        for line in self.said + text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                note(line.rstrip())
                continue
            if row["type"] in ("map", "hist"):
                maps.update(row["data"])
        for name, values in maps.items():
            note(f"{name} {values}")
        return maps


def count(values):
    """Return how many values a histogram holds."""
    return sum(bucket["count"] for bucket in values)


def share_above(values, limit_us):
    """Return which share of a histogram's values lies in buckets that end above a limit."""
    return sum(b["count"] for b in values if b["max"] > limit_us) / count(values)


def delay(rank, what):
    """Delay what a rank receives, or end that."""
    enter("rarbr")
    subprocess.run(["tc", "qdisc", what, "dev", f"p{rank}", "root"] +
                   (["netem", "delay", f"{DELAY_MS}ms"] if what == "add" else []), check=True)


def check_hops(ring):
    """Chunks to rank 1 take long; chunks to the others do not."""
    delay(1, "add")
    script = Script("rar_hops.bt")
    ok = all([ring.allreduce(Data(2060)) for _ in range(OPS)])
    maps = script.end()
    delay(1, "del")
    hops = maps.get("@hop_us", {})
    result(ok and len(hops) == N and all(count(values) >= OPS for values in hops.values()),
           "rar_hops.bt: hops to each rank")
    result(len(hops) == N and share_above(hops["1"], DELAY_MS * 1000) > 0.9 and
           share_above(hops["2"], DELAY_MS * 1000) < 0.1 and
           share_above(hops["0"], DELAY_MS * 1000) < 0.1, "rar_hops.bt: the slow link")
    stays = maps.get("@stay_us", {})
    result(len(stays) == N and not {"@came", "@left"} & maps.keys(),
           "rar_hops.bt: chunks stay at each rank")


def check_late(ring):
    """Rank 2 posts late."""
    script = Script("rar_late.bt", str(ring.group))
    other = Script("rar_late.bt", str(ring.group + 1))
    ok = True
    for _ in range(OPS):
        data = Data(2060)
        ring.post(0, data)
        ring.post(1, data)
        time.sleep(LATE_S)
        ring.post(2, data)
        ok &= all([ring.collect(rank, data) for rank in range(N)])
    maps, others = script.end(), other.end()
    late, ops = maps.get("@late_us", {}), maps.get("@op_us", {})
    limit = LATE_S * 1000000
    result(ok and len(late) == N and all(count(values) == OPS for values in late.values()),
           "rar_late.bt: each rank begins each operation once")
    result(len(late) == N and share_above(late["2"], limit * 0.9) == 1 and
           share_above(late["0"], limit) < 0.5 and share_above(late["1"], limit) < 0.5 and
           int(maps["@most_late_us"]["2"]) >= limit * 0.9, "rar_late.bt: the late rank")
    result(len(ops) == N and all(count(values) == OPS for values in ops.values()),
           "rar_late.bt: each rank completes each operation once")
    result(not others, "rar_late.bt: of a group that is not there, nothing")


def main():
    if not SCRIPTS.exists():
        skip_all(f"there is no {SCRIPTS} here")
    if not shutil.which("bpftrace"):
        skip_all("no bpftrace")
    ring = Ring()
    result(ring.allreduce(Data(2060)), "the sums are right")
    check_hops(ring)
    check_late(ring)
    ring.close()
    finish()


main()
