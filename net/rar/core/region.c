// SPDX-License-Identifier: GPL-2.0
/*
 * Registered regions: memory of the user that is pinned once (RAR_REG) instead of by each
 * operation. An operation in a region borrows its pages. Owns struct rar_region.
 *
 * The user may put other pages in the place of those that are pinned (munmap(), mremap(),
 * madvise(), a hole in a file). A notifier tells when that may have happened. From then on an
 * operation that begins in the region compares its own pages with those that are there now, and if
 * they differ it is pinned like any other.
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "core/buf.h"
#include "core/region.h"

#define REGION_MAX	1024	/* per socket; each operation looks through them */
#define REGION_LOOK	16	/* pages that are compared at a time */

/*
 * struct rar_region - pinned memory
 * @node: in the list of its socket
 * @ref:  one for the list, one per piece of an operation that lies in the region
 * @mm:   the address space of @addr; it may be gone, and is only compared
 * @addr: where that process sees the memory
 * @moved: other pages may be there now; never cleared
 * @notifier: of @mm, while @watched
 * @buf:  a single piece
 */
struct rar_region {
	struct list_head node;
	refcount_t ref;
	struct mm_struct *mm;
	u64 addr;
	bool moved;
	bool watched;
#ifdef CONFIG_MMU_NOTIFIER
	struct mmu_interval_notifier notifier;
#endif
	struct rar_buf buf;
};

/* -- pages that the user replaces ------------------------------------------ */

#ifdef CONFIG_MMU_NOTIFIER
/* Other rights leave pages where they are. A page that is copied for a writer is told of then. */
static bool invalidate(struct mmu_interval_notifier *notifier,
		       const struct mmu_notifier_range *range, unsigned long seq)
{
	struct rar_region *region = container_of(notifier, struct rar_region, notifier);

	mmu_interval_set_seq(notifier, seq);
	if (range->event != MMU_NOTIFY_PROTECTION_VMA &&
	    range->event != MMU_NOTIFY_PROTECTION_PAGE &&
	    range->event != MMU_NOTIFY_SOFT_DIRTY)
		WRITE_ONCE(region->moved, true);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_ops = { .invalidate = invalidate };

static int watch(struct rar_region *region, u64 len)
{
	int err = mmu_interval_notifier_insert(&region->notifier, region->mm, region->addr, len,
					       &notifier_ops);

	region->watched = !err;
	if (err == -EOVERFLOW)
		return -EFAULT;		/* the memory goes beyond the last address */
	return err ? -ENOMEM : 0;
}

static void unwatch(struct rar_region *region)
{
	if (region->watched)
		mmu_interval_notifier_remove(&region->notifier);
	region->watched = false;
}
#else
/* Nobody tells, so each operation looks. */
static int watch(struct rar_region *region, u64 len)
{
	region->moved = true;
	return 0;
}

static void unwatch(struct rar_region *region) { }
#endif

/* Are @n pages at @addr those at @pages? */
static bool same_pages(u64 addr, struct page *const *pages, int n, unsigned int flags)
{
	struct page *now[REGION_LOOK];
	int got = get_user_pages_fast(addr, n, flags, now), i;
	bool same = got == n;

	for (i = 0; i < got; i++) {
		same &= now[i] == pages[i];
		put_page(now[i]);
	}
	return same;
}

/* Are the pinned pages of @len bytes at @addr still those that the caller sees? */
static bool still_there(const struct rar_region *region, u64 addr, u64 len)
{
	const struct rar_piece *all = &region->buf.pieces[0];
	u64 first = (all->first + (addr - region->addr)) >> PAGE_SHIFT;
	u64 n = DIV_ROUND_UP(offset_in_page(addr) + len, PAGE_SIZE), i;
	unsigned int flags = region->buf.write ? FOLL_WRITE : 0;

	for (i = 0; i < n; i += REGION_LOOK) {
		if (!same_pages((addr & PAGE_MASK) + i * PAGE_SIZE, all->pages + first + i,
				min_t(u64, n - i, REGION_LOOK), flags))
			return false;
		cond_resched();
	}
	return true;
}

/* -- regions --------------------------------------------------------------- */

void rar_region_init(struct rar_regions *regions)
{
	mutex_init(&regions->lock);
	INIT_LIST_HEAD(&regions->list);
	regions->n = 0;
}

static void region_free(struct rar_region *region)
{
	unwatch(region);
	rar_buf_free(&region->buf);
	mmdrop(region->mm);
	kfree(region);
}

/**
 * rar_region_put() - give back a reference from rar_region_get()
 * @region: region
 *
 * Process context: the last put unpins the pages.
 */
void rar_region_put(struct rar_region *region)
{
	if (refcount_dec_and_test(&region->ref))
		region_free(region);
}

/* Is any byte of the region also one of the caller's @len bytes at @addr? */
static bool overlaps(const struct rar_region *region, u64 addr, u64 len)
{
	return region->mm == current->mm && addr < region->addr + region->buf.len &&
	       region->addr < addr + len;
}

static int region_insert(struct rar_regions *regions, struct rar_region *region)
{
	struct rar_region *other;

	lockdep_assert_held(&regions->lock);
	if (regions->n == REGION_MAX)
		return -ENOBUFS;
	list_for_each_entry(other, &regions->list, node)
		if (overlaps(other, region->addr, region->buf.len))
			return -EEXIST;
	list_add(&region->node, &regions->list);
	WRITE_ONCE(regions->n, regions->n + 1);
	return 0;
}

/**
 * rar_region_add() - pin memory of the caller until rar_region_del()
 * @regions: regions of the socket
 * @addr:    start, as the user sees it
 * @len:     bytes, not 0
 * @write:   operations may write to it
 *
 * Process context.
 *
 * Return: 0; -EEXIST if part of it is registered; -ENOBUFS if there are too many regions; or
 * as rar_buf_pin().
 */
int rar_region_add(struct rar_regions *regions, u64 addr, u64 len, bool write)
{
	struct rar_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	int err;

	if (!region)
		return -ENOMEM;
	refcount_set(&region->ref, 1);
	region->addr = addr;
	region->mm = current->mm;
	mmgrab(region->mm);
	region->buf.pinned = true;
	region->buf.kept = true;
	region->buf.write = write;
	/* Before the pages are pinned, so that no change is missed. */
	err = watch(region, len);
	if (!err)
		err = rar_buf_pin(&region->buf, NULL, addr, len);
	if (!err) {
		mutex_lock(&regions->lock);
		err = region_insert(regions, region);
		mutex_unlock(&regions->lock);
	}
	if (err)
		region_free(region);
	return err;
}

static void region_unlink(struct rar_regions *regions, struct rar_region *region)
{
	list_del(&region->node);
	WRITE_ONCE(regions->n, regions->n - 1);
	unwatch(region);
	rar_region_put(region);
}

/**
 * rar_region_del() - undo rar_region_add()
 * @regions: regions of the socket
 * @addr:    as in rar_region_add()
 * @len:     as in rar_region_add()
 *
 * Process context. Pages that operations have borrowed stay pinned until they are given back.
 *
 * Return: 0, or -ENOENT if the caller has no such region.
 */
int rar_region_del(struct rar_regions *regions, u64 addr, u64 len)
{
	struct rar_region *region;
	int err = -ENOENT;

	mutex_lock(&regions->lock);
	list_for_each_entry(region, &regions->list, node)
		if (region->mm == current->mm && region->addr == addr &&
		    region->buf.len == len) {
			region_unlink(regions, region);
			err = 0;
			break;
		}
	mutex_unlock(&regions->lock);
	return err;
}

/* Drop all regions of a socket that is closed. Process context. */
void rar_region_flush(struct rar_regions *regions)
{
	struct rar_region *region, *next;

	mutex_lock(&regions->lock);
	list_for_each_entry_safe(region, next, &regions->list, node)
		region_unlink(regions, region);
	mutex_unlock(&regions->lock);
}

/**
 * rar_region_get() - find the region whose pages memory of the caller lies in
 * @regions: regions of the socket
 * @addr:    start, as the user sees it
 * @len:     bytes, all of which must be in the region
 * @write:   they will be written to
 *
 * Process context.
 *
 * Return: the region with a reference; NULL also if other pages are there now.
 */
struct rar_region *rar_region_get(struct rar_regions *regions, u64 addr, u64 len,
				  bool write)
{
	struct rar_region *region, *found = NULL;

	if (!READ_ONCE(regions->n))
		return NULL;
	mutex_lock(&regions->lock);
	list_for_each_entry(region, &regions->list, node)
		if (region->mm == current->mm && addr >= region->addr &&
		    len <= region->buf.len && addr - region->addr <= region->buf.len - len &&
		    (region->buf.write || !write)) {
			refcount_inc(&region->ref);
			found = region;
			break;
		}
	mutex_unlock(&regions->lock);
	if (found && READ_ONCE(found->moved) && !still_there(found, addr, len)) {
		rar_region_put(found);
		found = NULL;
	}
	return found;
}

/**
 * rar_region_lend() - make a piece of a region's pages
 * @region: from rar_region_get(); the reference passes to the piece
 * @p:      piece to fill; its place in the tensor is set
 * @addr:   as in rar_region_get()
 * @len:    as in rar_region_get()
 */
void rar_region_lend(struct rar_region *region, struct rar_piece *p, u64 addr, u64 len)
{
	const struct rar_piece *all = &region->buf.pieces[0];
	u64 at = all->first + (addr - region->addr);

	p->pages = all->pages + (at >> PAGE_SHIFT);
	p->first = offset_in_page(at);
	p->len = len;
	p->region = region;
}
