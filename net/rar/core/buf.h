/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of a tensor: the kernel's pages, or the user's, pinned. */
#ifndef _RAR_BUF_H
#define _RAR_BUF_H

#include <linux/skbuff.h>
#include <linux/types.h>
#include <linux/uio.h>

struct rar_reduce_ctx;
struct rar_region;
struct rar_regions;
struct xdp_buff;

/*
 * A piece: bytes that follow one another in the tensor and in @pages.
 *
 * @off:    where the piece begins in the tensor, bytes
 * @len:    bytes
 * @addr:   where the user sees them, if they are the user's
 * @first:  where the piece begins in the first page, bytes
 * @npages: entries of @pages
 * @charge: pages charged to RLIMIT_MEMLOCK
 * @region: the region that owns the pages, else NULL
 */
struct rar_piece {
	u64 off;
	u64 len;
	u64 addr;
	struct page **pages;
	u32 first;
	u32 npages;
	u32 charge;
	struct rar_region *region;
};

/*
 * struct rar_buf - memory of a tensor
 *
 * Its owner writes this struct in process context before the operation is posted. Then it
 * does not change until nobody uses it any more.
 *
 * @linear:  the whole tensor if it is small and in memory of the kernel, else NULL
 * @pieces:  in the order of the tensor
 * @npieces: entries of @pieces
 * @charged: bytes that the operation is charged for @pieces
 * @len:     bytes in all pieces
 * @pinned:  the pages are the user's
 * @write:   the user's pages are written to
 * @kept:    the pages stay pinned while the user goes on using them: a region
 * @mmp:     account of RLIMIT_MEMLOCK
 */
struct rar_buf {
	void *linear;
	struct rar_piece *pieces;
	u32 npieces;
	u64 charged;
	u64 len;
	bool pinned;
	bool write;
	bool kept;
	struct mmpin mmp;
};

void rar_buf_trim(struct rar_buf *buf, u64 len);
void rar_buf_free(struct rar_buf *buf);
int rar_buf_alloc(struct rar_buf *buf, u64 bytes);
int rar_buf_pin(struct rar_buf *buf, struct rar_regions *regions, u64 addr, u64 len);
int rar_buf_pin_iter(struct rar_buf *buf, struct rar_regions *regions,
		     struct iov_iter *iter, u32 esize);
u64 rar_buf_pieces_bytes(const struct rar_buf *buf, const struct iov_iter *iter);
int rar_buf_repeats(const struct rar_buf *buf);
bool rar_buf_overlaps(const struct iov_iter *iter, u64 off, u64 addr, u64 len);
void *rar_buf_span(const struct rar_buf *buf, u64 off, u32 want, u32 *len);
void *rar_buf_near(const struct rar_buf *buf, u64 off, u32 *near, u32 *len);
bool rar_buf_attach(const struct rar_buf *buf, u64 off, u32 len, struct sk_buff *skb);
void rar_buf_read(const struct rar_buf *buf, u64 off, void *to, u32 len);
void rar_buf_write(const struct rar_buf *buf, u64 off, const void *from,
		   u32 len);
int rar_buf_from_iter(const struct rar_buf *buf, u64 off,
		      struct iov_iter *iter, u64 len);
u64 rar_buf_to_iter(const struct rar_buf *buf, u64 off, struct iov_iter *iter,
		    u64 len);
void rar_buf_copy(const struct rar_buf *to, const struct rar_buf *from);

#endif /* _RAR_BUF_H */
