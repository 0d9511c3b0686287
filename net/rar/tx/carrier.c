// SPDX-License-Identifier: GPL-2.0
/*
 * Carriers: packets from rank to rank in one kernel that hold a run with one header, in pages of
 * the kernel.
 *
 * A carrier looks like a superpacket, so that devices pass it whole, but it must not be cut: its
 * pieces would have no headers. It says that it is a single segment, which no superpacket is.
 * Neither cutting nor merging again leaves that as it was, so the receiver sees that the carrier is
 * as it was sent.
 *
 * A packet may be read at any time later, by a tap or behind a queue, and
 * outlives its operation. So no carrier ever points to memory of a user. A
 * buffer of the kernel lives as long as the packet, and the carrier shares its
 * pages; nobody may write to these (SKBFL_SHARED_FRAG). From memory of the
 * user the run is copied, once where it starts: the ranks that it comes to add
 * to its pages or leave them as they are, and pass them on.
 */
#include <net/udp.h>

#include "core/buf.h"
#include "core/cursor.h"
#include "core/ring.h"
#include "reduce/reduce.h"
#include "tx/carrier.h"
#include "tx/route.h"
#include "tx/run.h"

/* A packet with room for all headers, and for @len bytes in pages. */
static struct sk_buff *alloc(const struct rar_link *link, u32 len)
{
	u32 room = LL_MAX_HEADER + rar_ip_hdr_size(&link->path) + sizeof(struct udphdr);
	struct sk_buff *skb;
	int err;

	skb = alloc_skb_with_frags(room + sizeof(struct rar_data_hdr), len,
				   PAGE_ALLOC_COSTLY_ORDER, &err, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	skb_put(skb, sizeof(struct rar_data_hdr));
	skb->data_len = len;
	skb->len += len;
	return skb;
}

static struct sk_buff *attached(const struct rar_link *link, const struct rar_buf *buf, u64 off,
				u32 len)
{
	struct sk_buff *skb = alloc(link, 0);

	if (!skb || rar_buf_attach(buf, off, len, skb))
		return skb;
	kfree_skb(skb);
	return NULL;
}

static struct sk_buff *copied(const struct rar_link *link, const struct rar_buf *buf, u64 off,
			      u32 len)
{
	struct rar_cursor from = { .buf = buf }, to = { };
	struct rar_reduce_ctx ctx;

	to.skb = alloc(link, len);
	if (!to.skb)
		return NULL;
	rar_reduce_begin_copy(&ctx, len);
	rar_cursor_copy(&ctx, &to, sizeof(struct rar_data_hdr), &from, off, len);
	rar_reduce_end(&ctx);
	return to.skb;
}

/**
 * rar_carrier_label() - write the header of a carrier
 * @link: link to the neighbour
 * @item: the run, with its sequence numbers; its operation is referenced
 * @skb:  packet that begins with room for the header in one piece, and then has the run
 */
void rar_carrier_label(const struct rar_link *link, const struct rar_tx_item *item,
		       struct sk_buff *skb)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 head = sizeof(struct rar_data_hdr);

	rar_run_hdr(link, item, RAR_F_WHOLE, skb->len - head,
		    (void *)skb->data);
	shinfo->gso_size = head + link->member->payload;
	shinfo->gso_type = SKB_GSO_UDP_L4;
	shinfo->gso_segs = 1;
}

/**
 * rar_carrier_build() - build a carrier
 * @link: link to the neighbour
 * @item: the run, with its sequence numbers; its operation is referenced
 *
 * Softirq, or process context with bottom halves off. RCU read side.
 *
 * Return: the packet, from the RAR header on, or NULL.
 */
struct sk_buff *rar_carrier_build(const struct rar_link *link, const struct rar_tx_item *item)
{
	const struct rar_operation *op = item->op;
	u32 len = rar_ring_bytes(&op->ring, item->run.chunk, item->run.n);
	struct sk_buff *skb = NULL;
	const struct rar_buf *buf;
	struct rar_chunk c;

	rar_ring_chunk(&op->ring, item->run.chunk, &c);
	buf = rar_op_source(op, &item->run, &c);
	if (!buf->pinned)
		skb = attached(link, buf, c.off, len);
	if (!skb)
		skb = copied(link, buf, c.off, len);
	if (skb)
		rar_carrier_label(link, item, skb);
	return skb;
}

/**
 * rar_carrier_is() - is a received packet a carrier as it was sent?
 * @skb: packet
 */
bool rar_carrier_is(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);

	return shinfo->gso_size && shinfo->gso_segs == 1 && (shinfo->gso_type & SKB_GSO_UDP_L4);
}

/**
 * rar_carrier_keep() - copy a carrier that is held for later
 * @pkt: the carrier
 *
 * Its pages may be those of the sender's buffer, which must not stay when the sender gives it up.
 *
 * Return: a packet from the RAR header on, in memory of its own, or NULL.
 */
struct sk_buff *rar_carrier_keep(const struct rar_pkt *pkt)
{
	struct rar_cursor from = { .skb = pkt->skb }, to = { };
	u32 head = sizeof(struct rar_data_hdr), len = pkt->len - head;
	struct rar_reduce_ctx ctx;

	to.skb = alloc(pkt->link, len);
	if (!to.skb)
		return NULL;
	rar_cursor_read(&from, pkt->off, to.skb->data, head);
	rar_reduce_begin_copy(&ctx, len);
	rar_cursor_copy(&ctx, &to, head, &from, pkt->off + head, len);
	rar_reduce_end(&ctx);
	return to.skb;
}
