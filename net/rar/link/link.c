// SPDX-License-Identifier: GPL-2.0
/*
 * The link: a reliable hop from a rank to a neighbour.
 *
 * Every transmission has a number of its own. When a packet is lost its chunk is sent again
 * from the buffer, with a new number. loss.c finds lost packets, ack.c acknowledges packets
 * that came, and window.c has the windows. The neighbour's credit also limits the chunks of
 * operations that the neighbour has not posted.
 *
 * Layers above decide by which link chunks go, and which rank is at its other end.
 */
#include "core/arrival.h"
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/trace.h"
#include "link/link.h"
#include "link/straggler.h"
#include "link/window.h"
#include "tx/port.h"
#include "tx/sender.h"

#define LINK_STARVED_US		1000	/* shorter gaps do not count as waiting */
#define LINK_LOCAL_RETRY_US	1000	/* wait before chunks are offered again in memory */

/* -- timer of all links (loss.c) ----------------------------------------- */

/*
 * Let the timer look at the links at @when, us, or earlier. The timer looks again later at
 * everything that it finds too early. tx_lock held.
 */
void rar_link_timer_at(struct rar_member *m, u64 when)
{
	lockdep_assert_held(&m->tx_lock);
	if (READ_ONCE(m->dead) || (m->link_timer_us && m->link_timer_us <= when))
		return;
	if (!m->link_timer_us)
		refcount_inc(&m->ref);
	m->link_timer_us = when;
	hrtimer_start(&m->link_timer, ns_to_ktime(when * NSEC_PER_USEC), HRTIMER_MODE_ABS_SOFT);
}

/**
 * rar_link_stop() - stop the timer, which does not fire again
 * @m: member, dead
 */
void rar_link_stop(struct rar_member *m)
{
	bool armed;

	spin_lock_bh(&m->tx_lock);
	/* A timer that runs now finds the member dead, and drops its own reference. */
	armed = m->link_timer_us && hrtimer_try_to_cancel(&m->link_timer) == 1;
	if (armed)
		m->link_timer_us = 0;
	spin_unlock_bh(&m->tx_lock);
	if (armed)
		rar_member_put(m);
}

/* -- table of operations (tx_lock) --------------------------------------- */

/* The operation with number @seq, or NULL if it is not on the table. */
static struct rar_operation *op_at(struct rar_member *m, u64 seq)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[seq % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	return op && op->seq == seq ? op : NULL;
}

/* The operation of a transmission, or NULL if it is not on the table any more. */
struct rar_operation *rar_link_op_of(struct rar_member *m,
				     const struct rar_sent *sent)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[sent->op % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	return op && (u32)op->seq == sent->op ? op : NULL;
}

/*
 * May the neighbour hold early chunks of the operation, which took credit? It holds none if
 * sums came back, because it has added to the sums.
 */
static bool op_lends(const struct rar_link_tx *tx, const struct rar_operation *op)
{
	return op->early_cost && op->seq >= tx->posted && !rar_plan_returns(&op->ring.plan);
}

/* Will nothing be sent from the operation again? */
static bool op_released(const struct rar_link_tx *tx, const struct rar_operation *op)
{
	return op->nacked == op->ntx + op->nback && !atomic_read(&op->left) &&
	       !op_lends(tx, op);
}

/* Take an operation sent by @link off the table if it is released. Returns true if it is. */
bool rar_link_try_release(struct rar_link *link, struct rar_operation *op)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;

	lockdep_assert_held(&m->tx_lock);
	if (!op_released(tx, op) || op_at(m, op->seq) != op)
		return false;

	if (op->seq >= tx->posted)
		tx->early_used -= op->early_cost;
	m->history[op->seq % RAR_HISTORY] = rar_fingerprint_hash(&op->fingerprint);
	RCU_INIT_POINTER(m->ops[op->seq % RAR_MAX_OPS], NULL);
	while (m->op_oldest < m->op_next && !op_at(m, m->op_oldest))
		WRITE_ONCE(m->op_oldest, m->op_oldest + 1);
	m->ops_released++;
	rar_op_unuse(op);
	return true;
}

/**
 * rar_link_release() - take a complete operation off the table if it is released
 * @link: link by which its chunks go
 * @op:   operation, RCU read side
 */
void rar_link_release(struct rar_link *link, struct rar_operation *op)
{
	struct rar_member *m = link->member;

	spin_lock_bh(&m->tx_lock);
	rar_link_try_release(link, op);
	spin_unlock_bh(&m->tx_lock);
}

/* -- pending chunks (tx_lock) -------------------------------------------- */

/* The count of pending chunks of all operations: to the neighbour, or back. */
static u64 *pend_count(struct rar_link_tx *tx, u32 way)
{
	return way == RAR_BACK ? &tx->nback : &tx->npend;
}

/* Make chunks pending: they will be sent, unless they were acknowledged. */
void rar_link_pend(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask)
{
	mask &= ~rar_bits_get(op->acked[way], chunk, mask);
	mask = rar_bits_set(op->pend[way], chunk, mask);
	if (!mask)
		return;
	op->npend[way] += hweight64(mask);
	*pend_count(tx, way) += hweight64(mask);
	op->pend_from[way] = min_t(u32, op->pend_from[way], chunk + __ffs64(mask));
}

static void pend_clear(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		       u32 chunk, u64 mask)
{
	u32 n;

	if (!op->npend[way])
		return;
	n = hweight64(rar_bits_clear(op->pend[way], chunk, mask));
	op->npend[way] -= n;
	*pend_count(tx, way) -= n;
}

/* Set @run to the pending chunks from @chunk on. @chunk is pending. */
static void pend_run(const struct rar_operation *op, struct rar_run *run, u32 way,
		     u32 chunk, u32 max)
{
	u32 end = min(rar_ring_block_end(&op->ring, chunk), chunk + max);

	run->chunk = chunk;
	run->n = find_next_zero_bit(op->pend[way], end, chunk) - chunk;
}

/* Set @run to the first pending chunks of an operation that has some. They stay pending. */
static void pend_find(struct rar_operation *op, struct rar_run *run, u32 way, u32 max)
{
	u32 chunk = find_next_bit(op->pend[way], op->ring.nchunks, op->pend_from[way]);

	op->pend_from[way] = chunk;
	pend_run(op, run, way, chunk, max);
}

/* Note that the receiver has these chunks, or provably does not need them any more. */
void rar_link_acked(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		    u32 chunk, u64 mask)
{
	mask = rar_bits_set(op->acked[way], chunk, mask);
	if (!mask)
		return;
	op->nacked += hweight64(mask);
	pend_clear(tx, op, way, chunk, mask);
}

/* -- credit (tx_lock) ---------------------------------------------------- */

/*
 * How many chunks of a run has the neighbour contributed to, as far as known? It has
 * contributed to all chunks that are sums of all ranks.
 */
u32 rar_link_welcome(const struct rar_link_tx *tx, const struct rar_operation *op,
		     const struct rar_run *run)
{
	u32 at;

	if (op->seq < tx->posted || rar_plan_summed(&op->ring.plan, run->phase))
		return run->n;
	if (op->seq > tx->posted || !tx->come)
		return 0;
	at = run->chunk % op->ring.cpb;
	return at < tx->come ? min(run->n, tx->come - at) : 0;
}

/*
 * Like pend_find(). But if the neighbour has contributed to a part of the operation, chunks
 * of that part are preferred, in whichever block they lie.
 */
static void pend_find_welcome(const struct rar_link_tx *tx, struct rar_operation *op,
			      struct rar_run *run, u32 max)
{
	u32 chunk, nchunks = op->ring.nchunks;
	struct rar_run first;

	pend_find(op, run, run->phase, max);
	first = *run;
	while (op->seq == tx->posted && tx->come && !rar_link_welcome(tx, op, run)) {
		chunk = find_next_bit(op->pend[run->phase], nchunks,
				      rar_ring_block_end(&op->ring, run->chunk));
		if (chunk >= nchunks) {
			*run = first;
			break;
		}
		pend_run(op, run, run->phase, chunk, max);
	}
}

/*
 * How many chunks of a run may be sent? Chunks that are welcome, or that were sent before,
 * need no credit. The other chunks take credit.
 */
static u32 credit_take(struct rar_link_tx *tx, struct rar_operation *op,
		       const struct rar_run *run)
{
	u32 n = rar_link_welcome(tx, op, run);
	struct rar_chunk c;
	u64 cost, left;

	if (n)
		return n;
	n = run->n;
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

/*
 * Take in what the neighbour advertises. Operations to which it has contributed in full give
 * their credit back. Such an operation may have waited only for that, so it may be released.
 */
void rar_link_credit(struct rar_link *link, u64 posted, u32 come, u32 credit)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;

	tx->credit = credit;
	if (tx->posted == posted)
		tx->come = max(tx->come, come);
	else if (tx->posted < posted)
		tx->come = come;
	while (tx->posted < posted) {
		if (tx->posted >= m->op_next) {
			tx->posted = posted;
			break;
		}
		op = op_at(m, tx->posted++);
		if (!op)
			continue;
		tx->early_used -= op->early_cost;
		rar_link_try_release(link, op);
	}
}

/* -- sending ------------------------------------------------------------- */

/*
 * How many chunks of a run of @n may be sent if the window allows @max? A small part of the
 * run waits for more room, unless nothing is in flight that would make room.
 */
static u32 whole_run(struct rar_link_tx *tx, u32 n, u32 max)
{
	if (n <= max)
		return n;
	tx->win.held |= tx->inflight + n > tx->win.cwnd;
	return 2 * max >= n || !tx->inflight || tx->probe ? max : 0;
}

/*
 * Choose chunks to forward or to send again, oldest operation first. A run has at most @most
 * chunks, of which at most @max are chosen.
 */
static struct rar_operation *pick_pending(struct rar_link *link,
					  struct rar_run *run, u32 most, u32 max)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u64 seq;
	int p;

	if (!tx->npend)
		return NULL;
	for (seq = m->op_oldest; seq < m->op_next; seq++) {
		op = op_at(m, seq);
		if (!op)
			continue;
		for (p = RAR_AG; p >= RAR_RS; p--) {
			if (!op->npend[p])
				continue;
			run->phase = p;
			pend_find_welcome(tx, op, run, min(most, op->run_max));
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

/* Choose own chunks that were never sent, oldest operation first. */
static struct rar_operation *pick_inject(struct rar_link *link,
					 struct rar_run *run, u32 most, u32 max,
					 u64 now)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u64 seq;

	if (!tx->ninject)
		return NULL;
	for (seq = m->op_oldest; seq < m->op_next; seq++) {
		op = op_at(m, seq);
		if (!op || op->inject == op->inject_end)
			continue;
		run->phase = rar_plan_first(&op->ring.plan);
		run->chunk = op->inject;
		run->n = min3(op->inject_end - op->inject, most, op->run_max);
		run->n = whole_run(tx, run->n, max);
		run->n = rar_window_may_inject(link, op, run->n);
		run->n = credit_take(tx, op, run);
		if (!run->n)
			return NULL;
		op->inject += run->n;
		tx->ninject -= run->n;
		rar_window_injected(&tx->win, op, run, now);
		return op;
	}
	return NULL;
}

/* Remember which chunks the numbers from tx->next_seq on stand for. */
static void number_slots(struct rar_link *link, struct rar_operation *op,
			 const struct rar_tx_item *item, u64 now)
{
	const struct rar_run *run = &item->run;
	u32 payload = link->member->payload;
	struct rar_link_tx *tx = &link->tx;
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
			.full = i + 1 < run->n || last.len == payload,
			.alone = run->n == 1,
			.head = !i,
			.frame = item->frame,
		};
		__clear_bit(slot, tx->resolved);
	}
}

/* Give the chosen chunks numbers. The caller sets tx->sent_us and the timer. */
static void number(struct rar_link *link, struct rar_operation *op,
		   struct rar_tx_item *item, u64 now)
{
	const struct rar_run *run = &item->run;
	struct rar_link_tx *tx = &link->tx;
	u32 fresh;

	if (!tx->inflight)
		rar_window_begin(link, now);
	number_slots(link, op, item, now);
	refcount_inc(&op->ref);
	rar_op_use(op);
	item->op = op;
	item->seq = tx->next_seq;
	item->una = tx->una;
	tx->next_seq += run->n;
	tx->inflight += run->n;
	tx->probe = false;
	tx->packets += run->n;
	tx->bytes += rar_ring_bytes(&op->ring, run->chunk, run->n);
	fresh = hweight64(rar_bits_set(op->sent[run->phase], run->chunk,
				       rar_mask(run->n)));
	op->nsent += fresh;
	if (fresh < run->n) {
		tx->retransmits += run->n - fresh;
		rar_mib_add(link->member->rn, TxRetrans, run->n - fresh);
	}
	/*
	 * Ask for an ACK with a chunk that is sent again, with the last chunk owed, when half
	 * of the credit is used, and after each quarter of the window.
	 */
	item->ack_now = fresh < run->n || op->nsent == op->ntx ||
			(tx->early_used > tx->credit / 2 && !rar_link_welcome(tx, op, run)) ||
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

/*
 * The most chunks in a packet: as many as the device takes, but at most half of the window,
 * so that two packets are in flight.
 */
static u32 run_most(const struct rar_link *link)
{
	return min(max(link->tx.win.cwnd / 2, 1U), READ_ONCE(link->path.run_max));
}

/*
 * How many chunks may go as one packet? Limits are the link window, the free slots of
 * @sent, run_most(), and @burst from rar_window_burst().
 */
static u32 may_send(const struct rar_link *link, u32 burst)
{
	const struct rar_link_tx *tx = &link->tx;
	u32 room = tx->probe;

	if (tx->inflight < tx->win.cwnd)
		room = tx->win.cwnd - tx->inflight;
	room = min(room, RAR_TX_SLOTS - (tx->next_seq - tx->una));
	return min3(room, run_most(link), burst);
}

/**
 * rar_link_batch() - choose chunks for packets
 * @link:  link by which the chunks go, RCU read side; no lock held
 * @items: set to the chosen runs, RAR_LINK_BATCH at most; numbered, operations referenced
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: the number of runs; fewer than RAR_LINK_BATCH if no other chunk may go now.
 */
u32 rar_link_batch(struct rar_link *link, struct rar_tx_item *items)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u32 n = 0, max, most;
	u64 now, more = 0;
	bool left;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	most = run_most(link);
	while (n < RAR_LINK_BATCH && (max = may_send(link, rar_window_burst(link, now, &more)))) {
		op = pick_pending(link, &items[n].run, most, max);
		items[n].own = !op;
		if (!op && tx->ninject && rar_sender_room(m, link->path.dst.af))
			op = pick_inject(link, &items[n].run, most, max, now);
		if (!op)
			break;
		items[n].frame = false;
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
	account_blocked(tx, left && n < RAR_LINK_BATCH, now);
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
 * rar_link_take_back() - choose sums for the first rank of this host
 * @link: link by which the other chunks go, RCU read side; no lock held
 * @item: set to the chosen run, its operation referenced
 *
 * These sums go in memory only. Softirq, or process context with bottom halves off.
 *
 * Return: false if no sum is ready.
 */
bool rar_link_take_back(struct rar_link *link, struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op = NULL;
	u64 seq;

	if (!READ_ONCE(tx->nback))
		return false;
	spin_lock_bh(&m->tx_lock);
	for (seq = m->op_oldest; tx->nback && seq < m->op_next; seq++) {
		op = op_at(m, seq);
		if (op && op->npend[RAR_BACK])
			break;
		op = NULL;
	}
	if (op) {
		item->back = true;
		item->run.phase = RAR_AG;
		pend_find(op, &item->run, RAR_BACK, rar_link_local_max(m));
		pend_clear(tx, op, RAR_BACK, item->run.chunk, rar_mask(item->run.n));
		take_local(tx, op, item);
	}
	spin_unlock_bh(&m->tx_lock);
	return op;
}

/**
 * rar_link_take() - choose chunks that the neighbour gets in memory
 * @link: link to the neighbour, RCU read side; no lock held
 * @next: the neighbour
 * @item: set to the chosen run, its operation referenced
 *
 * Only the injection window limits these chunks. They get no numbers, because they cannot be
 * lost. Softirq, or process context with bottom halves off.
 *
 * Return: false if no chunk is ready that @next could use.
 */
bool rar_link_take(struct rar_link *link, struct rar_member *next,
		   struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_run *run = &item->run;
	struct rar_operation *op;
	u32 max = rar_link_local_max(m);
	u64 now, posted, released;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	released = m->ops_released;
	/*
	 * The neighbour has room only for chunks to which it has contributed. When it has
	 * contributed more, it makes this rank push again, and that push takes this lock.
	 * @op_whole is read before @op_come; see rar_link_contributed().
	 */
	posted = smp_load_acquire(&next->op_whole);
	rar_link_credit(link, posted, READ_ONCE(next->op_come), 0);
	op = pick_pending(link, run, max, max);
	/* A chunk sent before needs no credit, but the neighbour would refuse it in memory. */
	if (op && !rar_link_welcome(tx, op, run)) {
		rar_link_pend(tx, op, run->phase, run->chunk, rar_mask(run->n));
		op = NULL;
	}
	if (!op)
		op = pick_inject(link, run, max, max, now);
	if (op) {
		item->back = false;
		op->nsent += hweight64(rar_bits_set(op->sent[run->phase], run->chunk,
						    rar_mask(run->n)));
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
 * rar_link_taken() - settle a run that was offered in memory
 * @link: as for the function that chose it
 * @item: from rar_link_take() or rar_link_take_back(); its reference is dropped
 * @done: chunks of the run that were accepted; the others are offered again a little later
 */
void rar_link_taken(struct rar_link *link, struct rar_tx_item *item, u64 done)
{
	u32 way = item->back ? RAR_BACK : item->run.phase;
	u64 again = rar_mask(item->run.n) & ~done;
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op = item->op;
	bool released = false;

	spin_lock_bh(&m->tx_lock);
	/* The group may have failed, and the table forgotten the operation. */
	if (op_at(m, op->seq) == op) {
		rar_link_acked(tx, op, way, item->run.chunk, done);
		rar_link_pend(tx, op, way, item->run.chunk, again);
		released = rar_link_try_release(link, op);
	}
	if (again)
		rar_link_timer_at(m, rar_now_us() + LINK_LOCAL_RETRY_US);
	spin_unlock_bh(&m->tx_lock);
	if (rar_op_unuse(op) || released)
		rar_member_wake(m);
}

/**
 * rar_link_post() - put an operation on the table
 * @link: link by which its chunks go; the member's lock is held
 * @op:   operation; the caller has taken the table's reference
 */
void rar_link_post(struct rar_link *link, struct rar_operation *op)
{
	struct rar_member *m = link->member;

	spin_lock(&m->tx_lock);
	op->posted_us = rar_now_us();
	atomic_set(&op->users, 1);
	if (op->later)
		op->inject_end = op->inject;
	rar_window_post(link, op);
	link->tx.ninject += op->inject_end - op->inject;
	rcu_assign_pointer(m->ops[op->seq % RAR_MAX_OPS], op);
	WRITE_ONCE(m->op_next, op->seq + 1);
	if (!op->later) {
		/* Pairs with the acquire in rar_op_early(): a reader of the number finds
		 * the operation in the table.
		 */
		smp_store_release(&m->op_whole, op->seq + 1);
		rar_straggler_posted(m, op->posted_us);
	}
	spin_unlock(&m->tx_lock);
}

/**
 * rar_link_contributed() - note that more of the newest operation is contributed
 * @link: link by which its chunks go
 * @op:   operation, posted with @later set
 * @come: chunks of each block that lie in its buffer; all chunks in the last call
 *
 * Process context, send_lock held. The caller calls rar_post_open().
 */
void rar_link_contributed(struct rar_link *link, struct rar_operation *op, u32 come)
{
	u32 own = rar_ring_block_chunks(&op->ring, rar_plan_own(&op->ring.plan)), end;
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;

	spin_lock_bh(&m->tx_lock);
	/* Unless the group has failed. */
	if (op_at(m, op->seq) == op) {
		end = op->inject_first + min(come, own);
		tx->ninject += end - op->inject_end;
		op->inject_end = end;
	}
	if (come < op->ring.cpb) {
		/* Pairs with the acquire in rar_op_early(). */
		smp_store_release(&m->op_come, come);
	} else {
		WRITE_ONCE(op->posted_us, rar_now_us());
		WRITE_ONCE(m->op_come, 0);
		/* Pairs with the acquire in rar_op_early(). A reader without the lock reads
		 * @op_whole before @op_come, so it never takes chunks of one operation for
		 * chunks of the next one.
		 */
		smp_store_release(&m->op_whole, op->seq + 1);
		rar_straggler_posted(m, op->posted_us);
	}
	spin_unlock_bh(&m->tx_lock);
}

/* Measure for how long a neighbour's chunk was missing, for RAR_INFO. */
static void account_starved(struct rar_member *m, const struct rar_operation *op, u64 now)
{
	u64 gap = now - max(m->came_us, op->posted_us);

	if (gap > LINK_STARVED_US)
		m->starved_us += gap;
	m->came_us = now;
}

/*
 * May chunks that just came go on at once, in the packet that brought them? Only if they were
 * never sent, need no credit, and no other chunk is pending. The caller has no reference, so
 * the operation must still be on the table.
 */
static bool may_forward(struct rar_link *link,
			const struct rar_operation *op,
			const struct rar_run *run, u64 now)
{
	const struct rar_link_tx *tx = &link->tx;
	u64 mask = rar_mask(run->n), more;

	return op_at(link->member, op->seq) == op && !tx->npend &&
	       may_send(link, rar_window_burst(link, now, &more)) >= run->n &&
	       rar_link_welcome(tx, op, run) == run->n &&
	       !rar_bits_get(op->sent[run->phase], run->chunk, mask) &&
	       !rar_bits_get(op->acked[run->phase], run->chunk, mask);
}

/**
 * rar_link_publish() - note that received chunks are in the buffer, and let them go on
 * @link: link by which the chunks go on
 * @op:   operation, RCU read side
 * @a:    the run, whose new chunks are published
 * @item: set if the packet that brought the run goes on; NULL if it must not
 *
 * Softirq, or process context with bottom halves off. The caller calls rar_link_published()
 * afterwards.
 *
 * Return: true if the packet goes on as @item. The caller then drops the reference of @item
 * to the operation.
 */
bool rar_link_publish(struct rar_link *link, struct rar_operation *op,
		      const struct rar_arrival *a, struct rar_tx_item *item)
{
	const struct rar_plan *plan = &op->ring.plan;
	const struct rar_run *run = &a->run;
	enum rar_phase next = rar_plan_next(plan, run->phase, a->c.block);
	u64 won = a->won, now = a->now_us, bytes, released;
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_run out = *run;
	bool forward = false;

	out.phase = next;
	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	bytes = rar_op_bytes(op, run, won);
	m->rx_packets += hweight64(won);
	m->rx_bytes += bytes;
	account_starved(m, op, now);
	/* A sum of all ranks proves that the neighbour, too, has posted the operation. */
	if (rar_plan_adds(plan) && rar_plan_completes(plan, run->phase, a->c.block))
		rar_link_credit(link, max(tx->posted, op->seq), 0, tx->credit);
	if (rar_plan_summed(plan, run->phase)) {
		/* The sum went round, so the neighbour had the RS chunks of this rank. */
		rar_link_acked(tx, op, RAR_RS, run->chunk, won);
		if (a->c.block == rar_plan_own(plan))
			rar_window_returned(link, op, run->chunk, bytes, now);
	}
	if (item && next != RAR_PHASES && may_forward(link, op, &out, now)) {
		item->run = out;
		number(link, op, item, now);
		tx->sent_us = now;
		rar_link_timer_at(m, now + rar_window_timeout(&tx->win));
		forward = true;
	} else if (next != RAR_PHASES) {
		rar_link_pend(tx, op, out.phase, run->chunk, won);
	}
	if (op->nback && run->phase == RAR_RS && next == RAR_AG)
		rar_link_pend(tx, op, RAR_BACK, run->chunk, won);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
	return forward;
}

/**
 * rar_link_published() - count received chunks of the result, after the packet has gone on
 * @m:  member
 * @op: operation, RCU read side
 * @a:  the run, whose new chunks are published
 *
 * The caller calls rar_push() before or after.
 *
 * Return: true if the operation is complete here.
 */
bool rar_link_published(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a)
{
	int left, wake;

	if (!a->won || !rar_plan_last(&op->ring.plan, a->run.phase, a->c.block))
		return false;
	/* A full barrier; pairs with the barrier in rar_copy_out(). */
	left = atomic_sub_return(hweight64(a->won), &op->left);
	wake = READ_ONCE(op->wake_left);
	if (left && left <= wake && cmpxchg(&op->wake_left, wake, -1) == wake)
		rar_member_wake(m);
	return !left;
}

/**
 * rar_link_local_drop() - slow down, because a queue of this host did not take a packet
 * @link: link by which the packet went; no lock held
 *
 * The packet counts as sent, and loss.c will find it lost.
 */
void rar_link_local_drop(struct rar_link *link)
{
	spin_lock_bh(&link->member->tx_lock);
	rar_window_full(&link->tx);
	spin_unlock_bh(&link->member->tx_lock);
}

/* -- begin and end ------------------------------------------------------- */

/* Prepare the links of a new member. */
void rar_link_init(struct rar_member *m)
{
	struct rar_link *link;

	spin_lock_init(&m->tx_lock);
	for (link = m->link; link < m->link + ARRAY_SIZE(m->link); link++) {
		link->member = m;
		spin_lock_init(&link->rx.lock);
	}
}

/**
 * rar_link_prepare() - allocate the memory for transmissions in flight
 * @link: link by which chunks will go, before its member joins
 *
 * Process context.
 *
 * Return: 0 or -ENOBUFS.
 */
int rar_link_prepare(struct rar_link *link)
{
	struct rar_link_tx *tx = &link->tx;

	if (tx->sent)
		return 0;
	tx->sent = kcalloc(RAR_TX_SLOTS, sizeof(*tx->sent), GFP_KERNEL_ACCOUNT);
	return tx->sent ? 0 : -ENOBUFS;
}

/**
 * rar_link_start() - prepare to send by a link when a new epoch begins
 * @link: link of a member in READY, whose payload is agreed and whose lock is held
 */
void rar_link_start(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;

	/* The payload decides how many chunks a superpacket holds: look up the route again. */
	dst_cache_reset(&link->path.cache);
	WRITE_ONCE(link->path.run_max, 1);
	spin_lock(&m->tx_lock);
	tx->credit = READ_ONCE(m->rn->sysctl_early_bytes) / 2;
	tx->sent_us = rar_now_us();
	tx->frames_off = jiffies;
	rar_window_init(link);
	rar_straggler_init(m);
	spin_unlock(&m->tx_lock);
}

/* Forget the packets in flight, and the chunks that wait. */
static void flush_tx(struct rar_link_tx *tx)
{
	tx->npend = 0;
	tx->nback = 0;
	tx->ninject = 0;
	tx->una = tx->next_seq;
	tx->inflight = 0;
}

/**
 * rar_link_flush() - forget all operations
 * @m: member, failed or at its end
 */
void rar_link_flush(struct rar_member *m)
{
	struct rar_operation *op;
	int i;

	spin_lock_bh(&m->tx_lock);
	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = rcu_dereference_protected(m->ops[i],
					       lockdep_is_held(&m->tx_lock));
		RCU_INIT_POINTER(m->ops[i], NULL);
		if (op)
			rar_op_unuse(op);
	}
	m->op_oldest = m->op_next;
	for (i = 0; i < ARRAY_SIZE(m->link); i++)
		flush_tx(&m->link[i].tx);
	spin_unlock_bh(&m->tx_lock);
}

/**
 * rar_link_bury() - forget all operations and all packets in flight
 * @m: member that sends nothing any more
 */
void rar_link_bury(struct rar_member *m)
{
	struct rar_link *link;
	struct rar_sent *sent;

	rar_link_flush(m);
	for (link = m->link; link < m->link + ARRAY_SIZE(m->link); link++) {
		spin_lock_bh(&m->tx_lock);
		sent = link->tx.sent;
		link->tx.sent = NULL;
		spin_unlock_bh(&m->tx_lock);
		kfree(sent);
	}
}
