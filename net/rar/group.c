// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: lookup, state, failure, leaving, the timer. Owns struct rar_group.
 */
#include <linux/jhash.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "encap.h"
#include "rar.h"
#include "trace.h"

static struct workqueue_struct *group_wq;

/* The rank of the neighbour in @dir. */
u32 rar_group_rank(const struct rar_group *grp, enum rar_dir dir)
{
	if (dir == RAR_NEXT)
		return grp->rank + 1 == grp->size ? 0 : grp->rank + 1;
	return grp->rank ? grp->rank - 1 : grp->size - 1;
}

/* How often a member lets its neighbours hear something, ms. */
u32 rar_group_keepalive_ms(const struct rar_group *grp)
{
	return clamp(READ_ONCE(grp->rn->sysctl_dead_ms) / 5, 10, 1000);
}

/* -- state --------------------------------------------------------------- */

/*
 *	BOUND -> JOINING -> READY -> RUN -> LEAVING
 *	  ^        | |        |       |        |
 *	  '--------'-+--------'       v        v
 *	             '----> RUN     FAILED  FAILED
 */
static const u8 legal_from[RAR_S_NR] = {
	[RAR_S_BOUND]	= BIT(RAR_S_UNBOUND) | BIT(RAR_S_JOINING) |
			  BIT(RAR_S_READY),
	[RAR_S_JOINING]	= BIT(RAR_S_BOUND) | BIT(RAR_S_READY),
	[RAR_S_READY]	= BIT(RAR_S_JOINING) | BIT(RAR_S_READY),
	[RAR_S_RUN]	= BIT(RAR_S_READY) | BIT(RAR_S_JOINING),
	[RAR_S_LEAVING]	= BIT(RAR_S_RUN),
	[RAR_S_FAILED]	= BIT(RAR_S_RUN) | BIT(RAR_S_LEAVING),
};

/**
 * rar_group_set_state() - the one place that changes the state
 * @grp: group, @grp->lock held
 * @to:  new state
 */
void rar_group_set_state(struct rar_group *grp, enum rar_state to)
{
	lockdep_assert_held(&grp->lock);
	WARN_ON_ONCE(!(legal_from[to] & BIT(grp->state)));
	trace_rar_state(grp, grp->state, to);
	/* Pairs with the acquire in the receive path: what belongs to the
	 * state is seen with it.
	 */
	smp_store_release(&grp->state, to);
}

/* -- lookup -------------------------------------------------------------- */

static u32 group_key(u64 id, u32 rank)
{
	return jhash_3words(lower_32_bits(id), upper_32_bits(id), rank, 0);
}

/**
 * rar_group_lookup() - find the member a packet is for
 * @rn:    netns
 * @id:    group id
 * @rank:  destination rank
 * @token: epoch or nonce of the packet
 *
 * A member that left may still answer for its epoch beside the one that took
 * its place, so the token decides first. Context: RCU read side. Return: the
 * member, without a reference, or NULL. The caller compares the token.
 */
struct rar_group *rar_group_lookup(struct rar_net *rn, u64 id, u32 rank,
				   u64 token)
{
	struct rar_group *grp, *live = NULL;

	hash_for_each_possible_rcu(rn->groups, grp, node,
				   group_key(id, rank)) {
		if (grp->id != id || grp->rank != rank)
			continue;
		if (token && (token == READ_ONCE(grp->epoch) ||
			      token == READ_ONCE(grp->join.nonce)))
			return grp;
		if (READ_ONCE(grp->sk) &&
		    (!live || READ_ONCE(grp->state) != RAR_S_FAILED))
			live = grp;
	}
	return live;
}

/* May a member with @new's identity be bound beside those that exist? */
static int group_may_hash(struct rar_net *rn, const struct rar_group *new)
{
	const struct rar_group *grp;
	int bkt;

	if (rn->ngroups >= READ_ONCE(rn->sysctl_max_groups))
		return -ENOSPC;
	hash_for_each(rn->groups, bkt, grp, node) {
		/* A failed member holds its socket, but no name any more. */
		if (grp->id != new->id || !READ_ONCE(grp->sk) ||
		    READ_ONCE(grp->state) == RAR_S_FAILED)
			continue;
		if (!uid_eq(grp->uid, new->uid))
			return -EACCES;
		if (grp->rank == new->rank)
			return -EADDRINUSE;
	}
	return 0;
}

/**
 * rar_group_hash() - make a member known under its name
 * @grp: from rar_group_alloc()
 *
 * Return: 0, -EADDRINUSE if the rank is taken in this netns, -EACCES if the
 * group belongs to another user, -ENOSPC beyond net.rar.max_groups.
 */
int rar_group_hash(struct rar_group *grp)
{
	struct rar_net *rn = grp->rn;
	int err;

	spin_lock_bh(&rn->lock);
	err = group_may_hash(rn, grp);
	if (!err) {
		refcount_inc(&grp->ref);
		grp->hashed = true;
		rn->ngroups++;
		hash_add_rcu(rn->groups, &grp->node,
			     group_key(grp->id, grp->rank));
	}
	spin_unlock_bh(&rn->lock);
	return err;
}

/* The end: no packet finds it, its timer stops. Drops the table's reference. */
static void group_unhash(struct rar_group *grp)
{
	bool was;

	spin_lock_bh(&grp->rn->lock);
	was = grp->hashed;
	if (was)
		hash_del_rcu(&grp->node);
	grp->hashed = false;
	spin_unlock_bh(&grp->rn->lock);
	if (!was)
		return;

	WRITE_ONCE(grp->dead, true);
	if (timer_delete(&grp->timer))
		rar_group_put(grp);
	rar_group_put(grp);
}

/* The socket no longer counts among the members of this netns. */
static void group_detach(struct rar_group *grp)
{
	spin_lock_bh(&grp->rn->lock);
	if (grp->sk)
		grp->rn->ngroups--;
	WRITE_ONCE(grp->sk, NULL);
	spin_unlock_bh(&grp->rn->lock);
}

/* -- memory -------------------------------------------------------------- */

static void group_timer(struct timer_list *t);
static void group_work(struct work_struct *work);

static void group_free_work(struct work_struct *work)
{
	struct rar_group *grp = container_of(to_rcu_work(work),
					     struct rar_group, free);
	struct rar_net *rn = grp->rn;
	int i;

	rar_link_flush(grp);
	rar_input_flush_early(grp);
	for (i = 0; i < ARRAY_SIZE(grp->hook_dev); i++)
		rar_hook_remove(rn, grp->hook_dev[i]);
	for (i = 0; i < RAR_DIRS; i++)
		dst_cache_destroy(&grp->path[i].cache);
	rar_encap_put(rn, grp->port);
	kfree(grp->tx.sent);
	kvfree(grp->join.members);
	kfree(grp);
	if (atomic_dec_and_test(&rn->alive))
		wake_up_var(&rn->alive);
}

/* Any context. The last reference frees the group, later, in a work item. */
void rar_group_put(struct rar_group *grp)
{
	if (refcount_dec_and_test(&grp->ref))
		queue_rcu_work(group_wq, &grp->free);
}

static int group_init_paths(struct rar_group *grp)
{
	int err;

	err = dst_cache_init(&grp->path[RAR_NEXT].cache, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	err = dst_cache_init(&grp->path[RAR_PREV].cache, GFP_KERNEL_ACCOUNT);
	if (err)
		dst_cache_destroy(&grp->path[RAR_NEXT].cache);
	return err;
}

/**
 * rar_group_alloc() - make a member
 * @rn:   netns
 * @self: its address, checked
 *
 * Process context. Return: the member in state BOUND with one reference, not
 * hashed, or NULL.
 */
struct rar_group *rar_group_alloc(struct rar_net *rn,
				  const struct sockaddr_rar *self)
{
	struct rar_group *grp;

	grp = kzalloc(sizeof(*grp), GFP_KERNEL_ACCOUNT);
	if (!grp)
		return NULL;
	if (group_init_paths(grp)) {
		kfree(grp);
		return NULL;
	}
	refcount_set(&grp->ref, 1);
	grp->rn = rn;
	grp->id = self->srar_group;
	grp->rank = self->srar_rank;
	grp->size = self->srar_size;
	grp->uid = current_fsuid();
	grp->state = RAR_S_BOUND;
	spin_lock_init(&grp->lock);
	INIT_LIST_HEAD(&grp->undelivered);
	spin_lock_init(&grp->early.lock);
	skb_queue_head_init(&grp->early.list);
	timer_setup(&grp->timer, group_timer, 0);
	INIT_WORK(&grp->work, group_work);
	INIT_RCU_WORK(&grp->free, group_free_work);
	rar_link_init(grp);
	atomic_inc(&rn->alive);
	return grp;
}

/* -- timer and work ------------------------------------------------------ */

/**
 * rar_group_kick() - let the timer look at the group at @when or earlier
 * @grp:  group, RCU read side or a reference held
 * @when: jiffies
 */
void rar_group_kick(struct rar_group *grp, unsigned long when)
{
	/* The handler looks at everything, so an earlier one will do. */
	if (timer_pending(&grp->timer) &&
	    time_before_eq(READ_ONCE(grp->timer.expires), when))
		return;
	if (READ_ONCE(grp->dead) || !refcount_inc_not_zero(&grp->ref))
		return;
	/* An armed timer has its own reference already. */
	if (timer_reduce(&grp->timer, when))
		rar_group_put(grp);
}

/* Let the work item look at the group. Any context. */
void rar_group_schedule(struct rar_group *grp)
{
	if (READ_ONCE(grp->dead) || !refcount_inc_not_zero(&grp->ref))
		return;
	if (!queue_work(group_wq, &grp->work))
		rar_group_put(grp);
}

/* A valid packet came from the neighbour. */
void rar_group_hear(struct rar_group *grp, enum rar_dir dir)
{
	WRITE_ONCE(grp->heard[dir], jiffies);
}

static bool group_idle(const struct rar_group *grp)
{
	return READ_ONCE(grp->ops_complete) == READ_ONCE(grp->op_next);
}

/* Fail the group if a neighbour has been silent for too long. */
static void group_check_silence(struct rar_group *grp)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(grp->rn->sysctl_dead_ms));
	struct rar_error err = { .err = ECONNRESET, .reason = RAR_R_SILENT };
	int dir;

	if (!grp->sk || (grp->left && group_idle(grp)))
		return;
	for (dir = 0; dir < RAR_DIRS; dir++) {
		unsigned long heard = READ_ONCE(grp->heard[dir]);

		if (grp->gone[dir] || time_before(jiffies, heard + dead))
			continue;
		err.rank = rar_group_rank(grp, dir);
		err.other = grp->rank;
		err.silent_ms = jiffies_to_msecs(jiffies - heard);
		rar_group_fail(grp, &err);
		return;
	}
}

/*
 * Operation @seq is overdue at rank @origin: the first rank behind it that
 * has not posted it is named. A rank knows that of itself and, from ACKs, of
 * its successor; else the question goes on round the ring.
 */
static void group_ask_late(struct rar_group *grp, u64 seq, u32 origin)
{
	u32 next = rar_group_rank(grp, RAR_NEXT);
	struct rar_error ask = { .err = ETIMEDOUT, .reason = RAR_R_TIMEOUT,
				 .rank = origin, .other = origin,
				 .op_seq = seq };

	if (READ_ONCE(grp->op_next) <= seq)
		rar_group_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, grp->rank,
				    grp->rank, seq);
	else if (READ_ONCE(grp->tx.posted) <= seq)
		rar_group_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, next, next,
				    seq);
	else if (next != origin)
		rar_output_notice(grp, RAR_NEXT, RAR_T_LATE, grp->epoch, &ask);
}

static void group_check_op_timeout(struct rar_group *grp)
{
	u32 limit = READ_ONCE(grp->op_timeout_ms);
	struct rar_operation *op;
	bool late = false;
	u64 seq = 0;

	if (!limit)
		return;
	spin_lock_bh(&grp->lock);
	list_for_each_entry(op, &grp->undelivered, node) {
		if (op->complete)
			continue;
		seq = op->seq;
		late = rar_now_us() - op->posted_us > limit * 1000ULL;
		break;
	}
	spin_unlock_bh(&grp->lock);
	if (!late) {
		grp->late_since = 0;
		return;
	}
	if (!grp->late_since)
		grp->late_since = jiffies | 1;
	group_ask_late(grp, seq, grp->rank);
	if (time_after(jiffies, grp->late_since + HZ))
		rar_group_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, grp->rank,
				    grp->rank, seq);
}

/* Send what is due of FIN; true when both neighbours know. */
static bool group_fin_tick(struct rar_group *grp)
{
	struct rar_error fin = { .rank = grp->left_rank,
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

/* An orphan that nobody needs becomes a tombstone, and that ends. */
static void group_check_orphan(struct rar_group *grp, bool told)
{
	if (READ_ONCE(grp->sk))
		return;
	if (time_after_eq(jiffies, grp->expires)) {
		group_unhash(grp);
		return;
	}
	if (grp->tombstone || !told ||
	    READ_ONCE(grp->op_oldest) != READ_ONCE(grp->op_next))
		return;
	grp->tombstone = true;
	grp->expires = jiffies +
		msecs_to_jiffies(2 * READ_ONCE(grp->rn->sysctl_dead_ms));
}

static unsigned long group_tick_running(struct rar_group *grp)
{
	unsigned long next = jiffies +
			     msecs_to_jiffies(rar_group_keepalive_ms(grp));
	bool told = true;

	if (READ_ONCE(grp->op_timeout_ms))
		next = min(next, jiffies + HZ / 20);
	if (grp->left) {
		told = group_fin_tick(grp);
		if (!told && time_before(grp->fin_next, next))
			next = grp->fin_next;
	}
	if (grp->tombstone)
		return grp->expires;
	group_check_silence(grp);
	group_check_op_timeout(grp);
	if (grp->left && group_idle(grp) && !READ_ONCE(grp->tx.npend) &&
	    READ_ONCE(grp->op_oldest) == READ_ONCE(grp->op_next))
		return next;
	return min(next, rar_link_tick(grp));
}

static void group_timer(struct timer_list *t)
{
	struct rar_group *grp = container_of(t, struct rar_group, timer);
	unsigned long next = jiffies + HZ;

	rcu_read_lock();
	/* Pairs with the release in rar_group_set_state(). */
	switch (smp_load_acquire(&grp->state)) {
	case RAR_S_JOINING:
	case RAR_S_READY:
		next = rar_join_tick(grp);
		break;
	case RAR_S_RUN:
	case RAR_S_LEAVING:
		next = group_tick_running(grp);
		break;
	case RAR_S_FAILED:
		next = grp->sk ? jiffies + HZ : grp->expires;
		break;
	}
	group_check_orphan(grp, !grp->fin_due[0] && !grp->fin_due[1]);
	if (READ_ONCE(grp->state) != RAR_S_BOUND)
		rar_group_kick(grp, next);
	rcu_read_unlock();
	rar_group_put(grp);
}

/* -- failure ------------------------------------------------------------- */

/* Wake everybody who waits for anything on the socket. */
void rar_group_wake(struct rar_group *grp)
{
	struct sock *sk;

	rcu_read_lock();
	sk = READ_ONCE(grp->sk);	/* SOCK_RCU_FREE */
	if (sk) {
		sk->sk_state_change(sk);
		sk->sk_data_ready(sk);
		sk->sk_write_space(sk);
	}
	rcu_read_unlock();
}

/* Forget what will never be complete; what is stays for recv(). */
static void group_drop_incomplete(struct rar_group *grp)
{
	struct rar_operation *op, *tmp;

	lockdep_assert_held(&grp->lock);
	list_for_each_entry_safe(op, tmp, &grp->undelivered, node) {
		if (op->complete)
			continue;
		list_del_init(&op->node);
		grp->nundelivered--;
		rar_op_put(op);
	}
}

/* The cookie that this rank gave the operation. */
static u64 group_cookie(struct rar_group *grp, u64 op_seq)
{
	struct rar_operation *op;

	list_for_each_entry(op, &grp->undelivered, node)
		if (op->seq == op_seq)
			return op->cookie;
	return 0;
}

static void group_record_error(struct rar_group *grp,
			       const struct rar_error *err)
{
	enum rar_dir dir = err->rank == rar_group_rank(grp, RAR_NEXT) ?
			   RAR_NEXT : RAR_PREV;

	grp->error = *err;
	grp->error.cookie = group_cookie(grp, err->op_seq);
	memset(&grp->error.addr, 0, sizeof(grp->error.addr));
	if (err->rank < grp->size && grp->join.members &&
	    grp->join.members[err->rank].addr.af)
		rar_sock_addr(grp, &grp->join.members[err->rank].addr,
			      err->rank, &grp->error.addr);
	else if (err->rank == rar_group_rank(grp, dir))
		rar_sock_addr(grp, &grp->path[dir].dst, err->rank,
			      &grp->error.addr);
}

/* Tell the neighbour in @dir that the group failed, and why. */
void rar_group_tell(struct rar_group *grp, enum rar_dir dir)
{
	struct rar_error err;
	u64 token;

	spin_lock_bh(&grp->lock);
	err = grp->error;
	token = grp->state == RAR_S_FAILED ? grp->epoch :
					     grp->join.peer_nonce[dir];
	spin_unlock_bh(&grp->lock);
	if (token && grp->path[dir].dst.af)
		rar_output_notice(grp, dir, RAR_T_ABORT, token, &err);
}

/**
 * rar_group_fail() - the group cannot go on
 * @grp: group
 * @err: why; the first one wins
 *
 * Any context, no lock held. A running group is FAILED for good; a failed
 * join goes back to BOUND and may be tried again. Tells both neighbours.
 */
void rar_group_fail(struct rar_group *grp, const struct rar_error *err)
{
	bool running;

	spin_lock_bh(&grp->lock);
	running = grp->state == RAR_S_RUN || grp->state == RAR_S_LEAVING;
	if (!running && grp->state != RAR_S_JOINING &&
	    grp->state != RAR_S_READY) {
		spin_unlock_bh(&grp->lock);
		return;
	}
	group_record_error(grp, err);
	if (running) {
		rar_group_set_state(grp, RAR_S_FAILED);
		group_drop_incomplete(grp);
	} else {
		rar_group_set_state(grp, RAR_S_BOUND);
	}
	if (grp->sk)
		WRITE_ONCE(grp->sk->sk_err, err->err);
	spin_unlock_bh(&grp->lock);

	rar_mib_inc(grp->rn, GroupsFailed);
	rar_group_tell(grp, RAR_NEXT);
	rar_group_tell(grp, RAR_PREV);
	if (running) {
		rar_link_flush(grp);
		rar_input_flush_early(grp);
		rar_group_kick(grp, jiffies + 1);
	} else {
		rar_join_leave(grp);
	}
	rar_group_wake(grp);
}

/* rar_group_fail() for reasons that are no more than two ranks and an op. */
void rar_group_fail_pair(struct rar_group *grp, int err, enum rar_reason why,
			 u32 rank, u32 other, u64 op_seq)
{
	struct rar_error e = { .err = err, .reason = why, .rank = rank,
			       .other = other, .op_seq = op_seq };

	rar_group_fail(grp, &e);
}

/* -- the process that a member belongs to -------------------------------- */

static int owner_wake(struct wait_queue_entry *wait, unsigned int mode,
		      int sync, void *key)
{
	struct rar_group *grp = container_of(wait, struct rar_group,
					     owner_wait);

	rar_group_schedule(grp);
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
 * rar_group_set_owner() - bind the member's life to a process
 * @grp: group
 * @pid: process, a reference is taken over; NULL = none any more
 *
 * Process context. A descriptor inherited by a child does not keep a member
 * alive: when its process exits the group is told so.
 */
void rar_group_set_owner(struct rar_group *grp, struct pid *pid)
{
	struct pid *old = grp->owner;

	if (old) {
		remove_wait_queue(&old->wait_pidfd, &grp->owner_wait);
		put_pid(old);
	}
	spin_lock_bh(&grp->lock);
	grp->owner = pid;
	spin_unlock_bh(&grp->lock);
	if (!pid)
		return;
	init_waitqueue_func_entry(&grp->owner_wait, owner_wake);
	add_wait_queue(&pid->wait_pidfd, &grp->owner_wait);
	if (pid_exited(pid))
		rar_group_schedule(grp);
}

static void group_check_owner(struct rar_group *grp)
{
	struct pid *pid;
	bool exited;

	spin_lock_bh(&grp->lock);
	pid = get_pid(grp->owner);
	spin_unlock_bh(&grp->lock);
	exited = pid && pid_exited(pid);
	put_pid(pid);
	if (exited)
		rar_group_fail_pair(grp, ECONNRESET, RAR_R_DIED, grp->rank,
				    grp->rank, READ_ONCE(grp->op_next));
}

/* The predecessor's packets come in through a device without a hook yet. */
static void group_hook_prev(struct rar_group *grp)
{
	int dev = READ_ONCE(grp->prev_dev);

	if (!dev || dev == grp->hook_dev[0] || dev == grp->hook_dev[1] ||
	    dev == grp->hook_dev[2] || grp->hook_dev[2])
		return;
	if (!rar_hook_add(grp->rn, dev))
		grp->hook_dev[2] = dev;
}

static void group_work(struct work_struct *work)
{
	struct rar_group *grp = container_of(work, struct rar_group, work);

	group_check_owner(grp);
	group_hook_prev(grp);
	rar_group_put(grp);
}

/* -- running and leaving ------------------------------------------------- */

/**
 * rar_group_run() - the epoch is committed
 * @grp: group in READY, or JOINING when it is alone; @grp->lock held
 */
void rar_group_run(struct rar_group *grp)
{
	lockdep_assert_held(&grp->lock);
	grp->heard[RAR_NEXT] = jiffies;
	grp->heard[RAR_PREV] = jiffies;
	rar_group_set_state(grp, RAR_S_RUN);
	rar_mib_inc(grp->rn, GroupsJoined);
}

/* Start to tell both neighbours that this rank posts nothing more. */
static void group_leave(struct rar_group *grp)
{
	lockdep_assert_held(&grp->lock);
	if (grp->state != RAR_S_RUN)
		return;
	rar_group_set_state(grp, RAR_S_LEAVING);
	if (grp->left || grp->size == 1)
		return;
	grp->left = true;
	grp->left_rank = grp->rank;
	grp->left_last = grp->op_next;
	grp->fin_due[RAR_NEXT] = true;
	grp->fin_due[RAR_PREV] = true;
	grp->fin_next = jiffies;
}

/**
 * rar_group_shutdown() - no more operations; leave after those posted
 * @grp: group
 */
void rar_group_shutdown(struct rar_group *grp)
{
	spin_lock_bh(&grp->lock);
	grp->shut = true;
	if (grp->state == RAR_S_RUN && group_idle(grp))
		group_leave(grp);
	spin_unlock_bh(&grp->lock);
	rar_group_kick(grp, jiffies);
	rar_group_wake(grp);
}

static void group_drop_undelivered(struct rar_group *grp)
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

/* What remains of a member in RUN when its socket closes. */
static void group_close_running(struct rar_group *grp)
{
	bool dying = current->flags & PF_EXITING;

	if (!group_idle(grp))
		rar_group_fail_pair(grp, ECONNRESET,
				    dying ? RAR_R_DIED : RAR_R_CLOSED,
				    grp->rank, grp->rank, grp->ops_complete);
	spin_lock_bh(&grp->lock);
	group_leave(grp);
	grp->expires = jiffies +
		msecs_to_jiffies(grp->state == RAR_S_FAILED ?
				 2 * READ_ONCE(grp->rn->sysctl_dead_ms) :
				 READ_ONCE(grp->rn->sysctl_linger_ms));
	grp->tombstone = grp->state == RAR_S_FAILED;
	spin_unlock_bh(&grp->lock);
}

/**
 * rar_group_release() - the socket is gone
 * @grp: group; the socket's reference is dropped
 *
 * Process context.
 */
void rar_group_release(struct rar_group *grp)
{
	bool ends;

	rar_group_set_owner(grp, NULL);
	group_close_running(grp);
	group_detach(grp);
	group_drop_undelivered(grp);

	ends = grp->state < RAR_S_RUN || grp->size == 1;
	if (ends) {
		rar_join_leave(grp);
		group_unhash(grp);
	} else {
		rar_group_kick(grp, jiffies);
	}
	rar_group_put(grp);
}

/* -- operations ---------------------------------------------------------- */

static int group_may_post(struct rar_group *grp)
{
	lockdep_assert_held(&grp->lock);
	if (grp->state == RAR_S_FAILED)
		return -grp->error.err;
	if (grp->shut || grp->state == RAR_S_LEAVING)
		return -EPIPE;
	if (grp->state != RAR_S_RUN)
		return -ENOTCONN;
	if (grp->nundelivered == RAR_MAX_OPS)
		return group_idle(grp) ? -ENOBUFS : -EAGAIN;
	if (rcu_access_pointer(grp->ops[grp->op_next % RAR_MAX_OPS]))
		return -EAGAIN;
	return 0;
}

/**
 * rar_group_post() - hand an operation to the ring
 * @grp: group
 * @op:  scheduled and filled; the caller's reference passes to the list of
 *       undelivered operations on success
 *
 * Process context, send_lock held. Return: 0; -EAGAIN if the table is full;
 * -ENOBUFS if all in it are complete and unread; -EPIPE, -ENOTCONN or the
 * group's error.
 */
int rar_group_post(struct rar_group *grp, struct rar_operation *op)
{
	u64 seq;
	int err;

	spin_lock_bh(&grp->lock);
	err = group_may_post(grp);
	if (err) {
		spin_unlock_bh(&grp->lock);
		return err;
	}
	seq = grp->op_next;
	op->seq = seq;
	op->posted_us = rar_now_us();
	list_add_tail(&op->node, &grp->undelivered);
	grp->nundelivered++;
	refcount_inc(&op->ref);
	rar_link_post(grp, op);
	/* Pairs with the acquire in rar_input: who sees the number finds the
	 * operation in the table.
	 */
	smp_store_release(&grp->op_next, seq + 1);
	spin_unlock_bh(&grp->lock);

	rar_mib_inc(grp->rn, OpsPosted);
	rar_mib_add(grp->rn, OpBytes, op->ring.bytes);
	if (grp->left && seq >= grp->left_last) {
		rar_group_fail_pair(grp, ECONNRESET, RAR_R_LEFT,
				    grp->left_rank, grp->left_rank, seq);
		return 0;
	}
	rar_input_post(grp, seq);
	rar_group_kick(grp, jiffies + 1);
	return 0;
}

/**
 * rar_group_op_done() - every chunk of an operation is published
 * @grp: group
 * @op:  operation
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_group_op_done(struct rar_group *grp, struct rar_operation *op)
{
	spin_lock_bh(&grp->lock);
	if (!list_empty(&op->node)) {
		op->complete = true;
		WRITE_ONCE(grp->ops_complete, grp->ops_complete + 1);
		rar_mib_inc(grp->rn, OpsDone);
		if (grp->shut && group_idle(grp)) {
			group_leave(grp);
			rar_group_kick(grp, jiffies);
		}
	}
	spin_unlock_bh(&grp->lock);
	trace_rar_op(grp, op->seq, op->ring.bytes);
	rar_link_release(grp, op);
	rar_group_wake(grp);
}

/**
 * rar_group_op_delivered() - the user has read all of it
 * @grp: group
 * @op:  complete; the list's reference is dropped
 */
void rar_group_op_delivered(struct rar_group *grp, struct rar_operation *op)
{
	spin_lock_bh(&grp->lock);
	list_del_init(&op->node);
	grp->nundelivered--;
	spin_unlock_bh(&grp->lock);
	rar_group_wake(grp);
	rar_op_put(op);
}

/* -- notices ------------------------------------------------------------- */

static void notice_to_error(const struct rar_notice_hdr *n,
			    struct rar_error *err)
{
	memset(err, 0, sizeof(*err));
	err->err = clamp_t(u32, be32_to_cpu(n->err), 0, MAX_ERRNO);
	err->reason = be32_to_cpu(n->reason);
	err->rank = be32_to_cpu(n->rank);
	err->other = be32_to_cpu(n->other);
	err->op_seq = be64_to_cpu(n->op_seq);
	err->silent_ms = be32_to_cpu(n->silent_ms);
}

/* Somebody left cleanly: the news comes from @dir and goes on to the other. */
static void group_rcv_fin(struct rar_group *grp, const struct rar_error *fin,
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
		grp->left_last = fin->op_seq;
		grp->fin_due[!dir] = !told_both;
		grp->fin_next = jiffies;
	}
	late = grp->left_rank != grp->rank && grp->op_next > grp->left_last;
	spin_unlock_bh(&grp->lock);
	if (late)
		rar_group_fail_pair(grp, ECONNRESET, RAR_R_LEFT,
				    grp->left_rank, grp->left_rank,
				    grp->left_last);
	rar_group_kick(grp, jiffies);
	rar_group_wake(grp);
}

/**
 * rar_group_rcv_notice() - ABORT, LATE, FIN, FIN_ACK, RESET of the epoch
 * @grp: group in RUN or later
 * @pkt: validated: from a neighbour's address, token is the epoch
 */
void rar_group_rcv_notice(struct rar_group *grp, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_notice_hdr n = {};
	struct rar_error err;
	enum rar_dir dir;

	dir = src == rar_group_rank(grp, RAR_NEXT) ? RAR_NEXT : RAR_PREV;
	if (pkt->h.type == RAR_T_RESET) {
		rar_group_fail_pair(grp, ECONNRESET, RAR_R_RESET, src, src, 0);
		return;
	}
	if (skb_copy_bits(pkt->skb, pkt->off, &n, sizeof(n)))
		return;
	notice_to_error(&n, &err);
	switch (pkt->h.type) {
	case RAR_T_ABORT:
		if (!err.err)
			err.err = ECONNRESET;
		rar_group_fail(grp, &err);
		break;
	case RAR_T_FIN:
		/* With two members both links lead to the same one. */
		group_rcv_fin(grp, &err, dir);
		break;
	case RAR_T_LATE:
		group_ask_late(grp, err.op_seq, err.rank);
		break;
	case RAR_T_FIN_ACK:
		grp->fin_due[dir] = false;
		if (grp->size == 2)
			grp->fin_due[!dir] = false;
		break;
	}
}

/* -- netns and module ---------------------------------------------------- */

void rar_group_net_init(struct rar_net *rn)
{
	hash_init(rn->groups);
	spin_lock_init(&rn->lock);
	atomic64_set(&rn->mem, 0);
	atomic_set(&rn->alive, 0);
}

static struct rar_group *group_first(struct rar_net *rn)
{
	struct rar_group *grp;
	int bkt;

	spin_lock_bh(&rn->lock);
	hash_for_each(rn->groups, bkt, grp, node) {
		refcount_inc(&grp->ref);
		spin_unlock_bh(&rn->lock);
		return grp;
	}
	spin_unlock_bh(&rn->lock);
	return NULL;
}

/* No socket is left in this netns: drop orphans and tombstones, and wait. */
void rar_group_net_exit(struct rar_net *rn)
{
	struct rar_group *grp;

	while ((grp = group_first(rn))) {
		group_unhash(grp);
		rar_group_put(grp);
	}
	wait_var_event(&rn->alive, !atomic_read(&rn->alive));
}

static bool net_has_orphans(struct rar_net *rn)
{
	struct rar_group *grp;
	bool found = false;
	int bkt;

	spin_lock_bh(&rn->lock);
	hash_for_each(rn->groups, bkt, grp, node)
		if (!grp->tombstone)
			found = true;
	spin_unlock_bh(&rn->lock);
	return found;
}

/* Module unload: let orphans finish; linger_ms bounds each of them. */
void rar_group_drain(struct rar_net *rn)
{
	while (net_has_orphans(rn))
		schedule_timeout_uninterruptible(msecs_to_jiffies(20));
}

int rar_group_init(void)
{
	group_wq = alloc_workqueue("rar", WQ_UNBOUND, 0);
	return group_wq ? 0 : -ENOMEM;
}

void rar_group_exit(void)
{
	rcu_barrier();
	destroy_workqueue(group_wq);
	rcu_barrier();
}
