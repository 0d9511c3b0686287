/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transmissions of a link: one entry for each run, although each of its chunks has a number.
 * All under tx_lock.
 */
#ifndef _RAR_SENT_H
#define _RAR_SENT_H

#include <linux/bitmap.h>

#include "core/op.h"
#include "rar.h"

static inline void rar_sent_clear(unsigned long *map, u32 seq, u32 n)
{
	u32 slot = seq % RAR_TX_SLOTS, k = min(n, RAR_TX_SLOTS - slot);

	rar_bits_clear(map, slot, rar_mask(k));
	if (k < n)
		rar_bits_clear(map, 0, rar_mask(n - k));
}

/* Note a run, whose chunks have the numbers from tx->next_seq on. There is room. */
static inline void rar_sent_note(struct rar_link_tx *tx, const struct rar_sent *run)
{
	u32 slot = tx->next_seq % RAR_TX_SLOTS;

	tx->sent[slot] = *run;
	rar_sent_clear(tx->resolved, tx->next_seq, run->n);
	rar_sent_clear(tx->heads, tx->next_seq, run->n);
	__set_bit(slot, tx->heads);
	tx->next_seq += run->n;
}

/* The run of a number in [una, next_seq). Sets @i to the place of its chunk in the run. */
static inline const struct rar_sent *rar_sent_find(const struct rar_link_tx *tx, u32 seq, u32 *i)
{
	u32 slot = seq % RAR_TX_SLOTS, head = find_last_bit(tx->heads, slot + 1);

	/* A run may begin at the end of the slots. */
	if (head > slot)
		head = find_last_bit(tx->heads, RAR_TX_SLOTS);
	*i = (slot - head) % RAR_TX_SLOTS;
	return &tx->sent[head];
}

/* How many numbers are free? Those of a run that is not settled in full are not. */
static inline u32 rar_sent_room(const struct rar_link_tx *tx)
{
	u32 used = tx->next_seq - tx->una, i = 0;

	if (used)
		rar_sent_find(tx, tx->una, &i);
	return RAR_TX_SLOTS - used - i;
}

/* Did a chunk fill a payload, in a packet with a header for each chunk? */
static inline bool rar_sent_full(const struct rar_sent *run, u32 i)
{
	return !run->whole && (i + 1 < run->n || run->last_full);
}

#endif /* _RAR_SENT_H */
