#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""suite.py: runs tests in guests and on this machine, as many side by side as it has processors,
and prints their results. scripts/test and scripts/fuzz call it; "suite.py --help" has the options.

First come guests side by side, one processor each, which take the next test of their kernel, the
longest first; tests that need two processors have a guest with two. The host's tests, which mostly
wait, and "keep", which judges no times, run beside them. Then come, each alone on the machine, tests
that judge times and failed while others ran, and programs with several guests.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import threading
import time

from results import INDENT, Report, Test
from testlist import TOP, named, read

SLOTS = len(os.sched_getaffinity(0))
SECONDS = TOP / "build/seconds"                 # of the last run
BOOT_LIMIT = 2400                               # seconds; scripts/vm tries twice
PATIENCE = 300                                  # more than the limit of a test
DEATHS = 3                                      # of the guests of a kernel, then no other one starts
# The emulator fails: it executes a breakpoint after the kernel has removed it (see hold_switches()
# in selftests/run_in_guest), or wrong flags (see RAR_LOG_EMULATOR) lead to a double fault. User-Mode
# Linux that passes idle time at once panics if that brings it some nanoseconds too far
# (time_travel_set_time() of arch/um/kernel/time.c).
EMULATOR = re.compile(r"exc_int3|Oops: int3|Oops: double fault|time-travel: time goes backwards")
BESIDE = ("host", "keep")                       # programs that run beside guests
SKIP_IDLE = ("uml", "uml-debug")                # there waiting takes no time
PROGRAMS = {
    "host": "JOBS=2 make -s -C selftests/host test",    # some only wait
    "keep": "selftests/vm/keep.sh",
    "three-vms": "scripts/three-vms",
    "roce": "scripts/roce",
    "two-archs": "scripts/two-archs",
    "packages": "scripts/packages",
    "two-releases": "scripts/two-releases",
}


def library(command, *args):
    """Run a function of scripts/lib.sh; its progress goes to stderr."""
    script = f'. scripts/lib.sh; {command} "$@"'
    subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", script, "bash", *args],
                   cwd=TOP, check=True, stdin=subprocess.DEVNULL)


class Died(Exception):
    """A guest ended in the middle."""


class Guest:
    """A guest that runs tests as it is told, and says what they say."""

    def __init__(self, kernel, cpus, limit, env, skip_idle):
        command = ["scripts/vm", "--kernel", kernel, "--module", "--mem", "2048", "--stdin",
                   "--timeout", str(limit), *(["--cpus", str(cpus)] if cpus else []),
                   *(["--kmemleak"] if "debug" in kernel else []),
                   *(["--skip-idle"] if skip_idle else []),
                   "--", "selftests/run_in_guest", kernel]
        self.process = subprocess.Popen(command, cwd=TOP, env={**os.environ, **env},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=0)

    def tell(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
        except BrokenPipeError:
            pass                                # read() tells the end

    def read(self, limit):
        """Yield lines, as a control word and its rest, or as None and the text. After so many
        seconds the guest is killed, which is for one that does not even end itself.
        """
        timer = threading.Timer(limit, self.process.terminate)
        timer.start()
        try:
            for raw in iter(self.process.stdout.readline, b""):
                text = raw.decode(errors="replace").rstrip("\r\n")
                if text.startswith("@rar "):
                    word, _, rest = text[5:].partition(" ")
                    yield word, rest
                else:
                    yield None, text
        finally:
            timer.cancel()

    def status(self):
        self.process.stdin.close()
        return self.process.wait()


class Queue:
    """Tests for the guests of a kernel; several guests may take from it."""

    def __init__(self, suite, kernel, tests, cpus=None, alone=None, label=None, env=None,
                 skip_idle=False):
        self.suite, self.kernel, self.cpus = suite, kernel, cpus
        self.skip_idle, self.instead = skip_idle, None  # a queue, if the kernel is not to be had
        self.alone = alone or self              # where tests run a second time
        self.label, self.env = label or kernel, env or {}
        self.tests = collections.deque(tests)
        self.limit = 86400                      # the guest limits each test
        self.lock, self.deaths, self.repeated = threading.Lock(), 0, set()
        self.why = ""                           # no guest started

    def take(self):
        with self.lock:
            return self.tests.popleft() if self.tests else None

    def serve(self):
        """Run tests until none is left, in a guest that is replaced if it dies."""
        guest = None
        while self.tests and self.deaths <= DEATHS:
            guest = guest or self.boot()
            entry = self.take() if guest else None
            try:
                if entry:
                    self.run(guest, entry)
            except Died:
                guest = None
        if guest:
            self.end(guest)

    def boot(self):
        """Return a guest that waits for a test; None if it does not start."""
        said = []
        try:
            self.suite.prepare(self.kernel)
        except subprocess.CalledProcessError as error:
            self.deaths, self.why = DEATHS + 1, f": {error}"
            self.give_to_another()
            return None
        start = time.monotonic()
        guest = Guest(self.kernel, self.cpus, self.limit,
                      {**self.env, **self.suite.guest_env(self.kernel)}, self.skip_idle)
        for word, rest in guest.read(BOOT_LIMIT):
            if word == "ready":
                self.suite.report.spent("boot", time.monotonic() - start)
                return guest
            said.append(rest)
        guest.status()
        self.deaths += 1
        self.why = INDENT.join([": no guest", *said])
        self.suite.report.say(f"[{self.label}] a guest did not start{self.why}")
        return None

    def give_to_another(self):
        """There is no such kernel: another one, which is slower, has the tests."""
        if self.instead:
            self.suite.report.say(f"[{self.label}] cannot be built: its tests run on "
                                  f"{self.instead.kernel}")
            with self.lock:
                self.instead.tests.extend(t for t in self.tests if t.runs_on(self.instead.kernel))
                self.tests.clear()

    def run(self, guest, entry):
        """Run a test, a second time if the emulator failed, or if it judges times and failed."""
        flags = ",".join(sorted(entry.flags))
        guest.tell(f"{entry.name} {entry.limit} {flags} {entry.command}")
        test, emulator = Test(self.label, entry.name), False
        limit, start = int(entry.limit) * self.suite.limits(self.kernel), time.monotonic()
        for word, rest in guest.read(limit + PATIENCE):
            if word is None:
                test.line(rest)
            elif word == "kernel":
                test.complain(rest)
            elif word == "trace":
                test.explain(rest)
            elif word == "emulator":
                emulator = True
            elif word == "end":
                test.end(int(rest), time.monotonic() - start)
                break
        else:
            self.died(guest, entry, test)
        if emulator and self.repeat(entry, test, "the emulator failed", ""):
            return
        if "timed" in entry.flags and test.failed() and not test.kernel and self.repeat(
                entry, test, "it failed, perhaps because the machine was busy", test.failures()):
            return
        self.suite.report.add(test)

    def repeat(self, entry, test, why, told):
        """Run a test a second time, alone on the machine, unless it has been repeated."""
        with self.alone.lock:
            if entry.name in self.alone.repeated:
                return False
            self.alone.repeated.add(entry.name)
            self.alone.tests.append(entry)
        self.suite.report.again(test, why, told)
        return True

    def died(self, guest, entry, test):
        guest.status()
        if not self.emulator_died(test) or not self.repeat(entry, test, "the emulator failed",
                                                           test.why_dead()):
            self.deaths += 1
            test.fail("the guest died: " + test.why_dead())
            self.suite.report.add(test)
        raise Died

    @staticmethod
    def emulator_died(test):
        text = "\n".join(test.log or test.lines)
        return "guard page" not in text and EMULATOR.search(text)

    def end(self, guest):
        """Unload the module; the kernel must have no complaint that no test was told of."""
        guest.tell("end")
        test, known = Test(self.label, "after the tests"), False
        for word, rest in guest.read(PATIENCE):
            if word == "kernel":
                test.complain(rest)
            elif word == "trace":
                test.explain(rest)
            elif word is None:
                test.line(rest)
        status = guest.status()
        with self.suite.report.lock:
            known = any(t.group == self.label and t.kernel for t in self.suite.report.tests)
        if test.kernel or (status and not known):
            test.end(status if status != 4 else 1, 0)
            self.suite.report.add(test)

    def leave(self):
        """Tests for which there was no guest have failed."""
        for entry in self.tests:
            test = Test(self.label, entry.name)
            test.cases.append(["fail", "the test as a whole", "did not run" + self.why])
            self.suite.report.add(test)


class Suite:
    """All that one call runs."""

    def __init__(self, options):
        self.options, self.report = options, Report(options.verbose)
        self.lock, self.ready = threading.Lock(), {}
        self.factors = {}

    # ------------------------------------------------------------ preparation

    def limits(self, kernel):
        """How many times longer may a test take there? One list: rar_limits()."""
        if kernel not in self.factors:
            said = subprocess.run(["bash", "-c", f". scripts/lib.sh; rar_limits {kernel}"], cwd=TOP,
                                  check=True, capture_output=True, text=True).stdout
            self.factors[kernel] = int(said)
        return self.factors[kernel]

    def once(self, name, command, *args):
        """Run a function of lib.sh once; others that need it wait."""
        with self.lock:
            lock = self.ready.setdefault(name, [threading.Lock(), False])
        with lock[0]:
            if not lock[1]:
                start = time.monotonic()
                library(command, *args)
                lock[1] = True
                self.report.spent("build", time.monotonic() - start)

    def prepare(self, kernel):
        self.once("selftests", "rar_selftests")
        if kernel == "arm64":
            self.once("selftests.arm64", "rar_selftests_arm64")
        self.once(kernel, "rar_build", kernel)
        if self.has_mutant(kernel):
            self.once(f"{kernel}.mutant", "rar_build_mutant", kernel)

    def has_mutant(self, kernel):
        return any(t.name == "claim_mutant" and self.selected(t, kernel) for t in read())

    def guest_env(self, kernel):
        """Return what tests find in the environment."""
        mutant = TOP / f"build/{kernel}.mutant/rar.ko" if self.has_mutant(kernel) else ""
        seal = {"RAR_SECURITY": self.options.seal} if self.options.seal else {}
        return {"RAR_MUTANT_KO": str(mutant), "RAR_PROMTOOL": self.options.promtool,
                "RAR_DIGITS": self.options.digits, **seal}

    # ------------------------------------------------------------ selection

    def selected(self, test, kernel):
        """Does this run have the test on this kernel?"""
        if not test.runs_on(kernel) or (self.options.seal and "plain" in test.flags):
            return False
        if self.options.names:
            return named(test.name, self.options.names)
        if self.options.full:
            return True
        if kernel == "arm64":
            return "arch" in test.flags
        if kernel == "uml-debug-smp":
            return "smp" in test.flags
        if "full" in test.flags or ("debug" in test.flags and kernel != "uml-debug"):
            return False
        debian = [k for k in self.options.kernels if k in ("6.1", "6.12")]
        if kernel == "uml" and debian and {"smp", "debian"} <= test.flags:
            return False                        # there with two processors
        if kernel not in debian or self.options.kernels == [kernel]:
            return True
        oldest = kernel == debian[0] and "oldest" in test.flags
        return oldest or kernel == debian[-1] and (
            "uml" not in self.options.kernels or "debian" in test.flags or
            not test.runs_on("uml"))

    def programs(self):
        """Programs of this machine that the run has."""
        if self.options.names:
            return [name for name in PROGRAMS if named(name, self.options.names)]
        return [name for name in PROGRAMS if name in self.options.programs]

    # ------------------------------------------------------------ running

    def program(self, name):
        """Run a program that speaks TAP."""
        test, start = Test(name, name), time.monotonic()
        with subprocess.Popen(["bash", "-c", PROGRAMS[name]], cwd=TOP, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            for raw in process.stdout:
                test.line(raw.decode(errors="replace").rstrip("\r\n"))
        test.end(process.returncode, time.monotonic() - start)
        self.report.add(test)

    def queues(self):
        """Return the queues for guests side by side, and those for guests alone."""
        beside, alone, seconds = [], [], self.seconds()
        for kernel in self.options.kernels:
            tests = sorted((t for t in read() if self.selected(t, kernel)),
                           key=lambda t, k=kernel: -seconds.get((k, t.name), float(t.limit) / 10))
            skip = kernel in SKIP_IDLE
            again = Queue(self, kernel, [], self.options.cpus, skip_idle=skip)
            alone.append(again)
            if kernel == "uml-debug-smp":
                again.tests.extend(tests)
                continue
            smp = [t for t in tests if "smp" in t.flags and not skip]
            beside.append(Queue(self, kernel, smp, self.options.cpus, again))
            beside.append(Queue(self, kernel, [t for t in tests if t not in smp],
                                self.cpus(kernel), again, skip_idle=skip))
        debian = [q for q in beside if q.kernel in ("6.1", "6.12")]
        for queue in beside:
            if queue.kernel == "uml" and debian:
                queue.instead = debian[-1]
        return beside, alone

    def cpus(self, kernel):
        """How many processors has a guest beside another one? None: as scripts/vm gives it."""
        return self.options.cpus or (1 if kernel in ("6.1", "6.12", "arm64") else None)

    def fuzz_queues(self):
        """A guest for each seed, with the same tests."""
        tests = [t for t in read() if named(t.name, self.options.names)]
        kernel = self.options.kernels[0]
        queues = [Queue(self, kernel, tests, self.cpus(kernel), label=f"{kernel}, seed {seed}",
                        env={"RAR_SEED": seed}) for seed in self.options.seeds.split(",")]
        return ([], queues) if kernel == "uml-debug-smp" else (queues, [])

    @staticmethod
    def seconds():
        """Return the seconds of the last run, by kernel and name."""
        if not SECONDS.exists():
            return {}
        rows = (line.split("\t") for line in SECONDS.read_text().splitlines())
        return {(group, name): float(seconds) for group, name, seconds in rows}

    def run(self):
        start = time.monotonic()
        beside, alone = self.fuzz_queues() if self.options.seeds else self.queues()
        programs = self.programs()
        for queue in beside + alone:
            if queue.tests:
                self.report.say(f"[{queue.label}] {len(queue.tests)} tests"
                                + (", alone on the machine" if queue in alone else ""))
        jobs = [queue.serve for queue in beside if queue.tests]
        if not self.options.seeds:
            jobs *= SLOTS       # a guest that is done is followed by another
        self.side_by_side(collections.deque(jobs), [name for name in programs if name in BESIDE])
        for queue in beside:
            queue.serve()       # what was given to it too late
        for job in [queue.serve for queue in alone] + \
                   [lambda n=name: self.program(n) for name in programs if name not in BESIDE]:
            job()
        for queue in beside + alone:
            queue.leave()
        self.report.show_seconds(time.monotonic() - start)
        if not self.options.names:
            self.report.write_seconds(SECONDS)
        return self.report.summary()

    def side_by_side(self, jobs, programs):
        """Run the jobs, as many at a time as there are processors; beside them programs, one after
        the other.
        """
        def beside():
            for name in programs:
                self.program(name)

        def work():
            while True:
                try:
                    job = jobs.popleft()
                except IndexError:
                    return
                job()

        threads = [threading.Thread(target=target) for target in [beside, *[work] * SLOTS]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def arguments():
    parser = argparse.ArgumentParser(description="runs tests; see scripts/test")
    parser.add_argument("--kernels", default="", type=str.split)
    parser.add_argument("--programs", default="", type=str.split, help=", ".join(PROGRAMS))
    parser.add_argument("--names", default="", help="patterns, separated by commas")
    parser.add_argument("--seeds", default="", help="a guest with the named tests for each")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seal", default="", choices=("", "auth", "encrypt"))
    parser.add_argument("--cpus", type=int)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--promtool", default="")
    parser.add_argument("--digits", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(Suite(arguments()).run())
