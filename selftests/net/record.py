#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rarctl record and plot: the drawing says what the recorded events say.

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh, each with a recorder of
its own, as on three hosts. Rank 2 posts late. This program finds the times of each rank in the
files by itself, and reads the positions in the SVG with the numbers at the axis.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from live import N, Data, Ring, note        # noqa: E402
from tap import finish, result, skip_all    # noqa: E402

RARCTL = pathlib.Path(os.environ.get("RAR_BIN", TOP / "build/selftests/bin")) / "rarctl"
STAGES = {"rar_post": "posted", "rar_tx": "sent", "rar_reduce": "received",
          "rar_op": "complete", "rar_release": "released"}
LATE_S = 0.3
OP, OPS = 1, 3
EVENT = re.compile(r" (\d+\.\d+): (rar_\w+): group=(\w+) rank=(\d+) op=(\d+) ")
SECONDS = {"s": 1, "ms": 1e-3, "\u00b5s": 1e-6}


def rarctl(*args):
    """Return (exit status, output, errors) of rarctl."""
    run = subprocess.run([RARCTL, *map(str, args)], text=True, check=False, timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return run.returncode, run.stdout, run.stderr


class Recorder:
    """A rarctl that records one rank to a file."""

    def __init__(self, path, *args):
        self.path = path
        self.run = subprocess.Popen([RARCTL, *args[:-2], "record", path, *map(str, args[-2:])],
                                    text=True, stderr=subprocess.PIPE)
        said = self.run.stderr.readline().strip()
        if said != "rarctl: recording":
            raise OSError(said)

    def end(self):
        """End it as Ctrl-C does. Return its exit status."""
        self.run.send_signal(signal.SIGINT)
        return self.run.wait(10)


def firsts(paths, group, op):
    """Return {(rank, stage): seconds} of an operation."""
    out = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            if (m := EVENT.search(line)) and int(m[3], 16) == group and int(m[5]) == op and \
                    m[2] in STAGES:
                key = int(m[4]), STAGES[m[2]]
                out[key] = min(float(m[1]), out.get(key, float("inf")))
    return out


class Drawing:
    """An SVG, with the times of its marks as the axis tells them."""

    def __init__(self, text):
        ns = "{http://www.w3.org/2000/svg}"
        svg = ET.fromstring(text)
        self.width, self.height = (float(svg.get(k)) for k in ("width", "height"))
        texts = list(svg.iter(f"{ns}text"))
        self.texts = ["".join(t.itertext()) for t in texts]
        ticks = [(float(t.text), float(t.get("x"))) for t in texts if t.get("class") == "tick"]
        unit = next(t.text for t in texts if t.get("class") == "unit").split()[-1]
        (t0, x0), (t1, x1) = ticks[0], ticks[-1]
        self.ticks, self.unit = ticks, unit
        self.pixel = (t1 - t0) * SECONDS[unit] / (x1 - x0)      # seconds
        self.lines = {t.text: float(t.get("y")) for t in texts if t.get("class") == "rank"}
        self.marks = {}
        for g in svg.iter(f"{ns}g"):
            if g.get("data-rank"):
                shape = g[0]
                x, y = self.place(shape)
                self.marks[int(g.get("data-rank")), g.get("class")] = (
                    (x - x0) * self.pixel + t0 * SECONDS[unit], y)

    @staticmethod
    def place(shape):
        """Return where the point or the middle of a mark is."""
        if shape.tag.endswith("circle"):
            return float(shape.get("cx")), float(shape.get("cy"))
        if shape.tag.endswith("rect"):
            return tuple(float(shape.get(k)) + float(shape.get(size)) / 2
                         for k, size in (("x", "width"), ("y", "height")))
        x, y = map(float, re.match(r"M([\d.]+) ([\d.]+)l", shape.get("d")).groups())
        return (x - 5 if shape.get("fill") == "white" else x), y


def record(ring, tmp):
    """Let the ring work while a recorder for each rank runs. Return the files."""
    paths = [f"{tmp}/{r}.trace" for r in range(N)]
    recorders = [Recorder(path, ring.group, r) for r, path in enumerate(paths)]
    data = [Data(20000) for _ in range(OPS)]
    good = True
    for i, d in enumerate(data):
        for r in range(N):
            if i == OP and r == N - 1:
                time.sleep(LATE_S)
            ring.post(r, d)
        good = all([ring.collect(r, d) for r in range(N)]) and good
    time.sleep(0.5)
    ends = [r.end() for r in recorders]
    result(good and ends == [0] * N, f"{OPS} operations while {N} recorders run")
    result(not any(p.startswith("rarctl-") for p in os.listdir("/sys/kernel/tracing/instances")),
           "no trace buffer is left")
    return paths


def check_drawing(ring, paths):
    """Compare the SVG with the events."""
    want = firsts(paths, ring.group, OP)
    result(len(want) == N * len(STAGES), f"{len(want)} first events in the files")
    status, out, err = rarctl("plot", ring.group, OP, *paths)
    result(status == 0 and not err, f"plot: {status} {err}")
    svg = Drawing(out)
    begin = min(want.values())
    off = {k: abs(svg.marks[k][0] - (want[k] - begin)) for k in want if k in svg.marks}
    note(f"{svg.unit}, ticks {[t for t, _ in svg.ticks]}, a pixel is {svg.pixel * 1e6:.1f} us, "
         f"largest difference {max(off.values()) * 1e6:.1f} us")
    result(svg.marks.keys() == want.keys(), "a mark for each stage of each rank")
    result(max(off.values()) <= 0.02 * svg.pixel + 1e-6, "the marks are at their times")
    result(all(abs(svg.lines[f"rank {r}"] - y) < 6 for (r, _), (_, y) in svg.marks.items()) and
           len(set(svg.lines.values())) == N, "each rank has its line")
    late = svg.marks[N - 1, "posted"][0] - svg.marks[0, "posted"][0]
    result(LATE_S <= late < LATE_S + 5, f"rank {N - 1} posted {late:.2f} s late")
    result(all(svg.marks[r, "complete"][0] >= late and
               svg.marks[r, "released"][0] >= svg.marks[r, "complete"][0] for r in range(N)),
           "no rank is complete before the last has posted")
    result(all(text in svg.texts for text in ("posted", "first chunk sent", "complete",
                                              "first chunk received", "released")) and
           4 <= len(svg.ticks) <= 12 and f"in {svg.unit}" in " ".join(svg.texts) and
           f"operation {OP}: 80000 bytes, {N} ranks" in svg.texts[0] + svg.texts[1],
           "title, legend and axis")


def check_part(ring, paths):
    """A file alone has the marks of its rank; files of other clocks are noticed, and losses."""
    one = Drawing(rarctl("plot", ring.group, OP, paths[1])[1])
    result({r for r, _ in one.marks} == {1}, "the file of one host: one rank")
    text = pathlib.Path(paths[1]).read_text()
    shifted = EVENT.sub(lambda m: m[0].replace(m[1], f"{float(m[1]) - 7:.6f}"), text)
    pathlib.Path(f"{paths[1]}.early").write_text(shifted)
    err = rarctl("plot", ring.group, OP, paths[0], f"{paths[1]}.early", paths[2])[2]
    us = re.search(r"differ by at least (\d+) us", err)
    result(us and 6.5e6 < int(us[1]) <= 7e6, f"a clock that is 7 s early: {err.strip()}")
    pathlib.Path(f"{paths[1]}.lost").write_text("CPU:0 [LOST 12 EVENTS]\n" + text)
    status, _, err = rarctl("plot", ring.group, OP, f"{paths[1]}.lost")
    result(status == 0 and "events were lost" in err, f"lost events: {err.strip()}")


def check_rounds(ring, tmp):
    """record ends by itself after some operations."""
    r = Recorder(f"{tmp}/rounds", "-r", "2", ring.group, 0)
    good = [ring.allreduce(Data(100)) for _ in range(2)]
    result(all(good) and r.run.wait(10) == 0 and
           len(firsts([r.path], ring.group, OPS + 1)) >= 4, "record -r 2 ends after 2 operations")


def check_refused(ring, paths, tmp):
    """Wrong use has an error of one line."""
    os.mkdir(f"{tmp}/d")
    for args, status, why in (
            (("plot", ring.group, 99, *paths), 1, f"there are 0 to {OPS - 1}"),
            (("plot", 1, OP, *paths), 1, "no events of group 0x1"),
            (("plot", ring.group, OP, f"{tmp}/none"), 1, "No such file"),
            (("plot", ring.group, OP, f"{tmp}/d"), 1, "directory"),
            (("plot", ring.group, "x", *paths), 2, '"x" is no operation'),
            (("plot", ring.group, OP), 2, "plot wants"),
            (("record",), 2, "record wants a file"),
            (("record", f"{tmp}/none/x"), 1, "No such file"),
            (("record", f"{tmp}/x", ring.group, 1, 1), 2, "too much")):
        got = rarctl(*args)
        result(got[0] == status and why in got[2] and got[2].count("\n") == 1 and not got[1],
               f"{' '.join(map(str, args[:3]))}: {got[2].strip()}")


def main():
    """Run all checks."""
    if not RARCTL.exists():
        skip_all("rarctl is not built: no libmnl-dev")
    if not os.path.isdir("/sys/kernel/tracing/events/rar"):
        skip_all("no trace events in this kernel")
    ring = Ring()
    with tempfile.TemporaryDirectory() as tmp:
        paths = record(ring, tmp)
        check_drawing(ring, paths)
        check_part(ring, paths)
        check_rounds(ring, tmp)
        check_refused(ring, paths, tmp)
        if out := os.environ.get("RAR_KEEP"):
            pathlib.Path(out).write_text(rarctl("plot", ring.group, OP + 1, *paths)[1])
    ring.close()
    finish()


if __name__ == "__main__":
    main()
