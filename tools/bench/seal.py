#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""seal.py [PART [ROUNDS]]: what seals cost (RAR_SECURITY), targets S1 to S5.

attack (S1): the speed beside an attacker who sends 10,000 bad packets a second to one rank, each full
   and right but for its seal. One CPU does all, also what the attacker and the network do, so it is
   compared with the same packets sent to a host that is no rank. That none is accepted, the tests
   attack and attack_long tell.
time (S2): the time with seals, without that of the cipher alone, in times of the time without seals.
   The cipher seals and opens as many bytes as often, packet by packet, by the kernel's library.
tunnels (S3): what seals cost, in times of what WireGuard and MACsec below the ring cost. Instructions.
short (S4): instructions of a short operation, in times of those without seals.
off (S5): instructions without seals in the commit that brought them, in times of those before.

"plain" is a ring without seals and without carriers: its packets are those between hosts.
"""
import dataclasses
import statistics
import subprocess
import sys

import instructions
from contest import KIB, MIB, size_name
from place import TOP, Broken, NotHere, Place
from targets import Verdict, note

PLAIN = "rar-no-carriers"
LEVELS = {"auth": "rar-auth", "encrypt": "rar-encrypt"}
SPREAD = 0.15               # between the quartiles of a side: above, a figure is INVALID
LIMIT_S = 300
SAMPLE_NS = 50e6
SAMPLES = 3                 # of a turn; the least counts
COUNTED = "6.12"
MEM_MIB = 3072
# S1
ATTACKED_RANKS, ATTACKED_SIZES, RATE, NEED_ATTACKED = 4, (16 * MIB, MIB), 10000, 0.9
ATTACK_NS = 2e9             # of a sample
MISSED = 0.95               # share of the rate that the attacker must reach
# S2
TIMED = "uml"
CIPHER = {"auth": "light-auth", "encrypt": "light-encrypt"}
RANKS, SIZES = (2, 4), (64 * MIB, MIB, 64 * KIB, 4 * KIB)
REST_CELL, NEED_REST = (4, 64 * MIB), 1.10
# S3
TUNNEL_RANKS, TUNNEL_SIZE, MTUS = 4, MIB, (1500, 9000)
TUNNELS = {"wireguard": ("WireGuard", 0.3), "macsec-auth": ("MACsec without encryption", 0.5),
           "macsec": ("MACsec", 0.5)}
LIKE = {"auth": ("macsec-auth", "wireguard"), "encrypt": ("macsec", "wireguard")}
# S4
SHORT_RANKS, SHORT_SIZE, NEED_SHORT = 2, 4 * KIB, 1.35
# S5
OFF_RANKS, OFF_SIZES, NEED_OFF = (2, 4), (MIB, 64 * KIB, 4 * KIB, 64), 1.01
OFF_MODES = ("rar-registered", PLAIN)
FIRST = "net/rar/core/seal.c"       # the commit that brought it brought the seals


@dataclasses.dataclass
class AtMost(Verdict):
    """A ratio that is better if it is lower"""

    @property
    def passed(self):
        return self.ratio is not None and self.ratio <= self.need


# -------------------------------------------------------------------- arithmetic

def ratio(values, of):
    """The median of the ratios of each round"""
    return statistics.median(a / b for a, b in zip(values, of))


def rest(whole, alone):
    """What is left of each round without the cipher"""
    return [a - b for a, b in zip(whole, alone)]


def extra(values, plain, other):
    """What something costs more than plain in each round, in times of what another thing does"""
    return [(v - p) / (o - p) for v, p, o in zip(values, plain, other)]


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def noise(*sides):
    """The remark for rounds that differ too much"""
    worst = max(map(spread, sides))
    return f"noisy=quartiles-differ-by-{worst:.1%}" if worst > SPREAD else ""


def astride(ratios, need):
    """The remark for rounds that do not agree whether a target is reached"""
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"noisy=quartiles-{low:.3f}-and-{high:.3f}" if low <= need < high else ""


def where(n, size, *more):
    return note(f"N={n}", f"size={size_name(size)}", *more)


def cells(found, names):
    return "".join(f"{statistics.median(found[n]) / 1e3:>13.1f}" for n in names)


# -------------------------------------------------------------------- S1

def sample(place, name, size, times):
    """Nanoseconds of an operation"""
    job = {"type": "i32", "times": times, "limit": LIMIT_S, "knobs": [32 * KIB], "bytes": [size]}
    return place.run(name, job)["ns"] / times


def started(place, name):
    why = place.start(name)
    if why:
        raise Broken(f"{name}: {why}")


@dataclasses.dataclass
class Beside:
    """What was seen beside an attacker, in all rounds: the time of an operation in each, packets
    that he sent, in which time, and those that rank 1 dropped"""
    ns: list = dataclasses.field(default_factory=list)
    sent: int = 0
    sent_ns: int = 0
    dropped: int = 0
    late: int = 0           # rounds in which he began too late

    def measure(self, place, name, size, times, to):
        """A round beside an attacker who sends to that host; None: nobody attacks"""
        before = place.ask(do="attack", rate=RATE if to is not None else 0, to=to)
        sample(place, name, size, 1)        # he sees a chunk to begin with
        self.ns.append(sample(place, name, size, times))
        after = place.ask(do="attack", rate=0)
        self.sent += after["sent"]
        self.sent_ns += after["sent_ns"]
        self.late += to is not None and after["sent_ns"] < self.ns[-1] * times
        self.dropped += after["dropped"] - before["dropped"]

    @property
    def rate(self):
        return self.sent / max(1, self.sent_ns) * 1e9


def attack(rounds):
    """S1"""
    place = Place(TIMED, 1, None, MEM_MIB)
    ways = {"quiet": None, "others": "host", "attacked": 1}
    verdicts = []
    try:
        print(f"S1, Linux {place.info['kernel']}, one CPU, {ATTACKED_RANKS} ranks at a switch: us of "
              f"an operation; {RATE} bad packets a second (that none of them is accepted: make "
              f"test-full T='attack*')\n{'level':>8} {'size':>7}"
              f"{'none':>13}{'to others':>13}{'to rank 1':>13}  sent, dropped")
        place.topology(ATTACKED_RANKS, 1500, True, links="any")
        for level, name in LEVELS.items():
            started(place, name)
            for size in ATTACKED_SIZES:
                sample(place, name, size, 1)
                times = max(2, round(ATTACK_NS / sample(place, name, size, 1)))
                found = {way: Beside() for way in ways}
                for number in range(rounds):
                    for way in ways if number % 2 else reversed(ways):
                        found[way].measure(place, name, size, times, ways[way])
                print(f"{level:>8} {size_name(size):>7}"
                      f"{cells({w: b.ns for w, b in found.items()}, ways)}"
                      f"  {found['attacked'].sent}, {found['attacked'].dropped}", flush=True)
                verdicts.append(beside_verdict(level, size, *found.values()))
            place.stop(name)
    finally:
        place.close()
    return verdicts


def beside_verdict(level, size, quiet, others, attacked):
    """S1 of a cell"""
    spot = where(ATTACKED_RANKS, size, f"level={level}")
    rate = min(others.rate, attacked.rate)
    if rate < MISSED * RATE or attacked.dropped < MISSED * attacked.sent or (
            others.late + attacked.late):
        return Verdict("S1", spot, None, NEED_ATTACKED,
                       f"({rate:.0f} packets a second, {attacked.dropped} of {attacked.sent} came, "
                       f"{others.late + attacked.late} rounds began too late)")
    return Verdict("S1", spot, ratio(others.ns, attacked.ns), NEED_ATTACKED,
                   note(f"without={ratio(quiet.ns, attacked.ns):.2f}",
                        noise(others.ns, attacked.ns)))


# -------------------------------------------------------------------- S2

def turn(place, name, times):
    """{size: ns} of a contestant; sets how often an operation is done the first time"""
    started(place, name)
    found = {}
    for size in SIZES:
        if size not in times:
            sample(place, name, size, 1)
            times[size] = max(1, min(1000, round(SAMPLE_NS / sample(place, name, size, 1))))
        found[size] = min(sample(place, name, size, times[size]) for _ in range(SAMPLES))
    place.stop(name)
    return found


def measure(place, n, rounds):
    """{size: {name: [ns of each round]}}"""
    place.topology(n, 1500, True)
    names = [PLAIN, *LEVELS.values(), *CIPHER.values()]
    times, found = {}, {size: {name: [] for name in names} for size in SIZES}
    for number in range(rounds):
        for name in names if number % 2 else reversed(names):
            for size, ns in turn(place, name, times).items():
                found[size][name].append(ns)
    return found


def time_row(n, size, found):
    """Print a row; return the verdicts"""
    plain = found[PLAIN]
    row, verdicts = f"{n:>2} {size_name(size):>7} {statistics.median(plain) / 1e3:>10.1f}", []
    for level, name in LEVELS.items():
        whole, alone = found[name], found[CIPHER[level]]
        left = ratio(rest(whole, alone), plain)
        row += f" {ratio(whole, plain):>8.2f} {ratio(alone, plain):>7.2f} {left:>6.2f}"
        if (n, size) == REST_CELL:
            verdicts.append(AtMost("S2", where(n, size, f"level={level}"), left, NEED_REST,
                                   noise(plain, whole, alone)))
    print(row + (" INVALID" if noise(*found.values()) else ""), flush=True)
    return verdicts


def time(rounds):
    """S2"""
    place = Place(TIMED, 1, None, MEM_MIB)
    verdicts = []
    try:
        print(f"S2, Linux {place.info['kernel']}, one CPU: times of plain\n"
              f"{'':21} {'auth:':>8} {'cipher':>7} {'rest':>6} {'encrypt:':>8} {'cipher':>7} "
              f"{'rest':>6}\n{'N':>2} {'size':>7} {'us plain':>10}", flush=True)
        for n in RANKS:
            for size, found in measure(place, n, rounds).items():
                verdicts += time_row(n, size, found)
    finally:
        place.close()
    return verdicts


# -------------------------------------------------------------------- S3

def counts(place, name, size, rounds):
    """Instructions of an operation, all ranks together, of each round"""
    started(place, name)
    found = [sample(place, name, size, 1) for _ in range(rounds + 1)][1:]
    place.stop(name)
    return found


def tunnels(rounds):
    """S3"""
    place = Place(COUNTED, 1, None, 2048, count=True)
    n, size, verdicts = TUNNEL_RANKS, TUNNEL_SIZE, []
    ways = ("plain", *LEVELS, *TUNNELS)
    try:
        print(f"S3, Linux {place.info['kernel']}, {n} ranks: thousands of instructions for "
              f"{size_name(size)}, all ranks together\n{'MTU':>5}" +
              "".join(f"{w:>13}" for w in ways), flush=True)
        for mtu in MTUS:
            place.topology(n, mtu, True)
            found = {way: counts(place, LEVELS.get(way, PLAIN), size, rounds)
                     for way in ("plain", *LEVELS)}
            for kind in TUNNELS:
                place.topology(n, mtu, True, links=kind)
                found[kind] = counts(place, PLAIN, size, rounds)
            print(f"{mtu:>5}" + cells(found, ways), flush=True)
            verdicts += [tunnel_verdict(mtu, level, kind, found)
                         for level, kinds in LIKE.items() for kind in kinds]
    finally:
        place.close()
    return verdicts


def tunnel_verdict(mtu, level, kind, found):
    """S3: what a level costs, in times of what such a tunnel does"""
    name, need = TUNNELS[kind]
    shares = extra(found[level], found["plain"], found[kind])
    return AtMost("S3", where(TUNNEL_RANKS, TUNNEL_SIZE, f"mtu={mtu}", f"level={level}"),
                  statistics.median(shares), need, note(f"against {name}", noise(shares)))


# -------------------------------------------------------------------- S4

def short(rounds):
    """S4"""
    place = Place(COUNTED, 1, None, 1024, count=True)
    n, size, found = SHORT_RANKS, SHORT_SIZE, {}
    try:
        print(f"S4, Linux {place.info['kernel']}: thousands of instructions of an operation of "
              f"{size_name(size)} and rank, {n} ranks\n" +
              "".join(f"{w:>13}" for w in ("plain", *LEVELS)), flush=True)
        place.topology(n, 1500, True)
        for name in (PLAIN, *LEVELS.values()):
            started(place, name)
            found[name] = [instructions.of_operation(place, name, n, size, 1)
                           for _ in range(rounds)]
            place.stop(name)
        print(cells(found, found), flush=True)
    finally:
        place.close()
    plain, auth = found[PLAIN], found[LEVELS["auth"]]
    return [AtMost("S4", where(n, size, "level=auth"), ratio(auth, plain), NEED_SHORT,
                   noise(plain, auth))]


# -------------------------------------------------------------------- S5

def builds():
    """The modules before the seals came and with them, and that commit"""
    def said(*command):
        return subprocess.run(command, cwd=TOP, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.split()
    commit = said("git", "log", "--diff-filter=A", "--format=%H", "--", FIRST)[-1]
    return said("scripts/bench", "--build-commits", COUNTED, f"{commit}^", commit), commit


def off(rounds):
    """S5"""
    modules, commit = builds()
    place = Place(COUNTED, 1, None, 1024, count=True)
    found = {}
    try:
        print(f"S5, Linux {place.info['kernel']}: thousands of instructions of an operation and rank, "
              f"before {commit[:7]} and with it\n{'N':>2} {'size':>7} {'mode':>16}"
              f"{'before':>13}{'with it':>13}", flush=True)
        for n in OFF_RANKS:
            for number in range(2 * rounds):    # each build is the first in half of the rounds
                build = (number + number // 2) % 2
                place.load(modules[build])
                place.topology(n, 1500, True)
                for mode in OFF_MODES:
                    started(place, mode)
                    for size in OFF_SIZES:
                        found.setdefault((n, size, mode), ([], []))[build].append(min(
                            instructions.of_operation(place, mode, n, size, 1)
                            for _ in range(SAMPLES)))
                    place.stop(mode)
            for (ranks, size, mode), both in found.items():
                if ranks == n:
                    print(f"{n:>2} {size_name(size):>7} {mode:>16}{cells(both, range(2))}", flush=True)
    finally:
        place.close()
    return [off_verdict(*cell, *both) for cell, both in found.items()]


def off_verdict(n, size, mode, before, after):
    """S5 of a cell"""
    return AtMost("S5", where(n, size, f"mode={mode}"), ratio(after, before), NEED_OFF,
                  astride([a / b for a, b in zip(after, before)], NEED_OFF))


PARTS = {"attack": (attack, 7), "time": (time, 7), "tunnels": (tunnels, 3), "short": (short, 8),
         "off": (off, 4)}


def main():
    """Measure a part, or all"""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part and part not in PARTS:
        sys.exit(f"usage: seal.py [{'|'.join(PARTS)} [ROUNDS]]")
    verdicts = []
    for name in [part] if part else PARTS:
        function, rounds = PARTS[name]
        try:
            verdicts += function(int(sys.argv[2]) if len(sys.argv) > 2 else rounds)
        except (Broken, NotHere) as why:
            print(f"{name}: {why}", flush=True)
    for verdict in verdicts:
        print(verdict)


if __name__ == "__main__":
    main()
