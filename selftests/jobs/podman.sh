#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Rootless podman: a user without rights starts a rank on each of four hosts, which are network
# namespaces of the guest. Then what a container may set, lock and see, and profiles with and without
# the family. The image is made here and imported, no registry is asked.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/pod.sh
. lib/pod.sh

ranks=4
user=rarjob
home=/var/tmp/$user
samples=$(readlink -f ../samples/jobs)

# as RANK command...: as the user, on the host of a rank
as()
{
	local r=$1

	shift
	rns "$r" setpriv --reuid $user --regid $user --init-groups --reset-env \
		env -C $home HOME=$home XDG_RUNTIME_DIR=$home/run TMPDIR=$home "$@"
}

has_seccomp() { [ -e /proc/sys/kernel/seccomp ]; }

# The driver vfs copies files, so it needs no overlay mounts of users. cgroups of users are systemd's
# matter, which does not run here.
set_up()
{
	useradd -d $home $user || return
	mkdir -p $home/.config/containers $home/run $home/cards
	echo '[storage]
driver = "vfs"' > $home/.config/containers/storage.conf
	echo '[containers]
cgroups = "disabled"
'"$(has_seccomp || echo 'seccomp_profile = "unconfined"')"'
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"' > $home/.config/containers/containers.conf
	image "$home/root" "$RAR_BIN/librar_cards"
	mv "$home/root/bin/librar_cards" "$home/root/bin/librar"
	tar -C "$home/root" -cf "$home/image.tar" .
	chown -R $user:$user $home
	chmod 700 $home/run
}

# podman without a network for the container, beside host 0
alone() { as 0 timeout $((120 * slow)) podman run --rm --network=none "$@"; }

# container RANK
container() { as "$1" timeout $((200 * slow)) "$samples/podman.sh" ring $home/cards "$ranks" "$1"; }

# A profile with a list of families, without the family and with it
seccomp()
{
	local why="this kernel has no seccomp"

	if ! has_seccomp; then
		skip "a profile without family 22: said by the rank" "$why"
		skip "a profile with family 22: the rank adds" "$why"
		return
	fi
	/usr/bin/python3 "$samples/families.py" 1 2 10 16 > $home/without.json
	/usr/bin/python3 "$samples/families.py" 1 2 10 16 22 > $home/with.json
	out=$(alone --security-opt seccomp=$home/without.json ring librar /cards 1 0 2>&1)
	quote "$out"
	grep -q '^rank 0: forbidden here: AF_RAR by a seccomp profile' <<< "$out"
	result $? "a profile without family 22: said by the rank"
	out=$(alone --security-opt seccomp=$home/with.json -v $home/cards:/cards -e RAR_LOCAL=127.0.0.1 \
		ring librar /cards 1 0 2>&1)
	quote "$out"
	grep -q '^rank 0: 1$' <<< "$out"
	result $? "a profile with family 22: the rank adds"
}

tear_down()
{
	pkill -KILL -u "$user"
	topo_exit
	within 5 userdel "$user"
	rm -rf "$home"
}

need_module
command -v podman > /dev/null || skip_all "podman is not installed: scripts/deps pods"
need_file "$RAR_BIN/librar_cards"
plan 8
topo_up $ranks
trap tear_down EXIT
set_up
check "a user imports an image" as 0 timeout $((120 * slow)) podman import -q "$home/image.tar" ring
containers $ranks $home
result $? "a rank on each of four hosts: the sums are right"
[ "$(total RarOpsDone)" = $ranks ]
result $? "an operation of the module for each rank"
out=$(alone ring sh -c 'head -n 1 /proc/net/rar; cat /proc/sys/net/rar/dead_ms' 2>&1)
quote "$out"
grep -q 'groups 0 mem 0' <<< "$out" && grep -qx 5000 <<< "$out"
result $? "a container with a network of its own sees no groups of its host"
out=$(alone --sysctl net.rar.dead_ms=2000 ring cat /proc/sys/net/rar/dead_ms 2>&1)
quote "$out"
[ "$out" = 2000 ] && [ "$(rns 0 cat /proc/sys/net/rar/dead_ms)" = 5000 ]
result $? "a setting of a container is its own"
out=$(alone ring sh -c 'ulimit -l' 2>&1; alone --ulimit memlock=0 ring sh -c 'ulimit -l' 2>&1)
quote "$out"
[ "$(tail -n 1 <<< "$out")" = 0 ]
result $? "--ulimit memlock lowers what a container may lock"
seccomp
finish
