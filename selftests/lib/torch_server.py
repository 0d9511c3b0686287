#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_server.py DIRECTORY LIMIT: runs programs with PyTorch, which is imported only once.

Each line of standard input is a run, in the words of a shell: number of ranks, "-" or the
beginning of the names of the ranks' network namespaces (with a dot: all are in that of rank 0),
variables, and a script or "-m MODULE", with its arguments. "%r" stands for the rank. Each rank is
a child whose output goes to DIRECTORY/out.RANK. When all have ended, or LIMIT seconds have passed,
prints "end".
"""
import contextlib
import ctypes
import os
import pathlib
import runpy
import shlex
import signal
import sys
import time
import warnings

import torch    # noqa: F401 # pylint: disable=unused-import

CLONE_NEWNET = 0x40000000


def enter(namespace):
    """Enter a network namespace."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def be_rank(rank, size, namespace, words):
    """Become a rank: run its program in this process."""
    if namespace != "-":
        enter(namespace[:-1] + "0" if namespace.endswith(".") else f"{namespace}{rank}")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        os.environ[name] = value
    warnings.simplefilter("ignore")
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def start(directory, rank, size, namespace, words):
    """Return the process of a rank; in that process, run the program and exit."""
    pid = os.fork()
    if pid:
        return pid
    out = os.open(directory / f"out.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for fd in (1, 2):
        os.dup2(out, fd)
    be_rank(rank, size, namespace, [word.replace("%r", str(rank)) for word in words])
    sys.exit()


def run(directory, limit, words):
    """Run a program on all ranks."""
    size, namespace = int(words[0]), words[1]
    for old in directory.glob("out.*"):
        old.unlink()
    left = {start(directory, rank, size, namespace, words[2:]) for rank in range(size)}
    until = time.monotonic() + limit
    while left:
        left.discard(os.waitpid(-1, os.WNOHANG)[0])
        if time.monotonic() > until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    print("end", flush=True)


def main():
    """Run one program after the other."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    for line in iter(sys.stdin.readline, ""):
        run(pathlib.Path(sys.argv[1]), int(sys.argv[2]), shlex.split(line))


main()
