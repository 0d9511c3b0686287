// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the socket interface: what it does, and for every misuse the
 * documented errno.  The tables of errors are the functions misuse_*; a row is
 * ROW(errno, "what", call).
 *
 * All members of a group live in one process here, in a network namespace of
 * its own, on 127.0.0.1: RAR_JOIN does not block, and send() takes the data at
 * once, so no second thread is needed unless a call is to wait.
 */
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
#define MAX	4	/* members of the largest group here */

#define ROW(want, what, call) do {					\
	int got_ = (errno = 0, (long)(call)) < 0 ? errno : 0;		\
	EXPECT_EQ(want, got_)						\
		TH_LOG("%s: %s, not %s", what, strerrorname_np(got_),	\
		       strerrorname_np(want));				\
} while (0)

/* ------------------------------------------------------------ helpers */

static struct rar_ring lo_ring(uint32_t size, uint64_t group)
{
	return (struct rar_ring){
		.group = group, .size = size, .where = RAR_ON_LO4,
	};
}

/* A group of n members in this process: 0 or -errno. */
static int ring_up(int *fd, uint32_t n, uint64_t group)
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

static void ring_down(int *fd, uint32_t n)
{
	for (uint32_t r = 0; r < n; r++)
		close(fd[r]);
}

static struct rar_data data_of(uint32_t size, uint64_t id, uint64_t count)
{
	return (struct rar_data){
		.id = id, .count = count, .size = size, .dtype = RAR_F32,
	};
}

static int post_all(const int *fd, const struct rar_data *d)
{
	int err = 0;

	for (uint32_t r = 0; r < d->size && !err; r++)
		err = rar_post(fd[r], d, r);
	return err;
}

static int collect_all(const int *fd, const struct rar_data *d)
{
	int err = 0;

	for (uint32_t r = 0; r < d->size && !err; r++)
		err = rar_collect(fd[r], d, r);
	return err;
}

/* A complete all-reduce, checked bit by bit: 0 or -errno. */
static int works(const int *fd, uint32_t n, uint64_t id)
{
	struct rar_data d = data_of(n, id, 1000);

	return post_all(fd, &d) ?: collect_all(fd, &d);
}

static int poll_now(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, timeout_ms) < 0 ? -errno : p.revents;
}

/* Until a result or an error waits; false after five seconds. */
static bool readable(int fd)
{
	return poll_now(fd, POLLIN, 5000) & POLLIN;
}

static bool failed(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 5000) == 1 && (p.revents & POLLERR);
}

static void ignore(int sig)
{
	(void)sig;
}

static int counter_of_signals;

static void count_signal(int sig)
{
	(void)sig;
	counter_of_signals++;
}

/* Runs fn in a child as nobody; its value. */
static int as_nobody(int (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(255);
		_exit(fn(arg));
	}
	return rar_reap(pid, rar_now_us() + 10000000);
}

static int sysctl_read(const char *name, char *value, size_t len)
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

static int sysctl_write(const char *name, const char *value)
{
	char path[96];

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	return rar_write(path, value);
}

/* getsockopt of a level SOL_RAR structure at full length: 0 or -errno. */
static int get(int fd, int option, void *value, socklen_t len)
{
	socklen_t got = len;

	if (getsockopt(fd, SOL_RAR, option, value, &got) < 0)
		return -errno;
	return got == len ? 0 : -EMSGSIZE;
}

static int set_u32(int fd, int option, uint32_t value)
{
	return setsockopt(fd, SOL_RAR, option, &value, sizeof(value));
}

/* An address on 127.0.0.1 of rank 0 of 2 in group 1, changed. */
#define ADDR(...) ((struct sockaddr *)&(struct sockaddr_rar){		\
	.srar_family = AF_RAR, .srar_af = AF_INET, .srar_rank = 0,	\
	.srar_size = 2, .srar_group = 1, .srar_addr = { 127, 0, 0, 1 },	\
	##__VA_ARGS__ })
#define LEN ((socklen_t)sizeof(struct sockaddr_rar))

static int bound_socket(void)
{
	int fd = rar_socket();

	if (fd >= 0 && bind(fd, ADDR(), LEN) < 0)
		return -errno;
	return fd;
}

/* sendmsg with any control data */
static ssize_t send_control(int fd, const void *buf, size_t len, int flags,
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

/* ------------------------------------------------------------ socket() */

TEST(socket_types)
{
	int sv[2];

	ASSERT_EQ(0, rar_private_net());
	ROW(0, "seqpacket", socket(AF_RAR, SOCK_SEQPACKET, 0));
	ROW(ESOCKTNOSUPPORT, "stream", socket(AF_RAR, SOCK_STREAM, 0));
	ROW(ESOCKTNOSUPPORT, "dgram", socket(AF_RAR, SOCK_DGRAM, 0));
	ROW(ESOCKTNOSUPPORT, "raw", socket(AF_RAR, SOCK_RAW, 0));
	ROW(ESOCKTNOSUPPORT, "rdm", socket(AF_RAR, SOCK_RDM, 0));
	ROW(EPROTONOSUPPORT, "protocol 1", socket(AF_RAR, SOCK_SEQPACKET, 1));
	ROW(EINVAL, "type 99", socket(AF_RAR, 99, 0));
	ROW(EOPNOTSUPP, "socketpair",
	    socketpair(AF_RAR, SOCK_SEQPACKET, 0, sv));
}

/* ------------------------------------------------------------ unbound */

static void misuse_unbound(struct __test_metadata *_metadata, int fd)
{
	struct sockaddr_rar name;
	struct rar_caps caps;
	struct rar_peer peer;
	socklen_t len;
	char buf[64] = { 0 };

	ROW(EINVAL, "bind: no address", bind(fd, ADDR(), 0));
	ROW(EINVAL, "bind: only a family", bind(fd, ADDR(), 2));
	ROW(EINVAL, "bind: short", bind(fd, ADDR(), LEN - 1));
	ROW(EFAULT, "bind: bad pointer", bind(fd, (void *)8, LEN));
	ROW(EAFNOSUPPORT, "bind: family",
	    bind(fd, ADDR(.srar_family = AF_INET), LEN));
	ROW(EAFNOSUPPORT, "bind: no family",
	    bind(fd, ADDR(.srar_family = AF_UNSPEC), LEN));
	ROW(EINVAL, "bind: pad0", bind(fd, ADDR(.__srar_pad0 = 1), LEN));
	ROW(EINVAL, "bind: pad1", bind(fd, ADDR(.__srar_pad1 = 1), LEN));
	ROW(EINVAL, "bind: zero[0]", bind(fd, ADDR(.__srar_zero[0] = 1), LEN));
	ROW(EINVAL, "bind: zero[15]",
	    bind(fd, ADDR(.__srar_zero[15] = 1), LEN));
	ROW(EINVAL, "bind: rank = size", bind(fd, ADDR(.srar_rank = 2), LEN));
	ROW(EINVAL, "bind: rank -1", bind(fd, ADDR(.srar_rank = -1), LEN));
	ROW(EINVAL, "bind: size 0", bind(fd, ADDR(.srar_size = 0), LEN));
	ROW(EINVAL, "bind: size 4097", bind(fd, ADDR(.srar_size = 4097), LEN));
	ROW(EINVAL, "bind: af", bind(fd, ADDR(.srar_af = 99), LEN));
	ROW(EINVAL, "bind: IPv4 address of more than four bytes",
	    bind(fd, ADDR(.srar_addr = { 127, 0, 0, 1, 1 }), LEN));
	ROW(EINVAL, "bind: IPv4 with a scope",
	    bind(fd, ADDR(.srar_scope_id = 1), LEN));
	ROW(EINVAL, "bind: address without af", bind(fd, ADDR(.srar_af = 0), LEN));
	ROW(EADDRNOTAVAIL, "bind: not our address",
	    bind(fd, ADDR(.srar_addr = { 192, 0, 2, 1 }), LEN));
	ROW(EADDRNOTAVAIL, "bind: not our IPv6 address",
	    bind(fd, ADDR(.srar_af = AF_INET6,
			  .srar_addr = { 0x20, 1, 0xd, 0xb8, 1 }), LEN));

	ROW(EINVAL, "connect: unbound",
	    connect(fd, ADDR(.srar_rank = 1), LEN));
	ROW(ENOTCONN, "send: unbound", send(fd, buf, 8, MSG_NOSIGNAL));
	ROW(ENOTCONN, "recv: unbound", recv(fd, buf, 8, 0));
	ROW(ENOTCONN, "shutdown: unbound", shutdown(fd, SHUT_WR));
	ROW(EOPNOTSUPP, "listen", listen(fd, 1));
	ROW(EOPNOTSUPP, "accept", accept(fd, NULL, NULL));
	ROW(EOPNOTSUPP, "ioctl", ioctl(fd, FIONREAD, buf));
	ROW(ENODEV, "mmap", (long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	len = sizeof(name);
	ROW(ENOTCONN, "getsockname: unbound",
	    getsockname(fd, (void *)&name, &len));
	ROW(ENOTCONN, "getpeername: unbound",
	    getpeername(fd, (void *)&name, &len));
	len = sizeof(caps);
	ROW(ENOTCONN, "RAR_CAPS: unbound",
	    getsockopt(fd, SOL_RAR, RAR_CAPS, &caps, &len));
	len = sizeof(peer);
	ROW(ENOTCONN, "RAR_PEERS: unbound",
	    getsockopt(fd, SOL_RAR, RAR_PEERS, &peer, &len));
	ROW(ENOTCONN, "RAR_ABORT: unbound", set_u32(fd, RAR_ABORT, 0));
}

TEST(unbound)
{
	struct rar_info info;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	ASSERT_LE(0, fd);
	misuse_unbound(_metadata, fd);
	EXPECT_EQ(0, rar_info(fd, &info));
	EXPECT_EQ(RAR_S_UNBOUND, info.state);
	EXPECT_EQ(RAR_NO_RANK, info.slow_rank);
	/* nothing of all this may have bound it */
	EXPECT_EQ(0, bind(fd, ADDR(.srar_rank = 4095, .srar_size = 4096), LEN));
}

/* ------------------------------------------------------------ bind */

static int bind_as_nobody(void *group)
{
	int fd = rar_socket();
	struct sockaddr *a = ADDR(.srar_rank = 1,
				  .srar_group = *(uint64_t *)group);

	return bind(fd, a, LEN) < 0 ? errno : 0;
}

static int udp_socket(uint16_t port)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_port = htons(port),
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(fd, (void *)&sin, sizeof(sin)) < 0)
		return -errno;
	return fd;
}

TEST(bind_conflicts)
{
	uint64_t group = 1;
	int a, b, udp;

	ASSERT_EQ(0, rar_private_net());
	a = bound_socket();
	b = rar_socket();
	ASSERT_LE(0, a);
	ROW(EINVAL, "bind: bound already", bind(a, ADDR(.srar_group = 2), LEN));
	ROW(EADDRINUSE, "bind: rank taken", bind(b, ADDR(), LEN));
	ROW(EADDRINUSE, "bind: rank taken, other port",
	    bind(b, ADDR(.srar_port = htons(20000)), LEN));

	udp = udp_socket(20001);
	ASSERT_LE(0, udp);
	ROW(EADDRINUSE, "bind: UDP port taken",
	    bind(b, ADDR(.srar_rank = 1, .srar_port = htons(20001)), LEN));
	/* without an address the port is taken when the route is known */
	ROW(0, "bind: UDP port taken, no address yet",
	    bind(b, ADDR(.srar_rank = 1, .srar_port = htons(20001),
			 .srar_af = 0, .srar_addr = { 0 }), LEN));
	ROW(EADDRINUSE, "connect: UDP port taken", connect(b, ADDR(), LEN));
	close(b);
	close(udp);
	b = rar_socket();
	ROW(0, "bind: UDP port free again",
	    bind(b, ADDR(.srar_rank = 1, .srar_port = htons(20001)), LEN));
	EXPECT_EQ(-EADDRINUSE, udp_socket(20001)) TH_LOG("port not reserved");
	close(b);

	EXPECT_EQ(EACCES, as_nobody(bind_as_nobody, &group));
	group = 2;
	EXPECT_EQ(0, as_nobody(bind_as_nobody, &group));
	close(a);

	/* what close() frees is free at once */
	b = rar_socket();
	ROW(0, "bind: rank free again", bind(b, ADDR(), LEN));
	close(b);
	group = 1;
	EXPECT_EQ(0, as_nobody(bind_as_nobody, &group));
}

/* As a user without privileges, beside the member that holds the port: errno. */
static int bind_port_as_nobody(void *port)
{
	struct sockaddr *a = ADDR(.srar_group = 2, .srar_port = *(in_port_t *)port);

	return bind(rar_socket(), a, LEN) < 0 ? errno : 0;
}

/* The same where connect() takes the port, since bind() names no address. */
static int connect_port_as_nobody(void *port)
{
	struct sockaddr *self = ADDR(.srar_group = 2, .srar_port = *(in_port_t *)port,
				     .srar_af = 0, .srar_addr = { 0 });
	struct sockaddr *next = ADDR(.srar_group = 2, .srar_rank = 1);
	int fd = rar_socket();

	rar_nonblock(fd, true);
	if (bind(fd, self, LEN) < 0)
		return -1;
	return connect(fd, next, LEN) < 0 ? errno : 0;
}

TEST(bind_privileged)
{
	in_port_t port = htons(700);
	int root;

	ASSERT_EQ(0, rar_private_net());
	EXPECT_EQ(EACCES, as_nobody(bind_port_as_nobody, &port));
	root = rar_socket();
	ASSERT_EQ(0, bind(root, ADDR(.srar_port = port), LEN));
	EXPECT_EQ(EACCES, as_nobody(bind_port_as_nobody, &port))
		TH_LOG("a port that a member of root holds");
	EXPECT_EQ(EACCES, as_nobody(connect_port_as_nobody, &port))
		TH_LOG("the same by connect()");
	/* a namespace may have no such ports */
	ASSERT_EQ(0, rar_write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "700"));
	EXPECT_EQ(0, as_nobody(bind_port_as_nobody, &port));
	EXPECT_EQ(EINPROGRESS, as_nobody(connect_port_as_nobody, &port));
	close(root);
}

/* By the older name of net.rar.max_members, which still counts. */
TEST(bind_limit)
{
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("max_groups", "2"));
	for (int i = 0; i < 3; i++)
		fd[i] = rar_socket();
	ROW(0, "first", bind(fd[0], ADDR(.srar_group = 1), LEN));
	ROW(0, "second", bind(fd[1], ADDR(.srar_group = 2), LEN));
	ROW(ENOSPC, "third", bind(fd[2], ADDR(.srar_group = 3), LEN));
	close(fd[0]);
	ROW(0, "third, one closed", bind(fd[2], ADDR(.srar_group = 3), LEN));
}

/* Who has failed and binds again takes no other place than its own. */
TEST(bind_again_at_the_limit)
{
	struct rar_ring ring = lo_ring(2, 1);
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("max_members", "2"));
	for (int round = 0; round < 3; round++) {
		if (!round)
			ASSERT_EQ(0, ring_up(fd, 2, 1));
		for (int r = 0; r < 2 && round; r++)
			ASSERT_EQ(0, rar_join_start(fd[r], &ring, r)) TH_LOG("%d", round);
		for (int r = 0; r < 2 && round; r++)
			ASSERT_EQ(0, rar_join_wait(fd[r], 8000));
		EXPECT_EQ(0, works(fd, 2, 1));
		EXPECT_EQ(0, set_u32(fd[0], RAR_ABORT, 0));
		EXPECT_TRUE(failed(fd[1]));
		fd[2] = rar_socket();
		ROW(ENOSPC, "a third one", bind(fd[2], ADDR(.srar_group = 3), LEN));
		close(fd[2]);
	}
	close(fd[0]);
	fd[2] = rar_socket();
	ROW(0, "when one is closed", bind(fd[2], ADDR(.srar_group = 3), LEN));
}

/*
 * A rank that does not send keeps the credit of its predecessor closed. The two must hear
 * each other all the same, as often as a short dead_ms demands.
 */
TEST(closed_credit_is_no_silence)
{
	struct rar_data d = data_of(2, 1, 200000);
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("local", "0"));
	ASSERT_EQ(0, sysctl_write("early_bytes", "4096"));
	ASSERT_EQ(0, sysctl_write("dead_ms", "150"));
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	rar_sleep_ms(1500);
	EXPECT_EQ(0, poll_now(fd[0], 0, 0));
	EXPECT_EQ(0, poll_now(fd[1], 0, 0));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
	ring_down(fd, 2);
}

TEST(bind_ports)
{
	struct rar_ring ring = lo_ring(2, 5);
	struct rar_join join[2] = {};
	int fd[2];

	/* two members with different ports on one address */
	ASSERT_EQ(0, rar_private_net());
	rar_address(&ring, 0, &join[0].self);
	rar_address(&ring, 1, &join[0].next);
	join[0].self.srar_port = htons(20010);
	join[0].next.srar_port = htons(20011);
	join[1].self = join[0].next;
	join[1].next = join[0].self;
	for (int r = 0; r < 2; r++) {
		fd[r] = rar_socket();
		ASSERT_EQ(0, setsockopt(fd[r], SOL_RAR, RAR_JOIN, &join[r],
					sizeof(join[r])));
	}
	for (int r = 0; r < 2; r++) {
		ASSERT_EQ(0, rar_join_wait(fd[r], 8000));
	}
	EXPECT_EQ(0, works(fd, 2, 1));
}

/* ------------------------------------------------------------ connect */

static void misuse_bound(struct __test_metadata *_metadata, int fd)
{
	char buf[64] = { 0 };

	ROW(EINVAL, "connect: no address", connect(fd, ADDR(), 0));
	ROW(EINVAL, "connect: short", connect(fd, ADDR(), LEN - 1));
	ROW(EFAULT, "connect: bad pointer", connect(fd, (void *)8, LEN));
	ROW(EAFNOSUPPORT, "connect: family",
	    connect(fd, ADDR(.srar_family = AF_INET, .srar_rank = 1), LEN));
	ROW(EINVAL, "connect: to itself", connect(fd, ADDR(), LEN));
	ROW(EINVAL, "connect: rank beyond",
	    connect(fd, ADDR(.srar_rank = 2), LEN));
	ROW(EINVAL, "connect: other group",
	    connect(fd, ADDR(.srar_rank = 1, .srar_group = 2), LEN));
	ROW(EINVAL, "connect: other size",
	    connect(fd, ADDR(.srar_rank = 1, .srar_size = 3), LEN));
	ROW(EINVAL, "connect: pad",
	    connect(fd, ADDR(.srar_rank = 1, .__srar_pad1 = 1), LEN));
	ROW(EINVAL, "connect: af",
	    connect(fd, ADDR(.srar_rank = 1, .srar_af = 99), LEN));
	ROW(EDESTADDRREQ, "connect: any",
	    connect(fd, ADDR(.srar_rank = 1, .srar_addr = { 0 }), LEN));
	ROW(ENOTCONN, "send: bound", send(fd, buf, 8, MSG_NOSIGNAL));
	ROW(ENOTCONN, "recv: bound", recv(fd, buf, 8, 0));
	ROW(ENOTCONN, "recv: bound, MSG_DONTWAIT",
	    recv(fd, buf, 8, MSG_DONTWAIT));
	ROW(ENOTCONN, "shutdown: bound", shutdown(fd, SHUT_WR));
}

TEST(bound)
{
	struct rar_info info;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = bound_socket();
	ASSERT_LE(0, fd);
	misuse_bound(_metadata, fd);
	EXPECT_EQ(0, rar_info(fd, &info));
	EXPECT_EQ(RAR_S_BOUND, info.state);
	EXPECT_EQ(RAR_NO_RANK, info.slow_rank);
	EXPECT_EQ(0, info.epoch);
}

/* Not one host. Nothing is sent, so the socket may try again. */
TEST(connect_to_many)
{
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = bound_socket();
	ASSERT_LE(0, fd[0]);
	ASSERT_EQ(0, rar_nonblock(fd[0], true));
	ROW(EACCES, "connect: everybody",
	    connect(fd[0], ADDR(.srar_rank = 1,
				.srar_addr = { 255, 255, 255, 255 }), LEN));
	ROW(EACCES, "connect: a network's broadcast address",
	    connect(fd[0], ADDR(.srar_rank = 1,
				.srar_addr = { 127, 255, 255, 255 }), LEN));
	ROW(EACCES, "connect: multicast",
	    connect(fd[0], ADDR(.srar_rank = 1,
				.srar_addr = { 224, 0, 0, 1 }), LEN));
	fd[1] = rar_socket();
	ASSERT_EQ(0, bind(fd[1], ADDR(.srar_af = AF_INET6, .srar_group = 2,
				      .srar_addr = { [15] = 1 }), LEN));
	ASSERT_EQ(0, rar_nonblock(fd[1], true));
	ROW(EACCES, "connect: IPv6 multicast",
	    connect(fd[1], ADDR(.srar_af = AF_INET6, .srar_group = 2,
				.srar_rank = 1,
				.srar_addr = { 0xff, 5, [15] = 1 }), LEN));
	ROW(EACCES, "connect: IPv6 multicast of a link",
	    connect(fd[1], ADDR(.srar_af = AF_INET6, .srar_group = 2,
				.srar_rank = 1, .srar_scope_id = 1,
				.srar_addr = { 0xff, 2, [15] = 1 }), LEN));
	ROW(EINPROGRESS, "connect: a host",
	    connect(fd[0], ADDR(.srar_rank = 1), LEN));
}

TEST(connect_times_out_and_tries_again)
{
	struct rar_ring ring = lo_ring(2, 7);
	struct rar_error error;
	uint64_t t;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	ASSERT_EQ(0, rar_bind(fd[0], &ring, 0));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 300));
	t = rar_now_us();
	EXPECT_EQ(-ETIMEDOUT, rar_connect(fd[0], &ring, 0));
	t = rar_now_us() - t;
	EXPECT_LE(290000, t);
	EXPECT_GT(2500000, t);
	EXPECT_EQ(0, rar_error(fd[0], &error));
	EXPECT_EQ(ETIMEDOUT, error.err);
	EXPECT_EQ(RAR_R_JOIN_TIMEOUT, error.reason);

	ASSERT_EQ(0, sysctl_write("join_ms", "200"));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 0));
	t = rar_now_us();
	EXPECT_EQ(-ETIMEDOUT, rar_connect(fd[0], &ring, 0));
	EXPECT_GT(2500000, rar_now_us() - t) TH_LOG("join_ms does not count");

	/* 2^32 ms and a little more are not a little */
	ASSERT_EQ(0, sysctl_write("join_ms", "1500"));
	ASSERT_EQ(0, setsockopt(fd[0], SOL_SOCKET, SO_SNDTIMEO,
				&(struct timeval){ 4294968, 0 },
				sizeof(struct timeval)));
	t = rar_now_us();
	EXPECT_EQ(-ETIMEDOUT, rar_connect(fd[0], &ring, 0));
	EXPECT_LE(1400000, rar_now_us() - t);
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 0));

	/* the same socket joins once the other one comes */
	ASSERT_EQ(0, sysctl_write("join_ms", "8000"));
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_connect(fd[0], &ring, 0));
	EXPECT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(0, rar_error(fd[0], &error));
	EXPECT_EQ(0, error.err);
	EXPECT_EQ(0, works(fd, 2, 1));
}

TEST(connect_nonblocking)
{
	struct rar_ring ring = lo_ring(2, 7);
	struct sockaddr_rar name;
	socklen_t len;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	ASSERT_EQ(0, rar_nonblock(fd[0], true));
	ASSERT_EQ(0, rar_bind(fd[0], &ring, 0));
	EXPECT_EQ(-EINPROGRESS, rar_connect(fd[0], &ring, 0));
	EXPECT_EQ(-EALREADY, rar_connect(fd[0], &ring, 0));
	EXPECT_EQ(-EALREADY, rar_join_start(fd[0], &ring, 0));
	EXPECT_EQ(-ENOTCONN, rar_send(fd[0], &name, 64, 0, NULL));
	EXPECT_EQ(0, poll_now(fd[0], POLLIN | POLLOUT, 50));
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_join_wait(fd[0], 8000));
	EXPECT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(-EISCONN, rar_connect(fd[0], &ring, 0));
	EXPECT_EQ(-EISCONN, rar_connect(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_nonblock(fd[0], false));

	len = sizeof(name);
	EXPECT_EQ(0, getsockname(fd[0], (void *)&name, &len));
	EXPECT_EQ(LEN, len);
	EXPECT_EQ(0, name.srar_rank);
	EXPECT_EQ(2, name.srar_size);
	EXPECT_EQ(7, name.srar_group);
	EXPECT_EQ(AF_INET, name.srar_af);
	EXPECT_EQ(htonl(INADDR_LOOPBACK), *(uint32_t *)name.srar_addr);
	EXPECT_EQ(htons(RAR_DEFAULT_PORT), name.srar_port);
	len = 16;	/* a short buffer is told the whole length */
	EXPECT_EQ(0, getpeername(fd[0], (void *)&name, &len));
	EXPECT_EQ(LEN, len);
	len = sizeof(name);
	EXPECT_EQ(0, getpeername(fd[0], (void *)&name, &len));
	EXPECT_EQ(1, name.srar_rank);
	EXPECT_EQ(7, name.srar_group);
	EXPECT_EQ(0, works(fd, 2, 1));
}

/*
 * A join may be over before connect() looks: a tick of the timer comes in
 * between, and the next member, whose own join has failed, refuses at once.
 * Then connect() says so, or the caller takes a socket that is only bound for
 * one that is joined. Over the seconds some ticks find a connect() there.
 */
TEST(connect_nonblocking_that_failed)
{
	struct rar_ring odd = lo_ring(3, 7), ring = lo_ring(2, 7);
	uint64_t end, calls = 0, over = 0, joined = 0;
	int fd[2], err;

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[0], &odd, 0));
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(-EBADMSG, rar_join_wait(fd[1], 8000));
	close(fd[0]);
	for (end = rar_now_us() + 3000000; rar_now_us() < end; calls++) {
		fd[0] = rar_socket();
		ASSERT_EQ(0, rar_nonblock(fd[0], true));
		ASSERT_EQ(0, rar_bind(fd[0], &ring, 0));
		err = rar_connect(fd[0], &ring, 0);
		over += err == -EBADMSG;
		joined += !err;
		close(fd[0]);
	}
	rar_log("%llu calls, %llu were over", (unsigned long long)calls,
		(unsigned long long)over);
	EXPECT_EQ(0, joined);
}

TEST(connect_interrupted)
{
	struct itimerval soon = { .it_value.tv_usec = 100000 };
	struct sigaction sa = { .sa_handler = ignore };
	struct rar_ring ring = lo_ring(2, 7);
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	ASSERT_EQ(0, rar_bind(fd[0], &ring, 0));
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	EXPECT_EQ(-EINTR, rar_connect(fd[0], &ring, 0));
	/* as everywhere: the join goes on */
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_join_wait(fd[0], 8000));
	EXPECT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(0, works(fd, 2, 1));
}

/* The next member comes when the caller is asleep in connect() again, or still stopped. */
struct stopped {
	struct rar_ring ring;
	bool signal;
	bool limit;
};

static int connect_stopped(uint32_t rank, void *arg)
{
	struct stopped *s = arg;
	struct sigaction sa = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	int fd = rar_socket(), err = rar_bind(fd, &s->ring, rank);

	if (s->signal)
		sigaction(SIGUSR1, &sa, NULL);
	if (s->limit)
		err = err ?: rar_timeout(fd, SO_SNDTIMEO, 6000);
	err = err ?: rar_connect(fd, &s->ring, 0);
	RAR_CHECK(!err, "connect: %s", strerrorname_np(-err));
	RAR_CHECK(!s->signal || counter_of_signals, "no signal");
	err = rar_connect(fd, &s->ring, 0);
	RAR_CHECK(err == -EISCONN, "connect, once more: %s", strerrorname_np(-err));
	return 0;
}

/* A connect() that is stopped, or meets a handler, goes on: the join may end meanwhile. */
TEST(connect_restarted)
{
	struct stopped s = { .ring = lo_ring(2, 7) };
	pid_t pid;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	for (int round = 0; round < 4; round++) {
		s.ring.group = 7 + round;
		s.signal = round == 2;
		s.limit = round == 3;
		pid = rar_spawn(NULL, connect_stopped, 0, &s);
		rar_sleep_ms(150);
		ASSERT_EQ(0, kill(pid, s.signal ? SIGUSR1 : SIGSTOP));
		rar_sleep_ms(50);
		if (round)	/* else it ends while the caller is stopped */
			ASSERT_EQ(0, kill(pid, SIGCONT));
		fd = rar_socket();
		ASSERT_EQ(0, rar_join_start(fd, &s.ring, 1));
		EXPECT_EQ(0, rar_join_wait(fd, 8000));
		ASSERT_EQ(0, kill(pid, SIGCONT));
		EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000))
			TH_LOG("round %d", round);
		close(fd);
	}
}

/* Nor does it begin again if the join failed meanwhile. */
static int connect_fails(uint32_t rank, void *arg)
{
	int fd = rar_socket(), err = rar_bind(fd, arg, rank);
	uint64_t t = rar_now_us();

	err = err ?: rar_connect(fd, arg, rank);
	RAR_CHECK(err == -ETIMEDOUT, "connect: %s", strerrorname_np(-err));
	t = rar_now_us() - t;
	RAR_CHECK(t < 1300000, "connect: %llu us", (unsigned long long)t);
	t = rar_now_us();
	err = rar_connect(fd, arg, rank);
	RAR_CHECK(err == -ETIMEDOUT, "connect, once more: %s", strerrorname_np(-err));
	RAR_CHECK(rar_now_us() - t > 500000, "it did not join again");
	return 0;
}

TEST(connect_fails_while_stopped)
{
	struct rar_ring ring = lo_ring(2, 7);
	pid_t pid;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("join_ms", "700"));
	pid = rar_spawn(NULL, connect_fails, 0, &ring);
	rar_sleep_ms(150);
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	rar_sleep_ms(900);
	ASSERT_EQ(0, kill(pid, SIGCONT));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
}

/* A join that somebody else began: waiting for it has a limit of its own. */
TEST(connect_waits_for_another)
{
	struct itimerval soon = { .it_value.tv_usec = 100000 };
	struct sigaction sa = { .sa_handler = ignore };
	struct rar_ring ring = lo_ring(2, 7);
	uint64_t t;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[0], &ring, 0));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 300));
	t = rar_now_us();
	EXPECT_EQ(-EALREADY, rar_connect(fd[0], &ring, 0));
	t = rar_now_us() - t;
	EXPECT_LE(280000, t);
	EXPECT_GT(2500000, t);
	/* after a handler that does not restart calls, the next one tells the end */
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 0));
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	EXPECT_EQ(-EINTR, rar_connect(fd[0], &ring, 0));
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(0, rar_connect(fd[0], &ring, 0));
	EXPECT_EQ(-EISCONN, rar_connect(fd[0], &ring, 0));
}

static void misuse_join(struct __test_metadata *_metadata, int fd,
			const struct rar_join *good)
{
	struct rar_join join = *good;

	join.flags = 1;
	ROW(EINVAL, "flags", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join = *good;
	join.__host = 1;
	ROW(EINVAL, "host", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join = *good;
	join.__user_rank = 1;
	ROW(EINVAL, "user rank", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join = *good;
	join.timeout_ms = 1u << 31;
	ROW(EINVAL, "timeout", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join = *good;
	join.prev = good->self;
	join.prev.srar_group++;
	ROW(EINVAL, "prev of another group",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join.prev.srar_group--;
	join.prev.srar_family++;
	ROW(EAFNOSUPPORT, "prev of another family",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
}

/* RAR_PREV_ADDR and RAR_KEY, and when they may be set. */
TEST(join_prev_and_key)
{
	struct rar_ring ring = lo_ring(1, 13);
	struct rar_join join = {}, later[2] = {};
	struct sockaddr_rar prev;
	socklen_t len = sizeof(prev);
	char key[16] = "0123456789abcde";
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	rar_address(&ring, 0, &join.self);
	join.next = join.self;
	ROW(0, "prev", setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &join.self, 64));
	EXPECT_EQ(0, getsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &prev, &len));
	EXPECT_EQ(0, memcmp(&prev, &join.self, sizeof(prev)));
	ROW(EINVAL, "prev, short", setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &join.self, 63));
	ROW(0, "no prev", setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, NULL, 0));
	EXPECT_EQ(0, getsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &prev, &len));
	EXPECT_EQ(0, prev.srar_family);
	ROW(0, "key", setsockopt(fd, SOL_RAR, RAR_KEY, key, 16));
	ROW(EINVAL, "key, short", setsockopt(fd, SOL_RAR, RAR_KEY, key, 15));
	ROW(EFAULT, "key, nowhere", setsockopt(fd, SOL_RAR, RAR_KEY, (void *)8, 16));
	len = 16;
	ROW(ENOPROTOOPT, "no key is read", getsockopt(fd, SOL_RAR, RAR_KEY, key, &len));
	later[0] = join;
	ROW(0, "a longer struct", setsockopt(fd, SOL_RAR, RAR_JOIN, later, sizeof(later)));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	ROW(EISCONN, "key, late", setsockopt(fd, SOL_RAR, RAR_KEY, key, 16));
	ROW(EISCONN, "prev, late", setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &join.self, 64));
	close(fd);
	fd = rar_socket();
	ROW(0, "an earlier struct", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, 128));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	close(fd);
}

TEST(join_option)
{
	struct rar_ring ring = lo_ring(1, 9);
	struct rar_join join = {}, later[2] = {};
	struct pollfd p;
	int fd, err = -1;
	socklen_t len = sizeof(err);

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("join_ms", "300"));
	rar_address(&ring, 0, &join.self);
	join.next = join.self;
	later[0] = join;
	later[1].flags = 1;
	fd = rar_socket();
	ROW(EINVAL, "short", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, 127));
	ROW(EINVAL, "long", setsockopt(fd, SOL_RAR, RAR_JOIN, later, sizeof(later)));
	misuse_join(_metadata, fd, &join);
	ROW(EFAULT, "pointer",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, (void *)8, sizeof(join)));
	join.self.srar_rank = 1;
	ROW(EINVAL, "self",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join.self.srar_rank = 0;
	join.next.srar_group++;
	ROW(EINVAL, "next",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	join.next.srar_group--;
	/* a refused next address must not leave the socket bound */
	ROW(0, "N = 1", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	ROW(EISCONN, "again",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	EXPECT_EQ(0, works(&fd, 1, 1));
	close(fd);

	/* a failure shows in poll and SO_ERROR, once */
	ring = lo_ring(2, 10);
	fd = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd, &ring, 0));
	p = (struct pollfd){ .fd = fd, .events = POLLOUT };
	EXPECT_EQ(1, poll(&p, 1, 5000));
	EXPECT_EQ(POLLERR | POLLHUP, p.revents & (POLLERR | POLLHUP));
	EXPECT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	EXPECT_EQ(ETIMEDOUT, err);
}

/* Once more with another address: of what bind() bound it changes nothing. */
TEST(join_option_other_address)
{
	struct rar_ring ring = lo_ring(2, 10);
	struct rar_join join = {}, other;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("join_ms", "100"));
	fd = rar_socket();
	rar_address(&ring, 0, &join.self);
	rar_address(&ring, 1, &join.next);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&join.self, sizeof(join.self)));
	ASSERT_EQ(0, setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	EXPECT_EQ(-ETIMEDOUT, rar_join_wait(fd, 5000));
	other = join;
	other.self.srar_addr[3] = 2;
	ROW(EINVAL, "another address",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	other = join;
	other.self.srar_port = htons(20012);
	ROW(EINVAL, "another port",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	other = join;
	other.self.srar_af = 0;
	memset(other.self.srar_addr, 0, 16);
	ROW(EINVAL, "no address",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	other = join;
	other.self.srar_port = htons(RAR_DEFAULT_PORT);
	ROW(0, "the port that it has",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	EXPECT_EQ(-ETIMEDOUT, rar_join_wait(fd, 5000));
	ROW(0, "the same", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
}

/* A RAR_JOIN that fails leaves the socket as it was: any other one may follow. */
TEST(join_option_repeated)
{
	struct rar_ring ring = lo_ring(2, 11), odd;
	struct rar_join join = {}, other;
	struct sockaddr_rar name;
	socklen_t len = sizeof(name);
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("join_ms", "100"));
	fd = rar_socket();
	rar_address(&ring, 0, &join.self);
	rar_address(&ring, 1, &join.next);
	other = join;
	other.next.srar_addr[0] = 224;
	ROW(EACCES, "a multicast address",
	    setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	ROW(ENOTCONN, "no name", getsockname(fd, (struct sockaddr *)&name, &len));
	/* at once, and after it was tried for a while */
	odd = lo_ring(3, 12);
	rar_address(&odd, 2, &other.self);
	rar_address(&odd, 0, &other.next);
	ROW(0, "another group", setsockopt(fd, SOL_RAR, RAR_JOIN, &other, sizeof(other)));
	EXPECT_EQ(-ETIMEDOUT, rar_join_wait(fd, 5000));
	ROW(0, "and another", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	EXPECT_EQ(-ETIMEDOUT, rar_join_wait(fd, 5000));
	EXPECT_EQ(0, getsockname(fd, (struct sockaddr *)&name, &len));
	EXPECT_EQ(11, name.srar_group);
	close(fd);
}

/* ------------------------------------------------------------ send */

static void misuse_op(struct __test_metadata *_metadata, int fd)
{
	char buf[64] = { 0 };
	struct {
		struct rar_op op;
		uint64_t more;
	} big = { { .size = sizeof(big) }, 0 };
	const struct {
		int err;
		const char *what;
		struct rar_op op;
	} rows[] = {
		{ EINVAL, "size 0", { .size = 0 } },
		{ EINVAL, "size 39", { .size = 39 } },
		{ EINVAL, "size beyond the message", { .size = 48 } },
		{ EINVAL, "pad", { .size = 40, .__pad = 1 } },
		{ EINVAL, "flags", { .size = 40, .flags = 1 } },
		{ EINVAL, "flags", { .size = 40, .flags = 1u << 31 } },
		{ EINVAL, "root of an all-reduce", { .size = 40, .root = 1 } },
		{ EINVAL, "dst without MSG_ZEROCOPY",
		  { .size = 40, .dst = 4096 } },
		{ EINVAL, "bytes not those of the call",
		  { .size = 40, .bytes = 128 } },
		{ EINVAL, "collective 99", { .size = 40, .collective = 99 } },
		{ EINVAL, "dtype 99", { .size = 40, .dtype = 99 } },
		{ EINVAL, "redop 99", { .size = 40, .redop = 99 } },
		{ EOPNOTSUPP, "broadcast",
		  { .size = 40, .collective = RAR_BROADCAST } },
		{ EOPNOTSUPP, "barrier",
		  { .size = 40, .collective = RAR_BARRIER } },
		{ EOPNOTSUPP, "bitwise and of f32", { .size = 40, .redop = RAR_BAND } },
		{ EOPNOTSUPP, "logical or of bf16",
		  { .size = 40, .dtype = RAR_BF16, .redop = RAR_LOR } },
		{ EOPNOTSUPP, "avg", { .size = 40, .redop = RAR_AVG } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ROW(rows[i].err, rows[i].what,
		    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &rows[i].op,
				 sizeof(rows[i].op)));
	ROW(EINVAL, "RAR_OP cut off",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &big.op, 32));
	big.more = 1;
	ROW(EINVAL, "larger RAR_OP, something in it",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &big, sizeof(big)));
	ROW(EINVAL, "control message RAR_DONE",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_DONE, &big.op, 40));
	ROW(EINVAL, "control message 99",
	    send_control(fd, buf, 64, 0, SOL_RAR, 99, &big.op, 40));
}

static void misuse_send(struct __test_metadata *_metadata, int fd)
{
	struct iovec bad[2];
	struct msghdr msg = { .msg_iov = bad, .msg_iovlen = 2 };
	char buf[64] = { 0 };
	char *huge = mmap(NULL, RAR_MAX_CALL + 4096ul, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ASSERT_NE(MAP_FAILED, huge);
	bad[0] = (struct iovec){ buf, 32 };
	bad[1] = (struct iovec){ (void *)8, 32 };
	ROW(EINVAL, "1 byte of f32", send(fd, buf, 1, MSG_NOSIGNAL));
	ROW(EINVAL, "63 bytes of f32", send(fd, buf, 63, MSG_NOSIGNAL));
	ROW(EMSGSIZE, "more than 1 GiB",
	    send(fd, huge, RAR_MAX_CALL + 4ul, MSG_NOSIGNAL));
	ROW(EMSGSIZE, "more than net.rar.mem",
	    send(fd, huge, 8 << 20, MSG_NOSIGNAL));
	ROW(EFAULT, "bad pointer", send(fd, (void *)8, 64, MSG_NOSIGNAL));
	ROW(EFAULT, "second of two pointers bad",
	    sendmsg(fd, &msg, MSG_NOSIGNAL));
	ROW(EOPNOTSUPP, "MSG_OOB", send(fd, buf, 64, MSG_OOB | MSG_NOSIGNAL));
	ROW(EFAULT, "bad pointer, MSG_ZEROCOPY",
	    send(fd, (void *)8, 64, MSG_ZEROCOPY | MSG_NOSIGNAL));
	ROW(EINVAL, "an unknown flag",
	    send(fd, buf, 64, MSG_FASTOPEN | MSG_NOSIGNAL));
	ROW(EISCONN, "an address",
	    sendto(fd, buf, 64, MSG_NOSIGNAL, ADDR(), LEN));
	ROW(EINVAL, "MSG_MORE without bytes",
	    send(fd, buf, 64, MSG_MORE | MSG_NOSIGNAL));
	munmap(huge, RAR_MAX_CALL + 4096ul);
}

TEST(send_misuse)
{
	struct rar_info info;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("mem", "4194304"));
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	misuse_send(_metadata, fd[0]);
	misuse_op(_metadata, fd[0]);
	/* none of it left a trace */
	EXPECT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(0, info.ops_posted);
	EXPECT_EQ(0, works(fd, 2, 1));
}

TEST(send_accepts)
{
	char buf[64] = { 0 };
	struct {
		struct rar_op op;
		uint64_t more[4];
	} big = { { .size = sizeof(big), .cookie = 5 }, { 0 } };
	struct rar_done done;
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	bool eor;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	ROW(0, "larger RAR_OP, zeros",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &big, sizeof(big)));
	EXPECT_EQ(64, rar_recv(fd, buf, 64, 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(5, done.cookie);
	/* all fields spelled out */
	big.op = (struct rar_op){
		.size = 40, .collective = RAR_ALLREDUCE, .dtype = RAR_I64,
		.redop = RAR_SUM, .bytes = 64, .cookie = ~0ull,
	};
	ROW(0, "all fields",
	    send_control(fd, buf, 64, MSG_EOR, SOL_RAR, RAR_OP, &big.op, 40));
	EXPECT_EQ(64, rar_recv(fd, buf, 64, 0, &eor, &done));
	EXPECT_EQ(~0ull, done.cookie);
	EXPECT_EQ(1, done.op_seq);
	EXPECT_EQ(1, done.contributors);
	/* an element may straddle two pieces of an iovec */
	memcpy(buf, "abcdefgh", 8);
	iov[0] = (struct iovec){ buf, 3 };
	iov[1] = (struct iovec){ buf + 3, 0 };
	iov[2] = (struct iovec){ buf + 3, 5 };
	EXPECT_EQ(8, sendmsg(fd, &msg, 0));
	memset(buf, 0, 8);
	EXPECT_EQ(8, recv(fd, buf, 64, 0));
	EXPECT_EQ(0, memcmp(buf, "abcdefgh", 8));
	/* write() and read() are send and recv */
	EXPECT_EQ(8, write(fd, buf, 8));
	EXPECT_EQ(8, read(fd, buf, 8));
	/* an empty op too, but not through write(), which does not call us */
	EXPECT_EQ(0, send(fd, buf, 0, 0));
	EXPECT_EQ(0, rar_recv(fd, buf, 64, 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(4, done.op_seq);
}

TEST(send_more)
{
	struct rar_data d = data_of(2, 3, 3000);
	struct rar_op op = rar_op_of(RAR_F32, 12000, 3);
	struct rar_info info;
	char buf[12004];
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	rar_fill(&d, 0, 0, 3000, buf);
	EXPECT_EQ(0, rar_send(fd[0], buf, 4000, MSG_MORE, &op));
	/* cutting an element is allowed inside a record */
	EXPECT_EQ(0, rar_send(fd[0], buf + 4000, 5, MSG_MORE, NULL));
	/* too much, too little: refused, nothing taken */
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7996, 0, NULL));
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7994, 0, NULL));
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7996, MSG_MORE, NULL));
	EXPECT_EQ(-EFAULT, rar_send(fd[0], (void *)8, 7995, 0, NULL));
	EXPECT_EQ(0, rar_send(fd[0], buf + 4005, 7995, 0, NULL));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(1, info.ops_posted);

	/* an unfinished record: closing it is a departure, not an operation */
	EXPECT_EQ(0, rar_send(fd[0], buf, 4000, MSG_MORE, &op));
	close(fd[0]);
	EXPECT_TRUE(failed(fd[1]) || readable(fd[1]));
}

/* A record that was begun can be given up: copied, or in place. */
TEST(send_cancelled)
{
	struct rar_op op = rar_op_of(RAR_F32, 12000, 3);
	int64_t pinned = rar_pinned();
	struct rar_info info;
	char buf[8192];
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	for (int flags = 0; flags <= MSG_ZEROCOPY; flags += MSG_ZEROCOPY) {
		ROW(0, "begin", rar_send(fd[0], buf, 8000, MSG_MORE | flags, &op));
		ROW(EINVAL, "another", rar_send(fd[0], buf, 4004, 0, NULL));
		EXPECT_EQ(0, set_u32(fd[0], RAR_CANCEL, 0));
		EXPECT_TRUE(rar_unpinned(pinned));
		EXPECT_EQ(0, works(fd, 2, 5));
	}
	EXPECT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(2, info.ops_posted);
}

TEST(send_several)
{
	struct rar_data d[3];
	struct mmsghdr msg[3] = { 0 };
	struct iovec iov[3];
	char buf[3][400];
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	for (int i = 0; i < 3; i++) {
		d[i] = data_of(1, 10 + i, 100);
		rar_fill(&d[i], 0, 0, 100, buf[i]);
		iov[i] = (struct iovec){ buf[i], 400 };
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(3, sendmmsg(fd, msg, 3, 0)) TH_LOG("%m");
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(400, msg[i].msg_len);
		EXPECT_EQ(400, recv(fd, buf[0], 400, 0));
		EXPECT_EQ(-1, rar_verify(&d[i], 0, 100, buf[0]));
	}
}

/* Pages of a file, more than a pipe holds, become part of a record that was begun. */
TEST(send_spliced)
{
	struct rar_data d = data_of(1, 3, 75000);
	struct rar_op op = rar_op_of(RAR_F32, 300000, 3);
	struct rar_info info;
	char *buf = malloc(400000);
	int fd, file, pipes[2];
	off_t at;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	rar_fill(&d, 0, 0, 75000, buf);
	file = memfd_create("tensor", 0);
	ASSERT_EQ(400000, write(file, buf, 400000));

	at = 0;
	ROW(EINVAL, "sendfile, not announced", sendfile(fd, file, &at, 300000));
	ROW(EINVAL, "sendfile, not announced, two pages", sendfile(fd, file, &at, 8192));
	ROW(0, "begin", rar_send(fd, buf, 13, MSG_MORE, &op));
	at = 13;
	ASSERT_EQ(299987, sendfile(fd, file, &at, 299987)) TH_LOG("%m");
	EXPECT_EQ(0, rar_collect(fd, &d, 0));

	/* a message without data will do; more than the record is not taken */
	ROW(0, "announce", rar_send(fd, NULL, 0, MSG_MORE, &op));
	at = 0;
	ASSERT_GT(300000, sendfile(fd, file, &at, 400000));
	ROW(EAGAIN, "nothing is posted", recv(fd, buf, 4, MSG_DONTWAIT));
	EXPECT_EQ(300000 - at, sendfile(fd, file, &at, 300000 - at));
	EXPECT_EQ(0, rar_collect(fd, &d, 0));

	ASSERT_EQ(0, pipe(pipes));
	ROW(0, "announce", rar_send(fd, NULL, 0, MSG_MORE, &op));
	for (loff_t from = 0; from < 300000; from += 20000) {
		ASSERT_EQ(20000, splice(file, &from, pipes[1], NULL, 20000, 0));
		from -= 20000;
		ASSERT_EQ(20000, splice(pipes[0], NULL, fd, NULL, 20000, 0)) TH_LOG("%m");
	}
	EXPECT_EQ(0, rar_collect(fd, &d, 0));
	EXPECT_EQ(0, rar_info(fd, &info));
	EXPECT_EQ(3, info.ops_posted);
	free(buf);
}

/* ------------------------------------------------------------ recv */

TEST(recv_misuse)
{
	struct rar_data d = data_of(2, 1, 1000);
	char buf[64];
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ROW(EAGAIN, "nothing there", recv(fd[0], buf, 64, MSG_DONTWAIT));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ROW(EAGAIN, "not complete", recv(fd[0], buf, 64, MSG_DONTWAIT));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	ASSERT_TRUE(readable(fd[0]));
	ROW(EOPNOTSUPP, "MSG_OOB", recv(fd[0], buf, 64, MSG_OOB));
	ROW(EOPNOTSUPP, "MSG_PEEK", recv(fd[0], buf, 64, MSG_PEEK));
	ROW(EFAULT, "bad pointer", recv(fd[0], (void *)8, 64, 0));
	/* the result is still there */
	EXPECT_EQ(0, collect_all(fd, &d));
}

TEST(recv_pieces)
{
	struct rar_data d = data_of(2, 8, 100), empty = data_of(2, 9, 0);
	struct rar_done done;
	char buf[400];
	bool eor;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, post_all(fd, &d));
	ASSERT_EQ(0, post_all(fd, &empty));
	/* 0 bytes, 7 bytes, the exact rest: EOR and RAR_DONE with the last */
	EXPECT_EQ(0, rar_recv(fd[0], buf, 0, 0, &eor, &done));
	EXPECT_FALSE(eor);
	EXPECT_EQ(7, rar_recv(fd[0], buf, 7, 0, &eor, &done));
	EXPECT_FALSE(eor);
	EXPECT_EQ(0, done.size);
	EXPECT_EQ(393, rar_recv(fd[0], buf + 7, 393, 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(sizeof(done), done.size);
	EXPECT_EQ(0, done.status);
	EXPECT_EQ(2, done.contributors);
	EXPECT_EQ(8, done.cookie);
	EXPECT_EQ(0, done.op_seq);
	EXPECT_EQ(-1, rar_verify(&d, 0, 100, buf));
	/* the empty one is a record of its own */
	EXPECT_EQ(0, rar_recv(fd[0], buf, sizeof(buf), 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(9, done.cookie);
	EXPECT_EQ(1, done.op_seq);
	/* a recv never crosses an operation */
	EXPECT_EQ(0, rar_collect(fd[1], &d, 1));
	EXPECT_EQ(0, rar_collect(fd[1], &empty, 1));
	EXPECT_EQ(-EAGAIN, rar_recv(fd[0], buf, 4, MSG_DONTWAIT, NULL, NULL));
}

/* With RAR_NONEMPTY no result is 0 bytes: only the end of file is. */
TEST(recv_nonempty)
{
	struct rar_data d = data_of(2, 8, 100), empty = data_of(2, 9, 0);
	struct rar_done done;
	char buf[2][400];
	bool eor;

	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, set_u32(fd[0], RAR_NONEMPTY, 1));
	for (int r = 0; r < 2; r++) {
		rar_fill(&d, r, 0, 100, buf[r]);
		ASSERT_EQ(0, rar_send(fd[r], buf[r], 400, MSG_ZEROCOPY, NULL));
	}
	ASSERT_EQ(0, post_all(fd, &empty));
	ASSERT_EQ(0, post_all(fd, &d));
	for (int i = 0; i < 2; i++) {	/* in place, empty */
		EXPECT_EQ(0, rar_recv(fd[0], &eor, 0, 0, &eor, NULL));
		EXPECT_FALSE(eor);
		ROW(EFAULT, "pointer", recv(fd[0], (void *)8, 1, 0));
		done.op_seq = 99;
		EXPECT_EQ(1, rar_recv(fd[0], buf[1], 400, 0, &eor, &done));
		EXPECT_TRUE(eor);
		EXPECT_EQ(0, buf[1][0]);
		EXPECT_EQ(i, done.op_seq);
		if (!i)
			EXPECT_EQ(-1, rar_verify(&d, 0, 100, buf[0]));
	}
	EXPECT_EQ(0, rar_collect(fd[0], &d, 0));
	EXPECT_EQ(0, shutdown(fd[1], SHUT_WR));
	EXPECT_EQ(0, rar_recv(fd[1], buf[1], 1, 0, &eor, NULL));	/* as ever */
	EXPECT_TRUE(eor);
	EXPECT_EQ(0, rar_collect(fd[1], &empty, 1));
	EXPECT_EQ(0, rar_collect(fd[1], &d, 1));
	EXPECT_EQ(0, recv(fd[0], buf[0], 1, 0));	/* the end */
}

TEST(recv_without_control)
{
	struct rar_data d = data_of(1, 8, 16);
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	char buf[64], control[24];
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	ASSERT_EQ(0, rar_post(fd, &d, 0));
	ASSERT_EQ(0, rar_post(fd, &d, 0));
	iov = (struct iovec){ buf, 64 };
	EXPECT_EQ(64, recvmsg(fd, &msg, 0));
	EXPECT_EQ(MSG_EOR, msg.msg_flags & ~MSG_CMSG_CLOEXEC);
	/* too little room for RAR_DONE is said */
	msg.msg_control = control;
	msg.msg_controllen = sizeof(control);
	EXPECT_EQ(64, recvmsg(fd, &msg, 0));
	EXPECT_EQ(MSG_EOR | MSG_CTRUNC, msg.msg_flags & ~MSG_CMSG_CLOEXEC);
}

/* ------------------------------------------------------------ options */

static void misuse_options(struct __test_metadata *_metadata, int fd)
{
	uint32_t v[64] = { 0 };
	socklen_t len = 4;

	static const struct {
		int option;
		uint32_t value;
		int err;
	} sets[] = {
		{ RAR_DTYPE, 0, EINVAL }, { RAR_DTYPE, RAR_DTYPE_NR, EINVAL },
		{ RAR_DTYPE, -1, EINVAL }, { RAR_DTYPE, RAR_F64, 0 },
		/* known and not implemented: send() says so */
		{ RAR_DTYPE, RAR_U8, 0 }, { RAR_DTYPE, RAR_F32, 0 },
		{ RAR_REDOP, 0, EINVAL }, { RAR_REDOP, RAR_REDOP_NR, EINVAL },
		{ RAR_REDOP, RAR_PROD, 0 }, { RAR_REDOP, RAR_SUM, 0 },
		{ RAR_OP_TIMEOUT, 1000, 0 }, { RAR_OP_TIMEOUT, 0, 0 },
		{ RAR_ABORT, 1, EINVAL },
		{ RAR_ERROR, 0, ENOPROTOOPT }, { RAR_INFO, 0, ENOPROTOOPT },
		{ RAR_PEERS, 0, ENOPROTOOPT }, { RAR_CAPS, 0, ENOPROTOOPT },
		{ RAR_REG, 0, EINVAL }, { RAR_UNREG, 0, EINVAL }, { 0, 0, ENOPROTOOPT },
		{ RAR_SCHEDULE, RAR_SCHEDULE_NR, EINVAL }, { RAR_SCHEDULE, -1, EINVAL },
		{ RAR_SCHEDULE, RAR_BY_RANKS, EISCONN },
		{ RAR_SCHEDULE, RAR_BY_HOSTS, EISCONN },
		{ RAR_CANCEL, 1, EINVAL }, { RAR_CANCEL, 0, 0 },
		{ RAR_NONEMPTY, 2, EINVAL }, { RAR_NONEMPTY, 1, 0 }, { RAR_NONEMPTY, 0, 0 },
		{ RAR_PEERS_FROM, RAR_MAX_SIZE, EINVAL }, { RAR_PEERS_FROM, 0, 0 },
		{ 99, 0, ENOPROTOOPT }, { RAR_OP, 0, ENOPROTOOPT },
		{ RAR_DONE, 0, ENOPROTOOPT }, { -1, 0, ENOPROTOOPT },
	};
	static const int gets[] = { 0, RAR_JOIN, RAR_ABORT, RAR_REG, RAR_UNREG, RAR_CANCEL, 99, 32, 33 };
	static const int words[] = {
		RAR_DTYPE, RAR_REDOP, RAR_OP_TIMEOUT, RAR_OWNER, RAR_ABORT,
		RAR_SCHEDULE, RAR_CANCEL, RAR_NONEMPTY, RAR_PEERS_FROM,
	};
	char what[64];

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		snprintf(what, sizeof(what), "set option %d to %d",
			 sets[i].option, (int)sets[i].value);
		ROW(sets[i].err, what,
		    set_u32(fd, sets[i].option, sets[i].value));
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(what, sizeof(what), "option %d, length", words[i]);
		ROW(EINVAL, what, setsockopt(fd, SOL_RAR, words[i], v, 3));
		ROW(EINVAL, what, setsockopt(fd, SOL_RAR, words[i], v, 0));
		ROW(EFAULT, what,
		    setsockopt(fd, SOL_RAR, words[i], (void *)8, 4));
	}
	for (size_t i = 0; i < sizeof(gets) / sizeof(gets[0]); i++) {
		snprintf(what, sizeof(what), "get option %d", gets[i]);
		ROW(ENOPROTOOPT, what,
		    getsockopt(fd, SOL_RAR, gets[i], v, &len));
	}
	ROW(ENOPROTOOPT, "set at level 6", setsockopt(fd, 6, RAR_DTYPE, v, 4));
	ROW(ENOPROTOOPT, "get at level 6", getsockopt(fd, 6, RAR_DTYPE, v, &len));
	ROW(EFAULT, "get, value",
	    getsockopt(fd, SOL_RAR, RAR_DTYPE, (void *)8, &len));
	ROW(EFAULT, "get, length", getsockopt(fd, SOL_RAR, RAR_DTYPE, v, NULL));
	len = -1;
	ROW(EINVAL, "get, length -1",
	    getsockopt(fd, SOL_RAR, RAR_DTYPE, v, &len));
}

TEST(options)
{
	struct rar_data d;
	uint32_t v;
	int fd[2], pid;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	misuse_options(_metadata, fd[0]);

	EXPECT_EQ(0, get(fd[0], RAR_DTYPE, &v, 4));
	EXPECT_EQ(RAR_F32, v);
	EXPECT_EQ(0, get(fd[0], RAR_REDOP, &v, 4));
	EXPECT_EQ(RAR_SUM, v);
	EXPECT_EQ(0, get(fd[0], RAR_OP_TIMEOUT, &v, 4));
	EXPECT_EQ(0, v);
	EXPECT_EQ(0, get(fd[0], RAR_OWNER, &pid, 4));
	EXPECT_EQ(getpid(), pid);
	EXPECT_EQ(0, set_u32(fd[0], RAR_OP_TIMEOUT, 12345));
	EXPECT_EQ(0, get(fd[0], RAR_OP_TIMEOUT, &v, 4));
	EXPECT_EQ(12345, v);

	EXPECT_EQ(0, get(fd[0], RAR_SCHEDULE, &v, 4));
	EXPECT_EQ(RAR_BY_RANKS, v);

	/* the default type is what a bare send() uses */
	EXPECT_EQ(0, works(fd, 2, 1));
	ASSERT_EQ(0, set_u32(fd[0], RAR_REDOP, RAR_BXOR));
	EXPECT_EQ(-EOPNOTSUPP, rar_send(fd[0], &v, 4, 0, NULL));
	ASSERT_EQ(0, set_u32(fd[0], RAR_REDOP, RAR_AVG));
	EXPECT_EQ(-EOPNOTSUPP, rar_send(fd[0], &v, 4, 0, NULL));
	ASSERT_EQ(0, set_u32(fd[0], RAR_REDOP, RAR_SUM));
	d = (struct rar_data){ .id = 0, .count = 10, .size = 2, .dtype = RAR_I64 };
	for (int r = 0; r < 2; r++) {
		char buf[80];

		ASSERT_EQ(0, set_u32(fd[r], RAR_DTYPE, RAR_I64));
		rar_fill(&d, r, 0, 10, buf);
		EXPECT_EQ(-EINVAL, rar_send(fd[r], buf, 76, 0, NULL));
		EXPECT_EQ(0, rar_send(fd[r], buf, 80, 0, NULL));
	}
	EXPECT_EQ(0, collect_all(fd, &d));
}

TEST(options_of_sol_socket)
{
	struct rar_ring ring = lo_ring(2, 1);
	int one = 1, v = 0;
	socklen_t len = sizeof(v);
	int pair[2], fd;

	ASSERT_EQ(0, rar_private_net());
	for (int r = 0; r < 2; r++) {
		pair[r] = rar_socket();
		ASSERT_EQ(0, setsockopt(pair[r], SOL_SOCKET, SO_BINDTODEVICE,
					"lo", 3));
		ASSERT_EQ(0, setsockopt(pair[r], SOL_SOCKET, SO_PRIORITY, &one,
					4));
		ASSERT_EQ(0, setsockopt(pair[r], SOL_SOCKET, SO_MARK, &one, 4));
		ASSERT_EQ(0, rar_join_start(pair[r], &ring, r));
	}
	for (int r = 0; r < 2; r++) {
		ASSERT_EQ(0, rar_join_wait(pair[r], 8000));
	}
	EXPECT_EQ(0, works(pair, 2, 1));
	ring_down(pair, 2);
	ASSERT_EQ(0, ring_up(&fd, 1, 2));
	EXPECT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len));
	EXPECT_EQ(SOCK_SEQPACKET, v);
	EXPECT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &v, &len));
	EXPECT_EQ(AF_RAR, v);
	EXPECT_EQ(0, works(&fd, 1, 1));
}

/* ------------------------------------------------------------ asking */

TEST(info)
{
	struct rar_info info[3];
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("local", "0"));
	ASSERT_EQ(0, ring_up(fd, 3, 0x1122334455667788ull));
	ASSERT_EQ(0, works(fd, 3, 1));
	ASSERT_EQ(0, works(fd, 3, 2));
	for (uint32_t r = 0; r < 3; r++) {
		struct rar_info *i = &info[r];

		ASSERT_EQ(0, get(fd[r], RAR_INFO, i, sizeof(*i)));
		EXPECT_EQ(RAR_S_RUN, i->state);
		EXPECT_EQ(RAR_PATH_INGRESS, i->rx_path);
		EXPECT_EQ(r, i->rank);
		EXPECT_EQ(3, i->size);
		EXPECT_EQ(0x1122334455667788ull, i->group);
		EXPECT_NE(0, i->epoch);
		EXPECT_EQ(info[0].epoch, i->epoch);
		EXPECT_EQ(info[0].payload, i->payload);
		EXPECT_LT(1000, i->payload);
		EXPECT_EQ(0, i->payload % 16);
		EXPECT_GT(i->mtu, i->payload);
		EXPECT_GT(3, i->mtu_rank);
		EXPECT_LT(0, i->srtt_us);
		EXPECT_LT(0, i->rto_us);
		EXPECT_LT(0, i->window);
		EXPECT_EQ(2, i->ops_posted);
		EXPECT_EQ(2, i->ops_complete);
		EXPECT_GE(2, i->ops_released);
		/* one block of 4000 bytes, in one phase or both */
		EXPECT_LE(2 * 4000, i->bytes_tx);
		EXPECT_LE(2 * 4000, i->bytes_rx);
		EXPECT_GE(2 * 2 * 4000, i->bytes_rx);
		EXPECT_LE(2, i->packets_tx);
		EXPECT_LE(2, i->packets_rx);
		EXPECT_EQ(0, i->early_bytes);
		EXPECT_EQ(0, i->resume_op);
		EXPECT_GT(10000, i->prev_silent_ms);
		EXPECT_GT(10000, i->next_silent_ms);
		EXPECT_EQ(0, i->__pad);
	}
}

TEST(info_path_udp)
{
	struct rar_info info;
	int64_t encap;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("rx_path", "udp"));
	ASSERT_EQ(0, sysctl_write("local", "0"));
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	encap = rar_counter("RarRxEncap");
	EXPECT_EQ(0, works(fd, 2, 1));
	EXPECT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(RAR_PATH_UDP, info.rx_path);
	EXPECT_EQ(0, rar_counter("RarRxIngress"));
	EXPECT_LT(encap, rar_counter("RarRxEncap"));
}

TEST(peers)
{
	struct rar_peer peer[4], zero = { 0 };
	socklen_t len;
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 3, 1));
	for (int r = 0; r < 3; r++) {
		memset(peer, 0, sizeof(peer));
		len = sizeof(peer);
		ASSERT_EQ(0, getsockopt(fd[r], SOL_RAR, RAR_PEERS, peer, &len));
		EXPECT_EQ(3 * sizeof(peer[0]), len);
		EXPECT_EQ(0, memcmp(&peer[3], &zero, sizeof(zero)));
		for (uint32_t p = 0; p < 3; p++) {
			EXPECT_EQ(p, peer[p].rank);
			EXPECT_EQ(0, peer[p].__pad);
			EXPECT_EQ(AF_RAR, peer[p].addr.srar_family);
			EXPECT_EQ(p, peer[p].addr.srar_rank);
			EXPECT_EQ(3, peer[p].addr.srar_size);
			EXPECT_EQ(1, peer[p].addr.srar_group);
			EXPECT_EQ(AF_INET, peer[p].addr.srar_af);
			EXPECT_EQ(htons(RAR_DEFAULT_PORT),
				  peer[p].addr.srar_port);
			EXPECT_EQ(127, peer[p].addr.srar_addr[0]);
		}
	}
}

TEST(peers_from)
{
	struct rar_peer peer[3];
	socklen_t len;
	uint32_t v;
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 3, 1));
	for (uint32_t from = 0; from < 5; from++) {
		ASSERT_EQ(0, set_u32(fd[0], RAR_PEERS_FROM, from));
		EXPECT_EQ(0, get(fd[0], RAR_PEERS_FROM, &v, 4));
		EXPECT_EQ(from, v);
		len = 2 * sizeof(peer[0]);
		ASSERT_EQ(0, getsockopt(fd[0], SOL_RAR, RAR_PEERS, peer, &len));
		EXPECT_EQ((from > 2 ? 0 : from == 2 ? 1 : 2) * sizeof(peer[0]), len);
		for (uint32_t p = 0; p < len / sizeof(peer[0]); p++) {
			EXPECT_EQ(from + p, peer[p].rank);
			EXPECT_EQ(from + p, peer[p].addr.srar_rank);
		}
	}
}

TEST(caps)
{
	struct rar_caps caps, first;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, get(fd[0], RAR_CAPS, &first, sizeof(first)));
	ASSERT_EQ(0, get(fd[1], RAR_CAPS, &caps, sizeof(caps)));
	EXPECT_EQ(0, memcmp(&caps, &first, sizeof(caps)));
	EXPECT_EQ(1, caps.wire_version);
	EXPECT_EQ(1 << RAR_ALLREDUCE, caps.collectives);
	for (int i = 0; i < 16; i++) {
		/* Bits 1 to 12: all types; f32, f64, f16 and bf16 only as numbers. */
		uint32_t floats = 1 << RAR_F32 | 1 << RAR_F64 | 1 << RAR_F16 | 1 << RAR_BF16;
		uint32_t all = i < RAR_SUM || i > RAR_LXOR ? 0 : 0x1ffe;

		EXPECT_EQ(i <= RAR_MAX ? all : all & ~floats, caps.dtypes[i]);
	}
}

/* Short reads give a prefix, long ones the size the kernel knows. */
TEST(sized_structures)
{
	static const struct {
		const char *name;
		int option;
		socklen_t size;
	} rows[] = {
		{ "RAR_INFO", RAR_INFO, sizeof(struct rar_info) },
		{ "RAR_ERROR", RAR_ERROR, sizeof(struct rar_error) },
		{ "RAR_CAPS", RAR_CAPS, sizeof(struct rar_caps) },
	};
	static const socklen_t lengths[] = { 4, 13, 24, 100, 256 };
	unsigned char full[256], part[256];
	socklen_t len, want;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	for (int i = 0; i < 3; i++) {
		len = rows[i].size;
		ASSERT_EQ(0, getsockopt(fd, SOL_RAR, rows[i].option, full, &len));
		ASSERT_EQ(rows[i].size, len);
		for (len = 0; len < 4; len++) {
			ROW(EINVAL, rows[i].name,
			    getsockopt(fd, SOL_RAR, rows[i].option, part, &len));
		}
		for (int k = 0; k < 5; k++) {
			memset(part, 0xee, sizeof(part));
			len = lengths[k];
			want = len < rows[i].size ? len : rows[i].size;
			ASSERT_EQ(0, getsockopt(fd, SOL_RAR, rows[i].option,
						part, &len));
			EXPECT_EQ(want, len)
				TH_LOG("%s %u", rows[i].name, lengths[k]);
			/* 24 bytes hold no time or counter that moves */
			EXPECT_EQ(0, memcmp(part, full, want < 24 ? want : 24));
			for (size_t b = want; b < sizeof(part); b++) {
				ASSERT_EQ(0xee, part[b])
					TH_LOG("%s: byte %zu written",
					       rows[i].name, b);
			}
		}
	}
}

/* ------------------------------------------------------------ sysctl */

static const struct {
	const char *name, *low, *high, *good;
} sysctls[] = {
	{ "port", "0", "65536", "20000" },
	{ "rx_path", "", "tcp", "udp" },
	{ "window", "0", "-1", "1048576" },
	{ "mem", "0", "-1", "8388608" },
	{ "early_bytes", "-1", "99999999999", "1048576" },
	{ "copy_step", "-1", "1073741825", "65536" },
	{ "join_ms", "0", "-1", "5000" },
	{ "dead_ms", "0", "-1", "3000" },
	{ "linger_ms", "-1", "99999999999", "1000" },
	{ "max_members", "-1", "99999999999", "7" },
	{ "max_groups", "-1", "99999999999", "7" },
	{ "super_chunks", "0", "65", "64" },
	{ "local", "-1", "2", "0" },
	{ "lanes", "0", "9", "4" },
};

#define NSYSCTLS (sizeof(sysctls) / sizeof(sysctls[0]))

static int write_as_nobody(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < NSYSCTLS; i++)
		if (sysctl_write(sysctls[i].name, sysctls[i].good) != -EACCES)
			return i + 1;
	return 0;
}

TEST(sysctl_bounds)
{
	char before[64], after[64];

	ASSERT_EQ(0, rar_private_net());
	for (size_t i = 0; i < NSYSCTLS; i++) {
		const char *name = sysctls[i].name;

		ASSERT_EQ(0, sysctl_read(name, before, sizeof(before)))
			TH_LOG("%s", name);
		if (sysctls[i].low[0]) {
			EXPECT_EQ(-EINVAL, sysctl_write(name, sysctls[i].low))
				TH_LOG("%s = %s", name, sysctls[i].low);
		}
		EXPECT_EQ(-EINVAL, sysctl_write(name, sysctls[i].high))
			TH_LOG("%s = %s", name, sysctls[i].high);
		EXPECT_EQ(-EINVAL, sysctl_write(name, "rubbish"))
			TH_LOG("%s = rubbish", name);
		EXPECT_EQ(0, sysctl_read(name, after, sizeof(after)));
		EXPECT_STREQ(before, after) TH_LOG("%s", name);
		EXPECT_EQ(0, sysctl_write(name, sysctls[i].good))
			TH_LOG("%s = %s", name, sysctls[i].good);
		EXPECT_EQ(0, sysctl_read(name, after, sizeof(after)));
		EXPECT_STREQ(sysctls[i].good, after) TH_LOG("%s", name);
	}
	EXPECT_EQ(0, as_nobody(write_as_nobody, NULL));
	/* every namespace has its own */
	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_read("port", after, sizeof(after)));
	EXPECT_STREQ("18118", after);
	ASSERT_EQ(0, sysctl_read("rx_path", after, sizeof(after)));
	EXPECT_STREQ("ingress", after);
}

static int write_in_own_namespace(void *arg)
{
	(void)arg;
	prctl(PR_SET_DUMPABLE, 1);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return errno == EPERM || errno == ENOSPC ? 77 : errno;
	return -sysctl_write("window", "262144");
}

TEST(sysctl_user_namespace)
{
	int status = as_nobody(write_in_own_namespace, NULL);

	if (status == 77)
		SKIP(return, "user namespaces are closed to nobody here");
	EXPECT_EQ(0, status);
}

/* ------------------------------------------------------------ waiting */

#define ALL (POLLIN | POLLOUT | POLLPRI)

TEST(poll_states)
{
	struct rar_data d = data_of(2, 0, 16);
	struct rar_ring ring = lo_ring(2, 1);
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	fd[0] = rar_socket();
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_bind(fd[0], &ring, 0));
	EXPECT_EQ(0, poll_now(fd[0], ALL, 0) & (POLLIN | POLLOUT));
	close(fd[0]);
	fd[0] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[0], &ring, 0));
	EXPECT_EQ(0, poll_now(fd[0], ALL, 20));
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	ASSERT_EQ(0, rar_join_wait(fd[0], 8000));
	ASSERT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(POLLOUT, poll_now(fd[0], ALL, 0));
	/* full: 64 posted here, none there */
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		EXPECT_EQ(POLLOUT, poll_now(fd[0], ALL, 0));
		ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	}
	EXPECT_EQ(0, poll_now(fd[0], ALL, 20));
	/* a result waits, the table is still full */
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	}
	ASSERT_EQ(POLLIN, poll_now(fd[0], POLLIN, 5000));
	EXPECT_EQ(POLLIN, poll_now(fd[0], ALL, 0));
	d.id = 0;
	ASSERT_EQ(0, rar_collect(fd[0], &d, 0));
	EXPECT_EQ(POLLOUT, poll_now(fd[0], POLLOUT, 5000));
	/* an unfinished result keeps POLLIN */
	ASSERT_EQ(4, recv(fd[0], &(uint32_t){ 0 }, 4, 0));
	EXPECT_NE(0, poll_now(fd[0], POLLIN, 0) & POLLIN);
	close(fd[1]);
}

TEST(poll_failure)
{
	struct rar_data d = data_of(2, 0, 16);
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	close(fd[1]);
	ASSERT_TRUE(failed(fd[0]));
	EXPECT_EQ(POLLERR | POLLHUP | POLLIN,
		  poll_now(fd[0], ALL, 0) & ~POLLOUT);
}

#define LONG_OP 600000		/* two are more than net.rar.mem in these tests */

static int two_groups(int *a, int *b, const char *mem)
{
	return rar_private_net() ?: sysctl_write("mem", mem) ?: ring_up(a, 1, 1) ?:
	       ring_up(b, 1, 2);
}

/* Another one gives memory back, after a while, or there is more. */
static int give_memory(uint32_t bytes, void *arg)
{
	char *buf = malloc(bytes + 1);

	rar_sleep_ms(200);
	if (!bytes)
		return sysctl_write("mem", "2000000");
	return recv(*(int *)arg, buf, bytes, 0) != (ssize_t)bytes;
}

/* What others have of net.rar.mem poll() knows once send() has met it. */
TEST(poll_memory)
{
	char *buf = calloc(1, LONG_OP);
	pid_t pid;
	int a, b;

	ASSERT_EQ(0, two_groups(&a, &b, "1000000"));
	ASSERT_EQ(LONG_OP, send(a, buf, LONG_OP, 0));
	EXPECT_EQ(POLLOUT, poll_now(b, POLLOUT, 0));
	ASSERT_EQ(-1, send(b, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_now(b, POLLOUT, 20));
	/* there is memory for shorter ones, and then they count */
	ASSERT_EQ(4000, send(b, buf, 4000, MSG_DONTWAIT));
	EXPECT_EQ(POLLOUT, poll_now(b, POLLOUT, 0));
	EXPECT_EQ(4000, recv(b, buf, 4000, 0));
	ASSERT_EQ(-1, send(b, buf, LONG_OP, MSG_DONTWAIT));
	pid = rar_spawn(NULL, give_memory, LONG_OP, &a);
	EXPECT_EQ(POLLOUT, poll_now(b, POLLOUT, 5000));
	EXPECT_EQ(LONG_OP, send(b, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	/* what is too long is refused, not waited for */
	ASSERT_EQ(-1, send(a, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_now(a, POLLOUT, 0));
	ASSERT_EQ(0, sysctl_write("mem", "500000"));
	EXPECT_EQ(POLLOUT, poll_now(a, POLLOUT, 0));
	EXPECT_EQ(-1, send(a, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(EMSGSIZE, errno);
}

/* Nobody polls between send() and the wait: the one that is edge triggered. */
TEST(epoll_memory)
{
	struct epoll_event ev = { .events = EPOLLOUT | EPOLLET };
	char *buf = calloc(1, LONG_OP);
	int a, b, ep = epoll_create1(0);
	pid_t pid;

	ASSERT_EQ(0, two_groups(&a, &b, "1000000"));
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 1000));
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	for (uint32_t bytes = LONG_OP;; bytes = 0) {
		ASSERT_EQ(LONG_OP, send(a, buf, LONG_OP, 0));
		while (epoll_wait(ep, &ev, 1, 0))
			;
		ASSERT_EQ(-1, send(b, buf, LONG_OP, MSG_DONTWAIT));
		pid = rar_spawn(NULL, give_memory, bytes, &a);
		EXPECT_EQ(1, epoll_wait(ep, &ev, 1, 5000)) TH_LOG("%u bytes", bytes);
		EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
		EXPECT_EQ(LONG_OP, send(b, buf, LONG_OP, MSG_DONTWAIT));
		if (!bytes)
			break;
		EXPECT_EQ(LONG_OP, recv(b, buf, LONG_OP, 0));
	}
}

/* A send() that waits is woken too, and not by its timeout. */
TEST(send_waits_for_memory)
{
	char *buf = calloc(1, LONG_OP);
	uint64_t begin;
	pid_t pid;
	int a, b;

	ASSERT_EQ(0, two_groups(&a, &b, "1000000"));
	ASSERT_EQ(LONG_OP, send(a, buf, LONG_OP, 0));
	ASSERT_EQ(0, rar_timeout(b, SO_SNDTIMEO, 300));
	begin = rar_now_us();
	EXPECT_EQ(-1, send(b, buf, LONG_OP, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_LT(250000, rar_now_us() - begin);
	ASSERT_EQ(0, rar_timeout(b, SO_SNDTIMEO, 8000));
	pid = rar_spawn(NULL, give_memory, LONG_OP, &a);
	EXPECT_EQ(LONG_OP, send(b, buf, LONG_OP, 0));
	EXPECT_GT(5000000, rar_now_us() - begin);
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 8000000));
}

/* The second operation of a group has half of it, until the first one is over. */
TEST(poll_memory_behind_another)
{
	struct rar_data d = data_of(2, 0, 75000);	/* 300 kB */
	char *buf = calloc(1, LONG_OP);
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("mem", "1000000"));
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(-1, send(fd[0], buf, 400000, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_now(fd[0], POLLOUT, 20));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(POLLOUT, poll_now(fd[0], POLLOUT, 5000));
	EXPECT_EQ(400000, send(fd[0], buf, 400000, MSG_DONTWAIT));
}

/* Nor does an empty one wait for memory when the limit came down below what is used. */
TEST(empty_needs_no_memory)
{
	struct rar_data d = data_of(2, 0, 75000);	/* 300 kB */
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(0, sysctl_write("mem", "200000"));
	EXPECT_EQ(0, send(fd[0], "", 0, MSG_DONTWAIT));
	EXPECT_EQ(0, send(fd[0], "", 0, 0));
}

/* A waiter is woken: a result, room, failure. */
static int wait_and_act(uint32_t what, void *arg)
{
	int *fd = arg;
	struct rar_data d = data_of(2, 0, 16);

	rar_sleep_ms(100);
	if (what == 2)
		return set_u32(fd[1], RAR_ABORT, 0);
	return rar_post(fd[1], &d, 1);
}

TEST(epoll_wakes)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET }, got;
	struct rar_data d = data_of(2, 0, 16);
	int fd[2], ep = epoll_create1(0);
	pid_t pid;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, fd[0], &ev));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, 0));
	pid = rar_spawn(NULL, wait_and_act, 1, fd);
	EXPECT_EQ(1, epoll_wait(ep, &got, 1, 5000));
	EXPECT_EQ(EPOLLIN, got.events);
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	EXPECT_EQ(0, collect_all(fd, &d));
	/* the same for a sleeping recv, and for one that fails */
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	pid = rar_spawn(NULL, wait_and_act, 1, fd);
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	pid = rar_spawn(NULL, wait_and_act, 2, fd);
	EXPECT_EQ(-ECONNRESET, rar_collect(fd[0], &d, 0));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
}

TEST(receive_timeout)
{
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	struct sigaction sa = { .sa_handler = ignore };
	struct rar_data d = data_of(2, 1, 500);
	char buf[64];
	uint64_t t;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_RCVTIMEO, 100));
	t = rar_now_us();
	ROW(EAGAIN, "no operation", recv(fd[0], buf, 64, 0));
	EXPECT_LE(95000, rar_now_us() - t);
	EXPECT_GT(2000000, rar_now_us() - t);
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	t = rar_now_us();
	ROW(EAGAIN, "operation not complete", recv(fd[0], buf, 64, 0));
	EXPECT_LE(95000, rar_now_us() - t);
	ROW(EAGAIN, "MSG_DONTWAIT", recv(fd[0], buf, 64, MSG_DONTWAIT));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_RCVTIMEO, 0));
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	ROW(EINTR, "a signal", recv(fd[0], buf, 64, 0));
	/* none of it cancelled anything */
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
}

TEST(send_table_full)
{
	struct rar_data d = data_of(2, 0, 16);
	uint64_t t;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	}
	ROW(EAGAIN, "65th, MSG_DONTWAIT",
	    send(fd[0], &t, 8, MSG_DONTWAIT | MSG_NOSIGNAL));
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 100));
	t = rar_now_us();
	ROW(EAGAIN, "65th, SO_SNDTIMEO", send(fd[0], &t, 8, MSG_NOSIGNAL));
	EXPECT_LE(95000, rar_now_us() - t);
	EXPECT_GT(2000000, rar_now_us() - t);
	/* complete and unread: waiting would be for ever */
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	}
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 5000));
	for (int i = 0; i < 100; i++) {
		struct rar_info info;

		ASSERT_EQ(0, rar_info(fd[0], &info));
		if (info.ops_complete == RAR_MAX_OPS)
			break;
		rar_sleep_ms(20);
	}
	t = rar_now_us();
	ROW(ENOBUFS, "65th, 64 unread", send(fd[0], &t, 8, MSG_NOSIGNAL));
	ROW(ENOBUFS, "65th, 64 unread, MSG_DONTWAIT",
	    send(fd[0], &t, 8, MSG_NOSIGNAL | MSG_DONTWAIT));
	EXPECT_GT(2000000, rar_now_us() - t);
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		ASSERT_EQ(0, collect_all(fd, &d));
	}
	EXPECT_EQ(0, works(fd, 2, 65));
}

/* A send that waits for room goes on when a result is taken. */
static int take_one(uint32_t rank, void *arg)
{
	int *fd = arg;
	struct rar_data d = data_of(2, 0, 16);

	(void)rank;
	rar_sleep_ms(100);
	/* not the last one: if all were complete waiting would be for ever */
	for (d.id = 0; d.id < RAR_MAX_OPS - 1; d.id++)
		if (rar_post(fd[1], &d, 1))
			return 1;
	d.id = 0;
	return rar_collect(fd[0], &d, 0) != 0;
}

TEST(send_waits_for_room)
{
	struct rar_data d = data_of(2, 0, 16);
	pid_t pid;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	}
	pid = rar_spawn(NULL, take_one, 0, fd);
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 8000));
	EXPECT_EQ(0, rar_post(fd[0], &d, 0));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 8000000));
	EXPECT_EQ(0, rar_collect(fd[1], &(struct rar_data){ .count = 16,
				.size = 2, .dtype = RAR_F32 }, 1));
}

/*
 * A rank that is late has no room for what comes early: it refuses full-size
 * packets, again and again, and takes the small ones. That is no fault of the
 * path, and not the end of the group.
 */
TEST(late_with_little_memory)
{
	struct rar_data d = data_of(2, 0, 10000);
	struct rar_error error;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("mem", "100000"));
	ASSERT_EQ(0, sysctl_write("super_chunks", "1"));
	ASSERT_EQ(0, sysctl_write("local", "0"));
	ASSERT_EQ(0, sysctl_write("dead_ms", "2000"));
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	rar_sleep_ms(3000);
	EXPECT_LT(2, rar_counter("RarDropEarlyFull"));
	EXPECT_EQ(0, rar_error(fd[0], &error));
	EXPECT_EQ(0, error.err)
		TH_LOG("%s", rar_reason_name(error.reason));
	EXPECT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
}

/* ------------------------------------------------------------ leaving */

static void misuse_shut(struct __test_metadata *_metadata, int fd)
{
	struct sigaction sa = { .sa_handler = count_signal };
	char buf[64] = { 0 };

	sigaction(SIGPIPE, &sa, NULL);
	counter_of_signals = 0;
	ROW(EPIPE, "send, MSG_NOSIGNAL", send(fd, buf, 64, MSG_NOSIGNAL));
	EXPECT_EQ(0, counter_of_signals);
	ROW(EPIPE, "send", send(fd, buf, 64, 0));
	EXPECT_EQ(1, counter_of_signals) TH_LOG("no SIGPIPE");
	ROW(EPIPE, "an empty one", send(fd, buf, 0, MSG_NOSIGNAL));
	ROW(0, "shutdown again", shutdown(fd, SHUT_WR));
}

TEST(shutdown_write)
{
	struct rar_data d = data_of(2, 1, 500);
	struct rar_error error;
	char buf[64];
	bool eor = true;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ROW(EOPNOTSUPP, "SHUT_RD", shutdown(fd[0], SHUT_RD));
	ROW(EOPNOTSUPP, "SHUT_RDWR", shutdown(fd[0], SHUT_RDWR));
	ROW(EINVAL, "how 3", shutdown(fd[0], 3));
	ASSERT_EQ(0, works(fd, 2, 0));

	/* what is posted still gets its result, then comes the end */
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(0, shutdown(fd[0], SHUT_WR));
	misuse_shut(_metadata, fd[0]);
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_recv(fd[0], buf, 64, 0, &eor, NULL));
	EXPECT_FALSE(eor);
	EXPECT_EQ(0, rar_recv(fd[0], buf, 64, 0, &eor, NULL));

	/* the other one: the end of file too, and no more operations */
	EXPECT_TRUE(readable(fd[1]));
	eor = true;
	EXPECT_EQ(0, rar_recv(fd[1], buf, 64, 0, &eor, NULL));
	EXPECT_FALSE(eor);
	/* a further operation fails, at send or at recv, and then all do */
	send(fd[1], buf, 64, MSG_NOSIGNAL);
	ROW(ECONNRESET, "recv after the other left", recv(fd[1], buf, 64, 0));
	ROW(ECONNRESET, "send after the other left",
	    send(fd[1], buf, 64, MSG_NOSIGNAL));
	EXPECT_EQ(0, rar_error(fd[1], &error));
	EXPECT_EQ(ECONNRESET, error.err);
	EXPECT_EQ(RAR_R_LEFT, error.reason);
	EXPECT_EQ(0, error.rank);
}

/* One that posted more than the leaver: an error, its name, the operation. */
TEST(left_before)
{
	struct rar_data d = data_of(3, 1, 500);
	struct rar_error error;
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 3, 1));
	ASSERT_EQ(0, works(fd, 3, 0));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(0, rar_post(fd[2], &d, 2));
	close(fd[1]);
	for (int r = 0; r < 3; r += 2) {
		ASSERT_TRUE(failed(fd[r]));
		EXPECT_EQ(-ECONNRESET, rar_collect(fd[r], &d, r));
		EXPECT_EQ(0, rar_error(fd[r], &error));
		EXPECT_EQ(RAR_R_LEFT, error.reason)
			TH_LOG("%s", rar_reason_name(error.reason));
		EXPECT_EQ(1, error.rank);
		EXPECT_EQ(1, error.op_seq);
	}
}

TEST(sticky_after_results)
{
	struct rar_data d = data_of(2, 0, 500);
	struct rar_error error;
	char buf[64];
	int fd[2], err;
	socklen_t len;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	for (d.id = 0; d.id < 3; d.id++) {
		ASSERT_EQ(0, post_all(fd, &d));
	}
	for (d.id = 0; d.id < 3; d.id++) {
		ASSERT_EQ(0, rar_collect(fd[1], &d, 1));
	}
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	EXPECT_EQ(0, set_u32(fd[1], RAR_ABORT, 0));
	ASSERT_TRUE(failed(fd[0]));
	/* SO_ERROR takes nothing away */
	len = sizeof(err);
	EXPECT_EQ(0, getsockopt(fd[0], SOL_SOCKET, SO_ERROR, &err, &len));
	EXPECT_EQ(ECONNRESET, err);
	/* a result cut in two by the failure */
	d.id = 0;
	EXPECT_EQ(4, recv(fd[0], buf, 4, 0));
	EXPECT_EQ(1996, recv(fd[0], malloc(2000), 2000, 0));
	for (d.id = 1; d.id < 3; d.id++) {
		EXPECT_EQ(0, rar_collect(fd[0], &d, 0));
	}
	for (int i = 0; i < 2; i++) {
		ROW(ECONNRESET, "recv", recv(fd[0], buf, 64, 0));
		ROW(ECONNRESET, "recv, MSG_DONTWAIT",
		    recv(fd[0], buf, 64, MSG_DONTWAIT));
		ROW(ECONNRESET, "send", send(fd[0], buf, 64, MSG_NOSIGNAL));
	}
	EXPECT_EQ(0, rar_error(fd[0], &error));
	EXPECT_EQ(RAR_R_ABORTED, error.reason);
	EXPECT_EQ(POLLERR | POLLHUP | POLLIN,
		  poll_now(fd[0], ALL, 0) & ~POLLOUT);
}

TEST(abort_names_its_author)
{
	struct rar_data d = data_of(4, 0, 5000);
	struct rar_error error;
	struct rar_info info;
	int fd[4];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 4, 1));
	ASSERT_EQ(0, works(fd, 4, 9));
	for (int r = 0; r < 3; r++) {
		ASSERT_EQ(0, rar_post(fd[r], &d, r));
	}
	ASSERT_EQ(0, set_u32(fd[2], RAR_ABORT, 0));
	for (int r = 0; r < 4; r++) {
		ASSERT_TRUE(failed(fd[r])) TH_LOG("rank %d", r);
		EXPECT_EQ(-ECONNRESET, rar_collect(fd[r], &d, r))
			TH_LOG("rank %d", r);
		EXPECT_EQ(0, rar_error(fd[r], &error));
		EXPECT_EQ(ECONNRESET, error.err);
		EXPECT_EQ(RAR_R_ABORTED, error.reason)
			TH_LOG("rank %d: %s", r, rar_reason_name(error.reason));
		EXPECT_EQ(2, error.rank) TH_LOG("rank %d", r);
		EXPECT_EQ(2, error.other);
		EXPECT_EQ(AF_RAR, error.addr.srar_family);
		EXPECT_EQ(2, error.addr.srar_rank);
		EXPECT_EQ(127, error.addr.srar_addr[0]);
		EXPECT_EQ(0, rar_info(fd[r], &info));
		EXPECT_EQ(RAR_S_FAILED, info.state);
	}
	/* the name is free for the next group at once */
	ring_down(fd, 4);
	ASSERT_EQ(0, ring_up(fd, 4, 1));
	EXPECT_EQ(0, works(fd, 4, 9));
}

TEST(operation_timeout)
{
	struct rar_data d = data_of(4, 3, 500);
	struct rar_error error;
	uint64_t t;
	int fd[4];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 4, 1));
	ASSERT_EQ(0, set_u32(fd[0], RAR_OP_TIMEOUT, 300));
	ASSERT_EQ(0, works(fd, 4, 9));
	/* an idle group does not time out */
	rar_sleep_ms(500);
	ASSERT_EQ(0, works(fd, 4, 10));
	for (int r = 0; r < 4; r++)
		if (r != 2) {
			ASSERT_EQ(0, rar_post(fd[r], &d, r));
		}
	t = rar_now_us();
	for (int r = 0; r < 4; r++) {
		EXPECT_TRUE(failed(fd[r])) TH_LOG("rank %d", r);
		EXPECT_EQ(0, rar_error(fd[r], &error));
		EXPECT_EQ(ETIMEDOUT, error.err) TH_LOG("rank %d", r);
		EXPECT_EQ(RAR_R_TIMEOUT, error.reason)
			TH_LOG("rank %d: %s", r, rar_reason_name(error.reason));
		EXPECT_EQ(2, error.rank) TH_LOG("rank %d", r);
		EXPECT_EQ(2, error.op_seq);
		EXPECT_EQ(r == 2 ? 0 : 3, error.cookie);
	}
	t = rar_now_us() - t;
	EXPECT_LE(250000, t);
	EXPECT_GT(3000000, t);
	EXPECT_EQ(-ETIMEDOUT, rar_collect(fd[0], &d, 0));
}

/* ------------------------------------------------------------ ownership */

/*
 * Rank 0 joins and forks; the child holds the descriptor.  take: the child
 * becomes the owner; leave: rank 0 has left before.  Then the parent exits, and
 * the child that is the owner does one operation.
 */
struct family {
	struct rar_ring ring;
	bool take, leave;
	struct rar_barrier joined, forked, orphaned, end;
};

static int child_of_rank_0(struct family *f, int fd, pid_t parent)
{
	struct rar_data d = data_of(2, 1, 100);
	pid_t owner = 0;
	int err = 0;

	if (get(fd, RAR_OWNER, &owner, 4) || owner != parent)
		err = 1;
	if (f->take && (set_u32(fd, RAR_OWNER, 0) ||
			get(fd, RAR_OWNER, &owner, 4) || owner != getpid()))
		err = 2;
	rar_barrier(&f->forked, 2, 10);
	while (getppid() == parent)
		rar_sleep_ms(1);
	rar_barrier(&f->orphaned, 2, 10);
	if (f->take && !err)
		err = rar_allreduce(fd, &d, 0);
	if (err)
		rar_log("child of rank 0: %d", err);
	rar_barrier(&f->end, 2, 10);
	return err;
}

static int rank_0(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(2, 0, 16);
	struct family *f = arg;
	pid_t self = getpid();
	int fd = rar_socket();

	if (rar_join_start(fd, &f->ring, rank) || rar_join_wait(fd, 8000))
		return 1;
	rar_barrier(&f->joined, 2, 10);
	if (f->leave && (rar_allreduce(fd, &d, rank) || shutdown(fd, SHUT_WR)))
		return 1;
	if (!fork())
		_exit(child_of_rank_0(f, fd, self));
	rar_barrier(&f->forked, 2, 10);
	return 0;
}

static struct family *start_family(bool take, bool leave, int *fd, pid_t *pid)
{
	struct family *f = rar_shared(sizeof(*f));

	f->ring = lo_ring(2, 1);
	f->take = take;
	f->leave = leave;
	*pid = rar_spawn(NULL, rank_0, 0, f);
	*fd = rar_socket();
	if (rar_join_start(*fd, &f->ring, 1) || rar_join_wait(*fd, 8000))
		return NULL;
	rar_barrier(&f->joined, 2, 10);
	return f;
}

TEST(owner_exits_child_holds)
{
	struct rar_error error;
	struct family *f;
	char buf[64];
	pid_t pid;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	f = start_family(false, false, &fd, &pid);
	ASSERT_NE(NULL, f);
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	EXPECT_EQ(0, rar_barrier(&f->orphaned, 2, 10));
	ASSERT_TRUE(failed(fd));
	ROW(ECONNRESET, "recv", recv(fd, buf, 64, 0));
	EXPECT_EQ(0, rar_error(fd, &error));
	EXPECT_EQ(RAR_R_DIED, error.reason)
		TH_LOG("%s", rar_reason_name(error.reason));
	EXPECT_EQ(0, error.rank);
	EXPECT_EQ(0, rar_barrier(&f->end, 2, 10));
}

TEST(owner_handed_over)
{
	struct rar_data d = data_of(2, 1, 100);
	struct family *f;
	pid_t pid;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	f = start_family(true, false, &fd, &pid);
	ASSERT_NE(NULL, f);
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	EXPECT_EQ(0, rar_barrier(&f->orphaned, 2, 10));
	EXPECT_EQ(0, rar_allreduce(fd, &d, 1));
	EXPECT_EQ(0, rar_barrier(&f->end, 2, 10));
}

/* Whose operations are complete has nothing left to fail. */
TEST(owner_left_child_holds)
{
	struct rar_data d = data_of(2, 0, 16);
	struct rar_error error;
	struct family *f;
	bool eor = true;
	char buf[64];
	pid_t pid;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	f = start_family(false, true, &fd, &pid);
	ASSERT_NE(NULL, f);
	EXPECT_EQ(0, rar_allreduce(fd, &d, 1));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	EXPECT_EQ(0, rar_barrier(&f->orphaned, 2, 10));
	rar_sleep_ms(300);
	EXPECT_EQ(0, rar_recv(fd, buf, 64, 0, &eor, NULL));
	EXPECT_FALSE(eor);
	EXPECT_EQ(0, rar_error(fd, &error));
	EXPECT_EQ(0, error.err)
		TH_LOG("%s", rar_reason_name(error.reason));
	EXPECT_EQ(0, rar_barrier(&f->end, 2, 10));
}

TEST(owner_misuse)
{
	int fd, pid = 0;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(&fd, 1, 1));
	ROW(EINVAL, "negative", set_u32(fd, RAR_OWNER, -5));
	ROW(ESRCH, "no such process", set_u32(fd, RAR_OWNER, 0x3fffff));
	ROW(0, "by number", set_u32(fd, RAR_OWNER, getpid()));
	EXPECT_EQ(0, get(fd, RAR_OWNER, &pid, 4));
	EXPECT_EQ(getpid(), pid);
	EXPECT_EQ(0, works(&fd, 1, 1));
}

/* ------------------------------------------------------------ starting again */

/* One operation as rank 1; then it waits for the end of the group. */
static int until_the_end(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(2, 0, 16);
	int fd = rar_open(arg, rank);
	int err = fd < 0 ? fd : rar_allreduce(fd, &d, rank);

	if (err)
		rar_log("rank %u: %s", rank, strerrorname_np(-err));
	return err || !failed(fd);
}

/*
 * close() with an operation under way is a failure as any other: the process
 * remembers its epoch. Rank 1 is another process each time and remembers nothing.
 */
TEST(resume_after_close)
{
	struct rar_data d = data_of(2, 0, 16);
	struct rar_ring ring = lo_ring(2, 1);
	struct rar_info was, info;
	pid_t pid[2];
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	for (int i = 0; i < 2; i++) {
		/* it must not hold what is closed here */
		pid[i] = rar_spawn(NULL, until_the_end, 1, &ring);
		fd[i] = rar_socket();
		ASSERT_EQ(0, rar_join_start(fd[i], &ring, 0));
		ASSERT_EQ(0, rar_join_wait(fd[i], 8000));
		EXPECT_EQ(0, rar_info(fd[i], i ? &info : &was));
		EXPECT_EQ(0, rar_allreduce(fd[i], &d, 0));
		EXPECT_EQ(0, rar_post(fd[i], &d, 0));
		close(fd[i]);
		EXPECT_EQ(0, rar_reap(pid[i], rar_now_us() + 8000000));
	}
	EXPECT_EQ(0, was.resume_epoch);
	EXPECT_EQ(was.epoch, info.resume_epoch);
	EXPECT_EQ(1, info.resume_op);
}

/* A group of one runs at once: it knows the epoch before, and it ends that. */
static int failed_epochs(void)
{
	FILE *f = fopen("/proc/self/net/rar", "r");
	int n = -1;

	if (f && fscanf(f, "family %*d wire %*d groups %*u mem %*d resume %d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static int fail_alone(uint32_t rank, void *arg)
{
	int fd;

	(void)arg;
	RAR_CHECK(!ring_up(&fd, 1, 1 + rank), "join");
	RAR_CHECK(!set_u32(fd, RAR_ABORT, 0), "abort");
	RAR_CHECK(failed_epochs() > 0, "%d failed epochs", failed_epochs());
	return 0;
}

/* What a process remembers does not outlive it. */
TEST(resume_forgotten)
{
	uint64_t end;

	ASSERT_EQ(0, rar_private_net());
	EXPECT_EQ(0, failed_epochs());
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, rar_reap(rar_spawn(NULL, fail_alone, i, NULL),
				      rar_now_us() + 5000000));
	end = rar_now_us() + 6000000;
	while (failed_epochs() && rar_now_us() < end)
		rar_sleep_ms(100);
	EXPECT_EQ(0, failed_epochs());
}

TEST(resume_alone)
{
	struct rar_info info;
	uint64_t epoch;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, works(fd, 2, 0));
	ASSERT_EQ(0, rar_info(fd[0], &info));
	epoch = info.epoch;
	EXPECT_EQ(0, set_u32(fd[0], RAR_ABORT, 0));
	EXPECT_TRUE(failed(fd[1]));
	ring_down(fd, 2);

	ASSERT_EQ(0, ring_up(fd, 1, 1));
	ASSERT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(epoch, info.resume_epoch);
	EXPECT_EQ(1, info.resume_op);
	ASSERT_EQ(0, works(fd, 1, 1));
	close(fd[0]);
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	ASSERT_EQ(0, rar_info(fd[1], &info));
	EXPECT_EQ(0, info.resume_epoch);
	EXPECT_EQ(0, info.resume_op);
	ring_down(fd, 2);

	/* and when it fails itself */
	ASSERT_EQ(0, ring_up(fd, 1, 2));
	ASSERT_EQ(0, works(fd, 1, 1));
	ASSERT_EQ(0, works(fd, 1, 2));
	ASSERT_EQ(0, rar_info(fd[0], &info));
	epoch = info.epoch;
	EXPECT_EQ(0, set_u32(fd[0], RAR_ABORT, 0));
	close(fd[0]);
	ASSERT_EQ(0, ring_up(fd, 1, 2));
	ASSERT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(epoch, info.resume_epoch);
	EXPECT_EQ(2, info.resume_op);
}

/* ------------------------------------------------------------ /proc */

TEST(proc_files)
{
	static const char *const names[] = {
		"/proc/self/net/rar", "/proc/self/net/rar_netstat",
		"/proc/self/net/rar_reduce",
	};
	char buf[8192];
	int fd[2], f;
	ssize_t n;

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 4242));
	for (int i = 0; i < 3; i++) {
		f = open(names[i], O_RDONLY);
		ASSERT_LE(0, f) TH_LOG("%s", names[i]);
		n = read(f, buf, sizeof(buf) - 1);
		ASSERT_LT(0, n) TH_LOG("%s", names[i]);
		buf[n] = 0;
		close(f);
		if (!i) {
			EXPECT_EQ(0, strncmp(buf, "family 22 ", 10));
			EXPECT_NE(NULL, strstr(buf, "\n0000000000001092 0 2 run "));
			EXPECT_NE(NULL, strstr(buf, "\n0000000000001092 1 2 run "));
		}
	}
	EXPECT_EQ(-ENOENT, rar_counter("RarNoSuchCounter"));
	EXPECT_LE(2, rar_counter("RarGroupsJoined"));
	EXPECT_EQ(0, rar_counter("RarGroupsFailed"));
	/* one namespace does not see another */
	ASSERT_EQ(0, rar_private_net());
	EXPECT_EQ(0, rar_counter("RarGroupsJoined"));
}

int main(int argc, char **argv)
{
	const char *why = rar_missing();

	rar_init();
	if (why)
		ksft_exit_skip("%s\n", why);
	return test_harness_run(argc, argv);
}
