/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_REDUCE_KEYED_H
#define _RAR_REDUCE_KEYED_H

#ifdef __KERNEL__
#include <linux/prefetch.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif
#include <linux/rar.h>

#define RAR_KEYED_KEY_MAX	32
#define RAR_KEYED_RECORD_MAX	(RAR_KEYED_KEY_MAX + 8)

/**
 * struct rar_keyed_kind - the format of records, and how their values are reduced
 * @key:    bytes of a key: 8, 16 or 32
 * @value:  bytes of a value, an integer that follows the key: 4 or 8
 * @record: bytes of both
 * @redop:  RAR_SUM, RAR_MIN, RAR_MAX or RAR_BOR
 * @is_signed: of the values
 */
struct rar_keyed_kind {
	u8 key;
	u8 value;
	u8 record;
	u8 redop;
	bool is_signed;
};

/**
 * struct rar_keyed_table - one record for each key, an open hash table
 * @kind:    of the records
 * @seed:    random, so that keys that collide in one table do not in another
 * @slots:   places for records, 1 .. RAR_KEYED_SLOTS_MAX
 * @used:    places that hold a record
 * @tags:    by place: 0, or a part of the hash of its key that is not 0
 * @records: by place
 */
struct rar_keyed_table {
	struct rar_keyed_kind kind;
	u64 seed[2];
	u64 slots;
	u64 used;
	u8 *tags;
	u8 *records;
};

#define RAR_KEYED_SLOTS_MAX	((u64)U32_MAX)

bool rar_keyed_kind(struct rar_keyed_kind *kind, u32 key, u8 dtype, u8 redop);
void rar_keyed_reduce(const struct rar_keyed_kind *kind, u8 *to, const u8 *record);
bool rar_keyed_same(const struct rar_keyed_kind *kind, const void *a, const void *b);
u32 rar_keyed_hash(const struct rar_keyed_table *t, const void *record);
void rar_keyed_prefetch(const struct rar_keyed_table *t, u32 hash);
bool rar_keyed_add(struct rar_keyed_table *t, u32 hash, const void *record);
const void *rar_keyed_next(const struct rar_keyed_table *t, u64 *slot);

#endif /* _RAR_REDUCE_KEYED_H */
