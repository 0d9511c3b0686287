#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A box that is a router between two racks offers itself to the members whose JOINs it forwards, so
# no member is told its address. So does a box that is a bridge. Members take offers if net.rar.box
# says so.
#
# Ranks 0 and 1 are in one rack, ranks 2 and 3 in the other: rank 0 itself hears no offer, as its
# successor is in its own rack. The last namespace of the topology is the router.
. "$(dirname "$0")/../lib/lib.sh"

members=4
router=4				# its namespace
box=$router				# the namespace of the box: the router, or the bridge "br"

# rack SIDE RANK RANK: these ranks reach each other directly, and the others by the router
rack()
{
	local dev=eth$1 r other

	for r in "$2" "$3"; do
		other=$(($2 + $3 - r))
		ip -n rar"$r" -batch - <<-EOT || return
			address flush dev eth0 scope global
			address add 10.77.0.$((r + 1))/32 dev eth0
			address add fd77::$((r + 1))/128 dev eth0 nodad
			route add 10.77.0.$((other + 1)) dev eth0
			route add fd77::$((other + 1)) dev eth0
			route add 10.78.$1.1 dev eth0
			route add default via 10.78.$1.1
			route add fd78:$1::1 dev eth0
			route add default via fd78:$1::1
		EOT
	done
	ip -n rar$router -batch - <<-EOT || return
		address add 10.78.$1.1/32 dev $dev
		address add fd78:$1::1/128 dev $dev nodad
		route add 10.77.0.$(($2 + 1)) dev $dev
		route add 10.77.0.$(($3 + 1)) dev $dev
		route add fd77::$(($2 + 1)) dev $dev
		route add fd77::$(($3 + 1)) dev $dev
	EOT
}

# Move ranks 2 and 3 behind the router, to a bridge of their own.
two_racks()
{
	ip link add eth1 netns rar$router type veth peer name q$router netns rarbr || return
	ip -n rarbr -batch - <<-EOT || return
		link add br1 type bridge mcast_snooping 0 forward_delay 0
		link set br1 mtu 9000 up
		link set q$router master br1 up
		link set p2 master br1
		link set p3 master br1
	EOT
	ip -n rar$router address flush dev eth0 scope global
	ip -n rar$router link set eth1 up	# with a link-local address, to find neighbours
	rns $router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	rack 0 0 1 && rack 1 2 3
}

box_is()	# BYTES OFFER
{
	rns "$box" sysctl -qw net.rar.box_mem="$1" net.rar.box_offer="$2"
}

# used EXPECTED [options of ring]: does the box make sums? EXPECTED is "yes" or "no".
used()
{
	local expected=$1 sums offers wait=()

	shift
	sums=$(counter "$box" RarBoxSums)
	offers=$(counter "$box" RarBoxOffers)
	[ "$expected" = no ] || wait=(-w)
	ring -n "$members" "${wait[@]}" -t i32,f32 -c 1000,100k "$@" || return
	sums=$(($(counter "$box" RarBoxSums) - sums))
	offers=$(($(counter "$box" RarBoxOffers) - offers))
	note "offers $offers, sums of the box $sums"
	case $expected in
	yes) [ "$offers" -gt 0 ] && [ "$sums" -gt 0 ] ;;
	no) [ "$sums" = 0 ] ;;
	esac
}

# Nobody may use the box, so it offers nothing.
for_nobody()
{
	local before status=0

	rns "$box" sysctl -qw net.rar.box_allow=none
	before=$(counter "$box" RarBoxOffers)
	used no || status=1
	[ "$(counter "$box" RarBoxOffers)" = "$before" ] || status=1
	rns "$box" sysctl -qw net.rar.box_allow=link
	return "$status"
}

# Programs that chose a box, or none, are not offered another.
none_wanted()
{
	local status=0

	used no -s box=- || status=1
	used no -s box=10.99.0.1 || status=1
	topo_sysctl box=offered
	return "$status"
}

settings()
{
	local value status=0

	[ "$(rns 0 sysctl -n net.rar.box)" = - ] || status=1
	[ "$(rns "$box" sysctl -n net.rar.box_offer)" = 0 ] || status=1
	for value in 2 -1 x; do
		! rns "$box" sysctl -qw net.rar.box_offer="$value" 2> /dev/null || status=1
	done
	for value in 1 1 0 0; do
		rns "$box" sysctl -qw net.rar.box_offer="$value" || status=1
	done
	return "$status"
}

# All hosts are at one bridge, which is the box: every JOIN passes it, rank 0's, too.
bridge()
{
	local name="a bridge offers itself"

	if ! rns br nft add table bridge hold 2> /dev/null; then
		skip "$name" "bridges of this kernel have no hooks"
		return
	fi
	topo_up $members && topo_sysctl box=offered || return
	box=br
	ip -n rarbr address add 10.77.0.100/24 dev br0
	box_is 64M 1
	check "$name" used yes
}

need_module
plan 11
topo_up $((members + 1)) && two_racks || exit
topo_sysctl dead_ms=2000
check "settings" settings
box_is 64M 1
check "members take no offer unless they are told to" used no
topo_sysctl box=offered
box_is 64M 0
check "without box_offer nothing is offered" used no
box_is 64M 1
check "rank 0 learns of the box from the ranks that it offers itself to" used yes
check "IPv6" used yes -a 6
check "a box for nobody offers nothing" for_nobody
check "members that chose otherwise" none_wanted
check "members with a key" used no -k
box_is 0 1
check "a host that is no box any more offers nothing" used no
box_is 64M 1
check "again" used yes
bridge
finish
