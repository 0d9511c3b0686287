// SPDX-License-Identifier: GPL-2.0
/*
 * Contributions, and what their reductions must be.
 *
 * Integers have random bits; their sums and products wrap. Floats that are added are small whole
 * numbers, and those that are multiplied are powers of two, so the order makes no difference to
 * the bits. For a minimum or maximum they have random bits, but are no NaN; -0 is below +0.
 */
#include <math.h>
#include <string.h>

#include "nccl_test.h"

struct type {
	size_t size;
	bool is_signed;
	int exponent, fraction;		/* bits of a float; 0 */
};

static const struct type types[TYPES] = {
	[NCCL_I8] = { 1, true, 0, 0 }, [NCCL_U8] = { 1, false, 0, 0 },
	[NCCL_I32] = { 4, true, 0, 0 }, [NCCL_U32] = { 4, false, 0, 0 },
	[NCCL_I64] = { 8, true, 0, 0 }, [NCCL_U64] = { 8, false, 0, 0 },
	[NCCL_F16] = { 2, true, 5, 10 }, [NCCL_F32] = { 4, true, 8, 23 },
	[NCCL_F64] = { 8, true, 11, 52 }, [NCCL_BF16] = { 2, true, 8, 7 },
};

size_t type_size(int dtype)
{
	return types[dtype].size;
}

static uint64_t trim(const struct type *t, uint64_t bits)
{
	return bits << (64 - 8 * t->size) >> (64 - 8 * t->size);
}


static void write_bits(const struct type *t, void *p, size_t i, uint64_t bits)
{
	memcpy((char *)p + i * t->size, &bits, t->size);
}

/* -- floats ---------------------------------------------------------------- */

static int bias(const struct type *t)
{
	return (1 << (t->exponent - 1)) - 1;
}

static uint64_t sign_bit(const struct type *t)
{
	return 1ull << (t->exponent + t->fraction);
}

static uint64_t infinity(const struct type *t)
{
	return sign_bit(t) - (1ull << t->fraction);
}

/* A number that the type holds exactly, and that is not denormal. */
static uint64_t encode(const struct type *t, double x)
{
	uint64_t bits = x < 0 ? sign_bit(t) : 0;
	int e;

	if (x == 0)
		return 0;
	x = frexp(fabs(x), &e) * 2 - 1;		/* 2^(e - 1) * (1 + x) */
	bits |= (uint64_t)(e - 1 + bias(t)) << t->fraction;
	return bits | (uint64_t)ldexp(x, t->fraction);
}

static double decode(const struct type *t, uint64_t bits)
{
	uint64_t fraction = bits & ((1ull << t->fraction) - 1);
	int e = (bits & ~sign_bit(t)) >> t->fraction;
	double x;

	if ((bits & ~sign_bit(t)) == infinity(t))
		x = INFINITY;
	else if (e)
		x = ldexp(fraction + (1ull << t->fraction), e - bias(t) - t->fraction);
	else
		x = ldexp(fraction, 1 - bias(t) - t->fraction);
	return bits & sign_bit(t) ? -x : x;
}

static uint64_t random_float(const struct type *t, int redop, uint64_t bits)
{
	static const double powers[] = { 0.125, 0.25, 0.5, 1, 1, 2, 4, 8 };

	switch (redop) {
	case NCCL_SUM:
		return encode(t, (int)(bits % 61) - 30);
	case NCCL_PROD:
		return encode(t, bits & 8 ? -powers[bits % 8] : powers[bits % 8]);
	}
	bits = trim(t, bits);
	return (bits & infinity(t)) == infinity(t) ? bits & (sign_bit(t) | infinity(t)) : bits;
}

/* -- contributions and reductions ------------------------------------------ */

static uint64_t element(int dtype, int redop, uint32_t rank, uint64_t id, size_t i)
{
	const struct type *t = &types[dtype];
	uint64_t bits = random_bits(id * RANKS + rank, i);

	return t->exponent ? random_float(t, redop, bits) : trim(t, bits);
}

static int64_t extend(const struct type *t, uint64_t bits)
{
	return (int64_t)(bits << (64 - 8 * t->size)) >> (64 - 8 * t->size);
}

static bool is_less(const struct type *t, uint64_t a, uint64_t b)
{
	if (t->exponent)
		return decode(t, a) < decode(t, b) ||
		       (decode(t, a) == decode(t, b) && a & sign_bit(t) && !(b & sign_bit(t)));
	return t->is_signed ? extend(t, a) < extend(t, b) : a < b;
}

static uint64_t combine(const struct type *t, int redop, uint64_t a, uint64_t b)
{
	switch (redop) {
	case NCCL_MIN:
		return is_less(t, b, a) ? b : a;
	case NCCL_MAX:
		return is_less(t, a, b) ? b : a;
	case NCCL_PROD:
		return t->exponent ? encode(t, decode(t, a) * decode(t, b)) : trim(t, a * b);
	default:
		return t->exponent ? encode(t, decode(t, a) + decode(t, b)) : trim(t, a + b);
	}
}

void fill(int dtype, int redop, uint32_t rank, uint64_t id, size_t first, size_t n, void *p)
{
	for (size_t i = 0; i < n; i++)
		write_bits(&types[dtype], p, i, element(dtype, redop, rank, id, first + i));
}

void expect(int dtype, int redop, uint64_t id, size_t first, size_t n, void *p)
{
	const struct type *t = &types[dtype];

	for (size_t i = 0; i < n; i++) {
		uint64_t bits = element(dtype, redop, 0, id, first + i);

		for (uint32_t r = 1; r < RANKS; r++)
			bits = combine(t, redop, bits, element(dtype, redop, r, id, first + i));
		write_bits(t, p, i, bits);
	}
}
