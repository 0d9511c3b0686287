# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# TAP of the host's shell tests. Sourced by scripts that end with "1..$nr" and status $failed.
# shellcheck disable=SC2034,SC2154 # they are read there, and $out is set there
nr=0 failed=0

# result STATUS NAME: prints the verdict, and of a failure the output that is in $out
result()	# STATUS NAME
{
	nr=$((nr + 1))
	[ "$1" = 0 ] || { failed=1 && printf 'not '; }
	echo "ok $nr $2"
	# shellcheck disable=SC2001 # every line
	[ "$1" = 0 ] || sed 's/^/# /' <<< "$out"
}

# leave_out NAME REASON: a case that cannot run here
leave_out()
{
	nr=$((nr + 1))
	echo "ok $nr $1 # SKIP $2"
}

# make_lib make-options: builds librar and what needs it. The host's tests may run side by side.
make_lib()
{
	mkdir -p build
	flock build/lib.lock make -s "$@" 2>&1
}
