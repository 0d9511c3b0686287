#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# words.sh [ROUNDS]: eight ranks send the words of the licences on this machine to a ninth, which
# counts them: by RAR_REDUCE_BY_KEY, the same with an aggregation box, over TCP in calls of 64 KiB,
# and over UDP record by record. Each rank is in a namespace of its own, and so is the box. Prints
# the median of the rounds, in turns, and how many chunks came to the root without and with the box.
. "$(dirname "$0")/../../selftests/lib/lib.sh"

# Fixed before anything was measured.
MAPPERS=8
REPEATS=20		# of the text: about a million words
UDP_REPEATS=4		# a fifth: the time is given for each word
ROUNDS=${1:-5}
words=$PWD/../build/bench/bin/words
BOX=$((MAPPERS + 1))	# its namespace

# ns KIND REPEATS: prints the nanoseconds for a word.
ns()
{
	local kind=$1 status before

	before=$(counter 0 RarRxData)
	[ "$kind" != box ] || rns 0 sysctl -qw net.rar.box=10.77.0.$((BOX + 1))
	run_words "${kind/box/rar}" "$2"
	status=$?
	rns 0 sysctl -qw net.rar.box=-
	echo $(($(counter 0 RarRxData) - before)) > "$tmp/chunks.$kind"
	return "$status"
}

run_words()	# KIND REPEATS
{
	"$words" "$1" "$MAPPERS" "$2" "$text" | awk '/ us / { printf "%.1f\n", 1000 * $1 / $3; n++ } END { exit !n }'
}

median() { sort -n | awk '{ x[NR] = $1 } END { printf "%.1f %.1f %.1f", x[int((NR + 1) / 2)], x[1], x[NR] }'; }

need_module
topo_up $((MAPPERS + 2)) || skip_all "no network namespaces"
tmp=$(mktemp -d)
trap 'topo_down; rm -rf "$tmp"' EXIT
text=$tmp/text
rns $BOX sysctl -qw net.rar.box_mem=256M
rns 0 sysctl -qw net.rar.box=-
cat /usr/share/common-licenses/* > "$text"
for mtu in 1500 9000; do
	topo_mtu "$mtu"
	for ((i = 0; i < ROUNDS; i++)); do
		kinds="rar box tcp udp"
		[ $((i % 2)) = 0 ] || kinds="udp tcp box rar"
		for kind in $kinds; do
			repeats=$REPEATS
			[ "$kind" != udp ] || repeats=$UDP_REPEATS
			ns "$kind" "$repeats" >> "$tmp/$kind.$mtu" || { echo "error: $kind failed"; exit 1; }
		done
	done
	read -r rar low high <<< "$(median < "$tmp/rar.$mtu")"
	printf 'mtu %s rar      %8.1f ns a word (%s to %s)\n' $mtu "$rar" "$low" "$high"
	printf 'mtu %s chunks at the root: %s, with a box %s\n' $mtu "$(cat "$tmp/chunks.rar")" \
		"$(cat "$tmp/chunks.box")"
	for kind in box tcp udp; do
		read -r mid low high <<< "$(median < "$tmp/$kind.$mtu")"
		printf 'mtu %s %s      %8.1f ns a word (%s to %s), rar %.2f times as fast\n' $mtu $kind \
			"$mid" "$low" "$high" "$(awk "BEGIN { print $mid / $rar }")"
	done
done
