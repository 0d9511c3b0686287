// SPDX-License-Identifier: GPL-2.0
/*
 * The reduction kernels, bit for bit.
 *
 * The yardstick is expect(): the processor's own addition, and the rule for
 * NaNs spelled out. Every set of kernels that this CPU has is held against it,
 * the scalar one with many more operands. Then kernels that are wrong on
 * purpose go through the same checks, and each must be caught.
 */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>

#include "reduce_impl.h"
#include "tap.h"
#include "util.h"

#ifdef SANITIZED
#define EFFORT	1
#else
#define EFFORT	4
#endif

#define MAX_N		4096			/* elements in a test */
#define AREA		(MAX_N * 8 + 4096)	/* bytes of a guarded buffer */

struct type {
	const char *name;
	u8 dtype;
	unsigned int size;
	unsigned int frac;			/* bits; 0 = an integer */
	double pairs;				/* held against hardware */
	u64 golden;				/* see golden() */
};

static const struct type types[] = {
	{ "f32", RAR_F32, 4, 23, 50e6, 0xc84a83b9d749ba81 },
	{ "f64", RAR_F64, 8, 52, 20e6, 0xbcfe3ede419cc063 },
	{ "i32", RAR_I32, 4, 0,  5e6,  0xa7e55840c4e80956 },
	{ "i64", RAR_I64, 8, 0,  5e6,  0xe4dbf4273d5613e0 },
};

static const struct rar_reduce_impl *const impls[] = {
	&rar_reduce_generic,
#ifdef CONFIG_X86_64
	&rar_reduce_avx2,
	&rar_reduce_avx512,
#endif
};

static struct guarded in_area, own_area, dst_area, tmp_area;
static u8 want[MAX_N * 8];
static u64 seed;
static bool quiet;			/* failures are what we want to see */

/* --- a binary format, as bits --- */

static u64 sign_of(const struct type *t)
{
	return BIT_ULL(t->size * 8 - 1);
}

static u64 inf_of(const struct type *t)
{
	return sign_of(t) - BIT_ULL(t->frac);
}

static u64 quiet_of(const struct type *t)
{
	return BIT_ULL(t->frac - 1);
}

static u64 max_exp(const struct type *t)	/* of finite numbers */
{
	return (inf_of(t) >> t->frac) - 1;
}

static u64 trim(const struct type *t, u64 v)
{
	return t->size == 4 ? (u32)v : v;
}

static bool is_nan(const struct type *t, u64 v)
{
	return (v & ~sign_of(t)) > inf_of(t);
}

static u64 get(const struct type *t, const void *p, size_t i)
{
	u32 v32;
	u64 v;

	if (t->size == 4) {
		memcpy(&v32, p + 4 * i, 4);
		return v32;
	}
	memcpy(&v, p + 8 * i, 8);
	return v;
}

static void put(const struct type *t, void *p, size_t i, u64 v)
{
	u32 v32 = v;

	memcpy(p + t->size * i, t->size == 4 ? (void *)&v32 : &v, t->size);
}

/* Not inlined: mutants change the rounding mode round it. */
__attribute__((noinline))
static u64 hardware_add(const struct type *t, u64 x, u64 y)
{
	u32 x32 = x, y32 = y;
	float f, g;
	double d, e;

	if (t->size == 4) {
		memcpy(&f, &x32, 4);
		memcpy(&g, &y32, 4);
		f = f + g;
		memcpy(&x32, &f, 4);
		return x32;
	}
	memcpy(&d, &x, 8);
	memcpy(&e, &y, 8);
	d = d + e;
	memcpy(&x, &d, 8);
	return x;
}

/* What x + y must be. */
static u64 expect(const struct type *t, u64 x, u64 y)
{
	u64 sign = sign_of(t), inf;

	if (!t->frac)
		return trim(t, x + y);
	inf = inf_of(t);
	if (is_nan(t, x))
		return x | quiet_of(t);
	if (is_nan(t, y))
		return y | quiet_of(t);
	if ((x & ~sign) == inf && (y & ~sign) == inf && x != y)
		return sign | inf | quiet_of(t);
	return hardware_add(t, x, y);
}

/* --- operands --- */

/* Magnitudes; the sign is added. */
static const u64 specials32[] = {
	0, 1, 2, 3, 0x007ffffe, 0x007fffff, 0x00800000, 0x00800001, 0x00ffffff,
	0x01000000, 0x33800000, 0x33800001, 0x34000000, 0x3f7fffff, 0x3f800000,
	0x3f800001, 0x3fffffff, 0x4b7fffff, 0x4b800000, 0x72ffffff, 0x73000000,
	0x73800000, 0x7f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7f800001,
	0x7fa00000, 0x7fbfffff, 0x7fc00000, 0x7fc00001, 0x7fd55555, 0x7fffffff,
};

static const u64 specials64[] = {
	0, 1, 2, 3, 0x000ffffffffffffe, 0x000fffffffffffff, 0x0010000000000000,
	0x0010000000000001, 0x001fffffffffffff, 0x0020000000000000,
	0x3ca0000000000000, 0x3ca0000000000001, 0x3cb0000000000000,
	0x3fefffffffffffff, 0x3ff0000000000000, 0x3ff0000000000001,
	0x3fffffffffffffff, 0x433fffffffffffff, 0x4340000000000000,
	0x7c8fffffffffffff, 0x7c90000000000000, 0x7ca0000000000000,
	0x7fe0000000000000, 0x7feffffffffffffe, 0x7fefffffffffffff,
	0x7ff0000000000000, 0x7ff0000000000001, 0x7ff4000000000000,
	0x7ff7ffffffffffff, 0x7ff8000000000000, 0x7ff8000000000001,
	0x7ffaaaaaaaaaaaaa, 0x7fffffffffffffff,
};

#define SPECIALS	ARRAY_SIZE(specials32)

_Static_assert(ARRAY_SIZE(specials64) == SPECIALS, "as many of each");

/* Both signs of each. */
static u64 special(const struct type *t, size_t i)
{
	u64 v = (t->size == 4 ? specials32 : specials64)[i / 2 % SPECIALS];

	return i & 1 ? v | sign_of(t) : v;
}

static u64 fraction(const struct type *t, u64 *rng)
{
	u64 r = rnd(rng), mask = BIT_ULL(t->frac) - 1;

	switch (r >> 61) {
	case 0:
		return 0;
	case 1:
		return mask;
	case 2:
		return BIT_ULL(r % t->frac);
	case 3:
		return r & 7;			/* hardly above a power of two */
	case 4:
		return mask - (r & 7);		/* hardly below the next */
	default:
		return r & mask;
	}
}

static u64 exponent(const struct type *t, u64 *rng)
{
	u64 r = rnd(rng);

	switch (r >> 61) {
	case 0:
		return r % 3;			/* denormals and neighbours */
	case 1:
		return max_exp(t) - r % 3;	/* near overflow */
	default:
		return r % (max_exp(t) + 1);
	}
}

/* How far below the larger exponent the other one is. */
static u64 distance(const struct type *t, u64 *rng)
{
	u64 r = rnd(rng);

	switch (r >> 62) {
	case 0:
		return r % 4;			/* cancellation, carry */
	case 1:
	case 2:
		return t->frac - 1 + r % 6;	/* ties, sticky */
	default:
		return r % (t->frac + 8);
	}
}

/* Finite numbers that meet every case of rounding. */
static void draw_structured(const struct type *t, u64 *rng, u64 *x, u64 *y)
{
	u64 r = rnd(rng), exp_x = exponent(t, rng), d = distance(t, rng);
	u64 exp_y = exp_x > d ? exp_x - d : 0;

	*x = exp_x << t->frac | fraction(t, rng);
	*y = exp_y << t->frac | fraction(t, rng);
	if (r & 1)
		*x |= sign_of(t);
	if (r & 2)
		*y |= sign_of(t);
	if (r & 4)
		swap(*x, *y);
}

static void draw(const struct type *t, u64 *rng, u64 *x, u64 *y)
{
	u64 r = rnd(rng);

	*x = trim(t, rnd(rng));
	*y = trim(t, rnd(rng));
	if (!t->frac)
		return;
	switch (r >> 60) {
	case 0:					/* almost -x */
		*y = trim(t, (*x ^ sign_of(t)) + (r & 7) - 4);
		break;
	case 1:
		*x = special(t, r % (2 * SPECIALS));
		break;
	case 2:
		*y = special(t, r % (2 * SPECIALS));
		break;
	case 3:
		*x = special(t, r % (2 * SPECIALS));
		*y = special(t, (r >> 20) % (2 * SPECIALS));
		break;
	case 4 ... 10:
		draw_structured(t, rng, x, y);
		break;
	default:				/* any bits */
		break;
	}
}

/* --- checks: each returns true if it found nothing wrong --- */

static sigjmp_buf fault_jmp;
static volatile sig_atomic_t fault_expected;

static void on_fault(int sig)
{
	if (fault_expected)
		siglongjmp(fault_jmp, 1);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Calls the kernel; false if it touched memory that it must not touch. */
static bool call(const struct rar_reduce_impl *impl, const struct type *t,
		 void *dst, const void *in, const void *own, size_t n)
{
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		if (!quiet)
			tap_note("%s %s n=%zu: read or wrote beyond the end",
				 impl->name, t->name, n);
		return false;
	}
	fault_expected = 1;
	impl->run(t->dtype, RAR_SUM, dst, in, own, n);
	fault_expected = 0;
	return true;
}

/* Compares @got with @want; the operands are for the message. */
static bool same(const struct rar_reduce_impl *impl, const struct type *t,
		 const void *got, const void *in, const void *own, size_t n)
{
	size_t i;

	if (!memcmp(got, want, n * t->size))
		return true;
	if (quiet)
		return false;
	for (i = 0; get(t, got, i) == get(t, want, i); i++)
		;
	tap_note("%s %s [%zu of %zu]: %#llx + %#llx = %#llx, got %#llx",
		 impl->name, t->name, i, n, get(t, in, i), get(t, own, i),
		 get(t, want, i), get(t, got, i));
	return false;
}

static void expect_all(const struct type *t, const void *in, const void *own,
		       size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		put(t, want, i, expect(t, get(t, in, i), get(t, own, i)));
}

static void draw_all(const struct type *t, u64 *rng, void *in, void *own,
		     size_t n)
{
	u64 x, y;
	size_t i;

	for (i = 0; i < n; i++) {
		draw(t, rng, &x, &y);
		put(t, in, i, x);
		put(t, own, i, y);
	}
}

/* Many operands, no other difficulty. */
static bool check_operands(const struct rar_reduce_impl *impl,
			   const struct type *t, u64 *rng, double pairs)
{
	void *in = in_area.start, *own = own_area.start, *dst = dst_area.start;

	for (; pairs > 0; pairs -= MAX_N) {
		draw_all(t, rng, in, own, MAX_N);
		expect_all(t, in, own, MAX_N);
		if (!call(impl, t, dst, in, own, MAX_N) ||
		    !same(impl, t, dst, in, own, MAX_N))
			return false;
	}
	return true;
}

/* Every special operand with every other, in every lane. */
static bool check_specials(const struct rar_reduce_impl *impl,
			   const struct type *t)
{
	void *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	size_t m = 2 * SPECIALS, n = m * 32, first, lane, i, k;

	for (first = 0; first < m * m; first += n) {
		for (lane = 0; lane < 40; lane++) {
			for (i = 0; i < n; i++) {
				k = first + (i + lane) % n;
				put(t, in, i, special(t, k / m));
				put(t, own, i, special(t, k % m));
			}
			expect_all(t, in, own, n);
			if (!call(impl, t, dst, in, own, n) ||
			    !same(impl, t, dst, in, own, n))
				return false;
		}
	}
	return true;
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
	for (; p < end; p++)
		if (*p != 0xa5)
			return false;
	return true;
}

enum alias { APART, DST_OWN, DST_IN, IN_OWN, ALL_ONE, ALIAS_NR };

/* One call: @n elements at these places, with this overlap. */
static bool check_shape(const struct rar_reduce_impl *impl,
			const struct type *t, u64 *rng, size_t n,
			enum alias alias, enum place where)
{
	static u8 in_copy[MAX_N * 8], own_copy[MAX_N * 8];
	size_t len = n * t->size;
	u8 *in = place(&in_area, len, where, rng);
	u8 *own = place(&own_area, len, where, rng);
	u8 *dst = place(&dst_area, len, where, rng);
	u8 *x = in, *y = own;
	bool ok;

	if (alias == DST_OWN || alias == ALL_ONE)
		y = dst;
	if (alias == DST_IN || alias == ALL_ONE)
		x = dst;
	if (alias == IN_OWN)
		y = x;

	memset(dst_area.start, 0xa5, dst_area.end - dst_area.start);
	draw_all(t, rng, x, y, n);
	memcpy(in_copy, x, len);
	memcpy(own_copy, y, len);
	expect_all(t, in_copy, own_copy, n);
	if (!call(impl, t, dst, x, y, n) ||
	    !same(impl, t, dst, in_copy, own_copy, n))
		return false;

	ok = untouched(dst_area.start, dst) &&
	     untouched(dst + len, dst_area.end) &&
	     (x == dst || !memcmp(x, in_copy, len)) &&
	     (y == dst || !memcmp(y, own_copy, len));
	if (!ok && !quiet)
		tap_note("%s %s n=%zu alias=%d: wrote outside its result",
			 impl->name, t->name, n, alias);
	return ok;
}

/* All short lengths, flush with the guard pages on either side. */
static bool check_borders(const struct rar_reduce_impl *impl,
			  const struct type *t, u64 *rng)
{
	size_t n;

	for (n = 0; n < 400; n++)
		if (!check_shape(impl, t, rng, n, n % ALIAS_NR, AT_START) ||
		    !check_shape(impl, t, rng, n, APART, AT_END) ||
		    !check_shape(impl, t, rng, n, DST_OWN, AT_END))
			return false;
	return true;
}

static bool check_shapes(const struct rar_reduce_impl *impl,
			 const struct type *t, u64 *rng, unsigned int rounds)
{
	u64 r;

	while (rounds--) {
		r = rnd(rng);
		if (!check_shape(impl, t, rng,
				 (r >> 32) % (r & 1 ? 80 : MAX_N),
				 (r >> 1) % ALIAS_NR,
				 r & 0x300 ? ANYWHERE : AT_END))
			return false;
	}
	return true;
}

/* In pieces, as packets come, or in one: the same bits. */
static bool check_pieces(const struct rar_reduce_impl *impl,
			 const struct type *t, u64 *rng, unsigned int rounds)
{
	u8 *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	size_t n, i, piece;

	while (rounds--) {
		n = rnd_below(rng, MAX_N + 1);
		draw_all(t, rng, in, own, n);
		if (!call(impl, t, want, in, own, n))
			return false;
		for (i = 0; i < n; i += piece) {
			piece = 1 + rnd_below(rng, 1 + rnd_below(rng, n - i));
			if (!call(impl, t, dst + i * t->size,
				  in + i * t->size, own + i * t->size, piece))
				return false;
		}
		if (!same(impl, t, dst, in, own, n))
			return false;
	}
	return true;
}

/*
 * FNV-1a of many sums with a fixed seed: another machine, the same bits. Only a
 * change of draw() changes it; then all kernels print the same new value.
 */
static u64 golden(const struct rar_reduce_impl *impl, const struct type *t)
{
	u8 *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	u64 rng = 1, hash = 0xcbf29ce484222325ULL;
	size_t round, i;

	for (round = 0; round < 16; round++) {
		draw_all(t, &rng, in, own, MAX_N);
		impl->run(t->dtype, RAR_SUM, dst, in, own, MAX_N);
		for (i = 0; i < MAX_N * t->size; i++)
			hash = (hash ^ dst[i]) * 0x100000001b3ULL;
	}
	return hash;
}

/* The checks of test_impl(), shorter. */
static bool check_all(const struct rar_reduce_impl *impl, const struct type *t)
{
	u64 rng = seed;

	return check_operands(impl, t, &rng, 200e3) &&
	       (!t->frac || check_specials(impl, t)) &&
	       check_borders(impl, t, &rng) &&
	       check_shapes(impl, t, &rng, 100) &&
	       check_pieces(impl, t, &rng, 10);
}

/* --- the results in two places, and copies --- */

static const struct rar_reduce_impl *adapted;

/* impl->both as if it were impl->run: wrong as soon as one of the places is. */
static void run_by_both(u8 dtype, u8 redop, void *dst, const void *in,
			const void *own, size_t n)
{
	const struct type *t = types;
	size_t len;
	u8 *tmp;

	while (t->dtype != dtype)
		t++;
	len = n * t->size;
	tmp = tmp_area.end - len;
	tmp[-1] = 0xa5;
	memcpy(tmp, in, len);
	adapted->both(dtype, redop, dst, tmp, own, n);
	if (n && (memcmp(tmp, dst, len) || tmp[-1] != 0xa5))
		*(u8 *)dst ^= 1;
}

static void test_both(const struct rar_reduce_impl *impl)
{
	struct rar_reduce_impl both = { .name = impl->name, .vector = impl->vector,
					.run = run_by_both };
	const struct type *t;

	adapted = impl;
	for (t = types; t < types + ARRAY_SIZE(types); t++)
		tap_ok(check_all(&both, t), "%s_%s__both", impl->name, t->name);
}

/* Flush with a guard page on either side, and nothing else is written. */
static bool copies(const struct rar_reduce_impl *impl, size_t len, enum place where, u64 *rng)
{
	u8 *in = place(&in_area, len, where, rng), *dst = place(&dst_area, len, where, rng);
	size_t i;

	memset(dst_area.start, 0xa5, dst_area.end - dst_area.start);
	for (i = 0; i < len; i++)
		in[i] = rnd(rng);
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		return false;
	}
	fault_expected = 1;
	impl->copy(dst, in, len);
	fault_expected = 0;
	return !memcmp(dst, in, len) && untouched(dst_area.start, dst) &&
	       untouched(dst + len, dst_area.end);
}

static void test_copy(const struct rar_reduce_impl *impl)
{
	u64 rng = seed;
	bool ok = true;
	size_t len;

	for (len = 0; len < 2000; len++)
		ok &= copies(impl, len, AT_START, &rng) && copies(impl, len, AT_END, &rng) &&
		      copies(impl, len, ANYWHERE, &rng);
	tap_ok(ok, "%s__copy", impl->name);
}

static bool sums_up(const struct rar_reduce_impl *impl, size_t len, enum place where,
		    u64 *rng)
{
	u8 *in = place(&in_area, len, where, rng);
	u64 sum = 0, got;
	size_t i;
	u32 word;

	for (i = 0; i < len; i++)
		in[i] = rnd(rng) % 3 ? rnd(rng) : 0xff;
	for (i = 0; i < len; i += 4) {
		memcpy(&word, in + i, 4);
		sum += word;
	}
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		return false;
	}
	fault_expected = 1;
	got = impl->csum(in, len);
	fault_expected = 0;
	return got == sum;
}

static void test_csum(const struct rar_reduce_impl *impl)
{
	u64 rng = seed;
	bool ok = true;
	size_t len;

	for (len = RAR_CSUM_STEP; len < 8000; len += RAR_CSUM_STEP)
		ok &= sums_up(impl, len, AT_START, &rng) && sums_up(impl, len, AT_END, &rng) &&
		      sums_up(impl, len, ANYWHERE, &rng);
	tap_ok(ok, "%s__csum", impl->name);
}

/* --- the kernels of this CPU --- */

static void test_impl(const struct rar_reduce_impl *impl)
{
	const struct type *t;
	u64 rng = seed;
	char name[64];

	for (t = types; t < types + ARRAY_SIZE(types); t++) {
		snprintf(name, sizeof(name), "%s_%s", impl->name, t->name);
		tap_ok(check_operands(impl, t, &rng, impl->vector ?
				      t->pairs / 10 : t->pairs),
		       "%s__operands", name);
		if (t->frac)
			tap_ok(check_specials(impl, t), "%s__specials", name);
		tap_ok(check_borders(impl, t, &rng), "%s__borders", name);
		tap_ok(check_shapes(impl, t, &rng, 500 * EFFORT),
		       "%s__shapes", name);
		tap_ok(check_pieces(impl, t, &rng, 100 * EFFORT),
		       "%s__pieces", name);
		if (!tap_ok(golden(impl, t) == t->golden, "%s__golden", name))
			tap_note("golden %#llx", golden(impl, t));
	}
}

static void test_selftest(const struct rar_reduce_impl *impl)
{
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	double start = now();
	bool ok = rar_reduce_selftest(impl, scratch);

	tap_note("self-test of %s: %.0f us", impl->name,
		 (now() - start) * 1e6);
	tap_ok(ok, "selftest__accepts_%s", impl->name);
}

static void test_impls(void)
{
	char name[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(impls); i++) {
		if (impls[i]->usable()) {
			test_impl(impls[i]);
			test_both(impls[i]);
			test_copy(impls[i]);
			test_csum(impls[i]);
			test_selftest(impls[i]);
		} else {
			snprintf(name, sizeof(name), "%s", impls[i]->name);
			tap_skip(name, "not on this CPU");
		}
	}
}

/* --- kernels that are wrong on purpose --- */

static u64 rounded(const struct type *t, u64 x, u64 y, int mode)
{
	u64 r;

	if (is_nan(t, x) || is_nan(t, y))
		return expect(t, x, y);
	fesetround(mode);
	r = expect(t, x, y);
	fesetround(FE_TONEAREST);
	/* x - x is -0 when rounding down: not what this mutant is about */
	return r & ~sign_of(t) ? r : expect(t, x, y);
}

static u64 mut_truncate(const struct type *t, u64 x, u64 y)
{
	return rounded(t, x, y, FE_TOWARDZERO);
}

static u64 mut_round_up(const struct type *t, u64 x, u64 y)
{
	return rounded(t, x, y, FE_UPWARD);
}

static long double value(const struct type *t, u64 v)
{
	u32 v32 = v;
	double d;
	float f;

	if (t->size == 4) {
		memcpy(&f, &v32, 4);
		return f;
	}
	memcpy(&d, &v, 8);
	return d;
}

static u64 mut_ties_away(const struct type *t, u64 x, u64 y)
{
	u64 even = expect(t, x, y), lo, sign = sign_of(t);
	long double sum;

	if ((even & ~sign) >= inf_of(t))
		return even;
	lo = rounded(t, x, y, FE_TOWARDZERO);
	sum = value(t, x) + value(t, y);
	if (lo == even && sum - value(t, lo) == value(t, lo + 1) - sum &&
	    sum != value(t, lo))
		return lo + 1;
	return even;
}

static u64 mut_nan_order(const struct type *t, u64 x, u64 y)
{
	return expect(t, y, x);
}

static u64 mut_nan_signalling(const struct type *t, u64 x, u64 y)
{
	return is_nan(t, x) ? x : expect(t, x, y);
}

static u64 mut_nan_payload(const struct type *t, u64 x, u64 y)
{
	u64 r = expect(t, x, y);

	return is_nan(t, r) ? sign_of(t) | inf_of(t) | quiet_of(t) : r;
}

static u64 mut_nan_positive(const struct type *t, u64 x, u64 y)
{
	u64 r = expect(t, x, y);

	return is_nan(t, r) && !is_nan(t, x) && !is_nan(t, y) ?
	       r & ~sign_of(t) : r;
}

static u64 flush(const struct type *t, u64 v)
{
	return (v & ~sign_of(t)) >> t->frac ? v : v & sign_of(t);
}

static u64 mut_ftz(const struct type *t, u64 x, u64 y)
{
	return flush(t, expect(t, x, y));
}

static u64 mut_daz(const struct type *t, u64 x, u64 y)
{
	return expect(t, flush(t, x), flush(t, y));
}

static u64 mut_from_zero(const struct type *t, u64 x, u64 y)
{
	return expect(t, expect(t, 0, x), y);
}

static u64 mut_overflow(const struct type *t, u64 x, u64 y)
{
	u64 r = expect(t, x, y);

	return (r & ~sign_of(t)) == inf_of(t) &&
	       (x & ~sign_of(t)) != inf_of(t) &&
	       (y & ~sign_of(t)) != inf_of(t) ? r - 1 : r;
}

static u64 mut_saturate(const struct type *t, u64 x, u64 y)
{
	u64 r = expect(t, x, y), sign = sign_of(t);

	if (!((x ^ y) & sign) && (x ^ r) & sign)
		return x & sign ? sign : sign - 1;
	return r;
}

static u64 mut_no_carry(const struct type *t, u64 x, u64 y)
{
	u64 half = BIT_ULL(t->size * 4) - 1;

	return ((x & ~half) + (y & ~half)) | ((x + y) & half);
}

static u64 (*mutant)(const struct type *t, u64 x, u64 y);

static const struct type *type_of(u8 dtype)
{
	const struct type *t = types;

	while (t->dtype != dtype)
		t++;
	return t;
}

static void run_mutant(u8 dtype, u8 redop, void *dst, const void *in,
		       const void *own, size_t n)
{
	const struct type *t = type_of(dtype);
	size_t i;

	for (i = 0; i < n; i++)
		put(t, dst, i, mutant(t, get(t, in, i), get(t, own, i)));
}

/* The tail is right, the body has its operands swapped. */
static void run_body_order(u8 dtype, u8 redop, void *dst, const void *in,
			   const void *own, size_t n)
{
	size_t body = n & ~7UL, skip = body * type_of(dtype)->size;

	rar_reduce_run_generic(dtype, redop, dst, own, in, body);
	rar_reduce_run_generic(dtype, redop, dst + skip, in + skip, own + skip,
			       n - body);
}

static void run_tail_order(u8 dtype, u8 redop, void *dst, const void *in,
			   const void *own, size_t n)
{
	size_t body = n & ~7UL, skip = body * type_of(dtype)->size;

	rar_reduce_run_generic(dtype, redop, dst, in, own, body);
	rar_reduce_run_generic(dtype, redop, dst + skip, own + skip, in + skip,
			       n - body);
}

static void run_skip_last(u8 dtype, u8 redop, void *dst, const void *in,
			  const void *own, size_t n)
{
	rar_reduce_run_generic(dtype, redop, dst, in, own, n ? n - 1 : 0);
}

static void run_clobber_own(u8 dtype, u8 redop, void *dst, const void *in,
			    const void *own, size_t n)
{
	memmove(dst, in, n * type_of(dtype)->size);
	rar_reduce_run_generic(dtype, redop, dst, dst, own, n);
}

static void run_clobber_in(u8 dtype, u8 redop, void *dst, const void *in,
			   const void *own, size_t n)
{
	memmove(dst, own, n * type_of(dtype)->size);
	rar_reduce_run_generic(dtype, redop, dst, in, dst, n);
}

static void run_write_past(u8 dtype, u8 redop, void *dst, const void *in,
			   const void *own, size_t n)
{
	rar_reduce_run_generic(dtype, redop, dst, in, own, n);
	if (n)
		((volatile u8 *)dst)[n * type_of(dtype)->size] ^= 1;
}

static void run_write_before(u8 dtype, u8 redop, void *dst, const void *in,
			     const void *own, size_t n)
{
	rar_reduce_run_generic(dtype, redop, dst, in, own, n);
	if (n)
		((volatile u8 *)dst)[-1] ^= 1;
}

static void run_read_past(u8 dtype, u8 redop, void *dst, const void *in,
			  const void *own, size_t n)
{
	(void)((volatile const u8 *)own)[n * type_of(dtype)->size];
	rar_reduce_run_generic(dtype, redop, dst, in, own, n);
}

#define FLOATS		(1 << RAR_F32 | 1 << RAR_F64)
#define INTEGERS	(1 << RAR_I32 | 1 << RAR_I64)

static const struct {
	const char *name;
	u64 (*add)(const struct type *t, u64 x, u64 y);
	rar_reduce_fn run;
	unsigned int dtypes;
	bool harmless;			/* the test at load need not see it */
} mutants[] = {
	{ "truncate",		mut_truncate,		NULL, FLOATS, false },
	{ "round_up",		mut_round_up,		NULL, FLOATS, false },
	{ "ties_away",		mut_ties_away,		NULL, FLOATS, false },
	{ "nan_order",		mut_nan_order,		NULL, FLOATS, false },
	{ "nan_signalling",	mut_nan_signalling,	NULL, FLOATS, false },
	{ "nan_payload",	mut_nan_payload,	NULL, FLOATS, false },
	{ "nan_positive",	mut_nan_positive,	NULL, FLOATS, false },
	{ "ftz",		mut_ftz,		NULL, FLOATS, false },
	{ "daz",		mut_daz,		NULL, FLOATS, false },
	{ "from_zero",		mut_from_zero,		NULL, FLOATS, false },
	{ "overflow",		mut_overflow,		NULL, FLOATS, false },
	{ "saturate",		mut_saturate,		NULL, INTEGERS, false },
	{ "no_carry",		mut_no_carry,		NULL, INTEGERS, false },
	{ "body_order",		NULL, run_body_order,	FLOATS, false },
	{ "tail_order",		NULL, run_tail_order,	FLOATS, false },
	{ "skip_last",		NULL, run_skip_last,	FLOATS | INTEGERS, false },
	{ "clobber_own",	NULL, run_clobber_own,	FLOATS | INTEGERS, false },
	{ "clobber_in",		NULL, run_clobber_in,	FLOATS | INTEGERS, false },
	{ "write_past",		NULL, run_write_past,	FLOATS | INTEGERS, false },
	{ "write_before",	NULL, run_write_before,	FLOATS | INTEGERS, false },
	{ "read_past",		NULL, run_read_past,	FLOATS | INTEGERS, true },
};

static u8 mutated;			/* the dtype that is wrong now */
static rar_reduce_fn mutated_run;

static void run_one_wrong(u8 dtype, u8 redop, void *dst, const void *in,
			  const void *own, size_t n)
{
	if (dtype == mutated)
		mutated_run(dtype, redop, dst, in, own, n);
	else
		rar_reduce_run_generic(dtype, redop, dst, in, own, n);
}

static void test_mutant(size_t m, const struct type *t)
{
	struct rar_reduce_impl impl = { .name = mutants[m].name,
					.run = run_one_wrong,
					.both = rar_reduce_both_generic,
					.copy = rar_reduce_copy_generic,
					.csum = rar_reduce_csum_generic };
	static u64 scratch[RAR_SELFTEST_BYTES / 8];

	mutant = mutants[m].add;
	mutated = t->dtype;
	mutated_run = mutants[m].run ?: run_mutant;

	tap_ok(!check_all(&impl, t), "mutant_%s_%s__caught", impl.name,
	       t->name);
	if (!mutants[m].harmless)
		tap_ok(!rar_reduce_selftest(&impl, scratch),
		       "mutant_%s_%s__selftest_rejects", impl.name, t->name);
}

static u64 mut_none(const struct type *t, u64 x, u64 y)
{
	return expect(t, x, y);
}

static void test_mutants(void)
{
	struct rar_reduce_impl impl = { .name = "none", .run = run_mutant };
	const struct type *t;
	size_t m;

	/* the apparatus itself changes nothing */
	mutant = mut_none;
	for (t = types; t < types + ARRAY_SIZE(types); t++)
		tap_ok(check_all(&impl, t), "mutant_none_%s__passes", t->name);

	quiet = true;
	for (m = 0; m < ARRAY_SIZE(mutants); m++)
		for (t = types; t < types + ARRAY_SIZE(types); t++)
			if (mutants[m].dtypes & 1 << t->dtype)
				test_mutant(m, t);
	quiet = false;
}

/* --- speed, for information --- */

static double rate(const struct rar_reduce_impl *impl, const struct type *t,
		   u8 *own, const u8 *in, size_t bytes)
{
	double start, best = 1e9, end = now() + 0.03;
	size_t reps = 1 + (1 << 18) / bytes, i;

	memset(own, 0x3f, bytes);
	do {
		start = now();
		for (i = 0; i < reps; i++)
			impl->run(t->dtype, RAR_SUM, own, in, own,
				  bytes / t->size);
		start = now() - start;
		if (start < best)
			best = start;
	} while (now() < end);
	return bytes * reps / best * 1e-9;
}

static void bench(void)
{
	static const size_t sizes[] = { 1 << 14, 1 << 18, 1 << 25 };
	u8 *in = aligned_alloc(64, 1 << 25), *own = aligned_alloc(64, 1 << 25);
	const struct type *t;
	size_t i, s;

	memset(in, 0x3f, 1 << 25);
	tap_note("GB of sums per second, in place, 16 KiB / 256 KiB / 32 MiB:");
	for (i = 0; i < ARRAY_SIZE(impls); i++) {
		if (!impls[i]->usable())
			continue;
		for (t = types; t < types + ARRAY_SIZE(types); t++) {
			double gb[3];

			for (s = 0; s < ARRAY_SIZE(sizes); s++)
				gb[s] = rate(impls[i], t, own, in, sizes[s]);
			tap_note("%-8s %s %6.1f %6.1f %6.1f", impls[i]->name,
				 t->name, gb[0], gb[1], gb[2]);
		}
	}
	free(in);
	free(own);
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_fault };
	double start = now();

	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	in_area = guarded_alloc(AREA);
	own_area = guarded_alloc(AREA);
	dst_area = guarded_alloc(AREA);
	tmp_area = guarded_alloc(AREA);

	test_impls();
	test_mutants();
	if (EFFORT > 1)
		bench();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
