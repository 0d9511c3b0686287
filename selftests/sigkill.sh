#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# sigkill.sh [RUNS]: processes are killed at random moments, and at the worst one: when a
# rank has a result that its successor still waits for. Then the module goes.
. "${BASH_SOURCE[0]%/*}/lib.sh"

runs=${1:-8}

# What rank $1 sends arrives late, so its successor is behind it.
slow_link() { rns "$1" tc qdisc replace dev eth0 root netem delay 150ms; }

unload()
{
	local i

	for ((i = 0; i < 100; i++)); do
		[ "$(< /sys/module/rar/refcnt)" != 0 ] || break
		sleep 0.1
	done
	rmmod rar && modprobe rar
}

need_module
plan 7
check "$runs kills at random moments, chunks in memory" sigkill -n 4 -r "$runs"
sysctl -qw net.rar.local=0
check "$runs kills at random moments, chunks in packets" sigkill -n 4 -r "$runs"
sysctl -qw net.rar.local=1
topo_up 4
for ((rank = 0; rank < 4; rank++)); do
	slow_link $rank
	check "rank $rank is killed with a result that the next waits for" \
		sigkill -N rar -l $rank
	rns $rank tc qdisc del dev eth0 root
done
topo_down
check "the module is unused and goes" unload
finish
