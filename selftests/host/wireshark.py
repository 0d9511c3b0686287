#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The dissector tools/wireshark/rar.lua, run by tshark on packets made here.

Its names, flags and layouts are compared with the headers in include/uapi/linux, so a packet
type, a field or a name that is only in the header is found. Random packets must not make the
dissector fail. SEED=n repeats a run.
"""
import errno
import pathlib
import random
import re
import shutil
import struct
import sys
import tempfile
import xml.etree.ElementTree as ET

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "selftests/lib"), str(TOP / "scripts/lib")]
sys.dont_write_bytecode = True
from dissector import tshark                     # noqa: E402
from facts import declarations                   # noqa: E402
from rarpkt import (ABORT, ACK, AG, COLLECT, COMMIT, DIRECT, DONE, ENTER, ENTERED, FIN, FIN_ACK,
                    JOIN, JOIN_ACK, LATE, OFFER, PAIR, PAIR_ACK, PEER_ACK, PROBE, PROPOSE, RAIL,
                    REJECT, RESET, RETURN, RS, VERSION, WANT, Packet)    # noqa: E402
from tap import finish, get_seed, note, result, skip_all   # noqa: E402

UAPI = TOP / "include/uapi/linux"
PORT = 18118
STRUCTS = {RS: "data", AG: "data", ACK: "ack", PROBE: "probe", JOIN: "join", JOIN_ACK: "join",
           REJECT: "reject", COLLECT: "table", PROPOSE: "table", COMMIT: "table",
           ABORT: "notice", FIN: "notice", FIN_ACK: "notice", LATE: "notice", RESET: None,
           DIRECT: "data", DONE: "done", PAIR: "pair", PAIR_ACK: "pair",
           WANT: "chunks", RETURN: "chunks", ENTER: "enter", ENTERED: "entered",
           OFFER: "offer", PEER_ACK: "ack", RAIL: "rail"}
# Fields that have another length in another structure.
ODD = {("chunks", "first"), ("enter", "size"), ("rail", "n"), ("rail", "addr")}
TF_BOX = 8
FAILURES = (ABORT, REJECT, RESET)
FUZZ = 1000
rng = random.Random()


# ------------------------------------------------------------------ the headers

def header_text():
    """Return both headers without comments."""
    text = (UAPI / "rar_wire.h").read_text() + (UAPI / "rar.h").read_text()
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def enum(text, prefix, name):
    """Return {value: constant without its prefix} of an enum, without its last, *_NR."""
    value, out = -1, {}
    for row in re.search(rf"enum {name} \{{(.*?)\}}", text, re.S)[1].split(","):
        words = row.replace("=", " ").split()
        if words:
            value = int(words[1]) if len(words) > 1 else value + 1
            out[value] = words[0].removeprefix(prefix)
    return {v: word for v, word in out.items() if not word.endswith("NR")}


def flags(text, *prefixes):
    """Return {name in lower case: bit} of the macros with one of these prefixes."""
    return {name.lower(): int(bit, 16) for prefix in prefixes for name, bit in
            re.findall(rf"#define {prefix}(\w+)\s+(0x\w+)", text)}


def rows_of(body, which):
    """Yield the rows of a structure. Of a union: the one that is named in @which, or the first."""
    for row in declarations(body):
        inner = row[row.find("{") + 1:row.rfind("}")]
        if row.startswith("union"):
            rows = list(declarations(inner))
            row = next((r for r in rows if set(which) & set(re.findall(r"\w+", r))), rows[0])
            yield from rows_of(row + ";", which)
        elif row.startswith("struct {"):
            yield from rows_of(inner, which)
        else:
            yield row


def fields_of(text, name, which=()):
    """Yield name and bytes of each field of a structure; nested structures are opened."""
    sizes = {"__u8": 1, "__be16": 2, "__be32": 4, "__be64": 8, "__le64": 8}
    for row in rows_of(re.search(rf"struct {name} \{{(.*?)\n\}}", text, re.S)[1], which):
        kind, field, _, times = re.fullmatch(r"(?:struct )?(\w+)\s+(\w+)(\[(\d+)\])?", row).groups()
        if kind in sizes:
            yield field, sizes[kind] * int(times or 1)
        elif field != "h":
            yield from ((f"{field}.{inner}", size) for inner, size in fields_of(text, kind))


def layout(text, struct_name, prefix, at, which=()):
    """Return [(name in Wireshark, offset, bytes)] of a structure that begins at @at."""
    out = []
    for field, size in fields_of(text, struct_name, which):
        if field == "flags" or (prefix, field) in ODD or prefix in ("member", "box"):
            field = f"{prefix}.{field}"
        if not field.split(".")[-1].startswith("__"):
            out.append((f"rar.{field}", at, size))
        at += size
    return out


# ------------------------------------------------------------------ tshark

def dissect(frames, cuts=None):
    """Return the frames as tshark sees them, elements of PDML; none if the dissector failed.
    The capture holds cuts[i] bytes of frame i.
    """
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i, frame in enumerate(frames):
            part = frame[:cuts[i]] if cuts else frame
            file.write(struct.pack("=IIII", i, 0, len(part), len(frame)) + part)
        file.flush()
        out, complaints, bad = tshark("-T", "pdml", capture=file.name)
    if bad or complaints:
        note("\n".join(complaints[:10] + [f"tshark: status {bad}"]))
        return []
    packets = list(ET.fromstring(out))
    return [] if "Lua Error" in out or len(packets) != len(frames) else packets


def rar_of(packet):
    """Return the tree of the dissector, or None."""
    return next((proto for proto in packet if proto.get("name") == "rar"), None)


def shown(tree):
    """Return {(name, offset, bytes): value in hex} of the fields of a dissected packet."""
    start = int(tree.get("pos"))
    return {(field.get("name"), int(field.get("pos")) - start, int(field.get("size"))):
            field.get("value") for field in tree.iter("field")
            if field.get("name").startswith("rar.")}


def experts(packet):
    """Return the names of the marks of a packet, without "rar."."""
    return {field.get("name")[4:] for field in packet.iter("field")
            if re.fullmatch(r"rar\.(malformed|failure|died|other_version|cut)",
                            field.get("name"))}


# ------------------------------------------------------------------ packets

def packet(kind, body=b"", v6=False, **more):
    """Return a packet of a type with a body after the common header."""
    src, dst = (bytes([0xfd] + [0] * 14 + [n]) if v6 else bytes([10, 77, 0, n])
                for n in (1, 2))
    eth = bytes(12) + (b"\x86\xdd" if v6 else b"\x08\x00")
    fields = {"eth": eth, "src": src, "dst": dst, "sport": PORT, "dport": PORT,
              "version": VERSION, "type": kind, "srank": 1, "drank": 2, "group": 0xabcdef0123456789,
              "token": 0x0123456789abcdef, "payload": body}
    return Packet(**{**fields, **more})


def chunk(kind=RS, seq=7, number=3, length=1000, **more):
    """Return an RS or AG packet by its fields."""
    fields = {"seq": seq, "una": 5, "op": 1 << 40, "count": 10000, "chunk": number,
              "mode": 0, "root": 0, "collective": 1, "dtype": 1, "redop": 1, "flags": 0, "prio": 9,
              "chunks": 0, "ranks": 0, "payload": rng.randbytes(length)}
    return packet(kind, **{**fields, **more})


def superpacket(chunks):
    """Return the frame that a capture at the sender shows."""
    return chunks[0].frame(udp_of(b"".join(part.rar() for part in chunks)))


def udp_of(rar, port=PORT):
    """Return a UDP datagram."""
    return struct.pack(">HHHH", port, port, 8 + len(rar), 0) + rar


KNOWN = {"rar.box.af": (4, 4), "rar.table.flags": (0, 1), "rar.collective": (1, 7),
         "rar.dtype": (1, 12), "rar.redop": (1, 11), "rar.reason": (0, 26), "rar.member.af": (4, 4)}


def random_body(rows, end):
    """Return bytes up to @end in which the fields with names have known values."""
    body = bytearray(rng.randbytes(end - 24))
    for name, at, size in rows:
        if name in KNOWN and at + size <= end:
            value = rng.randint(*KNOWN[name])
            body[at - 24:at - 24 + size] = value.to_bytes(size, "big")
    return body


def body_of(text, kind):
    """Return a body for a type, and the fields that tshark should show of it."""
    if kind == RESET:
        return b"", []
    rows = layout(text, f"rar_{STRUCTS[kind]}_hdr", STRUCTS[kind], 24,
                  ("complete", "base") if kind == DIRECT else ())
    end = 24 + sum(size for _, size in fields_of(text, f"rar_{STRUCTS[kind]}_hdr"))
    body = random_body(rows, end)
    if kind == DIRECT and body[28] >> 4 == 4:       # by halving it has numbers
        rows = layout(text, "rar_data_hdr", "data", 24)
    if STRUCTS[kind] == "table":
        members = 0 if kind == COMMIT else 3
        at = next(at for name, at, _ in rows if name == "rar.n")
        body[at - 24:at - 22] = members.to_bytes(2, "big")
        for _ in range(members):
            more = layout(text, "rar_wire_member", "member", end)
            body += random_body([(n, a - end + 24, s) for n, a, s in more], 24 + 32)
            rows += more
            end += 32
        if kind == PROPOSE:
            at = next(at for name, at, _ in rows if name == "rar.table.flags")
            body[at - 24:at - 22] = TF_BOX.to_bytes(2, "big")
            for _ in range(rng.randint(1, 4)):
                more = layout(text, "rar_wire_box", "box", end)
                body += random_body([(n, a - end + 24, s) for n, a, s in more], 24 + 24)
                rows += more
                end += 24
    elif STRUCTS[kind] == "data":
        body += rng.randbytes(32)
    elif kind == JOIN:
        body += bytes(900)
    return bytes(body), rows


# ------------------------------------------------------------------ the tests

def check_names(text):
    """Names of values, and bits of flags, are those of the headers."""
    values, _, _ = tshark("-G", "values")
    listed = {}
    for name, value, word in re.findall(r"^V\trar\.(\S+)\t(\d+)\t(.*)$", values, re.M):
        listed.setdefault(name, {})[int(value)] = word
    wants = {"type": enum(text, "RAR_T_", "rar_pkt_type")}
    for name, prefix in (("collective", "RAR_"), ("dtype", "RAR_"), ("redop", "RAR_"),
                         ("reason", "RAR_R_")):
        wants[name] = {value: word.lower() for value, word in
                       enum(text, prefix, f"rar_{name}").items()}
    wants["err"] = {getattr(errno, word, 0): word for word in listed["err"].values()}
    for name, want in wants.items():
        for value in want.keys() ^ listed[name].keys():
            note(f"{name} {value}: header {want.get(value)}, dissector "
                 f"{listed[name].get(value)}")
        result(listed[name] == want, f"names of {name} as in the headers")
    result(set(wants["type"]) == set(STRUCTS), "this test knows all packet types")
    shown_fields, _, _ = tshark("-G", "fields")
    for name, prefixes in (("mode", ("RAR_MODE_", "RAR_OPF_")), ("data.flags", ("RAR_F_",)),
                           ("join.flags", ("RAR_JF_",)), ("done.flags", ("RAR_DF_",)),
                           ("table.flags", ("RAR_TF_",)), ("member.payload", ("RAR_WM_",))):
        got = {word: int(bit, 16) for word, bit in re.findall(
            rf"\trar\.{re.escape(name)}\.(\w+)\t.*\t(0x\w+)\t*$", shown_fields, re.M)}
        result(got == flags(text, *prefixes) and got, f"bits of {name} as in the headers")


def check_fields(text):
    """All fields of each type are shown at their place."""
    names = enum(text, "RAR_T_", "rar_pkt_type")
    cases = [(kind, v6, *body_of(text, kind)) for kind in STRUCTS for v6 in (False, True)]
    packets = [packet(kind, body, v6) for kind, v6, body, _ in cases]
    seen = dissect([p.frame() for p in packets])
    result(len(seen) == len(cases), "one packet of each type")
    for tree, p, (kind, v6, _, rows) in zip(seen, packets, cases):
        rows = layout(text, "rar_hdr", "h", 0) + rows
        got = shown(rar_of(tree)) if rar_of(tree) is not None else {}
        missing = [row for row in rows if got.get(row) != p.rar()[row[1]:row[1] + row[2]].hex()]
        note("\n".join(f"not shown, or wrong: {row}" for row in missing))
        marks, want = experts(tree) - {"died"}, {"failure"} if kind in FAILURES else set()
        note(f"marked {marks}, not {want}" if marks != want else "")
        result(not missing and marks == want,
               f"{names[kind]}, IPv{6 if v6 else 4}: {len(rows)} fields")


def check_chunks():
    """Each chunk of a superpacket is shown."""
    chunks = [chunk(seq=(2 ** 32 - 2 + i) % 2 ** 32, number=3 + i, flags=i == 4,
                    length=1000 if i < 4 else 700) for i in range(5)]
    seen = dissect([superpacket(chunks), superpacket(chunks[:4]), superpacket(chunks[::2]),
                    superpacket(chunks[:2] + chunks[4:] + chunks[2:3]), chunks[0].frame()])
    trees = [rar_of(p) for p in seen]
    if not trees:
        return result(False, "superpackets")
    numbers = [sorted(int(f.get("show")) for f in tree.iter("field")
                      if f.get("name") == "rar.chunk") for tree in trees]
    note(f"chunks {numbers}, marks {[experts(p) for p in seen]}")
    result(numbers[0] == [3, 4, 5, 6, 7] and numbers[1] == [3, 4, 5, 6] and numbers[4] == [3],
           "superpackets: all chunks")
    result([("malformed" in experts(p)) for p in seen] == [False, False, True, True, False],
           "superpackets: headers that do not follow from the first are marked")


def check_malformed(text):
    """Malformed packets are marked, good packets that are cut by the capture are not."""
    whole = {kind: packet(kind, body_of(text, kind)[0]) for kind in STRUCTS}
    short = [p.copy(payload=p.payload[:12]) for kind, p in whole.items() if kind != RESET]
    bad = {
        "too short": short + [packet(AG)],
        "length field": [p.copy(len_extra=n) for kind, p in whole.items()
                         for n in (1, -1) if kind not in (RS, AG) and len(p.payload) + n >= 0],
        "unknown type": [packet(7, bytes(40)), packet(99, bytes(40))],
        "half a header": [packet(RS, raw=whole[RS].rar()[:n]) for n in (1, 8, 23)],
        "unknown operation": [chunk(collective=9), chunk(dtype=200), chunk(redop=12)],
        "members": [whole[COLLECT].copy(payload=whole[COLLECT].payload[:-32]),
                    whole[PROPOSE].copy(payload=whole[PROPOSE].payload + bytes(32))],
        "unknown reason": [packet(ABORT, struct.pack(">IIIIQII16x", 1, 99, 0, 0, 0, 0, 0))],
    }
    seen = dissect([p.frame() for packets in bad.values() for p in packets])
    for name, packets in bad.items():
        part, seen = seen[:len(packets)], seen[len(packets):]
        result(part and all("malformed" in experts(p) for p in part),
               f"marked as malformed: {name}")
    cuts = [cut for cut in (43, 50, 60, 70, 100, 170) for _ in whole]
    seen = dissect([p.frame() for p in whole.values()] * 6, cuts)
    result(seen and not any("malformed" in experts(p) for p in seen),
           "packets cut by the capture are not marked as malformed")


def check_tables(text):
    """What the list of packets says of tables: COMMIT has no members."""
    seen = dissect([packet(kind, body_of(text, kind)[0]).frame() for kind in (COMMIT, PROPOSE)])
    lines = [field.get("showname") for p in seen for field in [rar_of(p)]]
    note(str(lines))
    result(len(lines) == 2 and " payload " in lines[0] and "members" not in lines[0] and
           "3 members from rank" in lines[1], "COMMIT has no members, PROPOSE has")


def check_recognised():
    """AF_RAR on any port, and nothing else."""
    near = chunk(sport=41000, dport=42000)
    chunks = [chunk(seq=i, number=i, sport=41000, dport=42000) for i in range(3)]
    frames = [near.frame(), chunks[0].frame(struct.pack(">HHHH", 41000, 42000, 8 + 3 * 1064, 0) +
                                            b"".join(part.rar() for part in chunks)),
              near.copy(version=0xa3).frame(), near.copy(len_extra=5).frame(),
              near.copy(type=99).frame(), near.copy(raw=b"GET / HTTP/1.0" + bytes(60)).frame(),
              chunk(raw=b"GET / HTTP/1.0" + bytes(60)).frame(), chunk(version=0xa3).frame()]
    seen = dissect(frames)
    got = [rar_of(p) is not None for p in seen]
    note(f"recognised: {got}")
    result(got == [True, True, False, False, False, False, False, True],
           "recognised on any port, and nothing else")
    result(seen and "other_version" in experts(seen[-1]), "another version is marked")


def mutant(frames):
    """Return a frame with a few wrong bytes, too many bytes, or too few."""
    frame = bytearray(rng.choice(frames))
    for _ in range(rng.choice((0, 1, 1, 2, 5, 30))):
        frame[rng.randrange(42, len(frame))] = rng.choice((0, 1, 255, rng.randrange(256)))
    size = rng.choice((len(frame), len(frame), rng.randrange(43, len(frame) + 1)))
    frame = frame[:size] + rng.randbytes(rng.choice((0, 0, 0, 1, 40, 300)))
    struct.pack_into(">H", frame, 16, len(frame) - 14)
    struct.pack_into(">H", frame, 38, len(frame) - 34)
    return bytes(frame)


def check_fuzz(text):
    """Whatever a packet holds, the dissector does not fail."""
    frames = [packet(kind, body_of(text, kind)[0]).frame() for kind in STRUCTS]
    frames += [superpacket([chunk(seq=i, number=i, length=64) for i in range(6)])] * 3
    cuts = [rng.choice((65535, rng.randrange(42, 200))) for _ in range(FUZZ)]
    seen = dissect([mutant(frames) for _ in range(FUZZ)], cuts)
    note(f"{sum('malformed' in experts(p) for p in seen)} of {len(seen)} are malformed")
    result(len(seen) == FUZZ, f"{FUZZ} mutants")


def main():
    if not shutil.which("tshark"):
        skip_all("no tshark; scripts/deps test installs it")
    rng.seed(get_seed())
    text = header_text()
    port = re.search(r"#define RAR_DEFAULT_PORT (\d+)", text)[1]
    result(int(port) == PORT, "the port as in the headers")
    check_names(text)
    check_fields(text)
    check_chunks()
    check_malformed(text)
    check_tables(text)
    check_recognised()
    check_fuzz(text)
    finish()


main()
