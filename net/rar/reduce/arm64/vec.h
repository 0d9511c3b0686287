/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the template of the vector kernels must know about arm64.
 */

/* The default NaN has the wrong sign for the contract. */
#define NAN_IS_NEGATIVE	0

/*
 * f16 to f32 and back, so many at a time, rounded to nearest even; a NaN stays a NaN. Compilers
 * differ in what they call these instructions.
 */
#define HALVES	4
#define WIDEN(h)							\
({									\
	vwide f_;							\
									\
	asm("fcvtl %0.4s, %1.4h" : "=w" (f_) : "w" (h));		\
	f_;								\
})
#define NARROW(f)							\
({									\
	vhalf h_;							\
									\
	asm("fcvtn %0.4h, %1.4s" : "=w" (h_) : "w" (f));		\
	h_;								\
})

/* Divided in integer registers: a vector has few lanes and cannot multiply 64-bit lanes. */
#define avg_i32	rar_avg_i32
#define avg_u32	rar_avg_u32
#define avg_i64	rar_avg_i64
#define avg_u64	rar_avg_u64
