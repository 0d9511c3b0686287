// SPDX-License-Identifier: GPL-2.0
/*
 * Members: names, lookup, references, state. Owns struct rar_member.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "core/counters.h"
#include "core/hosts.h"
#include "core/mem.h"
#include "core/member.h"
#include "core/resume.h"
#include "core/trace.h"
#include "core/user.h"
#include "rar.h"

unsigned int rar_net_id;	/* of struct rar_net, see rar_net() */
EXPORT_SYMBOL_GPL(rar_net_id);

static struct workqueue_struct *member_wq;

/* The interval at which a member lets its neighbours hear it, ms. */
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
 * rar_member_set_state() - change the state; nothing else changes it
 * @m: member, @m->lock held
 * @to:  new state
 */
void rar_member_set_state(struct rar_member *m, enum rar_state to)
{
	lockdep_assert_held(&m->lock);
	WARN_ON_ONCE(!(legal_from[to] & BIT(m->state)));
	trace_rar_state(m, m->state, to);
	/* Pairs with the acquire in the receive path: a reader of the state also
	 * sees the fields written before it.
	 */
	smp_store_release(&m->state, to);
}

/* -- lookup -------------------------------------------------------------- */

/* A name: the first fields lie in this order in struct rar_member. */
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

/* All members with this name. RCU read side. */
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
 * A member that left may still answer for its epoch beside the member that replaced it,
 * so the token decides first. The caller compares the token. RCU read side.
 *
 * Return: the member, without a reference, or NULL.
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

/* @peer, if it runs in our epoch; else NULL. */
static struct rar_member *in_epoch(const struct rar_member *m, struct rar_member *peer)
{
	return peer && READ_ONCE(peer->epoch) == m->epoch && peer->payload == m->payload &&
	       rar_member_runs(peer) ? peer : NULL;
}

/**
 * rar_member_peer() - find the member of another rank of a group in the same namespace
 * @m:    member that runs
 * @rank: the rank
 *
 * A rank between them that lies may have told them different lengths of chunks; packets are checked
 * for that. RCU read side.
 *
 * Return: the member, without a reference, or NULL if it is not here or not running in our epoch.
 */
struct rar_member *rar_member_peer(const struct rar_member *m, u32 rank)
{
	return in_epoch(m, rar_member_lookup(m->rn, m->id, rank, m->epoch));
}

/**
 * rar_member_first() - find the member of the first rank of this host, in any namespace
 * @m: member that runs, with RAR_BY_HOSTS
 *
 * RCU read side.
 *
 * Return: as rar_member_peer().
 */
struct rar_member *rar_member_first(const struct rar_member *m)
{
	u32 rank = m->rank - m->place.index;

	return rar_member_peer(m, rank) ?: in_epoch(m, rar_hosts_find(m, rank, m->first_nonce));
}

/* Has a leg of a member a token? */
static bool has_leg(const struct rar_member *m, u64 token)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		if (token == READ_ONCE(link->epoch))
			return true;
	return false;
}

/**
 * rar_member_sender() - find the member that sent a quoted packet
 * @rn:    netns
 * @id:    group id
 * @rank:  source rank of the quoted packet
 * @token: epoch of the quoted packet, of the group or of the leg; or the nonce of a JOIN
 *
 * RCU read side.
 *
 * Return: the member, or job of the box, without a reference, or NULL if none sent it.
 */
struct rar_member *rar_member_sender(struct rar_net *rn, u64 id, u32 rank,
				     u64 token)
{
	struct rhlist_head *pos;
	struct rar_member *m;

	rhl_for_each_entry_rcu(m, pos, member_named(rn, id, rank), node)
		if (token && (token == READ_ONCE(m->epoch) ||
			      token == READ_ONCE(m->join.nonce) || has_leg(m, token)))
			return m;
	return NULL;
}

/**
 * rar_member_sent_by() - find the link by which a member sent a quoted packet
 * @m:     as rar_member_sender() found it
 * @rank:  destination rank of the quoted packet
 * @token: its token
 *
 * RCU read side.
 *
 * Return: the link, or NULL if none leads there whose packets have this token.
 */
struct rar_link *rar_member_sent_by(struct rar_member *m, u32 rank, u64 token)
{
	const struct rar_aside *aside = READ_ONCE(m->aside);
	struct rar_link *link = NULL;

	if (!rar_is_of_box(m, rank))
		link = rar_member_link_to(m, rank);
	else if (aside)
		link = aside->find(m, rank, NULL, token);
	return link && token == (READ_ONCE(link->epoch) ?: m->epoch) ? link : NULL;
}

/* A failed member has its socket, but no longer its name. */
static bool holds_name(const struct rar_member *m)
{
	return READ_ONCE(m->sk) && READ_ONCE(m->state) != RAR_S_FAILED;
}

/* Is the name of @new free, and does its group belong to no other user? */
static int name_free(struct rar_net *rn, const struct rar_member *new)
{
	const struct rar_member *m;
	struct rhlist_head *pos;
	int err = 0;

	rcu_read_lock();
	/* One user owns all members that hold a name of a group. */
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

/* Dumps that began before are not consistent. */
static void next_generation(struct rar_net *rn)
{
	lockdep_assert_held(&rn->lock);
	WRITE_ONCE(rn->generation, rn->generation + 1 ?: 1);
}

/* Put a member into all tables, so that it can be found. */
static int member_insert(struct rar_net *rn, struct rar_member *m)
{
	if (rhltable_insert(&rn->members, &m->node, by_name))
		return -ENOMEM;
	if (rhltable_insert(&rn->ids, &m->id_node, by_id)) {
		rhltable_remove(&rn->members, &m->node, by_name);
		return -ENOMEM;
	}
	/* The entry is reserved, so no memory is needed. */
	xa_store_bh(&rn->all, m->index, m, GFP_ATOMIC);
	next_generation(rn);
	return 0;
}

static void member_remove(struct rar_net *rn, struct rar_member *m)
{
	rhltable_remove(&rn->members, &m->node, by_name);
	rhltable_remove(&rn->ids, &m->id_node, by_id);
	xa_erase_bh(&rn->all, m->index);
	next_generation(rn);
}

/* Name @m. If @old counts for the same user it makes room for @m. */
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
 * @m: from rar_life_alloc()
 * @old: the failed member of the same socket, or NULL
 *
 * Process context.
 *
 * Return: 0; -EADDRINUSE if the rank is taken in this netns; -EACCES if the group belongs
 * to another user; -ENOSPC beyond net.rar.max_members or the limit of the host; -ENOMEM
 * without memory.
 */
int rar_member_hash(struct rar_member *m, struct rar_member *old)
{
	struct rar_net *rn = m->rn;
	int err;

	if (xa_alloc_bh(&rn->all, &m->index, NULL, xa_limit_31b, GFP_KERNEL_ACCOUNT))
		return -ENOMEM;
	spin_lock_bh(&rn->lock);
	err = member_hash(rn, m, old);
	spin_unlock_bh(&rn->lock);
	if (err)
		xa_erase_bh(&rn->all, m->index);
	return err;
}

/**
 * rar_member_hash_job() - let packets find a job of the box
 * @m: made by the box; its epoch tells it from others of the group
 *
 * Process context.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_member_hash_job(struct rar_member *m)
{
	struct rar_net *rn = m->rn;
	int err;

	if (xa_alloc_bh(&rn->all, &m->index, NULL, xa_limit_31b, GFP_KERNEL))
		return -ENOMEM;
	spin_lock_bh(&rn->lock);
	err = member_insert(rn, m);
	if (!err) {
		refcount_inc(&m->ref);
		m->hashed = true;
	}
	spin_unlock_bh(&rn->lock);
	if (err)
		xa_erase_bh(&rn->all, m->index);
	return err;
}
EXPORT_SYMBOL_GPL(rar_member_hash_job);

/* Hold the module: until it ends, an orphan uses it as a socket does. */
void rar_member_hold_module(struct rar_member *m)
{
	/* The socket that is being closed holds a reference already. */
	__module_get(THIS_MODULE);
	m->holds_module = true;
}

/**
 * rar_member_unhash() - let no packet find the member any more
 * @m: member
 *
 * Return: true on the first call; the caller drops the table's reference.
 */
bool rar_member_unhash(struct rar_member *m)
{
	bool was;

	rar_hosts_remove(m);
	spin_lock_bh(&m->rn->lock);
	was = m->hashed;
	if (was)
		member_remove(m->rn, m);
	m->hashed = false;
	spin_unlock_bh(&m->rn->lock);
	return was;
}

/* Let go of the module: nobody needs the member any more. Timer, or last put. */
void rar_member_let_go(struct rar_member *m)
{
	if (!m->holds_module)
		return;
	m->holds_module = false;
	module_put(THIS_MODULE);
}

/* Drop a reference. The last put frees the member later, in a work item. Any context. */
void rar_member_put(struct rar_member *m)
{
	if (refcount_dec_and_test(&m->ref))
		queue_rcu_work(member_wq, &m->free);
}
EXPORT_SYMBOL_GPL(rar_member_put);

/**
 * rar_member_flush() - wait until functions that free members have returned
 *
 * For a module with such a function, after these have told it that they are
 * done. Process context.
 */
void rar_member_flush(void)
{
	flush_workqueue(member_wq);
}
EXPORT_SYMBOL_GPL(rar_member_flush);

/**
 * rar_member_kick() - let the member's timer run at @when or earlier
 * @m:  member, RCU read side or a reference held
 * @when: jiffies
 */
void rar_member_kick(struct rar_member *m, unsigned long when)
{
	/* The handler may run now; it must see what was stored before. Pairs with timer_fired(). */
	smp_mb();
	/* The handler looks at everything, so an earlier run is enough. */
	if (timer_pending(&m->timer) &&
	    time_before_eq(READ_ONCE(m->timer.expires), when))
		return;
	if (READ_ONCE(m->dead) || !refcount_inc_not_zero(&m->ref))
		return;
	/* A timer that is armed already has its own reference. */
	if (timer_reduce(&m->timer, when))
		rar_member_put(m);
	/* Pairs with rar_life_end(): one of the two sees the other. */
	smp_mb();
	if (READ_ONCE(m->dead) && timer_delete(&m->timer))
		rar_member_put(m);
}

/* Let the member's work item run. Any context. */
void rar_member_schedule(struct rar_member *m)
{
	if (READ_ONCE(m->dead) || !refcount_inc_not_zero(&m->ref))
		return;
	if (!queue_work(member_wq, &m->work))
		rar_member_put(m);
}

/* Note that a valid packet came from the neighbour. */
void rar_member_hear(struct rar_link *link)
{
	WRITE_ONCE(link->heard, jiffies);
}

/*
 * This host stood still for @late jiffies: the neighbour has been silent for
 * that much less.
 */
void rar_member_hear_later(struct rar_link *link, unsigned long late)
{
	unsigned long then = READ_ONCE(link->heard), when = then + late;

	/* A packet that comes at the same time on another CPU is newer. */
	cmpxchg(&link->heard, then,
		time_before(when, jiffies) ? when : jiffies);
}
EXPORT_SYMBOL_GPL(rar_member_hear_later);

/* The link to a rank, the first one if there are two; NULL if it is no neighbour. */
struct rar_link *rar_member_link_to(struct rar_member *m, u32 rank)
{
	struct rar_link *link;

	rar_each_link(link, m)
		if (link->rank == rank)
			return link;
	return NULL;
}

/**
 * rar_member_user_rank() - what the user calls a rank
 * @m:    member, @m->lock held
 * @rank: any number
 *
 * Return: its RAR_USER_RANK, or RAR_NO_RANK if that is not known here: the table has not come
 * yet, or is forgotten.
 */
u32 rar_member_user_rank(const struct rar_member *m, u32 rank)
{
	lockdep_assert_held(&m->lock);
	if (rank == m->rank)
		return m->user_rank;
	if (rank >= m->size || !m->join.table || !m->join.table[rank].addr.af)
		return RAR_NO_RANK;
	return m->join.table[rank].user ^ rank;
}

/**
 * rar_member_direct() - find the direct link to another rank
 * @m:    member
 * @rank: of the other rank, may be anything
 *
 * Any context.
 *
 * Return: the link; NULL if there is none.
 */
struct rar_link *rar_member_direct(struct rar_member *m, u32 rank)
{
	/* A join with another schedule takes it away. */
	struct rar_direct_peer *peer = READ_ONCE(m->direct.peer);
	u32 i;

	if (!peer || rank >= m->size || rank == m->rank)
		return NULL;
	if (m->direct.all)
		return &peer[rank].link;
	for (i = 0; i < m->direct.n; i++)
		if (peer[i].link.rank == rank)
			return &peer[i].link;
	return NULL;
}

/* The link with an index, as struct rar_link has it. */
struct rar_link *rar_member_link(struct rar_member *m, u32 index)
{
	return index < RAR_LINKS ? m->link[index] :
				   &m->direct.peer[index - RAR_LINKS].link;
}

static void update_counters(struct rar_member *m)
{
	if (!READ_ONCE(m->counters))
		return;
	spin_lock_bh(&m->lock);
	rar_counters_update(m);
	spin_unlock_bh(&m->lock);
}

/* Wake every thread that waits for anything on the socket, and send it the signals it asks for. */
void rar_member_wake(struct rar_member *m)
{
	struct sock *sk;

	update_counters(m);
	rcu_read_lock();
	sk = READ_ONCE(m->sk);	/* SOCK_RCU_FREE */
	if (sk) {
		/* It wakes for all events. */
		sk->sk_state_change(sk);
		sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_IN);
		sk_wake_async(sk, SOCK_WAKE_SPACE, POLL_OUT);
	}
	rcu_read_unlock();
}

int rar_member_net_init(struct rar_net *rn)
{
	int err;

	xa_init_flags(&rn->all, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	spin_lock_init(&rn->lock);
	rn->generation = 1;
	INIT_LIST_HEAD(&rn->mem_members);
	rn->mem_lowest = U64_MAX;
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

/* Free the tables, when no packet comes any more. */
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
 * RCU read side. Members that come or go meanwhile may be left out.
 *
 * Return: the next member, or NULL.
 */
struct rar_member *rar_member_after(struct rar_net *rn, unsigned long *index)
{
	return xa_find_after(&rn->all, index, ULONG_MAX, XA_PRESENT);
}

/* Like rar_member_after(), but returns the member with a reference. */
struct rar_member *rar_member_get_after(struct rar_net *rn, unsigned long *index)
{
	struct rar_member *m;

	rcu_read_lock();
	do {
		m = rar_member_after(rn, index);
	} while (m && !refcount_inc_not_zero(&m->ref));
	rcu_read_unlock();
	return m;
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

/**
 * rar_member_leave() - begin to tell both neighbours that this rank posts nothing more
 * @m: member, @m->lock held
 * @why: RAR_R_LEFT, or RAR_R_DIED if its process exits
 */
void rar_member_leave(struct rar_member *m, enum rar_reason why)
{
	struct rar_leave *leave = &m->leave;
	struct rar_link *link;

	lockdep_assert_held(&m->lock);
	if (m->state != RAR_S_RUN)
		return;
	rar_member_set_state(m, RAR_S_LEAVING);
	if (leave->left || m->size == 1)
		return;
	leave->left = true;
	leave->rank = m->rank;
	leave->why = why;
	leave->last = m->op_next;
	rar_each_link(link, m)
		leave->fin_due[link->index] = rar_link_to_rank(link);
	leave->fin_next = jiffies;
}

/**
 * rar_member_run() - enter RUN when the epoch is committed
 * @m: member in READY, or JOINING when it is alone; @m->lock held
 */
void rar_member_run(struct rar_member *m)
{
	struct rar_link *link;

	lockdep_assert_held(&m->lock);
	rar_each_link(link, m)
		link->heard = jiffies;
	rar_each_partner(link, m)
		link->heard = jiffies;
	rar_member_set_state(m, RAR_S_RUN);
	rar_resume_forget(m);
	rar_mib_inc(m->rn, GroupsJoined);
}
