// SPDX-License-Identifier: GPL-2.0
/*
 * How a member enters at each box of its group: ENTER, again and again until ENTERED brings the
 * epoch of the leg, also while operations go by the ring.
 */
#include <net/udp.h>

#include "core/addr.h"
#include "core/event.h"
#include "core/member.h"
#include "group/enter.h"
#include "group/table.h"
#include "link/link.h"
#include "rar.h"
#include "ring/leg.h"
#include "ring/ringed.h"
#include "tx/control.h"
#include "tx/device.h"
#include "tx/route.h"

#define ENTER_FAST	6	/* attempts in short intervals */
#define ENTER_SLOW	(HZ / 4)	/* interval of the other attempts */
#define ENTER_OTHER	(3 * HZ)	/* a box that does not open for so long: try another one */

/* Is a box of the group not open? */
static bool any_away(const struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		if (!READ_ONCE(link->epoch))
			return true;
	return false;
}

/**
 * rar_enter_awaited() - does connect() still wait for a box (RAR_BOX_WAIT)?
 * @m: member in RUN or later
 *
 * Any context. The member's socket is woken when it waits no more.
 */
bool rar_enter_awaited(const struct rar_member *m)
{
	unsigned long until = READ_ONCE(m->box_until);

	return until && rar_member_runs(m) && time_before(jiffies, until);
}

/* All boxes are open, or the time is over: nobody waits for them any more. */
static void wait_no_more(struct rar_member *m)
{
	if (READ_ONCE(m->box_until)) {
		WRITE_ONCE(m->box_until, 0);
		rar_member_wake(m);
	}
}

/* Take in ENTERED. */
static void rcv_entered(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_leg *leg = rar_link_leg(pkt->link);
	struct rar_entered_hdr eh;
	struct rar_link *link = pkt->link;
	bool opened;

	if (skb_copy_bits(pkt->skb, pkt->off, &eh, sizeof(eh)) ||
	    be64_to_cpu(eh.nonce) != leg->nonce || READ_ONCE(link->epoch) ||
	    !READ_ONCE(link->tx.sent))
		return;
	/* If there are seals, this one is right. */
	WRITE_ONCE(leg->why, RAR_R_NONE);
	if (eh.epoch) {
		spin_lock_bh(&m->lock);
		/* Another CPU may have opened it: numbers must not begin again. */
		if (!link->epoch && rar_member_runs(m))
			rar_leg_open(link, be64_to_cpu(eh.nonce), be64_to_cpu(eh.epoch),
				     be32_to_cpu(eh.flags));
		opened = link->epoch;
		spin_unlock_bh(&m->lock);
		rar_ringed_tell(link);
		if (opened)
			rar_event_send(m, RAR_EVENT_BOX_OPENED, NULL);
		if (!any_away(m))
			wait_no_more(m);
	} else if (eh.cookie && READ_ONCE(leg->cookie) != be64_to_cpu(eh.cookie)) {
		WRITE_ONCE(leg->cookie, be64_to_cpu(eh.cookie));
		WRITE_ONCE(leg->next_try, jiffies);
		rar_member_kick(m, jiffies);
	}
}

/* No two legs lead to the same address and port. */
static struct rar_link *find_leg(struct rar_member *m, u32 rank, const struct rar_addr *from,
				 u64 token)
{
	struct rar_link *link;

	if (rank != RAR_BOX_RANK)
		return NULL;
	rar_each_leg(link, m)
		if (from ? rar_addr_same(&link->path.dst, from) : token == READ_ONCE(link->epoch))
			return link;
	return NULL;
}

/**
 * rar_enter_rcv_unheard() - take in that a box answered without a right seal
 * @m:   member
 * @pkt: packet that is dropped; nothing of it is checked
 * @why: what is wrong with its seal
 *
 * Softirq, RCU read side. Anybody may have sent it, so it only says why a box
 * is away.
 */
void rar_enter_rcv_unheard(struct rar_member *m, const struct rar_pkt *pkt,
			   enum rar_reason why)
{
	struct rar_link *link;

	if (!m->tail || pkt->h.type != RAR_T_ENTERED ||
	    be64_to_cpu(pkt->h.token) != READ_ONCE(m->epoch))
		return;
	rar_each_leg(link, m)
		if (!READ_ONCE(link->epoch) &&
		    rar_addr_same(&link->path.dst, &pkt->from))
			WRITE_ONCE(rar_link_leg(link)->why, why);
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

/*
 * The box that this host itself names for a place among the group's boxes, which may be below the
 * group's, or NULL. It must not be the group's box in another place: each leg has a box of its own.
 */
static const struct rar_addr *home_of(const struct rar_member *m, u32 place)
{
	const struct rar_boxes *wants = &m->join.wants, *boxes = &m->join.boxes;
	const struct rar_addr *home = &wants->addr[place];
	u32 i;

	if (place >= wants->n || m->join.offers || home->af != boxes->addr[place].af)
		return NULL;
	for (i = 0; i < boxes->n; i++)
		if (i != place && rar_addr_same(home, &boxes->addr[i]))
			return NULL;
	return home;
}

static void leg_begin(struct rar_link *link)
{
	u32 place = link->index - RAR_LEG;
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;
	const struct rar_addr *home = home_of(m, place);
	struct rar_path *path = &link->path;

	memset_after(leg, 0, link);
	leg->addr = home ? *home : m->join.boxes.addr[place];
	if (home)
		leg->home = *home;
	leg->since = jiffies;
	leg->nonce = rar_random_token();
	leg->next_try = jiffies;
	path->src = m->link[RAR_NEXT]->path.src;
	path->dst = leg->addr;
	path->oif = m->link[RAR_NEXT]->path.oif;
}

/**
 * rar_enter_begin() - take the boxes from the table
 * @m: member that gets ready, @m->lock held
 *
 * Return: 0 or -ENOMEM.
 */
int rar_enter_begin(struct rar_member *m)
{
	u32 end = RAR_LEG + m->join.boxes.n, i;
	unsigned long until = 0;
	struct rar_link *link;

	lockdep_assert_held(&m->lock);
	for (i = RAR_LEG; i < end; i++)
		if (!m->link[i] &&
		    rar_link_new(m, i, RAR_BOX_RANK, GFP_ATOMIC | __GFP_NOWARN))
			return -ENOMEM;
	rar_links_of(link, m, RAR_LEG, end)
		leg_begin(link);
	m->nlegs = m->join.boxes.n;
	if (m->nlegs && m->box_wait_ms)
		until = (jiffies + msecs_to_jiffies(m->box_wait_ms)) | 1;
	WRITE_ONCE(m->box_until, until);
	WRITE_ONCE(m->aside, m->nlegs ? &enter_aside : NULL);
	return 0;
}

/* Should the member send ENTER to a box now? */
static bool is_due(struct rar_link *link)
{
	return !READ_ONCE(link->epoch) && rar_member_state(link->member) == RAR_S_RUN &&
	       time_after_eq(jiffies, READ_ONCE(rar_link_leg(link)->next_try));
}

/**
 * rar_enter_tick() - let the work item send an ENTER that is due; part of the member's timer
 * @m: member in RUN or LEAVING
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_enter_tick(struct rar_member *m)
{
	unsigned long next = jiffies + HZ, until = READ_ONCE(m->box_until);
	unsigned long then;
	struct rar_link *link;

	if (until && time_before(jiffies, until))
		next = time_before(until, next) ? until : next;
	else
		wait_no_more(m);
	rar_each_leg(link, m) {
		if (is_due(link))
			rar_member_schedule(m);
		if (READ_ONCE(link->epoch))
			continue;
		then = READ_ONCE(rar_link_leg(link)->next_try);
		next = min(next, max(jiffies + 1, then));
	}
	return next;
}

/* Ask another box from now on. The nonce is new: no late answer of the last one opens the leg. */
static void turn_to(struct rar_link *link, const struct rar_addr *box)
{
	struct rar_leg *leg = rar_link_leg(link);
	struct rar_member *m = link->member;

	spin_lock_bh(&m->tx_lock);
	if (!link->epoch) {
		leg->addr = *box;
		leg->since = jiffies;
		rar_leg_renew(leg);
		leg->tries = 0;
		WRITE_ONCE(leg->cookie, 0);
		link->path.dst = *box;
	}
	spin_unlock_bh(&m->tx_lock);
}

/*
 * If this host names another box than the group, try them in turn as long as none opens: the one
 * may be down, or the other not below the group's. A leg that was open begins with the host's own.
 * No packet comes by a leg that is not open, but for ENTERED, which has to come from the box that
 * was asked.
 */
static void choose(struct rar_link *link)
{
	const struct rar_boxes *boxes = &link->member->join.boxes;
	const struct rar_addr *box = &boxes->addr[link->index - RAR_LEG];
	const struct rar_leg *leg = rar_link_leg(link);
	bool away = !rar_addr_same(&leg->addr, &leg->home);

	if (!leg->home.af || rar_addr_same(&leg->home, box))
		return;
	if (away && !leg->tries)
		turn_to(link, &leg->home);
	else if (time_after_eq(jiffies, leg->since + ENTER_OTHER))
		turn_to(link, away ? &leg->home : box);
}

/* Get memory and the route. Returns false if the path does not carry a full packet. */
static bool prepare(struct rar_link *link)
{
	struct rar_member *m = link->member;
	u32 mtu, full = rar_ip_hdr_size(&link->path) + sizeof(struct udphdr) +
			rar_overhead(m) + m->payload;
	int dev;

	if (rar_link_prepare(link) || rar_route_find(m, &link->path, &mtu, &dev))
		return false;
	rar_device_set(m->rn, &link->hook, dev);
	return full <= mtu;
}

static void send_enter(struct rar_link *link)
{
	const struct rar_leg *leg = rar_link_leg(link);
	const struct rar_member *m = link->member;
	bool encrypt = m->security == RAR_SECURITY_ENCRYPT;
	struct rar_enter_hdr eh = {
		.digest = cpu_to_be64(m->join.digest),
		.nonce = cpu_to_be64(leg->nonce),
		.cookie = cpu_to_be64(READ_ONCE(leg->cookie)),
		.payload = cpu_to_be32(m->payload),
		.size = cpu_to_be16(m->size),
		.flags = cpu_to_be32(encrypt ? RAR_EF_ENCRYPT : 0),
	};
	size_t pad = sizeof(struct rar_data_hdr) + m->payload - sizeof(eh);

	rar_control_send(link, &eh, sizeof(eh), pad, RAR_T_ENTER, m->epoch);
}

static void enter(struct rar_link *link)
{
	const struct rar_member *m = link->member;
	struct rar_leg *leg = rar_link_leg(link);

	choose(link);
	WRITE_ONCE(leg->next_try, jiffies + (leg->tries++ < ENTER_FAST ?
					     rar_table_retry_in(leg->tries) : ENTER_SLOW));
	/* Rank 0 has the key of the boxes, and this rank has not. */
	if (m->tail && !m->trust.box.len)
		WRITE_ONCE(leg->why, RAR_R_KEY);
	else if (prepare(link))
		send_enter(link);
	rar_member_kick(link->member, leg->next_try);
}

/* Send ENTER to the boxes where it is due. In the member's work item. */
void rar_enter_work(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_leg(link, m)
		if (is_due(link))
			enter(link);
}
