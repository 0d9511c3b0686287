#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The host's rules for packets: socket filters, SO_SNDBUF, rules for users, net.rar.strict,
# and the firewall rules of the manual.
#
# host_rules.sh [default]: default: only the rules that hold by default, and input that is shaped
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/networks.sh
. lib/networks.sh

# fails NAME COUNTER command...: there is no ring, and rank 1's COUNTER tells the reason
fails()
{
	local name=$1 before

	before=$(counter 1 "$2")
	! out=$("${@:3}" 2>&1)
	result $? "$name: no ring"
	quote "$(tail -n 1 <<< "$out")"
	[ $(($(counter 1 "$2") - before)) -gt 2 ]
	result $? "$name: $2 counts"
}

filters() # PATH
{
	topo_sysctl rx_path="$1"
	check "$1: a filter that looks at the port" filtered -f pass -n 3
	fails "$1: a filter that drops" RarDropFilter filtered -f drop
	fails "$1: a filter that cuts" RarDropFilter filtered -f cut
}

# A queue of rank 0's host holds packets for long. SO_SNDBUF limits rank 0's bytes in it.
held_back()
{
	local held most=0 now pid status

	topo_sysctl window=8388608
	each_rank tc qdisc replace dev eth0 root netem limit 10000 slot 20ms packets 40
	held=$(counter 0 RarTxHeldBack)
	filtered -n 3 -b 30000 -c 500000 > "$log" 2>&1 &
	pid=$!
	while [ -e /proc/$pid ] && kill -0 $pid 2> /dev/null; do
		now=$(rns 0 tc -s -j qdisc show dev eth0 | grep -o '"backlog":[0-9]*')
		now=${now#*:}
		[ "${now:-0}" -le "$most" ] || most=$now
		sleep 0.02
	done
	wait $pid
	status=$?
	quote "$(< "$log")"
	result $status "a small SO_SNDBUF and a slow queue: all bits are right"
	held=$(($(counter 0 RarTxHeldBack) - held))
	[ $held -gt 0 ]
	result $? "own chunks are held back $held times, at most $most bytes are queued"
	each_rank tc qdisc del dev eth0 root
	topo_sysctl window=1048576
}

# Firewall rules by user see the sending user, though root opened the port.
by_user()
{
	local n

	rns 0 nft -f - <<-EOT
		table inet t {
			counter other {}
			counter nobody {}
			chain out {
				type filter hook output priority 0;
				udp dport $port meta skuid 4711 counter name other
				udp dport $port meta skuid 0 counter name nobody
			}
		}
	EOT
	topo_sysctl local=0
	check "a rule by user: all bits are right" rns 0 setpriv --reuid 4711 --clear-groups \
		ring -n 2 -m same -c 5,60k -t f32 -T 30
	n=$(rns 0 nft list counter inet t other | awk '$1 == "packets" { print $2 }')
	[ "$n" -gt 20 ] && rns 0 nft list counter inet t nobody | grep -q "packets 0 "
	result $? "a rule by user: $n packets are the user's, none another user's"
	topo_sysctl local=1
	topo_rules_off
}

strict()
{
	local before r

	topo_sysctl strict=1
	before=$(counter 1 RarRxIngress)
	check "strict" ring -n 3 -c 5,60k -t f32 -T 30
	[ $(($(counter 1 RarRxIngress) - before)) = 0 ]
	result $? "strict: nothing is received before netfilter"
	before=$(counter 0 RarRxLocal)
	check "strict, in one namespace" rns 0 ring -n 3 -m same -c 5,60k -t f32 -T 30
	[ $(($(counter 0 RarRxLocal) - before)) = 0 ]
	result $? "strict: nothing goes by memory"
	! out=$(ring -H 2,2 -B -c 60k -t f32 -T 10 2>&1)
	result $? "strict: RAR_BY_HOSTS is refused"
	rns 1 nft -f - <<-EOT
		table inet t {
			chain in {
				type filter hook input priority 0;
				udp dport $port drop
			}
		}
	EOT
	! filtered -n 2 -i 1 > /dev/null 2>&1
	result $? "strict: an input chain that drops: no ring"
	topo_rules_off
	topo_sysctl strict=0
}

# whole NAME command...: all bits are right, and packets come by the input hook as superpackets
whole()
{
	local name=$1 packets chunks

	packets=$(total RarRxEncap) chunks=$(total RarRxData)
	check "$name" "${@:2}"
	packets=$(($(total RarRxEncap) - packets)) chunks=$(($(total RarRxData) - chunks))
	[ $packets -gt 0 ] && [ $chunks -ge $((4 * packets)) ]
	result $? "$name: $chunks chunks in $packets packets"
}

# Superpackets are not cut, and the rules for the host's input see them.
superpackets()
{
	local long=(ring -n 3 -c "5,1M,1M" -t f32 -r 3 -T 60) n

	topo_sysctl strict=1 carriers=0
	whole "strict, superpackets" "${long[@]}"
	rns 1 nft -f - <<-EOT
		table inet t {
			counter known {}
			counter long {}
			chain in {
				type filter hook input priority 0; policy drop;
				iif lo accept
				meta length > 2000 counter name long
				ct state established counter name known accept
				udp dport 18118-18121 ip saddr 10.77.0.0/24 accept
			}
		}
	EOT
	whole "strict, connection tracking" "${long[@]}"
	n=$(rns 1 nft list counter inet t known | awk '$1 == "packets" { print $2 }')
	[ "$n" -gt 50 ]
	result $? "strict, connection tracking: $n packets belong to known flows"
	n=$(rns 1 nft list counter inet t long | awk '$1 == "packets" { print $2 }')
	[ "$n" -gt 50 ]
	result $? "strict: the input chain sees $n superpackets"
	rns 1 nft flush ruleset
	rns 1 nft -f - <<-EOT
		table inet t {
			chain in {
				type filter hook input priority 0;
				udp dport $port meta length > 2000 drop
			}
		}
	EOT
	check "strict, an input chain that drops superpackets" "${long[@]}"
	topo_rules_off
	topo_sysctl strict=0 carriers=1
}

# rules VERDICT [FAMILY]: rank 1's input chain, which says that to packets of rings
rules()
{
	rns 1 nft -f - <<-EOT
		table ${2-inet} t {
			counter seen {}
			chain in {
				type filter hook input priority 0;
				udp dport 18118-18121 counter name seen $1
			}
		}
	EOT
}

seen() { rns 1 nft list counter "${1-inet}" t seen | awk '$1 == "packets" { print $2 }'; }

# With rx_path=auto, the default, rules hold as soon as they are loaded, and as long.
by_default()
{
	local before long=(ring -n 3 -c "5,60k,1M" -t f32 -T 60) family

	topo_sysctl rx_path=auto carriers=1
	before=$(counter 1 RarRxEncap)
	check "auto, no rules" "${long[@]}"
	[ "$(counter 1 RarRxEncap)" = "$before" ]
	result $? "auto, no rules: all packets at the ingress hook"
	for family in inet ip; do
		rules accept $family
		before=$(counter 1 RarRxIngress)
		check "auto, rules of $family" "${long[@]}"
		[ "$(counter 1 RarRxIngress)" = "$before" ] && [ "$(seen $family)" -gt 10 ]
		result $? "auto, rules of $family: they see all $(seen $family) packets"
		topo_rules_off
	done
	before=$(total RarTxWhole)
	# Connection tracking has yet to enter the flows of most lanes.
	rules "ct state new,established accept"
	check "auto, rules and carriers" "${long[@]}"
	before=$(($(total RarTxWhole) - before))
	if [ -z "${RAR_SECURITY-}" ]; then
		[ $before -gt 100 ]
		result $? "auto, rules and carriers: $before chunks in carriers"
	else
		skip "auto, rules and carriers: $before chunks in carriers" "groups with seals have none"
	fi
	topo_rules_off
	# A rule that is loaded while the ring runs ends it.
	before=$(counter 1 RarOpsDone)
	ring -n 3 -c 60k -t f32 -d 30 -T 60 > "$log" 2>&1 &
	pid=$!
	until_runs 1 "$before"
	rules drop
	! wait $pid
	result $? "auto, a rule that is loaded while a ring runs: it ends"
	quote "$(tail -n 1 "$log")"
	! filtered -n 2 -i 1 > /dev/null 2>&1
	result $? "auto, an input chain that drops: no ring"
	topo_sysctl rx_path=ingress
	before=$(seen)
	check "ingress, the same chain: who asks for it goes past it" "${long[@]}"
	before=$(($(seen) - before))
	[ $before -lt 10 ]
	result $? "ingress, the same chain: it sees $before packets, those of the join"
	topo_rules_off
	topo_sysctl rx_path=auto
	before=$(counter 1 RarRxIngress)
	check "auto, the rules are gone" "${long[@]}"
	[ "$(counter 1 RarRxIngress)" -gt "$before" ]
	result $? "auto, the rules are gone: packets at the ingress hook"
}

shaped()
{
	if ! topo_ifb 1; then
		skip "input that is shaped by ifb" "no ifb in this kernel"
		skip "input that is shaped by ifb: superpackets" "no ifb in this kernel"
		return
	fi
	topo_sysctl carriers=0
	whole "input that is shaped by ifb" ring -n 3 -c 5,1M,1M -t f32 -r 3 -T 60
	rns 1 tc qdisc del dev eth0 clsact
	rns 1 ip link del ifb0
	topo_sysctl carriers=1
}

# The host's net.rar.strict binds namespaces that users make, and new namespaces begin with it.
strict_host()
{
	sysctl -qw net.rar.strict=1
	unshare -n sysctl -n net.rar.strict | grep -qx 1
	result $? "a new namespace begins with the host's value"
	unshare -Urn sysctl -n net.rar.strict | grep -qx 1
	result $? "a user's namespace: strict"
	! unshare -Urn sysctl -qw net.rar.strict=0 2> /dev/null
	result $? "a user's namespace: cannot be changed"
	sysctl -qw net.rar.strict=0
	unshare -Urn sh -c "sysctl -qw net.rar.strict=1 && sysctl -qw net.rar.strict=0"
	result $? "the host is not strict: the user decides"
}

# Rank 1 gets the firewall rules of admin.rst as they are printed there.
manual()
{
	local rules

	for hook in netdev inet; do
		rules=$(manual_rules $hook)
		[ -n "$rules" ] && rns 1 nft -f - <<< "$rules"
		result $? "admin.rst: the rules for $hook"
		topo_sysctl rx_path="$1"
		shift
		check "$hook: neighbours may" ring -n 2 -c 5,60k -t f32 -T 30
		rns 1 nft flush ruleset
		rns 1 nft -f - <<< "${rules//10.77.0.0\/24/192.0.2.0\/24}"
		! filtered -n 2 -i 1 > /dev/null 2>&1
		result $? "$hook: others may not"
		topo_rules_off
	done
}

need_module
need_file ../Documentation/admin.rst
log=$(mktemp)
if [ "${1-}" = default ]; then
	plan 16
	topo_up 3
	by_default
	shaped
	finish
fi
plan 55
topo_up 3
for path in ingress udp; do
	filters $path
done
topo_sysctl rx_path=ingress
check "in one namespace, a filter" rns 0 filtered -m -f pass
[ "$(counter 0 RarRxLocal)" = 0 ]
result $? "in one namespace, a filter: nothing goes by memory"
held_back
by_user
strict
superpackets
by_default
shaped
strict_host
manual ingress udp
finish
