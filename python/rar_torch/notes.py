# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the package says: RAR_DEBUG=1 explains decisions, RAR_TORCH_STAT=1 counts calls."""
import collections
import multiprocessing.util
import os
import sys


def is_set(name):
    """Return whether a variable of the environment is there, and neither empty nor 0."""
    return os.environ.get(name, "0") not in ("", "0")


def say(rank, text):
    """Print a line on standard error, in one piece: other ranks may write there, too."""
    sys.stderr.write(f"rar_torch: rank {rank}: {text}\n")
    sys.stderr.flush()


said = set()


def debug(rank, text):
    """With RAR_DEBUG=1, say something that has not been said before."""
    if is_set("RAR_DEBUG") and text not in said:
        said.add(text)
        say(rank, text)


def falls_back():
    """Return whether gloo takes over where there is no ring: not if RAR_TORCH_FALLBACK=error."""
    value = os.environ.get("RAR_TORCH_FALLBACK", "gloo")
    if value not in ("gloo", "error"):
        raise ValueError(f"RAR_TORCH_FALLBACK is {value!r}, not gloo or error")
    return value == "gloo"


class Counts:
    """How many calls of this process went by the ring, and how many by gloo."""

    def __init__(self):
        self.calls = collections.defaultdict(collections.Counter)
        self.rank = None        # as soon as there is a group
        self.at_end()
        multiprocessing.util.register_after_fork(self, Counts.at_end)

    def at_end(self):
        """Report at the end of this process; multiprocessing ends its own without atexit. A
        child of a process that has a group is no rank."""
        if self.rank is None:
            multiprocessing.util.Finalize(None, self.report, exitpriority=0)

    def add(self, name, way):
        """Count a call."""
        self.calls[name][way] += 1

    def report(self):
        """Print the numbers, if RAR_TORCH_STAT asks for it."""
        if not is_set("RAR_TORCH_STAT") or self.rank is None:
            return
        for name, ways in sorted(self.calls.items()):
            say(self.rank, f"{name}: {ways['ring']} by the ring, {ways['gloo']} by gloo")


counts = Counts()
