# SPDX-License-Identifier: GPL-2.0
"""facts.py: reads the lists of the kernel's part: counters, settings, enumerations, attributes."""
import dataclasses
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]
RAR_H = "include/uapi/linux/rar.h"
NETLINK_H = "include/uapi/linux/rar_netlink.h"
WIRE_H = "include/uapi/linux/rar_wire.h"
MIB = "net/rar/core/mib.h"
SETTINGS = "net/rar/core/settings.h"
CONSTANTS = (RAR_H, "net/rar/core/op.h", "net/rar/core/ring.h", "net/rar/core/stages.h", SETTINGS)
# What the names of an enumeration's values begin with, after RAR_.
PREFIXES = {"security": "SECURITY_", "state": "S_", "reason": "R_", "rx_path": "PATH_", "box_state": "BOX_", "lack": "LACK_",
            "holder": "HOLDER_", "direction": "DIRECTION_", "event": "EVENT_"}


def text(path):
    """Return the text of a file."""
    return (TOP / path).read_text(encoding="utf-8")


def part(path, begin, end):
    """Return what is between two strings in a file."""
    return text(path).split(begin, 1)[1].split(end, 1)[0]


def joined(comments):
    """Return the words of comments that follow one another, as one line."""
    return " ".join(" ".join(re.sub(r"\s*\*/\s*\\?\s*(/\*|$)|\n\s*\*|\\", " ", comments).split())
                    .removeprefix("/*").split())


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of an enumeration: RAR_<prefix><NAME>, @name in lower case, what its comment says."""

    constant: str
    name: str
    number: int
    about: str


def enum(name, path=RAR_H):
    """Return the values of enum rar_@name, without *_NR and *_MAX."""
    prefix, number, values = f"RAR_{PREFIXES.get(name, '')}", -1, []
    if name.startswith("a_"):
        prefix = f"RAR_{name.upper()}_"
    for constant, given, about in re.findall(
            r"^\t(RAR_\w+)(?:\s*=\s*(\d+))?,?[ \t]*(?:/\*(.*?)\*/)?",
            part(path, f"\nenum rar_{name} {{", "\n};"), re.M | re.S):
        number = int(given) if given else number + 1
        if not constant.endswith("_NR") and constant not in ("RAR_CMD_MAX", f"RAR_{name.upper()}_MAX"):
            values.append(Value(constant, constant.removeprefix(prefix).lower(), number,
                                joined(about)))
    return values


def counters():
    """Return {name: what it counts} of the counters that are no drops."""
    return {name: joined(about) for name, about in re.findall(
        r"X\((\w+)\)((?:\s*/\*.*?\*/[ \t]*\\?\n?)+)", part(MIB, "RAR_MIB_LIST(X)", "\n\n"))}


def drops():
    """Return the names of the counters of drops."""
    return re.findall(r"X\((\w+)\)", part(MIB, "RAR_DROP_LIST(X)", "\n\n"))


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row of settings.h; numbers are None where they are known at run time only."""

    name: str
    kind: str
    default: object
    low: object
    high: object
    about: str


def constant(expression):
    """Return the value of an expression of C whose names are macros; None if it has others."""
    known = {}
    for path in CONSTANTS:
        known.update(re.findall(r"^#define (RAR_\w+)\s+(\d+)\b", text(path), re.M))
    words = re.sub(r"\b(RAR_\w+)\b", lambda name: known.get(name[0], name[0]), expression)
    words = re.sub(r"\b(\d+)UL\b", r"\1", words)
    return eval(words, {}) if re.fullmatch(r"[\d\s*<()]+", words) else None  # pylint: disable=eval-used


def settings():
    """Return the settings."""
    rows = []
    for table in ("RAR_SETTINGS", "RAR_BOX_SETTINGS"):
        lines = part(SETTINGS, f"#define {table}(NUMBER, WORD, VALUE, TEXT)", "\n\n")
        for about, kind, args in re.findall(
                r"((?:\t/\*.*?\*/\s*\\\n)+)\t([A-Z]+)\((.*?)\)\s*(?:\\\n|$)", lines + "\n", re.S):
            name, *rest = [word.strip(" \t\\\n") for word in re.split(r",\s*\\?\s*", args)]
            low = high = None
            if kind in ("NUMBER", "VALUE"):
                low, high, default = (constant(word) for word in rest[-3:])
            else:
                default = rest[0].strip('"')
            if kind == "WORD":
                default = default.rsplit("_", 1)[1].lower()
            rows.append(Setting(name, kind, default, low, high, joined(about)))
    return rows


def struct(name):
    """Return (kind, name, how many or 0) of each field of a structure in rar.h."""
    sizes = {"RAR_MAX_BOXES": constant("RAR_MAX_BOXES"), "RAR_KEY_LEN": constant("RAR_KEY_LEN")}
    return [(kind, field, int(sizes.get(times, times or 0))) for kind, field, _, times in
            re.findall(r"^\t(?:struct )?(\w+)\s+(\w+)(\[(\w+)\])?;",
                       part(RAR_H, f"\nstruct {name} {{", "\n};"), re.M)]


def layout(name):
    """Return (field, offset, bytes) of each field of a structure, and how many bytes it has."""
    sizes, rows, at = {"__u32": 4, "__s32": 4, "__u64": 8, "__u8": 1, "__u16": 2,
                       "sockaddr_rar": 64}, [], 0
    for kind, field, times in struct(name):
        size = sizes.get(kind) or layout(kind)[1]
        rows.append((field, at, size * (times or 1)))
        at += size * (times or 1)
    return rows, at


def python_format(name):
    """Return the fields of a structure as the module struct of Python has them, one a code."""
    codes = {"__u8": "B", "__u16": "H", "__u32": "I", "__s32": "i", "__u64": "Q"}
    out = []
    for (kind, field, times), (_, _, size) in zip(struct(name), layout(name)[0]):
        if field.startswith("__pad"):
            out.append(f"{size}x")
        else:
            out.append(codes[kind] if kind in codes and not times else f"{size}s")
    return out


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
    code = re.sub(r"/\*.*?\*/", "", text(WIRE_H), flags=re.S)
    for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", code, re.S | re.M):
        sizes[name] = sum(bytes_of(row, sizes) for row in declarations(body))
    return sizes


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
