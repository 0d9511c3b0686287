// SPDX-License-Identifier: GPL-2.0
/*
 * Windows of gathers and scatters, as NCCL cuts them, and whole ones.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_test.h"

#define GUARD	64

/*
 * struct walk - a tensor of RANKS blocks, of which windows follow one another
 * @block:	elements
 * @window:	elements; the last one is shorter
 * @in_place:	the own block and the tensor are in one memory
 */
struct walk {
	int dtype, redop;
	size_t block, window;
	bool in_place;
	uint64_t id;
};

/* Elements of the own block in the window, and the first one in the tensor. */
static size_t own_part(const struct walk *w, uint32_t rank, size_t start, size_t len,
		       size_t *first)
{
	size_t begin = rank * w->block, end = begin + w->block;

	*first = start > begin ? start : begin;
	end = start + len < end ? start + len : end;
	return end > *first ? end - *first : 0;
}

/* The elements of block r are those of rank r. */
static void fill_tensor(const struct walk *w, char *p)
{
	for (uint32_t r = 0; r < RANKS; r++)
		fill(w->dtype, w->redop, r, w->id, 0, w->block,
		     p + r * w->block * type_size(w->dtype));
}

static int gather(void *group, uint32_t rank, const struct walk *w)
{
	size_t esize = type_size(w->dtype), total = RANKS * w->block, first, len;
	char *tensor = calloc(1, total * esize + GUARD), *want = calloc(1, total * esize + GUARD);
	char *own = w->in_place ? tensor + rank * w->block * esize : malloc(w->block * esize + 1);
	void *request;
	long got;

	CHECK(tensor && want && own, "memory");
	fill(w->dtype, w->redop, rank, w->id, 0, w->block, own);
	fill_tensor(w, want);
	for (size_t start = 0; start < total; start += w->window) {
		len = total - start < w->window ? total - start : w->window;
		if (!own_part(w, rank, start, len, &first))
			first = rank * w->block;
		CHECK(!coll_gather(group, own + (first - rank * w->block) * esize, 1,
				   tensor + start * esize, len * esize, w->block * esize,
				   start * esize, len * esize, &request) && request, "start");
		coll_wait(&request, &got, 1);
		CHECK(got == (long)(len * esize), "%ld of %zu bytes", got, len * esize);
	}
	CHECK(!memcmp(tensor, want, total * esize + GUARD), "blocks of %zu, windows of %zu",
	      w->block, w->window);
	if (!w->in_place)
		free(own);
	free(tensor);
	free(want);
	return 0;
}

/* A scatter leaves the blocks of others as they are, also in place. */
static int others_changed(const struct walk *w, uint32_t rank, const char *tensor)
{
	size_t bytes = w->block * type_size(w->dtype);
	char *was = malloc(bytes);

	CHECK(was, "memory");
	for (uint32_t r = 0; r < RANKS; r++) {
		fill(w->dtype, w->redop, rank, w->id, r * w->block, w->block, was);
		CHECK(r == rank || !memcmp(tensor + r * bytes, was, bytes),
		      "block %u of %zu has changed", r, w->block);
	}
	free(was);
	return 0;
}

/* Each rank gives a whole tensor, and gets the reduction of its own block. */
static int scatter(void *group, uint32_t rank, const struct walk *w)
{
	size_t esize = type_size(w->dtype), total = RANKS * w->block, first, len, mine;
	char *tensor = malloc(total * esize), *want = calloc(1, w->block * esize + GUARD);
	char *own = w->in_place ? tensor + rank * w->block * esize :
		    calloc(1, w->block * esize + GUARD);
	void *request;
	long got;

	CHECK(tensor && want && own, "memory");
	fill(w->dtype, w->redop, rank, w->id, 0, total, tensor);
	expect(w->dtype, w->redop, w->id, rank * w->block, w->block, want);
	for (size_t start = 0; start < total; start += w->window) {
		len = total - start < w->window ? total - start : w->window;
		mine = own_part(w, rank, start, len, &first);
		if (!mine)
			first = rank * w->block;
		CHECK(!coll_scatter(group, 1, tensor + start * esize, len * esize,
				    own + (first - rank * w->block) * esize, w->block * esize,
				    start * esize, len * esize, w->dtype, w->redop, &request) &&
		      request, "start");
		coll_wait(&request, &got, 1);
		CHECK(got == (long)(mine * esize), "%ld of %zu bytes", got, mine * esize);
	}
	CHECK(!memcmp(own, want, w->block * esize + (w->in_place ? 0 : GUARD)),
	      "blocks of %zu, windows of %zu", w->block, w->window);
	if (others_changed(w, rank, tensor))
		return 1;
	if (!w->in_place)
		free(own);
	free(tensor);
	free(want);
	return 0;
}

static const struct walk walks[] = {
	{ NCCL_F32, NCCL_SUM, 1, 4, false, 1 },			/* whole */
	{ NCCL_F32, NCCL_SUM, 1, 1, false, 2 },
	{ NCCL_BF16, NCCL_MAX, 1000, 4000, false, 3 },		/* whole, copied */
	{ NCCL_I64, NCCL_PROD, 5000, 20000, true, 4 },		/* whole, in place */
	{ NCCL_F16, NCCL_SUM, 1000, 700, false, 5 },		/* cut blocks */
	{ NCCL_U8, NCCL_SUM, 999, 2500, true, 6 },		/* several blocks */
	{ NCCL_F64, NCCL_MIN, 20011, 17003, false, 7 },		/* pinned */
	{ NCCL_U64, NCCL_SUM, 140000, 560000, true, 8 },	/* whole, but long */
	{ NCCL_I64, NCCL_SUM, 530000, 2120000, false, 9 },	/* blocks in pieces */
};

static int all_walks(uint32_t rank, int (*walk)(void *group, uint32_t rank,
						const struct walk *w))
{
	void *group;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	for (size_t i = 0; i < sizeof(walks) / sizeof(*walks); i++)
		if (walk(group, rank, &walks[i]))
			return 1;
	CHECK(!coll_close(group), "close");
	return 0;
}

static int gathers(uint32_t rank) { return all_walks(rank, gather); }
static int scatters(uint32_t rank) { return all_walks(rank, scatter); }

/*
 * Windows that are more operations than a group may have in flight. Rank 0 posts all while the
 * others do nothing, so none of its calls waits for room.
 */
static int crowded(uint32_t rank)
{
	enum { BLOCK = 100, START = 50, LEN = 300 };
	char own[NCCL_REQUESTS][BLOCK], window[NCCL_REQUESTS][LEN], want[RANKS * BLOCK];
	void *requests[NCCL_REQUESTS], *group;
	size_t skip = rank ? 0 : START;
	long got[NCCL_REQUESTS];

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	if (rank)
		sync_ranks();
	for (int i = 0; i < NCCL_REQUESTS; i++) {
		fill(NCCL_I8, NCCL_SUM, rank, 100 + i, 0, BLOCK, own[i]);
		CHECK(!coll_gather(group, own[i] + skip, 1, window[i], LEN, BLOCK, START, LEN,
				   &requests[i]) && requests[i], "start");
	}
	if (!rank)
		sync_ranks();
	coll_wait(requests, got, NCCL_REQUESTS);
	for (int i = 0; i < NCCL_REQUESTS; i++) {
		for (uint32_t r = 0; r < RANKS; r++)
			fill(NCCL_I8, NCCL_SUM, r, 100 + i, 0, BLOCK, want + r * BLOCK);
		CHECK(got[i] == LEN && !memcmp(window[i], want + START, LEN),
		      "window %d, %ld bytes", i, got[i]);
	}
	CHECK(!coll_close(group), "close");
	return 0;
}

/* Empty windows, and others around them, keep their order. */
static int mixed(uint32_t rank)
{
	int32_t x = 1, tensor[2 * RANKS] = {}, own[2] = { rank, rank + 10 }, sums[2] = {};
	void *requests[5], *group;
	long got[5];

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_gather(group, own, 1, tensor, 0, 8, 0, 0, &requests[0]), "empty");
	CHECK(!coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_SUM, &requests[1]), "sum");
	CHECK(!coll_scatter(group, 1, tensor, 0, sums, 8, 16, 0, NCCL_I32, NCCL_SUM,
			    &requests[2]), "empty");
	CHECK(!coll_gather(group, own, 1, tensor, 32, 8, 0, 32, &requests[3]), "gather");
	CHECK(!coll_gather(group, NULL, 1, NULL, 0, 0, 0, 0, &requests[4]), "nothing");
	coll_wait(requests, got, 5);
	CHECK(!got[0] && got[1] == 4 && !got[2] && got[3] == 32 && !got[4], "bytes");
	CHECK(x == RANKS, "sum %d", x);
	for (int r = 0; r < RANKS; r++)
		CHECK(tensor[2 * r] == r && tensor[2 * r + 1] == r + 10, "block %d", r);
	CHECK(!coll_close(group), "close");
	return 0;
}

const struct test window_tests[] = {
	{ "windows of gathers", gathers, 0, 0 },
	{ "windows of scatters", scatters, 0, 0 },
	{ "more operations than fit", crowded, 0, 0 },
	{ "windows, empty ones and sums", mixed, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
