#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_GATHERED: small all-reduces gather all contributions, and each rank adds them. The bits
# are those of the ring, longer operations go by the ring in the same group, and on links
# with a long delay a small operation takes half the time.
. "$(dirname "$0")/../lib/lib.sh"

# Lengths around the border (8 KiB), and those of many chunks at any MTU.
mix=(-t all -c "std,1,2047,2048,2049,100k")

matrix()
{
	local n

	for n in 1 2 3 4 5 8 16; do
		check "N=$n" ring -n $n -G -t i32,f32 -c std,2048,2049 -p 8
	done
	check "N=3, all types, in place" ring -n 3 -G "${mix[@]}" -z i
	check "N=3, all types, out of place" ring -n 3 -G "${mix[@]}" -z o
	check "N=5, all types, each rank its mode" ring -n 5 -G "${mix[@]}" -z cior -p 4
	check "N=4, in random order, IPv6" ring -n 4 -G -a 6 -t f32 -c std -x -p 8
	check "N=4, by the UDP socket" ring -n 4 -G -t f32 -c std -s rx_path=udp
	topo_sysctl rx_path=ingress
	check "N=8, in memory" rns 0 ring -n 8 -m same -a lo4 -G "${mix[@]}" -z cior -p 8
	check "N=3, in calls of 1000 bytes" ring -n 3 -G "${mix[@]}" -P 1000
}

# All contributions must fit into net.rar.mem. Here one operation does: the next one waits.
small_memory()
{
	topo_sysctl mem=$((80 << 10))
	check "N=8, little memory" ring -n 8 -G -t f32 -c 2048,2047,2048,1 -p 1 -r 20 -z cior
	topo_sysctl mem=$((64 << 20))
}

lossy()
{
	while read -r name parameters; do
		# shellcheck disable=SC2086 # a list
		topo_netem $parameters || exit
		check "$name" ring -n 4 -G -t f32 -c std,1,2048,2049 -p 8 -z cior
	done <<- END
		loss loss 2%
		duplicates duplicate 5%
		all loss 1% duplicate 2% delay 500us 500us reorder 25%
	END
}

# The delays of the links decide the time: 3 hops instead of 6.
half_the_hops()
{
	local ring

	topo_netem delay 20ms
	check "long links, ring" ring -n 4 -t f32 -c 1000 -r 5
	ring=$(word us)
	check "long links, gathered" ring -n 4 -G -t f32 -c 1000 -r 5
	note "4 KB, 4 ranks, 20 ms per hop: $ring us by the ring, $(word us) us gathered"
	[ $((100 * $(word us))) -le $((60 * ring)) ]
	result $? "long links: gathered in $((100 * $(word us) / ring)) % of the time, should be 50"
	each_rank tc qdisc del dev eth0 root
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 21
	matrix
	small_memory
	lossy
	half_the_hops
else
	plan 15
	matrix
	small_memory
fi
finish
