// SPDX-License-Identifier: GPL-2.0
/* The ring schedule: blocks and chunks of an operation (see ring.h). */
#include "core/halving.h"
#include "core/ring.h"

#ifdef __KERNEL__
#define ring_div(a, b) div64_u64(a, b)
#else
#define ring_div(a, b) ((a) / (b))
#endif

static u64 div_up(u64 a, u64 b)
{
	return ring_div(a + b - 1, b);
}

/* --- what a rank does ---------------------------------------------------- */

/*
 * A row of the table in ring.h. Ranks count from the block's number on, or from the root
 * on if there is a single block.
 */
struct row {
	bool one;
	bool exact;
	bool rooted;
	s8 starts;
	s8 complete;
	s8 stops;
};

static const struct row rows[RAR_COLLECTIVE_NR] = {
	[RAR_ALLREDUCE]		= { .starts = 0, .complete = -1, .stops = -2 },
	[RAR_BARRIER]		= { .starts = 0, .complete = -1, .stops = -2 },
	[RAR_REDUCE_SCATTER]	= { .exact = true, .starts = 1 },
	[RAR_ALLGATHER]		= { .exact = true, .stops = -1 },
	[RAR_BROADCAST]		= { .one = true, .rooted = true, .stops = -1 },
	[RAR_REDUCE]		= { .one = true, .rooted = true, .starts = 1 },
	[RAR_REDUCE_BY_KEY]	= { .one = true, .rooted = true },
};

static const struct row in_order = { .one = true, .complete = -1, .stops = -2 };
static const struct row gathered = { .stops = -1 };

/* The block that this rank starts, completes or stops, by the column's offset in its row. */
static u32 block_at(const struct row *row, const struct rar_place *place, u32 root,
		    int offset)
{
	u32 block = (place->rank + place->size - offset) % place->size;

	if (!row->one)
		return block;
	return block == root ? 0 : RAR_NO_BLOCK;
}

static void set_phase(struct rar_plan *plan, enum rar_phase phase, u32 starts, u32 ends)
{
	plan->starts[phase] = starts;
	plan->ends[phase] = ends;
}

/* Has each rank a share of the tensor? */
bool rar_ring_shares(u8 collective)
{
	return collective == RAR_REDUCE_SCATTER || collective == RAR_ALLGATHER;
}

/* A plan without phases. */
static void plan_begin(struct rar_plan *plan, const struct rar_place *place,
		       u8 collective)
{
	bool shares = rar_ring_shares(collective);

	*plan = (struct rar_plan) {
		.parts = 1,
		.shares = shares ? place->size : 1,
		.share = shares ? place->rank : 0,
		.scatters = collective != RAR_ALLGATHER,
		.gathers = collective != RAR_REDUCE_SCATTER,
	};
	set_phase(plan, RAR_RS, RAR_ALL_BLOCKS, RAR_ALL_BLOCKS);
	set_phase(plan, RAR_AG, RAR_ALL_BLOCKS, RAR_ALL_BLOCKS);
}

/* All-reduce by hosts, see ring.h. */
static void plan_hosts(struct rar_plan *plan, const struct rar_place *at)
{
	u32 next = (at->host + 1) % at->hosts, stops = RAR_NO_BLOCK;
	bool last = at->index + 1 == at->ranks;

	/*
	 * Sums stop before the rank that has them already: the last rank of a host, where
	 * they are complete, or the next host's first rank, which gets them in memory.
	 */
	if (at->index + 2 == at->ranks)
		stops = next;
	else if (last && at->hosts > 1)
		stops = (next + 1) % at->hosts;
	plan->parts = at->hosts;
	plan->back = last && at->index && at->hosts > 1;
	set_phase(plan, RAR_RS, at->index ? RAR_NO_BLOCK : at->host,
		  last ? next : RAR_NO_BLOCK);
	set_phase(plan, RAR_AG, plan->ends[RAR_RS], stops);
}

/* An all-reduce or a reduction to a root by recursive doubling, see ring.h. */
static void plan_doubling(struct rar_plan *plan)
{
	struct rar_stages *st = &plan->stages;

	plan->doubling = true;
	plan->parts = 2 * st->n + 1;
	plan->sum = RAR_NO_BLOCK;
	if (st->gets)
		plan->sum = st->n - 1;
	else if (st->whole && (!st->rooted || st->rank == st->root))
		plan->sum = rar_plan_partial(plan, st->last);
	set_phase(plan, RAR_AG, rar_plan_partial(plan, st->first),
		  RAR_NO_BLOCK);
}

/*
 * By halving, see ring.h: the contribution, and then the sums, lie where the
 * buffer begins.
 */
static void plan_halving(struct rar_plan *plan, const struct rar_place *place)
{
	plan->halving = true;
	plan->halves = rar_halves_of(place->size, place->rank,
				     plan->shares > 1);
	set_phase(plan, RAR_AG, RAR_NO_BLOCK, RAR_NO_BLOCK);
}

static void plan_ranks(struct rar_plan *plan, const struct rar_place *place,
		       const struct row *row, u32 root)
{
	u32 complete = block_at(row, place, root, row->complete);

	plan->parts = row->one ? 1 : place->size;
	plan->exact = row->exact;
	if (row->starts != row->complete)
		set_phase(plan, RAR_RS, block_at(row, place, root, row->starts), complete);
	if (row->complete != row->stops)
		set_phase(plan, RAR_AG, complete, block_at(row, place, root, row->stops));
}

/* Does @collective, which may be anything, have a root? */
bool rar_ring_rooted(u8 collective)
{
	return collective < RAR_COLLECTIVE_NR && rows[collective].rooted;
}

/* Is the result of @collective, which may be anything, made of operands of all ranks? */
bool rar_ring_reduces(u8 collective)
{
	return collective < RAR_COLLECTIVE_NR &&
	       rows[collective].starts != rows[collective].complete;
}

/* Can a collective go directly, or by doubling (a broadcast: by the tree)? */
static bool goes_directly(u8 collective)
{
	return collective == RAR_ALLREDUCE || collective == RAR_BARRIER ||
	       collective == RAR_BROADCAST || collective == RAR_ALLGATHER;
}

static bool doubles(u8 collective)
{
	return goes_directly(collective) || collective == RAR_REDUCE ||
	       rar_ring_shares(collective);
}

/* Can @collective, which may be anything, go by halving? */
bool rar_ring_halves(u8 collective)
{
	return collective == RAR_ALLREDUCE || rar_ring_shares(collective);
}

/**
 * rar_ring_plan() - make the plan of an operation
 * @plan:       to fill
 * @place:      the rank's place in its group
 * @collective: enum rar_collective
 * @mode:       RAR_MODE_*: RAR_OPF_IN_ORDER and the way; all else is ignored
 * @root:       rank, of a collective that has a root
 *
 * Only all-reduce and barrier have a plan of their own by hosts. In rank order they do not
 * need one: a single block crosses each link between hosts at most twice. Gathered, they are
 * in rank order anyway. By doubling, or halving, they are in no such order.
 *
 * Return: 0, -EOPNOTSUPP if there is no such collective, or -EINVAL.
 */
int rar_ring_plan(struct rar_plan *plan, const struct rar_place *place, u8 collective,
		  u16 mode, u32 root)
{
	bool sums = collective == RAR_ALLREDUCE || collective == RAR_BARRIER;
	u32 way = rar_mode_way(mode);
	bool doubling = way == RAR_WAY_DOUBLING;
	bool halving = way == RAR_WAY_HALVING;
	bool direct = way == RAR_WAY_DIRECT;
	bool gathers = direct && sums;
	bool ordered = mode & RAR_OPF_IN_ORDER || gathers;
	const struct row *row;

	if (!collective || collective >= RAR_COLLECTIVE_NR ||
	    (ordered && !sums) || way >= RAR_WAY_NR || way == RAR_WAY_FOLDED ||
	    (doubling && (ordered || !doubles(collective))) ||
	    (halving && (ordered || !rar_ring_halves(collective))) ||
	    (direct && !goes_directly(collective)))
		return -EOPNOTSUPP;
	row = ordered ? &in_order : &rows[collective];
	if (gathers)
		row = &gathered;
	if (!place->size || (row->rooted && root >= place->size))
		return -EINVAL;
	direct |= collective == RAR_REDUCE_BY_KEY;

	plan_begin(plan, place, collective);
	if (place->size == 1)
		return 0;
	plan->tree = doubling && collective == RAR_BROADCAST;
	plan->gathered = gathers || halving || (doubling && !plan->tree) ||
			 (direct && collective == RAR_ALLGATHER);
	plan->direct = direct || doubling || halving;
	if (doubling)
		plan->stages = row->rooted ?
			rar_stages_to(place->size, place->rank, root) :
			rar_stages_of(place->size, place->rank);
	if (doubling && !plan->tree)
		plan_doubling(plan);
	else if (halving)
		plan_halving(plan, place);
	else if (place->hosts && sums && !ordered)
		plan_hosts(plan, place);
	else
		plan_ranks(plan, place, row, row->rooted ? root : 0);
	if (gathers)
		plan->sum = plan->parts;
	plan->aside = place->boxes && !place->hosts && !plan->gathered &&
		      !plan->direct &&
		      (sums || collective == RAR_BROADCAST ||
		       collective == RAR_REDUCE);
	plan->boxes = plan->aside ? place->boxes : 0;
	return 0;
}

/* The block of a tensor of @bytes of which each block is as long. */
static struct rar_span span_of(u64 bytes, u32 block)
{
	if (block == RAR_NO_BLOCK)
		return (struct rar_span) {};
	return (struct rar_span) { .off = block * bytes, .len = bytes };
}

/* This rank's share of a tensor of @bytes; all of it if ranks have none. */
struct rar_span rar_plan_share(const struct rar_plan *plan, u64 bytes)
{
	return span_of(ring_div(bytes, plan->shares), plan->share);
}

/* This rank's share of a tensor that lies in a span of the buffer. */
static struct rar_span share_of(const struct rar_plan *plan,
				struct rar_span tensor)
{
	struct rar_span share = rar_plan_share(plan, tensor.len);

	share.off += tensor.off;
	return share;
}

/*
 * The part of a tensor of @bytes that this rank contributes: all of it where
 * ranks add, its share of an all-gather, and all of a broadcast at its root.
 * Gathered: where the contribution lies in the buffer.
 */
struct rar_span rar_plan_given(const struct rar_plan *plan, u64 bytes)
{
	struct rar_span tensor = { .len = bytes };

	if (rar_plan_travels(plan) && !rar_plan_adds(plan) && !plan->halving &&
	    !plan->exact)
		tensor = span_of(bytes, plan->starts[RAR_AG]);
	return plan->scatters ? tensor : share_of(plan, tensor);
}

/*
 * The part of a tensor of @bytes that is this rank's result: all, its share, or
 * none if only a root gets the sum. Gathered: where it lies in the buffer.
 */
struct rar_span rar_plan_got(const struct rar_plan *plan, u64 bytes)
{
	struct rar_span tensor = { .len = bytes };

	if (plan->gathered && !plan->halving && !plan->exact)
		tensor = span_of(bytes, plan->sum);
	else if (rar_plan_travels(plan) && !rar_plan_has(plan, RAR_AG) &&
		 !plan->exact)
		tensor = span_of(bytes, plan->ends[RAR_RS]);
	return plan->gathers ? tensor : share_of(plan, tensor);
}

/* The chunks of a tensor, with @payload bytes each: at least one. */
static u64 chunks_in(u64 bytes, u32 payload)
{
	return bytes ? div_up(bytes, payload) : 1;
}

/* Chunks of a tensor that goes by halving, which is cut into shares first. */
static u64 halving_chunks(const struct rar_plan *plan, u64 bytes, u32 payload)
{
	return chunks_in(ring_div(bytes, plan->shares), payload) * plan->shares;
}

/*
 * The bytes of the buffer for a tensor of @bytes; gathered: all blocks and the
 * sum. By halving all numbers of chunks have room for a chunk.
 */
u64 rar_plan_room(const struct rar_plan *plan, u64 bytes, u32 payload)
{
	u64 chunks;

	if (plan->halving) {
		chunks = halving_chunks(plan, bytes, payload);
		return (u64)rar_halving_total(plan, min_t(u64, chunks,
							  U32_MAX / 4)) *
		       rar_halving_slot(ring_div(bytes, plan->shares), payload);
	}
	return plan->gathered && !plan->exact ?
	       bytes * max(plan->parts, plan->sum + 1) : bytes;
}

/* --- how an operation is cut --------------------------------------------- */

static u64 block_bytes(u64 bytes, const struct rar_plan *plan)
{
	u64 block = bytes;

	if (plan->exact || plan->gathered)
		return ring_div(bytes, plan->parts);
	if (bytes > RAR_SMALL_BYTES)
		block = div_up(bytes, plan->parts);
	return (block + RAR_BLOCK_ALIGN - 1) & ~(u64)(RAR_BLOCK_ALIGN - 1);
}

/* Divide the chunks of each block among the boxes. */
static void part_blocks(struct rar_ring *ring)
{
	u32 boxes = ring->plan.boxes;

	ring->part = boxes > 1 ? ring->cpb / boxes + !!(ring->cpb % boxes) : 0;
}

/* The schedule of an operation by halving. As rar_ring_cut(). */
static int cut_halving(struct rar_ring *ring, u64 bytes, u32 payload,
		       const struct rar_plan *plan)
{
	u64 chunks = halving_chunks(plan, bytes, payload);
	u64 share = ring_div(bytes, plan->shares);

	if (share * plan->shares != bytes)
		return -EINVAL;
	if (chunks > U32_MAX / 8)
		return -EMSGSIZE;
	*ring = (struct rar_ring) {
		.bytes = bytes,
		.block = share,
		.payload = payload,
		.nblocks = 1,
		.cpb = chunks,
		.nchunks = rar_halving_total(plan, chunks),
		.plan = *plan,
	};
	return 0;
}

/**
 * rar_ring_cut() - make the schedule of an operation
 * @ring:    to fill
 * @bytes:   length of the tensor
 * @payload: bytes of tensor data a packet carries
 * @plan:    what the rank does
 *
 * Return: 0, -EMSGSIZE if the operation has more chunks than can be numbered,
 * or -EINVAL.
 */
int rar_ring_cut(struct rar_ring *ring, u64 bytes, u32 payload,
		 const struct rar_plan *plan)
{
	u64 block, cpb, last;

	if (!payload || !plan->parts)
		return -EINVAL;
	if (bytes > RAR_MAX_BYTES)
		return -EMSGSIZE;

	if (plan->halving)
		return cut_halving(ring, bytes, payload, plan);
	if (plan->gathered && !plan->exact)
		bytes *= plan->parts;
	block = block_bytes(bytes, plan);
	if (plan->exact && block * plan->parts != bytes)
		return -EINVAL;
	cpb = block ? div_up(block, payload) : 1;
	if (cpb * plan->parts > U32_MAX / 2)
		return -EMSGSIZE;

	ring->bytes = bytes;
	ring->block = block;
	ring->payload = payload;
	ring->plan = *plan;
	ring->lead = 0;
	ring->lead_block = 0;
	ring->lead_bytes = 0;
	ring->cpb = cpb;
	part_blocks(ring);
	/* Without bytes, too, the contributions of all ranks are gathered. */
	ring->nblocks = plan->gathered ? plan->parts : 1;
	ring->nchunks = ring->nblocks;
	if (!bytes)
		return 0;

	/* A short tensor may have fewer blocks than parts. */
	ring->nblocks = div_up(bytes, block);
	last = bytes - (ring->nblocks - 1) * block;
	ring->nchunks = (ring->nblocks - 1) * cpb + div_up(last, payload);
	return 0;
}

/**
 * rar_ring_lead() - put a lead before the tensor
 * @ring:  from rar_ring_cut()
 * @bytes: bytes of the lead, at least 1
 *
 * The lead is data that all ranks reduce before they can contribute the tensor. It has as many
 * equal parts as there are blocks, each a multiple of RAR_BLOCK_ALIGN. The first chunks of a
 * block are those of its part of the lead. So a rank that has contributed the lead only has
 * contributed the same number of chunks of every block. An empty tensor has no lead.
 *
 * Return: 0, or -EMSGSIZE.
 */
int rar_ring_lead(struct rar_ring *ring, u64 bytes)
{
	u64 part = div_up(bytes, ring->nblocks), n;

	if (!ring->bytes)
		return 0;
	part = (part + RAR_BLOCK_ALIGN - 1) & ~(u64)(RAR_BLOCK_ALIGN - 1);
	n = div_up(part, ring->payload);
	if ((ring->cpb + n) * ring->plan.parts > U32_MAX / 2)
		return -EMSGSIZE;
	ring->lead = n;
	ring->lead_block = part;
	ring->lead_bytes = part * ring->nblocks;
	ring->bytes += ring->lead_bytes;
	ring->cpb += n;
	part_blocks(ring);
	ring->nchunks += n * ring->nblocks;
	return 0;
}

/**
 * rar_ring_chunk() - find a chunk in the tensor
 * @ring:  the schedule
 * @chunk: index, less than @ring->nchunks
 * @c:     to fill
 */
void rar_ring_chunk(const struct rar_ring *ring, u32 chunk,
		    struct rar_chunk *c)
{
	u32 at = chunk % ring->cpb;
	u64 end;

	if (ring->plan.halving) {
		rar_halving_chunk(ring, chunk, c);
		return;
	}
	c->block = chunk / ring->cpb;
	if (at < ring->lead) {
		c->off = c->block * ring->lead_block;
		end = c->off + ring->lead_block;
	} else {
		at -= ring->lead;
		c->off = ring->lead_bytes + c->block * ring->block;
		end = min(c->off + ring->block, ring->bytes);
	}
	c->off += (u64)at * ring->payload;
	c->len = min_t(u64, end - c->off, ring->payload);
}
EXPORT_SYMBOL_GPL(rar_ring_chunk);

/**
 * rar_ring_nth() - the order in which a rank contributes the chunks of all blocks
 * @ring: the schedule
 * @n:    less than @ring->nchunks
 *
 * Return: the @n-th chunk. All chunks of the lead come before the others.
 */
u32 rar_ring_nth(const struct rar_ring *ring, u32 n)
{
	u32 leads = ring->lead * ring->nblocks, rest = ring->cpb - ring->lead;

	if (!ring->lead)
		return n;
	if (n < leads)
		return n / ring->lead * ring->cpb + n % ring->lead;
	n -= leads;
	return n / rest * ring->cpb + ring->lead + n % rest;
}

/* Bytes of @n chunks from @chunk on, of one block. */
u64 rar_ring_bytes(const struct rar_ring *ring, u32 chunk, u32 n)
{
	struct rar_chunk last;

	rar_ring_chunk(ring, chunk + n - 1, &last);
	return (n - 1) * (u64)ring->payload + last.len;
}
EXPORT_SYMBOL_GPL(rar_ring_bytes);

/* Index of the first chunk of @block; if there is none, @ring->nchunks. */
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block)
{
	return block < ring->nblocks ? block * ring->cpb : ring->nchunks;
}

/* Chunks of @block, 0 if the tensor is too short for it. */
u32 rar_ring_block_chunks(const struct rar_ring *ring, u32 block)
{
	if (block >= ring->nblocks)
		return 0;
	return min(ring->cpb, ring->nchunks - block * ring->cpb);
}

/*
 * The chunks of a block that go to a box.
 * Return: the first one. Sets @end to the one after the last; there may be none.
 */
u32 rar_ring_of_box(const struct rar_ring *ring, u32 box, u32 block, u32 *end)
{
	u32 first = rar_ring_block_first(ring, block), boxes = ring->plan.boxes, at;
	u32 last = first + rar_ring_block_chunks(ring, block);

	*end = last;
	if (!ring->part)
		return first;
	at = (box + boxes - block % boxes) % boxes * ring->part;
	*end = min(first + at + ring->part, last);
	return min(first + at, last);
}

/* Chunks of @which: a block, RAR_NO_BLOCK or RAR_ALL_BLOCKS. */
static u32 chunks_of(const struct rar_ring *ring, u32 which)
{
	return which == RAR_ALL_BLOCKS ? ring->nchunks : rar_ring_block_chunks(ring, which);
}

/* Transmissions that this rank owes its successor: one per chunk and phase. */
u32 rar_ring_ntx(const struct rar_ring *ring)
{
	return 2 * ring->nchunks - chunks_of(ring, ring->plan.ends[RAR_RS]) -
	       chunks_of(ring, ring->plan.ends[RAR_AG]);
}

/* Chunks that this rank owes the first rank of its host. */
u32 rar_ring_nback(const struct rar_ring *ring)
{
	return ring->plan.back ? chunks_of(ring, ring->plan.starts[RAR_AG]) : 0;
}

/*
 * What this rank sends by a link. Everything goes to the successor, unless it goes directly;
 * where sums are made aside, its contribution to all blocks may go to boxes instead. If it has
 * none, it asks there for all blocks. The link to a box passes over the chunks of other boxes.
 */
struct rar_owed rar_ring_owed(const struct rar_ring *ring, enum rar_link_index link)
{
	const struct rar_plan *plan = &ring->plan;
	struct rar_owed owed = { };

	if (plan->aside && link >= RAR_LEG && link < RAR_LEG + plan->boxes)
		return (struct rar_owed) { .own = ring->nchunks, .used = true, .up = true };
	if (link != RAR_NEXT || plan->direct)
		return owed;
	owed.used = true;
	owed.until_done = plan->aside;
	owed.first = rar_ring_block_first(ring, rar_plan_own(plan));
	owed.own = rar_ring_block_chunks(ring, rar_plan_own(plan));
	owed.ntx = rar_ring_ntx(ring);
	owed.nback = rar_ring_nback(ring);
	return owed;
}

/*
 * Chunks that must arrive in their last phase before the operation is complete here. 0: it
 * is complete as soon as this rank has contributed.
 */
u32 rar_ring_need(const struct rar_ring *ring)
{
	const struct rar_plan *plan = &ring->plan;

	/* The chunks of the sum, or of the last partial sum that it makes. */
	if (plan->doubling)
		return rar_stages_wait(&plan->stages) ? ring->cpb : 0;
	if (plan->halving)
		return plan->gathers ? ring->cpb : ring->cpb / plan->shares;
	/* The block that starts here comes back, or never arrives. */
	if (rar_plan_returns(plan))
		return ring->nchunks;
	return ring->nchunks - chunks_of(ring, rar_plan_own(plan));
}

/* A rank's share if all ranks together may have @bytes on their way round. */
u64 rar_ring_share(const struct rar_ring *ring, u64 bytes)
{
	return ring_div(bytes, ring->plan.parts);
}
