# SPDX-License-Identifier: GPL-2.0
"""testlist.py: reads selftests/tests.list, whose first lines say what its columns are."""
import dataclasses
import fnmatch
import pathlib

TOP = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ("6.1", "6.12", "arm64", "uml", "uml-debug", "uml-debug-smp")
FLAGS = {"-", "full", "debug", "oldest", "debian", "arch", "smp", "timed", "plain", "guest=module",
         "guest=host", *KERNELS}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A line of the list."""

    promise: str        # what the tests below one headline guard
    name: str
    limit: str
    flags: frozenset
    command: str

    def runs_on(self, kernel):
        """May the test run on this kernel at all?"""
        only = self.flags.intersection(KERNELS)
        return not only or kernel in only


def read():
    """Yield an Entry for each line; fields that are missing are empty."""
    promise = ""
    _, _, lines = (TOP / "selftests/tests.list").read_text().partition("\n\n")
    for line in lines.splitlines():
        if line.startswith("# "):
            promise = line[2:]
        elif line:
            name, limit, flags, command = (line.split(None, 3) + ["", "", ""])[:4]
            yield Entry(promise, name, limit, frozenset(flags.split(",")), command)


def named(name, patterns):
    """Does one of the patterns, separated by commas, name the test?"""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(",") if pattern)
