// SPDX-License-Identifier: GPL-2.0
/*
 * Ranks that disagree: all get EBADMSG. RAR_ERROR names the two ranks, the field and the
 * operation. Results completed before are delivered first. (sums/coll_calls.c tests
 * disagreement about the collective, root and reduction, sums/modes_calls.c about flags.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define MAX	4

/* operations of the odd rank and of all other ranks */
static const struct disagreement {
	const char *name;
	uint32_t dtype, odd_dtype;
	uint32_t count, odd_count;
	uint32_t reason;
} disagreements[] = {
	{ "count + 1", RAR_F32, RAR_F32, 1000, 1001, RAR_R_COUNT },
	{ "count - 1", RAR_F32, RAR_F32, 1000, 999, RAR_R_COUNT },
	{ "count, one block to many chunks", RAR_F32, RAR_F32, 10, 50000,
	  RAR_R_COUNT },
	{ "count, many chunks to one", RAR_F32, RAR_F32, 50000, 10,
	  RAR_R_COUNT },
	{ "count 0 at one rank", RAR_F32, RAR_F32, 1000, 0, RAR_R_COUNT },
	{ "count 0 at all ranks except one", RAR_F32, RAR_F32, 0, 1000, RAR_R_COUNT },
	{ "dtype of the same size", RAR_F32, RAR_I32, 1000, 1000, RAR_R_DTYPE },
	{ "dtype of another size", RAR_I64, RAR_I32, 1000, 1000, RAR_R_DTYPE },
	{ "dtype of empty operations", RAR_F32, RAR_F64, 0, 0, RAR_R_DTYPE },
};

#define NDISAGREEMENTS (sizeof(disagreements) / sizeof(disagreements[0]))

static uint64_t group = 100;
static uint32_t schedule;

static int ring_up(int *fd, uint32_t n)
{
	struct rar_ring ring = {
		.group = ++group, .size = n, .where = RAR_ON_LO4, .schedule = schedule,
	};
	int err = 0;

	for (uint32_t r = 0; r < n && !err; r++) {
		fd[r] = rar_socket();
		err = fd[r] < 0 ? fd[r] : rar_join_start(fd[r], &ring, r);
	}
	for (uint32_t r = 0; r < n && !err; r++)
		err = rar_join_wait(fd[r], 8000);
	return err;
}

static void ring_down(int *fd, uint32_t n)
{
	for (uint32_t r = 0; r < n; r++)
		close(fd[r]);
}

/* Does the error name two neighbours, of which one is the odd rank? */
static bool names(uint32_t n, const struct rar_error *e, uint32_t odd)
{
	bool next = e->other == (e->rank + 1) % n;
	bool prev = e->rank == (e->other + 1) % n;

	return e->rank < n && (next || prev) &&
	       (e->rank == odd || e->other == odd);
}

/* Does the error tell what the odd rank passed, and what the others did? */
static bool tells(const struct disagreement *d, const struct rar_error *e, uint32_t odd)
{
	bool counts = d->reason == RAR_R_COUNT;
	uint64_t usual = counts ? d->count : d->dtype, other = counts ? d->odd_count : d->odd_dtype;

	return e->rank == odd ? e->value == other && e->other_value == usual :
				e->value == usual && e->other_value == other;
}

static int check_error(const struct disagreement *d, int fd, uint32_t rank, uint32_t n,
		       uint32_t odd)
{
	struct rar_error e;

	if (rar_error(fd, &e))
		return 1;
	if (e.err == EBADMSG && e.reason == d->reason && e.op_seq == 1 &&
	    names(n, &e, odd) && tells(d, &e, odd))
		return 0;
	rar_log("rank %u: error %s reason %s rank %u: %llu, other %u: %llu, op %llu, odd is %u",
		rank, strerrorname_np(e.err), rar_reason_name(e.reason), e.rank,
		(unsigned long long)e.value, e.other, (unsigned long long)e.other_value,
		(unsigned long long)e.op_seq, odd);
	return 1;
}

/* Posts operation 1 at all ranks, at the odd rank first or last. */
static int post(const struct disagreement *d, const int *fd, uint32_t n,
		uint32_t odd, bool first)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t r = (odd + i + !first) % n;
		struct rar_data data = {
			.id = 1, .size = n,
			.count = r == odd ? d->odd_count : d->count,
			.dtype = r == odd ? d->odd_dtype : d->dtype,
		};
		int err = rar_post(fd[r], &data, r);

		/* the error may be known before the last rank sends */
		if (err && err != -EBADMSG)
			return err;
		if (!err && i + 1 < n)
			rar_sleep_ms(first ? 5 : 0);
	}
	return 0;
}

static int judge(const struct disagreement *d, const int *fd, uint32_t n,
		 uint32_t odd)
{
	struct rar_data before = {
		.id = 7, .count = 100, .size = n, .dtype = RAR_F32,
	};
	char byte[8];
	int bad = 0;

	for (uint32_t r = 0; r < n; r++) {
		ssize_t err;

		rar_timeout(fd[r], SO_RCVTIMEO, 5000);
		/* operation 0 was complete at all ranks, and is still unread */
		err = rar_collect(fd[r], &before, r);
		if (err) {
			rar_log("rank %u: result before: %s", r,
				strerrorname_np(-err));
			bad = 1;
		}
		err = rar_recv(fd[r], byte, 8, 0, NULL, NULL);
		if (err != -EBADMSG) {
			rar_log("rank %u: recv: %zd", r, err);
			bad = 1;
		}
		bad |= check_error(d, fd[r], r, n, odd);
	}
	return bad;
}

static int all_complete(const int *fd, uint32_t n, uint64_t ops)
{
	struct rar_info info;

	for (uint32_t r = 0; r < n; r++) {
		for (int i = 0; i < 500; i++) {
			if (rar_info(fd[r], &info))
				return -EIO;
			if (info.ops_complete >= ops)
				break;
			rar_sleep_ms(10);
		}
		if (info.ops_complete < ops)
			return -ETIMEDOUT;
	}
	return 0;
}

static int disagree(const struct disagreement *d, uint32_t n, uint32_t odd,
		    bool first)
{
	struct rar_data before = {
		.id = 7, .count = 100, .size = n, .dtype = RAR_F32,
	};
	int fd[MAX], err, bad;

	err = ring_up(fd, n);
	for (uint32_t r = 0; r < n && !err; r++)
		err = rar_post(fd[r], &before, r);
	if (!err)
		err = all_complete(fd, n, 1);
	if (!err)
		err = post(d, fd, n, odd, first);
	if (err) {
		rar_log("setup: %s", strerrorname_np(-err));
		return 1;
	}
	bad = judge(d, fd, n, odd);
	if (bad)
		rar_log("^ %s, N = %u, odd rank %u posts %s", d->name, n, odd,
			first ? "first" : "last");
	ring_down(fd, n);
	return bad;
}

/*
 * The odd rank alone joins with another size than n, or another schedule. A rank whose successor
 * does not disagree may get the error only when its join times out.
 */
static int disagree_join(uint32_t n, uint32_t odd, uint32_t odd_size, uint32_t usual,
			 uint32_t odd_schedule, uint32_t reason)
{
	struct rar_error e;
	int fd[MAX], bad = 0, err;

	group++;
	for (uint32_t r = 0; r < n; r++) {
		struct rar_ring ring = {
			.group = group, .where = RAR_ON_LO4,
			.size = r == odd ? odd_size : n,
			.schedule = r == odd ? odd_schedule : usual,
		};

		fd[r] = rar_socket();
		err = rar_join_start(fd[r], &ring, r);
		if (err) {
			rar_log("rank %u: join: %s", r, strerrorname_np(-err));
			return 1;
		}
	}
	for (uint32_t r = 0; r < n; r++) {
		err = rar_join_wait(fd[r], 6000);
		rar_error(fd[r], &e);
		if (err == -EBADMSG && e.err == EBADMSG &&
		    e.reason == reason && (e.rank == odd || e.other == odd) &&
		    e.rank != e.other)
			continue;
		rar_log("rank %u: %s reason %s rank %u other %u", r,
			strerrorname_np(-err), rar_reason_name(e.reason),
			e.rank, e.other);
		bad = 1;
	}
	ring_down(fd, n);
	return bad;
}

static int disagree_size(uint32_t n, uint32_t odd, uint32_t odd_size)
{
	return disagree_join(n, odd, odd_size, 0, 0, RAR_R_SIZE);
}

/* Every schedule, and another one at the odd rank. */
static int disagree_schedule(uint32_t n, uint32_t odd)
{
	int bad = 0;

	for (uint32_t s = 0; s < RAR_SCHEDULE_NR; s++)
		bad |= disagree_join(n, odd, n, s, (s + 1) % RAR_SCHEDULE_NR,
				     RAR_R_SCHEDULE);
	return bad;
}

/* Wait for a join. A neighbour that has not begun again yet may still tell the old error. */
static int joined_at_last(int fd, const struct rar_ring *ring, uint32_t rank)
{
	struct rar_error e;
	int err;

	for (int tries = 0; tries < 50; tries++) {
		err = rar_join_wait(fd, 6000);
		rar_error(fd, &e);
		if (err != -EBADMSG || e.reason != RAR_R_SCHEDULE)
			return err;
		if (rar_join_start(fd, ring, rank))
			return -EPROTO;
	}
	return err;
}

/* After a join in which the last rank had another schedule, all sockets join with that schedule. */
static int agree_afterwards(uint32_t n, uint32_t usual, uint32_t then)
{
	struct rar_ring ring = { .group = ++group, .where = RAR_ON_LO4, .size = n };
	int fd[MAX], err = 0;

	for (uint32_t r = 0; r < n; r++)
		fd[r] = rar_socket();
	for (uint32_t r = 0; r < n && !err; r++) {
		ring.schedule = r + 1 < n ? usual : then;
		err = rar_join_start(fd[r], &ring, r);
	}
	for (uint32_t r = 0; r < n && !err; r++)
		err = rar_join_wait(fd[r], 6000) == -EBADMSG ? 0 : -EPROTO;
	ring.schedule = then;
	for (uint32_t r = 0; r < n && !err; r++)
		err = rar_join_start(fd[r], &ring, r);
	for (uint32_t r = 0; r < n && !err; r++)
		err = joined_at_last(fd[r], &ring, r);
	ring_down(fd, n);
	if (err)
		rar_log("schedule %u, then %u: %s", usual, then, strerrorname_np(-err));
	return err;
}

static void disagree_operations(const char *how)
{
	for (size_t i = 0; i < NDISAGREEMENTS; i++) {
		int bad = 0;

		for (uint32_t odd = 0; odd < 2; odd++)
			bad |= disagree(&disagreements[i], 2, odd, odd);
		for (uint32_t odd = 0; odd < 3; odd++)
			bad |= disagree(&disagreements[i], 3, odd, odd & 1);
		ksft_test_result(!bad, "%s%s\n", how, disagreements[i].name);
	}
}

int main(void)
{
	int bad;

	rar_begin_private();
	rar_write("/proc/sys/net/rar/join_ms", "3000");
	ksft_set_plan(3 * NDISAGREEMENTS + 5);

	disagree_operations("");
	schedule = RAR_DOUBLING;
	disagree_operations("doubling: ");
	schedule = RAR_DIRECT;
	disagree_operations("direct: ");
	schedule = RAR_BY_RANKS;
	bad = 0;
	for (uint32_t odd = 0; odd < 4; odd++)
		bad |= disagree(&disagreements[0], 4, odd, !(odd & 1));
	ksft_test_result(!bad, "count + 1 at each of four ranks in turn\n");

	bad = disagree_size(2, 0, 3) | disagree_size(2, 1, 3);
	ksft_test_result(!bad, "size, two ranks\n");
	bad = disagree_size(3, 1, 4) | disagree_size(3, 2, 4) |
	      disagree_size(3, 1, 2);
	ksft_test_result(!bad, "size, three ranks\n");
	bad = disagree_schedule(2, 0) | disagree_schedule(3, 0) |
	      disagree_schedule(3, 2);
	ksft_test_result(!bad, "schedule\n");
	rar_write("/proc/sys/net/rar/direct_bytes", "8192");
	bad = agree_afterwards(3, RAR_DIRECT, RAR_AUTO) |
	      agree_afterwards(3, RAR_AUTO, RAR_DOUBLING) |
	      agree_afterwards(3, RAR_DOUBLING, RAR_DIRECT);
	ksft_test_result(!bad, "another schedule in the next join\n");
	ksft_finished();
}
