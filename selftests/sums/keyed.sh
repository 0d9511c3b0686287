#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A keyed reduction over links that lose, repeat and reorder packets, by RAR_DIRECT and RAR_AUTO.
. "$(dirname "$0")/../lib/lib.sh"

need_module
topo_up 5 || skip_all "no network namespaces"
if ! modprobe -q sch_netem; then
	plan 1
	check "by packets" keyed -N rar
	finish
	exit
fi
plan 4
check "by packets" keyed -N rar
topo_netem loss 1% duplicate 2% delay 500us 500us reorder 25% corrupt 1% || exit
check "everything, auto" keyed -A -N rar short
topo_netem loss 20%
before=$(total RarTxRetrans)
check "every fifth packet lost" keyed -N rar short
[ "$(total RarTxRetrans)" -gt "$before" ]
result $? "then chunks were sent $(($(total RarTxRetrans) - before)) times again"
finish
