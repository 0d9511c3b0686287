// SPDX-License-Identifier: GPL-2.0
/*
 * All collectives: groups of 1 to 5 ranks ("full": also 9 and 16), every root, copied and in
 * place, i32 and f32. Results are compared with sums that C adds in the order of the manual.
 * There is more data than several windows, roots are far ahead, collectives and all-reduces
 * are in flight together, send() and recv() run at the same time, ranks disagree, and calls
 * are refused.
 *
 * coll [-N NETNS] [-H] [full|short]: all ranks on 127.0.0.1 of a namespace of their own, or
 * rank r in the namespace NETNSr. -H: by hosts. short: for links that lose packets.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define MANY		40u		/* operations in flight */
#define QUICK		6000u		/* short operations, one after the other */
#define GUARD		0x5a
#define WINDOW		"65536"		/* bytes, net.rar.window for test windows() */
#define SYNC_S		100

static struct rar_ring ring = { .where = RAR_ON_LO4 };
static bool full, brief;

struct shared {
	struct rar_barrier barrier;
};

static struct shared *shared;

static const char *const names[RAR_COLLECTIVE_NR] = {
	[RAR_ALLREDUCE] = "allreduce", [RAR_BROADCAST] = "broadcast",
	[RAR_REDUCE] = "reduce", [RAR_REDUCE_SCATTER] = "reduce_scatter",
	[RAR_ALLGATHER] = "allgather", [RAR_BARRIER] = "barrier",
};

/* An operation: @count elements of four bytes. */
struct job {
	uint64_t id;
	uint8_t collective;
	uint8_t dtype;
	bool in_place;
	uint32_t root;
	uint32_t count;
};

/* Elements of a job's tensor. */
struct part {
	uint32_t first;
	uint32_t n;
};

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static bool cuts(uint8_t collective)
{
	return collective == RAR_REDUCE_SCATTER || collective == RAR_ALLGATHER;
}

static bool rooted(uint8_t collective)
{
	return collective == RAR_BROADCAST || collective == RAR_REDUCE;
}

/* ------------------------------------------------------------ what the manual says */

static struct part block(const struct job *j, uint32_t rank)
{
	uint32_t n = j->count / ring.size;

	return (struct part){ n * rank, n };
}

static struct part given(const struct job *j, uint32_t rank)
{
	if (j->collective == RAR_ALLGATHER)
		return block(j, rank);
	if (j->collective == RAR_BROADCAST && rank != j->root)
		return (struct part){ 0 };
	return (struct part){ 0, j->count };
}

static struct part got(const struct job *j, uint32_t rank)
{
	if (j->collective == RAR_REDUCE_SCATTER)
		return block(j, rank);
	if (j->collective == RAR_REDUCE && rank != j->root)
		return (struct part){ 0 };
	return (struct part){ 0, j->count };
}

static uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Element @i of what @rank contributes: any integer, or a float between 1 and 2 or so. */
static uint32_t element(const struct job *j, uint32_t rank, uint32_t i)
{
	uint64_t state = j->id * 1000003 + rank * 7919ull + i * 2654435761ull;
	uint32_t x = rar_random(&state);

	if (j->dtype == RAR_F32)
		return bits_of(1 + (x >> 8) * 0x1p-24f) ^ (x & 1) << 31;
	return x;
}

static uint32_t add(const struct job *j, uint32_t in, uint32_t own)
{
	return j->dtype == RAR_F32 ? bits_of(float_of(in) + float_of(own)) : in + own;
}

/* Elements of a block of an all-reduce. */
static uint32_t cut(const struct job *j)
{
	uint32_t bytes = j->count * 4, share = (bytes + ring.size - 1) / ring.size;

	return bytes <= 8192 ? j->count + 1 : (share + 63) / 64 * 16;
}

/* The rank with which the sum of element @i begins; the next ranks add in turn. */
static uint32_t first_rank(const struct job *j, uint32_t i)
{
	if (j->collective == RAR_REDUCE)
		return j->root + 1;
	if (j->collective == RAR_REDUCE_SCATTER)
		return i / (j->count / ring.size) + 1;
	return ring.by_hosts ? 0 : i / cut(j);
}

static uint32_t wanted(const struct job *j, uint32_t i)
{
	uint32_t first = first_rank(j, i), x;

	if (j->collective == RAR_BROADCAST)
		return element(j, j->root, i);
	if (j->collective == RAR_ALLGATHER)
		return element(j, i / (j->count / ring.size), i);
	x = element(j, first % ring.size, i);
	for (uint32_t r = 1; r < ring.size; r++)
		x = add(j, x, element(j, (first + r) % ring.size, i));
	return x;
}

/* ------------------------------------------------------------ one operation */

static struct rar_op op_of(const struct job *j)
{
	struct rar_op op = rar_op_of(j->dtype, j->count * 4ull, j->id);

	op.collective = j->collective;
	op.root = rooted(j->collective) ? j->root : 0;
	return op;
}

/* Memory for the whole tensor and one element after it. */
static uint32_t *room_for(const struct job *j)
{
	uint32_t *x = malloc(j->count * 4ul + 4);

	memset(x, GUARD, j->count * 4ul + 4);
	return x;
}

/* Memory for the whole tensor, with a rank's contribution in it. */
static uint32_t *memory_of(const struct job *j, uint32_t rank)
{
	struct part span = given(j, rank);
	uint32_t *x = room_for(j);

	for (uint32_t i = 0; i < span.n; i++)
		x[span.first + i] = element(j, rank, span.first + i);
	return x;
}

/* Send a contribution, sometimes in several calls. */
static int send_copy(int fd, const struct job *j, const uint32_t *x, struct part span, int flags)
{
	struct rar_op op = op_of(j);
	uint32_t half = j->id % 3 ? 0 : span.n / 2;
	int err;

	x += span.first;
	if (!half)
		return rar_send(fd, x, span.n * 4ul, flags, &op);
	err = rar_send(fd, x, half * 4ul, flags | MSG_MORE, &op);
	return err ?: rar_send(fd, x + half, (span.n - half) * 4ul, flags, NULL);
}

static int post(int fd, const struct job *j, uint32_t rank, uint32_t *x, int flags)
{
	struct rar_op op = op_of(j);

	if (j->in_place)
		return rar_send(fd, x, j->count * 4ul, flags | MSG_ZEROCOPY, &op);
	return send_copy(fd, j, x, given(j, rank), flags);
}

static int verify(const struct job *j, struct part span, const uint32_t *x)
{
	for (uint32_t i = 0; i < span.n; i++) {
		uint32_t want = wanted(j, span.first + i);

		RAR_CHECK(x[i] == want, "op %llu: element %u + %u of %u is %x, not %x",
			  (unsigned long long)j->id, span.first, i, j->count, x[i], want);
	}
	return 0;
}

/* Collect and check a result. @x: the job's memory, or any memory of a tensor's length. */
static int collect(int fd, const struct job *j, uint32_t rank, uint32_t *x)
{
	struct part span = got(j, rank);
	ssize_t n, want = j->in_place ? 0 : span.n * 4;
	struct rar_done done = {};

	n = rar_recv_all(fd, x, j->in_place ? 0 : j->count * 4, &done);
	RAR_CHECK(n == want, "op %llu: received %zd, not %zd", (unsigned long long)j->id, n,
		  want);
	RAR_CHECK(done.cookie == j->id && !done.status, "cookie %llu",
		  (unsigned long long)done.cookie);
	RAR_CHECK(done.contributors == (j->collective == RAR_BROADCAST ? 1 : ring.size),
		  "contributors %u", done.contributors);
	RAR_CHECK(j->in_place || x[j->count] == 0x01010101u * GUARD, "wrote too much");
	return verify(j, span, x + (j->in_place ? span.first : 0));
}

/* Run a row of jobs, @flight of them at a time. */
static int run_jobs(int fd, uint32_t rank, const struct job *jobs, uint32_t n, uint32_t flight)
{
	uint32_t *x[MANY];
	int err = 0;

	for (uint32_t i = 0; i < n + flight && !err; i++) {
		if (i >= flight) {
			err = collect(fd, &jobs[i - flight], rank, x[i % flight]);
			free(x[i % flight]);
			if (err)
				rar_log("rank %u: %s of %u elements, root %u%s", rank,
					names[jobs[i - flight].collective],
					jobs[i - flight].count, jobs[i - flight].root,
					jobs[i - flight].in_place ? ", in place" : "");
		}
		if (i < n && !err) {
			x[i % flight] = memory_of(&jobs[i], rank);
			err = post(fd, &jobs[i], rank, x[i % flight], 0);
			RAR_CHECK(!err, "rank %u: %s of %u elements: %s", rank,
				  names[jobs[i].collective], jobs[i].count,
				  strerrorname_np(-err));
		}
	}
	return err;
}

static int open_rank(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

/* ------------------------------------------------------------ all of them, every root */

static uint32_t count_of(uint8_t collective, uint32_t count)
{
	if (collective == RAR_BARRIER)
		return 0;
	return cuts(collective) ? count * ring.size : count;
}

/* Jobs without elements, of one element, one block, a part of a chunk, and many chunks. */
static uint32_t all_jobs(struct job *jobs)
{
	static const uint32_t counts[] = { 0, 1, 61, 3007, 20011 };
	uint32_t n = 0;

	for (uint8_t c = RAR_ALLREDUCE; c < RAR_COLLECTIVE_NR; c++)
		for (uint32_t root = 0; root < (rooted(c) ? ring.size : 1); root++)
			for (uint32_t i = 0; i < 4 * sizeof(counts) / sizeof(counts[0]); i++) {
				jobs[n] = (struct job){
					.id = n + 1, .collective = c, .root = root,
					.dtype = i & 1 ? RAR_F32 : RAR_I32,
					.in_place = i & 2, .count = count_of(c, counts[i / 4]),
				};
				n++;
			}
	return n;
}

static int every_root(uint32_t rank, void *arg)
{
	static struct job jobs[RAR_COLLECTIVE_NR * 16 * 20];
	int fd = open_rank(rank);

	(void)arg;
	return fd < 0 || run_jobs(fd, rank, jobs, all_jobs(jobs), 1) ||
	       run_jobs(fd, rank, jobs, all_jobs(jobs), 8);
}

/* ------------------------------------------------------------ many at a time */

/* Jobs whose order and kinds the seed decides, the same on all ranks. */
static int mixed(uint32_t rank, void *arg)
{
	uint64_t state = rar_seed + ring.group;
	struct job jobs[120];
	int fd = open_rank(rank);

	(void)arg;
	for (uint32_t i = 0; i < 120; i++) {
		uint8_t c = rar_random(&state) % 2 ? RAR_ALLREDUCE :
			    RAR_BROADCAST + rar_random(&state) % 5;

		jobs[i] = (struct job){
			.id = i + 1, .collective = c, .root = rar_random(&state) % ring.size,
			.dtype = rar_random(&state) % 2 ? RAR_F32 : RAR_I32,
			.in_place = rar_random(&state) % 2,
			.count = count_of(c, rar_random(&state) % (i % 8 ? 700 : 30000)),
		};
	}
	return fd < 0 || run_jobs(fd, rank, jobs, 120, MANY);
}

/*
 * Many broadcasts, from every root in turn: the other ranks may have an operation's data, and
 * acknowledge them, before the root's send() returns.
 */
static int quick_acks(uint32_t rank, void *arg)
{
	static struct job jobs[QUICK];
	int fd = open_rank(rank);

	(void)arg;
	for (uint32_t i = 0; i < QUICK; i++)
		jobs[i] = (struct job){
			.id = i + 1, .collective = RAR_BROADCAST, .root = i % ring.size,
			.dtype = RAR_I32, .count = 1,
		};
	return fd < 0 || run_jobs(fd, rank, jobs, QUICK, 8);
}

/* Chunks that do not come back are not limited by the window, and never counted in it. */
static int windows(uint32_t rank, void *arg)
{
	static const uint8_t order[] = {
		RAR_REDUCE_SCATTER, RAR_REDUCE, RAR_ALLGATHER, RAR_BROADCAST, RAR_ALLREDUCE,
	};
	struct job jobs[20];
	int fd;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/window", WINDOW), "window");
	RAR_CHECK(!sync_ranks(), "too late");
	fd = open_rank(rank);
	for (uint32_t i = 0; i < 20; i++)
		jobs[i] = (struct job){
			.id = i + 1, .collective = order[i / 4], .root = i % ring.size,
			.dtype = RAR_F32, .in_place = i & 1,
			.count = 60 * 1024 * ring.size,
		};
	return fd < 0 || run_jobs(fd, rank, jobs, 20, 3);
}

/* ------------------------------------------------------------ ahead of the others */

/*
 * The root of broadcasts has posted 64 and has their results when the others begin. So has
 * the rank after the root of reductions, which is the first to send. Then come 64 more, after
 * which ranks close at once: they still serve their successors.
 */
static int ahead(uint32_t rank, void *arg)
{
	uint8_t c = *(uint8_t *)arg;
	uint32_t first = c == RAR_REDUCE ? 1 : 0;
	struct job j = { .collective = c, .dtype = RAR_I32, .count = 901 };
	int fd = open_rank(rank), err = 0;
	uint32_t *x;

	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t round = 0; round < 2 && !err; round++) {
		if (rank != first)
			RAR_CHECK(!sync_ranks(), "too late");
		for (uint32_t i = 0; i < RAR_MAX_OPS && !err; i++) {
			j.id = i + 1;
			x = memory_of(&j, rank);
			err = post(fd, &j, rank, x, 0);
			free(x);
		}
		for (uint32_t i = 0; i < RAR_MAX_OPS && !err; i++) {
			j.id = i + 1;
			x = room_for(&j);
			err = collect(fd, &j, rank, x);
			free(x);
		}
		if (rank == first)
			RAR_CHECK(!sync_ranks(), "too late");
	}
	RAR_CHECK(!err, "%d", err);
	close(fd);
	return 0;
}

/* ------------------------------------------------------------ send() and recv() together */

struct half {
	int fd;
	uint32_t rank;
	const struct job *jobs;
	uint32_t n;
	int err;
};

static void *sender(void *arg)
{
	struct half *h = arg;

	for (uint32_t i = 0; i < h->n && !h->err; i++) {
		uint32_t *x = memory_of(&h->jobs[i], h->rank);

		h->err = post(h->fd, &h->jobs[i], h->rank, x, 0);
		free(x);
	}
	return NULL;
}

/* Long tensors are copied in and out in steps at the same time. */
static int both_ways(uint32_t rank, void *arg)
{
	struct half h = { .rank = rank, .n = 10 };
	struct job jobs[10];
	pthread_t thread;
	uint32_t *x;
	int err = 0;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/copy_step", "4096"), "copy_step");
	RAR_CHECK(!sync_ranks(), "too late");
	h.jobs = jobs;
	h.fd = open_rank(rank);
	RAR_CHECK(h.fd >= 0, "no group");
	for (uint32_t i = 0; i < h.n; i++)
		jobs[i] = (struct job){
			.id = i + 1, .collective = RAR_ALLREDUCE + i % 5, .root = 1,
			.dtype = RAR_F32, .count = 20011 * ring.size,
		};
	RAR_CHECK(!pthread_create(&thread, NULL, sender, &h), "pthread_create");
	for (uint32_t i = 0; i < h.n && !err; i++) {
		x = room_for(&jobs[i]);
		err = collect(h.fd, &jobs[i], rank, x);
		free(x);
	}
	pthread_join(thread, NULL);
	RAR_CHECK(!h.err, "send: %s", strerrorname_np(-h.err));
	return err;
}

/* ------------------------------------------------------------ death */

#define VICTIM		1u
#define LAST_POST	5u		/* after this post the victim dies */
#define WAIT_MS		10000		/* a survivor must know by then */

/*
 * A rank dies by SIGKILL in the middle of an operation of which its successor is the root. The
 * survivors go on until they are told, and all of them are told which rank died.
 */
static int dies(uint32_t rank, void *arg)
{
	struct job j = { .collective = *(const uint8_t *)arg, .dtype = RAR_I32 };
	int fd = open_rank(rank);
	struct rar_error e;
	ssize_t n = 0;
	uint32_t *x;

	RAR_CHECK(fd >= 0, "no group");
	rar_timeout(fd, SO_RCVTIMEO, WAIT_MS);
	rar_timeout(fd, SO_SNDTIMEO, WAIT_MS);
	j.root = (VICTIM + 1) % ring.size;
	j.count = count_of(j.collective, 60000);
	for (j.id = 1; n >= 0; j.id++) {
		x = memory_of(&j, rank);
		n = post(fd, &j, rank, x, 0);
		if (!n && rank == VICTIM && j.id == LAST_POST)
			raise(SIGKILL);
		if (!n)
			n = rar_recv_all(fd, x, j.count * 4, NULL);
		free(x);
	}
	RAR_CHECK(n == -ECONNRESET, "%s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_DIED && e.rank == VICTIM,
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	return 0;
}

/* ------------------------------------------------------------ disagreement */

static const struct disagreement {
	const char *name;
	uint8_t collective, odd_collective;
	uint32_t root, odd_root;
	uint32_t reason;
} disagreements[] = {
	{ "broadcast or reduce", RAR_BROADCAST, RAR_REDUCE, 0, 0, RAR_R_COLLECTIVE },
	{ "reduce_scatter or allreduce", RAR_REDUCE_SCATTER, RAR_ALLREDUCE, 0, 0,
	  RAR_R_COLLECTIVE },
	{ "allgather or reduce_scatter", RAR_ALLGATHER, RAR_REDUCE_SCATTER, 0, 0,
	  RAR_R_COLLECTIVE },
	{ "barrier or allreduce of nothing", RAR_BARRIER, RAR_ALLREDUCE, 0, 0,
	  RAR_R_COLLECTIVE },
	{ "root of a broadcast", RAR_BROADCAST, RAR_BROADCAST, 0, 1, RAR_R_ROOT },
	{ "root of a reduce", RAR_REDUCE, RAR_REDUCE, 2, 0, RAR_R_ROOT },
};

#define ODD 1u

/* Rank 1 is the odd rank. The error names it, a neighbour and the field. */
static int disagree(uint32_t rank, void *arg)
{
	const struct disagreement *d = arg;
	bool odd = rank == ODD;
	struct job j = {
		.id = 1, .dtype = RAR_U8, .root = odd ? d->odd_root : d->root,
		.collective = odd ? d->odd_collective : d->collective,
		.count = d->collective == RAR_BARRIER ? 0 : 30 * ring.size,
	};
	int fd = open_rank(rank), err;
	struct rar_error e;
	ssize_t n;
	uint32_t *x;

	if (fd == -EBADMSG)	/* the other ranks have failed already */
		return 0;
	RAR_CHECK(fd >= 0, "no group");
	x = memory_of(&j, rank);
	err = post(fd, &j, rank, x, 0);
	RAR_CHECK(!err || err == -EBADMSG, "send: %s", strerrorname_np(-err));
	/* A root has its result before any rank notices. */
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	while ((n = rar_recv(fd, x, j.count * 4ul, 0, NULL, NULL)) >= 0)
		;
	RAR_CHECK(n == -EBADMSG, "recv: %s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == d->reason, "reason %s",
		  rar_reason_name(e.reason));
	RAR_CHECK(e.rank != e.other && (e.rank == ODD || e.other == ODD) && !e.op_seq,
		  "ranks %u and %u", e.rank, e.other);
	return 0;
}

/* Ranks may name different reductions if no rank adds. */
static int agree(uint32_t rank, void *arg)
{
	static const uint8_t order[] = { RAR_BROADCAST, RAR_ALLGATHER, RAR_BARRIER };
	int fd = open_rank(rank), err;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t i = 0; i < sizeof(order); i++) {
		struct job j = { .id = i, .collective = order[i], .dtype = RAR_F32 };
		struct rar_op op;
		uint32_t *x;

		j.count = count_of(order[i], 100);
		x = memory_of(&j, rank);
		op = op_of(&j);
		op.redop = rank ? RAR_BAND : RAR_MAX;
		if (order[i] == RAR_BARRIER)
			op.dtype = rank ? RAR_I64 : RAR_BF16;
		err = rar_send(fd, x + given(&j, rank).first, given(&j, rank).n * 4ul, 0, &op) ?:
		      collect(fd, &j, rank, x);
		free(x);
		RAR_CHECK(!err, "%s: %d", names[order[i]], err);
	}
	return 0;
}

/* ------------------------------------------------------------ what is refused */

#define SOME		48u		/* bytes: four elements of each of three ranks */

/* A rank's call, and the errno that it gets. */
static const struct refused {
	const char *what;
	int err;
	uint32_t rank;
	uint32_t len;
	int flags;
	struct rar_op op;		/* @dst other than 0: use memory that is there */
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
	{ "broadcast out of place", EOPNOTSUPP, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_BROADCAST, .bytes = SOME, .dst = 1 } },
	{ "allgather out of place", EOPNOTSUPP, 0, SOME, MSG_ZEROCOPY,
	  { .collective = RAR_ALLGATHER, .bytes = SOME, .dst = 1 } },
};

/* No call has an effect: after all of them the group works. */
static int refusals(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .collective = RAR_ALLGATHER, .dtype = RAR_I32, .count = 12 };
	char x[2 * SOME] = {}, y[2 * SOME];
	int fd = open_rank(rank), bad = 0;
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
		op.dst = op.dst ? (uintptr_t)y : 0;
		err = rar_send(fd, x, r->len, r->flags, &op);
		if (err != -r->err) {
			rar_log("%s: %s", r->what, strerrorname_np(-err));
			bad = 1;
		}
	}
	RAR_CHECK(!bad && !rar_info(fd, &info) && !info.ops_posted, "something was sent");
	RAR_CHECK(!sync_ranks(), "too late");
	return run_jobs(fd, rank, &j, 1, 1);
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

static uint64_t group;

/* @killed: ranks that end by a signal. */
static void run_killed(const char *what, const char *name, uint32_t n, rar_rank_fn fn,
		       const void *arg, int killed)
{
	uint64_t start = rar_now_us();
	int failed;

	ring.group = ++group;
	ring.size = n;
	memset(&shared->barrier, 0, sizeof(shared->barrier));
	failed = rar_run(n, ring.netns, 180, fn, (void *)arg);
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
	ksft_test_result(failed == killed, "%s%s, %u ranks\n", what, name, n);
}

static void run(const char *what, const char *name, uint32_t n, rar_rank_fn fn, const void *arg)
{
	run_killed(what, name, n, fn, arg, 0);
}

static void run_deaths(void)
{
	static const uint8_t all[] = {
		RAR_BROADCAST, RAR_REDUCE, RAR_REDUCE_SCATTER, RAR_ALLGATHER, RAR_BARRIER,
	};

	for (size_t i = 0; i < sizeof(all); i++)
		run_killed("a rank dies: ", names[all[i]], 4, dies, &all[i], 1);
}

static void run_disagreements(void)
{
	for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++)
		run("disagree: ", disagreements[i].name, 3, disagree, &disagreements[i]);
}

int main(int argc, char **argv)
{
	static const uint8_t rows[] = { RAR_BROADCAST, RAR_REDUCE };
	static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 9, 16 };
	size_t nsizes;
	int c;

	while ((c = getopt(argc, argv, "HN:")) != -1) {
		ring.by_hosts |= c == 'H';
		ring.netns = c == 'N' ? optarg : ring.netns;
	}
	full = argv[optind] && !strcmp(argv[optind], "full");
	brief = argv[optind] && !strcmp(argv[optind], "short");
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	rar_begin();
	if (!ring.netns && rar_private_net())
		ksft_exit_skip("needs root\n");
	shared = rar_shared(sizeof(*shared));
	nsizes = full ? 7 : brief ? 3 : 5;
	ksft_set_plan(nsizes + 6 + (brief ? 0 : 8 + sizeof(disagreements) / sizeof(disagreements[0])));
	for (size_t i = 0; i < nsizes; i++)
		run("every collective, root and mode", "", sizes[i], every_root, NULL);
	run("many at a time", "", 3, mixed, NULL);
	run("quick acknowledgments", "", 2, quick_acks, NULL);
	run("many windows", "", 3, windows, NULL);
	run("send() and recv() together", "", 3, both_ways, NULL);
	run("ahead: ", names[rows[0]], 3, ahead, &rows[0]);
	run("ahead: ", names[rows[1]], 3, ahead, &rows[1]);
	if (!brief) {
		run("different reductions where no rank adds", "", 3, agree, NULL);
		run("refused", "", 3, refusals, NULL);
		run("caps", "", 3, caps, NULL);
		run_deaths();
		run_disagreements();
	}
	ksft_finished();
}
