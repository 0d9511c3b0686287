#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A TCP flow (cubic) and a link of a ring share a bottleneck on the way to rank 1, whose queue
# drops or marks packets. Each gets at least 30 % of its fair share, and the queue stays
# bounded; also with a shallow buffer of 50 KB. The link is slow, so that neither waits for the
# processor: TCP, which answers a loss by half its window, would lose more by that.
#
# The queue that marks is sch_fq with all packets in one flow: a FIFO that marks packets that
# waited longer than ce_threshold.
. "$(dirname "$0")/../lib/lib.sh"

n=3				# ranks; the TCP flow comes from the namespace after theirs
warm_up=2 seconds=6
need=300			# thousandths of the fair share
op=(ring -n "$n" -t f32 -c "1M,1M,1M,1M,1M,1M,1M,1M" -p 4 -T 120)

br() { rns br "$@"; }

# Start a ring that begins once TCP flows, and runs longer than TCP.
ring_start()	# RECEIVER
{
	ring=0		# no process
	until grep -qs connected "$dir/receive"; do
		kill -0 "$1" 2> /dev/null || return
		sleep 0.05
	done
	"${op[@]}" -d $((warm_up + seconds + 2)) > "$dir/ring" 2>&1 &
	ring=$!
}

# flows WARM-UP SECONDS [ring]: runs TCP, alone or with the ring; sets $out to their bytes
flows()
{
	local sender receiver

	rns $n net/tcp_flow.py send 10.77.0.2 > "$dir/send" 2>&1 &
	sender=$!
	rns 1 net/tcp_flow.py receive "$@" > "$dir/receive" 2>&1 &
	receiver=$!
	[ "${3-}" != ring ] || ring_start $receiver
	wait $receiver || quote "$(cat "$dir/receive")"
	out=$(tail -n 1 "$dir/receive")
	wait $sender || quote "$(cat "$dir/send")"
}

# Measure TCP and the ring alone, in bits per second. The bottleneck is a ninth of the slower.
choose_rate()
{
	local tcp ring

	flows 0.5 2
	tcp=$(($(word tcp) * 8000000 / $(word us)))
	out=$("${op[@]}" -r 2) || quote "$out"
	# A link carries 2 (n - 1) / n of a tensor.
	ring=$(($(word bytes) * 8000000 * 2 * (n - 1) / $(word total_us) / n))
	rate=$(((tcp < ring ? tcp : ring) / 9))
	rate=$((rate < 1000000000 ? rate : 1000000000))
	# More than 1400 of the 1514 bytes of a frame are payload, for both.
	alone=$((rate * 1400 / 1514 / 8))
	note "alone: TCP $((tcp / 1000000)), the ring's link $((ring / 1000000)) Mbit/s; bottleneck $((rate / 1000000)) Mbit/s"
}

# The queue holds ten milliseconds, or a hundred packets if that is more.
choose_limit()
{
	limit=$((rate / 8 / 100))
	limit=$((limit > 150000 ? limit : 150000))
	burst=$((rate / 8 / 250))
	burst=$((burst > 16000 ? burst : 16000))
}

# Measure TCP alone, in bytes per second: with a shallow buffer it does not fill the link.
tcp_alone()
{
	flows 1 3
	alone=$((1000000 * $(word tcp) / $(word us)))
	note "alone: TCP $((alone * 8 / 1000000)) Mbit/s"
}

tail_drop()
{
	br tc qdisc replace dev p1 root handle 1: tbf rate $rate burst $burst limit $limit
}

# The queue marks from two fifths of the limit on, and could hold four times the limit.
marking()
{
	tail_drop &&
		br tc qdisc add dev p1 parent 1:1 handle 2: fq orphan_mask 0 \
			ce_threshold $((limit * 16 * 1000 / (rate / 1000) / 5))us \
			limit $((4 * limit / 1500)) flow_limit $((4 * limit / 1500))
}

# Record the longest queue until the file "watch" is gone.
watch_queue()
{
	while [ -e "$dir/watch" ]; do
		br tc -s -j qdisc show dev p1
		sleep 0.05
	done | grep -o '"backlog":[0-9]*' | cut -d : -f 2 | sort -n | tail -n 1 > "$dir/backlog"
}

share()		# NAME WHO BYTES
{
	local fair=$((alone / 2)) thousandths

	thousandths=$((1000 * 1000000 * $3 / $(word us) / fair))
	[ $thousandths -ge $need ]
	result $? "$1: $2 gets $((thousandths / 10)) % of its fair share"
}

compete()	# NAME
{
	local watcher

	touch "$dir/watch"
	watch_queue &
	watcher=$!
	flows $warm_up $seconds ring
	rm "$dir/watch"
	wait $watcher
	quote "$out"
	share "$1" TCP "$(word tcp)"
	share "$1" "the ring" "$(word ring)"
	quote "$(br tc -s qdisc show dev p1)"
	[ "$(cat "$dir/backlog")" -le "$limit" ]
	result $? "$1: the queue was never longer than $(cat "$dir/backlog") bytes (limit $limit)"
	wait "$ring"
	result $? "$1: all bits are right"
	quote "$(tail -n 1 "$dir/ring")"
}

need_module
modprobe -qa sch_tbf sch_fq || skip_all "no tbf or fq in this kernel"
dir=$(mktemp -d)
plan 16
topo_up $((n + 1))
topo_gso off
choose_rate
choose_limit
tail_drop
result $? "set up a queue that drops"
each_rank sysctl -qw net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_ecn=0
compete "tail drop"
marking
result $? "set up a queue that marks"
each_rank sysctl -qw net.ipv4.tcp_ecn=1
compete ECN
marks=$(br tc -s qdisc show dev p1 | sed -n 's/.*ce_mark \([0-9]*\).*/\1/p')
[ "${marks:-0}" -gt 0 ]
result $? "ECN: ${marks:-0} packets were marked"
br tc qdisc del dev p1 root
limit=50000 burst=16000
tail_drop
result $? "set up a queue of $limit bytes that drops"
each_rank sysctl -qw net.ipv4.tcp_ecn=0 net.ipv4.tcp_no_metrics_save=1
tcp_alone
compete "shallow"
finish
