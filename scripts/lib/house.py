#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""house.py OBJECTS: measures the structure of the modules.

OBJECTS is a directory in which the modules were built. Prints findings, one a line, then the size of
each module, and a summary that begins with "layers:". Each folder of net/rar is a layer;
scripts/lib/ratchet.txt holds the worst figures that pass.
"""
import collections
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from map import LAYERS, unmapped    # noqa: E402 # beside this file

LIB = pathlib.Path(__file__).parent
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
SYMBOLS = "TDRBC"       # functions and data, as nm calls them
PAGES = (".rst", ".md", ".7")

# Functions of the kernel, libc and Python that comments mention and our sources do not call.
OTHERS = {"dst_neigh_lookup", "fileno", "fminf", "hash_32", "nf_ip_checksum", "recv_into", "recvfrom",
          "sendpage", "settimeout", "sock_wfree", "udp_tunnel_sock_release"}


def table(name):
    """Yield the words of each line of a table beside this file."""
    for line in (LIB / name).read_text().splitlines():
        words = line.replace(":", " ").split()
        if words and not line.startswith("#"):
            yield words


# ---------------------------------------------------------------- calls

def symbols(objects):
    """Return the file that defines each symbol, and the undefined symbols of each file."""
    owner, wants = {}, collections.defaultdict(set)
    for path in objects.rglob("net/rar/**/*.o"):
        file = str(path.relative_to(objects / "net/rar").with_suffix(""))
        if not pathlib.Path(f"net/rar/{file}.c").exists():  # left from an older tree
            continue
        listing = subprocess.run(["nm", path], check=True, text=True, stdout=subprocess.PIPE)
        for line in listing.stdout.splitlines():
            kind, name = line.split()[-2:]
            if kind == "U":
                wants[file].add(name)
            elif kind in SYMBOLS:
                owner[name] = file
    return owner, wants


def calls(objects):
    """Return {(file, other file): symbols of the other that it calls, or whose data it uses}."""
    owner, wants = symbols(objects)
    edges = collections.defaultdict(set)
    for caller, names in wants.items():
        for name in names:
            if owner.get(name, caller) != caller:
                edges[caller, owner[name]].add(name)
    return edges


def layer(file):
    """Return the height of the layer that @file is in."""
    return LAYERS.index(file.split("/")[0])


def upward(edges):
    """Yield each call, and each use of data, that goes up."""
    for (caller, callee), names in sorted(edges.items()):
        if layer(callee) > layer(caller):
            yield from (f"{caller} uses {callee}: {name}" for name in sorted(names))


def upward_includes():
    """Yield each header of a higher layer that a file includes."""
    for path in sorted(pathlib.Path("net/rar").rglob("*.[ch]")):
        file = str(path.relative_to("net/rar"))
        for header in re.findall(r'^#include "(\w+/[\w/]+\.h)"', path.read_text(), re.M):
            if file not in ("rar.h", "main.c") and layer(header) > layer(file):
                yield f"{path} includes {header}"


def reach(start, after):
    """Return all files that @start calls, directly or not."""
    seen, todo = set(), [start]
    while todo:
        for callee in after[todo.pop()]:
            if callee not in seen:
                seen.add(callee)
                todo.append(callee)
    return seen


def largest_circle(edges):
    """Return the largest set of files that all reach one another."""
    after = collections.defaultdict(set)
    for caller, callee in edges:
        after[caller].add(callee)
    reached = {file: reach(file, after) for file in list(after)}
    circles = ([other for other in reached[file] if file in reached.get(other, ())]
               for file in reached)
    return max(map(len, circles), default=0)


# ---------------------------------------------------------------- modules

def modules():
    """Return the files of each module, without suffix, as Kbuild has them: {name: files}."""
    files = collections.defaultdict(list)
    for name, file in re.findall(r"^(\w+)-\S+ [:+]= (net/rar/\S+)\.o$",
                                 pathlib.Path("Kbuild").read_text(), re.M):
        files[name].append(file)
    return files


def lines_of(files, headers):
    """Return the lines of the source files, and of these headers."""
    return sum(len(pathlib.Path(path).read_text().splitlines())
               for path in [*(f"{file}.c" for file in files), *headers])


def own_headers(module, files):
    """Return the headers of a module: each beside its .c; others of box/ are rar_box's."""
    of = {f"{file}.h": name for name, its in files.items() for file in its}
    return [path for path in map(str, pathlib.Path("net/rar").rglob("*.h"))
            if of.get(path, "rar_box" if "/box/" in path else "rar") == module]


def sizes(objects):
    """Yield a line for each module: what it loads."""
    files = modules()
    for name, its in files.items():
        listing = subprocess.run(["size", objects / f"{name}.ko"], check=True, text=True,
                                 stdout=subprocess.PIPE)
        text, data, bss = listing.stdout.splitlines()[1].split()[:3]
        yield (f"# {name}.ko: {lines_of(its, own_headers(name, files))} lines, text {text} bytes, "
               f"data {int(data) + int(bss)}")


def shared(objects):
    """Return how many symbols the modules export."""
    return sum(path.read_text().count("EXPORT_SYMBOL_GPL(")
               for path in pathlib.Path(objects / "net/rar").rglob("*.c"))


# ---------------------------------------------------------------- text

def tracked():
    """Return all files of the repository."""
    listing = subprocess.run(["git", "ls-files"], check=True, text=True, stdout=subprocess.PIPE)
    return [pathlib.Path(name) for name in listing.stdout.splitlines()
            if pathlib.Path(name).exists()]


def stale_names():
    """Yield each function() that a comment or a page mentions and that does not exist."""
    known, mentions = set(OTHERS), []
    for path in tracked():
        text = path.read_text(errors="replace")
        if path.suffix in (".c", ".h"):
            code = COMMENT.sub(" ", text)
            known.update(re.findall(r"\b[A-Za-z_]\w*\b", code))
            prose = COMMENT.finditer(text)
            mentions += [(path, text.count("\n", 0, part.start()) + 1, name)
                         for part in prose if part[0].startswith("/")
                         for name in re.findall(r"\b([A-Za-z]\w*)\(\)", part[0])]
        elif path.suffix in PAGES:
            mentions += [(path, text.count("\n", 0, found.start()) + 1, found[1])
                         for found in re.finditer(r"\b([A-Za-z]\w*)(?:\\fR)?\(\)", text)]
    for path, line, name in mentions:
        if name not in known:
            yield f"{path}:{line}: {name}() does not exist"


def stale_files():
    """Yield each file that a page names and that does not exist."""
    names = {path.name for path in tracked()}
    for path in tracked():
        if path.suffix in PAGES:
            text = path.read_text()
            for found in re.finditer(r"`(?:[\w.-]+/)*([\w-]+\.(?:c|h|py|sh|rst))`", text):
                if found[1] not in names:
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"{path}:{line}: {found[1]} does not exist"


def function_lengths():
    """Return the lines of each function of the module, from "{" to "}" in column 1."""
    lengths = []
    for path in sorted(pathlib.Path("net").rglob("*.[ch]")):
        start = None
        for number, line in enumerate(path.read_text().splitlines()):
            if line.startswith("{"):
                start = number
            elif line.startswith("}") and start is not None:
                lengths.append(number - start - 1)
                start = None
    return sorted(lengths)


def prototypes():
    """Return how many functions rar.h declares."""
    code = COMMENT.sub(" ", pathlib.Path("net/rar/rar.h").read_text())
    code = re.sub(r"\{[^{}]*\}", " ", re.sub(r"^#.*$", "", code, flags=re.M))
    return len(re.findall(r"^[a-z][^;{}]*\brar_\w+\([^;{}]*\);|^int bpf_\w+\([^;]*\);",
                          code, flags=re.M))


# ---------------------------------------------------------------- verdict

def main():
    """Measure, compare with the ratchet, and report."""
    objects = pathlib.Path(sys.argv[1])
    edges = calls(objects)
    if not edges:
        sys.exit(f"{sys.argv[1]}: no objects")
    lengths, missing = function_lengths(), unmapped()
    ups, includes = list(upward(edges)), list(upward_includes())
    stale = [*stale_names(), *stale_files()]
    now = {"upward": len(ups), "includes": len(includes),
           "circle": largest_circle(edges), "longest": lengths[-1],
           "prototypes": prototypes(), "stale": len(stale), "unmapped": len(missing)}
    details = {"upward": ups, "includes": includes, "stale": stale, "unmapped": missing}
    for name, most in table("ratchet.txt"):
        if now[name] > int(most):
            print(f"{name}: {now[name]}, at most {most} before", *details.get(name, ()), sep="\n")
        elif now[name] < int(most):
            print(f"# {name}: {now[name]}, better than the {most} of ratchet.txt")
    print(*sizes(objects), sep="\n")
    print(f"# layers: {now['upward']} upward calls, largest circle of files {now['circle']}, "
          f"functions p50/p90/max {lengths[len(lengths) // 2]}/"
          f"{lengths[len(lengths) * 9 // 10]}/{now['longest']}, "
          f"prototypes in rar.h {now['prototypes']}, symbols exported {shared(objects)}, stale names {now['stale']}")


main()
