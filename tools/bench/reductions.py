#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What each reduction of each type costs: ns per byte of the kernel alone, and of a whole
hop. Judges the targets R1 and R2; see Documentation/bench.rst.

reductions.py KERNEL [ROUNDS]: boots a guest, prints the tables and the verdicts.
"""
import os
import statistics
import subprocess
import sys

from contest import MARKER_LIMIT, MIB
from place import TOP
from targets import NOISY, Verdict

N, BYTES, ROUNDS = 4, 4 * MIB, 9
TYPES = ("F32", "F64", "F16", "BF16", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")
REDOPS = ("SUM", "PROD", "MIN", "MAX", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "AVG")
WIDE = ("F32", "F64", "I32", "U32", "I64", "U64")      # types of 4 and 8 bytes
LIMIT, LIMIT_PROD_64, LIMIT_BF16 = 1.25, 2.0, 1.5      # times the sum


class Rounds:
    """Samples of each (reduction, type) by round: ns of an operation, ns of its base in the
    same moment, and the marker"""

    def __init__(self):
        self.samples = {}

    def add(self, redop, dtype, rnd, marker, ns, base_ns):
        self.samples.setdefault((redop, dtype), []).append((int(ns), int(base_ns), int(marker)))

    def quiet(self, pair):
        """The samples that no other program disturbed"""
        markers = sorted(marker for samples in self.samples.values() for *_, marker in samples)
        usual = markers[len(markers) // 4]
        return [s for s in self.samples[pair] if s[2] <= MARKER_LIMIT * usual]

    def hop(self, pair):
        """ns per byte of a hop: the median; of all rounds, if none was quiet"""
        samples = self.quiet(pair) or self.samples[pair]
        return statistics.median(ns for ns, *_ in samples) / (2 * (N - 1) * BYTES)

    def ratio(self, pair):
        """The median of base / pair in the quiet rounds, and whether there are enough of them"""
        samples = self.quiet(pair)
        ratios = [base / ns for ns, base, _ in samples or self.samples[pair]]
        return statistics.median(ratios), 2 * len(samples) > len(self.samples[pair])


def measure(kernel, rounds):
    """The figures of a guest: Rounds, and MB/s of the kernels in use"""
    on = str(max(os.sched_getaffinity(0)))
    command = ["scripts/vm", "--kernel", kernel, "--module", "--mem", "1024", "--timeout", "1800",
               "--on", on, "--cpus", "1", "--", "sh", "-c",
               "modprobe rar && cat /proc/net/rar_reduce && selftests/lib/in_topo.sh"
               f" {N} {TOP}/build/bench/bin/reductions {N} {BYTES} {rounds}"]
    out = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout
    found, mbps, column = Rounds(), {}, {}
    for line in out.splitlines():
        words = line.split()
        if words[:1] == ["hop"]:
            found.add(*words[1:])
        elif words[:2] == ["redop", "dtype"]:
            column = {name: i for i, name in enumerate(words)}
        elif len(words) >= 3 and words[2] == "yes":
            mbps["set"] = words[0]
        elif words and words[0] in REDOPS:
            speed = words[column[mbps["set"]]]
            mbps[words[0], words[1]] = 0 if speed == "-" else int(speed)
    return found, mbps


def table(title, value):
    """A line for each type, a column for each reduction"""
    lines = [[title, *REDOPS]] + [[t, *(value(r, t) for r in REDOPS)] for t in TYPES]
    return "\n".join("  ".join(f"{w:>6}" if i else f"{w:<16}" for i, w in enumerate(line))
                     for line in lines)


def kernel_ns(mbps, redop, dtype):
    """For an average, the sum and the division"""
    if not mbps.get((redop, dtype)):
        return None
    ns = 1000 / mbps[redop, dtype]
    return ns + (1000 / mbps["SUM", dtype] if redop == "AVG" else 0)


def cell(value):
    return "-" if value is None else f"{value:.3f}"


def verdict(name, found, pair, base_type, limit):
    """ratio: time of the sum of @base_type / time of the pair"""
    where = f"N={N} size={BYTES // MIB}MiB type={pair[1]} redop={pair[0]} to={base_type}-SUM"
    if pair not in found.samples:
        return Verdict(name, where, None, 1 / limit, "(no figures)")
    ratio, quiet = found.ratio(pair)
    return Verdict(name, where, ratio, 1 / limit, "" if quiet else NOISY)


def verdicts(found):
    for dtype in WIDE:
        for redop in REDOPS[1:]:
            if (redop, dtype) not in found.samples:
                continue
            wide_product = redop == "PROD" and dtype[1:] == "64"
            yield verdict("R1", found, (redop, dtype), dtype,
                          LIMIT_PROD_64 if wide_product else LIMIT)
    yield verdict("R2", found, ("SUM", "BF16"), "F32", LIMIT_BF16)


def text_bytes(module):
    """Code of a module, in all sections that "size" counts as text"""
    out = subprocess.run(["size", module], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(out.splitlines()[1].split()[0])


def main():
    kernel, rounds = sys.argv[1], int((sys.argv[2:] or [ROUNDS])[0])
    found, mbps = measure(kernel, rounds)
    print(f"# {kernel}, kernels {mbps['set']}; whole hop: N={N}, {BYTES // MIB} MiB, in place,"
          f" {rounds} rounds")
    print(table("kernel ns/byte", lambda r, t: cell(kernel_ns(mbps, r, t))))
    print()
    print(table("hop ns/byte", lambda r, t:
                cell(found.hop((r, t)) if (r, t) in found.samples else None)))
    print()
    for line in verdicts(found):
        print(line)
    print(f"text of rar.ko: {text_bytes(f'{TOP}/build/{kernel}/rar.ko')} bytes")


main()
