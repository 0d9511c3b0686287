// SPDX-License-Identifier: GPL-2.0
/*
 * The slots of the box: contributions are added in the order of the ring, and the sum goes to
 * all members. A slot that finds no room gives its chunk up. See Documentation/design/box.rst.
 *
 * A slot is one chunk. Its row is taken when the first contribution comes, and given back when
 * all members have completed the operation. When memory gets short it is given back sooner: when
 * each member's @una is past the number of its contribution, so that the member has the sum or
 * has given that packet up.
 * Contributions that come before their turn are held, each in memory of its own. Where the order
 * of the additions has no effect, their sum is held. Where the order has an effect, and there are
 * several boxes, partial sums go from box to box. net.rar.box_mem limits all of this; see pool.c.
 *
 * Of a broadcast the root contributes, and each other rank asks for chunks when it has posted. It
 * gets a chunk as soon as that is there. When all have asked, the root's contribution is answered.
 *
 * Of a reduction to a root all contribute. The root gets the sum, and the others an answer without
 * payload, which only says that they need not send again.
 */
#include <linux/slab.h>

#include "box/slot.h"
#include "box/up.h"
#include "core/hdr.h"
#include "core/mib.h"
#include "reduce/reduce.h"

#define PAUSE_MIN	8	/* operations of a first pause */
#define REFUSED_MAX	64	/* chunks that find no room before a pause; */
#define REFUSED_FOR_SUM	8	/* each sum makes up for some of them */
#define AGAIN_US	500	/* least time between answers for a chunk */
#define RISE_AGAIN_US	4000	/* least time between contributions of a chunk to the upper box */
#define ROOM_TRIES	64	/* rows that one new row may cost */

#define SLOT_OVER	xa_mk_value(1)
#define SLOT_ROW	XA_MARK_0	/* of the chunks that have a row */

static_assert(RAR_BOX_LEGS <= 64);

/* -- memory ----------------------------------------------------------------- */

/* Where the row begins: after the entries of @come and the contributions held. */
static size_t slot_head(const struct box_job *job)
{
	return ALIGN(offsetof(struct box_slot, come) + job->nlegs * (sizeof(u64) + sizeof(void *)),
		     64);
}

/* Drop a contribution that is held. */
static void drop_held(struct box_job *job, struct box_slot *slot, void **held)
{
	rar_pool_uncharge(job, slot->len, true);
	kfree(*held);
	*held = NULL;
	slot->nheld--;
}

/* Tell other jobs how old the oldest sum is. */
static void note_sums(struct box_job *job)
{
	const struct box_slot *first = list_first_entry_or_null(&job->sums, struct box_slot, node);

	WRITE_ONCE(job->oldest, first ? first->since : U64_MAX);
}

/* The operation of the lowest priority that has a chunk without a sum, or NULL. */
static struct box_op *lowest_op(const struct box_job *job)
{
	struct box_op *op, *lowest = NULL;
	u32 i;

	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = job->ops[i];
		if (op && !list_empty(&op->adds) && (!lowest || op->prio < lowest->prio))
			lowest = op;
	}
	return lowest;
}

/* Tell other jobs what the lowest priority is: an operation got its first such chunk or lost it. */
static void note_adds(struct box_job *job)
{
	const struct box_op *op = lowest_op(job);

	WRITE_ONCE(job->lowest, op ? op->prio : BOX_NO_PRIO);
}

/* Take a slot off its list. */
static void unlist(struct box_job *job, struct box_slot *slot)
{
	list_del(&slot->node);
	note_sums(job);
	if (list_empty(&slot->op->adds))
		note_adds(job);
}

/* End the chunk of a slot. The slot is on no list, and the caller has the table's reference. */
static void slot_detach(struct box_job *job, struct box_slot *slot)
{
	void **held;

	lockdep_assert_held(&job->lock);
	for (held = rar_slot_held(job, slot); slot->nheld; held++)
		if (*held)
			drop_held(job, slot, held);
	unlist(job, slot);
	list_del_init(&slot->up_node);
	/* The entry exists, so no memory is needed. */
	xa_store(&slot->op->slots, slot->chunk, SLOT_OVER, GFP_ATOMIC);
	xa_clear_mark(&slot->op->slots, slot->chunk, SLOT_ROW);
	rar_pool_uncharge(job, slot_head(job) + slot->len, true);
	job->slots--;
}

/* Give a slot's row back. Its chunk is over. */
static void slot_end(struct box_job *job, struct box_slot *slot)
{
	slot_detach(job, slot);
	rar_slot_put(slot);
}

/**
 * rar_slot_reclaim() - drop the oldest sum of a job, which most members have
 * @job: its lock is held
 *
 * Return: false if the job has no sum.
 */
bool rar_slot_reclaim(struct box_job *job)
{
	struct box_slot *slot = list_first_entry_or_null(&job->sums, struct box_slot, node);

	if (slot)
		slot_end(job, slot);
	return slot;
}

/**
 * rar_slot_evict() - give up the newest chunk of the least urgent operation of a job
 * @job:   its lock is held
 * @below: only if the priority is lower
 * @out:   gets the slot
 *
 * Return: false if there is no such chunk.
 */
bool rar_slot_evict(struct box_job *job, u32 below, struct box_out *out)
{
	struct box_op *op = lowest_op(job);
	struct box_slot *slot;

	if (!op || op->prio >= below)
		return false;
	slot = list_last_entry(&op->adds, struct box_slot, node);
	slot_detach(job, slot);
	slot->op = NULL;
	list_add_tail(&slot->node, &out->evicted);
	out->nevicted++;
	job->ngone++;
	job->nevicted++;
	job->refused++;
	return true;
}

/* Allocate memory that counts as rows, if need be in place of others. NULL: there is no room. */
void *rar_slot_get_room(struct box_job *job, size_t bytes, u8 prio, struct box_out *out)
{
	u32 tries = ROOM_TRIES;		/* more are needed only when the limit was lowered */
	void *p;

	while (!rar_pool_charge(job, bytes, true))
		if (!tries-- || !rar_pool_make_room(job, prio, out))
			return NULL;
	p = kmalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
	if (!p)
		rar_pool_uncharge(job, bytes, true);
	return p;
}

/* The rank whose contribution to a block is the first, as in the ring. */
static u32 first_rank(const struct box_job *job, const struct box_op *op, u32 block)
{
	return op->reduce ? (op->fingerprint.root + 1) % job->nlegs : block;
}

static struct box_slot *slot_new(struct box_job *job, struct box_op *op, u32 chunk,
				 struct box_out *out)
{
	size_t head = slot_head(job);
	struct box_slot *slot;
	struct rar_chunk c;

	rar_ring_chunk(&op->ring, chunk, &c);
	slot = rar_slot_get_room(job, head + c.len, op->prio, out);
	if (!slot)
		return NULL;
	memset(slot, 0, head);
	refcount_set(&slot->ref, 1);
	slot->job = job;
	slot->op = op;
	slot->block = chunk / op->ring.cpb;
	slot->next = first_rank(job, op, slot->block);
	slot->chunk = chunk;
	slot->len = c.len;
	slot->prio = op->prio;
	slot->sum = (void *)slot + head;
	INIT_LIST_HEAD(&slot->up_node);
	rar_op_describe(&slot->dh, op->seq, &op->fingerprint);
	slot->dh.chunk = cpu_to_be32(chunk);
	if (xa_is_err(xa_store(&op->slots, chunk, slot, GFP_ATOMIC))) {
		rar_pool_uncharge(job, head + c.len, true);
		kfree(slot);
		return NULL;
	}
	xa_set_mark(&op->slots, chunk, SLOT_ROW);
	list_add_tail(&slot->node, &op->adds);
	if (list_is_singular(&op->adds))
		note_adds(job);
	job->slots++;
	return slot;
}

/* -- operations --------------------------------------------------------------- */

static void op_drop(struct box_job *job, struct box_op *op)
{
	struct box_slot *slot;
	unsigned long chunk;

	lockdep_assert_held(&job->lock);
	xa_for_each_marked(&op->slots, chunk, slot, SLOT_ROW)
		slot_end(job, slot);
	xa_destroy(&op->slots);
	rar_pool_uncharge(job, op->cost, false);
	job->ops[op->seq % RAR_MAX_OPS] = NULL;
	kfree(op);
}

/* Cut an operation as its members do. Returns false if the box cannot serve it. */
static bool op_cut(struct box_job *job, struct box_op *op)
{
	const struct rar_place place = {
		.size = job->nlegs,
		.boxes = 1,
	};

	op->kind = rar_op_kind(&op->fingerprint);
	if (rar_op_cut(&op->ring, &op->fingerprint, job->m.payload, &place))
		return false;
	/* No elements have the same sum in any order. */
	op->any_order = rar_op_any_order(&op->fingerprint) || !op->ring.bytes;
	op->passed = job->levels && !op->any_order;
	op->cast = op->fingerprint.collective == RAR_BROADCAST;
	op->reduce = op->fingerprint.collective == RAR_REDUCE;
	return op->ring.plan.aside && (!job->levels || (!op->cast && !op->reduce &&
							(op->any_order || job->in_turn)));
}

static struct box_op *op_new(struct box_job *job, u64 seq, const struct rar_fingerprint *p,
			     u8 prio)
{
	struct box_op *op = kzalloc(sizeof(*op), GFP_ATOMIC | __GFP_NOWARN);

	if (!op)
		return NULL;
	op->seq = seq;
	op->fingerprint = *p;
	op->prio = prio;
	op->cost = sizeof(*op);
	INIT_LIST_HEAD(&op->adds);
	if (!op_cut(job, op) || !rar_pool_charge(job, op->cost, false)) {
		kfree(op);
		return NULL;
	}
	xa_init(&op->slots);	/* used under job->lock only */
	job->ops[seq % RAR_MAX_OPS] = op;
	return op;
}

/*
 * The operation of a contribution, or NULL if the box cannot serve it: the members may
 * disagree about it, which the ring finds out.
 */
struct box_op *rar_slot_find_op(struct box_job *job, const struct rar_data_hdr *dh)
{
	const struct rar_fingerprint p = rar_op_described(dh);
	u64 seq = be64_to_cpu(dh->op_seq);
	struct box_op *op = job->ops[seq % RAR_MAX_OPS];

	if (!op && seq >= job->base && (!job->told || seq - job->base < RAR_MAX_OPS))
		return op_new(job, seq, &p, dh->box.prio);
	if (!op || op->seq != seq || rar_fingerprint_differs(&p, &op->fingerprint))
		return NULL;
	return op;
}

/* -- contributions ------------------------------------------------------------- */

/* What ranks agree on before they contribute numbers are bytes. */
static const struct rar_kind *kind_of(const struct box_slot *slot)
{
	return rar_ring_leads(&slot->op->ring, slot->chunk) ? rar_reduce_kind(RAR_U8, RAR_MAX) :
							      slot->op->kind;
}

/*
 * Have all ranks contributed that do so at this box? All of it is added, unless partial sums go
 * from box to box.
 */
static bool is_full(const struct box_job *job, const struct box_slot *slot)
{
	return job->levels || slot->op->cast ? slot->got == job->ranks :
					       slot->turn == job->nlegs;
}

/* Is it the sum of all ranks of the group, and is it made here? */
static bool is_whole(const struct box_job *job, const struct box_slot *slot)
{
	return !job->up && (slot->op->passed ? slot->turn == job->nlegs : is_full(job, slot));
}

/* Divide an average, if this box has the sum of all ranks. Boxes below it do not divide. */
static void divide(struct rar_reduce_ctx *ctx, struct box_job *job, struct box_slot *slot)
{
	const struct box_op *op = slot->op;

	if (is_whole(job, slot) && op->fingerprint.redop == RAR_AVG && op->kind->div_gen)
		rar_reduce_divide(ctx, op->kind, slot->sum, slot->sum, job->nlegs, slot->len);
}

/* Add a contribution to a sum, which is the first operand, as in the ring. */
static void add_to(struct box_job *job, struct box_slot *slot, void *sum, const void *data)
{
	struct rar_reduce_ctx ctx;

	rar_reduce_begin(&ctx);
	rar_reduce(&ctx, kind_of(slot), sum, sum, sum, data, slot->len);
	if (sum == slot->sum)
		divide(&ctx, job, slot);
	rar_reduce_end(&ctx);
}

/* Add a contribution whose turn it is. */
static void add(struct box_job *job, struct box_slot *slot, const void *data)
{
	slot->next = slot->next + 1 == job->nlegs ? 0 : slot->next + 1;
	if (!slot->turn++)
		memcpy(slot->sum, data, slot->len);
	else
		add_to(job, slot, slot->sum, data);
}

/*
 * Add a contribution for @ranks where the order has no effect and there are several levels, so that
 * there are no turns.
 */
static void add_level(struct box_job *job, struct box_slot *slot, u64 ranks, const void *data)
{
	if (slot->got == ranks)
		memcpy(slot->sum, data, slot->len);
	else
		add_to(job, slot, slot->sum, data);
}

/* Hold a contribution. Returns false if there is no room. */
static bool hold(struct box_job *job, struct box_slot *slot, void **held, const void *data,
		 struct box_out *out)
{
	/* The slot itself has no sum and not a lower priority, so it is neither taken. */
	*held = rar_slot_get_room(job, slot->len, slot->op->prio, out);
	if (!*held)
		return false;
	memcpy(*held, data, slot->len);
	slot->nheld++;
	return true;
}

/* Add the held contributions whose turn it is now. */
static void add_held(struct box_job *job, struct box_slot *slot)
{
	void **held = rar_slot_held(job, slot);
	u32 rank;

	while (slot->nheld && held[slot->next]) {
		rank = slot->next;
		add(job, slot, held[rank]);
		drop_held(job, slot, &held[rank]);
	}
}

/* Where the order has no effect: what comes out of turn is added to what came so before. */
static bool add_rest(struct box_job *job, struct box_slot *slot, const void *data,
		     struct box_out *out)
{
	void **rest = rar_slot_held(job, slot);

	if (!*rest)
		return hold(job, slot, rest, data, out);
	add_to(job, slot, *rest, data);
	return true;
}

/* Where the order has no effect: all have come, so add what came out of turn. */
static void finish_rest(struct box_job *job, struct box_slot *slot)
{
	void **rest = rar_slot_held(job, slot);

	if (!*rest || hweight64(slot->got) < job->nlegs)
		return;
	slot->turn = job->nlegs - 1;
	add(job, slot, *rest);
	drop_held(job, slot, rest);
}

/* Give chunk @i of the run up, and tell those that contribute for the ranks in @to. */
static void give_up(struct box_job *job, struct box_out *out, u32 i, u64 to)
{
	job->ngone++;
	out->gone |= 1ULL << i;
	out->gone_to |= to;
}

/*
 * Take a new contribution of a leg in; or, without @data, a question. Returns false if there is no
 * room.
 */
static bool take(struct box_job *job, struct box_slot *slot, u32 rank, const void *data,
		 struct box_out *out)
{
	bool any_order = slot->op->any_order;
	void **held = rar_slot_held(job, slot);
	u64 ranks = job->leg[rank].ranks;

	/* After @come of the ranks, for is_due(), which takes no lock. */
	smp_store_release(&slot->got, slot->got | ranks);
	if (slot->op->cast) {
		if (data)
			memcpy(slot->sum, data, slot->len);
		return true;
	}
	if (job->levels && any_order) {
		add_level(job, slot, ranks, data);
		return true;
	}
	if (rank == slot->next)
		add(job, slot, data);
	else if (!(any_order ? add_rest(job, slot, data, out) :
			       hold(job, slot, &held[rank], data, out)))
		return false;
	if (any_order)
		finish_rest(job, slot);
	else
		add_held(job, slot);
	return true;
}

/* Give the rows of unfinished sums back: their members are told that the box wants none. */
static void drop_unfinished(struct box_job *job, struct box_op *op)
{
	struct box_slot *slot, *tmp;

	list_for_each_entry_safe(slot, tmp, &op->adds, node)
		slot_end(job, slot);
}

/* Take nothing of operations below a number. The members have to be told. */
void rar_slot_raise_until(struct box_job *job, u64 until)
{
	u32 i;

	WRITE_ONCE(job->until, until);
	for (i = 0; i < RAR_MAX_OPS; i++)
		if (job->ops[i] && job->ops[i]->seq < until)
			drop_unfinished(job, job->ops[i]);
}

/* If hardly any chunk finds room and keeps it, let some operations go by the ring. */
static void look_for_pause(struct box_job *job, u64 seq, struct box_out *out)
{
	if (job->refused < REFUSED_MAX || seq < job->until)
		return;
	job->refused = 0;
	job->pause = clamp_t(u32, 2 * job->pause, PAUSE_MIN, RAR_BOX_PAUSE);
	rar_slot_raise_until(job, seq + job->pause);
	out->gone_to = U64_MAX;
}

/* A sum was made. */
static void succeed(struct box_job *job, struct box_slot *slot)
{
	list_move_tail(&slot->node, &job->sums);
	list_del_init(&slot->up_node);
	WRITE_ONCE(slot->since, rar_now_us());
	smp_store_release(&slot->made, true);	/* of a broadcast, for is_due() */
	note_sums(job);
	if (list_empty(&slot->op->adds))
		note_adds(job);
	job->nsums++;
	WRITE_ONCE(job->served, job->served + slot->len);
	job->refused -= min_t(u32, job->refused, REFUSED_FOR_SUM);
	if (!job->refused)
		job->pause = 0;
}

/*
 * Charge the nodes of the table that a chunk's entry needs and that are not there. They stay until
 * the operation is complete at all members, whether the chunk has a row or not, and chunks may be
 * as far apart as a member likes.
 */
static bool charge_nodes(struct box_job *job, struct box_op *op, u32 chunk)
{
	u32 shift = 0, cost = 0;
	unsigned long first;

	do {
		shift += XA_CHUNK_SHIFT;
		first = round_down((u64)chunk, 1ULL << shift);
		if (xa_find(&op->slots, &first, first + (1ULL << shift) - 1, XA_PRESENT))
			break;
		cost += sizeof(struct xa_node);
	} while (op->ring.nchunks >> shift);
	if (!rar_pool_charge(job, cost, false))
		return false;
	op->cost += cost;
	return true;
}

/* The slot of a chunk, a new one if need be; NULL if the chunk is over, or finds no room. */
static struct box_slot *slot_of(struct box_job *job, struct box_op *op, u32 chunk,
				struct box_out *out)
{
	struct box_slot *slot = xa_load(&op->slots, chunk);

	if (xa_is_value(slot))
		return NULL;
	if (slot)
		return slot;
	if (charge_nodes(job, op, chunk)) {
		slot = slot_new(job, op, chunk, out);
		/* So that no member's contribution waits for one that was refused. */
		if (!slot)
			xa_store(&op->slots, chunk, SLOT_OVER, GFP_ATOMIC);
	} else {
		job->refused = REFUSED_MAX;
	}
	if (!slot)
		job->refused++;
	look_for_pause(job, op->seq, out);
	return op->seq < job->until ? NULL : slot;
}

/* Send chunk @i of a run, which is full, to the box above. */
static void rise(struct box_job *job, struct box_slot *slot, u32 i, struct box_out *out)
{
	WRITE_ONCE(slot->up_seq, job->up_seq++);
	slot->up_at = out->now;
	list_move_tail(&slot->up_node, &job->rising);
	refcount_inc(&slot->ref);
	out->sums[i] = slot;
	out->turn[i] = slot->op->passed ? slot->turn : 0;
	out->rise |= 1ULL << i;
	if (slot->op->passed && !slot->turn)
		out->asks |= 1ULL << i;
}

/* All have contributed to chunk @i of a run. */
static void complete_chunk(struct box_job *job, struct box_slot *slot, u32 i, struct box_out *out)
{
	if (slot->op->cast) {
		succeed(job, slot);
		out->whole |= 1ULL << i;
		return;
	}
	slot->due = out->now;
	if (job->up) {
		rise(job, slot, i, out);
	} else {
		succeed(job, slot);
		out->fresh |= 1ULL << i;
	}
}

/* -- partial sums that go from box to box ----------------------------------------- */

/* Does a slot wait for the box above: for ranks before those here or after them, or for the sum? */
static bool waits_above(const struct box_job *job, const struct box_slot *slot)
{
	return job->up && is_full(job, slot) &&
	       (slot->turn == job->nlegs || !(job->ranks & BIT_ULL(slot->next)));
}

/* The box below with the rank whose turn it is, if that box waits for a partial sum; or NULL. */
static const struct box_leg *waits_below(const struct box_job *job, const struct box_slot *slot)
{
	const struct box_leg *leg;

	/* The box of the first rank begins by itself. */
	if (!slot->turn || slot->turn == job->nlegs || !(slot->got & BIT_ULL(slot->next)))
		return NULL;
	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		if (leg->ranks & BIT_ULL(slot->next))
			return box_leg_is_lower(leg) ? leg : NULL;
	return NULL;
}

/* Send the partial sum of chunk @i of a run to the box below. */
static void fall(struct box_slot *slot, const struct box_leg *leg, u32 i, struct box_out *out)
{
	refcount_inc(&slot->ref);
	out->sums[i] = slot;
	out->to[i] = leg - slot->job->leg;
	out->turn[i] = slot->turn;
	out->fall |= 1ULL << i;
}

/* More ranks have added to chunk @i of a run: send it once to the box that waits for it. */
static void pass_on(struct box_job *job, struct box_slot *slot, u32 i, struct box_out *out)
{
	const struct box_leg *leg = waits_below(job, slot);

	if (slot->passed == slot->turn + 1)
		return;
	if (leg)
		fall(slot, leg, i, out);
	else if (is_whole(job, slot) || waits_above(job, slot))
		complete_chunk(job, slot, i, out);
	else
		return;
	slot->passed = slot->turn + 1;
}

/*
 * Take in a partial sum to which out->came ranks have added. Those of them that have not added to
 * the partial sum here must be in @ranks. Returns false if it is not taken.
 */
static bool take_partial(struct box_job *job, struct box_slot *slot, u64 ranks, const void *data,
			 const struct box_out *out)
{
	struct rar_reduce_ctx ctx;
	u32 next = slot->next, turn;

	if (!data || out->came <= slot->turn || out->came > job->nlegs)
		return false;
	for (turn = slot->turn; turn < out->came; turn++) {
		if (!(ranks & BIT_ULL(next)))
			return false;
		next = next + 1 == job->nlegs ? 0 : next + 1;
	}
	memcpy(slot->sum, data, slot->len);
	slot->turn = turn;
	slot->next = next;
	rar_reduce_begin(&ctx);
	divide(&ctx, job, slot);
	rar_reduce_end(&ctx);
	add_held(job, slot);
	return true;
}

/* Take in a partial sum of the box above. job->lock held. */
void rar_slot_take_partial(struct box_job *job, struct box_op *op, u32 chunk, const void *data,
			   u32 i, struct box_out *out)
{
	struct box_slot *slot = xa_load(&op->slots, chunk);

	if (op->passed && slot && !xa_is_value(slot) && !slot->made && is_full(job, slot) &&
	    take_partial(job, slot, ~job->ranks, data, out))
		pass_on(job, slot, i, out);
}

/* A box or a rank asks again for chunk @i of a run. Packets that were sent for it may be lost. */
static void pass_again(struct box_job *job, struct box_slot *slot, u32 rank, u32 i,
		       struct box_out *out)
{
	out->wait = true;
	if (waits_below(job, slot) == &job->leg[rank])
		fall(slot, &job->leg[rank], i, out);
	else if (waits_above(job, slot) && out->now - slot->up_at > RISE_AGAIN_US)
		rise(job, slot, i, out);
}

/*
 * Take in chunk @i of a run of an operation whose partial sums go from box to box; without @data a
 * box below asks. Returns false if there is no room.
 */
static bool take_passed(struct box_job *job, struct box_slot *slot, u32 rank, const void *data,
			u32 i, struct box_out *out)
{
	const struct box_leg *leg = &job->leg[rank];
	bool lower = box_leg_is_lower(leg), first = !(slot->got & leg->ranks), news = first;

	if (slot->made)
		return true;
	if (lower) {
		slot->got |= leg->ranks;
		news |= take_partial(job, slot, leg->ranks, data, out);
	} else if (first && !take(job, slot, rank, data, out)) {
		return false;
	}
	if (news)
		pass_on(job, slot, i, out);
	else
		pass_again(job, slot, rank, i, out);
	return true;
}

/* -- runs ------------------------------------------------------------------------ */

/* A rank asks again for a chunk that has no sum. Perhaps the box above has not heard of it. */
static void ask_again(struct box_job *job, struct box_slot *slot, u32 i, struct box_out *out)
{
	out->wait = true;
	if (job->up && is_full(job, slot) && out->now - slot->up_at > RISE_AGAIN_US)
		rise(job, slot, i, out);
}

/* The root of a broadcast has contributed chunk @i of a run: those that have asked get it. */
static void root_came(struct box_slot *slot, u32 i, struct box_out *out)
{
	slot->due = out->now;
	out->fresh |= 1ULL << i;
}

/* Is there something to send of a slot to its members? */
static bool is_there(const struct box_slot *slot)
{
	return slot->made || (slot->op->cast && rar_slot_has_root(slot));
}

/*
 * Does a leg ask again so soon that the last answer is still under way? A rank
 * that repeats a short question must not get a long answer each time.
 */
static bool asks_too_soon(const struct box_leg *leg,
			  const struct box_slot *slot, u32 rank, u32 now)
{
	u32 before = READ_ONCE(slot->come[rank]) >> 32;

	return (slot->got & leg->ranks) && is_there(slot) &&
	       now - before < AGAIN_US;
}

/* Take in chunk @i of a run. @data: NULL if a rank asks for a chunk of a broadcast. */
void rar_slot_take(struct box_job *job, struct box_op *op, u32 chunk, u32 rank, u32 seq,
		   const void *data, u32 i, struct box_out *out)
{
	struct box_slot *slot = slot_of(job, op, chunk, out);
	u64 ranks = job->leg[rank].ranks;

	if (!slot) {
		give_up(job, out, i, ranks);
		return;
	}
	if (asks_too_soon(&job->leg[rank], slot, rank, out->now))
		return;
	WRITE_ONCE(slot->come[rank], rar_slot_come_at(seq, out->now));
	if (op->passed) {
		if (!take_passed(job, slot, rank, data, i, out)) {
			give_up(job, out, i, slot->got);
			slot_end(job, slot);
			return;
		}
	} else if (!(slot->got & ranks)) {
		if (!take(job, slot, rank, data, out)) {
			give_up(job, out, i, slot->got);
			slot_end(job, slot);
			return;
		}
		if (slot->op->cast && data)
			root_came(slot, i, out);
		if (is_full(job, slot))
			complete_chunk(job, slot, i, out);
	} else if (!slot->made && (data || !is_there(slot))) {
		ask_again(job, slot, i, out);
	}
	if (is_there(slot)) {
		refcount_inc(&slot->ref);
		out->sums[i] = slot;
	}
}

/* Does no member wait for the sum of a slot any more? */
static bool all_have(const struct box_job *job, const struct box_slot *slot)
{
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		if (box_leg_used(&job->leg[i]) &&
		    !rar_seq_before((u32)slot->come[i], job->leg[i].una))
			return false;
	return true;
}

/* A member waits for nothing below @una any more: give rows back if memory is short. */
void rar_slot_advance(struct box_job *job, struct box_leg *leg, u32 una)
{
	struct box_slot *slot, *tmp;

	if (!rar_seq_before(leg->una, una))
		return;
	leg->una = una;
	list_for_each_entry_safe(slot, tmp, &job->sums, node) {
		if (!rar_pool_short(job) || !all_have(job, slot))
			break;
		slot_end(job, slot);
	}
}

/* Drop the operations that are complete at all members. job->lock held. */
void rar_slot_raise_base(struct box_job *job)
{
	u64 base = U64_MAX;
	u32 i;

	for (i = 0; i < job->nlegs; i++) {
		if (!box_leg_used(&job->leg[i]))
			continue;
		if (!job->leg[i].told)
			return;
		base = min(base, job->leg[i].done);
	}
	job->told = true;
	for (i = 0; base > job->base && i < RAR_MAX_OPS; i++)
		if (job->ops[i] && job->ops[i]->seq < base)
			op_drop(job, job->ops[i]);
	WRITE_ONCE(job->base, base);
}

/* Take in the sum of a chunk that waits for it. job->lock held. */
void rar_slot_take_sum(struct box_job *job, struct box_op *op, u32 chunk,
		       const struct rar_pkt *pkt, u32 off, u32 i, struct box_out *out)
{
	struct box_slot *slot = xa_load(&op->slots, chunk);

	if (!slot || xa_is_value(slot) || slot->made || !is_full(job, slot) ||
	    skb_copy_bits(pkt->skb, off, slot->sum, slot->len))
		return;
	succeed(job, slot);
	refcount_inc(&slot->ref);
	out->sums[i] = slot;
	out->fresh |= 1ULL << i;
}

/* End the chunks that a RETURN names and that have no sum. job->lock held. */
void rar_slot_end_returned(struct box_job *job, const struct rar_chunks_hdr *ch)
{
	u64 seq = be64_to_cpu(ch->op_seq), map;
	struct box_op *op = job->ops[seq % RAR_MAX_OPS];
	u32 first = be32_to_cpu(ch->first), i, bit;
	struct box_slot *slot;

	if (!op || op->seq != seq)
		return;
	for (i = 0; i < ARRAY_SIZE(ch->map); i++) {
		for (map = le64_to_cpu(ch->map[i]); map; map &= map - 1) {
			bit = 64 * i + __ffs64(map);
			slot = bit < op->ring.nchunks - min(first, op->ring.nchunks) ?
			       xa_load(&op->slots, first + bit) : NULL;
			if (!slot || xa_is_value(slot) || slot->made)
				continue;
			job->ngone++;
			slot_end(job, slot);
		}
	}
}

/* -- begin and end ------------------------------------------------------------- */

/* Prepare the slots of a new job. */
void rar_slot_init(struct box_job *job)
{
	spin_lock_init(&job->lock);
	INIT_LIST_HEAD(&job->sums);
	INIT_LIST_HEAD(&job->rising);
	job->oldest = U64_MAX;
	job->lowest = BOX_NO_PRIO;
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
