#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# schedules.sh [ROUNDS]: which form of a short all-reduce is fastest where, in a guest.
#
# Rings of namespaces joined by veths, f32, one operation at a time, by the delay of each link,
# the number of ranks, and the bytes. The forms take turns in one boot:
#	blocks		cut into N blocks above 8 KiB, as RAR_BY_RANKS
#	whole		never cut (up to 64 KiB)
#	gathered	all contributions go round (up to 8 KiB)
#	direct		each contribution goes straight to every rank (up to 8 KiB)
#	auto		as rank 0 chooses by the time of a hop
# A figure is the median over the rounds of the time of the fastest of some operations, in
# microseconds. "auto/best" compares the choice with the best of the others. All ranks
# share the guest's processors, so packets cost more here than on hosts of their own.
. "$(dirname "$0")/../../selftests/lib/lib.sh"

rounds=${1:-3}
delays="0 50us 1ms"
ranks="2 4 8 16"
sizes="64 4096 8192 16384 32768 65536"

# turn FORM N BYTES: appends the time of one round to the form's file
turn()
{
	local gather=1 direct=1 whole=8192

	case $1 in
	whole) whole=65536 ;;
	gathered) gather=8192 ;;
	direct) direct=8192 ;;
	auto) gather=0 direct=0 whole=0 ;;
	esac
	check "$1 N=$2 $3 bytes" ring -n "$2" -A -t f32 -c $(($3 / 4)) -p 1 -r 20 \
		-s "gather_bytes=$gather,direct_bytes=$direct,whole_bytes=$whole" || return
	word us >> "$dir/$1"
	[ "$1" != auto ] ||
		chosen="hop $(word hop_us) us, gather $(word gather), direct $(word direct), whole $(word whole)"
}

median() { sort -n "$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

row()	# DELAY N BYTES
{
	local form round us=() forms="blocks auto"

	[ "$3" -gt 8192 ] || forms="blocks gathered direct auto"
	[ "$3" -le 8192 ] || forms="blocks whole auto"
	rm -f "$dir"/*
	for ((round = 0; round < rounds; round++)); do
		for form in $forms; do
			turn "$form" "$2" "$3" > "$dir/log" || { cat "$dir/log" && return 1; }
		done
	done
	for form in blocks whole gathered direct auto; do
		[ -e "$dir/$form" ] && us+=("$(median "$dir/$form")") || us+=(-)
	done
	awk -v d="$1" -v n="$2" -v b="$3" -v why="$chosen" -v us="${us[*]}" 'BEGIN {
		split(us, a, " ")
		best = a[1]
		for (i = 2; i < 5; i++)
			if (a[i] != "-" && a[i] + 0 < best)
				best = a[i] + 0
		printf "%-6s %-4d %-7d %-8s %-8s %-8s %-8s %-8s %-9.2f %s\n", d, n, b, a[1], a[2],
			a[3], a[4], a[5], a[5] / best, why
	}'
}

need_module
topo_up 16 || skip_all "no network namespaces"
modprobe -q sch_netem || skip_all "no netem in this kernel"
dir=$(mktemp -d)
printf '%-6s %-4s %-7s %-8s %-8s %-8s %-8s %-8s %-9s %s\n' delay N bytes blocks whole gathered \
	direct auto auto/best chosen
for delay in $delays; do
	[ "$delay" = 0 ] || topo_netem delay "$delay" || exit
	for n in $ranks; do
		for bytes in $sizes; do row "$delay" "$n" "$bytes" || exit; done
	done
done
rm -r "$dir"
