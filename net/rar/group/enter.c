// SPDX-License-Identifier: GPL-2.0
/*
 * How a member enters at the box of its group: ENTER, again and again until ENTERED brings the
 * epoch of the leg, also while operations go by the ring.
 */
#include <net/udp.h>

#include "core/member.h"
#include "group/enter.h"
#include "group/table.h"
#include "link/link.h"
#include "rar.h"
#include "ring/leg.h"
#include "ring/ringed.h"
#include "tx/device.h"
#include "tx/packet.h"
#include "tx/route.h"

#define ENTER_FAST	6	/* attempts in short intervals */
#define ENTER_SLOW	HZ	/* interval of the other attempts */
#define ENTER_OTHER	(3 * HZ)	/* a box that does not open for so long: try another one */

/* Take in ENTERED. */
static void rcv_entered(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_entered_hdr eh = { };

	if (skb_copy_bits(pkt->skb, pkt->off, &eh, min_t(u32, pkt->len, sizeof(eh))) ||
	    be64_to_cpu(eh.nonce) != m->leg.nonce || READ_ONCE(m->link[RAR_LEG].epoch) ||
	    !READ_ONCE(m->link[RAR_LEG].tx.sent))
		return;
	if (eh.epoch) {
		spin_lock_bh(&m->lock);
		/* Another CPU may have opened it: numbers must not begin again. */
		if (!m->link[RAR_LEG].epoch && rar_member_runs(m))
			rar_leg_open(m, be64_to_cpu(eh.nonce), be64_to_cpu(eh.epoch),
				     be32_to_cpu(eh.flags));
		spin_unlock_bh(&m->lock);
		rar_ringed_tell(m);
	} else if (eh.cookie && READ_ONCE(m->leg.cookie) != be64_to_cpu(eh.cookie)) {
		WRITE_ONCE(m->leg.cookie, be64_to_cpu(eh.cookie));
		WRITE_ONCE(m->leg.next_try, jiffies);
		rar_member_kick(m, jiffies);
	}
}

static struct rar_link *find_leg(struct rar_member *m, u32 rank)
{
	struct rar_link *link = &m->link[RAR_LEG];

	return rank == link->rank && m->leg.addr.af ? link : NULL;
}

static enum rar_rx rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	if (pkt->h.type != RAR_T_ENTERED)
		return rar_leg_rcv(m, pkt, n);
	rcv_entered(m, pkt);
	return RAR_RX_DONE;
}

static const struct rar_aside enter_aside = {
	.post = rar_ringed_post,
	.contributed = rar_ringed_contributed,
	.claim = rar_ringed_claim,
	.find = find_leg,
	.rcv = rcv,
};

/**
 * rar_enter_begin() - take the box from the table
 * @m: member that gets ready, @m->lock held
 */
void rar_enter_begin(struct rar_member *m)
{
	struct rar_path *path = &m->link[RAR_LEG].path;

	lockdep_assert_held(&m->lock);
	memset(&m->leg, 0, sizeof(m->leg));
	m->leg.addr = m->join.box;
	/* The box that this host names may be one below the group's. */
	if (m->leg.addr.af && m->join.wants.af == m->leg.addr.af && !m->join.offers)
		m->leg.home = m->join.wants;
	if (m->leg.home.af)
		m->leg.addr = m->leg.home;
	m->leg.since = jiffies;
	WRITE_ONCE(m->aside, m->leg.addr.af ? &enter_aside : NULL);
	m->leg.nonce = rar_random_token();
	m->leg.next_try = jiffies;
	path->src = m->link[RAR_NEXT].path.src;
	path->dst = m->leg.addr;
	path->oif = m->link[RAR_NEXT].path.oif;
}

/* Should the member send ENTER now? */
static bool is_due(const struct rar_member *m)
{
	return m->leg.addr.af && !READ_ONCE(m->link[RAR_LEG].epoch) &&
	       rar_member_state(m) == RAR_S_RUN &&
	       time_after_eq(jiffies, READ_ONCE(m->leg.next_try));
}

/**
 * rar_enter_tick() - let the work item send an ENTER that is due; part of the member's timer
 * @m: member in RUN or LEAVING
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_enter_tick(struct rar_member *m)
{
	if (is_due(m))
		rar_member_schedule(m);
	if (!m->leg.addr.af || READ_ONCE(m->link[RAR_LEG].epoch))
		return jiffies + HZ;
	return max(jiffies + 1, READ_ONCE(m->leg.next_try));
}

static bool same_box(const struct rar_addr *a, const struct rar_addr *b)
{
	return a->port == b->port && ipv6_addr_equal(&a->ip, &b->ip);
}

/*
 * The box does not open. If this host names another one than the group, try them in turn: the one
 * may be down, or the other not below the group's. No packet comes by a leg that is not open, but
 * for ENTERED, which has to come from the box that was asked.
 */
static void try_other(struct rar_member *m)
{
	struct rar_leg *leg = &m->leg;

	if (!leg->home.af || same_box(&leg->home, &m->join.box) ||
	    time_before(jiffies, leg->since + ENTER_OTHER))
		return;
	leg->since = jiffies;
	leg->addr = same_box(&leg->addr, &leg->home) ? m->join.box : leg->home;
	leg->tries = 0;
	WRITE_ONCE(leg->cookie, 0);
	m->link[RAR_LEG].path.dst = leg->addr;
}

/* Get memory and the route. Returns false if the path does not carry a full packet. */
static bool prepare(struct rar_member *m)
{
	struct rar_link *link = &m->link[RAR_LEG];
	u32 mtu, full = rar_ip_hdr_size(&link->path) + sizeof(struct udphdr) +
			sizeof(struct rar_data_hdr) + m->payload;
	int dev;

	if (rar_link_prepare(link) || rar_route_find(m, &link->path, &mtu, &dev))
		return false;
	rar_device_set(m->rn, &link->hook, dev);
	return full <= mtu;
}

static void send_enter(struct rar_member *m)
{
	struct rar_enter_hdr eh = {
		.digest = cpu_to_be64(m->join.digest),
		.nonce = cpu_to_be64(m->leg.nonce),
		.cookie = cpu_to_be64(READ_ONCE(m->leg.cookie)),
		.payload = cpu_to_be32(m->payload),
		.size = cpu_to_be16(m->size),
		.choice = cpu_to_be16(m->join.choice),
	};
	size_t pad = sizeof(struct rar_data_hdr) + m->payload - sizeof(eh);

	rar_packet_ctl(&m->link[RAR_LEG], &eh, sizeof(eh), pad, RAR_T_ENTER, m->epoch);
}

/* Send ENTER if it is due. In the member's work item. */
void rar_enter_work(struct rar_member *m)
{
	if (!is_due(m))
		return;
	try_other(m);
	WRITE_ONCE(m->leg.next_try, jiffies + (m->leg.tries++ < ENTER_FAST ?
					       rar_table_retry_in(m->leg.tries) : ENTER_SLOW));
	if (prepare(m))
		send_enter(m);
	rar_member_kick(m, m->leg.next_try);
}
