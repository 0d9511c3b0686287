// SPDX-License-Identifier: GPL-2.0
/* connect() and RAR_JOIN: they wait, fail, are interrupted and are tried again. */
#include "sock.h"

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

/* A multicast or broadcast address is no host. Nothing is sent; the socket may try again. */
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

	/* a little more than 2^32 ms must not become a little */
	ASSERT_EQ(0, sysctl_write("join_ms", "1500"));
	ASSERT_EQ(0, setsockopt(fd[0], SOL_SOCKET, SO_SNDTIMEO,
				&(struct timeval){ 4294968, 0 },
				sizeof(struct timeval)));
	t = rar_now_us();
	EXPECT_EQ(-ETIMEDOUT, rar_connect(fd[0], &ring, 0));
	EXPECT_LE(1400000, rar_now_us() - t);
	ASSERT_EQ(0, rar_timeout(fd[0], SO_SNDTIMEO, 0));

	/* the socket joins once the other rank comes */
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
	len = 16;	/* even for a short buffer the whole length is returned */
	EXPECT_EQ(0, getpeername(fd[0], (void *)&name, &len));
	EXPECT_EQ(LEN, len);
	len = sizeof(name);
	EXPECT_EQ(0, getpeername(fd[0], (void *)&name, &len));
	EXPECT_EQ(1, name.srar_rank);
	EXPECT_EQ(7, name.srar_group);
	EXPECT_EQ(0, works(fd, 2, 1));
}

/*
 * A join may fail before connect() returns: a tick of the timer comes in between, and the
 * next member, whose own join has failed, refuses at once. connect() must report that, or
 * the caller would take a socket that is only bound for one that is joined. In a few
 * seconds some ticks hit a connect().
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
		err = rar_bind(fd[0], &ring, 0);
		if (err == -ENOSPC) {	/* closed members exist for a grace period */
			rar_sleep_ms(10);
			close(fd[0]);
			continue;
		}
		ASSERT_EQ(0, err);
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
	/* the join goes on */
	fd[1] = rar_socket();
	ASSERT_EQ(0, rar_join_start(fd[1], &ring, 1));
	EXPECT_EQ(0, rar_join_wait(fd[0], 8000));
	EXPECT_EQ(0, rar_join_wait(fd[1], 8000));
	EXPECT_EQ(0, works(fd, 2, 1));
}

/* The next member comes while the caller sleeps in connect() again, or is still stopped. */
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
	RAR_CHECK(err == -EISCONN, "second connect: %s", strerrorname_np(-err));
	return 0;
}

/* connect() goes on after a stop or a signal handler, even if the join ended meanwhile. */
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
		if (round)	/* in round 0 the join ends while the caller is stopped */
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

/* If the join failed meanwhile, the restarted connect() does not begin another. */
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
	RAR_CHECK(err == -ETIMEDOUT, "second connect: %s", strerrorname_np(-err));
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

/* connect() that waits for a join another call began has a time limit of its own. */
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
	/* without SA_RESTART a signal ends connect(); the next one reports the join */
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

/* RAR_PREV_ADDR, RAR_KEY and RAR_SECURITY, and when they may be set. */
TEST(join_prev_and_key)
{
	struct rar_ring ring = lo_ring(1, 13);
	struct rar_join join = {}, later[2] = {};
	struct sockaddr_rar prev;
	socklen_t len = sizeof(prev);
	char key[16] = "0123456789abcde", long_key[33] = "0123456789abcdef0123456789abcdef";
	uint32_t level = RAR_SECURITY_AUTH;
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
	ROW(0, "key, long", setsockopt(fd, SOL_RAR, RAR_KEY, long_key, 32));
	ROW(EINVAL, "key, too long", setsockopt(fd, SOL_RAR, RAR_KEY, long_key, 33));
	ROW(EINVAL, "key, between", setsockopt(fd, SOL_RAR, RAR_KEY, long_key, 31));
	ROW(0, "seals", setsockopt(fd, SOL_RAR, RAR_SECURITY, &level, 4));
	ROW(0, "key, none", setsockopt(fd, SOL_RAR, RAR_KEY, NULL, 0));
	ROW(ENOKEY, "seals without a key", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	ROW(0, "key again", setsockopt(fd, SOL_RAR, RAR_KEY, key, 16));
	len = 16;
	ROW(ENOPROTOOPT, "no key is read", getsockopt(fd, SOL_RAR, RAR_KEY, key, &len));
	later[0] = join;
	ROW(0, "a longer struct", setsockopt(fd, SOL_RAR, RAR_JOIN, later, sizeof(later)));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	ROW(EISCONN, "seals, late", setsockopt(fd, SOL_RAR, RAR_SECURITY, &level, 4));
	ROW(EISCONN, "key, late", setsockopt(fd, SOL_RAR, RAR_KEY, key, 16));
	ROW(EISCONN, "prev, late", setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &join.self, 64));
	close(fd);
	fd = rar_socket();
	ROW(0, "an earlier struct", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, 128));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	close(fd);
}

/* RAR_BOX_KEY, and when it may be set. Without RAR_SECURITY, and without a box, it has no effect. */
TEST(join_box_key)
{
	struct rar_ring ring = lo_ring(1, 13);
	struct rar_join join = {};
	char key[33] = "0123456789abcdef0123456789abcdef";
	char zero[32] = "";
	socklen_t len = 32;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	for (int n = 1; n <= 33; n++)
		if (n != 16 && n != 32)
			ROW(EINVAL, "length", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, n));
	ROW(0, "short", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, 16));
	ROW(0, "long", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, 32));
	ROW(0, "none", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, NULL, 0));
	ROW(0, "zero", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, zero, 32));
	ROW(EFAULT, "nowhere", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, (void *)8, 32));
	ROW(ENOPROTOOPT, "read", getsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, &len));
	rar_address(&ring, 0, &join.self);
	join.next = join.self;
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&join.self, sizeof(join.self)));
	ROW(0, "bound", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, 32));
	ROW(0, "join", setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	EXPECT_EQ(0, rar_join_wait(fd, 1000));
	ROW(EISCONN, "late", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, 32));
	ROW(EISCONN, "none, late", setsockopt(fd, SOL_RAR, RAR_BOX_KEY, NULL, 0));
	close(fd);
}

/* RAR_BOX: rank 0 chooses the box, whatever net.rar.box says; others need not know. */
TEST(join_box)
{
	struct rar_ring ring = lo_ring(2, 14);
	struct rar_join join = {};
	struct sockaddr_rar box, got;
	socklen_t len = sizeof(got);
	struct rar_info info;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("box", "127.0.0.9"));
	rar_address(&ring, 1, &box);
	/* It is no rank. */
	box.srar_rank = 9;
	box.srar_size = 0;
	for (uint32_t r = 0; r < 2; r++) {
		fd[r] = rar_socket();
		rar_address(&ring, r, &join.self);
		rar_address(&ring, 1 - r, &join.next);
		ROW(EINVAL, "box, short", setsockopt(fd[r], SOL_RAR, RAR_BOX, &box, 63));
		ROW(EFAULT, "box, nowhere", setsockopt(fd[r], SOL_RAR, RAR_BOX, (void *)8, 64));
		box.srar_family++;
		ROW(EAFNOSUPPORT, "box, family", setsockopt(fd[r], SOL_RAR, RAR_BOX, &box, 64));
		box.srar_family--;
		if (!r)
			ROW(0, "box", setsockopt(fd[r], SOL_RAR, RAR_BOX, &box, sizeof(box)));
		EXPECT_EQ(0, getsockopt(fd[r], SOL_RAR, RAR_BOX, &got, &len));
		EXPECT_EQ(r ? 0 : box.srar_family, got.srar_family);
		ROW(0, "join", setsockopt(fd[r], SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	}
	for (uint32_t r = 0; r < 2; r++) {
		ASSERT_EQ(0, rar_join_wait(fd[r], 5000));
		ROW(EISCONN, "box, late", setsockopt(fd[r], SOL_RAR, RAR_BOX, &box, 64));
		ASSERT_EQ(0, rar_info(fd[r], &info));
		EXPECT_EQ(RAR_BOX_AWAY, info.box_state);
		EXPECT_EQ(0, memcmp(info.box.srar_addr, box.srar_addr, 16));
		close(fd[r]);
	}
}

/* RAR_BOX with several boxes: lists that it takes, lists that it refuses, and RAR_INFO about them. */
TEST(join_boxes)
{
	struct rar_ring ring = lo_ring(2, 17);
	struct sockaddr_rar box[5], got[5];
	struct rar_join join = {};
	socklen_t len = sizeof(got);
	struct rar_info info;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	for (uint32_t i = 0; i < 5; i++) {
		rar_address(&ring, 0, &box[i]);
		box[i].srar_addr[3] = 5 + i;
	}
	fd[0] = rar_socket();
	ROW(E2BIG, "five", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 5 * 64));
	ROW(EINVAL, "and a half", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 3 * 32));
	box[2] = box[0];
	ROW(EEXIST, "twice", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 3 * 64));
	box[2].srar_port = htons(7);
	box[1].srar_af = 0;
	memset(box[1].srar_addr, 0, 16);
	ROW(EINVAL, "none among some", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 3 * 64));
	box[1].srar_af = AF_INET6;
	ROW(EINVAL, "mixed", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 3 * 64));
	box[1] = box[3];
	ROW(0, "three", setsockopt(fd[0], SOL_RAR, RAR_BOX, box, 3 * 64));
	ASSERT_EQ(0, getsockopt(fd[0], SOL_RAR, RAR_BOX, got, &len));
	EXPECT_EQ(3 * 64, len);
	EXPECT_EQ(0, memcmp(got[2].srar_addr, box[2].srar_addr, 16));
	close(fd[0]);
	EXPECT_EQ(-E2BIG, sysctl_write("box", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5"));
	ASSERT_EQ(0, sysctl_write("box", "127.0.0.9,127.0.0.8:99"));
	for (uint32_t r = 0; r < 2; r++) {
		fd[r] = rar_socket();
		rar_address(&ring, r, &join.self);
		rar_address(&ring, 1 - r, &join.next);
		ROW(0, "join", setsockopt(fd[r], SOL_RAR, RAR_JOIN, &join, sizeof(join)));
	}
	for (uint32_t r = 0; r < 2; r++) {
		ASSERT_EQ(0, rar_join_wait(fd[r], 5000));
		ASSERT_EQ(0, rar_info(fd[r], &info));
		ASSERT_EQ(2, info.nboxes);
		EXPECT_EQ(RAR_BOX_AWAY, info.boxes[1].state);
		EXPECT_EQ(9, info.boxes[0].addr.srar_addr[3]);
		EXPECT_EQ(8, info.boxes[1].addr.srar_addr[3]);
		EXPECT_EQ(99, ntohs(info.boxes[1].addr.srar_port));
		close(fd[r]);
	}
}

TEST(join_option)
{
	struct rar_ring ring = lo_ring(1, 9);
	static char zeros[(64 << 10) + 1];	/* longer than any page */
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
	memcpy(zeros, &join, sizeof(join));
	ROW(E2BIG, "longer than a page", setsockopt(fd, SOL_RAR, RAR_JOIN, zeros, sizeof(zeros)));
	memset(zeros, 1, 8);
	ROW(E2BIG, "as long", setsockopt(fd, SOL_RAR, RAR_REG, zeros, sizeof(zeros)));
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

/* A second RAR_JOIN with another address does not change what bind() has bound. */
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

/* A RAR_JOIN that fails leaves the socket as it was: any other RAR_JOIN may follow. */
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
	/* RAR_JOIN may follow one that failed at once, and one that was tried for a while */
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

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
