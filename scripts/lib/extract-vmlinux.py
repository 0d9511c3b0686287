#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""extract-vmlinux.py VMLINUZ OUT: unpack a bzImage, which is slow on an emulated CPU.

The x86 boot protocol (2.08 on) tells where the compressed payload is.
"""
import struct
import subprocess
import sys

TOOLS = {
    b"\xfd7zXZ": ["xz", "-dc"],
    b"\x28\xb5\x2f\xfd": ["zstd", "-dc"],
    b"\x1f\x8b": ["gzip", "-dc"],
    b"\x02\x21\x4c\x18": ["lz4", "-dc"],
}


def main(source, target):
    with open(source, "rb") as image:
        data = image.read()
    setup_sects = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (setup_sects + 1) * 512 + offset
    payload = data[start:start + length]
    tool = next((t for m, t in TOOLS.items() if payload.startswith(m)), None)
    if tool is None:
        sys.exit(f"{source}: unknown compression {payload[:8]!r}")
    # The payload ends in four bytes of size, which the tools complain about.
    done = subprocess.run(tool, input=payload, capture_output=True, check=False)
    if done.stdout[:4] != b"\x7fELF":
        sys.exit(f"{source}: {tool[0]}: {done.stderr.decode()}")
    with open(target, "wb") as out:
        out.write(done.stdout)


main(*sys.argv[1:3])
