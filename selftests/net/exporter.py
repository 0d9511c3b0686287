#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The exporter's metrics of a ring that runs: promtool accepts them, they are the kernel's values,
they tell which groups have seals and what these refuse, none of the module's counters and settings
lacks an explanation, and tools/grafana/rar.json uses no others.

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from live import N, RAR_INFO, SEALED, Data, Ring, inject, note  # noqa: E402
from rarpkt import RS, SOL_RAR, enter, tables           # noqa: E402
from tap import finish, result, skip_all                # noqa: E402

EXPORTER = TOP / "tools/exporter/rar_exporter.py"
DASHBOARD = TOP / "tools/grafana/rar.json"
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
NEW = "a_newer_setting"
SEAL = 24               # bytes


def export(*args):
    """Return what the exporter prints."""
    return subprocess.run([EXPORTER, "--once", *args], text=True, check=True,
                          stdout=subprocess.PIPE).stdout


def samples(text):
    """Return {(name, labels): value}; labels as a sorted tuple of pairs."""
    out = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            pairs = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
            if (name, pairs) in out:
                note(f"twice: {line}")
                return {}
            out[name, pairs] = float(value)
    return out


def explained(text):
    """Return {name: (type, explanation)}; the sample of each metric must follow its two lines."""
    return {name: (kind, about) for name, about, again, kind, sample in re.findall(
        r"^# HELP (\w+) (\S.*)\n# TYPE (\w+) (gauge|counter)\n(\w+)", text, re.M)
            if name == again == sample}


def promtool():
    """Return the path of promtool, installed or fetched by scripts/deps, or None."""
    fetched = os.environ.get("RAR_PROMTOOL", "")
    fetched = fetched if os.uname().machine == "x86_64" and os.path.exists(fetched) else None
    return shutil.which("promtool") or fetched


def check_format(text):
    """Every metric is explained, and promtool has nothing to say."""
    known, names = explained(text), {name for name, _ in samples(text)}
    result(names and known.keys() == names, f"{len(names)} metrics, each with HELP and TYPE")
    if not promtool():
        return note("no promtool")
    run = subprocess.run([promtool(), "check", "metrics"], input=text, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    note(run.stdout)
    return result(run.returncode == 0 and not run.stdout, "promtool check metrics")


def check_known(text):
    """The exporter knows the counters and settings that the module has, and no others."""
    sys.path.insert(0, str(EXPORTER.parent))
    sys.dont_write_bytecode = True
    import rar_exporter as e            # pylint: disable=import-outside-toplevel
    names = {name.removeprefix("Rar") for name in tables("rar_netstat")}
    plain = {name for name in names if not name.startswith("Drop")}
    note(f"counters {plain ^ e.COUNTERS.keys()} differ")
    result(plain == e.COUNTERS.keys(), "counters: those of the module")
    settings = set(os.listdir("/proc/sys/net/rar")) - e.WORDS.keys()
    note(f"settings {settings ^ e.SETTINGS.keys()} differ")
    result(settings == e.SETTINGS.keys(), "settings: those of the module")
    drops = {name for name in names if name.startswith("Drop")}
    result(len(drops) == sum(name == "rar_drops_total" for name, _ in samples(text)),
           "drops: each reason")


def near(value, low, high):
    """Is a counter what the kernel had just before, just after, or between?"""
    return low <= value <= high


def check_values(ring):
    """The values are the kernel's."""
    enter("rar1")
    before = tables("rar_netstat")
    got = samples(export())
    after = tables("rar_netstat")
    result(near(got["rar_rx_bytes_total", ()], before["RarRxBytes"], after["RarRxBytes"]) and
           near(got["rar_ops_done_total", ()], before["RarOpsDone"], after["RarOpsDone"]) and
           before["RarRxBytes"] > 0, "counters have the kernel's values")
    member = (("group", f"{ring.group:016x}"), ("rank", "1"))
    info = ring.fd[1].getsockopt(SOL_RAR, RAR_INFO, 256)
    posted, complete = struct.unpack_from("=QQ", info, 64)
    result(got["rar_member_ops_posted_total", member] == posted == 3 and
           got["rar_member_ops_complete_total", member] == complete and
           got["rar_member_size", member] == N, "the member has the values of RAR_INFO")
    result(got["rar_member_state", member + (("state", "run"),)] == 1 and
           sum(value for (name, _), value in got.items() if name == "rar_member_state") == 1,
           "the member runs")
    with open("/proc/sys/net/rar/dead_ms", encoding="ascii") as file:
        result(got["rar_setting_dead_seconds", ()] == int(file.read()) / 1000,
               "times are in seconds")


def check_security(plain):
    """The level of each member is a label, and packets that are refused are counted."""
    Ring.options = SEALED
    ring = Ring()
    Ring.options = ()
    enter("rar1")
    labels = [dict(pairs) for (name, pairs) in samples(export()) if name == "rar_member_info"]
    levels = {row["group"]: row["security"] for row in labels}
    result(levels == {f"{plain.group:016x}": "off", f"{ring.group:016x}": "auth"},
           "the level of security of each member")
    right = ring.allreduce(Data(30))
    packet = next(p for p in ring.sniff() if (p.type, p.drank) == (RS, 1))
    rar = packet.copy(len_extra=-SEAL).rar()
    before = samples(export())
    inject(ring, [packet.copy(raw=raw).frame() for raw in
                  (rar, rar[:-9] + bytes([rar[-9] ^ 1]) + rar[-8:], rar[:-SEAL])])
    end, refused = time.monotonic() + 5, {}
    while len(refused) < 3 and time.monotonic() < end:
        refused = {dict(pairs)["reason"]: value - before[name, pairs]
                   for (name, pairs), value in samples(export()).items()
                   if name == "rar_drops_total" and value != before[name, pairs]}
    note(f"refused: {refused}")
    result(right and refused == {"replay": 1, "seal": 1, "unsealed": 1},
           "what a group with seals refuses")
    ring.close()


def check_copy(text):
    """Rows and settings that are rare or new, in a copy of the kernel's files."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name in ("rar", "rar_box", "rar_netstat", "rar_reduce"):
            (copy / name).write_text(pathlib.Path("/proc/self/net", name).read_text())
        (copy / "rar_reduce").write_text("name usable selected f32 f64 i32 i64 (MB/s of sums)\n"
                                         "slow yes yes 20 - 30 -\n")
        (copy / "rar_box").write_text(
            (copy / "rar_box").read_text() +
            "00000000000000aa 4 3 entering 1448 7 2 50 5 1 4096 f top\n"
            "roce used 0 packets 0 jobs 1\njob size ranks messages sums raw\n"
            "0000000000000001 2 2 0 9 0\n")
        head, names, row = (copy / "rar").read_text().splitlines()[:3]
        old = row.split()
        old[3], old[names.split().index("held-by")] = "failed", "tombstone"
        (copy / "rar").write_text("\n".join((head, names, " ".join(old), row, "")))
        counters = (copy / "rar_netstat").read_text().splitlines()
        (copy / "rar_netstat").write_text(f"{counters[0]} ANewerCounter\n{counters[1]} 42\n")
        (copy / "sys").mkdir()
        (copy / "sys" / NEW).write_text("7\n")
        got = samples(export("--proc", folder, "--sysctl", f"{folder}/sys"))
        states = {labels for (name, labels), value in got.items()
                  if name == "rar_member_state" and value}
        result(len(states) == 1 and ("state", "run") in states.pop(),
               "a tombstone beside the socket of its rank is left out")
        speeds = {labels: value for (name, labels), value in got.items()
                  if name == "rar_reduce_bytes_per_second"}
        result(sorted(speeds.values()) == [20e6, 30e6], "a speed that is not known is left out")
        group = (("group", "00000000000000aa"),)
        result([got.get((f"rar_box_group_{name}", group)) for name in
                ("open", "size", "entered", "sums_total", "returned_total", "evicted_total")] ==
               [0, 4, 3, 50, 5, 1] and ("rar_box_used_bytes", ()) in got,
               "a job of the box, and none of RoCE")
        result(got.get(("rar_anewer_counter_total", ())) == 42 and
               got.get((f"rar_setting_{NEW}", ())) == 7, "a newer module's counter and setting")
        result(samples(export("--proc", f"{folder}/sys")) == {("rar_up", ()): 0},
               "without the module")


def fetch(path):
    """Return the answer of the server."""
    with urllib.request.urlopen(f"http://127.0.0.1:18118{path}", timeout=10) as answer:
        return answer.read().decode()


def check_server():
    """The server answers."""
    server = subprocess.Popen([EXPORTER])
    text = ""
    for _ in range(100):
        try:
            text = fetch("/metrics")
            break
        except urllib.error.URLError:
            time.sleep(0.2)
    result(samples(text).get(("rar_up", ())) == 1, "over HTTP")
    try:
        fetch("/other")
        missing = False
    except urllib.error.HTTPError as error:
        missing = error.code == 404
    result(missing, "no other path")
    server.terminate()
    server.wait()


def check_dashboard(text):
    """The dashboard uses only metrics, and labels, that exist."""
    board = json.loads(DASHBOARD.read_text())
    used = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used += [row["query"] for row in board["templating"]["list"] if row["type"] == "query"]
    names = {name for expr in used for name in re.findall(r"\brar_\w+", expr)}
    there = {name for name, _ in samples(text)} | {"rar_member_straggler_seconds"}
    there |= {"rar_box_group_size", "rar_box_group_entered"}    # see check_copy()
    note(f"unknown: {names - there}")
    result(names and names <= there, f"the dashboard: {len(names)} metrics exist")
    labels = {label for expr in used for part in re.findall(r"by \((.*?)\)", expr)
              for label in part.split(", ")}
    labels |= {label for panel in board["panels"] for target in panel["targets"]
               for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
    there = {label for _, pairs in samples(text) for label, _ in pairs}
    result(labels <= there | {"instance", "straggler"}, "the dashboard: labels exist")


def main():
    for file in (EXPORTER, DASHBOARD):
        if not file.exists():
            skip_all(f"there is no {file} here")
    ring = Ring()
    result(all(ring.allreduce(Data(count)) for count in (1, 2060, 30000)), "the sums are right")
    check_values(ring)
    enter("rar1")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    text = export()
    check_format(text)
    check_known(text)
    check_copy(text)
    check_server()
    check_dashboard(text)
    check_security(ring)
    ring.close()
    finish()


main()
