#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every number of ranks, with borderline counts, types, MTUs and receive paths: each result
# equals the reference, which adds in ring order, bit for bit.
#
# At MTU 1500 all numbers of ranks run all counts in i32 and f32. Otherwise a selection runs
# in which every pair (MTU, path), (MTU, address family) and (path, address family) occurs
# with all types and all counts. The number of ranks varies with the rows.
#
# ring_matrix.sh [few|large|full]; few: some numbers of ranks, MTUs and paths. With RAR_XDP set the
# path xdp takes the place of ingress
. "$(dirname "$0")/../lib/lib.sh"

# MTUs        path     family ranks
pairs="
1280          ingress  4      2
1280          udp      6      5
1500          ingress  6      3
1500          udp      4      4
9000          ingress  4      3
9000          udp      6      2
1500,9000     ingress  6      4
9000,1280     udp      4      3
"
# Several MTUs: MTUs of the ranks' routes to each other, on devices of MTU 9000.

all_ranks()
{
	local n

	for n in 1 2 3 4 5 6 7 8 16; do
		check "N=$n i32 f32 mtu 1500" ring -n $n -c std,1M -p 8
	done
}

# All ranks in place, all out of place, each rank in its own mode.
all_modes()
{
	check "N=3 all types in place" ring -n 3 -t all -c std,100k -z i
	check "N=2 all types out of place" ring -n 2 -t all -c std,100k -z o
	check "N=5 all types, each rank its mode" ring -n 5 -t all -c std,100k -z cior
}

mtus=
set_mtus()	# MTU[,MTU]
{
	mtus=$1
	if [ "${1/,/}" = "$1" ]; then
		topo_mtu "$1"
	else
		# shellcheck disable=SC2086 # a list
		topo_route_mtu ${1//,/ }
	fi
}

one_pair()	# MTUS PATH FAMILY RANKS
{
	[ "$1" = "$mtus" ] || set_mtus "$1"
	[ -z "${RAR_XDP-}" ] || set -- "$1" "${2/ingress/xdp}" "$3" "$4"
	check "N=$4 all types mtu $1 $2 IPv$3" \
		ring -n "$4" -a "$3" -t all -c std,100k -s "rx_path=$2"
}

all_pairs()
{
	local row

	while read -r row; do
		# shellcheck disable=SC2086 # fields
		[ -z "$row" ] || one_pair $row
	done <<< "$pairs"
}

# RAR_INFO names the rank whose link lowers the payload of all.
mixed_routes()
{
	topo_route_mtu 9000 4000 1300 9000
	check "N=4 routes of 9000, 4000, 1300, 9000" ring -n 4 -c std -s rx_path=ingress
	[ "$(word mtu_rank)" = 2 ]
	result $? "RAR_INFO names rank 2 (mtu_rank=$(word mtu_rank))"
	topo_route_mtu 9000
}

# Rank 1 cannot receive what rank 0 may send, and nobody says so: the join finds what passes.
narrow_path()
{
	topo_mtu 9000 1500 9000
	check "a path narrower than its device" ring -n 3 -c std
	note "payload $(word payload)"
	[ "$(word payload)" -gt 1300 ] && [ "$(word payload)" -lt 1500 ]
	result $? "the join finds the size that passes"
	topo_mtu 9000
}

memory_for()	# MB NAME: skips the test NAME if less memory is free
{
	local mb=$(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) / 1024))

	[ $mb -ge "$1" ] && return
	skip "$2" "needs $1 MB of memory, $mb are free"
	return 1
}

large()
{
	memory_for 400 "64 MiB" || return
	check "N=4 64 MiB f32 mtu 9000" ring -n 4 -t f32 -c 64M -s mem=$((80 << 20))
}

huge_16()
{
	memory_for 1300 "N=16 64 MiB" || return
	check "N=16 64 MiB f32 mtu 9000" \
		ring -n 16 -t f32 -c 64M -s mem=$((80 << 20)) -T 900
}

# One element more than 2^31 bytes; both ranks in one namespace share net.rar.mem.
huge_2()
{
	memory_for 4600 "2^31+4 bytes" || return
	check "N=2 2^31+4 bytes f32 on lo" rns 0 \
		ring -n 2 -m same -a lo4 -t f32 -c $(((1 << 29) + 1)) -s mem=$((5 << 30)) -T 1200
}

need_module
if [ "$1" = large ]; then
	plan 1
	topo_up 4 9000
	large
elif [ "$1" = few ]; then
	plan 7
	topo_up 8
	check "N=8 i32 f32 mtu 1500" ring -n 8 -c std,100k -p 8
	check "N=5 all types, each rank its mode" ring -n 5 -t all -c std,100k -z cior
	one_pair 1500 udp 4 3
	one_pair 9000 ingress 6 2
	one_pair 1280 udp 6 3
	narrow_path
elif [ "$1" = full ]; then
	plan 2
	topo_up 16 9000
	huge_16
	huge_2
else
	plan 24
	topo_up 16
	all_ranks
	all_modes
	all_pairs
	mixed_routes
	narrow_path
fi
finish
