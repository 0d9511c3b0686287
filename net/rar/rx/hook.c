// SPDX-License-Identifier: GPL-2.0
/*
 * The netfilter ingress hook, the default receive path: verdicts only. tx/device.c holds the
 * hooks. Without a hook the UDP socket receives, more slowly.
 */
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>

#include "rar.h"
#include "rx/hook.h"
#include "rx/input.h"
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
	return rar_rcv(rn, skb, RAR_PATH_INGRESS) == RAR_TAKEN ? NF_STOLEN :
								 NF_ACCEPT;
}
