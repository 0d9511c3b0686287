// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive doubling, with packets in any order: every rank gets the sum of all ranks, each of
 * them once and in rank order, by the same tree of additions; nothing is sent that nobody takes;
 * and the number of stages is log2 of the ranks, or that rounded down and two more. In a reduction
 * to a root it gets that sum, and all others send once. A broadcast reaches every rank once.
 */
#include "core/stages.h"
#include "tap.h"
#include "util.h"

#define SIZES	65		/* all numbers of ranks up to this one, */
#define DRAWN	100		/* and so many drawn ones */
#define MAX	4096

static struct rar_stages (*stages_of)(u32 size, u32 rank);
static struct rar_stages (*stages_to)(u32 size, u32 rank, u32 root) = rar_stages_to;
static struct rar_stage (*stage_of)(const struct rar_stages *st, u32 stage);
static u64 seed;
static bool quiet;

#define CHECK(cond, ...) do {						\
	if (!(cond)) {							\
		if (!quiet)						\
			tap_note(__VA_ARGS__);				\
		return false;						\
	}								\
} while (0)

/* A sum of ranks that follow one another, and a hash of the tree of its additions. */
struct sum {
	u32 first, n;
	u64 tree;
};

static struct rank {
	struct rar_stages st;
	struct sum sum;
	u32 stage;		/* the one that this rank is in */
	bool sent;
	bool has;		/* the sum of all */
	bool came[RAR_STAGES_MAX];
	struct sum from[RAR_STAGES_MAX];
} at[MAX];

static struct sum add(const struct sum *a, const struct sum *b)
{
	return (struct sum) {
		a->first, a->n + b->n, (a->tree * 1000003 ^ b->tree) * 0x9e3779b97f4a7c15 + 1
	};
}

/* What goes from a rank to its peer: nothing may come twice, or where it is not taken. */
static bool deliver(u32 size, u32 rank, u32 s, u32 to)
{
	struct rar_stage there;

	CHECK(to < size && to != rank && s < at[to].st.n, "n=%u: %u sends to %u", size, rank, to);
	there = stage_of(&at[to].st, s);
	CHECK(there.takes && there.peer == rank && !at[to].came[s],
	      "n=%u: stage %u of rank %u does not take from %u", size, s, to, rank);
	CHECK(rar_stage_from(&at[to].st, rank) == s && rar_stage_to(&at[rank].st, to) == s,
	      "n=%u: the stage of %u and %u is not found", size, rank, to);
	at[to].came[s] = true;
	at[to].from[s] = at[rank].sum;
	return true;
}

static bool combine(u32 size, struct rank *r, const struct rar_stage *stage)
{
	const struct sum *theirs = &r->from[r->stage];

	if (r->st.odd) {
		CHECK(r->st.gets, "n=%u: rank %u gets the sum", size, r->st.rank);
		r->sum = *theirs;
		return true;
	}
	r->sum = stage->after ? add(&r->sum, theirs) : add(theirs, &r->sum);
	CHECK(stage->after == (theirs->first > r->sum.first) &&
	      (stage->after ? theirs->first + theirs->n : theirs->first + r->sum.n) ==
	      r->sum.first + r->sum.n, "n=%u: rank %u adds out of order", size, r->st.rank);
	return true;
}

/* Let a rank go on as far as it can. Sets @any if it did something. */
static bool go(u32 size, u32 rank, bool *any)
{
	struct rank *r = &at[rank];
	struct rar_stage stage;

	for (; r->stage < r->st.n; r->stage++, r->sent = false) {
		stage = stage_of(&r->st, r->stage);
		CHECK(stage.sends || stage.takes || r->stage < r->st.first ||
		      r->stage >= r->st.last, "n=%u: rank %u rests", size, rank);
		CHECK(!stage.takes || r->st.odd || r->stage < r->st.last,
		      "n=%u: rank %u adds to its last sum", size, rank);
		if (stage.sends && !r->sent) {
			if (!deliver(size, rank, r->stage, stage.peer))
				return false;
			r->sent = true;
			*any = true;
		}
		if (stage.takes && !r->came[r->stage])
			break;
		*any = true;
		if (stage.takes && !combine(size, r, &stage))
			return false;
	}
	return true;
}

static bool ended(u32 size)
{
	u32 rank, log = 0, s, sends;
	struct rar_stage stage;

	while (2U << log <= size)
		log++;
	for (rank = 0; rank < size; rank++) {
		const struct rank *r = &at[rank];

		CHECK(r->stage == r->st.n, "n=%u: rank %u hangs in stage %u", size, rank, r->stage);
		CHECK(!r->sum.first && r->sum.n == size && r->sum.tree == at[0].sum.tree,
		      "n=%u: rank %u has another sum", size, rank);
		CHECK(r->st.n == (1U << log == size ? log : log + 2) && r->st.n <= RAR_STAGES_MAX,
		      "n=%u: %u stages", size, r->st.n);
		CHECK(rar_stage_from(&r->st, rank) == RAR_NO_STAGE, "n=%u: from itself", size);
		for (s = sends = 0; s < r->st.n; s++) {
			stage = stage_of(&r->st, s);
			sends += stage.sends;
			CHECK(s >= r->st.first || (!stage.sends && !stage.takes),
			      "n=%u: rank %u begins earlier", size, rank);
			CHECK(r->st.odd || s < r->st.last || !stage.takes,
			      "n=%u: rank %u adds to the sum", size, rank);
		}
		CHECK(sends <= log + 1, "n=%u: rank %u sends %u times", size, rank, sends);
	}
	return true;
}

/* Let packets go to and fro until nothing moves. */
static bool run(u32 size)
{
	bool any = true;
	u32 rank, i;

	for (rank = 0; rank < size; rank++)
		at[rank].sum = (struct sum) { rank, 1, (rank + 1) * 0x2545f4914f6cdd1dULL };
	while (any) {
		any = false;
		/* In another order each time. */
		i = rnd_below(&seed, size);
		for (rank = 0; rank < size; rank++)
			if (!go(size, (rank * 7 + i) % size, &any) || !go(size, rank, &any))
				return false;
	}
	return true;
}

static bool check(u32 size)
{
	u32 rank;

	for (rank = 0; rank < size; rank++)
		at[rank] = (struct rank) { .st = stages_of(size, rank) };
	return run(size) && ended(size);
}

/* A reduction: the root has the sum that all would have, by the same tree. */
static bool check_reduce(u32 size, u32 root, u64 tree)
{
	u32 rank, s, sends, made;

	for (rank = 0; rank < size; rank++)
		at[rank] = (struct rank) { .st = stages_to(size, rank, root) };
	if (!run(size))
		return false;
	for (rank = 0; rank < size; rank++) {
		const struct rank *r = &at[rank];

		CHECK(r->stage == r->st.n, "n=%u root %u: rank %u hangs", size, root, rank);
		made = r->st.odd ? 0 : r->st.first;
		for (s = sends = 0; s < r->st.n; s++) {
			struct rar_stage stage = stage_of(&r->st, s);

			sends += stage.sends;
			made += stage.takes && !r->st.odd;
			CHECK(!stage.sends || s == (r->st.odd ? 0 : r->st.last),
			      "n=%u root %u: rank %u sends in stage %u", size, root, rank, s);
		}
		CHECK(made == r->st.last, "n=%u root %u: rank %u makes %u sums", size, root, rank, made);
		CHECK(sends == (rank != root || r->st.odd), "n=%u root %u: rank %u sends %u times",
		      size, root, rank, sends);
		CHECK(r->st.whole == (rank == (at[root].st.odd ? root - 1 : root)) &&
		      r->st.gets == (rank == root && r->st.odd), "n=%u root %u: rank %u", size, root,
		      rank);
	}
	CHECK(at[root].sum.n == size && at[root].sum.tree == tree, "n=%u: root %u has another sum",
	      size, root);
	return true;
}

/* A broadcast from a rank of the tree on; returns how many ranks it reaches, and sets the longest way. */
static u32 reach(u32 size, u32 rank, u32 way, u32 *longest)
{
	u32 stage = at[rank].st.n, child, n = 1, below, before = size;

	if (way > *longest)
		*longest = way;
	while (way <= size && (child = rar_tree_child(&at[rank].st, &stage)) != RAR_NO_STAGE) {
		if (child >= size || at[child].has || rar_tree_parent(&at[child].st) != rank)
			return 0;
		at[child].has = true;
		below = reach(size, child, way + 1, longest);
		/* The largest tree first, but for folded ranks: they get it last. */
		if (!below || (below > before && !at[rank].st.folded))
			return 0;
		before = below;
		n += below;
	}
	return n;
}

static bool check_broadcast(u32 size, u32 root)
{
	u32 log = 0, longest = 0;

	while (2U << log <= size)
		log++;
	at[root].has = true;
	CHECK(reach(size, root, 0, &longest) == size && rar_tree_parent(&at[root].st) == root,
	      "n=%u: a broadcast of rank %u does not reach all once", size, root);
	CHECK(longest <= log + 2 * !!at[root].st.folded, "n=%u root %u: %u hops", size, root, longest);
	return true;
}

static bool check_roots(u32 size, u32 step)
{
	u64 tree;
	u32 root;

	if (!check(size))
		return false;
	tree = at[0].sum.tree;
	for (root = rnd_below(&seed, step); root < size; root += step)
		if (!check_reduce(size, root, tree) || !check_broadcast(size, root))
			return false;
	return true;
}

static bool check_rooted(u32 most)
{
	u32 size;

	for (size = 1; size <= most; size++)
		if (!check_roots(size, 1))
			return false;
	return true;
}

static bool check_rooted_drawn(void)
{
	u32 i;

	for (i = 0; i < DRAWN / 4; i++)
		if (!check_roots(1 + rnd_below(&seed, MAX), 1 + rnd_below(&seed, MAX)))
			return false;
	return true;
}

static bool check_sizes(u32 most)
{
	u32 size;

	for (size = 1; size <= most; size++)
		if (!check(size))
			return false;
	return true;
}

static bool check_drawn(void)
{
	u32 i;

	for (i = 0; i < DRAWN; i++)
		if (!check(1 + rnd_below(&seed, MAX)))
			return false;
	return check(MAX) && check(MAX - 1);
}

/* The border is what the manual says, for all numbers of ranks. */
static bool check_bytes(void)
{
	u32 size, want;

	for (size = 2; size <= MAX; size++) {
		want = size == 3 ? 8192 : size == 5 || size == 6 ? 16384 : size & (size - 1) ? 32768 : 65536;
		CHECK(rar_stages_bytes(size) == want, "%u ranks: %u bytes", size,
		      rar_stages_bytes(size));
	}
	return true;
}

/* --- mutants --- */

static struct rar_stages mut_unfolded(u32 size, u32 rank)
{
	struct rar_stages st = rar_stages_of(size, rank);

	st.folded = 0;
	return st;
}

static struct rar_stages mut_all_first(u32 size, u32 rank)
{
	struct rar_stages st = rar_stages_of(size, rank);

	st.first = 0;
	st.odd = false;
	return st;
}

static struct rar_stages mut_short(u32 size, u32 rank)
{
	struct rar_stages st = rar_stages_of(size, rank);

	st.n -= !!st.n;
	return st;
}

static struct rar_stage mut_own_first(const struct rar_stages *st, u32 stage)
{
	struct rar_stage got = rar_stage(st, stage);

	got.after = true;
	return got;
}

static struct rar_stage mut_by_rank(const struct rar_stages *st, u32 stage)
{
	struct rar_stage got = rar_stage(st, stage);

	if (got.sends && got.takes)
		got.peer = st->rank ^ 1U << (stage - !!st->folded);
	return got;
}

static struct rar_stage mut_far_first(const struct rar_stages *st, u32 stage)
{
	if (st->folded || st->n < 2)
		return rar_stage(st, stage);
	return rar_stage(st, st->n - 1 - stage);
}

static struct rar_stage mut_no_way_back(const struct rar_stages *st, u32 stage)
{
	struct rar_stage got = rar_stage(st, stage);

	if (st->folded && stage == st->n - 1)
		got.sends = false;
	return got;
}

static struct rar_stages mut_rooted_all(u32 size, u32 rank, u32 root)
{
	struct rar_stages st = rar_stages_of(size, rank);

	st.root = root;
	return st;
}

static struct rar_stages mut_root_zero(u32 size, u32 rank, u32 root)
{
	return rar_stages_to(size, rank, 0 * root);
}

static struct rar_stages mut_root_early(u32 size, u32 rank, u32 root)
{
	struct rar_stages st = rar_stages_to(size, rank, root);

	st.last -= st.last > st.first;
	return st;
}

/* A folded root gets nothing back. */
static struct rar_stages mut_root_folded(u32 size, u32 rank, u32 root)
{
	return rar_stages_to(size, rank, root & ~1U);
}

static void test_rooted_mutants(void)
{
	static const struct {
		const char *name;
		struct rar_stages (*stages)(u32 size, u32 rank, u32 root);
	} mutants[] = {
		{ "rooted_all", mut_rooted_all },
		{ "root_zero", mut_root_zero },
		{ "root_early", mut_root_early },
		{ "root_folded", mut_root_folded },
	};
	size_t i;

	quiet = true;
	for (i = 0; i < ARRAY_SIZE(mutants); i++) {
		stages_to = mutants[i].stages;
		tap_ok(!check_rooted(9), "mutant_%s__caught", mutants[i].name);
	}
	stages_to = rar_stages_to;
	quiet = false;
}

static void test_mutants(void)
{
	static const struct {
		const char *name;
		struct rar_stages (*stages)(u32 size, u32 rank);
		struct rar_stage (*stage)(const struct rar_stages *st, u32 stage);
	} mutants[] = {
		{ "unfolded", mut_unfolded, rar_stage },
		{ "all_first", mut_all_first, rar_stage },
		{ "short", mut_short, rar_stage },
		{ "own_first", rar_stages_of, mut_own_first },
		{ "by_rank", rar_stages_of, mut_by_rank },
		{ "far_first", rar_stages_of, mut_far_first },
		{ "no_way_back", rar_stages_of, mut_no_way_back },
	};
	size_t i;

	quiet = true;
	for (i = 0; i < ARRAY_SIZE(mutants); i++) {
		stages_of = mutants[i].stages;
		stage_of = mutants[i].stage;
		tap_ok(!check_sizes(17), "mutant_%s__caught", mutants[i].name);
	}
	quiet = false;
}

int main(void)
{
	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	stages_of = rar_stages_of;
	stage_of = rar_stage;
	tap_ok(check_sizes(SIZES), "up_to_%u_ranks", SIZES);
	tap_ok(check_drawn(), "%u_numbers_up_to_%u", DRAWN, MAX);
	tap_ok(check_bytes(), "up_to_how_many_bytes");
	tap_ok(check_rooted(33), "up_to_33_ranks_and_every_root");
	tap_ok(check_rooted_drawn(), "%u_numbers_up_to_%u_and_a_root", DRAWN / 4, MAX);
	test_mutants();
	stages_of = rar_stages_of;
	stage_of = rar_stage;
	test_rooted_mutants();
	return tap_end();
}
