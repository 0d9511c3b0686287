// SPDX-License-Identifier: GPL-2.0
/*
 * The legs: the links to the boxes of the group, at a member. Sums and returned chunks that come
 * by them, and what a member does when nothing comes: chunks go by the ring, and sums are asked
 * for. The rules are those of Documentation/design/box.rst.
 *
 * A sum acknowledges the contribution that it answers, by the number of that packet. So the
 * window of the leg limits what the box must hold.
 */
#include "core/addr.h"
#include "core/arrival.h"
#include "core/cursor.h"
#include "core/event.h"
#include "core/member.h"
#include "core/op.h"
#include "core/seal.h"
#include "link/ack.h"
#include "link/early.h"
#include "link/link.h"
#include "link/loss.h"
#include "link/window.h"
#include "ring/batch.h"
#include "ring/chunk.h"
#include "ring/keyed.h"
#include "ring/leg.h"
#include "ring/push.h"
#include "ring/ringed.h"
#include "tx/control.h"

#define LEG_PATIENCE_US	200000	/* an operation that stands still goes by the ring, */
#define LEG_WAIT_US	2000000	/* or later if the box answers that it waits for other ranks */
#define LEG_WANT_US	50000	/* least time between two WANTs of an operation */
#define LEG_STOOD	3	/* operations that stand still before the box is given up; */
#define LEG_STUCK	16	/* if it answers: the path may carry short packets only */
#define LEG_HOME	(30 * HZ)	/* time at a box that is not the host's own, doubled */
#define LEG_HOME_MAX	6U		/* each time in a row, at most so often */

/* -- begin and end --------------------------------------------------------- */

/*
 * If the leg leads to another box than this host's own, set the time at which to try its own again.
 * The leg has to be closed for that, and operations go by the ring until it opens again.
 */
static void set_home_at(struct rar_leg *leg)
{
	if (!leg->home.af || rar_addr_same(&leg->addr, &leg->home)) {
		WRITE_ONCE(leg->away, 0);
		return;
	}
	WRITE_ONCE(leg->home_at, jiffies + (LEG_HOME << min(leg->away, LEG_HOME_MAX)));
	WRITE_ONCE(leg->away, leg->away + 1);
}

/**
 * rar_leg_open() - send to a box from now on
 * @link:  link to the box, of a member in RUN; the member's lock is held
 * @nonce: of the ENTER that was answered
 * @epoch: of the leg: the token of all packets on it
 * @flags: RAR_EF_*: what the box does
 *
 * Operations posted before go by the ring as they began. Nothing happens if
 * the leg was closed meanwhile, so that the answer is to an older ENTER; or if
 * there is no memory, and then the answer comes again.
 */
void rar_leg_open(struct rar_link *link, u64 nonce, u64 epoch, u32 flags)
{
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;

	lockdep_assert_held(&m->lock);
	rar_link_start(link);
	spin_lock(&m->tx_lock);
	/* Keys of an older ENTER must not begin again: they were in use. */
	if (nonce != leg->nonce ||
	    rar_seal_leg(link, m->epoch, nonce, epoch)) {
		spin_unlock(&m->tx_lock);
		return;
	}
	/* The box knows no numbers of an older leg. */
	link->tx.next_seq = 0;
	link->tx.highest = 0;
	link->tx.asked_seq = 0;
	link->tx.win.recover = 0;
	link->tx.win.round_end = 0;
	rar_link_flush_tx(link);
	/* The window alone limits what is at the box. */
	link->tx.posted = U64_MAX;
	link->silent = false;
	link->narrow = false;
	WRITE_ONCE(leg->stuck, 0);
	leg->from = m->op_next;
	leg->until = m->op_next;
	leg->any_order = flags & RAR_EF_ANY_ORDER;
	leg->cast = flags & RAR_EF_BROADCAST;
	leg->reduce = flags & RAR_EF_REDUCE;
	leg->keyed = flags & RAR_EF_KEYED;
	leg->opened = jiffies;
	set_home_at(leg);
	WRITE_ONCE(link->heard, jiffies);
	/* Pairs with leg_over(), which reads the times above. */
	smp_store_release(&link->epoch, epoch);
	spin_unlock(&m->tx_lock);
	rar_mib_inc(m->rn, BoxOpened);
}

static void go_on(struct rar_link *link)
{
	struct rar_member *m = link->member;

	rar_mib_inc(m->rn, BoxLost);
	rar_event_send(m, RAR_EVENT_BOX_LOST, NULL);
	rar_push(m);
	rar_member_kick(m, rar_link_leg(link)->next_try);
}

/* Give a box up: its chunks go on by the ring, and this rank enters again later. */
static void lost(struct rar_link *link)
{
	if (rar_ringed_leave(link))
		go_on(link);
}

/**
 * rar_leg_look() - give up the boxes that are silent
 * @m: member in RUN or LEAVING, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_leg_look(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		if (READ_ONCE(link->silent))
			lost(link);
}

/* -- what comes ------------------------------------------------------------- */

/* Does the box send this rank no payload of an operation? See rar_ringed_gets_none(). */
static bool gets_none(const struct rar_member *m, const struct rar_data_hdr *dh)
{
	bool root = be16_to_cpu(dh->root) == m->rank;

	return dh->collective == RAR_BROADCAST ? root : dh->collective == RAR_REDUCE && !root;
}

/* Take in that the box has passed chunks on, or summed them, of which this rank gets no sum. */
static enum rar_rx rcv_passed(struct rar_member *m, const struct rar_pkt *pkt,
			      const struct rar_data_hdr *dh)
{
	u32 chunk = be32_to_cpu(dh->chunk), n = dh->box.chunks;
	struct rar_link *link = pkt->link;
	struct rar_operation *op;
	u64 released;

	if (pkt->len != sizeof(*dh) || !n || n > RAR_RUN_MAX)
		return RAR_DROP(Chunk);
	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	op = rar_link_op_at(m, be64_to_cpu(dh->op_seq));
	if (op && rar_ringed_gets_none(op) && chunk < op->ring.nchunks &&
	    n <= rar_ring_block_end(&op->ring, chunk) - chunk)
		rar_ringed_passed(m, op, chunk, rar_mask(n));
	WRITE_ONCE(rar_link_leg(link)->stuck, 0);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
	rar_loss_rcv_numbers(link, be32_to_cpu(dh->seq), rar_mask(n), be32_to_cpu(dh->una));
	rar_push(m);
	return RAR_RX_DONE;
}

/* Is it the group's first box, by which keyed reductions go? */
static bool is_first(const struct rar_link *link)
{
	return link->index == RAR_LEG;
}

/* Take in a run of sums. */
static enum rar_rx rcv_sums(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	struct rar_cursor cursor = { .skb = pkt->skb };
	struct rar_data_hdr dh;
	struct rar_arrival a = { .link = pkt->link, .pkt = pkt, .dh = &dh };
	u64 done = READ_ONCE(m->ops_done);
	enum rar_rx ret;

	rar_cursor_read(&cursor, pkt->off, &dh, sizeof(dh));
	if (dh.collective == RAR_REDUCE_BY_KEY)
		return is_first(pkt->link) ? rar_batch_rcv(m, pkt, n, &dh) : RAR_DROP(Chunk);
	if (gets_none(m, &dh))
		return rcv_passed(m, pkt, &dh);
	a.op_seq = be64_to_cpu(dh.op_seq);
	a.run = (struct rar_run){ be32_to_cpu(dh.chunk), n, RAR_AG };
	a.done = rar_mask(n);
	/* Nothing is complete to which this rank has not contributed. */
	if (rar_op_early(m, a.op_seq, &a.run))
		return RAR_DROP(State);
	ret = rar_chunk_use(m, &a);
	if (ret != RAR_RX_DONE)
		return ret;
	rar_loss_rcv_numbers(a.link, be32_to_cpu(dh.seq), a.done, be32_to_cpu(dh.una));
	rar_push(m);
	/* No contribution tells the box that it may give rows back, if none follows. */
	if (READ_ONCE(m->ops_done) != done &&
	    READ_ONCE(a.link->tx.una) == READ_ONCE(a.link->tx.next_seq))
		rar_ringed_tell(a.link);
	return ret;
}

/*
 * Take in a run of partial sums of chunks that the box gives up. Nothing of it is acknowledged, and
 * if it is lost the ring begins where the block starts.
 */
static enum rar_rx rcv_partial(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	struct rar_cursor cursor = { .skb = pkt->skb };
	struct rar_data_hdr dh;
	struct rar_arrival a = { .link = pkt->link, .pkt = pkt, .dh = &dh };
	enum rar_rx ret = RAR_RX_RETRY;

	rar_cursor_read(&cursor, pkt->off, &dh, sizeof(dh));
	a.op_seq = be64_to_cpu(dh.op_seq);
	a.run = (struct rar_run){ be32_to_cpu(dh.chunk), n, RAR_RS };
	a.done = rar_mask(n);
	if (rar_op_early(m, a.op_seq, &a.run))
		ret = rar_early_hold(m, &a);
	if (ret == RAR_RX_RETRY)
		ret = rar_chunk_use(m, &a);
	return ret;
}

typedef void (*chunks_fn)(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask);

/* Call @fn for the chunks of a word of a map, block by block. */
static void each_block(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask,
		       chunks_fn fn)
{
	u32 n;

	while (mask && chunk + __ffs64(mask) < op->ring.nchunks) {
		n = __ffs64(mask);
		chunk += n;
		mask >>= n;
		n = min(rar_ring_block_end(&op->ring, chunk) - chunk, 64U);
		fn(m, op, chunk, mask & rar_mask(n));
		mask = n < 64 ? mask >> n : 0;
		chunk += n;
	}
}

/* Call @fn for the chunks that a RETURN or WANT names. tx_lock held. */
static void each_chunk(struct rar_member *m, const struct rar_chunks_hdr *ch, chunks_fn fn)
{
	struct rar_operation *op = rar_link_op_at(m, be64_to_cpu(ch->op_seq));
	u32 first = be32_to_cpu(ch->first), i;

	if (op && op->ring.plan.aside && first < op->ring.nchunks)
		for (i = 0; i < ARRAY_SIZE(ch->map); i++)
			each_block(m, op, first + 64 * i, le64_to_cpu(ch->map[i]), fn);
}

/* A box wants nothing of operations below a number: its chunks go by the ring. tx_lock held. */
static void pause(struct rar_link *link, const struct rar_chunks_hdr *ch)
{
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;
	u64 op_seq = be64_to_cpu(ch->op_seq), until, seq;
	struct rar_operation *op;
	u32 more;

	if (!ch->until)
		return;
	more = be32_to_cpu(ch->until) - (u32)op_seq;
	until = op_seq + more;
	if (more > RAR_BOX_PAUSE || until <= leg->until ||
	    until > m->op_next + RAR_BOX_PAUSE + RAR_MAX_OPS)
		return;
	leg->until = until;
	for (seq = m->op_oldest; seq < min(until, m->op_next); seq++) {
		op = rar_link_op_at(m, seq);
		if (op && op->ring.plan.aside)
			rar_ringed_rest(m, op, link->index - RAR_LEG);
	}
}

static void handed(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	rar_ringed_returned(m, op, chunk, mask, true);
}

static void returned(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	rar_ringed_returned(m, op, chunk, mask, false);
}

static void rcv_return(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_chunks_hdr ch;

	rar_mib_inc(m->rn, BoxReturned);
	if (skb_copy_bits(pkt->skb, pkt->off, &ch, sizeof(ch)) ||
	    (is_first(pkt->link) && rar_keyed_rcv_return(m, &ch)))
		return;
	spin_lock_bh(&m->tx_lock);
	each_chunk(m, &ch, ch.flags & cpu_to_be32(RAR_RF_HANDED) ? handed : returned);
	pause(pkt->link, &ch);
	spin_unlock_bh(&m->tx_lock);
	rar_loss_refused(pkt->link);
	rar_push(m);
}

/* The box waits for other ranks, or answers a PROBE. */
static void rcv_ack(struct rar_link *link)
{
	spin_lock_bh(&link->member->tx_lock);
	link->tx.progress_us = rar_now_us();
	link->tx.win.backoff = 0;
	link->silent = false;
	spin_unlock_bh(&link->member->tx_lock);
}

/**
 * rar_leg_rcv() - take in a packet of a box
 * @m:   member in RUN or LEAVING
 * @pkt: validated: AG, RS, ACK, RETURN or RESET with the leg's epoch
 * @n:   chunks of a run
 *
 * Softirq.
 *
 * Return: as rar_chunk_rcv().
 */
enum rar_rx rar_leg_rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	WRITE_ONCE(pkt->link->heard, jiffies);
	/* A packet of full size has come. */
	if (pkt->len >= sizeof(struct rar_data_hdr) + m->payload)
		WRITE_ONCE(rar_link_leg(pkt->link)->stuck, 0);
	switch (pkt->h.type) {
	case RAR_T_AG:
		return rcv_sums(m, pkt, n);
	case RAR_T_RS:
		return rcv_partial(m, pkt, n);
	case RAR_T_RETURN:
		rcv_return(m, pkt);
		break;
	case RAR_T_ACK:
		rcv_ack(pkt->link);
		break;
	case RAR_T_RESET:
		if (rar_ringed_close(pkt->link))
			go_on(pkt->link);
		break;
	}
	return RAR_RX_DONE;
}

/* Take in a WANT of the successor. */
void rar_leg_rcv_want(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_chunks_hdr ch;

	if (skb_copy_bits(pkt->skb, pkt->off, &ch, sizeof(ch)))
		return;
	spin_lock_bh(&m->tx_lock);
	each_chunk(m, &ch, rar_ringed_wanted);
	spin_unlock_bh(&m->tx_lock);
	rar_push(m);
}

/* -- what does not come ------------------------------------------------------- */

/* The first chunk of a box that is not settled here, or the number of chunks. */
static u32 first_missing(const struct rar_operation *op, u32 box)
{
	u32 block, chunk, end;

	for (block = 0; block < op->ring.nblocks; block++) {
		chunk = rar_ring_of_box(&op->ring, box, block, &end);
		chunk = find_next_zero_bit(rar_op_settled(op), end, chunk);
		if (chunk < end)
			return chunk;
	}
	return op->ring.nchunks;
}

/* Does a chunk of a box go by the ring? */
static bool some_ringed(const struct rar_operation *op, u32 box)
{
	u32 block, chunk, end;

	for (block = 0; block < op->ring.nblocks; block++) {
		chunk = rar_ring_of_box(&op->ring, box, block, &end);
		if (find_next_bit(op->ringed, end, chunk) < end)
			return true;
	}
	return false;
}

/* The first chunk of a box that goes by the ring and lacks here, or the number of chunks. */
static u32 first_wanted(const struct rar_operation *op, u32 box)
{
	u32 block, chunk, end;

	for (block = 0; block < op->ring.nblocks; block++) {
		chunk = rar_ring_of_box(&op->ring, box, block, &end);
		chunk = find_next_andnot_bit(op->ringed, rar_op_settled(op), end, chunk);
		if (chunk < end)
			return chunk;
	}
	return op->ring.nchunks;
}

/*
 * Name chunks of an operation that go by the ring and are not settled here, from the first one of a
 * box on.
 */
static bool fill_want(const struct rar_operation *op, u32 box, struct rar_chunks_hdr *ch)
{
	u32 words = BITS_TO_LONGS(op->ring.nchunks), chunk = first_wanted(op, box), i, w;
	const unsigned long *settled = rar_op_settled(op);

	if (chunk == op->ring.nchunks)
		return false;
	w = chunk / BITS_PER_LONG;
	ch->op_seq = cpu_to_be64(op->seq);
	ch->first = cpu_to_be32(w * BITS_PER_LONG);
	for (i = 0; i < ARRAY_SIZE(ch->map) && w + i < words; i++)
		ch->map[i] = cpu_to_le64(op->ringed[w + i] & ~READ_ONCE(settled[w + i]));
	return true;
}

/* The oldest operation that is not complete here, or NULL. The others wait behind it. */
static struct rar_operation *first_incomplete(struct rar_member *m)
{
	struct rar_operation *op;
	u64 seq;

	for (seq = max(m->op_oldest, READ_ONCE(m->ops_done)); seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (op && atomic_read(&op->left))
			return op->ring.plan.aside ? op : NULL;
	}
	return NULL;
}

/*
 * How long a sum may be missing before the predecessor is asked for it, us. A link that was not
 * measured yet says nothing: if all goes by the box, the ring may never be.
 */
static u64 want_patience(const struct rar_link *leg)
{
	const struct rar_window *win = &leg->member->link[RAR_NEXT]->tx.win;

	if (!win->srtt_us)
		win = &leg->tx.win;
	return win->srtt_us ? max_t(u64, LEG_WANT_US, 4 * win->rto_us) : LEG_WANT_US;
}

/*
 * The chunks of a box stand still, so they go by the ring. The timeouts of the leg begin anew with
 * each operation, and need not end while each stands still for less long. So operations count, too.
 * If the box answers, but no full chunk comes by it, perhaps the path became narrow and nobody said
 * so: the answers are short. Entering the box again finds that out. tx_lock held.
 */
static void stands_still(struct rar_link *link, struct rar_operation *op)
{
	unsigned long heard = READ_ONCE(link->heard);
	struct rar_leg *leg = rar_link_leg(link);
	u32 box = link->index - RAR_LEG;

	if (!(op->ringed_boxes & BIT(box))) {
		if (heard != leg->heard_at)
			leg->stood = 0;
		leg->heard_at = heard;
		if (++leg->stood == LEG_STOOD)
			WRITE_ONCE(link->silent, true);
		WRITE_ONCE(leg->stuck, leg->stuck + 1);
		if (leg->stuck >= LEG_STUCK)
			WRITE_ONCE(link->narrow, true);
	}
	rar_ringed_rest(link->member, op, box);
}

/*
 * Look whether the chunks of a box stand still. Sets @ch to the sums to ask the predecessor for.
 * Returns false if there are none. tx_lock held.
 */
static bool look_at(struct rar_link *link, struct rar_operation *op, u64 now,
		    struct rar_chunks_hdr *ch)
{
	struct rar_out *out = rar_link_out(link, op);
	/* Another CPU may have completed an operation after @now. */
	u64 since = min(max(out->moved_us, READ_ONCE(link->member->done_us)), now);
	bool answers = now - link->tx.progress_us < LEG_PATIENCE_US;
	u32 box = link->index - RAR_LEG;

	if (first_missing(op, box) == op->ring.nchunks)
		return false;
	/* The box may wait for a rank that posted before its leg was open, and goes by the ring. */
	if (some_ringed(op, box))
		answers = false;
	if (link->epoch && now - since > (answers ? LEG_WAIT_US : LEG_PATIENCE_US))
		stands_still(link, op);
	if (now - max(since, out->asked_us) < want_patience(link) || !fill_want(op, box, ch))
		return false;
	out->asked_us = now;
	return true;
}

/*
 * Has the box been silent for too long, or since several timeouts, is the path too narrow, or is it
 * time to try this host's own box again?
 */
static bool leg_over(struct rar_link *link)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(link->member->rn->sysctl_dead_ms));
	const struct rar_leg *leg = rar_link_leg(link);

	/* Pairs with the release in rar_leg_open(). */
	return smp_load_acquire(&link->epoch) &&
	       (READ_ONCE(link->silent) || READ_ONCE(link->narrow) ||
		time_after(jiffies, READ_ONCE(link->heard) + dead) ||
		(READ_ONCE(leg->away) && time_after(jiffies, READ_ONCE(leg->home_at))));
}

/* Do what is due for one box. */
static void leg_tick(struct rar_link *link)
{
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;
	struct rar_chunks_hdr ch = {};
	struct rar_operation *op;
	bool want;

	if (leg_over(link))
		lost(link);
	if (READ_ONCE(link->epoch) && time_after_eq(jiffies, leg->next_tell)) {
		leg->next_tell = jiffies + msecs_to_jiffies(rar_member_keepalive_ms(m));
		rar_ringed_tell(link);
	}
	spin_lock_bh(&m->tx_lock);
	op = first_incomplete(m);
	want = op && look_at(link, op, rar_now_us(), &ch);
	spin_unlock_bh(&m->tx_lock);
	if (want) {
		rar_mib_inc(m->rn, BoxWants);
		rar_control_send(m->link[RAR_PREV], &ch, sizeof(ch), 0,
				 RAR_T_WANT, m->epoch);
	}
}

/**
 * rar_leg_tick() - do what is due in a group with a box; part of the member's timer
 * @m: member in RUN or LEAVING, RCU read side
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_leg_tick(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		leg_tick(link);
	local_bh_disable();
	rar_push(m);
	local_bh_enable();
	return jiffies + (rar_member_idle(m) ? HZ : rar_link_jiffies(LEG_WANT_US));
}
