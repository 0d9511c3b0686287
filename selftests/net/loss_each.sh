#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every packet of a small operation is lost, one at a time: data and acknowledgments of all
# links, 5 ms from rank to rank. An operation that loses a packet must not take much longer
# than an operation without loss. Besides, the last packet of all is lost while its sender
# overwrites its buffer or closes, and operations are released out of order or late.
#
# There is a rule per packet: on the way into a rank nftables drops the k-th data packet of
# an operation, or the k-th acknowledgment that reports it as the last operation posted.
# Each packet has two rules and the shorter delay counts, as a busy machine only adds to it.
. "$(dirname "$0")/../lib/lib.sh"

n=3
chunks=8			# own chunks of each rank
hop_ms=5
warmup=8			# operations; then come those without loss, to compare with
lossless=40
tails=6				# rules for each last packet
data=$((2 * (n - 1) * chunks))	# packets on a link
acks=$((data / 2))		# rules for acknowledgments: there are fewer packets
elements=$((n * chunks * 1408 / 4))
op=(ring -n "$n" -t f32 -c "$elements")

# rule OPERATION data|ack K: operations are numbered from 0
rule()
{
	local match="@th,72,8 <= 2 @th,320,64 $1"	# RS or AG; op_seq

	[ "$2" = data ] || match="@th,72,8 3 @th,320,64 $(($1 + 1))"	# ACK; posted
	echo "udp dport 18118 $match numgen inc mod 2147483648 == $3 counter drop comment \"$1 $2 $3\""
}

# Rules for a rank. Every second operation loses nothing, so that all earlier operations are
# released when one with a loss begins.
rules()		# FIRST-OPERATION
{
	local seq=$1 k

	for ((k = 0; k < data; k++, seq += 2)); do rule "$seq" data $k; done
	for ((k = 0; k < acks; k++, seq += 2)); do rule "$seq" ack $k; done
}

tail_rules()	# FIRST-OPERATION
{
	local seq=$1 i

	for ((i = 0; i < tails; i++, seq += 2)); do rule "$seq" data $((data - 1)); done
}

# Load rules for two rounds of all packets, then for the last packets again; sets $next.
load_rules()
{
	local r each=$((2 * (data + acks))) first=$((warmup + lossless))

	for ((r = 0; r < n; r++)); do
		{
			rules $((first + r * each))
			rules $((first + (n + r) * each))
			tail_rules $((first + 2 * n * each + r * 2 * tails))
		} | topo_rules $r || return
	done
	next=$((first + 2 * n * each + n * 2 * tails))
}

# "operation rank data|ack k" of every packet that was dropped
dropped()
{
	local r

	for ((r = 0; r < n; r++)); do
		topo_rules_of $r 2> /dev/null |
			sed -n "s/.*counter packets [1-9].* comment \"\([0-9]*\) \(.*\)\".*/\1 $r \2/p"
	done
}

# ---------------------------------------------------------------- every packet

# Print "us rank data|ack k" for each packet: the delay that its loss caused.
delays()
{
	awk -v base="$clean_us" '
		NR == FNR { us[$1] = $2 - base; next }
		{ what = $2 " " $3 " " $4 }
		!(what in least) || us[$1] < least[what] { least[what] = us[$1] }
		END { for (what in least) print least[what], what }' \
		"$dir/repeats" "$dir/dropped" | sort -n
}

# Print the time of an operation without loss.
clean()
{
	tail -n +$((warmup + 1)) "$dir/repeats" | head -n $lossless |
		cut -d ' ' -f 2 | percentile 50
}

# at_most PERCENT RTT
at_most()
{
	local us

	us=$(percentile "$1" < "$dir/delays")
	[ "$us" -le $(($2 * 2 * hop_ms * 1000)) ]
	result $? "$1 % recover within $2 RTT: $us us"
}

one_at_a_time()
{
	local status=0 ndata nacks

	load_rules
	result $? "rules for $next operations"
	"${op[@]}" -r "$next" -v -T 200 > "$dir/log" 2>&1 || status=$?
	out=$(grep -v ^repeat: "$dir/log")
	quote "$out"
	result $status "N=$n: all bits are right"
	sed -n 's/^repeat: i=\([0-9]*\) us=/\1 /p' "$dir/log" > "$dir/repeats"
	dropped > "$dir/dropped"
	topo_rules_off
	clean_us=$(clean)
	delays > "$dir/delays"
	ndata=$(grep -c data "$dir/delays")
	nacks=$(grep -c ack "$dir/delays")
	note "$clean_us us without loss; $(wc -l < "$dir/dropped") operations lost a packet"
	note "the slowest (us, rank, packet): $(tail -n 8 "$dir/delays" | paste -sd ,)"
	[ "$ndata" = $((n * data)) ] && ! grep -q "ack $((acks - 1))\$" "$dir/delays"
	result $? "each packet was lost: $ndata data, $nacks acknowledgments"
	at_most 50 3
	at_most 99 6
}

# No packet follows the last packet of an operation, so only a timeout finds its loss.
tail_loss()
{
	local us pto

	pto=$(word rto)
	us=$(sed -n "s/ [0-9]* data $((data - 1))\$//p" "$dir/delays" | tail -n 1)
	[ "$us" -le $((2 * pto)) ]
	result $? "the last packet recovers within 2 probe timeouts of $pto us: $us us"
}

# ---------------------------------------------------------------- the last packet

# lose_last RANK FIRST-OPERATION STEP COUNT: the last data packets into this rank are lost
lose_last()
{
	local seq i

	for ((i = 0, seq = $2; i < $4; i++, seq += $3)); do
		rule "$seq" data $((data - 1))
	done | topo_rules "$1"
}

# One operation at a time, so that its buffer is overwritten at once.
overwritten()
{
	local r count=30 list

	for ((r = 0; r < n; r++)); do
		lose_last $r $r $n $((count / n))
	done
	list=$(yes $elements | head -n $count | paste -sd ,)
	check "the sender of a lost packet overwrites its buffer" \
		ring -n $n -t f32 -c "$list" -p 1 -T 60
	[ "$(dropped | wc -l)" = $count ]
	result $? "a packet was lost in $(dropped | wc -l) operations"
	topo_rules_off
}

# closed RANK: the last packet into RANK is lost and its predecessor closes
closed()
{
	lose_last "$1" 0 1 1
	check "the sender of a lost packet to rank $1 closes" "${op[@]}" -q -T 60
	[ "$(dropped | wc -l)" = 1 ]
	result $? "the packet was lost"
	topo_rules_off
}

# ---------------------------------------------------------------- released

# Each rank loses six packets of operation 0's all-gather, so later operations are released
# before it. Each rule drops the first packet that it sees.
lose_six()
{
	local r k

	for ((r = 0; r < n; r++)); do
		for ((k = 0; k < 6; k++)); do
			echo "udp dport 18118 @th,72,8 2 @th,320,64 0 numgen inc mod 2147483648 == 0 counter drop"
		done | topo_rules $r || return
	done
}

# With hop_ms of delay an operation is complete before all of it is acknowledged. send() must
# then wait for its release, although all operations wait for recv().
released()
{
	lose_six
	check "operations are released out of order" ring -n $n -t f32 \
		-c "$elements,$elements,$elements" -p 3 -T 60
	topo_rules_off
	topo_sysctl mem=$((8 << 20))
	check "more than half of the memory, when all is released" ring -n $n -t f32 \
		-c "$elements,5M" -p 1 -T 60
	check "... which is a moment after it is complete" ring -n $n -t f32 \
		-c 3M,3M,3M -p 2 -T 60
	lose_six
	check "... also out of order" ring -n $n -t f32 \
		-c "$elements,$elements,$elements,5M" -p 3 -T 60
	topo_rules_off
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
nft list tables > /dev/null 2>&1 || skip_all "no nftables in this kernel"
dir=$(mktemp -d)
plan $((12 + 2 * n))
topo_up $n
topo_neighbours
topo_sysctl super_chunks=1
topo_netem delay ${hop_ms}ms
one_at_a_time
tail_loss
overwritten
for ((rank = 0; rank < n; rank++)); do
	closed $rank
done
released
finish
