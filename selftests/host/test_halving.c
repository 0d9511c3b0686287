// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive halving and doubling, with chunks in any order: every rank gets the sum of each chunk,
 * made of all ranks once by the documented tree; every number of a chunk is used once, by the rank
 * that the receiver expects; as many chunks go by each link as the rank owes; and nothing is
 * overwritten that is still to be sent or added. The same for a reduce-scatter, of which each rank
 * gets its share, and an all-gather.
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

static u32 (*there)(const struct rar_ring *ring, bool sums, u32 chunk, u32 rank);
static struct rar_step (*step_of)(const struct rar_ring *ring, u32 step);
static u32 (*come_in)(const struct rar_ring *ring, u32 chunk, u32 n);
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
	u32 sent[RAR_PARTNERS_MAX + 1];
	struct rar_partners partners;
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

static bool is_power(u32 size)
{
	return !(size & (size - 1));
}

/*
 * What a rank has, if shares go round, of the share of the rank that is so far up from
 * it: its own contribution, and those of the ranks that have sent theirs when the distances from
 * @far down to 1 are left, from the one farthest down on.
 */
static u64 tree_round(u32 size, u32 rank, u32 position, u32 far)
{
	u32 wide = far ? 2 * far : 1, most = 1, d;
	u64 tree = leaf(rank);

	while (2 * most < size)
		most *= 2;
	for (d = most; d >= wide; d /= 2)
		if (position + d < (d == most ? size : 2 * d))
			tree = add(tree_round(size, (rank + size - d) % size, position + d, d), tree);
	return tree;
}

/* The rank whose share a chunk is in, by its place in the tensor. */
static u32 owner_of(const struct rar_ring *ring, u32 size, u32 place)
{
	return (((u64)place + 1) * size - 1) / ring->cpb;
}

/* The place of a chunk in the tensor: where shares go round, a rank counts from its own on. */
static u32 place_of(const struct rar_ring *ring, u32 size, u32 rank, u32 nth)
{
	u32 first = is_power(size) || collective == RAR_ALLREDUCE ? 0 : (u64)rank * ring->cpb / size;

	return (nth + first) % ring->cpb;
}

/* The link to a rank, which is a partner; as many as there are: none. */
static u32 link_to(const struct rank *r, u32 rank)
{
	u32 i = 0;

	while (i < r->partners.n && r->partners.rank[i] != rank)
		i++;
	return i;
}

static void post(struct rank *r, u32 rank, u32 number, u64 tree)
{
	r->sent[link_to(r, rank)]++;
	if (nmsgs == room) {
		room = room ? 2 * room : 4096;
		msgs = realloc(msgs, room * sizeof(*msgs));
		if (!msgs)
			err(1, "memory");
	}
	msgs[nmsgs++] = (struct msg) { r->ring.plan.halves.rank, rank, number, tree };
}

/* The sum of a chunk is here. */
static bool has_sum(struct rank *r, u32 nth, u64 tree, u32 steps)
{
	const struct rar_ring *ring = &r->ring;
	const struct rar_halves *h = &ring->plan.halves;
	struct rar_step step;
	u32 i;

	CHECK((r->spent[nth] || !ring->plan.scatters) && !r->sum[nth],
	      "n=%u: sum %u of rank %u is too early, or twice", h->size, nth, h->rank);
	r->sum[nth] = tree;
	r->sums++;
	for (i = 0; i < steps && ring->plan.gathers; i++) {
		step = step_of(ring, i);
		if (rar_range_has(step.comes, nth))
			post(r, step.from, there(ring, true, nth, step.from), tree);
	}
	return true;
}

/* The sum of what this rank had and of what came. */
static u64 both(const struct rank *r, u32 nr, u64 own, u64 in)
{
	return step_of(&r->ring, nr).after ? add(own, in) : add(in, own);
}

/* This rank has a chunk of the partial sum before a step. */
static bool has_partial(struct rank *r, u32 nr, u32 nth, u64 tree)
{
	const struct rar_ring *ring = &r->ring;
	u32 n = ring->plan.halves.n, me = ring->plan.halves.rank, number, in;
	struct rar_step step;

	for (; nr < n; nr++) {
		step = step_of(ring, nr);
		number = rar_halving_partial(ring, nr, nth);
		CHECK(number < ring->nchunks && (!r->partial[number] || r->partial[number] == tree) &&
		      rar_halving_nth(ring, number) == nth,
		      "rank %u: number %u of a partial sum", me, number);
		r->partial[number] = tree;
		if (rar_range_has(step.gives, nth)) {
			r->spent[nth] = true;
			post(r, step.to, there(ring, false, number, step.to), tree);
			return true;
		}
		if (!rar_range_has(step.comes, nth))
			continue;
		in = rar_halving_arrival(ring, nr, nth);
		if (!r->came[in])
			return true;
		r->spent[nth] = true;
		tree = both(r, nr, tree, r->came[in]);
		if (rar_halving_ends(ring, nr))
			return has_sum(r, nth, tree, n);
	}
	return has_sum(r, nth, tree, n);
}

static bool come(const struct msg *m)
{
	struct rank *r = &at[m->to];
	const struct rar_ring *ring = &r->ring;
	u32 nr, nth, own;
	u64 tree;

	CHECK(m->number < ring->nchunks && m->number < rar_halving_end(ring, m->number),
	      "rank %u has no number %u", m->to, m->number);
	nr = come_in(ring, m->number, 1);
	CHECK(nr != RAR_NO_STEP && rar_halving_sender(ring, m->number, 1) == m->from,
	      "rank %u: number %u does not come from %u", m->to, m->number, m->from);
	CHECK(!r->came[m->number], "rank %u: number %u comes twice", m->to, m->number);
	r->came[m->number] = m->tree;
	nth = rar_halving_nth(ring, m->number);
	if (m->number < ring->cpb)
		return has_sum(r, nth, m->tree, nr);
	own = rar_halving_partial(ring, nr, nth);
	tree = r->partial[own];
	if (!tree)
		return true;
	r->spent[nth] = true;
	tree = both(r, nr, tree, m->tree);
	if (rar_halving_ends(ring, nr))
		return has_sum(r, nth, tree, ring->plan.halves.n);
	return has_partial(r, nr + 1, nth, tree);
}

/* What a rank must have of a chunk in the end, which @tree is the sum of; 0 = nothing. */
static u64 wanted(const struct rank *r, u32 rank, u32 owner, u64 tree)
{
	if (!r->ring.plan.scatters)
		return leaf(owner);
	return r->ring.plan.gathers || owner == rank ? tree : 0;
}

static u64 tree_at(u32 size, u32 owner)
{
	if (collective == RAR_ALLREDUCE)
		return tree_of(size);
	return is_power(size) ? tree_of_shares(size) : tree_round(size, owner, 0, 0);
}

/* By place of a chunk: the sum. */
static u64 *trees_of(const struct rar_ring *ring, u32 size)
{
	u64 *tree = calloc(ring->cpb, sizeof(*tree));
	u32 place, owner, last = size;

	if (!tree)
		err(1, "memory");
	for (place = 0; place < ring->cpb && ring->plan.scatters; place++) {
		owner = owner_of(ring, size, place);
		if (place && (owner == last || is_power(size) || collective == RAR_ALLREDUCE))
			tree[place] = tree[place - 1];
		else
			tree[place] = tree_at(size, owner);
		last = owner;
	}
	return tree;
}

static bool ended(u32 size, const u64 *tree)
{
	u32 rank, nth, i, place;

	for (rank = 0; rank < size; rank++) {
		const struct rank *r = &at[rank];

		CHECK(r->sums == rar_ring_need(&r->ring), "n=%u: rank %u has %u of %u sums",
		      size, rank, r->sums, r->ring.cpb);
		for (nth = 0; nth < r->ring.cpb; nth++) {
			place = place_of(&r->ring, size, rank, nth);
			CHECK(r->sum[nth] == wanted(r, rank, owner_of(&r->ring, size, place), tree[place]),
			      "n=%u: another sum at rank %u", size, rank);
		}
		for (i = 0; i <= RAR_PARTNERS_MAX; i++) {
			CHECK(r->sent[i] == (i < r->partners.n ? r->partners.owed[i] : 0) &&
			      (!r->sent[i] || r->partners.used >> i & 1),
			      "n=%u: rank %u sends %u chunks by link %u", size, rank, r->sent[i], i);
		}
	}
	return true;
}

/* All peers by doubling are partners, and have a slot that a word of 32 bits has a bit for. */
static bool check_partners(const struct rank *r, u32 size, u32 rank)
{
	struct rar_stages st = rar_stages_of(size, rank);
	struct rar_stage stage;
	u32 s;

	for (s = 0; s < st.n; s++) {
		stage = rar_stage(&st, s);
		CHECK((!stage.sends && !stage.takes) || link_to(r, stage.peer) < min(r->partners.n, 32U),
		      "n=%u: rank %u has no link to %u", size, rank, stage.peer);
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
	u32 size = ring->plan.halves.size, rank = ring->plan.halves.rank;
	u64 end = 0, tensor = 0;
	struct rar_chunk c;
	u32 i, n;

	for (i = 0; i < ring->nchunks; i++) {
		/* Those of the tensor by their place. */
		n = i < ring->cpb ? (i + ring->cpb - place_of(ring, size, rank, 0)) % ring->cpb : i;
		if (rar_halving_nth(ring, n) >= ring->cpb)
			continue;
		rar_ring_chunk(ring, n, &c);
		CHECK(i < ring->cpb ? c.off == end : c.off >= end, "chunk %u overlaps", i);
		end = c.off + c.len;
		CHECK(c.len <= PAYLOAD && end <= rar_plan_room(&ring->plan, bytes, PAYLOAD),
		      "chunk %u", i);
		CHECK(c.len == PAYLOAD || rar_halving_end(ring, n) == n + 1,
		      "chunk %u is short, and not the last one", i);
		tensor += i < ring->cpb ? c.len : 0;
	}
	CHECK(tensor == bytes, "%llu bytes of %llu", (unsigned long long)tensor,
	      (unsigned long long)bytes);
	return check_spans(&ring->plan, rank, bytes);
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
	rar_halving_partners(&r->ring, &r->partners);
	r->sums = 0;
	if (!check_partners(r, size, rank))
		return false;
	return check_places(&r->ring, bytes);
}

/* A rank contributes. */
static bool begin(u32 rank)
{
	struct rank *r = &at[rank];
	const struct rar_ring *ring = &r->ring;
	struct rar_range own = rar_halving_own(ring);
	u32 nth;

	if (!ring->plan.scatters) {
		for (nth = own.first; nth < own.first + own.n; nth++)
			if (!has_sum(r, nth, leaf(rank), ring->plan.halves.n))
				return false;
		return true;
	}
	for (nth = 0; nth < ring->cpb; nth++)
		if (!has_partial(r, 0, nth, leaf(rank)))
			return false;
	return true;
}

static bool run(u32 size, u64 bytes)
{
	u32 rank;
	struct msg m;
	u64 *trees;
	size_t i;
	bool good;

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
	trees = trees_of(&at[0].ring, size);
	good = ended(size, trees);
	free(trees);
	return good;
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
	for (size = 2; size <= SIZES && good; size++) {
		for (i = 0; i < ARRAY_SIZE(bytes) && good; i++)
			good = check(size, size * bytes[i]);
		if (good)
			good = check(size, size * some_bytes(5));
	}
	good = good && check(256, 256 * some_bytes(2)) && check(300, 300 * some_bytes(2)) &&
	       check(MAX / 4, MAX / 4 * 8);
	collective = RAR_ALLREDUCE;
	return good;
}

/* No other collective goes so, and none in rank order. */
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
	CHECK(rar_ring_plan(&plan, &place, RAR_ALLREDUCE, rar_way_mode(RAR_WAY_FOLDED), 0) == -EOPNOTSUPP,
	      "as old members do it");
	CHECK(rar_ring_plan(&plan, &place, RAR_ALLREDUCE, mode | RAR_OPF_IN_ORDER, 0) == -EOPNOTSUPP,
	      "in order");
	place.size = 1;
	CHECK(!rar_ring_plan(&plan, &place, RAR_ALLREDUCE, mode, 0) && !plan.halving, "alone");
	return true;
}

/* --- mutants --- */

static u32 mut_same_number(const struct rar_ring *ring, bool sums, u32 chunk, u32 rank)
{
	return chunk;
}

static struct rar_step mut_first_half(const struct rar_ring *ring, u32 nr)
{
	struct rar_step step = rar_halving_step(ring, nr);

	step.gives.first = min(step.gives.first, step.comes.first);
	return step;
}

/* The operands the other way round: another sum, and not the same at all ranks. */
static struct rar_step mut_order(const struct rar_ring *ring, u32 nr)
{
	struct rar_step step = rar_halving_step(ring, nr);

	step.after = !step.after;
	return step;
}

static u32 mut_next_step(const struct rar_ring *ring, u32 chunk, u32 n)
{
	u32 nr = rar_halving_of(ring, chunk, n);

	return nr == RAR_NO_STEP ? nr : (nr + 1) % ring->plan.halves.n;
}

static void reset(void)
{
	there = rar_halving_there;
	step_of = rar_halving_step;
	come_in = rar_halving_of;
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
	step_of = mut_first_half;
	tap_ok(caught(), "mutant_first_half__caught");
	step_of = mut_order;
	tap_ok(caught(), "mutant_order__caught");
	come_in = mut_next_step;
	tap_ok(caught(), "mutant_next_step__caught");
	return tap_end();
}
