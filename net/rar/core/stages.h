/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stages of recursive doubling: a rank exchanges partial sums with one peer
 * after another. Pure arithmetic on (size, rank), as core/ring.h;
 * selftests/host also builds it in user space.
 *
 * Of 2^k ranks, stage s = 0 .. k-1 pairs two ranks whose numbers differ in bit
 * s only. Before the stage a rank has the sum of 2^s consecutive ranks, itself
 * among them. It sends this sum to its peer, and adds the sum of the lower
 * ranks and the sum of the higher ranks, in this order. So after stage s each
 * of 2^(s+1) consecutive ranks has the sum of them all, with the same bits:
 *
 *	rank	 0	 1	 2	 3	 4	 5	 6	 7
 *	s = 0	 0+1	 0+1	 2+3	 2+3	 4+5	 4+5	 6+7	 6+7
 *	s = 1	   (0+1)+(2+3)  at four		   (4+5)+(6+7)  at four
 *	s = 2		((0+1)+(2+3)) + ((4+5)+(6+7))  at all
 *
 * With another number of ranks, 2^k + e, the odd ones among the first 2e are
 * folded. In a first stage a folded rank sends its contribution to the rank
 * before it, which adds it to its own. The 2^k ranks that are not folded (the
 * cores) do as above. In a last stage the folded ranks get the sum. So there
 * are log2(size) stages, or two more than log2(size) rounded down.
 *
 * A reduction to a root is a part of it: a binomial tree. A rank adds what
 * comes, until the stage in which its peer is nearer to the root. Then it sends
 * its partial sum there, and is done. The sums, and so the bits, are those
 * above. If the root is folded, the rank before it has the sum first. Root 0:
 *
 *	rank	 0	 1	 2	 3	 4	 5	 6	 7
 *	s = 0	 0+1	 sends	 2+3	 sends	 4+5	 sends	 6+7	 sends
 *	s = 1	   (0+1)+(2+3)	 sends		   (4+5)+(6+7)	 sends
 *	s = 2		((0+1)+(2+3)) + ((4+5)+(6+7))	 rank 4 sends
 *
 * A broadcast is the same tree, in which every edge has the other direction.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005, sections 4.1 and 4.5.
 */
#ifndef _RAR_STAGES_H
#define _RAR_STAGES_H

#ifdef __KERNEL__
#include <linux/limits.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif

#define RAR_STAGES_MAX	14	/* 4095 ranks: 11 and two more; 4096: 12 */
#define RAR_NO_STAGE	U32_MAX

/*
 * The bytes that a link and the hosts pass on in the time that a hop takes
 * besides: 15 us at 0.8 GB/s. "scripts/sim depth" shows where the ring is
 * faster with links of 10 Gbit/s and 10 us; with longer links it is so for
 * longer tensors only.
 */
#define RAR_HOP_BYTES		12288

/* Limits of rar_stages_bytes(): a question has a bit for each of 64 chunks. */
#define RAR_STAGES_MIN_BYTES	8192
#define RAR_STAGES_MAX_BYTES	65536

/*
 * The longest operation by halving, of which the kernel has a copy: that may be
 * set, and of rar_halving_bytes().
 */
#define RAR_HALVING_MAX_BYTES	(16U << 20)
#define RAR_HALVING_BYTES	(1 << 20)

/**
 * struct rar_stages - the stages of one rank
 * @n:      stages of the group
 * @rank:   the rank
 * @cores:  ranks that are not folded: a power of two
 * @folded: ranks that are folded; 0 = the size is a power of two
 * @first:  the stage with which the rank begins
 * @last:   before this stage the rank has made all its partial sums
 * @odd:    the rank is folded: it sends in the first stage
 * @whole:  the last of its partial sums is the sum of all
 * @gets:   the sum of all comes in the last stage
 * @rooted: a reduction to a root, or the tree of a broadcast
 * @root:   @rooted: the root
 */
struct rar_stages {
	u32 n;
	u32 rank;
	u32 cores;
	u32 folded;
	u32 first;
	u32 last;
	bool odd;
	bool whole;
	bool gets;
	bool rooted;
	u32 root;
};

/**
 * struct rar_stage - what a rank does in a stage
 * @peer:  the other rank; there is none if @sends and @takes are false
 * @sends: this rank sends its partial sum to @peer
 * @takes: @peer sends its partial sum to this rank
 * @after: @peer has the sum of higher ranks than this rank
 */
struct rar_stage {
	u32 peer;
	bool sends;
	bool takes;
	bool after;
};

/* Does anything come to a rank, or has it only to send its contribution? */
static inline bool rar_stages_wait(const struct rar_stages *st)
{
	return st->gets || st->first < st->last;
}

struct rar_stages rar_stages_of(u32 size, u32 rank);
struct rar_stages rar_stages_to(u32 size, u32 rank, u32 root);
struct rar_stage rar_stage(const struct rar_stages *st, u32 stage);
u32 rar_stages_bytes(u32 size);
u32 rar_stages_share(u32 size);
u32 rar_stage_from(const struct rar_stages *st, u32 rank);
u32 rar_stage_to(const struct rar_stages *st, u32 rank);
u32 rar_tree_parent(const struct rar_stages *st);
u32 rar_tree_child(const struct rar_stages *st, u32 *stage);

#endif /* _RAR_STAGES_H */
