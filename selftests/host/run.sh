#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# run.sh PROGRAM...: run test programs side by side, one TAP result for each; what
# they print is kept as comments. Exit status 4 of a program is a skip. RUN: runs a program of
# another architecture.

[ $# -gt 0 ] || { echo "usage: $0 program..." >&2; exit 2; }

dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
i=0 failed=0 skipped=0
# shellcheck disable=SC2086 # RUN may be nothing
for program; do
	i=$((i + 1))
	{ timeout "${TIMEOUT:-600}" ${RUN:-} "$program" > "$dir/$i" 2>&1; echo $? > "$dir/$i.status"; } &
done
wait

echo "TAP version 13"
echo "1..$#"
i=0
for program; do
	i=$((i + 1))
	name=$(basename "$(dirname "$program")")/$(basename "$program")
	echo "# $name"
	sed 's/^/# /' "$dir/$i"
	status=$(cat "$dir/$i.status")
	case $status in
	0) echo "ok $i $name" ;;
	4)
		echo "ok $i $name # SKIP $(sed -n 's/^1\.\.0 # SKIP //p' "$dir/$i")"
		skipped=$((skipped + 1)) ;;
	*) echo "not ok $i $name # exit=$status"; failed=$((failed + 1)) ;;
	esac
done
echo "# summary: $(($# - failed - skipped)) passed, $failed failed," \
     "$skipped skipped"
[ "$failed" -eq 0 ]
