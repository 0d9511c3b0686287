// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that are gathered: the contributions of all ranks, or partial sums
 * of several ranks, come here directly, and this rank adds them.
 *
 * All contributions: the buffer holds them by rank, and after them the sum. The
 * additions are those of a ring with one block: ((x_0 + x_1) + x_2) + ..., each
 * partial sum as the first operand. So the bits are those of the ring. At most
 * RAR_GATHER_RANKS contributions of RAR_SMALL_BYTES, or as many bytes of fewer
 * ranks, are added at once.
 *
 * By doubling (ring/doubling.c) two blocks of the buffer are added into a
 * third, chunk by chunk. All-gathers by doubling are ORed: each byte is that of
 * one rank, and zero at the others.
 *
 * What is added stays as it is, because packets may still have to be built from
 * it. For the same reason the buffer is always memory of the kernel. An
 * operation in the user's memory takes its contribution from there when it is
 * posted, and puts the sum there when it is complete.
 */
#include "core/buf.h"
#include "core/cursor.h"
#include "core/gather.h"
#include "core/op.h"
#include "rar.h"
#include "reduce/reduce.h"

/*
 * struct adder - the additions of one operation
 * @op:   the operation
 * @ctx:  of the reduction
 * @in:   the partial sum so far, or the first contribution
 * @own:  the contribution that is added to it
 * @sum:  where the result goes
 * @held: bytes reduced since the FPU was taken
 */
struct adder {
	const struct rar_operation *op;
	struct rar_reduce_ctx ctx;
	struct rar_cursor in, own, sum;
	u32 held;
};

/* Take note of @len bytes to reduce. The FPU is held for RAR_REDUCE_MAX bytes at most. */
static void hold(struct adder *a, u32 len)
{
	a->held += len;
	if (a->held <= RAR_REDUCE_MAX)
		return;
	rar_reduce_pause(&a->ctx);
	a->held = len;
}

/*
 * @len bytes at offset @to of the buffer = those at @first + those at @second.
 */
static void add(struct adder *a, u64 to, u64 first, u64 second, u64 len)
{
	void *in, *own, *sum;
	u32 n, m, k;
	u64 at;

	for (at = 0; at < len; at += n) {
		in = rar_cursor_at(&a->in, first + at, &n);
		own = rar_cursor_at(&a->own, second + at, &m);
		sum = rar_cursor_at(&a->sum, to + at, &k);
		n = min_t(u64, min3(n, m, k), len - at);
		hold(a, n);
		rar_reduce(&a->ctx, a->op->kind, sum, sum, in, own, n);
	}
}

/* A part of the complete sum becomes an average. */
static void divide(struct adder *a, u64 to, u64 len)
{
	void *sum;
	u64 at;
	u32 n;

	for (at = 0; at < len; at += n) {
		sum = rar_cursor_at(&a->sum, to + at, &n);
		n = min_t(u64, n, len - at);
		hold(a, n);
		rar_reduce_divide(&a->ctx, a->op->kind, sum, sum, a->op->divisor, n);
	}
}

static struct adder adder_of(const struct rar_operation *op)
{
	return (struct adder) {
		.op = op,
		.in.buf = op->sums,
		.own.buf = op->sums,
		.sum.buf = op->sums,
	};
}

/* Let the FPU go, and count @chunks that were added. */
static void end(struct rar_member *m, struct adder *a, u32 chunks)
{
	rar_reduce_end(&a->ctx);
	if (a->ctx.fpu)
		rar_mib_add(m->rn, ReduceSimd, chunks);
	else
		rar_mib_add(m->rn, ReduceScalar, chunks);
}

/* Where a span of the buffer lies in the user's tensor: a share, or all. */
static struct rar_span in_user(const struct rar_operation *op,
			       struct rar_span span)
{
	if (span.len < op->bytes)
		return rar_plan_share(&op->ring.plan, op->bytes);
	return (struct rar_span) { .len = op->bytes };
}

/**
 * rar_gather_end() - put the sum into the user's memory, if this rank gets it
 * @op: gathered and pinned, complete; the user does not know yet
 *
 * Softirq, or process context with bottom halves off. RCU read side: if the
 * group fails meanwhile, the user's memory is given back after a grace period.
 */
void rar_gather_end(const struct rar_operation *op)
{
	struct rar_span got = rar_plan_got(&op->ring.plan, op->bytes);
	struct rar_cursor sum = { .buf = op->sums };
	u64 to = in_user(op, got).off, at;
	u32 n;

	for (at = 0; at < got.len; at += n) {
		const void *part = rar_cursor_at(&sum, got.off + at, &n);

		n = min_t(u64, n, got.len - at);
		rar_buf_write(&op->buf, to + at, part, n);
	}
}

static void clear(struct rar_operation *op, u64 from, u64 to)
{
	void *part;
	u32 n;

	for (; from < to; from += n) {
		part = rar_buf_span(op->own, from, to - from, &n);
		memset(part, 0, n);
	}
}

/**
 * rar_gather_clear() - contribute zeros beside this rank's share
 * @op: an all-gather by doubling, not posted
 *
 * Process context.
 */
void rar_gather_clear(struct rar_operation *op)
{
	struct rar_span own = rar_plan_given(&op->ring.plan, op->bytes);
	u64 first;

	first = own.off - rar_plan_share(&op->ring.plan, op->bytes).off;
	clear(op, first, own.off);
	clear(op, own.off + own.len, first + op->bytes);
}

/**
 * rar_gather_give() - take the contribution from the user's memory
 * @op: gathered and pinned, not posted
 *
 * Process context.
 */
void rar_gather_give(struct rar_operation *op)
{
	const struct rar_buf *from = op->apart ? &op->src : &op->buf;
	struct rar_span own = rar_plan_given(&op->ring.plan, op->bytes);
	u64 first = op->apart ? 0 : in_user(op, own).off, at;
	void *to;
	u32 n;

	for (at = 0; at < own.len; at += n) {
		to = rar_buf_span(op->own, own.off + at, own.len - at, &n);
		rar_buf_read(from, first + at, to, n);
	}
}

/**
 * rar_gather_add() - add the contributions of all ranks
 * @m:  member
 * @op: gathered, not by doubling; all contributions are published
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_gather_add(struct rar_member *m, struct rar_operation *op)
{
	u64 len = op->bytes, to = rar_plan_got(&op->ring.plan, len).off;
	u32 ranks = op->ring.plan.parts, rank;
	struct adder a = adder_of(op);

	rar_reduce_begin(&a.ctx);
	for (rank = 1; rank < ranks; rank++)
		add(&a, to, rank > 1 ? to : 0, rank * len, len);
	if (op->divisor)
		divide(&a, to, len);
	end(m, &a, (ranks - 1) * op->ring.cpb);
}

/**
 * rar_gather_pair() - add consecutive chunks of two partial sums
 * @m:      member
 * @op:     by doubling; the chunks of both are published, and those that are
 *          made are claimed
 * @to:     the first chunk that is made
 * @first:  the first chunk of the lower ranks' sum
 * @second: the first chunk of the higher ranks' sum
 * @n:      how many, at least 1, in one block
 * @last:   the sum of all ranks is made
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_gather_pair(struct rar_member *m, struct rar_operation *op, u32 to,
		     u32 first, u32 second, u32 n, bool last)
{
	u64 len = rar_ring_bytes(&op->ring, to, n);
	struct adder a = adder_of(op);
	struct rar_chunk sum, x, y;

	rar_ring_chunk(&op->ring, to, &sum);
	rar_ring_chunk(&op->ring, first, &x);
	rar_ring_chunk(&op->ring, second, &y);
	rar_reduce_begin(&a.ctx);
	add(&a, sum.off, x.off, y.off, len);
	if (last && op->divisor)
		divide(&a, sum.off, len);
	end(m, &a, n);
}
