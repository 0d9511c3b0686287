/* SPDX-License-Identifier: GPL-2.0 */
/* Slots: shared by the files that add, that answer and that share the memory. */
#ifndef _RAR_BOX_SLOT_H
#define _RAR_BOX_SLOT_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "box/job.h"
#include "core/op.h"
#include "core/ring.h"

#define BOX_NO_PRIO	256	/* above all priorities */
#define BOX_RETURN_BITS	(8 * sizeof_field(struct rar_chunks_hdr, map))

/*
 * struct box_slot - a chunk
 * @node:	in op->adds; in job->sums, when the sum is made; in out->evicted
 * @ref:	the table's or the eviction's, and one for each sender of the sum
 * @chunk:	the chunk
 * @block:	its block
 * @job:	the job
 * @op:		the operation; not valid after an eviction
 * @dh:		header of the sum, without a number
 * @len:	its bytes
 * @turn:	contributions added to @sum, in the order of the ring
 * @next:	rank whose turn it is
 * @got:	mask of the ranks that contributed, or asked for a chunk of a broadcast
 * @made:	the sum of all ranks is here; or all have asked, and the root has contributed
 * @since:	when that happened, us
 * @due:	until when members waited for the contributions of others, or of the root, us
 * @up_node:	in job->rising
 * @up_seq:	number of its newest contribution to the box above
 * @up_at:	when that was sent, us
 * @nheld:	contributions held, see rar_slot_held()
 * @passed:	between boxes, where the order has an effect: @turn + 1, as it was when the partial
 *		sum was sent to another box, or this box asked for a partial sum; 0: not yet
 * @prio:	of the operation
 * @sum:	the partial sum, then the sum; after the entries of @come
 * @come:	by rank, its newest contribution: see rar_slot_come_at()
 */
struct box_slot {
	struct list_head node;
	refcount_t ref;
	u32 chunk;
	u32 block;
	struct box_job *job;
	struct box_op *op;
	struct rar_data_hdr dh;
	u32 len;
	u32 turn;
	u32 next;
	u32 nheld;
	u32 passed;
	u64 got;
	bool made;
	u8 prio;
	u64 since;
	u32 due;
	u32 up_seq;
	u32 up_at;
	struct list_head up_node;
	void *sum;
	u64 come[];
};

/*
 * struct box_op - an operation
 * @seq:	its number
 * @fingerprint: as the first member describes it
 * @kind:	its arithmetic
 * @any_order:	the order in which contributions are added has no effect
 * @passed:	the order has an effect, and there are several levels: partial sums go from box to
 *		box
 * @cast:	it is a broadcast: the root contributes, and the others ask
 * @reduce:	it is a reduction to a root, which alone gets the sum
 * @prio:	as the first member tells it; higher is more urgent
 * @ring:	where its chunks lie
 * @slots:	by chunk: a slot, or a value if the chunk is over, with or without a sum
 * @adds:	slots without a sum, oldest first
 * @cost:	bytes charged besides rows
 */
struct box_op {
	u64 seq;
	struct rar_fingerprint fingerprint;
	const struct rar_kind *kind;
	bool any_order;
	bool passed;
	bool cast;
	bool reduce;
	u8 prio;
	struct rar_ring ring;
	struct xarray slots;
	struct list_head adds;
	u64 cost;
};

/*
 * struct box_out - packets to send after job->lock is dropped; chunks by their place in a run
 * @now:	when the run came, us
 * @sums:	slots whose sum is sent, referenced
 * @fresh:	of @sums, those that go to all members; of a broadcast, to all that have asked; of
 *		a reduction to a root, to the root, and all others are answered
 * @whole:	of @sums, those of a broadcast that all have asked for: the root is told
 * @rise:	of @sums, those that are no sums of all ranks: they go to the box above
 * @asks:	of @rise, those without payload: the box above is asked for a partial sum
 * @fall:	of @sums, partial sums that go to a box below
 * @to:		the leg of each of @fall
 * @turn:	ranks that have added to each of @rise and @fall; 0 in @rise if the order has no
 *		effect
 * @came:	ranks that have added to the partial sums of the run that came, as its header says
 * @una:	the lowest number of which the box above has not sent the sum
 * @gone:	chunks given up
 * @gone_to:	ranks to tell so
 * @wait:	the sender has to wait for other members
 * @evicted:	slots of any job that are no more, each with a reference
 * @nevicted:	entries of @evicted
 */
struct box_out {
	u32 now;
	struct box_slot *sums[RAR_RUN_MAX];
	u64 fresh;
	u64 whole;
	u64 rise;
	u64 asks;
	u64 fall;
	u8 to[RAR_RUN_MAX];
	u8 turn[RAR_RUN_MAX];
	u32 came;
	u32 una;
	u64 gone;
	u64 gone_to;
	bool wait;
	struct list_head evicted;
	u32 nevicted;
};

/* A contribution: its number, and in the upper half when it came, us. */
static inline u64 rar_slot_come_at(u32 seq, u32 now)
{
	return (u64)now << 32 | seq;
}

/*
 * By rank, a contribution that came before its turn, or NULL. Where the order has no effect, the
 * first is the sum of all of them.
 */
static inline void **rar_slot_held(const struct box_job *job, struct box_slot *slot)
{
	return (void **)&slot->come[job->nlegs];
}

/* Is the partial sum of an evicted slot handed to the rank in turn? It may be at another box. */
static inline bool rar_slot_is_handed(const struct box_slot *slot)
{
	return slot->turn && !slot->job->levels;
}

/* Has the root of a broadcast contributed to a slot? Locklessly, or under job->lock. */
static inline bool rar_slot_has_root(const struct box_slot *slot)
{
	return READ_ONCE(slot->got) & BIT_ULL(be16_to_cpu(slot->dh.root));
}

/* The lowest number whose sum has not come from the box above. job->lock held. */
static inline u32 rar_slot_lowest_rising(struct box_job *job)
{
	const struct box_slot *first = list_first_entry_or_null(&job->rising, struct box_slot,
								up_node);

	return first ? first->up_seq : job->up_seq;
}

/* Drop a reference. Any context. */
static inline void rar_slot_put(struct box_slot *slot)
{
	if (refcount_dec_and_test(&slot->ref))
		kfree(slot);
}

void *rar_slot_get_room(struct box_job *job, size_t bytes, u8 prio, struct box_out *out);
struct box_op *rar_slot_find_op(struct box_job *job, const struct rar_data_hdr *dh);
void rar_slot_take(struct box_job *job, struct box_op *op, u32 chunk, u32 rank, u32 seq,
		   const void *data, u32 i, struct box_out *out);
void rar_slot_take_sum(struct box_job *job, struct box_op *op, u32 chunk,
		       const struct rar_pkt *pkt, u32 off, u32 i, struct box_out *out);
void rar_slot_take_partial(struct box_job *job, struct box_op *op, u32 chunk, const void *data,
			   u32 i, struct box_out *out);
void rar_slot_advance(struct box_job *job, struct box_leg *leg, u32 una);
void rar_slot_raise_base(struct box_job *job);
void rar_slot_raise_until(struct box_job *job, u64 until);
void rar_slot_end_returned(struct box_job *job, const struct rar_chunks_hdr *ch);
bool rar_slot_reclaim(struct box_job *job);
bool rar_slot_evict(struct box_job *job, u32 below, struct box_out *out);

bool rar_pool_charge(struct box_job *job, u64 bytes, bool row);
void rar_pool_uncharge(struct box_job *job, u64 bytes, bool row);
bool rar_pool_take(struct rar_box *box, u64 bytes);
void rar_pool_give(struct rar_box *box, u64 bytes);
bool rar_pool_short(const struct box_job *job);
bool rar_pool_make_room(struct box_job *job, u8 prio, struct box_out *out);

void rar_answer_return(struct box_job *job, const struct rar_link *from,
		       struct rar_chunks_hdr *ch);
void rar_answer_until(struct box_job *job, u64 until);
void rar_answer_ack(struct box_job *job, u32 rank);
void rar_answer_run(struct box_job *job, u32 from, const struct rar_data_hdr *dh, u32 n,
		    struct box_out *out);

#endif /* _RAR_BOX_SLOT_H */
