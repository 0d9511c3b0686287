#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""lists.py [--write]: what is listed in the kernel's part is told elsewhere as it is there.

Some files have parts between the marks "list: NAME" and "end of list" that follow from the
headers: names of enumerations, counters, settings, attributes. Prints the files whose part is
outdated; with --write it also corrects them. A list of what is published only grows: a row of it
that changes is printed, and not corrected. The formats for Python in rar.h and the manual page
follow from the structures. Other lists, which say more than the headers do, are compared: the
manual page with counters, settings, socket options and enumerations, the library with reasons, the
pages of design with types of packets and locks.
(selftests/host/netlink_spec.py and wireshark.py compare the rest of the netlink specification and
of the dissector.)
"""
import itertools
import re
import sys
import textwrap

sys.dont_write_bytecode = True
import facts                                        # noqa: E402 # beside this file
from facts import NETLINK_H, RAR_H, TOP, enum       # noqa: E402

MANUAL = "Documentation/rar.7"
ADMIN = "Documentation/admin.rst"
WIRE_PAGE = "Documentation/design/tx.rst"
ORDER = "net/rar/rar.h"
LOCK_PAGE = "Documentation/design/index.rst"
BEGIN = re.compile(r"^.*\blist: (\w+)( \*/)?\n", re.M)
END = re.compile(r"^.*\bend of list\b.*\n", re.M)
# Enumerations by the names of their words in rarctl.
WORDS = {"states": "state", "reasons": "reason", "schedules": "schedule",
         "securities": "security", "rx_paths": "rx_path",
         "collectives": "collective", "dtypes": "dtype", "redops": "redop",
         "box_states": "box_state", "holders": "holder", "directions": "direction",
         "events": "event"}


def values(name):
    """Return the values of an enumeration of either header."""
    return enum(name, NETLINK_H if name in ("holder", "direction", "event") else RAR_H)


def filled(words, width, first, rest):
    """Return words, with commas between them, as lines."""
    return textwrap.fill(", ".join(words), width, initial_indent=first, subsequent_indent=rest,
                         break_on_hyphens=False, break_long_words=False)


# ------------------------------------------------------------------ C

def rarctl_names():
    """Return the words of all enumerations for rarctl."""
    lines = []
    for name, of in WORDS.items():
        known = values(of)
        words = ["NULL"] * known[0].number + [f'"{v.name.replace("_", "-")}"' for v in known]
        lines.append(filled([f"NAMES({name}", *words], 92, "", "\t") + ");")
    return "\n".join(lines) + "\n"


# Keys of rarctl's JSON that are not the attribute's name.
KEYS = {"seq": "op", "kind": "event"}


def json_kind(value):
    """Return how an attribute looks as JSON, by its comment."""
    named = re.match(r"u32, enum rar_(\w+)", value.about)
    if named and named[1] in WORDS.values():
        return f"ATTR_ENUM, &{next(w for w, of in WORDS.items() if of == named[1])}"
    kind = re.match(r"u32|u64|flag|enum rar_a_(addr|error)", value.about)
    return f"ATTR_{(kind[1] or kind[0]).upper()}" if kind else ""


def rarctl_attributes():
    """Return how the attributes of members, operations and events look as JSON."""
    out = ""
    for name in ("error", "link", "box", "member", "op", "event"):
        out += f"const struct attr {name}_attrs[RAR_A_{name.upper()}_MAX + 1] = {{\n"
        for value in enum(f"a_{name}", NETLINK_H):
            key = "address" if (name, value.name) == ("box", "addr") else \
                KEYS.get(value.name, value.name)
            if json_kind(value):
                out += f'\t[{value.constant}] = {{ "{key}", {json_kind(value)} }},\n'
        out += "};\n\n"
    return out.rstrip("\n") + "\n"


def cells(rows, indent, columns=100):
    """Return initializers of an array, as many in a line as fit."""
    width = columns - 7 * len(indent)
    return filled(rows, width, indent, indent).replace("~", " ") + ",\n"


def dtype_rows():
    """Return names and bytes of the types of elements for librar."""
    return cells([f'[{v.constant}]~=~{{~"{v.name}",~{int(re.sub(r"[a-z]", "", v.name)) // 8}~}}'
                  for v in values("dtype")], "\t")


def word_rows(name, indent, columns=100):
    """Return a function that makes the words of an enumeration, each with its constant."""
    return lambda: cells([f'[{v.constant}]~=~"{v.name}"' for v in values(name)], indent, columns)


def published_fields():
    """Return the layout of struct rar_info for the test of the ABI."""
    rows, size = facts.layout("rar_info")
    return f"\tS(rar_info, {size}),\n" + "".join(
        f"\tF(rar_info, {field}, {at}, {n}),\n" for field, at, n in rows)


def published_values():
    """Return the values of the enumerations of the socket for the test of the ABI."""
    names = ("schedule", "security", "collective", "dtype", "redop", "reason", "state", "rx_path", "lack",
             "box_state")
    return "".join(cells([f"V({v.constant},~{v.number})" for v in values(name)], "\t")
                   for name in names)


# ------------------------------------------------------------------ Lua, Python, YAML

def lua_names(name):
    """Return a function that makes the words of an enumeration for the dissector."""
    def make():
        known = values(name)
        first = "[0] = " * (known[0].number == 0)
        return cells([f'"{v.name}"' for v in known], "\t").replace("\t", f"\t{first}", 1)
    return make


def python_strings(head, words, tail):
    """Return lines of Python that hold a string, in parts if it is long."""
    if len(head + words + tail) < 98:
        return f'{head}"{words}"{tail}\n'
    parts = textwrap.wrap(words, 95 - len(head) - len(tail), break_on_hyphens=False)
    return (" \"\n" + " " * len(head) + "\"").join(parts).join((f'{head}"', f'"{tail}\n'))


def sentence(about):
    """Return a comment as a sentence without an end."""
    return about if about.startswith("struct ") else about[:1].upper() + about[1:]


def exporter_counters():
    """Return the exporter's words for counters."""
    return "".join(python_strings(f'    "{name}": ', sentence(about), ",")
                   for name, about in facts.counters().items())


def metric(setting):
    """Return the name of the metric of a setting that is a number, with its unit."""
    unit = setting.about.split()[0]
    if setting.name.endswith("_ms"):
        return setting.name.removesuffix("_ms") + "_seconds"
    if unit in ("bytes", "percent") and unit not in setting.name:
        return f"{setting.name}_{unit}"
    return setting.name


def brief(setting):
    """Return what a setting is, in the unit of its metric and without details."""
    about = setting.about.partition(";")[0].removesuffix(" (join)")
    return re.sub("^milliseconds", "seconds", about)


def exporter_settings():
    """Return the exporter's names and words for settings that are numbers."""
    return "".join(python_strings(f'    "{s.name}": ("{metric(s)}", ', sentence(brief(s)), "),")
                   for s in facts.settings() if s.kind in ("NUMBER", "VALUE"))


def label(setting):
    """Return the label of a setting that is a text: what it holds."""
    if setting.kind == "WORD":
        return setting.name.rsplit("_", 1)[1]
    return setting.about.split()[0]


def exporter_words():
    """Return the exporter's labels and words for settings that are texts."""
    return "".join(python_strings(f'    "{s.name}": ("{label(s)}", ', f"1; {brief(s)}", "),")
                   for s in facts.settings() if s.kind in ("WORD", "TEXT"))


def exporter_states():
    """Return the names of the states."""
    return filled([f'"{v.name}"' for v in values("state")], 98, "STATES = (", " " * 10) + ")\n"


def python_constants():
    """Return the constants of enumerations for ctypes."""
    lines = []
    for name in ("collective", "dtype", "redop"):
        known = values(name)
        names = ", ".join(v.constant.removeprefix("RAR_") for v in known)
        lines.append(textwrap.fill(f"({names}) = range({known[0].number}, {len(known) + 1})", 98,
                                   subsequent_indent=" "))
    return "\n".join(lines) + "\n"


def yaml_entries(name):
    """Return a function that makes the entries of an enumeration of rar.h."""
    def make():
        known = values(name)
        start = f"    value-start: {known[0].number}\n" if known[0].number else ""
        return start + filled([v.name.replace("_", "-") for v in known], 90,
                              "    entries: [", " " * 14) + "]\n"
    return make


def yaml_text(key, words, indent):
    """Return a key with words, which may need several lines."""
    if len(words) + len(key) + len(indent) < 86 and ": " not in words and "#" not in words:
        return f"{indent}{key}: {words}\n"
    return f"{indent}{key}: >-\n" + textwrap.fill(
        words, 80, initial_indent=indent + "  ", subsequent_indent=indent + "  ",
        break_on_hyphens=False) + "\n"


def yaml_attribute(value):
    """Return an attribute by its comment: the type, an enumeration or limit, what it says."""
    kind, _, about = value.about.partition(",")
    if ":" in kind:
        kind, _, about = value.about.partition(":")
    kind, _, rest = kind.partition(";")
    about = about.strip() or rest.strip()
    lines = {"__be32": "u32\n        byte-order: big-endian\n        display-hint: ipv4",
             "__be16": "u16\n        byte-order: big-endian",
             "16 bytes": "binary\n        checks:\n          exact-len: 16\n        display-hint: ipv6",
             "": "pad"}.get(kind, kind)
    nested = re.match(r"enum rar_a_(\w+)$", kind)
    if nested:
        lines = f"nest\n        nested-attributes: {nested[1]}"
        if about.startswith("one for each"):
            lines += "\n        multi-attr: true"
    listed = re.match(r"enum rar_(\w+)(?:;|,)?\s*", about)
    if listed:
        lines += f"\n        enum: {listed[1].replace('_', '-')}"
        about = about[listed.end():]
    if about == "0 .. RAR_MAX_SIZE - 1":
        lines, about = f"{lines}\n        checks:\n          max: 4095", ""
    if value.name == "group" or "RAR_OPF_" in about:
        lines += "\n        display-hint: hex"
    out = f"      -\n        name: {value.name.replace('_', '-')}\n        type: {lines}\n"
    return out + (yaml_text("doc", sentence(about) + "." * (about[-1] != "."), " " * 8)
                  if about else "")


def yaml_attributes(name):
    """Return a function that makes the attributes of a set."""
    return lambda: "    attributes:\n" + "".join(yaml_attribute(v)
                                                 for v in enum(f"a_{name}", NETLINK_H))


def yaml_reply(name):
    """Return a function that makes the list of a reply with all attributes of a set."""
    return lambda: filled([v.name.replace("_", "-") for v in enum(f"a_{name}", NETLINK_H)
                           if v.name != "pad"], 88, "          attributes: [", " " * 23) + "]\n"


# ------------------------------------------------------------------ pages

def manual_defaults():
    """Return {setting: what the manual page tells in parentheses}."""
    part = facts.part(MANUAL, ".I /proc/sys/net/rar/", "\n.RE\n").replace("\\-", "-")
    return dict(re.findall(r'^\.TP\n\.IR (\w+) " \((.*?)\)"$', part, re.M))


def limits(setting):
    """Return the limits of a number as the manual page tells them, or nothing."""
    if setting.low is None or setting.high is None:
        return ""
    return "0 or 1" if (setting.low, setting.high) == (0, 1) else f"{setting.low} .. {setting.high}"


def admin_settings():
    """Return the table of the settings."""
    out = "\n.. list-table::\n   :header-rows: 1\n   :widths: 16 16 68\n\n"
    rows = [("net.rar.", "default", "meaning")]
    for setting in facts.settings():
        told = manual_defaults().get(setting.name, "").replace("; " + limits(setting), "")
        about = re.sub(r" \(join\)$", " (*join*)", setting.about)
        about = re.sub(r"\b(RAR_[A-Z_]+|box_mem|rx_path|local)\b", r"``\1``", about)
        rows.append((f"``{setting.name}``", told, about))
    for name, told, about in rows:
        out += f"   * - {name}\n     - {told}\n" + textwrap.fill(
            about, 92, initial_indent="     - ", subsequent_indent="       ") + "\n"
    return out + "\n"


PARTS = {
    "tools/rarctl/attrs.c": {"attributes": rarctl_attributes},
    "tools/rarctl/names.c": {"names": rarctl_names},
    "lib/src/report.c": {"dtypes": dtype_rows, "redops": word_rows("redop", "\t\t")},
    "net/rar/sock/proc.c": {"states": word_rows("state", "\t", 80),
                            "securities": word_rows("security", "\t", 80)},
    "tools/wireshark/rar.lua": {f"{name}s": lua_names(name) for name in
                                ("collective", "dtype", "redop", "reason")},
    "tools/exporter/rar_exporter.py": {"counters": exporter_counters,
                                       "settings": exporter_settings, "words": exporter_words,
                                       "states": exporter_states},
    "python/rar_torch/librar.py": {"constants": python_constants},
    "Documentation/netlink/specs/rar.yaml": {
        **{name: yaml_entries(name) for name in ("state", "reason", "schedule", "security", "rx_path",
                                                 "box_state", "collective", "dtype", "redop")},
        **{f"{name}_attributes": yaml_attributes(name) for name in
           ("addr", "error", "link", "box", "member", "op", "net", "counter", "setting", "event")},
        **{f"{name}_reply": yaml_reply(name) for name in ("member", "op", "net")}},
    ADMIN: {"settings": admin_settings},
    "selftests/api/uapi.c": {"info": published_fields, "values": published_values},
}
PUBLISHED = ("info", "values")


def lost(old, new):
    """Return the rows of a list of what is published that another list lacks."""
    rows = [re.findall(r"[FSV]\(.*?\)", part) for part in (old, new)]
    return [row for row in rows[0] if row not in rows[1] and not row.startswith("S(")]


def corrected(path, makers, found):
    """Return the text of a file with the right lists; add to @found what cannot be corrected."""
    text, seen = facts.text(path), set()
    marks = list(BEGIN.finditer(text))
    for mark in reversed(marks):
        name, stop = mark[1], END.search(text, mark.end())
        if name not in makers or not stop:
            found.append(f"{path}: list {name}: it has no end, or nothing makes it")
            continue
        seen.add(name)
        old, new = text[mark.end():stop.start()], makers[name]()
        gone = lost(old, new) if name in PUBLISHED else []
        found += [f"{path}: {row} is published, and differs in {RAR_H}" for row in gone]
        if not gone:
            text = text[:mark.end()] + new + text[stop.start():]
    found += [f"{path}: no list {name}" for name in makers.keys() - seen]
    return text


def outdated(write):
    """Yield the files whose lists differ from the headers; with @write correct them."""
    for path, makers in PARTS.items():
        found = []
        text = corrected(path, makers, found)
        yield from found
        if text != facts.text(path):
            yield f"{path}: a list differs from the headers: scripts/lib/lists.py --write"
            if write:
                (TOP / path).write_text(text, encoding="utf-8")


def packed(codes):
    """Return a format with the same codes in a row counted: I, I, Q as 2IQ."""
    runs = [(code, len(list(run))) for code, run in itertools.groupby(codes)]
    return "=" + "".join(f"{n}{code}" if n > 1 and len(code) == 1 else code * n for code, n in runs)


def spread(form):
    """Return the codes of a format, one by one."""
    return [code for n, letter in re.findall(r"(\d*)([a-zA-Z])", form)
            for code in ([n + letter] if letter in "xs" else [letter] * int(n or 1))]


def formats(write):
    """Yield the structures whose format for Python, in header and manual page, is not theirs."""
    for name, form in re.findall(r' \* struct (\w+) -(?:(?!\*/).)*?Python: struct "(.*?)"',
                                 facts.text(RAR_H), re.S):
        codes = facts.python_format(name)
        if spread(form) != codes:
            yield f"{name}: its format for Python is outdated: scripts/lib/lists.py --write"
        if write and spread(form) != codes:
            for path in (RAR_H, MANUAL):
                text = re.sub(rf'( \* struct {name} -(?:(?!\*/).)*?Python: struct |\b{name} +)'
                              rf'"{re.escape(form)}"', rf'\1"{packed(codes)}"',
                              facts.text(path), flags=re.S)
                (TOP / path).write_text(text, encoding="utf-8")


# ------------------------------------------------------------------ what is compared

def words(path):
    """Return the words of a page, without its markup."""
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", facts.text(path)))


def missing(what, listed, told, where):
    """Yield a line for each fact that is not told, if there are any facts at all."""
    if not listed:
        yield f"{what}: none found"
    for fact in sorted(set(listed) - set(told)):
        yield f"{what}: {fact} is not in {where}"


def manual_settings():
    """Yield each setting whose default or limits the manual page tells otherwise."""
    settings, told = facts.settings(), manual_defaults()
    yield from missing("settings", told, {s.name for s in settings}, facts.SETTINGS)
    yield from missing("settings", {s.name for s in settings}, told, MANUAL)
    for setting in settings:
        default, *rest = told.get(setting.name, "").split("; ")
        if setting.default is not None and default != str(setting.default):
            yield f"settings: {setting.name} is {setting.default}, not {default} as in {MANUAL}"
        if limits(setting) != (rest[-1] if limits(setting) and rest else ""):
            yield f"settings: {setting.name}: {MANUAL} does not say {limits(setting)}"


def option_directions():
    """Yield each socket option that the header and the table of the module tell otherwise."""
    table = facts.part("net/rar/sock/sockopt.c", "options[] = {", "};\n\n")
    rows = dict(re.findall(r"\[(RAR_\w+)\] = \{(.*?)\},\n", table, re.S))
    options = dict(re.findall(r"^#define (RAR_\w+)\t+\d+ +/\* ((?:get|set)(?:/set)?):",
                              facts.text(RAR_H), re.M))
    for name in sorted(rows.keys() | options.keys()):
        row = rows.get(name, "")
        does = "/".join(word for word, how in (("get", r"FIELD|\.get"), ("set", r"FIELD|\.set|\.call"))
                        if re.search(how, row))
        if does != options.get(name):
            yield f"socket options: {name}: {options.get(name)} in {RAR_H}, {does} in sockopt.c"
    yield from missing("socket options", options, words(MANUAL), MANUAL)


def packets():
    """Return (rows of the header, rows of the page): "number name structure bytes" of each type."""
    sizes = facts.wire_sizes()
    types = re.findall(r"^\tRAR_T_(\w+)\s*= (\d+),\s*/\*.*?\b(rar_\w*hdr)\b", facts.text(facts.WIRE_H), re.M)
    rows = re.findall(r"^(\d+) +(\w+) +(rar_\w+) +(\d+)\b", facts.text(WIRE_PAGE), re.M)
    return ({f"{number} {name} {header} {sizes[header]}" for name, number, header in types},
            {" ".join(row) for row in rows})


def locks():
    """Yield what the page of design or the order in rar.h says of locks that does not hold."""
    table = facts.part(LOCK_PAGE, "\nLocks\n-----\n", "\nPairs of barriers\n")
    rows = re.findall(r"^((?:\w+(?:->|\.))*)(\w*lock) +(\w+|-) ", table, re.M)
    told = {f"{lock} {owner}" for _, lock, owner in rows}
    yield from missing("locks", facts.declared_locks(), told, LOCK_PAGE)
    yield from missing("locks", told, facts.declared_locks(), "net/rar")
    order = set(re.findall(r"[\w.>-]*lock\b", facts.part(ORDER, "/*\n * The objects", "*/")))
    yield from missing("the order of locks", {way + lock for way, lock, _ in rows}, order, ORDER)


def compare():
    """Yield what one of two lists lacks."""
    manual = words(MANUAL)
    header, page = packets()
    yield from missing("types of packets", header, page, WIRE_PAGE)
    yield from missing("types of packets", page, header, facts.WIRE_H)
    yield from locks()
    yield from missing("counters", [*facts.counters(), *facts.drops()], manual, MANUAL)
    yield from manual_settings()
    yield from option_directions()
    for name in ("reason", "lack", "redop", "dtype", "collective", "schedule", "security"):
        known = {v.constant for v in values(name) if not v.constant.endswith("_NONE")}
        yield from missing(f"enum rar_{name}", known, manual, MANUAL)
        if name in ("reason", "lack"):
            yield from missing(f"enum rar_{name}", known, words("lib/src/report.c"),
                               "lib/src/report.c")


def main():
    write = "--write" in sys.argv[1:]
    found = [*formats(write), *outdated(write), *compare()]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
