#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An operation gives the same bits whatever the MTU, offloads, receive path, reduction kernel
# and kind of memory.
. "$(dirname "$0")/../lib/lib.sh"

op=(ring -n 4 -t f32 -c "100003,300k" -p 2)
export SEED=${SEED:-20260720}
bits=
within=()		# command that runs the ring, none by default

same()	# NAME option...
{
	local name=$1

	shift
	check "$name" "${within[@]}" "${op[@]}" "$@"
	: "${bits:=$(word hash)}"
	[ -n "$bits" ] && [ "$(word hash)" = "$bits" ]
	result $? "$name: the same bits"
}

both_offloads()	# MTU
{
	topo_mtu "$1"
	topo_gso off
	same "mtu $1, offloads off" -s rx_path=ingress
	topo_gso on
	topo_sysctl super_chunks=1
	same "mtu $1, offloads on, no superpackets" -s rx_path=ingress
	topo_sysctl super_chunks=64
}

# Reload the module with a reduction kernel, if this CPU supports it.
with_kernel()	# NAME
{
	local name="reduce=$1"

	if ! grep -q "^$1 yes" /proc/net/rar_reduce; then
		skip "$name" "not on this CPU"
		skip "$name: the same bits" "not on this CPU"
	elif ! { module_unload && modprobe rar "$name"; }; then
		result 1 "$name: reload"
		result 1 "$name: the same bits"
	else
		same "$name" -s rx_path=ingress
	fi
}

need_module
plan 34
topo_up 4
both_offloads 1280
both_offloads 9000
both_offloads 1500
same "udp path" -s rx_path=udp
same "in place" -z i
same "out of place" -z o
same "each rank in its own mode" -z cio
within=(rns 0)
same "in memory" -m same -a lo4
same "in memory, in place" -m same -a lo4 -z i
same "in memory, each rank in its own mode" -m same -a lo4 -z cio
within=()
with_kernel generic
with_kernel avx2
with_kernel avx512
with_kernel neon
module_unload && modprobe rar
finish
