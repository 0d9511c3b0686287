// SPDX-License-Identifier: GPL-2.0
/*
 * Collectives: ranks that disagree, calls that are refused, capabilities. All ranks on
 * 127.0.0.1 of a namespace of their own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"
#include "job.h"

#define RANKS	3u
#define GROUPS	1000u		/* more than there are tests */
#define SYNC_S	100

static struct rar_ring ring = { .where = RAR_ON_LO4, .size = RANKS };
static struct rar_barrier *barrier;

static int open_rank(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

/* ------------------------------------------------------------ disagreement */

#define DISAGREE_COUNT	(30 * RANKS)

/* The call of one rank, and the call of all others. */
static const struct disagreement {
	const char *name;
	struct rar_op usual, odd;
	uint32_t reason;
} disagreements[] = {
	{ "type of a broadcast", { .collective = RAR_BROADCAST },
	  { .collective = RAR_BROADCAST, .dtype = RAR_F32 }, RAR_R_DTYPE },
	{ "type of an allgather", { .collective = RAR_ALLGATHER },
	  { .collective = RAR_ALLGATHER, .dtype = RAR_U32 }, RAR_R_DTYPE },
	{ "type of a reduce", { .collective = RAR_REDUCE },
	  { .collective = RAR_REDUCE, .dtype = RAR_U32 }, RAR_R_DTYPE },
	{ "type of a reduce_scatter", { .collective = RAR_REDUCE_SCATTER },
	  { .collective = RAR_REDUCE_SCATTER, .dtype = RAR_F32 }, RAR_R_DTYPE },
	{ "reduction of a reduce_scatter", { .collective = RAR_REDUCE_SCATTER },
	  { .collective = RAR_REDUCE_SCATTER, .redop = RAR_MAX }, RAR_R_REDOP },
	{ "reduction of a reduce", { .collective = RAR_REDUCE, .redop = RAR_BOR },
	  { .collective = RAR_REDUCE, .redop = RAR_BAND }, RAR_R_REDOP },
	{ "reduction of an allreduce", { .collective = RAR_ALLREDUCE },
	  { .collective = RAR_ALLREDUCE, .redop = RAR_AVG }, RAR_R_REDOP },
};

/* Send zeros, as many as @op and the rank need. */
static int post_zeros(int fd, uint32_t rank, struct rar_op op, bool empty)
{
	static const char zeros[4 * DISAGREE_COUNT];
	struct rar_job j = {
		.ring = &ring, .collective = op.collective, .root = op.root,
		.count = empty || op.collective == RAR_BARRIER ? 0 : DISAGREE_COUNT,
	};

	op.size = sizeof(op);
	op.dtype = op.dtype ?: RAR_I32;
	op.bytes = 4 * j.count;
	return rar_send(fd, zeros, 4 * rar_job_given(&j, rank).n, 0, &op);
}

/* The error names the odd rank, a neighbour of it and the field. */
static int disagree_once(uint32_t rank, const struct disagreement *d, uint32_t odd)
{
	static char room[4 * DISAGREE_COUNT];
	int fd = open_rank(rank), err;
	struct rar_error e;
	ssize_t n;

	RAR_CHECK(fd >= 0 && !rar_barrier(barrier, RANKS, SYNC_S), "no group");
	/* Nothing but the collective tells a barrier from an all-reduce of nothing. */
	err = post_zeros(fd, rank, rank == odd ? d->odd : d->usual,
			 d->usual.collective == RAR_BARRIER &&
			 d->odd.collective == RAR_ALLREDUCE);
	RAR_CHECK(!err || err == -EBADMSG, "send: %s", strerrorname_np(-err));
	/* A root has its result before any rank notices. */
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	while ((n = rar_recv(fd, room, sizeof(room), 0, NULL, NULL)) >= 0)
		;
	RAR_CHECK(n == -EBADMSG, "recv: %s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == d->reason, "reason %s",
		  rar_reason_name(e.reason));
	RAR_CHECK(e.rank != e.other && (e.rank == odd || e.other == odd) && e.rank < RANKS &&
		  e.other < RANKS && !e.op_seq, "ranks %u and %u", e.rank, e.other);
	RAR_CHECK(!rar_barrier(barrier, RANKS, SYNC_S), "too late");
	close(fd);
	return 0;
}

/*
 * Each rank in turn disagrees with the others, each time in a new group. With some pairs of
 * operations all ranks wait for chunks of one another, and notice it by their probes.
 */
static int disagree(uint32_t rank, void *arg)
{
	const struct disagreement *d = arg;

	for (uint32_t odd = 0; odd < RANKS; odd++) {
		ring.group += GROUPS;
		RAR_CHECK(!disagree_once(rank, d, odd), "^ %u, root %u; rank %u: %u, root %u",
			  d->usual.collective, d->usual.root, odd, d->odd.collective,
			  d->odd.root);
	}
	return 0;
}

/* All pairs of different collectives: one rank has the second, the others have the first. */
static int disagree_collectives(uint32_t rank, void *arg)
{
	struct disagreement d = { .reason = RAR_R_COLLECTIVE };
	uint8_t *usual = &d.usual.collective, *odd = &d.odd.collective;
	int err = 0;

	(void)arg;
	for (*usual = RAR_ALLREDUCE; *usual <= RAR_BARRIER; ++*usual)
		for (*odd = RAR_ALLREDUCE; *odd <= RAR_BARRIER && !err; ++*odd)
			if (*usual != *odd)
				err = disagree(rank, &d);
	return err;
}

/* All pairs of different roots: one rank has the second, the others have the first. */
static int disagree_roots(uint32_t rank, void *arg)
{
	struct disagreement d = { .reason = RAR_R_ROOT };
	uint32_t *usual = &d.usual.root, *odd = &d.odd.root;
	int err = 0;

	d.usual.collective = d.odd.collective = *(const uint8_t *)arg;
	for (*usual = 0; *usual < RANKS; ++*usual)
		for (*odd = 0; *odd < RANKS && !err; ++*odd)
			if (*usual != *odd)
				err = disagree(rank, &d);
	return err;
}

/* Ranks may name different reductions if no rank adds. */
static int agree(uint32_t rank, void *arg)
{
	static const uint8_t order[] = { RAR_BROADCAST, RAR_ALLGATHER, RAR_BARRIER };
	int fd = open_rank(rank), err;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t i = 0; i < sizeof(order); i++) {
		struct rar_job j = {
			.ring = &ring, .id = i, .collective = order[i], .dtype = RAR_F32,
			.count = rar_job_count(&ring, order[i], 100),
		};
		struct rar_job_memory m = rar_job_memory(&j, rank);
		struct rar_part given = rar_job_given(&j, rank);
		struct rar_op op = rar_job_op(&j);

		op.redop = rank ? RAR_BAND : RAR_MAX;
		if (order[i] == RAR_BARRIER)
			op.dtype = rank ? RAR_I64 : RAR_BF16;
		err = rar_send(fd, m.src + given.first, given.n * 4ul, 0, &op) ?:
		      rar_job_collect(fd, &j, rank, &m);
		rar_job_free(&j, &m);
		RAR_CHECK(!err, "%s: %d", rar_collective_name(order[i]), err);
	}
	return 0;
}

/* ------------------------------------------------------------ what is refused */

#define SOME		48u		/* bytes: four elements of each of three ranks */

#define NOWHERE		4096u		/* no memory is there */
#define OVERLAPS	8192u		/* bytes of the contribution, from this value on */

/* A rank's call, and the errno that it gets. */
static const struct refused {
	const char *what;
	int err;
	uint32_t rank;
	uint32_t len;
	int flags;
	struct rar_op op;		/* @dst: see place_of() */
} refused[] = {
	{ "broadcast: no such root", EINVAL, 0, SOME, 0,
	  { .collective = RAR_BROADCAST, .root = 3, .bytes = SOME } },
	{ "reduce: no such root", EINVAL, 0, SOME, 0,
	  { .collective = RAR_REDUCE, .root = 65536, .bytes = SOME } },
	{ "reduce_scatter has no root", EINVAL, 0, SOME, 0,
	  { .collective = RAR_REDUCE_SCATTER, .root = 1, .bytes = SOME } },
	{ "allgather has no root", EINVAL, 0, SOME / 3, 0,
	  { .collective = RAR_ALLGATHER, .root = 1, .bytes = SOME } },
	{ "barrier has no root", EINVAL, 0, 0, 0,
	  { .collective = RAR_BARRIER, .root = 1 } },
	{ "reduce_scatter: not a share for each", EINVAL, 0, SOME + 4, 0,
	  { .collective = RAR_REDUCE_SCATTER, .bytes = SOME + 4 } },
	{ "reduce_scatter: a share cuts an element", EINVAL, 0, SOME + 6, 0,
	  { .collective = RAR_REDUCE_SCATTER, .bytes = SOME + 6 } },
	{ "allgather: not a share for each", EINVAL, 0, SOME / 3, 0,
	  { .collective = RAR_ALLGATHER, .bytes = SOME + 4 } },
	{ "allgather: all instead of a share", EINVAL, 0, SOME, 0,
	  { .collective = RAR_ALLGATHER, .bytes = SOME } },
	{ "allgather: no bytes given", EINVAL, 0, SOME / 3, 0,
	  { .collective = RAR_ALLGATHER } },
	{ "allgather in place: a share instead of all", EINVAL, 0, SOME / 3, MSG_ZEROCOPY,
	  { .collective = RAR_ALLGATHER, .bytes = SOME } },
	{ "broadcast: data that are not the root's", EINVAL, 1, SOME, 0,
	  { .collective = RAR_BROADCAST, .bytes = SOME } },
	{ "broadcast: no data of the root", EINVAL, 0, 0, 0,
	  { .collective = RAR_BROADCAST, .bytes = SOME } },
	{ "broadcast: more than there are", EINVAL, 0, SOME + 4, MSG_MORE,
	  { .collective = RAR_BROADCAST, .bytes = SOME } },
	{ "broadcast in place: nothing to write to", EINVAL, 1, 0, MSG_ZEROCOPY,
	  { .collective = RAR_BROADCAST, .bytes = SOME } },
	{ "reduce: less than told", EINVAL, 0, SOME - 4, 0,
	  { .collective = RAR_REDUCE, .bytes = SOME } },
	{ "barrier with data", EINVAL, 0, SOME, 0,
	  { .collective = RAR_BARRIER, .bytes = SOME } },
	{ "barrier with bytes", EINVAL, 0, 0, MSG_MORE,
	  { .collective = RAR_BARRIER, .bytes = SOME } },
	{ "a flag", EINVAL, 0, SOME, 0,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .flags = 1 } },
	{ "no such collective", EOPNOTSUPP, 0, SOME, 0,
	  { .collective = RAR_COLLECTIVE_NR, .bytes = SOME } },
	{ "no such collective at all", EOPNOTSUPP, 0, SOME, 0,
	  { .collective = 255, .bytes = SOME } },
	{ "reduce_scatter out of place", EOPNOTSUPP, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_REDUCE_SCATTER, .bytes = SOME, .dst = 1 } },
	{ "reduce out of place", EOPNOTSUPP, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_REDUCE, .bytes = SOME, .dst = 1 } },
	{ "barrier out of place", EOPNOTSUPP, 0, 0, MSG_ZEROCOPY,
	  { .collective = RAR_BARRIER, .dst = 1 } },
	{ "broadcast, copied to nowhere", EFAULT, 0, SOME, 0,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .dst = NOWHERE } },
	{ "broadcast out of place: data that are not the root's", EINVAL, 1, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .dst = 1 } },
	{ "allgather out of place: all instead of a share", EINVAL, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_ALLGATHER, .bytes = SOME, .dst = 1 } },
	{ "allgather out of place: the share of another rank", EINVAL, 1, SOME / 3, MSG_ZEROCOPY,
	  { .collective = RAR_ALLGATHER, .bytes = SOME, .dst = OVERLAPS } },
	{ "broadcast out of place: overlaps", EINVAL, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .dst = OVERLAPS + 4 } },
	{ "broadcast out of place: nowhere to write to", EFAULT, 1, 0, MSG_ZEROCOPY,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .dst = NOWHERE } },
};

/* The address that stands for dst in a row: 0, NOWHERE, in @x, or in other memory. */
static uintptr_t place_of(uint64_t dst, const char *x)
{
	static char other[2 * SOME];

	if (!dst || dst == NOWHERE)
		return dst;
	return (uintptr_t)(dst >= OVERLAPS ? x + (dst - OVERLAPS) : other);
}

/* No call has an effect: after all of them the group works. */
static int refusals(uint32_t rank, void *arg)
{
	struct rar_job j = {
		.ring = &ring, .id = 1, .collective = RAR_ALLGATHER, .dtype = RAR_I32,
		.count = 4 * RANKS,
	};
	struct rar_job_memory m = rar_job_memory(&j, rank);
	int fd = open_rank(rank), bad = 0;
	static char x[2 * SOME];
	struct rar_info info;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const struct refused *r = &refused[i];
		struct rar_op op = r->op;
		int err;

		if (r->rank != rank)
			continue;
		op.size = sizeof(op);
		op.dst = place_of(op.dst, x);
		err = rar_send(fd, x, r->len, r->flags, &op);
		if (err != -r->err) {
			rar_log("%s: %s", r->what, strerrorname_np(-err));
			bad = 1;
		}
	}
	RAR_CHECK(!bad && !rar_info(fd, &info) && !info.ops_posted, "something was sent");
	RAR_CHECK(!rar_barrier(barrier, RANKS, SYNC_S), "too late");
	return rar_job_post(fd, &j, rank, &m) ?: rar_job_collect(fd, &j, rank, &m);
}

static int caps(uint32_t rank, void *arg)
{
	socklen_t len = sizeof(struct rar_caps);
	int fd = open_rank(rank);
	struct rar_caps caps;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	RAR_CHECK(!getsockopt(fd, SOL_RAR, RAR_CAPS, &caps, &len) &&
		  caps.collectives == (1U << RAR_COLLECTIVE_NR) - 2,
		  "collectives %x", caps.collectives);
	return 0;
}

/* ------------------------------------------------------------ all tests */

static void run(const char *what, const char *name, rar_rank_fn fn, const void *arg)
{
	ring.group++;
	memset(barrier, 0, sizeof(*barrier));
	ksft_test_result(!rar_run(RANKS, NULL, 60, fn, (void *)arg), "%s%s\n", what, name);
}

int main(void)
{
	static const uint8_t rooted[] = { RAR_BROADCAST, RAR_REDUCE };
	size_t n = sizeof(disagreements) / sizeof(disagreements[0]);

	rar_begin_private();
	barrier = rar_shared(sizeof(*barrier));
	ksft_set_plan(6 + n);
	run("different reductions where no rank adds", "", agree, NULL);
	run("refused", "", refusals, NULL);
	run("caps", "", caps, NULL);
	for (size_t i = 0; i < n; i++)
		run("disagree: ", disagreements[i].name, disagree, &disagreements[i]);
	run("disagree: every pair of collectives", "", disagree_collectives, NULL);
	for (size_t i = 0; i < sizeof(rooted); i++)
		run("disagree: every pair of roots: ", rar_collective_name(rooted[i]),
		    disagree_roots, &rooted[i]);
	ksft_finished();
}
