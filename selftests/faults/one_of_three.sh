#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# one_of_three.sh RANK DEAD_MS: the program of each guest of scripts/three-vms. Meanwhile the
# host reads /run/out, and freezes or kills guests. The ranks wait for each other when they
# join.
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

rank=$1 dead_ms=$2

network()	# MTU
{
	ip link set eth0 down
	ip link set eth0 mtu "$1" up
	ip address replace "10.77.0.$((rank + 1))/24" dev eth0
}

# stage NAME GROUP [option of member]: its output becomes NAME.RANK
stage()
{
	local name=$1 group=$2

	shift 2
	member -r "$rank" -n 3 -g "$group" -d "$dead_ms" "$@" > "/run/out/$name.$rank" 2>&1 ||
		echo "failed: $?" >> "/run/out/$name.$rank"
}

export SEED=${RAR_SEED:?}	# all guests use the same data
modprobe virtio_net && modprobe rar || exit
network 9000
stage mtu9000 1 -i 60
network 1500
stage mtu1500 2 -i 60
stage freeze 3 -e
# Rank 1 stands still for longer than its own limits, and for less than those of the others.
if [ "$rank" = 1 ]; then
	dead_ms=1000 stage pause 5 -i 400 -t 1500
else
	dead_ms=60000 stage pause 5 -i 400
fi
stage kill 4 -e
! grep -l failed /run/out/*."$rank"
