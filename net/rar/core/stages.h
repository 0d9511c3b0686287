/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stages of recursive doubling: with whom a rank exchanges partial sums, in
 * which order. Pure arithmetic on (size, rank), as core/ring.h; selftests/host
 * also builds it in user space.
 *
 * With 2^k ranks stage s = 0 .. k-1 pairs each rank with the one whose number
 * differs in bit s. Both send the sum of the 2^s ranks around them, and add
 * both sums, that of the lower ranks first. So after stage s each of 2^(s+1)
 * ranks that follow one another has the sum of all of these, and all of them
 * have the same bits:
 *
 *	rank	 0	 1	 2	 3	 4	 5	 6	 7
 *	s = 0	 0+1	 0+1	 2+3	 2+3	 4+5	 4+5	 6+7	 6+7
 *	s = 1	   (0+1)+(2+3)  at four		   (4+5)+(6+7)  at four
 *	s = 2		((0+1)+(2+3)) + ((4+5)+(6+7))  at all
 *
 * With another number of ranks, 2^k + e, the first 2e of them are folded: a
 * first stage adds the contribution of each odd one to that of the rank before
 * it, the 2^k ranks that are left (the cores) do as above, and a last stage
 * sends the sum back to the odd ones. So there are log2(size) stages, or that
 * rounded down and two more.
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

#define RAR_STAGES_MIN_BYTES	8192	/* rar_stages_bytes(), and the ring is one block */
#define RAR_STAGES_MAX_BYTES	65536	/* 64 chunks at most: see direct.c */

/**
 * struct rar_stages - the stages of one rank
 * @n:      stages of the group
 * @rank:   the rank
 * @cores:  ranks that take part in all stages but those that fold: a power of
 *          two
 * @folded: ranks that do not; 0 = the size is a power of two
 * @first:  the stage with which the rank begins
 * @last:   before this stage the rank has the sum of all, unless it is folded
 *          itself
 * @odd:    the rank is folded: it sends in the first stage, and gets the sum in
 *          the last one
 */
struct rar_stages {
	u32 n;
	u32 rank;
	u32 cores;
	u32 folded;
	u32 first;
	u32 last;
	bool odd;
};

/**
 * struct rar_stage - what a rank does in a stage
 * @peer:  the other rank; @sends and @takes are false: there is none
 * @sends: it sends @peer what it has
 * @takes: it gets from @peer what that has
 * @after: the ranks whose sum @peer has come after those whose sum this rank
 *         has
 */
struct rar_stage {
	u32 peer;
	bool sends;
	bool takes;
	bool after;
};

struct rar_stages rar_stages_of(u32 size, u32 rank);
struct rar_stage rar_stage(const struct rar_stages *st, u32 stage);
u32 rar_stages_bytes(u32 size);
u32 rar_stage_from(const struct rar_stages *st, u32 rank);
u32 rar_stage_to(const struct rar_stages *st, u32 rank);

#endif /* _RAR_STAGES_H */
