// SPDX-License-Identifier: GPL-2.0
/*
 * The hosts that may use the box of this host: net.rar.box_allow. An ENTER is looked at after its
 * sender has shown by a cookie that it receives at its address.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/inet.h>
#include <linux/string.h>

#include "box/allow.h"
#include "tx/route.h"

static bool parse_prefix(char *word, struct rar_prefix *p)
{
	char *slash = strchr(word, '/');
	u8 max;

	*p = (struct rar_prefix) { };
	if (slash)
		*slash++ = '\0';
	if (in4_pton(word, -1, (u8 *)&p->ip, -1, NULL)) {
		p->af = AF_INET;
		max = 32;
	} else if (in6_pton(word, -1, (u8 *)&p->ip, -1, NULL)) {
		p->af = AF_INET6;
		max = 128;
	} else {
		return false;
	}
	p->len = max;
	return !slash || (!kstrtou8(slash, 10, &p->len) && p->len <= max);
}

static bool parse(char *text, struct rar_allow *allow)
{
	char *word;

	*allow = (struct rar_allow) { };
	while ((word = strsep(&text, " ,\t\n"))) {
		if (!*word || !strcmp(word, "none"))
			continue;
		if (!strcmp(word, "link")) {
			allow->link = true;
			continue;
		}
		if (allow->n == RAR_BOX_PREFIXES ||
		    !parse_prefix(word, &allow->prefix[allow->n++]))
			return false;
	}
	return true;
}

/**
 * rar_allow_set() - set the hosts that may use the box
 * @rn:   netns
 * @text: words: "link", addresses, prefixes, or "none"; it is changed
 *
 * Members that have entered already may stay.
 *
 * Return: 0, or -EINVAL and nothing has changed.
 */
int rar_allow_set(struct rar_net *rn, char *text)
{
	struct rar_allow allow;

	if (!parse(text, &allow))
		return -EINVAL;
	spin_lock_bh(&rn->lock);
	rn->box_allow = allow;
	spin_unlock_bh(&rn->lock);
	return 0;
}

/**
 * rar_allow_show() - write down the hosts that may use the box
 * @rn:   netns
 * @text: at least RAR_ALLOW_TEXT bytes
 *
 * Any context up to softirq.
 */
void rar_allow_show(struct rar_net *rn, char *text)
{
	const struct rar_prefix *p;
	size_t at = 0;
	u32 i;

	spin_lock_bh(&rn->lock);
	if (rn->box_allow.link)
		at = scnprintf(text, RAR_ALLOW_TEXT, "link ");
	for (i = 0; i < rn->box_allow.n; i++) {
		p = &rn->box_allow.prefix[i];
		at += p->af == AF_INET ?
		      scnprintf(text + at, RAR_ALLOW_TEXT - at, "%pI4/%u ", &p->ip, p->len) :
		      scnprintf(text + at, RAR_ALLOW_TEXT - at, "%pI6c/%u ", &p->ip, p->len);
	}
	spin_unlock_bh(&rn->lock);
	if (at)
		text[at - 1] = '\0';
	else
		strscpy(text, "none", RAR_ALLOW_TEXT);
}

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
