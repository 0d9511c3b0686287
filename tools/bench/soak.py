#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""soak.py [OPS [RANKS [HOGS]]]: many short operations beside programs that never sleep, and an
explanation of the longest.

Runs in a guest, in the namespaces rar0 ...: lib/in_topo.sh RANKS soak.py. It prints the times of
the operations. Where the kernel has tracepoints it looks at the longest operation: the gaps in
which no event of the ring happened, and what the processors did meanwhile. In a gap either a
process of a rank or a kernel thread for packets waits for a processor, and then the ring is only
starved; or nothing of the ring waits for a processor. If that lasts longer than any of the ring's
timers, an event was lost.
"""
import bisect
import collections
import os
import random
import re
import selectors
import struct
import subprocess
import sys
import tempfile

BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/bench/bin")
TRACING = "/sys/kernel/tracing"
BUFFER_KIB = 32768              # of each processor
EVENTS = ("rar", "sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new")
SLOW_US = 50000                 # as in soak.c
GAP_US = 5000                   # shorter gaps are not looked at
LOST_US = 50000                 # no timer of a ring without losses runs for so long
OURS = ("ksoftirqd", "rar")     # kernel threads that work for the ring
LINE = re.compile(r"-(\d+)\s+\[(\d+)\].*?(\d+)\.(\d{6}): (\w+): (.*)")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*)"
                    r" next_pid=(\d+)")
WAKEUP = re.compile(r"comm=(.*) pid=(\d+) ")


# -------------------------------------------------------------------- tracing

def put(name, value):
    with open(f"{TRACING}/{name}", "w", encoding="ascii") as f:
        f.write(value)


def trace():
    """Begin to trace; False if this kernel has no tracepoints, or no snapshots of them"""
    if not os.path.exists(f"{TRACING}/snapshot"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=False,
                       stderr=subprocess.DEVNULL)
    if not os.path.exists(f"{TRACING}/snapshot"):
        return False
    put("trace_clock", "mono")
    put("buffer_size_kb", str(BUFFER_KIB))
    put("snapshot", "1")        # takes its memory now
    for event in EVENTS:
        put(f"events/{event}/enable", "1")
    return True


class Trace:
    """What happened in an interval: events of the ring, which task had which processor, and
    which tasks waited for one
    """

    def __init__(self, lines, begin, end, ranks):
        self.begin, self.end, self.ranks = begin, end, ranks
        self.ring = [begin]
        self.ran = []                   # (from, to, cpu, comm, pid)
        self.waited = []                # (from, to, comm, pid)
        self.on, self.ready, self.first = {}, {}, None
        for line in lines:
            match = LINE.search(line)
            if match:
                at = int(match[3]) * 1000000 + int(match[4])
                self.first = at if self.first is None else self.first
                self.event(at, int(match[2]), match[5], match[6])
        for cpu in list(self.on):
            self.leave(end, cpu)
        for pid in list(self.ready):
            self.stop_waiting(end, pid)
        self.ring.append(end)
        self.ring.sort()

    def event(self, at, cpu, name, text):
        if name.startswith("rar_") and self.begin < at < self.end:
            self.ring.append(at)
        elif name.startswith("sched_wakeup") and (match := WAKEUP.match(text)):
            self.ready.setdefault(int(match[2]), (at, match[1]))
        elif name == "sched_switch" and (match := SWITCH.match(text)):
            self.leave(at, cpu)
            if match[3].startswith("R"):
                self.ready[int(match[2])] = (at, match[1])
            self.stop_waiting(at, int(match[5]))
            self.on[cpu] = (at, match[4], int(match[5]))

    def leave(self, at, cpu):
        since = self.on.pop(cpu, None)
        if since and at > self.begin and since[0] < self.end:
            self.ran.append((max(since[0], self.begin), min(at, self.end), cpu, *since[1:]))

    def stop_waiting(self, at, pid):
        since = self.ready.pop(pid, None)
        if since and at > self.begin and since[0] < self.end:
            self.waited.append((max(since[0], self.begin), min(at, self.end), since[1], pid))

    def gaps(self):
        return [(a, b) for a, b in zip(self.ring, self.ring[1:]) if b - a >= GAP_US]

    def ours(self, comm, pid):
        return pid in self.ranks or comm.startswith(OURS)

    def explained(self, begin, end):
        """Microseconds in which a task of the ring ran or waited for a processor"""
        spans = [(a, b) for a, b, *_, comm, pid in (*self.waited, *self.ran)
                 if self.ours(comm, pid)]
        total, to = 0, begin
        for a, b in sorted((max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end):
            total += max(0, b - max(a, to))
            to = max(to, b)
        return total

    def users(self, begin, end):
        """[(comm, microseconds)] of the tasks that had processors, most first"""
        used = collections.Counter()
        for a, b, _, comm, _ in self.ran:
            if b > begin and a < end:
                used[comm] += min(b, end) - max(a, begin)
        return used.most_common(4)


def explain(lines, begin, us, ranks):
    """Print what the longest operation waited for; True if it is explained"""
    trace_of = Trace(lines, begin, begin + us, ranks)
    if trace_of.first is None or trace_of.first > begin:
        print("# the trace begins after the operation: not explained")
        return False
    gaps = trace_of.gaps()
    total = sum(b - a for a, b in gaps)
    lost = [(b - a) - trace_of.explained(a, b) for a, b in gaps]
    print(f"# in it {len(trace_of.ring) - 2} events of the ring, and {total / 1000:.0f} ms in gaps"
          f" of {GAP_US // 1000} ms and more; in {(total - sum(lost)) / 1000:.0f} ms of these a"
          " rank or a kernel thread for packets waited for a processor, or had one")
    for a, b in sorted(gaps, key=lambda g: g[0] - g[1])[:3]:
        users = ", ".join(f"{comm} {us / 1000:.0f} ms" for comm, us in trace_of.users(a, b))
        print(f"#   {(b - a) / 1000:.0f} ms, {(a - begin) / 1000:.0f} ms after its begin:"
              f" processors had: {users}")
    return max(lost, default=0) < LOST_US


# -------------------------------------------------------------------- the run

def started(args):
    return subprocess.Popen(args, stdout=subprocess.PIPE, text=True)


class Worst:
    """The longest operation so far"""

    def __init__(self, traced):
        self.us, self.began, self.op, self.rank, self.traced = SLOW_US, 0, None, None, traced

    def told(self, rank, line):
        word, *numbers = line.split()
        if word != "slow":
            print(line, flush=True)
            return
        op, began, us = map(int, numbers)
        if us > self.us:
            self.us, self.began, self.op, self.rank = us, began, op, rank
            if self.traced:
                put("snapshot", "1")


def run(ops, n, hogs, out):
    """Run all ranks; return the processes and the longest operation"""
    worst = Worst(trace())
    group = str(random.getrandbits(62) + 1)
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(hogs)]
    ranks = [started([f"{BIN}/soak", str(r), str(n), group, str(ops), f"{out}/{r}"])
             for r in range(n)]
    selector = selectors.DefaultSelector()
    for rank, process in enumerate(ranks):
        selector.register(process.stdout, selectors.EVENT_READ, rank)
    while selector.get_map():
        for key, _ in selector.select():
            line = key.fileobj.readline()
            if line:
                worst.told(key.data, line.strip())
            else:
                selector.unregister(key.fileobj)
    for process in busy:
        process.kill()
        process.wait()
    if any(process.wait() for process in ranks):
        sys.exit("soak: a rank failed")
    return ranks, worst


def times(path):
    with open(path, "rb") as f:
        return [us for _, us in struct.iter_unpack("=QQ", f.read())]


def main():
    ops, n, hogs = map(int, (sys.argv[1:] + ["10000", "4", "2"][len(sys.argv) - 1:])[:3])
    with tempfile.TemporaryDirectory() as out:
        ranks, worst = run(ops, n, hogs, out)
        took = sorted(us for rank in range(n) for us in times(f"{out}/{rank}"))
    slow = len(took) - bisect.bisect_right(took, SLOW_US)
    at = {p: took[min(len(took) - 1, int(len(took) * p / 100))] for p in (50, 99, 99.9)}
    print(f"SOAK N={n} ops={ops} hogs={hogs} cpus={os.cpu_count()}"
          + "".join(f" p{p}={us}us" for p, us in at.items())
          + f" longest={took[-1]}us over-{SLOW_US // 1000}ms={slow}", end="")
    if worst.op is None or not worst.traced:
        print(" PASS" if worst.traced else " not traced", flush=True)
        return 0
    print(f" (operation {worst.op} at rank {worst.rank})", flush=True)
    with open(f"{TRACING}/snapshot", encoding="utf-8", errors="replace") as lines:
        good = explain(lines, worst.began, worst.us, {p.pid for p in ranks})
    print("SOAK the longest is explained: PASS" if good else "SOAK FAIL: nothing of the ring"
          f" waited for a processor for {LOST_US // 1000} ms", flush=True)
    return not good


if __name__ == "__main__":
    sys.exit(main())
