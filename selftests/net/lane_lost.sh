#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A way of several to rank 1 loses what takes it: all packets from one port, the short ones, or those
# of full size. There is no error, all bits are right, the ring is soon fast again, the lane is left
# out, and it is used again when its way is well.
. "$(dirname "$0")/../lib/lib.sh"

n=3
lane=18120	# the third one

# lose RULE: packets to rank 1 that match are dropped; without RULE none are
lose()
{
	rns 1 nft -f - <<-EOT
		add table netdev lost
		flush table netdev lost
		add chain netdev lost in { type filter hook ingress device eth0 priority -500; }
		${1:+add rule netdev lost in $1 counter drop}
	EOT
}

# Packets dropped since the last lose.
lost() { rns 1 nft list ruleset | sed -n 's/.*counter packets \([0-9]*\).*/\1/p'; }

# lose_lane MS: an outage of one lane that stays, for the program outage
# shellcheck disable=SC2317 # called by outage
lose_lane() { lose "udp sport $lost_lane"; }

# Is the lane left out, and was anything lost?
left_out()
{
	note "lanes left out: $(($(total RarLanesLost) - before)), packets lost: $(lost)"
	[ $(($(total RarLanesLost) - before)) -gt 0 ] && [ "$(lost)" -gt 0 ]
}

# running PORT COUNT: a lane is lost while the ring runs
running()
{
	export lost_lane=$1
	lose
	before=$(total RarLanesLost)
	check "port $1 is lost while the ring runs: no error" \
		outage -n "$n" -c "$2" -p 4 -g 1000 -w 500 -k lose_lane 1
	[ $(($(word before) * 10)) -ge $(($(word after) * 7)) ]
	result $? "port $1: after a second the ring has .7 of its speed"
	left_out
	result $? "port $1: the lane is left out"
}

# start NAME RULE ARGUMENT...: a way is bad from the start
start()
{
	local name=$1 rule=$2

	shift 2
	lose "$rule"
	before=$(total RarLanesLost)
	check "$name: all bits are right" ring -n $n -t f32 -T 60 "$@"
	left_out
	result $? "$name: the lane is left out"
}

# A lane is lost, and comes back in the middle of a run.
comes_back()
{
	local back status=0

	lose "udp sport $lane"
	back=$(total RarLanesBack)
	ring -n $n -t f32 -c 200k -d 2 -T 100 > "$dir/back" 2>&1 &
	sleep 0.5
	lose
	wait $! || status=1
	quote "$(< "$dir/back")"
	result $status "a way is well again: all bits are right"
	note "lanes used again: $(($(total RarLanesBack) - back))"
	[ $(($(total RarLanesBack) - back)) -gt 0 ]
	result $? "a way is well again: its lane is used again"
}

# The first port is lost, by which all other packets go as well: no rank seems silent. A quarter
# of the questions is lost, too.
first_port()
{
	topo_sysctl dead_ms=1000
	lose
	before=$(total RarLanesLost)
	ring -n $n -t f32 -c "1k,300k" -d 2 -T 100 > "$dir/first" 2>&1 &
	sleep 0.3
	lose "udp sport 18118"	# for longer than dead_ms
	wait $!
	result $? "the first port is lost while the ring runs: all bits are right"
	quote "$(< "$dir/first")"
	topo_sysctl dead_ms=2000
}

export -f lose_lane lose rns
need_module
nft list tables > /dev/null 2>&1 || skip_all "no nftables in this kernel"
dir=$(mktemp -d)
plan 15
topo_up $n
topo_sysctl dead_ms=2000 super_chunks=1 carriers=0
running $lane 300000
start "a lost port" "udp sport $lane" -c "800k,100k" -r 4
start "only short packets of three ports are lost" "udp sport != 18118 udp length < 1300" \
	-c "93k,200k,291k,390k,471k,555k,666k" -r 4
start "only full packets of a port are lost" "udp sport $lane udp length > 1000" -c 800k -r 4
comes_back
first_port
topo_sysctl super_chunks=64
running 18119 1200000
finish
