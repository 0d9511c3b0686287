// SPDX-License-Identifier: GPL-2.0
/*
 * Codecs: operations whose numbers travel in another form than the user's.
 *
 * The buffer of such an operation holds the numbers as they travel, which are no shorter than the
 * user's. What send() copies is gathered in the last bytes of the buffer, however the calls
 * cut it. When the record is whole the operation is posted, and then encoded from front to
 * back, in place: a number is read before its bytes are written to. Results are decoded on
 * their way to the user, as the successor may still need them.
 *
 * RAR_OPF_EXACT, RAR_OPF_QUANT: before the numbers can be encoded the ranks agree on a unit for
 * each block of RAR_EXACT_BLOCK numbers. The operation has a lead (see rar_ring_lead()), of which
 * all ranks take the maximum. When a rank has all of it a work item encodes the numbers.
 */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "core/buf.h"
#include "core/member.h"
#include "core/op.h"
#include "link/link.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/post.h"
#include "sock/codec.h"

#define CODEC_BOUNCE	SZ_4K		/* bytes of the user that are converted at a time, */
#define CODEC_SECTION	SZ_16K		/* and in a section of the FPU */

static const struct rar_codec wide_f16 = { 2, 4, RAR_C_widen_f16, RAR_C_narrow_f16 };
static const struct rar_codec wide_bf16 = { 2, 4, RAR_C_widen_bf16, RAR_C_narrow_bf16 };
static const struct rar_codec exact = { 4, 8, RAR_C_exact_encode, RAR_C_exact_decode };
static const struct rar_codec quant = { 4, 4, RAR_C_quant_encode, RAR_C_quant_decode };

/**
 * rar_codec_of() - find the codec of an operation
 * @fingerprint: of the operation
 *
 * Return: NULL if the user's numbers travel as they are.
 */
const struct rar_codec *rar_codec_of(const struct rar_fingerprint *fingerprint)
{
	if (rar_op_is_exact(fingerprint))
		return &exact;
	if (rar_op_is_quant(fingerprint))
		return &quant;
	if (fingerprint->mode & RAR_OPF_WIDE)
		return fingerprint->dtype == RAR_F16 ? &wide_f16 : &wide_bf16;
	return NULL;
}

/* Where the numbers of the user are gathered in the buffer. */
static u64 gathered(const struct rar_operation *op)
{
	return op->bytes - op->given.len;
}

/**
 * rar_codec_gather() - take the next bytes of a record
 * @op:   with a codec, not posted
 * @iter: memory of the user
 * @len:  bytes
 *
 * Process context.
 *
 * Return: 0 or -EFAULT.
 */
int rar_codec_gather(struct rar_operation *op, struct iov_iter *iter, u64 len)
{
	return rar_buf_from_iter(&op->buf, gathered(op) + op->filled, iter, len);
}

/* Where number @i lies in the buffer as it travels. */
static u64 travels_at(const struct rar_operation *op, u64 i)
{
	return op->ring.lead_bytes + i * op->codec->to;
}

/*
 * How number @i is converted, and in @n of the numbers from there on, at most @n before, that
 * are converted in the same way.
 */
static struct rar_convert_how how_at(const struct rar_operation *op, u64 i, u32 *n)
{
	struct rar_convert_how how = { };

	if (!op->ring.lead)
		return how;
	*n = min_t(u32, *n, RAR_EXACT_BLOCK - i % RAR_EXACT_BLOCK);
	rar_buf_read(&op->buf, i / RAR_EXACT_BLOCK * sizeof(how.block), &how.block,
		     sizeof(how.block));
	how.bits = rar_quant_bits(op->contributors);
	if (op->fingerprint.redop == RAR_AVG && op->contributors > 1)
		how.divisor = op->contributors;
	return how;
}

/* Encode numbers of the user from @src: number @i and some of the @n - 1 after it. */
static u32 encode_some(const struct rar_operation *op, const struct rar_reduce_ctx *ctx, u64 i,
		       const void *src, u32 n)
{
	const struct rar_codec *codec = op->codec;
	struct rar_convert_how how = how_at(op, i, &n);
	u32 room;
	void *dst = rar_buf_span(&op->buf, travels_at(op, i), n * codec->to, &room);

	n = room / codec->to;
	how.divisor = 0;	/* the result is divided, not what a rank contributes */
	rar_reduce_convert(ctx, codec->encode, dst, src, n, &how);
	return n;
}

/* Encode what is gathered, from front to back, unless the group fails meanwhile. */
static void encode_gathered(const struct rar_member *m, const struct rar_operation *op)
{
	u64 n = op->given.len / op->codec->from, i, end;
	struct rar_reduce_ctx ctx;
	const void *src;
	u32 now;

	for (i = 0; i < n && rar_member_runs(m);) {
		end = min_t(u64, n, i + CODEC_SECTION / op->codec->from);
		rar_reduce_begin(&ctx);
		while (i < end) {
			src = rar_buf_span(&op->buf, gathered(op) + i * op->codec->from,
					   (end - i) * op->codec->from, &now);
			i += encode_some(op, &ctx, i, src, now / op->codec->from);
		}
		rar_reduce_end(&ctx);
		cond_resched();
	}
}

/* Fill in the lead: what this rank's numbers contribute to each block. */
static void scan_gathered(const struct rar_operation *op)
{
	u64 n = op->given.len / op->codec->from, i, end, block;
	struct rar_exact_block b;
	const void *src;
	u32 now;

	for (block = 0; block < op->ring.lead_bytes / sizeof(b); block++) {
		end = min_t(u64, n, (block + 1) * RAR_EXACT_BLOCK);
		b = (struct rar_exact_block) { };
		for (i = block * RAR_EXACT_BLOCK; i < end; i += now) {
			src = rar_buf_span(&op->buf, gathered(op) + i * op->codec->from,
					   (end - i) * op->codec->from, &now);
			now /= op->codec->from;
			rar_exact_scan(&b, src, now);
		}
		rar_buf_write(&op->buf, block * sizeof(b), &b, sizeof(b));
		if (block % CODEC_SECTION == 0)
			cond_resched();
	}
}

/* Contribute all numbers. */
static void contribute(struct rar_member *m, struct rar_operation *op)
{
	encode_gathered(m, op);
	rar_link_contributed(m, op, op->ring.cpb);
	rar_post_open_from(m, op->seq);
}

/* The ranks agree: the lead is complete here. */
static void agreed(struct work_struct *work)
{
	struct rar_operation *op = container_of(work, struct rar_operation, lead.work);
	struct rar_member *m = op->lead.member;

	if (rar_member_runs(m))
		contribute(m, op);
	rar_op_put(op);
	rar_member_put(m);
}

/**
 * rar_codec_prepare() - make an operation whose record is gathered ready to be posted
 * @op: scheduled
 * @size: number of ranks
 *
 * Process context. What is gathered stays as it is.
 */
void rar_codec_prepare(struct rar_operation *op, u32 size)
{
	op->contributors = size;
	if (!op->ring.lead)
		return;
	INIT_WORK(&op->lead.work, agreed);
	scan_gathered(op);
}

/**
 * rar_codec_begin() - contribute to an operation whose record is gathered
 * @m:  member
 * @op: posted with @later set, referenced
 *
 * Process context, send_lock held.
 */
void rar_codec_begin(struct rar_member *m, struct rar_operation *op)
{
	if (!op->ring.lead || !rar_plan_travels(&op->ring.plan)) {
		contribute(m, op);
		return;
	}
	rar_link_contributed(m, op, op->ring.lead);
	rar_post_open(m, op->seq, false);
}

/* Encode @n numbers of @src into the buffer, from number @i on. */
static void encode_from(const struct rar_operation *op, u64 i, const void *src, u32 n)
{
	struct rar_reduce_ctx ctx;
	u32 now;

	rar_reduce_begin(&ctx);
	for (; n; n -= now, i += now, src += now * op->codec->from)
		now = encode_some(op, &ctx, i, src, n);
	rar_reduce_end(&ctx);
}

/* Decode @n numbers of the buffer, from number @i on. */
static void decode_to(const struct rar_operation *op, u64 i, void *dst, u32 n)
{
	const struct rar_codec *codec = op->codec;
	struct rar_convert_how how;
	struct rar_reduce_ctx ctx;
	const void *src;
	u32 now;

	rar_reduce_begin(&ctx);
	for (; n; n -= now, i += now, dst += now * codec->from) {
		now = n;
		how = how_at(op, i, &now);
		src = rar_buf_span(&op->buf, travels_at(op, i), now * codec->to, &now);
		now /= codec->to;
		rar_reduce_convert(&ctx, codec->decode, dst, src, now, &how);
	}
	rar_reduce_end(&ctx);
}

/* As rar_codec_from_iter(), via @bounce. */
static int from_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len,
		     void *bounce)
{
	const struct rar_codec *codec = op->codec;
	u32 n;

	for (; len; len -= n, off += n) {
		n = min_t(u64, len, CODEC_BOUNCE);
		if (copy_from_iter(bounce, n, iter) != n)
			return -EFAULT;
		encode_from(op, off / codec->from, bounce, n / codec->from);
		cond_resched();
	}
	return 0;
}

/**
 * rar_codec_from_iter() - copy a part of the contribution in, and encode it
 * @op:   operation
 * @off:  first byte of the user's tensor; a number begins there
 * @iter: memory of the user
 * @len:  bytes; whole numbers
 *
 * Process context.
 *
 * Return: 0, -EFAULT or -ENOMEM.
 */
int rar_codec_from_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len)
{
	void *bounce;
	int err;

	if (!op->codec)
		return rar_buf_from_iter(&op->buf, off, iter, len);
	bounce = kmalloc(CODEC_BOUNCE, GFP_KERNEL);
	if (!bounce)
		return -ENOMEM;
	err = from_iter(op, off, iter, len, bounce);
	kfree(bounce);
	return err;
}

/* As rar_codec_to_iter(), via @bounce. The first and the last number may be cut. */
static int to_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len,
		   void *bounce)
{
	const struct rar_codec *codec = op->codec;
	u32 skip, n;

	for (; len; len -= n, off += n) {
		skip = off % codec->from;
		n = min_t(u64, len, CODEC_BOUNCE - skip);
		decode_to(op, off / codec->from, bounce, DIV_ROUND_UP(skip + n, codec->from));
		if (copy_to_iter(bounce + skip, n, iter) != n)
			return -EFAULT;
		cond_resched();
	}
	return 0;
}

/**
 * rar_codec_to_iter() - decode a part of the result, and copy it out
 * @op:   operation, whose numbers in this part are final
 * @off:  first byte of the user's tensor
 * @iter: memory of the user
 * @len:  bytes
 *
 * Process context.
 *
 * Return: 0, -EFAULT or -ENOMEM.
 */
int rar_codec_to_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len)
{
	void *bounce;
	int err;

	if (!op->codec)
		return rar_buf_to_iter(&op->buf, off, iter, len) == len ? 0 : -EFAULT;
	bounce = kmalloc(CODEC_BOUNCE, GFP_KERNEL);
	if (!bounce)
		return -ENOMEM;
	err = to_iter(op, off, iter, len, bounce);
	kfree(bounce);
	return err;
}
