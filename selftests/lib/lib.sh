# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the shell tests: TAP lines, topologies of network namespaces, the
# module's counters.  Sourced, never run: the tests go on in selftests/.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [ -z "${RAR_BIN-}" ]; then
	RAR_BIN=$PWD/../build/selftests/bin
	[ ! -d bin ] || RAR_BIN=$PWD/bin	# built in a kernel's tree, or installed
fi
export RAR_BIN RAR_BPF_OTHER=$RAR_BIN/other.bpf.o RAR_BPF_CGROUP=$RAR_BIN/cgroup.bpf.o
PATH=$RAR_BIN:$PATH:/usr/sbin:/sbin

# ---------------------------------------------------------------- TAP

tap_planned=0 tap_run=0 tap_failed=0

# With RAR_XDP a further test comes last: XDP has taken packets.
plan()
{
	tap_planned=$1
	[ -z "${RAR_XDP-}" ] || tap_planned=$(($1 + 1))
	echo "TAP version 13"
	echo "1..$tap_planned"
}

skip_all() { echo "1..0 # SKIP $*"; exit 4; }

note() { echo "# $*"; }

# Prints a program's output as comments.
# shellcheck disable=SC2001 # every line
quote() { [ -z "$1" ] || sed 's/^\(# \)\?/# /' <<< "$1"; }

result()	# STATUS NAME
{
	tap_run=$((tap_run + 1))
	if [ "$1" = 0 ]; then
		echo "ok $tap_run $2"
	else
		echo "not ok $tap_run $2"
		tap_failed=$((tap_failed + 1))
	fi
}

skip()		# NAME REASON
{
	tap_run=$((tap_run + 1))
	echo "ok $tap_run $1 # SKIP $2"
}

# check NAME command...: the command's output becomes comments; exit status 4 = skip.
# The output stays in $out.
check()
{
	local name=$1 status=0

	shift
	out=$("$@" 2>&1) || status=$?
	quote "$out"
	if [ $status = 4 ]; then
		skip "$name" "${out##*SKIP }"
	else
		result $status "$name"
	fi
	return $status
}

# word NAME: the value after NAME= in $out
word() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" <<< "$out" | tail -n 1; }

# until_says FILE WORD: waits until a background program has written it, at most 30 s
until_says()
{
	local i

	for ((i = 0; i < 300; i++)); do
		grep -q "$2" "$1" && return
		sleep 0.1
	done
	return 1
}

# percentile P: the percentile of the numbers on stdin
percentile()
{
	sort -n | awk -v p="$1" '{ a[NR] = $1 } END { print a[int((NR - 1) * p / 100) + 1] }'
}

finish()
{
	[ -z "${RAR_XDP-}" ] || check "XDP takes packets" xdp_took
	[ "$tap_run" = "$tap_planned" ] ||
		note "planned $tap_planned tests, ran $tap_run"
	note "totals: pass:$((tap_run - tap_failed)) fail:$tap_failed"
	[ "$tap_run" = "$tap_planned" ] && [ "$tap_failed" = 0 ]
	exit
}

# Skips if a file is missing: some stay behind when the tests leave the module's tree.
need_file()	# FILE
{
	[ -e "$1" ] || skip_all "there is no $1 here"
}

need_module()
{
	modprobe -q rar || [ -e /proc/net/rar ] || skip_all "no module rar"
}

# rar_box and rar_roce need rar. Unloads them, unless this or another namespace uses them. One that
# was deleted uses them until it is gone.
boxes_unload()
{
	local module

	for module in rar_roce rar_box; do
		[ ! -e /sys/module/$module ] || within 10 quietly rmmod $module || return
	done
}

# shellcheck disable=SC2317 # called by within
quietly() { "$@" 2> /dev/null; }

# A socket holds the module for an RCU grace period after its close, and an orphan while it
# serves.
module_unused() { [ "$(< /sys/module/rar/refcnt)" = 0 ]; }

module_unload() { boxes_unload && within 10 module_unused && rmmod rar; }

slow=1		# factor for times; debug kernels take longer
[[ ${RAR_KERNEL-} != uml-debug* ]] || slow=6

# within SECONDS command...: waits until the command succeeds
within()
{
	local end=$((SECONDS + $1 * slow))

	shift
	until "$@" 2> /dev/null; do
		[ $SECONDS -lt $end ] || { note "not in time: $*"; return 1; }
		sleep 0.05
	done
}

# ---------------------------------------------------------------- topologies
# rar0 .. rar(N-1): a rank each, device eth0 (10.77.0.(r+1)/24, fd77::(r+1)/64,
# fe80::77:(r+1)), all on the bridge br0 of the namespace rarbr (ports p0 ...).

topo_n=0
topo_queues=		# of each veth: "numtxqueues N numrxqueues N"

rns()		# RANK command...: in a rank's namespace; "br" is the bridge's
{
	local ns=$1

	shift
	nsenter --net="/run/netns/rar$ns" "$@"
}

each_rank()	# command...: in every rank's namespace
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		rns $r "$@" || return
	done
}

# Lets "ip" do the lines of stdin in every rank's namespace. SELF is r+1 there, and PEER is r+1 of the
# other one of two ranks.
each_ip()
{
	local r text mine

	text=$(cat)
	for ((r = 0; r < topo_n; r++)); do
		mine=${text//SELF/$((r + 1))}
		ip -n rar$r -batch - <<< "${mine//PEER/$((2 - r))}" || return
	done
}

topo_links()
{
	local r

	for ((r = 0; r < $1; r++)); do
		echo "link add eth0 netns rar$r $topo_queues type veth" \
			"peer name p$r netns rarbr $topo_queues"
	done
}

topo_rank()
{
	cat <<-EOT
		link set lo up
		link set eth0 addrgenmode none
		link set eth0 up
		address add 10.77.0.$(($1 + 1))/24 dev eth0
		address add fd77::$(($1 + 1))/64 dev eth0 nodad
		address add fe80::77:$(($1 + 1))/64 dev eth0 nodad
	EOT
}

topo_bridge()
{
	local r

	echo "link add br0 type bridge mcast_snooping 0 forward_delay 0"
	echo "link set br0 mtu 9000 up"
	for ((r = 0; r < $1; r++)); do
		echo "link set p$r master br0 addrgenmode none"
		echo "link set p$r up"
	done
}

topo_namespaces()
{
	local r

	echo "netns add rarbr"
	for ((r = 0; r < $1; r++)); do
		echo "netns add rar$r"
	done
}

# Removes the namespaces of before, and makes new ones for so many ranks, without devices.
topo_begin()	# N
{
	topo_down
	trap topo_exit EXIT
	topo_namespaces "$1" | ip -batch - || return
	topo_n=$1
}

topo_up()	# N [MTU...]: as topo_mtu
{
	local r n=$1

	shift
	topo_begin "$n" || return
	topo_links "$n" | ip -batch - || return
	topo_bridge "$n" | ip -n rarbr -batch - || return
	for ((r = 0; r < n; r++)); do
		topo_rank $r | ip -n rar$r -batch - || return
	done
	[ $# = 0 ] || topo_mtu "$@" || return
	[ -z "${RAR_XDP-}" ] || { need_xdp && topo_by_xdp; }
	[ -z "${RAR_RULES-}" ] || topo_input_rules
}

# Gives the host of each rank rules for its input, as most hosts have them: packets come behind them.
topo_input_rules()
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		rns $r nft -f - <<-'EOT' || return
			table inet host {
				chain in {
					type filter hook input priority 0; policy drop;
					iif lo accept
					ct state new,established,invalid accept
					meta l4proto { icmp, icmpv6 } accept
				}
			}
		EOT
	done
}

# Ends the namespace of a rank and makes it again, as a host that was restarted: its device has
# the same address.
topo_again()	# RANK
{
	local mac

	mac=$(ip -n rar"$1" -br link show eth0 | awk '{ print $3 }')
	ip netns del rar"$1" && ip netns add rar"$1" && within 10 topo_link "$1" || return
	ip -n rar"$1" link set eth0 address "$mac"
	topo_bridge $(($1 + 1)) | tail -n 2 | ip -n rarbr -batch - && topo_rank "$1" | ip -n rar"$1" -batch -
}

# Makes the device of a rank. The bridge's port of the device before it goes a little later than
# its namespace.
# shellcheck disable=SC2317 # called by within
topo_link() { topo_links $(($1 + 1)) | tail -n 1 | ip -batch -; }

# Attaches XDP as RAR_XDP says; call it again for a new device.
topo_by_xdp() { topo_xdp "$RAR_XDP" && topo_sysctl rx_path=xdp; }

topo_down()
{
	local ns

	xdp_count
	for ns in /run/netns/rarbr /run/netns/rar[0-9]*; do
		[ ! -e "$ns" ] || echo "netns del ${ns##*/}"
	done | ip -batch -
	topo_n=0
}

# Moves the ranks' addresses to a VLAN; the frames carry its tag both ways.
topo_vlan()
{
	modprobe -q 8021q
	each_ip <<-'EOT'
		link add link eth0 name eth0.7 type vlan id 7
		address del 10.77.0.SELF/24 dev eth0
		link set eth0.7 up
		address add 10.77.0.SELF/24 dev eth0.7
	EOT
}

# Call it in the end: a pinned program would keep the module loaded.
topo_exit()
{
	topo_down
	rm -f $xdp_pin
}

# ---------------------------------------------------------------- XDP

xdp_pin=/sys/fs/bpf/rar-test

# Skips the test where there is no XDP. The program is loaded once, for all devices.
need_xdp()
{
	[ -e /sys/kernel/btf/rar ] || skip_all "no BTF in the module, so no XDP"
	[ -e $xdp_pin ] && return
	need_file ../build/xdp/rar_xdp_frags.o
	bpftool prog load ../build/xdp/rar_xdp_frags.o $xdp_pin type xdp ||
		skip_all "the XDP program does not load"
}

# Packets received by XDP on ranks that are gone.
xdp_taken=0

xdp_count()
{
	local r

	[ -n "${RAR_XDP-}" ] || return
	for ((r = 0; r < topo_n; r++)); do
		[ ! -e /run/netns/rar$r ] ||
			xdp_taken=$((xdp_taken + $(counter $r RarRxXdp)))
	done
}

# Has XDP taken more than a few packets in this test?
xdp_took()
{
	xdp_count
	note "by XDP: $xdp_taken packets"
	[ $xdp_taken -gt 100 ]
}

# topo_xdp native|generic|off: sets XDP on the ranks' devices. veth takes frames that XDP
# sends back only if its other end has an XDP program, too; that program passes everything.
topo_xdp()
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		case $1 in
		native) rns $r ip -force link set eth0 xdpdrv pinned $xdp_pin ;;
		generic) rns $r ip -force link set eth0 xdpgeneric pinned $xdp_pin ;;
		off) rns $r ip link set eth0 xdp off && rns $r ip link set eth0 xdpgeneric off ;;
		esac || return
	done
	topo_xdp_ports on
}

topo_xdp_ports()	# on|off
{
	local r

	for ((r = 0; r < topo_n; r++)); do
		case $1 in
		on) rns br ip -force link set p$r xdpdrv pinned $xdp_pin ;;
		off) rns br ip link set p$r xdp off ;;
		esac || return
	done
}

# topo_ring N MTU: a ring of veths instead of the bridge: eth0 leads to the next rank, prev
# comes from the predecessor. IPv4 only.
topo_ring()
{
	local r n=$1 next

	topo_begin "$n" || return
	for ((r = 0; r < n; r++)); do
		next=$(((r + 1) % n))
		ip link add eth0 mtu "$2" netns "rar$r" type veth \
			peer name prev mtu "$2" netns "rar$next" || return
	done
	for ((r = 0; r < n; r++)); do
		ip -n "rar$r" -batch - <<-EOT || return
			link set lo up
			link set eth0 up
			link set prev up
			address add 10.77.0.$((r + 1))/32 dev eth0
			address add 10.77.0.$((r + 1))/32 dev prev
			route add 10.77.0.$(((r + n - 1) % n + 1))/32 dev prev
			route replace 10.77.0.$(((r + 1) % n + 1))/32 dev eth0
		EOT
	done
}

# topo_rails N: gives each rank N further devices eth1 ..., with the addresses 10.78.0.(r+1)/24 and
# fd78::(r+1)/64, 10.79.0.(r+1)/24 ..., on the bridges br1 ... of the namespace rarbr (ports p0.1 ...)
topo_rails()
{
	local r i

	for ((i = 1; i <= $1; i++)); do
		rns br ip -batch - <<-EOT || return
			link add br$i type bridge mcast_snooping 0 forward_delay 0
			link set br$i mtu 9000 up
		EOT
		for ((r = 0; r < topo_n; r++)); do
			ip link add eth$i netns rar$r type veth peer name p$r.$i netns rarbr || return
			ip -n rarbr -batch - <<-EOT || return
				link set p$r.$i master br$i addrgenmode none
				link set p$r.$i up
			EOT
			ip -n rar$r -batch - <<-EOT || return
				link set eth$i addrgenmode none
				link set eth$i up
				address add 10.$((77 + i)).0.$((r + 1))/24 dev eth$i
				address add fd$((77 + i))::$((r + 1))/64 dev eth$i nodad
			EOT
		done
	done
}

# topo_mtu MTU...: sets the MTU of rank 0, 1, ...; the last MTU is for all further ranks. The
# bridge's port gets it, too, so a path may be narrower than its sender's device.
topo_mtu()
{
	local r mtu

	for ((r = 0; r < topo_n; r++)); do
		[ $# = 0 ] || { mtu=$1; shift; }
		echo "link set p$r mtu $mtu"
		ip -n rar$r link set eth0 mtu "$mtu" || return
	done | ip -n rarbr -batch -
}

# topo_route_mtu MTU...: sets the MTU of the routes to the other ranks, not of the devices
topo_route_mtu()
{
	local r mtu

	for ((r = 0; r < topo_n; r++)); do
		[ $# = 0 ] || { mtu=$1; shift; }
		ip -n rar$r -batch - <<-EOT || return
			route replace 10.77.0.0/24 dev eth0 src 10.77.0.$((r + 1)) mtu $mtu
			route replace fd77::/64 dev eth0 proto kernel metric 256 mtu $mtu
		EOT
	done
}

# Sets the link addresses, because an answer to a question for one may arrive corrupted.
topo_neighbours()
{
	local r s mac

	for ((r = 0; r < topo_n; r++)); do
		mac=$(ip -n "rar$r" -br link show eth0 | awk '{ print $3 }')
		for ((s = 0; s < topo_n; s++)); do
			[ $s = $r ] ||
				ip -n "rar$s" neigh replace 10.77.0.$((r + 1)) lladdr "$mac" dev eth0 || return
		done
	done
}

# topo_netem parameters...: netem on all packets that every rank sends; with XDP, whose
# packets no queue sees, on all packets that it receives. A queue of another kind comes between,
# because netem keeps the corruption and reordering that new parameters do not mention.
topo_netem()
{
	local r

	if [ -z "${RAR_XDP-}" ]; then
		each_rank tc qdisc replace dev eth0 root pfifo &&
			each_rank tc qdisc replace dev eth0 root netem limit 10000 "$@"
		return
	fi
	for ((r = 0; r < topo_n; r++)); do
		echo "qdisc replace dev p$r root pfifo"
		echo "qdisc replace dev p$r root netem limit 10000 $*"
	done | rns br tc -batch -
}

# topo_slow RANK DELAY|off: delays the packets that it sends to its successor
topo_slow()
{
	local ns=$1 dev=eth0

	[ -z "${RAR_XDP-}" ] || ns=br dev=p$((($1 + 1) % topo_n))
	if [ "$2" = off ]; then
		rns "$ns" tc qdisc del dev $dev root
	else
		rns "$ns" tc qdisc replace dev $dev root netem delay "$2"
	fi
}

# topo_rules RANK: rules on stdin, one per line, for the packets that it receives. They run
# before the module's ingress hook, or with XDP where the bridge sends the packets.
topo_rules()
{
	local ns=$1 hook="ingress device eth0"

	[ -z "${RAR_XDP-}" ] || ns=br hook="egress device p$1"
	{
		echo "add table netdev to$1"
		echo "add chain netdev to$1 in { type filter hook $hook priority -500; }"
		sed "s/^/add rule netdev to$1 in /"
	} | rns "$ns" nft -f -
}

# Lists the rules of a rank, with their counters.
topo_rules_of()
{
	local ns=$1

	[ -z "${RAR_XDP-}" ] || ns=br
	rns "$ns" nft list table netdev "to$1"
}

topo_rules_off()
{
	each_rank nft flush ruleset
	rns br nft flush ruleset
}

# Shows the counters of the queues.
topo_netem_counts()
{
	local r

	rns br tc -s qdisc show
	for ((r = 0; r < topo_n; r++)); do
		rns $r tc -s qdisc show dev eth0
	done
}

topo_gso()	# on|off: segmentation and receive offloads of the ranks' devices
{
	each_rank ethtool -K eth0 tso "$1" gso "$1" gro "$1" 2>/dev/null
}

topo_sysctl()	# NAME=VALUE...: net.rar.* of every rank
{
	each_rank sysctl -qw "${@/#/net.rar.}"
}

# ---------------------------------------------------------------- counters

declare -A mib

# counters RANK: reads all counters of a rank's namespace into mib, e.g. mib[RarRxDup]
counters()
{
	local names values i

	{ read -ra names; read -ra values; } < <(rns "$1" cat /proc/net/rar_netstat)
	for ((i = 1; i < ${#names[@]}; i++)); do
		mib[${names[0]%:}${names[i]}]=${values[i]}
	done
}

counter()	# RANK NAME
{
	counters "$1"
	echo "${mib[$2]}"
}

# more RANK NAME VALUE: is a counter higher?
more() { [ "$(counter "$1" "$2")" -gt "$3" ]; }

# until_runs RANK DONE: waits until a group works: a rank has completed more operations than DONE, its
# RarOpsDone from before
until_runs() { within 20 more "$1" RarOpsDone "$2"; }

# totals NAME...: prints the sums of counters over all ranks of the topology
totals()
{
	local r name
	local -A tally

	for ((r = 0; r < topo_n; r++)); do
		counters $r
		for name; do tally[$name]=$((${tally[$name]-0} + mib[$name])); done
	done
	for name; do echo "${tally[$name]-0}"; done
}

total() { totals "$1"; }	# NAME

# Prints how many calls went by the ring, as programs with RAR_MPI_STAT or RAR_TORCH_STAT say
# in $out.
said_ops()
{
	sed -n 's/.*: \([0-9]*\) by the ring.*/\1/p' <<< "$out" | awk '{ n += $1 } END { print n + 0 }'
}
