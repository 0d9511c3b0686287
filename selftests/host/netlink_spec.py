#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Documentation/netlink/specs/rar.yaml is YAML that has what the header has.

Compared are commands, attributes and values; scripts/lib/lists.py makes most of them. rarctl's
manual page passes mandoc, and its completion knows its commands.
"""
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from genl import HEADER, constants                  # noqa: E402
from tap import finish, note, result, skip_all      # noqa: E402

try:
    import yaml
except ImportError:
    skip_all("no python3-yaml")

SPEC = TOP / "Documentation/netlink/specs/rar.yaml"
TOOL = TOP / "tools/rarctl"


def macro(*words):
    """Return the name of a constant."""
    return "RAR_" + "_".join(words).upper().replace("-", "_")


def differences(spec, header):
    """Return what only one of two has, and note it."""
    found = [f"{name}: {spec.get(name)} in the spec, {header.get(name)} in the header"
             for name in sorted(spec.keys() | header.keys()) if spec.get(name) != header.get(name)]
    for line in found:
        note(line)
    return found


def entries(enum):
    """Return {name: value} of an enumeration of the spec."""
    names = [e if isinstance(e, str) else e["name"] for e in enum["entries"]]
    return {name: i for i, name in enumerate(names, enum.get("value-start", 0))}


def check_header(spec):
    """Names and values of commands, attributes and the enumerations defined for netlink."""
    want = {macro("cmd", op["name"]): i for i, op in enumerate(spec["operations"]["list"], 1)}
    for attributes in spec["attribute-sets"]:
        want |= {macro("a", attributes["name"], a["name"]): i
                 for i, a in enumerate(attributes["attributes"], 1)}
    for enum in spec["definitions"]:
        if "header" not in enum:
            want |= {macro(enum["name"], name): value for name, value in entries(enum).items()}
    result(len(want) > 90 and not differences(want, constants()),
           f"{len(want)} commands, attributes and values")
    text = HEADER.read_text()
    groups = [f'RAR_MCGRP_{g["name"].upper()}\t"{g["name"]}"' for g in spec["mcast-groups"]["list"]]
    result(f'RAR_GENL_NAME\t\t"{spec["name"]}"' in text and all(g in text for g in groups),
           "names of the family and its group")


def check_replies(spec):
    """A request and a reply have only attributes of their set, each of which some message has."""
    sets = {s["name"]: {a["name"] for a in s["attributes"]} for s in spec["attribute-sets"]}
    used = {name: set() for name in sets}
    for op in spec["operations"]["list"]:
        for part in (op.get("do", {}), op.get("dump", {}), {"event": op.get("event", {})}):
            for message in part.values():
                used[op["attribute-set"]] |= set(message.get("attributes", ()))
    tops = {op["attribute-set"] for op in spec["operations"]["list"]}
    result(all(used[s] == sets[s] - {"pad"} for s in tops), "every attribute is in a message")


def check_tool():
    """The page and the completion."""
    page, commands = TOP / "Documentation/rarctl.8", re.findall(
        r'\t\{ "(\w+)", cmd_', (TOOL / "rarctl.c").read_text())
    completion = (TOOL / "rarctl.bash").read_text()
    result(len(commands) == 10 and f'words="{" ".join(commands)}"' in completion and
           all(re.search(rf"^\.TP\n\.BI? \"?{c}\b", page.read_text(), re.M) for c in commands),
           f"page and completion know {commands}")
    if not shutil.which("mandoc"):
        return note("no mandoc")
    lint = subprocess.run(["mandoc", "-T", "lint", page], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    note(lint)
    return result(not lint, "mandoc -T lint rarctl.8")


def main():
    """Run all checks."""
    spec = yaml.safe_load(SPEC.read_text())
    check_header(spec)
    check_replies(spec)
    check_tool()
    finish()


main()
