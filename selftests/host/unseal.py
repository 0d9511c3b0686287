#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tools/wireshark/rar_unseal on captures made here, with the seals of selftests/lib/seal.py,
which knows the cipher and the keys by itself. tshark reads what the program writes.

SEED=n repeats a run.
"""
import importlib.util
import pathlib
import random
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "selftests/lib"))
sys.dont_write_bytecode = True
from dissector import tshark, unseal                # noqa: E402
from live import KEY                                # noqa: E402
from rarpkt import (ABORT, ACK, AG, DIRECT, JOIN, PROPOSE, RESET, RS, VERSION,
                    Packet)                         # noqa: E402
from seal import (AUTH, ENCRYPT, chacha_block, join_key, join_tag, key_of,
                  tag_of)                           # noqa: E402
from tap import finish, get_seed, note, result, skip_all    # noqa: E402

# Groups: two with seals, one without, one without a join, and one of 31 ranks.
GROUP, OTHER, PLAIN, LATE, LARGE = 42, 43, 44, 45, 46
FIELDS = ("frame.time_epoch", "rar.data", "rar.seal.verdict", "rar.not_authentic",
          "rar.malformed", "_ws.lua.error")
FUZZ = 3000
rng = random.Random()
secret = KEY            # of the groups


# ------------------------------------------------------------------ packets

def below(src=0, dst=1, v6=False, **more):
    """Return a packet between two ranks, with nothing in it yet."""
    ends = {name: bytes([0xfd] + [0] * 14 + [rank + 1]) if v6 else bytes([10, 77, 0, rank + 1])
            for name, rank in (("src", src), ("dst", dst))}
    return Packet(**{**ends, "eth": bytes(12) + (b"\x86\xdd" if v6 else b"\x08\x00"),
                     "sport": 18118, "dport": 18118, "version": VERSION, "srank": src,
                     "drank": dst, "group": GROUP, "token": 1, **more})


def of_join(packet, kind, body):
    """Return the bytes of a packet of a join."""
    rar = packet.copy(type=kind, payload=body).rar()
    return rar + join_tag(join_key(secret, packet.group), packet, rar) + bytes(8)


def proposal(packet, nonces, first=0, members=None, drawn=7):
    """Return a PROPOSE with some members of a table."""
    members = len(nonces) if members is None else members
    body = struct.pack(">QQ22xHH86x", drawn, 99, first, members)
    rows = [struct.pack(">Q24x", nonce) for nonce in nonces[first:first + members]]
    return of_join(packet, PROPOSE, body + b"".join(rows))


def stream(key, counter, size):
    """Return the first bytes with which ChaCha20 encrypts."""
    nonce = bytes(4) + struct.pack("<Q", counter)
    return b"".join(chacha_block(key, 1 + n, nonce) for n in range(size // 64 + 1))[:size]


class Epoch:
    """An epoch of a group, and the packets in it"""

    def __init__(self, nonces, level=ENCRYPT, group=GROUP):
        self.nonces, self.level, self.group = nonces, level, group
        self.epoch, self.counter = rng.getrandbits(64), 0

    def key(self, src, dst):
        """Return the key of a direction."""
        return key_of(secret, self.group, self.epoch, self.nonces, src, dst, self.level)

    def packet(self, kind, body, src=0, dst=1):
        """Return the bytes of a packet."""
        key = self.key(src, dst)
        self.counter += 1
        rar = below(src, dst, type=kind, payload=body, group=self.group, token=self.epoch).rar()
        if self.level == ENCRYPT and kind in (RS, AG, DIRECT):
            hidden = stream(key, self.counter, len(rar) - 64)
            rar = rar[:64] + bytes(a ^ b for a, b in zip(rar[64:], hidden))
        return rar + tag_of(key, self.counter, rar, self.level) + struct.pack(">Q", self.counter)

    def chunk(self, elements, seq=0, kind=RS, **ranks):
        """Return the bytes of a packet with elements."""
        head = struct.pack(Packet.DATA_HEAD, seq, 0, 5, 10000, seq, 0, 0, 1, 1, 1, 0, 0, 0, 0)
        return self.packet(kind, head + elements, **ranks)


def flipped(rar, at):
    """Return bytes with one bit changed."""
    return rar[:at] + bytes([rar[at] ^ 1]) + rar[at + 1:]


# ------------------------------------------------------------------ captures

class Capture:
    """Frames, and what the program should say of each"""

    def __init__(self):
        self.frames, self.cuts, self.wants, self.shown = [], [], [], []
        self.datas, self.groups = [], []

    def add(self, packet, rar, *verdicts, data=(), cut=None, vlan=False, shown=1):
        """Add a frame with some bytes of AF_RAR. @data: elements that tshark should show. @shown:
        how often it should show a verdict."""
        frame = packet.copy(raw=rar).frame()
        if vlan:
            frame = frame[:12] + b"\x81\x00\x00\x05" + frame[12:]
        self.frames.append(frame)
        self.groups.append(struct.unpack_from(">Q", rar, 8)[0])
        self.cuts.append(cut or len(frame))
        self.wants.append(",".join(verdicts))
        self.shown.append(",".join(verdicts * shown))
        self.datas.append(",".join(part.hex() for part in data))

    def file(self, magic="=I", unit=0xa1b2c3d4, link=1, change=lambda frame: frame):
        """Return the capture as bytes."""
        order = magic[0]
        out = struct.pack(f"{order}IHHiIII", unit, 2, 4, 0, 0, 65535, link)
        for i, (frame, cut) in enumerate(zip(self.frames, self.cuts)):
            lost = len(frame) - cut
            frame = change(frame)
            part = frame[:len(frame) - lost]
            out += struct.pack(f"{order}IIII", i, 5, len(part), len(frame)) + part
        return out


def ring(capture, v6=False):
    """Add the packets of groups with seals and others."""
    path = below(v6=v6)
    elements = [rng.randbytes(size) for size in (1000, 1000, 300)]
    first = Epoch([rng.getrandbits(64) for _ in range(3)])
    again = Epoch([rng.getrandbits(64) for _ in range(3)])
    other = Epoch(first.nonces, AUTH, OTHER)
    capture.add(path, of_join(path, JOIN, bytes(900)), "opened")
    capture.add(path, proposal(path, first.nonces), "opened")
    capture.add(path, first.chunk(elements[0]), "opened", data=elements[:1])
    capture.add(path, b"".join(first.chunk(e, i, AG) for i, e in enumerate(elements)),
                *["opened"] * 3, data=elements)
    capture.add(path, first.packet(ACK, bytes(88)), "opened")
    capture.add(path, first.chunk(b""), "opened")
    capture.add(path, first.packet(ABORT, bytes(48)), "opened")
    capture.add(path, of_join(path, ABORT, bytes(48)), "opened")
    capture.add(path, of_join(path, RESET, b""), "opened")
    back = below(2, 1, v6)
    capture.add(back, first.chunk(elements[1], src=2, dst=1), "opened", data=elements[1:2],
                vlan=True)
    capture.add(path, proposal(path, again.nonces, drawn=8), "opened")
    capture.add(path, again.chunk(elements[2], kind=DIRECT), "opened", data=elements[2:])
    member = below(v6=v6, group=OTHER)
    capture.add(member, proposal(member, other.nonces), "opened")
    capture.add(member, other.chunk(elements[0]), "opened", data=elements[:1])
    bad(capture, path, first, elements)


def bad(capture, path, epoch, elements):
    """Add what cannot be opened, and what has no seal."""
    one = epoch.chunk(elements[0])
    capture.add(path, flipped(one, 80), "not authentic", data=[flipped(one, 80)[64:-24]])
    capture.add(path, flipped(one, 30), "not authentic", data=[one[64:-24]])
    capture.add(path, flipped(one, len(one) - 1), "not authentic", data=[one[64:-24]])
    capture.add(path, flipped(one, 6), "not authentic", data=[one[64:]])
    capture.add(path, one[:-24], "not authentic", data=[one[64:-24]])
    # tshark takes it for a superpacket
    capture.add(path, one + bytes(8), "not authentic", data=[one[64:-24]], shown=2)
    join = of_join(path, JOIN, bytes(900))
    capture.add(path, flipped(join, 100), "not authentic")
    capture.add(path, flipped(join, len(join) - 1), "not authentic")
    capture.add(below(v6=path.v6, sport=4711), join, "not authentic")
    parts = [epoch.chunk(e, i) for i, e in enumerate(elements)]
    capture.add(path, parts[0] + flipped(parts[1], 64) + parts[2], "opened", "not authentic",
                "opened", data=[elements[0], flipped(parts[1], 64)[64:-24], elements[2]])
    capture.add(path, one, "cut", data=[one[64:164]], cut=len(path.copy(raw=b"").frame()) + 164)
    unknown = Epoch(epoch.nonces[::-1]).chunk(elements[0])
    capture.add(path, unknown, "without join", data=[unknown[64:-24]])
    late = Epoch(epoch.nonces, group=LATE).chunk(elements[0])
    capture.add(path, late, "without join", data=[late[64:-24]])
    plain = below(v6=path.v6, group=PLAIN, type=RS, payload=one[24:-24], token=epoch.epoch)
    capture.add(plain, plain.rar(), data=[one[64:-24]])
    chunks = [plain.copy(payload=struct.pack(">I", i) + one[28:40] + one[40:48] +
                         struct.pack(">I", i) + one[52:-24]).rar() for i in range(3)]
    capture.add(plain, b"".join(chunks), data=[one[64:-24]] * 3)
    capture.add(plain, b"".join(chunks), data=[one[64:164]],
                cut=len(path.copy(raw=b"").frame()) + 164)
    capture.add(below(v6=path.v6, sport=53, dport=53), b"another protocol")


def large(capture):
    """Add a group whose table is in two packets, and the second one is late."""
    path = below(group=LARGE)
    epoch = Epoch([rng.getrandbits(64) for _ in range(31)], group=LARGE)
    elements = rng.randbytes(64)
    capture.add(path, proposal(path, epoch.nonces, 0, 30), "opened")
    capture.add(path, epoch.chunk(elements), "opened", data=[elements])
    capture.add(path, proposal(path, epoch.nonces, 30, 1), "opened")


# ------------------------------------------------------------------ the program

class Runs:
    """Runs of the program, in a folder"""

    def __init__(self, folder):
        self.folder, self.said, self.n = pathlib.Path(folder), "", 0
        self.key = self.folder / "key"
        self.key.write_bytes(KEY)

    def run(self, capture, key=None, opened=None, **env):
        """Run it on the bytes of a capture, or a path. Return its status, what it says, and the
        path of what it writes."""
        self.n += 1
        if isinstance(capture, bytes):
            path = self.folder / f"{self.n}.in"
            path.write_bytes(capture)
            capture = path
        opened = opened or self.folder / f"{self.n}.pcapng"
        status, said = unseal(key or self.key, capture, opened, **env)
        self.said += said
        return status, said, opened


def shown(path):
    """Return the rows of FIELDS that tshark shows."""
    args = [part for field in FIELDS for part in ("-e", field)]
    said, complaints, _ = tshark("-n", "-T", "fields", *args, capture=path)
    note("\n".join(complaints[:10]))
    return [dict(zip(FIELDS, line.split("\t"))) for line in said.splitlines()]


def counted(capture, verdict, group):
    """Return how often the program should say a verdict of packets of a group."""
    return sum(want.split(",").count(verdict) for want, of in zip(capture.wants, capture.groups)
               if of == group)


def lines(capture, *groups):
    """Return what the program should print of some groups."""
    return "".join(f"group {group:#x}: " + ", ".join(
        f"{counted(capture, verdict, group)} {verdict}" for verdict in
        ("opened", "not authentic", "without join", "cut")) + "\n" for group in groups)


def check_rows(capture, path, name):
    """What tshark shows is what the packets hold."""
    rows = shown(path)
    good = len(rows) == len(capture.frames)
    for i, (row, want, data) in enumerate(zip(rows, capture.shown, capture.datas)):
        bad_rows = [field for field, value in (("rar.seal.verdict", want), ("rar.data", data))
                    if row[field] != value]
        if bool(row["rar.not_authentic"]) != ("not authentic" in want):
            bad_rows.append("rar.not_authentic")
        if bad_rows or row["_ws.lua.error"]:
            note(f"frame {i + 1}, {want}: {bad_rows} {row['rar.seal.verdict']} "
                 f"{row['_ws.lua.error']}")
            good = False
    result(good, f"{name}: {len(capture.frames)} frames")


def check_opened(runs):
    """Packets are opened, and counted."""
    global secret
    for v6 in (False, True):
        capture = Capture()
        ring(capture, v6)
        status, said, path = runs.run(capture.file())
        want = lines(capture, GROUP, OTHER, LATE)
        note(f"{said}wanted:\n{want}")
        result(status == 0 and said == want, f"IPv{6 if v6 else 4}: what is said of each group")
        check_rows(capture, path, f"IPv{6 if v6 else 4}")
    result(stat.S_IMODE(path.stat().st_mode) == 0o600, "nobody else may read the elements")
    capture = Capture()
    large(capture)
    status, said, path = runs.run(capture.file())
    result(status == 0 and said == lines(capture, LARGE), "a table in two packets")
    check_rows(capture, path, "a table in two packets, one after a packet of its epoch")
    key, capture, secret = runs.folder / "16", Capture(), KEY[:16]
    key.write_bytes(secret)
    large(capture)
    status, said, _ = runs.run(capture.file(), key)
    secret = KEY
    result(status == 0 and said == lines(capture, LARGE), "a key of 16 bytes")


def cooked(frame):
    """Return a frame as of a Linux cooked capture, version 2."""
    return frame[12:14] + bytes(18) + frame[14:]


def check_formats(runs):
    """Byte orders, units of time and types of links."""
    capture = Capture()
    ring(capture)
    want = lines(capture, GROUP, OTHER, LATE)
    formats = {"big endian": capture.file(">I"), "nanoseconds": capture.file(unit=0xa1b23c4d),
               "Linux cooked": capture.file(link=113, change=lambda f: bytes(2) + f),
               "Linux cooked, version 2": capture.file(link=276, change=cooked)}
    for name, data in formats.items():
        status, said, path = runs.run(data)
        rows = shown(path)
        time = "5.000000005" if name == "nanoseconds" else "5.000005000"
        result(status == 0 and said == want and rows[5]["frame.time_epoch"] == time, name)
    capture.frames = [f for f in capture.frames if f[12:14] != b"\x81\x00"]
    status, said, _ = runs.run(capture.file(link=101, change=lambda f: f[14:]))
    result(status == 0 and said.startswith("group 0x2a: "), "raw IP")
    if not shutil.which("editcap"):
        return note("no editcap")
    capture = Capture()
    ring(capture)
    plain, ng = runs.folder / "plain", runs.folder / "ng"
    plain.write_bytes(capture.file())
    subprocess.run(["editcap", "-F", "pcapng", plain, ng], check=True)
    status, said, path = runs.run(ng)
    result(status == 0 and said == want, "pcapng")
    check_rows(capture, path, "pcapng")
    status, said, _ = runs.run(ng, PATH="/nowhere")
    return result(status == 1 and "wireshark-common" in said, "pcapng without editcap")


def check_wrong_key(runs):
    """With another key nothing is opened."""
    capture = Capture()
    ring(capture)
    key = runs.folder / "wrong"
    for wrong in (KEY[::-1], KEY[:16]):
        key.write_bytes(wrong)
        status, said, path = runs.run(capture.file(), key)
        note(said)
        rows = shown(path)
        result(status == 0 and "0x2a: 0 opened" in said and "0x2b: 0 opened" in said and
               rows[2]["rar.seal.verdict"] == "not authentic" and
               rows[2]["rar.data"] != capture.datas[2], f"another key, of {len(wrong)} bytes")


def check_errors(runs):
    """Bad input is named."""
    capture = Capture()
    ring(capture)
    good, key = capture.file(), runs.folder / "short"
    none = Capture()
    none.add(below(), b"another protocol")
    unsealed = Capture()
    unsealed.add(below(), below(type=RS, payload=bytes(100)).rar())
    cases = [("no such file", ("/nowhere/file",), {}, "/nowhere/file: No such file"),
             ("not a capture", (b"some text",), {}, "not a capture"),
             ("nothing", (b"",), {}, "not a capture"),
             ("half a header", (good[:20],), {}, "no packets of AF_RAR"),
             ("another link", (capture.file(link=147),), {}, "link type 147"),
             ("a damaged frame", (good[:32] + b"\xff" * 4 + good[36:],), {}, "damaged"),
             ("no packets of AF_RAR", (none.file(),), {}, "no packets of AF_RAR"),
             ("no seals", (unsealed.file(),), {}, "no packet of AF_RAR has a seal"),
             ("there is such a file", (good,), {"opened": runs.key}, "exists"),
             ("no python3-cryptography", (good,), {"PYTHONPATH": str(runs.folder / "lacks")},
              "Debian's package python3-cryptography")]
    for size in (0, 15, 33, 1000):
        name = runs.folder / f"key{size}"
        name.write_bytes(bytes(range(100, 133))[:size] if size < 40 else bytes(size))
        cases.append((f"a key of {size} bytes", (good, name), {}, "16 or 32 bytes"))
    cases.append(("no key", (good, key), {}, f"{key}: No such file"))
    (runs.folder / "lacks").mkdir()
    (runs.folder / "lacks/cryptography.py").write_text("raise ImportError\n")
    for name, args, more, want in cases:
        status, said, _ = runs.run(*args, **more)
        if status != 1 or want not in said or said.count("\n") != 1:
            note(f"status {status}: {said}")
        result(status == 1 and want in said and said.count("\n") == 1, f"an error: {name}")
    result(runs.key.read_bytes() == KEY, "no file is written over")
    status, said, path = runs.run(good[:-5])
    result(status == 0 and len(shown(path)) == len(capture.frames) - 1, "a capture that is cut")


def check_fuzz(runs):
    """Whatever a capture holds, the program does not fail, and leaves what it cannot open."""
    capture = Capture()
    ring(capture)
    ring(capture, True)
    seen, capture.frames = capture.frames, []
    for _ in range(FUZZ):
        frame = bytearray(rng.choice(seen))
        for _ in range(rng.choice((0, 1, 1, 2, 5, 30))):
            frame[rng.randrange(12, len(frame))] = rng.choice((0, 1, 255, rng.randrange(256)))
        capture.frames.append(bytes(frame))
    capture.cuts = [rng.choice((len(f), len(f), rng.randrange(len(f) + 1)))
                    for f in capture.frames]
    status, said, path = runs.run(capture.file())
    note(said if status else "")
    result(status == 0 and len(shown(path)) == FUZZ, f"{FUZZ} mutants")


def main():
    if not shutil.which("tshark"):
        skip_all("no tshark; scripts/deps test installs it")
    if not importlib.util.find_spec("cryptography"):
        skip_all("no python3-cryptography; scripts/deps test installs it")
    rng.seed(get_seed())
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        check_opened(runs)
        check_formats(runs)
        check_wrong_key(runs)
        check_errors(runs)
        check_fuzz(runs)
        result(not any(word in runs.said for word in
                       (KEY.hex(), KEY.decode().strip("\0"), repr(KEY)[2:-1], "Traceback")),
               "the key is not printed")
    finish()


main()
