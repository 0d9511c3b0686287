#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""depth.py [PART [ROUNDS]]: short all-reduces by recursive doubling, targets D3 to D5.

time (D3): time over links with a delay. All ranks share a CPU, which would flatter the ring,
   whose ranks work one after another; so the delay of a link is the number of ranks times 50 us
   (time dilation). The peers are the best of the ring, the chain, halving and recursive doubling over
   TCP, Open MPI and MPICH, which yield when they wait. Ours at 1 MiB go by halving.
instructions (D4): instructions of an operation and rank, without delays.
mpi (D5): MPI_Allreduce() with and without the preloaded library, which does by default what it
   does, with seals, over the links of D3.
"""
import statistics
import sys

from contest import KIB, MIB, size_name
from place import Broken, NotHere, Place

ROUNDS = 5
OURS = ("rar-blocking", "rar-doubling")
PEERS = ("tcp-ring", "tcp-chain", "tcp-halving", "tcp-doubling", "openmpi", "mpich")
TCP = PEERS[:4]
SPREAD = 0.2                # between the quartiles of a side: above, a cell is INVALID
LIMIT_S = 300
# D3
DELAY_RANKS, DELAY_SIZES = (16, 32), (8, 4 * KIB, 64 * KIB, MIB)
LINK_US, NEED_TIME = 50, 1.5
SAMPLE_NS = 200e6
# D4
COUNT_RANKS, COUNT_SIZES = (2, 4, 8, 16), (8, 4 * KIB)
NEED_COUNT = {2: 1, 4: 1.5, 8: 2, 16: 2}
TIMES = 16
# D5
MPI = ("openmpi", "mpich")
MPI_RANKS = (8, 16)
MPI_SIZES = (8, 64, 512, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)
# An all-reduce of these calls, which mpi.c knows by their numbers
MPI_FORMS = (("MPI_Allreduce()", MPI_SIZES),
             ("MPI_Reduce_scatter_block() and MPI_Allgather()", (64, 512, 4 * KIB, 64 * KIB, MIB)),
             ("MPI_Reduce() and MPI_Bcast()", (8, 512, 4 * KIB, 64 * KIB, MIB)))
MPI_CALLS = 200             # after so many a communicator has its ring
NEED_CELL, NEED_MEDIAN = 1.0, 0.7


def run(place, name, size, times, form=0):
    """Nanoseconds of an operation"""
    knobs = [0 if size <= 64 * KIB else 256 * KIB, 0, form]
    job = {"type": "f32", "times": times, "limit": LIMIT_S, "knobs": knobs, "bytes": [size]}
    return place.run(name, job)["ns"] / times


def cell(found, names):
    """The contestant with the least median, that median, and whether its rounds agree"""
    name = min(names, key=lambda n: statistics.median(found[n]))
    low, middle, high = statistics.quantiles(found[name], n=4)
    return name, middle, (high - low) / middle <= SPREAD


def row(n, size, found, need, unit):
    """Print a row and its verdict"""
    columns = "".join(f"{statistics.median(found[c]) / unit:>13.1f}" if found.get(c) else
                      f"{'-':>13}" for c in (*OURS, *PEERS))
    ours, least, steady = cell(found, [c for c in OURS if found.get(c)])
    peer, best, calm = cell(found, [c for c in PEERS if found.get(c)])
    ratio = best / least
    verdict = "INVALID" if not (steady and calm) else "PASS" if ratio >= need else "FAIL"
    print(f"{n:>3} {size_name(size):>7}{columns}  {ours.removeprefix('rar-')} / "
          f"{peer}: {ratio:.2f} of {need}: {verdict}", flush=True)


def heading(text):
    print(text)
    print(f"{'N':>3} {'bytes':>7}" + "".join(f"{c.removeprefix('rar-'):>13}"
                                              for c in (*OURS, *PEERS)), flush=True)


def time_of(place, name, size, rounds, form=0):
    """[ns of each round], or None if the contestant does not do this"""
    try:
        once = run(place, name, size, 1, form)
        again = run(place, name, size, 1, form)
        times = max(1, min(500, round(SAMPLE_NS / again if once else 1)))
        return [run(place, name, size, times, form) for _ in range(rounds)]
    except NotHere:
        return None


def measure(place, names, sizes, rounds, how):
    """{size: {name: values}}; one contestant after the other, as each keeps its processes"""
    found = {size: {} for size in sizes}
    for name in names:
        if place.start(name):
            continue
        for size in sizes:
            try:
                found[size][name] = how(place, name, size, rounds)
            except Broken as why:
                print(f"# {name}, {size} bytes: {why}", file=sys.stderr)
                break
        place.stop(name)
    return found


def times(rounds):
    """D3"""
    place = Place("uml", 1, None, 4096)
    try:
        heading(f"D3, Linux {place.info['kernel']}, one CPU: us; links of N x {LINK_US} us")
        for n in DELAY_RANKS:
            # A packet passes two devices: one of the rank, one of the switch.
            place.topology(n, 1500, True, links=f"any/{n * LINK_US // 2}us")
            for size, found in measure(place, (*OURS, *PEERS), DELAY_SIZES, rounds,
                                       time_of).items():
                row(n, size, found, NEED_TIME, 1e3)
    finally:
        place.close()


def count_of(place, name, size, rounds):
    """[instructions of an operation and rank, all ranks together, of each round]"""
    try:
        return [run(place, name, size, TIMES) for _ in range(rounds + 1)][1:]
    except NotHere:
        return None


def instructions(rounds):
    """D4"""
    place = Place("6.12", 1, None, 2048, count=True)
    try:
        heading(f"D4, Linux {place.info['kernel']}: thousands of instructions of an operation, "
                "all ranks together")
        for n in COUNT_RANKS:
            place.topology(n, 1500, True)
            for size, found in measure(place, (*OURS, *TCP), COUNT_SIZES, rounds,
                                       count_of).items():
                row(n, size, found, NEED_COUNT[n], 1e3)
    finally:
        place.close()


def by_mpi(form, sizes):
    """[ns of each round], once the ring is made"""
    def how(place, name, size, rounds):
        try:
            if size == sizes[0]:
                run(place, name, size, MPI_CALLS, form)
        except NotHere:
            return None
        return time_of(place, name, size, rounds, form)
    return how


def mpi_row(n, size, found):
    """Print a row. Return the ratios of its cells"""
    line, ratios = f"{n:>3} {size_name(size):>7}", []
    for mpi in MPI:
        with_ring = f"{mpi}-ring"
        if not (found.get(mpi) and found.get(with_ring)):
            line += f"{'-':>13}{'-':>13}{'-':>7}"
            continue
        _, alone, calm = cell(found, [mpi])
        _, ring, steady = cell(found, [with_ring])
        if calm and steady:
            ratios.append(ring / alone)
        line += (f"{alone / 1e3:>13.1f}{ring / 1e3:>13.1f}{ring / alone:>7.2f}" +
                 ("" if calm and steady else " INVALID"))
    print(line, flush=True)
    return ratios


def programs(rounds):
    """D5"""
    place = Place("uml", 1, None, 4096)
    ratios = []
    names = [f"{m}{way}" for m in MPI for way in ("", "-ring")]
    try:
        for n in MPI_RANKS:
            place.topology(n, 1500, True, links=f"any/{n * LINK_US // 2}us")
            for form, (calls, sizes) in enumerate(MPI_FORMS):
                print(f"D5, Linux {place.info['kernel']}, one CPU: us of {calls}; links of N x "
                      f"{LINK_US} us\n{'N':>3} {'bytes':>7}" +
                      "".join(f"{m:>13}{'by the ring':>13}{'ratio':>7}" for m in MPI), flush=True)
                for size, found in measure(place, names, sizes, rounds,
                                           by_mpi(form, sizes)).items():
                    ratios += mpi_row(n, size, found)
    finally:
        place.close()
    if not ratios:
        return
    cells = len(MPI) * len(MPI_RANKS) * sum(len(sizes) for _, sizes in MPI_FORMS)
    worst, middle = max(ratios), statistics.median(ratios)
    verdict = ("FAIL" if worst > NEED_CELL or middle > NEED_MEDIAN else
               "PASS" if len(ratios) == cells else "INVALID")
    print(f"{len(ratios)} of {cells} cells: at most {worst:.2f} of {NEED_CELL}, median {middle:.2f} "
          f"of {NEED_MEDIAN}: {verdict}")


PARTS = {"time": times, "instructions": instructions, "mpi": programs}


def main():
    """Measure a part, or all"""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part and part not in PARTS:
        sys.exit("usage: depth.py [time|instructions|mpi [ROUNDS]]")
    for name in [part] if part else PARTS:
        PARTS[name](int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)


main()
