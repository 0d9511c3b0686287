// SPDX-License-Identifier: GPL-2.0
/*
 * The stream of records that a rank sends to the root of a keyed reduction (keyed.c), straight or
 * by a box.
 *
 * A chunk stays in the operation's buffer until the root acknowledges it. It is sent again if
 * three chunks that were sent after it are acknowledged, or if nothing is acknowledged for a
 * while. The window of chunks on their way halves then, and on CE marks, and grows as TCP's does.
 *
 * If the box of the group combines records, new chunks go there (batch.c). Only the root
 * acknowledges them. A chunk goes to the box once: if it is sent again, it goes straight to the
 * root. After the box gave chunks up, the next new chunks go straight to the root, too.
 */
#include "core/keyed.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "link/lane.h"
#include "link/link.h"
#include "rar.h"
#include "ring/fail.h"
#include "ring/stream.h"
#include "tx/run.h"
#include "tx/sender.h"

#define STREAM_CWND	16	/* window at first, chunks, */
#define STREAM_CWND_MIN	2	/* and at least */
#define STREAM_REORDER	3	/* chunks that may overtake another before it counts as lost */
#define STREAM_RTO_MIN_US 5000	/* shortest time after which a chunk is sent again, */
#define STREAM_RTO_MAX_US 200000 /* and the longest */
#define STREAM_BOX_US	30000	/* the box may hold a chunk, and repeat lost pieces, for so long */
#define STREAM_SKIP_MIN	64	/* new chunks that go to the root after the box gave chunks up; */
#define STREAM_SKIP_MAX	4096	/* the number doubles up to here if it does so again and again */

/* -- sending ---------------------------------------------------------------- */

static struct rar_direct_peer *root_of(struct rar_member *m, const struct rar_operation *op)
{
	return &m->direct.peer[op->fingerprint.root];
}

/* Set when the oldest chunk is sent again. tx_lock. */
static void set_due(struct rar_member *m, struct rar_operation *op, u64 now)
{
	struct rar_stream *s = op->keyed->stream;
	u64 rto = root_of(m, op)->rto_us;

	if (s->rtt_us)
		rto = min_t(u64, rto, 2 * s->rtt_us + STREAM_RTO_MIN_US);
	s->due_us = 0;
	if (s->una == s->sent)
		return;
	if (s->boxed)
		rto += STREAM_BOX_US;
	s->due_us = now + min_t(u64, rto << s->backoff, max_t(u64, rto, STREAM_RTO_MAX_US));
	rar_link_timer_at(m, s->due_us);
}

/* The chunks that were sent and are not acknowledged, a bit each from @una on. tx_lock. */
static u64 missing(const struct rar_stream *s)
{
	return rar_mask(s->sent - s->una) & ~s->acked;
}

/* Choose a chunk that is sent again. tx_lock. */
static u32 next_again(struct rar_member *m, struct rar_stream *s)
{
	u32 chunk = s->una + __ffs64(s->again);

	s->boxed &= ~(s->again & -s->again);
	s->again &= s->again - 1;
	rar_mib_inc(m->rn, TxRetrans);
	return chunk;
}

/* Do new chunks go to the box? tx_lock. */
static bool by_box(const struct rar_member *m, const struct rar_operation *op)
{
	const struct rar_stream *s = op->keyed->stream;
	struct rar_link *link = m->link[RAR_LEG];

	return rar_place_keyed(&m->place) && rar_link_leg(link)->keyed &&
	       link->epoch && !s->full && (s32)(s->sent - s->direct) >= 0;
}

/* How many chunks may be sent for the first time, in one packet by a link? tx_lock. */
static u32 new_chunks(const struct rar_operation *op, const struct rar_link *link)
{
	const struct rar_stream *s = op->keyed->stream;
	u32 flying = s->sent - s->una;
	/* A single chunk finds out whether a root that was full still is, if its word is lost. */
	u32 limit = s->full ? 1 : s->cwnd;

	if (flying >= limit)
		return 0;
	return min3(min(s->next - s->sent, limit - flying), s->window - s->sent % s->window,
		    READ_ONCE(link->path.run_max));
}

/*
 * Choose the next chunks to send, at least one, if any may go. Return: the link by which they go,
 * or NULL. tx_lock.
 */
static struct rar_link *next_run(struct rar_member *m, struct rar_operation *op,
				 struct rar_run *run)
{
	struct rar_link *link = &root_of(m, op)->link;
	struct rar_stream *s = op->keyed->stream;

	if (rar_link_op_at(m, op->seq) != op ||
	    !rar_sender_room(m, m->link[RAR_NEXT]->path.dst.af))
		return NULL;
	run->n = 1;
	if (s->again) {
		run->chunk = next_again(m, s);
		return link;
	}
	if (by_box(m, op))
		link = m->link[RAR_LEG];
	run->chunk = s->sent;
	run->n = new_chunks(op, link);
	if (!run->n)
		return NULL;
	if (link->index == RAR_LEG) {
		run->phase = RAR_RS;
		s->boxed |= rar_mask(run->n) << (s->sent - s->una);
	}
	s->sent += run->n;
	return link;
}

/* Chunks to send. */
struct to_send {
	struct rar_link *link;
	struct rar_tx_item item;
	u64 at;
	u32 bytes;
};

/* Describe the chunks that were chosen, and reference the operation. tx_lock. */
static void describe(struct rar_member *m, struct rar_operation *op, struct to_send *to)
{
	struct rar_run *run = &to->item.run;
	struct rar_stream *s = op->keyed->stream;
	bool last = op->keyed->ended && run->chunk + run->n == s->next;
	u64 now = rar_now_us();
	u32 i;

	to->item.op = op;
	to->item.known.base = m->op_oldest;
	to->item.flags = last ? RAR_F_LAST : 0;
	to->item.ack_now = s->backoff || s->sent - s->una >= s->cwnd;
	to->at = (u64)(run->chunk % s->window) * op->keyed->chunk;
	to->bytes = run->n * op->keyed->chunk - (last ? op->keyed->chunk - s->last : 0);
	for (i = 0; i < run->n; i++)
		s->sent_us[(run->chunk + i) % s->window] = now;
	if (!s->due_us)
		set_due(m, op, now);
	refcount_inc(&op->ref);
	rar_op_use(op);
}

/* Choose the next chunks of a stream to send. Return: false if none may go. */
static bool pick(struct rar_member *m, struct rar_operation *op, struct to_send *to)
{
	bool again;

	*to = (struct to_send) { .item.run.phase = RAR_AG };
	spin_lock_bh(&m->tx_lock);
	again = op->keyed->stream->again;
	to->link = next_run(m, op, &to->item.run);
	if (to->link)
		describe(m, op, to);
	if (to->link && again)
		to->item.lane = rar_lane_any(to->link, &to->item.run, true);
	spin_unlock_bh(&m->tx_lock);
	return to->link;
}

/* Send all chunks of a stream that may go. RCU read side, bottom halves off. */
static void push(struct rar_member *m, struct rar_operation *op)
{
	struct to_send to;
	int err;

	while (pick(m, op, &to)) {
		err = rar_run_stream(to.link, &to.item, to.at, op->keyed->chunk,
				     to.bytes);
		/* A packet that a queue of this host refuses is sent again, as a lost one. */
		if (err == -EMSGSIZE && to.link->index == RAR_LEG)
			WRITE_ONCE(to.link->narrow, true);
		else if (err == -EMSGSIZE)
			rar_fail_sent(to.link, op->seq, -EMSGSIZE);
		rar_op_unuse(op);
	}
}

/**
 * rar_stream_push() - send all chunks of a stream that may go
 * @m:  member
 * @op: keyed reduction with another root, referenced
 *
 * Process context.
 */
void rar_stream_push(struct rar_member *m, struct rar_operation *op)
{
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_runs(m))
		push(m, op);
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * rar_stream_begin() - let a stream begin whose operation was posted
 * @op: keyed reduction with another root; nothing is sent yet. tx_lock held
 */
void rar_stream_begin(struct rar_operation *op)
{
	op->keyed->stream->cwnd = STREAM_CWND;
	op->keyed->stream->ssthresh = RAR_STREAM_CHUNKS;
}

/**
 * rar_stream_filled() - note that send() has filled a chunk, and may fill another
 * @m:  member
 * @op: posted, referenced
 *
 * Process context, send_lock held.
 *
 * Return: chunks that are filled and not sent.
 */
u32 rar_stream_filled(struct rar_member *m, struct rar_operation *op)
{
	struct rar_stream *s = op->keyed->stream;
	u32 n;

	spin_lock_bh(&m->tx_lock);
	WRITE_ONCE(s->next, s->next + 1);
	n = s->next - s->sent;
	spin_unlock_bh(&m->tx_lock);
	s->fill = 0;
	return n;
}

/**
 * rar_stream_end() - end a stream with the chunk that is being filled, which may be empty
 * @m:  member
 * @op: posted, referenced
 *
 * Process context, send_lock held.
 */
void rar_stream_end(struct rar_member *m, struct rar_operation *op)
{
	struct rar_stream *s = op->keyed->stream;

	spin_lock_bh(&m->tx_lock);
	s->last = s->fill;
	WRITE_ONCE(s->next, s->next + 1);
	WRITE_ONCE(op->posted_us, rar_now_us());
	/* Pairs with the acquire in gave_all(). */
	smp_store_release(&op->keyed->ended, true);
	spin_unlock_bh(&m->tx_lock);
	rar_stream_push(m, op);
}

/* -- acknowledgments -------------------------------------------------------- */

/* The window halves once for all that was lost or marked while it was on its way. tx_lock. */
static void shrink(struct rar_stream *s)
{
	if ((s32)(s->una - s->recover) < 0)
		return;
	s->ssthresh = max_t(u32, s->cwnd / 2, STREAM_CWND_MIN);
	s->cwnd = s->ssthresh;
	s->recover = s->sent;
	s->grown = 0;
}

/* @n chunks were acknowledged. tx_lock. */
static void grow(struct rar_stream *s, u32 n)
{
	if (s->cwnd < s->ssthresh) {
		s->cwnd += n;
	} else {
		s->grown += n;
		if (s->grown >= s->cwnd) {
			s->grown -= s->cwnd;
			s->cwnd++;
		}
	}
	s->cwnd = min(s->cwnd, s->window);
}

/* When the last of the chunks @mask was sent, counted from @una. tx_lock. */
static u64 newest_of(const struct rar_stream *s, u64 mask)
{
	u64 newest = 0;

	for (; mask; mask &= mask - 1)
		newest = max(newest, s->sent_us[(s->una + __ffs64(mask)) % s->window]);
	return newest;
}

/*
 * Find chunks that are lost: a chunk that was sent later to the same place is acknowledged, and so
 * is a chunk at least STREAM_REORDER further in the stream. @newest: of the chunks that are
 * acknowledged now, when the newest was sent to the root, and when the newest to the box. tx_lock.
 */
static void find_lost(struct rar_stream *s, const u64 newest[2])
{
	u64 mask = missing(s) & ~s->again, lost = 0;
	u32 i;

	for (; mask; mask &= mask - 1) {
		i = __ffs64(mask);
		if (i + STREAM_REORDER >= RAR_STREAM_CHUNKS || !(s->acked >> (i + STREAM_REORDER)))
			break;
		if (s->sent_us[(s->una + i) % s->window] < newest[s->boxed >> i & 1])
			lost |= 1ULL << i;
	}
	s->again |= lost;
	if (lost)
		shrink(s);
}

/* The chunks that a DONE says came, a bit each from @una on. */
static u64 came_from_una(const struct rar_stream *s, u32 below, u64 map)
{
	u32 ahead = below - s->una, sent = s->sent - s->una;

	/* An old one, or one that tells of chunks that were not sent. */
	if (ahead > sent)
		return 0;
	map = ahead < 64 ? map << ahead : 0;
	return (map | rar_mask(ahead)) & rar_mask(sent);
}

/* Measure how long an acknowledgment took, unless it may be of an earlier copy. tx_lock. */
static void measure(struct rar_stream *s, u64 newest, u64 now)
{
	u32 rtt = min_t(u64, now - newest, STREAM_RTO_MAX_US);

	if (!s->backoff && !s->again)
		s->rtt_us = s->rtt_us ? (7 * s->rtt_us + rtt) / 8 : max(rtt, 1U);
}

/* Forget the chunks at the front that are acknowledged. Return: are there any? tx_lock. */
static bool advance(struct rar_stream *s)
{
	u32 n = ~s->acked ? __ffs64(~s->acked) : 64;

	if (!n)
		return false;
	s->acked = n < 64 ? s->acked >> n : 0;
	s->again = n < 64 ? s->again >> n : 0;
	s->boxed = n < 64 ? s->boxed >> n : 0;
	WRITE_ONCE(s->una, s->una + n);
	return true;
}

/* Those of chunks @mask, a bit each from @una on, that are of full size. tx_lock. */
static u64 full_size(const struct rar_operation *op, u64 mask)
{
	const struct rar_stream *s = op->keyed->stream;
	u32 last = s->next - 1 - s->una;

	return op->keyed->ended && last < 64 ? mask & ~(1ULL << last) : mask;
}

/*
 * Chunks are sent again, so the oldest is lost. If it went straight to a root that has posted and
 * takes chunks, and is of full size, perhaps that path does not carry such packets. tx_lock.
 */
static void count_lost(struct rar_operation *op, u64 now)
{
	struct rar_stream *s = op->keyed->stream;
	u64 mask = missing(s), oldest = mask & -mask;

	if (!s->told || s->full || !full_size(op, oldest & ~s->boxed))
		return;
	if (!s->nlost++)
		s->lost_us = now;
}

/* Take in an acknowledgment. tx_lock. Return: must a send() that waits look again? */
static bool take_ack(struct rar_member *m, struct rar_operation *op, u32 below, u64 map,
		     u32 flags)
{
	struct rar_stream *s = op->keyed->stream;
	u64 came = came_from_una(s, below, map) & ~s->acked;
	u64 newest[] = { newest_of(s, came & ~s->boxed), newest_of(s, came & s->boxed) };
	bool waits = !rar_stream_writable(s);

	if (flags & RAR_DF_ALL && op->keyed->ended)
		came = missing(s);
	s->acked |= came;
	s->again &= ~came;
	s->full = flags & RAR_DF_FULL;
	if (s->full || full_size(op, came & ~s->boxed))
		s->nlost = 0;
	if (flags & RAR_DF_OPEN) {
		/* The root refused them. If it refuses chunks of the box, it tells the box. */
		count_lost(op, rar_now_us());
		s->again |= missing(s) & ~s->boxed;
		s->backoff = 0;
		set_due(m, op, rar_now_us());
	} else if (came) {
		measure(s, max(newest[0], newest[1]), rar_now_us());
		s->backoff = 0;
		if (came & s->boxed)
			s->skip = 0;
		find_lost(s, newest);
		if (flags & RAR_DF_CE)
			shrink(s);
		grow(s, hweight64(came));
		set_due(m, op, rar_now_us());
	}
	s->told = true;
	if (!advance(s))
		return false;
	if (s->una == s->sent)
		s->due_us = 0;
	if (!op->keyed->ended || s->una != s->next)
		return waits && rar_stream_writable(s);
	op->peers = 0;
	return rar_link_try_release(m, op);
}

/**
 * rar_stream_acked() - take in an acknowledgment of the root
 * @m:     member in RUN or LEAVING, RCU read side
 * @op:    keyed reduction with another root
 * @below: all chunks below have come
 * @map:   bit n: chunk @below + n has come, too
 * @flags: RAR_DF_*
 *
 * Softirq.
 */
void rar_stream_acked(struct rar_member *m, struct rar_operation *op, u32 below, u64 map,
		      u32 flags)
{
	bool wake = false;

	spin_lock_bh(&m->tx_lock);
	if (rar_link_op_at(m, op->seq) == op)
		wake = take_ack(m, op, below, map, flags);
	spin_unlock_bh(&m->tx_lock);
	push(m, op);
	if (wake)
		rar_member_wake(m);
}

/* -- the box ---------------------------------------------------------------- */

/*
 * The box gave chunks up, so new chunks go to the root for a while. That counts once for all chunks
 * that were on their way. tx_lock.
 */
static void skip_box(struct rar_stream *s)
{
	if ((s32)(s->una - s->judged) < 0)
		return;
	s->judged = s->sent;
	s->skip = clamp_t(u32, 2 * s->skip, STREAM_SKIP_MIN, STREAM_SKIP_MAX);
	s->direct = s->sent + s->skip;
}

/**
 * rar_stream_returned() - take in that the box gives chunks up
 * @m:     member in RUN or LEAVING, RCU read side
 * @op:    keyed reduction with another root
 * @first: a chunk
 * @map:   bit n: chunk @first + n
 *
 * Softirq.
 */
void rar_stream_returned(struct rar_member *m, struct rar_operation *op, u32 first, u64 map)
{
	struct rar_stream *s = op->keyed->stream;
	s32 ahead;

	spin_lock_bh(&m->tx_lock);
	ahead = first - s->una;
	if (rar_link_op_at(m, op->seq) == op && ahead > -64 && ahead < 64) {
		map = ahead < 0 ? map >> -ahead : map << ahead;
		map &= missing(s) & s->boxed;
		s->again |= map;
		if (map)
			skip_box(s);
	}
	spin_unlock_bh(&m->tx_lock);
	push(m, op);
}

/* -- time ------------------------------------------------------------------- */

/* Nothing was acknowledged for long: the oldest chunk is lost, or the box has failed. tx_lock. */
static void time_out(struct rar_operation *op, u64 now)
{
	struct rar_stream *s = op->keyed->stream;
	u64 mask = missing(s), oldest = mask & -mask;

	count_lost(op, now);
	if (oldest & s->boxed) {
		oldest = mask & s->boxed;
		skip_box(s);
	}
	s->again |= oldest;
	s->backoff = min(s->backoff + 1, 10U);
	shrink(s);
}

/**
 * rar_stream_tick() - send the oldest chunk of a stream again if it is due
 * @m:   member in RUN or LEAVING, RCU read side; no lock held
 * @op:  keyed reduction with another root
 * @now: microseconds
 *
 * Softirq.
 */
void rar_stream_tick(struct rar_member *m, struct rar_operation *op, u64 now)
{
	struct rar_stream *s = op->keyed->stream;
	bool narrow;

	spin_lock_bh(&m->tx_lock);
	if (s->due_us && now >= s->due_us) {
		time_out(op, now);
		set_due(m, op, now);
	} else if (s->due_us) {
		rar_link_timer_at(m, s->due_us);
	}
	narrow = rar_fail_narrow(m, s->nlost, s->lost_us, now);
	spin_unlock_bh(&m->tx_lock);
	if (narrow)
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank, op->fingerprint.root, op->seq);
	push(m, op);
}
