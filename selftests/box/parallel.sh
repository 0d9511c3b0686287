#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Several boxes side by side, among which each operation is divided. Every result has the bits of
# the ring. Each box makes about the same number of sums. If one is away, only its share goes by the
# ring.
#
# Ranks 0, 1, ... are the members; the namespaces after them are the boxes. "parallel.sh times" measures
# sums by 1, 2 and 4 boxes, where all links have 100 Mbit/s in each direction.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
boxes=(4 5 6)

is_box()	# BOX BYTES
{
	local box=$((members + $1))

	box_is "$2"
}

# The addresses of the first N boxes, in the words of "ring -s"
list()	# N [IPv6]
{
	local i text=

	for ((i = 0; i < $1; i++)); do
		if [ -n "${2-}" ]; then
			text+=${text:++}[fd77::$((members + i + 1))]:$port
		else
			text+=${text:++}10.77.0.$((members + i + 1))
		fi
	done
	echo "$text"
}

# side N [options of ring]: sums by N boxes
side()
{
	local n=$1

	shift
	ring -n "$members" -s box="$(list "$n")" "$@"
}

sums_of()	# BOX
{
	counter $((members + $1)) RarBoxSums
}

# shared N COMMAND...: it succeeds, and the first N boxes make about the same number of sums.
shared()
{
	local n=$1 i least=-1 most=0 sums before=()

	shift
	for ((i = 0; i < n; i++)); do before[i]=$(sums_of "$i"); done
	"$@" || return
	for ((i = 0; i < n; i++)); do
		sums=$(($(sums_of "$i") - before[i]))
		echo "# box $i: $sums sums"
		[ "$least" -ge 0 ] && [ "$sums" -ge "$least" ] || least=$sums
		[ "$sums" -le "$most" ] || most=$sums
	done
	[ "$least" -gt 0 ] && [ $((100 * least)) -ge $((85 * most)) ]
}

# Short tensors, which have fewer chunks than boxes, or hardly more
short() { side 3 -w -t i32,f32 -c std -p 4 -z cior -r 5; }

# until_sums BOX: it makes sums.
until_sums()
{
	local before

	before=$(sums_of "$1")
	within 20 more_sums "$1" $((before + 50))
}

# shellcheck disable=SC2317 # called by within
more_sums() { [ "$(sums_of "$1")" -gt "$2" ]; }

# One of two boxes is killed in the middle, and comes back. Its neighbour goes on.
killed()
{
	local pid status before lost

	legs_netem delay 2ms		# leaves this script time to act
	side 2 -w -t f32,i32 -c 100k,3001 -p 4 -z cio -d 100 -e "$enough" > "$enough.out" 2>&1 &
	pid=$!
	if ! { until_sums 0 && until_sums 1; }; then
		kill "$pid"
		return 1
	fi
	lost=$(all_members RarBoxLost)
	is_box 1 0
	within 20 more_lost $((lost + members - 1))
	before=$(sums_of 0)
	sleep 1
	lost=$(($(all_members RarBoxLost) - lost))
	before=$(($(sums_of 0) - before))
	echo "# legs lost: $lost; sums of the other box meanwhile: $before"
	is_box 1 64M
	until_sums 1; status=$?
	: > "$enough"
	wait "$pid" || status=1
	rm "$enough"
	legs_whole
	out=$(cat "$enough.out")
	rm "$enough.out"
	tail -n 5 <<< "$out"
	# Each member has lost one leg, and hardly a chunk of the other box has gone by the ring.
	[ "$status" = 0 ] && [ "$lost" = "$members" ] && [ "$before" -gt 20 ] &&
		[ $((10 * $(word ring0))) -lt "$(word box0)" ] && [ "$(word ring1)" -gt 0 ]
}

# shellcheck disable=SC2317 # called by within
more_lost() { [ "$(all_members RarBoxLost)" -gt "$1" ]; }

# share COMMAND...: it succeeds, the first box makes sums, and the second none.
share()
{
	local -a was made

	was=("$(sums_of 0)" "$(sums_of 1)")
	"$@" || return
	made=($(($(sums_of 0) - was[0])) $(($(sums_of 1) - was[1])))
	echo "# sums: ${made[*]}"
	[ "${made[0]}" -gt 0 ] && [ "${made[1]}" = 0 ]
}

# Jobs for some seconds, as legs may open at any time; the delay leaves the processor time
some() { on_all "delay 1ms" side 2 -t i32,f32 -c 100k,3001 -p 4 -z cio -d $((2 * slow)); }

unreachable()
{
	local status

	rns 2 ip route add blackhole 10.77.0.$((members + 2))/32
	share some
	status=$?
	rns 2 ip route del blackhole 10.77.0.$((members + 2))/32
	return "$status"
}

narrow()
{
	local status i=$((members + 1))

	rns br ip link set p"$i" mtu 1280
	rns "$i" ip link set eth0 mtu 1280
	share some
	status=$?
	rns "$i" ip link set eth0 mtu 1500
	rns br ip link set p"$i" mtu 1500
	return "$status"
}

refuses()
{
	local status

	rns $((members + 1)) sysctl -qw net.rar.box_allow=none
	share some
	status=$?
	rns $((members + 1)) sysctl -qw net.rar.box_allow=link
	return "$status"
}

# One of two boxes has hardly any room: it returns its chunks. The other one may return a few that wait
# too long on a slow machine.
tight()
{
	local status before after

	before=$(counter "$members" RarBoxGaveUp)
	after=$(counter $((members + 1)) RarBoxGaveUp)
	is_box 1 16000
	side 2 -w -t i32,f32 -c std,1M -p 4 -z cio
	status=$?
	is_box 1 64M
	before=$(($(counter "$members" RarBoxGaveUp) - before))
	after=$(($(counter $((members + 1)) RarBoxGaveUp) - after))
	echo "# returned: $before, $after"
	[ "$status" = 0 ] && [ $((20 * before)) -lt "$after" ]
}

vanishes()
{
	local pid status lost

	lost=$(all_members RarBoxLost)
	side 2 -w -t f32,i32 -c 100k,1M -p 4 -z cio -d 100 -e "$enough" &
	pid=$!
	until_sums 1
	ip -n rar$((members + 1)) link set eth0 down
	within 20 more_lost $((lost + members - 1))
	until_sums 0
	status=$?
	: > "$enough"
	wait "$pid" || status=1
	rm "$enough"
	ip -n rar$((members + 1)) link set eth0 up
	return "$status"
}

# On a slow machine a leg may be lost, and some of its share goes by the ring.
lossy() { on_legs "loss 2% delay 1ms" side 2 -w -t i32,f32 -c 100k,1M -p 4 -z cio; }

# Two levels, twice: ranks 0 and 1 at box 2, all others at the first of two boxes side by side
below()
{
	local status before

	before=$(sums_of 2)
	rns $((members + 2)) sysctl -qw net.rar.box_up=10.77.0.$((members + 1))
	rns 0 sysctl -qw net.rar.box=10.77.0.$((members + 3)),10.77.0.$((members + 2))
	rns 1 sysctl -qw net.rar.box=10.77.0.$((members + 3)),10.77.0.$((members + 2))
	rns 2 sysctl -qw net.rar.box="$(list 2 | tr + ,)"
	ring -n "$members" -t i32,f32 -c std,100k -p 4 -r 3
	status=$?
	rns $((members + 2)) sysctl -qw net.rar.box_up=-
	each_rank sysctl -qw net.rar.box=-
	echo "# sums of the lower box: $(($(sums_of 2) - before))"
	return "$status"
}

# bad VALUE ERROR: a list is refused, and nothing changes.
bad()
{
	local text

	text=$(rns 0 bash -c "echo '$1' > /proc/sys/net/rar/box" 2>&1)
	if [[ $text != *"$2"* ]] || [ "$(rns 0 sysctl -n net.rar.box)" != "$kept" ]; then
		echo "# $1: $text; $(rns 0 sysctl -n net.rar.box) instead of $kept"
		return 1
	fi
}

lists()
{
	local status=0 kept=10.0.0.1:1,10.0.0.1:2,10.0.0.3:$port,10.0.0.4:$port

	rns 0 sysctl -qw net.rar.box="10.0.0.1:1, 10.0.0.1:2,10.0.0.3 ,10.0.0.4"
	bad 10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5 "too long" || status=1
	bad 10.0.0.1,10.0.0.1 exists || status=1
	bad 10.0.0.1,10.0.0.1:"$port" exists || status=1
	bad 10.0.0.1,fd00::1 Invalid || status=1
	bad 10.0.0.1, Invalid || status=1
	bad 10.0.0.1,offered Invalid || status=1
	bad -,10.0.0.1 Invalid || status=1
	kept="[fd00::1]:$port,[fd00::2]:7"
	rns 0 sysctl -qw net.rar.box='fd00::1,[fd00::2]:7'
	bad "$(printf '[fd00:1:2:3:4:5:6:%d]:18110,' 1 2 3 4 5 6 7 8 9)" "too long" || status=1
	rns 0 sysctl -qw net.rar.box=-
	! rns 0 sysctl -qw net.rar.box_up=10.0.0.1,10.0.0.2 2> /dev/null && return "$status"
}

# The namespace of a box goes while a job runs.
box_goes()
{
	local pid

	some &
	pid=$!
	sleep 1
	ip netns del rar$((members + 1))
	wait "$pid"
}

# took N: a sum of 1 MiB by N boxes, or by the ring: the median of 9, us. Sets $us.
took()
{
	local i

	for ((i = 0; i < 9; i++)); do
		if [ "$1" = 0 ]; then
			ring -n "$members" -t f32 -c 1M -z i
		else
			side "$1" -w -t f32 -c 1M -z i
		fi || return
	done > "$enough.out"
	us=$(sed -n 's/.* us=\([0-9]*\).*/\1/p' "$enough.out" | percentile 50)
	rm "$enough.out"
	echo "# $1 boxes: $us us"
}

# The link of the only box carries four tensors in each direction, and each of four links one.
times()
{
	local i us time=()

	for ((i = 0; i < members + ${#boxes[@]}; i++)); do
		rns "$i" tc qdisc replace dev eth0 root netem limit 10000 rate 100mbit
		rns br tc qdisc replace dev p"$i" root netem limit 10000 rate 100mbit
	done
	for i in 0 1 2 4; do
		took "$i" || return
		time[i]=$us
	done
	[ $((3 * time[2])) -lt $((2 * time[1])) ] && [ $((3 * time[4])) -lt $((2 * time[2])) ]
}

need_module
if [ "${1-}" = times ]; then
	boxes+=(7)
	plan 1
	topo_up $((members + ${#boxes[@]}))
	for ((i = 0; i < ${#boxes[@]}; i++)); do is_box $i 64M; done
	check "two boxes take less time than one, and four less than two" times
	finish
fi
plan 19
topo_up $((members + ${#boxes[@]}))
topo_sysctl dead_ms=2000
port=$(rns 0 sysctl -n net.rar.port)
check "lists" lists
for ((i = 0; i < ${#boxes[@]}; i++)); do is_box $i 64M; done
check "all types, two boxes" shared 2 side 2 -w -t all -c 97,100k -p 4 -z cior
check "all types, three boxes" shared 3 side 3 -w -t all -c 97,300k -p 4 -z cior
check "three members" shared 2 side 2 -w -n 3 -t i32,f32 -c 100k,1M -p 4 -z cior
check "IPv6" shared 2 ring -w -n $members -a 6 -s box="$(list 2 6)" -t i32,f32 -c 100k,300k
check "short tensors" short
check "broadcasts" side 3 -w -b -t i32,f32 -c std,100k -p 4 -z cior
check "reductions to a root" side 3 -w -R -t i32,f32 -c std,100k -p 4 -z cior
check "exact sums" named "$(list 2 | tr + ,)" modes exact
check "quantised sums" named "$(list 2 | tr + ,)" modes quantised
check "loss on the legs" lossy
check "a box is killed and comes back" killed
check "a member cannot reach one of two boxes" unreachable
check "a narrow path to one of two boxes" narrow
check "one of two boxes lets nobody in" refuses
check "one of two boxes has hardly any room" tight
check "one of two boxes vanishes" vanishes
check "a box below one of two boxes" below
check "the namespace of a box goes" box_goes
finish
