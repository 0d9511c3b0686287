#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The preloaded library for MPI on the module: an MPI program whose ranks are in one network
# namespace, and in one each. The module's counters say who did the work. See mpi_calls.c.
. "$(dirname "$0")/../lib/lib.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=3

# mpi RANKS VARIABLE=VALUE... PROGRAM ARGUMENT...: in the namespace rar0
mpi()
{
	local n=$1 command

	shift
	case $library in
	mpich) command=(mpiexec.mpich -launcher fork -genv MPIR_CVAR_POLLS_BEFORE_YIELD 1) ;;
	openmpi) command=(mpirun.openmpi --oversubscribe --mca plm isolated --mca btl "self,vader"
		--mca btl_vader_single_copy_mechanism none --mca op ^avx
		--mca mpi_yield_when_idle 1) ;;
	esac
	rns 0 timeout 100 "${command[@]}" -n "$n" env "LD_PRELOAD=$RAR_BIN/librar-$library.so" \
		RAR_MPI_AFTER=1 RAR_MPI_STAT=1 "$@"
}

# by_ring NAME VARIABLE=VALUE... PROGRAM: results are right, and the module did the work
by_ring()
{
	local name=$1 before ops said

	shift
	before=$(total RarOpsDone)
	check "$name: results" mpi $ranks RAR_MPI_MIN=0 "$@"
	ops=$(($(total RarOpsDone) - before)) said=$(said_ops)
	# A long call is several operations.
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$said" -gt 100 ] && [ "$ops" -ge "$said" ]
	result $? "$name: $ops operations of the module for $said calls"
}

# A rank that has its result stays until all have theirs, however late they come.
one_is_late()
{
	check "$library, a rank comes late" mpi $ranks RAR_MPI_MIN=0 RAR_NETNS=rar \
		"mpi_calls.$library" late
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$(said_ops)" -ge $((2 * ranks)) ]
	result $? "$library, a rank comes late: the others wait for it"
}

# Short calls, and those of one host, stay with MPI.
by_mpi()
{
	local before

	before=$(total RarOpsDone)
	check "$library, without variables: results" mpi $ranks "mpi_calls.$library" few
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$(total RarOpsDone)" = "$before" ]
	result $? "$library, without variables: no operation of the module on one host"
}

# Non-blocking calls
started()
{
	by_ring "$1" "${@:2}" "mpi_icalls.$library" all
	[ "$(grep -c 'rank [0-9]: i[a-z_]*: [1-9][0-9]* by the ring, 0 by MPI' <<< "$out")" = \
		$((6 * ranks)) ]
	result $? "$1: each call by the ring only"
}

# mpi4py of Debian is for Open MPI.
python()
{
	if /usr/bin/python3 -c 'import mpi4py' 2> /dev/null; then
		by_ring mpi4py RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 \
			/usr/bin/python3 sums/mpi_py.py
	else
		skip "mpi4py: results" "not installed: scripts/deps mpi"
		skip "mpi4py: operations of the module" "not installed: scripts/deps mpi"
	fi
}

# The launcher ends the other ranks as soon as a child of it is killed: a shell is its child.
# shellcheck disable=SC2016 # for the shell of each rank
one_dies()
{
	out=$(mpi $ranks RAR_MPI_MIN=0 RAR_NETNS=rar sh -c '"$@"; sleep 2' - \
		"$1.$library" die 2>&1)
	quote "$out"
	grep -q 'librar-mpi: rank [01]: rank 2 (10.77.0.3) died' <<< "$out" &&
		! grep -q 'the wait returned no error' <<< "$out"
	result $? "$library, $1, rank 2 is killed: the error names it"
}

# shellcheck disable=SC2016 # for the shell of each rank
no_lock()
{
	check "$library, no memory may be locked" mpi $ranks RAR_MPI_MIN=0 RAR_MPI_ONE_HOST=1 \
		setpriv --bounding-set=-ipc_lock sh -c 'ulimit -l 0 && exec "$@"' - \
		"mpi_calls.$library" few
	[[ $out == *"$ranks ranks: 0 bad"* ]] &&
		[ "$(grep -c 'it may lock 0 KiB.*own collectives are used' <<< "$out")" = 1 ]
	result $? "$library, no memory may be locked: said once, and MPI does the work"
}

need_module
libraries=()
for library in openmpi mpich; do
	[ ! -x "$RAR_BIN/mpi_calls.$library" ] || libraries+=("$library")
done
[ ${#libraries[@]} != 0 ] || skip_all "no MPI library is installed: scripts/deps mpi"
plan $((18 * ${#libraries[@]} + ($(grep -c openmpi <<< "${libraries[*]}") ? 2 : 0)))
topo_up $ranks
for library in "${libraries[@]}"; do
	by_ring "$library, one namespace" RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 \
		"mpi_calls.$library" short
	by_ring "$library, a namespace each" RAR_NETNS=rar RAR_LOCAL=10.77.0.0/24 \
		"mpi_calls.$library" short
	started "$library, non-blocking, one namespace" RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1
	started "$library, non-blocking, a namespace each" RAR_NETNS=rar RAR_LOCAL=10.77.0.0/24
	[ "$library" != openmpi ] || python
	by_mpi
	one_is_late
	one_dies mpi_calls
	one_dies mpi_icalls
	no_lock
done
finish
