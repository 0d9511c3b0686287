// SPDX-License-Identifier: GPL-2.0
/*
 * Leaving: a member that posts nothing more tells both neighbours (FIN), and
 * they pass it on. A closed one serves its successor as an orphan until its
 * operations are released, then answers as a tombstone for a while.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include "rar.h"
#include "user.h"

/* Start to tell both neighbours that this rank posts nothing more, and @why. */
static void leave_because(struct rar_group *grp, enum rar_reason why)
{
	lockdep_assert_held(&grp->lock);
	if (grp->state != RAR_S_RUN)
		return;
	rar_group_set_state(grp, RAR_S_LEAVING);
	if (grp->left || grp->size == 1)
		return;
	grp->left = true;
	grp->left_rank = grp->rank;
	grp->left_why = why;
	grp->left_last = grp->op_next;
	grp->fin_due[RAR_NEXT] = true;
	grp->fin_due[RAR_PREV] = true;
	grp->fin_next = jiffies;
}

/* Leave by the user's own will: close() or shutdown(). */
void rar_leave_start(struct rar_group *grp)
{
	leave_because(grp, RAR_R_LEFT);
}

/**
 * rar_leave_shutdown() - no more operations; leave after those posted
 * @grp: group
 */
void rar_leave_shutdown(struct rar_group *grp)
{
	spin_lock_bh(&grp->lock);
	grp->shut = true;
	if (grp->state == RAR_S_RUN && rar_group_idle(grp))
		rar_leave_start(grp);
	spin_unlock_bh(&grp->lock);
	rar_group_kick(grp, jiffies);
	rar_group_wake(grp);
}

static void drop_undelivered(struct rar_group *grp)
{
	struct rar_operation *op, *tmp;

	spin_lock_bh(&grp->lock);
	list_for_each_entry_safe(op, tmp, &grp->undelivered, node) {
		list_del_init(&op->node);
		grp->nundelivered--;
		rar_op_put(op);
	}
	spin_unlock_bh(&grp->lock);
}

/* Bytes of the operations that the successor may still need. */
static u64 needed_bytes(struct rar_group *grp)
{
	struct rar_operation *op;
	u64 bytes = 0;
	int i;

	spin_lock_bh(&grp->tx.lock);
	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = rcu_dereference_protected(grp->ops[i],
					       lockdep_is_held(&grp->tx.lock));
		bytes += op ? op->bytes : 0;
	}
	spin_unlock_bh(&grp->tx.lock);
	return bytes;
}

/* Go on without the socket? Return: false if there is too little memory for that. */
static bool become_orphan(struct rar_group *grp)
{
	u64 bytes;

	if (!rar_pin_keep(grp))
		return false;
	bytes = needed_bytes(grp);
	if (!rar_user_orphan(grp->user, bytes))
		return false;
	spin_lock_bh(&grp->lock);
	grp->orphan_bytes = bytes;
	spin_unlock_bh(&grp->lock);
	return true;
}

/**
 * rar_leave_forget() - a member has no operations any more that others need
 * @grp: group
 *
 * Any context.
 */
void rar_leave_forget(struct rar_group *grp)
{
	u64 bytes;

	spin_lock_bh(&grp->lock);
	bytes = grp->orphan_bytes;
	grp->orphan_bytes = 0;
	spin_unlock_bh(&grp->lock);
	rar_user_orphan_end(grp->user, bytes);
}

/* A tombstone needs no memory but its own, and ends with the module. */
static void bury(struct rar_group *grp)
{
	struct rar_member *members;

	rar_link_bury(grp);
	rar_leave_forget(grp);
	spin_lock_bh(&grp->lock);
	grp->tombstone = true;
	members = grp->join.members;
	grp->join.members = NULL;
	spin_unlock_bh(&grp->lock);
	rar_early_flush(grp);
	kvfree(members);
	rar_group_let_go(grp);
}

/* A member without a ring ends here: true. Neighbours it found are told. */
static bool close_unjoined(struct rar_group *grp)
{
	struct rar_error bye = { .err = ECONNRESET, .reason = RAR_R_CLOSED,
				 .rank = grp->rank, .other = grp->rank };
	u64 nonce[RAR_DIRS] = {};
	bool ends;
	int dir;

	spin_lock_bh(&grp->lock);
	if (grp->state == RAR_S_JOINING || grp->state == RAR_S_READY)
		rar_join_reset(grp, nonce);
	ends = grp->state == RAR_S_BOUND || grp->size == 1;
	spin_unlock_bh(&grp->lock);

	for (dir = 0; dir < RAR_DIRS; dir++)
		if (nonce[dir])
			rar_output_notice(grp, dir, RAR_T_ABORT, nonce[dir],
					  &bye);
	return ends;
}

/*
 * What remains of a member in an epoch: an orphan, or a tombstone. An orphan serves its
 * successor from memory of the kernel: the user's is the user's again.
 */
static void close_running(struct rar_group *grp)
{
	bool dying = current->flags & PF_EXITING, failed;
	u32 wait;

	if (!rar_group_idle(grp) || !become_orphan(grp))
		rar_fail_pair(grp, ECONNRESET,
			      dying ? RAR_R_DIED : RAR_R_CLOSED, grp->rank,
			      grp->rank, grp->ops_complete);
	spin_lock_bh(&grp->lock);
	/* After shutdown() this changes nothing: it left by itself. */
	leave_because(grp, dying ? RAR_R_DIED : RAR_R_LEFT);
	failed = grp->state == RAR_S_FAILED;
	wait = failed ? rar_sysctl_tombstone_ms(grp->rn) : rar_sysctl_linger_ms(grp->rn);
	grp->expires = jiffies + msecs_to_jiffies(wait);
	spin_unlock_bh(&grp->lock);
	if (failed)
		bury(grp);
	else
		rar_group_hold_module(grp);
}

/**
 * rar_leave_release() - the socket is gone
 * @grp: group; the socket's reference is dropped
 *
 * Process context.
 */
void rar_leave_release(struct rar_group *grp)
{
	bool ends;

	WRITE_ONCE(grp->shut, true);
	rar_early_flush(grp);
	ends = close_unjoined(grp);
	if (!ends)
		close_running(grp);
	rar_pin_end(grp);
	rar_fail_set_owner(grp, NULL);
	rar_group_detach(grp);
	drop_undelivered(grp);
	if (ends)
		rar_group_unhash(grp);
	else
		rar_group_kick(grp, jiffies);
	rar_group_put(grp);
}

/* Members of earlier versions give no reason. */
static enum rar_reason why_left(const struct rar_error *fin)
{
	return fin->reason == RAR_R_DIED ? RAR_R_DIED : RAR_R_LEFT;
}

/*
 * A member left, or its process exited, with all complete that it had posted: the news
 * comes from @dir and goes on to the other neighbour.
 */
void rar_leave_rcv_fin(struct rar_group *grp, const struct rar_error *fin,
		       enum rar_dir dir)
{
	bool late, told_both;

	rar_output_notice(grp, dir, RAR_T_FIN_ACK, grp->epoch, fin);
	spin_lock_bh(&grp->lock);
	if (fin->rank == rar_group_rank(grp, RAR_NEXT))
		grp->gone[RAR_NEXT] = true;
	if (fin->rank == rar_group_rank(grp, RAR_PREV))
		grp->gone[RAR_PREV] = true;
	if (!grp->left && fin->rank != grp->rank) {
		told_both = fin->rank == rar_group_rank(grp, !dir);
		grp->left = true;
		grp->left_rank = fin->rank;
		grp->left_why = why_left(fin);
		grp->left_last = fin->op_seq;
		grp->fin_due[!dir] = !told_both;
		grp->fin_next = jiffies;
	}
	late = fin->rank != grp->rank && grp->op_next > fin->op_seq;
	spin_unlock_bh(&grp->lock);
	if (late)
		rar_fail_pair(grp, ECONNRESET, why_left(fin), fin->rank,
			      fin->rank, fin->op_seq);
	rar_group_kick(grp, jiffies);
	rar_group_wake(grp);
}

/* The neighbour in @dir knows. With two members both links lead to it. */
void rar_leave_rcv_fin_ack(struct rar_group *grp, enum rar_dir dir)
{
	grp->fin_due[dir] = false;
	if (grp->size == 2)
		grp->fin_due[!dir] = false;
}

/* Send what is due of FIN; true when both neighbours know. */
bool rar_leave_tick(struct rar_group *grp)
{
	struct rar_error fin = { .reason = grp->left_why,
				 .rank = grp->left_rank,
				 .other = grp->left_rank,
				 .op_seq = grp->left_last };
	int dir;

	if (!grp->fin_due[RAR_NEXT] && !grp->fin_due[RAR_PREV])
		return true;
	if (time_before(jiffies, grp->fin_next))
		return false;
	grp->fin_next = jiffies + msecs_to_jiffies(50);
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (grp->fin_due[dir])
			rar_output_notice(grp, dir, RAR_T_FIN, grp->epoch,
					  &fin);
	return false;
}

/* A neighbour that is silent for so long needs nothing any more, and hears nothing. */
static bool silent(const struct rar_group *grp, enum rar_dir dir)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(grp->rn->sysctl_dead_ms));

	return time_after_eq(jiffies, READ_ONCE(grp->heard[dir]) + dead);
}

/* Does a neighbour still need chunks, or to be told that this rank has left? */
static bool needed(const struct rar_group *grp)
{
	int dir;

	if (READ_ONCE(grp->op_oldest) != READ_ONCE(grp->op_next) && !silent(grp, RAR_NEXT))
		return true;
	/* Who failed is told nothing any more. */
	if (READ_ONCE(grp->state) == RAR_S_FAILED)
		return false;
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (READ_ONCE(grp->fin_due[dir]) && !silent(grp, dir))
			return true;
	return false;
}

/* An orphan that nobody needs becomes a tombstone, and that ends. */
void rar_leave_check_orphan(struct rar_group *grp)
{
	/* Pairs with the release in rar_group_detach(): @expires is set. */
	if (smp_load_acquire(&grp->sk))
		return;
	if (time_after_eq(jiffies, grp->expires)) {
		rar_group_unhash(grp);
		return;
	}
	if (grp->tombstone || needed(grp))
		return;
	grp->expires = jiffies + msecs_to_jiffies(rar_sysctl_tombstone_ms(grp->rn));
	bury(grp);
}
