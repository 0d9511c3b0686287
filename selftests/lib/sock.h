/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the socket's calls, sock_*.c. They test what every call does, and
 * that every misuse returns its documented errno. The functions misuse_* are the tables of
 * errors; a row is ROW(errno, "what", call).
 *
 * All members of a group live in one process, in a network namespace of its own, on
 * 127.0.0.1. RAR_JOIN does not block, and send() takes the data at once. So a second thread is
 * needed only where a call has to wait.
 */
#ifndef RAR_SOCK_H
#define RAR_SOCK_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"

#include "kselftest_harness.h"
#include "rar_util.h"

#define SYSCTL	"/proc/sys/net/rar/"
#define NOBODY	65534
#define MAX	4	/* members of the largest group in these tests */
#define ALL	(POLLIN | POLLOUT | POLLPRI)

#define ROW(want, what, call) do {					\
	int got_ = (errno = 0, (long)(call)) < 0 ? errno : 0;		\
	EXPECT_EQ(want, got_)						\
		TH_LOG("%s: %s, not %s", what, strerrorname_np(got_),	\
		       strerrorname_np(want));				\
} while (0)

/* ------------------------------------------------------------ helpers */

static inline struct rar_ring lo_ring(uint32_t size, uint64_t group)
{
	return (struct rar_ring){
		.group = group, .size = size, .where = RAR_ON_LO4,
	};
}

/* Joins a group of n members in this process: 0 or -errno. */
static inline int ring_up(int *fd, uint32_t n, uint64_t group)
{
	struct rar_ring ring = lo_ring(n, group);
	int err = 0;

	for (uint32_t r = 0; r < n && !err; r++) {
		fd[r] = rar_socket();
		err = fd[r] < 0 ? fd[r] : rar_join_start(fd[r], &ring, r);
	}
	for (uint32_t r = 0; r < n && !err; r++)
		err = rar_join_wait(fd[r], 8000);
	return err;
}

static inline void ring_down(int *fd, uint32_t n)
{
	for (uint32_t r = 0; r < n; r++)
		close(fd[r]);
}

static inline struct rar_data data_of(uint32_t size, uint64_t id, uint64_t count)
{
	return (struct rar_data){
		.id = id, .count = count, .size = size, .dtype = RAR_F32,
	};
}

static inline int post_all(const int *fd, const struct rar_data *d)
{
	int err = 0;

	for (uint32_t r = 0; r < d->size && !err; r++)
		err = rar_post(fd[r], d, r);
	return err;
}

static inline int collect_all(const int *fd, const struct rar_data *d)
{
	int err = 0;

	for (uint32_t r = 0; r < d->size && !err; r++)
		err = rar_collect(fd[r], d, r);
	return err;
}

/* Does a complete all-reduce, checked bit by bit: 0 or -errno. */
static inline int works(const int *fd, uint32_t n, uint64_t id)
{
	struct rar_data d = data_of(n, id, 1000);

	return post_all(fd, &d) ?: collect_all(fd, &d);
}

static inline int poll_now(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, timeout_ms) < 0 ? -errno : p.revents;
}

/* Waits until there is a result or an error; false after five seconds. */
static inline bool readable(int fd)
{
	return poll_now(fd, POLLIN, 5000) & POLLIN;
}

static inline bool failed(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 5000) == 1 && (p.revents & POLLERR);
}

static inline void ignore(int sig)
{
	(void)sig;
}

static int counter_of_signals;

static inline void count_signal(int sig)
{
	(void)sig;
	counter_of_signals++;
}

/* Runs fn in a child as the user nobody. Returns its value. */
static inline int as_nobody(int (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(255);
		_exit(fn(arg));
	}
	return rar_reap(pid, rar_now_us() + 10000000);
}

static inline int sysctl_read(const char *name, char *value, size_t len)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	n = read(fd, value, len - 1);
	close(fd);
	if (n < 0)
		return -errno;
	value[n] = 0;
	value[strcspn(value, "\n")] = 0;
	return 0;
}

static inline int sysctl_write(const char *name, const char *value)
{
	char path[96];

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	return rar_write(path, value);
}

/* getsockopt() of a SOL_RAR structure at full length: 0 or -errno. */
static inline int get(int fd, int option, void *value, socklen_t len)
{
	socklen_t got = len;

	if (getsockopt(fd, SOL_RAR, option, value, &got) < 0)
		return -errno;
	return got == len ? 0 : -EMSGSIZE;
}

static inline int set_u32(int fd, int option, uint32_t value)
{
	return setsockopt(fd, SOL_RAR, option, &value, sizeof(value));
}

/* The address of rank 0 of 2 in group 1 on 127.0.0.1, with some fields changed. */
#define ADDR(...) ((struct sockaddr *)&(struct sockaddr_rar){		\
	.srar_family = AF_RAR, .srar_af = AF_INET, .srar_rank = 0,	\
	.srar_size = 2, .srar_group = 1, .srar_addr = { 127, 0, 0, 1 },	\
	##__VA_ARGS__ })
#define LEN ((socklen_t)sizeof(struct sockaddr_rar))

static inline int bound_socket(void)
{
	int fd = rar_socket();

	if (fd >= 0 && bind(fd, ADDR(), LEN) < 0)
		return -errno;
	return fd;
}

/* sendmsg() with any control data. */
static inline ssize_t send_control(int fd, const void *buf, size_t len, int flags,
			    int level, int type, const void *data, size_t size)
{
	char control[CMSG_SPACE(256)]
		__attribute__((aligned(__alignof__(struct cmsghdr)))) = { 0 };
	struct iovec iov = { (void *)buf, len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = CMSG_SPACE(size),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(c), data, size);
	return sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
}

/* Runs the tests of a program. */
static inline int sock_main(int argc, char **argv)
{
	const char *why = rar_missing();

	rar_init();
	if (why)
		ksft_exit_skip("%s\n", why);
	return test_harness_run(argc, argv);
}

#endif /* RAR_SOCK_H */
