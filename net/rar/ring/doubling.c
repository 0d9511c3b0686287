// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive doubling of short all-reduces: what comes in a stage is added to
 * the partial sum that this rank has before that stage. The stages are those of
 * core/stages.h, the buffer is that of a gathered operation (core/gather.c),
 * with a block for what comes in each stage and a block for each partial sum.
 *
 * Each chunk goes through the stages by itself, in softirq, on whichever CPU
 * has the last thing that it waited for. Two bits of a chunk say all about a
 * stage: that it has come (published, AG, in the block of the stage), and that
 * the partial sum before the stage is made (published, RS, in the block of that
 * partial sum). Whoever sets one of the two and then finds the other one set
 * claims the next partial sum. Both are set by operations that are full
 * barriers, so at least one of two CPUs finds both. Who has made a partial sum
 * sends it, once (direct.c).
 *
 * Blocks are not written again once they are published, so packets can be built
 * from them at any time. Which rank needs what is known and asked for as in a
 * direct exchange. selftests/model/doubling.pml is a model of this.
 */
#include "core/gather.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/stages.h"
#include "rar.h"
#include "ring/doubling.h"

static struct rar_run run_of(u32 chunk, enum rar_phase phase)
{
	return (struct rar_run) { .chunk = chunk, .n = 1, .phase = phase };
}

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
	struct rar_run run = run_of(rar_doubling_chunk(op, stage, 0), RAR_RS);

	run.n = op->ring.cpb;
	rar_op_publish(op, &run, rar_mask(run.n));
}

/**
 * rar_doubling_make() - make a chunk of the next partial sum, if it is time
 * @m:     member
 * @op:    by doubling; the caller keeps its buffer
 * @stage: in which this rank adds what comes
 * @nth:   chunk of the tensor
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: true if it was made here; false if an operand is not here yet, or
 * another CPU makes it.
 */
bool rar_doubling_make(struct rar_member *m, struct rar_operation *op,
		       u32 stage, u32 nth)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	const u32 at = rar_doubling_chunk(op, stage, nth);
	struct rar_run own = run_of(at, RAR_RS);
	struct rar_run in = run_of(rar_ring_there(&op->ring, at), RAR_AG);
	struct rar_run sum = run_of(at + op->ring.cpb, RAR_RS);

	if (!rar_op_published(op, &own, 1) || !rar_op_published(op, &in, 1) ||
	    !rar_op_claim(op, &sum))
		return false;
	if (!rar_stage(st, stage).after)
		swap(own.chunk, in.chunk);
	rar_gather_pair(m, op, sum.chunk, own.chunk, in.chunk,
			stage + 1 == st->last);
	rar_op_publish(op, &sum, 1);
	return true;
}
