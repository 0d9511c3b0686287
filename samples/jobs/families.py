#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""families.py FAMILY...: prints a seccomp profile for containers, with sockets of these families only.

The rest is the default profile of podman, which permits all families. AF_RAR is 22:

    families.py 1 2 10 16 22 > profile.json
    podman run --security-opt seccomp=profile.json ...
"""
import json
import sys

DEFAULT = "/usr/share/containers/seccomp.json"


def main():
    """Print the profile."""
    with open(DEFAULT, encoding="utf-8") as file:
        profile = json.load(file)
    rules = []
    for rule in profile["syscalls"]:
        needed = rule.get("includes", {})
        if rule["names"] == ["socket"] or needed.get("caps") or \
                "amd64" not in needed.get("arches", ["amd64"]):
            continue
        rules.append({key: rule[key] for key in ("names", "action", "args", "errnoRet")
                      if rule.get(key) is not None})
    for family in sys.argv[1:]:
        rules.append({"names": ["socket"], "action": "SCMP_ACT_ALLOW",
                      "args": [{"index": 0, "value": int(family), "op": "SCMP_CMP_EQ"}]})
    print(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1,
                      "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}))


main()
