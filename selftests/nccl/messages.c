// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: their bytes and sizes, many in flight, on several connections, tested in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_test.h"

#define LONG	(16 * MIB)	/* more than sockets hold */
#define PART	(MIB / 2)	/* NCCL_REQUESTS of them as well */
#define ROOM	100		/* bytes that a receive is longer than the message */

static void fill_bytes(char *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = random_bits(seed, i / 8) >> i % 8 * 8;
}

/* Is this the message, and is nothing written behind it? */
static int check_bytes(const char *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == (char)(random_bits(seed, i / 8) >> i % 8 * 8), "byte %zu of %zu",
		      i, n);
	for (size_t i = n; i < n + ROOM; i++)
		CHECK(!p[i], "byte %zu behind %zu", i - n, n);
	return 0;
}

static int one_size(struct links *l, uint32_t rank, size_t size)
{
	char *out = malloc(size + 1), *in = calloc(1, size + ROOM);
	void *requests[2], *flush = in;
	long got[2];

	CHECK(out && in, "memory");
	fill_bytes(out, size, rank);
	CHECK(!net_irecv(l->receivers[0], 1, in, size + ROOM, &requests[0]) && requests[0],
	      "irecv");
	CHECK(!net_isend(l->senders[0], out, size, &requests[1]) && requests[1], "isend");
	net_wait(requests, got, 2);
	CHECK(got[0] == (long)size, "%ld of %zu bytes came", got[0], size);
	CHECK(got[1] == (long)size, "%ld of %zu bytes sent", got[1], size);
	if (check_bytes(in, size, (rank + RANKS - 1) % RANKS))
		return 1;
	CHECK(!net_iflush(l->receivers[0], in, size, &flush) && !flush, "iflush");
	free(out);
	free(in);
	return 0;
}

static int sizes(uint32_t rank)
{
	static const size_t all[] = { 0, 1, 7, 0, 4096, 65537, MIB, 5 * MIB + 3, 1 };
	struct nccl_properties_v12 p;
	struct links l;

	CHECK(!net_properties(0, &p), "properties");
	CHECK(!strcmp(p.name, "lo") && p.memory == NCCL_HOST_MEMORY && p.speed > 0 &&
	      p.max_recvs == 1 && p.max_comms >= RANKS && !p.device_type &&
	      p.consists_of.n == 1 && !p.consists_of.devices[0], "%s", p.name);
	CHECK(p.max_p2p_bytes >= LONG && p.max_coll_bytes >= LONG, "limits");
	if (open_links(rank, &l))
		return 1;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (one_size(&l, rank, all[i]))
			return 1;
	return close_links(&l);
}

/* -- many ------------------------------------------------------------------ */

#define EACH	24		/* messages of a connection */

/* What a rank sends and receives: request numbers are those of its messages. */
struct flight {
	size_t sent[LINKS * EACH], came[LINKS * EACH];
	char *out[LINKS * EACH], *in[LINKS * EACH];
	void *requests[2 * LINKS * EACH];
};

static size_t size_of(uint32_t rank, int k)
{
	return random_bits(rank, k) % (k % 3 ? 300 : 200000);
}

static uint64_t seed_of(uint32_t rank, int k)
{
	return 1000 + rank * LINKS * EACH + k;
}

/* Message @k, on connection k % LINKS. */
static int post(struct links *l, uint32_t rank, int k, struct flight *f)
{
	f->sent[k] = size_of(rank, k);
	f->came[k] = size_of((rank + RANKS - 1) % RANKS, k);
	f->out[k] = malloc(f->sent[k] + 1);
	f->in[k] = calloc(1, f->came[k] + ROOM);
	CHECK(f->out[k] && f->in[k], "memory");
	fill_bytes(f->out[k], f->sent[k], seed_of(rank, k));
	CHECK(!net_isend(l->senders[k % LINKS], f->out[k], f->sent[k], &f->requests[2 * k]) &&
	      f->requests[2 * k], "isend");
	CHECK(!net_irecv(l->receivers[k % LINKS], 1, f->in[k], f->came[k],
			 &f->requests[2 * k + 1]) && f->requests[2 * k + 1], "irecv");
	return 0;
}

static int check_all(uint32_t rank, struct flight *f, const int *order, const long *got)
{
	for (int n = 0; n < 2 * LINKS * EACH; n++) {
		int k = order[n] / 2;
		size_t size = order[n] % 2 ? f->came[k] : f->sent[k];

		CHECK(got[n] == (long)size, "message %d: %ld of %zu bytes", k, got[n], size);
		if (order[n] % 2 &&
		    check_bytes(f->in[k], size, seed_of((rank + RANKS - 1) % RANKS, k)))
			return 1;
	}
	for (int k = 0; k < LINKS * EACH; k++) {
		free(f->out[k]);
		free(f->in[k]);
	}
	return 0;
}

/* All messages of all connections are in flight, and are tested in a mixed order. */
static int connections(uint32_t rank)
{
	void *requests[2 * LINKS * EACH];
	int order[2 * LINKS * EACH];
	long got[2 * LINKS * EACH];
	struct flight f;
	struct links l;

	if (open_links(rank, &l))
		return 1;
	for (int k = 0; k < LINKS * EACH; k++)
		if (post(&l, rank, k, &f))
			return 1;
	for (int n = 0; n < 2 * LINKS * EACH; n++) {
		order[n] = (n * 35 + rank * 7) % (2 * LINKS * EACH);	/* each once */
		requests[n] = f.requests[order[n]];
	}
	net_wait(requests, got, 2 * LINKS * EACH);
	if (check_all(rank, &f, order, got))
		return 1;
	return close_links(&l);
}

/* -- limits ---------------------------------------------------------------- */

static char out[(NCCL_REQUESTS + 1) * PART], in[(NCCL_REQUESTS + 1) * PART];

static bool same_bytes(const char *p, size_t n, char byte)
{
	return *p == byte && !memcmp(p, p + 1, n - 1);
}

/*
 * A connection takes NCCL_REQUESTS requests, and a further one later. All are posted while no
 * rank receives, so none of the calls waits for the peer. When the last one is complete, all are.
 */
static int too_many(uint32_t rank)
{
	void *send[NCCL_REQUESTS + 1], *receive[NCCL_REQUESTS + 1], *both[2];
	int done, size, last = NCCL_REQUESTS - 1;
	struct links l;
	long got[2];

	if (open_links(rank, &l))
		return 1;
	for (int i = 0; i <= NCCL_REQUESTS; i++) {
		memset(out + i * PART, rank * 50 + i + 1, PART);
		CHECK(!net_isend(l.senders[0], out + i * PART, PART, &send[i]), "isend");
		CHECK(!send[i] == (i == NCCL_REQUESTS), "request %d", i);
	}
	CHECK(!net_test(send[last], &done, NULL) && !done, "sockets hold all");
	sync_ranks();
	for (int i = 0; i <= NCCL_REQUESTS; i++) {
		CHECK(!net_irecv(l.receivers[0], 1, in + i * PART, PART, &receive[i]),
		      "irecv");
		CHECK(!receive[i] == (i == NCCL_REQUESTS), "request %d", i);
	}
	both[0] = send[last];
	both[1] = receive[last];
	net_wait(both, got, 2);
	CHECK(got[0] == PART && got[1] == PART, "%ld, %ld bytes", got[0], got[1]);
	for (int i = 0; i < last; i++) {
		CHECK(!net_test(send[i], &done, &size) && done && size == PART, "send %d", i);
		CHECK(!net_test(receive[i], &done, &size) && done && size == PART,
		      "receive %d", i);
		CHECK(same_bytes(in + i * PART, PART, (rank + RANKS - 1) % RANKS * 50 + i + 1),
		      "receive %d", i);
	}
	CHECK(!net_isend(l.senders[0], out, 1, &both[0]) && both[0], "isend");
	CHECK(!net_irecv(l.receivers[0], 1, in, 1, &both[1]) && both[1], "irecv");
	net_wait(both, got, 2);
	CHECK(got[0] == 1 && got[1] == 1, "%ld, %ld bytes", got[0], got[1]);
	return close_links(&l);
}

/* Messages pass ones that no one receives, on another connection. */
static int overtake(uint32_t rank)
{
	void *held, *receive, *both[2];
	struct links l;
	long got[2];
	int done;

	if (open_links(rank, &l))
		return 1;
	memset(out, rank + 1, LONG);
	CHECK(!net_isend(l.senders[1], out, LONG, &held) && held, "isend");
	CHECK(!net_isend(l.senders[2], &rank, sizeof(rank), &both[0]) && both[0], "isend");
	CHECK(!net_irecv(l.receivers[2], 1, in, 100, &both[1]) && both[1], "irecv");
	net_wait(both, got, 2);
	CHECK(got[0] == 4 && got[1] == 4, "%ld, %ld bytes", got[0], got[1]);
	CHECK(!net_test(held, &done, NULL) && !done, "sockets hold all");
	sync_ranks();
	CHECK(!net_irecv(l.receivers[1], 1, in, LONG, &receive) && receive, "irecv");
	both[0] = held;
	both[1] = receive;
	net_wait(both, got, 2);
	CHECK(got[0] == LONG && got[1] == LONG, "%ld, %ld bytes", got[0], got[1]);
	CHECK(same_bytes(in, LONG, (rank + RANKS - 1) % RANKS + 1), "bytes");
	return close_links(&l);
}

const struct test message_tests[] = {
	{ "messages of all sizes", sizes, 0, 0 },
	{ "messages of several connections, in a mixed order", connections, 0, 0 },
	{ "as many messages as NCCL may have, and too many", too_many, 0, 0 },
	{ "messages pass those of another connection", overtake, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
