#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The simulator of tools/sim agrees with what is known without it.

Times without loss are those of a closed formula; each element of each sum is right, with and
without loss; no chunk is added or stored twice; the same seed gives the same run; a ring whose
lost chunks are not sent again hangs; some ranks stand for all; the coarse model agrees with the
module's code, and this with times that were measured. The simulator is built with ASan and UBSan,
and with a stack that is not clear, so that a value which the module's code forgets to set shows.
"""
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from tap import finish, get_seed, note, result      # noqa: E402

BUILD = TOP / "build/sim.test"
EXTRA = ("-fsanitize=address,undefined -fno-sanitize-recover=undefined "
         "-ftrivial-auto-var-init=pattern")
PAYLOAD = 1408          # of a packet with an MTU of 1500
OVERHEAD = 28 + 64      # IP, UDP, and the header of a chunk
# Hosts that need no time, devices without a limit, single packets.
IDLE = ("--packet 0ns --build 0ns --chunk 0ns --byte 0 --ack 0ns --call 0ns --super 1 "
        "--frame 0").split()
seed = get_seed()


def build():
    """Build the simulator."""
    made = subprocess.run(["make", "-s", "-C", TOP / "tools/sim", f"O={BUILD}", f"EXTRA={EXTRA}"],
                          check=False, text=True, capture_output=True)
    for line in (made.stdout + made.stderr).splitlines():
        note(line)
    result(made.returncode == 0 and "warning" not in made.stderr, "it is built without warnings")


def run(*options, fails=False):
    """Simulate. Return its figures; note them if the exit status is not the one expected."""
    command = [BUILD / "sim", *map(str, options)]
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    words = dict(word.split("=") for word in done.stdout.split())
    if done.returncode != fails:
        note(" ".join(map(str, command)) + f": {done.returncode}\n{done.stdout}{done.stderr}")
        return {**dict.fromkeys(("us", "added", "hung", "wrong", "odd"), float("nan"))}
    return {name: float(value) for name, value in words.items()}


def near(got, want, share):
    """Is a figure the one wanted, but for a share of it?"""
    if not abs(got - want) <= share * want:
        note(f"{got}, expected {want}")
        return False
    return True


def chunks(size, ranks):
    """Return the chunks of an operation."""
    block = (-(-size // ranks) + 63) // 64 * 64 if size > 8192 else size
    return sum(-(-min(block, size - at) // PAYLOAD) for at in range(0, size, block))


def check_latency():
    """A packet takes 2(N-1) hops, and nothing else takes time."""
    right = all(near(run("-n", n, "-b", 1024, "-s", 0, "-d", "50us", *IDLE)["us"],
                     2 * (n - 1) * 50, 1e-6) for n in (2, 3, 16, 100))
    result(right, "latency alone: 2(N-1) hops")


def check_schedules():
    """Doubling takes log2 N hops, or that rounded down and two more, of which a single pair hides
    one; a direct exchange takes one. Each rank of 2^k sends k partial sums. Sums are right with and without loss, and one rank's
    delay is not made longer."""
    right = True
    for n, hops in ((2, 1), (3, 2), (4, 2), (7, 4), (16, 4), (17, 5), (64, 6), (100, 8)):
        got = run("-n", n, "-b", 1024, "-s", 0, "-d", "50us", "--schedule", "doubling", *IDLE)
        right &= near(got["us"], hops * 50, 1e-6)
        if n & (n - 1) == 0:
            right &= near(got["chunks"], 5 * n * hops, 0)
    result(right, "doubling: log2 N hops")
    result(near(run("-n", 16, "-b", 1024, "-s", 0, "-d", "50us", "--schedule", "direct",
                    *IDLE)["us"], 50, 1e-6), "direct: one hop")
    right = True
    for schedule, sizes in (("doubling", (2, 3, 5, 16, 23)), ("direct", (2, 3, 16))):
        for n in sizes:
            for loss, size in ((0, 8), (2, 16384), (20, 4096)):
                got = run("-n", n, "-b", size, "-l", loss, "-r", 3, "--numbers", "--seed", seed + n,
                          "--schedule", schedule)
                right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    result(right, "doubling and direct: right sums, and nothing is kept, whatever is lost")
    ring = run("-n", 64, "-b", 1024, "-l", 0.1, "-r", 41, "--late", 3, "--late-by", "10ms")["us"]
    us = run("-n", 64, "-b", 1024, "-l", 0.1, "-r", 41, "--late", 3, "--late-by", "10ms",
             "--schedule", "doubling")["us"]
    note(f"64 ranks, one late by 10 ms, 0.1 % loss: ring {ring} us, doubling {us} us")
    result(us <= ring, "doubling is not slower than the ring with a late rank and loss")


def check_shares():
    """A reduce-scatter, and an all-gather, is one half of that: log2 N hops, and each rank sends the
    other ranks' shares, or its own and those that it got. With short shares they go by doubling."""
    hops_right = bytes_right = right = True
    for what in ("reduce_scatter", "allgather"):
        common = ("--collective", what, "--schedule", "halving", "-r", 3)
        for n in (2, 3, 4, 6, 7, 16, 23, 64):
            got = run("-n", n, "-b", n * 1024, "-s", 0, "-d", "50us", *common, *IDLE)
            # A share hops as often as the distance to its rank has bits; its sum may wait for others.
            least = max(f"{far:b}".count("1") for far in range(n))
            hops_right &= least * 50 <= got["us"] + 1e-6 <= (n - 1).bit_length() * 50 + 1e-3
            bytes_right &= near(got["chunks"], 3 * n * (n - 1), 0)
            for loss, share in ((0, 8), (2, 20000), (20, 4096)):
                got = run("-n", n, "-b", n * share, "-l", loss, "--numbers", "--seed", seed + n,
                          *common)
                right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    result(hops_right, "reduce-scatter and all-gather by halving: log2 N hops at most")
    short = True
    for n, hops in ((4, 2), (7, 4), (16, 4), (17, 5), (64, 6)):
        for what in ("reduce_scatter", "allgather"):
            common = ("--collective", what, "--schedule", "doubling")
            got = run("-n", n, "-b", n * 8, "-s", 0, "-d", "50us", *common, *IDLE)
            short &= near(got["us"], hops * 50, 1e-6)
            for loss in (0, 5):
                got = run("-n", n, "-b", n * 512, "-l", loss, "-r", 3, "--numbers", "--seed", seed + n,
                          *common)
                right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    for n in (2, 5, 16):
        common = ("--collective", "allgather", "--schedule", "direct")
        got = run("-n", n, "-b", n * 8, "-s", 0, "-d", "50us", *common, *IDLE)
        short &= near(got["us"], 50, 1e-6)
        got = run("-n", n, "-b", n * 2000, "-l", 5, "-r", 3, "--numbers", "--seed", seed + n, *common)
        right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    result(short, "short reduce-scatter and all-gather: the hops of doubling, or one")
    result(bytes_right, "reduce-scatter and all-gather by halving: N-1 shares leave each rank")
    result(right, "reduce-scatter and all-gather by halving: right, and nothing is kept, whatever is lost")
    ring, us = (run("-n", 64, "-b", 256 << 10, "--collective", "allgather", "--schedule", way)["us"]
                for way in ("ring", "halving"))
    note(f"64 ranks, 256 KiB, all-gather: ring {ring} us, halving {us} us")
    result(2 * us <= ring, "an all-gather of 64 ranks takes half of the ring's time at most")


def check_halving():
    """Halving takes twice as many hops as doubling, and each rank passes on what the ring does. Sums
    are right, and nothing is kept, whatever is lost; a late rank and losses cost no more than by the
    ring; and of long rings it takes a fraction of the time."""
    right = True
    for n, hops in ((2, 2), (4, 4), (16, 8), (5, 6), (23, 10)):
        got = run("-n", n, "-b", 32 << 10, "-s", 0, "-d", "50us", "--schedule", "halving", *IDLE)
        right &= near(got["us"], hops * 50, 1e-6)
    result(right, "halving: 2 log2 N hops, rounded up")
    right = True
    for n in (16, 23):
        got = run("-n", n, "-b", 1 << 20, "--schedule", "halving", "-r", 3)
        right &= near(got["chunks"], 3 * 2 * (n - 1) * -(-(1 << 20) // 1408), 1e-3)
    result(right, "halving: no more bytes than the ring")
    right = True
    for n in (2, 3, 5, 16, 23):
        for loss, size in ((0, 8), (2, 100000), (20, 40000)):
            got = run("-n", n, "-b", size, "-l", loss, "-r", 3, "--numbers", "--seed", seed + n,
                      "--schedule", "halving")
            right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    result(right, "halving: right sums, and nothing is kept, whatever is lost")
    late = ("-n", 64, "-b", 256 << 10, "-l", 0.1, "-r", 21, "--late", 3, "--late-by", "10ms")
    ring, us = run(*late)["us"], run(*late, "--schedule", "halving")["us"]
    note(f"64 ranks, 256 KiB, one late by 10 ms, 0.1 % loss: ring {ring} us, halving {us} us")
    result(us <= ring, "halving is not slower than the ring with a late rank and loss")
    ring, us = (run("-n", 256, "-b", 256 << 10, "-r", 3, "--schedule", way)["us"]
                for way in ("ring", "halving"))
    result(us < ring / 4, f"256 ranks, 256 KiB: {us} us, the ring takes {ring} us")


def check_trees():
    """Broadcasts and reductions to a root by doubling take log2 N hops, to and from any root, and two
    more with folded ranks. What comes is right, and nothing is kept, whatever is lost."""
    right = True
    for n, root, hops in ((2, 1, 1), (4, 3, 2), (16, 0, 4), (16, 9, 4), (17, 1, 5), (64, 5, 6)):
        for what in ("broadcast", "reduce"):
            got = run("-n", n, "-b", 1024, "-s", 0, "-d", "50us", "--schedule", "doubling",
                      "--collective", what, "--root", root, *IDLE)
            right &= near(got["us"], hops * 50, 1e-6)
    result(right, "broadcast and reduction: log2 N hops")
    right = True
    for n, root in ((2, 0), (3, 1), (5, 0), (16, 7), (23, 3), (33, 32)):
        for what in ("broadcast", "reduce"):
            for loss, size in ((0, 8), (2, 65536), (20, 4096)):
                got = run("-n", n, "-b", size, "-l", loss, "-r", 10, "--numbers", "--seed", seed + n,
                          "--schedule", "doubling", "--collective", what, "--root", root,
                          "--late", n - 1)
                right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
    result(right, "broadcast and reduction: right, and nothing is kept, whatever is lost")


def check_hosts():
    """A packet takes the time of the hosts at each hop. Partial sums are in packets that are built:
    in the first operation the successor is not known to have posted, so the packet that came does
    not go on."""
    options = ("--packet 3us --build 2us --chunk 100ns --byte 200 --ack 0ns --call 0ns "
               "--super 1").split()
    data = 0.1 + 1024 * 200e-6
    right = all(near(run("-n", n, "-b", 1024, "-s", 0, "-d", "50us", *options)["first_us"],
                     (n - 1) * (2 * (50 + 3 + data) + 2 + data), 1e-4) for n in (2, 3, 16))
    result(right, "latency with the time of hosts")


def check_bandwidth():
    """All links are busy all the time: 2(N-1)/N of the bytes, with their headers. Acknowledgments
    take 1.2 %, and to fill and to drain the ring takes time, too. The best operation counts: how
    the next ones begin depends on the order in which their ranks end."""
    right = True
    for n, size in ((2, 4 << 20), (4, 4 << 20), (8, 8 << 20), (32, 8 << 20)):
        bits = 8 * size * (1 + OVERHEAD / PAYLOAD) * 2 * (n - 1) / n
        us = run("-n", n, "-b", size, "-s", "1G", "-d", "1us", "-r", 3, "--window", "1G",
                 *IDLE)["best_us"]
        right &= us >= bits / 1e3 and near(us, bits / 1e3, 0.05)
    result(right, "bandwidth alone: 2(N-1)/N of the bytes, and headers")


def check_sums():
    """Each chunk is added or stored once at each rank that it passes; all sums are right."""
    for loss, more in ((0, ()), (0.1, ()), (2, ("--super", 1)), (20, ()),
                       (2, ("--whole", "--late", 1)), (2, ("--cpus", 1)), (0, ("--slow", 1))):
        right = True
        for n, size in ((2, 100000), (3, 8), (5, 77776), (16, 1 << 20)):
            got = run("-n", n, "-b", size, "-l", loss, "-r", 3, "--numbers", "--seed", seed + n,
                      *more)
            passed = 3 * 2 * (n - 1) * chunks(size, n)
            right &= (got["wrong"], got["hung"], got["odd"], got["unreleased"]) == (0, 0, 0, 0)
            right &= near(got["added"], passed, 0)
        result(right, " ".join(map(str, ("each chunk once, and right sums: loss", loss, *more))))


def check_seed():
    """The same seed gives the same run, another seed another one."""
    lossy = ("-n", 9, "-b", "1M", "-l", 1, "--seed")
    first, again, other = (run(*lossy, s) for s in (seed + 1, seed + 1, seed + 2))
    result(first == again, "the same seed gives the same run")
    result(first != other, "another seed gives another run")


def check_goodput():
    """Lost superpackets cost little: chunks that came are not sent again, and the window stays.
    The seeds are always the same, so the figures are, too."""
    for need, ring in ((0.82, ("-n", 4, "-s", 0, "--frame", 0, "--cpus", 1)),
                       (0.48, ("-n", 8, "-s", "1G"))):
        ring = (*ring, "-b", "16M", "-d", "1ms", "--whole", "-r", 4)
        lossy = [run(*ring, "-l", 1, "--seed", i + 1) for i in range(5)]
        share = run(*ring)["us"] / sorted(got["us"] for got in lossy)[2]
        twice = sum(got["dups"] for got in lossy) / sum(got["again"] for got in lossy)
        result(share >= need and twice < 0.01,
               f"1 % of the superpackets lost, {ring[1]} ranks: {share:.2f} of the goodput, "
               f"{100 * twice:.2f} % of the chunks sent again had come")


def check_wire():
    """Links between switches whose queues drop packets, mark them, or are long; and a TCP flow
    beside: right sums, and a good share for both. scripts/sim wire has all cases, and the targets;
    what is needed here is a little less."""
    ring = ("-n", 4, "-r", 3, "--queue", 5)
    got = run(*ring, "-b", "1M", "--cubic", 1, "--reorder", 5, "-s", "100M", "-d", "1ms", "--numbers")
    result((got["wrong"], got["hung"]) == (0, 0) and got["lost"] > 100,
           f"right sums beside TCP, by a queue of 5 packets: {got['lost']:.0f} lost")
    for name, need, net in (("a queue of 20 packets", .8, "-s 100M -d 5ms -b 32M --queue 20"),
                            ("marks from 20 packets on", .75,
                             "-s 100M -d 5ms -b 32M --queue 200 --mark 20"),
                            ("1 Gbit/s and 50 ms", .7, "-s 1G -d 25ms -b 256M --queue 4000")):
        got = run("-n", 4, "-r", 3, *net.split())
        result(got["goodput"] >= need, f"{name}: {got['goodput']:.2f} of the link")
    for queue in (20, 80, 1000):
        got = run("-n", 4, "-r", 3, "-s", "100M", "-d", "5ms", "-b", "64M", "--queue", queue, "--cubic", 1)
        share = got["ring"] / (got["ring"] + got["tcp"])
        result(.3 <= share <= .7 and got["ring"] + got["tcp"] > .85,
               f"beside TCP, by a queue of {queue} packets: {share:.2f} for the ring")
    got = run("-n", 2, "-r", 3, "-s", "100M", "-d", "5ms", "--queue", 20, "--cubic", 1, "--no-ring",
              "--limit", "30s")
    result(.9 <= got["tcp"] <= 1, f"TCP alone: {got['tcp']:.2f}")


def check_no_resend():
    """Without sending again a lossy ring hangs, and a ring without loss does not."""
    lossy = ("-n", 4, "-b", "1M", "-r", 1, "--limit", "5s", "--seed", seed + 1)
    result(run(*lossy, "-l", 1, "--no-resend", fails=True)["hung"] == 1,
           "a ring that sends nothing again hangs if something is lost")
    result(run(*lossy, "--no-resend")["hung"] == 0, "and does not hang otherwise")


def check_fold():
    """A few ranks that stand for all take the time of all."""
    right = True
    for n, more in ((16, ()), (64, ("--super", 1)), (12, ("-d", "1ms"))):
        ring = ("-n", n, "-b", n * 64 * 320, *more)
        us = run(*ring)["us"]
        right &= all(near(run(*ring, "--fold", f)["us"], us, 0.005) for f in (1, 2, n // 2))
    result(right, "some ranks stand for all")


def check_coarse():
    """The coarse model agrees with the module's code."""
    for n, more in ((16, ()), (64, ()), (64, ("--late", 5)), (64, ("--slow", 5)),
                    (128, ("-l", 1)), (128, ("-l", 0.1))):
        ring = ("-n", n, "-b", n * 4096, *more)
        ok = near(run(*ring, "--coarse")["us"], run(*ring, "-r", 9)["us"], 0.15)
        result(ok, " ".join(map(str, (f"coarse, {n} ranks", *more))))


def check_late():
    """A rank that is late delays the others by that time."""
    ring = ("-n", 16, "-b", "256k", "-r", 3)
    more = run(*ring, "--late", 3, "--late-by", "10ms")["us"] - run(*ring)["us"]
    result(near(more, 10000, 0.02), "a rank that is late by 10 ms")


def check_join():
    """COLLECT, PROPOSE and COMMIT go round, however long that takes, in the time of a join."""
    result(near(run("--join", "-n", 100, "-d", "1ms")["us"], 3 * 100 * 1000, 0.1),
           "join: three rounds")
    slow = run("--join", "-n", 100, "-d", "25ms")
    result(slow["joined"] == 1 and near(slow["us"], 3 * 100 * 25000, 0.1),
           "join: a round of more than two seconds")
    result(run("--join", "-n", 100, "-d", "120ms")["joined"] == 0,
           "join: three rounds may not take longer than join_ms")


def check_measured():
    """Rings that were measured: each ratio is within the tolerance of tables.py."""
    done = subprocess.run([TOP / "tools/sim/tables.py", BUILD / "sim", "--check",
                           TOP / "tools/sim/measured.txt"], check=False, text=True,
                          capture_output=True)
    note(done.stdout + done.stderr)
    result(done.returncode == 0, "times that were measured")


def check_arguments():
    """Arguments that make no sense are refused."""
    wrong = ("-n 1", "-n x", "-d 5", "-d 5m", "-b 12", "-b -8", "-l 100", "--fold 3", "--mtu 20000",
             "--late 16", "--fold 4 -b 8k", "--schedule rings", "-n 17 --schedule direct",
             "--schedule doubling --fold 4 -b 64k", "--collective reduce --root 16",
             "--collective reduce --schedule direct", "--fold 4 --late 2", "--mark 5", "--cubic 1", "--queue 5 -s 0",
             "--queue 5 --fold 4", "--queue 5 -r 1", "-s 1T", "16", "--nothing")
    right = all(subprocess.run([BUILD / "sim", *line.split()], check=False,
                               capture_output=True).returncode == 2 for line in wrong)
    result(right, "wrong arguments")


os.environ["LC_ALL"] = "C"
build()
check_latency()
check_hosts()
check_schedules()
check_halving()
check_shares()
check_trees()
check_bandwidth()
check_sums()
check_seed()
check_goodput()
check_wire()
check_no_resend()
check_fold()
check_coarse()
check_late()
check_join()
check_measured()
check_arguments()
finish()
