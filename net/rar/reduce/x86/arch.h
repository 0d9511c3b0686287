/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernels that x86-64 offers.
 */
#ifndef _RAR_X86_REDUCE_ARCH_H
#define _RAR_X86_REDUCE_ARCH_H

#ifdef __KERNEL__
#include <asm/cpufeature.h>
#endif

extern const struct rar_reduce_impl rar_reduce_avx2;
extern const struct rar_reduce_impl rar_reduce_avx512;

/* vec_avx2.c, vec_avx512.c */
extern const rar_reduce_fn rar_reduce_avx2_kernels[];
extern const rar_reduce_fn rar_reduce_avx512_kernels[];
extern const rar_divide_fn rar_reduce_avx2_divisions[];
extern const rar_divide_fn rar_reduce_avx512_divisions[];

/*
 * The Linux kernel is compiled without vector registers, so the compiler keeps nothing in
 * them and refuses them as clobbers. Old compilers build User-Mode Linux with SSE, and there
 * the registers must be named.
 */
#ifdef __SSE__
#define RAR_CLOBBERS	"memory", "xmm0", "xmm1", "xmm2", "xmm3",	\
			"xmm4", "xmm5", "xmm6", "xmm7"
#else
#define RAR_CLOBBERS	"memory"
#endif

#endif /* _RAR_X86_REDUCE_ARCH_H */
