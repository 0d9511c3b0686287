#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# net.rar.one_host: containers with addresses of their own in network namespaces of one kernel.
# With RAR_BY_HOSTS their ranks add before anything leaves the host. Rank r of the topology is a
# namespace; those that follow one another and have one_host=1 are a host.
. "$(dirname "$0")/../lib/lib.sh"

mix=(-t "i32,f32" -c "std,300k")

# one_host VALUE...: net.rar.one_host of namespace 0, 1, ...
one_host()
{
	local r=0 value

	for value; do
		rns $r sysctl -qw "net.rar.one_host=$value" || return
		r=$((r + 1))
	done
}

# hosts NAME RANKS,... RANKS,... option...: ranks in each namespace; ranks of each host. The bits
# are right for these hosts.
hosts()
{
	local name=$1 layout=$2 want=$3 commas=${3//[^,]/}

	shift 3
	check "$name: all bits are right" ring -H "$layout" -B -J "$want" "$@"
	[ "$(word hosts)" = $((${#commas} + 1)) ]
	result $? "$name: $(word hosts) hosts"
}

bits()
{
	SEED=20261126 ring -t f32 -c "100003,300k" -B "$@"
}

# Only the last rank of each host sends to another host: here the only rank of namespaces 1, 2, 4.
wire()
{
	local r before after=0 want=133 share

	before=$(($(counter 1 RarTxBytes) + $(counter 2 RarTxBytes) + $(counter 4 RarTxBytes)))
	check "what leaves a host: all bits are right" ring -H 1,1,1,1,1 -B -J 2,1,2 -t f32 -c 4M
	for r in 1 2 4; do
		after=$((after + $(counter $r RarTxBytes)))
	done
	share=$((100 * (after - before) / $(word bytes) / 3))
	[ "$share" -ge $((want - 1)) ] && [ "$share" -le $((want + want / 6)) ]
	result $? "what leaves a host: $share % of the tensor, should be $want"
}

# The last rank of a host dies, or its first rank, to which sums go in memory.
dies()
{
	local pid status=0 victim=$1 before

	before=$(counter 0 RarOpsDone)
	ring -H 1,1,1,1,1 -B -J 2,1,2 -t f32 -c 20000x300k -T 100 > "$log" 2>&1 &
	pid=$!
	until_runs 0 "$before" || return
	pkill -KILL "$victim" -x ring -P $pid || return
	wait $pid || status=$?
	quote "$(tail -n 9 "$log")"
	[ $status != 0 ] && grep -q "reason DIED rank $2 " "$log" && ! grep -q "time limit" "$log"
}

need_module
log=$(mktemp)
plan 31
topo_up 5
topo_sysctl rx_path=ingress
hosts "by default, addresses are hosts" 2,1,2 2,1,2 "${mix[@]}"
one_host 1 1 0 1 1
hosts "2 hosts of 2 namespaces, and one" 1,1,1,1,1 2,1,2 "${mix[@]}"
hosts "some have 2 ranks in a namespace" 2,1,1,2,1 3,1,3 "${mix[@]}"
hosts "each rank in its own mode, 4 in flight" 1,2,1,1,1 3,1,2 -z cior -x -p 4 -t f32 -c 300k
hosts "IPv6" 1,1,1,1,1 2,1,2 -a 6 -t f64,i64 -c std
wire
topo_sysctl rx_path=udp
hosts "by the UDP socket" 1,1,1,1,1 2,1,2 "${mix[@]}"
topo_sysctl rx_path=ingress local=0
hosts "packets in a namespace, too" 2,1,1,1,1 3,1,2 "${mix[@]}"
topo_sysctl local=1
topo_netem delay 1ms reorder 25% loss 2% duplicate 5%
hosts "loss, duplicates, reordering" 1,1,1,2,1 2,1,3 -t f32 -c "1M,300k,1k"
each_rank tc qdisc del dev eth0 root
one_host 1 0 1 1 0
hosts "a neighbour without one_host" 1,1,1,1,1 1,1,2,1 "${mix[@]}"
one_host 1 1 1 1 1
hosts "all are one host" 1,1,1,1,1 5 "${mix[@]}"

one_host 0 0 0 0 0
check "hosts by address" bits -H 2,1,2
same=$(word hash)
one_host 1 1 0 1 1
check "hosts of several namespaces" bits -H 1,1,1,1,1 -J 2,1,2
[ "$(word hash)" = "$same" ]
result $? "the same hosts give the same bits"
dies -n 4
result $? "the last rank dies: the others do not wait"
hosts "after that" 1,1,1,1,1 2,1,2 "${mix[@]}"
dies -o 0
result $? "the first rank dies: the others do not wait"
hosts "after that, too" 1,1,1,1,1 2,1,2 "${mix[@]}"
finish
