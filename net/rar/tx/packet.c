// SPDX-License-Identifier: GPL-2.0
/*
 * Builds packets from the operation buffer or a header and hands them to IP. No packet is
 * kept: a lost packet is built again.
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
#include "core/member.h"
#include "core/ring.h"
#include "core/trace.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "tx/carrier.h"
#include "tx/packet.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/rules.h"
#include "tx/sender.h"

#define OUTPUT_TTL	64
#define OUTPUT_TOS	INET_ECN_ECT_0
#define OUTPUT_REPLIES	16	/* answers to strangers, per jiffy and namespace */

/* -- building ------------------------------------------------------------ */

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

/* Allocate a packet for @len bytes of UDP payload after all headers. Returns it or NULL. */
static struct sk_buff *packet_alloc(const struct rar_net *rn, const struct rar_path *path,
				    u32 len)
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
 * Send @skb, which starts at the RAR header, by @dst. Consumes both. No rar lock is held;
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
	/* The sock lasts as long as the member, and as long as this packet. */
	skb_set_owner_w(skb, sk);
	skb_dst_set(skb, dst);
	skb->mark = m->sk_mark;
	skb->priority = m->sk_priority;
	push_udp(skb, path, lane);
	return path->dst.af == AF_INET6 ? xmit_v6(net, sk, skb, path) :
					  xmit_v4(net, sk, skb, path);
}

/* Send @skb by the route of a neighbour's @path. Any context up to softirq. */
static int xmit(struct rar_member *m, struct rar_path *path,
		struct sk_buff *skb, u32 lane)
{
	int err;

	rcu_read_lock();
	local_bh_disable();
	err = xmit_dst(m, path, skb, rar_route_get(m, path), lane);
	local_bh_enable();
	rcu_read_unlock();
	err = net_xmit_eval(err);
	if (err)
		rar_mib_inc(m->rn, TxError);
	return err;
}

static void fill_hdr(const struct rar_member *m, struct rar_hdr *h, u8 type,
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

/*
 * Fill in the header of the first chunk of a run. rar_packet_hdr() makes the others of it,
 * and completes this one.
 */
void rar_packet_fill_data(const struct rar_link *link,
			  const struct rar_tx_item *item, struct rar_data_hdr *dh)
{
	const struct rar_member *m = link->member;
	const struct rar_operation *op = item->op;

	u8 type = item->run.phase == RAR_RS ? RAR_T_RS : RAR_T_AG;

	memset(dh, 0, sizeof(*dh));
	if (op->ring.plan.direct && !rar_link_is_leg(link)) {
		type = RAR_T_DIRECT;
		dh->complete = cpu_to_be64(item->known.map);
		dh->base = cpu_to_be32((u32)item->known.base);
	} else {
		dh->seq = cpu_to_be32(item->seq);
		dh->una = cpu_to_be32(item->una);
	}
	fill_hdr(m, &dh->h, type, link->rank, 0, READ_ONCE(link->epoch) ?: m->epoch);
	rar_op_describe(dh, op->seq, &op->fingerprint);
	dh->chunk = cpu_to_be32(item->run.chunk);
	dh->flags = item->flags;
	if (rar_link_is_leg(link))
		dh->box.prio = op->prio;
	if (item->run.phase == RAR_RS && rar_op_left_box(op, item->run.chunk))
		dh->flags |= RAR_F_RINGED;
}

/* The request for an ACK in the header of chunk @i: one per run, which may be cut on the way. */
static __be64 ask(const struct rar_tx_item *item, u32 i)
{
	return item->ack_now && i + 1 == item->run.n ? RAR_HDR_ACK_NOW : 0;
}

/*
 * Write the header of chunk @i of a run, with @len bytes of payload, to @hdr. @dh is from
 * rar_packet_fill_data().
 */
void rar_packet_hdr(const struct rar_tx_item *item, const struct rar_data_hdr *dh, u32 i,
		    u32 len, struct rar_hdr_words *hdr)
{
	rar_hdr_nth((const void *)dh, i, len, hdr);
	hdr->w[7] |= ask(item, i);
}

/* The same at an offset of a packet, where the header may lie in two pieces. */
static void store_hdr(struct rar_cursor *cursor, u32 off, const struct rar_tx_item *item,
		      const struct rar_data_hdr *dh, u32 i, u32 len)
{
	struct rar_hdr_words buf;
	void *to;
	u32 n;

	to = rar_cursor_at(cursor, off, &n);
	if (n >= sizeof(buf)) {
		rar_packet_hdr(item, dh, i, len, to);
	} else {
		rar_packet_hdr(item, dh, i, len, &buf);
		skb_store_bits(cursor->skb, off, &buf, sizeof(buf));
	}
}

/* Let GSO cut between the chunks if there are several; each but the last has @len bytes. */
static void set_gso(struct sk_buff *skb, u32 n, u32 len)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);

	shinfo->gso_size = n > 1 ? sizeof(struct rar_data_hdr) + len : 0;
	shinfo->gso_type = n > 1 ? SKB_GSO_UDP_L4 : 0;
	shinfo->gso_segs = n > 1 ? n : 0;
}

/* Allocate a packet for a run, after all headers, in large pieces. */
static struct sk_buff *run_alloc(const struct rar_link *link, u32 len, u32 n)
{
	const struct rar_path *path = &link->path;
	u32 room = LL_MAX_HEADER + rar_ip_hdr_size(path) + sizeof(struct udphdr);
	struct sk_buff *skb;
	int err;

	if (n == 1) {
		skb = packet_alloc(link->member->rn, path, len);
		if (skb)
			skb_put(skb, len);
		return skb;
	}
	skb = alloc_skb_with_frags(room, len, PAGE_ALLOC_COSTLY_ORDER, &err,
				   GFP_ATOMIC);
	if (skb) {
		skb_reserve(skb, room);
		skb->data_len = len;
		skb->len += len;
	}
	return skb;
}

/* Build a packet for a run, whose payload is copied from the buffer. */
static struct sk_buff *run_build(const struct rar_link *link,
				 const struct rar_tx_item *item)
{
	const struct rar_member *m = link->member;
	u32 bytes = rar_ring_bytes(&item->op->ring, item->run.chunk, item->run.n);
	u32 off = 0, i, len, n = item->run.n;
	struct rar_cursor from = { }, to = { };
	struct rar_reduce_ctx ctx;
	struct rar_data_hdr dh;
	struct rar_chunk c;
	struct sk_buff *skb;

	skb = run_alloc(link, bytes + n * sizeof(dh), n);
	if (!skb)
		return NULL;
	rar_ring_chunk(&item->op->ring, item->run.chunk, &c);
	from.buf = rar_link_is_leg(link) ? READ_ONCE(item->op->own) :
		   rar_op_source(item->op, &item->run, &c);
	to.skb = skb;
	rar_packet_fill_data(link, item, &dh);
	rar_reduce_begin_copy(&ctx, bytes);
	for (i = 0; i < n; i++) {
		len = min(bytes, m->payload);
		store_hdr(&to, off, item, &dh, i, len);
		rar_cursor_copy(&ctx, &to, off + sizeof(dh), &from, c.off, len);
		off += sizeof(dh) + len;
		c.off += len;
		bytes -= len;
	}
	rar_reduce_end(&ctx);
	set_gso(skb, n, m->payload);
	return skb;
}

void rar_packet_trace(const struct rar_member *m, const struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;

	if (!trace_rar_tx_enabled())
		return;
	trace_rar_tx(m, item->op->seq, run->phase, run->chunk,
		     rar_op_bytes(item->op, run, rar_mask(run->n)));
}

void rar_packet_count(struct rar_member *m, const struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;

	rar_mib_add(m->rn, TxData, run->n);
	rar_mib_add(m->rn, TxBytes,
		    rar_ring_bytes(&item->op->ring, run->chunk, run->n));
}

static int run_xmit(struct rar_link *link, const struct rar_tx_item *item,
		    struct sk_buff *skb)
{
	struct rar_member *m = link->member;

	rar_packet_count(m, item);
	return xmit(m, &link->path, skb, item->lane);
}

/*
 * Where sums may be made aside: may a sum have overwritten what was copied into a packet, or
 * is it not this rank's to send any more? The caller has copied it (rule 7 of design/box.rst).
 */
static bool overtaken(const struct rar_link *link, const struct rar_tx_item *item)
{
	const struct rar_operation *op = item->op;
	u32 chunk = item->run.chunk;
	u64 mask = rar_mask(item->run.n), claimed;

	if (!op->ring.plan.aside || item->run.phase == RAR_AG)
		return false;
	/* The leg was closed, and may be open again, with other numbers. */
	if (item->epoch != READ_ONCE(link->epoch))
		return true;
	/* The contribution to a broadcast is its result. */
	if (!rar_plan_adds(&op->ring.plan))
		return false;
	smp_rmb(); /* the buffer is read before the claims; pairs with the atomics of claims */
	claimed = rar_bits_get(op->claimed[RAR_AG], chunk, mask);
	if (rar_link_is_leg(link))
		claimed |= rar_bits_get(op->claimed[RAR_RS], chunk, mask);
	return claimed;
}

/* Does a rank that contributes nothing ask the box for chunks? */
static bool asks(const struct rar_link *link, const struct rar_operation *op)
{
	const struct rar_plan *plan = &op->ring.plan;

	return rar_link_is_leg(link) && !rar_plan_adds(plan) &&
	       rar_plan_own(plan) == RAR_NO_BLOCK;
}

/* Ask the box for a run, with one header. */
static void run_ask(struct rar_link *link, const struct rar_tx_item *item)
{
	struct rar_data_hdr dh;

	if (overtaken(link, item))
		return;
	rar_packet_fill_data(link, item, &dh);
	dh.box.chunks = item->run.n;
	rar_packet_ctl(link, &dh, sizeof(dh), 0, RAR_T_RS, item->epoch);
}

/**
 * rar_packet_run() - send chunks to the neighbour
 * @link: link to the neighbour
 * @item: the chunks, with their sequence numbers; their operation is referenced
 *
 * The payload is copied from the buffer, or a carrier shares its pages. Meanwhile the AG copy of an
 * RS chunk may overwrite the chunk. Then the neighbour had the RS chunk long before, and drops this
 * packet as a duplicate. In a group with a box it may not have had it, and the packet is not sent;
 * it counts as lost.
 *
 * Return: 0; -EMSGSIZE if the route became narrower than the epoch's packets; another
 * negative errno if a queue of this host did not take the packet. A packet for which there is
 * no memory counts as lost on the way.
 */
int rar_packet_run(struct rar_link *link, struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct sk_buff *skb;

	rar_packet_trace(m, item);
	if (asks(link, item->op)) {
		run_ask(link, item);
		return 0;
	}
	skb = item->whole ? rar_carrier_build(link, item) : run_build(link, item);
	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return 0;
	}
	if (item->whole)
		rar_mib_add(m->rn, TxWhole, item->run.n);
	if (overtaken(link, item)) {
		kfree_skb(skb);
		return 0;
	}
	return run_xmit(link, item, skb);
}

/**
 * rar_packet_pass_on() - forward a run that came in a carrier, in another carrier
 * @link: link to the neighbour that gets it
 * @item: the chunks, with their sequence numbers; they are in the buffer already
 *
 * Return: as rar_packet_run().
 */
int rar_packet_pass_on(struct rar_link *link, struct rar_tx_item *item)
{
	rar_mib_add(link->member->rn, TxForward, item->run.n);
	return rar_packet_run(link, item);
}

/* Build a packet of chunks of a stream. Each has a header of its own; see rar_packet_stream(). */
static void stream_build(struct rar_link *link, const struct rar_tx_item *item, u64 at, u32 chunk,
			 u32 bytes, struct sk_buff *skb)
{
	struct rar_cursor from = { .buf = &item->op->buf }, to = { .skb = skb };
	struct rar_tx_item one = *item;
	struct rar_reduce_ctx ctx;
	struct rar_data_hdr dh;
	u32 off = 0, i, len;

	one.run.n = 1;
	rar_reduce_begin_copy(&ctx, bytes);
	for (i = 0; i < item->run.n; i++) {
		bool last = i + 1 == item->run.n;

		len = min(bytes, chunk);
		one.run.chunk = item->run.chunk + i;
		one.flags = last ? item->flags : 0;
		one.ack_now = last && item->ack_now;
		rar_packet_fill_data(link, &one, &dh);
		store_hdr(&to, off, &one, &dh, 0, len);
		if (len)
			rar_cursor_copy(&ctx, &to, off + sizeof(dh), &from, at, len);
		off += sizeof(dh) + len;
		at += len;
		bytes -= len;
	}
	rar_reduce_end(&ctx);
	set_gso(skb, item->run.n, chunk);
}

/**
 * rar_packet_stream() - send chunks of a stream of records
 * @link:  direct link to the root, or the leg
 * @item:  the chunks, which are no chunks of the ring; their operation is referenced
 * @at:    where they lie in the operation's buffer, one after the other
 * @chunk: bytes of a chunk
 * @bytes: of all of them; only the last may be shorter
 *
 * Return: as rar_packet_run().
 */
int rar_packet_stream(struct rar_link *link, const struct rar_tx_item *item, u64 at, u32 chunk,
		      u32 bytes)
{
	u32 n = item->run.n;
	struct rar_member *m = link->member;
	struct sk_buff *skb;

	rar_mib_add(m->rn, TxData, n);
	rar_mib_add(m->rn, TxBytes, bytes);
	skb = run_alloc(link, bytes + n * sizeof(struct rar_data_hdr), n);
	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return 0;
	}
	stream_build(link, item, at, chunk, bytes, skb);
	return xmit(m, &link->path, skb, item->lane);
}

/*
 * Make a received packet new: it keeps nothing of its way here. It starts at the RAR header.
 * No other function does this.
 */
static void make_new(struct sk_buff *skb, u32 off)
{
	__skb_pull(skb, off);
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	skb_clear_hash(skb);
	skb_init_secmark(skb);
	skb_reset_redirect(skb);
	__vlan_hwaccel_clear_tag(skb);
	skb_set_queue_mapping(skb, 0);
	skb->encapsulation = 0;
	skb->ip_summed = CHECKSUM_NONE;
	skb->pkt_type = PACKET_HOST;
	memset(skb->cb, 0, sizeof(skb->cb));
}

/* Write new headers before the chunks of a packet that starts at the first one. */
static void label_run(const struct rar_link *link, const struct rar_tx_item *item,
		      struct sk_buff *skb)
{
	u32 bytes = rar_ring_bytes(&item->op->ring, item->run.chunk, item->run.n);
	u32 payload = link->member->payload, off = 0, i, len;
	struct rar_cursor cursor = { .skb = skb };
	struct rar_data_hdr dh;

	rar_packet_fill_data(link, item, &dh);
	for (i = 0; i < item->run.n; i++) {
		len = min(bytes, payload);
		store_hdr(&cursor, off, item, &dh, i, len);
		off += sizeof(dh) + len;
		bytes -= len;
	}
	set_gso(skb, item->run.n, payload);
}

/**
 * rar_packet_forward() - forward the packet that brought chunks
 * @link: link to the neighbour that gets it
 * @item: the chunks to carry, with their sequence numbers
 * @skb:  the packet, owned by us alone, with the payload in place already; consumed
 * @off:  offset of its first RAR header
 *
 * Return: as rar_packet_run().
 */
int rar_packet_forward(struct rar_link *link, struct rar_tx_item *item,
		       struct sk_buff *skb, u32 off)
{
	struct rar_member *m = link->member;

	rar_packet_trace(m, item);
	rar_mib_add(m->rn, TxForward, item->run.n);
	make_new(skb, off);
	if (item->whole) {
		rar_mib_add(m->rn, TxWhole, item->run.n);
		rar_carrier_label(link, item, skb);
	} else {
		label_run(link, item, skb);
	}
	return run_xmit(link, item, skb);
}

/* -- single headers ------------------------------------------------------- */

/*
 * The lane of a packet without chunks. What is sent again until an answer comes
 * goes by another lane each time, in case one of them has no way to the
 * neighbour. Acknowledgments go by another lane when something comes again that
 * was acknowledged. Boxes take all these packets from the first port only.
 */
static u32 ctl_lane(struct rar_link *link, u8 type)
{
	const struct rar_member *m = link->member;

	if (m->nlanes == 1 || READ_ONCE(m->state) < RAR_S_RUN ||
	    link->rank >= m->size || m->rank >= m->size ||
	    rar_rules_ipsec(m->rn->net, XFRM_POLICY_OUT))
		return 0;
	switch (type) {
	case RAR_T_ACK:
		return READ_ONCE(link->rx.lane) % m->nlanes;
	case RAR_T_PROBE:
	case RAR_T_WANT:
	case RAR_T_DONE:
	case RAR_T_ABORT:
	case RAR_T_LATE:
	case RAR_T_FIN:
	case RAR_T_FIN_ACK:
		/* Two CPUs may take the same lane. */
		WRITE_ONCE(link->ctl, READ_ONCE(link->ctl) + 1);
		return READ_ONCE(link->ctl) % m->nlanes;
	}
	return 0;
}

/**
 * rar_packet_ctl() - send a packet that is a header and padding
 * @link:  link to the neighbour
 * @hdr:   the type's header; its common part is filled here
 * @len:   bytes of @hdr and of the data after it
 * @pad:   zero bytes to append
 * @type:  enum rar_pkt_type
 * @token: see rar_wire.h
 */
void rar_packet_ctl(struct rar_link *link, void *hdr, size_t len, size_t pad, u8 type,
		    u64 token)
{
	struct rar_member *m = link->member;
	struct sk_buff *skb = packet_alloc(m->rn, &link->path, len + pad);

	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return;
	}
	fill_hdr(m, hdr, type, link->rank,
		 len + pad - sizeof(struct rar_hdr), token);
	skb_put_data(skb, hdr, len);
	skb_put_zero(skb, pad);
	if (type == RAR_T_ACK)
		rar_mib_inc(m->rn, TxAck);
	else
		rar_mib_inc(m->rn, TxCtl);
	xmit(m, &link->path, skb, ctl_lane(link, type));
}

/**
 * rar_packet_sums() - send sums of consecutive chunks that are not in the buffer of an operation
 * @link:  link to the member that gets them
 * @dh:    header of the first; its common part is filled here
 * @sum:   the sums; all but the last are equally long
 * @n:     how many, 1 .. RAR_RUN_MAX
 * @type:  RAR_T_AG; RAR_T_RS: sums of some ranks
 * @token: epoch of the leg
 *
 * Softirq.
 *
 * Return: 0, or as rar_packet_run() the error of a queue of this host.
 */
int rar_packet_sums(struct rar_link *link, struct rar_data_hdr *dh, const struct kvec *sum,
		    u32 n, u8 type, u64 token)
{
	struct rar_member *m = link->member;
	u32 bytes = 0, off = 0, i;
	struct rar_hdr_words hdr;
	struct sk_buff *skb;

	for (i = 0; i < n; i++)
		bytes += sum[i].iov_len;
	skb = run_alloc(link, bytes + n * sizeof(hdr), n);
	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return -ENOBUFS;
	}
	fill_hdr(m, &dh->h, type, link->rank, 0, token);
	for (i = 0; i < n; i++) {
		rar_hdr_nth((const void *)dh, i, sum[i].iov_len, &hdr);
		skb_store_bits(skb, off, &hdr, sizeof(hdr));
		skb_store_bits(skb, off + sizeof(hdr), sum[i].iov_base, sum[i].iov_len);
		off += sizeof(hdr) + sum[i].iov_len;
	}
	set_gso(skb, n, sum[0].iov_len);
	rar_mib_add(m->rn, TxData, n);
	rar_mib_add(m->rn, TxBytes, bytes);
	return xmit(m, &link->path, skb, 0);
}

/**
 * rar_packet_notice() - send ABORT, LATE, FIN or FIN_ACK
 * @link:  link to the neighbour
 * @type:  enum rar_pkt_type
 * @token: epoch, or the neighbour's nonce before the epoch is committed
 * @err:   content
 */
void rar_packet_notice(struct rar_link *link, u8 type, u64 token,
		       const struct rar_error *err)
{
	struct rar_notice_hdr n = {
		.err = cpu_to_be32(err->err),
		.reason = cpu_to_be32(err->reason),
		.rank = cpu_to_be32(err->rank),
		.other = cpu_to_be32(err->other),
		.op_seq = cpu_to_be64(err->op_seq),
		.silent_ms = cpu_to_be32(err->silent_ms),
		.value = cpu_to_be64(err->value),
		.other_value = cpu_to_be64(err->other_value),
	};

	rar_packet_ctl(link, &n, sizeof(n), 0, type, token);
}

/**
 * rar_packet_budget() - may another packet be sent because of a stranger?
 * @rn: netns
 *
 * Any context.
 *
 * Return: true if it may; the packet is counted.
 */
bool rar_packet_budget(struct rar_net *rn)
{
	if (time_after(jiffies, READ_ONCE(rn->reply_jiffy))) {
		WRITE_ONCE(rn->reply_jiffy, jiffies);
		atomic_set(&rn->replies, 0);
	}
	return atomic_inc_return(&rn->replies) <= OUTPUT_REPLIES;
}

/* May the sender get an answer? One that echoes a token of ours has heard us. */
static bool reply_allowed(const struct rar_member *m,
			  const struct rar_pkt *pkt)
{
	u64 token = be64_to_cpu(pkt->h.token);

	if (pkt->echoes || (token && token == READ_ONCE(m->epoch)))
		return true;
	return rar_packet_budget(m->rn);
}

/* Send a header by a route that is not kept. Bottom halves are off, RCU read side. */
static void send_once(struct rar_member *m, struct rar_path *path, const void *hdr, size_t len)
{
	struct sk_buff *skb = packet_alloc(m->rn, path, len);
	int err;

	if (!skb)
		return;
	skb_put_data(skb, hdr, len);
	rar_mib_inc(m->rn, TxCtl);
	err = xmit_dst(m, path, skb, rar_route_new(m, path), 0);
	if (net_xmit_eval(err))
		rar_mib_inc(m->rn, TxError);
}

/**
 * rar_packet_reply() - answer a packet whose sender is no neighbour (yet)
 * @m:   member
 * @pkt:   the packet; the answer goes to its source
 * @hdr:   header; its common part is filled here
 * @len:   its length; nothing is sent if the packet was shorter
 * @type:  enum rar_pkt_type
 * @token: the sender's nonce, or the epoch that is unknown here
 *
 * Softirq.
 */
void rar_packet_reply(struct rar_member *m, const struct rar_pkt *pkt,
		      void *hdr, size_t len, u8 type, u64 token)
{
	struct rar_path path = { .src = pkt->to, .dst = pkt->from,
				 .oif = m->link[RAR_NEXT].path.oif };

	if (len > pkt->len || !reply_allowed(m, pkt))
		return;
	fill_hdr(m, hdr, type, be16_to_cpu(pkt->h.src),
		 len - sizeof(struct rar_hdr), token);
	/* A box answers for any group. */
	((struct rar_hdr *)hdr)->group = pkt->h.group;
	send_once(m, &path, hdr, len);
}

/**
 * rar_packet_once() - send a packet to a rank that is no neighbour
 * @m:     member
 * @path:  to the rank; its route is looked up for this packet
 * @hdr:   header; its common part is filled here
 * @len:   its length
 * @type:  enum rar_pkt_type
 * @rank:  of the receiver
 * @token: the receiver's nonce
 *
 * Softirq.
 */
void rar_packet_once(struct rar_member *m, struct rar_path *path, void *hdr, size_t len, u8 type,
		     u32 rank, u64 token)
{
	fill_hdr(m, hdr, type, rank, len - sizeof(struct rar_hdr), token);
	send_once(m, path, hdr, len);
}

/**
 * rar_packet_reset() - tell the sender that its epoch is not known here
 * @m: member that has the place of the epoch's member
 * @pkt: the packet
 */
void rar_packet_reset(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_hdr h;

	rar_packet_reply(m, pkt, &h, sizeof(h), RAR_T_RESET,
			 be64_to_cpu(pkt->h.token));
}
