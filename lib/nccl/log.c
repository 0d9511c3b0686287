// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Messages and results, as NCCL wants them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "plugin.h"

static nccl_log_fn log_fn;

void log_begin(nccl_log_fn log)
{
	__atomic_store_n(&log_fn, log, __ATOMIC_RELAXED);
}

static void vsay(enum nccl_level level, const char *fmt, va_list args)
{
	nccl_log_fn log = __atomic_load_n(&log_fn, __ATOMIC_RELAXED);
	char text[512];

	if (!log)
		return;
	vsnprintf(text, sizeof(text), fmt, args);
	log(level, NCCL_ABOUT_INIT | NCCL_ABOUT_NET, "NET/rar", 0, "NET/rar: %s", text);
}

void say(enum nccl_level level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsay(level, fmt, args);
	va_end(args);
}

nccl_result_t refuse(nccl_result_t result, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsay(NCCL_WARN, fmt, args);
	va_end(args);
	return result;
}

nccl_result_t result_of(int err)
{
	switch (-err) {
	case 0:
		return NCCL_OK;
	case ECONNABORTED:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPIPE:
	case ETIMEDOUT:
		return NCCL_REMOTE_ERROR;
	case EACCES:		/* another user's group */
	case EBADMSG:		/* the ranks disagree */
	case EOPNOTSUPP:
	case EPROTO:		/* other versions of librar */
		return NCCL_INVALID_USAGE;
	case EINVAL:
		return NCCL_INTERNAL_ERROR;
	}
	return NCCL_SYSTEM_ERROR;
}
