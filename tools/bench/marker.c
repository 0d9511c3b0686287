// SPDX-License-Identifier: GPL-2.0
/*
 * marker CTL: a contestant of one rank whose job is fixed memory work. The job takes
 * longer when another program uses the memory or the CPU. Then the figures measured
 * beside it are not to be believed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define WORK	(16u << 20)
#define PASSES	4
#define WARM_NS	10000000ull

static int work(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	(void)bytes;
	for (int i = 0; i < PASSES; i++)
		bench_add(type, r->priv, (char *)r->priv + WORK, WORK);
	return 0;
}

/* Untimed, because after a pause caches are cold and clocks are low. */
static int warm_up(struct bench_rank *r, const struct bench_job *job)
{
	uint64_t end = bench_now_ns() + WARM_NS;

	do {
		bench_add(job->type, r->priv, (char *)r->priv + WORK, WORK);
	} while (bench_now_ns() < end);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = { .prepare = warm_up, .allreduce = work };
	void *memory = malloc(2 * WORK);

	if (argc != 2 || !memory) {
		fprintf(stderr, "usage: marker CTL\n");
		return 2;
	}
	bench_fill(BENCH_I32, 0, memory, 2 * WORK);
	return bench_serve(argv[1], 0, &peer, memory);
}
