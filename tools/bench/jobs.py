# SPDX-License-Identifier: GPL-2.0
"""The target B1 (ESA): how a box gives its memory out to several training jobs, by
net.rar.box_policy. The set-up is ours: of the paper only the abstract is known.

Four or eight jobs of four ranks each use one box. Half of them are heavy: 160 slots of 4 KiB in an
iteration, which take twice as long on the link as the computing takes. The others are light: 80
slots, half as long as the computing. See jobs.c. Each rank is a host with a link of 20 Mbit/s in
both directions and a delay; the box is where the links meet. A round trip to the box takes as long
as 12 slots, so a rank fills its link when 12 slots of its own are on their way. The memory of the
box is a part of what all jobs would need for that.

A figure is the mean time of the jobs, from the start of a job to the end of its last rank. In a
round each policy has its turn with the same random numbers; the next round has others.
"""
import dataclasses
import statistics

from contest import Case, Contest, Round
from targets import Verdict, at, missing, noise, note

# Fixed before anything was measured, as what jobs.c does.
PLACE = "uml"
JOBS = (4, 8)
RANKS = 4
POOLS = (10, 25, 50, 100)       # % of the slots on their way
SLOT = 4096                     # bytes, those of a packet
RATE = 20_000_000               # bits/s
ON_THE_WAY = 12                 # slots: the rate times the round trip
MTU = SLOT + 92                 # IPv4, UDP, RAR
SLOT_NS = SLOT * 8 * 10**9 // RATE
# A round trip has the time of a slot on the link twice, and the delay twice.
DELAY_US = (ON_THE_WAY // 2 - 1) * SLOT_NS // 1000
LINKS = f"{RATE // 10**6}mbit/{DELAY_US}us"

POLICIES = ("box-static", "box-fcfs", "box-reclaim", "box-preempt")
PREEMPT = POLICIES[-1]
JUDGED_POOL = 25
NEED = 1.35                     # fcfs / preempt at that pool
NEED_ELSEWHERE = 0.97           # nowhere slower

# What the box charges, in bytes. See net/rar/box/slot.h.
ROW = SLOT + 256                # a slot and what the box knows of it, with four ranks
MARK = 32                       # a chunk, until its operation is complete
OPERATION = 168                 # an operation
ROWS_OF_MEM = 7 / 8             # the rest is for marks only
# At a time two layers of a job are marked, of eight: slots, by the kind of the job.
MARKED = (40, 20)
MARKED_OPERATIONS = 2
SPARE_ROUNDS = 2                # if some are not quiet


def rows(jobs, pool):
    """The rows of a pool of so many %"""
    return round(jobs * ON_THE_WAY * pool / 100)


def box_mem(jobs, pool):
    """net.rar.box_mem for a pool: rows find room in 7/8 of it, beside the marks that are there on
    average. So the rows of the pool fit, but for the variation of the marks: one or two rows.
    """
    marks = sum(MARKED[job % 2] * MARK + MARKED_OPERATIONS * OPERATION for job in range(jobs))
    return round((rows(jobs, pool) * ROW + marks) / ROWS_OF_MEM)


@dataclasses.dataclass(frozen=True)
class JobsCase(Case):
    """Several jobs and a pool; n: the ranks of all of them"""
    jobs: int = 0
    pool: int = 0

    @property
    def knobs(self):
        return [self.jobs, box_mem(self.jobs, self.pool), SLOT_NS]


def cases(rounds):
    return [JobsCase(jobs * RANKS, (SLOT,), at(PLACE, *POLICIES), type="i32", mtu=MTU,
                     rounds=rounds, what=f"J={jobs},pool={pool}%", links=LINKS, jobs=jobs,
                     pool=pool)
            for jobs in JOBS for pool in POOLS]


class Sharing(Contest):
    """A contest whose cases may be JobsCase"""

    def __init__(self, *args):
        super().__init__(*args)
        self.seeds = {}

    def prepare(self, case, result):
        """A policy that failed in one cell takes part in the next"""
        for side in case.sides if isinstance(case, JobsCase) else ():
            started = self.places[side.place].started
            if started.get(side.name):
                del started[side.name]
        return super().prepare(case, result)

    def ready(self, case, result, present):
        if not isinstance(case, JobsCase):
            return super().ready(case, result, present)
        return [(side, case.knobs, 1) for side in present]

    def one_round(self, case, lineup):
        """Another policy begins each round"""
        if not isinstance(case, JobsCase):
            return super().one_round(case, lineup)
        rnd = Round({}, {})
        seed = self.seeds[case] = self.seeds.get(case, 0) + 1
        first = seed % len(lineup)
        for side, knobs, _ in lineup[first:] + lineup[:first]:
            self.mark(rnd, side)
            job = {"type": case.type, "times": 1, "limit": self.limit,
                   "knobs": [*knobs, seed], "bytes": case.ops}
            answer = self.places[side.place].run(side.name, job)
            rnd.ns[side.label] = answer.pop("ns")
            rnd.counted[side.label] = answer
        return rnd

    @staticmethod
    def more_rounds(result, spent, seconds):
        """Rounds are long here: few are repeated"""
        most = result.case.rounds + SPARE_ROUNDS
        if isinstance(result.case, JobsCase) and len(result.rounds) >= most:
            return False
        return Contest.more_rounds(result, spent, seconds)


class Figures:
    """The figures of a policy: means over the rounds that count"""

    def __init__(self, result, label):
        counted = [r.counted[label] for r in result.counted]
        box, ring = (sum(c[key] for c in counted) for key in ("box", "ring"))
        self.seconds = statistics.mean(r.ns[label] for r in result.counted) / 1e9
        self.by_box = box / max(box + ring, 1)
        self.returned = statistics.mean(c["returned"] for c in counted)
        self.busy = statistics.mean(c["busy"] for c in counted) / 1000

    def __str__(self):
        return (f"{self.seconds:.2f} s, box {self.by_box:.0%}, returned {self.returned:.0f},"
                f" CPU {self.busy:.0%}")


def judge(result, theirs):
    """How many times as long do the jobs take with another policy than with preempt?"""
    case = result.case
    judged = theirs == "box-fcfs" and case.pool == JUDGED_POOL
    spot = f"J={case.jobs} N={RANKS} pool={case.pool}% links={case.links} policy={theirs[4:]}"
    need = NEED if judged else NEED_ELSEWHERE
    for label in (PREEMPT, theirs):
        if not result.has(label):
            return Verdict("B1", spot, None, need, missing(result, label))
    text = f"{Figures(result, theirs)} / {PREEMPT[4:]}: {Figures(result, PREEMPT)}"
    return Verdict("B1", spot, result.ratio(theirs, PREEMPT), need, note(text, noise(result)))


def verdicts(result):
    return [judge(result, theirs) for theirs in POLICIES if theirs != PREEMPT]
