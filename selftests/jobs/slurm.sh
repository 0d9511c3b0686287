#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Jobs of Slurm, by Debian's daemons: four nodes, which are namespaces of one guest, run the job scripts
# of samples/jobs. The module's counters say who did the work. Then jobs for which something is
# missing, and jobs that Slurm ends: they say it once, none hangs, and none leaves anything.
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/slurm.sh
. lib/slurm.sh

# Four ranks share the processor of the guest, and messages of MPI go by TCP between its namespaces.
export OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1 OMPI_MCA_op=^avx OMPI_MCA_mpi_yield_when_idle=1
# Every call that can goes by the ring.
export RAR_MPI_MIN=0 RAR_MPI_AFTER=1 RAR_LIB
samples=$(readlink -f ../samples)
ranks=4
bin=$(readlink -f "$RAR_BIN")

# batch OPTIONS SCRIPT ARGUMENT...: runs a job script of samples/; its output is in $out
batch()
{
	# shellcheck disable=SC2086 # a list
	as_user timeout $((300 * slow)) sbatch --quiet --wait --output=job.out $1 \
		"$samples/jobs/$2" "${@:3}" > "$dir/sbatch.out" 2>&1
	job_status=$?
	out=$(cat "$dir/work/job.out" "$dir/sbatch.out")
	rm -f "$dir/work/job.out"
	quote "$out"
	return $job_status
}

# said PATTERN TIMES: so many lines of the job say it
said() { [ "$(grep -cE "$1" <<< "$out")" = "$2" ]; }
right() { said "^$ranks ranks: 0 bad" 1; }
by_mpi() { right && said 'librar-mpi: .*own collectives are used$' 1 && said "librar-mpi: rank 3: .*$1" 1; }

# Has a job left no process, cgroup, member and memory?
clean()
{
	local r

	for ((r = 0; r < ranks; r++)); do
		[[ $(rns "$r" head -n 1 /proc/net/rar) == *" groups 0 mem 0 "* ]] || return
	done
	! pgrep -u "$user" > /dev/null && [ -z "$(find "$slurm_slice" -name 'job_*')" ]
}

nothing_stays()	# NAME
{
	within 20 clean
	result $? "$1: no process, group, memory or cgroup stays"
}

# by_ring NAME: did the module at least as many operations in the last job as the ranks say?
by_ring()
{
	local ops=$(($(total RarOpsDone) - ops_before))

	[ "$(said_ops)" -ge $((4 * ranks)) ] && [ $ops -ge "$(said_ops)" ]
	result $? "$1: $ops operations of the module for $(said_ops) calls"
}

mpi_jobs()
{
	local way

	for way in mpi preload; do
		ops_before=$(total RarOpsDone)
		batch "" $way.sbatch "$bin/mpi_calls.openmpi" few && right
		result $? "$way.sbatch: results"
		by_ring $way.sbatch
	done
}

librar_jobs()
{
	ops_before=$(total RarOpsDone)
	batch "" librar.sbatch "$bin/librar_pmix" && said '^rank [0-3]: 10$' 4
	result $? "librar.sbatch: the sums are right"
	[ $(($(total RarOpsDone) - ops_before)) = $ranks ]
	result $? "librar.sbatch: an operation of the module for each rank"
}

torch_jobs()
{
	local why="not installed: scripts/deps torch"

	if /usr/bin/python3 -c 'import torch' 2> /dev/null && [ -e ../build/lib/librar.so.0 ]; then
		awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) { d = i % 10
			for (p = 0; p < 64; p++) printf "%d,", int(p % 10 == d ? 12 + 4 * rand() : 4 * rand())
			print d } }' > "$dir/work/digits.csv"
		ops_before=$(total RarOpsDone)
		PATH=/usr/bin:$PATH GLOO_SOCKET_IFNAME=eth0 PYTHONPATH=$(readlink -f ../python) \
			RAR_LIBRARY=$(readlink -f ../build/lib/librar.so.0) batch "" torch.sbatch "$samples/torch_digits.py" digits.csv --epochs 2
		said '^done ' $ranks &&
			[ "$(sed -n 's/^done.* weights=\([^ ]*\).*/\1/p' <<< "$out" | sort -u | wc -l)" = 1 ]
		result $? "torch.sbatch: all ranks have the same weights"
		by_ring torch.sbatch
	else
		skip "torch.sbatch: all ranks have the same weights" "$why"
		skip "torch.sbatch: operations of the module" "$why"
	fi
}

# The job has a cgroup of its own, with the limit of memory that it asked for.
job_cgroup()
{
	local name="a job in a cgroup with a limit of memory"

	if slurm_limits; then
		# shellcheck disable=SC2016 # for the shell of each rank
		batch --mem=300M librar.sbatch sh -c 'cat "/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)/../../../memory.max"
			exec "$1"' - "$bin/librar_pmix"
		said '^rank [0-3]: 10$' 4 && said "^$((300 << 20))\$" 4
		result $? "$name"
	else
		skip "$name" "Slurm 22.05 does not see the controllers of this kernel"
	fi
}

# A node whose slurmd may lock no memory: its limit is that of the jobs, whatever the user's is.
no_lock()
{
	node_again 3 : prlimit --memlock=0
	batch "" mpi.sbatch "$bin/mpi_calls.openmpi" few && by_mpi 'it may lock 0 KiB'
	result $? "no memory may be locked on a node: MPI says it once, and does the work"
	batch "" librar.sbatch "$bin/librar_pmix" && said '^rank [0-3]: 10$' 4
	result $? "no memory may be locked on a node: librar lets the kernel copy"
}

# A node whose ranks cannot open the socket: without the module, or under a filter of families, such as
# RestrictAddressFamilies= of slurmd's unit. Here it is the filter; the kernel is the same for all nodes.
no_family()
{
	local status=0 why="this kernel has no seccomp"

	"$bin/families" 1 true 2> /dev/null || status=$?
	if [ $status = 125 ]; then
		skip "no family on a node: MPI does the work" "$why"
		skip "no family on a node: librar ends" "$why"
		return
	fi
	node_again 3 : "$bin/families" 1,2,10,16
	batch "" mpi.sbatch "$bin/mpi_calls.openmpi" few && by_mpi 'no AF_RAR here'
	result $? "no family on a node: MPI says it once, and does the work"
	! batch "" librar.sbatch "$bin/librar_pmix" && said '^rank 3: no AF_RAR here' 1 &&
		said '^rank [0-2]: rank 3 cannot add$' 3
	result $? "no family on a node: librar says it, and all ranks end"
}

# A node without the library.
no_library()
{
	node_again 3 "mount -t tmpfs tmpfs $RAR_LIB"
	batch "" mpi.sbatch "$bin/mpi_calls.openmpi" few && by_mpi 'it lacks this version of the component'
	result $? "a node without the component: MPI says it once, and does the work"
	! batch "" preload.sbatch "$bin/mpi_calls.openmpi" few &&
		said 'librar-mpi: rank 3 is without this library' 1
	result $? "a node without the preloaded library: the job says it once, and ends"
	node_again 3
}

# Prints the process of a rank's program that runs in its namespace, if it does.
program_of()
{
	local pid

	for pid in $(ip netns pids "rar$1"); do
		[ "$(cat "/proc/$pid/comm")" != "$2" ] || echo "$pid"
	done
}

adds() { [ -n "$(program_of 2 librar_pmix)" ] && more 2 RarOpsDone $((ops_before + 10)); }

# endless NAME COMMAND...: a job that goes on adding, until the command ends it; its output is in $out
endless()
{
	local job

	ops_before=$(counter 2 RarOpsDone)
	job=$(as_user sbatch --parsable --output=job.out "$samples/jobs/librar.sbatch" "$bin/librar_pmix" 3000)
	within 60 adds
	result $? "$1: the ranks add"
	shift
	"$@" "$job"
	within 200 job_ended "$job"
	out=$(cat "$dir/work/job.out")
	quote "$out"
}

job_ended() { ! on_login squeue -h -j "$1" -t all -o %T | grep -qE 'RUNNING|COMPLETING|PENDING'; }
# shellcheck disable=SC2317 # called by endless
kill_rank() { kill -KILL "$(program_of 2 librar_pmix)"; }
# shellcheck disable=SC2317
limit_time() { on_login scontrol update "JobId=$1" TimeLimit=1; }

ended_jobs()
{
	endless "a rank is killed" kill_rank
	said 'rank [013]: rank 2 \(10\.77\.0\.3\) died' 3
	result $? "a rank is killed: the others name it"
	nothing_stays "a rank is killed"
	endless scancel as_user scancel
	said '\*\*\* JOB .* CANCELLED AT' 1
	result $? "scancel: Slurm says it"
	nothing_stays scancel
	endless "the time is up" limit_time
	said '\*\*\* JOB .* DUE TO TIME LIMIT' 1
	result $? "the time is up: Slurm says it"
	nothing_stays "the time is up"
}

need_module
slurm_installed || skip_all "Slurm is not installed: scripts/deps jobs"
need_file "$bin/librar_pmix"
need_file "$bin/mca_coll_rar.so"
plan 27
topo_up $ranks || skip_all "no network namespaces"
trap 'slurm_down; topo_exit' EXIT
slurm_up $ranks
up=$?
result $up "the cluster is up"
[ $up = 0 ] || { slurm_logs; finish; }
RAR_LIB=$dir/lib
mkdir "$RAR_LIB"
cp "$bin"/mca_coll_rar.so "$bin"/librar-openmpi.so "$RAR_LIB"
mpi_jobs
librar_jobs
job_cgroup
nothing_stays "jobs that have ended"
no_lock
no_family
no_library
nothing_stays "jobs that lacked something"
ended_jobs
torch_jobs
[ "$tap_failed" = 0 ] || slurm_logs
finish
