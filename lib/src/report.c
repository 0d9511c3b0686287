// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Words: errors, names, and what RAR_DEBUG=1 prints.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "librar.h"

const char *rar_version(void)
{
	return RAR_VERSION;
}

/* -- RAR_DEBUG ------------------------------------------------------------- */

bool rar_debugging(void)
{
	const char *debug = getenv("RAR_DEBUG");

	return debug && *debug && strcmp(debug, "0");
}

/* One line on stderr, in one write. */
void rar_debug(const rar_comm_t *c, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!rar_debugging())
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (c)
		fprintf(stderr, "librar[%d]: rank %u of %u: %s\n", getpid(), c->rank, c->size, text);
	else
		fprintf(stderr, "librar[%d]: %s\n", getpid(), text);
}

/* -- names ----------------------------------------------------------------- */

static const struct type {
	const char *name;
	size_t size;
} types[RAR_DTYPE_NR] = {
	/* list: dtypes */
	[RAR_F32] = { "f32", 4 }, [RAR_F64] = { "f64", 8 }, [RAR_I32] = { "i32", 4 },
	[RAR_I64] = { "i64", 8 }, [RAR_I8] = { "i8", 1 }, [RAR_U8] = { "u8", 1 },
	[RAR_I16] = { "i16", 2 }, [RAR_U16] = { "u16", 2 }, [RAR_U32] = { "u32", 4 },
	[RAR_U64] = { "u64", 8 }, [RAR_F16] = { "f16", 2 }, [RAR_BF16] = { "bf16", 2 },
	/* end of list */
};

static const struct type *type_of(int dtype)
{
	return &types[dtype > 0 && dtype < RAR_DTYPE_NR ? dtype : 0];
}

size_t rar_dtype_size(int dtype)
{
	return type_of(dtype)->size;
}

const char *rar_dtype_name(int dtype)
{
	return type_of(dtype)->name ? type_of(dtype)->name : "unknown type";
}

const char *rar_redop_name(int redop)
{
	static const char *const names[RAR_REDOP_NR] = {
		/* list: redops */
		[RAR_SUM] = "sum", [RAR_PROD] = "prod", [RAR_MIN] = "min", [RAR_MAX] = "max",
		[RAR_BAND] = "band", [RAR_BOR] = "bor", [RAR_BXOR] = "bxor", [RAR_LAND] = "land",
		[RAR_LOR] = "lor", [RAR_LXOR] = "lxor", [RAR_AVG] = "avg",
		/* end of list */
	};

	return redop > 0 && redop < RAR_REDOP_NR ? names[redop] : "unknown reduction";
}

/* What happened, as a predicate of the rank that the error names. */
const char *rar_reason_name(unsigned int reason)
{
	static const char *const names[RAR_R_NR] = {
		[RAR_R_NONE] = "has not failed",
		[RAR_R_CLOSED] = "closed its socket with operations unfinished",
		[RAR_R_DIED] = "died: its process exited",
		[RAR_R_SILENT] = "is silent: host or network is down",
		[RAR_R_LEFT] = "left before this operation",
		[RAR_R_RESET] = "has restarted",
		[RAR_R_ABORTED] = "aborted the group",
		[RAR_R_TIMEOUT] = "has not sent the operation in time",
		[RAR_R_JOIN_TIMEOUT] = "did not come in time",
		[RAR_R_DUPLICATE] = "is held by two members",
		[RAR_R_SIZE] = "disagrees about the number of ranks",
		[RAR_R_VERSION] = "has another version of the protocol",
		[RAR_R_TABLE] = "has another table of members",
		[RAR_R_COLLECTIVE] = "called another collective",
		[RAR_R_DTYPE] = "passed another element type",
		[RAR_R_REDOP] = "passed another reduction",
		[RAR_R_COUNT] = "passed another number of elements",
		[RAR_R_ROOT] = "passed another root",
		[RAR_R_FLAGS] = "passed other flags",
		[RAR_R_MTU] = "cannot send packets of full size",
		[RAR_R_NODEV] = "lost its device or route",
		[RAR_R_FAULT] = "lost memory that it was sending",
		[RAR_R_SCHEDULE] = "has another schedule",
		[RAR_R_KEY] = "has another key",
		[RAR_R_PREV] = "has another address than its card says",
		[RAR_R_NOMEM] = "has no memory for the operation",
		[RAR_R_BYTE_ORDER] = "has another byte order",
		[RAR_R_SECURITY] = "has another RAR_SECURITY",
		[RAR_R_STALLED] = "stood still: its host was paused or had no processor time",
	};

	return reason < RAR_R_NR && names[reason] ? names[reason] : "failed for an unknown reason";
}

/* -- errors ---------------------------------------------------------------- */

int rar_comm_error(rar_comm_t *c, struct rar_error *error)
{
	memset(error, 0, sizeof(*error));
	if (rar_inherited(c))
		return -ECHILD;
	c->transport->error(c, error);
	return -error->err;
}

/* What an errno means where it does not come from a group. */
static const char *hint(int err)
{
	switch (-err) {
	case EAFNOSUPPORT:
		return "no AF_RAR here (modprobe rar), or addresses of different families";
	case EPERM:
		return "forbidden here: AF_RAR by a seccomp profile, or RAR_SCHEDULE=by-hosts by net.rar.strict";
	case EADDRINUSE:
		return "this rank of the group, or the UDP port, is taken on this host";
	case EADDRNOTAVAIL:
		return "no such local address, or two hosts have the same: set RAR_LOCAL";
	case EACCES:
		return "the group is another user's, or a neighbour has another key or address";
	case ENOKEY:
		return "RAR_SECURITY asks for more here than at rank 0, whose card has the key";
	case EPROTO:
		return "a card is not valid, or was made by another version or byte order";
	case ECHILD:
		return "the communicator belongs to the parent of this process";
	case EOPNOTSUPP:
		return "not all ranks support this collective, type and reduction (see rar_can())";
	case ENOTCONN:
		return "the ring is not closed: wait for rar_comm_ready()";
	case EISCONN:
		return "the group has not failed";
	case EPIPE:
		return "another rank has left the group";
	case EAGAIN:
		return "not complete yet";
	case ENOENT:
		return "no request is in flight, or no failed epoch is known";
	case EINVAL:
		return "an argument is not valid";
	}
	return strerror(-err);
}

/* What a rank passed where two ranks disagree. */
static void value_name(const struct rar_error *e, uint64_t value, char *buf, size_t len)
{
	if (e->reason == RAR_R_DTYPE)
		snprintf(buf, len, "%s", rar_dtype_name((int)value));
	else if (e->reason == RAR_R_REDOP)
		snprintf(buf, len, "%s", rar_redop_name((int)value));
	else
		snprintf(buf, len, "%llu", (unsigned long long)value);
}

static void describe(const struct rar_error *e, char *buf, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "", other[32] = "", op[48] = "", values[96] = "", a[40], b[40];

	if (e->rank == RAR_NO_RANK) {
		snprintf(buf, len, "a neighbour named a rank that does not exist");
		return;
	}
	if (e->addr.srar_af)
		inet_ntop(e->addr.srar_af, e->addr.srar_addr, ip, sizeof(ip));
	if (e->other != e->rank)
		snprintf(other, sizeof(other), " (seen by rank %u)", e->other);
	if (e->cookie)
		snprintf(op, sizeof(op), ", request %llu", (unsigned long long)e->cookie);
	if (e->value != e->other_value) {
		value_name(e, e->value, a, sizeof(a));
		value_name(e, e->other_value, b, sizeof(b));
		snprintf(values, sizeof(values), ", %s, not %s", a, b);
	}
	snprintf(buf, len, "rank %u%s%s%s %s%s%s%s: %s", e->rank, *ip ? " (" : "", ip,
		 *ip ? ")" : "", rar_reason_name(e->reason), values, other, op, strerror(e->err));
}

/* Why a call without a failed group returned ENOBUFS, or NULL. */
static const char *lack_of(rar_comm_t *c)
{
	static const char *const names[RAR_LACK_NR] = {
		[RAR_LACK_RESULTS] = "results must be taken first: rar_wait()",
		[RAR_LACK_NET] = "net.rar.mem is in use",
		[RAR_LACK_HOST] = "max_mem of the module rar is in use",
		[RAR_LACK_MEMLOCK] = "RLIMIT_MEMLOCK (ulimit -l) is reached",
		[RAR_LACK_REGIONS] = "too many registered regions",
		[RAR_LACK_KERNEL] = "no memory in the memory cgroup of the process, or in the host",
	};
	uint32_t lack = c->transport->lack ? c->transport->lack(c) : RAR_LACK_NONE;

	return lack < RAR_LACK_NR ? names[lack] : NULL;
}

const char *rar_strerror(rar_comm_t *c, int err, char *buf, size_t len)
{
	bool here = err && c && !rar_inherited(c);
	const char *lack = here && err == -ENOBUFS ? lack_of(c) : NULL;
	struct rar_error error;

	if (here && rar_comm_error(c, &error) == err && error.reason)
		describe(&error, buf, len);
	else if (lack)
		snprintf(buf, len, "%s", lack);
	else
		snprintf(buf, len, "%s", err ? hint(err) : "no error");
	return buf;
}

int rar_slow(rar_comm_t *c, uint32_t *rank, uint32_t *ms)
{
	*rank = RAR_NO_RANK;
	*ms = 0;
	if (rar_inherited(c))
		return -ECHILD;
	return c->transport->slow(c, rank, ms);
}
