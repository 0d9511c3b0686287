#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_AUTO: rank 0 measures a hop when the group is formed, and chooses which short all-reduces
# go directly, are gathered, or are not cut into blocks. All ranks do as it says, and the bits are
# those that RAR_INFO promises: the program "ring" computes them from whole_bytes.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

# Elements of 4 bytes around every border: 8, 16, 32 and 64 KiB.
borders=0,1,2047,2048,2049,4095,4096,4097,8192,8193,16384,16385,100k

# chose NAME GATHER WHOLE: did the last ring choose these bytes?
chose()
{
	[ "$(word gather)" = "$2" ] && [ "$(word whole)" = "$3" ]
	result $? "$1: gather up to $(word gather), whole up to $(word whole), should be $2 and $3"
}

# told NAME GATHER WHOLE CHOSEN-GATHER CHOSEN-WHOLE ring-options...
told()
{
	local name=$1 gather=$2 whole=$3 so_gather=$4 so_whole=$5 run=()

	shift 5
	rns 0 sysctl -qw net.rar.gather_bytes="$gather" net.rar.whole_bytes="$whole" \
		net.rar.direct_bytes="${direct:-1}" || exit
	[[ $* != *same* ]] || run=(rns 0)
	check "$name" "${run[@]}" ring -A -t i32,f32 -c $borders -z cior -p 4 "$@"
	chose "$name" "$so_gather" "$so_whole"
}

# Only the settings of rank 0 count, rounded down to a number that the table can carry.
by_sysctl()
{
	each_rank sysctl -qw net.rar.gather_bytes=64 net.rar.whole_bytes=16384 || exit
	told "as by ranks" 1 8192 -1 8192 -n 3
	told "N=2, all gathered, 64 KiB whole" 8192 65536 8192 65536 -n 2
	told "N=3, some gathered, 16 KiB whole" 5000 20000 4096 16384 -n 3
	told "N=5, few gathered, 32 KiB whole" 8 32768 8 32768 -n 5
	told "N=4, too few bytes to gather" 7 1 -1 8192 -n 4
	told "all in one kernel, which is not cut" 1 0 -1 65536 -n 3
	told "N=1" 8192 65536 -1 8192 -n 1
	told "N=17, in memory: more than are gathered" 8192 65536 -1 65536 -n 17 -m same -a lo4
	told "N=6, in memory" 8192 65536 8192 65536 -n 6 -m same -a lo4
	direct=2000 told "N=4, some directly, some gathered" 8192 8192 8192 8192 -n 4
	[ "$(word direct)" = 1024 ]
	result $? "directly up to $(word direct), should be 1024"
	each_rank sysctl -qw net.rar.gather_bytes=0 net.rar.whole_bytes=0 net.rar.direct_bytes=0
}

same_bits()
{
	local plain

	export SEED=1
	check "by ranks" ring -n 3 -t f32 -c $borders
	plain=$(word hash)
	check "told to be as by ranks" ring -n 3 -A -t f32 -c $borders \
		-s gather_bytes=1,direct_bytes=1,whole_bytes=8192
	[ "$plain" ] && [ "$(word hash)" = "$plain" ]
	result $? "then the bits are those by ranks"
	topo_sysctl gather_bytes=0 direct_bytes=0 whole_bytes=0
}

# A hop of 20 ms decides by itself: one hop instead of 6.
by_delay()
{
	short_long -A 1 35
	chose "long links" 8192 65536
	[ "$(word hop_us)" -ge 20000 ] && [ "$(word hop_us)" -lt 200000 ]
	result $? "a hop of 20 ms took $(word hop_us) us"
	check "long links, all lengths" ring -n 4 -A -t f32 -c $borders -z cior -p 8
	topo_netem delay 1ms loss 2% duplicate 2%
	check "lossy links" ring -n 4 -A -t f32 -c $borders -z cior -p 8
	each_rank tc qdisc del dev eth0 root
}

need_module
topo_up 5 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 31
	by_sysctl
	same_bits
	by_delay
else
	plan 24
	by_sysctl
	same_bits
fi
finish
