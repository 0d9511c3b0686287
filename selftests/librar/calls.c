// SPDX-License-Identifier: GPL-2.0
/*
 * Calls: every collective, type and reduction against plain loops; requests in flight.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "librar_test.h"

/* -- data ------------------------------------------------------------------ */

/* Small whole numbers: every type holds them and their sums exactly. */
static int number(uint32_t rank, uint64_t i)
{
	return (rank * 5 + i * 3 + rank * i) % 4 + 1;
}

static void put(int dtype, void *p, uint64_t i, int x)
{
	switch (dtype) {
	case RAR_F32: ((float *)p)[i] = x; break;
	case RAR_F64: ((double *)p)[i] = x; break;
	case RAR_I32: case RAR_U32: ((uint32_t *)p)[i] = x; break;
	case RAR_I64: case RAR_U64: ((uint64_t *)p)[i] = x; break;
	case RAR_I8: case RAR_U8: ((uint8_t *)p)[i] = x; break;
	case RAR_I16: case RAR_U16: ((uint16_t *)p)[i] = x; break;
	case RAR_BF16: {
		float f = x;
		uint32_t bits;

		memcpy(&bits, &f, 4);
		((uint16_t *)p)[i] = bits >> 16;
		break;
	}
	case RAR_F16: {	/* 1 .. 2047 */
		int e = 31 - __builtin_clz(x);

		((uint16_t *)p)[i] = x ? (e + 15) << 10 | ((x << 10 >> e) & 1023) : 0;
		break;
	}
	}
}

static int combine(int redop, int a, int b)
{
	switch (redop) {
	case RAR_PROD: return a * b;
	case RAR_MIN: return a < b ? a : b;
	case RAR_MAX: return a > b ? a : b;
	case RAR_BAND: return a & b;
	case RAR_BOR: return a | b;
	case RAR_BXOR: return a ^ b;
	case RAR_LAND: return a && b;
	case RAR_LOR: return a || b;
	case RAR_LXOR: return !a != !b;
	}
	return a + b;
}

/* Element i of the reduction over all ranks. */
static int reduced(int redop, uint64_t i)
{
	int x = number(0, i);

	for (uint32_t r = 1; r < RANKS; r++)
		x = combine(redop, x, number(r, i));
	return x;
}

/* An average of whole numbers may be none: floats have the fraction. */
static void put_reduced(int dtype, int redop, void *p, uint64_t at, uint64_t i)
{
	double avg = reduced(RAR_SUM, i) / (double)RANKS;

	if (redop != RAR_AVG)
		put(dtype, p, at, reduced(redop, i));
	else if (dtype == RAR_F32)
		((float *)p)[at] = avg;
	else if (dtype == RAR_F64)
		((double *)p)[at] = avg;
	else
		put(dtype, p, at, reduced(RAR_SUM, i) / RANKS);
}

static bool float16(int dtype)
{
	return dtype == RAR_F16 || dtype == RAR_BF16;
}

/* -- collectives ----------------------------------------------------------- */

/* One kind of call, and what it is about to be compared with. */
struct kind {
	int collective, dtype, redop;
	uint64_t count;
	bool in_place;
	uint32_t root;
	uint32_t op_flags;
};

static uint64_t given_count(const struct kind *k)
{
	return k->collective == RAR_REDUCE_SCATTER ? k->count * RANKS : k->count;
}

static uint64_t got_count(const struct kind *k, uint32_t rank)
{
	if (k->collective == RAR_ALLGATHER)
		return k->count * RANKS;
	return k->collective == RAR_REDUCE && rank != k->root ? 0 : k->count;
}

static void put_want(const struct kind *k, uint32_t rank, void *p)
{
	for (uint64_t i = 0; i < got_count(k, rank); i++)
		switch (k->collective) {
		case RAR_ALLGATHER:
			put(k->dtype, p, i, number(i / k->count, i % k->count));
			break;
		case RAR_BROADCAST:
			put(k->dtype, p, i, number(k->root, i));
			break;
		case RAR_REDUCE_SCATTER:
			put_reduced(k->dtype, k->redop, p, i, rank * k->count + i);
			break;
		default:
			put_reduced(k->dtype, k->redop, p, i, i);
		}
}

/* The memory of a call in place: the share lies where the collective wants it. */
static void place(const struct kind *k, uint32_t rank, char *mem, char **src, char **dst)
{
	size_t block = k->count * rar_dtype_size(k->dtype);

	*src = *dst = mem;
	if (k->collective == RAR_ALLGATHER)
		*src = mem + rank * block;
	else if (k->collective == RAR_REDUCE_SCATTER)
		*dst = mem + rank * block;
}

static int one_call(rar_comm_t *c, const struct kind *k)
{
	size_t esize = rar_dtype_size(k->dtype), room = (k->count * RANKS + 1) * esize;
	uint32_t rank = rar_comm_rank(c);
	char *mem = malloc(room), *other = malloc(room), *want = malloc(room), *src, *dst;
	struct rar_call call = { .collective = k->collective, .dtype = k->dtype,
				 .redop = k->redop, .root = k->root, .count = k->count,
				 .op_flags = k->op_flags };
	rar_req_t req;
	int err;

	place(k, rank, mem, &src, &dst);
	if (!k->in_place) {
		src = mem;
		dst = other;
	}
	for (uint64_t i = 0; i < given_count(k); i++)
		put(k->dtype, src, i, number(rank, i));
	call.src = src;
	call.dst = dst;
	err = rar_start(c, &call, &req);
	if (!err)
		err = rar_wait(c, req, WAIT_MS);
	put_want(k, rank, want);
	if (!err && memcmp(dst, want, got_count(k, rank) * esize))
		err = -EBADE;
	if (err)
		printf("# rank %u: collective %d %s %s count %llu%s: %s\n", rank, k->collective,
		       rar_dtype_name(k->dtype), rar_redop_name(k->redop),
		       (unsigned long long)k->count, k->in_place ? " in place" : "",
		       err == -EBADE ? "wrong bits" : text(c, err));
	free(mem);
	free(other);
	free(want);
	return err;
}

static int kinds(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	int failed = 0, tried = 0;
	struct kind k = { .count = 100 };

	CHECK(c, "join");
	for (k.redop = RAR_SUM; k.redop < RAR_REDOP_NR; k.redop++)
		for (k.dtype = RAR_F32; k.dtype < RAR_DTYPE_NR; k.dtype++) {
			if (!rar_can(c, RAR_ALLREDUCE, k.dtype, k.redop, k.count))
				continue;
			/* their averages are tested elsewhere, with the bits of fractions */
			if (k.redop == RAR_AVG && float16(k.dtype))
				continue;
			tried++;
			k.collective = RAR_ALLREDUCE;
			failed += !!one_call(c, &k);
			k.collective = RAR_REDUCE_SCATTER;
			failed += !!one_call(c, &k);
		}
	rar_comm_free(c);
	CHECK(tried == 5 * 12 + 6 * 8 - 2, "%d combinations", tried);
	return failed != 0;
}

static int shapes(uint32_t rank)
{
	static const uint64_t counts[] = { 1, 3, 1000, LONG };
	rar_comm_t *c = join_all(rank);
	struct kind k = { .dtype = RAR_I32, .redop = RAR_SUM };
	int failed = 0;

	CHECK(c, "join");
	for (k.collective = RAR_ALLREDUCE; k.collective < RAR_BARRIER; k.collective++)
		for (int i = 0; i < 4; i++)
			for (int in_place = 0; in_place < 2; in_place++) {
				bool rooted = k.collective == RAR_BROADCAST ||
					      k.collective == RAR_REDUCE;

				k.count = counts[i];
				k.in_place = in_place;
				for (k.root = 0; k.root < (rooted ? RANKS : 1); k.root++)
					failed += !!one_call(c, &k);
			}
	failed += !!rar_barrier(c);
	k = (struct kind) { .collective = RAR_ALLREDUCE, .dtype = RAR_F64, .redop = RAR_SUM,
			    .count = LONG, .op_flags = RAR_OPF_IN_ORDER };
	failed += !!one_call(c, &k);
	k = (struct kind) { .collective = RAR_ALLREDUCE, .dtype = RAR_F64, .redop = RAR_SUM };
	failed += !!one_call(c, &k);	/* no elements */
	rar_comm_free(c);
	return failed != 0;
}

/* The short forms, with an array that they leave alone. */
static int short_forms(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	const int own[RANKS] = { 1, 2, 3, (int)rank };
	int all[RANKS * RANKS], sum[RANKS] = {}, one = -1;

	CHECK(c, "join");
	CHECK(!rar_allreduce(c, own, sum, RANKS, RAR_I32, RAR_MAX), "allreduce");
	CHECK(sum[0] == 1 && sum[3] == RANKS - 1, "allreduce");
	CHECK(!rar_reduce(c, own, sum, RANKS, RAR_I32, RAR_SUM, 2), "reduce");
	CHECK(rank != 2 || (sum[0] == RANKS && sum[3] == 6), "reduce");
	CHECK(!rar_broadcast(c, own, sum, RANKS, RAR_I32, 1) && sum[3] == 1, "broadcast");
	CHECK(!rar_allgather(c, own, all, RANKS, RAR_I32), "allgather");
	for (int r = 0; r < RANKS; r++)
		CHECK(all[r * RANKS + 3] == r, "allgather, rank %d", r);
	CHECK(!rar_reduce_scatter(c, own, &one, 1, RAR_I32, RAR_SUM), "reduce-scatter");
	CHECK(one == (rank == 3 ? 6 : own[rank] * RANKS), "reduce-scatter: %d", one);
	CHECK(own[0] == 1 && own[3] == (int)rank, "the contribution was written to");
	rar_comm_free(c);
	return 0;
}

/* The bits of an element before and after a group of one has reduced it. */
struct lone {
	int dtype, redop;
	uint64_t x, want;
};

static const struct lone lones[] = {
	{ RAR_I32, RAR_SUM, 7, 7 },
	{ RAR_I32, RAR_BXOR, 7, 7 },
	{ RAR_I32, RAR_LAND, 7, 1 },
	{ RAR_U64, RAR_LOR, 1ull << 63, 1 },
	{ RAR_I8, RAR_LXOR, 0x80, 1 },
	{ RAR_U16, RAR_LXOR, 0, 0 },
	{ RAR_F32, RAR_SUM, 0x7f800001, 0x7fc00001 },
	{ RAR_F32, RAR_MAX, 0xff800123, 0xffc00123 },
	{ RAR_F32, RAR_AVG, 0x80000000, 0x80000000 },
	{ RAR_F64, RAR_PROD, 0x7ff0000000000001, 0x7ff8000000000001 },
	{ RAR_F64, RAR_MIN, 0x8000000000000001, 0x8000000000000001 },
	{ RAR_F16, RAR_MIN, 0xfd01, 0xff01 },
	{ RAR_BF16, RAR_SUM, 0x7f81, 0x7fc1 },
};

static int lone_call(rar_comm_t *c, const struct lone *l, uint8_t collective, uint64_t count,
		     bool in_place)
{
	size_t esize = rar_dtype_size(l->dtype), bytes = count * esize;
	char *src = malloc(bytes), *dst = in_place ? src : malloc(bytes);
	struct rar_call call = { .collective = collective, .dtype = l->dtype, .redop = l->redop,
				 .count = count, .src = src, .dst = dst };
	rar_req_t req;
	int err;

	for (uint64_t i = 0; i < count; i++)
		memcpy(src + i * esize, &l->x, esize);
	err = rar_start(c, &call, &req);
	if (!err)
		err = rar_wait(c, req, WAIT_MS);
	for (uint64_t i = 0; i < count && !err; i++)
		if (memcmp(dst + i * esize, &l->want, esize))
			err = -EBADE;
	if (err)
		printf("# collective %d %s %s count %llu: %s\n", collective,
		       rar_dtype_name(l->dtype), rar_redop_name(l->redop),
		       (unsigned long long)count, err == -EBADE ? "wrong bits" : text(c, err));
	if (!in_place)
		free(dst);
	free(src);
	return err;
}

/* A group of one reduces its operand: a logical result is 0 or 1, and a NaN is quiet. */
static int group_of_one(uint32_t rank)
{
	static const uint8_t collectives[] = { RAR_ALLREDUCE, RAR_REDUCE, RAR_REDUCE_SCATTER };
	struct rar_opts opts = local_opts();
	struct rar_card card;
	int failed = 0;
	rar_comm_t *c;

	if (rank)
		return 0;
	CHECK(!rar_card_make(&opts, &card) && !rar_comm_start(&c, &card, 1, 0, &opts) &&
	      !rar_comm_ready(c, WAIT_MS), "join");
	for (size_t i = 0; i < sizeof(lones) / sizeof(*lones); i++)
		for (int j = 0; j < 3; j++)
			for (int in_place = 0; in_place < 2; in_place++) {
				failed += !!lone_call(c, &lones[i], collectives[j], 3, in_place);
				failed += !!lone_call(c, &lones[i], collectives[j], LONG, in_place);
			}
	rar_comm_free(c);
	return failed != 0;
}

/* Which NaN of several is kept: that of the partial sum, made quiet, whatever the reduction. */
static int nans(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	const uint32_t own = rank == 1 || rank == 2 ? 0x7f800010 + rank : 0x3f800000;
	const uint16_t half = rank == 1 || rank == 2 ? 0xfc10 + rank : 0x3c00;
	uint32_t x;
	uint16_t y;

	CHECK(c, "join");
	for (int redop = RAR_SUM; redop <= RAR_MAX; redop++) {
		CHECK(!rar_allreduce(c, &own, &x, 1, RAR_F32, redop), "f32");
		CHECK(x == 0x7fc00011, "f32, %s: %08x", rar_redop_name(redop), x);
		CHECK(!rar_allreduce(c, &half, &y, 1, RAR_F16, redop), "f16");
		CHECK(y == 0xfe11, "f16, %s: %04x", rar_redop_name(redop), y);
	}
	rar_comm_free(c);
	return 0;
}

/* -- requests -------------------------------------------------------------- */

#define MANY	200

static int requests(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	int64_t x[MANY];
	rar_req_t req = 0, last;
	int err;

	CHECK(c, "join");
	CHECK(rar_next(c, &req, 0) == -ENOENT, "nothing in flight");
	for (int i = 0; i < MANY; i++) {	/* more than fit in flight */
		x[i] = rank + i;
		CHECK(!start_sum(c, &x[i], 0, &req) && req == i + 1u, "start %d", i);
	}
	last = req;
	CHECK(rar_test(c, last + 1) == -EINVAL, "not started");
	for (rar_req_t want = 1; want <= 50; want++)
		CHECK(!rar_next(c, &req, WAIT_MS) && req == want, "in order");
	CHECK(!rar_wait(c, 100, WAIT_MS), "a later one");
	CHECK(!rar_test(c, 60) && !rar_test(c, 100), "earlier ones are complete");
	CHECK(!rar_next(c, &req, WAIT_MS) && req == 101, "waiting reports, too");
	CHECK(!rar_wait(c, last, -1), "the last");
	for (int i = 0; i < MANY; i++)
		CHECK(x[i] == RANKS * i + 6, "sum %d", i);
	sync_ranks();
	if (!rank) {		/* the others have not started it */
		CHECK(!start_sum(c, &x[0], 0, &req), "start");
		CHECK(rar_test(c, req) == -EAGAIN, "test");
		CHECK(rar_wait(c, req, 50) == -EAGAIN, "wait");
		CHECK(rar_next(c, &req, 20) == -EAGAIN, "next");
		for (err = 0; !err; )
			err = start_sum(c, &x[1], RAR_C_NOWAIT, &last);
		CHECK(err == -EAGAIN && last == req + 63, "64 in flight");
	}
	sync_ranks();
	for (int i = 0; i < 64 && rank; i++)
		CHECK(!start_sum(c, &x[i], 0, &last), "start");
	CHECK(!rar_wait(c, last, WAIT_MS), "all");
	rar_comm_free(c);
	return 0;
}

/* Rank 0 starts broadcasts until there is no room. Result: how many; *left: not complete. */
static int fill_up(rar_comm_t *c, int64_t *x, int *left)
{
	struct rar_call call = { .collective = RAR_BROADCAST, .dtype = RAR_I64, .count = 1,
				 .flags = RAR_C_NOWAIT, .src = x, .dst = x };
	rar_req_t req, next;
	int n = 0;

	while (n < 200 && !rar_start(c, &call, &req))
		n++;
	usleep(100000);		/* the root of a broadcast may have it before the others */
	for (*left = n; !rar_next(c, &next, 0); --*left)
		;
	return n;
}

/*
 * The share of a call that returns -EAGAIN is not moved to its place at every attempt. The others
 * get what the source holds at the attempt that succeeds.
 */
static int moved_once(uint32_t rank)
{
	static int from[LONG], to[LONG];
	struct rar_call call = { .collective = RAR_BROADCAST, .dtype = RAR_I32, .count = LONG,
				 .flags = RAR_C_NOWAIT, .src = from, .dst = to };
	rar_comm_t *c = join_all(rank);
	int64_t x = 7;
	rar_req_t req;
	int err, left;

	CHECK(c && !rar_barrier(c), "join");
	if (!rank) {
		shared->count = fill_up(c, &x, &left);
		printf("# %d broadcasts, %d not complete\n", shared->count, left);
		CHECK(rar_start(c, &call, &req) == -EAGAIN, "room");
		to[LONG / 2] = 5;
		for (int i = 0; i < 10; i++)
			CHECK(rar_start(c, &call, &req) == -EAGAIN, "room");
		CHECK(to[LONG / 2] == 5, "moved again");
		from[LONG / 2] = 3;
	}
	sync_ranks();
	for (int i = 0; i < shared->count && rank; i++)
		CHECK(!rar_broadcast(c, &x, &x, 1, RAR_I64, 0), "broadcast");
	while ((err = rar_start(c, &call, &req)) == -EAGAIN)
		usleep(100);
	CHECK(!err && !rar_wait(c, req, WAIT_MS), "%s", text(c, err));
	CHECK(to[LONG / 2] == 3 && x == 7, "%d", to[LONG / 2]);
	rar_comm_free(c);
	return 0;
}

/* The descriptor is readable when there is something to take. */
static int descriptor(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	struct pollfd p = { .events = POLLIN };
	int64_t x = 1;
	rar_req_t req;

	CHECK(c, "join");
	p.fd = rar_comm_fd(c);
	sync_ranks();
	CHECK(!poll(&p, 1, 0), "readable too early");
	sync_ranks();
	CHECK(!start_sum(c, &x, 0, &req), "start");
	CHECK(poll(&p, 1, WAIT_MS) == 1 && p.revents & POLLIN, "not readable");
	CHECK(!rar_test(c, req) && x == RANKS, "complete");
	CHECK(!poll(&p, 1, 0), "still readable");
	sync_ranks();		/* it is readable when a rank has left, too */
	rar_comm_free(c);
	return 0;
}

struct waiter {
	pthread_t thread;
	rar_comm_t *c;
	rar_req_t first;
	int err;
};

static void *wait_some(void *arg)
{
	struct waiter *w = arg;

	for (rar_req_t r = w->first; r <= MANY && !w->err; r += 4)
		do {	/* -EINVAL: it has not been started */
			w->err = rar_wait(w->c, r, r % 8 == 1 ? -1 : WAIT_MS);
			sched_yield();
		} while (w->err == -EINVAL);
	return NULL;
}

/* Threads wait for different requests, while another starts them. */
static int threads(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	struct waiter w[4] = {};
	static int64_t x[MANY];
	rar_req_t req;

	CHECK(c, "join");
	for (int i = 0; i < 4; i++) {
		w[i] = (struct waiter) { .c = c, .first = i + 1 };
		pthread_create(&w[i].thread, NULL, wait_some, &w[i]);
	}
	for (int i = 0; i < MANY; i++) {
		x[i] = i;
		CHECK(!start_sum(c, &x[i], 0, &req), "start");
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(w[i].thread, NULL);
		CHECK(!w[i].err, "thread %d: %s", i, text(c, w[i].err));
	}
	CHECK(!rar_wait(c, req, WAIT_MS), "all");
	for (int i = 0; i < MANY; i++)
		CHECK(x[i] == RANKS * i, "sum %d", i);
	rar_comm_free(c);
	return 0;
}

int check_sums(rar_comm_t *c, uint64_t count)
{
	struct kind k = { .collective = RAR_ALLREDUCE, .dtype = RAR_I32, .redop = RAR_SUM,
			  .count = count };

	return one_call(c, &k);
}

/* Ranks may pass different priorities. */
static int priorities(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	int64_t x[2] = { 1, 2 };
	struct rar_call call = { .collective = RAR_ALLREDUCE, .dtype = RAR_I64, .count = 2,
				 .src = x, .dst = x, .prio = rank * 85 };
	rar_req_t req;

	CHECK(c, "join");
	CHECK(!rar_start(c, &call, &req) && !rar_wait(c, req, WAIT_MS), "sum");
	CHECK(x[0] == RANKS && x[1] == 2 * RANKS, "sum");
	rar_comm_free(c);
	return 0;
}

static int formula(uint32_t rank)
{
	static const struct {
		double comm, comp, left, ref;
		uint32_t layer, layers;
		unsigned char want;
	} rows[] = {
		{ 1, 1, 1, 1, 0, 1, 128 }, { 2, 1, 1, 1, 0, 1, 144 }, { 1, 2, 1, 1, 0, 1, 112 },
		{ 1, 1, 4, 1, 0, 1, 96 }, { 1, 1, 1, 4, 0, 1, 160 }, { 1, 1, 1, 1, 1, 2, 136 },
		{ 1, 1, 1, 1, 12, 12, 144 }, { 1, 1, 1, 1, 13, 12, 144 }, { 3, 1, 5, 7, 3, 8, 167 },
		{ 1, 1e9, 1e9, 1, 0, 1, 1 }, { 1e300, 1e-300, 1e-300, 1e300, 1, 1, 255 },
		{ 0, 1, 0, 0, 0, 0, 128 }, { NAN, 1, INFINITY, 1, 0, 9, 128 }, { -1, 1, 1, 2, 0, 9, 144 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned char got = rar_priority(rows[i].comm, rows[i].comp, rows[i].left,
						 rows[i].ref, rows[i].layer, rows[i].layers);

		CHECK(got == rows[i].want, "rank %u, row %zu: %u", rank, i, got);
	}
	return 0;
}

const struct test call_tests[] = {
	{ "types and reductions", kinds },
	{ "collectives, lengths, places, roots", shapes },
	{ "short forms", short_forms },
	{ "a group of one", group_of_one },
	{ "NaNs", nans },
	{ "requests in flight", requests },
	{ "a share is moved once", moved_once },
	{ "the descriptor", descriptor },
	{ "threads", threads },
	{ "priorities", priorities },
	{ "the formula of priorities", formula },
	{}
};
