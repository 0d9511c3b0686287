#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The bench: plans the cases, runs them at their places, reports. See scripts/bench."""
import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import time
import xml.etree.ElementTree

import against
import box
import broadcast
import jobs
import models
import report
import targets
import wire
from contest import KIB, MIB, Case, Contest, Result, Side
from place import HOST, TOP, Broken, NotHere, Place, say

RAR = ("rar-in-place", "rar-out-of-place", "rar-registered", "rar-copy", "rar-blocking",
       "rar-auto", "rar-local", "rar-no-carriers", "rar-auth", "rar-encrypt")
LIBRARIES = targets.LIBRARIES
KERNELS = ("uml", "6.12", "6.1", "native")
ROUNDS = 5
SMOKE = {"rar-copy", "tcp-ring", "tcp-chain", "light"}
SPARE_MIB = 640             # what a guest needs beside the data
# With options of their own.
OWN = {"wire": wire.Wire, "broadcast": broadcast.Broadcast, "box": box.Box()}
WIRE_MINUTES = 22       # of 25: the last cells may need more than their share
TARGETS = targets.TARGETS | OWN

DESCRIPTION = """\
Runs AF_RAR and its competitors in turns, in the same boot, and says how they compare.

--wire: between hosts, the targets W1 to W4, in under 25 minutes. Without options: on one host,
the targets P1 to P9 and a sweep over sizes, in under 20 minutes. With --targets or --models:
only those. With any other choice: a sweep of that.
Guests are booted as by scripts/vm; nothing is loaded into this machine's kernel.
--against COMMIT: this tree's module and that of COMMIT, in turns in one boot.
--reductions [KERNEL [ROUNDS]], alone: the cost of each reduction of each type.
--instructions [KERNEL [ROUNDS]], alone: what short operations cost each rank, exactly.
--soak [KERNEL [OPS [RANKS [HOGS]]]], alone: what the longest of many operations waits for.
--wan [KERNEL [REPEATS]], alone: which share of a long link a ring uses.
--paths [KERNEL [SECONDS]], alone: CPU time per hop by the paths ingress, udp and xdp."""

EPILOG = """\
kernels: uml (one CPU, memory at native speed), 6.12 and 6.1 (emulated, two CPUs), native
(the ring in uml against TCP in namespaces of this machine's own kernel, on one CPU; root).

A round in which fixed memory work took 1.25 times as long as usual is discarded. Figures
are medians, ratios medians of the ratios of each round."""


@dataclasses.dataclass(frozen=True)
class Spot:
    """A place before it is opened"""
    kernel: str
    cpus: int
    on: str | None
    count: bool = False

    def open(self, mem):
        return Place(self.kernel, self.cpus, self.on, mem, self.count)


def spots():
    """The places for cases; one CPU is the same CPU in the guest and natively"""
    one = str(max(os.sched_getaffinity(0)))
    both = len(os.sched_getaffinity(0))
    return {"uml": Spot("uml", 1, one), "host": Spot(HOST, 1, one),
            "uml-smp": Spot("uml", 2, None), "host-smp": Spot(HOST, both, None),
            "6.12": Spot("6.12", 2, None), "6.1": Spot("6.1", 2, None),
            "counted": Spot("6.12", 1, None, count=True)}


# -------------------------------------------------------------------- arguments

def size(word):
    unit = {"k": KIB, "M": MIB, "G": 1 << 30}.get(word[-1], 1)
    return int(word.rstrip("kMG")) * unit


def list_of(parse):
    return lambda text: [parse(word) for word in text.split(",")]


def one_of(*names):
    def parse(word):
        if word not in names:
            raise argparse.ArgumentTypeError(f"{word}: one of {' '.join(names)}")
        return word
    return list_of(parse)


def parse(argv):
    p = argparse.ArgumentParser(prog="bench", description=DESCRIPTION, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("--wire", action="store_true", help="only packets pass between ranks, and the targets W1 "
        "to W4; with --forms, --n, --sizes, --mtu, --rounds, --smoke")
    add("--forms", type=one_of(*wire.FORMS), help="with --wire: " + ",".join(wire.FORMS))
    add("--full", action="store_true", help="more sizes, ranks and rounds, all models: hours")
    add("--smoke", action="store_true", help="is the bench itself sound? under a minute")
    add("--targets", type=one_of(*targets.TARGETS), help="P1,P2,...")
    add("--models", type=one_of("all", *models.MODELS), help="all, or some of "
        + ",".join(models.MODELS))
    add("--broadcast", action="store_true", help="broadcasts and the targets C1, C2; with "
        "--n, --sizes, --rounds, --kernel (uml, 6.12)")
    add("--box", action="store_true", help="an aggregation box and the targets B1 to B7; with "
        "--n, --sizes, --rounds")
    add("--jobs", type=list_of(int), help="with --box: only B1, with so many jobs: 4,8; --rounds: "
        "the seeds")
    add("--pools", type=list_of(int), help="with --box: only B1, with so many %% of memory: "
        "10,25,50,100")
    add("--against", metavar="COMMIT", help="what changed since: with --n, --sizes, --types, "
        "--mtu, --gso, --contestants, --rounds, --kernel (one of each but --n, --sizes)")
    add("--kernel", type=one_of(*KERNELS), help=",".join(KERNELS))
    add("--n", type=list_of(int), help="ranks: 2,4,8")
    add("--sizes", type=list_of(size), help="4k,1M,...")
    add("--types", type=one_of("f32", "i32"), help="f32,i32")
    add("--mtu", type=list_of(int), help="1500,9000")
    add("--gso", type=one_of("on", "off"), help="on,off: offloads of the devices")
    add("--contestants", type=list_of(str), help="rar-copy,tcp-ring,...")
    add("--rounds", type=int, help=f"good rounds of each case, {ROUNDS}")
    add("--minutes", type=float, help="fewer rounds if it would take longer (default run: 19)")
    add("--out", help="directory for table.txt, result.json, plot.svg")
    return p.parse_args(argv)


# -------------------------------------------------------------------- plan

def sides_of(kernel, wanted):
    tcp, everyone = targets.TCP, (*RAR, *targets.TCP, *LIBRARIES, "light", "light-nary")
    lineup = {
        "uml": targets.at("uml", *RAR, *tcp, *targets.LIGHTS),
        "native": targets.at("uml", *RAR) + targets.at("host", *tcp),
    }.get(kernel) or targets.at(kernel, *everyone)
    return tuple(s for s in lineup if not wanted or s.name in wanted)


def sweep(args):
    """Every combination of what was chosen"""
    sizes = args.sizes or [4 * KIB, 64 * KIB, MIB, 16 * MIB]
    chosen = itertools.product(args.kernel or ["uml"], args.n or [4], args.mtu or [1500],
                               args.gso or ["on"], args.types or ["f32"], sizes)
    return [Case(n, (s,), sides_of(kernel, args.contestants), kind, mtu, gso == "on", args.rounds)
            for kernel, n, mtu, gso, kind, s in chosen]


def steps(names, args):
    """A training step: the operations of all layers, one after the other"""
    names = models.MODELS if "all" in names else names
    return [Case(n, tuple(models.operations(name)), sides_of(kernel, args.contestants or
                                                            [*RAR, *targets.TCP]),
                 rounds=args.rounds, what=name)
            for name in names for kernel in args.kernel or ["uml"] for n in args.n or [4]]


def two_cpus(args):
    """This machine's own kernel, on all CPUs: only with --full"""
    return [Case(n, (s,), targets.at("uml-smp", *targets.RAR) + targets.at("host-smp", *targets.TCP),
                 rounds=args.rounds) for n in targets.RANKS for s in (MIB, targets.BIG)]


def full_sweeps(args):
    every = [4 ** i * KIB for i in range(9)]        # 1k .. 64M
    wide = argparse.Namespace(**vars(args) | {"sizes": every, "n": [2, 4, 8]})
    for change in ({"kernel": ["uml"]}, {"kernel": ["native"]},
                   {"kernel": ["uml"], "n": [4], "mtu": [9000]},
                   {"kernel": ["uml"], "n": [4], "gso": ["off"], "mtu": [1500, 9000]},
                   {"kernel": ["6.12", "6.1"], "n": [4], "types": ["i32", "f32"],
                    "sizes": every[1::2]}):
        yield from sweep(argparse.Namespace(**vars(wide) | change))
    yield from two_cpus(args)


def wires(args):
    """A choice; without one the run is as long as --wire promises"""
    if args.smoke:
        args.n, args.mtu, args.sizes, args.rounds = [2], [1500], [64 * KIB, MIB], 2
    chosen = [args.forms, args.mtu, args.n, args.sizes]
    if not any(chosen):
        args.minutes = args.minutes or WIRE_MINUTES
    return wire.Wire.cases(args.rounds or ROUNDS, *chosen)


def broadcasts(args):
    kernels, ranks, sizes = args.kernel or ["uml"], args.n, args.sizes
    return [c for c in broadcast.Broadcast.cases(args.rounds or ROUNDS)
            if c.places[0] in kernels and c.n in (ranks or [c.n]) and c.size in (sizes or [c.size])]


def boxes(args):
    ranks, sizes = args.n, args.sizes
    if args.jobs or args.pools:
        return [c for c in jobs.cases(args.rounds or ROUNDS)
                if c.jobs in (args.jobs or [c.jobs]) and c.pool in (args.pools or [c.pool])]
    return [c for c in box.Box.cases(args.rounds or ROUNDS)
            if c.n in (ranks or [c.n]) and c.size in (sizes or [c.size])
            and not (isinstance(c, jobs.JobsCase) and (ranks or sizes))]


def plan(args):
    """The cases, and the targets to judge"""
    if args.wire:
        return wires(args), ["wire"]
    if args.broadcast:
        return broadcasts(args), ["broadcast"]
    if args.box:
        return boxes(args), ["box"]
    chosen = [args.kernel, args.n, args.sizes, args.types, args.mtu, args.gso, args.contestants]
    names = args.targets or []
    if args.smoke:
        args.sizes, args.n, args.rounds = [4 * KIB, 64 * KIB, MIB], [2], 2
        return sweep(args), []
    args.rounds = args.rounds or (2 * ROUNDS if args.full else ROUNDS)
    if not args.targets and not args.models and not any(chosen):
        names = list(targets.TARGETS)
        args.minutes = args.minutes or (None if args.full else 19)
    cases = [c for name in names for c in targets.TARGETS[name].cases(args.rounds)]
    if args.models:
        cases += steps(args.models, args)
    elif any(chosen) and not names:
        cases += sweep(args)
    if names == list(targets.TARGETS):
        cases += list(full_sweeps(args)) if args.full else sweep(args)
    return list(dict.fromkeys(cases)), names


# -------------------------------------------------------------------- running

def memory_mib(case, place):
    """The memory of a case at a place: a buffer of every rank and contestant, and as much
    again inside the kernel or a library of the one that runs
    """
    names = [side.name for side in case.sides if side.place == place]
    if case.type == "bcast":        # ranks give large buffers back
        return 2 * case.n * (case.size // MIB + 2)
    buffers = sum(2 if name in ("rar-out-of-place", *LIBRARIES, *targets.SHARED) else 1
                  for name in names)
    return (buffers + bool(names)) * case.n * (max(case.ops) // MIB + 2)


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if "MemAvailable" in line) // 1024


def that_fit(cases):
    """The cases for which this machine has enough memory; and the others, without figures"""
    room, fit, others = available_mib() * 3 // 4 - SPARE_MIB, [], []
    for case in cases:
        need = sum(memory_mib(case, place) for place in case.places)
        if need <= room:
            fit.append(case)
            continue
        why = f"needs {need} MiB of memory, {room} are free for it"
        say(f"{case.title}: left out, {why}")
        others.append(without_figures(case, why))
    return fit, others


def without_figures(case, why):
    result = Result(case)
    result.missing = {side.label: why for side in case.sides}
    return result


@contextlib.contextmanager
def opened(names, cases, infos):
    """Open the places that cases need, and close them in the end; leave out those that fail"""
    places = {}
    try:
        for name in names:
            mem = SPARE_MIB + max(memory_mib(c, name) for c in cases if name in c.places)
            say(f"{name}: starting")
            places[name] = spots()[name].open(mem)
            infos[name] = places[name].info
            say(f"{name}: Linux {infos[name]['kernel']}, {infos[name]['cpus']} CPUs")
        yield places
    finally:
        for place in places.values():
            place.close()


class Run:
    """Run all cases, place by place; give verdicts as soon as possible"""

    def __init__(self, cases, names, minutes):
        self.cases, self.results = that_fit(cases)
        self.names = names
        self.seconds = minutes * 60 if minutes else math.inf
        self.verdicts, self.together = [], []
        self.infos, self.broken = {}, []
        self.start = time.monotonic()
        self.done = 0

    def allowance(self):
        """Seconds for the next case: one and a half times its share of the time left"""
        left = self.seconds - (time.monotonic() - self.start)
        return 1.5 * left / (len(self.cases) - self.done)

    def progress(self, text):
        say(f"[{time.monotonic() - self.start:4.0f} s, {self.done}/{len(self.cases)}] {text}")

    def prepare(self):
        kernels = {spots()[p].kernel for c in self.cases for p in c.places} - {HOST}
        subprocess.run(["scripts/bench", "--build", *sorted(kernels)], cwd=TOP, check=True)

    def groups(self):
        """Cases by the places that are open together: a guest, and this machine"""
        found = {}
        for case in self.cases:
            guest = next(p for p in case.places if not p.startswith(HOST))
            found.setdefault(guest, []).append(case)
        return [(sorted({p for c in cases for p in c.places}),
                 sorted(cases, key=lambda c: (c.topology, "host" in c.places, c.size)))
                for cases in found.values()]

    def everything(self):
        self.prepare()
        for names, cases in self.groups():
            try:
                with opened(names, cases, self.infos) as places:
                    self.at_places(places, cases)
            except (Broken, NotHere) as e:
                self.broken.append(str(e))
                say(str(e))
                self.lost(cases, str(e))
        self.judge_together()

    def lost(self, cases, why):
        """Cases that were to come when their place broke"""
        had = {result.case for result in self.results}
        self.results += [without_figures(c, why) for c in cases if c not in had]

    def at_places(self, places, cases):
        kind = jobs.Sharing if self.names == ["box"] else Contest
        contest = kind(places, self.progress, 60 if "uml" in places else 150)
        for case in cases:
            result = contest.measure(case, self.allowance())
            self.done += 1
            self.results.append(result)
            self.tell(self.judged(result))
        if "P8" in self.names and "uml" in places:
            self.together.append(self.memory(contest))
            self.tell(self.together)

    def judged(self, result):
        """The verdicts on one result. They may change until the end: which times of the marker
        are usual, and so which rounds were quiet, is known better the longer it runs.
        """
        case = result.case
        return [verdict for name in self.names
                if name != "P8" and (name in OWN or case in TARGETS[name].cases(case.rounds))
                for verdict in TARGETS[name].verdicts(result)]

    def tell(self, verdicts):
        for verdict in verdicts:
            self.progress(str(verdict))

    @staticmethod
    def memory(contest):
        side = Side("uml", "rar-in-place")
        try:
            kib = [contest.memory(side, Case(4, (s,), (side,))) for s in targets.MEMORY_SIZES]
        except (Broken, NotHere) as e:
            return targets.P8.memory(None, str(e))
        return targets.P8.memory(kib, None)

    def judge_together(self):
        wanted = set(targets.P8.cases(1)) if "P8" in self.names else set()
        flat = [r for r in self.results if dataclasses.replace(r.case, rounds=1) in wanted]
        if flat:
            self.together.append(targets.P8.together(flat))
        self.verdicts = [v for r in self.results for v in self.judged(r)] + self.together


# -------------------------------------------------------------------- before and after

def compare(args):
    """Compare this tree's module with that of a commit"""
    kernel = (args.kernel or ["uml"])[0]
    spot = spots()[kernel]
    ranks, sizes = args.n or against.RANKS, args.sizes or against.SIZES
    built = subprocess.run(["scripts/bench", "--build-against", args.against, spot.kernel],
                           cwd=TOP, check=True, stdout=subprocess.PIPE, text=True)
    modules = dict(zip(against.BUILDS, built.stdout.split()))
    place = spot.open(SPARE_MIB + max(ranks) * 2 * (max(sizes) // MIB + 2))
    try:
        turns = against.Turns(place, modules, args, say)
        turns.compare(ranks)
    finally:
        place.close()
    out = args.out or os.path.join(TOP, "build/bench/against")
    print(against.write(out, {"before": args.against, "kernel": spot.kernel}, turns), end="")
    print(f"bench: {out}: table.txt, result.json")
    return bool(turns.missing)


# -------------------------------------------------------------------- smoke

def sound(out, cases, need):
    """Check the results that a smoke run must have left: the contestants of each case"""
    with open(f"{out}/result.json", encoding="utf-8") as f:
        data = json.load(f)
    xml.etree.ElementTree.parse(f"{out}/plot.svg")
    have = [set(result["ns"]) for result in data["results"]]
    return len(have) == len(cases) > 0 and all(need <= labels for labels in have)


def main():
    args = parse(sys.argv[1:])
    if args.against:
        return compare(args)
    cases, names = plan(args)
    run = Run(cases, names, args.minutes)
    run.everything()
    out = args.out or os.path.join(TOP, "build/bench", "smoke" if args.smoke else "last")
    text, files = report.write(out, run.results, run.verdicts, run.infos)
    print(text)
    for verdict in sorted(run.verdicts, key=lambda v: v.target):
        print(verdict)
    print(f"bench: {out}: {', '.join(files)}")
    if args.smoke:
        good = sound(out, cases, {*wire.MODES, *wire.PEERS} if args.wire else SMOKE)
        if args.wire:
            good = good and not any(map(wire.Wire.handed_over, run.results))
        print("smoke: ok" if good else "smoke: FAILED")
        return not good
    return bool(run.broken)


if __name__ == "__main__":
    sys.exit(main())
