// SPDX-License-Identifier: GPL-2.0
/* The memory of a keyed reduction. */
#include <linux/bitfield.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "core/keyed.h"
#include "core/op.h"

#define KEYED_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | __GFP_ZERO)
#define STREAM_BYTES	SZ_256K		/* the buffer of a stream, */
#define KEYED_OVER_MIN	64ULL
#define STREAM_MIN	8		/* unless chunks are so long that it has fewer of them */

/**
 * rar_keyed_of() - find the format of an operation's records
 * @kind:        set
 * @fingerprint: of the operation, from anywhere
 *
 * Return: false if there are no such records.
 */
bool rar_keyed_of(struct rar_keyed_kind *kind, const struct rar_fingerprint *fingerprint)
{
	u32 code = FIELD_GET(RAR_MODE_KEY, fingerprint->mode);

	return code && !(fingerprint->mode & ~RAR_MODE_KEY) &&
	       rar_keyed_kind(kind, 4 << code, fingerprint->dtype,
			      fingerprint->redop);
}
EXPORT_SYMBOL_GPL(rar_keyed_of);

/* Chunks that the buffer of a stream has room for. */
u32 rar_keyed_window(u32 chunk)
{
	return clamp_t(u32, STREAM_BYTES / chunk, STREAM_MIN, RAR_STREAM_CHUNKS);
}

/*
 * The number of records that may wait for recv(), because they have no room in the table. A chunk
 * is refused unless all of its records could wait. Each CPU may be reducing a chunk whose records
 * are not counted yet, and a box may have sent a batch.
 */
static u64 nover(const struct rar_keyed_kind *kind, u64 slots, u32 payload, bool box)
{
	return max3(slots / 8, (num_possible_cpus() + 4ULL) * (payload / kind->record),
		    KEYED_OVER_MIN) + (box ? 2 * rar_keyed_batch_max(kind, payload) : 0);
}

/**
 * rar_keyed_room() - the memory that the root needs
 * @kind:    of the records
 * @slots:   records that it has room for
 * @payload: bytes that a packet carries
 * @box:     records may come by a box
 *
 * Return: bytes.
 */
u64 rar_keyed_room(const struct rar_keyed_kind *kind, u64 slots, u32 payload, bool box)
{
	return slots * (kind->record + 1ULL) + (nover(kind, slots, payload, box) +
		(box ? rar_keyed_batch_max(kind, payload) : 0)) * kind->record;
}

static struct rar_keyed_root *root_alloc(const struct rar_keyed_kind *kind, u64 slots,
					 u32 payload, u32 size, bool box)
{
	struct rar_keyed_root *root = kvzalloc(sizeof(*root), KEYED_GFP);
	struct rar_keyed_table *t;

	if (!root)
		return NULL;
	spin_lock_init(&root->lock);
	t = &root->table;
	t->kind = *kind;
	t->slots = slots;
	get_random_bytes(t->seed, sizeof(t->seed));
	t->seed[1] |= 1;
	t->tags = kvmalloc(slots, KEYED_GFP);
	t->records = kvmalloc_array(slots, kind->record, KEYED_GFP);
	root->nover = nover(kind, slots, payload, box);
	root->over = kvmalloc_array(root->nover, kind->record, KEYED_GFP);
	if (box)
		root->batch.records = kvmalloc_array(rar_keyed_batch_max(kind, payload),
						     kind->record, KEYED_GFP);
	root->open = size;
	return root;
}

static void root_free(struct rar_keyed_root *root)
{
	if (!root)
		return;
	kvfree(root->table.tags);
	kvfree(root->table.records);
	kvfree(root->over);
	kvfree(root->batch.records);
	kvfree(root);
}

static bool alloc_side(struct rar_keyed *k, u64 slots, u32 payload, u32 size, bool box)
{
	if (k->is_root) {
		k->root = root_alloc(&k->kind, slots, payload, size, box);
		return k->root && k->root->table.tags && k->root->table.records && k->root->over &&
		       (!box || k->root->batch.records);
	}
	k->stream = kzalloc(sizeof(*k->stream), KEYED_GFP);
	if (k->stream)
		k->stream->window = rar_keyed_window(k->chunk);
	return k->stream;
}

/**
 * rar_keyed_alloc() - allocate the state of a keyed reduction, besides its buffer
 * @fingerprint: of a keyed reduction
 * @payload:     bytes that a packet carries
 * @size:        ranks
 * @is_root:     for the root, which also gets memory for records
 * @box:         records may come by a box
 *
 * Process context. The caller has charged the user for rar_keyed_room().
 *
 * Return: NULL if there is no memory.
 */
struct rar_keyed *rar_keyed_alloc(const struct rar_fingerprint *fingerprint, u32 payload,
				  u32 size, bool is_root, bool box)
{
	struct rar_keyed *k = kzalloc(sizeof(*k), KEYED_GFP);

	if (!k)
		return NULL;
	rar_keyed_of(&k->kind, fingerprint);
	k->chunk = rar_keyed_chunk(&k->kind, payload);
	k->is_root = is_root;
	if (alloc_side(k, fingerprint->count, payload, size, box))
		return k;
	rar_keyed_free(k);
	return NULL;
}

/* Free it, or do nothing with NULL. Process context, or softirq. */
void rar_keyed_free(struct rar_keyed *k)
{
	if (!k)
		return;
	if (k->is_root)
		root_free(k->root);
	else
		kfree(k->stream);
	kfree(k);
}
