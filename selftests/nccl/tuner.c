// SPDX-License-Identifier: GPL-2.0
/*
 * The tuner: which algorithm NCCL takes from its table afterwards. No rank needs another one here.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_test.h"

#define GUARD	5		/* times behind the table */
#define NONE	-1.0f		/* NCCL does not have it */

/* The table of a call: rows of algorithms. Releases before 2.23 have no PAT. */
struct table {
	int algorithms;
	float times[ALGORITHMS * PROTOCOLS + GUARD];
};

/* Times that make NCCL's ring the fastest by far, and those of CollNet if there is one. */
static struct table usual(bool direct, bool chain, bool nvls)
{
	struct table t = { .algorithms = nccl->takes_tuner == 3 ? 6 : ALGORITHMS };
	float *row = t.times;

	for (int i = 0; i < ALGORITHMS * PROTOCOLS + GUARD; i++)
		t.times[i] = i / PROTOCOLS == NCCL_RING ? 1 + i : 1000 + i;
	for (int i = 0; i < PROTOCOLS; i++) {
		row[NCCL_COLLNET_DIRECT * PROTOCOLS + i] = direct && i == 2 ? 5000 : NONE;
		row[NCCL_COLLNET_CHAIN * PROTOCOLS + i] = chain && i == 2 ? 6000 : NONE;
		row[NCCL_NVLS * PROTOCOLS + i] = nvls && i == 2 ? 5500 : NONE;
	}
	return t;
}

/* What NCCL takes: the shortest time that is not negative. */
static int shortest(const struct table *t)
{
	int best = -1;

	for (int i = 0; i < t->algorithms * PROTOCOLS; i++)
		if (t->times[i] >= 0 && (best < 0 || t->times[i] < t->times[best]))
			best = i;
	return best < 0 ? -1 : best / PROTOCOLS;
}

/* A call of a communicator on so many hosts takes this algorithm. */
static int takes(size_t nodes, int function, size_t bytes, struct table t, int want)
{
	struct table before = t;
	int channels = 11;
	void *ctx = NULL;

	CHECK(!tuner_init(2 * nodes, nodes, &ctx) && ctx, "init");
	for (int i = 0; i < 2; i++) {
		CHECK(!tuner_choose(ctx, function, bytes, t.times, t.algorithms, &channels),
		      "choose");
		CHECK(shortest(&t) == want, "%d instead of %d", shortest(&t), want);
	}
	CHECK(channels == 11, "channels");
	for (int i = 0; i < ALGORITHMS * PROTOCOLS + GUARD; i++)
		CHECK(t.times[i] == before.times[i] ||
		      (i < t.algorithms * PROTOCOLS && t.times[i] == NONE), "time %d", i);
	CHECK(want != NCCL_RING || !memcmp(&t, &before, sizeof(t)), "it is another table");
	CHECK(!tuner_finalize(ctx), "finalize");
	return 0;
}

static int all_reduces(uint32_t rank)
{
	static const size_t all[] = { 0, 4, 1000, 64 * MIB, 5ul << 30 };

	for (int i = 0; !rank && i < 5; i++)
		if (takes(2, NCCL_ALLREDUCE, all[i], usual(false, true, false), NCCL_COLLNET_CHAIN) ||
		    takes(16, NCCL_ALLREDUCE, all[i], usual(true, true, false),
			  NCCL_COLLNET_DIRECT) ||
		    takes(2, NCCL_ALLREDUCE, all[i], usual(false, true, true), NCCL_NVLS))
			return 1;
	return 0;
}

/* Other functions, one host, and a communicator without CollNet are left to NCCL. */
static int left_alone(uint32_t rank)
{
	for (int function = 0; !rank && function < 15; function++)
		if (function != NCCL_ALLREDUCE &&
		    takes(4, function, MIB, usual(true, true, true), NCCL_RING))
			return 1;
	return takes(1, NCCL_ALLREDUCE, MIB, usual(false, false, true), NCCL_RING) ||
	       takes(4, NCCL_ALLREDUCE, MIB, usual(false, false, false), NCCL_RING);
}

/* NCCL_ALGO=Ring leaves nothing else in the table; NCCL_ALGO=Tree,CollnetChain two rows. */
static int by_the_user(uint32_t rank)
{
	struct table t = usual(false, false, false);

	if (rank)
		return 0;
	for (int i = 0; i < ALGORITHMS * PROTOCOLS; i++)
		if (i / PROTOCOLS != NCCL_RING)
			t.times[i] = NONE;
	if (takes(4, NCCL_ALLREDUCE, MIB, t, NCCL_RING))
		return 1;
	t = usual(false, true, false);
	for (int i = 0; i < PROTOCOLS; i++)
		t.times[NCCL_RING * PROTOCOLS + i] = NONE;
	return takes(4, NCCL_ALLREDUCE, MIB, t, NCCL_COLLNET_CHAIN);
}

static int from_a_length_on(uint32_t rank)
{
	static const char *const bad[] = { "x", "1k", "-1", "99999999999999999999", " " };

	if (rank)
		return 0;
	setenv("RAR_NCCL_MIN", "65536", 1);
	if (takes(2, NCCL_ALLREDUCE, 65535, usual(false, true, false), NCCL_RING) ||
	    takes(2, NCCL_ALLREDUCE, 65536, usual(false, true, false), NCCL_COLLNET_CHAIN))
		return 1;
	CHECK(strstr(note(), "go by CollNet, from 65536 bytes on"), "the log");
	for (int i = 0; i < 5; i++) {
		setenv("RAR_NCCL_MIN", bad[i], 1);
		if (takes(2, NCCL_ALLREDUCE, 4, usual(false, true, false), NCCL_COLLNET_CHAIN))
			return 1;
		CHECK(strstr(warning(), "RAR_NCCL_MIN is not a number of bytes"), "%s", bad[i]);
	}
	return 0;
}

const struct test tuner_tests[] = {
	{ "the tuner takes CollNet for all-reduces between hosts", all_reduces, 0, TUNER },
	{ "the tuner leaves other calls to NCCL", left_alone, 0, TUNER },
	{ "the tuner takes what the user allows", by_the_user, 0, TUNER },
	{ "the tuner begins at a length", from_a_length_on, 0, TUNER },
	{ NULL, NULL, 0, 0 },
};
