// SPDX-License-Identifier: GPL-2.0
/*
 * Gathered operations: the contributions of all ranks come here, and this rank adds them.
 *
 * The buffer holds the contributions by rank, and after them the sum. The additions are those
 * of a ring with one block: ((x_0 + x_1) + x_2) + ..., each partial sum as the first operand.
 * So the bits are those of the ring. At most RAR_GATHER_RANKS contributions of
 * RAR_SMALL_BYTES are added at once.
 *
 * The contributions stay as they are, because packets may still have to be built from them.
 * For the same reason the buffer is always memory of the kernel. An operation in the user's
 * memory takes its contribution from there when it is posted, and puts the sum there when it
 * is complete.
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

/* Sum of @rank and the ranks before it = the sum of those + the contribution of @rank. */
static void add_rank(struct adder *a, u32 rank)
{
	u64 len = a->op->bytes, end = a->op->ring.bytes, at, from = rank > 1 ? end : 0;
	void *in, *own, *sum;
	u32 n, m, k;

	for (at = 0; at < len; at += n) {
		in = rar_cursor_at(&a->in, from + at, &n);
		own = rar_cursor_at(&a->own, rank * len + at, &m);
		sum = rar_cursor_at(&a->sum, end + at, &k);
		n = min_t(u64, min3(n, m, k), len - at);
		hold(a, n);
		rar_reduce(&a->ctx, a->op->kind, sum, sum, in, own, n);
	}
}

/* The complete sum becomes an average. */
static void divide(struct adder *a)
{
	u64 len = a->op->bytes, end = a->op->ring.bytes, at;
	void *sum;
	u32 n;

	for (at = 0; at < len; at += n) {
		sum = rar_cursor_at(&a->sum, end + at, &n);
		n = min_t(u64, n, len - at);
		hold(a, n);
		rar_reduce_divide(&a->ctx, a->op->kind, sum, sum, a->op->divisor, n);
	}
}

/* Put the sum into the user's memory. */
static void put_sum(const struct rar_operation *op)
{
	struct rar_cursor sum = { .buf = op->sums };
	u64 at;
	u32 n;

	for (at = 0; at < op->bytes; at += n) {
		const void *from = rar_cursor_at(&sum, op->ring.bytes + at, &n);

		n = min_t(u64, n, op->bytes - at);
		rar_buf_write(&op->buf, at, from, n);
	}
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
	u64 own = rar_plan_given(&op->ring.plan, op->bytes).off, at;
	u32 n;

	for (at = 0; at < op->bytes; at += n) {
		void *to = rar_buf_span(op->own, own + at, op->bytes - at, &n);

		rar_buf_read(from, at, to, n);
	}
}

/**
 * rar_gather_add() - add the contributions of all ranks
 * @m:  member
 * @op: gathered; all contributions are published, and the user does not know yet
 *
 * Softirq, or process context with bottom halves off. RCU read side: if the group fails
 * meanwhile, the user's memory is given back after a grace period.
 */
void rar_gather_add(struct rar_member *m, struct rar_operation *op)
{
	u32 ranks = op->ring.plan.parts, rank;
	struct adder a = {
		.op = op,
		.in.buf = op->sums,
		.own.buf = op->sums,
		.sum.buf = op->sums,
	};

	rar_reduce_begin(&a.ctx);
	for (rank = 1; rank < ranks; rank++)
		add_rank(&a, rank);
	if (op->divisor)
		divide(&a);
	rar_reduce_end(&a.ctx);
	if (a.ctx.fpu)
		rar_mib_add(m->rn, ReduceSimd, (ranks - 1) * op->ring.cpb);
	else
		rar_mib_add(m->rn, ReduceScalar, (ranks - 1) * op->ring.cpb);
	if (op->pinned)
		put_sum(op);
}
