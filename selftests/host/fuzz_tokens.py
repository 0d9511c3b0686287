#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""No mutant of fuzz_packets.py that should have a wrong token has one that a rank knows.

Packets made here take the place of those of a run. Among them are answers to mutants, which carry
each token of the run with one bit flipped. SEED=n repeats a run.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hostile"))
import fuzz_packets as fuzz     # noqa: E402
from rarpkt import ACK, AG, JOIN, PROPOSE, RS, VERSION, Packet    # noqa: E402
from tap import finish, get_seed, note, result    # noqa: E402

EPOCH, NONCE = 0x7b5c1d9a42e60f38, 0xc3a8f05e2b914d67
BESIDE = EPOCH ^ 1      # another rank's token, as near as can be
OLD = (NONCE ^ 2, 0x1111222233334444)
MUTANTS = 200           # of each packet
TOKEN_AT = 14 + 20 + 8 + 16     # of IPv4 without options


def packet(kind, token):
    data = dict.fromkeys(Packet.DATA, 0) if kind in (RS, AG) else {}
    return Packet(eth=bytes(12) + b"\x08\x00", src=bytes((10, 77, 0, 1)), version=VERSION, type=kind,
                  dst=bytes((10, 77, 0, 2)), sport=18118, dport=18118, srank=0, drank=1, group=5,
                  token=token, payload=bytes(200), **data)


def capture():
    """What a run shows. Returns also the answers that must be left out, and those that must not."""
    seen = fuzz.Seen()
    for token in OLD:
        seen.add(1, packet(PROPOSE, token), b"", 0)
    seen.forget()
    real = [packet(kind, token) for kind in (RS, AG, ACK, JOIN, PROPOSE)
            for token in (EPOCH, NONCE, BESIDE)] + [packet(JOIN, 0)]
    honest = [packet(kind, NONCE) for kind in fuzz.ANSWERS]
    forged = [packet(kind, token ^ 1 << bit) for kind in fuzz.ANSWERS
              for token in (EPOCH, NONCE) for bit in range(64)
              if token ^ 1 << bit != BESIDE]
    for p in real + honest + forged:
        seen.add(1, p, p.frame(), 0)
    return seen, honest, forged


def kept(seen):
    return [p for packets in seen.kept.values() for p, _, _ in packets]


def test_singles(seen):
    bad = total = 0
    for p in kept(seen):
        for _ in range(MUTANTS):
            for frame in fuzz.wrong_token(p.copy(), seen):
                token = int.from_bytes(frame[TOKEN_AT:TOKEN_AT + 8], "big")
                bad += token in (EPOCH, NONCE, BESIDE) or p.token == token
                total += 1
    note(f"{total} mutants, {bad} with a token that a rank knows")
    result(total and not bad, "single packets")


def test_supers(seen):
    bad = changed = 0
    for token in (EPOCH, NONCE, BESIDE):
        for _ in range(MUTANTS):
            segs, _ = fuzz.super_outsider([packet(RS, token) for _ in range(5)], 264, seen)
            others = [s.token for s in segs if s.token != token]
            changed += len(others)
            bad += len({EPOCH, NONCE, BESIDE}.intersection(others))
    note(f"{changed} tokens changed, {bad} to one that a rank knows")
    result(changed and not bad, "superpackets")


def main():
    fuzz.rng.seed(get_seed())
    seen, honest, forged = capture()
    found = {id(p) for p in kept(seen)}
    result(not any(id(p) in found for p in forged), "answers to mutants are left out")
    result(all(id(p) in found for p in honest), "other answers are kept")
    result(set(OLD) <= set(seen.old), "tokens of a run before are used")
    test_singles(seen)
    test_supers(seen)
    finish()


if __name__ == "__main__":
    print("TAP version 13", flush=True)
    main()
