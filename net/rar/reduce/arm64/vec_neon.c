// SPDX-License-Identifier: GPL-2.0
/* The kernels for NEON. Called between kernel_neon_begin() and _end() only. */
#include "reduce/impl.h"
#include "reduce/inverse.h"

#define VEC	16
#define KERNELS	rar_reduce_neon_kernels
#define DIVISIONS	rar_reduce_neon_divisions

/* sparse knows no vectors. */
#ifndef __CHECKER__
#include "reduce/arm64/vec.h"
#include "reduce/tmpl.h"

/* Lanes of 64 bits gather the low and the high words, and do not overflow. */
u64 notrace rar_reduce_neon_csum(const void *src, size_t len)
{
	vu64 low = {}, high = {};
	size_t i;

	for (i = 0; i < len; i += 2 * VEC) {
		vu64 x = LOAD(vu64, src + i), y = LOAD(vu64, src + i + VEC);

		low += (x & U32_MAX) + (y & U32_MAX);
		high += (x >> 32) + (y >> 32);
	}
	low += high;
	return low[0] + low[1];
}
#endif
