/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_INVERSE_H
#define _RAR_INVERSE_H

#include "reduce/impl.h"

/*
 * Division by a number of ranks that stays the same, as a multiplication
 *
 * T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication", PLDI
 * 1994; figure 4.1.
 */

/**
 * struct rar_inverse - a number of ranks to divide by
 * @n:      the number, from 2 on
 * @mul:    for unsigned x of 64 bits: with t = high half of @mul * x, the quotient is
 *          (t + (x - t) / 2) >> @shift
 * @mul32:  the same for 32 bits
 * @shift:  for both
 * @mul_64: for x of 32 bits: the quotient is the high half of @mul_64 * x, in 128 bits
 */
struct rar_inverse {
	u32 n;
	u64 mul;
	u32 mul32;
	unsigned int shift;
	u64 mul_64;
};

/* This is inlined, so fields that the caller does not use cost nothing. */
static __always_inline struct rar_inverse rar_inverse_of(u32 n)
{
	unsigned int shift = fls64(n - 1);
	u64 a = (BIT_ULL(shift) - n) << 32;

	return (struct rar_inverse) {
		.n = n,
		.mul = (a / n << 32) + (a % n << 32) / n + 1,
		.mul32 = a / n + 1,
		.shift = shift - 1,
		.mul_64 = ~0ULL / n + 1,
	};
}

#endif /* _RAR_INVERSE_H */
