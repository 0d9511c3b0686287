// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive halving and doubling: which chunks are added, and where sums go. A
 * reduce-scatter ends with the sums, and an all-gather begins with them. See core/halving.h for the stages, and for the numbers that chunks
 * have.
 *
 * Chunks go by direct links, with numbers, windows and acknowledgments as on
 * those of the ring. Each goes through the stages by itself, in softirq, on the
 * CPU that has the last thing that it waited for, as by doubling (doubling.c):
 *
 *	published, AG, an arrival	it came
 *	published, RS, an arrival	it is added to what this rank had: the
 *					partial sum before the next stage
 *	published, RS, the tensor	this rank has contributed
 *	published, AG, the tensor	the sum of all ranks is there
 *
 * A CPU sets one of the two bits that a sum waits for, looks at both, and if
 * both are set claims the sum (claimed, RS, the arrival). Setting a bit is a
 * full barrier, so of two CPUs at least one finds both.
 * selftests/model/halving.pml is a model of this.
 */
#include "core/arrival.h"
#include "core/gather.h"
#include "core/halving.h"
#include "core/member.h"
#include "core/op.h"
#include "link/link.h"
#include "link/out.h"
#include "rar.h"
#include "ring/halving.h"
#include "ring/peer.h"
#include "ring/send.h"

/* Chunks of a range that go together: */
#define GROUP_MOST	64U	/* all */
#define GROUP_LONG	16U	/* of more than GROUP_MOST */

/*
 * struct some - chunks of the tensor that take the same step
 * @nth:  the first one, if @mask is not 0
 * @mask: which of those from @nth on, a bit each; bit 0 is set
 */
struct some {
	u32 nth;
	u64 mask;
};

static struct some some_of(u32 nth, u64 mask)
{
	u32 skip = mask ? __ffs64(mask) : 0;

	return (struct some) { .nth = nth + skip, .mask = mask >> skip };
}

/* Those that lie in a range. */
static struct some within(struct some some, struct rar_range range)
{
	u32 end = range.first + range.n, skip;

	skip = range.first > some.nth ? range.first - some.nth : 0;
	if (skip >= 64 || end <= some.nth)
		return (struct some) { };
	return some_of(some.nth, some.mask & rar_mask(end - some.nth) &
					 ~rar_mask(skip));
}

/* The link to the peer of a stage. */
static struct rar_link *link_of(struct rar_member *m,
				const struct rar_operation *op, u32 stage)
{
	return rar_member_direct(m, rar_halving_pair(&op->ring, stage).peer);
}

/*
 * Send the chunks of a range to the peer of a stage, of which @some are there
 * now. They go in groups, each as soon as all of it is there: so a rank sends a
 * single packet in a stage for a short range, and not as many as came. @chunk:
 * the number of the first one of the range.
 */
static void send_groups(struct rar_member *m, struct rar_operation *op,
			u32 stage, enum rar_phase phase, struct rar_range range,
			u32 chunk, struct some some)
{
	struct rar_run group = { .phase = phase };
	u32 most = range.n > GROUP_MOST ? GROUP_LONG : GROUP_MOST, at, last;

	some = within(some, range);
	if (!some.mask)
		return;
	last = some.nth + fls64(some.mask) - 1 - range.first;
	at = (some.nth - range.first) / most * most;
	spin_lock_bh(&m->tx_lock);
	for (; at <= last; at += most) {
		group.chunk = chunk + at;
		group.n = min(range.n - at, most);
		/* Another CPU may find the same group complete. */
		if (rar_op_published(op, &group, rar_mask(group.n)) ==
		    rar_mask(group.n))
			rar_out_pend_unsent(link_of(m, op, stage), op, &group);
	}
	spin_unlock_bh(&m->tx_lock);
}

/*
 * Complete sums are in the buffer, or shares that are gathered: they go to the
 * peers of the @halvings first halvings, and to a folded neighbour. In a
 * reduce-scatter they stay. Return: true if they were the last ones.
 */
static bool hand_out(struct rar_member *m, struct rar_operation *op,
		     struct some some, u32 halvings)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	struct rar_range range = { .n = op->ring.cpb };
	u32 first = rar_halving_first(st), i;

	if (!some.mask)
		return false;
	if (st->folded && !st->odd && !st->first)
		send_groups(m, op, 0, RAR_AG, range, 0, some);
	for (i = 0; i < halvings && op->ring.plan.gathers; i++) {
		range = rar_halving_keeps(&op->ring, i + 1);
		send_groups(m, op, first + i, RAR_AG, range, range.first, some);
	}
	/* A full barrier; pairs with the barrier in rar_copy_out(). */
	return !atomic_sub_return(hweight64(some.mask), &op->left);
}

/*
 * Add chunks of @some, which are claimed: the sum of all ranks if @last. Those
 * of one share lie one after the other.
 */
static void add(struct rar_member *m, struct rar_operation *op, u32 stage,
		struct some some, bool last)
{
	u32 share = rar_halving_share(&op->ring), own, in, sum, nth, n, at;
	bool after = rar_halving_pair(&op->ring, stage).after;
	u64 mask;

	for (mask = some.mask; mask; mask &= ~(rar_mask(n) << at)) {
		at = __ffs64(mask);
		nth = some.nth + at;
		n = min(rar_mask_run(mask >> at), share - nth % share);
		own = rar_halving_partial(&op->ring, stage, nth);
		in = rar_halving_arrival(&op->ring, stage, nth);
		sum = last ? nth : in;
		rar_gather_pair(m, op, sum, after ? own : in, after ? in : own,
				n, last);
	}
}

/*
 * Make the sums of a stage of which both operands are there. Return: which were
 * made here. Of the others an operand is not here yet, or another CPU makes
 * them.
 */
static struct some make(struct rar_member *m, struct rar_operation *op,
			u32 stage, struct some some)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	bool last = stage + 1 == rar_halving_first(st) + rar_halving_stages(st);
	struct rar_run own = { .phase = RAR_RS }, in = { .phase = RAR_AG };
	struct rar_run sum = { .chunk = some.nth, .phase = RAR_AG };
	u64 mask = some.mask;

	if (!mask)
		return some;
	own.chunk = rar_halving_partial(&op->ring, stage, some.nth);
	in.chunk = rar_halving_arrival(&op->ring, stage, some.nth);
	mask = rar_op_published(op, &own, mask);
	mask = rar_op_published(op, &in, mask);
	mask = rar_bits_test_and_set(op->claimed[RAR_RS], in.chunk, mask);
	some.mask = mask;
	add(m, op, stage, some, last);
	if (last) {
		rar_bits_test_and_set(op->claimed[RAR_AG], sum.chunk, mask);
	} else {
		sum.chunk = in.chunk;
		sum.phase = RAR_RS;
	}
	rar_op_publish(op, &sum, mask);
	return some_of(some.nth, mask);
}

/*
 * This rank has chunks of the partial sum before a stage: send those that it
 * gives away, and add the others, as far as they can go. Return: true if the
 * operation is complete.
 */
static bool advance(struct rar_member *m, struct rar_operation *op, u32 stage,
		    struct some some)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 first = rar_halving_first(st), n = rar_halving_stages(st), halving;
	struct rar_range gives;

	for (; some.mask && stage < first + n; stage++) {
		halving = stage - first;
		if (stage >= first) {
			gives = rar_halving_gives(&op->ring, halving);
			send_groups(m, op, stage, RAR_RS, gives,
				    rar_halving_partial(&op->ring, stage,
							gives.first), some);
			some = within(some, rar_halving_keeps(&op->ring,
							      halving + 1));
		}
		some = make(m, op, stage, some);
	}
	return hand_out(m, op, some, n);
}

/*
 * Its own contribution: a folded rank sends all of it, the others begin; what
 * is gathered is complete. Return: true if the operation is complete.
 */
static bool contribute(struct rar_member *m, struct rar_operation *op,
		       struct some some)
{
	const struct rar_stages *st = &op->ring.plan.stages;

	if (!op->ring.plan.scatters)
		return hand_out(m, op, some, rar_halving_stages(st));
	if (!st->odd)
		return advance(m, op, st->first, some);
	send_groups(m, op, 0, RAR_RS,
		    (struct rar_range) { .n = op->ring.cpb }, 0, some);
	return false;
}

/* The chunks of the tensor that this rank contributes. */
static struct rar_range given_of(const struct rar_ring *ring)
{
	u32 share = rar_halving_share(ring);

	if (ring->plan.scatters)
		return (struct rar_range) { .n = ring->cpb };
	return (struct rar_range) { ring->plan.share * share, share };
}

/**
 * rar_halving_begin() - this rank has contributed: begin with its first stage
 * @m:  member in RUN or LEAVING, RCU read side; no lock held
 * @op: by halving
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: true if the operation is complete, as only this rank was missing.
 */
bool rar_halving_begin(struct rar_member *m, struct rar_operation *op)
{
	struct rar_range given = given_of(&op->ring);
	u32 end = given.first + given.n;
	struct rar_run run = { .chunk = given.first };
	struct rar_link *link;
	bool complete = false;

	run.phase = op->ring.plan.scatters ? RAR_RS : RAR_AG;
	spin_lock_bh(&m->tx_lock);
	rar_each_partner(link, m)
		rar_peer_expect(link);
	spin_unlock_bh(&m->tx_lock);
	for (; run.chunk < end; run.chunk += run.n) {
		run.n = min(end - run.chunk, 64U);
		rar_op_publish(op, &run, rar_mask(run.n));
		complete |= contribute(m, op, some_of(run.chunk,
						      rar_mask(run.n)));
	}
	rar_send_partners(m);
	return complete;
}

/**
 * rar_halving_may_come() - may a run come now, and by this link?
 * @op: by halving
 * @a:  the run, which rar_op_check() found good
 *
 * No honest rank sends a sum of chunks before this rank has sent its part of
 * them, or has added to all of it. What is gathered may come at any time.
 */
bool rar_halving_may_come(const struct rar_operation *op,
			  const struct rar_arrival *a)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 n = a->run.n, chunk = a->run.chunk;
	u32 stage = rar_halving_stage_of(&op->ring, chunk, n);
	struct rar_run part = { .phase = RAR_RS };

	if (!rar_link_is_direct(a->link) || stage == RAR_NO_STAGE ||
	    a->link->rank != rar_halving_pair(&op->ring, stage).peer)
		return false;
	if (a->c.block || !op->ring.plan.scatters)
		return true;
	part.chunk = st->odd ? chunk :
			       rar_halving_partial(&op->ring, stage, chunk);
	return rar_op_published(op, &part, rar_mask(n)) == rar_mask(n);
}

/**
 * rar_halving_come() - go on with chunks that have come
 * @m:  member in RUN or LEAVING, RCU read side; no lock held
 * @op: by halving
 * @a:  the run; those of @won were published just now
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: true if the operation is complete.
 */
bool rar_halving_come(struct rar_member *m, struct rar_operation *op,
		      const struct rar_arrival *a)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 nth = rar_halving_nth(&op->ring, a->run.chunk);
	u32 stage = rar_halving_stage_of(&op->ring, a->run.chunk, a->run.n);
	struct some some = some_of(nth, a->won);
	bool complete;

	if (!a->c.block)
		complete = hand_out(m, op, some, st->odd ? 0 :
				    stage - rar_halving_first(st));
	else
		complete = advance(m, op, stage + 1, make(m, op, stage, some));
	rar_send_partners(m);
	return complete;
}

/* Must chunks still come from a rank? */
static bool lacks(const struct rar_operation *op, u32 rank)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	const unsigned long *claimed = op->claimed[RAR_AG];
	const struct rar_ring *ring = &op->ring;
	u32 first = rar_halving_first(st), s, chunk;
	struct rar_range keeps, gives;
	struct rar_stage stage;

	for (s = 0; s < st->n; s++) {
		stage = rar_halving_pair(ring, s);
		if (stage.peer != rank || !stage.takes)
			continue;
		/* All sums come to a folded rank, all contributions from it. */
		if (s < first || s >= first + rar_halving_stages(st)) {
			chunk = st->odd ? 0 : ring->cpb;
			return find_next_zero_bit(claimed, chunk + ring->cpb,
						  chunk) < chunk + ring->cpb;
		}
		gives = rar_halving_gives(ring, s - first);
		keeps = rar_halving_keeps(ring, s - first + 1);
		chunk = gives.first + gives.n;
		if (ring->plan.gathers &&
		    find_next_zero_bit(claimed, chunk, gives.first) < chunk)
			return true;
		if (!ring->plan.scatters)
			return false;
		chunk = rar_halving_arrival(ring, s, keeps.first);
		return find_next_zero_bit(claimed, chunk + keeps.n, chunk) <
		       chunk + keeps.n;
	}
	return false;
}

/**
 * rar_halving_waits() - does an operation wait for a peer?
 * @m:    member, RCU read side
 * @op:   by halving
 * @link: to the peer
 *
 * Return: true if chunks must still come from the peer, or it has not
 * acknowledged all that it gets.
 */
bool rar_halving_waits(struct rar_member *m, struct rar_operation *op,
		       struct rar_link *link)
{
	/* The links of the others have no part of the operation. */
	if (!(m->direct.partners & BIT(link->index - RAR_LINKS)))
		return false;
	if (atomic_read(&op->left) && lacks(op, link->rank))
		return true;
	return op->direct_sent && rar_link_owes(link, op);
}
