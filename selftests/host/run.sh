#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# run.sh PROGRAM...: run test programs, one TAP result for each; what they
# print is kept as comments. Exit status 4 of a program is a skip.

[ $# -gt 0 ] || { echo "usage: $0 program..." >&2; exit 2; }

i=0 failed=0 skipped=0
exec 4>&1
echo "TAP version 13"
echo "1..$#"
for program; do
	i=$((i + 1))
	name=$(basename "$(dirname "$program")")/$(basename "$program")
	echo "# $name"
	# POSIX sh has no pipefail: the status travels on descriptor 3
	status=$({ { timeout "${TIMEOUT:-300}" "$program" 2>&1; echo $? >&3; } |
		   sed 's/^/# /' >&4; } 3>&1)
	case $status in
	0) echo "ok $i $name" ;;
	4) echo "ok $i $name # SKIP"; skipped=$((skipped + 1)) ;;
	*) echo "not ok $i $name # exit=$status"; failed=$((failed + 1)) ;;
	esac
done
echo "# summary: $(($# - failed - skipped)) passed, $failed failed," \
     "$skipped skipped"
[ "$failed" -eq 0 ]
