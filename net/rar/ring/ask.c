// SPDX-License-Identifier: GPL-2.0
/*
 * Questions between ranks that exchange directly (direct.c): when a rank asks
 * another for chunks, or whether an operation is complete there, and for how
 * long it has had no answer.
 */
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "link/link.h"
#include "rar.h"
#include "ring/ask.h"
#include "ring/direct.h"
#include "ring/halving.h"
#include "ring/peer.h"

/*
 * struct question - what is asked of a rank
 * @seq:     the oldest operation of which chunks are missing
 * @missing: these chunks, a bit each
 * @facts:   for chunks, or whether operations are complete there
 * @numbers: for an acknowledgment of the numbers of its link, of which @una is
 *           the lowest that is not acknowledged
 */
struct question {
	u64 seq;
	u64 missing;
	bool facts;
	bool numbers;
	u32 una;
};

/* Find what this rank must ask another rank. tx_lock. */
static struct question needs(struct rar_member *m, u32 slot)
{
	struct rar_link *link = &m->direct.peer[slot].link;
	struct question q = { .una = link->tx.una };
	struct rar_operation *op;
	u64 i;

	for (i = m->op_oldest; i < m->op_whole && !q.missing; i++) {
		op = rar_link_op_at(m, i);
		if (!op || !op->ring.plan.direct)
			continue;
		q.numbers |= op->ring.plan.halving &&
			     rar_halving_waits(m, op, link);
		q.seq = i;
		q.missing = rar_direct_lacks(op, link->rank);
		/* If it is not complete here it cannot be released anyway. */
		q.facts |= q.missing ||
			   ((op->peers & BIT_ULL(slot)) &&
			    (op->keyed || !atomic_read(&op->left)));
	}
	return q;
}

/*
 * For how long a rank need not be asked any more, us. A link sends lost chunks
 * again by itself, so the question is only whether the rank lives, and there is
 * time for that while it is heard.
 */
static u64 spared_us(struct rar_link *link, const struct question *q)
{
	u64 wait = rar_member_ask_us(link->member), past;

	if (q->facts)
		return 0;
	past = jiffies_to_usecs(jiffies - READ_ONCE(link->heard));
	return past < wait ? wait - past : 0;
}

/* Is a question to a rank due? Sets the time of the next one. tx_lock. */
static bool question_due(struct rar_member *m, u32 slot, u64 now,
			 struct question *q)
{
	struct rar_direct_peer *peer = &m->direct.peer[slot];
	u32 longest;
	u64 spared;

	*q = needs(m, slot);
	if (!q->facts && !q->numbers) {
		peer->ask_us = 0;
		peer->asked_us = 0;
		peer->backoff = 0;
		return false;
	}
	if (!peer->ask_us || now < peer->ask_us) {
		rar_peer_watch(peer, now);
		return false;
	}
	spared = spared_us(&peer->link, q);
	if (spared) {
		peer->ask_us = now + spared;
		rar_link_timer_at(m, peer->ask_us);
		return false;
	}
	if (!peer->asked_us)
		peer->asked_us = now;
	peer->backoff = min(peer->backoff + 1, 10U);
	longest = max(peer->rto_us, rar_member_ask_us(m));
	peer->ask_us = now + min_t(u64, (u64)peer->rto_us << peer->backoff,
				   longest);
	rar_link_timer_at(m, peer->ask_us);
	return true;
}

static void ask(struct rar_link *link, const struct question *q)
{
	struct rar_done_hdr dh = {
		.op_seq = cpu_to_be64(q->seq),
		.lacks = cpu_to_be64(q->missing),
		.flags = cpu_to_be32((q->facts ? RAR_DF_ASK : 0) |
				     (q->numbers ? RAR_DF_UNA : 0)),
		.chunk = cpu_to_be32(q->numbers ? q->una : 0),
	};

	rar_mib_inc(link->member->rn, TxDirectAsk);
	rar_direct_send_done(link, &dh);
}

/* All slots, a bit each; not that of this rank. */
static u64 all_slots(const struct rar_member *m)
{
	u64 all = GENMASK_ULL(m->direct.n - 1, 0);

	return m->direct.all ? all & ~BIT_ULL(m->rank) : all;
}

/**
 * rar_ask_tick() - tell and ask what is due; part of the timer of all links
 * @m: member in RUN or LEAVING, RCU read side; no lock held
 *
 * Softirq.
 */
void rar_ask_tick(struct rar_member *m)
{
	struct rar_direct *d = &m->direct;
	u64 now = rar_now_us();
	struct question q;
	u64 news = 0;
	u32 slot;
	bool due;

	if (!d->paired)
		return;
	spin_lock_bh(&m->tx_lock);
	if (d->news_us && now >= d->news_us) {
		news = d->news;
		d->news_us = 0;
	} else if (d->news_us) {
		rar_link_timer_at(m, d->news_us);
	}
	spin_unlock_bh(&m->tx_lock);
	if (news)
		rar_direct_tell(m, news);
	for (slot = 0; slot < d->n; slot++) {
		if (!(all_slots(m) & BIT_ULL(slot)))
			continue;
		spin_lock_bh(&m->tx_lock);
		due = question_due(m, slot, now, &q);
		spin_unlock_bh(&m->tx_lock);
		if (due)
			ask(&d->peer[slot].link, &q);
	}
	rar_direct_push(m);
}

/**
 * rar_ask_silent() - find a rank that has not answered for too long
 * @m:    member
 * @rank: set to the rank
 * @ms:   set to the time for which it has not answered
 *
 * Any context, no lock held.
 *
 * Return: true if there is one.
 */
bool rar_ask_silent(struct rar_member *m, u32 *rank, u32 *ms)
{
	u64 now = rar_now_us(), since;
	u32 dead = READ_ONCE(m->rn->sysctl_dead_ms), i;

	for (i = 0; m->direct.paired && i < m->direct.n; i++) {
		since = READ_ONCE(m->direct.peer[i].asked_us);
		if (!since || now < since + dead * (u64)USEC_PER_MSEC)
			continue;
		*rank = m->direct.peer[i].link.rank;
		*ms = div_u64(now - since, USEC_PER_MSEC);
		return true;
	}
	return false;
}
