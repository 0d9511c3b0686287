// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive doubling, with packets in any order: every rank gets the sum of all ranks, each of
 * them once and in rank order, by the same tree of additions; nothing is sent that nobody takes;
 * and the number of stages is log2 of the ranks, or that rounded down and two more.
 */
#include "core/stages.h"
#include "tap.h"
#include "util.h"

#define SIZES	65		/* all numbers of ranks up to this one, */
#define DRAWN	100		/* and so many drawn ones */
#define MAX	4096

static struct rar_stages (*stages_of)(u32 size, u32 rank);
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
		      r->stage >= r->st.last || r->st.odd, "n=%u: rank %u rests", size, rank);
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

static bool check(u32 size)
{
	bool any = true;
	u32 rank, i;

	for (rank = 0; rank < size; rank++)
		at[rank] = (struct rank) {
			.st = stages_of(size, rank),
			.sum = { rank, 1, (rank + 1) * 0x2545f4914f6cdd1dULL },
		};
	while (any) {
		any = false;
		/* In another order each time. */
		i = rnd_below(&seed, size);
		for (rank = 0; rank < size; rank++)
			if (!go(size, (rank * 7 + i) % size, &any) || !go(size, rank, &any))
				return false;
	}
	return ended(size);
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
		want = size == 3 ? 8192 : size == 5 || size == 6 ? 16384 :
		       size == 7 || (size >= 9 && size <= 11) ? 32768 : 65536;
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
	test_mutants();
	return tap_end();
}
