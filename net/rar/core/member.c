// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: lookup, state, memory, the timer, operations. Owns struct rar_member.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "tx/port.h"
#include "core/mem.h"
#include "rar.h"
#include "core/trace.h"
#include "core/user.h"

static struct workqueue_struct *member_wq;

/* The rank of the neighbour in @dir. */
u32 rar_member_rank(const struct rar_member *m, enum rar_dir dir)
{
	if (dir == RAR_NEXT)
		return m->rank + 1 == m->size ? 0 : m->rank + 1;
	return m->rank ? m->rank - 1 : m->size - 1;
}

/* How often a member lets its neighbours hear something, ms. */
u32 rar_member_keepalive_ms(const struct rar_member *m)
{
	return clamp(READ_ONCE(m->rn->sysctl_dead_ms) / 5, 10, 1000);
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
 * rar_member_set_state() - the one place that changes the state
 * @m: member, @m->lock held
 * @to:  new state
 */
void rar_member_set_state(struct rar_member *m, enum rar_state to)
{
	lockdep_assert_held(&m->lock);
	WARN_ON_ONCE(!(legal_from[to] & BIT(m->state)));
	trace_rar_state(m, m->state, to);
	/* Pairs with the acquire in the receive path: what belongs to the
	 * state is seen with it.
	 */
	smp_store_release(&m->state, to);
}

/* -- lookup -------------------------------------------------------------- */

/* The first fields of a name lie side by side in struct rar_member. */
struct member_name {
	u64 id;
	u32 rank;
} __packed;

static_assert(offsetof(struct rar_member, rank) ==
	      offsetof(struct rar_member, id) + offsetof(struct member_name, rank));

static const struct rhashtable_params by_name = {
	.head_offset = offsetof(struct rar_member, node),
	.key_offset = offsetof(struct rar_member, id),
	.key_len = sizeof(struct member_name),
	.automatic_shrinking = true,
};

static const struct rhashtable_params by_id = {
	.head_offset = offsetof(struct rar_member, id_node),
	.key_offset = offsetof(struct rar_member, id),
	.key_len = sizeof(u64),
	.automatic_shrinking = true,
};

/* All members of a name. RCU read side. */
static struct rhlist_head *member_named(struct rar_net *rn, u64 id, u32 rank)
{
	const struct member_name name = { id, rank };

	return rhltable_lookup(&rn->members, &name, by_name);
}

/**
 * rar_member_lookup() - find the member a packet is for
 * @rn:    netns
 * @id:    group id
 * @rank:  destination rank
 * @token: epoch or nonce of the packet
 *
 * A member that left may still answer for its epoch beside the one that took
 * its place, so the token decides first. Context: RCU read side. Return: the
 * member, without a reference, or NULL. The caller compares the token.
 */
struct rar_member *rar_member_lookup(struct rar_net *rn, u64 id, u32 rank,
				     u64 token)
{
	struct rar_member *m, *live = NULL;
	struct rhlist_head *pos;

	rhl_for_each_entry_rcu(m, pos, member_named(rn, id, rank), node) {
		if (token && (token == READ_ONCE(m->epoch) ||
			      (token == READ_ONCE(m->join.nonce) &&
			       READ_ONCE(m->state) <= RAR_S_RUN)))
			return m;
		if (READ_ONCE(m->sk) &&
		    (!live || READ_ONCE(m->state) != RAR_S_FAILED))
			live = m;
	}
	return live;
}

/**
 * rar_member_sender() - which member has sent a packet that is quoted?
 * @rn:    netns
 * @id:    group id
 * @rank:  source rank of the quoted packet
 * @token: its epoch, or in a JOIN the nonce
 *
 * Context: RCU read side. Return: the member, or NULL if none has sent that.
 */
struct rar_member *rar_member_sender(struct rar_net *rn, u64 id, u32 rank,
				     u64 token)
{
	struct rar_member *m = token ? rar_member_lookup(rn, id, rank, token) :
					NULL;

	if (m && token != READ_ONCE(m->epoch) &&
	    token != READ_ONCE(m->join.nonce))
		return NULL;
	return m;
}

/* A failed member holds its socket, but no name any more. */
static bool holds_name(const struct rar_member *m)
{
	return READ_ONCE(m->sk) && READ_ONCE(m->state) != RAR_S_FAILED;
}

/* Is the name of @new free, and the group not another user's? */
static int name_free(struct rar_net *rn, const struct rar_member *new)
{
	const struct rar_member *m;
	struct rhlist_head *pos;
	int err = 0;

	rcu_read_lock();
	/* All who hold a name of a group are one user's. */
	rhl_for_each_entry_rcu(m, pos, rhltable_lookup(&rn->ids, &new->id, by_id), id_node)
		if (holds_name(m)) {
			err = uid_eq(m->uid, new->uid) ? 0 : -EACCES;
			break;
		}
	rhl_for_each_entry_rcu(m, pos, member_named(rn, new->id, new->rank), node)
		if (!err && holds_name(m))
			err = -EADDRINUSE;
	rcu_read_unlock();
	return err;
}

/* Into all tables: it can be found. */
static int member_insert(struct rar_net *rn, struct rar_member *m)
{
	if (rhltable_insert(&rn->members, &m->node, by_name))
		return -ENOBUFS;
	if (rhltable_insert(&rn->ids, &m->id_node, by_id)) {
		rhltable_remove(&rn->members, &m->node, by_name);
		return -ENOBUFS;
	}
	/* The place is there: no memory is needed. */
	xa_store_bh(&rn->all, m->index, m, GFP_ATOMIC);
	return 0;
}

static void member_remove(struct rar_net *rn, struct rar_member *m)
{
	rhltable_remove(&rn->members, &m->node, by_name);
	rhltable_remove(&rn->ids, &m->id_node, by_id);
	xa_erase_bh(&rn->all, m->index);
}

/* @old, if it counts for the same user, makes room for @m. */
static int member_hash(struct rar_net *rn, struct rar_member *m, struct rar_member *old)
{
	bool again = old && old->counted && old->user == m->user;
	int err;

	lockdep_assert_held(&rn->lock);
	if (!rar_user_may_bind(m->user, again ? 0 : rn->nmembers, atomic_read(&rn->alive),
			       READ_ONCE(rn->sysctl_max_members)))
		return -ENOSPC;
	err = name_free(rn, m);
	if (!err)
		err = rar_user_bind(m->user, again);
	if (err)
		return err;
	err = member_insert(rn, m);
	if (err) {
		if (!again)
			rar_user_unbind(m->user);
		return err;
	}
	refcount_inc(&m->ref);
	m->hashed = true;
	m->counted = true;
	if (again)
		old->counted = false;
	else
		rn->nmembers++;
	return 0;
}

/**
 * rar_member_hash() - make a member known under its name
 * @m: from rar_member_alloc()
 * @old: the failed member of the same socket, or NULL
 *
 * Process context. Return: 0, -EADDRINUSE if the rank is taken in this netns, -EACCES
 * if the group belongs to another user, -ENOSPC beyond net.rar.max_groups or the limit
 * of the host, -ENOBUFS without memory.
 */
int rar_member_hash(struct rar_member *m, struct rar_member *old)
{
	struct rar_net *rn = m->rn;
	int err;

	if (xa_alloc_bh(&rn->all, &m->index, NULL, xa_limit_31b, GFP_KERNEL_ACCOUNT))
		return -ENOBUFS;
	spin_lock_bh(&rn->lock);
	err = member_hash(rn, m, old);
	spin_unlock_bh(&rn->lock);
	if (err)
		xa_erase_bh(&rn->all, m->index);
	return err;
}

/* The end: no packet finds it, its timer stops. Drops the table's reference. */
void rar_member_unhash(struct rar_member *m)
{
	bool was;

	spin_lock_bh(&m->rn->lock);
	was = m->hashed;
	if (was)
		member_remove(m->rn, m);
	m->hashed = false;
	spin_unlock_bh(&m->rn->lock);
	if (!was)
		return;

	WRITE_ONCE(m->dead, true);
	smp_mb(); /* pairs with rar_member_kick() */
	rar_link_stop(m);
	if (timer_delete(&m->timer))
		rar_member_put(m);
	rar_member_put(m);
}

/* The socket no longer counts among the members of this netns. */
void rar_member_detach(struct rar_member *m)
{
	spin_lock_bh(&m->rn->lock);
	if (m->counted) {
		m->rn->nmembers--;
		rar_user_unbind(m->user);
	}
	m->counted = false;
	/* Pairs with the acquire in rar_leave_check_orphan(). */
	smp_store_release(&m->sk, NULL);
	spin_unlock_bh(&m->rn->lock);
	rar_sender_detach(m);
	rar_mem_want(m, 0);
}

/* -- memory -------------------------------------------------------------- */

static void member_timer(struct timer_list *t);
static void member_work(struct work_struct *work);

/* An orphan counts as a user of the module, as a socket does, until it ends. */
void rar_member_hold_module(struct rar_member *m)
{
	/* The socket that is being closed has a reference. */
	__module_get(THIS_MODULE);
	m->holds_module = true;
}

/* Nobody needs the member any more. Timer, or the last reference is gone. */
void rar_member_let_go(struct rar_member *m)
{
	if (!m->holds_module)
		return;
	m->holds_module = false;
	module_put(THIS_MODULE);
}

static void member_free_work(struct work_struct *work)
{
	struct rar_member *m = container_of(to_rcu_work(work),
					    struct rar_member, free);
	struct rar_net *rn = m->rn;
	int i;

	rar_mem_forget(m);
	rar_link_flush(m);
	rar_leave_forget(m);
	rar_early_flush(m);
	for (i = 0; i < ARRAY_SIZE(m->hook); i++)
		rar_hook_set(rn, &m->hook[i], 0);
	for (i = 0; i < RAR_DIRS; i++)
		dst_cache_destroy(&m->path[i].cache);
	rar_sender_put_all(m);
	rar_port_put_lanes(m);
	rar_port_put(rn, m->port);
	kfree(m->tx.sent);
	kvfree(m->join.table);
	rar_user_alive(m->user, -1);
	rar_user_put(m->user);
	memzero_explicit(&m->trust, sizeof(m->trust));
	rar_member_let_go(m);
	kfree(m);
	if (atomic_dec_and_test(&rn->alive))
		wake_up_var(&rn->alive);
}

/* Any context. The last reference frees the group, later, in a work item. */
void rar_member_put(struct rar_member *m)
{
	if (refcount_dec_and_test(&m->ref))
		queue_rcu_work(member_wq, &m->free);
}

static int member_init_paths(struct rar_member *m)
{
	int err;

	err = dst_cache_init(&m->path[RAR_NEXT].cache, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	err = dst_cache_init(&m->path[RAR_PREV].cache, GFP_KERNEL_ACCOUNT);
	if (err)
		dst_cache_destroy(&m->path[RAR_NEXT].cache);
	return err;
}

/* What a member refers to; nothing if it fails. */
static int member_init_refs(struct rar_member *m)
{
	int err;

	m->user = rar_user_get();
	if (!m->user)
		return -ENOMEM;
	err = member_init_paths(m);
	if (err)
		rar_user_put(m->user);
	return err;
}

/**
 * rar_member_alloc() - make a member
 * @rn:   netns
 * @self: its address, checked
 *
 * Process context. Return: the member in state BOUND with one reference, not
 * hashed, or NULL.
 */
struct rar_member *rar_member_alloc(struct rar_net *rn,
				    const struct sockaddr_rar *self)
{
	struct rar_member *m;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return NULL;
	if (member_init_refs(m)) {
		kfree(m);
		return NULL;
	}
	refcount_set(&m->ref, 1);
	m->rn = rn;
	m->id = self->srar_group;
	m->rank = self->srar_rank;
	m->size = self->srar_size;
	m->uid = current_fsuid();
	m->state = RAR_S_BOUND;
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->undelivered);
	INIT_LIST_HEAD(&m->pinned);
	INIT_LIST_HEAD(&m->want_node);
	INIT_LIST_HEAD(&m->mem_node);
	rar_early_init(m);
	timer_setup(&m->timer, member_timer, 0);
	INIT_WORK(&m->work, member_work);
	INIT_RCU_WORK(&m->free, member_free_work);
	rar_link_init(m);
	m->straggler.rank = RAR_NO_RANK;
	rar_user_alive(m->user, 1);
	atomic_inc(&rn->alive);
	return m;
}

/* -- timer and work ------------------------------------------------------ */

/**
 * rar_member_kick() - let the timer look at the group at @when or earlier
 * @m:  member, RCU read side or a reference held
 * @when: jiffies
 */
void rar_member_kick(struct rar_member *m, unsigned long when)
{
	/* What the handler shall see was stored before; it may run now. */
	smp_mb();
	/* It looks at everything, so an earlier one will do. */
	if (timer_pending(&m->timer) &&
	    time_before_eq(READ_ONCE(m->timer.expires), when))
		return;
	if (READ_ONCE(m->dead) || !refcount_inc_not_zero(&m->ref))
		return;
	/* An armed timer has its own reference already. */
	if (timer_reduce(&m->timer, when))
		rar_member_put(m);
	/* Pairs with rar_member_unhash(): one of the two sees the other. */
	smp_mb();
	if (READ_ONCE(m->dead) && timer_delete(&m->timer))
		rar_member_put(m);
}

/* Let the work item look at the group. Any context. */
void rar_member_schedule(struct rar_member *m)
{
	if (READ_ONCE(m->dead) || !refcount_inc_not_zero(&m->ref))
		return;
	if (!queue_work(member_wq, &m->work))
		rar_member_put(m);
}

/* A valid packet came from the neighbour. */
void rar_member_hear(struct rar_member *m, enum rar_dir dir)
{
	WRITE_ONCE(m->heard[dir], jiffies);
}

/* Does send() lack memory? The group ends if that takes too long. */
static bool member_tick_memory(struct rar_member *m)
{
	int ret = rar_mem_tick(m);

	if (ret < 0)
		rar_fail_pair(m, -ret, ret == -ETIMEDOUT ? RAR_R_TIMEOUT : RAR_R_NOMEM,
			      m->rank, m->rank, READ_ONCE(m->op_next));
	return ret;
}

static unsigned long member_tick_running(struct rar_member *m)
{
	unsigned long next = jiffies +
			     msecs_to_jiffies(rar_member_keepalive_ms(m));
	bool told = true;

	if (m->size == 1)
		return next;
	if (READ_ONCE(m->op_timeout_ms))
		next = min(next, jiffies + HZ / 20);
	if (member_tick_memory(m))
		next = min(next, jiffies + RAR_MEM_TICK);
	if (m->left) {
		told = rar_leave_tick(m);
		if (!told && time_before(m->fin_next, next))
			next = m->fin_next;
	}
	if (m->tombstone)
		return m->expires;
	next = min(next, rar_fail_tick(m));
	if (m->left && rar_member_idle(m) &&
	    READ_ONCE(m->op_oldest) == READ_ONCE(m->op_next))
		return next;
	return min(next, rar_loss_keepalive(m));
}

static void member_timer(struct timer_list *t)
{
	struct rar_member *m = container_of(t, struct rar_member, timer);
	unsigned long next = jiffies + HZ;

	rcu_read_lock();
	/* Pairs with the release in rar_member_set_state(). */
	switch (smp_load_acquire(&m->state)) {
	case RAR_S_JOINING:
	case RAR_S_READY:
		next = rar_join_tick(m);
		break;
	case RAR_S_RUN:
	case RAR_S_LEAVING:
		next = member_tick_running(m);
		break;
	case RAR_S_FAILED:
		next = m->sk ? jiffies + HZ : m->expires;
		break;
	}
	rar_leave_check_orphan(m);
	if (READ_ONCE(m->state) != RAR_S_BOUND)
		rar_member_kick(m, next);
	rcu_read_unlock();
	rar_member_put(m);
}

/* The predecessor's packets come in through this device now. */
static void member_hook_prev(struct rar_member *m)
{
	int dev = READ_ONCE(m->prev_dev);

	if (dev)
		rar_hook_set(m->rn, &m->hook[2], dev);
}

/* There is room for own chunks again. As for packets, who finds the group failed stops. */
static void member_push(struct rar_member *m)
{
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_runs(m))
		rar_link_push(m);
	rcu_read_unlock();
	local_bh_enable();
}

static void member_work(struct work_struct *work)
{
	struct rar_member *m = container_of(work, struct rar_member, work);

	member_push(m);
	rar_fail_check_owner(m);
	rar_join_route_again(m);
	if (rar_member_state(m) == RAR_S_FAILED)
		rar_early_flush(m);
	member_hook_prev(m);
	rar_member_put(m);
}

/**
 * rar_member_run() - the epoch is committed
 * @m: member in READY, or JOINING when it is alone; @m->lock held
 */
void rar_member_run(struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	m->heard[RAR_NEXT] = jiffies;
	m->heard[RAR_PREV] = jiffies;
	rar_member_set_state(m, RAR_S_RUN);
	rar_resume_forget(m);
	rar_mib_inc(m->rn, GroupsJoined);
}

/* Wake everybody who waits for anything on the socket. */
void rar_member_wake(struct rar_member *m)
{
	struct sock *sk;

	rcu_read_lock();
	sk = READ_ONCE(m->sk);	/* SOCK_RCU_FREE */
	if (sk) {
		sk->sk_state_change(sk);
		sk->sk_data_ready(sk);
		sk->sk_write_space(sk);
	}
	rcu_read_unlock();
}

/* -- operations ---------------------------------------------------------- */

static int __member_may_post(struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	if (m->state == RAR_S_FAILED)
		return -m->error.err;
	if (m->shut || m->state == RAR_S_LEAVING)
		return -EPIPE;
	if (m->state != RAR_S_RUN)
		return -ENOTCONN;
	if (m->nundelivered == RAR_MAX_OPS)
		return rar_member_idle(m) ? -ENOBUFS : -EAGAIN;
	if (rcu_access_pointer(m->ops[m->op_next % RAR_MAX_OPS]))
		return -EAGAIN;
	return 0;
}

/**
 * rar_member_may_post() - could an operation be posted now?
 * @m: member
 *
 * Return: as rar_member_post().
 */
int rar_member_may_post(struct rar_member *m)
{
	int err;

	spin_lock_bh(&m->lock);
	err = __member_may_post(m);
	spin_unlock_bh(&m->lock);
	return err;
}

/**
 * rar_member_post() - hand an operation to the ring
 * @m: member
 * @op:  scheduled and filled; the caller's reference passes to the list of
 *       undelivered operations on success
 *
 * Process context, send_lock held. Return: 0; -EAGAIN if the table is full;
 * -ENOBUFS if all in it are complete and unread; -EPIPE, -ENOTCONN or the
 * group's error.
 */
int rar_member_post(struct rar_member *m, struct rar_operation *op)
{
	u64 bytes = op->ring.bytes, seq;
	bool steps = op->step && !op->pinned;
	enum rar_reason left_why;
	u32 left_rank;
	bool late;
	int err;

	spin_lock_bh(&m->lock);
	err = __member_may_post(m);
	if (err) {
		spin_unlock_bh(&m->lock);
		return err;
	}
	seq = m->op_next;
	late = m->left && seq >= m->left_last;
	left_rank = m->left_rank;
	left_why = m->left_why;
	op->seq = seq;
	list_add_tail(&op->node, &m->undelivered);
	m->nundelivered++;
	refcount_inc(&op->ref);
	rar_pin_posted(m, op);
	rar_link_post(m, op);
	spin_unlock_bh(&m->lock);

	rar_mib_inc(m->rn, OpsPosted);
	rar_mib_add(m->rn, OpBytes, bytes);
	if (late) {
		rar_fail_pair(m, ECONNRESET, left_why, left_rank, left_rank,
			      seq);
		return 0;
	}
	rar_early_post(m, seq, false);
	rar_member_kick(m, jiffies + 1);
	/* Who waits for it wants to be woken for its steps. */
	if (steps)
		rar_member_wake(m);
	return 0;
}

/**
 * rar_member_op_done() - every chunk of an operation is published
 * @m: member
 * @op:  operation
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_member_op_done(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->lock);
	if (!list_empty(&op->node)) {
		op->complete = true;
		WRITE_ONCE(m->ops_complete, m->ops_complete + 1);
		rar_mib_inc(m->rn, OpsDone);
		if (m->shut && rar_member_idle(m)) {
			rar_leave_start(m);
			rar_member_kick(m, jiffies);
		}
	}
	spin_unlock_bh(&m->lock);
	trace_rar_op(m, op->seq, op->ring.bytes);
	rar_link_release(m, op);
	rar_member_wake(m);
}

/**
 * rar_member_op_delivered() - the user has read all of it
 * @m: member
 * @op:  complete; the list's reference is dropped
 */
void rar_member_op_delivered(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->lock);
	list_del_init(&op->node);
	m->nundelivered--;
	spin_unlock_bh(&m->lock);
	rar_member_wake(m);
	rar_op_put(op);
}

/* -- netns and module ---------------------------------------------------- */

int rar_member_net_init(struct rar_net *rn)
{
	int err;

	xa_init_flags(&rn->all, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	spin_lock_init(&rn->lock);
	INIT_LIST_HEAD(&rn->mem_members);
	atomic64_set(&rn->early, 0);
	atomic_set(&rn->alive, 0);
	err = rhltable_init(&rn->members, &by_name);
	if (err)
		return err;
	err = rhltable_init(&rn->ids, &by_id);
	if (err)
		rhltable_destroy(&rn->members);
	return err;
}

/* No packet comes any more. */
void rar_member_net_free(struct rar_net *rn)
{
	rhltable_destroy(&rn->ids);
	rhltable_destroy(&rn->members);
	WARN_ON(!xa_empty(&rn->all));
	xa_destroy(&rn->all);
}

/**
 * rar_member_after() - go through the members of a namespace
 * @rn:    netns
 * @index: 0 at first, then as this function has set it
 *
 * RCU read side. Members that come or go meanwhile may be left out. Return: the next
 * member, or NULL.
 */
struct rar_member *rar_member_after(struct rar_net *rn, unsigned long *index)
{
	return xa_find_after(&rn->all, index, ULONG_MAX, XA_PRESENT);
}

/* The same with a reference. */
static struct rar_member *member_get_after(struct rar_net *rn, unsigned long *index)
{
	struct rar_member *m;

	rcu_read_lock();
	do {
		m = rar_member_after(rn, index);
	} while (m && !refcount_inc_not_zero(&m->ref));
	rcu_read_unlock();
	return m;
}

/* No socket is left in this netns: drop orphans and tombstones, and wait. */
void rar_member_net_exit(struct rar_net *rn)
{
	struct rar_member *m;
	unsigned long i = 0;

	while ((m = member_get_after(rn, &i))) {
		rar_member_unhash(m);
		rar_member_put(m);
	}
	wait_var_event(&rn->alive, !atomic_read(&rn->alive));
}

int rar_member_init(void)
{
	member_wq = alloc_workqueue("rar", WQ_UNBOUND, 0);
	return member_wq ? 0 : -ENOMEM;
}

void rar_member_exit(void)
{
	rcu_barrier();
	destroy_workqueue(member_wq);
	rcu_barrier();
}
