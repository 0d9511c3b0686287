// SPDX-License-Identifier: GPL-2.0
/*
 * The conversions between the numbers of a user and those that the ranks add: 16-bit floats,
 * averages of exact sums, and where operands may lie. (test_exact tests exact sums.)
 *
 * Every 16-bit float is widened. Narrowed are all numbers next to a border of rounding, and a
 * 64th of all others; RAR_EXHAUSTIVE=1: all. References are oracle.h, which rounds in double,
 * and integers of 128 bits. Then conversions that are wrong on purpose go through the same
 * checks, and each must be caught.
 */
#include "kernels.h"

#define TYPE(type, bytes)						\
	{ #type, 0, RAR_SUM, RAR_##type, bytes, FRAC(RAR_##type), SIGNED(RAR_##type) },

static const struct kind all_types[] = { RAR_TYPES(TYPE) };

#define CONVERT_SIZES(name, from, to) { #name, from, to },
static const struct {
	const char *name;
	u8 from, to;
} conversions[RAR_CONVERT_NR] = { RAR_CONVERSIONS(CONVERT_SIZES) };

static const struct kind *type_of(u8 dtype)
{
	const struct kind *k = all_types;

	while (k->dtype != dtype)
		k++;
	return k;
}

static u8 widens(u8 dtype)
{
	return dtype == RAR_F16 ? RAR_C_widen_f16 : RAR_C_widen_bf16;
}

static u8 narrows(u8 dtype)
{
	return dtype == RAR_F16 ? RAR_C_narrow_f16 : RAR_C_narrow_bf16;
}

/* --- 16-bit floats --- */

static bool same(const char *name, u64 x, u64 got, u64 want)
{
	if (got != want && !quiet)
		tap_note("%s: %#llx gives %#llx, got %#llx", name, x, want, got);
	return got == want;
}

static bool check_widen(const rar_convert_fn *fns, const struct kind *k)
{
	static u16 from[1 << 16];
	static u32 to[1 << 16];
	u32 x;

	for (x = 0; x < 1 << 16; x++)
		from[x] = x;
	fns[widens(k->dtype)](to, from, 1 << 16, NULL);
	for (x = 0; x < 1 << 16; x++)
		if (!same("widen", x, to[x], widened(k, x)))
			return false;
	return true;
}

static bool narrow_some(const rar_convert_fn *fns, const struct kind *k, const u32 *from,
			size_t n)
{
	static u16 to[MAX_N];
	size_t i;

	fns[narrows(k->dtype)](to, from, n, NULL);
	for (i = 0; i < n; i++)
		if (!same("narrow", from[i], to[i], narrowed(k, from[i])))
			return false;
	return true;
}

/* Each 16-bit float, the middle to the next one, and what lies next to both. */
static bool check_borders(const rar_convert_fn *fns, const struct kind *k)
{
	u32 x, half = BIT(22 - k->frac), from[8];
	size_t i;

	for (x = 0; x < 1 << 16; x++) {
		for (i = 0; i < 8; i++)
			from[i] = widened(k, x) + i / 4 * half + i % 4 - 1;
		if (!narrow_some(fns, k, from, 8))
			return false;
	}
	return true;
}

/* Steps through all f32, from any of the first @step on. */
static bool check_narrow(const rar_convert_fn *fns, const struct kind *k, u32 step)
{
	static u32 from[MAX_N];
	u64 x = seed % step;
	size_t i;

	while (x < 1ULL << 32) {
		for (i = 0; i < MAX_N && x < 1ULL << 32; i++, x += step)
			from[i] = x;
		if (!narrow_some(fns, k, from, i))
			return false;
	}
	return true;
}

/* --- averages of exact sums --- */

/* The float nearest to sum * 2^unit / n. */
static u32 average(s64 sum, int unit, u32 n)
{
	const struct kind *f32 = type_of(RAR_F32);
	unsigned __int128 mag = sum < 0 ? -(u64)sum : (u64)sum, q, rest, one;
	u32 sign = sum < 0 ? 1U << 31 : 0;
	int exp = 0, top = 63, up = unit + 149;	/* in units of the smallest subnormal */

	if (!mag)
		return 0;
	/* The step of the result: 2^exp units. Try steps from the smallest on. */
	for (;; exp++) {
		one = up - exp < 0 ? (unsigned __int128)n << min(exp - up, 115) : n;
		q = up - exp > 0 ? mag << min(up - exp, top) : mag;
		if (up - exp > top)
			continue;
		rest = q % one;
		q /= one;
		q += 2 * rest > one || (2 * rest == one && q & 1);
		if (q <= 1 << 24)
			break;
	}
	/* The implicit one adds itself to the exponent. */
	q += (unsigned __int128)exp << 23;
	return sign | (q < inf_of(f32) ? (u32)q : (u32)inf_of(f32));
}

static bool check_averages(const rar_convert_fn *fns)
{
	u64 rng = seed;
	u32 i, got;
	s64 sum;

	for (i = 0; i < 300000; i++) {
		struct rar_convert_how how = {
			.block.exponent = 1 + rnd_below(&rng, 254),
			.divisor = 2 + rnd_below(&rng, i & 1 ? 7 : 4095),
		};

		sum = (s64)rnd(&rng) >> (1 + rnd_below(&rng, 62));
		if (i % 8 == 0)		/* near a tie */
			sum = (s64)(how.divisor * (2 * (rnd(&rng) >> 40) + 1) << (i >> 3) % 12) +
			      (s64)rnd_below(&rng, 3) - 1;
		fns[RAR_C_exact_decode](&got, &sum, 1, &how);
		if (!same("average", sum, got, average(sum, how.block.exponent - 176, how.divisor)))
			return false;
	}
	return true;
}

/* --- memory --- */

static void draw_bytes(u8 *p, size_t len, u64 *rng)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = rnd(rng);
}

/* Return: false if the conversion touches a guard page. */
static bool converts(rar_convert_fn fn, void *dst, const void *src, size_t n,
		     const struct rar_convert_how *how)
{
	if (sigsetjmp(fault_jmp, 1)) {
		fault_expected = 0;
		return false;
	}
	fault_expected = 1;
	fn(dst, src, n, how);
	fault_expected = 0;
	return true;
}

/* Check one call at borders of memory; results may take the place of what was read. */
static bool check_place(const rar_convert_fn *fns, u8 which, size_t n, bool together,
			enum place where, u64 *rng)
{
	size_t from = n * conversions[which].from, to = n * conversions[which].to;
	struct rar_convert_how how = { .block.exponent = 254, .bits = 22 };
	u8 *dst = place(&dst_area, to, where, rng), *src;
	size_t i;

	memset(dst_area.start, 0xa5, dst_area.end - dst_area.start);
	src = together ? dst + to - from : place(&in_area, from, where, rng);
	draw_bytes(src, from, rng);
	/* Finite: the block is not special. */
	for (i = 3; which == RAR_C_quant_encode && i < from; i += 4)
		src[i] &= ~0x40;
	rar_convert_generic[which](want, memcpy(want + 4 * MAX_N, src, from), n, &how);
	return converts(fns[which], dst, src, n, &how) && !memcmp(dst, want, to) &&
	       untouched(dst_area.start, dst) && untouched(dst + to, dst_area.end);
}

static bool check_places(const rar_convert_fn *fns)
{
	u64 rng = seed;
	size_t n;
	u8 which;

	for (which = 0; which < RAR_CONVERT_NR; which++)
		for (n = 0; n < 200; n++) {
			bool grows = conversions[which].to >= conversions[which].from;

			/* An average's sums have up to 2^62. */
			if (which == RAR_C_exact_encode || which == RAR_C_exact_decode)
				continue;
			if (!check_place(fns, which, n, false, AT_START, &rng) ||
			    !check_place(fns, which, n, false, AT_END, &rng) ||
			    (grows && !check_place(fns, which, n, true, ANYWHERE, &rng)))
				return false;
		}
	return true;
}

/* --- wrong on purpose --- */

static u8 spoiled;

static void odd_bit(void *dst, const void *src, size_t n, const struct rar_convert_how *how)
{
	rar_convert_generic[spoiled](dst, src, n, how);
	if (n > 1)
		((u8 *)dst)[n / 2 * conversions[spoiled].to] ^= 1;
}

/* Rounds half up. */
static void half_up(void *dst, const void *src, size_t n, const struct rar_convert_how *how)
{
	u32 x;

	for (; n; n--, src += 4, dst += 2) {
		memcpy(&x, src, 4);
		if (!(x & 0x7fff) && (x & 0x7f800000) != 0x7f800000)
			x += x & 0x8000;
		rar_convert_generic[RAR_C_narrow_bf16](dst, &x, 1, how);
	}
}

/* Rounds the sum, then the average. */
static void twice(void *dst, const void *src, size_t n, const struct rar_convert_how *how)
{
	struct rar_convert_how once = { .block = how->block };
	float *to = dst;

	for (; n; n--, src += 8, to++) {
		rar_convert_generic[RAR_C_exact_decode](to, src, 1, &once);
		*to /= how->divisor ?: 1;
	}
}

static bool check_all(const rar_convert_fn *fns)
{
	return check_widen(fns, type_of(RAR_F16)) && check_widen(fns, type_of(RAR_BF16)) &&
	       check_borders(fns, type_of(RAR_F16)) && check_borders(fns, type_of(RAR_BF16)) &&
	       check_places(fns) && check_averages(fns);
}

static void test_mutant(const char *name, u8 which, rar_convert_fn fn, bool seen)
{
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	struct rar_reduce_impl impl = rar_reduce_generic;
	rar_convert_fn fns[RAR_CONVERT_NR];

	memcpy(fns, rar_convert_generic, sizeof(fns));
	fns[which] = fn;
	impl.convert = fns;
	spoiled = which;
	/* test_exact checks the other two. */
	if ((which != RAR_C_exact_encode && which != RAR_C_exact_decode) || fn != odd_bit)
		tap_ok(!check_all(fns), "mutant_%s_%s__caught", name, conversions[which].name);
	if (seen)
		tap_ok(!rar_reduce_selftest(&impl, scratch), "mutant_%s_%s__selftest_rejects",
		       name, conversions[which].name);
}

static void test_mutants(void)
{
	u8 which;

	quiet = true;
	for (which = 0; which < RAR_CONVERT_NR; which++)
		test_mutant("odd_bit", which, odd_bit, true);
	test_mutant("half_up", RAR_C_narrow_bf16, half_up, true);
	test_mutant("twice", RAR_C_exact_decode, twice, false);
	quiet = false;
}

/* --- all --- */

static void test_set(const struct rar_reduce_impl *impl)
{
	static const u8 short_types[] = { RAR_F16, RAR_BF16 };
	u32 step = getenv("RAR_EXHAUSTIVE") ? 1 : EFFORT > 1 ? 64 : 4096;
	static u64 scratch[RAR_SELFTEST_BYTES / 8];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(short_types); i++) {
		const struct kind *k = type_of(short_types[i]);

		tap_ok(check_widen(impl->convert, k), "%s_%s__widen", impl->name, k->name);
		tap_ok(check_borders(impl->convert, k), "%s_%s__borders", impl->name, k->name);
		tap_ok(check_narrow(impl->convert, k, step), "%s_%s__narrow__1_of_%u",
		       impl->name, k->name, step);
	}
	tap_ok(check_places(impl->convert), "%s__places", impl->name);
	tap_ok(rar_convert_selftest(impl, scratch), "%s__selftest", impl->name);
	if (!impl->vector)
		tap_ok(check_averages(impl->convert), "%s__averages", impl->name);
}

/* Nanoseconds per byte of the user's elements, in blocks that lie in the cache. */
static void bench(const struct rar_reduce_impl *impl)
{
	struct rar_convert_how how = { .block.exponent = 254 };
	double start, best, end;
	size_t i;
	u8 which;

	for (which = 0; which < RAR_CONVERT_NR; which++) {
		size_t each = min(conversions[which].from, conversions[which].to);

		memset(in_area.start, 0x3f, AREA);
		for (best = 1, end = now() + 0.01; now() < end;) {
			start = now();
			for (i = 0; i < MAX_N; i += 256)
				impl->convert[which](dst_area.start + i * conversions[which].to,
						     in_area.start + i * conversions[which].from,
						     256, &how);
			start = now() - start;
			best = start < best ? start : best;
		}
		tap_note("%-8s %-12s %.3f ns per byte", impl->name, conversions[which].name,
			 best * 1e9 / (each * MAX_N));
	}
}

int main(void)
{
	size_t i;

	kernels_begin();
	for (i = 0; i < ARRAY_SIZE(impls); i++) {
		if (!impls[i]->usable()) {
			tap_skip(impls[i]->name, "not on this CPU");
			continue;
		}
		test_set(impls[i]);
		if (EFFORT > 1)
			bench(impls[i]);
	}
	test_mutants();
	return tap_end();
}
