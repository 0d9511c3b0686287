// SPDX-License-Identifier: GPL-2.0
/*
 * The conversions for AVX2 and F16C. Called between kernel_fpu_begin() and _end() only.
 *
 * All loads of a turn precede its stores, so the result may reach into what was read already.
 */
#include "reduce/impl.h"
#include "reduce/convert.h"

/* sparse knows no vectors. */
#ifndef __CHECKER__

#define VTYPE(name, type, bytes)					\
	typedef type name __attribute__((__vector_size__(bytes)));	\
	typedef type name##_mem						\
		__attribute__((__vector_size__(bytes), __aligned__(1), __may_alias__))

VTYPE(v8h, s16, 16);
VTYPE(v8w, u16, 16);
VTYPE(v8u, u32, 32);
VTYPE(v8f, float, 32);
VTYPE(v4f, float, 16);
VTYPE(v4d, double, 32);
VTYPE(v4i, s32, 16);
VTYPE(v4q, s64, 32);
VTYPE(v4uq, u64, 32);

#define PICK(mask, a, b)	(((a) & (mask)) | ((b) & ~(mask)))

static __always_inline v8u widen_bf16(v8w x)
{
	return __builtin_convertvector(x, v8u) << 16;
}

static __always_inline v8w narrow_bf16(v8f f)
{
	v8u u = (v8u)f, nan = (v8u)(f != f);

	u = PICK(nan, u | 0x00400000, u + 0x7fff + ((u >> 16) & 1));
	return __builtin_convertvector(u >> 16, v8w);
}

/* 2^e */
static __always_inline double power(int e)
{
	union { u64 bits; double value; } u = { .bits = (u64)(e + 1023) << 52 };

	return u.value;
}

/* To this double an integer of up to 51 bits is added exactly, in its lowest bits. */
#define MAGIC		0x1.8p52
#define MAGIC_BITS	0x4338000000000000LL

static __always_inline v4q exact_encode(v4f x, double scale)
{
	v4d d = __builtin_convertvector(x, v4d) * scale + MAGIC;

	return (v4q)d - MAGIC_BITS;
}

/*
 * The nearest float, rounded once. A double holds 53 bits; of longer sums the lowest ten bits
 * become one bit that says whether any was set, which does not change how the rest is rounded
 * to 24 bits. The upper and the lower half are each converted exactly, as lowest bits of a
 * large double.
 */
static __always_inline v4f exact_decode(v4q n, double scale)
{
	v4q mag = n ^ (n >> 63), big = mag >= (1LL << 53);
	v4q sticky = (n & ~1023LL) | (((n & 1023) != 0) & 1024);
	v4q v = PICK(big, sticky, n);
	v4q high = (v4q)(((v4uq)v >> 32) ^ 0x4530000080000000ULL);	/* 2^84 + 2^63 + ... */
	v4q low = (v & 0xffffffffLL) | 0x4330000000000000LL;		/* 2^52 + ... */
	v4d d = ((v4d)high - 0x1.000008p84) + ((v4d)low - 0x1p52);

	return __builtin_convertvector(d * scale, v4f);
}

/* To the nearest integer, a tie to the even one, as MXCSR says. */
static __always_inline v4i quant_encode(v4f x, double scale)
{
	return (v4i)__builtin_ia32_cvtpd2dq256(__builtin_convertvector(x, v4d) * scale);
}

static __always_inline v4f quant_decode(v4i n, double scale)
{
	return __builtin_convertvector(__builtin_convertvector(n, v4d) * scale, v4f);
}

/* CONVERT(name, lanes, vector read, vector written, result): @x is a vector read. */
#define CONVERT(name, lanes, from, to, set_up, result)			\
static notrace void name##_all(void *dst, const void *src, size_t n,	\
			       const struct rar_convert_how *how)	\
{									\
	size_t each_from = sizeof(from) / (lanes);			\
	size_t each_to = sizeof(to) / (lanes), i;			\
	set_up;								\
									\
	for (i = 0; i + (lanes) <= n; i += (lanes)) {			\
		from x = *(const from##_mem *)(src + i * each_from);	\
									\
		*(to##_mem *)(dst + i * each_to) = (to)(result);	\
	}								\
	if (i < n) {							\
		from x = {};						\
		to y;							\
									\
		__builtin_memcpy(&x, src + i * each_from, (n - i) * each_from); \
		y = (to)(result);					\
		__builtin_memcpy(dst + i * each_to, &y, (n - i) * each_to); \
	}								\
}

#define NOTHING	(void)how

CONVERT(widen_f16, 8, v8h, v8f, NOTHING, __builtin_ia32_vcvtph2ps256(x))
CONVERT(narrow_f16, 8, v8f, v8h, NOTHING, __builtin_ia32_vcvtps2ph256(x, 0))
CONVERT(widen_bf16, 8, v8w, v8u, NOTHING, widen_bf16(x))
CONVERT(narrow_bf16, 8, v8f, v8w, NOTHING, narrow_bf16(x))
CONVERT(exact_encode, 4, v4f, v4q, double scale = power(176 - how->block.exponent),
	exact_encode(x, scale))
CONVERT(exact_decode, 4, v4q, v4f, double scale = power(how->block.exponent - 176),
	exact_decode(x, scale))
CONVERT(quant_encode, 4, v4f, v4i, double scale = power(126 + how->bits - how->block.exponent),
	quant_encode(x, scale))
CONVERT(quant_decode, 4, v4i, v4f, double scale = power(how->block.exponent - 126 - how->bits),
	quant_decode(x, scale))

#define CONVERT_ROW(name, from, to) [RAR_C_##name] = name##_all,
const rar_convert_fn rar_convert_avx2[RAR_CONVERT_NR] = { RAR_CONVERSIONS(CONVERT_ROW) };

#endif
