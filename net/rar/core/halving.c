// SPDX-License-Identifier: GPL-2.0
/* Recursive halving and doubling: ranges and numbers of chunks (halving.h). */
#include "core/halving.h"

/* The chunks of the first half of a range of @n. */
static u32 half(u32 n)
{
	return n - n / 2;
}

/* The stage of recursive doubling that has the pair of a stage; or back. */
static u32 turned(const struct rar_plan *plan, u32 stage)
{
	return plan->scatters && plan->gathers ? stage :
						 plan->stages.n - 1 - stage;
}

/**
 * rar_halving_pair() - find a rank's peer in a stage
 * @ring:  by halving
 * @stage: less than @ring->plan.stages.n
 */
struct rar_stage rar_halving_pair(const struct rar_ring *ring, u32 stage)
{
	return rar_stage(&ring->plan.stages, turned(&ring->plan, stage));
}

/* Has a rank the second half after a halving? */
static bool is_upper(const struct rar_ring *ring, u32 halving)
{
	return rar_stages_core(&ring->plan.stages) >>
	       turned(&ring->plan, halving) & 1;
}

/**
 * rar_halving_keeps() - find what a rank adds before a halving
 * @ring:    by halving, at a rank that is not folded
 * @halving: from 0 to rar_halving_stages(); there it has complete sums
 *
 * Return: the chunks of the tensor; there may be none.
 */
struct rar_range rar_halving_keeps(const struct rar_ring *ring, u32 halving)
{
	struct rar_range range = { .n = ring->cpb };
	u32 i;

	for (i = 0; i < halving; i++) {
		if (is_upper(ring, i)) {
			range.first += half(range.n);
			range.n /= 2;
		} else {
			range.n = half(range.n);
		}
	}
	return range;
}

/**
 * rar_halving_gives() - find what a rank sends to its peer in a halving
 * @ring:    by halving, at a rank that is not folded
 * @halving: less than rar_halving_stages()
 *
 * Return: the chunks of the tensor, of which the sums come back from the peer;
 * there may be none.
 */
struct rar_range rar_halving_gives(const struct rar_ring *ring, u32 halving)
{
	struct rar_range range = rar_halving_keeps(ring, halving);

	if (is_upper(ring, halving)) {
		range.n = half(range.n);
	} else {
		range.first += half(range.n);
		range.n /= 2;
	}
	return range;
}

/* The first number after the arrivals of @halvings, of @chunks of a tensor. */
static u32 after(const struct rar_stages *st, u32 chunks, u32 halvings)
{
	u32 at = chunks * (1 + rar_halving_first(st));

	for (; halvings; halvings--) {
		chunks = half(chunks);
		at += chunks;
	}
	return at;
}

/* The first number of the arrivals of a halving. */
static u32 arrivals(const struct rar_ring *ring, u32 halving)
{
	return after(&ring->plan.stages, ring->cpb, halving);
}

/**
 * rar_halving_total() - count the numbers that chunks have
 * @plan:   of the rank
 * @chunks: of the tensor, at least 1
 *
 * Return: at most 3 * @chunks and one for each stage.
 */
u32 rar_halving_total(const struct rar_plan *plan, u32 chunks)
{
	const struct rar_stages *st = &plan->stages;

	return plan->scatters ? after(st, chunks, rar_halving_stages(st)) :
				chunks;
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
 * @block: of the area: 0 = the tensor, 1 = from the folded rank, and from 2 on
 *         the arrivals of a halving
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
	u32 n = rar_halving_stages(&ring->plan.stages), halving = 0;
	struct area area = { .has.n = ring->cpb };

	if (chunk < ring->cpb)
		return area;
	if (chunk < arrivals(ring, 0)) {
		area.block = 1;
		area.begin = ring->cpb;
		return area;
	}
	while (halving + 1 < n && chunk >= arrivals(ring, halving + 1))
		halving++;
	area.block = 2 + halving;
	area.begin = arrivals(ring, halving);
	area.has = rar_halving_keeps(ring, halving + 1);
	return area;
}

/**
 * rar_halving_partial() - the number of a chunk of a partial sum
 * @ring:  by halving
 * @stage: before which this rank has the partial sum
 * @nth:   chunk of the tensor, which this rank has then
 */
u32 rar_halving_partial(const struct rar_ring *ring, u32 stage, u32 nth)
{
	const struct rar_stages *st = &ring->plan.stages;

	return stage == st->first ? nth :
				    rar_halving_arrival(ring, stage - 1, nth);
}

/**
 * rar_halving_arrival() - the number of a chunk that comes in a stage
 * @ring:  by halving
 * @stage: less than rar_halving_first() + rar_halving_stages()
 * @nth:   chunk of the tensor, which comes then
 */
u32 rar_halving_arrival(const struct rar_ring *ring, u32 stage, u32 nth)
{
	u32 first = rar_halving_first(&ring->plan.stages), halving;

	if (stage < first)
		return ring->cpb + nth;
	halving = stage - first;
	return arrivals(ring, halving) + nth -
	       rar_halving_keeps(ring, halving + 1).first;
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

/**
 * rar_halving_end() - find where a run must end
 * @ring:  by halving
 * @chunk: its first number, less than @ring->nchunks
 *
 * The last chunk of a share may be short, so no run goes beyond.
 *
 * Return: the number after the last one that it may have; @chunk if no chunk
 * has that number.
 */
u32 rar_halving_end(const struct rar_ring *ring, u32 chunk)
{
	u32 share = rar_halving_share(ring), nth;
	struct area area = area_of(ring, chunk);

	nth = area.has.first + chunk - area.begin;
	return max(min(area.begin + area.has.n, chunk + share - nth % share),
		   chunk);
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

	nth = rar_halving_nth(ring, chunk);
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
 * rar_halving_there() - the number of a chunk of a partial sum at the peer
 * @ring:  by halving
 * @chunk: its number here; it is sent in the next stage
 */
u32 rar_halving_there(const struct rar_ring *ring, u32 chunk)
{
	struct area area = area_of(ring, chunk);
	u32 halving = area.block < 2 ? 0 : area.block - 1;

	if (ring->plan.stages.odd)
		return ring->cpb + chunk;
	return arrivals(ring, halving) + rar_halving_nth(ring, chunk) -
	       rar_halving_gives(ring, halving).first;
}

/* The halving in which sums of @n chunks from @first on come back. */
static u32 halving_back(const struct rar_ring *ring, u32 first, u32 n)
{
	u32 halvings = rar_halving_stages(&ring->plan.stages), i;
	struct rar_range range;

	for (i = 0; i < halvings && ring->plan.gathers; i++) {
		range = rar_halving_gives(ring, i);
		if (first >= range.first &&
		    first + n <= range.first + range.n)
			return i;
	}
	return RAR_NO_STAGE;
}

/**
 * rar_halving_stage_of() - find the stage by whose pair a run comes
 * @ring:  by halving
 * @chunk: its first number here
 * @n:     chunks, which end before rar_halving_end()
 *
 * Return: the stage; RAR_NO_STAGE if it cannot come here.
 */
u32 rar_halving_stage_of(const struct rar_ring *ring, u32 chunk, u32 n)
{
	const struct rar_stages *st = &ring->plan.stages;
	u32 block = area_of(ring, chunk).block, halving;

	if (st->odd)
		return block ? RAR_NO_STAGE : st->n - 1;
	if (block == 1)
		return st->first ? RAR_NO_STAGE : 0;
	halving = block ? block - 2 : halving_back(ring, chunk, n);
	if (halving == RAR_NO_STAGE)
		return RAR_NO_STAGE;
	return rar_halving_first(st) + halving;
}

/* Has the rank a neighbour that is folded, or is it folded itself? */
static bool has_pair(const struct rar_stages *st)
{
	return st->folded && st->rank < 2 * st->folded;
}

/* The ranks with which a rank exchanges anything, each of which has a link. */
u32 rar_halving_links(const struct rar_stages *st)
{
	return st->odd ? 1 : rar_halving_stages(st) + has_pair(st);
}

/**
 * rar_halving_link() - the number of the link to the peer of a stage
 * @st:    stages of the rank
 * @stage: in which it has a peer
 *
 * The folded rank and its neighbour are peers twice.
 *
 * Return: less than rar_halving_links().
 */
u32 rar_halving_link(const struct rar_stages *st, u32 stage)
{
	if (has_pair(st) && stage + 1 == st->n)
		return 0;
	return stage - (st->folded && !has_pair(st));
}

/**
 * rar_halving_owed() - count the chunks that a rank sends by a link
 * @ring: by halving
 * @link: less than rar_halving_links()
 */
u32 rar_halving_owed(const struct rar_ring *ring, u32 link)
{
	u32 pair = has_pair(&ring->plan.stages), halving, owed = 0;

	if (link < pair)
		return ring->cpb;
	halving = turned(&ring->plan, link - pair);
	if (ring->plan.scatters)
		owed += rar_halving_gives(ring, halving).n;
	if (ring->plan.gathers)
		owed += rar_halving_keeps(ring, halving + 1).n;
	return owed;
}
