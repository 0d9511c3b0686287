#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A keyed reduction over links that lose, repeat and reorder packets, by RAR_DIRECT and RAR_AUTO.
# With the argument "good", over links that do not.
. "$(dirname "$0")/../lib/lib.sh"

# Full-size packets from rank 2 to the root get lost, and nobody reports it.
narrow()
{
	local before status

	topo_sysctl dead_ms=1000
	before=$(counter 2 RarGroupsJoined)
	(within 20 more 2 RarGroupsJoined "$before" &&
		topo_rules 0 <<< "ip saddr 10.77.0.3 ip length > 1300 drop") &
	keyed -N rar narrow
	status=$?
	wait $!
	topo_rules_off
	topo_sysctl dead_ms=5000
	return "$status"
}

need_module
topo_up 5 || skip_all "no network namespaces"
if [ "${1-}" = good ]; then
	plan 1
	check "by packets" keyed -N rar
	finish
fi
modprobe -q sch_netem || skip_all "no netem in this kernel"
plan 4
check "a narrow path to the root" narrow
topo_netem loss 1% duplicate 2% delay 500us 500us reorder 25% corrupt 1% || exit
check "everything, auto" keyed -A -N rar short
topo_netem loss 20%
before=$(total RarTxRetrans)
check "every fifth packet lost" keyed -N rar short
[ "$(total RarTxRetrans)" -gt "$before" ]
result $? "then chunks were sent $(($(total RarTxRetrans) - before)) times again"
finish
