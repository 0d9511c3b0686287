#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""samples/exact.c: the bits of a sum depend on its inputs only, not on who has which.

A rank is a process in each of the namespaces rar0 ... of lib.sh. The reference is
exact arithmetic on fractions.
"""
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap

RANKS = 5
COUNT = 3000                    # elements: the sums are 24000 bytes, so several blocks of the ring
BLOCK = 256                     # elements that share a unit
MAX = 0x7f7fffff
INF, MINUS_INF, NAN = 0x7f800000, 0xff800000, 0xffc00000

# What ranks contribute, and the sum. Each table is a block: what is in one block shares a unit.
TABLES = (
    (
        ((0x80000000, 0x80000000), 0),                  # -0 - 0 = +0
        ((0x4b800000, 0x3f800000, 0x3f800000), 0x4b800001),     # 2^24 + 1 + 1
    ), (
        ((1, 1), 2),                                    # subnormal
        ((1, 0x80000001), 0),
        ((0x7fffff, 1), 0x800000),
    ), (
        ((MAX, MAX), INF),
        ((MAX, MAX, MAX | 1 << 31), MAX),               # no overflow on the way
    ), (
        ((INF, MAX), INF),
        ((MINUS_INF, MINUS_INF), MINUS_INF),
        ((INF, MINUS_INF), NAN),
        ((0x7fc00000, 0), NAN),
        ((MAX, 0), MAX),                                # beside infinities
    ),
)


def bits_of(number):
    return struct.unpack("I", struct.pack("f", number))[0]


def text_of(bits):
    """As the program reads it."""
    return repr(struct.unpack("f", struct.pack("I", bits))[0])


def exponent_of(bits):
    return max(bits >> 23 & 0xff, 1)


def fraction_of(bits):
    """The value of a finite float."""
    mantissa = bits & 0x7fffff | (bits & INF and 0x800000)
    return (-1) ** (bits >> 31) * mantissa * Fraction(2) ** (exponent_of(bits) - 150)


def rounded(value):
    """The bits of the nearest float; round() takes the even one of two."""
    sign, size, exponent = (value < 0) << 31, abs(value), 1
    while size >= Fraction(2) ** (exponent - 126):
        exponent += 1
    mantissa = round(size / Fraction(2) ** (exponent - 150))
    return sign | min(((exponent - 1) << 23) + mantissa, INF)


def is_finite(bits):
    return bits & INF != INF


def block_sums(columns):
    """The sums of a block of elements; each column is what the ranks contribute."""
    inputs = [bits for column in columns for bits in column]
    exponent = max((exponent_of(bits) for bits in inputs if is_finite(bits)), default=1)
    special = not all(map(is_finite, inputs))
    unit = Fraction(2) ** (exponent - (150 if special else 176))
    for column in columns:
        if all(map(is_finite, column)):
            yield rounded(sum(round(fraction_of(bits) / unit) for bits in column) * unit)
        else:
            others = {bits for bits in column if not is_finite(bits)}
            yield others.pop() if others in ({INF}, {MINUS_INF}) else NAN


def exact_sums(ranks):
    columns = list(zip(*ranks))
    return [bits for first in range(0, len(columns), BLOCK)
            for bits in block_sums(columns[first:first + BLOCK])]


def element(rng, index):
    """Of any size; of sizes that cancel; of a few sizes, as data mostly are."""
    if index % 3 == 0:
        return rng.randrange(255) << 23 | rng.getrandbits(23) | rng.getrandbits(1) << 31
    if index % 3 == 1:
        return bits_of(rng.choice((1, -1)) * rng.choice((1e8, 12345.678, 1)) + rng.random())
    return bits_of(rng.gauss(0, 1))


def listed():
    """The number of each element that is in a table, its inputs and its sum."""
    for first, table in enumerate(TABLES):
        for i, (inputs, want) in enumerate(table):
            yield first * BLOCK + i, inputs, want


def contributions(rng, size):
    """A list for each rank: the tables, then random elements."""
    start_of_random = len(TABLES) * BLOCK
    ranks = [[0] * start_of_random + [element(rng, i) for i in range(start_of_random, COUNT)]
             for _ in range(size)]
    for i, inputs, _ in listed():
        for rank, bits in zip(ranks, inputs):
            rank[i] = bits
    return ranks


def start(rank, ranks):
    size = len(ranks)
    here, there = (f"10.77.0.{r + 1}" for r in (rank, (rank + 1) % size))
    return subprocess.Popen(
        ["nsenter", f"--net=/run/netns/rar{rank}", "exact", str(rank), str(size), here, there,
         *map(text_of, ranks[rank])], stdout=subprocess.PIPE, text=True)


def parse(output):
    """What a rank prints: the bits of the plain sums and of the exact ones."""
    words = [line.split() for line in output.splitlines()]
    return tuple([bits_of(float(line[at])) for line in words] for at in (3, 5))


def run(ranks):
    """Sums them in a ring. All ranks have the same sums: return those."""
    processes = [start(rank, ranks) for rank in range(len(ranks))]
    results = [parse(process.communicate(timeout=60)[0]) for process in processes]
    if any(process.returncode for process in processes) or len(results[0][1]) != COUNT:
        raise RuntimeError("a rank has failed")
    if any(result != results[0] for result in results):
        raise RuntimeError("the ranks have different sums")
    return results[0]


def right(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            tap.note(f"element {i} of {len(want)} is {a:#x}, not {b:#x}")
            return False
    return True


def as_listed(got, size):
    """Are the sums those of the tables, as far as there are ranks for them?"""
    return all(got[i] == want for i, inputs, want in listed() if len(inputs) <= size)


def in_other_orders(rng, ranks, plain, exact):
    """The ranks exchange their data: the plain sums change, the exact ones do not."""
    differ = 0
    for order in (ranks[1:] + ranks[:1], rng.sample(ranks, len(ranks)), ranks[::-1]):
        plain_again, again = run(order)
        if not right(again, exact):
            return False
        differ = max(differ, sum(a != b for a, b in zip(plain, plain_again)))
    tap.note(f"in another order up to {differ} of {COUNT} plain sums have other bits")
    return differ > COUNT // 50 if len(ranks) > 2 else True     # x + y = y + x


def test_size(rng, size):
    ranks = contributions(rng, size)
    plain, exact = run(ranks)
    tap.result(right(exact, exact_sums(ranks)) and as_listed(exact, size),
               f"{size} ranks: the sums of the reference")
    tap.result(in_other_orders(rng, ranks, plain, exact),
               f"{size} ranks in other orders: the same bits")
    return ranks, exact


def test_zeros(rng, ranks, exact):
    """A further rank contributes nothing, and may be anywhere."""
    zeros = [rng.getrandbits(1) << 31 for _ in range(COUNT)]
    at = rng.randrange(len(ranks) + 1)
    tap.result(right(run(ranks[:at] + [zeros] + ranks[at:])[1], exact),
               f"{len(ranks)} ranks and a rank of zeros: the same bits")


def main():
    if not shutil.which("exact"):
        tap.skip_all("the sample is not built")
    if not os.path.exists(f"/run/netns/rar{RANKS - 1}"):
        tap.skip_all(f"run me as lib/in_topo.sh {RANKS} sums/exact.py")
    rng = random.Random(tap.get_seed())
    for size in range(2, RANKS + 1):
        ranks, exact = test_size(rng, size)
        if size < RANKS:
            test_zeros(rng, ranks, exact)
    tap.finish()


main()
