// SPDX-License-Identifier: GPL-2.0
/*
 * The test that a set of kernels passes before it may touch anybody's data.
 *
 * Known answers come first, so that the scalar kernels are tested too. Then many lengths,
 * alignments and operands are compared with the scalar kernels. The seed is fixed: a machine
 * passes always or never.
 */
#include "reduce/impl.h"

#define MAX_N		257	/* elements: several turns and every tail */
#define MARGIN		64	/* bytes before and after a result, which must not change */
#define AREA		(RAR_SELFTEST_BYTES / 4)

struct answer {
	u8 kernel, size;
	u64 in, own, result;
};

static const struct answer answers[] __initconst = {
	/* a tie goes to even; the lowest bit of the smaller one decides */
	{ RAR_K_sum_f32, 4, 0x3f800000, 0x33800000, 0x3f800000 },
	{ RAR_K_sum_f32, 4, 0x3f800001, 0x33800000, 0x3f800002 },
	{ RAR_K_sum_f32, 4, 0x3f800000, 0x33800001, 0x3f800001 },
	{ RAR_K_sum_f32, 4, 0x3f800000, 0xb3000000, 0x3f800000 },
	{ RAR_K_sum_f32, 4, 0x3f800000, 0xb3000001, 0x3f7fffff },
	/* overflow */
	{ RAR_K_sum_f32, 4, 0x7f7fffff, 0x73000000, 0x7f800000 },
	{ RAR_K_sum_f32, 4, 0x7f7fffff, 0x72ffffff, 0x7f7fffff },
	/* denormals */
	{ RAR_K_sum_f32, 4, 0x00000001, 0x00000001, 0x00000002 },
	{ RAR_K_sum_f32, 4, 0x007fffff, 0x00000001, 0x00800000 },
	{ RAR_K_sum_f32, 4, 0x00800000, 0x80000001, 0x007fffff },
	/* zeros */
	{ RAR_K_sum_f32, 4, 0x80000000, 0x80000000, 0x80000000 },
	{ RAR_K_sum_f32, 4, 0x80000000, 0x00000000, 0x00000000 },
	{ RAR_K_sum_f32, 4, 0x3f800000, 0xbf800000, 0x00000000 },
	/* infinities and NaNs */
	{ RAR_K_sum_f32, 4, 0xff800000, 0x7f7fffff, 0xff800000 },
	{ RAR_K_sum_f32, 4, 0x7f800000, 0xff800000, 0xffc00000 },
	{ RAR_K_sum_f32, 4, 0xff800000, 0x7f800000, 0xffc00000 },
	{ RAR_K_sum_f32, 4, 0x7f800001, 0xffc00002, 0x7fc00001 },
	{ RAR_K_sum_f32, 4, 0xffc00003, 0x7f800004, 0xffc00003 },
	{ RAR_K_sum_f32, 4, 0x3f800000, 0xff800005, 0xffc00005 },
	{ RAR_K_sum_f32, 4, 0x7fc00006, 0x7f800000, 0x7fc00006 },

	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000000 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000001, 0x3ca0000000000000, 0x3ff0000000000002 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0x3ca0000000000001, 0x3ff0000000000001 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0xbc90000000000000, 0x3ff0000000000000 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0xbc90000000000001, 0x3fefffffffffffff },
	{ RAR_K_sum_f64, 8, 0x7fefffffffffffff, 0x7c90000000000000, 0x7ff0000000000000 },
	{ RAR_K_sum_f64, 8, 0x7fefffffffffffff, 0x7c8fffffffffffff, 0x7fefffffffffffff },
	{ RAR_K_sum_f64, 8, 0x0000000000000001, 0x0000000000000001, 0x0000000000000002 },
	{ RAR_K_sum_f64, 8, 0x000fffffffffffff, 0x0000000000000001, 0x0010000000000000 },
	{ RAR_K_sum_f64, 8, 0x0010000000000000, 0x8000000000000001, 0x000fffffffffffff },
	{ RAR_K_sum_f64, 8, 0x8000000000000000, 0x8000000000000000, 0x8000000000000000 },
	{ RAR_K_sum_f64, 8, 0x8000000000000000, 0x0000000000000000, 0x0000000000000000 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0xbff0000000000000, 0x0000000000000000 },
	{ RAR_K_sum_f64, 8, 0xfff0000000000000, 0x7fefffffffffffff, 0xfff0000000000000 },
	{ RAR_K_sum_f64, 8, 0x7ff0000000000000, 0xfff0000000000000, 0xfff8000000000000 },
	{ RAR_K_sum_f64, 8, 0xfff0000000000000, 0x7ff0000000000000, 0xfff8000000000000 },
	{ RAR_K_sum_f64, 8, 0x7ff0000000000001, 0xfff8000000000002, 0x7ff8000000000001 },
	{ RAR_K_sum_f64, 8, 0xfff8000000000003, 0x7ff0000000000004, 0xfff8000000000003 },
	{ RAR_K_sum_f64, 8, 0x3ff0000000000000, 0xfff0000000000005, 0xfff8000000000005 },
	{ RAR_K_sum_f64, 8, 0x7ff8000000000006, 0x7ff0000000000000, 0x7ff8000000000006 },

	{ RAR_K_sum_i32, 4, 0x7fffffff, 0x00000001, 0x80000000 },
	{ RAR_K_sum_i32, 4, 0x80000000, 0xffffffff, 0x7fffffff },
	{ RAR_K_sum_i32, 4, 0xffffffff, 0x00000001, 0x00000000 },
	{ RAR_K_sum_i64, 8, 0x7fffffffffffffff, 0x0000000000000001, 0x8000000000000000 },
	{ RAR_K_sum_i64, 8, 0x8000000000000000, 0xffffffffffffffff, 0x7fffffffffffffff },
	{ RAR_K_sum_i64, 8, 0x00000000ffffffff, 0x0000000000000001, 0x0000000100000000 },
	{ RAR_K_sum_i8, 1, 0x7f, 0x01, 0x80 },
	{ RAR_K_sum_i16, 2, 0xffff, 0x0001, 0x0000 },

	/* 16 bits: ties, the largest number, denormals, an invalid sum */
	{ RAR_K_sum_f16, 2, 0x3c00, 0x1000, 0x3c00 },
	{ RAR_K_sum_f16, 2, 0x3c01, 0x1000, 0x3c02 },
	{ RAR_K_sum_f16, 2, 0x7bff, 0x4c00, 0x7c00 },
	{ RAR_K_sum_f16, 2, 0x03ff, 0x0001, 0x0400 },
	{ RAR_K_sum_f16, 2, 0x7c00, 0xfc00, 0xfe00 },
	{ RAR_K_sum_f16, 2, 0x7c01, 0xfe02, 0x7e01 },
	{ RAR_K_sum_bf16, 2, 0x3f80, 0x3b80, 0x3f80 },
	{ RAR_K_sum_bf16, 2, 0x3f81, 0x3b80, 0x3f82 },
	{ RAR_K_sum_bf16, 2, 0x7f7f, 0x7b00, 0x7f80 },
	{ RAR_K_sum_bf16, 2, 0x007f, 0x0001, 0x0080 },
	{ RAR_K_sum_bf16, 2, 0x7f80, 0xff80, 0xffc0 },

	/* products: ties, into the denormals, overflow, an infinity times zero */
	{ RAR_K_prod_f32, 4, 0x3f800001, 0x3f800001, 0x3f800002 },
	{ RAR_K_prod_f32, 4, 0x3f800001, 0x3fc00000, 0x3fc00002 },
	{ RAR_K_prod_f32, 4, 0x00800000, 0x3f000000, 0x00400000 },
	{ RAR_K_prod_f32, 4, 0x00000001, 0x3f000000, 0x00000000 },
	{ RAR_K_prod_f32, 4, 0x00000003, 0xbf000000, 0x80000002 },
	{ RAR_K_prod_f32, 4, 0x7f000000, 0x40000000, 0x7f800000 },
	{ RAR_K_prod_f32, 4, 0xff800000, 0x00000000, 0xffc00000 },
	{ RAR_K_prod_f32, 4, 0x7f800001, 0x00000000, 0x7fc00001 },
	{ RAR_K_prod_f64, 8, 0x3ff0000000000001, 0x3ff8000000000000, 0x3ff8000000000002 },
	{ RAR_K_prod_f64, 8, 0x0000000000000003, 0x3fe0000000000000, 0x0000000000000002 },
	{ RAR_K_prod_f64, 8, 0x7fe0000000000000, 0x4000000000000000, 0x7ff0000000000000 },
	{ RAR_K_prod_f16, 2, 0x3c01, 0x3e00, 0x3e02 },
	{ RAR_K_prod_f16, 2, 0x0003, 0x3800, 0x0002 },
	{ RAR_K_prod_f16, 2, 0x7800, 0x4000, 0x7c00 },
	{ RAR_K_prod_bf16, 2, 0x3f81, 0x3fc0, 0x3fc2 },
	{ RAR_K_prod_bf16, 2, 0x0003, 0x3f00, 0x0002 },
	{ RAR_K_prod_i8, 1, 0x13, 0x27, 0xe5 },
	{ RAR_K_prod_i16, 2, 0xffff, 0xffff, 0x0001 },
	{ RAR_K_prod_i32, 4, 0x00010000, 0x00010001, 0x00010000 },
	{ RAR_K_prod_i64, 8, 0x00000001ffffffff, 0x0000000100000001, 0x00000000ffffffff },

	/* minimum and maximum: zeros, NaNs, signs */
	{ RAR_K_min_f32, 4, 0x00000000, 0x80000000, 0x80000000 },
	{ RAR_K_max_f32, 4, 0x80000000, 0x00000000, 0x00000000 },
	{ RAR_K_min_f32, 4, 0xff800000, 0x7f800001, 0x7fc00001 },
	{ RAR_K_max_f32, 4, 0xff800002, 0x7f800001, 0xffc00002 },
	{ RAR_K_max_f32, 4, 0xbf800000, 0xc0000000, 0xbf800000 },
	{ RAR_K_min_f64, 8, 0x0000000000000000, 0x8000000000000000, 0x8000000000000000 },
	{ RAR_K_max_f64, 8, 0x3ff0000000000000, 0xfff0000000000001, 0xfff8000000000001 },
	{ RAR_K_min_f16, 2, 0x8001, 0x0001, 0x8001 },
	{ RAR_K_max_f16, 2, 0x3c00, 0x7c01, 0x7e01 },
	{ RAR_K_min_bf16, 2, 0x3f80, 0xbf80, 0xbf80 },
	{ RAR_K_max_bf16, 2, 0xff81, 0x7f81, 0xffc1 },
	{ RAR_K_min_i8, 1, 0x80, 0x7f, 0x80 },
	{ RAR_K_min_u8, 1, 0x80, 0x7f, 0x7f },
	{ RAR_K_max_i16, 2, 0x8000, 0x7fff, 0x7fff },
	{ RAR_K_max_u16, 2, 0x8000, 0x7fff, 0x8000 },
	{ RAR_K_min_i32, 4, 0xffffffff, 0x00000001, 0xffffffff },
	{ RAR_K_min_u32, 4, 0xffffffff, 0x00000001, 0x00000001 },
	{ RAR_K_max_i64, 8, 0xffffffffffffffff, 0x0000000000000001, 0x0000000000000001 },
	{ RAR_K_max_u64, 8, 0xffffffffffffffff, 0x0000000000000001, 0xffffffffffffffff },

	/* of two NaNs the first operand's wins; zeros have an order; -0 + -0 */
	{ RAR_K_prod_f32, 4, 0x7f800001, 0xffc00002, 0x7fc00001 },
	{ RAR_K_prod_f64, 8, 0x7ff0000000000001, 0xfff8000000000002, 0x7ff8000000000001 },
	{ RAR_K_prod_f16, 2, 0x7c01, 0xfe02, 0x7e01 },
	{ RAR_K_prod_bf16, 2, 0x7f81, 0xffc2, 0x7fc1 },
	{ RAR_K_min_f32, 4, 0x7f800001, 0xffc00002, 0x7fc00001 },
	{ RAR_K_min_f64, 8, 0x7ff0000000000001, 0xfff8000000000002, 0x7ff8000000000001 },
	{ RAR_K_min_f16, 2, 0x7c01, 0xfe02, 0x7e01 },
	{ RAR_K_min_bf16, 2, 0x7f81, 0xffc2, 0x7fc1 },
	{ RAR_K_max_f32, 4, 0x7f800001, 0xffc00002, 0x7fc00001 },
	{ RAR_K_max_f64, 8, 0x7ff0000000000001, 0xfff8000000000002, 0x7ff8000000000001 },
	{ RAR_K_max_f16, 2, 0x7c01, 0xfe02, 0x7e01 },
	{ RAR_K_max_bf16, 2, 0x7f81, 0xffc2, 0x7fc1 },
	{ RAR_K_min_f32, 4, 0x80000000, 0x00000000, 0x80000000 },
	{ RAR_K_min_f64, 8, 0x8000000000000000, 0x0000000000000000, 0x8000000000000000 },
	{ RAR_K_min_f16, 2, 0x8000, 0x0000, 0x8000 },
	{ RAR_K_min_bf16, 2, 0x8000, 0x0000, 0x8000 },
	{ RAR_K_max_f32, 4, 0x00000000, 0x80000000, 0x00000000 },
	{ RAR_K_max_f64, 8, 0x0000000000000000, 0x8000000000000000, 0x0000000000000000 },
	{ RAR_K_max_f16, 2, 0x0000, 0x8000, 0x0000 },
	{ RAR_K_max_bf16, 2, 0x0000, 0x8000, 0x0000 },
	{ RAR_K_sum_f16, 2, 0x8000, 0x8000, 0x8000 },
	{ RAR_K_sum_bf16, 2, 0x8000, 0x8000, 0x8000 },

	{ RAR_K_band_u8, 1, 0xcc, 0xaa, 0x88 },
	{ RAR_K_bor_u8, 1, 0xcc, 0xaa, 0xee },
	{ RAR_K_bxor_u8, 1, 0xcc, 0xaa, 0x66 },
	{ RAR_K_land_i8, 1, 0x80, 0x01, 0x01 },
	{ RAR_K_land_i16, 2, 0x0100, 0x0000, 0x0000 },
	{ RAR_K_lor_i32, 4, 0x00000000, 0x80000000, 0x00000001 },
	{ RAR_K_lor_i64, 8, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000 },
	{ RAR_K_lxor_i64, 8, 0x0000000000000001, 0x8000000000000000, 0x0000000000000000 },
};

struct quotient {
	u8 dtype, size;
	u32 n;
	u64 sum, result;
};

static const struct quotient quotients[] __initconst = {
	/* ties to even, a third, into and among the denormals, infinities, NaNs, zeros */
	{ RAR_F32, 4, 2, 0x00000001, 0x00000000 },
	{ RAR_F32, 4, 2, 0x00000003, 0x00000002 },
	{ RAR_F32, 4, 3, 0x3f800000, 0x3eaaaaab },
	{ RAR_F32, 4, 4096, 0x00800000, 0x00000800 },
	{ RAR_F32, 4, 4095, 0xff7fffff, 0xf9800800 },
	{ RAR_F32, 4, 7, 0xff800000, 0xff800000 },
	{ RAR_F32, 4, 7, 0xff800001, 0xffc00001 },
	{ RAR_F32, 4, 7, 0x80000000, 0x80000000 },
	{ RAR_F64, 8, 2, 0x0000000000000003, 0x0000000000000002 },
	{ RAR_F64, 8, 3, 0x3ff0000000000000, 0x3fd5555555555555 },
	{ RAR_F64, 8, 3, 0x4008000000000000, 0x3ff0000000000000 },
	{ RAR_F64, 8, 7, 0x7ff0000000000001, 0x7ff8000000000001 },
	{ RAR_F16, 2, 2, 0x0003, 0x0002 },
	{ RAR_F16, 2, 3, 0x3c00, 0x3555 },
	{ RAR_F16, 2, 9, 0xfc01, 0xfe01 },
	{ RAR_BF16, 2, 2, 0x0003, 0x0002 },
	{ RAR_BF16, 2, 3, 0xbf80, 0xbeab },
	{ RAR_BF16, 2, 9, 0x7f81, 0x7fc1 },
	/* integers towards zero, at their borders, and at and next to multiples */
	{ RAR_I8, 1, 2, 0x80, 0xc0 }, { RAR_I8, 1, 3, 0xff, 0x00 }, { RAR_I8, 1, 127, 0x81, 0xff },
	{ RAR_U8, 1, 2, 0xff, 0x7f }, { RAR_U8, 1, 256, 0xff, 0x00 },
	{ RAR_I16, 2, 3, 0x8000, 0xd556 }, { RAR_U16, 2, 3, 0xffff, 0x5555 },
	{ RAR_U16, 2, 4095, 0xeff1, 0x000f }, { RAR_U16, 2, 4095, 0xeff0, 0x000e },
	{ RAR_I32, 4, 3, 0x80000000, 0xd5555556 }, { RAR_I32, 4, 7, 0x7fffffff, 0x12492492 },
	{ RAR_U32, 4, 3, 0xffffffff, 0x55555555 }, { RAR_U32, 4, 5, 0xfffffffe, 0x33333332 },
	{ RAR_I64, 8, 2, 0x8000000000000000, 0xc000000000000000 },
	{ RAR_I64, 8, 3, 0xfffffffffffffffe, 0x0000000000000000 },
	{ RAR_U64, 8, 3, 0xffffffffffffffff, 0x5555555555555555 },
	{ RAR_U64, 8, 7, 0xfffffffffffffffe, 0x2492492492492492 },
	{ RAR_U64, 8, 4095, 0xffffffffffffffff, 0x0010010010010010 },
};

/* RAR_SIZE_F32 ..., and the size of what each kernel reduces */
#define TYPE_SIZE(type, size) RAR_SIZE_##type = (size),
enum { RAR_TYPES(TYPE_SIZE) };

#define KERNEL_SIZE(redop, dtype, kernel) RAR_SIZE_##dtype,
static const u8 sizes[RAR_KERNEL_NR] __initconst = { RAR_KINDS(KERNEL_SIZE, RAR_NO_ROW) };

static void __init run(const struct rar_reduce_impl *impl, enum rar_kernel k, void *dst,
		       void *dst2, const void *in, const void *own, size_t len)
{
	struct rar_fpu regs;

	if (impl->vector)
		rar_fpu_begin(&regs);
	impl->kernels[k](dst, dst2, in, own, len);
	if (impl->vector)
		rar_fpu_end(&regs);
}

static void __init copy(const struct rar_reduce_impl *impl, void *dst,
			const void *src, size_t len)
{
	struct rar_fpu regs;

	if (impl->vector)
		rar_fpu_begin(&regs);
	impl->copy(dst, src, len);
	if (impl->vector)
		rar_fpu_end(&regs);
}

static u64 __init csum(const struct rar_reduce_impl *impl, const void *src, size_t len)
{
	struct rar_fpu regs;
	u64 sum;

	if (impl->vector)
		rar_fpu_begin(&regs);
	sum = impl->csum(src, len);
	if (impl->vector)
		rar_fpu_end(&regs);
	return sum;
}

static void __init divide(const struct rar_reduce_impl *impl, u8 dtype, void *dst, void *dst2,
			  u32 n, size_t len)
{
	struct rar_fpu regs;

	if (impl->vector)
		rar_fpu_begin(&regs);
	impl->divide[dtype](dst, dst2, n, len);
	if (impl->vector)
		rar_fpu_end(&regs);
}

/* x86 and arm64 are little endian: the lowest bytes come first. */
static void __init put(void *p, size_t i, u8 size, u64 v)
{
	memcpy(p + i * size, &v, size);
}

/* Check every known answer in every lane. */
static bool __init check_answers(const struct rar_reduce_impl *impl, void *scratch)
{
	void *in = scratch, *own = in + AREA, *dst = own + AREA;
	void *want = dst + AREA;
	const struct answer *a;
	size_t i, n = 79;

	for (a = answers; a < answers + ARRAY_SIZE(answers); a++) {
		for (i = 0; i < n; i++) {
			put(in, i, a->size, a->in);
			put(own, i, a->size, a->own);
			put(want, i, a->size, a->result);
		}
		run(impl, a->kernel, dst, dst, in, own, n * a->size);
		if (memcmp(dst, want, n * a->size))
			return false;
	}
	return true;
}

/* Check every known quotient in every lane. */
static bool __init check_quotients(const struct rar_reduce_impl *impl, void *scratch)
{
	void *dst = scratch, *want = dst + AREA;
	const struct quotient *q;
	size_t i, n = 79;

	for (q = quotients; q < quotients + ARRAY_SIZE(quotients); q++) {
		for (i = 0; i < n; i++) {
			put(dst, i, q->size, q->sum);
			put(want, i, q->size, q->result);
		}
		divide(impl, q->dtype, dst, dst, q->n, n * q->size);
		if (memcmp(dst, want, n * q->size))
			return false;
	}
	return true;
}

/* xorshift64*, Marsaglia and Vigna */
static u64 __init draw(u64 *state)
{
	u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/*
 * Draw an operand: any bits, an exponent near the others' so that all cases of rounding
 * occur, or an operand of the known answers.
 */
static u64 __init operand(u64 *state, u8 size)
{
	const struct answer *a;
	u64 r = draw(state);

	switch (r >> 62) {
	case 0:
		a = &answers[(u32)r % ARRAY_SIZE(answers)];
		return r & BIT_ULL(33) ? a->in : a->own;
	case 1:
		if (size == 2)
			return (r & 0x83ff) | 0x3c00;
		if (size == 4)
			return (r & 0x83ffffff) | 0x3c000000;
		return (r & 0x803fffffffffffff) | 0x3fc0000000000000;
	default:
		return size == 8 ? r << 2 : r >> 16;
	}
}

static void __init fill(void *p, size_t n, u8 size, u64 *state)
{
	size_t i;

	for (i = 0; i < n; i++)
		put(p, i, size, operand(state, size));
}

/* Check one length, at random alignments, out of place and in place. */
static bool __init check_length(const struct rar_reduce_impl *impl, enum rar_kernel k,
				size_t n, u64 *state, void *scratch)
{
	void *in = scratch + draw(state) % MARGIN;
	void *own = scratch + AREA + MARGIN + draw(state) % MARGIN;
	void *dst = scratch + 2 * AREA + MARGIN + draw(state) % MARGIN;
	void *want = scratch + 3 * AREA + MARGIN;
	size_t len = n * sizes[k], all = len + 2 * MARGIN;

	fill(in, n, sizes[k], state);
	fill(own, n, sizes[k], state);

	memset(dst - MARGIN, 0xa5, all);
	memset(want - MARGIN, 0xa5, all);
	rar_reduce_generic.kernels[k](want, want, in, own, len);
	run(impl, k, dst, dst, in, own, len);
	if (memcmp(dst - MARGIN, want - MARGIN, all))
		return false;

	memcpy(dst, own, len);
	run(impl, k, dst, dst, in, dst, len);
	if (memcmp(dst - MARGIN, want - MARGIN, all))
		return false;

	memcpy(dst, in, len);
	run(impl, k, dst, dst, dst, own, len);
	return !memcmp(dst - MARGIN, want - MARGIN, all);
}

/* Check one length with the results in two places, and check the copy. */
static bool __init check_both(const struct rar_reduce_impl *impl, enum rar_kernel k,
			      size_t n, u64 *state, void *scratch)
{
	void *in = scratch + MARGIN + draw(state) % MARGIN;
	void *own = scratch + AREA + MARGIN + draw(state) % MARGIN;
	void *to = scratch + 2 * AREA + MARGIN + draw(state) % MARGIN;
	void *want = scratch + 3 * AREA + MARGIN;
	size_t len = n * sizes[k], all = len + 2 * MARGIN;

	memset(in - MARGIN, 0xa5, all);
	memset(own - MARGIN, 0xa5, all);
	memset(to - MARGIN, 0xa5, all);
	memset(want - MARGIN, 0xa5, all);
	fill(in, n, sizes[k], state);
	fill(own, n, sizes[k], state);
	rar_reduce_generic.kernels[k](want, want, in, own, len);

	run(impl, k, own, in, in, own, len);
	copy(impl, to, own, len);
	return !memcmp(in - MARGIN, want - MARGIN, all) &&
	       !memcmp(own - MARGIN, want - MARGIN, all) &&
	       !memcmp(to - MARGIN, want - MARGIN, all);
}

/* Check the division of one length, in place and with the results in two places. */
static bool __init check_division(const struct rar_reduce_impl *impl, u8 dtype, u8 size,
				  size_t n, u64 *state, void *scratch)
{
	void *dst = scratch + MARGIN + draw(state) % MARGIN;
	void *dst2 = scratch + AREA + MARGIN + draw(state) % MARGIN;
	void *want = scratch + 2 * AREA + MARGIN;
	u32 by = 2 + draw(state) % (draw(state) & 1 ? 9 : RAR_MAX_SIZE - 1);
	size_t len = n * size, all = len + 2 * MARGIN;

	memset(dst - MARGIN, 0xa5, all);
	memset(dst2 - MARGIN, 0xa5, all);
	memset(want - MARGIN, 0xa5, all);
	fill(dst, n, size, state);
	memcpy(want, dst, len);
	rar_reduce_generic.divide[dtype](want, want, by, len);

	if (n % 2) {
		divide(impl, dtype, dst, dst2, by, len);
		return !memcmp(dst - MARGIN, want - MARGIN, all) &&
		       !memcmp(dst2 - MARGIN, want - MARGIN, all);
	}
	divide(impl, dtype, dst, dst, by, len);
	return !memcmp(dst - MARGIN, want - MARGIN, all);
}

/* Does each type that has averages have a division? */
static bool __init divides_all(const struct rar_reduce_impl *impl)
{
#define ROW(redop, dtype, kernel) { RAR_##redop, RAR_##dtype },
	static const u8 rows[][2] __initconst = { RAR_ALL_KINDS(ROW) };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i][0] == RAR_AVG && !impl->divide[rows[i][1]])
			return false;
	return true;
}

static bool __init check_divisions(const struct rar_reduce_impl *impl, u64 *state,
				   void *scratch)
{
#define DTYPE_SIZE(type, size) [RAR_##type] = (size),
	static const u8 of[RAR_DTYPE_NR] __initconst = { RAR_TYPES(DTYPE_SIZE) };
	u8 dtype;
	size_t n;

	if (!divides_all(impl) || !check_quotients(impl, scratch))
		return false;
	for (dtype = RAR_F32; dtype < RAR_DTYPE_NR; dtype++)
		for (n = 0; impl->divide[dtype] && n <= MAX_N; n += n < 72 ? 1 + n / 9 : 37)
			if (!check_division(impl, dtype, of[dtype], n, state, scratch))
				return false;
	return true;
}

/* Check the sum of any words, then of the largest ones, which overflow a lane of 32 bits. */
static bool __init check_csum(const struct rar_reduce_impl *impl, u64 *state,
			      void *scratch)
{
	void *src = scratch + 1;
	size_t len, i;

	for (i = 0; i < 2 * AREA / 8; i++)
		put(scratch, i, 8, draw(state));
	for (len = RAR_CSUM_STEP; len < AREA; len += RAR_CSUM_STEP)
		if (csum(impl, src, len) != rar_reduce_csum_generic(src, len))
			return false;
	memset(scratch, 0xff, 2 * AREA);
	return csum(impl, src, AREA) == (u64)U32_MAX * (AREA / 4);
}

/**
 * rar_reduce_selftest - does @impl give the right bits?
 * @impl:    the kernels; the CPU has what they need
 * @scratch: RAR_SELFTEST_BYTES bytes, 8-byte aligned
 *
 * Context: process, FPU usable.
 * Return: true if it does.
 */
bool __init rar_reduce_selftest(const struct rar_reduce_impl *impl,
				void *scratch)
{
	u64 state = 0x5ca1ab1e0ddba11dULL;
	enum rar_kernel k;
	size_t n;

	BUILD_BUG_ON(MAX_N * 8 + 3 * MARGIN > AREA);
	BUILD_BUG_ON(AREA % RAR_CSUM_STEP);

	if (!check_answers(impl, scratch))
		return false;

	for (k = 0; k < RAR_KERNEL_NR; k++)
		for (n = 0; n <= MAX_N; n += n < 72 ? 1 + n / 9 : 37)
			if (!check_length(impl, k, n, &state, scratch) ||
			    !check_both(impl, k, n, &state, scratch))
				return false;
	return check_divisions(impl, &state, scratch) && check_csum(impl, &state, scratch) &&
	       rar_convert_selftest(impl, scratch);
}
