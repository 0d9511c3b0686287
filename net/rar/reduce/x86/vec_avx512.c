// SPDX-License-Identifier: GPL-2.0
/* The kernels for AVX-512. Called between kernel_fpu_begin() and _end() only. */
#include "reduce/impl.h"
#include "reduce/inverse.h"

#define VEC	64
#define KERNELS	rar_reduce_avx512_kernels
#define DIVISIONS	rar_reduce_avx512_divisions

/* sparse knows no vectors. */
#ifndef __CHECKER__
#include "reduce/x86/vec.h"
#include "reduce/tmpl.h"
#endif
