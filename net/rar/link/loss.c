// SPDX-License-Identifier: GPL-2.0
/*
 * Loss, sending side: which packets the neighbour has and which got lost, and the timer of
 * all links.
 *
 * A packet is lost when a packet sent later has come, and this one had the time to come as
 * well (RACK, RFC 8985). When nothing comes at all, the oldest chunk is sent again as a
 * probe, and the timeout doubles. At the third timeout everything in flight is lost. Only
 * the silence of the neighbour's kernel ends the group.
 */
#include "core/member.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/carry.h"
#include "link/lane.h"
#include "link/link.h"
#include "link/loss.h"
#include "link/out.h"
#include "link/sent.h"
#include "link/straggler.h"
#include "link/window.h"
#include "tx/control.h"

#define LOSS_PROBES		2	/* timeouts before the window collapses */
#define LOSS_MTU_MS		1000
#define LOSS_SILENT		(HZ / 4)	/* least time until a neighbour seems silent */
#define LOSS_FRAMES_LOST	8	/* frames lost in a row before XDP is given up, */
#define LOSS_FRAMES_OFF		HZ	/* for this many jiffies */

/* -- acknowledgments, sending side -------------------------------------- */

/* The news in an acknowledgment. */
struct ack_news {
	u64 sent_us;		/* when the newest packet it reports was sent */
	u32 acked;
	u32 packets;
};

/* Settle a number: it is acknowledged or given up. Returns true if it was not settled before. */
static bool resolve(struct rar_link_tx *tx, u32 seq)
{
	if (__test_and_set_bit(rar_sent_slot(tx, seq), tx->resolved))
		return false;
	tx->inflight--;
	return true;
}

/* -- full-size chunks: does the path still take them? ---------------------- */

/* A full-size chunk passed, so the path takes them. @alone: in a packet of its own. */
static void full_came(struct rar_link_tx *tx, bool alone)
{
	int i;

	for (i = 0; i <= alone; i++) {
		tx->full_lost[i] = 0;
		tx->full_doubt[i] = 0;
	}
}

/* @n full-size chunks did not pass, and a packet that was sent later did. */
static void full_missed(struct rar_link_tx *tx, bool alone, u32 n, u64 now)
{
	if (!n)
		return;
	if (tx->full_lost[alone]) {
		tx->full_lost[alone] += n;
	} else {
		tx->full_lost[alone] = 1;
		tx->full_since_us[alone] = now;
	}
}

/* A full-size chunk is given up. A chunk lost in an outage says nothing about sizes. */
static void full_given_up(struct rar_link_tx *tx, const struct rar_sent *sent, u32 seq, u64 now)
{
	bool alone = sent->n == 1;

	if (tx->full_lost[alone] && sent->time_us < tx->full_since_us[alone])
		return;
	if (rar_seq_before(seq, tx->highest)) {
		full_missed(tx, alone, 1, now);
		return;
	}
	if (!(tx->full_doubt[false] | tx->full_doubt[true]) ||
	    rar_seq_before(tx->doubt_end, seq + 1))
		tx->doubt_end = seq + 1;
	tx->full_doubt[alone]++;
}

/*
 * The neighbour waits for nothing below @cum. If a chunk below it was given up, the neighbour
 * learned so from a packet that was sent later, so that packet passed.
 */
static void full_told(struct rar_link_tx *tx, u32 cum, u64 now)
{
	int alone;

	if (rar_seq_before(cum, tx->doubt_end))
		return;
	for (alone = 0; alone < ARRAY_SIZE(tx->full_doubt); alone++) {
		full_missed(tx, alone, tx->full_doubt[alone], now);
		tx->full_doubt[alone] = 0;
	}
}

/* -- what an acknowledgment says ------------------------------------------ */

/* The neighbour has chunks of a run: those of @which, from the one at place @i on. */
static void ack_run(struct rar_link *link, const struct rar_sent *sent, u32 i, u64 which,
		    struct ack_news *news)
{
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;
	u32 n = hweight64(which);

	tx->inflight -= n;
	rar_lane_left(link, sent, n);
	news->acked += n;
	news->packets += !i && which & 1;
	news->sent_us = max(news->sent_us, sent->time_us);
	if (rar_sent_full(sent, i + __ffs64(which)))
		full_came(tx, sent->n == 1);
	if (sent->frame)
		tx->frames_lost = 0;
	if (sent->whole)
		rar_carry_came(&tx->carry, sent->n);
	rar_lane_came(link, sent);
	op = rar_link_op_of(link->member, sent);
	if (!op)
		return;
	rar_out_acked(link, op, sent->phase, sent->chunk + i, which);
	rar_link_try_release(link->member, op);
}

/* The neighbour has the numbers in [@seq, @end). */
static void ack_range(struct rar_link *link, u32 seq, u32 end,
		      struct ack_news *news)
{
	struct rar_link_tx *tx = &link->tx;
	const struct rar_sent *sent;
	u32 n, i, slot;
	u64 which;

	if (rar_seq_before(tx->highest, end))
		tx->highest = end;
	for (; rar_seq_before(seq, end); seq += n) {
		slot = rar_sent_slot(tx, seq);
		sent = rar_sent_find(tx, seq, &i);
		n = min3(end - seq, sent->n - i, tx->nslots - slot);
		which = rar_bits_set(tx->resolved, slot, rar_mask(n));
		if (which)
			ack_run(link, sent, i, which, news);
	}
}

/*
 * Settle contributions that are not needed any more, because their chunks came as sums by
 * another link, or were returned. Their packets are not lost.
 */
static void skip_needless(struct rar_link *link)
{
	struct rar_link_tx *tx = &link->tx;
	const struct rar_sent *sent;
	struct rar_operation *op;
	u32 seq, i;

	for (seq = tx->una; seq != tx->next_seq; seq++) {
		if (test_bit(rar_sent_slot(tx, seq), tx->resolved))
			continue;
		sent = rar_sent_find(tx, seq, &i);
		op = rar_link_op_of(link->member, sent);
		if (!op || rar_bits_get(rar_link_out(link, op)->acked[sent->phase],
					sent->chunk + i, 1))
			resolve(tx, seq);
	}
}

/* Give up a packet: its chunk is sent again. The packet may still arrive. */
static void give_up(struct rar_link *link, u32 seq, u64 now)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	const struct rar_sent *sent;
	struct rar_operation *op;
	struct rar_run run;
	u32 i;

	if (!resolve(tx, seq))
		return;
	sent = rar_sent_find(tx, seq, &i);
	rar_lane_left(link, sent, 1);
	if (sent->whole && !i)
		rar_carry_lost(&tx->carry, sent->n);
	op = rar_link_op_of(m, sent);
	if (!op)
		return;
	run = (struct rar_run){ sent->chunk + i, 1, sent->phase };
	trace_rar_lost(m, op->seq, run.phase, run.chunk, 0);
	/* The neighbour may refuse a chunk that needs credit, whatever its size. */
	if (rar_sent_full(sent, i) && rar_out_welcome(link, op, &run) &&
	    !rar_lane_is_out(link, sent))
		full_given_up(tx, sent, seq, now);
	if (sent->frame && ++tx->frames_lost >= LOSS_FRAMES_LOST) {
		tx->frames_lost = 0;
		WRITE_ONCE(tx->frames_off, jiffies + LOSS_FRAMES_OFF);
	}
	rar_out_pend(link, op, run.phase, run.chunk, 1);
}

/**
 * rar_loss_frames_pass() - may frames go on at the XDP hook?
 * @link: link to the neighbour that would get them
 *
 * Some devices lose frames sent from the hook without saying so, for example veth without a
 * program at its other end. After such losses packets are sent instead, for a while.
 *
 * Return: true if frames may be sent.
 */
bool rar_loss_frames_pass(const struct rar_link *link)
{
	return time_after_eq(jiffies, READ_ONCE(link->tx.frames_off));
}

static void advance_una(struct rar_link_tx *tx)
{
	u32 slot, end, n;

	while (tx->una != tx->next_seq) {
		slot = rar_sent_slot(tx, tx->una);
		end = min(slot + (tx->next_seq - tx->una), tx->nslots);
		n = find_next_zero_bit(tx->resolved, end, slot) - slot;
		tx->una += n;
		if (slot + n < tx->nslots)
			break;
	}
}

/* Bring @next forward to @when; 0 = never. */
static void earlier(u64 *next, u64 when)
{
	if (when && (!*next || when < *next))
		*next = when;
}

/*
 * Give up every packet that is late and was sent before a packet that came. Returns when to
 * look again, us, or 0 if there is no need.
 */
static u64 detect_lost(struct rar_link *link, u64 now)
{
	struct rar_link_tx *tx = &link->tx;
	u32 patience = rar_window_patience(&tx->win), seq, last = tx->una - 2, i;
	bool rails = rar_link_rails(link) > 1;
	const struct rar_sent *sent;
	u64 due, next = 0;

	for (seq = tx->una; rar_seq_before(seq, tx->highest); seq++) {
		if (test_bit(rar_sent_slot(tx, seq), tx->resolved))
			continue;
		sent = rar_sent_find(tx, seq, &i);
		due = sent->time_us + patience + rar_lane_patience(link, sent);
		if (due > now)
			earlier(&next, due);
		/* Between the same addresses the first is due first. */
		if (due > now && !rails)
			break;
		if (due > now)
			continue;
		give_up(link, seq, now);
		if (!rar_lane_is_out(link, sent))
			rar_window_lost(tx, seq, seq != last + 1 || !i);
		if (seq != last + 1 || !i)
			rar_lane_lost(link, sent, now);
		last = seq;
	}
	return next;
}

/* Settle the numbers that the acknowledgment reports. */
static void ack_numbers(struct rar_link *link, const struct rar_ack_hdr *ah,
			struct ack_news *news)
{
	u32 cum = be32_to_cpu(ah->cum), base = be32_to_cpu(ah->base), seq, i;
	struct rar_link_tx *tx = &link->tx;

	ack_range(link, tx->una, cum, news);
	for (i = 0; i < 8 * sizeof(ah->bitmap); i++) {
		seq = base + i;
		if (!ah->bitmap[i / 8])
			i += 7;	/* skip the other bits of that byte */
		else if ((ah->bitmap[i / 8] & (1 << i % 8)) &&
			 !rar_seq_before(seq, tx->una) &&
			 rar_seq_before(seq, tx->next_seq))
			ack_range(link, seq, seq + 1, news);
	}
}

/* Take in that numbers were acknowledged after @delay at the neighbour, us. */
static void ack_clock(struct rar_link_tx *tx, const struct ack_news *news, u32 delay, u64 now)
{
	u64 rtt = now - news->sent_us;

	tx->progress_us = now;
	rtt = rtt > delay ? min_t(u64, rtt - delay, U32_MAX / 8) : 1;
	rar_window_rtt(&tx->win, rtt, now);
}

/* After numbers were settled: find what is lost, and look again in time. */
static void ack_ends(struct rar_link *link, u64 now)
{
	u64 again;

	advance_una(&link->tx);
	again = detect_lost(link, now);
	advance_una(&link->tx);
	if (again)
		rar_link_timer_at(link->member, again);
}

static void ack_process(struct rar_link *link, const struct rar_ack_hdr *ah,
			u64 now)
{
	u32 delay = be32_to_cpu(ah->delay_us);
	struct rar_link_tx *tx = &link->tx;
	/* ACKs overtake one another: a total that is below the last one is no news. */
	s32 marks = max((s32)(be32_to_cpu(ah->ce) - tx->marks), 0);
	s32 dups = max((s32)(be32_to_cpu(ah->dups) - tx->dups), 0);
	struct ack_news news = {};

	ack_numbers(link, ah, &news);
	if (news.acked)
		ack_clock(tx, &news, delay, now);
	tx->answered = !news.acked;
	full_told(tx, be32_to_cpu(ah->cum), now);
	if (dups) {
		rar_window_spurious(&tx->win, dups, now);
		memset(tx->full_lost, 0, sizeof(tx->full_lost));
	}
	tx->dups += dups;
	tx->marks += marks;
	if (news.acked || marks)
		rar_window_acked(link, news.acked, news.packets, marks);
	ack_ends(link, now);
}

/**
 * rar_loss_rcv_numbers() - take in that numbers are acknowledged, without an ACK
 * @link: link of a member in RUN or LEAVING
 * @seq:  number of bit 0 of @which
 * @which: the acknowledged numbers, not 0
 * @delay: how long their packets waited at the neighbour for something else, us
 *
 * Softirq. The caller pushes what may go now.
 */
void rar_loss_rcv_numbers(struct rar_link *link, u32 seq, u64 which, u32 delay)
{
	struct rar_link_tx *tx = &link->tx;
	struct ack_news news = {};
	u32 first, n;
	u64 now;

	spin_lock_bh(&link->member->tx_lock);
	now = rar_now_us();
	if (seq - tx->una >= RAR_TX_SLOTS || rar_seq_before(tx->next_seq, seq + fls64(which)))
		which = 0;
	for (; which; which &= ~(rar_mask(n) << first)) {
		first = __ffs64(which);
		n = ~which >> first ? __ffs64(~which >> first) : 64 - first;
		ack_range(link, seq + first, seq + first + n, &news);
	}
	if (news.acked) {
		ack_clock(tx, &news, delay, now);
		rar_window_acked(link, news.acked, news.packets, 0);
	}
	link->silent = false;
	ack_ends(link, now);
	spin_unlock_bh(&link->member->tx_lock);
}

/**
 * rar_loss_refused() - take in that the neighbour had no room for contributions
 * @link: link of a member in RUN or LEAVING; the chunks are marked as acknowledged
 *
 * The window shrinks as after a loss.
 */
void rar_loss_refused(struct rar_link *link)
{
	struct rar_link_tx *tx = &link->tx;

	spin_lock_bh(&link->member->tx_lock);
	rar_window_full(tx);
	skip_needless(link);
	tx->progress_us = rar_now_us();
	tx->win.backoff = 0;
	advance_una(tx);
	spin_unlock_bh(&link->member->tx_lock);
}

/*
 * The neighbour has completed operations. Such an operation may have waited only for that. An
 * operation of which the neighbour needs nothing from here, as a broadcast from there, may be
 * complete there before this rank has posted it.
 */
static void take_done(struct rar_link *link, u32 done)
{
	struct rar_link_tx *tx = &link->tx;
	struct rar_member *m = link->member;
	s32 more = done - (u32)tx->done;
	struct rar_operation *op;
	u64 seq;

	if (more <= 0 || tx->done + more > m->op_next + RAR_MAX_OPS)
		return;
	WRITE_ONCE(tx->done, tx->done + more);
	for (seq = m->op_oldest; seq < min(tx->done, m->op_next); seq++) {
		op = rar_link_op_at(m, seq);
		if (op)
			rar_link_try_release(m, op);
	}
}

/**
 * rar_loss_rcv_ack() - take in the neighbour's acknowledgment
 * @link: link of a member in RUN or LEAVING
 * @pkt:  validated ACK
 *
 * Softirq. The caller pushes what may go now.
 *
 * Return: false if it acknowledges a number that was never sent.
 */
bool rar_loss_rcv_ack(struct rar_link *link, const struct rar_pkt *pkt)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_ack_hdr ah;
	u64 released, now;

	if (skb_copy_bits(pkt->skb, pkt->off, &ah, sizeof(ah)))
		return false;
	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	if (rar_seq_before(tx->next_seq, be32_to_cpu(ah.cum))) {
		spin_unlock_bh(&m->tx_lock);
		return false;
	}
	released = m->ops_released;
	ack_process(link, &ah, now);
	rar_link_credit(link, be64_to_cpu(ah.posted), be32_to_cpu(ah.come),
			be32_to_cpu(ah.credit));
	take_done(link, be32_to_cpu(ah.done));
	rar_straggler_hear(m, &ah.slow, now);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);

	if (released)
		rar_member_wake(m);
	return true;
}

/* -- timer --------------------------------------------------------------- */

/*
 * Give up the oldest chunk or, after several timeouts, everything in flight, so that it does
 * not keep the next attempt back.
 */
static void give_up_late(struct rar_link *link, u64 now)
{
	struct rar_link_tx *tx = &link->tx;
	bool all = ++tx->win.backoff > LOSS_PROBES;
	u32 seq;

	if (tx->win.backoff == LOSS_PROBES + 1)
		rar_window_collapse(tx);
	tx->win.in_vain += tx->answered;
	tx->answered = false;
	tx->probe = true;
	for (seq = tx->una; seq != tx->next_seq; seq++) {
		if (test_bit(rar_sent_slot(tx, seq), tx->resolved))
			continue;
		give_up(link, seq, now);
		rar_window_late(&tx->win, now);
		if (!all)
			break;
	}
}

/* Probe if nothing came for the timeout. Returns when the timeout ends, us, or 0 for none. */
static u64 tick_timeout(struct rar_link *link, u64 now)
{
	struct rar_link_tx *tx = &link->tx;
	u64 due;

	if (!tx->inflight)
		return 0;
	due = max(tx->sent_us, tx->progress_us) + rar_window_timeout(&tx->win);
	if (due > now)
		return due;
	give_up_late(link, now);
	if (tx->win.backoff > LOSS_PROBES &&
	    time_after(jiffies, READ_ONCE(link->heard) + LOSS_SILENT))
		WRITE_ONCE(link->silent, true);
	return now + rar_window_timeout(&tx->win);
}

/* Is an ACK overdue on @rx? If one is due later, brings @next forward. */
static bool tick_ack(struct rar_link_rx *rx, u64 now, u64 *next)
{
	u64 due;

	spin_lock(&rx->lock);
	due = rx->ack_us;
	spin_unlock(&rx->lock);
	if (due && due <= now)
		return true;
	earlier(next, due);
	return false;
}

/* Do what is due on the sending side. Returns true if anything waits to be pushed. */
static bool tick_tx(struct rar_link *link, u64 now, u64 *next)
{
	struct rar_link_tx *tx = &link->tx;

	if (!rar_link_to_rank(link))
		skip_needless(link);
	earlier(next, detect_lost(link, now));
	earlier(next, tick_timeout(link, now));
	advance_una(tx);
	return tx->npend || tx->ninject || tx->nback;
}

/**
 * rar_loss_tick() - do what is due on the links
 * @m: member in RUN or LEAVING, RCU read side
 *
 * Softirq.
 *
 * Return: true if anything waits to be pushed.
 */
bool rar_loss_tick(struct rar_member *m)
{
	u64 now = rar_now_us(), next = 0;
	struct rar_link *link;
	bool push = false;
	u64 acks = 0;

	rar_each_link(link, m)
		if (tick_ack(&link->rx, now, &next))
			acks |= BIT_ULL(link->index);
	rar_each_partner(link, m)
		if (tick_ack(&link->rx, now, &next))
			acks |= BIT_ULL(link->index);
	spin_lock(&m->tx_lock);
	now = rar_now_us();
	rar_each_link(link, m)
		push |= tick_tx(link, now, &next);
	rar_each_partner(link, m)
		push |= tick_tx(link, now, &next);
	if (next)
		rar_link_timer_at(m, next);
	spin_unlock(&m->tx_lock);

	rar_each_link(link, m)
		if (acks & BIT_ULL(link->index))
			rar_ack_send(link);
	rar_each_partner(link, m)
		if (acks & BIT_ULL(link->index))
			rar_ack_send(link);
	return push;
}

/* The interval after which to ask the neighbour for an ACK, us. */
static u64 probe_interval(const struct rar_link *link)
{
	const struct rar_member *m = link->member;
	u64 keepalive = rar_member_keepalive_ms(m) * (u64)USEC_PER_MSEC;
	const struct rar_link_tx *tx = &link->tx;
	u64 since = max(tx->sent_us, tx->blocked_us);
	bool done_lacks = m->place.boxes && rar_member_idle(m) &&
			  !rar_member_is_first(m);

	/*
	 * Credit is closed, or an operation waits only until the successor has completed it. The
	 * ACK that said so may have been lost, so ask again. Each interval is twice the last one,
	 * but short enough that the neighbour does not seem silent.
	 */
	if (done_lacks || (!tx->inflight && (tx->npend || tx->ninject))) {
		since = tx->probed_us > since ? tx->probed_us - since : 0;
		return min_t(u64, max_t(u64, since, LINK_PROBE_MIN_US),
			     rar_member_ask_us(m));
	}
	/*
	 * A rank keeps us waiting, and probes tell which rank it is. There are enough of them
	 * that an outage a little shorter than dead_ms does not seem longer.
	 */
	if (!rar_member_idle(m))
		return rar_member_ask_us(m);
	/* Perhaps only probes and answers were lost: ask more often before dead_ms is over. */
	if (time_after(jiffies, READ_ONCE(link->heard) +
				2 * msecs_to_jiffies(rar_member_keepalive_ms(m))))
		return rar_member_ask_us(m);
	return keepalive;
}

/* Have full-size packets been lost for long, while others pass? */
static bool mtu_fell(const struct rar_link *link, u64 now)
{
	u32 limit = max(READ_ONCE(link->member->rn->sysctl_dead_ms) / 2, LOSS_MTU_MS);
	const struct rar_link_tx *tx = &link->tx;
	bool fell = false;
	int i;

	for (i = 0; i < ARRAY_SIZE(tx->full_lost); i++)
		fell |= tx->full_lost[i] >= RAR_MTU_LOSSES &&
			now - tx->full_since_us[i] > limit * (u64)USEC_PER_MSEC;
	return fell && time_before(jiffies, READ_ONCE(link->heard) +
					    msecs_to_jiffies(limit));
}

/* The same of a direct link, whose rank ring/ask.c asks. No lock held. */
bool rar_loss_mtu_fell(struct rar_link *link)
{
	bool fell;

	spin_lock_bh(&link->member->tx_lock);
	fell = mtu_fell(link, rar_now_us());
	spin_unlock_bh(&link->member->tx_lock);
	return fell;
}

/* Describe the oldest operation that is not released. tx_lock. */
static void describe_oldest(const struct rar_member *m, struct rar_probe_hdr *ph)
{
	const struct rar_fingerprint *p;
	struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[m->op_oldest % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	if (!op || op->seq != m->op_oldest)
		return;
	p = &op->fingerprint;
	ph->op_seq = cpu_to_be64(op->seq);
	ph->count = cpu_to_be64(p->count);
	ph->root = cpu_to_be16(p->root);
	ph->collective = p->collective;
	ph->dtype = p->dtype;
	ph->redop = p->redop;
	ph->mode = cpu_to_be16(p->mode);
}

/**
 * rar_loss_keepalive() - probe the neighbour if nothing was sent for the interval
 * @link: link of a member in RUN or LEAVING, RCU read side
 * @fell: set to whether full-size packets do not pass any more, though others do
 *
 * Softirq.
 *
 * Return: jiffies of the next call.
 */
unsigned long rar_loss_keepalive(struct rar_link *link, bool *fell)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_probe_hdr ph = {};
	u64 now, wait, due;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	wait = probe_interval(link);
	due = max(tx->sent_us, tx->probed_us) + wait;
	*fell = mtu_fell(link, now);
	if (due <= now) {
		tx->probed_us = now;
		ph.una = cpu_to_be32(tx->una);
		rar_straggler_tell(m, &ph.slow, now);
		describe_oldest(m, &ph);
	}
	spin_unlock_bh(&m->tx_lock);

	if (due > now)
		return jiffies + rar_link_jiffies(due - now);
	/* Padded to the length of the answer. */
	rar_control_send(link, &ph, sizeof(ph),
			 sizeof(struct rar_ack_hdr) - sizeof(ph), RAR_T_PROBE,
		       m->epoch);
	return jiffies + rar_link_jiffies(wait);
}

