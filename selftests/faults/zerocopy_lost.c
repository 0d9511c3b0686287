// SPDX-License-Identifier: GPL-2.0
/*
 * In place and out of place: the user's memory goes away while it is reduced, or the group
 * ends meanwhile. Nothing is written to the memory after the user has it back.
 *
 * lib/in_topo.sh 4 zerocopy_lost [PATTERN]: only the tests whose names contain PATTERN.
 */
#include "zerocopy.h"

/* ------------------------------------------------------------ memory goes away */

/* A trick of rank 0 with its memory, between its send() and the other ranks' send(). */
struct trick {
	const char *name;
	int (*fn)(struct job *j);
	enum kind kind;
	bool lost;			/* rank 0 does not see its sums */
};

static int trick_munmap(struct job *j)
{
	munmap(j->dst.map, j->dst.len);
	/* Map other memory at the same address; it is not the pinned memory. */
	return mmap(j->dst.map, j->dst.len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}

static int trick_mremap(struct job *j)
{
	size_t off = j->dst.base - j->dst.map;
	char *to = mremap(j->dst.map, j->dst.len, j->dst.len, MREMAP_MAYMOVE | MREMAP_FIXED,
			  map_anon(j->dst.len, PROT_NONE));

	if (to == MAP_FAILED)
		return -errno;
	j->dst.map = to;
	j->dst.base = to + off;
	if (j->mode == IN_PLACE)
		j->src = j->dst;
	return 0;
}

static int trick_truncate(struct job *j)
{
	return ftruncate(j->dst.memfd, 0) || ftruncate(j->dst.memfd, j->dst.len);
}

/* The child gets copies, and the parent's pages stay the parent's. */
static int trick_fork(struct job *j)
{
	pid_t pid = fork();

	if (!pid) {
		memset(j->src.base, 0xee, j->src.bytes);
		memset(j->dst.base, 0xee, j->dst.bytes);
		_exit(0);
	}
	return rar_reap(pid, rar_now_us() + 10000000);
}

static int trick_readonly(struct job *j)
{
	return mprotect(j->dst.map, j->dst.len, PROT_READ);
}

static int trick_dontneed(struct job *j)
{
	return madvise(j->dst.map, j->dst.len, MADV_DONTNEED);
}

static void *scribble(void *arg)
{
	struct job *j = arg;

	for (uint32_t i = 0; !shared->stop; i++)
		memset(j->dst.base, i, j->dst.bytes);
	return NULL;
}

static int trick_scribble(struct job *j)
{
	static pthread_t thread;

	shared->stop = false;
	return pthread_create(&thread, NULL, scribble, j) || pthread_detach(thread);
}

static const struct trick tricks[] = {
	{ "munmap", trick_munmap, ANON, true },
	{ "mremap", trick_mremap, ANON, false },
	{ "ftruncate", trick_truncate, SHARED, true },
	{ "fork", trick_fork, ANON, false },
	{ "mprotect", trick_readonly, ANON, false },
	{ "madvise", trick_dontneed, ANON, true },
	{ "writing", trick_scribble, ANON, true },
};

/* A rank that writes to its contribution or sums spoils them for all; the group goes on. */
static int trick_one(int fd, uint32_t rank, const struct trick *t, enum mode m, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_F32, 200001);
	bool spoiled = t->fn == trick_scribble;
	struct job j;
	int err;

	RAR_CHECK(!job_get(&j, &d, rank ? mode_of(MODES, rank, id) : m, rank ? ANON : t->kind,
			   4, 1), "memory");
	if (!rank) {
		RAR_CHECK(!job_post(fd, &j, rank), "send");
		RAR_CHECK(!t->fn(&j), "the trick itself");
	}
	RAR_CHECK(!sync_ranks(), "meet");
	if (rank)
		RAR_CHECK(!job_post(fd, &j, rank), "send");
	err = job_recv(fd, &j);
	RAR_CHECK(!err, "recv: %s", strerrorname_np(-err));
	if (!spoiled && (rank || !t->lost))
		RAR_CHECK(!job_check(&j, rank), "bits");
	RAR_CHECK(!sync_ranks(), "meet");
	shared->stop = true;
	if (t->fn != trick_scribble || rank)
		job_put(&j);		/* otherwise the thread may still write */
	else
		rar_sleep_ms(50);
	return 0;
}

static int goes_away(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);
	uint64_t id = 1;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++)
		for (enum mode m = IN_PLACE; m < COPY; m++) {
			RAR_CHECK(!trick_one(fd, rank, &tricks[i], m, id++), "rank %u: %s, %s",
				  rank, tricks[i].name, mode_names[m]);
			RAR_CHECK(!healthy(fd, rank, id++), "after %s", tricks[i].name);
		}
	return 0;
}

/* ------------------------------------------------------------ the end of a group */

enum end { CLOSE, EXIT, KILL, ABORT, ENDS };

/* Rank 0 ends in the middle. It is a child, so that the rank's process can go on. */
static int end_early(enum end end, bool posts)
{
	struct rar_data d = data_of(1, RAR_F32, 500001);
	uint32_t zero = 0;
	struct job j;
	int fd;

	fd = rar_open(&ring, 0);
	if (fd < 0 || job_get(&j, &d, IN_PLACE, ANON, 4, 0))
		return 1;
	if (posts && job_post(fd, &j, 0))
		return 1;
	usleep(rar_now_us() % 3000);
	switch (end) {
	case CLOSE: close(fd); break;
	case KILL: raise(SIGKILL); break;
	case ABORT: setsockopt(fd, SOL_RAR, RAR_ABORT, &zero, sizeof(zero)); break;
	default: return 0;
	}
	return 0;
}

static int victim(enum end end, bool posts)
{
	int status, want = end == KILL ? 128 + SIGKILL : 0;
	pid_t pid = fork();

	if (!pid)
		_exit(end_early(end, posts));
	status = rar_reap(pid, rar_now_us() + SYNC_S * 1000000ull);
	RAR_CHECK(status == want, "status %d", status);
	return 0;
}

/* The group's error from recv(), or from send(). */
static int get_error(int fd, bool by_send)
{
	struct pollfd pfd = { .fd = fd };
	ssize_t n;

	if (by_send) {
		RAR_CHECK(poll(&pfd, 1, 20000) == 1, "nothing in 20 s");
		return rar_send(fd, &pfd, 4, 0, NULL);
	}
	do {
		n = rar_recv(fd, &pfd, sizeof(pfd), 0, NULL, NULL);
	} while (n >= 0);
	return n;
}

/* The group's error from poll() and SO_ERROR, as in an event loop. */
static int poll_error(int fd)
{
	struct pollfd p = { .fd = fd };
	socklen_t len = sizeof(int);
	int err = 0;

	if (poll(&p, 1, 20000) != 1 || !(p.revents & POLLERR))
		return -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

/*
 * Once a call has reported the error nothing is written to the memory any more. The first
 * operation may be complete; rank 0 never sends the second.
 */
static int bereaved(uint32_t rank, int round)
{
	struct rar_data d = data_of(1, RAR_F32, 500001);
	struct job j[2];
	int fd, err = 0;

	fd = open_rank(rank);
	if (fd == -ECONNRESET)		/* rank 0 has joined, and is gone already */
		return 0;
	RAR_CHECK(fd >= 0, "join");
	for (int i = 0; i < 2; i++) {
		RAR_CHECK(!job_get(&j[i], &d, (round + rank + i) % COPY, ANON, 4, 8), "memory");
		put_data(&d, rank, j[i].src.base);
	}
	for (int i = 0; i < 2 && !err; i++)
		err = job_send(fd, &j[i]);
	if (!err)
		err = rank == 2 ? poll_error(fd) : get_error(fd, rank == 1);
	RAR_CHECK(err == -ECONNRESET, "%s", strerrorname_np(-err));
	for (int i = 0; i < 2; i++)
		memset(j[i].dst.map, 0x5a, j[i].dst.len);
	if (rank == 1)
		close(fd);
	rar_sleep_ms(50);
	for (int i = 0; i < 2; i++)
		RAR_CHECK(only(j[i].dst.map, j[i].dst.map + j[i].dst.len, 0x5a),
			  "written after the error");
	if (rank != 1)
		close(fd);
	for (int i = 0; i < 2; i++)
		job_put(&j[i]);
	return 0;
}

static int ends(uint32_t rank, void *arg)
{
	int rounds = slow() ? 2 * ENDS : 5 * ENDS, fd;

	(void)arg;
	for (int round = 0; round < rounds; round++, ring.group += 1000) {
		if (!rank)
			RAR_CHECK(!victim(round % ENDS, round % 3), "round %d", round);
		else
			RAR_CHECK(!bereaved(rank, round), "round %d", round);
		RAR_CHECK(!sync_ranks(), "meet");
	}
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "join");
	return healthy(fd, rank, 1);
}

static const struct test tests[] = {
	{ .name = "memory that goes away", 3, goes_away },
	{ .name = "after the error nothing is written", 4, ends },
};

int main(int argc, char **argv)
{
	return zerocopy_main("zerocopy_lost", tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
