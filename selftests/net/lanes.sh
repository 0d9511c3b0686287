#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Lanes: the chunks of a link come from several UDP ports, so that devices, switches and RPS
# spread them. Small operations and the packets of a join come from the first port. On veth the
# module itself spreads the lanes over CPUs.
. "$(dirname "$0")/../lib/lib.sh"

n=3
big=(ring -n "$n" -t f32 -c "1M,300k" -r 3)
small=(ring -n "$n" -t f32 -c "1k,16" -r 20)

# Count packets to rank 1 before the module's hook, by source port: chunks and others.
watch()
{
	local port

	rns 1 nft -f - <<-EOT
		add table netdev lanes
		flush table netdev lanes
		add chain netdev lanes in { type filter hook ingress device eth0 priority -500; }
		$(for port in {18118..18126}; do
			echo "add rule netdev lanes in udp sport $port @th,72,8 <= 2 counter comment \"chunks=$port\""
			echo "add rule netdev lanes in udp sport $port @th,72,8 > 2 counter comment \"others=$port\""
		done)
	EOT
}

# ports chunks|others: prints the source ports that packets came from
ports()
{
	rns 1 nft list ruleset |
		sed -n "s/.*counter packets [1-9].*comment \"$1=\([0-9]*\)\"/\1/p" | paste -sd ,
}

lanes=18118,18119,18120,18121	# the ports that packets may come from

# only_lanes KIND: do packets come from no port but those of the lanes?
only_lanes()
{
	local port

	for port in $(ports "$1" | tr , ' '); do
		[[ ,$lanes, = *,$port,* ]] || return
	done
}

# from CHUNKS RETRANSMITTED: do chunks come from these ports? Those sent again may come from others.
from()
{
	local port

	[ "$2" != 0 ] || { [ "$(ports chunks)" = "$1" ]; return; }
	for port in ${1//,/ }; do
		[[ ,$(ports chunks), = *,$port,* ]] || return
	done
	only_lanes chunks
}

# expect NAME CHUNKS command...: chunks come from these ports, all else from some of the lanes
expect()
{
	local name=$1 want=$2 again

	shift 2
	watch
	again=$(counter 0 RarTxRetrans)
	check "$name: all bits are right" "$@" -s rx_path=ingress
	again=$(($(counter 0 RarTxRetrans) - again))
	note "chunks from $(ports chunks), others from $(ports others), $again sent again"
	from "$want" "$again" && [[ ,$(ports others), = *,18118,* ]] && only_lanes others
	result $? "$name: chunks come from $want, others from $lanes"
}

# occupy PORT: another process has this port of rank 0 until it is killed. It may have to
# wait, as closed members keep their ports for a while.
occupy()
{
	rns 0 python3 -c "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        s.bind(('', $1))
        break
    except OSError:
        time.sleep(0.1)
print('ready', flush=True)
time.sleep(1000)" > "$dir/occupied" &
	occupant=$!
	until_says "$dir/occupied" ready
}

# Print how often each CPU was woken for packets that came to another CPU.
steered()
{
	local line

	while read -ra line; do
		echo $((16#${line[9]}))
	done < /proc/net/softnet_stat
}

# Receive packet steering (RPS) spreads the flows over the CPUs.
spread()
{
	local before after r why=''

	[ -e /sys/class/net/lo/queues/rx-0/rps_cpus ] || why="this kernel has no packet steering"
	[ "$(nproc)" != 1 ] || why="one CPU"
	if [ -n "$why" ]; then
		skip "flows are spread over CPUs: all bits are right" "$why"
		skip "flows are spread over CPUs: each has some" "$why"
		return
	fi
	for ((r = 0; r < n; r++)); do
		ip netns exec rar$r sh -c 'echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus'
	done
	topo_sysctl lanes=8
	mapfile -t before < <(steered)
	check "flows are spread over CPUs: all bits are right" "${big[@]}" -s rx_path=ingress
	mapfile -t after < <(steered)
	note "wakeups for steered packets on each CPU: before ${before[*]}, after ${after[*]}"
	[ $((after[0] - before[0])) -gt 0 ] && [ $((after[1] - before[1])) -gt 0 ]
	result $? "flows are spread over CPUs: each has some"
}

# hands NAME OPERATOR NUMBER command...: compares, as test(1), the chunks another CPU sends
hands()
{
	local name=$1 op=$2 want=$3 before after

	shift 3
	before=$(total RarTxSpread)
	check "$name: all bits are right" "$@" -s rx_path=ingress
	after=$(total RarTxSpread)
	note "chunks handed to another processor: $((after - before))"
	test $((after - before)) "$op" "$want"
	result $? "$name: chunks handed over $op $want"
}

# While operations run a CPU goes offline and comes back, again and again.
hotplug()
{
	local online=/sys/devices/system/cpu/cpu1/online rounds=0 status=0 before
	local name="a processor goes and comes back: all bits are right"

	[ -e $online ] || { skip "$name" "this kernel keeps its processors" && return; }
	before=$(total RarTxSpread)
	ring -n "$n" -t f32 -c 4M -d 5 -T 100 -s rx_path=ingress > "$dir/hotplug" 2>&1 &
	sleep 1
	while kill -0 $! 2> /dev/null; do
		echo 0 > $online && sleep 0.3 && echo 1 > $online && rounds=$((rounds + 1))
		sleep 0.3
	done
	wait $! || status=1
	quote "$(< "$dir/hotplug")"
	before=$(($(total RarTxSpread) - before))
	note "a processor was taken away and came back $rounds times; handed over: $before chunks"
	[ $rounds -ge 3 ] && [ $before -gt 0 ] || status=1
	result $status "$name"
}

# On a device without a queue the module itself spreads long operations.
processors()
{
	local name

	if [ "$(nproc)" = 1 ]; then
		for name in "long" "short" "one flow" "one processor"; do
			skip "$name: all bits are right" "one CPU"
			skip "$name: chunks handed over" "one CPU"
		done
		skip "a processor goes and comes back: all bits are right" "one CPU"
		return
	fi
	topo_sysctl lanes=4
	hands long -ge 100 "${big[@]}"
	hands short -eq 0 "${small[@]}"
	hands "one processor" -eq 0 taskset -c 1 "${big[@]}"
	hotplug
	topo_sysctl lanes=1
	hands "one flow" -eq 0 "${big[@]}"
}

# A VLAN device has no queue, but the device below it usually has, so nothing is spread.
vlan()
{
	if [ "$(nproc)" = 1 ]; then
		skip "VLAN: all bits are right" "one CPU"
		skip "VLAN: chunks handed over" "one CPU"
		return
	fi
	topo_sysctl lanes=4
	topo_vlan
	hands VLAN -eq 0 "${big[@]}"
}

need_module
nft list tables > /dev/null 2>&1 || skip_all "no nftables in this kernel"
dir=$(mktemp -d)
plan 23
topo_up $n
topo_sysctl dead_ms=1000
expect "default" 18118,18119,18120,18121 "${big[@]}"
expect "small operations" 18118 "${small[@]}"
topo_sysctl lanes=8
lanes+=,18122,18123,18124,18125
expect "lanes=8" "$lanes" "${big[@]}"
occupy 18120
expect "a port is taken" 18118,18119 "${big[@]}"
kill $occupant
topo_sysctl lanes=1
lanes=18118
expect "lanes=1" $lanes "${big[@]}"
processors
spread
vlan
finish
