// SPDX-License-Identifier: GPL-2.0
/* poll(), epoll and blocking calls return when they should; none waits for ever. */
#include "sock.h"

/* ------------------------------------------------------------ waiting */

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
	/* full: rank 0 has posted 64 operations, rank 1 none */
	for (d.id = 0; d.id < RAR_MAX_OPS; d.id++) {
		EXPECT_EQ(POLLOUT, poll_now(fd[0], ALL, 0));
		ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	}
	EXPECT_EQ(0, poll_now(fd[0], ALL, 20));
	/* a result is ready, the table is still full */
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

#define LONG_OP 600000		/* bytes; two exceed net.rar.mem in these tests */

static int two_groups(int *a, int *b, const char *mem)
{
	return rar_private_net() ?: sysctl_write("mem", mem) ?: ring_up(a, 1, 1) ?:
	       ring_up(b, 1, 2);
}

/* After a while recv() gives @bytes back, or, if that is 0, the limit is raised. */
static int give_memory(uint32_t bytes, void *arg)
{
	char *buf = malloc(bytes + 1);

	rar_sleep_ms(200);
	if (!bytes)
		return sysctl_write("mem", "2000000");
	return recv(*(int *)arg, buf, bytes, 0) != (ssize_t)bytes;
}

/* After a send() that found too little of net.rar.mem, poll() waits for memory. */
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
	/* a shorter operation finds memory, and then poll() goes by its length */
	ASSERT_EQ(4000, send(b, buf, 4000, MSG_DONTWAIT));
	EXPECT_EQ(POLLOUT, poll_now(b, POLLOUT, 0));
	EXPECT_EQ(4000, recv(b, buf, 4000, 0));
	ASSERT_EQ(-1, send(b, buf, LONG_OP, MSG_DONTWAIT));
	pid = rar_spawn(NULL, give_memory, LONG_OP, &a);
	EXPECT_EQ(POLLOUT, poll_now(b, POLLOUT, 5000));
	EXPECT_EQ(LONG_OP, send(b, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	/* an operation above the limit is refused, not waited for */
	ASSERT_EQ(-1, send(a, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll_now(a, POLLOUT, 0));
	ASSERT_EQ(0, sysctl_write("mem", "500000"));
	EXPECT_EQ(POLLOUT, poll_now(a, POLLOUT, 0));
	EXPECT_EQ(-1, send(a, buf, LONG_OP, MSG_DONTWAIT));
	EXPECT_EQ(EMSGSIZE, errno);
}

/* Edge-triggered epoll sees memory come back, without a poll() after the send(). */
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

/* A blocking send() is woken by memory that comes back, before its timeout. */
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

/* A group's second operation may use half of net.rar.mem until the first is over. */
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

/* An empty operation needs no memory, even after the limit fell below the use. */
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

/* After a while, end a wait: with a failure if @what is 2, otherwise with a result. */
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
	/* a sleeping recv() is woken by a result, and by a failure */
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	pid = rar_spawn(NULL, wait_and_act, 1, fd);
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	pid = rar_spawn(NULL, wait_and_act, 2, fd);
	EXPECT_EQ(-ECONNRESET, rar_collect(fd[0], &d, 0));
	EXPECT_EQ(0, rar_reap(pid, rar_now_us() + 5000000));
}

TEST(signal_for_a_result)
{
	struct timespec limit = { .tv_sec = 5 };
	struct rar_data d = data_of(2, 0, 16);
	sigset_t set;
	int fd[2];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, ring_up(fd, 2, 1));
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &set, NULL));
	ASSERT_EQ(0, fcntl(fd[0], F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(fd[0], F_SETFL, O_ASYNC));
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(SIGIO, sigtimedwait(&set, NULL, &limit));
	EXPECT_EQ(0, collect_all(fd, &d));
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
	/* none of these calls cancelled the operation */
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
	/* all complete and unread: send() would wait for ever */
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

/* A send() that waits for room goes on when a result is read. */
static int take_one(uint32_t rank, void *arg)
{
	int *fd = arg;
	struct rar_data d = data_of(2, 0, 16);

	(void)rank;
	rar_sleep_ms(100);
	/* not the last operation: if all were complete send() would not wait */
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
 * A late rank has no room for unexpected messages, so it refuses full-size packets again
 * and again, and takes small ones. The sender must not take that for a narrow path and end
 * the group.
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

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
