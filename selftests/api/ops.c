// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of one group: many small ones, the limit of 64 in flight, cookies
 * and order, records in several calls, short receive buffers, empty ones, a
 * stopped process. All ranks on 127.0.0.1 of a namespace of their own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define SYNC_S	60

static struct rar_ring ring = { .where = RAR_ON_LO4 };

struct shared {
	struct rar_barrier barrier;
	pid_t pid[RAR_PROCS];
	atomic_uint finished;
};

static struct shared *shared;

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

/* Sizes from nothing to a few packets, all types in turn. */
static struct rar_data small_op(uint64_t id)
{
	return (struct rar_data){
		.id = id, .size = ring.size,
		.count = id * 7919 % 97,
		.dtype = RAR_F32 + id % 4,
	};
}

/* ------------------------------------------------------------ many */

/*
 * Number of operations: fewer on debug kernels, which are a hundred times slower, and with seals,
 * which an emulator makes slowly.
 */
static uint64_t how_many(void)
{
	if (rar_checked_kernel())
		return 500;
	return getenv("RAR_SECURITY") ? 2000 : 10000;
}

static int many(uint32_t rank, void *arg)
{
	uint64_t posted = 0, collected = 0, all = how_many();
	int fd = rar_open(&ring, rank);
	struct rar_data d;
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	if (!rank && all != 10000)
		rar_log("%llu operations only", (unsigned long long)all);
	while (collected < all) {
		if (posted < all && posted - collected < RAR_MAX_OPS) {
			d = small_op(posted++);
			err = rar_post(fd, &d, rank);
			RAR_CHECK(!err, "op %llu: %s", (unsigned long long)d.id,
				  strerror(-err));
			continue;
		}
		d = small_op(collected++);
		err = rar_collect(fd, &d, rank);
		RAR_CHECK(!err, "op %llu: %s", (unsigned long long)d.id,
			  strerror(-err));
	}
	return 0;
}

/* ------------------------------------------------------------ limit */

static int wait_complete(int fd, uint64_t ops)
{
	uint64_t deadline = rar_now_us() + SYNC_S * 1000000ull;
	struct rar_info info;
	int err;

	do {
		err = rar_info(fd, &info);
		if (err || info.ops_complete >= ops)
			return err;
		rar_sleep_ms(2);
	} while (rar_now_us() < deadline);
	return -ETIMEDOUT;
}

static short events(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };

	return poll(&pfd, 1, 0) < 0 ? -1 : pfd.revents;
}

static int post_all(int fd, uint32_t rank)
{
	struct rar_data d;
	int err = 0;

	for (uint64_t id = 0; id < RAR_MAX_OPS && !err; id++) {
		d = small_op(id);
		err = rar_post(fd, &d, rank);
	}
	return err;
}

/* Rank 0 fills its table while rank 1 posts nothing, then while results are unread. */
static int limit_of_rank_0(int fd)
{
	struct rar_data d = small_op(RAR_MAX_OPS);
	int err;

	rar_nonblock(fd, true);
	RAR_CHECK(events(fd) == POLLOUT, "an idle group: %x", events(fd));
	err = post_all(fd, 0);
	RAR_CHECK(!err, "%s", strerror(-err));
	RAR_CHECK(events(fd) == 0, "64 operations in flight: %x", events(fd));
	err = rar_post(fd, &d, 0);
	RAR_CHECK(err == -EAGAIN, "65th: %s", strerror(-err));
	RAR_CHECK(!sync_ranks(), "rank 1");
	RAR_CHECK(!wait_complete(fd, RAR_MAX_OPS), "64 operations");
	err = rar_post(fd, &d, 0);
	RAR_CHECK(err == -ENOBUFS, "65th, all unread: %s", strerror(-err));
	rar_nonblock(fd, false);
	err = rar_post(fd, &d, 0);
	RAR_CHECK(err == -ENOBUFS, "65th, all unread, blocking: %s", strerror(-err));
	RAR_CHECK(events(fd) == POLLIN, "64 unread: %x", events(fd));
	return 0;
}

static int limit(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	struct rar_data d;
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	if (rank == 0) {
		if (limit_of_rank_0(fd))
			return 1;
	} else {
		RAR_CHECK(!sync_ranks(), "rank 0");
		RAR_CHECK(!post_all(fd, rank), "send");
	}
	d = small_op(0);
	RAR_CHECK(!rar_collect(fd, &d, rank), "first result");
	RAR_CHECK(rank || events(fd) == (POLLIN | POLLOUT), "one read: %x",
		  events(fd));
	d = small_op(RAR_MAX_OPS);
	RAR_CHECK(!rar_post(fd, &d, rank), "65th after a result was read");
	for (uint64_t id = 1; id <= RAR_MAX_OPS; id++) {
		d = small_op(id);
		err = rar_collect(fd, &d, rank);
		RAR_CHECK(!err, "result %llu: %s", (unsigned long long)id,
			  strerror(-err));
	}
	return 0;
}

/* ------------------------------------------------------------ blocking send */

/* A send() to a full table waits no longer than SO_SNDTIMEO. */
static int slow_reader(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	struct rar_data d;
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	RAR_CHECK(!rar_timeout(fd, SO_SNDTIMEO, 300), "SO_SNDTIMEO");
	if (rank == 0) {
		RAR_CHECK(!post_all(fd, rank), "send");
		d = small_op(RAR_MAX_OPS);
		err = rar_post(fd, &d, rank);
		RAR_CHECK(err == -EAGAIN, "65th with SO_SNDTIMEO: %s",
			  strerror(-err));
	}
	RAR_CHECK(!sync_ranks(), "meet");
	if (rank == 1)
		RAR_CHECK(!post_all(fd, rank), "send");
	for (uint64_t id = 0; id < RAR_MAX_OPS; id++) {
		d = small_op(id);
		err = rar_collect(fd, &d, rank);
		RAR_CHECK(!err, "result %llu: %s", (unsigned long long)id,
			  strerror(-err));
	}
	return 0;
}

/* ------------------------------------------------------------ order */

/* Cookies and numbers come back in the order of send, whatever the sizes. */
static int order(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	struct rar_done done;
	struct rar_op op;
	float x[5000] = { 0 };
	ssize_t n;
	bool eor;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	for (uint64_t id = 0; id < 20; id++) {
		op = rar_op_of(0, 0, ~id << 32);
		n = rar_send(fd, x, id % 2 ? 4 : sizeof(x), 0, &op);
		RAR_CHECK(!n, "send: %s", strerror(-n));
	}
	for (uint64_t id = 0; id < 20; id++) {
		n = rar_recv(fd, x, sizeof(x), 0, &eor, &done);
		RAR_CHECK(n == (id % 2 ? 4 : (ssize_t)sizeof(x)), "%zd", n);
		RAR_CHECK(eor && done.size == sizeof(done), "no RAR_DONE");
		RAR_CHECK(done.op_seq == id && done.cookie == ~id << 32,
			  "op_seq %llu cookie %llx",
			  (unsigned long long)done.op_seq,
			  (unsigned long long)done.cookie);
		RAR_CHECK(!done.status && done.contributors == ring.size,
			  "status %d contributors %u", done.status,
			  done.contributors);
	}
	return 0;
}

/* ------------------------------------------------------------ pieces */

static const size_t pieces[] = { 4, 4096, 1 << 16, 400, 100000, 12 };
#define PIECES_BYTES (4 + 4096 + (1 << 16) + 400 + 100000 + 12)

static int send_pieces(int fd, const char *buf)
{
	struct rar_op op = rar_op_of(RAR_F32, PIECES_BYTES, 5);
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(pieces) && !err; i++) {
		err = rar_send(fd, buf + at, pieces[i],
			       i + 1 < ARRAY_SIZE(pieces) ? MSG_MORE : 0,
			       i ? NULL : &op);
		at += pieces[i];
	}
	return err;
}

/* One rank sends its record in pieces, the other in one call. */
static int more(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 5, .count = PIECES_BYTES / 4,
			      .size = ring.size, .dtype = RAR_F32 };
	struct rar_op op = rar_op_of(RAR_F32, PIECES_BYTES, 5);
	char *buf = malloc(PIECES_BYTES);
	int fd = rar_open(&ring, rank);
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	rar_fill(&d, rank, 0, d.count, buf);
	for (int round = 0; round < 3; round++) {
		err = rank == 0 ? send_pieces(fd, buf) :
		      rar_send(fd, buf, PIECES_BYTES, 0, &op);
		RAR_CHECK(!err, "send: %s", strerror(-err));
		err = rar_collect(fd, &d, rank);
		RAR_CHECK(!err, "recv: %s", strerror(-err));
	}
	free(buf);
	return 0;
}

/* A last call of the wrong length has no effect; the record can still be finished. */
static int more_wrong_end(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 6, .count = 100, .size = ring.size,
			      .dtype = RAR_I32 };
	struct rar_op op = rar_op_of(RAR_I32, 400, 6);
	int fd = rar_open(&ring, rank);
	char buf[400];
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	rar_fill(&d, rank, 0, d.count, buf);
	err = rar_send(fd, buf, 200, MSG_MORE, &op);
	RAR_CHECK(!err, "first: %s", strerror(-err));
	err = rar_send(fd, buf + 200, 100, 0, NULL);
	RAR_CHECK(err == -EINVAL, "ends too early: %s", strerror(-err));
	err = rar_send(fd, buf + 200, 204, 0, NULL);
	RAR_CHECK(err == -EINVAL, "too long: %s", strerror(-err));
	err = rar_send(fd, buf + 200, 100, MSG_MORE, NULL);
	RAR_CHECK(!err, "middle: %s", strerror(-err));
	err = rar_send(fd, buf + 300, 100, 0, NULL);
	RAR_CHECK(!err, "last: %s", strerror(-err));
	err = rar_collect(fd, &d, rank);
	RAR_CHECK(!err, "recv: %s", strerror(-err));
	return 0;
}

/* ------------------------------------------------------------ short buffers */

/* Reads one record in buffers of 1, 2, 3 ... bytes. */
static int read_short(int fd, char *buf, size_t bytes)
{
	struct rar_done done;
	size_t at = 0, room = 1;
	bool eor = false;
	ssize_t n;

	while (!eor) {
		n = rar_recv(fd, buf + at, room, 0, &eor, &done);
		RAR_CHECK(n > 0 && (size_t)n <= room, "%zd", n);
		at += n;
		RAR_CHECK(eor == (at == bytes), "MSG_EOR %d at %zu of %zu", eor,
			  at, bytes);
		RAR_CHECK(!!done.size == eor, "RAR_DONE at %zu of %zu", at, bytes);
		room = room % 1500 + 7;
	}
	return 0;
}

static int short_buffers(uint32_t rank, void *arg)
{
	struct rar_data d = { .size = ring.size, .dtype = RAR_F64 };
	int fd = rar_open(&ring, rank);
	char buf[40000];

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	for (d.id = 1; d.id < 6; d.id++) {
		d.count = d.id * 997;
		RAR_CHECK(!rar_post(fd, &d, rank), "send");
	}
	for (d.id = 1; d.id < 6; d.id++) {
		d.count = d.id * 997;
		if (read_short(fd, buf, rar_bytes(&d)))
			return 1;
		RAR_CHECK(rar_verify(&d, 0, d.count, buf) < 0, "bits");
	}
	return 0;
}

/* ------------------------------------------------------------ empty */

static int empty(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	struct rar_data d;
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	for (uint64_t id = 1; id <= 40; id++) {
		d = (struct rar_data){ .id = id, .count = id % 3 ? 0 : id,
				       .size = ring.size, .dtype = RAR_I64 };
		err = rar_post(fd, &d, rank);
		RAR_CHECK(!err, "send: %s", strerror(-err));
	}
	for (uint64_t id = 1; id <= 40; id++) {
		d = (struct rar_data){ .id = id, .count = id % 3 ? 0 : id,
				       .size = ring.size, .dtype = RAR_I64 };
		err = rar_collect(fd, &d, rank);
		RAR_CHECK(!err, "recv %llu: %s", (unsigned long long)id,
			  strerror(-err));
	}
	return 0;
}

/* An empty record is complete at every rank only when the last rank has sent it. */
static int barrier_op(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 1, .size = ring.size, .dtype = RAR_F32 };
	int fd = rar_open(&ring, rank);
	uint64_t t0;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	RAR_CHECK(!sync_ranks(), "meet");
	t0 = rar_now_us();
	if (rank == 2)
		rar_sleep_ms(400);
	RAR_CHECK(!rar_allreduce(fd, &d, rank), "empty");
	RAR_CHECK(rar_now_us() - t0 > 350000, "did not wait for rank 2");
	return 0;
}

/* ------------------------------------------------------------ stopped */

/* /proc/PID/stat: "pid (name) state ..." */
static bool is_stopped(pid_t pid)
{
	char path[32], line[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return state && state[2] == 'T';
}

static int wait_stopped(pid_t pid)
{
	for (int ms = 0; ms < SYNC_S * 1000; ms++) {
		if (is_stopped(pid))
			return 0;
		rar_sleep_ms(1);
	}
	return -ETIMEDOUT;
}

/* Rank 1 stops after its send(). The others send then, and its kernel serves them. */
static int stopped(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 1, .count = 300001, .size = ring.size,
			      .dtype = RAR_F32 };
	int fd = rar_open(&ring, rank);
	int err;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	shared->pid[rank] = getpid();
	RAR_CHECK(!sync_ranks(), "meet");
	RAR_CHECK(rank == 1 || !wait_stopped(shared->pid[1]), "rank 1 runs");
	RAR_CHECK(!rar_post(fd, &d, rank), "send");
	if (rank == 1)
		raise(SIGSTOP);
	err = rar_collect(fd, &d, rank);
	RAR_CHECK(!err, "%s", strerror(-err));
	if (rank == 1) {
		RAR_CHECK(shared->finished == ring.size - 1,
			  "continued before the others had their result");
		return 0;
	}
	if (++shared->finished == ring.size - 1)
		kill(shared->pid[1], SIGCONT);
	return 0;
}

/* ------------------------------------------------------------ all */

static const struct {
	const char *name;
	uint32_t ranks;
	unsigned int limit_s;
	rar_rank_fn fn;
} tests[] = {
	{ "10000 small operations back to back", 4, 180, many },
	{ "64 in flight: EAGAIN, all unread: ENOBUFS", 2, 60, limit },
	{ "SO_SNDTIMEO while 64 are in flight", 2, 60, slow_reader },
	{ "cookies and numbers in the order of send", 3, 60, order },
	{ "a record in several calls (MSG_MORE)", 2, 60, more },
	{ "a record that ends wrong can be finished", 2, 60, more_wrong_end },
	{ "short receive buffers, MSG_EOR at the end", 3, 60, short_buffers },
	{ "empty operations among others", 4, 60, empty },
	{ "an empty operation waits for all ranks", 4, 60, barrier_op },
	{ "a stopped process does not stop the others", 3, 60, stopped },
	{ "a group of one", 1, 60, empty },
};

int main(int argc, char **argv)
{
	int failed;

	rar_begin_private();
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1])) {
			ksft_test_result_skip("%s\n", tests[i].name);
			continue;
		}
		memset(shared, 0, sizeof(*shared));
		ring.group = i + 1;
		ring.size = tests[i].ranks;
		failed = rar_run(ring.size, NULL, tests[i].limit_s, tests[i].fn,
				 NULL);
		ksft_test_result(!failed, "%s\n", tests[i].name);
	}
	ksft_finished();
}
