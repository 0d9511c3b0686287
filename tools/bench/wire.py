# SPDX-License-Identifier: GPL-2.0
"""Wire mode, targets W1 to W4: nothing passes between ranks but packets that a network card could
carry. All contestants run in one boot, over devices of the same form.

nic: superpackets stay whole, as with a card that cuts and merges them itself (TSO, USO, GRO).
plain: the sender cuts them to the MTU, in software; the receiver merges packets by GRO.
xdp: plain, and the module's XDP program is on all devices. User-Mode Linux cannot load it, so this
   form is in an emulated kernel whose clock counts instructions.
"""
from contest import GOOD_ROUNDS, KIB, MIB, Case
from targets import BIG, RANKS, SAME, TCP, TIMED, Verdict, at, compare, note, where

PLACES = {"nic": TIMED, "plain": TIMED, "xdp": SAME}
FORMS = tuple(PLACES)
MTUS = {"nic": (1500, 9000), "plain": (1500, 9000), "xdp": (1500,)}
SIZES = {"nic": (BIG, 16 * MIB, MIB, 64 * KIB), "plain": (16 * MIB, MIB, 64 * KIB), "xdp": (MIB,)}
SEND_RECV, COPY = "rar-in-place", "rar-copy"
MODES = ("rar-blocking", "rar-registered", SEND_RECV, COPY)
PEERS = (*TCP, "tcp-halving")
# What would mean that something else than packets passed.
IN_MEMORY = ("RxLocal", "RxWhole")


def case_of(form, mtu, n, size, rounds):
    rounds = min(rounds, GOOD_ROUNDS) if PLACES[form] == SAME else rounds
    return Case(n, (size,), at(PLACES[form], *MODES, *PEERS), mtu=mtu, gso=form == "nic",
                rounds=rounds, form=form)


class Wire:
    """All cases, and the lines that each of them gives"""
    needs = {"nic": {BIG: 5.0, 16 * MIB: 5.0, MIB: 2.5, 64 * KIB: 2.0},
             "plain": {16 * MIB: 2.5, MIB: 1.5, 64 * KIB: 1.5},
             "xdp": {MIB: 2.5}}
    need_send_recv = {BIG: 4.0, 16 * MIB: 4.0, MIB: 2.0, 64 * KIB: 1.5}
    need_copy = {BIG: 2.0}
    names = {"nic": "W1", "plain": "W2", "xdp": "W3"}

    @staticmethod
    def cases(rounds, forms=None, mtus=None, ranks=None, sizes=None):
        """Those of the targets, or of a choice. The emulated ones come first: they take the same
        time on any day, and the others adapt to what is left.
        """
        return [case_of(form, mtu, n, size, rounds)
                for form in sorted(forms or FORMS, key=lambda f: PLACES[f] != SAME)
                for mtu in mtus or MTUS[form] for n in ranks or RANKS
                for size in sizes or SIZES[form]]

    @classmethod
    def verdicts(cls, result):
        form, size = result.case.form, result.case.size
        handed = cls.handed_over(result)
        if handed:
            return [Verdict(cls.names[form], where(result.case), None, cls.needs[form].get(size, 0),
                            f"({handed} got more than packets)")]
        lines = [(cls.names[form], MODES, cls.needs[form], cls.cost(result))]
        if form == "nic":
            lines += [("W1", (SEND_RECV,), cls.need_send_recv, "send+recv"),
                      ("W4", (COPY,), cls.need_copy, "copy")]
        return [compare(target, result, ours, PEERS, needs[size], extra=extra)
                for target, ours, needs, extra in lines if size in needs]

    @staticmethod
    def handed_over(result):
        """A mode whose ranks got chunks in memory or in shared pages"""
        return next((label for label, of in result.counts.items()
                     if any(of.get(name) for name in IN_MEMORY)), None)

    @staticmethod
    def cost(result):
        """Where each nanosecond is an instruction: what a MiB costs all ranks together"""
        best = [result.best(labels) for labels in (MODES, PEERS)]
        if result.case.form != "xdp" or not all(best):
            return ""
        million = [result.ns(label) / 1e6 / (result.case.size / MIB) for label in best]
        return note("instructions-per-MiB=" + "/".join(f"{m:.1f}M" for m in million))
