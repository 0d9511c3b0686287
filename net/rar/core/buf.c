// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of a tensor: pages of the kernel or pinned pages of the user. Owns
 * struct rar_buf. The kernel uses all of it through its own mapping.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <net/checksum.h>
#include <net/xdp.h>

#include "core/buf.h"
#include "core/compat.h"
#include "core/region.h"
#include "core/user.h"
#include "reduce/reduce.h"

#define BUF_LINEAR_MAX	(32 << 10)	/* bytes; larger tensors are pages */
#define BUF_ORDER_MAX	4		/* order of the blocks in which pages are taken */
#define BUF_PIN_BATCH	65536	/* pages */
#define BUF_UNPIN_BATCH	4096	/* pages */
#define BUF_PIECES_MAX	65536

/*
 * A user that asks for too much gets an error; no process is killed for it. A process
 * that is being killed for memory takes none of the reserves.
 */
#define BUF_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | \
		 __GFP_NOMEMALLOC)

/* -- pieces -------------------------------------------------------------- */

/* Make a piece with room for @npages of its own; it counts once @npieces does. */
static struct rar_piece *piece_new(struct rar_buf *buf, u64 npages)
{
	u32 room = roundup_pow_of_two(buf->npieces + 1);
	struct rar_piece *p;

	if (npages > U32_MAX || room > BUF_PIECES_MAX)
		return ERR_PTR(-EMSGSIZE);
	if (!is_power_of_2(buf->npieces) && buf->npieces)
		room = 0;	/* there is room left */
	p = room ? krealloc_array(buf->pieces, room, sizeof(*p), BUF_GFP) :
		   buf->pieces;
	if (!p)
		return ERR_PTR(-ENOMEM);
	buf->pieces = p;
	p += buf->npieces;
	*p = (struct rar_piece) { .off = buf->len };
	if (!npages)
		return p;
	p->pages = kvmalloc_array(npages, sizeof(*p->pages), BUF_GFP);
	return p->pages ? p : ERR_PTR(-ENOMEM);
}

static void piece_free(const struct rar_buf *buf, struct rar_piece *p)
{
	u32 i, n;

	if (p->region) {
		rar_region_put(p->region);
		return;
	}
	for (i = 0; i < p->npages; i += n) {
		n = buf->pinned ? min_t(u32, p->npages - i, BUF_UNPIN_BATCH) : 1;
		if (buf->pinned)
			unpin_user_pages_dirty_lock(p->pages + i, n, buf->write);
		else
			__free_page(p->pages[i]);
		cond_resched();
	}
	kvfree(p->pages);
}

/* Give back part of the charge to RLIMIT_MEMLOCK; rar_buf_free() gives back the rest. */
static void uncharge(struct rar_buf *buf, u32 npages)
{
	if (!npages)
		return;
	atomic_long_sub(npages, &buf->mmp.user->locked_vm);
	buf->mmp.num_pg -= npages;
}

static void drop_last(struct rar_buf *buf)
{
	struct rar_piece *p = &buf->pieces[--buf->npieces];

	buf->len -= p->len;
	uncharge(buf, p->charge);
	piece_free(buf, p);
}

/**
 * rar_buf_trim() - give back the memory that was appended
 * @buf: buffer
 * @len: the length to return to
 *
 * Process context.
 */
void rar_buf_trim(struct rar_buf *buf, u64 len)
{
	while (buf->npieces && buf->len > len)
		drop_last(buf);
}

/**
 * rar_buf_free() - give back all memory
 * @buf: buffer, empty afterwards; nobody else uses it
 *
 * Process context.
 */
void rar_buf_free(struct rar_buf *buf)
{
	kfree(buf->linear);
	while (buf->npieces)
		drop_last(buf);
	kfree(buf->pieces);
	mm_unaccount_pinned_pages(&buf->mmp);
	memset(buf, 0, sizeof(*buf));
}

/* -- memory of the kernel ------------------------------------------------ */

/*
 * Take a block of pages, as large as possible. Returns the number of pages. Each is a page of
 * its own, because a copy to or from user space may span several blocks.
 */
static u32 take_block(struct page **pages, u64 want)
{
	u32 order = min_t(u32, ilog2(want), BUF_ORDER_MAX), i;
	gfp_t gfp = BUF_GFP & ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL);
	struct page *page = NULL;

	for (; order; order--) {
		page = alloc_pages(gfp, order);
		if (page)
			break;
	}
	if (page)
		split_page(page, order);
	else
		page = alloc_page(BUF_GFP);
	for (i = 0; page && i < 1U << order; i++)
		pages[i] = page + i;
	return page ? i : 0;
}

/* Is the process being killed, and not closing its descriptors yet? */
static bool killed(void)
{
	return fatal_signal_pending(current) && !(current->flags & PF_EXITING);
}

static int alloc_pieces(struct rar_buf *buf, u64 bytes)
{
	u64 npages = DIV_ROUND_UP(bytes, PAGE_SIZE);
	struct rar_piece *p = piece_new(buf, npages);
	u32 n;

	if (IS_ERR(p))
		return PTR_ERR(p);
	buf->npieces++;
	while (p->npages < npages) {
		n = take_block(p->pages + p->npages, npages - p->npages);
		p->npages += n;
		if (!n || killed())
			return -ENOMEM;
		cond_resched();
	}
	p->len = bytes;
	buf->len = bytes;
	return 0;
}

/**
 * rar_buf_alloc() - take memory of the kernel
 * @buf:   buffer, zeroed
 * @bytes: its length
 *
 * Process context. The memory is charged to the caller's memory cgroup.
 *
 * Return: 0, or -ENOMEM or -EMSGSIZE and the buffer is empty.
 */
int rar_buf_alloc(struct rar_buf *buf, u64 bytes)
{
	int err = 0;

	if (bytes <= BUF_LINEAR_MAX) {
		buf->linear = kmalloc(max_t(size_t, bytes, 1), BUF_GFP);
		if (buf->linear)
			buf->len = bytes;
		else
			err = -ENOMEM;
	} else {
		err = alloc_pieces(buf, bytes);
	}
	if (err)
		rar_buf_free(buf);
	return err;
}

/* -- memory of the user -------------------------------------------------- */

/*
 * Before Linux 6.2 a page that is pinned to be read is replaced when the user writes to it
 * later. So where the user may write, memory that stays pinned is pinned like a writer does.
 */
static int pin_pages(struct rar_buf *buf, struct rar_piece *p, u64 addr,
		     u64 npages)
{
	unsigned int write = buf->write || buf->kept ? FOLL_WRITE : 0;
	int n;

	while (p->npages < npages) {
		n = pin_user_pages_fast(addr + p->npages * PAGE_SIZE,
					min_t(u64, npages - p->npages,
					      BUF_PIN_BATCH),
					FOLL_LONGTERM | write, p->pages + p->npages);
		if (n == -EFAULT && write && !buf->write) {
			write = 0;
			continue;
		}
		if (n <= 0)
			return n ?: -EFAULT;
		p->npages += n;
		cond_resched();
	}
	return 0;
}

/* Borrow pages of a region, which are pinned already. Consumes the reference to @region. */
static int borrow(struct rar_buf *buf, struct rar_region *region, u64 addr, u64 len)
{
	struct rar_piece *p = piece_new(buf, 0);

	if (IS_ERR(p)) {
		rar_region_put(region);
		return PTR_ERR(p);
	}
	p->addr = addr;
	rar_region_lend(region, p, addr, len);
	buf->npieces++;
	buf->len += len;
	return 0;
}

/**
 * rar_buf_pin() - append memory of the caller
 * @buf:  buffer, with @pinned and perhaps @write set
 * @regions: regions where it may be pinned already, or NULL
 * @addr: start, as the user sees it
 * @len:  bytes
 *
 * Process context. If it fails the buffer is as it was before.
 *
 * Return: 0; -EFAULT if the memory is not there, may not be written to, or belongs to a file
 * that must not be written to through pages; -ENOMEM if memory is short;
 * -EDQUOT beyond RLIMIT_MEMLOCK; -EMSGSIZE if there are too many pieces.
 */
int rar_buf_pin(struct rar_buf *buf, struct rar_regions *regions, u64 addr, u64 len)
{
	u32 charge = buf->mmp.num_pg;
	struct rar_region *region;
	struct rar_piece *p;
	u64 npages;
	int err;

	if (!len)
		return 0;
	if (addr + len < addr || addr + len > ULONG_MAX - PAGE_SIZE)
		return -EFAULT;
	region = regions ? rar_region_get(regions, addr, len, buf->write) : NULL;
	if (region)
		return borrow(buf, region, addr, len);
	npages = DIV_ROUND_UP(offset_in_page(addr) + len, PAGE_SIZE);
	err = mm_account_pinned_pages(&buf->mmp, len);
	if (err == -ENOBUFS && rar_user_settle())
		err = mm_account_pinned_pages(&buf->mmp, len);
	if (err)
		return err == -ENOBUFS ? -EDQUOT : err;
	charge = buf->mmp.num_pg - charge;
	p = piece_new(buf, npages);
	if (IS_ERR(p)) {
		uncharge(buf, charge);
		return PTR_ERR(p);
	}
	p->addr = addr;
	p->charge = charge;
	p->first = offset_in_page(addr);
	p->len = len;
	buf->npieces++;
	buf->len += len;
	err = pin_pages(buf, p, addr & PAGE_MASK, npages);
	if (err)
		drop_last(buf);
	return err;
}

/**
 * rar_buf_pin_iter() - append all memory that a call passes
 * @buf:   buffer
 * @regions: regions where it may be pinned already
 * @iter:  memory of the user, advanced
 * @esize: bytes of an element; no element may lie in two pieces of @iter
 *
 * Return: as rar_buf_pin(); -EINVAL if an element would be cut.
 */
int rar_buf_pin_iter(struct rar_buf *buf, struct rar_regions *regions,
		     struct iov_iter *iter, u32 esize)
{
	u64 len = buf->len;
	size_t n;
	int err;

	while (iov_iter_count(iter)) {
		n = iov_iter_single_seg_count(iter);
		err = n % esize ? -EINVAL :
		      rar_buf_pin(buf, regions, (unsigned long)rar_iter_addr(iter), n);
		if (err) {
			rar_buf_trim(buf, len);
			return err;
		}
		iov_iter_advance(iter, n);
	}
	return 0;
}

/**
 * rar_buf_pieces_bytes() - how long may the list of pieces become?
 * @buf:  buffer
 * @iter: memory that rar_buf_pin_iter() is to append
 *
 * Return: bytes, as piece_new() takes them.
 */
u64 rar_buf_pieces_bytes(const struct rar_buf *buf, const struct iov_iter *iter)
{
	u64 n = min_t(u64, (u64)buf->npieces + iter->nr_segs + 1, BUF_PIECES_MAX);

	return roundup_pow_of_two(n) * sizeof(struct rar_piece);
}

static int compare_addr(const void *a, const void *b)
{
	const struct rar_piece *p = a, *q = b;

	return p->addr < q->addr ? -1 : p->addr > q->addr;
}

/* Does each piece end before the next one begins, where the user sees them? */
static bool in_order(const struct rar_piece *p, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++)
		if (p[i].addr < p[i - 1].addr + p[i - 1].len)
			return false;
	return true;
}

/**
 * rar_buf_repeats() - does a buffer have the same memory of the user twice?
 * @buf: buffer, pinned
 *
 * Sums in such memory would overwrite one another. Pages that the user sees at two addresses are
 * not found, but each of them is charged twice. Process context.
 *
 * Return: 0, -EINVAL if it does, or -ENOMEM.
 */
int rar_buf_repeats(const struct rar_buf *buf)
{
	struct rar_piece *sorted;
	int err = 0;

	if (in_order(buf->pieces, buf->npieces))
		return 0;
	sorted = kvmalloc_array(buf->npieces, sizeof(*sorted), BUF_GFP);
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, buf->pieces, buf->npieces * sizeof(*sorted));
	sort(sorted, buf->npieces, sizeof(*sorted), compare_addr, NULL);
	if (!in_order(sorted, buf->npieces))
		err = -EINVAL;
	kvfree(sorted);
	return err;
}

/**
 * rar_buf_overlaps() - does memory that a call passes overlap a tensor differently?
 * @iter: memory of the caller
 * @off:  its offset in the tensor
 * @addr: start of the memory for the tensor, as the user sees it
 * @len:  bytes of the tensor
 *
 * Return: true if a byte belongs to both but lies at a different place in each.
 */
bool rar_buf_overlaps(const struct iov_iter *iter, u64 off, u64 addr, u64 len)
{
	struct iov_iter i = *iter;
	u64 from;
	size_t n;

	for (; iov_iter_count(&i); iov_iter_advance(&i, n), off += n) {
		n = iov_iter_single_seg_count(&i);
		from = (unsigned long)rar_iter_addr(&i);
		if (n && from < addr + len && addr < from + n &&
		    from != addr + off)
			return true;
	}
	return false;
}

/* -- access -------------------------------------------------------------- */

static const struct rar_piece *find_piece(const struct rar_buf *buf, u64 off)
{
	u32 low = 0, high = buf->npieces - 1, mid;

	while (low < high) {
		mid = (low + high + 1) / 2;
		if (buf->pieces[mid].off <= off)
			low = mid;
		else
			high = mid - 1;
	}
	return &buf->pieces[low];
}

/* Find a piece near the one found last: mostly it is that piece, or the next one. */
static const struct rar_piece *find_near(const struct rar_buf *buf, u64 off, u32 *near)
{
	const struct rar_piece *p = &buf->pieces[*near];

	if (off - p->off >= p->len && *near + 1 < buf->npieces)
		p++;
	if (off - p->off >= p->len)
		p = find_piece(buf, off);
	*near = p - buf->pieces;
	return p;
}

/* The bytes of a piece at @off; see rar_buf_span(). */
static void *piece_span(const struct rar_piece *p, u64 off, u32 want, u32 *len)
{
	u64 at = p->first + (off - p->off), room = PAGE_SIZE - offset_in_page(at);
	struct page **page = p->pages + (at >> PAGE_SHIFT);
	void *addr = page_address(*page) + offset_in_page(at);

	want = min_t(u64, want, p->len - (off - p->off));
	for (; room < want; page++, room += PAGE_SIZE)
		if (page_to_pfn(page[1]) != page_to_pfn(page[0]) + 1)
			break;
	*len = min_t(u64, want, room);
	return addr;
}

/**
 * rar_buf_span() - find the address of a byte
 * @buf:  buffer
 * @off:  the byte, less than the buffer's length
 * @want: bytes wanted, at least 1
 * @len:  set to how many of them lie together there, at least 1
 *
 * Any context.
 *
 * Return: the address.
 */
void *rar_buf_span(const struct rar_buf *buf, u64 off, u32 want, u32 *len)
{
	if (buf->linear) {
		*len = want;
		return buf->linear + off;
	}
	return piece_span(find_piece(buf, off), off, want, len);
}

/**
 * rar_buf_near() - find a byte for a cursor that mostly goes from front to back
 * @buf:  buffer
 * @off:  the byte, less than the buffer's length
 * @near: piece that holds the byte found last; set to the piece of this byte
 * @len:  set to how many bytes lie together there
 *
 * Any context.
 *
 * Return: the address.
 */
void *rar_buf_near(const struct rar_buf *buf, u64 off, u32 *near, u32 *len)
{
	u32 want = min_t(u64, buf->len - off, SZ_64K);

	if (buf->linear)
		return rar_buf_span(buf, off, want, len);
	return piece_span(find_near(buf, off, near), off, want, len);
}

/* Let a packet refer to bytes of a page. Pages of a folio that lie together are one fragment. */
static bool attach_page(struct sk_buff *skb, struct page *page, u32 off, u32 n)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	struct folio *folio = page_folio(page);
	u32 i = shinfo->nr_frags;
	skb_frag_t *last = i ? &shinfo->frags[i - 1] : NULL;

	off += folio_page_idx(folio, page) * PAGE_SIZE;
	page = folio_page(folio, 0);
	if (last && skb_frag_page(last) == page &&
	    skb_frag_off(last) + skb_frag_size(last) == off) {
		skb_frag_size_add(last, n);
	} else {
		if (i == MAX_SKB_FRAGS)
			return false;
		folio_get(folio);
		skb_fill_page_desc(skb, i, page, off, n);
	}
	skb->len += n;
	skb->data_len += n;
	skb->truesize += n;
	return true;
}

/**
 * rar_buf_attach() - let a packet refer to bytes of a buffer
 * @buf: buffer in memory of the kernel: the packet may be read when the buffer is gone
 * @off: first byte
 * @len: bytes, at least 1
 * @skb: packet to append them to; nobody may write to them
 *
 * Any context.
 *
 * Return: false if the bytes are no pages, or lie in too many pieces. The packet may refer to a
 * part of them then.
 */
bool rar_buf_attach(const struct rar_buf *buf, u64 off, u32 len, struct sk_buff *skb)
{
	const struct rar_piece *p;
	u32 near, n;
	u64 at;

	if (buf->linear || WARN_ON_ONCE(buf->pinned))
		return false;
	near = find_piece(buf, off) - buf->pieces;
	for (; len; off += n, len -= n) {
		p = find_near(buf, off, &near);
		at = p->first + (off - p->off);
		n = min_t(u64, PAGE_SIZE - offset_in_page(at), p->len - (off - p->off));
		n = min(n, len);
		if (!attach_page(skb, p->pages[at >> PAGE_SHIFT], offset_in_page(at), n))
			return false;
	}
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	return true;
}

/* Copy out a few bytes, to the stack; see rar_buf_span(). */
void rar_buf_read(const struct rar_buf *buf, u64 off, void *to, u32 len)
{
	const void *from;
	u32 n;

	for (; len; len -= n, off += n, to += n) {
		from = rar_buf_span(buf, off, len, &n);
		memcpy(to, from, n);
	}
}

/* Copy in a few bytes, from the stack. */
void rar_buf_write(const struct rar_buf *buf, u64 off, const void *from,
		   u32 len)
{
	void *to;
	u32 n;

	for (; len; len -= n, off += n, from += n) {
		to = rar_buf_span(buf, off, len, &n);
		memcpy(to, from, n);
	}
}

/*
 * How many of @n bytes at @addr may be copied from or to a user at once? Pages that lie together
 * may be of several folios of the user, which a hardened kernel refuses to copy in one piece.
 */
static u32 usercopy_len(const struct rar_buf *buf, const void *addr, u32 n)
{
	return buf->pinned ? min_t(u32, n, PAGE_SIZE - offset_in_page(addr)) : n;
}

/* Copy in from @iter. Process context; returns 0 or -EFAULT. */
int rar_buf_from_iter(const struct rar_buf *buf, u64 off,
		      struct iov_iter *iter, u64 len)
{
	void *to;
	u32 n;

	for (; len; len -= n, off += n) {
		to = rar_buf_span(buf, off, min_t(u64, len, SZ_1M), &n);
		n = usercopy_len(buf, to, n);
		if (copy_from_iter(to, n, iter) != n)
			return -EFAULT;
		cond_resched();
	}
	return 0;
}

/* Copy out to @iter. Process context; returns how many bytes. */
u64 rar_buf_to_iter(const struct rar_buf *buf, u64 off, struct iov_iter *iter,
		    u64 len)
{
	const void *from;
	u64 done = 0;
	u32 n;

	while (done < len) {
		from = rar_buf_span(buf, off + done,
				    min_t(u64, len - done, SZ_1M), &n);
		n = usercopy_len(buf, from, n);
		if (copy_to_iter(from, n, iter) != n)
			break;
		done += n;
		cond_resched();
	}
	return done;
}

/* Copy all bytes of a buffer to another buffer. Process context. */
void rar_buf_copy(const struct rar_buf *to, const struct rar_buf *from)
{
	u64 off = 0;
	void *dst;
	u32 n;

	for (; off < from->len; off += n) {
		dst = rar_buf_span(to, off, min_t(u64, from->len - off, SZ_1M), &n);
		rar_buf_read(from, off, dst, n);
		cond_resched();
	}
}
