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
 * rar_ring_seat() - the place of a rank in a group where all ranks are alike
 * @seat: to fill
 * @size: ranks, at least 1
 * @rank: less than @size
 */
void rar_ring_seat(struct rar_seat *seat, u32 size, u32 rank)
{
	*seat = (struct rar_seat) {
		.size = size,
		.parts = size,
		.own = rank,
		.final = (rank + 1) % size,
		.stops = (rank + 2) % size,
	};
}

/**
 * rar_ring_seat_hosts() - the place of a rank in a group that adds by hosts
 * @seat:  to fill
 * @size:  ranks in all
 * @hosts: how many hosts, each with ranks that follow one another
 * @host:  this rank's, less than @hosts; rank 0 is on host 0
 * @ranks: on this host, at least 1
 * @index: of this rank among them
 */
void rar_ring_seat_hosts(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
			 u32 ranks, u32 index)
{
	bool last = index + 1 == ranks;

	*seat = (struct rar_seat) {
		.size = size,
		.parts = hosts,
		.own = index ? RAR_NO_BLOCK : host,
		.final = last ? (host + 1) % hosts : RAR_NO_BLOCK,
		.stops = RAR_NO_BLOCK,
		.back = last && index && hosts > 1,
	};
	/* The successor begins with the sums, or (on the next host) gets them there. */
	if (index + 2 == ranks)
		seat->stops = (host + 1) % hosts;
	else if (last && hosts > 1)
		seat->stops = (host + 2) % hosts;
}

/**
 * rar_ring_init() - make the schedule of an operation
 * @ring:    to fill
 * @bytes:   length of the tensor
 * @payload: bytes of tensor data a packet carries
 * @seat:    of the rank
 *
 * Return: 0, -EMSGSIZE if the operation has more chunks than can be numbered,
 * or -EINVAL.
 */
int rar_ring_init(struct rar_ring *ring, u64 bytes, u32 payload,
		  const struct rar_seat *seat)
{
	u64 block, cpb, last;

	if (!payload || !seat->size)
		return -EINVAL;
	if (bytes > RAR_MAX_BYTES)
		return -EMSGSIZE;

	block = bytes <= RAR_SMALL_BYTES ? bytes : div_up(bytes, seat->parts);
	block = (block + RAR_BLOCK_ALIGN - 1) & ~(u64)(RAR_BLOCK_ALIGN - 1);
	cpb = block ? div_up(block, payload) : 1;
	if (cpb * seat->parts > U32_MAX / 2)
		return -EMSGSIZE;

	ring->bytes = bytes;
	ring->block = block;
	ring->payload = payload;
	ring->seat = *seat;
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

/* Index of the first chunk of @block; if there is none, @ring->nchunks. */
u32 rar_ring_block_first(const struct rar_ring *ring, u32 block)
{
	return block < ring->nblocks ? block * ring->cpb : ring->nchunks;
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
 * every chunk, but for the block whose RS and the one whose AG ends here.
 */
u32 rar_ring_ntx(const struct rar_ring *ring)
{
	if (ring->seat.size == 1)
		return 0;
	return 2 * ring->nchunks - rar_ring_block_chunks(ring, ring->seat.final) -
	       rar_ring_block_chunks(ring, ring->seat.stops);
}

/* Chunks that it owes the first rank of its host. */
u32 rar_ring_nback(const struct rar_ring *ring)
{
	return ring->seat.back ? rar_ring_block_chunks(ring, ring->seat.final) : 0;
}
