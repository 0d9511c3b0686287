// SPDX-License-Identifier: GPL-2.0
/*
 * The ranks that a rank may send to beside its neighbours: all others of a
 * small group, or its peers by halving, among which are those by doubling. Each
 * has a direct link, in a slot.
 */
#include <linux/slab.h>

#include "core/gather.h"
#include "core/halving.h"
#include "group/peers.h"
#include "link/rail.h"
#include "rar.h"

/* May this rank send to all others? */
static bool to_all(const struct rar_member *m)
{
	return (m->schedule == RAR_DIRECT || m->schedule == RAR_AUTO) &&
	       m->size <= RAR_GATHER_RANKS;
}

/* Does the schedule have such links? */
static bool allowed(const struct rar_member *m)
{
	return m->size > 1 && (to_all(m) || m->schedule == RAR_AUTO ||
			       m->schedule == RAR_DOUBLING);
}

/* Do the links suit the present schedule? */
static bool fits(const struct rar_member *m)
{
	return allowed(m) && m->direct.all == to_all(m);
}

/*
 * May this join lead to operations that go by direct links? The links may be
 * of a join before it.
 */
bool rar_peers_wanted(const struct rar_member *m)
{
	return m->direct.peer && fits(m);
}

/* Find the ranks that have a slot. */
static void find_slots(struct rar_member *m, struct rar_partners *slots)
{
	m->direct.all = to_all(m);
	if (!m->direct.all) {
		rar_halves_partners(m->size, m->rank, slots);
		return;
	}
	for (slots->n = 0; slots->n < m->size; slots->n++)
		slots->rank[slots->n] = slots->n;
}

static void free_peers(struct rar_direct_peer *peer, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		rar_rail_free(&peer[i].link);
		dst_cache_destroy(&peer[i].link.path.cache);
		kfree(peer[i].link.tx.sent);
		bitmap_free(peer[i].link.rx.seen);
	}
	kvfree(peer);
}

/* At the end of a member. */
void rar_peers_free(struct rar_member *m)
{
	free_peers(m->direct.peer, m->direct.peer ? m->direct.n : 0);
}

/* Give up the links of an earlier join, which failed. Process context. */
static void forget(struct rar_member *m)
{
	struct rar_direct_peer *peer = m->direct.peer;

	m->direct.below = 0;
	m->direct.doubling_below = 0;
	m->direct.halving_below = 0;
	WRITE_ONCE(m->direct.partners, 0);
	WRITE_ONCE(m->direct.paired, false);
	WRITE_ONCE(m->direct.peer, NULL);
	/* Packets and timers of that join may still look at them. */
	synchronize_rcu();
	free_peers(peer, m->direct.n);
	m->direct.n = 0;
}

/**
 * rar_peers_prepare() - get the direct links if the group may use them
 * @m: member that begins to join
 *
 * Process context, one caller at a time.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_peers_prepare(struct rar_member *m)
{
	struct rar_direct_peer *peer;
	struct rar_partners slots;
	u32 i;

	/* A bit each; of those to which anything goes without numbers, 32. */
	BUILD_BUG_ON(RAR_PARTNERS_MAX > 64 || RAR_GATHER_RANKS > 32 ||
		     RAR_MAX_OPS > 64);
	if (m->direct.peer && !fits(m))
		forget(m);
	if (m->direct.peer || !allowed(m))
		return 0;
	find_slots(m, &slots);
	peer = kvcalloc(slots.n, sizeof(*peer),
			GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!peer)
		return -ENOMEM;
	for (i = 0; i < slots.n; i++) {
		peer[i].link.member = m;
		peer[i].link.index = RAR_LINKS + i;
		peer[i].link.rank = slots.rank[i];
		spin_lock_init(&peer[i].link.rx.lock);
		if (dst_cache_init(&peer[i].link.path.cache,
				   GFP_KERNEL_ACCOUNT)) {
			free_peers(peer, i);
			return -ENOMEM;
		}
	}
	/* Packets find the links only in a member that joins: later. */
	m->direct.n = slots.n;
	m->direct.peer = peer;
	return 0;
}
