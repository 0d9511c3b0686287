# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests of containers: a small file system for them, and pods as Kubernetes makes them.
# The file system of pods is in $pod_root, and what they share in $pod_cards. Sourced, never run.

# shellcheck source=networks.sh
. lib/networks.sh

pod_root=/var/tmp/rar-pod
pod_cards=/var/tmp/rar-cards

# image DIR PROGRAM...: makes a file system of busybox, the programs, and the libraries that they need
image()
{
	local root=$1 name library

	shift
	mkdir -p "$root"/{bin,etc,proc,sys,dev,tmp,cards,var,usr,run}
	echo root:x:0:0:root:/:/bin/sh > "$root/etc/passwd"
	echo ID=rar > "$root/etc/os-release"
	cp /bin/busybox "$root/bin/"
	for name in sh cat sleep sysctl id head echo test touch; do ln -s busybox "$root/bin/$name"; done
	cp "$@" "$root/bin/"
	for library in $(ldd "$@" | grep -o '/[^ ]*\.so[^ ]*' | sort -u); do
		mkdir -p "$root${library%/*}"
		cp -L "$library" "$root$library"
	done
}

# containers RANKS DIR: "container RANK" starts librar's test in a container. Runs it for all ranks at
# once, with DIR/cards for their cards, and leaves what they say in $out. Are all sums right?
containers()
{
	local ranks=$1 dir=$2 r pids=()

	rm -f "$dir"/cards/*
	for ((r = 0; r < ranks; r++)); do
		container "$r" > "$dir/out.$r" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	# A console of nspawn ends lines as terminals do.
	out=$(cat "$dir"/out.* | tr -d '\r')
	quote "$out"
	[ "$(grep -cE '^rank [0-9]+: 10$' <<< "$out")" = "$ranks" ]
}

# ---------------------------------------------------------------- pods on two nodes
# The nodes are the hosts of hosts_up. Each has a bridge for its pods with the network
# 10.244.NODE.0/24, and a VXLAN to the other node, as flannel makes them. The pods are rar0, rar1 ...,
# the even ones on rar8. A namespace of a pod belongs to a user namespace of its own.

node_of() { echo $((8 + $1 % 2)); }
pod_address() { echo "10.244.$(node_of "$1").$((2 + $1 / 2))"; }

nodes_up()
{
	local n other

	hosts_up || return
	for n in 8 9; do
		other=$((17 - n))
		rns $n sysctl -qw net.ipv4.ip_forward=1
		ip -n rar$n -batch - <<-EOT || return
			link add flannel.1 address 02:00:00:00:00:0$n type vxlan id 1 dstport 8472 \
				local 192.0.2.$n dev eth0 nolearning
			address add 10.244.$n.0/32 dev flannel.1
			link set flannel.1 up
			link add cni0 type bridge forward_delay 0
			address add 10.244.$n.1/24 dev cni0
			link set cni0 mtu 1450 up
			route add 10.244.$other.0/24 via 10.244.$other.0 dev flannel.1 onlink
			neigh add 10.244.$other.0 lladdr 02:00:00:00:00:0$other dev flannel.1
		EOT
		rns $n bridge fdb append 02:00:00:00:00:0$other dev flannel.1 dst 192.0.2.$other
	done
}

pod_holder=()	# of each pod: the process that keeps its namespaces

# pod_up RANK: makes the namespaces of a pod and its device. Users of the pod are 100000 and up.
pod_up()
{
	local r=$1 node

	node=$(node_of "$r")
	unshare --user --net --uts sleep 100000 &
	pod_holder[r]=$!
	within 10 pod_apart "$r" && ip netns attach "rar$r" "${pod_holder[r]}" || return
	echo "0 $((100000 + 65536 * r)) 65536" |
		tee "/proc/${pod_holder[r]}/uid_map" > "/proc/${pod_holder[r]}/gid_map"
	ip -n "rar$node" link add "p$r" mtu 1450 master cni0 type veth peer name eth0 mtu 1450 netns "rar$r" &&
		ip -n "rar$node" link set "p$r" up || return
	ip -n "rar$r" -batch - <<-EOT
		link set lo up
		address add $(pod_address "$r")/24 dev eth0
		link set eth0 up
		route add default via 10.244.$node.1
	EOT
}

# shellcheck disable=SC2317 # called by within
pod_apart() { ! [ "/proc/${pod_holder[$1]}/ns/uts" -ef /proc/self/ns/uts ]; }

# pod_config RANK SECCOMP SYSCTLS program...: prints what the kubelet's runtime gives to crun: no
# capabilities, 64 KiB of memory to lock, the user 1000. SECCOMP is a file, or empty; SYSCTLS are
# members of an object of JSON.
pod_config()
{
	local r=$1 seccomp=$2 sysctls=$3

	shift 3
	cat <<-EOT
		{ "ociVersion": "1.0.0", "hostname": "pod$r",
		  "root": { "path": "$pod_root", "readonly": true },
		  "process": { "user": { "uid": 1000, "gid": 1000 }, "cwd": "/", "noNewPrivileges": true,
		    "env": ["PATH=/bin"], "args": [$(printf '"%s",' "$@" | sed 's/,$//')],
		    "rlimits": [{ "type": "RLIMIT_MEMLOCK", "soft": 65536, "hard": 65536 }] },
		  "mounts": [
		    { "destination": "/proc", "type": "proc", "source": "proc" },
		    { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] },
		    { "destination": "/cards", "type": "bind", "source": "$pod_cards", "options": ["bind", "rw"] }],
		  "linux": {
		    $([ -z "$seccomp" ] || echo "\"seccomp\": $(< "$seccomp"),")
		    "sysctl": { $sysctls },
		    "namespaces": [ { "type": "pid" }, { "type": "mount" }, { "type": "ipc" },
		      { "type": "user", "path": "/proc/${pod_holder[r]}/ns/user" },
		      { "type": "uts", "path": "/proc/${pod_holder[r]}/ns/uts" },
		      { "type": "network", "path": "/proc/${pod_holder[r]}/ns/net" } ] } }
	EOT
}

# pod_run RANK SECCOMP SYSCTLS program...: runs a program in a container of the pod
pod_run()
{
	local bundle

	bundle=$(mktemp -d)
	pod_config "$@" > "$bundle/config.json"
	crun --cgroup-manager=disabled run --bundle "$bundle" "pod$1-$BASHPID"
}

pods_down()
{
	local pid

	for pid in "${pod_holder[@]}"; do kill "$pid" 2> /dev/null; done
	topo_down
}
