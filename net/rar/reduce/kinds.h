/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The list of types, and the list of reductions. Dispatch, capabilities, self-test,
 * /proc/net/rar_reduce and tests are generated from them.
 *
 * To add a reduction of a type, add a row here, and its kernel to tmpl.h and generic.c. A
 * row whose kernel another row names already needs no new kernel.
 */
#ifndef _RAR_KINDS_H
#define _RAR_KINDS_H

/* T(type, bytes of an element) */
#define RAR_TYPES(T)							\
	T(F32, 4) T(F64, 8) T(F16, 2) T(BF16, 2)			\
	T(I8, 1) T(I16, 2) T(I32, 4) T(I64, 8)				\
	T(U8, 1) T(U16, 2) T(U32, 4) T(U64, 8)

/*
 * X(reduction, type, kernel): the row that brings the kernel.
 * A(reduction, type, kernel): another row that this kernel serves, because its results are
 * bit-identical.
 */
#define RAR_KINDS(X, A)							\
	X(SUM, F32, sum_f32)	X(SUM, F64, sum_f64)			\
	X(SUM, F16, sum_f16)	X(SUM, BF16, sum_bf16)			\
	X(SUM, I8, sum_i8)	A(SUM, U8, sum_i8)			\
	X(SUM, I16, sum_i16)	A(SUM, U16, sum_i16)			\
	X(SUM, I32, sum_i32)	A(SUM, U32, sum_i32)			\
	X(SUM, I64, sum_i64)	A(SUM, U64, sum_i64)			\
	X(PROD, F32, prod_f32)	X(PROD, F64, prod_f64)			\
	X(PROD, F16, prod_f16)	X(PROD, BF16, prod_bf16)		\
	X(PROD, I8, prod_i8)	A(PROD, U8, prod_i8)			\
	X(PROD, I16, prod_i16)	A(PROD, U16, prod_i16)			\
	X(PROD, I32, prod_i32)	A(PROD, U32, prod_i32)			\
	X(PROD, I64, prod_i64)	A(PROD, U64, prod_i64)			\
	X(MIN, F32, min_f32)	X(MIN, F64, min_f64)			\
	X(MIN, F16, min_f16)	X(MIN, BF16, min_bf16)			\
	X(MIN, I8, min_i8)	X(MIN, U8, min_u8)			\
	X(MIN, I16, min_i16)	X(MIN, U16, min_u16)			\
	X(MIN, I32, min_i32)	X(MIN, U32, min_u32)			\
	X(MIN, I64, min_i64)	X(MIN, U64, min_u64)			\
	X(MAX, F32, max_f32)	X(MAX, F64, max_f64)			\
	X(MAX, F16, max_f16)	X(MAX, BF16, max_bf16)			\
	X(MAX, I8, max_i8)	X(MAX, U8, max_u8)			\
	X(MAX, I16, max_i16)	X(MAX, U16, max_u16)			\
	X(MAX, I32, max_i32)	X(MAX, U32, max_u32)			\
	X(MAX, I64, max_i64)	X(MAX, U64, max_u64)			\
	X(BAND, U8, band_u8)	A(BAND, I8, band_u8)			\
	A(BAND, I16, band_u8)	A(BAND, U16, band_u8)			\
	A(BAND, I32, band_u8)	A(BAND, U32, band_u8)			\
	A(BAND, I64, band_u8)	A(BAND, U64, band_u8)			\
	X(BOR, U8, bor_u8)	A(BOR, I8, bor_u8)			\
	A(BOR, I16, bor_u8)	A(BOR, U16, bor_u8)			\
	A(BOR, I32, bor_u8)	A(BOR, U32, bor_u8)			\
	A(BOR, I64, bor_u8)	A(BOR, U64, bor_u8)			\
	X(BXOR, U8, bxor_u8)	A(BXOR, I8, bxor_u8)			\
	A(BXOR, I16, bxor_u8)	A(BXOR, U16, bxor_u8)			\
	A(BXOR, I32, bxor_u8)	A(BXOR, U32, bxor_u8)			\
	A(BXOR, I64, bxor_u8)	A(BXOR, U64, bxor_u8)			\
	X(LAND, I8, land_i8)	A(LAND, U8, land_i8)			\
	X(LAND, I16, land_i16)	A(LAND, U16, land_i16)			\
	X(LAND, I32, land_i32)	A(LAND, U32, land_i32)			\
	X(LAND, I64, land_i64)	A(LAND, U64, land_i64)			\
	X(LOR, I8, lor_i8)	A(LOR, U8, lor_i8)			\
	X(LOR, I16, lor_i16)	A(LOR, U16, lor_i16)			\
	X(LOR, I32, lor_i32)	A(LOR, U32, lor_i32)			\
	X(LOR, I64, lor_i64)	A(LOR, U64, lor_i64)			\
	X(LXOR, I8, lxor_i8)	A(LXOR, U8, lxor_i8)			\
	X(LXOR, I16, lxor_i16)	A(LXOR, U16, lxor_i16)			\
	X(LXOR, I32, lxor_i32)	A(LXOR, U32, lxor_i32)			\
	X(LXOR, I64, lxor_i64)	A(LXOR, U64, lxor_i64)			\
	A(AVG, F32, sum_f32)	A(AVG, F64, sum_f64)			\
	A(AVG, F16, sum_f16)	A(AVG, BF16, sum_bf16)			\
	A(AVG, I8, sum_i8)	A(AVG, U8, sum_i8)			\
	A(AVG, I16, sum_i16)	A(AVG, U16, sum_i16)			\
	A(AVG, I32, sum_i32)	A(AVG, U32, sum_i32)			\
	A(AVG, I64, sum_i64)	A(AVG, U64, sum_i64)

/* D(type, kernel): the kernel divides complete sums by the number of ranks, for averages */
#define RAR_DIVISIONS(D)						\
	D(F32, avg_f32)	D(F64, avg_f64)	D(F16, avg_f16)	D(BF16, avg_bf16) \
	D(I8, avg_i8)	D(I16, avg_i16)	D(I32, avg_i32)	D(I64, avg_i64)	\
	D(U8, avg_u8)	D(U16, avg_u16)	D(U32, avg_u32)	D(U64, avg_u64)

/* Stands for a list that a user of the rows does not need. */
#define RAR_NO_ROW(...)

/* All rows, whichever of them brings the kernel. */
#define RAR_ALL_KINDS(X)	RAR_KINDS(X, X)

#endif /* _RAR_KINDS_H */
