#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2086 # numbers of namespaces
# Boxes below a box: each adds for its ranks and brings one sum up. Every result has the bits of
# the ring, also if a box on any level is full, away or killed.
#
# Ranks 0, 1, ... are the members. The boxes are the namespaces after them: "top" is above "left" and
# "right". The last namespace of the topology can be a router between a rank and its box.
#
# levels.sh [changes]: sums on all levels; or what a box, or a path to a box, that goes does to them.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
top=4 left=5 right=6
router=7
# shellcheck disable=SC2034 # for lib/box.sh
boxes=("$top" "$left" "$right") box=$top told_members=()

address() { echo "10.77.0.$(($1 + 1))"; }

# set_box NAMESPACE SETTING BOX|-: SETTING of a namespace is the address of a box, or none
set_box()
{
	local value=-

	[ "$3" = - ] || value=$(address "$3")
	rns "$1" sysctl -qw net.rar."$2"="$value"
}

# place BOX...: the box that each member names, in order of the ranks
place()
{
	local r=0 at

	for at; do
		set_box "$r" box "$at"
		r=$((r + 1))
	done
}

# Two boxes with two ranks each
two_below()
{
	place $left $left $right $right
	set_box $left box_up $top
	set_box $right box_up $top
}

# A box with two ranks, and two ranks at the upper box
one_below()
{
	place $top $top $right $right
	set_box $left box_up -
	set_box $right box_up $top
}

# The ranks of each box do not follow one another in the ring
crossed()
{
	place $left $right $left $right
	set_box $left box_up $top
	set_box $right box_up $top
}

# Three levels: two ranks, one more, and one more
chain()
{
	place $left $left $right $top
	set_box $left box_up $right
	set_box $right box_up $top
}

# A short program may end before the boxes open.
in_time()	# COMMAND...
{
	local i

	for ((i = 0; i < 5; i++)); do
		tell "$@" || return
		[ "${told[$top.BoxSums]}" = 0 ] || return 0
	done
	return 1
}

levels() { ring -n "$members" "$@"; }

# few TENTHS COMMAND...: as by_box, and the upper box takes about so many tenths of a contribution
# for each sum. Some come again, where a rank is late.
few()
{
	local n=$1 taken sums

	shift
	by_box "$@" || return
	taken=${told[$top.BoxTaken]} sums=${told[$top.BoxSums]}
	note "$taken contributions for $sums sums"
	[ $((100 * taken)) -ge $((9 * n * sums)) ] && [ $((100 * taken)) -le $((13 * n * sums)) ]
}

# in_turn TENTHS: sums of floating-point numbers have an order. Partial sums go from box to box in the
# order of the ring, so the upper box takes more contributions and questions: how many depends on the
# rank where a block starts.
in_turn()
{
	few "$1" levels -w -t f32,f64 -c std,100k -p 4 -z cior
}

bad_legs()	# TYPES PARAMETER...
{
	on_legs "${*:2}" by_box levels -w -t "$1" -c std,100k -p 4 -z cio
}

# One box has room for a few chunks only, and gives others up.
full()	# BOX
{
	local box=$1

	tight 16000 levels -w -t i32,f32 -c std,1M -p 4 -z cio
}

# Each of the boxes is switched off and on while the members work. Each time the group is a new one:
# ranks whose leg stays closed for three seconds go to the group's box, and remain there for a while.
# On a slow machine a box may be off for so long.
each_restarts()	# BOX...
{
	local box pid opened lost status=0

	for box; do
		in_background levels -w -t i32,f32 -c 30k,3001 -p 4 -z cio -d 100
		goes 0.3
		opened=$(($(all_members RarBoxOpened) - opened))
		sleep 0.3
		job_ends || status=1
		note "box $box: $opened legs were opened again"
		[ "$opened" -ge "$members" ] || status=1
	done
	return "$status"
}

# A ring in the background, see in_background()
working_ring() { in_background levels -w -t i32 -c 30k,3001 -p 4 -z cio -d 100; }

# more_sums BOX SECONDS: waits until a box has made sums since now, at most so long
more_sums()
{
	local end=$((SECONDS + $2)) before

	before=$(counter "$1" RarBoxSums)
	while [ "$SECONDS" -lt "$end" ]; do
		[ "$(counter "$1" RarBoxSums)" -le "$before" ] || return 0
		sleep 0.5
	done
	return 1
}

# A lower box goes away. Its ranks notice, and enter at the box of the group. Then the lower box comes
# back, and its ranks return to it: they try it again half a minute after they entered above.
moves_up()
{
	local pid status=0 opened lost up=no home=no

	one_below
	working_ring
	ip -n rar"$right" link set eth0 down
	until_lost "$lost"
	until_open "$opened"
	more_sums "$top" 5 && up=yes
	ip -n rar"$right" link set eth0 up
	more_sums "$right" 60 && home=yes
	job_ends || status=1
	note "sums at the upper box: $up; at the lower box after its return: $home"
	[ "$status $up $home" = "0 yes yes" ]
}

# The path between two boxes carries no full packet any more. The lower one leaves the upper one,
# so no operation waits for it, and its ranks go on by the ring; later it enters again.
narrow_above()
{
	local pid opened lost

	working_ring
	rns "$right" ip route add "10.77.0.$((top + 1))/32" dev eth0 mtu lock 1300
	until_lost "$lost"
	rns "$right" ip route del "10.77.0.$((top + 1))/32"
	until_open "$opened"
	job_ends && [ "$(all_members RarBoxLost)" -gt "$lost" ]
}

# by_router RANK BOX add|del: packets between them pass the router
by_router()
{
	local rank box

	rank=$(address "$1") box=$(address "$2")
	rns "$1" ip route "$3" "$box"/32 via "$(address "$router")"
	rns "$2" ip route "$3" "$rank"/32 via "$(address "$router")"
	case $3 in
	add) rns "$2" sysctl -qw net.rar.box_allow="$rank/32 link" ;;
	del) rns "$2" sysctl -qw net.rar.box_allow=link ;;
	esac
	rns "$router" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 \
		net.ipv4.conf.eth0.send_redirects=0
	rns "$1" ip route flush cache
	rns "$2" ip route flush cache
}

# A router on the path to the namespace TO has a smaller MTU, and says so. The rank at the one end
# of the path and the box at the other notice. All go on by the ring, and no leg opens as long as
# the path is narrow.
narrow_router()	# RANK BOX TO
{
	local pid status opened lost again

	by_router "$1" "$2" add
	working_ring
	rns "$router" ip route add "$(address "$3")/32" dev eth0 mtu 1300
	until_lost "$lost"
	sleep 3
	again=$(all_members RarBoxOpened)
	rns "$router" ip route del "$(address "$3")/32"
	rns "$1" ip route flush cache
	rns "$2" ip route flush cache
	until_open "$opened"
	job_ends
	status=$?
	by_router "$1" "$2" del
	note "legs opened: $((again - opened)) while it was narrow," \
		"$(($(all_members RarBoxOpened) - again)) later"
	[ "$status" = 0 ] && [ "$again" = "$opened" ] &&
		[ "$(all_members RarBoxOpened)" -ge $((opened + members)) ]
}

# Two ranks name a box that is not below the group's: they come to the group's in the end.
apart()
{
	set_box "$right" box_up -
	few 40 levels -w -t i32 -c std,100k -p 4
}

# Two boxes name each other: neither opens, and the ring does all.
circle()
{
	set_box "$left" box_up "$right"
	set_box "$right" box_up "$left"
	place "$left" "$left" "$right" "$right"
	tell levels -t i32 -c std,100k -p 4 -z cio -d 2 && [ "$(counter "$left" RarJoinsRefused)" -gt 0 ]
}

# every_reduction: three ranks; rank 2 is at the upper box
every_reduction()
{
	local r pids=() status=0

	place "$left" "$left" "$top"
	for r in 0 1 2; do
		rns "$r" reductions "$r" 4711 > "$enough.$r" 2>&1 &
		pids+=($!)
	done
	for r in 0 1 2; do
		wait "${pids[$r]}" || status=1
		quote "$(grep '^rank' "$enough.$r")"
	done
	sort -u <(grep -h -v '^rank' "$enough".?) | wc -l | grep -qx 12 || status=1
	rm "$enough".?
	return "$status"
}

# A group with other sizes, whose tensors travel in another form. It begins when the boxes are open, or
# its short operations may all be over before.
two_below_named()
{
	local -x RAR_BOX_WAIT=9000

	two_below
	"$1" -N rar "${@:2}"
}

settings()
{
	local status=0

	setting box_up 10.1.2.3:18110 '[fd00::1]:4000' - || status=1
	bad_setting box_up host offered 10.1.2 10.1.2.3:0 || status=1
	return "$status"
}

sums()
{
	plan 20
	check "settings" settings
	two_below
	check "two boxes with two ranks each" few 20 levels -w -t i32 -c std,100k -p 4 -z cior
	check "all types" by_box levels -w -t all -c std,30k -p 4 -z cior
	check "sums with an order" in_turn 34
	check "every reduction" in_time every_reduction
	check "exact sums" in_time two_below_named modes exact
	check "quantised sums" in_time two_below_named modes quantised
	check "all collectives" in_time two_below_named coll short
	one_below
	check "a box with two ranks, and two ranks at the upper box" few 30 levels -w -t i32 -c std,100k -p 4
	check "the same, sums with an order" in_turn 38
	chain
	check "three levels" few 20 levels -w -t i32,i64 -c std,100k -p 4 -z cior
	check "three levels, sums with an order" in_turn 26
	crossed
	check "ranks that do not follow one another, sums with an order" in_turn 50
	check "loss between all, sums with an order" bad_legs f32,f64 loss 2%
	two_below
	check "loss between all" bad_legs i32,i64 loss 2%
	check "duplicates and reordering between all" bad_legs i32,f32 delay 1ms 1ms duplicate 5%
	one_below
	check "a box that is not below the group's" apart
	check "two boxes that name each other" circle
	two_below
	box_is 0
	check "no upper box" tell levels -t i32,f32 -c std,100k -p 4 -z cio
	box_is 64M
	check "no room in the upper box" full $top
}

changes()
{
	plan 6
	two_below
	check "no room in a lower box" full $left
	check "boxes on both levels are restarted" \
		on_legs "delay 1ms" each_restarts $left $top $right	# leaves the script time to act
	check "a lower box goes, its ranks enter above and return later" moves_up
	two_below
	check "the path to the upper box becomes narrow" narrow_above
	check "a router to a box becomes narrow" narrow_router 0 $left $left
	check "a router from a box becomes narrow" narrow_router 0 $left 0
}

need_module
topo_up $((router + 1)) || skip_all "no network namespaces"
topo_sysctl dead_ms=2000
for box in "${boxes[@]}"; do box_is 64M; done
box=$top
"${1:-sums}"
finish
