# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # $mix is read by the scripts that source this
# Tests of the ways that short operations may take. Sourced after lib.sh. FLAG is the option of
# the program "ring" for the schedule.

# Lengths around the border (8 KiB), and those of many chunks at any MTU.
mix=(-t all -c "std,1,2047,2048,2049,100k")

short_matrix()	# FLAG: 13 cases; 16 ranks are up
{
	local n

	for n in 1 2 3 4 5 8 16; do
		check "N=$n" ring -n $n "$1" -t i32,f32 -c std,2048,2049 -p 8
	done
	check "N=3, all types, in place" ring -n 3 "$1" "${mix[@]}" -z i
	check "N=3, all types, out of place" ring -n 3 "$1" "${mix[@]}" -z o
	check "N=5, all types, each rank its mode" ring -n 5 "$1" "${mix[@]}" -z cior -p 4
	check "N=4, in random order, IPv6" ring -n 4 "$1" -a 6 -t f32 -c std -x -p 8
	check "N=4, by the UDP socket" ring -n 4 "$1" -t f32 -c std -s rx_path=udp
	topo_sysctl rx_path=ingress
	check "N=8, in one namespace" rns 0 ring -n 8 -m same -a lo4 "$1" "${mix[@]}" -z cior -p 8
}

short_lossy()	# FLAG: 3 cases
{
	local name parameters

	while read -r name parameters; do
		# shellcheck disable=SC2086 # a list
		topo_netem $parameters || exit
		check "$name" ring -n 4 "$1" -t f32 -c std,1,2048,2049 -p 8 -z cior
	done <<- END
		loss loss 2%
		duplicates duplicate 5%
		all loss 1% duplicate 2% delay 500us 500us reorder 25%
	END
}

# The delays of the links decide the time of 4 KB at 4 ranks. The ring takes 6 hops.
short_long()	# FLAG HOPS LIMIT: 3 cases; leaves links of 20 ms
{
	local ring

	topo_netem delay 20ms
	check "long links, by ranks" ring -n 4 -t f32 -c 1000 -r 5
	ring=$(word us)
	check "long links, $2 hops" ring -n 4 "$1" -t f32 -c 1000 -r 5
	note "4 KB, 4 ranks, 20 ms per hop: $ring us by ranks, $(word us) us in $2 hops"
	[ $((100 * $(word us))) -le $(($3 * ring)) ]
	result $? "4 KB take $((100 * $(word us) / ring)) % of the time by ranks, $3 at most"
}

# bar RANK TO, unbar RANK TO: the first rank cannot send to the second any more, and can again.
bar() { rns "$1" ip route add unreachable "10.77.0.$(($2 + 1))/32"; }
unbar() { rns "$1" ip route del unreachable "10.77.0.$(($2 + 1))/32"; }

# Rank 5 stands still for much longer than dead_ms. The others wait for it, and ask one another for
# partial sums that cannot be made yet. None of them is silent, and no path is narrow.
short_straggler()	# FLAG ELEMENTS: 1 case
{
	local before

	topo_sysctl dead_ms=1000
	before=$(counter 5 RarOpsDone)
	(
		until_runs 5 "$before"
		ip netns pids rar5 | xargs kill -STOP
		sleep 5
		ip netns pids rar5 | xargs kill -CONT
	) &
	check "a rank stands still" ring -n 7 "$1" -t f32 -c "$2" -d 5
	wait $!
	topo_sysctl dead_ms=5000
}

# Rank 2 cannot answer rank 0 any more, in a running group: both are alive.
short_cut_off()	# FLAG [ELEMENTS]: 1 case
{
	local before

	topo_sysctl dead_ms=1000
	before=$(counter 2 RarOpsDone)
	(until_runs 2 "$before" && bar 2 0) &
	! out=$(ring -n 4 "$1" -t f32 -c "${2:-64}" -d 30 2>&1) && grep -qi "silent" <<< "$out"
	result $? "cut off from each other while it runs: $(grep -m 1 -i silent <<< "$out")"
	wait $!
	unbar 2 0
	topo_sysctl dead_ms=5000
}

# Full-size packets from rank 2 to rank 0 get lost in a running group, and nobody says so.
short_black_hole()	# FLAG ELEMENTS: 1 case
{
	local before

	topo_sysctl dead_ms=1000
	before=$(counter 2 RarOpsDone)
	(until_runs 2 "$before" && topo_rules 0 <<< "ip saddr 10.77.0.3 ip length > 1300 drop") &
	! out=$(ring -n 4 "$1" -t f32 -c "$2" -T 30 -d 60 2>&1) &&
		grep -q "Message too long.*rank 2 other 0" <<< "$out"
	result $? "the path between two ranks becomes narrow silently: $(grep -m 1 rank <<< "$out")"
	wait $!
	topo_rules_off
	topo_sysctl dead_ms=5000
}
