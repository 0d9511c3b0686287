/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Conversions between the numbers of a user and the numbers that the ranks add.
 *
 * WIDE: 16-bit floats become f32 and are rounded once, to nearest even, on their way back. f16
 * and bf16 have no number that f32 lacks. A NaN keeps its upper bits; it is quiet on its way
 * back.
 *
 * EXACT: f32 become 64-bit integers, whose sums do not depend on the order. A tensor is cut
 * into blocks of RAR_EXACT_BLOCK elements. Let e be the largest biased exponent of the finite
 * elements of a block, over all ranks; subnormals have the exponent 1. The ranks agree on e
 * first, and count in units of
 *
 *	q = 2^(e - 176)			n = x / q, rounded to an integer
 *
 * Every |x| is below 2^(e - 126), so |n| is at most 2^50, and a sum over 4096 ranks is at most
 * 2^62: no order of additions overflows. An element of at least 2^(e - 153), or 0, is a
 * multiple of q. If all contributions to a sum are, the result is the exact sum, rounded once.
 * Any other contribution adds an error of at most q / 2 before that.
 *
 * In a block with an infinity or a NaN of any rank the unit is 2^26 times larger, and the
 * lowest 26 bits count: 13 bits +infinity, 13 bits -infinity. A NaN counts as both, and
 * as both it comes back, negative. A sum of zero is +0.
 *
 * QUANT: f32 become 32-bit integers, in blocks as above. With N ranks b = 30 - ceil(log2(N)) bits
 * are left for each:
 *
 *	q = 2^(e - 126 - b)		n = x / q, rounded to an integer, a tie to even
 *
 * |n| is at most 2^b, so a sum is at most 2^30. Each contribution adds an error of at most q / 2,
 * and the sum is rounded once. In a block with an infinity or a NaN of any rank the unit is
 * 2^(31 - b) times larger, and the lowest 31 - b bits count the ranks whose element is infinite or
 * a NaN: if any is, the sum is a NaN. A sum of zero is +0.
 *
 * Pure code; selftests/host also builds it, and compares it with samples/exact.h.
 */
#ifndef _RAR_REDUCE_CONVERT_H
#define _RAR_REDUCE_CONVERT_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include "shim.h"
#endif

#define RAR_EXACT_BLOCK		256	/* elements */
#define RAR_EXACT_BITS		50	/* of the integer that a rank contributes */
#define RAR_EXACT_COUNT		13	/* bits that count to RAR_MAX_SIZE */

/* C(name, bytes of an element read, bytes written) */
#define RAR_CONVERSIONS(C)						\
	C(widen_f16, 2, 4)	C(narrow_f16, 4, 2)			\
	C(widen_bf16, 2, 4)	C(narrow_bf16, 4, 2)			\
	C(exact_encode, 4, 8)	C(exact_decode, 8, 4)			\
	C(quant_encode, 4, 4)	C(quant_decode, 4, 4)

#define RAR_CONVERT_ENUM(name, from, to) RAR_C_##name,
enum rar_convert { RAR_CONVERSIONS(RAR_CONVERT_ENUM) RAR_CONVERT_NR };

/* What the ranks agree on before they add: the maximum of each byte. */
struct rar_exact_block {
	u8 exponent;		/* largest of the finite elements, at least 1 */
	u8 special;		/* 1: an element is infinite or a NaN */
};

/* What a conversion needs to know besides its input. */
struct rar_convert_how {
	struct rar_exact_block block;	/* exact_*, quant_*: the elements are of this block */
	u8 bits;			/* quant_*: b above, see rar_quant_bits() */
	u32 divisor;			/* exact_decode, quant_decode: of the sum, 0 = none */
};

/*
 * Convert @n elements, at any addresses. @dst and @src do not overlap. Or, if the elements
 * become no shorter, @dst ends where @src ends or before: then all of @src is read in time.
 */
typedef void (*rar_convert_fn)(void *dst, const void *src, size_t n,
			       const struct rar_convert_how *how);

/* Bits of the integer that a rank contributes to a quantised sum, of 1 to 4096 ranks. */
static inline u8 rar_quant_bits(u32 ranks)
{
	return 30 - fls64(ranks - 1);
}

/* convert.c: integers only. The others give the same bits. */
extern const rar_convert_fn rar_convert_generic[];
void rar_exact_scan(struct rar_exact_block *block, const void *src, size_t n);

/* x86/vec_convert.c: AVX2, F16C. exact_*, quant_*: blocks without special elements, no divisor. */
extern const rar_convert_fn rar_convert_avx2[];

struct rar_reduce_impl;

bool rar_convert_selftest(const struct rar_reduce_impl *impl, void *scratch);

#endif /* _RAR_REDUCE_CONVERT_H */
