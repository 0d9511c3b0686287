# SPDX-License-Identifier: GPL-2.0
"""The targets C1 and C2: a broadcast from one rank to 3, 7 and 15 others, each in a namespace
of its own. The time is from the start at rank 0 until the last rank has the data.

C1: against the faster of two loops in user space, which send the data to one receiver after
the other. C2: against the faster MPI.
"""
from contest import KIB, MIB, Case
from targets import Verdict, at, missing, noise, note, where

# Fixed before anything was measured.
RANKS = (4, 8, 16)
SIZES = (64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
SMALL = 64 * KIB
NEED_LOOPS = 1 / 0.155      # 84.5 % less time
NEED_MPI = 1.0
PLACES = ("uml", "6.12")

OURS = ("rar-copy", "rar-in-place")
LOOPS = ("tcp-loop", "udp-loop")
MPI = ("openmpi", "mpich")


class Broadcast:
    """All cases; each gives a line for C2, and up to SMALL bytes a line for C1"""

    @staticmethod
    def cases(rounds):
        return [Case(n, (size,), at(place, *OURS, *LOOPS, *MPI), type="bcast",
                     rounds=rounds if size < 16 * MIB else max(2, rounds // 2))
                for place in PLACES for n in RANKS for size in SIZES]

    @staticmethod
    def judge(target, result, need, peers):
        ours, theirs = result.best(OURS), result.best(peers)
        if not ours or not theirs:
            return Verdict(target, where(result.case), None, need,
                           missing(result, peers[0] if ours else OURS[0]))
        return Verdict(target, where(result.case), result.ratio(theirs, ours), need,
                       note(f"mode={ours[4:]} peer={theirs}", noise(result)))

    @classmethod
    def verdicts(cls, result):
        lines = [cls.judge("C2", result, NEED_MPI, MPI)]
        if result.case.size <= SMALL:
            lines.append(cls.judge("C1", result, NEED_LOOPS, LOOPS))
        return lines
