/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_CURSOR_H
#define _RAR_CORE_CURSOR_H

#include <linux/types.h>

struct rar_buf;
struct rar_reduce_ctx;
struct sk_buff;
struct xdp_buff;

/*
 * struct rar_cursor - a way through a buffer or a packet, mostly from front to back
 *
 * Set one of the first three, the rest to 0. What it leads through does not change
 * meanwhile.
 *
 * @buf:  buffer, or
 * @skb:  packet, or
 * @xdp:  packet in a driver's receive path
 * @off:  what was found last: the place,
 * @len:  bytes from there on
 * @addr: and where they lie
 * @piece: of @buf, in which it was
 */
struct rar_cursor {
	const struct rar_buf *buf;
	struct sk_buff *skb;
	struct xdp_buff *xdp;
	u64 off;
	u32 len;
	u32 piece;
	void *addr;
};

void rar_cursor_find(struct rar_cursor *cursor, u64 off);

/**
 * rar_cursor_at() - where a byte lies
 * @cursor: a way
 * @off:  the byte, less than the length of the buffer or packet
 * @len:  set to how many lie together from there on, at least 1
 *
 * Any context. Return: the address.
 */
static inline void *rar_cursor_at(struct rar_cursor *cursor, u64 off, u32 *len)
{
	if (off - cursor->off >= cursor->len)
		rar_cursor_find(cursor, off);
	off -= cursor->off;
	*len = cursor->len - off;
	return cursor->addr + off;
}

void rar_cursor_read(struct rar_cursor *cursor, u64 off, void *to, u32 len);
void rar_cursor_write(struct rar_cursor *cursor, u64 off, const void *from, u32 len);
__wsum rar_cursor_csum(const struct rar_reduce_ctx *ctx, struct rar_cursor *cursor, u64 off,
		       u32 len);
void rar_cursor_copy(struct rar_reduce_ctx *ctx, struct rar_cursor *to,
		     u64 to_off, struct rar_cursor *from, u64 from_off, u32 len);

#endif /* _RAR_CORE_CURSOR_H */
