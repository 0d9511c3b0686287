#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Ranks that share a host, a namespace or a process; listeners; ordinary users;
# devices that have routes of their own.
. "$(dirname "$0")/lib.sh"

mix=(-t "i32,f32" -c "std,300k")

# Four ranks in rar0: right bits, and not one packet on the UDP socket's path.
shares() # NAME ring-option...
{
	local name=$1

	shift
	check "$name" rns 0 ring -n 4 "${mix[@]}" "$@"
	[ "$(word encap)" = 0 ] && [ "$(word ingress)" -gt 100 ]
	result $? "$name: $(word ingress) packets at the ingress hook, $(word encap) at the socket"
}

taps=()
listen_on() # RANK DEVICE
{
	local log

	log=$(mktemp)
	rns "$1" tcpdump -Z root -p -n -i "$2" -w /dev/null udp 2> "$log" &
	taps+=($!)
	timeout 20 tail -n +1 -f "$log" --pid=$! | grep -q listening
	rm "$log"
}

listen()
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		listen_on $r eth0
	done
	listen_on 0 lo
	listen_on br br0
}

stop_listening()
{
	kill "${taps[@]}"
	wait "${taps[@]}"
	taps=()
}

with_listeners()
{
	if ! command -v tcpdump > /dev/null; then
		skip "tcpdump on all devices" "no tcpdump"
		skip "tcpdump in one namespace" "no tcpdump"
		return
	fi
	listen
	# With all checkers on, the taps can keep one CPU busy for seconds.
	topo_sysctl dead_ms=30000
	check "tcpdump on all devices" ring -n 4 "${mix[@]}"
	check "tcpdump in one namespace" rns 0 ring -n 4 -m same -a lo4 "${mix[@]}"
	stop_listening 2> /dev/null
}

# The ordinary tables know no way to the others.
in_a_vrf()
{
	local r

	if ! ip -n rar0 link add vrf0 type vrf table 77 2> /dev/null; then
		skip "bound to a device in a VRF" "no VRF in this kernel"
		skip "bound to a VRF" "no VRF in this kernel"
		return
	fi
	for ((r = 0; r < topo_n; r++)); do
		[ $r = 0 ] || ip -n rar$r link add vrf0 type vrf table 77
		ip -n rar$r link set vrf0 up
		ip -n rar$r link set eth0 master vrf0
	done
	check "bound to a device in a VRF" ring -n 4 -a 4 -D eth0 "${mix[@]}"
	check "bound to a VRF" ring -n 4 -a 4 -D vrf0 "${mix[@]}"
}

need_module
plan 16
topo_up 4
topo_sysctl rx_path=ingress
shares "4 ranks on one veth address" -m same -a 4
shares "4 ranks on one IPv6 veth address" -m same -a 6
shares "4 ranks on 127.0.0.1" -m same -a lo4
shares "4 ranks on ::1" -m same -a lo6
check "IPv6 link-local addresses with scope" ring -n 4 -a ll6 "${mix[@]}"
check "4 ranks as threads of one process" rns 0 ring -n 4 -m threads -a lo4 "${mix[@]}"
check "uid nobody" rns 0 setpriv --reuid=65534 --regid=65534 --clear-groups \
	"$(command -v ring)" -n 4 -m same -a lo4 "${mix[@]}"
with_listeners
check "two ranks as threads of one CPython process" rns 0 python3 ./threads.py
topo_sysctl join_ms=10000
in_a_vrf
finish
