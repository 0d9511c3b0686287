#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# torch.sh RANKS ROUNDS DIGITS [ARGUMENT...]: the same training with gloo and with the ring, in
# turns, in a guest; each rank is in a network namespace. Arguments go to torch_digits.py.
#
# Prints the time of a step of each run, and the medians. Fails if the ranks of a run end with
# different weights, if the ring did not do the work, or if two ranks have other weights with the
# ring than with gloo.
. "$(dirname "$0")/../../selftests/lib/torch.sh"
. "$(dirname "$0")/../../selftests/lib/lib.sh"
cd .. || exit
n=$1 rounds=$2 digits=$3
shift 3

fail()
{
	echo "$out" >&2
	echo "torch: $*" >&2
	exit 1
}

# Prints the median of numbers.
median() { percentile 50; }

# run WAY OPTIONS-OF-PYTHON ARGUMENT...: a training; prints a line
run()
{
	local way=$1 before

	shift
	before=$(total RarOpsDone)
	train "$n" "$@"
	hash[$way]=$(weights)
	[ -n "${hash[$way]}" ] || fail "$way: the ranks have different weights, or a rank failed"
	step[$way]=$(sed -n 's/^done.* step_ms=//p' <<< "$out" | median)
	times[$way]+=" ${step[$way]}"
	printf '%-6s %6s %6s %9s  %-17s %8s %12s\n' "$way" "$n" "$(word steps)" "$(word accuracy)" \
		"${hash[$way]}" "${step[$way]}" $(($(total RarOpsDone) - before))
}

need_module
find_torch || fail "PyTorch is not installed: scripts/deps torch"
topo_up "$n" || fail "no network namespaces"
netns=rar master=10.77.0.1 settings=(RAR_LOCAL=10.77.0.0/24 GLOO_SOCKET_IFNAME=eth0) limit=1200
start_server
cp "$digits" "$files/digits.csv"
declare -A hash step times
printf '%-6s %6s %6s %9s  %-17s %8s %12s\n' way ranks steps accuracy weights ms/step "operations"
for ((round = 0; round < rounds; round++)); do
	run gloo "" "$@"
	run rar "-m rar_torch" "$@"
	by_ring || fail "the ring did not do the work"
	[ "$n" != 2 ] || [ "${hash[rar]}" = "${hash[gloo]}" ] || fail "rar and gloo differ"
done
gloo=$(tr ' ' '\n' <<< "${times[gloo]# }" | median)
rar=$(tr ' ' '\n' <<< "${times[rar]# }" | median)
same=$([ "${hash[rar]}" = "${hash[gloo]}" ] && echo yes || echo no)
echo "torch: ok ranks=$n rounds=$rounds gloo_ms=$gloo rar_ms=$rar same_as_gloo=$same" \
	"ratio=$(awk "BEGIN { printf \"%.2f\", $gloo / $rar }")"
stop_server
