#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_recover.py RANK SIZE STORE STEPS: a training that goes on when ranks die.

STORE is a file that all ranks see: it outlives any rank. The ranks that are there share each
batch, so the result does not depend on how many they are, except for rounding.

DIES_AT=STEP: the last rank kills itself in this step, when half of the gradients are averaged.
"""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn

import rar_torch

BATCH = 48                      # divisible by 2, 3 and 4 ranks
DIES = int(os.environ.get("DIES_AT", "-1"))

rank, size, file, steps = (kind(text) for kind, text in zip((int, int, str, int), sys.argv[1:]))


def batch(step):
    """Return the numbers and labels of this rank in a step."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 16, generator=generator)
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    return x[mine], (x.sum(1) > 0).long()[mine]


def train(net, optimizer, snapshots, step):
    """Do the steps from this one on."""
    ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.001)
    while step < steps:
        snapshots.take(step)
        if step == DIES and rank == size - 1:
            net[0].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        x, y = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        step += 1
    dist.all_reduce(loss.detach())          # the last step is complete on all ranks


def main():
    """Train, and after a failure go on with the ranks that are left."""
    torch.set_num_threads(1)
    dist.init_process_group("rar", init_method=f"file://{file}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=600))
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                        nn.Linear(32, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    snapshots, step, done = rar_torch.Snapshots(net, optimizer), 0, False
    while not done:
        try:
            train(net, optimizer, snapshots, step)
            done = True
        except RuntimeError as e:
            print(f"rank {rank}: {str(e).splitlines()[0]}", flush=True)
            first = rar_torch.recover()
            step = snapshots.restore(first)
            print(f"rank {rank}: now rank {dist.get_rank()} of {dist.get_world_size()}, "
                  f"goes on with step {step}", flush=True)
    weights = torch.cat([part.detach().reshape(-1) for part in net.parameters()])
    x, y = batch(steps)
    right = (net.eval()(x).argmax(1) == y).float().mean()
    print(f"rank {rank}: done ranks={dist.get_world_size()} steps={steps} "
          f"sum={weights.double().sum():.6f} accuracy={right:.2f}", flush=True)
    dist.destroy_process_group()


main()
