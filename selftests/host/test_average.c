// SPDX-License-Identifier: GPL-2.0
/*
 * The kernels that divide sums by the number of ranks, for averages.
 *
 * Every set of kernels that this CPU has is compared with expect_average() of oracle.h, for
 * every number of ranks. Then kernels that are wrong on purpose go through the same checks,
 * and each must be caught.
 *
 * RAR_EXHAUSTIVE=1: all 16-bit numbers are divided by every number of ranks, instead of a 64th
 * of them.
 */
#include "kernels.h"

#define TYPE(type, bytes)						\
	{ "avg_" #type, 0, RAR_AVG, RAR_##type, bytes, FRAC(RAR_##type), SIGNED(RAR_##type) },

static const struct kind averages[] = { RAR_TYPES(TYPE) };

#define for_each_average(k)						\
	for (k = averages; k < averages + ARRAY_SIZE(averages); k++)

/* Check that a call writes quotients of the sums at @dst to @dst and @dst2, and nothing else. */
static bool divides(rar_divide_fn fn, const struct kind *k, u8 *dst, u8 *dst2, u32 by,
		    size_t n)
{
	static u8 sums[MAX_N * 8];
	size_t len = n * k->size, i;

	memcpy(sums, dst, len);
	for (i = 0; i < n; i++)
		put(k, want, i, expect_average(k, get(k, sums, i), by));
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		return false;
	}
	fault_expected = 1;
	fn(dst, dst2, by, len);
	fault_expected = 0;
	for (i = 0; i < n; i++)
		if (get(k, dst, i) != get(k, want, i) || get(k, dst2, i) != get(k, want, i)) {
			if (!quiet)
				tap_note("%s: %#llx by %u gives %#llx, got %#llx and %#llx",
					 k->name, get(k, sums, i), by, get(k, want, i),
					 get(k, dst, i), get(k, dst2, i));
			return false;
		}
	return true;
}

/* Draw a sum: any bits, special values, and integers next to multiples of @by. */
static u64 draw_sum(const struct kind *k, u64 *rng, u32 by)
{
	u64 r = rnd(rng), x, y;

	draw(k, rng, &x, &y);
	if (!k->frac && r & 1)
		x = trim(k, x - x % by + r % 3 - 1);
	if (k->frac && r % 7 == 0)
		x = special(k, r % (2 * SPECIALS));
	return x;
}

static bool check_division(rar_divide_fn fn, const struct kind *k, u64 *rng, u32 by, size_t n,
			   enum place where)
{
	size_t len = n * k->size, i;
	u8 *dst = place(&dst_area, len, where, rng), *dst2 = place(&in_area, len, where, rng);
	bool both = rnd(rng) & 1;

	memset(dst_area.start, 0xa5, dst_area.end - dst_area.start);
	memset(in_area.start, 0xa5, in_area.end - in_area.start);
	for (i = 0; i < n; i++)
		put(k, dst, i, draw_sum(k, rng, by));
	if (!both)
		dst2 = dst;
	return divides(fn, k, dst, dst2, by, n) &&
	       untouched(dst_area.start, dst) && untouched(dst + len, dst_area.end) &&
	       (!both || (untouched(in_area.start, dst2) &&
			  untouched(dst2 + len, in_area.end)));
}

/* Check many numbers of ranks, then all short lengths, at the guard pages and elsewhere. */
static bool check_divisions(rar_divide_fn fn, const struct kind *k)
{
	u64 rng = seed;
	u32 by;
	size_t n;

	for (by = 2; by <= RAR_MAX_SIZE; by += EFFORT > 1 || by < 70 ? 1 : 61)
		if (!check_division(fn, k, &rng, by, 200, ANYWHERE))
			return false;
	for (n = 0; n < 300; n++)
		if (!check_division(fn, k, &rng, 2 + n % 9, n, AT_START) ||
		    !check_division(fn, k, &rng, 2 + n % 9, n, AT_END))
			return false;
	return true;
}

/* Check every 16-bit sum, divided by every @step-th number of ranks. */
static bool check_each_sum(rar_divide_fn fn, const struct kind *k, u32 step)
{
	u64 x;
	size_t i;
	u32 by;

	for (by = 2 + seed % step; by <= RAR_MAX_SIZE; by += step)
		for (x = 0; x < 1 << 16; x += MAX_N) {
			for (i = 0; i < MAX_N; i++)
				put(k, dst_area.start, i, x + i);
			if (!divides(fn, k, dst_area.start, dst_area.start, by, MAX_N))
				return false;
		}
	return true;
}

static rar_divide_fn divided;
static size_t odd_size;

/* Wrong on purpose: a flipped bit, a second place not written, and a wrong divisor. */
static void off_by_one(void *dst, void *dst2, u32 n, size_t len)
{
	divided(dst, dst2, n, len);
	if (n == 67 && len > odd_size) {
		*(u8 *)dst ^= 1;
		*(u8 *)dst2 = *(u8 *)dst;
	}
}

static void one_place(void *dst, void *dst2, u32 n, size_t len)
{
	divided(dst, dst, n, len);
}

static void by_next(void *dst, void *dst2, u32 n, size_t len)
{
	divided(dst, dst2, n > 2 ? n + 1 : n, len);
}

static void test_wrong_divisions(const struct rar_reduce_impl *impl, const struct kind *k)
{
	static const struct {
		const char *name;
		rar_divide_fn fn;
	} wrong[] = {
		{ "off_by_one", off_by_one }, { "one_place", one_place }, { "by_next", by_next },
	};
	struct rar_reduce_impl copy = *impl;
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	rar_divide_fn divide[RAR_DTYPE_NR];
	size_t i;

	divided = impl->divide[k->dtype];
	odd_size = k->size;
	quiet = true;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		tap_ok(!check_divisions(wrong[i].fn, k), "mutant_%s_%s__caught", wrong[i].name,
		       k->name);
		if (wrong[i].fn == off_by_one)
			continue;
		memcpy(divide, impl->divide, sizeof(divide));
		divide[k->dtype] = wrong[i].fn;
		copy.divide = divide;
		tap_ok(!rar_reduce_selftest(&copy, scratch), "mutant_%s_%s__selftest_rejects",
		       wrong[i].name, k->name);
	}
	quiet = false;
}

static void test_averages(const struct rar_reduce_impl *impl)
{
	u32 step = getenv("RAR_EXHAUSTIVE") ? 1 : 64;
	const struct kind *k;

	for_each_average(k) {
		tap_ok(check_divisions(impl->divide[k->dtype], k), "%s_%s", impl->name, k->name);
		if (k->size == 2 && EFFORT > 1)
			tap_ok(check_each_sum(impl->divide[k->dtype], k, step),
			       "%s_%s__each__1_of_%u", impl->name, k->name, step);
		if (!impl->vector)
			test_wrong_divisions(impl, k);
	}
}

/* --- speed, for information --- */

static double divide_rate(rar_divide_fn fn, u8 *own, size_t bytes)
{
	double start, best = 1e9, end = now() + 0.01;

	do {
		memset(own, 0x3f, bytes);
		start = now();
		fn(own, own, 3, bytes);
		start = now() - start;
		if (start < best)
			best = start;
	} while (now() < end);
	return bytes / best * 1e-9;
}

static void bench(void)
{
	static u8 own[1 << 14];
	const struct kind *k;
	char line[80];
	size_t i, at;

	tap_note("GB of averages per second, in place, 16 KiB:");
	for_each_average(k) {
		at = snprintf(line, sizeof(line), "%-10s", k->name);
		for (i = 0; i < ARRAY_SIZE(impls); i++)
			if (impls[i]->usable())
				at += snprintf(line + at, sizeof(line) - at, " %s %6.1f",
					       impls[i]->name,
					       divide_rate(impls[i]->divide[k->dtype], own,
							   sizeof(own)));
		tap_note("%s", line);
	}
}

int main(void)
{
	double start = now();
	size_t i;

	kernels_begin();
	for (i = 0; i < ARRAY_SIZE(impls); i++) {
		if (impls[i]->usable())
			test_averages(impls[i]);
		else
			tap_skip(impls[i]->name, "not on this CPU");
	}
	if (EFFORT > 1)
		bench();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
