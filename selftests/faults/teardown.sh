#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# teardown.sh [RELOADS]: the module can be unloaded when nothing uses it, and not before.
# Devices, namespaces and processes go away under load. No memory or member is left.
# shellcheck disable=SC2317 # functions are called by name
. "${BASH_SOURCE[0]%/*}/../lib/lib.sh"

log=$(mktemp)
reloads=${1:-3}

# python_of CODE: prints CODE after R(rank, size, group), which makes a socket that joins on lo
python_of()
{
	echo "
import socket, struct, sys
F = int(open('/proc/net/rar').readline().split()[1])
def A(rank, size, group):
    return struct.pack('=H2sHHIIIIQ16s16x', F, bytes(2), 2, 0, 0, rank, size, 0,
                       group, bytes([127, 0, 0, 1]))
def R(rank, size, group):
    s = socket.socket(F, socket.SOCK_SEQPACKET)
    s.setsockopt(522, 1, A(rank, size, group) + A((rank + 1) % size, size, group))
    return s
$1"
}

python() { python3 -c "$(python_of "$1")"; }

traffic=(ring -n 4 -m same -a lo4 -t f32 -c 30000)

here()		# COUNTER: prints the counter of this namespace
{
	awk -v name="${1#Rar}" '!n { n = split($0, names); next }
		{ for (i in names) if (names[i] == name) print $i }' \
		/proc/net/rar_netstat
}

members() { tail -n +3 /proc/net/rar | wc -l; }	# tombstones too
running() { [ "$(grep -c ' run ' /proc/net/rar)" -ge 4 ]; }
gone() { [ "$(members)" = 0 ]; }

unload() { within 2 module_unused && quickly 3 rmmod rar; }

# quickly SECONDS command...: the command succeeds within that time
quickly()
{
	local limit=$(($1 * slow)) start=$SECONDS

	shift
	"$@" && [ $((SECONDS - start)) -le "$limit" ] && return
	note "$*: failed or took $((SECONDS - start)) s"
	return 1
}

in_use()
{
	local said

	said=$(rmmod rar 2>&1) && note "rmmod succeeded" && return 1
	grep -q "in use" <<< "$said" && [ -e /proc/net/rar ]
}

# ---------------------------------------------------------------- the module

refused_while_open()
{
	local hold status

	coproc hold { python "s = $1; print('ready', flush=True); sys.stdin.read()"; }
	read -r -t 20 <&"${hold[0]}"
	in_use
	status=$?
	eval "exec ${hold[1]}>&-"
	# shellcheck disable=SC2154 # set by coproc
	wait "$hold_PID"
	return "$status"
}

refused_while_running()
{
	local status load

	"${traffic[@]}" -r 100000 -T 100 > /dev/null 2>&1 &
	load=$!
	within 10 running
	in_use
	status=$?
	kill -KILL "$load"
	wait "$load" 2> /dev/null
	return "$status"
}

reload_with_traffic()
{
	local i

	for ((i = 0; i < reloads; i++)); do
		modprobe rar && "${traffic[@]}" > /dev/null || return
		unload || return
	done
	modprobe rar
}

# While the module is loaded and unloaded, a process looks: where there are settings, there are
# sockets, and all that a setting may start. Namespaces make it take longer.
settings_come_last()
{
	local i pids=() status

	unload || return
	for ((i = 0; i < 50; i++)); do
		unshare -n sleep 1000 &
		pids+=($!)
	done
	python3 -c '
import os, time

def sockets():
    return any(l.startswith("RAR ") for l in open("/proc/net/protocols"))

there, end, bad, seen = False, time.monotonic() + 120, 0, 0
print("looks", flush=True)
while time.monotonic() < end and not os.path.exists("/tmp/settings.end"):
    if os.path.exists("/proc/sys/net/rar/box_mem"):
        seen += not there
        there = True
        # Between both looks they may have gone.
        bad += not sockets() and os.path.exists("/proc/sys/net/rar/box_mem")
    else:
        there = False
print("bad", bad, "seen", seen)
raise SystemExit(bad > 0 or seen == 0)' > "$log" &
	load=$!
	until_says "$log" looks
	for ((i = 0; i < 5; i++)); do
		modprobe rar || break
		unload || break
	done
	touch /tmp/settings.end
	wait "$load"
	status=$?
	cat "$log"
	rm /tmp/settings.end
	kill "${pids[@]}"
	wait "${pids[@]}" 2> /dev/null
	modprobe rar && [ "$i, $status" = "5, 0" ]
}

other_family()
{
	unload && modprobe rar family=12 || return
	grep -q "^family 12 " /proc/net/rar || return
	python "
s = R(0, 1, 1)
s.send(b'abcdefgh')
assert s.recv(64) == b'abcdefgh'
try:
    socket.socket(22, socket.SOCK_SEQPACKET)
except OSError as e:
    assert e.errno == 97, e
else:
    raise SystemExit('family 22 exists too')"
}

# orphans LINGER_MS: in rar0 two members join. Then their device goes down, so that neither
# hears that the other leaves.
orphans()
{
	topo_up 1 && topo_sysctl linger_ms="$1" || return
	rns 0 python3 -c "$(python_of "
import select, subprocess
s = [R(0, 2, 9), R(1, 2, 9)]
for x in s:
    select.select([], [x], [], 10)
    assert not x.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
subprocess.run(['ip', 'link', 'set', 'lo', 'down'], check=True)")" || return
	[ "$(rns 0 grep -c ' orphan ' /proc/net/rar)" = 2 ] && return
	rns 0 cat /proc/net/rar
	return 1
}

refused_with_orphans()
{
	orphans 60000 || return
	quickly 1 in_use || return
	ip netns del rar0 && within 2 module_unused && unload && modprobe rar
}

orphans_end()
{
	orphans $((2000 * slow)) || return
	within 6 module_unused && unload && modprobe rar && topo_down
}

refused_family()	# NUMBER
{
	! modprobe rar family="$1" 2> /dev/null && ! [ -e /proc/net/rar ]
}

# ---------------------------------------------------------------- leaks

memory()	# prints kB: free, of the kernel's own allocators
{
	sync
	echo 3 > /proc/sys/vm/drop_caches
	awk '/^MemFree:/ { free = $2 } /^(Slab|VmallocUsed):/ { own += $2 }
		END { print free, own }' /proc/meminfo
}

moved=0
kill_all()
{
	local load status

	ring -n 4 -m same -a lo4 -t f32 -c 8M -r 1000 -T 100 > "$log" 2>&1 &
	load=$!
	within 10 running && within 10 moving
	status=$?
	kill -KILL "$load" || cat "$log"
	wait "$load" 2> /dev/null
	within 6 gone && return "$status"
}

moving() { [ "$(here RarRxLocal)" -gt $((moved + 100)) ]; }

# Memory that is freed after a grace period comes back in a moment; leaked memory does not.
memory_is_back()
{
	read -r free_after own_after < <(memory)
	[ $((free - free_after)) -lt 49152 ] && [ $((own_after - own)) -lt 4096 ]
}

# Each time all ranks are killed with 8 MB of each of four ranks under way.
killed()
{
	local i free own free_after own_after status=0

	kill_all || return
	read -r free own < <(memory)
	for ((i = 0; i < 3; i++)); do
		moved=$(here RarRxLocal)
		kill_all || return
	done
	within 10 memory_is_back || status=1
	note "kB free $free, then $free_after; slab and vmalloc $own, then $own_after"
	head -n 1 /proc/net/rar | grep -q " mem 0 " && module_unused && return "$status"
}

# ---------------------------------------------------------------- under load

load=
start_load()	# RANKS
{
	topo_sysctl dead_ms=$((1000 * slow)) linger_ms=1000 window=$((1048576 / slow / slow))
	ring -n "$1" -t f32 -c 2M -r 100000 -T 100 > "$log" 2>&1 &
	load=$!
	within 10 rns $(($1 - 1)) grep -q " run " /proc/net/rar || { cat "$log"; return 1; }
}

# The load fails by itself, and no member is left in any namespace.
load_ends()
{
	local r

	within 15 load_ended || { kill -KILL "$load"; return 1; }
	wait "$load" && note "the ring was not disturbed" && return 1
	for ((r = 0; r < topo_n; r++)); do
		within 8 rank_gone "$r" || return
	done
}

load_ended() { ! kill -0 "$load"; }
rank_gone() { [ "$(rns "$1" tail -n +3 /proc/net/rar | wc -l)" = 0 ]; }

device_moves()
{
	start_load 4 && ip -n rar1 link set eth0 netns rarbr name moved || return
	load_ends || return
	ip -n rarbr link set moved netns rar1 name eth0
	topo_rank 1 | ip -n rar1 -batch - 2> /dev/null
}

device_is_removed()
{
	start_load 4 && ip -n rarbr link del p3 || return
	load_ends
}

namespaces_are_deleted()
{
	local r

	start_load 3 || return
	for ((r = 0; r < topo_n; r++)); do
		ip netns del "rar$r" || return
	done
	sleep 0.2
	kill -KILL "$load"
	wait "$load" 2> /dev/null
	within 10 module_unused
}

# ---------------------------------------------------------------- the tests

# The tests without devices.
on_one_host()
{
	local family

	refused_while_open "socket.socket(F, socket.SOCK_SEQPACKET)"
	result $? "rmmod is refused while a socket is open"
	refused_while_open "R(0, 2, 7)"
	result $? "rmmod is refused while a socket is joining"
	refused_while_running
	result $? "rmmod is refused while a ring runs"
	unload && modprobe rar
	result $? "rmmod works at once after all ranks were killed"
	"${traffic[@]}" > /dev/null && unload && modprobe rar
	result $? "rmmod works right after a clean end"
	check "rmmod is refused at once while orphans serve a namespace" refused_with_orphans
	check "rmmod works after linger_ms of orphans" orphans_end
	check "$reloads reloads with traffic" reload_with_traffic

	check "settings come last, and go first" settings_come_last
	check "family=12" other_family
	unload
	for family in 2 46 -1; do
		refused_family "$family"
		result $? "family=$family is refused"
	done
	modprobe rar
	sysctl -qw net.rar.dead_ms=$((500 * slow)) net.rar.linger_ms=500

	check "SIGKILL of all ranks, again and again" killed
}

need_module
boxes_unload
plan $((${RAR_XDP:+-14} + 17))
[ -n "${RAR_XDP-}" ] || on_one_host
topo_up 4
check "a device moves to another namespace under load" device_moves
check "a device is removed under load" device_is_removed
xdp_count			# while the namespaces exist
rm -f "$xdp_pin"		# the program must not hold the module
check "all namespaces are deleted under load" namespaces_are_deleted
topo_down
rm "$log"
finish
