// SPDX-License-Identifier: GPL-2.0
/* Operations: memory, schedule, references. Owns struct rar_operation. */
#include <linux/jhash.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "core/buf.h"
#include "core/gather.h"
#include "core/halving.h"
#include "core/keyed.h"
#include "core/mem.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/user.h"
#include "rar.h"
#include "reduce/reduce.h"

static struct workqueue_struct *op_wq;

/* A user that asks for too much gets an error; no process is killed for it. */
#define OP_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

#define OP_LIST_MIN	512	/* bytes; a list of pieces up to this is part of MEM_OP_COST */

/* @mode: of its fingerprint. */
static struct rar_operation *op_new(struct rar_member *m, u16 mode, u64 bytes)
{
	bool halving = rar_mode_way(mode) == RAR_WAY_HALVING;
	u32 nouts = rar_outs(m) + (halving ? hweight64(m->direct.partners) : 0);
	struct rar_operation *op = kzalloc(struct_size(op, out, nouts), GFP_KERNEL_ACCOUNT);

	if (!op)
		return NULL;
	op->nouts = nouts;
	op->ring_outs = rar_outs(m);
	op->rn = m->rn;
	op->user = rar_user_hold(m->user);
	op->bytes = bytes;
	op->own = &op->buf;
	op->sums = &op->buf;
	INIT_LIST_HEAD(&op->node);
	INIT_LIST_HEAD(&op->pin_node);
	refcount_set(&op->ref, 1);
	return op;
}

/* Returns false if there is too little memory at the moment. */
static bool op_charge(struct rar_member *m, struct rar_operation *op, u64 bytes)
{
	if (!rar_mem_charge(m, bytes))
		return false;
	op->charges++;
	op->room += bytes;
	return true;
}

static void op_uncharge(struct rar_operation *op, u64 bytes, u32 charges)
{
	op->charges -= charges;
	op->room -= bytes;
	rar_mem_uncharge(op->rn, op->user, bytes, charges);
}

/*
 * Get a buffer of @len bytes of the kernel's memory. @room bytes are charged: the buffer, and other
 * memory of the operation. Returns 0, -EAGAIN or -ENOMEM.
 */
static int op_buf(struct rar_member *m, struct rar_operation *op, struct rar_buf *buf,
		  u64 len, u64 room)
{
	if (!op_charge(m, op, room))
		return -EAGAIN;
	if (!rar_buf_alloc(buf, len))
		return 0;
	op_uncharge(op, room, 1);
	return -ENOMEM;
}

/**
 * rar_op_alloc() - get an operation and its buffer
 * @m:   member whose namespace and user are charged
 * @mode: of its fingerprint
 * @bytes: length of the tensor
 * @room: bytes of the buffer
 *
 * Process context.
 *
 * Return: the operation with one reference, or ERR_PTR: -EAGAIN when net.rar.mem is used
 * up, -ENOMEM when memory is short.
 */
struct rar_operation *rar_op_alloc(struct rar_member *m, u16 mode, u64 bytes,
				   u64 room)
{
	struct rar_operation *op = op_new(m, mode, bytes);
	int err;

	if (!op)
		return ERR_PTR(-ENOMEM);
	err = op_buf(m, op, &op->buf, room, room);
	if (!err)
		return op;
	rar_op_drop(op);
	return ERR_PTR(err);
}

/**
 * rar_op_alloc_keyed() - get a keyed reduction
 * @m:    member whose namespace and user are charged
 * @fingerprint: of the operation
 * @root: this rank is the root
 * @room: bytes that are charged
 *
 * Process context. The buffer holds the chunks of the stream. The root has no buffer.
 *
 * Return: as rar_op_alloc().
 */
struct rar_operation *rar_op_alloc_keyed(struct rar_member *m,
					 const struct rar_fingerprint *fingerprint, bool root,
					 u64 room)
{
	struct rar_operation *op = op_new(m, fingerprint->mode, 0);
	int err;

	if (!op)
		return ERR_PTR(-ENOMEM);
	err = op_buf(m, op, &op->buf, root ? 0 : room, room);
	if (!err) {
		op->keyed = rar_keyed_alloc(fingerprint, m->payload, m->size, root,
					    rar_place_keyed(&m->place));
		if (op->keyed)
			return op;
		err = -ENOMEM;
	}
	rar_op_drop(op);
	return ERR_PTR(err);
}

/**
 * rar_op_alloc_pinned() - get an operation in memory of the caller
 * @m:   member
 * @regions: regions where the memory may be pinned already
 * @mode: of its fingerprint
 * @bytes: length of the tensor
 * @dst:   address for the sums, 0 = they overwrite the contribution
 * @room:  bytes that are needed in memory of the kernel as well, 0 = none
 * @bits:  bytes of the bitmaps, from rar_op_bits()
 *
 * Process context. The caller appends the contribution to @buf if there is no @dst.
 * Otherwise it copies the contribution there, or appends it to @src and sets @own.
 *
 * Return: the operation with one reference, or ERR_PTR as rar_buf_pin() and rar_op_alloc().
 */
struct rar_operation *rar_op_alloc_pinned(struct rar_member *m,
					  struct rar_regions *regions, u16 mode,
					  u64 bytes, u64 dst, u64 room,
					  u64 bits)
{
	struct rar_operation *op = op_new(m, mode, bytes);
	int err = 0;

	if (!op)
		return ERR_PTR(-ENOMEM);
	if (!op_charge(m, op, bits))
		err = -EAGAIN;
	op->pinned = true;
	op->buf.pinned = true;
	op->buf.write = true;
	op->src.pinned = true;
	op->dst = dst;
	if (!err && dst)
		err = rar_buf_pin(&op->buf, regions, dst, bytes);
	if (!err && room) {
		op->own = &op->kept;
		op->sums = &op->kept;
		err = op_buf(m, op, &op->kept, room, room);
	}
	if (!err)
		return op;
	rar_op_drop(op);
	return ERR_PTR(err);
}

/**
 * rar_op_pin() - append memory of the caller to an operation
 * @m:   member
 * @op:  from rar_op_alloc_pinned(), not posted
 * @buf: its @buf or @src
 * @regions: regions where the memory may be pinned already
 * @iter: memory of the caller, advanced
 * @esize: bytes of an element
 *
 * Process context. The list of pieces stays charged until the operation is freed.
 *
 * Return: as rar_buf_pin_iter(); -ENOSPC beyond the limits of memory.
 */
int rar_op_pin(struct rar_member *m, struct rar_operation *op, struct rar_buf *buf,
	       struct rar_regions *regions, struct iov_iter *iter, u32 esize)
{
	u64 list = rar_buf_pieces_bytes(buf, iter);

	if (list > max_t(u64, buf->charged, OP_LIST_MIN)) {
		if (!op_charge(m, op, list - buf->charged))
			return -ENOSPC;
		buf->charged = list;
	}
	return rar_buf_pin_iter(buf, regions, iter, esize);
}

static void op_free_bits(struct rar_operation *op)
{
	if (op->bits != op->few)
		kvfree(op->bits);
	op->bits = NULL;
}

/* Is the way round of own chunks timed? */
static bool is_timed(const struct rar_ring *ring, const struct rar_owed *owed)
{
	return rar_plan_returns(&ring->plan) && owed->used && !owed->up;
}

/* The words of memory for these times. */
static size_t time_words(const struct rar_ring *ring, const struct rar_owed *owed)
{
	return is_timed(ring, owed) ? DIV_ROUND_UP((size_t)owed->own, 2) : 0;
}

/* The words of memory for the bitmaps and times of a link. */
static size_t out_words(const struct rar_ring *ring,
			const struct rar_owed *owed)
{
	size_t longs = BITS_TO_LONGS(ring->nchunks), words = 0;

	if (owed->used)
		words = (3 * RAR_PHASES + (owed->nback ? 2 : 0)) * longs;
	return words + time_words(ring, owed);
}

/* What is sent to a partner by halving. */
static struct rar_owed owed_to(const struct rar_partners *partners, u32 i)
{
	return (struct rar_owed) {
		.ntx = partners->owed[i], .used = partners->owed[i],
	};
}

/* The same of all links: @outs by which the ring goes, and to the partners. */
static size_t bits_words(const struct rar_ring *ring, u32 outs,
			 const struct rar_partners *partners)
{
	size_t longs = BITS_TO_LONGS(ring->nchunks);
	size_t words = (2 * RAR_PHASES + ring->plan.aside) * longs;
	struct rar_owed owed;
	u32 i;

	for (i = 0; i < outs; i++) {
		owed = rar_ring_owed(ring, i);
		words += out_words(ring, &owed);
	}
	for (i = 0; i < partners->n; i++) {
		owed = owed_to(partners, i);
		words += out_words(ring, &owed);
	}
	return words;
}

/* Hand out the memory of @op->bits; a bitmap has @longs words. */
static void op_set_bitmaps(struct rar_operation *op, size_t longs)
{
	unsigned long *b = op->bits;
	struct rar_out *out;
	int p;

	for (p = 0; p < RAR_PHASES; p++, b += 2 * longs) {
		op->claimed[p] = b;
		op->published[p] = b + longs;
	}
	if (op->ring.plan.aside) {
		op->ringed = b;
		b += longs;
	}
	for (out = op->out; out < op->out + op->nouts; out++) {
		for (p = 0; p < RAR_PHASES && out->owed.used; p++, b += 3 * longs) {
			out->pend[p] = b;
			out->acked[p] = b + longs;
			out->sent[p] = b + 2 * longs;
			out->pend_from[p] = op->ring.nchunks;
		}
		if (out->owed.nback) {
			out->pend[RAR_BACK] = b;
			out->acked[RAR_BACK] = b + longs;
			out->pend_from[RAR_BACK] = op->ring.nchunks;
			b += 2 * longs;
		}
		out->inject_us = is_timed(&op->ring, &out->owed) ? (u32 *)b : NULL;
		b += time_words(&op->ring, &out->owed);
	}
}

/*
 * Prepare each link's part. Return: false if there are more partners than when
 * the operation was made; a rejoin drops what was begun, so there are not.
 */
static bool op_set_outs(struct rar_operation *op,
			const struct rar_partners *partners)
{
	struct rar_out *out = op->out;
	u32 i;

	if (WARN_ON_ONCE(op->ring_outs + partners->n > op->nouts))
		return false;
	for (i = 0; i < op->ring_outs; i++, out++)
		out->owed = rar_ring_owed(&op->ring, i);
	for (i = 0; i < partners->n; i++, out++)
		out->owed = owed_to(partners, i);
	for (out = op->out; out < op->out + op->nouts; out++) {
		out->inject = out->owed.first;
		out->inject_end = out->owed.first;
	}
	return true;
}

/* Get @words of zeroed memory. Those of a short operation lie in the operation itself. */
static bool op_alloc_bits(struct rar_operation *op, size_t words)
{
	op_free_bits(op);	/* of an attempt that could not be posted */
	if (words <= ARRAY_SIZE(op->few)) {
		memset(op->few, 0, words * sizeof(long));
		op->bits = op->few;
	} else {
		op->bits = kvcalloc(words, sizeof(long), OP_GFP);
	}
	return op->bits;
}

/*
 * The longest run of an operation, chunks. It lies in at most RAR_REDUCE_PIECES pieces here,
 * and at other ranks with similar memory, so the work that a packet brings is bounded.
 */
static u32 run_max(const struct rar_operation *op)
{
	u32 pieces = max(op->buf.npieces, op->src.npieces);

	return clamp(RAR_REDUCE_PIECES / (pieces / max(op->ring.nchunks, 1U) + 1), 1U,
		     (u32)RAR_RUN_MAX);
}

/*
 * The length of a copy step, in chunks of each block. 0 if the operation is too short for
 * steps, or if steps are switched off.
 */
static u32 copy_step(const struct rar_net *rn, const struct rar_ring *ring)
{
	u32 step = DIV_ROUND_UP(READ_ONCE(rn->sysctl_copy_step), ring->payload);

	/* All of an operation with a lead is contributed at once, after the lead. */
	return rar_plan_travels(&ring->plan) && !ring->lead && !ring->plan.gathered &&
	       !ring->plan.direct && !ring->plan.aside && ring->cpb > 2 * step ? step : 0;
}

/**
 * rar_op_kind() - how the numbers of an operation are reduced as they travel
 * @fingerprint: collective, dtype, redop, mode, from anywhere
 *
 * Return: NULL if there is no such reduction.
 */
const struct rar_kind *rar_op_kind(const struct rar_fingerprint *fingerprint)
{
	u8 dtype = fingerprint->dtype, redop = fingerprint->redop;

	if (rar_op_is_exact(fingerprint) || rar_op_is_quant(fingerprint)) {
		if (dtype != RAR_F32 || (redop != RAR_SUM && redop != RAR_AVG))
			return NULL;
		return rar_reduce_kind(rar_op_is_exact(fingerprint) ? RAR_I64 : RAR_I32, RAR_SUM);
	}
	if (fingerprint->mode & RAR_OPF_WIDE)
		dtype = dtype == RAR_F16 || dtype == RAR_BF16 ? RAR_F32 : 0;
	return rar_reduce_kind(dtype, redop);
}
EXPORT_SYMBOL_GPL(rar_op_kind);

/* Bytes of the blocks of an operation. */
static u64 blocks_bytes(const struct rar_fingerprint *fingerprint, const struct rar_kind *kind)
{
	return fingerprint->collective == RAR_REDUCE_BY_KEY ? 0 : fingerprint->count * kind->size;
}

/* Bytes of what the ranks agree on before they can contribute the numbers; 0 = nothing. */
static u64 lead_bytes(const struct rar_fingerprint *fingerprint)
{
	if (!rar_op_is_exact(fingerprint) && !rar_op_is_quant(fingerprint))
		return 0;
	return DIV_ROUND_UP_ULL(fingerprint->count, RAR_EXACT_BLOCK) *
	       sizeof(struct rar_exact_block);
}

/**
 * rar_op_cut() - make the schedule of an operation
 * @ring:        to fill
 * @fingerprint: of the operation, from anywhere
 * @payload:     bytes of a chunk in this epoch
 * @place:       this rank's place in the epoch
 *
 * Return: 0, -EOPNOTSUPP if there is no such operation, or as rar_ring_cut().
 */
int rar_op_cut(struct rar_ring *ring, const struct rar_fingerprint *fingerprint, u32 payload,
	       const struct rar_place *place)
{
	const struct rar_kind *kind = rar_op_kind(fingerprint);
	u64 lead = lead_bytes(fingerprint);
	struct rar_plan plan;
	int err;

	if (!kind)
		return -EOPNOTSUPP;
	if (fingerprint->count > RAR_MAX_BYTES / kind->size)
		return -EMSGSIZE;
	err = rar_ring_plan(&plan, place, fingerprint->collective,
			    fingerprint->mode, fingerprint->root);
	if (!err)
		err = rar_ring_cut(ring, blocks_bytes(fingerprint, kind), payload, &plan);
	return err || !lead ? err : rar_ring_lead(ring, lead);
}
EXPORT_SYMBOL_GPL(rar_op_cut);

/**
 * rar_op_bits() - find how much memory the bitmaps of an operation take
 * @m:           member in RUN
 * @fingerprint: of the operation
 * @bytes:       set; 0 if they lie in the operation itself
 *
 * Return: 0, or as rar_op_cut().
 */
int rar_op_bits(const struct rar_member *m, const struct rar_fingerprint *fingerprint,
		u64 *bytes)
{
	struct rar_partners partners;
	struct rar_ring ring;
	size_t words;
	int err;

	err = rar_op_cut(&ring, fingerprint, m->payload, &m->place);
	if (err)
		return err;
	rar_halving_partners(&ring, &partners);
	words = bits_words(&ring, rar_outs(m), &partners);
	*bytes = words <= RAR_OP_FEW ? 0 : words * sizeof(long);
	return 0;
}

/**
 * rar_op_schedule() - give an operation its fingerprint and cut it into chunks
 * @op:      from rar_op_alloc(), not posted
 * @fingerprint:   collective, dtype, redop, count ...; there are kernels for it
 * @payload: bytes of a chunk in this epoch
 * @place:   this rank's place in the epoch
 *
 * Process context.
 *
 * Return: 0, -ENOMEM, or as rar_op_cut().
 */
int rar_op_schedule(struct rar_operation *op, const struct rar_fingerprint *fingerprint,
		    u32 payload, const struct rar_place *place)
{
	struct rar_partners partners;
	int err;

	err = rar_op_cut(&op->ring, fingerprint, payload, place);
	if (err)
		return err;

	rar_halving_partners(&op->ring, &partners);
	if (!op_set_outs(op, &partners))
		return -EINVAL;
	if (!op_alloc_bits(op, bits_words(&op->ring, op->ring_outs, &partners)))
		return -ENOMEM;
	op_set_bitmaps(op, BITS_TO_LONGS(op->ring.nchunks));

	op->step = copy_step(op->rn, &op->ring);
	op->run_max = run_max(op);
	op->fingerprint = *fingerprint;
	op->kind = rar_op_kind(fingerprint);
	if (op->ring.plan.doubling && !op->ring.plan.scatters) {
		op->kind = rar_reduce_kind(RAR_U8, RAR_BOR);
		rar_gather_clear(op);
	}
	/* The codec divides sums of integers that stand for floats. */
	op->divisor = fingerprint->redop == RAR_AVG && op->kind->div_gen ? place->size : 0;
	op->lead.kind = op->ring.lead ? rar_reduce_kind(RAR_U8, RAR_MAX) : NULL;
	atomic_set(&op->lead.left, op->ring.lead * op->ring.nblocks);
	op->wake_left = -1;
	/* If nothing arrives, this rank's contribution is left: see complete_without(). */
	atomic_set(&op->left, rar_ring_need(&op->ring) ?: 1);
	return 0;
}

static void op_free(struct rar_operation *op)
{
	op_free_bits(op);
	rar_buf_free(&op->buf);
	rar_buf_free(&op->src);
	rar_buf_free(&op->kept);
	rar_keyed_free(op->keyed);
	if (op->charges)
		op_uncharge(op, op->room, op->charges);
	rar_user_put(op->user);
	kfree(op);
}

/* Free an operation that was posted. */
static void op_free_posted(struct rar_operation *op)
{
	struct rar_user *user = rar_user_hold(op->user);

	op_free(op);
	rar_user_freed(user);
	rar_user_put(user);
}

static void op_free_rcu(struct rcu_head *head)
{
	op_free_posted(container_of(head, struct rar_operation, free.rcu));
}

static void op_free_work(struct work_struct *work)
{
	op_free_posted(container_of(to_rcu_work(work), struct rar_operation, free));
}

/**
 * rar_op_put() - drop a reference
 * @op: operation
 *
 * Any context. The last put frees the buffer after an RCU grace period. Until then its
 * memory stays charged.
 */
void rar_op_put(struct rar_operation *op)
{
	if (!refcount_dec_and_test(&op->ref))
		return;
	atomic_inc(&op->user->freeing);
	if (op->buf.linear && !op->keyed) {
		call_rcu(&op->free.rcu, op_free_rcu);
	} else {
		INIT_RCU_WORK(&op->free, op_free_work);
		queue_rcu_work(op_wq, &op->free);
	}
}

/**
 * rar_op_drop() - free an operation that was never posted
 * @op: operation with one reference
 *
 * Process context.
 */
void rar_op_drop(struct rar_operation *op)
{
	op_free(op);
}

/**
 * rar_op_unpin() - give the user's memory back
 * @op: pinned and ready
 *
 * Process context.
 */
void rar_op_unpin(struct rar_operation *op)
{
	rar_buf_free(&op->buf);
	rar_buf_free(&op->src);
}

/**
 * rar_op_keep() - copy the sums out of the user's memory
 * @m: member
 * @op:  pinned and complete: nobody writes to its memory
 *
 * Process context. From now on packets are built from the copy. After a grace period the
 * caller may give the user's memory back.
 *
 * Return: 0, or -ENOMEM and nothing has changed.
 */
int rar_op_keep(struct rar_member *m, struct rar_operation *op)
{
	if (op_buf(m, op, &op->kept, op->bytes, op->bytes))
		return -ENOMEM;
	rar_buf_copy(&op->kept, &op->buf);
	/* Pairs with rar_op_source(): a reader of the address sees the copy. The copy has
	 * no contributions, but the successor has had all of them, and drops repeats.
	 */
	smp_store_release(&op->own, &op->kept);
	/* Pairs with rar_op_source(). */
	smp_store_release(&op->sums, &op->kept);
	return 0;
}

/* The hash of a fingerprint, which the history keeps of a finished operation. */
u32 rar_fingerprint_hash(const struct rar_fingerprint *p)
{
	u32 what = p->collective | p->dtype << 8 | p->redop << 16;

	return jhash_3words(lower_32_bits(p->count), upper_32_bits(p->count),
			    what, (u32)p->mode << 16 | p->root);
}

/* The first field in which two members disagree about an operation, as a reason. */
enum rar_reason rar_fingerprint_differs(const struct rar_fingerprint *a,
					const struct rar_fingerprint *b)
{
	if (a->collective != b->collective)
		return RAR_R_COLLECTIVE;
	if (a->dtype != b->dtype)
		return RAR_R_DTYPE;
	if (a->redop != b->redop)
		return RAR_R_REDOP;
	if (a->count != b->count)
		return RAR_R_COUNT;
	if (a->root != b->root)
		return RAR_R_ROOT;
	return a->mode != b->mode ? RAR_R_FLAGS : RAR_R_NONE;
}
EXPORT_SYMBOL_GPL(rar_fingerprint_differs);

/* What a member passed where @why says that two disagree. */
u64 rar_fingerprint_value(const struct rar_fingerprint *p, enum rar_reason why)
{
	switch (why) {
	case RAR_R_COLLECTIVE:
		return p->collective;
	case RAR_R_DTYPE:
		return p->dtype;
	case RAR_R_REDOP:
		return p->redop;
	case RAR_R_COUNT:
		return p->count;
	case RAR_R_ROOT:
		return p->root;
	case RAR_R_FLAGS:
		return p->mode;
	default:
		return 0;
	}
}

/* Let a work item of an operation run soon; the last one ends before the module does. */
void rar_op_queue(struct work_struct *work)
{
	queue_work(op_wq, work);
}

int __init rar_op_init(void)
{
	op_wq = alloc_workqueue("rar_op", WQ_UNBOUND, 0);
	return op_wq ? 0 : -ENOMEM;
}

/* At module unload: no group is left. */
void rar_op_exit(void)
{
	rcu_barrier();
	destroy_workqueue(op_wq);
}

/*
 * Check that the chunks of a run can come here and have the right length. Sets @c to the
 * first chunk. Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_op_check(const struct rar_ring *ring, const struct rar_run *run,
			 u64 bytes, struct rar_chunk *c)
{
	if (run->chunk >= ring->nchunks ||
	    run->n > rar_ring_block_end(ring, run->chunk) - run->chunk)
		return RAR_DROP(Chunk);
	rar_ring_chunk(ring, run->chunk, c);
	if (rar_plan_combine(&ring->plan, run->phase, c->block) == RAR_COMBINE_NONE)
		return RAR_DROP(Chunk);
	return rar_ring_bytes(ring, run->chunk, run->n) == bytes ?
	       RAR_RX_DONE : RAR_DROP(Length);
}

/* Is a run too early: has this rank not contributed to all of its chunks yet? */
bool rar_op_early(const struct rar_member *m, u64 op_seq, const struct rar_run *run)
{
	const struct rar_operation *op;
	u64 whole;
	u32 come;

	/* Pairs with the releases in publish_whole(). */
	whole = smp_load_acquire(&m->op_whole);
	if (likely(op_seq < whole))
		return false;
	/* Pairs with the releases in publish_whole(). */
	come = smp_load_acquire(&m->op_come);
	if (op_seq > whole || !come)
		return true;
	op = rcu_dereference(m->ops[op_seq % RAR_MAX_OPS]);
	return op && op->seq == op_seq && run->chunk % op->ring.cpb + run->n > come;
}
