#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A small box for large tensors: with 64 MiB it serves eight groups at the same time, each of which
# sums 256 MiB. All sums are right, and the box never uses more than it may.
#
# large.sh [MiB]: the size of a tensor. By default 256, or as much as the memory of the guest allows:
# each rank has its tensor in memory. 256 need a guest of 6 GB:
#
#	scripts/vm --kernel uml --module --mem 6144 --timeout 3000 -- selftests/box/large.sh
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=2
box=2				# its namespace
address=10.77.0.$((box + 1))
jobs=8
limit=$((64 << 20))

# The size of a tensor in MiB for which the free memory of this machine suffices, at most 256
fitting()
{
	awk -v n=$((jobs * members)) '/^MemAvailable/ {
		size = int($2 / 1024 * 3 / 4 / n)
		print size < 256 ? size : 256
	}' /proc/meminfo
}

# The most groups that were open at the same time
at_once()
{
	awk '$1 == "limit" { n = 0 } $4 == "open" && ++n > most { most = n } END { print most + 0 }' \
		"$dir.watch"
}

large()
{
	local i status=0 types=(i32 f32)

	for ((i = 0; i < jobs; i++)); do
		job "$i" -t "${types[i % 2]}" -z i -c "${size}M" -p 1 -T 2900
	done
	watch
	jobs_end || status=1
	note "most in use: $(awk '$1 == "limit" && $4 > most { most = $4 } END { print most }' "$dir.watch")"
	[ "$status" = 0 ] && within_limit && given_back 10
}

# All groups were open at the same time, and many sums are of the box. If a rank posts two seconds
# later than another one of its group, because it has not filled its memory yet, the ring makes
# the sums of that group.
served()
{
	local sums chunks

	sums=$(counter "$box" RarBoxSums)
	chunks=$((jobs * (size << 20) / $(awk '$4 == "open" { print $5; exit }' "$dir.watch")))
	note "open at once: $(at_once) groups; sums of the box: $sums of $chunks"
	[ "$(at_once)" = "$jobs" ] && [ $((4 * sums)) -gt "$chunks" ]
}

need_module
size=${1:-$(fitting)}
plan 2
dir=$(mktemp -d)
topo_up $((members + 1))
topo_sysctl dead_ms=10000
box_setting mem="$limit" policy=preempt
check "$jobs groups of $members ranks sum $size MiB each" large
check "the box serves all of them at the same time" served
rm -rf "$dir" "$dir.watch"
finish
