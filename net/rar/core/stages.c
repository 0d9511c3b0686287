// SPDX-License-Identifier: GPL-2.0
/* The stages of recursive doubling (see stages.h). */
#include "core/stages.h"

static u32 lowest_bit(u32 bits)
{
	u32 n = 0;

	for (; !(bits & 1); bits >>= 1)
		n++;
	return n;
}

/* The number of a rank among the cores, and the rank with such a number. */
static u32 core_of(const struct rar_stages *st, u32 rank)
{
	return rank < 2 * st->folded ? rank / 2 : rank - st->folded;
}

static u32 rank_of(const struct rar_stages *st, u32 core)
{
	return core < st->folded ? 2 * core : core + st->folded;
}

/**
 * rar_stages_of() - find the stages of a rank
 * @size: ranks, at least 1
 * @rank: less than @size
 *
 * Return: the stages; none in a group of one.
 */
struct rar_stages rar_stages_of(u32 size, u32 rank)
{
	struct rar_stages st = { .rank = rank, .cores = 1 };
	bool pair;

	for (; st.cores <= size / 2; st.cores *= 2)
		st.n++;
	st.folded = size - st.cores;
	st.last = st.n;
	if (st.folded) {
		pair = rank < 2 * st.folded;
		st.odd = pair && rank % 2;
		st.first = !pair;
		st.last = st.odd ? 0 : st.n + 1;
		st.n += 2;
	}
	st.whole = !st.odd;
	st.gets = st.odd;
	return st;
}

/* The bits in which a core differs from the root's core; 0: it is that. */
static u32 far(const struct rar_stages *st)
{
	return core_of(st, st->rank) ^ core_of(st, st->root);
}

/**
 * rar_stages_to() - find the stages of a rank in a reduction to a root
 * @size: ranks, at least 1
 * @rank: less than @size
 * @root: less than @size
 *
 * Return: the stages; none in a group of one.
 */
struct rar_stages rar_stages_to(u32 size, u32 rank, u32 root)
{
	struct rar_stages st = rar_stages_of(size, rank);
	u32 bits;

	st.rooted = true;
	st.root = root;
	st.gets = st.odd && rank == root;
	bits = far(&st);
	st.whole = !st.odd && !bits;
	if (!st.odd && bits)
		st.last = !!st.folded + lowest_bit(bits);
	return st;
}

/**
 * rar_stages_bytes() - the longest tensor that doubling is for
 * @size: ranks, at least 2
 *
 * T stages pass on all of it, 2(N-1) hops of the ring 1/N each. So doubling is
 * faster up to RAR_HOP_BYTES * (2(N-1) - T) / (T - 2(N-1)/N) bytes. The bits of
 * a sum depend on it, so it hangs on the number of ranks alone.
 *
 * Return: bytes, a power of two, from RAR_STAGES_MIN_BYTES, up to which the
 * ring does not cut a tensor and is slower with any number of ranks, to
 * RAR_STAGES_MAX_BYTES.
 */
u32 rar_stages_bytes(u32 size)
{
	u32 stages = rar_stages_of(size, 0).n, hops = 2 * (size - 1);
	u64 more = (u64)(hops - stages) * size, less = stages * size - hops;
	u32 bytes = RAR_STAGES_MIN_BYTES, most = RAR_STAGES_MAX_BYTES;

	/* Folded ranks wait for two stages more. By halving they do not. */
	if (rar_stages_of(size, 0).folded)
		most /= 2;
	while (bytes < most &&
	       2 * bytes * less <= RAR_HOP_BYTES * more)
		bytes *= 2;
	return bytes;
}

/**
 * rar_stages_share() - the longest share that is gathered by doubling
 * @size: ranks, at least 2
 *
 * By doubling all shares pass in each stage, in a packet or two. By halving,
 * and by the ring, each share needs a packet of its own at each rank. As
 * "scripts/sim shares" prints, halving is slower up to shares of 512 bytes,
 * whatever the number of ranks.
 *
 * Return: bytes; 0 if the ring takes as few hops. The same holds for the shares
 * of a reduce-scatter.
 */
u32 rar_stages_share(u32 size)
{
	return size < 4 ? 0 : 512;
}

/* The stage in which folded ranks send, or in which they get the sum. */
static struct rar_stage stage_of_pair(const struct rar_stages *st, bool begins)
{
	if (st->rank >= 2 * st->folded)
		return (struct rar_stage) { };
	/* Of a reduction only the root gets the sum. */
	if (!begins && st->rooted && (st->rank | 1) != st->root)
		return (struct rar_stage) { };
	return (struct rar_stage) {
		.peer = st->rank ^ 1,
		.sends = st->odd == begins,
		.takes = st->odd != begins,
		.after = true,
	};
}

/**
 * rar_stage() - find what a rank does in a stage
 * @st:    its stages
 * @stage: less than @st->n
 *
 * Return: the stage.
 */
struct rar_stage rar_stage(const struct rar_stages *st, u32 stage)
{
	u32 core = core_of(st, st->rank), bit = stage - !!st->folded;
	u32 bits = st->rooted ? far(st) : 0;

	if (st->folded && (!stage || stage == st->n - 1))
		return stage_of_pair(st, !stage);
	/* It has sent its partial sum in an earlier stage. */
	if (st->odd || bits & ((1U << bit) - 1))
		return (struct rar_stage) { };
	return (struct rar_stage) {
		.peer = rank_of(st, core ^ (1U << bit)),
		.sends = !st->rooted || bits >> bit & 1,
		.takes = !st->rooted || !(bits >> bit & 1),
		.after = !(core >> bit & 1),
	};
}

/*
 * The stage in which this rank takes something from a rank, or sends it
 * something. Return: RAR_NO_STAGE if there is none.
 */
static u32 stage_with(const struct rar_stages *st, u32 rank, bool takes)
{
	struct rar_stage stage;
	u32 s;

	for (s = 0; s < st->n; s++) {
		stage = rar_stage(st, s);
		if ((takes ? stage.takes : stage.sends) && stage.peer == rank)
			return s;
	}
	return RAR_NO_STAGE;
}

/* The stage in which @rank, which may be any, sends something here. */
u32 rar_stage_from(const struct rar_stages *st, u32 rank)
{
	return stage_with(st, rank, true);
}

/* The stage in which something goes to @rank, which may be any. */
u32 rar_stage_to(const struct rar_stages *st, u32 rank)
{
	return stage_with(st, rank, false);
}

/**
 * rar_tree_parent() - find from whom a rank gets a broadcast
 * @st: from rar_stages_to()
 *
 * Return: the rank to which it sends in a reduction to that root; its own rank
 * at the root.
 */
u32 rar_tree_parent(const struct rar_stages *st)
{
	struct rar_stage stage;
	u32 s;

	for (s = st->n; s && st->rank != st->root; s--) {
		stage = rar_stage(st, s - 1);
		if (stage.sends)
			return stage.peer;
	}
	return st->rank;
}

/**
 * rar_tree_child() - find to whom a rank sends a broadcast
 * @st:    from rar_stages_to()
 * @stage: @st->n to begin with; set to the child's stage, for the next call
 *
 * Return: the child with the next smaller tree below it, or RAR_NO_STAGE.
 */
u32 rar_tree_child(const struct rar_stages *st, u32 *stage)
{
	u32 parent = rar_tree_parent(st);
	struct rar_stage at;

	while (*stage) {
		at = rar_stage(st, --*stage);
		if (at.takes && at.peer != parent)
			return at.peer;
	}
	return RAR_NO_STAGE;
}
