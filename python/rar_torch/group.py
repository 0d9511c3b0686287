# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The backend "rar": a process group whose collectives go by a ring, and the rest by gloo."""
import functools
import inspect

import torch
import torch.distributed as dist

from . import librar
from .exchange import StoreExchange
from .kinds import BOOL, HALVES, KINDS, LINEAR, REDUCTIONS, reduction_name
from .librar import RarError
from .notes import counts, debug, falls_back, say
from .ring import PIECE, UNLIMITED, join, pieces
from .work import FutureWork, milliseconds

GLOO = ("allgather_coalesced", "gather", "scatter", "alltoall_base", "send", "recv",
        "recv_anysource", "monitored_barrier", "_set_sequence_number_for_group",
        "_get_sequence_number_for_group")
OVERLAP = 1             # torch._debug_has_internal_overlap(): yes


def listed(tensors):
    """Return a list: some calls accept one tensor instead of a list."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def nbytes(tensor):
    """Return the length of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def unfit(*tensors):
    """Return why the ring cannot take these tensors at all, or None."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"a tensor on {tensor.device.type}"
        if tensor.layout != torch.strided:
            return f"a tensor of layout {tensor.layout}"
    return None


def is_plain(tensor):
    """Return whether the elements lie in memory as they are, in one piece. PyTorch takes the
    conjugate or the sign of some views only when it reads them."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def plain(tensor):
    """Return the elements in one piece."""
    return tensor if is_plain(tensor) else tensor.clone(memory_format=torch.contiguous_format)


def as_bytes(tensor):
    """Return the bytes of the elements in one piece; a copy, if they are not in one."""
    return plain(tensor).view(-1).view(torch.uint8)


def in_place(tensor):
    """Return a tensor with the elements in one piece, and how they come back from there."""
    if is_plain(tensor):
        return tensor, None
    whole = plain(tensor)
    return whole, lambda: tensor.copy_(whole)


def refuse_shared(name, *outputs):
    """Raise an error if elements of an output share memory. It would come after the operation
    otherwise, from copy_()."""
    for tensor in outputs:
        if torch._debug_has_internal_overlap(tensor) == OVERLAP:
            raise RarError(f"rar: {name}: elements of the tensor share memory, as those of "
                           "expand() do, and cannot be written to: clone() it before")


def then_all(steps):
    """Return a function that does all steps that are not None; or None."""
    steps = [step for step in steps if step]
    return (lambda: [step() for step in steps]) if steps else None


class Reduction:
    """What the ring must do with the elements: type, reduction, flags; or why it cannot."""

    def __init__(self, ring, collective, tensor, op):
        name = reduction_name(op)
        self.dtype, self.numbers = KINDS.get(tensor.dtype, (0, 0))
        names = BOOL if tensor.dtype == torch.bool else REDUCTIONS
        self.redop, self.why, self.flags = names.get(name, 0), unfit(tensor), 0
        if not self.why and not (
                self.dtype and self.redop and (self.numbers == 1 or self.redop in LINEAR)
                and ring.can(collective, self.dtype, self.redop)):
            self.why = f"{name} of {tensor.dtype}"
        if self.dtype in HALVES and self.redop in LINEAR and ring.has_flag(librar.OPF_WIDE):
            self.flags = librar.OPF_WIDE

    def calls(self, collective, src, dst, count, **fields):
        """Yield the calls for count elements of tensors in one piece."""
        size = src.element_size() // self.numbers
        return pieces(collective, self.dtype, size, src.data_ptr(), dst.data_ptr(),
                      count * self.numbers, redop=self.redop, op_flags=self.flags, **fields)

    def call(self, collective, src, dst, count):
        """Return one call, for tensors that cannot be cut into pieces."""
        return librar.Call(collective=collective, dtype=self.dtype, redop=self.redop,
                           src=src.data_ptr(), dst=dst.data_ptr(),
                           count=count * self.numbers, op_flags=self.flags)


class ProcessGroupRar(dist.ProcessGroup):
    """All ranks decide by type, reduction, length and device whether a call goes by the ring,
    and by what all of them have in common. So they decide alike."""

    def __init__(self, store, rank, ranks, timeout, name, ring=None):
        super().__init__(rank, len(ranks))
        self.ring, why, self.numbers = ring, None, (rank, len(ranks))
        self.timeout = timeout
        if not ring:
            exchange = StoreExchange(dist.PrefixStore("rar", store), rank, len(ranks), timeout)
            self.ring, why = join(exchange, rank, ranks, milliseconds(timeout), name)
        if why and not falls_back():
            raise RarError(f"rar: group {name}: {why}")
        if why and not rank:
            say(rank, f"group {name}: {why}: gloo does all collectives "
                "(RAR_TORCH_FALLBACK=error makes this an error)")
        self.gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, len(ranks),
                                          timeout)
        if counts.rank is None:
            counts.rank = ranks[rank]

    # ------------------------------------------------------------ which way

    def _gloo(self, name, why, *args):
        """Have gloo do it."""
        if self.ring:
            debug(self.numbers[0], f"{name}: {why}: by gloo")
        counts.add(name, "gloo")
        return getattr(self.gloo, name)(*(arg for arg in args if arg is not None))

    def _gloo_parts(self, name, why, works, finish):
        """Have gloo do it by other calls than its own for that, which some versions lack."""
        if self.ring and why:
            debug(self.numbers[0], f"{name}: {why}: by gloo")
        counts.add(name, "gloo")

        def end(parts):
            for part in parts.value():
                part.value()            # raises gloo's error
            return finish()

        futures = [work.get_future() for work in works]
        return FutureWork(torch.futures.collect_all(futures).then(end))

    def _start(self, name, calls, finish, out):
        """Have the ring do it."""
        work = self.ring.start(name, calls, finish, out)
        counts.add(name, "ring")
        return work

    def _reductions(self, collective, tensors, op):
        """Return the reductions of tensors, and why one of them cannot go by the ring."""
        if not self.ring:
            return [], "no ring"
        kinds = [Reduction(self.ring, collective, tensor, op) for tensor in tensors]
        return kinds, next((kind.why for kind in kinds if kind.why), None)

    def _bytes_obstacle(self, collective, *tensors):
        """Return why the ring cannot move these tensors as bytes, or None."""
        if not self.ring:
            return "no ring"
        if not self.ring.can(collective, librar.U8):
            return "some rank does not have this collective"
        return unfit(*tensors)

    def _too_long(self, length):
        """Return why a tensor is too long for a call that cannot be cut; the kernel holds what
        it may not pin."""
        most = self.ring.lock_limit if self.ring else UNLIMITED
        return (f"{length} bytes, and a rank may lock only {most}"
                if length > max(PIECE, most // 2) else None)

    # ------------------------------------------------------------ all get the same

    def allreduce(self, tensors, opts=None, op=None):
        """All-reduce of one tensor in place."""
        return self._allreduce("allreduce", tensors, op if opts is None else opts)

    def allreduce_coalesced(self, tensors, opts=None):
        """All-reduce of several tensors in place."""
        return self._allreduce("allreduce_coalesced", tensors, opts)

    def _allreduce(self, name, tensors, opts):
        tensors = listed(tensors)
        op = getattr(opts, "reduceOp", opts)
        op = dist.ReduceOp.SUM if op is None else op
        kinds, why = self._reductions(librar.ALLREDUCE, tensors, op)
        if why or not tensors:
            return self._gloo(name, why or "no tensors", tensors, opts)
        refuse_shared(name, *tensors)
        wholes = [in_place(tensor) for tensor in tensors]
        calls = [call for kind, (whole, _) in zip(kinds, wholes)
                 for call in kind.calls(librar.ALLREDUCE, whole, whole, whole.numel())]
        return self._start(name, calls, then_all(back for _, back in wholes), tensors)

    def broadcast(self, tensors, opts=None, root=None):
        """The root's tensor to all."""
        tensors = listed(tensors)
        root = getattr(opts, "rootRank", root) or 0
        why = self._bytes_obstacle(librar.BROADCAST, *tensors)
        if why:
            return self._gloo("broadcast", why, tensors, opts)
        if root != self.numbers[0]:
            refuse_shared("broadcast", tensors[0])
        whole, back = in_place(tensors[0])
        calls = pieces(librar.BROADCAST, librar.U8, 1, whole.data_ptr(), whole.data_ptr(),
                       nbytes(whole), root=root)
        if root == self.numbers[0]:
            back = None
        return self._start("broadcast", calls, then_all([back, lambda: whole]), tensors)

    def barrier(self, opts=None):
        """Wait for all ranks."""
        if not self.ring or not self.ring.can(librar.BARRIER, 0, count=0):
            return self._gloo("barrier", "no ring", opts)
        return self._start("barrier", [librar.Call(collective=librar.BARRIER)], None, [])

    # ------------------------------------------------------------ gather

    def _gather(self, out, tensor):
        """Return the call that gathers tensor from all ranks into out, which is in one piece;
        its source, and what remains to be done."""
        src = plain(tensor)
        start, length = out.data_ptr(), nbytes(out)
        mine = start + self.numbers[0] * nbytes(src)
        if (src.data_ptr() != mine and src.data_ptr() < start + length
                and start < src.data_ptr() + nbytes(src)):
            src = src.clone()           # it lies elsewhere in the result
        call = librar.Call(collective=librar.ALLGATHER, dtype=librar.U8, src=src.data_ptr(),
                           dst=start, count=nbytes(src))
        return call, src

    def allgather(self, outputs, inputs, opts=None):
        """The tensors of all ranks, as a list, to all."""
        tensor, = listed(inputs)
        out = outputs if isinstance(outputs[0], torch.Tensor) else outputs[0]
        size = self.numbers[1]
        why = (self._bytes_obstacle(librar.ALLGATHER, tensor, *out) or
               self._too_long(nbytes(tensor) * size))
        if not why and any(nbytes(part) != nbytes(tensor) for part in out):
            why = "tensors of different length"
        if why or len(out) != size:
            return self._gloo("allgather", why or "a list of another length", outputs, inputs,
                              opts)
        refuse_shared("allgather", *out)
        flat = tensor.new_empty((size, tensor.numel()))
        call, src = self._gather(flat, tensor)

        def spread():
            for part, row in zip(out, flat):
                part.copy_(row.view(part.shape))
            return src                  # which must live until then

        return self._start("allgather", [call], spread, outputs)

    def _allgather_base(self, output, tensor, opts=None):
        return self._gather_many("_allgather_base", [output], [tensor], opts)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        """The tensors of all ranks behind one another, to all; several of them."""
        return self._gather_many("allgather_into_tensor_coalesced", outputs, inputs, opts)

    def _gather_many(self, name, outputs, inputs, opts):
        size = self.numbers[1]
        why = (self._bytes_obstacle(librar.ALLGATHER, *outputs, *inputs) or
               self._too_long(max(map(nbytes, outputs))))
        if any(nbytes(out) != nbytes(tensor) * size for out, tensor in zip(outputs, inputs)):
            raise ValueError(f"{name}: an output is not {size} times as long as its input")
        refuse_shared(name, *outputs)
        flats = [out if is_plain(out) else
                 torch.empty_like(out, memory_format=torch.contiguous_format) for out in outputs]

        def copy_back():
            for out, flat in zip(outputs, flats):
                if out is not flat:
                    out.copy_(flat)
            return outputs

        if why:
            works = [self.gloo.allgather([list(as_bytes(flat).view(size, -1))], [as_bytes(part)])
                     for flat, part in zip(flats, inputs)]
            return self._gloo_parts(name, why, works, copy_back)
        calls, sources = zip(*map(self._gather, flats, inputs))
        return self._start(name, calls, lambda: (copy_back(), sources), outputs)

    # ------------------------------------------------------------ each gets its own

    def reduce(self, tensors, opts=None, root=None, op=None):
        """The reduction to the root."""
        tensors = listed(tensors)
        root = getattr(opts, "rootRank", root) or 0
        op = getattr(opts, "reduceOp", op or dist.ReduceOp.SUM)
        kinds, why = self._reductions(librar.REDUCE, tensors, op)
        if why:
            return self._gloo("reduce", why, tensors, opts)
        if root == self.numbers[0]:
            refuse_shared("reduce", tensors[0])
            whole, back = in_place(tensors[0])
        else:               # the ring works in this memory, and the caller keeps its tensor
            whole, back = tensors[0].clone(memory_format=torch.contiguous_format), None
        calls = kinds[0].calls(librar.REDUCE, whole, whole, whole.numel(), root=root)
        return self._start("reduce", calls, then_all([back, lambda: whole]), tensors)

    def _scatter(self, kind, out, flat):
        """Return the call whose result goes to block rank of flat, and how it gets to out."""
        block = flat.view(-1)[self.numbers[0] * out.numel():][:out.numel()]
        call = kind.call(librar.REDUCE_SCATTER, flat, block, block.numel())
        return call, lambda: out.copy_(block.view(out.shape))

    def _scatter_many(self, name, outputs, inputs, flats, opts):
        """inputs: as gloo gets them; flats(): the same, each in one piece that may change."""
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        kinds, why = self._reductions(librar.REDUCE_SCATTER, outputs, op)
        size = self.numbers[1]
        why = why or self._too_long(max(map(nbytes, outputs)) * size)
        if why and name == "reduce_scatter":
            return self._gloo(name, why, outputs, inputs, opts)
        refuse_shared(name, *outputs)
        made = flats()
        if any(flat.numel() != out.numel() * size for flat, out in zip(made, outputs)):
            raise ValueError(f"{name}: an input is not {size} times as long as its output")
        if why:
            return self._gloo_parts(name, why, [self.gloo.allreduce(flat.view(-1), op)
                                                for flat in made],
                                    lambda: self._own_blocks(outputs, made))
        calls, steps = zip(*map(self._scatter, kinds, outputs, made))
        return self._start(name, calls, then_all(steps), outputs)

    def _own_blocks(self, outputs, flats):
        """Copy this rank's block of each tensor to its output."""
        for out, flat in zip(outputs, flats):
            out.copy_(flat.view(self.numbers[1], -1)[self.numbers[0]].view(out.shape))
        return outputs

    def reduce_scatter(self, outputs, inputs, opts=None):
        """The reduction of element rank of a list."""
        def flats():
            return [torch.cat([part.reshape(-1) for part in parts]) for parts in inputs]

        return self._scatter_many("reduce_scatter", listed(outputs), inputs, flats, opts)

    def _reduce_scatter_base(self, output, tensor, opts=None):
        return self._scatter_tensors("_reduce_scatter_base", [output], [tensor], opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        """The reduction of block rank of a tensor; of several tensors."""
        return self._scatter_tensors("reduce_scatter_tensor_coalesced", outputs, inputs, opts)

    def _scatter_tensors(self, name, outputs, inputs, opts):
        def flats():
            return [tensor.clone(memory_format=torch.contiguous_format) for tensor in inputs]

        return self._scatter_many(name, outputs, inputs, flats, opts)

    # ------------------------------------------------------------ the rest

    def alltoall(self, outputs, inputs, opts=None):
        """Tensor number r to rank r. gloo has this for tensors in one piece only."""
        if len(outputs) != self.numbers[1] or len(inputs) != self.numbers[1]:
            raise ValueError(f"alltoall: not {self.numbers[1]} tensors")
        refuse_shared("alltoall", *outputs)
        source = torch.cat([as_bytes(tensor) for tensor in inputs])
        parts = [torch.empty_like(out, memory_format=torch.contiguous_format) for out in outputs]
        lengths = [nbytes(part) for part in parts]
        target = torch.empty(sum(lengths), dtype=torch.uint8)
        work = self.gloo.alltoall_base(target, source, lengths, [nbytes(t) for t in inputs],
                                       opts or dist.AllToAllOptions())

        def spread():
            for out, part, found in zip(outputs, parts, target.split(lengths)):
                as_bytes(part).copy_(found)
                out.copy_(part)
            return outputs

        return self._gloo_parts("alltoall", None, [work], spread)

    def shutdown(self):
        """Leave the ring. PyTorch 2 calls this when the group is destroyed; without it the ring
        is left when the group is dropped, or at the end of the process."""
        if self.ring:
            self.ring.close()

    abort = shutdown

    def name(self):                     # pylint: disable=missing-function-docstring
        return "rar"

    _get_backend_name = getBackendName = name

    # PyTorch 2 gives a group these, and looks for them in a backend in C++ otherwise.
    group_name = group_desc = ""

    def _set_group_name(self, name):
        self.group_name = name

    def _set_group_desc(self, desc):
        self.group_desc = desc

    # Names of later versions.
    all_gather_single = _allgather_base
    reduce_scatter_single = _reduce_scatter_base


def by_gloo(name):
    """Return a method that gloo does."""
    def method(self, *args, **kwargs):
        if not name.startswith("_"):
            counts.add(name, "gloo")
        return getattr(self.gloo, name)(*args, **kwargs)

    return method


for _name in GLOO:
    setattr(ProcessGroupRar, _name, by_gloo(_name))


taken_over = []         # the ring of the next group, if it exists already: see recover.py


def create(opts, _):
    """Make a process group: what torch.distributed calls for the backend "rar"."""
    ranks = list(opts.global_ranks_in_group) or list(range(opts.group_size))
    return ProcessGroupRar(opts.store, opts.group_rank, ranks, opts.timeout,
                           opts.group_id or "0", taken_over.pop() if taken_over else None)


def extend(monitored_barrier):
    """Return monitored_barrier() for groups of the ring, too: PyTorch's is for the name gloo."""
    @functools.wraps(monitored_barrier)
    def extended(group=None, timeout=None, wait_all_ranks=False):
        used = group or dist.group.WORLD
        if not isinstance(used, ProcessGroupRar):
            return monitored_barrier(group, timeout, wait_all_ranks)
        return used.monitored_barrier(timeout or used.timeout, wait_all_ranks)

    return extended


def register():
    """Tell torch.distributed the name "rar"."""
    dist.monitored_barrier = extend(dist.monitored_barrier)
    dist.distributed_c10d.monitored_barrier = dist.monitored_barrier
    register_backend = dist.Backend.register_backend
    devices = {"devices": ["cpu"]} if "devices" in inspect.signature(
        register_backend).parameters else {}            # PyTorch 2
    register_backend("rar", create, extended_api=True, **devices)
