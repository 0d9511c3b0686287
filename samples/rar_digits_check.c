// SPDX-License-Identifier: GPL-2.0
/*
 * rar_digits_check DIR SIZE STEPS: judges the logs of rar_digits.
 *
 * All ranks must have had equal weights before each step and at the end. The
 * logged sums must be bit-identical to additions in the order of the ring. This
 * program does not use the socket.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rar_digits.h"

static const char *dir;
static int size;

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static FILE *open_log(const char *format, ...)
{
	char name[64], path[4096];
	va_list args;
	FILE *f;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (!f)
		fail("%s: %s", path, strerror(errno));
	return f;
}

static void read_model(const char *name, int step, int rank, struct model *m)
{
	FILE *f = open_log("%s.%d.%d", name, step, rank);

	if (fread(m, sizeof(*m), 1, f) != 1)
		fail("%s.%d.%d: too short", name, step, rank);
	fclose(f);
}

static void check_hashes(int rank, int steps)
{
	FILE *mine = open_log("hash.%d", rank), *first = open_log("hash.0");
	unsigned long long a, b;
	int step;

	for (int i = 0; i <= steps; i++) {
		if (fscanf(mine, "%d %llx", &step, &a) != 2 || step != i ||
		    fscanf(first, "%d %llx", &step, &b) != 2 || step != i)
			fail("step %d: no hash of ranks 0 and %d", i, rank);
		if (a != b)
			fail("step %d: ranks 0 and %d have different weights",
			     i, rank);
	}
	fclose(mine);
	fclose(first);
}

/*
 * The tensor is cut into SIZE blocks, borders rounded up to 64 bytes, or is one block
 * if it is short. Block b starts at rank b and adds the contributions of the other ranks
 * on its way round the ring.
 */
static void ring_sum(const struct model *grad, struct model *sum)
{
	size_t block = sizeof(*sum) <= 8192 ? sizeof(*sum) : (sizeof(*sum) + size - 1) / size;

	block = (block + 63) / 64 * 64;
	for (size_t i = 0; i < WEIGHTS; i++) {
		int b = i * sizeof(float) / block;
		float x = ((const float *)&grad[b])[i];

		for (int k = 1; k < size; k++)
			x += ((const float *)&grad[(b + k) % size])[i];
		((float *)sum)[i] = x;
	}
}

static void check_sums(int step, struct model *grad)
{
	struct model expected, sum;

	for (int r = 0; r < size; r++)
		read_model("grad", step, r, &grad[r]);
	ring_sum(grad, &expected);
	for (int r = 0; r < size; r++) {
		read_model("sum", step, r, &sum);
		if (memcmp(&sum, &expected, sizeof(sum)))
			fail("step %d: rank %d got another sum than the ring order gives",
			     step, r);
	}
}

int main(int argc, char **argv)
{
	struct model *grad;
	int steps, sums = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: rar_digits_check DIR SIZE STEPS\n");
		return 2;
	}
	dir = argv[1];
	size = atoi(argv[2]);
	steps = atoi(argv[3]);
	grad = size > 0 ? calloc(size, sizeof(*grad)) : NULL;
	if (!grad || steps < 1)
		fail("SIZE or STEPS: out of range");

	for (int r = 0; r < size; r++)
		check_hashes(r, steps);
	for (int step = 0; step < steps; step += CHECK_EVERY, sums++)
		check_sums(step, grad);
	printf("%d ranks: equal weights in all %d steps, %d sums as in ring order\n",
	       size, steps, sums * size);
	free(grad);
	return 0;
}
