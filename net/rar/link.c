// SPDX-License-Identifier: GPL-2.0
/*
 * The link: a reliable hop from a rank to its successor.
 *
 * Every transmission has a number of its own; what is lost is not sent
 * again, its chunk is, with a new number, from the buffer. Acknowledgements
 * are cumulative plus a bitmap, and wait for a few packets or a moment. A
 * packet is lost when one that was sent later came and it had the time to
 * come as well (RACK, RFC 8985). When nothing comes at all, the oldest chunk
 * is sent once more as a probe, then with doubled patience, until the silence
 * of the successor's kernel ends the group. The windows are in window.c; for
 * operations that the successor has not posted its credit is the limit too.
 */
#include "rar.h"
#include "trace.h"

#define LINK_RTO_BURST		64	/* given up by one timeout */
#define LINK_PROBES		2	/* timeouts before the window collapses */
#define LINK_PROBE_MIN_US	20000	/* closed credit: ask at first, */
#define LINK_PROBE_MAX_US	200000	/* and at last, that often */
#define LINK_STARVED_US		1000	/* shorter gaps are no waiting */
#define LINK_MTU_MS		1000
#define LINK_BATCH		16
#define LINK_FRAMES_LOST	8	/* in a row: XDP does not get through, */
#define LINK_FRAMES_OFF		HZ	/* for so long */
#define LINK_LOCAL_RETRY_US	1000	/* the successor was not ready after all */

static unsigned long us_to_jiffies_up(u64 us)
{
	return usecs_to_jiffies(min_t(u64, us, USEC_PER_SEC)) + 1;
}

/* -- timer of both links ------------------------------------------------- */

/*
 * Let the timer look at the links at @when or earlier; what it finds too early
 * it looks at again. tx.lock held.
 */
static void timer_at(struct rar_group *grp, u64 when)
{
	struct rar_link_tx *tx = &grp->tx;

	lockdep_assert_held(&tx->lock);
	if (READ_ONCE(grp->dead) || (tx->timer_us && tx->timer_us <= when))
		return;
	if (!tx->timer_us)
		refcount_inc(&grp->ref);
	tx->timer_us = when;
	hrtimer_start(&tx->timer, ns_to_ktime(when * NSEC_PER_USEC), HRTIMER_MODE_ABS_SOFT);
}

/**
 * rar_link_stop() - the timer does not fire again
 * @grp: group, dead
 */
void rar_link_stop(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;
	bool armed;

	spin_lock_bh(&tx->lock);
	/* One that runs finds the group dead, and drops its reference. */
	armed = tx->timer_us && hrtimer_try_to_cancel(&tx->timer) == 1;
	if (armed)
		tx->timer_us = 0;
	spin_unlock_bh(&tx->lock);
	if (armed)
		rar_group_put(grp);
}

/* -- table of operations (tx.lock) --------------------------------------- */

static struct rar_operation *op_at(struct rar_group *grp, u64 seq)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(grp->ops[seq % RAR_MAX_OPS],
				       lockdep_is_held(&grp->tx.lock));
	return op && op->seq == seq ? op : NULL;
}

static struct rar_operation *op_of(struct rar_group *grp,
				   const struct rar_sent *sent)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(grp->ops[sent->op % RAR_MAX_OPS],
				       lockdep_is_held(&grp->tx.lock));
	return op && (u32)op->seq == sent->op ? op : NULL;
}

static bool op_released(const struct rar_operation *op)
{
	return op->nacked == op->ntx + op->nback && !atomic_read(&op->left);
}

/* Take the operation off the table if nothing will be sent from it again. */
static bool op_try_release(struct rar_group *grp, struct rar_operation *op)
{
	lockdep_assert_held(&grp->tx.lock);
	if (!op_released(op) || op_at(grp, op->seq) != op)
		return false;

	if (op->seq >= grp->tx.posted)
		grp->tx.early_used -= op->early_cost;
	grp->history[op->seq % RAR_HISTORY] = rar_print_hash(&op->print);
	RCU_INIT_POINTER(grp->ops[op->seq % RAR_MAX_OPS], NULL);
	while (grp->op_oldest < grp->op_next && !op_at(grp, grp->op_oldest))
		WRITE_ONCE(grp->op_oldest, grp->op_oldest + 1);
	grp->tx.nreleased++;
	rar_op_unuse(op);
	return true;
}

/**
 * rar_link_release() - the operation is complete; is it released too?
 * @grp: group
 * @op:  operation, RCU read side
 */
void rar_link_release(struct rar_group *grp, struct rar_operation *op)
{
	spin_lock_bh(&grp->tx.lock);
	op_try_release(grp, op);
	spin_unlock_bh(&grp->tx.lock);
}

/* -- pending chunks (tx.lock) -------------------------------------------- */

/* Of all operations: to the successor, or back. */
static u64 *pend_count(struct rar_link_tx *tx, u32 p)
{
	return p == RAR_BACK ? &tx->nback : &tx->npend;
}

static void pend_set(struct rar_link_tx *tx, struct rar_operation *op, u32 p,
		     u32 chunk, u64 mask)
{
	mask &= ~rar_bits_get(op->acked[p], chunk, mask);
	mask = rar_bits_set(op->pend[p], chunk, mask);
	if (!mask)
		return;
	op->npend[p] += hweight64(mask);
	*pend_count(tx, p) += hweight64(mask);
	op->pend_from[p] = min_t(u32, op->pend_from[p], chunk + __ffs64(mask));
}

static void pend_clear(struct rar_link_tx *tx, struct rar_operation *op, u32 p,
		       u32 chunk, u64 mask)
{
	u32 n;

	if (!op->npend[p])
		return;
	n = hweight64(rar_bits_clear(op->pend[p], chunk, mask));
	op->npend[p] -= n;
	*pend_count(tx, p) -= n;
}

/* The first pending chunks of an operation that has some; not taken. */
static void pend_find(struct rar_operation *op, struct rar_run *run, u32 max)
{
	u32 chunk, end;

	chunk = find_next_bit(op->pend[run->phase], op->ring.nchunks,
			      op->pend_from[run->phase]);
	op->pend_from[run->phase] = chunk;
	end = min(rar_ring_block_end(&op->ring, chunk), chunk + max);
	run->chunk = chunk;
	run->n = find_next_zero_bit(op->pend[run->phase], end, chunk) - chunk;
}

/* Who gets these chunks has them, or provably needs them no more. */
static void mark_acked(struct rar_link_tx *tx, struct rar_operation *op, u32 p,
		       u32 chunk, u64 mask)
{
	mask = rar_bits_set(op->acked[p], chunk, mask);
	if (!mask)
		return;
	op->nacked += hweight64(mask);
	pend_clear(tx, op, p, chunk, mask);
}

/* -- credit (tx.lock) ---------------------------------------------------- */

/*
 * How many chunks of a run may be sent? An operation that the successor has
 * posted needs no credit, nor does what was sent before; else it is taken.
 */
static u32 credit_take(struct rar_link_tx *tx, struct rar_operation *op,
		       const struct rar_run *run)
{
	struct rar_chunk c;
	u32 n = run->n;
	u64 cost, left;

	if (op->seq < tx->posted)
		return n;
	rar_ring_chunk(&op->ring, run->chunk, &c);
	left = tx->credit > tx->early_used ? tx->credit - tx->early_used : 0;
	for (; n; n--) {
		cost = n - hweight64(rar_bits_get(op->sent[run->phase], run->chunk,
						  rar_mask(n)));
		cost *= c.len + RAR_EARLY_COST;
		if (cost <= left)
			break;
	}
	if (n) {
		tx->early_used += cost;
		op->early_cost += cost;
	}
	return n;
}

/* The successor posted more: give back what those operations had taken. */
static void credit_update(struct rar_group *grp, u64 posted, u32 credit)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;

	tx->credit = credit;
	for (; tx->posted < posted; tx->posted++) {
		op = op_at(grp, tx->posted);
		if (op)
			tx->early_used -= op->early_cost;
		if (tx->posted >= grp->op_next) {
			tx->posted = posted;
			break;
		}
	}
}

/* -- sending ------------------------------------------------------------- */

/*
 * How much of a run of @n to send if the window allows @max: a small part waits
 * for more room, unless nothing is on its way that would make some.
 */
static u32 whole_run(const struct rar_link_tx *tx, u32 n, u32 max)
{
	if (n <= max)
		return n;
	return 2 * max >= n || !tx->inflight ? max : 0;
}

/*
 * Choose chunks to forward or to send again, oldest operation first: a run of at most
 * @most, of it at most @max.
 */
static struct rar_operation *pick_pending(struct rar_group *grp,
					  struct rar_run *run, u32 most, u32 max)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	u64 seq;
	int p;

	if (!tx->npend)
		return NULL;
	for (seq = grp->op_oldest; seq < grp->op_next; seq++) {
		op = op_at(grp, seq);
		if (!op)
			continue;
		for (p = RAR_AG; p >= RAR_RS; p--) {
			if (!op->npend[p])
				continue;
			run->phase = p;
			pend_find(op, run, most);
			run->n = whole_run(tx, run->n, max);
			run->n = credit_take(tx, op, run);
			if (!run->n)
				return NULL;
			pend_clear(tx, op, p, run->chunk, rar_mask(run->n));
			return op;
		}
	}
	return NULL;
}

/* Choose own chunks that were never sent; oldest operation first. */
static struct rar_operation *pick_inject(struct rar_group *grp,
					 struct rar_run *run, u32 most, u32 max,
					 u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	u64 seq;

	if (!tx->ninject)
		return NULL;
	for (seq = grp->op_oldest; seq < grp->op_next; seq++) {
		op = op_at(grp, seq);
		if (!op || op->inject == op->inject_end)
			continue;
		run->phase = RAR_RS;
		run->chunk = op->inject;
		run->n = min(op->inject_end - op->inject, most);
		run->n = whole_run(tx, run->n, max);
		run->n = rar_window_may_inject(grp, run->n);
		run->n = credit_take(tx, op, run);
		if (!run->n)
			return NULL;
		op->inject += run->n;
		tx->ninject -= run->n;
		rar_window_injected(grp, op, run, now);
		return op;
	}
	return NULL;
}

/* Remember what the numbers from tx->next_seq on stand for. */
static void number_slots(struct rar_group *grp, struct rar_operation *op,
			 const struct rar_tx_item *item, u64 now)
{
	const struct rar_run *run = &item->run;
	struct rar_link_tx *tx = &grp->tx;
	struct rar_chunk last;
	u32 i, slot;

	rar_ring_chunk(&op->ring, run->chunk + run->n - 1, &last);
	for (i = 0; i < run->n; i++) {
		slot = (tx->next_seq + i) % RAR_TX_SLOTS;
		tx->sent[slot] = (struct rar_sent) {
			.time_us = now,
			.op = op->seq,
			.chunk = run->chunk + i,
			.phase = run->phase,
			.full = i + 1 < run->n || last.len == grp->payload,
			.alone = run->n == 1,
			.head = !i,
			.frame = item->frame,
		};
		__clear_bit(slot, tx->resolved);
	}
}

/* Give the chosen chunks numbers. */
static void number(struct rar_group *grp, struct rar_operation *op,
		   struct rar_tx_item *item, u64 now)
{
	const struct rar_run *run = &item->run;
	struct rar_link_tx *tx = &grp->tx;
	u32 fresh;

	number_slots(grp, op, item, now);
	refcount_inc(&op->ref);
	rar_op_use(op);
	item->op = op;
	item->seq = tx->next_seq;
	item->una = tx->una;
	tx->next_seq += run->n;
	tx->inflight += run->n;
	tx->packets += run->n;
	tx->bytes += rar_ring_bytes(&op->ring, run->chunk, run->n);
	fresh = hweight64(rar_bits_set(op->sent[run->phase], run->chunk,
				       rar_mask(run->n)));
	op->nsent += fresh;
	if (fresh < run->n) {
		tx->retransmits += run->n - fresh;
		rar_mib_add(grp->rn, TxRetrans, run->n - fresh);
	}
	/* Something lost, the last of all, credit, or much since the last time. */
	item->ack_now = fresh < run->n || op->nsent == op->ntx ||
			(op->seq >= tx->posted && tx->early_used > tx->credit / 2) ||
			tx->next_seq - tx->asked_seq > tx->cwnd / 4;
	if (item->ack_now)
		tx->asked_seq = tx->next_seq;
}

/* Since when is something ready that may not go? For RAR_INFO. */
static void account_blocked(struct rar_link_tx *tx, bool blocked, u64 now)
{
	if (blocked && !tx->blocked_us) {
		tx->blocked_us = now;
	} else if (!blocked && tx->blocked_us) {
		tx->blocked_total_us += now - tx->blocked_us;
		tx->blocked_us = 0;
	}
}

/*
 * How many chunks may go as one packet: the link window, room to remember what
 * is sent, and what the device takes. In a window that is small against a
 * superpacket two of them are on their way.
 */
static u32 may_send(const struct rar_group *grp)
{
	const struct rar_link_tx *tx = &grp->tx;
	u32 room;

	if (tx->inflight >= tx->cwnd)
		return 0;
	room = min(tx->cwnd - tx->inflight,
		   RAR_TX_SLOTS - (tx->next_seq - tx->una));
	return min3(room, max(tx->cwnd / 2, 1U),
		    READ_ONCE(grp->path[RAR_NEXT].run_max));
}

static u32 take_batch(struct rar_group *grp, struct rar_tx_item *items)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 most = READ_ONCE(grp->path[RAR_NEXT].run_max), n = 0, max;
	struct rar_operation *op;
	u64 now;

	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	while (n < LINK_BATCH && (max = may_send(grp))) {
		op = pick_pending(grp, &items[n].run, most, max);
		if (!op)
			op = pick_inject(grp, &items[n].run, most, max, now);
		if (!op)
			break;
		items[n].frame = false;
		number(grp, op, &items[n++], now);
	}
	if (n) {
		tx->sent_us = now;
		timer_at(grp, now + rar_window_timeout(tx));
	}
	account_blocked(tx, n < LINK_BATCH && (tx->npend || tx->ninject), now);
	spin_unlock_bh(&tx->lock);
	return n;
}

/**
 * rar_link_push_packets() - send what is ready and may go, as packets
 * @grp: group, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_link_push_packets(struct rar_group *grp)
{
	struct rar_tx_item items[LINK_BATCH];
	u32 i, n;

	do {
		n = take_batch(grp, items);
		for (i = 0; i < n; i++) {
			rar_output_run(grp, &items[i]);
			if (rar_op_unuse(items[i].op))
				rar_group_wake(grp);
		}
	} while (n == LINK_BATCH);
	/* Only the successor can open what is closed: ask it. */
	if (READ_ONCE(grp->tx.blocked_us) && !READ_ONCE(grp->tx.inflight))
		rar_group_kick(grp, jiffies +
			       us_to_jiffies_up(LINK_PROBE_MIN_US));
}

/**
 * rar_link_push() - send what is ready and may go
 * @grp: group, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_link_push(struct rar_group *grp)
{
	if (!grp->next_here)
		rar_link_push_packets(grp);
	if (grp->next_here || READ_ONCE(grp->tx.nback))
		rar_local_push(grp);
}

/* Chosen for who gets them in memory. */
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
 * rar_link_take_back() - choose sums for the first rank of this host
 * @grp:  group, RCU read side; no lock held
 * @item: set to what was chosen, its operation referenced
 *
 * They go round in memory only. Softirq, or process context with bottom halves off.
 * Return: false if nothing is ready.
 */
bool rar_link_take_back(struct rar_group *grp, struct rar_tx_item *item)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op = NULL;
	u64 seq;

	if (!READ_ONCE(tx->nback))
		return false;
	spin_lock_bh(&tx->lock);
	for (seq = grp->op_oldest; tx->nback && seq < grp->op_next; seq++) {
		op = op_at(grp, seq);
		if (op && op->npend[RAR_BACK])
			break;
		op = NULL;
	}
	if (op) {
		item->run.phase = RAR_BACK;
		pend_find(op, &item->run, rar_local_run(grp));
		pend_clear(tx, op, RAR_BACK, item->run.chunk, rar_mask(item->run.n));
		take_local(tx, op, item);
	}
	spin_unlock_bh(&tx->lock);
	return op;
}

/**
 * rar_link_take() - choose chunks that the successor gets in memory
 * @grp:  group, RCU read side; no lock held
 * @next: the successor
 * @item: set to what was chosen, its operation referenced
 *
 * No window holds them back but that of injection, and no number is given: they
 * cannot be lost. Softirq, or process context with bottom halves off. Return: false
 * if nothing is ready that @next could use.
 */
bool rar_link_take(struct rar_group *grp, struct rar_group *next,
		   struct rar_tx_item *item)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_run *run = &item->run;
	struct rar_operation *op;
	u32 max = rar_local_run(grp);
	u64 now;

	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	/*
	 * It has room for what it posted, and for nothing else. Who posts looks for
	 * us afterwards, under this lock. Pairs with the release in rar_link_post().
	 */
	credit_update(grp, max(tx->posted, smp_load_acquire(&next->op_next)), 0);
	op = pick_pending(grp, run, max, max);
	/* To send again needs no credit, but what a packet had brought was refused. */
	if (op && op->seq >= tx->posted) {
		pend_set(tx, op, run->phase, run->chunk, rar_mask(run->n));
		op = NULL;
	}
	if (!op)
		op = pick_inject(grp, run, max, max, now);
	if (op) {
		op->nsent += hweight64(rar_bits_set(op->sent[run->phase], run->chunk,
						    rar_mask(run->n)));
		take_local(tx, op, item);
	}
	account_blocked(tx, !op && (tx->npend || tx->ninject), now);
	spin_unlock_bh(&tx->lock);
	return op;
}

/**
 * rar_link_taken() - what was chosen was offered
 * @grp:  group, RCU read side; no lock held
 * @item: from rar_link_take() or rar_link_take_back(); its reference is dropped
 * @done: which chunks of it were accepted; the others go again, a little later
 */
void rar_link_taken(struct rar_group *grp, struct rar_tx_item *item, u64 done)
{
	u64 again = rar_mask(item->run.n) & ~done;
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op = item->op;
	bool released = false;

	spin_lock_bh(&tx->lock);
	/* The group may have failed, and forgotten it. */
	if (op_at(grp, op->seq) == op) {
		mark_acked(tx, op, item->run.phase, item->run.chunk, done);
		pend_set(tx, op, item->run.phase, item->run.chunk, again);
		released = op_try_release(grp, op);
	}
	if (again)
		timer_at(grp, rar_now_us() + LINK_LOCAL_RETRY_US);
	spin_unlock_bh(&tx->lock);
	if (rar_op_unuse(op) || released)
		rar_group_wake(grp);
}

/**
 * rar_link_post() - put an operation on the table
 * @grp: group, @grp->lock held
 * @op:  operation; the table's reference was taken by the caller
 */
void rar_link_post(struct rar_group *grp, struct rar_operation *op)
{
	spin_lock(&grp->tx.lock);
	op->posted_us = rar_now_us();
	atomic_set(&op->users, 1);
	if (grp->size > 1)
		grp->tx.ninject += op->inject_end - op->inject;
	rcu_assign_pointer(grp->ops[op->seq % RAR_MAX_OPS], op);
	/* Pairs with the acquire in rar_input: who sees the number finds the
	 * operation in the table.
	 */
	smp_store_release(&grp->op_next, op->seq + 1);
	rar_slow_posted(grp, op->posted_us);
	spin_unlock(&grp->tx.lock);
}

/* How long had the predecessor's chunk been missing? For RAR_INFO. */
static void account_starved(struct rar_link_tx *tx,
			    const struct rar_operation *op, u64 now)
{
	u64 gap = now - max(tx->came_us, op->posted_us);

	if (gap > LINK_STARVED_US)
		tx->starved_us += gap;
	tx->came_us = now;
}

/*
 * May chunks that just came go on at once, in the packet that brought them?
 * Only what was never sent and needs no credit, if nothing waits before it; and
 * only while the table holds the operation, since the caller does not.
 */
static bool may_forward(struct rar_group *grp,
			const struct rar_operation *op,
			const struct rar_run *run)
{
	const struct rar_link_tx *tx = &grp->tx;
	u64 mask = rar_mask(run->n);

	return op_at(grp, op->seq) == op && !tx->npend &&
	       may_send(grp) >= run->n && op->seq < tx->posted &&
	       !rar_bits_get(op->sent[run->phase], run->chunk, mask) &&
	       !rar_bits_get(op->acked[run->phase], run->chunk, mask);
}

/**
 * rar_link_publish() - received chunks are in the buffer: what follows
 * @grp:  group
 * @op:   operation, RCU read side
 * @run:  as it came
 * @won:  which of it are new
 * @c:    where the first one lies
 * @item: NULL, or the packet that brought them may go on: then what it is
 *
 * Softirq, or process context with bottom halves off. Return: true if the
 * packet goes on as @item, whose reference to @op the caller drops. The caller
 * then calls rar_link_published().
 */
bool rar_link_publish(struct rar_group *grp, struct rar_operation *op,
		      const struct rar_run *run, u64 won,
		      const struct rar_chunk *c, struct rar_tx_item *item)
{
	enum rar_next next = rar_ring_next(&op->ring, run->phase, c->block);
	struct rar_link_tx *tx = &grp->tx;
	struct rar_run out = *run;
	bool forward = false;
	u64 now, bytes;

	out.phase = next == RAR_NEXT_RS ? RAR_RS : RAR_AG;
	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	bytes = rar_op_bytes(op, run, won);
	grp->rx_packets += hweight64(won);
	grp->rx_bytes += bytes;
	account_starved(tx, op, now);
	/* All others have added to it, so the successor has posted as well. */
	if (run->phase == RAR_AG || next == RAR_NEXT_AG)
		credit_update(grp, max(tx->posted, op->seq + 1), tx->credit);
	if (run->phase == RAR_AG) {
		/* It went round: the successor had our RS chunks. */
		mark_acked(tx, op, RAR_RS, run->chunk, won);
		if (c->block == op->ring.seat.own)
			rar_window_returned(grp, op, run->chunk, bytes, now);
	}
	if (item && next != RAR_NEXT_STOP && may_forward(grp, op, &out)) {
		item->run = out;
		number(grp, op, item, now);
		tx->sent_us = now;
		timer_at(grp, now + rar_window_timeout(tx));
		forward = true;
	} else if (next != RAR_NEXT_STOP) {
		pend_set(tx, op, out.phase, run->chunk, won);
	}
	if (op->nback && run->phase == RAR_RS && next == RAR_NEXT_AG)
		pend_set(tx, op, RAR_BACK, run->chunk, won);
	spin_unlock_bh(&tx->lock);
	return forward;
}

/**
 * rar_link_published() - the second half, when the packet is on its way
 * @grp: group
 * @op:  operation, RCU read side
 * @run: as it came
 * @won: which of it are new
 * @c:   where the first one lies
 *
 * The caller has called rar_link_push(), or will.
 */
void rar_link_published(struct rar_group *grp, struct rar_operation *op,
			const struct rar_run *run, u64 won,
			const struct rar_chunk *c)
{
	bool final = run->phase == RAR_AG ||
		     rar_ring_next(&op->ring, RAR_RS, c->block) == RAR_NEXT_AG;

	if (final && won && atomic_sub_and_test(hweight64(won), &op->left))
		rar_group_op_done(grp, op);
}

/**
 * rar_link_local_drop() - a queue of this host did not take a packet
 * @grp: group; no lock held
 *
 * The packet counts as sent and will be found lost; what follows slows down
 * at once.
 */
void rar_link_local_drop(struct rar_group *grp)
{
	spin_lock_bh(&grp->tx.lock);
	rar_window_full(&grp->tx);
	spin_unlock_bh(&grp->tx.lock);
}

/* -- acknowledgments, sending side -------------------------------------- */

/* What an acknowledgment changed. */
struct ack_news {
	u64 sent_us;		/* when the newest packet it reports was sent */
	u32 acked;
	u32 packets;
};

/* A number is settled, by an acknowledgment or by giving up: true if new. */
static bool resolve(struct rar_link_tx *tx, u32 seq)
{
	if (__test_and_set_bit(seq % RAR_TX_SLOTS, tx->resolved))
		return false;
	tx->inflight--;
	return true;
}

/* How many numbers from @seq on, below @end, are one run not yet settled? */
static u32 same_run(const struct rar_link_tx *tx, u32 seq, u32 end)
{
	u32 slot = seq % RAR_TX_SLOTS, n, max;
	const struct rar_sent *s = &tx->sent[slot];

	max = min3(end - seq, (u32)RAR_TX_SLOTS - slot, (u32)RAR_RUN_MAX);
	for (n = 1; n < max && !test_bit(slot + n, tx->resolved); n++)
		if (s[n].op != s->op || s[n].phase != s->phase ||
		    s[n].chunk != s->chunk + n)
			break;
	return n;
}

/* A full-size chunk passed. */
static void full_came(struct rar_link_tx *tx, const struct rar_sent *sent)
{
	if (!sent->full)
		return;
	tx->full_lost[false] = 0;
	if (sent->alone)
		tx->full_lost[true] = 0;
}

/* The successor has the numbers from @seq on, below @end. */
static void ack_range(struct rar_group *grp, u32 seq, u32 end,
		      struct ack_news *news)
{
	struct rar_link_tx *tx = &grp->tx;
	const struct rar_sent *sent;
	struct rar_operation *op;
	u32 n;

	if (rar_seq_before(tx->highest, end))
		tx->highest = end;
	for (; rar_seq_before(seq, end); seq += n) {
		n = 1;
		if (test_bit(seq % RAR_TX_SLOTS, tx->resolved))
			continue;
		n = same_run(tx, seq, end);
		sent = &tx->sent[seq % RAR_TX_SLOTS];
		rar_bits_set(tx->resolved, seq % RAR_TX_SLOTS, rar_mask(n));
		tx->inflight -= n;
		news->acked += n;
		news->packets += sent->head;
		news->sent_us = max(news->sent_us, sent->time_us);
		full_came(tx, sent);
		if (sent->frame)
			tx->frames_lost = 0;
		op = op_of(grp, sent);
		if (!op)
			continue;
		mark_acked(tx, op, sent->phase, sent->chunk, rar_mask(n));
		op_try_release(grp, op);
	}
}

/* The chunk goes out again. Its packet may arrive all the same. */
static void give_up(struct rar_group *grp, u32 seq, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_sent *sent = &tx->sent[seq % RAR_TX_SLOTS];
	struct rar_operation *op = op_of(grp, sent);

	if (!resolve(tx, seq) || !op)
		return;
	trace_rar_lost(grp, op->seq, sent->phase, sent->chunk, 0);
	/* What needs credit the successor may refuse, of whatever size. */
	if (sent->full && op->seq < tx->posted && !tx->full_lost[sent->alone]++)
		tx->full_since_us[sent->alone] = now;
	if (sent->frame && ++tx->frames_lost >= LINK_FRAMES_LOST) {
		tx->frames_lost = 0;
		WRITE_ONCE(tx->frames_off, jiffies + LINK_FRAMES_OFF);
	}
	pend_set(tx, op, sent->phase, sent->chunk, 1);
}

/**
 * rar_link_frames_pass() - may frames go on at the XDP hook?
 * @grp: group
 *
 * Some devices lose what comes from there, and do not say so: veth without a program
 * at its other end. Then packets go for a while.
 */
bool rar_link_frames_pass(const struct rar_group *grp)
{
	return time_after_eq(jiffies, READ_ONCE(grp->tx.frames_off));
}

static void advance_una(struct rar_link_tx *tx)
{
	u32 slot, end, n;

	do {
		slot = tx->una % RAR_TX_SLOTS;
		end = min_t(u32, slot + (tx->next_seq - tx->una), RAR_TX_SLOTS);
		n = find_next_zero_bit(tx->resolved, end, slot) - slot;
		tx->una += n;
	} while (n && slot + n == RAR_TX_SLOTS);
}

/*
 * Give up what was sent before a packet that came, and is late. Returns when
 * to look again, 0 = no need.
 */
static u64 detect_lost(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 patience = rar_window_patience(tx), seq, last = tx->una - 2;
	u64 sent_us;

	for (seq = tx->una; rar_seq_before(seq, tx->highest); seq++) {
		if (test_bit(seq % RAR_TX_SLOTS, tx->resolved))
			continue;
		sent_us = tx->sent[seq % RAR_TX_SLOTS].time_us;
		if (sent_us + patience > now)
			return sent_us + patience;
		give_up(grp, seq, now);
		rar_window_lost(grp, seq, seq != last + 1 ||
				tx->sent[seq % RAR_TX_SLOTS].head);
		last = seq;
	}
	return 0;
}

/* Which numbers does the successor have? */
static void ack_numbers(struct rar_group *grp, const struct rar_ack_hdr *ah,
			struct ack_news *news)
{
	u32 cum = be32_to_cpu(ah->cum), base = be32_to_cpu(ah->base), seq, i;
	struct rar_link_tx *tx = &grp->tx;

	ack_range(grp, tx->una, cum, news);
	for (i = 0; i < 8 * sizeof(ah->bitmap); i++) {
		seq = base + i;
		if (!ah->bitmap[i / 8])
			i += 7;	/* and the other bits of that byte */
		else if ((ah->bitmap[i / 8] & (1 << i % 8)) &&
			 !rar_seq_before(seq, tx->una) &&
			 rar_seq_before(seq, tx->next_seq))
			ack_range(grp, seq, seq + 1, news);
	}
}

static void ack_process(struct rar_group *grp, const struct rar_ack_hdr *ah,
			u64 now)
{
	u32 delay = be32_to_cpu(ah->delay_us);
	struct rar_link_tx *tx = &grp->tx;
	/* ACKs overtake one another: what an older one says is no news. */
	s32 marks = max((s32)(be32_to_cpu(ah->ce) - tx->marks), 0);
	s32 dups = max((s32)(be32_to_cpu(ah->dups) - tx->dups), 0);
	struct ack_news news = {};
	u64 rtt, again;

	ack_numbers(grp, ah, &news);
	if (news.acked) {
		tx->progress_us = now;
		rtt = now - news.sent_us;
		rtt = rtt > delay ? min_t(u64, rtt - delay, U32_MAX / 8) : 1;
		rar_window_rtt(grp, rtt, now);
	}
	if (dups) {
		rar_window_spurious(grp, dups);
		memset(tx->full_lost, 0, sizeof(tx->full_lost));
	}
	tx->dups += dups;
	tx->marks += marks;
	if (news.acked || marks)
		rar_window_acked(grp, news.acked, news.packets, marks);
	advance_una(tx);
	again = detect_lost(grp, now);
	advance_una(tx);
	if (again)
		timer_at(grp, again);
}

/**
 * rar_link_rcv_ack() - what the successor has
 * @grp: group in RUN or LEAVING
 * @pkt: validated ACK
 *
 * Softirq.
 */
void rar_link_rcv_ack(struct rar_group *grp, const struct rar_pkt *pkt)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_ack_hdr ah;
	u64 released, now;

	if (skb_copy_bits(pkt->skb, pkt->off, &ah, sizeof(ah)))
		return;
	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	if (rar_seq_before(tx->next_seq, be32_to_cpu(ah.cum))) {
		/* Acknowledges what was never sent. */
		spin_unlock_bh(&tx->lock);
		rar_mib_inc(grp->rn, DropSeq);
		return;
	}
	released = tx->nreleased;
	ack_process(grp, &ah, now);
	credit_update(grp, be64_to_cpu(ah.posted), be32_to_cpu(ah.credit));
	rar_slow_hear(grp, &ah.slow, now);
	released -= tx->nreleased;
	spin_unlock_bh(&tx->lock);

	rar_link_push(grp);
	if (released)
		rar_group_wake(grp);
}

/* -- receiving side ------------------------------------------------------ */

/* The sender waits for nothing below @una: stop doing so as well. */
static void rx_advance(struct rar_link_rx *rx, u32 una)
{
	lockdep_assert_held(&rx->lock);
	if ((s32)(una - rx->cum) >= RAR_RX_WIN) {
		bitmap_zero(rx->seen, RAR_RX_WIN);
		rx->cum = una;
	}
	while (rar_seq_before(rx->cum, una))
		__clear_bit(rx->cum++ % RAR_RX_WIN, rx->seen);
	while (test_bit(rx->cum % RAR_RX_WIN, rx->seen))
		__clear_bit(rx->cum++ % RAR_RX_WIN, rx->seen);
	if (rar_seq_before(rx->highest, rx->cum))
		rx->highest = rx->cum;
}

/**
 * rar_link_check() - can these numbers belong together?
 * @dh: header of a data packet
 * @n:  chunks of the run that it begins
 *
 * Return: true if the run can be recorded.
 */
bool rar_link_check(const struct rar_data_hdr *dh, u32 n)
{
	return be32_to_cpu(dh->seq) - be32_to_cpu(dh->una) + n - 1 < RAR_TX_SLOTS;
}

/*
 * Set the number; true if it shows a gap or fills one. A new number with an
 * old chunk means that the sender gave up too early.
 */
static bool rx_set(struct rar_link_rx *rx, u32 seq, bool dup)
{
	bool gap;

	if (rar_seq_before(seq, rx->cum) || seq - rx->cum >= RAR_RX_WIN)
		return true;
	gap = seq != rx->highest;
	if (dup && !test_bit(seq % RAR_RX_WIN, rx->seen))
		rx->dups++;
	__set_bit(seq % RAR_RX_WIN, rx->seen);
	if (!rar_seq_before(seq, rx->highest))
		rx->highest = seq + 1;
	rx_advance(rx, rx->cum);
	return gap;
}

/* The same for a run; @dups: chunks that were there before. */
static bool rx_set_run(struct rar_link_rx *rx, u32 seq, u64 which, u64 dups)
{
	u32 n = fls64(which), i;
	bool gap = false;

	if (!dups && which == rar_mask(n) && seq == rx->cum &&
	    seq == rx->highest) {
		rx->cum += n;
		rx->highest += n;
		return false;
	}
	for (i = 0; i < n; i++)
		if (which & (1ULL << i))
			gap |= rx_set(rx, seq + i, dups & (1ULL << i));
	return gap;
}

/**
 * rar_link_record() - chunks are published, held, or were before
 * @grp:   group
 * @dh:    header of the first
 * @which: of the run
 * @dups:  of these, those that were there before
 * @ce:    the packet carried the congestion mark
 *
 * Softirq. Return: true if the caller shall send an acknowledgment now; otherwise the
 * timer does it.
 */
bool rar_link_record(struct rar_group *grp, const struct rar_data_hdr *dh,
		     u64 which, u64 dups, bool ce)
{
	u64 now = rar_now_us(), due = now + RAR_ACK_DELAY_US;
	struct rar_link_rx *rx = &grp->rx;
	bool at_once, first;

	spin_lock_bh(&rx->lock);
	rx_advance(rx, be32_to_cpu(dh->una));
	at_once = rx_set_run(rx, be32_to_cpu(dh->seq), which, dups);
	rx->newest_us = now;
	rx->ce += ce ? hweight64(which) : 0;
	if (++rx->unacked >= RAR_ACK_EVERY || (dh->flags & RAR_F_ACK_NOW))
		at_once = true;
	first = !at_once && !rx->ack_us;
	if (first)
		rx->ack_us = due;
	spin_unlock_bh(&rx->lock);

	if (first) {
		spin_lock_bh(&grp->tx.lock);
		timer_at(grp, due);
		spin_unlock_bh(&grp->tx.lock);
	}
	return at_once;
}

static void ack_fill_bitmap(const struct rar_link_rx *rx,
			    struct rar_ack_hdr *ah)
{
	u32 n = min_t(u32, rx->highest - rx->cum, 8 * sizeof(ah->bitmap));
	u32 base = rx->highest - n, i;

	ah->base = cpu_to_be32(base);
	for (i = 0; i < n; i++)
		if (test_bit((base + i) % RAR_RX_WIN, rx->seen))
			ah->bitmap[i / 8] |= 1 << i % 8;
}

/**
 * rar_link_send_ack() - tell the predecessor what came, what is posted, and
 * how much may come early
 * @grp: group; no lock held
 */
void rar_link_send_ack(struct rar_group *grp)
{
	struct rar_link_rx *rx = &grp->rx;
	struct rar_ack_hdr ah = {};
	u64 now;

	spin_lock_bh(&grp->tx.lock);
	rar_slow_tell(grp, &ah.slow, rar_now_us());
	spin_unlock_bh(&grp->tx.lock);

	spin_lock_bh(&rx->lock);
	now = rar_now_us();
	ah.cum = cpu_to_be32(rx->cum);
	ah.highest = cpu_to_be32(rx->highest);
	ah.ce = cpu_to_be32(rx->ce);
	ah.dups = cpu_to_be32(rx->dups);
	ah.delay_us = cpu_to_be32(rx->unacked && now > rx->newest_us ?
				  now - rx->newest_us : 0);
	ack_fill_bitmap(rx, &ah);
	rx->unacked = 0;
	rx->ack_us = 0;
	spin_unlock_bh(&rx->lock);

	/* Pairs with the release in rar_group_post(). */
	ah.posted = cpu_to_be64(smp_load_acquire(&grp->op_next));
	ah.credit = cpu_to_be32(READ_ONCE(grp->rn->sysctl_early_bytes));
	rar_output_ctl(grp, RAR_PREV, &ah, sizeof(ah), 0, RAR_T_ACK,
		       grp->epoch);
}

/**
 * rar_link_rcv_probe() - the predecessor asks where we are
 * @grp: group in RUN or LEAVING
 * @pkt: validated PROBE
 */
void rar_link_rcv_probe(struct rar_group *grp, const struct rar_pkt *pkt)
{
	struct rar_probe_hdr ph;

	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)))
		return;
	spin_lock_bh(&grp->tx.lock);
	rar_slow_hear(grp, &ph.slow, rar_now_us());
	spin_unlock_bh(&grp->tx.lock);
	spin_lock_bh(&grp->rx.lock);
	rx_advance(&grp->rx, be32_to_cpu(ph.una));
	spin_unlock_bh(&grp->rx.lock);
	rar_link_send_ack(grp);
}

/* -- timer --------------------------------------------------------------- */

/* Give up the oldest packets, as many as the number of timeouts suggests. */
static void give_up_oldest(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 seq, n = ++tx->backoff > LINK_PROBES ? LINK_RTO_BURST : 1;

	if (tx->backoff == LINK_PROBES + 1)
		rar_window_collapse(tx);
	for (seq = tx->una; n && seq != tx->next_seq; seq++) {
		if (test_bit(seq % RAR_TX_SLOTS, tx->resolved))
			continue;
		give_up(grp, seq, now);
		n--;
	}
}

/* Nothing came for long: probe. Returns when it will have been long. */
static u64 tick_timeout(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 due;

	if (!tx->inflight)
		return 0;
	due = max(tx->sent_us, tx->progress_us) + rar_window_timeout(tx);
	if (due > now)
		return due;
	give_up_oldest(grp, now);
	return now + rar_window_timeout(tx);
}

/* Is an ACK overdue? Sets when it will be, 0 = none is owed. */
static bool tick_ack(struct rar_link_rx *rx, u64 now, u64 *due)
{
	spin_lock(&rx->lock);
	*due = rx->ack_us;
	spin_unlock(&rx->lock);
	return *due && *due <= now;
}

static void earlier(u64 *next, u64 when)
{
	if (when && (!*next || when < *next))
		*next = when;
}

/* What is due on both links. Softirq, RCU read side. */
static void link_tick(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 now, next, ack_us;
	bool ack, push;

	ack = tick_ack(&grp->rx, rar_now_us(), &ack_us);
	spin_lock(&tx->lock);
	now = rar_now_us();
	next = detect_lost(grp, now);
	earlier(&next, tick_timeout(grp, now));
	advance_una(tx);
	if (!ack)
		earlier(&next, ack_us);
	if (next)
		timer_at(grp, next);
	push = tx->npend || tx->ninject || tx->nback;
	spin_unlock(&tx->lock);

	if (ack)
		rar_link_send_ack(grp);
	if (push)
		rar_link_push(grp);
}

static enum hrtimer_restart link_timer(struct hrtimer *timer)
{
	struct rar_group *grp = container_of(timer, struct rar_group,
					     tx.timer);
	struct rar_link_tx *tx = &grp->tx;
	bool again;
	u8 state;

	spin_lock(&tx->lock);
	/* Armed once more meanwhile: the reference is that one's. */
	again = hrtimer_is_queued(timer);
	if (!again)
		tx->timer_us = 0;
	spin_unlock(&tx->lock);
	if (again)
		return HRTIMER_NORESTART;

	rcu_read_lock();
	/* Pairs with the release in rar_group_set_state(). */
	state = smp_load_acquire(&grp->state);
	if (state == RAR_S_RUN || state == RAR_S_LEAVING)
		link_tick(grp);
	rcu_read_unlock();
	rar_group_put(grp);
	return HRTIMER_NORESTART;
}

/* How often to ask the successor for an ACK. */
static u64 probe_interval(const struct rar_group *grp, u64 now)
{
	u64 keepalive = rar_group_keepalive_ms(grp) * (u64)USEC_PER_MSEC;
	const struct rar_link_tx *tx = &grp->tx;

	/* Closed credit: it may have opened, and the news been lost. */
	if (!tx->inflight && (tx->npend || tx->ninject))
		return clamp_t(u64, 2 * (now - max(tx->sent_us, tx->blocked_us)),
			       LINK_PROBE_MIN_US, LINK_PROBE_MAX_US);
	/* Somebody keeps us waiting: who, is told with probes. */
	if (!rar_group_idle(grp))
		return min_t(u64, keepalive, LINK_PROBE_MAX_US);
	return keepalive;
}

/* Full-size packets do not pass, for long, but others do. */
static bool mtu_fell(const struct rar_group *grp, u64 now)
{
	u32 limit = max(READ_ONCE(grp->rn->sysctl_dead_ms) / 2, LINK_MTU_MS);
	const struct rar_link_tx *tx = &grp->tx;
	bool fell = false;
	int i;

	for (i = 0; i < ARRAY_SIZE(tx->full_lost); i++)
		fell |= tx->full_lost[i] >= RAR_MTU_LOSSES &&
			now - tx->full_since_us[i] > limit * (u64)USEC_PER_MSEC;
	return fell && time_before(jiffies, READ_ONCE(grp->heard[RAR_NEXT]) +
					    msecs_to_jiffies(limit));
}

/**
 * rar_link_keepalive() - let the successor hear us, and make it answer
 * @grp: group in RUN or LEAVING, RCU read side
 *
 * Softirq. Return: jiffies of the next call.
 */
unsigned long rar_link_keepalive(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_probe_hdr ph = {};
	u64 now, wait, due;
	bool fell;

	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	wait = probe_interval(grp, now);
	due = max(tx->sent_us, tx->probed_us) + wait;
	fell = mtu_fell(grp, now);
	if (due <= now) {
		tx->probed_us = now;
		ph.una = cpu_to_be32(tx->una);
		rar_slow_tell(grp, &ph.slow, now);
	}
	spin_unlock_bh(&tx->lock);

	if (fell)
		rar_fail_pair(grp, EMSGSIZE, RAR_R_MTU, grp->rank,
			      rar_group_rank(grp, RAR_NEXT),
			      READ_ONCE(grp->op_oldest));
	if (due > now)
		return jiffies + us_to_jiffies_up(due - now);
	/* As long as the answer. */
	rar_output_ctl(grp, RAR_NEXT, &ph, sizeof(ph),
		       sizeof(struct rar_ack_hdr) - sizeof(ph), RAR_T_PROBE,
		       grp->epoch);
	return jiffies + us_to_jiffies_up(wait);
}

/* -- begin and end ------------------------------------------------------- */

void rar_link_init(struct rar_group *grp)
{
	spin_lock_init(&grp->tx.lock);
	spin_lock_init(&grp->rx.lock);
	hrtimer_setup(&grp->tx.timer, link_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_SOFT);
}

/**
 * rar_link_prepare() - memory for what is in flight
 * @grp: group, before it joins
 *
 * Process context. Return: 0 or -ENOBUFS.
 */
int rar_link_prepare(struct rar_group *grp)
{
	if (grp->tx.sent)
		return 0;
	grp->tx.sent = kcalloc(RAR_TX_SLOTS, sizeof(*grp->tx.sent),
			       GFP_KERNEL_ACCOUNT);
	return grp->tx.sent ? 0 : -ENOBUFS;
}

/**
 * rar_link_start() - a new epoch begins
 * @grp: group in READY, its payload agreed; @grp->lock held
 */
void rar_link_start(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;

	/* With the payload it is known what a superpacket holds. */
	dst_cache_reset(&grp->path[RAR_NEXT].cache);
	rar_local_start(grp);
	WRITE_ONCE(grp->path[RAR_NEXT].run_max, 1);
	spin_lock(&tx->lock);
	tx->credit = READ_ONCE(grp->rn->sysctl_early_bytes) / 2;
	tx->sent_us = rar_now_us();
	tx->frames_off = jiffies;
	rar_window_init(grp);
	rar_slow_init(grp);
	spin_unlock(&tx->lock);
}

/**
 * rar_link_flush() - forget all operations
 * @grp: group, failed or at its end
 */
void rar_link_flush(struct rar_group *grp)
{
	struct rar_operation *op;
	int i;

	spin_lock_bh(&grp->tx.lock);
	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = rcu_dereference_protected(grp->ops[i],
					       lockdep_is_held(&grp->tx.lock));
		RCU_INIT_POINTER(grp->ops[i], NULL);
		if (op)
			rar_op_unuse(op);
	}
	grp->tx.npend = 0;
	grp->tx.nback = 0;
	grp->tx.ninject = 0;
	grp->op_oldest = grp->op_next;
	grp->tx.una = grp->tx.next_seq;
	grp->tx.inflight = 0;
	spin_unlock_bh(&grp->tx.lock);
}

/**
 * rar_link_bury() - forget the packets in flight as well
 * @grp: group that sends nothing any more
 */
void rar_link_bury(struct rar_group *grp)
{
	struct rar_sent *sent;

	rar_link_flush(grp);
	spin_lock_bh(&grp->tx.lock);
	sent = grp->tx.sent;
	grp->tx.sent = NULL;
	spin_unlock_bh(&grp->tx.lock);
	kfree(sent);
}
