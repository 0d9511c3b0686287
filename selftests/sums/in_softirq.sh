#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The properties of a ring in the kernel: a rank sends few bytes, and one softirq adds and forwards;
# in_softirq.sh delay: chunks do not wait for steps. Over links of 10 ms timers pace the packets, and
# on an emulated processor beside other work timers are late: so User-Mode Linux judges that.
. "$(dirname "$0")/../lib/lib.sh"

# An emulated CPU of a busy machine may stand still for longer than a timer of the ring. So a
# function that returns 1 is tried again; 4 is a skip, other values are final. The function
# sets $said to details.
best_of_3()	# NAME function argument...
{
	local name=$1 try status

	shift
	for try in 1 2 3; do
		said=
		"$@"
		status=$?
		[ $status = 1 ] || break
	done
	if [ $status = 4 ]; then
		skip "$name" "$said"
	else
		result "$status" "$name ($said, try $try)"
	fi
}

cpus=ff		# mask of the CPUs that "ring" may use

run_ring()	# ring-option...: output in $out
{
	out=$(taskset "$cpus" ring -t f32 "$@" 2>&1) && return
	quote "$out"
	said="ring failed"
	return 2
}

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
		snapshot "$r"
		for key in "${!now[@]}"; do was[$r,$key]=${now[$key]}; done
	done
}

# The payload that a rank sent since snapshot_all, in $sent, and the bytes of the wire, in
# $wire, with their bounds. Headers are Ethernet, IPv4, UDP and 64 bytes for every chunk, and 24
# for a seal. An ACK has 200 bytes at most, and a JOIN is as long as the MTU.
measure()	# RANK
{
	local r=$1

	snapshot "$r"
	sent=$((now[TxBytes] - was[$r,TxBytes]))
	wire=$((now[wire] - was[$r,wire]))
	least=$((sent + (106 + ${RAR_SECURITY:+24}+0) * (now[TxData] - was[$r,TxData])))
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
		[ "$sent" -ge "$ideal" ] && [ $((sent * 10)) -le $((ideal * 11)) ] || bad=1
		[ "$wire" -ge "$least" ] && [ "$wire" -le "$most" ] || return 3
	done
	return "$bad"
}

bytes_of()	# MIB
{
	snapshot_all
	run_ring -n "$topo_n" -c "$1M" || return
	said="N=$topo_n"
	judge_bytes $(($1 << 20))
}

# ---------------------------------------------------------------- delay

one_mib_takes()	# N qdisc...: into $took
{
	local n=$1

	shift
	each_rank tc qdisc replace dev eth0 root "$@" limit 10000
	run_ring -n "$n" -c 1M -r 4 || return
	took=$(word us)
}

delayed()	# N
{
	local took plain limit

	one_mib_takes "$1" pfifo || return
	plain=$took
	one_mib_takes "$1" netem delay 10ms || return
	# A step that waits costs a whole hop. Half of one is left for the CPU, whose work may
	# take longer when it is spread over time.
	limit=$(((2 * ($1 - 1) + 2) * 10000 + plain * 5 / 4 + 5000))
	said="$took us < $limit us, without delay $plain us"
	[ "$took" -lt "$limit" ]
}

# ---------------------------------------------------------------- one softirq

tracing=/sys/kernel/tracing

trace_event()	# EVENT FILTER
{
	echo "$2" > "$tracing/events/rar/$1/filter"
	echo "stacktrace if $2" > "$tracing/events/rar/$1/trigger"
	echo 1 > "$tracing/events/rar/$1/enable"
}

# Process names are not recorded: that would patch the scheduler while it runs, and an
# emulator may not survive it.
trace_start()
{
	echo 0 > "$tracing/tracing_on"
	echo 0 > "$tracing/options/record-cmd"
	echo 16384 > "$tracing/buffer_size_kb"
	echo > "$tracing/trace"
	trace_event rar_reduce 'phase == 0'
	trace_event rar_tx 'len > 0'
	echo 1 > "$tracing/tracing_on"
}

trace_stop()
{
	echo 0 > "$tracing/tracing_on"
	for event in rar_reduce rar_tx; do
		echo 0 > "$tracing/events/rar/$event/enable"
		echo '!stacktrace' > "$tracing/events/rar/$event/trigger"
		echo 0 > "$tracing/events/rar/$event/filter"
	done
	echo 1 > "$tracing/options/record-cmd"
}

# Compares the stacks of adding and of forwarding each chunk, from the ingress hook outwards.
# They belong together if they are equal and nothing else happened on that CPU in between. A
# chunk that came before its operation was posted is added by send() and does not count. Such
# are about half of the chunks, whatever the order in which ranks post. Prints the numbers
# and one pair of stacks.
trace_judge()
{
	awk '
	function store() {
		if (event == "add" && hook) {
			added++
			add_chunk[cpu] = chunk
			add_outer[cpu] = outer
			add_stack[cpu] = stack
		} else if (event == "add") {
			early++
			add_chunk[cpu] = ""
		} else if (event == "tx" && add_chunk[cpu] == chunk && hook &&
			   soft && add_outer[cpu] == outer) {
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
		match($0, /rank=[0-9]+/); chunk = chunk substr($0, RSTART, RLENGTH)
		match($0, / op=[0-9]+/); chunk = chunk substr($0, RSTART, RLENGTH)
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
		printf "pairs added=%d together=%d early=%d\n", added, together, early
	}' "$tracing/trace"
}

# On one CPU, since another CPU might forward what this one has added. The operations are so
# small that no window limits them, however long tracing makes a round trip.
one_softirq()
{
	local cpus=1

	each_rank tc qdisc replace dev eth0 root pfifo limit 10000
	said="no tracefs"
	[ -e "$tracing/events/rar" ] || return 4
	trace_start
	run_ring -n 4 -c 8k -r 60
	trace_stop
	said="stack traces are empty in this kernel"
	grep -q '^ => ' "$tracing/trace" || return 4
	out=$(trace_judge)
	quote "$out"
	said="$(word together) of $(word added) chunks, $(word early) came early"
	[ "$(word together)" -ge 50 ] && [ "$(word together)" -ge $(($(word added) / 2)) ]
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
topo_up 4
# Each chunk with a header, as on a wire
topo_sysctl rx_path=ingress carriers=0
each_rank tc qdisc replace dev eth0 root pfifo limit 10000
run_ring -n 4 -c "std,1M"	# warm-up
if [ "${1-}" = delay ]; then
	plan 2
	topo_sysctl carriers=1
	for n in 2 4; do
		best_of_3 "N=$n, 1 MiB, 10 ms per hop: no waiting for steps" delayed $n
	done
else
	plan 4
	for mib in 1 4 16; do
		best_of_3 "$mib MiB: at most 1.1 x 2(N-1)/N x S per rank, tc agrees" bytes_of $mib
	done
	topo_sysctl carriers=1
	best_of_3 "add and forward in one softirq below the ingress hook" one_softirq
fi
finish
