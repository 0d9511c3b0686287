#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rarctl and generic netlink: the figures of a ring that runs, events, abort, bad requests.

rarctl.py [netlink]	netlink: only requests, permissions and dumps, which differ between kernels

Three ranks are in the namespaces rar0 rar1 rar2 of selftests/lib/lib.sh. The program is in
RAR_BIN. The module is unloaded at the end, while a monitor listens.
"""
import errno
import json
import os
import pathlib
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
from genl import Genl, attr, attrs, constants, number       # noqa: E402
from live import N, RAR_INFO, SEALED, Data, Ring, note, sockaddr    # noqa: E402
from rarpkt import AF_RAR, SOL_RAR, enter, sysctl, tables   # noqa: E402
from tap import finish, result, skip_all                    # noqa: E402

RARCTL = pathlib.Path(os.environ.get("RAR_BIN", TOP / "build/selftests/bin")) / "rarctl"
NOBODY = 65534
U64, U32 = "Q", "I"
MANY = 800              # members of a dump in several parts


def rarctl(*args):
    """Return (exit status, output, errors) of rarctl."""
    run = subprocess.run([RARCTL, *map(str, args)], text=True, check=False, timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return run.returncode, run.stdout, run.stderr


def looked(*args):
    """Return what rarctl prints as JSON."""
    status, out, err = rarctl("-j", *args)
    if status or err:
        note(f"rarctl {args}: {status} {err}")
    return json.loads(out)


class Monitor:
    """A rarctl that listens."""

    def __init__(self, *args):
        self.run = subprocess.Popen([RARCTL, *args], text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.ready = self.run.stderr.readline().strip() == "rarctl: listening"

    def line(self, seconds=1):
        """Return the next line, "" if none comes in time."""
        if not select.select([self.run.stdout], [], [], seconds)[0]:
            return ""
        return self.run.stdout.readline().strip()

    def end(self):
        """Return what is left to read, and the exit status."""
        self.run.terminate()
        out, _ = self.run.communicate()
        return out


class Killed(Ring):
    """A ring whose rank 2 is another process."""

    def __init__(self):
        self.listen()
        sync = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            s = self.member(2)
            sync[1].send(b"x" if not self.joined(s) else b"-")
            signal.pause()
            os._exit(0)
        self.fd = [self.member(r) for r in range(2)]
        assert sync[0].recv(1) == b"x" and not any(self.joined(s) for s in self.fd)


# ------------------------------------------------------------------ figures

def check_figures(ring):
    """rarctl shows what RAR_INFO and /proc/net/rar say."""
    enter("rar1")
    for _ in range(3):
        ring.allreduce(Data(9000))
    m, = looked("-n", "rar1", "show")
    info = ring.fd[1].getsockopt(SOL_RAR, RAR_INFO, 1024)
    posted, complete, _, sent, received, packets = struct.unpack_from("=6Q", info, 64)
    to, back = m["links"]
    result(len(info) == 680 and to["rails"] == 1 and
           (m["group"], m["rank"], m["size"], m["state"], m["holder"]) ==
           (ring.group, 1, N, "run", "socket"), "a member that runs")
    result(m["ops_posted"] == posted == 3 and m["ops_complete"] == complete == 3 and
           to["bytes"] == sent > 0 and back["bytes"] == received > 0 and
           to["packets"] == packets, "operations and traffic are those of RAR_INFO")
    result(to["direction"] == "next" and to["rank"] == 2 and back["rank"] == 0 and
           to["local"] == {"ip": "10.77.0.2", "port": 18118} and
           to["remote"]["ip"] == "10.77.0.3" and back["remote"]["ip"] == "10.77.0.1" and
           not to["in_memory"], "links have the right ranks and addresses")
    result("error" not in m and m["uid"] == 0 and m["schedule"] == "by-ranks",
           "no error, and the user")
    text = rarctl("-n", "rar1", "show", hex(ring.group), "1")[1].splitlines()
    row = dict(zip(text[0].split(), text[1].split()))
    result(len(text) == 2 and row["GROUP"] == hex(ring.group) and row["RANK"] == "1/3" and
           row["SENT"] == str(sent), "the same in columns")


def check_lists(ring):
    """Counters, settings, operations in flight."""
    shown = {c["name"]: c["value"] for c in looked("-n", "rar1", "show", "counters")}
    enter("rar1")
    kernel = {k[3:]: v for k, v in tables("rar_netstat").items()}
    result(shown.keys() == kernel.keys() and shown["OpsDone"] == kernel["OpsDone"] == 3,
           "counters")
    folder = pathlib.Path("/proc/sys/net/rar")
    shown = {s["name"]: str(s["value"]) for s in looked("-n", "rar1", "show", "settings")}
    result(shown == {f.name: f.read_text().strip() for f in folder.iterdir()}, "settings")
    ring.post(1, Data(9000))
    op, = looked("-n", "rar1", "show", "ops")
    result((op["group"], op["op"], op["collective"], op["dtype"], op["redop"], op["count"]) ==
           (ring.group, 3, "allreduce", "i32", "sum", 9000) and op["left"] > 0 and
           op["owed"] > 0, "an operation in flight")
    ring.post(0, Data(9000))
    ring.post(2, Data(9000))
    for s in ring.fd:
        ring.poll(s, select.POLLIN)
        s.recv(40000)
    result(all(len(looked("-n", f"rar{r}", "show")) == 1 and
               looked("-n", f"rar{r}", "show")[0]["rank"] == r for r in range(N)),
           "each namespace sees its own member")
    top, = json.loads(rarctl("-j", "-n", "rar1", "-i", "0.3", "-r", "1", "top")[1])
    result(top["group"] == ring.group and top["members"] == 1 and top["ops_per_s"] == 0, "top")


def check_seals(other):
    """A member shows whether its packets have seals."""
    Ring.options = SEALED
    ring = Ring()
    Ring.options = ()
    levels = [looked("-n", "rar1", "show", r.group)[0]["security"] for r in (ring, other)]
    text = [line.split() for line in rarctl("-n", "rar1", "show", ring.group)[1].splitlines()]
    note(f"{levels} {text}")
    result(levels == ["auth", "off"] and dict(zip(*text))["SECURITY"] == "auth",
           "seals, and none")
    ring.close()


def check_box(other):
    """Members show their box, unlike those of another group. The job on its host is no member."""
    enter("rar2")
    sysctl("box_mem", "16M")
    enter("rar0")
    sysctl("box", "10.77.0.3")
    ring, end = Ring(), time.monotonic() + 10
    while time.monotonic() < end and any(
            looked("-n", f"rar{r}", "show", ring.group)[0]["box"]["state"] != "open"
            for r in range(N)):
        time.sleep(0.1)
    for _ in range(3):
        ring.allreduce(Data(9000))
    shown = [looked("-n", f"rar{r}", "show", ring.group) for r in range(N)]
    note(str([m["box"] for m, *_ in shown]))
    text = [line.split() for line in rarctl("-n", "rar0", "show", ring.group)[1].splitlines()]
    row = dict(zip(*text))
    result((row["BOX"], row["BY-BOX"]) == ("10.77.0.3:18118", "100%"), "a box in columns")
    host, = looked("-n", "rar2", "box")["rows"]
    text = rarctl("-n", "rar2", "box")[1].splitlines()
    note(str(host))
    result((host["group"], host["size"], host["entered"], host["state"], host["ranks"]) ==
           (ring.group, N, N, "open", 7) and host["sums"] > 0, "rarctl box: a job")
    result(text[0].startswith("limit 16777216, used ") and
           dict(zip(text[1].split(), text[2].split()))["GROUP"] == hex(ring.group),
           "the same in columns")
    result([link["in_memory"] for m, *_ in shown for link in m["links"]] == [False] * 2 * N,
           "with a box all links have packets")
    result(all(m["box"]["address"]["ip"] == "10.77.0.3" and m["box"]["state"] == "open" and
               m["box"]["sums"] > m["box"]["ring_sums"] == 0 for m, *_ in shown),
           "a box that makes all sums")
    info = ring.fd[1].getsockopt(SOL_RAR, RAR_INFO, 512)
    result(struct.unpack_from("=I4xQQ", info, 208) == (2, shown[1][0]["box"]["sums"], 0) and
           all(len(members) == 1 for members in shown), "RAR_INFO says the same, no job is listed")
    for s in ring.fd:
        s.close()
    sysctl("box", "-")
    enter("rar2")
    sysctl("box_mem", 0)
    result("box" not in looked("-n", "rar0", "show", other.group)[0], "no box, nothing is shown")


def completed(*words):
    """Return what the completion for bash offers for the last of some words."""
    script = TOP / "tools/rarctl/rarctl.bash"
    run = subprocess.run(["bash", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                          '_rarctl; echo "${COMPREPLY[@]}"', script, *words],
                         text=True, check=False, stdout=subprocess.PIPE,
                         env=os.environ | {"PATH": f"{RARCTL.parent}:{os.environ['PATH']}"})
    return run.stdout.split()


def check_forms(ring):
    """Colours, JSON with line breaks, columns, completion."""
    look = "-n", "rar1", "show"
    plain, colored = rarctl("-c=auto", *look)[1], rarctl("-color=always", *look)[1]
    again = subprocess.run(["sed", r"s/\x1b\[[0-9]*m//g"], input=colored, text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    result("\033" not in plain and "\033[36m" in colored and again == plain,
           "colours, but not into a pipe unless asked for")
    pretty = rarctl("-p", *look)[1]
    result(json.loads(pretty)[0].keys() == json.loads(rarctl("-j", "-p", *look)[1])[0].keys(),
           "-p alone is JSON, too")
    result(json.loads(pretty)[0]["group"] == ring.group and pretty.count("\n") > 20,
           "JSON with line breaks")
    links = rarctl(*look, "links")[1].splitlines()
    result([line.split()[2:4] for line in links[1:]] == [["next", "2"], ["prev", "0"]],
           "links in columns")
    result("TxData" in rarctl(*look, "counters")[1] and
           "dead_ms" in rarctl(*look, "settings")[1] and
           rarctl(*look, "ops")[1].startswith("GROUP"), "counters, settings, operations in columns")
    enter("rar1")
    result(completed("rarctl", "mo") == ["monitor"] and
           completed("rarctl", "abort", "0x") == [hex(ring.group)] and
           completed("rarctl", "set", "dead") == ["dead_ms"], "completion")


def check_top(ring):
    """top counts what happens between two looks. The ring may rest: not how fast it is matters."""
    run = subprocess.Popen([RARCTL, "-j", "-n", "rar0", "-i", "1", "-r", "1", "top"],
                           text=True, stdout=subprocess.PIPE)
    end, data = time.monotonic() + 1.5, Data(9000)
    while time.monotonic() < end:
        ring.allreduce(data)
        time.sleep(0.02)
    row, = json.loads(run.communicate()[0])
    note(str(row))
    result(row["ops_per_s"] > 1 and row["bytes_per_s"] > 9000 and 0 < row["forwarded"] <= 1,
           "top: a ring that works")
    enter("rar0")
    shown = looked("show", ring.group)[0]["links"][0]["forwarded"]
    info = ring.fd[0].getsockopt(SOL_RAR, RAR_INFO, 256)
    result(shown == struct.unpack_from("=Q", info, 200)[0] ==
           tables("rar_netstat")["RarTxForward"] > 0, f"{shown} packets were forwarded")


# ------------------------------------------------------------------ two hosts

def check_in_memory():
    """Both ends of a link say the same: net.rar.local=0 and packets, or 1 and memory."""
    enter("rar1")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for local, want in ((0, False), (1, True)):
        sysctl("local", local)
        fds = []
        for rank in (1, 0):
            address = bytearray(sockaddr(1, 0x7000 + local))
            struct.pack_into("=II", address, 12, rank, 2)
            to = bytearray(address)
            struct.pack_into("=I", to, 12, 1 - rank)
            fds.append(socket.socket(AF_RAR, socket.SOCK_SEQPACKET))
            fds[-1].setsockopt(SOL_RAR, 1, bytes(address + to))
        joined = [select.select([], [s], [], 10)[1] and not s.getsockopt(
            socket.SOL_SOCKET, socket.SO_ERROR) for s in fds]
        rows = [line.split()[:2] for line in rarctl("show")[1].splitlines()[1:]]
        order = [(int(group, 16), int(rank.split("/")[0])) for group, rank in rows]
        result(order == sorted(order) and len(order) > 1, f"rows in the order of ranks: {order}")
        seen = [link["in_memory"] for m in looked("show", 0x7000 + local) for link in m["links"]]
        note(f"{joined} " + rarctl("show", "links", 0x7000 + local)[1])
        result(all(joined) and seen == [want] * 4, f"local={local}: links in memory: {seen}")
        for s in fds:
            s.close()


def check_test():
    """rarctl test: two hosts sum; and what it says if the other one does not."""
    other = subprocess.Popen([RARCTL, "-n", "rar1", "test", "10.77.0.1"], text=True,
                             stdout=subprocess.PIPE)
    status, out, err = rarctl("-j", "-n", "rar0", "test", "10.77.0.2")
    note(f"{out} {err}")
    said = other.communicate(timeout=60)[0]
    note(said)
    got = json.loads(out or "{}")
    result(status == 0 and other.returncode == 0 and got["rank"] == 0 and
           got["bytes_per_s"] > 0 and said.startswith("ok: rank 1 of 2, "), "test: two hosts")
    enter("rar0")
    before = pathlib.Path("/proc/sys/net/rar/join_ms").read_text()
    sysctl("join_ms", 500)
    cases = (("10.77.0.2", 1, "does \"rarctl test\" run at 10.77.0.2, too?"),
             ("10.77.0.1", 2, "is this host"), ("box", 2, "is no address"))
    for peer, want, text in cases:
        status, out, err = rarctl("-n", "rar0", "test", peer)
        result(status == want and text in err and not out, f"test {peer}: {err.strip()}")
    sysctl("join_ms", before.strip())


# ------------------------------------------------------------------ events

def check_monitor():
    """A killed rank is named within a second, and so are joins and ends."""
    monitor = Monitor("-n", "rar0", "monitor")
    ring = Killed()
    group = f"group {hex(ring.group)} rank 0/3"
    joined = monitor.line()
    result(monitor.ready and joined.endswith(f"{group} joined"), f"monitor: {joined}")
    ring.post(0, Data(9000))
    start = time.monotonic()
    os.kill(ring.pid, signal.SIGKILL)
    failed = monitor.line(5)
    took = time.monotonic() - start
    result(f"{group} failed: rank 2: died (ECONNRESET)" in failed and took < 1,
           f"monitor: {failed}, after {took:.3f} s")
    os.waitpid(ring.pid, 0)
    error = looked("-n", "rar0", "show", ring.group)[0]["error"]
    result((error["reason"], error["rank"], error["addr"]["ip"]) == ("died", 2, "10.77.0.3"),
           "show: the same error")
    ring.close()
    ended = monitor.line()
    result(ended.endswith(f"{group} ended"), f"monitor: {ended}")
    result(not monitor.end(), "nothing else happened there")


def check_abort():
    """abort fails all ranks, and monitor's JSON says so."""
    monitor = subprocess.Popen([RARCTL, "-j", "-n", "rar2", "-r", "2", "monitor"], text=True,
                               stdout=subprocess.PIPE)
    time.sleep(0.5)
    ring = Ring()
    status, out, err = rarctl("-n", "rar1", "abort", ring.group)
    result((status, out, err) == (0, "", ""), "abort")
    got = [ring.failure(r)[1:4] for r in range(N)]
    aborted = 6
    result(got == [(errno.ECONNRESET, aborted, 1)] * N, f"all ranks get the error: {got}")
    text = rarctl("-n", "rar0", "show", ring.group)[1]
    result("aborted (ECONNRESET)" in text and ", op" not in text,
           "an abort of no operation names none")
    lines = [json.loads(line) for line in monitor.communicate(timeout=10)[0].splitlines()]
    result([e["event"] for e in lines] == ["joined", "failed"] and
           (lines[1]["error"]["reason"], lines[1]["error"]["rank"]) == ("aborted", 1),
           "monitor -j: joined, failed by an abort of rank 1")
    result(rarctl("-n", "rar1", "abort", ring.group)[::2] ==
           (1, "rarctl: no member of this group joins or runs\n"), "abort of a failed group")
    ring.close()
    result(rarctl("-n", "rar1", "abort", 0x999)[::2] ==
           (1, "rarctl: no such member in this network namespace\n"), "abort of no group")
    result(rarctl("-n", "rar1", "show", 0x999)[::2] ==
           (1, "rarctl: no such member in this network namespace\n"), "show of no group")


def lone(group):
    """Return a socket that is a group of one."""
    s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
    self = bytearray(sockaddr(0, group))
    self[16:20] = struct.pack("=I", 1)
    s.setsockopt(SOL_RAR, 1, bytes(self) * 2)
    return s


def check_lost():
    """A listener that does not read gets ENOBUFS, and later events come again."""
    enter("rar0")
    c = Genl()
    c.listen()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for i in range(60):
        lone(0x5000 + i).close()
    lost = 0
    try:
        while True:
            c.receive()
    except OSError as e:
        lost = e.errno
    c.sock.setblocking(False)
    try:
        while True:
            c.receive()
    except BlockingIOError:
        pass
    c.sock.settimeout(2)
    s = lone(0x6000)
    kinds = [number(attrs(body[4:])[K["RAR_A_EVENT_KIND"]][0]) for _, _, body in c.receive()]
    s.close()
    result(lost == errno.ENOBUFS and kinds == [K["RAR_EVENT_JOINED"]],
           "a listener that is too slow learns it")


# ------------------------------------------------------------------ requests

def check_refused():
    """Malformed requests are refused with an explanation."""
    enter("rar0")
    c = Genl()
    group, rank = K["RAR_A_MEMBER_GROUP"], K["RAR_A_MEMBER_RANK"]
    get, abort = K["RAR_CMD_MEMBER_GET"], K["RAR_CMD_ABORT"]
    full = attr(group, (U64, 1)) + attr(rank, (U32, 0))
    cases = (
        ("an unknown attribute", (get, full + attr(99, (U32, 0)))),
        ("an attribute of an answer", (get, full + attr(K["RAR_A_MEMBER_STATE"], (U32, 0)))),
        ("a short group", (get, attr(group, (U32, 1)) + attr(rank, (U32, 0)))),
        ("a long rank", (get, attr(group, (U64, 1)) + attr(rank, (U64, 0)))),
        ("no rank", (get, attr(group, (U64, 1)))),
        ("bytes after the attributes", (get, full + b"\1\0\0")),
        ("abort without a group", (abort, b"")),
        ("an attribute where none belongs", (K["RAR_CMD_NET_GET"], attr(1, (U32, 0)))),
    )
    for name, args in cases:
        got = c.refusal(*args)
        result(got[0] == "EINVAL" and got[1], f"{name}: {got}")
    box_key, key = K["RAR_CMD_BOX_KEY"], K["RAR_A_BOX_KEY_BYTES"]
    for length in (0, 1, 15, 17, 31, 33, 2000):
        got = c.refusal(box_key, attr(key, b"x" * length))
        result(got[0] == "EINVAL" and got[1], f"a key of {length} bytes for the box: {got}")
    got = c.refusal(box_key, attr(key, bytes(32)))
    result(got[0] == "EINVAL" and got[1], f"a key of zeros for the box: {got}")
    got = c.refusal(get, attr(group, (U64, 1)) + attr(rank, (U32, 4096)))
    result(got[0] == "ERANGE" and got[1], f"a rank beyond the largest: {got}")
    got = c.refusal(get, attr(99, (U32, 0)), flags=0x301)
    result(got[0] == "EINVAL" and got[1], f"an unknown attribute of a dump: {got}")
    result(c.refusal(get, full)[0] == "ENOENT", "no such member")
    result(c.refusal(K["RAR_CMD_EVENT"])[0] == errno.errorcode[errno.EOPNOTSUPP],
           "an event is no command")
    result(c.refusal(get, full, reserved=1)[0] == "EINVAL", "a reserved field of the header")


def check_set():
    """rarctl set changes a setting of its namespace, and says what is wrong."""
    ok = rarctl("-n", "rar0", "set", "dead_ms", 3210)[0] == 0
    enter("rar0")
    path = pathlib.Path("/proc/sys/net/rar/dead_ms")
    result(ok and path.read_text() == "3210\n", "set")
    path.write_text("5000")
    bad = rarctl("-n", "rar0", "set", "dead_ms", 1), rarctl("-n", "rar0", "set", "nope", 1), \
        rarctl("-n", "rar0", "set", "../mptcp/enabled", 1), rarctl("show", "x"), rarctl("dance")
    for status, out, err in bad:
        note(err)
    result([b[0] for b in bad] == [1, 1, 2, 2, 2] and
           all(b[2].count("\n") == 1 and not b[1] for b in bad), "errors are one line")


def as_nobody(work):
    """Return the text that @work returns in a process without privilege."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            os.write(into, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


def exec_nobody(*args):
    """Return what rarctl prints to a user without privilege, who need not see its folder."""
    program = os.open(RARCTL, os.O_RDONLY)

    def child():
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.execve(program, ["rarctl", *map(str, args)], {})

    run = subprocess.run(["/bin/true"], preexec_fn=child, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[program])
    os.close(program)
    return run.stdout


def own_member():
    """How many members a user with one of its own sees by netlink, and lines in /proc/net/rar"""
    with socket.socket(AF_RAR, socket.SOCK_SEQPACKET) as s:
        s.setsockopt(SOL_RAR, 1, sockaddr(0, 0x5eef) + sockaddr(1, 0x5eef))   # RAR_JOIN
        return (len(Genl().dump(K["RAR_CMD_MEMBER_GET"])),
                pathlib.Path("/proc/self/net/rar").read_text().count("\n"))


def listening():
    """The error of one who listens to events"""
    try:
        Genl().listen()
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def check_permissions(ring):
    """Users see their own members, as in /proc; abort needs CAP_NET_ADMIN."""
    enter("rar0")
    group = attr(K["RAR_A_MEMBER_GROUP"], (U64, ring.group))
    rank = attr(K["RAR_A_MEMBER_RANK"], (U32, 0))
    for name, cmd in (("members", "RAR_CMD_MEMBER_GET"), ("operations", "RAR_CMD_OP_GET")):
        all_of, seen = len(Genl().dump(K[cmd])), as_nobody(lambda: len(Genl().dump(K[cmd])))
        result(seen == "0", f"nobody sees {seen} {name} of {all_of}")
    denied = as_nobody(lambda: Genl().refusal(K["RAR_CMD_ABORT"], group)[0])
    hidden = as_nobody(lambda: Genl().refusal(K["RAR_CMD_MEMBER_GET"], group + rank)[0])
    result((denied, hidden) == ("'EPERM'", "'ENOENT'"), f"nobody: abort {denied}, get {hidden}")
    denied = as_nobody(lambda: Genl().refusal(K["RAR_CMD_BOX_KEY"])[0])
    result(denied == "'EPERM'", f"nobody sets a key of the box: {denied}")
    deaf, said = as_nobody(listening), exec_nobody("monitor")
    result(deaf == "'EPERM'" and said.startswith("rarctl: no permission"),
           f"nobody listens to events: {deaf}, {said.strip()}")
    shown, said = exec_nobody("show"), exec_nobody("abort", ring.group)
    result(hex(ring.group) not in shown and said.startswith("rarctl: no permission") and
           said.count("\n") == 1, f"rarctl of nobody: {said.strip()}")
    files = as_nobody(lambda: [pathlib.Path("/proc/self/net", name).read_text().count("\n")
                               for name in ("rar", "rar_box")])
    result(files == "[2, 2]", f"lines that nobody sees in rar and rar_box: {files}")
    own = as_nobody(own_member)
    result(own == "(1, 3)", f"nobody sees its own member: {own}")
    result(ring.allreduce(Data(100)), "the ring works on")


# ------------------------------------------------------------------ dumps

def bound(n, first):
    """Return @n sockets that are members, bound only."""
    found = []
    for i in range(n):
        s = socket.socket(AF_RAR, socket.SOCK_SEQPACKET)
        join = sockaddr(0, first + i)
        if libc_bind(s, join):
            raise OSError("bind")
        found.append(s)
    return found


def libc_bind(s, address):
    """Python's bind() refuses addresses of families that it does not know."""
    import ctypes                           # pylint: disable=import-outside-toplevel
    return ctypes.CDLL(None).bind(s.fileno(), address, len(address))


def churn():
    """Make and close members until killed."""
    while True:
        for s in bound(20, 0x900000):
            s.close()


def steady_ones(c, want):
    """Return the wanted groups in a dump, sorted; other members may end meanwhile."""
    got = (number(m[K["RAR_A_MEMBER_GROUP"]][0]) for m in c.dump(K["RAR_CMD_MEMBER_GET"]))
    return sorted(g for g in got if g in want)


def check_dumps():
    """Many members; dumps while members come and go; a dump that is left open."""
    enter("rar0")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    steady, c, group = bound(MANY, 0x100000), Genl(), K["RAR_A_MEMBER_GROUP"]
    want = {0x100000 + i for i in range(len(steady))}
    get = K["RAR_CMD_MEMBER_GET"]
    shown = steady_ones(c, want)
    result(shown == sorted(want), f"a dump of {len(shown)} members")
    one = c.dump(get, attr(group, (U64, 0x100007)))
    result([number(m[group][0]) for m in one] == [0x100007], "a dump of one group")
    pid = os.fork()
    if not pid:
        churn()
    whole = interrupted = dumps = 0
    # With one processor the other process may come between two dumps only.
    while dumps < 10 or (not interrupted and dumps < 300):
        whole += steady_ones(c, want) == sorted(want)
        interrupted += c.interrupted
        dumps += 1
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    result(whole == dumps and interrupted > 0,
           f"members come and go: all steady ones in {whole} of {dumps} dumps, {interrupted} marked")
    c.send(get, flags=0x301)
    first = len(c.receive())
    for s in steady:
        s.close()
    rest, kinds = 0, [0]
    while 3 not in kinds:
        kinds = [kind for kind, _, _ in c.receive()]
        rest += len(kinds) - kinds.count(3)
    result(0 < first < MANY and first + rest < MANY,
           f"all members end during a dump: {first} before, {rest} after")


def check_pyroute2(ring):
    """A client of somebody else's library."""
    try:
        from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg, nla
        from pyroute2.netlink.generic import GenericNetlinkSocket
    except ImportError:
        note("no pyroute2")
        return

    class Member(genlmsg):                  # pylint: disable=too-few-public-methods
        """The attributes of a member, in the order of enum rar_a_member."""
        prefix = "RAR_A_MEMBER_"
        nla_map = tuple((value, name, {"GROUP": "uint64", "LINK": "Link", "ERROR": "none",
                                       "PAD": "none"}.get(
            name.removeprefix("RAR_A_MEMBER_"), "uint64" if "_OPS_" in name or "_BYTES" in name
            else "uint32")) for name, value in K.items() if name.startswith("RAR_A_MEMBER_"))

        class Link(nla):                    # pylint: disable=too-few-public-methods
            """The first attributes of a link."""
            nla_map = (("RAR_A_LINK_UNSPEC", "none"), ("RAR_A_LINK_DIRECTION", "uint32"),
                       ("RAR_A_LINK_RANK", "uint32"))

    enter("rar1")
    s = GenericNetlinkSocket()
    s.bind("rar", Member)
    msg = Member()
    msg["cmd"], msg["version"] = K["RAR_CMD_MEMBER_GET"], 1
    m, = s.nlm_request(msg, msg_type=s.prid, msg_flags=NLM_F_REQUEST | NLM_F_DUMP)
    ranks = [link.get_attr("RAR_A_LINK_RANK") for link in m.get_attrs("RAR_A_MEMBER_LINK")]
    result(m.get_attr("RAR_A_MEMBER_GROUP") == ring.group and
           m.get_attr("RAR_A_MEMBER_RANK") == 1 and ranks == [2, 0], "pyroute2 sees the member")
    s.close()


# ------------------------------------------------------------------ the end

def unload():
    """Unload the modules, when the last orphan has ended."""
    end = time.monotonic() + 30
    while os.path.exists("/sys/module/rar"):
        for module in "rar_roce", "rar_box", "rar":
            subprocess.run(["rmmod", module], check=False, stderr=subprocess.PIPE)
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def check_unload():
    """The module goes while a monitor listens."""
    monitor = Monitor("-n", "rar0", "monitor")
    gone = unload()
    out, err = monitor.run.communicate(timeout=10)
    result(gone and err.endswith("rarctl: the module rar was unloaded\n") and
           monitor.run.returncode == 1, f"rmmod while a monitor listens: {out}{err.strip()}")
    errors = [rarctl(*args) for args in (("show",), ("set", "dead_ms", 5000), ("abort", 1))]
    result(all(e[0] == 1 and "not loaded" in e[2] and e[2].count("\n") == 1 for e in errors),
           f"without the module: {errors[0][2].strip()}")
    subprocess.run(["modprobe", "rar"], check=True)
    result(rarctl("show")[0] == 0, "loaded again")


def main():
    """Run all checks, or those of netlink."""
    if not RARCTL.exists():
        skip_all("rarctl is not built: no libmnl-dev")
    ring = Ring()
    if sys.argv[1:] == ["netlink"]:
        check_permissions(ring)
        ring.close()
        check_lost()
        check_refused()
        check_dumps()
        finish()
    check_figures(ring)
    check_lists(ring)
    check_forms(ring)
    check_top(ring)
    check_pyroute2(ring)
    check_permissions(ring)
    check_seals(ring)
    check_box(ring)
    ring.close()
    for check in (check_test, check_in_memory, check_monitor, check_abort, check_lost, check_refused, check_set, check_dumps,
                  check_unload):
        check()
    finish()


if __name__ == "__main__":
    K = constants()
    main()
