// SPDX-License-Identifier: GPL-2.0
/*
 * Picks the chunks that go next by a link, and gives them their numbers.
 *
 * Chunks to forward and to send again go before own chunks, old operations before new ones.
 * The link window, the injection window and the neighbour's credit say how many chunks may go.
 */
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/trace.h"
#include "link/carry.h"
#include "link/lane.h"
#include "link/link.h"
#include "link/out.h"
#include "link/pick.h"
#include "link/sent.h"
#include "link/window.h"
#include "tx/sender.h"

#define PICK_LOCAL_RETRY_US	1000	/* wait before chunks are offered again in memory */

/* Do packets cost more than waiting for room? The ranks share CPUs then, by a short path. */
static bool is_near(const struct rar_link *link)
{
	return link->carries && rar_window_near(&link->tx.win);
}

/*
 * How many chunks of a run of @n may be sent if the window allows @max? A run that is cut stays
 * cut on all the hops that it has left. So a small part of it waits for more room, and on a link
 * that is near any part of it; unless nothing is in flight that would make room.
 */
static u32 whole_run(struct rar_link *link, u32 n, u32 max)
{
	struct rar_link_tx *tx = &link->tx;

	if (n <= max)
		return n;
	tx->win.held |= tx->inflight + n > tx->win.cwnd;
	if (!tx->inflight || tx->probe)
		return max;
	return 2 * max >= n && !is_near(link) ? max : 0;
}

/*
 * Choose chunks to forward or to send again, oldest operation first. A run has at most @most
 * chunks, of which at most @max are chosen. @waits: set if own chunks must not take the room that
 * a run waits for.
 */
static struct rar_operation *next_pending(struct rar_link *link, struct rar_run *run,
					  u32 most, u32 max, bool *waits)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u64 seq;
	int p;

	if (!tx->npend)
		return NULL;
	for (seq = m->op_oldest; seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (!op || !rar_link_serves(link, op))
			continue;
		for (p = RAR_AG; p >= RAR_RS; p--) {
			if (!rar_link_out(link, op)->npend[p])
				continue;
			run->phase = p;
			rar_out_find_welcome(link, op, run, min(most, op->run_max));
			run->n = whole_run(link, run->n, max);
			*waits = !run->n && is_near(link);
			run->n = rar_out_take_credit(link, op, run);
			if (!run->n)
				return NULL;
			rar_out_clear(link, op, p, run->chunk, rar_mask(run->n));
			return op;
		}
	}
	return NULL;
}

/* The next own chunk. */
static u32 own_chunk(const struct rar_out *out, const struct rar_ring *ring)
{
	return out->owed.up ? rar_ring_nth(ring, out->inject) : out->inject;
}

/*
 * Where sums may be made aside: the first own chunk from @chunk on that may go by a link, of one
 * run; or @end. Chunks that came as sums by another link are left out, and those of other boxes.
 * Only chunks that go by the ring go to the successor. Sets @end to the end of the run.
 */
static u32 first_aside(const struct rar_link *link, const struct rar_operation *op, u32 chunk,
		       u32 *end)
{
	const unsigned long *claimed = op->claimed[RAR_RS];
	u32 at;

	if (link->index != RAR_NEXT) {
		if (link->index - RAR_LEG != rar_ring_box(&op->ring, chunk))
			return *end;
		at = find_next_zero_bit(claimed, *end, chunk);
		*end = find_next_bit(claimed, *end, at);
		return at;
	}
	do {
		at = chunk;
		chunk = find_next_zero_bit(claimed, *end, at);
		chunk = find_next_bit(op->ringed, *end, chunk);
	} while (chunk != at);
	*end = find_next_bit(claimed, *end, at);
	*end = find_next_zero_bit(op->ringed, *end, at);
	return at;
}

/* Set @run to the next own chunks of an operation, at most @max. Returns false if there is none. */
static bool next_own(struct rar_link *link, struct rar_operation *op,
		     struct rar_run *run, u32 max)
{
	const struct rar_ring *ring = &op->ring;
	struct rar_out *out = rar_link_out(link, op);
	u32 chunk, end, skip;

	run->phase = out->owed.up ? RAR_RS : rar_plan_first(&ring->plan);
	while (out->inject < out->inject_end) {
		chunk = own_chunk(out, ring);
		end = min(rar_ring_block_end(ring, chunk),
			  chunk + out->inject_end - out->inject);
		if (ring->plan.aside) {
			skip = first_aside(link, op, chunk, &end) - chunk;
			out->inject += skip;
			link->tx.ninject -= skip;
			chunk += skip;
		}
		run->chunk = chunk;
		run->n = min(end - chunk, max);
		if (run->n)
			return true;
	}
	return false;
}

/*
 * Choose own chunks that were never sent, oldest operation first. A chunk tells the other ranks
 * that this rank has contributed to all operations before; see rar_link_publish(). So none goes
 * of an operation behind one that is not contributed in full.
 */
static struct rar_operation *next_inject(struct rar_link *link,
					 struct rar_run *run, u32 most, u32 max,
					 u64 now)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	struct rar_out *out;
	u64 seq;

	if (!tx->ninject)
		return NULL;
	for (seq = m->op_oldest; seq < m->op_next && seq <= m->op_whole; seq++) {
		op = rar_link_op_at(m, seq);
		if (!op)
			continue;
		out = rar_link_out(link, op);
		if (!next_own(link, op, run, min(most, op->run_max)))
			continue;
		run->n = whole_run(link, run->n, max);
		if (!out->owed.up)
			run->n = rar_window_may_inject(link, op, run->n);
		run->n = rar_out_take_credit(link, op, run);
		if (!run->n)
			return NULL;
		out->inject += run->n;
		tx->ninject -= run->n;
		if (out->owed.up)
			return op;
		if (op->ring.plan.aside && !m->aside->claim(link, op, run))
			continue;
		rar_window_injected(link, op, run, now);
		return op;
	}
	return NULL;
}

/*
 * Give a run numbers, from tx->next_seq on, choose its lane, and note how it is
 * sent.
 */
static void number_run(struct rar_link *link, const struct rar_operation *op,
		       struct rar_tx_item *item, bool again, u64 now)
{
	const struct rar_run *run = &item->run;
	struct rar_sent sent = {
		.time_us = now,
		.op = op->seq,
		.chunk = run->chunk,
		.n = run->n,
		.phase = run->phase,
		.frame = item->frame,
		.whole = item->whole,
	};
	struct rar_chunk last;

	if (item->whole)
		rar_carry_sent(&link->tx.carry, run->n);
	rar_ring_chunk(&op->ring, run->chunk + run->n - 1, &last);
	sent.last_full = last.len == link->member->payload;
	sent.lane = rar_lane_pick(link, run, run->n > 1 || sent.last_full,
				  again);
	item->lane = sent.lane;
	rar_lane_sent(link, &sent);
	rar_sent_note(&link->tx, &sent);
}

/*
 * Is an ACK for the end of an operation needed soon? The user waits for it, if the operation lies
 * in the user's memory; the next operations do, when few places are left in the table; and the
 * first ACK of an epoch tells the round trip. Otherwise a later ACK may be for several operations.
 */
static bool is_awaited(const struct rar_link *link, const struct rar_operation *op)
{
	const struct rar_plan *plan = &op->ring.plan;

	if (op->seq - link->member->op_oldest >= RAR_MAX_OPS / 4 ||
	    !link->tx.win.srtt_us)
		return true;
	/* By halving the kernel has a copy of the user's memory. */
	return !plan->halving &&
	       (op->pinned || !rar_plan_returns(plan) || plan->aside);
}

/* Give the chosen chunks numbers. The caller sets tx->sent_us and the timer. */
static void number(struct rar_link *link, struct rar_operation *op,
		   struct rar_tx_item *item, u64 now)
{
	const struct rar_run *run = &item->run;
	struct rar_link_tx *tx = &link->tx;
	struct rar_out *out = rar_link_out(link, op);
	u32 fresh;

	if (!tx->inflight)
		rar_window_begin(link, now);
	refcount_inc(&op->ref);
	rar_op_use(op);
	item->op = op;
	item->seq = tx->next_seq;
	item->una = tx->una;
	item->epoch = link->epoch;
	item->flags = 0;
	fresh = rar_out_sent(link, op, run);
	number_run(link, op, item, fresh < run->n, now);
	rar_window_sent(link, run->n, now);
	tx->inflight += run->n;
	tx->probe = false;
	tx->packets += run->n;
	tx->bytes += rar_ring_bytes(&op->ring, run->chunk, run->n);
	if (fresh < run->n) {
		tx->retransmits += run->n - fresh;
		rar_mib_add(link->member->rn, TxRetrans, run->n - fresh);
	}
	/*
	 * Ask for an ACK with a chunk that is sent again, with the last chunk owed if its release
	 * is waited for, when half of the credit is used, and after each quarter of the window.
	 */
	item->ack_now = fresh < run->n ||
			(out->nsent == out->owed.ntx && is_awaited(link, op)) ||
			(tx->early_used > tx->credit / 2 && !rar_out_welcome(link, op, run)) ||
			tx->next_seq - tx->asked_seq > tx->win.cwnd / 4;
	if (item->ack_now)
		tx->asked_seq = tx->next_seq;
}

/* Measure for how long chunks are ready and may not go, for RAR_INFO. */
static void account_blocked(struct rar_link_tx *tx, bool blocked, u64 now)
{
	if (blocked && !tx->blocked_us) {
		tx->blocked_us = now;
	} else if (!blocked && tx->blocked_us) {
		tx->blocked_total_us += now - tx->blocked_us;
		tx->blocked_us = 0;
	}
}

/* The most chunks in a packet that the device and the window take. */
static u32 run_most(struct rar_link *link)
{
	u32 most = rar_window_run(link), i;

	for (i = 0; i < rar_link_rails(link); i++)
		most = min(most, READ_ONCE(rar_link_path(link, i)->run_max));
	return most;
}

/*
 * How many chunks may go as one packet now? Limits are the link window, its
 * pace, the free numbers, of which one is kept for a chunk that goes after a
 * timeout, and run_most(). Sets @more_us as rar_window_pace() does.
 */
static u32 may_send(struct rar_link *link, u64 now, u64 *more_us)
{
	const struct rar_link_tx *tx = &link->tx;
	u32 room = tx->probe, numbers = rar_sent_room(tx);

	if (!rar_window_pace(link, now, more_us))
		return 0;
	if (tx->inflight < tx->win.cwnd)
		room = tx->win.cwnd - tx->inflight;
	if (!tx->probe && numbers)
		numbers--;
	return min3(room, numbers, run_most(link));
}

/**
 * rar_pick_batch() - choose chunks for packets
 * @link:  link by which the chunks go, RCU read side; no lock held
 * @items: set to the chosen runs, RAR_PICK_BATCH at most; numbered, operations referenced
 * @own:   the most runs of own chunks
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: the number of runs; fewer than RAR_PICK_BATCH if no other chunk may go now.
 */
u32 rar_pick_batch(struct rar_link *link, struct rar_tx_item *items, u32 own)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u32 n = 0, max, most;
	bool left, waits = false;
	u64 now, more = 0;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	most = run_most(link);
	while (n < RAR_PICK_BATCH && (max = may_send(link, now, &more))) {
		op = next_pending(link, &items[n].run, most, max, &waits);
		items[n].own = !op;
		if (waits)
			break;
		if (!op && own && tx->ninject && rar_sender_room(m, link->path.dst.af))
			op = next_inject(link, &items[n].run, most, max, now);
		if (!op)
			break;
		own -= items[n].own;
		items[n].frame = false;
		items[n].whole = rar_carry_may(link, op, &items[n].run);
		number(link, op, &items[n++], now);
	}
	if (n) {
		tx->sent_us = now;
		rar_link_timer_at(m, now + rar_window_timeout(&tx->win));
	}
	left = tx->npend || tx->ninject;
	if (more && left)
		rar_link_timer_at(m, more);
	tx->win.held |= left && tx->inflight >= tx->win.cwnd;
	/* Own chunks that only wait for their turn are as blocked as they were. */
	if (own || tx->npend || !tx->ninject || n)
		account_blocked(tx, (own ? left : tx->npend) && n < RAR_PICK_BATCH, now);
	spin_unlock_bh(&m->tx_lock);
	return n;
}

/* Count a run that is chosen to be handed over in memory, and reference its operation. */
static void take_local(struct rar_link_tx *tx, struct rar_operation *op,
		       struct rar_tx_item *item)
{
	refcount_inc(&op->ref);
	rar_op_use(op);
	item->op = op;
	tx->packets += item->run.n;
	tx->bytes += rar_ring_bytes(&op->ring, item->run.chunk, item->run.n);
}

/**
 * rar_pick_take_back() - choose sums for the first rank of this host
 * @link: link by which the other chunks go, RCU read side; no lock held
 * @item: set to the chosen run, its operation referenced
 *
 * These sums go in memory only. Softirq, or process context with bottom halves off.
 *
 * Return: false if no sum is ready.
 */
bool rar_pick_take_back(struct rar_link *link, struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op = NULL;
	u64 seq;

	if (!READ_ONCE(tx->nback))
		return false;
	spin_lock_bh(&m->tx_lock);
	for (seq = m->op_oldest; tx->nback && seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (op && rar_link_out(link, op)->npend[RAR_BACK])
			break;
		op = NULL;
	}
	if (op) {
		item->back = true;
		item->run.phase = RAR_AG;
		rar_out_find(link, op, &item->run, RAR_BACK, rar_link_local_max(m));
		rar_out_clear(link, op, RAR_BACK, item->run.chunk, rar_mask(item->run.n));
		take_local(tx, op, item);
	}
	spin_unlock_bh(&m->tx_lock);
	return op;
}

/**
 * rar_pick_take() - choose chunks that the neighbour gets in memory
 * @link: link to the neighbour, RCU read side; no lock held
 * @next: the neighbour
 * @item: set to the chosen run, its operation referenced
 *
 * Only the injection window limits these chunks. They get no numbers, because they cannot be
 * lost. Softirq, or process context with bottom halves off.
 *
 * Return: false if no chunk is ready that @next could use.
 */
bool rar_pick_take(struct rar_link *link, struct rar_member *next,
		   struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_run *run = &item->run;
	struct rar_operation *op;
	u32 max = rar_link_local_max(m);
	u64 now, posted, released;
	bool waits;		/* always false: no run is longer than max */

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	released = m->ops_released;
	/*
	 * The neighbour has room only for chunks to which it has contributed. When it has
	 * contributed more, it makes this rank push again, and that push takes this lock.
	 * @op_whole is read before @op_come; see publish_whole().
	 */
	posted = smp_load_acquire(&next->op_whole);
	rar_link_credit(link, posted, READ_ONCE(next->op_come), 0);
	op = next_pending(link, run, max, max, &waits);
	/* A chunk sent before needs no credit, but the neighbour would refuse it in memory. */
	if (op && !rar_out_welcome(link, op, run)) {
		rar_out_pend(link, op, run->phase, run->chunk, rar_mask(run->n));
		op = NULL;
	}
	if (!op)
		op = next_inject(link, run, max, max, now);
	if (op) {
		item->back = false;
		rar_out_sent(link, op, run);
		take_local(tx, op, item);
	}
	account_blocked(tx, !op && (tx->npend || tx->ninject), now);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
	return op;
}

/**
 * rar_pick_taken() - settle a run that was offered in memory
 * @link: as for the function that chose it
 * @item: from rar_pick_take() or rar_pick_take_back(); its reference is dropped
 * @done: chunks of the run that were accepted; the others are offered again a little later
 */
void rar_pick_taken(struct rar_link *link, struct rar_tx_item *item, u64 done)
{
	u32 way = item->back ? RAR_BACK : item->run.phase;
	u64 again = rar_mask(item->run.n) & ~done;
	struct rar_member *m = link->member;
	struct rar_operation *op = item->op;
	bool released = false;

	spin_lock_bh(&m->tx_lock);
	/* The group may have failed, and the table forgotten the operation. */
	if (rar_link_op_at(m, op->seq) == op) {
		rar_out_acked(link, op, way, item->run.chunk, done);
		rar_out_pend(link, op, way, item->run.chunk, again);
		released = rar_link_try_release(m, op);
	}
	if (again)
		rar_link_timer_at(m, rar_now_us() + PICK_LOCAL_RETRY_US);
	spin_unlock_bh(&m->tx_lock);
	if (rar_op_unuse(op) || released)
		rar_member_wake(m);
}

/*
 * May chunks that just came go on at once, in the packet that brought them? Only if they were
 * never sent, need no credit, and no other chunk is pending. The caller has no reference, so
 * the operation must still be on the table.
 */
static bool may_forward(struct rar_link *link, struct rar_operation *op,
			const struct rar_run *run, u64 now)
{
	const struct rar_out *out = rar_link_out(link, op);
	const struct rar_link_tx *tx = &link->tx;
	u64 mask = rar_mask(run->n), more;

	return rar_link_op_at(link->member, op->seq) == op && !tx->npend &&
	       may_send(link, now, &more) >= run->n &&
	       rar_out_welcome(link, op, run) == run->n &&
	       !rar_bits_get(out->sent[run->phase], run->chunk, mask) &&
	       !rar_bits_get(out->acked[run->phase], run->chunk, mask);
}

/**
 * rar_pick_forward() - let chunks that just came go on in the packet that brought them
 * @link: link, tx_lock held
 * @op:   operation, RCU read side
 * @run:  the chunks as they go on
 * @item: set to the transmission, its operation referenced; a carrier goes on as one
 * @now:  us
 *
 * Return: false if the chunks have to become pending.
 */
bool rar_pick_forward(struct rar_link *link, struct rar_operation *op,
		      const struct rar_run *run, struct rar_tx_item *item, u64 now)
{
	struct rar_link_tx *tx = &link->tx;

	if (!may_forward(link, op, run, now) || (item->whole && !rar_carry_may(link, op, run)))
		return false;
	item->run = *run;
	number(link, op, item, now);
	tx->forwarded += run->n;
	tx->sent_us = now;
	rar_link_timer_at(link->member, now + rar_window_timeout(&tx->win));
	return true;
}
