/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a section takes the vector registers of x86-64.
 */
#ifndef _RAR_X86_REDUCE_FPU_H
#define _RAR_X86_REDUCE_FPU_H

#ifdef __KERNEL__
#include <asm/fpu/api.h>
#endif

struct rar_fpu {
};

static inline bool rar_fpu_usable(void)
{
	return irq_fpu_usable();
}

/* Also sets the rounding and the denormals that IEEE 754 wants. */
static inline void rar_fpu_begin(struct rar_fpu *fpu)
{
	kernel_fpu_begin();
}

static inline void rar_fpu_end(struct rar_fpu *fpu)
{
	kernel_fpu_end();
}

#endif /* _RAR_X86_REDUCE_FPU_H */
