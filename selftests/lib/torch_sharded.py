#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_sharded.py WAY...: a program for gloo, and PyTorch 2, that shards what it trains.

It trains a small network in some of these ways: ddp, zero (ZeroRedundancyOptimizer), fsdp
(FullyShardedDataParallel), fully_shard (FSDP2), hybrid (FSDP2 on a mesh, over groups of two ranks) and
tensor (tensor parallel, DTensor). Each rank prints a line for each way: "right", if its parameters
are those that one process finds with all of the data, but for rounding; or what is wrong.
"""
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
EACH = 8        # samples of a rank and step


def network():
    """The network to train, the same at all ranks."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(24, 52), nn.ReLU(), nn.Linear(52, 36), nn.ReLU(), nn.Linear(36, 10))


def samples(step, size):
    """What all ranks together learn in a step."""
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(size * EACH, 24, generator=generator),
            torch.randn(size * EACH, 10, generator=generator))


def train(net, size, part, optimizer=None):
    """Train, with a part of the samples."""
    optimizer = optimizer or torch.optim.Adam(net.parameters(), lr=.01)
    for step in range(STEPS):
        given, want = (x[part] for x in samples(step, size))
        optimizer.zero_grad()
        nn.functional.mse_loss(net(given), want).backward()
        optimizer.step()


def whole(tensor):
    """All of a tensor, of which this rank may have a shard."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def parameters(net):
    """All parameters, one after the other."""
    return torch.cat([whole(p.detach()).flatten() for p in net.parameters()])


def by_ddp(size, part):
    """All ranks have all parameters, and average the gradients."""
    net = DistributedDataParallel(network())
    train(net, size, part)
    return parameters(net)


def by_zero(size, part):
    """The same, but each rank has a part of the state of the optimizer."""
    net = DistributedDataParallel(network())
    train(net, size, part, ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=.01))
    return parameters(net)


def by_fsdp(size, part):
    """Parameters are sharded, by the first FSDP."""
    net = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=True,
                                   sharding_strategy=ShardingStrategy.FULL_SHARD)
    train(net, size, part)
    with FullyShardedDataParallel.summon_full_params(net):
        return parameters(net).clone()


def shard(mesh):
    """A network of which each layer is sharded, by the second FSDP."""
    net = network()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def by_fully_shard(size, part):
    """Over all ranks."""
    net = shard(init_device_mesh("cpu", (size,)))
    train(net, size, part)
    return parameters(net)


def by_hybrid(size, part):
    """Over groups of two ranks, which average their gradients."""
    net = shard(init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("copies", "shards")))
    train(net, size, part)
    return parameters(net)


def by_tensor(size, _):
    """Each rank has a part of each layer, and all samples."""
    net = parallelize_module(network(), init_device_mesh("cpu", (size,)),
                             {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(net, size, slice(None))
    return parameters(net)


def main():
    """Be a rank."""
    warnings.filterwarnings("ignore")
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = network()
    train(alone, size, slice(None))
    want = parameters(alone)
    for way in sys.argv[1:]:
        try:
            got = globals()[f"by_{way}"](size, slice(rank * EACH, (rank + 1) * EACH))
            far = (got - want).abs().max()
            told = "right" if far < 1e-6 else f"wrong by {far:.1e}"
        except Exception as error:          # pylint: disable=broad-exception-caught
            told = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"rank {rank}: {way}: {told}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
