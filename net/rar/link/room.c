// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of links: slots for the chunks in flight, which grow with what a
 * link may have under way, and the map of the numbers that came.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>

#include "core/halving.h"
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "link/link.h"
#include "link/sent.h"
#include "link/window.h"
#include "rar.h"

#define LINK_SLOTS		64U	/* to begin with: chunks in flight */
#define LINK_SLOTS_OFTEN	1024U	/* for all chunks of an operation */

/*
 * Give a link @n slots, unless it has as many already. Chunks in flight keep
 * their numbers. Without memory nothing changes.
 */
static void set_slots(struct rar_link *link, u32 n, gfp_t gfp)
{
	size_t map = BITS_TO_LONGS(n) * sizeof(long);
	struct rar_link_tx *tx = &link->tx, more = { .nslots = n };
	struct rar_sent *old;

	more.sent = kzalloc(n * sizeof(*more.sent) + 2 * map, gfp);
	if (!more.sent)
		return;
	more.heads = (unsigned long *)(more.sent + n);
	more.resolved = more.heads + BITS_TO_LONGS(n);
	spin_lock_bh(&link->member->tx_lock);
	old = more.sent;
	if (tx->nslots < n) {
		rar_sent_move(&more, tx);
		old = tx->sent;
		WRITE_ONCE(tx->nslots, n);
		tx->heads = more.heads;
		tx->resolved = more.resolved;
		WRITE_ONCE(tx->sent, more.sent);
	}
	spin_unlock_bh(&link->member->tx_lock);
	kfree(old);
}

/**
 * rar_link_prepare() - allocate memory for the first chunks in flight
 * @link: link by which chunks will go
 *
 * Process context.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_link_prepare(struct rar_link *link)
{
	if (!READ_ONCE(link->tx.nslots))
		set_slots(link, LINK_SLOTS, GFP_KERNEL_ACCOUNT);
	return READ_ONCE(link->tx.nslots) ? 0 : -ENOMEM;
}

/*
 * The slots for @flying chunks in flight. More than LINK_SLOTS_OFTEN do not
 * stay in the cache, and only a long link needs them: as many as four times the
 * window, which grows meanwhile.
 */
static u32 slots_for(struct rar_link *link, u32 flying)
{
	const struct rar_window *win = &link->tx.win;
	u32 most = LINK_SLOTS_OFTEN;

	spin_lock_bh(&link->member->tx_lock);
	if (win->srtt_us && !rar_window_near(win))
		most = max(4 * win->cwnd, most);
	spin_unlock_bh(&link->member->tx_lock);
	return roundup_pow_of_two(min(most, flying));
}

/* Let a link have slots for @flying chunks in flight, if it has any. */
static void reserve(struct rar_link *link, u32 flying)
{
	u32 want = slots_for(link, flying), have = READ_ONCE(link->tx.nslots);

	if (have && have < want)
		set_slots(link, want, GFP_KERNEL_ACCOUNT | __GFP_NOWARN |
				      __GFP_NORETRY);
}

/**
 * rar_link_open_rx() - be ready for numbers that come by a link
 * @link: direct link
 * @gfp:  how to allocate
 *
 * Any context that @gfp allows, RCU read side.
 *
 * Return: false without memory.
 */
bool rar_link_open_rx(struct rar_link *link, gfp_t gfp)
{
	unsigned long *seen;

	if (READ_ONCE(link->rx.seen))
		return true;
	seen = bitmap_zalloc(RAR_RX_WIN, gfp);
	if (!seen)
		return false;
	/* Another CPU may have been faster. */
	if (cmpxchg(&link->rx.seen, NULL, seen))
		bitmap_free(seen);
	return true;
}

/* The chunks of @ops operations that may be in flight on a link, at most. */
static u32 flying_of(u64 ops, u32 chunks)
{
	return min_t(u64, ops * chunks, RAR_TX_SLOTS) ?: 1;
}

/*
 * Get memory for the partners of an operation by halving. A partner has none
 * before the first operation with it.
 */
static int reserve_partners(struct rar_member *m, const struct rar_ring *ring,
			    u64 ops)
{
	struct rar_partners partners;
	struct rar_link *link;
	u32 i;

	rar_halving_partners(ring, &partners);
	for (i = 0; i < partners.n; i++) {
		link = rar_member_direct(m, partners.rank[i]);
		if (!link || !(partners.used & BIT_ULL(i)))
			continue;
		if (rar_link_prepare(link) ||
		    !rar_link_open_rx(link, GFP_KERNEL_ACCOUNT))
			return -ENOMEM;
		reserve(link, flying_of(ops, partners.owed[i]));
	}
	return 0;
}

/**
 * rar_link_reserve() - get memory for one more operation before it is posted
 * @m:	  member, the user's send_lock is held
 * @ring: of the operation
 *
 * Process context of the member's user, whose memory cgroup is charged. The
 * links get slots for all chunks that may be in flight then, see slots_for().
 * Without memory for more slots they go on with those they have, which limit
 * the window.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_link_reserve(struct rar_member *m, const struct rar_ring *ring)
{
	u64 ops = READ_ONCE(m->op_next) - READ_ONCE(m->op_oldest) + 1;
	struct rar_link *link;

	if (!m->history)
		m->history = kcalloc(RAR_HISTORY, sizeof(*m->history),
				     GFP_KERNEL_ACCOUNT);
	if (!m->history)
		return -ENOMEM;
	if (ring->plan.halving)
		return reserve_partners(m, ring, ops);
	/* Each chunk goes twice: as a partial sum, and as a sum. */
	if (!ring->plan.direct)
		rar_each_out(link, m)
			reserve(link, flying_of(ops, 2 * ring->nchunks));
	return 0;
}

/* Give the memory back: nothing is in flight any more. */
void rar_link_free_slots(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_sent *sent;

	spin_lock_bh(&m->tx_lock);
	sent = link->tx.sent;
	link->tx.sent = NULL;
	WRITE_ONCE(link->tx.nslots, 0);
	spin_unlock_bh(&m->tx_lock);
	kfree(sent);
}
