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
#include "tx/control.h"

/* Before a member enters again: twice as long if it was open for a moment */
#define RINGED_RETRY		(HZ / 10)
#define RINGED_RETRY_MAX	HZ

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

/* The part of an operation that the link to the box of a chunk sends. */
static struct rar_out *leg_out(struct rar_operation *op, u32 chunk)
{
	return &op->out[RAR_LEG + rar_ring_box(&op->ring, chunk)];
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
	rar_bits_set(leg_out(op, chunk)->acked[RAR_RS], chunk, won);
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
	struct rar_link *next = m->link[RAR_NEXT];
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

/* Let the contributed chunks go to the boxes, but for those that were left. */
static void contribute_to_boxes(struct rar_member *m, struct rar_operation *op)
{
	const struct rar_ring *ring = &op->ring;
	u32 n = op->come < ring->cpb ? op->come * ring->nblocks : ring->nchunks, i;
	u64 now = rar_now_us();

	for (i = 0; i < ring->plan.boxes; i++) {
		op->out[RAR_LEG + i].moved_us = now;
		if (!(op->ringed_boxes & BIT(i)))
			rar_link_inject(m->link[RAR_LEG + i], op, n);
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
	u32 own = rar_plan_own(&ring->plan), first = rar_ring_block_first(ring, own);
	u32 chunk, end, n;
	u64 mask;

	lockdep_assert_held(&m->tx_lock);
	settle_root(op);
	contribute_to_boxes(m, op);
	if (op->ringed_boxes)
		rar_link_inject(m->link[RAR_NEXT], op, op->come);
	end = first + min(rar_ring_block_chunks(ring, own), op->come);
	for (chunk = first + before; chunk < end; chunk += n) {
		n = min3(rar_ring_block_end(ring, chunk), end, chunk + 64) - chunk;
		mask = rar_bits_get(op->ringed, chunk, rar_mask(n));
		if (mask && !rar_op_left_box(op, chunk))
			go_by_ring(m, op, chunk, mask, true);
	}
}

/* Does the box, if it is open, make the sums of an operation? */
static bool box_makes(const struct rar_leg *leg, const struct rar_operation *op)
{
	if (rar_ringed_is_cast(op))
		return leg->cast;
	if (is_reduce(op))
		return leg->reduce;
	return !leg->any_order || rar_op_any_order(&op->fingerprint);
}

/* Let all chunks of a box go by the ring. */
static void leave_box(struct rar_operation *op, u32 box)
{
	u32 block, chunk, end;

	op->ringed_boxes |= BIT(box);
	for (block = 0; block < op->ring.nblocks; block++) {
		chunk = rar_ring_of_box(&op->ring, box, block, &end);
		bitmap_set(op->ringed, chunk, end - chunk);
	}
}

/**
 * rar_ringed_post() - let a new operation go to the box, or by the ring while it is away (1)
 * @m:  member, tx_lock held
 * @op: operation of a group with a box
 */
void rar_ringed_post(struct rar_member *m, struct rar_operation *op)
{
	const struct rar_leg *leg;
	u32 i;

	for (i = 0; i < op->ring.plan.boxes; i++) {
		op->out[RAR_LEG + i].asked_us = op->posted_us;
		leg = rar_link_leg(m->link[RAR_LEG + i]);
		if (!leg->link.epoch || op->seq < leg->until ||
		    !box_makes(leg, op))
			leave_box(op, i);
	}
	rar_ringed_contributed(m, op, 0);
}

/* Sums came, or were made here: of the ringed ones the successor gets AG (5). */
static bool sums_go_on(struct rar_member *m, struct rar_operation *op,
		       const struct rar_arrival *a, struct rar_tx_item *item)
{
	u64 mask = rar_bits_get(op->ringed, a->run.chunk, a->won);
	struct rar_link *next = m->link[RAR_NEXT];
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
	struct rar_link *next = m->link[RAR_NEXT];
	u64 sent = rar_bits_get(op->out[RAR_NEXT].sent[RAR_RS], a->run.chunk, a->won);

	if (sent && a->c.block == rar_plan_own(&op->ring.plan))
		rar_window_returned(next, op, a->run.chunk,
				    rar_op_bytes(op, &a->run, sent), a->now_us);
}

/* The box also brings partial sums of chunks that it gave up (3). */
static bool made_by_box(const struct rar_arrival *a)
{
	return rar_link_is_leg(a->link) && a->run.phase == RAR_AG;
}

/* Chunks are sums here. Partial sums and contributions are not sent any more. */
static void settled(struct rar_member *m, struct rar_operation *op,
		    const struct rar_arrival *a)
{
	struct rar_link *next = m->link[RAR_NEXT];

	/* A sum of all ranks proves that the neighbour, too, has posted the operation. */
	if (!rar_ringed_is_cast(op))
		rar_link_credit(next, max(next->tx.posted, op->seq), 0, next->tx.credit);
	rar_out_acked(next, op, RAR_RS, a->run.chunk, a->won);
	own_returned(m, op, a);
}

/*
 * Does the predecessor send the box of a chunk nothing of the operation? Then no sum comes from
 * there. An operation that is about to be released needs no more chunks.
 */
static bool others_left(const struct rar_operation *op, const struct rar_arrival *a)
{
	return a->dh && (a->dh->flags & RAR_F_RINGED) && !rar_op_left_box(op, a->run.chunk) &&
	       atomic_read(&op->left);
}

/* Count sums for the box whose share they are of: it made them, or the ring did. */
static void count_sums(struct rar_member *m, const struct rar_operation *op,
		       const struct rar_arrival *a, bool sums)
{
	struct rar_leg *leg = rar_link_leg(rar_leg_of(m, op, a->run.chunk));

	if (made_by_box(a))
		leg->sums += hweight64(a->won);
	else if (sums || is_reduce(op))
		leg->ringed += hweight64(a->won);
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
	struct rar_link *next = m->link[RAR_NEXT];
	bool forward = false;

	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	leg_out(op, a->run.chunk)->moved_us = a->now_us;
	rar_link_account(m, op, a);
	rar_out_acked(rar_leg_of(m, op, a->run.chunk), op, RAR_RS, a->run.chunk, a->done);
	if (!made_by_box(a))
		news = set_ringed(op, a->run.chunk, mask);
	count_sums(m, op, a, sums);
	if (sums)
		settled(m, op, a);
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
		rar_ringed_rest(m, op, rar_ring_box(&op->ring, a->run.chunk));
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
	rar_out_acked(rar_leg_of(m, op, chunk), op, RAR_RS, chunk, mask);
	if (news)
		go_by_ring(m, op, chunk, news, !handed);
}

/**
 * rar_ringed_passed() - take in that the box has passed chunks of a broadcast on, or summed them
 * @m:     a rank that gets no sums, tx_lock held
 * @op:    operation of a group with a box
 * @chunk: the first of the chunks, all of one block
 * @mask:  which of the chunks from there on
 *
 * The root of a reduction may not have a sum that the box has made. So the operation is not
 * complete here yet, and the chunks go by the ring if they are wanted.
 */
void rar_ringed_passed(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask)
{
	struct rar_link *next = m->link[RAR_NEXT],
			*link = rar_leg_of(m, op, chunk);
	struct rar_out *out = rar_link_out(link, op);

	lockdep_assert_held(&m->tx_lock);
	mask &= ~rar_bits_get(out->acked[RAR_RS], chunk, mask);
	rar_link_leg(link)->sums += hweight64(mask);
	rar_out_acked(link, op, RAR_RS, chunk, mask);
	if (!is_reduce(op))
		return;
	out->moved_us = rar_now_us();
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
		rar_out_pend(m->link[RAR_NEXT], op, RAR_RS, chunk, own);
	}
	if (!rar_op_left_box(op, chunk) && (is_source(op) || lacks))
		rar_ringed_rest(m, op, rar_ring_box(&op->ring, chunk));
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
	rar_out_pend(m->link[RAR_NEXT], op, RAR_AG, chunk, sums);
	if (rar_ringed_is_cast(op)) {
		claim_own(op, chunk, sums);
		if (!rar_op_left_box(op, chunk) && (is_root(op) || mask & ~sums))
			rar_ringed_rest(m, op, rar_ring_box(&op->ring, chunk));
	} else if (mask & ~sums) {
		go_by_ring(m, op, chunk, mask & ~sums, true);
	}
}

/*
 * Of a run of chunks that go to one box, those that go by the ring if that box is left: they are
 * not settled here. Of a reduction to a root those that the box has summed do only if they are
 * wanted, since the root may have them. Where the ring begins it needs no chunks that the box has
 * passed on, or summed, unless they are wanted.
 */
static u64 not_passed(struct rar_operation *op, u32 chunk, u64 mask)
{
	u64 passed = rar_bits_get(leg_out(op, chunk)->acked[RAR_RS], chunk, mask);
	u64 lacks = mask & ~rar_bits_get(rar_op_settled(op), chunk, mask);

	if (is_source(op)) {
		rar_bits_test_and_set(op->claimed[RAR_RS], chunk, passed);
		return mask & ~passed;
	}
	return is_reduce(op) && rar_plan_gets_none(&op->ring.plan) ? lacks & ~passed : lacks;
}

/* Own chunks that were passed over may go by the ring now. */
static void inject_again(struct rar_link *next, struct rar_operation *op)
{
	struct rar_out *out = rar_link_out(next, op);

	next->tx.ninject += out->inject - out->owed.first;
	out->inject = out->owed.first;
	rar_link_inject(next, op, op->come);
}

/**
 * rar_ringed_rest() - let all chunks of a box that are not settled here go by the ring (1)
 * @m:   member, tx_lock held
 * @op:  operation of a group with a box
 * @box: its place among the boxes
 */
void rar_ringed_rest(struct rar_member *m, struct rar_operation *op, u32 box)
{
	u32 block, chunk, end, n;

	lockdep_assert_held(&m->tx_lock);
	WRITE_ONCE(op->ringed_boxes, op->ringed_boxes | BIT(box));
	rar_link_forget(m->link[RAR_LEG + box], op);
	for (block = 0; block < op->ring.nblocks; block++) {
		chunk = rar_ring_of_box(&op->ring, box, block, &end);
		for (; chunk < end; chunk += n) {
			n = min(end - chunk, 64U);
			set_ringed(op, chunk, not_passed(op, chunk, rar_mask(n)));
		}
	}
	inject_again(m->link[RAR_NEXT], op);
}

/* Chunks at a box that is lost go by the ring; records of keyed reductions go to the root. */
static void let_go(struct rar_member *m, struct rar_operation *op, u32 box)
{
	if (op->ring.plan.aside)
		rar_ringed_rest(m, op, box);
	else if (!box && op->keyed && !op->keyed->is_root && rar_stream_unbox(op->keyed->stream))
		rar_link_timer_at(m, rar_now_us());
}

/**
 * rar_ringed_close() - send nothing more to a box, and enter again later
 * @link: link to the box
 *
 * The caller pushes what goes by the ring now.
 *
 * Return: the epoch that the leg had, or 0 if it was not open.
 */
u64 rar_ringed_close(struct rar_link *link)
{
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;
	struct rar_operation *op;
	u64 epoch, seq;

	spin_lock_bh(&m->tx_lock);
	epoch = link->epoch;
	WRITE_ONCE(link->epoch, 0);
	for (seq = m->op_oldest; epoch && seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (op)
			let_go(m, op, link->index - RAR_LEG);
	}
	if (epoch)
		rar_link_flush_tx(link);
	link->silent = false;
	/*
	 * A box that lets members in and ends the job at once is not asked too
	 * often.
	 */
	if (!leg->pause || time_after(jiffies, leg->opened + RINGED_RETRY_MAX))
		leg->pause = RINGED_RETRY;
	else
		leg->pause = min_t(unsigned long, 2 * leg->pause,
				   RINGED_RETRY_MAX);
	leg->next_try = jiffies + leg->pause;
	leg->tries = 0;
	leg->since = jiffies;
	rar_leg_renew(leg);
	spin_unlock_bh(&m->tx_lock);
	return epoch;
}

/**
 * rar_ringed_leave() - as rar_ringed_close(), and tell the box
 * @link: link to the box
 *
 * The box ends the job, so the other members do not wait there for this rank's contributions.
 *
 * Return: as rar_ringed_close().
 */
u64 rar_ringed_leave(struct rar_link *link)
{
	u64 epoch = rar_ringed_close(link);
	struct rar_hdr h;

	if (epoch)
		rar_control_send(link, &h, sizeof(h), 0, RAR_T_RESET, epoch);
	return epoch;
}

/* Leave all boxes of the group. */
void rar_ringed_leave_all(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		rar_ringed_leave(link);
}

/* Tell a box how many operations are complete here, and that this rank lives. */
void rar_ringed_tell(struct rar_link *link)
{
	u64 epoch = READ_ONCE(link->epoch);
	struct rar_probe_hdr ph = {
		.una = cpu_to_be32(READ_ONCE(link->tx.una)),
		.done = cpu_to_be32(READ_ONCE(link->member->ops_done)),
		.op_seq = cpu_to_be64(READ_ONCE(rar_link_leg(link)->from)),
	};

	if (epoch)
		rar_control_send(link, &ph, sizeof(ph),
				 sizeof(struct rar_ack_hdr) - sizeof(ph),
				 RAR_T_PROBE, epoch);
}

/* Tell all boxes of the group. */
void rar_ringed_tell_all(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		rar_ringed_tell(link);
}
