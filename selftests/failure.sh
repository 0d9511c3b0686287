#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A rank is cut off in the middle of a large operation: its device or its network
# namespace goes away, a firewall drops its packets for good. The survivors name
# it, by silence or because its kernel says so, within dead_ms + 1 s.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/lib.sh"

# cut_off NAME REASONS COMMAND [option of failure]
cut_off()
{
	local name=$1 reasons=$2 command=$3

	shift 3
	check "$name" failure --netns rar --victim 2 --reason "$reasons" \
		--cut "$command" "$@"
}

drop_sent()
{
	rns 2 nft -f - <<-'EOT'
		add table inet t
		add chain inet t out { type filter hook output priority 0; policy drop; }
	EOT
}

# Before our own hook in the same place.
drop_received()
{
	rns 2 nft -f - <<-'EOT'
		add table netdev t
		add chain netdev t in { type filter hook ingress device eth0 priority -500; policy drop; }
	EOT
}

# Rank 2 again as it was before it was cut off. Its new device has another address,
# which the others would take some 8 s to notice.
revive()
{
	local r

	[ -e /run/netns/rar2 ] || ip netns add rar2
	ip -n rarbr link show p2 > /dev/null 2>&1 ||
		ip link add eth0 netns rar2 type veth peer name p2 netns rarbr
	ip -n rarbr link set p2 master br0 addrgenmode none up
	topo_rank 2 | ip -n rar2 -batch - 2> /dev/null
	for r in 0 1 3; do
		ip -n "rar$r" neigh flush all
	done
}

need_module
plan 6
topo_up 4
export -f rns drop_sent drop_received

cut_off "the device's other end is taken down" SILENT,NODEV \
	"ip -n rarbr link set p2 down"
revive

if nft list tables > /dev/null 2>&1; then
	cut_off "nft drops what it sends" SILENT drop_sent
	rns 2 nft flush ruleset
	cut_off "nft drops what it receives" SILENT drop_received --link
	rns 2 nft flush ruleset
else
	skip "nft drops what it sends" "no nftables in this kernel"
	skip "nft drops what it receives" "no nftables in this kernel"
fi

cut_off "its namespace's name is deleted and its device" SILENT,NODEV \
	"ip netns del rar2 && ip -n rarbr link del p2"
revive
cut_off "its namespace dies with it" DIED,CLOSED,SILENT,RESET,NODEV \
	"ip netns del rar2" --kill
sleep 0.5	# until the dead namespace has taken p2 along
revive
cut_off "its namespace dies unheard" SILENT \
	"ip -n rarbr link set p2 down && ip netns del rar2" --kill
finish
