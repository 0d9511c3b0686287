#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_digits.py DIGITS: an ordinary data-parallel training with PyTorch.

A small convolutional network learns handwritten digits; each rank has its share of the images.
The ranks are found as torch.distributed does it: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
The program knows nothing of AF_RAR, unless --hook asks for a communication hook:

    python3 samples/torch_digits.py DIGITS                  # with gloo
    python3 -m rar_torch samples/torch_digits.py DIGITS     # with AF_RAR
"""
import argparse
import hashlib
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

WARM_UP = 5             # steps whose time does not count


def arguments():
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("digits", help="lines of 64 pixels and a label")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10**9, help="end after so many")
    parser.add_argument("--batch", type=int, default=16, help="images of a rank in a step")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--bucket-mb", type=float, default=0.1)
    parser.add_argument("--hook", choices=("average", "bf16"))
    return parser.parse_args()


def network(width):
    """Return the network."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 10))


def read_digits(path):
    """Return images and labels for training, and those for the test: every fifth."""
    with open(path, encoding="ascii") as lines:
        rows = torch.tensor([[float(number) for number in line.split(",")] for line in lines])
    images, labels = rows[:, :64].view(-1, 1, 8, 8) / 16, rows[:, 64].long()
    test = torch.arange(len(rows)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def digest(tensors):
    """Return a hash of tensors: equal if all bits are."""
    data = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(data).hexdigest()[:16]


class Trainer:
    """The training of one rank."""

    def __init__(self, args):
        self.args, self.rank, self.size = args, dist.get_rank(), dist.get_world_size()
        torch.manual_seed(self.rank)            # DDP hands rank 0's weights to all
        self.net = network(args.width)
        self.ddp = nn.parallel.DistributedDataParallel(self.net, bucket_cap_mb=args.bucket_mb)
        if args.hook:
            import rar_torch                    # pylint: disable=import-outside-toplevel
            self.ddp.register_comm_hook(rar_torch.ring(),
                                        getattr(rar_torch, f"{args.hook}_hook"))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        *self.train, self.images, self.labels = read_digits(args.digits)
        self.step, self.seconds = 0, []

    def one_step(self, images, labels):
        """Do a step; return the loss."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.ddp(images), labels)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        self.seconds.append(time.perf_counter() - start)
        return loss.detach()

    def epoch(self, number):
        """Train with each image of this rank once; print the mean loss of all ranks."""
        order = torch.randperm(len(self.train[0]),
                               generator=torch.Generator().manual_seed(number))
        each = len(order) // self.size // self.args.batch * self.args.batch
        losses = []
        for batch in order[self.rank::self.size][:each].split(self.args.batch):
            if self.step < self.args.steps:
                losses.append(self.one_step(*(part[batch] for part in self.train)))
        loss = sum(losses) / max(len(losses), 1)
        dist.all_reduce(loss)
        if self.rank == 0:
            print(f"epoch {number:2}  step {self.step:4}  loss {loss / self.size:.4f}", flush=True)

    def report(self):
        """Print a line with the result."""
        self.net.eval()
        with torch.no_grad():
            right = (self.net(self.images).argmax(1) == self.labels).float().mean()
        step_ms = statistics.median(self.seconds[WARM_UP:] or self.seconds) * 1000
        state = digest(self.net.state_dict().values())      # and the buffers, which differ
        print(f"done rank={self.rank} steps={self.step} accuracy={right:.4f} "
              f"weights={digest(self.net.parameters())} state={state} step_ms={step_ms:.2f}",
              flush=True)


def main():
    """Train."""
    args = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainer = Trainer(args)
    for number in range(args.epochs):
        if trainer.step < args.steps:
            trainer.epoch(number)
    trainer.report()
    dist.barrier()
    dist.destroy_process_group()


main()
