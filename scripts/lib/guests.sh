# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests with several guests, which write to $dir/out. Sourced, never run, after
# lib.sh. A test sets vm[INDEX] to the process of each guest that it starts.

failed=0 ran=0
vm=()

# ready KERNEL...: gets the kernels and builds the modules and the tests. Later that time would count
# for the limits of the guests
ready()
{
	local kernel

	for kernel; do rar_build "$kernel"; done
	rar_selftests
}

begin()		# NAME TESTS: makes $dir, which is removed at the end with all guests
{
	dir=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX")
	seed=${SEED:-$RANDOM$RANDOM}
	port=$((20000 + RANDOM % 20000))
	trap stop_all EXIT
	trap 'exit 130' INT TERM
	mkdir "$dir/out"
	echo "TAP version 13"
	echo "1..$2"
	echo "# SEED=$seed multicast port $port"
}

stop_all()
{
	local i

	for i in "${!vm[@]}"; do
		if kill "${vm[i]}" 2> /dev/null; then wait "${vm[i]}" || true; fi
	done
	rm -r "$dir"
} 2> /dev/null

result()	# STATUS NAME
{
	ran=$((ran + 1))
	[ "$1" = 0 ] || { failed=1; echo -n "not "; }
	echo "ok $ran $2"
}

finish() { exit "$failed"; }

# judge NAME command...: prints the result of a command as a test
judge()
{
	local name=$1 status=0

	shift
	"$@" || status=$?
	result $status "$name"
}

# line WORD FILES: prints the lines that begin with WORD
line()
{
	# shellcheck disable=SC2086 # FILES may be a pattern
	(cd "$dir/out" && grep -ha "^$1" $2) 2> /dev/null
}
word() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" <<< "$2"; }

# wait_lines SECONDS WORD FILE...: waits until each file has a line that begins with WORD
wait_lines()
{
	local end=$((SECONDS + $1)) what=$2 file

	shift 2
	for file in "$@"; do
		until line "$what" "$file" > /dev/null; do
			[ $SECONDS -lt $end ] || { echo "# no '$what' in $file"; return 1; }
			sleep 0.1
		done
	done
}

# ended INDEX...: these guests end with status 0, so their kernels had no complaint
ended()
{
	local i bad=0

	for i in "$@"; do
		wait "${vm[i]}" || { sed 's/^/# /' "$dir/vm.$i"; bad=1; }
		unset "vm[$i]"
	done
	return "$bad"
}
