#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# mpi_preload.sh: an MPI program with and without the preloaded library, with the stub instead of
# the module, for each MPI library that is installed, and with the component for Open MPI. A killed
# rank has a name; what cannot work is said once, and MPI does the work. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit
. selftests/host/tap.sh
lib=$PWD/build/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RAR_STUB=1 RAR_LOCAL=127.0.0.1

# The variables of a rank that uses the component in build/lib.
component="OMPI_MCA_mca_base_component_path=SYSTEM_DEFAULT:$lib"

# use WAY: WAY is openmpi or mpich for the preloaded library, or component
use()
{
	way=$1 mpi=$1 with=("LD_PRELOAD=$lib/librar-$1.so")
	[ "$way" != component ] || mpi=openmpi with=("$component")
	with+=(RAR_MPI_ONE_HOST=1 RAR_MPI_STAT=1)
}

# run RANKS VARIABLE=VALUE... PROGRAM ARGUMENT...: the output is in $out
run()
{
	local n=$1 command

	shift
	case $mpi in
	openmpi) command=(mpirun.openmpi --oversubscribe --mca plm isolated --mca btl "self,vader"
		--mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1) ;;
	mpich) command=(mpiexec.mpich -launcher fork -genv MPIR_CVAR_POLLS_BEFORE_YIELD 1) ;;
	esac
	out=$(timeout 100 "${command[@]}" -n "$n" env "$@" 2>&1)
}

# run_killed RANKS VARIABLE=VALUE... PROGRAM ARGUMENT: one of the ranks is killed. The launcher would
# then end the others at once, so a shell outlives each rank until all ranks have ended.
run_killed()
{
	local n=$1 ended

	ended=$(mktemp)
	shift
	# shellcheck disable=SC2016 # for the shell of each rank
	run "$n" ENDED="$ended" RANKS="$n" "${@:1:$#-2}" sh -c '"$@"; echo >> "$ENDED"
		while [ "$(wc -l < "$ENDED")" -lt "$RANKS" ]; do sleep .1; done' - "${@: -2}"
	rm "$ended"
}

# said PATTERN TIMES
said() { [ "$(grep -c "$1" <<< "$out")" = "$2" ]; }
right() { grep -qx "$1 ranks: 0 bad" <<< "$out"; }
works() { said "rank 0: ${1:-allreduce}: [1-9][0-9]* by the ring, ${2:-[0-9]*} by MPI" 1; }
falls_back() { said "$1: MPI's own collectives are used" 1 && ! works; }

tests_of()
{
	local program=$lib/mpi_calls.$mpi on=("${with[@]}" RAR_MPI_MIN=0 RAR_MPI_AFTER=1)

	if [ "$way" = "$mpi" ]; then
		run 3 "$program" short
		right 3
		result $? "$mpi: without the library"
	fi
	run 3 "${on[@]}" "$program" types
	right 3 && works && said 'rank 0: bcast: [1-9][0-9]* by the ring' 1
	result $? "$way: by the ring"
	run 3 "${on[@]}" RAR_MPI_MIN=allreduce=40000 RAR_MPI_AFTER=3 "$program" short
	right 3 && works && said 'rank 0: bcast: 0 by the ring' 1
	result $? "$way: some calls by the ring, others by MPI"
	run_killed 3 "${on[@]}" "$program" die
	grep -q 'librar-mpi: rank [01]: rank 2 .*died' <<< "$out"
	result $? "$way: the error names the killed rank"
	run 2 "${on[@]}" RAR_STUB=0 "$program" few
	right 2 && falls_back "no AF_RAR here.*"
	result $? "$way: no module: said once, and MPI does the work"
	# shellcheck disable=SC2016 # for the shell of each rank
	run 2 "${on[@]}" sh -c 'RAR_MPI_MIN=${PMI_RANK-$OMPI_COMM_WORLD_RANK} exec "$@"' - \
		"$program" few
	right 2 && falls_back "the variables RAR_MPI_\* are not equal on all ranks"
	result $? "$way: other limits on each rank: said once, and MPI does the work"
	run 2 "${on[@]}" RAR_MPI_MIN=many "$program" few
	right 2 && falls_back "RAR_MPI_MIN is not BYTES.*"
	result $? "$way: a limit is no number: said once, and MPI does the work"
}

# Non-blocking calls. A component cannot make a ring for them alone.
started_of()
{
	local program=$lib/mpi_icalls.$mpi call after=0 on=("${with[@]}" RAR_MPI_MIN=0)

	if [ "$way" = "$mpi" ]; then
		run 3 "$program"
		right 3
		result $? "$mpi, non-blocking: without the library"
		run 3 "${on[@]}" RAR_MPI_AFTER=0 RAR_MPI_MIN=iallreduce=0 "$program" new
		right 3 && works iallreduce 0
		result $? "$mpi, non-blocking: rings of new communicators"
		run 2 "${on[@]}" RAR_MPI_AFTER=1 "$lib/mpi_told.$mpi"
		right 2 && works iallreduce 0
		result $? "$mpi, non-blocking: a wait ends when the MPI library knows, not before"
	else
		after=1
	fi
	run 2 "${on[@]}" RAR_MPI_AFTER=1 "$lib/mpi_freed.$mpi"
	right 2 && works iallreduce 0
	result $? "$way, non-blocking: a ring stays until all threads are done with it"
	run 2 "${on[@]}" RAR_MPI_AFTER=1 "$lib/mpi_freed.$mpi" broken && right 2 &&
		said 'rank 1: an argument is not valid' 2 && said 'no error' 0
	result $? "$way: a rank fails while another frees the communicator, or ends: none waits"
	for call in all "all single"; do
		# shellcheck disable=SC2086 # two words
		run 3 "${on[@]}" RAR_MPI_AFTER=$after "$program" $call
		right 3 && works iallreduce 0 && works ireduce 0 && works ibcast 0 &&
			works iallgather 0 && works ireduce_scatter_block 0 && works ibarrier 0
		result $? "$way, non-blocking, $call: by the ring"
	done
	run 3 "${on[@]}" RAR_MPI_AFTER=$after RAR_MPI_MIN=iallreduce=8000,ibarrier=0,barrier=0 \
		RAR_DEBUG=1 "$program" few
	right 3 && works iallreduce '[1-9][0-9]*' && works ibarrier 0 &&
		said 'rank 0: ibcast: 0 by the ring' 1 &&
		said 'iallreduce of 4 bytes by MPI: below RAR_MPI_MIN' 3 &&
		said 'iallreduce of 160000 bytes by the ring' 3 &&
		said 'ibcast of 4 bytes by MPI: switched off' 3
	result $? "$way, non-blocking: some calls by the ring, others by MPI, each says why"
	run 3 "${on[@]}" RAR_MPI_AFTER=3 RAR_MPI_MIN=iallreduce=0 "$program" due
	right 3 && works iallreduce 5 && said 'rank 0: iallreduce: 5 by' 1
	result $? "$way, non-blocking: the next blocking call makes the ring"
	run_killed 3 "${on[@]}" RAR_MPI_AFTER=1 "$program" die
	grep -q 'librar-mpi: rank [01]: rank 2 .*died' <<< "$out" && said 'rank [01]: the wait failed' 2
	result $? "$way, non-blocking: the error names the killed rank, and the waits fail"
}

# mpi4py of Debian is for Open MPI.
python_of()
{
	if ! /usr/bin/python3 -c 'import mpi4py' 2> /dev/null; then
		result 0 "$way: mpi4py # SKIP not installed: scripts/deps mpi"
		return
	fi
	run 3 "${with[@]}" RAR_MPI_MIN=0 RAR_MPI_AFTER=1 /usr/bin/python3 selftests/sums/mpi_py.py
	right 3 && works iallreduce 0 && works ibcast 0
	result $? "$way: mpi4py: non-blocking calls by the ring"
}

# What only the component can do, and how it goes with others.
component_of()
{
	local home=$lib/home program=$lib/mpi_calls.openmpi on=(RAR_MPI_MIN=0 RAR_MPI_AFTER=1)

	out=$(mpifort.openmpi -O1 -g -o "$lib/mpi_fortran" selftests/sums/mpi_fortran.f90 2>&1) &&
		run 3 "${with[@]}" "${on[@]}" "$lib/mpi_fortran"
	right 3 && works && works iallreduce 0 && works bcast 0
	result $? "component: a Fortran program"
	mkdir -p "$home/.openmpi/components"
	cp "$lib/mca_coll_rar.so" "$home/.openmpi/components/"
	run 2 -u "${component%=*}" HOME="$home" "${with[@]:1}" "${on[@]}" "$program" few
	right 2 && works && run 2 HOME="$home" "${component%=*}=SYSTEM_DEFAULT:USER_DEFAULT" \
		"${with[@]:1}" "${on[@]}" "$program" few && right 2 && works
	result $? "component: found in the home directory"
	run 2 "$component" RAR_MPI_STAT=1 "${on[@]}" "$program" few
	right 2 && ! grep -q librar-mpi <<< "$out"
	result $? "component: all ranks on one host: not used, nothing is said"
	# shellcheck disable=SC2016 # for the shell of each rank
	run 3 "${with[@]}" "${on[@]}" sh -c '[ "$OMPI_COMM_WORLD_RANK" != 2 ] ||
		export OMPI_MCA_coll=^rar; exec "$@"' - "$program" few
	right 3 && falls_back "rank 2: it lacks this version of the component coll/rar"
	result $? "component: a rank lacks it: said once, and MPI does the work"
	# With RAR_MPI_AFTER=0 only the preloaded library makes a ring for these calls.
	run 3 "LD_PRELOAD=$lib/librar-openmpi.so" "${with[@]}" RAR_MPI_MIN=iallreduce=0 \
		RAR_MPI_AFTER=0 "$lib/mpi_icalls.openmpi" new
	right 3 && works iallreduce 0 && said 'rank 0: iallreduce' 1
	result $? "component: beside the preloaded library, which does the work"
}

mpis=()
for mpi in openmpi mpich; do
	! command -v "mpicc.$mpi" > /dev/null || mpis+=("$mpi")
done
if [ ${#mpis[@]} = 0 ]; then
	echo "1..0 # SKIP no MPI library is installed: scripts/deps mpi"
	exit 4
fi
echo "TAP version 13"
out=$(make_lib -C lib/mpi all)
result $? "build"
for mpi in "${mpis[@]}"; do
	out=$(for program in mpi_calls mpi_icalls mpi_told mpi_freed; do
		"mpicc.$mpi" -O1 -g -std=gnu11 -Wall -Wextra -pthread -o "$lib/$program.$mpi" \
			selftests/sums/$program.c 2>&1 || exit
	done)
	result $? "build for $mpi"
	use "$mpi"
	tests_of
	started_of
	[ "$mpi" != openmpi ] || python_of
done
if [ -e "$lib/mca_coll_rar.so" ]; then
	use component
	tests_of
	started_of
	python_of
	component_of
else
	result 0 "component # SKIP no headers of Open MPI 4.1 or 5.0: scripts/deps mpi"
fi
echo "1..$nr"
exit $failed
