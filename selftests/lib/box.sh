# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Tests of the aggregation box. Sourced after lib.sh. The ranks 0 .. $members - 1 are the members.
# Scripts set $box, the namespace of the box, and $address, the box's.

# shellcheck disable=SC2154 # $members, $box and $address
# The sum of a counter over all members
all_members()	# NAME
{
	local r sum=0

	for ((r = 0; r < members; r++)); do
		sum=$((sum + $(counter "$r" "$1")))
	done
	echo "$sum"
}

# until_open BEFORE: waits until each member has opened its leg once more, at most 30 s
until_open()
{
	local end=$((SECONDS + 30))

	while [ $SECONDS -lt $end ]; do
		[ "$(all_members RarBoxOpened)" -lt $(($1 + members)) ] || return 0
		sleep 0.1
	done
}

# until_lost BEFORE: waits until a member has lost its leg, at most 30 s
until_lost()
{
	local end=$((SECONDS + 30))

	while [ $SECONDS -lt $end ]; do
		[ "$(all_members RarBoxLost)" -le "$1" ] || return 0
		sleep 0.1
	done
}

# has_key TEXT: the box gets this key; without one it has none any more
has_key()
{
	if [ -n "$1" ]; then
		rns "$box" rarctl box key <(printf %s "$1")
	else
		rns "$box" rarctl box key off
	fi
}

# box_is BYTES: the box's memory; 0: it is no box. With RAR_BOX_KEY, which gives the ranks the key of
# their boxes, the box has that key, too.
box_is()
{
	rns "$box" sysctl -qw net.rar.box_mem="$1" || return
	[ -z "${RAR_BOX_KEY-}" ] || has_key "$RAR_BOX_KEY"
}

# setting NAME GOOD...: each good value is read as it is written
setting()
{
	local name=$1 value old got status=0

	shift
	old=$(rns "$box" sysctl -n net.rar."$name")
	for value; do
		rns "$box" sysctl -qw net.rar."$name"="$value" || status=1
		got=$(rns "$box" sysctl -n net.rar."$name")
		[ "$got" = "$value" ] || { note "$name: $got, not $value"; status=1; }
	done
	rns "$box" sysctl -qw net.rar."$name"="$old"
	return "$status"
}

# bad_setting NAME BAD...: each bad value is refused, and the setting stays as it was
bad_setting()
{
	local name=$1 value old status=0

	shift
	old=$(rns "$box" sysctl -n net.rar."$name")
	for value; do
		if rns "$box" sysctl -qw net.rar."$name"="$value" 2> /dev/null; then
			note "$name takes $value"
			status=1
		fi
	done
	[ "$(rns "$box" sysctl -n net.rar."$name")" = "$old" ] && return "$status"
}

# given_back SECONDS: the box has no jobs and no memory in use any more
given_back()
{
	within "$1" box_empty || { quote "$(rns "$box" cat /proc/net/rar_box)"; return 1; }
}

# shellcheck disable=SC2317 # called by within
box_empty() { rns "$box" grep -q "used 0 jobs 0$" /proc/net/rar_box; }

# ---------------------------------------------------------------- which box made a result

boxes=()			# the namespaces of all boxes, if there are more than $box
told_box=(BoxTaken BoxSums BoxGaveUp)			# counters of a box that tell() shows
told_members=(BoxOpened BoxLost BoxReturned BoxWants)	# and counters of the members
made=BoxSums			# the box takes part if it counts these
declare -A told

# tally ARRAY: what the boxes and the members have counted, by "NAMESPACE.COUNTER"; of all members
# together by "members.COUNTER"
tally()
{
	local -n into=$1
	local b r name

	for b in "${boxes[@]:-$box}"; do
		counters "$b"
		for name in "${told_box[@]}"; do into[$b.$name]=${mib[Rar$name]}; done
	done
	for name in "${told_members[@]}"; do into[members.$name]=0; done
	for ((r = 0; r < members; r++)); do
		counters "$r"
		for name in "${told_members[@]}"; do
			into[members.$name]=$((${into[members.$name]} + ${mib[Rar$name]}))
		done
	done
}

# tell COMMAND...: shows what the boxes and the members counted during the command. It is also in
# $told: ${told[4.BoxSums]} are the sums of the box in namespace 4.
tell()
{
	local key status line=
	declare -A before

	tally before
	"$@"
	status=$?
	told=()
	tally told
	for key in $(printf '%s\n' "${!told[@]}" | sort); do
		told[$key]=$((${told[$key]} - ${before[$key]}))
		line+=" $key ${told[$key]}"
	done
	note "counted:$line"
	return "$status"
}

# by_box COMMAND...: it succeeds, and the box takes part. With -w, programs wait until the legs are
# open; without it the operations may all be over before.
by_box() { tell "$@" && [ "${told[$box.$made]}" -gt 0 ]; }

# not_by_box COMMAND...: it succeeds without the box
not_by_box() { tell "$@" && [ "${told[$box.$made]}" = 0 ]; }

# tight BYTES COMMAND...: it succeeds with a box that has so little memory that it gives chunks up
tight()
{
	local status

	box_is "$1"
	tell "${@:2}"
	status=$?
	box_is 64M
	[ "$status" = 0 ] && [ "${told[$box.BoxGaveUp]}" -gt 0 ]
}

# unreachable COMMAND...: it succeeds while a member cannot reach the box, which opens for none
unreachable()
{
	local status

	rns 2 ip route add blackhole "$address"/32
	not_by_box "$@"
	status=$?
	rns 2 ip route del blackhole "$address"/32
	return "$status"
}

# named ADDRESSES PROGRAM [ARGUMENT]...: a program whose groups use these boxes. Tests "wide", "exact"
# and "quantised" of modes: numbers that travel in another form, and come later than the post. They
# begin when the box is open, or the short operations may all be over before.
named()
{
	local -x RAR_BOX_WAIT=9000
	local status

	rns 0 sysctl -qw net.rar.box="$1"
	"$2" -N rar "${@:3}"
	status=$?
	rns 0 sysctl -qw net.rar.box=-
	return "$status"
}

# ---------------------------------------------------------------- paths to the box

legs_netem()	# PARAMETER...
{
	local b

	for b in "${boxes[@]:-$box}"; do
		rns "$b" tc qdisc replace dev eth0 root netem limit 10000 "$@"
		rns br tc qdisc replace dev p"$b" root netem limit 10000 "$@"
	done
}

legs_whole()
{
	local b

	for b in "${boxes[@]:-$box}"; do
		rns "$b" tc qdisc del dev eth0 root
		rns br tc qdisc del dev p"$b" root
	done
}

# on_legs PARAMETERS COMMAND...: with netem on all packets from and to the boxes
on_legs()
{
	local status

	# shellcheck disable=SC2086 # words
	legs_netem $1
	"${@:2}"
	status=$?
	legs_whole
	return "$status"
}

# on_all PARAMETERS COMMAND...: with netem on the packets of all members and boxes
on_all()
{
	local status

	# shellcheck disable=SC2086 # words
	each_rank tc qdisc replace dev eth0 root netem limit 10000 $1
	"${@:2}"
	status=$?
	each_rank tc qdisc del dev eth0 root
	return "$status"
}

# ---------------------------------------------------------------- a box that goes while members work

enough=$(mktemp -u)		# once this file exists a command in the background ends

# job_begins COMMAND...: runs a command in the background, as $pid, that ends by its option -e
job_begins()
{
	"$@" -e "$enough" &
	pid=$!
}

# in_background COMMAND...: as job_begins. Returns when the legs are open; $opened and $lost are the
# legs that were opened and lost until then.
in_background()
{
	opened=$(all_members RarBoxOpened)
	job_begins "$@"
	until_open "$opened"
	opened=$(all_members RarBoxOpened)
	lost=$(all_members RarBoxLost)
}

# Ends the command in the background: its status
job_ends()
{
	local status

	: > "$enough"
	wait "$pid"
	status=$?
	rm "$enough"
	return "$status"
}

# goes SECONDS: after so long the box is switched off, and on again when a member has lost its leg.
# Returns when the legs are open again; $opened are the legs that were opened before. $soonest is the
# shortest time that took, ms.
goes()
{
	local lost began

	sleep "$1"
	opened=$(all_members RarBoxOpened)
	lost=$(all_members RarBoxLost)
	box_is 0
	until_lost "$lost"
	box_is 64M
	began=${EPOCHREALTIME/./}
	until_open "$opened"
	began=$(((${EPOCHREALTIME/./} - began) / 1000))
	[ "$began" -ge "${soonest:-1000000}" ] || soonest=$began
}

# restarts TIMES COMMAND...: the box is switched off and on so often while the command works
restarts()
{
	local i pid opened lost soonest=

	in_background "${@:2}"
	for ((i = 0; i < $1; i++)); do
		goes 0.$((RANDOM % 5 + 1))
	done
	sleep 0.3
	job_ends || return
	lost=$(($(all_members RarBoxLost) - lost))
	note "legs lost: $lost; all were back after $soonest ms at best"
	[ "$lost" -ge "$1" ]
}

# vanish COMMAND...: the box says nothing any more while the command works
vanish()
{
	local pid opened lost status

	in_background "$@"
	sleep 0.3
	ip -n rar"$box" link set eth0 down
	until_lost "$lost"
	job_ends
	status=$?
	ip -n rar"$box" link set eth0 up
	lost=$(($(all_members RarBoxLost) - lost))
	note "legs lost: $lost"
	[ "$status" = 0 ] && [ "$lost" -gt 0 ]
}

# ---------------------------------------------------------------- groups at the same box
# Scripts set $dir, a directory for the output of groups.

pids=()

# shellcheck disable=SC2154 # $dir
box_setting()	# NAME=VALUE...
{
	local word

	for word; do rns "$box" sysctl -qw net.rar.box_"$word" || return; done
}

# job NAME [options of ring]: a group whose sums go through the box, in the background
job()
{
	local name=$1

	shift
	ring -n "$members" -s box="$address" -w -T 200 "$@" > "$dir/$name" 2>&1 &
	pids+=($!)
}

# Wait for all jobs; show what those said that failed.
jobs_end()
{
	local pid status=0

	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	pids=()
	[ "$status" = 0 ] || quote "$(cat "$dir"/*)"
	rm -f "$dir"/*
	return "$status"
}

# watch: looks at the box as long as jobs run
watch()
{
	while kill -0 "${pids[@]}" 2> /dev/null; do
		rns "$box" cat /proc/net/rar_box
		sleep 0.05
	done > "$dir.watch"
}

# highest COLUMN: the highest value in a column of the jobs' lines that watch() has seen
highest()
{
	awk -v c="$1" 'NF == 13 && $1 != "group" && $c > max { max = $c } END { print max + 0 }' "$dir.watch"
}

within_limit()
{
	awk '$1 == "limit" && $4 > $2 { print "# used " $4 " of " $2; bad = 1 } END { exit bad }' \
		"$dir.watch"
}
