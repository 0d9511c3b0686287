// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that wait in poll, epoll and io_uring instead of in recv(). All
 * ranks on 127.0.0.1 of a namespace of their own.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "begin.h"

#define OPS	300
#define WAIT_MS	30000

static struct rar_ring ring = { .where = RAR_ON_LO4, .size = 3 };
static struct rar_barrier *barrier;

static struct rar_data op(uint64_t id)
{
	return (struct rar_data){ .id = id, .count = id * 31 % 2000,
				  .size = ring.size, .dtype = RAR_F32 };
}

static int open_nonblocking(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd >= 0)
		rar_nonblock(fd, true);
	return fd;
}

/* ------------------------------------------------------------ epoll */

struct progress {
	int fd;
	uint32_t rank;
	uint64_t posted, collected;
};

/* Posts until the kernel says EAGAIN or ENOBUFS. */
static int post_some(struct progress *p)
{
	struct rar_data d;
	int err = 0;

	while (p->posted < OPS && !err) {
		d = op(p->posted);
		err = rar_post(p->fd, &d, p->rank);
		p->posted += !err;
	}
	return err == -EAGAIN || err == -ENOBUFS ? 0 : err;
}

static int collect_some(struct progress *p)
{
	struct rar_data d;
	int err = 0;

	while (p->collected < p->posted && !err) {
		d = op(p->collected);
		err = rar_collect(p->fd, &d, p->rank);
		p->collected += !err;
	}
	return err == -EAGAIN ? 0 : err;
}

static int serve(struct progress *p, uint32_t events)
{
	int err = 0;

	if (events & EPOLLIN)
		err = collect_some(p);
	/* Reading has made room for operations, perhaps without another edge. */
	if (!err && events & (EPOLLIN | EPOLLOUT))
		err = post_some(p);
	if (!err && events & (EPOLLERR | EPOLLHUP))
		err = -EIO;
	return err;
}

static int epoll_loop(uint32_t rank, uint32_t mode)
{
	struct progress p = { .fd = open_nonblocking(rank), .rank = rank };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | mode };
	int ep = epoll_create1(EPOLL_CLOEXEC), n, err;

	RAR_CHECK(p.fd >= 0, "%s", strerror(-p.fd));
	RAR_CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &ev), "epoll_ctl");
	while (p.collected < OPS) {
		n = epoll_wait(ep, &ev, 1, WAIT_MS);
		RAR_CHECK(n == 1, "no event; posted %llu collected %llu",
			  (unsigned long long)p.posted,
			  (unsigned long long)p.collected);
		err = serve(&p, ev.events);
		RAR_CHECK(!err, "events %x: %s", ev.events, strerror(-err));
		/* After the last send, level-triggered EPOLLOUT would never stop. */
		if (!mode && p.posted == OPS) {
			ev.events = EPOLLIN;
			epoll_ctl(ep, EPOLL_CTL_MOD, p.fd, &ev);
		}
	}
	return 0;
}

static int epoll_level(uint32_t rank, void *arg)
{
	(void)arg;
	return epoll_loop(rank, 0);
}

static int epoll_edge(uint32_t rank, void *arg)
{
	(void)arg;
	return epoll_loop(rank, EPOLLET);
}

/* Many groups in one epoll set: each reports the end of its join and one result. */
#define GROUPS	10

static int epoll_groups(uint32_t rank, void *arg)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), fd[GROUPS], left = 2 * GROUPS;
	struct rar_ring r = ring;
	struct epoll_event ev;
	struct rar_data d;
	int err;

	(void)arg;
	for (int i = 0; i < GROUPS; i++, r.group += 1000) {
		fd[i] = rar_socket();
		RAR_CHECK(!rar_join_start(fd[i], &r, rank), "RAR_JOIN");
		ev = (struct epoll_event){ .events = EPOLLOUT, .data.u32 = i };
		epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &ev);
	}
	for (; left; left--) {
		RAR_CHECK(epoll_wait(ep, &ev, 1, WAIT_MS) == 1, "%d left", left);
		d = op(ev.data.u32 + 1);
		if (ev.events & EPOLLIN) {
			RAR_CHECK(!rar_collect(fd[ev.data.u32], &d, rank), "recv");
			ev.events = 0;
		} else {
			err = rar_post(fd[ev.data.u32], &d, rank);
			RAR_CHECK(!err, "events %x: %s", ev.events,
				  strerror(-err));
			ev.events = EPOLLIN;
		}
		epoll_ctl(ep, EPOLL_CTL_MOD, fd[ev.data.u32], &ev);
	}
	return 0;
}

/* poll() returns at a failure, with POLLIN, POLLERR and POLLHUP. */
static int failure_events(uint32_t rank, void *arg)
{
	struct rar_data d = op(1);
	int fd = rar_open(&ring, rank);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	RAR_CHECK(!rar_barrier(barrier, ring.size, 30), "meet");
	if (rank == 1) {
		rar_sleep_ms(100);
		return 0;
	}
	RAR_CHECK(!rar_post(fd, &d, rank), "send");
	RAR_CHECK(poll(&pfd, 1, WAIT_MS) == 1, "no event");
	RAR_CHECK(pfd.revents == (POLLIN | POLLERR | POLLHUP), "%x", pfd.revents);
	return 0;
}

/* ------------------------------------------------------------ io_uring */

/* Just enough of liburing: one request at a time. */
struct uring {
	int fd;
	struct io_uring_params p;
	char *rings;
	struct io_uring_sqe *sqe;
};

static int uring_open(struct uring *u)
{
	size_t size;

	memset(u, 0, sizeof(*u));
	u->fd = syscall(__NR_io_uring_setup, 4, &u->p);
	if (u->fd < 0)
		return -errno;
	size = u->p.cq_off.cqes + u->p.cq_entries * sizeof(struct io_uring_cqe);
	u->rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd,
			IORING_OFF_SQ_RING);
	u->sqe = mmap(NULL, u->p.sq_entries * sizeof(*u->sqe),
		      PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_SQES);
	return u->rings == MAP_FAILED || u->sqe == MAP_FAILED ? -ENOMEM : 0;
}

static uint32_t *uring_word(struct uring *u, uint32_t offset)
{
	return (uint32_t *)(u->rings + offset);
}

/* Submits a copy of *sqe and waits for its result. */
static int uring_do(struct uring *u, const struct io_uring_sqe *sqe)
{
	uint32_t *tail = uring_word(u, u->p.sq_off.tail);
	uint32_t *head = uring_word(u, u->p.cq_off.head);
	uint32_t at = *tail & *uring_word(u, u->p.sq_off.ring_mask);
	struct io_uring_cqe *cqe = (void *)(u->rings + u->p.cq_off.cqes);
	int res;

	u->sqe[at] = *sqe;
	uring_word(u, u->p.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(uring_word(u, u->p.cq_off.tail),
			       __ATOMIC_ACQUIRE) == *head)
		if (syscall(__NR_io_uring_enter, u->fd, *tail == *uring_word(u,
				u->p.sq_off.head) ? 0 : 1, 1,
				IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -errno;
	res = cqe[*head & *uring_word(u, u->p.cq_off.ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

static int uring_transfer(struct uring *u, int opcode, int fd, void *buf,
			  size_t len)
{
	struct io_uring_sqe sqe = {
		.opcode = opcode, .fd = fd, .addr = (uintptr_t)buf, .len = len,
	};

	return uring_do(u, &sqe);
}

static int uring_poll(struct uring *u, int fd, uint32_t events)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = fd, .poll32_events = events,
	};

	return uring_do(u, &sqe);
}

static int uring_ops(struct uring *u, int fd, uint32_t rank, bool poll_first)
{
	float buf[2000];
	struct rar_data d;
	int n;

	for (uint64_t id = 1; id < 60; id++) {
		d = op(id);
		rar_fill(&d, rank, 0, d.count, buf);
		n = uring_transfer(u, IORING_OP_SEND, fd, buf, rar_bytes(&d));
		RAR_CHECK(n == (int)rar_bytes(&d), "send: %d", n);
		if (poll_first) {
			n = uring_poll(u, fd, POLLIN);
			RAR_CHECK(n >= 0 && n & POLLIN, "poll: %d", n);
		}
		n = uring_transfer(u, IORING_OP_RECV, fd, buf, sizeof(buf));
		RAR_CHECK(n == (int)rar_bytes(&d), "recv: %d", n);
		RAR_CHECK(rar_verify(&d, 0, d.count, buf) < 0, "bits");
	}
	return 0;
}

static int uring_rank(uint32_t rank, bool poll_first)
{
	int fd = rar_open(&ring, rank), err;
	struct uring u;

	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	err = uring_open(&u);
	RAR_CHECK(!err, "%s", strerror(-err));
	return uring_ops(&u, fd, rank, poll_first);
}

static int uring_recv(uint32_t rank, void *arg)
{
	(void)arg;
	return uring_rank(rank, false);
}

static int uring_poll_recv(uint32_t rank, void *arg)
{
	(void)arg;
	return uring_rank(rank, true);
}

static const char *uring_missing(void)
{
	struct uring u;
	int err = uring_open(&u);

	if (err)
		return strerror(-err);
	close(u.fd);
	return NULL;
}

/* ------------------------------------------------------------ all */

static const struct {
	const char *name;
	rar_rank_fn fn;
	bool uring;
} tests[] = {
	{ "epoll, level-triggered", epoll_level, false },
	{ "epoll, edge-triggered", epoll_edge, false },
	{ "epoll, the joins and results of 10 groups", epoll_groups, false },
	{ "poll: POLLIN, POLLERR and POLLHUP on failure", failure_events, false },
	{ "io_uring, send and recv", uring_recv, true },
	{ "io_uring, poll before recv", uring_poll_recv, true },
};

int main(void)
{
	const char *why;

	rar_begin_private();
	barrier = rar_shared(sizeof(*barrier));
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		ring.group = i + 1;
		why = tests[i].uring ? uring_missing() : NULL;
		if (why)
			ksft_test_result_skip("%s: io_uring_setup: %s\n",
					      tests[i].name, why);
		else
			ksft_test_result(!rar_run(ring.size, NULL, 60,
						  tests[i].fn, NULL),
					 "%s\n", tests[i].name);
	}
	ksft_finished();
}
