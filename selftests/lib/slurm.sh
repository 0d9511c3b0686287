# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests of Slurm: a cluster of Debian's daemons in one guest. Each node is a rank's
# network namespace with namespaces of its own for the host name, processes and mounts. Slurm itself
# keeps the nodes' cgroups apart by their names. A directory that all nodes see is $dir; the jobs'
# one is $dir/work. Sourced, never run.

dir=
slurm_slice=/sys/fs/cgroup/system.slice
node_init=()		# of each node: the process outside that is its first process

slurm_installed()
{
	command -v munged > /dev/null && command -v slurmctld > /dev/null &&
		command -v slurmd > /dev/null
}

# Can jobs have limits here? Slurm 22.05 does not see the controller for memory where the kernel has no
# other one, as User-Mode Linux.
slurm_limits() { grep -q 'cpu .*memory' /sys/fs/cgroup/cgroup.controllers; }

# Writes slurm.conf for $1 nodes, with the lines of samples/.
slurm_conf()
{
	local last=$(($1 - 1))

	cat ../samples/jobs/slurm.conf - > "$dir/slurm.conf" <<-EOT
		ClusterName=rar
		SlurmctldHost=rar0(10.77.0.1)
		SlurmUser=root
		AuthInfo=socket=$dir/munge
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/spool.%n
		TmpFS=$dir/tmp.%n
		SlurmctldPidFile=$dir/slurmctld.pid
		SlurmdPidFile=$dir/slurmd.%n.pid
		ProctrackType=proctrack/cgroup
		TaskPlugin=task/$(slurm_limits && echo cgroup || echo none)
		SwitchType=switch/none
		SelectType=select/linear
		SelectTypeParameters=CR_Memory
		AccountingStorageType=accounting_storage/none
		JobAcctGatherType=jobacct_gather/none
		MailProg=/bin/true
		ReturnToService=2
		KillWait=2
		MessageTimeout=60
		SlurmdParameters=config_overrides
		SlurmdLogFile=$dir/slurmd.%n.log
		NodeName=rar[0-$last] NodeAddr=10.77.0.[1-$1] CPUs=1 RealMemory=1000
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	EOT
	cat > "$dir/cgroup.conf" <<-EOT
		CgroupPlugin=cgroup/v2
		IgnoreSystemd=yes
		ConstrainRAMSpace=yes
	EOT
}

# node_start RANK [SHELL-COMMANDS] command...: starts slurmd on a node, after some commands there, by a
# command such as prlimit
node_start()
{
	local r=$1 does=${2:-:}

	shift
	[ $# = 0 ] || shift
	mkdir -p "$dir/spool.rar$r" "$dir/tmp.rar$r"
	chmod 1777 "$dir/tmp.rar$r"
	nsenter --net="/run/netns/rar$r" \
		unshare --uts --mount --pid --fork --kill-child --mount-proc \
		sh -c "hostname rar$r; $does; \"\$@\" & wait" - "$@" \
		slurmd -D -f "$dir/slurm.conf" > "$dir/node.$r.out" 2>&1 &
	node_init[r]=$!
}

# A node stands still at once, with all of its processes, as a host without power.
node_stop()	# RANK
{
	kill -KILL "${node_init[$1]}" 2> /dev/null
	wait "${node_init[$1]}" 2> /dev/null
	return 0
}

node_again()	# RANK [SHELL-COMMANDS] command...
{
	node_stop "$1"
	rm "$dir/slurmd.rar$1.log"
	node_start "$@"
	within 180 grep -q 'slurmd started' "$dir/slurmd.rar$1.log" && within 180 slurm_idle "$slurm_nodes"
}

# The host from which users submit is that of rank 0.
on_login()
{
	# shellcheck disable=SC2016 # for that shell
	SLURM_CONF=$dir/slurm.conf rns 0 unshare --uts sh -c 'hostname rar0 && exec "$@"' - "$@"
}

# as_user command...: as a user who has no right to lock memory
as_user()
{
	on_login setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups \
		env -C "$dir/work" HOME="$dir/work" "$@"
}

slurm_idle() { [ "$(on_login sinfo -h -t idle -o %D)" = "$1" ]; }

# slurm_up N: starts a cluster of N nodes in the topology that is up
slurm_up()
{
	local r controller

	slurm_nodes=$1
	user=nobody
	dir=$(mktemp -d)
	mkdir "$dir/work" "$dir/state"
	chmod 755 "$dir"
	chown "$user" "$dir/work"
	slurm_conf "$1"
	mkdir -p "$slurm_slice"
	for controller in $(< /sys/fs/cgroup/cgroup.controllers); do
		echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
		echo "+$controller" > "$slurm_slice/cgroup.subtree_control"
	done
	(umask 077; head -c 1024 /dev/urandom > "$dir/munge.key")
	munged --force --key-file="$dir/munge.key" --socket="$dir/munge" --seed-file="$dir/munge.seed" \
		--pid-file="$dir/munge.pid" --log-file="$dir/munge.log" 2> /dev/null || return
	nsenter --net=/run/netns/rar0 unshare --uts sh -c 'hostname rar0 && exec "$@"' - \
		slurmctld -D -f "$dir/slurm.conf" > "$dir/slurmctld.log" 2>&1 &
	slurm_ctld=$!
	for ((r = 0; r < $1; r++)); do node_start $r; done
	within 180 slurm_idle "$1"
}

slurm_down()
{
	local r

	for r in "${!node_init[@]}"; do node_stop "$r"; done
	kill "$slurm_ctld" "$(< "$dir/munge.pid")"
	wait "$slurm_ctld"
	find "$slurm_slice" -depth -type d -name '*_*' -exec rmdir {} + 2> /dev/null
	rm -rf "$dir"
}

slurm_logs()
{
	local log

	for log in "$dir"/*.log; do
		note "${log##*/}:"
		quote "$(tail -n 12 "$log")"
	done
}
