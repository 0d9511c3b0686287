#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Are the duplicates really rejected by the claim of a chunk? duplicates.sh must fail on a
# module whose claim always succeeds. scripts/test builds it and names it in
# RAR_MUTANT_KO.
. "$(dirname "$0")/../lib/lib.sh"

# shellcheck disable=SC2317 # called by the trap
good_module()
{
	[ ! -e /proc/net/rar ] || module_unload
	modprobe rar
}

mutant()
{
	module_unload && insmod "$RAR_MUTANT_KO"
}

need_module
[ -n "$RAR_MUTANT_KO" ] || skip_all "no mutant was built (RAR_MUTANT_KO)"
plan 2
trap good_module EXIT
mutant
result $? "the mutant is loaded"
out=$(sums/duplicates.sh)
status=$?
quote "$out"
[ $status = 1 ] && grep -q '^# op .* element .* is .*, not ' <<< "$out"
result $? "duplicates.sh finds wrong sums on it"
finish
