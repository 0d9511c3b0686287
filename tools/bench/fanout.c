// SPDX-License-Identifier: GPL-2.0
/*
 * fanout tcp|udp CTL RANK N PORT: a broadcast without multicast, as programs write it: rank 0,
 * at 10.77.0.1, sends the data to each of the others in a loop.
 *
 * tcp: one connection to each. Knob 0: bytes after which the loop goes on to the next
 * receiver, 0: after all.
 * udp: datagrams of SEGMENT bytes, many in a call (UDP_SEGMENT, UDP_GRO), and straight into
 * the receiver's memory as long as they come in order. Each receiver acknowledges what it has
 * in order, once for each call. Knob 0: datagrams that may be on their way to a receiver. What
 * is not acknowledged in RESEND_MS is sent again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#define UDP_GRO		104
#endif

#define SEGMENT		1472u		/* a datagram for an MTU of 1500 */
#define BATCH		44u		/* datagrams in a call: up to 64 KiB */
#define BUFFER		(8 << 20)	/* bytes, of sockets */
#define RESEND_MS	20
#define GIVE_UP_NS	5000000000ull
#define CONNECT_TRIES	200		/* 50 ms apart */

struct head {
	uint32_t op;
	uint32_t number;		/* of the datagram, or datagrams acknowledged */
};

#define PAYLOAD		(SEGMENT - sizeof(struct head))

struct fan {
	int fd[BENCH_RANKS];		/* of each receiver; at a receiver only its own */
	uint32_t op;
};

static struct sockaddr_in address(uint32_t rank, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a4d0001 + rank),
	};
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		perror("setsockopt");
}

/* ------------------------------------------------------------ tcp */

static int whole(int fd, char *buf, size_t len, bool out)
{
	while (len) {
		ssize_t n = out ? send(fd, buf, len, MSG_NOSIGNAL) : recv(fd, buf, len, MSG_WAITALL);

		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		buf += n;
		len -= n;
	}
	return 0;
}

static int tcp_broadcast(struct bench_rank *r, size_t bytes)
{
	size_t step = r->ctl->job.knob[0] ?: bytes, len;
	struct fan *fan = r->priv;
	int err = 0;

	if (r->rank)
		return whole(fan->fd[r->rank], r->buf, bytes, false);
	for (size_t at = 0; at < bytes && !err; at += len) {
		len = bytes - at < step ? bytes - at : step;
		for (uint32_t to = 1; to < r->size && !err; to++)
			err = whole(fan->fd[to], (char *)r->buf + at, len, true);
	}
	return err;
}

static int tcp_listen(struct fan *fan, uint32_t n, uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	struct sockaddr_in self = address(0, port);
	uint32_t rank;

	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)) || listen(fd, n))
		return -errno;
	for (uint32_t i = 1; i < n; i++) {
		peer = accept(fd, NULL, NULL);
		if (peer < 0 || whole(peer, (char *)&rank, sizeof(rank), false) || rank >= n)
			return -EIO;
		fan->fd[rank] = peer;
		set(peer, IPPROTO_TCP, TCP_NODELAY, 1);
	}
	close(fd);
	return 0;
}

static int tcp_connect(struct fan *fan, uint32_t rank, uint16_t port)
{
	struct sockaddr_in root = address(0, port);
	int fd;

	for (int i = 0; i < CONNECT_TRIES; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(fd, (struct sockaddr *)&root, sizeof(root))) {
			fan->fd[rank] = fd;
			return whole(fd, (char *)&rank, sizeof(rank), true);
		}
		close(fd);
		usleep(50000);
	}
	return -ETIMEDOUT;
}

/* ------------------------------------------------------------ udp */

/* The datagrams from @first on, up to @n, as parts of the memory. Returns how many parts. */
static uint32_t parts(struct iovec *iov, struct head *heads, char *buf, size_t bytes,
		      uint32_t first, uint32_t n)
{
	uint32_t i = 0;

	for (uint32_t k = 0; k < n; k++) {
		size_t at = (first + k) * PAYLOAD;

		iov[i++] = (struct iovec){ &heads[k], sizeof(heads[k]) };
		iov[i++] = (struct iovec){ buf + at, bytes - at < PAYLOAD ? bytes - at : PAYLOAD };
	}
	return i;
}

static int send_batch(int fd, uint32_t op, char *buf, size_t bytes, uint32_t first, uint32_t n)
{
	struct iovec iov[2 * BATCH];
	struct head heads[BATCH];
	struct msghdr msg = { .msg_iov = iov };

	for (uint32_t k = 0; k < n; k++)
		heads[k] = (struct head){ op, first + k };
	msg.msg_iovlen = parts(iov, heads, buf, bytes, first, n);
	return sendmsg(fd, &msg, 0) < 0 ? -errno : 0;
}

/* Datagrams of the operation that a receiver has in order, after the acknowledgments so far. */
static uint32_t read_acks(int fd, uint32_t op, uint32_t acked)
{
	struct head ack;

	while (recv(fd, &ack, sizeof(ack), MSG_DONTWAIT) == sizeof(ack))
		if (ack.op == op && ack.number > acked)
			acked = ack.number;
	return acked;
}

/* One turn for one receiver: send what the window allows. Returns whether anything was sent. */
static bool serve(struct fan *fan, uint32_t to, char *buf, size_t bytes, uint32_t window,
		  uint32_t *sent, uint32_t acked)
{
	uint32_t total = (bytes + PAYLOAD - 1) / PAYLOAD, end = acked + window, n;

	end = end < total ? end : total;
	n = end > *sent ? end - *sent : 0;
	n = n < BATCH ? n : BATCH;
	if (!n || send_batch(fan->fd[to], fan->op, buf, bytes, *sent, n))
		return false;
	*sent += n;
	return true;
}

static int udp_root(struct bench_rank *r, size_t bytes)
{
	uint32_t total = (bytes + PAYLOAD - 1) / PAYLOAD, left = r->size - 1, was;
	uint32_t sent[BENCH_RANKS] = {}, acked[BENCH_RANKS] = {};
	uint64_t until = bench_now_ns() + GIVE_UP_NS;
	struct pollfd fds[BENCH_RANKS];
	struct fan *fan = r->priv;
	bool progress;

	while (left) {
		progress = false;
		left = 0;
		for (uint32_t to = 1; to < r->size; to++) {
			progress |= serve(fan, to, r->buf, bytes, r->ctl->job.knob[0], &sent[to],
					  acked[to]);
			was = acked[to];
			acked[to] = read_acks(fan->fd[to], fan->op, was);
			progress |= acked[to] != was;
			if (acked[to] < total)
				fds[left++] = (struct pollfd){ fan->fd[to], POLLIN, 0 };
		}
		if (progress)
			until = bench_now_ns() + GIVE_UP_NS;
		else if (bench_now_ns() > until)
			return -ETIMEDOUT;
		if (!progress && left && !poll(fds, left, RESEND_MS))
			memcpy(sent, acked, sizeof(sent));
	}
	return 0;
}

static int udp_receiver(struct bench_rank *r, size_t bytes)
{
	uint32_t total = (bytes + PAYLOAD - 1) / PAYLOAD, have = 0, room, n;
	struct fan *fan = r->priv;
	struct iovec iov[2 * BATCH];
	struct head heads[BATCH];
	struct msghdr msg = { .msg_iov = iov };
	int fd = fan->fd[r->rank];
	struct head ack;
	ssize_t len;

	while (have < total) {
		room = total - have < BATCH ? total - have : BATCH;
		msg.msg_iovlen = parts(iov, heads, r->buf, bytes, have, room);
		len = recvmsg(fd, &msg, 0);
		if (len < 0)
			return -errno;
		n = (len + SEGMENT - 1) / SEGMENT;
		for (uint32_t k = 0; k < n; k++)
			have += heads[k].op == fan->op && heads[k].number == have;
		ack = (struct head){ heads[0].op, heads[0].op == fan->op ? have : UINT32_MAX };
		if (send(fd, &ack, sizeof(ack), 0) < 0)
			return -errno;
	}
	return 0;
}

static int udp_broadcast(struct bench_rank *r, size_t bytes)
{
	struct fan *fan = r->priv;

	fan->op++;
	return r->rank ? udp_receiver(r, bytes) : udp_root(r, bytes);
}

/* A socket from one rank to another; both use the port of the receiver. */
static int udp_socket(uint32_t self, uint32_t peer, uint16_t port)
{
	struct sockaddr_in from = address(self, port), to = address(peer, port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER);
	set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER);
	set(fd, SOL_UDP, UDP_SEGMENT, SEGMENT);
	set(fd, SOL_UDP, UDP_GRO, 1);
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return -errno;
	return fd;
}

static int udp_open(struct fan *fan, uint32_t rank, uint32_t n, uint16_t port)
{
	for (uint32_t r = rank ?: 1; r < (rank ? rank + 1 : n); r++) {
		fan->fd[r] = udp_socket(rank, rank ? 0 : r, port + r);
		if (fan->fd[r] < 0)
			return fan->fd[r];
	}
	return 0;
}

/* ------------------------------------------------------------ both */

int main(int argc, char **argv)
{
	bool udp = argc == 6 && !strcmp(argv[1], "udp");
	struct bench_peer peer = { .broadcast = udp ? udp_broadcast : tcp_broadcast };
	uint32_t rank, n;
	struct fan fan = {};
	uint16_t port;
	int err;

	if (argc != 6) {
		fprintf(stderr, "usage: fanout tcp|udp CTL RANK N PORT\n");
		return 2;
	}
	rank = atoi(argv[3]);
	n = atoi(argv[4]);
	port = atoi(argv[5]);
	if (udp)
		err = udp_open(&fan, rank, n, port);
	else
		err = rank ? tcp_connect(&fan, rank, port) : tcp_listen(&fan, n, port);
	if (err)
		return bench_refuse(argv[2], rank, "connecting: %s", strerror(-err));
	return bench_serve(argv[2], rank, &peer, &fan);
}
