#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A failed join is tried again with the same socket. Meanwhile the predecessor's packets begin
# to come through another device. The ingress hook must take them there, too.
. "$(dirname "$0")/../lib/lib.sh"

# Route packets between ranks 0 and 1 through DEVICE.
route_by()
{
	ip -n rar0 route replace 10.77.0.2/32 dev "$1" src 10.77.0.1 &&
		ip -n rar1 route replace 10.77.0.1/32 dev "$1" src 10.77.0.2
}

need_module
topo_up 3 || skip_all "no network namespaces"
topo_sysctl super_chunks=1
plan 3

for dev in alt1 alt2; do
	ip link add $dev netns rar0 type veth peer name $dev netns rar1 &&
		ip -n rar0 link set $dev up && ip -n rar1 link set $dev up
done
tmp=$(mktemp -d)
export SEED=1
args=(-n 3 -g 0x400c -d 5000 -i 60)
route_by alt1
rns 0 member -r 0 "${args[@]}" -j 1500 > "$tmp/0" 2>&1 &
rns 1 member -r 1 "${args[@]}" -j 1500 > "$tmp/1" 2>&1 &
until_says "$tmp/1" again
result $? "the first join fails"
[ "$(counter 1 RarRxIngress)" -gt 0 ]
result $? "the hook has taken packets"
route_by alt2
sleep 1		# rank 0 asks several times meanwhile
before=$(counter 1 RarRxEncap)
rns 2 member -r 2 "${args[@]}" > "$tmp/2" 2>&1
wait
encap=$(($(counter 1 RarRxEncap) - before))
cat "$tmp"/[012]
note "$encap packets by the UDP socket"
[ "$(grep -c done: "$tmp"/[012] | grep -c :1)" = 3 ] && [ $encap -lt 20 ]
result $? "the hook of the other device takes them, not the UDP socket"
rm -r "$tmp"
finish
