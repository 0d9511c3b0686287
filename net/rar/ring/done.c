// SPDX-License-Identifier: GPL-2.0
/*
 * The end of an operation: it is complete at this rank, then the user has read it.
 */
#include "core/member.h"
#include "core/op.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/link.h"
#include "rar.h"
#include "ring/done.h"

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
	rar_ack_tell_box(m);
	/* The timer asks the successor if it does not tell. */
	rar_member_kick(m, jiffies + rar_link_jiffies(LINK_PROBE_MIN_US));
}

/**
 * rar_done() - complete an operation whose chunks are all published
 * @m: member
 * @op:  operation
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_done(struct rar_member *m, struct rar_operation *op)
{
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
	trace_rar_op(m, op->seq, op->ring.bytes);
	rar_link_release(&m->link[RAR_NEXT], op);
	rar_member_wake(m);
	if (op->ring.plan.box)
		tell_done(m);
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
	spin_unlock_bh(&m->lock);
	rar_member_wake(m);
	rar_op_put(op);
}
