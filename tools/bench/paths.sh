#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# paths.sh [SECONDS [ROUNDS]]: what a hop costs by each receive path, in a guest.
#
# A ring of eight namespaces with a veth from each to the next, and packets of the MTU; in the last
# rows superpackets, which XDP never sees. The
# output gives, per chunk received: the CPU time of softirqs (of all softirqs, so a few
# hundredths are timers and RCU), the part of it that the sums take (every second chunk is
# added, at the speed measured when the module was loaded), the rest, and how many chunks were
# forwarded in the packet that brought them. The paths take turns; figures are medians of
# the rounds. Between namespaces the stack leaves checksums open. With csum they are computed,
# as on a wire, and as XDP does in any case.
# The data are integers, because an emulator computes float sums in software.
. "$(dirname "$0")/../../selftests/lib/lib.sh"

n=8
seconds=${1:-5} rounds=${2:-3}
header="path     mtu   csum chunks   by_xdp%  on% ns/hop  sum_ns  rest_ns  hops/s/cpu rest/ingress"

# Prints the ticks of softirqs.
cpu() { awk '/^cpu / { print $8 }' /proc/stat; }

# One round: appends "ns chunks bytes frames on" to the file of its path.
turn()	# PATH MTU CSUM ROUND
{
	local ticks chunks frames bytes on

	chunks=$(total RarRxData) frames=$(total RarRxXdp) bytes=$(total RarRxBytes)
	on=$(total RarTxForward)
	ticks=$(cpu)
	check "$1, MTU $2, checksums $3, round $4" ring -n $n -t i32 -c 1M,1M,1M,1M -z i \
		-d "$seconds" -T 100 -s "rx_path=$1" || return
	ticks=$(($(cpu) - ticks))
	chunks=$(($(total RarRxData) - chunks)) frames=$(($(total RarRxXdp) - frames))
	bytes=$(($(total RarRxBytes) - bytes)) on=$(($(total RarTxForward) - on))
	echo "$((ticks * (1000000000 / $(getconf CLK_TCK)) / chunks)) $chunks $bytes $frames $on" \
		>> "$dir/$1.$2.$3"
}

# Sets $rest.
row()	# PATH MTU CSUM REST-OF-INGRESS
{
	local ns chunks bytes frames on mbps

	mbps=$(awk '$3 == "yes" { print $6 }' /proc/net/rar_reduce)	# i32
	read -r ns chunks bytes frames on < \
		<(sort -n "$dir/$1.$2.$3" | awk '{ a[NR] = $0 } END { print a[int((NR + 1) / 2)] }')
	rest=$((ns - bytes * 500 / chunks / mbps))
	awk -v path="$1" -v mtu="$2" -v csum="$3" -v ns="$ns" -v rest=$rest \
		-v chunks="$chunks" -v frames="$frames" -v on="$on" \
		-v ingress="${4:-$rest}" 'BEGIN {
			printf "%-8s %-5d %-4s %-8d %-8d %-3d %-7d %-7d %-8d %-10d %.2f\n", path, mtu,
				csum, chunks, 100 * frames / chunks, 100 * on / chunks, ns, ns - rest,
				rest, 1e9 / ns, rest / ingress
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
plan $((11 * rounds))
for config in "1500 open" "1500 made" "9000 open"; do
	read -r mtu csum <<< "$config"
	topo_ring $n "$mtu"
	topo_sysctl super_chunks=1 window=262144
	each_rank ethtool -K eth0 gro off
	if [ "$csum" = made ]; then
		each_rank ethtool -K eth0 tx off > /dev/null
		each_rank ethtool -K prev tx off > /dev/null
	fi
	# Another user keeps the program loaded: see run_in_guest.
	rns 0 ip link add held type veth
	rns 0 ip link set held xdpdrv pinned "$xdp_pin"
	for ((round = 1; round <= rounds; round++)); do
		turn ingress "$mtu" "$csum" $round
		turn udp "$mtu" "$csum" $round
		with_xdp on
		turn xdp "$mtu" "$csum" $round
		with_xdp off
	done
	row ingress "$mtu" "$csum"
	ingress=$rest
	row udp "$mtu" "$csum" "$ingress"
	row xdp "$mtu" "$csum" "$ingress"
done
topo_ring $n 1500
topo_sysctl carriers=0 window=262144
for ((round = 1; round <= rounds; round++)); do
	turn ingress 1500 super $round
	turn udp 1500 super $round
done
row ingress 1500 super
row udp 1500 super "$rest"
rm -f "$xdp_pin"
note "$header"
quote "$(cat "$dir/table")"
rm -r "$dir"
finish
