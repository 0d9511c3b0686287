# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the tests of rar_torch: programs with PyTorch, of which each rank is a process.
# Sourced by scripts that run in the top directory: find_torch, start_server, ranks, stop_server.

# The PyTorch of Debian 13 has no libuv, and without this variable no program gets a store.
export USE_LIBUV=0
torch=
files=
netns=
settings=()
store_nr=0

# Find a Python with PyTorch; the first one in PATH may be another.
find_torch()
{
	for torch in python3 /usr/bin/python3; do
		"$torch" -c 'import importlib.util, sys
sys.exit(not importlib.util.find_spec("torch"))' 2> /dev/null && return
	done
	return 1
}

# Start the process that runs the ranks, which imports PyTorch once.
start_server()
{
	files=$(mktemp -d)
	coproc server { exec "$torch" selftests/lib/torch_server.py "$files" "${limit:-200}"; }
}

stop_server()
{
	local input=${server[1]}

	exec {input}>&-
	wait
	rm -r "$files"
}

# ranks N VARIABLE=VALUE... PROGRAM ARGUMENT...: "%r" is the rank; the output is in $out. The
# ranks are in the network namespaces that begin with $netns; in the first, if it ends in a dot.
# They all have the variables of $settings.
ranks()
{
	local n=$1 answer

	shift
	echo "$n ${netns:--} ${settings[*]} ${*@Q}" >&"${server[1]}"
	read -r answer <&"${server[0]}"
	[ "$answer" = end ] && out=$(cat "$files"/out.*)
}

# calls N MODE VARIABLE=VALUE...: torch_calls.py
calls()
{
	local n=$1 mode=$2

	shift 2
	store_nr=$((store_nr + 1))
	ranks "$n" "$@" selftests/lib/torch_calls.py "$mode" %r "$n" \
		"$files/store.$store_nr"
}

# all_right N: so many ranks say that nothing is bad
all_right() { [ "$(grep -cE '^rank [0-9]+: [0-9]+ checks, 0 bad$' <<< "$out")" = "$1" ]; }

# train N OPTIONS-OF-PYTHON ARGUMENT...: the training of samples/
train()
{
	local n=$1 options=$2

	shift 2
	# shellcheck disable=SC2086 # options
	ranks "$n" RAR_TORCH_STAT=1 "MASTER_ADDR=${master:-127.0.0.1}" \
		MASTER_PORT=$((20000 + RANDOM % 10000)) \
		$options samples/torch_digits.py "$files/digits.csv" "$@"
}

# Prints the weights, if all ranks have equal ones.
weights()
{
	local found

	found=$(sed -n 's/^done.* weights=\([^ ]*\).*/\1/p' <<< "$out" | sort -u)
	[ "$(wc -w <<< "$found")" != 1 ] || echo "$found"
}

# Prints the states of all ranks: weights and buffers.
states() { sed -n 's/^done.* rank=\([0-9]*\).* state=\([^ ]*\).*/\1 \2/p' <<< "$out" | sort; }

# Did the ring do all reductions and broadcasts?
by_ring()
{
	grep -q 'rank 0: allreduce: [1-9][0-9]* by the ring, 0 by gloo' <<< "$out" &&
		grep -q 'rank 0: broadcast: [1-9][0-9]* by the ring, 0 by gloo' <<< "$out"
}

# Is the accuracy better than 0.8?
learned() { grep -qE '^done.* accuracy=(0\.[89]|1\.)' <<< "$out"; }

# The last rank of four is killed. The others name it, go on with the step in which it died, and
# end with equal weights. Except for rounding, a training without a failure has the same.
recovery()
{
	local whole found

	store_nr=$((store_nr + 1))	# a store may outlive its ranks
	ranks 4 DIES_AT=-1 samples/torch_recover.py %r 4 "$files/whole.$store_nr" 30
	whole=$(sed -n 's/.* sum=\([^ ]*\)...... accuracy=.*/\1/p' <<< "$out" | sort -u)
	ranks 4 DIES_AT=12 samples/torch_recover.py %r 4 "$files/killed.$store_nr" 30
	found=$(sed -n 's/.*done ranks=3 .* sum=\([^ ]*\)...... accuracy=.*/\1/p' <<< "$out")
	[ "$(grep -c 'rank 3 .*died' <<< "$out")" = 3 ] &&
		[ "$(grep -c 'goes on with step 12$' <<< "$out")" = 3 ] &&
		[ "$(wc -w <<< "$found")" = 3 ] && [ "$(sort -u <<< "$found")" = "$whole" ]
}

# Prints 400 images of digits that are easy to tell apart, where the real ones are not at hand.
digits()
{
	awk 'BEGIN {
		srand(1)
		for (i = 0; i < 400; i++) {
			label = int(i / 5) % 10
			for (p = 0; p < 64; p++)
				printf "%d,", (p * (label + 3) % 11 < 4) * 10 + int(rand() * 6)
			print label
		}
	}'
}
