// SPDX-License-Identifier: GPL-2.0
/*
 * The hosts that may use the box of this host: net.rar.box_allow. An ENTER is looked at after its
 * sender has shown by a cookie that it receives at its address.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>

#include "box/allow.h"
#include "tx/route.h"

/**
 * rar_allow_neighbour() - which host next to this one brought a packet?
 * @skb:  packet that was received
 * @from: where it came from
 *
 * A host may have as many addresses as it likes, but on Ethernet it has one of
 * the link layer. A router counts for all hosts behind it.
 *
 * Any context.
 *
 * Return: a number for the host; without such an address one for the IPv4
 * address, or for the IPv6 network of 64 bits.
 */
u64 rar_allow_neighbour(const struct sk_buff *skb, const struct rar_addr *from)
{
	const struct net_device *dev = skb->dev;

	if (dev->type == ARPHRD_ETHER && skb_mac_header_was_set(skb) &&
	    skb_mac_header_len(skb) >= ETH_HLEN)
		return ether_addr_to_u64(eth_hdr(skb)->h_source);
	return from->af == AF_INET6 ? be64_to_cpup((const __be64 *)&from->ip) :
				      be32_to_cpu(from->ip.s6_addr32[0]);
}
EXPORT_SYMBOL_GPL(rar_allow_neighbour);

/* Is the address in one of the prefixes? Sets @link to whether on-link senders are allowed. */
static bool in_prefix(struct rar_net *rn, const struct rar_addr *a, bool *link)
{
	const struct rar_prefix *p;
	bool found = false;
	u32 i;

	spin_lock_bh(&rn->lock);
	*link = rn->box_allow.link;
	for (i = 0; i < rn->box_allow.n && !found; i++) {
		p = &rn->box_allow.prefix[i];
		found = p->af == a->af && ipv6_prefix_equal(&p->ip, &a->ip, p->len);
	}
	spin_unlock_bh(&rn->lock);
	return found;
}

/**
 * rar_allow_has() - may a host use the box?
 * @self: the member that sends the box's answers
 * @from: address of the host
 * @to:   address of this host that it used
 *
 * Any context up to softirq.
 *
 * Return: true if net.rar.box_allow has it.
 */
bool rar_allow_has(struct rar_member *self, const struct rar_addr *from, const struct rar_addr *to)
{
	struct rar_path path = { .src = *to, .dst = *from };
	bool link;

	return in_prefix(self->rn, from, &link) || (link && rar_route_on_link(self, &path));
}
EXPORT_SYMBOL_GPL(rar_allow_has);
