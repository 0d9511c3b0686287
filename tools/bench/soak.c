// SPDX-License-Identifier: GPL-2.0
/*
 * soak RANK N GROUP OPS FILE: a rank of AF_RAR in the namespace rar<RANK> that does all-reduces of
 * 4 KiB, 64 KiB and 1 MiB in turns, in place, one at a time. It writes when each began and how long
 * it took to FILE, as pairs of 64-bit numbers, microseconds. When one takes longer than those
 * before it, it says so: "slow OP BEGAN_US US".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../selftests/lib/rar_util.h"

#define SLOW_US		50000	/* shorter ones are not told */

static const uint32_t sizes[] = { 4 << 10, 64 << 10, 1 << 20 };

struct took {
	uint64_t began_us;
	uint64_t us;
};

static int one(int fd, int32_t *x, uint64_t i, uint32_t n)
{
	uint32_t bytes = sizes[i % 3];
	struct rar_op op = rar_op_of(RAR_I32, 0, i);
	int err;

	for (uint32_t k = 0; k < bytes / 4; k++)
		x[k] = i + k;
	op.dst = (uintptr_t)x;
	err = rar_send(fd, x, bytes, 0, &op);
	for (uint32_t k = 0; k < bytes / 4 && !err; k++)
		err = x[k] == (int32_t)(n * (i + k)) ? 0 : -EBADE;
	return err;
}

int main(int argc, char **argv)
{
	struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };
	uint64_t ops, worst = SLOW_US;
	struct took *took;
	int32_t *x = aligned_alloc(4096, 1 << 20);
	char netns[16];
	int fd, err = 0;
	FILE *f;

	if (argc != 6) {
		fprintf(stderr, "usage: soak RANK N GROUP OPS FILE\n");
		return 2;
	}
	ring.size = atoi(argv[2]);
	ring.group = strtoull(argv[3], NULL, 0);
	ops = strtoull(argv[4], NULL, 0);
	took = calloc(ops, sizeof(*took));
	setlinebuf(stdout);
	snprintf(netns, sizeof(netns), "rar%s", argv[1]);
	fd = rar_enter(netns) ?: rar_open(&ring, atoi(argv[1]));
	for (uint64_t i = 0; i < ops && fd >= 0 && !err; i++) {
		took[i].began_us = rar_now_us();
		err = one(fd, x, i, ring.size);
		took[i].us = rar_now_us() - took[i].began_us;
		if (took[i].us <= worst)
			continue;
		worst = took[i].us;
		printf("slow %llu %llu %llu\n", (unsigned long long)i,
		       (unsigned long long)took[i].began_us, (unsigned long long)worst);
	}
	if (fd < 0 || err) {
		rar_log_error(fd, "soak", fd < 0 ? fd : err);
		return 1;
	}
	f = fopen(argv[5], "w");
	return !f || fwrite(took, sizeof(*took), ops, f) != ops || fclose(f);
}
