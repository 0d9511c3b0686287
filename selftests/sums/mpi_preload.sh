#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The preloaded library for MPI on the module, and the component for Open MPI: an MPI program whose
# ranks are in one network namespace, and in one each. The module's counters say who did the work.
# See mpi_calls.c.
. "$(dirname "$0")/../lib/lib.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=3

# use WAY: WAY is openmpi or mpich for the preloaded library, or component. To the component the
# ranks are on one host, which are started there, also if they go to namespaces of their own.
use()
{
	way=$1 library=$1 with=("LD_PRELOAD=$RAR_BIN/librar-$1.so") apart=(RAR_NETNS=rar)
	if [ "$way" = component ]; then
		library=openmpi apart+=(RAR_MPI_ONE_HOST=1)
		with=("OMPI_MCA_mca_base_component_path=SYSTEM_DEFAULT:$RAR_BIN")
	fi
}

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
	rns 0 timeout 300 "${command[@]}" -n "$n" env "${with[@]}" RAR_MPI_AFTER=1 RAR_MPI_STAT=1 "$@"
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
	check "$way, a rank comes late" mpi $ranks RAR_MPI_MIN=0 "${apart[@]}" \
		"mpi_calls.$library" late
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$(said_ops)" -ge $((2 * ranks)) ]
	result $? "$way, a rank comes late: the others wait for it"
}

# calls_by NAME: the fewest calls NAME of a rank that went by the ring
calls_by() { sed -n "s/.*: $1: \([0-9]*\) by the ring.*/\1/p" <<< "$out" | sort -n | head -n 1; }

# Where each rank is on a host of its own, short calls go by doubling, with no word of the user.
by_default()
{
	local before call

	before=$(total RarTxDirect)
	check "$way, without variables, a namespace each: results" mpi $ranks "${apart[@]}" \
		RAR_LOCAL=10.77.0.0/24 "mpi_calls.$library" brief
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$(calls_by barrier)" -ge 15 ] &&
		[ $(($(total RarTxDirect) - before)) -ge $((ranks * 165)) ]
	result $? "$way, a namespace each: results in few hops"
	# A reduce-scatter of three ranks has as many hops by the ring.
	for call in allreduce allgather bcast reduce; do
		[ "$(calls_by $call)" -ge 150 ]
		result $? "$way, a namespace each: $(calls_by $call) calls $call of a few bytes"
	done
}

# Short calls, and those of one host, stay with MPI.
by_mpi()
{
	local before

	before=$(total RarOpsDone)
	check "$way, without variables: results" mpi $ranks "mpi_calls.$library" few
	[[ $out == *"$ranks ranks: 0 bad"* ]] && [ "$(total RarOpsDone)" = "$before" ]
	result $? "$way, without variables: no operation of the module on one host"
}

# Non-blocking calls
started()
{
	by_ring "$1" "${@:2}" "mpi_icalls.$library" all
	[ "$(grep -c 'rank [0-9]: i[a-z_]*: [1-9][0-9]* by the ring, 0 by MPI' <<< "$out")" = \
		$((6 * ranks)) ]
	result $? "$1: each call by the ring only"
}

# The component tells the MPI library by other means; see mpi_told.c.
threads()
{
	check "$way, a wait ends when the MPI library knows, not before" mpi 2 RAR_MPI_MIN=0 \
		RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 "mpi_told.$library"
}

# The ring of a communicator that is freed; see mpi_freed.c.
freed()
{
	check "$way, a ring stays until all threads are done with it" mpi 2 RAR_MPI_MIN=0 \
		RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 "mpi_freed.$library"
	check "$way, a rank fails while another frees the communicator: none waits" mpi 2 \
		RAR_MPI_MIN=0 RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 "mpi_freed.$library" broken
}

# mpi4py of Debian is for Open MPI.
python()
{
	if /usr/bin/python3 -c 'import mpi4py' 2> /dev/null; then
		by_ring "$way, mpi4py" RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 \
			/usr/bin/python3 sums/mpi_py.py
	else
		skip "$way, mpi4py: results" "not installed: scripts/deps mpi"
		skip "$way, mpi4py: operations of the module" "not installed: scripts/deps mpi"
	fi
}

# The launcher ends the other ranks as soon as a child of it is killed: a shell is its child.
# shellcheck disable=SC2016 # for the shell of each rank
one_dies()
{
	out=$(mpi $ranks RAR_MPI_MIN=0 "${apart[@]}" sh -c '"$@"; sleep 2' - \
		"$1.$library" die 2>&1)
	quote "$out"
	grep -q 'librar-mpi: rank [01]: rank 2 (10.77.0.3) died' <<< "$out" &&
		! grep -q 'the wait returned no error' <<< "$out"
	result $? "$way, $1, rank 2 is killed: the error names it"
}

# shellcheck disable=SC2016 # for the shell of each rank
no_lock()
{
	check "$way, no memory may be locked" mpi $ranks RAR_MPI_MIN=0 RAR_MPI_ONE_HOST=1 \
		setpriv --bounding-set=-ipc_lock sh -c 'ulimit -l 0 && exec "$@"' - \
		"mpi_calls.$library" few
	[[ $out == *"$ranks ranks: 0 bad"* ]] &&
		[ "$(grep -c 'it may lock 0 KiB.*own collectives are used' <<< "$out")" = 1 ]
	result $? "$way, no memory may be locked: said once, and MPI does the work"
}

# A rank without the preloaded library is missed, and named.
# shellcheck disable=SC2016 # for the shell of each rank
one_lacks()
{
	out=$(mpi $ranks sh -c '[ "${OMPI_COMM_WORLD_RANK-}${PMI_RANK-}" != 2 ] || unset LD_PRELOAD
		exec "$@"' - "mpi_calls.$library" few 2>&1 || echo "status $?")
	grep -q '^status' <<< "$out" && [ "$(grep -c 'librar-mpi: rank' <<< "$out")" = 1 ] &&
		grep -q 'librar-mpi: rank 2 is without this library' <<< "$out"
	result $? "$way, rank 2 lacks it: said once, and the program ends"
}

need_module
declare -A cases=([openmpi]=30 [mpich]=28 [component]=28)
ways=() planned=0
[ ! -e "$RAR_BIN/librar-openmpi.so" ] || ways+=(openmpi)
[ ! -e "$RAR_BIN/librar-mpich.so" ] || ways+=(mpich)
[ ! -e "$RAR_BIN/mca_coll_rar.so" ] || ways+=(component)
[ ${#ways[@]} != 0 ] || skip_all "no MPI library is installed: scripts/deps mpi"
for way in "${ways[@]}"; do
	planned=$((planned + cases[$way]))
done
plan $planned
topo_up $ranks
for way in "${ways[@]}"; do
	use "$way"
	by_ring "$way, one namespace" RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1 \
		"mpi_calls.$library" short
	by_ring "$way, a namespace each" "${apart[@]}" RAR_LOCAL=10.77.0.0/24 \
		"mpi_calls.$library" short
	started "$way, non-blocking, one namespace" RAR_MPI_ONE_HOST=1 RAR_LOCAL=127.0.0.1
	started "$way, non-blocking, a namespace each" "${apart[@]}" RAR_LOCAL=10.77.0.0/24
	[ "$library" != openmpi ] || python
	[ "$way" = component ] || { threads; one_lacks; }
	freed
	by_default
	by_mpi
	one_is_late
	one_dies mpi_calls
	one_dies mpi_icalls
	no_lock
done
finish
