// SPDX-License-Identifier: GPL-2.0
/*
 * Cursors: walk through a buffer or a packet, whatever pieces it lies in.
 */
#include <linux/skbuff.h>
#include <net/checksum.h>
#include <net/xdp.h>

#include "core/buf.h"
#include "core/compat.h"
#include "core/cursor.h"
#include "reduce/reduce.h"

/* Find a byte in the fragments of a packet; if it lies after them *@off is reduced. */
static void *frags_span(const struct skb_shared_info *shinfo, u32 *off, u32 *len)
{
	const skb_frag_t *frag;
	u32 i;

	for (i = 0; i < shinfo->nr_frags; i++) {
		frag = &shinfo->frags[i];
		*len = skb_frag_size(frag) - *off;
		if (*off < skb_frag_size(frag))
			return skb_frag_address(frag) + *off;
		*off -= skb_frag_size(frag);
	}
	return NULL;
}

/* Find the byte at @off of a packet, and how many bytes lie together from there on. */
static void *skb_span(const struct sk_buff *skb, u32 off, u32 *len)
{
	u32 head = skb_headlen(skb);
	const struct sk_buff *part;
	void *addr;

	*len = head - off;
	if (off < head)
		return skb->data + off;
	off -= head;
	addr = frags_span(skb_shinfo(skb), &off, len);
	if (addr)
		return addr;
	/* Packets that GRO has chained are no deeper than this. */
	skb_walk_frags(skb, part) {
		if (off < part->len)
			return skb_span(part, off, len);
		off -= part->len;
	}
	return NULL;
}

/* Find the byte at @off of a frame. */
static void *xdp_span(struct xdp_buff *xdp, u32 off, u32 *len)
{
	u32 head = xdp->data_end - xdp->data;

	*len = head - off;
	if (off < head)
		return xdp->data + off;
	off -= head;
	return frags_span(xdp_get_shared_info_from_buff(xdp), &off, len);
}

/* See rar_cursor_at(). */
void rar_cursor_find(struct rar_cursor *cursor, u64 off)
{
	cursor->off = off;
	if (cursor->buf)
		cursor->addr = rar_buf_near(cursor->buf, off, &cursor->piece, &cursor->len);
	else if (cursor->skb)
		cursor->addr = skb_span(cursor->skb, off, &cursor->len);
	else
		cursor->addr = xdp_span(cursor->xdp, off, &cursor->len);
}

/* Copy out a few bytes that may lie in pieces; the buffer or packet has them all. */
void rar_cursor_read(struct rar_cursor *cursor, u64 off, void *to, u32 len)
{
	const void *from;
	u32 n;

	for (; len; len -= n, off += n, to += n) {
		from = rar_cursor_at(cursor, off, &n);
		n = min(n, len);
		memcpy(to, from, n);
	}
}

/* Copy in a few bytes. */
void rar_cursor_write(struct rar_cursor *cursor, u64 off, const void *from, u32 len)
{
	void *to;
	u32 n;

	for (; len; len -= n, off += n, from += n) {
		to = rar_cursor_at(cursor, off, &n);
		n = min(n, len);
		memcpy(to, from, n);
	}
}

/* The sum of bytes as Internet checksums use it; @off counts as even. */
__wsum rar_cursor_csum(const struct rar_reduce_ctx *ctx, struct rar_cursor *cursor, u64 off,
		       u32 len)
{
	const void *from;
	__wsum sum = 0;
	u32 done, n;

	for (done = 0; done < len; done += n) {
		from = rar_cursor_at(cursor, off + done, &n);
		n = min(n, len - done);
		sum = csum_block_add(sum, rar_reduce_csum(ctx, from, n), done);
	}
	return sum;
}

/**
 * rar_cursor_copy() - copy between a buffer and a packet
 * @ctx:      an open section
 * @to:       cursor of the buffer or packet that is written to
 * @to_off:   where to write, bytes
 * @from:     cursor of the buffer or packet that is read
 * @from_off: where to read, bytes
 * @len:      bytes; both have them
 */
void rar_cursor_copy(struct rar_reduce_ctx *ctx, struct rar_cursor *to,
		     u64 to_off, struct rar_cursor *from, u64 from_off, u32 len)
{
	const void *src;
	void *dst;
	u32 n, m;

	for (; len; len -= n, to_off += n, from_off += n) {
		dst = rar_cursor_at(to, to_off, &n);
		src = rar_cursor_at(from, from_off, &m);
		n = min3(n, m, len);
		rar_reduce_copy(ctx, dst, src, n);
		rar_reduce_piece(ctx);
	}
}
