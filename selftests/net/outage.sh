#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Short outages: for a part of dead_ms no packet passes from or to rank 1. There is no error,
# and after 10 round trips + 1 s the ring has 80 % of its speed again.
#
# outage.sh [full [RTT...]]: full: all round trips (us), windows and numbers of ranks
. "$(dirname "$0")/../lib/lib.sh"

# RTT in us, window, ranks, dead_ms, elements, outages in thousandths of dead_ms
short="
40000	1M	2	5000	65536	120,180
40000	16M	2	5000	65536	150
10000	16M	2	5000	65536	32,100
200	64k	4	2000	16384	100,700
"

# full RTT...: prints the cells of all windows and numbers of ranks
full()
{
	local rtt window n

	for rtt in "$@"; do
		for window in 64k 1M 16M; do
			for n in 2 4 8; do
				echo "$rtt $window $n $dead 65536 100,500,900"
			done
		done
	done
}

# lose SECONDS RANK DEVICE [DELAY]: DEVICE drops new packets. Each tc is started before the
# outage, so the time that a start takes does not make the outage longer.
lose()
{
	local seconds=$1 change="qdisc change dev $3 root netem limit 10000 ${4:+delay $4}"

	{
		echo "$change loss 100%"
		sleep "$seconds"
		echo "$change loss 0%"
	} | rns "$2" tc -batch -
}

# nothing_passes MS: drops new packets in both directions; packets on their way arrive.
nothing_passes()
{
	local seconds

	seconds=$(($1 / 1000)).$(printf %03d $(($1 % 1000)))
	lose "$seconds" 1 eth0 "${delay}us" &
	lose "$seconds" br p1
	wait $!
}

# Was the speed back in time after all outages of this run?
in_time()
{
	awk '/^outage:/ {
		split($3, before, "="); split($4, after, "=")
		if (after[2] * 8 > before[2] * 10)
			bad = 1
		n++
	} END { exit bad || !n }' <<< "$out"
}

# cell RTT WINDOW RANKS DEAD COUNT OUTAGES
cell()
{
	local rtt=$1 window=$2 n=$3 dead=$4 count=$5 part try list=() status

	delay=$((rtt / 2))
	export delay
	for part in ${6//,/ }; do
		list+=($((dead * part / 1000)))
	done
	topo_netem delay "${delay}us" || return
	topo_sysctl dead_ms="$dead" window="$(bytes "$window")"
	for try in 1 2 3; do
		status=0
		out=$(outage -n "$n" -c "$count" -p 4 -g $((1000 + rtt / 100)) \
			-w $((500 + rtt / 50)) -k nothing_passes "${list[@]}" 2>&1) || status=1
		quote "$out"
		# A shared machine may be slow, but has no errors.
		if [ $status = 1 ] || in_time; then
			break
		fi
	done
	result $status "round trip $rtt us, window $window, N=$n: no error"
	in_time
	result $? "round trip $rtt us, window $window, N=$n: back in time (try $try)"
}

bytes()
{
	case $1 in
	*k) echo $((${1%k} << 10)) ;;
	*M) echo $((${1%M} << 20)) ;;
	esac
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
dead=5000
if [ "${1-}" = full ]; then
	shift
	[ $# -gt 0 ] || set -- 200 4000 20000 40000 100000
	cells=$(full "$@")
else
	cells=$short
fi
plan $((2 * $(grep -c . <<< "$cells")))
topo_up 8
topo_neighbours
rns br tc qdisc add dev p1 root netem limit 10000
export -f rns lose nothing_passes
while read -r rtt rest; do
	# shellcheck disable=SC2086 # a list
	[ -z "$rtt" ] || cell "$rtt" $rest
done <<< "$cells"
finish
