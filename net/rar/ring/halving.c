// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive halving and doubling: which chunks are added, and where sums go. A
 * reduce-scatter ends with the sums, and an all-gather begins with them. See
 * core/halving.h for the steps, and for the numbers that chunks have.
 *
 * Chunks go by direct links, with numbers, windows and acknowledgments as on
 * those of the ring. Each goes through the steps by itself, in softirq, on the
 * CPU that has the last thing that it waited for, as by doubling (doubling.c):
 *
 *	published, AG, an arrival	it came
 *	published, RS, an arrival	it is added to what this rank had: the
 *					partial sum before the next step
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

/* Those outside of it. */
static struct some without(struct some some, struct rar_range range)
{
	struct some in = within(some, range);

	if (!in.mask)
		return some;
	return some_of(some.nth, some.mask & ~(in.mask << (in.nth - some.nth)));
}

/* The chunks of two ranges. */
static struct rar_range both(struct rar_range a, struct rar_range b)
{
	u32 first = max(a.first, b.first);
	u32 end = min(a.first + a.n, b.first + b.n);

	return (struct rar_range) { first, end > first ? end - first : 0 };
}

/*
 * Send the chunks of a range to a rank, of which @some are there now. They go
 * in groups, each as soon as all of it is there: so a rank sends a single
 * packet in a step for a short range, and not as many as came. @chunk: the
 * number of the first one of the range.
 */
static void send_groups(struct rar_member *m, struct rar_operation *op,
			u32 rank, enum rar_phase phase, struct rar_range range,
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
			rar_out_pend_unsent(rar_member_direct(m, rank), op,
					    &group);
	}
	spin_unlock_bh(&m->tx_lock);
}

/*
 * Complete sums are in the buffer, or shares that are gathered: they go to the
 * ranks from which their parts came in the first @steps steps. In a
 * reduce-scatter they stay. Return: true if they were the last ones.
 */
static bool hand_out(struct rar_member *m, struct rar_operation *op,
		     struct some some, u32 steps)
{
	struct rar_step step;
	u32 i;

	if (!some.mask)
		return false;
	for (i = 0; i < steps && op->ring.plan.gathers; i++) {
		step = rar_halving_step(&op->ring, i);
		send_groups(m, op, step.from, RAR_AG, step.comes,
			    step.comes.first, some);
	}
	/* A full barrier; pairs with the barrier in rar_copy_out(). */
	return !atomic_sub_return(hweight64(some.mask), &op->left);
}

/*
 * Add chunks of @some, which are claimed: the sum of all ranks if @last. Those
 * of one share lie one after the other.
 */
static void add(struct rar_member *m, struct rar_operation *op, u32 step,
		struct some some, bool last)
{
	bool after = rar_halving_step(&op->ring, step).after;
	u32 own, in, sum, nth, n, at;
	u64 mask;

	for (mask = some.mask; mask; mask &= ~(rar_mask(n) << at)) {
		at = __ffs64(mask);
		nth = some.nth + at;
		n = min(rar_mask_run(mask >> at),
			rar_halving_share_end(&op->ring, nth) - nth);
		own = rar_halving_partial(&op->ring, step, nth);
		in = rar_halving_arrival(&op->ring, step, nth);
		sum = last ? nth : in;
		rar_gather_pair(m, op, sum, after ? own : in, after ? in : own,
				n, last);
	}
}

/*
 * Make the sums of a step of which both operands are there. @some: on one side.
 * Return: which were made here. Of the others an operand is not here yet, or
 * another CPU makes them.
 */
static struct some make(struct rar_member *m, struct rar_operation *op,
			u32 step, struct some some)
{
	bool last = rar_halving_ends(&op->ring, step);
	struct rar_run own = { .phase = RAR_RS }, in = { .phase = RAR_AG };
	struct rar_run sum = { .chunk = some.nth, .phase = RAR_AG };
	u64 mask = some.mask;

	if (!mask)
		return some;
	own.chunk = rar_halving_partial(&op->ring, step, some.nth);
	in.chunk = rar_halving_arrival(&op->ring, step, some.nth);
	mask = rar_op_published(op, &own, mask);
	mask = rar_op_published(op, &in, mask);
	mask = rar_bits_test_and_set(op->claimed[RAR_RS], in.chunk, mask);
	some.mask = mask;
	add(m, op, step, some, last);
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
 * This rank has chunks of the partial sum before a step, all on one side: send
 * those that it gives away. Return: the others.
 */
static struct some give(struct rar_member *m, struct rar_operation *op, u32 nr,
			const struct rar_step *step, struct some some)
{
	struct rar_range range = step->gives;

	if (!within(some, range).mask)
		return some;
	/* Later all of them have numbers that follow one another. */
	if (nr <= 1)
		range = both(range, rar_halving_side(&op->ring, some.nth));
	send_groups(m, op, step->to, RAR_RS, range,
		    rar_halving_partial(&op->ring, nr, range.first), some);
	return without(some, range);
}

/*
 * This rank has chunks of the partial sum before a step, all on one side. Send
 * those that it gives away, and add to the others what comes, as far as they
 * can go. Return: true if the operation is complete.
 */
static bool advance(struct rar_member *m, struct rar_operation *op, u32 nr,
		    struct some some)
{
	u32 n = op->ring.plan.halves.n;
	struct rar_step step;

	for (; some.mask && nr < n; nr++) {
		step = rar_halving_step(&op->ring, nr);
		some = give(m, op, nr, &step, some);
		/* Of one side, all that is left is added to, or nothing. */
		if (some.mask && rar_range_has(step.comes, some.nth))
			some = make(m, op, nr, some);
	}
	return hand_out(m, op, some, n);
}

/* Take off those on the side of the first one. Return: these. */
static struct some next_side(const struct rar_ring *ring, struct some *some)
{
	struct rar_range side = rar_halving_side(ring, some->nth);
	struct some all = *some;

	*some = without(all, side);
	return within(all, side);
}

/*
 * This rank has contributed chunks; what is gathered is complete. Return: true
 * if the operation is complete.
 */
static bool contribute(struct rar_member *m, struct rar_operation *op,
		       struct some some)
{
	bool complete = false;

	if (!op->ring.plan.scatters)
		return hand_out(m, op, some, op->ring.plan.halves.n);
	while (some.mask)
		complete |= advance(m, op, 0, next_side(&op->ring, &some));
	return complete;
}

/*
 * Chunks came in a step: they are added. Return: true if the operation is
 * complete.
 */
static bool take(struct rar_member *m, struct rar_operation *op, u32 step,
		 struct some some)
{
	bool complete = false;
	struct some side;

	while (some.mask) {
		side = next_side(&op->ring, &some);
		complete |= advance(m, op, step + 1, make(m, op, step, side));
	}
	return complete;
}

/**
 * rar_halving_begin() - this rank has contributed: begin with the first step
 * @m:  member in RUN or LEAVING, RCU read side; no lock held
 * @op: by halving
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: true if the operation is complete, as only this rank was missing.
 */
bool rar_halving_begin(struct rar_member *m, struct rar_operation *op)
{
	struct rar_range given = { .n = op->ring.cpb };
	struct rar_run run = { .phase = RAR_RS };
	struct rar_link *link;
	bool complete = false;
	u32 end;

	if (!op->ring.plan.scatters) {
		given = rar_halving_own(&op->ring);
		run.phase = RAR_AG;
	}
	run.chunk = given.first;
	end = given.first + given.n;
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

/* Has this rank made chunks of the partial sum before a step? */
static bool has_partial(const struct rar_operation *op, u32 step,
			struct some some)
{
	struct rar_run part = { .phase = RAR_RS };
	struct some side;

	while (some.mask) {
		side = next_side(&op->ring, &some);
		part.chunk = rar_halving_partial(&op->ring, step, side.nth);
		if (rar_op_published(op, &part, side.mask) != side.mask)
			return false;
	}
	return true;
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
	u32 chunk = a->run.chunk, n = a->run.n;

	if (!rar_link_is_direct(a->link) ||
	    a->link->rank != rar_halving_sender(&op->ring, chunk, n))
		return false;
	if (a->c.block || !op->ring.plan.scatters)
		return true;
	return has_partial(op, rar_halving_of(&op->ring, chunk, n),
			   some_of(chunk, rar_mask(n)));
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
	u32 step = rar_halving_of(&op->ring, a->run.chunk, a->run.n);
	struct some some = {
		.nth = rar_halving_nth(&op->ring, a->run.chunk),
	};
	bool complete;

	some = some_of(some.nth, a->won);
	complete = a->c.block ? take(m, op, step, some) :
				hand_out(m, op, some, step);
	rar_send_partners(m);
	return complete;
}

/* Must a chunk still come that has one of these numbers? */
static bool lacks_some(const struct rar_operation *op, u32 first, u32 n)
{
	return find_next_zero_bit(op->claimed[RAR_AG], first + n, first) <
	       first + n;
}

/* Must chunks still come from a rank? */
static bool lacks(const struct rar_operation *op, u32 rank)
{
	const struct rar_ring *ring = &op->ring;
	struct rar_step step;
	u32 i, first;

	for (i = 0; i < ring->plan.halves.n; i++) {
		step = rar_halving_step(ring, i);
		if (ring->plan.gathers && step.to == rank &&
		    lacks_some(op, step.gives.first, step.gives.n))
			return true;
		first = rar_halving_arrival(ring, i, step.comes.first);
		if (ring->plan.scatters && step.from == rank &&
		    lacks_some(op, first, step.comes.n))
			return true;
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
	if (!rar_link_is_partner(link))
		return false;
	if (atomic_read(&op->left) && lacks(op, link->rank))
		return true;
	return op->direct_sent && rar_link_owes(link, op);
}
