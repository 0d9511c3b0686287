/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring schedule: where each chunk comes from, where it goes, and when it is done. Pure
 * arithmetic on (bytes, plan, payload) without kernel objects; selftests/host also builds
 * it in user space.
 *
 * The tensor is cut into as many blocks as there are ranks. Their equal length is rounded
 * up to RAR_BLOCK_ALIGN, and rank b injects block b. A short tensor, of up to
 * RAR_SMALL_BYTES, is not cut: a block takes 2(size-1) packets however short
 * it is, and with several blocks all ranks except two would wait as long.
 * "dist" is the number of hops from the injector to a rank.
 *
 *   dist       0        1        ...      size-2      size-1
 *   RS      inject -> add+fwd -> ...  -> add+fwd ->  add, final
 *   AG  .-> store+fwd -> store+fwd -> ... -> store      | start
 *       '----------------------------------------------'
 *
 * Every sum is therefore ((x_b + x_b+1) + x_b+2) + ... whatever the payload,
 * the MTU or the path of the packets.
 *
 * By hosts: consecutive ranks on one host pass chunks on in memory, so only the links
 * between hosts count. There are as many blocks as hosts. The first rank of host b injects
 * block b, so a block leaves a host when all ranks of the host have added to it. Its sums
 * are complete at the last rank of the host before b. From there they go round as always,
 * except over the last link, and in memory "back" to the first rank of that host. So
 * 2(hosts-1)/hosts of a tensor cross each link between hosts, instead of 2(size-1)/size.
 * Block 2 of three hosts with the ranks 0-2, 3-4 and 5-6:
 *
 *   RS   5 -> 6  =>  0 -> 1 -> 2  =>  3 -> 4		-> in memory
 *   AG   4  =>  5 -> 6  =>  0 -> 1 -> 2		=> between hosts
 *        4 -> 3					back
 *
 * Every collective is a row of one table. Block b of an operation starts at one rank, is
 * complete at another, and stops at a third. RS leads from start to completion, AG from
 * there to the stop:
 *
 *			blocks		starts	complete  stops	hops
 *	ALLREDUCE	size or hosts	b	b-1	  b-2	2(size-1)
 *	 in rank order	1		0	-1	  -2	2(size-1)
 *	REDUCE_SCATTER	size, exact	b+1	b	  b	size-1
 *	ALLGATHER	size, exact	b	b	  b-1	size-1
 *	BROADCAST	1		root	root	  root-1 size-1
 *	REDUCE		1		root+1	root	  root	size-1
 *
 * If a block starts where it is complete there is no RS; if it stops there, no AG.
 * Everything that a rank does follows from the table; see struct rar_plan.
 *
 * Direct: every block goes from the rank where it starts to each rank that needs it, in one hop.
 * No chunk is passed on. So goes a short broadcast; and a short all-reduce, as
 * an all-gather of all contributions: block b is the whole contribution of
 * rank b. Every rank then adds all of them in rank order (core/gather.c), as a
 * single block is added that goes round. So goes a short all-gather as well, of
 * which block b is the share of rank b.
 *
 * Doubling: a short all-reduce, or reduction to a root, by recursive doubling,
 * log2(size) stages (core/stages.h). With short shares a reduce-scatter goes so
 * as well, of whose sum each rank takes its share, and an all-gather, in which
 * a rank contributes its share and zeros, and bits are ORed. There is a block
 * for the arrival of each stage, and after these a block for each partial sum
 * that this rank makes: as many, and another for the last. Each is as long as
 * the tensor. This rank's partial sum before stage s becomes the peer's arrival
 * of stage s, which the peer adds to its own partial sum before stage s; see
 * ring/doubling.c. In a packet a chunk has the number that it has at the
 * receiver.
 *
 * Tree: a short broadcast may go to the ranks of a tree, each of which sends it
 * on to its children, log2(size) hops.
 *
 * Halving: an all-reduce by recursive halving and doubling (core/halving.h), in
 * 2 log2(size) hops that pass on no more bytes than the ring's. A
 * reduce-scatter is the first half of it, and an all-gather the second half.
 *
 * A keyed reduction has no blocks: its ranks send streams of records (ring/keyed.c).
 */
#ifndef _RAR_RING_H
#define _RAR_RING_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#else
#include "shim.h"
#endif
#include <linux/rar.h>
#include <linux/rar_wire.h>

#include "core/stages.h"

#define RAR_BLOCK_ALIGN	64
#define RAR_SMALL_BYTES	8192		/* the bits of a sum depend on it */
#define RAR_MAX_BYTES	0x10000000000ULL	/* one operation: 1 TiB */

/* Partial sums travel (reduce-scatter), or complete data (all-gather). */
enum rar_phase { RAR_RS, RAR_AG, RAR_PHASES };

/*
 * The links of a member: to its successor, to RAR_LEGS boxes and from its predecessor. Links by
 * which a member sends chunks come first; there are RAR_OUTS of them.
 */
#define RAR_LEGS	RAR_MAX_BOXES

enum rar_link_index {
	RAR_NEXT,
	RAR_LEG,
	RAR_OUTS = RAR_LEG + RAR_LEGS,
	RAR_PREV = RAR_OUTS,
	RAR_LINKS
};

/* How a rank combines a chunk that arrives with its buffer. */
enum rar_combine {
	RAR_COMBINE_NONE,		/* it cannot come here */
	RAR_COMBINE_ADD,		/* sum = in + own */
	RAR_COMBINE_STORE,
};

/* The way of an operation's chunks, from its mode, which may be anything. */
static inline u32 rar_mode_way(u16 mode)
{
	return mode >> 12;
}

static inline u16 rar_way_mode(enum rar_wire_way way)
{
	return way << 12;
}

/* Do chunks go straight to the ranks that need them? @way may be anything. */
static inline bool rar_way_is_direct(u32 way)
{
	return way == RAR_WAY_DIRECT || way == RAR_WAY_DOUBLING ||
	       way == RAR_WAY_HALVING;
}

/* Do chunks that go directly have numbers? @mode may be anything. */
static inline bool rar_mode_is_numbered(u16 mode)
{
	return rar_mode_way(mode) == RAR_WAY_HALVING;
}

#define RAR_NO_BLOCK	U32_MAX
#define RAR_ALL_BLOCKS	(U32_MAX - 1)

/**
 * struct rar_place - where a rank is in its group
 * @size:  ranks in all, at least 1
 * @rank:  less than @size
 * @hosts: hosts, each with ranks that follow one another; 0 = all ranks are alike
 * @host:  the rank's host, less than @hosts; rank 0 is on host 0
 * @ranks: ranks on this host, at least 1
 * @index: the rank's index among them
 * @boxes: the boxes that the group named, by which sums, broadcasts and
 *         reductions to a root may go aside of the ring. The chunks of an
 *         operation are divided among them
 */
struct rar_place {
	u32 size;
	u32 rank;
	u32 hosts;
	u32 host;
	u32 ranks;
	u32 index;
	u32 boxes;
};

/*
 * May records of keyed reductions go by a box? Of two ranks it would combine
 * nothing.
 */
static inline bool rar_place_keyed(const struct rar_place *place)
{
	return place->boxes && place->size > 2;
}

/**
 * struct rar_halves - how the ranks of a group halve, see core/halving.h
 * @size:   ranks
 * @rank:   this rank
 * @bits:   log2 of @size, rounded down
 * @n:      steps
 * @shares: each rank has a share, as long as all others
 */
struct rar_halves {
	u32 size;
	u32 rank;
	u32 bits;
	u32 n;
	bool shares;
};

/**
 * struct rar_plan - what one rank does in one operation
 * @parts:  blocks that the tensor is cut into, each injected by one rank
 * @starts: by phase, the block that starts here and so never arrives in that phase
 * @ends:   by phase, the block that goes no further
 * @exact:  all blocks are equally long, to the byte
 * @shares: ranks, if each contributes or gets a share of the tensor, and all
 *          shares are equally long; else 1
 * @share:  the share of this rank
 * @direct: no chunk is passed on
 * @gathered: @direct, and each block is a whole contribution, or partial sum,
 *            of the tensor's length; or a whole share, if @exact is set, too
 * @doubling: by recursive doubling; then @gathered and @direct are set, too
 * @halving: by recursive halving and doubling; then @gathered and @direct are
 *          set, too
 * @scatters: each rank contributes all of the tensor, not only its share. By
 *          halving: ranks add, each its share
 * @gathers: each rank gets all of it, or none. By halving: ranks get the shares
 *          of others
 * @tree:   a broadcast by the tree of @stages; then @direct is set, too
 * @stages: @doubling and @tree: the stages of this rank
 * @halves: @halving: how the ranks halve
 * @sum:    @gathered: the block that the sum lies in, which may be one after
 *          the last; RAR_NO_BLOCK: this rank gets none
 * @back:   the block that starts here in RAR_AG also goes in memory to the first rank of
 *          this host
 * @aside:  any of the sums may also be made aside of the ring. Then a sum may come here of any
 *          block, and may be wanted by the successor; see design/box.rst. Of a broadcast, what
 *          is called a sum there is a copy of the root's contribution. Of a reduction to a root,
 *          sums come only there, and partial sums may be wanted
 * @boxes:  @aside: the boxes among which the chunks are divided
 *
 * RAR_NO_BLOCK in @starts or @ends: no block starts or ends here. RAR_ALL_BLOCKS in both:
 * the operation does not have that phase.
 */
struct rar_plan {
	u32 parts;
	u32 starts[RAR_PHASES];
	u32 ends[RAR_PHASES];
	bool exact;
	u32 shares;
	u32 share;
	bool gathered;
	bool direct;
	bool doubling;
	bool halving;
	bool scatters;
	bool gathers;
	bool tree;
	struct rar_stages stages;
	struct rar_halves halves;
	u32 sum;
	bool back;
	bool aside;
	u32 boxes;
};

/* Bytes of a tensor, from @off on. */
struct rar_span {
	u64 off;
	u64 len;
};

/* Chunks of a tensor that follow one another. */
struct rar_range {
	u32 first;
	u32 n;
};

/**
 * struct rar_ring - the schedule of one operation at one rank
 * @bytes:   all blocks together: the tensor, 0 .. RAR_MAX_BYTES; if gathered, as many times
 *           the tensor as there are blocks. By halving: the tensor
 * @block:   bytes of a block (the last one may be short); 0 if @bytes is 0. By
 *           halving: of a share
 * @payload: bytes of a chunk (a block's last one may be short)
 * @nblocks: blocks that exist, at least 1 (block 0, possibly empty); all blocks if gathered
 * @cpb:     chunks of a full block. By halving: chunks of the tensor
 * @nchunks: chunks of the operation. By halving: numbers that chunks have here
 * @plan:    what the rank does
 * @lead:    the first chunks of each block, which lie in the lead; see rar_ring_lead()
 * @lead_block: bytes of the lead that go with a block
 * @lead_bytes: bytes of the lead, which lies before all blocks and counts in @bytes
 * @part:    chunks of each block that go to the same box, if there are several; else 0
 */
struct rar_ring {
	u64 bytes;
	u64 block;
	u32 payload;
	u32 nblocks;
	u32 cpb;
	u32 nchunks;
	struct rar_plan plan;
	u32 lead;
	u64 lead_block;
	u64 lead_bytes;
	u32 part;
};

/**
 * struct rar_owed - what a rank sends of an operation by one of its links
 * @first: first own chunk that it injects
 * @own:   own chunks that it injects
 * @ntx:   transmissions: one per chunk and phase
 * @nback: chunks that go in memory to the first rank of this host
 * @used:  the operation uses the link
 * @up:    own contributions go by it in RAR_RS, or questions of a rank that has none, and nothing
 *         must: another link may bring the sums. They do not come round, and take no room in the
 *         injection window
 * @until_done: the neighbour may want any chunk until it has completed the operation; @ntx and
 *         @nback do not say when the operation is released
 */
struct rar_owed {
	u32 first;
	u32 own;
	u32 ntx;
	u32 nback;
	bool used;
	bool up;
	bool until_done;
};

/* Where a chunk lies: byte offset and length in the tensor, and its block. */
struct rar_chunk {
	u64 off;
	u32 len;
	u32 block;
};

/* By halving, see core/halving.h */
u32 rar_halving_end(const struct rar_ring *ring, u32 chunk);
u32 rar_halving_there(const struct rar_ring *ring, bool sums, u32 chunk,
		      u32 rank);

/*
 * Index of the chunk after the block that @chunk belongs to; or after the block's lead, or after
 * the part of the block that goes to the same box. No run goes beyond.
 */
static inline u32 rar_ring_block_end(const struct rar_ring *ring, u32 chunk)
{
	u32 first = chunk / ring->cpb * ring->cpb, end;

	if (ring->plan.halving)
		return rar_halving_end(ring, chunk);
	if (chunk - first < ring->lead)
		end = first + ring->lead;
	else
		end = min(first + ring->cpb, ring->nchunks);
	if (ring->part)
		end = min(end, chunk - (chunk - first) % ring->part + ring->part);
	return end;
}

/* The box of a chunk. Each block begins with another one, so that short blocks are divided, too. */
static inline u32 rar_ring_box(const struct rar_ring *ring, u32 chunk)
{
	if (!ring->part)
		return 0;
	return (chunk % ring->cpb / ring->part + chunk / ring->cpb) % ring->plan.boxes;
}

/* Does @chunk lie in the lead? */
static inline bool rar_ring_leads(const struct rar_ring *ring, u32 chunk)
{
	return ring->lead && chunk % ring->cpb < ring->lead;
}

/* -- what a rank does, by phase and block ---------------------------------- */

/* Does the operation have @phase? */
static inline bool rar_plan_has(const struct rar_plan *plan, enum rar_phase phase)
{
	return plan->starts[phase] != RAR_ALL_BLOCKS;
}

/* Does the operation move any data? Not in a group of one rank. */
static inline bool rar_plan_travels(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_RS) || rar_plan_has(plan, RAR_AG);
}

/* The phase in which this rank injects its own block. */
static inline enum rar_phase rar_plan_first(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_RS) ? RAR_RS : RAR_AG;
}

/* The block that this rank injects; one that does not exist if it injects none. */
static inline u32 rar_plan_own(const struct rar_plan *plan)
{
	return plan->starts[rar_plan_first(plan)];
}

/* Does this rank add, and get no part of the sum? It is not the root of a reduction. */
static inline bool rar_plan_gets_none(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_RS) && !rar_plan_has(plan, RAR_AG) &&
	       plan->ends[RAR_RS] == RAR_NO_BLOCK;
}

/* The phase in which the last chunks arrive that arrive here. */
static inline enum rar_phase rar_plan_final(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_AG) ? RAR_AG : RAR_RS;
}

/* How a chunk that arrives in @phase is combined. */
static inline enum rar_combine rar_ring_combine(enum rar_phase phase)
{
	return phase == RAR_RS ? RAR_COMBINE_ADD : RAR_COMBINE_STORE;
}

/* How this rank combines a chunk of @block in @phase; NONE if no such chunk arrives. */
static inline enum rar_combine rar_plan_combine(const struct rar_plan *plan,
						enum rar_phase phase, u32 block)
{
	u32 starts = plan->starts[phase];

	if (plan->aside && phase == RAR_AG && rar_plan_has(plan, RAR_RS))
		return rar_plan_gets_none(plan) ? RAR_COMBINE_NONE : RAR_COMBINE_STORE;
	if (block == starts || starts == RAR_ALL_BLOCKS)
		return RAR_COMBINE_NONE;
	return rar_ring_combine(phase);
}

/*
 * The phase in which this rank passes on a chunk of @block that arrived in @phase.
 * Return: RAR_PHASES if the chunk goes no further.
 */
static inline enum rar_phase rar_plan_next(const struct rar_plan *plan,
					   enum rar_phase phase, u32 block)
{
	if (plan->direct)
		return RAR_PHASES;
	if (block != plan->ends[phase])
		return phase;
	if (phase == RAR_RS && block == plan->starts[RAR_AG])
		return RAR_AG;
	return RAR_PHASES;
}

/* Is a chunk of @block that arrived in @phase part of this rank's result? */
static inline bool rar_plan_completes(const struct rar_plan *plan, enum rar_phase phase,
				      u32 block)
{
	return phase == RAR_AG || block == plan->ends[RAR_RS];
}

/*
 * Is @phase the last in which a chunk of @block arrives here? When every chunk
 * has come in its last phase the operation is complete here, and only sending
 * is left. By doubling, or halving, nothing is complete because it arrives.
 */
static inline bool rar_plan_last(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	if (plan->doubling || plan->halving)
		return false;
	return phase == RAR_AG || !rar_plan_has(plan, RAR_AG) || block == plan->starts[RAR_AG];
}

/*
 * Do ranks add? If they do, all of them have contributed to a complete chunk. If not, one
 * rank has, and the chunk says nothing about the other ranks.
 */
static inline bool rar_plan_adds(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_RS);
}

/*
 * Have all ranks contributed to a chunk that travels in @phase? Such a chunk needs no
 * credit, as the successor has contributed, too.
 */
static inline bool rar_plan_summed(const struct rar_plan *plan, enum rar_phase phase)
{
	return phase == RAR_AG && rar_plan_adds(plan);
}

/* Must this rank have added to a chunk of @block before the chunk comes in @phase? */
static inline bool rar_plan_adds_before(const struct rar_plan *plan, enum rar_phase phase,
					u32 block)
{
	return phase == RAR_AG && !plan->aside &&
	       rar_plan_combine(plan, RAR_RS, block) == RAR_COMBINE_ADD;
}

/*
 * The phase in which @block becomes complete here. Return: RAR_PHASES if it never does, or
 * if this rank itself sends it round.
 */
static inline enum rar_phase rar_plan_result(const struct rar_plan *plan, u32 block)
{
	if (block == plan->ends[RAR_RS])
		return RAR_RS;
	return rar_plan_combine(plan, RAR_AG, block) == RAR_COMBINE_STORE ? RAR_AG : RAR_PHASES;
}

/* Do this rank's own chunks come back to it as sums? */
static inline bool rar_plan_returns(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_RS) && rar_plan_has(plan, RAR_AG);
}

/*
 * The block of the partial sum that this rank has before a stage.
 * @plan->doubling.
 */
static inline u32 rar_plan_partial(const struct rar_plan *plan, u32 stage)
{
	return plan->stages.n + stage;
}

/*
 * The number of a chunk that is sent in @phase at the rank that it goes to. By
 * doubling it lies in the block of the arrival there, by halving a partial sum
 * does; by the ring it has the same number everywhere.
 */
static inline u32 rar_ring_there(const struct rar_ring *ring,
				 enum rar_phase phase, u32 chunk, u32 rank)
{
	if (ring->plan.doubling)
		chunk -= ring->plan.stages.n * ring->cpb;
	if (ring->plan.halving)
		chunk = rar_halving_there(ring, phase == RAR_AG, chunk, rank);
	return chunk;
}

/* Does this rank send nothing but its own contribution in a chunk of @block in @phase? */
static inline bool rar_plan_injects(const struct rar_plan *plan, enum rar_phase phase,
				    u32 block)
{
	return block == plan->starts[phase] && phase == rar_plan_first(plan);
}

bool rar_ring_rooted(u8 collective);
bool rar_ring_reduces(u8 collective);
bool rar_ring_shares(u8 collective);
bool rar_ring_halves(u8 collective);
int rar_ring_plan(struct rar_plan *plan, const struct rar_place *place, u8 collective,
		  u16 mode, u32 root);
struct rar_span rar_plan_share(const struct rar_plan *plan, u64 bytes);
struct rar_span rar_plan_given(const struct rar_plan *plan, u64 bytes);
struct rar_span rar_plan_got(const struct rar_plan *plan, u64 bytes);
u64 rar_plan_room(const struct rar_plan *plan, u64 bytes, u32 payload);
int rar_ring_cut(struct rar_ring *ring, u64 bytes, u32 payload,
		 const struct rar_plan *plan);
int rar_ring_lead(struct rar_ring *ring, u64 bytes);
void rar_ring_chunk(const struct rar_ring *ring, u32 chunk,
		    struct rar_chunk *c);
u32 rar_ring_nth(const struct rar_ring *ring, u32 n);
u64 rar_ring_bytes(const struct rar_ring *ring, u32 chunk, u32 n);
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block);
u32 rar_ring_block_chunks(const struct rar_ring *ring, u32 block);
u32 rar_ring_of_box(const struct rar_ring *ring, u32 box, u32 block, u32 *end);
u32 rar_ring_ntx(const struct rar_ring *ring);
u32 rar_ring_nback(const struct rar_ring *ring);
struct rar_owed rar_ring_owed(const struct rar_ring *ring, enum rar_link_index link);
u32 rar_ring_need(const struct rar_ring *ring);
u64 rar_ring_share(const struct rar_ring *ring, u64 bytes);

#endif /* _RAR_RING_H */
