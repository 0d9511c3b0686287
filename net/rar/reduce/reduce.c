// SPDX-License-Identifier: GPL-2.0
/*
 * The registry of reduction kernels, and the call that dispatches to one.
 *
 * At load each set of kernels that this CPU has is tested and timed; the first
 * good one in the order of preference is in use.
 */
#include <linux/cache.h>
#include <linux/errno.h>
#include <linux/instrumented.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <net/net_debug.h>

#include "reduce/reduce.h"
#include "reduce/impl.h"

static char *reduce = "auto";
module_param(reduce, charp, 0444);
MODULE_PARM_DESC(reduce,
		 "Kernels that add: auto (default), avx2, avx512, neon, generic");

/*
 * In the order of preference: 512-bit registers gain nothing once the data comes from L2,
 * and they lower the clock of some CPUs. The last set always works.
 */
static const struct rar_reduce_impl *const impls[] = {
#ifdef CONFIG_X86_64
	&rar_reduce_avx2,
	&rar_reduce_avx512,
#endif
#ifdef CONFIG_ARM64
	&rar_reduce_neon,
#endif
	&rar_reduce_generic,
};

/* Results of the test of impls[i]. Written at load. */
static struct {
	bool usable;
	u32 mbps[RAR_KERNEL_NR];
	u32 divide_mbps[RAR_DTYPE_NR];
} results[ARRAY_SIZE(impls)] __ro_after_init;

static const struct rar_reduce_impl *selected __ro_after_init =
	&rar_reduce_generic;

/* RAR_SIZE_F32 ...: bytes of an element */
#define TYPE_SIZE(type, size) RAR_SIZE_##type = (size),
enum { RAR_TYPES(TYPE_SIZE) };

/* [redop][dtype]: rows are generated from kinds.h; @vec and @gen are set at load. */
#define KIND_ROW(redop, dtype, kern)					\
	[RAR_##redop][RAR_##dtype] = { .size = RAR_SIZE_##dtype, .kernel = RAR_K_##kern },

static struct rar_kind kinds[RAR_REDOP_NR][RAR_DTYPE_NR] __ro_after_init = {
	RAR_ALL_KINDS(KIND_ROW)
};

/* The f32 sum is called most, so its call must not be indirect. */
static void no_kernel(void *dst, void *dst2, const void *in, const void *own, size_t len)
{
}

DEFINE_STATIC_CALL(rar_reduce_sum_f32, no_kernel);
DEFINE_STATIC_CALL(rar_reduce_vector_copy, rar_reduce_copy_generic);
DEFINE_STATIC_CALL(rar_reduce_vector_csum, rar_reduce_csum_generic);

/**
 * rar_dtype_size - bytes of an element
 * @dtype: enum rar_dtype, or anything
 *
 * Return: the size; 0 if there is no such type.
 */
unsigned int rar_dtype_size(u8 dtype)
{
#define TYPE_ROW(type, size) [RAR_##type] = (size),
	static const u8 sizes[RAR_DTYPE_NR] = { RAR_TYPES(TYPE_ROW) };

	return dtype < RAR_DTYPE_NR ? sizes[dtype] : 0;
}

/**
 * rar_reduce_kind - the kernels of a reduction of a type
 * @dtype: enum rar_dtype, or anything
 * @redop: enum rar_redop, or anything
 *
 * The answer does not depend on the CPU.
 *
 * Return: for rar_reduce(), valid as long as the module; NULL if this module cannot
 * reduce so.
 */
const struct rar_kind *rar_reduce_kind(u8 dtype, u8 redop)
{
	if (dtype >= RAR_DTYPE_NR || redop >= RAR_REDOP_NR || !kinds[redop][dtype].size)
		return NULL;
	return &kinds[redop][dtype];
}
EXPORT_SYMBOL_GPL(rar_reduce_kind);

/**
 * rar_reduce_begin - open a section for rar_reduce()
 * @ctx: the caller's, filled in here
 *
 * Takes the FPU if it can be had. If not, the section works all the same, slower, and
 * @ctx->fpu is false. Until rar_reduce_end() the caller only reduces and copies: it does
 * not sleep, allocate, lock or transmit, and handles at most RAR_REDUCE_MAX bytes, because
 * preemption may be off.
 *
 * Context: any up to softirq.
 */
void rar_reduce_begin(struct rar_reduce_ctx *ctx)
{
	ctx->pieces = 0;
	ctx->fpu = selected->vector && rar_fpu_usable();
	if (ctx->fpu)
		rar_fpu_begin(&ctx->regs);
}
EXPORT_SYMBOL_GPL(rar_reduce_begin);

/* Copying fewer bytes takes less time than getting the FPU. */
#define COPY_MIN	SZ_4K

/**
 * rar_reduce_begin_copy - open a section for rar_reduce_copy() only
 * @ctx: the caller's, filled in here
 * @len: bytes that will be copied
 *
 * As rar_reduce_begin(), but takes the FPU only for enough bytes.
 */
void rar_reduce_begin_copy(struct rar_reduce_ctx *ctx, size_t len)
{
	ctx->fpu = false;
	ctx->pieces = 0;
	if (len >= COPY_MIN)
		rar_reduce_begin(ctx);
}

/* The limit for bytes that are summed up, by csum_partial() or faster. */
#define CSUM_MIN	SZ_1K

/**
 * rar_reduce_begin_csum - open a section for rar_reduce_csum() only
 * @ctx: the caller's, filled in here
 * @len: bytes that will be summed up
 *
 * As rar_reduce_begin(), but takes the FPU only for enough bytes.
 */
void rar_reduce_begin_csum(struct rar_reduce_ctx *ctx, size_t len)
{
	ctx->fpu = false;
	ctx->pieces = 0;
	if (len >= CSUM_MIN)
		rar_reduce_begin(ctx);
}

/**
 * rar_reduce_end - close a section
 * @ctx: from rar_reduce_begin(); @ctx->fpu stays readable
 */
void rar_reduce_end(struct rar_reduce_ctx *ctx)
{
	if (ctx->fpu)
		rar_fpu_end(&ctx->regs);
}
EXPORT_SYMBOL_GPL(rar_reduce_end);

/**
 * rar_reduce_pause - close a section and open it again
 * @ctx: from rar_reduce_begin()
 */
void rar_reduce_pause(struct rar_reduce_ctx *ctx)
{
	ctx->pieces = 0;
	if (!ctx->fpu)
		return;
	rar_reduce_end(ctx);
	rar_reduce_begin(ctx);
}

/**
 * rar_reduce - dst[i] = dst2[i] = in[i] (redop) own[i]
 * @ctx:  an open section
 * @kind: from rar_reduce_kind()
 * @dst:  where the results go: @own, @in, or memory apart from both
 * @dst2: second place for the results: @in, memory apart, or @dst if there is none
 * @in:   the arriving partial; its NaN wins
 * @own:  this rank's contribution
 * @len:  bytes of each, whole elements, which may begin at any address
 */
void rar_reduce(const struct rar_reduce_ctx *ctx, const struct rar_kind *kind, void *dst,
		void *dst2, const void *in, const void *own, size_t len)
{
	DEBUG_NET_WARN_ON_ONCE(len > RAR_REDUCE_MAX);
	/* The sanitizers do not look into vector code. */
	instrument_read(in, len);
	instrument_read(own, len);
	instrument_write(dst, len);
	instrument_write(dst2, len);

	if (unlikely(!ctx->fpu))
		kind->gen(dst, dst2, in, own, len);
	else if (kind->kernel == RAR_K_sum_f32)
		static_call(rar_reduce_sum_f32)(dst, dst2, in, own, len);
	else
		kind->vec(dst, dst2, in, own, len);
}
EXPORT_SYMBOL_GPL(rar_reduce);

/**
 * rar_reduce_divide - dst[i] = dst2[i] = dst[i] / n: a complete sum becomes an average
 * @ctx:  an open section
 * @kind: from rar_reduce_kind(), of RAR_AVG
 * @dst:  complete sums, and where the averages go
 * @dst2: second place for the averages; or @dst if there is none
 * @n:    ranks that were added, 2 .. RAR_MAX_SIZE
 * @len:  bytes, whole elements, which may begin at any address
 */
void rar_reduce_divide(const struct rar_reduce_ctx *ctx, const struct rar_kind *kind,
		       void *dst, void *dst2, u32 n, size_t len)
{
	/* Up to here it makes no difference that 16 bits are rounded twice, see tmpl.h. */
	BUILD_BUG_ON(RAR_MAX_SIZE > 4096);
	instrument_write(dst, len);
	instrument_write(dst2, len);

	if (unlikely(!ctx->fpu))
		kind->div_gen(dst, dst2, n, len);
	else
		kind->div_vec(dst, dst2, n, len);
}
EXPORT_SYMBOL_GPL(rar_reduce_divide);

/**
 * rar_reduce_convert - convert elements for or from the ranks that add them
 * @ctx:   an open section
 * @which: the conversion; see convert.h
 * @dst:   where the results go
 * @src:   the elements; see rar_convert_fn for where they may lie
 * @n:     number of elements
 * @how:   what exact sums need
 */
void rar_reduce_convert(const struct rar_reduce_ctx *ctx, enum rar_convert which, void *dst,
			const void *src, size_t n, const struct rar_convert_how *how)
{
#define CONVERT_SIZES(name, from, to) { from, to },
	static const u8 sizes[RAR_CONVERT_NR][2] = { RAR_CONVERSIONS(CONVERT_SIZES) };

	DEBUG_NET_WARN_ON_ONCE(n * sizes[which][0] > RAR_REDUCE_MAX);
	instrument_read(src, n * sizes[which][0]);
	instrument_write(dst, n * sizes[which][1]);

	if (likely(ctx->fpu && !how->block.special && !how->divisor))
		selected->convert[which](dst, src, n, how);
	else
		rar_convert_generic[which](dst, src, n, how);
}

/**
 * rar_reduce_copy - memcpy()
 * @ctx: an open section
 * @dst: copy to
 * @src: copy from
 * @len: bytes
 */
void rar_reduce_copy(const struct rar_reduce_ctx *ctx, void *dst,
		     const void *src, size_t len)
{
	DEBUG_NET_WARN_ON_ONCE(len > RAR_REDUCE_MAX);
	instrument_read(src, len);
	instrument_write(dst, len);

	if (likely(ctx->fpu))
		static_call(rar_reduce_vector_copy)(dst, src, len);
	else
		memcpy(dst, src, len);
}

/**
 * rar_reduce_csum - csum_partial() from 0
 * @ctx: an open section
 * @src: where the bytes begin
 * @len: bytes
 *
 * Return: the sum that Internet checksums are made of.
 */
__wsum rar_reduce_csum(const struct rar_reduce_ctx *ctx, const void *src, size_t len)
{
	size_t done = ctx->fpu ? round_down(len, RAR_CSUM_STEP) : 0;
	u64 sum = 0;

	DEBUG_NET_WARN_ON_ONCE(len > RAR_REDUCE_MAX);
	instrument_read(src, len);

	if (done)
		sum = static_call(rar_reduce_vector_csum)(src, done);
	return csum_partial(src + done, len - done,
			    csum_add((__force __wsum)(u32)sum,
				     (__force __wsum)(u32)(sum >> 32)));
}

/**
 * rar_reduce_list - describe a set of kernels and its speed
 * @idx:  from 0, in the order of preference
 * @info: filled in
 *
 * Return: 0, or -ENOENT after the last set.
 */
int rar_reduce_list(u32 idx, struct rar_reduce_info *info)
{
	if (idx >= ARRAY_SIZE(impls))
		return -ENOENT;

	memset(info, 0, sizeof(*info));
	info->name = impls[idx]->name;
	info->usable = results[idx].usable;
	info->selected = impls[idx] == selected;
	return 0;
}

/**
 * rar_reduce_mbps - the speed of a kernel of a set
 * @idx:  of the set, as in rar_reduce_list()
 * @kind: from rar_reduce_kind()
 *
 * Return: MB (10^6 bytes) of results per second, measured at load; 0 if the set is not
 * usable here, or could not be measured. For an average it is the speed of the division.
 */
u32 rar_reduce_mbps(u32 idx, const struct rar_kind *kind)
{
	if (kind->div_gen)
		return results[idx].divide_mbps[kind - kinds[RAR_AVG]];
	return results[idx].mbps[kind->kernel];
}

#define BENCH_BYTES	SZ_16K
#define BENCH_REPS	2		/* passes in a section, which may hold 64 KiB */
#define BENCH_NS	(60 * NSEC_PER_USEC)

/* The kernel to measure: @reduce, or @divide if @reduce is NULL. */
struct timed {
	rar_reduce_fn reduce;
	rar_divide_fn divide;
};

/* Time a section, in place, without opening and closing it. */
static u64 __init time_section(const struct rar_reduce_impl *impl, const struct timed *fn,
			       void *own, const void *in)
{
	struct rar_fpu regs;
	unsigned int i;
	u64 start, ns;

	if (impl->vector)
		rar_fpu_begin(&regs);
	start = ktime_get_ns();
	for (i = 0; i < BENCH_REPS; i++)
		if (fn->reduce)
			fn->reduce(own, own, in, own, BENCH_BYTES);
		else
			fn->divide(own, own, 3, BENCH_BYTES);
	ns = ktime_get_ns() - start;
	if (impl->vector)
		rar_fpu_end(&regs);
	return max_t(u64, ns, 1);
}

/* The speed of the best of the sections that fit into BENCH_NS, MB per second; 0: unknown. */
static u32 __init measure(const struct rar_reduce_impl *impl, const struct timed *fn,
			  void *scratch)
{
	u64 best = U64_MAX, end = ktime_get_ns() + BENCH_NS;
	void *own = scratch, *in = own + BENCH_BYTES;

	memset(scratch, 0x3f, 2 * BENCH_BYTES);	/* ordinary numbers */
	do {
		best = min(best, time_section(impl, fn, own, in));
		cond_resched();
	} while (ktime_get_ns() < end);
	/* A clock that stands still meanwhile, as in an emulator, measures nothing. */
	return best > 1 ? div64_u64(BENCH_BYTES * BENCH_REPS * 1000ULL, best) : 0;
}

static void __init probe(size_t i, void *scratch)
{
	struct timed fn = { };
	enum rar_kernel k;
	u8 dtype;

	if (!impls[i]->usable())
		return;
	if (!rar_reduce_selftest(impls[i], scratch)) {
		pr_err("rar: reduce: %s gives wrong results on this machine, disabled\n",
		       impls[i]->name);
		return;
	}
	for (k = 0; k < RAR_KERNEL_NR; k++) {
		fn.reduce = impls[i]->kernels[k];
		results[i].mbps[k] = measure(impls[i], &fn, scratch);
	}
	fn.reduce = NULL;
	for (dtype = RAR_F32; dtype < RAR_DTYPE_NR; dtype++) {
		fn.divide = impls[i]->divide[dtype];
		if (fn.divide)
			results[i].divide_mbps[dtype] = measure(impls[i], &fn, scratch);
	}
	results[i].usable = true;
}

/* The set that the parameter names, or else the first usable one. */
static const struct rar_reduce_impl * __init choose(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(impls); i++)
		if (results[i].usable && !strcmp(reduce, impls[i]->name))
			return impls[i];
	if (strcmp(reduce, "auto"))
		pr_warn("rar: reduce=%s is not supported by this CPU; selecting automatically\n",
			reduce);
	for (i = 0; i < ARRAY_SIZE(impls); i++)
		if (results[i].usable)
			return impls[i];
	return NULL;
}

/* Let every kind lead to the kernels of @impl, and to the scalar kernels. */
static void __init use(const struct rar_reduce_impl *impl)
{
	struct rar_kind *kind;
	u8 redop, dtype;

	static_call_update(rar_reduce_sum_f32, impl->kernels[RAR_K_sum_f32]);
	for (redop = 0; redop < RAR_REDOP_NR; redop++)
		for (dtype = 0; dtype < RAR_DTYPE_NR; dtype++) {
			kind = &kinds[redop][dtype];
			if (!kind->size)
				continue;
			kind->vec = impl->kernels[kind->kernel];
			kind->gen = rar_reduce_generic.kernels[kind->kernel];
			if (redop != RAR_AVG)
				continue;
			kind->div_vec = impl->divide[dtype];
			kind->div_gen = rar_reduce_generic.divide[dtype];
		}
}

/**
 * rar_reduce_init - test, time and choose the kernels
 *
 * Context: process; takes a few milliseconds and yields in between.
 * Return: 0, -ENOMEM, or -EIO if even the scalar kernels give wrong sums.
 */
int __init rar_reduce_init(void)
{
	const struct rar_reduce_impl *impl;
	void *scratch;
	size_t i;

	BUILD_BUG_ON(RAR_SELFTEST_BYTES > 2 * BENCH_BYTES);

	scratch = kvmalloc(2 * BENCH_BYTES, GFP_KERNEL);
	if (!scratch)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(impls); i++)
		probe(i, scratch);
	kvfree(scratch);

	/* the fallback must be sound whatever else is */
	if (!results[ARRAY_SIZE(impls) - 1].usable)
		return -EIO;
	impl = choose();
	use(impl);
	static_call_update(rar_reduce_vector_copy, impl->copy);
	static_call_update(rar_reduce_vector_csum, impl->csum);
	selected = impl;
	return 0;
}

/**
 * rar_reduce_exit - the counterpart of rar_reduce_init()
 *
 * Nothing is held: this keeps the order of main.c complete.
 */
void rar_reduce_exit(void)
{
}
