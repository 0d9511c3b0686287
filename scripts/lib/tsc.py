#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tsc.py: prints how many thousand cycles this machine's time stamp counter (TSC) makes in a second;
nothing if it has none.

An emulated x86 processor has the TSC of the machine. Its kernel would measure it by timers that the
emulator drives; on a busy machine it was wrong by a factor of 30, and so was the guest's clock.
"""
import ctypes
import mmap
import platform
import sys
import time

READ = bytes((0x0f, 0x31,               # rdtsc
              0x48, 0xc1, 0xe2, 0x20,   # shl $32, %rdx
              0x48, 0x09, 0xd0,         # or %rdx, %rax
              0xc3))                    # ret
SECONDS = 0.1
TRIES = 20


def reader():
    """Return a function that reads the counter."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(READ)
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_uint64)(address), code


def both(read):
    """Return the clock (ns) and the counter as they were together: of some tries the quickest."""
    tries = []
    for _ in range(TRIES):
        before = time.monotonic_ns()
        count = read()
        tries.append((time.monotonic_ns() - before, before, count))
    took, before, count = min(tries)
    return before + took // 2, count


def main():
    if platform.machine() != "x86_64":
        return
    read, _code = reader()
    start = both(read)
    time.sleep(SECONDS)
    end = both(read)
    print((end[1] - start[1]) * 1000000 // (end[0] - start[0]))


if __name__ == "__main__":
    sys.exit(main())
