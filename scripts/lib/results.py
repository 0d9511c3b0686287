#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""results.py FILE GROUP [-v]: count the test results on stdin.
results.py FILE --summary: print the results of all groups; exit 0 if they are a pass.

The input is the output of one test (TAP), or of selftests/run_in_guest, which prints the
output of each test between "@rar begin" and "@rar end". If a test does not speak TAP its
exit status counts: 0 pass, 4 skip.
"""
import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(\w+)\S*\s*(.*))?$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:# SKIP\S*\s*(.*))?$")
TIMED_OUT = (124, 137)
LOG_FOLLOWS = "vm: from the first on:"         # scripts/vm: the kernel log of a guest that died
# groups of one test, without "@rar begin"
PLAIN = ("host", "three-vms", "roce", "two-archs", "packages")
INDENT = "\n        "
TOLD = 8                                       # lines before a failure that the summary repeats


class Test:
    """One program: its cases as [verdict, name, why], and its output."""

    def __init__(self, group, name):
        self.group, self.name = group, name
        self.cases, self.lines, self.kernel, self.death = [], [], [], []
        self.planned = self.skip = self.log = None

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
        if (directive or "").upper() == "SKIP":
            self.cases.append(["skip", name, why])
        elif failed and (directive or "").upper() not in ("XFAIL", "TODO"):
            self.cases.append(["fail", name, self.told()])
        else:
            self.cases.append(["pass", name, ""])

    def told(self):
        """What the test said between the case before this one and this one."""
        said = []
        for text in reversed(self.lines[:-1]):
            if CASE.match(text) or PLAN.match(text) or len(said) == TOLD:
                break
            said.insert(0, text)
        return INDENT.join(["", *said]) if said else ""

    def fail(self, why):
        self.cases.append(["fail", "the test as a whole", why])

    def why_dead(self):
        return INDENT.join([": ".join(self.death), *(self.log or [])])

    def failures(self):
        return INDENT.join(["", *(name + why for verdict, name, why in self.cases
                                  if verdict == "fail")])

    def last_line(self):
        return next((t.lstrip("# ") for t in reversed(self.lines) if t), "no reason")

    def end(self, status):
        """Judge the exit status and the plan, which the cases do not tell."""
        ran, failed = len(self.cases), any(c[0] == "fail" for c in self.cases)
        if status in TIMED_OUT:
            self.fail("time limit")
        elif status == 4 and not failed:
            if not self.cases:
                self.cases.append(["skip", "all", self.skip or self.last_line()])
        elif status and not failed:
            self.fail(f"exit status {status}")
        elif self.planned is not None and self.planned > ran:
            self.fail(f"{self.planned - ran} of {self.planned} planned cases did not run")
        elif not self.cases:
            self.cases.append(["pass", "all", ""])
        for complaint in self.kernel:
            self.fail("kernel: " + complaint)

    def record(self, seconds):
        bad = [c for c in self.cases if c[0] == "fail"]
        print(f"[{self.group}] {'FAIL' if bad else 'ok  '} {self.name}: "
              f"{len(self.cases)} cases, {seconds} s", flush=True)
        return {"group": self.group, "name": self.name, "cases": self.cases,
                "planned": self.planned or len(self.cases)}


class Reader:
    def __init__(self, group, verbose):
        self.group, self.verbose = group, verbose
        self.records, self.test, self.waiting = [], None, []

    def finish(self, status, seconds):
        test, self.test = self.test, None
        test.end(status)
        if not self.verbose and any(c[0] == "fail" for c in test.cases):
            print("".join(f"    {t}\n" for t in test.lines if t), end="")
        self.records.append(test.record(seconds))

    def died(self):
        """The guest is gone in the middle of a test."""
        if self.test and self.test.name != "after the tests":
            self.test.fail("the guest died: " + self.test.why_dead())
        if self.test:
            self.finish(0, 0)

    def again(self, why, told):
        """The test runs a second time, and only that run counts."""
        test, self.test = self.test, None
        print(f"[{self.group}] {test.name} again: {why}", flush=True)
        self.records.append({"group": self.group, "name": test.name, "planned": 0,
                             "cases": [["again", why, told(test)]]})

    def control(self, word, rest):
        if word == "plan":
            self.died()
            self.waiting = rest.split()
            print(f"[{self.group}] {len(self.waiting)} tests", flush=True)
        elif word == "begin":
            self.test = Test(self.group, rest)
            if rest in self.waiting:        # else it runs again
                self.waiting.remove(rest)
        elif word == "again":       # the guest may have died of it
            self.again("the emulator failed", Test.why_dead)
        elif word == "busy":        # it judges times
            self.again("it failed, perhaps because the machine was busy", Test.failures)
        elif word == "kernel":
            (self.test or self.outside()).kernel.append(rest)
        elif word == "trace":
            self.test.kernel[-1] += INDENT + rest
        elif word == "end":
            status, seconds = rest.split()[-2:]
            self.finish(int(status), seconds)

    def outside(self):
        self.test = Test(self.group, "after the tests")
        return self.test

    def line(self, text):
        if text.startswith("@rar "):
            word, _, rest = text[5:].partition(" ")
            self.control(word, rest)
            return
        if self.test:
            self.test.line(text)
        if text and (self.verbose or not self.test):
            print("    " + text, flush=True)

    def close(self, status):
        """At the end of the stream: tests that did not end or start have failed."""
        self.died()
        for name in self.waiting:
            self.test = Test(self.group, name)
            self.test.fail("did not run")
            self.finish(0, 0)
        if status and not any(c[0] == "fail" for r in self.records for c in r["cases"]):
            self.test = Test(self.group, "environment")
            self.test.fail(f"exit status {status}")
            self.finish(0, 0)


def read(path, group, verbose):
    """The last line of the stream is "@rar status N"."""
    reader, status = Reader(group, verbose), 1
    if group in PLAIN:
        reader.test = Test(group, group)
    for raw in sys.stdin.buffer:
        text = raw.decode(errors="replace").rstrip("\r\n")
        if text.startswith("@rar status "):
            status = int(text.split()[2])
        else:
            reader.line(text)
    if group in PLAIN:
        reader.finish(status, 0)
    reader.close(status)
    with open(path, "a", encoding="utf-8") as out:
        for record in reader.records:
            out.write(json.dumps(record) + "\n")


def summary(path):
    with open(path, encoding="utf-8") as source:
        records = [json.loads(line) for line in source]
    cases = [(r, *c) for r in records for c in r["cases"]]
    count = {v: sum(c[1] == v for c in cases) for v in ("pass", "fail", "skip")}
    for verdict, title in (("again", "ran again"), ("skip", "skipped"), ("fail", "FAILED")):
        for record, _, name, why in (c for c in cases if c[1] == verdict):
            print(f"{title}: [{record['group']}] {record['name']}: {name}"
                  + (": " if why and why[0] != "\n" else "") + (why or ""))
    print(f"planned {sum(r['planned'] for r in records)} cases, "
          f"ran {sum(c[1] != 'again' and c[3] != 'did not run' for c in cases)}")
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped",
          flush=True)
    return 0 if count["pass"] and not count["fail"] else 1


if sys.argv[2] == "--summary":
    sys.exit(summary(sys.argv[1]))
read(sys.argv[1], sys.argv[2], "-v" in sys.argv[3:])
