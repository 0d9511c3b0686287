// SPDX-License-Identifier: GPL-2.0
/* The set of kernels for AVX-512; the kernels that reduce are in vec_avx512.c. */
#include "reduce/impl.h"

#define VEC	64

static void copy(void *dst, const void *src, size_t len)
{
	size_t i = 0;

	for (; i + 4 * VEC <= len; i += 4 * VEC)
		asm volatile("vmovups	   (%0), %%zmm0\n\t"
			     "vmovups	 64(%0), %%zmm1\n\t"
			     "vmovups	128(%0), %%zmm2\n\t"
			     "vmovups	192(%0), %%zmm3\n\t"
			     "vmovups	%%zmm0,    (%1)\n\t"
			     "vmovups	%%zmm1,  64(%1)\n\t"
			     "vmovups	%%zmm2, 128(%1)\n\t"
			     "vmovups	%%zmm3, 192(%1)\n\t"
			     : : "r" (src + i), "r" (dst + i) : RAR_CLOBBERS);
	asm volatile("vzeroupper" : : : "memory");
	memcpy(dst + i, src + i, len - i);
}

/* As in avx2.c. */
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
	return boot_cpu_has(X86_FEATURE_AVX) && boot_cpu_has(X86_FEATURE_F16C) &&
	       boot_cpu_has(X86_FEATURE_AVX512F) && boot_cpu_has(X86_FEATURE_AVX512BW) &&
	       boot_cpu_has(X86_FEATURE_AVX512DQ) && boot_cpu_has(X86_FEATURE_AVX512VL);
}

const struct rar_reduce_impl rar_reduce_avx512 = {
	.name	= "avx512",
	.vector	= true,
	.usable	= usable,
	.kernels = rar_reduce_avx512_kernels,
	.divide	= rar_reduce_avx512_divisions,
	.convert = rar_convert_avx2,
	.copy	= copy,
	.csum	= csum,
};
