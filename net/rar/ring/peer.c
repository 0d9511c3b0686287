// SPDX-License-Identifier: GPL-2.0
/* When a rank that chunks go to directly is asked next (see ring/ask.c). */
#include "core/member.h"
#include "link/link.h"
#include "rar.h"
#include "ring/peer.h"

static struct rar_direct_peer *peer_of(struct rar_link *link)
{
	return container_of(link, struct rar_direct_peer, link);
}

/* Something may be missing soon: look when a first question is due. tx_lock. */
void rar_peer_watch(struct rar_direct_peer *peer, u64 now)
{
	if (!peer->ask_us)
		peer->ask_us = now + peer->rto_us;
	rar_link_timer_at(peer->link.member, peer->ask_us);
}

/*
 * From now on a chunk may come from a rank, or word that it needs no more: ask
 * for it if it does not come. tx_lock.
 */
void rar_peer_expect(struct rar_link *link)
{
	struct rar_direct_peer *peer = peer_of(link);
	u64 at = rar_now_us() + peer->rto_us;

	peer->backoff = 0;
	if (!peer->ask_us || peer->ask_us > at)
		peer->ask_us = at;
	rar_link_timer_at(link->member, peer->ask_us);
}

/**
 * rar_peer_alive() - a packet with numbers, or their acknowledgment, came
 * @link:  direct link, of a member in RUN or LEAVING; no lock held
 * @chunk: it brought chunks; while these come the rank is not asked. An
 *         acknowledgment may be an answer
 *
 * Softirq.
 */
void rar_peer_alive(struct rar_link *link, bool chunk)
{
	struct rar_direct_peer *peer = peer_of(link);
	struct rar_member *m = link->member;

	rar_member_hear(link);
	if (!READ_ONCE(peer->ask_us))
		return;
	spin_lock_bh(&m->tx_lock);
	peer->asked_us = 0;
	if (chunk) {
		peer->backoff = 0;
		peer->ask_us = rar_now_us() + peer->rto_us;
	}
	spin_unlock_bh(&m->tx_lock);
}
