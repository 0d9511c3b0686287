// SPDX-License-Identifier: GPL-2.0
/*
 * The blocking call: send() with RAR_OP.dst and without MSG_ZEROCOPY returns when the result is
 * there, of every collective and length. If it stops waiting, recv() delivers the result.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "sock.h"
#include "job.h"

#define SHORT		1000		/* elements: copied */
#define LONG		100000		/* elements: pinned */
#define DELAY_MS	200

static const uint32_t counts[] = { SHORT, LONG };

/* ------------------------------------------------------------ results */

static int rank_of_every(uint32_t rank, void *arg)
{
	static const uint32_t lengths[] = { 0, 3, 999, 8190, 8193, 60000, 300000 };
	struct rar_ring *ring = arg;
	int fd = rar_open(ring, rank), err = 0;
	struct rar_job j = { .ring = ring, .dtype = RAR_F32, .mode = RAR_WAITED };
	struct rar_job_memory m;

	RAR_CHECK(fd >= 0, "join: %d", fd);
	for (j.collective = RAR_ALLREDUCE; j.collective <= RAR_BARRIER; j.collective++)
		for (size_t i = 0; i < ARRAY_SIZE(lengths) && !err; i++) {
			j.id++;
			j.root = j.id % ring->size;
			j.count = j.collective == RAR_BARRIER ? 0 :
				  rar_job_count(ring, j.collective, lengths[i]);
			m = rar_job_memory(&j, rank);
			err = rar_job_post(fd, &j, rank, &m);
			RAR_CHECK(!err, "%s of %u: %s", rar_collective_name(j.collective), j.count,
				  strerrorname_np(-err));
			/* after the last collective other ranks may have closed */
			RAR_CHECK(j.collective == RAR_BARRIER || !(poll_now(fd, POLLIN, 0) & POLLIN),
				  "a record is left");
			err = rar_job_collect(fd, &j, rank, &m);
			rar_job_free(&j, &m);
		}
	close(fd);
	return err;
}

TEST(every_collective)
{
	for (uint32_t n = 1; n <= 4; n++) {
		struct rar_ring ring = lo_ring(n, n);

		ASSERT_EQ(0, rar_private_net());
		EXPECT_EQ(0, rar_run(n, NULL, 60, rank_of_every, &ring)) TH_LOG("N=%u", n);
	}
}

static long call(int fd, const struct rar_data *d, void *src, void *dst, int flags)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);

	op.dst = (uintptr_t)dst;
	return rar_send(fd, src, rar_bytes(d), flags, &op);
}

/* The result overwrites the contribution; some ranks use other calls. */
static int rank_in_place(uint32_t rank, void *arg)
{
	struct rar_ring *ring = arg;
	int fd = rar_open(ring, rank), err = 0;

	RAR_CHECK(fd >= 0, "join: %d", fd);
	for (uint32_t id = 0; id < 40 && !err; id++) {
		struct rar_data d = data_of(ring->size, id, counts[id / 2 % 2]);
		char *x = malloc(rar_bytes(&d));

		rar_fill(&d, rank, 0, d.count, x);
		if (id % 4 == rank)
			err = rar_allreduce(fd, &d, rank);
		else
			err = call(fd, &d, x, x, 0) ?:
			      rar_verify(&d, 0, d.count, x) >= 0 ? -EBADE : 0;
		free(x);
	}
	RAR_CHECK(!err, "%s", strerrorname_np(-err));
	close(fd);
	return 0;
}

TEST(in_place)
{
	struct rar_ring ring = lo_ring(3, 1);

	ASSERT_EQ(0, rar_private_net());
	EXPECT_EQ(0, rar_run(3, NULL, 60, rank_in_place, &ring));
}

/* What cannot be pinned is copied. */
static int poor(void *arg)
{
	struct rlimit none = { 0, 0 };
	struct rar_data d = data_of(1, 1, LONG);
	char *x = malloc(rar_bytes(&d)), *y = malloc(rar_bytes(&d));
	int fd = *(int *)arg;

	rar_fill(&d, 0, 0, d.count, x);
	if (setrlimit(RLIMIT_MEMLOCK, &none) || call(fd, &d, x, x, MSG_ZEROCOPY) != -ENOBUFS)
		return 1;
	return call(fd, &d, x, y, 0) || rar_verify(&d, 0, d.count, y) >= 0;
}

TEST(no_memory_may_be_pinned)
{
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	EXPECT_EQ(0, as_nobody(poor, &fd));
}

/* Sends a tensor of two pieces: 0 or -errno. */
static long two_pieces(int fd, const struct rar_data *d, char *x, size_t first, void *dst)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);
	struct iovec iov[2] = { { x, first }, { x + first, rar_bytes(d) - first } };
	char control[CMSG_SPACE(sizeof(op))] __attribute__((aligned(__alignof__(struct cmsghdr))));
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	op.dst = (uintptr_t)dst;
	*c = (struct cmsghdr) { .cmsg_len = CMSG_LEN(sizeof(op)), .cmsg_level = SOL_RAR,
				.cmsg_type = RAR_OP };
	memcpy(CMSG_DATA(c), &op, sizeof(op));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Neither can an element in two pieces, or a place that overlaps the contribution in part. */
TEST(no_such_memory_is_pinned)
{
	struct rar_data d = data_of(1, 1, LONG);
	char *x = malloc(rar_bytes(&d) + 64), *y = malloc(rar_bytes(&d));
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	rar_fill(&d, 0, 0, d.count, x);
	EXPECT_EQ(0, two_pieces(fd, &d, x, 4 * 1000 + 2, y));
	EXPECT_EQ(-1, rar_verify(&d, 0, d.count, y));
	EXPECT_EQ(0, call(fd, &d, x, x + 64, 0));
	EXPECT_EQ(-1, rar_verify(&d, 0, d.count, x + 64));
	close(fd);
	free(x);
	free(y);
}

static int resident(char *at, size_t pages)
{
	unsigned char in[1024];
	int n = 0;

	if (mincore(at, pages * sysconf(_SC_PAGESIZE), in))
		return -errno;
	while (pages--)
		n += in[pages] & 1;
	return n;
}

/* Where no byte goes, no memory is touched. */
TEST(nothing_to_copy)
{
	struct rar_data d = data_of(1, 1, 0);
	struct rar_op op = { .size = sizeof(op), .collective = RAR_BARRIER };
	size_t pages = 1024;
	char *y = mmap(NULL, pages * sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	ASSERT_NE(MAP_FAILED, y);
	EXPECT_EQ(0, call(fd, &d, NULL, y, 0));
	op.dst = (uintptr_t)y;
	EXPECT_EQ(0, rar_send(fd, NULL, 0, 0, &op));
	EXPECT_EQ(0, resident(y, pages));
	close(fd);
}

/* ------------------------------------------------------------ waiting */

/* A call of one rank, while the others do something. */
FIXTURE(one)
{
	int fd[2];
	struct rar_data d;
	char *x;
	char *y;
};

FIXTURE_VARIANT(one)
{
	uint32_t count;
};

FIXTURE_VARIANT_ADD(one, copied) { .count = SHORT };
FIXTURE_VARIANT_ADD(one, pinned) { .count = LONG };

FIXTURE_SETUP(one)
{
	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(self->fd, 2, 1));
	self->d = data_of(2, 7, variant->count);
	self->x = malloc(rar_bytes(&self->d));
	self->y = malloc(rar_bytes(&self->d));
	rar_fill(&self->d, 0, 0, self->d.count, self->x);
}

FIXTURE_TEARDOWN(one)
{
	ring_down(self->fd, 2);
	free(self->x);
	free(self->y);
}

static long wait_for(FIXTURE_DATA(one) *o, int flags)
{
	return call(o->fd[0], &o->d, o->x, o->y, flags);
}

/* The other rank takes part, and recv() delivers what the call did not wait for. */
static int rest(FIXTURE_DATA(one) *o)
{
	bool copied = o->d.count == SHORT, eor = false;
	ssize_t n;
	int err = rar_post(o->fd[1], &o->d, 1) ?: rar_collect(o->fd[1], &o->d, 1);

	if (err || !readable(o->fd[0]))
		return err ?: -ETIMEDOUT;
	n = rar_recv(o->fd[0], o->y, copied ? rar_bytes(&o->d) : 0, 0, &eor, NULL);
	if (n != (copied ? (ssize_t)rar_bytes(&o->d) : 0) || !eor)
		return -EMSGSIZE;
	return rar_verify(&o->d, 0, o->d.count, o->y) >= 0 ? -EBADE :
	       works(o->fd, 2, 100);
}

TEST_F(one, does_not_wait)
{
	EXPECT_EQ(-EINPROGRESS, wait_for(self, MSG_DONTWAIT));
	EXPECT_EQ(0, rest(self));
}

TEST_F(one, time_is_over)
{
	ASSERT_EQ(0, rar_timeout(self->fd[0], SO_RCVTIMEO, 100));
	EXPECT_EQ(-EINPROGRESS, wait_for(self, 0));
	EXPECT_EQ(0, rest(self));
}

/* Also after a handler with SA_RESTART: the operation is not sent twice. */
TEST_F(one, a_signal)
{
	struct itimerval soon = { .it_value.tv_usec = 100000 };

	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		struct sigaction act = { .sa_handler = ignore, .sa_flags = flags };

		self->d.id++;
		rar_fill(&self->d, 0, 0, self->d.count, self->x);
		sigaction(SIGALRM, &act, NULL);
		setitimer(ITIMER_REAL, &soon, NULL);
		EXPECT_EQ(-EINPROGRESS, wait_for(self, 0));
		EXPECT_EQ(0, rest(self));
	}
}

static void *post_late(void *arg)
{
	FIXTURE_DATA(one) *o = arg;

	rar_sleep_ms(DELAY_MS);
	return (void *)(long)(rar_post(o->fd[1], &o->d, 1) ?: rar_collect(o->fd[1], &o->d, 1));
}

static void *leave_late(void *arg)
{
	FIXTURE_DATA(one) *o = arg;

	rar_sleep_ms(DELAY_MS);
	close(o->fd[1]);
	return NULL;
}

/* recv(), poll() and the page of counters of another thread see nothing of the operation. */
static void *reader(void *arg)
{
	FIXTURE_DATA(one) *o = arg;
	const struct rar_counters *page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
					       o->fd[0], 0);
	uint64_t end = rar_now_us() + 2 * DELAY_MS * 1000, ready, delivered;
	char byte;

	if (page == MAP_FAILED)
		return (void *)3L;
	do {
		ready = __atomic_load_n(&page->ready, __ATOMIC_ACQUIRE);
		delivered = __atomic_load_n(&page->delivered, __ATOMIC_ACQUIRE);
		if (ready > delivered)
			return (void *)4L;
		if (poll_now(o->fd[0], POLLIN, 1) & POLLIN)
			return (void *)1L;
		if (recv(o->fd[0], &byte, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN)
			return (void *)2L;
	} while (rar_now_us() < end);
	return delivered == 1 ? NULL : (void *)5L;
}

TEST_F(one, other_threads)
{
	pthread_t post, read;
	void *posted, *seen;

	pthread_create(&read, NULL, reader, self);
	pthread_create(&post, NULL, post_late, self);
	EXPECT_EQ(0, wait_for(self, 0));
	EXPECT_EQ(-1, rar_verify(&self->d, 0, self->d.count, self->y));
	pthread_join(post, &posted);
	pthread_join(read, &seen);
	EXPECT_EQ(NULL, posted);
	EXPECT_EQ(NULL, seen);
	EXPECT_EQ(0, works(self->fd, 2, 100));
}

TEST_F(one, the_other_rank_leaves)
{
	struct rar_error e;
	pthread_t leave;

	pthread_create(&leave, NULL, leave_late, self);
	EXPECT_EQ(-ECONNRESET, wait_for(self, 0));
	pthread_join(leave, NULL);
	EXPECT_EQ(0, rar_error(self->fd[0], &e));
	EXPECT_EQ(1, e.rank);
	EXPECT_EQ(RAR_R_LEFT, e.reason);
}

/* The memory of the result goes away. A call that copies leaves the result to recv(). */
struct going {
	FIXTURE_DATA(one) *one;
	size_t len;
};

static void *take_away(void *arg)
{
	const struct going *g = arg;

	rar_sleep_ms(DELAY_MS);
	if (mprotect(g->one->y, g->len, PROT_NONE))
		return (void *)1L;
	return (void *)(long)rar_post(g->one->fd[1], &g->one->d, 1);
}

TEST_F(one, its_memory_goes_away)
{
	bool copied = variant->count == SHORT, eor = false;
	struct going g = { self, rar_bytes(&self->d) };
	char *heap = self->y;
	pthread_t thread;
	void *posted;

	self->y = mmap(NULL, g.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->y);
	pthread_create(&thread, NULL, take_away, &g);
	EXPECT_EQ(copied ? -EINPROGRESS : 0, wait_for(self, 0));
	pthread_join(thread, &posted);
	EXPECT_EQ(NULL, posted);
	EXPECT_EQ(0, mprotect(self->y, g.len, PROT_READ | PROT_WRITE));
	if (copied)
		EXPECT_EQ((ssize_t)g.len, rar_recv(self->fd[0], self->y, g.len, 0, &eor, NULL));
	EXPECT_EQ(-1, rar_verify(&self->d, 0, self->d.count, self->y));
	EXPECT_EQ(0, rar_collect(self->fd[1], &self->d, 1));
	EXPECT_EQ(0, works(self->fd, 2, 100));
	munmap(self->y, g.len);
	self->y = heap;
}

/*
 * The page of the result is gone when the result comes, and comes back when the test wants. poll()
 * works only without blocking.
 */
static int make_page(char **at)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	*at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	reg.range.start = (uintptr_t)*at;
	reg.range.len = 4096;
	return uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &reg) ?
	       uffd : -1;
}

static bool page_wanted(int uffd)
{
	struct uffd_msg msg;

	return poll_now(uffd, POLLIN, 5000) == POLLIN && read(uffd, &msg, sizeof(msg)) > 0;
}

static int page_back(int uffd, char *at)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)at, 4096 } };

	return ioctl(uffd, UFFDIO_ZEROPAGE, &zero) ? -errno : 0;
}

static void *waits(void *arg)
{
	return (void *)wait_for(arg, 0);
}

/* Does an operation whose result rank 0 does not read: 0 or -errno. */
static int leave_one(const int *fd, uint64_t id, int flags)
{
	struct rar_data d = data_of(2, id, 100);
	char x[400];
	int err;

	rar_fill(&d, 0, 0, d.count, x);
	err = rar_send(fd[0], x, sizeof(x), flags, NULL);
	return err ?: rar_post(fd[1], &d, 1) ?: rar_collect(fd[1], &d, 1);
}

static int leave_many(const int *fd, int n)
{
	int err = 0;

	while (n-- && !err)
		err = leave_one(fd, 1000 + n, 0);
	rar_sleep_ms(DELAY_MS);		/* the last one is complete at rank 0, too */
	return err;
}

/*
 * The table is full of results, and the oldest of them is on its way to a send(): room comes
 * without a recv().
 */
TEST_F(one, the_table_is_full)
{
	char *heap = self->y;
	pthread_t thread;
	void *sent;
	int uffd;

	if (variant->count != SHORT)
		SKIP(return, "its pages are pinned");
	uffd = make_page(&self->y);
	if (uffd < 0)
		SKIP(self->y = heap; return, "no userfaultfd in this kernel");
	pthread_create(&thread, NULL, waits, self);
	rar_sleep_ms(DELAY_MS);
	ASSERT_EQ(0, madvise(self->y, 4096, MADV_DONTNEED));
	ASSERT_EQ(0, rar_post(self->fd[1], &self->d, 1));
	EXPECT_TRUE(page_wanted(uffd));
	EXPECT_EQ(0, rar_collect(self->fd[1], &self->d, 1));
	EXPECT_EQ(0, leave_many(self->fd, RAR_MAX_OPS - 1));
	EXPECT_EQ(-EAGAIN, leave_one(self->fd, 1, MSG_DONTWAIT));
	EXPECT_EQ(0, page_back(uffd, self->y));
	pthread_join(thread, &sent);
	EXPECT_EQ(NULL, sent);
	EXPECT_EQ(-1, rar_verify(&self->d, 0, self->d.count, self->y));
	EXPECT_EQ(0, leave_many(self->fd, 1));
	EXPECT_EQ(-ENOBUFS, leave_one(self->fd, 1, MSG_DONTWAIT));
	close(uffd);
	self->y = heap;
}

/* ------------------------------------------------------------ refused */

TEST_F(one, results_before_it)
{
	struct rar_data before = data_of(2, 1, 1000);

	ASSERT_EQ(0, rar_post(self->fd[0], &before, 0));
	EXPECT_EQ(-EBUSY, wait_for(self, 0));
	ASSERT_EQ(0, rar_post(self->fd[1], &before, 1));
	EXPECT_TRUE(readable(self->fd[0]));
	EXPECT_EQ(-EBUSY, wait_for(self, 0));
	EXPECT_EQ(0, rar_collect(self->fd[0], &before, 0));
	EXPECT_EQ(0, rar_collect(self->fd[1], &before, 1));
	EXPECT_EQ(-EINPROGRESS, wait_for(self, MSG_DONTWAIT));
	EXPECT_EQ(0, rest(self));
}

/* Nothing is sent after an error. */
TEST_F(one, misuse)
{
	size_t bytes = rar_bytes(&self->d);
	struct rar_op keyed = { .size = 48, .collective = RAR_REDUCE_BY_KEY, .key = 8, .bytes = 160,
				.dtype = RAR_I64, .dst = (uintptr_t)self->y };
	char *ro = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *gone = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = self->fd[0];

	EXPECT_EQ(-EINVAL, wait_for(self, MSG_MORE));
	EXPECT_EQ(-EINVAL, rar_send(fd, self->x, 160, 0, &keyed));
	EXPECT_EQ(-EFAULT, call(fd, &self->d, self->x, ro, 0));
	EXPECT_EQ(-EFAULT, call(fd, &self->d, self->x, gone, 0));
	EXPECT_EQ(-EFAULT, call(fd, &self->d, gone, self->y, 0));
	EXPECT_EQ(-EFAULT, call(fd, &self->d, self->x, (void *)4096, 0));
	EXPECT_EQ(-EFAULT, call(fd, &self->d, self->x, (void *)0xffff888000000000, 0));
	EXPECT_EQ(0, works(self->fd, 2, 100));
}

TEST_HARNESS_MAIN
