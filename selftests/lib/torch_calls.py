#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""torch_calls.py MODE RANK SIZE STORE: a rank of a PyTorch program with the backend "rar".

Modes: calls (all collectives), few (some that gloo has, too), die (the last rank is killed), late
(the last rank does not come), hang (it comes, and does not take part). Prints all errors, then
"rank N: N checks, N bad".
"""
import datetime
import faulthandler
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

import rar_torch

mode, rank, size, store = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
TIMEOUT = 8 if mode in ("late", "hang") else 600
OP = dist.ReduceOp
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COUNTS = (0, 1, 7, 4099, (1 << 20) + 5)  # the last: two pieces
checks = bad = 0
faulthandler.dump_traceback_later(900, exit=True)       # where a rank hangs


def check(ok, name):
    """Count a check."""
    global checks, bad                  # pylint: disable=global-statement
    checks += 1
    if not ok:
        bad += 1
        print(f"rank {rank}: {name}", flush=True)


def given(who, count, dtype):
    """Return what a rank gives: numbers that are exact in all types, and not 0."""
    numbers = torch.arange(count) % 3 + 1 + who % 2
    return (numbers + 1j * numbers if dtype.is_complex else numbers).to(dtype)


def expected(op, count, dtype):
    """Return the result of a reduction."""
    all_ranks = [given(who, count, dtype) for who in range(size)]
    combine = {OP.SUM: torch.add, OP.AVG: torch.add, OP.PRODUCT: torch.mul, OP.MIN: torch.minimum,
               OP.MAX: torch.maximum, OP.BAND: torch.bitwise_and, OP.BOR: torch.bitwise_or,
               OP.BXOR: torch.bitwise_xor}
    result = all_ranks[0]
    for other in all_ranks[1:]:
        result = next(function for key, function in combine.items() if key == op)(result, other)
    if op != OP.AVG:
        return result
    if dtype.is_complex:                # each part is divided
        return torch.view_as_complex(torch.view_as_real(result) / size)
    return (result / size).to(dtype)    # integers: towards zero


def ways():
    """Return how many calls went by the ring and by gloo."""
    return (sum(way["ring"] for way in rar_torch.counts.calls.values()),
            sum(way["gloo"] for way in rar_torch.counts.calls.values()))


def equal(name, got, want):
    """Check that tensors are equal."""
    check(torch.equal(got, want), f"{name}: {got.reshape(-1)[:8]}, not {want.reshape(-1)[:8]}")


# ---------------------------------------------------------------- reductions

def layouts(tensor):
    """Return copies of the tensor in several layouts."""
    wide = tensor.new_zeros((len(tensor), 2))
    wide[:, 1] = tensor
    return (("whole", tensor.clone()), ("column", wide[:, 1]),
            ("part", torch.cat([tensor.new_zeros(3), tensor])[3:]))


def test_types():
    """All-reduce of all types and reductions."""
    ops = [OP.SUM, OP.AVG, OP.PRODUCT, OP.MIN, OP.MAX]
    for dtype in (*FLOATS, *INTS, torch.complex64, torch.complex128):
        some = ops[:2] if dtype.is_complex else ops
        for op in (some + [OP.BAND, OP.BOR, OP.BXOR] if dtype in INTS else some):
            tensor = given(rank, 1001, dtype)
            dist.all_reduce(tensor, op)
            equal(f"all_reduce {op} {dtype}", tensor, expected(op, 1001, dtype))
        tensor = given(rank, 40, dtype)
        dist.reduce(tensor, 0)
        equal(f"reduce {dtype}", tensor, (expected if rank == 0 else given)(
            OP.SUM if rank == 0 else rank, 40, dtype))
        tensor = torch.empty(40, dtype=dtype)
        dist._reduce_scatter_base(tensor, given(rank, 40, dtype).repeat(size))
        equal(f"_reduce_scatter_base {dtype}", tensor, expected(OP.SUM, 40, dtype))


def test_bool():
    """Reductions of bool: bytes that are 0 or 1."""
    every = [torch.arange(8) >> who % 3 & 1 == 1 for who in range(size)]
    for op, want in ((OP.SUM, sum(map(torch.Tensor.int, every)) > 0),
                     (OP.MAX, sum(map(torch.Tensor.int, every)) > 0),
                     (OP.BOR, sum(map(torch.Tensor.int, every)) > 0),
                     (OP.BXOR, sum(map(torch.Tensor.int, every)) % 2 == 1),
                     (OP.MIN, sum(map(torch.Tensor.int, every)) == size),
                     (OP.PRODUCT, sum(map(torch.Tensor.int, every)) == size),
                     (OP.BAND, sum(map(torch.Tensor.int, every)) == size)):
        tensor = every[rank].clone()
        dist.all_reduce(tensor, op)
        equal(f"all_reduce {op} bool", tensor.view(torch.uint8), want.view(torch.uint8))
        out = torch.empty(8, dtype=torch.bool)
        dist._reduce_scatter_base(out, every[rank].repeat(size), op)
        equal(f"_reduce_scatter_base {op} bool", out.view(torch.uint8), want.view(torch.uint8))


def test_reductions():
    """Reductions of several lengths and layouts."""
    for count in COUNTS:
        want = expected(OP.SUM, count, torch.float32)
        for layout, tensor in layouts(given(rank, count, torch.float32)):
            dist.all_reduce(tensor)
            equal(f"all_reduce {count} {layout}", tensor, want)
        tensors = [given(rank, count, torch.float32) for _ in range(3)]
        dist.all_reduce_coalesced(tensors)
        equal(f"all_reduce_coalesced {count}", torch.cat(tensors), torch.cat([want] * 3))
        for layout, tensor in layouts(given(rank, count, torch.float32)):
            mine = tensor.clone()
            dist.reduce(tensor, size - 1)
            equal(f"reduce {count} {layout}", tensor, want if rank == size - 1 else mine)
        test_scatter(count)


def lazy(numbers, name):
    """Return a view of which PyTorch takes the conjugate or the sign only when it reads it."""
    if name == "conj":
        return numbers.conj_physical().conj()
    return torch.complex(numbers, -numbers).conj().imag


def test_lazy():
    """Lazily conjugated and negated views. Of the first PyTorch itself refuses some calls."""
    for name, dtype in (("conj", torch.complex64), ("neg", torch.float32)):
        everybody = [given(who, 6, dtype) for who in range(size)]
        total, mine = sum(everybody), everybody[rank]
        check(lazy(mine, name).is_conj() or lazy(mine, name).is_neg(), f"{name} is lazy")
        tensor = lazy(mine, name)
        dist.broadcast(tensor, 1)
        equal(f"broadcast {name}", tensor, everybody[1])
        tensor = lazy(mine, name)
        dist.reduce(tensor, 0)
        equal(f"reduce {name}", tensor, mine if rank else total)
        out = lazy(torch.zeros(6, dtype=dtype), name)
        dist._reduce_scatter_base(out, lazy(mine.repeat(size), name))
        equal(f"_reduce_scatter_base {name}", out, total)
        out = lazy(torch.zeros(6, dtype=dtype), name)
        dist.reduce_scatter(out, [lazy(mine, name)] * size)
        equal(f"reduce_scatter {name}", out, total)
        if name == "conj":
            continue
        for call in (dist.all_reduce, lambda tensor: dist.all_reduce_coalesced([tensor])):
            tensor = lazy(mine, name)
            call(tensor)
            equal(f"all_reduce {name}", tensor, total)
        parts = [lazy(torch.zeros(6), name) for _ in range(size)]
        dist.all_gather(parts, lazy(mine, name))
        equal(f"all_gather {name}", torch.cat(parts), torch.cat(everybody))
        out = lazy(torch.zeros(6 * size), name)
        dist.all_gather_into_tensor(out, lazy(mine, name))
        equal(f"all_gather_into_tensor {name}", out, torch.cat(everybody))


def test_expanded():
    """Tensors whose elements share memory may be read, but not be written to."""
    def expanded(*_):
        return torch.full((1,), float(rank)).expand(4)

    parts, flat = [torch.empty(4) for _ in range(size)], torch.empty(4 * size)
    dist.all_gather(parts, expanded())
    dist.all_gather_into_tensor(flat, expanded())
    equal("all_gather of expanded tensors", torch.cat(parts), flat)
    equal("all_gather_into_tensor of an expanded tensor", flat,
          torch.arange(float(size)).repeat_interleave(4))
    dist._reduce_scatter_base(parts[0], expanded().repeat(size).view(-1))
    dist.reduce_scatter(parts[1], [expanded()] * size)
    equal("reduce_scatter of expanded tensors", parts[0], parts[1])
    if size > 2:
        tensor = torch.full((4,), 7.0) if rank else expanded()
        dist.broadcast(tensor, 0)
        equal("broadcast of an expanded tensor", tensor, torch.zeros(4))
        tensor = torch.zeros(4) if rank == 1 else expanded()
        dist.reduce(tensor, 1)
        equal("reduce of expanded tensors", tensor, torch.full(
            (4,), float(rank if rank != 1 else sum(range(size)) - 1)))
    before = ways()
    for name, call in (
            ("all_reduce", lambda: dist.all_reduce(expanded(), async_op=True)),
            ("coalesced", lambda: dist.all_reduce_coalesced([flat, expanded()], async_op=True)),
            ("broadcast", lambda: dist.broadcast(expanded(), rank - 1 if rank else 1,
                                                 async_op=True)),
            ("reduce", lambda: dist.reduce(expanded(), rank, async_op=True)),
            ("all_gather", lambda: dist.all_gather([expanded()] * size, parts[0], async_op=True)),
            ("into_tensor", lambda: dist.all_gather_into_tensor(
                torch.empty(1).expand(4 * size), parts[0], async_op=True)),
            ("reduce_scatter", lambda: dist.reduce_scatter(expanded(), parts, async_op=True)),
            ("_reduce_scatter_base", lambda: dist._reduce_scatter_base(
                expanded(), flat, async_op=True))):
        try:
            call()
            check(False, f"{name} into an expanded tensor is no error")
        except RuntimeError as e:
            check("share" in str(e), f"{name} into an expanded tensor: {e}")
    check(ways() == before, "an expanded tensor is refused by the call")


def test_scatter(count):
    """Reduce-scatter: block r of what rank w gives is given(w) times r."""
    source = torch.cat([given(rank, count, torch.float32) * who for who in range(size)])
    want = expected(OP.SUM, count, torch.float32) * rank
    out, before = torch.empty(count), source.clone()
    dist._reduce_scatter_base(out, source)          # pylint: disable=protected-access
    equal(f"_reduce_scatter_base {count}", out, want)
    equal(f"_reduce_scatter_base {count}, its source", source, before)
    out = torch.empty(count, 2)[:, 0]
    dist.reduce_scatter(out, list(source.view(size, count)))
    equal(f"reduce_scatter {count}", out, want)


# ---------------------------------------------------------------- moving

def test_moves():
    """Broadcast and all-gather, also of types without reductions."""
    for dtype in (torch.float32, torch.bool, torch.complex64, torch.uint8):
        for count in COUNTS[:4]:
            for layout, tensor in layouts(given(rank, count, dtype)):
                dist.broadcast(tensor, 1)
                equal(f"broadcast {dtype} {count} {layout}", tensor, given(1, count, dtype))
            want = torch.cat([given(who, count, dtype) for who in range(size)])
            parts = [torch.empty(count, 2, dtype=dtype)[:, 0] for _ in range(size)]
            dist.all_gather(parts, given(rank, count, dtype))
            equal(f"all_gather {dtype} {count}", torch.cat(parts), want)
            out = torch.empty(count * size, dtype=dtype)
            dist.all_gather_into_tensor(out, given(rank, count, dtype))
            equal(f"all_gather_into_tensor {dtype} {count}", out, want)
            out[rank * count:][:count] = given(rank, count, dtype)
            dist.all_gather_into_tensor(out, out[rank * count:][:count])
            equal(f"all_gather_into_tensor {dtype} {count} in place", out, want)
    if size > 2:
        out = torch.arange(4.0 * size) + 100 * rank
        want = torch.cat([torch.arange(2.0, 6.0) + 100 * who for who in range(size)])
        dist.all_gather_into_tensor(out, out[2:6])
        equal("all_gather_into_tensor from an overlapping tensor", out, want)


# ---------------------------------------------------------------- works, groups, processes

def test_works():
    """Works that run at the same time, and their futures."""
    tensors = [torch.full((n * 1000 + 1,), float(rank)) for n in range(100)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    total = float(sum(range(size)))
    futures = [work.get_future().then(lambda future: future.value()[0].sum().item())
               for work in works[::3]]
    check([future.wait() for future in futures] == [total * len(t) for t in tensors[::3]],
          "futures")
    for work, tensor in zip(works, tensors):
        check(work.wait() and work.is_completed() and work.is_success() and not work.exception()
              and work.result()[0] is tensor and (tensor == total).all(), "work")
    for _ in range(50):                 # nobody waits for these
        dist.all_reduce(torch.ones(1000), async_op=True)
    work, until = dist.barrier(async_op=True), time.monotonic() + 60
    while not work.is_completed() and time.monotonic() < until:
        time.sleep(0.001)
    check(work.is_completed(), "barrier is complete without wait()")


def test_callbacks():
    """Callbacks of futures that wait for other futures, and that start collectives."""
    def other():
        return dist.all_reduce(torch.ones(1000), async_op=True).get_future()

    made = other().then(lambda _: other().wait()[0].sum().item())
    check(made.wait() == 1000 * size, "a callback that waits for a future that it makes")
    works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(2)]
    last = works[1].get_future()
    first = works[0].get_future().then(lambda _: last.wait()[0][0].item())
    check(first.wait() == size, "a callback that waits for a later future")
    for _ in range(30):                 # the next call may be the one that ends the work before
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        future = future.then(lambda _: dist.all_reduce(torch.ones(3), async_op=True).wait())
        dist.all_reduce(torch.ones(3))  # the same as there: either may be the first
        future.wait()


def test_power_sgd():
    """DistributedDataParallel with PyTorch's own hook PowerSGD, which does that."""
    torch.manual_seed(3)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    state = power_sgd.PowerSGDState(None, start_powerSGD_iter=2)
    net.register_comm_hook(state, power_sgd.powerSGD_hook)
    for _ in range(4):
        net(torch.full((4, 64), rank + 1.0)).sum().backward()
    grads = [torch.zeros(64, 64) for _ in range(size)]
    dist.all_gather(grads, net.module.weight.grad)
    check(all(torch.equal(grad, grads[0]) for grad in grads) and grads[0].abs().sum() > 0,
          "PowerSGD: gradients")


def test_groups():
    """Groups of some ranks, at the same time as the group of all."""
    halves = [dist.new_group(range(first, size, 2)) for first in range(2)]
    mine, members = halves[rank % 2], list(range(rank % 2, size, 2))
    for n in range(20):
        tensor, other = torch.full((n * 500,), float(rank)), torch.ones(n)
        work = dist.all_reduce(tensor, group=mine, async_op=True)
        dist.all_reduce(other)
        work.wait()
        check((tensor == sum(members)).all() and (other == size).all(), f"groups {n}")
    dist.destroy_process_group(mine)


def test_gloo():
    """What the ring does not have goes by gloo."""
    ring, gloo = ways()
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    equal("sparse all_reduce", sparse.to_dense(), torch.ones(size))
    outs = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((1,), float(rank)), outs)
    if rank == 0:
        equal("gather", torch.cat(outs), torch.arange(float(size)))
    check(ways() == (ring, gloo + 2), "sparse and gather go by gloo")


def test_functional():
    """Collectives with a gradient, and what their backward calls."""
    x = torch.full((3,), rank + 1.0, requires_grad=True)
    gathered = functional.all_gather(x)
    equal("functional.all_gather", torch.cat(gathered).detach(),
          torch.arange(1.0, size + 1).repeat_interleave(3))
    (torch.stack(gathered).sum(1) * torch.arange(1.0, size + 1)).sum().backward()
    equal("functional.all_gather, backward", x.grad, torch.full((3,), (rank + 1.0) * size))
    x = [torch.full((2,), 10.0 * rank + who, requires_grad=True) for who in range(size)]
    out = functional.all_to_all([torch.empty(2) for _ in range(size)], x)
    equal("functional.all_to_all", torch.cat(out).detach(),
          torch.arange(0.0, 10 * size, 10).repeat_interleave(2) + rank)
    (torch.stack(out).sum() * (rank + 1)).backward()
    equal("functional.all_to_all, backward", torch.cat([part.grad for part in x]),
          torch.arange(1.0, size + 1).repeat_interleave(2))


def test_all_to_all():
    """Exchange of tensors of several lengths, types and layouts; gloo alone refuses it."""
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        def block(source, target, dtype=dtype):
            return given(source + target, source * 2 + target, dtype)

        outs = [torch.empty(who * 2 + rank, 2, dtype=dtype)[:, 0] for who in range(size)]
        work = dist.all_to_all(outs, [block(rank, who) for who in range(size)], async_op=True)
        work.wait()
        equal(f"all_to_all {dtype}", torch.cat(outs),
              torch.cat([block(who, rank) for who in range(size)]))
    try:
        dist.all_to_all([torch.empty(1)] * size, [torch.empty(1)] * (size - 1))
        check(False, "all_to_all with a list that is too short is no error")
    except (RuntimeError, ValueError):
        pass


def test_monitored_barrier():
    """gloo's barrier that names a rank that is late, in a group of the ring."""
    group = dist.new_group()
    dist.monitored_barrier(group)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
    if rank == size - 1:
        dist.barrier()
        return
    try:
        dist.monitored_barrier(group, datetime.timedelta(seconds=5))
        check(rank != 0, "a rank does not come, and monitored_barrier is no error")
    except RuntimeError as e:
        check(f"{size - 1}" in str(e) or rank != 0, f"monitored_barrier: {e}")
    dist.barrier()


def test_fork():
    """A child has no part in the ring, and does not disturb it."""
    pid = os.fork()
    if not pid:
        try:
            dist.all_reduce(torch.ones(1))
        except rar_torch.RarError as e:
            os._exit(0 if "parent" in str(e) else 1)
        os._exit(2)
    check(os.waitpid(pid, 0)[1] == 0, "a call in a child")
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    equal("after a fork", tensor, torch.full((5,), float(size)))


def test_differ():
    """Ranks that pass different lengths get an error."""
    group = dist.new_group()
    try:
        dist.all_reduce(torch.ones(3 + (rank == 1)), group=group)
        check(False, "different lengths are no error")
    except RuntimeError as e:
        check("number of elements" in str(e) and "rank " in str(e), str(e))


def calls():
    """All of it."""
    for test in (test_types, test_bool, test_reductions, test_lazy, test_expanded, test_moves, test_works, test_callbacks,
                 test_power_sgd, test_groups, test_fork, test_differ):
        test()
        dist.barrier()
    check(ways()[1] == 0, f"by gloo: {rar_torch.counts.calls}")
    for test in (test_gloo, tensors_of_blocks, test_functional, test_all_to_all, test_monitored_barrier):
        test()
        dist.barrier()


def tensors_of_blocks():
    """Calls that some versions of gloo lack, and types that the ring lacks."""
    for dtype in (torch.float32, torch.bool):
        out = torch.empty(5, dtype=dtype)
        try:
            dist._reduce_scatter_base(out, given(rank, 5, dtype).repeat(size), op=OP.MAX)
            equal(f"_reduce_scatter_base {dtype}", out, expected(OP.MAX, 5, dtype))
        except RuntimeError as e:       # gloo of PyTorch 1 has no reductions of this type
            check(dtype == torch.bool and not dist.group.WORLD.ring and
                  "scalar type" in str(e), str(e))
        out = torch.empty(5 * size, dtype=dtype)
        dist.all_gather_into_tensor(out, given(rank, 5, dtype))
        equal(f"all_gather_into_tensor {dtype}", out,
              torch.cat([given(who, 5, dtype) for who in range(size)]))
    if not hasattr(dist, "_coalescing_manager") or not hasattr(dist, "reduce_scatter_tensor"):
        return
    outs = [torch.empty(3) for _ in range(4)]
    with dist._coalescing_manager():
        for n, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, (given(rank, 3, torch.float32) * n).repeat(size))
    equal("coalesced reduce_scatter_tensor", torch.cat(outs),
          torch.cat([expected(OP.SUM, 3, torch.float32) * n for n in range(4)]))
    outs = [torch.empty(3 * size) for _ in range(4)]
    with dist._coalescing_manager():
        for n, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((3,), float(10 * n + rank)))
    equal("coalesced all_gather_into_tensor", torch.cat(outs), torch.cat(
        [torch.arange(float(size)).repeat_interleave(3) + 10 * n for n in range(4)]))


def few():
    """Some calls, which go by the ring or by gloo."""
    tensors_of_blocks()
    for count in COUNTS[1:]:
        tensor = given(rank, count, torch.float32)
        dist.all_reduce(tensor)
        equal(f"all_reduce {count}", tensor, expected(OP.SUM, count, torch.float32))
        dist.broadcast(tensor, 1)
    dist.barrier()


# ---------------------------------------------------------------- failures

def die():
    """The last rank is killed. The others get its name, from every way to wait."""
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    name, work = f"rank {size - 1}", None
    for wait in (lambda: work.wait(), lambda: work.get_future().wait(),
                 lambda: dist.all_reduce(torch.ones(3))):
        try:
            work = work or dist.all_reduce(torch.ones(100000), async_op=True)
            wait()
            check(False, "no error")
        except RuntimeError as e:
            check(name in str(e) and "died" in str(e), str(e))
    if work:
        check(work.is_completed() and not work.is_success() and work.exception(), "the work")


def hang():
    """The last rank does not take part in time."""
    dist.barrier()
    if rank == size - 1:
        time.sleep(2 * TIMEOUT)
        return
    try:
        dist.all_reduce(torch.ones(3))
        check(False, "no error")
    except RuntimeError as e:
        check(f"rank {size - 1} " in str(e) and "in time" in str(e), str(e))


def main():
    """Run a mode."""
    torch.set_num_threads(1)
    if mode == "late" and rank == size - 1:
        return
    try:
        dist.init_process_group("rar", init_method=f"file://{store}", rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=TIMEOUT))
        {"calls": calls, "few": few, "die": die, "hang": hang}[mode]()
        dist.destroy_process_group()
    except rar_torch.RarError as e:
        if mode != "late":
            raise
        check(f"rank {size - 1} did not come within {TIMEOUT} s" in str(e), str(e))
    print(f"rank {rank}: {checks} checks, {bad} bad", flush=True)


main()
