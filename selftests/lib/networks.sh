# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Networks between two ranks: networks.sh runs a ring over each of them, other tests use single ones.
# Sourced after lib.sh, never run.
#
# The ranks have the addresses of topo_up: 10.77.0.(r+1), in some networks also those for IPv6. A
# device that stands on eth0, such as a tunnel, has the rank's address instead of eth0, which then has
# 10.76.0.(r+1).
# shellcheck disable=SC2154 # topo_n of lib.sh

port=18118	# RAR_DEFAULT_PORT

# every_network FUNCTION: calls FUNCTION NAME PATH TITLE [OPTION...] for each network. net_NAME makes
# it. PATH: where packets should come in: ingress, udp, "any" if that is left to chance, "none" if no
# ring can be closed there. The options are those of ring. The first one is what others are compared
# with.
every_network()
{
	local row=$1

	$row bridge ingress "bridge"
	$row veth ingress "veth pair"
	$row vlan ingress "VLAN"
	$row ipv6 ingress "IPv6" -a 6
	$row link_local ingress "IPv6, link-local" -a ll6
	$row mtu_1280 ingress "MTU 1280"
	$row mtu_9000 ingress "MTU 9000"
	$row offloads_off ingress "offloads off"
	$row bond_backup ingress "bond, active-backup"
	$row bond_rr ingress "bond, balance-rr"
	$row bond_xor ingress "bond, balance-xor"
	$row bond_lacp ingress "bond, 802.3ad"
	$row macvlan ingress "macvlan"
	$row macvlan_one_host ingress "macvlan, on one host"
	$row ipvlan_l2 ingress "ipvlan l2"
	$row ipvlan_l3 ingress "ipvlan l3"
	$row ipvlan_l3s udp "ipvlan l3s"
	$row ipvlan_one_host ingress "ipvlan l3, on one host"
	$row vxlan ingress "VXLAN"
	$row geneve ingress "Geneve"
	$row gre ingress "GRE"
	$row ipip ingress "IPIP"
	$row wireguard ingress "WireGuard"
	$row macsec ingress "MACsec, encrypt on"
	$row ipsec udp "IPsec, transport mode"
	$row tun ingress "tun, by a process"
	$row tap ingress "tap, by a process"
	$row router ingress "router, MTU 1400 behind it"
	$row vrf ingress "VRF" -D vrf0
	$row ecmp any "ECMP, by flow"
	$row ecmp_packets any "ECMP, by packet"
	$row rails ingress "two cards (RAR_RAIL)"
	$row rule ingress "policy routing"
	$row nat none "NAT of a rank's packets"
	$row nat_forward ingress "NAT, port forwarding" -D eth0
	$row strict udp "net.rar.strict=1"
	$row firewall udp "nftables, default drop"
	$row conntrack udp "connection tracking, NAT of others"
	$row tc ingress "tc filter at ingress"
	$row ifb udp "shaped by ifb"
	$row xdp ingress "another XDP program"
	$row address ingress "address removed and set again"
}

net_pid=	# of the process that carries packets

net_up()	# NAME
{
	net_down
	"net_$1"
}

net_down()
{
	[ -z "$net_pid" ] || { kill "$net_pid" && wait "$net_pid"; } 2> /dev/null
	net_pid=
	unset RAR_RAILS
	topo_down
}

# ---------------------------------------------------------------- what networks are made of

# Gives eth0 of each rank another address, so that a device above it can have the rank's.
topo_underlay()
{
	each_ip <<-'EOT'
		address del 10.77.0.SELF/24 dev eth0
		address add 10.76.0.SELF/24 dev eth0
	EOT
}

topo_onto()	# DEVICE: gives it the rank's address
{
	each_ip <<-EOT
		link set $1 up
		address add 10.77.0.SELF/24 dev $1
	EOT
}

# topo_tunnel WORD...: a device tunnel0, as "ip link add" takes it, between the ranks
topo_tunnel()
{
	topo_up 2 && topo_underlay && each_ip <<< "link add tunnel0 type $*" && topo_onto tunnel0
}

# topo_cables N: N cables between two ranks, eth0 ..., without a bridge
topo_cables()
{
	local i r

	topo_begin 2 || return
	for ((i = 0; i < $1; i++)); do
		ip link add eth$i netns rar0 type veth peer name eth$i netns rar1 || return
	done
	for r in 0 1; do topo_rank $r | ip -n rar$r -batch - || return; done
}

# Can rank 0 reach rank 1?
# shellcheck disable=SC2317 # called by within
reaches() { rns 0 ping -qc 1 -W 1 10.77.0.2 > /dev/null; }

# topo_bond WORD...: two cables as one device; the words say in which mode
topo_bond()
{
	modprobe -q bonding max_bonds=0
	topo_cables 2 && each_ip <<-EOT && topo_onto bond0 && within 20 reaches
		link add bond0 type bond miimon 100 $*
		address flush dev eth0
		link set eth0 down
		link set eth0 master bond0
		link set eth1 master bond0
	EOT
}

# Two hosts, rar8 and rar9, with a cable eth0 and the addresses 192.0.2.8 and .9
hosts_up()
{
	local n

	printf 'netns add rar%s\n' 8 9 | ip -batch - || return
	ip link add eth0 netns rar8 type veth peer name eth0 netns rar9 || return
	for n in 8 9; do
		ip -n rar$n -batch - <<-EOT || return
			link set lo up
			address add 192.0.2.$n/24 dev eth0
			link set eth0 up
		EOT
	done
}

# topo_slaves HOST WORD...: rank 0 is a container of the host rar8, and rank 1 of rar8 or rar9, with
# devices that stand on the host's
topo_slaves()
{
	local host=$1

	shift
	topo_begin 2 && hosts_up || return
	ip -n rar8 link add link eth0 name slave netns rar0 type "$@" || return
	ip -n "$host" link add link eth0 name slave netns rar1 type "$@" || return
	each_ip <<-'EOT' && topo_onto eth0
		link set lo up
		link set slave name eth0
	EOT
}

# Routes to the ranks, which the hosts need where their devices forward by IP
host_routes()
{
	ip -n rar8 route add 10.77.0.2/32 via 192.0.2.9 && ip -n rar9 route add 10.77.0.1/32 via 192.0.2.8
}

# topo_process tun|tap: a process carries packets between devices tun0 or tap0
topo_process()
{
	local said

	modprobe -q tun
	said=$(mktemp)
	topo_up 2 && topo_underlay || return
	python3 -B lib/tun.py "$1" 2 > "$said" &
	net_pid=$!
	until_says "$said" ready && rm "$said" && topo_onto "${1}0"
}

# The ranks are in a VRF, whose table alone has the routes.
topo_vrf()
{
	# Joining a VRF takes IPv6 addresses away.
	each_ip <<-'EOT'
		link add vrf0 type vrf table 77
		link set vrf0 up
		link set eth0 master vrf0
		address add fd77::SELF/64 dev eth0 nodad
	EOT
}

# rarbr is a router, 10.77.0.254 and fd77::fe, between rank 0 at its bridge and rank 1 at p1.
topo_router()
{
	topo_up 2 && ip -n rarbr -batch - <<-'EOT' || return
		link set p1 nomaster
		address add 10.77.0.254/32 dev br0
		address add 10.77.0.254/32 dev p1
		address add fd77::fe/128 dev br0 nodad
		address add fd77::fe/128 dev p1 nodad
		address add fe80::fe/64 dev br0 nodad
		address add fe80::fe/64 dev p1 nodad
		route add 10.77.0.1/32 dev br0
		route add 10.77.0.2/32 dev p1
		route add fd77::1/128 dev br0
		route add fd77::2/128 dev p1
	EOT
	rns br sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 && each_ip <<-'EOT'
		address del 10.77.0.SELF/24 dev eth0
		address del fd77::SELF/64 dev eth0
		address add 10.77.0.SELF/32 dev eth0
		address add fd77::SELF/128 dev eth0 nodad
		route add 10.77.0.254/32 dev eth0
		route add 10.77.0.PEER/32 via 10.77.0.254 src 10.77.0.SELF
		route add fd77::fe/128 dev eth0
		route add fd77::PEER/128 via fd77::fe
	EOT
}

# Each rank has its address on lo, and two networks lead to the other's.
topo_two_ways()
{
	topo_up 2 && topo_rails 1 && each_ip <<-'EOT'
		address del 10.77.0.SELF/24 dev eth0
		address add 10.77.0.SELF/32 dev lo
		address add 10.76.0.SELF/24 dev eth0
	EOT
}

# All that comes to a rank goes through another device first, as where input is shaped. Then the
# stack has no ingress hook for it.
topo_ifb()	# RANK
{
	rns "$1" ip link add ifb0 type ifb 2> /dev/null || return
	rns "$1" ip link set ifb0 up
	rns "$1" tc qdisc add dev eth0 clsact
	rns "$1" tc filter add dev eth0 ingress matchall action mirred egress redirect dev ifb0
}

# Gives every rank's host the rules on stdin.
each_nft()
{
	local rules

	rules=$(cat)
	[ -n "$rules" ] && each_rank sh -c "echo '$rules' | nft -f -"
}

manual_rules()	# netdev|inet: prints the firewall rules of admin.rst for this hook
{
	sed -n "/^   table $1 rar {/,/^   }/p" ../Documentation/admin.rst
}

# Loads the ciphers for this processor, as udev does on a real one.
ciphers() { modprobe -qa aesni_intel ghash_clmulni_intel sha256_ssse3 || true; }

# ---------------------------------------------------------------- IPsec

# addr RANK FAMILY: prints the rank's address; FAMILY is 4 or 6
addr()
{
	if [ "$2" = 4 ]; then echo 10.77.0.$(($1 + 1)); else echo fd77::$(($1 + 1)); fi
}

# Loads what IPsec needs. Does this kernel have it?
esp_here()
{
	local module

	for module in xfrm_user esp4 esp6 authenc cbc sha256 hmac; do modprobe -q $module; done
	ip xfrm policy list > /dev/null 2>&1
}

# esp FROM TO [MODE [FAMILY]]: adds states and policies for packets from one rank to another
esp()
{
	local from=$1 to=$2 mode=${3-transport} src dst spi
	local key=0x000102030405060708090a0b0c0d0e0f

	src=$(addr "$from" "${4-4}") dst=$(addr "$to" "${4-4}")
	spi=$((0x1000 + 16 * from + to))
	for rank in "$from" "$to"; do
		ip -n "rar$rank" xfrm state add src "$src" dst "$dst" proto esp spi $spi \
			mode "$mode" auth 'hmac(sha256)' $key enc 'cbc(aes)' $key || return
	done
	ip -n "rar$from" xfrm policy add src "$src" dst "$dst" dir out tmpl src "$src" dst "$dst" \
		proto esp mode "$mode" || return
	demand "$from" "$to" "$mode" "${4-4}"
}

# demand FROM TO [MODE [FAMILY]]: rank TO accepts only ESP from rank FROM
demand()
{
	local src dst

	src=$(addr "$1" "${4-4}") dst=$(addr "$2" "${4-4}")
	ip -n "rar$2" xfrm policy add src "$src" dst "$dst" dir in tmpl src "$src" dst "$dst" \
		proto esp mode "${3-transport}"
}

# ESP between all ranks.
esp_all()
{
	local a b

	for ((a = 0; a < topo_n; a++)); do
		for ((b = 0; b < topo_n; b++)); do
			[ $a = $b ] || esp $a $b "$@" || return
		done
	done
}

# ---------------------------------------------------------------- the networks

net_bridge() { topo_up 2; }
net_veth() { topo_cables 1; }
net_vlan() { topo_up 2 && topo_vlan; }
net_ipv6() { topo_up 2; }
net_link_local() { topo_up 2; }
net_mtu_1280() { topo_up 2 1280; }
net_mtu_9000() { topo_up 2 9000; }

net_offloads_off()
{
	topo_up 2 && topo_gso off && each_rank ethtool -K eth0 tx off rx off sg off tx-udp-segmentation off
}

net_bond_backup() { topo_bond mode active-backup; }
net_bond_rr() { topo_bond mode balance-rr; }
net_bond_xor() { topo_bond mode balance-xor xmit_hash_policy layer3+4; }
net_bond_lacp() { topo_bond mode 802.3ad xmit_hash_policy layer3+4 lacp_rate fast; }

net_macvlan() { topo_slaves rar9 macvlan mode bridge; }
net_macvlan_one_host() { topo_slaves rar8 macvlan mode bridge; }
net_ipvlan_l2() { topo_slaves rar9 ipvlan mode l2; }
net_ipvlan_l3() { topo_slaves rar9 ipvlan mode l3 && host_routes; }
net_ipvlan_l3s() { topo_slaves rar9 ipvlan mode l3s && host_routes; }
net_ipvlan_one_host() { topo_slaves rar8 ipvlan mode l3; }

net_vxlan() { topo_tunnel vxlan id 7 dstport 4789 local 10.76.0.SELF remote 10.76.0.PEER dev eth0; }
net_geneve() { topo_tunnel geneve id 7 remote 10.76.0.PEER; }
net_gre() { topo_tunnel gre local 10.76.0.SELF remote 10.76.0.PEER ttl 64; }
net_ipip() { topo_tunnel ipip local 10.76.0.SELF remote 10.76.0.PEER ttl 64; }
net_wireguard() { topo_up 2 && topo_underlay && python3 -B lib/tunnel.py wireguard 2 && topo_onto wg0; }
net_macsec() { ciphers && topo_up 2 && topo_underlay && python3 -B lib/tunnel.py macsec 2 && topo_onto macsec0; }
net_ipsec() { ciphers && topo_up 2 && esp_here && esp_all transport; }
net_tun() { topo_process tun; }
net_tap() { topo_process tap; }

# Rank 1's device is as narrow as the router's, as otherwise it would ask for no less than 1500.
net_router()
{
	topo_router && ip -n rarbr link set p1 mtu 1400 && ip -n rar1 link set eth0 mtu 1400
}

net_vrf() { topo_up 2 && topo_vrf; }

# Flows are what has the same addresses and ports. The hook is at the device of the route, and at that
# by which the first packet came: packets by the other device come by the input hook.
net_ecmp()
{
	topo_two_ways && each_rank sysctl -qw net.ipv4.fib_multipath_hash_policy=1 && each_ip <<-'EOT'
		route add 10.77.0.PEER/32 src 10.77.0.SELF nexthop via 10.76.0.PEER nexthop via 10.78.0.PEER
	EOT
}

# The kernel's multipath goes by flow, so rules give the packets of a rank to two tables by turns.
net_ecmp_packets()
{
	topo_two_ways && each_nft <<-EOT || return
		table ip turns {
			chain out {
				type route hook output priority mangle;
				udp dport $port meta mark set numgen inc mod 2
			}
		}
	EOT
	each_ip <<-'EOT'
		route add 10.77.0.PEER/32 via 10.76.0.PEER src 10.77.0.SELF
		route add 10.77.0.PEER/32 via 10.78.0.PEER src 10.77.0.SELF table 101
		rule add fwmark 1 lookup 101
	EOT
}

net_rails() { topo_up 2 && topo_rails 1 && export RAR_RAILS=1; }

# Only a rule for the ring's packets leads to a table with a route.
net_rule()
{
	topo_up 2 && each_ip <<-'EOT'
		route del 10.77.0.0/24 dev eth0
		route add 10.77.0.0/24 dev eth0 src 10.77.0.SELF table 100
		rule add from 10.77.0.SELF ipproto udp dport 18118 lookup 100
	EOT
}

# Rank 1's packets come from another address than the one by which it is reached.
net_nat()
{
	topo_router && rns br nft -f - <<-'EOT'
		table ip nat {
			chain pre {
				type filter hook prerouting priority raw;
				ip saddr 10.77.0.2 ip saddr set 10.77.0.200 notrack
			}
		}
	EOT
}

# Rank 1 is a container, 172.17.0.2, of the host rarbr, which forwards the ring's port to it.
net_nat_forward()
{
	topo_up 2 && ip -n rarbr -batch - <<-'EOT' && ip -n rar1 -batch - <<-'EOT' || return
		link set p1 nomaster
		address add 10.77.0.2/24 dev br0
		address add 172.17.0.1/24 dev p1
	EOT
		address flush dev eth0
		address add 172.17.0.2/24 dev eth0
		route add default via 172.17.0.1
	EOT
	rns br sysctl -qw net.ipv4.ip_forward=1 && rns br nft -f - <<-EOT
		table ip nat {
			chain pre {
				type nat hook prerouting priority dstnat;
				iif br0 udp dport $port dnat to 172.17.0.2
			}
			chain post {
				type nat hook postrouting priority srcnat;
				ip saddr 172.17.0.0/24 oif br0 masquerade
			}
		}
	EOT
}

net_strict() { topo_up 2 && topo_sysctl strict=1; }

# A host that lets in nothing but what the manual names.
net_firewall()
{
	local rules

	rules=$(manual_rules inet)
	topo_up 2 && each_nft <<< "${rules/priority 0;/priority 0; policy drop;}"
}

# A host with containers: their packets get its address, and come back by connection tracking.
net_conntrack()
{
	topo_up 2 && each_nft <<-EOT
		table inet host {
			chain in {
				type filter hook input priority 0; policy drop;
				iif lo accept
				ct state established,related accept
				udp dport $port ct state new accept
			}
			chain pre {
				type nat hook prerouting priority dstnat;
				tcp dport 8080 dnat ip to 172.17.0.2:80
			}
			chain post {
				type nat hook postrouting priority srcnat;
				ip saddr 172.17.0.0/16 masquerade
			}
		}
	EOT
}

net_tc()
{
	topo_up 2 && each_rank tc qdisc add dev eth0 clsact && each_rank tc filter add dev eth0 ingress \
		protocol ip flower ip_proto udp dst_port $port action ok
}

net_ifb() { topo_up 2 && topo_ifb 0 && topo_ifb 1; }

# veth makes no superpackets for a device with an XDP program.
net_xdp()
{
	topo_up 2 && each_rank ip link set eth0 xdpdrv object "$RAR_BPF_OTHER" section xdp.frags
}

net_address() { topo_up 2; }
