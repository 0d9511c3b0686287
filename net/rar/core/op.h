/* SPDX-License-Identifier: GPL-2.0 */
/* An operation: its buffer, the state of its chunks, its end. */
#ifndef _RAR_OP_H
#define _RAR_OP_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/rar_wire.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <linux/types.h>

#include "core/buf.h"
#include "core/ring.h"

struct rar_codec;
struct rar_keyed;
struct rar_member;
struct rar_kind;
struct rar_net;

static_assert(BITS_PER_LONG == 64, "AF_RAR needs a 64-bit kernel");

/*
 * The flags of struct rar_op that this module knows. They travel in the mode,
 * and RAR_CAPS tells which of them all members know.
 */
#define RAR_OP_FLAGS	(RAR_OPF_IN_ORDER | RAR_OPF_WIDE | RAR_OPF_EXACT | RAR_OPF_QUANT)

static_assert(!(RAR_OP_FLAGS & ~RAR_MODE_FLAGS));

/* The fields of an operation that all members must agree on; see struct rar_data_hdr. */
struct rar_fingerprint {
	u64 count;
	u16 mode;
	u16 root;
	u8 collective;
	u8 dtype;
	u8 redop;
};

/* Do the numbers of an operation travel as integers, after a lead? */
static inline bool rar_op_is_exact(const struct rar_fingerprint *p)
{
	return p->mode & RAR_OPF_EXACT && p->collective != RAR_REDUCE_BY_KEY;
}

static inline bool rar_op_is_quant(const struct rar_fingerprint *p)
{
	return p->mode & RAR_OPF_QUANT && p->collective != RAR_REDUCE_BY_KEY;
}

/* Has the order of the additions no effect, as arithmetic wraps, or as integers travel? */
static inline bool rar_op_any_order(const struct rar_fingerprint *p)
{
	return (p->dtype >= RAR_I32 && p->dtype <= RAR_U64) || rar_op_is_exact(p) ||
	       rar_op_is_quant(p);
}

/*
 * Ways on which a rank sends: one per phase to its successor, and one (RAR_BACK) on which
 * complete chunks go in memory to the first rank of its host.
 */
#define RAR_BACK	RAR_PHASES
#define RAR_WAYS	(RAR_PHASES + 1)

/*
 * A run: consecutive chunks of one phase and block. A packet carries a run of one chunk, a
 * superpacket (GSO) a longer run. A set of its chunks is a mask; bit 0 is the first chunk.
 */
struct rar_run {
	u32 chunk;
	u32 n;			/* 1 .. RAR_RUN_MAX */
	enum rar_phase phase;
};

#define RAR_RUN_MAX	64
#define RAR_MAX_LANES	8	/* consecutive ports that chunks come from */

/* The operations that are complete at a rank; see struct rar_done_hdr. */
struct rar_known {
	u64 base;
	u64 map;
};

/* A transmission: chosen under tx_lock, then built and sent without it. */
struct rar_tx_item {
	struct rar_operation *op;	/* referenced */
	struct rar_run run;
	u32 seq;			/* of the first chunk */
	u32 una;
	u64 epoch;			/* of the link, if that leads to no rank */
	u8 lane;			/* see lane.c */
	struct rar_known known;		/* instead of both, if it goes directly */
	bool ack_now;
	u8 flags;			/* RAR_F_* of a chunk that goes directly */
	bool frame;			/* forwarded at the XDP hook */
	bool whole;			/* as a carrier */
	bool own;			/* injected, for the first time */
	bool back;			/* to the first rank of this host */
};

/*
 * struct rar_out - what a link sends of an operation; all under tx_lock
 * @pend:	by way, the chunks that wait to be sent
 * @acked:	by way, the chunks that the neighbour has, or certainly needs no more
 * @sent:	by phase, the chunks that were sent at least once
 * @npend:	by way, the number of bits in @pend
 * @pend_from:	by way, no bit is set in @pend below
 * @owed:	what the link sends in all
 * @inject:	next own chunk to inject; where all blocks are own, by rar_ring_nth()
 * @inject_end:	after the last own chunk contributed; @owed.first before it is posted
 * @inject_us:	by own chunk: when injected, 0 = not timed; NULL: none is timed
 * @inj_max:	limit of the link's injection window for this operation, bytes
 * @returned:	an own chunk came round
 * @nsent:	transmissions to the neighbour, without repeats
 * @nacked:	transmissions acknowledged, also those back
 * @early_cost:	credit taken, see tx.early_used
 * @moved_us:	of a link to a box: when a chunk of the box was last added or stored
 * @asked_us:	of a link to a box: when the predecessor was last asked for sums of its chunks
 */
struct rar_out {
	unsigned long *pend[RAR_WAYS];
	unsigned long *acked[RAR_WAYS];
	unsigned long *sent[RAR_PHASES];
	u32 npend[RAR_WAYS];
	u32 pend_from[RAR_WAYS];
	struct rar_owed owed;
	u32 inject;
	u32 inject_end;
	u32 *inject_us;
	u64 inj_max;
	bool returned;
	u32 nsent;
	u32 nacked;
	u64 early_cost;
	u64 moved_us;
	u64 asked_us;
};

/*
 * struct rar_lead - the lead of an operation, which is complete before the rest begins
 * @kind:   its reduction; NULL: there is no lead
 * @left:   chunks that have not arrived in their last phase
 * @member: referenced once @work is queued
 * @work:   contributes the rest; set by sock/codec.c
 */
struct rar_lead {
	const struct rar_kind *kind;
	atomic_t left;
	struct rar_member *member;
	struct work_struct work;
};

#define RAR_OP_FEW	48	/* words: without them an operation would take 2 KiB, too */

/*
 * struct rar_operation - one collective call at this rank
 *
 * No packet is kept, because any packet can be built again from @buf, a phase and a chunk.
 * The life of a chunk in phase p:
 *
 *	contributed   copied in, before the operation is posted or in steps (copy.c), or
 *	              encoded after it is posted (codec.c)
 *	claimed[p]    by an atomic test-and-set; the winner adds or stores
 *	published[p]  the result of phase p is in @buf; a release that pairs with the
 *	              acquire in rar_op_published()
 *	acked[p]      of @out: the neighbour has it, or certainly needs it no more
 *
 * complete: @left is 0: all that arrives here is published here. If nothing arrives, this
 * rank has contributed all, and send() has counted that.
 * released: complete, no link owes any of it (see struct rar_owed), and no @peers wait; nothing
 * is sent from @buf any more. An operation in pinned memory is delivered when @users is 0 as well.
 *
 * @ref: one reference each for the table m->ops until released, for the list
 * m->undelivered until delivered, for the list m->pinned until the pages are given back,
 * and for each rar_tx_item. A receiver finds the operation under RCU without a reference,
 * so it is freed after a grace period.
 * @users: how many of these may read @buf: the table and the rar_tx_items. A receiver
 * without a reference touches @buf only for a chunk that it claimed, which is before the
 * operation is complete.
 * In a group with a box (see design/box.rst) a chunk may become a sum here in two ways, and is
 * complete when its AG is published; if this rank gets no sum, when its RS is. A receiver claims
 * RS before AG, so a sum is never stored while a partial sum is being added.
 *
 * tx_lock protects @come and the fields from @peers on; m->lock protects @node and @pin_node;
 * recv_lock protects @read.
 */
struct rar_operation {
	struct rar_ring ring;
	struct rar_fingerprint fingerprint;
	u64 seq;
	u64 cookie;
	const struct rar_kind *kind;
	refcount_t ref;
	atomic_t users;
	struct rcu_work free;
	struct rar_net *rn;		/* valid as long as bytes are charged to it */
	struct rar_user *user;
	u32 charges;			/* to @rn and @user */
	u64 room;			/* bytes in all of these */

	struct rar_buf buf;		/* the sums */
	struct rar_buf src;		/* out of place: the contribution */
	struct rar_buf kept;		/* pinned: memory of the kernel that packets are built
					 * from, if gathered or the member is closed (pin.c)
					 */
	const struct rar_buf *own;	/* the buffer that holds the contribution */
	const struct rar_buf *sums;	/* the buffer that chunks are stored in and sent from */
	bool pinned;			/* @buf and @src are memory of the user */
	struct list_head pin_node;	/* m->pinned */
	bool later;			/* posted before the contribution is copied in */
	bool blocking;			/* a send() waits for the result; m->lock when posted */
	u64 dst;			/* out of place: address of @buf at the user */
	bool apart;			/* the user's contribution stays in @src */
	u8 prio;			/* at a box */
	u64 bytes;			/* of the tensor as it travels */
	const struct rar_codec *codec;	/* NULL: the user's numbers travel as they are */
	u32 contributors;		/* ranks; only with a codec */
	struct rar_keyed *keyed;	/* NULL: the operation is no keyed reduction */
	struct rar_span given;		/* what this rank contributes of the user's tensor */
	struct rar_span got;		/* its result */
	u32 divisor;			/* of complete sums: the number of ranks, 0 = none */
	struct rar_lead lead;
	u32 step;			/* see copy_step() */
	u32 run_max;			/* chunks in a run at most, see run_max() */
	u64 filled;			/* bytes that the user has passed (send_lock) */
	u64 read;			/* bytes copied out to the user (recv_lock) */
	u64 posted_us;
	bool steered;			/* see steer.c */
	int cpu[RAR_MAX_LANES];		/* by lane */
	struct list_head node;
	bool complete;
	atomic_t left;
	int wake_left;			/* @left that wakes the reader, -1 = none */
	u32 come;			/* chunks of each block that this rank contributed */

	unsigned long *bits;		/* memory of the bitmaps, and of times in @out */
	unsigned long few[RAR_OP_FEW];	/* that memory, of a short operation */
	unsigned long *claimed[RAR_PHASES];
	unsigned long *published[RAR_PHASES];

	u32 peers;			/* slots: ranks that may need chunks */
	u32 senders;			/* slots: ranks that send chunks here */
	bool direct_sent;		/* the own chunks went directly to all of them */
	bool direct_runs;		/* it counts in m->direct.running */
	unsigned long *ringed;		/* chunks that go by the ring, if sums are made aside */
	u32 ringed_boxes;		/* boxes of which all do, but for the sums that were here
					 * before; a bit each
					 */
	u32 nouts;
	u32 ring_outs;			/* of these, those of ring and boxes */
	struct rar_out out[];		/* by link: these, then peers' */
};

/* The operation that a data packet describes. */
static inline struct rar_fingerprint rar_op_described(const struct rar_data_hdr *dh)
{
	return (struct rar_fingerprint) {
		.count = be64_to_cpu(dh->count),
		.mode = be16_to_cpu(dh->mode),
		.root = be16_to_cpu(dh->root),
		.collective = dh->collective,
		.dtype = dh->dtype,
		.redop = dh->redop,
	};
}

/* Describe an operation in the header of a data packet. */
static inline void rar_op_describe(struct rar_data_hdr *dh, u64 seq,
				   const struct rar_fingerprint *p)
{
	dh->op_seq = cpu_to_be64(seq);
	dh->count = cpu_to_be64(p->count);
	dh->mode = cpu_to_be16(p->mode);
	dh->root = cpu_to_be16(p->root);
	dh->collective = p->collective;
	dh->dtype = p->dtype;
	dh->redop = p->redop;
}

/* Let the holder of a reference read the buffer, until rar_op_unuse(). */
static inline void rar_op_use(struct rar_operation *op)
{
	atomic_inc(&op->users);
}

void rar_op_put(struct rar_operation *op);

/*
 * Undo rar_op_use() and drop the reference. Return: true if nobody reads the user's memory
 * any more, which the user may be waiting for.
 */
static inline bool rar_op_unuse(struct rar_operation *op)
{
	/* A full barrier: we have read the buffer before the user may write to it. */
	bool last = atomic_dec_and_test(&op->users) && op->pinned;

	rar_op_put(op);
	return last;
}

/*
 * The chunks of which nothing more has to arrive here, where sums may be made aside: sums; or, if
 * this rank gets no sum, chunks to which it has added or to which it need not add any more.
 */
static inline const unsigned long *rar_op_settled(const struct rar_operation *op)
{
	return op->published[rar_plan_final(&op->ring.plan)];
}

/* Has this rank left the box of a chunk, as far as the operation goes? */
static inline bool rar_op_left_box(const struct rar_operation *op, u32 chunk)
{
	return READ_ONCE(op->ringed_boxes) & BIT(rar_ring_box(&op->ring, chunk));
}

/* The reduction of a chunk. */
static inline const struct rar_kind *rar_op_kind_at(const struct rar_operation *op, u32 chunk)
{
	return rar_ring_leads(&op->ring, chunk) ? op->lead.kind : op->kind;
}

/* May the result be delivered? No packet of a gathered operation needs pinned memory. m->lock. */
static inline bool rar_op_ready(const struct rar_operation *op)
{
	return op->complete && (!op->pinned || op->ring.plan.gathered ||
				!atomic_read_acquire(&op->users));
}

/* Would recv() have the result if it came to this operation? m->lock. */
static inline bool rar_op_deliverable(const struct rar_operation *op)
{
	return rar_op_ready(op) && !op->blocking;
}

/*
 * The buffer that a run is sent from: the contribution where the run begins, sums
 * elsewhere. RCU read side. The dependent reads pair with the releases in rar_op_keep().
 */
static inline const struct rar_buf *rar_op_source(const struct rar_operation *op,
						  const struct rar_run *run,
						  const struct rar_chunk *c)
{
	return rar_plan_injects(&op->ring.plan, run->phase, c->block) ?
	       READ_ONCE(op->own) : READ_ONCE(op->sums);
}

/* -- masks of at most 64 bits anywhere in a bitmap ------------------------ */

static inline u64 rar_mask(u32 n)
{
	return n < 64 ? (1ULL << n) - 1 : ~0ULL;
}

/* How many bits are set from bit 0 on, up to the first clear one. */
static inline u32 rar_mask_run(u64 mask)
{
	return ~mask ? __ffs64(~mask) : 64;
}

/* The part of @mask at bit @first that lies in the next word. */
static inline u64 rar_mask_high(u32 first, u64 mask)
{
	return first % 64 ? mask >> (64 - first % 64) : 0;
}

static inline u64 rar_bits_get(const unsigned long *map, u32 first, u64 mask)
{
	const unsigned long *w = map + first / 64;
	u64 got = READ_ONCE(w[0]) >> first % 64;

	if (rar_mask_high(first, mask))
		got |= (u64)READ_ONCE(w[1]) << (64 - first % 64);
	return got & mask;
}

/* Not atomic. Return: the bits of @mask that were clear. */
static inline u64 rar_bits_set(unsigned long *map, u32 first, u64 mask)
{
	u64 high = rar_mask_high(first, mask);
	u64 was = rar_bits_get(map, first, mask);

	map[first / 64] |= mask << first % 64;
	if (high)
		map[first / 64 + 1] |= high;
	return mask & ~was;
}

/* Not atomic. Return: the bits of @mask that were set. */
static inline u64 rar_bits_clear(unsigned long *map, u32 first, u64 mask)
{
	u64 high = rar_mask_high(first, mask);
	u64 was = rar_bits_get(map, first, mask);

	map[first / 64] &= ~(mask << first % 64);
	if (high)
		map[first / 64 + 1] &= ~high;
	return was;
}

/* Atomic, a full barrier. Return: the bits of @mask that were clear. */
static inline u64 rar_bits_test_and_set(unsigned long *map, u32 first, u64 mask)
{
	atomic_long_t *w = (atomic_long_t *)(map + first / 64);
	u64 high = rar_mask_high(first, mask);
	u64 was = (u64)atomic_long_fetch_or(mask << first % 64, w) >> first % 64;

	if (high)
		was |= (u64)atomic_long_fetch_or(high, w + 1) << (64 - first % 64);
	return mask & ~was;
}

/* Bytes of the chunks in @mask of a run; only its last chunk may be short. */
static inline u64 rar_op_bytes(const struct rar_operation *op,
			       const struct rar_run *run, u64 mask)
{
	u32 last = run->n - 1;
	u64 bytes = hweight64(mask) * (u64)op->ring.payload;

	if (mask >> last & 1)
		bytes -= op->ring.payload -
			 rar_ring_bytes(&op->ring, run->chunk + last, 1);
	return bytes;
}

/*
 * Claim chunks: nothing else does. The winner of a chunk adds (RS) or stores (AG) it and
 * publishes it, without an exit in between. Return: the chunks won.
 */
static inline u64 rar_op_claim(struct rar_operation *op,
			       const struct rar_run *run)
{
	return rar_bits_test_and_set(op->claimed[run->phase], run->chunk,
				     rar_mask(run->n));
}

/* Release: pairs with rar_op_published(). */
static inline void rar_op_publish(struct rar_operation *op,
				  const struct rar_run *run, u64 mask)
{
	/* A full barrier: the buffer is written before the bits. */
	rar_bits_test_and_set(op->published[run->phase], run->chunk, mask);
}

/* Acquire: pairs with rar_op_publish(). Return: the published chunks of @mask. */
static inline u64 rar_op_published(const struct rar_operation *op,
				   const struct rar_run *run, u64 mask)
{
	u64 set = rar_bits_get(op->published[run->phase], run->chunk, mask);

	smp_rmb(); /* acquire: the bits are read before the buffer */
	return set;
}

struct rar_operation *rar_op_alloc(struct rar_member *m, u16 mode, u64 bytes,
				   u64 room);
struct rar_operation *rar_op_alloc_keyed(struct rar_member *m,
					 const struct rar_fingerprint *fingerprint, bool root,
					 u64 room);
struct rar_operation *rar_op_alloc_pinned(struct rar_member *m,
					  struct rar_regions *regions, u16 mode,
					  u64 bytes, u64 dst, u64 room,
					  u64 bits);
int rar_op_pin(struct rar_member *m, struct rar_operation *op, struct rar_buf *buf,
	       struct rar_regions *regions, struct iov_iter *iter, u32 esize);
int rar_op_bits(const struct rar_member *m, const struct rar_fingerprint *fingerprint,
		u64 *bytes);
const struct rar_kind *rar_op_kind(const struct rar_fingerprint *fingerprint);
int rar_op_cut(struct rar_ring *ring, const struct rar_fingerprint *fingerprint, u32 payload,
	       const struct rar_place *place);
int rar_op_schedule(struct rar_operation *op, const struct rar_fingerprint *fingerprint,
		    u32 payload, const struct rar_place *place);
void rar_op_drop(struct rar_operation *op);
void rar_op_unpin(struct rar_operation *op);
int rar_op_keep(struct rar_member *m, struct rar_operation *op);
u32 rar_fingerprint_hash(const struct rar_fingerprint *p);
enum rar_reason rar_fingerprint_differs(const struct rar_fingerprint *a,
					const struct rar_fingerprint *b);
u64 rar_fingerprint_value(const struct rar_fingerprint *p, enum rar_reason why);
void rar_op_queue(struct work_struct *work);
int rar_op_init(void);
void rar_op_exit(void);
enum rar_rx rar_op_check(const struct rar_ring *ring, const struct rar_run *run,
			 u64 bytes, struct rar_chunk *c);
bool rar_op_early(const struct rar_member *m, u64 op_seq, const struct rar_run *run);

#endif /* _RAR_OP_H */
