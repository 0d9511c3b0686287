// SPDX-License-Identifier: GPL-2.0
/*
 * Round at once: a run of chunks passes all ranks in one go that are in this namespace, follow one
 * another and have contributed; in the best case it goes all the way. Their contributions are added
 * in the order of the ring, so the bits are those of the ring, but the partial sums stay in the
 * cache: each contribution is read once, and the sum is written once for each rank. A rank that
 * adds, and that another rank here follows, never stores its partial sum: nobody would read it.
 *
 * Each arrival is claimed as if it came alone, in the order in which the run arrives. So no other
 * CPU adds or stores these chunks there. If a claim is lost, the caller takes the arrivals that are
 * claimed one by one.
 */
#include <linux/percpu.h>

#include "core/compat.h"
#include "core/cursor.h"
#include "core/member.h"
#include "reduce/reduce.h"
#include "ring/round.h"
#include "tx/rules.h"

#define ROUND_PIECE	SZ_4K	/* bytes of a partial sum; all of it stays in the first cache */

/* -- the way ----------------------------------------------------------------- */

/* The rank after @m, if it takes chunks in memory. */
static struct rar_member *rank_after(const struct rar_member *m)
{
	struct rar_member *next;

	if (!m->link[RAR_NEXT]->here)
		return NULL;
	next = rar_member_peer(m, m->link[RAR_NEXT]->rank);
	return next && !rar_rules_judged(next) ? next : NULL;
}

/* The operation of a run at a rank that has contributed to the run, or NULL. */
static struct rar_operation *op_of(const struct rar_round *round, const struct rar_member *m,
				   const struct rar_run *run)
{
	const struct rar_operation *from = round->op;
	struct rar_operation *op;
	struct rar_chunk c;

	if (rar_op_early(m, from->seq, run))
		return NULL;
	op = rcu_dereference(m->ops[from->seq % RAR_MAX_OPS]);
	if (!op || op->seq != from->seq ||
	    rar_fingerprint_differs(&op->fingerprint, &from->fingerprint) ||
	    rar_op_check(&op->ring, run, round->bytes, &c) != RAR_RX_DONE)
		return NULL;
	return c.off == round->c.off ? op : NULL;
}

/* May a sum come to a rank? It must have added, or add on the way. */
static bool may_store(const struct rar_round *round, const struct rar_hop *hop,
		      const struct rar_run *run)
{
	struct rar_run rs = *run;
	u32 i;

	if (!rar_plan_adds_before(&hop->op->ring.plan, RAR_AG, round->c.block))
		return true;
	for (i = 0; i < round->nadds; i++)
		if (round->hop[i].m == hop->m)
			return true;
	rs.phase = RAR_RS;
	return rar_op_published(hop->op, &rs, rar_mask(rs.n)) == rar_mask(rs.n);
}

/* Append an arrival at @m. Returns false if the run cannot arrive there now, or has gone far. */
static bool add_hop(struct rar_round *round, struct rar_member *m, enum rar_phase phase)
{
	u32 others = phase == RAR_RS ? round->nadds : round->n - round->nadds;
	struct rar_hop *hop = &round->hop[round->n];
	struct rar_run run = round->run;

	if (others == RAR_ROUND_RANKS - 1)
		return false;
	run.phase = phase;
	hop->m = m;
	hop->phase = phase;
	hop->op = m ? op_of(round, m, &run) : NULL;
	if (!hop->op)
		return false;
	if (phase == RAR_AG && !may_store(round, hop, &run))
		return false;
	round->nadds += phase == RAR_RS;
	round->n++;
	return true;
}

/**
 * rar_round_find() - find the way of a run that is handed over in memory
 * @round: set, if there is one
 * @from:  the rank that hands it over
 * @item:  the run
 *
 * RCU read side, bottom halves off.
 *
 * Return: false if the run passes one rank or none here.
 */
bool rar_round_find(struct rar_round *round, struct rar_member *from,
		    const struct rar_tx_item *item)
{
	const struct rar_ring *ring = &item->op->ring;
	enum rar_phase phase = item->run.phase;
	struct rar_member *m = from;
	u32 size = from->size;

	if (item->back || from->place.hosts || ring->lead || ring->plan.gathered ||
	    ring->plan.direct || ring->plan.aside)
		return false;
	round->from = from;
	round->op = item->op;
	round->run = item->run;
	round->n = 0;
	round->nadds = 0;
	rar_ring_chunk(ring, item->run.chunk, &round->c);
	round->bytes = rar_ring_bytes(ring, item->run.chunk, item->run.n);
	while (phase != RAR_PHASES) {
		/* The first ranks are all others, then they come again in the same order. */
		if (round->n < size - 1)
			m = rank_after(m);
		else if (round->n == size - 1)
			m = from;
		else
			m = round->hop[round->n - size].m;
		if (!add_hop(round, m, phase))
			break;
		phase = rar_plan_next(&round->hop[round->n - 1].op->ring.plan, phase,
				      round->c.block);
	}
	round->ends = phase == RAR_PHASES;
	return round->n > 1;
}

/* -- claims ------------------------------------------------------------------- */

/**
 * rar_round_claim() - claim the run wherever it arrives
 * @round: from rar_round_find()
 *
 * Return: true if nothing of it was claimed before. Otherwise the caller must take in what is
 * claimed: the run at @nclaimed ranks, and the chunks @won at the rank after them.
 */
bool rar_round_claim(struct rar_round *round)
{
	u64 mask = rar_mask(round->run.n);
	struct rar_run run = round->run;
	struct rar_hop *hop;

	for (round->nclaimed = 0; round->nclaimed < round->n; round->nclaimed++) {
		hop = &round->hop[round->nclaimed];
		run.phase = hop->phase;
		round->won = rar_op_claim(hop->op, &run);
		if (round->won != mask)
			return false;
	}
	return true;
}

/* -- sums --------------------------------------------------------------------- */

/*
 * struct pass - the arithmetic of a run, while it goes
 * @round:	the run
 * @kind:	the reduction, if ranks add
 * @divisor:	of the sum, 0 = none
 * @size:	bytes that must not be torn apart
 * @in:		what the first rank hands over
 * @own:	by rank that adds, its contribution
 * @out:	by rank that gets the result, where that goes
 * @nouts:	entries of @out
 */
struct pass {
	const struct rar_round *round;
	const struct rar_kind *kind;
	struct rar_reduce_ctx ctx;
	u32 divisor;
	u32 size;
	struct rar_cursor in;
	struct rar_cursor own[RAR_ROUND_RANKS];
	struct rar_cursor out[RAR_ROUND_RANKS];
	u32 nouts;
};

/* Where a piece lies at each rank. */
struct piece {
	const void *in;
	const void *own[RAR_ROUND_RANKS];
	void *out[RAR_ROUND_RANKS];
};

/*
 * struct room - what a CPU needs for a run, too much for its stack
 * @lock:	of all of it. Bottom halves are off, but a realtime kernel may preempt such a
 *		section
 */
struct room {
	local_lock_t lock; /* see above */
	u8 scratch[ROUND_PIECE] __aligned(64);	/* partial sums */
	struct pass pass;
	struct piece piece;
};

static struct room __percpu *rooms;

static void set_up(struct pass *pass, const struct rar_round *round)
{
	const struct rar_operation *last;
	const struct rar_hop *hop;
	u32 i;

	*pass = (struct pass) {
		.round = round,
		.in.buf = rar_op_source(round->op, &round->run, &round->c),
		.size = 1,
	};
	if (round->nadds) {
		last = round->hop[round->nadds - 1].op;
		pass->kind = last->kind;
		pass->size = pass->kind->size;
		if (rar_plan_completes(&last->ring.plan, RAR_RS, round->c.block))
			pass->divisor = last->divisor;
		pass->out[pass->nouts++].buf = &last->buf;
	}
	for (i = 0; i < round->n; i++) {
		hop = &round->hop[i];
		if (hop->phase == RAR_RS)
			pass->own[i].buf = READ_ONCE(hop->op->own);
		else
			pass->out[pass->nouts++].buf = READ_ONCE(hop->op->sums);
	}
}

/* Find a piece: at most @len bytes from @off on that lie together at every rank. */
static u32 find(struct pass *pass, struct piece *piece, u64 off, u32 len)
{
	u32 i, n;

	len = min_t(u32, len, ROUND_PIECE);
	piece->in = rar_cursor_at(&pass->in, off, &n);
	len = min(len, n);
	for (i = 0; i < pass->round->nadds; i++) {
		piece->own[i] = rar_cursor_at(&pass->own[i], off, &n);
		len = min(len, n);
	}
	for (i = 0; i < pass->nouts; i++) {
		piece->out[i] = rar_cursor_at(&pass->out[i], off, &n);
		len = min(len, n);
	}
	return len - len % pass->size;
}

/* Add a piece, from rank to rank. The last addition writes two results. */
static void add(struct pass *pass, const struct piece *piece, u32 len)
{
	void *scratch = container_of(pass, struct room, pass)->scratch, *to, *to2;
	u32 nadds = pass->round->nadds, i;
	const void *in = piece->in;

	for (i = 0; i < nadds; i++) {
		to = scratch;
		to2 = scratch;
		if (i + 1 == nadds) {
			to = piece->out[0];
			to2 = piece->out[min(1U, pass->nouts - 1)];
		}
		rar_reduce(&pass->ctx, pass->kind, to, to2, in, piece->own[i], len);
		if (i + 1 == nadds && pass->divisor)
			rar_reduce_divide(&pass->ctx, pass->kind, to, to2, pass->divisor, len);
		in = to;
	}
}

static void go(struct pass *pass, const struct piece *piece, u32 len)
{
	const void *from = piece->in;
	u32 i = 0;

	if (pass->round->nadds) {
		add(pass, piece, len);
		from = piece->out[0];
		i = 2;
	}
	for (; i < pass->nouts; i++)
		rar_reduce_copy(&pass->ctx, piece->out[i], from, len);
	rar_reduce_piece(&pass->ctx);
}

/* An element lies in two pieces at a rank: go by copies of it. */
static void go_bounced(struct pass *pass, u64 off, u32 len)
{
	u8 in[sizeof(u64)], own[RAR_ROUND_RANKS][sizeof(u64)], out[RAR_ROUND_RANKS][sizeof(u64)];
	struct piece piece = { .in = in };
	u32 i;

	rar_cursor_read(&pass->in, off, in, len);
	for (i = 0; i < pass->round->nadds; i++) {
		rar_cursor_read(&pass->own[i], off, own[i], len);
		piece.own[i] = own[i];
	}
	for (i = 0; i < pass->nouts; i++)
		piece.out[i] = out[i];
	go(pass, &piece, len);
	for (i = 0; i < pass->nouts; i++)
		rar_cursor_write(&pass->out[i], off, out[i], len);
}

/* Publish the run wherever it has arrived: all results are written. */
static void publish(const struct rar_round *round)
{
	struct rar_run run = round->run;
	const struct rar_hop *hop;

	for (hop = round->hop; hop < round->hop + round->n; hop++) {
		run.phase = hop->phase;
		rar_op_publish(hop->op, &run, rar_mask(run.n));
	}
}

/* Each rank that adds has added all chunks. All ranks are in one namespace. */
static void count_sums(const struct rar_round *round, bool fpu)
{
	u32 n = round->nadds * round->run.n;

	if (fpu)
		rar_mib_add(round->from->rn, ReduceSimd, n);
	else
		rar_mib_add(round->from->rn, ReduceScalar, n);
}

/**
 * rar_round_pass() - let a run go all the way, and publish it at each rank
 * @round: claimed in full
 *
 * RCU read side, bottom halves off. Others may have the FPU after RAR_REDUCE_MAX bytes.
 */
void rar_round_pass(struct rar_round *round)
{
	u64 off = round->c.off, end = off + round->bytes;
	struct piece *piece;
	struct pass *pass;
	u32 len, done = 0;
	bool fpu;

	local_lock_nested_bh(&rooms->lock);
	piece = this_cpu_ptr(&rooms->piece);
	pass = this_cpu_ptr(&rooms->pass);
	set_up(pass, round);
	rar_reduce_begin(&pass->ctx);
	for (; off < end; off += len) {
		len = find(pass, piece, off, end - off);
		if (len) {
			go(pass, piece, len);
		} else {
			len = pass->size;
			go_bounced(pass, off, len);
		}
		done += len * round->n;
		if (done >= RAR_REDUCE_MAX) {
			rar_reduce_pause(&pass->ctx);
			done = 0;
		}
	}
	rar_reduce_end(&pass->ctx);
	fpu = pass->ctx.fpu;
	local_unlock_nested_bh(&rooms->lock);
	count_sums(round, fpu);
	publish(round);
}

int __init rar_round_init(void)
{
	int cpu;

	rooms = alloc_percpu(struct room);
	if (!rooms)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		local_lock_init(&per_cpu_ptr(rooms, cpu)->lock);
	return 0;
}

void rar_round_exit(void)
{
	free_percpu(rooms);
}
