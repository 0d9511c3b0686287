#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_AUTO: short operations take the way with the fewest hops, by the number of ranks and the
# length alone: directly, by doubling, or by the ring. Every rank gets the bits of that way, which
# the program "ring" computes from RAR_INFO.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

# Elements of 4 bytes around every border: 8, 16, 32 and 64 KiB.
borders=0,1,2047,2048,2049,4096,4097,8192,8193,16384,16385,100k

# by_size RANKS DIRECT DOUBLING [ring-options]...: of up to so many bytes
by_size()
{
	local n=$1 direct=$2 doubling=$3 run=()

	shift 3
	[[ $* != *same* ]] || run=(rns 0)
	check "N=$n, all lengths" "${run[@]}" ring -n "$n" -A -t i32,f32 -c $borders -z cior -p 4 "$@"
	[ "$(word direct)" = "$direct" ] && [ "$(word doubling)" = "$doubling" ]
	result $? "N=$n: up to $(word direct) bytes directly, up to $(word doubling) by doubling"
}

sizes()
{
	by_size 1 -1 -1
	by_size 2 32768 65536
	by_size 3 32768 8192
	by_size 4 32768 65536
	by_size 5 16384 16384
	by_size 7 16384 32768
	by_size 8 16384 65536
	by_size 11 8192 32768
	by_size 16 8192 65536
	by_size 17 -1 32768 -m same -a lo4
	by_size 33 -1 32768 -m same -a lo4
}

# The border that an administrator sets at rank 0 holds for both ways.
by_sysctl()
{
	each_rank sysctl -qw net.rar.direct_bytes=64
	rns 0 sysctl -qw net.rar.direct_bytes=20000
	by_size 4 16384 16384
	rns 0 sysctl -qw net.rar.direct_bytes=7
	by_size 4 -1 -1
	each_rank sysctl -qw net.rar.direct_bytes=0
}

# The length decides, and nothing that was measured.
same_bits()
{
	local first way

	export SEED=1
	check "long links" ring -n 7 -A -t f32 -c $borders
	first=$(word hash)
	[ "$netem" = 0 ] || topo_netem
	check "short links" ring -n 7 -A -t f32 -c $borders
	[ "$first" ] && [ "$(word hash)" = "$first" ]
	result $? "the same bits on any links"
	for way in -E -2; do
		check "one length" ring -n 7 -A -t f32 -c "$([ $way = -E ] && echo 2000 || echo 8000)"
		first=$(word hash)
		check "ring $way" ring -n 7 $way -t f32 -c "$([ $way = -E ] && echo 2000 || echo 8000)"
		[ "$first" ] && [ "$(word hash)" = "$first" ]
		result $? "they are the bits of ring $way"
	done
	unset SEED
}

# Ranks 0 and 2 of four are no neighbours.
unreachable()
{
	bar 2 0
	check "a pair cannot reach each other: by ranks" ring -n 4 -A -t f32 -c 1,4096 -p 4
	[ "$(word direct)" = -1 ] && [ "$(word doubling)" = -1 ]
	result $? "the group does without"
	unbar 2 0
}

need_module
topo_up 16 || skip_all "no network namespaces"
netem=0
! modprobe -q sch_netem || netem=1
plan $((37 + (netem ? 7 : 0)))
sizes
by_sysctl
if [ "$netem" = 1 ]; then
	short_lossy -A
	topo_netem loss 2%
	check "every collective, lost packets" coll -A -N rar short
	short_long -A 1 35
fi
same_bits
unreachable
finish
