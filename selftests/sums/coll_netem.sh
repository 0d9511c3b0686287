#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Collectives over links that lose, repeat and reorder packets; with the argument "each", over links
# that do only one of it.
. "$(dirname "$0")/../lib/lib.sh"

conditions="all loss 1% duplicate 2% delay 500us 500us reorder 25%"
[ "${1-}" != each ] || conditions="loss loss 1%
duplicate duplicate 5%
reorder delay 1ms reorder 25%"

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
topo_up 4 || skip_all "no network namespaces"
plan "$(wc -l <<< "$conditions")"
while read -r name parameters; do
	# shellcheck disable=SC2086 # a list
	topo_netem $parameters || exit
	check "$name" coll -N rar short
done <<< "$conditions"
finish
