#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A liar on the path: it knows the epoch, and sends rank 1 a packet that is right in all but a few
fields of its header. Whoever can do that may end the group, so an error is fine, and it names a
rank. But no sum is wrong, and no group stands for longer than dead_ms allows without an error.

The ranks are sockets of this process in the namespaces rar0 rar1 rar2 (lib/in_topo.sh 3).
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import live
import pair
from live import COUNT, N, Data, Ring, last, next_packet, wait_quiet
from rarpkt import ACK, RS, enter, sysctl
from tap import finish, note, result

DEAD_MS = 1000
OPS = 8                 # after the lie
FAR = 100000

# of struct rar_ack_hdr: where it is, and its format
FIELDS = {"cum": (24, ">I"), "base": (28, ">I"), "posted": (32, ">Q"), "credit": (40, ">I"),
          "delay_us": (44, ">I"), "ce": (48, ">I"), "come": (52, ">I"), "done": (56, ">I"),
          "dups": (60, ">I"), "wanted": (64, ">Q"), "bitmap": (80, ">Q")}


def works(ring, ops):
    """Is every sum right? None: one did not come in time, and there is no error."""
    for _ in range(ops):
        data = Data(COUNT)
        for r in range(N):
            ring.post(r, data)
        if not all([ring.collect(r, data) for r in range(N)]):
            return False
    return True


def verdict(ring, title, lie):
    """Tell the lie, and look what follows."""
    try:
        sent = lie(ring)
        ok = works(ring, OPS) if sent else False
        said = "right sums" if ok else "a wrong sum"
    except TimeoutError:
        ok, said = False, "it stands, without an error"
    except OSError as e:
        errors = [ring.error(r) for r in range(N)]
        ok, said = any(err for err, *_ in errors), f"{e.strerror}, {errors}"
    except LookupError as e:
        ok, said = False, str(e)
    note(f"{title}: {said}")
    return ok


def contribution(**change):
    """Rank 0's next chunk comes with other numbers before rank 0 sends it."""
    def lie(ring):
        data = Data(COUNT)
        ring.post(1, data)
        ring.post(2, data)
        p = next_packet(ring, data, OPS)
        fields = {k: getattr(p, k) + v & 0xffffffff for k, v in change.items()}
        live.inject(ring, [p.copy(**fields).frame()])
        ring.post(0, data)
        return all([ring.collect(r, data) for r in range(N)])
    return lie


def acknowledgment(field, value, add=True):
    """An ACK of rank 2 with another field"""
    at, form = FIELDS[field]

    def lie(ring):
        p = last(ring.sniff(), srank=2, drank=1, type=ACK)
        body = bytearray(p.payload)
        size = struct.calcsize(form)
        old = struct.unpack_from(form, body, at - 24)[0] if add else 0
        struct.pack_into(form, body, at - 24, (old + value) % (1 << 8 * size))
        live.inject(ring, [p.copy(payload=bytes(body)).frame()])
        return True
    return lie


LIES = [(f"seq +{d}, una +{u}", contribution(seq=d, una=u))
        for d, u in ((1, 0), (50, 0), (900, 0), (50, 50), (1, 1), (FAR, FAR), (-50, -50), (0, -50),
                     (-1, -1))]
LIES += [(f"ACK, {field} {value:+}", acknowledgment(field, value))
         for field, value in (("cum", 1), ("cum", 50), ("cum", FAR), ("cum", -50), ("base", 50),
                              ("posted", 1), ("posted", 64), ("posted", -1), ("come", 1),
                              ("done", 1), ("done", 64), ("done", -1), ("ce", 50), ("dups", 50),
                              ("delay_us", 1 << 30), ("wanted", 50))]
LIES += [(f"ACK, {field} = {value:#x}", acknowledgment(field, value, add=False))
         for field, value in (("credit", 0), ("credit", 0xffffffff), ("bitmap", 2**64 - 1),
                              ("posted", 2**64 - 1), ("wanted", 2**64 - 1))]


def between_two():
    """Numbers that were never sent, in the only link that there is"""
    tap = Ring.__new__(Ring)
    tap.listen()
    ranks, why = pair.pair("10.77.0.1", "10.77.0.2")
    tap.group = pair.group
    try:
        p = last(tap.sniff(), srank=0, drank=1, type=RS)
        far = {"seq": p.seq + FAR & 0xffffffff, "una": p.una + FAR & 0xffffffff}
        live.inject(tap, [p.copy(**far).frame()])
        ok = all([pair.add(ranks) for _ in range(OPS)])
        said = "right sums"
    except TimeoutError:
        ok, said = False, "it stands, without an error"
    except (OSError, TypeError, LookupError) as e:
        ok, said = isinstance(e, OSError), f"{why or e}"
    note(f"two ranks: {said}")
    pair.close(ranks or ())
    tap.tap.close()
    return ok


def main():
    for r in range(N):
        enter(f"rar{r}")
        sysctl("dead_ms", DEAD_MS)
    for title, lie in LIES:
        ring = Ring()
        works(ring, OPS)
        wait_quiet(ring)
        result(verdict(ring, title, lie), title)
        ring.close()
    result(between_two(), f"two ranks, seq +{FAR}, una +{FAR}")
    finish()


if __name__ == "__main__":
    main()
