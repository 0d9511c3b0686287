#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Members and their box in one namespace: every reduction of every type, with NaN and other odd
# values, has the bits of the ring, and the box makes sums.
. "$(dirname "$0")/../lib/lib.sh"

sums()
{
	awk '{ if (++n == 1) for (i = 1; i <= NF; i++) at[$i] = i; else print $at["BoxSums"] }' \
		/proc/net/rar_netstat
}

box_made_some()
{
	echo "# by the box: $(($(sums) - before)) chunks"
	[ "$(sums)" -gt "$before" ]
}

need_module
# The modules stay while the host is a box, and go when it is none, though a group had a job there.
unload()
{
	ring -m threads -n 3 -a lo4 -t f32 -c 1M -d 1 > /dev/null || return
	! rmmod rar_box 2> /dev/null && sysctl -qw net.rar.box_mem=0 && module_unload && modprobe rar
}

plan 3
# The ranks are in this namespace, which has the box, and not in one of their own.
sysctl -qw net.rar.box=127.0.0.1 net.rar.box_mem=64M
before=$(sums)
check "all reductions" env RAR_NETNS_HERE=1 reductions
check "the box takes part" box_made_some
check "the modules can be unloaded" unload
finish
