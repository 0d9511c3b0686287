# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Going on without ranks that have died: the rest makes a new ring, and agrees what to repeat."""
import copy
import ctypes
import datetime
import json
import time

import torch
import torch.distributed as dist

from .exchange import StoreExchange
from .group import taken_over
from .librar import BARRIER, CARD, Call, RarError, check, failure, lib
from .notes import debug

SETTLE = 30             # seconds in which the ranks that are left must come
# Reasons of struct rar_error: closed, died, silent, left, stalled.
GONE = (1, 2, 3, 4, 27)


def requests():
    """Return how many requests the default group's ring has started: equal on all ranks."""
    return ring_of_world().member.last


def ring_of_world():
    """Return the ring of the default group."""
    found = getattr(dist.group.WORLD, "ring", None)
    if not found:
        raise RarError("rar: the default process group has no ring")
    return found


class Snapshots:
    """The states before the last two steps, in memory: enough to go back by one step.

    parts: whatever has state_dict() and load_state_dict(), such as a model and its optimizer.
    """

    def __init__(self, *parts):
        self.parts, self.taken = parts, []

    def take(self, step):
        """Remember the state before a step."""
        states = [copy.deepcopy(part.state_dict()) for part in self.parts]
        self.taken = [*self.taken[-1:], (requests(), step, states)]

    def restore(self, first):
        """Go back to the step that has request first, after recover(); return its number."""
        found = [step for before, step, _ in self.taken if before < first]
        agreed = torch.tensor(max(found, default=-1))
        dist.all_reduce(agreed, dist.ReduceOp.MIN)
        for _, step, states in self.taken:
            if step == agreed:
                break
        else:
            raise RarError(f"rar: the step of request {first} is gone at some rank")
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
        self.taken = [(0, step, states)]        # also for requests that come before the step
        return step


# ---------------------------------------------------------------- who is left

def decide(store, size, dead, settle):
    """Wait for all ranks but the dead one, and tell each of them which ranks have come."""
    left = []
    exchange = StoreExchange(store, 0, size, datetime.timedelta(seconds=settle))
    until = time.monotonic() + settle
    for rank in range(size):
        if rank != dead:
            try:
                left.append((rank, exchange.wait(f"card/{rank}", rank, until).hex()))
            except RarError as e:
                debug(rank, str(e))
    store.set("left", json.dumps(left))


def roll_call(store, rank, size, card, dead, settle):
    """Return the old ranks that are left, and their cards."""
    store.set(f"card/{rank}", card)
    if store.add("first", 1) == 1:      # the first to come decides
        decide(store, size, dead, settle)
    store.wait(["left"], datetime.timedelta(seconds=settle + 10))
    left = json.loads(store.get("left"))
    if rank not in [old for old, _ in left]:
        raise RarError(f"rar: rank {rank} came too late: the others go on without it")
    return [old for old, _ in left], b"".join(bytes.fromhex(part) for _, part in left)


# ---------------------------------------------------------------- going on

generation = [0]


def wait_for_failure(ring, settle):
    """Return the rank that has died, or None. Another error may come before the ring's."""
    try:
        barrier = [Call(collective=BARRIER)]
        ring.start("barrier", barrier).wait(datetime.timedelta(seconds=settle))
    except RarError:
        pass
    rank, reason = failure(ring.comm)
    if not reason:
        raise RarError("rar: the ring has not failed")
    return rank if reason in GONE else None


def rejoin(ring, rank, size, cards):
    """Join again; return the first request to be repeated."""
    first = ctypes.c_uint64()
    ring.member.quiet()
    check(lib.rar_comm_again(ring.comm, cards, size, rank), ring.comm)
    check(lib.rar_comm_ready(ring.comm, -1), ring.comm)
    check(lib.rar_comm_resume(ring.comm, first), ring.comm)
    ring.size, ring.ranks = size, list(range(size))
    return first.value


def recover(settle=SETTLE):
    """After an error of the default group: make a default group of the ranks that are left.

    All of them call this, and have settle seconds to come. They get new numbers, in the order
    of the old ones. Returns the number of the first request that some rank lacks: it and all
    later ones must be repeated, see Snapshots. Other process groups and
    DistributedDataParallel must be made again. The store of the default group is still needed.
    """
    world, rank, card = dist.group.WORLD, dist.get_rank(), ctypes.create_string_buffer(CARD)
    ring = ring_of_world()
    dead = wait_for_failure(ring, settle)
    generation[0] += 1
    store = dist.PrefixStore(f"rar-again-{generation[0]}", default_store())
    check(lib.rar_comm_card(ring.comm, card), ring.comm)
    left, cards = roll_call(store, rank, ring.size, card.raw, dead, settle)
    now = left.index(rank)
    first = rejoin(ring, now, len(left), cards)
    debug(now, f"was rank {rank} of {world.size()}, is rank {now} of {len(left)}, goes on from "
          f"request {first}")
    world.ring = None                   # which the next group has
    dist.destroy_process_group()
    taken_over.append(ring)
    dist.init_process_group("rar", store=dist.PrefixStore("group", store), rank=now,
                            world_size=len(left), timeout=world.timeout)
    return first


def default_store():
    """Return the store of the default group."""
    return dist.distributed_c10d._get_default_store()   # pylint: disable=protected-access
