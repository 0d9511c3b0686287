#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# torch.sh: the backend of PyTorch with the stub instead of the module: all collectives, a real
# training with and without it, failures, going on after one, and what is said where there is no
# ring. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit
. selftests/host/tap.sh
. selftests/lib/torch.sh
export RAR_STUB=1 RAR_LOCAL=127.0.0.1 GLOO_SOCKET_IFNAME=lo

# failures MODE SEEN: ranks of three that see a failure
failures()
{
	calls 3 "$1"
	all_right "$2"
	result $? "$3"
}

no_ring()
{
	calls 2 few RAR_STUB=0
	all_right 2 && [ "$(grep -c "rank 0: group 0: rank 0: no AF_RAR here.*gloo does all" <<< "$out")" = 1 ]
	result $? "no module: said once, and gloo takes over"
	calls 2 few RAR_STUB=0 RAR_TORCH_FALLBACK=error
	[ "$(grep -c "RarError: rar: group 0: rank 0: no AF_RAR here" <<< "$out")" = 2 ]
	result $? "no module, RAR_TORCH_FALLBACK=error: an error at all ranks"
	calls 2 few RAR_LIBRARY=/nowhere
	all_right 2 && grep -q "librar is not here.*gloo does all" <<< "$out"
	result $? "no librar: said, and gloo takes over"
}

# A program that makes two ranks itself, by each method of multiprocessing.
makes_ranks()
{
	local method

	for method in spawn forkserver fork; do
		store_nr=$((store_nr + 1))
		ranks 1 RAR_TORCH_STAT=1 -m rar_torch \
			selftests/lib/torch_spawn.py 2 "$files/store.$store_nr" $method
		[ "$(grep -c '^rank [01]: sum \[3.0, 3.0, 3.0\]$' <<< "$out")" = 2 ] &&
			[ "$(grep -c ': allreduce: 1 by the ring, 0 by gloo$' <<< "$out")" = 2 ]
		result $? "ranks that a program makes by $method go by the ring"
	done
}

# shard N [OPTION-OF-PYTHON...]: what trains in shards, in several ways
shard()
{
	local n=$1

	shift
	ranks "$n" RAR_TORCH_STAT=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) \
		"$@" selftests/lib/torch_sharded.py ddp zero fsdp fully_shard hybrid tensor
}

# What works with gloo works with the ring, and goes by it.
sharded()
{
	local gloo way

	if ! "$torch" -c 'import sys, torch; sys.exit(torch.__version__ < "2")'; then
		leave_out "shards" "PyTorch is older than 2"
		return
	fi
	shard 4
	gloo=$out
	shard 4 -m rar_torch
	for way in ddp zero fsdp fully_shard hybrid tensor; do
		if [ "$(grep -c ": $way: right\$" <<< "$gloo")" = 4 ]; then
			[ "$(grep -c ": $way: right\$" <<< "$out")" = 4 ]
			result $? "$way: the parameters that one process finds"
		else
			leave_out "$way" "nor with gloo: $(sed -n "s/^rank 0: $way: //p" <<< "$gloo")"
		fi
	done
	[ "$(grep -cE 'rank [0-9]: _(allgather|reduce_scatter)_base: [1-9][0-9]* by the ring, 0 by gloo$' \
		<<< "$out")" = 8 ]
	result $? "shards are gathered, and gradients scattered, by the ring"
}

find_torch || { echo "1..0 # SKIP PyTorch is not installed: scripts/deps torch"; exit 4; }
echo "TAP version 13"
out=$(make_lib lib)
result $? "build"
start_server
digits > "$files/digits.csv"
for n in 2 3; do
	calls $n calls
	all_right $n
	result $? "$n ranks: all collectives"
done
failures die 2 "the error names the killed rank"
failures hang 3 "the error names a rank that does not take part"
failures late 2 "the error names a rank that does not come"
no_ring
makes_ranks
train 2 "" --epochs 2
gloo=$(weights)
train 2 "-m rar_torch" --epochs 2
[ -n "$gloo" ] && [ "$(weights)" = "$gloo" ] && by_ring
result $? "2 ranks: the weights of a training are those of gloo"
train 2 "" --epochs 2 --hook average
[ -n "$gloo" ] && [ "$(weights)" = "$gloo" ]
result $? "2 ranks: so they are with the hook"
train 2 "" --epochs 2 --hook bf16
[ -n "$(weights)" ] && [ "$(weights)" != "$gloo" ] && learned
result $? "2 ranks: the hook with bfloat16 learns, with other weights"
sharded
recovery
result $? "a rank is killed, and the others go on"
stop_server
echo "1..$nr"
exit $failed
