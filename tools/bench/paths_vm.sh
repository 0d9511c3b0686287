#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# paths_vm.sh GUEST [OPS]: runs in each of the two guests of paths_vms.sh. A guest has every
# second rank of a ring of eight, all at its one device, so each hop is between guests.
. "$(dirname "$0")/../../selftests/lib/lib.sh"

n=8 elements=1000000
guest=$1 ops=${2:-4}
group=1 log=$(mktemp)

here()		# COUNTER: of this namespace
{
	awk -v name="$1" '!n { n = split($0, names); next }
		{ for (i in names) if (names[i] == name) print $i }' /proc/net/rar_netstat
}

cpu() { awk '/^cpu / { print $8 }' /proc/stat; }	# ticks of softirqs

so_far() { echo "$(cpu) $(here RxData) $(here RxXdp) $(here TxForward)"; }

network()	# MTU
{
	local r

	ip link set eth0 down
	ip link set eth0 mtu "$1" up
	ethtool -K eth0 gro off
	for ((r = guest; r < n; r += 2)); do
		ip address replace "10.77.0.$((r + 1))/24" dev eth0
	done
}

members()
{
	local r status=0 pids=()

	for ((r = guest; r < n; r += 2)); do
		member -r $r -n $n -g $group -d 10000 -c $elements -i "$ops" &
		pids+=($!)
	done
	for r in "${pids[@]}"; do wait "$r" || status=1; done
	return $status
}

row()	# PATH MTU
{
	local before after

	group=$((group + 1))
	sysctl -qw "net.rar.rx_path=$1" net.rar.super_chunks=1 net.rar.window=65536
	before=$(so_far)
	members > "$log" 2>&1 || { echo "$1 $2 failed:"; cat "$log"; return; }
	after=$(so_far)
	awk -v path="$1" -v mtu="$2" -v b="$before" -v a="$after" \
		-v hz="$(getconf CLK_TCK)" 'BEGIN {
			split(b, x); split(a, y)
			chunks = y[2] - x[2]
			ns = (y[1] - x[1]) * 1e9 / hz / chunks
			printf "%-8s %-5d %-8d %-8d %-3d %-7d %d\n", path, mtu, chunks,
				100 * (y[3] - x[3]) / chunks, 100 * (y[4] - x[4]) / chunks,
				ns, 1e9 / ns
		}'
}

export SEED=${RAR_SEED:?}	# both guests use the same data
modprobe virtio_net && need_module && need_xdp || exit
for mtu in 1500 9000; do
	network $mtu
	row ingress $mtu
	row udp $mtu
	if ip link set eth0 xdpdrv pinned "$xdp_pin"; then
		row xdp $mtu
		ip link set eth0 xdp off
	else
		echo "xdp $mtu: the device does not take the program"
	fi
done > "/run/out/table.$guest" 2>&1
rm -f "$xdp_pin"
