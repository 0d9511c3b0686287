# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Communication hooks of DistributedDataParallel: gradients are averaged by the ring."""
import torch
import torch.distributed as dist

from . import librar
from .exchange import GroupExchange
from .kinds import KINDS
from .librar import RarError
from .ring import join, pieces

JOIN_MS = 300000


def ring(group=None):
    """Return the ring of a process group; if its backend is another one, make a ring for it.

    All ranks of the group call this. Raises RarError on all of them if they have no ring.
    """
    group = group or dist.group.WORLD
    found = getattr(group, "ring", None)
    if found:
        return found
    ranks = [None] * dist.get_world_size(group)
    dist.all_gather_object(ranks, dist.get_rank(), group=group)
    found, why = join(GroupExchange(group), dist.get_rank(group), ranks, JOIN_MS, "hook")
    if not found:
        raise RarError(f"rar: {why}")
    return found


def average(state, tensor, back=None, flags=0):
    """Begin to average a tensor in one piece; return a future of it, or of what back is."""
    dtype, _ = KINDS[tensor.dtype]
    if not state.can(librar.ALLREDUCE, dtype, librar.AVG):
        raise RarError(f"rar: some rank does not average {tensor.dtype}")
    start = tensor.data_ptr()
    calls = pieces(librar.ALLREDUCE, dtype, tensor.element_size(), start, start,
                   tensor.numel(), redop=librar.AVG, op_flags=flags)
    if back is None:
        return state.start("average", calls, None, tensor).get_future()
    return state.start("average", calls, lambda: back.copy_(tensor), back).get_future()


def average_hook(state, bucket):
    """Average the gradients. state: what ring() returns."""
    return average(state, bucket.buffer())


def bf16_hook(state, bucket):
    """Average the gradients, which travel as bfloat16: half the bytes. Each rank adds in 32
    bits, and rounds what it sends on."""
    buffer = bucket.buffer()
    if buffer.dtype != torch.float32:
        return average(state, buffer)
    flags = librar.OPF_WIDE if state.has_flag(librar.OPF_WIDE) else 0
    return average(state, buffer.to(torch.bfloat16), buffer, flags)
