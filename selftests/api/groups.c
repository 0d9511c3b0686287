// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: several per process, many made by halving, any order of starting,
 * restarts, duplicates, members of an earlier run, disagreement about the size.
 *
 * Needs the namespaces rar0 .. rar3 of selftests/lib/lib.sh (lib/in_topo.sh 4 groups).
 * Tests that need only one namespace run on 127.0.0.1 in a namespace of their own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define SYNC_S	30

static struct rar_ring ring;	/* of the current test */

struct shared {
	struct rar_barrier barrier;
	pid_t pid[RAR_PROCS];
	atomic_uint stage;
	uint64_t us[4];
};

static struct shared *shared;

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static int wait_stage(uint32_t stage)
{
	uint64_t deadline = rar_now_us() + SYNC_S * 1000000ull;

	while (shared->stage < stage) {
		if (rar_now_us() > deadline)
			return -ETIMEDOUT;
		rar_sleep_ms(1);
	}
	return 0;
}

/* A random number below @below: reproducible, different on every rank. */
static uint32_t chance(uint32_t rank, uint32_t i, uint32_t below)
{
	uint32_t key[] = { rank, i };

	return rar_hash(rar_seed, key, sizeof(key)) % below;
}

static int one_op(int fd, uint64_t id, uint64_t count, uint32_t rank,
		  uint32_t size)
{
	struct rar_data d = { .id = id, .count = count, .size = size,
			      .dtype = RAR_F32 };

	return rar_allreduce(fd, &d, rank);
}

/* ------------------------------------------------------------ one stalled */

#define PACE_OPS	300
#define STALL_OPS	8
#define STALL_COUNT	50000

/* Measure operations that alternate between two groups, on rank 0. */
static int pace(const int *fd, uint64_t first, uint32_t rank, uint64_t *us)
{
	uint64_t start;
	int err = sync_ranks();

	start = rar_now_us();
	for (uint64_t i = 0; i < PACE_OPS && !err; i++)
		err = one_op(fd[i % 2 * 2], first + i, 500, rank, ring.size);
	if (!rank)
		*us = rar_now_us() - start;
	return err;
}

static int stall_post(int fd, uint32_t rank)
{
	struct rar_data d = { .count = STALL_COUNT, .size = ring.size,
			      .dtype = RAR_I32 };
	int err = 0;

	for (d.id = 0; d.id < STALL_OPS && !err; d.id++)
		err = rar_post(fd, &d, rank);
	return err;
}

static int stall_collect(int fd, uint32_t rank)
{
	struct rar_data d = { .count = STALL_COUNT, .size = ring.size,
			      .dtype = RAR_I32 };
	int err = 0;

	for (d.id = 0; d.id < STALL_OPS && !err; d.id++)
		err = rar_collect(fd, &d, rank);
	return err;
}

/* Groups 0 and 2 work, group 1 waits for rank 1. */
static int stalled(uint32_t rank, void *arg)
{
	struct rar_ring r = ring;
	int fd[3], err;

	(void)arg;
	for (int i = 0; i < 3; i++, r.group++) {
		fd[i] = rar_open(&r, rank);
		RAR_CHECK(fd[i] >= 0, "group %d: %s", i, strerror(-fd[i]));
	}
	err = pace(fd, 0, rank, &shared->us[0]) ?:	/* warm-up */
	      pace(fd, 1000, rank, &shared->us[1]);
	RAR_CHECK(!err, "alone: %s", strerror(-err));
	if (rank != 1)
		RAR_CHECK(!stall_post(fd[1], rank), "stalled group");
	err = pace(fd, 2000, rank, &shared->us[2]);
	RAR_CHECK(!err, "beside a stalled group: %s", strerror(-err));
	if (rank == 1)
		RAR_CHECK(!stall_post(fd[1], rank), "stalled group");
	err = stall_collect(fd[1], rank);
	RAR_CHECK(!err, "stalled group's results: %s", strerror(-err));
	err = pace(fd, 3000, rank, &shared->us[3]);
	RAR_CHECK(!err, "alone again: %s", strerror(-err));
	if (!rank) {
		uint64_t alone = shared->us[1] > shared->us[3] ? shared->us[1] : shared->us[3];

		rar_log("pace beside a stalled group: %.2f of the pace alone",
			(double)alone / shared->us[2]);
		RAR_CHECK(shared->us[2] < 2 * alone + 100000, "%llu us, alone %llu us",
			  (unsigned long long)shared->us[2], (unsigned long long)alone);
	}
	return 0;
}

/* ------------------------------------------------------------ halving */

#define ROUNDS	14	/* of 1 + 2 + 4 + 8 groups */
#define LEVELS	4

/* A rank joins its group of 8 >> level ranks for each level; all stay open. */
static int halve(uint32_t rank, void *arg)
{
	int fd[ROUNDS][LEVELS];
	struct rar_ring r = ring;
	uint32_t sub;

	(void)arg;
	for (int i = 0; i < ROUNDS * LEVELS; i++) {
		int level = i % LEVELS;

		r.size = ring.size >> level;
		r.group = (ring.group << 16) + (i << 8) + rank / r.size;
		sub = rank % r.size;
		fd[i / LEVELS][level] = rar_open(&r, sub);
		RAR_CHECK(fd[i / LEVELS][level] >= 0, "group %d of %u: %s", i,
			  r.size, strerror(-fd[i / LEVELS][level]));
	}
	for (int i = 0; i < ROUNDS * LEVELS; i++) {
		int level = i % LEVELS, err;

		r.size = ring.size >> level;
		err = one_op(fd[i / LEVELS][level], i + rank / r.size * 1000,
			     100, rank % r.size, r.size);
		RAR_CHECK(!err, "group %d of %u: %s", i, r.size, strerror(-err));
	}
	return 0;
}

/* ------------------------------------------------------------ any order */

/* Every rank starts at a random time; some bind long before they connect. */
static int shuffled(uint32_t rank, void *arg)
{
	struct rar_ring r = ring;
	int fd, err;

	(void)arg;
	for (uint32_t i = 0; i < 6; i++, r.group++) {
		RAR_CHECK(!sync_ranks(), "meet");
		rar_sleep_ms(chance(rank, i, 300));
		fd = rar_socket();
		err = rar_bind(fd, &r, rank);
		RAR_CHECK(!err, "bind: %s", strerror(-err));
		rar_sleep_ms(chance(rank, i + 100, 200));
		err = rar_connect(fd, &r, rank);
		RAR_CHECK(!err, "connect: %s", strerror(-err));
		err = one_op(fd, i, 1000, rank, r.size);
		RAR_CHECK(!err, "round %u: %s", i, strerror(-err));
		RAR_CHECK(!sync_ranks(), "meet");
		close(fd);
	}
	return 0;
}

#define MANY_JOINS	20

/* All groups join at once, begun in another order on every rank. */
static int joins_at_once(uint32_t rank, void *arg)
{
	struct rar_ring r[MANY_JOINS];
	int fd[MANY_JOINS], err;
	uint32_t first = chance(rank, 0, MANY_JOINS), i;

	(void)arg;
	for (uint32_t k = 0; k < MANY_JOINS; k++) {
		i = (first + k * 7) % MANY_JOINS;
		r[i] = ring;
		r[i].group = (ring.group << 16) + i;
		fd[i] = rar_socket();
		err = rar_join_start(fd[i], &r[i], rank);
		RAR_CHECK(!err, "RAR_JOIN: %s", strerror(-err));
	}
	for (i = 0; i < MANY_JOINS; i++) {
		err = rar_join_wait(fd[i], 30000);
		RAR_CHECK(!err, "group %u: %s", i, strerror(-err));
		err = one_op(fd[i], i, 64, rank, ring.size);
		RAR_CHECK(!err, "group %u: %s", i, strerror(-err));
	}
	return 0;
}

/* ------------------------------------------------------------ restart */

static int join_and_reduce(uint32_t rank, uint64_t id)
{
	int fd = rar_open(&ring, rank);
	int err;

	RAR_CHECK(fd >= 0, "rank %u: %s", rank, strerror(-fd));
	err = one_op(fd, id, 5000, rank, ring.size);
	RAR_CHECK(!err, "rank %u: %s", rank, strerror(-err));
	/* No rank leaves before all have their result. */
	RAR_CHECK(!sync_ranks(), "meet");
	close(fd);
	return 0;
}

static int starts_a_join(uint32_t rank, void *arg)
{
	int fd = rar_socket();

	(void)arg;
	if (rar_join_start(fd, &ring, rank))
		return 1;
	shared->stage = 1;
	rar_sleep_ms(SYNC_S * 1000);
	return 1;
}

/* Rank 1 is killed in the middle of the join and started again. */
static int restart(uint32_t rank, void *arg)
{
	pid_t pid;

	(void)arg;
	if (rank == 1) {
		pid = rar_spawn(NULL, starts_a_join, 1, NULL);
		RAR_CHECK(!wait_stage(1), "first life");
		rar_sleep_ms(200);
		rar_kill(pid);
		shared->stage = 2;
	} else if (rank == 2) {
		RAR_CHECK(!wait_stage(2), "first life's end");
	}
	return join_and_reduce(rank, 1);
}

/* A join is given up with close() and begun again. */
static int restart_by_close(uint32_t rank, void *arg)
{
	int fd;

	(void)arg;
	if (rank == 1) {
		fd = rar_socket();
		RAR_CHECK(!rar_join_start(fd, &ring, rank), "RAR_JOIN");
		rar_sleep_ms(200);
		close(fd);
		shared->stage = 1;
	} else if (rank == 2) {
		RAR_CHECK(!wait_stage(1), "first join's end");
	}
	return join_and_reduce(rank, 1);
}

/* ------------------------------------------------------------ duplicates */

static int duplicate_here(uint32_t rank, void *arg)
{
	int fd = rar_socket(), other = rar_socket(), err;

	(void)arg;
	RAR_CHECK(!rar_bind(fd, &ring, rank), "bind");
	err = rar_bind(other, &ring, rank);
	RAR_CHECK(err == -EADDRINUSE, "second bind: %s", strerror(-err));
	close(fd);
	err = rar_bind(other, &ring, rank);
	RAR_CHECK(!err, "after close: %s", strerror(-err));
	return 0;
}

/* Ranks 0 and 1 run; a third process claims to be rank 1 from another address. */
static int impostor(const struct rar_ring *pair)
{
	struct sockaddr_rar self, next;
	struct rar_error e;
	int fd = rar_socket(), err;

	RAR_CHECK(!wait_stage(2), "the pair");
	rar_address(pair, 1, &self);
	self.srar_addr[3] = 3;
	rar_address(pair, 0, &next);
	RAR_CHECK(!rar_set_security(fd), "seals");
	RAR_CHECK(!bind(fd, (void *)&self, sizeof(self)), "bind: %s",
		  strerror(errno));
	err = connect(fd, (void *)&next, sizeof(next)) ? -errno : 0;
	shared->stage = 3;
	RAR_CHECK(err == -EADDRINUSE, "%s", strerror(-err));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_DUPLICATE,
		  "reason %s", rar_reason_name(e.reason));
	return 0;
}

static int duplicate_elsewhere(uint32_t rank, void *arg)
{
	struct rar_ring pair = ring;
	int fd, err;

	(void)arg;
	pair.size = 2;
	if (rank == 2)
		return impostor(&pair);
	fd = rar_open(&pair, rank);
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	shared->stage++;
	RAR_CHECK(!wait_stage(3), "the impostor");
	for (uint64_t i = 0; i < 10; i++) {
		err = one_op(fd, i, 3000, rank, 2);
		if (err)
			rar_log_error(fd, "the pair was disturbed", err);
		RAR_CHECK(!err, "operation %llu", (unsigned long long)i);
	}
	return 0;
}

/* ------------------------------------------------------------ earlier run */

/* A first run: one operation completes, another cannot without rank 2. */
static int first_run(int fd, uint32_t rank)
{
	struct rar_data d = { .id = 1, .count = 100, .size = ring.size,
			      .dtype = RAR_F32 };
	int err;

	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	err = one_op(fd, 0, 100, rank, ring.size);
	if (!err && rank != 2)
		err = rar_post(fd, &d, rank);
	RAR_CHECK(!err, "first run: %s", strerror(-err));
	shared->stage++;
	return 0;
}

static int lives_until_killed(uint32_t rank, void *arg)
{
	(void)arg;
	if (!first_run(rar_open(&ring, rank), rank))
		pause();
	return 1;
}

/* Waits for the end of the epoch; sets *e to the kernel's error. */
static int expect_reset(int fd, struct rar_error *e)
{
	char byte;
	ssize_t n = rar_recv(fd, &byte, 1, 0, NULL, NULL);

	rar_error(fd, e);
	RAR_CHECK(n == -ECONNRESET, "%zd: %s, reason %s", n,
		  n < 0 ? strerror(-n) : "data", rar_reason_name(e->reason));
	return 0;
}

/* Rank 1 is killed; the other ranks see it, and all start again. */
static int killed_peer(uint32_t rank, void *arg)
{
	struct rar_error e;
	pid_t pid;
	int fd;

	(void)arg;
	if (rank == 1) {
		pid = rar_spawn(NULL, lives_until_killed, 1, NULL);
		RAR_CHECK(!wait_stage(ring.size), "first run");
		rar_kill(pid);
		return join_and_reduce(rank, 7);
	}
	fd = rar_open(&ring, rank);
	if (first_run(fd, rank) || expect_reset(fd, &e))
		return 1;
	RAR_CHECK(e.rank == 1 && e.reason == RAR_R_DIED, "names rank %u, %s",
		  e.rank, rar_reason_name(e.reason));
	close(fd);
	return join_and_reduce(rank, 7);
}

static int port_of_rank_2(const char *state)
{
	char command[80];

	snprintf(command, sizeof(command), "ip -n rarbr link set p2 %s", state);
	return system(command);
}

/*
 * Rank 2 was cut off while the others were killed and started again, so it still runs in
 * the old epoch. Its packets must not reach the new run, and it must learn that its run is
 * over.
 */
static int old_member(void)
{
	struct rar_error e;
	int fd = rar_open(&ring, 2);

	if (first_run(fd, 2) || expect_reset(fd, &e))
		return 1;
	rar_log("the old member was told: %s, rank %u", rar_reason_name(e.reason),
		e.rank);
	close(fd);
	return join_and_reduce(2, 8);
}

static int stale_member(uint32_t rank, void *arg)
{
	pid_t pid;

	(void)arg;
	if (rank == 2)
		return old_member();
	pid = rar_spawn(NULL, lives_until_killed, rank, NULL);
	RAR_CHECK(!wait_stage(ring.size), "first run");
	if (rank == 0) {
		RAR_CHECK(!port_of_rank_2("down"), "ip");
		shared->stage++;
	}
	RAR_CHECK(!wait_stage(ring.size + 1), "rank 2 is cut off");
	rar_kill(pid);
	if (rank == 0) {
		rar_sleep_ms(200);
		RAR_CHECK(!port_of_rank_2("up"), "ip");
	}
	return join_and_reduce(rank, 8);
}

/* ------------------------------------------------------------ size */

/* Rank 1 believes in four ranks, the others in three. */
static int sizes(uint32_t rank, void *arg)
{
	struct rar_ring r = ring;
	struct rar_error e;
	int fd = rar_socket(), err;

	(void)arg;
	if (rank == 1)
		r.size = 4;
	err = rar_join(fd, &r, rank);
	rar_error(fd, &e);
	RAR_CHECK(err == -EBADMSG, "rank %u: %s, reason %s", rank, strerror(-err),
		  rar_reason_name(e.reason));
	RAR_CHECK(e.reason == RAR_R_SIZE && (e.rank == 1 || e.other == 1) &&
		  e.rank != e.other, "rank %u: %s rank %u other %u", rank,
		  rar_reason_name(e.reason), e.rank, e.other);
	/* If one closed early the others could not reach it, and would wait. */
	RAR_CHECK(!sync_ranks(), "meet");
	return 0;
}

/* ------------------------------------------------------------ all */

static const struct {
	const char *name;
	rar_rank_fn fn;
	uint32_t ranks;
	bool netns;
} tests[] = {
	{ "3 groups, one stalled: the others keep their pace", stalled, 3, false },
	{ "210 groups made by halving, all open", halve, 8, false },
	{ "ranks start in any order", shuffled, 4, true },
	{ "20 joins at once, in any order", joins_at_once, 4, true },
	{ "a rank killed during join starts again", restart, 3, true },
	{ "a join closed and begun again", restart_by_close, 3, true },
	{ "duplicate rank in the same namespace", duplicate_here, 1, true },
	{ "duplicate rank at another address", duplicate_elsewhere, 3, true },
	{ "a killed rank, all start again", killed_peer, 3, true },
	{ "a member still in the old epoch", stale_member, 3, true },
	{ "different sizes", sizes, 3, true },
};

/* Run the rank's function in its namespace, with a join limit that suits a test. */
static int rank_main(uint32_t rank, void *arg)
{
	rar_rank_fn fn = *(rar_rank_fn *)arg;

	rar_write("/proc/sys/net/rar/join_ms", "15000");
	return fn(rank, NULL);
}

static int run(size_t i)
{
	rar_rank_fn fn = tests[i].fn;

	memset(shared, 0, sizeof(*shared));
	ring = (struct rar_ring){
		.group = (i + 1) << 8, .size = tests[i].ranks,
		.where = tests[i].netns ? RAR_ON_IPV4 : RAR_ON_LO4,
		.netns = tests[i].netns ? "rar" : NULL,
	};
	return rar_run(ring.size, ring.netns, 40, rank_main, &fn);
}

int main(int argc, char **argv)
{
	rar_begin_in_topo(4, "groups");
	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	rar_write("/proc/sys/net/rar/max_members", "4096");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			ksft_test_result_skip("%s\n", tests[i].name);
		else
			ksft_test_result(!run(i), "%s\n", tests[i].name);
	}
	ksft_finished();
}
