#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_spawn.py SIZE STORE METHOD: a program for gloo that makes its ranks itself.

METHOD is that of multiprocessing: spawn, fork or forkserver. Prints a line for each rank.
"""
import sys

import torch
from torch.distributed import all_reduce, destroy_process_group, init_process_group
from torch.multiprocessing import start_processes


def work(rank, size, store):
    """Be a rank."""
    init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    tensor = torch.full((3,), rank + 1.0)
    all_reduce(tensor)
    destroy_process_group()
    print(f"rank {rank}: sum {tensor.tolist()}", flush=True)


if __name__ == "__main__":
    start_processes(work, (int(sys.argv[1]), sys.argv[2]), int(sys.argv[1]),
                    start_method=sys.argv[3])
