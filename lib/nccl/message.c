// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Messages from rank to rank: a TCP connection for each direction.
 *
 * A message is its length, in 8 bytes, and its bytes. Messages and receives meet in the order in
 * which they were posted. Every call moves as much of the oldest request as the socket takes or
 * has, then of the next, and so on; it never waits. NCCL uses a connection in one thread at a
 * time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugin.h"
#include "../src/librar.h"	/* deadlines */

#define AT_ONCE	(8u << 20)	/* bytes that a call moves before it returns */
#define LOOK_MS	1000		/* how often a connection that waits looks for its peer */
#define LOST_MS	5000		/* without a look for this time nothing is known */

/*
 * struct message - a request
 * @size:	bytes to send, or room for what comes
 * @len:	the length that is sent, or came
 * @moved:	bytes sent or received, with those of the length
 * @done:	NCCL has not asked yet
 */
struct message {
	struct conn *conn;
	bool used, done;
	char *data;
	uint64_t size, len, moved;
};

/*
 * struct conn - a connection
 * @queue:	requests in their order; @first is the oldest that is not done
 * @error:	stays, and nothing more is moved
 *
 * Deadlines, see is_dead():
 * @look:	the next look at the peer
 * @lost:	without a look until then, they begin anew
 * @dead:	it must have acknowledged all by then
 */
struct conn {
	int fd;
	bool sends;
	nccl_result_t error;
	struct message messages[NCCL_REQUESTS];
	struct message *queue[NCCL_REQUESTS];
	uint64_t first, posted;
	int64_t look, lost, dead;
};

/* NULL: no memory. */
void *message_open(int fd, bool sends)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->sends = sends;
	for (int i = 0; i < NCCL_REQUESTS; i++)
		c->messages[i].conn = c;
	return c;
}

/* -- moving bytes ---------------------------------------------------------- */

/* One sendmsg(): bytes sent, or a negative errno. */
static ssize_t push(const struct conn *c, struct message *m)
{
	uint64_t at = m->moved < sizeof(m->len) ? 0 : m->moved - sizeof(m->len);
	uint64_t head = sizeof(m->len) - (m->moved - at);
	struct iovec iov[2] = {
		{ (char *)&m->len + (m->moved - at), head },
		{ m->data + at, m->len - at < AT_ONCE ? m->len - at : AT_ONCE },
	};
	struct msghdr msg = { .msg_iov = head ? iov : iov + 1, .msg_iovlen = head ? 2 : 1 };
	ssize_t n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

/* One recv(): bytes received, or a negative errno. */
static ssize_t pull(const struct conn *c, struct message *m)
{
	uint64_t at = m->moved - sizeof(m->len);
	ssize_t n;

	if (m->moved < sizeof(m->len))
		n = recv(c->fd, (char *)&m->len + m->moved, sizeof(m->len) - m->moved,
			 MSG_DONTWAIT);
	else
		n = recv(c->fd, m->data + at, m->len - at < AT_ONCE ? m->len - at : AT_ONCE,
			 MSG_DONTWAIT);
	return n < 0 ? -errno : n ? n : -EPIPE;
}

static bool is_whole(const struct message *m)
{
	return m->moved >= sizeof(m->len) && m->moved - sizeof(m->len) == m->len;
}

/* Is there room for what comes? */
static bool fits(struct conn *c, const struct message *m)
{
	if (c->sends || m->moved < sizeof(m->len) || m->len <= m->size)
		return true;
	c->error = refuse(NCCL_INVALID_USAGE,
			  "a message of %llu bytes came for a receive of %llu bytes",
			  (unsigned long long)m->len, (unsigned long long)m->size);
	return false;
}

static void lose(struct conn *c, int err)
{
	c->error = result_of(err);
	refuse(c->error, "%s a message: %s", c->sends ? "sending" : "receiving",
	       err == -EPIPE ? "the peer has closed the connection" : strerror(-err));
}

/*
 * Has the peer's host been silent for DEAD_S, while it always had something to acknowledge: bytes,
 * or a question whether there is room for more? Then TCP gives up only after many minutes, and its
 * keepalive does nothing. A host whose program does not read answers such questions.
 */
static bool is_dead(struct conn *c)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (rar_left_ms(c->look) || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	if (!rar_left_ms(c->lost) || (!info.tcpi_unacked && !info.tcpi_probes))
		c->dead = rar_deadline(DEAD_S * 1000);
	c->look = rar_deadline(LOOK_MS);
	c->lost = rar_deadline(LOST_MS);
	return !rar_left_ms(c->dead) && info.tcpi_last_ack_recv >= DEAD_S * 1000;
}

/* Move what can be moved now. */
static void move(struct conn *c)
{
	uint64_t budget = AT_ONCE;
	struct message *m;
	ssize_t n;

	while (c->first < c->posted && !c->error && budget) {
		m = c->queue[c->first % NCCL_REQUESTS];
		n = c->sends ? push(c, m) : pull(c, m);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN && !is_dead(c))
			return;
		if (n == -EAGAIN)
			n = -ETIMEDOUT;
		if (n < 0) {
			lose(c, n);
			return;
		}
		m->moved += n;
		budget -= (uint64_t)n < budget ? (uint64_t)n : budget;
		if (fits(c, m) && is_whole(m)) {
			m->done = true;
			c->first++;
		}
	}
}

/* -- requests -------------------------------------------------------------- */

/* *request is NULL if too many requests are in use: NCCL tries again later. */
static nccl_result_t post(struct conn *c, void *data, size_t size, void **request)
{
	struct message *m = c->messages;

	if (size && !data)
		return refuse(NCCL_INTERNAL_ERROR, "%zu bytes without an address", size);
	if (c->error)
		return c->error;
	while (m < c->messages + NCCL_REQUESTS && m->used)
		m++;
	if (m == c->messages + NCCL_REQUESTS)
		return NCCL_OK;
	*m = (struct message) { .conn = c, .used = true, .data = data, .size = size,
				.len = c->sends ? size : 0 };
	c->queue[c->posted++ % NCCL_REQUESTS] = m;
	*request = m;
	move(c);
	return NCCL_OK;		/* an error is told by the test */
}

nccl_result_t message_send(void *conn, void *data, size_t size, void **request)
{
	struct conn *c = conn;

	*request = NULL;
	if (!c || !c->sends)
		return refuse(NCCL_INTERNAL_ERROR, "isend() without a connection that sends");
	return post(c, data, size, request);
}

nccl_result_t message_receive(void *conn, void *data, size_t size, void **request)
{
	struct conn *c = conn;

	*request = NULL;
	if (!c || c->sends)
		return refuse(NCCL_INTERNAL_ERROR,
			      "irecv() without a connection that receives");
	return post(c, data, size, request);
}

nccl_result_t message_test(void *request, int *done, int *size)
{
	struct message *m = request;

	*done = 0;
	if (!m || !m->used)
		return refuse(NCCL_INTERNAL_ERROR, "test() of a request that is not in use");
	if (!m->done)
		move(m->conn);
	if (!m->done)
		return m->conn->error;
	if (size)
		*size = m->len < INT_MAX ? m->len : INT_MAX;
	m->used = false;
	*done = 1;
	return NCCL_OK;
}

/* Nothing is pinned: TCP copies. */
nccl_result_t message_reg(void *conn, int memory, void **mhandle)
{
	*mhandle = NULL;
	if (!conn)
		return refuse(NCCL_INTERNAL_ERROR, "regMr() without a connection");
	if (memory != NCCL_HOST_MEMORY)
		return refuse(NCCL_INTERNAL_ERROR, "only memory of the host can be used");
	return NCCL_OK;
}

nccl_result_t message_close(void *conn, bool sends)
{
	struct conn *c = conn;

	if (!c || c->sends != sends)
		return refuse(NCCL_INTERNAL_ERROR, "close%s() of something else",
			      sends ? "Send" : "Recv");
	close(c->fd);
	free(c);
	return NCCL_OK;
}
