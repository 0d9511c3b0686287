/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a set of reduction kernels offers to the registry in reduce.c.
 *
 * Whatever includes this file instead of kernel headers also builds in user
 * space, where selftests/host compares all kernels bit for bit.
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

/*
 * dst[i] = in[i] (redop) own[i], i < n. No alignment is required. @dst may be
 * @in or @own; otherwise the three do not overlap. Nothing is read or written
 * beyond n elements.
 */
typedef void (*rar_reduce_fn)(u8 dtype, u8 redop, void *dst, const void *in,
			      const void *own, size_t n);

/* The same, and in[i] = dst[i]. @dst may be @own. */
typedef void (*rar_reduce_both_fn)(u8 dtype, u8 redop, void *dst, void *in,
				   const void *own, size_t n);

/* memcpy() */
typedef void (*rar_reduce_copy_fn)(void *dst, const void *src, size_t len);

/* The 32-bit words of @src, added up; @len is a multiple of RAR_CSUM_STEP. */
typedef u64 (*rar_reduce_csum_fn)(const void *src, size_t len);

#define RAR_CSUM_STEP	128

/* What a rar_reduce_fn switches on. */
#define RAR_REDUCE_KEY(redop, dtype)	((redop) << 8 | (dtype))

/* The body of one: calls @name_<type>, or @other with all it has. */
#define RAR_REDUCE_SWITCH(name, other)					\
do {									\
	switch (RAR_REDUCE_KEY(redop, dtype)) {				\
	case RAR_REDUCE_KEY(RAR_SUM, RAR_F32):				\
		name##_f32(dst, in, own, n);				\
		break;							\
	case RAR_REDUCE_KEY(RAR_SUM, RAR_F64):				\
		name##_f64(dst, in, own, n);				\
		break;							\
	case RAR_REDUCE_KEY(RAR_SUM, RAR_I32):				\
		name##_i32(dst, in, own, n);				\
		break;							\
	case RAR_REDUCE_KEY(RAR_SUM, RAR_I64):				\
		name##_i64(dst, in, own, n);				\
		break;							\
	default:							\
		other;							\
	}								\
} while (0)

/**
 * struct rar_reduce_impl - one set of kernels
 * @name:   as in the module parameter reduce=
 * @vector: these need an FPU section
 * @usable: does this CPU have the instructions
 * @run:    what it has no kernel for it passes to rar_reduce_run_generic()
 * @both:   for a packet that goes on: the sum is stored in it as well
 * @copy:   for what is not added
 * @csum:   for the Internet's checksum
 */
struct rar_reduce_impl {
	const char *name;
	bool vector;
	bool (*usable)(void);
	rar_reduce_fn run;
	rar_reduce_both_fn both;
	rar_reduce_copy_fn copy;
	rar_reduce_csum_fn csum;
};

extern const struct rar_reduce_impl rar_reduce_generic;

void rar_reduce_run_generic(u8 dtype, u8 redop, void *dst, const void *in,
			    const void *own, size_t n);
void rar_reduce_both_generic(u8 dtype, u8 redop, void *dst, void *in,
			     const void *own, size_t n);
void rar_reduce_copy_generic(void *dst, const void *src, size_t len);
u64 rar_reduce_csum_generic(const void *src, size_t len);

#define RAR_SELFTEST_BYTES	16384	/* of scratch memory */

bool rar_reduce_selftest(const struct rar_reduce_impl *impl, void *scratch);

#ifdef CONFIG_X86_64
#include "x86/reduce_arch.h"
#else
static inline bool rar_fpu_usable(void)
{
	return false;
}

static inline void rar_fpu_begin(void)
{
}

static inline void rar_fpu_end(void)
{
}
#endif

#endif /* _RAR_REDUCE_IMPL_H */
