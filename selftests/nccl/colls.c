// SPDX-License-Identifier: GPL-2.0
/*
 * All-reduces: the bits of all types and reductions, many in flight, registered memory, groups.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_test.h"

#define GUARD	64		/* bytes behind a result that stay as they are */

static const char *const dtype_names[TYPES] = {
	"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16",
};

static const char *const redop_names[REDOPS] = { "sum", "prod", "max", "min" };

/* One all-reduce that is in flight. */
struct reduction {
	int dtype, redop;
	uint64_t id;
	size_t count;
	char *src, *dst;
	void *request;
};

/* In memory of its own: 0, or 1 if there is none. */
static int prepare(struct reduction *r, uint32_t rank, bool in_place)
{
	size_t bytes = r->count * type_size(r->dtype);

	r->dst = calloc(1, bytes + GUARD);
	r->src = in_place ? r->dst : malloc(bytes + 1);
	CHECK(r->src && r->dst, "memory");
	fill(r->dtype, r->redop, rank, r->id, 0, r->count, r->src);
	return 0;
}

static int start(void *group, struct reduction *r)
{
	CHECK(!coll_allreduce(group, r->src, r->dst, r->count, r->dtype, r->redop,
			      &r->request), "%s %s", dtype_names[r->dtype],
	      redop_names[r->redop]);
	return 0;
}

/* Compare the bits, and free the memory. */
static int verify(struct reduction *r, long got)
{
	size_t bytes = r->count * type_size(r->dtype);
	char *want = calloc(1, bytes + GUARD);

	CHECK(want, "memory");
	CHECK(got == (long)bytes, "%ld of %zu bytes", got, bytes);
	expect(r->dtype, r->redop, r->id, 0, r->count, want);
	CHECK(!memcmp(r->dst, want, bytes + GUARD), "%s %s of %zu", dtype_names[r->dtype],
	      redop_names[r->redop], r->count);
	free(want);
	if (r->src != r->dst)
		free(r->src);
	free(r->dst);
	return 0;
}

static int reduce(void *group, uint32_t rank, struct reduction r, bool in_place)
{
	long got;

	if (prepare(&r, rank, in_place) || start(group, &r))
		return 1;
	CHECK(r.request, "no request");
	coll_wait(&r.request, &got, 1);
	return verify(&r, got);
}

/* -- bits ------------------------------------------------------------------ */

static int one_kind(void *group, uint32_t rank, int dtype, int redop)
{
	static const size_t counts[] = { 1, 1000, 20011 };	/* copied, copied, pinned */
	int yes = -1;

	CHECK(!coll_support(dtype, redop, &yes) && yes == 1, "%s %s", dtype_names[dtype],
	      redop_names[redop]);
	for (int i = 0; i < 3; i++) {
		struct reduction r = { dtype, redop, dtype * 100 + redop * 10 + i, counts[i],
				       NULL, NULL, NULL };

		if (reduce(group, rank, r, (i + dtype + redop) % 2))
			return 1;
	}
	return 0;
}

static int kinds(uint32_t rank)
{
	struct nccl_properties_v12 p, q;
	void *group;
	int yes = 1;

	CHECK(!coll_properties(0, &p) && !net_properties(0, &q) && !strcmp(p.name, q.name),
	      "one device");
	if (open_group(rank, RANKS, 0, &group))
		return 1;
	for (int dtype = 0; dtype < TYPES; dtype++)
		for (int redop = 0; redop < REDOPS; redop++)
			if (one_kind(group, rank, dtype, redop))
				return 1;
	CHECK(!coll_support(NCCL_F8E4M3, NCCL_SUM, &yes) && !yes, "8-bit floats");
	yes = 1;
	CHECK(!coll_support(NCCL_F32, NCCL_AVG, &yes) && !yes, "averages");
	yes = 1;
	CHECK(!coll_support(-1, -1, &yes) && !yes, "no type");
	CHECK(!coll_close(group), "close");
	return 0;
}

/* Nothing, and tensors that are several operations. */
static int lengths(uint32_t rank)
{
	struct reduction all[] = {
		{ NCCL_F32, NCCL_SUM, 1, 0, NULL, NULL, NULL },
		{ NCCL_I64, NCCL_SUM, 2, MIB + 5, NULL, NULL, NULL },
		{ NCCL_I32, NCCL_MAX, 3, MIB, NULL, NULL, NULL },
		{ NCCL_U64, NCCL_PROD, 4, MIB / 2 + 1, NULL, NULL, NULL },
	};
	void *group, *flush = all;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (reduce(group, rank, all[i], i % 2))
			return 1;
	CHECK(!coll_iflush(group, all, 4, &flush) && !flush, "iflush");
	CHECK(!coll_close(group), "close");
	return 0;
}

/* -- in flight ------------------------------------------------------------- */

static struct reduction in_flight(int i)
{
	return (struct reduction) {
		.dtype = i % TYPES, .redop = i / 3 % REDOPS, .id = 5000 + i,
		.count = random_bits(3, i) % (i % 5 ? 3000 : 30000),
	};
}

/*
 * A group takes NCCL_REQUESTS requests, and a further one later. Rank 0 posts all while the others
 * do nothing, so none of its calls waits for them. They are tested in a mixed order.
 */
static int many(uint32_t rank)
{
	struct reduction r[NCCL_REQUESTS + 1];
	void *requests[NCCL_REQUESTS], *group;
	long got[NCCL_REQUESTS];
	int done;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	if (rank)
		sync_ranks();
	for (int i = 0; i <= NCCL_REQUESTS; i++) {
		r[i] = in_flight(i);
		if (prepare(&r[i], rank, i % 2) || start(group, &r[i]))
			return 1;
		CHECK(!r[i].request == (i == NCCL_REQUESTS), "request %d", i);
	}
	for (int i = 0; i < NCCL_REQUESTS; i++) {
		requests[i] = r[(i * 13 + rank) % NCCL_REQUESTS].request;
		if (!rank)
			CHECK(!coll_test(requests[i], &done, NULL) && !done, "request %d", i);
	}
	if (!rank)
		sync_ranks();
	coll_wait(requests, got, NCCL_REQUESTS);
	for (int i = 0; i < NCCL_REQUESTS; i++)
		if (verify(&r[(i * 13 + rank) % NCCL_REQUESTS], got[i]))
			return 1;
	if (start(group, &r[NCCL_REQUESTS]))
		return 1;
	CHECK(r[NCCL_REQUESTS].request, "no request");
	coll_wait(&r[NCCL_REQUESTS].request, got, 1);
	if (verify(&r[NCCL_REQUESTS], got[0]))
		return 1;
	CHECK(!coll_close(group), "close");
	return 0;
}

/* As NCCL's proxy: eight slots, each started again as soon as it is complete. */
static int slots(uint32_t rank)
{
	enum { SLOTS = 8, STEPS = 40 };
	struct reduction r[SLOTS];
	unsigned int round = 0;
	int posted = 0, ended = 0, done, size;
	void *group;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	while (ended < STEPS) {
		if (posted < STEPS && posted < ended + SLOTS) {
			r[posted % SLOTS] = (struct reduction) {
				.dtype = posted % 2 ? NCCL_F16 : NCCL_BF16,
				.id = 7000 + posted, .count = 17000 };
			if (prepare(&r[posted % SLOTS], rank, false) ||
			    start(group, &r[posted % SLOTS]))
				return 1;
			CHECK(r[posted % SLOTS].request, "no request");
			posted++;
		}
		CHECK(!coll_test(r[ended % SLOTS].request, &done, &size), "test");
		round = done ? 0 : round;
		CHECK(nap(round++), "late");
		if (done && verify(&r[ended++ % SLOTS], size))
			return 1;
	}
	CHECK(!coll_close(group), "close");
	return 0;
}

/* -- memory and groups ----------------------------------------------------- */

/* NCCL registers the same memory once for each direction, and deregisters it as often. */
static int registered(uint32_t rank)
{
	enum { COUNT = 100000, BYTES = COUNT * 4 };
	char *src = aligned_alloc(4096, 2 * MIB), *dst = src + MIB;
	struct reduction r = { NCCL_F32, NCCL_SUM, 9, COUNT, src, dst, NULL };
	void *group, *all, *again, *part;
	long got;

	CHECK(src, "memory");
	memset(src, 0, 2 * MIB);
	if (open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_reg(group, src, 2 * MIB, NCCL_HOST_MEMORY, &all) && all, "register");
	CHECK(!coll_reg(group, src, 2 * MIB, NCCL_HOST_MEMORY, &again) && again, "twice");
	CHECK(!coll_reg(group, dst, BYTES, NCCL_HOST_MEMORY, &part) && part, "a part");
	for (int i = 0; i < 3; i++) {
		char want[BYTES];

		fill(r.dtype, r.redop, rank, r.id + i, 0, COUNT, src);
		if (start(group, &r))
			return 1;
		if (i == 1)		/* the operation keeps the memory */
			CHECK(!coll_dereg(group, all) && !coll_dereg(group, again), "dereg");
		coll_wait(&r.request, &got, 1);
		CHECK(got == BYTES, "%ld bytes", got);
		expect(r.dtype, r.redop, r.id + i, 0, COUNT, want);
		CHECK(!memcmp(dst, want, BYTES), "bits, round %d", i);
	}
	CHECK(coll_dereg(group, again) == NCCL_INTERNAL_ERROR && *warning(), "too often");
	CHECK(!coll_reg(group, src, MIB, NCCL_HOST_MEMORY, &all) && all, "again");
	CHECK(!coll_close(group), "close");	/* deregisters what is left */
	free(src);
	return 0;
}

/* What is registered is pinned by that, and by no operation. */
static int pinned_once(uint32_t rank)
{
	enum { COUNT = 100000 };
	char *src = aligned_alloc(4096, 2 * MIB), *dst = src + MIB;
	struct reduction r = { NCCL_F32, NCCL_SUM, 9, COUNT, src, dst, NULL };
	void *group, *in, *out;
	long before, got;

	CHECK(src, "memory");
	fill(r.dtype, r.redop, rank, r.id, 0, COUNT, src);
	if (open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_reg(group, src, MIB, NCCL_HOST_MEMORY, &in) &&
	      !coll_reg(group, dst, MIB, NCCL_HOST_MEMORY, &out), "register");
	sync_ranks();
	before = pinned_ever();
	sync_ranks();
	for (int i = 0; i < 5; i++) {
		if (start(group, &r))
			return 1;
		coll_wait(&r.request, &got, 1);
		CHECK(got == COUNT * 4, "%ld bytes", got);
	}
	sync_ranks();
	CHECK(pinned_ever() == before, "%ld pages more", pinned_ever() - before);
	sync_ranks();
	CHECK(!coll_dereg(group, in) && !coll_dereg(group, out) && !coll_close(group), "close");
	free(src);
	return 0;
}

/* Operations of two groups are started in another order on each rank. */
static int two_groups(uint32_t rank)
{
	struct reduction r[2][10];
	void *groups[2], *requests[20];
	long got[20];

	if (open_group(rank, RANKS, 0, &groups[0]) || open_group(rank, RANKS, 1, &groups[1]))
		return 1;
	for (int i = 0; i < 10; i++)
		for (int k = 0; k < 2; k++) {
			int g = (k + rank) % 2;

			r[g][i] = in_flight(100 * g + i);
			if (prepare(&r[g][i], rank, false) || start(groups[g], &r[g][i]))
				return 1;
			requests[g * 10 + i] = r[g][i].request;
		}
	coll_wait(requests, got, 20);
	for (int i = 0; i < 20; i++)
		if (verify(&r[i / 10][i % 10], got[i]))
			return 1;
	CHECK(!coll_close(groups[rank % 2]) && !coll_close(groups[!(rank % 2)]), "close");
	return 0;
}

/* A group of some of the ranks. */
static int small_group(uint32_t rank)
{
	int32_t x = rank + 1;
	void *request, *group;
	long got;

	if (open_group(rank, 2, 0, &group))
		return 1;
	if (rank >= 2)
		return 0;
	CHECK(!coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_SUM, &request), "start");
	coll_wait(&request, &got, 1);
	CHECK(got == 4 && x == 3, "%ld bytes, sum %d", got, x);
	CHECK(!coll_close(group), "close");
	return 0;
}

const struct test coll_tests[] = {
	{ "all types and reductions", kinds, 0, 0 },
	{ "nothing, and long tensors", lengths, 0, 0 },
	{ "as many all-reduces as NCCL may have, and too many", many, 0, 0 },
	{ "slots that are used again", slots, 0, 0 },
	{ "registered memory", registered, 0, 0 },
	{ "registered memory is pinned once", pinned_once, 0, 0 },
	{ "two groups", two_groups, 0, 0 },
	{ "a group of two", small_group, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
