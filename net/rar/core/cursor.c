// SPDX-License-Identifier: GPL-2.0
/*
 * Cursors: walk through a buffer or a packet, whatever pieces it lies in.
 */
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/skbuff.h>
#include <net/checksum.h>
#include <net/xdp.h>

#include "core/buf.h"
#include "core/compat.h"
#include "core/cursor.h"
#include "reduce/reduce.h"

/*
 * Find the byte at @off of the fragments of a packet, mostly near the one found last. NULL if it
 * lies after them: then @begin is their length.
 */
static void *frags_near(struct rar_cursor *cursor, const struct skb_shared_info *shinfo, u32 off)
{
	const skb_frag_t *frag;

	if (off < cursor->begin) {
		cursor->piece = 0;
		cursor->begin = 0;
	}
	for (; cursor->piece < shinfo->nr_frags; cursor->piece++) {
		frag = &shinfo->frags[cursor->piece];
		if (off - cursor->begin < skb_frag_size(frag)) {
			cursor->len = skb_frag_size(frag) - (off - cursor->begin);
			return skb_frag_address(frag) + (off - cursor->begin);
		}
		cursor->begin += skb_frag_size(frag);
	}
	return NULL;
}

/* Find the byte at @off of a packet, and how many bytes lie together from there on. */
static void *skb_near(struct rar_cursor *cursor, const struct sk_buff *skb, u32 off)
{
	u32 head = skb_headlen(skb);
	struct rar_cursor chained;
	struct sk_buff *part;
	void *addr;

	cursor->len = head - off;
	if (off < head)
		return skb->data + off;
	off -= head;
	addr = frags_near(cursor, skb_shinfo(skb), off);
	if (addr)
		return addr;
	off -= cursor->begin;
	/* Packets that GRO has chained are no deeper than this. */
	skb_walk_frags(skb, part) {
		if (off < part->len) {
			chained = (struct rar_cursor){ };
			addr = skb_near(&chained, part, off);
			cursor->len = chained.len;
			return addr;
		}
		off -= part->len;
	}
	return NULL;
}

/* Find the byte at @off of a frame. */
static void *xdp_near(struct rar_cursor *cursor, struct xdp_buff *xdp, u32 off)
{
	u32 head = xdp->data_end - xdp->data;

	cursor->len = head - off;
	if (off < head)
		return xdp->data + off;
	return frags_near(cursor, xdp_get_shared_info_from_buff(xdp), off - head);
}

/* See rar_cursor_at(). */
void rar_cursor_find(struct rar_cursor *cursor, u64 off)
{
	cursor->off = off;
	if (cursor->buf)
		cursor->addr = rar_buf_near(cursor->buf, off, &cursor->piece, &cursor->len);
	else if (cursor->skb)
		cursor->addr = skb_near(cursor, cursor->skb, off);
	else
		cursor->addr = xdp_near(cursor, cursor->xdp, off);
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

/* Bytes that lie together in both places. */
struct copy_spans {
	void *dst;
	const void *src;
	u32 n;
};

/*
 * Find where at most @len bytes lie, and begin to load them: the processor itself does not look
 * ahead into the next page.
 */
static struct copy_spans copy_find(struct rar_cursor *to, u64 to_off, struct rar_cursor *from,
				   u64 from_off, u32 len)
{
	struct copy_spans s;
	u32 m;

	s.dst = rar_cursor_at(to, to_off, &s.n);
	s.src = rar_cursor_at(from, from_off, &m);
	s.n = min3(s.n, m, len);
	prefetchw(s.dst);
	prefetch(s.src);
	return s;
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
	struct copy_spans s, next;

	if (!len)
		return;
	next = copy_find(to, to_off, from, from_off, len);
	for (; len; len -= s.n) {
		s = next;
		to_off += s.n;
		from_off += s.n;
		if (s.n < len)
			next = copy_find(to, to_off, from, from_off, len - s.n);
		rar_reduce_copy(ctx, s.dst, s.src, s.n);
		rar_reduce_piece(ctx);
	}
}

/* Has a packet no page of a file or process? Its flags do not always say so. */
static bool frags_writable(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 i;

	for (i = 0; i < shinfo->nr_frags; i++)
		if (page_folio(skb_frag_page(&shinfo->frags[i]))->mapping)
			return false;
	return true;
}

/**
 * rar_skb_fixed() - can nobody outside the kernel write to a packet's data?
 * @skb: packet; those that are chained to it are not examined
 *
 * A process can, if it sent its own pages. Any context.
 */
bool rar_skb_fixed(const struct sk_buff *skb)
{
	return !skb_zcopy((struct sk_buff *)skb) &&
	       !skb_has_shared_frag(skb) && frags_writable(skb);
}

/**
 * rar_skb_alone() - does nobody else see a packet's data?
 * @skb: packet; those that are chained to it are not examined
 *
 * Then they may be written to. Any context.
 */
bool rar_skb_alone(const struct sk_buff *skb)
{
	return !skb_shared(skb) && !skb_cloned(skb) && rar_skb_fixed(skb);
}
