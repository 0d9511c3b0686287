// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reduction: a table with one record for each key, to which records are reduced.
 *
 * It is an open hash table: a record lies at the place that its hash tells, or at the next free
 * place after it, which may be KEYED_PROBES places further at most. No record leaves. A part
 * of each hash lies in an array of its own, so that places that hold other keys are seldom
 * looked at.
 *
 * The hash multiplies each word of a key by a random number to 128 bits, and folds them, as Wang
 * Yi's wyhash does. It is cheap, but an attacker who learned the random numbers could choose keys
 * that collide. Such keys get no room, which costs a bounded time.
 */
#include "reduce/keyed.h"

#define KEYED_PROBES	128	/* places that a key may be at: the work for a record is bounded */
#define KEYED_TAG	0x80	/* in the tag of each place that is used */
#define KEYED_PRIME	0x9e3779b97f4a7c15ULL

static u64 word_at(const void *p)
{
	u64 word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/**
 * rar_keyed_kind() - find the format of records
 * @kind:  set
 * @key:   bytes of a key, from anywhere
 * @dtype: enum rar_dtype of the values, from anywhere
 * @redop: enum rar_redop, from anywhere
 *
 * Return: false if there are no such records.
 */
bool rar_keyed_kind(struct rar_keyed_kind *kind, u32 key, u8 dtype, u8 redop)
{
	bool wide = dtype == RAR_I64 || dtype == RAR_U64;

	if (key != 8 && key != 16 && key != 32)
		return false;
	if (!wide && dtype != RAR_I32 && dtype != RAR_U32)
		return false;
	if (redop != RAR_SUM && redop != RAR_MIN && redop != RAR_MAX && redop != RAR_BOR)
		return false;
	kind->key = key;
	kind->value = wide ? 8 : 4;
	kind->record = key + kind->value;
	kind->redop = redop;
	kind->is_signed = dtype == RAR_I32 || dtype == RAR_I64;
	return true;
}

/* A value as a number of 64 bits. */
static u64 value_of(const struct rar_keyed_kind *kind, const u8 *record)
{
	u32 narrow;

	if (kind->value == 8)
		return word_at(record + kind->key);
	memcpy(&narrow, record + kind->key, sizeof(narrow));
	return kind->is_signed ? (u64)(s64)(s32)narrow : narrow;
}

static bool less(const struct rar_keyed_kind *kind, u64 a, u64 b)
{
	return kind->is_signed ? (s64)a < (s64)b : a < b;
}

static u64 reduced(const struct rar_keyed_kind *kind, u64 a, u64 b)
{
	switch (kind->redop) {
	case RAR_MIN:
		return less(kind, a, b) ? a : b;
	case RAR_MAX:
		return less(kind, a, b) ? b : a;
	case RAR_BOR:
		return a | b;
	}
	return a + b;
}

/* Reduce a record to the one at @to, which has the same key. Any addresses, any context. */
void rar_keyed_reduce(const struct rar_keyed_kind *kind, u8 *to, const u8 *record)
{
	u64 wide = reduced(kind, value_of(kind, to), value_of(kind, record));
	u32 narrow = wide;

	if (kind->value == 8)
		memcpy(to + kind->key, &wide, sizeof(wide));
	else
		memcpy(to + kind->key, &narrow, sizeof(narrow));
}
EXPORT_SYMBOL_GPL(rar_keyed_reduce);

static __always_inline bool same_key(const u8 *a, const u8 *b, const u32 key)
{
	u64 differ = 0;
	u32 i;

	for (i = 0; i < key; i += sizeof(u64))
		differ |= word_at(a + i) ^ word_at(b + i);
	return !differ;
}

/* Have two records, at any addresses, the same key? */
bool rar_keyed_same(const struct rar_keyed_kind *kind, const void *a, const void *b)
{
	return same_key(a, b, kind->key);
}
EXPORT_SYMBOL_GPL(rar_keyed_same);

static u64 fold(u64 a, u64 b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (u64)product ^ (u64)(product >> 64);
}

/* The first place that a key may be at. */
static u64 home(const struct rar_keyed_table *t, u32 hash)
{
	return hash * t->slots >> 32;
}

static u8 *at(const struct rar_keyed_table *t, u64 slot)
{
	return t->records + slot * t->kind.record;
}

/**
 * rar_keyed_hash() - the hash of a record's key
 * @t:      table
 * @record: any address
 *
 * Any context.
 */
u32 rar_keyed_hash(const struct rar_keyed_table *t, const void *record)
{
	u64 hash = t->seed[0];
	const u8 *key = record;
	u32 i;

	for (i = 0; i < t->kind.key; i += sizeof(u64))
		hash = fold(hash ^ word_at(key + i), t->seed[1]);
	return fold(hash, KEYED_PRIME) >> 32;
}
EXPORT_SYMBOL_GPL(rar_keyed_hash);

/**
 * rar_keyed_prefetch() - have the memory ready that rar_keyed_add() will look at
 * @t:    table
 * @hash: of the record's key
 */
void rar_keyed_prefetch(const struct rar_keyed_table *t, u32 hash)
{
	u64 slot = home(t, hash);

	prefetchw(t->tags + slot);
	prefetchw(at(t, slot));
}

/* May another key have a place? A table that is fuller has long chains. */
static bool has_room(const struct rar_keyed_table *t)
{
	return t->used < t->slots - t->slots / 8;
}

/* rar_keyed_add() for keys of @key bytes. */
static __always_inline bool add(struct rar_keyed_table *t, u32 hash, const u8 *record,
				const u32 key)
{
	u8 tag = KEYED_TAG | hash;
	u64 slot = home(t, hash);
	u32 i;

	for (i = 0; i < KEYED_PROBES; i++) {
		if (!t->tags[slot]) {
			if (!has_room(t))
				return false;
			t->tags[slot] = tag;
			memcpy(at(t, slot), record, t->kind.record);
			t->used++;
			return true;
		}
		if (t->tags[slot] == tag && same_key(at(t, slot), record, key)) {
			rar_keyed_reduce(&t->kind, at(t, slot), record);
			return true;
		}
		if (++slot == t->slots)
			slot = 0;
	}
	return false;
}

/**
 * rar_keyed_add() - reduce a record to the one with the same key, or give it a place
 * @t:      table; one caller at a time
 * @hash:   of its key
 * @record: any address
 *
 * Any context. Looks at KEYED_PROBES places at most.
 *
 * Return: false if the key is not in the table, and there is no room for it. Then nothing has
 * changed.
 */
bool rar_keyed_add(struct rar_keyed_table *t, u32 hash, const void *record)
{
	switch (t->kind.key) {
	case 8:
		return add(t, hash, record, 8);
	case 16:
		return add(t, hash, record, 16);
	}
	return add(t, hash, record, 32);
}

/**
 * rar_keyed_next() - find the next record, by place
 * @t:    table that does not change any more
 * @slot: where to begin; set to where the record lies
 *
 * Return: the record, or NULL if there is none.
 */
const void *rar_keyed_next(const struct rar_keyed_table *t, u64 *slot)
{
	for (; *slot < t->slots; ++*slot)
		if (t->tags[*slot])
			return at(t, *slot);
	return NULL;
}
