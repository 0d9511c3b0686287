# SPDX-License-Identifier: GPL-2.0
"""Algorithm bandwidth and latency over size, as SVG: a pair of panels for each group of
figures, logarithmic axes, a line for each contestant.
"""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 430, 300            # of a panel's drawing area
LEFT, TOP, GAP_X, GAP_Y = 70, 60, 210, 90
COLUMNS = 3
COLOURS = ("#c0392b", "#1f77b4", "#2ca02c", "#8e44ad", "#e67e22", "#17a2b8", "#7f8c8d",
           "#2c3e50", "#d81b60", "#6d4c41")


class Axis:
    """A logarithmic axis, between whole powers of its base"""

    def __init__(self, values, base, length):
        self.base = base
        self.low = math.floor(math.log(min(values), base))
        self.high = max(math.ceil(math.log(max(values), base)), self.low + 1)
        self.length = length

    def at(self, value):
        return (math.log(value, self.base) - self.low) / (self.high - self.low) * self.length

    def ticks(self):
        step = max(1, (self.high - self.low) // 8)
        return [self.base ** e for e in range(self.low, self.high + 1, step)]


def text(x, y, content, size=12, anchor="middle", turn=None, colour="#222"):
    spin = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"'
            f' text-anchor="{anchor}"{spin}>{escape(content)}</text>')


def line(x1, y1, x2, y2, colour="#ddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def size_label(size):
    for power, unit in ((30, "G"), (20, "M"), (10, "k")):
        if size >= 1 << power:
            return f"{size / (1 << power):g}{unit}"
    return f"{size:g}"


def curve(points, x, y, left, top, colour):
    spots = [(left + x.at(a), top + HEIGHT - y.at(b)) for a, b in points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in spots)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    for a, b in spots:
        yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>'


def panel(curves, left, top, title, unit, colours):
    """curves: {contestant: [(bytes, value), ...]}"""
    points = [p for c in curves.values() for p in c]
    x = Axis([p[0] for p in points], 2, WIDTH)
    y = Axis([p[1] for p in points], 10, HEIGHT)
    yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#999"/>'
    for tick in x.ticks():
        yield line(left + x.at(tick), top, left + x.at(tick), top + HEIGHT)
        yield text(left + x.at(tick), top + HEIGHT + 16, size_label(tick), 11)
    for tick in y.ticks():
        yield line(left, top + HEIGHT - y.at(tick), left + WIDTH, top + HEIGHT - y.at(tick))
        yield text(left - 6, top + HEIGHT - y.at(tick) + 4, f"{tick:g}", 11, "end")
    yield text(left + WIDTH / 2, top - 10, title, 13)
    yield text(left - 48, top + HEIGHT / 2, unit, 12, turn=-90)
    yield text(left + WIDTH / 2, top + HEIGHT + 36, "bytes of the operation", 12)
    for name, points in curves.items():
        yield from curve(sorted(points), x, y, left, top, colours[name])


def legend(names, left, top, colours):
    for i, name in enumerate(names):
        yield line(left, top + 14 + 18 * i, left + 24, top + 14 + 18 * i, colours[name])
        yield text(left + 30, top + 18 + 18 * i, name, 11, "start", colour=colours[name])


def pair(title, curves, left, top, colours):
    """Both panels of a group, with a legend"""
    rates = {n: [(size, size / ns) for size, ns in c] for n, c in curves.items()}
    times = {n: [(size, ns / 1000) for size, ns in c] for n, c in curves.items()}
    yield text(left + WIDTH / 2, top - 38, title, 14)
    yield from panel(rates, left, top, "algorithm bandwidth", "GB/s", colours)
    yield from panel(times, left, top + HEIGHT + GAP_Y, "latency", "us", colours)
    yield from legend(sorted(curves), left + WIDTH + 12, top, colours)


def svg(groups):
    """groups: {title: {contestant: [(bytes, ns), ...]}}"""
    names = sorted({name for curves in groups.values() for name in curves})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    across, down = WIDTH + GAP_X, 2 * (HEIGHT + GAP_Y) + TOP
    width = min(len(groups), COLUMNS) * across
    height = math.ceil(len(groups) / COLUMNS) * down
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
             ' font-family="sans-serif">', f'<rect width="{width}" height="{height}" fill="#fafafa"/>']
    for i, (title, curves) in enumerate(groups.items()):
        parts += pair(title, curves, LEFT + i % COLUMNS * across, TOP + i // COLUMNS * down, colours)
    return "\n".join(parts + ["</svg>"]) + "\n"
