// SPDX-License-Identifier: GPL-2.0
/*
 * The scalar kernels: every machine, every context, no FPU.
 *
 * All other kernels must be bit-identical to them. They compute floating point with integers,
 * because the Linux kernel is compiled without floats, and because they run when another
 * context owns the FPU.
 */
#include "reduce/impl.h"
#include "reduce/inverse.h"

/* Load and store an element at any address. */
#define ELEMENT(bits)							\
struct elem##bits {							\
	u##bits v;							\
} __packed __attribute__((__may_alias__))

ELEMENT(8);
ELEMENT(16);
ELEMENT(32);
ELEMENT(64);

/* Bits below the fraction while adding: guard, round and sticky. */
#define GRS	3

/* Add where @x or @y is at or above @inf, the magnitude above which a NaN lies. */
static u64 add_special(u64 x, u64 y, u64 sign, u64 inf, u64 quiet)
{
	u64 mag_x = x & (sign - 1), mag_y = y & (sign - 1);

	if (mag_x > inf)
		return x | quiet;
	if (mag_y > inf)
		return y | quiet;
	if (mag_x == mag_y && x != y)
		return sign | inf | quiet;
	return mag_x == inf ? x : y;
}

/* m >> n; the bits that fall out are kept as bit 0. */
static __always_inline u64 shift_sticky(u64 m, unsigned int n)
{
	if (n > 63)
		n = 63;
	return m >> n | ((m & (BIT_ULL(n) - 1)) != 0);
}

/*
 * Normalise, round to nearest even and pack a sum @m, which is not zero. Its lowest bit is
 * worth 2^-GRS of the last place of a number with the exponent @exp, and it may have
 * carried once. It is normalised to the place of the carry, so that no case needs a right
 * shift. The implicit one adds itself to the exponent, and so does the carry of rounding.
 */
static __always_inline u64 pack(u64 m, unsigned int exp, u64 inf,
				unsigned int frac)
{
	const unsigned int low = GRS + 1;
	unsigned int up = min(frac + low + 1 - fls64(m), exp);
	u64 r;

	m <<= up;
	m = (m + BIT_ULL(low - 1) - 1 + (m >> low & 1)) >> low;
	r = ((u64)(exp - up) << frac) + m;
	return min(r, inf);
}

/*
 * x + y in the binary format of @width bits with @frac bits of fraction. The constants fold:
 * both callers become straight code.
 */
static __always_inline u64 add_float(u64 x, u64 y, unsigned int frac,
				     unsigned int width)
{
	const u64 sign = BIT_ULL(width - 1);
	const u64 one = BIT_ULL(frac);
	const u64 inf = sign - one;
	unsigned int exp_a, exp_b;
	u64 a, b, m, neg;

	a = x & (sign - 1);
	b = y & (sign - 1);
	if (unlikely(a >= inf || b >= inf))
		return add_special(x, y, sign, inf, one >> 1);

	neg = (x ^ y) & sign;
	if (a < b) {
		swap(a, b);
		x = y;
	}
	exp_a = a >> frac;
	exp_b = b >> frac;
	a = (a & (one - 1)) | (exp_a ? one : 0);
	b = (b & (one - 1)) | (exp_b ? one : 0);
	exp_a += !exp_a;
	exp_b += !exp_b;

	a <<= GRS;
	b = shift_sticky(b << GRS, exp_a - exp_b);
	m = neg ? a - b : a + b;
	if (!m)
		return neg ? 0 : x & sign;
	return (x & sign) | pack(m, exp_a, inf, frac);
}

/* Multiply special values, as add_special() adds them; infinity times zero is invalid. */
static u64 mul_special(u64 x, u64 y, u64 sign, u64 inf, u64 quiet)
{
	u64 mag_x = x & (sign - 1), mag_y = y & (sign - 1);

	if (mag_x > inf)
		return x | quiet;
	if (mag_y > inf)
		return y | quiet;
	if (!mag_x || !mag_y)
		return sign | inf | quiet;
	return ((x ^ y) & sign) | inf;
}

/* Move a magnitude's implicit one to bit @frac; returns the exponent after that. */
static __always_inline int normalise(u64 *mag, unsigned int frac)
{
	int exp = *mag >> frac, up;
	u64 m = *mag & (BIT_ULL(frac) - 1);

	if (exp)
		m |= BIT_ULL(frac);
	else
		exp = 1;
	up = frac + 1 - fls64(m);
	*mag = m << up;
	return exp - up;
}

/*
 * x * y in the binary format of @width bits with @frac bits of fraction. Both are between 1
 * and 2 times a power of two. Their product has 128 bits; pack() needs frac + 1 + GRS of
 * them, and whether any bit below is set.
 */
static __always_inline u64 mul_float(u64 x, u64 y, unsigned int frac, unsigned int width)
{
	const u64 sign = BIT_ULL(width - 1), inf = sign - BIT_ULL(frac);
	const int bias = BIT(width - frac - 2) - 1;
	u64 a = x & (sign - 1), b = y & (sign - 1), s = (x ^ y) & sign, m;
	unsigned __int128 p;
	int exp;

	if (unlikely(a >= inf || b >= inf))
		return mul_special(x, y, sign, inf, BIT_ULL(frac - 1));
	if (!a || !b)
		return s;
	exp = normalise(&a, frac) + normalise(&b, frac) - bias;
	p = (unsigned __int128)a * b;
	m = (u64)(p >> (frac - GRS)) | (((u64)p & (BIT_ULL(frac - GRS) - 1)) != 0);
	if (exp >= (int)(inf >> frac))
		return s | inf;
	if (exp < 1) {
		m = shift_sticky(m, 1 - exp);
		exp = 1;
	}
	return s | pack(m, exp, inf, frac);
}

/* An unsigned integer whose order is that of the float: -0 is below +0. */
static __always_inline u64 order(u64 x, u64 sign)
{
	return x & sign ? ~x & (sign | (sign - 1)) : x | sign;
}

/* Minimum or maximum; a NaN wins, the NaN of @x first, and becomes quiet. */
static __always_inline u64 extreme_float(u64 x, u64 y, unsigned int frac, unsigned int width,
					 bool max)
{
	const u64 sign = BIT_ULL(width - 1), inf = sign - BIT_ULL(frac);
	u64 a = order(x, sign), b = order(y, sign);

	if ((x & (sign - 1)) > inf)
		return x | BIT_ULL(frac - 1);
	if ((y & (sign - 1)) > inf)
		return y | BIT_ULL(frac - 1);
	return (max ? a > b : a < b) ? x : y;
}

/*
 * x / n. The magnitude is shifted up to bit 63, and then by @up, so the quotient has at least
 * 63 bits; pack() needs frac + 1 + GRS. A remainder sets the lowest bit.
 */
static __always_inline u64 div_float(u64 x, u32 n, unsigned int frac, unsigned int width)
{
	const u64 sign = BIT_ULL(width - 1), inf = sign - BIT_ULL(frac);
	unsigned int up = fls64(n) - 1;
	u64 a = x & (sign - 1), q, rest;
	int exp;

	if (unlikely(a >= inf))
		return a > inf ? x | BIT_ULL(frac - 1) : x;
	if (!a)
		return x;
	exp = normalise(&a, frac) - (int)up - 1;
	a <<= 63 - frac;
	rest = a % n << up;
	q = (a / n << up) + rest / n;
	a = shift_sticky(q, 62 - frac - GRS) | (rest % n != 0);
	if (exp < 1) {
		a = shift_sticky(a, 1 - exp);
		exp = 1;
	}
	return (x & sign) | pack(a, exp, inf, frac);
}

/* Division by a number that stays the same is a multiplication, see inverse.h. */
static __always_inline u64 mul_high(u64 x, u64 y)
{
	return (unsigned __int128)x * y >> 64;
}

static __always_inline u64 div_u32_by(u32 x, const struct rar_inverse *inv)
{
	return mul_high(x, inv->mul_64);
}

static __always_inline u64 div_u64_by(u64 x, const struct rar_inverse *inv)
{
	u64 t = mul_high(x, inv->mul);

	return (t + ((x - t) >> 1)) >> inv->shift;
}

/* Divide signed numbers, rounded towards zero. */
#define DIV_SIGNED(bits, x, inv)					\
	((s##bits)(x) < 0 ? -div_u##bits##_by(-(x), inv) : div_u##bits##_by(x, inv))

/* KERNEL(name, bits of an element, result): @x is the arriving partial, @y is ours. */
#define KERNEL(name, bits, result)					\
static void name(void *dst, void *dst2, const void *in, const void *own, \
		 size_t len)						\
{									\
	const struct elem##bits *from = in, *mine = own;		\
	struct elem##bits *to = dst, *to2 = dst2;			\
	size_t i;							\
									\
	for (i = 0; i < len / sizeof(*to); i++) {			\
		u##bits x = from[i].v, y = mine[i].v;			\
									\
		x = (result);						\
		to[i].v = x;						\
		to2[i].v = x;						\
	}								\
}

KERNEL(sum_f32, 32, add_float(x, y, 23, 32))
KERNEL(sum_f64, 64, add_float(x, y, 52, 64))
KERNEL(sum_f16, 16, add_float(x, y, 10, 16))
KERNEL(sum_bf16, 16, add_float(x, y, 7, 16))
KERNEL(prod_f32, 32, mul_float(x, y, 23, 32))
KERNEL(prod_f64, 64, mul_float(x, y, 52, 64))
KERNEL(prod_f16, 16, mul_float(x, y, 10, 16))
KERNEL(prod_bf16, 16, mul_float(x, y, 7, 16))
KERNEL(min_f32, 32, extreme_float(x, y, 23, 32, false))
KERNEL(min_f64, 64, extreme_float(x, y, 52, 64, false))
KERNEL(min_f16, 16, extreme_float(x, y, 10, 16, false))
KERNEL(min_bf16, 16, extreme_float(x, y, 7, 16, false))
KERNEL(max_f32, 32, extreme_float(x, y, 23, 32, true))
KERNEL(max_f64, 64, extreme_float(x, y, 52, 64, true))
KERNEL(max_f16, 16, extreme_float(x, y, 10, 16, true))
KERNEL(max_bf16, 16, extreme_float(x, y, 7, 16, true))

/* A product of short elements would overflow as an int. */
#define INTEGER(bits)							\
	KERNEL(sum_i##bits, bits, x + y)				\
	KERNEL(prod_i##bits, bits, x * 1ULL * y)			\
	KERNEL(min_i##bits, bits, (s##bits)x < (s##bits)y ? x : y)	\
	KERNEL(min_u##bits, bits, x < y ? x : y)			\
	KERNEL(max_i##bits, bits, (s##bits)x > (s##bits)y ? x : y)	\
	KERNEL(max_u##bits, bits, x > y ? x : y)			\
	KERNEL(land_i##bits, bits, x && y)				\
	KERNEL(lor_i##bits, bits, x || y)				\
	KERNEL(lxor_i##bits, bits, !x != !y)

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)

KERNEL(band_u8, 8, x & y)
KERNEL(bor_u8, 8, x | y)
KERNEL(bxor_u8, 8, x ^ y)

/* DIVIDE(NAME, bits of an element, result): makes rar_NAME. @x is a complete sum. */
#define DIVIDE(name, bits, result)					\
void rar_##name(void *dst, void *dst2, u32 n, size_t len)		\
{									\
	struct elem##bits *to = dst, *to2 = dst2;			\
	const struct rar_inverse inv = rar_inverse_of(n);		\
	size_t i;							\
									\
	for (i = 0; i < len / sizeof(*to); i++) {			\
		u##bits x = to[i].v;					\
									\
		x = (result);						\
		to[i].v = x;						\
		to2[i].v = x;						\
	}								\
}

static DIVIDE(avg_f32, 32, div_float(x, inv.n, 23, 32))
static DIVIDE(avg_f64, 64, div_float(x, inv.n, 52, 64))
static DIVIDE(avg_f16, 16, div_float(x, inv.n, 10, 16))
static DIVIDE(avg_bf16, 16, div_float(x, inv.n, 7, 16))
static DIVIDE(avg_i8, 8, DIV_SIGNED(32, (s8)x, &inv))
static DIVIDE(avg_u8, 8, div_u32_by(x, &inv))
static DIVIDE(avg_i16, 16, DIV_SIGNED(32, (s16)x, &inv))
static DIVIDE(avg_u16, 16, div_u32_by(x, &inv))
DIVIDE(avg_i32, 32, DIV_SIGNED(32, x, &inv))
DIVIDE(avg_u32, 32, div_u32_by(x, &inv))
DIVIDE(avg_i64, 64, DIV_SIGNED(64, x, &inv))
DIVIDE(avg_u64, 64, div_u64_by(x, &inv))

#define DIVIDE_ROW(dtype, kernel) [RAR_##dtype] = rar_##kernel,
static const rar_divide_fn divisions[RAR_DTYPE_NR] = { RAR_DIVISIONS(DIVIDE_ROW) };

#define KERNEL_ROW(redop, dtype, kernel) [RAR_K_##kernel] = kernel,
static const rar_reduce_fn kernels[RAR_KERNEL_NR] = {
	RAR_KINDS(KERNEL_ROW, RAR_NO_ROW)
};

void rar_reduce_copy_generic(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}

u64 rar_reduce_csum_generic(const void *src, size_t len)
{
	const struct elem32 *w = src;
	u64 sum = 0;
	size_t i;

	for (i = 0; i < len / sizeof(*w); i++)
		sum += w[i].v;
	return sum;
}

static bool usable(void)
{
	return true;
}

const struct rar_reduce_impl rar_reduce_generic = {
	.name	= "generic",
	.usable	= usable,
	.kernels = kernels,
	.divide	= divisions,
	.convert = rar_convert_generic,
	.copy	= rar_reduce_copy_generic,
	.csum	= rar_reduce_csum_generic,
};
