# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Works: a collective returns one, and its caller waits for it."""
import collections
import datetime
import errno
import sys
import threading

import torch
from torch._C._distributed_c10d import Work

from .librar import RarError, lib

SHELLS = 1024           # works that are kept after their end


def milliseconds(timeout):
    """Return a timedelta in milliseconds; -1: without limit, which 0 and None stand for."""
    ms = int(timeout / datetime.timedelta(milliseconds=1)) if timeout else 0
    return min(ms, (1 << 31) - 1) if ms > 0 else -1


class RingWork(Work):
    """Requests of a ring, up to number request. finish() puts the results in place."""

    def __init__(self, ring, what, request, finish, out):
        super().__init__()
        self.ring, self.what, self.request = ring, what, request
        self.finish, self.out = finish, out
        self.lock = threading.Lock()
        self.ended, self.error = False, None
        self.inner = self.outer = None

    def settle(self, err):
        """The requests have ended with err. Called by every thread that notices it."""
        with self.lock:
            if self.ended:
                return
            self.error = self.ring.error(self.what, err)
            if not err and self.finish:
                try:
                    self.finish()
                except Exception as e:      # pylint: disable=broad-except # as the work's
                    self.error = e
            self.finish = None
            self.ended = True
            inner = self.inner
        if inner:
            inner.set_result(None)

    def wait(self, timeout=None):
        """Wait for the result; raise RarError, which names the rank at fault."""
        if not self.ended:
            err = lib.rar_wait(self.ring.comm, self.request, milliseconds(timeout))
            if err == -errno.EAGAIN:
                raise RarError(f"{self.what}: not complete within {timeout}")
            self.settle(err)
        if self.error:
            raise self.error.with_traceback(None)
        return True

    def is_completed(self):
        """Return whether the work has ended, with a result or an error."""
        if not self.ended:
            err = lib.rar_test(self.ring.comm, self.request)
            if err != -errno.EAGAIN:
                self.settle(err)
        return self.ended

    def is_over(self):
        """The same, for a caller in which no callback may run."""
        return self.ended if self.inner else self.is_completed()

    def is_success(self):
        """Return whether there is a result."""
        return self.is_completed() and not self.error

    def exception(self):
        """Return the error, or None."""
        return self.error if self.is_completed() else None

    def synchronize(self):
        """Wait for the result."""
        self.wait()

    def result(self):
        """Return the tensors of the result."""
        return self.out

    def source_rank(self):
        """Only receiving has a source."""
        raise RarError(f"{self.what} has no source")

    def value(self, _):
        """Return the result as the value of a future."""
        if self.error:
            raise self.error.with_traceback(None)
        return self.out

    def get_future(self):
        """Return a future of the tensors; a thread of the ring completes it, and runs the
        callbacks of then(). They may wait for other works and futures.

        The error must be raised in then(): code in C++ that waits for a future does not see
        what Future.set_exception() does.
        """
        with self.lock:
            if self.outer:
                return self.outer
            self.inner = torch.futures.Future()
            self.outer = self.inner.then(self.value)
            ended, inner, outer = self.ended, self.inner, self.outer
        if ended:
            inner.set_result(None)
        else:
            self.ring.watch(self)
        return outer


class FutureWork(Work):
    """What a future of tensors becomes. PyTorch's own work of this kind hides errors."""

    def __init__(self, future):
        super().__init__()
        self.future = future

    def wait(self, timeout=None):       # pylint: disable=unused-argument # it has gloo's
        """Wait for the result."""
        self.future.wait()
        return True

    def is_completed(self):
        """Return whether the work has ended, with a result or an error."""
        return self.future.done()

    def exception(self):
        """Return the error, or None."""
        try:
            if self.future.done():
                self.future.value()
        except RuntimeError as e:
            return e
        return None

    def is_success(self):
        """Return whether there is a result."""
        return self.future.done() and not self.exception()

    def synchronize(self):
        """Wait for the result."""
        self.wait()

    def result(self):
        """Return the tensors of the result."""
        return self.future.value()

    def get_future(self):
        """Return the future."""
        return self.future


class Keeper:
    """Keeps works alive.

    The memory of a work must stay until it has ended, also if the caller drops the work. And
    where C++ has called a collective, PyTorch 1.13 keeps only the part of the work that is in
    C++. If the part in Python went, C++ would wait for ever.
    """

    def __init__(self):
        self.running = collections.deque()
        self.shells = collections.deque(maxlen=SHELLS)
        self.lock = threading.Lock()

    def tidy(self):
        """Drop the tensors of works that have ended and nobody holds. A work with a future is
        ended elsewhere, since its callbacks may start the next collective."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            while len(self.running) > 1 and self.running[0].is_over():
                old = self.running.popleft()
                if sys.getrefcount(old) == 2:       # here, and as the argument
                    old.out = None
                self.shells.append(old)
        finally:
            self.lock.release()
