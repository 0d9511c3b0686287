# SPDX-License-Identifier: GPL-2.0
"""Where a contest takes place: a guest with one of the kernels, or this machine. Each
place is an agent (agent.py) that is asked through a pipe.
"""
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = "host"
BOOT_S = 400
CLOSE_S = 30
LIMIT_S = 86400         # of a guest, should nobody end it
PR_SET_PDEATHSIG = 1
CPUCLOCK_SCHED = 2      # of the clock of a process, see clock_getcpuclockid()


class NotHere(Exception):
    """The place does not support the request; the reason is for the reader."""


class Broken(Exception):
    """A failure of something that should have worked."""


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


class Place:
    """name: host, uml, 6.12, 6.1; cpus: how many; on: which CPUs of this machine; count: its
    clock counts instructions
    """

    def __init__(self, name, cpus, on, mem, count=False):
        self.name = name
        self.cpus = cpus
        self.counts = count
        self.started = {}           # contestant: None, or why not
        self.pid = tempfile.NamedTemporaryFile("r", prefix="rarbench")
        self.process = subprocess.Popen(
            self.command(name, cpus, on, mem, count, self.pid.name), cwd=TOP, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True, preexec_fn=end_with_parent)
        self.pending = b""
        try:
            self.receive(BOOT_S)
            self.info = self.ask(do="info")
            self.start_light()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def command(name, cpus, on, mem, count, pid):
        agent = ["python3", "-B", "tools/bench/agent.py"]
        if name == HOST:
            return [*(["sudo"] if os.geteuid() else []),
                    *(["taskset", "-c", on] if on else []), *agent]
        return ["scripts/vm", "--kernel", name, "--cpus", str(cpus), "--mem", str(mem),
                "--timeout", str(LIMIT_S), "--module", "--stdin", "--pid", pid,
                *(["--on", on] if on else []), *(["--count"] if count else []), "--", *agent]

    def start_light(self):
        module = f"{TOP}/build/{self.name}.light/rar_light.ko"
        if self.name != HOST and os.path.exists(module):
            self.ask(do="light", module=module)

    def cpu_ns(self):
        """CPU time of the guest's kernel so far; in User-Mode Linux without its programs"""
        self.pid.seek(0)
        return time.clock_gettime_ns(~int(self.pid.read()) << 3 | CPUCLOCK_SCHED)

    def load(self, module):
        """Load another build of the module"""
        self.ask(do="load", module=module)
        self.started = {}

    def receive(self, timeout):
        """The next answer; lines that do not begin with "@" are shown"""
        end = time.monotonic() + timeout
        while True:
            while b"\n" in self.pending:
                line, _, self.pending = self.pending.partition(b"\n")
                line = line.strip()
                if line.startswith(b"@"):
                    return json.loads(line[1:])
                if line:
                    say(f"{self.name}: {line.decode(errors='replace')}")
            left = max(0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise Broken(f"{self.name}: no answer in {timeout:.0f} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Broken(f"{self.name}: gone")
            self.pending += data

    def ask(self, timeout=120, **request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Broken(f"{self.name}: gone") from None
        answer = self.receive(timeout)
        if "no" in answer:
            raise NotHere(answer["no"])
        if "error" in answer:
            raise Broken(f"{self.name}: {answer['error']}")
        return answer

    def topology(self, n, mtu, gso, links="", form=""):
        self.ask(do="topology", n=n, mtu=mtu, gso=gso, links=links, form=form)
        self.started = {k: v for k, v in self.started.items() if k == "marker"}

    def start(self, name):
        """None, or why this contestant does not take part"""
        if name not in self.started:
            try:
                self.ask(do="start", name=name)
                self.started[name] = None
            except (NotHere, Broken) as e:
                self.started[name] = str(e)
        return self.started[name]

    def stop(self, name):
        if self.started.pop(name, "never") is None:
            self.ask(do="stop", name=name)

    def run(self, name, job, do="run"):
        """The answer to a job {type, times, limit, knobs, bytes}"""
        try:
            return self.ask(do=do, name=name, timeout=3 * job["limit"] + 60, **job)
        except Broken as e:
            self.started[name] = str(e)
            raise

    def close(self):
        """Keep its input open until it has ended: User-Mode Linux dies of a closed console"""
        with contextlib.suppress(Broken):
            self.ask(do="quit")
        try:
            self.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()        # scripts/vm ends its guest
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
