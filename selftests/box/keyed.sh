#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Keyed reductions in a group with a box, which combines records on their way to the root. Whatever
# happens to the box, the sums are right: each record counts once.
#
# The namespaces 0, 1, ... are the members; the last namespace of the topology is the box.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
box=4				# its namespace
kills=4
enough=$(mktemp -u)		# once this file exists a job ends

box_is()	# BYTES
{
	rns $box sysctl -qw net.rar.box_mem="$1"
}

load()	# [options of keyed_load]...
{
	keyed_load -N rar -n "$members" "$@"
}

# tell COMMAND...: what the box and the members counted during the command
tell()
{
	local name before status

	declare -A before
	for name in Taken Batches GaveUp; do
		before[$name]=$(counter "$box" RarBox"$name")
	done
	for name in BoxOpened BoxLost BoxReturned TxRetrans; do
		before[$name]=$(all_members Rar"$name")
	done
	"$@"
	status=$?
	echo "# box: taken $(($(counter "$box" RarBoxTaken) - before[Taken]))," \
		"batches $(($(counter "$box" RarBoxBatches) - before[Batches]))," \
		"gave up $(($(counter "$box" RarBoxGaveUp) - before[GaveUp]));" \
		"members: opened $(($(all_members RarBoxOpened) - before[BoxOpened]))," \
		"lost $(($(all_members RarBoxLost) - before[BoxLost]))," \
		"returned $(($(all_members RarBoxReturned) - before[BoxReturned]))," \
		"sent again $(($(all_members RarTxRetrans) - before[TxRetrans]))"
	return "$status"
}

# by_box COMMAND...: it succeeds, and roots take batches of the box meanwhile
by_box()
{
	local before

	before=$(counter "$box" RarBoxBatches)
	tell "$@" && [ "$(counter "$box" RarBoxBatches)" -gt "$before" ]
}

# not_by_box COMMAND...: it succeeds without the box
not_by_box()
{
	local before

	before=$(counter "$box" RarBoxBatches)
	tell "$@" && [ "$(counter "$box" RarBoxBatches)" = "$before" ]
}

legs_netem()	# parameters...
{
	rns "$box" tc qdisc replace dev eth0 root netem limit 10000 "$@"
	rns br tc qdisc replace dev p"$box" root netem limit 10000 "$@"
}

legs_whole()
{
	rns "$box" tc qdisc del dev eth0 root
	rns br tc qdisc del dev p"$box" root
}

bad_legs()	# parameters...
{
	local status

	legs_netem "$@"
	by_box load -w -r 12
	status=$?
	legs_whole
	return "$status"
}

bad_everywhere()
{
	local status

	each_rank tc qdisc replace dev eth0 root netem limit 10000 loss 1% duplicate 1% \
		delay 500us 500us
	by_box load -w -r 12
	status=$?
	each_rank tc qdisc del dev eth0 root
	return "$status"
}

# A path to the box that takes far longer than the one to the root
slow_box()
{
	local status

	legs_netem delay 60ms
	tell load -w -r 6
	status=$?
	legs_whole
	return "$status"
}

# The box is killed and comes back, again and again, while the members work.
restarts()
{
	local i pid status opened before

	opened=$(all_members RarBoxOpened)
	legs_netem delay 1ms		# leaves this script time to act
	load -w -c 60000 -e "$enough" &
	pid=$!
	for ((i = 0; i < kills; i++)); do
		until_open "$opened"
		opened=$(all_members RarBoxOpened)
		sleep 0.$((RANDOM % 5 + 1))
		before=$(all_members RarBoxLost)
		box_is 0
		until_lost "$before"
		box_is 64M
	done
	until_open "$opened"
	sleep 0.3
	: > "$enough"
	wait "$pid"
	status=$?
	rm "$enough"
	legs_whole
	return "$status"
}

# The box says nothing any more, in the middle.
vanishes()
{
	local pid status lost opened

	opened=$(all_members RarBoxOpened)
	lost=$(all_members RarBoxLost)
	load -w -c 60000 -e "$enough" &
	pid=$!
	until_open "$opened"
	sleep 0.3
	ip -n rar"$box" link set eth0 down
	until_lost "$lost"
	: > "$enough"
	wait "$pid"
	status=$?
	rm "$enough"
	ip -n rar"$box" link set eth0 up
	[ "$status" = 0 ] && [ "$(all_members RarBoxLost)" -gt "$lost" ]
}

# One member cannot reach the box, so the box opens for none.
unreachable()
{
	local status

	rns 2 ip route add blackhole 10.77.0.$((box + 1))/32
	not_by_box load -r 6
	status=$?
	rns 2 ip route del blackhole 10.77.0.$((box + 1))/32
	return "$status"
}

# room_for BYTES: a box with so little memory; a batch needs about 100 KB.
room_for()
{
	local gave status

	box_is "$1"
	gave=$(counter "$box" RarBoxGaveUp)
	tell load -w -r 12
	status=$?
	gave=$(($(counter "$box" RarBoxGaveUp) - gave))
	box_is 64M
	[ "$status" = 0 ] && [ "$gave" -gt 0 ]
}

# Members end or are gone: nothing of their jobs stays.
given_back()
{
	local i

	for ((i = 0; i < 200; i++)); do
		! rns "$box" grep -q 'used 0 jobs 0$' /proc/net/rar_box || return 0
		sleep 0.1
	done
	rns "$box" cat /proc/net/rar_box
	return 1
}

# Of records with few keys the root receives fewer chunks than the members send. How many fewer
# depends on the machine: what a batch may wait for others is a time.
fewer()
{
	local sent got

	sent=$(counter "$box" RarBoxTaken)
	got=$(counter "$box" RarTxData)
	by_box load -w -k 500 -c 60000 -r 8 || return
	sent=$(($(counter "$box" RarBoxTaken) - sent))
	got=$(($(counter "$box" RarTxData) - got))
	echo "# $sent chunks went to the box, and $got from there"
	[ $((10 * got)) -lt $((9 * sent)) ]
}

need_module
plan 15
topo_up $((members + 1))
topo_sysctl dead_ms=2000 join_ms=10000
rns 0 sysctl -qw net.rar.box=10.77.0.$((box + 1))
check "a box that is away" not_by_box load -r 6
box_is 64M
check "every key, type, reduction and root" by_box keyed -N rar short
check "records of few keys" fewer
check "more keys than the root has room for" by_box load -w -k 20000 -l 300 -r 8
check "room for nothing" room_for 4096
check "room for a part of a batch" room_for 150000
check "loss on the legs" bad_legs loss 2%
check "duplicates and reordering on the legs" bad_legs delay 1ms 1ms duplicate 10%
check "loss everywhere" bad_everywhere
check "a slow box" slow_box
check "a member cannot reach the box" unreachable
check "the box is killed and restarted" tell restarts
check "the box vanishes" tell vanishes
topo_sysctl join_ms=2000
check "all memory is given back" given_back
check "and the box serves the next group" by_box load -w -r 3
finish
