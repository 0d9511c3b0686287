/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_CURSOR_H
#define _RAR_CORE_CURSOR_H

#include <linux/types.h>

#include "rar.h"

struct rar_buf;
struct rar_reduce_ctx;
struct sk_buff;
struct xdp_buff;

/*
 * struct rar_cursor - a walk through a buffer or a packet, mostly from front to back
 *
 * Set one of the first three fields, and the rest to 0. The buffer or packet does not
 * change during the walk.
 *
 * @buf:  the buffer, or
 * @skb:  the packet, or
 * @xdp:  the packet in a driver's receive path
 * @off:  where the bytes found last begin
 * @len:  how many of them lie together
 * @addr: their address
 * @piece: index of the piece of @buf, or of the fragment of a packet, that holds them
 * @begin: where that fragment begins among the bytes of all fragments
 */
struct rar_cursor {
	const struct rar_buf *buf;
	struct sk_buff *skb;
	struct xdp_buff *xdp;
	u64 off;
	u32 len;
	u32 piece;
	u32 begin;
	void *addr;
};

bool rar_skb_fixed(const struct sk_buff *skb);
bool rar_skb_alone(const struct sk_buff *skb);
void rar_cursor_find(struct rar_cursor *cursor, u64 off);

/**
 * rar_cursor_at() - find the address of a byte
 * @cursor: cursor
 * @off:  the byte, less than the length of the buffer or packet
 * @len:  set to how many bytes lie together from there on, at least 1
 *
 * Any context.
 *
 * Return: the address.
 */
static inline void *rar_cursor_at(struct rar_cursor *cursor, u64 off, u32 *len)
{
	if (off - cursor->off >= cursor->len)
		rar_cursor_find(cursor, off);
	off -= cursor->off;
	*len = cursor->len - off;
	return cursor->addr + off;
}

/* A walk through a packet, from its first header on. */
static inline struct rar_cursor rar_pkt_cursor(const struct rar_pkt *pkt)
{
	return (struct rar_cursor){
		.skb = pkt->skb,
		.xdp = pkt->frame ? pkt->frame->xdp : NULL,
	};
}

void rar_cursor_read(struct rar_cursor *cursor, u64 off, void *to, u32 len);
void rar_cursor_write(struct rar_cursor *cursor, u64 off, const void *from, u32 len);
__wsum rar_cursor_csum(const struct rar_reduce_ctx *ctx, struct rar_cursor *cursor, u64 off,
		       u32 len);
void rar_cursor_copy(struct rar_reduce_ctx *ctx, struct rar_cursor *to,
		     u64 to_off, struct rar_cursor *from, u64 from_off, u32 len);

#endif /* _RAR_CORE_CURSOR_H */
