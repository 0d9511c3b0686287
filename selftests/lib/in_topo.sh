#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# in_topo.sh N program...: runs a program that needs the namespaces rar0 ...
# RAR_SUPER=1: without superpackets, for programs that look at single packets.
. "$(dirname "$0")/lib.sh"

need_module
topo_up "$1" || skip_all "no network namespaces"
[ -z "${RAR_SUPER-}" ] || topo_sysctl "super_chunks=$RAR_SUPER"
shift
"$@"
status=$?
[ -z "${RAR_XDP-}" ] || xdp_took || status=1
exit $status
