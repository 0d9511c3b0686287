#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_DIRECT: small all-reduces and broadcasts take a single hop, from each rank to every other.
# The bits are those of the ring, lost packets are asked for, a pair of ranks that cannot reach
# each other is named, and RAR_AUTO then does without.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

matrix()
{
	short_matrix -E
	check "N=4, link-local addresses" ring -n 4 -E -a ll6 -t f32 -c std -p 8
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

	short_lossy -E
	topo_netem loss 2%
	check "every collective, lost packets" coll -E -N rar short
	topo_netem loss 20%
	before=$(total RarTxDirectAsk)
	check "every fifth packet lost" ring -n 5 -E -t f32 -c 1,64,2048 -p 8 -r 12 -z cior
	[ "$(total RarTxDirectAsk)" -gt "$before" ]
	result $? "then ranks asked $(($(total RarTxDirectAsk) - before)) times"
}

# Ranks 0 and 2 of four are no neighbours: the ring works, a direct exchange does not.
unreachable()
{
	topo_sysctl join_ms=3000
	bar 2 0
	check "a pair cannot reach each other: auto" ring -n 4 -A -t f32 -c 1,2048 -p 4
	[ "$(word direct)" = -1 ]
	result $? "auto does without"
	! out=$(ring -n 4 -E -t f32 -c 1 2>&1) && grep -q "rank 0 other 2\|rank 2 other 0" <<< "$out"
	result $? "the pair is named: $(grep -m 1 rank <<< "$out")"
	unbar 2 0
	topo_sysctl join_ms=30000
}

# Packets from rank 2 to rank 0 pass a router. Its link to rank 0 becomes narrow in a running group,
# and it says so: the ring, which never sends from one to the other, would not notice.
narrow()
{
	local router=15 before

	rns $router sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 \
		net.ipv4.conf.eth0.send_redirects=0
	rns 2 ip route add 10.77.0.1/32 via 10.77.0.$((router + 1))
	before=$(counter 2 RarOpsDone)
	(until_runs 2 "$before" && rns $router ip route add 10.77.0.1/32 dev eth0 mtu 1300) &
	! out=$(ring -n 4 -E -t f32 -c 2048 -T 20 -d 60 2>&1) &&
		grep -q "Message too long.*rank 2 other 0" <<< "$out"
	result $? "the path between two ranks becomes narrow: $(grep -m 1 rank <<< "$out")"
	wait $!
	rns $router ip route del 10.77.0.1/32 dev eth0
	rns 2 ip route del 10.77.0.1/32
	rns 2 ip route flush cache
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 34
	matrix
	same_bits
	lossy
	short_long -E 1 35
	each_rank tc qdisc del dev eth0 root
else
	plan 25
	matrix
	same_bits
fi
unreachable
short_cut_off -E
narrow
short_black_hole -E 2048
finish
