// SPDX-License-Identifier: GPL-2.0
/* shutdown(), close(), failure: the results that still come, owners, starting again. */
#include "sock.h"

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

	/* posted operations still get their results, then comes the end of file */
	ASSERT_EQ(0, rar_post(fd[0], &d, 0));
	ASSERT_EQ(0, shutdown(fd[0], SHUT_WR));
	misuse_shut(_metadata, fd[0]);
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_recv(fd[0], buf, 64, 0, &eor, NULL));
	EXPECT_FALSE(eor);
	EXPECT_EQ(0, rar_recv(fd[0], buf, 64, 0, &eor, NULL));

	/* the other rank gets the end of file, too, and can post nothing more */
	EXPECT_TRUE(readable(fd[1]));
	eor = true;
	EXPECT_EQ(0, rar_recv(fd[1], buf, 64, 0, &eor, NULL));
	EXPECT_FALSE(eor);
	/* a further operation fails at send() or at recv(), and then every call does */
	send(fd[1], buf, 64, MSG_NOSIGNAL);
	ROW(ECONNRESET, "recv after the other left", recv(fd[1], buf, 64, 0));
	ROW(ECONNRESET, "send after the other left",
	    send(fd[1], buf, 64, MSG_NOSIGNAL));
	EXPECT_EQ(0, rar_error(fd[1], &error));
	EXPECT_EQ(ECONNRESET, error.err);
	EXPECT_EQ(RAR_R_LEFT, error.reason);
	EXPECT_EQ(0, error.rank);
}

/*
 * A rank that posted more than the leaver gets an error that names the leaver and the
 * operation.
 */
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
	/* reading SO_ERROR does not change RAR_ERROR or the results */
	len = sizeof(err);
	EXPECT_EQ(0, getsockopt(fd[0], SOL_SOCKET, SO_ERROR, &err, &len));
	EXPECT_EQ(ECONNRESET, err);
	/* a result of which a part was read before the failure */
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
	/* the name can be bound again at once */
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
 * Rank 0 joins and forks, and the child inherits the descriptor. @take: the child becomes
 * the owner. @leave: rank 0 has left before. Then the parent exits. A child that is the
 * owner does one operation.
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

/* If all its operations are complete, an owner that exits fails nothing. */
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

/* Do one operation as rank 1, then wait for the end of the group. */
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
 * close() with an operation under way counts as a failure, so the process remembers the
 * epoch. Rank 1 is another process each time and remembers nothing.
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
		/* spawn before the socket is made, or the child would hold it open */
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

/* The number of failed epochs that processes of this namespace remember. */
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

/* Failed epochs are forgotten when their process exits. */
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

/* A group of one resumes after an epoch that failed, too, and ends the memory of it. */
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

	/* the epoch that failed may be that of a group of one */
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

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
