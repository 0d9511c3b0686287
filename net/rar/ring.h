/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring schedule: which chunk comes from where, goes where, and is done
 * when. Pure arithmetic on (bytes, size, rank, payload): no kernel objects,
 * also built in user space by selftests/host.
 *
 * The tensor is cut into blocks of ceil(bytes / size) rounded up to
 * RAR_BLOCK_ALIGN; block b is injected by rank b. One of up to RAR_SMALL_BYTES
 * is not cut: what counts there is the number of packets, 2(size-1) for a
 * block, and all ranks but two would wait for them as long. "dist" is how many
 * hops a rank is behind the injector: (rank - b) mod size.
 *
 *   dist       0        1        ...      size-2      size-1
 *   RS      inject -> add+fwd -> ...  -> add+fwd ->  add, final
 *   AG  .-> store+fwd -> store+fwd -> ... -> store      | start
 *       '----------------------------------------------'
 *
 * Every sum is therefore ((x_b + x_b+1) + x_b+2) + ... whatever the payload,
 * the MTU or the path of the packets.
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

/**
 * struct rar_ring - the schedule of one operation at one rank
 * @bytes:   the tensor, 0 .. RAR_MAX_BYTES
 * @block:   bytes of a block (the last one may be short); 0 if @bytes is 0
 * @payload: bytes of a chunk (a block's last one may be short)
 * @size:    ranks
 * @rank:    own rank
 * @nblocks: blocks that exist, at least 1 (block 0, possibly empty)
 * @cpb:     chunks of a full block
 * @nchunks: chunks of the operation
 */
struct rar_ring {
	u64 bytes;
	u64 block;
	u32 payload;
	u32 size;
	u32 rank;
	u32 nblocks;
	u32 cpb;
	u32 nchunks;
};

/* Where a chunk lies: byte offset and length in the tensor, and its block. */
struct rar_chunk {
	u64 off;
	u32 len;
	u32 block;
};

int rar_ring_init(struct rar_ring *ring, u64 bytes, u32 payload, u32 size,
		  u32 rank);
void rar_ring_chunk(const struct rar_ring *ring, u32 chunk,
		    struct rar_chunk *c);
u64 rar_ring_bytes(const struct rar_ring *ring, u32 chunk, u32 n);
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block);
u32 rar_ring_block_chunks(const struct rar_ring *ring, u32 block);
u32 rar_ring_ntx(const struct rar_ring *ring);

static inline u32 rar_ring_dist(const struct rar_ring *ring, u32 block)
{
	return ring->rank >= block ? ring->rank - block :
				     ring->rank + ring->size - block;
}

/* One behind the last chunk of the block that @chunk belongs to. */
static inline u32 rar_ring_block_end(const struct rar_ring *ring, u32 chunk)
{
	return min(chunk / ring->cpb * ring->cpb + ring->cpb, ring->nchunks);
}

/* May this rank receive a chunk of @block in @phase at all? */
static inline bool rar_ring_receives(const struct rar_ring *ring,
				     enum rar_phase phase, u32 block)
{
	u32 dist = rar_ring_dist(ring, block);

	return phase == RAR_RS ? dist > 0 : dist + 1 < ring->size;
}

/* What follows when a chunk of @block received in @phase is published. */
static inline enum rar_next rar_ring_next(const struct rar_ring *ring,
					  enum rar_phase phase, u32 block)
{
	u32 dist = rar_ring_dist(ring, block);

	if (phase == RAR_RS)
		return dist + 1 == ring->size ? RAR_NEXT_AG : RAR_NEXT_RS;
	return dist + 2 == ring->size ? RAR_NEXT_STOP : RAR_NEXT_AG;
}

#endif /* _RAR_RING_H */
