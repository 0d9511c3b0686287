// SPDX-License-Identifier: GPL-2.0
/*
 * The door of the box, for groups with seals: with the key of the box it tells
 * whose ENTER is right, and answers those that have no leg yet. Legs have keys
 * of their own, see rar_seal_leg().
 */
#include <linux/slab.h>

#include "box/door.h"
#include "core/key.h"
#include "core/mib.h"
#include "core/seal.h"
#include "group/self.h"
#include "link/link.h"

/*
 * Make a member that sends as @box->self does, but with seals. Return: NULL
 * without memory.
 */
static struct rar_member *sealed_new(const struct rar_box *box,
				     const struct rar_secret *key)
{
	struct rar_member *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return NULL;
	if (rar_self_init(m, box->self, &box->self->self)) {
		kfree(m);
		return NULL;
	}
	m->rank = RAR_BOX_RANK;
	m->security = RAR_SECURITY_AUTH;
	m->tail = sizeof(struct rar_seal_tail);
	rar_key_set_box(m, key);
	return m;
}

/**
 * rar_door_set_key() - let a box that is on have another key
 * @box: the box
 * @key: the key; without a length there is none
 *
 * Process context, rn->box_lock held. Jobs keep the key that they began with.
 *
 * Return: 0 or -ENOMEM, and nothing has changed.
 */
int rar_door_set_key(struct rar_box *box, const struct rar_secret *key)
{
	struct rar_member *old, *m = NULL;

	lockdep_assert_held(&box->rn->box_lock);
	if (key->len) {
		m = sealed_new(box, key);
		if (!m)
			return -ENOMEM;
	}
	old = rcu_replace_pointer(box->sealed, m,
				  lockdep_is_held(&box->rn->box_lock));
	if (!old)
		return 0;
	synchronize_rcu();
	rar_seal_free(old);
	rar_link_free(old);
	kfree(old);
	return 0;
}

/* The member that answers strangers with seals, or NULL. RCU read side. */
struct rar_member *rar_door_self(const struct rar_box *box)
{
	return rcu_dereference(box->sealed);
}

/**
 * rar_door_opens() - is the seal of an ENTER right?
 * @box: the box
 * @pkt: the packet, without its seal; its skb may change as rar_seal_open()
 *       says. If the seal is wrong, or the box has no key, it is counted as a
 *       drop
 *
 * Softirq, RCU read side.
 *
 * Return: true if somebody with the key of the box sent it.
 */
bool rar_door_opens(struct rar_box *box, struct rar_pkt *pkt)
{
	struct rar_member *self = rar_door_self(box);
	enum rar_rx ret = RAR_DROP(Seal);

	if (self)
		ret = rar_seal_open(self, pkt, pkt->off, pkt->len);
	if (ret != RAR_RX_DONE)
		this_cpu_inc(box->rn->mib->v[rar_rx_why(ret)]);
	return ret == RAR_RX_DONE;
}
