#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# in_topo.sh N program...: runs a program that needs the namespaces rar0 ...
. "$(dirname "$0")/lib.sh"

need_module
topo_up "$1" || skip_all "no network namespaces"
shift
"$@"
