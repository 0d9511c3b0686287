// SPDX-License-Identifier: GPL-2.0
/* The set of kernels for NEON; the kernels are in vec_neon.c. */
#include "reduce/impl.h"

static bool usable(void)
{
	return cpu_has_neon();
}

/* memcpy() and conversions use general registers; memcpy() is as fast as with vector registers. */
const struct rar_reduce_impl rar_reduce_neon = {
	.name	= "neon",
	.vector	= true,
	.usable	= usable,
	.kernels = rar_reduce_neon_kernels,
	.divide	= rar_reduce_neon_divisions,
	.convert = rar_convert_generic,
	.copy	= rar_reduce_copy_generic,
	.csum	= rar_reduce_neon_csum,
};
