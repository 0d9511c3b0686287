#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Ranks that share a host, a namespace or a process; listeners; ordinary users;
# devices that have routes of their own.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/networks.sh
. lib/networks.sh

mix=(-t "i32,f32" -c "std,300k")

# Four ranks in rar0 send packets to each other: the bits are right, and no packet takes the
# UDP socket's path.
shares() # NAME ring-option...
{
	local name=$1

	shift
	check "$name" rns 0 ring -n 4 "${mix[@]}" "$@"
	[ "$(word encap)" = 0 ] && [ "$(word ingress)" -gt 100 ]
	result $? "$name: $(word ingress) packets at the ingress hook, $(word encap) at the socket"
}

# Chunks that ranks of rar0 have added, by any arithmetic.
added() { echo $(($(counter 0 RarReduceSimd) + $(counter 0 RarReduceScalar))); }

# Ranks in rar0 hand over in memory: the bits are right, and no packet carries data. Of $at_once
# runs, one at least passes all ranks at once. Of the chunks that come, half are partial sums, to
# which a rank adds.
at_once=4
in_memory() # NAME ring-option...
{
	local name=$1 data runs round chunks sums

	shift
	data=$(counter 0 RarTxData)
	runs=$(counter 0 RarRxLocal)
	round=$(counter 0 RarRxRound)
	chunks=$(counter 0 RarRxData)
	sums=$(added)
	check "$name" rns 0 ring "$@"
	chunks=$(($(counter 0 RarRxData) - chunks))
	sums=$(($(added) - sums))
	data=$(($(counter 0 RarTxData) - data))
	runs=$(($(counter 0 RarRxLocal) - runs))
	round=$(($(counter 0 RarRxRound) - round))
	[ "$data" = 0 ] && [ "$runs" -gt 100 ] && [ "$round" -gt $((runs / at_once)) ]
	result $? "$name: $runs runs in memory, $round of them at once, $data chunks in packets"
	[ $((2 * sums)) = "$chunks" ]
	result $? "$name: $sums of $chunks chunks added"
}

# Two rings at once; neither keeps the other waiting.
two_rings()
{
	local first

	rns 0 ring -n 4 -m same -a lo4 -t f32 -c 4M,1k -p 2 -d 1 -T 60 &
	first=$!
	rns 0 ring -n 3 -m same -a lo4 -t f64 -c 1M,100k -p 4 -d 1 -T 60 && wait "$first"
}

# Both ranks of a sample in Python print the same line.
python_sample() # SAMPLE LINE
{
	local got

	[ -e "../samples/$1" ] || { echo "SKIP there are no samples here"; return 4; }
	got=$(rns 0 python3 "../samples/$1") || return
	echo "$got"
	[ "$got" = "$2"$'\n'"$2" ]
}

numpy_sample()
{
	python3 -c "import numpy" 2> /dev/null || { echo "SKIP no NumPy"; return 4; }
	# 2/3 in bf16, rounded before it was added
	python_sample allreduce_numpy.py "3.0 0.5 1000.0 2.0 1.0 1.0 -3.0 0.66796875 2000.0"
}

# Ranks 0 and 1 are in rar0, ranks 2 and 3 in rar1: every second link goes over veth.
two_hosts() # netem-option...
{
	local r status=0 pids=() sent before

	topo_up 4
	ip -n rar0 address add 10.77.0.2/24 dev eth0
	ip -n rar1 address del 10.77.0.2/24 dev eth0
	ip -n rar1 address add 10.77.0.3/24 dev eth0
	ip -n rar1 address add 10.77.0.4/24 dev eth0
	ip -n rar2 link set eth0 down
	ip -n rar3 link set eth0 down
	[ $# = 0 ] || topo_netem "$@" || return
	before=$(counter 0 RarRxLocal)
	sent=$(counter 0 RarTxData)
	for r in 0 1 2 3; do
		SEED=${SEED:-77} rns "$((r / 2))" member -r "$r" -n 4 -g 77 -i 200 &
		pids+=($!)
	done
	for r in "${pids[@]}"; do
		wait "$r" || status=1
	done
	before=$(($(counter 0 RarRxLocal) - before))
	sent=$(($(counter 0 RarTxData) - sent))
	note "$before runs in memory, $sent chunks in packets"
	return $((status || before < 200 || sent < 200))
}

taps=()
listen_on() # RANK DEVICE
{
	local log

	log=$(mktemp)
	rns "$1" tcpdump -Z root -p -n -i "$2" -w /dev/null udp 2> "$log" &
	taps+=($!)
	timeout 20 tail -n +1 -f "$log" --pid=$! | grep -q listening
	rm "$log"
}

listen()
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		listen_on $r eth0
	done
	listen_on 0 lo
	listen_on br br0
}

stop_listening()
{
	kill "${taps[@]}"
	wait "${taps[@]}"
	taps=()
}

with_listeners()
{
	if ! command -v tcpdump > /dev/null; then
		skip "tcpdump on all devices" "no tcpdump"
		skip "tcpdump in one namespace" "no tcpdump"
		return
	fi
	listen
	# On a debug kernel the taps can keep a CPU busy for seconds.
	topo_sysctl dead_ms=30000
	check "tcpdump on all devices" ring -n 4 "${mix[@]}"
	check "tcpdump in one namespace" rns 0 ring -n 4 -m same -a lo4 "${mix[@]}"
	stop_listening 2> /dev/null
}

in_a_vrf()
{
	local r

	if ! topo_vrf; then
		skip "bound to a device in a VRF" "no VRF in this kernel"
		skip "bound to a VRF" "no VRF in this kernel"
		skip "bound to a VRF, with rules" "no VRF in this kernel"
		skip "bound to a VRF, with rules, IPv6" "no VRF in this kernel"
		return
	fi
	check "bound to a device in a VRF" ring -n 4 -a 4 -D eth0 "${mix[@]}"
	check "bound to a VRF" ring -n 4 -a 4 -D vrf0 "${mix[@]}"
	# The UDP socket, which is bound to no VRF, hears nothing there.
	for r in 1 2; do
		rns $r nft add table inet t
		rns $r nft add chain inet t in "{ type filter hook input priority 0; }"
		rns $r nft add rule inet t in ct state new,established counter accept
	done
	topo_sysctl rx_path=auto
	check "bound to a VRF, with rules" ring -n 4 -a 4 -D vrf0 "${mix[@]}"
	check "bound to a VRF, with rules, IPv6" ring -n 4 -a 6 -D vrf0 "${mix[@]}"
	topo_rules_off
	topo_sysctl rx_path=ingress
}

need_module
plan 38
topo_up 4
topo_sysctl rx_path=ingress local=0
shares "4 ranks on one veth address" -m same -a 4
shares "4 ranks on one IPv6 veth address" -m same -a 6
shares "4 ranks on 127.0.0.1" -m same -a lo4
shares "4 ranks on ::1" -m same -a lo6
topo_sysctl local=1
in_memory "in memory, 127.0.0.1" -n 4 -m same -a lo4 "${mix[@]}"
in_memory "in memory, ::1, in random order" -n 3 -m same -a lo6 -x -p 4 "${mix[@]}"
in_memory "in memory, a veth address" -n 4 -m same -a 4 -z i "${mix[@]}"
in_memory "in memory, 2 ranks" -n 2 -m same -a lo4 -z o -t f64 -c 4M
in_memory "in memory, 8 ranks, each in its own mode" -n 8 -m same -a lo4 -z cio "${mix[@]}"
check "two rings at once in memory" two_rings
check "IPv6 link-local addresses with scope" ring -n 4 -a ll6 "${mix[@]}"
check "4 ranks as threads of one process" rns 0 ring -n 4 -m threads -a lo4 "${mix[@]}"
check "uid nobody" rns 0 setpriv --reuid=65534 --regid=65534 --clear-groups \
	"$(command -v ring)" -n 4 -m same -a lo4 "${mix[@]}"
topo_sysctl local=0
with_listeners
topo_sysctl local=1
check "two ranks as threads of one CPython process" rns 0 net/threads.py
check "two ranks as tasks of one asyncio loop, in place" \
	python_sample allreduce_async.py "2.0 1.0 1.0"
check "two ranks with NumPy arrays, in place" numpy_sample
topo_sysctl join_ms=10000
in_a_vrf
check "two hosts with two ranks each" two_hosts
check "two hosts with two ranks each, with loss, duplicates and reordering" \
	two_hosts delay 1ms reorder 25% loss 2% duplicate 5%
finish
