// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of exact sums (samples/exact.h, and the kernel's conversions) against integers
 * of 352 bits.
 *
 * The reference uses no floating point: it reads the bits of the floats, counts in units of
 * 2^-177, and rounds once in the end. Then arithmetic that is wrong on purpose goes through
 * the same checks, and each must be caught.
 */
#include "../../samples/exact.h"
#include "reduce/impl.h"
#include "tap.h"
#include "util.h"

#if defined(SANITIZED) || defined(EMULATED)
#define EFFORT	1
#else
#define EFFORT	6
#endif

#define INF	0x7f800000u
#define SIGN	0x80000000u
#define DEFAULT_NAN 0xffc00000u
#define LARGEST	0x7f7fffffu

/* The arithmetic under test. */
struct exact {
	const char *name;
	struct exact_block (*scan)(const float *x, size_t n);
	void (*encode)(int64_t *sum, const float *x, size_t n, struct exact_block b);
	void (*decode)(float *x, const int64_t *sum, size_t n, struct exact_block b);
};

static const struct exact sample = { "sample", exact_scan, exact_encode, exact_decode };

/* --- the kernel's --- */

static struct rar_convert_how how_of(struct exact_block b)
{
	return (struct rar_convert_how){ .block = { b.exponent, b.special } };
}

static struct exact_block kernel_scan(const float *x, size_t n)
{
	struct rar_exact_block b = { .exponent = 1 };

	/* Pieces of a block may lie in several places. */
	rar_exact_scan(&b, x, n / 3);
	rar_exact_scan(&b, x + n / 3, n - n / 3);
	return (struct exact_block){ b.exponent, b.special };
}

static void kernel_encode(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	struct rar_convert_how how = how_of(b);

	rar_convert_generic[RAR_C_exact_encode](sum, x, n, &how);
}

static void kernel_decode(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	struct rar_convert_how how = how_of(b);

	rar_convert_generic[RAR_C_exact_decode](x, sum, n, &how);
}

static const struct exact kernel = { "kernel", kernel_scan, kernel_encode, kernel_decode };

#ifdef CONFIG_X86_64
/* As rar_reduce_convert() chooses. */
static void avx2_encode(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	struct rar_convert_how how = how_of(b);

	(b.special ? rar_convert_generic : rar_convert_avx2)[RAR_C_exact_encode](sum, x, n, &how);
}

static void avx2_decode(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	struct rar_convert_how how = how_of(b);

	(b.special ? rar_convert_generic : rar_convert_avx2)[RAR_C_exact_decode](x, sum, n, &how);
}

static const struct exact avx2 = { "avx2", kernel_scan, avx2_encode, avx2_decode };
#endif

static u64 seed;
static bool quiet;			/* failures are what we want to see */

/* --- wide integers --- */

#define LIMBS	11
#define UNIT	177			/* a wide integer counts in units of 2^-UNIT */

/* Limbs of 32 bits, the lowest first; carries wait in the upper halves. */
struct wide {
	s64 limb[LIMBS];
};

/* Adds @m * 2^@shift. */
static void wide_add(struct wide *w, s64 m, int shift)
{
	u64 size = m < 0 ? -(u64)m : (u64)m;
	int i = shift / 32, sign = m < 0 ? -1 : 1;
	unsigned __int128 v = (unsigned __int128)size << shift % 32;

	for (; v; v >>= 32)
		w->limb[i++] += sign * (s64)(u32)v;
}

/* Moves the carries; only the highest limb may be negative then. */
static void wide_carry(struct wide *w)
{
	int i;

	for (i = 0; i < LIMBS - 1; i++) {
		w->limb[i + 1] += w->limb[i] >> 32;
		w->limb[i] &= 0xffffffff;
	}
}

static bool wide_bit(const struct wide *w, int bit)
{
	return w->limb[bit / 32] >> bit % 32 & 1;
}

/* Is a bit below @bit set? */
static bool wide_below(const struct wide *w, int bit)
{
	while (bit-- > 0)
		if (wide_bit(w, bit))
			return true;
	return false;
}

/* The bits of the nearest float, of two the even one; +0 for 0. */
static u32 wide_round(struct wide w)
{
	int top = LIMBS * 32 - 1, low, i;
	u32 sign = 0, m = 0;

	wide_carry(&w);
	if (w.limb[LIMBS - 1] < 0) {
		for (i = 0; i < LIMBS; i++)
			w.limb[i] = -w.limb[i];
		wide_carry(&w);
		sign = SIGN;
	}
	while (top > 0 && !wide_bit(&w, top))
		top--;
	/* The lowest bit that a float has here. */
	low = max(top - 23, UNIT - 149);
	for (i = 23; i >= 0; i--)
		m = m << 1 | wide_bit(&w, low + i);
	if (wide_bit(&w, low - 1) && (m & 1 || wide_below(&w, low - 1)))
		m++;
	/* The implicit one adds itself to the exponent, and so does a carry. */
	m += (u32)(low - (UNIT - 149)) << 23;
	return sign | min(m, INF);
}

/* --- what the sum of floats must be --- */

static u32 bits_of(float x)
{
	u32 bits;

	memcpy(&bits, &x, 4);
	return bits;
}

static float float_of(u32 bits)
{
	float x;

	memcpy(&x, &bits, 4);
	return x;
}

static int exponent_of(u32 bits)	/* biased; subnormals have that of the smallest normal */
{
	return max((int)(bits >> 23 & 0xff), 1);
}

static s64 mantissa_of(u32 bits)	/* a finite float is this times 2^(exponent - 150) */
{
	s64 m = bits & 0x7fffff;

	if (bits & INF)
		m |= 0x800000;
	return bits & SIGN ? -m : m;
}

/* @m * 2^@shift as an integer, to nearest even. */
static s64 shifted(s64 m, int shift)
{
	u64 size = m < 0 ? -m : m, kept, rest, half;

	if (shift >= 0)
		return m * (s64)BIT_ULL(shift);
	shift = max(shift, -40);
	kept = size >> -shift;
	rest = size & (BIT_ULL(-shift) - 1);
	half = BIT_ULL(-shift - 1);
	kept += rest > half || (rest == half && kept & 1);
	return m < 0 ? -(s64)kept : (s64)kept;
}

/* What is known of an element from the inputs of all ranks. */
struct wanted {
	struct wide exact;		/* the sum of finite inputs */
	struct wide counted;		/* the same, each input rounded to the unit */
	u64 plus, minus;		/* infinite inputs; a NaN is both */
	u64 inexact;			/* inputs that are not multiples of the unit */
};

static void wanted_add(struct wanted *w, u32 bits, struct exact_block b)
{
	int low = b.special ? 0 : 26, shift = exponent_of(bits) - b.exponent + low;
	s64 m = mantissa_of(bits);

	if ((bits & ~SIGN) >= INF) {
		w->plus += (bits & ~SIGN) > INF || !(bits & SIGN);
		w->minus += (bits & ~SIGN) > INF || bits & SIGN;
		return;
	}
	wide_add(&w->exact, m, exponent_of(bits) - 150 + UNIT);
	wide_add(&w->counted, shifted(m, shift), b.exponent - 150 - low + UNIT);
	/* As the header says it: not zero, and below 2^(e - 153), or special 2^(e - 127). */
	w->inexact += m && exponent_of(bits) < b.exponent - low;
}

static u32 wanted_bits(const struct wanted *w)
{
	if (w->plus && w->minus)
		return DEFAULT_NAN;
	if (w->plus || w->minus)
		return w->plus ? INF : SIGN | INF;
	return wide_round(w->counted);
}

/* A number that grows with the float. */
static s64 place_of(u32 bits)
{
	return bits & SIGN ? -(s64)(bits & ~SIGN) : bits;
}

/* Does @bits lie where the header promises: half a unit for each input that was rounded? */
static bool within_bound(const struct wanted *w, u32 bits, struct exact_block b)
{
	int half = b.exponent - 177 + (b.special ? 26 : 0) + UNIT;
	struct wide low = w->exact, high = w->exact;

	if (w->plus || w->minus)
		return true;
	wide_add(&low, -(s64)w->inexact, half);
	wide_add(&high, w->inexact, half);
	return place_of(bits) >= place_of(wide_round(low)) &&
	       place_of(bits) <= place_of(wide_round(high));
}

/* --- inputs --- */

#define SPECIALS	24

static u32 special(size_t i)
{
	static const u32 list[SPECIALS / 2] = {
		0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x3f800001, 0x4b800000, 0x7f000000,
		LARGEST, INF, INF + 1, 0x7fc12345,
	};

	return list[i / 2] | (i & 1 ? SIGN : 0);
}

enum shape { ANY_EXPONENT, NEAR, BORDER, CANCEL, SUBNORMAL, LARGE, TIES, WITH_SPECIALS, SHAPE_NR };

static const char *const shape_name[] = {
	"any_exponent", "near", "border", "cancel", "subnormal", "large", "ties", "with_specials",
};

/* An input of @rank. @before is that of the rank before it; all ranks have one @base. */
static u32 draw(u64 *rng, enum shape shape, u32 base, u32 rank, u32 before)
{
	u64 r = rnd(rng);
	u32 sign = r >> 63 << 31, frac = r & 0x7fffff, any = (r >> 23 & 0xff) % 255;

	switch (shape) {
	case ANY_EXPONENT:
		return sign | any << 23 | frac;
	case NEAR:
		return sign | (base / 2 + any % 26) << 23 | frac;
	case BORDER:			/* about where an input is no multiple of the unit */
		return sign | (100 + (any % 16 ? any % 5 : 28)) << 23 | frac;
	case CANCEL:			/* almost what another rank has, negative */
		return rank & 1 ? (before ^ SIGN) + (r >> 40) % 3 : sign | any % 250 << 23 | frac;
	case SUBNORMAL:
		return sign | any % 2 << 23 | frac;
	case LARGE:
		return sign | (254 - any % 3) << 23 | (any & 4 ? 0x7fffff : frac);
	case TIES:			/* one bit each, 24 places apart */
		return sign | (base / 2 + (rank ? 22 + any % 5 : any % 2)) << 23;
	default:
		return any % 16 ? sign | any << 23 | frac : special(r >> 40 & 15) | sign;
	}
}

/* --- checks: each returns true if it found nothing wrong --- */

#define MOST	EXACT_RANKS
#define LEN	EXACT_BLOCK

static float inputs[MOST][LEN];
static int64_t sums[LEN];

static void draw_all(u64 *rng, enum shape shape, size_t ranks, size_t n)
{
	u32 base = rnd_below(rng, 200), before = 0;
	size_t r, i;

	for (i = 0; i < n; i++)
		for (r = 0; r < ranks; r++) {
			before = draw(rng, shape, base, r, before);
			inputs[r][i] = float_of(before);
		}
}

static struct exact_block agree(const struct exact *x, size_t ranks, size_t n)
{
	struct exact_block b = { 0 }, own;
	size_t r;

	for (r = 0; r < ranks; r++) {
		own = x->scan(inputs[r], n);
		b.exponent = max(b.exponent, own.exponent);
		b.special = max(b.special, own.special);
	}
	return b;
}

/* Adds up what the ranks encode. Return: false if a partial sum overflows. */
static bool add_up(const struct exact *x, size_t ranks, size_t n, struct exact_block b)
{
	int64_t own[LEN];
	size_t r, i;

	memset(sums, 0, sizeof(sums));
	for (r = 0; r < ranks; r++) {
		x->encode(own, inputs[r], n, b);
		for (i = 0; i < n; i++)
			if (__builtin_add_overflow(sums[i], own[i], &sums[i]))
				return false;
	}
	return true;
}

/* Compares the results with the reference. */
static bool as_wanted(const struct exact *x, size_t ranks, size_t n, struct exact_block b,
		      const float *got)
{
	struct wanted w;
	size_t r, i;

	for (i = 0; i < n; i++) {
		w = (struct wanted){ 0 };
		for (r = 0; r < ranks; r++)
			wanted_add(&w, bits_of(inputs[r][i]), b);
		if (bits_of(got[i]) == wanted_bits(&w) && within_bound(&w, bits_of(got[i]), b))
			continue;
		if (!quiet)
			tap_note("%s, %zu ranks, exponent %u special %u: %#x, not %#x", x->name,
				 ranks, b.exponent, b.special, bits_of(got[i]), wanted_bits(&w));
		return false;
	}
	return true;
}

/* The block as the reference knows it. */
static bool block_right(size_t ranks, size_t n, struct exact_block b)
{
	int exponent = 1, specials = 0;
	size_t r, i;
	u32 bits;

	for (r = 0; r < ranks; r++)
		for (i = 0; i < n; i++) {
			bits = bits_of(inputs[r][i]) & ~SIGN;
			specials |= bits >= INF;
			if (bits < INF)
				exponent = max(exponent, exponent_of(bits));
		}
	return b.exponent == exponent && b.special == specials;
}

/* The sums of what stands in inputs[]. */
static bool check_block(const struct exact *x, size_t ranks, size_t n, float *got)
{
	struct exact_block b = agree(x, ranks, n);

	if (!block_right(ranks, n, b) || !add_up(x, ranks, n, b))
		return false;
	x->decode(got, sums, n, b);
	return as_wanted(x, ranks, n, b, got);
}

static void permute(u64 *rng, size_t ranks)
{
	float row[LEN];
	size_t r, other;

	for (r = ranks; r > 1; r--) {
		other = rnd_below(rng, r);
		memcpy(row, inputs[r - 1], sizeof(row));
		memcpy(inputs[r - 1], inputs[other], sizeof(row));
		memcpy(inputs[other], row, sizeof(row));
	}
}

/* Random sets, then the same sets in other orders, and with ranks of +0 and -0. */
static bool check_sets(const struct exact *x, u64 *rng, enum shape shape, size_t ranks)
{
	float got[LEN], again[LEN];
	size_t n = 1 + rnd_below(rng, LEN), i;

	draw_all(rng, shape, ranks, n);
	if (!check_block(x, ranks, n, got))
		return false;
	permute(rng, ranks);
	if (!check_block(x, ranks, n, again) || memcmp(got, again, n * 4))
		return false;
	if (ranks + 2 > MOST)
		return true;
	for (i = 0; i < n; i++) {
		inputs[ranks][i] = 0;
		inputs[ranks + 1][i] = -0.0f;
	}
	permute(rng, ranks + 2);
	return check_block(x, ranks + 2, n, again) && !memcmp(got, again, n * 4);
}

/* The same for few ranks and for many. */
static bool check_shape(const struct exact *x, enum shape shape)
{
	static const size_t ranks[] = { 1, 2, 3, 5, 8, 64 };
	u64 rng = seed + shape;
	size_t i, round;

	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		for (round = 0; round < 8 * EFFORT; round++)
			if (!check_sets(x, &rng, shape, ranks[i]))
				return false;
	return true;
}

static bool check_any_exponent(const struct exact *x)
{
	return check_shape(x, ANY_EXPONENT);
}

/* Every three special values, alone and in one block with the others. */
static bool check_specials(const struct exact *x)
{
	size_t first, rest, i;
	float got[LEN];

	for (first = 0; first < SPECIALS; first++) {
		for (rest = 0; rest < SPECIALS * SPECIALS; rest++) {
			inputs[0][0] = float_of(special(first));
			inputs[1][0] = float_of(special(rest / SPECIALS));
			inputs[2][0] = float_of(special(rest % SPECIALS));
			if (!check_block(x, 3, 1, got))
				return false;
		}
		for (rest = 0; rest < SPECIALS; rest++) {
			for (i = 0; i < SPECIALS; i++) {
				inputs[0][i] = float_of(special(first));
				inputs[1][i] = float_of(special(rest));
				inputs[2][i] = float_of(special(i));
			}
			if (!check_block(x, 3, SPECIALS, got))
				return false;
		}
	}
	return true;
}

/* A rank alone has its input back. */
static bool check_alone(const struct exact *x)
{
	u64 rng = seed;
	float got[LEN];
	size_t i;
	u32 bits;

	for (i = 0; i < EFFORT * 50000; i++) {
		bits = rnd(&rng);
		inputs[0][0] = float_of(bits);
		if (!check_block(x, 1, 1, got))
			return false;
		if ((bits & ~SIGN) <= INF && bits_of(got[0]) != (bits == SIGN ? 0 : bits))
			return false;
	}
	return true;
}

/* Integers about ties of every length, each decoded with every unit. */
static bool check_decode(const struct exact *x)
{
	u64 rng = seed, r;
	struct exact_block b = { 0 };
	struct wide w;
	int64_t sum;
	float got;
	int i;

	for (i = 0; i < EFFORT * 100000; i++) {
		r = rnd(&rng);
		sum = rnd(&rng) >> 2 >> r % 40;
		if (r & BIT_ULL(40))
			sum &= ~0ULL << (r >> 41) % 40;
		if (r & BIT_ULL(61))
			sum = (sum | 1 << (r >> 50) % 20) + (s64)(r >> 62) - 1;
		if (r & BIT_ULL(60))
			sum = -sum;
		b.exponent = 1 + (r >> 32) % 254;
		/* Sums that have a fraction of a subnormal do not arise. */
		if (b.exponent < 27)
			sum -= sum % (int64_t)BIT_ULL(27 - b.exponent);
		w = (struct wide){ 0 };
		wide_add(&w, sum, b.exponent - 176 + UNIT);
		x->decode(&got, &sum, 1, b);
		if (bits_of(got) != wide_round(w))
			return false;
	}
	return true;
}

/* --- the most ranks that there may be --- */

struct part {
	u32 count, bits;
};

/* Sums of two values or three, over all EXACT_RANKS ranks. */
static const struct {
	struct part part[3];
	u32 want;
} crowds[] = {
	{ { { 16, LARGEST } }, INF },
	{ { { 4096, LARGEST } }, INF },
	{ { { 4096, LARGEST | SIGN } }, INF | SIGN },
	{ { { 2048, LARGEST }, { 2048, LARGEST | SIGN } }, 0 },
	{ { { 2048, LARGEST }, { 2047, LARGEST | SIGN }, { 1, 0x3f800000 } }, LARGEST },
	{ { { 2049, LARGEST }, { 2047, LARGEST | SIGN } }, INF },
	{ { { 4096, 1 } }, 0x1000 },
	{ { { 4096, 0x3f800000 } }, 0x45800000 },
	{ { { 4096, INF } }, INF },
	{ { { 4096, INF | SIGN } }, INF | SIGN },
	{ { { 4095, INF }, { 1, LARGEST | SIGN } }, INF },
	{ { { 4095, INF | SIGN }, { 1, INF } }, DEFAULT_NAN },
	{ { { 4096, INF + 1 } }, DEFAULT_NAN },
	{ { { 4095, LARGEST }, { 1, 0xffffffff } }, DEFAULT_NAN },
	{ { { 1, 0x4b800000 }, { 4095, 0x3f800000 } }, 0x4b800800 },
	{ { { 4096, SIGN } }, 0 },
};

/* In the first column; the second one is zero, also where the first one is special. */
static bool check_crowds(const struct exact *x)
{
	u64 rng = seed;
	size_t i, p, r, end;
	float got[LEN];

	for (i = 0; i < ARRAY_SIZE(crowds); i++) {
		for (r = 0; r < MOST; r++)
			inputs[r][0] = inputs[r][1] = 0;
		for (r = end = p = 0; p < 3; p++)
			for (end += crowds[i].part[p].count; r < end; r++)
				inputs[r][0] = float_of(crowds[i].part[p].bits);
		permute(&rng, MOST);
		if (!check_block(x, MOST, 2, got) || bits_of(got[0]) != crowds[i].want ||
		    bits_of(got[1]))
			return false;
	}
	return true;
}

static bool check_large_sets(const struct exact *x)
{
	u64 rng = seed;
	size_t i;

	for (i = 0; i < SHAPE_NR; i++)
		if (!check_sets(x, &rng, i, MOST))
			return false;
	return true;
}

/* --- arithmetic that is wrong on purpose --- */

/* Rounds toward zero. */
static void encode_truncated(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	double scale = ldexp(1, -exact_unit(b));
	size_t i;

	exact_encode(sum, x, n, b);
	for (i = 0; i < n; i++)
		if (isfinite(x[i]))
			sum[i] = (int64_t)(x[i] * scale) * BIT_ULL(exact_counts(b));
}

/* Each rank has its own unit. */
static void encode_own_unit(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	b.exponent = exact_scan(x, n).exponent;
	exact_encode(sum, x, n, b);
}

/* The unit is 2^@by of the right one. */
static void scale_by(int64_t *sum, const float *x, size_t n, struct exact_block b, int by)
{
	size_t i;

	exact_encode(sum, x, n, b);
	for (i = 0; i < n && !b.special; i++)
		sum[i] = llrint(x[i] * ldexp(1, -by - exact_unit(b)));
}

static void descale_by(float *x, const int64_t *sum, size_t n, struct exact_block b, int by)
{
	size_t i;

	exact_decode(x, sum, n, b);
	for (i = 0; i < n && !b.special; i++)
		x[i] = (float)sum[i] * ldexp(1, by + exact_unit(b));
}

static void encode_coarse(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	scale_by(sum, x, n, b, 1);
}

static void decode_coarse(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	descale_by(x, sum, n, b, 1);
}

/* More exact, but the sum of 4096 of the largest floats overflows. */
static void encode_fine(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	scale_by(sum, x, n, b, -2);
}

static void decode_fine(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	descale_by(x, sum, n, b, -2);
}

/* Counts that reach 4095: the 4096th infinity is one of the other sign. */
static void encode_short_counts(int64_t *sum, const float *x, size_t n, struct exact_block b)
{
	size_t i;

	exact_encode(sum, x, n, b);
	for (i = 0; i < n && b.special; i++)
		if (!isfinite(x[i]))
			sum[i] = (sum[i] & 1) | (sum[i] >> EXACT_COUNT) << (EXACT_COUNT - 1);
}

static void decode_short_counts(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	int64_t longer;
	size_t i;

	for (i = 0; i < n; i++) {
		longer = sum[i];
		if (b.special)
			longer = (sum[i] & ~0x3ffffffLL) | (sum[i] & 0xfff) |
				 (sum[i] & 0xfff000) << 1;
		exact_decode(&x[i], &longer, 1, b);
	}
}

/* Rounds twice: to a double, then to a float. */
static void decode_twice(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	size_t i;

	exact_decode(x, sum, n, b);
	for (i = 0; i < n && !b.special; i++)
		x[i] = (double)sum[i] * ldexp(1, exact_unit(b));
}

/* A special block is read like any other. */
static void decode_specials_lost(float *x, const int64_t *sum, size_t n, struct exact_block b)
{
	size_t i;

	exact_decode(x, sum, n, b);
	for (i = 0; i < n && b.special; i++)
		x[i] = (float)(sum[i] >> exact_counts(b)) * ldexp(1, exact_unit(b));
}

/* No rank says that it has infinities. */
static struct exact_block scan_specials_lost(const float *x, size_t n)
{
	struct exact_block b = exact_scan(x, n);

	b.special = 0;
	return b;
}

/* Subnormals have the exponent 0. */
static struct exact_block scan_subnormal_zero(const float *x, size_t n)
{
	struct exact_block b = exact_scan(x, n);
	size_t i;

	for (i = 0; i < n && b.exponent == 1; i++)
		if (bits_of(x[i]) & INF)
			return b;
	b.exponent -= b.exponent == 1;
	return b;
}

/* Only the first element counts. */
static struct exact_block scan_first_only(const float *x, size_t n)
{
	return exact_scan(x, n > 0);
}

/* Each of them, and a check that must find it. */
static const struct {
	struct exact exact;
	bool (*check)(const struct exact *x);
} mutants[] = {
	{ { "truncated", exact_scan, encode_truncated, exact_decode }, check_any_exponent },
	{ { "own_unit", exact_scan, encode_own_unit, exact_decode }, check_any_exponent },
	{ { "coarse", exact_scan, encode_coarse, decode_coarse }, check_any_exponent },
	{ { "fine", exact_scan, encode_fine, decode_fine }, check_crowds },
	{ { "short_counts", exact_scan, encode_short_counts, decode_short_counts }, check_crowds },
	{ { "rounded_twice", exact_scan, exact_encode, decode_twice }, check_decode },
	{ { "specials_lost", exact_scan, exact_encode, decode_specials_lost }, check_specials },
	{ { "specials_unseen", scan_specials_lost, exact_encode, exact_decode }, check_specials },
	{ { "subnormal_zero", scan_subnormal_zero, exact_encode, exact_decode }, check_specials },
	{ { "first_only", scan_first_only, exact_encode, exact_decode }, check_any_exponent },
};

static void test_mutants(void)
{
	size_t i;

	quiet = true;
	for (i = 0; i < ARRAY_SIZE(mutants); i++)
		tap_ok(!mutants[i].check(&mutants[i].exact), "mutant_%s__caught",
		       mutants[i].exact.name);
	quiet = false;
}

static void test_all(const struct exact *x)
{
	size_t i;

	for (i = 0; i < SHAPE_NR; i++)
		tap_ok(check_shape(x, i), "%s__sets__%s", x->name, shape_name[i]);
	tap_ok(check_large_sets(x), "%s__sets__most_ranks", x->name);
	tap_ok(check_crowds(x), "%s__crowds", x->name);
	tap_ok(check_specials(x), "%s__specials", x->name);
	tap_ok(check_alone(x), "%s__alone", x->name);
	tap_ok(check_decode(x), "%s__decode", x->name);
}

int main(void)
{
	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	test_all(&sample);
	test_all(&kernel);
#ifdef CONFIG_X86_64
	if (rar_reduce_avx2.usable())
		test_all(&avx2);
#endif
	test_mutants();
	return tap_end();
}
