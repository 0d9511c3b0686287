#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Programs that people use, from Debian's packages, with four ranks. LAMMPS (molecules that move)
# and HPCC (a benchmark that checks its results) are for Open MPI; ScaLAPACK's test of QR
# factorizations is for both MPI libraries. Each program runs with MPI alone and with the
# preloaded library, LAMMPS also with the component of Open MPI. The results must be equal, and the
# module's counters say who did the work.
#
# With Open MPI each rank is on a host of its own: a network namespace. MPI's messages go by TCP
# between them. With MPICH all ranks are in one namespace: between several, and without the
# library, Debian's MPICH 4.0.2 may print all results and then not end.
#
#	mpi_programs.sh [PROGRAM...]		lammps, hpcc, scalapack; all by default
#	RAR_ROUNDS=5 mpi_programs.sh ...	larger problems, in turns by MPI, by the ring, and
#						with the library's defaults; medians
. "$(dirname "$0")/../lib/lib.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RAR_BENCH_NETNS=rar
export OMP_NUM_THREADS=1
rounds=${RAR_ROUNDS:-}
ranks=4
launch=$(readlink -f ../tools/bench/launch)
scalapack=/usr/lib/x86_64-linux-gnu/scalapack

# start WAY VARIABLE=VALUE... PROGRAM ARGUMENT...
start()
{
	local way=$1 hosts command

	shift
	hosts=$(for ((r = 1; r <= ranks; r++)); do echo -n ",10.77.0.$r"; done)
	case $way in
	openmpi | component) command=(mpirun.openmpi --mca plm rsh --mca plm_rsh_agent "$launch"
		--mca btl "tcp,self" --mca pml ob1 --mca op ^avx --mca mpi_yield_when_idle 1
		--host "${hosts:1}") ;;
	mpich) command=(mpiexec.mpich -launcher fork -genv MPIR_CVAR_POLLS_BEFORE_YIELD 1
		-genv RAR_MPI_ONE_HOST 1 -genv RAR_LOCAL 127.0.0.1) ;;
	esac
	rns 0 timeout 300 "${command[@]}" -n $ranks env "$@"
}

# ---------------------------------------------------------------- the programs
# NAME_input writes what the program NAME reads, NAME_command is its command, NAME_results prints
# from its output $out what must not depend on the way of the sums, NAME_seconds the time that the
# program itself has measured.

# shellcheck disable=SC2034 # through ${!name}
lammps_command="lmp -in in.melt -log none"
lammps_input()
{
	local steps=30 side=5

	[ -z "$rounds" ] || steps=400 side=8
	cat > in.melt <<-EOT
		units lj
		atom_style atomic
		lattice fcc 0.8442
		region box block 0 $side 0 $side 0 $side
		create_box 1 box
		create_atoms 1 box
		mass 1 1.0
		velocity all create 3.0 87287 loop geom
		pair_style lj/cut 2.5
		pair_coeff 1 1 1.0 1.0 2.5
		neighbor 0.3 bin
		neigh_modify every 20 delay 0 check no
		fix 1 all nve
		thermo 5
		run $steps
	EOT
}
lammps_results() { sed -n '/^Step/,/^Loop/{/^Loop/!p}' <<< "$out"; }
lammps_seconds() { sed -n 's/^Loop time of \([0-9.]*\).*/\1/p' <<< "$out"; }

# shellcheck disable=SC2034 # through ${!name}
hpcc_command=hpcc
hpcc_input()
{
	local size=128

	[ -z "$rounds" ] || size=1000
	sed -e "s/^1000 .*Ns/$size Ns/; s/^80 .*NBs/32 NBs/" \
		/usr/share/doc/hpcc/examples/_hpccinf.txt > hpccinf.txt
	grep -q "^$size Ns" hpccinf.txt && rm -f hpccoutf.txt
}
hpcc_results()
{
	sed -nE 's/^Found ([0-9]+ errors in [0-9]+ locations).*/\1/p
		s/^(Node\(s\) with error [0-9]+|Solution Validates|Success=.).*/\1/p
		s/^(WALL|CPU) .*(PASSED|FAILED).*/\1 \2/p
		s/.*\.\. (PASSED|FAILED)$/\1/p
		s/^ *([0-9]+ tests completed and .*)/\1/p' hpccoutf.txt
}
hpcc_seconds() { sed -n 's/^HPL_time=//p' hpccoutf.txt; }

# shellcheck disable=SC2034 # through ${!name}
scalapack_command=./xdqr
scalapack_input()
{
	local m=96 n=64

	[ -z "$rounds" ] || m=400 n=300
	ln -sf "$scalapack/$1-tests/xdqr" .
	printf '%s\n' "'QR'" "'MPI'" "'QR.out'" 6 2 "'QR' 'QP'" 1 "$m" "$n" 1 16 16 1 2 2 5.0 T > QR.dat
}
scalapack_results() { grep -oE '(PASSED|FAILED)|[0-9]+ tests .*' <<< "$out"; }
scalapack_seconds()
{
	awk '$1 == "WALL" { sum += $8 } END { printf "%.2f\n", sum }' <<< "$out"
}

# ---------------------------------------------------------------- the comparison

declare -A times alone	# alone: the results by MPI alone, by program and library
ops=0

# once NAME LIBRARY WAY: runs the program; the results are in $results, the operations of the
# module in $ops. LIBRARY is openmpi or mpich, for the preloaded library, or component.
once()
{
	local name=$1 library=$2 before words=$1_command on=()
	local with=("LD_PRELOAD=$RAR_BIN/librar-$library.so" RAR_MPI_STAT=1)

	[ "$library" != component ] ||
		with[0]=OMPI_MCA_mca_base_component_path=SYSTEM_DEFAULT:$RAR_BIN
	case $3 in
	ring) on=("${with[@]}" RAR_MPI_MIN=0 RAR_MPI_AFTER=1) ;;
	default) on=("${with[@]}") ;;
	esac
	before=$(total RarOpsDone)
	# shellcheck disable=SC2086 # words
	out=$("${name}_input" "$library" && start "$library" "${on[@]}" ${!words} 2>&1) || {
		quote "$out"
		return 1
	}
	results=$("${name}_results")
	ops=$(($(total RarOpsDone) - before))
	times[$3]+="$("${name}_seconds") "
}

# compare NAME LIBRARY
compare()
{
	local expected title="$1, $2"

	times=()
	cd "$(mktemp -d)" || return
	if [ "$2" = component ]; then	# the preload's turn was before
		expected=${alone["$1 openmpi"]}
	else
		once "$1" "$2" mpi && [ "$(wc -l <<< "$results")" -ge 4 ] && [ "$ops" = 0 ] &&
			! grep -qE 'FAILED|[1-9][0-9]* tests completed and failed|Success=0' <<< "$results"
		result $? "$title: by MPI alone"
		expected=$results
		alone["$1 $2"]=$expected
	fi
	once "$1" "$2" ring && [ "$results" = "$expected" ]
	result $? "$title: the same results with the library"
	[ "$results" = "$expected" ] || quote "$(diff <(echo "$expected") <(echo "$results"))"
	[ "$(said_ops)" -ge 100 ] && [ "$ops" -ge "$(said_ops)" ]
	result $? "$title: $ops operations of the module for $(said_ops) calls"
	[ -z "$rounds" ] || in_turns "$1" "$2"
	cd - > /dev/null || return
}

in_turns()	# NAME LIBRARY
{
	local i way bad=0

	times=()
	for ((i = 0; i < rounds; i++)); do
		for way in mpi ring default; do
			once "$1" "$2" $way && [ "$results" = "$expected" ] || bad=1
		done
	done
	result $bad "$1, $2: the same results in $rounds rounds"
	for way in mpi ring default; do
		note "$1 $2 $way: median $(xargs -n 1 <<< "${times[$way]}" | percentile 50) s of ${times[$way]}"
	done
}

need_module
need_file ../tools/bench/launch
programs=()
[ $# != 0 ] || set -- lammps hpcc scalapack
for name in "$@"; do
	case $name in
	lammps) command -v lmp > /dev/null && programs+=("lammps openmpi") &&
		[ -e "$RAR_BIN/mca_coll_rar.so" ] && programs+=("lammps component") ;;
	hpcc) command -v hpcc > /dev/null && programs+=("hpcc openmpi") ;;
	scalapack) for library in openmpi mpich; do
			[ -x $scalapack/$library-tests/xdqr ] && programs+=("scalapack $library")
		done ;;
	*) echo "Bail out! unknown program $name" && exit 2 ;;
	esac
done
{ [ ${#programs[@]} != 0 ] && [ -x "$RAR_BIN/librar-openmpi.so" ]; } ||
	skip_all "not installed: scripts/deps programs"
components=$(printf '%s\n' "${programs[@]}" | grep -c component)
plan $(((${rounds:+1} + 3) * ${#programs[@]} - components))
topo_up $ranks
for program in "${programs[@]}"; do
	# shellcheck disable=SC2086 # two words
	compare $program
done
finish
