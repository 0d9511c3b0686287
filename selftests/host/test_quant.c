// SPDX-License-Identifier: GPL-2.0
/*
 * Quantised sums (RAR_OPF_QUANT): the kernel's conversions against lib/quant.h, which counts in
 * doubles, and against the promises of programming.rst: no order of additions overflows, and the
 * error is at most half a unit for each rank, and one rounding. Then arithmetic that is wrong on
 * purpose goes through the same checks, and each must be caught.
 */
#include "../lib/quant.h"
#include "reduce/impl.h"
#include "tap.h"
#include "util.h"

#if defined(SANITIZED) || defined(EMULATED)
#define EFFORT	1
#else
#define EFFORT	6
#endif

#define MOST	4096
#define LEN	QUANT_BLOCK
#define SIGN	0x80000000u
#define INF	0x7f800000u
#define LARGEST	0x7f7fffffu

/* The arithmetic under test. */
struct quant {
	const char *name;
	void (*encode)(s32 *to, const float *x, size_t n, struct quant_block b);
	void (*decode)(float *to, const s32 *sum, size_t n, struct quant_block b, u32 divisor);
};

static u64 seed;
static bool quiet;			/* failures are what we want to see */
static float inputs[MOST][LEN];
static s32 sums[LEN];

static struct rar_convert_how how_of(struct quant_block b, u32 divisor)
{
	return (struct rar_convert_how){
		.block = { b.exponent, b.special },
		.bits = rar_quant_bits(b.ranks),
		.divisor = divisor > 1 ? divisor : 0,
	};
}

static void kernel_encode(s32 *to, const float *x, size_t n, struct quant_block b)
{
	struct rar_convert_how how = how_of(b, 0);

	rar_convert_generic[RAR_C_quant_encode](to, x, n, &how);
}

static void kernel_decode(float *to, const s32 *sum, size_t n, struct quant_block b, u32 divisor)
{
	struct rar_convert_how how = how_of(b, divisor);

	rar_convert_generic[RAR_C_quant_decode](to, sum, n, &how);
}

static const struct quant kernel = { "kernel", kernel_encode, kernel_decode };

#ifdef CONFIG_X86_64
/* As rar_reduce_convert() chooses. */
static const rar_convert_fn *avx2_fns(const struct rar_convert_how *how)
{
	return how->block.special || how->divisor ? rar_convert_generic : rar_convert_avx2;
}

static void avx2_encode(s32 *to, const float *x, size_t n, struct quant_block b)
{
	struct rar_convert_how how = how_of(b, 0);

	avx2_fns(&how)[RAR_C_quant_encode](to, x, n, &how);
}

static void avx2_decode(float *to, const s32 *sum, size_t n, struct quant_block b, u32 divisor)
{
	struct rar_convert_how how = how_of(b, divisor);

	avx2_fns(&how)[RAR_C_quant_decode](to, sum, n, &how);
}

static const struct quant avx2 = { "avx2", avx2_encode, avx2_decode };
#endif

static float float_of(u32 bits)
{
	float x;

	memcpy(&x, &bits, 4);
	return x;
}

static u32 bits_of(float x)
{
	u32 bits;

	memcpy(&bits, &x, 4);
	return bits;
}

/* --- inputs --- */

enum shape { ANY_EXPONENT, NEAR, CANCEL, SUBNORMAL, LARGE, TIES, WITH_SPECIALS, SHAPE_NR };

static const char *const shape_name[] = {
	"any_exponent", "near", "cancel", "subnormal", "large", "ties", "with_specials",
};

/* An input of @rank. @before is that of the rank before it. */
static u32 draw(u64 *rng, enum shape shape, u32 base, u32 rank, u32 before)
{
	u64 r = rnd(rng);
	u32 sign = r >> 63 << 31, frac = r & 0x7fffff, any = (r >> 23 & 0xff) % 255;

	switch (shape) {
	case ANY_EXPONENT:
		return sign | any << 23 | frac;
	case NEAR:
		return sign | (base + any % 20) << 23 | frac;
	case CANCEL:
		return rank & 1 ? (before ^ SIGN) + (r >> 40) % 3 : sign | any % 250 << 23 | frac;
	case SUBNORMAL:
		return sign | any % 2 << 23 | frac;
	case LARGE:
		return sign | (254 - any % 3) << 23 | (any & 4 ? 0x7fffff : frac);
	case TIES:			/* halves of some unit */
		return sign | (base + any % 24) << 23 | (frac & 0x600000);
	default:
		return any % 64 ? sign | (base + any % 20) << 23 | frac :
				  sign | INF | (any & 1 ? frac : 0);
	}
}

static void draw_all(u64 *rng, enum shape shape, u32 ranks, size_t n)
{
	u32 base = 1 + rnd_below(rng, 200), before = 0, r;
	size_t i;

	for (i = 0; i < n; i++)
		for (r = 0; r < ranks; r++) {
			before = draw(rng, shape, base, r, before);
			inputs[r][i] = float_of(before);
		}
}

/* --- checks: each returns true if it found nothing wrong --- */

/* Adds up what the ranks encode, in some order. Return: false if a partial sum overflows. */
static bool add_up(const struct quant *q, size_t n, struct quant_block b, u32 first)
{
	s32 own[LEN];
	u32 r;
	size_t i;

	memset(sums, 0, sizeof(sums));
	for (r = 0; r < b.ranks; r++) {
		q->encode(own, inputs[(first + r) % b.ranks], n, b);
		for (i = 0; i < n; i++)
			if (__builtin_add_overflow(sums[i], own[i], &sums[i]))
				return false;
	}
	return true;
}

/* What element @i must be, and how far from the sum of the inputs it may lie. */
static bool right(size_t i, float got, struct quant_block b, u32 divisor)
{
	_Float128 exact = 0, unit = ldexp(1, quant_unit(b)), off, ulp;
	bool finite = true;
	s32 sum = 0;
	u32 r;

	for (r = 0; r < b.ranks; r++) {
		sum += quant_encode(inputs[r][i], b);
		exact += isfinite(inputs[r][i]) ? inputs[r][i] : 0;
		finite &= isfinite(inputs[r][i]);
	}
	if (bits_of(got) != bits_of(quant_decode(sum, b, divisor)))
		return false;
	if (!finite || isinf(got))
		return finite || isnan(got);
	off = got - exact / divisor;
	ulp = ldexp(1, max(1, (int)(bits_of(got) >> 23 & 0xff)) - 150);
	return (off < 0 ? -off : off) <= b.ranks * unit / 2 / divisor + ulp;
}

static bool check_block(const struct quant *q, u64 *rng, u32 ranks, size_t n, u32 divisor)
{
	struct quant_block b = { .exponent = 1, .ranks = ranks };
	float got[LEN];
	size_t i;
	u32 r;

	for (r = 0; r < ranks; r++)
		quant_scan(&b, inputs[r], n);
	if (!add_up(q, n, b, rnd_below(rng, ranks)))
		return false;
	q->decode(got, sums, n, b, divisor);
	for (i = 0; i < n; i++) {
		if (right(i, got[i], b, divisor))
			continue;
		if (!quiet)
			tap_note("%s, %u ranks, exponent %d special %d: element %zu is %#x",
				 q->name, ranks, b.exponent, b.special, i, bits_of(got[i]));
		return false;
	}
	return true;
}

static bool check_shape(const struct quant *q, enum shape shape)
{
	static const u32 ranks[] = { 1, 2, 3, 5, 8, 64, 1000 };
	u64 rng = seed + shape;
	size_t i, n;
	int round;

	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		for (round = 0; round < 4 * EFFORT; round++) {
			n = 1 + rnd_below(&rng, LEN);
			draw_all(&rng, shape, ranks[i], n);
			if (!check_block(q, &rng, ranks[i], n, 1) ||
			    !check_block(q, &rng, ranks[i], n, ranks[i]))
				return false;
		}
	return true;
}

/* As many ranks as there may be, with the largest numbers, in special blocks and others. */
static bool check_crowds(const struct quant *q)
{
	static const u32 all[] = { LARGEST, LARGEST | SIGN, 1, 0x3f800000, INF, INF | SIGN, INF + 1 };
	u64 rng = seed;
	size_t i;
	u32 r;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		for (r = 0; r < MOST; r++) {
			inputs[r][0] = float_of(all[i]);
			inputs[r][1] = float_of(r & 1 ? LARGEST : LARGEST | SIGN);
		}
		if (!check_block(q, &rng, MOST, 2, 1))
			return false;
		inputs[5][0] = -1;
		if (!check_block(q, &rng, MOST, 2, MOST))
			return false;
	}
	return true;
}

static bool check_any(const struct quant *q)
{
	return check_shape(q, NEAR);
}

static bool check_specials(const struct quant *q)
{
	return check_shape(q, WITH_SPECIALS);
}

/* --- arithmetic that is wrong on purpose --- */

/* Rounds toward zero. */
static void encode_truncated(s32 *to, const float *x, size_t n, struct quant_block b)
{
	size_t i;

	kernel_encode(to, x, n, b);
	for (i = 0; i < n; i++)
		if (isfinite(x[i]))
			to[i] = (s32)ldexp(x[i], -quant_unit(b)) * (1 << quant_counts(b));
}

/* Each rank has its own unit. */
static void encode_own_unit(s32 *to, const float *x, size_t n, struct quant_block b)
{
	b.exponent = 1;
	quant_scan(&b, x, n);
	kernel_encode(to, x, n, b);
}

/* One rank more than there are is not counted with. */
static void encode_fine(s32 *to, const float *x, size_t n, struct quant_block b)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = isfinite(x[i]) ? lrint(ldexp(x[i], 2 - quant_unit(b))) : 1;
}

/* A NaN is one number among others. */
static void decode_specials_lost(float *to, const s32 *sum, size_t n, struct quant_block b,
				 u32 divisor)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = (float)(sum[i] >> quant_counts(b)) * ldexp(1, quant_unit(b)) / divisor;
}

/* Rounds the sum, then the average. */
static void decode_twice(float *to, const s32 *sum, size_t n, struct quant_block b, u32 divisor)
{
	size_t i;

	kernel_decode(to, sum, n, b, 1);
	for (i = 0; i < n; i++)
		if (!isnan(to[i]))
			to[i] /= divisor;
}

/* Each of them, and a check that must find it. */
static const struct {
	struct quant quant;
	bool (*check)(const struct quant *q);
} mutants[] = {
	{ { "truncated", encode_truncated, kernel_decode }, check_any },
	{ { "own_unit", encode_own_unit, kernel_decode }, check_any },
	{ { "fine", encode_fine, kernel_decode }, check_crowds },
	{ { "specials_lost", kernel_encode, decode_specials_lost }, check_specials },
	{ { "rounded_twice", kernel_encode, decode_twice }, check_any },
};

static void test_mutants(void)
{
	size_t i;

	quiet = true;
	for (i = 0; i < ARRAY_SIZE(mutants); i++)
		tap_ok(!mutants[i].check(&mutants[i].quant), "mutant_%s__caught",
		       mutants[i].quant.name);
	quiet = false;
}

static void test_all(const struct quant *q)
{
	size_t i;

	for (i = 0; i < SHAPE_NR; i++)
		tap_ok(check_shape(q, i), "%s__%s", q->name, shape_name[i]);
	tap_ok(check_crowds(q), "%s__crowds", q->name);
}

int main(void)
{
	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	test_all(&kernel);
#ifdef CONFIG_X86_64
	if (rar_reduce_avx2.usable())
		test_all(&avx2);
#endif
	test_mutants();
	return tap_end();
}
