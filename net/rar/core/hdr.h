/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data headers of a run, as eight words each: all follow from the first one.
 *
 * A header is checked and written as whole words. To write its fields one by one and then to
 * read them as words costs more than the rest of the work, because the processor cannot
 * forward several small stores to one large load. Pure code; selftests/host also builds it.
 */
#ifndef _RAR_CORE_HDR_H
#define _RAR_CORE_HDR_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <asm/byteorder.h>
#else
#include "shim.h"
#endif
#include <linux/rar_wire.h>

#define RAR_HDR_WORDS	(sizeof(struct rar_data_hdr) / sizeof(__be64))

/* The header of a chunk, at any address. */
struct rar_hdr_words {
	__be64 w[RAR_HDR_WORDS];
} __packed __aligned(1);

static_assert(offsetof(struct rar_data_hdr, h.len) == 6);
static_assert(offsetof(struct rar_data_hdr, seq) == 3 * sizeof(u64));
static_assert(offsetof(struct rar_data_hdr, chunk) == 6 * sizeof(u64));
static_assert(offsetof(struct rar_data_hdr, flags) == 7 * sizeof(u64) + 3);
static_assert(sizeof(struct rar_data_hdr) == 8 * sizeof(u64));

/* RAR_F_* in the last word. */
static __always_inline __be64 rar_hdr_flags(u8 flags)
{
	return cpu_to_be64((u64)flags << 32);
}

#define RAR_HDR_ACK_NOW	rar_hdr_flags(RAR_F_ACK_NOW)

/* The word @k of the header of chunk @i of a run, with @len bytes of payload. */
static __always_inline __be64 rar_hdr_word(const struct rar_hdr_words *first, u32 k, u32 i,
					   u32 len)
{
	u64 word = be64_to_cpu(first->w[k]);

	if (k == 0)
		return cpu_to_be64((word & ~0xffffULL) | (sizeof(struct rar_data_hdr) -
							   sizeof(struct rar_hdr) + len));
	if (k == 3 || k == 6)
		return cpu_to_be64(word + ((u64)i << 32));
	return first->w[k];
}

/*
 * Write the header of chunk @i of a run, with @len bytes of payload, to @hdr. @first is the
 * header of chunk 0; only its length may differ from what it will be.
 */
static __always_inline void rar_hdr_nth(const struct rar_hdr_words *first, u32 i, u32 len,
					struct rar_hdr_words *hdr)
{
	hdr->w[0] = rar_hdr_word(first, 0, i, len);
	hdr->w[1] = rar_hdr_word(first, 1, i, len);
	hdr->w[2] = rar_hdr_word(first, 2, i, len);
	hdr->w[3] = rar_hdr_word(first, 3, i, len);
	hdr->w[4] = rar_hdr_word(first, 4, i, len);
	hdr->w[5] = rar_hdr_word(first, 5, i, len);
	hdr->w[6] = rar_hdr_word(first, 6, i, len);
	hdr->w[7] = rar_hdr_word(first, 7, i, len);
}

/*
 * Is @hdr what rar_hdr_nth() writes, but that it may ask for an acknowledgment
 * or not? @numbered: each chunk has a number of its own.
 */
static __always_inline bool rar_hdr_is_nth(const struct rar_hdr_words *first,
					   u32 i, u32 len, bool numbered,
					   const struct rar_hdr_words *hdr)
{
	__be64 differ = (rar_hdr_word(first, 7, i, len) ^ hdr->w[7]) & ~RAR_HDR_ACK_NOW;

	differ |= rar_hdr_word(first, 0, i, len) ^ hdr->w[0];
	differ |= rar_hdr_word(first, 1, i, len) ^ hdr->w[1];
	differ |= rar_hdr_word(first, 2, i, len) ^ hdr->w[2];
	differ |= rar_hdr_word(first, 3, numbered ? i : 0, len) ^ hdr->w[3];
	differ |= rar_hdr_word(first, 4, i, len) ^ hdr->w[4];
	differ |= rar_hdr_word(first, 5, i, len) ^ hdr->w[5];
	differ |= rar_hdr_word(first, 6, i, len) ^ hdr->w[6];
	return !differ;
}

/* Does the chunk ask for an acknowledgment without delay? */
static inline bool rar_hdr_ack_now(const struct rar_hdr_words *hdr)
{
	return hdr->w[7] & RAR_HDR_ACK_NOW;
}

#endif /* _RAR_CORE_HDR_H */
