#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Containers of systemd-nspawn, without systemd as the host's first process: a rank in each of four
# network namespaces. Then a container with a network of its own.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/pod.sh
. lib/pod.sh

ranks=4
home=/var/tmp/rar-nspawn
samples=$(readlink -f ../samples/jobs)

# container RANK
container() { timeout $((200 * slow)) "$samples/nspawn.sh" $home/root "rar$1" $home/cards "$ranks" "$1"; }

# alone OPTION... PROGRAM: in a container with a network of its own
alone()
{
	out=$(timeout $((100 * slow)) systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --volatile=overlay \
		--network-namespace-path=/run/netns/rar9 --directory=$home/root "$@" 2>&1)
	quote "$out"
}

need_module
command -v systemd-nspawn > /dev/null || skip_all "systemd-nspawn is not installed: scripts/deps pods"
need_file "$RAR_BIN/librar_cards"
plan 4
trap 'topo_exit; rm -rf $home' EXIT
topo_up $ranks
ip netns add rar9
mkdir -p $home/cards
image $home/root "$RAR_BIN/librar_cards"
mv $home/root/bin/librar_cards $home/root/bin/librar
containers $ranks $home
result $? "a container in each of four namespaces: the sums are right"
[ "$(total RarOpsDone)" = $ranks ]
result $? "an operation of the module for each rank"
alone sh -c 'head -n 1 /proc/net/rar; cat /proc/sys/net/rar/dead_ms'
grep -q 'groups 0 mem 0' <<< "$out" && grep -q '^5000' <<< "$out"
result $? "a container with a network of its own sees no groups of its host"
alone --rlimit=MEMLOCK=0 sh -c 'ulimit -l'
grep -q '^0' <<< "$out"
result $? "--rlimit=MEMLOCK sets what a container may lock"
finish
