// SPDX-License-Identifier: GPL-2.0
/*
 * Every reduction of every type in every collective. Those that the manual promises give the
 * right bits, copied and in place, in one block and in several; send() refuses all others.
 * RAR_CAPS agrees. How the program itself rounds makes no difference. All ranks on 127.0.0.1 of a
 * namespace of their own.
 *
 * "reductions RANK GROUP" is one rank of three, at 10.77.0.(RANK + 1): the others may be machines
 * of another architecture, see scripts/two-archs. It prints a hash of all results, after a hash
 * for each type.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"
#include "oracle.h"
#include "rar_util.h"

#define RANKS	3
#define SHORT	61		/* elements: one block, which ends in the middle of a register */
#define SHARE	41		/* elements: a rank's block, where all blocks are equal */
#define ROOT	1
#define LONG	9011		/* elements: several blocks, even with one byte each */

static struct rar_ring ring = { .where = RAR_ON_LO4, .size = RANKS };
static uint64_t results[RAR_DTYPE_NR];	/* hashes */

static const struct {
	const char *name;
	unsigned int size;
} types[RAR_DTYPE_NR] = {
	[RAR_F32] = { "f32", 4 },  [RAR_F64] = { "f64", 8 },
	[RAR_I32] = { "i32", 4 },  [RAR_I64] = { "i64", 8 },
	[RAR_I8]  = { "i8", 1 },   [RAR_U8]  = { "u8", 1 },
	[RAR_I16] = { "i16", 2 },  [RAR_U16] = { "u16", 2 },
	[RAR_U32] = { "u32", 4 },  [RAR_U64] = { "u64", 8 },
	[RAR_F16] = { "f16", 2 },  [RAR_BF16] = { "bf16", 2 },
};

static const char *const redops[RAR_REDOP_NR] = {
	[RAR_SUM] = "sum", [RAR_PROD] = "prod", [RAR_MIN] = "min", [RAR_MAX] = "max",
	[RAR_BAND] = "band", [RAR_BOR] = "bor", [RAR_BXOR] = "bxor",
	[RAR_LAND] = "land", [RAR_LOR] = "lor", [RAR_LXOR] = "lxor", [RAR_AVG] = "avg",
};

/* By the manual bitwise and logical reductions need integers. */
static bool promised(const struct kind *k)
{
	return k->redop <= RAR_MAX || k->redop == RAR_AVG || !k->frac;
}

static struct kind kind_of(u8 dtype, u8 redop)
{
	return (struct kind){
		.name = types[dtype].name, .redop = redop, .dtype = dtype,
		.size = types[dtype].size, .frac = FRAC(dtype), .is_signed = SIGNED(dtype),
	};
}

/*
 * How a program may set its floating point: round up, flush denormals to zero; on arm64 also
 * another NaN and another f16.
 */
static void odd_floats(bool odd)
{
#if defined(__x86_64__)
	uint32_t mxcsr = odd ? 0xdfc0 : 0x1f80;

	asm volatile("ldmxcsr %0" : : "m" (mxcsr));
#elif defined(__aarch64__)
	uint64_t fpcr = odd ? 0x7400000 : 0;

	asm volatile("msr fpcr, %0" : : "r" (fpcr));
#endif
}

/*
 * Element @i of @rank: random bits; floats are often near 1, so that sums are rounded, and
 * sometimes infinite, so that there are invalid ones.
 */
static u64 element(const struct kind *k, uint32_t rank, size_t i)
{
	uint64_t state = rank * 1000003ull + i * 17 + k->redop * 7919 + k->dtype;
	u64 x = rar_random(&state);

	if (k->redop >= RAR_LAND && x >> 62 == 0)
		return 0;
	if (k->frac && x >> 62)
		x = (x & ~inf_of(k)) | (bias_of(k) - (x >> 60 & 3)) << k->frac;
	else if (k->frac && x >> 58 == 1)
		x = (x & 1 ? sign_of(k) : 0) | inf_of(k);
	return trim(k, x);
}

static void fill(const struct kind *k, uint32_t rank, size_t n, void *buf)
{
	for (size_t i = 0; i < n; i++) {
		u64 x = element(k, rank, i);

		memcpy((char *)buf + i * k->size, &x, k->size);
	}
}

/* The rank with which the sum of element @i begins, as in the manual. */
static uint32_t first_rank(const struct kind *k, u8 collective, size_t n, size_t i)
{
	bool few = rar_env_schedule() == RAR_DOUBLING || rar_env_schedule() == RAR_AUTO;
	uint32_t halving = few ? rar_halving_bytes(RANKS) : 0;	/* none unless it is set */
	size_t bytes = n * k->size, block;

	/* Of three ranks the tree is rank order. */
	if (collective == RAR_REDUCE)
		return few && !halving && bytes <= rar_doubling_bytes(RANKS) ? 0 : ROOT + 1;
	/* By halving three ranks begin with the rank of the share. */
	if (collective == RAR_REDUCE_SCATTER)
		return i / SHARE + (few && bytes <= rar_halving_shares(RANKS) ? 0 : 1);
	if (bytes <= 8192 || bytes <= halving ||
	    (rar_env_schedule() == RAR_AUTO && bytes <= rar_direct_bytes(RANKS)))
		return 0;
	block = ((bytes + RANKS - 1) / RANKS + 63) / 64 * 64;
	return i * k->size / block;
}

static u64 wanted(const struct kind *k, u8 collective, size_t n, size_t i)
{
	uint32_t first = first_rank(k, collective, n, i);
	u64 x = element(k, first % RANKS, i);

	if (collective == RAR_BROADCAST)
		return element(k, ROOT, i);
	if (collective == RAR_ALLGATHER)
		return element(k, i / SHARE, i);

	for (uint32_t r = 1; r < RANKS; r++)
		x = expect(k, x, element(k, (first + r) % RANKS, i));
	return k->redop == RAR_AVG ? expect_average(k, x, RANKS) : x;
}

/* Check elements @first to @end of @n, which begin at @buf. */
static int verify(const struct kind *k, u8 collective, size_t n, size_t first, size_t end,
		  const void *buf)
{
	for (size_t i = first; i < end; i++) {
		u64 want = wanted(k, collective, n, i), got = 0;

		memcpy(&got, (const char *)buf + (i - first) * k->size, k->size);
		RAR_CHECK(got == want, "%u: %s %s: element %zu of %zu is %llx, not %llx",
			  collective, redops[k->redop], k->name, i, n,
			  (unsigned long long)got, (unsigned long long)want);
	}
	return 0;
}

static int reduce(int fd, const struct kind *k, uint32_t rank, size_t n, bool in_place, bool odd)
{
	static char buf[LONG * 8] __attribute__((aligned(8)));
	struct rar_op op = rar_op_of(k->dtype, n * k->size, 0);
	ssize_t got;
	int err;

	op.redop = k->redop;
	fill(k, rank, n, buf);
	odd_floats(odd);
	err = rar_send(fd, buf, n * k->size, in_place ? MSG_ZEROCOPY : 0, &op);
	got = err ?: rar_recv_all(fd, buf, in_place ? 0 : n * k->size, NULL);
	odd_floats(false);
	if (err)
		return err;
	results[k->dtype] = rar_hash(results[k->dtype], buf, n * k->size);
	RAR_CHECK(got == (in_place ? 0 : (ssize_t)(n * k->size)), "received %zd", got);
	return verify(k, RAR_ALLREDUCE, n, 0, n, buf);
}

/* Elements that a rank sends and gets in a collective; @first: of its block. */
static size_t given(u8 collective, uint32_t rank, size_t *first)
{
	*first = collective == RAR_ALLGATHER ? rank * SHARE : 0;
	if (collective == RAR_ALLGATHER)
		return SHARE;
	return collective == RAR_BROADCAST && rank != ROOT ? 0 : RANKS * SHARE;
}

static size_t result(u8 collective, uint32_t rank, size_t *first)
{
	*first = collective == RAR_REDUCE_SCATTER ? rank * SHARE : 0;
	if (collective == RAR_REDUCE_SCATTER)
		return SHARE;
	return collective == RAR_REDUCE && rank != ROOT ? 0 : RANKS * SHARE;
}

/* A short operation of another collective, copied. */
static int collective(int fd, const struct kind *k, uint32_t rank, u8 which)
{
	size_t n = RANKS * SHARE, first, count = given(which, rank, &first);
	static char buf[RANKS * SHARE * 8] __attribute__((aligned(8)));
	struct rar_op op = rar_op_of(k->dtype, n * k->size, 0);
	ssize_t got;
	int err;

	op.redop = k->redop;
	op.collective = which;
	op.root = which == RAR_BROADCAST || which == RAR_REDUCE ? ROOT : 0;
	fill(k, rank, n, buf);
	err = rar_send(fd, buf + first * k->size, count * k->size, 0, &op);
	if (err)
		return err;
	count = result(which, rank, &first);
	got = rar_recv_all(fd, buf, sizeof(buf), NULL);
	RAR_CHECK(got == (ssize_t)(count * k->size), "received %zd", got);
	return verify(k, which, n, first, first + count, buf);
}

/* All collectives but all-reduce. Where no rank adds, the reduction is ignored. */
static int collectives(int fd, const struct kind *k, uint32_t rank, bool can)
{
	for (u8 which = RAR_BROADCAST; which <= RAR_ALLGATHER; which++) {
		bool adds = which == RAR_REDUCE || which == RAR_REDUCE_SCATTER;
		int err = collective(fd, k, rank, which);

		RAR_CHECK(err == (can || !adds ? 0 : -EOPNOTSUPP), "collective %u, %s %s: %d",
			  which, redops[k->redop], k->name, err);
	}
	return 0;
}

static int one_kind(int fd, const struct kind *k, uint32_t rank, const struct rar_caps *caps)
{
	bool can = caps->dtypes[k->redop] & 1U << k->dtype;
	int err;

	RAR_CHECK(can == promised(k), "caps of %s %s", redops[k->redop], k->name);
	if (collectives(fd, k, rank, can))
		return 1;
	err = reduce(fd, k, rank, SHORT, false, false);
	if (!can) {
		RAR_CHECK(err == -EOPNOTSUPP, "%s %s: %s", redops[k->redop], k->name,
			  strerror(-err));
		return 0;
	}
	if (!err)
		err = reduce(fd, k, rank, LONG, false, false);
	if (!err)
		err = reduce(fd, k, rank, LONG, true, false);
	RAR_CHECK(!err, "%s %s: %d", redops[k->redop], k->name, err);
	return 0;
}

static int all_kinds(uint32_t rank, void *arg)
{
	socklen_t len = sizeof(struct rar_caps);
	int fd = rar_open(&ring, rank), err = 0;
	struct rar_caps caps;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	RAR_CHECK(!getsockopt(fd, SOL_RAR, RAR_CAPS, &caps, &len), "RAR_CAPS");
	for (u8 redop = RAR_SUM; redop < RAR_REDOP_NR && !err; redop++)
		for (u8 dtype = RAR_F32; dtype < RAR_DTYPE_NR && !err; dtype++) {
			struct kind k = kind_of(dtype, redop);

			err = one_kind(fd, &k, rank, &caps);
		}
	return err;
}

/* The results of floats are the same whatever the programs set. */
static int odd_programs(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank), err = 0;

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	for (int i = 0; i < 5 && !err; i++)
		for (u8 redop = RAR_SUM; redop < RAR_REDOP_NR && !err; redop++)
			for (u8 dtype = RAR_F32; dtype < RAR_DTYPE_NR && !err; dtype++) {
				struct kind k = kind_of(dtype, redop);

				if (k.frac && promised(&k))
					err = reduce(fd, &k, rank, LONG, i & 1, true);
			}
	return err;
}

/* Two ranks add, the third takes the maximum: EBADMSG with RAR_R_REDOP. */
static int disagree(uint32_t rank, void *arg)
{
	struct rar_op op = rar_op_of(RAR_U8, SHORT, 0);
	int fd = rar_open(&ring, rank);
	struct rar_error error;
	char buf[SHORT] = {};
	ssize_t got;

	(void)arg;
	if (fd == -EBADMSG)	/* the other ranks have failed already */
		return 0;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	op.redop = rank == 1 ? RAR_MAX : RAR_SUM;
	got = rar_send(fd, buf, sizeof(buf), 0, &op) ?:
	      rar_recv_all(fd, buf, sizeof(buf), NULL);
	RAR_CHECK(got == -EBADMSG, "received %zd", got);
	RAR_CHECK(!rar_error(fd, &error) && error.reason == RAR_R_REDOP, "reason %u",
		  error.reason);
	return 0;
}

/* send() refuses a length that cuts an element. */
static int cut_element(uint32_t rank, void *arg)
{
	struct rar_op op = rar_op_of(RAR_BF16, 3, 0);
	int fd = rar_open(&ring, rank);
	char buf[3] = {};

	(void)arg;
	RAR_CHECK(fd >= 0, "%s", strerror(-fd));
	RAR_CHECK(rar_send(fd, buf, sizeof(buf), 0, &op) == -EINVAL, "3 bytes of bf16");
	return 0;
}

static const struct {
	const char *name;
	rar_rank_fn fn;
} tests[] = {
	{ "all_kinds", all_kinds },
	{ "programs_that_round_otherwise", odd_programs },
	{ "disagree_about_the_reduction", disagree },
	{ "element_in_two_halves", cut_element },
};

/* One rank of a ring of machines. */
static int alone(uint32_t rank, uint64_t group)
{
	int err;

	ring.where = RAR_ON_IPV4;
	ring.netns = "";
	ring.group = group;
	err = all_kinds(rank, NULL);
	for (u8 dtype = RAR_F32; dtype < RAR_DTYPE_NR; dtype++)
		printf("%s: %016llx\n", types[dtype].name, (unsigned long long)results[dtype]);
	printf("rank %u: err=%d hash=%016llx\n", rank, err,
	       (unsigned long long)rar_hash(0, results, sizeof(results)));
	return !!err;
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc == 3)
		return alone(atoi(argv[1]), atoi(argv[2]));
	rar_begin();
	ksft_set_plan(ARRAY_SIZE(tests));
	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		ring.group = 7000 + i;
		ksft_test_result(!rar_run(RANKS, NULL, 120, tests[i].fn, NULL), "%s\n",
				 tests[i].name);
	}
	ksft_finished();
}
