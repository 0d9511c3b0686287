# SPDX-License-Identifier: GPL-2.0
"""Writes the results: a table, JSON, a plot."""
import json
import os

import plot
from contest import size_name

HEADER = ("place", "N", "size", "type", "mtu", "gso", "form", "contestant", "us", "GB/s", "rounds",
          "discarded", "packets", "chunks", "forwarded", "ACKs")


def counts(of):
    """Per operation: data packets, chunks in each, chunks that went on in the packet that brought
    them, acknowledgments. Packets that the stack merged on their way count as one.
    """
    if not of:
        return ()
    packets = of["RxIngress"] + of["RxEncap"] + of["RxXdp"] - of["TxAck"] - of["TxCtl"]
    if packets < 1:
        return ("-", "-", "-", f"{of['TxAck']:.1f}")
    return (f"{packets:.0f}", f"{of['RxData'] / packets:.1f}",
            f"{100 * of['TxForward'] / max(1, of['TxData']):.0f}%", f"{of['TxAck']:.1f}")


def rows(results):
    for result in results:
        case = result.case
        head = ("+".join(case.places), str(case.n), case.what or size_name(case.size), case.type,
                str(case.mtu), "on" if case.gso else "off", case.form or "-")
        for side in case.sides:
            if result.has(side.label):
                ns = result.ns(side.label)
                yield head + (side.label, f"{ns / 1000:.1f}", f"{case.size / ns:.3f}",
                              str(len(result.good)), str(result.discarded),
                              *counts(result.counts.get(side.label)))
            else:
                yield head + (side.label, "-", "-", result.missing.get(side.label, ""), "")


def table(results):
    lines = [HEADER, *rows(results)]
    widths = [max(len(line[i]) for line in lines if len(line) > i and (i < 10 or line[9] != "-"))
              for i in range(len(HEADER))]
    return "".join("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() + "\n"
                   for line in lines)


def groups(results):
    """The key of a column of the plot: everything except the size"""
    found = {}
    for result in results:
        case = result.case
        if len(case.ops) > 1 or not result.rounds:
            continue
        title = (f"{'+'.join(case.places)}, N={case.n}, {case.type}, MTU {case.mtu}"
                 + (f", {case.form}" if case.form else "" if case.gso else ", no GSO"))
        for side in case.sides:
            if result.has(side.label):
                curve = found.setdefault(title, {}).setdefault(side.label, {})
                curve[case.size] = result.ns(side.label)
    return {title: {name: sorted(points.items()) for name, points in curves.items()}
            for title, curves in found.items()
            if max(len(points) for points in curves.values()) > 1}


def write(directory, results, verdicts, places):
    """table.txt, result.json and, if anything was measured at two sizes, plot.svg: the
    table and the names
    """
    os.makedirs(directory, exist_ok=True)
    text = table(results)
    with open(f"{directory}/table.txt", "w", encoding="utf-8") as f:
        f.write(text + "".join(f"{v}\n" for v in verdicts))
    with open(f"{directory}/result.json", "w", encoding="utf-8") as f:
        json.dump({"places": places, "results": [r.as_json() for r in results],
                   "targets": [{"target": v.target, "where": v.where, "ratio": v.ratio,
                                "need": v.need, "pass": v.passed, "note": v.note}
                               for v in verdicts]}, f, indent=1)
        f.write("\n")
    files, columns = ["table.txt", "result.json"], groups(results)
    if columns:
        files.append("plot.svg")
        with open(f"{directory}/plot.svg", "w", encoding="utf-8") as f:
            f.write(plot.svg(columns))
    return text, files
