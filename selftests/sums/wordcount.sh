#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# samples/wordcount.c: 8 ranks send the words of the licences of this machine to a ninth.
. "$(dirname "$0")/../lib/lib.sh"

need_module
[ -x "$RAR_BIN/wordcount" ] || skip_all "no samples beside the tests"
topo_up 9 || skip_all "no network namespaces"
plan 3

# Rank 0 reduces; each other rank has some of the files.
counted()
{
	local files=(/usr/share/common-licenses/*) pids=() r failed=0

	for r in 8 7 6 5 4 3 2 1; do
		rns "$r" wordcount "$r" 9 "10.77.0.$((r + 1))" "10.77.0.$((1 + (r + 1) % 9))" \
			"${files[@]:(r - 1) * 2:2}" > /dev/null &
		pids+=($!)
	done
	rns 0 wordcount 0 9 10.77.0.1 10.77.0.2 "${files[@]:16}" > "$tmp/got" || failed=1
	for r in "${pids[@]}"; do
		wait "$r" || failed=1
	done
	return "$failed"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat /usr/share/common-licenses/* | LC_ALL=C tr "[:upper:]" "[:lower:]" | LC_ALL=C tr -cs '[:lower:]' '\n' |
	grep -v '^$' | cut -c-32 | LC_ALL=C sort | uniq -c > "$tmp/want"
check "nine ranks count" counted
[ "$(wc -l < "$tmp/want")" -gt 1000 ]
result $? "$(awk '{ n += $1 } END { print n }' "$tmp/want") words, $(wc -l < "$tmp/want") of them different"
LC_ALL=C sort -k2 "$tmp/got" | cmp - "$tmp/want"
result $? "as sort and uniq count them"
finish
