// SPDX-License-Identifier: GPL-2.0
/*
 * tcp ring|chain|halving|doubling CTL RANK N PORT: a rank of the TCP contestants (see tcp.h), at
 * 10.77.0.(RANK + 1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp.h"

#define CONNECT_NS	20000000000ull

/* Whom a rank has connections to. */
enum shape {
	RING,		/* both neighbours */
	CHAIN,		/* the same, without one between the last rank and the first */
	PEERS,		/* the peers of its stages */
};

struct kind {
	const char *name;
	enum shape shape;
	int (*allreduce)(struct tcp *t, void *buf, size_t bytes, enum bench_type type);
};

static const struct kind kinds[] = {
	{ "ring", RING, tcp_ring },
	{ "chain", CHAIN, tcp_chain },
	{ "halving", PEERS, tcp_halving },
	{ "doubling", PEERS, tcp_doubling },
};

#define KINDS	(sizeof(kinds) / sizeof(kinds[0]))

struct contestant {
	struct tcp tcp;
	const struct kind *kind;
	uint16_t port;
	uint64_t buffer;	/* socket buffers of the present connections, bytes */
};

/* ------------------------------------------------------------ moving bytes */

int tcp_send_all(int fd, const void *buf, size_t len)
{
	ssize_t n;

	for (; len; buf = (const char *)buf + n, len -= n) {
		n = send(fd, buf, len, MSG_NOSIGNAL);
		if (n < 0)
			return -errno;
	}
	return 0;
}

/* Receives; spins before it sleeps if the knob says so. */
static ssize_t recv_soon(struct tcp *t, int fd, void *buf, size_t len)
{
	uint64_t end = t->spin_ns ? bench_now_ns() + t->spin_ns : 0;
	ssize_t n = -1;

	while (end && n < 0 && bench_now_ns() < end)
		n = recv(fd, buf, len, MSG_DONTWAIT);
	return n < 0 ? recv(fd, buf, len, MSG_WAITALL) : n;
}

int tcp_recv_all(struct tcp *t, int fd, void *buf, size_t len)
{
	ssize_t n;

	for (; len; buf = (char *)buf + n, len -= n) {
		n = recv_soon(t, fd, buf, len);
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
	}
	return 0;
}

static ssize_t moved(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

ssize_t tcp_push(struct tcp *t, int fd, const void *buf, size_t len)
{
	if (!len)
		return 0;
	return moved(send(fd, buf, len < t->chunk ? len : t->chunk, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t tcp_pull(struct tcp *t, int fd, void *buf, size_t len)
{
	ssize_t n;

	if (!len)
		return 0;
	n = recv(fd, buf, len < t->chunk ? len : t->chunk, MSG_DONTWAIT);
	return n ? moved(n) : -ECONNRESET;
}

ssize_t tcp_pull_add(struct tcp *t, int fd, struct tcp_rest *rest, void *dst, size_t len,
		     enum bench_type type)
{
	size_t have = rest->len, whole;
	ssize_t n = tcp_pull(t, fd, t->scratch + have, len - have);

	if (n <= 0)
		return n;
	memcpy(t->scratch, rest->bytes, have);
	have += n;
	whole = have / 4 * 4;
	bench_add(type, dst, t->scratch, whole);
	rest->len = have - whole;
	memcpy(rest->bytes, t->scratch + whole, rest->len);
	return whole;
}

int tcp_wait(struct tcp *t, struct pollfd *fds, unsigned int n)
{
	uint64_t end = t->spin_ns ? bench_now_ns() + t->spin_ns : 0;
	int ready = 0;

	while (end && !ready && bench_now_ns() < end)
		ready = poll(fds, n, 0);
	if (!ready)
		ready = poll(fds, n, -1);
	return ready < 0 && errno != EINTR ? -errno : 0;
}

/* ------------------------------------------------------------ connections */

static struct sockaddr_in address(uint32_t rank, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a4d0000 + rank + 1),
	};
}

/* Sets the buffers before it connects, for the window scale; as root beyond the limits. */
static int new_socket(uint64_t buffer)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1, size = buffer;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (size && (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0 ||
		     setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)) {
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	return fd;
}

static int listen_at(const struct contestant *c, uint64_t buffer)
{
	struct sockaddr_in self = address(c->tcp.rank, c->port);
	int fd = new_socket(buffer);

	if (fd < 0)
		return fd;
	if (!bind(fd, (struct sockaddr *)&self, sizeof(self)) && !listen(fd, TCP_STAGES))
		return fd;
	close(fd);
	return -errno;
}

/* Connects to a rank, which may not listen yet. */
static int connect_to(const struct contestant *c, uint32_t rank, uint64_t buffer)
{
	struct sockaddr_in peer = address(rank, c->port);
	uint64_t end = bench_now_ns() + CONNECT_NS;
	int fd, err;

	do {
		fd = new_socket(buffer);
		if (fd < 0 || !connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
			return fd;
		err = -errno;
		close(fd);
		usleep(1000);
	} while (bench_now_ns() < end);
	return err;
}

static int accept_at(int listener)
{
	struct pollfd fds = { .fd = listener, .events = POLLIN };
	int on = 1, fd;

	if (poll(&fds, 1, CONNECT_NS / 1000000) <= 0)
		return -ETIMEDOUT;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void disconnect(struct tcp *t)
{
	if (t->prev >= 0)
		close(t->prev);
	if (t->next >= 0)
		close(t->next);
	for (int s = 0; s < TCP_STAGES; s++) {
		if (t->peer[s] >= 0)
			close(t->peer[s]);
		t->peer[s] = -1;
	}
	t->prev = -1;
	t->next = -1;
}

/* Takes a connection of a peer, whose first bytes tell the stage. */
static int accept_peer(struct tcp *t, int listener)
{
	uint32_t stage;
	int fd = accept_at(listener), err;

	if (fd < 0)
		return fd;
	err = tcp_recv_all(t, fd, &stage, sizeof(stage));
	if (err || stage >= TCP_STAGES)
		return err ? err : -EPROTO;
	t->peer[stage] = fd;
	return 0;
}

/* Every rank listens, connects to its peers with higher ranks, accepts the others. */
static int connect_peers(struct contestant *c, int listener, uint64_t buffer)
{
	struct tcp *t = &c->tcp;
	uint32_t accepts = 0;
	int peer, err = 0;

	for (uint32_t s = 0; !err; s++) {
		peer = tcp_doubling_peer(t->size, t->rank, s);
		if (peer < 0)
			break;
		accepts += (uint32_t)peer < t->rank;
		if ((uint32_t)peer <= t->rank)
			continue;
		t->peer[s] = connect_to(c, peer, buffer);
		err = t->peer[s] < 0 ? t->peer[s] : tcp_send_all(t->peer[s], &s, sizeof(s));
	}
	while (!err && accepts--)
		err = accept_peer(t, listener);
	return err;
}

/* Every rank listens, connects to its successor, accepts its predecessor. */
static int reconnect(struct contestant *c, uint64_t buffer)
{
	enum shape shape = c->kind->shape;
	struct tcp *t = &c->tcp;
	int listener, err = 0;

	disconnect(t);
	listener = listen_at(c, buffer);
	if (listener < 0)
		return listener;
	if (shape == PEERS)
		err = connect_peers(c, listener, buffer);
	else if (shape == RING || t->rank + 1 < t->size)
		err = t->next = connect_to(c, (t->rank + 1) % t->size, buffer);
	if (err >= 0 && (shape == RING || (shape == CHAIN && t->rank)))
		err = t->prev = accept_at(listener);
	close(listener);
	c->buffer = buffer;
	return err < 0 ? err : 0;
}

/* ------------------------------------------------------------ the contestant */

static bool connected(const struct tcp *t)
{
	bool any = t->prev >= 0 || t->next >= 0;

	for (int s = 0; s < TCP_STAGES; s++)
		any |= t->peer[s] >= 0;
	return any;
}

static int prepare(struct bench_rank *r, const struct bench_job *job)
{
	struct contestant *c = r->priv;
	uint64_t chunk = job->knob[TCP_CHUNK];

	c->tcp.chunk = chunk < TCP_MAX_CHUNK ? chunk : TCP_MAX_CHUNK;
	c->tcp.spin_ns = job->knob[TCP_SPIN_US] * 1000;
	if (c->tcp.size == 1 || (connected(&c->tcp) && c->buffer == job->knob[TCP_BUFFER]))
		return 0;
	return reconnect(c, job->knob[TCP_BUFFER]);
}

static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	struct contestant *c = r->priv;

	if (c->tcp.size == 1)
		return 0;
	return c->kind->allreduce(&c->tcp, r->buf, bytes, type);
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = { .prepare = prepare, .allreduce = allreduce };
	struct contestant c = { .tcp = { .prev = -1, .next = -1 } };

	for (size_t i = 0; argc == 6 && i < KINDS; i++)
		if (!strcmp(argv[1], kinds[i].name))
			c.kind = &kinds[i];
	if (!c.kind) {
		fprintf(stderr, "usage: tcp ring|chain|halving|doubling CTL RANK N PORT\n");
		return 2;
	}
	memset(c.tcp.peer, -1, sizeof(c.tcp.peer));
	c.tcp.rank = atoi(argv[3]);
	c.tcp.size = atoi(argv[4]);
	c.port = atoi(argv[5]);
	c.tcp.scratch = malloc(TCP_MAX_CHUNK + 8);
	return bench_serve(argv[2], c.tcp.rank, &peer, &c);
}
