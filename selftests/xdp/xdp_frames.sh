#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The XDP path: at the driver's hook ranks add to frames and forward them. Frames are native
# and generic, in one and in several pieces, and leave by the device they came by, another
# device or a VLAN. There are losses, other receive paths and other programs, and programs
# come and go.
. "$(dirname "$0")/../lib/lib.sh"

n=4
watched="RxXdp TxXdp XdpEarly XdpPassed RxIngress RxEncap RxData RxDup DropClaimed DropReplay TxRetrans"
export SEED=${SEED:-20261122}
declare -A old sum
xdp=(../scripts/xdp)

# The counters of all ranks, summed up since the last call: in ${sum[...]}
since()
{
	local r name
	declare -A now

	for ((r = 0; r < topo_n; r++)); do
		counters $r
		for name in $watched; do
			now[$name]=$((${now[$name]:-0} + ${mib[Rar$name]}))
		done
	done
	for name in $watched; do
		sum[$name]=$((now[$name] - ${old[$name]-0}))
		old[$name]=${now[$name]}
	done
	note "$(for name in $watched; do echo -n "$name=${sum[$name]} "; done)"
}

fresh() { old=(); since > /dev/null; }	# after a topology was made

# expect NAME CONDITION ring-option...: right bits, and a condition on ${sum[...]}
expect()
{
	local name=$1 condition=$2

	shift 2
	check "$name" ring "$@"
	since
	((condition))
	result $? "$name: $condition"
}

# The more chunks are in flight the more must wait; those are then sent from the buffer.
most="sum[RxXdp] > sum[RxData] / 2 && sum[TxXdp] > sum[RxXdp] / 20"

# ---------------------------------------------------------------- how they come

on_a_bridge()
{
	local bits

	topo_up $n 1500
	topo_sysctl rx_path=ingress
	check "N=$n ingress, for comparison" ring -n $n -t f32 -c 100003,300k -T 60
	bits=$(word hash)
	check "native" topo_xdp native
	topo_sysctl rx_path=xdp
	fresh
	expect "N=$n native" "$most" -n $n -t f32 -c 100003,300k -T 60
	[ -n "$bits" ] && [ "$(word hash)" = "$bits" ]
	result $? "the same bits as ingress"
	for ranks in 2 3 $n; do
		expect "N=$ranks all types, any memory" "$most" \
			-n "$ranks" -t all -c std,100k -z cior -T 60
	done
	expect "IPv6" "$most" -n 3 -a 6 -c std,300k -T 60
	RAR_SECURITY=auth expect "with seals" "$most" -n 3 -t all -c std,300k -T 60
	RAR_SECURITY=encrypt expect "encrypted" "$most" -n 3 -a 6 -t all -c std,300k -T 60
	topo_mtu 9000
	expect "MTU 9000" "$most" -n 3 -t all -c std,300k -T 60
}

# At MTU 9000 frames from ranks with the other paths come in pieces.
mixed_paths()	# MTU
{
	local paths=(xdp ingress udp xdp) r

	topo_mtu "$1"
	for ((r = 0; r < n; r++)); do
		rns $r sysctl -qw "net.rar.rx_path=${paths[r]}"
	done
	expect "ranks by xdp, ingress, udp, xdp, MTU $1" \
		"sum[RxXdp] > 100 && sum[RxIngress] > 100 && sum[RxEncap] > 100" \
		-n $n -t all -c std,300k -T 60
	[ "$1" = 1500 ] || RAR_SECURITY=encrypt expect "the same, encrypted" \
		"sum[RxXdp] > 100 && sum[RxIngress] > 100 && sum[RxEncap] > 100" \
		-n $n -t f32 -c std,300k -T 60
	topo_sysctl rx_path=xdp
}

lossy()
{
	local RAR_XDP=native

	topo_netem loss 2% duplicate 20% delay 300us 300us
	expect "lost, twice and out of order" \
		"sum[RxXdp] > 100 && sum[RxDup] > 10 && sum[TxRetrans] > 10" \
		-n $n -t i32,f32 -c std,100k -T 100
	RAR_SECURITY=encrypt expect "lost, twice and out of order, encrypted" \
		"sum[RxXdp] > 100 && sum[DropReplay] > 10 && sum[TxRetrans] > 10" \
		-n $n -t i32,f32 -c std,100k -T 100
	topo_netem delay 0
}

# Each packet from rank to rank comes a second time by another queue. Threads serve the
# queues at the same time.
on_two_cpus()
{
	local topo_queues="numtxqueues 2 numrxqueues 2" r

	topo_up $n 1500 && topo_xdp native && topo_sysctl rx_path=xdp super_chunks=1
	for ((r = 0; r < n; r++)); do
		rns br tc qdisc add dev p$r clsact &&
			rns br tc filter add dev p$r egress protocol ip handle 1 fw \
				action skbedit queue_mapping 1 &&
			rns br tc filter add dev p$r ingress protocol ip matchall \
				action skbedit mark 1 pipe \
				action mirred egress mirror dev p$(((r + 1) % n)) pipe \
				action skbedit mark 0 &&
			ip netns exec rar$r bash -c "echo 1 > /sys/class/net/eth0/threaded" || return
	done
	fresh
	expect "every packet twice, on two CPUs" \
		"sum[RxXdp] > 100 && sum[RxDup] + sum[DropClaimed] + sum[DropReplay] > 100" \
		-n $n -t i32,f32 -c std,300k -T 100
}

# A veth packet's checksum is left to its skb; with "tx off" it is in the packet.
generic()
{
	each_rank ethtool -K eth0 tx off > /dev/null
	topo_xdp off
	check "generic" topo_xdp generic
	expect "N=3 generic" "sum[RxXdp] > 100" -n 3 -t all -c std,100k -T 60
	topo_xdp off
	each_rank ethtool -K eth0 tx on > /dev/null
	topo_xdp native
}

# Each neighbour is at another device, to which the program redirects frames.
redirected()	# MTU CONDITION
{
	local r

	topo_ring $n "$1"
	for ((r = 0; r < n; r++)); do
		rns $r ip link set prev xdpdrv pinned "$xdp_pin" || return
	done
	topo_sysctl rx_path=xdp
	fresh
	expect "a veth from rank to rank, MTU $1" "$2" -n $n -t all -c std,300k -T 60
}

# veth silently loses frames that XDP sends to a peer without a program.
nobody_takes_frames()
{
	topo_xdp_ports off
	expect "where XDP frames are lost, packets go" "sum[RxData] > 100" \
		-n $n -c 300k -r 2 -T 60
	topo_xdp_ports on
}

# ---------------------------------------------------------------- who looks on

# Counts what a packet socket of rank 1 sees: data to rank 1 (in), and data to rank 2 (out) as
# outgoing packets. Without the mirror no outgoing packet is addressed to this host.
onlooker='
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)	# SO_RCVBUFFORCE
s.bind(("eth0", 3))
seen = {b"\x0a\x4d\0\2": 0, b"\x0a\x4d\0\3": 0}
s.settimeout(4)
print("ready", flush=True)
while True:
    try:
        p, where = s.recvfrom(64)
    except TimeoutError:
        break
    if (where[2] == 4 and where[1] == 0x800 and p[36:38] == (18118).to_bytes(2, "big")
            and p[43] <= 2 and p[30:34] in seen):
        seen[p[30:34]] += 1
print("onlooker: in={} out={}".format(*seen.values()))
'

# look_on MIRROR: sets $in and $out, and from the counters $received and $sent
look_on()
{
	local pid

	rns 1 sysctl -qw net.rar.xdp_mirror="$1"
	rns 1 python3 -c "$onlooker" > "$dir/onlooker" &
	pid=$!
	until_says "$dir/onlooker" ready
	received=$(counter 1 RarRxXdp) sent=$(counter 1 RarTxXdp)
	check "N=3, xdp_mirror=$1" ring -n 3 -t f32 -c 200k -T 60
	received=$(($(counter 1 RarRxXdp) - received)) sent=$(($(counter 1 RarTxXdp) - sent))
	wait $pid
	out=$(cat "$dir/onlooker")
	note "$out; received $received and sent $sent by XDP"
	in=$(word in) out=$(word out)
}

# XDP takes no frames of encrypted groups while they would be shown.
mirror()
{
	local -x RAR_SECURITY=${RAR_SECURITY:+auth}

	look_on 0
	[ "$in" = 0 ] && [ "$received" -gt 100 ]
	result $? "xdp_mirror=0: what XDP takes is not seen"
	look_on 1
	[ "$in" = "$received" ] && [ "$received" -gt 100 ] && [ "$out" -ge "$sent" ]
	result $? "xdp_mirror=1: $in of $received packets that XDP took are seen"
	received=$(counter 1 RarRxXdp)
	RAR_SECURITY=encrypt check "N=3, xdp_mirror=1, encrypted" ring -n 3 -t f32 -c 50k -T 60
	[ "$(counter 1 RarRxXdp)" = "$received" ]
	result $? "xdp_mirror=1: XDP takes no encrypted packets"
	rns 1 sysctl -qw net.rar.xdp_mirror=0
}

# ---------------------------------------------------------------- programs come and go

ping1() { rns 0 ping -q -c 1 -W 1 10.77.0.2 > /dev/null; }

# scripts/xdp on a device that has another program.
beside_another()
{
	rns 0 ip link set eth0 xdp off
	ping1
	result $? "ping"
	rns 0 ip link set eth0 xdpdrv object "$RAR_BPF_OTHER" section xdp.frags
	! ping1
	result $? "another program drops ping"
	check "attach beside it" rns 0 "${xdp[@]}" attach eth0
	! ping1
	result $? "it still does"
	expect "and a ring works beside it" "sum[RxXdp] > 100" -n 3 -c 300k -T 60
	check "detach" rns 0 "${xdp[@]}" detach eth0
	! ping1
	result $? "the other one is back"
	rns 0 ip link set eth0 xdp off
	ping1
	result $? "ping again"
	check "attach alone, generic" rns 0 "${xdp[@]}" attach eth0 generic
	check "detach" rns 0 "${xdp[@]}" detach eth0
	[ -z "$(rns 0 "${xdp[@]}" status eth0)" ]
	result $? "nothing is left"
	rns 0 ip link set eth0 xdpdrv pinned "$xdp_pin"
}

# Under load the program is taken off, replaced and put on again; the module cannot be
# removed. Both programs are also on devices that stay: for a program's first and last user
# the kernel patches its code, which an emulated machine may not survive (see run_in_guest).
replaced()
{
	local load r turns=4 turn refused=0 status=0

	bpftool prog load "$RAR_BPF_OTHER" "$xdp_pin-other" type xdp
	rns br ip link add held type veth
	rns br ip link set held xdpdrv pinned "$xdp_pin-other"
	ring -n $n -t i32,f32 -c 300k -d 300 -e "$dir/enough" -T 100 > "$dir/load" 2>&1 &
	load=$!
	for ((turn = 0; turn < turns; turn++)); do
		r=$((turn % n))
		rns $r ip link set eth0 xdp off
		rmmod rar 2> /dev/null || refused=$((refused + 1))
		rns $r ip link set eth0 xdpdrv pinned "$xdp_pin-other"
		rns $r ip -force link set eth0 xdpdrv pinned "$xdp_pin"
	done
	kill -0 $load || status=1
	touch "$dir/enough"
	wait $load || status=$?
	rm "$xdp_pin-other"
	out=$(cat "$dir/load")
	quote "$out"
	result $status "programs are replaced $turns times under load"
	[ $refused = $turns ]
	result $? "rmmod is refused meanwhile"
	since
	[ "${sum[RxXdp]}" -gt 100 ]
	result $? "and XDP has taken frames"
}

# The program alone holds the module, too.
held()
{
	! rmmod rar 2> /dev/null
	result $? "rmmod is refused while a program is loaded"
	rm -f "$xdp_pin"
	for ((r = 0; r < n; r++)); do rns $r ip link set prev xdp off; done
	topo_down
	module_unload && modprobe rar
	result $? "and works without"
}

need_module
boxes_unload
need_file ../scripts/xdp
modprobe -q sch_netem || skip_all "no netem in this kernel"
need_xdp
dir=$(mktemp -d)
plan 65
on_a_bridge
mixed_paths 9000
mixed_paths 1500
lossy
on_two_cpus
topo_up $n 1500 && topo_xdp native && topo_sysctl rx_path=xdp
fresh
generic
nobody_takes_frames
mirror
beside_another
replaced
topo_vlan
fresh
expect "in a VLAN" "sum[RxXdp] > 100 && sum[TxXdp] > 30" -n 3 -t all -c std,100k -T 60
redirected 1500 "$most"
redirected 9000 "sum[RxXdp] > 100"
held
rm -r "$dir"
finish
