// SPDX-License-Identifier: GPL-2.0
/*
 * Pairs: before ranks exchange anything directly, each of them finds out while it joins whether
 * packets of full size reach every other rank.
 *
 * A rank learns the addresses and nonces of the others from COLLECT. It sends each of them a PAIR
 * whenever COLLECT comes by, until a PAIR_ACK to a padded one comes back. The first are short: only
 * a rank that answers one is sent more than that. Each direction of a pair
 * is tried by the rank that will send in this direction. The answer needs no state: it goes to
 * the address that the question came from, it is shorter than the question, and only a rank that
 * knows the table can ask. Question and answer carry no nonce, since a stranger can make up an
 * address in the table: they prove by a hash that their sender knows the nonce of the rank that is
 * asked.
 */
#include <linux/random.h>

#include "core/key.h"
#include "core/member.h"
#include "core/mib.h"
#include "group/pair.h"
#include "group/peers.h"
#include "rar.h"
#include "ring/direct.h"
#include "tx/control.h"
#include "tx/route.h"

#define PAIR_RTO_MIN_US		5000	/* shortest time that a question waits for its answer, */
#define PAIR_RTO_MAX_US		200000	/* and the longest */

/* Forget what an earlier join found out. @m->lock held. */
void rar_pair_reset(struct rar_member *m)
{
	u32 i;

	lockdep_assert_held(&m->lock);
	m->direct.below = 0;
	m->direct.doubling_below = 0;
	m->direct.halving_below = 0;
	WRITE_ONCE(m->direct.partners, 0);
	m->direct.paired = false;
	for (i = 0; m->direct.peer && i < m->direct.n; i++)
		m->direct.peer[i].nonce = 0;
}

/**
 * rar_pair_learn() - take in a row of the table
 * @m:    member, joining; @m->lock held
 * @rank: of the row
 * @row:  the row; its nonce is 0 if the rank has not filled it yet
 */
void rar_pair_learn(struct rar_member *m, u32 rank, const struct rar_row *row)
{
	const struct rar_path *next = &m->link[RAR_NEXT]->path;
	struct rar_link *link = rar_member_direct(m, rank);
	struct rar_direct_peer *peer;
	struct rar_path *path;

	lockdep_assert_held(&m->lock);
	if (!link || !row->nonce || row->addr.af != next->src.af)
		return;
	peer = container_of(link, struct rar_direct_peer, link);
	path = &link->path;
	if (peer->nonce == row->nonce && path->dst.port == row->addr.port &&
	    ipv6_addr_equal(&path->dst.ip, &row->addr.ip))
		return;
	peer->nonce = row->nonce;
	peer->challenge = get_random_u64();
	peer->reached = false;
	peer->reached_small = false;
	peer->tries = 0;
	peer->rto_us = PAIR_RTO_MAX_US;
	path->src = next->src;
	path->dst = row->addr;
	if (ipv6_addr_type(&path->dst.ip) & IPV6_ADDR_LINKLOCAL)
		path->dst.scope = rar_member_scope(m);
	path->oif = next->oif;
	rar_route_forget(path);
	WRITE_ONCE(path->run_max, 1);
}

/* Does a slot belong to this rank itself? */
static bool is_own(const struct rar_member *m, u32 slot)
{
	return m->direct.all && slot == m->rank;
}

/*
 * The first rank that packets of full size have not reached; NULL if there is
 * none.
 */
const struct rar_direct_peer *rar_pair_missing(const struct rar_member *m)
{
	const struct rar_direct_peer *peer;
	u32 i;

	for (i = 0; i < m->direct.n; i++) {
		peer = &m->direct.peer[i];
		if (!is_own(m, i) && !(peer->nonce && peer->reached))
			return peer;
	}
	return NULL;
}

/* Do packets of full size reach every rank that has a link? @m->lock held. */
bool rar_pair_all(const struct rar_member *m)
{
	return !rar_pair_missing(m);
}

/* The bytes that follow the header, so that the packet is as long as the longest DIRECT. */
static size_t padding(const struct rar_member *m)
{
	return m->join.payload + sizeof(struct rar_data_hdr) - sizeof(struct rar_pair_hdr);
}

/* Send a PAIR to a rank that has not answered. */
static void try_peer(struct rar_member *m, struct rar_direct_peer *peer)
{
	struct rar_pair_hdr ph = {
		.h = {
			.type = RAR_T_PAIR,
			.src = cpu_to_be16(m->rank),
			.dst = cpu_to_be16(peer->link.rank),
		},
	};
	u64 token = 0;
	bool small;

	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_JOINING && peer->nonce && !peer->reached) {
		ph.challenge = cpu_to_be64(peer->challenge);
		token = rar_key_pair(m, peer->nonce, &ph);
		small = !peer->reached_small;
		peer->tries++;
		peer->tried_us = rar_now_us();
	}
	spin_unlock_bh(&m->lock);
	if (token)
		rar_control_send(&peer->link, &ph, sizeof(ph),
				 small ? 0 : padding(m), RAR_T_PAIR, token);
}

/**
 * rar_pair_try() - send a PAIR to each rank that has not answered a padded one
 * @m: member, no lock held
 *
 * Softirq.
 */
void rar_pair_try(struct rar_member *m)
{
	struct rar_direct_peer *peer = READ_ONCE(m->direct.peer);
	u32 i;

	for (i = 0; peer && rar_peers_wanted(m) && i < m->direct.n; i++)
		if (!is_own(m, i))
			try_peer(m, &peer[i]);
}

/* Does the token prove that the sender knows the nonce of the rank asked? Else count a drop. */
static bool proves(const struct rar_member *m, const struct rar_pair_hdr *ph, u64 nonce)
{
	bool good = nonce && be64_to_cpu(ph->h.token) == rar_key_pair(m, nonce, ph);

	if (!good)
		rar_mib_inc(m->rn, DropEpoch);
	return good;
}

/**
 * rar_pair_rcv() - answer a PAIR
 * @m:   member
 * @pkt: validated, except its token
 */
void rar_pair_rcv(struct rar_member *m, struct rar_pkt *pkt)
{
	u64 nonce = READ_ONCE(m->join.nonce);
	struct rar_pair_hdr ph;

	if (!rar_peers_wanted(m)) {
		rar_mib_inc(m->rn, DropState);
		return;
	}
	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)) || !proves(m, &ph, nonce))
		return;
	pkt->echoes = true;
	ph.h.type = RAR_T_PAIR_ACK;
	swap(ph.h.src, ph.h.dst);
	ph.bytes = cpu_to_be32(pkt->len);
	ph.__pad = 0;
	rar_control_reply(m, pkt, &ph, sizeof(ph), RAR_T_PAIR_ACK,
			  rar_key_pair(m, nonce, &ph));
}

/**
 * rar_pair_rcv_ack() - note that packets reach a rank
 * @m:   member
 * @pkt: validated, except its token
 */
void rar_pair_rcv_ack(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_link *link = rar_member_direct(m, be16_to_cpu(pkt->h.src));
	struct rar_direct_peer *peer;
	struct rar_pair_hdr ph;
	bool first = false;
	u32 us;

	if (!link || skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph))) {
		rar_mib_inc(m->rn, DropState);
		return;
	}
	peer = container_of(link, struct rar_direct_peer, link);
	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_JOINING && proves(m, &ph, peer->nonce) &&
	    peer->challenge == be64_to_cpu(ph.challenge) &&
	    peer->link.path.dst.port == pkt->from.port &&
	    ipv6_addr_equal(&peer->link.path.dst.ip, &pkt->from.ip)) {
		us = min_t(u64, rar_now_us() - peer->tried_us, PAIR_RTO_MAX_US);
		peer->rto_us = clamp_t(u32, 2 * us + PAIR_RTO_MIN_US, PAIR_RTO_MIN_US,
				       PAIR_RTO_MAX_US);
		first = !peer->reached_small;
		peer->reached_small = true;
		peer->reached |= be32_to_cpu(ph.bytes) >= sizeof(ph) + padding(m);
	}
	spin_unlock_bh(&m->lock);
	if (first)
		try_peer(m, peer);
}
