#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# gpu_report.sh: scripts/gpu-report without a GPU: what it says is missing, what it would run, and its
# report of runs of programs that only print what NVIDIA's print. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit
. selftests/host/tap.sh
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
bin=$dir/bin state=$dir/state
mkdir -p "$bin" "$state" "$dir/proc/net" "$dir/tmp"
unset "${!NCCL_@}" "${!RAR_@}"

fake()	# PROGRAM: on stdin
{
	{ echo '#!/bin/bash'; cat; } > "$bin/$1"
	chmod +x "$bin/$1"
}

# Programs of the hosts, all of which are this one. "nowhere" is down.
make_host()
{
	fake ssh <<- 'EOF'
	while [[ $1 == -* ]]; do shift 2; done
	[ "$1" != nowhere ] || { echo "ssh: no route to nowhere" >&2; exit 255; }
	bash -c "$2"
	EOF
	fake nvidia-smi <<- 'EOF'
	case $1 in
	-L) echo "GPU 0: NVIDIA H100"; echo "GPU 1: NVIDIA H100" ;;
	*) echo "NVIDIA H100, 560.1, 80000 MiB"; echo "NVIDIA H100, 560.1, 80000 MiB" ;;
	esac
	EOF
	fake ldconfig < /dev/null
	fake python3 <<< 'exit 1'
	# shellcheck disable=SC2016 # for the program
	fake ldd <<< 'cat "$1.libraries"'
	fake mpirun <<- 'EOF'
	[ "$1" != --version ] || { cat "$STATE/mpi"; exit; }
	echo "$*" >> "$STATE/runs"
	while [ "$1" != env ]; do shift; done
	exec "$@"
	EOF
	echo "mpirun (Open MPI) 5.0.7" > "$state/mpi"
	echo "NCCL version 2.30.7+cuda12.9" > "$dir/libnccl.so.2"
	echo "ncclNetPlugin_v12 ncclNetPlugin_v8 ncclTunerPlugin_v6" > "$dir/libnccl-net-rar.so"
	echo "family 22" > "$dir/proc/net/rar"
	echo "libmpi.so.40 => /usr/lib/libmpi.so.40" > "$bin/all_reduce_perf.libraries"
	count 0
}

# The module's counters are N.
count() { printf 'RarExt: OpsDone RxBytes TxRetrans\nRarExt: %s 5 0\n' "$1" > "$dir/proc/net/rar_netstat"; }

# A test of NCCL: the time is of the way, and longer in the second round. With CollNet the module counts.
make_perf()
{
	fake all_reduce_perf <<- 'EOF'
	way=$NCCL_NET_PLUGIN/$NCCL_COLLNET_ENABLE/${NCCL_TUNER_PLUGIN-default}
	case $way in
	none/0/none) t=100 ;;
	rar/0/none) t=200 ; echo "h:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin rar (v12)" ;;
	rar/1/none) t=90 ;;
	rar/1/default)
		t=50
		echo "h:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin rar (v12)"
		echo "h:1:2 [0] NCCL INFO NET/Plugin: Loaded collnet plugin rar (v12)"
		echo "h:1:2 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/rar/0"
		echo "h:1:2 [0] NCCL INFO NET/rar: all-reduces go by CollNet, from 0 bytes on"
		sed -i 's/RarExt: 0 /RarExt: 40 /' "$PROC/net/rar_netstat" ;;
	*) echo "way $way"; exit 1 ;;
	esac
	[ "$(wc -l < "$STATE/runs")" -le 4 ] || t=$((t + 1))
	[ "$(cat "$STATE/fails" 2> /dev/null)" != "$way" ] || {
		echo "h:1:2 [0] misc.cc:50 NCCL WARN Cuda failure 'out of memory'"
		exit 3
	}
	echo "#       size         count      type   redop    root     time   algbw   busbw #wrong"
	echo "        1024           256     float     sum      -1   $t.5    0.08    0.16      0    9.1  0.1  0.1      0"
	echo "     1048576        262144     float     sum      -1  $((t * 10))    0.08    0.16      0    9.1  0.1  0.1      ${WRONG:-0}"
	echo "# Avg bus bandwidth    : 1.23"
	EOF
}

# run VARIABLE=VALUE... ARGUMENT...: the script with these programs; the output is in $out
run()
{
	local status

	out=$(env PATH="$bin:$PATH" STATE="$state" PROC="$dir/proc" TMPDIR="$dir/tmp" NCCL="$dir/libnccl.so.2" \
		PLUGIN="$dir/libnccl-net-rar.so" PERF="$bin/all_reduce_perf" "$@" 2>&1)
	status=$?
	out+=$'\n'"status $status"
}

report() { rm -f "$state/runs"; run "$@" scripts/gpu-report node1 node2; }
says() { local text; for text; do grep -qE -- "$text" <<< "$out" || { out+=$'\n'"no: $text"; return 1; }; done; }
silent() { ! grep -qE -- "$1" <<< "$out"; }
verdict() { result $? "$1"; }

make_host
make_perf
echo "TAP version 13"

run scripts/gpu-report --check
says '^ok +GPU +2 x NVIDIA H100' '^ok +NCCL +NCCL version 2.30.7' '^ok +mpirun +mpirun .Open MPI' \
	'^ok +its versions +ncclNetPlugin_v8 ncclNetPlugin_v12|^ok +its versions .*v12' \
	'^ok +module +family 22' '^status 0' && silent MISSING
verdict "a host that has all"

rm "$bin/nvidia-smi"
fake nvidia-smi <<< 'exit 9'
run PROC=/nowhere NCCL=/nowhere PLUGIN=/nowhere PERF=/nowhere MPIRUN=nowhere scripts/gpu-report --check
says '^MISSING +GPU' '^MISSING +NCCL' '^MISSING +all_reduce_perf' '^MISSING +mpirun' '^MISSING +plugin' \
	'^MISSING +module .*modprobe rar' '^status 3'
verdict "a host that lacks all"

report
says '^MISSING +GPU' '^Nothing was measured' '^status 3' && [ ! -e "$state/runs" ]
verdict "nothing is run if something is missing"

make_host
echo "libc.so.6" > "$bin/all_reduce_perf.libraries"
report
says '^MISSING +all_reduce_perf +.* is built without MPI' '^Nothing was measured' && silent 'MISSING +GPU'
verdict "a test that is built without MPI"

make_host
run scripts/gpu-report node1 nowhere
says '^# host node1' '^MISSING +host +ssh nowhere' '^Nothing was measured'
verdict "a host that is down"

run GPUS=8 NCCL_IB_DISABLE=1 scripts/gpu-report --dry-run node1 node2
says '^nccl: mpirun -np 16 --host node1:8.*node2:8 ' ' NCCL_IB_DISABLE=1 NCCL_NET_PLUGIN=none ' \
	'^tuner: .* NCCL_NET_PLUGIN=rar NCCL_COLLNET_ENABLE=1 .*/all_reduce_perf -b 1K' '^status 0' &&
	silent '^tuner: .*NCCL_TUNER_PLUGIN' && [ ! -e "$state/runs" ]
verdict "what would be run, by Open MPI"

echo "HYDRA build details:" > "$state/mpi"
run GPUS=2 scripts/gpu-report --dry-run node1 node2
says '^collnet: mpirun -np 4 -hosts node1.*node2 -ppn 2 env '
verdict "what would be run, by MPICH"

make_host
report
says '^ +bytes +nccl +messages +collnet +tuner$' '^ +1024 +100.5 +200.5 +90.5 +50.5$' \
	'^ +1048576 +1000 +2000 +900 +500$' '^ +wrong +0 +0 +0 +0$' 'Please read this' '^status 0' &&
	[ "$(wc -l < "$state/runs")" = 8 ] && grep -q '^-np 4 --host node1:2,node2:2' "$state/runs"
verdict "times of four ways, in two rounds"

says '^messages, round 1: status 0' 'net plugin 1, collnet plugin 0, by CollNet 0' \
	'net plugin 1, collnet plugin 1, by CollNet 1, groups 0, tuned 1' 'module: OpsDone 80, TxRetrans 0'
verdict "what the log and the module's counters say"

count 0
report WRONG=7 ROUNDS=1
says '^ +wrong +7 +7 +7 +7$'
verdict "wrong sums"

echo rar/1/none > "$state/fails"
report
says '^ +1024 +100.5 +200.5 +- +50.5$' '^collnet, round 2: status 3' "NCCL WARN Cuda failure 'out of memory'" \
	'^status 0'
verdict "a way that fails"

run scripts/gpu-report node1
says '^gpu-report --check' '^status 2'
verdict "one host is not enough"

echo "1..$nr"
exit $failed
