#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# BPF programs of cgroups: a member's packets pass the programs of its own cgroup, in both
# directions and on every receive path, whoever opened the UDP port first. Packets of members
# in other cgroups do not.
. "$(dirname "$0")/../lib/lib.sh"

pins=/sys/fs/bpf/rar-cgroup
group=100
export SEED=${SEED:-20261123}	# separate "member" processes use the same data

# in_cgroup NAME RANK command...: runs in the cgroup and in a rank's namespace
in_cgroup()
{
	local cgroup=$1

	shift
	(
		echo "$BASHPID" > "/sys/fs/cgroup/$cgroup/cgroup.procs" && rns "$@"
	)
}

attach() { bpftool cgroup attach "/sys/fs/cgroup/$1" "cgroup_inet_${2##*_}" pinned "$pins/$2"; }
detach() { bpftool cgroup detach "/sys/fs/cgroup/$1" "cgroup_inet_${2##*_}" pinned "$pins/$2"; }

# seen: packets counted since the last call, egress and ingress
seen()
{
	local now

	mapfile -t now < <(bpftool -j map dump pinned "$pins/maps/seen" |
		grep -o '"formatted":{[^}]*}' | sed 's/.*"value":\([0-9]*\).*/\1/')
	egress=$((now[0] - last[0])) ingress=$((now[1] - last[1]))
	last=("${now[@]}")
}
last=(0 0)

# pair CGROUP [SECONDS]: a ring of rank 0 in this cgroup and rank 1 in no cgroup of the test, in time
pair()
{
	local status=0 limit=${2-10}

	group=$((group + 1))
	rns 1 timeout $((limit + 2)) member -r 1 -n 2 -g $group -i 5 -c 50000 > /dev/null 2>&1 &
	in_cgroup "$1" 0 timeout "$limit" member -r 0 -n 2 -g $group -i 5 -c 50000 || status=1
	kill $! 2> /dev/null
	wait $!
	return $status
}

counted() # NAME
{
	seen
	check "$1" pair test
	seen
	[ "$egress" -gt 10 ] && [ "$ingress" -gt 10 ]
	result $? "$1: $egress packets sent and $ingress received are counted"
}

none() # NAME PROGRAM
{
	attach test "$2"
	! pair test 5 > /dev/null 2>&1
	result $? "$1: no ring"
	detach test "$2"
}

need_module
mkdir -p /sys/fs/cgroup/test || skip_all "no cgroups"
bpftool prog loadall "$RAR_BPF_CGROUP" $pins pinmaps $pins/maps ||
	skip_all "no programs for cgroups in this kernel"
plan 15
topo_up 2
topo_sysctl local=1

# A member outside the cgroup opens the port first; its packets are never judged.
for r in 0 1; do
	rns $r member -r $r -n 2 -g 99 -e > /dev/null 2>&1 &
done
sleep 1
attach test count_egress
attach test count_ingress
sleep 1
seen
[ "$egress" = 0 ] && [ "$ingress" = 0 ]
result $? "packets of a member outside: $egress sent, $ingress received"
pkill -STOP -x member	# it keeps the port but uses no CPU
for path in ingress udp; do
	topo_sysctl rx_path=$path
	counted "$path"
done
topo_sysctl super_chunks=1
counted "single packets"
topo_sysctl super_chunks=64 rx_path=ingress
data=$(counter 0 RarTxData)
seen
check "in one namespace" in_cgroup test 0 ring -n 3 -m same -c 100k -t f32 -T 30
data=$(($(counter 0 RarTxData) - data))
seen
[ $data -gt 40 ] && [ "$egress" -gt 10 ] && [ "$ingress" -gt 10 ]
result $? "in one namespace: $data chunks in packets, $egress sent and $ingress received are counted"
detach test count_egress
detach test count_ingress

for path in ingress udp; do
	topo_sysctl rx_path=$path
	none "$path: nothing may be sent" drop_egress
	none "$path: nothing may be received" drop_ingress
done
[ "$(counter 0 RarDropFilter)" -gt 5 ]
result $? "dropped packets are counted"
pkill -KILL -x member
rm -r $pins
check "after that" pair test
finish
