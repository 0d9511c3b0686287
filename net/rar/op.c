// SPDX-License-Identifier: GPL-2.0
/* Operations: memory, schedule, references. Owns struct rar_operation. */
#include <linux/jhash.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "copy.h"
#include "rar.h"
#include "reduce.h"

#define OP_BITMAPS	5		/* per phase */
#define OP_BITMAPS_BACK	2

static struct workqueue_struct *op_wq;

/*
 * Operations behind another one of their group may use half of net.rar.mem
 * only, so that they do not starve the first one of a group in the same netns:
 * neither would ever complete.
 */
static u64 op_limit(const struct rar_net *rn, bool first)
{
	unsigned long limit = READ_ONCE(rn->sysctl_mem);

	return first ? limit : limit / 2;
}

static bool op_charge(struct rar_net *rn, u64 bytes, bool first)
{
	s64 used = atomic64_read(&rn->mem);

	if (!bytes)	/* fits also when more than the limit is used */
		return true;
	do {
		if (used + bytes > op_limit(rn, first))
			return false;
	} while (!atomic64_try_cmpxchg(&rn->mem, &used, used + bytes));
	return true;
}

static void op_uncharge(struct rar_net *rn, u64 bytes)
{
	if (!bytes)
		return;
	atomic64_sub(bytes, &rn->mem);
	rar_group_memory(rn, false);
}

static bool op_fits(const struct rar_net *rn, u64 bytes, bool first)
{
	return bytes > READ_ONCE(rn->sysctl_mem) ||
	       atomic64_read(&rn->mem) + bytes <= op_limit(rn, first);
}

/**
 * rar_op_room() - would rar_op_alloc() find net.rar.mem used up?
 * @rn:    netns
 * @bytes: length of the tensor
 * @first: nothing of the group is in flight
 *
 * Any context. Return: false if so; then it is asked again when so much was given back
 * that it may be true, see rar_group_memory(). True also for what is refused, as too long.
 */
bool rar_op_room(struct rar_net *rn, u64 bytes, bool first)
{
	s64 below = op_limit(rn, first) - bytes, old;

	if (op_fits(rn, bytes, first))
		return true;
	smp_mb();	/* who takes @mem_below later sees @wanted of the group */
	old = atomic64_read(&rn->mem_below);
	/* Behind another operation it may be too long at any time. */
	while (below > old && !atomic64_try_cmpxchg(&rn->mem_below, &old, below))
		;
	smp_mb();	/* it is seen there, or what is given back is seen here */
	return op_fits(rn, bytes, first);
}

/* Too much is the user's error, not a reason to kill anybody. */
#define OP_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

static struct rar_operation *op_new(struct rar_net *rn, u64 bytes)
{
	struct rar_operation *op = kzalloc(sizeof(*op), GFP_KERNEL_ACCOUNT);

	if (!op)
		return NULL;
	op->rn = rn;
	op->bytes = bytes;
	op->own = &op->buf;
	op->sums = &op->buf;
	INIT_LIST_HEAD(&op->node);
	INIT_LIST_HEAD(&op->pin_node);
	refcount_set(&op->ref, 1);
	return op;
}

/**
 * rar_op_alloc() - get an operation and its buffer
 * @rn:    netns that is charged
 * @bytes: length of the tensor
 * @first: nothing of the group is in flight
 *
 * Process context. Return: the operation with one reference, or ERR_PTR:
 * -EAGAIN when net.rar.mem is used up, -ENOBUFS when memory is short.
 */
struct rar_operation *rar_op_alloc(struct rar_net *rn, u64 bytes, bool first)
{
	struct rar_operation *op;
	int err = -ENOBUFS;

	if (!op_charge(rn, bytes, first))
		return ERR_PTR(-EAGAIN);
	op = op_new(rn, bytes);
	if (op)
		err = rar_buf_alloc(&op->buf, bytes);
	if (err) {
		kfree(op);
		op_uncharge(rn, bytes);
		return ERR_PTR(err);
	}
	op->charged = bytes;
	return op;
}

/**
 * rar_op_alloc_pinned() - get an operation in memory of the caller
 * @rn:    netns
 * @regions: where it may be pinned already
 * @bytes: length of the tensor
 * @dst:   where the sums go, 0 = to where the contribution lies
 *
 * Process context. The contribution is appended to @src if there is a @dst,
 * else to @buf. Return: the operation with one reference, or ERR_PTR as
 * rar_buf_pin().
 */
struct rar_operation *rar_op_alloc_pinned(struct rar_net *rn,
					  struct rar_regions *regions, u64 bytes,
					  u64 dst)
{
	struct rar_operation *op = op_new(rn, bytes);
	int err = 0;

	if (!op)
		return ERR_PTR(-ENOBUFS);
	op->pinned = true;
	op->buf.pinned = true;
	op->buf.write = true;
	op->src.pinned = true;
	op->dst = dst;
	if (dst) {
		op->own = &op->src;
		err = rar_buf_pin(&op->buf, regions, dst, bytes);
	}
	if (!err)
		return op;
	rar_op_drop(op);
	return ERR_PTR(err);
}

static void op_set_bitmaps(struct rar_operation *op, size_t longs)
{
	unsigned long *b = op->bits;
	int p;

	for (p = 0; p < RAR_PHASES; p++) {
		op->claimed[p] = b;
		op->published[p] = b + longs;
		op->pend[p] = b + 2 * longs;
		op->acked[p] = b + 3 * longs;
		op->sent[p] = b + 4 * longs;
		op->pend_from[p] = op->ring.nchunks;
		b += OP_BITMAPS * longs;
	}
	if (!op->nback)
		return;
	op->pend[RAR_BACK] = b;
	op->acked[RAR_BACK] = b + longs;
	op->pend_from[RAR_BACK] = op->ring.nchunks;
}

/*
 * A packet brings no more work than that of so many pieces to this rank, and to others
 * whose memory is like its own.
 */
static u32 run_max(const struct rar_operation *op)
{
	u32 pieces = max(op->buf.npieces, op->src.npieces);

	return clamp(RAR_REDUCE_PIECES / (pieces / max(op->ring.nchunks, 1U) + 1), 1U,
		     (u32)RAR_RUN_MAX);
}

/**
 * rar_op_schedule() - fix what the operation is and cut it into chunks
 * @op:      from rar_op_alloc(), not posted
 * @print:   collective, dtype, redop, count ...; there are kernels for it
 * @payload: bytes of a chunk in this epoch
 * @seat:    of this rank in it
 *
 * Process context. Return: 0, -EMSGSIZE, or -ENOBUFS.
 */
int rar_op_schedule(struct rar_operation *op, const struct rar_print *print,
		    u32 payload, const struct rar_seat *seat)
{
	const struct rar_kind *kind = rar_reduce_kind(print->dtype, print->redop);
	size_t longs, n = OP_BITMAPS * RAR_PHASES;
	int err;

	err = rar_ring_init(&op->ring, print->count * kind->size, payload, seat);
	if (err)
		return err;

	longs = BITS_TO_LONGS(op->ring.nchunks);
	op->nback = rar_ring_nback(&op->ring);
	if (op->nback)
		n += OP_BITMAPS_BACK;
	kvfree(op->bits);	/* of an attempt that could not be posted */
	op->bits = kvcalloc(n * longs, sizeof(long), OP_GFP);
	if (!op->bits)
		return -ENOBUFS;
	op_set_bitmaps(op, longs);

	op->step = rar_copy_step(op->rn, &op->ring);
	op->run_max = run_max(op);
	op->print = *print;
	op->kind = kind;
	op->inject = rar_ring_block_first(&op->ring, seat->own);
	op->inject_first = op->inject;
	op->inject_end = op->inject + rar_ring_block_chunks(&op->ring, seat->own);
	/* Without it the way round is not timed. */
	kvfree(op->inject_us);
	op->inject_us = kvcalloc(op->inject_end - op->inject, sizeof(u32),
				 OP_GFP);
	op->ntx = rar_ring_ntx(&op->ring);
	op->wake_left = -1;
	atomic_set(&op->left, op->ring.nchunks);
	return 0;
}

static void op_free(struct rar_operation *op)
{
	kvfree(op->bits);
	kvfree(op->inject_us);
	rar_buf_free(&op->buf);
	rar_buf_free(&op->src);
	rar_buf_free(&op->kept);
	kfree(op);
}

static void op_free_rcu(struct rcu_head *head)
{
	op_free(container_of(head, struct rar_operation, free.rcu));
}

static void op_free_work(struct work_struct *work)
{
	op_free(container_of(to_rcu_work(work), struct rar_operation, free));
}

/**
 * rar_op_put() - drop a reference
 * @op: operation
 *
 * Any context. The last one frees the buffer after an RCU grace period; the
 * charge to net.rar.mem ends at once.
 */
void rar_op_put(struct rar_operation *op)
{
	if (!refcount_dec_and_test(&op->ref))
		return;
	op_uncharge(op->rn, op->charged);
	if (op->buf.linear) {
		call_rcu(&op->free.rcu, op_free_rcu);
	} else {
		INIT_RCU_WORK(&op->free, op_free_work);
		queue_rcu_work(op_wq, &op->free);
	}
}

/**
 * rar_op_drop() - free an operation that was never posted
 * @op: operation with one reference
 *
 * Process context.
 */
void rar_op_drop(struct rar_operation *op)
{
	op_uncharge(op->rn, op->charged);
	op_free(op);
}

/**
 * rar_op_unpin() - give the user's memory back
 * @op: pinned and ready
 *
 * Process context; see @users.
 */
void rar_op_unpin(struct rar_operation *op)
{
	rar_buf_free(&op->buf);
	rar_buf_free(&op->src);
}

/**
 * rar_op_keep() - copy the sums out of the user's memory
 * @op: pinned and complete: nobody writes to its memory
 *
 * Process context. What is sent from now on is read from the copy. After a grace
 * period the caller may give the user's memory back. Return: 0, or -ENOBUFS and
 * nothing has changed.
 */
int rar_op_keep(struct rar_operation *op)
{
	int err = -ENOBUFS;

	if (!op_charge(op->rn, op->bytes, false))
		return err;
	err = rar_buf_alloc(&op->kept, op->bytes);
	if (err) {
		op_uncharge(op->rn, op->bytes);
		return err;
	}
	op->charged = op->bytes;
	rar_buf_copy(&op->kept, &op->buf);
	/* Pairs with rar_op_source(): the copy is seen with its address. The successor
	 * has had all contributions, and drops whatever is still sent of them.
	 */
	smp_store_release(&op->own, &op->kept);
	/* The same. */
	smp_store_release(&op->sums, &op->kept);
	return 0;
}

/* What the history keeps of a finished operation. */
u32 rar_print_hash(const struct rar_print *p)
{
	u32 what = p->collective | p->dtype << 8 | p->redop << 16 |
		   (u32)p->flags << 24;

	return jhash_3words(lower_32_bits(p->count), upper_32_bits(p->count),
			    what, p->root);
}

int __init rar_op_init(void)
{
	op_wq = alloc_workqueue("rar_op", WQ_UNBOUND, 0);
	return op_wq ? 0 : -ENOMEM;
}

/* No group is left. */
void rar_op_exit(void)
{
	rcu_barrier();
	destroy_workqueue(op_wq);
}
