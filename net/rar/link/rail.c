// SPDX-License-Identifier: GPL-2.0
/*
 * Rails: further pairs of addresses between two ranks, for hosts with several
 * network cards (RAR_RAIL).
 *
 * A join takes one address of each rank. When the ring is closed a rank that
 * has further ones tells them to its neighbours, and to the ranks that it
 * exchanges with directly (RAIL), until it is answered with theirs. The n-th
 * address of one rank and the n-th of the other are a pair. Chunks are spread
 * over the pairs, and a chunk that is sent again goes by another pair; see
 * lane.c. A pair that has no way, or loses it, is left out, and tried from time
 * to time. So a card that fails is no error as long as another one works.
 *
 * Acknowledgments and all other packets without chunks go only by pairs by
 * which the other rank was heard. So no rank can direct them to an address
 * that has not asked for them.
 */
#include <linux/slab.h>

#include "core/addr.h"
#include "core/member.h"
#include "link/lane.h"
#include "link/link.h"
#include "link/rail.h"
#include "tx/control.h"
#include "tx/device.h"
#include "tx/route.h"

#define RAIL_ASK_MS	10	/* interval between questions, which doubles */
#define RAIL_ASK_MAX_MS	1000	/* up to this */
#define RAIL_ADDR	sizeof(struct in6_addr)

/* -- the links to ranks ---------------------------------------------------- */

/*
 * Find the next link to a rank: from *@i on to a neighbour, then to a direct
 * peer. Sets *@i to the index after it. Returns NULL if there is none.
 */
static struct rar_link *next_link(struct rar_member *m, u32 *i)
{
	struct rar_direct_peer *peer = m->direct.peer;
	u32 n = RAR_LINKS + (peer ? m->direct.n : 0), at;
	struct rar_link *link;

	while (*i < n) {
		at = (*i)++;
		link = at < RAR_LINKS ? m->link[at] :
					&peer[at - RAR_LINKS].link;
		if (link && !rar_link_is_leg(link) && link->rank != m->rank)
			return link;
	}
	return NULL;
}

#define each_link(link, m)	\
	for (u32 _i = 0; ((link) = next_link(m, &_i)); )

/* -- memory ---------------------------------------------------------------- */

static void free_paths(struct rar_rails *rails, u32 n)
{
	while (n--)
		dst_cache_destroy(&rails->more[n].path.cache);
}

/* Give a link rails, if it has none. */
static int alloc(struct rar_link *link)
{
	struct rar_rails *rails;
	u32 i;

	if (link->rails)
		return 0;
	rails = kzalloc(sizeof(*rails), GFP_KERNEL_ACCOUNT);
	if (!rails)
		return -ENOMEM;
	for (i = 0; i < RAR_MAX_RAILS; i++)
		if (dst_cache_init(&rails->more[i].path.cache,
				   GFP_KERNEL_ACCOUNT)) {
			free_paths(rails, i);
			kfree(rails);
			return -ENOMEM;
		}
	WRITE_ONCE(link->rails, rails);
	return 0;
}

/**
 * rar_rail_prepare() - get memory for the rails of a member that has any
 * @m: member that begins to join; its links to ranks are there
 *
 * Process context.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_rail_prepare(struct rar_member *m)
{
	struct rar_link *link;

	if (!m->nrails)
		return 0;
	each_link(link, m)
		if (alloc(link))
			return -ENOMEM;
	return 0;
}

/**
 * rar_rail_free() - free the rails of a link
 * @link: link that nobody finds any more; it may have none
 *
 * Process context.
 */
void rar_rail_free(struct rar_link *link)
{
	struct rar_rails *rails = link->rails;
	u32 i;

	if (!rails)
		return;
	for (i = 0; i < RAR_MAX_RAILS; i++)
		rar_device_set(link->member->rn, &rails->more[i].hook, 0);
	free_paths(rails, RAR_MAX_RAILS);
	kfree(rails);
	link->rails = NULL;
}

/* -- the exchange of addresses --------------------------------------------- */

/**
 * rar_rail_start() - forget what is known of rails when a new epoch begins
 * @m: member that is about to be ready, @m->lock held
 */
void rar_rail_start(struct rar_member *m)
{
	struct rar_link *link;
	u32 i;

	lockdep_assert_held(&m->lock);
	each_link(link, m) {
		if (!link->rails)
			continue;
		spin_lock(&m->tx_lock);
		WRITE_ONCE(link->rails->n, 0);
		link->rails->told = !m->nrails;
		link->rails->asked = 0;
		link->rails->next = jiffies;
		for (i = 0; i < RAR_MAX_RAILS; i++)
			link->rails->more[i].heard = false;
		spin_unlock(&m->tx_lock);
	}
}

/* Tell a rank the further addresses of this one. */
static void tell(struct rar_link *link, u8 flags)
{
	struct rar_member *m = link->member;
	struct rar_rail_hdr rh = { .n = m->nrails, .flags = flags };
	u32 i;

	BUILD_BUG_ON(sizeof(rh.addr) != RAR_MAX_RAILS * RAIL_ADDR);
	for (i = 0; i < m->nrails; i++)
		memcpy(rh.addr + i * RAIL_ADDR, &m->rail[i].ip, RAIL_ADDR);
	rar_control_send(link, &rh, sizeof(rh), 0, RAR_T_RAIL, m->epoch);
}

/* Is it time to ask a rank for its addresses? Sets when it will be. */
static bool due(struct rar_link *link, unsigned long *next)
{
	struct rar_rails *rails = link->rails;
	bool ask;
	u32 ms;

	spin_lock_bh(&link->member->tx_lock);
	ask = !rails->told && time_after_eq(jiffies, rails->next);
	if (ask) {
		ms = RAIL_ASK_MS << min(rails->asked++, 8U);
		ms = min_t(u32, ms, RAIL_ASK_MAX_MS);
		rails->next = jiffies + msecs_to_jiffies(ms);
	}
	if (!rails->told && time_before(rails->next, *next))
		*next = rails->next;
	spin_unlock_bh(&link->member->tx_lock);
	return ask;
}

/* Do the two ranks send each other packets? Direct peers do if all can. */
static bool is_used(const struct rar_link *link)
{
	return !rar_link_is_direct(link) || link->member->direct.paired;
}

/**
 * rar_rail_tick() - ask other ranks for their further addresses
 * @m: member in RUN or LEAVING, RCU read side
 *
 * Softirq.
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_rail_tick(struct rar_member *m)
{
	unsigned long next = jiffies + MAX_JIFFY_OFFSET;
	struct rar_link *link;

	if (!m->nrails)
		return next;
	each_link(link, m)
		if (link->rails && is_used(link) && due(link, &next))
			tell(link, 0);
	return next;
}

/**
 * rar_rail_may_be() - can a rail have this address?
 * @af: AF_INET or AF_INET6
 * @ip: the address; of IPv4 in the first word
 *
 * No rail has a scope, so it has no address that needs one.
 */
bool rar_rail_may_be(u16 af, const struct in6_addr *ip)
{
	if (af == AF_INET6 &&
	    (ipv6_addr_v4mapped(ip) ||
	     ipv6_addr_type(ip) & IPV6_ADDR_LINKLOCAL))
		return false;
	return rar_addr_is_host(af, ip);
}

/* Set the pairs with the addresses of a rank. Returns their number. tx_lock. */
static u32 set_pairs(struct rar_link *link, const struct rar_rail_hdr *rh)
{
	u32 n = min_t(u32, rh->n, link->member->nrails), i;
	const struct rar_path *first = &link->path;
	struct rar_path *path;

	for (i = 0; i < n; i++) {
		path = &link->rails->more[i].path;
		path->dst = first->dst;
		memcpy(&path->dst.ip, rh->addr + i * RAIL_ADDR, RAIL_ADDR);
		if (!rar_rail_may_be(path->dst.af, &path->dst.ip))
			break;
		path->src = link->member->rail[i];
		path->src.port = first->src.port;
		path->oif = first->oif;
		path->dev = 0;
		/* Until the route is known the kernel cuts what is too long. */
		WRITE_ONCE(path->run_max, U32_MAX);
		rar_route_forget(path);
	}
	return i;
}

/* Take in the addresses of a rank. Returns true if there are pairs now. */
static bool take(struct rar_link *link, const struct rar_rail_hdr *rh)
{
	struct rar_rails *rails = link->rails;
	bool fresh;
	u32 n;

	spin_lock_bh(&link->member->tx_lock);
	rails->told |= rh->flags & RAR_RF_ANSWER;
	n = rails->n ? 0 : set_pairs(link, rh);
	fresh = n;
	if (fresh) {
		/* Pairs with the acquire in rar_link_rails(). */
		smp_store_release(&rails->n, n);
		rar_lane_open(link);
	}
	spin_unlock_bh(&link->member->tx_lock);
	return fresh;
}

/* Look up the routes, so that packets are as long as these allow. */
static void look_up(struct rar_link *link)
{
	struct dst_entry *dst;
	u32 i;

	local_bh_disable();
	for (i = 1; i < rar_link_rails(link); i++) {
		dst = rar_route_get(link->member, rar_link_path(link, i));
		if (!IS_ERR(dst))
			dst_release(dst);
	}
	local_bh_enable();
}

/**
 * rar_rail_rcv() - take in the further addresses of a rank
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated RAIL
 *
 * Softirq.
 */
void rar_rail_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_rail_hdr rh;
	struct rar_link *link;
	bool fresh = false;

	if (skb_copy_bits(pkt->skb, pkt->off, &rh, sizeof(rh)))
		return;
	each_link(link, m) {
		if (link->rank != pkt->link->rank || !link->rails ||
		    !take(link, &rh))
			continue;
		look_up(link);
		fresh = true;
	}
	if (fresh)
		rar_member_schedule(m);
	if (!(rh.flags & RAR_RF_ANSWER))
		tell(pkt->link, RAR_RF_ANSWER);
}

/* -- devices --------------------------------------------------------------- */

/* Receive at the devices of a link's rails. */
static void hook(struct rar_link *link)
{
	struct rar_rail *rail;
	u32 i;

	for (i = 0; i + 1 < rar_link_rails(link); i++) {
		rail = &link->rails->more[i];
		rar_device_set(link->member->rn, &rail->hook,
			       READ_ONCE(rail->path.dev));
	}
}

/**
 * rar_rail_hook() - receive at the devices of all rails
 * @m: member
 *
 * In the member's work item.
 */
void rar_rail_hook(struct rar_member *m)
{
	struct rar_link *link;

	if (!m->nrails || !rar_member_runs(m))
		return;
	each_link(link, m)
		if (link->rails)
			hook(link);
}

/**
 * rar_rail_cut_off() - is it this host's fault that a neighbour is not reached?
 * @link: to the neighbour
 *
 * Any context up to softirq.
 *
 * Return: true if rar_route_cut_off() is true of all pairs of addresses.
 */
bool rar_rail_cut_off(struct rar_link *link)
{
	u32 i;

	for (i = 0; i < rar_link_rails(link); i++)
		if (!rar_route_cut_off(link->member, rar_link_path(link, i)))
			return false;
	return true;
}
