# SPDX-License-Identifier: GPL-2.0
"""The targets T1 to T8: which cases show them, and what the figures say.

A verdict is one line: "T3 N=4 size=1MiB ratio=4.31 need=5.00 FAIL", and behind it what
one should know. ratio is always "higher is better".
"""
import dataclasses

from contest import KIB, MIB, Case, Side, size_name

TIMED = "uml"           # memory at native speed
SAME = "6.12"           # everything in one ordinary kernel
RAR = ("rar-in-place", "rar-copy")
TCP = ("tcp-ring", "tcp-chain")
PEERS = ("tcp-ring", "gloo", "openmpi", "mpich")        # of T5
BIG = 64 * MIB
RANKS = (2, 4, 8)
EMULATION = 0.75        # T5: of what is possible at all
FLAT_RANKS = (2, 4, 8, 16, 32, 64)
FLAT_SIZE = 8 * MIB
MEMORY_SIZES = (4 * MIB, 64 * MIB)
NOISY = "noisy=all-rounds"


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
        if self.ratio is None or NOISY in self.note:
            return "INVALID"
        return "PASS" if self.passed else "FAIL"

    def __str__(self):
        ratio = "none" if self.ratio is None else f"{self.ratio:.2f}"
        return (f"{self.target} {self.where} ratio={ratio} need={self.need:.2f} {self.word}"
                + (f" {self.note}" if self.note else ""))


def at(place, *names):
    return tuple(Side(place, name) for name in names)


def where(case, kind=False):
    return f"N={case.n} size={size_name(case.size)}" + (f" type={case.type}" if kind else "")


def note(*parts):
    return " ".join(p for p in parts if p)


def noise(result):
    """The remark for a case without a quiet round"""
    return "" if result.good else NOISY


def missing(result, label):
    """The reason why a side has no figures, with those of copy mode if it has none"""
    return f"({result.missing.get(label, f'no figures of {label}')})"


def copy_note(result, ratio):
    """The figures of copy mode: for the reader, not for the verdict"""
    if not result.has("rar-copy"):
        return ""
    return f"copy={ratio('rar-copy'):.2f}"


def judge(target, result, need, ratio, label="rar-in-place", kind=False, extra=""):
    """A verdict about one contestant; ratio(label) computes it"""
    spot = where(result.case, kind)
    if not result.has(label):
        return Verdict(target, spot, None, need,
                       note(missing(result, label), copy_note(result, ratio), extra))
    return Verdict(target, spot, ratio(label), need, note(extra, noise(result)))


def lacks(target, result, need, label, kind=False):
    return Verdict(target, where(result.case, kind), None, need, missing(result, label))


# -------------------------------------------------------------------- the targets

class T1:
    """64 MiB on one CPU against the speed of light; T7 uses these figures, too"""
    place = TIMED

    @staticmethod
    def cases(rounds):
        return [Case(n, (BIG,), at(TIMED, *RAR, "light"), rounds=rounds) for n in RANKS]

    @staticmethod
    def verdicts(result):
        if not result.has("light"):
            return [lacks("T1", result, 0.75, "light")]
        return [judge("T1", result, 0.75, lambda label: result.ratio("light", label),
                      extra="stretch=0.85")]


class T7:
    """Copy mode compared with in place"""
    place = TIMED
    cases = T1.cases

    @staticmethod
    def verdicts(result):
        if not result.has("rar-copy"):
            return [lacks("T7", result, 0.70, "rar-copy")]
        if not result.has("rar-in-place"):
            return [lacks("T7", result, 0.70, "rar-in-place")]
        return [judge("T7", result, 0.70, lambda _: result.ratio("rar-in-place", "rar-copy"))]


def against_host(target, result, need, extra):
    """The TCP ring decides; the figures of the chain are shown beside it"""
    if not result.has("host:tcp-ring"):
        return lacks(target, result, need, "host:tcp-ring")
    if result.has("host:tcp-chain") and result.has("rar-in-place"):
        chain = result.ratio("host:tcp-chain", "rar-in-place")
        extra = note(extra, f"chain={chain:.2f}")
    return judge(target, result, need, lambda label: result.ratio("host:tcp-ring", label),
                 extra=extra)


class T2:
    """64 MiB: in User-Mode Linux against TCP natively, one CPU each"""
    place = TIMED + "+host"
    size, need, extra = BIG, 4.0, "stretch=5.50"

    @classmethod
    def cases(cls, rounds):
        return [Case(n, (cls.size,), at(TIMED, *RAR) + at("host", *TCP), rounds=rounds)
                for n in RANKS]

    @classmethod
    def verdicts(cls, result):
        return [against_host(cls.__name__, result, cls.need, cls.extra)]


class T3(T2):
    """1 MiB: in User-Mode Linux against TCP natively, one CPU each"""
    size, need, extra = MIB, 5.0, ""


class T4:
    """4 KiB with system calls and wake-ups, the faster mode against the faster TCP"""
    place = SAME
    needs = {2: 1.0, 4: 2.0, 8: 3.0}

    @staticmethod
    def cases(rounds):
        return [Case(n, (4 * KIB,), at(SAME, *RAR, *TCP), rounds=rounds) for n in RANKS]

    @classmethod
    def verdicts(cls, result):
        need = cls.needs[result.case.n]
        ours, theirs = result.best(RAR), result.best(TCP)
        if not ours or not theirs:
            return [lacks("T4", result, need, "rar-copy" if theirs else "tcp-ring")]
        return [judge("T4", result, need, lambda label: result.ratio(theirs, label), ours,
                      extra=f"mode={ours[4:]} peer={theirs}")]


class T5:
    """All contestants in one kernel, i32 and f32, against the best of all peers"""
    place = SAME
    sizes = (4 * KIB, MIB, BIG)

    @classmethod
    def cases(cls, rounds):
        return [Case(4, (size,), at(SAME, *RAR, *PEERS, "tcp-chain", "light"), type=kind,
                     rounds=rounds if size < BIG else max(2, rounds // 2))
                for size in cls.sizes for kind in ("i32", "f32")]

    @staticmethod
    def verdicts(result):
        small = result.case.size <= 4 * KIB
        need = 5.0 if small else 3.0
        theirs = result.best(PEERS)
        ours = (result.best(RAR) if small else None) or "rar-in-place"
        if not theirs:
            return [lacks("T5", result, need, "tcp-ring", True)]
        extra = f"peer={theirs}" + (f" mode={ours[4:]}" if small else "")
        if result.has("light"):
            ceiling = EMULATION * result.ratio(theirs, "light")
            if ceiling < need:
                need, extra = ceiling, extra + " bound=emulation"
        return [judge("T5", result, need, lambda label: result.ratio(theirs, label), ours, True,
                      extra)]


class T6:
    """Devices without GSO: packets of 1500 bytes each way, GRO on"""
    place = TIMED

    @staticmethod
    def cases(rounds):
        return [Case(4, (size,), at(TIMED, *RAR, *TCP), gso=False, rounds=rounds)
                for size in (MIB, 16 * MIB)]

    @staticmethod
    def verdicts(result):
        theirs = result.best(TCP)
        if not theirs:
            return [lacks("T6", result, 1.0, "tcp-ring")]
        return [judge("T6", result, 1.0, lambda label: result.ratio(theirs, label),
                      extra=f"peer={theirs} gso=off")]


class T8:
    """Cost per rank and byte from 2 to 64 ranks: judged over all cases together"""
    place = TIMED
    need = 0.70

    @staticmethod
    def cases(rounds):
        return [Case(n, (FLAT_SIZE,), at(TIMED, *RAR), rounds=rounds) for n in FLAT_RANKS]

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
        in_place = all(r.has("rar-in-place") for r in results)
        copy = all(r.has("rar-copy") for r in results)
        extra = f"copy={cls.flatness(results, 'rar-copy'):.2f}" if copy else ""
        if not in_place:
            odd = next(r for r in results if not r.has("rar-in-place"))
            return Verdict("T8", spot, None, cls.need, note(missing(odd, "rar-in-place"), extra))
        return Verdict("T8", spot, cls.flatness(results, "rar-in-place"), cls.need, extra)

    @classmethod
    def memory(cls, kib, why):
        """Kernel memory of an operation, in place, of both MEMORY_SIZES"""
        spot = f"N=4 memory={'/'.join(map(size_name, MEMORY_SIZES))}"
        if why:
            return Verdict("T8", spot, None, cls.need, f"({why})")
        small, large = (max(value, 1) for value in kib)
        return Verdict("T8", spot, small / large, cls.need, f"kib={small}/{large}")


TARGETS = {t.__name__: t for t in (T1, T2, T3, T4, T5, T6, T7, T8)}
