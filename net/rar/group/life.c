// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a member: made by bind(), ended by close(), freed with its last reference.
 */
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "core/mem.h"
#include "core/member.h"
#include "core/seal.h"
#include "core/user.h"
#include "group/leave.h"
#include "group/life.h"
#include "group/peers.h"
#include "group/timer.h"
#include "link/early.h"
#include "link/link.h"
#include "rar.h"
#include "tx/device.h"
#include "tx/port.h"
#include "tx/sender.h"

/* End a member: no packet finds it, its timer stops. Drops the table's reference. */
void rar_life_end(struct rar_member *m)
{
	if (!rar_member_unhash(m))
		return;

	WRITE_ONCE(m->dead, true);
	smp_mb(); /* pairs with rar_member_kick() */
	rar_link_stop(m);
	if (timer_delete(&m->timer))
		rar_member_put(m);
	rar_member_put(m);
}
EXPORT_SYMBOL_GPL(rar_life_end);

/* Detach the socket, which no longer counts among the members of this namespace. */
void rar_life_detach(struct rar_member *m)
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

/**
 * rar_life_forget() - drop all operations of a member, which no rank needs any more
 * @m: member
 *
 * Any context.
 */
void rar_life_forget(struct rar_member *m)
{
	u64 bytes;

	spin_lock_bh(&m->lock);
	bytes = m->leave.orphan_bytes;
	m->leave.orphan_bytes = 0;
	spin_unlock_bh(&m->lock);
	rar_user_orphan_end(m->user, bytes);
}

static void free_work(struct work_struct *work)
{
	struct rar_member *m = container_of(to_rcu_work(work),
					    struct rar_member, free);
	struct rar_net *rn = m->rn;

	rar_mem_forget(m);
	rar_link_flush(m);
	rar_life_forget(m);
	rar_early_flush(m);
	rar_device_set(rn, &m->hook_lo, 0);
	rar_seal_free(m);
	rar_link_free(m);
	rar_peers_free(m);
	rar_sender_put_all(m);
	rar_port_put_lanes(m);
	rar_port_put(rn, m->port);
	kvfree(m->join.table);
	kfree(m->rail);
	rar_user_alive(m->user, -1);
	rar_user_put(m->user);
	rar_member_let_go(m);
	kfree(m);
	if (atomic_dec_and_test(&rn->alive))
		wake_up_var(&rn->alive);
}

/* Take what a member refers to; takes nothing if it fails. */
static int init_refs(struct rar_member *m)
{
	u32 last = m->size - 1;
	int err;

	m->user = rar_user_get();
	if (!m->user)
		return -ENOMEM;
	err = rar_link_init(m, m->rank == last ? 0 : m->rank + 1,
			    m->rank ? m->rank - 1 : last);
	if (err)
		rar_user_put(m->user);
	return err;
}

/**
 * rar_life_alloc() - make a member
 * @rn:   netns
 * @self: its address, checked
 *
 * Process context. The caller calls rar_timer_init().
 *
 * Return: the member in state BOUND with one reference, not hashed, or NULL.
 */
struct rar_member *rar_life_alloc(struct rar_net *rn,
				  const struct sockaddr_rar *self)
{
	struct rar_member *m;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return NULL;
	m->rn = rn;
	m->id = self->srar_group;
	m->rank = self->srar_rank;
	m->size = self->srar_size;
	m->user_rank = m->rank;
	if (init_refs(m)) {
		kfree(m);
		return NULL;
	}
	refcount_set(&m->ref, 1);
	m->uid = current_fsuid();
	m->state = RAR_S_BOUND;
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->undelivered);
	INIT_LIST_HEAD(&m->pinned);
	INIT_LIST_HEAD(&m->want_node);
	INIT_LIST_HEAD(&m->mem_node);
	rar_early_init(m);
	INIT_RCU_WORK(&m->free, free_work);
	m->straggler.rank = RAR_NO_RANK;
	rar_user_alive(m->user, 1);
	atomic_inc(&rn->alive);
	return m;
}

/* At the end of a namespace, which has no socket left: drop orphans and tombstones, wait. */
void rar_life_net_exit(struct rar_net *rn)
{
	struct rar_member *m;
	unsigned long i = 0;

	while ((m = rar_member_get_after(rn, &i))) {
		rar_life_end(m);
		rar_member_put(m);
	}
	wait_var_event(&rn->alive, !atomic_read(&rn->alive));
}
