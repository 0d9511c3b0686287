#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""map.py [--write]: the map of files, made of the first comment of each file; and the table of
tests, made of tests.list.

Each page of design/ and the README has a part of the map between two marks, and
contributing.rst has the table. Prints the pages whose part is outdated; with --write it also
corrects them. A layer is a folder of net/rar; files outside these folders belong to the highest
layer.
"""
import re
import sys
import textwrap

from testlist import TOP, read

README = TOP / "README.md"
CONTRIBUTING = TOP / "Documentation/contributing.rst"
DESIGN = TOP / "Documentation/design"
MODULE = TOP / "net/rar"
UAPI = TOP / "include/uapi/linux"
# Lowest first. A function calls down or within its layer, never up.
LAYERS = ["reduce", "core", "tx", "link", "ring", "group", "box", "rx", "sock", "main"]
ROOT = LAYERS[-1]       # the layer of files outside the folders
WIDTH = 92
MARKS = {".rst": (r"^\.\. map: (\w+)\n", r"^\.\. end of map\n"),
         ".md": (r"^<!-- map: (\w+) -->\n", r"^<!-- end of map -->\n")}
REST = (("include/uapi/linux/", "the socket interface and the packets, for programs"),
        ("lib/, python/", "librar: the library for programs; rar_torch: PyTorch with it"),
        ("samples/", "programs that use the socket, and the demo's training"),
        ("selftests/", "tests in a guest or on a host; host/: in user space; model/: for spin"),
        ("tools/", "the bench, a simulator, the XDP program, tools that watch a ring"),
        ("scripts/", "demo, test, check, bench, fuzz, model, vm: what make calls"))


def first_sentence(text):
    """Return the first sentence of the first comment of a C file, without its end."""
    comment = re.search(r"/\*\*?(?! SPDX)(.*?)\*/", text, re.S)
    if not comment:
        return ""
    lines = "\n".join(line.strip().lstrip("*").strip() for line in comment[1].splitlines())
    paragraph = re.split(r"\n\s*\n", lines.strip())[0]
    return re.split(r"(?<=[\w)\]])[.](?:\s|$)", " ".join(paragraph.split()))[0].rstrip(":")


def escaped(text):
    """Return text with its markup characters escaped."""
    return re.sub(r"([*`|]|_(?!\w))", r"\\\1", text)


def layer_of(path):
    """Return the layer of a file of the module."""
    folder = path.relative_to(MODULE).parts[0]
    return folder if folder in LAYERS else ROOT


def files_of(layer):
    """Return the files of a layer: a header without a .c of its own, or a .c with its header."""
    paths = sorted(path for path in MODULE.rglob("*.[ch]")
                   if layer_of(path) == layer and not path.name.endswith(".mod.c"))
    paths += sorted(UAPI.glob("*.h")) if layer == ROOT else []
    return [path for path in paths
            if path.suffix == ".c" or path.with_suffix(".c") not in paths]


def name_of(path):
    """Return the name of a file in the map: its path in its layer's folder."""
    if UAPI in path.parents:
        return str(path.relative_to(TOP))
    parts = path.relative_to(MODULE).parts
    return "/".join(parts[-2:] if len(parts) > 1 and parts[-2] in ("x86", "arm64") else parts[-1:])


def files_map(layer):
    """Return the map of a layer as a definition list."""
    text = "\n"
    for path in files_of(layer):
        names = [name_of(path)]
        if path.suffix == ".c" and path.with_suffix(".h").exists():
            names.append(name_of(path.with_suffix(".h")))
        sentence = first_sentence(path.read_text())
        if not sentence:
            sys.exit(f"{path.relative_to(TOP)}: no comment at its beginning")
        text += ", ".join(f"``{name}``" for name in names) + "\n"
        text += textwrap.fill(escaped(sentence), WIDTH, initial_indent="   ",
                              subsequent_indent="   ", break_on_hyphens=False) + "\n"
    return text + "\n"


def title(layer):
    """Return the title of a layer's page, without the layer's name."""
    page = DESIGN / f"{layer}.rst"
    return re.search(rf"^{layer}: (.*)$", page.read_text(), re.M)[1].strip()


def folders_map():
    """Return the map of folders for the README."""
    rows = [(f"net/rar/{layer}/", title(layer)) for layer in LAYERS if layer != ROOT]
    rows += [("net/rar/main.c", "load and unload: the only file that knows the order"), *REST]
    return "```\n" + "".join(f"{name:24}{words}\n" for name, words in rows) + "```\n"


def tiers(tests):
    """Return the tests of one promise by the command that runs them."""
    full = [t.name for t in tests if t.flags & {"full", "debug"} or not t.runs_on("6.12")]
    return [[t.name for t in tests if t.name not in full], full]


def tests_map():
    """Return the table of promises and the tests that guard them."""
    promises = {}
    for test in read():
        promises.setdefault(test.promise, []).append(test)
    text = "\n.. list-table::\n   :header-rows: 1\n   :widths: 25 50 25\n\n"
    for row in [("promise", ["``make test``"], ["only ``make test-full``"]),
                *((promise, *tiers(tests)) for promise, tests in promises.items())]:
        mark = "   * - "
        for cell in (escaped(row[0]), ", ".join(row[1]), ", ".join(row[2])):
            text += textwrap.fill(mark + cell, WIDTH, subsequent_indent="       ",
                                  break_on_hyphens=False).rstrip() + "\n"
            mark = "     - "
    return text + "\n"


def corrected(page):
    """Return the text of a page with the right map."""
    begin, end = MARKS[page.suffix]
    text = page.read_text()
    marks = re.search(begin, text, re.M)
    if not marks:
        return text
    stop = re.compile(end, re.M).search(text, marks.end())
    if not stop:
        sys.exit(f"{page.relative_to(TOP)}: the map has no end")
    makers = {"folders": folders_map, "tests": tests_map}
    part = makers[marks[1]]() if marks[1] in makers else files_map(marks[1])
    return text[:marks.end()] + part + text[stop.start():]


def unmapped(write=False):
    """Return the pages whose map differs, and the layers that have no page."""
    found = []
    for page in [README, CONTRIBUTING, *sorted(DESIGN.glob("*.rst"))]:
        text = corrected(page)
        if text != page.read_text():
            found.append(f"{page.relative_to(TOP)}: the map differs from the files: "
                         "scripts/lib/map.py --write")
            if write:
                page.write_text(text)
    return found + [f"no page describes the layer {layer}" for layer in LAYERS
                    if layer != ROOT and not (DESIGN / f"{layer}.rst").exists()]


if __name__ == "__main__":
    wrong = unmapped("--write" in sys.argv[1:])
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong) and "--write" not in sys.argv[1:])
