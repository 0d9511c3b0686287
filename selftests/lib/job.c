// SPDX-License-Identifier: GPL-2.0
/* See job.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job.h"

#define GUARD		0x5a5a5a5au
#define SMALL_BYTES	8192u		/* up to here an all-reduce is one block */

static const char *const collective_names[RAR_COLLECTIVE_NR] = {
	[RAR_ALLREDUCE] = "allreduce", [RAR_BROADCAST] = "broadcast",
	[RAR_REDUCE] = "reduce", [RAR_REDUCE_SCATTER] = "reduce_scatter",
	[RAR_ALLGATHER] = "allgather", [RAR_BARRIER] = "barrier",
	[RAR_REDUCE_BY_KEY] = "reduce_by_key",
};

static const char *const mode_names[RAR_MODES] = {
	[RAR_COPIED] = "copied", [RAR_IN_PLACE] = "in place",
	[RAR_OUT_OF_PLACE] = "out of place", [RAR_REGISTERED] = "registered",
};

const char *rar_collective_name(uint8_t collective)
{
	return collective_names[collective];
}

const char *rar_mode_name(uint8_t mode)
{
	return mode_names[mode];
}

bool rar_job_cuts(uint8_t collective)
{
	return collective == RAR_REDUCE_SCATTER || collective == RAR_ALLGATHER;
}

bool rar_job_rooted(uint8_t collective)
{
	return collective == RAR_BROADCAST || collective == RAR_REDUCE;
}

uint32_t rar_job_count(const struct rar_ring *ring, uint8_t collective, uint32_t count)
{
	if (collective == RAR_BARRIER)
		return 0;
	return rar_job_cuts(collective) ? count * ring->size : count;
}

/* ------------------------------------------------------------ what the manual says */

static struct rar_part block(const struct rar_job *j, uint32_t rank)
{
	uint32_t n = j->count / j->ring->size;

	return (struct rar_part){ n * rank, n };
}

struct rar_part rar_job_given(const struct rar_job *j, uint32_t rank)
{
	if (j->collective == RAR_ALLGATHER)
		return block(j, rank);
	if (j->collective == RAR_BROADCAST && rank != j->root)
		return (struct rar_part){ 0 };
	return (struct rar_part){ 0, j->count };
}

struct rar_part rar_job_got(const struct rar_job *j, uint32_t rank)
{
	if (j->collective == RAR_REDUCE_SCATTER)
		return block(j, rank);
	if (j->collective == RAR_REDUCE && rank != j->root)
		return (struct rar_part){ 0 };
	return (struct rar_part){ 0, j->count };
}

static uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Element @i of what @rank contributes: any integer, or a float between 1 and 2 or so. */
static uint32_t element(const struct rar_job *j, uint32_t rank, uint32_t i)
{
	uint64_t state = j->id * 1000003 + rank * 7919ull + i * 2654435761ull;
	uint32_t x = rar_random(&state);

	if (j->dtype == RAR_F32)
		return bits_of(1 + (x >> 8) * 0x1p-24f) ^ (x & 1) << 31;
	return x;
}

static uint32_t add(const struct rar_job *j, uint32_t in, uint32_t own)
{
	return j->dtype == RAR_F32 ? bits_of(float_of(in) + float_of(own)) : in + own;
}

/* Does an all-reduce go directly with RAR_AUTO? */
static bool directly(const struct rar_job *j)
{
	return j->ring->schedule == RAR_AUTO && j->count * 4 <= rar_direct_bytes(j->ring->size);
}

/* Elements of a block of an all-reduce. */
static uint32_t cut(const struct rar_job *j)
{
	uint32_t bytes = j->count * 4, share = (bytes + j->ring->size - 1) / j->ring->size;

	return bytes <= SMALL_BYTES || directly(j) ? j->count + 1 : (share + 63) / 64 * 16;
}

/* The rank with which the sum of element @i begins; the next ranks add in turn. */
static uint32_t first_rank(const struct rar_job *j, uint32_t i)
{
	if (j->collective == RAR_REDUCE)
		return j->root + 1;
	if (j->collective == RAR_REDUCE_SCATTER)
		return i / (j->count / j->ring->size) + 1;
	return j->ring->schedule == RAR_BY_HOSTS ? 0 : i / cut(j);
}

/* Recursive doubling: as rar_expect_half() of rar_data.c, of element @i. */
static uint32_t half(const struct rar_job *j, uint32_t pairs, uint32_t at, uint32_t ranks,
		     uint32_t i)
{
	if (ranks > 1)
		return add(j, half(j, pairs, at, ranks / 2, i),
			   half(j, pairs, at + ranks / 2, ranks / 2, i));
	if (at < pairs)
		return add(j, element(j, 2 * at, i), element(j, 2 * at + 1, i));
	return element(j, at + pairs, i);
}

static bool few_hops(const struct rar_job *j)
{
	return j->ring->schedule == RAR_DOUBLING || j->ring->schedule == RAR_AUTO;
}

/* The longest operation by doubling, bytes. By halving goes all that is longer than 8 bytes. */
static uint32_t doubling_most(const struct rar_job *j)
{
	return getenv("RAR_HALVING_BYTES") ? 8 : rar_doubling_bytes(j->ring->size);
}

/* Does a reduce-scatter with short shares go by doubling? */
static bool shares_doubled(const struct rar_job *j)
{
	uint32_t n = j->ring->size;

	return few_hops(j) && j->collective == RAR_REDUCE_SCATTER && n > 3 &&
	       j->count * 4 <= n * 512 && j->count * 4 <= doubling_most(j);
}

/* By halving the same sums are added as by doubling. */
static bool doubled(const struct rar_job *j)
{
	uint32_t n = j->ring->size;
	bool sum = j->collective == RAR_ALLREDUCE && !directly(j);

	if (few_hops(j) && (sum || j->collective == RAR_REDUCE) &&
	    j->count * 4 <= doubling_most(j))
		return true;
	return shares_doubled(j) || (few_hops(j) && sum && j->count * 4 <= rar_halving_bytes(n));
}

/* Does a longer reduce-scatter go by halving? */
static bool halved(const struct rar_job *j)
{
	uint32_t n = j->ring->size;

	return few_hops(j) && j->collective == RAR_REDUCE_SCATTER && n > 1 &&
	       j->count * 4 <= rar_halving_shares(n);
}

/* The sum of every @step-th rank from @at on, element @i, by halving: by the higher bits first. */
static uint32_t every(const struct rar_job *j, uint32_t at, uint32_t step, uint32_t i)
{
	if (step == j->ring->size)
		return element(j, at, i);
	return add(j, every(j, at, 2 * step, i), every(j, at + step, 2 * step, i));
}

/*
 * The same of a rank's share where the number of ranks is no power of two: what the rank has of it
 * before the last steps, in which shares go @far ranks on, and half of that, and so on. It is @up
 * from the rank.
 */
static uint32_t round_sum(const struct rar_job *j, uint32_t rank, uint32_t up, uint32_t far,
			  uint32_t i)
{
	uint32_t n = j->ring->size, x = element(j, rank, i), most = 1;

	while (2 * most < n)
		most *= 2;
	for (uint32_t d = most; d > far; d /= 2)
		if (up + d < (d == most ? n : 2 * d))
			x = add(j, round_sum(j, (rank + n - d) % n, up + d, d, i), x);
	return x;
}

static uint32_t halved_sum(const struct rar_job *j, uint32_t i)
{
	uint32_t n = j->ring->size;

	return n & (n - 1) ? round_sum(j, i / (j->count / n), 0, 0, i) : every(j, 0, 1, i);
}

static uint32_t wanted(const struct rar_job *j, uint32_t i)
{
	uint32_t first = first_rank(j, i), n = j->ring->size, x, cores;

	for (cores = 1; 2 * cores <= n; cores *= 2)
		;
	if (doubled(j))
		return half(j, n - cores, 0, cores, i);
	if (halved(j))
		return halved_sum(j, i);

	if (j->collective == RAR_BROADCAST)
		return element(j, j->root, i);
	if (j->collective == RAR_ALLGATHER)
		return element(j, i / (j->count / n), i);
	x = element(j, first % n, i);
	for (uint32_t r = 1; r < n; r++)
		x = add(j, x, element(j, (first + r) % n, i));
	return x;
}

/* ------------------------------------------------------------ memory */

static bool has_dst(const struct rar_job *j)
{
	return j->mode == RAR_OUT_OF_PLACE &&
	       (j->collective == RAR_ALLREDUCE || j->collective == RAR_BROADCAST ||
		j->collective == RAR_ALLGATHER);
}

/* Does the result begin at @dst, wherever it lies in the tensor? */
static bool copied(const struct rar_job *j)
{
	return j->mode == RAR_COPIED || j->mode == RAR_WAITED;
}

/* Bytes of the whole tensor and one element after it, in pages of their own. */
static size_t room(const struct rar_job *j)
{
	size_t page = sysconf(_SC_PAGESIZE), bytes = j->count * 4ul + 4;

	return (bytes + page - 1) / page * page;
}

static uint32_t *map(const struct rar_job *j)
{
	uint32_t *x = mmap(NULL, room(j), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (x == MAP_FAILED) {
		rar_log("no memory for %u elements", j->count);
		exit(1);
	}
	for (uint32_t i = 0; i <= j->count; i++)
		x[i] = GUARD;
	return x;
}

struct rar_job_memory rar_job_memory(const struct rar_job *j, uint32_t rank)
{
	struct rar_part span = rar_job_given(j, rank);
	struct rar_job_memory m;

	m.src = map(j);
	m.dst = copied(j) || has_dst(j) ? map(j) : m.src;
	for (uint32_t i = span.first; i < span.first + span.n; i++)
		m.src[i] = element(j, rank, i);
	return m;
}

void rar_job_free(const struct rar_job *j, struct rar_job_memory *m)
{
	if (m->dst != m->src)
		munmap(m->dst, room(j));
	if (m->src)
		munmap(m->src, room(j));
	m->src = m->dst = NULL;
}

static int set_region(int fd, int option, const struct rar_job *j, const struct rar_job_memory *m)
{
	struct rar_reg reg = { .addr = (uintptr_t)m->dst, .len = room(j) };

	if (j->mode != RAR_REGISTERED)
		return 0;
	return setsockopt(fd, SOL_RAR, option, &reg, sizeof(reg)) ? -errno : 0;
}

/* ------------------------------------------------------------ one operation */

struct rar_op rar_job_op(const struct rar_job *j)
{
	struct rar_op op = rar_op_of(j->dtype, j->count * 4ull, j->id);

	op.collective = j->collective;
	op.root = rar_job_rooted(j->collective) ? j->root : 0;
	return op;
}

int rar_job_post(int fd, const struct rar_job *j, uint32_t rank, const struct rar_job_memory *m)
{
	int flags = copied(j) ? 0 : MSG_ZEROCOPY, err = set_region(fd, RAR_REG, j, m);
	struct rar_part span = { 0, j->count };
	struct rar_op op = rar_job_op(j);
	uint32_t half;

	if (err)
		return err;
	if (copied(j) || has_dst(j))
		span = rar_job_given(j, rank);
	if (has_dst(j) || j->mode == RAR_WAITED)
		op.dst = (uintptr_t)m->dst;
	/* sometimes in two calls */
	half = j->id % 3 || j->mode == RAR_WAITED ? 0 : span.n / 2;
	if (half)
		err = rar_send(fd, m->src + span.first, half * 4ul, flags | MSG_MORE, &op);
	return err ?: rar_send(fd, m->src + span.first + half, (span.n - half) * 4ul, flags,
			       half ? NULL : &op);
}

/* Are the elements as they should be? Result @span begins at @x. */
static int verify(const struct rar_job *j, struct rar_part span, const uint32_t *x)
{
	for (uint32_t i = 0; i < span.n; i++) {
		uint32_t want = wanted(j, span.first + i);

		RAR_CHECK(x[i] == want, "op %llu: element %u + %u of %u is %x, not %x",
			  (unsigned long long)j->id, span.first, i, j->count, x[i], want);
	}
	return 0;
}

/* Out of place and copied, the contribution is only read. */
static int verify_source(const struct rar_job *j, uint32_t rank, const uint32_t *src)
{
	struct rar_part span = rar_job_given(j, rank);

	for (uint32_t i = span.first; i < span.first + span.n; i++)
		RAR_CHECK(src[i] == element(j, rank, i), "op %llu: contribution %u of %u changed",
			  (unsigned long long)j->id, i, j->count);
	return 0;
}

static int receive(int fd, const struct rar_job *j, struct rar_part span,
		   const struct rar_job_memory *m)
{
	ssize_t n, want = copied(j) ? span.n * 4 : 0;
	struct rar_done done = {};

	n = rar_recv_all(fd, m->dst, copied(j) ? j->count * 4 : 0, &done);
	RAR_CHECK(n == want, "op %llu: received %zd, not %zd", (unsigned long long)j->id, n,
		  want);
	RAR_CHECK(done.cookie == j->id && !done.status, "cookie %llu",
		  (unsigned long long)done.cookie);
	RAR_CHECK(done.contributors == (j->collective == RAR_BROADCAST ? 1 : j->ring->size),
		  "contributors %u", done.contributors);
	return 0;
}

int rar_job_collect(int fd, const struct rar_job *j, uint32_t rank, const struct rar_job_memory *m)
{
	struct rar_part span = rar_job_got(j, rank);
	const uint32_t *end = m->dst + (copied(j) ? span.n : j->count);

	if (j->mode != RAR_WAITED && receive(fd, j, span, m))
		return 1;
	RAR_CHECK(*end == GUARD, "wrote too much");
	RAR_CHECK(!set_region(fd, RAR_UNREG, j, m), "RAR_UNREG");
	if (m->src != m->dst && verify_source(j, rank, m->src))
		return 1;
	return verify(j, span, m->dst + (copied(j) ? 0 : span.first));
}
