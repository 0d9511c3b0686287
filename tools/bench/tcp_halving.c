// SPDX-License-Identifier: GPL-2.0
/*
 * Rabenseifner's all-reduce over TCP: recursive halving, then recursive doubling. In each step of
 * halving a rank and a peer, whose numbers differ in one bit, split what both have: a rank sends
 * one half, and adds what comes to the other half. In the end each rank has the sum of one block.
 * Then the steps are undone, with complete sums. Ranks beyond a power of two do as in doubling: in
 * stage 0 the odd rank of a pair sends all it has, and in the end it gets all sums.
 *
 * Rank r calls block b number b ^ r. So all ranks have the same steps: the one between halves of m
 * blocks sends m .. 2m - 1 and adds 0 .. m - 1, and its reverse the other way round. Halving goes
 * from the last block to the first, and doubling from the first to the last. In this order a step
 * needs the blocks as the step before gets them, so that all steps run at the same time: bytes that
 * came in one step go out in the next one at once, while they are in the cache.
 */
#include <errno.h>
#include <poll.h>
#include <sys/types.h>

#include "tcp.h"

/* Both send before they receive: half of a small vector must fit between them. */
#define MAX_STEP	(32u << 10)

/* Consecutive blocks that a step sends or gets, and how far it is. */
struct flow {
	uint32_t first;
	uint32_t n;
	uint32_t done;		/* blocks */
	size_t offset;		/* in the block after these */
};

/**
 * struct step - what a rank does with one peer
 * @fd:       its socket; a step and its reverse have the same one
 * @adds:     of halving: adds, from the last block to the first
 * @writable: as far as is known
 * @readable: the same
 * @out, @in: what it sends and gets
 * @rest:     of @in
 */
struct step {
	int fd;
	bool adds;
	bool writable;
	bool readable;
	struct flow out;
	struct flow in;
	struct tcp_rest rest;
};

struct halving {
	struct tcp *tcp;
	char *buf;
	size_t bytes;
	enum bench_type type;
	uint32_t self;		/* number among the ranks that a power of two has */
	uint32_t blocks;	/* that power */
	uint32_t steps;
	struct step step[2 * TCP_STAGES];
};

/* ------------------------------------------------------------ blocks */

/* Where a block begins; blocks are as even as whole elements allow. */
static size_t border(const struct halving *h, uint32_t block)
{
	return (uint64_t)(h->bytes / 4) * block / h->blocks * 4;
}

static char *block_at(const struct halving *h, uint32_t number)
{
	return h->buf + border(h, number ^ h->self);
}

static size_t block_len(const struct halving *h, uint32_t number)
{
	return border(h, (number ^ h->self) + 1) - border(h, number ^ h->self);
}

static bool over(const struct flow *f)
{
	return f->done == f->n;
}

/* The i-th block of a flow, and the reverse. */
static uint32_t nth(const struct step *s, const struct flow *f, uint32_t i)
{
	return s->adds ? f->first + f->n - 1 - i : f->first + i;
}

static uint32_t place_of(const struct step *s, const struct flow *f, uint32_t number)
{
	return s->adds ? f->first + f->n - 1 - number : number - f->first;
}

static void advance(const struct halving *h, const struct step *s, struct flow *f, size_t n)
{
	f->offset += n;
	while (!over(f) && f->offset == block_len(h, nth(s, f, f->done))) {
		f->offset = 0;
		f->done++;
	}
}

/* Bytes of a block that the steps before this one have left as this one needs them. */
static size_t prepared(const struct halving *h, uint32_t i, uint32_t number)
{
	while (i--) {
		const struct step *s = &h->step[i];
		uint32_t place = place_of(s, &s->in, number);

		if (number < s->in.first || number >= s->in.first + s->in.n)
			continue;
		if (place >= s->in.done)
			return place == s->in.done ? s->in.offset : 0;
		break;
	}
	return block_len(h, number);
}

/* ------------------------------------------------------------ all steps at the same time */

/* The step that uses the same socket first. */
static const struct step *first_at(const struct halving *h, uint32_t i)
{
	uint32_t reverse = h->steps - 1 - i;

	return reverse < i ? &h->step[reverse] : NULL;
}

/* Bytes that a step can send now, without a look at the socket. */
static size_t to_send(const struct halving *h, uint32_t i)
{
	const struct step *s = &h->step[i], *first = first_at(h, i);

	if (over(&s->out) || (first && !over(&first->out)))
		return 0;
	return prepared(h, i, nth(s, &s->out, s->out.done)) - s->out.offset;
}

/* Bytes that it can take. All ranks add in the order of the steps. */
static size_t to_take(const struct halving *h, uint32_t i)
{
	const struct step *s = &h->step[i], *first = first_at(h, i);
	uint32_t number;

	if (over(&s->in) || (first && !over(&first->in)))
		return 0;
	number = nth(s, &s->in, s->in.done);
	return (s->adds ? prepared(h, i, number) : block_len(h, number)) - s->in.offset;
}

static size_t a_chunk(const struct halving *h, size_t len)
{
	return len < h->tcp->chunk ? len : h->tcp->chunk;
}

static ssize_t push(struct halving *h, uint32_t i)
{
	struct step *s = &h->step[i];
	size_t len = s->writable ? to_send(h, i) : 0;
	ssize_t n;

	if (!len)
		return 0;
	n = tcp_push(h->tcp, s->fd, block_at(h, nth(s, &s->out, s->out.done)) + s->out.offset, len);
	if (n < 0)
		return n;
	s->writable = (size_t)n == a_chunk(h, len);
	advance(h, s, &s->out, n);
	return n;
}

static ssize_t pull(struct halving *h, uint32_t i)
{
	struct step *s = &h->step[i];
	size_t len = s->readable ? to_take(h, i) : 0;
	char *dst;
	ssize_t n;

	if (!len)
		return 0;
	dst = block_at(h, nth(s, &s->in, s->in.done)) + s->in.offset;
	if (s->adds)
		n = tcp_pull_add(h->tcp, s->fd, &s->rest, dst, len, h->type);
	else
		n = tcp_pull(h->tcp, s->fd, dst, len);
	if (n < 0)
		return n;
	s->readable = (size_t)n == a_chunk(h, len);
	advance(h, s, &s->in, n);
	return n;
}

/* Moves what can move now. Returns how many bytes. */
static ssize_t move(struct halving *h)
{
	ssize_t in, out, sum = 0;

	for (uint32_t i = 0; i < h->steps; i++) {
		in = pull(h, i);
		out = push(h, i);
		if (in < 0 || out < 0)
			return in < 0 ? in : out;
		sum += in + out;
	}
	return sum;
}

static int wait_for_more(struct halving *h)
{
	struct pollfd fds[2 * TCP_STAGES];
	int err;

	for (uint32_t i = 0; i < h->steps; i++) {
		fds[i] = (struct pollfd){ .fd = h->step[i].fd };
		fds[i].events = (to_take(h, i) ? POLLIN : 0) | (to_send(h, i) ? POLLOUT : 0);
		if (!fds[i].events)
			fds[i].fd = -1;
	}
	err = tcp_wait(h->tcp, fds, h->steps);
	for (uint32_t i = 0; i < h->steps && !err; i++) {
		h->step[i].readable |= !!(fds[i].revents & ~POLLOUT);
		h->step[i].writable |= !!(fds[i].revents & ~POLLIN);
	}
	return err;
}

static bool done(const struct halving *h)
{
	for (uint32_t i = 0; i < h->steps; i++)
		if (!over(&h->step[i].in) || !over(&h->step[i].out))
			return false;
	return true;
}

static int stream(struct halving *h)
{
	ssize_t n;
	int err = 0;

	while (!err && !done(h)) {
		n = move(h);
		if (n < 0)
			return n;
		if (!n)
			err = wait_for_more(h);
	}
	return err;
}

/* ------------------------------------------------------------ step by step */

/* The blocks of a flow lie side by side: where they begin, and how long they are. */
static char *whole(const struct halving *h, const struct flow *f, size_t *len)
{
	uint32_t block = f->n ? (f->first ^ h->self) / f->n * f->n : 0;

	*len = border(h, block + f->n) - border(h, block);
	return h->buf + border(h, block);
}

static int step_by_step(struct halving *h)
{
	struct tcp *t = h->tcp;
	int err = 0;

	for (uint32_t i = 0; i < h->steps && !err; i++) {
		const struct step *s = &h->step[i];
		size_t send, get;
		char *src = whole(h, &s->out, &send), *dst = whole(h, &s->in, &get);

		err = tcp_send_all(s->fd, src, send);
		if (!err)
			err = tcp_recv_all(t, s->fd, s->adds ? t->scratch : dst, get);
		if (!err && s->adds)
			bench_add(h->type, dst, t->scratch, get);
	}
	return err;
}

/* ------------------------------------------------------------ the plan */

static void add_step(struct halving *h, int fd, bool adds, struct flow out, struct flow in)
{
	struct step *s = &h->step[h->steps++];

	*s = (struct step){
		.fd = fd, .adds = adds, .out = out, .in = in, .readable = true, .writable = true,
	};
	advance(h, s, &s->out, 0);	/* blocks may be empty */
	advance(h, s, &s->in, 0);
}

static void plan(struct halving *h)
{
	const struct tcp *t = h->tcp;
	uint32_t pairs = tcp_pairs(t->size), stage;
	bool folded = t->rank < 2 * pairs, odd = folded && t->rank % 2;
	struct flow none = {}, all, low, high;

	h->blocks = t->size - pairs;
	h->self = folded ? t->rank / 2 : t->rank - pairs;
	all = (struct flow){ .n = h->blocks };
	if (folded)
		add_step(h, t->peer[0], true, odd ? all : none, odd ? none : all);
	stage = pairs > 0;
	for (uint32_t m = 1; !odd && 2 * m < h->blocks; m *= 2)
		stage++;
	for (uint32_t m = h->blocks / 2; !odd && m; m /= 2) {
		low = (struct flow){ .n = m };
		high = (struct flow){ .first = m, .n = m };
		add_step(h, t->peer[stage--], true, high, low);
	}
	for (uint32_t m = 1; !odd && m < h->blocks; m *= 2) {
		low = (struct flow){ .n = m };
		high = (struct flow){ .first = m, .n = m };
		add_step(h, t->peer[++stage], false, low, high);
	}
	if (folded)
		add_step(h, t->peer[0], false, odd ? none : all, odd ? all : none);
}

int tcp_halving(struct tcp *t, void *buf, size_t bytes, enum bench_type type)
{
	struct halving h = { .tcp = t, .buf = buf, .bytes = bytes, .type = type };

	plan(&h);
	if (t->chunk)
		return stream(&h);
	return bytes <= 2 * MAX_STEP ? step_by_step(&h) : -EINVAL;
}
