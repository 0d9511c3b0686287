# SPDX-License-Identifier: GPL-2.0 OR MIT
"""How ranks give bytes to one another before they have a ring: by a store, or by a group."""
import datetime
import json
import time

import torch.distributed as dist

from .librar import RarError

GRACE = 10      # seconds: rank 0 gives up first, because it can name the missing rank


class StoreExchange:
    """Rank 0 collects the bytes, and hands all of them to all."""

    def __init__(self, store, rank, size, timeout):
        self.store, self.rank, self.size, self.timeout = store, rank, size, timeout

    def wait(self, key, who, until):
        """Return the value of a key. It is set by the rank in who."""
        try:
            left = max(until - time.monotonic(), 0.01)
            self.store.wait([key], datetime.timedelta(seconds=left))
            return self.store.get(key)
        except RuntimeError as e:
            raise RarError(f"rank {who} did not come within "
                           f"{self.timeout.total_seconds():.0f} s", who) from e

    def collect(self, tag):
        """Rank 0: return what all ranks have set, and which rank is missing, or None."""
        until, found = time.monotonic() + self.timeout.total_seconds(), []
        for rank in range(self.size):
            try:
                found.append(self.wait(f"{tag}/{rank}", rank, until).hex())
            except RarError as e:
                return None, e
        return found, None

    def __call__(self, tag, data):
        self.store.set(f"{tag}/{self.rank}", data)
        if self.rank == 0:
            found, error = self.collect(tag)
            self.store.set(f"{tag}/all", json.dumps([found, str(error), error and error.rank]))
            if error:
                raise error
        else:
            until = time.monotonic() + self.timeout.total_seconds() + GRACE
            found, text, who = json.loads(self.wait(f"{tag}/all", 0, until))
            if not found:
                raise RarError(text, who)
        return [bytes.fromhex(part) for part in found]


class GroupExchange:
    """By a process group that works already."""

    def __init__(self, group):
        self.group = group

    def __call__(self, tag, data):
        found = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(found, data, group=self.group)
        return found
