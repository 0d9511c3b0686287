# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Tests of the aggregation box. Sourced after lib.sh. The ranks 0 .. $members - 1 are the members.

# shellcheck disable=SC2154 # $members is set by the scripts that source this
# The sum of a counter over all members
all_members()	# NAME
{
	local r sum=0

	for ((r = 0; r < members; r++)); do
		sum=$((sum + $(counter "$r" "$1")))
	done
	echo "$sum"
}

# until_open BEFORE: waits until each member has opened its leg once more, at most 10 s
until_open()
{
	local i

	for ((i = 0; i < 100; i++)); do
		[ "$(all_members RarBoxOpened)" -lt $(($1 + members)) ] || return 0
		sleep 0.1
	done
}

# until_lost BEFORE: waits until a member has lost its leg, at most 30 s
until_lost()
{
	local i

	for ((i = 0; i < 300; i++)); do
		[ "$(all_members RarBoxLost)" -le "$1" ] || return 0
		sleep 0.1
	done
}

# ---------------------------------------------------------------- groups at the same box
# Scripts set $box, the box's namespace, $address, and $dir, a directory for what groups say.

pids=()

# shellcheck disable=SC2154 # $box, $address and $dir
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

given_back()
{
	within 10 box_empty || { quote "$(rns "$box" cat /proc/net/rar_box)"; return 1; }
}

# shellcheck disable=SC2317 # called by within
box_empty() { rns "$box" grep -q "used 0 jobs 0" /proc/net/rar_box; }
