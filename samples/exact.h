/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sums of floats whose bits do not depend on the order in which the ranks add.
 *
 * Addition of floats rounds, so its result depends on the order. Addition of integers does
 * not. So each float becomes an integer, the ring adds the integers, and each sum becomes a
 * float again.
 *
 * A tensor is cut into blocks of EXACT_BLOCK elements. Let e be the largest biased exponent
 * of the finite elements of a block, over all ranks. All ranks count in the same unit
 *
 *	q = 2^(e - 176)			n = x / q, rounded to an integer
 *
 * Every |x| is below 2^(e - 126), so |n| is at most 2^50, and a sum over EXACT_RANKS ranks
 * is at most 2^62: no order of additions overflows.
 *
 * An element of at least 2^(e - 153), or 0, is a multiple of q. If all contributions to a
 * sum are multiples of q, the result is the exact sum, rounded once to the nearest float.
 * Any other contribution adds an error of at most q / 2 before that rounding.
 *
 * In a block in which an element of any rank is infinite or a NaN, the unit is 2^26 times
 * larger, and the lowest 26 bits of each integer count infinities.
 *
 * Ranks that contribute only zeros change nothing. A sum that is zero is +0.
 */
#ifndef RAR_EXACT_H
#define RAR_EXACT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXACT_BLOCK	256		/* elements */
#define EXACT_RANKS	4096		/* at most */
#define EXACT_COUNT	13		/* bits that count to EXACT_RANKS */

/* What the ranks agree on before they add: the maximum of each byte. */
struct exact_block {
	uint8_t exponent;		/* largest of the finite elements, at least 1 */
	uint8_t special;		/* 1: an element is infinite or a NaN */
};

/* Return: what @n elements of one rank contribute to their block. */
static inline struct exact_block exact_scan(const float *x, size_t n)
{
	struct exact_block b = { .exponent = 1 };	/* the exponent of subnormals, too */
	uint8_t exponent;
	uint32_t bits;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&bits, &x[i], sizeof(bits));
		exponent = bits >> 23;
		if (exponent == 255)
			b.special = 1;
		else if (exponent > b.exponent)
			b.exponent = exponent;
	}
	return b;
}

/* Return: how many of the lowest bits of an integer count infinities. */
static inline int exact_counts(struct exact_block b)
{
	return b.special ? 2 * EXACT_COUNT : 0;
}

/* Return: the unit of a block, as a power of two. */
static inline int exact_unit(struct exact_block b)
{
	return b.exponent - 176 + exact_counts(b);
}

/* Turns @n elements of a block into integers. */
static inline void exact_encode(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	int64_t one = 1 << exact_counts(b), plus, minus;
	double scale = ldexp(1, -exact_unit(b));
	size_t i;

	for (i = 0; i < n; i++) {
		if (isfinite(x[i])) {
			sum[i] = llrint(x[i] * scale) * one;
			continue;
		}
		/* A NaN counts as both infinities: their sum is a NaN. */
		plus = isnan(x[i]) || x[i] > 0;
		minus = isnan(x[i]) || x[i] < 0;
		sum[i] = plus | minus << EXACT_COUNT;
	}
}

/* Return: the infinity or NaN that the counts of a sum tell, else 0. */
static inline float exact_infinite(int64_t sum)
{
	int64_t mask = (1 << EXACT_COUNT) - 1;
	int plus = (sum & mask) != 0, minus = (sum >> EXACT_COUNT & mask) != 0;

	if (plus && minus)
		return -NAN;			/* as inf - inf on x86 */
	return plus ? INFINITY : minus ? -INFINITY : 0;
}

/*
 * Turns @n sums of a block into floats. Only the conversion of the integer rounds. Its
 * result is then scaled, which is exact or overflows to infinity: all contributions are
 * multiples of the smallest subnormal, so no sum lies between two subnormals.
 */
static inline void exact_decode(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	double scale = ldexp(1, exact_unit(b));
	float infinite;
	size_t i;

	for (i = 0; i < n; i++) {
		infinite = b.special ? exact_infinite(sum[i]) : 0;
		x[i] = infinite ? infinite : (float)(sum[i] >> exact_counts(b)) * scale;
	}
}

#endif /* RAR_EXACT_H */
