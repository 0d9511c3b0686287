// SPDX-License-Identifier: GPL-2.0
/*
 * Input: every packet of every path. Parses headers, validates, and finds the member a
 * packet is for. What follows for data is in chunk.c.
 */
#include <linux/bpf.h>
#include <linux/inetdevice.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/udp.h>
#include <net/xdp.h>

#include "box/box.h"
#include "core/buf.h"
#include "core/cursor.h"
#include "core/drop.h"
#include "core/event.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/trace.h"
#include "group/join.h"
#include "group/notice.h"
#include "link/ack.h"
#include "link/loss.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/chunk.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/fail.h"
#include "ring/keyed.h"
#include "ring/leg.h"
#include "ring/push.h"
#include "rx/input.h"
#include "tx/carrier.h"
#include "tx/packet.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/rules.h"

/* -- IP and UDP ---------------------------------------------------------- */

static u32 frame_head(const struct rar_frame *frame)
{
	return frame->xdp->data_end - frame->xdp->data;
}

static u32 pkt_len(const struct rar_pkt *pkt)
{
	return pkt->skb ? pkt->skb->len : xdp_get_buff_len(pkt->frame->xdp);
}

/*
 * Find @len bytes at @off. They may be copied to @buf; NULL if they are not there. The
 * headers of a frame must lie together.
 */
static void *header(const struct rar_pkt *pkt, u32 off, u32 len, void *buf)
{
	if (pkt->skb)
		return skb_header_pointer(pkt->skb, off, len, buf);
	return off + len <= frame_head(pkt->frame) ? pkt->frame->xdp->data + off :
						     NULL;
}

/* A datagram in the packet; offsets from the packet's beginning. */
struct datagram {
	u32 udp;		/* offset of the UDP header */
	u32 end;		/* offset of the end of the IP payload */
	u16 udp_len;
	__sum16 check;
	bool fragment;
	bool options;
	bool bad_ip_csum;
};

static bool dgram_v4(struct rar_pkt *pkt, u32 nhoff, struct datagram *d)
{
	struct iphdr buf, *iph;

	iph = header(pkt, nhoff, sizeof(buf), &buf);
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

static bool dgram_v6(struct rar_pkt *pkt, u32 nhoff, struct datagram *d)
{
	struct ipv6hdr buf, *ip6h;

	ip6h = header(pkt, nhoff, sizeof(buf), &buf);
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

/* Find UDP and the common RAR header. Returns false if the packet is not recognised as ours. */
static bool find_headers(struct rar_net *rn, struct rar_pkt *pkt,
			 struct datagram *d)
{
	struct udphdr buf, *uh;
	struct rar_hdr *h;

	uh = header(pkt, d->udp, sizeof(buf), &buf);
	if (!uh || !rar_port_serves(rn, uh->dest))
		return false;
	d->udp_len = ntohs(uh->len);
	d->check = uh->check;
	pkt->from.port = uh->source;
	pkt->to.port = uh->dest;
	pkt->off = d->udp + sizeof(*uh);
	h = header(pkt, pkt->off, sizeof(*h), &pkt->h);
	if (!h)
		return false;
	pkt->h = *h;
	pkt->len = d->udp_len - sizeof(*uh);
	return h->version >> 4 == RAR_WIRE_MAGIC >> 4;
}

/* The checksum of the pseudo header and of the bytes summed up in @sum. */
static __sum16 csum_with(const struct rar_pkt *pkt, const struct datagram *d,
			 __wsum sum)
{
	if (pkt->from.af == AF_INET)
		return csum_tcpudp_magic(pkt->from.ip.s6_addr32[0],
					 pkt->to.ip.s6_addr32[0], d->udp_len,
					 IPPROTO_UDP, sum);
	return csum_ipv6_magic(&pkt->from.ip, &pkt->to.ip, d->udp_len,
			       IPPROTO_UDP, sum);
}

/*
 * Has the sender left the checksum to its device, with the pseudo header's sum in place of
 * it? veth hands such a packet on in this machine's memory, so there it is as good as
 * a right checksum. If other devices bring it, or an skb tells, the stack judges.
 */
static bool csum_left_open(const struct rar_pkt *pkt, const struct datagram *d)
{
	__sum16 seed = ~csum_with(pkt, d, 0);

	return d->check == seed;
}

static bool from_veth(const struct rar_frame *frame)
{
	return !frame->generic && rar_is_veth(frame->xdp->rxq->dev);
}

/* Check a frame. The sum of the bytes after the headers is kept: AG does not change it. */
static bool frame_csum_good(const struct rar_pkt *pkt, const struct datagram *d)
{
	struct rar_cursor cursor = { .xdp = pkt->frame->xdp };
	u32 hdrs = sizeof(struct udphdr) + sizeof(struct rar_data_hdr);
	struct rar_frame *frame = pkt->frame;
	struct rar_reduce_ctx ctx;
	__wsum sum;

	if (csum_left_open(pkt, d))
		return from_veth(frame);
	hdrs = min_t(u32, hdrs, d->udp_len);
	rar_reduce_begin_csum(&ctx, d->udp_len);
	sum = rar_cursor_csum(&ctx, &cursor, d->udp, hdrs);
	frame->sum = rar_cursor_csum(&ctx, &cursor, d->udp + hdrs, d->udp_len - hdrs);
	rar_reduce_end(&ctx);
	frame->summed = true;
	return !csum_with(pkt, d, csum_add(sum, frame->sum));
}

/*
 * Is the sum right that the device computed? As nf_ip_checksum(): at the ingress hook it
 * covers the packet's IP header, and a right IPv4 header adds nothing.
 */
static bool csum_complete_good(const struct rar_pkt *pkt, const struct datagram *d)
{
	const struct sk_buff *skb = pkt->skb;
	__wsum sum = skb->csum;

	if (skb->ip_summed != CHECKSUM_COMPLETE || skb->len != d->end)
		return false;
	if (pkt->from.af == AF_INET6)
		sum = csum_sub(sum, skb_checksum(skb, 0, d->udp, 0));
	return !csum_with(pkt, d, sum);
}

/* Check the sum over pseudo header, UDP header and data; the sum is zero if it is right. */
static bool csum_good(const struct rar_pkt *pkt, const struct datagram *d)
{
	if (pkt->frame)
		return frame_csum_good(pkt, d);
	return skb_csum_unnecessary(pkt->skb) || csum_complete_good(pkt, d) ||
	       !csum_with(pkt, d, skb_checksum(pkt->skb, d->udp, d->udp_len, 0));
}

/* Check everything about the datagram that must hold before its payload is read. */
static enum rar_rx check_datagram(const struct rar_pkt *pkt, const struct datagram *d)
{
	if (d->fragment)
		return RAR_DROP(Fragment);
	if (d->options)
		return RAR_DROP(IpOptions);
	if (d->bad_ip_csum)
		return RAR_DROP(Checksum);
	if (d->end > pkt_len(pkt) || d->udp + d->udp_len > d->end)
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

static bool addr_equal(const struct rar_addr *a, const struct rar_addr *b)
{
	if (a->af != b->af)
		return false;
	return a->af == AF_INET6 ? ipv6_addr_equal(&a->ip, &b->ip) :
		a->ip.s6_addr32[0] == b->ip.s6_addr32[0];
}

/*
 * Is the packet for this host? The ingress hook also sees packets that only pass through. A
 * member bound to no address can be joined at any local address.
 */
static bool addressed_to(const struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 i;

	for (i = 0; i < RAR_LINKS; i++)
		if (addr_equal(&pkt->to, &m->link[i].path.src))
			return true;
	return addr_equal(&pkt->to, &m->self) ||
	       (pkt->local && pkt->h.type == RAR_T_JOIN && !m->self.af);
}

/* -- the validator ------------------------------------------------------- */

#define FROM_PREV	BIT(RAR_PREV)
#define FROM_NEXT	BIT(RAR_NEXT)
#define FROM_BOX	BIT(RAR_LEG)
#define FROM_PEER	BIT(RAR_LINKS)		/* from a rank that exchanges directly */
#define FROM_ANY	BIT(RAR_LINKS + 1)	/* the type's function looks where it comes from */
#define TO_BOX		BIT(RAR_LINKS + 2)	/* from a member or a box below to a box */
#define FROM_ANYONE	BIT(RAR_LINKS + 3)	/* if they know the token */
#define BY_EPOCH	BIT(0)	/* token is the epoch, of the link if it has its own */
#define BY_NONCE	BIT(1)	/* token is our nonce, which the successor and the table have */
#define BY_PASS		BIT(2)	/* token is the cookie by which the predecessor was accepted */
#define BY_GROUP	BIT(3)	/* token is the group's epoch, although the link has its own */
#define BY_TYPE		BIT(4)	/* the type's function judges the token */

/*
 * Per type: the shortest packet, which neighbours may send it, which token it has, and from
 * how many ports after the neighbour's own it may come, one per lane.
 */
static const struct input_type {
	u16 min;
	u16 from;
	u8 token;
	u8 more_ports;
} input_types[] = {
	[RAR_T_RS]	= { sizeof(struct rar_data_hdr), FROM_PREV | TO_BOX | FROM_BOX, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_AG]	= { sizeof(struct rar_data_hdr), FROM_PREV | FROM_BOX, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_ACK]	= { sizeof(struct rar_ack_hdr), FROM_NEXT | FROM_BOX, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_PROBE]	= { sizeof(struct rar_probe_hdr), FROM_PREV | TO_BOX, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_WANT]	= { sizeof(struct rar_chunks_hdr), FROM_NEXT | TO_BOX, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_RETURN]	= { sizeof(struct rar_chunks_hdr), TO_BOX | FROM_BOX, BY_EPOCH },
	[RAR_T_ENTERED]	= { sizeof(struct rar_entered_hdr), FROM_BOX, BY_GROUP },
	[RAR_T_DIRECT]	= { sizeof(struct rar_data_hdr), FROM_PEER, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_DONE]	= { sizeof(struct rar_done_hdr), FROM_PEER, BY_EPOCH,
			    RAR_MAX_LANES - 1 },
	[RAR_T_PAIR]	= { sizeof(struct rar_pair_hdr), FROM_ANY, BY_TYPE },
	[RAR_T_PAIR_ACK] = { sizeof(struct rar_pair_hdr), FROM_ANY, BY_TYPE },
	[RAR_T_OFFER]	= { sizeof(struct rar_offer_hdr), FROM_ANYONE, BY_NONCE },
	[RAR_T_JOIN]	= { sizeof(struct rar_join_hdr), FROM_PREV, BY_TYPE },
	[RAR_T_JOIN_ACK] = { sizeof(struct rar_join_hdr), FROM_NEXT, BY_NONCE },
	[RAR_T_REJECT]	= { sizeof(struct rar_reject_hdr), FROM_NEXT, BY_NONCE },
	[RAR_T_COLLECT]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_PASS },
	[RAR_T_PROPOSE]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_PASS },
	[RAR_T_COMMIT]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_PASS },
	[RAR_T_ABORT]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH | BY_NONCE | BY_PASS,
			    RAR_MAX_LANES - 1 },
	[RAR_T_RESET]	= { sizeof(struct rar_hdr),
			    FROM_PREV | FROM_NEXT | TO_BOX | FROM_BOX, BY_EPOCH },
	[RAR_T_FIN]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH, RAR_MAX_LANES - 1 },
	[RAR_T_LATE]	= { sizeof(struct rar_notice_hdr), FROM_PREV,
			    BY_EPOCH, RAR_MAX_LANES - 1 },
	[RAR_T_FIN_ACK]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH, RAR_MAX_LANES - 1 },
};

static const struct input_type *input_type(u8 type)
{
	if (type >= ARRAY_SIZE(input_types) || !input_types[type].min)
		return NULL;
	return &input_types[type];
}

static bool port_of(const struct rar_path *path, const struct rar_pkt *pkt,
		    const struct input_type *t)
{
	u16 lane = ntohs(pkt->from.port) - ntohs(path->dst.port);

	return lane <= t->more_ports;
}

/*
 * Is the source rank a neighbour that may send this type, and does the packet come from its
 * address and port? The neighbour's kernel holds that port. It also holds the ports of the
 * lanes, unless another process there had one of them first. A JOIN may come from any
 * address, because that is how the predecessor's address becomes known. Sets @pkt->link.
 */
static enum rar_rx check_sender(struct rar_member *m, struct rar_pkt *pkt,
				const struct input_type *t)
{
	u32 src = be16_to_cpu(pkt->h.src), i;
	struct rar_link *link;
	bool known = false;

	pkt->link = NULL;
	if (t->from & FROM_ANYONE)
		return RAR_RX_DONE;
	if (t->from & FROM_ANY)
		return src < m->size && src != m->rank ? RAR_RX_DONE : RAR_DROP(Rank);
	if (t->from & FROM_PEER) {
		link = m->direct.paired ? rar_direct_link(m, src) : NULL;
		if (!link)
			return RAR_DROP(Rank);
		if (!port_of(&link->path, pkt, t) || !addr_equal(&pkt->from, &link->path.dst))
			return RAR_DROP(Address);
		pkt->link = link;
		return RAR_RX_DONE;
	}
	for (i = 0; i < RAR_LINKS; i++) {
		link = &m->link[i];
		if (!(t->from & BIT(i)) || src != link->rank || !rar_link_to_rank(link))
			continue;
		known = true;
		if (pkt->h.type == RAR_T_JOIN ||
		    (port_of(&link->path, pkt, t) &&
		     addr_equal(&pkt->from, &link->path.dst))) {
			pkt->link = link;
			return RAR_RX_DONE;
		}
	}
	/* The sender may believe in another size; rar_join_rcv() tells it. */
	if (pkt->h.type == RAR_T_JOIN)
		return RAR_RX_DONE;
	return known ? RAR_DROP(Address) : RAR_DROP(Rank);
}

/*
 * The functions that take a packet whose sender or receiver is no rank of the group, or NULL. The
 * group may lose its box at any time.
 */
static const struct rar_aside *aside_of(const struct rar_member *m, const struct rar_pkt *pkt)
{
	if (pkt->h.type == RAR_T_OFFER || (be16_to_cpu(pkt->h.src) < m->size && m->rank < m->size))
		return NULL;
	return READ_ONCE(m->aside);
}

/* Does a packet come by a link that leads to no rank, and have its token? Sets @pkt->link. */
static enum rar_rx check_aside(struct rar_member *m, struct rar_pkt *pkt,
			       const struct input_type *t)
{
	u16 from = m->rank == RAR_BOX_RANK ? TO_BOX : FROM_BOX;
	u64 epoch;

	pkt->link = NULL;
	if (t->from & from)
		pkt->link = pkt->aside->find(m, be16_to_cpu(pkt->h.src), &pkt->from, 0);
	if (!pkt->link)
		return RAR_DROP(Rank);
	epoch = t->token == BY_GROUP ? m->epoch : READ_ONCE(pkt->link->epoch);
	if (!epoch || be64_to_cpu(pkt->h.token) != epoch)
		return RAR_DROP(Epoch);
	return port_of(&pkt->link->path, pkt, t) &&
	       addr_equal(&pkt->from, &pkt->link->path.dst) ? RAR_RX_DONE : RAR_DROP(Address);
}

static enum rar_rx check_token(struct rar_member *m, const struct rar_pkt *pkt,
			       const struct input_type *t)
{
	u64 token = be64_to_cpu(pkt->h.token);

	if (t->token & BY_TYPE)
		return RAR_RX_DONE;
	if (!token)
		return RAR_DROP(Epoch);
	if ((t->token & BY_EPOCH) && token == m->epoch)
		return RAR_RX_DONE;
	if ((t->token & BY_NONCE) && token == READ_ONCE(m->join.nonce))
		return RAR_RX_DONE;
	if ((t->token & BY_PASS) && token == READ_ONCE(m->join.pass))
		return RAR_RX_DONE;
	if (t->token == BY_EPOCH && pkt->h.type != RAR_T_RESET)
		rar_packet_reset(m, pkt);
	return RAR_DROP(Epoch);
}

/* Is it the first piece of a carrier? */
static bool is_cut(const struct rar_pkt *pkt)
{
	struct rar_data_hdr buf, *dh;

	if ((pkt->h.type != RAR_T_RS && pkt->h.type != RAR_T_AG) || pkt->len < sizeof(buf))
		return false;
	dh = header(pkt, pkt->off, sizeof(buf), &buf);
	return dh && (dh->flags & RAR_F_WHOLE);
}

/* Does the packet come by a device that its sender's packets may come by? */
static enum rar_rx check_device(struct rar_member *m, const struct rar_pkt *pkt)
{
	bool good = pkt->link && pkt->h.type != RAR_T_JOIN ?
		    rar_route_takes(m, &pkt->link->path, &pkt->way) :
		    rar_route_takes_from(m, &pkt->from, &pkt->to, &pkt->way);

	return good ? RAR_RX_DONE : RAR_DROP(Device);
}

/*
 * Validate a packet. After that every byte may be trusted, except the operation part of the
 * data header, which rar_op_check() judges against the operation.
 */
static enum rar_rx validate(struct rar_member *m, struct rar_pkt *pkt)
{
	const struct input_type *t;
	enum rar_rx ret;

	if ((pkt->h.version & 0xf) != RAR_WIRE_VERSION) {
		if (pkt->h.type == RAR_T_JOIN)
			rar_join_rcv_odd(m, pkt);
		return RAR_DROP(Version);
	}
	t = input_type(pkt->h.type);
	if (!t)
		return RAR_DROP(Type);
	if (pkt->len < t->min)
		return RAR_DROP(Short);
	if (pkt->len != sizeof(pkt->h) + be16_to_cpu(pkt->h.len))
		return is_cut(pkt) ? RAR_DROP(Cut) : RAR_DROP(Length);
	if (rar_member_state(m) == RAR_S_BOUND && pkt->h.type != RAR_T_JOIN)
		return RAR_DROP(State);
	pkt->aside = aside_of(m, pkt);
	ret = pkt->aside ? check_aside(m, pkt, t) : check_token(m, pkt, t);
	if (ret == RAR_RX_DONE && !pkt->aside)
		ret = check_sender(m, pkt, t);
	return ret == RAR_RX_DONE ? check_device(m, pkt) : ret;
}

/* -- dispatch ------------------------------------------------------------ */

/* Is the member in the packet's epoch? A tombstone tells the sender why it is not. */
static enum rar_rx check_running(struct rar_member *m, const struct rar_pkt *pkt)
{
	bool joined;

	switch (rar_member_state(m)) {
	case RAR_S_READY:
		/* A neighbour was in RUN, so rank 0 has committed the epoch. */
		spin_lock_bh(&m->lock);
		joined = m->state == RAR_S_READY && be64_to_cpu(pkt->h.token) == m->epoch &&
			 pkt->h.type != RAR_T_ABORT && pkt->h.type != RAR_T_RESET;
		if (joined)
			rar_member_run(m);
		spin_unlock_bh(&m->lock);
		rar_member_wake(m);
		if (joined)
			rar_event_send(m, RAR_EVENT_JOINED, NULL);
		break;
	case RAR_S_FAILED:
		if (pkt->h.type == RAR_T_ABORT || !pkt->link ||
		    pkt->len < sizeof(struct rar_notice_hdr) ||
		    time_before(jiffies, m->told + HZ / 50))
			return RAR_DROP(State);
		m->told = jiffies;
		rar_fail_tell(pkt->link);
		return RAR_DROP(State);
	}
	/* Another CPU may have taken the member from READY to READY in a later epoch. */
	return rar_member_runs(m) && be64_to_cpu(pkt->h.token) == READ_ONCE(m->epoch) ?
	       RAR_RX_DONE : RAR_DROP(State);
}

/*
 * Has this packet of a join come too late? In a running group only the epoch counts. A JOIN may
 * tell that the predecessor started again, which it has to prove; and PROPOSE and COMMIT go on to
 * members that have not heard them.
 */
static bool join_is_over(const struct rar_member *m, u8 type)
{
	return rar_member_state(m) >= RAR_S_RUN && type != RAR_T_JOIN && type != RAR_T_PROPOSE &&
	       type != RAR_T_COMMIT;
}

/*
 * The sender is alive. With two members both links lead to it, but chunks and
 * probes, as acknowledgments, tell only that the link works by which they come.
 */
static void hear(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src), i;

	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_AG:
	case RAR_T_ACK:
	case RAR_T_PROBE:
		rar_member_hear(pkt->link);
		return;
	}
	for (i = 0; i < RAR_LINKS; i++)
		if (src == m->link[i].rank)
			rar_member_hear(&m->link[i]);
}

static enum rar_rx dispatch(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	enum rar_rx ret;

	if (pkt->aside)
		return rar_member_runs(m) ? pkt->aside->rcv(m, pkt, n) : RAR_DROP(State);
	if (be64_to_cpu(pkt->h.token) != m->epoch || !m->epoch ||
	    input_types[pkt->h.type].token == BY_TYPE) {
		if (join_is_over(m, pkt->h.type))
			return RAR_DROP(State);
		rar_join_rcv(m, pkt);
		return RAR_RX_DONE;
	}
	ret = check_running(m, pkt);
	if (ret != RAR_RX_DONE && pkt->h.type != RAR_T_ABORT)
		return ret;
	if (pkt->h.type != RAR_T_ACK)
		hear(m, pkt);
	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_AG:
		return rar_chunk_rcv(m, pkt, n);
	case RAR_T_DIRECT:
		return rar_keyed_is(pkt) ? rar_keyed_rcv(m, pkt) : rar_chunk_rcv_direct(m, pkt);
	case RAR_T_DONE:
		rar_direct_rcv_done(m, pkt);
		rar_keyed_rcv_done(m, pkt);
		break;
	case RAR_T_ACK:
		/*
		 * Somebody altered numbers on the way, and the neighbour takes
		 * no others now. That is no sign of life: the group ends.
		 */
		if (!rar_loss_rcv_ack(pkt->link, pkt))
			return RAR_DROP(Seq);
		hear(m, pkt);
		if (m->place.boxes)
			rar_done_passed(m);
		rar_push(m);
		break;
	case RAR_T_PROBE:
		rar_ack_rcv_probe(pkt->link, pkt);
		rar_chunk_rcv_probe(m, pkt);
		break;
	case RAR_T_WANT:
		rar_leg_rcv_want(m, pkt);
		break;
	default:
		rar_notice_rcv(m, pkt);
	}
	return RAR_RX_DONE;
}

/*
 * Does the packet have an address that no packet from a wire may have? The hook comes before
 * the stack's own checks, so such packets are left to them.
 */
static bool martian(const struct net_device *dev, const struct rar_pkt *pkt)
{
	bool lo = dev->flags & IFF_LOOPBACK;
	__be32 saddr = pkt->from.ip.s6_addr32[0];
	__be32 daddr = pkt->to.ip.s6_addr32[0];

	if (pkt->from.af == AF_INET)
		return ipv4_is_multicast(saddr) || ipv4_is_lbcast(saddr) ||
		       ipv4_is_zeronet(saddr) ||
		       (!lo && (ipv4_is_loopback(saddr) ||
				ipv4_is_loopback(daddr)));
	return ipv6_addr_is_multicast(&pkt->from.ip) ||
	       ipv6_addr_any(&pkt->from.ip) ||
	       (!lo && (ipv6_addr_loopback(&pkt->from.ip) ||
			ipv6_addr_loopback(&pkt->to.ip)));
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

/* The stack has reassembled the packet, checked its IP header and found the socket. */
static void dgram_from_stack(struct sk_buff *skb, struct datagram *d)
{
	bool v4 = skb->protocol == htons(ETH_P_IP);

	d->fragment = v4 ? IPCB(skb)->frag_max_size :
			   IP6CB(skb)->frag_max_size;
	d->options = v4 ? d->options :
			  skb_network_header_len(skb) != sizeof(struct ipv6hdr);
	d->udp = 0;
	d->end = skb->len;
	d->bad_ip_csum = false;
}

/*
 * Count the chunks that are taken at once, from the first chunk of a superpacket's @part on.
 * Sets the length of @part, and whether it is all of @pkt.
 */
static u32 part_run(struct rar_member *m, struct rar_pkt *part,
		    const struct rar_pkt *pkt)
{
	u32 size = part->len, end = pkt->off + pkt->len, n = 1;
	struct rar_data_hdr dh;
	struct rar_run run;

	skb_copy_bits(part->skb, part->off, &dh, sizeof(dh));
	if (size == rar_stride(m)) {
		part->len = end - part->off;
		n = rar_chunk_run(m, part, &dh);
		part->len = min(part->len, n * size);
	}
	part->whole = pkt->whole && part->len == pkt->len;
	if (part->whole)
		return n;
	run = (struct rar_run){ .chunk = be32_to_cpu(dh.chunk), .n = n };
	if (rar_op_early(m, be64_to_cpu(dh.op_seq), &run)) {
		/* Chunks that are too early are held one by one. */
		part->len = min(part->len, size);
		n = 1;
	}
	return n;
}

/* The member that a part is for; it need not be the member of the part before. */
static struct rar_member *part_member(struct rar_net *rn, struct rar_member *m,
				      const struct rar_hdr *before,
				      const struct rar_pkt *part)
{
	if (part->h.group == before->group && part->h.dst == before->dst &&
	    part->h.token == before->token)
		return m;
	m = rar_member_lookup(rn, be64_to_cpu(part->h.group),
			      be16_to_cpu(part->h.dst),
			      be64_to_cpu(part->h.token));
	return m && addressed_to(m, part) ? m : NULL;
}

/*
 * Take a superpacket. Each part of it is a packet of its own: GRO merges packets of the same
 * length, addresses and ports, of any type and for any member. Chunks that belong together
 * are taken at once. If the first part comes by the wrong device, nothing is
 * taken.
 */
static enum rar_rx input_super(struct rar_member *m, struct rar_pkt *pkt)
{
	u32 size = skb_shinfo(pkt->skb)->gso_size, end = pkt->off + pkt->len, n;
	struct rar_net *rn = m->rn;
	struct rar_pkt part = *pkt;
	struct rar_hdr before;
	u32 udp = pkt->off - sizeof(struct udphdr);
	struct rar_member *last;
	enum rar_rx ret;

	for (; part.off < end && part.skb; part.off += n * size) {
		n = 1;
		part.len = min(end - part.off, size);
		part.whole = false;
		part.ack_now = false;
		before = part.h;
		ret = RAR_DROP(Short);
		if (part.len >= sizeof(part.h)) {
			skb_copy_bits(part.skb, part.off, &part.h, sizeof(part.h));
			last = m;
			m = part_member(rn, m, &before, &part);
			ret = RAR_DROP(Group);
			if (m && m != last &&
			    !rar_rules_receive(m, part.skb, part.to.af, udp)) {
				m = NULL;
				ret = RAR_DROP(Filter);
			}
			if (m)
				ret = validate(m, &part);
			if (ret == RAR_DROP(Device) && part.off == pkt->off)
				return ret;
		}
		if (ret == RAR_RX_DONE) {
			if (part.h.type == RAR_T_RS || part.h.type == RAR_T_AG)
				n = part_run(m, &part, pkt);
			ret = dispatch(m, &part, n);
		}
		if (ret == RAR_RX_TAKEN)
			return ret;
		if (ret != RAR_RX_DONE)
			this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
	}
	pkt->skb = part.skb;	/* it may be a clone now, or none */
	return RAR_RX_DONE;
}

/* Take a packet of a member that the box does not know, or not any more. */
static bool for_box(struct rar_net *rn, struct rar_pkt *pkt, const struct datagram *d)
{
	return pkt->h.dst == cpu_to_be16(RAR_BOX_RANK) &&
	       check_datagram(pkt, d) == RAR_RX_DONE && rar_box_stranger(rn, pkt);
}

/* Free a packet that this rank keeps no longer, and count it if it was dropped. */
static void let_go(struct rar_net *rn, struct rar_pkt *pkt, enum rar_rx ret)
{
	if (ret == RAR_RX_DONE)
		consume_skb(pkt->skb);
	else if (ret != RAR_RX_TAKEN && pkt->skb)
		rar_drop(rn, pkt->skb, rar_rx_why(ret));
	else if (ret != RAR_RX_TAKEN)
		this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
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
void rar_input_way(struct sk_buff *skb, struct rar_way *way)
{
	came_by(way, skb->dev, vrf_port(skb), false);
}

/* Take in a packet for a member, by its addresses. */
static enum rar_rx input(struct rar_member *m, struct rar_pkt *pkt,
			 const struct datagram *d, enum rar_rx_path path)
{
	bool super = skb_is_gso(pkt->skb) && !pkt->carrier;
	enum rar_rx ret;

	ret = check_datagram(pkt, d);
	if (ret != RAR_RX_DONE)
		return ret;
	if (!rar_rules_receive(m, pkt->skb, pkt->to.af, d->udp))
		return RAR_DROP(Filter);
	if (!super)
		ret = validate(m, pkt);
	if (ret != RAR_RX_DONE)
		return ret;
	pkt->whole = path == RAR_PATH_INGRESS &&
		     pkt->skb->len == pkt->off + pkt->len;
	if (path == RAR_PATH_INGRESS)
		rar_mib_inc(m->rn, RxIngress);
	else
		rar_mib_inc(m->rn, RxEncap);
	return super ? input_super(m, pkt) : dispatch(m, pkt, 1);
}

/**
 * rar_rcv() - take in a packet from any path
 * @rn:   netns
 * @skb:  ingress: at the network header; udp: at the UDP header
 * @path: the path it came by
 *
 * Softirq, RCU read side.
 *
 * Return: RAR_TAKEN and @skb is consumed; RAR_PASS (ingress only) and it is untouched, since
 * it is not for a member here.
 */
enum rar_verdict rar_rcv(struct rar_net *rn, struct sk_buff *skb,
			 enum rar_rx_path path)
{
	u32 nhoff = path == RAR_PATH_INGRESS ? 0 : skb_network_offset(skb);
	struct rar_pkt pkt = { .skb = skb, .local = path == RAR_PATH_UDP,
			       .carrier = rar_carrier_is(skb) };
	struct rar_member *m = NULL;
	struct datagram d = {};
	enum rar_rx ret;

	if (path == RAR_PATH_UDP)
		rar_input_way(skb, &pkt.way);
	else
		came_by(&pkt.way, skb->dev, 0,
			skb->protocol == htons(ETH_P_IP));
	if (skb->protocol == htons(ETH_P_IP) ?
	    !dgram_v4(&pkt, nhoff, &d) : !dgram_v6(&pkt, nhoff, &d))
		return RAR_PASS;
	if (path == RAR_PATH_UDP)
		dgram_from_stack(skb, &d);
	else if (martian(skb->dev, &pkt) ||
		 (d.options && skb->protocol == htons(ETH_P_IPV6)))
		return RAR_PASS;

	ret = RAR_DROP(Group);
	if (!find_headers(rn, &pkt, &d))
		ret = why_not_ours(skb, d.udp);
	else
		m = rar_member_lookup(rn, be64_to_cpu(pkt.h.group),
				      be16_to_cpu(pkt.h.dst),
				      be64_to_cpu(pkt.h.token));
	if (!m && path == RAR_PATH_INGRESS)
		return RAR_PASS;
	if (!m && ret == RAR_DROP(Group) && for_box(rn, &pkt, &d))
		ret = RAR_RX_DONE;
	if (m && pkt.from.scope && (skb->dev->flags & IFF_LOOPBACK))
		pkt.from.scope = rar_member_scope(m);
	if (m && !addressed_to(m, &pkt)) {
		if (path == RAR_PATH_INGRESS)
			return RAR_PASS;
		ret = RAR_DROP(Address);
	} else if (m) {
		ret = input(m, &pkt, &d, path);
	}
	/* A device above may bring it again. */
	if (ret == RAR_DROP(Device) && path == RAR_PATH_INGRESS)
		return RAR_PASS;
	let_go(rn, &pkt, ret);
	return RAR_TAKEN;
}

/* Does it bring data of the epoch that runs here? This member has no other epoch. */
static bool brings_data(const struct rar_member *m, const struct rar_pkt *pkt)
{
	return (pkt->h.type == RAR_T_RS || pkt->h.type == RAR_T_AG) &&
	       rar_member_runs(m) && !aside_of(m, pkt) &&
	       be64_to_cpu(pkt->h.token) == m->epoch &&
	       header(pkt, pkt->off, sizeof(struct rar_data_hdr), NULL);
}

/* The member that the frame brings data for, if the frame is good in every respect. */
static struct rar_member *frame_member(struct rar_net *rn, struct rar_pkt *pkt,
				       const struct datagram *d)
{
	struct rar_member *m;

	m = rar_member_lookup(rn, be64_to_cpu(pkt->h.group),
			      be16_to_cpu(pkt->h.dst), be64_to_cpu(pkt->h.token));
	if (!m || !addressed_to(m, pkt))
		return NULL;
	if (!rar_rules_judged(m) && brings_data(m, pkt) && check_datagram(pkt, d) == RAR_RX_DONE &&
	    validate(m, pkt) == RAR_RX_DONE)
		return m;
	rar_mib_inc(rn, XdpPassed);
	return NULL;
}

/**
 * rar_rcv_frame() - take in a packet that has no skb yet
 * @rn:       netns
 * @frame:    the packet
 * @dev:      the device that would bring it as an skb
 * @nhoff:    offset of its IP header
 * @protocol: of its link header: ETH_P_IP or ETH_P_IPV6
 *
 * Only data that are good in every respect are taken here. The ingress hook sees all other
 * frames, judges them as it does other packets, and counts them. Softirq, RCU read side.
 *
 * Return: XDP_PASS and the frame is untouched, or XDP_DROP, and @frame says whether it is
 * forwarded.
 */
int rar_rcv_frame(struct rar_net *rn, struct rar_frame *frame,
		  const struct net_device *dev, u32 nhoff, __be16 protocol)
{
	struct rar_pkt pkt = { .frame = frame };
	struct rar_member *m;
	struct datagram d = {};
	enum rar_rx ret;

	came_by(&pkt.way, dev, 0, protocol == htons(ETH_P_IP));
	if (protocol == htons(ETH_P_IP) ? !dgram_v4(&pkt, nhoff, &d) :
					  !dgram_v6(&pkt, nhoff, &d))
		return XDP_PASS;
	if (martian(dev, &pkt) || !find_headers(rn, &pkt, &d))
		return XDP_PASS;
	m = frame_member(rn, &pkt, &d);
	if (!m)
		return XDP_PASS;
	pkt.whole = pkt_len(&pkt) == pkt.off + pkt.len;
	hear(m, &pkt);
	ret = rar_chunk_rcv(m, &pkt, 1);
	if (ret == RAR_RX_LATER) {
		rar_mib_inc(rn, XdpEarly);
		return XDP_PASS;
	}
	rar_mib_inc(rn, RxXdp);
	if (ret != RAR_RX_DONE && ret != RAR_RX_TAKEN) {
		this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
		trace_rar_drop(NULL, rar_rx_why(ret));
	}
	return XDP_DROP;
}
