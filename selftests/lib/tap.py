# SPDX-License-Identifier: GPL-2.0
"""TAP lines and the seed, for the tests in Python."""
import os
import random
import sys

count = failed = 0


def note(text):
    for line in text.splitlines():
        print("#", line.removeprefix("# "), flush=True)


def result(ok, name):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} {name}", flush=True)


def skip_all(why):
    print("1..0 # SKIP", why)
    sys.exit(4)


def finish():
    print(f"1..{count}", flush=True)
    sys.exit(failed > 0)


def get_seed():
    """The seed of all random choices, given or drawn; it is printed."""
    seed = int(os.environ.get("SEED") or os.environ.get("RAR_SEED") or
               random.randrange(1 << 31))
    note(f"SEED={seed}")
    return seed
