#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# wan.sh [REPEATS]: how much of a long link does a ring use? Runs in a guest.
#
# Four namespaces at a switch; each sends at most 1 Gbit/s, and its packets are delayed by netem, by
# half of the round trip. All-reduces of 64 MiB, i32, in place, one at a time. The time of an
# operation is that of the rank that began it last, and counts from the second one on: the median. A
# figure is the bytes that a rank sends, 2(N-1)/N of the tensor and the headers, divided by what the
# link carries in that time. netem loses whole superpackets.
# net.rar.window is the bytes on their way in the whole ring: what the links hold is
# N x 1 Gbit/s x half of the round trip; the table has the default and twice that.
. "$(dirname "$0")/../../selftests/lib/lib.sh"

n=4
repeats=${1:-5}
size=$((64 << 20))
rate_mbit=1000
need=80

# share US MTU: prints the share of the link in percent
share()
{
	local payload=$(($2 - 92)) bytes

	bytes=$((2 * (n - 1) * size * $2 / (n * payload)))
	echo $((100 * bytes * 8 / ($1 * rate_mbit)))
}

# times: prints the microseconds of each operation but the first, at the rank that began last
times()
{
	python3 - "$dir" <<-'EOT'
		import glob, struct, sys
		ranks = [list(struct.iter_unpack("=QQ", open(f, "rb").read()))
		         for f in glob.glob(sys.argv[1] + "/*")]
		for took in list(zip(*ranks))[1:]:
		    print(max(took)[1])
	EOT
}

# cell MTU RTT-MS LOSS WINDOW
cell()
{
	local us part word=PASS r pids=() group=$RANDOM$RANDOM

	topo_netem rate ${rate_mbit}mbit delay $((500 * $2))us loss "$3%" || return
	topo_sysctl "window=$4"
	for ((r = 0; r < n; r++)); do
		"$soak" $r $n "$group" "$repeats" "$dir/$r" $size > /dev/null &
		pids+=($!)
	done
	for r in "${pids[@]}"; do wait "$r" || return; done
	us=$(times | percentile 50)
	part=$(share "$us" "$1")
	[ "$part" -ge $need ] || word=FAIL
	echo "WAN mtu=$1 rtt=$2ms loss=$3% window=$(($4 >> 10))KiB us=$us share=$part% need=$need% $word"
}

dir=$(mktemp -d)
soak=$(readlink -f ../build/bench/bin/soak)
need_module
for mtu in 1500 9000; do
	topo_up $n $mtu || exit
	for rtt in 1 10 50; do
		# a link holds 125 bytes a microsecond for half of the round trip
		held=$((2 * n * 125 * 500 * rtt))
		for window in $((1 << 20)) $held; do
			for loss in 0 0.1; do
				cell $mtu $rtt $loss "$window" || echo "WAN mtu=$mtu rtt=$rtt loss=$loss: failed"
			done
		done
	done
	topo_down
done
