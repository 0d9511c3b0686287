#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# one_with_roce.sh a|b|box: the program of each guest of scripts/roce. Host a has ranks 0 and 2,
# host b ranks 1 and 3, so that each connection of the ring passes the box. The guest executes
# what scripts/roce writes to /run/out/step.N.ROLE, the functions below, until it is "end".
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

role=$1
declare -A self=([a]=10.78.1.1 [b]=10.78.2.1) other=([a]=10.78.2.1 [b]=10.78.1.1)
declare -A first=([a]=0 [b]=1)

# ---------------------------------------------------------------- the network

host_up()	# ADDRESS GATEWAY
{
	ip link set eth0 mtu 1500 up
	ip address add "$1/24" dev eth0
	ip route add 10.78.0.0/16 via "$2"
	modprobe ib_uverbs && modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0
}

up()
{
	modprobe virtio_net || return
	case $role in
	a) host_up 10.78.1.1 10.78.1.3 ;;
	b) host_up 10.78.2.1 10.78.2.3 ;;
	box)
		modprobe rar
		ip link set eth0 mtu 1500 up
		ip link set eth1 mtu 1500 up
		ip address add 10.78.1.3/24 dev eth0
		ip address add 10.78.2.3/24 dev eth1
		sysctl -qw net.ipv4.ip_forward=1
		;;
	esac
}

mtu()		# BYTES
{
	local dev

	for dev in /sys/class/net/eth*; do ip link set "${dev##*/}" mtu "$1" || return; done
}

# The box becomes a bridge, and the hosts get addresses in one network.
bridged()
{
	case $role in
	box)
		ip link add br0 type bridge mcast_snooping 0 forward_delay 0
		ip address flush dev eth0
		ip address flush dev eth1
		ip link set eth0 master br0
		ip link set eth1 master br0
		ip link set br0 up
		;;
	*)
		self=([a]=10.79.0.1 [b]=10.79.0.2) other=([a]=10.79.0.2 [b]=10.79.0.1)
		ip address add "${self[$role]}/24" dev eth0
		;;
	esac
}

# ---------------------------------------------------------------- the hosts

# ranks PORT [options of roce_ring]: both ranks of this host
ranks()
{
	local port=$1 r pids=() pid status=0

	shift
	for r in "${first[$role]}" $((first[$role] + 2)); do
		timeout 60 roce_ring -p "$port" "$@" "$r" 4 "${self[$role]}" "${other[$role]}" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return $status
}

# The counters of the transport, in one line.
transport()
{
	local file

	for file in /sys/class/infiniband/rxe0/ports/1/hw_counters/*; do
		echo -n "${file##*/}=$(< "$file") "
	done
	echo
}

# ---------------------------------------------------------------- the box

set_box() { sysctl -qw "${@/#/net.rar.}"; }

# The value of counters, by name
counted()
{
	awk -v names="$*" '
		NR == 1 { for (i = 2; i <= NF; i++) col[$i] = i }
		NR == 2 { n = split(names, name, " ")
			  for (i = 1; i <= n; i++) printf "%s=%s ", name[i], $col[name[i]]
			  print "" }' /proc/net/rar_netstat
}

# Switch off and on while messages pass; the last time the module is unloaded.
restarts()	# TIMES
{
	local i

	for ((i = 0; i < $1; i++)); do
		sleep 0.4
		set_box box_roce=0
		sleep 0.1
		set_box box_roce=1
	done
	sleep 0.3
	set_box box_roce=0 box_mem=0 && module_unload && modprobe rar && set_box box_mem=64M box_roce=1
}

# ---------------------------------------------------------------- steps

export RAR_SEED
up || exit
touch "/run/out/up.$role"
for ((n = 1;; n++)); do
	until [ -e "/run/out/step.$n.$role" ]; do sleep 0.05; done
	step=$(< "/run/out/step.$n.$role")
	[ "$step" != end ] || break
	status=0
	eval "$step" > "/run/out/$n.$role" 2>&1 || status=$?
	echo "ended status=$status" >> "/run/out/$n.$role"
done
if [ "$role" = box ]; then set_box box_roce=0 box_mem=0 && module_unload; fi
