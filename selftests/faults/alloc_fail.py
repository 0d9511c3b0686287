#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every allocation of the modules fails, one place at a time.

alloc_fail.py [PATTERN]		sites whose name contains PATTERN; all by default

The places are found in the modules' code: calls of kernel functions that allocate,
or that copy from or to user space. A failure is injected where the return address
of such a call is on the stack, in process context and in softirq: the first time,
later, or often. survive.c checks that the modules survive it, and roce.py for what the
box does with RoCEv2. Also tested are each
allocation of each call in turn, each allocation while the module is loaded, and
storms of failures anywhere in the modules.
"""
import ctypes
import errno
import os
import pathlib
import re
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "lib"))
from tap import finish, get_seed, note, result, skip_all

MODULES = "rar", "rar_box", "rar_roce"         # each needs those before it
DEBUGFS = "/sys/kernel/debug/"
FAULTS = ("failslab", "fail_page_alloc", "fail_usercopy")
ALLOCATES = re.compile(
    r"alloc|dst_cache_init|skb_clone|local_out|route_output|"
    r"dst_lookup|^(nf_|sock_|proto_)?register_|_create|setup_udp|sock_init_data|"
    r"kvfree_call_rcu")
# put_cmsg() is left out: a control message that it cannot copy is lost, as on any socket.
COPIES = re.compile(r"usercopy|_copy_(to|from)_iter")
# Inner functions with several callers: each call of them is a place of its own.
SHARED = "rar_packet_alloc", "rar_route_new", "xmit_dst"
# Called only while the module is loaded: test_load() covers them.
AT_LOAD = re.compile(r"^(rar_member_init|rar_sock_init|box_init|roce_init|init_users)\b")
# Places that may not be reached. Some kernel functions fall back to something else, and a
# tap never leaves a packet shared. Early packets come as they were sent, answers have a
# known route, a job finds room beside the members, no box is above another, carriers share the
# pages of operations that are copied, a packet that is held rarely comes twice, no record has its
# pieces backwards, and User-Mode Linux has no XDP and, here, a single CPU, so nothing is steered or
# copied in steps.
MAY_BE_MISSED = re.compile(
    r" (kvfree_call_rcu|setup_udp_tunnel_sock|sock_init_data|skb_clone)$|"
    r"^rar_early_hold\S* __alloc_skb$|"
    r"^(rar_packet_xmit_once|rar_route_(on_link|takes_from)|rar_job_enter)\S* rar_route_new|"
    r"^rar_member_hash_job\S* __xa_alloc|^rar_packet_alloc\S* __netdev_alloc_frag|"
    r"^(rar_up_enter|up_new|copied|packet_set|rar_buf_repeats)\b|^rar_frame_(mirror|ready)\b|"
    r"^rar_steer_send\b|^(rar_codec_)?from_iter\b")

libc = ctypes.CDLL(None, use_errno=True)


# ------------------------------------------------------------------ injection

def put(fault, name, value):
    with open(f"{DEBUGFS}{fault}/{name}", "w") as f:
        f.write(str(value))


def left(fault):
    """The number of failures still to be injected."""
    with open(f"{DEBUGFS}{fault}/times") as f:
        return int(f.read())


def setup(verbose):
    for fault in FAULTS:
        put(fault, "probability", 0)
        put(fault, "task-filter", "N")
        put(fault, "stacktrace-depth", 32)
        put(fault, "verbose", verbose)
        put(fault, "verbose_ratelimit_interval_ms", 0)
    for name in ("ignore-gfp-wait", "cache-filter"):
        if os.path.exists(f"{DEBUGFS}failslab/{name}"):
            put("failslab", name, "N")
    put("fail_page_alloc", "ignore-gfp-wait", "N")
    put("fail_page_alloc", "ignore-gfp-highmem", "N")
    put("fail_page_alloc", "min-order", 0)


def aim(faults, start, end, times=1, interval=1, probability=100):
    for fault in faults:
        put(fault, "require-start", start)
        put(fault, "require-end", end)
        put(fault, "interval", interval)
        put(fault, "times", times)
        put(fault, "probability", probability)


def stop():
    for fault in FAULTS:
        put(fault, "probability", 0)
        put(fault, "times", 0)


# ------------------------------------------------------------------ the module

def module_file(module):
    return subprocess.run(["modinfo", "-n", module], check=True, text=True,
                          capture_output=True).stdout.strip()


def text_start(module):
    with open(f"/sys/module/{module}/sections/.text") as f:
        return int(f.read(), 16)


def text_range(module):
    """First and last address of the module's code"""
    start = text_start(module)
    return start, start + max(addr for _, addr, _ in calls(module_file(module))) + 4096


def disassemble(path):
    """(function, its address, address, instruction, operands) for all of .text.
    A relocation is an instruction named "reloc"."""
    name = base = None
    out = subprocess.run(["objdump", "-dr", "-j", ".text", "--no-show-raw-insn",
                          path], check=True, text=True, capture_output=True).stdout
    own = {f".text+{int(addr, 16):#x}": name for addr, name in
           re.findall(r"^([0-9a-f]+) <(\S+)>:$", out, re.M)}
    for line in out.splitlines():
        if m := re.match(r"([0-9a-f]+) <(\S+)>:", line):
            base, name = int(m[1], 16), m[2]
        elif m := re.match(r"\s+([0-9a-f]+): R_X86_64_\S+\s+(\S+)", line):
            yield name, base, int(m[1], 16), "reloc", own.get(m[2], m[2])
        elif m := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            yield name, base, int(m[1], 16), m[2], m[3]


def calls(path):
    """(name, offset of the return address, callee) of all calls. User-Mode Linux
    calls kernel functions through a register that was loaded before."""
    held, register, callee = {}, None, None
    for name, base, addr, insn, operands in disassemble(path):
        if insn == "reloc":
            if register:
                held[register] = operands
            continue
        if callee:
            yield f"{name}+{addr - base:#x}", addr, callee
        register = callee = None
        if insn == "call":
            m = re.search(r"<([^+>]+)>", operands)
            callee = m[1] if m else held.get(operands.lstrip("*"))
        elif m := re.search(r"(?:^|,)(%r\w+)$", operands):
            held.pop(m[1], None)
            if insn == "movabs":
                register = m[1]


def sites(path, pattern):
    for name, addr, callee in calls(path):
        if COPIES.search(callee):
            kind = "copy"
        elif ALLOCATES.search(callee) and not callee.startswith("rar_") or \
                callee.split(".")[0] in SHARED:
            kind = "alloc"
        else:
            continue
        if pattern in name + " " + callee:
            yield f"{name} {callee}", addr, kind


# ------------------------------------------------------------------ the tests

def survive(*options, local="1", box=False):
    env = {"RAR_LOCAL": local} | ({"RAR_BOX": "127.0.0.1"} if box else {})
    out = subprocess.run(["survive", *options], text=True, stdout=subprocess.PIPE,
                         env=os.environ | env, stderr=subprocess.STDOUT)
    return out.returncode, out.stdout


def alone(*options, local):
    return survive(*options, local=local)


def with_box(*options, local):
    return survive(*options, local=local, box=True)


def with_roce(*_options, local):
    """Packets of RoCEv2 pass a box that is a router."""
    out = subprocess.run(["lib/in_topo.sh", "3", "box/roce.py", "survive"], text=True, cwd=TESTS,
                         env=os.environ | {"RAR_LOCAL": local}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    return out.returncode, out.stdout


# kind of site: (faults, times, interval, probability, options of survive)
MANNERS = {
    "copy": ((("fail_usercopy",), 1, 1, 100, ("-l",)),
             (("fail_usercopy",), 6, 1, 25, ())),
    "alloc": ((("failslab",), 1, 1, 100, ("-l",)),
              (("fail_page_alloc",), 1, 1, 100, ("-l",)),
              (("failslab", "fail_page_alloc"), 1, 3, 100, ()),
              (("failslab", "fail_page_alloc"), 6, 1, 25, ())),
}


def fail_at(addr, kind, program):
    """Inject failures at an address. Return how many, and whether all went well."""
    hits, ok = 0, True
    for faults, times, interval, probability, options in MANNERS[kind]:
        aim(faults, addr, addr + 1, times, interval, probability)
        # Send packets: a hand-over in memory allocates nothing.
        status, said = program(*options, local="0")
        hits += sum(times - left(fault) for fault in faults)
        stop()
        if status:
            note(said)
            note(f"{faults}, {times} times, {program.__name__}: it ended with {status}")
            ok = False
    return hits, ok


def test_site(name, addr, kind):
    """Returns whether any failure was injected. Some code is only used with a box."""
    missed = MAY_BE_MISSED.search(name)
    for program in (alone, with_box) if missed else (alone, with_box, with_roce):
        hits, ok = fail_at(addr, kind, program)
        if hits or not ok:
            break
    result(ok and (hits or missed), f"{name}: {hits} failures")
    return hits > 0


def test_sites(module, pattern):
    start = text_start(module)
    found = [s for s in sites(module_file(module), pattern) if not AT_LOAD.search(s[0])]
    hit = [test_site(name, start + addr, kind) for name, addr, kind in found]
    note(f"{module}: sites hit: {sum(hit)} of {len(found)}")


def test_shared():
    """If one of them is renamed, its callers are no longer tested one by one."""
    called = {callee.split(".")[0] for module in MODULES
              for _, _, callee in calls(module_file(module))}
    result(called >= set(SHARED), f"modules call {', '.join(SHARED)}")


def test_calls(start, end):
    """Each allocation of each call, in process context."""
    aim(FAULTS, start, end, times=-1, probability=0)
    status, said = survive("-n", "-l")
    note(said)
    result(not status, "each allocation of each call")


def test_storm(start, end, probability):
    aim(FAULTS, start, end, times=-1, probability=probability)
    status, said = survive("-s")
    stop()
    note(said)
    result(not status, f"{probability} % of all allocations")
    status, said = survive()
    if status:
        note(said)
    result(not status, f"the module works after a storm of {probability} %")


# ------------------------------------------------------------------ loading

def symbol(name):
    """First and last address of a kernel function."""
    with open("/proc/kallsyms") as f:
        text = sorted((int(a, 16), n) for a, t, n, *_ in (line.split() for line in f)
                      if t in "tT")
    i = next(i for i, (_, n) in enumerate(text) if n == name)
    return text[i][0], next(a for a, _ in text[i + 1:] if a > text[i][0])


def fail_nth(fd, n):
    os.pwrite(fd, str(n).encode(), 0)


def load_all():
    """All modules, so that no setting has to load one"""
    subprocess.run(["modprobe", "-a", *MODULES], check=True)


def load(image, nth, fd):
    """(errno, was a failure injected) of finit_module()."""
    fail_nth(fd, nth)
    ret = libc.syscall(313, image, b"", 0)
    err = ctypes.get_errno() if ret else 0
    injected = not int(os.pread(fd, 16, 0).rstrip(b"\0") or 0)
    fail_nth(fd, 0)
    return err, injected


def unload(module):
    end = time.monotonic() + 30
    while libc.syscall(176, module.encode(), 0o4000):
        if time.monotonic() > end:
            raise OSError(ctypes.get_errno(), "delete_module")
        time.sleep(0.05)


def test_load(module, least):
    """Each allocation below the module's init function: at least so many"""
    image = os.open(module_file(module), os.O_RDONLY)
    fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
    aim(FAULTS, *symbol("do_one_initcall"), times=-1, probability=0)
    for name in reversed(MODULES[MODULES.index(module):]):
        unload(name)
    nth, failed, injected, ok = 0, 0, True, True
    while injected:
        nth += 1
        err, injected = load(image, nth, fd)
        failed += bool(err)
        if not err:
            unload(module)
        elif not injected or err not in (errno.ENOMEM, errno.ENOBUFS):
            note(f"failure {nth}: {os.strerror(err)}")
            ok = False
    os.close(image)
    os.close(fd)
    note(f"{module}: {nth - 1} failures injected: {failed} loads were refused, "
         f"{nth - 1 - failed} failures were tolerated")
    result(ok and nth > least, f"each allocation while {module} is loaded")
    load_all()
    status, said = with_box(local="1")
    note(said)
    result(not status, f"the modules work after failed loads of {module}")


def main():
    pattern = sys.argv[1] if sys.argv[1:] else ""
    os.environ["SEED"] = str(get_seed())        # for survive, too
    if not os.path.exists(DEBUGFS + "failslab/require-start"):
        skip_all("no fault injection by stack trace in this kernel")
    load_all()
    setup(verbose=0)
    for module in MODULES:
        test_sites(module, pattern)
    if not pattern:
        test_shared()
        # Between them there may be other modules, none of which is used meanwhile.
        ranges = [text_range(module) for module in MODULES]
        start, end = min(r[0] for r in ranges), max(r[1] for r in ranges)
        test_calls(start, end)
        for probability in (2, 5, 15, 40):
            test_storm(start, end, probability)
        for module, least in zip(MODULES, (20, 4, 2)):
            test_load(module, least)
    stop()
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
