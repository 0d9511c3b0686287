#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""instructions.py [KERNEL [ROUNDS]]: the instructions that a short operation costs each rank.

The guest has one processor, whose clock counts its instructions, so these figures do not depend
on what else the machine does, nor on its caches. They include everything that runs in the
guest for an operation: the programs, their system calls, and the changes from one to the next.
"""
import statistics
import sys

from contest import KIB
from place import NotHere, Place

KERNEL = "6.12"
ROUNDS = 8
TIMES = 16              # operations in a round: the sums of more do not fit a float
RANKS = (2, 4, 8)
SIZES = (64, 4 * KIB, 64 * KIB)
CONTESTANTS = ("rar-blocking", "rar-auto", "rar-doubling", "rar-in-place", "rar-registered", "rar-copy",
               "rar-local", "rar-no-carriers", "rar-auth", "rar-encrypt", "tcp-ring", "tcp-chain",
               "tcp-doubling")
MEM_MIB = 1024
LIMIT_S = 300


def of_operation(place, name, n, size, rounds):
    """Instructions of an operation and rank: the median of the rounds after the first"""
    job = {"type": "f32", "times": TIMES, "limit": LIMIT_S, "knobs": [0, 0, 0], "bytes": [size]}
    ns = [place.run(name, job)["ns"] for _ in range(rounds + 1)][1:]
    return statistics.median(ns) / TIMES / n


def figure(place, name, n, size, rounds):
    try:
        return f"{of_operation(place, name, n, size, rounds):>11.0f}"
    except NotHere:
        return f"{'-':>11}"


def main():
    kernel = sys.argv[1] if len(sys.argv) > 1 else KERNEL
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    place = Place(kernel, 1, None, MEM_MIB, count=True)
    try:
        print(f"Linux {place.info['kernel']}: instructions of an operation and rank, by bytes")
        print(f"{'':14}" + "".join(f"{f'N={n} {s}':>11}" for n in RANKS for s in SIZES),
              flush=True)
        table = {name: "" for name in CONTESTANTS}
        for n in RANKS:
            place.topology(n, 1500, True)
            for name in CONTESTANTS:
                why = place.start(name)
                for size in SIZES:
                    table[name] += f"{'-':>11}" if why else figure(place, name, n, size, rounds)
                place.stop(name)
        for name, row in table.items():
            print(f"{name:14}{row}")
    finally:
        place.close()


if __name__ == "__main__":
    main()
