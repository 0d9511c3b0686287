#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Superpackets: consecutive chunks in one packet, which is forwarded as it came. The sums are
# also right if a superpacket must not be written to, comes in parts, or comes twice.
. "$(dirname "$0")/../lib/lib.sh"

n=4
op=(ring -n "$n" -t f32 -c "1M,300k,1M" -r 3)

# Holds a clone of each packet that comes to rank 1, and checks that the clone still has the
# header of a packet to rank 1.
onlooker='
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)	# SO_RCVBUFFORCE
s.bind(("eth0", 3))
seen = written = 0
s.settimeout(5)
print("ready", flush=True)
while True:
    try:
        p, where = s.recvfrom(64)
    except TimeoutError:
        break
    if where[2] or where[1] != 0x800 or p[36:38] != (18118).to_bytes(2, "big") or p[43] > 2:
        continue	# RS and AG over IPv4 to us
    seen += 1
    written += p[46:48] != b"\0\1"
print(f"onlooker: seen={seen} written={written}")
'

# The counters of all ranks, summed up since the last call: in $packets, $chunks ...
since()
{
	local r now_packets=0 now_chunks=0 now_forward=0 now_dup=0 now_acks=0

	for ((r = 0; r < n; r++)); do
		counters $r
		now_packets=$((now_packets + mib[RarRxIngress]))
		now_chunks=$((now_chunks + mib[RarRxData]))
		now_forward=$((now_forward + mib[RarTxForward]))
		now_dup=$((now_dup + mib[RarRxDup]))
		now_acks=$((now_acks + mib[RarTxAck]))
	done
	packets=$((now_packets - old_packets)) chunks=$((now_chunks - old_chunks))
	forward=$((now_forward - old_forward)) dup=$((now_dup - old_dup))
	acks=$((now_acks - old_acks)) old_acks=$now_acks
	old_packets=$now_packets old_chunks=$now_chunks
	old_forward=$now_forward old_dup=$now_dup
	note "$1: packets=$packets chunks=$chunks forwarded=$forward twice=$dup acks=$acks"
}

# Run a ring, then check a condition on the counters.
expect()	# NAME CONDITION
{
	check "$1" "${op[@]}" -s rx_path=ingress
	since "$1"
	(($2))
	result $? "$1: $2"
}

# Two groups send packets with the same addresses and ports; in the end their members leave.
two_groups()	# N
{
	local one status=0

	ring -n "$1" -t f32 -c "1M,4k,300k" -r 3 -s rx_path=ingress &
	one=$!
	ring -n "$1" -t i32 -c "1M,4k,300k" -r 3 -s rx_path=ingress || status=$?
	wait "$one" || status=$?
	return "$status"
}

# Print drops for reasons that must not occur here.
dropped()
{
	local r name

	for ((r = 0; r < n; r++)); do
		counters $r
		for name in Type Length Short Rank Epoch; do
			[ "${mib[RarDrop$name]}" = 0 ] ||
				echo "rank $r: ${mib[RarDrop$name]} x $name"
		done
	done
}

ports_tso()	# on|off: at the other ends of the ranks' links
{
	local r

	for ((r = 0; r < n; r++)); do
		ip netns exec rarbr ethtool -K p$r tso "$1"
	done
}

need_module
modprobe -q sch_netem || skip_all "no netem in this kernel"
dir=$(mktemp -d)
old_packets=0 old_chunks=0 old_forward=0 old_dup=0 old_acks=0
plan 19
topo_up $n
topo_neighbours
# Superpackets that come before their operation is posted stay whole, too.
expect "GSO" "packets < chunks / 10 && forward > chunks / 8"
topo_gso off
each_rank ethtool -K eth0 sg off tx-udp-segmentation off
expect "no GSO, no scatter-gather" "packets > chunks && forward > 0"
each_rank ethtool -K eth0 sg on tx-udp-segmentation on
topo_gso on
each_rank ethtool -K eth0 tx-udp-segmentation off
# On emulated processors packets overtake one another, and gaps cause more acknowledgments.
[[ ${RAR_KERNEL-} == uml* ]] && few=4 || few=2
expect "cut by the sender's kernel" "packets > chunks && forward > 0 && acks < chunks / $few"
each_rank ethtool -K eth0 tx-udp-segmentation on
# veth merges packets only if they come from a device that cannot segment TCP.
ports_tso off
each_rank ethtool -K eth0 tx-udp-segmentation off gro on
expect "cut by the sender's kernel, merged by the receiver's" \
	"packets < chunks / 4 && forward > chunks / 8"
other_n=2
while [ $other_n -le 4 ]; do
	check "two groups of $other_n ranks at once" two_groups $other_n
	other_n=$((other_n + 2))
done
out=$(dropped)
quote "$out"
[ -z "$out" ]
result $? "merged packets of two groups are told apart"
each_rank ethtool -K eth0 tx-udp-segmentation on gro off
ports_tso on
topo_netem duplicate 30%
expect "superpackets that come twice" "packets < chunks / 2 && dup > 0"
topo_netem loss 3% reorder 20% delay 1ms
expect "lost and out of order" "packets < chunks"
each_rank tc qdisc replace dev eth0 root pfifo limit 10000
rns 1 python3 -c "$onlooker" > "$dir/onlooker" &
onlooker=$!
until_says "$dir/onlooker" ready
check "a packet socket holds clones" "${op[@]}" -s rx_path=ingress
wait $onlooker
since "a packet socket holds clones"
out=$(cat "$dir/onlooker")
quote "$out"
[ "$(word seen)" -gt 100 ] && [ "$(word written)" = 0 ]
result $? "packets that others hold are not written to"
expect "nobody holds clones" "packets < chunks / 2 && forward > chunks / 8"
finish
