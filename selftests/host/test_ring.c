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
#define HOST_LAYOUTS	16		/* of one size */
#define MAX_CHUNKS	(U32_MAX / 2)	/* that can be numbered */
#define SMALL		8192		/* bytes that are one block */

/* What is tested; a mutant replaces one function. */
static struct schedule {
	void (*seat)(struct rar_seat *seat, u32 size, u32 rank);
	void (*seat_hosts)(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
			   u32 ranks, u32 index);
	int (*init)(struct rar_ring *ring, u64 bytes, u32 payload,
		    const struct rar_seat *seat);
	void (*chunk)(const struct rar_ring *ring, u32 chunk,
		      struct rar_chunk *c);
	u32 (*first)(const struct rar_ring *ring, u32 block);
	u32 (*chunks)(const struct rar_ring *ring, u32 block);
	u32 (*ntx)(const struct rar_ring *ring);
	u32 (*nback)(const struct rar_ring *ring);
	bool (*receives)(const struct rar_ring *ring, enum rar_phase phase,
			 u32 block);
	enum rar_next (*next)(const struct rar_ring *ring,
			      enum rar_phase phase, u32 block);
} s;

static const struct schedule real = {
	rar_ring_seat, rar_ring_seat_hosts, rar_ring_init, rar_ring_chunk,
	rar_ring_block_first, rar_ring_block_chunks, rar_ring_ntx, rar_ring_nback,
	rar_ring_receives, rar_ring_next,
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
		tap_note("line %d: %s: bytes=%llu payload=%u size=%u parts=%u own=%u final=%u",
			 line, what, r->bytes, r->payload, r->seat.size,
			 r->seat.parts, r->seat.own, r->seat.final);
}

/* The schedule of a rank in a group without hosts. */
static int init(struct rar_ring *r, u64 bytes, u32 payload, u32 size, u32 rank)
{
	struct rar_seat seat = {};

	if (size)
		s.seat(&seat, size, rank);
	return s.init(r, bytes, payload, &seat);
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
	u32 i, b, n = r->nchunks, parts = r->seat.parts;

	CHECK(r->block == block_of(r->bytes, parts), r);
	CHECK(n >= 1 && r->nblocks >= 1 && r->nblocks <= parts, r);
	for (i = 0; i < (n <= FULL_CHUNKS ? n : SAMPLES); i++)
		if (!check_chunk(r, n <= FULL_CHUNKS ? i :
				 rnd_below(&seed, n)))
			return false;
	for (i = 0; i < (parts <= 64 ? parts : SAMPLES); i++) {
		b = parts <= 64 ? i : rnd_below(&seed, parts);
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
	struct rar_ring r = { .bytes = longest, .payload = payload };

	CHECK(init(&r, longest + 1, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(init(&r, 1ULL << 63, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(init(&r, U64_MAX, payload, size, 0) == -EMSGSIZE, &r);
	CHECK(!init(&r, longest, payload, size, size - 1), &r);
	CHECK(r.nchunks <= MAX_CHUNKS, &r);
	return check_tiling(&r);
}

/* --- the way of a block --- */

/*
 * From rank to rank: RS until everybody has added, AG until everybody has the
 * sum; and the ranks that the way leads to are those that may receive.
 */
static bool check_way(struct rar_ring *r, u32 size, u32 block)
{
	static u8 got[RAR_PHASES][4096];
	u32 hop, hops = 2 * (size - 1), p, rank = block;
	enum rar_phase phase = RAR_RS;
	enum rar_next next;

	memset(got, 0, sizeof(got));
	for (hop = 1; hop <= hops; hop++) {
		rank = (rank + 1) % size;
		s.seat(&r->seat, size, rank);
		CHECK(s.receives(r, phase, block), r);
		got[phase][rank]++;
		next = s.next(r, phase, block);
		if (hop == hops)
			break;
		CHECK(next == (hop < size - 1 ? RAR_NEXT_RS : RAR_NEXT_AG), r);
		phase = next == RAR_NEXT_AG ? RAR_AG : RAR_RS;
	}
	if (hops)
		CHECK(next == RAR_NEXT_STOP, r);
	for (rank = 0; hops && rank < size; rank++) {
		s.seat(&r->seat, size, rank);
		for (p = 0; p < RAR_PHASES; p++)
			CHECK(got[p][rank] == s.receives(r, p, block), r);
	}
	return true;
}

/* What a rank sends, in chunks and bytes, if it sends what it owes. */
static bool check_amount(struct rar_ring *r, u32 size, u32 rank)
{
	u32 ends[] = { (rank + 1) % size, (rank + 2) % size };
	u64 sent = 2 * r->bytes;
	u32 ntx = 2 * r->nchunks, i;

	s.seat(&r->seat, size, rank);
	CHECK(!s.nback(r), r);
	if (size == 1) {
		CHECK(!s.ntx(r), r);
		return true;
	}
	for (i = 0; i < 2; i++) {
		ntx -= s.chunks(r, ends[i]);
		sent -= lower(r->bytes, (ends[i] + 1) * r->block) -
			lower(r->bytes, ends[i] * r->block);
	}
	CHECK(s.ntx(r) == ntx, r);
	CHECK(sent <= most_sent(r->bytes, size), r);
	return true;
}

static bool check_ways(u64 bytes, u32 payload, u32 size)
{
	struct rar_ring r = {};
	u32 i, n = size <= 64 ? size : 50;

	CHECK(!init(&r, bytes, payload, size, 0), &r);
	for (i = 0; i < n; i++) {
		if (!check_way(&r, size, size <= 64 ? i : rnd_below(&seed, size)))
			return false;
		if (!check_amount(&r, size, size <= 64 ? i : rnd_below(&seed, size)))
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
	u32 size;
	u32 host[SIM_SIZE];		/* of each rank */
	u32 first[SIM_SIZE];		/* rank of each host */
	u32 hosts;			/* 0: all ranks are alike */
	struct sum buf[SIM_SIZE][SIM_CHUNKS];
	u8 got[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	u8 final[SIM_SIZE][SIM_CHUNKS];
	u32 ntx[SIM_SIZE];
	u32 nback[SIM_SIZE];
	u64 sent[SIM_SIZE];
	struct packet net[3 * SIM_SIZE * SIM_CHUNKS];
	u32 nnet;
} sim;

static bool sim_send(u32 rank, u32 to, enum rar_phase phase, u32 chunk)
{
	const struct rar_ring *r = &sim.ring[rank];
	struct rar_chunk c;

	CHECK(sim.nnet < ARRAY_SIZE(sim.net), r);
	s.chunk(r, chunk, &c);
	sim.net[sim.nnet++] = (struct packet) {
		.to = to, .chunk = chunk, .phase = phase,
		.sum = sim.buf[rank][chunk],
	};
	sim.sent[rank] += c.len;
	return true;
}

static bool sim_send_next(u32 rank, enum rar_phase phase, u32 chunk)
{
	sim.ntx[rank]++;
	return sim_send(rank, (rank + 1) % sim.size, phase, chunk);
}

static void sim_seat(struct rar_seat *seat, u32 rank)
{
	u32 host = sim.host[rank], end;

	if (!sim.hosts) {
		s.seat(seat, sim.size, rank);
		return;
	}
	end = host + 1 < sim.hosts ? sim.first[host + 1] : sim.size;
	s.seat_hosts(seat, sim.size, sim.hosts, host, end - sim.first[host],
		     rank - sim.first[host]);
}

/* Bit i of @borders: rank i + 1 is on another host than rank i. 0: no hosts. */
static void sim_layout(u32 size, bool by_hosts, u32 borders)
{
	u32 rank;

	memset(&sim, 0, sizeof(sim));
	sim.size = size;
	if (!by_hosts)
		return;
	sim.hosts = 1;
	for (rank = 1; rank < size; rank++) {
		if (borders & (1U << (rank - 1)))
			sim.first[sim.hosts++] = rank;
		sim.host[rank] = sim.hosts - 1;
	}
}

static bool sim_start(u64 bytes, u32 payload)
{
	struct rar_seat seat;
	struct rar_ring *r;
	u32 rank, i;

	for (rank = 0; rank < sim.size; rank++) {
		r = &sim.ring[rank];
		sim_seat(&seat, rank);
		CHECK(!s.init(r, bytes, payload, &seat), r);
		CHECK(r->nchunks <= SIM_CHUNKS, r);
		for (i = 0; i < r->nchunks; i++)
			sim.buf[rank][i] = (struct sum){ 1, { rank } };
	}
	for (rank = 0; sim.size > 1 && rank < sim.size; rank++) {
		r = &sim.ring[rank];
		for (i = 0; i < s.chunks(r, r->seat.own); i++)
			if (!sim_send_next(rank, RAR_RS, s.first(r, r->seat.own) + i))
				return false;
	}
	return true;
}

/* What data.c and link.c do: add or store, then as the schedule says. */
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
		CHECK(sum.n < sim.size, r);
		sum.rank[sum.n++] = pkt->to;		/* in + own */
	}
	*own = sum;
	next = s.next(r, pkt->phase, c.block);
	if (pkt->phase == RAR_AG || next == RAR_NEXT_AG)
		sim.final[pkt->to][pkt->chunk]++;
	if (pkt->phase == RAR_RS && next == RAR_NEXT_AG && r->seat.back) {
		sim.nback[pkt->to]++;
		if (!sim_send(pkt->to, sim.first[sim.host[pkt->to]], RAR_AG, pkt->chunk))
			return false;
	}
	if (next == RAR_NEXT_STOP)
		return true;
	return sim_send_next(pkt->to, next == RAR_NEXT_RS ? RAR_RS : RAR_AG,
			     pkt->chunk);
}

/* Of the block whose sums become complete here. */
static u64 block_bytes(const struct rar_ring *r)
{
	u64 from = lower(r->bytes, r->seat.final * r->block);

	return lower(r->bytes, from + r->block) - from;
}

/* Every rank has every sum, once, added from the injector on. */
static bool sim_judge(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	const struct sum *sum;
	struct rar_chunk c;
	u32 chunk, i, first;

	for (chunk = 0; chunk < r->nchunks; chunk++) {
		s.chunk(r, chunk, &c);
		sum = &sim.buf[rank][chunk];
		first = sim.hosts ? sim.first[c.block] : c.block;
		CHECK(sim.final[rank][chunk] == (sim.size > 1), r);
		CHECK(sum->n == sim.size, r);
		for (i = 0; i < sum->n; i++)
			CHECK(sum->rank[i] == (first + i) % sim.size, r);
	}
	CHECK(sim.ntx[rank] == s.ntx(r), r);
	CHECK(sim.nback[rank] == s.nback(r), r);
	if (!sim.hosts)
		CHECK(sim.sent[rank] <= most_sent(r->bytes, sim.size), r);
	/* What leaves a host is what hosts owe each other. */
	else if (sim.hosts > 1 && sim.host[(rank + 1) % sim.size] != sim.host[rank])
		CHECK(sim.sent[rank] - (r->seat.back ? block_bytes(r) : 0) <=
		      most_sent(r->bytes, sim.hosts), r);
	return true;
}

static bool check_sim(u64 bytes, u32 payload)
{
	struct packet pkt;
	u32 i;

	if (!sim_start(bytes, payload))
		return false;
	while (sim.nnet) {
		i = rnd_below(&seed, sim.nnet);
		pkt = sim.net[i];
		sim.net[i] = sim.net[--sim.nnet];
		if (!sim_receive(&pkt))
			return false;
	}
	for (i = 0; i < sim.size; i++)
		if (!sim_judge(i))
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
			if (init(&r, bytes, payloads[p], size,
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
	struct rar_ring r = {};
	u32 p;

	for (p = 0; p < ARRAY_SIZE(payloads); p++)
		if (!check_limit(size, payloads[p]))
			return false;
	CHECK(init(&r, 64, 0, size, 0) == -EINVAL, &r);
	CHECK(init(&r, 64, 64, 0, 0) == -EINVAL, &r);
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

/* Operations of every length that a simulation can hold. */
static bool sim_all(u32 size, bool by_hosts, u32 borders)
{
	struct rar_ring r = {};
	u32 i, p, n = 0;
	u64 bytes;

	for (p = 1; p < 5; p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			if (init(&r, bytes, payloads[p], size, 0) ||
			    r.nchunks + 2 * size > SIM_CHUNKS)
				continue;
			sim_layout(size, by_hosts, borders);
			if (!check_sim(bytes, payloads[p]))
				return false;
			n++;
		}
	}
	return n > 50;
}

static bool test_sim(u32 size)
{
	return sim_all(size, false, 0);
}

/* All layouts of a few ranks, some of many. */
static bool test_hosts(u32 size)
{
	u32 layouts = 1U << (size - 1), i;

	for (i = 0; i < layouts && i < HOST_LAYOUTS; i++)
		if (!sim_all(size, true, layouts <= HOST_LAYOUTS ? i :
			     rnd_below(&seed, layouts)))
			return false;
	return true;
}

static bool check_all(u32 size)
{
	return test_tiling(size) && test_limit(size) && test_ways(size) &&
	       test_sim(size) && test_hosts(size);
}

/* --- mutants --- */

static int mut_init_unaligned(struct rar_ring *r, u64 bytes, u32 payload,
			      const struct rar_seat *seat)
{
	int err = rar_ring_init(r, bytes, payload, seat);

	if (!err && bytes % (64 * seat->size) == 0)
		r->block += 4;
	return err;
}

static int mut_init_unlimited(struct rar_ring *r, u64 bytes, u32 payload,
			      const struct rar_seat *seat)
{
	return rar_ring_init(r, lower(bytes, 1 << 30), payload, seat);
}

static int mut_init_chunk_lost(struct rar_ring *r, u64 bytes, u32 payload,
			       const struct rar_seat *seat)
{
	int err = rar_ring_init(r, bytes, payload, seat);

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
	return 2 * (r->nchunks - rar_ring_block_chunks(r, r->seat.final));
}

static bool mut_receives_all(const struct rar_ring *r, enum rar_phase phase,
			     u32 block)
{
	return true;
}

static bool mut_receives_less(const struct rar_ring *r, enum rar_phase phase,
			      u32 block)
{
	return rar_ring_receives(r, phase, block) && block != r->seat.stops;
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

	if (phase == RAR_AG && block == (r->seat.stops + 1) % r->seat.size)
		return RAR_NEXT_STOP;
	return next;
}

static enum rar_next mut_next_ag_far(const struct rar_ring *r,
				     enum rar_phase phase, u32 block)
{
	enum rar_next next = rar_ring_next(r, phase, block);

	return next == RAR_NEXT_STOP ? RAR_NEXT_AG : next;
}

static void mut_seat_final(struct rar_seat *seat, u32 size, u32 rank)
{
	rar_ring_seat(seat, size, rank);
	seat->final = rank;
}

/* As if the last rank of a host had nobody behind it. */
static void mut_hosts_no_back(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
			      u32 ranks, u32 index)
{
	rar_ring_seat_hosts(seat, size, hosts, host, ranks, index);
	seat->back = false;
}

/* As if the sums had to come back over the last link. */
static void mut_hosts_last_link(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
				u32 ranks, u32 index)
{
	rar_ring_seat_hosts(seat, size, hosts, host, ranks, index);
	if (index + 1 == ranks)
		seat->stops = RAR_NO_BLOCK;
}

static void mut_hosts_all_inject(struct rar_seat *seat, u32 size, u32 hosts, u32 host,
				 u32 ranks, u32 index)
{
	rar_ring_seat_hosts(seat, size, hosts, host, ranks, index);
	seat->own = host;
}

static void test_mutants(void)
{
	static const struct {
		const char *name;
		struct schedule s;
	} mutants[] = {
		{ "seat_final", { .seat = mut_seat_final } },
		{ "hosts_no_back", { .seat_hosts = mut_hosts_no_back } },
		{ "hosts_last_link", { .seat_hosts = mut_hosts_last_link } },
		{ "hosts_all_inject", { .seat_hosts = mut_hosts_all_inject } },
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
			m->seat ?: real.seat, m->seat_hosts ?: real.seat_hosts,
			m->init ?: real.init, m->chunk ?: real.chunk,
			m->first ?: real.first, m->chunks ?: real.chunks,
			m->ntx ?: real.ntx, m->nback ?: real.nback,
			m->receives ?: real.receives, m->next ?: real.next,
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
		if (n > SIM_SIZE)
			continue;
		tap_ok(test_sim(n), "n%u_every_rank_every_sum_once", n);
		tap_ok(test_hosts(n), "n%u_by_hosts", n);
	}
	test_mutants();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
