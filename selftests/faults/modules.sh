#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The modules of a host: rar is all that a rank needs. Settings load rar_box and rar_roce, or say why
# not; these stay while a namespace uses them, and leave nothing when they go.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"
# shellcheck source=../lib/box.sh
. lib/box.sh

# shellcheck disable=SC2034 # for box.sh
members=3 box=3 address=10.77.0.4 dir=$(mktemp -d)
conf=/run/modprobe.d/rar-test.conf
rounds=${RAR_ROUNDS:-20}

there() { grep -q "^$1 " /proc/modules; }

# all_of MODULE...: these of the modules are loaded, and no others
all_of()
{
	local is
	is=$(awk '/^rar(_box|_roce)? / { print $1 }' /proc/modules | sort | xargs)
	[ "$is" = "$(printf '%s\n' "$@" | sort | xargs)" ] && return
	note "loaded: $is, not $*"
	return 1
}

fresh() { module_unload && modprobe rar && all_of rar; }

# says TEXT COMMAND...: the command fails and says so
says()
{
	local said

	said=$("${@:2}" 2>&1) && note "$*: succeeded" && return 1
	grep -q "$1" <<< "$said" && return
	note "$said"
	return 1
}

# write NAME VALUE: a setting of the box
write() { rns "$box" bash -c "echo $2 > /proc/sys/net/rar/$1"; }

# cannot_load MODULE COMMAND...: while modprobe cannot load the module
cannot_load()
{
	local status

	mkdir -p "${conf%/*}"
	echo "install $1 /bin/false" > "$conf"
	"${@:2}"
	status=$?
	rm "$conf"
	return "$status"
}

star() { ring -n "$members" -N rar -w -s box="$address" -T 200 "$@"; }

# ---------------------------------------------------------------- alone

alone()
{
	ring -n "$members" -N rar -t f32 -c 30000 -T 100 && write box_mem 0 && write box_roce 0 &&
		rns "$box" grep -qx 'limit 0 used 0 jobs 0' /proc/net/rar_box && all_of rar
}

# A host that is no box drops packets to one: here a socket of an unfinished group has the port. A
# packet loads no module.
stranger()
{
	local before after

	coproc hold { rns "$box" python3 -c "
import socket, struct, sys
F = int(open('/proc/net/rar').readline().split()[1])
def A(rank):
    return struct.pack('=H2sHHIIIIQ16s16x', F, bytes(2), 2, 0, 0, rank, 2, 0, 7,
                       socket.inet_aton('10.77.0.4' if not rank else '10.77.0.1'))
s = socket.socket(F, socket.SOCK_SEQPACKET)
s.setsockopt(522, 1, A(0) + A(1))
print('ready', flush=True)
sys.stdin.read()"; }
	read -r -t 20 <&"${hold[0]}"
	before=$(counter "$box" RarDropGroup)
	rns 0 python3 -c "
import sys
sys.path.insert(0, 'lib')
from boxleg import Group, Leg
for i in range(20):
    Leg(Group(0xbee, 1, 2, 16), 0, quiet=0.01).enter()"
	after=$(counter "$box" RarDropGroup)
	eval "exec ${hold[1]}>&-"
	# shellcheck disable=SC2154 # set by coproc
	wait "$hold_PID"
	note "dropped: $((after - before))"
	[ $((after - before)) = 20 ] && all_of rar
}

# ---------------------------------------------------------------- loading

no_module()
{
	cannot_load rar_box says "No such device" write box_mem 1M && all_of rar &&
		[ "$(rns "$box" sysctl -n net.rar.box_mem)" = 0 ]
}

no_capability()
{
	says "Operation not permitted" rns "$box" setpriv --bounding-set -net_admin \
		--inh-caps -net_admin bash -c 'echo 1M > /proc/sys/net/rar/box_mem' && all_of rar
}

# In a user namespace of its own even root loads nothing, and is no box if the module is there.
user_namespace()
{
	says "not permitted" unshare -Urn bash -c 'echo 1M > /proc/sys/net/rar/box_mem' &&
		says "Invalid argument" unshare -Urn bash -c 'echo 1 > /proc/sys/net/rar/box_roce' &&
		all_of rar && modprobe rar_box &&
		says "not permitted" unshare -Urn bash -c 'echo 1M > /proc/sys/net/rar/box_mem' &&
		says "not permitted" unshare -Urn bash -c 'echo 1 > /proc/sys/net/rar/box_roce' &&
		all_of rar rar_box && rmmod rar_box
}

# A module that was built for another version of the table
other_version()
{
	python3 - "$(modinfo -n rar_box)" "$dir/rar_box.ko" <<- 'EOT' || return
		import sys
		text = open(sys.argv[1], "rb").read()
		version, other = (v.to_bytes(4, "little") for v in (0x52415202, 0x524152ff))
		assert text.count(version) == 1, text.count(version)
		open(sys.argv[2], "wb").write(text.replace(version, other))
	EOT
	says "Invalid" insmod "$dir/rar_box.ko" && all_of rar
}

by_itself() { write box_mem 64M && all_of rar rar_box && by_box star -t f32 -c 30000; }

# With the module there, the administrator of the namespace needs no more than before.
loaded_by_hand()
{
	write box_mem 0 && rmmod rar_box && modprobe rar_box && rns "$box" setpriv --bounding-set \
		-net_admin --inh-caps -net_admin bash -c 'echo 64M > /proc/sys/net/rar/box_mem' &&
		by_box star -t f32 -c 30000
}

# ---------------------------------------------------------------- unloading

in_use()
{
	says "in use" rmmod rar_box && says "in use" rmmod rar && all_of rar rar_box
}

off_then_gone()
{
	write box_mem 0 && rmmod rar_box && all_of rar && not_by_box ring -n "$members" -N rar \
		-s box="$address" -t f32 -c 30000 -T 100
}

# A group has a job at the box when that is switched off and its module goes.
under_load()
{
	local pid opened lost

	write box_mem 64M && in_background star -t f32 -c 30000 -d 300 || return
	write box_mem 0 && rmmod rar_box && all_of rar
	result $? "it goes while a group has a job"
	write box_mem 64M && until_open "$opened"
	opened=$(($(all_members RarBoxOpened) - opened))
	job_ends && [ "$opened" = "$members" ]
	result $? "and the group goes on, and comes back"
}

namespace_ends()
{
	ip netns add rar9 && ip netns exec rar9 sysctl -qw net.rar.box_offer=1 net.rar.box_mem=1M &&
		ip netns exec rar9 sysctl -qw net.rar.box_roce=1 || return
	write box_mem 0
	says "in use" rmmod rar_roce || return
	ip netns del rar9
	within 10 quietly rmmod rar_roce && within 10 quietly rmmod rar_box && all_of rar
}

# Legs that enter, one group after the other, whether there is a box or not
flood="
import sys, time
sys.path.insert(0, 'lib')
from boxleg import ALLREDUCE, I32, SUM, Group, Leg
entered = n = 0
try:
    while True:
        n += 1
        legs = [Leg(Group(0xf100d, n, 2, 16), rank, quiet=0.01) for rank in range(2)]
        for leg in 3 * legs:
            try:
                leg.enter()
                if leg.epoch:
                    leg.contribute(1, 0, 4, (ALLREDUCE, I32, SUM), bytes(16))
            except OSError:     # the port is closed
                pass
        entered += all(leg.epoch for leg in legs)
        for leg in legs:
            leg.s.close()
        time.sleep(0.01)
except KeyboardInterrupt:
    print(f'# groups of the flood that entered: {entered} of {n}')
    raise SystemExit(entered == 0)"

# Many times the modules come and go, while members and others ask for the box, and a bridge
# that is a box too sees all packets pass.
comes_and_goes()
{
	local i packets opened before status=0

	write box_mem 1M && rns br sysctl -qw net.rar.box_offer=1 || return
	in_background star -t f32 -c 30000 -d 300
	opened=$(all_members RarBoxOpened)
	(trap - INT; exec nsenter --net=/run/netns/rar0 python3 -c "$flood") &
	packets=$!
	for ((i = 0; i < rounds; i++)); do
		before=$(all_members RarBoxOpened)
		write box_mem 1M || { status=1; break; }
		rns br sysctl -qw net.rar.box_mem=1M net.rar.box_roce=$((i % 2)) || status=1
		sleep 0.$((RANDOM % 2))$((RANDOM % 10))
		[ $((i % 20)) != 10 ] || until_open "$before"
		rns br sysctl -qw net.rar.box_roce=0 net.rar.box_mem=0 || status=1
		write box_mem 0 || status=1
		[ $((i % 2)) = 0 ] || rmmod rar_roce || status=1
		rmmod rar_box || { status=1; break; }
	done
	kill -INT "$packets"
	wait "$packets" || status=1
	job_ends || status=1
	opened=$(($(all_members RarBoxOpened) - opened))
	note "$i times; legs of members that opened: $opened"
	all_of rar || status=1
	rns br sysctl -qw net.rar.box_offer=0
	[ "$opened" -gt 0 ] && return "$status"
}

# ---------------------------------------------------------------- sums for RDMA

roce_needs_a_box() { says "Invalid argument" write box_roce 1 && all_of rar; }

no_roce()
{
	write box_mem 1M && cannot_load rar_roce says "No such device" write box_roce 1 &&
		[ "$(rns "$box" sysctl -n net.rar.box_roce)" = 0 ] && all_of rar rar_box
}

roce_by_itself()
{
	write box_roce 1 && all_of rar rar_box rar_roce &&
		rns "$box" grep -q '^roce used 0' /proc/net/rar_box
}

# The sums for RDMA stay on while there is no box, as settings say.
roce_in_use()
{
	says "in use" rmmod rar_roce && write box_mem 0 && says "in use" rmmod rar_box &&
		says "in use" rmmod rar_roce
}

order()
{
	write box_roce 0 && says "in use" rmmod rar_box && rmmod rar_roce && rmmod rar_box && all_of rar
}

need_module
plan 20
topo_up 4
! modprobe -q sch_netem || topo_netem delay 1ms		# leaves the processor time
topo_sysctl dead_ms=$((1000 * slow))
check "all modules go, and rar comes alone" fresh
check "rar alone serves a ring" alone
check "without rar_box packets to a box are dropped" stranger
check "a module that cannot be loaded: ENODEV" no_module
check "without CAP_NET_ADMIN nothing is loaded: EPERM" no_capability
check "nor in a user namespace" user_namespace
check "a module of another version is refused" other_version
check "box_mem loads rar_box, and the box makes sums" by_itself
check "a box is in use" in_use
check "a module that was loaded by hand serves, too" loaded_by_hand
check "without a box rar_box goes, and the ring goes on" off_then_gone
under_load
check "a namespace that ends uses no module" namespace_ends
check "rar_box and rar_roce come and go $rounds times under load" comes_and_goes
check "box_roce needs a box" roce_needs_a_box
check "a module for it that cannot be loaded: ENODEV" no_roce
check "box_roce loads rar_roce" roce_by_itself
check "sums for RDMA are in use" roce_in_use
check "rar_box goes after rar_roce" order
rm -r "$dir"
finish
