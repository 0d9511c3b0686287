#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Carriers: runs of chunks in pages, with one header, between ranks in one kernel. They
# bring the bits of other packets, and where the path cuts them the ring goes on without them.
. "$(dirname "$0")/../lib/lib.sh"

n=4
op=(ring -n "$n" -c "200k,100003,3000" -p 2 -T 60)
# share: percent of the chunks that went in carriers since the last call
whole=0 chunks=0
share()
{
	local w c

	w=$(total RarTxWhole) c=$(total RarTxData)
	percent=$((c > chunks ? 100 * (w - whole) / (c - chunks) : 0))
	whole=$w chunks=$c
	note "$percent % of the chunks went in carriers"
}

# moved NAME: how much a counter has grown since the last call with that name
declare -A before
moved()
{
	local now

	now=$(total "$1")
	grown=$((now - ${before[$1]-0}))
	before[$1]=$now
}

# sums NAME MIN MAX command...: right sums, and between MIN and MAX percent went in carriers
sums()
{
	local name=$1 min=$2 max=$3

	shift 3
	share > /dev/null
	check "$name" "$@"
	share
	result $((percent < min || percent > max)) "$name: $min to $max % in carriers"
}

# only_trials NAME command...: right sums, and few carriers that are cut. Every rank sends a trial at
# first, and further ones after a second, two, four ...
only_trials()
{
	local name=$1 seconds=$SECONDS most

	shift
	moved RarDropCut
	check "$name" "$@"
	moved RarDropCut
	seconds=$((SECONDS - seconds + 1))
	for ((most = 1; seconds; seconds /= 2)); do
		((most++))
	done
	most=$((most * n))
	share
	result $((grown > most)) "$name: only trials: $grown, at most $most"
}

hash_of() { "$@" 2>&1 | sed -n 's/.* hash=//p'; }

# The packets of all ranks are seen at the devices that receive them.
with_tap()
{
	local r status pids=()

	for ((r = 0; r < n; r++)); do
		ip netns exec "rar$r" tcpdump -Z root -p -n -i eth0 -s 100 -w /dev/null udp &> /dev/null &
		pids+=($!)
	done
	sleep 1
	"$@"
	status=$?
	kill "${pids[@]}"
	wait "${pids[@]}" 2> /dev/null
	return "$status"
}

# The switch cuts what is longer than a packet, as a network card does.
cutting() { topo_ports tbf rate 100gbit burst 15000 limit 16mb; }
topo_ports()	# parameters of a queue, or none
{
	local p

	for ((p = 0; p < n; p++)); do
		rns br tc qdisc del dev "p$p" root 2> /dev/null
		[ $# = 0 ] || rns br tc qdisc add dev "p$p" root "$@" || return
	done
	return 0
}

segmentation() { each_rank ethtool -K eth0 tx-udp-segmentation "$1"; }

plan 26
need_module
topo_up $n || skip_all "no network namespaces"

for mode in c i o; do
	sums "all types, mode $mode" 80 100 "${op[@]}" -t all -z "$mode"
done
sums "IPv6" 80 100 "${op[@]}" -t f32 -a 6
topo_vlan
sums "in a VLAN" 80 100 "${op[@]}" -t f32 -D eth0.7
topo_up $n

same=(env SEED=7 "${op[@]}" -t "f32,f64")
with=$(hash_of "${same[@]}")
topo_sysctl carriers=0
sums "net.rar.carriers=0" 0 0 "${op[@]}" -t f32
without=$(hash_of "${same[@]}")
[ -n "$with" ] && [ "$with" = "$without" ]
result $? "the same bits with and without"
topo_sysctl carriers=1
rns 1 sysctl -qw net.rar.carriers=0
sums "one rank sends none" 50 80 "${op[@]}" -t f32
rns 1 sysctl -qw net.rar.carriers=1

share > /dev/null
check "captured where they are received" with_tap "${op[@]}" -t f32 -z i
share
result $((percent < 80)) "captured: in carriers"

# The queue cuts what is longer than 15,000 bytes: shorter carriers pass.
cutting
only_trials "cut on the way" "${op[@]}" -t f32 -r 4 -z ci
result $((!grown)) "cut: $grown were noticed"
topo_ports
sums "not cut any more" 80 100 "${op[@]}" -t f32
segmentation off
only_trials "devices that do not segment" "${op[@]}" -t f32
segmentation on

# A path that begins to cut in the middle, and then no longer does.
ring -n $n -t f32 -c 500k -p 2 -d 1 -T 60 > "${TMPDIR:-/tmp}/carriers.$$" 2>&1 &
pid=$!
sleep 0.3
cutting
sleep 0.3
topo_ports
wait $pid
status=$?
quote "$(< "${TMPDIR:-/tmp}/carriers.$$")"
rm -f "${TMPDIR:-/tmp}/carriers.$$"
result $status "a path that cuts for a while"

topo_netem delay 2ms 1ms loss 2% duplicate 2% reorder 10%
check "lost, repeated, reordered" ring -n $n -t f32,i32 -c 100k,30x20k -p 8 -x -z ciro -T 100
finish
