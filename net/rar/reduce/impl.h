/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a set of reduction kernels offers to the registry in reduce.c.
 *
 * A file that includes this header instead of kernel headers also builds in user space,
 * where selftests/host compares all kernels bit for bit.
 */
#ifndef _RAR_REDUCE_IMPL_H
#define _RAR_REDUCE_IMPL_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif
#include <linux/rar.h>

#include "reduce/fpu.h"
#include "reduce/convert.h"
#include "reduce/kinds.h"

/*
 * dst[i] = dst2[i] = in[i] (redop) own[i], @len bytes of whole elements. No alignment is
 * required. @dst2 is @dst, @in, or apart; @dst may be @in or @own; otherwise none overlap.
 * Nothing is read or written beyond @len bytes.
 */
typedef void (*rar_reduce_fn)(void *dst, void *dst2, const void *in, const void *own,
			      size_t len);

/*
 * dst[i] = dst2[i] = dst[i] / n, @len bytes of whole elements; @n is 2 .. RAR_MAX_SIZE.
 * Integers are rounded towards zero, floats once, to nearest even. @dst2 is @dst, or does
 * not overlap it.
 */
typedef void (*rar_divide_fn)(void *dst, void *dst2, u32 n, size_t len);

/* memcpy() */
typedef void (*rar_reduce_copy_fn)(void *dst, const void *src, size_t len);

/* The 32-bit words of @src, added up; @len is a multiple of RAR_CSUM_STEP. */
typedef u64 (*rar_reduce_csum_fn)(const void *src, size_t len);

#define RAR_CSUM_STEP	128

/* RAR_K_sum_f32 ...: index of a kernel in a set */
#define RAR_KERNEL_ENUM(redop, dtype, kernel) RAR_K_##kernel,
enum rar_kernel { RAR_KINDS(RAR_KERNEL_ENUM, RAR_NO_ROW) RAR_KERNEL_NR };

/**
 * struct rar_reduce_impl - one set of kernels
 * @name:    as in the module parameter reduce=
 * @vector:  the kernels need an FPU section
 * @usable:  does this CPU have the instructions
 * @kernels: [enum rar_kernel]: RAR_KERNEL_NR kernels
 * @divide:  [enum rar_dtype]: RAR_DTYPE_NR kernels
 * @convert: [enum rar_convert]: RAR_CONVERT_NR conversions
 * @copy:    copies bytes that are not added
 * @csum:    sums bytes for the Internet checksum
 */
struct rar_reduce_impl {
	const char *name;
	bool vector;
	bool (*usable)(void);
	const rar_reduce_fn *kernels;
	const rar_divide_fn *divide;
	const rar_convert_fn *convert;
	rar_reduce_copy_fn copy;
	rar_reduce_csum_fn csum;
};

/* Elements travel as little endian. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error AF_RAR needs a little-endian machine
#endif

extern const struct rar_reduce_impl rar_reduce_generic;

/* generic.c; the NEON set uses them as well. */
void rar_avg_i32(void *dst, void *dst2, u32 n, size_t len);
void rar_avg_u32(void *dst, void *dst2, u32 n, size_t len);
void rar_avg_i64(void *dst, void *dst2, u32 n, size_t len);
void rar_avg_u64(void *dst, void *dst2, u32 n, size_t len);
void rar_reduce_copy_generic(void *dst, const void *src, size_t len);
u64 rar_reduce_csum_generic(const void *src, size_t len);

#define RAR_SELFTEST_BYTES	16384	/* bytes of scratch memory */

bool rar_reduce_selftest(const struct rar_reduce_impl *impl, void *scratch);

#ifdef CONFIG_X86_64
#include "reduce/x86/arch.h"
#endif
#ifdef CONFIG_ARM64
#include "reduce/arm64/arch.h"
#endif

#endif /* _RAR_REDUCE_IMPL_H */
