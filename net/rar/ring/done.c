// SPDX-License-Identifier: GPL-2.0
/*
 * The end of an operation: it is complete at this rank, then the user has read it.
 */
#include "core/arrival.h"
#include "core/gather.h"
#include "core/member.h"
#include "core/op.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/link.h"
#include "rar.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/ringed.h"

/* Count the operations that are complete with all before them. */
static void count_done(struct rar_member *m)
{
	const struct rar_operation *op;
	u64 done = m->op_next;

	lockdep_assert_held(&m->lock);
	list_for_each_entry(op, &m->undelivered, node)
		if (!op->complete) {
			done = op->seq;
			break;
		}
	WRITE_ONCE(m->ops_done, done);
	WRITE_ONCE(m->done_us, rar_now_us());
}

/* Other ranks of a group with a box keep an operation until this rank has completed it. */
static void tell_done(struct rar_member *m)
{
	rar_ack_send(m->link[RAR_PREV]);
	rar_ringed_tell_all(m);
	/* The timer asks the successor if it does not tell. */
	rar_member_kick(m, jiffies + rar_link_jiffies(LINK_PROBE_MIN_US));
}

/**
 * rar_done() - complete an operation whose chunks are all published
 * @m: member
 * @op:  operation
 *
 * Softirq, or process context with bottom halves off. RCU read side.
 */
void rar_done(struct rar_member *m, struct rar_operation *op)
{
	if (op->ring.plan.gathered && !op->ring.plan.doubling &&
	    !op->ring.plan.halving && !op->ring.plan.exact)
		rar_gather_add(m, op);
	if (op->ring.plan.gathered && op->pinned)
		rar_gather_end(op);
	spin_lock_bh(&m->lock);
	if (!list_empty(&op->node)) {
		op->complete = true;
		WRITE_ONCE(m->ops_complete, m->ops_complete + 1);
		count_done(m);
		rar_mib_inc(m->rn, OpsDone);
		if (m->shut && rar_member_idle(m)) {
			rar_member_leave(m, RAR_R_LEFT);
			rar_member_kick(m, jiffies);
		}
	}
	spin_unlock_bh(&m->lock);
	trace_rar_op(m, op->seq, op->bytes);
	if (op->ring.plan.direct)
		rar_direct_done(m, op);
	rar_link_release(m, op);
	rar_member_wake(m);
	if (op->ring.plan.aside)
		tell_done(m);
}

/* Claim what is claimed nowhere of an operation, and needs no addition. Return: chunks. */
static u32 claim_rest(struct rar_operation *op)
{
	struct rar_run run = { .phase = RAR_RS };
	u32 n = 0;
	u64 won;

	for (; run.chunk < op->ring.nchunks; run.chunk += run.n) {
		run.n = min(op->ring.nchunks - run.chunk, 64U);
		won = rar_op_claim(op, &run);
		rar_op_publish(op, &run, won);
		n += hweight64(won);
	}
	return n;
}

/*
 * Does a rank complete an operation when its successor has? It is a reduction to a root, in a group
 * with a box, where partial sums need not come here.
 */
static bool ends_with_next(const struct rar_operation *op)
{
	const struct rar_plan *plan = &op->ring.plan;

	return plan->aside && rar_plan_gets_none(plan) && rar_ring_need(&op->ring);
}

/**
 * rar_done_passed() - complete reductions to a root of which the successor needs nothing
 * @m: member of a group with a box, in RUN or LEAVING
 *
 * The successor is the root, and has the sum; or it has added to a partial sum with this rank's
 * contribution; or its own successor has told the same. What another CPU is adding at this moment
 * is counted there.
 *
 * Softirq, RCU read side; no lock held.
 */
void rar_done_passed(struct rar_member *m)
{
	u64 seq = READ_ONCE(m->ops_done), end;
	struct rar_operation *op;
	u32 n;

	/* Nothing is complete to which this rank has not contributed. */
	end = smp_load_acquire(&m->op_whole);
	end = min(end, READ_ONCE(m->link[RAR_NEXT]->tx.done));
	for (; seq < end; seq++) {
		op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
		if (!op || op->seq != seq || !ends_with_next(op) || !atomic_read(&op->left))
			continue;
		n = claim_rest(op);
		/* A full barrier, as in rar_link_published(). */
		if (n && !atomic_sub_return(n, &op->left))
			rar_done(m, op);
	}
}

/**
 * rar_done_lead() - count chunks of a lead, and let the rest begin when all are there
 * @m:  member
 * @op: operation, RCU read side
 * @a:  a run, whose new chunks are published
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_done_lead(struct rar_member *m, struct rar_operation *op, const struct rar_arrival *a)
{
	if (!rar_ring_leads(&op->ring, a->run.chunk) ||
	    !rar_plan_last(&op->ring.plan, a->run.phase, a->c.block) ||
	    !atomic_sub_and_test(hweight64(a->won), &op->lead.left))
		return;
	/* If the group has failed meanwhile, nobody may hold a reference any more. */
	if (!refcount_inc_not_zero(&op->ref))
		return;
	if (!refcount_inc_not_zero(&m->ref)) {
		rar_op_put(op);
		return;
	}
	op->lead.member = m;
	rar_op_queue(&op->lead.work);
}

/**
 * rar_done_delivered() - give up an operation that the user has read to its end
 * @m: member
 * @op:  complete; the reference of the list of undelivered operations is dropped
 */
void rar_done_delivered(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->lock);
	list_del_init(&op->node);
	m->nundelivered--;
	m->ops_delivered = op->seq + 1;
	spin_unlock_bh(&m->lock);
	rar_member_wake(m);
	rar_op_put(op);
}
