#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tests.py: checks that each line of selftests/tests.list is a test, that each test is in
the list, and that no file of the tests is too long.

Prints one finding a line.
"""
import os
import re
import sys

from testlist import FLAGS, TOP, read

TESTS = TOP / "selftests"
SUBJECTS = ("api", "sums", "net", "jobs", "faults", "hostile", "xdp")
LONGEST = 800                           # lines of a file
LONGER = {"host/test_ring.c": 1200}     # the simulator and its mutants


def programs():
    """Return {name: path} of the programs that a command may run."""
    out = {path.stem: path for path in TESTS.glob("*/*.c") if not path.stem.endswith(".bpf")}
    for path in (*TESTS.glob("*/*.sh"), *TESTS.glob("*/*.py")):
        out[str(path.relative_to(TESTS))] = path
    return out


def program_of(command):
    """Return the program that a command runs, without variables and lib/in_topo.sh."""
    words = re.sub(r"\bRAR_\w+=(\$\(\(.*?\)\)|\S*)\s+", "", command).split()
    return words[2] if words[0] == "lib/in_topo.sh" and len(words) > 2 else words[0]


def helps(path):
    """Is a program run by a script in its directory, or by a command of scripts/?"""
    word = re.compile(rf"(?<![\w.]){re.escape(path.stem)}(?![\w-])")
    others = (*path.parent.glob("*.sh"), *path.parent.glob("*.py"),
              *(other for other in (TOP / "scripts").iterdir() if other.is_file()))
    return any(word.search(other.read_text()) for other in others if other != path)


def findings():
    """Yield each finding."""
    known, seen, used = programs(), set(), set()
    for test in read():
        where = f"selftests/tests.list: {test.name}"
        if test.name in seen:
            yield f"{where}: twice"
        seen.add(test.name)
        if not test.limit.isdigit() or not test.flags <= FLAGS or not test.command:
            yield f"{where}: is not NAME LIMIT WHEN COMMAND"
            continue
        program = program_of(test.command)
        used.add(program)
        if program not in known:
            yield f"{where}: there is no {program}"
        elif known[program].suffix != ".c" and not os.access(known[program], os.X_OK):
            yield f"{where}: {program} is not executable"
    for name, path in sorted(known.items()):
        if path.parent.name in SUBJECTS and name not in used and not helps(path):
            yield f"{path.relative_to(TOP)}: neither in tests.list nor used by a test beside it"
    for path in sorted(TESTS.glob("*/*.*")):
        name, lines = str(path.relative_to(TESTS)), path.read_bytes().count(b"\n")
        if path.suffix in (".c", ".h", ".py", ".sh") and lines > LONGER.get(name, LONGEST):
            yield f"selftests/{name}: {lines} lines, at most {LONGER.get(name, LONGEST)}"


bad = list(findings())
print(*bad, sep="\n", end="\n" if bad else "")
sys.exit(bool(bad))
