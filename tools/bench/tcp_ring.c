// SPDX-License-Identifier: GPL-2.0
/*
 * The ring over TCP: reduce-scatter, then all-gather. In step s a rank sends block
 * rank - s and receives block rank - s - 1, which it sends in the next step. So bytes
 * that come in go out again one block later in the stream.
 */
#include <errno.h>
#include <poll.h>
#include <sys/types.h>

#include "tcp.h"

/* A place in a stream of blocks. */
struct place {
	uint32_t step;
	size_t offset;		/* in its block */
};

struct ring {
	struct tcp *tcp;
	char *buf;
	size_t bytes;
	enum bench_type type;
	uint32_t steps;
	struct place in, out;
	struct tcp_rest rest;
};

/* Where a block begins; blocks are as even as whole elements allow. */
static size_t border(const struct ring *g, uint32_t block)
{
	return (uint64_t)(g->bytes / 4) * block / g->tcp->size * 4;
}

static uint32_t block_of(const struct ring *g, uint32_t behind)
{
	return (g->tcp->rank + 2 * g->tcp->size - behind) % g->tcp->size;
}

static char *block_at(const struct ring *g, uint32_t block)
{
	return g->buf + border(g, block);
}

static size_t block_len(const struct ring *g, uint32_t block)
{
	return border(g, block + 1) - border(g, block);
}

static void advance(const struct ring *g, struct place *p, uint32_t behind, size_t n)
{
	p->offset += n;
	while (p->step < g->steps && p->offset == block_len(g, block_of(g, p->step + behind))) {
		p->offset = 0;
		p->step++;
	}
}

static ssize_t pull(struct ring *g)
{
	struct tcp *t = g->tcp;
	uint32_t block = block_of(g, g->in.step + 1);
	char *dst = block_at(g, block) + g->in.offset;
	size_t left = block_len(g, block) - g->in.offset;
	ssize_t n;

	if (g->in.step == g->steps)
		return 0;
	if (g->in.step < t->size - 1)
		n = tcp_pull_add(t, t->prev, &g->rest, dst, left, g->type);
	else
		n = tcp_pull(t, t->prev, dst, left);
	if (n > 0)
		advance(g, &g->in, 1, n);
	return n;
}

/* Bytes that may go out: of the own block all, of other blocks those that have come. */
static size_t ready(const struct ring *g)
{
	size_t len;

	if (g->out.step == g->steps)
		return 0;
	len = block_len(g, block_of(g, g->out.step));
	if (g->in.step + 1 == g->out.step)
		len = g->in.offset;
	return len - g->out.offset;
}

static ssize_t push(struct ring *g)
{
	char *src = block_at(g, block_of(g, g->out.step)) + g->out.offset;
	ssize_t n = tcp_push(g->tcp, g->tcp->next, src, ready(g));

	if (n > 0)
		advance(g, &g->out, 0, n);
	return n;
}

static int stream(struct ring *g)
{
	struct tcp *t = g->tcp;
	ssize_t in, out;
	int err = 0;

	while (!err && (g->in.step < g->steps || g->out.step < g->steps)) {
		in = pull(g);
		out = push(g);
		if (in < 0 || out < 0)
			return in < 0 ? in : out;
		if (!in && !out) {
			struct pollfd fds[] = {
				{ g->in.step < g->steps ? t->prev : -1, POLLIN, 0 },
				{ ready(g) ? t->next : -1, POLLOUT, 0 },
			};

			err = tcp_wait(t, fds, 2);
		}
	}
	return err;
}

/*
 * Does one block after the other. All ranks may be sending at the same time, so at least
 * one block must fit between two ranks, also in the smallest socket buffers.
 */
#define MAX_STEP	(32u << 10)

static int step_by_step(struct ring *g)
{
	struct tcp *t = g->tcp;
	int err = 0;

	for (uint32_t s = 0; s < g->steps && !err; s++) {
		uint32_t out = block_of(g, s), in = block_of(g, s + 1);
		bool add = s < t->size - 1;

		err = tcp_send_all(t->next, block_at(g, out), block_len(g, out));
		if (!err)
			err = tcp_recv_all(t, t->prev, add ? t->scratch : block_at(g, in),
					   block_len(g, in));
		if (!err && add)
			bench_add(g->type, block_at(g, in), t->scratch, block_len(g, in));
	}
	return err;
}

int tcp_ring(struct tcp *t, void *buf, size_t bytes, enum bench_type type)
{
	struct ring g = {
		.tcp = t, .buf = buf, .bytes = bytes, .type = type,
		.steps = 2 * (t->size - 1),
	};

	if (!t->chunk)
		return bytes / t->size <= MAX_STEP ? step_by_step(&g) : -EINVAL;
	advance(&g, &g.in, 1, 0);	/* blocks may be empty */
	advance(&g, &g.out, 0, 0);
	return stream(&g);
}
