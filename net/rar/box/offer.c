// SPDX-License-Identifier: GPL-2.0
/*
 * The box offers itself (net.rar.box_offer): if a router or a bridge is a box, it sees JOINs of
 * members pass, and tells their senders where the box is. Then nobody has to tell the members.
 * The packets go on as they are. Only packets that the firewall lets pass are seen.
 */
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <net/udp.h>

#include "box/allow.h"
#include "box/job.h"
#include "box/offer.h"
#include "box/passing.h"
#include "core/mib.h"
#include "group/offer.h"
#include "tx/control.h"
#include "tx/route.h"

/* Read a JOIN, to any port. Sets the nonce, and the fields of @pkt that an answer needs. */
static bool read_join(const struct sk_buff *skb, struct rar_pkt *pkt, u64 *nonce)
{
	struct rar_join_hdr buf, *jh;
	struct udphdr ubuf, *uh;
	struct rar_addr to = { };
	u32 udp;

	udp = rar_passing_udp(skb, &pkt->from, &to);
	uh = udp ? skb_header_pointer(skb, udp, sizeof(ubuf), &ubuf) : NULL;
	if (!uh)
		return false;
	jh = skb_header_pointer(skb, udp + sizeof(*uh), offsetof(struct rar_join_hdr, proof), &buf);
	if (!jh || jh->h.version != (RAR_WIRE_MAGIC | RAR_WIRE_VERSION) ||
	    jh->h.type != RAR_T_JOIN || jh->port != uh->source)
		return false;
	pkt->h = jh->h;
	pkt->from.port = uh->source;
	pkt->len = sizeof(jh->h) + be16_to_cpu(jh->h.len);
	*nonce = be64_to_cpu(jh->nonce);
	return *nonce && pkt->len + sizeof(*uh) == ntohs(uh->len);
}

/* Tell the sender of a JOIN where the box is, by the address of this host that it can reach. */
static void offer(struct rar_box *box, struct rar_pkt *pkt, u64 nonce)
{
	struct rar_path path = { .src.af = pkt->from.af, .dst = pkt->from };
	struct rar_member *self = box->self;
	struct rar_offer_hdr oh = { };

	/* The lookup sets the source. It stays unset if there is no route. */
	rar_route_on_link(self, &path);
	if (ipv6_addr_any(&path.src.ip) || !rar_allow_has(self, &path.dst, &path.src))
		return;
	path.src.port = box->port;
	pkt->to = path.src;
	rar_offer_to_wire(&path.src, &oh.box);
	rar_mib_inc(box->rn, BoxOffers);
	rar_control_reply(self, pkt, &oh, sizeof(oh), RAR_T_OFFER, nonce);
}

static unsigned int forward(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct rar_box *box = rar_box_of(state->net);
	struct rar_pkt pkt = { };
	u64 nonce;

	if (rar_box_is_on(box) && read_join(skb, &pkt, &nonce)) {
		/* A packet that comes back from a queue to user space comes in process context. */
		local_bh_disable();
		offer(box, &pkt, nonce);
		local_bh_enable();
	}
	return NF_ACCEPT;
}

static const struct nf_hook_ops offer_ops[] = {
	{ .hook = forward, .pf = NFPROTO_IPV4, .hooknum = NF_INET_FORWARD,
	  .priority = NF_IP_PRI_LAST },
#if IS_ENABLED(CONFIG_IPV6)
	{ .hook = forward, .pf = NFPROTO_IPV6, .hooknum = NF_INET_FORWARD,
	  .priority = NF_IP6_PRI_LAST },
#endif
#if IS_ENABLED(CONFIG_NETFILTER_FAMILY_BRIDGE)
	{ .hook = forward, .pf = NFPROTO_BRIDGE, .hooknum = NF_BR_FORWARD,
	  .priority = NF_BR_PRI_LAST },
#endif
};

/**
 * rar_offer_set() - let the box of a namespace offer itself, or not
 * @box: the box
 * @on:  answer JOINs that this host forwards
 *
 * Process context, rn->box_lock held.
 *
 * Return: 0 or a negative errno, and nothing has changed.
 */
int rar_offer_set(struct rar_box *box, bool on)
{
	struct net *net = box->rn->net;
	int err = 0;

	lockdep_assert_held(&box->rn->box_lock);
	if (on && !box->offers)
		err = nf_register_net_hooks(net, offer_ops,
					    ARRAY_SIZE(offer_ops));
	else if (!on && box->offers)
		nf_unregister_net_hooks(net, offer_ops, ARRAY_SIZE(offer_ops));
	if (!err)
		box->offers = on;
	return err;
}
