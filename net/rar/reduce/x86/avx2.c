// SPDX-License-Identifier: GPL-2.0
/* The set of kernels for AVX2; the kernels that reduce are in vec_avx2.c. */
#include "reduce/impl.h"

#define VEC	32

static void copy(void *dst, const void *src, size_t len)
{
	size_t i = 0;

	for (; i + 4 * VEC <= len; i += 4 * VEC)
		asm volatile("vmovups	   (%0), %%ymm0\n\t"
			     "vmovups	 32(%0), %%ymm1\n\t"
			     "vmovups	 64(%0), %%ymm2\n\t"
			     "vmovups	 96(%0), %%ymm3\n\t"
			     "vmovups	%%ymm0,   (%1)\n\t"
			     "vmovups	%%ymm1, 32(%1)\n\t"
			     "vmovups	%%ymm2, 64(%1)\n\t"
			     "vmovups	%%ymm3, 96(%1)\n\t"
			     : : "r" (src + i), "r" (dst + i) : RAR_CLOBBERS);
	asm volatile("vzeroupper" : : : "memory");
	memcpy(dst + i, src + i, len - i);
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
	return boot_cpu_has(X86_FEATURE_AVX) && boot_cpu_has(X86_FEATURE_AVX2) &&
	       boot_cpu_has(X86_FEATURE_F16C);
}

const struct rar_reduce_impl rar_reduce_avx2 = {
	.name	= "avx2",
	.vector	= true,
	.usable	= usable,
	.kernels = rar_reduce_avx2_kernels,
	.divide	= rar_reduce_avx2_divisions,
	.convert = rar_convert_avx2,
	.copy	= copy,
	.csum	= csum,
};
