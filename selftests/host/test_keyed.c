// SPDX-License-Identifier: GPL-2.0
/*
 * The table of keyed reductions: random records against a plain array, for every kind of record;
 * full tables, and keys that collide.
 */
#include "reduce/keyed.h"
#include "tap.h"

#define KEYS	400u

static u64 state;

static u64 next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A key's number is in its last word, so that a comparison of a part of the key does not do. */
static void put(const struct rar_keyed_kind *k, u8 *record, u64 key, u64 value)
{
	memset(record, 0, k->key);
	memcpy(record + k->key - 8, &key, 8);
	memcpy(record + k->key, &value, k->value);
}

static u64 get(const struct rar_keyed_kind *k, const u8 *record)
{
	u64 value = 0;

	memcpy(&value, record + k->key, k->value);
	return value;
}

/* Of 4-byte values only the low half counts. */
static u64 reduced(u8 dtype, u8 redop, u64 a, u64 b)
{
	s64 x = dtype == RAR_I32 ? (s32)a : (s64)a, y = dtype == RAR_I32 ? (s32)b : (s64)b;
	bool is_signed = dtype == RAR_I32 || dtype == RAR_I64, less;

	if (dtype == RAR_U32) {
		a = (u32)a;
		b = (u32)b;
	}
	less = is_signed ? x < y : a < b;
	switch (redop) {
	case RAR_SUM:
		return a + b;
	case RAR_MIN:
		return less ? a : b;
	case RAR_MAX:
		return less ? b : a;
	}
	return a | b;
}

static struct rar_keyed_table table(u32 key, u8 dtype, u8 redop, u64 slots)
{
	struct rar_keyed_table t = { .slots = slots, .seed = { next_random(), next_random() | 1 } };

	if (!rar_keyed_kind(&t.kind, key, dtype, redop))
		abort();
	t.tags = calloc(slots, 1);
	t.records = calloc(slots, t.kind.record);
	return t;
}

static void drop(struct rar_keyed_table *t)
{
	free(t->tags);
	free(t->records);
}

static bool add(struct rar_keyed_table *t, const u8 *record)
{
	u32 hash = rar_keyed_hash(t, record);

	rar_keyed_prefetch(t, hash);
	return rar_keyed_add(t, hash, record);
}

/* Is the table what the array says? Every key once, no other. */
static bool same(const struct rar_keyed_table *t, const u64 *want, const bool *there)
{
	u64 mask = t->kind.value == 8 ? ~0ULL : ~0U, slot, key, found = 0, keys = 0;
	const u8 *record;

	for (slot = 0; (record = rar_keyed_next(t, &slot)); slot++) {
		memcpy(&key, record + t->kind.key - 8, 8);
		if (key >= KEYS || !there[key] || get(&t->kind, record) != (want[key] & mask))
			return false;
		found++;
	}
	for (key = 0; key < KEYS; key++)
		keys += there[key];
	return found == keys && found == t->used;
}

/* Random records of one kind. @slots: enough, or not enough for all keys. */
static bool random_records(u32 key, u8 dtype, u8 redop, u64 slots)
{
	struct rar_keyed_table t = table(key, dtype, redop, slots);
	u64 want[KEYS] = {}, number, value;
	bool there[KEYS] = {}, ok = true;
	u8 record[RAR_KEYED_RECORD_MAX];
	u32 i;

	for (i = 0; i < 20000 && ok; i++) {
		number = next_random() % KEYS;
		value = next_random() >> next_random() % 64;
		put(&t.kind, record, number, value);
		if (add(&t, record)) {
			want[number] = there[number] ?
				reduced(dtype, redop, want[number], value) : value;
			there[number] = true;
		} else {
			/* Only an unknown key has no room, and only in a table that is quite full. */
			ok = !there[number] && slots < KEYS && t.used >= slots / 2;
		}
	}
	ok = ok && same(&t, want, there) && t.used <= slots - slots / 8;
	drop(&t);
	return ok;
}

static void every_kind(u64 slots)
{
	static const u8 dtypes[] = { RAR_I32, RAR_U32, RAR_I64, RAR_U64 };
	static const u8 redops[] = { RAR_SUM, RAR_MIN, RAR_MAX, RAR_BOR };
	u32 key, d, r, bad = 0;

	for (key = 8; key <= 32; key *= 2)
		for (d = 0; d < 4; d++)
			for (r = 0; r < 4; r++)
				bad += !random_records(key, dtypes[d], redops[r], slots);
	tap_ok(!bad, "48 kinds of records, %llu slots: %u wrong", (unsigned long long)slots, bad);
}

/* Which kinds there are, of all that may come from anywhere. */
static void kinds(void)
{
	struct rar_keyed_kind k;
	u32 key, d, r, n = 0, bad = 0;

	for (key = 0; key < 70; key++)
		for (d = 0; d < 256; d++)
			for (r = 0; r < 256; r++) {
				if (!rar_keyed_kind(&k, key, d, r))
					continue;
				n++;
				bad += k.key != key || k.record != k.key + k.value ||
				       k.record > RAR_KEYED_RECORD_MAX;
			}
	tap_ok(n == 48 && !bad, "there are 48 kinds: %u, %u wrong", n, bad);
}

/* Keys that all have the same hash: some are found, the others are refused, no call loops. */
static void collide(void)
{
	struct rar_keyed_table t = table(8, RAR_U64, RAR_SUM, 1000);
	u8 record[RAR_KEYED_RECORD_MAX];
	u32 i, taken = 0, again = 0;

	t.seed[1] = 0;		/* a product with zero */
	for (i = 0; i < KEYS; i++) {
		put(&t.kind, record, i, 1);
		taken += add(&t, record);
	}
	for (i = 0; i < KEYS; i++) {
		put(&t.kind, record, i, 1);
		again += add(&t, record);
	}
	tap_ok(taken == 128 && again == 128 && t.used == 128,
	       "keys that collide: %u of %u are taken", taken, KEYS);
	drop(&t);
}

int main(void)
{
	const char *seed = getenv("SEED");

	tap_begin();
	state = (seed ? strtoull(seed, NULL, 0) : 1) * 0x9e3779b97f4a7c15ULL | 1;
	kinds();
	every_kind(1000);
	every_kind(KEYS * 3 / 2);
	every_kind(100);
	every_kind(1);
	collide();
	return tap_end();
}
