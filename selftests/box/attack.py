#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Attacks on a group with seals and its box, which has a key, by a host on the path between them: as
hostile/attack.py attacks the ring. It has neither key.

For each type of packet that a box or a member may get: packets that were changed, made up, repeated,
reflected, cut, or lost their seal, and packets of an older leg. Each is dropped and counted, the next
sum is right, and the box makes it. Then ranks without the key of the box, or with another one: the
group goes by the ring, and RAR_INFO says why.

The ranks are sockets of this process in the namespaces rar0 rar1 rar2, the box is in rar3
(lib/in_topo.sh 4).
"""
import collections
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

LIB = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(LIB / "lib"), str(LIB / "hostile")]
import attack
import live
from attack import Attacks, Sealed, attack_type, inject, of_type, past
from live import COUNT, N, RAR_INFO, Data, wait_quiet
from rarpkt import (ACK, AG, BOX_RANK, ENTER, ENTERED, OFFER, PROBE, RESET, RETURN, RS, SOL_RAR, WANT,
                    enter, sysctl, tables)
from seal import AUTH, ENCRYPT, TAIL, join_tag, tag_of
from tap import finish, get_seed, note, result

RAR_BOX, RAR_BOX_WAIT, RAR_BOX_KEY = 19, 22, 25
BOX_KEY = b"a key that a box has, 32 letters"
OTHER_KEY = BOX_KEY[::-1]
BOXES = 312             # of struct rar_info: struct rar_box_info, which begins with state and reason
NONE, AWAY, OPEN = range(3)
R_NONE, R_KEY, R_SECURITY = 0, 23, 28
EACH = {"uml": 2000, "uml-debug": 400, "uml-debug-smp": 400}.get(os.environ.get("RAR_KERNEL", ""), 40)
# What the box may get from members and others, and what members may get from it
TO_BOX = {"ENTER": ENTER, "RS": RS, "PROBE": PROBE, "RESET": RESET, "WANT": WANT, "RETURN": RETURN,
          "AG": AG, "ACK": ACK, "ENTERED": ENTERED, "OFFER": OFFER}
TO_RANK = {"ENTERED": ENTERED, "AG": AG, "ACK": ACK, "RS": RS, "RETURN": RETURN, "RESET": RESET,
           "OFFER": OFFER, "WANT": WANT, "PROBE": PROBE, "ENTER": ENTER}


def box_key(key):
    """Let the box have a key, or none."""
    enter("rar3")
    with tempfile.NamedTemporaryFile() as f:
        f.write(key or b"")
        f.flush()
        subprocess.run(["rarctl", "box", "key", f.name if key else "off"], check=True)


def counters():
    """What the box counts"""
    enter("rar3")
    return {name[3:]: value for name, value in tables("rar_netstat").items()}


class Star(Sealed):
    """A ring with seals, whose box is asked first. @attacked: who gets the packets of the attacks, the
    box or rank 1"""

    def __init__(self, attacked=BOX_RANK, group=None, keys=(BOX_KEY,) * N, wait=10000):
        self.keys, self.wait = keys, wait
        self.attacked, self.port = attacked, "p3" if attacked == BOX_RANK else "p1"
        super().__init__(group=group)

    def member(self, rank):
        """Begin to join."""
        options = self.options
        self.options = (*options, (RAR_BOX, live.sockaddr(3, 0)), (RAR_BOX_KEY, self.keys[rank]),
                        (RAR_BOX_WAIT, struct.pack("=I", self.wait)))
        s = super().member(rank)
        self.options = options
        return s

    def of_attacks(self, kind=None, own=False):
        """The packets between the box and the members for those who are attacked, or of them"""
        ends = [(r, BOX_RANK) if self.attacked == BOX_RANK else (BOX_RANK, 1) for r in range(N)]
        return [(below, rar) for below, rar in self.sniff() if kind in (None, rar[1]) and
                struct.unpack_from(">HH", rar, 2) in [end[::-1] if own else end for end in ends]]

    def dropped(self):
        if self.attacked != BOX_RANK:
            return super().dropped()
        return sum(v for k, v in counters().items() if k.startswith("Drop"))

    def accepted(self):
        return counters()["BoxTaken"] if self.attacked == BOX_RANK else super().accepted()

    def box(self, rank):
        """State of the box and the reason, as a rank says"""
        info = self.fd[rank].getsockopt(SOL_RAR, RAR_INFO, 1000)
        return struct.unpack_from("=II", info, BOXES)


class BoxAttacks(Attacks):
    """The same, where one end is a box"""

    of_join = (ENTER, ENTERED)

    def by_other_link(self, below, rar):
        """As if another member had sent it, or a rank"""
        src = struct.unpack_from(">H", rar, 2)[0]
        other = 0 if src == BOX_RANK else (src + 1) % N
        return below.copy(src=live.address(other)), rar[:2] + struct.pack(">H", other) + rar[4:]


def running(attacked, types):
    """Attacks on the packets of a group that runs"""
    group, older = past(Star(attacked), 4, Star.of_attacks)
    before, ring = counters(), Star(attacked, group)
    ring.works(4)
    time.sleep(1)           # PROBE, and ACK
    wait_quiet(ring)
    name = "the box gets" if attacked == BOX_RANK else "a member gets"
    for kind_name, kind in types.items():
        samples = ring.of_attacks(kind)
        if kind == ENTER and attacked == BOX_RANK:
            # without a cookie and without a seal, it is any stranger's first question
            samples = [(below, rar) for below, rar in samples if any(rar[40:48])]
        how = "seen" if samples else "made up"
        if not samples:
            template = ring.of_attacks(AG if attacked == 1 else RS)[-1]
            samples = [(template[0], of_type(template[1], kind)) for _ in range(50)]
        own = [p for p in ring.of_attacks(own=True) if p[1][1] not in BoxAttacks.of_join]
        old = [p for p in older if p[1][1] == kind]
        attack_type(ring, f"{name} {kind_name}, {how}", BoxAttacks(samples, own, old), EACH)
    lost = sum(ring.box(r)[0] != OPEN for r in range(N))
    sums = counters()["BoxSums"] - before["BoxSums"]
    note(f"chunks summed by the box: {sums}")
    result(not lost and sums > 20 * len(types), f"{name} them, and sums all the time")
    ring.close()


def entering():
    """Packets of an older leg, and changed ones, while the ranks enter"""
    group, old = past(Star(), 4, Star.of_attacks)
    ring = Star(group=group, wait=0)
    attacks = BoxAttacks(old)
    for _ in range(5):
        inject(ring, old[:100])
        inject(ring, attacks.make(100))
    end = time.monotonic() + 15
    while any(ring.box(r)[0] != OPEN for r in range(N)) and time.monotonic() < end:
        time.sleep(0.1)
    before = counters()["BoxSums"]
    result(ring.works(5) and counters()["BoxSums"] > before,
           "packets of an older leg and others while the ranks enter: the box opens, and sums")
    ring.close()


# ------------------------------------------------------------------ what the page says

def leg_key(ring, leg, src, dst):
    """The key of a direction of a leg, as Documentation/design/seal.rst says"""
    rank = min(src, dst)
    nonces = {rank: leg["nonce"][rank], BOX_RANK: leg["epoch"]}
    return hashlib.blake2s(struct.pack("<8sQQQQIIHHI", b"rar leg", ring.group, leg["group"],
                                       nonces[src], nonces[dst], N, attack.level, src, dst, 0),
                           key=BOX_KEY).digest()


def published():
    """Make the tags of packets that were sent, at both ends of the legs."""
    ring = Star()
    data = Data(COUNT)
    ring.allreduce(data)
    wait_quiet(ring)
    legs = [(below, rar) for below, rar in ring.sniff()
            if BOX_RANK in struct.unpack_from(">HH", rar, 2)]
    leg = {"nonce": {}}
    for _, rar in legs:
        if rar[1] == ENTERED:
            nonce, _, epoch = struct.unpack_from(">QQQ", rar, 24)
            leg["nonce"][struct.unpack_from(">H", rar, 4)[0]] = nonce
            leg["epoch"] = epoch or leg.get("epoch")
            leg["group"] = struct.unpack_from(">Q", rar, 16)[0]
    enter_key = hashlib.blake2s(b"rar box\0" + bytes(8), key=BOX_KEY).digest()
    good, counters_of = collections.defaultdict(list), collections.defaultdict(list)
    for below, rar in legs:
        src, dst = struct.unpack_from(">HH", rar, 2)
        counter = struct.unpack_from(">Q", rar, len(rar) - 8)[0]
        if rar[1] in (ENTER, ENTERED):
            want = join_tag(enter_key, below, rar[:-TAIL])
        else:
            want = tag_of(leg_key(ring, leg, src, dst), counter, rar[:-TAIL], attack.level)
            counters_of[src, dst].append(counter)
        good[rar[1]].append(want == rar[-TAIL:-8])
    note(f"types and tags: { {k: f'{sum(v)} of {len(v)}' for k, v in good.items()} }")
    result({ENTER, ENTERED, RS, AG} <= good.keys() and all(all(v) for v in good.values()),
           "the tags on a leg are those that the page describes")
    result(all(len(v) == len(set(v)) for v in counters_of.values()), "no counter is used twice")
    plain = data.x[0].tobytes()[:1024], data.sum[:1024]
    there = [any(part in rar for _, rar in legs) for part in plain]
    result(there == [attack.level == AUTH] * 2,
           f"elements can {'be' if attack.level == AUTH else 'not be'} read on a leg")
    ring.close()


# ------------------------------------------------------------------ ranks that differ

def differs(name, keys, states, reasons, there=BOX_KEY):
    """A rank, or the box (@there), has another key or none: all goes by the ring, and the ranks say
    why."""
    box_key(there)
    before = counters()["BoxSums"]
    ring = Star(keys=keys, wait=1000)
    ok = ring.works(3)
    end = time.monotonic() + 5
    while time.monotonic() < end and tuple(ring.box(r) for r in range(N)) != tuple(zip(states, reasons)):
        time.sleep(0.1)
    said = [ring.box(r) for r in range(N)]
    note(f"{name}: {said}")
    result(ok and ring.works(2) and said == list(zip(states, reasons)) and
           counters()["BoxSums"] == before, name)
    ring.close()
    box_key(BOX_KEY)


def later():
    """The box has another key at first, and then the right one."""
    box_key(OTHER_KEY)
    ring = Star(wait=0)
    ok = ring.works(2)
    time.sleep(0.5)
    before = [ring.box(r) for r in range(N)]
    box_key(BOX_KEY)
    end = time.monotonic() + 10
    while any(ring.box(r) != (OPEN, R_NONE) for r in range(N)) and time.monotonic() < end:
        time.sleep(0.1)
    had = counters()["BoxSums"]
    result(before == [(AWAY, R_KEY)] * N and ok and ring.works(3) and counters()["BoxSums"] > had,
           "the box gets the right key while the group runs: it opens, and sums")
    box_key(None)
    end = time.monotonic() + 10
    while any(ring.box(r) != (AWAY, R_SECURITY) for r in range(N)) and time.monotonic() < end:
        time.sleep(0.1)
    said = [ring.box(r) for r in range(N)]
    note(f"without a key: {said}")
    result(said == [(AWAY, R_SECURITY)] * N and ring.works(3), "it loses its key: the ring goes on")
    ring.close()
    box_key(BOX_KEY)


def main():
    live.rng.seed(get_seed())
    for r in range(N):
        enter(f"rar{r}")
        sysctl("dead_ms", 3000)
    enter("rar3")
    sysctl("box_mem", 64 << 20)
    box_key(BOX_KEY)
    for attack.level in (AUTH, ENCRYPT):
        note("auth" if attack.level == AUTH else "encrypt")
        published()
        running(BOX_RANK, TO_BOX)
        running(1, TO_RANK)
        entering()
    all_away, last = (AWAY,) * N, (BOX_KEY, BOX_KEY)
    differs("a box with another key", (BOX_KEY,) * N, all_away, (R_KEY,) * N, OTHER_KEY)
    differs("a box with a shorter key", (BOX_KEY,) * N, all_away, (R_KEY,) * N, BOX_KEY[:16])
    differs("a box without a key", (BOX_KEY,) * N, all_away, (R_SECURITY,) * N, None)
    differs("rank 2 without a key", (*last, b""), all_away, (R_NONE, R_NONE, R_KEY))
    differs("rank 2 with another key", (*last, OTHER_KEY), all_away, (R_NONE, R_NONE, R_KEY))
    differs("rank 0 without a key", (b"", *last), (NONE,) * N, (R_KEY, R_NONE, R_NONE))
    differs("no rank has a key", (b"",) * N, (NONE,) * N, (R_KEY,) * N)
    later()
    finish()


if __name__ == "__main__":
    main()
