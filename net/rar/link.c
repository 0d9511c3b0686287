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
	return op->nacked == op->ntx && !atomic_read(&op->left);
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
	rar_op_put(op);
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

static void pend_set(struct rar_link_tx *tx, struct rar_operation *op,
		     enum rar_phase p, u32 chunk)
{
	if (test_bit(chunk, op->acked[p]) || __test_and_set_bit(chunk, op->pend[p]))
		return;
	op->npend[p]++;
	tx->npend++;
	op->pend_from[p] = min(op->pend_from[p], chunk);
}

static void pend_clear(struct rar_link_tx *tx, struct rar_operation *op,
		       enum rar_phase p, u32 chunk)
{
	if (!__test_and_clear_bit(chunk, op->pend[p]))
		return;
	op->npend[p]--;
	tx->npend--;
}

static u32 pend_take(struct rar_link_tx *tx, struct rar_operation *op,
		     enum rar_phase p)
{
	u32 chunk = find_next_bit(op->pend[p], op->ring.nchunks,
				  op->pend_from[p]);

	pend_clear(tx, op, p, chunk);
	op->pend_from[p] = chunk + 1;
	return chunk;
}

/* The successor has this chunk, or provably needs it no more. */
static void mark_acked(struct rar_link_tx *tx, struct rar_operation *op,
		       enum rar_phase p, u32 chunk)
{
	if (__test_and_set_bit(chunk, op->acked[p]))
		return;
	op->nacked++;
	pend_clear(tx, op, p, chunk);
}

/* -- credit (tx.lock) ---------------------------------------------------- */

/*
 * May a chunk of @op be sent for the first time? An operation that the
 * successor has posted needs no credit.
 */
static bool credit_take(struct rar_link_tx *tx, struct rar_operation *op,
			u32 len)
{
	u32 cost = len + RAR_EARLY_COST;

	if (op->seq < tx->posted)
		return true;
	if (tx->early_used + cost > tx->credit)
		return false;
	tx->early_used += cost;
	op->early_cost += cost;
	return true;
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

/* Choose a chunk to forward or to send again; oldest operation first. */
static struct rar_operation *pick_pending(struct rar_group *grp,
					  struct rar_tx_item *item)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	struct rar_chunk c;
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
			item->chunk = pend_take(tx, op, p);
			item->phase = p;
			rar_ring_chunk(&op->ring, item->chunk, &c);
			if (test_bit(item->chunk, op->sent[p]) ||
			    credit_take(tx, op, c.len))
				return op;
			pend_set(tx, op, p, item->chunk);
			return NULL;
		}
	}
	return NULL;
}

/* Choose an own chunk that was never sent; oldest operation first. */
static struct rar_operation *pick_inject(struct rar_group *grp,
					 struct rar_tx_item *item, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	struct rar_chunk c;
	u64 seq;

	if (!tx->ninject || !rar_window_may_inject(tx))
		return NULL;
	for (seq = grp->op_oldest; seq < grp->op_next; seq++) {
		op = op_at(grp, seq);
		if (!op || op->inject == op->inject_end)
			continue;
		rar_ring_chunk(&op->ring, op->inject, &c);
		if (!credit_take(tx, op, c.len))
			return NULL;
		item->chunk = op->inject++;
		item->phase = RAR_RS;
		tx->ninject--;
		rar_window_injected(grp, op, item->chunk, c.len, now);
		return op;
	}
	return NULL;
}

/* Give the chosen chunk a number and remember it. */
static void number(struct rar_group *grp, struct rar_operation *op,
		   struct rar_tx_item *item, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 slot = tx->next_seq % RAR_TX_SLOTS;
	struct rar_chunk c;

	rar_ring_chunk(&op->ring, item->chunk, &c);
	refcount_inc(&op->ref);
	item->op = op;
	item->seq = tx->next_seq++;
	item->una = tx->una;
	tx->sent[slot] = (struct rar_sent) {
		.time_us = now,
		.op = op->seq,
		.chunk = item->chunk,
		.phase = item->phase,
		.full = c.len == grp->payload,
	};
	__clear_bit(slot, tx->resolved);
	tx->inflight++;
	tx->packets++;
	tx->bytes += c.len;
	if (__test_and_set_bit(item->chunk, op->sent[item->phase])) {
		tx->retransmits++;
		rar_mib_inc(grp->rn, TxRetrans);
		item->ack_now = true;
	} else {
		item->ack_now = ++op->nsent == op->ntx;
	}
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

/* The link window, and room to remember what is sent. */
static bool may_send(const struct rar_link_tx *tx)
{
	return tx->inflight < tx->cwnd &&
	       tx->next_seq - tx->una < RAR_TX_SLOTS;
}

static u32 take_batch(struct rar_group *grp, struct rar_tx_item *items)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	u32 n = 0;
	u64 now;

	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	while (n < LINK_BATCH && may_send(tx)) {
		op = pick_pending(grp, &items[n]);
		if (!op)
			op = pick_inject(grp, &items[n], now);
		if (!op)
			break;
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
 * rar_link_push() - send what is ready and may go
 * @grp: group, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_link_push(struct rar_group *grp)
{
	struct rar_tx_item items[LINK_BATCH];
	u32 i, n;

	do {
		n = take_batch(grp, items);
		for (i = 0; i < n; i++) {
			rar_output_chunk(grp, items[i].op, &items[i]);
			rar_op_put(items[i].op);
		}
	} while (n == LINK_BATCH);
	/* Only the successor can open what is closed: ask it. */
	if (READ_ONCE(grp->tx.blocked_us) && !READ_ONCE(grp->tx.inflight))
		rar_group_kick(grp, jiffies +
			       us_to_jiffies_up(LINK_PROBE_MIN_US));
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

/**
 * rar_link_publish() - a received chunk is in the buffer: what follows
 * @grp:   group
 * @op:    operation, RCU read side
 * @phase: in which it came
 * @chunk: its index
 * @c:     where it lies
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_link_publish(struct rar_group *grp, struct rar_operation *op,
		      enum rar_phase phase, u32 chunk,
		      const struct rar_chunk *c)
{
	enum rar_next next = rar_ring_next(&op->ring, phase, c->block);
	bool final = phase == RAR_AG || next == RAR_NEXT_AG;
	struct rar_link_tx *tx = &grp->tx;
	u64 now;

	spin_lock_bh(&tx->lock);
	now = rar_now_us();
	grp->rx_packets++;
	grp->rx_bytes += c->len;
	account_starved(tx, op, now);
	if (phase == RAR_AG) {
		/* It went round: the successor had our RS chunk. */
		mark_acked(tx, op, RAR_RS, chunk);
		if (c->block == grp->rank)
			rar_window_returned(grp, op, chunk, c->len, now);
	}
	if (next != RAR_NEXT_STOP)
		pend_set(tx, op, next == RAR_NEXT_RS ? RAR_RS : RAR_AG, chunk);
	spin_unlock_bh(&tx->lock);

	rar_link_push(grp);
	if (final && atomic_dec_and_test(&op->left))
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
};

/* A number is settled, by an acknowledgment or by giving up: true if new. */
static bool resolve(struct rar_link_tx *tx, u32 seq)
{
	if (__test_and_set_bit(seq % RAR_TX_SLOTS, tx->resolved))
		return false;
	tx->inflight--;
	return true;
}

static void ack_one(struct rar_group *grp, u32 seq, struct ack_news *news)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_sent *sent = &tx->sent[seq % RAR_TX_SLOTS];
	struct rar_operation *op = op_of(grp, sent);

	if (!rar_seq_before(seq, tx->highest))
		tx->highest = seq + 1;
	if (!resolve(tx, seq))
		return;
	news->acked++;
	news->sent_us = max(news->sent_us, sent->time_us);
	if (sent->full)
		tx->full_lost = 0;
	if (!op)
		return;
	mark_acked(tx, op, sent->phase, sent->chunk);
	op_try_release(grp, op);
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
	if (sent->full && op->seq < tx->posted && !tx->full_lost++)
		tx->full_since_us = now;
	pend_set(tx, op, sent->phase, sent->chunk);
}

static void advance_una(struct rar_link_tx *tx)
{
	while (tx->una != tx->next_seq &&
	       test_bit(tx->una % RAR_TX_SLOTS, tx->resolved))
		tx->una++;
}

/*
 * Give up what was sent before a packet that came, and is late. Returns when
 * to look again, 0 = no need.
 */
static u64 detect_lost(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 patience = rar_window_patience(tx), seq;
	u64 sent_us;

	for (seq = tx->una; rar_seq_before(seq, tx->highest); seq++) {
		if (test_bit(seq % RAR_TX_SLOTS, tx->resolved))
			continue;
		sent_us = tx->sent[seq % RAR_TX_SLOTS].time_us;
		if (sent_us + patience > now)
			return sent_us + patience;
		give_up(grp, seq, now);
		rar_window_lost(grp, seq);
	}
	return 0;
}

/* Which numbers does the successor have? */
static void ack_numbers(struct rar_group *grp, const struct rar_ack_hdr *ah,
			struct ack_news *news)
{
	u32 cum = be32_to_cpu(ah->cum), base = be32_to_cpu(ah->base), seq, i;
	struct rar_link_tx *tx = &grp->tx;

	for (seq = tx->una; rar_seq_before(seq, cum); seq++)
		ack_one(grp, seq, news);
	for (i = 0; i < 8 * sizeof(ah->bitmap); i++) {
		seq = base + i;
		if ((ah->bitmap[i / 8] & (1 << i % 8)) &&
		    !rar_seq_before(seq, tx->una) &&
		    rar_seq_before(seq, tx->next_seq))
			ack_one(grp, seq, news);
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
		tx->full_lost = 0;
	}
	tx->dups += dups;
	tx->marks += marks;
	if (news.acked || marks)
		rar_window_acked(grp, news.acked, marks);
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
	u64 oldest = READ_ONCE(grp->op_oldest), now;
	struct rar_ack_hdr ah;

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
	ack_process(grp, &ah, now);
	credit_update(grp, be64_to_cpu(ah.posted), be32_to_cpu(ah.credit));
	rar_slow_hear(grp, &ah.slow, now);
	spin_unlock_bh(&tx->lock);

	rar_link_push(grp);
	if (READ_ONCE(grp->op_oldest) != oldest)
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
 *
 * Return: true if the packet can be recorded.
 */
bool rar_link_check(const struct rar_data_hdr *dh)
{
	return be32_to_cpu(dh->seq) - be32_to_cpu(dh->una) < RAR_TX_SLOTS;
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

/**
 * rar_link_record() - a packet's chunk is published, held, or was before
 * @grp: group
 * @dh:  its header
 * @ce:  it carried the congestion mark
 * @dup: the chunk was there before
 *
 * Acknowledges at once or lets the timer do it. Softirq.
 */
void rar_link_record(struct rar_group *grp, const struct rar_data_hdr *dh,
		     bool ce, bool dup)
{
	u64 now = rar_now_us(), due = now + RAR_ACK_DELAY_US;
	struct rar_link_rx *rx = &grp->rx;
	bool at_once, first;

	spin_lock_bh(&rx->lock);
	rx_advance(rx, be32_to_cpu(dh->una));
	at_once = rx_set(rx, be32_to_cpu(dh->seq), dup);
	rx->newest_us = now;
	rx->ce += ce;
	if (++rx->unacked >= RAR_ACK_EVERY || (dh->flags & RAR_F_ACK_NOW))
		at_once = true;
	first = !at_once && !rx->ack_us;
	if (first)
		rx->ack_us = due;
	spin_unlock_bh(&rx->lock);

	if (at_once) {
		rar_link_send_ack(grp);
	} else if (first) {
		spin_lock_bh(&grp->tx.lock);
		timer_at(grp, due);
		spin_unlock_bh(&grp->tx.lock);
	}
}

static void ack_fill_bitmap(const struct rar_link_rx *rx,
			    struct rar_ack_hdr *ah)
{
	u32 base = rx->cum, i;

	if (rx->highest - rx->cum > 8 * sizeof(ah->bitmap))
		base = rx->highest - 8 * sizeof(ah->bitmap);
	ah->base = cpu_to_be32(base);
	for (i = 0; i < 8 * sizeof(ah->bitmap); i++)
		if (rar_seq_before(base + i, rx->highest) &&
		    test_bit((base + i) % RAR_RX_WIN, rx->seen))
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
	push = tx->npend || tx->ninject;
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

	return tx->full_lost >= RAR_MTU_LOSSES &&
	       now - tx->full_since_us > limit * (u64)USEC_PER_MSEC &&
	       time_before(jiffies, READ_ONCE(grp->heard[RAR_NEXT]) +
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

	spin_lock(&tx->lock);
	tx->credit = READ_ONCE(grp->rn->sysctl_early_bytes) / 2;
	tx->sent_us = rar_now_us();
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
			rar_op_put(op);
	}
	grp->tx.npend = 0;
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
