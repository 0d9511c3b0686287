/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The template of all vector kernels, in GCC's vector extensions.
 *
 * A file for one instruction set includes it after defining VEC, the bytes of a register, and
 * KERNELS and DIVISIONS, the names of its tables, and including the vec.h of its architecture.
 * Such a file holds nothing except kernels, because it is compiled with vector registers
 * (core-api/floating-point.rst). Kbuild also forbids it to fuse a multiplication with an
 * addition, which would round once instead of twice.
 *
 * All loads of a turn precede its stores, so a result may lie where an operand was.
 */
#define INL	static __always_inline

/* Lanes in a register, and in memory at any address. */
#define VTYPE(name, type)						\
	typedef type name __attribute__((__vector_size__(VEC)));	\
	typedef type name##_mem __attribute__((__vector_size__(VEC), __aligned__(1), __may_alias__))

VTYPE(vu8, u8);
VTYPE(vs8, s8);
VTYPE(vu16, u16);
VTYPE(vs16, s16);
VTYPE(vu32, u32);
VTYPE(vs32, s32);
VTYPE(vu64, u64);
VTYPE(vs64, s64);
VTYPE(vf32, float);
VTYPE(vf64, double);

/* The lanes of @a where @mask is all ones, of @b where it is all zeros. */
#define PICK(mask, a, b)	(((a) & (mask)) | ((b) & ~(mask)))

/* -- one operation each: @x is the arriving partial, @y is ours ------------ */

#define OP_SUM(V, x, y)	((x) + (y))
#define OP_PROD(V, x, y)	((x) * (y))
#define OP_BAND(V, x, y)	((x) & (y))
#define OP_BOR(V, x, y)	((x) | (y))
#define OP_BXOR(V, x, y)	((x) ^ (y))
#define OP_MIN(V, x, y)	({ V m_ = (V)((x) < (y)); PICK(m_, x, y); })
#define OP_MAX(V, x, y)	({ V m_ = (V)((x) > (y)); PICK(m_, x, y); })
#define OP_LAND(V, x, y)	((V)((x) != 0) & (V)((y) != 0) & 1)
#define OP_LOR(V, x, y)	((V)(((x) | (y)) != 0) & 1)
#define OP_LXOR(V, x, y)	(((V)((x) != 0) ^ (V)((y) != 0)) & 1)

/* Bytes cannot be multiplied as such: the odd ones and the even ones are, in turn. */
INL vu16 prod_bytes(vu16 x, vu16 y)
{
	return ((x * y) & 0xff) | ((x >> 8) * (y & 0xff00));
}

#define OP_PROD8(V, x, y)	prod_bytes(x, y)

typedef s16 vhalf __attribute__((__vector_size__(2 * HALVES)));
typedef s32 vmask __attribute__((__vector_size__(4 * HALVES)));
typedef float vwide __attribute__((__vector_size__(4 * HALVES)));

/*
 * calm: @y, but zero where @x is a NaN. So at most one operand is a NaN, and the order in which
 * the CPU takes them does not matter.
 * settle: @r, the result for @x and @y, but with the negative default NaN where there is a NaN
 * though both are numbers.
 */
#define DEFINE_NAN(name, V, M, sign)					\
INL V calm_##name(V x, V y)						\
{									\
	return (V)((M)y & (x == x));					\
}									\
									\
INL V settle_##name(V r, V x, V y)					\
{									\
	if (NAN_IS_NEGATIVE)						\
		return r;						\
	return (V)((M)r | ((x == x) & (y == y) & (r != r) & (sign)));	\
}

DEFINE_NAN(f32, vf32, vs32, (s32)0x80000000)
DEFINE_NAN(f64, vf64, vs64, (s64)0x8000000000000000)
DEFINE_NAN(wide, vwide, vmask, (s32)0x80000000)

/* @x op @y for floats of a type. */
#define FLOAT(name, V, op, x, y)					\
({									\
	V x_ = (x), y_ = (y);						\
									\
	settle_##name(x_ op calm_##name(x_, y_), x_, y_);		\
})

#define OP_SUM_F32(V, x, y)	FLOAT(f32, V, +, x, y)
#define OP_SUM_F64(V, x, y)	FLOAT(f64, V, +, x, y)
#define OP_PROD_F32(V, x, y)	FLOAT(f32, V, *, x, y)
#define OP_PROD_F64(V, x, y)	FLOAT(f64, V, *, x, y)

/*
 * Minimum and maximum of floats: a NaN wins, the NaN of @x before that of @y, and becomes quiet.
 * -0 is below +0, though they compare as equal.
 */
#define DEFINE_EXTREME(bits, quiet)					\
INL vs##bits extreme_f##bits(vf##bits x, vf##bits y, bool max)		\
{									\
	vs##bits a = (vs##bits)x, b = (vs##bits)y;			\
	vs##bits nan_x = (vs##bits)(x != x), nan_y = (vs##bits)(y != y); \
	vs##bits first = (vs##bits)(max ? x > y : x < y) | nan_x;	\
	vs##bits equal = (vs##bits)(x == y), r = PICK(first, a, b);	\
									\
	r = max ? r & (a | ~equal) : r | (a & equal);			\
	return r | ((nan_x | nan_y) & (quiet));				\
}

DEFINE_EXTREME(32, 0x00400000)
DEFINE_EXTREME(64, 0x0008000000000000)

#define OP_MIN_F32(V, x, y)  extreme_f32((vf32)(x), (vf32)(y), false)
#define OP_MAX_F32(V, x, y)  extreme_f32((vf32)(x), (vf32)(y), true)
#define OP_MIN_F64(V, x, y)  extreme_f64((vf64)(x), (vf64)(y), false)
#define OP_MAX_F64(V, x, y)  extreme_f64((vf64)(x), (vf64)(y), true)

/* The same for 16 bits, compared as integers. @inf: the magnitude above which a NaN lies. */
INL vs16 extreme_16(vs16 x, vs16 y, bool max, s16 inf, s16 quiet)
{
	vs16 nan_x = (vs16)((x & 0x7fff) > inf), nan_y = (vs16)((y & 0x7fff) > inf);
	vs16 key_x = x ^ (vs16)((vu16)(x >> 15) >> 1);
	vs16 key_y = y ^ (vs16)((vu16)(y >> 15) >> 1);
	vs16 first = max ? (vs16)(key_x > key_y) : (vs16)(key_x < key_y);

	first = (first & ~nan_y) | nan_x;
	return PICK(first, x, y) | ((nan_x | nan_y) & quiet);
}

#define OP_MIN_F16(V, x, y)  extreme_16(x, y, false, 0x7c00, 0x0200)
#define OP_MAX_F16(V, x, y)  extreme_16(x, y, true, 0x7c00, 0x0200)
#define OP_MIN_BF16(V, x, y) extreme_16(x, y, false, 0x7f80, 0x0040)
#define OP_MAX_BF16(V, x, y) extreme_16(x, y, true, 0x7f80, 0x0040)

/* bf16: the even and the odd lanes are f32 whose lower half is missing. */
INL vf32 bf16_even(vu32 v)
{
	return (vf32)(v << 16);
}

INL vf32 bf16_odd(vu32 v)
{
	return (vf32)(v & 0xffff0000);
}

/* Round to nearest even, in the upper half. A NaN stays a NaN, and becomes quiet. */
INL vu32 bf16_round(vf32 f)
{
	vu32 u = (vu32)f, nan = (vu32)(f != f);

	return PICK(nan, u | 0x00400000, u + 0x7fff + ((u >> 16) & 1));
}

INL vu32 bf16_pack(vf32 even, vf32 odd)
{
	return (bf16_round(even) >> 16) | (bf16_round(odd) & 0xffff0000);
}

#define BF16(op, x, y)							\
	bf16_pack(FLOAT(f32, vf32, op, bf16_even(x), bf16_even(y)),	\
		  FLOAT(f32, vf32, op, bf16_odd(x), bf16_odd(y)))

#define OP_SUM_BF16(V, x, y)	BF16(+, x, y)
#define OP_PROD_BF16(V, x, y)	BF16(*, x, y)

/* f16 are added and multiplied as f32. */
union halves {
	vu16 all;
	vhalf part[VEC / sizeof(vhalf)];
};

#define F16(op, x, y)							\
({									\
	union halves a_ = { .all = (x) }, b_ = { .all = (y) };		\
	int i_;								\
									\
	for (i_ = 0; i_ < VEC / (int)sizeof(vhalf); i_++)		\
		a_.part[i_] = NARROW(FLOAT(wide, vwide, op,		\
					   WIDEN(a_.part[i_]),		\
					   WIDEN(b_.part[i_])));	\
	a_.all;								\
})

#define OP_SUM_F16(V, x, y)	F16(+, x, y)
#define OP_PROD_F16(V, x, y)	F16(*, x, y)

/*
 * KERNEL(name, lanes, operation): two registers a turn, then one register, then the rest via
 * the stack.
 */
#define LOAD(V, p)	(*(const V##_mem *)(p))
#define STORE(V, at, v)							\
do {									\
	*(V##_mem *)(dst + (at)) = (v);					\
	*(V##_mem *)(dst2 + (at)) = (v);				\
} while (0)

#define REST(V, OP)							\
do {									\
	V x = {}, y = {};						\
									\
	__builtin_memcpy(&x, in + i, len - i);				\
	__builtin_memcpy(&y, own + i, len - i);				\
	x = OP(V, x, y);						\
	__builtin_memcpy(dst + i, &x, len - i);				\
	__builtin_memcpy(dst2 + i, &x, len - i);			\
} while (0)

#define PARAMETERS							\
	(void *dst, void *dst2, const void *in, const void *own, size_t len)

#define BODY(V, OP)							\
	for (; i + 2 * VEC <= len; i += 2 * VEC) {			\
		V x0 = LOAD(V, in + i), x1 = LOAD(V, in + i + VEC);	\
		V y0 = LOAD(V, own + i), y1 = LOAD(V, own + i + VEC);	\
		V z0 = OP(V, x0, y0), z1 = OP(V, x1, y1);		\
									\
		STORE(V, i, z0);					\
		STORE(V, i + VEC, z1);					\
	}								\
	if (i + VEC <= len) {						\
		V x0 = LOAD(V, in + i), y0 = LOAD(V, own + i);		\
		V z0 = OP(V, x0, y0);					\
									\
		STORE(V, i, z0);					\
		i += VEC;						\
	}								\
	if (i < len)							\
		REST(V, OP)

#define KERNEL(name, V, OP)						\
static notrace void name PARAMETERS					\
{									\
	size_t i = 0;							\
									\
	BODY(V, OP);							\
}

/* KERNEL() with a faster way for results in a single place: for the kernels used most. */
#define KERNEL_HOT(name, V, OP)						\
static notrace void name PARAMETERS					\
{									\
	size_t i = 0;							\
									\
	for (; dst2 == dst && i + 4 * VEC <= len; i += 4 * VEC) {	\
		V x0 = LOAD(V, in + i), x1 = LOAD(V, in + i + VEC);	\
		V x2 = LOAD(V, in + i + 2 * VEC), x3 = LOAD(V, in + i + 3 * VEC); \
		V y0 = LOAD(V, own + i), y1 = LOAD(V, own + i + VEC);	\
		V y2 = LOAD(V, own + i + 2 * VEC), y3 = LOAD(V, own + i + 3 * VEC); \
									\
		*(V##_mem *)(dst + i) = OP(V, x0, y0);			\
		*(V##_mem *)(dst + i + VEC) = OP(V, x1, y1);		\
		*(V##_mem *)(dst + i + 2 * VEC) = OP(V, x2, y2);	\
		*(V##_mem *)(dst + i + 3 * VEC) = OP(V, x3, y3);	\
	}								\
	BODY(V, OP);							\
}

KERNEL_HOT(sum_f32, vf32, OP_SUM_F32)
KERNEL_HOT(sum_f64, vf64, OP_SUM_F64)
KERNEL_HOT(sum_i32, vu32, OP_SUM)
KERNEL_HOT(sum_i64, vu64, OP_SUM)
KERNEL(sum_i8, vu8, OP_SUM)
KERNEL(sum_i16, vu16, OP_SUM)
KERNEL(sum_f16, vu16, OP_SUM_F16)
KERNEL(sum_bf16, vu32, OP_SUM_BF16)

KERNEL(prod_f32, vf32, OP_PROD_F32)
KERNEL(prod_f64, vf64, OP_PROD_F64)
KERNEL(prod_f16, vu16, OP_PROD_F16)
KERNEL(prod_bf16, vu32, OP_PROD_BF16)
KERNEL(prod_i8, vu16, OP_PROD8)
KERNEL(prod_i16, vu16, OP_PROD)
KERNEL(prod_i32, vu32, OP_PROD)
KERNEL(prod_i64, vu64, OP_PROD)

KERNEL(min_f32, vs32, OP_MIN_F32)
KERNEL(min_f64, vs64, OP_MIN_F64)
KERNEL(min_f16, vs16, OP_MIN_F16)
KERNEL(min_bf16, vs16, OP_MIN_BF16)
KERNEL(min_i8, vs8, OP_MIN)
KERNEL(min_u8, vu8, OP_MIN)
KERNEL(min_i16, vs16, OP_MIN)
KERNEL(min_u16, vu16, OP_MIN)
KERNEL(min_i32, vs32, OP_MIN)
KERNEL(min_u32, vu32, OP_MIN)
KERNEL(min_i64, vs64, OP_MIN)
KERNEL(min_u64, vu64, OP_MIN)

KERNEL(max_f32, vs32, OP_MAX_F32)
KERNEL(max_f64, vs64, OP_MAX_F64)
KERNEL(max_f16, vs16, OP_MAX_F16)
KERNEL(max_bf16, vs16, OP_MAX_BF16)
KERNEL(max_i8, vs8, OP_MAX)
KERNEL(max_u8, vu8, OP_MAX)
KERNEL(max_i16, vs16, OP_MAX)
KERNEL(max_u16, vu16, OP_MAX)
KERNEL(max_i32, vs32, OP_MAX)
KERNEL(max_u32, vu32, OP_MAX)
KERNEL(max_i64, vs64, OP_MAX)
KERNEL(max_u64, vu64, OP_MAX)

KERNEL(band_u8, vu64, OP_BAND)
KERNEL(bor_u8, vu64, OP_BOR)
KERNEL(bxor_u8, vu64, OP_BXOR)

KERNEL(land_i8, vu8, OP_LAND)
KERNEL(land_i16, vu16, OP_LAND)
KERNEL(land_i32, vu32, OP_LAND)
KERNEL(land_i64, vu64, OP_LAND)
KERNEL(lor_i8, vu8, OP_LOR)
KERNEL(lor_i16, vu16, OP_LOR)
KERNEL(lor_i32, vu32, OP_LOR)
KERNEL(lor_i64, vu64, OP_LOR)
KERNEL(lxor_i8, vu8, OP_LXOR)
KERNEL(lxor_i16, vu16, OP_LXOR)
KERNEL(lxor_i32, vu32, OP_LXOR)
KERNEL(lxor_i64, vu64, OP_LXOR)

/* -- division by the number of ranks -------------------------------------- */

/*
 * Divide an integer by n and round towards zero. @x: a float that holds the integer exactly.
 * @inv: 1 / n. Adding 1/2 to the magnitude keeps multiples of n on the right side. It never
 * reaches the next multiple, since all rounding errors are far below 1 / 2n.
 */
#define HALF_F32(x)	((vf32)(((vs32)(x) & (s32)0x80000000) | 0x3f000000))
#define TRUNC_DIV(x, inv) \
	__builtin_convertvector(((x) + HALF_F32(x)) * (inv), vs32)
#define DIV_LANE(lane, inv) \
	TRUNC_DIV(__builtin_convertvector((vs32)(lane), vf32), inv)

/* Divide each element of a 32-bit lane in turn. @type: vs32 for signed, else vu32. */
#define DIV_BYTES(v, type, inv)						\
	((DIV_LANE((type)((v) << 24) >> 24, inv) & 0xff) |		\
	 (DIV_LANE((type)((v) << 16) >> 24, inv) & 0xff) << 8 |		\
	 (DIV_LANE((type)((v) << 8) >> 24, inv) & 0xff) << 16 |		\
	 DIV_LANE((type)(v) >> 24, inv) << 24)
#define DIV_WORDS(v, type, inv)						\
	((DIV_LANE((type)((v) << 16) >> 16, inv) & 0xffff) |		\
	 DIV_LANE((type)(v) >> 16, inv) << 16)

/*
 * 16 bits are divided as f32 and rounded again. That gives the bits of rounding once, because
 * the exact quotient by n <= 4096 is never so close to a tie that rounding to f32 makes it one.
 */
#define DIV_BF16(v, f)	bf16_pack(bf16_even(v) / (f), bf16_odd(v) / (f))
#define DIV_F16(v, f)							\
({									\
	union halves a_ = { .all = (v) };				\
	int i_;								\
									\
	for (i_ = 0; i_ < VEC / (int)sizeof(vhalf); i_++)		\
		a_.part[i_] = NARROW(WIDEN(a_.part[i_]) / (f));		\
	a_.all;								\
})

#ifdef MUL_EVEN
/* The high half of @x * @y, for each lane. */
INL vu32 mul_high_u32(vu32 x, u32 y)
{
	vu64 odd = (vu64)x >> 32, high = (vu64){} + 0xffffffff00000000;
	vu32 by = (vu32){} + y;

	return (vu32)(MUL_EVEN(x, by) >> 32 | (MUL_EVEN(odd, by) & high));
}

INL vu64 mul_high_u64(vu64 x, u64 y)
{
	vu64 low = (vu64){} + 0xffffffff, x_high = x >> 32;
	vu64 y_low = low & y, y_high = (vu64){} + (y >> 32);
	vu64 mid = MUL_EVEN(x_high, y_low) + (MUL_EVEN(x, y_low) >> 32);
	vu64 cross = MUL_EVEN(x, y_high) + (mid & low);

	return MUL_EVEN(x_high, y_high) + (mid >> 32) + (cross >> 32);
}

/* See inverse.h. Signed numbers are rounded towards zero. */
INL vu32 div_by_u32(vu32 x, const struct rar_inverse *inv)
{
	vu32 t = mul_high_u32(x, inv->mul32);

	return (t + ((x - t) >> 1)) >> inv->shift;
}

INL vu32 div_by_i32(vu32 x, const struct rar_inverse *inv)
{
	vu32 sign = (vu32)((vs32)x >> 31);

	return (div_by_u32((x ^ sign) - sign, inv) ^ sign) - sign;
}

INL vu64 div_by_u64(vu64 x, const struct rar_inverse *inv)
{
	vu64 t = mul_high_u64(x, inv->mul);

	return (t + ((x - t) >> 1)) >> inv->shift;
}

INL vu64 div_by_i64(vu64 x, const struct rar_inverse *inv)
{
	vu64 sign = (vu64)((vs64)x >> 63);

	return (div_by_u64((x ^ sign) - sign, inv) ^ sign) - sign;
}
#endif

/* DIVIDE(name, lanes, result): @v is a register of complete sums. */
#define DIVIDE(name, V, result)						\
static notrace void name(void *dst, void *dst2, u32 n, size_t len)	\
{									\
	const struct rar_inverse __maybe_unused inv = rar_inverse_of(n); \
	size_t i = 0;							\
	V v = {};							\
									\
	for (; i + VEC <= len; i += VEC) {				\
		v = LOAD(V, dst + i);					\
		v = (V)(result);					\
		STORE(V, i, v);						\
	}								\
	if (i < len) {							\
		v = (V){};						\
		__builtin_memcpy(&v, dst + i, len - i);			\
		v = (V)(result);					\
		__builtin_memcpy(dst + i, &v, len - i);			\
		__builtin_memcpy(dst2 + i, &v, len - i);		\
	}								\
}

DIVIDE(avg_f32, vf32, v / (float)n)
DIVIDE(avg_f64, vf64, v / (double)n)
DIVIDE(avg_f16, vu16, DIV_F16(v, (float)n))
DIVIDE(avg_bf16, vu32, DIV_BF16(v, (float)n))
DIVIDE(avg_i8, vu32, DIV_BYTES(v, vs32, 1.0f / n))
DIVIDE(avg_u8, vu32, DIV_BYTES(v, vu32, 1.0f / n))
DIVIDE(avg_i16, vu32, DIV_WORDS(v, vs32, 1.0f / n))
DIVIDE(avg_u16, vu32, DIV_WORDS(v, vu32, 1.0f / n))
#ifdef MUL_EVEN
DIVIDE(avg_i32, vu32, div_by_i32(v, &inv))
DIVIDE(avg_u32, vu32, div_by_u32(v, &inv))
DIVIDE(avg_i64, vu64, div_by_i64(v, &inv))
DIVIDE(avg_u64, vu64, div_by_u64(v, &inv))
#endif

#define DIVIDE_ROW(dtype, kernel) [RAR_##dtype] = kernel,
const rar_divide_fn DIVISIONS[RAR_DTYPE_NR] = { RAR_DIVISIONS(DIVIDE_ROW) };

#define KERNEL_ROW(redop, dtype, kernel) [RAR_K_##kernel] = kernel,
const rar_reduce_fn KERNELS[RAR_KERNEL_NR] = {
	RAR_KINDS(KERNEL_ROW, RAR_NO_ROW)
};
