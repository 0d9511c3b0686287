#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Keyed reductions in a group with a box, which combines records on their way to the root. Whatever
# happens to the box, the sums are right: each record counts once.
#
# The namespaces 0, 1, ... are the members; the last namespace of the topology is the box.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/box.sh
. lib/box.sh

members=4
box=4				# its namespace
address=10.77.0.$((box + 1))
made=BoxBatches
told_box=(BoxTaken BoxBatches BoxGaveUp TxData)
told_members=(BoxOpened BoxLost BoxReturned TxRetrans)

load()	# [options of keyed_load]...
{
	keyed_load -N rar -n "$members" "$@"
}

# Of records with few keys the root receives fewer chunks than the members send. How many fewer
# depends on the machine: what a batch may wait for others is a time.
fewer()
{
	by_box load -w -k 500 -c 60000 -r 8 || return
	[ $((10 * told[$box.TxData])) -lt $((9 * told[$box.BoxTaken])) ]
}

# The first reduction comes right after connect().
at_once()
{
	local -x RAR_BOX_WAIT=9000

	by_box load -k 500 -c 60000 -r 1
}

need_module
plan 16
topo_up $((members + 1))
topo_sysctl dead_ms=2000 join_ms=10000
rns 0 sysctl -qw net.rar.box="$address"
check "a box that is away" not_by_box load -r 6
box_is 64M
check "every key, type, reduction and root" by_box keyed -N rar short
check "records of few keys" fewer
check "more keys than the root has room for" by_box load -w -k 20000 -l 300 -r 8
check "room for nothing" tight 4096 load -w -r 12
check "room for a part of a batch" tight 150000 load -w -r 12	# one needs about 100 KB
check "loss on the legs" on_legs "loss 2%" by_box load -w -r 12
check "duplicates and reordering on the legs" \
	on_legs "delay 1ms 1ms duplicate 10%" by_box load -w -r 12
check "loss everywhere" \
	on_all "loss 1% duplicate 1% delay 500us 500us" by_box load -w -r 12
# The path to the box takes far longer than a path to the root.
check "a slow box" on_legs "delay 60ms" tell load -w -r 6
check "a member cannot reach the box" unreachable load -r 6
# The delay leaves the script time to act.
check "the box is killed and restarted" on_legs "delay 1ms" tell restarts 4 load -w -c 60000
check "a reduction that begins with the ring goes by the box if connect() waits for it" at_once
check "the box vanishes" tell vanish load -w -c 60000
topo_sysctl join_ms=2000
check "all memory is given back" given_back 20
check "and the box serves the next group" by_box load -w -r 3
finish
