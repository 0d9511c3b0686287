/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the template of the vector kernels must know about x86-64.
 */

/* The default NaN has the sign that the contract gives it. */
#define NAN_IS_NEGATIVE	1

/* f16 to f32 and back, so many at a time, rounded to nearest even; a NaN stays a NaN. */
#define HALVES	8
#define WIDEN(h)	__builtin_ia32_vcvtph2ps256(h)
#define NARROW(f)	__builtin_ia32_vcvtps2ph256(f, 0)

/* The products of the even 32-bit lanes. Each compiler has its own name for this instruction. */
#define MUL_EVEN(a, b)							\
({									\
	vu64 p_;							\
									\
	asm("vpmuludq %2, %1, %0" : "=v" (p_) : "v" (a), "v" (b));	\
	p_;								\
})
