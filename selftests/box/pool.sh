#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The memory of a box that several groups use at the same time: no group gets a wrong sum, starves
# another below its share, or uses more than there is, whatever net.rar.box_policy says.
#
# Ranks 0, 1, ... are the members of each group; the last namespace is the box. "pool.sh full" runs
# more and longer groups.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
box=4				# its namespace
address=10.77.0.$((box + 1))
jobs=4 seconds=2 busy=1 kills=3
usual=(delay 1ms)		# leaves the processor time, and keeps rows in use for longer
[ "${1-}" != full ] || jobs=8 seconds=10 busy=20 kills=100 usual=()

# several BYTES POLICY: jobs of all kinds at the same time, in a box that is too small for them
several()
{
	local i sums status=0
	local kinds=("-t i32 -z i" "-t f32 -z o" "-t f32 -z c" "-t i64 -z c")

	box_setting mem="$1" policy="$2" share=25 trust=0
	sums=$(counter "$box" RarBoxSums)
	for ((i = 0; i < jobs; i++)); do
		# shellcheck disable=SC2086 # a list of options
		job $i ${kinds[i % 4]} -c 30k,100k,300k -p 6 -d $((seconds * slow))
	done
	watch
	jobs_end || status=1
	sums=$(($(counter "$box" RarBoxSums) - sums))
	note "$2: sums $sums, evicted $(counter "$box" RarBoxEvicted), handed over $(counter "$box" RarBoxHanded)"
	within_limit && given_back 10 && [ "$sums" -gt 0 ] && [ "$status" = 0 ]
}

# Partial sums go on in the ring when a chunk is evicted, also where packets are lost, come twice or
# in another order.
handed_over()	# parameters of netem...
{
	local before handed=0 status=0 i

	before=$(counter "$box" RarBoxHanded)
	topo_netem "$@"
	# whether a chunk that is evicted has a sum is left to chance
	for ((i = 0; i < 4 && handed == 0; i++)); do
		several 200000 preempt || status=1
		handed=$(($(counter "$box" RarBoxHanded) - before))
	done
	topo_netem "${usual[@]}"
	note "handed over: $handed"
	[ "$handed" -gt 0 ] && [ "$status" = 0 ]
}

# A member of one group is killed while the groups share too little memory. The others do not notice.
member_dies()
{
	local i status=0

	box_setting mem=400000 policy=preempt share=25
	for ((i = 0; i < jobs; i++)); do
		job "$i" -t f32 -z o -c 30k,100k,300k -p 6 -d 100 -e "$dir.enough"
	done
	within 30 all_entered
	sleep 0.3
	kill -9 "$(pgrep -P "${pids[0]}" | tail -n 1)"
	(sleep 0.5; : > "$dir.enough") &
	watch
	if wait "${pids[0]}"; then
		note "the group of the victim ended well"
		status=1
	fi
	pids=("${pids[@]:1}")
	jobs_end || status=1
	rm "$dir.enough"
	within_limit && within 10 unused || status=1
	box_setting mem=0		# the next case shall not see the survivors' job
	return "$status"
}

# Members may have entered again before they heard that their group has ended.
# shellcheck disable=SC2317 # called by within
unused() { rns "$box" grep -q "used 0 " /proc/net/rar_box; }

# shellcheck disable=SC2317 # called by within
all_entered() { [ "$(rns "$box" grep -c " open " /proc/net/rar_box)" = "$jobs" ]; }

# Of a static box each group gets its part and no more.
static_parts()
{
	local limit=400000 most

	box_setting mem="$limit" policy=static
	topo_netem delay 3ms		# so that rows are in use whenever somebody looks
	job a -t i32 -z i -c 300k -p 8 -d $((seconds * slow))
	job b -t i32 -z i -c 300k -p 8 -d $((seconds * slow))
	within 10 two_entered
	sleep 0.5			# the first of them may have had it all
	watch
	most=$(highest 11)
	topo_netem "${usual[@]}"
	note "a job has had $most bytes of $limit"
	jobs_end && [ "$most" -gt 0 ] && [ "$most" -le $((limit * 7 / 8 / 2)) ]
}

# shellcheck disable=SC2317 # called by within
two_entered() { rns "$box" grep -q "jobs 2" /proc/net/rar_box; }

# of_job INDEX COLUMN: the highest value of a job that watch() has seen; jobs count from 0. The
# counts of a group begin anew if it enters the box again. The upper half of a group's id is the
# process that made it.
of_job()
{
	awk -v job="$(printf %08x "${pids[$1]}")" -v c="$2" \
		'index($1, job) == 1 && $c > max { max = $c } END { print max + 0 }' "$dir.watch"
}

# two_jobs LOW HIGH [setting...]: two jobs with these priorities share too little memory, as fast as
# they can; sets @evicted and @sums of each
two_jobs()
{
	local priority i

	topo_netem
	box_setting mem=150000 policy=preempt "${@:3}"
	for priority in "${@:1:2}"; do
		job "$priority" -y "$priority" -t f32 -z i -c 300k -p 8 -d $((busy * slow))
	done
	watch
	for i in 0 1; do
		evicted[i]=$(of_job "$i" 10)
		sums[i]=$(of_job "$i" 8)
	done
	note "priorities $1 and $2: sums ${sums[*]}, evicted ${evicted[*]}"
	topo_netem "${usual[@]}"
	jobs_end
}

# With trust, a group of a high priority loses no chunk to a group of a low one.
priorities()
{
	two_jobs 10 200 share=0 trust=1 && [ "${evicted[0]}" -gt 0 ] && [ "${evicted[1]}" = 0 ]
}

# Even then a group keeps its share: the group of the low priority gets sums of the box.
shares()
{
	two_jobs 1 255 share=50 trust=1 && [ "${sums[0]}" -gt 0 ]
}

# Without trust a priority is worth nothing against another group.
no_trust()
{
	two_jobs 1 255 share=0 trust=0 && [ $((4 * sums[0])) -gt "${sums[1]}" ]
}

goes_off() { box_setting mem=0; }

goes_silent()
{
	ip -n rar"$box" link set eth0 down
	sleep 0.$((RANDOM % 9 + 1))
	ip -n rar"$box" link set eth0 up
}

goes_away()
{
	topo_again "$box"
	rns "$box" sysctl -qw net.rar.dead_ms=5000
}

# The box goes and comes back at random moments while several groups use it: it is switched off, its
# link fails, its namespace ends. No operation fails, and no sum has a wrong bit.
restarts()
{
	local i open=0 ways=(goes_off goes_silent goes_away)

	box_setting mem=4M policy=preempt
	for ((i = 0; i < jobs; i++)); do
		job "$i" -t f32 -z i -c 30k,100k -p 6 -T $((100 + 10 * kills)) -d 100000 -e "$dir.enough"
	done
	within 30 all_entered
	renice -n -10 "$BASHPID" > /dev/null	# the groups leave no processor idle
	for ((i = 0; i < kills; i++)); do
		sleep $((RANDOM % 2)).$((RANDOM % 90 + 10))
		! rns "$box" grep -q " open " /proc/net/rar_box || open=$((open + 1))
		"${ways[i % 3]}"
		box_setting mem=4M policy=preempt
	done
	: > "$dir.enough"
	note "it went $i times, $open times while groups used it"
	jobs_end || return
	rm "$dir.enough"
	within 10 unused && [ $((2 * open)) -gt "$kills" ]
}

settings()
{
	local status=0

	setting box_policy static fcfs reclaim preempt || status=1
	bad_setting box_policy lifo '' || status=1
	setting box_share 0 100 25 || status=1
	bad_setting box_share -1 101 || status=1
	setting box_trust 1 0 || status=1
	bad_setting box_trust 2 || status=1
	return "$status"
}

need_module
plan 13
topo_up $((members + 1))
topo_sysctl dead_ms=5000
topo_netem "${usual[@]}"
dir=$(mktemp -d)
evicted=() sums=()
check "settings" settings
for policy in static fcfs reclaim preempt; do
	check "several groups: $policy" several 400000 $policy
done
check "several groups and losses" handed_over loss 1%
check "several groups, duplicates and reordering" handed_over delay 1ms 1ms duplicate 5%
check "a member of one group is killed" member_dies
check "each group's part" static_parts
check "priorities" priorities
check "shares" shares
check "priorities that nobody trusts" no_trust
check "the box goes and comes back under several groups" restarts
rm -rf "$dir" "$dir.watch"
finish
