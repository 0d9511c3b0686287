#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# link_failure.sh [full]: rank 2 is cut off in the middle of a large operation. Its device,
# address, route or network namespace goes away, its MTU shrinks, or a firewall drops its
# packets. Within 1.25 dead_ms + 300 ms the survivors name rank 2, because it is silent or
# because its kernel says so. If they cannot know more they name both ends of its link.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

full=0
[ "${1-}" != full ] || full=1

in_full() { [ $full = 0 ] || "$@"; }

# failing NAME REASONS COMMAND [option of failure]
failing()
{
	local name=$1 reasons=$2 command=$3

	shift 3
	check "$name" failure --netns rar --victim 2 --reason "$reasons" \
		--cut "$command" "$@"
}

# cut_off: as failing, but skips commands that need nftables where it is missing
cut_off()
{
	if [[ $3 != drop_* ]] || nft list tables > /dev/null 2>&1; then
		failing "$@"
	else
		skip "$1" "no nftables in this kernel"
	fi
	repair
}

# harmless NAME COMMAND
harmless()
{
	check "$1" failure --netns rar --victim 2 --unharmed --cut "$2"
	repair
}

drop_sent()
{
	rns 2 nft -f - <<-'EOT'
		add table inet t
		add chain inet t out { type filter hook output priority 0; policy drop; }
	EOT
}

drop_received() { topo_rules 2 <<< drop; }

# drop_from RANK RANK: the first rank receives nothing from the second.
drop_from() { topo_rules "$1" <<< "ip saddr 10.77.0.$(($2 + 1)) drop"; }

# Put ranks 2 and 3 on a bridge of their own.
partition()
{
	ip -n rarbr -batch - <<-EOT
		link add br1 type bridge mcast_snooping 0 forward_delay 0
		link set br1 up
		link set p2 master br1
		link set p3 master br1
	EOT
}

# Undo the cut. The new device of rank 2 has another link address, which the other ranks
# would take some 8 s to notice.
repair()
{
	local r

	[ -e /run/netns/rar2 ] || ip netns add rar2
	topo_rules_off 2> /dev/null
	ip -n rarbr link del p2 2> /dev/null
	ip -n rarbr -batch - <<-EOT
		link add p2 type veth peer name eth0 netns rar2
		link set p2 master br0 addrgenmode none up
		link set p3 master br0
	EOT
	ip -n rarbr link del br1 2> /dev/null
	ip -n rar2 route del unreachable 10.77.0.0/24 2> /dev/null
	topo_rank 2 | ip -n rar2 -batch -
	for r in 0 1 3; do
		ip -n "rar$r" neigh flush all
	done
	[ -z "${RAR_XDP-}" ] || topo_by_xdp
}

# Blocks have 45 chunks: the first 44 pass as a superpacket, but the last chunk, which is
# sent alone, does not.
alone()
{
	local ring said

	said=$(mktemp)
	ring -n 4 -t f32 -c $((4 * 45 * 352)) -d 15 -T 30 > "$said" 2>&1 &
	ring=$!
	sleep 2
	ip -n rarbr link set p2 mtu 1400
	wait "$ring"
	ip -n rarbr link set p2 mtu 1500
	cat "$said"
	grep -q 'reason MTU rank [12] other [23]' "$said"
}

need_module
freeze=4	# s, some times dead_ms
[[ ${RAR_KERNEL-} != uml-debug* ]] || freeze=13
plan $((full ? 21 : 14))
topo_up 4
export -f rns topo_rules drop_sent drop_received drop_from partition

# ---------------------------------------------------------------- the device
cut_off "the device's other end is taken down" SILENT,NODEV \
	"ip -n rarbr link set p2 down"
cut_off "the device is taken down" SILENT,NODEV \
	"ip -n rar2 link set eth0 down" --self NODEV
cut_off "the device is removed" SILENT,NODEV "ip -n rar2 link del eth0" --self NODEV
cut_off "the address is removed" SILENT,NODEV \
	"ip -n rar2 address del 10.77.0.3/24 dev eth0" --self NODEV

# ---------------------------------------------------------------- the route
cut_off "the route is removed" SILENT "ip -n rar2 route del 10.77.0.0/24" --link
in_full cut_off "the route becomes unreachable" SILENT \
	"ip -n rar2 route replace unreachable 10.77.0.0/24" --link
harmless "the route is replaced" \
	"ip -n rar2 route replace 10.77.0.0/24 dev eth0 src 10.77.0.3 metric 5
	 ip -n rar2 route del 10.77.0.0/24 metric 0"

# ---------------------------------------------------------------- the MTU
cut_off "the device's MTU shrinks" MTU "ip -n rar2 link set eth0 mtu 1400" \
	--late --errno EMSGSIZE --pair 1:2,2:3
in_full cut_off "the route's MTU shrinks" MTU \
	"ip -n rar2 route replace 10.77.0.0/24 dev eth0 src 10.77.0.3 mtu 1400" \
	--late --errno EMSGSIZE --pair 2:3
# Without superpackets, which would pass: nothing on the path cuts them.
topo_sysctl super_chunks=1
cut_off "the MTU of the path shrinks" MTU "ip -n rarbr link set p2 mtu 1400" \
	--late --errno EMSGSIZE --pair 1:2,2:3 --within 10000
topo_sysctl super_chunks=64
check "the MTU of the path shrinks, but superpackets pass" alone

# ---------------------------------------------------------------- the path
in_full cut_off "nft drops the packets it sends" SILENT drop_sent
in_full cut_off "nft drops the packets it receives" SILENT drop_received --link
cut_off "a link is broken forwards" SILENT "drop_from 3 2" --pair 2:3,3:2
in_full cut_off "a link is broken backwards" SILENT "drop_from 2 3" --pair 2:3,3:2
cut_off "the network falls into two parts" SILENT partition \
	--pair 1:2,2:1,3:0,0:3

# ---------------------------------------------------------------- the process
harmless "its process is stopped for a while" \
	"kill -STOP \$VICTIM; sleep $freeze; kill -CONT \$VICTIM"

# ---------------------------------------------------------------- the namespace
in_full cut_off "its device and its namespace's name are deleted" SILENT,NODEV \
	"ip netns del rar2 && ip -n rarbr link del p2"
cut_off "its namespace dies with it" DIED,CLOSED,SILENT,RESET,NODEV \
	"ip netns del rar2" --kill
sleep 0.5	# until p2 is gone with the dead namespace
in_full cut_off "its namespace dies unheard" SILENT \
	"ip -n rarbr link set p2 down && ip netns del rar2" --kill
failing "the group id still works" DIED true --kill
finish
