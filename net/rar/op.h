/* SPDX-License-Identifier: GPL-2.0 */
/* An operation: its buffer, the state of its chunks, its end. */
#ifndef _RAR_OP_H
#define _RAR_OP_H

#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>

#include "ring.h"

struct rar_net;

/* What all members must agree on; see struct rar_data_hdr. */
struct rar_print {
	u64 count;
	u16 root;
	u8 collective;
	u8 dtype;
	u8 redop;
	u8 flags;
};

/* A transmission chosen under tx.lock, built and sent after it. */
struct rar_tx_item {
	struct rar_operation *op;	/* referenced */
	u32 chunk;
	u32 seq;
	u32 una;
	enum rar_phase phase;
	bool ack_now;
};

/*
 * struct rar_operation - one collective call at this rank
 *
 * The buffer is the state: any packet can be made again from @buf and
 * (phase, chunk). Life of a chunk:
 *
 *	contributed   copied in before the operation is posted
 *	claimed[p]    one atomic test-and-set, by whoever adds or stores
 *	published[p]  release: the sum of phase p is in @buf; pairs with the
 *	              acquire in rar_op_published()
 *	acked[p]      the successor has it, or provably needs it no more
 *
 * complete: @left is 0, every chunk is published in AG.
 * released: complete, and @nacked is @ring's ntx; nothing is sent from @buf
 * any more.
 *
 * @ref: the table grp->ops until released; the list grp->undelivered until
 * delivered; each rar_tx_item. Receivers find it under RCU without a
 * reference: freed after a grace period.
 * tx.lock protects the fields from @pend on; grp->lock @node and @read's
 * owner is the reader (recv_lock).
 */
struct rar_operation {
	struct rar_ring ring;
	struct rar_print print;
	u64 seq;
	u64 cookie;
	u32 esize;
	refcount_t ref;
	struct rcu_head rcu;
	struct rar_net *rn;
	u64 charged;

	void *buf;
	u64 filled;			/* bytes copied in (send_lock) */
	u64 read;			/* bytes copied out (recv_lock) */
	u64 posted_us;
	struct list_head node;
	bool complete;
	atomic_t left;

	unsigned long *bits;
	unsigned long *claimed[RAR_PHASES];
	unsigned long *published[RAR_PHASES];

	unsigned long *pend[RAR_PHASES];
	unsigned long *acked[RAR_PHASES];
	unsigned long *sent[RAR_PHASES];	/* at least once */
	u32 npend[RAR_PHASES];
	u32 pend_from[RAR_PHASES];	/* no pending bit below */
	u32 inject;			/* next own chunk to inject */
	u32 inject_first;
	u32 inject_end;
	u32 *inject_us;			/* by own chunk: when, 0 = not timed */
	bool returned;			/* an own chunk came round */
	u32 nsent;
	u32 nacked;
	u32 ntx;			/* what nsent and nacked end at */
	u64 early_cost;			/* credit taken, see tx.early_used */
};

struct rar_operation *rar_op_alloc(struct rar_net *rn, u64 bytes, bool first);
int rar_op_schedule(struct rar_operation *op, const struct rar_print *print,
		    u32 esize, u32 payload, u32 size, u32 rank);
void rar_op_put(struct rar_operation *op);
u32 rar_print_hash(const struct rar_print *p);

/*
 * The one claim of a chunk in a phase. Whoever gets true adds (RS) or stores
 * (AG) it and publishes; there is no exit in between.
 */
static inline bool rar_op_claim(struct rar_operation *op, enum rar_phase p,
				u32 chunk)
{
	return !test_and_set_bit(chunk, op->claimed[p]);
}

/* Release: pairs with rar_op_published(). */
static inline void rar_op_publish(struct rar_operation *op, enum rar_phase p,
				  u32 chunk)
{
	smp_mb__before_atomic(); /* release: the buffer before the bit */
	set_bit(chunk, op->published[p]);
}

/* Acquire: pairs with rar_op_publish(). */
static inline bool rar_op_published(const struct rar_operation *op,
				    enum rar_phase p, u32 chunk)
{
	bool set = test_bit(chunk, op->published[p]);

	smp_rmb(); /* acquire: the bit before the buffer */
	return set;
}

#endif /* _RAR_OP_H */
