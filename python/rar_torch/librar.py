# SPDX-License-Identifier: GPL-2.0 OR MIT
"""librar by ctypes: what librar.h declares, as far as the package needs it."""
import ctypes
import os
import pathlib
import struct
from ctypes import (POINTER, Structure, c_char_p, c_int, c_size_t, c_uint8, c_uint16,
                    c_uint32, c_uint64, c_void_p)

CARD = 128              # bytes of struct rar_card
NO_RANK = 0xffffffff
# list: constants
(ALLREDUCE, BROADCAST, REDUCE, REDUCE_SCATTER, ALLGATHER, BARRIER, REDUCE_BY_KEY) = range(1, 8)
(F32, F64, I32, I64, I8, U8, I16, U16, U32, U64, F16, BF16) = range(1, 13)
(SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, AVG) = range(1, 12)
# end of list
OPF_WIDE = 0x20         # 16-bit floats are added as f32, and rounded once


class Opts(Structure):
    """struct rar_opts"""
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("local", c_char_p),
                ("group", c_uint64), ("join_ms", c_uint32), ("op_ms", c_uint32),
                ("port", c_uint16), ("pad", c_uint16 * 3)]


class Call(Structure):
    """struct rar_call"""
    _fields_ = [("collective", c_uint8), ("dtype", c_uint8), ("redop", c_uint8),
                ("flags", c_uint8), ("root", c_uint32), ("src", c_void_p), ("dst", c_void_p),
                ("count", c_uint64), ("op_flags", c_uint32), ("prio", c_uint8),
                ("pad", c_uint8 * 3)]


class Caps(Structure):
    """struct rar_caps"""
    _fields_ = [("wire_version", c_uint32), ("collectives", c_uint32),
                ("dtypes", c_uint32 * 16)]


COMM = c_void_p
PROTOTYPES = {
    "rar_probe": (c_int, POINTER(Caps)),
    "rar_card_make": (c_int, POINTER(Opts), c_char_p),
    "rar_comm_start": (c_int, POINTER(COMM), c_char_p, c_uint32, c_uint32, POINTER(Opts)),
    "rar_comm_ready": (c_int, COMM, c_int),
    "rar_comm_card": (c_int, COMM, c_char_p),
    "rar_comm_again": (c_int, COMM, c_char_p, c_uint32, c_uint32),
    "rar_comm_resume": (c_int, COMM, POINTER(c_uint64)),
    "rar_comm_abort": (None, COMM),
    "rar_comm_free": (None, COMM),
    "rar_comm_caps": (POINTER(Caps), COMM),
    "rar_comm_error": (c_int, COMM, c_char_p),
    "rar_can": (c_int, COMM, c_int, c_int, c_int, c_uint64),
    "rar_start": (c_int, COMM, POINTER(Call), POINTER(c_uint64)),
    "rar_test": (c_int, COMM, c_uint64),
    "rar_wait": (c_int, COMM, c_uint64, c_int),
    "rar_strerror": (c_char_p, COMM, c_int, c_char_p, c_size_t),
}


class RarError(RuntimeError):
    """An error of a ring; rank is the rank of the group that caused it, or None."""

    def __init__(self, text, rank=None):
        super().__init__(text)
        self.rank = rank


def candidates():
    """Return where librar may be: as the user says, in the source tree, where ld.so looks."""
    if os.environ.get("RAR_LIBRARY"):
        return [os.environ["RAR_LIBRARY"]]
    built = pathlib.Path(__file__).resolve().parents[2] / "build/lib/librar.so.0"
    return ([str(built)] if built.exists() else []) + ["librar.so.0"]


def load():
    """Return the library with its prototypes, or raise RarError."""
    why = ""
    for name in candidates():
        try:
            library = ctypes.CDLL(name)
            break
        except OSError as e:
            why = str(e)
    else:
        raise RarError(f"librar is not here ({why}): make lib, or set RAR_LIBRARY to its path")
    for name, (result, *arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Loader:
    """The library, loaded when it is first used: importing the package needs no librar."""

    def __getattr__(self, name):
        library = load()
        for function in PROTOTYPES:
            setattr(self, function, getattr(library, function))
        return getattr(self, name)


lib = Loader()


def text_of(err, comm=None):
    """Return librar's sentence about an error."""
    text = ctypes.create_string_buffer(256)
    return lib.rar_strerror(comm, err, text, len(text)).decode(errors="replace")


def failure(comm):
    """Return the rank that the error of a group names, or None, and enum rar_reason."""
    error = ctypes.create_string_buffer(256)
    lib.rar_comm_error(comm, error)
    _, reason, rank = struct.unpack_from("=iII", error.raw)
    return (None if not reason or rank == NO_RANK else rank), reason


def check(err, comm=None):
    """Raise RarError if err is not 0."""
    if err:
        raise RarError(text_of(err, comm), failure(comm)[0] if comm else None)


def options(timeout_ms):
    """Return options with that time for joining and for an operation."""
    return Opts(size=ctypes.sizeof(Opts), join_ms=timeout_ms, op_ms=timeout_ms)
