#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The cost of random loss: an operation's time on links that lose 0.1 % or 1 % of all packets,
# compared with its time on links of the same delay without loss. Rounds with and without
# loss alternate, and the medians are compared.
. "$(dirname "$0")/../lib/lib.sh"

n=4
rounds=3
tries=3			# more rounds if the machine is shared with others
repeats=4		# operations in each round; the first does not count
aim_us=250000		# for an operation without loss; at most 16 MiB
size=$((16 << 20))
# Thousandths of the goodput without loss. In an emulated machine delays of many milliseconds
# come and go and look like queues, so there the check is rough.
need_01=900 need_1=600
[[ ${RAR_KERNEL-} == uml* ]] || need_01=700 need_1=450

# measure DELAY LOSS: appends times in us to a file
measure()
{
	topo_netem delay "$1" loss "$2%" || return
	out=$(ring -n $n -t f32 -c $((size / 4)) -P $size -r $repeats -v -T 120 2>&1) ||
		{ quote "$out"; return 1; }
	sed -n 's/^repeat: i=[1-9][0-9]* us=//p' <<< "$out" >> "$dir/$1 $2"
}

# Choose the size of an operation that takes about aim_us on this machine.
choose_size()
{
	local us

	size=$((2 << 20))
	measure 0us 0 || return
	us=$(percentile 50 < "$dir/0us 0")
	while [ $size -lt $((16 << 20)) ] && [ $((us * 2)) -lt $aim_us ]; do
		size=$((size * 2)) us=$((us * 2))
	done
	rm "$dir/0us 0"
	note "operations of $((size >> 20)) MiB"
}

# ratio_of DELAY LOSS: prints the ratio of the medians, in thousandths
ratio_of()
{
	echo $((1000 * $(percentile 50 < "$dir/$1 0") / $(percentile 50 < "$dir/$1 $2")))
}

# verdict DELAY LOSS NEED: the ratio must be at least NEED thousandths
verdict()
{
	local ratio

	ratio=$(ratio_of "$1" "$2")
	note "$(percentile 50 < "$dir/$1 0") us without," \
		"$(percentile 50 < "$dir/$1 $2") us with loss," \
		"medians of $(wc -l < "$dir/$1 $2")"
	[ "$ratio" -ge "$3" ]
	result $? "goodput loss=$2% delay=$1 ratio=$(thousandths "$ratio") need=$(thousandths "$3")"
}

thousandths() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }

one_delay()
{
	local try round loss

	for ((try = 0; try < tries; try++)); do
		for ((round = 0; round < rounds; round++)); do
			for loss in 0 0.1 1; do
				measure "$1" $loss || return
			done
		done
		if [ "$(ratio_of "$1" 0.1)" -ge $need_01 ] && [ "$(ratio_of "$1" 1)" -ge $need_1 ]; then
			break
		fi
	done
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
dir=$(mktemp -d)
plan 6
topo_up $n
topo_neighbours
choose_size
for delay in 0us 1ms; do
	one_delay $delay
	result $? "delay $delay: all bits are right"
	verdict $delay 0.1 $need_01
	verdict $delay 1 $need_1
done
finish
