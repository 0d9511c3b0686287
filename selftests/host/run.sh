#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# run.sh PROGRAM...: run test programs, one TAP result for each; what they print is kept as
# comments. Exit status 4 of a program is a skip. JOBS: how many run side by side, by default as
# many as there are processors. RUN: runs a program of another architecture.

[ $# -gt 0 ] || { echo "usage: $0 program..." >&2; exit 2; }

# run.sh --one DIR "NUMBER PROGRAM": what xargs starts
if [ "$1" = --one ]; then
	i=${3%% *} status=0 start=$(date +%s)
	# shellcheck disable=SC2086 # RUN may be nothing
	timeout "${TIMEOUT:-1800}" ${RUN:-} "${3#* }" > "$2/$i" 2>&1 || status=$?
	echo "$status $(($(date +%s) - start))" > "$2/$i.status"
	exit 0
fi

dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
i=0 failed=0 skipped=0
for program; do
	i=$((i + 1))
	printf '%s %s\0' "$i" "$program"
done | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" "$0" --one "$dir"

echo "TAP version 13"
echo "1..$#"
i=0
for program; do
	i=$((i + 1))
	name=$(basename "$(dirname "$program")")/$(basename "$program")
	read -r status seconds < "$dir/$i.status"
	echo "# $name, $seconds s"
	sed 's/^/# /' "$dir/$i"
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
