#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# keep.sh [KERNEL]: does scripts/vm --keep run the next command in the same guest? The options are
# such that no other user of the cache has this guest.
cd "$(dirname "$0")" || exit 1
. ../host/tap.sh
kernel=${1:-uml}
export RAR_KEEP_IDLE=5

# What it does first it may say, as that it waits for who builds the kernel.
vm()
{
	../../scripts/vm --kernel "$kernel" --mem 777 --keep "$@" 2>&1 | sed '/^# /d'
	return "${PIPESTATUS[0]}"
}
guests() { pgrep -fc -- "--kernel $kernel --mem 777 --stdin"; }

gone()
{
	local end=$((SECONDS + 60))

	while [ "$(guests)" != 0 ] && [ $SECONDS -lt $end ]; do sleep 0.5; done
	[ "$(guests)" = 0 ]
}

echo "TAP version 13"
out=$(vm -- sh -c 'echo to the reader; touch /run/mark')
[ "$out" = "to the reader" ]
result $? "a command runs, and what it prints comes back"
out=$(vm -- test -e /run/mark)
result $? "the next command finds what it left"
out=$(vm -- sh -c 'exit 3')
[ $? = 3 ]
result $? "its status is the command's"
out=$(RAR_WORD=heard vm -- printenv RAR_WORD)
[ "$out" = heard ]
result $? "variables named RAR_* are those of the caller"
out=$(vm --append rar_other=1 -- test ! -e /run/mark)
result $? "with other options there is another guest"
out=$(guests)
gone
result $? "guests end when no command has come for some time"
echo "1..$nr"
exit "$failed"
