# SPDX-License-Identifier: GPL-2.0
"""The targets P1 to P9, on one host: which cases show them, and what the figures say.

A verdict is one line: "P2 N=4 size=1MiB ratio=2.31 need=2.50 FAIL", and behind it what
one should know. ratio is always "higher is better". All sides of a ratio are in one kernel.
"""
import dataclasses

import models
from contest import GOOD_ROUNDS, KIB, MIB, Case, Side, size_name

TIMED = "uml"           # memory at native speed, one CPU
SAME = "counted"        # an ordinary kernel, emulated; the clock counts instructions
PINNED = ("rar-registered", "rar-in-place")
ONE_CALL = "rar-blocking"
AUTO = "rar-auto"
SHORT = 64 * KIB        # RAR_AUTO does not differ above
RAR = (*PINNED, "rar-copy", ONE_CALL)
TCP = ("tcp-ring", "tcp-chain")
LIBRARIES = ("gloo", "openmpi", "mpich")
SHARED = ("openmpi-local", "mpich-local")       # MPI over shared memory
LIGHTS = ("light", "light-nary", "light-packets")
LOCAL = "rar-local"
BIG = 64 * MIB
RANKS = (2, 4, 8)
EMULATION = 0.75        # P5: of what is possible at all
FLAT_RANKS = (2, 4, 8, 16, 32, 64)
FLAT_SIZE = 8 * MIB
MEMORY_SIZES = (4 * MIB, 64 * MIB)


@dataclasses.dataclass
class Verdict:
    target: str
    where: str              # "N=4 size=1MiB"
    ratio: float | None     # None: could not be measured
    need: float
    note: str = ""

    @property
    def passed(self):
        return self.ratio is not None and self.ratio >= self.need

    @property
    def word(self):
        if self.ratio is None or "noisy=" in self.note:
            return "INVALID"
        return "PASS" if self.passed else "FAIL"

    def __str__(self):
        ratio = "none" if self.ratio is None else f"{self.ratio:.2f}"
        return (f"{self.target} {self.where} ratio={ratio} need={self.need:.2f} {self.word}"
                + (f" {self.note}" if self.note else ""))


def at(place, *names):
    return tuple(Side(place, name) for name in names)


def where(case, kind=False):
    size = case.what or size_name(case.size)
    form = f" form={case.form} mtu={case.mtu}" if case.form else ""
    return f"N={case.n} size={size}" + (f" type={case.type}" if kind else "") + form


def note(*parts):
    return " ".join(p for p in parts if p)


def noise(result):
    """The remark for a case with too few quiet rounds, or samples to tune with"""
    good = len(result.good)
    if good < GOOD_ROUNDS:
        return f"noisy={good}-of-{len(result.rounds)}-rounds-good"
    return f"noisy=tuning-of-{result.untuned[0]}" if result.untuned else ""


def missing(result, label):
    """The reason why a side has no figures"""
    return f"({result.missing.get(label, f'no figures of {label}')})"


def compare(target, result, ours, theirs, need, kind=False, extra=""):
    """The fastest of some contestants, against the fastest of others"""
    mine, peer = result.best(ours), result.best(theirs)
    if not mine or not peer:
        return Verdict(target, where(result.case, kind), None, need,
                       note(missing(result, theirs[0] if mine else ours[0]), extra))
    named = note(f"mode={mine[4:]}" if len(ours) > 1 else "", f"peer={peer}")
    return Verdict(target, where(result.case, kind), result.ratio(peer, mine), need,
                   note(named, extra, noise(result)))


def timed(n, size, rounds):
    """What several targets look at, so that it is measured once"""
    sides = [*PINNED, *([AUTO] if size <= SHORT else []), *TCP]
    if size == BIG:
        sides += ["rar-copy", ONE_CALL, LOCAL, *SHARED, *LIGHTS]
    elif size == MIB:
        sides += [LOCAL, *SHARED, "light", "light-nary"]
    elif size == 4 * KIB:
        sides += [LOCAL, *SHARED]
    return Case(n, (size,), at(TIMED, *sides), rounds=rounds)


# -------------------------------------------------------------------- the targets

class P1:
    """64 MiB in registered memory on one CPU, the share of the speed of light"""
    place = TIMED

    @staticmethod
    def cases(rounds):
        return [timed(n, BIG, rounds) for n in RANKS]

    @staticmethod
    def verdicts(result):
        return [compare("P1", result, ("rar-registered",), (light,), need,
                        extra=f"stretch={stretch:.2f}" if stretch else "not judged")
                for light, need, stretch in (("light-packets", 0.60, 0.75), ("light", 0.45, 0.60),
                                             ("light-nary", 0, 0))]


class P2:
    """Against the best TCP in the same kernel, over veth, and with all ranks in one namespace"""
    place = TIMED
    needs = {BIG: 5.0, 16 * MIB: 5.0, MIB: 2.5, 64 * KIB: 1.5, 16 * KIB: 1.5}
    local = {BIG: 10.0, MIB: 4.0}

    @classmethod
    def cases(cls, rounds):
        return [timed(n, size, rounds) for n in RANKS for size in cls.needs]

    @classmethod
    def verdicts(cls, result):
        size = result.case.size
        lines = [compare("P2", result, (*PINNED, AUTO), TCP, cls.needs[size])]
        if size in cls.local:
            lines.append(compare("P2", result, (LOCAL,), TCP, cls.local[size],
                                 extra="one namespace"))
        return lines


class P3:
    """All ranks in one namespace: the share of light, and against MPI over shared memory there"""
    place = TIMED
    needs = {BIG: 2.0, MIB: 2.0, 4 * KIB: 1.0}
    share = 0.90

    @classmethod
    def cases(cls, rounds):
        return [timed(n, size, rounds) for n in RANKS for size in cls.needs]

    @classmethod
    def verdicts(cls, result):
        size = result.case.size
        lines = [compare("P3", result, (LOCAL,), SHARED, cls.needs[size])]
        if size > 4 * KIB:
            lines.append(compare("P3", result, (LOCAL,), ("light",), cls.share))
        return lines


class P4:
    """4 KiB with system calls and wake-ups, where each instruction costs the same"""
    place = SAME
    needs = {2: 1.0, 4: 2.0, 8: 3.0}

    @staticmethod
    def cases(rounds):
        return [Case(n, (4 * KIB,), at(SAME, *RAR, AUTO, *TCP), rounds=min(rounds, GOOD_ROUNDS))
                for n in RANKS]

    @classmethod
    def verdicts(cls, result):
        return [compare("P4", result, (*RAR, AUTO), TCP, cls.needs[result.case.n])]


class P5:
    """All contestants in one kernel, i32 and f32, against the best of all peers: short ones
    where each instruction costs the same, a long one at the speed of memory
    """
    peers = (*TCP, *LIBRARIES)
    sizes = {4 * KIB: SAME, MIB: SAME, 16 * MIB: TIMED}

    @classmethod
    def cases(cls, rounds):
        return [Case(4, (size,), at(place, *(RAR if place == SAME else PINNED), *cls.peers,
                                    *(["light"] if place == SAME else [])),
                     type=kind, rounds=min(rounds, GOOD_ROUNDS))
                for size, place in cls.sizes.items() for kind in ("i32", "f32")]

    @classmethod
    def verdicts(cls, result):
        small = result.case.size <= 4 * KIB
        need, extra, peer = 5.0 if small else 3.0, "", result.best(cls.peers)
        if peer and result.has("light"):
            ceiling = EMULATION * result.ratio(peer, "light")
            if ceiling < need:
                need, extra = ceiling, "bound=emulation"
        return [compare("P5", result, RAR if small else PINNED, cls.peers, need, True, extra)]


class P6:
    """Devices without GSO: packets of 1500 bytes each way, GRO on"""
    place = TIMED

    @staticmethod
    def cases(rounds):
        return [Case(4, (size,), at(TIMED, *PINNED, *TCP), gso=False, rounds=rounds)
                for size in (MIB, 16 * MIB)]

    @staticmethod
    def verdicts(result):
        return [compare("P6", result, PINNED, TCP, 1.0, extra="gso=off")]


class P7:
    """Copy mode against the best TCP in the same kernel; the blocking call against in place"""
    place = TIMED
    cases = P1.cases

    @staticmethod
    def verdicts(result):
        return [compare("P7", result, ("rar-copy",), TCP, 2.0),
                compare("P7", result, (ONE_CALL,), ("rar-in-place",), 0.95)]


class P8:
    """Cost per rank and byte from 2 to 64 ranks: judged over all cases together"""
    place = TIMED
    need = 0.70

    @staticmethod
    def cases(rounds):
        return [Case(n, (FLAT_SIZE,), at(TIMED, "rar-in-place", "rar-copy"), rounds=rounds)
                for n in FLAT_RANKS]

    @staticmethod
    def cost(result, label):
        """ns per byte that a rank sends, which is 2(N-1)/N of the tensor"""
        n = result.case.n
        return result.ns(label) / (2 * (n - 1) * result.case.size)

    @classmethod
    def flatness(cls, results, label):
        costs = [cls.cost(r, label) for r in results if r.has(label)]
        return min(costs) / max(costs)

    @classmethod
    def together(cls, results):
        ranks = [r.case.n for r in results]
        spot = f"N={min(ranks)}..{max(ranks)} size={size_name(FLAT_SIZE)}"
        copy = all(r.has("rar-copy") for r in results)
        extra = note(f"copy={cls.flatness(results, 'rar-copy'):.2f}" if copy else "",
                     next(filter(None, map(noise, results)), ""))
        odd = next((r for r in results if not r.has("rar-in-place")), None)
        if odd:
            return Verdict("P8", spot, None, cls.need, note(missing(odd, "rar-in-place"), extra))
        return Verdict("P8", spot, cls.flatness(results, "rar-in-place"), cls.need, extra)

    @classmethod
    def memory(cls, kib, why):
        """Kernel memory of an operation, in place, of both MEMORY_SIZES"""
        spot = f"N=4 memory={'/'.join(map(size_name, MEMORY_SIZES))}"
        if why:
            return Verdict("P8", spot, None, cls.need, f"({why})")
        small, large = (max(value, 1) for value in kib)
        return Verdict("P8", spot, small / large, cls.need, f"kib={small}/{large}")


class P9:
    """The gradients of a training step, layer by layer, of well-known networks"""
    place = TIMED
    names = ("resnet50", "alexnet", "bert-base", "vgg16")
    peers = ("gloo", "openmpi")     # MPICH takes 5 to 50 times as long with ranks on one CPU
    need, need_copy, need_libraries = 1 / 0.15, 1 / 0.30, 1 / 0.33

    @classmethod
    def cases(cls, rounds):
        return [Case(4, tuple(models.operations(name)),
                     at(TIMED, "rar-registered", "rar-copy", *TCP, *cls.peers),
                     rounds=min(rounds, GOOD_ROUNDS), what=name) for name in cls.names]

    @classmethod
    def verdicts(cls, result):
        return [compare("P9", result, ("rar-registered",), TCP, cls.need, True),
                compare("P9", result, ("rar-copy",), TCP, cls.need_copy, True, "copy"),
                compare("P9", result, ("rar-registered",), cls.peers, cls.need_libraries, True)]


TARGETS = {t.__name__: t for t in (P1, P2, P3, P4, P5, P6, P7, P8, P9)}
