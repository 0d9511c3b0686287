// SPDX-License-Identifier: GPL-2.0
/* Options, RAR_INFO and other structures that getsockopt() returns, sysctls, /proc. */
#include "sock.h"

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
		{ RAR_SECURITY, RAR_SECURITY_NR, EINVAL },
		{ RAR_SECURITY, RAR_SECURITY_AUTH, EISCONN },
		{ RAR_CANCEL, 1, EINVAL }, { RAR_CANCEL, 0, 0 },
		{ RAR_NONEMPTY, 2, EINVAL }, { RAR_NONEMPTY, 1, 0 }, { RAR_NONEMPTY, 0, 0 },
		{ RAR_PEERS_FROM, RAR_MAX_SIZE, EINVAL }, { RAR_PEERS_FROM, 0, 0 },
		{ RAR_PRIORITY, 0, EINVAL }, { RAR_PRIORITY, 256, EINVAL },
		{ RAR_PRIORITY, -1, EINVAL }, { RAR_PRIORITY, 1, 0 }, { RAR_PRIORITY, 255, 0 },
		{ RAR_USER_RANK, RAR_MAX_USER_RANK + 1, EINVAL }, { RAR_USER_RANK, -2, EINVAL },
		{ RAR_BOX_WAIT, -1, EINVAL }, { RAR_BOX_WAIT, 1, EISCONN },
		{ RAR_USER_RANK, 0, EISCONN }, { RAR_USER_RANK, RAR_NO_RANK, EISCONN },
		{ 99, 0, ENOPROTOOPT }, { RAR_OP, 0, ENOPROTOOPT },
		{ RAR_DONE, 0, ENOPROTOOPT }, { -1, 0, ENOPROTOOPT },
	};
	static const int gets[] = { 0, RAR_JOIN, RAR_ABORT, RAR_REG, RAR_UNREG, RAR_CANCEL, 99, 32, 33 };
	static const int words[] = {
		RAR_DTYPE, RAR_REDOP, RAR_OP_TIMEOUT, RAR_OWNER, RAR_ABORT,
		RAR_SCHEDULE, RAR_CANCEL, RAR_NONEMPTY, RAR_PEERS_FROM, RAR_PRIORITY,
		RAR_USER_RANK, RAR_BOX_WAIT, RAR_SECURITY,
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

	/* a send() without RAR_OP uses the default type */
	EXPECT_EQ(0, works(fd, 2, 1));
	ASSERT_EQ(0, set_u32(fd[0], RAR_REDOP, RAR_BXOR));
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

static struct sockaddr_rar rail(const char *text)
{
	struct sockaddr_rar a = { .srar_family = AF_RAR, .srar_size = 1, .srar_group = 1 };

	a.srar_af = strchr(text, ':') ? AF_INET6 : AF_INET;
	inet_pton(a.srar_af, text, a.srar_addr);
	return a;
}

/* RAR_RAIL: lists that it takes, lists that it refuses, and addresses that connect() refuses. */
TEST(rails)
{
	static const char *const wrong[] = { "0.0.0.0", "224.0.0.1", "255.255.255.255", "::",
					     "ff02::1", "fe80::1" };
	struct rar_ring ring = lo_ring(1, 1);
	struct sockaddr_rar a[RAR_MAX_RAILS + 1], got[RAR_MAX_RAILS];
	socklen_t len = sizeof(got);
	struct rar_info info = {};
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, getsockopt(fd, SOL_RAR, RAR_RAIL, got, &len));
	EXPECT_EQ(0, len);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		a[0] = rail(wrong[i]);
		ROW(EINVAL, wrong[i], setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	}
	for (int i = 0; i <= RAR_MAX_RAILS; i++) {
		a[i] = rail("127.0.0.2");
		a[i].srar_addr[3] += i;
	}
	ROW(E2BIG, "eight", setsockopt(fd, SOL_RAR, RAR_RAIL, a, sizeof(a)));
	ROW(EINVAL, "one and a half", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 96));
	ROW(EFAULT, "nowhere", setsockopt(fd, SOL_RAR, RAR_RAIL, (void *)8, 64));
	a[1] = a[0];
	ROW(EEXIST, "one twice", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 128));
	a[1] = rail("::1");
	ROW(EINVAL, "two families", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 128));
	a[0] = rail("127.0.0.2");
	a[0].srar_family = AF_INET;
	ROW(EAFNOSUPPORT, "another family", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));

	a[0] = rail("10.1.2.3");
	ROW(0, "not of this host", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	EXPECT_EQ(-EADDRNOTAVAIL, rar_join_start(fd, &ring, 0));
	a[0] = rail("::1");
	ROW(0, "IPv6", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	EXPECT_EQ(-EINVAL, rar_join_start(fd, &ring, 0));
	a[0] = rail("127.0.0.1");
	ROW(0, "that of bind()", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	EXPECT_EQ(-EINVAL, rar_join_start(fd, &ring, 0));
	a[0] = rail("127.0.0.9");
	ROW(0, "a good one", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	EXPECT_EQ(0, getsockopt(fd, SOL_RAR, RAR_RAIL, got, (len = sizeof(got), &len)));
	EXPECT_EQ(64, len);
	EXPECT_EQ(0, memcmp(a[0].srar_addr, got[0].srar_addr, 16));
	EXPECT_EQ(0, rar_join_start(fd, &ring, 0));
	ROW(EISCONN, "too late", setsockopt(fd, SOL_RAR, RAR_RAIL, a, 64));
	EXPECT_EQ(0, get(fd, RAR_INFO, &info, sizeof(info)));
	EXPECT_EQ(1, info.rails);
	close(fd);
}

/* RAR_USER_RANK is set before a join, and outlives a membership. */
TEST(user_rank)
{
	static const uint32_t wrong[] = { RAR_MAX_USER_RANK + 1, 1 << 31, RAR_NO_RANK - 1 };
	static const uint32_t right[] = { 0, 1, RAR_MAX_USER_RANK, RAR_NO_RANK };
	struct rar_ring ring = lo_ring(1, 1);
	struct rar_error error = {};
	struct rar_info info = {};
	uint32_t v;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	EXPECT_EQ(0, get(fd, RAR_USER_RANK, &v, 4));
	EXPECT_EQ(RAR_NO_RANK, v);
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		ASSERT_EQ(0, set_u32(fd, RAR_USER_RANK, right[i]));
		for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
			ROW(EINVAL, "beyond", set_u32(fd, RAR_USER_RANK, wrong[k]));
		EXPECT_EQ(0, get(fd, RAR_USER_RANK, &v, 4));
		EXPECT_EQ(right[i], v);
		ASSERT_EQ(0, rar_join_start(fd, &ring, 0));
		ASSERT_EQ(0, rar_join_wait(fd, 5000));
		ROW(EISCONN, "joined", set_u32(fd, RAR_USER_RANK, 3));
		ASSERT_EQ(0, rar_info(fd, &info));
		EXPECT_EQ(right[i] == RAR_NO_RANK ? 0 : right[i], info.user_rank);
		ASSERT_EQ(0, set_u32(fd, RAR_ABORT, 0));
		EXPECT_EQ(0, get(fd, RAR_ERROR, &error, sizeof(error)));
		EXPECT_EQ(info.user_rank, error.user_rank);
	}
	close(fd);
}

/* RAR_PRIORITY may be set at any time, and outlives a membership. */
TEST(priority)
{
	struct rar_ring ring = lo_ring(1, 1);
	uint32_t v;
	int fd;

	ASSERT_EQ(0, rar_private_net());
	fd = rar_socket();
	EXPECT_EQ(0, get(fd, RAR_PRIORITY, &v, 4));
	EXPECT_EQ(RAR_DEFAULT_PRIORITY, v);
	EXPECT_EQ(0, set_u32(fd, RAR_PRIORITY, 1));
	ASSERT_EQ(0, rar_join_start(fd, &ring, 0));
	ASSERT_EQ(0, rar_join_wait(fd, 5000));
	EXPECT_EQ(0, get(fd, RAR_PRIORITY, &v, 4));
	EXPECT_EQ(1, v);
	EXPECT_EQ(0, set_u32(fd, RAR_PRIORITY, 255));
	ROW(EINVAL, "0", set_u32(fd, RAR_PRIORITY, 0));
	ROW(EINVAL, "256", set_u32(fd, RAR_PRIORITY, 256));
	ASSERT_EQ(0, set_u32(fd, RAR_ABORT, 0));
	ASSERT_EQ(0, rar_join_start(fd, &ring, 0));
	ASSERT_EQ(0, rar_join_wait(fd, 5000));
	EXPECT_EQ(0, get(fd, RAR_PRIORITY, &v, 4));
	EXPECT_EQ(255, v);
	EXPECT_EQ(0, works(&fd, 1, 1));
	close(fd);
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
		/* an operation is a block of 4000 bytes, sent in one phase or in both */
		EXPECT_LE(2 * 4000, i->bytes_tx);
		EXPECT_LE(2 * 4000, i->bytes_rx);
		EXPECT_GE(2 * 2 * 4000, i->bytes_rx);
		EXPECT_LE(2, i->packets_tx);
		EXPECT_LE(2, i->packets_rx);
		EXPECT_EQ(0, i->early_bytes);
		EXPECT_EQ(0, i->resume_op);
		EXPECT_GT(10000, i->prev_silent_ms);
		EXPECT_GT(10000, i->next_silent_ms);
		EXPECT_EQ(RAR_NO_BYTES, i->halving_bytes);
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
			EXPECT_EQ(p, peer[p].user_rank);
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
	EXPECT_EQ(2, caps.wire_version);
	/* Bits 1 to 6: all of enum rar_collective. */
	EXPECT_EQ(0xfe, caps.collectives);
	/* modes_calls tests dtypes[0], the flags. */
	for (int i = RAR_SUM; i < 16; i++) {
		/* Bits 1 to 12 are all types; floats have no bitwise or logical reductions. */
		uint32_t floats = 1 << RAR_F32 | 1 << RAR_F64 | 1 << RAR_F16 | 1 << RAR_BF16;
		uint32_t all = i > RAR_AVG ? 0 : 0x1ffe;

		EXPECT_EQ(i <= RAR_MAX || i == RAR_AVG ? all : all & ~floats, caps.dtypes[i]);
	}
}

/* A short buffer gets a prefix, a long buffer the structure that the kernel has. */
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
	static const socklen_t lengths[] = { 4, 13, 24, 100, 1024 };
	unsigned char full[1024], part[1024];
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
			/* the first 24 bytes hold no time and no counter that changes */
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
	{ "rx_path", "", "tcp", "auto" },
	{ "window", "0", "-1", "1048576" },
	{ "mem", "0", "-1", "8388608" },
	{ "early_bytes", "-1", "99999999999", "1048576" },
	{ "copy_step", "-1", "1073741825", "65536" },
	{ "join_ms", "0", "-1", "5000" },
	{ "dead_ms", "0", "-1", "3000" },
	{ "linger_ms", "-1", "99999999999", "1000" },
	{ "max_members", "-1", "99999999999", "7" },
	{ "super_chunks", "0", "65", "64" },
	{ "local", "-1", "2", "0" },
	{ "carriers", "-1", "2", "0" },
	{ "lanes", "0", "9", "4" },
	{ "direct_bytes", "-1", "65537", "65536" },
	{ "halving_bytes", "-1", "16777217", "1048576" },
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
	/* every namespace has its own sysctls */
	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_read("port", after, sizeof(after)));
	EXPECT_STREQ("18118", after);
	ASSERT_EQ(0, sysctl_read("rx_path", after, sizeof(after)));
	EXPECT_STREQ("auto", after);
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
	/* a namespace does not see another namespace's counters */
	ASSERT_EQ(0, rar_private_net());
	EXPECT_EQ(0, rar_counter("RarGroupsJoined"));
}

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
