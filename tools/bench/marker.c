// SPDX-License-Identifier: GPL-2.0
/*
 * marker CTL: a contestant of one rank whose job is fixed memory work. It takes
 * longer when something else uses the memory or the CPU: then the figures beside it
 * are not to be believed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define WORK	(16u << 20)

static int work(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	(void)bytes;
	bench_add(type, r->priv, (char *)r->priv + WORK, WORK);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = { .allreduce = work };
	void *memory = malloc(2 * WORK);

	if (argc != 2 || !memory) {
		fprintf(stderr, "usage: marker CTL\n");
		return 2;
	}
	bench_fill(BENCH_I32, 0, memory, 2 * WORK);
	return bench_serve(argv[1], 0, &peer, memory);
}
