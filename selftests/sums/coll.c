// SPDX-License-Identifier: GPL-2.0
/*
 * All collectives: groups of 1 to 5 ranks ("full": 1 to 9 and 16; "short": 1 to 4), every root;
 * copied, in place, out of place and in registered memory; i32 and f32. Results are compared with
 * sums that C adds in the order of the manual. There is more data than several windows, roots are
 * far ahead, collectives and all-reduces are in flight together, send() and recv() run at the
 * same time, ranks die.
 *
 * coll [-N NETNS] [-H|-A|-E|-2] [full|short]: all ranks on 127.0.0.1 of a namespace of their own, or
 * rank r in the namespace NETNSr. -H: by hosts. -A, -E, -2: RAR_AUTO, RAR_DIRECT,
 * RAR_DOUBLING. short: for links that lose packets.
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
#include "job.h"

#define MANY		40u		/* operations in flight, at most RAR_MAX_OPS */
#define QUICK		6000u		/* short operations, one after the other */
#define WINDOW		"65536"		/* bytes, net.rar.window for test windows() */
#define SYNC_S		100

static struct rar_ring ring = { .where = RAR_ON_LO4 };
static bool full, brief;
static uint64_t naps;		/* not 0: state of the random pauses before posting */

struct shared {
	struct rar_barrier barrier;
};

static struct shared *shared;

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

/* Sometimes let the other ranks go first. */
static void nap(void)
{
	if (naps && rar_random(&naps) % 4 == 0)
		usleep(rar_random(&naps) % 3000);
}

/* Run a row of jobs, @flight of them at a time. */
static int run_jobs(int fd, uint32_t rank, const struct rar_job *jobs, uint32_t n, uint32_t flight)
{
	struct rar_job_memory memory[RAR_MAX_OPS] = {};
	int err = 0;

	for (uint32_t i = 0; i < n + flight && !err; i++) {
		struct rar_job_memory *m = &memory[i % flight];
		const struct rar_job *done = &jobs[i - flight], *j = &jobs[i];

		if (i >= flight) {
			err = rar_job_collect(fd, done, rank, m);
			rar_job_free(done, m);
			if (err)
				rar_log("rank %u: %s of %u elements, root %u, %s", rank,
					rar_collective_name(done->collective), done->count,
					done->root, rar_mode_name(done->mode));
		}
		if (i < n && !err) {
			*m = rar_job_memory(j, rank);
			nap();
			err = rar_job_post(fd, j, rank, m);
			RAR_CHECK(!err, "rank %u: %s of %u elements, %s: %s", rank,
				  rar_collective_name(j->collective), j->count,
				  rar_mode_name(j->mode), strerrorname_np(-err));
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

#define COUNTS		5u
#define VARIANTS	(2u * RAR_MODES)	/* types, modes */

/*
 * Jobs without elements, of one element, one block, a part of a chunk, and many chunks. Each
 * with every mode and type; if there is little time, the type changes with the count.
 */
static uint32_t all_jobs(struct rar_job *jobs)
{
	static const uint32_t counts[COUNTS] = { 0, 1, 61, 3007, 20011 };
	uint32_t n = 0;

	for (uint8_t c = RAR_ALLREDUCE; c <= RAR_BARRIER; c++)
		for (uint32_t root = 0; root < (rar_job_rooted(c) ? ring.size : 1); root++)
			for (uint32_t i = 0; i < COUNTS * VARIANTS; i++) {
				uint32_t count = i / VARIANTS, mode = i / 2 % RAR_MODES;

				if (!full && (count + mode + i) % 2)
					continue;
				jobs[n] = (struct rar_job){
					.ring = &ring, .id = n + 1, .collective = c, .root = root,
					.dtype = i & 1 ? RAR_F32 : RAR_I32, .mode = mode,
					.count = rar_job_count(&ring, c, counts[count]),
				};
				n++;
			}
	return n;
}

static int every_root(uint32_t rank, void *arg)
{
	static struct rar_job jobs[(2 * 16 + RAR_COLLECTIVE_NR) * COUNTS * VARIANTS];
	int fd = open_rank(rank);

	(void)arg;
	return fd < 0 || run_jobs(fd, rank, jobs, all_jobs(jobs), 1) ||
	       run_jobs(fd, rank, jobs, all_jobs(jobs), 8);
}

/* ------------------------------------------------------------ many at a time */

/*
 * Jobs whose order and kinds the seed decides, the same on all ranks. Each rank pauses when
 * it likes, so the ranks post them in crossed orders.
 */
static int mixed(uint32_t rank, void *arg)
{
	uint64_t state = rar_seed + ring.group;
	struct rar_job jobs[120];
	int fd = open_rank(rank);

	(void)arg;
	for (uint32_t i = 0; i < 120; i++) {
		uint8_t c = rar_random(&state) % 2 ? RAR_ALLREDUCE :
			    RAR_BROADCAST + rar_random(&state) % 5;

		jobs[i] = (struct rar_job){
			.ring = &ring, .id = i + 1, .collective = c,
			.root = rar_random(&state) % ring.size,
			.dtype = rar_random(&state) % 2 ? RAR_F32 : RAR_I32,
			.mode = rar_random(&state) % RAR_MODES,
			.count = rar_job_count(&ring, c,
					       rar_random(&state) % (i % 8 ? 700 : 30000)),
		};
	}
	naps = state + rank + 1;
	return fd < 0 || run_jobs(fd, rank, jobs, 120, MANY);
}

/*
 * Many broadcasts, from every root in turn: the other ranks may have an operation's data, and
 * acknowledge them, before the root's send() returns.
 */
static int quick_acks(uint32_t rank, void *arg)
{
	static struct rar_job jobs[QUICK];
	int fd = open_rank(rank);

	(void)arg;
	for (uint32_t i = 0; i < QUICK; i++)
		jobs[i] = (struct rar_job){
			.ring = &ring, .id = i + 1, .collective = RAR_BROADCAST,
			.root = i % ring.size, .dtype = RAR_I32, .count = 1,
		};
	return fd < 0 || run_jobs(fd, rank, jobs, QUICK, 8);
}

/* Chunks that do not come back are not limited by the window, and never counted in it. */
static int windows(uint32_t rank, void *arg)
{
	static const uint8_t order[] = {
		RAR_REDUCE_SCATTER, RAR_REDUCE, RAR_ALLGATHER, RAR_BROADCAST, RAR_ALLREDUCE,
	};
	struct rar_job jobs[20];
	int fd;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/window", WINDOW), "window");
	RAR_CHECK(!sync_ranks(), "too late");
	fd = open_rank(rank);
	for (uint32_t i = 0; i < 20; i++)
		jobs[i] = (struct rar_job){
			.ring = &ring, .id = i + 1, .collective = order[i / 4],
			.root = i % ring.size, .dtype = RAR_F32, .mode = i % RAR_MODES,
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
	struct rar_job jobs[RAR_MAX_OPS];
	int fd = open_rank(rank), err = 0;

	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t i = 0; i < RAR_MAX_OPS; i++)
		jobs[i] = (struct rar_job){
			.ring = &ring, .id = i + 1, .collective = c, .dtype = RAR_I32,
			.count = 901,
		};
	for (uint32_t round = 0; round < 2 && !err; round++) {
		if (rank != first)
			RAR_CHECK(!sync_ranks(), "too late");
		err = run_jobs(fd, rank, jobs, RAR_MAX_OPS, RAR_MAX_OPS);
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
	const struct rar_job *jobs;
	const struct rar_job_memory *memory;
	uint32_t n;
	int err;
};

static void *sender(void *arg)
{
	struct half *h = arg;

	for (uint32_t i = 0; i < h->n && !h->err; i++)
		h->err = rar_job_post(h->fd, &h->jobs[i], h->rank, &h->memory[i]);
	return NULL;
}

/* Long tensors are copied in and out in steps at the same time. */
static int both_ways(uint32_t rank, void *arg)
{
	struct rar_job_memory memory[10];
	struct rar_job jobs[10];
	struct half h = { .rank = rank, .n = 10, .jobs = jobs, .memory = memory };
	pthread_t thread;
	int err = 0;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/copy_step", "4096"), "copy_step");
	RAR_CHECK(!sync_ranks(), "too late");
	h.fd = open_rank(rank);
	RAR_CHECK(h.fd >= 0, "no group");
	for (uint32_t i = 0; i < h.n; i++) {
		jobs[i] = (struct rar_job){
			.ring = &ring, .id = i + 1, .collective = RAR_ALLREDUCE + i % 5,
			.root = 1, .dtype = RAR_F32, .count = 20011 * ring.size,
		};
		memory[i] = rar_job_memory(&jobs[i], rank);
	}
	RAR_CHECK(!pthread_create(&thread, NULL, sender, &h), "pthread_create");
	for (uint32_t i = 0; i < h.n && !err; i++)
		err = rar_job_collect(h.fd, &jobs[i], rank, &memory[i]);
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
	struct rar_job j = {
		.ring = &ring, .collective = *(const uint8_t *)arg, .dtype = RAR_I32,
	};
	int fd = open_rank(rank);
	struct rar_job_memory m;
	struct rar_error e;
	ssize_t n = 0;

	RAR_CHECK(fd >= 0, "no group");
	rar_timeout(fd, SO_RCVTIMEO, WAIT_MS);
	rar_timeout(fd, SO_SNDTIMEO, WAIT_MS);
	j.root = (VICTIM + 1) % ring.size;
	j.count = rar_job_count(&ring, j.collective,
				j.collective == RAR_ALLREDUCE ? 500 : 60000);
	for (j.id = 1; n >= 0; j.id++) {
		m = rar_job_memory(&j, rank);
		n = rar_job_post(fd, &j, rank, &m);
		if (!n && rank == VICTIM && j.id == LAST_POST)
			raise(SIGKILL);
		if (!n)
			n = rar_recv_all(fd, m.dst, j.count * 4, NULL);
		rar_job_free(&j, &m);
	}
	RAR_CHECK(n == -ECONNRESET, "%s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_DIED && e.rank == VICTIM,
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
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
		RAR_ALLREDUCE,
	};

	for (size_t i = 0; i < sizeof(all); i++)
		run_killed("a rank dies: ", rar_collective_name(all[i]), 4, dies, &all[i], 1);
}

int main(int argc, char **argv)
{
	static const uint8_t rows[] = { RAR_BROADCAST, RAR_REDUCE };
	static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16 };
	size_t nsizes;
	int c;

	while ((c = getopt(argc, argv, "2AEHN:")) != -1) {
		ring.schedule = c == 'H' ? RAR_BY_HOSTS : c == 'A' ? RAR_AUTO :
				c == 'E' ? RAR_DIRECT : c == '2' ? RAR_DOUBLING : ring.schedule;
		ring.netns = c == 'N' ? optarg : ring.netns;
	}
	full = argv[optind] && !strcmp(argv[optind], "full");
	brief = argv[optind] && !strcmp(argv[optind], "short");
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	rar_begin();
	if (!ring.netns && rar_private_net())
		ksft_exit_skip("needs root\n");
	shared = rar_shared(sizeof(*shared));
	nsizes = full ? 10 : brief ? 4 : 5;
	ksft_set_plan(nsizes + 6 + (brief ? 0 : 6));
	for (size_t i = 0; i < nsizes; i++)
		run("every collective, root and mode", "", sizes[i], every_root, NULL);
	run("many at a time", "", 3, mixed, NULL);
	run("quick acknowledgments", "", 2, quick_acks, NULL);
	run("many windows", "", 3, windows, NULL);
	run("send() and recv() together", "", 3, both_ways, NULL);
	run("ahead: ", rar_collective_name(rows[0]), 3, ahead, &rows[0]);
	run("ahead: ", rar_collective_name(rows[1]), 3, ahead, &rows[1]);
	if (!brief)
		run_deaths();
	ksft_finished();
}
