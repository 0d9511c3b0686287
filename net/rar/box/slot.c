// SPDX-License-Identifier: GPL-2.0
/*
 * The slots of the box: contributions are added in the order of the ring, and the sum goes to
 * all members. A slot that finds no room gives its chunk up. See Documentation/design/box.rst.
 *
 * A slot is one chunk. Its row is taken when the first contribution comes, and given back when
 * all members have completed the operation. When memory gets short it is given back sooner: when
 * each member's @una is past the number of its contribution, so that the member has the sum or
 * has given that packet up.
 * Contributions that come before their turn are held, each in memory of its own. All of it is
 * limited by net.rar.box_mem.
 */
#include <linux/slab.h>
#include <linux/xarray.h>

#include "box/job.h"
#include "core/hdr.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/ring.h"
#include "reduce/reduce.h"
#include "tx/packet.h"

#define SLOT_COST	32	/* bytes that a chunk costs until its operation is complete */

/* A contribution that came before its turn. */
struct box_held {
	struct list_head node;
	u32 rank;
	u8 data[] __aligned(8);
};

/*
 * struct box_slot - a chunk
 * @node:	in job->sums, when the sum is made
 * @ref:	the table's, and one for each sender of the sum
 * @op:		the operation
 * @chunk:	the chunk
 * @dh:		header of the sum, without a number
 * @len:	its bytes
 * @got:	mask of the ranks that contributed
 * @turn:	contributions added
 * @held:	struct box_held
 * @sum:	the partial sum, then the sum; after the entries of @come
 * @come:	by rank, its newest contribution: see come_at()
 */
struct box_slot {
	struct list_head node;
	refcount_t ref;
	struct box_op *op;
	u32 chunk;
	struct rar_data_hdr dh;
	u32 len;
	u64 got;
	u32 turn;
	struct list_head held;
	void *sum;
	u64 come[];
};

/* A contribution: its number, and in the upper half when it came, us. */
static u64 come_at(u32 seq, u32 now)
{
	return (u64)now << 32 | seq;
}

/*
 * struct box_op - an operation
 * @seq:	its number
 * @fingerprint: as the first member describes it
 * @kind:	its arithmetic
 * @ring:	where its chunks lie
 * @slots:	by chunk: a slot, or a value if the chunk is over, with or without a sum
 * @cost:	bytes charged besides rows
 */
struct box_op {
	u64 seq;
	struct rar_fingerprint fingerprint;
	const struct rar_kind *kind;
	struct rar_ring ring;
	struct xarray slots;
	u64 cost;
};

/* What to send after job->lock is dropped. Chunks by their place in a run. */
struct box_out {
	u32 now;		/* when the run came, us */
	struct box_slot *sums[RAR_RUN_MAX];	/* referenced */
	u64 fresh;		/* of @sums, those that go to all members */
	u64 gone;		/* chunks given up */
	u64 gone_to;		/* ranks to tell so */
	bool wait;
};

#define SLOT_OVER	xa_mk_value(1)

static_assert(RAR_BOX_LEGS <= 64);

/* -- memory ----------------------------------------------------------------- */

static bool charge(struct box_job *job, u64 bytes)
{
	u64 limit = READ_ONCE(job->m.rn->sysctl_box_mem);

	if (atomic64_add_return(bytes, &job->box->used) <= limit)
		return true;
	atomic64_sub(bytes, &job->box->used);
	return false;
}

static void uncharge(struct box_job *job, u64 bytes)
{
	atomic64_sub(bytes, &job->box->used);
}

/* Where the row begins after the entries of @come. */
static size_t slot_head(const struct box_job *job)
{
	return ALIGN(offsetof(struct box_slot, come) + job->nlegs * sizeof(u64), 64);
}

static void slot_put(struct box_slot *slot)
{
	if (refcount_dec_and_test(&slot->ref))
		kfree(slot);
}

static void drop_held(struct box_job *job, struct box_slot *slot, struct box_held *held)
{
	list_del(&held->node);
	uncharge(job, sizeof(*held) + slot->len);
	kfree(held);
}

/* Give a slot's row back. Its chunk is over. */
static void slot_end(struct box_job *job, struct box_slot *slot)
{
	struct box_held *held, *tmp;

	lockdep_assert_held(&job->lock);
	list_for_each_entry_safe(held, tmp, &slot->held, node)
		drop_held(job, slot, held);
	list_del(&slot->node);
	/* The entry exists, so no memory is needed. */
	xa_store(&slot->op->slots, slot->chunk, SLOT_OVER, GFP_ATOMIC);
	uncharge(job, slot_head(job) + slot->len);
	job->slots--;
	slot_put(slot);
}

/* Make room: the oldest sum is the one that most members have. */
static bool reclaim(struct box_job *job)
{
	struct box_slot *slot = list_first_entry_or_null(&job->sums, struct box_slot, node);

	if (slot)
		slot_end(job, slot);
	return slot;
}

static void *get_room(struct box_job *job, size_t bytes)
{
	void *p;

	while (!charge(job, bytes))
		if (!reclaim(job))
			return NULL;
	p = kmalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
	if (!p)
		uncharge(job, bytes);
	return p;
}

/* The header of the sum, as a member's ring would fill it. */
static void fill_dh(struct box_slot *slot)
{
	const struct rar_fingerprint *p = &slot->op->fingerprint;

	slot->dh = (struct rar_data_hdr) {
		.op_seq = cpu_to_be64(slot->op->seq),
		.count = cpu_to_be64(p->count),
		.chunk = cpu_to_be32(slot->chunk),
		.collective = p->collective,
		.dtype = p->dtype,
		.redop = p->redop,
		.opflags = p->flags,
		.root = cpu_to_be16(p->root),
	};
}

static struct box_slot *slot_new(struct box_job *job, struct box_op *op, u32 chunk)
{
	size_t head = slot_head(job);
	struct box_slot *slot;
	struct rar_chunk c;

	rar_ring_chunk(&op->ring, chunk, &c);
	slot = get_room(job, head + c.len);
	if (!slot)
		return NULL;
	memset(slot, 0, head);
	INIT_LIST_HEAD(&slot->node);
	INIT_LIST_HEAD(&slot->held);
	refcount_set(&slot->ref, 1);
	slot->op = op;
	slot->chunk = chunk;
	slot->len = c.len;
	slot->sum = (void *)slot + head;
	fill_dh(slot);
	if (xa_is_err(xa_store(&op->slots, chunk, slot, GFP_ATOMIC))) {
		uncharge(job, head + c.len);
		kfree(slot);
		return NULL;
	}
	job->slots++;
	return slot;
}

/* -- operations --------------------------------------------------------------- */

static void op_drop(struct box_job *job, struct box_op *op)
{
	struct box_slot *slot;
	unsigned long chunk;

	lockdep_assert_held(&job->lock);
	xa_for_each(&op->slots, chunk, slot)
		if (!xa_is_value(slot))
			slot_end(job, slot);
	xa_destroy(&op->slots);
	uncharge(job, op->cost);
	job->ops[op->seq % RAR_MAX_OPS] = NULL;
	kfree(op);
}

/* Cut an operation as its members do. Returns false if the box cannot serve it. */
static bool op_cut(struct box_job *job, struct box_op *op)
{
	const struct rar_place place = { .size = job->nlegs, .aside = true };

	op->kind = rar_op_kind(&op->fingerprint);
	return !rar_op_cut(&op->ring, &op->fingerprint, job->m.payload, &place) &&
	       op->ring.plan.aside;
}

static struct box_op *op_new(struct box_job *job, u64 seq, const struct rar_fingerprint *p)
{
	struct box_op *op = kzalloc(sizeof(*op), GFP_ATOMIC | __GFP_NOWARN);

	if (!op)
		return NULL;
	op->seq = seq;
	op->fingerprint = *p;
	op->cost = sizeof(*op);
	if (!op_cut(job, op) || !charge(job, op->cost)) {
		kfree(op);
		return NULL;
	}
	xa_init(&op->slots);	/* used under job->lock only */
	job->ops[seq % RAR_MAX_OPS] = op;
	return op;
}

static bool same(const struct rar_fingerprint *a, const struct rar_fingerprint *b)
{
	return a->count == b->count && a->root == b->root && a->collective == b->collective &&
	       a->dtype == b->dtype && a->redop == b->redop && a->flags == b->flags;
}

/*
 * The operation of a contribution, or NULL if the box cannot serve it: the members may
 * disagree about it, which the ring finds out.
 */
static struct box_op *op_find(struct box_job *job, const struct rar_data_hdr *dh)
{
	const struct rar_fingerprint p = rar_op_described(dh);
	u64 seq = be64_to_cpu(dh->op_seq);
	struct box_op *op = job->ops[seq % RAR_MAX_OPS];

	if (!op && seq >= job->base)
		return op_new(job, seq, &p);
	if (!op || op->seq != seq || !same(&op->fingerprint, &p))
		return NULL;
	return op;
}

/* -- contributions ------------------------------------------------------------- */

/* Add a contribution whose turn it is. In the ring, too, the partial sum is the first operand. */
static void add(struct box_job *job, struct box_slot *slot, const void *data)
{
	const struct box_op *op = slot->op;
	struct rar_reduce_ctx ctx;

	if (!slot->turn++) {
		memcpy(slot->sum, data, slot->len);
		return;
	}
	rar_reduce_begin(&ctx);
	rar_reduce(&ctx, op->kind, slot->sum, slot->sum, slot->sum, data, slot->len);
	if (slot->turn == job->nlegs && op->fingerprint.redop == RAR_AVG)
		rar_reduce_divide(&ctx, op->kind, slot->sum, slot->sum, job->nlegs, slot->len);
	rar_reduce_end(&ctx);
}

/* The contributions that come before that of @rank: the block's number is its first rank. */
static u32 turn_of(const struct box_job *job, const struct box_slot *slot, u32 rank)
{
	u32 first = slot->chunk / slot->op->ring.cpb;

	return (rank + job->nlegs - first) % job->nlegs;
}

static bool hold(struct box_job *job, struct box_slot *slot, u32 rank, const void *data)
{
	struct box_held *held;

	/* The slot itself has no sum, so it is not reclaimed. */
	held = get_room(job, sizeof(*held) + slot->len);
	if (!held)
		return false;
	held->rank = rank;
	memcpy(held->data, data, slot->len);
	list_add_tail(&held->node, &slot->held);
	return true;
}

/* Add what was held and is in turn now. */
static void add_held(struct box_job *job, struct box_slot *slot)
{
	struct box_held *held;
	bool found;

	do {
		found = false;
		list_for_each_entry(held, &slot->held, node)
			if (turn_of(job, slot, held->rank) == slot->turn) {
				add(job, slot, held->data);
				drop_held(job, slot, held);
				found = true;
				break;
			}
	} while (found);
}

/* Give chunk @i of the run up, and tell the ranks in @to. */
static void give_up(struct box_job *job, struct box_out *out, u32 i, u64 to)
{
	job->ngone++;
	out->gone |= 1ULL << i;
	out->gone_to |= to;
}

/* Take a new contribution in. Returns false if there is no room. */
static bool take(struct box_job *job, struct box_slot *slot, u32 rank, const void *data)
{
	slot->got |= 1ULL << rank;
	if (turn_of(job, slot, rank) != slot->turn)
		return hold(job, slot, rank, data);
	add(job, slot, data);
	add_held(job, slot);
	return true;
}

/* The slot of a chunk, a new one if need be; NULL if the chunk is over, or finds no room. */
static struct box_slot *slot_of(struct box_job *job, struct box_op *op, u32 chunk)
{
	struct box_slot *slot = xa_load(&op->slots, chunk);

	if (xa_is_value(slot))
		return NULL;
	if (slot)
		return slot;
	if (!charge(job, SLOT_COST))
		return NULL;
	op->cost += SLOT_COST;
	slot = slot_new(job, op, chunk);
	if (!slot)
		xa_store(&op->slots, chunk, SLOT_OVER, GFP_ATOMIC);
	return slot;
}

/* Take in chunk @i of a run. */
static void rcv_chunk(struct box_job *job, struct box_op *op, u32 chunk, u32 rank, u32 seq,
		      const void *data, u32 i, struct box_out *out)
{
	struct box_slot *slot = slot_of(job, op, chunk);
	u64 bit = 1ULL << rank;

	if (!slot) {
		give_up(job, out, i, bit);
		return;
	}
	WRITE_ONCE(slot->come[rank], come_at(seq, out->now));
	if (slot->got & bit) {
		/* It asks again. */
		out->wait |= slot->turn < job->nlegs;
	} else if (!take(job, slot, rank, data)) {
		give_up(job, out, i, slot->got);
		slot_end(job, slot);
		return;
	} else if (slot->turn == job->nlegs) {
		job->nsums++;
		list_add_tail(&slot->node, &job->sums);
		out->fresh |= 1ULL << i;
	}
	if (slot->turn == job->nlegs) {
		refcount_inc(&slot->ref);
		out->sums[i] = slot;
	}
}

/* Does no member wait for the sum of a slot any more? */
static bool all_have(const struct box_job *job, const struct box_slot *slot)
{
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		if (!rar_seq_before((u32)slot->come[i], job->leg[i].una))
			return false;
	return true;
}

/* Is so much of the memory in use that rows are given back early? */
static bool memory_short(const struct box_job *job)
{
	u64 limit = READ_ONCE(job->m.rn->sysctl_box_mem);

	return atomic64_read(&job->box->used) > limit / 2;
}

/* A member waits for nothing below @una any more: give rows back if memory is short. */
static void advance(struct box_job *job, struct box_leg *leg, u32 una)
{
	struct box_slot *slot, *tmp;

	if (!rar_seq_before(leg->una, una))
		return;
	leg->una = una;
	list_for_each_entry_safe(slot, tmp, &job->sums, node) {
		if (!memory_short(job) || !all_have(job, slot))
			break;
		slot_end(job, slot);
	}
}

/* -- sending -------------------------------------------------------------------- */

/* Send a sum. It says how long the contribution that it answers waited for those of others. */
static void send_sum(struct box_job *job, const struct box_slot *slot, u32 rank, u32 now)
{
	u64 come = READ_ONCE(slot->come[rank]);
	struct rar_data_hdr dh = slot->dh;

	dh.seq = cpu_to_be32((u32)come);
	/* A contribution of another run may have come after @now. */
	dh.una = cpu_to_be32(max((s32)(now - (u32)(come >> 32)), 0));
	rar_packet_sum(&job->leg[rank].link, &dh, slot->sum, slot->len, job->m.epoch);
}

static void send_gone(struct box_job *job, u32 rank, const struct rar_data_hdr *dh, u64 gone)
{
	struct rar_chunks_hdr ch = {
		.op_seq = dh->op_seq,
		.first = dh->chunk,
		.map[0] = cpu_to_le64(gone),
	};

	rar_packet_ctl(&job->leg[rank].link, &ch, sizeof(ch), 0, RAR_T_RETURN, job->m.epoch);
}

/* "I am here": answers a member that has to wait for other members. */
static void send_ack(struct box_job *job, u32 rank)
{
	struct rar_ack_hdr ah = {};

	rar_packet_ctl(&job->leg[rank].link, &ah, sizeof(ah), 0, RAR_T_ACK, job->m.epoch);
}

static void send_out(struct box_job *job, u32 from, const struct rar_data_hdr *dh, u32 n,
		     struct box_out *out)
{
	u32 rank, i;

	for (rank = 0; rank < job->nlegs; rank++) {
		for (i = 0; i < n; i++)
			if (out->sums[i] && (rank == from || out->fresh >> i & 1))
				send_sum(job, out->sums[i], rank, out->now);
		if (out->gone_to >> rank & 1)
			send_gone(job, rank, dh, out->gone);
	}
	if (out->wait)
		send_ack(job, from);
	for (i = 0; i < n; i++)
		if (out->sums[i])
			slot_put(out->sums[i]);
}

/* -- packets --------------------------------------------------------------------- */

/* Take in all chunks of a run. job->lock held. */
static void rcv_run(struct box_job *job, u32 rank, const struct rar_pkt *pkt, u32 n,
		    const struct rar_data_hdr *dh, struct box_out *out)
{
	u32 chunk = be32_to_cpu(dh->chunk), seq = be32_to_cpu(dh->seq);
	u32 off = pkt->off + sizeof(*dh), i, len;
	struct box_op *op = op_find(job, dh);
	const void *data;

	if (!op) {
		out->gone = rar_mask(n);
		out->gone_to = 1ULL << rank;
		return;
	}
	if (chunk >= op->ring.nchunks || n > rar_ring_block_end(&op->ring, chunk) - chunk ||
	    rar_ring_bytes(&op->ring, chunk, n) + n * sizeof(*dh) != pkt->len) {
		rar_mib_inc(job->m.rn, DropChunk);
		return;
	}
	for (i = 0; i < n; i++) {
		len = rar_ring_bytes(&op->ring, chunk + i, 1);
		data = skb_header_pointer(pkt->skb, off, len, job->scratch);
		rcv_chunk(job, op, chunk + i, rank, seq + i, data, i, out);
		off += rar_stride(&job->m);
	}
}

/**
 * rar_slot_rcv_up() - take in a run of contributions
 * @job:  job
 * @rank: the member that sent it
 * @pkt:  validated
 * @n:    chunks
 *
 * Softirq.
 */
void rar_slot_rcv_up(struct box_job *job, u32 rank, struct rar_pkt *pkt, u32 n)
{
	struct box_out out = { .now = rar_now_us() };
	struct rar_data_hdr dh;
	u64 sums;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return;
	spin_lock_bh(&job->lock);
	sums = job->nsums;
	if (!job->closed) {
		rcv_run(job, rank, pkt, n, &dh, &out);
		/* After the run, whose numbers may replace older ones below @una. */
		advance(job, &job->leg[rank], be32_to_cpu(dh.una));
	}
	sums = job->nsums - sums;
	spin_unlock_bh(&job->lock);
	rar_mib_add(job->m.rn, BoxTaken, n);
	rar_mib_add(job->m.rn, BoxSums, sums);
	rar_mib_add(job->m.rn, BoxGaveUp, hweight64(out.gone));
	send_out(job, rank, &dh, n, &out);
}

/* Drop the operations that are complete at all members. */
static void raise_base(struct box_job *job)
{
	u64 base = U64_MAX;
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		base = min(base, job->leg[i].done);
	for (i = 0; base > job->base && i < RAR_MAX_OPS; i++)
		if (job->ops[i] && job->ops[i]->seq < base)
			op_drop(job, job->ops[i]);
	WRITE_ONCE(job->base, base);
}

/**
 * rar_slot_rcv_probe() - take in what is complete at a member, and answer
 * @job:  job
 * @rank: the member
 * @pkt:  validated PROBE
 *
 * Softirq.
 */
void rar_slot_rcv_probe(struct box_job *job, u32 rank, const struct rar_pkt *pkt)
{
	struct box_leg *leg = &job->leg[rank];
	struct rar_probe_hdr ph;
	s32 more;

	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)))
		return;
	spin_lock_bh(&job->lock);
	more = be32_to_cpu(ph.done) - (u32)leg->done;
	if (more > 0)
		leg->done += more;
	advance(job, leg, be32_to_cpu(ph.una));
	raise_base(job);
	spin_unlock_bh(&job->lock);
	send_ack(job, rank);
}

/* Forget everything of a job. */
void rar_slot_close(struct box_job *job)
{
	u32 i;

	spin_lock_bh(&job->lock);
	job->closed = true;
	for (i = 0; i < RAR_MAX_OPS; i++)
		if (job->ops[i])
			op_drop(job, job->ops[i]);
	spin_unlock_bh(&job->lock);
}
