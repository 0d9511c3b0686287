# SPDX-License-Identifier: GPL-2.0
"""results.py: what tests say (TAP), their verdicts, their seconds, and the summary of a run."""
import re
import threading
import time

CASE = re.compile(r"^(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(\w+)\S*\s*(.*))?$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:# SKIP\S*\s*(.*))?$")
INNER_FAILURE = re.compile(r"^#\s+not ok\b")
TIMED_OUT = (124, 137)
LOG_FOLLOWS = "vm: from the first on:"         # scripts/vm: the kernel log of a guest that died
INDENT = "\n        "
TOLD = 8                                       # lines before a failure that the summary repeats
SLOWEST = 10


class Test:
    """One program: its cases as [verdict, name, why], and its output."""

    def __init__(self, group, name):
        self.group, self.name = group, name
        self.cases, self.lines, self.kernel, self.death = [], [], [], []
        self.planned = self.skip = self.log = None
        self.seconds, self.since, self.spent = 0, time.monotonic(), []

    def line(self, text):
        self.lines.append(text)
        if self.log is not None:
            self.log.append(text)
        elif text == LOG_FOLLOWS:
            self.log = []
        elif text.startswith("vm: ") or (self.death and len(self.death) < 2):
            self.death.append(text.split("; kernel log:")[0])
        elif text.startswith("Bail out!"):
            self.fail(text)
        elif match := PLAN.match(text):
            self.planned, self.skip = int(match[1]), match[2]
        elif match := CASE.match(text):
            self.case(*match.groups())

    def case(self, failed, name, directive, why):
        name = name.strip() or f"case {len(self.cases) + 1}"
        before, self.since = self.since, time.monotonic()
        self.spent.append((name, self.since - before))
        if (directive or "").upper() == "SKIP":
            self.cases.append(["skip", name, why])
        elif failed and (directive or "").upper() not in ("XFAIL", "TODO"):
            self.cases.append(["fail", name, self.told()])
        else:
            self.cases.append(["pass", name, ""])

    def told(self):
        """What the test said between the case before this one and this one: the end of it or, if
        the case is a program whose own cases are comments, those of them that failed.
        """
        said = []
        for text in reversed(self.lines[:-1]):
            if CASE.match(text) or PLAN.match(text):
                break
            said.insert(0, text)
        inner = [i for i, text in enumerate(said) if INNER_FAILURE.match(text)]
        parts = [said[i:i + TOLD] for i in inner] or [said[-TOLD:]]
        return INDENT.join(["", *sum(parts, [])]) if said else ""

    def fail(self, why):
        self.cases.append(["fail", "the test as a whole", why])

    def failed(self):
        return any(verdict == "fail" for verdict, _, _ in self.cases)

    def complain(self, text):
        """The kernel said this while the test ran."""
        self.kernel.append(text)

    def explain(self, text):
        """What the kernel said after that."""
        self.kernel[-1] += INDENT + text

    def why_dead(self):
        return INDENT.join([": ".join(self.death), *(self.log or [])])

    def failures(self):
        return INDENT.join(["", *(name + why for verdict, name, why in self.cases
                                  if verdict == "fail")])

    def last_line(self):
        return next((t.lstrip("# ") for t in reversed(self.lines) if t), "no reason")

    def end(self, status, seconds):
        """Judge the exit status and the plan, which the cases do not tell."""
        ran, self.seconds = len(self.cases), seconds
        if status in TIMED_OUT:
            self.fail("time limit")
        elif status == 4 and not self.failed():
            if not self.cases:
                self.cases.append(["skip", "all", self.skip or self.last_line()])
        elif status and not self.failed():
            self.fail(f"exit status {status}")
        elif self.planned is not None and self.planned > ran:
            self.fail(f"{self.planned - ran} of {self.planned} planned cases did not run")
        elif not self.cases:
            self.cases.append(["pass", "all", ""])
        for complaint in self.kernel:
            self.fail("kernel: " + complaint)


class Report:
    """The tests that ended, of all guests and programs, which run side by side."""

    def __init__(self, verbose):
        self.verbose, self.lock = verbose, threading.Lock()
        self.tests, self.repeated, self.parts = [], [], {}

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def add(self, test):
        """A test has ended: print its line, and what it said if it failed."""
        lines = [t for t in test.lines if t] if test.failed() or self.verbose else []
        with self.lock:
            self.tests.append(test)
            print("".join(f"    {t}\n" for t in lines) +
                  f"[{test.group}] {'FAIL' if test.failed() else 'ok  '} {test.name}: "
                  f"{len(test.cases)} cases, {test.seconds:.0f} s", flush=True)

    def again(self, test, why, told):
        """The test runs a second time, and only that run counts."""
        with self.lock:
            self.repeated.append((test, why, told))
            print(f"[{test.group}] {test.name} again: {why}", flush=True)

    def spent(self, part, seconds):
        """Add to the seconds of a part, such as booting."""
        with self.lock:
            self.parts[part] = self.parts.get(part, 0) + seconds

    # ------------------------------------------------------------ the end of a run

    def show_seconds(self, wall):
        """Print the slowest tests, and the seconds of each part of the run."""
        groups = {}
        for test in self.tests:
            groups[test.group] = groups.get(test.group, 0) + test.seconds
        print(f"the {SLOWEST} slowest tests:")
        for test in sorted(self.tests, key=lambda t: -t.seconds)[:SLOWEST]:
            print(f"{test.seconds:6.0f} s  [{test.group}] {test.name}")
        parts = [f"{name} {seconds:.0f} s" for name, seconds in
                 [*groups.items(), *self.parts.items()]]
        print(f"seconds of the parts, some of them side by side: {', '.join(parts)}")
        print(f"in all {wall // 60:.0f} min {wall % 60:.0f} s")

    def write_seconds(self, path):
        """Keep the seconds of tests and, in a second file, of cases: group, name, seconds, case."""
        with open(path, "w", encoding="utf-8") as out, \
                open(f"{path}.cases", "w", encoding="utf-8") as cases:
            for test in self.tests:
                print(test.group, test.name, f"{test.seconds:.1f}", sep="\t", file=out)
                for name, seconds in test.spent:
                    print(test.group, test.name, f"{seconds:.1f}", name, sep="\t", file=cases)

    def summary(self):
        """Print what was repeated, skipped and failed, and the counts; return the exit status."""
        for test, why, told in self.repeated:
            print(f"ran again: [{test.group}] {test.name}: {why}"
                  + (": " if told and told[0] != "\n" else "") + told)
        cases = [(test, *case) for test in self.tests for case in test.cases]
        for verdict, title in (("skip", "skipped"), ("fail", "FAILED")):
            for test, _, name, why in (c for c in cases if c[1] == verdict):
                print(f"{title}: [{test.group}] {test.name}: {name}"
                      + (": " if why and why[0] != "\n" else "") + (why or ""))
        count = {v: sum(c[1] == v for c in cases) for v in ("pass", "fail", "skip")}
        print(f"planned {sum(t.planned or len(t.cases) for t in self.tests)} cases, "
              f"ran {sum(not c[3].startswith('did not run') for c in cases)}; "
              f"{len(self.repeated)} tests ran a second time")
        print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped",
              flush=True)
        return 0 if count["pass"] and not count["fail"] else 1
