// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reductions at the box: records of all members with the same key are combined on their way
 * to the root.
 *
 * Chunks of records are collected in a batch, which has one record for each key. When it is full,
 * when the windows of all members that send are full, or after BATCH_WAIT_US, it is sent to the
 * root, in pieces. From then on it does not change; meanwhile the next batch is filled. The root
 * takes the whole batch or nothing, and answers. The box acknowledges no chunk: members keep their
 * chunks until the root acknowledges them.
 *
 * Chunks that find no room, or whose batch the root refuses or does not answer, are returned: their
 * members send them to the root. So does a member that hears nothing. So the box may forget all of
 * this at any time, and ring/batch.c ensures that no chunk counts twice.
 *
 * A record that finds no place in the index of keys is passed on as it is.
 */
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "box/batch.h"
#include "box/slot.h"
#include "core/hdr.h"
#include "core/keyed.h"
#include "core/mib.h"
#include "tx/control.h"
#include "tx/run.h"

#define BATCH_OPS	4	/* keyed reductions of a job at a time */
#define BATCH_WAIT_US	5000	/* longest time that a chunk waits for others */
#define BATCH_AGAIN_US	4000	/* the root is asked about a batch after this time, which doubles */
#define BATCH_TRIES	3	/* how often it is asked */
#define BATCH_IDLE_US	1000000	/* an operation without new chunks is forgotten after this time */
#define BATCH_PROBES	16	/* places of the index that a key may have */

/*
 * struct box_batch - chunks whose records are combined
 * @ref:     one for its operation, and one for each sender of its pieces
 * @dh:      header of the first piece
 * @number:  set when it is sent
 * @records: how many there are
 * @npieces: pieces with memory, without the list
 * @cost:    bytes charged
 * @tries:   times that the root was asked
 * @due:     when it is sent at the latest; when the root is asked or it is given up, us
 * @list:    by rank, its chunks: piece 0
 * @piece:   the records, rar_keyed_chunk() bytes each
 */
struct box_batch {
	refcount_t ref;
	struct rar_data_hdr dh;
	u32 number;
	u32 records;
	u32 npieces;
	u32 cost;
	u32 tries;
	u64 due;
	struct rar_batch_rank list[RAR_GATHER_RANKS];
	u8 *piece[RAR_BATCH_PIECES - 1];
};

/* The newest chunks of a rank: bit n of @map: chunk @first + n came. Older ones are dropped. */
struct box_seen {
	u32 first;
	u64 map;
};

/*
 * struct box_keyed - a keyed reduction; under job->lock
 * @node:   in job->keyed
 * @seq:    its number
 * @fingerprint: as the first member describes it
 * @hash:   of keys; it has no places
 * @prio:   as the first member tells it
 * @per:    records of a piece
 * @max:    records of a batch
 * @sends:  mask of the ranks that may send chunks: not those whose last chunk came, nor those that
 *          sent none in time
 * @waits:  of these, the ranks that send no more chunks before the root acknowledges those in @fill
 * @used:   when a chunk last came, us
 * @fill:   the batch that is being filled, or NULL
 * @fly:    the batch that was sent, or NULL
 * @seen:   by rank
 * @mask:   entries of @index, less one
 * @index:  by hash: 0, or a record of @fill counted from 1
 */
struct box_keyed {
	struct list_head node;
	u64 seq;
	struct rar_fingerprint fingerprint;
	struct rar_keyed_table hash;
	u8 prio;
	u32 per;
	u32 max;
	u32 sends;
	u32 waits;
	u64 used;
	struct box_batch *fill;
	struct box_batch *fly;
	struct box_seen seen[RAR_GATHER_RANKS];
	u32 mask;
	u16 index[];
};

static_assert(RAR_BATCH_RECORDS < U16_MAX);

/*
 * struct keyed_out - packets to send after job->lock is dropped
 * @send:    a batch to send, with a reference, or NULL
 * @pieces:  mask of its pieces to send
 * @gone:    a batch that is given up, with a reference, or NULL
 * @refused: mask of the chunks of the run that find no room
 */
struct keyed_out {
	struct box_batch *send;
	u64 pieces;
	struct box_batch *gone;
	u64 refused;
};

/* -- memory ----------------------------------------------------------------- */

static void batch_put(struct box_batch *b)
{
	u32 i;

	if (!refcount_dec_and_test(&b->ref))
		return;
	for (i = 0; i < b->npieces; i++)
		kfree(b->piece[i]);
	kfree(b);
}

/* Take a batch off its operation. The caller gets the reference. */
static struct box_batch *batch_detach(struct box_job *job, struct box_batch **at)
{
	struct box_batch *b = *at;

	lockdep_assert_held(&job->lock);
	rar_pool_uncharge(job, b->cost, true);
	*at = NULL;
	return b;
}

static struct box_batch *batch_new(struct box_job *job, const struct box_keyed *op, u64 now,
				   struct box_out *room)
{
	struct box_batch *b = rar_slot_get_room(job, sizeof(*b), op->prio, room);

	if (!b)
		return NULL;
	memset(b, 0, sizeof(*b));
	refcount_set(&b->ref, 1);
	b->cost = sizeof(*b);
	b->due = now + BATCH_WAIT_US;
	rar_op_describe(&b->dh, op->seq, &op->fingerprint);
	return b;
}

/* Get memory for @n more records. */
static bool make_room(struct box_job *job, const struct box_keyed *op, struct box_batch *b, u32 n,
		      struct box_out *room)
{
	u32 bytes = op->per * op->hash.kind.record;

	while (b->records + n > b->npieces * op->per) {
		b->piece[b->npieces] = rar_slot_get_room(job, bytes, op->prio, room);
		if (!b->piece[b->npieces])
			return false;
		b->npieces++;
		b->cost += bytes;
	}
	return true;
}

static u32 op_cost(const struct box_keyed *op)
{
	return struct_size(op, index, op->mask + 1);
}

static void op_free(struct box_job *job, struct box_keyed *op)
{
	if (op->fill)
		batch_put(batch_detach(job, &op->fill));
	if (op->fly)
		batch_put(batch_detach(job, &op->fly));
	list_del(&op->node);
	job->nkeyed--;
	rar_pool_uncharge(job, op_cost(op), true);
	kfree(op);
}

/* Make an operation known. Returns NULL if the box cannot serve it. */
static struct box_keyed *op_new(struct box_job *job, const struct rar_data_hdr *dh,
				struct box_out *room)
{
	const struct rar_fingerprint p = rar_op_described(dh);
	u32 payload = job->m.payload, max, entries;
	struct rar_keyed_kind kind;
	struct box_keyed *op;

	if (job->levels || job->nlegs > RAR_GATHER_RANKS || job->nkeyed == BATCH_OPS ||
	    p.root >= job->nlegs || !rar_keyed_of(&kind, &p) || payload < kind.record ||
	    payload < job->nlegs * sizeof(struct rar_batch_rank) ||
	    be64_to_cpu(dh->op_seq) < job->base)
		return NULL;
	max = rar_keyed_batch_max(&kind, payload);
	entries = roundup_pow_of_two(2 * max);
	op = rar_slot_get_room(job, struct_size(op, index, entries),
			       dh->box.prio, room);
	if (!op)
		return NULL;
	memset(op, 0, struct_size(op, index, entries));
	op->seq = be64_to_cpu(dh->op_seq);
	op->fingerprint = p;
	op->prio = dh->box.prio;
	op->sends = GENMASK(job->nlegs - 1, 0) & ~BIT(p.root);
	op->hash.kind = kind;
	get_random_bytes(op->hash.seed, sizeof(op->hash.seed));
	op->hash.seed[1] |= 1;
	op->per = payload / kind.record;
	op->max = max;
	op->mask = entries - 1;
	list_add(&op->node, &job->keyed);
	job->nkeyed++;
	return op;
}

static struct box_keyed *op_find(struct box_job *job, u64 seq)
{
	struct box_keyed *op;

	list_for_each_entry(op, &job->keyed, node)
		if (op->seq == seq)
			return op;
	return NULL;
}

/* -- when ------------------------------------------------------------------- */

/* The time at which act() has something to do for an operation, us. */
static u64 due_of(const struct box_keyed *op)
{
	if (op->fly)
		return op->fly->due;
	return op->fill ? op->fill->due : op->used + BATCH_IDLE_US;
}

static void arm(struct box_job *job)
{
	struct box_keyed *op;
	u64 due = U64_MAX;

	lockdep_assert_held(&job->lock);
	list_for_each_entry(op, &job->keyed, node)
		due = min(due, due_of(op));
	if (due != U64_MAX && !job->closed)
		hrtimer_start(&job->keyed_timer, ns_to_ktime(due * NSEC_PER_USEC),
			      HRTIMER_MODE_ABS_SOFT);
}

/* Send pieces of the batch that flies. */
static void send_later(struct box_keyed *op, u64 pieces, struct keyed_out *out)
{
	refcount_inc(&op->fly->ref);
	out->send = op->fly;
	out->pieces = pieces;
}

/* A mask of the ranks of which a batch has chunks. */
static u32 ranks_of(const struct box_batch *b)
{
	u32 ranks = 0, i;

	for (i = 0; i < RAR_GATHER_RANKS; i++)
		if (b->list[i].map)
			ranks |= BIT(i);
	return ranks;
}

/* Stop filling the batch, and send it. No other batch flies. */
static void launch(struct box_job *job, struct box_keyed *op, u64 now, struct keyed_out *out)
{
	if (now >= op->fill->due)
		op->sends &= ranks_of(op->fill);
	op->fly = op->fill;
	op->fill = NULL;
	op->waits = 0;
	op->fly->number = job->nbatches++;
	op->fly->due = now + BATCH_AGAIN_US;
	op->fly->dh.batch = cpu_to_be32(op->fly->number);
	op->fly->dh.pieces =
		cpu_to_be32(1 + DIV_ROUND_UP(op->fly->records, op->per));
	memset(op->index, 0, (op->mask + 1) * sizeof(op->index[0]));
	send_later(op, U64_MAX, out);
}

/* Send the batch if it is due, or no rank sends more for it. */
static void launch_due(struct box_job *job, struct box_keyed *op, u64 now, struct keyed_out *out)
{
	if (op->fill && !op->fly &&
	    (now >= op->fill->due || !(op->sends & ~op->waits)))
		launch(job, op, now, out);
}

/* The root has answered, or is not asked any more. */
static void land(struct box_job *job, struct box_keyed *op, bool taken, struct keyed_out *out)
{
	struct box_batch *b = batch_detach(job, &op->fly);

	if (taken) {
		batch_put(b);
		return;
	}
	out->gone = b;
}

/* -- records ---------------------------------------------------------------- */

static u8 *record_at(const struct box_keyed *op, const struct box_batch *b, u32 i)
{
	return b->piece[i / op->per] + i % op->per * op->hash.kind.record;
}

/* Combine a record with the record of the same key, or append it. There is room. */
static void add_record(struct box_keyed *op, struct box_batch *b, const u8 *record)
{
	u32 hash = rar_keyed_hash(&op->hash, record), i;
	u16 *at = NULL;
	u8 *old;

	for (i = 0; i < BATCH_PROBES; i++) {
		at = &op->index[(hash + i) & op->mask];
		if (!*at)
			break;
		old = record_at(op, b, *at - 1);
		if (rar_keyed_same(&op->hash.kind, old, record)) {
			rar_keyed_reduce(&op->hash.kind, old, record);
			return;
		}
	}
	memcpy(record_at(op, b, b->records), record, op->hash.kind.record);
	b->records++;
	/* Without a place in the index, all records of this key are passed on as they are. */
	if (!*at)
		*at = b->records;
}

/* Is a chunk new? Notes that it came. */
static bool see(struct box_seen *seen, u32 chunk)
{
	s32 ahead = chunk - seen->first;
	u32 shift;

	if (ahead < 0)
		return false;
	if (ahead >= 64) {
		shift = ahead - 63;
		seen->map = shift < 64 ? seen->map >> shift : 0;
		seen->first += shift;
		ahead = 63;
	}
	if (seen->map >> ahead & 1)
		return false;
	seen->map |= 1ULL << ahead;
	return true;
}

/* Write a chunk into the list of a batch. Returns false if it is too far from the others. */
static bool enlist(struct rar_batch_rank *r, u32 chunk, bool last)
{
	u64 map = be64_to_cpu(r->map);
	s32 ahead;

	if (!map)
		r->first = cpu_to_be32(chunk);
	ahead = chunk - be32_to_cpu(r->first);
	if (ahead >= 64 || ahead < 0) {
		/* It is before the first chunk. Move the map, if the last chunk stays in it. */
		if (ahead < -63 || ahead >= 64 || map >> (64 + ahead))
			return false;
		map <<= -ahead;
		r->first = cpu_to_be32(chunk);
		ahead = 0;
	}
	r->map = cpu_to_be64(map | 1ULL << ahead);
	if (last)
		r->flags = cpu_to_be32(RAR_BF_LAST);
	return true;
}

/* A chunk that came. */
struct up_chunk {
	u32 rank;
	u32 chunk;
	u32 n;			/* records */
	const u8 *data;
	bool last;
	bool waits;
};

/* Take the records of a chunk. Returns false if there is no room. */
static bool take(struct box_job *job, struct box_keyed *op, const struct up_chunk *c, u64 now,
		 struct keyed_out *out, struct box_out *room)
{
	u32 i;

	if (op->fill && op->fill->records + c->n > op->max) {
		if (op->fly)
			return false;
		launch(job, op, now, out);
	}
	if (!op->fill)
		op->fill = batch_new(job, op, now, room);
	if (!op->fill || !make_room(job, op, op->fill, c->n, room) ||
	    !enlist(&op->fill->list[c->rank], c->chunk, c->last))
		return false;
	for (i = 0; i < c->n; i++)
		add_record(op, op->fill, c->data + i * op->hash.kind.record);
	if (c->waits)
		op->waits |= BIT(c->rank);
	return true;
}

/* Has a chunk the length that it must have? */
static bool right_length(const struct box_keyed *op, u32 bytes, bool last)
{
	u32 full = op->per * op->hash.kind.record;

	return last ? bytes <= full && !(bytes % op->hash.kind.record) : bytes == full;
}

/* The operation of a run, or NULL if the box cannot serve it. */
static struct box_keyed *op_of(struct box_job *job, const struct rar_data_hdr *dh,
			       struct box_out *room)
{
	const struct rar_fingerprint p = rar_op_described(dh);
	struct box_keyed *op = op_find(job, be64_to_cpu(dh->op_seq));

	if (!op)
		return op_new(job, dh, room);
	return rar_fingerprint_differs(&p, &op->fingerprint) ? NULL : op;
}

/* Take in all chunks of a run. job->lock held. */
static void take_run(struct box_job *job, u32 rank, const struct rar_pkt *pkt, u32 n,
		     const struct rar_data_hdr *dh, struct keyed_out *out, struct box_out *room)
{
	u32 off = pkt->off + sizeof(*dh), end = pkt->off + pkt->len, i, bytes;
	struct box_keyed *op = op_of(job, dh, room);
	struct up_chunk c = {
		.rank = rank,
		.chunk = be32_to_cpu(dh->chunk),
		.last = dh->flags & RAR_F_LAST,
		.waits = pkt->ack_now || (dh->flags & RAR_F_ACK_NOW),
	};
	u64 now = rar_now_us();

	if (!op || rank == op->fingerprint.root) {
		out->refused = rar_mask(n);
		return;
	}
	op->used = now;
	op->sends |= BIT(rank);
	for (i = 0; i < n; i++, c.chunk++, off += rar_stride(&job->m)) {
		bytes = i + 1 < n ? job->m.payload : end - off;
		if (!right_length(op, bytes, c.last)) {
			rar_mib_inc(job->m.rn, DropChunk);
			break;
		}
		c.n = bytes / op->hash.kind.record;
		c.data = bytes ? skb_header_pointer(pkt->skb, off, bytes, job->scratch) : NULL;
		if (see(&op->seen[rank], c.chunk) && !take(job, op, &c, now, out, room))
			out->refused |= 1ULL << i;
	}
	if (c.last)
		op->sends &= ~BIT(rank);
	launch_due(job, op, now, out);
	arm(job);
}

/* -- packets ---------------------------------------------------------------- */

/* Send pieces of a batch to the root. No lock held. */
static void send_pieces(struct box_job *job, struct box_batch *b, u64 pieces)
{
	struct rar_link *link = &job->leg[be16_to_cpu(b->dh.root)].link;
	u32 max = max(READ_ONCE(link->path.run_max), 1U);
	u32 n = be32_to_cpu(b->dh.pieces), i, k;
	u32 record = 0, per = 0, left;
	struct kvec part[RAR_RUN_MAX];
	struct rar_keyed_kind kind;
	struct rar_data_hdr dh;

	rar_keyed_of(&kind, &(struct rar_fingerprint) {
		.dtype = b->dh.dtype,
		.redop = b->dh.redop,
		.mode = be16_to_cpu(b->dh.mode),
	});
	record = kind.record;
	per = job->m.payload / record;
	for (i = 0; i < n; i += k) {
		for (k = 0; k < max && i + k < n && pieces >> (i + k) & 1; k++) {
			/* The list has another length than the records. */
			if (i + k == 1 && k)
				break;
			left = b->records - (i + k - !!(i + k)) * per;
			part[k].iov_base = i + k ? b->piece[i + k - 1] : (void *)b->list;
			part[k].iov_len = i + k ? min(left, per) * record :
						  job->nlegs * sizeof(b->list[0]);
		}
		if (!k) {
			k = 1;
			continue;
		}
		dh = b->dh;
		dh.seq = cpu_to_be32(i);
		dh.chunk = cpu_to_be32(i);
		if (rar_run_sums(link, &dh, part, k, RAR_T_AG, job->m.epoch) ==
		    -EMSGSIZE)
			WRITE_ONCE(link->narrow, true);
	}
}

/* Tell a rank which of its chunks it has to send to the root. No lock held. */
static void send_return(struct box_job *job, u32 rank, __be64 op_seq, u32 first, u64 map)
{
	struct rar_chunks_hdr ch = {
		.op_seq = op_seq,
		.first = cpu_to_be32(first),
		.map[0] = cpu_to_le64(map),
	};

	rar_control_send(&job->leg[rank].link, &ch, sizeof(ch), 0, RAR_T_RETURN,
			 job->m.epoch);
}

/* Give a batch up. No lock held. */
static void send_gone(struct box_job *job, struct box_batch *b)
{
	const struct rar_batch_rank *r = b->list;
	u32 rank;

	for (rank = 0; rank < job->nlegs; rank++, r++) {
		if (!r->map)
			continue;
		rar_mib_add(job->m.rn, BoxGaveUp, hweight64(be64_to_cpu(r->map)));
		send_return(job, rank, b->dh.op_seq, be32_to_cpu(r->first), be64_to_cpu(r->map));
	}
}

/* Send the packets of @out. Softirq, RCU read side; no lock held. */
static void answer(struct box_job *job, struct keyed_out *out)
{
	if (out->send) {
		send_pieces(job, out->send, out->pieces);
		batch_put(out->send);
	}
	if (out->gone) {
		send_gone(job, out->gone);
		batch_put(out->gone);
	}
}

/**
 * rar_batch_rcv_up() - take in chunks of records
 * @job:  job
 * @rank: the member that sent them
 * @pkt:  validated RS
 * @n:    chunks
 * @dh:   header of the first, of a keyed reduction
 *
 * Softirq, RCU read side.
 */
void rar_batch_rcv_up(struct box_job *job, u32 rank, const struct rar_pkt *pkt, u32 n,
		      const struct rar_data_hdr *dh)
{
	struct box_out room = { .evicted = LIST_HEAD_INIT(room.evicted) };
	struct keyed_out out = {};

	spin_lock_bh(&job->lock);
	if (!job->closed)
		take_run(job, rank, pkt, n, dh, &out, &room);
	spin_unlock_bh(&job->lock);
	rar_mib_add(job->m.rn, BoxTaken, n);
	if (out.refused) {
		rar_mib_add(job->m.rn, BoxGaveUp, hweight64(out.refused));
		send_return(job, rank, dh->op_seq, be32_to_cpu(dh->chunk), out.refused);
	}
	answer(job, &out);
	rar_answer_run(job, U32_MAX, dh, 0, &room);
}

/**
 * rar_batch_rcv_want() - take in which pieces of a batch the root lacks
 * @job:  job
 * @rank: the member that sent it
 * @pkt:  validated WANT
 *
 * Softirq, RCU read side.
 */
void rar_batch_rcv_want(struct box_job *job, u32 rank, const struct rar_pkt *pkt)
{
	struct keyed_out out = {};
	struct rar_chunks_hdr ch;
	struct box_keyed *op;
	bool refused;
	u64 now = rar_now_us();

	if (skb_copy_bits(pkt->skb, pkt->off, &ch, sizeof(ch)))
		return;
	refused = ch.flags & cpu_to_be32(RAR_WF_REFUSED);
	spin_lock_bh(&job->lock);
	op = job->closed ? NULL : op_find(job, be64_to_cpu(ch.op_seq));
	if (op && rank == op->fingerprint.root && op->fly &&
	    op->fly->number == be32_to_cpu(ch.first)) {
		if (ch.map[0]) {
			send_later(op, le64_to_cpu(ch.map[0]), &out);
		} else {
			land(job, op, !refused, &out);
			if (!refused)
				rar_mib_inc(job->m.rn, BoxBatches);
			launch_due(job, op, now, &out);
		}
		arm(job);
	}
	spin_unlock_bh(&job->lock);
	answer(job, &out);
}

/* -- time ------------------------------------------------------------------- */

/* Act for an operation that is due. It may be gone afterwards. job->lock held. */
static void act(struct box_job *job, struct box_keyed *op, u64 now, struct keyed_out *out)
{
	if (op->fly && ++op->fly->tries <= BATCH_TRIES) {
		/* The last piece is answered: some are missing, or none. */
		op->fly->due = now + (BATCH_AGAIN_US << op->fly->tries);
		send_later(op, 1ULL << (be32_to_cpu(op->fly->dh.pieces) - 1),
			   out);
	} else if (op->fly) {
		land(job, op, false, out);
	} else if (op->fill) {
		launch(job, op, now, out);
	} else {
		op_free(job, op);
	}
}

static enum hrtimer_restart keyed_timer(struct hrtimer *timer)
{
	struct box_job *job = container_of(timer, struct box_job, keyed_timer);
	struct keyed_out out;
	struct box_keyed *op;
	u64 now = rar_now_us();
	bool more;

	rcu_read_lock();
	do {
		memset(&out, 0, sizeof(out));
		more = false;
		spin_lock_bh(&job->lock);
		list_for_each_entry(op, &job->keyed, node) {
			more = now >= due_of(op);
			if (more)
				break;
		}
		if (more)
			act(job, op, now, &out);
		else
			arm(job);
		spin_unlock_bh(&job->lock);
		answer(job, &out);
	} while (more);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/* -- begin and end ------------------------------------------------------------- */

/* Forget the operations that are complete at all members. job->lock held. */
void rar_batch_raise_base(struct box_job *job, u64 base)
{
	struct box_keyed *op, *tmp;

	list_for_each_entry_safe(op, tmp, &job->keyed, node)
		if (op->seq < base)
			op_free(job, op);
}

/* Prepare a new job. */
void rar_batch_init(struct box_job *job)
{
	INIT_LIST_HEAD(&job->keyed);
	hrtimer_setup(&job->keyed_timer, keyed_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/* Forget everything of a job, which is closed. Process context. */
void rar_batch_close(struct box_job *job)
{
	spin_lock_bh(&job->lock);
	rar_batch_raise_base(job, U64_MAX);
	spin_unlock_bh(&job->lock);
	hrtimer_cancel(&job->keyed_timer);
}
