/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arithmetic of a reduction: which kernels exist, which one is in use,
 * and the one call that adds.
 *
 * The same inputs give the same bits whatever is in use. A sum is in + own:
 * the arriving partial is the first operand. NaN: @in quieted, else @own
 * quieted; an invalid operation on numbers gives the negative default NaN.
 * Rounding is to nearest even, denormals are honoured, integers wrap.
 */
#ifndef _RAR_REDUCE_H
#define _RAR_REDUCE_H

#include <linux/sizes.h>
#include <linux/types.h>
#include <net/checksum.h>
#include <linux/rar.h>

/* Bytes that may be reduced between rar_reduce_begin() and _end(). */
#define RAR_REDUCE_MAX	SZ_64K

/**
 * struct rar_reduce_ctx - an open section, on the caller's stack
 * @fpu: vector registers are ours until rar_reduce_end(); otherwise the
 *       integer-only kernels run, with the same bits
 */
struct rar_reduce_ctx {
	bool fpu;
};

/**
 * struct rar_reduce_info - one set of kernels, for /proc
 * @name:     as in the module parameter reduce=
 * @usable:   this CPU has it and it passed the self-test
 * @selected: in use when the FPU is free
 * @mbps:     [dtype]: MB (10^6 bytes) of sums per second, measured at load
 */
struct rar_reduce_info {
	const char *name;
	bool usable;
	bool selected;
	u32 mbps[RAR_DTYPE_NR];
};

int rar_reduce_init(void);
void rar_reduce_exit(void);
int rar_reduce_list(u32 idx, struct rar_reduce_info *info);

bool rar_reduce_supported(u8 dtype, u8 redop);
unsigned int rar_dtype_size(u8 dtype);

void rar_reduce_begin(struct rar_reduce_ctx *ctx);
void rar_reduce_begin_copy(struct rar_reduce_ctx *ctx, size_t len);
void rar_reduce_begin_csum(struct rar_reduce_ctx *ctx, size_t len);
void rar_reduce_end(struct rar_reduce_ctx *ctx);
void rar_reduce(const struct rar_reduce_ctx *ctx, u8 dtype, u8 redop,
		void *dst, const void *in, const void *own, size_t n);
void rar_reduce_both(const struct rar_reduce_ctx *ctx, u8 dtype, u8 redop,
		     void *dst, void *in, const void *own, size_t n);
void rar_reduce_copy(const struct rar_reduce_ctx *ctx, void *dst,
		     const void *src, size_t len);
__wsum rar_reduce_csum(const struct rar_reduce_ctx *ctx, const void *src, size_t len);

#endif /* _RAR_REDUCE_H */
