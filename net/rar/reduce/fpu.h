/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a section takes the vector registers; a machine without kernels for them takes nothing.
 */
#ifndef _RAR_REDUCE_FPU_H
#define _RAR_REDUCE_FPU_H

#ifdef CONFIG_X86_64
#include "reduce/x86/fpu.h"
#elif defined(CONFIG_ARM64)
#include "reduce/arm64/fpu.h"
#else
struct rar_fpu {
};

static inline bool rar_fpu_usable(void)
{
	return false;
}

static inline void rar_fpu_begin(struct rar_fpu *fpu)
{
}

static inline void rar_fpu_end(struct rar_fpu *fpu)
{
}
#endif

#endif /* _RAR_REDUCE_FPU_H */
