// SPDX-License-Identifier: GPL-2.0
/* send() and recv(): records in several calls and in pieces, and calls that are refused. */
#include "sock.h"

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
		{ EINVAL, "size beyond the message", { .size = 49 } },
		{ EINVAL, "pad, first byte", { .size = 48, .__pad = { 1 } } },
		{ EINVAL, "pad, last byte", { .size = 48, .prio = 9, .__pad = { [6] = 1 } } },
		{ EINVAL, "a key", { .size = 40, .key = 8 } },
		{ EINVAL, "flags", { .size = 40, .flags = 1 } },
		{ EINVAL, "flags", { .size = 40, .flags = 1u << 31 } },
		{ EINVAL, "root of an all-reduce", { .size = 40, .root = 1 } },
		{ EFAULT, "dst where nothing is", { .size = 40, .dst = 4096 } },
		{ EINVAL, "bytes not those of the call",
		  { .size = 40, .bytes = 128 } },
		{ EOPNOTSUPP, "collective 99", { .size = 40, .collective = 99 } },
		{ EINVAL, "dtype 99", { .size = 40, .dtype = 99 } },
		{ EINVAL, "redop 99", { .size = 40, .redop = 99 } },
		{ EINVAL, "a barrier with data",
		  { .size = 40, .collective = RAR_BARRIER } },
		{ EOPNOTSUPP, "bitwise and of f32", { .size = 40, .redop = RAR_BAND } },
		{ EOPNOTSUPP, "logical or of bf16",
		  { .size = 40, .dtype = RAR_BF16, .redop = RAR_LOR } },
		{ EOPNOTSUPP, "logical exclusive or of f64",
		  { .size = 40, .dtype = RAR_F64, .redop = RAR_LXOR } },
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
	/* none of these calls had an effect */
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
	/* all fields given */
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
	/* what is after the end of the structure does not count */
	big.op.prio = 255;
	memset(big.op.__pad, 1, sizeof(big.op.__pad));
	ROW(0, "an earlier struct, and more",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &big.op, sizeof(big.op)));
	EXPECT_EQ(64, rar_recv(fd, buf, 64, 0, &eor, &done));
	big.op.size = 48;
	memset(big.op.__pad, 0, sizeof(big.op.__pad));
	ROW(0, "a priority",
	    send_control(fd, buf, 64, 0, SOL_RAR, RAR_OP, &big.op, sizeof(big.op)));
	EXPECT_EQ(64, rar_recv(fd, buf, 64, 0, &eor, &done));
	/* an element may straddle two pieces of an iovec */
	memcpy(buf, "abcdefgh", 8);
	iov[0] = (struct iovec){ buf, 3 };
	iov[1] = (struct iovec){ buf + 3, 0 };
	iov[2] = (struct iovec){ buf + 3, 5 };
	EXPECT_EQ(8, sendmsg(fd, &msg, 0));
	memset(buf, 0, 8);
	EXPECT_EQ(8, recv(fd, buf, 64, 0));
	EXPECT_EQ(0, memcmp(buf, "abcdefgh", 8));
	/* write() and read() act as send() and recv() */
	EXPECT_EQ(8, write(fd, buf, 8));
	EXPECT_EQ(8, read(fd, buf, 8));
	/* an empty operation needs send(), as an empty write() does not reach the socket */
	EXPECT_EQ(0, send(fd, buf, 0, 0));
	EXPECT_EQ(0, rar_recv(fd, buf, 64, 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(6, done.op_seq);
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
	/* a call inside a record may end within an element */
	EXPECT_EQ(0, rar_send(fd[0], buf + 4000, 5, MSG_MORE, NULL));
	/* calls with too much or too little data are refused and have no effect */
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7996, 0, NULL));
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7994, 0, NULL));
	EXPECT_EQ(-EINVAL, rar_send(fd[0], buf + 4005, 7996, MSG_MORE, NULL));
	EXPECT_EQ(-EFAULT, rar_send(fd[0], (void *)8, 7995, 0, NULL));
	EXPECT_EQ(0, rar_send(fd[0], buf + 4005, 7995, 0, NULL));
	ASSERT_EQ(0, rar_post(fd[1], &d, 1));
	EXPECT_EQ(0, collect_all(fd, &d));
	EXPECT_EQ(0, rar_info(fd[0], &info));
	EXPECT_EQ(1, info.ops_posted);

	/* closing with an unfinished record is leaving; the record is no operation */
	EXPECT_EQ(0, rar_send(fd[0], buf, 4000, MSG_MORE, &op));
	close(fd[0]);
	EXPECT_TRUE(failed(fd[1]) || readable(fd[1]));
}

/* A record that was begun, copied or in place, can be cancelled. */
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

/* sendfile() adds pages of a file, more than a pipe holds, to a record that was begun. */
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

	/* a message without data begins the record; sendfile() adds no more than fits */
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
	/* 0 bytes, 7 bytes, the exact rest: MSG_EOR and RAR_DONE come with the last call */
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
	/* the empty operation is a record of its own */
	EXPECT_EQ(0, rar_recv(fd[0], buf, sizeof(buf), 0, &eor, &done));
	EXPECT_TRUE(eor);
	EXPECT_EQ(9, done.cookie);
	EXPECT_EQ(1, done.op_seq);
	/* a recv() never returns bytes of two operations */
	EXPECT_EQ(0, rar_collect(fd[1], &d, 1));
	EXPECT_EQ(0, rar_collect(fd[1], &empty, 1));
	EXPECT_EQ(-EAGAIN, rar_recv(fd[0], buf, 4, MSG_DONTWAIT, NULL, NULL));
}

/* With RAR_NONEMPTY no result has 0 bytes; only the end of file has. */
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
	for (int i = 0; i < 2; i++) {	/* an operation in place, an empty one */
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
	EXPECT_EQ(0, rar_recv(fd[1], buf[1], 1, 0, &eor, NULL));	/* without RAR_NONEMPTY */
	EXPECT_TRUE(eor);
	EXPECT_EQ(0, rar_collect(fd[1], &empty, 1));
	EXPECT_EQ(0, rar_collect(fd[1], &d, 1));
	EXPECT_EQ(0, recv(fd[0], buf[0], 1, 0));	/* end of file */
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
	/* MSG_CTRUNC reports too little room for RAR_DONE */
	msg.msg_control = control;
	msg.msg_controllen = sizeof(control);
	EXPECT_EQ(64, recvmsg(fd, &msg, 0));
	EXPECT_EQ(MSG_EOR | MSG_CTRUNC, msg.msg_flags & ~MSG_CMSG_CLOEXEC);
}

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
