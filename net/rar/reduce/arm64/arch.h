/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernels that arm64 offers.
 */
#ifndef _RAR_ARM64_REDUCE_ARCH_H
#define _RAR_ARM64_REDUCE_ARCH_H

#ifdef __KERNEL__
#include <asm/neon.h>
#endif

extern const struct rar_reduce_impl rar_reduce_neon;

/* vec_neon.c */
extern const rar_reduce_fn rar_reduce_neon_kernels[];
extern const rar_divide_fn rar_reduce_neon_divisions[];
u64 rar_reduce_neon_csum(const void *src, size_t len);

#endif /* _RAR_ARM64_REDUCE_ARCH_H */
