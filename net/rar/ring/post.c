// SPDX-License-Identifier: GPL-2.0
/*
 * Posting: puts an operation on the table, and uses the packets that came early for it.
 */
#include <linux/sched.h>

#include "core/arrival.h"
#include "core/counters.h"
#include "core/cursor.h"
#include "core/drop.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/pin.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/early.h"
#include "link/link.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/chunk.h"
#include "ring/done.h"
#include "ring/fail.h"
#include "ring/post.h"
#include "ring/push.h"
#include "ring/steer.h"

/*
 * Use a held packet. It was acknowledged when it came, so nobody will repeat it: only
 * duplicates and wrong chunks may be dropped here.
 */
static void replay(struct rar_member *m, struct sk_buff *skb)
{
	struct rar_pkt pkt = { .skb = skb, .off = rar_early_cb(skb)->off,
			       .len = rar_early_cb(skb)->len };
	struct rar_data_hdr dh;
	struct rar_arrival a = {
		.link = rar_member_link(m, rar_early_cb(skb)->link),
		.pkt = &pkt,
		.dh = &dh,
	};
	enum rar_rx ret;

	skb_copy_bits(skb, pkt.off, &dh, sizeof(dh));
	pkt.h = dh.h;
	pkt.whole = rar_early_cb(skb)->whole;
	pkt.carrier = rar_early_cb(skb)->carrier;
	a.op_seq = be64_to_cpu(dh.op_seq);
	a.run = (struct rar_run){ be32_to_cpu(dh.chunk), rar_early_cb(skb)->n,
				  dh.h.type == RAR_T_RS ? RAR_RS : RAR_AG };
	a.done = rar_mask(a.run.n);
	ret = rar_chunk_use(m, &a);
	if (ret == RAR_RX_DONE)
		consume_skb(skb);
	else if (ret != RAR_RX_TAKEN)
		rar_drop(m->rn, skb, rar_rx_why(ret));
}

/* Did a packet take credit, which its sender may lack now? */
static bool is_numbered(struct rar_member *m, struct sk_buff *skb)
{
	return rar_member_link(m, rar_early_cb(skb)->link)->rx.seen;
}

/*
 * Use a batch of the packets held. Sets @numbered if any came with a number.
 * Return: true if there were any.
 */
static bool use_early(struct rar_member *m, u64 op_seq, bool *numbered)
{
	struct sk_buff_head list;
	struct sk_buff *skb;
	bool any;

	__skb_queue_head_init(&list);
	local_bh_disable();
	rcu_read_lock();
	/* rar_msg_stop_writing() waits for a CPU that misses the failure here. */
	if (rar_member_state(m) != RAR_S_FAILED)
		rar_early_take(m, op_seq, false, &list);
	any = !skb_queue_empty(&list);
	while ((skb = __skb_dequeue(&list))) {
		*numbered |= is_numbered(m, skb);
		replay(m, skb);
	}
	rcu_read_unlock();
	local_bh_enable();
	return any;
}

/*
 * Nothing needs to arrive: the operation is complete when this rank has contributed all
 * of it. The successor may have acknowledged all of it before, so until this call @left
 * keeps the operation in the table.
 */
static void complete_without(struct rar_member *m, u64 op_seq)
{
	struct rar_operation *op = rcu_dereference(m->ops[op_seq % RAR_MAX_OPS]);

	if (op && op->seq == op_seq && !op->keyed && !rar_ring_need(&op->ring) &&
	    READ_ONCE(m->op_whole) > op_seq && atomic_cmpxchg(&op->left, 1, 0) == 1)
		rar_done(m, op);
}

/*
 * What makes the result of a group of one from its only operand, by reducing the operand with
 * itself: a logical result is 0 or 1, and a NaN is quiet. NULL: the operand is the result.
 */
static const struct rar_kind *alone_kind(const struct rar_operation *op)
{
	u8 dtype = op->fingerprint.dtype, redop = op->fingerprint.redop;

	if (op->codec || !rar_ring_reduces(op->fingerprint.collective))
		return NULL;
	if (redop == RAR_LAND || redop == RAR_LOR || redop == RAR_LXOR)
		return rar_reduce_kind(dtype, RAR_LOR);
	/* Floats have no bits to combine. */
	return rar_reduce_kind(dtype, RAR_BOR) ? NULL : rar_reduce_kind(dtype, RAR_MAX);
}

/*
 * Reduce the bytes at @off with themselves, up to a border of their memory. Returns how many. RCU
 * read side: after a failure the user's memory is given back after a grace period.
 */
static u32 reduce_some(const struct rar_operation *op, const struct rar_kind *kind, u64 off)
{
	u32 len = min_t(u64, op->bytes - off, RAR_REDUCE_MAX), n;
	struct rar_cursor cursor = { .buf = &op->buf };
	u8 element[sizeof(u64)];
	struct rar_reduce_ctx ctx;
	void *at;

	at = rar_cursor_at(&cursor, off, &n);
	len = min(n, len) / kind->size * kind->size;
	rar_reduce_begin(&ctx);
	if (len) {
		rar_reduce(&ctx, kind, at, at, at, at, len);
	} else {
		/* An element lies in two pieces. */
		len = kind->size;
		rar_cursor_read(&cursor, off, element, len);
		rar_reduce(&ctx, kind, element, element, element, element, len);
		rar_cursor_write(&cursor, off, element, len);
	}
	rar_reduce_end(&ctx);
	return len;
}

/* Make the result of a group of one. Process context. */
static void reduce_alone(struct rar_member *m, u64 op_seq)
{
	const struct rar_operation *op;
	const struct rar_kind *kind;
	u64 off = 0;
	bool more;

	do {
		rcu_read_lock();
		op = rcu_dereference(m->ops[op_seq % RAR_MAX_OPS]);
		kind = op && op->seq == op_seq && rar_member_runs(m) ? alone_kind(op) : NULL;
		if (kind && off < op->bytes)
			off += reduce_some(op, kind, off);
		more = kind && off < op->bytes;
		rcu_read_unlock();
		cond_resched();
	} while (more);
}

/**
 * rar_post_open() - after this rank contributed, use what came early and start
 * @m:    member
 * @op_seq: the operation
 * @tell:   tell the predecessor in any case, not only if it may lack credit
 *
 * Process context.
 */
void rar_post_open(struct rar_member *m, u64 op_seq, bool tell)
{
	bool any = false;

	while (use_early(m, op_seq, &any))
		cond_resched();
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_state(m) == RAR_S_FAILED)
		goto out;
	complete_without(m, op_seq);
	if (m->size == 1)
		goto out;
	rar_push(m);
	/* The predecessor may wait for this opening. */
	if (m->link[RAR_PREV]->here)
		rar_push_posted(m);
	if (tell || any || READ_ONCE(m->rn->sysctl_early_bytes) <
	    4 * (m->payload + RAR_EARLY_COST))
		rar_ack_send_all(m);
out:
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * rar_post_open_from() - rar_post_open() for an operation and for those after it
 * @m:      member
 * @op_seq: the operation; those after it were posted while it was not contributed in full
 *
 * Process context.
 */
void rar_post_open_from(struct rar_member *m, u64 op_seq)
{
	/* What the predecessor sent early may be of the lead, or of operations after this one. */
	rar_post_open(m, op_seq++, true);
	/* The last one may be contributed in part. */
	for (; op_seq <= READ_ONCE(m->op_whole) && op_seq < READ_ONCE(m->op_next); op_seq++)
		rar_post_open(m, op_seq, false);
}

/**
 * rar_post_all_unread() - do all operations of a member wait for recv()?
 * @m: member, @m->lock held
 *
 * Return: true if only recv() makes room. A send() that waits for the oldest result takes it.
 */
bool rar_post_all_unread(struct rar_member *m)
{
	const struct rar_operation *op;

	lockdep_assert_held(&m->lock);
	op = list_first_entry_or_null(&m->undelivered, struct rar_operation, node);
	return op && !op->blocking && rar_member_idle(m);
}

static int may_post(struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	if (m->state == RAR_S_FAILED)
		return -m->error.err;
	if (m->shut || m->state == RAR_S_LEAVING)
		return -EPIPE;
	if (m->state != RAR_S_RUN)
		return -ENOTCONN;
	if (m->nundelivered == RAR_MAX_OPS)
		return rar_post_all_unread(m) ? -ENOBUFS : -EAGAIN;
	if (rcu_access_pointer(m->ops[m->op_next % RAR_MAX_OPS]))
		return -EAGAIN;
	return 0;
}

/**
 * rar_post_may() - may an operation be posted now?
 * @m: member
 *
 * Return: as rar_post().
 */
int rar_post_may(struct rar_member *m)
{
	int err;

	spin_lock_bh(&m->lock);
	err = may_post(m);
	spin_unlock_bh(&m->lock);
	return err;
}

/**
 * rar_post() - hand an operation to the ring
 * @m: member
 * @op:  scheduled and filled; the caller's reference passes to the list of
 *       undelivered operations on success
 *
 * Process context, send_lock held.
 *
 * Return: 0; -EAGAIN if the table is full; -ENOBUFS if all its operations are complete and
 * unread; -EBUSY if the caller would wait for the result, but results before it are not read;
 * -EPIPE, -ENOTCONN, -ENOMEM or the group's error.
 */
int rar_post(struct rar_member *m, struct rar_operation *op)
{
	u64 bytes = op->bytes, seq;
	bool steps = op->step && !op->pinned;
	enum rar_reason left_why;
	u32 left_rank;
	bool late;
	int err;

	err = rar_link_reserve(m, &op->ring);
	if (err)
		return err;
	spin_lock_bh(&m->lock);
	err = may_post(m);
	if (!err && op->blocking && m->nundelivered)
		err = -EBUSY;
	if (err) {
		spin_unlock_bh(&m->lock);
		return err;
	}
	seq = m->op_next;
	late = m->leave.left && seq >= m->leave.last;
	left_rank = m->leave.rank;
	left_why = m->leave.why;
	op->seq = seq;
	list_add_tail(&op->node, &m->undelivered);
	m->nundelivered++;
	refcount_inc(&op->ref);
	rar_pin_posted(m, op);
	rar_steer_plan(m, op);
	trace_rar_post(m, seq, bytes);
	rar_link_post(m, op);
	rar_counters_update(m);
	spin_unlock_bh(&m->lock);

	rar_mib_inc(m->rn, OpsPosted);
	rar_mib_add(m->rn, OpBytes, bytes);
	if (late) {
		rar_fail_pair(m, ECONNRESET, left_why, left_rank, left_rank,
			      seq);
		return 0;
	}
	if (m->size == 1)
		reduce_alone(m, seq);
	rar_post_open(m, seq, false);
	rar_member_kick(m, jiffies + 1);
	/* A reader that waits already must ask to be woken for this operation's steps. */
	if (steps)
		rar_member_wake(m);
	return 0;
}
