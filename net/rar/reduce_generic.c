// SPDX-License-Identifier: GPL-2.0
/*
 * The scalar kernels: every machine, every context, no FPU.
 *
 * They define the bits that all other kernels must give. Floating point is
 * done with integers: the kernel is compiled without floats, and the case
 * these are for is "somebody else owns the FPU".
 */
#include "reduce_impl.h"

/* Unaligned elements. */
struct elem32 {
	u32 v;
} __packed __attribute__((__may_alias__));

struct elem64 {
	u64 v;
} __packed __attribute__((__may_alias__));

/* Bits below the fraction while adding: guard, round and sticky. */
#define GRS	3

/* @inf: the magnitude above which a NaN lies; @x or @y is at or above it. */
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

/* m >> n; what falls out leaves its trace in bit 0. */
static __always_inline u64 shift_sticky(u64 m, unsigned int n)
{
	if (n > 63)
		n = 63;
	return m >> n | ((m & (BIT_ULL(n) - 1)) != 0);
}

/*
 * @m: a sum, not zero: its lowest bit is worth 2^-GRS of the last place of a
 * number with the exponent @exp, and it may have carried once. Normalise to
 * where the carry goes, so that no case needs a right shift; round to nearest
 * even; pack: the implicit one adds itself to the exponent, and so does the
 * carry of the rounding.
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
 * x + y in the binary format of @width bits with @frac bits of fraction.
 * The constants fold: both callers become straight code.
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

static void sum_f32(void *dst, const void *in, const void *own, size_t n)
{
	const struct elem32 *x = in, *y = own;
	struct elem32 *z = dst;
	size_t i;

	for (i = 0; i < n; i++)
		z[i].v = add_float(x[i].v, y[i].v, 23, 32);
}

static void sum_f64(void *dst, const void *in, const void *own, size_t n)
{
	const struct elem64 *x = in, *y = own;
	struct elem64 *z = dst;
	size_t i;

	for (i = 0; i < n; i++)
		z[i].v = add_float(x[i].v, y[i].v, 52, 64);
}

static void sum_i32(void *dst, const void *in, const void *own, size_t n)
{
	const struct elem32 *x = in, *y = own;
	struct elem32 *z = dst;
	size_t i;

	for (i = 0; i < n; i++)
		z[i].v = x[i].v + y[i].v;
}

static void sum_i64(void *dst, const void *in, const void *own, size_t n)
{
	const struct elem64 *x = in, *y = own;
	struct elem64 *z = dst;
	size_t i;

	for (i = 0; i < n; i++)
		z[i].v = x[i].v + y[i].v;
}

/**
 * rar_reduce_run_generic - reduce without vector registers
 * @dtype: enum rar_dtype
 * @redop: enum rar_redop; rar_reduce_supported() has said yes to both
 * @dst:   where the results go
 * @in:    first operand, the arriving partial
 * @own:   second operand
 * @n:     elements
 */
void rar_reduce_run_generic(u8 dtype, u8 redop, void *dst, const void *in,
			    const void *own, size_t n)
{
	RAR_REDUCE_SWITCH(sum, WARN_ON_ONCE(1));
}

/* Bytes of an element that there is a kernel for. */
static size_t element(u8 dtype)
{
	return dtype == RAR_F32 || dtype == RAR_I32 ? 4 : 8;
}

/* As rar_reduce_run_generic(); the results replace @in as well. */
void rar_reduce_both_generic(u8 dtype, u8 redop, void *dst, void *in,
			     const void *own, size_t n)
{
	rar_reduce_run_generic(dtype, redop, dst, in, own, n);
	memcpy(in, dst, n * element(dtype));
}

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
	.run	= rar_reduce_run_generic,
	.both	= rar_reduce_both_generic,
	.copy	= rar_reduce_copy_generic,
	.csum	= rar_reduce_csum_generic,
};
