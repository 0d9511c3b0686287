// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What a call gives and gets, and whether the kernel may work in the caller's memory.
 */
#include <errno.h>

#include "librar.h"

static bool overlap(const void *a, uint64_t a_len, const void *b, uint64_t b_len)
{
	return a_len && b_len && (const char *)a < (const char *)b + b_len &&
	       (const char *)b < (const char *)a + a_len;
}

/* In memory of the caller: where the tensor lies with this rank's share in its place. */
static void plan_pin(const rar_comm_t *c, const struct rar_call *call, struct work *w)
{
	char *src = (char *)call->src, *dst = call->dst;

	switch (w->collective) {
	case RAR_ALLREDUCE:
		w->pin = src;
		w->pin_dst = src == dst ? NULL : dst;
		break;
	case RAR_REDUCE:	/* overwrites the contribution */
		w->pin = src == dst ? dst : NULL;
		break;
	case RAR_REDUCE_SCATTER:
		w->pin = dst == src + c->rank * w->recv_len ? src : NULL;
		break;
	case RAR_BROADCAST:
	case RAR_ALLGATHER:	/* the share is moved there, see rar_start() */
		w->pin = dst;
		break;
	}
}

static void plan_spans(const rar_comm_t *c, const struct rar_call *call, struct work *w,
		       uint64_t one)
{
	bool root = call->root == c->rank;

	w->send = call->src;
	w->recv = call->dst;
	w->bytes = one;
	w->send_len = one;
	w->recv_len = one;
	switch (w->collective) {
	case RAR_BROADCAST:
		w->send_len = root ? one : 0;
		break;
	case RAR_REDUCE:
		w->recv_len = root ? one : 0;
		break;
	case RAR_ALLGATHER:
		w->bytes *= c->size;
		w->recv_len = w->bytes;
		break;
	case RAR_REDUCE_SCATTER:
		w->bytes *= c->size;
		w->send_len = w->bytes;
		break;
	}
}

/* The source and the place of the result are equal, disjoint, or one is its block of the other. */
static bool memory_ok(const rar_comm_t *c, const struct work *w)
{
	const char *block;

	if ((w->send_len && !w->send) || (w->recv_len && !w->recv))
		return false;
	if (w->send == w->recv || !overlap(w->send, w->send_len, w->recv, w->recv_len))
		return true;
	if (w->collective == RAR_ALLGATHER) {
		block = w->recv + c->rank * w->send_len;
		return w->send == block;
	}
	return w->collective == RAR_REDUCE_SCATTER &&
	       w->recv == w->send + c->rank * w->recv_len;
}

int rar_plan(const rar_comm_t *c, const struct rar_call *call, struct work *w)
{
	bool rooted = call->collective == RAR_BROADCAST || call->collective == RAR_REDUCE;
	bool barrier = call->collective == RAR_BARRIER;
	bool adds = !barrier && call->collective != RAR_BROADCAST &&
		    call->collective != RAR_ALLGATHER;
	uint64_t esize = barrier ? 1 : rar_dtype_size(call->dtype);

	*w = (struct work) {
		.collective = call->collective,
		.dtype = barrier ? RAR_U8 : call->dtype,
		.redop = adds && call->redop ? call->redop : RAR_SUM,
		.root = call->root,
		.op_flags = call->op_flags,
		.count = call->count,
		.nowait = call->flags & RAR_C_NOWAIT,
		.prio = call->prio,
	};
	if (call->flags & ~(RAR_C_COPY | RAR_C_NOWAIT) || call->__pad[0] || call->__pad[1] ||
	    call->__pad[2] || !esize ||
	    call->root >= (rooted ? c->size : 1) || (barrier && call->count))
		return -EINVAL;
	if (!rar_can(c, w->collective, w->dtype, w->redop, w->count) ||
	    w->op_flags & ~c->caps.dtypes[0])
		return -EOPNOTSUPP;
	plan_spans(c, call, w, w->count * esize);
	if (!memory_ok(c, w))
		return -EINVAL;
	/* With these flags other numbers travel than the caller's. */
	if (w->bytes > COPY_MAX && !(call->flags & RAR_C_COPY) &&
	    !(w->op_flags & (RAR_OPF_WIDE | RAR_OPF_EXACT | RAR_OPF_QUANT)))
		plan_pin(c, call, w);
	return 0;
}

int rar_can(const rar_comm_t *c, int collective, int dtype, int redop, uint64_t count)
{
	uint64_t size = rar_dtype_size(dtype), parts = 1;

	if (!c->up || collective <= 0 || collective > RAR_BARRIER ||
	    !(c->caps.collectives & 1u << collective))
		return 0;
	if (collective == RAR_BARRIER)
		return !count;
	if (!redop || collective == RAR_BROADCAST || collective == RAR_ALLGATHER)
		redop = RAR_SUM;
	if (!size || redop < 0 || redop >= RAR_REDOP_NR || !(c->caps.dtypes[redop] & 1u << dtype))
		return 0;
	if (collective == RAR_ALLGATHER || collective == RAR_REDUCE_SCATTER)
		parts = c->size;
	return count <= (1ull << 40) / size / parts;	/* the kernel's limit: 1 TiB */
}
