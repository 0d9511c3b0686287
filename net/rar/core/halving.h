/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recursive halving and doubling of an all-reduce: each rank adds its share of
 * the tensor, and then gets the sums that the others have made. A
 * reduce-scatter ends after the first half, and an all-gather is the second
 * half. Pure arithmetic, as core/ring.h; selftests/host also builds it in user
 * space.
 *
 * The stages are those of recursive doubling (core/stages.h), with the same
 * peers, and each sum is made of the same operands in the same order: the bits
 * are those of doubling. But a rank sends only half of what it has. The two
 * peers of stage s have partial sums of the same chunks. The peer whose number
 * has bit s clear keeps the first half of these, and its peer the second half.
 * After log2(size) stages each rank has the complete sums of a range of its
 * own. Then sums go back by the same pairs in the other order: in stage s a
 * rank sends all that it kept in that stage, and gets all that it gave away. So
 * 2 (size-1)/size of the tensor leave each rank, in 2 log2(size) hops.
 *
 *	rank		 0	 1	 2	 3	chunks of 0..7
 *	s = 0, keeps	 0-3	 4-7	 0-3	 4-7	of ranks 0+1, 2+3
 *	s = 1, keeps	 0-1	 4-5	 2-3	 6-7	of all four
 *	s = 1, gets	 2-3	 6-7	 0-1	 4-5	sums
 *	s = 0, gets	 4-7	 0-3	 4-7	 0-3	sums
 *
 * A folded rank sends all of its contribution to its neighbour first, and gets
 * all sums from it last.
 *
 * In a reduce-scatter, and an all-gather, rank r has the r-th share of the
 * tensor. So that each rank keeps consecutive shares, its own among them, the
 * pairs of recursive doubling are used in the other order: stage s is that of
 * the bit log2(size)-1-s. The size is a power of two, so no rank is folded.
 *
 *	rank		 0	 1	 2	 3	shares
 *	s = 0, keeps	 0-1	 0-1	 2-3	 2-3	of 0+2, 1+3
 *	s = 1, keeps	 0	 1	 2	 3	of all
 *
 * No chunk waits for another one: each goes through the stages by itself.
 *
 * The chunks have numbers, in this order: those of the tensor (the contribution
 * of this rank, and in the end the sums); if ranks are folded, those that come
 * from one; and for each stage those that come in it. The sum of an arrival and
 * of what this rank has takes the arrival's place, or in the last stage the
 * tensor's. A chunk of the tensor that this rank has given away is overwritten
 * by its sum, which proves that the peer had it. So nothing is overwritten that
 * may have to be sent again. A partial sum has other numbers at its peer, see
 * rar_halving_there(). In an all-gather only the tensor has numbers.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005, section 4.5.
 */
#ifndef _RAR_HALVING_H
#define _RAR_HALVING_H

#include "core/ring.h"

/* Chunks of the tensor that follow one another. */
struct rar_range {
	u32 first;
	u32 n;
};

/* The stage of the first halving: folded ranks send before it. */
static inline u32 rar_halving_first(const struct rar_stages *st)
{
	return !!st->folded;
}

/* The stages in which ranges are halved; they follow one another. */
static inline u32 rar_halving_stages(const struct rar_stages *st)
{
	return st->n - 2 * rar_halving_first(st);
}

/* The chunks of a share; of the tensor, if ranks have none. */
static inline u32 rar_halving_share(const struct rar_ring *ring)
{
	return ring->cpb / ring->plan.shares;
}

struct rar_stage rar_halving_pair(const struct rar_ring *ring, u32 stage);
u32 rar_halving_slot(u64 share, u32 payload);
u32 rar_halving_total(const struct rar_plan *plan, u32 chunks);
struct rar_range rar_halving_keeps(const struct rar_ring *ring, u32 halving);
struct rar_range rar_halving_gives(const struct rar_ring *ring, u32 halving);
u32 rar_halving_partial(const struct rar_ring *ring, u32 stage, u32 nth);
u32 rar_halving_arrival(const struct rar_ring *ring, u32 stage, u32 nth);
u32 rar_halving_nth(const struct rar_ring *ring, u32 chunk);
void rar_halving_chunk(const struct rar_ring *ring, u32 chunk,
		       struct rar_chunk *c);
u32 rar_halving_stage_of(const struct rar_ring *ring, u32 chunk, u32 n);
u32 rar_halving_links(const struct rar_stages *st);
u32 rar_halving_link(const struct rar_stages *st, u32 stage);
u32 rar_halving_owed(const struct rar_ring *ring, u32 link);

#endif /* _RAR_HALVING_H */
