/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What RAR_OPF_QUANT makes of f32, by doubles. See programming.rst: in blocks of QUANT_BLOCK
 * numbers, with b = 30 - ceil(log2(ranks)) bits for each, each number counts in units of
 * 2^(e - 126 - b), where e is the largest biased exponent of a finite number of the block.
 */
#ifndef RAR_QUANT_H
#define RAR_QUANT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QUANT_BLOCK	256		/* numbers */

/* What the ranks agree on, and how many they are. */
struct quant_block {
	int exponent;			/* at least 1 */
	int special;			/* 1: a number is infinite or a NaN */
	uint32_t ranks;
};

static inline void quant_scan(struct quant_block *b, const float *x, size_t n)
{
	uint32_t bits;
	int exponent;

	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, &x[i], 4);
		exponent = bits >> 23 & 0xff;
		if (exponent == 255)
			b->special = 1;
		else if (exponent > b->exponent)
			b->exponent = exponent;
	}
}

static inline int quant_bits(struct quant_block b)
{
	int bits = 30;

	for (uint32_t n = 1; n < b.ranks; n *= 2)
		bits--;
	return bits;
}

/* The lowest bits, which count the ranks whose number is infinite or a NaN. */
static inline int quant_counts(struct quant_block b)
{
	return b.special ? 31 - quant_bits(b) : 0;
}

static inline int quant_unit(struct quant_block b)
{
	return b.exponent - 126 - quant_bits(b) + quant_counts(b);
}

static inline int32_t quant_encode(float x, struct quant_block b)
{
	if (!isfinite(x))
		return 1;
	return lrint(ldexp(x, -quant_unit(b))) * (1 << quant_counts(b));
}

/* The sum, or with @divisor > 1 a part of it. */
static inline float quant_decode(int32_t sum, struct quant_block b, uint32_t divisor)
{
	_Float128 x = sum >> quant_counts(b);

	if (sum & ((1 << quant_counts(b)) - 1))
		return -NAN;
	return (float)(x * ldexp(1, quant_unit(b)) / divisor);
}

#endif /* RAR_QUANT_H */
