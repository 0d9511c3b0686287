// SPDX-License-Identifier: GPL-2.0
/*
 * soak RANK N GROUP OPS FILE [BYTES]: a rank of AF_RAR in the namespace rar<RANK> that does
 * all-reduces of BYTES, or of 4 KiB, 64 KiB and 1 MiB in turns, in place, one at a time. It checks
 * the sums, and writes when each began and how long it took to FILE, as pairs of 64-bit numbers,
 * microseconds. When one takes longer than those before it, it says so: "slow OP BEGAN_US US".
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

static void fill(int32_t *x, uint32_t bytes, uint32_t i)
{
	for (uint32_t k = 0; k < bytes / 4; k++)
		x[k] = i + k;
}

static int check(const int32_t *x, uint32_t bytes, uint32_t i, uint32_t n)
{
	for (uint32_t k = 0; k < bytes / 4; k++)
		if ((uint32_t)x[k] != n * (i + k))
			return -EBADE;
	return 0;
}

static int one(int fd, int32_t *x, uint32_t bytes, uint64_t i, struct took *took)
{
	struct rar_op op = rar_op_of(RAR_I32, 0, i);
	int err;

	op.dst = (uintptr_t)x;
	took->began_us = rar_now_us();
	err = rar_send(fd, x, bytes, 0, &op);
	took->us = rar_now_us() - took->began_us;
	return err;
}

int main(int argc, char **argv)
{
	struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };
	uint64_t ops, worst = SLOW_US;
	uint32_t fixed, bytes;
	struct took *took;
	char netns[16];
	int fd, err = 0;
	int32_t *x;
	FILE *f;

	if (argc != 6 && argc != 7) {
		fprintf(stderr, "usage: soak RANK N GROUP OPS FILE [BYTES]\n");
		return 2;
	}
	fixed = argc == 7 ? strtoul(argv[6], NULL, 0) : 0;
	x = aligned_alloc(4096, fixed > 1 << 20 ? fixed : 1 << 20);
	ring.size = atoi(argv[2]);
	ring.group = strtoull(argv[3], NULL, 0);
	ops = strtoull(argv[4], NULL, 0);
	took = calloc(ops, sizeof(*took));
	setlinebuf(stdout);
	snprintf(netns, sizeof(netns), "rar%s", argv[1]);
	fd = rar_enter(netns) ?: rar_open(&ring, atoi(argv[1]));
	for (uint64_t i = 0; i < ops && fd >= 0 && !err; i++) {
		bytes = fixed ?: sizes[i % 3];
		fill(x, bytes, i);
		err = one(fd, x, bytes, i, &took[i]) ?: check(x, bytes, i, ring.size);
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
