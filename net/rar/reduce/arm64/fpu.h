/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a section takes the vector registers of arm64.
 */
#ifndef _RAR_ARM64_REDUCE_FPU_H
#define _RAR_ARM64_REDUCE_FPU_H

#ifdef __KERNEL__
#include <asm/neon.h>
#include <asm/simd.h>
#include <asm/sysreg.h>
#endif

/* 6.19 wants memory for the registers of a section that another section interrupts. */
#ifdef HAVE_NEON_STATE
struct rar_fpu {
	struct user_fpsimd_state state;
};
#define RAR_NEON_STATE(fpu)	(&(fpu)->state)
#else
struct rar_fpu {
};
#define RAR_NEON_STATE(fpu)
#endif

static inline bool rar_fpu_usable(void)
{
	return may_use_simd();
}

/*
 * Unlike on x86 the section inherits how the interrupted program rounds, and whether it
 * flushes denormals. The program gets that back with its registers.
 */
static inline void rar_fpu_begin(struct rar_fpu *fpu)
{
	kernel_neon_begin(RAR_NEON_STATE(fpu));
	if (read_sysreg(fpcr))
		write_sysreg(0, fpcr);
}

static inline void rar_fpu_end(struct rar_fpu *fpu)
{
	kernel_neon_end(RAR_NEON_STATE(fpu));
}

#endif /* _RAR_ARM64_REDUCE_FPU_H */
