// SPDX-License-Identifier: GPL-2.0
/*
 * Long tensors in copy mode are copied in and out in steps while the ring works on them. The
 * bits are right for every length, network and mode of the other ranks. Sums are in the
 * user's memory before the operation is complete. Memory may be gone when its step is
 * copied, or come late.
 *
 * lib/in_topo.sh 4 copy_steps
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "begin.h"

#define PAGE		4096ul
#define SYNC_S		60
#define LONG_BYTES	(24ul << 20)	/* many steps */
#define TRIES		20
#define EARLY		(2 << 20)	/* bytes; unexpected messages alone are fewer */
#define TAIL		(LONG_BYTES / 16)	/* a part of the last block */

static struct rar_ring ring;

struct shared {
	struct rar_barrier barrier;
	atomic_int hits;
	atomic_int returned;
	atomic_bool uffd_missing;
};

static struct shared *shared;

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static int open_rank(uint32_t rank)
{
	char step[12];
	int fd;

	/* Each rank has steps of its own length. */
	snprintf(step, sizeof(step), "%u", 131072 >> rank);
	if (rar_write("/proc/sys/net/rar/copy_step", step))
		return -ENOENT;
	fd = rar_open(&ring, rank);
	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

static char *map(size_t len)
{
	return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static struct rar_data data_of(uint64_t id, uint32_t dtype, uint64_t bytes)
{
	return (struct rar_data){ .id = id, .size = ring.size, .dtype = dtype,
				  .count = bytes / rar_element(dtype) };
}

static int send_long(int fd, const struct rar_data *d, char *buf)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);

	return rar_send(fd, buf, rar_bytes(d), 0, &op);
}

/* ------------------------------------------------------------ bits */

/* Send an odd number of pieces of odd lengths in one call. */
static int send_pieces(int fd, char *buf, size_t len, const struct rar_op *op)
{
	char control[CMSG_SPACE(sizeof(*op))]
		__attribute__((aligned(__alignof__(struct cmsghdr)))) = {};
	struct iovec iov[33];
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = 33,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	uint64_t random = rar_seed + op->cookie;
	size_t n;

	cmsg->cmsg_level = SOL_RAR;
	cmsg->cmsg_type = RAR_OP;
	cmsg->cmsg_len = CMSG_LEN(sizeof(*op));
	memcpy(CMSG_DATA(cmsg), op, sizeof(*op));
	for (int i = 0; i < 33; i++, buf += n, len -= n) {
		n = i < 32 ? rar_random(&random) % (len / 8 + 1) : len;
		iov[i] = (struct iovec){ buf, n };
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Send in one of four ways. In place (way 0) the sums replace the contribution at @buf. */
static int send_some_way(int fd, const struct rar_data *d, char *buf, uint64_t way)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);

	switch (way % 4) {
	case 0: return rar_send(fd, buf, rar_bytes(d), MSG_ZEROCOPY, &op);
	case 1: return send_pieces(fd, buf, rar_bytes(d), &op);
	case 2: return rar_send(fd, buf, 4000, MSG_MORE, &op) ?:
		       rar_send(fd, buf + 4000, rar_bytes(d) - 4000, 0, NULL);
	default: return rar_send(fd, buf, rar_bytes(d), 0, &op);
	}
}

/* recv() with room for the whole result, with more room, or in two calls. */
static int recv_some_way(int fd, const struct rar_data *d, char *buf, bool in_place, int way)
{
	size_t bytes = rar_bytes(d);
	bool eor = false;
	ssize_t n;

	if (in_place)
		return rar_recv(fd, buf, 0, 0, &eor, NULL) ?: eor ? 0 : -EBADMSG;
	n = rar_recv(fd, buf, way % 3 == 2 ? bytes / 2 : bytes + PAGE * (way % 3), 0, &eor, NULL);
	if (n > 0 && n < (ssize_t)bytes && !eor)
		n += rar_recv(fd, buf + n, bytes - n, 0, &eor, NULL);
	return n < 0 ? n : n == (ssize_t)bytes && eor ? 0 : -EMSGSIZE;
}

static int one_op(int fd, uint32_t rank, uint64_t id, uint64_t bytes)
{
	struct rar_data d = data_of(id, RAR_F32 + id % 4, bytes);
	uint64_t way = id / 4 + rank;	/* id % 4 chooses the type */
	char *buf = map(rar_bytes(&d) + 3 * PAGE);
	int err;

	rar_fill(&d, rank, 0, d.count, buf);
	err = send_some_way(fd, &d, buf, way);
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	err = recv_some_way(fd, &d, buf, way % 4 == 0, way);
	RAR_CHECK(!err, "recv: %s", strerrorname_np(-err));
	RAR_CHECK(rar_verify(&d, 0, d.count, buf) < 0, "%llu bytes: bits",
		  (unsigned long long)bytes);
	munmap(buf, rar_bytes(&d) + 3 * PAGE);
	return 0;
}

/* Tensors too short for steps up to many steps; most do not end with a step or block. */
static int bits(uint32_t rank, void *arg)
{
	uint64_t block = 270 << 10;
	int fd = open_rank(rank);
	uint64_t id = 0;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint64_t n = 1; n <= 8; n *= 2)
		for (uint64_t odd = 0; odd < 3; odd++, id++)
			RAR_CHECK(!one_op(fd, rank, id, (ring.size * block * n / 2 +
							 odd * 70001 * n) & ~7ull), "rank %u", rank);
	return 0;
}

/* ------------------------------------------------------------ while it goes round */

struct side {
	int fd;
	atomic_bool over;	/* the call has returned */
	char *buf;
	size_t len;
	char sums[PAGE];	/* the first page of the result */
	const struct rar_data *d;
	uint64_t before;	/* earlier operations */
	int err;
	bool seen;
};

/* Watch for sums in the user's memory while the operation is not complete. */
static void *watch_sums(void *arg)
{
	struct side *s = arg;
	struct rar_info info;

	while (!s->over && !s->seen) {
		if (!memcmp(s->buf, s->sums, PAGE))
			s->seen = !rar_info(s->fd, &info) && !s->over &&
				  info.ops_complete == s->before;
		usleep(200);
	}
	return NULL;
}

/* Measure how long a rank takes for an operation, copied or in place, us. */
static int timed(int fd, uint32_t rank, char *buf, bool copy, uint64_t *us)
{
	struct rar_data d = data_of(3, RAR_I32, LONG_BYTES / 4);
	struct rar_op op = rar_op_of(d.dtype, rar_bytes(&d), d.id);
	uint64_t start;
	int err;

	rar_fill(&d, rank, 0, d.count, buf);
	RAR_CHECK(!sync_ranks(), "meet");
	start = rar_now_us();
	err = rar_send(fd, buf, rar_bytes(&d), copy ? 0 : MSG_ZEROCOPY, &op);
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	err = recv_some_way(fd, &d, buf, !copy, 0);
	*us = rar_now_us() - start;
	RAR_CHECK(!err && rar_verify(&d, 0, d.count, buf) < 0, "bits");
	return 0;
}

static void *read_sums(void *arg)
{
	struct side *s = arg;

	s->err = recv_some_way(s->fd, s->d, s->buf, false, 0);
	s->over = true;
	return NULL;
}

/* recv() gives sums early, whether it is called before send() or after it. */
static int sums_early(int fd, uint32_t rank, char *buf, uint64_t id, bool recv_first)
{
	struct rar_data d = data_of(id, RAR_I32, LONG_BYTES);
	struct side side = { .fd = fd, .d = &d, .buf = map(rar_bytes(&d)), .before = id - 1 };
	pthread_t reader, watcher;

	rar_expect(&d, 0, PAGE / rar_element(d.dtype), side.sums);
	rar_fill(&d, rank, 0, d.count, buf);
	RAR_CHECK(!sync_ranks(), "meet");
	if (recv_first) {
		RAR_CHECK(!pthread_create(&reader, NULL, read_sums, &side), "thread");
		rar_sleep_ms(100);
	}
	RAR_CHECK(!pthread_create(&watcher, NULL, watch_sums, &side), "thread");
	RAR_CHECK(!send_long(fd, &d, buf), "send");
	if (recv_first)
		pthread_join(reader, NULL);
	else
		read_sums(&side);
	pthread_join(watcher, NULL);
	RAR_CHECK(!side.err && rar_verify(&d, 0, d.count, side.buf) < 0, "bits");
	RAR_CHECK(side.seen, "no sums before the operation was complete");
	munmap(side.buf, rar_bytes(&d));
	return 0;
}

static int out_early(uint32_t rank, void *arg)
{
	char *buf = map(LONG_BYTES);
	int fd = open_rank(rank);

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!sums_early(fd, rank, buf, 1, false), "recv() after send()");
	RAR_CHECK(!sums_early(fd, rank, buf, 2, true), "recv() before send()");
	for (int i = 0; i < 3; i++) {
		uint64_t in_place, copied;

		RAR_CHECK(!timed(fd, rank, buf, false, &in_place) &&
			  !timed(fd, rank, buf, true, &copied), "rank %u", rank);
		if (!rank)
			rar_log("%lu bytes, slow links: %llu us in place, %llu us copied",
				LONG_BYTES / 4, (unsigned long long)in_place,
				(unsigned long long)copied);
	}
	return 0;
}

/* ------------------------------------------------------------ memory that is gone */

/* Unmap the end of an operation's memory once the operation is posted. */
static void *take_away(void *arg)
{
	struct side *s = arg;
	struct rar_info info = {};

	while (!s->over && !info.ops_posted)
		rar_info(s->fd, &info);
	munmap(s->buf + s->len - TAIL, TAIL);
	return NULL;
}

static int named(int fd, uint32_t rank)
{
	struct rar_error e = {};
	char c[8];
	int err = rar_recv(fd, c, sizeof(c), 0, NULL, NULL);

	RAR_CHECK(err == -ECONNRESET, "%s", strerrorname_np(-err));
	RAR_CHECK(!rar_error(fd, &e) && e.err == ECONNRESET && e.reason == RAR_R_FAULT &&
		  e.rank == rank, "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	return 0;
}

/*
 * The end of rank 1's memory is unmapped. If send() has not copied it yet, send() fails and
 * all ranks are told.
 */
static int gone(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, LONG_BYTES);
	struct side side;
	pthread_t thread;
	int err;

	(void)arg;
	for (int i = 0; i < TRIES && !shared->hits; i++, ring.group += 1000) {
		RAR_CHECK(!sync_ranks(), "meet");
		side = (struct side){ .fd = open_rank(rank), .len = rar_bytes(&d),
				      .buf = map(rar_bytes(&d)) };
		RAR_CHECK(side.fd >= 0, "join");
		RAR_CHECK(!sync_ranks(), "meet");
		memset(side.buf, 1, side.len);
		if (rank == 1)
			RAR_CHECK(!pthread_create(&thread, NULL, take_away, &side), "thread");
		err = rar_send(side.fd, side.buf, side.len, 0, NULL);
		side.over = true;
		if (rank == 1) {
			pthread_join(thread, NULL);
			shared->hits += err == -EFAULT;
		}
		RAR_CHECK(!sync_ranks(), "meet");
		if (shared->hits)
			RAR_CHECK(!named(side.fd, 1), "rank %u", rank);
		RAR_CHECK(!sync_ranks(), "meet");
		close(side.fd);
		munmap(side.buf, side.len);
		RAR_CHECK(!sync_ranks(), "meet");
	}
	RAR_CHECK(shared->hits, "the memory was never gone in time");
	return one_op(open_rank(rank), rank, 3, 5000000);
}

/* ------------------------------------------------------------ memory that comes late */

static int uffd_open(char *buf, size_t len)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)buf, len }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return -1;
	return fd;
}

/* What happens while rank 1 waits for its memory. */
enum meanwhile { NOTHING, ONE_DIES, OVERDUE };

struct late {
	struct side side;
	int uffd;
	const char *data;	/* contents of the memory that comes late */
	enum meanwhile what;
	int err;
};

/* The chunks contributed so far go round until nothing more comes. */
static int goes_round(int fd)
{
	struct rar_info info = {};
	uint64_t was;

	do {
		was = info.bytes_rx;
		rar_sleep_ms(500);
		RAR_CHECK(!rar_info(fd, &info), "info");
	} while (!info.bytes_rx || info.bytes_rx > was);
	rar_log("stalled: %llu bytes came, %llu early",
		(unsigned long long)info.bytes_rx, (unsigned long long)info.early_bytes);
	RAR_CHECK(!info.ops_complete && info.bytes_rx > EARLY, "nothing went round");
	return 0;
}

/* The group ends without this rank. */
static int fails(int fd)
{
	struct rar_info info = {};

	for (int i = 0; i < 20000 && info.state != RAR_S_FAILED; i++, rar_sleep_ms(1))
		RAR_CHECK(!rar_info(fd, &info), "info");
	RAR_CHECK(info.state == RAR_S_FAILED, "state %u", info.state);
	return 0;
}

/* Take the end of the memory away once the operation is posted; give it back later. */
static void *come_late(void *arg)
{
	struct late *l = arg;
	struct side *s = &l->side;
	char *tail = s->buf + s->len - TAIL;
	struct uffdio_copy copy = {
		.dst = (uintptr_t)tail, .src = (uintptr_t)l->data, .len = TAIL,
	};
	struct pollfd pfd = { .fd = l->uffd, .events = POLLIN };
	struct rar_info info = {};
	struct uffd_msg msg;

	while (!s->over && !info.ops_posted)
		rar_info(s->fd, &info);
	madvise(tail, TAIL, MADV_DONTNEED);
	/* Only the kernel touches this memory. */
	while (!s->over && !s->seen)
		s->seen = poll(&pfd, 1, 1) == 1 && read(l->uffd, &msg, sizeof(msg)) == sizeof(msg);
	if (s->seen) {
		shared->hits = 1;
		l->err = l->what == NOTHING ? goes_round(s->fd) : fails(s->fd);
	}
	if (ioctl(l->uffd, UFFDIO_COPY, &copy) && !l->err)
		l->err = -errno;
	return NULL;
}

/* Check the error that the other ranks get. */
static int survivor(int fd, enum meanwhile what)
{
	struct rar_error e = {};
	char c[8];
	int err = rar_recv(fd, c, sizeof(c), 0, NULL, NULL);
	bool right;

	RAR_CHECK(!rar_error(fd, &e), "RAR_ERROR");
	if (what == OVERDUE)
		right = err == -ETIMEDOUT && e.reason == RAR_R_TIMEOUT && e.rank == 1;
	else
		right = err == -ECONNRESET && e.rank == 2;
	RAR_CHECK(right, "%s: reason %s rank %u", strerrorname_np(-err),
		  rar_reason_name(e.reason), e.rank);
	return 0;
}

static int send_late(uint32_t rank, struct late *l, const struct rar_data *d)
{
	struct side *s = &l->side;
	pthread_t thread;
	int err;

	if (rank == 1)
		RAR_CHECK(!pthread_create(&thread, NULL, come_late, l), "thread");
	err = send_long(s->fd, d, s->buf);
	s->over = true;
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	if (rank == 1) {
		pthread_join(thread, NULL);
		RAR_CHECK(!l->err, "%s", strerrorname_np(-l->err));
		shared->returned++;
	}
	return 0;
}

/* One try. If one dies it is rank 2; if the operation is overdue rank 0 sees that. */
static int try_late(uint32_t rank, struct late *l, const struct rar_data *d)
{
	int fd = l->side.fd, tries = shared->returned;
	uint32_t overdue_ms = 100;

	RAR_CHECK(!sync_ranks(), "meet");
	RAR_CHECK(!send_late(rank, l, d), "rank %u", rank);
	while (!shared->hits && shared->returned == tries)
		rar_sleep_ms(1);
	if (!shared->hits || l->what == NOTHING)
		return rar_collect(fd, d, rank) ? 1 : 0;
	if (!rank && l->what == OVERDUE)
		RAR_CHECK(!setsockopt(fd, SOL_RAR, RAR_OP_TIMEOUT, &overdue_ms,
				      sizeof(overdue_ms)), "RAR_OP_TIMEOUT");
	return rank == 2 && l->what == ONE_DIES ? 0 : survivor(fd, l->what);
}

static int comes_late(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, LONG_BYTES);
	size_t len = rar_bytes(&d);
	char *data = malloc(len);

	for (int i = 0; i < TRIES && !shared->hits; i++, ring.group += 1000) {
		struct late l = { .side = { .fd = open_rank(rank), .buf = map(len), .len = len },
				  .data = data + len - TAIL, .what = *(enum meanwhile *)arg };

		RAR_CHECK(l.side.fd >= 0, "join");
		rar_fill(&d, rank, 0, d.count, data);
		memcpy(l.side.buf, data, len);
		if (rank == 1) {
			l.uffd = uffd_open(l.side.buf + len - TAIL, TAIL);
			shared->uffd_missing = l.uffd < 0;
		}
		RAR_CHECK(!sync_ranks(), "meet");
		if (shared->uffd_missing)
			return 0;
		RAR_CHECK(!try_late(rank, &l, &d), "rank %u", rank);
		close(l.side.fd);
		RAR_CHECK(!sync_ranks(), "meet");
		if (rank == 1)
			close(l.uffd);
		munmap(l.side.buf, len);
	}
	RAR_CHECK(shared->hits, "the memory never came late");
	return 0;
}

/* ------------------------------------------------------------ all tests */

#define HERE	""	/* all ranks in one network namespace */

static const struct test {
	const char *name;
	uint32_t ranks;
	rar_rank_fn fn;
	const char *netem;
	enum meanwhile what;
} tests[] = {
	{ "bits, N=2", 2, bits, NULL, NOTHING },
	{ "bits, N=4", 4, bits, NULL, NOTHING },
	{ "bits, neighbours in memory", 4, bits, HERE, NOTHING },
	{ "bits, a bad link", 3, bits, "delay 1ms reorder 25% loss 1% duplicate 5%", NOTHING },
	{ "sums come before the operation is complete", 3, out_early, "rate 100mbit", NOTHING },
	{ "memory that is gone", 3, gone, NULL, NOTHING },
	{ "memory that comes late", 4, comes_late, NULL, NOTHING },
	{ "memory that comes late, and another rank dies", 3, comes_late, NULL, ONE_DIES },
	{ "memory that comes too late", 3, comes_late, NULL, OVERDUE },
};

static int set_netem(const struct test *t, bool on)
{
	char command[200];
	int err = 0;

	for (uint32_t r = 0; ring.netns && t->netem && r < t->ranks; r++) {
		snprintf(command, sizeof(command), "tc -n rar%u qdisc %s dev eth0 root %s%s", r,
			 on ? "replace" : "del", on ? "netem limit 10000 " : "",
			 on ? t->netem : "");
		err |= system(command);
	}
	return err;
}

static void run_one(const struct test *t, uint64_t group)
{
	uint64_t start = rar_now_us();
	int failed;

	ring.netns = t->netem && !*t->netem ? NULL : "rar";
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	if (set_netem(t, true)) {
		ksft_test_result_skip("%s: no netem\n", t->name);
		return;
	}
	ring.group = group;
	ring.size = t->ranks;
	memset(shared, 0, sizeof(*shared));
	failed = rar_run(t->ranks, ring.netns, 120, t->fn, (void *)&t->what);
	set_netem(t, false);
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
	if (shared->uffd_missing)
		ksft_test_result_skip("%s: no userfaultfd in this kernel\n", t->name);
	else
		ksft_test_result(!failed, "%s\n", t->name);
}

int main(void)
{
	rar_begin_private();
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		run_one(&tests[i], 100000 * (i + 1));
	ksft_finished();
}
