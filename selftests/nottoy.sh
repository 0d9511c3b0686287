#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What makes it a ring in the kernel: the bytes a rank sends, chunks that do not
# wait for steps, addition and forwarding in one softirq.
. "$(dirname "$0")/lib.sh"

# ---------------------------------------------------------------- bytes

declare -A now was

qdisc_bytes()	# RANK
{
	rns "$1" tc -s qdisc show dev eth0 | awk '$1 == "Sent" { print $2; exit }'
}

snapshot()	# RANK
{
	local name

	counters "$1"
	for name in TxBytes TxData TxAck TxCtl; do
		now[$name]=${mib[Rar$name]}
	done
	now[wire]=$(qdisc_bytes "$1")
}

snapshot_all()
{
	local r key

	for ((r = 0; r < topo_n; r++)); do
		snapshot $r
		for key in "${!now[@]}"; do was[$r,$key]=${now[$key]}; done
	done
}

# What a rank sent since snapshot_all: payload, chunks, and the bounds of what that
# makes on the wire: headers (Ethernet, IPv4, UDP and 64 bytes with every chunk, at
# most 200 with an ACK, a JOIN as long as the MTU).
measure()	# RANK
{
	local r=$1

	snapshot "$r"
	sent=$((now[TxBytes] - was[$r,TxBytes]))
	wire=$((now[wire] - was[$r,wire]))
	least=$((sent + 106 * (now[TxData] - was[$r,TxData])))
	most=$((least + 200 * (now[TxAck] - was[$r,TxAck]) +
		1514 * (now[TxCtl] - was[$r,TxCtl]) + 2000))
}

# Every rank: payload at most 1.1 times that of the ideal ring, and tc agrees.
judge_bytes()	# BYTES
{
	local r ideal=$(($1 * 2 * (topo_n - 1) / topo_n)) sent wire least most bad=0

	for ((r = 0; r < topo_n; r++)); do
		measure "$r"
		note "rank $r: payload $sent, ideal $ideal; tc $wire, within $least .. $most"
		[ "$sent" -ge $ideal ] && [ $((sent * 10)) -le $((ideal * 11)) ] || bad=1
		[ "$wire" -ge "$least" ] && [ "$wire" -le "$most" ] || bad=2
	done
	return $bad
}

# An emulated CPU may stand still for longer than a retransmission timer: the best
# of three. The counters must agree every time.
bytes_of()	# MIB
{
	local try bad=1

	for try in 1 2 3; do
		snapshot_all
		ring -n "$topo_n" -t f32 -c "$1M" > /dev/null || break
		judge_bytes $(($1 << 20))
		bad=$?
		[ $bad = 1 ] || break
	done
	result $bad "$1 MiB: at most 1.1 x 2(N-1)/N x S per rank, tc agrees (try $try)"
}

# ---------------------------------------------------------------- delay

delayed()	# N
{
	local plain slow limit

	each_rank tc qdisc replace dev eth0 root pfifo limit 10000
	check "N=$1, 1 MiB, no delay" ring -n "$1" -t f32 -c 1M -r 6
	plain=$(word us)
	each_rank tc qdisc replace dev eth0 root netem delay 10ms limit 10000
	check "N=$1, 1 MiB, 10 ms per hop" ring -n "$1" -t f32 -c 1M -r 6
	slow=$(word us)
	limit=$(((2 * ($1 - 1) + 2) * 10000 + plain))
	[ -n "$plain" ] && [ -n "$slow" ] && [ "$slow" -lt $limit ]
	result $? "N=$1: $slow us with delay < $limit us ($plain us without)"
}

# ---------------------------------------------------------------- one softirq

tracing=/sys/kernel/tracing

trace_event()	# EVENT FILTER
{
	echo "$2" > $tracing/events/rar/"$1"/filter
	echo "stacktrace if $2" > $tracing/events/rar/"$1"/trigger
	echo 1 > $tracing/events/rar/"$1"/enable
}

trace_start()
{
	echo 0 > $tracing/tracing_on
	echo 16384 > $tracing/buffer_size_kb
	echo > $tracing/trace
	trace_event rar_reduce 'rank == 1 && phase == 0'
	trace_event rar_tx 'rank == 1'
	echo 1 > $tracing/tracing_on
}

trace_stop()
{
	echo 0 > $tracing/tracing_on
	for event in rar_reduce rar_tx; do
		echo 0 > $tracing/events/rar/$event/enable
		echo '!stacktrace' > $tracing/events/rar/$event/trigger
		echo 0 > $tracing/events/rar/$event/filter
	done
}

# Per chunk: the add's stack and the forward's, from the ingress hook outwards.
# They belong together if they are the same and nothing else happened on that CPU
# in between. Prints "pairs ADDED TOGETHER" and one pair of stacks.
trace_judge()
{
	awk '
	function store() {
		if (event == "")
			return
		if (event == "add") {
			added++
			add_chunk[cpu] = chunk
			add_outer[cpu] = outer
			add_stack[cpu] = stack
		} else if (add_chunk[cpu] == chunk && hook && soft &&
			   add_outer[cpu] == outer) {
			together++
			if (!shown++)
				example = "add:\n" add_stack[cpu] "forward:\n" stack
		}
		event = ""
	}
	/rar_(reduce|tx): / {
		store()
		event = /rar_reduce: / ? "add" : "tx"
		match($0, /\[[0-9]+\]/); cpu = substr($0, RSTART, RLENGTH)
		match($0, /chunk=[0-9]+/); chunk = substr($0, RSTART, RLENGTH)
		match($0, /op=[0-9]+/); chunk = chunk substr($0, RSTART, RLENGTH)
		soft = $0 ~ /\] [^ ][^ ][sH]/
		outer = stack = ""; hook = below = 0
		next
	}
	/^ => / {
		stack = stack $0 "\n"
		if (/rar_hook/) below = 1
		if (/nf_hook_slow/) hook = below
		if (below) outer = outer $2 " "
	}
	END {
		store()
		printf "%s", example
		printf "pairs added=%d together=%d\n", added, together
	}' $tracing/trace
}

one_softirq()
{
	local name="add and forward in one softirq below the ingress hook"

	if [ ! -e $tracing/events/rar ]; then
		skip "$name: the operation" "no tracefs"
		skip "$name" "no tracefs"
		return
	fi
	trace_start
	check "$name: the operation" ring -n 4 -t f32 -c 256k
	trace_stop
	if ! grep -q '^ => ' $tracing/trace; then
		skip "$name" "stack traces are empty in this kernel"
		return
	fi
	out=$(trace_judge)
	quote "$out"
	[ "$(word together)" -gt 0 ] && [ "$(word together)" -ge $(($(word added) / 2)) ]
	result $? "$name: $(word together) of $(word added) chunks"
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
plan 11
topo_up 4
topo_sysctl rx_path=ingress
each_rank tc qdisc replace dev eth0 root pfifo limit 10000
ring -n 4 -c "std,1M" > /dev/null	# everything has run once
bytes_of 1
bytes_of 4
bytes_of 16
delayed 2
delayed 4
one_softirq
finish
