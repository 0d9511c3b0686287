// SPDX-License-Identifier: GPL-2.0
/*
 * The ring schedule.
 *
 * Tensors of every awkward length are cut, and the pieces are compared with ring.h. Then whole
 * operations are simulated: N ranks, packets that overtake each other, and instead of numbers
 * the list of the ranks whose data a chunk holds, in the order of addition. This is done for
 * every collective and every root. Schedules that are wrong on purpose go through the same
 * checks, and each must be caught.
 */
#include "ring_mutants.h"
#include "ring_sim.h"

static const u32 sizes[] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 4096,
};

/* --- cutting --- */

static bool check_chunk(const struct rar_ring *r, u32 i)
{
	struct rar_chunk c, after;
	u64 end;

	s.chunk(r, i, &c);
	CHECK(c.len || !r->bytes, r);
	CHECK(c.len <= r->payload, r);
	CHECK(!r->block || c.block == c.off / r->block, r);
	end = lower((c.block + 1) * r->block, r->bytes);
	CHECK(c.off + c.len <= end, r);
	CHECK(c.off + c.len == end || c.len == r->payload, r);
	CHECK(c.len % 4 == 0 || end % 4 || r->payload % 4 || r->block % 4, r);
	if (!i)
		CHECK(c.off == 0, r);
	if (i + 1 == r->nchunks) {
		CHECK(c.off + c.len == r->bytes, r);
		return true;
	}
	s.chunk(r, i + 1, &after);
	CHECK(after.off == c.off + c.len, r);
	return true;
}

/* Check that exactly the chunks of a block lie in it. */
static bool check_block(const struct rar_ring *r, u32 b)
{
	u32 first = s.first(r, b), n = s.chunks(r, b);
	struct rar_chunk c;

	if (b >= r->nblocks) {
		CHECK(!n, r);
		return true;
	}
	CHECK(n && n <= r->cpb && first + n <= r->nchunks, r);
	s.chunk(r, first, &c);
	CHECK(c.block == b && c.off == b * r->block, r);
	s.chunk(r, first + n - 1, &c);
	CHECK(c.block == b, r);
	CHECK(first + n == (b + 1 < r->nblocks ? s.first(r, b + 1) :
						 r->nchunks), r);
	return true;
}

static bool check_tiling(const struct rar_ring *r)
{
	u32 i, b, n = r->nchunks, parts = r->plan.parts;

	CHECK(r->block == (r->plan.exact || r->plan.gathered ? r->bytes / parts : block_of(r->bytes, parts)), r);
	CHECK(n >= 1 && r->nblocks >= 1 && r->nblocks <= parts, r);
	for (i = 0; i < (n <= FULL_CHUNKS ? n : SAMPLES); i++)
		if (!check_chunk(r, n <= FULL_CHUNKS ? i :
				 rnd_below(&seed, n)))
			return false;
	for (i = 0; i < (parts <= 64 ? parts : SAMPLES); i++) {
		b = parts <= 64 ? i : rnd_below(&seed, parts);
		if (!check_block(r, b))
			return false;
		/* borders: the chunks on both sides of the block's begin */
		if (b && b < r->nblocks && !check_chunk(r, s.first(r, b) - 1))
			return false;
	}
	return check_chunk(r, 0) && check_chunk(r, n - 1);
}

/* --- the lead --- */

/* The place where the next chunk of a block begins: in the lead, then in the tensor. */
struct lead_place {
	u64 at[2];
};

/* Check a chunk of a block; chunks of the lead come first, and a run ends with them. */
static bool check_lead_chunk(const struct rar_ring *r, u32 chunk, struct lead_place *next)
{
	u32 at = chunk % r->cpb, first = chunk - at, last = s.end(r, chunk);
	bool leads = at < r->lead;
	struct rar_chunk c;

	s.chunk(r, chunk, &c);
	CHECK(rar_ring_leads(r, chunk) == leads, r);
	CHECK(c.block == chunk / r->cpb && c.off == next->at[!leads], r);
	CHECK(c.len && c.len <= r->payload && c.off + c.len <= (leads ? r->lead_bytes : r->bytes), r);
	CHECK(c.len == r->payload || chunk + 1 == last, r);
	CHECK(last == (leads ? first + r->lead : first + s.chunks(r, c.block)), r);
	next->at[!leads] += c.len;
	return true;
}

/*
 * All parts of the lead are equal, as are those of the tensor except the last. Without the
 * lead the schedule is @plain.
 */
static bool check_lead(u64 bytes, u64 lead, u32 payload, u32 size)
{
	struct lead_place next = {};
	struct rar_ring r = {}, plain;
	u32 chunk;

	CHECK(!init(&plain, bytes, payload, size, 0), &r);
	r = plain;
	CHECK(!s.lead(&r, lead), &r);
	if (!bytes) {
		CHECK(!memcmp(&r, &plain, sizeof(r)), &r);
		return true;
	}
	CHECK(r.lead && r.lead_bytes >= lead && r.lead_bytes < lead + 65 * r.nblocks, &r);
	CHECK(r.lead_block % 64 == 0 && r.lead_bytes == r.lead_block * r.nblocks, &r);
	CHECK(r.bytes == bytes + r.lead_bytes && r.block == plain.block, &r);
	CHECK(r.cpb == plain.cpb + r.lead, &r);
	CHECK(r.nchunks == plain.nchunks + r.lead * r.nblocks, &r);
	if (r.nchunks > FULL_CHUNKS)
		return true;
	next.at[1] = r.lead_bytes;
	for (chunk = 0; chunk < r.nchunks; chunk++) {
		if (!check_lead_chunk(&r, chunk, &next))
			return false;
		if (chunk + 1 == s.end(&r, chunk) && rar_ring_leads(&r, chunk))
			CHECK(next.at[0] == (chunk / r.cpb + 1) * r.lead_block, &r);
	}
	CHECK(next.at[0] == r.lead_bytes && next.at[1] == r.bytes, &r);
	return true;
}

/* --- the limits --- */

/* Check the longest tensor that can be cut, and a tensor one byte longer. */
static bool check_limit(u32 size, u32 payload)
{
	u64 block = MAX_CHUNKS / size * (u64)payload / 64 * 64;
	u64 longest = lower(block * size, 1ULL << 40);
	struct rar_ring r = { .bytes = longest, .payload = payload };

	CHECK(init(&r, longest + 1, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(init(&r, 1ULL << 63, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(init(&r, U64_MAX, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(!init(&r, longest, payload, size, size - 1), &r);
	CHECK(r.nchunks <= MAX_CHUNKS, &r);
	return check_tiling(&r);
}

/* --- the way of a block --- */

/*
 * Follow a block from rank to rank: RS until all ranks have added, AG until all have the sum.
 * Exactly the ranks on this way may receive the block.
 */
static bool check_way(struct rar_ring *r, u32 size, u32 block)
{
	static u8 got[RAR_PHASES][4096];
	u32 hop, hops = 2 * (size - 1), p, rank = block;
	enum rar_phase phase = RAR_RS, next = RAR_RS;

	memset(got, 0, sizeof(got));
	for (hop = 1; hop <= hops; hop++) {
		rank = (rank + 1) % size;
		CHECK(!plan_of(r, size, rank), r);
		CHECK(s.combine(&r->plan, phase, block) ==
		      (hop < size ? RAR_COMBINE_ADD : RAR_COMBINE_STORE), r);
		got[phase][rank]++;
		next = s.next(&r->plan, phase, block);
		if (hop == hops)
			break;
		CHECK(next == (hop < size - 1 ? RAR_RS : RAR_AG), r);
		phase = next;
	}
	if (hops)
		CHECK(next == RAR_PHASES, r);
	for (rank = 0; hops && rank < size; rank++) {
		CHECK(!plan_of(r, size, rank), r);
		for (p = 0; p < RAR_PHASES; p++)
			CHECK(got[p][rank] ==
			      (s.combine(&r->plan, p, block) != RAR_COMBINE_NONE), r);
	}
	return true;
}

/* Check the chunks and bytes that a rank owes. */
static bool check_amount(struct rar_ring *r, u32 size, u32 rank)
{
	u32 ends[] = { (rank + 1) % size, (rank + 2) % size };
	u64 sent = 2 * r->bytes;
	u32 ntx = 2 * r->nchunks, i;

	CHECK(!plan_of(r, size, rank), r);
	CHECK(!s.nback(r), r);
	CHECK(s.need(r) == (size > 1 ? r->nchunks : 0), r);
	if (size == 1) {
		CHECK(!s.ntx(r), r);
		return true;
	}
	for (i = 0; i < 2; i++) {
		ntx -= s.chunks(r, ends[i]);
		sent -= lower(r->bytes, (ends[i] + 1) * r->block) -
			lower(r->bytes, ends[i] * r->block);
	}
	CHECK(s.ntx(r) == ntx, r);
	CHECK(sent <= most_sent(r->bytes, size), r);
	return true;
}

static bool check_ways(u64 bytes, u32 payload, u32 size)
{
	struct rar_ring r = {};
	u32 i, n = size <= 64 ? size : 50;

	CHECK(!init(&r, bytes, payload, size, 0), &r);
	for (i = 0; i < n; i++) {
		if (!check_way(&r, size, size <= 64 ? i : rnd_below(&seed, size)))
			return false;
		if (!check_amount(&r, size, size <= 64 ? i : rnd_below(&seed, size)))
			return false;
	}
	return true;
}

/* --- cases --- */

/* The i-th length for @size ranks; false after the last. */
static bool nth_length(u32 size, u32 i, u64 *bytes)
{
	const u64 b = 64 * (u64)size;
	const u64 lengths[] = {
		0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 127, 128, 129, size - 1, size,
		size + 1, 4 * (u64)size, b - 64, b - 1, b, b + 1, b + 64,
		2 * b - 1, 2 * b, 2 * b + 1, 997, SMALL - 1, SMALL, SMALL + 1, 65537, 104729, 1 << 20,
		15485863, (1ULL << 31) - 1, (1ULL << 31) + 4, 999999999989,
		(1ULL << 40) - 1, 1ULL << 40,
	};

	if (i >= ARRAY_SIZE(lengths) + 16)
		return false;
	if (i < ARRAY_SIZE(lengths))
		*bytes = lengths[i];
	else		/* all magnitudes are equally likely */
		*bytes = rnd(&seed) >> (24 + rnd_below(&seed, 40));
	return true;
}

static bool test_tiling(u32 size)
{
	struct rar_ring r;
	u64 bytes;
	u32 i, p;

	for (p = 0; p < ARRAY_SIZE(payloads); p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			if (init(&r, bytes, payloads[p], size,
				   rnd_below(&seed, size)))
				continue;	/* test_limit() tests the limits */
			if (!check_tiling(&r))
				return false;
		}
	}
	return true;
}

/* The lead of exact sums, and longer ones. */
static bool test_lead(u32 size)
{
	struct rar_ring r;
	u64 bytes;
	u32 i, p;

	for (p = 1; p < ARRAY_SIZE(payloads); p++)
		for (i = 0; nth_length(size, i, &bytes); i++) {
			if (init(&r, bytes, payloads[p], size, 0) || r.nchunks > 1 << 20)
				continue;
			if (!check_lead(bytes, bytes / 1024 + 2, payloads[p], size) ||
			    !check_lead(bytes, 1 + rnd_below(&seed, 10000), payloads[p], size))
				return false;
		}
	CHECK(!init(&r, 1 << 20, 16, size, 0), &r);
	CHECK(s.lead(&r, 1ULL << 36) == -EMSGSIZE, &r);
	return true;
}

static bool test_limit(u32 size)
{
	struct rar_ring r = {};
	u32 p;

	for (p = 0; p < ARRAY_SIZE(payloads); p++)
		if (!check_limit(size, payloads[p]))
			return false;
	CHECK(init(&r, 64, 0, size, 0) == -EINVAL, &r);
	CHECK(init(&r, 64, 64, 0, 0) == -EINVAL, &r);
	return check_limit(size, U32_MAX);
}

static bool test_ways(u32 size)
{
	u64 bytes;
	u32 i;

	for (i = 0; nth_length(size, i, &bytes); i++)
		if (bytes < 1ULL << 32 && !check_ways(bytes, 1408, size))
			return false;
	return check_ways(1ULL << 40, 8896, size);
}

/* Simulate one length. Returns false if it fails; counts in @n if it can be simulated. */
static bool sim_one(const struct collective *what, u32 size, u32 root, u64 bytes,
		    u32 payload, u32 *n)
{
	struct rar_place place = { .size = size };
	struct rar_plan plan = {};
	struct rar_ring r = {};
	int err;

	s.plan(&plan, &place, what->collective, what->mode, root);
	err = s.cut(&r, bytes, payload, &plan);
	if (what->exact && size > 1 && bytes <= RAR_MAX_BYTES)
		CHECK((bytes % size != 0) == (err == -EINVAL), &r);
	if (err || r.nchunks + 2 * size > SIM_CHUNKS)
		return true;
	++*n;
	return check_tiling(&r) && check_sim(bytes, payload);
}

/* Simulate operations of every length that a simulation can hold. */
static bool sim_all(const struct collective *what, u32 size, u32 root, bool by_hosts,
		    u32 borders)
{
	u32 i, p, n = 0;
	u64 bytes;

	for (p = 1; p < 5; p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			sim_layout(what, size, root, by_hosts, borders);
			if (!sim_one(what, size, root, bytes, payloads[p], &n))
				return false;
			if (!what->exact || bytes % size == 0)
				continue;
			sim_layout(what, size, root, by_hosts, borders);
			if (!sim_one(what, size, root, bytes - bytes % size, payloads[p], &n))
				return false;
		}
	}
	return n > 50;
}

static bool test_sim(u32 size)
{
	return sim_all(&collectives[0], size, 0, false, 0);
}

/* All layouts of few ranks on hosts, some layouts of many ranks. */
static bool test_hosts(u32 size)
{
	u32 layouts = 1U << (size - 1), i;

	for (i = 0; i < layouts && i < HOST_LAYOUTS; i++)
		if (!sim_all(&collectives[0], size, 0, true,
			     layouts <= HOST_LAYOUTS ? i : rnd_below(&seed, layouts)))
			return false;
	return true;
}

/* Test a collective with all roots, and in a group by hosts. */
static bool test_collective(const struct collective *what, u32 size)
{
	u32 root;

	for (root = 0; root < (what->rooted ? size : 1); root++)
		if (!sim_all(what, size, root, false, 0))
			return false;
	return sim_all(what, size, size / 2, true, rnd_below(&seed, 1U << (size - 1)));
}

/* Operations without a plan must be refused. */
static bool test_refused(u32 size)
{
	struct rar_place place = { .size = size }, nowhere = {};
	struct rar_ring r = {};
	struct rar_plan *plan = &r.plan;
	u32 i;

	CHECK(s.plan(plan, &place, 0, 0, 0) == -EOPNOTSUPP, &r);
	CHECK(s.plan(plan, &place, RAR_COLLECTIVE_NR, 0, 0) == -EOPNOTSUPP, &r);
	CHECK(s.plan(plan, &nowhere, RAR_ALLREDUCE, 0, 0) == -EINVAL, &r);
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		const struct collective *w = &collectives[i];

		CHECK(s.plan(plan, &place, w->collective, w->mode, size) ==
		      (w->rooted ? -EINVAL : 0), &r);
		CHECK(s.plan(plan, &place, w->collective, RAR_OPF_IN_ORDER, 0) ==
		      (w->rounds == 2 ? 0 : -EOPNOTSUPP), &r);
		CHECK(s.plan(plan, &place, w->collective, DIRECT, 0) ==
		      (w->rounds == 2 || !w->adds ? 0 : -EOPNOTSUPP), &r);
		CHECK(s.plan(plan, &place, w->collective, DOUBLING, 0) ==
		      (w->rounds == 2 || w->rooted || w->exact ? 0 : -EOPNOTSUPP), &r);
		CHECK(s.plan(plan, &place, w->collective, DOUBLING | RAR_OPF_IN_ORDER, 0) ==
		      -EOPNOTSUPP, &r);
		CHECK(s.plan(plan, &place, w->collective, RAR_WAY_NR << 12, 0) == -EOPNOTSUPP, &r);
	}
	return true;
}

/*
 * Direct: each rank with a block sends it to all others, which need all of it, and passes
 * nothing on. By the ring it sends nothing.
 */
static bool test_direct(u32 size, u8 collective, u64 bytes)
{
	u32 rank, root, block, blocks = collective == RAR_BROADCAST ? 1 : size;
	u32 cpb = bytes ? (bytes + 1407) / 1408 : 1;
	struct rar_ring r = {};
	struct rar_plan *plan = &r.plan;

	for (rank = 0; rank < size; rank++)
		for (root = 0; root < size; root++) {
			struct rar_place place = {
				.size = size, .rank = rank
			};
			bool sends = collective != RAR_BROADCAST || rank == root;
			struct rar_owed owed;

			CHECK(!s.plan(plan, &place, collective, DIRECT, root), &r);
			CHECK(!s.cut(&r, bytes, 1408, plan), &r);
			CHECK(plan->direct == (size > 1) && r.nblocks == (size > 1 ? blocks : 1), &r);
			owed = rar_ring_owed(&r, RAR_NEXT);
			CHECK(!owed.own && !owed.ntx && !owed.nback && !s.returns(plan), &r);
			CHECK(s.need(&r) == (size > 1 ? cpb * (blocks - sends) : 0), &r);
			for (block = 0; size > 1 && block < blocks; block++) {
				bool own = collective == RAR_BROADCAST ? sends : block == rank;

				CHECK(s.combine(plan, RAR_AG, block) ==
				      (own ? RAR_COMBINE_NONE : RAR_COMBINE_STORE), &r);
				CHECK(s.combine(plan, RAR_RS, block) == RAR_COMBINE_NONE, &r);
				CHECK(s.next(plan, RAR_AG, block) == RAR_PHASES, &r);
			}
			if (size == 1 || collective == RAR_BROADCAST)
				continue;
			/* The sum lies after all contributions, and nothing after it. */
			CHECK(s.room(plan, bytes, 1408) == (size + 1) * bytes, &r);
			CHECK(s.given(plan, bytes).off == rank * bytes, &r);
			CHECK(s.got(plan, bytes).off == size * bytes, &r);
			CHECK(s.given(plan, bytes).len == bytes && s.got(plan, bytes).len == bytes, &r);
		}
	return true;
}

static bool test_all_direct(u32 size)
{
	static const u64 lengths[] = { 0, 4, 1408, 5000, 32768 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++)
		if (!test_direct(size, RAR_ALLREDUCE, lengths[i]) ||
		    !test_direct(size, RAR_BARRIER, lengths[i]) ||
		    !test_direct(size, RAR_BROADCAST, lengths[i]))
			return false;
	return true;
}

/*
 * A reduction by doubling: only the root gets the sum, and a rank to which nothing comes waits for
 * nothing. A broadcast by the tree: a single block, which the root has.
 */
static bool test_rooted(u32 size)
{
	struct rar_ring r = {};
	struct rar_plan *plan = &r.plan;
	u32 rank, root, n;

	for (rank = 0; rank < size; rank++)
		for (root = 0; root < size; root++) {
			struct rar_place place = {
				.size = size, .rank = rank
			};
			struct rar_span got;

			CHECK(!s.plan(plan, &place, RAR_REDUCE, DOUBLING, root), &r);
			CHECK(!s.cut(&r, 5000, 1408, plan), &r);
			CHECK(plan->doubling == (size > 1) && !plan->tree, &r);
			n = plan->stages.n;
			got = s.got(plan, 5000);
			CHECK(size == 1 || got.len == (rank == root ? 5000 : 0), &r);
			CHECK(size == 1 || s.room(plan, 5000, 1408) == (2 * n + 1) * 5000, &r);
			CHECK(size == 1 || s.need(&r) == (rar_stages_wait(&plan->stages) ? 4 : 0), &r);
			CHECK(size == 1 || rank != root || s.need(&r), &r);

			CHECK(!s.plan(plan, &place, RAR_BROADCAST, DOUBLING, root), &r);
			CHECK(!s.cut(&r, 5000, 1408, plan), &r);
			CHECK(plan->tree == (size > 1) && !plan->gathered && r.nblocks == 1, &r);
			CHECK(s.need(&r) == (rank == root ? 0 : 4), &r);
			CHECK(!rar_ring_owed(&r, RAR_NEXT).used || size == 1, &r);
			CHECK(size == 1 || s.combine(plan, RAR_AG, 0) ==
			      (rank == root ? RAR_COMBINE_NONE : RAR_COMBINE_STORE), &r);
			CHECK(size == 1 || s.next(plan, RAR_AG, 0) == RAR_PHASES, &r);
		}
	return true;
}

static bool is_share(struct rar_span span, struct rar_span of, u32 size, u32 rank)
{
	return span.len == of.len / size && span.off == of.off + rank * span.len;
}

/* A share of the contribution, or of the sum, of an all-reduce by doubling. */
static bool check_shares(const struct rar_place *place, u64 bytes)
{
	struct rar_span given, got;
	struct rar_plan plan = {};
	struct rar_ring r = {};

	s.plan(&plan, place, RAR_ALLREDUCE, DOUBLING, 0);
	given = s.given(&plan, bytes);
	got = s.got(&plan, bytes);
	CHECK(!s.plan(&plan, place, RAR_ALLGATHER, DOUBLING, 0) && plan.doubling, &r);
	CHECK(is_share(s.given(&plan, bytes), given, place->size, place->rank), &r);
	CHECK(s.got(&plan, bytes).off == got.off && s.got(&plan, bytes).len == bytes, &r);
	CHECK(!s.plan(&plan, place, RAR_REDUCE_SCATTER, DOUBLING, 0) && plan.doubling, &r);
	CHECK(s.given(&plan, bytes).off == given.off && s.given(&plan, bytes).len == bytes, &r);
	CHECK(is_share(s.got(&plan, bytes), got, place->size, place->rank), &r);
	return true;
}

/*
 * Doubling: one buffer holds all arrivals, all partial sums and the sum, each in a place of its own.
 * The stages begin where the contribution lies, and end where the sum lies.
 */
static bool test_doubling(u32 size)
{
	static const u64 lengths[] = { 0, 4, 1408, 5000, RAR_STAGES_MAX_BYTES };
	struct rar_ring r = {};
	struct rar_plan *plan = &r.plan;
	u32 rank, i, block;

	for (rank = 0; rank < size; rank++)
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			struct rar_place place = {
				.size = size, .rank = rank
			};
			u64 bytes = lengths[i];
			u32 n, cpb = bytes ? (bytes + 1407) / 1408 : 1;

			CHECK(!s.plan(plan, &place, RAR_ALLREDUCE, DOUBLING, 0), &r);
			CHECK(!s.cut(&r, bytes, 1408, plan), &r);
			CHECK(plan->doubling == (size > 1), &r);
			if (size == 1)
				continue;
			n = plan->stages.n;
			CHECK(plan->parts == 2 * n + 1 && r.nchunks == plan->parts * cpb, &r);
			CHECK(s.need(&r) == cpb, &r);
			CHECK(s.room(plan, bytes, 1408) == plan->parts * bytes, &r);
			CHECK(s.given(plan, bytes).off == (n + plan->stages.first) * bytes, &r);
			CHECK(s.given(plan, bytes).len == bytes && s.got(plan, bytes).len == bytes, &r);
			block = plan->stages.odd ? n - 1 : n + plan->stages.last;
			CHECK(s.got(plan, bytes).off == block * bytes, &r);
			for (block = 0; block < n; block++) {
				CHECK(s.combine(plan, RAR_AG, block) == RAR_COMBINE_STORE, &r);
				CHECK(s.next(plan, RAR_AG, block) == RAR_PHASES, &r);
				CHECK(!s.last(plan, RAR_AG, block), &r);
				CHECK(rar_ring_there(&r, RAR_AG, rar_plan_partial(plan, block) * cpb, 0) ==
				      block * cpb, &r);
			}
			CHECK(!rar_ring_owed(&r, RAR_NEXT).used, &r);
			CHECK(s.injects(plan, RAR_AG, n + plan->stages.first), &r);
			if (!check_shares(&place, size * (bytes & ~7ULL)))
				return false;
		}
	return true;
}

static bool check_collectives(u32 size)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives); i++)
		if (!test_collective(&collectives[i], size))
			return false;
	return test_refused(size) && test_doubling(size) &&
	       (size > SIM_SIZE || (test_all_direct(size) && test_rooted(size)));
}

static bool check_all(u32 size)
{
	return test_tiling(size) && test_lead(size) && test_limit(size) && test_ways(size) &&
	       test_sim(size) && test_hosts(size) && check_collectives(size);
}

/* --- mutants --- */

static void test_mutant(const struct schedule *m, const char *name, const char *of)
{
	s = (struct schedule) {
		m->plan ?: real.plan, m->cut ?: real.cut, m->lead ?: real.lead,
		m->end ?: real.end, m->chunk ?: real.chunk, m->first ?: real.first, m->chunks ?: real.chunks,
		m->ntx ?: real.ntx, m->nback ?: real.nback, m->need ?: real.need,
		m->combine ?: real.combine, m->next ?: real.next,
		m->completes ?: real.completes, m->last ?: real.last,
		m->given ?: real.given, m->got ?: real.got, m->injects ?: real.injects,
		m->adds ?: real.adds, m->summed ?: real.summed,
		m->before ?: real.before, m->result ?: real.result,
		m->returns ?: real.returns, m->share ?: real.share,
		m->room ?: real.room,
	};
	quiet = true;
	tap_ok(!check_all(4), "mutant_%s%s__caught", name, of);
	quiet = false;
	s = real;
}

static void test_wrong_columns(void)
{
	static const char * const names[] = {
		"starts_rs_of_", "starts_ag_of_", "ends_rs_of_", "ends_ag_of_",
	};
	const struct schedule m = { .plan = mut_plan_wrong_column };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		const struct collective *w = &collectives[i];

		wrong.collective = w->collective;
		wrong.mode = w->mode;
		for (wrong.field = 0; wrong.field < ARRAY_SIZE(names); wrong.field++)
			if (field_matters(w, wrong.field))
				test_mutant(&m, names[wrong.field], w->name);
	}
}

static void test_mutants(void)
{
	static const struct {
		const char *name;
		struct schedule s;
	} mutants[] = {
		{ "plan_root_zero", { .plan = mut_plan_root_zero } },
		{ "plan_no_order", { .plan = mut_plan_no_order } },
		{ "plan_inexact", { .plan = mut_plan_inexact } },
		{ "plan_no_back", { .plan = mut_plan_no_back } },
		{ "plan_last_link", { .plan = mut_plan_last_link } },
		{ "plan_all_inject", { .plan = mut_plan_all_inject } },
		{ "cut_unaligned", { .cut = mut_cut_unaligned } },
		{ "cut_unlimited", { .cut = mut_cut_unlimited } },
		{ "cut_chunk_lost", { .cut = mut_cut_chunk_lost } },
		{ "cut_uneven", { .cut = mut_cut_uneven } },
		{ "lead_uneven", { .lead = mut_lead_uneven } },
		{ "lead_chunk_lost", { .lead = mut_lead_chunk_lost } },
		{ "lead_in_run", { .end = mut_end_of_block } },
		{ "lead_unlimited", { .lead = mut_lead_unlimited } },
		{ "chunk_crosses", { .chunk = mut_chunk_crosses } },
		{ "chunk_long", { .chunk = mut_chunk_long } },
		{ "first_rotated", { .first = mut_first_rotated } },
		{ "chunks_full", { .chunks = mut_chunks_full } },
		{ "ntx_both", { .ntx = mut_ntx_both } },
		{ "ntx_twice", { .ntx = mut_ntx_twice } },
		{ "need_all", { .need = mut_need_all } },
		{ "need_sums", { .need = mut_need_sums } },
		{ "combine_all", { .combine = mut_combine_all } },
		{ "combine_less", { .combine = mut_combine_less } },
		{ "combine_adds", { .combine = mut_combine_adds } },
		{ "next_rs_far", { .next = mut_next_rs_far } },
		{ "next_always_ag", { .next = mut_next_always_ag } },
		{ "next_ag_short", { .next = mut_next_ag_short } },
		{ "next_ag_far", { .next = mut_next_ag_far } },
		{ "completes_ag", { .completes = mut_completes_ag } },
		{ "completes_all", { .completes = mut_completes_all } },
		{ "last_completes", { .last = mut_last_completes } },
		{ "last_always", { .last = mut_completes_all } },
		{ "given_all", { .given = mut_given_all } },
		{ "got_given", { .got = mut_got_given } },
		{ "got_first", { .got = mut_got_first } },
		{ "injects_rs", { .injects = mut_injects_rs } },
		{ "injects_sums", { .injects = mut_injects_sums } },
		{ "adds_always", { .adds = mut_always } },
		{ "summed_ag", { .summed = mut_summed_ag } },
		{ "before_ag", { .before = mut_before_ag } },
		{ "result_ag", { .result = mut_result_ag } },
		{ "share_size", { .share = mut_share_size } },
		{ "room_gathered", { .room = mut_room_gathered } },
		{ "got_own", { .got = mut_got_own } },
		{ "cut_one_empty", { .cut = mut_cut_one_empty } },
		{ "returns_always", { .returns = mut_always } },
		{ "returns_sums", { .returns = mut_returns_sums } },
		{ "returns_gathered", { .returns = mut_returns_gathered } },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mutants); i++)
		test_mutant(&mutants[i].s, mutants[i].name, "");
	test_wrong_columns();
}

static void test_collectives(u32 size)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives) && size <= PLAN_SIZE; i++)
		tap_ok(test_collective(&collectives[i], size), "n%u_%s", size,
		       collectives[i].name);
	tap_ok(test_refused(size), "n%u_refused", size);
	tap_ok(test_doubling(size), "n%u_doubling", size);
	tap_ok(size > SIM_SIZE || test_all_direct(size), "n%u_direct", size);
	tap_ok(size > SIM_SIZE || test_rooted(size), "n%u_rooted", size);
}

int main(void)
{
	double start = now();
	size_t i;

	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	s = real;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 n = sizes[i];

		tap_ok(test_tiling(n), "n%u_chunks_tile_the_tensor", n);
		tap_ok(test_lead(n), "n%u_lead", n);
		tap_ok(test_limit(n), "n%u_limits", n);
		tap_ok(test_ways(n), "n%u_way_of_a_block", n);
		if (n > SIM_SIZE)
			continue;
		tap_ok(test_sim(n), "n%u_every_rank_every_sum_once", n);
		tap_ok(test_hosts(n), "n%u_by_hosts", n);
		test_collectives(n);
	}
	test_mutants();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
