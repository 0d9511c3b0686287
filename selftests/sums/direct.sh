#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_DIRECT: small all-reduces and broadcasts take a single hop, from each rank to every other.
# The bits are those of the ring, lost packets are asked for, a pair of ranks that cannot reach
# each other is named, and RAR_AUTO then does without.
. "$(dirname "$0")/../lib/lib.sh"

# Lengths around the border (8 KiB), and those of many chunks at any MTU.
mix=(-t all -c "std,1,2047,2048,2049,100k")

matrix()
{
	local n

	for n in 1 2 3 4 5 8 16; do
		check "N=$n" ring -n $n -E -t i32,f32 -c std,2048,2049 -p 8
	done
	check "N=3, all types, in place" ring -n 3 -E "${mix[@]}" -z i
	check "N=3, all types, out of place" ring -n 3 -E "${mix[@]}" -z o
	check "N=5, all types, each rank its mode" ring -n 5 -E "${mix[@]}" -z cior -p 4
	check "N=4, in random order, IPv6" ring -n 4 -E -a 6 -t f32 -c std -x -p 8
	check "N=4, link-local addresses" ring -n 4 -E -a ll6 -t f32 -c std -p 8
	check "N=4, by the UDP socket" ring -n 4 -E -t f32 -c std -s rx_path=udp
	topo_sysctl rx_path=ingress
	check "N=8, in one namespace" rns 0 ring -n 8 -m same -a lo4 -E "${mix[@]}" -z cior -p 8
	check "N=17, too many for it" rns 0 ring -n 17 -m same -a lo4 -E -t i32 -c 1,2048 -p 4
	[ "$(word direct)" = -1 ]
	result $? "17 ranks: by the ring"
}

same_bits()
{
	local plain

	export SEED=1
	check "by ranks" ring -n 5 -t f32 -c 1,1000,2048,2049
	plain=$(word hash)
	check "direct" ring -n 5 -E -t f32 -c 1,1000,2048,2049
	[ "$plain" ] && [ "$(word hash)" = "$plain" ]
	result $? "direct has the bits of the ring"
}

lossy()
{
	local before

	while read -r name parameters; do
		# shellcheck disable=SC2086 # a list
		topo_netem $parameters || exit
		check "$name" ring -n 4 -E -t f32 -c std,1,2048,2049 -p 8 -z cior
	done <<- END
		loss loss 2%
		duplicates duplicate 5%
		all loss 1% duplicate 2% delay 500us 500us reorder 25%
	END
	topo_netem loss 2%
	check "every collective, lost packets" coll -E -N rar short
	topo_netem loss 20%
	before=$(total RarTxDirectAsk)
	check "every fifth packet lost" ring -n 5 -E -t f32 -c 1,64,2048 -p 8 -r 30 -z cior
	[ "$(total RarTxDirectAsk)" -gt "$before" ]
	result $? "then ranks asked $(($(total RarTxDirectAsk) - before)) times"
}

# The delays of the links decide the time: one hop instead of 2(N-1).
one_hop()
{
	local ring

	topo_netem delay 20ms
	check "long links, ring" ring -n 4 -t f32 -c 1000 -r 5
	ring=$(word us)
	check "long links, direct" ring -n 4 -E -t f32 -c 1000 -r 5
	note "4 KB, 4 ranks, 20 ms per hop: $ring us by the ring, $(word us) us direct"
	[ $((100 * $(word us))) -le $((35 * ring)) ]
	result $? "long links: direct in $((100 * $(word us) / ring)) % of the time, should be 17"
	each_rank tc qdisc del dev eth0 root
}

# cut NS FROM: packets of rank FROM do not reach the rank in NS.
cut() { rns "$1" ip route add unreachable "10.77.0.$(($2 + 1))/32"; }
mend() { rns "$1" ip route del unreachable "10.77.0.$(($2 + 1))/32"; }

# Ranks 0 and 2 of four are no neighbours: the ring stands, a direct exchange does not.
unreachable()
{
	topo_sysctl join_ms=3000
	cut 2 0
	check "a pair cannot reach each other: auto" ring -n 4 -A -t f32 -c 1,2048 -p 4
	[ "$(word direct)" = -1 ]
	result $? "auto does without"
	! out=$(ring -n 4 -E -t f32 -c 1 2>&1) && grep -q "rank 0 other 2\|rank 2 other 0" <<< "$out"
	result $? "the pair is named: $(grep -m 1 rank <<< "$out")"
	mend 2 0
	topo_sysctl join_ms=30000
}

# The same when the group runs: both ends are alive, but one no longer answers the other.
cut_off()
{
	topo_sysctl dead_ms=1000
	(sleep 3; cut 2 0) &
	! out=$(ring -n 4 -E -t f32 -c 64 -d 30 2>&1) && grep -qi "silent" <<< "$out"
	result $? "cut off from each other while it runs: $(grep -m 1 -i silent <<< "$out")"
	wait $!
	mend 2 0
	topo_sysctl dead_ms=5000
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 32
	matrix
	same_bits
	lossy
	one_hop
else
	plan 22
	matrix
	same_bits
fi
unreachable
cut_off
finish
