// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * NCCL's collective calls as operations of librar.
 *
 * A window of a gather is a broadcast by each rank of which it has bytes, and a window of a
 * scatter is a reduction to each such rank. So each link carries the window once. A short window
 * of whole blocks of all ranks is one operation.
 */
#include "plugin.h"
#include "piece.h"

#define PIECE	(4u << 20)	/* bytes of an operation: the memory of each has a bound */

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The first byte of the window that belongs to @rank, if any does, and how many do. */
static size_t own_bytes(const struct coll_call *c, int rank, size_t *first)
{
	size_t begin = rank * c->block, end = begin + c->block;

	*first = begin > c->start ? begin : c->start;
	end = min(end, c->start + c->len);
	return end > *first ? end - *first : 0;
}

/* Bytes of the result that a rank gets. */
size_t piece_result(const struct coll_call *c, int rank)
{
	size_t first;

	switch (c->kind) {
	case ALLREDUCE:
		return c->count * rar_dtype_size(c->dtype);
	case GATHER:
		return c->len;
	default:
		return own_bytes(c, rank, &first);
	}
}

static void of_allreduce(const struct coll_call *c, size_t *at, struct rar_call *call)
{
	size_t bytes = piece_result(c, 0) - *at;

	*call = (struct rar_call) {
		.collective = RAR_ALLREDUCE, .dtype = c->dtype, .redop = c->redop,
		.src = c->src + *at, .dst = c->dst + *at,
		.count = min(bytes, PIECE) / rar_dtype_size(c->dtype),
	};
	*at += min(bytes, PIECE);
}

static void of_whole(const struct coll_call *c, size_t *at, struct rar_call *call)
{
	*call = (struct rar_call) { .src = c->src, .dst = c->dst };
	if (c->kind == GATHER) {
		call->collective = RAR_ALLGATHER;
		call->dtype = RAR_U8;
		call->count = c->block;
	} else {
		call->collective = RAR_REDUCE_SCATTER;
		call->dtype = c->dtype;
		call->redop = c->redop;
		call->count = c->block / rar_dtype_size(c->dtype);
		call->flags = RAR_C_COPY;	/* in place, other blocks would be lost */
	}
	*at = c->len;
}

/* From *at to the end of the window, of the block, or of the piece. */
static void of_window(const struct coll_call *c, int rank, size_t *at, struct rar_call *call)
{
	size_t pos = c->start + *at, owner = pos / c->block, first;
	size_t bytes = min((owner + 1) * c->block - pos, min(c->len - *at, PIECE));
	char *own = c->kind == GATHER ? c->src : c->dst;

	own_bytes(c, rank, &first);
	own = owner == (size_t)rank ? own + (pos - first) : NULL;
	*call = (struct rar_call) { .root = owner };
	if (c->kind == GATHER) {
		call->collective = RAR_BROADCAST;
		call->dtype = RAR_U8;
		call->src = own;
		call->dst = c->dst + *at;
		call->count = bytes;
	} else {
		call->collective = RAR_REDUCE;
		call->dtype = c->dtype;
		call->redop = c->redop;
		call->src = c->src + *at;
		call->dst = own;
		call->count = bytes / rar_dtype_size(c->dtype);
	}
	*at += bytes;
}

/*
 * The operation that follows the first *at bytes, by which it moves *at; false: there is none.
 * All ranks get the same operations in the same order.
 */
bool piece_next(const struct coll_call *c, int rank, int size, size_t *at,
		struct rar_call *call)
{
	size_t bytes = c->kind == ALLREDUCE ? piece_result(c, rank) : c->len;

	if (*at == bytes)
		return false;
	if (c->kind == ALLREDUCE)
		of_allreduce(c, at, call);
	else if (!c->start && c->len == size * c->block && c->len <= PIECE)
		of_whole(c, at, call);
	else
		of_window(c, rank, at, call);
	return true;
}
