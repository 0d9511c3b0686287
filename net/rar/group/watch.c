// SPDX-License-Identifier: GPL-2.0
/*
 * What ends a running group from this rank: a silent neighbour, an overdue operation, or the
 * exit of the owner.
 */
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "core/keyed.h"
#include "core/member.h"
#include "core/pin.h"
#include "group/stood.h"
#include "group/watch.h"
#include "link/rail.h"
#include "rar.h"
#include "ring/ask.h"
#include "ring/direct.h"
#include "ring/fail.h"
#include "tx/control.h"

/* Does an operation that is not released depend on a neighbour? */
static bool op_needs(struct rar_operation *op, const struct rar_link *link)
{
	/*
	 * Ranks that need nothing of one another may leave while a third one
	 * waits for others.
	 */
	if (op->keyed || op->ring.plan.direct)
		return rar_direct_concerns(link->member, op, link->rank);
	return link->index < RAR_OUTS || atomic_read(&op->left);
}

/* Does any posted operation still depend on a neighbour? */
static bool needs(struct rar_member *m, const struct rar_link *link)
{
	struct rar_operation *op;
	bool any = false;
	u32 i;

	rcu_read_lock();
	for (i = 0; i < RAR_MAX_OPS && !any; i++) {
		op = rcu_dereference(m->ops[i]);
		any = op && op_needs(op, link);
	}
	rcu_read_unlock();
	return any;
}

/* Fail the group if a neighbour has been silent for too long. */
static void check_silence(struct rar_member *m)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(m->rn->sysctl_dead_ms));
	struct rar_error err = { .err = ECONNRESET, .reason = RAR_R_SILENT };
	struct rar_link *link;
	unsigned long heard;
	u32 other;

	if (!m->sk || rar_member_is_over(m))
		return;
	rar_each_link(link, m) {
		heard = READ_ONCE(link->heard);
		/* Once a rank has left, the others leave without a notice of their own. */
		if (!rar_link_to_rank(link) ||
		    (m->leave.left && !needs(m, link)) ||
		    time_before(jiffies, heard + dead))
			continue;
		other = link->rank;
		err.rank = other;
		err.other = m->rank;
		/* Not the neighbour's fault but ours: name both ends of the link. */
		if (rar_rail_cut_off(link)) {
			err.reason = RAR_R_NODEV;
			err.rank = m->rank;
			err.other = other;
		}
		err.silent_ms = jiffies_to_msecs(jiffies - heard);
		if (time_before_eq(heard, READ_ONCE(m->stood.at)))
			rar_stood_own(m, other, &err);
		rar_fail(m, &err);
		return;
	}
	if (rar_ask_silent(m, &err.rank, &err.silent_ms)) {
		err.other = m->rank;
		rar_stood_own(m, err.rank, &err);
		rar_fail(m, &err);
	}
}

/*
 * Has a rank done what it can for operation @seq, if it has contributed @whole operations and
 * @come chunks of each block of the next one? A rank that has contributed the lead waits for
 * the leads of others. All ranks have the same operations, so this rank knows whether there
 * is a lead.
 */
static bool has_posted(struct rar_member *m, u64 whole, u32 come, u64 seq)
{
	const struct rar_operation *op;
	bool leads;

	rcu_read_lock();
	op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	leads = op && op->seq == seq && op->ring.lead;
	rcu_read_unlock();
	return seq < whole || (seq == whole && come && leads);
}

/*
 * Does an operation wait for a single rank: the root, which sends it directly; or at the root of a
 * keyed reduction a rank whose stream has not ended? By a tree it may also wait
 * for a rank that is to pass it on.
 */
static bool waits_for_one(struct rar_member *m, u64 seq, u32 *rank)
{
	const struct rar_operation *op;
	u32 peers;
	bool does;

	rcu_read_lock();
	op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	does = op && op->seq == seq && op->ring.plan.direct &&
	       !op->ring.plan.gathered && !op->ring.plan.tree;
	if (does) {
		*rank = op->fingerprint.root;
		peers = READ_ONCE(op->peers);
		if (op->keyed && op->keyed->is_root && peers)
			*rank = __ffs(peers);
	}
	rcu_read_unlock();
	return does;
}

/*
 * Operation @seq is overdue at rank @origin: name the first rank after it that has not
 * contributed. A rank knows that of itself, and of its successor from ACKs. If both have
 * contributed, the question goes on round the ring.
 */
void rar_watch_ask(struct rar_member *m, u64 seq, u32 origin)
{
	const struct rar_link_tx *tx = &m->link[RAR_NEXT]->tx;
	u32 next = m->link[RAR_NEXT]->rank;
	struct rar_error ask = { .err = ETIMEDOUT, .reason = RAR_R_TIMEOUT,
				 .rank = origin, .other = origin,
				 .op_seq = seq };
	u32 rank;

	if (!has_posted(m, READ_ONCE(m->op_whole), READ_ONCE(m->op_come), seq))
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, m->rank,
			      m->rank, seq);
	else if (waits_for_one(m, seq, &rank))
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, rank, rank, seq);
	else if (!has_posted(m, READ_ONCE(tx->posted), READ_ONCE(tx->come), seq))
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, next, next,
			      seq);
	else if (next != origin)
		rar_control_notice(m->link[RAR_NEXT], RAR_T_LATE, m->epoch,
				   &ask);
}

/* Has this rank contributed all it can? Before that the others wait for this rank. */
static bool gave_all(const struct rar_member *m, const struct rar_operation *op)
{
	if (op->keyed)
		/* For @posted_us; pairs with the releases in rar_keyed_end(). */
		return smp_load_acquire(&op->keyed->ended);
	/* For @posted_us; pairs with the release in publish_whole(). */
	return op->seq < smp_load_acquire(&m->op_whole) ||
	       (op->ring.lead && READ_ONCE(op->come));
}

static void check_op_timeout(struct rar_member *m)
{
	u32 limit = READ_ONCE(m->op_timeout_ms);
	struct rar_operation *op;
	bool late = false;
	u64 seq = 0;

	if (!limit)
		return;
	spin_lock_bh(&m->lock);
	list_for_each_entry(op, &m->undelivered, node) {
		if (op->complete)
			continue;
		seq = op->seq;
		late = gave_all(m, op) &&
		       rar_now_us() - READ_ONCE(op->posted_us) > limit * 1000ULL;
		break;
	}
	spin_unlock_bh(&m->lock);
	if (!late) {
		m->late_since = 0;
		return;
	}
	if (!m->late_since)
		m->late_since = jiffies | 1;
	rar_watch_ask(m, seq, m->rank);
	if (time_after(jiffies, m->late_since + HZ))
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, m->rank,
			      m->rank, seq);
}

/* The time when a neighbour will have been silent for too long if nothing comes from it. */
static unsigned long silence_ends(const struct rar_member *m)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(m->rn->sysctl_dead_ms));
	unsigned long next = jiffies + dead, end;
	struct rar_link *link;

	rar_each_link(link, m) {
		end = READ_ONCE(link->heard) + dead;
		if (rar_link_to_rank(link) && !m->leave.gone[link->index] &&
		    time_after(end, jiffies) && time_before(end, next))
			next = end;
	}
	return next;
}

/**
 * rar_watch_tick() - look for what ends a running group; part of its timer
 * @m: member
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_watch_tick(struct rar_member *m)
{
	check_silence(m);
	check_op_timeout(m);
	return silence_ends(m);
}

static int owner_wake(struct wait_queue_entry *wait, unsigned int mode,
		      int sync, void *key)
{
	struct rar_member *m = container_of(wait, struct rar_member,
					    owner_wait);

	rar_member_schedule(m);
	return 0;
}

static bool pid_exited(struct pid *pid)
{
	struct task_struct *task;
	bool exited;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	exited = !task ||
		 (READ_ONCE(task->exit_state) && thread_group_empty(task));
	rcu_read_unlock();
	return exited;
}

/**
 * rar_watch_owner() - bind the member's life to a process
 * @m: member
 * @pid: process, whose reference is taken over; NULL = none any more
 *
 * Process context. A descriptor that a child inherited does not keep a member alive: when
 * the owner exits the group is told so.
 */
void rar_watch_owner(struct rar_member *m, struct pid *pid)
{
	struct pid *old;

	spin_lock_bh(&m->lock);
	old = m->owner;
	m->owner = pid;
	spin_unlock_bh(&m->lock);
	if (old) {
		remove_wait_queue(&old->wait_pidfd, &m->owner_wait);
		put_pid(old);
	}
	if (!pid)
		return;
	init_waitqueue_func_entry(&m->owner_wait, owner_wake);
	add_wait_queue(&pid->wait_pidfd, &m->owner_wait);
	if (pid_exited(pid))
		rar_member_schedule(m);
}

void rar_watch_check_owner(struct rar_member *m)
{
	struct pid *pid;
	bool exited, left;

	spin_lock_bh(&m->lock);
	pid = get_pid(m->owner);
	left = m->state == RAR_S_LEAVING;	/* no rank waits for this one */
	spin_unlock_bh(&m->lock);
	exited = pid && pid_exited(pid);
	put_pid(pid);
	if (!exited || left)
		return;
	rar_fail_pair(m, ECONNRESET, RAR_R_DIED, m->rank, m->rank,
		      READ_ONCE(m->op_next));
	if (rar_member_state(m) == RAR_S_FAILED)
		rar_pin_end(m);
}
