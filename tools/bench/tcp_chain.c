// SPDX-License-Identifier: GPL-2.0
/*
 * The chain over TCP: sums travel from rank 0 to the last rank, which sends complete sums
 * back at once. It has half as many messages as the ring, each with the whole vector. So it
 * is better where the CPUs are few or the vector is short.
 */
#include <errno.h>
#include <poll.h>
#include <sys/types.h>

#include "tcp.h"

/* How far each of the four streams has come, in bytes. */
struct chain {
	struct tcp *tcp;
	char *buf;
	size_t bytes;
	enum bench_type type;
	size_t added;		/* partial sums from the previous rank */
	size_t passed;		/* partial sums sent to the next rank */
	size_t stored;		/* complete sums from the next rank */
	size_t returned;	/* complete sums sent to the previous rank */
	struct tcp_rest rest;
};

static bool is_last(const struct chain *c)
{
	return c->tcp->next < 0;
}

static bool is_first(const struct chain *c)
{
	return c->tcp->prev < 0;
}

static ssize_t count(size_t *where, ssize_t n)
{
	if (n > 0)
		*where += n;
	return n;
}

static ssize_t pull_prev(struct chain *c)
{
	if (c->added == c->bytes)
		return 0;
	return count(&c->added, tcp_pull_add(c->tcp, c->tcp->prev, &c->rest, c->buf + c->added,
					     c->bytes - c->added, c->type));
}

static ssize_t push_next(struct chain *c)
{
	return count(&c->passed, tcp_push(c->tcp, c->tcp->next, c->buf + c->passed,
					  c->added - c->passed));
}

static ssize_t pull_next(struct chain *c)
{
	return count(&c->stored, tcp_pull(c->tcp, c->tcp->next, c->buf + c->stored,
					  c->bytes - c->stored));
}

static ssize_t push_prev(struct chain *c)
{
	return count(&c->returned, tcp_push(c->tcp, c->tcp->prev, c->buf + c->returned,
					    c->stored - c->returned));
}

/* Moves all bytes that can move now. Returns how many. */
static ssize_t move(struct chain *c)
{
	ssize_t (*const part[])(struct chain *) = { pull_prev, push_next, pull_next, push_prev };
	const bool has[] = { !is_first(c), !is_last(c), !is_last(c), !is_first(c) };
	ssize_t n, sum = 0;

	for (int i = 0; i < 4; i++) {
		n = has[i] ? part[i](c) : 0;
		if (n < 0)
			return n;
		sum += n;
		if (is_last(c))
			c->stored = c->added;
	}
	return sum;
}

static bool done(const struct chain *c)
{
	return c->stored == c->bytes && (is_last(c) || c->passed == c->bytes) &&
	       (is_first(c) || c->returned == c->bytes);
}

static int wait_for_more(struct chain *c)
{
	struct pollfd fds[] = {
		{ c->tcp->prev, c->added < c->bytes ? POLLIN : 0, 0 },
		{ c->tcp->next, c->stored < c->bytes ? POLLIN : 0, 0 },
	};

	if (c->returned < c->stored)
		fds[0].events |= POLLOUT;
	if (c->passed < c->added)
		fds[1].events |= POLLOUT;
	return tcp_wait(c->tcp, fds, 2);
}

static int stream(struct chain *c)
{
	ssize_t n;
	int err = 0;

	while (!err && !done(c)) {
		n = move(c);
		if (n < 0)
			return n;
		if (!n && !done(c))
			err = wait_for_more(c);
	}
	return err;
}

static int step_by_step(struct chain *c)
{
	struct tcp *t = c->tcp;
	int err = 0;

	if (!is_first(c))
		err = tcp_recv_all(t, t->prev, t->scratch, c->bytes);
	if (!err && !is_first(c))
		bench_add(c->type, c->buf, t->scratch, c->bytes);
	if (!err && !is_last(c))
		err = tcp_send_all(t->next, c->buf, c->bytes);
	if (!err && !is_last(c))
		err = tcp_recv_all(t, t->next, c->buf, c->bytes);
	if (!err && !is_first(c))
		err = tcp_send_all(t->prev, c->buf, c->bytes);
	return err;
}

int tcp_chain(struct tcp *t, void *buf, size_t bytes, enum bench_type type)
{
	struct chain c = { .tcp = t, .buf = buf, .bytes = bytes, .type = type };

	if (!t->chunk)
		return bytes <= TCP_MAX_CHUNK ? step_by_step(&c) : -EINVAL;
	if (is_first(&c))
		c.added = bytes;
	return stream(&c);
}
