#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# paths_vms.sh KERNEL [OPS]: what a hop costs by each receive path between two guests with
# a CPU and a virtio-net device each, on a network of QEMU's: no offloads, one queue.
set -eu -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

rar_build "$1"		# once, before both want it
dir=$(mktemp -d "${TMPDIR:-/tmp}/paths-vms.XXXXXX")
port=$((20000 + RANDOM % 20000)) seed=$RANDOM vm=() failed=0
trap 'kill "${vm[@]}" 2> /dev/null || true; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
mkdir "$dir/out"
for guest in 0 1; do
	RAR_SEED=$seed "$RAR_TOP/scripts/vm" --kernel "$1" --module --cpus 1 --mem 1024 \
		--timeout 900 --net "$port,$guest" --out "$dir/out" \
		-- tools/bench/paths_vm.sh "$guest" "${@:2}" > "$dir/vm.$guest" 2>&1 &
	vm+=($!)
done
for guest in 0 1; do
	wait "${vm[guest]}" || { failed=1; cat "$dir/vm.$guest"; }
	echo "# guest $guest, virtio-net:"
	echo "# path     mtu   chunks   by_xdp%  on% ns/hop  hops/s/cpu"
	sed 's/^/# /' "$dir/out/table.$guest"
done
vm=()
exit $failed
