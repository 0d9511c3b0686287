# SPDX-License-Identifier: GPL-2.0
"""The targets B1 to B7: all-reduces through an aggregation box, and broadcasts. Ranks, the box and
other hosts are namespaces at one switch. The link of each rank has a limited rate in both
directions; the box's has none, as it stands where the links meet. These set-ups are ours: of the
papers only the abstracts are known.

B1 (ESA): several jobs share the box, see jobs.py.
B2 (NetReduce): against the ring over the same links.
B3 (NetReduce): against the ring over TCP, also for the layers of well-known networks, without
   the time to compute them.
B4 (AggBox): against a parameter server over TCP that is a host with a link as the ranks have.
   "tcp-server-fast" is where the box is, and has the box's unlimited link: not judged.
B5 (AggBox): a broadcast by the ring or directly, against loops in user space, over the same links;
   and by the box, against that in place without one: not judged.
B6: the time for each rank, without limits: flat from 2 to 32 ranks on one CPU.
B7: what it costs to name a box that is not there, or that has room for nothing.
"""
import math

import jobs
import models
from broadcast import LOOPS, NEED_LOOPS, OURS, Broadcast
from contest import GOOD_ROUNDS, KIB, MIB, Case
from targets import Verdict, at, missing, noise, note, where

# Fixed before anything was measured.
PLACE = "uml"
RATE = "100mbit"
ANY = "any"                 # no limit
RANKS = (4, 8)
BIG, SMALL = 16 * MIB, MIB
NEED_RING = {4: 1.4, 8: 1.6}            # ideal: 2(N-1)/N
NEED_TCP = {8: 1.7}                     # of AlexNet; of a perfect ring 1.5 is ideal for N=4
NEED_SERVER = 1 / 0.439                 # 56.1 % less time
BROADCAST_RANKS, BROADCAST_SIZES = (9, 17), (64, 4 * KIB, 64 * KIB, MIB)
FLAT_RANKS, FLAT_SIZE, NEED_FLAT = (2, 4, 8, 16, 32), MIB, 1 / 1.3
NEED_OVERHEAD = 1 / 1.05
SHRINK = 16                 # of the layers' sizes: a step shall take seconds
NETWORKS = ("alexnet", "vgg16", "resnet50", "bert-base")

RING, BOX, DEAD, TIGHT = "rar-in-place", "rar-box", "rar-box-dead", "rar-box-tight"
TCP, SERVER, FAST = "tcp-ring", "tcp-server", "tcp-server-fast"


def layers(name):
    """The bytes of each layer's gradient, made smaller, in the order of the backward pass"""
    return tuple(max(4, math.ceil(size / SHRINK / 4) * 4) for size in models.operations(name))


class Box:
    """All cases, and the lines that each of them gives"""

    @staticmethod
    def cases(rounds):
        big = [Case(n, (size,), at(PLACE, RING, BOX, TCP, SERVER, FAST), rounds=rounds, links=RATE)
               for n in RANKS for size in (SMALL, BIG)]
        steps = [Case(n, layers(name), at(PLACE, BOX, TCP), rounds=max(GOOD_ROUNDS, rounds // 2),
                      what=name, links=RATE) for n in RANKS for name in NETWORKS]
        dead = [Case(4, (size,), at(PLACE, RING, DEAD, TIGHT), rounds=rounds, links=RATE)
                for size in (SMALL, BIG)]
        spread = [Case(n, (size,), at(PLACE, *OURS, BOX, *LOOPS), type="bcast",
                       rounds=rounds, links=RATE) for n in BROADCAST_RANKS for size in BROADCAST_SIZES]
        flat = [Case(n, (FLAT_SIZE,), at(PLACE, BOX, RING), rounds=rounds, links=ANY)
                for n in FLAT_RANKS]
        return [*big, *steps, *dead, *spread, *flat, *jobs.cases(rounds)]

    def __init__(self):
        self.per_rank = {}

    @staticmethod
    def judge(target, result, ours, theirs, need):
        """How many times as fast is @ours?"""
        what = f" what={result.case.what}" if result.case.what else ""
        place = f"{where(result.case)}{what} links={result.case.links}"
        if not result.has(ours) or not result.has(theirs):
            lacks = theirs if result.has(ours) else ours
            return Verdict(target, place, None, need, missing(result, lacks))
        return Verdict(target, place, result.ratio(theirs, ours), need,
                       note(f"{ours} against {theirs}", noise(result)))

    def flat(self, result):
        """The time for a rank, compared with two ranks"""
        case = result.case
        if result.has(BOX):
            self.per_rank[case.n] = result.ns(BOX) / case.n, noise(result)
        first, first_noise = self.per_rank.get(FLAT_RANKS[0], (None, ""))
        mine, mine_noise = self.per_rank.get(case.n, (None, ""))
        return Verdict("B6", f"{where(case)} links={case.links}",
                       first / mine if first and mine else None, NEED_FLAT,
                       note("time of a rank, of two ranks against", first_noise or mine_noise))

    def verdicts(self, result):
        case = result.case
        if isinstance(case, jobs.JobsCase):
            return jobs.verdicts(result)
        sides = {side.name for side in case.sides}
        if case.links == ANY:
            return [self.flat(result)]
        if case.type == "bcast":
            lines = [Broadcast.judge("B5", result, NEED_LOOPS, LOOPS)]
            return lines + ([self.judge("B5", result, BOX, RING, 0)] if result.has(BOX) else [])
        if DEAD in sides:
            return [self.judge("B7", result, ours, RING, NEED_OVERHEAD) for ours in (DEAD, TIGHT)]
        if case.what:
            return [self.judge("B3", result, BOX, TCP,
                               NEED_TCP.get(case.n, 0) if case.what == "alexnet" else 0)]
        lines = [self.judge("B4", result, BOX, SERVER, NEED_SERVER),
                 self.judge("B3", result, BOX, TCP, 0)]
        if case.size == BIG:
            lines.append(self.judge("B2", result, BOX, RING, NEED_RING[case.n]))
        return lines
