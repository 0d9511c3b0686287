# SPDX-License-Identifier: GPL-2.0
"""One case of the contest: the same operations by several contestants, round by round in
turns. Beside each figure stands a marker, how long fixed memory work took at that place
just then; rounds whose markers are off do not count.
"""
import dataclasses
import math
import statistics
import time

from place import Broken, NotHere

KIB, MIB = 1 << 10, 1 << 20

MARKER_LIMIT = 1.25     # times its usual value: then another program ran
PAUSE_S = 0.3           # after such a round: perhaps it is over then
PATIENCE_S = 6          # beyond TRIES times the rounds asked for, more are tried for so long
TRIES = 3
GOOD_ROUNDS = 3         # fewer say nothing
MIN_ROUNDS = 3          # however late it is
TUNING_SAMPLES = 3      # quiet ones of each value of a knob
SMALL = 64 * KIB
MAX_STEP = 32 * KIB     # of the ring, see tcp_ring.c; in SMALL there are two, for halving
SAMPLE_S = 0.02         # a sample of small operations shall take so long
MAX_TIMES = 16          # operations in a sample: the sums of more do not fit a float
SLOW_S = 1.0            # operations above are not tried twice before the rounds
TUNING_S = 0.4          # operations above are tuned with a smaller size
LIGHT_TILES = (16 * KIB, 32 * KIB, 64 * KIB)
SUPERPACKET = 44 * 1408         # bytes of the longest one at an MTU of 1500


@dataclasses.dataclass(frozen=True)
class Side:
    """A contestant at a place; label: its name in the results"""
    place: str
    name: str

    def __str__(self):
        return f"{self.place} {self.name}"

    @property
    def label(self):
        return self.name if self.place != "host" else f"host:{self.name}"


@dataclasses.dataclass(frozen=True)
class Case:
    """The operations that are measured; ops: the bytes of each operation"""
    n: int
    ops: tuple
    sides: tuple
    type: str = "f32"
    mtu: int = 1500
    gso: bool = True
    rounds: int = 5
    what: str = ""              # for lists of operations: their name
    links: str = ""             # rate of each rank's link to a switch that a box is at; "":
                                # a cable between each two ranks
    form: str = ""              # of wire.FORMS: only packets pass between ranks; "": also what
                                # ranks of one host have

    @property
    def places(self):
        return sorted({side.place for side in self.sides})

    @property
    def topology(self):
        return (self.n, self.mtu, self.gso, self.links, self.form)

    @property
    def size(self):
        return sum(self.ops)

    @property
    def title(self):
        devices = f" form={self.form}" if self.form else "" if self.gso else " gso=off"
        return (f"{'+'.join(self.places)} N={self.n} size={self.what or size_name(self.size)}"
                f" type={self.type} mtu={self.mtu}{devices}"
                + (f" links={self.links}" if self.links else ""))


def size_name(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


@dataclasses.dataclass
class Round:
    """ns of an operation and of the marker, by the label of the side; counted: what else a
    contestant has to tell
    """
    ns: dict
    marker: dict
    counted: dict = dataclasses.field(default_factory=dict)


class Markers:
    """The times so far of the fixed work before each contestant's turn and after the last"""

    def __init__(self):
        self.seen = {}

    def add(self, side, ns):
        self.seen.setdefault(side, []).append(ns)

    def usual(self, side):
        """The usual time: the lower quartile, as other programs may use the machine"""
        values = sorted(self.seen[side])
        return values[len(values) // 4]

    def quiet(self, side, ns):
        return ns <= MARKER_LIMIT * self.usual(side)

    def good(self, rnd):
        return all(self.quiet(side, ns) for side, ns in rnd.marker.items())


class Result:
    """The rounds of a case, the good rounds, and why sides are missing"""

    def __init__(self, case):
        self.case = case
        self.rounds, self.missing, self.knobs, self.kib = [], {}, {}, {}
        self.untuned = []           # sides for whose tuning there were too few quiet samples
        self.counts = {}            # of an operation: what the module counted
        self.markers = None

    @property
    def good(self):
        return [r for r in self.rounds if self.markers.good(r)]

    @property
    def counted(self):
        """The good rounds; if there are none, all rounds, and the report says so"""
        return self.good or self.rounds

    @property
    def discarded(self):
        return len(self.rounds) - len(self.good)

    def has(self, label):
        return bool(self.rounds) and label in self.rounds[0].ns

    def ns(self, label):
        return statistics.median(r.ns[label] for r in self.counted)

    def ratio(self, above, below):
        """The median over the rounds of above/below"""
        return statistics.median(r.ns[above] / r.ns[below] for r in self.counted)

    def best(self, labels):
        """The fastest side that took part, or None"""
        return min((x for x in labels if self.has(x)), key=self.ns, default=None)

    def as_json(self):
        case = self.case
        return {
            "places": case.places, "n": case.n, "bytes": case.size, "ops": len(case.ops),
            "what": case.what, "type": case.type, "mtu": case.mtu, "gso": case.gso,
            "links": case.links, "form": case.form,
            "rounds": len(self.rounds), "discarded": self.discarded,
            "ns": {label: self.ns(label) for label in (self.rounds[0].ns if self.rounds else ())},
            "missing": self.missing, "knobs": self.knobs, "kib": self.kib,
            "untuned": self.untuned, "counts": self.counts,
            "raw": [dataclasses.asdict(r) for r in self.rounds],
        }


# -------------------------------------------------------------------- tuning

def steps_of(name, size, n, cpus):
    """The values of the knobs: lists to try one after the other, knob by knob. The first
    of each is where the search begins.
    """
    if name in ("tcp-ring", "tcp-chain", "tcp-halving"):
        # bytes per call (0: step by step), socket buffers, microseconds of spinning
        chunks = [64 * KIB, 16 * KIB, 256 * KIB, MIB]
        if size <= SMALL and n > 1:
            return [[0, 16 * KIB], [0], [0, 50] if n <= cpus else [0]]
        if name != "tcp-halving" and size <= (MIB if name == "tcp-chain" else n * MAX_STEP):
            chunks.append(0)
        return [chunks, [512 * KIB, 0, 4 * MIB], [0]]
    if name == "gloo":
        return [[0, 1], [0], [0]]
    if name == "tcp-loop":      # bytes for each receiver in turn; 0: all
        return [[0] if size <= SMALL else [0, 64 * KIB, 256 * KIB, MIB], [0], [0]]
    if name.startswith("tcp-server"):       # bytes per call
        return [[256 * KIB, 64 * KIB, MIB], [0], [0]]
    if name == "udp-loop":      # datagrams on their way to a receiver
        return [[128] if size <= SMALL else [128, 44, 512, 2048], [0], [0]]
    if name in ("light", "light-nary"):
        return [list(LIGHT_TILES), [0], [0]]
    if name == "light-packets":
        return [[SUPERPACKET], [0], [0]]
    return [[0], [0], [0]]


def tune(time_of, steps):
    """The knobs for which time_of(knobs) is least, found one knob at a time; and once again, as
    the first one was chosen beside other values of the others
    """
    known = {}

    def ns(knobs):
        if tuple(knobs) not in known:
            known[tuple(knobs)] = time_of(knobs)
        return known[tuple(knobs)]

    knobs = [values[0] for values in steps]
    for i, values in 2 * list(enumerate(steps)):
        knobs = min((knobs[:i] + [value] + knobs[i + 1:] for value in values), key=ns)
    return knobs


def times_for(ns):
    """Operations in a sample"""
    return max(1, min(MAX_TIMES, round(SAMPLE_S * 1e9 / max(ns, 1))))


class Contest:
    """Runs cases at places; calls progress(text) meanwhile"""

    def __init__(self, places, progress, limit=60):
        self.places, self.progress, self.limit = places, progress, limit
        self.markers = Markers()
        self.topology = {}
        self.knobs = {}             # of what was tuned before
        self.end = math.inf         # of the time for the present case

    def sample(self, side, case, knobs, times=1, ops=None):
        job = {"type": case.type, "times": times, "limit": self.limit, "knobs": knobs,
               "bytes": ops or case.ops}
        return self.places[side.place].run(side.name, job)["ns"] / times

    def marker(self, place, key):
        """How long the fixed work takes at a place just now"""
        job = {"type": "f32", "times": 1, "limit": self.limit, "knobs": [0], "bytes": [4]}
        ns = self.places[place].run("marker", job)["ns"]
        self.markers.add(key, ns)
        return ns

    def mark(self, rnd, side, when=""):
        rnd.marker[f"{when}{side}"] = self.marker(side.place, f"{when}{side}")

    def prepare(self, case, result):
        """Set up namespaces and contestants; note the contestants that cannot take part"""
        present = []
        for name in case.places:
            if self.topology.get(name) != case.topology:
                self.places[name].topology(*case.topology)
                self.topology[name] = case.topology
            self.places[name].start("marker")
        self.dismiss(case)
        for side in case.sides:
            why = self.places[side.place].start(side.name)
            if why:
                result.missing[side.label] = why
                self.progress(f"{case.title}: {side.label}: {why}")
            else:
                present.append(side)
        return present

    def dismiss(self, case):
        """Let the contestants that are not in this case give their memory back"""
        if case.size < 16 * MIB:
            return
        keep = {(side.place, side.name) for side in case.sides}
        for place in self.places.values():
            for name in list(place.started):
                if name != "marker" and (place.name, name) not in keep:
                    place.stop(name)

    def trial(self, side, case, knobs, times, size):
        """The time with these knobs, and whether enough quiet samples tell it. Each sample stands
        between two markers, except where the clock counts instructions: nothing disturbs it. The
        first operation, perhaps by new connections, does not count.
        """
        self.sample(side, case, knobs, ops=[size])
        if self.places[side.place].counts:
            return self.sample(side, case, knobs, times, [size]), True
        key, quiet, every = f"tuning {side.place}", [], []
        before = self.marker(side.place, key)
        while len(quiet) < TUNING_SAMPLES and len(every) < self.most_samples():
            every.append(self.sample(side, case, knobs, times, [size]))
            after = self.marker(side.place, key)
            if self.markers.quiet(key, before) and self.markers.quiet(key, after):
                quiet.append(every[-1])
            before = after
        return statistics.median(quiet or every), len(quiet) == TUNING_SAMPLES

    def most_samples(self):
        """Of a trial: when it is late, noise is not waited for"""
        return TUNING_SAMPLES * (TRIES if time.monotonic() < self.end else 1)

    def knobs_for(self, side, case, result):
        """Tune for this size, with less effort where an operation takes long"""
        steps = steps_of(side.name, max(case.ops), case.n, self.places[side.place].cpus)
        knobs = [values[0] for values in steps]
        if all(len(values) == 1 for values in steps):
            return knobs
        key = (side, case.topology, max(case.ops))
        if key not in self.knobs:
            self.progress(f"{case.title}: {side.label}: tuning")
            ns = self.sample(side, case, knobs, ops=[max(case.ops)])
            size = max(case.ops)
            while ns > TUNING_S * 1e9 and size > MIB:
                size, ns = size // 4, ns / 4
            self.knobs[key] = self.tuned(side, case, steps, times_for(ns), size)
        result.knobs[side.label], sure = self.knobs[key]
        if not sure:
            result.untuned.append(side.label)
        return result.knobs[side.label]

    def tuned(self, side, case, steps, times, size):
        """The best knobs, and whether all trials were sure"""
        sure = []

        def time_of(knobs):
            ns, quiet = self.trial(side, case, knobs, times, size)
            sure.append(quiet)
            return ns

        return tune(time_of, steps), all(sure)

    def ready(self, case, result, present):
        """(side, knobs, times) of the sides whose first operation went well"""
        lineup = []
        for side in present:
            try:
                knobs = self.knobs_for(side, case, result)
                ns = self.sample(side, case, knobs)
                if ns < SLOW_S * 1e9:
                    ns = min(ns, self.sample(side, case, knobs))
            except (Broken, NotHere) as e:
                result.missing[side.label] = str(e)
                self.progress(f"{case.title}: {side.label}: {e}")
                continue
            lineup.append((side, knobs, 1 if len(case.ops) > 1 else times_for(ns)))
        return lineup

    def one_round(self, case, lineup):
        rnd = Round({}, {})
        for side, knobs, times in lineup:
            self.mark(rnd, side)
            rnd.ns[side.label] = self.sample(side, case, knobs, times)
        self.mark(rnd, lineup[-1][0], "after ")
        return rnd

    def count(self, case, lineup, result):
        """What the module counts in a few operations of each of its modes"""
        for side, knobs, times in lineup:
            if not side.name.startswith("rar-") or case.type == "bcast" or case.links:
                continue
            job = {"type": case.type, "times": times, "limit": self.limit, "knobs": knobs,
                   "bytes": case.ops}
            counts = self.places[side.place].run(side.name, job, do="count")["counts"]
            result.counts[side.label] = {name: value / times for name, value in counts.items()}

    def measure(self, case, seconds=math.inf):
        """Measure until there are enough good rounds, or more are no use, or time is over"""
        result = Result(case)
        result.markers = self.markers
        begin = time.monotonic()
        self.end = begin + seconds
        lineup = self.ready(case, result, self.prepare(case, result))
        while lineup and self.more_rounds(result, time.monotonic() - begin, seconds):
            try:
                result.rounds.append(self.one_round(case, lineup))
            except Broken as e:
                self.progress(f"{case.title}: {e}")
                lineup = self.without_lost(lineup, result)
                continue
            self.progress(f"{case.title}: round {len(result.good)} of {case.rounds},"
                          f" {result.discarded} discarded")
            if result.rounds[-1] not in result.good:
                time.sleep(PAUSE_S)
        self.count(case, lineup, result)
        return result

    @staticmethod
    def more_rounds(result, spent, seconds):
        wanted, tried = result.case.rounds, len(result.rounds)
        if tried >= MIN_ROUNDS and spent > seconds:
            return False
        return len(result.good) < wanted and (tried < TRIES * wanted or spent < PATIENCE_S)

    def without_lost(self, lineup, result):
        """Drop a contestant that failed, and its figures"""
        for side, _, _ in lineup:
            why = self.places[side.place].started.get(side.name)
            if why:
                result.missing[side.label] = why
                for rnd in result.rounds:
                    rnd.ns.pop(side.label, None)
        return [entry for entry in lineup if entry[0].label not in result.missing]

    def memory(self, side, case):
        """KiB that an operation takes while it runs, at its place"""
        result = Result(case)
        if not self.prepare(case, result):
            raise NotHere(result.missing[side.label])
        job = {"type": case.type, "times": 4, "limit": self.limit, "knobs": [0],
               "bytes": case.ops}
        return self.places[side.place].run(side.name, job, do="memory")["kib"]
