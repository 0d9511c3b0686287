// SPDX-License-Identifier: GPL-2.0
/*
 * A parameter server over TCP, as fast as we can make it: each rank sends its tensor to the
 * server and receives the sum.
 *
 * server serve N PORT ADDRESS: the server. One thread and epoll; what came is added at once,
 * with the widest registers; what all ranks have sent goes back to them while the rest is still
 * coming. A rank may begin the next operation while others receive the last one.
 * server rank CTL RANK N PORT ADDRESS: a rank. Sends and receives at the same time, in place.
 * Knob 0: bytes per call.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define CALL		(256u << 10)	/* bytes that the server receives in a call */
#define CONNECT_TRIES	200		/* 50 ms apart */

/* What a rank sends before its tensor. */
struct head {
	uint64_t bytes;
	uint32_t type;
	uint32_t number;	/* of the operation */
};

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static void no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Bytes moved, 0 if it would block, or -errno. */
static ssize_t moved(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* ------------------------------------------------------------ the server */

/*
 * struct sum - an operation at the server
 * @buf:   the sum so far; beyond @high nothing was stored yet
 * @room:  bytes of @buf
 * @bytes: of the tensor
 * @ready: all ranks have sent the bytes before it
 */
struct sum {
	char *buf;
	size_t room;
	size_t bytes;
	size_t high;
	size_t ready;
	enum bench_type type;
};

/*
 * struct client - a rank at the server
 * @head:  of the operation that it sends
 * @nhead: bytes of @head that have come
 * @in:    bytes of the tensor that were added
 * @held:  bytes of half an element, in @part
 * @out:   bytes of the sum that were sent, of operation @out_op
 */
struct client {
	int fd;
	struct head head;
	size_t nhead;
	size_t in;
	size_t held;
	char part[4];
	uint32_t out_op;
	size_t out;
	bool wants_out;
};

struct server {
	int poll;
	uint32_t n;
	struct client client[BENCH_RANKS];
	/* Nobody sends operation K + 2 before all have received operation K. */
	struct sum sum[2];
	char *scratch;
};

static struct sum *sum_of(struct server *s, uint32_t number)
{
	return &s->sum[number % 2];
}

/* A rank begins an operation; the first rank makes room for it. */
static int begin(struct server *s, const struct client *c)
{
	struct sum *sum = sum_of(s, c->head.number);
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (&s->client[i] != c && s->client[i].nhead == sizeof(struct head) &&
		    s->client[i].head.number == c->head.number)
			return 0;
	if (sum->room < c->head.bytes) {
		free(sum->buf);
		sum->room = c->head.bytes;
		sum->buf = malloc(sum->room);
		if (!sum->buf)
			return -ENOMEM;
	}
	sum->bytes = c->head.bytes;
	sum->type = c->head.type;
	sum->high = 0;
	sum->ready = 0;
	return 0;
}

/* Add whole elements at @off; beyond what came so far they are the sum. */
static void add(struct sum *sum, size_t off, const char *data, size_t len)
{
	size_t old = off < sum->high ? sum->high - off : 0;

	if (old > len)
		old = len;
	bench_add(sum->type, sum->buf + off, data, old);
	memcpy(sum->buf + off + old, data + old, len - old);
	if (off + len > sum->high)
		sum->high = off + len;
}

static void look_what_is_ready(struct server *s, uint32_t number)
{
	struct sum *sum = sum_of(s, number);
	size_t ready = sum->bytes;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		struct client *c = &s->client[i];
		bool here = c->nhead == sizeof(c->head) && c->head.number == number;
		bool past = c->nhead == sizeof(c->head) && c->head.number == number + 1;

		if (!past && (!here || c->in < ready))
			ready = here ? c->in : 0;
	}
	sum->ready = ready;
}

static void watch(struct server *s, struct client *c, bool out)
{
	struct epoll_event e = { .events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c };

	if (c->wants_out == out)
		return;
	c->wants_out = out;
	epoll_ctl(s->poll, EPOLL_CTL_MOD, c->fd, &e);
}

/* Send what is ready of the sum. */
static int send_sum(struct server *s, struct client *c)
{
	struct sum *sum = sum_of(s, c->out_op);
	ssize_t n;

	while (c->out < sum->ready) {
		n = moved(send(c->fd, sum->buf + c->out, sum->ready - c->out,
			       MSG_DONTWAIT | MSG_NOSIGNAL));
		if (n < 0)
			return n;
		if (!n)
			break;
		c->out += n;
	}
	watch(s, c, c->out < sum->ready);
	return 0;
}

static int send_sums(struct server *s)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < s->n && !err; i++)
		err = send_sum(s, &s->client[i]);
	return err;
}

static int read_head(struct server *s, struct client *c)
{
	ssize_t n = recv(c->fd, (char *)&c->head + c->nhead, sizeof(c->head) - c->nhead,
			 MSG_DONTWAIT);

	if (n <= 0)
		return n ? moved(n) : -ECONNRESET;
	c->nhead += n;
	if (c->nhead < sizeof(c->head))
		return 0;
	c->in = 0;
	c->held = 0;
	c->out = 0;
	c->out_op = c->head.number;
	return begin(s, c);
}

/* Take in what a rank has sent. */
static int take(struct server *s, struct client *c)
{
	struct sum *sum;
	size_t left, whole;
	ssize_t n;

	/* It begins an operation when it has the last sum. */
	if (c->nhead < sizeof(c->head) || c->in == c->head.bytes) {
		if (c->nhead == sizeof(c->head))
			c->nhead = 0;
		return read_head(s, c);
	}
	sum = sum_of(s, c->head.number);
	left = sum->bytes - c->in - c->held;
	memcpy(s->scratch, c->part, c->held);
	n = recv(c->fd, s->scratch + c->held, left < CALL ? left : CALL, MSG_DONTWAIT);
	if (n <= 0)
		return n ? moved(n) : -ECONNRESET;
	n += c->held;
	whole = n / 4 * 4;
	add(sum, c->in, s->scratch, whole);
	c->in += whole;
	c->held = n - whole;
	memcpy(c->part, s->scratch + whole, c->held);
	look_what_is_ready(s, c->head.number);
	return send_sums(s);
}

static int accept_all(struct server *s, const char *ip, uint16_t port)
{
	struct sockaddr_in self = at(ip, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)) || listen(fd, s->n))
		return -errno;
	for (uint32_t i = 0; i < s->n; i++) {
		struct client *c = &s->client[i];
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

		c->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (c->fd < 0)
			return -errno;
		no_delay(c->fd);
		if (epoll_ctl(s->poll, EPOLL_CTL_ADD, c->fd, &e))
			return -errno;
	}
	close(fd);
	return 0;
}

static int serve(uint32_t n, uint16_t port, const char *ip)
{
	static struct server s;
	struct epoll_event e[BENCH_RANKS];
	int err, i, ready;

	s.n = n;
	s.scratch = malloc(CALL + 4);
	s.poll = epoll_create1(EPOLL_CLOEXEC);
	err = accept_all(&s, ip, port);
	while (!err) {
		ready = epoll_wait(s.poll, e, BENCH_RANKS, -1);
		for (i = 0; i < ready && !err; i++) {
			struct client *c = e[i].data.ptr;

			if (e[i].events & EPOLLOUT)
				err = send_sum(&s, c);
			if (!err && e[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				err = take(&s, c);
		}
	}
	if (err != -ECONNRESET)
		fprintf(stderr, "server: %s\n", strerror(-err));
	return err != -ECONNRESET;
}

/* ------------------------------------------------------------ a rank */

struct rank {
	int fd;
	size_t call;
	uint32_t number;
};

static int connect_to(const char *ip, uint16_t port)
{
	struct sockaddr_in peer = at(ip, port);
	int fd;

	for (int i = 0; i < CONNECT_TRIES; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(fd, (struct sockaddr *)&peer, sizeof(peer))) {
			no_delay(fd);
			return fd;
		}
		close(fd);
		usleep(50000);
	}
	return -ETIMEDOUT;
}

static int prepare(struct bench_rank *r, const struct bench_job *job)
{
	((struct rank *)r->priv)->call = job->knob[0] ?: CALL;
	return 0;
}

/* The sum of the first bytes comes after this rank has sent them. */
static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	struct rank *p = r->priv;
	struct head head = { .bytes = bytes, .type = type, .number = p->number++ };
	size_t out = 0, in = 0;
	char *buf = r->buf;
	ssize_t n;

	if (send(p->fd, &head, sizeof(head), MSG_NOSIGNAL | MSG_MORE) != sizeof(head))
		return -EIO;
	while (in < bytes) {
		struct pollfd fds = { p->fd, POLLIN | (out < bytes ? POLLOUT : 0), 0 };

		if (poll(&fds, 1, -1) < 0)
			return -errno;
		if (fds.revents & POLLOUT) {
			n = moved(send(p->fd, buf + out, bytes - out < p->call ? bytes - out : p->call,
				       MSG_DONTWAIT | MSG_NOSIGNAL));
			if (n < 0)
				return n;
			out += n;
		}
		if (fds.revents & (POLLIN | POLLERR | POLLHUP)) {
			n = recv(p->fd, buf + in, bytes - in < p->call ? bytes - in : p->call,
				 MSG_DONTWAIT);
			if (!n || moved(n) < 0)
				return n ? -errno : -ECONNRESET;
			in += moved(n);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = { .prepare = prepare, .allreduce = allreduce };
	struct rank p = {};

	if (argc == 5 && !strcmp(argv[1], "serve"))
		return serve(atoi(argv[2]), atoi(argv[3]), argv[4]);
	if (argc != 7 || strcmp(argv[1], "rank")) {
		fprintf(stderr, "usage: server serve N PORT ADDRESS\n"
			"       server rank CTL RANK N PORT ADDRESS\n");
		return 2;
	}
	p.fd = connect_to(argv[6], atoi(argv[5]));
	if (p.fd < 0)
		return bench_refuse(argv[2], atoi(argv[3]), "no server at %s", argv[6]);
	return bench_serve(argv[2], atoi(argv[3]), &peer, &p);
}
