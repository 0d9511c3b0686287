#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# IPsec policies bind the packets of this module. A policy that demands ESP lets no clear
# packet pass, on any receive path. With ESP a ring works: superpackets and lanes go through
# the transforms, and nothing leaves in the clear.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/networks.sh
. lib/networks.sh

esp_off()
{
	each_rank ip xfrm policy flush
	each_rank ip xfrm state flush
	each_rank ip xfrm policy setdefault in accept
}

# Count packets to each rank: in the clear, from a lane's port, and ESP.
watch()
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		rns br nft -f - <<-EOT || return
			table netdev to$r {
				counter nclear {}
				counter nlane {}
				counter nesp {}
				chain c {
					type filter hook egress device p$r priority 0;
					udp dport $port counter name nclear
					udp sport $((port + 1))-$((port + 15)) counter name nlane
					meta l4proto 50 counter name nesp
				}
			}
		EOT
	done
}

# seen clear|lane|esp [RANK]: prints how many went to all ranks or one, since "forget"
seen()
{
	rns br nft list counters ${2:+table netdev to$2} | awk -v n="n$1" '$1 == "counter" { on = $2 == n }
		$1 == "packets" && on { sum += $2 } END { print sum + 0 }'
}

forget() { rns br nft reset counters > /dev/null; }

# refused NAME option...: clear packets do not make a ring
refused()
{
	local name=$1 status=0

	shift
	out=$(ring -T 20 -c 5 -s join_ms=1000,dead_ms=1000 "$@" 2>&1) || status=$?
	quote "$(tail -n 2 <<< "$out")"
	[ $status != 0 ]
	result $? "$name: no ring in the clear"
}

# encrypted NAME option...: the bits are right, and all packets are ESP
encrypted()
{
	local name=$1 clear esp

	shift
	forget
	check "$name" ring -T 100 -c 5,60k -t f32 "$@"
	clear=$(seen clear) esp=$(seen esp)
	[ "$clear" = 0 ] && [ "$esp" -gt 40 ]
	result $? "$name: $clear packets in the clear, $esp by ESP"
}

# ESP between ranks 1 and 2 only: superpackets that come in the clear go on encrypted.
one_link()
{
	forget
	esp 1 2
	check "one link of three" ring -n 3 -T 100 -c 300k -t f32
	[ "$(seen esp)" -gt 200 ]
	result $? "one link of three: by ESP"
	esp_off
}

# Policies may select by port, so no chunk may leave by a port that no policy was asked about.
one_flow()
{
	esp_all
	ip -n rar0 xfrm policy add src 10.77.0.1 dst 10.77.0.2 proto udp sport $((port + 1)) \
		dir out action block priority 1
	encrypted "policies by port" -n 2 -c 300k
	esp_off
	ip -n rar0 xfrm policy add src 10.77.0.1 dst 10.77.0.2 proto udp sport $((port + 1)) \
		dir out action block priority 1
	forget
	check "a lane's port is blocked" ring -n 2 -T 60 -c 300k -t f32
	[ "$(seen lane 1)" = 0 ] && [ "$(seen lane 0)" != 0 ]
	result $? "a lane's port is blocked: nothing leaves by it"
	esp_off
}

need_module
esp_here || skip_all "no IPsec in this kernel"
log=$(mktemp)
plan 19
topo_up 3
watch
for path in ingress udp; do
	topo_sysctl rx_path=$path
	demand 0 1
	refused "$path: a policy" -n 2
	esp_off
done
topo_sysctl rx_path=ingress
demand 0 1 transport 6
refused "a policy for IPv6" -n 2 -a 6
esp_off
rns 1 ip xfrm policy setdefault in block
refused "no policy, and it says block" -n 2
esp_off
check "no policy" ring -n 3 -T 60 -c 5,60k

esp_all
encrypted "transport mode" -n 3
esp_off
esp_all tunnel
encrypted "tunnels" -n 3
esp_off
esp_all transport 6
encrypted "IPv6" -n 2 -a 6
esp_off
one_link
one_flow
# A policy is added while a ring runs.
ring -n 2 -c 20000x60k -t f32 -T 30 -s dead_ms=1000 > "$log" 2>&1 &
sleep 2
demand 0 1
wait $!
status=$?
quote "$(tail -n 2 "$log")"
[ $status != 0 ] && ! grep -q "time limit" "$log"
result $? "a policy added while a ring runs: the ring ends"
esp_off
check "after that" ring -n 3 -T 60 -c 5,60k
finish
