// SPDX-License-Identifier: GPL-2.0
/*
 * Packets of chunks to which this rank has not contributed yet, mostly because the
 * operation is not posted: they are held, within bounds, and used when it has.
 */
#include <linux/mm.h>

#include "rx/input.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "core/user.h"

/* Held packets may cost this times early_bytes: truesize against payload. */
#define EARLY_TRUESIZE	8
/* All namespaces together: this part of the machine's memory, */
#define EARLY_ALL_SHIFT	5
/* the last eighth of it for users who hold less than a 64th. */
#define EARLY_RESERVE	8
#define EARLY_FEW	64
/* So many are used, or freed, before other work has its turn. */
#define EARLY_BATCH	32

static atomic64_t early_all;

struct early_cb {
	u32 off;
	u32 len;
	u32 n;			/* chunks */
	bool whole;		/* as in struct rar_pkt */
	u32 chunk;
	u64 op_seq;
};

static struct early_cb *early_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct early_cb) > sizeof(skb->cb));
	return (struct early_cb *)skb->cb;
}

static struct sk_buff_head *early_list(struct rar_member *m, u64 op_seq)
{
	return &m->early.ops[op_seq % RAR_MAX_OPS];
}

/* Of all namespaces. */
static bool early_charge_host(struct rar_user *user, u32 bytes)
{
	u64 max = (u64)totalram_pages() << PAGE_SHIFT >> EARLY_ALL_SHIFT;
	u64 held = atomic64_add_return(bytes, &user->early);

	if (held > max / EARLY_FEW)
		max -= max / EARLY_RESERVE;
	if (atomic64_add_return(bytes, &early_all) <= max)
		return true;
	atomic64_sub(bytes, &early_all);
	atomic64_sub(bytes, &user->early);
	return false;
}

static int early_charge(struct rar_member *m, struct sk_buff *skb)
{
	u64 limit = EARLY_TRUESIZE * (u64)READ_ONCE(m->rn->sysctl_early_bytes);

	lockdep_assert_held(&m->early.lock);
	if (m->early.truesize + skb->truesize > limit)
		return RAR_MIB_DropEarlyFull;
	if (atomic64_add_return(skb->truesize, &m->rn->early) >
	    READ_ONCE(m->rn->sysctl_mem) / 4 ||
	    !early_charge_host(m->user, skb->truesize)) {
		atomic64_sub(skb->truesize, &m->rn->early);
		return RAR_MIB_DropEarlyFull;
	}
	m->early.truesize += skb->truesize;
	return INPUT_OK;
}

static void early_uncharge(struct rar_member *m, struct sk_buff *skb)
{
	m->early.truesize -= skb->truesize;
	atomic64_sub(skb->truesize, &m->rn->early);
	atomic64_sub(skb->truesize, &m->user->early);
	atomic64_sub(skb->truesize, &early_all);
}

/* Does a device's driver want the pages back? Then it must not wait for a user. */
static bool early_lent(const struct sk_buff *skb)
{
#ifdef CONFIG_PAGE_POOL
	return skb->pp_recycle;
#else
	return false;
#endif
}

/*
 * What can be kept of a packet: itself, or a copy if it is part of a superpacket or lies
 * in a device's pages.
 */
static struct sk_buff *early_skb(struct rar_pkt *pkt, u32 *off)
{
	struct sk_buff *skb;

	if ((!skb_is_gso(pkt->skb) || pkt->whole) && !early_lent(pkt->skb)) {
		pkt->skb = skb_share_check(pkt->skb, GFP_ATOMIC);
		*off = pkt->off;
		return pkt->skb;
	}
	skb = alloc_skb(pkt->len, GFP_ATOMIC);
	if (skb)
		skb_copy_bits(pkt->skb, pkt->off, skb_put(skb, pkt->len), pkt->len);
	*off = 0;
	return skb;
}

/*
 * A packet that is too early: keep it. It is recorded when held, so everything that
 * can be wrong with it is checked now. Returns -EAGAIN if its time came meanwhile.
 */
int rar_early_hold(struct rar_member *m, struct rar_pkt *pkt,
		   const struct rar_data_hdr *dh, const struct rar_run *run)
{
	u64 op_seq = be64_to_cpu(dh->op_seq), op_next;
	u32 esize = rar_dtype_size(dh->dtype), off;
	struct rar_plan plan;
	struct rar_ring ring;
	struct rar_chunk c;
	struct sk_buff *skb;
	int ret;

	if (!esize || be64_to_cpu(dh->count) > RAR_MAX_BYTES / esize ||
	    rar_ring_plan(&plan, &m->place, dh->collective, dh->opflags,
			  be16_to_cpu(dh->root)) ||
	    rar_ring_cut(&ring, be64_to_cpu(dh->count) * esize, m->payload, &plan))
		return RAR_MIB_DropOp;
	ret = rar_chunk_check(&ring, run, pkt->len - run->n * sizeof(*dh), &c);
	if (ret != INPUT_OK)
		return ret;
	skb = early_skb(pkt, &off);
	if (!skb)
		return RAR_MIB_DropMemory;

	spin_lock_bh(&m->early.lock);
	op_next = READ_ONCE(m->op_next);
	/* Pairs with rar_early_post(): contributed first, then it takes the list. */
	if (!rar_chunk_early(m, op_seq, run))
		ret = -EAGAIN;
	/* It never will be posted, and the list was flushed. */
	else if ((op_seq >= op_next && READ_ONCE(m->shut)) ||
		 rar_member_state(m) == RAR_S_FAILED)
		ret = RAR_MIB_DropState;
	else if (op_seq >= op_next + RAR_MAX_OPS)
		ret = RAR_MIB_DropOp;
	else
		ret = early_charge(m, skb);
	if (ret == INPUT_OK) {
		/* Nothing outside may wait for a packet that waits for a user. */
		skb_dst_drop(skb);
		skb_orphan(skb);
		nf_reset_ct(skb);
		skb_ext_reset(skb);
		skb->dev = NULL;
		*early_cb(skb) = (struct early_cb) {
			.off = off, .len = pkt->len, .n = run->n,
			.whole = pkt->whole || skb != pkt->skb,
			.chunk = run->chunk, .op_seq = op_seq,
		};
		__skb_queue_tail(early_list(m, op_seq), skb);
		rar_mib_add(m->rn, EarlyHeld, run->n);
		ret = skb == pkt->skb ? INPUT_TAKEN : INPUT_OK;
		skb = pkt->skb;
	}
	spin_unlock_bh(&m->early.lock);
	if (skb != pkt->skb)
		kfree_skb(skb);
	return ret;
}

static bool still_early(const struct rar_member *m, const struct early_cb *cb)
{
	const struct rar_run run = { .chunk = cb->chunk, .n = cb->n };

	return rar_chunk_early(m, cb->op_seq, &run);
}

/* Take a batch of what is held for an operation and not too early any more, or of all. */
static void early_take(struct rar_member *m, u64 op_seq, bool all,
		       struct sk_buff_head *out)
{
	struct sk_buff_head *list = early_list(m, op_seq);
	struct sk_buff *skb, *tmp;

	spin_lock_bh(&m->early.lock);
	skb_queue_walk_safe(list, skb, tmp) {
		if (skb_queue_len(out) == EARLY_BATCH)
			break;
		if (!all && still_early(m, early_cb(skb)))
			continue;
		__skb_unlink(skb, list);
		early_uncharge(m, skb);
		__skb_queue_tail(out, skb);
	}
	spin_unlock_bh(&m->early.lock);
}

/* A held packet was recorded when it came: it is never dropped for good. */
static void early_replay(struct rar_member *m, struct sk_buff *skb)
{
	struct rar_pkt pkt = { .skb = skb, .off = early_cb(skb)->off,
			       .len = early_cb(skb)->len };
	struct rar_data_hdr dh;
	struct rar_run run;
	u64 done, dups;
	int ret;

	skb_copy_bits(skb, pkt.off, &dh, sizeof(dh));
	pkt.h = dh.h;
	pkt.whole = early_cb(skb)->whole;
	run = (struct rar_run){ be32_to_cpu(dh.chunk), early_cb(skb)->n,
				dh.h.type == RAR_T_RS ? RAR_RS : RAR_AG };
	ret = rar_chunk_use(m, &pkt, &dh, &run, &done, &dups);
	if (ret == INPUT_OK)
		consume_skb(skb);
	else if (ret != INPUT_TAKEN)
		rar_input_drop(m->rn, skb, ret);
}

/* Use a batch of what is held. Return: was there any? */
static bool early_use(struct rar_member *m, u64 op_seq)
{
	struct sk_buff_head list;
	struct sk_buff *skb;
	bool any;

	__skb_queue_head_init(&list);
	local_bh_disable();
	rcu_read_lock();
	/* As for packets: rar_msg_stop_writing() waits for who does not see this. */
	if (rar_member_state(m) != RAR_S_FAILED)
		early_take(m, op_seq, false, &list);
	any = !skb_queue_empty(&list);
	while ((skb = __skb_dequeue(&list)))
		early_replay(m, skb);
	rcu_read_unlock();
	local_bh_enable();
	return any;
}

/*
 * Nothing needs to arrive: the operation is complete when this rank has contributed all
 * of it.
 */
static void complete_without(struct rar_member *m, u64 op_seq)
{
	struct rar_operation *op = rcu_dereference(m->ops[op_seq % RAR_MAX_OPS]);

	if (op && op->seq == op_seq && !rar_ring_need(&op->ring) &&
	    READ_ONCE(m->op_whole) > op_seq)
		rar_member_op_done(m, op);
}

/**
 * rar_early_post() - this rank contributed: use what came early, and start
 * @m:    member
 * @op_seq: the operation
 * @tell:   the predecessor is told in any case
 *
 * Process context.
 */
void rar_early_post(struct rar_member *m, u64 op_seq, bool tell)
{
	bool any = false;

	while (early_use(m, op_seq)) {
		any = true;
		cond_resched();
	}
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_state(m) == RAR_S_FAILED)
		goto out;
	complete_without(m, op_seq);
	if (m->size == 1)
		goto out;
	rar_link_push(m);
	/* The predecessor may wait for this opening. */
	if (m->prev_here)
		rar_local_posted(m);
	if (tell || any || READ_ONCE(m->rn->sysctl_early_bytes) <
	    4 * (m->payload + RAR_EARLY_COST))
		rar_ack_send(m);
out:
	rcu_read_unlock();
	local_bh_enable();
}

/* Drop everything held: the group failed or ends. Process context. */
void rar_early_flush(struct rar_member *m)
{
	struct sk_buff_head list;
	u32 i;

	__skb_queue_head_init(&list);
	for (i = 0; i < RAR_MAX_OPS; i++)
		while (!skb_queue_empty_lockless(&m->early.ops[i])) {
			early_take(m, i, true, &list);
			__skb_queue_purge(&list);
			cond_resched();
		}
}

void rar_early_init(struct rar_member *m)
{
	u32 i;

	spin_lock_init(&m->early.lock);
	for (i = 0; i < RAR_MAX_OPS; i++)
		__skb_queue_head_init(&m->early.ops[i]);
}

