// SPDX-License-Identifier: GPL-2.0
/*
 * The straggler: which rank kept the others waiting for longest. Each rank measures how
 * long it has kept the others waiting: from hearing that a rank has posted an operation
 * until it has contributed to it. ACKs and PROBEs carry two facts both ways round the ring:
 * how many operations the foremost rank has posted, and the largest waiting time with its
 * rank. So every rank can name the straggler while the job runs, without a common clock.
 */
#include "link/straggler.h"
#include "rar.h"

#define SLOW_NONE	0xffff	/* on the wire: no rank was slow */

/* A new epoch begins: no rank kept the others waiting. @m->lock held. */
void rar_straggler_start(struct rar_member *m)
{
	spin_lock(&m->tx_lock);
	memset(&m->straggler, 0, sizeof(m->straggler));
	m->straggler.rank = RAR_NO_RANK;
	spin_unlock(&m->tx_lock);
}

static u32 own_ms(const struct rar_straggler *slow, u64 now)
{
	u64 us = slow->own_us;

	if (slow->since_us)
		us += now - slow->since_us;
	return min_t(u64, div_u64(us, USEC_PER_MSEC), U32_MAX);
}

/* Keep the larger total and its rank. */
static void compare(struct rar_member *m, u32 rank, u32 ms)
{
	struct rar_straggler *slow = &m->straggler;

	if (ms <= slow->ms || rank >= m->size)
		return;
	slow->rank = rank;
	slow->ms = ms;
}

/*
 * Operations to which this rank has contributed in full, or of which it has contributed the
 * lead: then it waits for the leads of others. tx_lock.
 */
static u64 posted(const struct rar_member *m)
{
	u64 whole = m->op_whole;
	const struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[whole % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	return whole + (m->op_come && op && op->seq == whole && op->ring.lead);
}

/**
 * rar_straggler_posted() - count an operation that was posted here
 * @m: member, tx_lock held; op_whole or op_come counts it
 * @now: us
 */
void rar_straggler_posted(struct rar_member *m, u64 now)
{
	struct rar_straggler *slow = &m->straggler;

	lockdep_assert_held(&m->tx_lock);
	if (slow->since_us) {
		slow->own_us += now - slow->since_us;
		slow->since_us = slow->wanted > posted(m) ? now : 0;
	}
	slow->wanted = max(slow->wanted, posted(m));
}

/**
 * rar_straggler_hear() - take in what a neighbour's ACK or PROBE says
 * @m: member, tx_lock held
 * @w:   the straggler as the neighbour knows it
 * @now: us
 */
void rar_straggler_hear(struct rar_member *m, const struct rar_slow_wire *w,
			u64 now)
{
	struct rar_straggler *slow = &m->straggler;
	u64 wanted = be64_to_cpu(w->wanted);

	lockdep_assert_held(&m->tx_lock);
	/* No rank is further ahead than the table of operations is long. */
	if (wanted > slow->wanted && wanted <= m->op_whole + RAR_MAX_OPS) {
		slow->wanted = wanted;
		if (wanted > posted(m) && !slow->since_us)
			slow->since_us = now;
	}
	compare(m, be16_to_cpu(w->rank), be32_to_cpu(w->ms));
}

/**
 * rar_straggler_tell() - fill in the straggler for a neighbour or for the user
 * @m: member, tx_lock held
 * @w:   to fill
 * @now: us
 */
void rar_straggler_tell(struct rar_member *m, struct rar_slow_wire *w, u64 now)
{
	struct rar_straggler *slow = &m->straggler;

	lockdep_assert_held(&m->tx_lock);
	compare(m, m->rank, own_ms(slow, now));
	w->wanted = cpu_to_be64(slow->wanted);
	w->ms = cpu_to_be32(slow->ms);
	w->rank = cpu_to_be16(slow->rank == RAR_NO_RANK ? SLOW_NONE :
							  slow->rank);
}
