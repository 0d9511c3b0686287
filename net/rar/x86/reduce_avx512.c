// SPDX-License-Identifier: GPL-2.0
/*
 * The kernels for AVX-512: four registers a turn, then one with a mask.
 *
 * Here the order of the operands is trusted: the result is the NaN of the first
 * source, `in`, or else of the second. Rounding and overlap as in
 * reduce_avx2.c. Lanes that the mask switches off neither fault nor are
 * written. Only AVX512F is used.
 */
#include "../reduce_impl.h"

#define VEC	64

/* %0: in, %1: own, %2: dst; the sum is in zmm0 to zmm3 */
#define SUM4(mov, add)							\
	mov "	   (%0), %%zmm0\n\t"					\
	mov "	 64(%0), %%zmm1\n\t"					\
	mov "	128(%0), %%zmm2\n\t"					\
	mov "	192(%0), %%zmm3\n\t"					\
	add "	   (%1), %%zmm0, %%zmm0\n\t"				\
	add "	 64(%1), %%zmm1, %%zmm1\n\t"				\
	add "	128(%1), %%zmm2, %%zmm2\n\t"				\
	add "	192(%1), %%zmm3, %%zmm3\n\t"

/*
 * %3: a bit for each lane. %k1 cannot be named as a clobber where the compiler
 * does not know it, which is also where it never uses it.
 */
#define SUM_MASK(mov, add)						\
	"kmovw	%3, %%k1\n\t"						\
	mov "	(%0), %%zmm0%{%%k1%}%{z%}\n\t"				\
	add "	(%1), %%zmm0, %%zmm0%{%%k1%}%{z%}\n\t"

/* to: the operand that holds the address */
#define STORE4(mov, to)							\
	mov "	%%zmm0,    (" to ")\n\t"				\
	mov "	%%zmm1,  64(" to ")\n\t"				\
	mov "	%%zmm2, 128(" to ")\n\t"				\
	mov "	%%zmm3, 192(" to ")\n\t"

#define STORE_MASK(mov, to)	mov "	%%zmm0, (" to ")%{%%k1%}\n\t"

/* A bit for each of the elements left, at most a register full. */
static __always_inline u32 lanes(size_t left, size_t size)
{
	return BIT(min_t(size_t, left, VEC) / size) - 1;
}

#define RUN(code, mask)							\
	({ asm volatile(code : : "r" (in + i), "r" (own + i),		\
			"r" (dst + i), "r" (mask) : RAR_CLOBBERS); })

#define DEFINE_SUM(type, size, mov, add)				\
static void sum_##type(void *dst, const void *in, const void *own,	\
		       size_t n)					\
{									\
	size_t i = 0, len = n * (size);					\
									\
	for (; i + 4 * VEC <= len; i += 4 * VEC)			\
		RUN(SUM4(mov, add) STORE4(mov, "%2"), 0);		\
	for (; i < len; i += VEC)					\
		RUN(SUM_MASK(mov, add) STORE_MASK(mov, "%2"),		\
		    lanes(len - i, size));				\
	asm volatile("vzeroupper" : : : "memory");			\
}									\
									\
static void both_##type(void *dst, void *in, const void *own, size_t n)	\
{									\
	size_t i = 0, len = n * (size);					\
									\
	for (; i + 4 * VEC <= len; i += 4 * VEC)			\
		RUN(SUM4(mov, add) STORE4(mov, "%2") STORE4(mov, "%0"), 0); \
	for (; i < len; i += VEC)					\
		RUN(SUM_MASK(mov, add) STORE_MASK(mov, "%2")		\
		    STORE_MASK(mov, "%0"), lanes(len - i, size));	\
	asm volatile("vzeroupper" : : : "memory");			\
}

DEFINE_SUM(f32, 4, "vmovups", "vaddps")
DEFINE_SUM(f64, 8, "vmovupd", "vaddpd")
DEFINE_SUM(i32, 4, "vmovdqu32", "vpaddd")
DEFINE_SUM(i64, 8, "vmovdqu64", "vpaddq")

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
		RUN("vmovups	   (%0), %%zmm0\n\t"
		    "vmovups	 64(%0), %%zmm1\n\t"
		    "vmovups	128(%0), %%zmm2\n\t"
		    "vmovups	192(%0), %%zmm3\n\t"
		    STORE4("vmovups", "%2"), 0);
	asm volatile("vzeroupper" : : : "memory");
	memcpy(dst + i, in + i, len - i);
}

/* As in reduce_avx2.c. */
#define CSUM(reg)							\
	"vpandq	%%zmm7, " reg ", %%zmm6\n\t"				\
	"vpsrlq	$32, " reg ", " reg "\n\t"				\
	"vpaddq	%%zmm6, %%zmm4, %%zmm4\n\t"				\
	"vpaddq	" reg ", %%zmm5, %%zmm5\n\t"

static u64 csum(const void *src, size_t len)
{
	const void *end = src + len;
	u64 lanes[8], sum = 0;
	int i;

	asm volatile("vpternlogd	$0xff, %%zmm7, %%zmm7, %%zmm7\n\t"
		     "vpsrlq	$32, %%zmm7, %%zmm7\n\t"
		     "vpxorq	%%zmm4, %%zmm4, %%zmm4\n\t"
		     "vpxorq	%%zmm5, %%zmm5, %%zmm5\n"
		     "1:\n\t"
		     "vmovups	   (%0), %%zmm0\n\t"
		     "vmovups	 64(%0), %%zmm1\n\t"
		     CSUM("%%zmm0") CSUM("%%zmm1")
		     "add	$128, %0\n\t"
		     "cmp	%2, %0\n\t"
		     "jb	1b\n\t"
		     "vpaddq	%%zmm5, %%zmm4, %%zmm4\n\t"
		     "vmovups	%%zmm4, %1\n\t"
		     "vzeroupper"
		     : "+&r" (src), "=m" (lanes) : "r" (end) : RAR_CLOBBERS, "cc");
	for (i = 0; i < 8; i++)
		sum += lanes[i];
	return sum;
}

/* The kernel clears these bits if it does not save the registers. */
static bool usable(void)
{
	return boot_cpu_has(X86_FEATURE_AVX) &&
	       boot_cpu_has(X86_FEATURE_AVX512F);
}

const struct rar_reduce_impl rar_reduce_avx512 = {
	.name	= "avx512",
	.vector	= true,
	.usable	= usable,
	.run	= run,
	.both	= both,
	.copy	= copy,
	.csum	= csum,
};
