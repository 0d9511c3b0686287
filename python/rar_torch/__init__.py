# SPDX-License-Identifier: GPL-2.0 OR MIT
"""rar_torch: PyTorch's collectives by AF_RAR. See Documentation/pytorch.rst.

    import rar_torch
    torch.distributed.init_process_group("rar")
"""
from .group import ProcessGroupRar, register
from .hooks import average_hook, bf16_hook, ring
from .librar import RarError
from .notes import counts
from .recover import Snapshots, recover, requests

__all__ = ["ProcessGroupRar", "RarError", "Snapshots", "average_hook", "bf16_hook", "counts",
           "recover", "requests", "ring"]

register()
