/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the flags of an operation (RAR_OPF_*). An operation sums any part of a
 * long row of numbers, copied in one or several calls, in place or out of place. Every result
 * is compared with what the manual says about the numbers themselves.
 *
 * Without -N NETNS all ranks are on 127.0.0.1 of a namespace of their own; with it rank r is
 * in the namespace NETNSr.
 */
#ifndef RAR_MODES_H
#define RAR_MODES_H

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"
#include "oracle.h"
#include "quant.h"
#include "rar_util.h"
#if __has_include("../../samples/exact.h")
#include "../../samples/exact.h"
#define EXACT_TESTS	true
#endif

#define ROW		60000u		/* numbers that operations take parts of */
#define SHORT		61u		/* elements: one block, which ends inside a register */
#define LONG		9011u		/* elements: several blocks, even with one byte each */
#define FLIGHT		6u		/* operations in flight */
#define GUARD		0x5a
#define SYNC_S		60
#define OF_ANY_ORDER	(RAR_OPF_EXACT | RAR_OPF_QUANT)

static struct rar_ring ring = { .where = RAR_ON_LO4 };

struct shared {
	struct rar_barrier barrier;
};

static struct shared *shared;

/* How a rank passes its contribution. */
enum how { COPIED, PIECES, IN_PLACE, OUT_OF_PLACE, HOWS };

/*
 * An operation on the numbers @first to @first + @n of the row. With OF_ANY_ORDER rank r
 * contributes what rank r + @turn would, and the last @idle of these ranks contribute zeros.
 */
struct job {
	uint64_t id;
	struct kind k;
	uint32_t flags;
	enum how how;
	uint32_t first;
	uint32_t n;
	uint32_t turn;
	uint32_t idle;
};

static const struct {
	const char *name;
	u8 size;
} types[RAR_DTYPE_NR] = {
	[RAR_F32] = { "f32", 4 },  [RAR_F64] = { "f64", 8 },
	[RAR_I32] = { "i32", 4 },  [RAR_I64] = { "i64", 8 },
	[RAR_I8]  = { "i8", 1 },   [RAR_U8]  = { "u8", 1 },
	[RAR_I16] = { "i16", 2 },  [RAR_U16] = { "u16", 2 },
	[RAR_U32] = { "u32", 4 },  [RAR_U64] = { "u64", 8 },
	[RAR_F16] = { "f16", 2 },  [RAR_BF16] = { "bf16", 2 },
};

static inline struct kind kind_of(u8 dtype, u8 redop)
{
	return (struct kind){
		.name = types[dtype].name, .redop = redop, .dtype = dtype,
		.size = types[dtype].size, .frac = FRAC(dtype), .is_signed = SIGNED(dtype),
	};
}

static inline int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static inline size_t bytes_of(const struct job *j)
{
	return (size_t)j->n * j->k.size;
}

/* ------------------------------------------------------------ what the manual says */

/* Number @i of @rank: any bits; floats are mostly near 1, so that sums are rounded. */
static inline u64 number(const struct kind *k, uint32_t rank, uint32_t i)
{
	uint64_t state = rar_seed + rank * 1000003ull + i * 17ull + k->redop * 7919 + k->dtype;
	u64 x = rar_random(&state);

	if (k->redop >= RAR_LAND && x >> 62 == 0)
		return 0;
	if (k->frac && x >> 58)
		x = (x & ~inf_of(k)) | (bias_of(k) - (x >> 60 & 3)) << k->frac;
	return trim(k, x);
}

/* Number @i of @rank for sums in any order: ordinary, far apart, tiny, huge, special, cancelling ... */
static inline u32 exact_number(uint32_t rank, uint32_t i)
{
	uint64_t state = rar_seed + rank * 1000003ull + i * 29ull;
	u64 r = rar_random(&state);
	u32 sign = r & 0x80000000, frac = r >> 32 & 0x7fffff;

	switch (i / 700 % 8) {
	case 0:
		return sign | 127 << 23 | frac;
	case 1:
		return sign | (97 + (r >> 56) % 60) << 23 | frac;
	case 2:
		return sign | (r >> 60) / 12 << 23 | frac;
	case 3:
		return (i & 1 ? sign : 0) | 0x7f7fffff;
	case 4:
		return r >> 57 ? sign | 127 << 23 | frac : 0x7f800000 | sign | (frac & 3);
	case 5:
		return (rank & 1) << 31 | 150 << 23 | (frac & 0x7f0000) | (i & 0xff);
	case 6:
		return r >> 62 ? sign : sign | 100 << 23;
	default:
		return r;
	}
}

/* What a rank contributes to a job. */
static inline u64 contribution(const struct job *j, uint32_t rank, uint32_t i)
{
	if (!(j->flags & OF_ANY_ORDER))
		return number(&j->k, rank, i);
	rank = (rank + j->turn) % ring.size;
	return rank < ring.size - j->idle ? exact_number(rank, i) : 0;
}

/* The ranks from @start on reduce number @i in turn, as f32 if @wide. */
static inline u64 in_turn(const struct kind *k, bool wide, uint32_t start, uint32_t i)
{
	struct kind sum = wide ? oracle_f32 : *k;
	u64 x = number(k, start, i), y;

	sum.redop = k->redop;
	x = wide ? widened(k, x) : x;
	for (uint32_t r = 1; r < ring.size; r++) {
		y = number(k, (start + r) % ring.size, i);
		x = expect(&sum, x, wide ? widened(k, y) : y);
	}
	if (ring.size == 1)
		x = expect_alone(&sum, x);
	if (k->redop == RAR_AVG && ring.size > 1)
		x = expect_average(&sum, x, ring.size);
	return wide ? narrowed(k, x) : x;
}

/* Bytes of a number as it travels. */
static inline size_t travels(const struct job *j)
{
	return j->flags & RAR_OPF_WIDE ? 4 : j->k.size;
}

/* The rank with which number @at of a job begins without RAR_OPF_IN_ORDER. */
static inline uint32_t starts_at(const struct job *j, uint32_t at)
{
	uint32_t blocks = ring.hosts ?: ring.size, block;
	size_t bytes = j->n * travels(j), share = (bytes + blocks - 1) / blocks;

	if (j->flags & RAR_OPF_IN_ORDER || bytes <= 8192)
		return 0;
	block = at * travels(j) / ((share + 63) / 64 * 64);
	return ring.hosts ? ring.first[block] : block;
}

#ifdef EXACT_TESTS
/* The integer @sum of a block divided by the number of ranks, rounded once. */
static inline float exact_average(int64_t sum, struct exact_block b)
{
	float infinite = b.special ? exact_infinite(sum) : 0;
	_Float128 x = sum >> exact_counts(b);

	for (int unit = exact_unit(b); unit; unit += unit < 0 ? 1 : -1)
		x = unit < 0 ? x / 2 : x * 2;
	return infinite ? infinite : (float)(x / ring.size);
}

/* What samples/exact.c makes of numbers of one block: @n from @first on. */
static inline void want_block(const struct job *j, uint32_t first, uint32_t n, char *to)
{
	int64_t all[EXACT_BLOCK] = {}, one[EXACT_BLOCK];
	struct exact_block b = {}, own;
	float x[RAR_PROCS][EXACT_BLOCK], y[EXACT_BLOCK];

	for (uint32_t r = 0; r < ring.size - j->idle; r++) {
		for (uint32_t i = 0; i < n; i++) {
			u32 bits = exact_number(r, first + i);

			memcpy(&x[r][i], &bits, 4);
		}
		own = exact_scan(x[r], n);
		b.exponent = own.exponent > b.exponent ? own.exponent : b.exponent;
		b.special |= own.special;
	}
	for (uint32_t r = 0; r < ring.size - j->idle; r++) {
		exact_encode(one, x[r], n, b);
		for (uint32_t i = 0; i < n; i++)
			all[i] += one[i];
	}
	exact_decode(y, all, n, b);
	for (uint32_t i = 0; j->k.redop == RAR_AVG && i < n; i++)
		y[i] = exact_average(all[i], b);
	memcpy(to, y, 4 * n);
}

static inline void want_exact(const struct job *j, char *to)
{
	for (uint32_t i = 0; i < j->n; i += EXACT_BLOCK)
		want_block(j, j->first + i, j->n - i < EXACT_BLOCK ? j->n - i : EXACT_BLOCK,
			   to + 4 * i);
}
#else
#define want_exact(j, to)	((void)0)
#define EXACT_TESTS	false
#endif

/* What lib/quant.h makes of @n numbers of one block, from @first on. */
static inline void want_quant(const struct job *j, uint32_t first, uint32_t n, char *to)
{
	struct quant_block b = { .exponent = 1, .ranks = ring.size };
	uint32_t divisor = j->k.redop == RAR_AVG ? ring.size : 1;
	float x[RAR_PROCS][QUANT_BLOCK], y;
	int32_t sum;

	for (uint32_t r = 0; r < ring.size - j->idle; r++) {
		for (uint32_t i = 0; i < n; i++) {
			u32 bits = exact_number(r, first + i);

			memcpy(&x[r][i], &bits, 4);
		}
		quant_scan(&b, x[r], n);
	}
	for (uint32_t i = 0; i < n; i++) {
		sum = 0;
		for (uint32_t r = 0; r < ring.size - j->idle; r++)
			sum += quant_encode(x[r][i], b);
		y = quant_decode(sum, b, divisor);
		memcpy(to + 4 * i, &y, 4);
	}
}

static inline void want(const struct job *j, char *to)
{
	if (j->flags & RAR_OPF_EXACT) {
		want_exact(j, to);
		return;
	}
	for (uint32_t i = 0; j->flags & RAR_OPF_QUANT && i < j->n; i += QUANT_BLOCK)
		want_quant(j, j->first + i, j->n - i < QUANT_BLOCK ? j->n - i : QUANT_BLOCK,
			   to + 4 * i);
	if (j->flags & RAR_OPF_QUANT)
		return;
	for (uint32_t i = 0; i < j->n; i++)
		put(&j->k, to, i, in_turn(&j->k, j->flags & RAR_OPF_WIDE, starts_at(j, i),
					  j->first + i));
}

/* ------------------------------------------------------------ one operation */

static inline struct rar_op op_of(const struct job *j)
{
	struct rar_op op = rar_op_of(j->k.dtype, bytes_of(j), j->id);

	op.redop = j->k.redop;
	op.flags = j->flags;
	return op;
}

/* Send a contribution in calls that cut elements in two. */
static inline int send_pieces(int fd, const struct rar_op *op, const char *x, size_t len)
{
	size_t piece = len / 3 + 1, at = 0;
	int err = 0;

	for (; len - at > piece && !err; at += piece)
		err = rar_send(fd, x + at, piece, MSG_MORE, at ? NULL : op);
	return err ?: rar_send(fd, x + at, len - at, 0, at ? NULL : op);
}

/* @x: memory with the contribution; with OUT_OF_PLACE the result comes after it. */
static inline int post(int fd, const struct job *j, char *x)
{
	struct rar_op op = op_of(j);

	if (j->how == PIECES)
		return send_pieces(fd, &op, x, bytes_of(j));
	if (j->how == OUT_OF_PLACE)
		op.dst = (uintptr_t)(x + bytes_of(j));
	return rar_send(fd, x, bytes_of(j), j->how == COPIED ? 0 : MSG_ZEROCOPY, &op);
}

static inline int receive(int fd, const struct job *j, char *x)
{
	ssize_t len = j->how > PIECES ? 0 : bytes_of(j), n;
	struct rar_done done = {};

	n = rar_recv_all(fd, x, len, &done);
	RAR_CHECK(n == len, "op %llu: received %zd, not %zd", (unsigned long long)j->id, n, len);
	RAR_CHECK(done.cookie == j->id && !done.status && done.contributors == ring.size,
		  "cookie %llu", (unsigned long long)done.cookie);
	return 0;
}

static inline int verify(const struct job *j, const char *got)
{
	char *wanted = malloc(bytes_of(j) + 1);
	uint32_t i = 0;

	want(j, wanted);
	while (i < j->n && get(&j->k, got, i) == get(&j->k, wanted, i))
		i++;
	if (i < j->n)
		rar_log("op %llu: %s, redop %u, flags %x, mode %u: %u of %u + %u is %llx, not %llx",
			(unsigned long long)j->id, j->k.name, j->k.redop, j->flags, j->how, i,
			j->first, j->n, (unsigned long long)get(&j->k, got, i),
			(unsigned long long)get(&j->k, wanted, i));
	free(wanted);
	return i < j->n;
}

/* Memory for a contribution and another tensor, filled, and a guard byte after both. */
static inline char *memory_of(const struct job *j, uint32_t rank)
{
	char *x = malloc(2 * bytes_of(j) + 1);

	for (uint32_t i = 0; i < j->n; i++)
		put(&j->k, x, i, contribution(j, rank, j->first + i));
	memset(x + bytes_of(j), GUARD, bytes_of(j) + 1);
	return x;
}

static inline int collect(int fd, const struct job *j, char *x)
{
	bool apart = j->how == OUT_OF_PLACE;

	if (receive(fd, j, x) || verify(j, x + (apart ? bytes_of(j) : 0)))
		return 1;
	RAR_CHECK(x[2 * bytes_of(j)] == GUARD && (apart || !j->n || x[bytes_of(j)] == GUARD),
		  "op %llu wrote too much", (unsigned long long)j->id);
	return 0;
}

/* Run jobs, FLIGHT of them at a time. */
static inline int run_jobs(int fd, uint32_t rank, const struct job *jobs, uint32_t n)
{
	char *x[FLIGHT];
	int err = 0;

	for (uint32_t i = 0; i < n + FLIGHT && !err; i++) {
		if (i >= FLIGHT) {
			err = collect(fd, &jobs[i - FLIGHT], x[i % FLIGHT]);
			free(x[i % FLIGHT]);
		}
		if (i < n && !err) {
			x[i % FLIGHT] = memory_of(&jobs[i], rank);
			err = post(fd, &jobs[i], x[i % FLIGHT]);
			RAR_CHECK(!err, "rank %u: op %u: %s", rank, i, strerrorname_np(-err));
		}
	}
	return err;
}

/* Enter the namespace of a rank's host, which rar_run() does not know. */
static inline int enter_host(uint32_t rank)
{
	char netns[32];

	snprintf(netns, sizeof(netns), "%s%u", ring.netns, rar_host(&ring, rank));
	return ring.hosts ? rar_enter(netns) : 0;
}

static inline int open_rank(uint32_t rank)
{
	int fd = enter_host(rank) ?: rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

/* ------------------------------------------------------------ tests */

struct test {
	const char *name;
	uint32_t ranks;
	rar_rank_fn fn;
	const void *arg;
	uint32_t hosts;			/* 2, or 0: not by hosts */
	int lost;			/* ranks that end by a signal */
};

#define TEST(name_, ranks_, fn_, ...) { .name = name_, .ranks = ranks_, .fn = fn_, ##__VA_ARGS__ }

static inline void run_test(const struct test *t, uint32_t n)
{
	static const uint32_t first[] = { 0, 2 };
	uint64_t start = rar_now_us();
	int failed;

	/* Hosts have an address each. */
	if ((t->hosts && !ring.netns) || (!EXACT_TESTS && strstr(t->name, "exact"))) {
		ksft_test_result_skip("%s\n", t->name);
		return;
	}
	ring.group = n + 1;
	ring.size = t->ranks;
	ring.hosts = t->hosts;
	ring.first = t->hosts ? first : NULL;
	ring.schedule = t->hosts ? RAR_BY_HOSTS : RAR_BY_RANKS;
	memset(&shared->barrier, 0, sizeof(shared->barrier));
	failed = rar_run(ring.size, t->hosts ? NULL : ring.netns, 120, t->fn, (void *)t->arg);
	ksft_test_result(failed == t->lost, "%s, %u ranks\n", t->name, t->ranks);
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
}

/* Run the tests whose names contain an argument of the program, or all. */
static inline void run_tests(int argc, char **argv, const struct test *tests, uint32_t n)
{
	int c;

	while ((c = getopt(argc, argv, "N:")) != -1)
		ring.netns = c == 'N' ? optarg : ring.netns;
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	rar_begin();
	if (!ring.netns && rar_private_net())
		ksft_exit_skip("needs root\n");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(n);
	for (uint32_t i = 0; i < n; i++)
		if (!argv[optind] || strstr(tests[i].name, argv[optind]))
			run_test(&tests[i], i);
		else
			ksft_test_result_skip("%s\n", tests[i].name);
	ksft_finished();
}

#endif /* RAR_MODES_H */
