# SPDX-License-Identifier: GPL-2.0
"""tshark with the dissector tools/wireshark/rar.lua, and rar_unseal beside it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools/wireshark"
LUA, UNSEAL = TOOLS / "rar.lua", TOOLS / "rar_unseal"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def tshark(*args, capture=None):
    """Run tshark on a capture file, if there is one. Wireshark 4.4 loads no script for root, so
    another user runs it then.

    Return what it prints, its complaints, and its exit status.
    """
    with tempfile.TemporaryDirectory() as home, open(capture or os.devnull, "rb") as file:
        os.chmod(home, 0o755)
        script = shutil.copy(LUA, home)
        command = ["tshark", *args, *(["-r", "-"] if capture else []), "-X", f"lua_script:{script}"]
        run = subprocess.run([*(NOBODY if os.geteuid() == 0 else ()), *command], stdin=file,
                             env={**os.environ, "HOME": home}, text=True, check=False,
                             errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    complaints = [line for line in run.stderr.splitlines() if not line.startswith("Running as")]
    return run.stdout, complaints, run.returncode


def unseal(key, capture, opened, **env):
    """Run rar_unseal. Return its exit status, and what it prints."""
    run = subprocess.run([sys.executable, UNSEAL, key, capture, opened], check=False, text=True,
                         env={**os.environ, **env}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    return run.returncode, run.stdout
