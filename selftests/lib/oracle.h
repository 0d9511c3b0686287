/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a reduction must give: the yardstick of the tests in user space and in guests.
 *
 * It uses the CPU's own arithmetic for f32 and f64, and exact arithmetic with one rounding
 * for the 16-bit formats. The rules for NaNs and zeros are spelled out.
 */
#ifndef _RAR_ORACLE_H
#define _RAR_ORACLE_H

#include <linux/rar.h>
#include <math.h>
#include <stdlib.h>

#include "../host/shim.h"

/* A reduction of a type. */
struct kind {
	const char *name;
	u8 kernel, redop, dtype;
	unsigned int size;			/* bytes */
	unsigned int frac;			/* bits of the fraction; 0 = an integer */
	bool is_signed;
};

#define FRAC(dtype)							\
	((dtype) == RAR_F32 ? 23 : (dtype) == RAR_F64 ? 52 :		\
	 (dtype) == RAR_F16 ? 10 : (dtype) == RAR_BF16 ? 7 : 0)
#define SIGNED(dtype)							\
	((dtype) == RAR_I8 || (dtype) == RAR_I16 || (dtype) == RAR_I32 || (dtype) == RAR_I64)

static inline u64 sign_of(const struct kind *k)
{
	return BIT_ULL(k->size * 8 - 1);
}

static inline u64 inf_of(const struct kind *k)
{
	return sign_of(k) - BIT_ULL(k->frac);
}

static inline u64 quiet_of(const struct kind *k)
{
	return BIT_ULL(k->frac - 1);
}

static inline u64 max_exp(const struct kind *k)	/* largest exponent of finite numbers */
{
	return (inf_of(k) >> k->frac) - 1;
}

static inline int bias_of(const struct kind *k)
{
	return max_exp(k) / 2;
}

static inline u64 trim(const struct kind *k, u64 v)
{
	return v & (sign_of(k) | (sign_of(k) - 1));
}

static inline bool is_nan(const struct kind *k, u64 v)
{
	return (v & ~sign_of(k)) > inf_of(k);
}

/* As memcpy(), of the bytes of an element: sizes that the compiler knows need no call. */
static inline void copy_element(const struct kind *k, void *to, const void *from)
{
	switch (k->size) {
	case 1:
		memcpy(to, from, 1);
		break;
	case 2:
		memcpy(to, from, 2);
		break;
	case 4:
		memcpy(to, from, 4);
		break;
	default:
		memcpy(to, from, 8);
	}
}

/* The element @i of little-endian memory. */
static inline u64 get(const struct kind *k, const void *p, size_t i)
{
	u64 v = 0;

	copy_element(k, &v, p + k->size * i);
	return v;
}

static inline void put(const struct kind *k, void *p, size_t i, u64 v)
{
	copy_element(k, p + k->size * i, &v);
}

/* The value of a finite number, which has at most 53 bits. */
static inline double value(const struct kind *k, u64 v)
{
	int exp = (v & ~sign_of(k)) >> k->frac;
	u64 m = v & (BIT_ULL(k->frac) - 1);
	double d;

	if (exp)
		m |= BIT_ULL(k->frac);
	d = ldexp(m, (exp ?: 1) - bias_of(k) - (int)k->frac);
	return v & sign_of(k) ? -d : d;
}

/* The nearest number of a format of 16 bits; @sign for a zero. */
static inline u64 rounded_to(const struct kind *k, double d, u64 sign)
{
	int exp, least = 1 - bias_of(k);
	double units;
	u64 bits;

	if (d)
		sign = d < 0 ? sign_of(k) : 0;
	frexp(d, &exp);
	exp = d && exp - 1 > least ? exp - 1 : least;
	units = nearbyint(ldexp(d, (int)k->frac - exp));
	/* The implicit one adds itself to the exponent, and so does a carry. */
	bits = ((u64)(exp - least) << k->frac) + (u64)fabs(units);
	return sign | (bits < inf_of(k) ? bits : inf_of(k));
}

/* --- what x (redop) y must be --- */

static inline bool product(const struct kind *k)
{
	return k->redop == RAR_PROD;
}

/* The exact result, rounded once. */
static inline u64 short_arithmetic(const struct kind *k, u64 x, u64 y)
{
	double a = value(k, x), b = value(k, y);
	int exp_a, exp_b;

	if (product(k))
		return rounded_to(k, a * b, (x ^ y) & sign_of(k));
	frexp(a, &exp_a);
	frexp(b, &exp_b);
	/* Too far apart for 53 bits: then the smaller number does not change the larger. */
	if (a && b && abs(exp_a - exp_b) > 40)
		return exp_a > exp_b ? x : y;
	return rounded_to(k, a + b, x & y & sign_of(k));
}

/* Not inlined, because mutants change the rounding mode around it. */
__attribute__((noinline, unused))
static u64 hardware(const struct kind *k, u64 x, u64 y)
{
	u32 x32 = x, y32 = y;
	float f, g;
	double d, e;

	if (k->size == 2)
		return short_arithmetic(k, x, y);
	if (k->size == 4) {
		memcpy(&f, &x32, 4);
		memcpy(&g, &y32, 4);
		f = product(k) ? f * g : f + g;
		memcpy(&x32, &f, 4);
		return x32;
	}
	memcpy(&d, &x, 8);
	memcpy(&e, &y, 8);
	d = product(k) ? d * e : d + e;
	memcpy(&x, &d, 8);
	return x;
}

static inline bool is_inf(const struct kind *k, u64 v)
{
	return (v & ~sign_of(k)) == inf_of(k);
}

/* Is the operation invalid, so that it has no result? */
static inline bool invalid(const struct kind *k, u64 x, u64 y)
{
	u64 sign = sign_of(k);

	if (product(k))
		return (is_inf(k, x) && !(y & ~sign)) || (is_inf(k, y) && !(x & ~sign));
	return is_inf(k, x) && is_inf(k, y) && x != y;
}

/* Handles infinities, which short_arithmetic() does not know. */
static inline u64 arithmetic(const struct kind *k, u64 x, u64 y)
{
	u64 sign = sign_of(k);

	if (invalid(k, x, y))
		return sign | inf_of(k) | quiet_of(k);
	if (k->size == 2 && (is_inf(k, x) || is_inf(k, y))) {
		if (product(k))
			return ((x ^ y) & sign) | inf_of(k);
		return is_inf(k, x) ? x : y;
	}
	return hardware(k, x, y);
}

/* -1, 0 or 1 as x is below, equal to or above y; -0 is below +0. */
static inline int compare(const struct kind *k, u64 x, u64 y)
{
	int up = 64 - 8 * k->size;
	s64 a, b;

	if (!k->frac && !k->is_signed)
		return (x > y) - (x < y);
	if (!k->frac)
		return ((s64)(x << up) > (s64)(y << up)) - ((s64)(x << up) < (s64)(y << up));
	a = x & ~sign_of(k);
	b = y & ~sign_of(k);
	a = x & sign_of(k) ? -a - 1 : a;
	b = y & sign_of(k) ? -b - 1 : b;
	return (a > b) - (a < b);
}

static inline u64 integers(const struct kind *k, u64 x, u64 y)
{
	switch (k->redop) {
	case RAR_SUM:
	case RAR_AVG:
		return x + y;
	case RAR_PROD:
		return x * y;
	case RAR_BAND:
		return x & y;
	case RAR_BOR:
		return x | y;
	case RAR_BXOR:
		return x ^ y;
	case RAR_LAND:
		return x && y;
	case RAR_LOR:
		return x || y;
	default:
		return !x != !y;
	}
}

static inline u64 expect(const struct kind *k, u64 x, u64 y)
{
	if (k->frac && is_nan(k, x))
		return x | quiet_of(k);
	if (k->frac && is_nan(k, y))
		return y | quiet_of(k);
	if (k->redop == RAR_MIN)
		return compare(k, x, y) < 0 ? x : y;
	if (k->redop == RAR_MAX)
		return compare(k, x, y) > 0 ? x : y;
	return k->frac ? arithmetic(k, x, y) : trim(k, integers(k, x, y));
}

/* What a group of one makes of its operand. */
static inline u64 expect_alone(const struct kind *k, u64 x)
{
	if (k->redop == RAR_LAND || k->redop == RAR_LOR || k->redop == RAR_LXOR)
		return x != 0;
	return k->frac && is_nan(k, x) ? x | quiet_of(k) : x;
}

/* What the sum @x of @n ranks gives as their average. */
static inline u64 expect_average(const struct kind *k, u64 x, u32 n)
{
	int up = 64 - 8 * k->size;
	u32 bits = x;
	double d;
	float f;

	if (!k->frac && k->is_signed)
		return trim(k, ((s64)(x << up) >> up) / (s64)n);
	if (!k->frac)
		return x / n;
	if (is_nan(k, x))
		return x | quiet_of(k);
	if (is_inf(k, x))
		return x;
	if (k->size == 2)
		return rounded_to(k, value(k, x) / n, x & sign_of(k));
	if (k->size == 4) {
		memcpy(&f, &bits, 4);
		f /= n;
		memcpy(&bits, &f, 4);
		return bits;
	}
	memcpy(&d, &x, 8);
	d /= n;
	memcpy(&x, &d, 8);
	return x;
}

/* --- RAR_OPF_WIDE: 16-bit floats travel as f32 --- */

static const struct kind oracle_f32 = { .name = "f32", .dtype = RAR_F32, .size = 4, .frac = 23 };

/* A 16-bit float as f32. A NaN of f16 becomes quiet. */
static inline u64 widened(const struct kind *k, u64 x)
{
	const struct kind *f32 = &oracle_f32;
	u64 sign = x & sign_of(k) ? sign_of(f32) : 0, frac = x & (BIT_ULL(k->frac) - 1);
	float f;
	u32 bits;

	if (is_nan(k, x))
		return sign | inf_of(f32) | frac << (23 - k->frac) |
		       (k->dtype == RAR_F16 ? quiet_of(f32) : 0);
	if (is_inf(k, x))
		return sign | inf_of(f32);
	f = value(k, x);
	memcpy(&bits, &f, 4);
	return bits | sign;
}

/* The 16-bit float nearest to an f32. A NaN keeps its upper bits, and becomes quiet. */
static inline u64 narrowed(const struct kind *k, u64 x)
{
	const struct kind *f32 = &oracle_f32;
	u64 sign = x & sign_of(f32) ? sign_of(k) : 0;

	if (is_nan(f32, x))
		return sign | inf_of(k) | quiet_of(k) | (x & 0x7fffff) >> (23 - k->frac);
	if (is_inf(f32, x))
		return sign | inf_of(k);
	return rounded_to(k, value(f32, x), sign);
}

#endif /* _RAR_ORACLE_H */
