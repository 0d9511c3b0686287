// SPDX-License-Identifier: GPL-2.0
/*
 * The two windows, and the clock that both read: round trip, retransmission timeout,
 * patience with reordering. Everything here is under tx_lock.
 *
 * The link window limits the chunks in flight to the neighbour. It is the
 * window of CUBIC (RFC 9438; cubic.c). Two signs of congestion reduce it:
 *   - A congestion mark (RFC 3168).
 *   - A loss, unless it is noise: few packets are lost, and the round trip
 *     shows less than half of the queue that there has been (after TCP Veno,
 *     Fu and Liew 2003, and the loss threshold of BBR version 2).
 * A reduction that turns out to be unnecessary is undone (RFC 3708).
 *
 * On a long link the chunks of a window leave one after the other over the
 * round trip, and not at once: queues of switches may hold a few packets only.
 *
 * The injection window limits the own chunks that are on their way round the ring: injected,
 * and not yet back as AG. Their delay steers the window, as in TCP Vegas (Brakmo and Peterson
 * 1995): a few chunks of each rank may queue somewhere. So a ring on one machine stays in the
 * machine's cache, and a long ring is filled. The window never becomes so small that other
 * flows push the ring out of a queue that they fill. net.rar.window is its upper limit.
 */
#include "core/ring.h"
#include "link/cubic.h"
#include "link/link.h"
#include "link/window.h"

#define WINDOW_INIT_BYTES	65536	/* link window at first, */
#define WINDOW_INIT_MIN		10	/* at least this many chunks, as RFC 6928, */
#define WINDOW_INIT_MAX		32	/* at most this many */
#define WINDOW_NEAR_US		500	/* lowest round trip of a link that is near */
#define WINDOW_MIN		4	/* chunks, smallest link window */
#define WINDOW_NOISE		50	/* one lost packet in this many is noise */
#define WINDOW_NOISE_MAX	(16 * WINDOW_NOISE)
#define WINDOW_QUEUE_US		250	/* delay that a scheduler may cause; longer is a queue, */
#define WINDOW_QUEUE_CHUNKS	64	/* on a fast link the time of this many chunks, */
#define WINDOW_QUEUE_MIN_US	40	/* but never less than this */
#define WINDOW_CHUNK_MAX_NS	(100 * NSEC_PER_MSEC)
#define WINDOW_NONE_MIN_US	40U	/* delay that tells of no queue */
#define WINDOW_NONE_MAX_US	80U
#define WINDOW_IDLE_US		USEC_PER_SEC /* idle time that halves the window */
#define WINDOW_PACED_US		100	/* longest round trip without a pace */
#define WINDOW_PACE_MAX_NS	(10 * NSEC_PER_MSEC) /* of a chunk */
#define WINDOW_RUN_PART		8	/* a packet is this part of a window, */
#define WINDOW_RUN_CHUNKS	4U	/* but at least so many chunks, */
#define WINDOW_RUN_MIN_US	100	/* and what passes in this, */
#define WINDOW_RUN_MAX_US	1000	/* and at most in this */
#define WINDOW_SLOW_US		4000	/* delay that ends slow start */
#define WINDOW_BASE_US		(10 * USEC_PER_SEC) /* memory of lowest delays */

#define INJECT_INIT		32	/* chunks, injection window at first */
#define INJECT_UNIT		4	/* a unit is this many chunks, or a superpacket, */
#define INJECT_UNIT_BYTES	24576	/* or this many bytes, whichever is most */
#define INJECT_LONG		4	/* units of window from which the ring is long */
#define INJECT_LOW		1	/* half units queued per rank: grow below, */
#define INJECT_HIGH		2	/* shrink above */

#define RTO_INIT_US		100000
#define RTO_MIN_US		5000
#define RTO_MAX_US		400000
#define RTO_LONG_US		1600000	/* limit after many unnecessary timeouts: */
#define RTO_LONG_AFTER		14	/* this many */
#define RTO_SLACK_US		1000	/* lowest allowance for variation */
#define REORDER_MIN_US		250	/* least patience with a gap */
#define REORDER_MAX_US		10000	/* most patience, if two round trips are shorter */
#define UNDO_US			50000U	/* a chunk given up may still arrive for this long */

/* -- lowest delay -------------------------------------------------------- */

static void base_update(struct rar_base *base, u32 us, u64 now)
{
	if (!base->since_us || now - base->since_us > WINDOW_BASE_US / 2) {
		base->last = base->since_us ? base->now : us;
		base->now = us;
		base->since_us = now;
	}
	base->now = min(base->now, us);
}

/* The lowest delay of the last 5 to 10 seconds, us. */
static u32 base_us(const struct rar_base *base)
{
	return min(base->now, base->last);
}

/* A queue delayed all of a round trip by @us: remember the longest one. */
static void peak_update(struct rar_base *peak, u32 us, u64 now)
{
	if (!peak->since_us || now - peak->since_us > WINDOW_BASE_US / 2) {
		peak->last = peak->since_us ? peak->now : 0;
		peak->now = 0;
		peak->since_us = now;
	}
	peak->now = max(peak->now, us);
}

/*
 * Does the round trip show less than half of the queue that there has been? The
 * time of a few chunks, and less than a scheduler delays packets, is no queue.
 * A single packet may have waited for a CPU; a queue delays all of them.
 */
static bool unqueued(const struct rar_window *win)
{
	u64 few = div_u64((u64)win->chunk_ns * WINDOW_QUEUE_CHUNKS,
			  NSEC_PER_USEC);
	u32 low = min(win->low_us, win->low_last_us);
	u32 base = base_us(&win->rtt_base), none;

	none = base / 128 +
	       clamp_t(u64, few, WINDOW_NONE_MIN_US, WINDOW_NONE_MAX_US);
	return low < base + max3(win->peak.now / 2, win->peak.last / 2, none);
}

/*
 * Does a round trip show a queue on the link, and not only the delay of a scheduler? The faster
 * the link, the shorter is the queue that its switches can hold, however long the path is.
 */
static bool queued(const struct rar_window *win, u32 rtt_us)
{
	u32 base = base_us(&win->rtt_base);
	u64 few = div_u64((u64)win->chunk_ns * WINDOW_QUEUE_CHUNKS, NSEC_PER_USEC);
	u64 delay = base / 2 + min_t(u64, few, WINDOW_QUEUE_US);

	return rtt_us > base + min_t(u64, delay, max_t(u64, few, WINDOW_QUEUE_MIN_US));
}

/* -- round trip ---------------------------------------------------------- */

/**
 * rar_window_rtt() - take in a measured round trip
 * @win: window, tx_lock held
 * @us:  the round trip without the delay of the acknowledgment; exact, since no sequence
 *       number is used twice
 * @now: us
 *
 * RFC 6298, with the allowance for delayed acknowledgments of RFC 9002.
 */
void rar_window_rtt(struct rar_window *win, u32 us, u64 now)
{
	u32 err;

	win->rtt_us = us;
	win->low_us = min(win->low_us, us);
	base_update(&win->rtt_base, us, now);
	if (!win->srtt_us) {
		win->srtt_us = max(us, 1U);
		win->rttvar_us = us / 2;
	} else {
		err = us > win->srtt_us ? us - win->srtt_us : win->srtt_us - us;
		win->rttvar_us += (s32)(err - win->rttvar_us) / 4;
		win->srtt_us += (s32)(us - win->srtt_us) / 8;
	}
	win->rto_us = clamp_t(u32, win->srtt_us + RAR_ACK_DELAY_US +
			      max(4 * win->rttvar_us, RTO_SLACK_US),
			      RTO_MIN_US, RTO_LONG_US);
	win->backoff = 0;
	win->in_vain = 0;
}

/*
 * The probe timeout now, us. It doubles with each timeout until something new is
 * acknowledged. Its limit is short, so that a link that works again is found soon. The limit
 * is longer after many unnecessary timeouts that the neighbour answered: the round trip may
 * be longer than was measured.
 */
u64 rar_window_timeout(const struct rar_window *win)
{
	u32 most = win->in_vain < RTO_LONG_AFTER ? RTO_MAX_US : RTO_LONG_US;
	u64 us = (u64)win->rto_us << min(win->backoff, 10U);

	return max_t(u64, min_t(u64, us, most), win->rto_us);
}

/* The time after which a packet is late if a packet sent later came, us. */
u32 rar_window_patience(const struct rar_window *win)
{
	u32 rtt = max(win->srtt_us, win->rtt_us);

	return rtt + max(win->reorder_us, win->srtt_us / 4);
}

/**
 * rar_window_near() - is room that an acknowledgment makes never far?
 * @win: window, tx_lock held
 */
bool rar_window_near(const struct rar_window *win)
{
	return win->srtt_us && base_us(&win->rtt_base) <= WINDOW_NEAR_US;
}

/* -- link window --------------------------------------------------------- */

/* Reduce the window. It is not reduced again for losses or marks below @recover. */
static void reduce_to(struct rar_link_tx *tx, u32 chunks)
{
	struct rar_window *win = &tx->win;

	win->undo_cwnd = max(win->undo_cwnd, win->cwnd);
	win->recover = tx->next_seq;
	win->cwnd = max_t(u32, chunks, WINDOW_MIN);
	win->ssthresh = win->cwnd;
	win->cwnd_acked = 0;
	win->cubic.since_us = 0;
}

/* As after a loss. */
static void reduce(struct rar_link_tx *tx)
{
	reduce_to(tx, rar_cubic_reduce(&tx->win.cubic, tx->win.cwnd));
}

/* Was the window reduced after @seq was sent? */
static bool reduced(const struct rar_window *win, u32 seq)
{
	return rar_seq_before(seq, win->recover);
}

/**
 * rar_window_lost() - take in that a chunk is given up
 * @tx:   sending side of the link, tx_lock held
 * @seq:  number of the chunk
 * @head: the chunk is the first one of its packet; a lost packet counts once
 */
void rar_window_lost(struct rar_link_tx *tx, u32 seq, bool head)
{
	struct rar_window *win = &tx->win;
	bool noise = win->noise >= WINDOW_NOISE;

	if (!win->undo_left++)
		win->undo_us = rar_now_us();
	if (!head)
		return;
	if (noise)
		win->noise -= WINDOW_NOISE;
	win->round_lost++;
	if (reduced(win, seq))
		return;
	/* A part of the window, not of the chunks in flight: most of them have arrived. */
	if (!noise || !unqueued(win))
		reduce(tx);
}

static void undo(struct rar_window *win)
{
	win->cwnd = win->undo_cwnd;
	win->ssthresh = max(win->ssthresh, win->cwnd);
	win->cubic.w_max = max(win->cubic.w_max, win->cwnd);
	win->cubic.since_us = 0;
	win->undo_cwnd = 0;
}

/*
 * The losses that reduced the window had another cause than a queue: undo that.
 */
void rar_window_excuse(struct rar_window *win)
{
	if (queued(win, min(win->low_us, win->low_last_us)) ||
	    win->undo_cwnd <= win->cwnd)
		return;
	undo(win);
	win->undo_left = 0;
}

/**
 * rar_window_late() - take in that a chunk is given up at a timeout
 * @win: window, tx_lock held
 * @now: us
 */
void rar_window_late(struct rar_window *win, u64 now)
{
	win->undo_left++;
	win->undo_us = now;
}

/*
 * Several timeouts passed without an acknowledgment: start again from the smallest window.
 * If there was no queue before, the link itself failed. It can carry the same window when it
 * is back, so slow start may lead that far.
 */
void rar_window_collapse(struct rar_link_tx *tx)
{
	struct rar_window *win = &tx->win;
	u32 was = queued(win, win->rtt_us) ? win->cwnd / 2 : win->cwnd;

	reduce_to(tx, WINDOW_MIN);
	win->ssthresh = max_t(u32, was, WINDOW_MIN);
}

/* Take in that a queue of this host is full. */
void rar_window_full(struct rar_link_tx *tx)
{
	if (!reduced(&tx->win, tx->next_seq - 1))
		reduce_to(tx, tx->inflight / 2);
}

/*
 * Congestion marks came. They justify the reduction even if the packets given
 * up arrive.
 */
static void marked(struct rar_link_tx *tx)
{
	if (reduced(&tx->win, tx->highest))
		return;
	reduce(tx);
	tx->win.undo_cwnd = 0;
}

/*
 * Measure the time of a chunk in the last round trip. A longer time than before is believed
 * only gradually. Where the device delivers packets at once, no switch is on the path and a
 * scheduler causes the delays, so nothing is measured.
 */
static void measure_speed(struct rar_link *link, u64 now)
{
	struct rar_window *win = &link->tx.win;
	u64 ns = div_u64((now - win->round_us) * NSEC_PER_USEC, max(win->round_acked, 1U));

	win->round_us = now;
	if (READ_ONCE(link->path.no_queue))
		return;
	win->chunk_ns = min_t(u64, ns, win->chunk_ns + win->chunk_ns / 16 + 1);
	win->chunk_ns = min_t(u32, win->chunk_ns, WINDOW_CHUNK_MAX_NS);
}

/* A round trip ends: update the estimates, and start the next round trip. */
static void next_round(struct rar_link *link, u64 now)
{
	struct rar_link_tx *tx = &link->tx;
	struct rar_window *win = &tx->win;
	u32 base;

	/* Patience costs time only when something is lost. */
	if (win->round_lost) {
		win->reorder_us = max_t(u32, REORDER_MIN_US,
					win->reorder_us - (win->reorder_us >> 4));
	} else if (now - win->undo_us > max(UNDO_US, 2 * win->srtt_us)) {
		win->undo_left = 0;
		win->undo_cwnd = 0;
	}
	/* If @recover fell behind by half of all numbers, it would seem to be ahead. */
	if (!reduced(win, tx->una))
		win->recover = tx->una;
	measure_speed(link, now);
	base = base_us(&win->rtt_base);
	if (win->low_us != U32_MAX)
		peak_update(&win->peak, max(win->low_us, base) - base, now);
	win->low_last_us = win->low_us;
	win->low_us = U32_MAX;
	win->held = false;
	win->round_end = tx->next_seq;
	win->round_acked = 0;
	win->round_lost = 0;
}

/*
 * Was it the window that limited the chunks in flight? In slow start it is enough that half
 * of the window was in use.
 */
static bool limits(const struct rar_link_tx *tx, u32 n)
{
	const struct rar_window *win = &tx->win;

	return win->held || (win->cwnd < win->ssthresh && 2 * (tx->inflight + n) > win->cwnd);
}

/*
 * Does a queue grow, so that slow start ends before it overflows (HyStart,
 * RFC 9406)? On the way back to a window that was good, a packet that waited
 * for a CPU must not end it: then all of a round trip counts.
 */
static bool fills(const struct rar_window *win)
{
	bool back = win->ssthresh < RAR_TX_SLOTS;
	u32 us = back ? min(win->low_us, win->low_last_us) : win->rtt_us;
	u32 base = base_us(&win->rtt_base);
	u32 delay = min(base, max_t(u32, base / 8, WINDOW_SLOW_US));

	return queued(win, us) && us > base + delay;
}

/* Grow the window for @n acknowledged chunks. */
static void grow(struct rar_window *win, u32 n, u64 now)
{
	u32 base = base_us(&win->rtt_base), more;

	if (win->cwnd < win->ssthresh) {
		if (fills(win))
			win->ssthresh = win->cwnd;
		win->cwnd += n;
	} else {
		more = rar_cubic_grow(&win->cubic, win->cwnd, n, base, now) -
		       win->cwnd;
		win->cwnd_acked += (u64)n * more;
		n = div_u64(win->cwnd_acked, win->cwnd);
		win->cwnd_acked -= (u64)n * win->cwnd;
		win->cwnd += n;
	}
	win->cwnd = min_t(u32, win->cwnd, RAR_TX_SLOTS);
}

/**
 * rar_window_acked() - take in the news of an acknowledgment
 * @link:    link, tx_lock held; the caller has updated the round trip
 * @n:       chunks newly acknowledged
 * @packets: packets that carried these chunks
 * @marks:   chunks newly reported to have carried the congestion mark
 */
void rar_window_acked(struct rar_link *link, u32 n, u32 packets, u32 marks)
{
	struct rar_link_tx *tx = &link->tx;
	struct rar_window *win = &tx->win;

	win->noise = min_t(u32, win->noise + packets, WINDOW_NOISE_MAX);
	win->round_acked += n;
	if (marks)
		marked(tx);
	else if (limits(tx, n) && !reduced(win, tx->highest))
		grow(win, n, rar_now_us());
	if (!rar_seq_before(tx->highest, win->round_end))
		next_round(link, rar_now_us());
}

/**
 * rar_window_spurious() - take in that chunks were given up although they arrived
 * @win: window, tx_lock held
 * @n:   chunks that the neighbour received twice
 * @now: us
 */
void rar_window_spurious(struct rar_window *win, u32 n, u64 now)
{
	win->reorder_us = min_t(u32, 2 * win->reorder_us,
				max_t(u32, REORDER_MAX_US, 2 * win->srtt_us));
	if (!win->undo_left)
		return;
	win->undo_left -= min(n, win->undo_left);
	win->undo_us = now;
	if (!win->undo_left && win->undo_cwnd > win->cwnd)
		undo(win);
}

/* The window at first and after a long pause, chunks. */
static u32 window_init(const struct rar_member *m)
{
	return clamp_t(u32, WINDOW_INIT_BYTES / m->payload, WINDOW_INIT_MIN,
		       WINDOW_INIT_MAX);
}

/**
 * rar_window_begin() - prepare to send a chunk while nothing is in flight
 * @link: link, tx_lock held
 * @now:  us
 *
 * An idle link gradually forgets its window (after RFC 7661, but within seconds, because the
 * jobs that share the path come and go). It does not forget the window that slow start may
 * reach.
 */
void rar_window_begin(struct rar_link *link, u64 now)
{
	struct rar_link_tx *tx = &link->tx;
	struct rar_window *win = &tx->win;
	/* Another CPU may have sent something after @now. */
	u64 idle_us = now - min(now, tx->sent_us);
	u64 halves = div_u64(idle_us, WINDOW_IDLE_US);

	/* The window does not grow in a pause, nor begins to after now. */
	if (win->cubic.since_us)
		win->cubic.since_us = min(win->cubic.since_us + idle_us, now);
	if (!halves)
		return;
	win->ssthresh = max(win->ssthresh, win->cwnd - win->cwnd / 4);
	win->cwnd = max(win->cwnd >> min_t(u64, halves, 31U),
			min(win->cwnd, window_init(link->member)));
}

/* Do chunks leave one after the other? A short link holds few of them. */
static bool is_paced(const struct rar_link *link)
{
	const struct rar_window *win = &link->tx.win;

	return win->srtt_us && base_us(&win->rtt_base) > WINDOW_PACED_US &&
	       !READ_ONCE(link->path.no_queue);
}

/* The time of a chunk, ns: a little less than the window needs, so it fills. */
static u32 pace_ns(const struct rar_window *win)
{
	u64 ns = div_u64((u64)win->srtt_us * NSEC_PER_USEC, win->cwnd);

	ns = win->cwnd < win->ssthresh ? ns / 2 : ns * 4 / 5;
	return min_t(u64, ns, WINDOW_PACE_MAX_NS);
}

/**
 * rar_window_run() - limit the chunks of a packet
 * @link: link, tx_lock held
 *
 * At most half of the window, so that two packets are in flight. On a long link
 * a small part of the window, but not so little that packets cost much, nor
 * more than superpackets of TCP carry.
 *
 * Return: chunks, at least 1.
 */
u32 rar_window_run(const struct rar_link *link)
{
	const struct rar_window *win = &link->tx.win;
	u32 half = max(win->cwnd / 2, 1U), ns, part;

	if (!is_paced(link))
		return half;
	ns = max(pace_ns(win), 1U);
	part = clamp(win->cwnd / WINDOW_RUN_PART,
		     WINDOW_RUN_MIN_US * (u32)NSEC_PER_USEC / ns,
		     WINDOW_RUN_MAX_US * (u32)NSEC_PER_USEC / ns);
	return clamp(part, min(WINDOW_RUN_CHUNKS, half), half);
}

/**
 * rar_window_pace() - may a packet leave now?
 * @link: link, tx_lock held
 * @now:     us
 * @more_us: set to the time from which on it may, if it may not now
 *
 * On a long link each packet waits for the time of the one before.
 *
 * Return: true if it may.
 */
bool rar_window_pace(const struct rar_link *link, u64 now, u64 *more_us)
{
	const struct rar_window *win = &link->tx.win;

	if (!is_paced(link) || win->pace_ns <= now * NSEC_PER_USEC)
		return true;
	*more_us = div_u64(win->pace_ns, NSEC_PER_USEC) + 1;
	return false;
}

/**
 * rar_window_sent() - take in that chunks leave
 * @link: link, tx_lock held
 * @n:    chunks
 * @now:  us
 */
void rar_window_sent(struct rar_link *link, u32 n, u64 now)
{
	struct rar_window *win = &link->tx.win;

	if (is_paced(link))
		win->pace_ns = max(win->pace_ns, now * NSEC_PER_USEC) +
			       (u64)n * pace_ns(win);
}

/* -- injection window ---------------------------------------------------- */

/* The unit of the injection window, and its minimum, bytes. */
static u64 inject_unit(const struct rar_link *link)
{
	const struct rar_member *m = link->member;
	u32 run = link->here ? rar_link_local_max(m) : READ_ONCE(link->path.run_max);

	return max_t(u32, max_t(u32, INJECT_UNIT, run) * m->payload,
		     INJECT_UNIT_BYTES);
}

/*
 * The bytes that all ranks together may have under way. What fits into a short
 * round trip is little, and stays in caches. A long link holds more, in
 * proportion to its round trip.
 */
static u64 inject_limit(const struct rar_window *win)
{
	u32 base = win->srtt_us ? base_us(&win->rtt_base) : 0;

	return win->inj_max * max(base / WINDOW_NEAR_US, 1U);
}

/*
 * Limit the injection window for an operation that is posted: to this rank's share of
 * net.rar.window. The share is the whole for the only rank that injects.
 */
void rar_window_post(const struct rar_link *link, struct rar_operation *op)
{
	u64 share = rar_ring_share(&op->ring, inject_limit(&link->tx.win));

	rar_link_out(link, op)->inj_max = max(share, inject_unit(link));
}

/*
 * How many of @want own chunks of an operation may be injected now? The last chunk may
 * exceed the window. A part of a run waits until there is more room: a whole run if the window is
 * a few runs, since then packets are what costs; half of one in a long ring, which is to be full.
 * Only the link window and credit limit chunks that do not come back.
 */
u32 rar_window_may_inject(struct rar_link *link, struct rar_operation *op, u32 want)
{
	struct rar_window *win = &link->tx.win;
	u32 payload = link->member->payload;
	u64 wnd = min(win->inj_wnd, rar_link_out(link, op)->inj_max), room = 0;

	if (!rar_plan_returns(&op->ring.plan))
		return want;
	if (win->inj_out < wnd)
		room = div_u64(wnd - win->inj_out + payload - 1, payload);
	if (room >= want)
		return want;
	win->inj_limited = true;
	if (!win->inj_out || (2 * room >= want && wnd >= INJECT_LONG * inject_unit(link)))
		return room;
	return 0;
}

/**
 * rar_window_injected() - count own chunks that leave for the first time
 * @link: link, tx_lock held
 * @op:   operation
 * @run:  the chunks
 * @now:  us
 *
 * The chunks are timed only if a chunk of the operation came back before. Then every rank has
 * posted the operation, so the chunks wait in queues and not for a user.
 */
void rar_window_injected(struct rar_link *link, struct rar_operation *op,
			 const struct rar_run *run, u64 now)
{
	const struct rar_out *out = rar_link_out(link, op);

	if (!rar_plan_returns(&op->ring.plan))
		return;
	link->tx.win.inj_out += rar_ring_bytes(&op->ring, run->chunk, run->n);
	if (out->inject_us && out->returned)
		out->inject_us[run->chunk - out->owed.first] = (u32)now | 1;
}

/* As in Vegas: the bytes of the window that are not on the wire lie in queues. */
static void inject_adjust(struct rar_link *link, u64 inj_max, u64 now)
{
	struct rar_window *win = &link->tx.win;
	u32 us = win->inj_lowest_us, base;
	u64 excess, unit = inject_unit(link), half = unit / 2;

	base_update(&win->inj_base, us, now);
	base = base_us(&win->inj_base);
	win->inj_wnd = min(win->inj_wnd, inj_max);
	excess = div_u64(win->inj_wnd * (us - base), max(us, 1U));
	if (excess > INJECT_HIGH * half) {
		win->inj_slow_start = false;
		win->inj_wnd -= min(excess - INJECT_LOW * half, win->inj_wnd / 4);
	} else if (win->inj_limited && win->inj_slow_start) {
		win->inj_wnd *= 2;
	} else if (win->inj_limited && excess < INJECT_LOW * half) {
		win->inj_wnd += half;
	}
	win->inj_wnd = clamp(win->inj_wnd, unit, max(unit, inj_max));
	win->inj_limited = false;
}

/**
 * rar_window_returned() - count own chunks that came back as AG
 * @link:  link, tx_lock held
 * @op:    operation
 * @chunk: the first of these chunks
 * @bytes: bytes of these chunks
 * @now:   us
 */
void rar_window_returned(struct rar_link *link, struct rar_operation *op,
			 u32 chunk, u64 bytes, u64 now)
{
	struct rar_out *out = rar_link_out(link, op);
	struct rar_window *win = &link->tx.win;
	u32 sent = 0;
	s32 us;

	win->inj_out -= min(win->inj_out, bytes);
	out->returned = true;
	if (out->inject_us)
		sent = out->inject_us[chunk - out->owed.first];
	if (!sent)
		return;
	/* The lowest delay of a round counts: lost and late chunks say nothing of queues. */
	/* The time of the injection was made odd, and may lie a microsecond ahead. */
	us = (u32)now - sent;
	win->inj_lowest_us = min_t(u32, win->inj_lowest_us, max(us, 0));
	if (now < win->inj_round_us)
		return;
	inject_adjust(link, out->inj_max, now);
	win->inj_round_us = now + win->inj_lowest_us;
	win->inj_lowest_us = U32_MAX;
}

/* -- begin --------------------------------------------------------------- */

/**
 * rar_window_init() - open the windows when a new epoch begins
 * @link: link of a member whose payload is agreed; tx_lock held
 *
 * net.rar.window is the limit of the whole ring, see rar_window_post().
 */
void rar_window_init(struct rar_link *link)
{
	const struct rar_member *m = link->member;
	struct rar_window *win = &link->tx.win;

	win->rto_us = RTO_INIT_US;
	/* Packets of different CPUs overtake one another in the CPUs' own queues. */
	win->reorder_us = num_online_cpus() > 1 && READ_ONCE(link->path.no_queue) ?
			 REORDER_MAX_US : REORDER_MIN_US;
	win->cwnd = window_init(m);
	win->ssthresh = RAR_TX_SLOTS;
	win->chunk_ns = WINDOW_CHUNK_MAX_NS;
	win->round_us = rar_now_us();
	win->low_us = U32_MAX;
	win->low_last_us = U32_MAX;
	win->noise = WINDOW_NOISE_MAX / 4;
	win->inj_max = READ_ONCE(m->rn->sysctl_window);
	win->inj_wnd = min(win->inj_max, INJECT_INIT * (u64)m->payload);
	win->inj_slow_start = true;
	win->inj_lowest_us = U32_MAX;
}
