#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Pods as Kubernetes makes them, by crun: four pods on two nodes, with user namespaces, between which a
# VXLAN carries packets without NAT. The module is the node's: a pod's first socket loads it. A
# seccomp profile may forbid the family; the runtime sets what a pod may not.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/pod.sh
. lib/pod.sh

ranks=4
families=../samples/jobs/families.py

# ring NAME OPTIONS...: runs librar_cards in all pods; the outputs are in $said of each. The last pod has
# the SECCOMP and the SYSCTLS of the arguments.
ring()
{
	local r pids=() seccomp sysctls

	rm -f $pod_cards/*
	for ((r = 0; r < ranks; r++)); do
		seccomp='' sysctls=''
		[ $r != 3 ] || seccomp=$1 sysctls=$2
		pod_run $r "$seccomp" "$sysctls" librar_cards /cards $ranks $r > "$work/out.$r" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	out=$(cat "$work"/out.*)
	quote "$out"
}

said() { [ "$(grep -cE "$1" <<< "$out")" = "$2" ]; }
in_pod() { pod_run "$@" 2>&1; }

sums()
{
	local r packets

	ring '' ''
	said '^rank [0-3]: 10$' 4
	result $? "four pods on two nodes: the sums are right"
	# shellcheck disable=SC2016 # for awk
	packets=$(rns 8 awk '$1 == "flannel.1:" { print $3 }' /proc/net/dev)
	[ "$packets" -gt 50 ] && [ "$(total RarOpsDone)" = $ranks ]
	result $? "operations of the module, $packets packets by the VXLAN"
}

# The module is unloaded: a pod has no right to load one, but its socket does.
autoload()
{
	module_unload && [ ! -e /proc/net/rar ]
	result $? "the module is unloaded"
	ring '' ''
	said '^rank [0-3]: 10$' 4 && [ -e /proc/net/rar ]
	result $? "the first socket of a pod without capabilities loads it"
}

# A profile with a list of families, without the family and with it
seccomp()
{
	local why="this kernel has no seccomp" name="a profile"

	if [ ! -e /proc/sys/kernel/seccomp ]; then
		skip "$name without family 22: said in the pod" "$why"
		skip "$name with family 22: the sums are right" "$why"
		return
	fi
	/usr/bin/python3 $families 1 2 10 16 > "$work/without.json"
	/usr/bin/python3 $families 1 2 10 16 22 > "$work/with.json"
	ring "$work/without.json" ''
	said '^rank 3: forbidden here: AF_RAR by a seccomp profile' 1 && said ': 10$' 0
	result $? "$name without family 22: said in the pod"
	ring "$work/with.json" ''
	said '^rank [0-3]: 10$' 4
	result $? "$name with family 22: the sums are right"
}

# What the runtime sets before the pod starts, as the kubelet lets it by --allowed-unsafe-sysctls
settings()
{
	out=$(in_pod 3 '' '"net.rar.dead_ms": "2000"' cat /proc/sys/net/rar/dead_ms)
	quote "$out"
	[ "$out" = 2000 ] && [ "$(rns 1 cat /proc/sys/net/rar/dead_ms)" = 5000 ]
	result $? "a setting of a pod is its own"
	out=$(in_pod 1 '' '' sh -c 'echo 9 > /proc/sys/net/rar/dead_ms')
	quote "$out"
	grep -q 'ermission denied' <<< "$out" && [ "$(rns 1 cat /proc/sys/net/rar/dead_ms)" = 5000 ]
	result $? "a pod without CAP_NET_ADMIN cannot change it"
	boxes_unload
	out=$(in_pod 3 '' '"net.rar.box_mem": "1048576"' cat /proc/sys/net/rar/box_mem)
	quote "$out"
	grep -q 'net/rar/box_mem.*not permitted' <<< "$out" && [ ! -e /sys/module/rar_box ]
	result $? "a pod with a user namespace does not make its node a box"
	module_unload
	out=$(in_pod 3 '' '"net.rar.dead_ms": "2000"' cat /proc/sys/net/rar/dead_ms)
	quote "$out"
	grep -q 'net/rar/dead_ms.*No such file' <<< "$out"
	result $? "without the module a pod with a setting does not start, and says why"
	modprobe rar
}

# A pod sees its own group; the node's other pods, and the node, are other namespaces.
others()
{
	local shown

	# This rank waits for one that never comes.
	pod_run 0 '' '"net.rar.join_ms": "8000"' \
		allreduce 0 2 "$(pod_address 0)" "$(pod_address 1)" > /dev/null 2>&1 &
	within 10 grep -q 'groups 1 ' "/proc/${pod_holder[0]}/net/rar"
	shown=$(in_pod 0 '' '' cat /proc/net/rar | head -n 1; in_pod 2 '' '' cat /proc/net/rar | head -n 1)
	quote "$shown"
	[ "$(grep -o 'groups [01]' <<< "$shown" | xargs)" = "groups 1 groups 0" ]
	result $? "a pod sees no group of another pod of its node"
	wait $!
}

need_module
command -v crun > /dev/null || skip_all "crun is not installed: scripts/deps pods"
need_file "$RAR_BIN/librar_cards"
modprobe -q vxlan
plan 12
trap pods_down EXIT
work=$(mktemp -d)
rm -rf $pod_root $pod_cards
mkdir -m 1777 $pod_cards
image $pod_root "$RAR_BIN/librar_cards" "$RAR_BIN/allreduce"
status=0
{ nodes_up && for ((r = 0; r < ranks; r++)); do pod_up $r || break; done; } || status=1
topo_n=$ranks	# for total()
[ $status = 0 ] && rns 0 ping -qc 1 -W 5 "$(pod_address 1)" > /dev/null
result $? "the pods of both nodes reach each other"
sums
autoload
seccomp
settings
others
finish
