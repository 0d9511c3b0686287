#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Groups with seals and a box that has a key, at both levels: the results have the bits of the ring,
# and the box makes them. Packets get lost on the legs; the box goes, and comes back; its key changes
# while ranks add. Without the key, at the box or at the ranks, all goes by the ring.
#
# Ranks 0, 1, ... are the members; the last namespace of the topology is the box.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
box=4				# its namespace
address=10.77.0.$((box + 1))
key="the key of the box, 32 letters!!"
export RAR_BOX_KEY=$key

# star [options of ring]: sums by a group with seals
star() { ring -n "$members" -s box="$address" "$@"; }

# dropped_there NAME: a counter of the box
dropped_there() { counter "$box" "RarDrop$1"; }

# reason: why rank 0 of a group that runs says that it is not at the box, as rarctl has it
reason() { rns 0 rarctl -j show | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["box"].get("reason"))'; }

# says REASON: a group that runs goes by the ring, and says why
says()
{
	local pid got status=0

	job_begins star -t f32 -c 1000 -d 100
	# shellcheck disable=SC2317 # called by within
	said() { got=$(reason 2> /dev/null) && [ "$got" = "$1" ]; }
	within 20 said "$1" || status=1
	job_ends || status=1
	note "the reason: $got"
	return "$status"
}

# The packets that the box counted as dropped while a group goes by the ring, and says why
ringed()	# REASON COUNTER
{
	local before

	before=$(dropped_there "$2")
	not_by_box says "$1" || return
	note "the box dropped for $2: $(($(dropped_there "$2") - before))"
	[ "$(dropped_there "$2")" -gt "$before" ]
}

# The box has another key.
wrong_key()
{
	local status

	has_key "another key of the same length!!" || return
	ringed key Seal
	status=$?
	has_key "$key"
	return "$status"
}

# It has none.
no_key()
{
	local status

	has_key '' || return
	ringed security Seal
	status=$?
	has_key "$key"
	return "$status"
}

# The ranks have none: they do not even ask.
ranks_without()
{
	local RAR_BOX_KEY=

	not_by_box star -t i32,f32 -c std,1000 && [ "${told[members.BoxOpened]}" = 0 ]
}

# A group without seals uses the box as if it had no key.
unsealed()
{
	local RAR_SECURITY=

	by_box star -w -t i32 -c std,1000
}

# The box gets the key while the ranks look for it, another one while they add, and the first again.
changes()
{
	local pid opened lost status

	has_key ''
	opened=$(all_members RarBoxOpened)
	job_begins on_legs "delay 1ms" star -t f32 -c 30k -p 4 -z cio -d 100
	sleep 1
	has_key "$key"
	until_open "$opened"
	lost=$(all_members RarBoxLost)
	has_key "another key of the same length!!"
	until_lost "$lost"
	opened=$(all_members RarBoxOpened)
	has_key "$key"
	until_open "$opened"
	opened=$(($(all_members RarBoxOpened) - opened))
	job_ends
	status=$?
	note "legs opened again: $opened"
	[ "$status" = 0 ] && [ "$opened" -ge "$members" ]
}

# bad_key FILE WORDS: rarctl refuses it, and says so
bad_key()
{
	local text

	text=$(rns "$box" rarctl box key "$1" 2>&1) && return 1
	note "$text"
	[[ $text == *$2* ]]
}

bad_keys()
{
	local status=0 n

	for n in 0 1 15 17 31 33 100; do
		bad_key <(head -c "$n" /dev/zero | tr '\0' x) "16 or 32 bytes" || status=1
	done
	bad_key <(head -c 32 /dev/zero) "not all zero" || status=1
	bad_key /nonexistent "No such file" || status=1
	bad_key / "Is a directory" || status=1
	rns "$box" rarctl box key 2>&1 | grep -q "wants a file" || status=1
	unshare -Urn rarctl box key <(printf %s "$key") 2>&1 | grep -q "no permission" || status=1
	# the key that was set before is there still
	by_box star -w -t i32 -c 1000 || status=1
	return "$status"
}

# What rarctl, /proc and the settings show, the key is not in it.
shown_nowhere()
{
	local text

	text=$(rns "$box" rarctl box; rns "$box" rarctl show settings; rns "$box" rarctl -j show counters
		rns "$box" cat /proc/net/rar_box /proc/net/rar; rns "$box" sysctl net.rar; dmesg)
	[ -n "$text" ] && ! grep -qF -e "${key:0:12}" -e "$(printf %s "${key:0:8}" | od -An -tx1 | tr -d ' \n')" \
		<<< "$text"
}

# A key of 16 bytes, too
short_key()
{
	local RAR_BOX_KEY=${key:0:16} status

	has_key "$RAR_BOX_KEY"
	by_box star -w -t i32,f32 -c 1000
	status=$?
	has_key "$key"
	return "$status"
}

both_levels()
{
	check "$RAR_SECURITY: all types, in place and out of place" by_box \
		star -w -t all -c std,30k -p 4 -z cior
	check "$RAR_SECURITY: broadcasts" by_box star -b -w -t i32,f32 -c std,30k -z cior
	check "$RAR_SECURITY: reductions to a root" by_box star -R -w -t i32,f32 -c std,30k -z cior
	check "$RAR_SECURITY: loss on the legs" on_legs "loss 2%" by_box \
		star -w -t i32,f32 -c std,100k -p 4 -z cio
	check "$RAR_SECURITY: duplicates and reordering on the legs" on_legs \
		"delay 2ms 2ms duplicate 5%" by_box star -w -t i32,f32 -c std,100k -p 4 -z cio
	check "$RAR_SECURITY: the box is killed and restarted" on_all "delay 2ms" \
		restarts 1 star -w -t f32 -c 30k,3001 -p 4 -z cio -d 100
	check "$RAR_SECURITY: the box vanishes" vanish star -w -t f32,i32 -c 100k -p 4 -z cio -d 100
	check "$RAR_SECURITY: another key" wrong_key
	check "$RAR_SECURITY: a box without a key" no_key
	check "$RAR_SECURITY: the key comes and goes" changes
}

need_module
plan 27
topo_up $((members + 1))
topo_sysctl dead_ms=2000
export RAR_SECURITY
box_is 64M
# before the box vanishes, and with it its IPv6 address
for RAR_SECURITY in auth encrypt; do
	check "$RAR_SECURITY: IPv6" by_box ring -w -n $members -a 6 -s "box=fd77::$((box + 1))" \
		-t f32,i32 -c std,100k
done
for RAR_SECURITY in auth encrypt; do both_levels; done
check "ranks without a key" ranks_without
check "a group without seals" unsealed
check "a key of 16 bytes" short_key
check "bad keys" bad_keys
check "nothing shows the key" shown_nowhere
finish
