// SPDX-License-Identifier: GPL-2.0
/*
 * The link: a reliable hop from a rank to its successor.
 *
 * Every transmission has a number of its own; what is lost is not sent
 * again, its chunk is, with a new number, from the buffer. Acknowledgements
 * are cumulative plus a bitmap. Limits hold a sender back: the injection
 * window (own chunks whose all-gather has not come back) and, for operations
 * that the successor has not posted, its credit. Loss, a congestion mark or a
 * full queue of this host halves the first and the packets in flight.
 */
#include "rar.h"
#include "trace.h"

#define LINK_RTO_INIT_US	300000
#define LINK_RTO_MIN_US		40000
#define LINK_RTO_MAX_US		1000000
#define LINK_REORDER_MIN_US	10000	/* a gap is not a loss before */
#define LINK_MIN_CHUNKS		4	/* injection window never below */
#define LINK_MIN_CWND		32	/* packets in flight never below */
#define LINK_RTO_BURST		64	/* given up by one timeout */
#define LINK_PROBE_MIN_US	20000
#define LINK_PROBE_MAX_US	200000
#define LINK_BATCH		16

static unsigned long us_to_jiffies_up(u64 us)
{
	return usecs_to_jiffies(min_t(u64, us, USEC_PER_SEC)) + 1;
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
	while (grp->op_oldest <= op->seq && !op_at(grp, grp->op_oldest))
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

/* -- windows (tx.lock) --------------------------------------------------- */

static u64 window_min(const struct rar_group *grp)
{
	return LINK_MIN_CHUNKS * (u64)grp->payload;
}

/* net.rar.window is for the whole ring: each rank injects its share. */
static void window_init(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 share = READ_ONCE(grp->rn->sysctl_window) / grp->size;

	tx->inj_max = max(share, window_min(grp));
	tx->inj_wnd = tx->inj_max;
	tx->cwnd = RAR_TX_SLOTS;
}

/*
 * Loss or a congestion mark. Once per window of packets: what happened below
 * @recover belongs to the last cut.
 */
static void window_cut(struct rar_group *grp, u32 lost)
{
	struct rar_link_tx *tx = &grp->tx;

	if (rar_seq_before(lost, tx->recover))
		return;
	tx->recover = tx->next_seq;
	tx->cwnd = max_t(u32, (tx->next_seq - tx->una) / 2, LINK_MIN_CWND);
	tx->cwnd_acked = 0;
	tx->inj_wnd = max(tx->inj_wnd / 2, window_min(grp));
}

/* A packet was acknowledged: one more in flight per window of them. */
static void cwnd_grow(struct rar_link_tx *tx)
{
	if (++tx->cwnd_acked < tx->cwnd || tx->cwnd == RAR_TX_SLOTS)
		return;
	tx->cwnd++;
	tx->cwnd_acked = 0;
}

/* An own chunk came back as AG. */
static void window_open(struct rar_group *grp, u32 len)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 grow = div64_u64((u64)grp->payload * grp->payload, tx->inj_wnd);

	tx->inj_out -= min_t(u64, tx->inj_out, len);
	tx->inj_wnd = min(tx->inj_wnd + grow, tx->inj_max);
}

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
					 struct rar_tx_item *item)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	struct rar_chunk c;
	u64 seq;

	if (!tx->ninject || tx->inj_out >= tx->inj_wnd)
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
		tx->inj_out += c.len;
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

	refcount_inc(&op->ref);
	item->op = op;
	item->seq = tx->next_seq++;
	item->una = tx->una;
	tx->sent[slot] = (struct rar_sent) {
		.time_us = now,
		.op = op->seq,
		.chunk = item->chunk,
		.phase = item->phase,
	};
	__clear_bit(slot, tx->resolved);

	rar_ring_chunk(&op->ring, item->chunk, &c);
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

static u32 take_batch(struct rar_group *grp, struct rar_tx_item *items)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_operation *op;
	u64 now = rar_now_us();
	u32 n = 0;

	spin_lock_bh(&tx->lock);
	while (n < LINK_BATCH && tx->next_seq - tx->una < tx->cwnd) {
		op = pick_pending(grp, &items[n]);
		if (!op)
			op = pick_inject(grp, &items[n]);
		if (!op)
			break;
		number(grp, op, &items[n++], now);
	}
	if (n)
		tx->sent_us = now;
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
	rar_group_kick(grp, jiffies +
		       us_to_jiffies_up(READ_ONCE(grp->tx.rto_us)));
}

/**
 * rar_link_post() - put an operation on the table
 * @grp: group, @grp->lock held
 * @op:  operation; the table's reference was taken by the caller
 */
void rar_link_post(struct rar_group *grp, struct rar_operation *op)
{
	spin_lock(&grp->tx.lock);
	if (grp->size > 1)
		grp->tx.ninject += op->inject_end - op->inject;
	rcu_assign_pointer(grp->ops[op->seq % RAR_MAX_OPS], op);
	spin_unlock(&grp->tx.lock);
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

	if (phase == RAR_RS && final) {
		set_bit(chunk, op->claimed[RAR_AG]);
		rar_op_publish(op, RAR_AG, chunk);
	}
	spin_lock_bh(&tx->lock);
	grp->rx_packets++;
	grp->rx_bytes += c->len;
	if (phase == RAR_AG) {
		/* It went round: the successor had our RS chunk. */
		mark_acked(tx, op, RAR_RS, chunk);
		if (c->block == grp->rank)
			window_open(grp, c->len);
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
	window_cut(grp, grp->tx.next_seq - 1);
	spin_unlock_bh(&grp->tx.lock);
}

/* -- acknowledgments, sending side -------------------------------------- */

static void ack_one(struct rar_group *grp, u32 seq, u64 *newest_us)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_sent *sent = &tx->sent[seq % RAR_TX_SLOTS];
	struct rar_operation *op = op_of(grp, sent);

	if (!__test_and_set_bit(seq % RAR_TX_SLOTS, tx->resolved)) {
		*newest_us = max(*newest_us, sent->time_us);
		cwnd_grow(tx);
	}
	if (!rar_seq_before(seq, tx->highest))
		tx->highest = seq + 1;
	if (!op)
		return;
	mark_acked(tx, op, sent->phase, sent->chunk);
	op_try_release(grp, op);
}

static void give_up(struct rar_group *grp, u32 seq)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_sent *sent = &tx->sent[seq % RAR_TX_SLOTS];
	struct rar_operation *op = op_of(grp, sent);

	if (__test_and_set_bit(seq % RAR_TX_SLOTS, tx->resolved) || !op)
		return;
	trace_rar_lost(grp, op->seq, sent->phase, sent->chunk, 0);
	window_cut(grp, seq);
	pend_set(tx, op, sent->phase, sent->chunk);
}

static void advance_una(struct rar_link_tx *tx)
{
	while (tx->una != tx->next_seq &&
	       test_bit(tx->una % RAR_TX_SLOTS, tx->resolved))
		tx->una++;
}

/* RFC 6298 on a sample that is exact, since no number is used twice. */
static void rtt_sample(struct rar_link_tx *tx, u32 us)
{
	u32 err;

	tx->rtt_us = us;
	if (!tx->srtt_us) {
		tx->srtt_us = max(us, 1U);
		tx->rttvar_us = us / 2;
	} else {
		err = us > tx->srtt_us ? us - tx->srtt_us : tx->srtt_us - us;
		tx->rttvar_us += (s32)(err - tx->rttvar_us) / 4;
		tx->srtt_us += (s32)(us - tx->srtt_us) / 8;
	}
	tx->rto_us = clamp_t(u32, tx->srtt_us + 4 * tx->rttvar_us,
			     LINK_RTO_MIN_US, LINK_RTO_MAX_US);
	tx->backoff = 0;
}

/*
 * A packet is lost if RAR_REORDER later ones came and it had the time to come
 * as well: two round trips, since two CPUs may feed one link, each with a queue
 * of its own on the way.
 * Returns when to look again, 0 = no need.
 */
static u64 detect_lost(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 wait = max_t(u32, LINK_REORDER_MIN_US,
			 2 * max(tx->srtt_us, tx->rtt_us) + tx->rttvar_us);
	u64 due;
	u32 seq;

	for (seq = tx->una; rar_seq_before(seq + RAR_REORDER, tx->highest);
	     seq++) {
		if (test_bit(seq % RAR_TX_SLOTS, tx->resolved))
			continue;
		due = tx->sent[seq % RAR_TX_SLOTS].time_us + wait;
		if (due > now)
			return due;
		give_up(grp, seq);
	}
	return 0;
}

/* Returns in how many us to look for losses again, 0 = no need. */
static u64 ack_process(struct rar_group *grp, const struct rar_ack_hdr *ah)
{
	struct rar_link_tx *tx = &grp->tx;
	u32 cum = be32_to_cpu(ah->cum), base = be32_to_cpu(ah->base);
	u32 delay = be32_to_cpu(ah->delay_us), seq, i;
	u64 newest = 0, now = rar_now_us(), rtt, again;

	for (seq = tx->una; rar_seq_before(seq, cum); seq++)
		ack_one(grp, seq, &newest);
	for (i = 0; i < 8 * sizeof(ah->bitmap); i++) {
		seq = base + i;
		if (!(ah->bitmap[i / 8] & (1 << i % 8)) ||
		    rar_seq_before(seq, tx->una) ||
		    !rar_seq_before(seq, tx->next_seq))
			continue;
		ack_one(grp, seq, &newest);
	}
	if (newest) {
		tx->progress_us = now;
		rtt = now - newest;
		rtt_sample(tx, rtt > delay ? min_t(u64, rtt - delay, U32_MAX / 8) : 1);
	}
	if (be32_to_cpu(ah->ce) != tx->ce) {
		tx->ce = be32_to_cpu(ah->ce);
		window_cut(grp, tx->highest);
	}
	again = detect_lost(grp, now);
	advance_una(tx);
	return again ? again - now : 0;
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
	u64 oldest = READ_ONCE(grp->op_oldest), again;
	struct rar_ack_hdr ah;

	if (skb_copy_bits(pkt->skb, pkt->off, &ah, sizeof(ah)))
		return;
	spin_lock_bh(&tx->lock);
	if (rar_seq_before(tx->next_seq, be32_to_cpu(ah.cum))) {
		/* Acknowledges what was never sent. */
		spin_unlock_bh(&tx->lock);
		rar_mib_inc(grp->rn, DropSeq);
		return;
	}
	again = ack_process(grp, &ah);
	credit_update(grp, be64_to_cpu(ah.posted), be32_to_cpu(ah.credit));
	spin_unlock_bh(&tx->lock);

	rar_link_push(grp);
	if (again)
		rar_group_kick(grp, jiffies + us_to_jiffies_up(again));
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

/* Set the number; true if it shows a gap or fills one. */
static bool rx_set(struct rar_link_rx *rx, u32 seq)
{
	bool gap;

	if (rar_seq_before(seq, rx->cum) || seq - rx->cum >= RAR_RX_WIN)
		return true;
	gap = seq != rx->highest;
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
 *
 * Acknowledges at once or lets the timer do it. Softirq.
 */
void rar_link_record(struct rar_group *grp, const struct rar_data_hdr *dh,
		     bool ce)
{
	struct rar_link_rx *rx = &grp->rx;
	bool now;

	spin_lock_bh(&rx->lock);
	rx_advance(rx, be32_to_cpu(dh->una));
	now = rx_set(rx, be32_to_cpu(dh->seq));
	rx->newest_us = rar_now_us();
	rx->ce += ce;
	if (++rx->unacked >= RAR_ACK_EVERY || (dh->flags & RAR_F_ACK_NOW))
		now = true;
	rx->ack_due = !now;
	spin_unlock_bh(&rx->lock);

	if (now)
		rar_link_send_ack(grp);
	else
		rar_group_kick(grp, jiffies + 1);
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

	spin_lock_bh(&rx->lock);
	ah.cum = cpu_to_be32(rx->cum);
	ah.highest = cpu_to_be32(rx->highest);
	ah.ce = cpu_to_be32(rx->ce);
	ah.delay_us = cpu_to_be32(rx->unacked ?
				  rar_now_us() - rx->newest_us : 0);
	ack_fill_bitmap(rx, &ah);
	rx->unacked = 0;
	rx->ack_due = false;
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
	spin_lock_bh(&grp->rx.lock);
	rx_advance(&grp->rx, be32_to_cpu(ph.una));
	spin_unlock_bh(&grp->rx.lock);
	rar_link_send_ack(grp);
}

/* -- timer --------------------------------------------------------------- */

/* Give up the oldest packets if their time is over. Returns when it will be. */
static u64 tick_rto(struct rar_group *grp, u64 now)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 rto = min_t(u64, (u64)tx->rto_us << min(tx->backoff, 10U),
			LINK_RTO_MAX_US);
	u64 due;
	u32 seq, n = 0;

	if (tx->una == tx->next_seq)
		return now + USEC_PER_SEC;
	/* While acknowledgments bring news the queue is long, not broken. */
	due = max(tx->sent[tx->una % RAR_TX_SLOTS].time_us, tx->progress_us) +
	      rto;
	if (due > now)
		return due;
	for (seq = tx->una; seq != tx->next_seq && n < LINK_RTO_BURST; seq++) {
		if (tx->sent[seq % RAR_TX_SLOTS].time_us + rto > now)
			break;
		give_up(grp, seq);
		n++;
	}
	advance_una(tx);
	tx->backoff++;
	return now + rto;
}

/* A header that asks for an ACK: closed credit, or nothing said for long. */
static bool tick_probe(struct rar_group *grp, u64 now, u64 *next)
{
	struct rar_link_tx *tx = &grp->tx;
	u64 wait = rar_group_keepalive_ms(grp) * (u64)USEC_PER_MSEC;
	u64 last = max(tx->sent_us, tx->probed_us);

	if (tx->una == tx->next_seq && (tx->npend || tx->ninject))
		wait = clamp_t(u64, 2 * (now - max(tx->sent_us, tx->blocked_us)),
			       LINK_PROBE_MIN_US, LINK_PROBE_MAX_US);
	if (now < last + wait) {
		*next = min(*next, last + wait);
		return false;
	}
	tx->probed_us = now;
	*next = min(*next, now + wait);
	return true;
}

/**
 * rar_link_tick() - timer of both links
 * @grp: group in RUN or LEAVING, RCU read side
 *
 * Softirq. Return: jiffies of the next call.
 */
unsigned long rar_link_tick(struct rar_group *grp)
{
	struct rar_link_tx *tx = &grp->tx;
	struct rar_probe_hdr ph = {};
	u64 now = rar_now_us(), next, again;
	bool probe, ack, lost;

	spin_lock_bh(&tx->lock);
	again = detect_lost(grp, now);
	advance_una(tx);
	next = tick_rto(grp, now);
	if (again)
		next = min(next, again);
	probe = tick_probe(grp, now, &next);
	ph.una = cpu_to_be32(tx->una);
	lost = tx->npend;
	spin_unlock_bh(&tx->lock);
	spin_lock_bh(&grp->rx.lock);
	ack = grp->rx.ack_due;
	spin_unlock_bh(&grp->rx.lock);

	if (ack)
		rar_link_send_ack(grp);
	if (lost)
		rar_link_push(grp);
	if (probe)
		rar_output_ctl(grp, RAR_NEXT, &ph, sizeof(ph), 0, RAR_T_PROBE,
			       grp->epoch);
	return jiffies + us_to_jiffies_up(next > now ? next - now : 0);
}

/* -- begin and end ------------------------------------------------------- */

void rar_link_init(struct rar_group *grp)
{
	spin_lock_init(&grp->tx.lock);
	spin_lock_init(&grp->rx.lock);
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
	tx->rto_us = LINK_RTO_INIT_US;
	tx->credit = READ_ONCE(grp->rn->sysctl_early_bytes) / 2;
	tx->sent_us = rar_now_us();
	window_init(grp);
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
