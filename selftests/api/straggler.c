// SPDX-License-Identifier: GPL-2.0
/*
 * A rank that sleeps for ten times dead_ms before send() is slow, not dead: the group has
 * no error. While it sleeps every rank names it in RAR_INFO and /proc/net/rar within a
 * second.
 *
 * All members are sockets of this process, on 127.0.0.1 of a namespace of its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define SIZE		4
#define DEAD_MS		500u
#define SLEEP_MS	(10 * DEAD_MS)
#define NEWS_MS		1000u	/* until every rank knows the straggler */
#define SLACK_MS	1000u	/* for slow machines */
#define SMALL		1000u	/* elements; the credit covers an operation */
#define LARGE		1000000u /* elements; the credit does not */

struct live {
	struct rar_ring ring;
	int fd[SIZE];
	uint64_t next_id;
	uint64_t count;		/* elements of an operation */
};

static struct rar_data data_of(const struct live *l)
{
	return (struct rar_data){
		.id = l->next_id, .count = l->count, .size = SIZE,
		.dtype = RAR_I32,
	};
}

static int up(struct live *l, uint64_t group, uint64_t count)
{
	int err = 0;

	*l = (struct live){
		.ring = { .group = group, .size = SIZE, .where = RAR_ON_LO4 },
		.count = count,
	};
	for (uint32_t r = 0; r < SIZE && !err; r++) {
		l->fd[r] = rar_socket();
		err = rar_join_start(l->fd[r], &l->ring, r);
	}
	for (uint32_t r = 0; r < SIZE && !err; r++)
		err = rar_join_wait(l->fd[r], 20000);
	return err;
}

static void down(struct live *l)
{
	for (uint32_t r = 0; r < SIZE; r++)
		close(l->fd[r]);
}

static int post(struct live *l, uint32_t rank)
{
	struct rar_data d = data_of(l);
	int err = rar_post(l->fd[rank], &d, rank);

	if (err)
		rar_log_error(l->fd[rank], "send", err);
	return err;
}

/* Post at all ranks except those of a mask. */
static int post_but(struct live *l, uint32_t mask)
{
	int err = 0;

	for (uint32_t r = 0; r < SIZE && !err; r++)
		if (!(mask >> r & 1))
			err = post(l, r);
	return err;
}

static int collect_all(struct live *l)
{
	struct rar_data d = data_of(l);
	struct pollfd p = { .events = POLLIN };
	int err = 0;

	for (uint32_t r = 0; r < SIZE && !err; r++) {
		p.fd = l->fd[r];
		err = poll(&p, 1, 30000) == 1 ?
		      rar_collect(l->fd[r], &d, r) : -ETIMEDOUT;
		if (err)
			rar_log_error(l->fd[r], "recv", err);
	}
	l->next_id++;
	return err;
}

/* ------------------------------------------------------------ the name */

/* The columns "slow" and "slow_ms" of a member; @rank as RAR_INFO says it. */
static int proc_slow(const struct live *l, uint32_t of, uint32_t *rank,
		     uint32_t *ms)
{
	char header[512], line[512], name[32], *h, *v, *save_h, *save_v;
	FILE *f = fopen("/proc/self/net/rar", "re");
	int found = 0;

	snprintf(name, sizeof(name), "%016" PRIx64 " %u ", l->ring.group, of);
	if (!f || !fgets(header, sizeof(header), f) ||
	    !fgets(header, sizeof(header), f))
		return -EIO;
	while (fgets(line, sizeof(line), f) && strncmp(line, name, strlen(name)))
		;
	fclose(f);
	h = strtok_r(header, " \n", &save_h);
	v = strtok_r(line, " \n", &save_v);
	for (; h && v; h = strtok_r(NULL, " \n", &save_h),
	     v = strtok_r(NULL, " \n", &save_v)) {
		if (!strcmp(h, "slow"))
			*rank = strcmp(v, "-") ? strtoul(v, NULL, 10) : RAR_NO_RANK;
		else if (!strcmp(h, "slow_ms"))
			*ms = strtoul(v, NULL, 10);
		else
			continue;
		found++;
	}
	return found == 2 ? 0 : -ENOENT;
}

static bool near(uint32_t ms, uint32_t want)
{
	return ms + NEWS_MS + SLACK_MS / 2 >= want && ms <= want + SLACK_MS;
}

/* Does every rank name @rank, with about the right time, and has none an error? */
static bool all_name(const char *when, struct live *l, uint32_t rank, uint32_t ms)
{
	uint32_t proc_rank = 0, proc_ms = 0;
	struct rar_error e;
	struct rar_info i;
	bool ok = true, good;

	for (uint32_t r = 0; r < SIZE; r++) {
		good = !rar_info(l->fd[r], &i) && !rar_error(l->fd[r], &e) &&
		       !proc_slow(l, r, &proc_rank, &proc_ms) && !e.err &&
		       i.slow_rank == rank && near(i.slow_ms, ms) &&
		       proc_rank == rank && near(proc_ms, ms);
		rar_log("slow %s: rank %u names %d, %u ms (/proc: %d, %u ms), should be %u, %u ms; waited for previous %" PRIu64 " ms, next %" PRIu64 " ms %s",
			when, r, i.slow_rank, i.slow_ms, proc_rank, proc_ms,
			rank, ms, (uint64_t)i.prev_wait_us / 1000,
			(uint64_t)i.next_wait_us / 1000, good ? "PASS" : "FAIL");
		ok &= good;
	}
	return ok;
}

static uint32_t ms_since(uint64_t start_us)
{
	return (rar_now_us() - start_us) / 1000;
}

static void sleep_until(uint64_t start_us, uint32_t ms)
{
	uint32_t now = ms_since(start_us);

	if (now < ms)
		rar_sleep_ms(ms - now);
}

/* Did the sleeper's neighbours wait for it during nearly all of its sleep? */
static bool waited(struct live *l, uint32_t sleeper)
{
	struct rar_info next, prev;
	uint32_t least = SLEEP_MS * 3 / 4;
	bool ok;

	if (rar_info(l->fd[(sleeper + 1) % SIZE], &next) ||
	    rar_info(l->fd[(sleeper + SIZE - 1) % SIZE], &prev))
		return false;
	ok = next.prev_wait_us / 1000 >= least;
	if (l->count == LARGE)
		ok &= prev.next_wait_us / 1000 >= least;
	if (!ok)
		rar_log("rank %u waited %" PRIu64 " ms for its predecessor %u, which waited %" PRIu64 " ms for its successor",
			(sleeper + 1) % SIZE, (uint64_t)next.prev_wait_us / 1000,
			sleeper, (uint64_t)prev.next_wait_us / 1000);
	return ok;
}

/* ------------------------------------------------------------ the tests */

/* Four groups run at a time; in each another rank sleeps. */
static bool test_sleepers(uint64_t count)
{
	uint32_t late_ms[SIZE] = { };
	struct live l[SIZE];
	uint64_t start;
	int err = 0;
	bool ok;

	for (uint32_t g = 0; g < SIZE && !err; g++)
		err = up(&l[g], count + g, count) ?:
		      post_but(&l[g], 0) ?: collect_all(&l[g]);
	start = rar_now_us();
	for (uint32_t g = 0; g < SIZE && !err; g++)
		err = post_but(&l[g], 1 << g);
	ok = !err;
	sleep_until(start, SLEEP_MS / 2);
	for (uint32_t g = 0; g < SIZE && ok; g++)
		ok &= all_name("half way", &l[g], g, ms_since(start));
	sleep_until(start, SLEEP_MS);
	for (uint32_t g = 0; g < SIZE && ok; g++)
		ok &= all_name("at the end", &l[g], g, ms_since(start)) &&
		      waited(&l[g], g);
	for (uint32_t g = 0; g < SIZE && ok; g++) {
		late_ms[g] = ms_since(start);
		ok &= !post(&l[g], g) && !collect_all(&l[g]);
	}
	rar_sleep_ms(NEWS_MS);
	for (uint32_t g = 0; g < SIZE; g++) {
		ok = ok && all_name("afterwards", &l[g], g, late_ms[g]);
		down(&l[g]);
	}
	return ok;
}

/* Two ranks are late; the one that is late for longer must be named in the end. */
static bool test_two(void)
{
	struct live l;
	uint64_t start;
	bool ok;

	ok = !up(&l, 2, SMALL) && !post_but(&l, 0) && !collect_all(&l);
	start = rar_now_us();
	ok = ok && !post_but(&l, 1 << 1 | 1 << 3);
	sleep_until(start, 1500);
	ok = ok && !post(&l, 1);
	sleep_until(start, 4000);
	ok = ok && all_name("two are late", &l, 3, ms_since(start)) &&
	     !post(&l, 3) && !collect_all(&l);
	/* now the other rank becomes the straggler */
	start = rar_now_us();
	ok = ok && !post_but(&l, 1 << 1);
	sleep_until(start, 6000);
	ok = ok && all_name("another is slower", &l, 1, 1500 + ms_since(start)) &&
	     !post(&l, 1) && !collect_all(&l);
	down(&l);
	return ok;
}

/* A new group names no straggler. A group that works in step names one with little time. */
static bool test_none(void)
{
	struct rar_info i;
	struct live l;
	bool ok;

	ok = !up(&l, 3, SMALL);
	for (uint32_t r = 0; r < SIZE && ok; r++)
		ok = !rar_info(l.fd[r], &i) && i.slow_rank == RAR_NO_RANK &&
		     !i.slow_ms;
	for (int n = 0; n < 30 && ok; n++)
		ok = !post_but(&l, 0) && !collect_all(&l);
	for (uint32_t r = 0; r < SIZE && ok; r++) {
		ok = !rar_info(l.fd[r], &i) && i.slow_ms < SLACK_MS;
		rar_log("slow in step: rank %u names %d, %u ms", r, i.slow_rank,
			i.slow_ms);
	}
	down(&l);
	return ok;
}

int main(void)
{
	char ms[16];

	rar_begin_private();
	snprintf(ms, sizeof(ms), "%u", DEAD_MS);
	rar_write("/proc/sys/net/rar/dead_ms", ms);
	ksft_set_plan(4);
	ksft_test_result(test_sleepers(SMALL),
			 "asleep for 10 dead_ms before a small operation\n");
	ksft_test_result(test_sleepers(LARGE),
			 "asleep for 10 dead_ms before a large operation\n");
	ksft_test_result(test_two(), "two late ranks, the slower is named\n");
	ksft_test_result(test_none(), "no rank is slow\n");
	ksft_finished();
}
