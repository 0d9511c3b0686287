// SPDX-License-Identifier: GPL-2.0
/* Packets that this host forwards: the addresses of UDP. */
#include <net/ip.h>
#include <net/ipv6.h>

#include "box/passing.h"

static u32 read_v4(const struct sk_buff *skb, struct rar_addr *from, struct rar_addr *to)
{
	u32 off = skb_network_offset(skb);
	struct iphdr buf, *iph;

	iph = skb_header_pointer(skb, off, sizeof(buf), &buf);
	if (!iph || iph->version != 4 || iph->ihl < 5 || iph->protocol != IPPROTO_UDP ||
	    ip_is_fragment(iph))
		return 0;
	from->af = AF_INET;
	from->ip.s6_addr32[0] = iph->saddr;
	to->af = AF_INET;
	to->ip.s6_addr32[0] = iph->daddr;
	return off + iph->ihl * 4;
}

/* Link-local addresses say nothing to this host. */
static u32 read_v6(const struct sk_buff *skb, struct rar_addr *from, struct rar_addr *to)
{
	u32 off = skb_network_offset(skb);
	struct ipv6hdr buf, *ip6h;

	ip6h = skb_header_pointer(skb, off, sizeof(buf), &buf);
	if (!ip6h || ip6h->version != 6 || ip6h->nexthdr != IPPROTO_UDP ||
	    (ipv6_addr_type(&ip6h->saddr) & IPV6_ADDR_LINKLOCAL))
		return 0;
	from->af = AF_INET6;
	from->ip = ip6h->saddr;
	to->af = AF_INET6;
	to->ip = ip6h->daddr;
	return off + sizeof(*ip6h);
}

/**
 * rar_passing_udp() - read the addresses of a UDP packet
 * @skb:  at a forward hook
 * @from: set to the source, except for the port; zero before
 * @to:   the same for the destination
 *
 * Any context.
 *
 * Return: where the UDP header is in the packet; 0 if there is none, or no whole one.
 */
u32 rar_passing_udp(const struct sk_buff *skb, struct rar_addr *from, struct rar_addr *to)
{
	if (skb->protocol == htons(ETH_P_IP))
		return read_v4(skb, from, to);
	if (skb->protocol == htons(ETH_P_IPV6))
		return read_v6(skb, from, to);
	return 0;
}
EXPORT_SYMBOL_GPL(rar_passing_udp);
