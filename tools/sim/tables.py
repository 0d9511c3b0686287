#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tables.py SIM [TABLE...]: the tables of Documentation/performance.rst about large rings.
tables.py SIM --check FILE: what measure.sh measured, beside what is simulated.

SIM is the simulator's program. The parameters of all tables are fixed here.
"""
import re
import statistics
import subprocess
import sys

RANKS = (16, 64, 256, 1024, 4096, 16384)
SPEED = 10e9            # of a link, bits per second
# All tables, unless a table says otherwise: links of 10 Gbit/s and 10 us, MTU 1500. A superpacket
# of 62 KB takes a CPU 14 us a hop, as measured; see "Where the time of a hop goes".
BASE = ("--speed 10G --delay 10us --mtu 1500 --packet 2500ns --build 2500ns --chunk 57ns "
        "--byte 140 --ack 1us --call 5us")
# As measure.sh: the ranks share a CPU, links carry single packets with Ethernet headers. Only
# the time for a packet is not known; an acknowledgment is taken to cost half as much.
GUEST = "--super 1 --cpus 1 --frame 14 --call 30us --byte 140"
TOLERANCE = 0.15
CALL_US = 5             # of BASE
LARGEST_OFTEN = 256     # ranks of rings of which all ranks are simulated, several times
LARGEST = 1024          # once; larger rings are not. The coarse model is for rings from here on


def simulate(sim, options):
    """Return the figures of a simulation."""
    done = subprocess.run([sim, *options.split()], check=False, text=True, stdout=subprocess.PIPE)
    if not done.stdout:
        sys.exit(f"sim {options}: status {done.returncode}")
    return {name: float(value) for name, value in
            (word.split("=") for word in done.stdout.split())}


def human(us):
    """Return a time with three digits."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}" if us < 1000 * size else f"{us / size:.0f} {unit}"
    return f"{us:.3g} us"


def row(cells, widths):
    """Print a line of a table."""
    print("   " + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths)), flush=True)


def ideal_us(ranks, size):
    """Return the least time that the links need."""
    return 2 * (ranks - 1) / ranks * size * 8 / SPEED * 1e6


# ---------------------------------------------------------------- tables

def table_time(sim):
    """Time of an operation, and as a multiple of the least time that the links need"""
    sizes = ((8 << 10, "8k"), (1 << 20, "1M"), (64 << 20, "64M"), (1 << 30, "1G"))
    widths = (6, *(10, 9) * len(sizes))
    row(("ranks", *(cell for _, name in sizes for cell in (name, "ideal"))), widths)
    for n in RANKS:
        cells = [n]
        for size, name in sizes:
            # A short operation is one block, which all ranks pass on.
            fold = "" if size <= 8192 else "--fold 1"
            us = simulate(sim, f"{BASE} -n {n} -b {name} -r 3 {fold}")["us"]
            ratio = us / ideal_us(n, size)
            cells += [human(us), f"x {ratio:.{0 if ratio >= 100 else 2}f}"]
        row(cells, widths)


def of_code(sim, n, options, seeds):
    """Return the median time by the module's code; none of a ring that is too large"""
    if n > LARGEST:
        return ""
    ops, runs = (5, seeds) if n <= LARGEST_OFTEN else (3, 1)
    return human(statistics.median(
        simulate(sim, f"{BASE} -n {n} {options} -r {ops} --seed {seed}")["us"]
        for seed in range(1, runs + 1)))


def of_coarse(sim, n, options, seeds):
    """Return the median time by the coarse model; none of a ring that is too small"""
    if n < LARGEST:
        return ""
    return human(statistics.median(
        simulate(sim, f"{BASE} -n {n} {options} --coarse --seed {seed}")["us"]
        for seed in range(1, seeds + 1)))


def two_models(sim, columns, size):
    """Print a table of times by the module's code and by the coarse model."""
    widths = (6, *(11, 10) * len(columns))
    row(("ranks", *(cell for name, _, _ in columns for cell in (name, "coarse"))), widths)
    for n in RANKS:
        cells = [n]
        for _, options, seeds in columns:
            more = f"-b {size} {options}"
            cells += [of_code(sim, n, more, seeds), of_coarse(sim, n, more, seeds)]
        row(cells, widths)


def table_slow(sim):
    """4 MiB: one rank's CPU takes twice as long, or ten times; one rank is late by 10 ms"""
    two_models(sim, (("all alike", "", 1), ("CPU x 2", "--slow 3 --slow-by 2", 1),
                     ("CPU x 10", "--slow 3 --slow-by 10", 1),
                     ("late 10 ms", "--late 3 --late-by 10ms", 1)), "4M")


def table_loss(sim):
    """4 MiB: time if each link loses packets"""
    two_models(sim, (("0", "", 1), ("0.01 %", "--loss 0.01", 3), ("0.1 %", "--loss 0.1", 3),
                     ("1 %", "--loss 1", 3)), "4M")


def table_join(sim):
    """Time to join: the table of ranks goes round three times (a model of table.c)"""
    columns = (("10us", 0), ("100us", 0), ("1ms", 0), ("10us", 0.01), ("10us", 0.1))
    widths = (6, 8, *(14,) * len(columns))
    row(("ranks", "slices", *(f"{d}, {loss} %" if loss else d for d, loss in columns)), widths)
    for n in RANKS:
        cells = []
        for delay, loss in columns:
            got = simulate(sim, f"{BASE} --join -n {n} --delay {delay} --loss {loss}")
            cells.append(human(got["us"]) if got["joined"] else "never")
        row((n, int(got["slices"]), *cells), widths)


def table_window(sim):
    """256 MiB, 64 ranks: share of the links' speed, by round trip and net.rar.window"""
    windows = ("256k", "1M", "4M", "16M", "64M", "256M")
    widths = (8, *(8,) * len(windows))
    row(("RTT", *windows), widths)
    for rtt in (10, 100, 1000, 10000, 50000):
        cells = [human(rtt)]
        for window in windows:
            us = simulate(sim, f"{BASE} -n 64 -b 256M -r 4 --fold 1 --delay {rtt * 500}ns "
                               f"--window {window} --limit 1000s")["us"]
            cells.append(f"{ideal_us(64, 256 << 20) / us:.3f}")
        row(cells, widths)


def table_depth(sim):
    """Short operations by doubling: time, times the bound, and how much longer the ring takes.
    The bound is log2 N hops, rounded up, and two more. A hop takes as long as an operation of two
    ranks without its calls. Need: at most 1.5 times the bound"""
    sizes = ((64, "64"), (8 << 10, "8k"), (16 << 10, "16k"))
    widths = (6, 6, *(10, 8, 8) * len(sizes))
    row(("ranks", "hops", *(cell for _, name in sizes for cell in (name, "bound", "ring"))), widths)
    hop = {size: simulate(sim, f"{BASE} -n 2 -b {size} --schedule doubling")["us"] - 2 * CALL_US
           for size, _ in sizes}
    worst = 0
    for n in (4, 16, 17, 64, 100, 256, 1024, 4096):
        power = 1 << n.bit_length() - 1
        cells = [n, power.bit_length() - 1 + 2 * (n > power)]
        for size, _ in sizes:
            us = simulate(sim, f"{BASE} -n {n} -b {size} --schedule doubling -r 3")["us"]
            model = "--coarse" if n > LARGEST_OFTEN else "-r 3"
            ring = simulate(sim, f"{BASE} -n {n} -b {size} {model}")["us"]
            ratio = (us - 2 * CALL_US) / (((n - 1).bit_length() + 2) * hop[size])
            worst = max(worst, ratio)
            cells += [human(us), f"x {ratio:.2f}", f"x {ring / us:.1f}"]
        row(cells, widths)
    print(f"   need: 1.5 at most: {worst:.2f}: {'PASS' if worst <= 1.5 else 'FAIL'}")


def table_halving(sim):
    """Longer all-reduces by halving: time, times the bound, and how much longer the ring takes. The
    bound is what the links need, and 2 log2 N hops of a short operation. Need: at most 1.6 times the
    bound, with 64 ranks and more, from 256 KiB on"""
    sizes = ((64 << 10, "64k"), (256 << 10, "256k"), (1 << 20, "1M"))
    widths = (6, *(10, 8, 8) * len(sizes))
    row(("ranks", *(cell for _, name in sizes for cell in (name, "bound", "ring"))), widths)
    hop = simulate(sim, f"{BASE} -n 2 -b 64 --schedule doubling")["us"] - 2 * CALL_US
    worst = 0
    for n in (8, 16, 20, 48, 64, 100, 256, 1024, 4096):
        cells = [n]
        for size, _ in sizes:
            us = simulate(sim, f"{BASE} -n {n} -b {size} --schedule halving -r 5")["us"]
            model = "--coarse" if n > LARGEST_OFTEN else "-r 3"
            ring = simulate(sim, f"{BASE} -n {n} -b {size} {model}")["us"]
            ratio = (us - 2 * CALL_US) / (ideal_us(n, size) + 2 * (n - 1).bit_length() * hop)
            if n in (64, 256, 1024) and size >= 256 << 10:
                worst = max(worst, ratio)
            cells += [human(us), f"x {ratio:.2f}", f"x {ring / us:.1f}"]
        row(cells, widths)
    print(f"   need: 1.6 at most: {worst:.2f}: {'PASS' if worst <= 1.6 else 'FAIL'}")


def table_shares(sim):
    """All-gathers, by ranks and the bytes that each contributes: the time by the ring, and how many
    times as fast they are by doubling, by halving, and with RAR_AUTO. A reduce-scatter
    sends as many packets"""
    sizes = (8, 256, 512, 1024, 4096, 16384)
    widths = (6, *(9, 5, 5, 6) * len(sizes))
    row(("ranks", *(cell for size in sizes for cell in (f"{size}", "dbl", "hlv", "auto"))),
        widths)
    worst = 1
    for n in (3, 4, 6, 8, 12, 16, 20, 48, 64, 100, 256):
        cells = [n]
        for size in sizes:
            ways = ("ring", "doubling", "halving", "auto")
            us = {way: simulate(sim, f"{BASE} -n {n} -b {n * size} -r 3 --collective allgather "
                                     f"--schedule {way}")["us"]
                  for way in ways if way != "doubling" or n * size <= 64 << 10}
            worst = max(worst, us["auto"] / us["ring"])
            cells += [human(us["ring"]), *(f"{us['ring'] / us[way]:.1f}" if way in us else "-"
                                           for way in ("doubling", "halving", "auto"))]
        row(cells, widths)
    print(f"   need: RAR_AUTO is never slower than the ring: {worst:.2f}: "
          f"{'PASS' if worst <= 1.01 else 'FAIL'}")


def table_choice(sim):
    """Short operations: the way of RAR_AUTO; if another is faster, its time / the time of that way"""
    sizes = (8, 1 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10)
    delays = (10, 50, 200)
    widths = (6, 7, *(22,) * len(sizes))
    row(("ranks", "delay", *sizes), widths)
    worst = {}
    for n in (2, 4, 8, 16, 17, 64):
        for delay in delays:
            cells = []
            for size in sizes:
                ways = ("auto", *(("direct",) if n <= 16 else ()), "doubling", "halving", "ring")
                us = {way: simulate(sim, f"{BASE} -n {n} -b {size} -d {delay}us -r 3 "
                                         f"--schedule {way}")["us"] for way in ways}
                auto = us.pop("auto")
                best = min(us, key=us.get)
                chosen = next(way for way in us if us[way] == auto)
                ratio = auto / us[best]
                worst[delay] = max(worst.get(delay, 1), ratio)
                cells.append(chosen + (f" {ratio:.2f} {best}" if ratio >= 1.005 else ""))
            row((n, f"{delay}us", *cells), widths)
    told = ", ".join(f"{ratio:.2f} at {delay} us" for delay, ratio in worst.items())
    print(f"   need: 1.1 at most: {told}: {'PASS' if max(worst.values()) <= 1.1 else 'FAIL'}")


def table_wire(sim):
    """Links between switches with short queues: W5 to W7. A share of the link: of the ring's sums,
    and of a TCP flow with CUBIC alone; or of both together. 4 ranks, 1 Gbit/s (W5), 100 Mbit/s"""
    cells = []

    def net(speed, rtt, queue, more=""):
        return f"--speed {speed}M --delay {rtt * 500}us --queue {queue} {more}"

    def size(speed, seconds):
        return int(speed * 1e6 / 8 * seconds / 1.5) // 16384 * 16384

    def alone(name, options, speed, seconds, need, least):
        ring = simulate(sim, f"{options} -n 4 -b {size(speed, seconds)} -r 3 --limit 1000s")
        tcp = simulate(sim, f"{options} --cubic 1 --no-ring -r 3 --limit {6 * seconds}s")
        share, cubic = ring["goodput"], tcp["tcp"]
        # What CUBIC does not reach need not be reached.
        good = share >= need if least is None else \
            share >= cubic and (share >= need or cubic < need)
        cells.append(good)
        row((name, f"{share:.2f}", f"{cubic:.2f}", f"{need:.2f}", "PASS" if good else "FAIL"), widths)

    def beside(name, options, speed, seconds):
        got = simulate(sim, f"{options} -n 4 -b {size(speed, seconds)} -r 3 --cubic 1 --limit 1000s")
        share = got["ring"] / (got["ring"] + got["tcp"])
        cells.append(.35 <= share <= .65)
        row((name, f"{got['ring']:.2f}", f"{got['tcp']:.2f}", f"{share:.2f}",
             "PASS" if cells[-1] else "FAIL"), widths)

    widths = (30, 7, 7, 7, 6)
    row(("alone", "ring", "CUBIC", "need", ""), widths)
    for rtt, need in ((1, .85), (10, .85), (50, .80)):
        alone(f"W5 {rtt} ms", net(1000, rtt, max(100, 81 * rtt)), 1000, 4, need, None)
    for rtt in (10, 50):
        for name, more, need in ((".1 % lost", "--loss .1", .8), ("1 % lost", "--loss 1", .5),
                                 ("5 % late", "--reorder 5", .8)):
            alone(f"W6 {rtt} ms, {name}", net(100, rtt, 8 * rtt, more), 100, 8, need, True)
    alone("W6 10 ms, queue of 20", net(100, 10, 20), 100, 8, .85, True)
    alone("W6 10 ms, marks from 20 on", net(100, 10, 200, "--mark 20"), 100, 8, .8, True)
    row(("together", "ring", "CUBIC", "share", ""), widths)
    for rtt in (.2, 10, 40):
        for queue in sorted({20, round(8.1 * rtt), 1000} - {2}):
            # On a long link flows need some time to find their shares.
            beside(f"W7 {rtt} ms, queue of {queue}", net(100, rtt, queue), 100, max(10, rtt))
    print(f"   {sum(cells)} of {len(cells)}: {'PASS' if all(cells) else 'FAIL'}")


TABLES = {"wire": table_wire, "time": table_time, "depth": table_depth,
          "halving": table_halving, "shares": table_shares, "choice": table_choice, "slow": table_slow,
          "loss": table_loss, "join": table_join, "window": table_window}


# ---------------------------------------------------------------- what was measured

def measured(path):
    """Yield the set-ups of measure.sh: words, and the times of the repeats."""
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("measured "):
                words = dict(re.findall(r"(\w+)=(\S+)", line))
                yield words, [float(us) for us in words.pop("us").split(",")]


def typical(words, times):
    """Return the time to compare: the median if packets are lost, otherwise the best, since other
    work on the machine only makes an operation slower"""
    return statistics.median(times) if float(words["loss"]) else min(times)


def simulated(sim, words, packet):
    """Return the simulated time of a set-up, with that time of a CPU for a packet, ns."""
    lossy = float(words["loss"]) > 0
    hosts = f"--packet {packet}ns --build {packet}ns --ack {packet // 2}ns"
    return statistics.median(
        simulate(sim, f"{GUEST} {hosts} -n {words['n']} -b {words['bytes']} "
                      f"--speed {words['mbit']}M --delay {words['delay_us']}us "
                      f"--loss {words['loss']} -r 10 --seed {seed}")
        ["us" if lossy else "best_us"] for seed in range(1, 6 if lossy else 2))


def time_of_packet(sim, words, times):
    """Return the time of a packet with which the CPU alone would take the time measured, ns."""
    low, high = 0, 1 << 20
    while high - low > 10:
        middle = (low + high) // 2
        if simulated(sim, words, middle) < typical(words, times):
            low = middle
        else:
            high = middle
    return low


def check(sim, path):
    """Compare. Returns whether all ratios are within the tolerance."""
    packet, right = None, True
    widths = (6, 10, 7, 10, 6, 12, 12, 8)
    for words, times in measured(path):
        if words["mbit"] == "0":
            packet = time_of_packet(sim, words, times)
    if packet is None:
        sys.exit(f"{path}: it does not say how fast the CPU was")
    print(f"   a packet takes the CPU {packet / 1e3:.1f} us\n")
    row(("ranks", "bytes", "Mbit/s", "delay", "loss", "measured", "simulated", "ratio"), widths)
    for words, times in measured(path):
        if words["mbit"] == "0":
            continue
        us, want = simulated(sim, words, packet), typical(words, times)
        ok = abs(us / want - 1) <= TOLERANCE
        right = right and ok
        row((words["n"], words["bytes"], words["mbit"], words["delay_us"] + " us",
             words["loss"] + " %", human(want), human(us), f"{us / want:.3f} " + " !"[not ok]),
            widths)
    print(f"   need: 1 +- {TOLERANCE}: {'PASS' if right else 'FAIL'}")
    return right


def main():
    """Print what the arguments ask for."""
    sim, *what = sys.argv[1:] or [""]
    if what[:1] == ["--check"] and len(what) == 2:
        sys.exit(not check(sim, what[1]))
    if not sim or not set(what) <= set(TABLES):
        sys.exit(f"usage: tables.py SIM [{'|'.join(TABLES)}]... | --check FILE")
    for name in what or TABLES:
        print(f"{TABLES[name].__doc__} ({name})\n")
        TABLES[name](sim)
        print()


if __name__ == "__main__":
    main()
