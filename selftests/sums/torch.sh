#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The backend of PyTorch on the module: a training whose ranks are in one network namespace, and
# in one each, compared with gloo. The module's counters prove that the ring did the work. A killed rank.
. "$(dirname "$0")/../lib/torch.sh"
. "$(dirname "$0")/../lib/lib.sh"
cd .. || exit

where=
# Ranks in one namespace or in one each.
place()
{
	where=$1
	case $where in
	one) netns=rar. master=127.0.0.1 settings=(RAR_LOCAL=127.0.0.1 GLOO_SOCKET_IFNAME=lo) ;;
	each) netns=rar master=10.77.0.1
		settings=(RAR_LOCAL=10.77.0.0/24 GLOO_SOCKET_IFNAME=eth0) ;;
	esac
}

# by_module NAME command...: out of which at least one operation for each call by the ring
by_module()
{
	local name=$1 before ops said

	shift
	before=$(total RarOpsDone)
	"$@"
	ops=$(($(total RarOpsDone) - before)) said=$(said_ops)
	[ "$said" -gt 100 ] && [ "$ops" -ge "$said" ]
	result $? "$name: $ops operations of the module for $said calls"
}

losses() { sed -n 's/^epoch.*loss //p' <<< "$out"; }

# same_curve A B: the losses of the epochs differ by less than a hundredth
same_curve()
{
	paste <(echo "$1") <(echo "$2") |
		awk '{ d = $1 - $2; if (d * d > 1e-4 || !NF) bad = 1 } END { exit bad || NR < 2 }'
}

collectives()
{
	calls 3 calls
	quote "$out"
	all_right 3
	result $? "$where: all collectives"
}

training_of_two()
{
	local gloo

	train 2 "" --epochs 2
	gloo=$(states)
	by_module "$where, 2 ranks" train 2 "-m rar_torch" --epochs 2
	quote "$out"
	by_ring && [ -n "$(weights)" ] && [ "$(states)" = "$gloo" ]
	result $? "$where, 2 ranks: weights and buffers are those of gloo"
}

training_of_four()
{
	local gloo

	train 4 "" --epochs 3
	gloo=$(losses)
	by_module "$where, 4 ranks" train 4 "-m rar_torch" --epochs 3
	quote "$out"
	note "with gloo: ${gloo//$'\n'/ }"
	[ -n "$(weights)" ] && same_curve "$gloo" "$(losses)"
	result $? "$where, 4 ranks: equal weights, and the losses of gloo"
}

hooks()
{
	local hook

	for hook in average bf16; do
		train 4 "" --epochs 3 --hook $hook
		quote "$out"
		[ -n "$(weights)" ] && learned
		result $? "$where, 4 ranks, the hook $hook: equal weights, and it learns"
	done
}

one_dies()
{
	calls 3 die
	quote "$out"
	all_right 2
	result $? "$where: the error names the killed rank"
	recovery
	status=$?
	quote "$out"
	result $status "$where: a rank is killed, and the others go on"
}

need_module
find_torch || skip_all "PyTorch is not installed: scripts/deps torch"
need_file build/lib/librar.so.0
topo_up 4
limit=1200
start_server
if [ -e "${RAR_DIGITS-}" ]; then
	cp "$RAR_DIGITS" "$files/digits.csv"
else
	digits > "$files/digits.csv"
fi
plan 14
place one
collectives
training_of_two
one_dies
place each
collectives
training_of_two
training_of_four
hooks
one_dies
stop_server
finish
