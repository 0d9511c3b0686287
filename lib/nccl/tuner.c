// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The tuner: all-reduces between hosts go by the ring, without a line NCCL_ALGO in the environment.
 *
 * NCCL looks for it in the library of the network. It asks about each call with a table of times that
 * it expects of its algorithms. It knows nothing of the ring, so its times for CollNet are those of
 * another network. The table leaves out what cannot be taken here: CollNet, if it is not switched on
 * or a rank has none, and what NCCL_ALGO excludes. So the tuner leaves out the rest, but only if an
 * algorithm of CollNet is there. All ranks must do the same, and they do, since NCCL makes the table
 * from what is equal on all of them.
 */
#include <errno.h>
#include <stdlib.h>

#include "plugin.h"

#define IGNORED	-1.0f	/* NCCL does not take it */

/*
 * struct tuner - of a communicator
 * @nodes:	hosts that it is on
 * @min:	bytes of the shortest all-reduce that goes by the ring
 * @said:	that one does
 */
struct tuner {
	size_t nodes;
	size_t min;
	bool said;
};

/* RAR_NCCL_MIN in bytes, which is equal on all ranks. */
static size_t shortest(void)
{
	const char *text = getenv("RAR_NCCL_MIN");
	unsigned long long min;
	char *end;

	if (!text || !*text)
		return 0;
	errno = 0;
	min = strtoull(text, &end, 10);
	if (!errno && !*end && *text != '-')
		return min;
	say(NCCL_WARN, "RAR_NCCL_MIN is not a number of bytes: %s", text);
	return 0;
}

/* Between hosts these use CollNet. In one host NVLS does not. */
static bool by_collnet(int algorithm)
{
	return algorithm == NCCL_COLLNET_DIRECT || algorithm == NCCL_COLLNET_CHAIN ||
	       algorithm == NCCL_NVLS;
}

/* Is there a time for one of them? */
static bool has_collnet(const float *times, int algorithms, int protocols)
{
	for (int i = 0; i < algorithms * protocols; i++)
		if (by_collnet(i / protocols) && times[i] >= 0)
			return true;
	return false;
}

static nccl_result_t tuner_init(void **ctx, size_t nodes, nccl_log_fn log)
{
	struct tuner *t = calloc(1, sizeof(*t));

	*ctx = t;
	log_begin(log);
	if (!t)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	t->nodes = nodes;
	t->min = shortest();
	return NCCL_OK;
}

static nccl_result_t tuner_init_v3(size_t ranks, size_t nodes, nccl_log_fn log, void **ctx)
{
	(void)ranks;
	return tuner_init(ctx, nodes, log);
}

static nccl_result_t tuner_init_v5(void **ctx, uint64_t comm, size_t ranks, size_t nodes,
				   nccl_log_fn log, void *nvlink, void *constants)
{
	(void)comm;
	(void)ranks;
	(void)nvlink;
	(void)constants;
	return tuner_init(ctx, nodes, log);
}

/* @table is an array of @algorithms rows of @protocols times, whatever NCCL calls its type. */
static nccl_result_t choose_v4(void *ctx, enum nccl_function function, size_t bytes, int calls,
			       float **table, int algorithms, int protocols, int registered,
			       int *channels)
{
	float *times = (float *)table;
	struct tuner *t = ctx;

	(void)calls;
	(void)registered;
	(void)channels;
	if (!t || !times || function != NCCL_ALLREDUCE || t->nodes < 2 || bytes < t->min ||
	    !has_collnet(times, algorithms, protocols))
		return NCCL_OK;
	for (int i = 0; i < algorithms * protocols; i++)
		if (!by_collnet(i / protocols))
			times[i] = IGNORED;
	if (!t->said)
		say(NCCL_INFO, "all-reduces go by CollNet, from %zu bytes on", t->min);
	t->said = true;
	return NCCL_OK;
}

static nccl_result_t choose_v3(void *ctx, enum nccl_function function, size_t bytes, int calls,
			       float **table, int algorithms, int protocols, int *channels)
{
	return choose_v4(ctx, function, bytes, calls, table, algorithms, protocols, 0, channels);
}

static nccl_result_t tuner_finalize(void *ctx)
{
	free(ctx);
	return NCCL_OK;
}

const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {
	.name = "rar", .init = tuner_init_v3, .choose = choose_v3, .finalize = tuner_finalize,
};

const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {
	.name = "rar", .init = tuner_init_v3, .choose = choose_v4, .finalize = tuner_finalize,
};

const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {
	.name = "rar", .init = tuner_init_v5, .choose = choose_v4, .finalize = tuner_finalize,
};

const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {
	.name = "rar", .init = tuner_init_v5, .choose = choose_v4, .finalize = tuner_finalize,
};
