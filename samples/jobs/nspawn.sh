#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# nspawn.sh ROOT NETNS DIR SIZE RANK: a rank of samples/librar in a container of systemd-nspawn, whose
# files are below ROOT, in the network namespace NETNS of "ip netns". All ranks see DIR.
exec systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --volatile=overlay \
	--directory="$1" --network-namespace-path="/run/netns/$2" --bind="$3:/cards" \
	librar /cards "$4" "$5"
