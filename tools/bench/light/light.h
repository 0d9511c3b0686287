/* SPDX-License-Identifier: GPL-2.0 */
/* A job of rar_light and its memory, for light.c and packets.c. */
#ifndef _RAR_LIGHT_H
#define _RAR_LIGHT_H

#include <linux/types.h>

struct rar_kind;

#define LIGHT_RANKS	64

/**
 * struct light_job - one all-reduce
 * @ranks: number of ranks
 * @bytes: length of the tensor, a multiple of the element
 * @kind: sum of f32 or of i32
 * @tile:  length of a tile, bytes, at most RAR_REDUCE_MAX
 * @ntiles: tiles of a rank
 * @cpus:  CPUs that take part
 * @data:  [rank * @ntiles + tile]: memory of @tile bytes
 * @netns: packets: a file descriptor of the network namespace of each rank
 * @ns:    time that the job took
 */
struct light_job {
	u32 ranks;
	u64 bytes;
	const struct rar_kind *kind;
	u32 tile;
	u32 ntiles;
	u32 cpus;
	void **data;
	int netns[LIGHT_RANKS];
	u64 ns;
};

static inline void *light_tile(const struct light_job *job, u32 rank, u32 tile)
{
	return job->data[(size_t)rank * job->ntiles + tile];
}

static inline u32 light_len(const struct light_job *job, u32 tile)
{
	return min_t(u64, job->tile, job->bytes - (u64)tile * job->tile);
}

/* The rank that injects a tile; blocks are as even as whole tiles allow. */
static inline u32 light_injector(const struct light_job *job, u32 tile)
{
	return (u64)tile * job->ranks / job->ntiles;
}

int light_packets(struct light_job *job);

#endif /* _RAR_LIGHT_H */
