// SPDX-License-Identifier: GPL-2.0
/*
 * RoCEv2 packets: the base transport header, and the checksums of a packet whose payload is
 * replaced. The invariant CRC covers all of the packet that no router changes.
 */
#include <linux/crc32.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>

#include "box/bth.h"
#include "box/passing.h"

#define ROCE_PORT	4791
#define ICRC_BYTES	4
#define LRH_BYTES	8	/* of a local route header, which RoCEv2 does not have */

/* The base transport header of InfiniBand. */
struct bth_hdr {
	u8 opcode;
	u8 flags;
	__be16 pkey;
	__be32 qpn;
	__be32 psn;
};

#define FLAGS_PAD	0x30	/* bytes of padding */
#define FLAGS_VERSION	0x0f
#define QPN_MASK	0xffffff

/**
 * rar_bth_read() - read a packet that may be a part of a message for the box
 * @skb: at a forward hook
 * @bth: set if it may
 *
 * Any context. All other packets to the port of RoCEv2 (other operations, acknowledgments,
 * immediate data, odd lengths) are for nobody here.
 *
 * Return: true if it is a part of an RDMA SEND of a reliable connection.
 */
bool rar_bth_read(const struct sk_buff *skb, struct rar_bth *bth)
{
	struct bth_hdr buf, *hdr;
	struct udphdr ubuf, *uh;

	bth->udp = rar_passing_udp(skb, &bth->from, &bth->to);
	uh = bth->udp ? skb_header_pointer(skb, bth->udp, sizeof(ubuf), &ubuf) : NULL;
	if (!uh || uh->dest != htons(ROCE_PORT))
		return false;
	bth->data = bth->udp + sizeof(*uh) + sizeof(*hdr);
	hdr = skb_header_pointer(skb, bth->udp + sizeof(*uh), sizeof(buf), &buf);
	if (!hdr || (hdr->opcode > RAR_BTH_LAST && hdr->opcode != RAR_BTH_ONLY) ||
	    hdr->flags & (FLAGS_PAD | FLAGS_VERSION) ||
	    bth->udp + ntohs(uh->len) != skb->len ||
	    skb->len < bth->data + sizeof(struct rar_roce_mark) + ICRC_BYTES)
		return false;
	bth->part = hdr->opcode;
	bth->qpn = be32_to_cpu(hdr->qpn) & QPN_MASK;
	bth->psn = be32_to_cpu(hdr->psn) & RAR_BTH_PSN_MASK;
	bth->len = skb->len - ICRC_BYTES - bth->data;
	return true;
}

/* Set what routers may change to ones, in a copy of the IP header. */
static void mask_ip(void *hdr, bool v4)
{
	struct ipv6hdr *ip6h = hdr;
	struct iphdr *iph = hdr;

	if (v4) {
		iph->tos = 0xff;
		iph->ttl = 0xff;
		iph->check = (__force __sum16)0xffff;
	} else {
		ip6h->priority = 0xf;
		memset(ip6h->flow_lbl, 0xff, sizeof(ip6h->flow_lbl));
		ip6h->hop_limit = 0xff;
	}
}

/* The invariant CRC of a packet that lies in one piece. */
static __le32 icrc(const struct sk_buff *skb, const struct rar_bth *bth)
{
	u8 head[LRH_BYTES + sizeof(struct ipv6hdr) + sizeof(struct udphdr) +
		sizeof(struct bth_hdr)];
	u32 start = skb_network_offset(skb), len = bth->data - start;
	struct bth_hdr *hdr = (void *)head + LRH_BYTES + len - sizeof(*hdr);
	struct udphdr *uh = (void *)hdr - sizeof(*uh);

	memset(head, 0xff, LRH_BYTES);
	memcpy(head + LRH_BYTES, skb->data + start, len);
	mask_ip(head + LRH_BYTES, bth->from.af == AF_INET);
	uh->check = (__force __sum16)0xffff;
	hdr->qpn |= cpu_to_be32(~QPN_MASK);
	return cpu_to_le32(~crc32_le(crc32_le(~0, head, LRH_BYTES + len), skb->data + bth->data,
				     bth->len));
}

/**
 * rar_bth_open() - make a packet ready to be changed, if it is sound
 * @skb: read by rar_bth_read()
 * @bth: what that has read
 *
 * Any context up to softirq.
 *
 * Return: true if the packet lies in one piece, nobody else sees its data, and its CRC is right.
 */
bool rar_bth_open(struct sk_buff *skb, const struct rar_bth *bth)
{
	u32 len = bth->udp - skb_network_offset(skb);
	__le32 crc;

	if (len != (bth->from.af == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) ||
	    skb_is_gso(skb) || skb->ip_summed == CHECKSUM_PARTIAL || !rar_skb_readable(skb) ||
	    skb_ensure_writable(skb, skb->len))
		return false;
	memcpy(&crc, skb->data + bth->data + bth->len, sizeof(crc));
	return crc == icrc(skb, bth);
}

/* The UDP checksum, if the sender made one. */
static void renew_udp(struct sk_buff *skb, const struct rar_bth *bth)
{
	struct udphdr *uh = (void *)skb->data + bth->udp;
	u32 len = skb->len - bth->udp;
	__wsum sum;

	if (!uh->check)
		return;
	uh->check = 0;
	sum = csum_partial(uh, len, 0);
	if (bth->from.af == AF_INET)
		uh->check = csum_tcpudp_magic(bth->from.ip.s6_addr32[0], bth->to.ip.s6_addr32[0],
					      len, IPPROTO_UDP, sum);
	else
		uh->check = csum_ipv6_magic(&bth->from.ip, &bth->to.ip, len, IPPROTO_UDP, sum);
	if (!uh->check)
		uh->check = CSUM_MANGLED_0;
}

/**
 * rar_bth_close() - renew the checksums of a packet whose payload was changed
 * @skb: opened by rar_bth_open()
 * @bth: what was read from it
 *
 * Any context up to softirq.
 */
void rar_bth_close(struct sk_buff *skb, const struct rar_bth *bth)
{
	__le32 crc = icrc(skb, bth);

	memcpy(skb->data + bth->data + bth->len, &crc, sizeof(crc));
	renew_udp(skb, bth);
	skb->ip_summed = CHECKSUM_NONE;
}
