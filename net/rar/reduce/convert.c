// SPDX-License-Identifier: GPL-2.0
/*
 * Conversions between the numbers of a user and the numbers that the ranks add, with integer
 * instructions only (see convert.h).
 */
#include "reduce/impl.h"
#include "reduce/convert.h"

#define F32_INF		0x7f800000U
#define F32_QUIET	0x00400000U
#define F32_ONE		BIT(23)			/* the implicit one */

/* Load and store an element at any address. */
#define ELEMENT(bits)							\
struct elem##bits {							\
	u##bits v;							\
} __packed __attribute__((__may_alias__))

ELEMENT(16);
ELEMENT(32);
ELEMENT(64);

/* -- 16-bit floats ------------------------------------------------------- */

static u32 widen_f16(u16 x)
{
	u32 sign = (x & 0x8000U) << 16, a = x & 0x7fff, up;

	if (a > 0x7c00)
		return sign | F32_INF | F32_QUIET | (a & 0x3ff) << 13;
	if (a == 0x7c00)
		return sign | F32_INF;
	if (a >= 0x400)
		return sign | ((a << 13) + (112U << 23));
	if (!a)
		return sign;
	/* A subnormal a * 2^-24: its highest bit becomes the implicit one. */
	up = 24 - fls64(a);
	return sign | (((a << up) - F32_ONE) + ((126 - up + 0U) << 23));
}

static u16 narrow_f16(u32 x)
{
	u32 sign = x >> 16 & 0x8000, a = x & 0x7fffffff, m, down;

	if (a > F32_INF)
		return sign | 0x7e00 | (a >> 13 & 0x3ff);
	if (a >= 0x477ff000)			/* half a step above the largest number */
		return sign | 0x7c00;
	if (a >= 0x38800000) {			/* 2^-14 */
		a -= 112U << 23;
		return sign | (a + 0xfff + (a >> 13 & 1)) >> 13;
	}
	if (a <= 0x33000000)			/* half of the smallest number */
		return sign;
	m = (a & (F32_ONE - 1)) | F32_ONE;
	down = 126 - (a >> 23);
	return sign | (m + BIT(down - 1) - 1 + (m >> down & 1)) >> down;
}

static u16 narrow_bf16(u32 x)
{
	if ((x & 0x7fffffff) > F32_INF)
		return (x | F32_QUIET) >> 16;
	return (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

/* -- sums of integers ---------------------------------------------------- */

/* How many of the lowest bits of an integer count infinities. */
static unsigned int counts(struct rar_exact_block b)
{
	return b.special ? 2 * RAR_EXACT_COUNT : 0;
}

static unsigned int quant_counts(const struct rar_convert_how *how)
{
	return how->block.special ? 31 - how->bits : 0;
}

/**
 * rar_exact_scan() - find what elements contribute to their block
 * @block: raised to what these elements need; at first exponent 1, special 0
 * @src:   f32 elements of the block
 * @n:     their number
 */
void rar_exact_scan(struct rar_exact_block *block, const void *src, size_t n)
{
	const struct elem32 *from = src;
	u32 most = 0, a;
	size_t i;

	for (i = 0; i < n; i++) {
		a = from[i].v & 0x7fffffff;
		if (a >= F32_INF)
			block->special = 1;
		else
			most = max(most, a);
	}
	block->exponent = max_t(u32, block->exponent, max_t(u32, most >> 23, 1));
}

/* m / 2^down, rounded to nearest even; @m has 24 bits. */
static u64 round_down_by(u64 m, unsigned int down)
{
	if (!down)
		return m;
	if (down > 25)
		return 0;
	return (m + BIT_ULL(down - 1) - 1 + (m >> down & 1)) >> down;
}

/*
 * A finite float in units of which the block's largest has less than 2^@bits. The lowest @low
 * bits are left out and 0.
 */
static u64 count_units(u32 x, struct rar_exact_block b, unsigned int bits, unsigned int low)
{
	u32 a = x & 0x7fffffff, exp = a >> 23;
	u64 m = a & (F32_ONE - 1), n;
	int up;

	if (exp)
		m |= F32_ONE;
	/* No rank of good will agrees on less than the own exponent. */
	up = (int)bits - 24 - (int)low - max(b.exponent - (int)(exp ?: 1), 0);
	n = (up >= 0 ? m << up : round_down_by(m, -up)) << low;
	return x >> 31 ? -n : n;
}

static u64 exact_encode(u32 x, struct rar_exact_block b)
{
	u32 a = x & 0x7fffffff;

	if (a >= F32_INF)
		return (a > F32_INF || !(x >> 31)) |
		       (u64)(a > F32_INF || x >> 31) << RAR_EXACT_COUNT;
	return count_units(x, b, RAR_EXACT_BITS, counts(b));
}

static u32 quant_encode(u32 x, const struct rar_convert_how *how)
{
	if ((x & 0x7fffffff) >= F32_INF)
		return 1;
	return count_units(x, how->block, how->bits, quant_counts(how));
}

/*
 * The float nearest to mag * 2^unit, a tie to even. @rest: the magnitude is a little larger
 * than @mag, which then has at least 26 bits.
 */
static u32 round_to_f32(u64 mag, bool rest, int unit)
{
	int top = fls64(mag) - 1, exp = top + unit + 127, down = top - 23;
	u64 m;

	/* A subnormal has fewer bits. */
	if (exp < 1) {
		down += 1 - exp;
		exp = 1;
	}
	if (down > top + 1)
		return 0;
	/* Two more bits than the result: half of the last place, and whether there is more. */
	if (down >= 2)
		m = mag >> (down - 2) | ((mag & (BIT_ULL(down - 2) - 1)) != 0) | rest;
	else
		m = mag << (2 - down) | rest;
	m = (m + 1 + (m >> 2 & 1)) >> 2;
	/* The implicit one adds itself to the exponent, and so does a carry. */
	m += (u64)(exp - 1) << 23;
	return min_t(u64, m, F32_INF);
}

/* The float nearest to @n units of 2^@unit, divided by @divisor. */
static u32 from_units(s64 n, int unit, u32 divisor)
{
	u64 mag = n < 0 ? -(u64)n : (u64)n;
	u32 rest = 0;
	int up;

	if (!mag)
		return 0;
	if (divisor > 1) {
		up = 64 - fls64(mag);
		mag <<= up;
		unit -= up;
		rest = mag % divisor;
		mag /= divisor;
	}
	return (n < 0 ? BIT(31) : 0) | round_to_f32(mag, rest, unit);
}

static u32 exact_decode(u64 sum, const struct rar_convert_how *how)
{
	const u64 mask = BIT(RAR_EXACT_COUNT) - 1;
	struct rar_exact_block b = how->block;
	bool plus = b.special && (sum & mask);
	bool minus = b.special && (sum >> RAR_EXACT_COUNT & mask);

	if (plus || minus)
		return (minus ? BIT(31) : 0) | F32_INF | (plus && minus ? F32_QUIET : 0);
	return from_units((s64)sum >> counts(b),
			  b.exponent - 126 - RAR_EXACT_BITS + (int)counts(b), how->divisor);
}

static u32 quant_decode(u32 sum, const struct rar_convert_how *how)
{
	unsigned int low = quant_counts(how);

	if (sum & (BIT(low) - 1))
		return BIT(31) | F32_INF | F32_QUIET;
	return from_units((s32)sum >> low, how->block.exponent - 126 - how->bits + (int)low,
			  how->divisor);
}

/* -- all of them --------------------------------------------------------- */

/* CONVERT(name, bits of an element read, bits written, result): @x is the element. */
#define CONVERT(name, from_bits, to_bits, result)			\
static void name##_all(void *dst, const void *src, size_t n,		\
		       const struct rar_convert_how *how)		\
{									\
	const struct elem##from_bits *from = src;			\
	struct elem##to_bits *to = dst;					\
	size_t i;							\
									\
	for (i = 0; i < n; i++) {					\
		u##from_bits x = from[i].v;				\
									\
		to[i].v = (result);					\
	}								\
}

CONVERT(widen_f16, 16, 32, widen_f16(x))
CONVERT(narrow_f16, 32, 16, narrow_f16(x))
CONVERT(widen_bf16, 16, 32, (u32)x << 16)
CONVERT(narrow_bf16, 32, 16, narrow_bf16(x))
CONVERT(exact_encode, 32, 64, exact_encode(x, how->block))
CONVERT(exact_decode, 64, 32, exact_decode(x, how))
CONVERT(quant_encode, 32, 32, quant_encode(x, how))
CONVERT(quant_decode, 32, 32, quant_decode(x, how))

#define CONVERT_ROW(name, from, to) [RAR_C_##name] = name##_all,
const rar_convert_fn rar_convert_generic[RAR_CONVERT_NR] = { RAR_CONVERSIONS(CONVERT_ROW) };

/* -- self-test ----------------------------------------------------------- */

#define TEST_N		250	/* elements: many turns, and a rest */

struct answer {
	u8 convert, from, to;
	u8 exponent, special;
	u32 divisor;
	u8 bits;
	u64 x, result;
};

static const struct answer answers[] __initconst = {
	{ RAR_C_widen_f16, 2, 4, .x = 0x0001, .result = 0x33800000 },
	{ RAR_C_widen_f16, 2, 4, .x = 0x83ff, .result = 0xb87fc000 },
	{ RAR_C_widen_f16, 2, 4, .x = 0x7bff, .result = 0x477fe000 },
	{ RAR_C_widen_f16, 2, 4, .x = 0xfc00, .result = 0xff800000 },
	{ RAR_C_widen_f16, 2, 4, .x = 0x7c01, .result = 0x7fc02000 },
	{ RAR_C_widen_bf16, 2, 4, .x = 0x8001, .result = 0x80010000 },
	/* ties to even, the borders of infinity, of the subnormals and of zero, NaNs */
	{ RAR_C_narrow_f16, 4, 2, .x = 0x3f801000, .result = 0x3c00 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0x3f803000, .result = 0x3c02 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0x477fefff, .result = 0x7bff },
	{ RAR_C_narrow_f16, 4, 2, .x = 0xc77ff000, .result = 0xfc00 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0x387fe000, .result = 0x0400 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0x33000000, .result = 0x0000 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0xb3000001, .result = 0x8001 },
	{ RAR_C_narrow_f16, 4, 2, .x = 0x7f800001, .result = 0x7e00 },
	{ RAR_C_narrow_bf16, 4, 2, .x = 0x3f808000, .result = 0x3f80 },
	{ RAR_C_narrow_bf16, 4, 2, .x = 0x3f818000, .result = 0x3f82 },
	{ RAR_C_narrow_bf16, 4, 2, .x = 0x7f7f8000, .result = 0x7f80 },
	{ RAR_C_narrow_bf16, 4, 2, .x = 0xff800001, .result = 0xffc0 },
	/* the largest and the smallest number in their own unit, half a unit, a tie */
	{ RAR_C_exact_encode, 4, 8, 254, .x = 0x7f7fffff, .result = 0x3fffffc000000 },
	{ RAR_C_exact_encode, 4, 8, 1, .x = 0x80000001, .result = -0x4000000ULL },
	{ RAR_C_exact_encode, 4, 8, 127, .x = 0x26800000, .result = 0 },
	{ RAR_C_exact_encode, 4, 8, 127, .x = 0xa6800001, .result = -1ULL },
	{ RAR_C_exact_encode, 4, 8, 127, .x = 0x80000000, .result = 0 },
	/* rounded once: a bit far below a tie decides; zero, overflow, a subnormal number */
	{ RAR_C_exact_decode, 8, 4, 176, .x = 0x4000004000000001, .result = 0x5e800001 },
	{ RAR_C_exact_decode, 8, 4, 176, .x = 0x4000004000000000, .result = 0x5e800000 },
	{ RAR_C_exact_decode, 8, 4, 176, .x = 0xbfffffbfffffffff, .result = 0xde800001 },
	{ RAR_C_exact_decode, 8, 4, 176, .x = 0, .result = 0 },
	{ RAR_C_exact_decode, 8, 4, 254, .x = 0x40000000000000, .result = 0x7f800000 },
	{ RAR_C_exact_decode, 8, 4, 1, .x = 0x4000000, .result = 0x00000001 },
	/* a power of two, ties to even, what is too small; rounded once, overflow, subnormal */
	{ RAR_C_quant_encode, 4, 4, 127, .bits = 28, .x = 0x3f800000, .result = 0x08000000 },
	{ RAR_C_quant_encode, 4, 4, 127, .bits = 18, .x = 0xbf802000, .result = 0xfffdff80 },
	{ RAR_C_quant_encode, 4, 4, 127, .bits = 18, .x = 0x36800000, .result = 0 },
	{ RAR_C_quant_encode, 4, 4, 127, .bits = 18, .x = 0xb7400000, .result = 0xfffffffe },
	{ RAR_C_quant_encode, 4, 4, 254, .bits = 18, .x = 0x7f7fffff, .result = 0x40000 },
	{ RAR_C_quant_decode, 4, 4, 153, .bits = 27, .x = 0x30000001, .result = 0x4e400000 },
	{ RAR_C_quant_decode, 4, 4, 153, .bits = 27, .x = 0xffffffff, .result = 0xbf800000 },
	{ RAR_C_quant_decode, 4, 4, 254, .bits = 28, .x = 0x20000000, .result = 0x7f800000 },
	{ RAR_C_quant_decode, 4, 4, 1, .bits = 28, .x = 0x10, .result = 0x00000001 },
};

/* These are for the scalar conversions only: special blocks, and averages. */
static const struct answer rare[] __initconst = {
	{ RAR_C_exact_encode, 4, 8, 127, 1, .x = 0x3f800000, .result = 0x2000000000000 },
	{ RAR_C_exact_encode, 4, 8, 127, 1, .x = 0x7f800000, .result = 1 },
	{ RAR_C_exact_encode, 4, 8, 127, 1, .x = 0xff800000, .result = 0x2000 },
	{ RAR_C_exact_encode, 4, 8, 127, 1, .x = 0x7fc00000, .result = 0x2001 },
	{ RAR_C_exact_decode, 8, 4, 127, 1, .x = 0x2000000000000, .result = 0x3f800000 },
	{ RAR_C_exact_decode, 8, 4, 127, 1, .x = 0x2000000000001, .result = 0x7f800000 },
	{ RAR_C_exact_decode, 8, 4, 127, 1, .x = 0x2000000002000, .result = 0xff800000 },
	{ RAR_C_exact_decode, 8, 4, 127, 1, .x = 0x2001, .result = 0xffc00000 },
	{ RAR_C_exact_decode, 8, 4, 176, 0, 3, .x = 1, .result = 0x3eaaaaab },
	{ RAR_C_exact_decode, 8, 4, 254, 0, 2, .x = 0x4000000000000, .result = 0x7f000000 },
	{ RAR_C_exact_decode, 8, 4, 1, 0, 2, .x = 0x4000000, .result = 0x00000000 },
	{ RAR_C_exact_decode, 8, 4, 1, 0, 2, .x = 0xc000000, .result = 0x00000002 },
	{ RAR_C_quant_encode, 4, 4, 127, 1, .bits = 28, .x = 0x3f800000, .result = 0x8000000 },
	{ RAR_C_quant_encode, 4, 4, 127, 1, .bits = 28, .x = 0xff800000, .result = 1 },
	{ RAR_C_quant_encode, 4, 4, 127, 1, .bits = 28, .x = 0x7f800001, .result = 1 },
	{ RAR_C_quant_decode, 4, 4, 127, 1, .bits = 28, .x = 0x8000000, .result = 0x3f800000 },
	{ RAR_C_quant_decode, 4, 4, 127, 1, .bits = 28, .x = 0x8000004, .result = 0xffc00000 },
	{ RAR_C_quant_decode, 4, 4, 153, 0, 3, .bits = 27, .x = 1, .result = 0x3eaaaaab },
};

static void __init convert(const struct rar_reduce_impl *impl, u8 which, void *dst,
			   const void *src, size_t n, const struct rar_convert_how *how)
{
	struct rar_fpu regs;

	if (impl->vector)
		rar_fpu_begin(&regs);
	impl->convert[which](dst, src, n, how);
	if (impl->vector)
		rar_fpu_end(&regs);
}

/* Check known answers in every lane, in memory that the results grow into. */
static bool __init check_answers(const struct rar_reduce_impl *impl,
				 const struct answer *a, size_t n, void *scratch)
{
	void *dst = scratch, *src;
	size_t i, k;
	u64 got;

	for (k = 0; k < n; k++, a++) {
		struct rar_convert_how how = {
			.block = { a->exponent, a->special },
			.divisor = a->divisor,
			.bits = a->bits,
		};

		src = dst + TEST_N * (a->to > a->from ? a->to - a->from : a->to);
		for (i = 0; i < TEST_N; i++)
			memcpy(src + i * a->from, &a->x, a->from);
		convert(impl, a->convert, dst, src, TEST_N, &how);
		for (i = 0; i < TEST_N; i++) {
			got = 0;
			memcpy(&got, dst + i * a->to, a->to);
			if (got != a->result)
				return false;
		}
	}
	return true;
}

/* Any bits: exact_decode takes sums of up to 2^62. */
static u64 __init draw(u64 *state, u8 which)
{
	u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	x *= 0x2545f4914f6cdd1dULL;
	if (which == RAR_C_exact_encode || which == RAR_C_quant_encode)
		return x & ~BIT_ULL(30);	/* finite, and below 2 */
	return which == RAR_C_exact_decode ? (u64)((s64)x >> (1 + (x & 31))) : x;
}

/* Check that a conversion gives the bits of the scalar one, whatever the number of elements. */
static bool __init check_random(const struct rar_reduce_impl *impl, u8 which, u8 from, u8 to,
				void *scratch)
{
	struct rar_convert_how how = { .block = { 127, 0 }, .bits = 27 };
	u64 state = 0x5ca1ab1e0ddba11dULL, x;
	void *want = scratch, *dst = want + TEST_N * 8, *src = dst + TEST_N * 8;
	size_t n, i;

	for (n = 0; n <= TEST_N; n += n < 20 ? 1 : 23) {
		for (i = 0; i < n; i++) {
			x = draw(&state, which);
			memcpy(src + i * from, &x, from);
		}
		memset(want, 0xa5, 2 * TEST_N * 8);
		rar_convert_generic[which](want, src, n, &how);
		convert(impl, which, dst, src, n, &how);
		if (memcmp(want, dst, TEST_N * to))
			return false;
		how.block.exponent = 127 + n % 100;
	}
	return true;
}

/**
 * rar_convert_selftest() - do conversions give the right bits?
 * @impl:    a set of kernels; the CPU has what they need
 * @scratch: RAR_SELFTEST_BYTES bytes, 8-byte aligned
 *
 * Context: process, FPU usable.
 * Return: true if they do.
 */
bool __init rar_convert_selftest(const struct rar_reduce_impl *impl, void *scratch)
{
#define CONVERT_SIZES(name, from, to) { from, to },
	static const u8 sizes[RAR_CONVERT_NR][2] __initconst = { RAR_CONVERSIONS(CONVERT_SIZES) };
	u8 which;

	BUILD_BUG_ON(3 * TEST_N * 8 > RAR_SELFTEST_BYTES);

	if (!check_answers(impl, answers, ARRAY_SIZE(answers), scratch))
		return false;
	if (!impl->vector && !check_answers(impl, rare, ARRAY_SIZE(rare), scratch))
		return false;
	for (which = 0; which < RAR_CONVERT_NR; which++)
		if (!check_random(impl, which, sizes[which][0], sizes[which][1], scratch))
			return false;
	return true;
}
