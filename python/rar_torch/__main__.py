# SPDX-License-Identifier: GPL-2.0 OR MIT
"""python3 -m rar_torch SCRIPT ARGUMENT...: runs a program, with "rar" where it asks for gloo.

python3 -m rar_torch -m MODULE ARGUMENT... runs a module.
"""
import os
import runpy
import sys

from .patch import patch


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
