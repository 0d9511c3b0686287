# SPDX-License-Identifier: GPL-2.0 OR MIT
"""python3 -m rar_torch SCRIPT ARGUMENT...: runs a program, with "rar" where it asks for gloo.

python3 -m rar_torch -m MODULE ARGUMENT... runs a module.
"""
import functools
import inspect
import os
import runpy
import sys

import torch.distributed as dist

import rar_torch        # noqa: F401 # pylint: disable=unused-import # has the backend


def by_rar(function):
    """Return a function that makes process groups by the ring instead of by gloo."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def patched(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        if str(bound.arguments.get("backend") or "gloo").lower() == "gloo":
            bound.arguments["backend"] = "rar"
        return function(*bound.args, **bound.kwargs)

    return patched


def patch():
    """Replace what makes process groups, in all places where programs find it."""
    for name in ("init_process_group", "new_group"):
        function = by_rar(getattr(dist, name))
        setattr(dist, name, function)
        setattr(dist.distributed_c10d, name, function)


def main():
    """Run the program as Python would."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    patch()
    if arguments[0] == "-m" and len(arguments) > 1:
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
