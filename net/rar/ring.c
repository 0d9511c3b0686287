// SPDX-License-Identifier: GPL-2.0
/* The ring schedule: blocks and chunks of an operation (see ring.h). */
#include "ring.h"

#ifdef __KERNEL__
#define ring_div(a, b) div64_u64(a, b)
#else
#define ring_div(a, b) ((a) / (b))
#endif

static u64 div_up(u64 a, u64 b)
{
	return ring_div(a + b - 1, b);
}

/**
 * rar_ring_init() - make the schedule of an operation
 * @ring:    to fill
 * @bytes:   length of the tensor
 * @payload: bytes of tensor data a packet carries
 * @size:    ranks
 * @rank:    own rank
 *
 * Return: 0, -EMSGSIZE if the operation has more chunks than can be numbered,
 * or -EINVAL.
 */
int rar_ring_init(struct rar_ring *ring, u64 bytes, u32 payload, u32 size,
		  u32 rank)
{
	u64 block, cpb, last;

	if (!payload || !size)
		return -EINVAL;
	if (bytes > RAR_MAX_BYTES)
		return -EMSGSIZE;

	block = bytes <= RAR_SMALL_BYTES ? bytes : div_up(bytes, size);
	block = (block + RAR_BLOCK_ALIGN - 1) & ~(u64)(RAR_BLOCK_ALIGN - 1);
	cpb = block ? div_up(block, payload) : 1;
	if (cpb * size > U32_MAX / 2)
		return -EMSGSIZE;

	ring->bytes = bytes;
	ring->block = block;
	ring->payload = payload;
	ring->size = size;
	ring->rank = rank;
	ring->cpb = cpb;
	ring->nblocks = 1;
	ring->nchunks = 1;
	if (!bytes)
		return 0;

	/* A short tensor has fewer blocks than ranks. */
	ring->nblocks = div_up(bytes, block);
	last = bytes - (ring->nblocks - 1) * block;
	ring->nchunks = (ring->nblocks - 1) * cpb + div_up(last, payload);
	return 0;
}

/**
 * rar_ring_chunk() - find a chunk in the tensor
 * @ring:  the schedule
 * @chunk: index, less than @ring->nchunks
 * @c:     to fill
 */
void rar_ring_chunk(const struct rar_ring *ring, u32 chunk,
		    struct rar_chunk *c)
{
	u64 end, in_block;

	c->block = chunk / ring->cpb;
	in_block = (u64)(chunk % ring->cpb) * ring->payload;
	c->off = c->block * ring->block + in_block;
	end = min((c->block + 1) * ring->block, ring->bytes);
	c->len = min_t(u64, end - c->off, ring->payload);
}

/* Bytes of @n chunks from @chunk on, of one block. */
u64 rar_ring_bytes(const struct rar_ring *ring, u32 chunk, u32 n)
{
	struct rar_chunk first, last;

	rar_ring_chunk(ring, chunk, &first);
	if (n == 1)
		return first.len;
	rar_ring_chunk(ring, chunk + n - 1, &last);
	return last.off + last.len - first.off;
}

/* Index of the first chunk of @block. */
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block)
{
	return min(block * ring->cpb, ring->nchunks);
}

/* Chunks of @block, 0 if the tensor is too short for it. */
u32 rar_ring_block_chunks(const struct rar_ring *ring, u32 block)
{
	if (block >= ring->nblocks)
		return 0;
	return min(ring->cpb, ring->nchunks - block * ring->cpb);
}

/*
 * Transmissions (chunk, phase) this rank owes its successor: both phases of
 * every chunk, but for the block whose RS ends here (rank + 1) and the one
 * whose AG ends here (rank + 2).
 */
u32 rar_ring_ntx(const struct rar_ring *ring)
{
	if (ring->size == 1)
		return 0;
	return 2 * ring->nchunks -
	       rar_ring_block_chunks(ring, (ring->rank + 1) % ring->size) -
	       rar_ring_block_chunks(ring, (ring->rank + 2) % ring->size);
}
