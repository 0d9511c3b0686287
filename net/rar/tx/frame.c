// SPDX-License-Identifier: GPL-2.0
/*
 * Frames at the XDP hook: decides whether a frame can be forwarded as it is, and builds its
 * new headers.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/neighbour.h>
#include <net/route.h>
#include <net/udp.h>
#include <net/xdp.h>

#include "core/buf.h"
#include "core/cursor.h"
#include "core/seal.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "tx/frame.h"
#include "tx/packet.h"
#include "tx/route.h"
#include "tx/run.h"

/* The device below a VLAN device, and the VLAN's tag. */
#if IS_ENABLED(CONFIG_VLAN_8021Q)
static struct net_device *vlan_under(const struct net_device *dev,
				     struct vlan_ethhdr *link)
{
	const struct vlan_dev_priv *vlan = vlan_dev_priv(dev);

	link->h_vlan_proto = vlan->vlan_proto;
	link->h_vlan_TCI = htons(vlan->vlan_id);
	return vlan->real_dev;
}
#else
static struct net_device *vlan_under(struct net_device *dev,
				     struct vlan_ethhdr *link)
{
	return dev;
}
#endif

/* Can the frame leave by the device it came by, or by another one that takes frames? */
static bool frame_dev_ok(const struct rar_frame *frame)
{
	const struct net_device *dev = frame->dev;

	if (dev->type != ARPHRD_ETHER || is_vlan_dev(dev))
		return false;
	return frame->generic || dev == frame->xdp->rxq->dev ||
	       rar_xdp_takes_frames(dev, xdp_buff_has_frags(frame->xdp));
}

/* Like dst_neigh_lookup(), but without a reference, as bottom halves are off. */
static struct neighbour *next_hop(const struct rar_path *path,
				  const struct dst_entry *dst)
{
	const struct rtable *rt = container_of(dst, struct rtable, dst);

#if IS_ENABLED(CONFIG_IPV6)
	if (path->dst.af == AF_INET6)
		return ip_neigh_gw6(dst->dev,
				    rt6_nexthop(container_of(dst, struct rt6_info, dst),
						&path->dst.ip));
	if (rt->rt_gw_family == AF_INET6)
		return ip_neigh_gw6(dst->dev, &rt->rt_gw6);
#endif
	return ip_neigh_gw4(dst->dev, rt->rt_gw_family ? rt->rt_gw4 : rar_addr_v4(&path->dst));
}

/* Build the new link header from the device, the VLAN and the neighbour's address now. */
static bool frame_link(struct rar_frame *frame, const struct rar_path *path,
		       const struct dst_entry *dst)
{
	struct vlan_ethhdr *link = (struct vlan_ethhdr *)frame->link;
	struct net_device *dev = dst->dev;
	struct neighbour *n;
	bool ok;

	frame->dev = is_vlan_dev(dev) ? vlan_under(dev, link) : dev;
	if (!frame_dev_ok(frame))
		return false;
	n = next_hop(path, dst);
	if (IS_ERR(n))
		return false;
		/* As for any packet this looks up the neighbour, or probes it. */
	ok = !neigh_event_send(n, NULL);
	if (ok)
		neigh_ha_snapshot(link->h_dest, n, n->dev);
	ether_addr_copy(link->h_source, dev->dev_addr);
	frame->link_len = is_vlan_dev(dev) ? VLAN_ETH_HLEN : ETH_HLEN;
	*(__be16 *)(frame->link + frame->link_len - sizeof(__be16)) =
		path->dst.af == AF_INET6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	return ok;
}

/* Bytes of all headers before the RAR header. */
static u32 frame_room(const struct rar_frame *frame, const struct rar_path *path)
{
	return frame->link_len + rar_ip_hdr_size(path) + sizeof(struct udphdr);
}

/**
 * rar_frame_ready() - can a frame be forwarded to the neighbour as it is?
 * @link: link to the neighbour
 * @pkt:  the frame
 *
 * Softirq, RCU read side.
 *
 * Return: false if its chunk must be sent in a packet, which takes any route, waits for the
 * neighbour's address and passes the firewall.
 */
bool rar_frame_ready(struct rar_link *link, const struct rar_pkt *pkt)
{
	struct rar_path *path = &link->path;
	u32 len = rar_ip_hdr_size(path) + sizeof(struct udphdr) + pkt->len +
		  link->member->tail;
	struct xdp_buff *xdp = pkt->frame->xdp;
	struct dst_entry *dst;
	u32 mtu, room;
	bool ok;

	/* The frame does not know yet by which of them it will leave. */
	if (rar_link_rails(link) > 1)
		return false;
	dst = rar_route_get(link->member, path);
	if (IS_ERR(dst))
		return false;
	mtu = READ_ONCE(path->mtu) ?: RAR_MAX_MTU;
	ok = !dst_xfrm(dst) && len <= min(mtu, READ_ONCE(dst->dev->mtu)) &&
	     frame_link(pkt->frame, path, dst);
	dst_release(dst);
	room = xdp->data - xdp->data_hard_start + pkt->off;
	return ok && room >= sizeof(struct xdp_frame) + frame_room(pkt->frame, path);
}

/* Write IP and UDP headers, UDP at @uh; @len counts the UDP header and what follows it. */
static void frame_headers(const struct rar_frame *frame, const struct rar_path *path,
			  struct udphdr *uh, u32 lane, u32 len)
{
	u32 hdrs = sizeof(*uh) + sizeof(struct rar_data_hdr);
	struct ipv6hdr *ip6h = (void *)uh - sizeof(*ip6h);
	struct iphdr *iph = (void *)uh - sizeof(*iph);
	__wsum sum;

	rar_packet_fill_udp(uh, path, lane, len);
	sum = csum_add(csum_partial(uh, hdrs, 0), frame->sum);
	if (path->dst.af == AF_INET6) {
		rar_packet_fill_v6(ip6h, path, sizeof(*ip6h) + len);
		uh->check = csum_ipv6_magic(&path->src.ip, &path->dst.ip, len,
					    IPPROTO_UDP, sum);
	} else {
		rar_packet_fill_v4(iph, path, sizeof(*iph) + len);
		iph->check = ip_fast_csum(iph, iph->ihl);
		uh->check = csum_tcpudp_magic(iph->saddr, iph->daddr, len,
					      IPPROTO_UDP, sum);
	}
	if (!uh->check)
		uh->check = CSUM_MANGLED_0;
}

/* Sum up the payload, if no checksum of it is known yet. */
static void frame_csum(struct rar_frame *frame, u32 off, u32 len)
{
	struct rar_cursor cursor = { .xdp = frame->xdp };
	struct rar_reduce_ctx ctx;

	rar_reduce_begin_csum(&ctx, len);
	frame->sum = rar_cursor_csum(&ctx, &cursor, off, len);
	rar_reduce_end(&ctx);
}

/**
 * rar_frame_forward() - forward the frame that brought a chunk
 * @link: link to the neighbour that gets it
 * @item: the chunk to carry, with its sequence number
 * @pkt:  the frame, for which rar_frame_ready() was true
 *
 * The frame leaves with a checksum when the XDP program returns. Softirq.
 */
void rar_frame_forward(struct rar_link *link, struct rar_tx_item *item,
		       const struct rar_pkt *pkt)
{
	const struct rar_path *path = &link->path;
	struct rar_member *m = link->member;
	struct rar_frame *frame = pkt->frame;
	struct xdp_buff *xdp = frame->xdp;
	struct rar_hdr_words *to;
	u32 head = sizeof(struct rar_data_hdr), len = pkt->len - head;

	rar_run_trace(m, item);
	rar_mib_add(m->rn, TxForward, item->run.n);
	to = xdp->data + pkt->off;
	rar_run_hdr(link, item, 0, len, to);
	/* The epoch is over if it cannot be sealed. */
	if (m->tail && !rar_seal_frame(m, path, xdp, pkt->off, pkt->len))
		return;
	len += m->tail;
	if (m->tail || !frame->summed)
		frame_csum(frame, pkt->off + head, len);
	frame_headers(frame, path, (void *)to - sizeof(struct udphdr),
		      item->lane, sizeof(struct udphdr) + head + len);
	/* Metadata of other programs do not hold any more. */
	if (xdp->data_meta <= xdp->data)
		xdp->data_meta = (void *)to - frame_room(frame, path);
	else
		xdp->data_meta = (void *)to - frame_room(frame, path) + 1;
	xdp->data = (void *)to - frame_room(frame, path);
	memcpy(xdp->data, frame->link, frame->link_len);
	frame->sent = true;
	rar_mib_inc(m->rn, TxXdp);
	rar_run_count(m, item);
}

/* Give packet sockets a copy, as of a sent packet, whichever way the frame goes. */
static void mirror(const struct xdp_buff *xdp)
{
	struct rar_cursor cursor = { .xdp = (struct xdp_buff *)xdp };
	u32 len = xdp_get_buff_len((struct xdp_buff *)xdp);
	struct sk_buff *skb = alloc_skb(len, GFP_ATOMIC);

	if (!skb)
		return;
	rar_cursor_read(&cursor, 0, skb_put(skb, len), len);
	skb->dev = xdp->rxq->dev;
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	dev_queue_xmit_nit(skb, skb->dev);
	consume_skb(skb);
}

/**
 * rar_frame_mirror() - show a frame that is about to be taken, if net.rar.xdp_mirror is set
 * @rn:    netns
 * @frame: as it came
 */
void rar_frame_mirror(struct rar_net *rn, const struct rar_frame *frame)
{
	if (READ_ONCE(rn->sysctl_xdp_mirror))
		mirror(frame->xdp);
}
