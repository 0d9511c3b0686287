#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""lists.py: facts that stand in the kernel's code and are told elsewhere are told there, each of them.

Compared are counters, settings, socket options, reasons and other values of the interface with the
manual page, the exporter and the library; types of packets, and locks, with the pages of design.
Prints what one of two lacks; nothing if they agree.
(selftests/host/netlink_spec.py and wireshark.py compare the netlink specification and the dissector,
which are lists of the same kind, and the compiler compares the tables of rarctl.)
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
UAPI = "include/uapi/linux/rar.h"
MANUAL = "Documentation/rar.7"
EXPORTER = "tools/exporter/rar_exporter.py"
WIRE = "include/uapi/linux/rar_wire.h"
WIRE_PAGE = "Documentation/design/tx.rst"
ORDER = "net/rar/rar.h"
LOCK_PAGE = "Documentation/design/index.rst"


def text(path):
    return (TOP / path).read_text(encoding="utf-8")


def names(path, pattern):
    """Return the set of the first groups of a pattern in a file."""
    return set(re.findall(pattern, text(path), re.M))


def part(path, begin, end):
    """Return what is between two strings."""
    return text(path).split(begin, 1)[1].split(end, 1)[0]


def words(path):
    """Return the words of a page, without its markup."""
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text(path)))


def keys(path, table):
    """Return the keys of a dictionary in Python."""
    return set(re.findall(r'^    "(\w+)":', part(path, f"\n{table} = {{", "\n}"), re.M))


def missing(what, facts, told, where):
    """Yield a line for each fact that is not told, if there are any facts at all."""
    if not facts:
        yield f"{what}: none found"
    for fact in sorted(facts - told):
        yield f"{what}: {fact} is not in {where}"


def declarations(body):
    """Yield what ends with a semicolon that is in no inner braces."""
    depth, row = 0, ""
    for char in body:
        depth += (char == "{") - (char == "}")
        if char == ";" and not depth:
            yield row.strip()
            row = ""
        else:
            row += char


def bytes_of(row, sizes):
    """Return the bytes of a declaration in a structure, which may be a union without a name."""
    if "{" in row:
        inner = [bytes_of(part, sizes)
                 for part in declarations(row[row.find("{") + 1:row.rfind("}")])]
        return max(inner) if row.startswith("union") else sum(inner)
    kind, times = re.fullmatch(r"(?:struct )?(\w+)\s+\w+(?:\[(\d+)\])?", row).groups()
    return sizes[kind] * int(times or 1)


def wire_sizes():
    """Return the bytes of each structure of the wire format; none has hidden padding."""
    sizes = {"__u8": 1, "__be16": 2, "__be32": 4, "__be64": 8, "__le64": 8}
    code = re.sub(r"/\*.*?\*/", "", text(WIRE), flags=re.S)
    for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", code, re.S | re.M):
        sizes[name] = sum(bytes_of(row, sizes) for row in declarations(body))
    return sizes


def packets():
    """Return (rows of the header, rows of the page): "number name structure bytes" of each type."""
    sizes = wire_sizes()
    types = re.findall(r"^\tRAR_T_(\w+)\s*= (\d+),\s*/\*.*?\b(rar_\w*hdr)\b", text(WIRE), re.M)
    rows = re.findall(r"^(\d+) +(\w+) +(rar_\w+) +(\d+)\b", text(WIRE_PAGE), re.M)
    return ({f"{number} {name} {header} {sizes[header]}" for name, number, header in types},
            {" ".join(row) for row in rows})


def declared_locks():
    """Return "lock owner" of each lock of the module; a lock outside of structures has none."""
    kind = r"(?:spinlock_t|struct mutex|local_lock_t)"
    found = set()
    for path in sorted((TOP / "net/rar").rglob("*.[ch]")):
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        for owner, body in re.findall(r"^struct (\w+) \{(.*?)^\}", code, re.S | re.M):
            found.update(f"{lock} {owner}"
                         for lock in re.findall(rf"^\t{kind} (\w+)", body, re.M))
        found.update(f"{lock} -"
                     for lock in re.findall(r"DEFINE_(?:SPINLOCK|MUTEX)\((\w+)\)", code))
    return found


def locks():
    """Yield what the page of design or the order in rar.h says of locks that does not hold."""
    table = part(LOCK_PAGE, "\nLocks\n-----\n", "\nPairs of barriers\n")
    rows = re.findall(r"^((?:\w+(?:->|\.))*)(\w*lock) +(\w+|-) ", table, re.M)
    told = {f"{lock} {owner}" for _, lock, owner in rows}
    yield from missing("locks", declared_locks(), told, LOCK_PAGE)
    yield from missing("locks", told, declared_locks(), "net/rar")
    order = set(re.findall(r"[\w.>-]*lock\b", part(ORDER, "/*\n * The objects", "*/")))
    yield from missing("the order of locks", {way + lock for way, lock, _ in rows}, order, ORDER)


def compare():
    manual = words(MANUAL)
    counters = names("net/rar/core/mib.h", r"^\tX\((\w+)\)")
    exported = keys(EXPORTER, "COUNTERS")
    yield from missing("counters", counters, manual, MANUAL)
    # The exporter shows drops as one metric with the rest of the name as its label.
    yield from missing("counters", {c for c in counters if not c.startswith("Drop")}, exported,
                       EXPORTER)
    yield from missing("counters", exported, counters, "net/rar/core/mib.h")

    table = part("net/rar/sock/sysctl.c", "template[] = {", "\n};")
    settings = set(re.findall(r'procname = "(\w+)"|(?:INT|LONG)_ENTRY\((\w+)', table))
    settings = {a or b for a, b in settings}
    exported = keys(EXPORTER, "SETTINGS") | keys(EXPORTER, "WORDS")
    yield from missing("settings", settings, manual, MANUAL)
    yield from missing("settings", settings, exported, EXPORTER)
    yield from missing("settings", exported, settings, "net/rar/sock/sysctl.c")

    header, page = packets()
    yield from missing("types of packets", header, page, WIRE_PAGE)
    yield from missing("types of packets", page, header, WIRE)
    yield from locks()

    options = names(UAPI, r"^#define (RAR_\w+)\t+\d+ +/\* (?:get|set)")
    yield from missing("socket options", options, manual, MANUAL)
    for enum in ("reason", "lack", "redop", "dtype", "collective", "schedule"):
        values = set(re.findall(r"^\t(RAR_\w+)", part(UAPI, f"enum rar_{enum} {{", "\n}"), re.M))
        values = {v for v in values if not v.endswith(("_NR", "_NONE"))}
        yield from missing(f"enum rar_{enum}", values, manual, MANUAL)
        if enum in ("reason", "lack"):
            yield from missing(f"enum rar_{enum}", values, words("lib/src/report.c"),
                               "lib/src/report.c")


def main():
    found = list(compare())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
