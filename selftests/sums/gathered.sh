#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RAR_GATHERED: small all-reduces gather all contributions, and each rank adds them. The bits
# are those of the ring, longer operations go by the ring in the same group, and on links
# with a long delay a small operation takes half the time.
. "$(dirname "$0")/../lib/lib.sh"
# lib.sh has changed to the directory selftests.
# shellcheck source=../lib/short.sh
. lib/short.sh

matrix()
{
	short_matrix -G
	check "N=3, in calls of 1000 bytes" ring -n 3 -G "${mix[@]}" -P 1000
}

# All contributions must fit into net.rar.mem. Here one operation does: the next one waits.
small_memory()
{
	topo_sysctl mem=$((80 << 10))
	check "N=8, little memory" ring -n 8 -G -t f32 -c 2048,2047,2048,1 -p 1 -r 20 -z cior
	topo_sysctl mem=$((64 << 20))
}

need_module
topo_up 16 || skip_all "no network namespaces"
if modprobe -q sch_netem; then
	plan 22
	matrix
	small_memory
	short_lossy -G
	topo_netem loss 1%
	check "every collective, lost packets" coll -G -N rar short
	short_long -G 3 60
else
	plan 15
	matrix
	small_memory
fi
finish
