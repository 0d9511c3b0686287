#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Links lose, repeat, reorder, corrupt and delay data and acknowledgments of every rank: no bit
# is wrong and no rank hangs. Under each condition rings of 2, 4 and 8 ranks run at the same
# time over the same links. Operations have random sizes, and a random number is in flight.
#
# netem.sh [debug|full]: together debug and full are 100 000 operations, 100 of them of
# 16 MiB. SEED decides sizes, order and data, but not netem's choices.
. "$(dirname "$0")/../lib/lib.sh"

sizes=(2 4 8)
declare -A types=([2]="i32,f64" [4]="f32,i64" [8]="i32,f32")
declare -A modes=([2]=r [4]=c [8]=cior)		# see ring -z

# Operations of each type, by number of ranks. $large is left out where 20 % of packets are
# lost. With 8 ranks an operation takes 28 times as many packets as with 2.
declare -A small
large='' limit=900
case ${1:-short} in
short) small=([2]="8x16k,1x256k" [4]="8x16k,1x256k" [8]="8x16k,1x256k") limit=60 ;;
debug) small=([2]="830x16k,30x1M" [4]="172x16k,8x1M" [8]="69x16k,3x1M") ;;
full)
	small=([2]="1310x16k,170x1M" [4]="1310x16k,170x1M" [8]="1310x16k,170x1M")
	large=,16M,16M,16M
	;;
esac

# With seals a copy is dropped for its counter.
copies=RarRxDup
[ -z "${RAR_SECURITY-}" ] || copies=RarDropReplay
# Behind the rules for the host's input UDP drops what was corrupted.
corrupt=RarDropChecksum
[ -z "${RAR_RULES-}" ] || corrupt=-

# name, evidence of the effect (netem's count of losses, a counter of the module, or - for
# none), netem's parameters
conditions="
loss_0.1	-		loss 0.1%
loss_1		netem		loss 1%
loss_5		netem		loss 5%
loss_20		netem		loss 20%
duplicate_5	$copies	duplicate 5%
reorder_25	-		delay 1ms reorder 25%
corrupt_1	$corrupt	corrupt 1%
jitter_5ms	-		delay 2500us 2500us
all		$corrupt	delay 2500us 2500us loss 5% duplicate 5% reorder 25% corrupt 1%
"

# effect netem|COUNTER: prints the count so far of all ranks together
effect()
{
	local r sum=0

	if [ "$1" = netem ]; then
		topo_netem_counts |
			awk '/dropped/ { sum += $7 } END { print sum }'
		return
	fi
	for ((r = 0; r < topo_n; r++)); do
		sum=$((sum + $(counter $r "$1")))
	done
	echo $sum
}

start_ring()	# N COUNTS
{
	ring -n "$1" -t "${types[$1]}" -z "${modes[$1]}" -c "$2" -p 16 -x -T "$limit" > "$dir/$1" 2>&1 &
	pids[$1]=$!
}

total_ops=0
end_ring()	# N CONDITION
{
	local status=0

	wait "${pids[$1]}" || status=$?
	out=$(cat "$dir/$1")
	if [ $status = 0 ]; then
		total_ops=$((total_ops + $(word ops)))
		note "ops=$(word ops) bytes=$(word bytes) retransmits=$(word retrans) ms=$(($(word total_us) / 1000))"
	else
		quote "$out"
	fi
	result $status "N=$1 $2"
}

# condition NAME EFFECT netem...
condition()
{
	local name=$1 what=$2 more=$large before n start=$SECONDS

	shift 2
	[ "$name" != loss_20 ] || more=''
	topo_netem "$@" || return
	[ "$what" = - ] || before=$(effect "$what")
	for n in "${sizes[@]}"; do
		start_ring "$n" "${small[$n]}$more"
	done
	for n in "${sizes[@]}"; do
		end_ring "$n" "$name"
	done
	note "$name: $((SECONDS - start)) s"
	[ "$what" = - ] && return
	before=$(($(effect "$what") - before))
	[ $before -gt 0 ]
	result $? "$name: $before seen by $what"
}

# A round trip of 500 ms is longer than the usual limit of the timeout. Every chunk is then
# sent again before it is acknowledged, but not for ever.
far_away()
{
	topo_netem delay 250ms
	check "N=2 far away" ring -n 2 -t f32 -c 1,4000,100 -p 1 -T 60
}

# COLLECT takes longer to go round than a step of the join usually may.
slow_join()
{
	topo_netem delay 600ms
	check "N=4 joins although the table takes 2.4 s to go round" ring -n 4 -t f32 -c 100 -p 1 -T 50
}

# Between operations only probes and their answers tell that a neighbour lives, five in dead_ms, and
# more of them when none comes.
idle_members()
{
	topo_netem loss 20%
	topo_sysctl dead_ms=1000
	check "N=8 idle, every fifth packet lost" idle 8 12
	topo_sysctl dead_ms=5000
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
declare -A pids
dir=$(mktemp -d)
export SEED=${SEED:-$SRANDOM}
plan $((36 - 2 * ${RAR_RULES:-0}))	# corruption shows nowhere
topo_up 8
topo_neighbours
note "SEED=$SEED"
while read -r name counter parameters; do
	# shellcheck disable=SC2086 # a list
	[ -z "$name" ] || condition "$name" "$counter" $parameters
done <<< "$conditions"
far_away
slow_join
idle_members
note "$total_ops operations"
finish
