// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: lookup, state, memory, the timer, operations. Owns struct rar_group.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "encap.h"
#include "mem.h"
#include "rar.h"
#include "trace.h"
#include "user.h"

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
	[RAR_S_JOINING]	= BIT(RAR_S_BOUND),
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

/* The first fields of a name lie side by side in struct rar_group. */
struct group_name {
	u64 id;
	u32 rank;
} __packed;

static_assert(offsetof(struct rar_group, rank) ==
	      offsetof(struct rar_group, id) + offsetof(struct group_name, rank));

static const struct rhashtable_params by_name = {
	.head_offset = offsetof(struct rar_group, node),
	.key_offset = offsetof(struct rar_group, id),
	.key_len = sizeof(struct group_name),
	.automatic_shrinking = true,
};

static const struct rhashtable_params by_id = {
	.head_offset = offsetof(struct rar_group, id_node),
	.key_offset = offsetof(struct rar_group, id),
	.key_len = sizeof(u64),
	.automatic_shrinking = true,
};

/* All members of a name. RCU read side. */
static struct rhlist_head *group_named(struct rar_net *rn, u64 id, u32 rank)
{
	const struct group_name name = { id, rank };

	return rhltable_lookup(&rn->groups, &name, by_name);
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
	struct rhlist_head *pos;

	rhl_for_each_entry_rcu(grp, pos, group_named(rn, id, rank), node) {
		if (token && (token == READ_ONCE(grp->epoch) ||
			      (token == READ_ONCE(grp->join.nonce) &&
			       READ_ONCE(grp->state) <= RAR_S_RUN)))
			return grp;
		if (READ_ONCE(grp->sk) &&
		    (!live || READ_ONCE(grp->state) != RAR_S_FAILED))
			live = grp;
	}
	return live;
}

/**
 * rar_group_sender() - which member has sent a packet that is quoted?
 * @rn:    netns
 * @id:    group id
 * @rank:  source rank of the quoted packet
 * @token: its epoch, or in a JOIN the nonce
 *
 * Context: RCU read side. Return: the member, or NULL if none has sent that.
 */
struct rar_group *rar_group_sender(struct rar_net *rn, u64 id, u32 rank,
				   u64 token)
{
	struct rar_group *grp = token ? rar_group_lookup(rn, id, rank, token) :
					NULL;

	if (grp && token != READ_ONCE(grp->epoch) &&
	    token != READ_ONCE(grp->join.nonce))
		return NULL;
	return grp;
}

/* A failed member holds its socket, but no name any more. */
static bool holds_name(const struct rar_group *grp)
{
	return READ_ONCE(grp->sk) && READ_ONCE(grp->state) != RAR_S_FAILED;
}

/* Is the name of @new free, and the group not another user's? */
static int name_free(struct rar_net *rn, const struct rar_group *new)
{
	const struct rar_group *grp;
	struct rhlist_head *pos;
	int err = 0;

	rcu_read_lock();
	/* All who hold a name of a group are one user's. */
	rhl_for_each_entry_rcu(grp, pos, rhltable_lookup(&rn->ids, &new->id, by_id), id_node)
		if (holds_name(grp)) {
			err = uid_eq(grp->uid, new->uid) ? 0 : -EACCES;
			break;
		}
	rhl_for_each_entry_rcu(grp, pos, group_named(rn, new->id, new->rank), node)
		if (!err && holds_name(grp))
			err = -EADDRINUSE;
	rcu_read_unlock();
	return err;
}

/* Into all tables: it can be found. */
static int group_insert(struct rar_net *rn, struct rar_group *grp)
{
	if (rhltable_insert(&rn->groups, &grp->node, by_name))
		return -ENOBUFS;
	if (rhltable_insert(&rn->ids, &grp->id_node, by_id)) {
		rhltable_remove(&rn->groups, &grp->node, by_name);
		return -ENOBUFS;
	}
	/* The place is there: no memory is needed. */
	xa_store_bh(&rn->all, grp->index, grp, GFP_ATOMIC);
	return 0;
}

static void group_remove(struct rar_net *rn, struct rar_group *grp)
{
	rhltable_remove(&rn->groups, &grp->node, by_name);
	rhltable_remove(&rn->ids, &grp->id_node, by_id);
	xa_erase_bh(&rn->all, grp->index);
}

/* @old, if it counts for the same user, makes room for @grp. */
static int group_hash(struct rar_net *rn, struct rar_group *grp, struct rar_group *old)
{
	bool again = old && old->counted && old->user == grp->user;
	int err;

	lockdep_assert_held(&rn->lock);
	if (!rar_user_may_bind(grp->user, again ? 0 : rn->ngroups, atomic_read(&rn->alive),
			       READ_ONCE(rn->sysctl_max_groups)))
		return -ENOSPC;
	err = name_free(rn, grp);
	if (!err)
		err = rar_user_bind(grp->user, again);
	if (err)
		return err;
	err = group_insert(rn, grp);
	if (err) {
		if (!again)
			rar_user_unbind(grp->user);
		return err;
	}
	refcount_inc(&grp->ref);
	grp->hashed = true;
	grp->counted = true;
	if (again)
		old->counted = false;
	else
		rn->ngroups++;
	return 0;
}

/**
 * rar_group_hash() - make a member known under its name
 * @grp: from rar_group_alloc()
 * @old: the failed member of the same socket, or NULL
 *
 * Process context. Return: 0, -EADDRINUSE if the rank is taken in this netns, -EACCES
 * if the group belongs to another user, -ENOSPC beyond net.rar.max_groups or the limit
 * of the host, -ENOBUFS without memory.
 */
int rar_group_hash(struct rar_group *grp, struct rar_group *old)
{
	struct rar_net *rn = grp->rn;
	int err;

	if (xa_alloc_bh(&rn->all, &grp->index, NULL, xa_limit_31b, GFP_KERNEL_ACCOUNT))
		return -ENOBUFS;
	spin_lock_bh(&rn->lock);
	err = group_hash(rn, grp, old);
	spin_unlock_bh(&rn->lock);
	if (err)
		xa_erase_bh(&rn->all, grp->index);
	return err;
}

/* The end: no packet finds it, its timer stops. Drops the table's reference. */
void rar_group_unhash(struct rar_group *grp)
{
	bool was;

	spin_lock_bh(&grp->rn->lock);
	was = grp->hashed;
	if (was)
		group_remove(grp->rn, grp);
	grp->hashed = false;
	spin_unlock_bh(&grp->rn->lock);
	if (!was)
		return;

	WRITE_ONCE(grp->dead, true);
	smp_mb(); /* pairs with rar_group_kick() */
	rar_link_stop(grp);
	if (timer_delete(&grp->timer))
		rar_group_put(grp);
	rar_group_put(grp);
}

/* The socket no longer counts among the members of this netns. */
void rar_group_detach(struct rar_group *grp)
{
	spin_lock_bh(&grp->rn->lock);
	if (grp->counted) {
		grp->rn->ngroups--;
		rar_user_unbind(grp->user);
	}
	grp->counted = false;
	/* Pairs with the acquire in rar_leave_check_orphan(). */
	smp_store_release(&grp->sk, NULL);
	spin_unlock_bh(&grp->rn->lock);
	rar_encap_detach(grp);
	rar_mem_want(grp, 0);
}

/* -- memory -------------------------------------------------------------- */

static void group_timer(struct timer_list *t);
static void group_work(struct work_struct *work);

/* An orphan counts as a user of the module, as a socket does, until it ends. */
void rar_group_hold_module(struct rar_group *grp)
{
	/* The socket that is being closed has a reference. */
	__module_get(THIS_MODULE);
	grp->holds_module = true;
}

/* Nobody needs the member any more. Timer, or the last reference is gone. */
void rar_group_let_go(struct rar_group *grp)
{
	if (!grp->holds_module)
		return;
	grp->holds_module = false;
	module_put(THIS_MODULE);
}

static void group_free_work(struct work_struct *work)
{
	struct rar_group *grp = container_of(to_rcu_work(work),
					     struct rar_group, free);
	struct rar_net *rn = grp->rn;
	int i;

	rar_mem_forget(grp);
	rar_link_flush(grp);
	rar_leave_forget(grp);
	rar_early_flush(grp);
	for (i = 0; i < ARRAY_SIZE(grp->hook); i++)
		rar_hook_set(rn, &grp->hook[i], 0);
	for (i = 0; i < RAR_DIRS; i++)
		dst_cache_destroy(&grp->path[i].cache);
	rar_encap_put_senders(grp);
	rar_encap_put_lanes(grp);
	rar_encap_put(rn, grp->port);
	kfree(grp->tx.sent);
	kvfree(grp->join.members);
	rar_user_alive(grp->user, -1);
	rar_user_put(grp->user);
	memzero_explicit(&grp->trust, sizeof(grp->trust));
	rar_group_let_go(grp);
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

/* What a member refers to; nothing if it fails. */
static int group_init_refs(struct rar_group *grp)
{
	int err;

	grp->user = rar_user_get();
	if (!grp->user)
		return -ENOMEM;
	err = group_init_paths(grp);
	if (err)
		rar_user_put(grp->user);
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
	if (group_init_refs(grp)) {
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
	INIT_LIST_HEAD(&grp->pinned);
	INIT_LIST_HEAD(&grp->want_node);
	INIT_LIST_HEAD(&grp->mem_node);
	rar_early_init(grp);
	timer_setup(&grp->timer, group_timer, 0);
	INIT_WORK(&grp->work, group_work);
	INIT_RCU_WORK(&grp->free, group_free_work);
	rar_link_init(grp);
	grp->slow.rank = RAR_NO_RANK;
	rar_user_alive(grp->user, 1);
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
	/* What the handler shall see was stored before; it may run now. */
	smp_mb();
	/* It looks at everything, so an earlier one will do. */
	if (timer_pending(&grp->timer) &&
	    time_before_eq(READ_ONCE(grp->timer.expires), when))
		return;
	if (READ_ONCE(grp->dead) || !refcount_inc_not_zero(&grp->ref))
		return;
	/* An armed timer has its own reference already. */
	if (timer_reduce(&grp->timer, when))
		rar_group_put(grp);
	/* Pairs with rar_group_unhash(): one of the two sees the other. */
	smp_mb();
	if (READ_ONCE(grp->dead) && timer_delete(&grp->timer))
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

/* Does send() lack memory? The group ends if that takes too long. */
static bool group_tick_memory(struct rar_group *grp)
{
	int ret = rar_mem_tick(grp);

	if (ret < 0)
		rar_fail_pair(grp, -ret, ret == -ETIMEDOUT ? RAR_R_TIMEOUT : RAR_R_NOMEM,
			      grp->rank, grp->rank, READ_ONCE(grp->op_next));
	return ret;
}

static unsigned long group_tick_running(struct rar_group *grp)
{
	unsigned long next = jiffies +
			     msecs_to_jiffies(rar_group_keepalive_ms(grp));
	bool told = true;

	if (grp->size == 1)
		return next;
	if (READ_ONCE(grp->op_timeout_ms))
		next = min(next, jiffies + HZ / 20);
	if (group_tick_memory(grp))
		next = min(next, jiffies + RAR_MEM_TICK);
	if (grp->left) {
		told = rar_leave_tick(grp);
		if (!told && time_before(grp->fin_next, next))
			next = grp->fin_next;
	}
	if (grp->tombstone)
		return grp->expires;
	next = min(next, rar_fail_tick(grp));
	if (grp->left && rar_group_idle(grp) &&
	    READ_ONCE(grp->op_oldest) == READ_ONCE(grp->op_next))
		return next;
	return min(next, rar_loss_keepalive(grp));
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
	rar_leave_check_orphan(grp);
	if (READ_ONCE(grp->state) != RAR_S_BOUND)
		rar_group_kick(grp, next);
	rcu_read_unlock();
	rar_group_put(grp);
}

/* The predecessor's packets come in through this device now. */
static void group_hook_prev(struct rar_group *grp)
{
	int dev = READ_ONCE(grp->prev_dev);

	if (dev)
		rar_hook_set(grp->rn, &grp->hook[2], dev);
}

/* There is room for own chunks again. As for packets, who finds the group failed stops. */
static void group_push(struct rar_group *grp)
{
	local_bh_disable();
	rcu_read_lock();
	if (rar_group_runs(grp))
		rar_link_push(grp);
	rcu_read_unlock();
	local_bh_enable();
}

static void group_work(struct work_struct *work)
{
	struct rar_group *grp = container_of(work, struct rar_group, work);

	group_push(grp);
	rar_fail_check_owner(grp);
	rar_join_route_again(grp);
	if (rar_group_state(grp) == RAR_S_FAILED)
		rar_early_flush(grp);
	group_hook_prev(grp);
	rar_group_put(grp);
}

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
	rar_resume_forget(grp);
	rar_mib_inc(grp->rn, GroupsJoined);
}

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

/* -- operations ---------------------------------------------------------- */

static int __group_may_post(struct rar_group *grp)
{
	lockdep_assert_held(&grp->lock);
	if (grp->state == RAR_S_FAILED)
		return -grp->error.err;
	if (grp->shut || grp->state == RAR_S_LEAVING)
		return -EPIPE;
	if (grp->state != RAR_S_RUN)
		return -ENOTCONN;
	if (grp->nundelivered == RAR_MAX_OPS)
		return rar_group_idle(grp) ? -ENOBUFS : -EAGAIN;
	if (rcu_access_pointer(grp->ops[grp->op_next % RAR_MAX_OPS]))
		return -EAGAIN;
	return 0;
}

/**
 * rar_group_may_post() - could an operation be posted now?
 * @grp: group
 *
 * Return: as rar_group_post().
 */
int rar_group_may_post(struct rar_group *grp)
{
	int err;

	spin_lock_bh(&grp->lock);
	err = __group_may_post(grp);
	spin_unlock_bh(&grp->lock);
	return err;
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
	u64 bytes = op->ring.bytes, seq;
	bool steps = op->step && !op->pinned;
	enum rar_reason left_why;
	u32 left_rank;
	bool late;
	int err;

	spin_lock_bh(&grp->lock);
	err = __group_may_post(grp);
	if (err) {
		spin_unlock_bh(&grp->lock);
		return err;
	}
	seq = grp->op_next;
	late = grp->left && seq >= grp->left_last;
	left_rank = grp->left_rank;
	left_why = grp->left_why;
	op->seq = seq;
	list_add_tail(&op->node, &grp->undelivered);
	grp->nundelivered++;
	refcount_inc(&op->ref);
	rar_pin_posted(grp, op);
	rar_link_post(grp, op);
	spin_unlock_bh(&grp->lock);

	rar_mib_inc(grp->rn, OpsPosted);
	rar_mib_add(grp->rn, OpBytes, bytes);
	if (late) {
		rar_fail_pair(grp, ECONNRESET, left_why, left_rank, left_rank,
			      seq);
		return 0;
	}
	rar_early_post(grp, seq, false);
	rar_group_kick(grp, jiffies + 1);
	/* Who waits for it wants to be woken for its steps. */
	if (steps)
		rar_group_wake(grp);
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
		if (grp->shut && rar_group_idle(grp)) {
			rar_leave_start(grp);
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

/* -- netns and module ---------------------------------------------------- */

int rar_group_net_init(struct rar_net *rn)
{
	int err;

	xa_init_flags(&rn->all, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	spin_lock_init(&rn->lock);
	INIT_LIST_HEAD(&rn->mem_groups);
	atomic64_set(&rn->early, 0);
	atomic_set(&rn->alive, 0);
	err = rhltable_init(&rn->groups, &by_name);
	if (err)
		return err;
	err = rhltable_init(&rn->ids, &by_id);
	if (err)
		rhltable_destroy(&rn->groups);
	return err;
}

/* No packet comes any more. */
void rar_group_net_free(struct rar_net *rn)
{
	rhltable_destroy(&rn->ids);
	rhltable_destroy(&rn->groups);
	WARN_ON(!xa_empty(&rn->all));
	xa_destroy(&rn->all);
}

/**
 * rar_group_after() - go through the members of a namespace
 * @rn:    netns
 * @index: 0 at first, then as this function has set it
 *
 * RCU read side. Members that come or go meanwhile may be left out. Return: the next
 * member, or NULL.
 */
struct rar_group *rar_group_after(struct rar_net *rn, unsigned long *index)
{
	return xa_find_after(&rn->all, index, ULONG_MAX, XA_PRESENT);
}

/* The same with a reference. */
static struct rar_group *group_get_after(struct rar_net *rn, unsigned long *index)
{
	struct rar_group *grp;

	rcu_read_lock();
	do {
		grp = rar_group_after(rn, index);
	} while (grp && !refcount_inc_not_zero(&grp->ref));
	rcu_read_unlock();
	return grp;
}

/* No socket is left in this netns: drop orphans and tombstones, and wait. */
void rar_group_net_exit(struct rar_net *rn)
{
	struct rar_group *grp;
	unsigned long i = 0;

	while ((grp = group_get_after(rn, &i))) {
		rar_group_unhash(grp);
		rar_group_put(grp);
	}
	wait_var_event(&rn->alive, !atomic_read(&rn->alive));
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
