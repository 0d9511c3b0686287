// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive halving and doubling, with chunks in any order: every rank gets the sum of each chunk,
 * made of all ranks once by the tree of recursive doubling; every number of a chunk is used once,
 * by the peer that the receiver expects; as many chunks go by each link as the rank owes; and
 * nothing is overwritten that is still to be sent or added. The same for a reduce-scatter, of which
 * each rank gets its share, and an all-gather.
 */
#include "core/halving.h"
#include "core/ring.h"
#include "tap.h"
#include "util.h"

#define SIZES	65		/* all numbers of ranks from 2 to this one, */
#define DRAWN	60		/* and so many drawn ones */
#define MAX	4096
#define CHUNKS	150		/* of a tensor, at most */
#define PAYLOAD	1408

static u32 (*there)(const struct rar_ring *ring, u32 chunk);
static struct rar_range (*gives)(const struct rar_ring *ring, u32 halving);
static u32 (*stage_of)(const struct rar_ring *ring, u32 chunk, u32 n);
static u64 seed;
static bool quiet;
static u8 collective = RAR_ALLREDUCE;

#define CHECK(cond, ...) do {						\
	if (!(cond)) {							\
		if (!quiet)						\
			tap_note(__VA_ARGS__);				\
		return false;						\
	}								\
} while (0)

/* A chunk on its way; what it holds is the hash of a tree of additions. */
struct msg {
	u32 from, to, number;
	u64 tree;
};

static struct rank {
	struct rar_ring ring;
	u64 *came;		/* by number: what came, 0 = nothing */
	u64 *partial;		/* by number: a partial sum, 0 = it is not made */
	bool *spent;		/* by chunk of the tensor: the contribution was sent or added */
	u64 *sum;		/* by chunk of the tensor */
	u32 sent[RAR_STAGES_MAX];
	u32 sums;
} at[MAX];

static struct msg *msgs;
static size_t nmsgs, room;

static u64 leaf(u32 rank)
{
	return (rank + 1) * 0x2545f4914f6cdd1dULL | 1;
}

static u64 add(u64 a, u64 b)
{
	return ((a * 1000003 ^ b) * 0x9e3779b97f4a7c15ULL) | 1;
}

/* The tree of recursive doubling over all ranks. */
static u64 tree_of(u32 size)
{
	struct rar_stages st = rar_stages_of(size, 0);
	static u64 sum[MAX];
	u32 core, n, rank;

	for (core = 0; core < st.cores; core++) {
		rank = core < st.folded ? 2 * core : core + st.folded;
		sum[core] = leaf(rank);
		if (core < st.folded)
			sum[core] = add(sum[core], leaf(rank + 1));
	}
	for (n = st.cores; n > 1; n /= 2)
		for (core = 0; core < n / 2; core++)
			sum[core] = add(sum[2 * core], sum[2 * core + 1]);
	return sum[0];
}

/*
 * The tree of a reduce-scatter: of each rank and that with half the ranks between them, and so on.
 */
static u64 tree_of_shares(u32 size)
{
	static u64 sum[MAX];
	u32 n, rank;

	for (rank = 0; rank < size; rank++)
		sum[rank] = leaf(rank);
	for (n = size; n > 1; n /= 2)
		for (rank = 0; rank < n / 2; rank++)
			sum[rank] = add(sum[rank], sum[rank + n / 2]);
	return sum[0];
}

/* The link to a rank, which is a peer. */
static u32 link_to(const struct rar_stages *st, u32 rank)
{
	u32 s = 0;

	while (rar_stage(st, s).peer != rank || (!rar_stage(st, s).sends && !rar_stage(st, s).takes))
		s++;
	return rar_halving_link(st, s);
}

/* By the link to the peer of a stage. */
static void post(struct rank *r, u32 stage, u32 number, u64 tree)
{
	const struct rar_stages *st = &r->ring.plan.stages;
	u32 peer = rar_halving_pair(&r->ring, stage).peer;

	r->sent[link_to(st, peer)]++;
	if (nmsgs == room) {
		room = room ? 2 * room : 4096;
		msgs = realloc(msgs, room * sizeof(*msgs));
		if (!msgs)
			err(1, "memory");
	}
	msgs[nmsgs++] = (struct msg) { st->rank, peer, number, tree };
}

/* The sum of a chunk is here. */
static bool has_sum(struct rank *r, u32 nth, u64 tree, u32 halvings)
{
	const struct rar_stages *st = &r->ring.plan.stages;
	u32 first = rar_halving_first(st), i;

	CHECK((r->spent[nth] || !r->ring.plan.scatters) && !r->sum[nth], "n=%u: sum %u of rank %u is too early, or twice",
	      st->cores + st->folded, nth, st->rank);
	r->sum[nth] = tree;
	r->sums++;
	for (i = 0; i < halvings && r->ring.plan.gathers; i++)
		post(r, first + i, nth, tree);
	if (st->folded && !st->odd && !st->first)
		post(r, st->n - 1, nth, tree);
	return true;
}

static bool inside(struct rar_range range, u32 nth)
{
	return nth >= range.first && nth - range.first < range.n;
}

/* This rank has a chunk of the partial sum before a stage. */
static bool has_partial(struct rank *r, u32 stage, u32 nth, u64 tree)
{
	const struct rar_stages *st = &r->ring.plan.stages;
	u32 first = rar_halving_first(st), n = rar_halving_stages(st), number, in;

	for (;; stage++) {
		if (!st->odd && stage == first + n)
			return has_sum(r, nth, tree, n);
		number = rar_halving_partial(&r->ring, stage, nth);
		CHECK(number < r->ring.nchunks && !r->partial[number] &&
		      rar_halving_nth(&r->ring, number) == nth,
		      "rank %u: number %u of a partial sum", st->rank, number);
		r->partial[number] = tree;
		if (st->odd || (stage >= first && inside(gives(&r->ring, stage - first), nth))) {
			r->spent[nth] = true;
			post(r, stage, there(&r->ring, number), tree);
			return true;
		}
		CHECK(stage < first || inside(rar_halving_keeps(&r->ring, stage - first + 1), nth),
		      "rank %u neither keeps nor gives chunk %u", st->rank, nth);
		in = rar_halving_arrival(&r->ring, stage, nth);
		if (!r->came[in])
			return true;
		r->spent[nth] = true;
		tree = rar_halving_pair(&r->ring, stage).after ? add(tree, r->came[in]) :
								 add(r->came[in], tree);
	}
}

static bool come(const struct msg *m)
{
	struct rank *r = &at[m->to];
	const struct rar_ring *ring = &r->ring;
	const struct rar_stages *st = &ring->plan.stages;
	u32 stage, nth, own;
	u64 tree;

	CHECK(m->number < ring->nchunks && m->number < rar_halving_end(ring, m->number),
	      "rank %u has no number %u", m->to, m->number);
	stage = stage_of(ring, m->number, 1);
	CHECK(stage != RAR_NO_STAGE && rar_halving_pair(ring, stage).peer == m->from,
	      "rank %u: number %u does not come from %u", m->to, m->number, m->from);
	CHECK(!r->came[m->number], "rank %u: number %u comes twice", m->to, m->number);
	r->came[m->number] = m->tree;
	nth = rar_halving_nth(ring, m->number);
	if (m->number < ring->cpb)
		return has_sum(r, nth, m->tree, st->odd ? 0 : stage - rar_halving_first(st));
	own = rar_halving_partial(ring, stage, nth);
	tree = r->partial[own];
	if (!tree)
		return true;
	r->spent[nth] = true;
	tree = rar_halving_pair(ring, stage).after ? add(tree, m->tree) : add(m->tree, tree);
	return has_partial(r, stage + 1, nth, tree);
}

/* What a rank must have of a chunk in the end; 0 = nothing. */
static u64 wanted(const struct rank *r, u32 rank, u32 nth, u64 tree)
{
	u32 share = rar_halving_share(&r->ring), owner = nth / share;

	if (!r->ring.plan.scatters)
		return leaf(owner);
	return r->ring.plan.gathers || owner == rank ? tree : 0;
}

static bool ended(u32 size, u64 tree)
{
	u32 rank, nth, i, links;

	for (rank = 0; rank < size; rank++) {
		const struct rank *r = &at[rank];

		CHECK(r->sums == rar_ring_need(&r->ring), "n=%u: rank %u has %u of %u sums",
		      size, rank, r->sums, r->ring.cpb);
		for (nth = 0; nth < r->ring.cpb; nth++)
			CHECK(r->sum[nth] == wanted(r, rank, nth, tree),
			      "n=%u: another sum at rank %u", size, rank);
		links = rar_halving_links(&r->ring.plan.stages);
		for (i = 0; i < RAR_STAGES_MAX; i++)
			CHECK(r->sent[i] == rar_ring_owed_by(&r->ring, i).ntx &&
			      rar_ring_owed_by(&r->ring, i).used == !!r->sent[i] &&
			      (i < links || !r->sent[i]), "n=%u: rank %u sends %u chunks by link %u",
			      size, rank, r->sent[i], i);
	}
	return true;
}

static bool is_span(struct rar_span span, u64 off, u64 len)
{
	return span.off == off && span.len == len;
}

/* What this rank contributes, and gets. */
static bool check_spans(const struct rar_plan *plan, u32 rank, u64 bytes)
{
	u64 share = bytes / plan->shares, off = plan->shares > 1 ? rank * share : 0;

	if (plan->scatters)
		CHECK(is_span(rar_plan_given(plan, bytes), 0, bytes), "given");
	else
		CHECK(is_span(rar_plan_given(plan, bytes), off, share), "given, a share");
	if (plan->gathers)
		CHECK(is_span(rar_plan_got(plan, bytes), 0, bytes), "got");
	else
		CHECK(is_span(rar_plan_got(plan, bytes), off, share), "got, a share");
	return true;
}

/*
 * Chunks of the buffer do not overlap, and hold the tensor as it is. No run has chunks of two
 * shares, and all of its chunks but the last are whole.
 */
static bool check_places(const struct rar_ring *ring, u64 bytes)
{
	u64 end = 0, tensor = 0;
	struct rar_chunk c;
	u32 i;

	for (i = 0; i < ring->nchunks; i++) {
		if (rar_halving_nth(ring, i) >= ring->cpb)
			continue;
		rar_ring_chunk(ring, i, &c);
		CHECK(i < ring->cpb ? c.off == end : c.off >= end, "chunk %u overlaps", i);
		end = c.off + c.len;
		CHECK(c.len <= PAYLOAD && end <= rar_plan_room(&ring->plan, bytes, PAYLOAD),
		      "chunk %u", i);
		CHECK(c.len == PAYLOAD || rar_halving_end(ring, i) == i + 1,
		      "chunk %u is short, and not the last one", i);
		tensor += i < ring->cpb ? c.len : 0;
	}
	CHECK(tensor == bytes, "%llu bytes of %llu", (unsigned long long)tensor,
	      (unsigned long long)bytes);
	return check_spans(&ring->plan, ring->plan.stages.rank, bytes);
}

static bool start(u32 size, u32 rank, u64 bytes)
{
	struct rar_place place = { .size = size, .rank = rank };
	struct rank *r = &at[rank];
	struct rar_plan plan;
	u32 n;

	CHECK(!rar_ring_plan(&plan, &place, collective, rar_way_mode(RAR_WAY_HALVING), 0) &&
	      !rar_ring_cut(&r->ring, bytes, PAYLOAD, &plan), "n=%u: no plan", size);
	n = r->ring.nchunks;
	r->came = calloc(n, sizeof(u64));
	r->partial = calloc(n, sizeof(u64));
	r->spent = calloc(n, sizeof(bool));
	r->sum = calloc(r->ring.cpb, sizeof(u64));
	if (!r->came || !r->partial || !r->spent || !r->sum)
		err(1, "memory");
	memset(r->sent, 0, sizeof(r->sent));
	r->sums = 0;
	return check_places(&r->ring, bytes);
}

/* A rank contributes. */
static bool begin(u32 rank)
{
	struct rank *r = &at[rank];
	const struct rar_ring *ring = &r->ring;
	u32 share = rar_halving_share(ring), nth;

	if (!ring->plan.scatters) {
		for (nth = rank * share; nth < (rank + 1) * share; nth++)
			if (!has_sum(r, nth, leaf(rank), rar_halving_stages(&ring->plan.stages)))
				return false;
		return true;
	}
	for (nth = 0; nth < ring->cpb; nth++)
		if (!has_partial(r, ring->plan.stages.first, nth, leaf(rank)))
			return false;
	return true;
}

static bool run(u32 size, u64 bytes)
{
	u32 rank;
	struct msg m;
	size_t i;

	for (rank = 0; rank < size; rank++)
		if (!start(size, rank, bytes))
			return false;
	nmsgs = 0;
	for (rank = 0; rank < size; rank++) {
		if (!begin(rank))
			return false;
		/* Others may be ahead of those that begin later. */
		for (i = rnd_below(&seed, 1 + 2 * nmsgs); i && nmsgs; i--) {
			size_t k = rnd_below(&seed, nmsgs);

			if (msgs[k].to > rank)
				continue;
			m = msgs[k];
			msgs[k] = msgs[--nmsgs];
			if (!come(&m))
				return false;
		}
	}
	while (nmsgs) {
		i = rnd_below(&seed, nmsgs);
		m = msgs[i];
		msgs[i] = msgs[--nmsgs];
		if (!come(&m))
			return false;
	}
	return ended(size, collective == RAR_ALLREDUCE ? tree_of(size) : tree_of_shares(size));
}

static bool check(u32 size, u64 bytes)
{
	bool good = run(size, bytes);
	u32 rank;

	for (rank = 0; rank < size; rank++) {
		free(at[rank].came);
		free(at[rank].partial);
		free(at[rank].spent);
		free(at[rank].sum);
		at[rank] = (struct rank) { };
	}
	return good;
}

static u64 some_bytes(u32 chunks)
{
	return 1 + rnd_below(&seed, (u64)chunks * PAYLOAD);
}

static bool check_sizes(u32 most)
{
	static const u64 bytes[] = { 0, 1, PAYLOAD, PAYLOAD + 1, 7 * PAYLOAD, 64 * PAYLOAD + 8 };
	u32 size, i;

	for (size = 2; size <= most; size++) {
		for (i = 0; i < ARRAY_SIZE(bytes); i++)
			if (!check(size, bytes[i]))
				return false;
		if (!check(size, some_bytes(CHUNKS)))
			return false;
	}
	return true;
}

static bool check_drawn(void)
{
	u32 i;

	for (i = 0; i < DRAWN; i++)
		if (!check(2 + rnd_below(&seed, MAX / 8), some_bytes(CHUNKS)))
			return false;
	return check(MAX, 5 * PAYLOAD) && check(MAX - 1, 3 * PAYLOAD);
}

/* Each rank has a share: of any length, of a part of a chunk to many. */
static bool check_shares(u8 what)
{
	static const u64 bytes[] = { 0, 1, 8, PAYLOAD, PAYLOAD + 1, 7 * PAYLOAD, 9 * PAYLOAD + 8 };
	bool good = true;
	u32 size, i;

	collective = what;
	for (size = 2; size <= 64 && good; size *= 2) {
		for (i = 0; i < ARRAY_SIZE(bytes) && good; i++)
			good = check(size, size * bytes[i]);
		if (good)
			good = check(size, size * some_bytes(5));
	}
	good = good && check(256, 256 * some_bytes(2)) && check(MAX / 4, MAX / 4 * 8);
	collective = RAR_ALLREDUCE;
	return good;
}

/*
 * No other collective goes so, none in rank order, and none in which ranks have shares if any would
 * be folded.
 */
static bool check_refused(void)
{
	struct rar_place place = { .size = 4 };
	struct rar_plan plan;
	u16 mode = rar_way_mode(RAR_WAY_HALVING);
	u32 i;

	for (i = 0; i < RAR_COLLECTIVE_NR; i++)
		CHECK(!rar_ring_plan(&plan, &place, i, mode, 0) ==
		      (i == RAR_ALLREDUCE || i == RAR_REDUCE_SCATTER || i == RAR_ALLGATHER),
		      "collective %u", i);
	place.size = 6;
	for (i = 0; i < RAR_COLLECTIVE_NR; i++)
		CHECK(!rar_ring_plan(&plan, &place, i, mode, 0) == (i == RAR_ALLREDUCE),
		      "collective %u of 6 ranks", i);
	CHECK(rar_ring_plan(&plan, &place, RAR_ALLREDUCE, mode | RAR_OPF_IN_ORDER, 0) == -EOPNOTSUPP,
	      "in order");
	place.size = 1;
	CHECK(!rar_ring_plan(&plan, &place, RAR_ALLREDUCE, mode, 0) && !plan.halving, "alone");
	return true;
}

/* --- mutants --- */

static u32 mut_same_number(const struct rar_ring *ring, u32 chunk)
{
	return chunk;
}

static struct rar_range mut_first_half(const struct rar_ring *ring, u32 halving)
{
	struct rar_range range = rar_halving_keeps(ring, halving);

	range.n = range.n - range.n / 2;
	return range;
}

static u32 mut_next_stage(const struct rar_ring *ring, u32 chunk, u32 n)
{
	u32 stage = rar_halving_stage_of(ring, chunk, n);

	return stage == RAR_NO_STAGE ? stage : (stage + 1) % ring->plan.stages.n;
}

static void reset(void)
{
	there = rar_halving_there;
	gives = rar_halving_gives;
	stage_of = rar_halving_stage_of;
}

static bool caught(void)
{
	bool good;

	quiet = true;
	good = check_sizes(9) && check_shares(RAR_REDUCE_SCATTER) && check_shares(RAR_ALLGATHER);
	quiet = false;
	reset();
	return !good;
}

int main(void)
{
	tap_begin();
	seed = seed_get();
	tap_note("seed %llu", (unsigned long long)seed);
	reset();
	tap_ok(check_sizes(SIZES), "sizes_2_to_%u", SIZES);
	tap_ok(check_drawn(), "sizes_drawn_to_%u", MAX);
	tap_ok(check_shares(RAR_REDUCE_SCATTER), "reduce_scatter");
	tap_ok(check_shares(RAR_ALLGATHER), "all_gather");
	tap_ok(check_refused(), "nothing_else_goes_so");
	there = mut_same_number;
	tap_ok(caught(), "mutant_same_number__caught");
	gives = mut_first_half;
	tap_ok(caught(), "mutant_first_half__caught");
	stage_of = mut_next_stage;
	tap_ok(caught(), "mutant_next_stage__caught");
	return tap_end();
}
