// SPDX-License-Identifier: GPL-2.0
/*
 * The exit: memory for a packet, its IP and UDP headers, and its way to IP.
 * What is in it comes from run.c or control.c. No packet is kept: a lost packet
 * is built again.
 */
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <net/xdp.h>

#include "core/seal.h"
#include "rar.h"
#include "tx/packet.h"
#include "tx/route.h"
#include "tx/sender.h"

#define OUTPUT_TTL	64
#define OUTPUT_TOS	INET_ECN_ECT_0

/*
 * Memory that veth can show to an XDP program at its other end without copying: a page
 * fragment with room in front. veth copies other packets first, to a page for each.
 */
static struct sk_buff *frag_alloc(u32 len)
{
	u32 size = SKB_DATA_ALIGN(len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	void *data = netdev_alloc_frag(size);
	struct sk_buff *skb;

	if (!data)
		return NULL;
	skb = build_skb(data, size);
	if (!skb)
		skb_free_frag(data);
	return skb;
}

/**
 * rar_packet_alloc() - get memory for a packet
 * @rn:   netns
 * @path: that it will take
 * @len:  bytes after the UDP header
 *
 * Any context.
 *
 * Return: an empty packet with room for all headers and @len bytes, or NULL.
 */
struct sk_buff *rar_packet_alloc(const struct rar_net *rn,
				 const struct rar_path *path, u32 len)
{
	u32 room = LL_MAX_HEADER + rar_ip_hdr_size(path) + sizeof(struct udphdr);
	struct sk_buff *skb = NULL;

	if (READ_ONCE(rn->sysctl_rx_path) == RAR_PATH_XDP) {
		room = SKB_DATA_ALIGN(room - LL_MAX_HEADER + VLAN_ETH_HLEN +
				      XDP_PACKET_HEADROOM);
		skb = frag_alloc(room + len);
	}
	if (!skb)
		skb = alloc_skb(room + len, GFP_ATOMIC);
	if (skb)
		skb_reserve(skb, room);
	return skb;
}

/* Fill in a UDP header; @len counts this header, too. */
void rar_packet_fill_udp(struct udphdr *uh, const struct rar_path *path, u32 lane, u32 len)
{
	uh->source = htons(ntohs(path->src.port) + lane);
	uh->dest = path->dst.port;
	uh->len = htons(len);
	uh->check = 0;
}

void rar_packet_fill_v4(struct iphdr *iph, const struct rar_path *path, u32 len)
{
	*iph = (struct iphdr) {
		.version = 4,
		.ihl = sizeof(*iph) / 4,
		.tos = OUTPUT_TOS,
		.tot_len = htons(len),
		.frag_off = htons(IP_DF),
		.ttl = OUTPUT_TTL,
		.protocol = IPPROTO_UDP,
		.saddr = rar_addr_v4(&path->src),
		.daddr = rar_addr_v4(&path->dst),
	};
}

void rar_packet_fill_v6(struct ipv6hdr *ip6h, const struct rar_path *path, u32 len)
{
	ip6_flow_hdr(ip6h, OUTPUT_TOS, 0);
	ip6h->payload_len = htons(len - sizeof(*ip6h));
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = OUTPUT_TTL;
	ip6h->saddr = path->src.ip;
	ip6h->daddr = path->dst.ip;
}

static void push_udp(struct sk_buff *skb, const struct rar_path *path, u32 lane)
{
	struct udphdr *uh = __skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	rar_packet_fill_udp(uh, path, lane, skb->len);
}

/* udp_set_csum() leaves the checksum to its caller for GSO. */
static void set_csum(struct sk_buff *skb)
{
	if (!skb_is_gso(skb))
		return;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

static int xmit_v4(struct net *net, struct sock *sk, struct sk_buff *skb,
		   const struct rar_path *path)
{
	struct iphdr *iph;

	set_csum(skb);
	udp_set_csum(false, skb, rar_addr_v4(&path->src), rar_addr_v4(&path->dst),
		     skb->len);
	iph = __skb_push(skb, sizeof(*iph));
	skb_reset_network_header(skb);
	/* The length may be that of many packets, which IP sets for each. */
	rar_packet_fill_v4(iph, path, 0);
	skb->protocol = htons(ETH_P_IP);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	return ip_local_out(net, sk, skb);
}

#if IS_ENABLED(CONFIG_IPV6)
static int xmit_v6(struct net *net, struct sock *sk, struct sk_buff *skb,
		   const struct rar_path *path)
{
	struct ipv6hdr *ip6h;

	set_csum(skb);
	udp6_set_csum(false, skb, &path->src.ip, &path->dst.ip, skb->len);
	ip6h = __skb_push(skb, sizeof(*ip6h));
	skb_reset_network_header(skb);
	rar_packet_fill_v6(ip6h, path, skb->len);
	skb->protocol = htons(ETH_P_IPV6);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	return ip6_local_out(net, sk, skb);
}
#else
static int xmit_v6(struct net *net, struct sock *sk, struct sk_buff *skb,
		   const struct rar_path *path)
{
	kfree_skb(skb);
	return -EAFNOSUPPORT;
}
#endif

/* Is a packet, or a segment, longer than the MTU configured in the route? */
static bool too_long(const struct sk_buff *skb, const struct rar_path *path)
{
	u32 len = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len;
	u32 mtu = READ_ONCE(path->mtu);

	return mtu && rar_ip_hdr_size(path) + sizeof(struct udphdr) + len > mtu;
}

/*
 * Send @skb, which starts at the RAR header, by @dst, with a seal if the group
 * has seals: no other function does this. Consumes both. No rar lock is held;
 * bottom halves are off, RCU read side.
 */
static int xmit_dst(struct rar_member *m, const struct rar_path *path,
		    struct sk_buff *skb, struct dst_entry *dst, u32 lane)
{
	struct sock *sk = rar_sender_sk(m, path->dst.af);
	struct net *net = m->rn->net;

	if (!IS_ERR(dst) && (!sk || too_long(skb, path))) {
		dst_release(dst);
		dst = ERR_PTR(sk ? -EMSGSIZE : -ENOTCONN);
	}
	if (IS_ERR(dst)) {
		kfree_skb(skb);
		return PTR_ERR(dst);
	}
	if (skb_cow_head(skb, dst->header_len + LL_RESERVED_SPACE(dst->dev) +
			 rar_ip_hdr_size(path) + sizeof(struct udphdr))) {
		dst_release(dst);
		kfree_skb(skb);
		return -ENOMEM;
	}
	if (m->tail && !rar_seal_packet(m, path, lane, skb)) {
		dst_release(dst);
		kfree_skb(skb);
		return -ENOMEM;
	}
	/* The sock lasts as long as the member, and as long as this packet. */
	skb_set_owner_w(skb, sk);
	skb_dst_set(skb, dst);
	skb->mark = m->sk_mark;
	skb->priority = m->sk_priority;
	push_udp(skb, path, lane);
	return path->dst.af == AF_INET6 ? xmit_v6(net, sk, skb, path) :
					  xmit_v4(net, sk, skb, path);
}

/* Count a packet that a queue of this host did not take. */
static int counted(struct rar_member *m, int err)
{
	err = net_xmit_eval(err);
	if (err)
		rar_mib_inc(m->rn, TxError);
	return err;
}

/**
 * rar_packet_xmit() - send a packet by the route of a neighbour
 * @m:    member
 * @path: to the neighbour
 * @skb:  packet that begins with the RAR header; consumed
 * @lane: number of the source port
 *
 * Any context up to softirq; no rar lock is held.
 *
 * Return: 0; -EMSGSIZE if the route takes no packet of this length; or the
 * error of a queue of this host.
 */
int rar_packet_xmit(struct rar_member *m, struct rar_path *path,
		    struct sk_buff *skb, u32 lane)
{
	int err;

	rcu_read_lock();
	local_bh_disable();
	err = xmit_dst(m, path, skb, rar_route_get(m, path), lane);
	local_bh_enable();
	rcu_read_unlock();
	return counted(m, err);
}

/**
 * rar_packet_xmit_once() - send a packet by a route that is not kept
 * @m:    member
 * @path: to the receiver
 * @skb:  packet that begins with the RAR header; consumed
 *
 * Softirq, RCU read side; no rar lock is held.
 */
void rar_packet_xmit_once(struct rar_member *m, struct rar_path *path,
			  struct sk_buff *skb)
{
	counted(m, xmit_dst(m, path, skb, rar_route_new(m, path), 0));
}

/**
 * rar_packet_fill_hdr() - fill in a common header
 * @m:     member that sends
 * @h:     header
 * @type:  enum rar_pkt_type
 * @dst:   rank of the receiver
 * @len:   bytes after the header
 * @token: see rar_wire.h
 */
void rar_packet_fill_hdr(const struct rar_member *m, struct rar_hdr *h, u8 type,
			 u32 dst, u32 len, u64 token)
{
	h->version = RAR_WIRE_MAGIC | RAR_WIRE_VERSION;
	h->type = type;
	h->src = cpu_to_be16(m->rank);
	h->dst = cpu_to_be16(dst);
	h->len = cpu_to_be16(len);
	h->group = cpu_to_be64(m->id);
	h->token = cpu_to_be64(token);
}
