// SPDX-License-Identifier: GPL-2.0
/*
 * Packets with chunks: the headers of a run, and its payload, from the buffer
 * of an operation, from memory of a box, or in place in the packet that brought
 * it.
 */
#include <linux/export.h>
#include <linux/skbuff.h>
#include <net/udp.h>

#include "core/buf.h"
#include "core/cursor.h"
#include "core/member.h"
#include "core/ring.h"
#include "core/trace.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "tx/carrier.h"
#include "tx/control.h"
#include "tx/packet.h"
#include "tx/route.h"
#include "tx/run.h"

/*
 * struct chunks - what goes into a packet
 * @dh:       header of the first chunk
 * @numbered: each chunk has a number of its own
 * @n:        chunks
 * @each:     bytes of each, but for the last
 * @room:     bytes of its header and its seal
 * @bytes:    of all
 * @tail:     RAR_F_* of the last one: a packet may be cut on the way
 * @buf:      has the payload, from @at on; or
 * @vec:      the payload of each; neither: the payload is in the packet already
 */
struct chunks {
	struct rar_data_hdr dh;
	bool numbered;
	u32 n;
	u32 each;
	u32 room;
	u32 bytes;
	u8 tail;
	const struct rar_buf *buf;
	u64 at;
	const struct kvec *vec;
};

/* Do chunks have numbers, as those that do not go directly? */
static bool is_numbered(const struct rar_link *link,
			const struct rar_tx_item *item)
{
	return !item->op->ring.plan.direct || item->op->ring.plan.halving ||
	       rar_link_is_leg(link);
}

/* RAR_F_* of the last chunk of a run. */
static u8 tail_of(const struct rar_tx_item *item)
{
	return item->flags | (item->ack_now ? RAR_F_ACK_NOW : 0);
}

/*
 * Fill in the header of the first chunk of a run, which is zero, and from which
 * the others follow; all but its length, and the flags of the last chunk.
 */
static void fill(const struct rar_link *link, const struct rar_tx_item *item,
		 struct rar_data_hdr *dh)
{
	const struct rar_member *m = link->member;
	const struct rar_operation *op = item->op;
	u8 type = item->run.phase == RAR_RS ? RAR_T_RS : RAR_T_AG;

	if (link->index >= RAR_LINKS)
		type = RAR_T_DIRECT;
	if (!is_numbered(link, item)) {
		dh->complete = cpu_to_be64(item->known.map);
		dh->base = cpu_to_be32((u32)item->known.base);
	} else {
		dh->seq = cpu_to_be32(item->seq);
		dh->una = cpu_to_be32(item->una);
	}
	rar_packet_fill_hdr(m, &dh->h, type, link->rank, 0,
			    READ_ONCE(link->epoch) ?: m->epoch);
	rar_op_describe(dh, op->seq, &op->fingerprint);
	dh->chunk = cpu_to_be32(rar_ring_there(&op->ring, item->run.phase,
					       item->run.chunk, link->rank));
	if (rar_link_is_leg(link))
		dh->box.prio = op->prio;
	if (item->run.phase == RAR_RS && rar_op_left_box(op, item->run.chunk))
		dh->flags |= RAR_F_RINGED;
}

/* Write the header of chunk @i, with @len bytes of payload. */
static void write_hdr(const struct chunks *c, u32 i, u32 len,
		      struct rar_hdr_words *to)
{
	const struct rar_hdr_words *first = (const void *)&c->dh;

	rar_hdr_nth(first, i, len, to);
	if (!c->numbered)
		to->w[3] = first->w[3];
	if (i + 1 == c->n)
		to->w[7] |= rar_hdr_flags(c->tail);
}

/* The same at an offset of a packet, where the header may lie in two pieces. */
static void store_hdr(struct rar_cursor *cursor, u32 off,
		      const struct chunks *c, u32 i, u32 len)
{
	struct rar_hdr_words buf;
	void *to;
	u32 n;

	to = rar_cursor_at(cursor, off, &n);
	if (n >= sizeof(buf)) {
		write_hdr(c, i, len, to);
	} else {
		write_hdr(c, i, len, &buf);
		skb_store_bits(cursor->skb, off, &buf, sizeof(buf));
	}
}

/* Let GSO cut between the chunks if there are several. */
static void set_gso(struct sk_buff *skb, const struct chunks *c)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	bool several = c->n > 1;

	shinfo->gso_size = several ? c->room + c->each : 0;
	shinfo->gso_type = several ? SKB_GSO_UDP_L4 : 0;
	shinfo->gso_segs = several ? c->n : 0;
}

/* Write headers and payload to a packet, which begins with the first header. */
static void write_chunks(struct sk_buff *skb, const struct chunks *c)
{
	struct rar_cursor from = { .buf = c->buf }, to = { .skb = skb };
	u32 off = 0, left = c->bytes, begin, i, len;
	struct rar_reduce_ctx ctx;
	u64 at = c->at;

	if (c->buf)
		rar_reduce_begin_copy(&ctx, c->bytes);
	for (i = 0; i < c->n; i++) {
		len = min(left, c->each);
		store_hdr(&to, off, c, i, len);
		begin = off + sizeof(c->dh);
		if (c->vec)
			skb_store_bits(skb, begin, c->vec[i].iov_base, len);
		else if (c->buf && len)
			rar_cursor_copy(&ctx, &to, begin, &from, at, len);
		off += c->room + len;
		at += len;
		left -= len;
	}
	if (c->buf)
		rar_reduce_end(&ctx);
	set_gso(skb, c);
}

/**
 * rar_run_hdr() - write the header of a single chunk, or of a carrier
 * @link:  link to the neighbour
 * @item:  the chunk, with its sequence number
 * @flags: further RAR_F_*
 * @len:   bytes of payload
 * @to:    the header
 */
void rar_run_hdr(const struct rar_link *link, const struct rar_tx_item *item,
		 u8 flags, u32 len, struct rar_hdr_words *to)
{
	struct chunks c = { .n = 1,
			    .tail = tail_of(item) | flags,
			    .numbered = true };

	fill(link, item, &c.dh);
	write_hdr(&c, 0, len, to);
}

/* Get memory for a packet of chunks, which lies in large pieces. */
static struct sk_buff *alloc(const struct rar_link *link,
			     const struct chunks *c)
{
	u32 len = c->bytes + c->n * c->room;
	const struct rar_path *path = &link->path;
	u32 room =
		LL_MAX_HEADER + rar_ip_hdr_size(path) + sizeof(struct udphdr);
	struct sk_buff *skb;
	int err;

	if (c->n == 1) {
		skb = rar_packet_alloc(link->member->rn, path, len);
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

/* Build a packet. Returns it, or NULL without memory. */
static struct sk_buff *build(const struct rar_link *link,
			     const struct chunks *c)
{
	struct sk_buff *skb = alloc(link, c);

	if (skb)
		write_chunks(skb, c);
	return skb;
}

/* The chunks of a run as they are sent by a link. */
static void chunks_of(const struct rar_link *link,
		      const struct rar_tx_item *item, struct chunks *c)
{
	*c = (struct chunks) {
		.numbered = is_numbered(link, item),
		.n = item->run.n,
		.each = link->member->payload,
		.room = rar_overhead(link->member),
		.bytes = rar_ring_bytes(&item->op->ring, item->run.chunk,
					item->run.n),
		.tail = tail_of(item),
	};
	fill(link, item, &c->dh);
}

/* Build a packet for a run, whose payload is copied from the buffer. */
static struct sk_buff *run_build(const struct rar_link *link,
				 const struct rar_tx_item *item)
{
	struct rar_chunk first;
	struct chunks c;

	chunks_of(link, item, &c);
	rar_ring_chunk(&item->op->ring, item->run.chunk, &first);
	c.buf = rar_link_is_leg(link) ? READ_ONCE(item->op->own) :
		rar_op_source(item->op, &item->run, &first);
	c.at = first.off;
	return build(link, &c);
}

void rar_run_trace(const struct rar_member *m, const struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;

	if (!trace_rar_tx_enabled())
		return;
	trace_rar_tx(m, item->op->seq, run->phase, run->chunk,
		     rar_op_bytes(item->op, run, rar_mask(run->n)));
}

void rar_run_count(struct rar_member *m, const struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;

	rar_mib_add(m->rn, TxData, run->n);
	rar_mib_add(m->rn, TxBytes,
		    rar_ring_bytes(&item->op->ring, run->chunk, run->n));
}

/* Send a packet between the addresses of its lane. */
static int xmit(struct rar_link *link, struct sk_buff *skb, u32 lane)
{
	return rar_packet_xmit(link->member, rar_link_path(link, lane), skb,
			       lane);
}

static int run_xmit(struct rar_link *link, const struct rar_tx_item *item,
		    struct sk_buff *skb)
{
	rar_run_count(link->member, item);
	return xmit(link, skb, item->lane);
}

/*
 * Where sums may be made aside: may a sum have overwritten what was copied into
 * a packet, or is it not this rank's to send any more? The caller has copied it
 * (rule 7 of design/box.rst).
 */
static bool overtaken(const struct rar_link *link,
		      const struct rar_tx_item *item)
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
	/* The buffer is read before the claims. Pairs with their atomics. */
	smp_rmb();
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
	struct rar_data_hdr dh = { };

	if (overtaken(link, item))
		return;
	fill(link, item, &dh);
	dh.box.chunks = item->run.n;
	rar_control_send(link, &dh, sizeof(dh), 0, RAR_T_RS, item->epoch);
}

/**
 * rar_run_send() - send chunks to the neighbour
 * @link: link to the neighbour
 * @item: the chunks, with their sequence numbers; their operation is referenced
 *
 * The payload is copied from the buffer, or a carrier shares its pages.
 * Meanwhile the AG copy of an RS chunk may overwrite the chunk. Then the
 * neighbour had the RS chunk long before, and drops this packet as a duplicate.
 * In a group with a box it may not have had it, and the packet is not sent; it
 * counts as lost.
 *
 * Return: 0; -EMSGSIZE if the route became narrower than the epoch's packets;
 * another negative errno if a queue of this host did not take the packet. A
 * packet for which there is no memory counts as lost on the way.
 */
int rar_run_send(struct rar_link *link, struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct sk_buff *skb;

	rar_run_trace(m, item);
	if (asks(link, item->op)) {
		run_ask(link, item);
		return 0;
	}
	skb = item->whole ? rar_carrier_build(link, item) :
			    run_build(link, item);
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
 * rar_run_pass_on() - forward a run that came in a carrier, in another carrier
 * @link: link to the neighbour that gets it
 * @item: the chunks, with their sequence numbers; they are in the buffer
 *        already
 *
 * Return: as rar_run_send().
 */
int rar_run_pass_on(struct rar_link *link, struct rar_tx_item *item)
{
	rar_mib_add(link->member->rn, TxForward, item->run.n);
	return rar_run_send(link, item);
}

/**
 * rar_run_stream() - send chunks of a stream of records
 * @link:  direct link to the root, or the leg
 * @item:  the chunks, which are no chunks of the ring; their operation is
 *         referenced
 * @at:    where they lie in the operation's buffer, one after the other
 * @chunk: bytes of a chunk
 * @bytes: of all of them; only the last may be shorter
 *
 * Return: as rar_run_send().
 */
int rar_run_stream(struct rar_link *link, const struct rar_tx_item *item,
		   u64 at, u32 chunk, u32 bytes)
{
	struct chunks c = {
		.n = item->run.n,
		.each = chunk,
		.room = rar_overhead(link->member),
		.bytes = bytes,
		.tail = tail_of(item),
		.buf = &item->op->buf,
		.at = at,
	};
	struct rar_member *m = link->member;
	struct sk_buff *skb;

	rar_mib_add(m->rn, TxData, c.n);
	rar_mib_add(m->rn, TxBytes, bytes);
	fill(link, item, &c.dh);
	skb = build(link, &c);
	if (skb)
		return xmit(link, skb, item->lane);
	rar_mib_inc(m->rn, TxError);
	return 0;
}

/*
 * Make a received packet new: it keeps nothing of its way here. It starts at
 * the RAR header. No other function does this.
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

/**
 * rar_run_forward() - forward the packet that brought chunks
 * @link: link to the neighbour that gets it
 * @item: the chunks to carry, with their sequence numbers
 * @skb:  the packet, owned by us alone, with the payload in place already;
 *        consumed
 * @off:  offset of its first RAR header
 *
 * Return: as rar_run_send().
 */
int rar_run_forward(struct rar_link *link, struct rar_tx_item *item,
		    struct sk_buff *skb, u32 off)
{
	struct rar_member *m = link->member;
	struct chunks c;

	rar_run_trace(m, item);
	rar_mib_add(m->rn, TxForward, item->run.n);
	make_new(skb, off);
	if (item->whole) {
		rar_mib_add(m->rn, TxWhole, item->run.n);
		rar_carrier_label(link, item, skb);
	} else {
		chunks_of(link, item, &c);
		write_chunks(skb, &c);
	}
	return run_xmit(link, item, skb);
}

/**
 * rar_run_sums() - send sums of consecutive chunks that are not in the buffer
 * of an operation
 * @link:  link to the member that gets them
 * @dh:    header of the first; its common part is filled here
 * @sum:   the sums; all but the last are equally long
 * @n:     how many, 1 .. RAR_RUN_MAX
 * @type:  RAR_T_AG; RAR_T_RS: sums of some ranks
 * @token: epoch of the leg
 *
 * Softirq.
 *
 * Return: 0, or as rar_run_send() the error of a queue of this host.
 */
int rar_run_sums(struct rar_link *link, struct rar_data_hdr *dh,
		 const struct kvec *sum, u32 n, u8 type, u64 token)
{
	struct chunks c = {
		.dh = *dh,
		.numbered = true,
		.n = n,
		.each = sum[0].iov_len,
		.room = rar_overhead(link->member),
		.vec = sum,
	};
	struct rar_member *m = link->member;
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < n; i++)
		c.bytes += sum[i].iov_len;
	rar_packet_fill_hdr(m, &c.dh.h, type, link->rank, 0, token);
	skb = build(link, &c);
	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return -ENOBUFS;
	}
	rar_mib_add(m->rn, TxData, n);
	rar_mib_add(m->rn, TxBytes, c.bytes);
	return rar_packet_xmit(m, &link->path, skb, 0);
}
EXPORT_SYMBOL_GPL(rar_run_sums);
