// SPDX-License-Identifier: GPL-2.0
/*
 * The ring schedule.
 *
 * Tensors of every awkward length are cut and the pieces held against what
 * ring.h says. Then whole operations run on paper: N ranks, packets that
 * overtake each other, and instead of numbers the list of ranks whose data a
 * chunk holds, in the order of addition. Schedules that are wrong on purpose
 * go through the same checks, and each must be caught.
 */
#include "ring.h"
#include "tap.h"
#include "util.h"

#define SIM_SIZE	17		/* ranks in a simulation */
#define SIM_CHUNKS	128		/* chunks in one */
#define FULL_CHUNKS	2048		/* more than that: only samples */
#define SAMPLES		400
#define MAX_CHUNKS	(U32_MAX / 2)	/* that can be numbered */
#define SMALL		8192		/* bytes that are one block */

/* What is tested; a mutant replaces one function. */
static struct schedule {
	int (*init)(struct rar_ring *ring, u64 bytes, u32 payload, u32 size,
		    u32 rank);
	void (*chunk)(const struct rar_ring *ring, u32 chunk,
		      struct rar_chunk *c);
	u32 (*first)(const struct rar_ring *ring, u32 block);
	u32 (*chunks)(const struct rar_ring *ring, u32 block);
	u32 (*ntx)(const struct rar_ring *ring);
	bool (*receives)(const struct rar_ring *ring, enum rar_phase phase,
			 u32 block);
	enum rar_next (*next)(const struct rar_ring *ring,
			      enum rar_phase phase, u32 block);
} s;

static const struct schedule real = {
	rar_ring_init, rar_ring_chunk, rar_ring_block_first,
	rar_ring_block_chunks, rar_ring_ntx, rar_ring_receives, rar_ring_next,
};

static const u32 sizes[] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 4096,
};

/* 1168 to 8896: what MTUs of 1280, 1500 and 9000 leave */
static const u32 payloads[] = {
	1, 16, 64, 80, 1168, 1376, 1408, 8880, 8896, 65504, 1 << 20,
};

static u64 seed;
static bool quiet;			/* failures are what we want to see */

/* A finding, with what it is about. */
#define CHECK(cond, ring) do {						\
	if (!(cond)) {							\
		complain(#cond, __LINE__, ring);			\
		return false;						\
	}								\
} while (0)

static void complain(const char *what, int line, const struct rar_ring *r)
{
	if (!quiet)
		tap_note("line %d: %s: bytes=%llu payload=%u size=%u rank=%u",
			 line, what, r->bytes, r->payload, r->size, r->rank);
}

static u64 lower(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* What a block must be: the share of a rank, or all that is short, up to a border of 64. */
static u64 block_of(u64 bytes, u32 size)
{
	u64 share = bytes <= SMALL ? bytes : bytes / size + (bytes % size != 0);

	return share + (64 - share % 64) % 64;
}

/* Bytes that a rank sends at most: its share of the work, or both phases of all. */
static u64 most_sent(u64 bytes, u32 size)
{
	return bytes <= SMALL ? 2 * bytes : 2 * (size - 1) * (bytes / size + 64);
}

/* --- cutting --- */

static bool check_chunk(const struct rar_ring *r, u32 i)
{
	struct rar_chunk c, after;
	u64 end;

	s.chunk(r, i, &c);
	CHECK(c.len || !r->bytes, r);
	CHECK(c.len <= r->payload, r);
	CHECK(!r->block || c.block == c.off / r->block, r);
	end = lower((c.block + 1) * r->block, r->bytes);
	CHECK(c.off + c.len <= end, r);
	CHECK(c.off + c.len == end || c.len == r->payload, r);
	CHECK(c.len % 4 == 0 || end % 4 || r->payload % 4, r);
	if (!i)
		CHECK(c.off == 0, r);
	if (i + 1 == r->nchunks) {
		CHECK(c.off + c.len == r->bytes, r);
		return true;
	}
	s.chunk(r, i + 1, &after);
	CHECK(after.off == c.off + c.len, r);
	return true;
}

/* The chunks of a block are those, and only those, that lie in it. */
static bool check_block(const struct rar_ring *r, u32 b)
{
	u32 first = s.first(r, b), n = s.chunks(r, b);
	struct rar_chunk c;

	if (b >= r->nblocks) {
		CHECK(!n, r);
		return true;
	}
	CHECK(n && n <= r->cpb && first + n <= r->nchunks, r);
	s.chunk(r, first, &c);
	CHECK(c.block == b && c.off == b * r->block, r);
	s.chunk(r, first + n - 1, &c);
	CHECK(c.block == b, r);
	CHECK(first + n == (b + 1 < r->nblocks ? s.first(r, b + 1) :
						 r->nchunks), r);
	return true;
}

static bool check_tiling(const struct rar_ring *r)
{
	u32 i, b, n = r->nchunks;

	CHECK(r->block == block_of(r->bytes, r->size), r);
	CHECK(n >= 1 && r->nblocks >= 1 && r->nblocks <= r->size, r);
	for (i = 0; i < (n <= FULL_CHUNKS ? n : SAMPLES); i++)
		if (!check_chunk(r, n <= FULL_CHUNKS ? i :
				 rnd_below(&seed, n)))
			return false;
	for (i = 0; i < (r->size <= 64 ? r->size : SAMPLES); i++) {
		b = r->size <= 64 ? i : rnd_below(&seed, r->size);
		if (!check_block(r, b))
			return false;
		/* borders: the chunks on both sides of the block's begin */
		if (b && b < r->nblocks && !check_chunk(r, s.first(r, b) - 1))
			return false;
	}
	return check_chunk(r, 0) && check_chunk(r, n - 1);
}

/* --- the limits --- */

/* The longest tensor that can be cut, and one byte more. */
static bool check_limit(u32 size, u32 payload)
{
	u64 block = MAX_CHUNKS / size * (u64)payload / 64 * 64;
	u64 longest = lower(block * size, 1ULL << 40);
	struct rar_ring r = { .bytes = longest, .payload = payload,
			      .size = size };

	CHECK(s.init(&r, longest + 1, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(s.init(&r, 1ULL << 63, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(s.init(&r, U64_MAX, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(!s.init(&r, longest, payload, size, size - 1), &r);
	CHECK(r.nchunks <= MAX_CHUNKS, &r);
	return check_tiling(&r);
}

/* --- the way of a block --- */

/*
 * From rank to rank: RS until everybody has added, AG until everybody has the
 * sum; and the ranks that the way leads to are those that may receive.
 */
static bool check_way(struct rar_ring *r, u32 block)
{
	static u8 got[RAR_PHASES][4096];
	u32 hop, hops = 2 * (r->size - 1), p;
	enum rar_phase phase = RAR_RS;
	enum rar_next next;

	memset(got, 0, sizeof(got));
	r->rank = block;
	for (hop = 1; hop <= hops; hop++) {
		r->rank = (r->rank + 1) % r->size;
		CHECK(s.receives(r, phase, block), r);
		got[phase][r->rank]++;
		next = s.next(r, phase, block);
		if (hop == hops)
			break;
		CHECK(next == (hop < r->size - 1 ? RAR_NEXT_RS : RAR_NEXT_AG),
		      r);
		phase = next == RAR_NEXT_AG ? RAR_AG : RAR_RS;
	}
	if (hops)
		CHECK(next == RAR_NEXT_STOP, r);
	for (r->rank = 0; r->rank < r->size; r->rank++)
		for (p = 0; p < RAR_PHASES; p++)
			CHECK(got[p][r->rank] == s.receives(r, p, block), r);
	return true;
}

/* What a rank sends, in chunks and bytes, if it sends what it owes. */
static bool check_amount(const struct rar_ring *r)
{
	u32 ends[] = { (r->rank + 1) % r->size, (r->rank + 2) % r->size };
	u64 sent = 2 * r->bytes;
	u32 ntx = 2 * r->nchunks, i;

	if (r->size == 1) {
		CHECK(!s.ntx(r), r);
		return true;
	}
	for (i = 0; i < 2; i++) {
		ntx -= s.chunks(r, ends[i]);
		sent -= lower(r->bytes, (ends[i] + 1) * r->block) -
			lower(r->bytes, ends[i] * r->block);
	}
	CHECK(s.ntx(r) == ntx, r);
	CHECK(sent <= most_sent(r->bytes, r->size), r);
	return true;
}

static bool check_ways(u64 bytes, u32 payload, u32 size)
{
	struct rar_ring r = {};
	u32 i, n = size <= 64 ? size : 50;

	CHECK(!s.init(&r, bytes, payload, size, 0), &r);
	for (i = 0; i < n; i++) {
		if (!check_way(&r, size <= 64 ? i : rnd_below(&seed, size)))
			return false;
		r.rank = size <= 64 ? i : rnd_below(&seed, size);
		if (!check_amount(&r))
			return false;
	}
	return true;
}

/* --- whole operations --- */

/* Whose data are in the sum, in the order of addition. */
struct sum {
	u8 n;
	u8 rank[SIM_SIZE];
};

struct packet {
	u32 to;
	u32 chunk;
	enum rar_phase phase;
	struct sum sum;
};

static struct sim {
	struct rar_ring ring[SIM_SIZE];
	struct sum buf[SIM_SIZE][SIM_CHUNKS];
	u8 got[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	u8 final[SIM_SIZE][SIM_CHUNKS];
	u32 ntx[SIM_SIZE];
	u64 sent[SIM_SIZE];
	struct packet net[2 * SIM_SIZE * SIM_CHUNKS];
	u32 nnet;
} sim;

static bool sim_send(u32 rank, enum rar_phase phase, u32 chunk)
{
	const struct rar_ring *r = &sim.ring[rank];
	struct rar_chunk c;

	CHECK(sim.nnet < ARRAY_SIZE(sim.net), r);
	s.chunk(r, chunk, &c);
	sim.net[sim.nnet++] = (struct packet) {
		.to = (rank + 1) % r->size, .chunk = chunk, .phase = phase,
		.sum = sim.buf[rank][chunk],
	};
	sim.ntx[rank]++;
	sim.sent[rank] += c.len;
	return true;
}

static bool sim_start(u64 bytes, u32 payload, u32 size)
{
	struct rar_ring *r;
	u32 rank, i;

	memset(&sim, 0, sizeof(sim));
	for (rank = 0; rank < size; rank++) {
		r = &sim.ring[rank];
		CHECK(!s.init(r, bytes, payload, size, rank), r);
		CHECK(r->nchunks <= SIM_CHUNKS, r);
		for (i = 0; i < r->nchunks; i++)
			sim.buf[rank][i] = (struct sum){ 1, { rank } };
	}
	for (rank = 0; size > 1 && rank < size; rank++) {
		r = &sim.ring[rank];
		for (i = 0; i < s.chunks(r, rank); i++)
			if (!sim_send(rank, RAR_RS, s.first(r, rank) + i))
				return false;
	}
	return true;
}

/* What input.c and link.c do: add or store, then as the schedule says. */
static bool sim_receive(const struct packet *pkt)
{
	const struct rar_ring *r = &sim.ring[pkt->to];
	struct sum *own = &sim.buf[pkt->to][pkt->chunk], sum = pkt->sum;
	enum rar_next next;
	struct rar_chunk c;

	s.chunk(r, pkt->chunk, &c);
	CHECK(s.receives(r, pkt->phase, c.block), r);
	CHECK(!sim.got[pkt->to][pkt->phase][pkt->chunk]++, r);
	if (pkt->phase == RAR_RS) {
		CHECK(own->n == 1 && own->rank[0] == pkt->to, r);
		CHECK(sum.n < r->size, r);
		sum.rank[sum.n++] = pkt->to;		/* in + own */
	}
	*own = sum;
	next = s.next(r, pkt->phase, c.block);
	if (pkt->phase == RAR_AG || next == RAR_NEXT_AG)
		sim.final[pkt->to][pkt->chunk]++;
	if (next == RAR_NEXT_STOP)
		return true;
	return sim_send(pkt->to, next == RAR_NEXT_RS ? RAR_RS : RAR_AG,
			pkt->chunk);
}

/* Every rank has every sum, once, added from the injector on. */
static bool sim_judge(const struct rar_ring *r)
{
	const struct sum *sum;
	struct rar_chunk c;
	u32 chunk, i;

	for (chunk = 0; chunk < r->nchunks; chunk++) {
		s.chunk(r, chunk, &c);
		sum = &sim.buf[r->rank][chunk];
		CHECK(sim.final[r->rank][chunk] == (r->size > 1), r);
		CHECK(sum->n == r->size, r);
		for (i = 0; i < sum->n; i++)
			CHECK(sum->rank[i] == (c.block + i) % r->size, r);
	}
	CHECK(sim.ntx[r->rank] == s.ntx(r), r);
	CHECK(sim.sent[r->rank] <= most_sent(r->bytes, r->size), r);
	return true;
}

static bool check_sim(u64 bytes, u32 payload, u32 size)
{
	struct packet pkt;
	u32 i;

	if (!sim_start(bytes, payload, size))
		return false;
	while (sim.nnet) {
		i = rnd_below(&seed, sim.nnet);
		pkt = sim.net[i];
		sim.net[i] = sim.net[--sim.nnet];
		if (!sim_receive(&pkt))
			return false;
	}
	for (i = 0; i < size; i++)
		if (!sim_judge(&sim.ring[i]))
			return false;
	return true;
}

/* --- cases --- */

/* The i-th length for @size ranks; false behind the last. */
static bool nth_length(u32 size, u32 i, u64 *bytes)
{
	const u64 b = 64 * (u64)size;
	const u64 lengths[] = {
		0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 127, 128, 129, size - 1, size,
		size + 1, 4 * (u64)size, b - 64, b - 1, b, b + 1, b + 64,
		2 * b - 1, 2 * b, 2 * b + 1, 997, SMALL - 1, SMALL, SMALL + 1, 65537, 104729, 1 << 20,
		15485863, (1ULL << 31) - 1, (1ULL << 31) + 4, 999999999989,
		(1ULL << 40) - 1, 1ULL << 40,
	};

	if (i >= ARRAY_SIZE(lengths) + 16)
		return false;
	if (i < ARRAY_SIZE(lengths))
		*bytes = lengths[i];
	else		/* all magnitudes alike */
		*bytes = rnd(&seed) >> (24 + rnd_below(&seed, 40));
	return true;
}

static bool test_tiling(u32 size)
{
	struct rar_ring r;
	u64 bytes;
	u32 i, p;

	for (p = 0; p < ARRAY_SIZE(payloads); p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			if (s.init(&r, bytes, payloads[p], size,
				   rnd_below(&seed, size)))
				continue;	/* the limits are test_limit's */
			if (!check_tiling(&r))
				return false;
		}
	}
	return true;
}

static bool test_limit(u32 size)
{
	struct rar_ring r = { .size = size };
	u32 p;

	for (p = 0; p < ARRAY_SIZE(payloads); p++)
		if (!check_limit(size, payloads[p]))
			return false;
	CHECK(s.init(&r, 64, 0, size, 0) == -EINVAL, &r);
	CHECK(s.init(&r, 64, 64, 0, 0) == -EINVAL, &r);
	return check_limit(size, U32_MAX);
}

static bool test_ways(u32 size)
{
	u64 bytes;
	u32 i;

	for (i = 0; nth_length(size, i, &bytes); i++)
		if (bytes < 1ULL << 32 && !check_ways(bytes, 1408, size))
			return false;
	return check_ways(1ULL << 40, 8896, size);
}

static bool test_sim(u32 size)
{
	struct rar_ring r;
	u32 i, p, n = 0;
	u64 bytes;

	for (p = 1; p < 5; p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			if (s.init(&r, bytes, payloads[p], size, 0) ||
			    r.nchunks > SIM_CHUNKS)
				continue;
			if (!check_sim(bytes, payloads[p], size))
				return false;
			n++;
		}
	}
	return n > 50;
}

static bool check_all(u32 size)
{
	return test_tiling(size) && test_limit(size) && test_ways(size) &&
	       test_sim(size);
}

/* --- mutants --- */

static int mut_init_unaligned(struct rar_ring *r, u64 bytes, u32 payload,
			      u32 size, u32 rank)
{
	int err = rar_ring_init(r, bytes, payload, size, rank);

	if (!err && bytes % (64 * size) == 0)
		r->block += 4;
	return err;
}

static int mut_init_unlimited(struct rar_ring *r, u64 bytes, u32 payload,
			      u32 size, u32 rank)
{
	return rar_ring_init(r, lower(bytes, 1 << 30), payload, size, rank);
}

static int mut_init_chunk_lost(struct rar_ring *r, u64 bytes, u32 payload,
			       u32 size, u32 rank)
{
	int err = rar_ring_init(r, bytes, payload, size, rank);

	r->nchunks -= !err && r->nchunks > 1;
	return err;
}

static void mut_chunk_crosses(const struct rar_ring *r, u32 chunk,
			      struct rar_chunk *c)
{
	rar_ring_chunk(r, chunk, c);
	c->off = (u64)chunk * r->payload;
	c->len = lower(r->bytes - lower(c->off, r->bytes), r->payload);
}

static void mut_chunk_long(const struct rar_ring *r, u32 chunk,
			   struct rar_chunk *c)
{
	rar_ring_chunk(r, chunk, c);
	c->len = lower(r->bytes - c->off, r->payload);
}

static u32 mut_first_rotated(const struct rar_ring *r, u32 block)
{
	return rar_ring_block_first(r, (block + 1) % r->nblocks);
}

static u32 mut_chunks_full(const struct rar_ring *r, u32 block)
{
	return block < r->nblocks ? r->cpb : 0;
}

static u32 mut_ntx_both(const struct rar_ring *r)
{
	return 2 * r->nchunks;
}

static u32 mut_ntx_twice(const struct rar_ring *r)
{
	return 2 * (r->nchunks -
		    rar_ring_block_chunks(r, (r->rank + 1) % r->size));
}

static bool mut_receives_all(const struct rar_ring *r, enum rar_phase phase,
			     u32 block)
{
	return true;
}

static bool mut_receives_less(const struct rar_ring *r, enum rar_phase phase,
			      u32 block)
{
	return rar_ring_receives(r, phase, block) &&
	       rar_ring_dist(r, block) != 1;
}

static enum rar_next mut_next_rs_far(const struct rar_ring *r,
				     enum rar_phase phase, u32 block)
{
	return phase == RAR_RS ? RAR_NEXT_RS : rar_ring_next(r, phase, block);
}

static enum rar_next mut_next_ag_short(const struct rar_ring *r,
				       enum rar_phase phase, u32 block)
{
	enum rar_next next = rar_ring_next(r, phase, block);

	if (phase == RAR_AG && rar_ring_dist(r, block) + 3 == r->size)
		return RAR_NEXT_STOP;
	return next;
}

static enum rar_next mut_next_ag_far(const struct rar_ring *r,
				     enum rar_phase phase, u32 block)
{
	enum rar_next next = rar_ring_next(r, phase, block);

	return next == RAR_NEXT_STOP ? RAR_NEXT_AG : next;
}

static void test_mutants(void)
{
	static const struct {
		const char *name;
		struct schedule s;
	} mutants[] = {
		{ "init_unaligned", { .init = mut_init_unaligned } },
		{ "init_unlimited", { .init = mut_init_unlimited } },
		{ "init_chunk_lost", { .init = mut_init_chunk_lost } },
		{ "chunk_crosses", { .chunk = mut_chunk_crosses } },
		{ "chunk_long", { .chunk = mut_chunk_long } },
		{ "first_rotated", { .first = mut_first_rotated } },
		{ "chunks_full", { .chunks = mut_chunks_full } },
		{ "ntx_both", { .ntx = mut_ntx_both } },
		{ "ntx_twice", { .ntx = mut_ntx_twice } },
		{ "receives_all", { .receives = mut_receives_all } },
		{ "receives_less", { .receives = mut_receives_less } },
		{ "next_rs_far", { .next = mut_next_rs_far } },
		{ "next_ag_short", { .next = mut_next_ag_short } },
		{ "next_ag_far", { .next = mut_next_ag_far } },
	};
	size_t i;

	quiet = true;
	for (i = 0; i < ARRAY_SIZE(mutants); i++) {
		const struct schedule *m = &mutants[i].s;

		s = (struct schedule) {
			m->init ?: real.init, m->chunk ?: real.chunk,
			m->first ?: real.first, m->chunks ?: real.chunks,
			m->ntx ?: real.ntx, m->receives ?: real.receives,
			m->next ?: real.next,
		};
		tap_ok(!check_all(4), "mutant_%s__caught", mutants[i].name);
	}
	quiet = false;
	s = real;
}

int main(void)
{
	double start = now();
	size_t i;

	tap_begin();
	seed = seed_get();
	tap_note("SEED=%#llx", seed);
	s = real;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 n = sizes[i];

		tap_ok(test_tiling(n), "n%u_chunks_tile_the_tensor", n);
		tap_ok(test_limit(n), "n%u_limits", n);
		tap_ok(test_ways(n), "n%u_way_of_a_block", n);
		if (n <= SIM_SIZE)
			tap_ok(test_sim(n), "n%u_every_rank_every_sum_once", n);
	}
	test_mutants();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
