# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Rings: a communicator of librar, the requests on it, and how ranks agree to make one."""
import ctypes
import errno
import os
import pathlib
import queue
import re
import resource
import struct
import threading
import weakref

from . import librar
from .librar import RarError, check, lib
from .notes import debug
from .work import Keeper, RingWork

PIECE = 4 << 20         # bytes; longer tensors are several requests
UNLIMITED = 1 << 62
PATIENCE = 1            # seconds in which callbacks wait for those of the work before
CAP_IPC_LOCK = 14
O_KEY = 4               # rank 0's card carries a key that all ranks must have


def lockable():
    """Return how many bytes of memory this process may lock."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    if int(re.search(r"^CapEff:\s*(\w+)", status, re.M)[1], 16) >> CAP_IPC_LOCK & 1:
        return UNLIMITED
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


# ---------------------------------------------------------------- progress

class Progress:
    """Threads that end works whose futures somebody has, in order. The first of these works
    starts the first thread, and callbacks run in it. One that takes long may be waiting for a
    later work: so there is always another thread, which goes on after PATIENCE."""

    def __init__(self):
        self.works, self.threads = queue.SimpleQueue(), []
        self.turn = threading.Lock()    # held by the thread that waits for a work
        self.lock = threading.Lock()
        self.free = 0                   # threads that run no callback
        self.before = threading.Event()         # the callbacks of the last work have ended
        self.before.set()

    def inside(self):
        """Return whether the caller is a callback."""
        return threading.current_thread() in self.threads

    def add(self, work):
        """End this work after all earlier ones."""
        if not self.threads:
            self.another(0)
        self.works.put(work)

    def another(self, change):
        """Change the number of free threads; if it gets 0, start one."""
        with self.lock:
            self.free += change
            if not self.free:
                self.free = 1
                self.threads.append(threading.Thread(target=self.run, name="rar_torch",
                                                     daemon=True))
                self.threads[-1].start()

    def run(self):
        """Wait for one work after the other."""
        while True:
            with self.turn:
                work = self.works.get()
                if work is None:
                    self.works.put(None)        # for the next thread
                    return
                err = lib.rar_wait(work.ring.comm, work.request, -1)
                before, self.before = self.before, threading.Event()
                after = self.before
                self.another(-1)
            before.wait(PATIENCE)
            work.settle(err)
            after.set()
            del work
            self.another(1)

    def end(self):
        """End the threads, after the works that they have."""
        self.works.put(None)
        while self.threads:
            thread = self.threads.pop()
            if thread is not threading.current_thread():
                thread.join()


class Member:
    """What must be given back in the end: the communicator and the threads."""

    def __init__(self, comm):
        self.comm, self.progress, self.pid = comm, Progress(), os.getpid()
        self.last = 0           # request started last

    def quiet(self):
        """End the threads. Requests that are not complete could wait for ever: they fail."""
        if self.last and lib.rar_test(self.comm, self.last) == -errno.EAGAIN:
            lib.rar_comm_abort(self.comm)
        self.progress.end()
        self.progress = Progress()

    def leave(self):
        """Leave the group. In a child of the process that joined, the group is not disturbed."""
        if not self.comm:
            return
        if os.getpid() == self.pid:
            self.quiet()
        comm, self.comm = self.comm, None
        lib.rar_comm_free(comm)


# ---------------------------------------------------------------- rings

class Ring:
    """A rank of a group. ranks: what the program calls its ranks. lock_limit: bytes that each
    rank may lock at least."""

    def __init__(self, member, size, name, ranks, lock_limit):
        self.member, self.size, self.name, self.ranks = member, size, name, ranks
        self.lock_limit = lock_limit
        self.lock = threading.Lock()
        self.keeper = Keeper()
        self.close = weakref.finalize(self, member.leave)

    @property
    def comm(self):
        """The communicator."""
        if not self.member.comm:
            raise RarError(f"the process group {self.name} is destroyed")
        return self.member.comm

    def error(self, what, err):
        """Return err as an exception, or None if it is 0."""
        if not err:
            return None
        rank, _ = librar.failure(self.comm)
        text = f"rar: {what} in group {self.name}: {librar.text_of(err, self.comm)}"
        if rank is not None and rank < len(self.ranks) and self.ranks[rank] != rank:
            text += f" (rank {rank} of this group is rank {self.ranks[rank]} of the program)"
        return RarError(text, rank)

    def can(self, collective, dtype, redop=librar.SUM, count=1):
        """Return whether all ranks can do this: the same answer on all of them."""
        return bool(lib.rar_can(self.comm, collective, dtype, redop, count))

    def has_flag(self, flag):
        """Return whether all ranks know a flag of operations."""
        return bool(lib.rar_comm_caps(self.comm).contents.dtypes[0] & flag)

    def start(self, what, calls, finish=None, out=None):
        """Start calls in this order; return the work of all of them."""
        comm, request = self.comm, ctypes.c_uint64()
        if os.getpid() != self.member.pid:      # before the lock, which nobody may release here
            raise self.error(what, -errno.ECHILD)
        with self.lock:
            for call in calls:
                err = lib.rar_start(comm, call, request)
                if err:         # this rank does not take part, so no rank can go on
                    error = self.error(what, err)
                    lib.rar_comm_abort(comm)
                    raise error
                self.member.last = request.value
            work = RingWork(self, what, self.member.last, finish, out)
            self.keeper.running.append(work)
        self.keeper.tidy()
        return work

    def watch(self, work):
        """Have the work ended by a thread. A callback ends it itself: it may wait for it at
        once, and the callbacks of later works wait for this one."""
        if self.member.progress.inside():
            work.settle(lib.rar_wait(self.comm, work.request, -1))
            return
        with self.lock:
            self.member.progress.add(work)


def pieces(collective, dtype, size, src, dst, count, **fields):
    """Yield the calls for count elements of size bytes that lie in one piece."""
    most = PIECE // size
    for at in range(0, max(count, 1), most):
        yield librar.Call(collective=collective, dtype=dtype, src=src and src + at * size,
                          dst=dst and dst + at * size, count=min(most, count - at), **fields)


# ---------------------------------------------------------------- joining

def objection(offers):
    """Return the first objection of a rank, or None."""
    for rank, offer in enumerate(offers):
        if offer[:1] != b"+":
            return f"rank {rank}: {offer[1:].decode(errors='replace')}"
    return None


def attempt(function, *args):
    """Return "+" and what the function returns, or "-" and the reason why it fails."""
    try:
        return b"+" + (function(*args) or b"")
    except RarError as e:
        return b"-" + str(e).encode()


def make_card(timeout_ms):
    """Return a card for a new ring, and how much this process may lock."""
    opts = librar.options(timeout_ms)
    opts.flags = O_KEY
    card = ctypes.create_string_buffer(librar.CARD)
    check(lib.rar_probe(None))
    check(lib.rar_card_make(opts, card))
    return struct.pack("=Q", lockable()) + card.raw


def begin(comm, cards, rank, size, timeout_ms):
    """Join the group of these cards."""
    check(lib.rar_comm_start(ctypes.byref(comm), cards, size, rank, librar.options(timeout_ms)))
    check(lib.rar_comm_ready(comm, -1), comm)


def join(exchange, rank, ranks, timeout_ms, name):
    """Make the ring of a group; all its ranks call this. Return it and None, or None and a
    reason, equal on all ranks. exchange(tag, bytes) returns the bytes of all ranks."""
    size, comm = len(ranks), ctypes.c_void_p()
    offers = exchange("card", attempt(make_card, timeout_ms))
    why = objection(offers)
    if not why:
        limit = min(struct.unpack_from("=Q", offer, 1)[0] for offer in offers)
        cards = b"".join(offer[9:] for offer in offers)
        why = objection(exchange("ring", attempt(begin, comm, cards, rank, size, timeout_ms)))
    if why:
        if comm:
            lib.rar_comm_free(comm)
        return None, why
    debug(rank, f"group {name}: a ring of {size} ranks")
    return Ring(Member(comm), size, name, ranks, limit), None
