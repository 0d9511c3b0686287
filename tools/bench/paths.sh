#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# paths.sh [SECONDS]: what a hop costs by each receive path, in a guest.
#
# A ring of eight namespaces, a veth from each to the next one, packets of the MTU. Told
# are, per chunk received: the CPU time of softirqs, of that what the sums take (every
# second chunk is added, at the speed measured when the module was loaded), and the
# rest; and how many chunks went on in the packet that brought them.
. "$(dirname "$0")/../../selftests/lib.sh"

n=8
seconds=${1:-10}
header="path     mtu   chunks   by_xdp%  on% ns/hop  sum_ns  rest_ns  hops/s/cpu"

# Ticks of softirqs
cpu() { awk '/^cpu / { print $8 }' /proc/stat; }

total()	# COUNTER
{
	local r sum=0

	for ((r = 0; r < n; r++)); do sum=$((sum + $(counter $r "$1"))); done
	echo $sum
}

row()	# PATH MTU
{
	local ticks chunks frames bytes mbps on

	chunks=$(total RarRxData) frames=$(total RarRxXdp) bytes=$(total RarRxBytes)
	on=$(total RarTxForward)
	ticks=$(cpu)
	check "$1, MTU $2" ring -n $n -t f32 -c 1M -z i -d "$seconds" -T 100 \
		-s "rx_path=$1" || return
	ticks=$(($(cpu) - ticks))
	chunks=$(($(total RarRxData) - chunks)) frames=$(($(total RarRxXdp) - frames))
	bytes=$(($(total RarRxBytes) - bytes)) on=$(($(total RarTxForward) - on))
	mbps=$(awk '$3 == "yes" { print $4 }' /proc/net/rar_reduce)	# f32
	awk -v path="$1" -v mtu="$2" -v ticks="$ticks" -v chunks="$chunks" -v frames="$frames" -v on="$on" \
		-v bytes="$bytes" -v mbps="$mbps" -v hz="$(getconf CLK_TCK)" 'BEGIN {
			ns = ticks * 1e9 / hz / chunks
			sum = bytes / chunks / 2 / mbps * 1e3
			printf "%-8s %-5d %-8d %-8d %-3d %-7d %-7d %-8d %d\n", path, mtu, chunks,
				100 * frames / chunks, 100 * on / chunks, ns, sum, ns - sum, 1e9 / ns
		}' >> "$dir/table"
}

with_xdp()	# on|off
{
	local r

	for ((r = 0; r < n; r++)); do
		if [ "$1" = on ]; then
			rns $r ip link set prev xdpdrv pinned "$xdp_pin" || return
		else
			rns $r ip link set prev xdp off
		fi
	done
}

need_module
need_xdp
dir=$(mktemp -d)
plan 6
for mtu in 1500 9000; do
	topo_ring $n $mtu
	topo_sysctl super_chunks=1 window=262144
	each_rank ethtool -K eth0 gro off
	row ingress $mtu
	row udp $mtu
	with_xdp on
	row xdp $mtu
	with_xdp off
done
rm -f "$xdp_pin"
note "$header"
quote "$(cat "$dir/table")"
rm -r "$dir"
finish
