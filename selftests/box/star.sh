#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The aggregation box: every result has the bits of the ring, whoever makes it: the box, the
# ring because the box is away, full, slow or killed, or each of them a part.
#
# Ranks 0, 1, ... are the members; the last namespace of the topology is the box. "star.sh full"
# takes longer: more types, sizes and restarts. "star.sh forms" is a part of it. "star.sh cast"
# does the same with broadcasts, whose root is each rank in turn, and "star.sh reduce" with
# reductions to a root.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
box=4				# its namespace
address=10.77.0.$((box + 1))
types=i32,f32 count=100k repeats=1 kills=1
rooted=()			# options of ring
[ "${1-}" != full ] || types=all count=300k repeats=2 kills=20
[ "${1-}" != cast ] || rooted=(-b)
[ "${1-}" != reduce ] || rooted=(-R)

# star [options of ring]: sums through the box, if it takes part; some members in place, some
# out of place
star()
{
	ring -n "$members" "${rooted[@]}" -s box="$address" "$@"
}

# The line of an open job with sums in the box's /proc file, after the memory in use
open_job()
{
	# shellcheck disable=SC2016 # a program of awk
	rns "$box" awk 'NR == 1 { used = $4 } NR > 2 && $4 == "open" && $8 > 0 && used > 0' \
		/proc/net/rar_box
}

# While members work the box shows their job, its sums and memory; afterwards nothing is used.
shown()
{
	local pid seen=''

	job_begins star -w -t f32 -c 100k -p 2 -d 60
	while [ -z "$seen" ] && kill -0 "$pid" 2> /dev/null; do
		seen=$(open_job)
		sleep 0.02
	done
	job_ends || return
	note "job: ${seen:-never seen}"
	given_back 5 && [ -n "$seen" ]
}

# The box of a group is named, but nobody is there: the ring does all.
dead()
{
	box_is 0
	not_by_box star -t "$types" -c std,"$count" -z cior
}

# There is room for so few rows that most chunks are returned. With 16000 bytes there are fewer than
# the 8 chunks that a rank first sends at once, and none of them is complete before other ranks
# answer. So some find no room even where windows stay small. The legs open before the first
# operation, or all may be over before.
few_rows() { tight "$1" star -w -t i32,f32 -c std,1M -p 4 -z cio; }

# The box has not even room for one chunk: it says so, and the members hardly ask it.
useless()
{
	local asked chunks

	chunks=$(all_members RarRxData)
	few_rows 4096 || return
	asked=${told[$box.BoxTaken]}
	chunks=$(($(all_members RarRxData) - chunks))
	note "asked for $asked chunks, while members received $chunks"
	[ $((4 * asked)) -lt "$chunks" ]
}

# The box says nothing any more, in the middle. The members notice by their operations.
vanishes()
{
	local status

	topo_sysctl dead_ms=30000
	vanish star -w -t f32,i32 -c 100k,1M -p 4 -z cio -d 100
	status=$?
	topo_sysctl dead_ms=2000
	return "$status"
}

# The path to the box is too narrow for the ring's packets.
narrow()
{
	local status

	rns br ip link set p"$box" mtu 1280
	rns "$box" ip link set eth0 mtu 1280
	not_by_box star -t i32 -c std,100k
	status=$?
	rns "$box" ip link set eth0 mtu 1500
	rns br ip link set p"$box" mtu 1500
	return "$status"
}

# Full-size packets from a member to the box get lost in a running group, and nobody reports it. The
# member gives the box up, and the group goes on by the ring.
narrows()
{
	local before pid opened lost status

	before=$(counter 2 RarBoxLost)
	in_background star -w -t f32 -c 100k -p 2 -d 100
	topo_rules "$box" <<< "ip saddr 10.77.0.3 ip length > 1300 drop"
	within 30 more 2 RarBoxLost "$before"
	status=$?
	job_ends || status=1
	topo_rules_off
	return "$status"
}

# Packets from and to the box are lost, duplicated, reordered.
bad_legs()	# PARAMETER...
{
	on_legs "$*" by_box star -w -t i32,f32 -c std,"$count" -p 4 -z cio -r "$repeats"
}

# Receivers merge packets of two blocks, whose numbers follow one another: 8 full chunks each.
merged()
{
	local r before status dropped

	for ((r = 0; r <= box; r++)); do
		rns br ethtool -K p"$r" tso off
	done
	each_rank ethtool -K eth0 tx-udp-segmentation off gro on
	dropped=$(total RarDropChunk)
	before=$(total RarRxIngress)
	by_box ring -w -n "$members" "${rooted[@]}" -a 6 -s box=fd77::$((box + 1)) -t f32,i32 \
		-c 11008 -r 20
	status=$?
	each_rank ethtool -K eth0 tx-udp-segmentation on gro off
	for ((r = 0; r <= box; r++)); do
		rns br ethtool -K p"$r" tso on
	done
	echo "# packets received: $(($(total RarRxIngress) - before)), for" \
		"$((2 * 20 * 2 * 32 * members)) chunks"
	dropped=$(($(total RarDropChunk) - dropped))
	echo "# chunks dropped: $dropped"
	[ "$status" = 0 ] && [ "$dropped" = 0 ]
}

# refused WORDS: nobody of the group may use the box.
refused()
{
	local status

	rns "$box" sysctl -qw net.rar.box_allow="$1"
	not_by_box star -t i32 -c std,100k
	status=$?
	rns "$box" sysctl -qw net.rar.box_allow=link
	return "$status"
}

# By default a host behind a gateway may not use the box; a prefix lets it in.
behind_gateway()
{
	local status=0

	rns 0 ip address add 10.77.1.1/24 dev eth0
	rns "$box" ip address add 10.77.1.2/24 dev eth0
	rns "$box" ip route add 10.77.0.1/32 via 10.77.1.1
	refused link || status=1
	rns "$box" sysctl -qw net.rar.box_allow="fd00::/8,10.77.0.1/32 link"
	by_box star -w -t i32 -c 1000 || status=1
	rns "$box" ip route del 10.77.0.1/32
	rns "$box" ip address del 10.77.1.2/24 dev eth0
	rns 0 ip address del 10.77.1.1/24 dev eth0
	rns "$box" sysctl -qw net.rar.box_allow=link
	return "$status"
}

settings()
{
	local status=0

	setting box 10.1.2.3:18110 '[fd00::1]:4000' - || status=1
	bad_setting box host 10.1.2 10.1.2.3:0 10.1.2.3:65536 '[fd00::1]4000' || status=1
	setting box_allow none 10.0.0.0/8 "link fd00::/8 10.1.2.3/32" || status=1
	bad_setting box_allow all 10.0.0.0/33 fd00::/129 10.0.0.0/ /8 "link x" \
		"1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7" || status=1
	setting box_mem 4096 1048576 || status=1
	bad_setting box_mem x -1 1X 99999999999999999999 || status=1
	unshare -Urn bash -c 'echo 1M > /proc/sys/net/rar/box_mem' 2>&1 |
		grep -q "not permitted" || status=1
	return "$status"
}

# The namespace of the box goes while jobs run.
box_goes()
{
	local pid status

	on_all "delay 1ms" star -w -t f32 -c 100k,1M -p 4 -d $((2 * slow)) &
	pid=$!
	sleep 1
	ip netns del rar"$box"
	wait "$pid"
	status=$?
	return "$status"
}

# Groups of two ranks and more
sizes()
{
	local n status=0

	for n in 2 3 "$members"; do
		by_box star -w -n "$n" -t i32,f64 -c std,"$count" -p 4 -z cior || status=1
	done
	return "$status"
}

# A rank pauses for longer than the others wait for it at the box.
pauses()
{
	local pid rank opened lost

	in_background star -w -t f32 -c 300k -p 4 -z cio -d 100
	sleep 0.3
	for ((rank = 0; rank < 2; rank++)); do
		kill -STOP "$(pgrep -x ring | tail -n 1)"
		sleep 3
		kill -CONT "$(pgrep -x ring | tail -n 1)"
		sleep 0.5
	done
	job_ends
}

# The box goes every five seconds, and comes back at once. It makes nine sums in ten all the same.
often()
{
	local i pid opened lost soonest='' out status

	in_background star -w -t f32 -c 30k -p 4 -z i -d 100 > "$enough.out"
	for i in 1 2 3 4; do goes 5; done
	sleep 5
	job_ends
	status=$?
	out=$(cat "$enough.out")
	rm "$enough.out"
	note "chunks by the box: $(word box0), by the ring: $(word ring0); back after $soonest ms at best"
	[ "$status" = 0 ] && [ "$(word box0)" -gt $((9 * $(word ring0))) ]
}

# What travels in other forms than the types of "all types", and other collectives beside
forms()
{
	check "wide sums" by_box named "$address" modes wide
	check "exact sums" by_box named "$address" modes exact
	check "quantised sums" by_box named "$address" modes quantised
	check "all collectives, of which some go by the box" by_box named "$address" coll short
}

need_module
case ${1-} in
forms) plan 4 ;;
full) plan 24 ;;
cast | reduce) plan 20 ;;
*) plan 19 ;;
esac
topo_up $((members + 1))
topo_sysctl dead_ms=2000
if [ "${1-}" = forms ]; then
	box_is 64M
	forms
	finish
fi
check "settings" settings
check "a box that is away" dead
box_is 64M
check "all types, in place and out of place" by_box star -w -t all -c std,$count -p 4 -z cior
[ "${1-}" != full ] || forms
[ -z "${rooted[*]}" ] || check "groups of 2, 3 and $members members" sizes
[ -z "${rooted[*]}" ] || check "a rank pauses" on_all "delay 1ms" pauses
check "IPv6" by_box ring -w -n $members "${rooted[@]}" -a 6 -s "box=fd77::$((box + 1))" \
	-t "$types" -c std,$count
check "packets of two blocks are merged" merged
# The delay leaves the script time to look, or to act.
check "jobs and rows are shown and given back" on_legs "delay 2ms" shown
check "no room for anything" useless
check "room for a few chunks" few_rows 16000
check "loss on the legs" bad_legs loss 2%
check "duplicates and reordering on the legs" bad_legs delay 2ms 2ms duplicate 5%
check "loss everywhere" on_all "loss 1% delay 1ms 1ms" star -t i32,f32 -c std,$count -p 4 -z cio \
	-r $repeats
check "a member cannot reach the box" unreachable star -t i32,f32 -c std,100k -z cio
check "a narrow path to the box" narrow
[ -n "${rooted[*]}" ] || check "the path to the box becomes narrow silently" narrows
check "a box for nobody" refused none
check "a member behind a gateway" behind_gateway
check "the box is killed and restarted" on_all "delay 2ms" \
	restarts $kills star -w -t f32 -c 30k,3001 -p 4 -z cio -d 100
[ "${1-}" != full ] || check "the box goes every five seconds" on_legs "delay 1ms" often
check "the box vanishes" vanishes
check "the namespace of the box goes" box_goes
finish
