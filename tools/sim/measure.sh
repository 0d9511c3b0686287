#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# measure.sh [REPEATS]: all-reduces over links whose speed and delay are known, in a guest, for
# tables.py to compare with a simulation. Ranks are namespaces at one bridge. The links are so
# slow that they are the limit, and not the one CPU that all ranks share. Devices get single
# packets. Each line is a set-up and the time of each repeat after the first, us. With mbit=0 the
# CPU is the limit, so this line says how fast it is:
#
#	measured n=4 bytes=1048576 mbit=10 delay_us=1000 loss=0 us=1234,1240,...
. "$(dirname "$0")/../../selftests/lib/lib.sh"

repeats=${1:-11}

# measure N BYTES MBIT DELAY_US LOSS
measure()
{
	local us rate=()

	[ "$3" = 0 ] || rate=(rate "$3mbit")
	topo_netem delay "$4us" "${rate[@]}" loss "$5%" || return
	out=$(ring -n "$1" -t i32 -c $(($2 / 4)) -P "$2" -r "$repeats" -v -T 300 2>&1) ||
		{ quote "$out"; return 1; }
	us=$(sed -n 's/^repeat: i=[1-9][0-9]* us=//p' <<< "$out" | paste -sd,)
	echo "measured n=$1 bytes=$2 mbit=$3 delay_us=$4 loss=$5 us=$us"
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
for n in 2 4 8 16; do
	topo_up $n || skip_all "no network namespaces"
	topo_gso off
	topo_sysctl super_chunks=1
	topo_neighbours
	[ $n != 8 ] || measure $n 1048576 0 0 0 || exit
	for bytes in 4096 65536 1048576; do
		measure $n $bytes 10 1000 0 || exit
	done
	measure $n 262144 10 10000 0 || exit
	measure $n 1048576 10 1000 1 || exit
done
