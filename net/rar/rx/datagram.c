// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams: finds and checks what lies before the RAR header, on every path.
 */
#include <linux/bpf.h>
#include <linux/inetdevice.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/udp.h>
#include <net/xdp.h>

#include "core/addr.h"
#include "core/buf.h"
#include "core/cursor.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "rx/datagram.h"
#include "tx/port.h"
#include "tx/route.h"

static u32 frame_head(const struct rar_frame *frame)
{
	return frame->xdp->data_end - frame->xdp->data;
}

/* The length of a packet from its first header on, bytes. */
u32 rar_datagram_len(const struct rar_pkt *pkt)
{
	return pkt->skb ? pkt->skb->len : xdp_get_buff_len(pkt->frame->xdp);
}

/**
 * rar_datagram_header() - find bytes of a packet
 * @pkt: packet
 * @off: from the first header on
 * @len: bytes wanted
 * @buf: room for them
 *
 * Return: where they lie together, which may be @buf, or NULL if they are not
 * there. The headers of a frame must lie together.
 */
void *rar_datagram_header(const struct rar_pkt *pkt, u32 off, u32 len,
			  void *buf)
{
	if (pkt->skb)
		return skb_header_pointer(pkt->skb, off, len, buf);
	if (off + len > frame_head(pkt->frame))
		return NULL;
	return pkt->frame->xdp->data + off;
}

static bool dgram_v4(struct rar_pkt *pkt, u32 nhoff, struct rar_datagram *d)
{
	struct iphdr buf, *iph;

	iph = rar_datagram_header(pkt, nhoff, sizeof(buf), &buf);
	if (!iph || iph->version != 4 || iph->ihl < 5 ||
	    iph->protocol != IPPROTO_UDP || (iph->frag_off & htons(IP_OFFSET)))
		return false;
	d->udp = nhoff + iph->ihl * 4;
	d->end = nhoff + ntohs(iph->tot_len);
	d->fragment = iph->frag_off & htons(IP_MF);
	d->options = iph->ihl > 5;
	d->bad_ip_csum = !d->options && ip_fast_csum(iph, 5);
	pkt->ce = INET_ECN_is_ce(iph->tos);
	pkt->from.af = AF_INET;
	pkt->to.af = AF_INET;
	pkt->from.ip.s6_addr32[0] = iph->saddr;
	pkt->to.ip.s6_addr32[0] = iph->daddr;
	return true;
}

static bool dgram_v6(struct rar_pkt *pkt, u32 nhoff, struct rar_datagram *d)
{
	struct ipv6hdr buf, *ip6h;

	ip6h = rar_datagram_header(pkt, nhoff, sizeof(buf), &buf);
	if (!ip6h || ip6h->version != 6)
		return false;
	if (ip6h->nexthdr != IPPROTO_UDP)
		d->options = true;
	d->udp = nhoff + sizeof(*ip6h);
	d->end = d->udp + ntohs(ip6h->payload_len);
	pkt->ce = INET_ECN_is_ce(ipv6_get_dsfield(ip6h));
	pkt->from.af = AF_INET6;
	pkt->to.af = AF_INET6;
	pkt->from.ip = ip6h->saddr;
	pkt->to.ip = ip6h->daddr;
	if (ipv6_addr_type(&pkt->from.ip) & IPV6_ADDR_LINKLOCAL)
		pkt->from.scope = pkt->way.dev;
	return true;
}

/*
 * Find UDP and the common RAR header. Returns false if the packet is not
 * recognised as ours.
 */
static bool find_headers(struct rar_net *rn, struct rar_pkt *pkt,
			 struct rar_datagram *d)
{
	struct udphdr buf, *uh;
	struct rar_hdr *h;

	uh = rar_datagram_header(pkt, d->udp, sizeof(buf), &buf);
	if (!uh || !rar_port_serves(rn, uh->dest))
		return false;
	d->udp_len = ntohs(uh->len);
	d->check = uh->check;
	pkt->from.port = uh->source;
	pkt->to.port = uh->dest;
	pkt->off = d->udp + sizeof(*uh);
	h = rar_datagram_header(pkt, pkt->off, sizeof(*h), &pkt->h);
	if (!h)
		return false;
	pkt->h = *h;
	pkt->len = d->udp_len - sizeof(*uh);
	return h->version >> 4 == RAR_WIRE_MAGIC >> 4;
}

/* The checksum of the pseudo header and of the bytes summed up in @sum. */
static __sum16 csum_with(const struct rar_pkt *pkt,
			 const struct rar_datagram *d, __wsum sum)
{
	if (pkt->from.af == AF_INET)
		return csum_tcpudp_magic(pkt->from.ip.s6_addr32[0],
					 pkt->to.ip.s6_addr32[0], d->udp_len,
					 IPPROTO_UDP, sum);
	return csum_ipv6_magic(&pkt->from.ip, &pkt->to.ip, d->udp_len,
			       IPPROTO_UDP, sum);
}

/*
 * Has the sender left the checksum to its device, with the pseudo header's sum
 * in place of it? veth hands such a packet on in this machine's memory, so
 * there it is as good as a right checksum. If other devices bring it, or an skb
 * tells, the stack judges.
 */
static bool csum_left_open(const struct rar_pkt *pkt,
			   const struct rar_datagram *d)
{
	__sum16 seed = ~csum_with(pkt, d, 0);

	return d->check == seed;
}

static bool from_veth(const struct rar_frame *frame)
{
	return !frame->generic && rar_is_veth(frame->xdp->rxq->dev);
}

/*
 * Check a frame. The sum of the bytes after the headers is kept: AG does not
 * change it.
 */
static bool frame_csum_good(const struct rar_pkt *pkt,
			    const struct rar_datagram *d)
{
	struct rar_cursor cursor = rar_pkt_cursor(pkt);
	u32 hdrs = sizeof(struct udphdr) + sizeof(struct rar_data_hdr);
	struct rar_frame *frame = pkt->frame;
	struct rar_reduce_ctx ctx;
	__wsum sum;

	if (csum_left_open(pkt, d))
		return from_veth(frame);
	hdrs = min_t(u32, hdrs, d->udp_len);
	rar_reduce_begin_csum(&ctx, d->udp_len);
	sum = rar_cursor_csum(&ctx, &cursor, d->udp, hdrs);
	frame->sum = rar_cursor_csum(&ctx, &cursor, d->udp + hdrs,
				     d->udp_len - hdrs);
	rar_reduce_end(&ctx);
	frame->summed = true;
	return !csum_with(pkt, d, csum_add(sum, frame->sum));
}

/*
 * Is the sum right that the device computed? As nf_ip_checksum(): at the
 * ingress hook it covers the packet's IP header, and a right IPv4 header adds
 * nothing.
 */
static bool csum_complete_good(const struct rar_pkt *pkt,
			       const struct rar_datagram *d)
{
	const struct sk_buff *skb = pkt->skb;
	__wsum sum = skb->csum;

	if (skb->ip_summed != CHECKSUM_COMPLETE || skb->len != d->end)
		return false;
	if (pkt->from.af == AF_INET6)
		sum = csum_sub(sum, skb_checksum(skb, 0, d->udp, 0));
	return !csum_with(pkt, d, sum);
}

/*
 * Check the sum over pseudo header, UDP header and data; the sum is zero if it
 * is right.
 */
static bool csum_good(const struct rar_pkt *pkt, const struct rar_datagram *d)
{
	if (pkt->frame)
		return frame_csum_good(pkt, d);
	return skb_csum_unnecessary(pkt->skb) || csum_complete_good(pkt, d) ||
	       !csum_with(pkt, d,
			  skb_checksum(pkt->skb, d->udp, d->udp_len, 0));
}

/**
 * rar_datagram_check() - check all that must hold before the payload is read
 * @pkt: packet whose headers were found
 * @d:   they
 *
 * Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_datagram_check(const struct rar_pkt *pkt,
			       const struct rar_datagram *d)
{
	if (d->fragment)
		return RAR_DROP(Fragment);
	if (d->options)
		return RAR_DROP(IpOptions);
	if (d->bad_ip_csum)
		return RAR_DROP(Checksum);
	if (d->end > rar_datagram_len(pkt) || d->udp + d->udp_len > d->end)
		return RAR_DROP(Truncated);
	if (pkt->skb && !rar_skb_readable(pkt->skb))
		return RAR_DROP(Memory);
	if (d->udp + d->udp_len != d->end)
		return RAR_DROP(Length);
	if (d->udp_len < sizeof(struct udphdr) + sizeof(struct rar_hdr))
		return RAR_DROP(Short);
	if (!d->check)
		return RAR_DROP(NoChecksum);
	return csum_good(pkt, d) ? RAR_RX_DONE : RAR_DROP(Checksum);
}

/*
 * Does the packet have an address that no packet from a wire may have? The hook
 * comes before the stack's own checks, so such packets are left to them.
 */
static bool martian(const struct net_device *dev, const struct rar_pkt *pkt)
{
	bool lo = dev->flags & IFF_LOOPBACK;
	__be32 saddr = pkt->from.ip.s6_addr32[0];
	__be32 daddr = pkt->to.ip.s6_addr32[0];

	if (!rar_addr_is_host(pkt->from.af, &pkt->from.ip))
		return true;
	if (lo)
		return false;
	if (pkt->from.af == AF_INET)
		return ipv4_is_loopback(saddr) || ipv4_is_loopback(daddr);
	return ipv6_addr_loopback(&pkt->from.ip) ||
	       ipv6_addr_loopback(&pkt->to.ip);
}

/* Why a packet on our port that the ingress hook passed is of no use. */
static enum rar_rx why_not_ours(struct sk_buff *skb, u32 udp)
{
	u8 buf, *first;

	first = skb_header_pointer(skb, udp + sizeof(struct udphdr), 1, &buf);
	if (first && *first >> 4 != RAR_WIRE_MAGIC >> 4)
		return RAR_DROP(Foreign);
	return RAR_DROP(Short);
}

/* The stack has reassembled the packet. */
static bool was_cut(struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? IPCB(skb)->frag_max_size :
						  IP6CB(skb)->frag_max_size;
}

/* The stack has checked the packet's IP header and found the socket. */
static void from_stack(struct sk_buff *skb, struct rar_datagram *d)
{
	bool v4 = skb->protocol == htons(ETH_P_IP);

	d->options = v4 ? d->options :
			  skb_network_header_len(skb) != sizeof(struct ipv6hdr);
	d->udp = 0;
	d->end = skb->len;
	d->bad_ip_csum = false;
}

/*
 * Note how a packet came. In a VRF the stack says that @dev is the VRF, and
 * @port the device where the packet came in; otherwise @port is 0. @early: the
 * stack has not looked at the packet.
 */
static void came_by(struct rar_way *way, const struct net_device *dev, int port,
		    bool early)
{
	struct in_device *in_dev = early ? __in_dev_get_rcu(dev) : NULL;

	way->dev = port ?: dev->ifindex;
	way->vrf = l3mdev_master_ifindex_rcu(dev);
	way->inside = (dev->flags & IFF_LOOPBACK) || way->dev == way->vrf;
	way->strict = in_dev && IN_DEV_RPFILTER(in_dev) == 1;
}

/* The port of a VRF by which a packet came, as the stack has it; 0: no VRF. */
static int vrf_port(struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? inet_sdif(skb) :
						  inet6_sdif(skb);
}

/* Note how a packet came that an ICMP error or the UDP socket brings. */
void rar_datagram_way(struct sk_buff *skb, struct rar_way *way)
{
	came_by(way, skb->dev, vrf_port(skb), false);
}

/* Read the IP header at @nhoff. Returns false if UDP does not follow. */
static bool read_ip(struct rar_pkt *pkt, u32 nhoff, bool v4,
		    struct rar_datagram *d)
{
	return v4 ? dgram_v4(pkt, nhoff, d) : dgram_v6(pkt, nhoff, d);
}

/**
 * rar_datagram_find() - find the headers of a packet
 * @rn:    netns
 * @pkt:   packet with its skb; how it came and its headers are set
 * @entry: where it came
 * @d:     zero; set
 *
 * Softirq, RCU read side.
 *
 * Return: RAR_RX_DONE; RAR_RX_PASS if it is not ours (at a hook); or, for the
 * UDP socket, the drop with its reason.
 */
enum rar_rx rar_datagram_find(struct rar_net *rn, struct rar_pkt *pkt,
			      enum rar_entry entry, struct rar_datagram *d)
{
	bool v4 = pkt->skb->protocol == htons(ETH_P_IP);
	bool socket = entry == RAR_AT_SOCKET;
	struct sk_buff *skb = pkt->skb;

	if (entry == RAR_AT_INGRESS)
		came_by(&pkt->way, skb->dev, 0, v4);
	else
		rar_datagram_way(skb, &pkt->way);
	if (!read_ip(pkt, skb_network_offset(skb), v4, d))
		return RAR_RX_PASS;
	if (entry != RAR_AT_INGRESS)
		d->fragment = was_cut(skb);
	if (socket)
		from_stack(skb, d);
	else if (martian(skb->dev, pkt) || (d->options && !v4))
		return RAR_RX_PASS;
	if (find_headers(rn, pkt, d))
		return RAR_RX_DONE;
	return socket ? why_not_ours(skb, d->udp) : RAR_RX_PASS;
}

/**
 * rar_datagram_find_frame() - find the headers of a packet that has no skb yet
 * @rn:       netns
 * @pkt:      packet with its frame; how it came and its headers are set
 * @dev:      device that would bring it as an skb
 * @nhoff:    offset of its IP header
 * @protocol: of its link header: ETH_P_IP or ETH_P_IPV6
 * @d:        zero; set
 *
 * Softirq, RCU read side.
 *
 * Return: false if it is not ours.
 */
bool rar_datagram_find_frame(struct rar_net *rn, struct rar_pkt *pkt,
			     const struct net_device *dev, u32 nhoff,
			     __be16 protocol, struct rar_datagram *d)
{
	bool v4 = protocol == htons(ETH_P_IP);

	came_by(&pkt->way, dev, 0, v4);
	return read_ip(pkt, nhoff, v4, d) && !martian(dev, pkt) &&
	       find_headers(rn, pkt, d);
}
