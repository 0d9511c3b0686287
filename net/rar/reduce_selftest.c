// SPDX-License-Identifier: GPL-2.0
/*
 * The test that a set of kernels passes before it may touch anybody's data.
 *
 * Known answers first, so that the scalar kernels are tested too; then many
 * lengths, alignments and operands against the scalar kernels. The seed is
 * fixed: a machine passes always or never.
 */
#include "reduce_impl.h"

#define MAX_N		257	/* elements: several turns and every tail */
#define MARGIN		64	/* bytes round a result that must not change */
#define AREA		(RAR_SELFTEST_BYTES / 4)

struct answer {
	u8 dtype;
	u64 in, own, sum;
};

static const struct answer answers[] __initconst = {
	/* a tie goes to even; the lowest bit of the smaller one decides */
	{ RAR_F32, 0x3f800000, 0x33800000, 0x3f800000 },
	{ RAR_F32, 0x3f800001, 0x33800000, 0x3f800002 },
	{ RAR_F32, 0x3f800000, 0x33800001, 0x3f800001 },
	{ RAR_F32, 0x3f800000, 0xb3000000, 0x3f800000 },
	{ RAR_F32, 0x3f800000, 0xb3000001, 0x3f7fffff },
	/* overflow */
	{ RAR_F32, 0x7f7fffff, 0x73000000, 0x7f800000 },
	{ RAR_F32, 0x7f7fffff, 0x72ffffff, 0x7f7fffff },
	/* denormals */
	{ RAR_F32, 0x00000001, 0x00000001, 0x00000002 },
	{ RAR_F32, 0x007fffff, 0x00000001, 0x00800000 },
	{ RAR_F32, 0x00800000, 0x80000001, 0x007fffff },
	/* zeros */
	{ RAR_F32, 0x80000000, 0x80000000, 0x80000000 },
	{ RAR_F32, 0x80000000, 0x00000000, 0x00000000 },
	{ RAR_F32, 0x3f800000, 0xbf800000, 0x00000000 },
	/* infinities and NaNs */
	{ RAR_F32, 0xff800000, 0x7f7fffff, 0xff800000 },
	{ RAR_F32, 0x7f800000, 0xff800000, 0xffc00000 },
	{ RAR_F32, 0xff800000, 0x7f800000, 0xffc00000 },
	{ RAR_F32, 0x7f800001, 0xffc00002, 0x7fc00001 },
	{ RAR_F32, 0xffc00003, 0x7f800004, 0xffc00003 },
	{ RAR_F32, 0x3f800000, 0xff800005, 0xffc00005 },
	{ RAR_F32, 0x7fc00006, 0x7f800000, 0x7fc00006 },

	{ RAR_F64, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000000 },
	{ RAR_F64, 0x3ff0000000000001, 0x3ca0000000000000, 0x3ff0000000000002 },
	{ RAR_F64, 0x3ff0000000000000, 0x3ca0000000000001, 0x3ff0000000000001 },
	{ RAR_F64, 0x3ff0000000000000, 0xbc90000000000000, 0x3ff0000000000000 },
	{ RAR_F64, 0x3ff0000000000000, 0xbc90000000000001, 0x3fefffffffffffff },
	{ RAR_F64, 0x7fefffffffffffff, 0x7c90000000000000, 0x7ff0000000000000 },
	{ RAR_F64, 0x7fefffffffffffff, 0x7c8fffffffffffff, 0x7fefffffffffffff },
	{ RAR_F64, 0x0000000000000001, 0x0000000000000001, 0x0000000000000002 },
	{ RAR_F64, 0x000fffffffffffff, 0x0000000000000001, 0x0010000000000000 },
	{ RAR_F64, 0x0010000000000000, 0x8000000000000001, 0x000fffffffffffff },
	{ RAR_F64, 0x8000000000000000, 0x8000000000000000, 0x8000000000000000 },
	{ RAR_F64, 0x8000000000000000, 0x0000000000000000, 0x0000000000000000 },
	{ RAR_F64, 0x3ff0000000000000, 0xbff0000000000000, 0x0000000000000000 },
	{ RAR_F64, 0xfff0000000000000, 0x7fefffffffffffff, 0xfff0000000000000 },
	{ RAR_F64, 0x7ff0000000000000, 0xfff0000000000000, 0xfff8000000000000 },
	{ RAR_F64, 0xfff0000000000000, 0x7ff0000000000000, 0xfff8000000000000 },
	{ RAR_F64, 0x7ff0000000000001, 0xfff8000000000002, 0x7ff8000000000001 },
	{ RAR_F64, 0xfff8000000000003, 0x7ff0000000000004, 0xfff8000000000003 },
	{ RAR_F64, 0x3ff0000000000000, 0xfff0000000000005, 0xfff8000000000005 },
	{ RAR_F64, 0x7ff8000000000006, 0x7ff0000000000000, 0x7ff8000000000006 },

	{ RAR_I32, 0x7fffffff, 0x00000001, 0x80000000 },
	{ RAR_I32, 0x80000000, 0xffffffff, 0x7fffffff },
	{ RAR_I32, 0xffffffff, 0x00000001, 0x00000000 },
	{ RAR_I64, 0x7fffffffffffffff, 0x0000000000000001, 0x8000000000000000 },
	{ RAR_I64, 0x8000000000000000, 0xffffffffffffffff, 0x7fffffffffffffff },
	{ RAR_I64, 0x00000000ffffffff, 0x0000000000000001, 0x0000000100000000 },
};

struct type {
	u8 dtype, size;
};

static const struct type types[] __initconst = {
	{ RAR_F32, 4 }, { RAR_F64, 8 }, { RAR_I32, 4 }, { RAR_I64, 8 },
};

static void __init sum(const struct rar_reduce_impl *impl, u8 dtype, void *dst,
		       const void *in, const void *own, size_t n)
{
	if (impl->vector)
		rar_fpu_begin();
	impl->run(dtype, RAR_SUM, dst, in, own, n);
	if (impl->vector)
		rar_fpu_end();
}

static void __init both(const struct rar_reduce_impl *impl, u8 dtype, void *dst,
			void *in, const void *own, size_t n)
{
	if (impl->vector)
		rar_fpu_begin();
	impl->both(dtype, RAR_SUM, dst, in, own, n);
	if (impl->vector)
		rar_fpu_end();
}

static void __init copy(const struct rar_reduce_impl *impl, void *dst,
			const void *src, size_t len)
{
	if (impl->vector)
		rar_fpu_begin();
	impl->copy(dst, src, len);
	if (impl->vector)
		rar_fpu_end();
}

static u64 __init csum(const struct rar_reduce_impl *impl, const void *src, size_t len)
{
	u64 sum;

	if (impl->vector)
		rar_fpu_begin();
	sum = impl->csum(src, len);
	if (impl->vector)
		rar_fpu_end();
	return sum;
}

static void __init put(void *p, size_t i, u8 size, u64 v)
{
	u32 v32 = v;

	memcpy(p + i * size, size == 4 ? (void *)&v32 : &v, size);
}

/* Every answer in every lane. */
static bool __init check_answers(const struct rar_reduce_impl *impl,
				 void *scratch)
{
	void *in = scratch, *own = in + AREA, *dst = own + AREA;
	void *want = dst + AREA;
	const struct answer *a;
	size_t i, n = 39;
	u8 size;

	for (a = answers; a < answers + ARRAY_SIZE(answers); a++) {
		size = a->dtype == RAR_F32 || a->dtype == RAR_I32 ? 4 : 8;
		for (i = 0; i < n; i++) {
			put(in, i, size, a->in);
			put(own, i, size, a->own);
			put(want, i, size, a->sum);
		}
		sum(impl, a->dtype, dst, in, own, n);
		if (memcmp(dst, want, n * size))
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
 * An operand: any bits, or an exponent near the others' so that all rounding
 * is met, or one that the known answers found interesting.
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
		if (size == 4)
			return (r & 0x83ffffff) | 0x3c000000;
		return (r & 0x803fffffffffffff) | 0x3fc0000000000000;
	default:
		return size == 4 ? r >> 16 : r << 2;
	}
}

static void __init fill(void *p, size_t n, u8 size, u64 *state)
{
	size_t i;

	for (i = 0; i < n; i++)
		put(p, i, size, operand(state, size));
}

/* One length, at random alignments, out of place and in place. */
static bool __init check_length(const struct rar_reduce_impl *impl, u8 dtype,
				u8 size, size_t n, u64 *state, void *scratch)
{
	void *in = scratch + draw(state) % MARGIN;
	void *own = scratch + AREA + MARGIN + draw(state) % MARGIN;
	void *dst = scratch + 2 * AREA + MARGIN + draw(state) % MARGIN;
	void *want = scratch + 3 * AREA + MARGIN;
	size_t len = n * size + 2 * MARGIN;

	fill(in, n, size, state);
	fill(own, n, size, state);

	memset(dst - MARGIN, 0xa5, len);
	memset(want - MARGIN, 0xa5, len);
	rar_reduce_run_generic(dtype, RAR_SUM, want, in, own, n);
	sum(impl, dtype, dst, in, own, n);
	if (memcmp(dst - MARGIN, want - MARGIN, len))
		return false;

	memcpy(dst, own, n * size);
	sum(impl, dtype, dst, in, dst, n);
	if (memcmp(dst - MARGIN, want - MARGIN, len))
		return false;

	memcpy(dst, in, n * size);
	sum(impl, dtype, dst, dst, own, n);
	return !memcmp(dst - MARGIN, want - MARGIN, len);
}

/* The same with the results in two places, and their copy. */
static bool __init check_both(const struct rar_reduce_impl *impl, u8 dtype,
			      u8 size, size_t n, u64 *state, void *scratch)
{
	void *in = scratch + MARGIN + draw(state) % MARGIN;
	void *own = scratch + AREA + MARGIN + draw(state) % MARGIN;
	void *to = scratch + 2 * AREA + MARGIN + draw(state) % MARGIN;
	void *want = scratch + 3 * AREA + MARGIN;
	size_t len = n * size + 2 * MARGIN;

	memset(in - MARGIN, 0xa5, len);
	memset(own - MARGIN, 0xa5, len);
	memset(to - MARGIN, 0xa5, len);
	memset(want - MARGIN, 0xa5, len);
	fill(in, n, size, state);
	fill(own, n, size, state);
	rar_reduce_run_generic(dtype, RAR_SUM, want, in, own, n);

	both(impl, dtype, own, in, own, n);
	copy(impl, to, own, n * size);
	return !memcmp(in - MARGIN, want - MARGIN, len) &&
	       !memcmp(own - MARGIN, want - MARGIN, len) &&
	       !memcmp(to - MARGIN, want - MARGIN, len);
}

/* Any words, then the largest ones, which overflow a lane of 32 bits. */
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
 * rar_reduce_selftest - does @impl give the bits it should
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
	size_t t, n;

	BUILD_BUG_ON(MAX_N * 8 + 3 * MARGIN > AREA);
	BUILD_BUG_ON(AREA % RAR_CSUM_STEP);

	if (!check_answers(impl, scratch))
		return false;

	for (t = 0; t < ARRAY_SIZE(types); t++)
		for (n = 0; n <= MAX_N; n += n < 72 ? 1 : 37)
			if (!check_length(impl, types[t].dtype, types[t].size,
					  n, &state, scratch) ||
			    !check_both(impl, types[t].dtype, types[t].size,
					n, &state, scratch))
				return false;
	return check_csum(impl, &state, scratch);
}
