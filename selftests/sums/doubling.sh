#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_DOUBLING: small all-reduces take about log2 N hops, in groups of any size. All ranks get the
# bits of the documented tree, lost packets are asked for, a group in which a pair of ranks cannot
# reach each other does without, and a rank that dies or falls silent is named.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

# Around the borders of 8 to 64 KiB, too.
lengths="1,2047,2048,2049,4096,4097,8193,16384,16385"

matrix()
{
	local n

	short_matrix -2
	check "N=4, link-local addresses" ring -n 4 -2 -a ll6 -t f32 -c std -p 8
	for n in 6 7 9 13; do
		check "N=$n, all types" ring -n $n -2 -t all -c $lengths -z cior -p 4
	done
	for n in 17 31 33 64; do
		check "N=$n, in one namespace" rns 0 ring -n $n -m same -a lo4 -2 -t f32 -c $lengths -p 4
	done
	[ "$(word doubling)" = 65536 ]
	result $? "64 ranks: up to $(word doubling) bytes"
	topo_sysctl direct_bytes=1024
	check "N=4, the border is set" ring -n 4 -2 -t f32 -c 256,257,2048
	[ "$(word doubling)" = 1024 ]
	result $? "up to $(word doubling) bytes"
	topo_sysctl direct_bytes=1
	check "N=4, doubling is switched off" ring -n 4 -2 -t f32 -c 1,256,2048
	[ "$(word doubling)" = -1 ]
	result $? "for no operation"
	topo_sysctl direct_bytes=0
}

same_bits()
{
	local first

	export SEED=1
	check "copied" ring -n 7 -2 -t f32 -c 1,1000,2048,4096
	first=$(word hash)
	check "in place, again" ring -n 7 -2 -t f32 -c 1,1000,2048,4096 -z i
	[ "$first" ] && [ "$(word hash)" = "$first" ]
	result $? "the same bits in every run"
	check "integers" ring -n 7 -2 -t i32,i64 -c 1,1000,2048,4096
	first=$(word hash)
	check "integers, by ranks" ring -n 7 -t i32,i64 -c 1,1000,2048,4096
	[ "$first" ] && [ "$(word hash)" = "$first" ]
	result $? "integers have the bits of the ring"
	unset SEED
}

lossy()
{
	local before

	short_lossy -2
	topo_netem loss 2%
	check "every collective, lost packets" coll -2 -N rar short
	topo_netem loss 20%
	before=$(total RarTxDirectAsk)
	check "every fifth packet lost" ring -n 7 -2 -t f32 -c 1,64,4096 -p 8 -r 12 -z cior
	[ "$(total RarTxDirectAsk)" -gt "$before" ]
	result $? "then ranks asked $(($(total RarTxDirectAsk) - before)) times"
	topo_netem delay 500us 500us reorder 25% duplicate 10%
	check "N=16, in any order, twice" ring -n 16 -2 -t f32 -c 1,4096 -p 8 -r 10 -z cior
}

# Ranks 2 and 0 of four are peers in the second stage, and no neighbours.
unreachable()
{
	bar 2 0
	check "a pair cannot reach each other: by ranks" ring -n 4 -2 -t f32 -c 1,4096 -p 4
	[ "$(word doubling)" = -1 ]
	result $? "the group does without"
	unbar 2 0
	bar 3 1
	check "so it does if it is another pair" ring -n 4 -2 -t f32 -c 1,4096 -p 4
	[ "$(word doubling)" = -1 ]
	result $? "the group does without again"
	unbar 3 1
	bar 3 0
	check "two ranks that are no peers cannot reach each other" ring -n 6 -2 -t f32 -c 1,4096
	[ "$(word doubling)" = 16384 ]
	result $? "that does not matter"
	unbar 3 0
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 52
	matrix
	same_bits
	lossy
	short_long -2 2 50
	each_rank tc qdisc del dev eth0 root
else
	plan 42
	matrix
	same_bits
fi
unreachable
short_cut_off -2
short_straggler -2 4096
short_black_hole -2 4096
finish
