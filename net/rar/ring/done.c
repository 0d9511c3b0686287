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
	WRITE_ONCE(m->leg.done_us, rar_now_us());
}

/* Other ranks of a group with a box keep an operation until this rank has completed it. */
static void tell_done(struct rar_member *m)
{
	rar_ack_send(&m->link[RAR_PREV]);
	rar_ringed_tell(m);
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
	if (op->ring.plan.gathered)
		rar_gather_add(m, op);
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
