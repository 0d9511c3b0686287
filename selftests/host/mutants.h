/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reduction kernels that are wrong on purpose, for test_reduce.c: wrong results, wrong order of
 * the operands, and accesses beyond the ends.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <fenv.h>
#include <string.h>

#include "oracle.h"
#include "reduce/impl.h"

static u64 rounded(const struct kind *k, u64 x, u64 y, int mode)
{
	u64 r;

	if (is_nan(k, x) || is_nan(k, y))
		return expect(k, x, y);
	fesetround(mode);
	r = expect(k, x, y);
	fesetround(FE_TONEAREST);
	/* x - x is -0 when rounding down; this mutant does not test that */
	return r & ~sign_of(k) ? r : expect(k, x, y);
}

static u64 mut_truncate(const struct kind *k, u64 x, u64 y)
{
	return rounded(k, x, y, FE_TOWARDZERO);
}

static u64 mut_round_up(const struct kind *k, u64 x, u64 y)
{
	return rounded(k, x, y, FE_UPWARD);
}

static u64 mut_ties_away(const struct kind *k, u64 x, u64 y)
{
	u64 even = expect(k, x, y), lo, sign = sign_of(k);
	long double sum;

	if ((even & ~sign) >= inf_of(k))
		return even;
	lo = rounded(k, x, y, FE_TOWARDZERO);
	sum = (long double)value(k, x) + value(k, y);
	if (lo == even && sum - value(k, lo) == value(k, lo + 1) - sum &&
	    sum != value(k, lo))
		return lo + 1;
	return even;
}

static u64 mut_nan_order(const struct kind *k, u64 x, u64 y)
{
	return expect(k, y, x);
}

static u64 mut_nan_signalling(const struct kind *k, u64 x, u64 y)
{
	return is_nan(k, x) ? x : expect(k, x, y);
}

static u64 mut_nan_payload(const struct kind *k, u64 x, u64 y)
{
	u64 r = expect(k, x, y);

	return is_nan(k, r) ? sign_of(k) | inf_of(k) | quiet_of(k) : r;
}

static u64 mut_nan_positive(const struct kind *k, u64 x, u64 y)
{
	u64 r = expect(k, x, y);

	return is_nan(k, r) && !is_nan(k, x) && !is_nan(k, y) ?
	       r & ~sign_of(k) : r;
}

static u64 flush(const struct kind *k, u64 v)
{
	return (v & ~sign_of(k)) >> k->frac ? v : v & sign_of(k);
}

static u64 mut_ftz(const struct kind *k, u64 x, u64 y)
{
	return flush(k, expect(k, x, y));
}

static u64 mut_daz(const struct kind *k, u64 x, u64 y)
{
	return expect(k, flush(k, x), flush(k, y));
}

static u64 mut_from_zero(const struct kind *k, u64 x, u64 y)
{
	return expect(k, expect(k, 0, x), y);
}

static u64 mut_overflow(const struct kind *k, u64 x, u64 y)
{
	u64 r = expect(k, x, y);

	return (r & ~sign_of(k)) == inf_of(k) &&
	       (x & ~sign_of(k)) != inf_of(k) &&
	       (y & ~sign_of(k)) != inf_of(k) ? r - 1 : r;
}

static u64 mut_saturate(const struct kind *k, u64 x, u64 y)
{
	u64 r = expect(k, x, y), sign = sign_of(k);

	if (!((x ^ y) & sign) && (x ^ r) & sign)
		return x & sign ? sign : sign - 1;
	return r;
}

static u64 mut_no_carry(const struct kind *k, u64 x, u64 y)
{
	u64 half = BIT_ULL(k->size * 4) - 1;

	return ((x & ~half) + (y & ~half)) | ((x + y) & half);
}

/* A NaN loses against a number, as in fminf(). */
static u64 mut_nan_dropped(const struct kind *k, u64 x, u64 y)
{
	if (is_nan(k, x) == is_nan(k, y))
		return expect(k, x, y);
	return is_nan(k, x) ? y : x;
}

static u64 mut_zeros_equal(const struct kind *k, u64 x, u64 y)
{
	return (x | y) & ~sign_of(k) ? expect(k, x, y) : y;
}

static u64 mut_by_bits(const struct kind *k, u64 x, u64 y)
{
	return (k->redop == RAR_MIN) == (x < y) ? x : y;
}

static u64 mut_not_one(const struct kind *k, u64 x, u64 y)
{
	return expect(k, x, y) ? x | y : 0;
}

static u64 (*mutant)(const struct kind *k, u64 x, u64 y);
static const struct kind *mutated;	/* the kind of the current mutant */

static rar_reduce_fn right(void)
{
	return rar_reduce_generic.kernels[mutated->kernel];
}

static void run_mutant(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	size_t i;
	u64 z;

	for (i = 0; i < len / mutated->size; i++) {
		z = mutant(mutated, get(mutated, in, i), get(mutated, own, i));
		put(mutated, dst, i, z);
		put(mutated, dst2, i, z);
	}
}

/* The tail is right, the body has its operands swapped. */
static void run_body_order(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	size_t body = len & ~63UL;

	right()(dst, dst2, own, in, body);
	right()(dst + body, dst2 + body, in + body, own + body, len - body);
}

static void run_tail_order(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	size_t body = len & ~63UL;

	right()(dst, dst2, in, own, body);
	right()(dst + body, dst2 + body, own + body, in + body, len - body);
}

static void run_skip_last(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	right()(dst, dst2, in, own, len ? len - mutated->size : 0);
}

static void run_clobber_own(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	memmove(dst, in, len);
	right()(dst, dst2, dst, own, len);
}

static void run_clobber_in(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	memmove(dst, own, len);
	right()(dst, dst2, in, dst, len);
}

static void run_write_past(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	right()(dst, dst2, in, own, len);
	if (len)
		((volatile u8 *)dst)[len] ^= 1;
}

static void run_write_before(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	right()(dst, dst2, in, own, len);
	if (len)
		((volatile u8 *)dst)[-1] ^= 1;
}

static void run_read_past(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	(void)((volatile const u8 *)own)[len];
	right()(dst, dst2, in, own, len);
}

/* The kinds of which a mutant is made. */
enum family { FLOAT_SUM, FLOAT_ANY, FLOAT_EXTREME, INT_SUM, SIGNED_EXTREME, LOGICAL, ANY_SUM };

static bool member_of(const struct kind *k, enum family family)
{
	bool extreme = k->redop == RAR_MIN || k->redop == RAR_MAX;

	switch (family) {
	case FLOAT_SUM:
		return k->frac && k->redop == RAR_SUM;
	case FLOAT_ANY:
		return k->frac;
	case FLOAT_EXTREME:
		return k->frac && extreme;
	case INT_SUM:
		return !k->frac && k->redop == RAR_SUM;
	case SIGNED_EXTREME:
		return extreme && (k->frac || k->is_signed);
	case LOGICAL:
		return k->redop >= RAR_LAND && k->redop <= RAR_LXOR;
	default:
		return k->redop == RAR_SUM;
	}
}

static const struct {
	const char *name;
	u64 (*result)(const struct kind *k, u64 x, u64 y);
	rar_reduce_fn run;
	enum family family;
	bool harmless;			/* the self-test at load need not find it */
} mutants[] = {
	{ "truncate",		mut_truncate,		NULL, FLOAT_SUM, false },
	{ "round_up",		mut_round_up,		NULL, FLOAT_SUM, false },
	{ "ties_away",		mut_ties_away,		NULL, FLOAT_SUM, false },
	{ "nan_order",		mut_nan_order,		NULL, FLOAT_ANY, false },
	{ "nan_signalling",	mut_nan_signalling,	NULL, FLOAT_ANY, false },
	{ "nan_payload",	mut_nan_payload,	NULL, FLOAT_ANY, false },
	{ "nan_positive",	mut_nan_positive,	NULL, FLOAT_SUM, false },
	{ "nan_dropped",	mut_nan_dropped,	NULL, FLOAT_ANY, false },
	{ "zeros_equal",	mut_zeros_equal,	NULL, FLOAT_EXTREME, false },
	{ "by_bits",		mut_by_bits,		NULL, SIGNED_EXTREME, false },
	{ "ftz",		mut_ftz,		NULL, FLOAT_SUM, false },
	{ "daz",		mut_daz,		NULL, FLOAT_SUM, false },
	{ "from_zero",		mut_from_zero,		NULL, FLOAT_SUM, false },
	{ "overflow",		mut_overflow,		NULL, FLOAT_SUM, false },
	{ "saturate",		mut_saturate,		NULL, INT_SUM, false },
	{ "no_carry",		mut_no_carry,		NULL, INT_SUM, false },
	{ "not_one",		mut_not_one,		NULL, LOGICAL, false },
	{ "body_order",		NULL, run_body_order,	FLOAT_SUM, false },
	{ "tail_order",		NULL, run_tail_order,	FLOAT_SUM, false },
	{ "skip_last",		NULL, run_skip_last,	ANY_SUM, false },
	{ "clobber_own",	NULL, run_clobber_own,	ANY_SUM, false },
	{ "clobber_in",		NULL, run_clobber_in,	ANY_SUM, false },
	{ "write_past",		NULL, run_write_past,	ANY_SUM, false },
	{ "write_before",	NULL, run_write_before,	ANY_SUM, false },
	{ "read_past",		NULL, run_read_past,	ANY_SUM, true },
};

#endif /* MUTANTS_H */
