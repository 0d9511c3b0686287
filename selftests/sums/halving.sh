#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Recursive halving of all-reduces that are too long for doubling, and of reduce-scatters and
# all-gathers. The bits of an all-reduce are those of doubling, in groups of any size, in any mode.
# Lost packets are sent again. A rank that dies or falls silent is named, and so is a path that
# became narrow.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

# Of one chunk to many, not only whole ones; elements of 4 bytes.
lengths="16385,20000,32769,100k,262144"

matrix()
{
	local n

	[ "$(halving 4)" = -1 ]
	result $? "4 ranks: nothing goes so by default"
	[ "$(halving 8)" = 131072 ]
	result $? "8 ranks: up to 128 KiB"
	[ "$(halving 16)" = 262144 ]
	result $? "16 ranks: up to 256 KiB"
	[ "$(shares 16)" = "262144 262144" ]
	result $? "16 ranks: all-gathers and reduce-scatters, too"
	[ "$(halving 6)" = 32768 ]
	result $? "6 ranks: up to 32 KiB"
	[ "$(shares 6)" = "65536 65536" ]
	result $? "6 ranks: all-gathers and reduce-scatters up to twice as much"
	check "N=8, by default" ring -n 8 -2 -t f32 -c "$lengths" -z cior -p 4
	topo_sysctl halving_bytes=2000000
	for n in 2 3 4 5 8 16; do
		check "N=$n" ring -n $n -2 -t i32,f32 -c "$lengths" -p 4
	done
	check "N=7, all types, each rank its mode" ring -n 7 -2 -t all -c "$lengths" -z cior -p 4
	check "N=4, IPv6, in random order" ring -n 4 -2 -a 6 -t f32 -c "$lengths" -x -p 8
	check "N=4, by the UDP socket" ring -n 4 -2 -t f32 -c "$lengths" -s rx_path=udp
	topo_sysctl rx_path=ingress
	check "N=31, in one namespace" rns 0 ring -n 31 -m same -a lo4 -2 -t f32 -c 32769 -z cior
	check "N=5, all lengths in turn" ring -n 5 -2 -t f32 -c std,1,2048,16384,16385,500000,600000 -p 8 -x
	topo_sysctl halving_bytes=1
	check "N=8, switched off" ring -n 8 -2 -t f32 -c 32769
	[ "$(word halving)" = -1 ]
	result $? "for no operation"
	topo_sysctl halving_bytes=2000000
}

# halving N: the longest operation that goes so in a group of N ranks
halving()
{
	out=$(ring -n "$1" -2 -t f32 -c 1) && word halving
}

# The longest all-gather, and reduce-scatter, that takes few hops
shares()
{
	out=$(ring -n "$1" -2 -t f32 -c 1) && echo "$(word gather) $(word scatter)"
}

same_bits()
{
	local first

	export SEED=1
	check "copied" ring -n 7 -2 -t f32 -c 20000,60000
	first=$(word hash)
	check "in place, again" ring -n 7 -2 -t f32 -c 20000,60000 -z i
	[ "$first" ] && [ "$(word hash)" = "$first" ]
	result $? "the same bits in every run"
	check "integers" ring -n 7 -2 -t i32,i64 -c 20000,60000
	first=$(word hash)
	check "integers, by ranks" ring -n 7 -t i32,i64 -c 20000,60000
	[ "$first" ] && [ "$(word hash)" = "$first" ]
	result $? "integers have the bits of the ring"
	unset SEED
}

lossy()
{
	local name parameters before

	while read -r name parameters; do
		# shellcheck disable=SC2086 # a list
		topo_netem $parameters || exit
		before=$(total RarTxRetrans)
		check "$name" ring -n 6 -2 -t f32 -c 16385,40000 -p 8 -r 8 -z cior
		[ $(($(total RarTxRetrans) - before)) -gt 0 ] || [ "$name" = duplicates ]
		result $? "$name: $(($(total RarTxRetrans) - before)) chunks were sent again"
	done <<- END
		loss loss 2%
		duplicates duplicate 5%
		much loss 20%
		all loss 1% duplicate 2% delay 500us 500us reorder 25%
	END
	check "N=16, in any order, with losses" ring -n 16 -2 -t f32 -c 20000 -p 8 -r 4 -z cior
	topo_sysctl direct_bytes=8
	check "every collective" env RAR_HALVING_BYTES=2000000 coll -2 -N rar short
	topo_sysctl direct_bytes=0
}

# Long links: 4 ranks and 128 KiB take 4 hops, and not 6.
long_links()
{
	local ring

	topo_netem delay 20ms
	check "long links, by ranks" ring -n 8 -t f32 -c 32768 -r 5
	ring=$(word us)
	check "long links" ring -n 8 -2 -t f32 -c 32768 -r 5
	note "128 KiB, 8 ranks, 20 ms per hop: $ring us by ranks, $(word us) us by halving"
	[ $((100 * $(word us))) -le $((65 * ring)) ]
	result $? "128 KiB take $((100 * $(word us) / ring)) % of the time by ranks, 65 at most"
	each_rank tc qdisc del dev eth0 root
}

# Rank 3 is killed. The others name it.
killed()
{
	local before

	topo_sysctl dead_ms=1000
	before=$(counter 3 RarOpsDone)
	(until_runs 3 "$before" && ip netns pids rar3 | xargs kill -KILL) &
	! out=$(ring -n 6 -2 -t f32 -c 40000 -d 30 2>&1) && grep -q "rank 3" <<< "$out"
	result $? "a rank dies: $(grep -m 1 "rank 3" <<< "$out")"
	wait $!
	topo_sysctl dead_ms=5000
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 43
	matrix
	same_bits
	lossy
	long_links
else
	plan 30
	matrix
	same_bits
fi
killed
short_straggler -2 40000
short_cut_off -2 40000
short_black_hole -2 40000
finish
