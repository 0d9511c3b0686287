/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of reduction kernels share: the sets of kernels, operands, and memory with
 * guard pages on both sides.
 */
#ifndef _RAR_HOST_KERNELS_H
#define _RAR_HOST_KERNELS_H

#include <setjmp.h>
#include <signal.h>

#include "oracle.h"
#include "reduce/impl.h"
#include "tap.h"
#include "util.h"

#if defined(SANITIZED) || defined(EMULATED)
#define EFFORT	1
#else
#define EFFORT	4
#endif

#define MAX_N		4096			/* elements in a test */
#define AREA		(MAX_N * 8 + 4096)	/* bytes of a guarded buffer */

#define TYPE_SIZE(type, size) RAR_SIZE_##type = (size),
enum { RAR_TYPES(TYPE_SIZE) };

static const struct rar_reduce_impl *const impls[] = {
	&rar_reduce_generic,
#ifdef CONFIG_X86_64
	&rar_reduce_avx2,
	&rar_reduce_avx512,
#endif
#ifdef CONFIG_ARM64
	&rar_reduce_neon,
#endif
};

static struct guarded in_area, dst_area;
static u8 want[MAX_N * 8];
static u64 seed;
static bool quiet;			/* mutants: failures are expected */

/* --- operands --- */

#define FRACS		5
#define SPECIALS	(11 * FRACS)

/* Numbers next to the borders of the format, with both signs. */
static u64 special(const struct kind *k, size_t i)
{
	u64 mask = BIT_ULL(k->frac) - 1, bias = bias_of(k), last = max_exp(k);
	const u64 exps[SPECIALS / FRACS] = {
		0, 1, 2, bias > k->frac + 1 ? bias - k->frac - 1 : 3, bias - 1, bias, bias + 1,
		last > bias + k->frac ? last - k->frac : last - 2, last - 1, last, last + 1,
	};
	const u64 fracs[FRACS] = { 0, 1, mask / 2 + 1, mask - 1, mask };
	u64 v = exps[i / 2 / FRACS % (SPECIALS / FRACS)] << k->frac | fracs[i / 2 % FRACS];

	return i & 1 ? v | sign_of(k) : v;
}

static u64 fraction(const struct kind *k, u64 *rng)
{
	u64 r = rnd(rng), mask = BIT_ULL(k->frac) - 1;

	switch (r >> 61) {
	case 0:
		return 0;
	case 1:
		return mask;
	case 2:
		return BIT_ULL(r % k->frac);
	case 3:
		return r & 7;			/* just above a power of two */
	case 4:
		return mask - (r & 7);		/* just below the next */
	default:
		return r & mask;
	}
}

static u64 exponent(const struct kind *k, u64 *rng)
{
	u64 r = rnd(rng);

	switch (r >> 61) {
	case 0:
		return r % 3;			/* denormals and neighbours */
	case 1:
		return max_exp(k) - r % 3;	/* near overflow */
	default:
		return r % (max_exp(k) + 1);
	}
}

/* The difference of the two exponents. */
static u64 distance(const struct kind *k, u64 *rng)
{
	u64 r = rnd(rng);

	switch (r >> 62) {
	case 0:
		return r % 4;			/* cancellation, carry */
	case 1:
	case 2:
		return k->frac - 1 + r % 6;	/* ties, sticky */
	default:
		return r % (k->frac + 8);
	}
}

/* Finite numbers that meet every case of rounding. */
static void draw_structured(const struct kind *k, u64 *rng, u64 *x, u64 *y)
{
	u64 r = rnd(rng), exp_x = exponent(k, rng), d = distance(k, rng);
	u64 exp_y = exp_x > d ? exp_x - d : 0;

	*x = exp_x << k->frac | fraction(k, rng);
	*y = exp_y << k->frac | fraction(k, rng);
	if (r & 1)
		*x |= sign_of(k);
	if (r & 2)
		*y |= sign_of(k);
	if (r & 4)
		swap(*x, *y);
}

__attribute__((unused))
static void draw(const struct kind *k, u64 *rng, u64 *x, u64 *y)
{
	u64 r = rnd(rng);

	*x = trim(k, rnd(rng));
	*y = trim(k, rnd(rng));
	if (!k->frac) {
		if (r >> 60 < 4)		/* zeros, for the logical reductions */
			*(r & 1 ? x : y) = 0;
		if (r >> 60 == 5)
			*y = *x;
		return;
	}
	switch (r >> 60) {
	case 0:					/* almost -x */
		*y = trim(k, (*x ^ sign_of(k)) + (r & 7) - 4);
		break;
	case 1:
		*x = special(k, r % (2 * SPECIALS));
		break;
	case 2:
		*y = special(k, r % (2 * SPECIALS));
		break;
	case 3:
		*x = special(k, r % (2 * SPECIALS));
		*y = special(k, (r >> 20) % (2 * SPECIALS));
		break;
	case 4:					/* two NaNs, mostly */
		*x |= inf_of(k);
		*y |= inf_of(k);
		break;
	case 5 ... 10:
		draw_structured(k, rng, x, y);
		break;
	default:				/* any bits */
		break;
	}
}

/* --- memory --- */

static sigjmp_buf fault_jmp;
static volatile sig_atomic_t fault_expected;

static void on_fault(int sig)
{
	if (fault_expected)
		siglongjmp(fault_jmp, 1);
	signal(sig, SIG_DFL);
	raise(sig);
}

enum place { AT_START, AT_END, ANYWHERE };

static void *place(const struct guarded *g, size_t len, enum place where,
		   u64 *rng)
{
	if (where == AT_START)
		return g->start;
	if (where == AT_END)
		return g->end - len;
	return g->start + rnd_below(rng, g->end - g->start - len + 1);
}

static bool untouched(const u8 *p, const u8 *end)
{
	return p >= end || (*p == 0xa5 && !memcmp(p, p + 1, end - p - 1));
}

static void kernels_begin(void)
{
	struct sigaction act = { .sa_handler = on_fault };

	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	in_area = guarded_alloc(AREA);
	dst_area = guarded_alloc(AREA);
}

#endif /* _RAR_HOST_KERNELS_H */
