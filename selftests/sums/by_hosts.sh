#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_BY_HOSTS: the ranks of a host add in memory before anything leaves it. The bits are
# right for this order of adding, and links between hosts carry no more than their share.
. "$(dirname "$0")/../lib/lib.sh"

mix=(-t "i32,f32" -c "std,300k")

# by_hosts NAME RANKS,... option...: right bits, and the right number of hosts
by_hosts()
{
	local name=$1 layout=$2 commas=${2//[^,]/}

	shift 2
	check "$name: all bits are right" ring -H "$layout" -B "$@"
	[ "$(word hosts)" = $((${#commas} + 1)) ]
	result $? "$name: $(word hosts) hosts"
}

# Payload that all hosts sent in packets, retransmissions included.
sent()
{
	local r sum=0

	for ((r = 0; r < topo_n; r++)); do
		sum=$((sum + $(counter $r RarTxBytes)))
	done
	echo $sum
}

# wire NAME RANKS,... PERCENT ring-option...: PERCENT of a tensor cross each link between
# hosts
wire()
{
	local name=$1 layout=$2 want=$3 commas=${2//[^,]/} before share

	shift 3
	before=$(sent)
	check "$name: all bits are right" ring -H "$layout" -t f32 -c 4M "$@"
	share=$((100 * ($(sent) - before) / $(word bytes) / (${#commas} + 1)))
	[ "$share" -ge $((want - 1)) ] && [ "$share" -le $((want + want / 6)) ]
	result $? "$name: $share % of the tensor on each link, should be $want"
}

# Slow links decide the time. With 8 ranks on 2 hosts they carry 1.75 tensors by ranks and 1.0
# by hosts.
slow_wire()
{
	local flat hosts

	topo_netem rate 40mbit
	check "slow links, by ranks" ring -H 4,4 -t f32 -c 1M -r 3
	flat=$(word us)
	check "slow links, by hosts" ring -H 4,4 -B -t f32 -c 1M -r 3
	hosts=$(word us)
	note "1 MiB, 8 ranks on 2 hosts, 40 Mbit/s: $flat us by ranks, $hosts us by hosts"
	if [[ ${RAR_KERNEL-} == uml-debug* ]]; then
		skip "slow links: less time by hosts" "this kernel takes longer than the links"
		return
	fi
	[ $((100 * hosts)) -le $((75 * flat)) ]
	result $? "slow links: by hosts in $((100 * hosts / flat)) % of the time, should be 57"
	each_rank tc qdisc del dev eth0 root
}

# A rank dies in the middle: the others are told, also those that hand over in memory.
one_dies()
{
	local pid status=0 before

	before=$(counter 0 RarOpsDone)
	ring -H 3,2 -B -t f32 -c 20000x300k -T 100 > "$log" 2>&1 &
	pid=$!
	until_runs 0 "$before" || return
	pkill -KILL -n -x ring || return
	wait $pid || status=$?
	quote "$(tail -n 9 "$log")"
	[ $status != 0 ] && grep -q "reason DIED rank 4 " "$log" && ! grep -q "time limit" "$log"
}

need_module
log=$(mktemp)
plan 34
topo_up 3
topo_sysctl rx_path=ingress
by_hosts "2 hosts with 2 ranks" 2,2 "${mix[@]}"
by_hosts "3, 1 and 2 ranks, each in its own mode" 3,1,2 -z cio "${mix[@]}"
by_hosts "2 and 3 ranks, in random order, 4 in flight" 2,3 -x -p 4 -z r "${mix[@]}"
by_hosts "1 and 4 ranks, IPv6" 1,4 -a 6 -t f64,i64 -c std
topo_sysctl rx_path=udp
by_hosts "by the UDP socket" 2,2 "${mix[@]}"
topo_sysctl rx_path=ingress local=0
by_hosts "packets within a host, except back" 3,2 "${mix[@]}"
topo_sysctl local=1
by_hosts "one host" 4 "${mix[@]}"
by_hosts "a rank on each host" 1,1,1 "${mix[@]}"
topo_netem delay 1ms reorder 25% loss 2% duplicate 5%
by_hosts "loss, duplicates, reordering" 3,1,2 -t f32 -c "1M,300k,1k"
each_rank tc qdisc del dev eth0 root

bits()
{
	ring -n 3 -t f32 -c "100003,300k" "$@"
}
export SEED=20261122
check "a rank on each host, by ranks" bits
same=$(word hash)
check "a rank on each host, by hosts" bits -H 1,1,1 -B
[ "$(word hash)" = "$same" ]
result $? "a rank on each host: the same bits"

wire "2 hosts, by ranks" 2,2 150
wire "2 hosts, by hosts" 2,2 100 -B
wire "3 hosts, by hosts" 3,1,2 133 -B
slow_wire
one_dies
result $? "a rank dies: the others do not wait"
check "a new ring after that" ring -H 3,2 -B -t f32 -c 300k
by_hosts "one host in memory, 2 ranks" 2 -t f32 -c 1M
finish
