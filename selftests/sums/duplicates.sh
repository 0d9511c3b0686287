#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Packets arrive twice, late or not at all: the sums are right and every duplicate is
# counted, in groups with seals as a packet that comes again.
. "$(dirname "$0")/../lib/lib.sh"

copies=RarRxDup
[ -z "${RAR_SECURITY-}" ] || copies=RarDropReplay

received_twice()
{
	local r sum=0

	for ((r = 0; r < topo_n; r++)); do
		sum=$((sum + $(counter $r $copies)))
	done
	echo $sum
}

duplicated()	# N
{
	local before

	before=$(received_twice)
	check "N=$1, every packet twice" \
		ring -n "$1" -t "i32,f32" -c "std,100k" -T 40
	before=$(($(received_twice) - before))
	[ $before -gt 100 ]
	result $? "N=$1: $before duplicates were recognised"
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
plan 6
topo_up 4
topo_netem duplicate 100%
duplicated 3
duplicated 4
topo_netem duplicate 50% delay 2ms 2ms
check "N=4, half of the packets twice, out of order" ring -n 4 -c "std,100k" -T 60
topo_netem loss 5% duplicate 20%
check "N=4, 5 % lost, 20 % twice" ring -n 4 -c "std,100k" -T 60
finish
