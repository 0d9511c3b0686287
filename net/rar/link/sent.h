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

/* The slot of a number, on a link that has slots. */
static inline u32 rar_sent_slot(const struct rar_link_tx *tx, u32 seq)
{
	return seq & (tx->nslots - 1);
}

/* Clear @n bits of a map of slots, from the slot of @seq on. */
static inline void rar_sent_clear(const struct rar_link_tx *tx,
				  unsigned long *map, u32 seq, u32 n)
{
	u32 slot = rar_sent_slot(tx, seq), k = min(n, tx->nslots - slot);

	rar_bits_clear(map, slot, rar_mask(k));
	if (k < n)
		rar_bits_clear(map, 0, rar_mask(n - k));
}

/* Note a run, whose chunks have the numbers from tx->next_seq on. There is room. */
static inline void rar_sent_note(struct rar_link_tx *tx, const struct rar_sent *run)
{
	u32 slot = rar_sent_slot(tx, tx->next_seq);

	tx->sent[slot] = *run;
	rar_sent_clear(tx, tx->resolved, tx->next_seq, run->n);
	rar_sent_clear(tx, tx->heads, tx->next_seq, run->n);
	__set_bit(slot, tx->heads);
	tx->next_seq += run->n;
}

/* The run of a number in [una, next_seq). Sets @i to the place of its chunk in the run. */
static inline const struct rar_sent *rar_sent_find(const struct rar_link_tx *tx, u32 seq, u32 *i)
{
	u32 slot = rar_sent_slot(tx, seq),
	    head = find_last_bit(tx->heads, slot + 1);

	/* A run may begin at the end of the slots. */
	if (head > slot)
		head = find_last_bit(tx->heads, tx->nslots);
	*i = rar_sent_slot(tx, slot - head);
	return &tx->sent[head];
}

/* How many numbers are free? Those of a run that is not settled in full are not. */
static inline u32 rar_sent_room(const struct rar_link_tx *tx)
{
	u32 used = tx->next_seq - tx->una, i = 0;

	if (used)
		rar_sent_find(tx, tx->una, &i);
	return tx->nslots - used - i;
}

/* Copy the runs in flight to @to, which has more slots, all of them empty. */
static inline void rar_sent_move(struct rar_link_tx *to,
				 const struct rar_link_tx *from)
{
	u32 seq = from->una, i = 0;
	const struct rar_sent *run;

	if (seq != from->next_seq)
		rar_sent_find(from, seq, &i);
	for (seq -= i; seq != from->next_seq; seq += run->n) {
		run = &from->sent[rar_sent_slot(from, seq)];
		to->sent[rar_sent_slot(to, seq)] = *run;
		__set_bit(rar_sent_slot(to, seq), to->heads);
		for (i = 0; i < run->n; i++)
			if (test_bit(rar_sent_slot(from, seq + i),
				     from->resolved))
				__set_bit(rar_sent_slot(to, seq + i),
					  to->resolved);
	}
}

/* Did a chunk fill a payload, in a packet with a header for each chunk? */
static inline bool rar_sent_full(const struct rar_sent *run, u32 i)
{
	return !run->whole && (i + 1 < run->n || run->last_full);
}

#endif /* _RAR_SENT_H */
