/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring schedule: which chunk comes from where, goes where, and is done
 * when. Pure arithmetic on (bytes, seat, payload): no kernel objects, also built
 * in user space by selftests/host.
 *
 * The tensor is cut into blocks, as many as there are ranks, of equal length rounded
 * up to RAR_BLOCK_ALIGN; block b is injected by rank b. One of up to RAR_SMALL_BYTES
 * is not cut: what counts there is the number of packets, 2(size-1) for a block, and
 * all ranks but two would wait for them as long. "dist" is how many hops a rank is
 * behind the injector.
 *
 *   dist       0        1        ...      size-2      size-1
 *   RS      inject -> add+fwd -> ...  -> add+fwd ->  add, final
 *   AG  .-> store+fwd -> store+fwd -> ... -> store      | start
 *       '----------------------------------------------'
 *
 * Every sum is therefore ((x_b + x_b+1) + x_b+2) + ... whatever the payload,
 * the MTU or the path of the packets.
 *
 * By hosts: ranks that follow one another on one host pass chunks on in memory, so only
 * the links between hosts count. There are as many blocks as hosts, and block b is
 * injected by the first rank of host b, so it leaves a host when all of it have added.
 * The sums are complete at the last rank of the host before. From there they go round
 * as always, but for the last link, and in memory "back" to the first rank of this
 * host. So 2(hosts-1)/hosts of a tensor cross each link between hosts, instead of
 * 2(size-1)/size. Block 2 of three hosts with the ranks 0-2, 3-4 and 5-6:
 *
 *   RS   5 -> 6  =>  0 -> 1 -> 2  =>  3 -> 4		-> in memory
 *   AG   4  =>  5 -> 6  =>  0 -> 1 -> 2		=> between hosts
 *        4 -> 3					back
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

#define RAR_BLOCK_ALIGN	64
#define RAR_SMALL_BYTES	8192		/* part of what decides a sum's bits */
#define RAR_MAX_BYTES	0x10000000000ULL	/* one operation: 1 TiB */

enum rar_phase { RAR_RS, RAR_AG, RAR_PHASES };

/* What a rank does with a chunk after it has published it. */
enum rar_next { RAR_NEXT_STOP, RAR_NEXT_RS, RAR_NEXT_AG };

#define RAR_NO_BLOCK	U32_MAX

/**
 * struct rar_seat - the place of a rank in the schedule of its group
 * @size:  ranks
 * @parts: blocks that a long tensor is cut into
 * @own:   the block that this rank injects
 * @final: the block whose sums become complete here
 * @stops: the block whose sums go no further
 * @back:  those of @final go in memory to the first rank of this host as well
 *
 * RAR_NO_BLOCK where there is none.
 */
struct rar_seat {
	u32 size;
	u32 parts;
	u32 own;
	u32 final;
	u32 stops;
	bool back;
};

/**
 * struct rar_ring - the schedule of one operation at one rank
 * @bytes:   the tensor, 0 .. RAR_MAX_BYTES
 * @block:   bytes of a block (the last one may be short); 0 if @bytes is 0
 * @payload: bytes of a chunk (a block's last one may be short)
 * @nblocks: blocks that exist, at least 1 (block 0, possibly empty)
 * @cpb:     chunks of a full block
 * @nchunks: chunks of the operation
 * @seat:    of the rank
 */
struct rar_ring {
	u64 bytes;
	u64 block;
	u32 payload;
	u32 nblocks;
	u32 cpb;
	u32 nchunks;
	struct rar_seat seat;
};

/* Where a chunk lies: byte offset and length in the tensor, and its block. */
struct rar_chunk {
	u64 off;
	u32 len;
	u32 block;
};

void rar_ring_seat(struct rar_seat *seat, u32 size, u32 rank);
void rar_ring_seat_hosts(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
			 u32 ranks, u32 index);
int rar_ring_init(struct rar_ring *ring, u64 bytes, u32 payload,
		  const struct rar_seat *seat);
void rar_ring_chunk(const struct rar_ring *ring, u32 chunk,
		    struct rar_chunk *c);
u64 rar_ring_bytes(const struct rar_ring *ring, u32 chunk, u32 n);
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block);
u32 rar_ring_block_chunks(const struct rar_ring *ring, u32 block);
u32 rar_ring_ntx(const struct rar_ring *ring);
u32 rar_ring_nback(const struct rar_ring *ring);

/* One behind the last chunk of the block that @chunk belongs to. */
static inline u32 rar_ring_block_end(const struct rar_ring *ring, u32 chunk)
{
	return min(chunk / ring->cpb * ring->cpb + ring->cpb, ring->nchunks);
}

/* May this rank receive a chunk of @block in @phase at all? */
static inline bool rar_ring_receives(const struct rar_ring *ring,
				     enum rar_phase phase, u32 block)
{
	return block != (phase == RAR_RS ? ring->seat.own : ring->seat.final);
}

/* What follows when a chunk of @block received in @phase is published. */
static inline enum rar_next rar_ring_next(const struct rar_ring *ring,
					  enum rar_phase phase, u32 block)
{
	if (phase == RAR_RS)
		return block == ring->seat.final ? RAR_NEXT_AG : RAR_NEXT_RS;
	return block == ring->seat.stops ? RAR_NEXT_STOP : RAR_NEXT_AG;
}

#endif /* _RAR_RING_H */
