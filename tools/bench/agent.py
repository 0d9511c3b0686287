#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""agent.py: does the work of the bench where the contest takes place, in a guest or on
the machine itself. Makes network namespaces, starts contestants in them, lets them do
jobs and times them.

One request per line on stdin, as JSON: {"do": "run", ...}; one answer per line on
stdout, "@" and JSON: the result, {"no": "reason"} or {"error": "reason"}. Everything
that it made and started is gone when it ends.
"""
import contextlib
import glob
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(TOP, "build/bench/bin")
LAUNCH = os.path.join(TOP, "tools/bench/launch")
LIGHT = "/sys/kernel/debug/rar_light"
NETNS = f"rarbench{os.getpid()}-"
PORTS = itertools.count(5201, 64)    # a contestant may use as many ports as it has ranks
UNLOAD_S = 30
MESH = 16           # ranks up to which every rank has a device to every other
XDP_OBJECT = os.path.join(TOP, "build/xdp/rar_xdp_frags.o")
XDP_PIN = f"/sys/fs/bpf/rarbench{os.getpid()}"
XDP_HELD = "rarbench"           # a device that always has the program

BOX, TIGHT, SERVER = "10.77.0.201", "10.77.0.202", "10.77.0.203"
# A superpacket that is longer is cut before it goes on, as a network card does.
BURST = "15000"
BOX_MEM, TIGHT_MEM = "512M", "4096"
QUEUE = "10000"     # packets that a link with a delay holds
# Hosts beside the ranks, where links are limited: their link, and what they are.
HOSTS = {"box": (BOX, False), "tight": (TIGHT, False), "host": (SERVER, True)}
# Ranks that use a box: its address. At the last one there is none.
BOXES = {"rar-box": BOX, "rar-box-tight": TIGHT, "rar-box-dead": SERVER}
# How a box that several jobs share gives its memory out: net.rar.box_policy.
POLICIES = {"box-static": "static", "box-fcfs": "fcfs", "box-reclaim": "reclaim",
            "box-preempt": "preempt"}
# Parameter servers: the host that it runs on.
SERVERS = {"tcp-server": "host", "tcp-server-fast": "box"}
LIGHTS = {"light": "ring", "light-nary": "nary", "light-packets": "packets",
          "light-auth": "auth", "light-encrypt": "encrypt"}
COUNTED = ("RxIngress", "RxEncap", "RxXdp", "RxData", "RxLocal", "RxWhole", "TxData", "TxForward",
           "TxAck", "TxCtl", "TxRetrans")
TCP = ("tcp-ring", "tcp-chain", "tcp-halving", "tcp-doubling")
RAR_MODES = {"rar-copy": "copy", "rar-in-place": "in-place",
             "rar-out-of-place": "out-of-place",
             "rar-registered": "registered", "rar-blocking": "blocking", "rar-auto": "auto",
             "rar-doubling": "doubling",
             "rar-local": "local", "rar-no-carriers": "registered",
             "rar-auth": "registered", "rar-encrypt": "registered"}
# RAR_SECURITY of the ranks. A group with seals has no carriers.
SEALS = {"rar-auth": "auth", "rar-encrypt": "encrypt"}
# Links that lead through devices of the kernel: see tunnels.py.
TUNNELS = ("wireguard", "macsec", "macsec-auth")
ATTACKED = 1        # the rank to which an attacker sends what it made of packets that it saw


class Refused(Exception):
    """Not supported here; the reason is for the reader."""


class Failed(Exception):
    """A failure of something that should have worked."""


def command(*args, text=None):
    done = subprocess.run(args, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def unload():
    """Unload the modules; closed sockets may hold rar until their last sums are acknowledged"""
    end = time.monotonic() + UNLOAD_S
    for name in ("rar_roce", "rar_box"):
        if os.path.exists(f"/sys/module/{name}"):
            command("rmmod", name)
    with open("/sys/module/rar/refcnt", encoding="ascii") as refcnt:
        while int(refcnt.read()) and time.monotonic() < end:
            time.sleep(0.05)
            refcnt.seek(0)
    command("rmmod", "rar")


def address(rank):
    return f"10.77.0.{rank + 1}"


def in_rank(rank, *args):
    return ["nsenter", f"--net=/run/netns/{NETNS}{rank}", *args]


# -------------------------------------------------------------------- topology

def links_of(n):
    """Pairs of ranks with a cable: all pairs, or only neighbours if there are many ranks"""
    if n <= MESH:
        return list(itertools.combinations(range(n), 2))
    return [(r, (r + 1) % n) for r in range(n)]


def rank_setup(rank, peers, mtu):
    """A rank has its address on its first device, and a route to every rank it has a cable to"""
    yield "link set lo up"
    for i, peer in enumerate(peers):
        dev = f"to{peer}"
        yield f"link set {dev} mtu {mtu} up"
        if i == 0:
            yield f"address add {address(rank)}/32 dev {dev}"
    for peer in peers:
        yield f"route add {address(peer)}/32 dev to{peer} src {address(rank)}"


class Topology:
    """N namespaces with veth between them"""

    def __init__(self):
        self.key = None

    def make(self, n, mtu, gso, links, form):
        self.remove()
        self.key = (n, mtu, gso, links, form)
        if links and links not in TUNNELS:
            self.star(n, mtu, links)
            return
        self.mesh(n, mtu, gso, form)
        if links:
            # udev loads the last two where the processor has such instructions
            subprocess.run(["modprobe", "-aq", "rar", "macsec", "wireguard", "aesni_intel",
                            "ghash_clmulni_intel"], check=False)
            command("python3", "-B", f"{TOP}/tools/bench/tunnels.py", links, NETNS, str(n), str(mtu))

    @property
    def carriers(self):
        """May ranks share pages? As far as a contestant wants it"""
        return not self.key[4]

    def star(self, n, mtu, links):
        """Ranks and other hosts at one switch; @links: the rate in both directions, perhaps with
        a delay: "20mbit/8192us", or only that: "any/8192us". A link with both delays packet by
        packet, so hosts send no superpackets.
        """
        rate, _, delay = links.partition("/")
        limit = [] if rate == "any" else ["rate", rate]
        shape = ["netem", *limit, "delay", delay, "limit", QUEUE] if delay else [
            "tbf", "rate", rate, "burst", BURST, "limit", "16mb"]
        command("modprobe", "rar")
        hosts = {str(r): (address(r), True) for r in range(n)} | HOSTS
        command("ip", "-batch", "-", text="".join(
            f"netns add {NETNS}{name}\n" for name in (*hosts, "switch")))
        in_switch = [f"{NETNS}switch", "-batch", "-"]
        command("ip", "-n", *in_switch, text=f"link add br0 mtu {mtu} type bridge\n"
                "link set br0 up\n")
        for name, (ip, limited) in hosts.items():
            command("ip", "-batch", "-", text=f"link add eth0 netns {NETNS}{name} mtu {mtu}"
                    f" type veth peer name p{name} netns {NETNS}switch mtu {mtu}\n")
            command("ip", "-n", *in_switch, text=f"link set p{name} master br0 up\n")
            command("ip", "-n", f"{NETNS}{name}", "-batch", "-", text="link set lo up\n"
                    f"link set eth0 up\naddress add {ip}/24 dev eth0\n")
            if limited and (delay or rate != "any"):
                for netns, device in ((name, "eth0"), ("switch", f"p{name}")):
                    command("tc", "-n", f"{NETNS}{netns}", "qdisc", "add", "dev", device, "root",
                            *shape)
            if delay and limit:
                command(*in_rank(name, "sysctl", "-qw", "net.rar.super_chunks=1"))
            self.settings(name, [], True)
        for name, mem in (("box", BOX_MEM), ("tight", TIGHT_MEM)):
            command(*in_rank(name, "sysctl", "-qw", f"net.rar.box_mem={mem}"))

    def mesh(self, n, mtu, gso, form):
        pairs = links_of(n)
        command("ip", "-batch", "-", text="".join(
            f"netns add {NETNS}{r}\n" for r in range(n)))
        command("ip", "-batch", "-", text="".join(
            f"link add name to{b} netns {NETNS}{a} type veth"
            f" peer name to{a} netns {NETNS}{b}\n" for a, b in pairs))
        for rank in range(n):
            peers = [a + b - rank for a, b in pairs if rank in (a, b)]
            command("ip", "-n", f"{NETNS}{rank}", "-batch", "-",
                    text="\n".join(rank_setup(rank, peers, mtu)) + "\n")
            self.settings(rank, peers, gso)
            if form == "xdp":
                self.receive_by_xdp(rank, peers)

    @staticmethod
    def receive_by_xdp(rank, peers):
        """Put the module's program on the devices of a rank. For a program's first and last user
        the kernel patches its code, which an emulated machine may not survive (see run_in_guest),
        so a device that stays has it, too.
        """
        if not os.path.exists(XDP_PIN):
            command("modprobe", "rar")
            command("bpftool", "prog", "load", XDP_OBJECT, XDP_PIN, "type", "xdp")
            command("ip", "link", "add", "name", XDP_HELD, "type", "veth")
            command("ip", "link", "set", XDP_HELD, "xdpdrv", "pinned", XDP_PIN)
        # "ip netns exec" and "ip -n" would hide the file system that the program is in.
        command(*in_rank(rank, "ip", "-batch", "-"), text="".join(
            f"link set to{p} xdpdrv pinned {XDP_PIN}\n" for p in peers))
        command(*in_rank(rank, "sysctl", "-qw", "net.rar.rx_path=xdp"))

    @staticmethod
    def settings(rank, peers, gso):
        """Let a connection that paused keep its window, and set offloads"""
        lines = ["echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle"]
        if not gso:
            lines += [f"ethtool -K to{p} tso off gso off tx-udp-segmentation off gro on"
                      for p in peers]
        command(*in_rank(rank, "sh", "-ec", "\n".join(lines)))

    def remove(self):
        self.key = None
        for path in glob.glob(f"/run/netns/{NETNS}*"):
            command("ip", "netns", "del", os.path.basename(path))

    def close(self):
        self.remove()
        if os.path.exists(XDP_PIN):
            command("ip", "link", "delete", XDP_HELD)
            os.unlink(XDP_PIN)


# -------------------------------------------------------------------- contestants

def open_mpi(n, ctl):
    hosts = ",".join(f"{address(r)}:1" for r in range(n))
    return ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm", "rsh",
            "--mca", "plm_rsh_agent", LAUNCH, "--mca", "btl", "tcp,self",
            "--mca", "pml", "ob1", "--mca", "mpi_yield_when_idle", "1",
            "--host", hosts, "-n", str(n), f"{BIN}/openmpi", ctl]


def device():
    """A device of rank 0: in a star it has only one"""
    return "eth0" if os.path.exists(f"/run/netns/{NETNS}switch") else "to1"


def mpich(n, ctl):
    hosts = ",".join(address(r) for r in range(n))
    return ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", LAUNCH,
            "-iface", device(), "-hosts", hosts, "-ppn", "1", "-n", str(n),
            "-genv", "UCX_TLS", "tcp,self", "-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "1",
            f"{BIN}/mpich", ctl]


def open_mpi_local(n, ctl):
    return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
            "--mca", "btl", "vader,self", "--mca", "pml", "ob1",
            "--mca", "mpi_yield_when_idle", "1", "-n", str(n), f"{BIN}/openmpi", ctl]


def mpich_local(n, ctl):
    return ["mpiexec.mpich", "-launcher", "fork", "-n", str(n),
            "-genv", "UCX_TLS", "sm,self", "-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "1",
            f"{BIN}/mpich", ctl]


MPI = {"openmpi": open_mpi, "mpich": mpich, "openmpi-local": open_mpi_local,
       "mpich-local": mpich_local}
# How the launcher takes a variable for the ranks.
VARIABLE = {"openmpi": "-x {}={}", "mpich": "-genv {} {}"}


def by_ring(mpi, n, ctl):
    """The same program with the preloaded library, and what it does by default"""
    command_line = MPI[mpi](n, ctl)
    preload = VARIABLE[mpi].format("LD_PRELOAD", f"{BIN}/preload/librar-{mpi}.so")
    return command_line[:1] + preload.split() + command_line[1:]


class Contestant:
    """The processes of one kind, and "lead", which drives them"""

    def __init__(self, name, n, carriers=True):
        self.name, self.n = name, n
        self.carriers = carriers and name != "rar-no-carriers"
        self.dir = tempfile.mkdtemp(prefix="rarbench", dir="/dev/shm")
        self.ctl = os.path.join(self.dir, "ctl")
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.processes = []
        try:
            self.lead = subprocess.Popen(
                [f"{BIN}/lead", self.ctl, str(n)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self.log, text=True)
            while not os.path.exists(self.ctl):
                time.sleep(0.01)
            self.spawn_all()
            self.ask("wait 60")
        except BaseException:
            self.stop()
            raise

    def spawn(self, args):
        self.processes.append(subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True, env=os.environ | {"RAR_BENCH_NETNS": NETNS} |
            ({"RAR_SECURITY": SEALS[self.name]} if self.name in SEALS else {})))

    def spawn_ranks(self, command_of, together=False):
        for rank in range(self.n):
            self.spawn(in_rank(0 if together else rank, *command_of(rank)))

    def spawn_all(self):
        name, n, ctl = self.name, str(self.n), self.ctl
        if name == "marker":
            self.spawn([f"{BIN}/marker", ctl])
        elif name in RAR_MODES:
            group = str(random.getrandbits(62) + 1)
            command("modprobe", "rar")
            for rank in range(self.n):      # read when the group is joined
                command(*in_rank(rank, "sysctl", "-eqw",
                                 f"net.rar.carriers={int(self.carriers)}"))
            self.spawn_ranks(lambda r: [f"{BIN}/rar", RAR_MODES[name], ctl, str(r), n, group],
                             together=name == "rar-local")
        elif name in BOXES:
            group = str(random.getrandbits(62) + 1)
            self.spawn_ranks(lambda r: [f"{BIN}/rar", "in-place", ctl, str(r), n, group,
                                        BOXES[name]])
        elif name in SERVERS:
            port, host = str(next(PORTS)), SERVERS[name]
            self.spawn(in_rank(host, f"{BIN}/server", "serve", n, port, HOSTS[host][0]))
            self.spawn_ranks(lambda r: [f"{BIN}/server", "rank", ctl, str(r), n, port,
                                        HOSTS[host][0]])
        elif name in TCP:
            port = str(next(PORTS))
            self.spawn_ranks(lambda r: [f"{BIN}/tcp", name[4:], ctl, str(r), n, port])
        elif name in ("tcp-loop", "udp-loop"):
            port = str(next(PORTS))
            self.spawn_ranks(lambda r: [f"{BIN}/fanout", name[:3], ctl, str(r), n, port])
        elif not os.path.exists(f"{BIN}/{name.removesuffix('-local').removesuffix('-ring')}"):
            raise Refused(f"{name} is not installed here")
        elif name == "gloo":
            self.spawn_ranks(lambda r: [f"{BIN}/gloo", ctl, str(r), n, self.dir])
        else:
            mpi = name.removesuffix("-ring")
            line = MPI[mpi](self.n, ctl) if mpi == name else by_ring(mpi, self.n, ctl)
            self.spawn(in_rank(0, "ip", "netns", "exec", f"{NETNS}0", *line))

    def ask(self, line):
        """Send one line to "lead"; return the rest of its "ok" answer"""
        try:
            self.lead.stdin.write(line + "\n")
            self.lead.stdin.flush()
            word, _, rest = self.lead.stdout.readline().strip().partition(" ")
        except BrokenPipeError:
            word, rest = "error", "lead is gone"
        if word == "ok":
            return rest
        if word == "no":
            raise Refused(rest)
        raise Failed(f"{self.name}: {rest or 'no answer'}{self.last_words()}")

    def last_words(self):
        self.log.seek(0)
        text = self.log.read().decode(errors="replace").strip()
        return f" ({text[-400:]})" if text else ""

    def run(self, job):
        return int(self.ask(" ".join(
            ["run", job["type"], str(job["times"]), str(job["limit"]),
             ",".join(map(str, job["knobs"])), *map(str, job["bytes"])])))

    def stop(self):
        with contextlib.suppress(AttributeError, BrokenPipeError):
            self.lead.stdin.close()
        for process in self.processes + ([self.lead] if hasattr(self, "lead") else []):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Light:
    """The speed of light: rar_light.ko does a job when its file is written to"""

    def __init__(self, name, n, cpus):
        if not os.path.exists(LIGHT):
            raise Refused("rar_light is not loaded here")
        self.form, self.n, self.cpus = LIGHTS[name], n, cpus
        self.spaces = []
        if self.form == "packets":
            self.spaces = [os.open(f"/run/netns/{NETNS}{r}", os.O_RDONLY) for r in range(n)]

    def once(self, size, kind, tile):
        with open(LIGHT, "w", encoding="ascii") as f:
            f.write(" ".join(map(str, [self.form, self.n, size, kind, tile, self.cpus,
                                       *self.spaces])))
        with open(LIGHT, encoding="ascii") as f:
            return int(f.read())

    def run(self, job):
        tile = job["knobs"][0] or 32768
        return sum(self.once(size, job["type"], tile)
                   for _ in range(job["times"]) for size in job["bytes"])

    def stop(self):
        for space in self.spaces:
            os.close(space)


class Jobs:
    """Training jobs that share a box, which gives its memory out in one way. See jobs.c"""

    def __init__(self, name):
        self.policy = POLICIES[name]

    def run(self, job):
        """The mean time of the jobs, and what else was counted"""
        jobs, mem, slot_ns, seed = job["knobs"]
        group = random.getrandbits(62) + 1
        ran = subprocess.run([f"{BIN}/jobs", NETNS, BOX, str(jobs), str(group), self.policy,
                              str(mem), str(slot_ns), str(seed)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
        if ran.returncode:
            why = ran.stdout.splitlines() or [f"ended with {ran.returncode}"]
            raise Failed(f"jobs: {why[0]}")
        ns, box, ring, returned, busy = map(int, ran.stdout.split())
        return {"ns": ns, "box": box, "ring": ring, "returned": returned, "busy": busy}

    def stop(self):
        pass


# -------------------------------------------------------------------- memory

def free_kib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemFree"))


class MemoryWatch(threading.Thread):
    """Records the least free memory while it runs"""

    def __init__(self):
        super().__init__(daemon=True)
        self.least, self.over = free_kib(), False

    def run(self):
        while not self.over:
            self.least = min(self.least, free_kib())
            time.sleep(0.001)


# -------------------------------------------------------------------- requests

class Agent:
    def __init__(self):
        self.topology = Topology()
        self.contestants = {}
        self.attacker = None
        self.over = False

    def do_info(self, request):
        del request
        return {"kernel": os.uname().release, "cpus": len(os.sched_getaffinity(0)),
                "contestants": sorted(f for f in os.listdir(BIN) if "." not in f),
                "free_mib": free_kib() // 1024}

    def do_light(self, request):
        # insmod does not load what it needs; in some kernels that is built in
        subprocess.run(["modprobe", "-q", "libchacha20poly1305"], check=False)
        command("insmod", request["module"])
        return {}

    def do_load(self, request):
        """Load another build of rar, and those beside it; what they need is loaded already"""
        self.stop_all()
        self.topology.remove()
        command("modprobe", "rar")
        unload()
        command("insmod", request["module"])
        for name in ("rar_box", "rar_roce"):
            path = os.path.join(os.path.dirname(request["module"]), f"{name}.ko")
            if os.path.exists(path):    # there is none in older trees
                command("insmod", path)
        return {}

    def do_topology(self, request):
        self.stop_all(keep=("marker",))
        self.topology.make(request["n"], request["mtu"], request["gso"], request["links"],
                           request["form"])
        return {}

    def do_start(self, request):
        name = request["name"]
        if name in LIGHTS:
            if name not in self.contestants:
                self.contestants[name] = Light(name, self.topology.key[0],
                                               len(os.sched_getaffinity(0)))
        elif name in POLICIES:
            self.contestants[name] = Jobs(name)
        elif name not in self.contestants:
            n = 1 if name == "marker" else self.topology.key[0]
            self.contestants[name] = Contestant(name, n, self.topology.carriers)
        return {}

    def do_stop(self, request):
        contestant = self.contestants.pop(request["name"], None)
        if contestant:
            contestant.stop()
        return {}

    def do_run(self, request):
        name = request["name"]
        try:
            answer = self.contestants[name].run(request)
            return answer if isinstance(answer, dict) else {"ns": answer}
        except Failed:
            self.contestants.pop(name).stop()
            raise

    @staticmethod
    def netstat(rank):
        """The module's counters of a rank"""
        names, values = (line.split()[1:] for line in command(
            *in_rank(rank, "cat", "/proc/net/rar_netstat")).splitlines()[:2])
        return dict(zip(names, map(int, values)))

    def counters(self):
        """The module's counters, summed over the ranks"""
        sums = dict.fromkeys(COUNTED, 0)
        for rank in range(self.topology.key[0]):
            found = self.netstat(rank)
            for name in COUNTED:
                sums[name] += found[name]
        return sums

    def do_count(self, request):
        """What was counted during a job"""
        before = self.counters()
        self.do_run(request)
        return {"counts": {name: value - before[name]
                           for name, value in self.counters().items()}}

    def do_attack(self, request):
        """Let an attacker send bad packets to a host at the switch, so many in a second, or end it.
        Returns how many the last one has sent in which time, and how many rank 1 has dropped so far.
        """
        answer = self.end_attack()
        if request["rate"]:
            self.attacker = subprocess.Popen(
                in_rank("switch", f"{BIN}/attacker", f"p{ATTACKED}", f"p{request['to']}",
                        str(request["rate"])), stdout=subprocess.PIPE)
            self.attacker.stdout.readline()     # it watches
        return answer | {"dropped": self.netstat(ATTACKED)["DropSeal"]}

    def end_attack(self):
        if not self.attacker:
            return {"sent": 0, "sent_ns": 0}
        self.attacker.terminate()
        sent, ns = map(int, self.attacker.communicate()[0].split() or (0, 0))
        self.attacker = None
        return {"sent": sent, "sent_ns": ns}

    def do_memory(self, request):
        """The memory taken in the middle of a job, in KiB"""
        self.do_run(request)        # its own buffers are there from now on
        before, watch = free_kib(), MemoryWatch()
        watch.start()
        self.do_run(request)
        watch.over = True
        watch.join()
        return {"kib": before - watch.least}

    def stop_all(self, keep=()):
        self.end_attack()
        for name in [n for n in self.contestants if n not in keep]:
            self.contestants.pop(name).stop()

    def answer(self, line):
        request = json.loads(line)
        try:
            return getattr(self, "do_" + request["do"])(request)
        except Refused as e:
            return {"no": str(e)}
        except (Failed, OSError, ValueError) as e:
            return {"error": str(e)}

    def do_quit(self, request):
        del request
        self.over = True
        return {}

    def serve(self):
        print("@{}", flush=True)
        while not self.over and (line := sys.stdin.readline()):
            print("@" + json.dumps(self.answer(line)), flush=True)

    def close(self):
        self.stop_all()
        self.topology.close()


def main():
    agent = Agent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        agent.serve()
    finally:
        agent.close()


main()
