// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive doubling of short all-reduces, and reductions to a root: the
 * arrival of a stage is added to the partial sum that this rank has before that
 * stage. See core/stages.h for the stages. The buffer is laid out as in a
 * gathered operation (core/gather.c), with a block for each arrival and one for
 * each partial sum.
 *
 * Each chunk goes through the stages by itself, in softirq, on the CPU that
 * has the last thing that the chunk waited for. Two bits of a chunk say all
 * about a stage: that it arrived (published, AG, in the block of the arrival),
 * and that the partial sum before the stage is made (published, RS, in the
 * block of that partial sum). A CPU sets one of the two, looks at both, and if
 * both are set claims the next partial sum. Setting a bit is a full barrier, so
 * of two CPUs at least one finds both. The CPU that made a partial sum sends
 * it, once (direct.c).
 *
 * Blocks are not written again once they are published, so packets can be built
 * from them at any time. Acknowledgments and questions are as in a direct
 * exchange. selftests/model/doubling.pml is a model of this.
 */
#include "core/gather.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/stages.h"
#include "rar.h"
#include "ring/doubling.h"

/**
 * rar_doubling_chunk() - the number of a chunk of a partial sum
 * @op:    by doubling
 * @stage: before which this rank has the partial sum
 * @nth:   chunk of the tensor, less than @op->ring.cpb
 *
 * Return: the number here; at the peer it is rar_ring_there() of it.
 */
u32 rar_doubling_chunk(const struct rar_operation *op, u32 stage, u32 nth)
{
	return rar_plan_partial(&op->ring.plan, stage) * op->ring.cpb + nth;
}

/**
 * rar_doubling_made() - the chunks that this rank can send in a stage
 * @op:    by doubling
 * @stage: in which this rank sends
 *
 * Any context, RCU read side.
 *
 * Return: a bit for each chunk of the tensor.
 */
u64 rar_doubling_made(const struct rar_operation *op, u32 stage)
{
	const struct rar_run run = {
		.chunk = rar_doubling_chunk(op, stage, 0),
		.n = op->ring.cpb,
		.phase = RAR_RS,
	};

	return rar_op_published(op, &run, rar_mask(run.n));
}

/**
 * rar_doubling_publish() - a partial sum is in its block, with all its chunks
 * @op:    by doubling
 * @stage: before which this rank has the partial sum
 *
 * Any context.
 */
void rar_doubling_publish(struct rar_operation *op, u32 stage)
{
	const struct rar_run run = {
		.chunk = rar_doubling_chunk(op, stage, 0),
		.n = op->ring.cpb,
		.phase = RAR_RS,
	};

	rar_op_publish(op, &run, rar_mask(run.n));
}

/* Add the chunks of @mask; @own, @in and @sum are the first ones. */
static void add(struct rar_member *m, struct rar_operation *op, u32 stage,
		u32 own, u32 in, u32 sum, u64 mask)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 first = own, second = in, at, n;

	if (!rar_stage(st, stage).after)
		swap(first, second);
	for (; mask; mask &= ~(rar_mask(n) << at)) {
		at = __ffs64(mask);
		n = rar_mask_run(mask >> at);
		rar_gather_pair(m, op, sum + at, first + at, second + at, n,
				st->whole && stage + 1 == st->last);
	}
}

/**
 * rar_doubling_make() - make chunks of the next partial sum, if it is time
 * @m:     member
 * @op:    by doubling; the caller keeps its buffer
 * @stage: in which this rank adds an arrival
 * @nth:   chunk of the tensor
 * @mask:  the chunks from @nth on that may be made, a bit each
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: those that were made here. Of the others an operand is not here yet,
 * or another CPU makes them.
 */
u64 rar_doubling_make(struct rar_member *m, struct rar_operation *op,
		      u32 stage, u32 nth, u64 mask)
{
	struct rar_run own = {
		.chunk = rar_doubling_chunk(op, stage, nth), .phase = RAR_RS,
	};
	struct rar_run in = {
		.chunk = stage * op->ring.cpb + nth, .phase = RAR_AG,
	};
	struct rar_run sum = {
		.chunk = own.chunk + op->ring.cpb, .phase = RAR_RS,
	};

	mask = rar_op_published(op, &own, mask);
	mask = rar_op_published(op, &in, mask);
	if (!mask)
		return 0;
	mask = rar_bits_test_and_set(op->claimed[RAR_RS], sum.chunk, mask);
	add(m, op, stage, own.chunk, in.chunk, sum.chunk, mask);
	rar_op_publish(op, &sum, mask);
	return mask;
}
