// SPDX-License-Identifier: GPL-2.0
/*
 * Unexpected messages: packets of chunks to which this rank has not contributed yet. Mostly
 * their operation is not posted yet. They are held, within bounds, and used once this rank
 * has contributed.
 */
#include <linux/mm.h>

#include "core/arrival.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/user.h"
#include "link/early.h"
#include "tx/carrier.h"
#include "rar.h"

/* Held packets may cost this many times early_bytes: their truesize counts, not their payload. */
#define EARLY_TRUESIZE	8
/* All namespaces together may hold the machine's memory shifted right by this, */
#define EARLY_ALL_SHIFT	5
/* but the last eighth of it is for users that hold less than a 64th. */
#define EARLY_RESERVE	8
#define EARLY_FEW	64
/* Packets that are used, or freed, before other work has its turn. */
#define EARLY_BATCH	32

static atomic64_t early_all;

static struct sk_buff **early_list(struct rar_member *m, u64 op_seq)
{
	return &m->early.ops[op_seq % RAR_MAX_OPS];
}

/* Add a packet behind the last one of a list. */
static void early_add(struct sk_buff **last, struct sk_buff *skb)
{
	skb->next = *last ? (*last)->next : skb;
	if (*last)
		(*last)->next = skb;
	*last = skb;
}

/* Take the packet behind @before off a list. */
static void early_del(struct sk_buff **last, struct sk_buff *before)
{
	struct sk_buff *skb = before->next;

	before->next = skb->next;
	if (skb == *last)
		*last = skb == before ? NULL : before;
	skb->next = NULL;
}

/* Charge the user and the limit of all namespaces together. */
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

static enum rar_rx early_charge(struct rar_member *m, struct sk_buff *skb)
{
	u64 limit = EARLY_TRUESIZE * (u64)READ_ONCE(m->rn->sysctl_early_bytes);

	lockdep_assert_held(&m->early.lock);
	if (m->early.truesize + skb->truesize > limit)
		return RAR_DROP(EarlyFull);
	if (atomic64_add_return(skb->truesize, &m->rn->early) >
	    READ_ONCE(m->rn->sysctl_mem) / 4 ||
	    !early_charge_host(m->user, skb->truesize)) {
		atomic64_sub(skb->truesize, &m->rn->early);
		return RAR_DROP(EarlyFull);
	}
	m->early.truesize += skb->truesize;
	return RAR_RX_DONE;
}

static void early_uncharge(struct rar_member *m, struct sk_buff *skb)
{
	m->early.truesize -= skb->truesize;
	atomic64_sub(skb->truesize, &m->rn->early);
	atomic64_sub(skb->truesize, &m->user->early);
	atomic64_sub(skb->truesize, &early_all);
}

/* Does a device's driver want the pages back? Then they must not wait for a user. */
static bool early_lent(const struct sk_buff *skb)
{
#ifdef CONFIG_PAGE_POOL
	return skb->pp_recycle;
#else
	return false;
#endif
}

/*
 * The part of a packet to hold: the packet itself, or a copy if the packet belongs to a
 * superpacket, lies in a device's pages or is a carrier.
 */
static struct sk_buff *early_skb(const struct rar_member *m,
				 struct rar_pkt *pkt, u32 *off)
{
	u32 len = pkt->len + m->tail;
	struct sk_buff *skb;

	if (pkt->carrier) {
		*off = 0;
		return rar_carrier_keep(pkt);
	}
	if ((!skb_is_gso(pkt->skb) || pkt->whole) && !early_lent(pkt->skb)) {
		pkt->skb = skb_share_check(pkt->skb, GFP_ATOMIC);
		*off = pkt->off;
		return pkt->skb;
	}
	skb = alloc_skb(len, GFP_ATOMIC);
	if (skb)
		skb_copy_bits(pkt->skb, pkt->off, skb_put(skb, len), len);
	*off = 0;
	return skb;
}

/*
 * Hold a packet that is too early. It is recorded when it is held, so its length and its
 * operation are checked now. Returns RAR_RX_RETRY if it is not too early any more.
 */
enum rar_rx rar_early_hold(struct rar_member *m, const struct rar_arrival *a)
{
	const struct rar_data_hdr *dh = a->dh;
	const struct rar_run *run = &a->run;
	struct rar_fingerprint fingerprint = rar_op_described(dh);
	u64 op_seq = a->op_seq, op_next;
	struct rar_pkt *pkt = a->pkt;
	struct rar_ring ring;
	struct rar_chunk c;
	struct sk_buff *skb;
	enum rar_rx ret;
	u32 off;

	if (rar_op_cut(&ring, &fingerprint, m->payload, &m->place))
		return RAR_DROP(Op);
	ret = rar_op_check(&ring, run, rar_pkt_bytes(m, pkt, run->n), &c);
	if (ret != RAR_RX_DONE)
		return ret;
	skb = early_skb(m, pkt, &off);
	if (!skb)
		return RAR_DROP(Memory);

	spin_lock_bh(&m->early.lock);
	op_next = READ_ONCE(m->op_next);
	/* Pairs with rar_post_open(), which contributes first and then takes the list. */
	if (!rar_op_early(m, op_seq, run))
		ret = RAR_RX_RETRY;
	/* The operation will never be posted, and the list was flushed. */
	else if ((op_seq >= op_next && READ_ONCE(m->shut)) ||
		 rar_member_state(m) == RAR_S_FAILED)
		ret = RAR_DROP(State);
	else if (op_seq >= op_next + RAR_MAX_OPS)
		ret = RAR_DROP(Op);
	else
		ret = early_charge(m, skb);
	if (ret == RAR_RX_DONE) {
		/* Nothing outside may be kept waiting by a packet that waits for a user. */
		skb_dst_drop(skb);
		skb_orphan(skb);
		nf_reset_ct(skb);
		skb_ext_reset(skb);
		skb->dev = NULL;
		*rar_early_cb(skb) = (struct rar_early_cb) {
			.off = off, .len = pkt->len, .n = run->n,
			.whole = pkt->whole || skb != pkt->skb, .carrier = pkt->carrier,
			.link = a->link->index, .chunk = run->chunk, .op_seq = op_seq,
		};
		early_add(early_list(m, op_seq), skb);
		rar_mib_add(m->rn, EarlyHeld, run->n);
		ret = skb == pkt->skb ? RAR_RX_TAKEN : RAR_RX_DONE;
		skb = pkt->skb;
	}
	spin_unlock_bh(&m->early.lock);
	if (skb != pkt->skb)
		kfree_skb(skb);
	return ret;
}

static bool still_early(const struct rar_member *m, const struct rar_early_cb *cb)
{
	const struct rar_run run = { .chunk = cb->chunk, .n = cb->n };

	return rar_op_early(m, cb->op_seq, &run);
}

/**
 * rar_early_take() - take a batch of the packets held for an operation
 * @m:      member
 * @op_seq: the operation
 * @all:    take every packet; otherwise only those that are not too early any more
 * @out:    taken packets are added to this list, up to EARLY_BATCH
 */
void rar_early_take(struct rar_member *m, u64 op_seq, bool all,
		    struct sk_buff_head *out)
{
	struct sk_buff **last = early_list(m, op_seq), *before, *end, *skb;

	spin_lock_bh(&m->early.lock);
	before = *last;
	end = before;
	while (before && skb_queue_len(out) < EARLY_BATCH) {
		skb = before->next;
		if (!all && still_early(m, rar_early_cb(skb))) {
			before = skb;
		} else {
			early_del(last, before);
			early_uncharge(m, skb);
			__skb_queue_tail(out, skb);
		}
		if (skb == end)
			break;
	}
	spin_unlock_bh(&m->early.lock);
}

/* Drop every held packet: the member failed or ends. Process context. */
void rar_early_flush(struct rar_member *m)
{
	struct sk_buff_head list;
	u32 i;

	__skb_queue_head_init(&list);
	for (i = 0; i < RAR_MAX_OPS; i++)
		while (READ_ONCE(m->early.ops[i])) {
			rar_early_take(m, i, true, &list);
			__skb_queue_purge(&list);
			cond_resched();
		}
}

void rar_early_init(struct rar_member *m)
{
	spin_lock_init(&m->early.lock);
}

