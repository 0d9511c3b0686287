#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The networks matrix: a ring of two ranks over every network of lib/networks.sh. All sums are right, or
# the ring fails as the manual says; and packets come in where they should.
#
# networks.sh [NAME...]: some of them
# networks.sh count [ROUNDS [NAME...]]: what 1 MiB costs over each, in instructions: scripts/bench --networks
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/networks.sh
. lib/networks.sh

counted=(RarRxIngress RarRxEncap RarRxData RarTxRetrans RarDropAddress)
sums=(-n 2 -t "i32,f32" -c "5,60k,1M" -T 60)

# ---------------------------------------------------------------- what came of a run

declare -A got

# since COUNTS: sets got[] to what was counted since then, and got[path] to where packets came in
since()
{
	local was=() now=() i all

	read -ra was <<< "$1"
	mapfile -t now < <(totals "${counted[@]}")
	for i in "${!counted[@]}"; do got[${counted[i]}]=$((now[i] - was[i])); done
	all=$((got[RarRxIngress] + got[RarRxEncap]))
	got[path]=none got[chunks]=-
	[ "$all" != 0 ] || return 0
	got[path]=$(path_of RarRxIngress ingress "$all")$(path_of RarRxEncap udp "$all")
	got[path]=${got[path]/ingressudp/both}
	got[chunks]=$((10 * got[RarRxData] / all))
	got[chunks]=$((got[chunks] / 10)).$((got[chunks] % 10))
}

# path_of COUNTER WORD ALL: prints the word if one packet in twenty came so. Those of a join may come
# before there is a hook.
path_of() { [ $((20 * got[$1])) -lt "$3" ] || echo "$2"; }

so_far() { totals "${counted[@]}" | xargs; }

# ---------------------------------------------------------------- how rings run
# over NETWORK OPTION...: runs a ring, or what run_NETWORK does, first as it is, then without carriers,
# which only a kernel with several ranks sends
over()
{
	if [ "$made" != 0 ]; then
		echo "the network cannot be made"
		return 1
	elif declare -F "run_$1" > /dev/null; then
		"run_$1" "${@:2}"
	else
		ring "${sums[@]}" "${@:2}" && topo_sysctl carriers=0 && ring "${sums[@]}" "${@:2}"
	fi
}

# A cable is lost while the ring runs, and comes back.
run_bond_backup()
{
	local log status=0 pid

	log=$(mktemp)
	ring -n 2 -t i32 -c 100k -d 4 -T 60 "$@" > "$log" 2>&1 &
	pid=$!
	sleep 1 && ip -n rar1 link set eth0 down
	sleep 1.5 && ip -n rar1 link set eth0 up
	wait "$pid" || status=1
	cat "$log"
	rm "$log"
	return "$status"
}

run_bond_rr() { run_bond_backup "$@"; }
run_bond_xor() { run_bond_backup "$@"; }
run_bond_lacp() { run_bond_backup "$@"; }

# What troubleshooting.rst says of address translation
run_nat() { ! ring "${sums[@]}" -s join_ms=3000 "$@"; }

run_address() { net/address.py; }

# ---------------------------------------------------------------- the test

table=
wanted() { [ ${#names[@]} = 0 ] || [[ " ${names[*]} " == *" $1 "* ]]; }
count_row() { ! wanted "$1" || rows=$((rows + 1)); }

row()	# NAME PATH TITLE OPTION...
{
	local name=$1 path=$2 title=$3 before made works=FAILS

	wanted "$name" || return 0
	if [ "$name" = xdp ] && [ ! -e "$RAR_BPF_OTHER" ]; then
		skip "$title" "no clang" && skip "$title: packets by $path" "no clang"
		return
	fi
	net_up "$name"
	made=$?
	before=$(so_far)
	if check "$title" over "$name" "${@:4}"; then works=works; fi
	since "$before"
	if [ "$path" = none ]; then
		[ "$works" = FAILS ] || works=$(refusal) got[path]=-
		[ "$works" = ETIMEDOUT ] && [ "${got[RarDropAddress]}" -gt 0 ]
		result $? "$title: the error of the manual"
	else
		[ "${got[path]}" = "$path" ] || { [ "$path" = any ] && [ "${got[path]}" != none ]; }
		result $? "$title: packets by $path"
	fi
	table+=$(printf '%-34s %-9s %-8s %6s %6s' "$title" "$works" "${got[path]}" "${got[chunks]}" \
		"${got[RarTxRetrans]}")$'\n'
}

# Prints how connect() failed.
refusal()
{
	case $out in
	*"Connection timed out"*) echo ETIMEDOUT ;;
	*) echo other ;;
	esac
}

# ---------------------------------------------------------------- instructions

# need NETWORK: prints what the target W9 wants at most, in percent of the bridge; or nothing
need()
{
	case $1 in
	strict | firewall | conntrack | ifb) echo 130 ;;
	vxlan) echo 125 ;;
	esac
}

# How the pages of an operation lie makes a tenth of the instructions: they are in huge pages, and stay.
still=(env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 MALLOC_TOP_PAD_=16777216
	MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=1000000000)

# measure NETWORK OPTION...: sets $us to the thousands of instructions for 1 MiB, which both ranks take
# together: the clock of the machine counts them, see scripts/vm --count. As between hosts, there are no
# carriers, and devices have queues. The first quarter of the operations is not counted: windows grow.
measure()
{
	local before

	net_up "$1" && topo_sysctl carriers=0 || return
	each_rank tc qdisc replace dev eth0 root pfifo 2> /dev/null	# in some networks there is no eth0
	before=$(so_far)
	out=$("${still[@]}" ring -n 2 -t i32 -c 1M -z i -W -v -r "$rounds" -T 600 "${@:2}" 2>&1) || return
	since "$before"
	us=$(sed -n 's/^repeat:.*us=//p' <<< "$out" | tail -n +$((rounds / 4 + 1)) | percentile 50)
}

cost()	# NAME PATH TITLE OPTION...
{
	local most verdict='' us

	if [ "$2" = none ] || ! { [ "$1" = bridge ] || wanted "$1"; }; then
		return
	fi
	if ! measure "$1" "${@:4}"; then
		printf '%-34s FAILS\n' "$3"
		quote "$out"
		bad=1
		return
	fi
	[ "$1" != bridge ] || bridge=$us
	most=$(need "$1")
	if [ -n "$most" ]; then
		verdict=PASS
		[ $((us * 100)) -le $((bridge * most)) ] || { verdict=FAIL && bad=1; }
		verdict=$(printf 'at most %.2f: %s' "${most}e-2" "$verdict")
	fi
	printf '%-34s %-8s %6s %8d %6.2f   %s\n' "$3" "${got[path]}" "${got[chunks]}" "$us" \
		"$((us * 100 / bridge))e-2" "$verdict"
}

need_module
names=("$@") rows=0
if [ "${1-}" = count ]; then
	rounds=${2:-24} names=("${@:3}") bridge=1 bad=0
	printf '%-34s %-8s %6s %8s %6s   %s\n' "Linux $(uname -r)" path chunks 10^3 bridge W9
	every_network cost
	exit "$bad"
fi
every_network count_row
plan $((2 * rows))
every_network row
note "$(printf '%-34s %-9s %-8s %6s %6s' network result path chunks again)"
quote "$table"
note "rootless podman: see the test podman"
finish
