// SPDX-License-Identifier: GPL-2.0
/*
 * Recursive doubling over TCP: in stage s two ranks whose numbers differ in bit s exchange their data,
 * and both add. Of 2^k + e ranks the first e pairs count as one rank each: in stage 0 the odd rank
 * sends its data to the even rank, and in the end gets the sum by the same connection.
 */
#include <errno.h>
#include <sys/types.h>

#include "tcp.h"

/* Both send before they receive, so that much must fit between them. */
#define MAX_BYTES	(64u << 10)

uint32_t tcp_pairs(uint32_t size)
{
	uint32_t cores = 1;

	while (2 * cores <= size)
		cores *= 2;
	return size - cores;
}

int tcp_doubling_peer(uint32_t size, uint32_t rank, uint32_t stage)
{
	uint32_t pairs = tcp_pairs(size), core, other;

	if (pairs && !stage)
		return rank < 2 * pairs ? rank ^ 1 : rank;
	stage -= pairs > 0;
	if (1u << stage >= size - pairs)
		return -1;
	if (rank < 2 * pairs && rank % 2)
		return rank;
	core = rank < 2 * pairs ? rank / 2 : rank - pairs;
	other = core ^ 1u << stage;
	return other < pairs ? 2 * other : other + pairs;
}

static int take(struct tcp *t, int fd, void *buf, size_t bytes, enum bench_type type)
{
	int err = tcp_recv_all(t, fd, t->scratch, bytes);

	if (!err)
		bench_add(type, buf, t->scratch, bytes);
	return err;
}

int tcp_doubling(struct tcp *t, void *buf, size_t bytes, enum bench_type type)
{
	uint32_t pairs = tcp_pairs(t->size), s = pairs > 0;
	bool folded = t->rank < 2 * pairs, odd = folded && t->rank % 2;
	int err = 0;

	if (bytes > MAX_BYTES)
		return -EINVAL;
	if (odd) {
		err = tcp_send_all(t->peer[0], buf, bytes);
		return err ? err : tcp_recv_all(t, t->peer[0], buf, bytes);
	}
	if (folded)
		err = take(t, t->peer[0], buf, bytes, type);
	for (; !err && tcp_doubling_peer(t->size, t->rank, s) >= 0; s++) {
		err = tcp_send_all(t->peer[s], buf, bytes);
		if (!err)
			err = take(t, t->peer[s], buf, bytes, type);
	}
	return !err && folded ? tcp_send_all(t->peer[0], buf, bytes) : err;
}
