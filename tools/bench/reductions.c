// SPDX-License-Identifier: GPL-2.0
/*
 * reductions N BYTES ROUNDS: what a hop costs, by type and reduction. N ranks in the
 * namespaces rar0 ... rar(N - 1) do all-reduces in place, in registered memory. In each round
 * every reduction of every type has its turn, and so has its base, in odd rounds before it and
 * in even rounds after it. The base is the sum of the same type; for the sum of BF16 it is the
 * sum of F32. Fixed memory work is timed before and after both. Each element is 1, so all
 * results are known and no float is denormal.
 *
 *	hop REDOP DTYPE ROUND MARKER_NS NS BASE_NS	nanoseconds of an operation; the
 *							slower of the two markers
 *	no REDOP DTYPE					the module refuses it
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../selftests/lib/rar_util.h"
#include "bench.h"

#define MAX_RANKS	16u
#define SAMPLE_NS	20000000ull	/* a sample shall take so long */
#define MAX_TIMES	64u
#define MARKER_BYTES	(4u << 20)
#define SYNC_NS		60000000000ull
#define RUN_SECONDS	1700u

static const char * const redops[RAR_REDOP_NR] = {
	[RAR_SUM] = "SUM", [RAR_PROD] = "PROD", [RAR_MIN] = "MIN", [RAR_MAX] = "MAX",
	[RAR_BAND] = "BAND", [RAR_BOR] = "BOR", [RAR_BXOR] = "BXOR", [RAR_LAND] = "LAND",
	[RAR_LOR] = "LOR", [RAR_LXOR] = "LXOR", [RAR_AVG] = "AVG",
};

/* Types: bytes of an element, and the bits of small integers. */
enum format { INT, F16, BF16, F32, F64 };

static const struct type {
	const char *name;
	uint32_t size;
	enum format format;
} types[RAR_DTYPE_NR] = {
	[RAR_F32] = { "F32", 4, F32 },	 [RAR_F64] = { "F64", 8, F64 },
	[RAR_F16] = { "F16", 2, F16 },	 [RAR_BF16] = { "BF16", 2, BF16 },
	[RAR_I8] = { "I8", 1, INT },	 [RAR_U8] = { "U8", 1, INT },
	[RAR_I16] = { "I16", 2, INT },	 [RAR_U16] = { "U16", 2, INT },
	[RAR_I32] = { "I32", 4, INT },	 [RAR_U32] = { "U32", 4, INT },
	[RAR_I64] = { "I64", 8, INT },	 [RAR_U64] = { "U64", 8, INT },
};

static struct rar_ring ring = { .group = 1, .where = RAR_ON_IPV4, .netns = "rar" };
static size_t bytes;
static uint32_t rounds;

/* The sample that the ranks take together. */
static struct shared {
	struct bench_barrier barrier;
	uint32_t times;
	int32_t err[MAX_RANKS];
	uint64_t start[MAX_RANKS];
	uint64_t end[MAX_RANKS];
} *shared;

struct member {
	int fd;
	uint32_t rank;
	char *buf;
};

static uint64_t bits_of(enum format format, uint32_t n)
{
	float f = n;
	double d = n;
	uint64_t bits = 0;

	if (format == INT)
		return n;
	if (format == F64)
		memcpy(&bits, &d, sizeof(d));
	else
		memcpy(&bits, &f, sizeof(f));
	if (format == BF16)
		bits >>= 16;
	if (format == F16)	/* 5 bits of exponent with bias 15, 10 bits of fraction */
		bits = ((bits >> 13) - ((127 - 15) << 10)) & 0x7fff;
	return bits;
}

static void fill(const struct member *m, const struct type *t)
{
	uint64_t one = bits_of(t->format, 1);

	for (size_t i = 0; i < bytes; i += t->size)
		memcpy(m->buf + i, &one, t->size);
}

/* The result of @times operations on elements of 1, each on the result of the last one. */
static uint64_t wanted(uint8_t redop, const struct type *t, uint32_t times)
{
	uint64_t sum = 1;

	if (redop == RAR_BXOR || redop == RAR_LXOR)
		return ring.size % 2;
	if (redop != RAR_SUM)
		return bits_of(t->format, 1);
	while (times--)
		sum *= ring.size;
	return bits_of(t->format, sum);
}

static bool right(const struct member *m, uint8_t redop, const struct type *t)
{
	uint64_t want = wanted(redop, t, shared->times);
	size_t share = bytes / ring.size, at = m->rank * share;

	if (redop == RAR_SUM && shared->times > 1)	/* it overflows; see the first sample */
		return true;
	for (size_t i = at; i + t->size <= at + share; i += t->size)
		if (memcmp(m->buf + i, &want, t->size))
			return false;
	return true;
}

static int operation(const struct member *m, uint8_t redop, uint8_t dtype)
{
	struct rar_op op = rar_op_of(dtype, bytes, 0);
	int err;

	op.redop = redop;
	err = rar_send(m->fd, m->buf, bytes, MSG_ZEROCOPY, &op);
	return err ?: rar_recv_all(m->fd, NULL, 0, NULL);
}

/* Let all ranks come to the same point. */
static void meet(void)
{
	if (bench_meet(&shared->barrier, ring.size, bench_now_ns() + SYNC_NS))
		return;
	rar_log("a rank did not come in time");
	exit(1);
}

/* Time @times operations, from the first rank's start to the last rank's end. */
static uint64_t sample(const struct member *m, uint8_t redop, uint8_t dtype)
{
	uint64_t start = UINT64_MAX, end = 0;
	int err = 0;

	fill(m, &types[dtype]);
	meet();
	shared->start[m->rank] = bench_now_ns();
	for (uint32_t i = 0; i < shared->times && !err; i++)
		err = operation(m, redop, dtype);
	shared->end[m->rank] = bench_now_ns();
	meet();		/* with one CPU a check would take the time of ranks that still work */
	if (!err && !right(m, redop, &types[dtype]))
		err = -EBADE;
	shared->err[m->rank] = err;
	meet();
	for (uint32_t r = 0; r < ring.size; r++) {
		if (shared->err[r] && shared->err[r] != -EOPNOTSUPP) {
			rar_log("%s %s: rank %u: %s", redops[redop], types[dtype].name, r,
				strerror(-shared->err[r]));
			exit(1);
		}
		start = shared->start[r] < start ? shared->start[r] : start;
		end = shared->end[r] > end ? shared->end[r] : end;
	}
	return shared->err[0] ? 0 : (end - start) / shared->times;
}

/* Fixed memory work, at rank 0 while the others wait. */
static uint64_t marker(void)
{
	static char *memory;
	uint64_t best = UINT64_MAX, start;

	if (!memory)
		memory = calloc(2, MARKER_BYTES);
	for (int i = 0; i < 3; i++) {
		start = bench_now_ns();
		bench_add(BENCH_I32, memory, memory + MARKER_BYTES, MARKER_BYTES);
		start = bench_now_ns() - start;
		best = start < best ? start : best;
	}
	return best;
}

struct kind {
	uint8_t redop;
	uint8_t dtype;
};

/* How many operations a sample has; 0: it was not measured yet. */
static uint32_t times[RAR_REDOP_NR][RAR_DTYPE_NR];

static uint64_t common_sample(const struct member *m, struct kind k)
{
	if (m->rank == 0)
		shared->times = times[k.redop][k.dtype] ?: 1;
	meet();
	return sample(m, k.redop, k.dtype);
}

/* The first sample of a kind: is it right, and how many operations take long enough? */
static void first(const struct member *m, struct kind k)
{
	uint64_t ns = common_sample(m, k);

	if (m->rank)
		return;
	if (!ns)
		printf("no %s %s\n", redops[k.redop], types[k.dtype].name);
	else
		times[k.redop][k.dtype] = ns < SAMPLE_NS / MAX_TIMES ? MAX_TIMES :
					  ns < SAMPLE_NS ? SAMPLE_NS / ns : 1;
}

static void one_pair(const struct member *m, struct kind k, uint32_t round)
{
	struct kind base = {
		RAR_SUM, k.redop == RAR_SUM && k.dtype == RAR_BF16 ? RAR_F32 : k.dtype
	};
	uint64_t ns, base_ns, mark = 0, after;

	if (m->rank == 0)
		mark = marker();
	if (round % 2) {
		base_ns = common_sample(m, base);
		ns = common_sample(m, k);
	} else {
		ns = common_sample(m, k);
		base_ns = common_sample(m, base);
	}
	if (m->rank || !ns)
		return;
	after = marker();
	printf("hop %s %s %u %llu %llu %llu\n", redops[k.redop], types[k.dtype].name, round,
	       (unsigned long long)(after > mark ? after : mark), (unsigned long long)ns,
	       (unsigned long long)base_ns);
}

static int run(uint32_t rank, void *arg)
{
	struct member m = {
		.rank = rank, .fd = rar_open(&ring, rank),
		.buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0),
	};
	struct rar_reg reg = { .addr = (uintptr_t)m.buf, .len = bytes };

	(void)arg;
	RAR_CHECK(m.fd >= 0 && m.buf != MAP_FAILED, "%s", strerror(-m.fd));
	RAR_CHECK(!setsockopt(m.fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)), "RAR_REG");
	for (uint32_t round = 0; round <= rounds; round++)
		for (uint8_t dtype = RAR_F32; dtype < RAR_DTYPE_NR; dtype++)
			for (uint8_t redop = RAR_SUM; redop < RAR_REDOP_NR; redop++) {
				struct kind k = { redop, dtype };

				if (round)
					one_pair(&m, k, round);
				else
					first(&m, k);
			}
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	ring.size = argc == 4 ? atoi(argv[1]) : 0;
	bytes = argc == 4 ? strtoull(argv[2], NULL, 0) / 64 * 64 : 0;
	rounds = argc == 4 ? atoi(argv[3]) : 0;
	if (!ring.size || ring.size > MAX_RANKS || !bytes || !rounds) {
		fprintf(stderr, "usage: reductions N BYTES ROUNDS (N up to %u)\n", MAX_RANKS);
		return 2;
	}
	shared = rar_shared(sizeof(*shared));
	return rar_run(ring.size, ring.netns, RUN_SECONDS, run, NULL) > 0;
}
