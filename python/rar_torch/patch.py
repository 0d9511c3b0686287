# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The ring where a program asks for gloo, also in processes that it makes by multiprocessing."""
import functools
import inspect
import multiprocessing.spawn
import pathlib
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


class First:
    """What a new process reads before it imports the program, and is patched by reading it. It
    has not got the path yet by which this package is found."""

    def __reduce__(self):
        here = str(pathlib.Path(__file__).resolve().parents[1])
        return exec, (f"import sys; sys.path[:] = {[*sys.path, here]!r}; import rar_torch.patch; "
                      "rar_torch.patch.patch()",)


def with_first(function):
    """Return a function that tells new processes what to prepare, and this besides."""
    @functools.wraps(function)
    def patched(*args, **kwargs):
        return {**function(*args, **kwargs), "rar_torch": First()}

    return patched


def patch():
    """Replace what makes process groups, in all places where programs find it."""
    for name in ("init_process_group", "new_group"):
        function = by_rar(getattr(dist, name))
        setattr(dist, name, function)
        setattr(dist.distributed_c10d, name, function)
    spawn = multiprocessing.spawn
    spawn.get_preparation_data = with_first(spawn.get_preparation_data)
