/* SPDX-License-Identifier: GPL-2.0 */
/* Registered regions: user memory that is pinned once and used by many operations. */
#ifndef _RAR_REGION_H
#define _RAR_REGION_H

#include <linux/mutex.h>
#include <linux/types.h>

struct rar_piece;
struct rar_region;

/*
 * struct rar_regions - the regions of a socket
 * @lock: protects this struct
 * @list: struct rar_region
 * @n:    entries of @list
 */
struct rar_regions {
	struct mutex lock;		/* of the list */
	struct list_head list;
	u32 n;
};

void rar_region_init(struct rar_regions *regions);
void rar_region_put(struct rar_region *region);
int rar_region_add(struct rar_regions *regions, u64 addr, u64 len, bool write);
int rar_region_del(struct rar_regions *regions, u64 addr, u64 len);
void rar_region_flush(struct rar_regions *regions);
struct rar_region *rar_region_get(struct rar_regions *regions, u64 addr, u64 len,
				  bool write);
void rar_region_lend(struct rar_region *region, struct rar_piece *p, u64 addr, u64 len);

#endif /* _RAR_REGION_H */
