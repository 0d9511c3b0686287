// SPDX-License-Identifier: GPL-2.0
/*
 * The page of counters that mmap() shows: its values through the life of a group, without a
 * system call; failure and joining again on the same socket; close() and fork() with the page
 * mapped; what cannot be mapped. All ranks on 127.0.0.1 of a namespace of their own.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define WAIT_S	20

static struct rar_ring ring = { .where = RAR_ON_LO4, .size = 2 };
static struct rar_barrier *barrier;

static int sync_ranks(void)
{
	return rar_barrier(barrier, ring.size, WAIT_S);
}

static const struct rar_counters *map(int fd)
{
	void *p = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint64_t ready(const struct rar_counters *c)
{
	return __atomic_load_n(&c->ready, __ATOMIC_ACQUIRE);
}

/* Wait until @n results can be read, or the group fails, by looking at the page alone. */
static bool comes(const struct rar_counters *c, uint64_t n, uint32_t error)
{
	uint64_t end = rar_now_us() + WAIT_S * 1000000ull;

	while (rar_now_us() < end) {
		if (ready(c) >= n && __atomic_load_n(&c->error, __ATOMIC_ACQUIRE) == error)
			return true;
		sched_yield();
	}
	rar_log("posted %llu complete %llu ready %llu delivered %llu error %u",
		(unsigned long long)c->posted, (unsigned long long)c->complete,
		(unsigned long long)c->ready, (unsigned long long)c->delivered, c->error);
	return false;
}

static bool shows(const struct rar_counters *c, uint64_t posted, uint64_t n_ready,
		  uint64_t delivered)
{
	bool same = c->posted == posted && ready(c) == n_ready && c->delivered == delivered;

	if (!same)
		rar_log("posted %llu ready %llu delivered %llu, not %llu %llu %llu",
			(unsigned long long)c->posted, (unsigned long long)c->ready,
			(unsigned long long)c->delivered, (unsigned long long)posted,
			(unsigned long long)n_ready, (unsigned long long)delivered);
	return same;
}

static struct rar_data data_of(uint64_t id, uint64_t count)
{
	return (struct rar_data){ .id = id, .count = count, .size = ring.size,
				  .dtype = RAR_F32 };
}

/* ------------------------------------------------------------ counts */

static int counts(uint32_t rank, void *arg)
{
	const struct rar_counters *c;
	struct rar_data d = data_of(1, 1000);
	int fd = rar_socket(), i;

	(void)arg;
	c = map(fd);
	RAR_CHECK(c, "mmap: %m");
	RAR_CHECK(c->version == RAR_COUNTERS_VERSION && c->size == sizeof(*c), "version");
	RAR_CHECK(shows(c, 0, 0, 0) && !c->error && !c->members, "before bind()");
	RAR_CHECK(!rar_join(fd, &ring, rank), "join");
	RAR_CHECK(shows(c, 0, 0, 0) && !c->error && c->members == 1, "joined");
	for (i = 0; i < 3 && !rank; i++)
		RAR_CHECK(!rar_post(fd, &d, rank), "post");
	RAR_CHECK(rank || shows(c, 3, 0, 0), "the other rank has posted nothing");
	sync_ranks();
	for (i = 0; i < 3 && rank; i++)
		RAR_CHECK(!rar_post(fd, &d, rank), "post");
	RAR_CHECK(comes(c, 3, 0), "all are complete");
	RAR_CHECK(c->complete == 3, "complete");
	for (i = 0; i < 3; i++) {
		RAR_CHECK(shows(c, 3, 3, i), "operation %d", i);
		RAR_CHECK(!rar_nonblock(fd, true) && !rar_collect(fd, &d, rank), "bits");
	}
	RAR_CHECK(shows(c, 3, 3, 3), "all were read");
	munmap((void *)c, sysconf(_SC_PAGESIZE));
	c = map(fd);
	RAR_CHECK(c && shows(c, 3, 3, 3), "mapped again");
	return 0;
}

/* A page that is mapped only after operations has their counts. */
static int late(uint32_t rank, void *arg)
{
	const struct rar_counters *c;
	struct rar_data d = data_of(1, 1000);
	int fd = rar_open(&ring, rank);

	(void)arg;
	RAR_CHECK(fd >= 0 && !rar_allreduce(fd, &d, rank), "an operation before");
	RAR_CHECK(!rar_post(fd, &d, rank), "post");
	sync_ranks();
	c = map(fd);
	RAR_CHECK(c && comes(c, 2, 0) && shows(c, 2, 2, 1), "counts");
	RAR_CHECK(!rar_collect(fd, &d, rank), "bits");
	return 0;
}

/* In place the sums are in the memory when the page says so. */
static int in_place(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, 50000);
	int fd = rar_open(&ring, rank);
	const struct rar_counters *c = map(fd);
	float *x = malloc(rar_bytes(&d));
	struct rar_op op = rar_op_of(d.dtype, rar_bytes(&d), 0);
	struct rar_done done;
	char none;

	(void)arg;
	RAR_CHECK(fd >= 0 && c && x, "join");
	rar_nonblock(fd, true);
	for (uint64_t i = 0; i < 30; i++) {
		d.id = i;
		rar_fill(&d, rank, 0, d.count, x);
		RAR_CHECK(!rar_send(fd, x, rar_bytes(&d), MSG_ZEROCOPY, &op), "send");
		RAR_CHECK(comes(c, i + 1, 0), "operation %d", (int)i);
		RAR_CHECK(rar_verify(&d, 0, d.count, x) < 0, "bits");
		RAR_CHECK(!rar_recv_all(fd, &none, 1, &done), "recv() does not wait");
	}
	return 0;
}

/* ------------------------------------------------------------ failure */

/* Rank 1 closes with an operation of rank 0 unfinished; then both join again. */
static int failed(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, 1000);
	const struct rar_counters *c;
	int fd = rar_open(&ring, rank);
	float x[1000];

	(void)arg;
	c = map(fd);
	RAR_CHECK(fd >= 0 && c, "join");
	RAR_CHECK(!rar_post(fd, &d, rank), "post");
	RAR_CHECK(comes(c, 1, 0), "complete");
	RAR_CHECK(rank || !rar_post(fd, &d, rank), "post");
	sync_ranks();
	if (rank) {
		close(fd);
		fd = rar_socket();
	} else {
		RAR_CHECK(comes(c, 1, ECONNRESET), "the failure shows");
		RAR_CHECK(shows(c, 2, 1, 0), "the result before it stays");
		RAR_CHECK(!rar_collect(fd, &d, rank), "bits");
		RAR_CHECK(shows(c, 2, 1, 1), "it was read");
		RAR_CHECK(recv(fd, x, sizeof(x), 0) < 0 && errno == ECONNRESET, "error");
	}
	RAR_CHECK(rank || c->members == 1, "members");
	RAR_CHECK(!rar_join(fd, &ring, rank), "join again");
	if (rank)
		RAR_CHECK(shows(c, 1, 1, 0), "the page of a closed socket stays as it was");
	else
		RAR_CHECK(c->members == 2 && !c->error && shows(c, 0, 0, 0), "anew");
	RAR_CHECK(!rar_allreduce(fd, &d, rank), "bits");
	RAR_CHECK(rank || shows(c, 1, 1, 1), "counts");
	return 0;
}

/* ------------------------------------------------------------ close and fork */

/* The mapping does not keep the socket open: rank 0 hears that rank 1 left. */
static int closed(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, 1000);
	int fd = rar_open(&ring, rank), status;
	const struct rar_counters *c = map(fd);
	char byte;
	pid_t pid;

	(void)arg;
	RAR_CHECK(fd >= 0 && c && !rar_allreduce(fd, &d, rank), "an operation");
	sync_ranks();
	if (!rank) {
		RAR_CHECK(!recv(fd, &byte, 1, 0), "end of file: %m");
		return sync_ranks();
	}
	pid = fork();
	if (!pid) {	/* lives until rank 0 has heard */
		close(fd);
		_exit(sync_ranks() || !shows(c, 1, 1, 1));
	}
	close(fd);
	RAR_CHECK(shows(c, 1, 1, 1), "the page stays");
	RAR_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "the child's page");
	return 0;
}

/* ------------------------------------------------------------ refused */

static int map_error(int fd, size_t len, int prot, int flags, off_t off)
{
	void *p = mmap(NULL, len, prot, flags, fd, off);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, len);
	return 0;
}

static int refused(uint32_t rank, void *arg)
{
	size_t page = sysconf(_SC_PAGESIZE);
	const struct rar_counters *c, *d;
	int fd = rar_socket();

	(void)arg;
	(void)rank;
	RAR_CHECK(map_error(fd, page, PROT_READ | PROT_WRITE, MAP_SHARED, 0) == EACCES, "write");
	RAR_CHECK(map_error(fd, page, PROT_READ, MAP_PRIVATE, 0) == EINVAL, "private");
	RAR_CHECK(map_error(fd, 2 * page, PROT_READ, MAP_SHARED, 0) == EINVAL, "two pages");
	RAR_CHECK(map_error(fd, page, PROT_READ, MAP_SHARED, page) == EINVAL, "the second page");
	c = map(fd);
	d = map(fd);
	RAR_CHECK(c && d && c != d && d->version == RAR_COUNTERS_VERSION, "mapped twice");
	RAR_CHECK(mprotect((void *)c, page, PROT_READ | PROT_WRITE) && errno == EACCES, "mprotect");
	RAR_CHECK(mremap((void *)c, page, 2 * page, MREMAP_MAYMOVE) == MAP_FAILED, "grow");
	RAR_CHECK(!madvise((void *)c, page, MADV_DONTNEED) && c->version == RAR_COUNTERS_VERSION,
		  "dropped and read again");
	return 0;
}

/* ------------------------------------------------------------ */

static const struct test {
	const char *name;
	rar_rank_fn fn;
} tests[] = {
	{ "posted, complete, ready, delivered", counts },
	{ "a page mapped late", late },
	{ "an operation in place, seen by the page alone", in_place },
	{ "a failure, and joining again", failed },
	{ "close() and fork() with the page mapped", closed },
	{ "other mappings are refused", refused },
};

int main(void)
{
	rar_begin_private();
	barrier = rar_shared(sizeof(*barrier));
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		ring.group = i + 1;
		memset(barrier, 0, sizeof(*barrier));
		ksft_test_result(!rar_run(ring.size, NULL, 60, tests[i].fn, NULL), "%s\n",
				 tests[i].name);
	}
	ksft_finished();
}
