/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that the pure files of net/rar need, for user space: types,
 * arithmetic and compiler attributes. A file that needs more is not pure, and is tested in a
 * kernel.
 */
#ifndef _RAR_HOST_SHIM_H
#define _RAR_HOST_SHIM_H

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif
#define __maybe_unused	__attribute__((__unused__))
#ifndef fallthrough
#define fallthrough	__attribute__((__fallthrough__))
#endif
#define __packed	__attribute__((__packed__))
#define __aligned(x)	__attribute__((__aligned__(x)))
#define notrace
#define __init
#define __initconst
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define cpu_to_be16(x)	((__be16)htobe16(x))
#define cpu_to_be32(x)	((__be32)htobe32(x))
#define cpu_to_be64(x)	((__be64)htobe64(x))
#define be32_to_cpu(x)	be32toh(x)
#define be64_to_cpu(x)	be64toh(x)

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define U32_MAX		(~(u32)0)
#define U64_MAX		(~(u64)0)
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif
#define BUILD_BUG_ON(x)	_Static_assert(!(x), #x)

/* As in the kernel, the types must agree. */
#define __same(a, b)	((void)((typeof(a) *)1 == (typeof(b) *)1))
#define __pick(a, op, b) ({ typeof(a) _a = (a); typeof(b) _b = (b);	\
			    _a op _b ? _a : _b; })
#define min(a, b)	({ __same(a, b); __pick(a, <, b); })
#define max(a, b)	({ __same(a, b); __pick(a, >, b); })
#define min_t(t, a, b)	min((t)(a), (t)(b))
#define max_t(t, a, b)	max((t)(a), (t)(b))
#define clamp(x, lo, hi)	min(max(x, lo), hi)
#define clamp_t(t, x, lo, hi)	min_t(t, max_t(t, x, lo), hi)
#define swap(a, b)							\
	do { typeof(a) _t = (a); (a) = (b); (b) = _t; } while (0)

#define READ_ONCE(x)	(*(const volatile typeof(x) *)&(x))
#define container_of(p, type, member)					\
	((type *)((char *)(p) - offsetof(type, member)))

#define prefetchw(p)	((void)(p))

#define exported(name)	extern typeof(name) name
#define EXPORT_SYMBOL_GPL exported

#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define USEC_PER_SEC	1000000L

#define max3(a, b, c)	max(max(a, b), c)

static inline s64 div64_s64(s64 a, s64 b)
{
	return a / b;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* The kernel would warn and go on; here the test ends. */
#define WARN_ON_ONCE(x)							\
	({ bool _w = (x);						\
	   if (_w) {							\
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);	\
		abort();						\
	   }								\
	   _w; })

#ifdef __x86_64__
#define CONFIG_X86_64 1

#define X86_FEATURE_AVX		"avx"
#define X86_FEATURE_AVX2	"avx2"
#define X86_FEATURE_F16C	"f16c"
#define X86_FEATURE_AVX512F	"avx512f"
#define X86_FEATURE_AVX512BW	"avx512bw"
#define X86_FEATURE_AVX512DQ	"avx512dq"
#define X86_FEATURE_AVX512VL	"avx512vl"
#define boot_cpu_has(f)		(!!__builtin_cpu_supports(f))

#define irq_fpu_usable()	true
#define kernel_fpu_begin()	((void)0)
#define kernel_fpu_end()	((void)0)
#endif

#ifdef __aarch64__
#define CONFIG_ARM64 1

#define cpu_has_neon()		true
#define may_use_simd()		true
#define kernel_neon_begin(...) ((void)0)
#define kernel_neon_end(...) ((void)0)
#define read_sysreg(reg) \
	({ u64 _v; asm volatile("mrs %0, " #reg : "=r" (_v)); _v; })
#define write_sysreg(v, reg) \
	asm volatile("msr " #reg ", %0" : : "r" ((u64)(v)))
#endif

#endif /* _RAR_HOST_SHIM_H */
