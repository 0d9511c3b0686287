#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# in_topo.sh N program...: runs a program that needs the namespaces rar0 ...
# RAR_SUPER=1: without superpackets, for programs that look at single packets. RAR_NETWORK=NAME: two
# ranks, and this network of networks.sh instead of a bridge.
. "$(dirname "$0")/lib.sh"
# shellcheck source=networks.sh
. lib/networks.sh

need_module
if [ -n "${RAR_NETWORK-}" ]; then net_up "$RAR_NETWORK"; else topo_up "$1"; fi ||
	skip_all "no network namespaces"
[ -z "${RAR_SUPER-}" ] || topo_sysctl "super_chunks=$RAR_SUPER"
shift
"$@"
status=$?
[ -z "${RAR_XDP-}" ] || xdp_took || status=1
exit $status
