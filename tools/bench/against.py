# SPDX-License-Identifier: GPL-2.0
"""Two builds of the module in turns, in one boot: what a change costs, or gains.

A round is a turn of each build: the build is loaded, and each mode does operations of each
size. The CPU time of the guest's process is compared; it includes little of what
other programs on the machine do. The time on the clock is shown beside it.
"""
import dataclasses
import json
import os
import statistics

from contest import KIB, MIB, size_name
from place import Broken, NotHere

MODES = ("rar-registered", "rar-no-carriers", "rar-in-place")
SIZES = (64 * MIB, MIB, 4 * KIB)
RANKS = (2, 4)
ROUNDS = 7
SAMPLES = 5             # of a size in a turn; the least counts
SAMPLE_NS = 30e6        # a sample of small operations shall take so long
MAX_TIMES = 2000        # operations in a sample: sums of integers wrap, and stay right
LIMIT_S = 60
BUILDS = ("before", "after")
HEADER = ("N", "size", "mode", "us before", "us after", "clock", "cpu us before",
          "cpu us after", "cpu", "quartiles", "rounds")


@dataclasses.dataclass(frozen=True)
class Cell:
    """The values in which two builds are compared"""
    n: int
    size: int
    mode: str


@dataclasses.dataclass
class Sample:
    """Nanoseconds of an operation: on the clock, and CPU time of the guest"""
    wall: float
    cpu: float


def least(samples):
    return Sample(min(s.wall for s in samples), min(s.cpu for s in samples))


class Compared:
    """The rounds of a cell: a Sample of each build"""

    def __init__(self):
        self.rounds = []

    def ratio(self, what):
        """after / before: the median of the ratios of each round, and its quartiles"""
        ratios = sorted(getattr(r["after"], what) / getattr(r["before"], what)
                        for r in self.rounds)
        last = len(ratios) - 1
        return statistics.median(ratios), ratios[last // 4], ratios[last - last // 4]

    def us(self, build, what):
        return statistics.median(getattr(r[build], what) for r in self.rounds) / 1000


class Turns:
    """Gives both builds their turns at a place; modules: paths by build"""

    def __init__(self, place, modules, args, progress):
        self.place, self.modules, self.progress = place, modules, progress
        self.modes, self.sizes = args.contestants or MODES, args.sizes or SIZES
        self.kind, self.mtu, self.gso = (args.types or ["i32"])[0], args.mtu, args.gso
        self.rounds = args.rounds or ROUNDS
        self.cells, self.times, self.missing = {}, {}, {}

    def sample(self, cell, times):
        job = {"type": self.kind, "times": times, "limit": LIMIT_S, "knobs": [0],
               "bytes": [cell.size]}
        cpu = self.place.cpu_ns()
        wall = self.place.run(cell.mode, job)["ns"]
        return Sample(wall / times, (self.place.cpu_ns() - cpu) / times)

    def times_for(self, cell):
        """Set what is equal in all turns"""
        if cell not in self.times:
            self.sample(cell, 1)
            most = MAX_TIMES if self.kind == "i32" else 16
            wanted = SAMPLE_NS / self.sample(cell, 1).wall
            self.times[cell] = max(1, min(most, round(wanted)))
        return self.times[cell]

    def turn(self, build, n):
        """{cell: Sample}"""
        self.place.load(self.modules[build])
        self.place.topology(n, (self.mtu or [1500])[0], (self.gso or ["on"])[0] == "on")
        found = {}
        for mode in self.modes:
            why = self.place.start(mode)
            if why:
                self.missing[n, mode] = f"{build}: {why}"
                continue
            for size in self.sizes:
                cell = Cell(n, size, mode)
                times = self.times_for(cell)
                self.sample(cell, 1)
                found[cell] = least([self.sample(cell, times) for _ in range(SAMPLES)])
            self.place.stop(mode)
        return found

    def one_round(self, n, number):
        """Change the build that begins, from round to round"""
        found = {build: self.turn(build, n)
                 for build in (BUILDS if number % 2 else reversed(BUILDS))}
        for cell in found["before"].keys() & found["after"].keys():
            self.cells.setdefault(cell, Compared()).rounds.append(
                {build: found[build][cell] for build in BUILDS})

    def compare(self, ranks):
        for n in ranks:
            for number in range(self.rounds):
                try:
                    self.one_round(n, number)
                except NotHere as e:
                    raise Broken(str(e)) from None
                self.progress(f"N={n}: round {number + 1} of {self.rounds}")


def rows(cells):
    for cell, got in sorted(cells.items(), key=lambda c: (c[0].n, c[0].mode, -c[0].size)):
        cpu, low, high = got.ratio("cpu")
        yield (str(cell.n), size_name(cell.size), cell.mode,
               *(f"{got.us(b, 'wall'):.1f}" for b in BUILDS), f"{got.ratio('wall')[0]:.3f}",
               *(f"{got.us(b, 'cpu'):.1f}" for b in BUILDS), f"{cpu:.3f}",
               f"{low:.3f}-{high:.3f}", str(len(got.rounds)))


def table(cells):
    lines = [HEADER, *rows(cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    return "".join("  ".join(cell.rjust(widths[i]) for i, cell in enumerate(line)) + "\n"
                   for line in lines)


def write(directory, commits, turns):
    """Write table.txt and result.json with all rounds; return the table"""
    os.makedirs(directory, exist_ok=True)
    text = table(turns.cells) + "".join(
        f"N={n} {mode}: {why}\n" for (n, mode), why in turns.missing.items())
    with open(f"{directory}/table.txt", "w", encoding="utf-8") as f:
        f.write(text)
    with open(f"{directory}/result.json", "w", encoding="utf-8") as f:
        json.dump({"commits": commits, "cells": [
            dataclasses.asdict(cell) | {"times": turns.times[cell], "rounds": [
                {b: dataclasses.asdict(r[b]) for b in BUILDS} for r in got.rounds]}
            for cell, got in turns.cells.items()]}, f, indent=1)
        f.write("\n")
    return text
