#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two networks between the ranks (RAR_RAIL): they carry the ring together, each as much as it can; one
# that fails, from the start or in the middle, is no error and names nobody; it is used again when it
# is well.
. "$(dirname "$0")/../lib/lib.sh"

n=3
export RAR_RAILS=1

# speed NETWORK MBIT: of what each rank sends there, 0 or 1
speed() { each_rank tc qdisc replace dev "eth$1" root netem limit 10000 rate "$2mbit"; }

# carried NETWORK: bytes that rank 0 has sent there
# shellcheck disable=SC2016 # fields of awk
carried() { rns 0 awk -v dev="eth$1:" '$1 == dev { print $10 }' /proc/net/dev; }

# took COUNT OPTION...: runs a ring; prints the time of the fastest of three operations, us
took()
{
	local count=$1

	shift
	out=$(ring -n $n -t i32 -c "$count" -r 3 -T 100 "$@" 2>&1) || { quote "$out" >&2; echo 0; return; }
	word us
}

# faster NAME COUNT PERCENT: does RAR_RAILS make the ring so much faster? With checkers the processor
# is what limits it.
faster()
{
	local one two need=$3

	[ $slow = 1 ] || need=90
	one=$(RAR_RAILS=0 took "$2")
	two=$(took "$2")
	note "$1: $one us by the first network, $two by both"
	[ "$two" -gt 0 ] && [ $((one * 100 / two)) -ge "$need" ]
	result $? "$1: at least $need % of the speed of the first network alone"
}

# share NAME FROM TO: how much of a run did the second network carry, percent?
share()
{
	local before=("$(carried 0)" "$(carried 1)") part

	took 2M > /dev/null
	before=($(($(carried 0) - before[0])) $(($(carried 1) - before[1])))
	part=$((before[1] * 100 / (before[0] + before[1])))
	note "$1: $part % by the second network"
	[ $part -ge "$2" ] && [ $part -le "$3" ]
	result $? "$1: $2 to $3 % by the second network"
}

# lose NETWORK RULE: packets to rank 1 that match are dropped
lose()
{
	rns 1 nft -f - <<-EOT
		add table netdev lost
		flush table netdev lost
		add chain netdev lost in$1 { type filter hook ingress device eth$1 priority -500; }
		add rule netdev lost in$1 $2 counter drop
	EOT
}

well() { rns 1 nft flush ruleset; }

# fail_network MS: an outage that stays, for the program outage
# shellcheck disable=SC2317 # called by outage
fail_network() { rns 1 ip link set "eth$failing" down; }

# fails NETWORK: it fails while the ring runs
fails()
{
	export failing=$1
	check "network $1 fails while the ring runs: no error" \
		outage -n $n -c 300000 -p 4 -g 1000 -w 500 -k fail_network 1
	# Both had the same speed: .7 of what is left
	[ $(($(word before) * 2 * 10)) -ge $(($(word after) * 7)) ]
	result $? "network $1: after a second the ring has .7 of the other's speed"
	rns 1 ip link set "eth$1" up
	[ "$1" = 0 ] || return
	rns 1 ip -batch - <<-EOT
		address replace fd77::2/64 dev eth0 nodad
		address replace fe80::77:2/64 dev eth0 nodad
	EOT
}

# A network is bad from the start, and well in the middle of a run.
comes_back()
{
	local status=0 before

	lose 1 "udp length > 0"
	ring -n $n -t i32 -c 200k -d 3 -T 100 > "$dir/back" 2>&1 &
	sleep 1
	before=$(carried 1)
	well
	wait $! || status=1
	quote "$(< "$dir/back")"
	result $status "network 1 is bad, and is well again: all bits are right"
	note "by network 1 since: $(($(carried 1) - before)) bytes"
	[ $(($(carried 1) - before)) -gt 1000000 ]
	result $? "network 1 is used again"
}

# bits NAME OPTION...: all bits are right, and RAR_INFO tells of $rails pairs of addresses
bits()
{
	local name=$1

	shift
	check "$name: all bits are right" ring -n "$n" -t i32,f32 -T 100 "$@"
	[ "$(word rails)" = "$rails" ]
	result $? "$name: $(word rails) of $rails pairs of addresses"
}

export -f fail_network rns
need_module
nft list tables > /dev/null 2>&1 || skip_all "no nftables in this kernel"
dir=$(mktemp -d)
plan 37
topo_up $n && topo_rails 1
topo_sysctl dead_ms=1500 carriers=0
big=(-c 800k -r 3)

speed 0 20 && speed 1 20
faster "two equal networks" 2M 170
share "two equal networks" 40 60
speed 1 5
faster "a quarter of the speed" 2M 105
share "a quarter of the speed" 10 30
speed 1 20
each_rank tc qdisc replace dev eth1 root netem limit 10000 rate 20mbit delay 5ms
faster "5 ms longer" 2M 110
speed 1 20

rails=2
bits "two networks" "${big[@]}"
bits "IPv6" "${big[@]}" -a 6
RAR_SECURITY=auth bits "with seals" "${big[@]}"
RAR_SECURITY=encrypt bits "encrypted" "${big[@]}"
n=2 bits "two ranks" "${big[@]}"
topo_sysctl carriers=1
bits "with carriers" "${big[@]}"
topo_sysctl carriers=0 super_chunks=1
bits "single packets" "${big[@]}"
topo_sysctl super_chunks=64 lanes=1
bits "one lane" "${big[@]}"
topo_sysctl lanes=4
rails=1
RAR_RAILS=0 bits "one network" "${big[@]}"
lose 1 "udp length > 0"
bits "a network that is bad from the start" "${big[@]}"
lose 1 "udp length > 1000"
bits "a network that loses full packets" "${big[@]}"
well
each_rank ip link set eth1 mtu 1280
bits "a narrow network" "${big[@]}"
each_rank ip link set eth1 mtu 1500

fails 1
fails 0
# Short operations have no numbers: they are asked for.
RAR_SCHEDULE=4 fails 0
comes_back
finish
