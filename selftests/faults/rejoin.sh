#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rejoin.sh [RUNS]: after failures and partitions groups start again. One link is slow, so
# that the survivors have completed different numbers of operations.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

part()
{
	ip -n rarbr -batch - <<-EOT
		link add br1 type bridge mcast_snooping 0 forward_delay 0
		link set br1 up
		link set p2 master br1
		link set p3 master br1
	EOT
}

unite()
{
	ip -n rarbr -batch - <<-EOT
		link set p2 master br0
		link set p3 master br0
		link del br1
	EOT
}

# Print the packets of other epochs that were refused in all namespaces, by members of a new
# epoch or by tombstones of an old epoch.
strangers()
{
	local r sum=0

	for ((r = 0; r < topo_n; r++)); do
		counters $r
		sum=$((sum + mib[RarDropEpoch] + mib[RarDropState]))
	done
	echo $sum
}

need_module
plan 4
topo_up 4
export -f part unite
# Slow enough that an operation takes much longer on this link than elsewhere.
slow=30ms
[[ ${RAR_KERNEL-} != uml-debug* ]] || slow=100ms
topo_slow 1 $slow
check "the survivors start again" rejoin -N rar -r "${1:-8}"
topo_slow 1 off

check "a partition that both halves notice" rejoin -N rar -p part -q unite
before=$(strangers)
check "a partition that ends before one half notices" rejoin -N rar -p part -q unite -l
refused=$(($(strangers) - before))
note "$refused packets of other epochs refused"
[ $refused -gt 0 ]
result $? "packets of the halves met"
finish
