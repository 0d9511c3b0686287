#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# sigkill.sh [RUNS]: processes are killed at random moments, and at the worst moment: when a
# rank has a result that its successor still waits for. Then the module is unloaded.
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

runs=${1:-8}

# Kill ranks on one host, or with XDP on several hosts.
at_random()
{
	if [ -n "${RAR_XDP-}" ]; then
		topo_up 4
		check "$runs kills at random moments, chunks in frames" \
			sigkill -n 4 -N rar -r "$runs"
		return
	fi
	check "$runs kills at random moments, chunks in memory" sigkill -n 4 -r "$runs"
	sysctl -qw net.rar.local=0
	check "$runs kills at random moments, chunks in packets" sigkill -n 4 -r "$runs"
	sysctl -qw net.rar.local=1
	topo_up 4
}

unload()
{
	rm -f "$xdp_pin"
	module_unload && modprobe rar
}

need_module
plan $((${RAR_XDP:+-1} + 7))
at_random
for ((rank = 0; rank < 4; rank++)); do
	topo_slow $rank 150ms	# so its successor gets results later
	check "rank $rank is killed with a result that its successor waits for" \
		sigkill -N rar -l $rank
	topo_slow $rank off
done
topo_down
check "the module is unused and can be unloaded" unload
finish
