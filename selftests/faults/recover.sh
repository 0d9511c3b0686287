#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The recovery samples: ranks in C and in Python form one ring. One rank, or two at once, are
# killed and started again. In the end every rank has the right total.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

steps=300
addresses=(10.77.0.1 10.77.0.2 10.77.0.3)
declare -A pid

start()	# RANK
{
	local program=recover

	[ "$1" != 2 ] || program=../samples/recover.py
	nsenter --net="/run/netns/rar$1" "$program" "$1" $steps "${addresses[@]}" \
		>> "$log.$1" 2>&1 &
	pid[$1]=$!
}

# Let the ranks work for a while, then kill some and start them again.
again()	# RANK...
{
	local r

	sleep 0.7
	for r; do
		kill -KILL "${pid[$r]}"
		wait "${pid[$r]}" 2> /dev/null
	done
	sleep 0.2
	for r; do
		start "$r"
	done
}

# 1 + 2 + 3 times the sum of step modulo 100
total=$((6 * (steps / 100) * 4950))

ends_well()
{
	local r status=0

	for r in 0 1 2; do
		wait "${pid[$r]}" || status=1
		sed "s/^/# /" "$log.$r"
		grep -qx "rank $r: $steps steps, total $total" "$log.$r" || status=1
	done
	return $status
}

need_module
need_file ../samples/recover.py
log=$(mktemp -d)/log
plan 1
topo_up 3
topo_sysctl dead_ms=1000 join_ms=10000
for r in 0 1 2; do
	start $r
done
again 1
again 2
again 0 1
ends_well
result $? "killed ranks are replaced, and the totals are right"
finish
