// SPDX-License-Identifier: GPL-2.0
/*
 * A member's counters, written to a page that the user has mapped.
 */
#include "core/counters.h"
#include "core/op.h"
#include "rar.h"

/* The first operation whose result recv() would have to wait for. */
static u64 first_not_ready(const struct rar_member *m)
{
	const struct rar_operation *op;
	u64 ready = m->ops_delivered;

	list_for_each_entry(op, &m->undelivered, node) {
		if (!rar_op_deliverable(op))
			break;
		ready = op->seq + 1;
	}
	return ready;
}

/**
 * rar_counters_update() - write what has changed to the page
 * @m: member, @m->lock held
 *
 * Any context. Readers in user space take no lock: each value is written at once, and the
 * values that they act on last, with a release.
 */
void rar_counters_update(struct rar_member *m)
{
	struct rar_counters *page = m->counters;

	lockdep_assert_held(&m->lock);
	if (!page)
		return;
	WRITE_ONCE(page->posted, m->op_next);
	WRITE_ONCE(page->complete, m->ops_complete);
	WRITE_ONCE(page->delivered, m->ops_delivered);
	/* The sums are in the user's memory before the user sees this. */
	smp_store_release(&page->ready, first_not_ready(m));
	if (m->state == RAR_S_FAILED && !m->hushed)
		/* What was ready before the failure is counted before it. */
		smp_store_release(&page->error, m->error.err);
}

/**
 * rar_counters_show() - let a member write to its socket's page
 * @m:    member
 * @page: the page, which no other member writes to; NULL: to no page any more
 *
 * Process context. After the call the member does not use the page that it had before.
 */
void rar_counters_show(struct rar_member *m, struct rar_counters *page)
{
	spin_lock_bh(&m->lock);
	m->counters = page;
	if (page) {
		WRITE_ONCE(page->error, 0);
		rar_counters_update(m);
		/* A reader that sees the new member sees its counters. */
		smp_store_release(&page->members, page->members + 1);
	}
	spin_unlock_bh(&m->lock);
}
