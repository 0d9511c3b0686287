// SPDX-License-Identifier: GPL-2.0
/*
 * The netfilter hooks: verdicts only. tx/device.c holds those of devices, the
 * default receive path, tx/port.c those of the host's input. What no hook takes
 * comes to the UDP socket.
 */
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/xfrm.h>

#include "rar.h"
#include "rx/hook.h"
#include "rx/input.h"
#include "tx/carrier.h"
#include "tx/port.h"
#include "tx/rules.h"

/* Is it a superpacket of GSO or GRO that can be read as it is? */
static bool superpacket(const struct sk_buff *skb)
{
	return (skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4) &&
	       !(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST) &&
	       skb_csum_unnecessary(skb);
}

/* The stack judges packets that were decrypted, as it knows how they came. */
unsigned int rar_hook_ingress(void *priv, struct sk_buff *skb,
			      const struct nf_hook_state *state)
{
	struct rar_net *rn = rar_net(state->net);

	if (rar_rules_rx_path(rn) == RAR_PATH_UDP || secpath_exists(skb) ||
	    skb->pkt_type != PACKET_HOST || skb_vlan_tag_present(skb) ||
	    (skb_is_gso(skb) && !superpacket(skb)) ||
	    (skb->protocol != htons(ETH_P_IP) &&
	     skb->protocol != htons(ETH_P_IPV6)))
		return NF_ACCEPT;
	return rar_rcv(rn, skb, RAR_AT_INGRESS) == RAR_TAKEN ? NF_STOLEN :
							       NF_ACCEPT;
}

/* Is the flow new? Connection tracking confirms it behind this hook. */
static bool is_unconfirmed(const struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
	enum ip_conntrack_info info;
	const struct nf_conn *ct = nf_ct_get(skb, &info);

	return ct && !nf_ct_is_confirmed(ct);
#else
	return false;
#endif
}

/* What the UDP socket would ask IPsec. */
static bool ipsec_agrees(struct sk_buff *skb, u8 family)
{
	return family == NFPROTO_IPV4 ?
	       xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb) :
	       xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb);
}

/* Is it UDP, to a port of ours? */
static bool to_port(const struct rar_net *rn, const struct sk_buff *skb,
		    u8 family)
{
	u8 proto = family == NFPROTO_IPV4 ? ip_hdr(skb)->protocol :
					    ipv6_hdr(skb)->nexthdr;
	struct udphdr buf, *uh;

	if (proto != IPPROTO_UDP)
		return false;
	uh = skb_header_pointer(skb, skb_transport_offset(skb), sizeof(buf),
				&buf);
	return uh && rar_port_serves(rn, uh->dest);
}

/* Does it come from a VRF? A socket that is bound to none may not hear it. */
static bool from_vrf(struct sk_buff *skb, u8 family)
{
	return family == NFPROTO_IPV4 ? inet_sdif(skb) : inet6_sdif(skb);
}

/*
 * May the input hook take a superpacket? The first packet of a flow that is not
 * a carrier goes on to connection tracking: no carrier would survive that.
 */
static bool whole(struct sk_buff *skb)
{
	return superpacket(skb) &&
	       (rar_carrier_is(skb) || !is_unconfirmed(skb));
}

/*
 * Behind the rules for the host's input, right before UDP: takes superpackets,
 * which UDP would cut before the socket gets them, and what comes from a VRF.
 * All other packets go on to UDP, also those that a rule gave to a socket.
 * Softirq; or process context, for packets that a rule queued to user space.
 */
unsigned int rar_hook_input(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state)
{
	struct rar_net *rn = rar_net(state->net);
	enum rar_verdict verdict;

	if (skb_is_gso(skb) ? !whole(skb) : !from_vrf(skb, state->pf))
		return NF_ACCEPT;
	if (skb->pkt_type != PACKET_HOST || skb->sk ||
	    !to_port(rn, skb, state->pf) || !ipsec_agrees(skb, state->pf))
		return NF_ACCEPT;
	local_bh_disable();
	verdict = rar_rcv(rn, skb, RAR_AT_INPUT);
	local_bh_enable();
	return verdict == RAR_TAKEN ? NF_STOLEN : NF_ACCEPT;
}
