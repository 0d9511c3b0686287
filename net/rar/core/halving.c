// SPDX-License-Identifier: GPL-2.0
/* Recursive halving and doubling: ranges and numbers of chunks (halving.h). */
#include "core/halving.h"

/* -- ranks ---------------------------------------------------------------- */

/* Is the number of ranks a power of two? */
static bool is_pow2(const struct rar_halves *h)
{
	return h->size == 1U << h->bits;
}

/* Do shares go round? */
static bool goes_round(const struct rar_halves *h)
{
	return h->shares && !is_pow2(h);
}

/* The pairs of an all-reduce, whose ranks share the work. */
static u32 pairs_of(const struct rar_halves *h)
{
	return h->size - (1U << h->bits);
}

static bool is_paired(const struct rar_halves *h)
{
	return h->rank < 2 * pairs_of(h);
}

/* The number that a rank has among single ranks and pairs. */
static u32 number_of(const struct rar_halves *h)
{
	return is_paired(h) ? h->rank / 2 : h->rank - pairs_of(h);
}

/* The rank with a number; of a pair, the rank that has this half. */
static u32 rank_of(const struct rar_halves *h, u32 number, u32 side)
{
	u32 pairs = pairs_of(h);

	return number < pairs ? 2 * number + side : number + pairs;
}

/**
 * rar_halves_of() - find how the ranks of a group halve
 * @size:   ranks, at least 1
 * @rank:   less than @size
 * @shares: each rank has a share, as long as all others
 */
struct rar_halves rar_halves_of(u32 size, u32 rank, bool shares)
{
	struct rar_halves h = { .size = size, .rank = rank, .shares = shares };

	while (2ULL << h.bits <= size)
		h.bits++;
	if (is_pow2(&h))
		h.n = h.bits;
	else if (shares)
		h.n = h.bits + 1;
	else
		h.n = 1 + 2 * h.bits;
	return h;
}

/* The half of the tensor that ranks exchange in a step after the first one. */
static u32 side_of(u32 step)
{
	return (step - 1) % 2;
}

/* The bit in which the numbers of the two differ that exchange halves. */
static u32 bit_of(const struct rar_halves *h, u32 step)
{
	if (!is_pow2(h))
		return (step - 1) / 2;
	return h->shares ? h->n - 1 - step : step;
}

/* The ranks that a share which goes round is passed up in a step. */
static u32 far_of(const struct rar_halves *h, u32 step)
{
	return 1U << (h->n - 1 - step);
}

/* The rank with which this rank exchanges halves; RAR_NO_RANK: none. */
static u32 peer_of(const struct rar_halves *h, u32 step)
{
	u32 side = is_pow2(h) ? 0 : side_of(step);

	if (!is_pow2(h) && !step)
		return is_paired(h) ? h->rank ^ 1 : RAR_NO_RANK;
	/* Each rank of a pair has one half. */
	if (is_paired(h) && side != h->rank % 2)
		return RAR_NO_RANK;
	return rank_of(h, number_of(h) ^ 1U << bit_of(h, step), side);
}

static u32 up(const struct rar_halves *h, u32 step)
{
	u32 rank = h->rank + far_of(h, step);

	return rank < h->size ? rank : rank - h->size;
}

static u32 down(const struct rar_halves *h, u32 step)
{
	u32 far = far_of(h, step);

	return h->rank < far ? h->rank + h->size - far : h->rank - far;
}

static void add_partner(struct rar_partners *partners, u32 rank)
{
	u32 i;

	for (i = 0; i < partners->n; i++)
		if (partners->rank[i] == rank)
			return;
	if (rank != RAR_NO_RANK)
		partners->rank[partners->n++] = rank;
}

/**
 * rar_halves_partners() - find the ranks with which a rank exchanges anything
 * @size:     ranks, at least 1
 * @rank:     less than @size
 * @partners: set; the same order each time
 */
void rar_halves_partners(u32 size, u32 rank, struct rar_partners *partners)
{
	struct rar_halves h = rar_halves_of(size, rank, false);
	u32 i;

	*partners = (struct rar_partners) { };
	for (i = 0; i < h.n; i++)
		add_partner(partners, peer_of(&h, i));
	h = rar_halves_of(size, rank, true);
	for (i = 0; i < h.n && goes_round(&h); i++) {
		add_partner(partners, up(&h, i));
		add_partner(partners, down(&h, i));
	}
}

/* -- borders -------------------------------------------------------------- */

/**
 * rar_halving_bytes() - the longest tensor that halving is for
 * @size: ranks, at least 2
 *
 * It takes 2 log2 N hops, rounded up, and the ring 2(N-1). About as many bytes
 * pass, but fewer of them at the same time, and the processor copies them more
 * often. That takes 2/7 more: it is an eighth in "scripts/sim halving", and a
 * third was measured with slow processors. If there are pairs the other ranks
 * wait for them, which takes 5/8 more. So halving is faster up to RAR_HOP_BYTES
 * * (N-1-log2 N) * 7/2, or * 8/5.
 *
 * Return: bytes, a power of two, RAR_HALVING_BYTES at most; 0 if that is not
 * more than rar_stages_bytes().
 */
u32 rar_halving_bytes(u32 size)
{
	struct rar_halves h = rar_halves_of(size, 0, false);
	u32 log = h.bits + !is_pow2(&h), bytes = RAR_HALVING_BYTES;
	u64 most = (u64)RAR_HOP_BYTES * (size - 1 - log);

	most *= is_pow2(&h) ? 35 : 16;
	while (bytes * 10ULL > most)
		bytes /= 2;
	return bytes > rar_stages_bytes(size) ? bytes : 0;
}

/* -- steps ---------------------------------------------------------------- */

/* The chunks of the first half of @n. */
static u32 half(u32 n)
{
	return n - n / 2;
}

/* The first half of a range, or the second one. */
static struct rar_range half_of(struct rar_range range, bool second)
{
	if (second) {
		range.first += half(range.n);
		range.n /= 2;
	} else {
		range.n = half(range.n);
	}
	return range;
}

/* What a rank has before a step in which it exchanges halves. */
static struct rar_range range_before(const struct rar_ring *ring, u32 step)
{
	const struct rar_halves *h = &ring->plan.halves;
	struct rar_range range = { .n = ring->cpb };
	u32 by = 1, s = 0;

	if (!is_pow2(h) && step) {
		range = half_of(range, side_of(step));
		s = 1 + side_of(step);
		by = 2;
	}
	for (; s < step; s += by)
		range = half_of(range, number_of(h) >> bit_of(h, s) & 1);
	return range;
}

/* A step of two ranks that exchange halves. */
static struct rar_step step_by_halves(const struct rar_ring *ring, u32 step)
{
	const struct rar_halves *h = &ring->plan.halves;
	u32 peer = peer_of(h, step);
	struct rar_range range;
	bool second;

	if (peer == RAR_NO_RANK)
		return (struct rar_step) {
			.to = RAR_NO_RANK, .from = RAR_NO_RANK,
		};
	range = range_before(ring, step);
	if (!is_pow2(h) && !step)
		second = h->rank % 2;
	else
		second = number_of(h) >> bit_of(h, step) & 1;
	return (struct rar_step) {
		.to = peer,
		.gives = half_of(range, !second),
		.from = peer,
		.comes = half_of(range, second),
		.after = peer > h->rank,
	};
}

/* The first chunk, of all of the tensor, of the share of a rank, or beyond. */
static u32 first_of(const struct rar_ring *ring, u32 rank)
{
	return rank * rar_halving_share(ring);
}

/* Positions that a rank has before a step, and that come in it. */
static u32 positions(const struct rar_halves *h, u32 step)
{
	return step ? far_of(h, step - 1) : h->size;
}

static u32 positions_come(const struct rar_halves *h, u32 step)
{
	return positions(h, step) - far_of(h, step);
}

static struct rar_step step_round(const struct rar_ring *ring, u32 step)
{
	const struct rar_halves *h = &ring->plan.halves;
	u32 come = first_of(ring, positions_come(h, step));

	return (struct rar_step) {
		.to = up(h, step),
		.gives = { first_of(ring, far_of(h, step)), come },
		.from = down(h, step),
		.comes = { .n = come },
	};
}

/**
 * rar_halving_step() - find what a rank does in a step
 * @ring: by halving
 * @step: less than @ring->plan.halves.n
 */
struct rar_step rar_halving_step(const struct rar_ring *ring, u32 step)
{
	return goes_round(&ring->plan.halves) ? step_round(ring, step) :
						step_by_halves(ring, step);
}

/* Are the sums of what comes in a step complete? */
bool rar_halving_ends(const struct rar_ring *ring, u32 step)
{
	const struct rar_halves *h = &ring->plan.halves;

	return step + (is_pow2(h) || h->shares ? 1 : 2) >= h->n;
}

/**
 * rar_halving_side() - find chunks that are alike in the steps to come
 * @ring: by halving
 * @nth:  chunk of the tensor
 *
 * Return: a range with @nth, of which in the first step all come, or none; and
 * in each step the numbers of those that are given, and of those that are kept,
 * follow one another.
 */
struct rar_range rar_halving_side(const struct rar_ring *ring, u32 nth)
{
	const struct rar_halves *h = &ring->plan.halves;
	struct rar_range all = { .n = ring->cpb }, come;

	if (!is_pow2(h) && !h->shares)
		return half_of(all, nth >= half(ring->cpb));
	come = rar_halving_step(ring, 0).comes;
	if (rar_range_has(come, nth))
		return come;
	if (nth < come.first)
		return (struct rar_range) { .n = come.first };
	come.first += come.n;
	come.n = ring->cpb - come.first;
	return come;
}

/* This rank's share, of the chunks of the tensor. */
struct rar_range rar_halving_own(const struct rar_ring *ring)
{
	struct rar_range own = { .n = rar_halving_share(ring) };

	if (!goes_round(&ring->plan.halves))
		own.first = first_of(ring, ring->plan.share);
	return own;
}

/* -- numbers -------------------------------------------------------------- */

/* The numbers of arrivals of a step, the same at all ranks. */
static u32 most_come(const struct rar_halves *h, u32 chunks, u32 step)
{
	u32 halvings = is_pow2(h) || !step ? step + 1 : 2 + bit_of(h, step);

	if (goes_round(h))
		return chunks / h->size * positions_come(h, step);
	return (chunks + (1ULL << halvings) - 1) >> halvings;
}

/* The first number after the arrivals of @steps. */
static u32 after(const struct rar_halves *h, u32 chunks, u32 steps)
{
	u32 at = chunks, i;

	for (i = 0; i < steps; i++)
		at += most_come(h, chunks, i);
	return at;
}

/* The first number of the arrivals of a step. */
static u32 arrivals(const struct rar_ring *ring, u32 step)
{
	return after(&ring->plan.halves, ring->cpb, step);
}

/**
 * rar_halving_total() - count the numbers that chunks have
 * @plan:   of the rank
 * @chunks: of the tensor, at least 1
 *
 * Return: at most 5/2 * @chunks and one for each step.
 */
u32 rar_halving_total(const struct rar_plan *plan, u32 chunks)
{
	const struct rar_halves *h = &plan->halves;

	return plan->scatters ? after(h, chunks, h->n) : chunks;
}

/**
 * rar_halving_slot() - the room that each number of a chunk has in the buffer
 * @share:   bytes of a rank's share, or of the tensor if it has no shares
 * @payload: bytes of a chunk
 *
 * Return: bytes, no fewer than a chunk has.
 */
u32 rar_halving_slot(u64 share, u32 payload)
{
	if (share > payload)
		return payload;
	return (share + RAR_BLOCK_ALIGN - 1) & ~(u64)(RAR_BLOCK_ALIGN - 1);
}

/*
 * struct area - numbers that follow one another
 * @block: of the area: 0 = the tensor, and from 1 on the arrivals of a step
 * @begin: the first number
 * @has:   the chunks of the tensor that have these numbers
 */
struct area {
	u32 block;
	u32 begin;
	struct rar_range has;
};

static struct area area_of(const struct rar_ring *ring, u32 chunk)
{
	const struct rar_halves *h = &ring->plan.halves;
	struct area area = { .has.n = ring->cpb };
	u32 end = ring->cpb;

	if (chunk < ring->cpb)
		return area;
	while (chunk >= end && area.block < h->n) {
		area.begin = end;
		end += most_come(h, ring->cpb, area.block++);
	}
	area.has = rar_halving_step(ring, area.block - 1).comes;
	return area;
}

/**
 * rar_halving_partial() - the number of a chunk of a partial sum
 * @ring: by halving
 * @step: before which this rank has the partial sum
 * @nth:  chunk of the tensor, which this rank has then
 */
u32 rar_halving_partial(const struct rar_ring *ring, u32 step, u32 nth)
{
	struct rar_range comes;

	while (step) {
		comes = rar_halving_step(ring, --step).comes;
		if (rar_range_has(comes, nth))
			return arrivals(ring, step) + nth - comes.first;
	}
	return nth;
}

/**
 * rar_halving_arrival() - the number of a chunk that comes in a step
 * @ring: by halving
 * @step: less than @ring->plan.halves.n
 * @nth:  chunk of the tensor, which comes then
 */
u32 rar_halving_arrival(const struct rar_ring *ring, u32 step, u32 nth)
{
	return arrivals(ring, step) + nth -
	       rar_halving_step(ring, step).comes.first;
}

/**
 * rar_halving_nth() - find the chunk of the tensor that has a number
 * @ring:  by halving
 * @chunk: the number
 *
 * Return: the chunk; @ring->cpb or more if no chunk has that number.
 */
u32 rar_halving_nth(const struct rar_ring *ring, u32 chunk)
{
	struct area area = area_of(ring, chunk);

	if (chunk - area.begin >= area.has.n)
		return ring->cpb;
	return area.has.first + chunk - area.begin;
}

/* Where a chunk lies in the tensor, in chunks. */
static u32 place_of(const struct rar_ring *ring, u32 nth)
{
	const struct rar_halves *h = &ring->plan.halves;

	if (!goes_round(h))
		return nth;
	nth += first_of(ring, h->rank);
	return nth < ring->cpb ? nth : nth - ring->cpb;
}

/**
 * rar_halving_share_end() - find where the chunks end that follow in a share
 * @ring: by halving
 * @nth:  chunk of the tensor
 *
 * The last chunk of a share, or of the tensor, may be short.
 *
 * Return: the chunk after the last one.
 */
u32 rar_halving_share_end(const struct rar_ring *ring, u32 nth)
{
	u32 share = rar_halving_share(ring);

	return nth + share - place_of(ring, nth) % share;
}

/**
 * rar_halving_end() - find where a run must end
 * @ring:  by halving
 * @chunk: its first number, less than @ring->nchunks
 *
 * Return: the number after the last one that it may have; @chunk if no chunk
 * has that number.
 */
u32 rar_halving_end(const struct rar_ring *ring, u32 chunk)
{
	struct area area = area_of(ring, chunk);
	u32 nth = area.has.first + chunk - area.begin, left;

	if (chunk - area.begin >= area.has.n)
		return chunk;
	left = rar_halving_share_end(ring, nth) - nth;
	return min(area.begin + area.has.n, chunk + left);
}
EXPORT_SYMBOL_GPL(rar_halving_end);

/**
 * rar_halving_chunk() - find a chunk in the buffer
 * @ring:  by halving
 * @chunk: its number
 * @c:     to fill
 */
void rar_halving_chunk(const struct rar_ring *ring, u32 chunk,
		       struct rar_chunk *c)
{
	u32 share = rar_halving_share(ring), nth, at;

	nth = place_of(ring, rar_halving_nth(ring, chunk));
	at = nth % share;
	c->block = area_of(ring, chunk).block;
	if (c->block)
		c->off = (u64)chunk * rar_halving_slot(ring->block,
						       ring->payload);
	else
		c->off = nth / share * ring->block + (u64)at * ring->payload;
	c->len = at + 1 < share ? ring->payload :
				  ring->block - (u64)at * ring->payload;
}

/**
 * rar_halving_there() - the number of a chunk at the rank that it goes to
 * @ring:  by halving
 * @sums:  it is a sum, and not a partial one
 * @chunk: its number here
 * @rank:  the other rank
 */
u32 rar_halving_there(const struct rar_ring *ring, bool sums, u32 chunk,
		      u32 rank)
{
	u32 nth = rar_halving_nth(ring, chunk), step, first;
	struct rar_range gives;

	if (sums) {
		first = goes_round(&ring->plan.halves) ? first_of(ring, rank) :
							 0;
		chunk = place_of(ring, nth);
		return chunk < first ? chunk + ring->cpb - first :
				       chunk - first;
	}
	step = area_of(ring, chunk).block;
	for (; step < ring->plan.halves.n; step++) {
		gives = rar_halving_step(ring, step).gives;
		if (rar_range_has(gives, nth))
			return arrivals(ring, step) + nth - gives.first;
	}
	return chunk;
}

/* -- what comes, and goes -------------------------------------------------- */

/**
 * rar_halving_of() - find the step of a run that comes
 * @ring:  by halving
 * @chunk: its first number here
 * @n:     chunks, which end before rar_halving_end()
 *
 * Return: the step, of sums that in which they were given away; RAR_NO_STEP if
 * the run cannot come here.
 */
u32 rar_halving_of(const struct rar_ring *ring, u32 chunk, u32 n)
{
	u32 block = area_of(ring, chunk).block, i;
	struct rar_range gives;

	if (block)
		return block - 1;
	for (i = 0; i < ring->plan.halves.n && ring->plan.gathers; i++) {
		gives = rar_halving_step(ring, i).gives;
		if (rar_range_has(gives, chunk) &&
		    rar_range_has(gives, chunk + n - 1))
			return i;
	}
	return RAR_NO_STEP;
}

/* The rank from which such a run comes; RAR_NO_RANK: none. */
u32 rar_halving_sender(const struct rar_ring *ring, u32 chunk, u32 n)
{
	u32 step = rar_halving_of(ring, chunk, n);

	if (step == RAR_NO_STEP)
		return RAR_NO_RANK;
	return chunk < ring->cpb ? rar_halving_step(ring, step).to :
				   rar_halving_step(ring, step).from;
}

/* Chunks are exchanged with a rank, of which some are sent. */
static void owe(struct rar_partners *partners, u32 rank, u32 chunks)
{
	u32 i = 0;

	if (rank == RAR_NO_RANK)
		return;
	while (partners->rank[i] != rank)
		i++;
	partners->used |= 1ULL << i;
	partners->owed[i] += chunks;
}

/**
 * rar_halving_partners() - find with which ranks an operation exchanges what
 * @ring:     the schedule; by no other way are there any
 * @partners: set: all of rar_halves_partners()
 *
 * Each chunk is sent once: a partial sum, or a sum that comes back.
 */
void rar_halving_partners(const struct rar_ring *ring,
			  struct rar_partners *partners)
{
	const struct rar_plan *plan = &ring->plan;
	struct rar_step step;
	u32 i;

	*partners = (struct rar_partners) { };
	if (!plan->halving)
		return;
	rar_halves_partners(plan->halves.size, plan->halves.rank, partners);
	for (i = 0; i < plan->halves.n; i++) {
		step = rar_halving_step(ring, i);
		owe(partners, step.to, plan->scatters ? step.gives.n : 0);
		owe(partners, step.from, plan->gathers ? step.comes.n : 0);
	}
}
