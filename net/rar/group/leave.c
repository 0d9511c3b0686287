// SPDX-License-Identifier: GPL-2.0
/*
 * Leaving: a member that posts nothing more tells both neighbours (FIN), and they pass the
 * notice on. A closed member serves its successor as an orphan until its operations are
 * released, then answers as a tombstone for a while.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/user_namespace.h>

#include "core/event.h"
#include "core/member.h"
#include "core/op.h"
#include "core/pin.h"
#include "core/user.h"
#include "group/leave.h"
#include "group/life.h"
#include "group/watch.h"
#include "link/early.h"
#include "link/link.h"
#include "rar.h"
#include "ring/ask.h"
#include "ring/direct.h"
#include "ring/fail.h"
#include "ring/ringed.h"
#include "tx/control.h"

/* The maker of a user namespace may keep nothing longer than the initial namespace would. */
static u32 bounded_ms(const struct rar_net *rn, int own, int host)
{
	return rn->net->user_ns == &init_user_ns ? own : min(own, host);
}

/* The longest time a closed member may serve its neighbours, ms. */
static u32 linger_ms(const struct rar_net *rn)
{
	return bounded_ms(rn, READ_ONCE(rn->sysctl_linger_ms),
			 READ_ONCE(rar_net(&init_net)->sysctl_linger_ms));
}

/* The time a tombstone answers, ms. */
static u32 tombstone_ms(const struct rar_net *rn)
{
	return 2 * bounded_ms(rn, READ_ONCE(rn->sysctl_dead_ms),
			     READ_ONCE(rar_net(&init_net)->sysctl_dead_ms));
}

/**
 * rar_leave_shutdown() - accept no more operations, and leave after those posted
 * @m: member
 */
void rar_leave_shutdown(struct rar_member *m)
{
	spin_lock_bh(&m->lock);
	m->shut = true;
	if (m->state == RAR_S_RUN && rar_member_idle(m))
		rar_member_leave(m, RAR_R_LEFT);
	spin_unlock_bh(&m->lock);
	rar_member_kick(m, jiffies);
	rar_member_wake(m);
}

static void drop_undelivered(struct rar_member *m)
{
	struct rar_operation *op, *tmp;

	spin_lock_bh(&m->lock);
	list_for_each_entry_safe(op, tmp, &m->undelivered, node) {
		list_del_init(&op->node);
		m->nundelivered--;
		rar_op_put(op);
	}
	spin_unlock_bh(&m->lock);
}

/* The kernel's bytes of the operations that the successor may still need. */
static u64 needed_bytes(struct rar_member *m)
{
	struct rar_operation *op;
	u64 bytes = 0;
	int i;

	spin_lock_bh(&m->tx_lock);
	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = rcu_dereference_protected(m->ops[i],
					       lockdep_is_held(&m->tx_lock));
		bytes += op ? op->room : 0;
	}
	spin_unlock_bh(&m->tx_lock);
	return bytes;
}

/* Go on without the socket. Returns false if there is too little memory for that. */
static bool become_orphan(struct rar_member *m)
{
	u64 bytes;

	if (!rar_pin_keep(m))
		return false;
	bytes = needed_bytes(m);
	if (!rar_user_orphan(m->user, bytes))
		return false;
	spin_lock_bh(&m->lock);
	m->leave.orphan_bytes = bytes;
	spin_unlock_bh(&m->lock);
	return true;
}

/* Make a tombstone. It needs no memory except its own, and ends with the module. */
static void bury(struct rar_member *m)
{
	struct rar_row *table;

	rar_ringed_leave_all(m);
	rar_link_bury(m);
	rar_life_forget(m);
	spin_lock_bh(&m->lock);
	m->tombstone = true;
	table = m->join.table;
	m->join.table = NULL;
	spin_unlock_bh(&m->lock);
	rar_early_flush(m);
	kvfree(table);
	rar_member_let_go(m);
}

/* End a member without a ring, and tell the neighbours it found. True if it had no ring. */
static bool close_unjoined(struct rar_member *m)
{
	struct rar_error bye = { .err = ECONNRESET, .reason = RAR_R_CLOSED,
				 .rank = m->rank, .other = m->rank };
	struct rar_bye to = { };
	bool ends;

	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_JOINING || m->state == RAR_S_READY)
		rar_fail_join(m, &to);
	ends = m->state == RAR_S_BOUND || m->size == 1;
	spin_unlock_bh(&m->lock);

	rar_fail_tell_join(m, &to, &bye);
	return ends;
}

/*
 * Leave an orphan or a tombstone of a member in an epoch. An orphan serves its successor
 * from memory of the kernel: the user gets its own memory back.
 */
static void close_running(struct rar_member *m)
{
	bool dying = current->flags & PF_EXITING, failed;
	u32 wait;

	if (!rar_member_idle(m) || !become_orphan(m))
		rar_fail_pair(m, ECONNRESET,
			      dying ? RAR_R_DIED : RAR_R_CLOSED, m->rank,
			      m->rank, m->ops_complete);
	spin_lock_bh(&m->lock);
	/* After shutdown() this changes nothing, since the member left already. */
	rar_member_leave(m, dying ? RAR_R_DIED : RAR_R_LEFT);
	failed = m->state == RAR_S_FAILED;
	wait = failed ? tombstone_ms(m->rn) : linger_ms(m->rn);
	m->leave.expires = jiffies + msecs_to_jiffies(wait);
	spin_unlock_bh(&m->lock);
	if (failed)
		bury(m);
	else
		rar_member_hold_module(m);
}

/**
 * rar_leave_release() - close a member whose socket is gone
 * @m: member; the socket's reference is dropped
 *
 * Process context.
 */
void rar_leave_release(struct rar_member *m)
{
	bool joined, ends;

	WRITE_ONCE(m->shut, true);
	rar_early_flush(m);
	joined = rar_member_state(m) >= RAR_S_RUN;
	ends = close_unjoined(m);
	if (!ends)
		close_running(m);
	rar_pin_end(m);
	rar_watch_owner(m, NULL);
	rar_life_detach(m);
	drop_undelivered(m);
	if (joined)
		rar_event_send(m, RAR_EVENT_ENDED, NULL);
	if (ends)
		rar_life_end(m);
	else
		rar_member_kick(m, jiffies);
	rar_member_put(m);
}

/* The reason of a FIN. */
static enum rar_reason why_left(const struct rar_error *fin)
{
	return fin->reason == RAR_R_DIED ? RAR_R_DIED : RAR_R_LEFT;
}

/* Note that a rank left. Its notice came by @link and goes on to the other neighbours. */
static void rank_left(struct rar_link *link, const struct rar_error *fin)
{
	struct rar_member *m = link->member;
	struct rar_leave *leave = &m->leave;
	struct rar_link *other;

	leave->left = true;
	leave->rank = fin->rank;
	leave->why = why_left(fin);
	leave->last = fin->op_seq;
	rar_each_link(other, m) leave->fin_due[other->index] =
		other != link && other->rank != fin->rank &&
		rar_link_to_rank(other);
	leave->fin_next = jiffies;
}

/* A member left, or its process exited, after all operations that it had posted were complete. */
void rar_leave_rcv_fin(struct rar_link *link, const struct rar_error *fin)
{
	struct rar_member *m = link->member;
	struct rar_link *other;
	bool late;

	rar_control_notice(link, RAR_T_FIN_ACK, m->epoch, fin);
	spin_lock_bh(&m->lock);
	rar_each_link(other, m)
		if (fin->rank == other->rank)
			m->leave.gone[other->index] = true;
	if (!m->leave.left && fin->rank != m->rank)
		rank_left(link, fin);
	rar_direct_left(m, fin->rank, fin->op_seq);
	late = fin->rank != m->rank && m->op_next > fin->op_seq;
	spin_unlock_bh(&m->lock);
	if (late)
		rar_fail_pair(m, ECONNRESET, why_left(fin), fin->rank,
			      fin->rank, fin->op_seq);
	rar_member_kick(m, jiffies);
	rar_member_wake(m);
}

/* A neighbour knows of the FIN. With two members both links lead to it. */
void rar_leave_rcv_fin_ack(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_link *other;

	rar_each_link(other, m)
		if (other->rank == link->rank)
			m->leave.fin_due[other->index] = false;
}

/* Send the FINs that are due. Returns true when all neighbours know. */
bool rar_leave_tick(struct rar_member *m)
{
	struct rar_leave *leave = &m->leave;
	struct rar_error fin = { .reason = leave->why,
				 .rank = leave->rank,
				 .other = leave->rank,
				 .op_seq = leave->last };
	struct rar_link *link;

	if (!memchr_inv(leave->fin_due, 0, sizeof(leave->fin_due)))
		return true;
	if (time_before(jiffies, leave->fin_next))
		return false;
	leave->fin_next = jiffies + msecs_to_jiffies(50);
	rar_each_link(link, m)
		if (leave->fin_due[link->index])
			rar_control_notice(link, RAR_T_FIN, m->epoch, &fin);
	return false;
}

/* Has the neighbour been silent for so long that it needs and hears nothing any more? */
static bool silent(const struct rar_link *link)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(link->member->rn->sysctl_dead_ms));

	return time_after_eq(jiffies, READ_ONCE(link->heard) + dead);
}

/* Does a rank that answers, neighbour or not, still need chunks that go to it directly? */
static bool needs_direct(struct rar_member *m)
{
	const struct rar_operation *op;
	bool any = false;
	u32 i, rank, ms;

	if (rar_ask_silent(m, &rank, &ms))
		return false;
	rcu_read_lock();
	for (i = 0; i < RAR_MAX_OPS && !any; i++) {
		op = rcu_dereference(m->ops[i]);
		any = op && (READ_ONCE(op->peers) || op->ring.plan.halving);
	}
	rcu_read_unlock();
	return any;
}

/* Does another rank still need chunks? */
static bool needs_chunks(struct rar_member *m)
{
	struct rar_link *link;

	if (rar_member_is_first(m))
		return false;
	if (needs_direct(m))
		return true;
	rar_links_of(link, m, 0, RAR_OUTS)
		if (rar_link_to_rank(link) && !silent(link))
			return true;
	return false;
}

/* Does a neighbour still need a notice that this rank has left? */
static bool needs_notice(const struct rar_member *m)
{
	struct rar_link *link;

	/* A failed member has nothing more to tell. */
	if (READ_ONCE(m->state) == RAR_S_FAILED)
		return false;
	rar_each_link(link, m)
		if (READ_ONCE(m->leave.fin_due[link->index]) && !silent(link))
			return true;
	return false;
}

/* A neighbour was silent for so long that it is given up. If it lives, it must not wait. */
static void give_up(struct rar_member *m)
{
	enum rar_reason why = m->leave.rank == m->rank && m->leave.why == RAR_R_DIED ?
			      RAR_R_DIED : RAR_R_CLOSED;

	rar_fail_pair(m, ECONNRESET, why, m->rank, m->rank, READ_ONCE(m->op_oldest));
}

/* Turn an orphan that no rank needs into a tombstone, and end one that has expired. */
void rar_leave_check_orphan(struct rar_member *m)
{
	/* Pairs with the release in rar_life_detach(): @expires is set. */
	if (smp_load_acquire(&m->sk))
		return;
	if (time_after_eq(jiffies, m->leave.expires)) {
		rar_life_end(m);
		return;
	}
	if (m->tombstone || needs_chunks(m) || needs_notice(m))
		return;
	if (!rar_member_is_first(m))
		give_up(m);
	m->leave.expires = jiffies + msecs_to_jiffies(tombstone_ms(m->rn));
	bury(m);
}
