// SPDX-License-Identifier: GPL-2.0
/*
 * The reduction kernels, bit for bit.
 *
 * Every set of kernels that this CPU has is compared with expect() of oracle.h, the scalar set
 * with many more operands. Then kernels that are wrong on purpose go through the same checks,
 * and each must be caught.
 *
 * RAR_EXHAUSTIVE=1: all pairs of f16 and of bf16 are added and multiplied, instead of a 64th
 * of them.
 */
#include <fenv.h>

#include "kernels.h"
#include "mutants.h"

#define GOLDEN		0x61586f75d145566dULL

#define KIND(redop, dtype, kernel)					\
	{ #kernel, RAR_K_##kernel, RAR_##redop, RAR_##dtype,		\
	  RAR_SIZE_##dtype, FRAC(RAR_##dtype), SIGNED(RAR_##dtype) },

static const struct kind kinds[] = { RAR_KINDS(KIND, RAR_NO_ROW) };

static struct guarded own_area, tmp_area;

#define for_each_kind(k) for (k = kinds; k < kinds + ARRAY_SIZE(kinds); k++)

/* --- checks: each returns true if it found nothing wrong --- */

/* A kernel under test. */
struct tested {
	const char *set;
	rar_reduce_fn fn;
};

/* Calls the kernel; false if it touched memory that it must not touch. */
static bool call(const struct tested *t, const struct kind *k, void *dst, const void *in,
		 const void *own, size_t n)
{
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		if (!quiet)
			tap_note("%s %s n=%zu: read or wrote beyond the end",
				 t->set, k->name, n);
		return false;
	}
	fault_expected = 1;
	t->fn(dst, dst, in, own, n * k->size);
	fault_expected = 0;
	return true;
}

/* Compares @got with @want; the operands are for the message. */
static bool same(const struct tested *t, const struct kind *k,
		 const void *got, const void *in, const void *own, size_t n)
{
	size_t i;

	if (!memcmp(got, want, n * k->size))
		return true;
	if (quiet)
		return false;
	for (i = 0; get(k, got, i) == get(k, want, i); i++)
		;
	tap_note("%s %s [%zu of %zu]: %#llx, %#llx give %#llx, got %#llx",
		 t->set, k->name, i, n, get(k, in, i), get(k, own, i),
		 get(k, want, i), get(k, got, i));
	return false;
}

static void expect_all(const struct kind *k, const void *in, const void *own,
		       size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		put(k, want, i, expect(k, get(k, in, i), get(k, own, i)));
}

static void draw_all(const struct kind *k, u64 *rng, void *in, void *own,
		     size_t n)
{
	u64 x, y;
	size_t i;

	for (i = 0; i < n; i++) {
		draw(k, rng, &x, &y);
		put(k, in, i, x);
		put(k, own, i, y);
	}
}

/* Check many operands, without pieces or borders. */
static bool check_operands(const struct tested *t,
			   const struct kind *k, u64 *rng, double pairs)
{
	void *in = in_area.start, *own = own_area.start, *dst = dst_area.start;

	for (; pairs > 0; pairs -= MAX_N) {
		draw_all(k, rng, in, own, MAX_N);
		expect_all(k, in, own, MAX_N);
		if (!call(t, k, dst, in, own, MAX_N) ||
		    !same(t, k, dst, in, own, MAX_N))
			return false;
	}
	return true;
}

/* Check every special operand with every other, in every lane. */
static bool check_specials(const struct tested *t, const struct kind *k)
{
	void *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	size_t m = 2 * SPECIALS, n = m * 32, first, lane, i, pair;

	for (first = 0; first < m * m; first += n) {
		for (lane = 0; lane < 40; lane += EFFORT > 1 ? 1 : 13) {
			for (i = 0; i < n; i++) {
				pair = (first + (i + lane) % n) % (m * m);
				put(k, in, i, special(k, pair / m));
				put(k, own, i, special(k, pair % m));
			}
			expect_all(k, in, own, n);
			if (!call(t, k, dst, in, own, n) ||
			    !same(t, k, dst, in, own, n))
				return false;
		}
	}
	return true;
}

_Static_assert(2 * SPECIALS * 32 <= MAX_N, "a row of pairs fits");

enum alias { APART, DST_OWN, DST_IN, IN_OWN, ALL_ONE, ALIAS_NR };

/* Check one call: @n elements at these places, with this overlap. */
static bool check_shape(const struct tested *t,
			const struct kind *k, u64 *rng, size_t n,
			enum alias alias, enum place where)
{
	static u8 in_copy[MAX_N * 8], own_copy[MAX_N * 8];
	size_t len = n * k->size;
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
	draw_all(k, rng, x, y, n);
	memcpy(in_copy, x, len);
	memcpy(own_copy, y, len);
	expect_all(k, in_copy, own_copy, n);
	if (!call(t, k, dst, x, y, n) ||
	    !same(t, k, dst, in_copy, own_copy, n))
		return false;

	ok = untouched(dst_area.start, dst) &&
	     untouched(dst + len, dst_area.end) &&
	     (x == dst || !memcmp(x, in_copy, len)) &&
	     (y == dst || !memcmp(y, own_copy, len));
	if (!ok && !quiet)
		tap_note("%s %s n=%zu alias=%d: wrote outside its result",
			 t->set, k->name, n, alias);
	return ok;
}

/* Check all short lengths, next to the guard pages on either side. */
static bool check_borders(const struct tested *t,
			  const struct kind *k, u64 *rng)
{
	size_t n;

	for (n = 0; n < 400; n++)
		if (!check_shape(t, k, rng, n, n % ALIAS_NR, AT_START) ||
		    !check_shape(t, k, rng, n, APART, AT_END) ||
		    !check_shape(t, k, rng, n, DST_OWN, AT_END))
			return false;
	return true;
}

static bool check_shapes(const struct tested *t,
			 const struct kind *k, u64 *rng, unsigned int rounds)
{
	u64 r;

	while (rounds--) {
		r = rnd(rng);
		if (!check_shape(t, k, rng,
				 (r >> 32) % (r & 1 ? 80 : MAX_N),
				 (r >> 1) % ALIAS_NR,
				 r & 0x300 ? ANYWHERE : AT_END))
			return false;
	}
	return true;
}

/* Check that pieces, as packets bring them, give the bits of a single call. */
static bool check_pieces(const struct tested *t,
			 const struct kind *k, u64 *rng, unsigned int rounds)
{
	u8 *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	size_t n, i, piece;

	while (rounds--) {
		n = rnd_below(rng, MAX_N + 1);
		draw_all(k, rng, in, own, n);
		if (!call(t, k, want, in, own, n))
			return false;
		for (i = 0; i < n; i += piece) {
			piece = 1 + rnd_below(rng, 1 + rnd_below(rng, n - i));
			if (!call(t, k, dst + i * k->size,
				  in + i * k->size, own + i * k->size, piece))
				return false;
		}
		if (!same(t, k, dst, in, own, n))
			return false;
	}
	return true;
}

/* All checks except most operands: quick, for mutants. */
static bool check_all(const struct tested *t, const struct kind *k)
{
	u64 rng = seed;

	return check_operands(t, k, &rng, EFFORT * 20e3) &&
	       (!k->frac || check_specials(t, k)) &&
	       check_borders(t, k, &rng) &&
	       check_shapes(t, k, &rng, 100) &&
	       check_pieces(t, k, &rng, 10);
}

/* All checks. Return: true if nothing is wrong. */
static bool check_well(const struct tested *t, const struct kind *k, double pairs)
{
	u64 rng = seed;

	return check_operands(t, k, &rng, pairs) &&
	       (!k->frac || check_specials(t, k)) &&
	       check_borders(t, k, &rng) &&
	       check_shapes(t, k, &rng, 150 * EFFORT) &&
	       check_pieces(t, k, &rng, 25 * EFFORT);
}

/*
 * The FNV-1a hash of many results with a fixed seed, which is the same on every machine. If
 * draw() is changed it changes, and all sets print the same new value.
 */
static u64 golden(const struct rar_reduce_impl *impl)
{
	u8 *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	u64 rng = 1, hash = 0xcbf29ce484222325ULL;
	const struct kind *k;
	size_t i;

	for_each_kind(k) {
		draw_all(k, &rng, in, own, MAX_N);
		impl->kernels[k->kernel](dst, dst, in, own, MAX_N * k->size);
		for (i = 0; i < MAX_N * k->size; i++)
			hash = (hash ^ dst[i]) * 0x100000001b3ULL;
	}
	return hash;
}

/* --- the results in two places, and copies --- */

static rar_reduce_fn adapted;

/* Write the results to two places. If the two differ the result is made wrong. */
static void run_by_both(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
	u8 *tmp = tmp_area.end - len;

	tmp[-1] = 0xa5;
	memcpy(tmp, in, len);
	adapted(dst, tmp, tmp, own, len);
	if (len && (memcmp(tmp, dst, len) || tmp[-1] != 0xa5))
		*(u8 *)dst ^= 1;
}

static void test_both(const struct rar_reduce_impl *impl)
{
	struct tested both = { .set = impl->name, .fn = run_by_both };
	const struct kind *k;

	for_each_kind(k) {
		adapted = impl->kernels[k->kernel];
		tap_ok(check_all(&both, k), "%s_%s__both", impl->name, k->name);
	}
}

/* Check a copy next to a guard page on either side; nothing else may be written. */
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
	volatile u64 sum = 0;
	size_t i;
	u32 word;
	u64 got;

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

static double pairs_of(const struct rar_reduce_impl *impl, const struct kind *k)
{
	double pairs = k->frac && k->redop <= RAR_PROD ? 2e6 : 500e3;

	return impl->vector ? pairs / 10 : pairs;
}

static void test_impl(const struct rar_reduce_impl *impl)
{
	struct tested t = { .set = impl->name };
	const struct kind *k;

	for_each_kind(k) {
		t.fn = impl->kernels[k->kernel];
		tap_ok(check_well(&t, k, pairs_of(impl, k)), "%s_%s", impl->name, k->name);
	}
	if (!tap_ok(golden(impl) == GOLDEN, "%s__golden", impl->name))
		tap_note("golden %#llx", golden(impl));
}

static void test_selftest(const struct rar_reduce_impl *impl)
{
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	double start = now();
	bool ok = rar_reduce_selftest(impl, scratch);

	tap_note("self-test of %s: %.0f us", impl->name,
		 (now() - start) * 1e6);
	tap_ok(ok, "selftest__accepts_%s", impl->name);
#ifdef CONFIG_ARM64
	/* As left by a program that rounds up, flushes denormals and has one NaN only. */
	write_sysreg(0x7400000, fpcr);
	ok = rar_reduce_selftest(impl, scratch);
	write_sysreg(0, fpcr);
	tap_ok(ok, "selftest__accepts_%s_after_odd_fpcr", impl->name);
#endif
}

static void test_impls(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(impls); i++) {
		if (impls[i]->usable()) {
			test_impl(impls[i]);
			test_both(impls[i]);
			test_copy(impls[i]);
			test_csum(impls[i]);
			test_selftest(impls[i]);
		} else {
			tap_skip(impls[i]->name, "not on this CPU");
		}
	}
}

/* --- every pair of 16-bit numbers --- */

/* Check every @step-th number with all others. */
static bool check_pairs(const struct kind *k, u64 step)
{
	u8 *in = in_area.start, *own = own_area.start, *dst = dst_area.start;
	struct tested t = { .set = "pairs" };
	u64 x = seed % step, y;
	size_t i, n;

	for (; x < 1 << 16; x += step) {
		for (y = 0; y < 1 << 16; y += MAX_N) {
			for (n = 0; n < MAX_N; n++) {
				put(k, in, n, x);
				put(k, own, n, y + n);
			}
			expect_all(k, in, own, MAX_N);
			for (i = 0; i < ARRAY_SIZE(impls); i++) {
				if (!impls[i]->usable())
					continue;
				t.fn = impls[i]->kernels[k->kernel];
				if (!call(&t, k, dst, in, own, MAX_N) ||
				    !same(&t, k, dst, in, own, MAX_N))
					return false;
			}
		}
	}
	return true;
}

static void test_pairs(void)
{
	u64 step = getenv("RAR_EXHAUSTIVE") ? 1 : 64;
	const struct kind *k;

	for_each_kind(k)
		if (k->size == 2 && k->frac && k->redop <= RAR_PROD)
			tap_ok(check_pairs(k, step), "%s__pairs__1_of_%llu", k->name, step);
}

/* --- kernels that are wrong on purpose: see mutants.h --- */

static void test_mutant(size_t m, const struct kind *k)
{
	struct tested t = { .set = mutants[m].name, .fn = mutants[m].run ?: run_mutant };
	struct rar_reduce_impl impl = rar_reduce_generic;
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	rar_reduce_fn kernels[RAR_KERNEL_NR];

	mutant = mutants[m].result;
	mutated = k;
	tap_ok(!check_all(&t, k), "mutant_%s_%s__caught", t.set, k->name);
	if (mutants[m].harmless)
		return;
	memcpy(kernels, rar_reduce_generic.kernels, sizeof(kernels));
	kernels[k->kernel] = t.fn;
	impl.kernels = kernels;
	tap_ok(!rar_reduce_selftest(&impl, scratch), "mutant_%s_%s__selftest_rejects",
	       t.set, k->name);
}

static void test_mutants(void)
{
	struct tested t = { .set = "none", .fn = run_mutant };
	const struct kind *k;
	size_t m;

	/* the mutant that changes nothing must pass */
	mutant = expect;
	for_each_kind(k) {
		mutated = k;
		tap_ok(check_all(&t, k), "mutant_none_%s__passes", k->name);
	}
	quiet = true;
	for (m = 0; m < ARRAY_SIZE(mutants); m++)
		for_each_kind(k)
			if (member_of(k, mutants[m].family))
				test_mutant(m, k);
	quiet = false;
}

/* --- speed, for information --- */

static double rate(rar_reduce_fn fn, u8 *own, const u8 *in, size_t bytes)
{
	double start, best = 1e9, end = now() + 0.01;
	size_t reps = 1 + (1 << 18) / bytes, i;

	memset(own, 0x3f, bytes);
	do {
		start = now();
		for (i = 0; i < reps; i++)
			fn(own, own, in, own, bytes);
		start = now() - start;
		if (start < best)
			best = start;
	} while (now() < end);
	return bytes * reps / best * 1e-9;
}

static void bench(void)
{
	static u8 in[1 << 14], own[1 << 14];
	const struct kind *k;
	char line[80];
	size_t i, at;

	memset(in, 0x3f, sizeof(in));
	tap_note("GB of results per second, in place, 16 KiB:");
	for_each_kind(k) {
		at = snprintf(line, sizeof(line), "%-10s", k->name);
		for (i = 0; i < ARRAY_SIZE(impls); i++)
			if (impls[i]->usable())
				at += snprintf(line + at, sizeof(line) - at, " %s %6.1f",
					       impls[i]->name,
					       rate(impls[i]->kernels[k->kernel], own, in,
						    sizeof(in)));
		tap_note("%s", line);
	}
}

int main(void)
{
	double start = now();

	kernels_begin();
	own_area = guarded_alloc(AREA);
	tmp_area = guarded_alloc(AREA);

	test_impls();
	if (EFFORT > 1)
		test_pairs();
	test_mutants();
	if (EFFORT > 1)
		bench();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
