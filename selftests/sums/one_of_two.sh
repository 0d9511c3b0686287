#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# one_of_two.sh x86|arm64: the program of each guest of scripts/two-archs. Together the guests
# have three ranks, first one of them on arm64, then two. Rank r writes to /run/out/RING.r.
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

case $1 in
x86) own=("0 2" "1") ;;
arm64) own=("1" "0 2") ;;
esac

# all_done NAME: waits until all ranks have all results, so none needs another any more
all_done()
{
	local i

	for ((i = 0; i < 1200; i++)); do
		[ "$(cat /run/out/"$1".? | grep -c '^rank')" = 3 ] && return
		sleep 0.1
	done
	return 1
}

# ring NAME GROUP DEVICE RANK...: these ranks of a ring, each with an address of its own
ring()
{
	local name=$1 group=$2 device=$3 rank

	shift 3
	for rank in "$@"; do
		ip address replace "10.77.0.$((rank + 1))/24" dev "$device"
		reductions "$rank" "$group" > "/run/out/$name.$rank" 2>&1 &
	done
	wait
	all_done "$name" && ip address flush dev "$device" to 10.77.0.0/24
}

modprobe virtio_net && modprobe rar || exit
sysctl -q net.rar.join_ms=120000	# the other guest may still be booting
ip link set eth0 up
awk '$3 == "yes" { print "adds: " $1 }' /proc/net/rar_reduce > "/run/out/reduce.$1"
# shellcheck disable=SC2086 # lists of ranks
ring one 1 eth0 ${own[0]} && ring two 2 eth0 ${own[1]} || exit
[ "$1" = x86 ] || exit 0
ring x86 3 lo 0 1 2
