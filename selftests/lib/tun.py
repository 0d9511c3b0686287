# SPDX-License-Identifier: GPL-2.0
"""A network by a process: devices tun0 or tap0, whose packets it reads and writes. For tests in Python;
"tun.py tun|tap RANKS" is one between the namespaces rar0 ..., until it is killed.
"""
import contextlib
import fcntl
import os
import signal
import struct
import sys
import threading

from rarpkt import enter

TUNSETIFF, NO_INFO = 0x400454ca, 0x1000     # no header before packets
MODES = {"tun": 1, "tap": 2}


class Tuns:
    """A tun goes by the last byte of an IPv4 address, a tap gives each frame to all others."""

    def __init__(self, kind, ranks):
        self.kind, self.fd = kind, []
        for rank in range(ranks):
            enter(f"rar{rank}")
            fd = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", f"{kind}0".encode(),
                                                   MODES[kind] | NO_INFO))
            self.fd.append(fd)
        for fd in self.fd:
            threading.Thread(target=self.pump, args=(fd,), daemon=True).start()

    def to(self, fd, packet):
        """Where does a packet go that came by @fd?"""
        if self.kind == "tap":
            return [other for other in self.fd if other != fd]
        return self.fd[packet[19] - 1:packet[19]] if packet[0] >> 4 == 4 else []

    def pump(self, fd):
        with contextlib.suppress(OSError):              # the device is gone
            while True:
                packet = os.read(fd, 65536)
                for other in self.to(fd, packet):
                    with contextlib.suppress(OSError):  # it is down
                        os.write(other, packet)


def main():
    Tuns(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
