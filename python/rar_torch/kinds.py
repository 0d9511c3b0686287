# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Which types and reductions of PyTorch the ring has."""
import torch

from . import librar

# Type of PyTorch: type of the ring, numbers in an element.
KINDS = {
    torch.float32: (librar.F32, 1), torch.float64: (librar.F64, 1),
    torch.float16: (librar.F16, 1), torch.bfloat16: (librar.BF16, 1),
    torch.int8: (librar.I8, 1), torch.uint8: (librar.U8, 1), torch.int16: (librar.I16, 1),
    torch.int32: (librar.I32, 1), torch.int64: (librar.I64, 1), torch.bool: (librar.U8, 1),
    torch.complex64: (librar.F32, 2), torch.complex128: (librar.F64, 2),
}
for _name, _dtype in (("uint16", librar.U16), ("uint32", librar.U32), ("uint64", librar.U64)):
    if hasattr(torch, _name):       # PyTorch 2.3
        KINDS[getattr(torch, _name)] = (_dtype, 1)

REDUCTIONS = {"SUM": librar.SUM, "AVG": librar.AVG, "PRODUCT": librar.PROD, "MIN": librar.MIN,
              "MAX": librar.MAX, "BAND": librar.BAND, "BOR": librar.BOR, "BXOR": librar.BXOR}
BOOL = {"SUM": librar.MAX, "PRODUCT": librar.MIN, "MIN": librar.MIN, "MAX": librar.MAX,
        "BAND": librar.BAND, "BOR": librar.BOR, "BXOR": librar.BXOR}    # of bytes 0 and 1
LINEAR = (librar.SUM, librar.AVG)       # those of complex numbers
HALVES = (librar.F16, librar.BF16)


def reduction_name(op):
    """Return the name of a ReduceOp."""
    return getattr(op, "op", op).name
