#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Results compared with those of Debian's MPI libraries, with 2, 3 and 5 ranks; see
# mpi_oracle.c.
. "$(dirname "$0")/../lib/lib.sh"

need_module

# Sets $run: what starts a number of ranks on this machine.
run_of()
{
	case $1 in
	mpich) run=(mpiexec.mpich -launcher fork -genv MPIR_CVAR_POLLS_BEFORE_YIELD 1 -n) ;;
	openmpi) run=(mpirun.openmpi --allow-run-as-root --oversubscribe --mca plm isolated
		--mca btl "self,vader" --mca btl_vader_single_copy_mechanism none
		--mca op ^avx --mca mpi_yield_when_idle 1 -n) ;;
	esac
}

plan 6
for library in mpich openmpi; do
	program=$(command -v "mpi_oracle.$library" || true)
	run_of $library
	for n in 2 3 5; do
		if [ -n "$program" ]; then
			check "$library, $n ranks" timeout 250 \
				unshare -n sh -c 'ip link set lo up && exec "$@"' - "${run[@]}" $n "$program"
		else
			skip "$library, $n ranks" "not installed: scripts/deps mpi"
		fi
	done
done
finish
