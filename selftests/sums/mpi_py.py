#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""mpi_py.py: a program of mpi4py with non-blocking collectives, for mpi_preload.sh.

Each call is waited for beside messages, by each way that mpi4py has.
"""
import array
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
bad = 0


def by_wait(requests):
    for request in requests:
        request.Wait()


def by_test(requests):
    for request in requests:
        while not request.Test():
            pass


def by_waitall(requests):
    MPI.Request.Waitall(requests)


def by_waitany(requests):
    for _ in requests:
        MPI.Request.Waitany(requests)


def by_testall(requests):
    while not MPI.Request.Testall(requests):
        pass


def by_waitsome(requests):
    while MPI.Request.Waitsome(requests) is not None:
        pass


def once(count, way):
    """Begin calls and messages, and compare what they bring; return the wrong results."""
    mine = array.array("f", (rank + i for i in range(count)))
    got, numbers = array.array("f", mine), array.array("i", [rank] * count)
    word, left = array.array("i", [-1]), (rank - 1) % size
    way([comm.Iallreduce([mine, MPI.FLOAT], [got, MPI.FLOAT]),
         comm.Irecv([word, MPI.INT], left, 1),
         comm.Ibcast([numbers, MPI.INT], size - 1),
         comm.Isend([array.array("i", [rank]), MPI.INT], (rank + 1) % size, 1),
         comm.Ibarrier()])
    return ((got != array.array("f", (size * (size - 1) // 2 + size * i for i in range(count))))
            + (numbers != array.array("i", [size - 1] * count)) + (word[0] != left))


comm.Barrier()
for function in (by_wait, by_test, by_waitall, by_waitany, by_testall, by_waitsome):
    for length in (1, 1000, 50000):
        wrong = once(length, function)
        if wrong:
            print(f"# rank {rank}: {function.__name__}, {length} elements: {wrong} wrong")
        bad += wrong
bad = comm.allreduce(bad)
if rank == 0:
    print(f"{size} ranks: {bad} bad", flush=True)
sys.exit(bad != 0)
