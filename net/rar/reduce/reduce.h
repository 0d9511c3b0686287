/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arithmetic of a reduction: which kernels exist, which one is in use, and the call that
 * reduces.
 *
 * Results are bit-identical, whichever kernel is in use. The arriving partial is the first
 * operand: a sum is in + own. NaN: @in quieted, else @own quieted, also for a minimum or
 * maximum (IEEE 754-2019), for which -0 is below +0; an invalid operation on numbers gives
 * the negative default NaN. Rounding is to nearest even, denormals are honoured, integers
 * wrap. f16 and bf16 are added and multiplied as f32 and rounded each time, which gives the
 * bits of rounding the exact result. An average is the complete sum divided by the number of
 * ranks, rounded once; integers are rounded towards zero.
 */
#ifndef _RAR_REDUCE_H
#define _RAR_REDUCE_H

#include <linux/sizes.h>
#include <linux/types.h>
#include <net/checksum.h>
#include <linux/rar.h>

#include "reduce/fpu.h"
#include "reduce/convert.h"

/* Bytes that may be reduced between rar_reduce_begin() and _end(). */
#define RAR_REDUCE_MAX	SZ_64K

/* Pieces that may be reduced in a section, however small: then others may have the FPU. */
#define RAR_REDUCE_PIECES	512

/**
 * struct rar_reduce_ctx - an open section, on the caller's stack
 * @fpu: vector registers are ours until rar_reduce_end(); otherwise the integer-only
 *       kernels run, with bit-identical results
 * @pieces: see rar_reduce_piece()
 * @regs: what the architecture keeps for the registers that were interrupted
 */
struct rar_reduce_ctx {
	bool fpu;
	u32 pieces;
	struct rar_fpu regs;
};

/**
 * struct rar_reduce_info - one set of kernels, for /proc
 * @name:     as in the module parameter reduce=
 * @usable:   this CPU has it and it passed the self-test
 * @selected: in use when the FPU is free
 */
struct rar_reduce_info {
	const char *name;
	bool usable;
	bool selected;
};

/*
 * The kernels of a reduction of a type: each is a rar_reduce_fn of impl.h, or for averages a
 * rar_divide_fn.
 */
struct rar_kind {
	void (*vec)(void *dst, void *dst2, const void *in, const void *own, size_t len);
	void (*gen)(void *dst, void *dst2, const void *in, const void *own, size_t len);
	void (*div_vec)(void *dst, void *dst2, u32 n, size_t len);
	void (*div_gen)(void *dst, void *dst2, u32 n, size_t len);
	u8 size;		/* bytes of an element; 0 = there is no such kind */
	u8 kernel;
};

int rar_reduce_init(void);
void rar_reduce_exit(void);
int rar_reduce_list(u32 idx, struct rar_reduce_info *info);

unsigned int rar_dtype_size(u8 dtype);
const struct rar_kind *rar_reduce_kind(u8 dtype, u8 redop);
u32 rar_reduce_mbps(u32 idx, const struct rar_kind *kind);

void rar_reduce_begin(struct rar_reduce_ctx *ctx);
void rar_reduce_begin_copy(struct rar_reduce_ctx *ctx, size_t len);
void rar_reduce_begin_csum(struct rar_reduce_ctx *ctx, size_t len);
void rar_reduce_end(struct rar_reduce_ctx *ctx);
void rar_reduce_pause(struct rar_reduce_ctx *ctx);
void rar_reduce(const struct rar_reduce_ctx *ctx, const struct rar_kind *kind, void *dst,
		void *dst2, const void *in, const void *own, size_t len);
void rar_reduce_divide(const struct rar_reduce_ctx *ctx, const struct rar_kind *kind,
		       void *dst, void *dst2, u32 n, size_t len);
void rar_reduce_convert(const struct rar_reduce_ctx *ctx, enum rar_convert which, void *dst,
			const void *src, size_t n, const struct rar_convert_how *how);
void rar_reduce_copy(const struct rar_reduce_ctx *ctx, void *dst,
		     const void *src, size_t len);
__wsum rar_reduce_csum(const struct rar_reduce_ctx *ctx, const void *src, size_t len);

/* Count a piece; the section is closed and opened again after some of them. */
static inline void rar_reduce_piece(struct rar_reduce_ctx *ctx)
{
	if (unlikely(++ctx->pieces == RAR_REDUCE_PIECES))
		rar_reduce_pause(ctx);
}

#endif /* _RAR_REDUCE_H */
