// SPDX-License-Identifier: GPL-2.0
/*
 * The ranks that a rank may send to beside its neighbours: all others of a
 * small group, or its peers by doubling. Each has a direct link, in a slot.
 */
#include <linux/slab.h>

#include "core/gather.h"
#include "core/stages.h"
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

/*
 * Find the slot of each peer by doubling. If not all ranks have one, each peer
 * gets the next one. A rank that is folded, or whose neighbour is, has one peer
 * in two stages. Return: slots in all.
 */
static u32 doubling_slots(struct rar_member *m, u32 *ranks, u32 n)
{
	struct rar_stages st = rar_stages_of(m->size, m->rank);
	struct rar_stage stage;
	u32 s, i;

	for (s = 0; s < st.n; s++) {
		stage = rar_stage(&st, s);
		if (!stage.sends && !stage.takes)
			continue;
		for (i = 0; i < n && ranks[i] != stage.peer; i++)
			;
		ranks[i] = stage.peer;
		n = max(n, i + 1);
	}
	return n;
}

/* Set the ranks that have a slot. Return: how many have. */
static u32 find_slots(struct rar_member *m, u32 *ranks)
{
	u32 n = 0;

	m->direct.all = to_all(m);
	while (m->direct.all && n < m->size) {
		ranks[n] = n;
		n++;
	}
	return doubling_slots(m, ranks, n);
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
	u32 ranks[RAR_GATHER_RANKS], n, i;
	struct rar_direct_peer *peer;

	BUILD_BUG_ON(RAR_GATHER_RANKS < RAR_STAGES_MAX ||
		     RAR_GATHER_RANKS > 32 || RAR_MAX_OPS > 64);
	if (m->direct.peer && !fits(m))
		forget(m);
	if (m->direct.peer || !allowed(m))
		return 0;
	n = find_slots(m, ranks);
	peer = kvcalloc(n, sizeof(*peer), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!peer)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		peer[i].link.member = m;
		peer[i].link.index = RAR_LINKS + i;
		peer[i].link.rank = ranks[i];
		spin_lock_init(&peer[i].link.rx.lock);
		if (dst_cache_init(&peer[i].link.path.cache,
				   GFP_KERNEL_ACCOUNT)) {
			free_peers(peer, i);
			return -ENOMEM;
		}
	}
	/* Packets find the links only in a member that joins: later. */
	m->direct.n = n;
	m->direct.peer = peer;
	return 0;
}
