// SPDX-License-Identifier: GPL-2.0
/* socket() and bind(): which ranks, ports and groups a user may have, and how many. */
#include "sock.h"

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
	ROW(EINVAL, "bind: IPv4 address written as IPv6",
	    bind(fd, ADDR(.srar_af = AF_INET6,
			  .srar_addr = { [10] = 0xff, 0xff, 127, 0, 0, 1 }), LEN));
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
	ROW(EACCES, "mmap: to write",
	    (long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	ROW(EINVAL, "mmap: private", (long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
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
	/* none of these calls may have bound the socket */
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
	/* without an address connect() takes the port, when the route is known */
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

	/* close() frees the rank at once */
	b = rar_socket();
	ROW(0, "bind: rank free again", bind(b, ADDR(), LEN));
	close(b);
	group = 1;
	EXPECT_EQ(0, as_nobody(bind_as_nobody, &group));
}

/* bind() by an unprivileged user to a port that another member holds. Returns errno. */
static int bind_port_as_nobody(void *port)
{
	struct sockaddr *a = ADDR(.srar_group = 2, .srar_port = *(in_port_t *)port);

	return bind(rar_socket(), a, LEN) < 0 ? errno : 0;
}

/* As bind_port_as_nobody(), but connect() takes the port, as bind() names no address. */
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
		TH_LOG("a port that a member of root holds, by connect()");
	/* a namespace may allow these ports to all users */
	ASSERT_EQ(0, rar_write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "700"));
	EXPECT_EQ(0, as_nobody(bind_port_as_nobody, &port));
	EXPECT_EQ(EINPROGRESS, as_nobody(connect_port_as_nobody, &port));
	close(root);
}

TEST(bind_limit)
{
	int fd[3];

	ASSERT_EQ(0, rar_private_net());
	ASSERT_EQ(0, sysctl_write("max_members", "2"));
	for (int i = 0; i < 3; i++)
		fd[i] = rar_socket();
	ROW(0, "first", bind(fd[0], ADDR(.srar_group = 1), LEN));
	ROW(0, "second", bind(fd[1], ADDR(.srar_group = 2), LEN));
	ROW(ENOSPC, "third", bind(fd[2], ADDR(.srar_group = 3), LEN));
	close(fd[0]);
	ROW(0, "third, one closed", bind(fd[2], ADDR(.srar_group = 3), LEN));
}

/* A member that failed and binds again takes its own place, not another. */
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
 * A rank that does not send gives its predecessor no credit. The two must still hear each
 * other as often as a short dead_ms demands.
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

int main(int argc, char **argv)
{
	return sock_main(argc, argv);
}
