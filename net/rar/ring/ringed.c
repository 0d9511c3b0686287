// SPDX-License-Identifier: GPL-2.0
/*
 * Chunks of a group with a box: which go by the ring at this rank. The rules, their numbers
 * and the words are those of Documentation/design/box.rst.
 *
 * With an open leg every chunk goes to the box first (1). A chunk is "ringed" when the box
 * returns it, when it comes by the ring, when the successor wants it, or when the box is
 * silent. Of a ringed chunk this rank injects its own contribution (2) and passes sums on (5).
 */
#include "core/arrival.h"
#include "core/keyed.h"
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "link/link.h"
#include "link/out.h"
#include "link/pick.h"
#include "link/window.h"
#include "ring/ringed.h"
#include "tx/packet.h"

#define RINGED_RETRY	HZ	/* before a member enters again */

/* Is it a broadcast? Then the root's chunks are sums there from the beginning. */
bool rar_ringed_is_cast(const struct rar_operation *op)
{
	return op->ring.plan.aside && !rar_plan_adds(&op->ring.plan);
}

/* Is this rank the root of a broadcast? */
static bool is_root(const struct rar_operation *op)
{
	return rar_ringed_is_cast(op) && rar_plan_own(&op->ring.plan) != RAR_NO_BLOCK;
}

/* Is it a reduction to a root? Then no sums go by the ring. */
static bool is_reduce(const struct rar_operation *op)
{
	return op->ring.plan.aside && !rar_plan_has(&op->ring.plan, RAR_AG);
}

/*
 * Does an operation need nothing here but this rank's contribution, with which the ring begins?
 * This rank is the root of a broadcast, or comes after the root of a reduction.
 */
static bool is_source(const struct rar_operation *op)
{
	return !rar_ring_need(&op->ring);
}

/*
 * Does the box answer this rank's contributions without sums? It is the root of a broadcast, or
 * another rank than the root of a reduction.
 */
bool rar_ringed_gets_none(const struct rar_operation *op)
{
	return is_root(op) || (is_reduce(op) && rar_plan_gets_none(&op->ring.plan));
}

/*
 * Which sums of chunks of one block is the successor owed without asking? If the block ends
 * there, it makes the sum itself of what this rank sent as RS. It gets no RS of a chunk that was
 * a sum here before. The root of a broadcast has all of it.
 */
static u64 owed_sums(const struct rar_operation *op, u32 chunk, u64 mask)
{
	if (is_reduce(op))
		return 0;
	if (chunk / op->ring.cpb != op->ring.plan.ends[RAR_AG])
		return mask;
	if (rar_ringed_is_cast(op))
		return 0;
	return mask & ~rar_bits_get(op->out[RAR_NEXT].sent[RAR_RS], chunk, mask);
}

/* Make chunks of one block ringed. Return: the chunks that were not. */
static u64 set_ringed(struct rar_operation *op, u32 chunk, u64 mask)
{
	return rar_bits_set(op->ringed, chunk, mask);
}

/*
 * Claim RS of own chunks, which are then published: the contribution is a partial sum. At the root
 * of a broadcast, which has no RS, this says that the ring has the chunks, or the box has passed
 * them on. Return: the chunks won.
 */
static u64 claim_own(struct rar_operation *op, u32 chunk, u64 mask)
{
	const struct rar_run run = { chunk, fls64(mask), RAR_RS };
	u64 won = rar_bits_test_and_set(op->claimed[RAR_RS], chunk, mask);

	rar_op_publish(op, &run, won);
	rar_bits_set(op->out[RAR_LEG].acked[RAR_RS], chunk, won);
	return won;
}

/**
 * rar_ringed_claim() - claim a run of own chunks that was chosen to be injected (2)
 * @link: link to the successor, tx_lock held
 * @op:   operation
 * @run:  the run. A sum may have come for some of its chunks a moment ago. Then the run is cut,
 *        and what is claimed after the cut waits
 *
 * Return: false if nothing of the run is left.
 */
bool rar_ringed_claim(struct rar_link *link, struct rar_operation *op, struct rar_run *run)
{
	u64 won = claim_own(op, run->chunk, rar_mask(run->n));
	u32 n = run->n;

	if (won != rar_mask(n))
		run->n = __ffs64(~won);
	rar_out_pend(link, op, run->phase, run->chunk, won & ~rar_mask(run->n));
	return run->n;
}

/* Which chunks from @chunk on, of its block, has this rank contributed? */
static u64 contributed(const struct rar_operation *op, u32 chunk)
{
	u32 at = chunk % op->ring.cpb;

	return op->come > at ? rar_mask(min(op->come - at, 64U)) : 0;
}

/*
 * Chunks of one block are ringed now: pass sums on, and inject those that start here unless
 * partial sums of them are on the way in the ring.
 */
static void go_by_ring(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask,
		       bool inject)
{
	u32 block = chunk / op->ring.cpb;
	struct rar_link *next = &m->link[RAR_NEXT];
	u64 settled = rar_bits_get(rar_op_settled(op), chunk, mask);

	rar_out_pend(next, op, RAR_AG, chunk, owed_sums(op, chunk, settled));
	if (rar_ringed_is_cast(op)) {
		claim_own(op, chunk, settled);
		return;
	}
	mask &= ~settled;
	if (inject && block == rar_plan_own(&op->ring.plan))
		mask &= contributed(op, chunk);
	else
		mask = 0;
	if (mask)
		rar_out_pend(next, op, RAR_RS, chunk, claim_own(op, chunk, mask));
}

/* At the root of a broadcast all is settled that is contributed. */
static void settle_root(struct rar_operation *op)
{
	u32 end = is_root(op) ? min(op->come, op->ring.nchunks) : 0;
	struct rar_run run = { .phase = RAR_AG };

	for (; run.chunk < end; run.chunk += run.n) {
		run.n = min(end - run.chunk, 64U);
		rar_op_publish(op, &run, rar_mask(run.n));
	}
}

/**
 * rar_ringed_contributed() - let more of an operation go to the box, or by the ring
 * @m:      member, tx_lock held
 * @op:     operation of a group with a box
 * @before: chunks of each block that were contributed before
 *
 * Own chunks that became ringed before they were contributed are injected now.
 */
void rar_ringed_contributed(struct rar_member *m, struct rar_operation *op, u32 before)
{
	const struct rar_ring *ring = &op->ring;
	u32 own = rar_plan_own(&ring->plan), end = rar_ring_block_chunks(ring, own), at, n;
	u64 mask;

	lockdep_assert_held(&m->tx_lock);
	op->moved_us = rar_now_us();
	settle_root(op);
	if (op->all_ringed) {
		rar_link_inject(&m->link[RAR_NEXT], op, op->come);
		return;
	}
	n = op->come < ring->cpb ? op->come * ring->nblocks : ring->nchunks;
	rar_link_inject(&m->link[RAR_LEG], op, n);
	end = min(end, op->come);
	for (at = before; at < end; at += n) {
		n = min(end - at, 64U);
		mask = rar_bits_get(op->ringed, own * ring->cpb + at, rar_mask(n));
		if (mask)
			go_by_ring(m, op, own * ring->cpb + at, mask, true);
	}
}

/* Does the open box make the sums of an operation? */
static bool box_makes(const struct rar_member *m, const struct rar_operation *op)
{
	if (rar_ringed_is_cast(op))
		return m->leg.cast;
	if (is_reduce(op))
		return m->leg.reduce;
	return !m->leg.any_order || rar_op_any_order(&op->fingerprint);
}

/**
 * rar_ringed_post() - let a new operation go to the box, or by the ring while it is away (1)
 * @m:  member, tx_lock held
 * @op: operation of a group with a box
 */
void rar_ringed_post(struct rar_member *m, struct rar_operation *op)
{
	op->asked_us = op->posted_us;
	if (!m->link[RAR_LEG].epoch || op->seq < m->leg.until || !box_makes(m, op)) {
		op->all_ringed = true;
		bitmap_set(op->ringed, 0, op->ring.nchunks);
	}
	rar_ringed_contributed(m, op, 0);
}

/* Sums came, or were made here: of the ringed ones the successor gets AG (5). */
static bool sums_go_on(struct rar_member *m, struct rar_operation *op,
		       const struct rar_arrival *a, struct rar_tx_item *item)
{
	u64 mask = rar_bits_get(op->ringed, a->run.chunk, a->won);
	struct rar_link *next = &m->link[RAR_NEXT];
	struct rar_run out = a->run;

	out.phase = RAR_AG;
	mask = owed_sums(op, out.chunk, mask);
	if (item && mask == rar_mask(out.n) && rar_pick_forward(next, op, &out, item, a->now_us))
		return true;
	rar_out_pend(next, op, RAR_AG, out.chunk, mask);
	return false;
}

/* The sums of own chunks are here: the injected ones are under way no more. */
static void own_returned(struct rar_member *m, struct rar_operation *op,
			 const struct rar_arrival *a)
{
	struct rar_link *next = &m->link[RAR_NEXT];
	u64 sent = rar_bits_get(op->out[RAR_NEXT].sent[RAR_RS], a->run.chunk, a->won);

	if (sent && a->c.block == rar_plan_own(&op->ring.plan))
		rar_window_returned(next, op, a->run.chunk,
				    rar_op_bytes(op, &a->run, sent), a->now_us);
}

/* The box also brings partial sums of chunks that it gave up (3). */
static bool made_by_box(const struct rar_arrival *a)
{
	return a->link->index == RAR_LEG && a->run.phase == RAR_AG;
}

/* Chunks are sums here. Partial sums and contributions are not sent any more. */
static void settled(struct rar_member *m, struct rar_operation *op,
		    const struct rar_arrival *a)
{
	struct rar_link *next = &m->link[RAR_NEXT];

	if (made_by_box(a))
		m->leg.sums += hweight64(a->won);
	else
		m->leg.ringed += hweight64(a->won);
	/* A sum of all ranks proves that the neighbour, too, has posted the operation. */
	if (!rar_ringed_is_cast(op))
		rar_link_credit(next, max(next->tx.posted, op->seq), 0, next->tx.credit);
	rar_out_acked(next, op, RAR_RS, a->run.chunk, a->won);
	own_returned(m, op, a);
}

/*
 * Does the predecessor send the box nothing of the operation? Then no sum comes from there. An
 * operation that is about to be released needs no more chunks.
 */
static bool others_left(const struct rar_operation *op, const struct rar_arrival *a)
{
	return a->dh && (a->dh->flags & RAR_F_RINGED) && !op->all_ringed &&
	       atomic_read(&op->left);
}

/**
 * rar_ringed_arrived() - note that received chunks are in the buffer, and let them go on
 * @m:    member
 * @op:   operation of a group with a box, RCU read side
 * @a:    the run; its new chunks are published, sums as AG
 * @item: as in rar_link_publish()
 *
 * Return: as rar_link_publish().
 */
bool rar_ringed_arrived(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a, struct rar_tx_item *item)
{
	bool sums = rar_plan_completes(&op->ring.plan, a->run.phase, a->c.block);
	u64 news = 0, released, mask = rar_mask(a->run.n);
	struct rar_link *next = &m->link[RAR_NEXT];
	bool forward = false;

	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	op->moved_us = a->now_us;
	rar_link_account(m, op, a);
	rar_out_acked(&m->link[RAR_LEG], op, RAR_RS, a->run.chunk, a->done);
	if (!made_by_box(a))
		news = set_ringed(op, a->run.chunk, mask);
	if (sums)
		settled(m, op, a);
	else if (is_reduce(op))
		m->leg.ringed += hweight64(a->won);
	if (sums)
		forward = sums_go_on(m, op, a, item);
	else if (a->won)
		forward = item && rar_pick_forward(next, op, &a->run, item, a->now_us);
	if (!sums && !forward)
		rar_out_pend(next, op, RAR_RS, a->run.chunk, a->won);
	/* Sums that were here before may be ringed for the first time. */
	news &= rar_bits_get(op->published[RAR_AG], a->run.chunk, mask) & ~(sums ? a->won : 0);
	/* Not if the successor has completed the operation meanwhile, and it is released. */
	if (news && rar_link_op_at(m, op->seq) == op)
		go_by_ring(m, op, a->run.chunk, news, true);
	if (others_left(op, a))
		rar_ringed_rest(m, op);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
	return forward;
}

/**
 * rar_ringed_returned() - take in that the box gave chunks up (1)
 * @m:     member, tx_lock held
 * @op:    operation of a group with a box
 * @chunk: the first of the chunks, all of one block
 * @mask:  which of the chunks from there on
 * @handed: the box has sent partial sums of them to the rank that adds next. If they are lost
 *	   WANT brings the chunks back to the rank at which they start
 */
void rar_ringed_returned(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask,
			 bool handed)
{
	u64 news = set_ringed(op, chunk, mask);

	lockdep_assert_held(&m->tx_lock);
	rar_out_acked(&m->link[RAR_LEG], op, RAR_RS, chunk, mask);
	if (news)
		go_by_ring(m, op, chunk, news, !handed);
}

/**
 * rar_ringed_passed() - take in that the box has passed chunks of a broadcast on, or summed them
 * @m:     a rank that gets no sums, tx_lock held
 * @op:    operation of a group with a box
 * @chunk: the first of the chunks
 * @mask:  which of the chunks from there on
 *
 * The root of a reduction may not have a sum that the box has made. So the operation is not
 * complete here yet, and the chunks go by the ring if they are wanted.
 */
void rar_ringed_passed(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	struct rar_link *next = &m->link[RAR_NEXT];

	lockdep_assert_held(&m->tx_lock);
	mask &= ~rar_bits_get(op->out[RAR_LEG].acked[RAR_RS], chunk, mask);
	m->leg.sums += hweight64(mask);
	rar_out_acked(&m->link[RAR_LEG], op, RAR_RS, chunk, mask);
	if (!is_reduce(op))
		return;
	op->moved_us = rar_now_us();
	/* All ranks have contributed. */
	rar_link_credit(next, max(next->tx.posted, op->seq), 0, next->tx.credit);
}

/*
 * The successor lacks partial sums of a reduction to a root. They are under way from here, or were
 * never here. The ranks after this one cannot show to those before it that they have left the box,
 * but by WANT.
 */
static void wanted_partial(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	u64 lacks = mask & ~rar_bits_get(rar_op_settled(op), chunk, mask), own;

	if (is_source(op)) {
		own = mask & contributed(op, chunk);
		claim_own(op, chunk, own);
		own &= ~rar_bits_get(op->out[RAR_NEXT].sent[RAR_RS], chunk, own);
		rar_out_pend(&m->link[RAR_NEXT], op, RAR_RS, chunk, own);
	}
	if (!op->all_ringed && (is_source(op) || lacks))
		rar_ringed_rest(m, op);
}

/**
 * rar_ringed_wanted() - take in that the successor has no sum of some chunks (5)
 * @m:     member, tx_lock held
 * @op:    operation of a group with a box
 * @chunk: the first of the chunks, all of one block
 * @mask:  which of the chunks from there on
 *
 * Of a broadcast the ranks after this one contribute nothing, so they cannot show that they have
 * left the box. WANT shows it.
 */
void rar_ringed_wanted(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	u64 sums = rar_bits_get(op->published[RAR_AG], chunk, mask);

	lockdep_assert_held(&m->tx_lock);
	set_ringed(op, chunk, mask);
	if (is_reduce(op)) {
		wanted_partial(m, op, chunk, mask);
		return;
	}
	rar_out_pend(&m->link[RAR_NEXT], op, RAR_AG, chunk, sums);
	if (rar_ringed_is_cast(op)) {
		claim_own(op, chunk, sums);
		if (!op->all_ringed && (is_root(op) || mask & ~sums))
			rar_ringed_rest(m, op);
	} else if (mask & ~sums) {
		go_by_ring(m, op, chunk, mask & ~sums, true);
	}
}

/*
 * Where the ring begins it needs no chunks that the box has passed on, or summed, unless they are
 * wanted.
 */
static void leave_out_passed(struct rar_operation *op)
{
	const unsigned long *passed = op->out[RAR_LEG].acked[RAR_RS];
	u32 i, words = is_source(op) ? BITS_TO_LONGS(op->ring.nchunks) : 0;

	for (i = 0; i < words; i++)
		rar_bits_test_and_set(op->claimed[RAR_RS], i * BITS_PER_LONG, passed[i]);
}

/*
 * The chunks of a word that go by the ring because they are not settled here. Of a reduction to a
 * root those that the box has summed do only if they are wanted, since the root may have them.
 */
static unsigned long not_settled(const struct rar_operation *op, u32 word)
{
	unsigned long lacks = ~READ_ONCE(rar_op_settled(op)[word]);

	if (is_reduce(op) && rar_plan_gets_none(&op->ring.plan))
		lacks &= ~op->out[RAR_LEG].acked[RAR_RS][word];
	return lacks;
}

/**
 * rar_ringed_rest() - let all chunks that are not settled here go by the ring (1)
 * @m:  member, tx_lock held
 * @op: operation of a group with a box
 */
void rar_ringed_rest(struct rar_member *m, struct rar_operation *op)
{
	u32 words = BITS_TO_LONGS(op->ring.nchunks), i;

	lockdep_assert_held(&m->tx_lock);
	WRITE_ONCE(op->all_ringed, true);
	rar_link_forget(&m->link[RAR_LEG], op);
	for (i = 0; i < words; i++)
		op->ringed[i] |= not_settled(op, i);
	if (words)
		op->ringed[words - 1] &= BITMAP_LAST_WORD_MASK(op->ring.nchunks);
	leave_out_passed(op);
	rar_link_inject(&m->link[RAR_NEXT], op, op->come);
}

/**
 * rar_ringed_close() - send nothing more by the leg, and enter again later
 * @m: member
 *
 * The caller pushes what goes by the ring now.
 *
 * Return: the epoch that the leg had, or 0 if it was not open.
 */
u64 rar_ringed_close(struct rar_member *m)
{
	struct rar_link *link = &m->link[RAR_LEG];
	struct rar_operation *op;
	u64 epoch, seq;

	spin_lock_bh(&m->tx_lock);
	epoch = link->epoch;
	WRITE_ONCE(link->epoch, 0);
	for (seq = m->op_oldest; epoch && seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (op && op->ring.plan.aside)
			rar_ringed_rest(m, op);
		else if (op && op->keyed && !op->keyed->is_root &&
			 rar_stream_unbox(op->keyed->stream))
			rar_link_timer_at(m, rar_now_us());
	}
	if (epoch)
		rar_link_flush_tx(link);
	link->silent = false;
	m->leg.next_try = jiffies + RINGED_RETRY;
	m->leg.tries = 0;
	m->leg.since = jiffies;
	m->leg.nonce = rar_random_token();
	spin_unlock_bh(&m->tx_lock);
	return epoch;
}

/**
 * rar_ringed_leave() - as rar_ringed_close(), and tell the box
 * @m: member
 *
 * The box ends the job, so the other members do not wait there for this rank's contributions.
 *
 * Return: as rar_ringed_close().
 */
u64 rar_ringed_leave(struct rar_member *m)
{
	u64 epoch = rar_ringed_close(m);
	struct rar_hdr h;

	if (epoch)
		rar_packet_ctl(&m->link[RAR_LEG], &h, sizeof(h), 0, RAR_T_RESET, epoch);
	return epoch;
}

/* Tell the box how many operations are complete here, and that this rank lives. */
void rar_ringed_tell(struct rar_member *m)
{
	struct rar_link *link = &m->link[RAR_LEG];
	u64 epoch = READ_ONCE(link->epoch);
	struct rar_probe_hdr ph = {
		.una = cpu_to_be32(READ_ONCE(link->tx.una)),
		.done = cpu_to_be32(READ_ONCE(m->ops_done)),
		.op_seq = cpu_to_be64(READ_ONCE(m->leg.from)),
	};

	if (epoch)
		rar_packet_ctl(link, &ph, sizeof(ph), sizeof(struct rar_ack_hdr) - sizeof(ph),
			       RAR_T_PROBE, epoch);
}
