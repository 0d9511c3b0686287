// SPDX-License-Identifier: GPL-2.0
/*
 * Operations in memory of the user: until when the kernel reads and writes that memory.
 *
 * The list m->pinned holds the operations whose pages are not given back yet. Pages are given
 * back when recv() says that the operation is done, when a call or the owner's exit says that
 * the group failed, and before close() returns. From then on no page of the user is touched.
 */
#include "core/op.h"
#include "core/pin.h"
#include "rar.h"

/**
 * rar_pin_posted() - list a posted operation whose memory is the user's
 * @m: member, @m->lock held
 * @op:  operation
 */
void rar_pin_posted(struct rar_member *m, struct rar_operation *op)
{
	lockdep_assert_held(&m->lock);
	if (!op->pinned)
		return;
	refcount_inc(&op->ref);
	list_add_tail(&op->pin_node, &m->pinned);
}

static void give_back(struct rar_operation *op)
{
	rar_op_unpin(op);
	rar_op_put(op);
}

/**
 * rar_pin_done() - give back the pages of an operation that recv() delivers
 * @m: member
 * @op:  pinned and ready: nobody reads its memory
 *
 * Process context.
 */
void rar_pin_done(struct rar_member *m, struct rar_operation *op)
{
	bool listed;

	spin_lock_bh(&m->lock);
	listed = !list_empty(&op->pin_node);
	list_del_init(&op->pin_node);
	spin_unlock_bh(&m->lock);
	if (listed)
		give_back(op);
}

/* An operation that the successor may still need and only the user has; referenced. */
static struct rar_operation *find_needed(struct rar_member *m)
{
	struct rar_operation *op, *found = NULL;

	spin_lock_bh(&m->lock);
	list_for_each_entry(op, &m->pinned, pin_node)
		if (atomic_read(&op->users) && op->sums == &op->buf) {
			refcount_inc(&op->ref);
			found = op;
			break;
		}
	spin_unlock_bh(&m->lock);
	return found;
}

/**
 * rar_pin_keep() - copy what the successor needs to memory of the kernel
 * @m: member, idle, and no operation can be posted any more
 *
 * Process context. The caller calls rar_pin_end().
 *
 * Return: false if there is too little memory; then the caller ends the group.
 */
bool rar_pin_keep(struct rar_member *m)
{
	struct rar_operation *op;
	int err = 0;

	while (!err && rar_member_runs(m) && (op = find_needed(m))) {
		err = rar_op_keep(m, op);
		rar_op_put(op);
	}
	return !err;
}

static struct rar_operation *take_first(struct rar_member *m)
{
	struct rar_operation *op;

	spin_lock_bh(&m->lock);
	op = list_first_entry_or_null(&m->pinned, struct rar_operation, pin_node);
	if (op)
		list_del_init(&op->pin_node);
	spin_unlock_bh(&m->lock);
	return op;
}

/**
 * rar_pin_any() - does the kernel hold memory of the user?
 * @m: member, @m->lock held
 *
 * Return: true if it does.
 */
bool rar_pin_any(const struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	return !list_empty(&m->pinned);
}

/**
 * rar_pin_end() - give back all memory of the user
 * @m: member that failed, or that rar_pin_keep() has prepared
 *
 * Process context. A reader or writer that began before is in an RCU read side critical
 * section.
 */
void rar_pin_end(struct rar_member *m)
{
	struct rar_operation *op;
	bool any;

	spin_lock_bh(&m->lock);
	any = rar_pin_any(m);
	spin_unlock_bh(&m->lock);
	if (!any)
		return;
	synchronize_rcu();
	while ((op = take_first(m)))
		give_back(op);
}
