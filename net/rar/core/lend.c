// SPDX-License-Identifier: GPL-2.0
/*
 * Lent memory: users' memory that carriers point to, by the number in their headers.
 *
 * A carrier does not keep the user waiting: a packet may stay in a queue for long after its chunks
 * came in another packet, and the user may have the memory back by then. So its receiver, which is
 * in the same kernel, looks here whether the memory is still lent before it reads. An operation is
 * released when the neighbour has used all its chunks, so nobody reads the memory after that. Where
 * the memory is given back sooner (close, failure) it is recalled, and given back after an RCU
 * grace period. A carrier that comes later counts as lost.
 */
#include <linux/xarray.h>

#include "core/lend.h"
#include "core/op.h"
#include "core/ring.h"

static DEFINE_XARRAY_FLAGS(lent, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
static u32 next_id;

/**
 * rar_lend_begin() - let carriers point to the user's memory of an operation
 * @op:    pinned, with its number; on its way into the table
 * @epoch: of the group
 *
 * Without memory for this, the chunks are copied. Runs of one chunk never go in carriers. Where a
 * rank's own chunks do not come back as sums, the neighbour may have held a chunk that came early,
 * and let the operation be released here, while it still uses the chunk: another carrier with it
 * could be read then.
 */
void rar_lend_begin(struct rar_operation *op, u64 epoch)
{
	u32 id;

	if (op->ring.cpb < 2 || !rar_plan_returns(&op->ring.plan))
		return;
	op->lent_epoch = epoch;
	if (xa_alloc_cyclic_bh(&lent, &id, op, xa_limit_32b, &next_id,
			       GFP_ATOMIC | __GFP_NOWARN) >= 0)
		WRITE_ONCE(op->lent, id);
}

/**
 * rar_lend_end() - let no carrier that comes from now on be read
 * @op: operation; it may have been done before
 *
 * Any context up to softirq.
 */
void rar_lend_end(struct rar_operation *op)
{
	u32 id = xchg(&op->lent, 0);

	if (id)
		xa_erase_bh(&lent, id);
}

/**
 * rar_lend_valid() - may the memory be read that a carrier points to?
 * @id:    from its header
 * @seq:   operation in its header
 * @epoch: token in its header
 *
 * RCU read side. The caller reads the memory in the same critical section.
 *
 * Return: true if it may.
 */
bool rar_lend_valid(u32 id, u64 seq, u64 epoch)
{
	const struct rar_operation *op = xa_load(&lent, id);

	return op && op->seq == seq && op->lent_epoch == epoch;
}
