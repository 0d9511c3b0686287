// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Arithmetic of the stub: all types and reductions of the kernel, one element at a time.
 */
#include <math.h>
#include <string.h>

#include "librar.h"

/* -- 16-bit floats --------------------------------------------------------- */

static float bf16_read(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint16_t bf16_write(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (isnan(f))
		return bits >> 16 | 0x40;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static float f16_read(uint16_t x)
{
	int exponent = x >> 10 & 31, fraction = x & 1023;
	uint32_t bits = 0x7f800000 | (uint32_t)fraction << 13;
	float f;

	if (exponent == 31)
		memcpy(&f, &bits, sizeof(f));
	else
		f = exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
	return x >> 15 ? -f : f;
}

static uint16_t f16_write(float f)
{
	uint16_t sign = signbit(f) ? 0x8000 : 0;
	uint32_t bits;
	int exponent;
	float a = fabsf(f);

	if (isnan(f)) {
		memcpy(&bits, &f, sizeof(bits));
		return sign | 0x7e00 | (bits >> 13 & 1023);
	}
	if (a >= 65520)
		return sign | 0x7c00;
	if (a < 0x1p-14f)
		return sign | (uint16_t)nearbyintf(ldexpf(a, 24));
	frexpf(a, &exponent);	/* a = [0.5, 1) * 2^exponent */
	/* Rounding may carry into the exponent, which is right. */
	return sign | (((exponent + 14) << 10) +
		       (int)nearbyintf(ldexpf(a, 11 - exponent)) - 1024);
}

/* -- one element ----------------------------------------------------------- */

/* As the kernel: of two NaNs that of the partial result stays, which is @own here, made quiet. */
static double combine_float(int redop, double own, double in)
{
	if (isnan(own))
		return own + own;
	if (isnan(in))
		return in + in;
	switch (redop) {
	case RAR_PROD:
		return own * in;
	case RAR_MIN:
		return in < own || (in == own && signbit(in)) ? in : own;
	case RAR_MAX:
		return in > own || (in == own && !signbit(in)) ? in : own;
	}
	return own + in;
}

/* Integers wrap, so bits do for all but the comparisons. */
static uint64_t combine_bits(int redop, uint64_t own, uint64_t in)
{
	switch (redop) {
	case RAR_PROD:
		return own * in;
	case RAR_BAND:
		return own & in;
	case RAR_BOR:
		return own | in;
	case RAR_BXOR:
		return own ^ in;
	case RAR_LAND:
		return own && in;
	case RAR_LOR:
		return own || in;
	case RAR_LXOR:
		return !own != !in;
	}
	return own + in;
}

#define INTEGER(T)							\
	do {								\
		for (i = 0; i < n; i++) {				\
			T a = ((T *)own)[i], b = ((const T *)in)[i];	\
									\
			if (redop == RAR_MIN)				\
				a = b < a ? b : a;			\
			else if (redop == RAR_MAX)			\
				a = b > a ? b : a;			\
			else						\
				a = (T)combine_bits(redop, a, b);	\
			((T *)own)[i] = a;				\
		}							\
	} while (0)

#define FLOAT(T, read, write)						\
	do {								\
		for (i = 0; i < n; i++)					\
			((T *)own)[i] =					\
				write(combine_float(redop, read(((T *)own)[i]), \
						    read(((const T *)in)[i]))); \
	} while (0)

void rar_stub_combine(int dtype, int redop, void *own, const void *in, uint64_t n)
{
	uint64_t i;

	switch (dtype) {
	case RAR_F32:
		FLOAT(float, (double), (float));
		break;
	case RAR_F64:
		FLOAT(double, (double), (double));
		break;
	case RAR_F16:
		FLOAT(uint16_t, f16_read, f16_write);
		break;
	case RAR_BF16:
		FLOAT(uint16_t, bf16_read, bf16_write);
		break;
	case RAR_I8:
		INTEGER(int8_t);
		break;
	case RAR_U8:
		INTEGER(uint8_t);
		break;
	case RAR_I16:
		INTEGER(int16_t);
		break;
	case RAR_U16:
		INTEGER(uint16_t);
		break;
	case RAR_I32:
		INTEGER(int32_t);
		break;
	case RAR_U32:
		INTEGER(uint32_t);
		break;
	case RAR_I64:
		INTEGER(int64_t);
		break;
	case RAR_U64:
		INTEGER(uint64_t);
		break;
	}
}

/* The result of a group of one: a logical result is 0 or 1, and a NaN is quiet. */
void rar_stub_alone(int dtype, int redop, void *own, uint64_t n)
{
	bool logical = redop == RAR_LAND || redop == RAR_LOR || redop == RAR_LXOR;

	if (logical)
		rar_stub_combine(dtype, RAR_LOR, own, own, n);
	else if (dtype == RAR_F32 || dtype == RAR_F64 || dtype == RAR_F16 || dtype == RAR_BF16)
		rar_stub_combine(dtype, RAR_MAX, own, own, n);
}

/* Signed division rounds towards zero; a divisor is a number of ranks, at most 4096. */
#define DIVIDE(T, read, write)						\
	do {								\
		for (i = 0; i < n; i++)					\
			((T *)own)[i] = write(read(((T *)own)[i]) / by); \
	} while (0)

void rar_stub_divide(int dtype, void *own, uint64_t n, uint32_t ranks)
{
	int64_t by = ranks;
	uint64_t i;

	switch (dtype) {
	case RAR_F32:
		DIVIDE(float, (double), (float));
		break;
	case RAR_F64:
		DIVIDE(double, (double), (double));
		break;
	case RAR_F16:
		DIVIDE(uint16_t, f16_read, f16_write);
		break;
	case RAR_BF16:
		DIVIDE(uint16_t, bf16_read, bf16_write);
		break;
	case RAR_I8:
		DIVIDE(int8_t, (int64_t), (int8_t));
		break;
	case RAR_U8:
		DIVIDE(uint8_t, (int64_t), (uint8_t));
		break;
	case RAR_I16:
		DIVIDE(int16_t, (int64_t), (int16_t));
		break;
	case RAR_U16:
		DIVIDE(uint16_t, (int64_t), (uint16_t));
		break;
	case RAR_I32:
		DIVIDE(int32_t, (int64_t), (int32_t));
		break;
	case RAR_U32:
		DIVIDE(uint32_t, (int64_t), (uint32_t));
		break;
	case RAR_I64:
		DIVIDE(int64_t, (int64_t), (int64_t));
		break;
	case RAR_U64:
		for (i = 0; i < n; i++)
			((uint64_t *)own)[i] /= ranks;
		break;
	}
}

/* -- what the stub can do -------------------------------------------------- */

void rar_stub_caps(struct rar_caps *caps)
{
	uint32_t all = (1u << RAR_DTYPE_NR) - 2, redop;
	uint32_t floats = 1u << RAR_F32 | 1u << RAR_F64 | 1u << RAR_F16 | 1u << RAR_BF16;

	*caps = (struct rar_caps) { .wire_version = 1,
				    .collectives = (2u << RAR_BARRIER) - 2 };
	caps->dtypes[0] = RAR_OPF_IN_ORDER;	/* it always does that */
	for (redop = RAR_SUM; redop < RAR_REDOP_NR; redop++)
		caps->dtypes[redop] = redop >= RAR_BAND && redop <= RAR_LXOR ? all & ~floats : all;
}
