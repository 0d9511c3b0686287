// SPDX-License-Identifier: GPL-2.0
/*
 * Copy mode, long tensors: copied in and out in steps while the ring works on them.
 *
 * A step copies the same number of chunks of every block, because the chunks of all blocks
 * go round side by side. The operation is posted before the first step. This rank has not
 * contributed to chunks that are not copied in yet, so they may not come yet
 * (rar_op_early()).
 */
#include <linux/sched/signal.h>
#include <linux/uio.h>

#include "core/buf.h"
#include "core/ring.h"
#include "link/link.h"
#include "rar.h"
#include "ring/fail.h"
#include "ring/post.h"
#include "sock/codec.h"
#include "sock/copy.h"

/* The bytes of chunks @from to @to of a block; sets @off to where they begin. */
static u64 part_of(const struct rar_ring *ring, u32 block, u32 from, u32 to, u64 *off)
{
	u32 first = rar_ring_block_first(ring, block) + from;
	u32 n = min(to, rar_ring_block_chunks(ring, block));
	struct rar_chunk c;

	*off = 0;
	if (n <= from)
		return 0;
	rar_ring_chunk(ring, first, &c);
	*off = c.off;
	return rar_ring_bytes(ring, first, n - from);
}

/*
 * Copy chunks @begin to @end of each block in from the user, or out to the user, if the user
 * gives or gets the block.
 */
static int copy_part(const struct rar_operation *op, const struct iov_iter *user,
		     u32 begin, u32 end, bool out)
{
	const struct rar_span *span = out ? &op->got : &op->given;
	struct iov_iter iter;
	u64 off, len;
	int err;
	u32 b;

	for (b = 0; b < op->ring.nblocks; b++) {
		len = rar_codec_user(op, part_of(&op->ring, b, begin, end, &off));
		off = rar_codec_user(op, off);
		if (!len || off < span->off || off - span->off >= span->len)
			continue;
		iter = *user;
		iov_iter_advance(&iter, off - span->off);
		err = out ? rar_codec_to_iter(op, off, &iter, len) :
			    rar_codec_from_iter(op, off, &iter, len);
		if (err)
			return err;
	}
	return 0;
}

/**
 * rar_copy_in() - contribute to an operation, step by step
 * @m:  member
 * @op:   posted with @later set, referenced
 * @from: memory of the user with the whole contribution
 *
 * Process context, send_lock held. A fault ends the group, because other ranks have already
 * added to chunks of this rank.
 *
 * Return: 0, -EFAULT, or -ENOMEM if there is no memory to convert the numbers.
 */
int rar_copy_in(struct rar_member *m, struct rar_operation *op,
		const struct iov_iter *from)
{
	u32 done = 0, end;
	int err;

	while (done < op->ring.cpb && rar_member_runs(m)) {
		end = min(done + op->step, op->ring.cpb);
		err = copy_part(op, from, done, end, false);
		if (err) {
			/* For a process that is being killed memory is missing, too. */
			rar_fail_pair(m, ECONNRESET, fatal_signal_pending(current) ?
				      RAR_R_DIED : RAR_R_FAULT, m->rank, m->rank,
				      op->seq);
			return err;
		}
		done = end;
		rar_link_contributed(m, op, done);
		rar_post_open(m, op->seq, true);
	}
	return 0;
}

/*
 * Index in @block of the first chunk, from @from on, that is not final in the buffer; the
 * length of a full block if there is none.
 */
static u32 block_final(const struct rar_operation *op, u32 block, u32 from)
{
	u32 first = rar_ring_block_first(&op->ring, block);
	u32 n = rar_ring_block_chunks(&op->ring, block);
	enum rar_phase phase = rar_plan_result(&op->ring.plan, block);

	if (from >= n || phase == RAR_PHASES)
		return op->ring.cpb;
	n = find_next_zero_bit(op->published[phase], first + n, first + from) - first;
	return n == rar_ring_block_chunks(&op->ring, block) ? op->ring.cpb : n;
}

/* The lowest block_final() of all blocks. */
static u32 all_final(const struct rar_operation *op, u32 from)
{
	u32 b, n = op->ring.cpb;

	for (b = 0; b < op->ring.nblocks && n > from; b++)
		n = min(n, block_final(op, b, from));
	/* Acquire: the bits are read before the buffer; pairs with rar_op_publish(). */
	smp_rmb();
	return n;
}

static int copy_out_until(struct rar_copy *copy, u32 end)
{
	int err = copy_part(copy->op, copy->to, copy->done, end, true);

	if (!err)
		copy->done = end;
	return err;
}

/*
 * The operation that recv() waits for, referenced, if it may be copied in steps. It may not
 * if nothing arrives for it: then the result is what send() may still be copying in.
 */
static struct rar_operation *take_first(struct rar_member *m, const struct iov_iter *to)
{
	struct rar_operation *op;

	/* A pipe takes the bytes from front to back only. */
	if (!user_backed_iter(to))
		return NULL;
	spin_lock_bh(&m->lock);
	op = list_first_entry_or_null(&m->undelivered, struct rar_operation, node);
	if (op && !op->pinned && !op->blocking && op->step && !op->read && op->got.len &&
	    rar_ring_need(&op->ring) && op->got.len <= iov_iter_count(to))
		refcount_inc(&op->ref);
	else
		op = NULL;
	spin_unlock_bh(&m->lock);
	return op;
}

/**
 * rar_copy_out() - copy the final chunks of the operation that recv() waits for
 * @m:  member
 * @copy: progress; at first only @to is set
 *
 * Process context, recv_lock held. The caller then waits, and is woken when there is more.
 *
 * Return: true if something was copied, false if not, or a negative errno.
 */
int rar_copy_out(struct rar_member *m, struct rar_copy *copy)
{
	struct rar_operation *op;
	u32 end;
	int err;

	if (!copy->op)
		copy->op = take_first(m, copy->to);
	op = copy->op;
	if (!op)
		return false;
	WRITE_ONCE(op->wake_left,
		   atomic_read(&op->left) - (int)(op->step * op->ring.nblocks));
	smp_mb(); /* pairs with the counting in rar_link_published() */
	end = all_final(op, copy->done);
	if (end < copy->done + op->step)
		return false;
	err = copy_out_until(copy, end);
	return err ?: true;
}

/**
 * rar_copy_out_rest() - copy the rest of a complete operation
 * @copy: as in rar_copy_out(), with an operation
 *
 * Process context, recv_lock held.
 *
 * Return: 0, -EFAULT or -ENOMEM.
 */
int rar_copy_out_rest(struct rar_copy *copy)
{
	return copy_out_until(copy, copy->op->ring.cpb);
}
