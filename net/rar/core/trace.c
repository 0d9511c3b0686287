// SPDX-License-Identifier: GPL-2.0
/* Instantiates the tracepoints. */
#include "rar.h"

#define CREATE_TRACE_POINTS
#include "core/trace.h"
