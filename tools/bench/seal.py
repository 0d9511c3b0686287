#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""seal.py [KERNEL [ROUNDS]]: what seals cost (RAR_SECURITY), in one boot, in turns.

"plain" are packets without seals and without carriers. "cipher" is the cipher alone: as many bytes,
sealed and opened packet by packet as often as in the ring, by the kernel's library. What is left
of auth or encrypt without it is compared with plain: target S2.
"""
import statistics
import sys

from contest import KIB, MIB, size_name
from place import Broken, Place

KERNEL = "uml"
ROUNDS = 7
RANKS = (2, 4)
SIZES = (64 * MIB, MIB, 64 * KIB, 4 * KIB)
PLAIN = "rar-no-carriers"
LEVELS = {"auth": ("rar-auth", "light-auth"), "encrypt": ("rar-encrypt", "light-encrypt")}
S2 = 4, 64 * MIB, 1.10          # ranks, bytes, what is left in times of plain
SPREAD = 0.15                   # between the quartiles of plain: above, the figure is INVALID
SAMPLE_NS = 50e6
SAMPLES = 3
LIMIT_S = 300
MEM_MIB = 3072


def run(place, name, size, times):
    """Nanoseconds of an operation: the least of some samples"""
    job = {"type": "i32", "times": times, "limit": LIMIT_S, "knobs": [32 * KIB], "bytes": [size]}
    return min(place.run(name, job)["ns"] for _ in range(SAMPLES)) / times


def turn(place, name, times):
    """{size: ns} of a contestant; sets how often an operation is done the first time"""
    why = place.start(name)
    if why:
        raise Broken(f"{name}: {why}")
    found = {}
    for size in SIZES:
        if size not in times:
            run(place, name, size, 1)
            times[size] = max(1, min(1000, round(SAMPLE_NS / run(place, name, size, 1))))
        found[size] = run(place, name, size, times[size])
    place.stop(name)
    return found


def measure(place, n, rounds):
    """{name: {size: [ns of each round]}}"""
    place.topology(n, 1500, True)
    names = [PLAIN, *(name for pair in LEVELS.values() for name in pair)]
    times, found = {}, {name: {size: [] for size in SIZES} for name in names}
    for number in range(rounds):
        for name in names if number % 2 else reversed(names):
            for size, ns in turn(place, name, times).items():
                found[name][size].append(ns)
    return found


def ratio(values, of):
    """The median of the ratios of each round"""
    return statistics.median(a / b for a, b in zip(values, of))


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def report(n, found):
    """Print a row for each size; return the verdicts"""
    verdicts = []
    for size in SIZES:
        plain = found[PLAIN][size]
        noisy = spread(plain) > SPREAD
        row = f"{n:>2} {size_name(size):>7} {statistics.median(plain) / 1e3:>10.1f}"
        for level, (ours, cipher) in LEVELS.items():
            whole, alone = found[ours][size], found[cipher][size]
            left = [a - c for a, c in zip(whole, alone)]
            row += (f" {ratio(whole, plain):>8.2f} {ratio(alone, plain):>7.2f}"
                    f" {ratio(left, plain):>6.2f}")
            if (n, size) == S2[:2]:
                good = ratio(left, plain) <= S2[2]
                verdicts.append(f"S2 {level}: {ratio(left, plain):.2f} of at most {S2[2]:.2f}: "
                                + ("INVALID" if noisy else "PASS" if good else "FAIL"))
        print(row + (" INVALID: noisy" if noisy else ""), flush=True)
    return verdicts


def main():
    kernel = sys.argv[1] if len(sys.argv) > 1 else KERNEL
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    place = Place(kernel, 1, None, MEM_MIB)
    verdicts = []
    try:
        print(f"Linux {place.info['kernel']}, one CPU: times of plain")
        print(f"{'':21} {'auth:':>8} {'cipher':>7} {'rest':>6} {'encrypt:':>8} {'cipher':>7} "
              f"{'rest':>6}")
        print(f"{'N':>2} {'size':>7} {'us plain':>10}")
        for n in RANKS:
            verdicts += report(n, measure(place, n, rounds))
    finally:
        place.close()
    print("\n".join(verdicts))


main()
