# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Tests of the aggregation box. Sourced after lib.sh. The ranks 0 .. $members - 1 are the members.

# shellcheck disable=SC2154 # $members is set by the scripts that source this
# The sum of a counter over all members
all_members()	# NAME
{
	local r sum=0

	for ((r = 0; r < members; r++)); do
		sum=$((sum + $(counter "$r" "$1")))
	done
	echo "$sum"
}

# until_open BEFORE: waits until each member has opened its leg once more, at most 10 s
until_open()
{
	local i

	for ((i = 0; i < 100; i++)); do
		[ "$(all_members RarBoxOpened)" -lt $(($1 + members)) ] || return 0
		sleep 0.1
	done
}

# until_lost BEFORE: waits until a member has lost its leg, at most 30 s
until_lost()
{
	local i

	for ((i = 0; i < 300; i++)); do
		[ "$(all_members RarBoxLost)" -le "$1" ] || return 0
		sleep 0.1
	done
}

