// SPDX-License-Identifier: GPL-2.0
/*
 * The kernels for AVX2: four registers a turn, then one, then single elements.
 *
 * x86 promises the NaN of the first operand, but some emulated CPUs choose by
 * payload (QEMU does). So `own` is zeroed where `in` is a NaN: then one operand
 * is a NaN and all agree. That costs nothing next to the memory traffic.
 *
 * MXCSR is the kernel's default: to nearest even, no FTZ, no DAZ. All loads of
 * a turn precede its stores, so dst may be in or own.
 */
#include "../reduce_impl.h"

#define VEC	32

/* %0: in, %1: own, %2: dst; p: "ps" or "pd"; the sum is in ymm0 to ymm3 */
#define FLOAT4(p)							\
	"vmovups	   (%0), %%ymm0\n\t"				\
	"vmovups	 32(%0), %%ymm1\n\t"				\
	"vmovups	 64(%0), %%ymm2\n\t"				\
	"vmovups	 96(%0), %%ymm3\n\t"				\
	"vcmpunord" p "	%%ymm0, %%ymm0, %%ymm4\n\t"			\
	"vcmpunord" p "	%%ymm1, %%ymm1, %%ymm5\n\t"			\
	"vcmpunord" p "	%%ymm2, %%ymm2, %%ymm6\n\t"			\
	"vcmpunord" p "	%%ymm3, %%ymm3, %%ymm7\n\t"			\
	"vandn" p "	   (%1), %%ymm4, %%ymm4\n\t"			\
	"vandn" p "	 32(%1), %%ymm5, %%ymm5\n\t"			\
	"vandn" p "	 64(%1), %%ymm6, %%ymm6\n\t"			\
	"vandn" p "	 96(%1), %%ymm7, %%ymm7\n\t"			\
	"vadd" p "	%%ymm4, %%ymm0, %%ymm0\n\t"			\
	"vadd" p "	%%ymm5, %%ymm1, %%ymm1\n\t"			\
	"vadd" p "	%%ymm6, %%ymm2, %%ymm2\n\t"			\
	"vadd" p "	%%ymm7, %%ymm3, %%ymm3\n\t"

#define FLOAT1(p)							\
	"vmovups	(%0), %%ymm0\n\t"				\
	"vcmpunord" p "	%%ymm0, %%ymm0, %%ymm1\n\t"			\
	"vandn" p "	(%1), %%ymm1, %%ymm1\n\t"			\
	"vadd" p "	%%ymm1, %%ymm0, %%ymm0\n\t"

/* mov fills the low end of a register. */
#define FLOAT_ELEM(mov, p)						\
	mov "	(%0), %%xmm0\n\t"					\
	mov "	(%1), %%xmm2\n\t"					\
	"vcmpunord" p "	%%xmm0, %%xmm0, %%xmm1\n\t"			\
	"vandn" p "	%%xmm2, %%xmm1, %%xmm1\n\t"			\
	"vadd" p "	%%xmm1, %%xmm0, %%xmm0\n\t"

/* w: "d" or "q" */
#define INT4(w)								\
	"vmovups	   (%0), %%ymm0\n\t"				\
	"vmovups	 32(%0), %%ymm1\n\t"				\
	"vmovups	 64(%0), %%ymm2\n\t"				\
	"vmovups	 96(%0), %%ymm3\n\t"				\
	"vpadd" w "	   (%1), %%ymm0, %%ymm0\n\t"			\
	"vpadd" w "	 32(%1), %%ymm1, %%ymm1\n\t"			\
	"vpadd" w "	 64(%1), %%ymm2, %%ymm2\n\t"			\
	"vpadd" w "	 96(%1), %%ymm3, %%ymm3\n\t"

#define INT1(w)								\
	"vmovups	(%0), %%ymm0\n\t"				\
	"vpadd" w "	(%1), %%ymm0, %%ymm0\n\t"

#define INT_ELEM(mov, w)						\
	mov "	(%0), %%xmm0\n\t"					\
	mov "	(%1), %%xmm1\n\t"					\
	"vpadd" w "	%%xmm1, %%xmm0, %%xmm0\n\t"

/* to: the operand that holds the address */
#define STORE4(to)							\
	"vmovups	%%ymm0,   (" to ")\n\t"				\
	"vmovups	%%ymm1, 32(" to ")\n\t"				\
	"vmovups	%%ymm2, 64(" to ")\n\t"				\
	"vmovups	%%ymm3, 96(" to ")\n\t"

#define STORE1(to)	"vmovups	%%ymm0, (" to ")\n\t"
#define STORE_ELEM(mov, to)	mov "	%%xmm0, (" to ")\n\t"

#define RUN(code)							\
	({ asm volatile(code : : "r" (in + i), "r" (own + i),		\
			"r" (dst + i) : RAR_CLOBBERS); })

#define DEFINE_SUM(type, size, mov, four, one, elem)			\
static void sum_##type(void *dst, const void *in, const void *own,	\
		       size_t n)					\
{									\
	size_t i = 0, len = n * (size);					\
									\
	for (; i + 4 * VEC <= len; i += 4 * VEC)			\
		RUN(four STORE4("%2"));					\
	for (; i + VEC <= len; i += VEC)				\
		RUN(one STORE1("%2"));					\
	for (; i < len; i += (size))					\
		RUN(elem STORE_ELEM(mov, "%2"));			\
	asm volatile("vzeroupper" : : : "memory");			\
}									\
									\
static void both_##type(void *dst, void *in, const void *own, size_t n)	\
{									\
	size_t i = 0, len = n * (size);					\
									\
	for (; i + 4 * VEC <= len; i += 4 * VEC)			\
		RUN(four STORE4("%2") STORE4("%0"));			\
	for (; i + VEC <= len; i += VEC)				\
		RUN(one STORE1("%2") STORE1("%0"));			\
	for (; i < len; i += (size))					\
		RUN(elem STORE_ELEM(mov, "%2") STORE_ELEM(mov, "%0"));	\
	asm volatile("vzeroupper" : : : "memory");			\
}

DEFINE_SUM(f32, 4, "vmovss", FLOAT4("ps"), FLOAT1("ps"),
	   FLOAT_ELEM("vmovss", "ps"))
DEFINE_SUM(f64, 8, "vmovsd", FLOAT4("pd"), FLOAT1("pd"),
	   FLOAT_ELEM("vmovsd", "pd"))
DEFINE_SUM(i32, 4, "vmovd", INT4("d"), INT1("d"), INT_ELEM("vmovd", "d"))
DEFINE_SUM(i64, 8, "vmovq", INT4("q"), INT1("q"), INT_ELEM("vmovq", "q"))

static void run(u8 dtype, u8 redop, void *dst, const void *in,
		const void *own, size_t n)
{
	RAR_REDUCE_SWITCH(sum,
			  rar_reduce_run_generic(dtype, redop, dst, in, own, n));
}

static void both(u8 dtype, u8 redop, void *dst, void *in, const void *own,
		 size_t n)
{
	RAR_REDUCE_SWITCH(both,
			  rar_reduce_both_generic(dtype, redop, dst, in, own, n));
}

static void copy(void *dst, const void *in, size_t len)
{
	const void *own = in;	/* not read */
	size_t i = 0;

	for (; i + 4 * VEC <= len; i += 4 * VEC)
		RUN("vmovups	   (%0), %%ymm0\n\t"
		    "vmovups	 32(%0), %%ymm1\n\t"
		    "vmovups	 64(%0), %%ymm2\n\t"
		    "vmovups	 96(%0), %%ymm3\n\t"
		    STORE4("%2"));
	asm volatile("vzeroupper" : : : "memory");
	memcpy(dst + i, in + i, len - i);
}

/* ymm4 and ymm5 gather the low and the high words, ymm7 tells the low ones. */
#define CSUM(reg)							\
	"vpand	%%ymm7, " reg ", %%ymm6\n\t"				\
	"vpsrlq	$32, " reg ", " reg "\n\t"				\
	"vpaddq	%%ymm6, %%ymm4, %%ymm4\n\t"				\
	"vpaddq	" reg ", %%ymm5, %%ymm5\n\t"

/* Lanes of 64 bits do not overflow. @len is not 0. */
static u64 csum(const void *src, size_t len)
{
	const void *end = src + len;
	u64 lanes[4];

	asm volatile("vpcmpeqd	%%ymm7, %%ymm7, %%ymm7\n\t"
		     "vpsrlq	$32, %%ymm7, %%ymm7\n\t"
		     "vpxor	%%ymm4, %%ymm4, %%ymm4\n\t"
		     "vpxor	%%ymm5, %%ymm5, %%ymm5\n"
		     "1:\n\t"
		     "vmovups	   (%0), %%ymm0\n\t"
		     "vmovups	 32(%0), %%ymm1\n\t"
		     "vmovups	 64(%0), %%ymm2\n\t"
		     "vmovups	 96(%0), %%ymm3\n\t"
		     CSUM("%%ymm0") CSUM("%%ymm1") CSUM("%%ymm2") CSUM("%%ymm3")
		     "add	$128, %0\n\t"
		     "cmp	%2, %0\n\t"
		     "jb	1b\n\t"
		     "vpaddq	%%ymm5, %%ymm4, %%ymm4\n\t"
		     "vmovups	%%ymm4, %1\n\t"
		     "vzeroupper"
		     : "+&r" (src), "=m" (lanes) : "r" (end) : RAR_CLOBBERS, "cc");
	return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

/* The kernel clears these bits if it does not save the registers. */
static bool usable(void)
{
	return boot_cpu_has(X86_FEATURE_AVX) && boot_cpu_has(X86_FEATURE_AVX2);
}

const struct rar_reduce_impl rar_reduce_avx2 = {
	.name	= "avx2",
	.vector	= true,
	.usable	= usable,
	.run	= run,
	.both	= both,
	.copy	= copy,
	.csum	= csum,
};
