// SPDX-License-Identifier: GPL-2.0
/*
 * Two jobs run on two hosts whose memory is enough for one operation. Host 0 gives it to job
 * A and host 1 to job B, so each job lacks memory on the other host. Both jobs must still
 * end, also among many members that have held memory. If a host has no more memory at all,
 * RAR_OP_TIMEOUT or the error NOMEM names the rank.
 *
 * In the namespaces rar0 and rar1 of selftests/lib/lib.sh (lib/in_topo.sh 2 mem_deadlock).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define HOSTS		2
#define JOBS		2
#define COUNT		175000u		/* elements: 700 KB */
#define NET_MEM		"1048576"	/* net.rar.mem of each host */
#define HOST_MEM	"1572864"	/* max_mem: both "hosts" are on one machine */
#define MAX_MEM		"/sys/module/rar/parameters/max_mem"
#define ROUNDS		3u
#define LIMIT_S		40
#define OTHERS		200	/* other members of a host: more than one look takes in */

struct plan {
	const char *name;
	const char *max_mem;
	uint32_t op_timeout;
	bool nonblock;
	bool others;
	uint32_t err;		/* errno that one of the jobs may end with */
	uint32_t reason;
};

static const struct plan plans[] = {
	{ "two jobs, send() waits", "0", 0, false, false, 0, 0 },
	{ "two jobs, poll() waits", "0", 0, true, false, 0, 0 },
	{ "two jobs among many members", "0", 0, false, true, 0, 0 },
	{ "no memory on the host, RAR_OP_TIMEOUT", HOST_MEM, 500, false, false, ETIMEDOUT,
	  RAR_R_TIMEOUT },
	{ "no memory on the host", HOST_MEM, 0, false, false, ENOBUFS, RAR_R_NOMEM },
};

struct shared {
	struct rar_barrier joined, held, others;
	uint32_t round;
	_Atomic int err[JOBS][HOSTS];
	struct rar_error error[JOBS][HOSTS];
	uint32_t ms[JOBS][HOSTS];
};

static struct shared *shared;
static const struct plan *plan;

/* Posts once poll() reports POLLOUT. */
static int post_by_poll(int fd, const struct rar_data *d, uint32_t rank)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int err = rar_nonblock(fd, true);

	if (err)
		return err;
	while ((err = rar_post(fd, d, rank)) == -EAGAIN)
		if (poll(&p, 1, LIMIT_S * 1000) != 1)
			return -ETIMEDOUT;
	return err ?: rar_nonblock(fd, false);
}

/* Each host gives its memory first to the job of its own number. */
static int work(int fd, uint32_t job, uint32_t host)
{
	struct rar_data d = { .id = job, .count = COUNT, .size = HOSTS, .dtype = RAR_F32 };
	int err = 0;

	if (job == host)
		err = rar_post(fd, &d, host);
	err = err ?: rar_barrier(&shared->held, JOBS * HOSTS, LIMIT_S);
	if (job != host && !err)
		err = plan->nonblock ? post_by_poll(fd, &d, host) :
				       rar_post(fd, &d, host);
	return err ?: rar_collect(fd, &d, host);
}

static int member(uint32_t nr, void *unused)
{
	uint32_t job = nr / HOSTS, host = nr % HOSTS;
	struct rar_ring ring = {
		.group = 0x10b5 + JOBS * shared->round + job, .size = HOSTS,
		.netns = "rar",
	};
	uint64_t begin;
	int fd, err;

	(void)unused;
	fd = rar_open(&ring, host);
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	err = setsockopt(fd, SOL_RAR, RAR_OP_TIMEOUT, &plan->op_timeout, 4) ? -errno :
	      rar_timeout(fd, SO_SNDTIMEO, LIMIT_S * 500) ?:
	      rar_timeout(fd, SO_RCVTIMEO, LIMIT_S * 500) ?:
	      rar_barrier(&shared->joined, JOBS * HOSTS, LIMIT_S);
	begin = rar_now_us();
	err = err ?: work(fd, job, host);
	shared->err[job][host] = err;
	shared->ms[job][host] = (rar_now_us() - begin) / 1000;
	rar_error(fd, &shared->error[job][host]);
	close(fd);
	return 0;
}

/* A process with many groups of one, each of which has held memory. It waits for its end. */
static int others(uint32_t host, void *unused)
{
	struct rar_data d = { .count = 1, .size = 1, .dtype = RAR_F32 };
	struct rar_ring ring = { .size = 1, .where = RAR_ON_LO4 };
	int fd, err = 0;

	(void)unused;
	for (uint32_t i = 0; i < OTHERS && !err; i++) {
		ring.group = 0x07e4 + OTHERS * host + i;
		fd = rar_open(&ring, 0);
		RAR_CHECK(fd >= 0, "%s", strerror(-fd));
		err = rar_post(fd, &d, 0) ?: rar_collect(fd, &d, 0);
	}
	RAR_CHECK(!err, "%s", strerror(-err));
	rar_barrier(&shared->others, HOSTS + 1, LIMIT_S);
	pause();
	return 0;
}

static void begin_others(pid_t *pid)
{
	char netns[8];

	memset(shared, 0, sizeof(*shared));
	for (uint32_t i = 0; i < HOSTS; i++) {
		snprintf(netns, sizeof(netns), "rar%u", i);
		pid[i] = rar_spawn(netns, others, i, NULL);
	}
	rar_barrier(&shared->others, HOSTS + 1, LIMIT_S);
}

static void end_others(const pid_t *pid)
{
	for (uint32_t i = 0; i < HOSTS; i++)
		rar_kill(pid[i]);
}

/* One of the two jobs may end with the plan's error, which names the rank in want. */
static bool as_planned(void)
{
	uint32_t ended = 0;
	bool ok = true;

	for (uint32_t j = 0; j < JOBS; j++) {
		const struct rar_error *e = shared->error[j];

		for (uint32_t h = 0; h < HOSTS; h++)
			rar_log("jobs %u: job %u at host %u: %s after %u ms, reason %s rank %u",
				shared->round, j, h, strerror(-shared->err[j][h]),
				shared->ms[j][h], rar_reason_name(e[h].reason), e[h].rank);
		if (!shared->err[j][0] && !shared->err[j][1]) {
			ended++;
			continue;
		}
		for (uint32_t h = 0; h < HOSTS; h++)
			ok &= plan->err && -shared->err[j][h] == (int)plan->err &&
			      e[h].reason == plan->reason && e[h].rank == !j;
	}
	return ok && (ended || plan->reason == RAR_R_TIMEOUT);
}

static bool run_round(uint32_t round)
{
	pid_t pid[JOBS * HOSTS];
	char netns[8];
	bool ok = true;

	memset(shared, 0, sizeof(*shared));
	shared->round = round;
	for (uint32_t i = 0; i < JOBS * HOSTS; i++) {
		snprintf(netns, sizeof(netns), "rar%u", i % HOSTS);
		pid[i] = rar_spawn(netns, member, i, NULL);
	}
	for (uint32_t i = 0; i < JOBS * HOSTS; i++)
		ok &= !rar_reap(pid[i], rar_now_us() + LIMIT_S * 1000000ull);
	return ok && as_planned();
}

static bool test(uint32_t first)
{
	bool ok = !rar_write(MAX_MEM, plan->max_mem);
	pid_t pid[HOSTS];

	if (plan->others)
		begin_others(pid);
	for (uint32_t i = 0; i < (plan->err ? 1 : ROUNDS) && ok; i++)
		ok = run_round(first + i);
	if (plan->others)
		end_others(pid);
	rar_write(MAX_MEM, "0");
	return ok;
}

static int prepare(uint32_t host)
{
	char netns[8];

	snprintf(netns, sizeof(netns), "rar%u", host);
	return rar_enter(netns) ?: rar_write("/proc/sys/net/rar/mem", NET_MEM) ?:
	       rar_write("/proc/sys/net/rar/dead_ms", "1000");
}

int main(void)
{
	rar_begin();
	if (prepare(0) || prepare(1))
		ksft_exit_skip("run me as lib/in_topo.sh 2 mem_deadlock\n");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(plans));
	for (uint32_t i = 0; i < ARRAY_SIZE(plans); i++) {
		plan = &plans[i];
		ksft_test_result(test(ROUNDS * i), "%s\n", plan->name);
	}
	ksft_finished();
}
