/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recursive halving and doubling of an all-reduce: each rank adds its part of
 * the tensor, and then gets the sums that the others have made. A
 * reduce-scatter ends after the first half, and an all-gather is the second
 * half. Pure arithmetic, as core/ring.h; selftests/host also builds it in user
 * space.
 *
 * In each step a rank sends the partial sums of one range of chunks to another
 * rank, and keeps the rest. To what it keeps it adds what comes in the same
 * step. In the end it has the complete sums of a range of its own. Then sums go
 * back by the same pairs in the other order: each rank sends the sums of what
 * came in a step to the rank that it came from, and gets those of what it gave
 * away. So 2 (size-1)/size of the tensor leave each rank, in 2 log2(size) hops.
 *
 * Of 2^k ranks, two exchange in each step, those of recursive doubling
 * (core/stages.h) in stage s, and each sum is made of the same operands in the
 * same order: the bits are those of doubling. The two have partial sums of the
 * same chunks. The rank whose number has bit s clear keeps the first half of
 * these, and its peer the second half:
 *
 *	rank		 0	 1	 2	 3	chunks of 0..7
 *	s = 0, keeps	 0-3	 4-7	 0-3	 4-7	of ranks 0+1, 2+3
 *	s = 1, keeps	 0-1	 4-5	 2-3	 6-7	of all four
 *	s = 1, gets	 2-3	 6-7	 0-1	 4-5	sums
 *	s = 0, gets	 4-7	 0-3	 4-7	 0-3	sums
 *
 * In an all-reduce of another number of ranks, 2^k + e, the first 2e ranks are
 * e pairs. By doubling the second rank of a pair is folded, see core/stages.h.
 * By halving the two share the work. First they exchange halves of the tensor,
 * and then the first rank has the pair's sum of the first half, and the second
 * rank its sum of the second half. Now there are 2^k numbers, each of a pair or
 * of a single rank, which has both halves. Among these numbers each half is
 * halved as above, by itself. Again the bits are those of doubling.
 *
 *	rank		0	1	2	3	4	chunks of 0..15
 *	exchange	0-7	8-15				of 0+1
 *	s = 0		0-3	8-11	4-7,	0-3,	4-7,	of 0+1+2, 3+4
 *					12-15	8-11	12-15
 *	s = 1		0-1	8-9	4-5,	2-3,	6-7,	of all
 *					12-13	10-11	14-15
 *
 * In a reduce-scatter, and an all-gather, rank r has the r-th share of the
 * tensor. Of 2^k ranks, each then keeps consecutive shares, its own among them,
 * if the pairs are used in the other order: s = k-1 first.
 *
 *	rank		 0	 1	 2	 3	shares
 *	s = 1, keeps	 0-1	 0-1	 2-3	 2-3	of 0+2, 1+3
 *	s = 0, keeps	 0	 1	 2	 3	of all
 *
 * With another number of ranks each counts the shares from its own on, round:
 * the share at position p is that of rank r + p. With m, the largest power of
 * two below the size, it first sends the shares at m and beyond to rank r + m,
 * where they lie at positions from 0 on; then those from m/2 to m-1 to rank
 * r + m/2, and so on, until it has its own one only. So the share at position p
 * goes as the bits of p say, and comes home from each rank once. Of six ranks:
 *
 *	step			 0		1		2
 *	a rank keeps		 0-3		0-1		0
 *	it sends		 4-5 to r+4	2-3 to r+2	1 to r+1
 *	to what comes it adds	 0-1		0-1		0
 *
 * No chunk waits for another one: each goes through the steps by itself.
 *
 * The chunks have numbers, in this order: those of the tensor (going round:
 * from the rank's own share on), which are the contribution of this rank, and
 * in the end the sums; and for each step those that come in it. The sum of an
 * arrival and of what this rank has takes the arrival's place, or in the last
 * step the tensor's. A chunk of the tensor that this rank has given away is
 * overwritten by its sum, which proves that the other rank had it. So nothing
 * is overwritten that may have to be sent again. At the rank that it goes to a
 * chunk has another number, see rar_halving_there(). In an all-gather only the
 * tensor has numbers.
 *
 * Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005, section 4.5, but for the work that
 * pairs share; J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby,
 * "Efficient Algorithms for All-to-All Communications in Multiport
 * Message-Passing Systems", 1997, whose concatenation goes round as here.
 */
#ifndef _RAR_HALVING_H
#define _RAR_HALVING_H

#include "core/ring.h"

#define RAR_NO_STEP	U32_MAX

/**
 * struct rar_step - what a rank does in a step
 * @to:    the rank to which it sends partial sums, and from which sums come;
 *         RAR_NO_RANK: none
 * @gives: chunks of the tensor that it sends there
 * @from:  the rank from which partial sums come, and to which sums go;
 *         RAR_NO_RANK: none
 * @comes: chunks of the tensor that come
 * @after: @from has the sum of higher ranks than this rank
 */
struct rar_step {
	u32 to;
	struct rar_range gives;
	u32 from;
	struct rar_range comes;
	bool after;
};

/* With 4095 ranks: 22 that have halves, and going round 12 up and 12 down. */
#define RAR_PARTNERS_MAX	48

/**
 * struct rar_partners - the ranks with which a rank exchanges anything
 * @n:    ranks
 * @rank: of each; first those of all-reduces, among which are its peers by
 *        doubling
 * @used: those that have a part in an operation, a bit each
 * @owed: chunks of the operation that are sent to each
 */
struct rar_partners {
	u32 n;
	u32 rank[RAR_PARTNERS_MAX];
	u64 used;
	u32 owed[RAR_PARTNERS_MAX];
};

/* The chunks of a share; of the tensor, if ranks have none. */
static inline u32 rar_halving_share(const struct rar_ring *ring)
{
	return ring->cpb / ring->plan.shares;
}

/* Is a chunk of the tensor in a range? */
static inline bool rar_range_has(struct rar_range range, u32 nth)
{
	return nth >= range.first && nth - range.first < range.n;
}

struct rar_halves rar_halves_of(u32 size, u32 rank, bool shares);
void rar_halves_partners(u32 size, u32 rank, struct rar_partners *partners);
u32 rar_halving_bytes(u32 size);

struct rar_step rar_halving_step(const struct rar_ring *ring, u32 step);
bool rar_halving_ends(const struct rar_ring *ring, u32 step);
struct rar_range rar_halving_side(const struct rar_ring *ring, u32 nth);
struct rar_range rar_halving_own(const struct rar_ring *ring);
u32 rar_halving_slot(u64 share, u32 payload);
u32 rar_halving_total(const struct rar_plan *plan, u32 chunks);
u32 rar_halving_partial(const struct rar_ring *ring, u32 step, u32 nth);
u32 rar_halving_arrival(const struct rar_ring *ring, u32 step, u32 nth);
u32 rar_halving_nth(const struct rar_ring *ring, u32 chunk);
u32 rar_halving_share_end(const struct rar_ring *ring, u32 nth);
void rar_halving_chunk(const struct rar_ring *ring, u32 chunk,
		       struct rar_chunk *c);
u32 rar_halving_of(const struct rar_ring *ring, u32 chunk, u32 n);
u32 rar_halving_sender(const struct rar_ring *ring, u32 chunk, u32 n);
void rar_halving_partners(const struct rar_ring *ring,
			  struct rar_partners *partners);

#endif /* _RAR_HALVING_H */
