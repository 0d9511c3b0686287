# SPDX-License-Identifier: GPL-2.0
"""Seals as Documentation/design/seal.rst describes them: ChaCha20-Poly1305 by RFC 8439, and keys."""
import hashlib
import struct

from rarpkt import AG, DIRECT, RS

AUTH, ENCRYPT = 1, 2
TAIL = 24               # bytes: struct rar_seal_tail


# ------------------------------------------------------------------ the cipher

def chacha_block(key, counter, nonce):
    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) +
                               nonce))
    x = list(state)

    def quarter(a, b, c, d):
        for p, q, r, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & 0xffffffff
            v = x[r] ^ x[p]
            x[r] = (v << shift | v >> 32 - shift) & 0xffffffff

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xffffffff for a, b in zip(x, state)))


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0ffffffc0ffffffc0ffffffc0fffffff
    total = 0
    for i in range(0, len(data), 16):
        total = (total + int.from_bytes(data[i:i + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:32], "little")) % 2**128).to_bytes(16, "little")


# ------------------------------------------------------------------ seals

def tag_of(key, counter, packet, level=AUTH):
    """The tag over a packet: all of it is associated data, or its elements are encrypted"""
    clear = 64 if level == ENCRYPT and packet[1] in (RS, AG, DIRECT) else len(packet)
    head, rest = packet[:clear], packet[clear:]
    one_time = chacha_block(key, 0, bytes(4) + struct.pack("<Q", counter))[:32]
    return poly1305(one_time, head + bytes(-len(head) % 16) + rest + bytes(-len(rest) % 16) +
                    struct.pack("<QQ", len(head), len(rest)))


def join_key(secret, group):
    """The key of the packets of a join"""
    return hashlib.blake2s(b"rar join" + struct.pack("<Q", group), key=secret).digest()


def join_tag(key, below, packet):
    """The tag of a packet of a join; @below has its addresses and ports"""
    ends = struct.pack(">16s16sHH", below.src, below.dst, below.sport, below.dport)
    return hashlib.blake2s(hashlib.blake2s(packet, key=key).digest() + ends, key=key,
                           digest_size=16).digest()


def key_of(secret, group, epoch, nonces, src, dst, level=AUTH):
    """The key of a direction of an epoch; @nonces: of all ranks"""
    return hashlib.blake2s(struct.pack("<8sQQQQIIHHI", b"rar dir", group, epoch, nonces[src],
                                       nonces[dst], len(nonces), level, src, dst, 0),
                           key=secret).digest()
