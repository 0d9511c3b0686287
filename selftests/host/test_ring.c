// SPDX-License-Identifier: GPL-2.0
/*
 * The ring schedule.
 *
 * Tensors of every awkward length are cut and the pieces held against what
 * ring.h says. Then whole operations run on paper: N ranks, packets that
 * overtake each other, and instead of numbers the list of ranks whose data a
 * chunk holds, in the order of addition. So it is with every collective and every
 * root. Schedules that are wrong on purpose go through the same checks, and each must
 * be caught.
 */
#include "core/ring.h"
#include "tap.h"
#include "util.h"

#define SIM_SIZE	17		/* ranks in a simulation */
#define PLAN_SIZE	9		/* ranks, with every collective and root */
#define SIM_WINDOW	2		/* chunks of each rank that are on their way round */
#define SIM_CHUNKS	128		/* chunks in one */
#define FULL_CHUNKS	2048		/* more than that: only samples */
#define SAMPLES		400
#define HOST_LAYOUTS	16		/* of one size */
#define MAX_CHUNKS	(U32_MAX / 2)	/* that can be numbered */
#define SMALL		8192		/* bytes that are one block */

/* What is tested; a mutant replaces one function. */
static struct schedule {
	int (*plan)(struct rar_plan *plan, const struct rar_place *place, u8 collective,
		    u8 flags, u32 root);
	int (*cut)(struct rar_ring *ring, u64 bytes, u32 payload,
		   const struct rar_plan *plan);
	void (*chunk)(const struct rar_ring *ring, u32 chunk,
		      struct rar_chunk *c);
	u32 (*first)(const struct rar_ring *ring, u32 block);
	u32 (*chunks)(const struct rar_ring *ring, u32 block);
	u32 (*ntx)(const struct rar_ring *ring);
	u32 (*nback)(const struct rar_ring *ring);
	u32 (*need)(const struct rar_ring *ring);
	enum rar_combine (*combine)(const struct rar_plan *plan, enum rar_phase phase,
				    u32 block);
	enum rar_phase (*next)(const struct rar_plan *plan, enum rar_phase phase,
			       u32 block);
	bool (*completes)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	bool (*injects)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	bool (*adds)(const struct rar_plan *plan);
	bool (*summed)(const struct rar_plan *plan, enum rar_phase phase);
	bool (*before)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	enum rar_phase (*result)(const struct rar_plan *plan, u32 block);
	bool (*returns)(const struct rar_plan *plan);
	u64 (*share)(const struct rar_ring *ring, u64 bytes);
} s;

static const struct schedule real = {
	rar_ring_plan, rar_ring_cut, rar_ring_chunk, rar_ring_block_first,
	rar_ring_block_chunks, rar_ring_ntx, rar_ring_nback, rar_ring_need,
	rar_plan_combine, rar_plan_next, rar_plan_completes, rar_plan_injects,
	rar_plan_adds, rar_plan_summed, rar_plan_adds_before, rar_plan_result,
	rar_plan_returns, rar_ring_share,
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
		tap_note("line %d: %s: bytes=%llu payload=%u parts=%u starts=%d,%d ends=%d,%d",
			 line, what, r->bytes, r->payload, r->plan.parts,
			 (int)r->plan.starts[0], (int)r->plan.starts[1],
			 (int)r->plan.ends[0], (int)r->plan.ends[1]);
}

/* The plan of an all-reduce of a rank in a group without hosts. */
static int plan_of(struct rar_ring *r, u32 size, u32 rank)
{
	const struct rar_place place = { .size = size, .rank = rank };

	return s.plan(&r->plan, &place, RAR_ALLREDUCE, 0, 0);
}

static int init(struct rar_ring *r, u64 bytes, u32 payload, u32 size, u32 rank)
{
	struct rar_ring own = {};
	int err = plan_of(&own, size, rank);

	return err ?: s.cut(r, bytes, payload, &own.plan);
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
	CHECK(c.len % 4 == 0 || end % 4 || r->payload % 4 || r->block % 4, r);
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
	u32 i, b, n = r->nchunks, parts = r->plan.parts;

	CHECK(r->block == (r->plan.exact ? r->bytes / parts : block_of(r->bytes, parts)), r);
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
	enum rar_phase phase = RAR_RS, next = RAR_RS;

	memset(got, 0, sizeof(got));
	for (hop = 1; hop <= hops; hop++) {
		rank = (rank + 1) % size;
		CHECK(!plan_of(r, size, rank), r);
		CHECK(s.combine(&r->plan, phase, block) ==
		      (hop < size ? RAR_COMBINE_ADD : RAR_COMBINE_STORE), r);
		got[phase][rank]++;
		next = s.next(&r->plan, phase, block);
		if (hop == hops)
			break;
		CHECK(next == (hop < size - 1 ? RAR_RS : RAR_AG), r);
		phase = next;
	}
	if (hops)
		CHECK(next == RAR_PHASES, r);
	for (rank = 0; hops && rank < size; rank++) {
		CHECK(!plan_of(r, size, rank), r);
		for (p = 0; p < RAR_PHASES; p++)
			CHECK(got[p][rank] ==
			      (s.combine(&r->plan, p, block) != RAR_COMBINE_NONE), r);
	}
	return true;
}

/* What a rank sends, in chunks and bytes, if it sends what it owes. */
static bool check_amount(struct rar_ring *r, u32 size, u32 rank)
{
	u32 ends[] = { (rank + 1) % size, (rank + 2) % size };
	u64 sent = 2 * r->bytes;
	u32 ntx = 2 * r->nchunks, i;

	CHECK(!plan_of(r, size, rank), r);
	CHECK(!s.nback(r), r);
	CHECK(s.need(r) == (size > 1 ? r->nchunks : 0), r);
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

/*
 * What the table in ring.h says, once more and in other words: who begins a block, who
 * has the result, and how many hops it takes.
 */
static const struct collective {
	const char *name;
	u8 collective;
	u8 flags;
	bool adds;			/* else a rank's own data go round */
	bool one;			/* block */
	bool exact;			/* blocks */
	bool rooted;
	u32 begins;			/* so many ranks after the block's, or the root */
	u32 rounds;			/* size - 1 hops each */
} collectives[] = {
	{ "allreduce", RAR_ALLREDUCE, .adds = true, .rounds = 2 },
	{ "in_order", RAR_ALLREDUCE, RAR_RING_IN_ORDER, .adds = true, .one = true,
	  .rounds = 2 },
	{ "reduce_scatter", RAR_REDUCE_SCATTER, .adds = true, .exact = true, .begins = 1,
	  .rounds = 1 },
	{ "allgather", RAR_ALLGATHER, .exact = true, .rounds = 1 },
	{ "broadcast", RAR_BROADCAST, .one = true, .rooted = true, .rounds = 1 },
	{ "reduce", RAR_REDUCE, .adds = true, .one = true, .rooted = true, .begins = 1,
	  .rounds = 1 },
	{ "barrier", RAR_BARRIER, .adds = true, .rounds = 2 },
};

/* Whose data are in the sum, in the order of addition. */
struct sum {
	u8 n;
	u8 rank[SIM_SIZE];
};

struct packet {
	u32 to;
	u32 chunk;
	u32 hops;
	enum rar_phase phase;
	bool back;
	struct sum sum;
};

static struct sim {
	const struct collective *what;
	struct rar_ring ring[SIM_SIZE];
	u32 root;
	u32 size;
	u32 host[SIM_SIZE];		/* of each rank */
	u32 first[SIM_SIZE];		/* rank of each host */
	u32 hosts;			/* 0: all ranks are alike */
	struct sum buf[SIM_SIZE][SIM_CHUNKS];
	u8 got[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	u8 final[SIM_SIZE][SIM_CHUNKS];
	u32 nfinal[SIM_SIZE];
	u8 acked[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	bool posted[SIM_SIZE];
	u32 injected[SIM_SIZE];
	u32 returned[SIM_SIZE];
	u32 ntx[SIM_SIZE];
	u32 nback[SIM_SIZE];
	u64 sent[SIM_SIZE];
	u32 hops;			/* the most that a packet made */
	struct packet net[3 * SIM_SIZE * SIM_CHUNKS];
	u32 nnet;
} sim;

/* The rank that injects @block. */
static u32 sim_injector(u32 block)
{
	const struct collective *w = sim.what;

	if (sim.hosts && w->rounds == 2 && !w->one)
		return sim.first[block];
	return ((w->one ? sim.root : block) + w->begins) % sim.size;
}

/* Does @rank have @block of the result at the end? */
static bool sim_gets(u32 rank, u32 block)
{
	if (sim.what->rounds == 2 || !sim.what->adds)
		return true;
	return rank == (sim.what->one ? sim.root : block);
}

static bool sim_send(u32 rank, u32 to, enum rar_phase phase, u32 chunk, u32 hops)
{
	const struct rar_ring *r = &sim.ring[rank];
	const struct sum *sum = &sim.buf[rank][chunk];
	struct rar_chunk c;

	CHECK(sim.nnet < ARRAY_SIZE(sim.net), r);
	s.chunk(r, chunk, &c);
	/* What is said of a chunk that leaves is so. */
	CHECK(sum->n, r);
	CHECK(s.injects(&r->plan, phase, c.block) == (sum->n == 1 && sum->rank[0] == rank), r);
	CHECK(s.adds(&r->plan) == sim.what->adds, r);
	CHECK(s.summed(&r->plan, phase) == (sum->n == sim.size), r);
	CHECK(!s.summed(&r->plan, phase) || sim.posted[to], r);
	sim.net[sim.nnet++] = (struct packet) {
		.to = to, .chunk = chunk, .phase = phase, .hops = hops + 1, .sum = *sum,
	};
	sim.sent[rank] += c.len;
	return true;
}

static bool sim_send_next(u32 rank, enum rar_phase phase, u32 chunk, u32 hops)
{
	sim.ntx[rank]++;
	return sim_send(rank, (rank + 1) % sim.size, phase, chunk, hops);
}

/* In memory, to the first rank of this host. */
static bool sim_send_back(u32 rank, u32 chunk, u32 hops)
{
	sim.nback[rank]++;
	if (!sim_send(rank, sim.first[sim.host[rank]], RAR_AG, chunk, hops))
		return false;
	sim.net[sim.nnet - 1].back = true;
	return true;
}

static int sim_plan(struct rar_plan *plan, u32 rank)
{
	u32 host = sim.host[rank];
	struct rar_place place = { .size = sim.size, .rank = rank, .hosts = sim.hosts };

	if (sim.hosts) {
		place.host = host;
		place.ranks = (host + 1 < sim.hosts ? sim.first[host + 1] : sim.size) -
			      sim.first[host];
		place.index = rank - sim.first[host];
	}
	return s.plan(plan, &place, sim.what->collective, sim.what->flags, sim.root);
}

/* Bit i of @borders: rank i + 1 is on another host than rank i. */
static void sim_layout(const struct collective *what, u32 size, u32 root, bool by_hosts,
		       u32 borders)
{
	u32 rank;

	memset(&sim, 0, sizeof(sim));
	sim.what = what;
	sim.root = what->rooted ? root : 0;
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

/* What a rank has at first: its contribution, or nothing of what another rank sends. */
static void sim_contribute(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	struct rar_chunk c;
	u32 i;

	for (i = 0; i < r->nchunks; i++) {
		s.chunk(r, i, &c);
		if (sim.what->adds || sim_injector(c.block) == rank)
			sim.buf[rank][i] = (struct sum){ 1, { rank } };
	}
}

/* Own chunks, as many as may be on their way round. */
static bool sim_inject(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	u32 own = rar_plan_own(&r->plan), n = s.chunks(r, own), chunk;
	u64 share = s.share(r, SIM_WINDOW * sim.size);

	while (sim.injected[rank] < n &&
	       (!s.returns(&r->plan) ||
		sim.injected[rank] - sim.returned[rank] < share)) {
		chunk = s.first(r, own) + sim.injected[rank]++;
		if (!sim_send_next(rank, rar_plan_first(&r->plan), chunk, 0))
			return false;
	}
	return true;
}

static bool sim_start(u64 bytes, u32 payload)
{
	struct rar_plan plan;
	struct rar_ring *r;
	u32 rank;

	for (rank = 0; rank < sim.size; rank++) {
		r = &sim.ring[rank];
		CHECK(!sim_plan(&plan, rank), r);
		CHECK(!s.cut(r, bytes, payload, &plan), r);
		CHECK(r->nchunks <= SIM_CHUNKS, r);
	}
	return true;
}

static bool sim_post(u32 rank)
{
	sim.posted[rank] = true;
	sim_contribute(rank);
	return sim_inject(rank);
}

static bool sim_combine(const struct rar_ring *r, const struct packet *pkt, u32 block)
{
	struct sum *own = &sim.buf[pkt->to][pkt->chunk], sum = pkt->sum;

	switch (s.combine(&r->plan, pkt->phase, block)) {
	case RAR_COMBINE_ADD:
		CHECK(own->n == 1 && own->rank[0] == pkt->to, r);
		CHECK(sum.n < sim.size, r);
		sum.rank[sum.n++] = pkt->to;		/* in + own */
		break;
	case RAR_COMBINE_STORE:
		break;
	default:
		CHECK(!"it comes here", r);
	}
	*own = sum;
	return true;
}

/* A part of the result is here. */
static bool sim_complete(const struct packet *pkt, u32 block)
{
	const struct rar_ring *r = &sim.ring[pkt->to];

	CHECK(sim.buf[pkt->to][pkt->chunk].n == (sim.what->adds ? sim.size : 1), r);
	CHECK(s.result(&r->plan, block) == pkt->phase, r);
	/* What the successor is believed to have posted it has. */
	CHECK(!s.adds(&r->plan) || sim.posted[(pkt->to + 1) % sim.size], r);
	sim.final[pkt->to][pkt->chunk]++;
	sim.nfinal[pkt->to]++;
	return true;
}

/* The predecessor learns that its chunk came, and this rank that its own one did. */
static void sim_acknowledge(const struct packet *pkt)
{
	const struct rar_ring *r = &sim.ring[pkt->to];

	if (!pkt->back)
		sim.acked[(pkt->to + sim.size - 1) % sim.size][pkt->phase][pkt->chunk] = 1;
	if (pkt->phase == RAR_AG && s.adds(&r->plan))
		sim.acked[pkt->to][RAR_RS][pkt->chunk] = 1;
}

/* What chunk.c and link.c do: add or store, then as the plan says. */
static bool sim_receive(const struct packet *pkt)
{
	const struct rar_ring *r = &sim.ring[pkt->to];
	enum rar_phase next;
	struct rar_chunk c;

	s.chunk(r, pkt->chunk, &c);
	CHECK(s.before(&r->plan, pkt->phase, c.block) ==
	      (pkt->phase == RAR_AG && sim.got[pkt->to][RAR_RS][pkt->chunk]), r);
	if (!sim_combine(r, pkt, c.block))
		return false;
	CHECK(!sim.got[pkt->to][pkt->phase][pkt->chunk]++, r);
	sim_acknowledge(pkt);
	if (s.completes(&r->plan, pkt->phase, c.block) && !sim_complete(pkt, c.block))
		return false;
	if (pkt->hops > sim.hops)
		sim.hops = pkt->hops;
	next = s.next(&r->plan, pkt->phase, c.block);
	if (pkt->phase == RAR_RS && next == RAR_AG && r->plan.back &&
	    !sim_send_back(pkt->to, pkt->chunk, pkt->hops))
		return false;
	if (next != RAR_PHASES && !sim_send_next(pkt->to, next, pkt->chunk, pkt->hops))
		return false;
	if (pkt->phase != RAR_AG || c.block != rar_plan_own(&r->plan))
		return true;
	sim.returned[pkt->to]++;
	return sim_inject(pkt->to);
}

/* Of the block whose sums become complete here. */
static u64 complete_bytes(const struct rar_ring *r)
{
	u64 from = lower(r->bytes, r->plan.ends[RAR_RS] * r->block);

	return lower(r->bytes, from + r->block) - from;
}

/* A rank has what it shall get, once, added from the injector on. */
static bool sim_judge_result(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	const struct sum *sum;
	struct rar_chunk c;
	u32 chunk, i, first;

	for (chunk = 0; chunk < r->nchunks; chunk++) {
		s.chunk(r, chunk, &c);
		sum = &sim.buf[rank][chunk];
		first = sim_injector(c.block);
		/* What a rank sends round it has already. */
		CHECK(sim.final[rank][chunk] ==
		      (sim.size > 1 && sim_gets(rank, c.block) &&
		       (sim.what->adds || first != rank)), r);
		CHECK(sim.final[rank][chunk] == (s.result(&r->plan, c.block) != RAR_PHASES), r);
		if (!sim_gets(rank, c.block))
			continue;
		CHECK(sum->n == (sim.what->adds ? sim.size : 1), r);
		for (i = 0; i < sum->n; i++)
			CHECK(sum->rank[i] == (first + i) % sim.size, r);
	}
	return true;
}

/* What a rank sent and got is what it was told. */
static bool sim_judge(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	u32 i, nacked = 0;

	for (i = 0; i < RAR_PHASES * r->nchunks; i++)
		nacked += sim.acked[rank][i / r->nchunks][i % r->nchunks];
	CHECK(nacked == s.ntx(r), r);
	CHECK(sim.ntx[rank] == s.ntx(r), r);
	CHECK(sim.nback[rank] == s.nback(r), r);
	CHECK(sim.nfinal[rank] == s.need(r), r);
	CHECK(sim.returned[rank] == (sim.size > 1 && s.returns(&r->plan) ?
				     s.chunks(r, rar_plan_own(&r->plan)) : 0), r);
	if (sim.what->rounds < 2 || sim.what->one)
		return true;
	if (!sim.hosts)
		CHECK(sim.sent[rank] <= most_sent(r->bytes, sim.size), r);
	/* What leaves a host is what hosts owe each other. */
	else if (sim.hosts > 1 && sim.host[(rank + 1) % sim.size] != sim.host[rank])
		CHECK(sim.sent[rank] - (r->plan.back ? complete_bytes(r) : 0) <=
		      most_sent(r->bytes, sim.hosts), r);
	return true;
}

/*
 * All ranks together. By hosts sums go back in memory, and so make more transmissions
 * and fewer hops.
 */
static bool sim_judge_all(void)
{
	const struct rar_ring *r = &sim.ring[0];
	u32 rank, senders = 0, hops = sim.what->rounds * (sim.size - 1);
	u64 sent = 0, shares = 0;

	for (rank = 0; rank < sim.size; rank++) {
		sent += sim.sent[rank];
		senders += sim.ntx[rank] > 0;
		if (sim.injected[rank])
			shares += s.share(&sim.ring[rank], 1 << 20);
	}
	/* Ranks that disagree about the operation notice it. */
	CHECK(senders + 1 >= sim.size, r);
	CHECK(sim.hosts > 1 ? sim.hops <= hops : sim.hops == hops, r);
	CHECK(sent == r->bytes * hops, r);
	/* Those that inject fill the window, if there are as many blocks as can be. */
	if (sim.size > 1 && r->nblocks == r->plan.parts)
		CHECK(shares <= 1 << 20 && shares + sim.size > 1 << 20, r);
	return true;
}

/* A packet arrives, or stays where it is if its rank has not posted the operation. */
static bool sim_deliver(u32 i)
{
	struct packet pkt = sim.net[i];

	if (!sim.posted[pkt.to])
		return true;
	sim.net[i] = sim.net[--sim.nnet];
	return sim_receive(&pkt);
}

/* Ranks post the operation and packets arrive, in any order. */
static bool check_sim(u64 bytes, u32 payload)
{
	u32 left[SIM_SIZE], n, i, rank;

	if (!sim_start(bytes, payload))
		return false;
	for (n = 0; n < sim.size; n++)
		left[n] = n;
	while (sim.nnet + n) {
		i = rnd_below(&seed, sim.nnet + n);
		if (i < sim.nnet) {
			if (!sim_deliver(i))
				return false;
			continue;
		}
		rank = left[i - sim.nnet];
		left[i - sim.nnet] = left[n - 1];
		n--;
		if (!sim_post(rank))
			return false;
	}
	for (i = 0; i < sim.size; i++)
		if (!sim_judge_result(i) || !sim_judge(i))
			return false;
	return sim_judge_all();
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

/* One length: false if it failed. @n: counts those that a simulation can hold. */
static bool sim_one(const struct collective *what, u32 size, u32 root, u64 bytes,
		    u32 payload, u32 *n)
{
	struct rar_place place = { .size = size };
	struct rar_plan plan = {};
	struct rar_ring r = {};
	int err;

	s.plan(&plan, &place, what->collective, what->flags, root);
	err = s.cut(&r, bytes, payload, &plan);
	if (what->exact && size > 1 && bytes <= RAR_MAX_BYTES)
		CHECK((bytes % size != 0) == (err == -EINVAL), &r);
	if (err || r.nchunks + 2 * size > SIM_CHUNKS)
		return true;
	++*n;
	return check_tiling(&r) && check_sim(bytes, payload);
}

/* Operations of every length that a simulation can hold. */
static bool sim_all(const struct collective *what, u32 size, u32 root, bool by_hosts,
		    u32 borders)
{
	u32 i, p, n = 0;
	u64 bytes;

	for (p = 1; p < 5; p++) {
		for (i = 0; nth_length(size, i, &bytes); i++) {
			sim_layout(what, size, root, by_hosts, borders);
			if (!sim_one(what, size, root, bytes, payloads[p], &n))
				return false;
			if (!what->exact || bytes % size == 0)
				continue;
			sim_layout(what, size, root, by_hosts, borders);
			if (!sim_one(what, size, root, bytes - bytes % size, payloads[p], &n))
				return false;
		}
	}
	return n > 50;
}

static bool test_sim(u32 size)
{
	return sim_all(&collectives[0], size, 0, false, 0);
}

/* All layouts of a few ranks, some of many. */
static bool test_hosts(u32 size)
{
	u32 layouts = 1U << (size - 1), i;

	for (i = 0; i < layouts && i < HOST_LAYOUTS; i++)
		if (!sim_all(&collectives[0], size, 0, true,
			     layouts <= HOST_LAYOUTS ? i : rnd_below(&seed, layouts)))
			return false;
	return true;
}

/* One collective: all roots, and in a group by hosts. */
static bool test_collective(const struct collective *what, u32 size)
{
	u32 root;

	for (root = 0; root < (what->rooted ? size : 1); root++)
		if (!sim_all(what, size, root, false, 0))
			return false;
	return sim_all(what, size, size / 2, true, rnd_below(&seed, 1U << (size - 1)));
}

/* What has no plan. */
static bool test_refused(u32 size)
{
	struct rar_place place = { .size = size }, nowhere = {};
	struct rar_ring r = {};
	struct rar_plan *plan = &r.plan;
	u32 i;

	CHECK(s.plan(plan, &place, 0, 0, 0) == -EOPNOTSUPP, &r);
	CHECK(s.plan(plan, &place, RAR_COLLECTIVE_NR, 0, 0) == -EOPNOTSUPP, &r);
	CHECK(s.plan(plan, &nowhere, RAR_ALLREDUCE, 0, 0) == -EINVAL, &r);
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		const struct collective *w = &collectives[i];

		CHECK(s.plan(plan, &place, w->collective, w->flags, size) ==
		      (w->rooted ? -EINVAL : 0), &r);
		CHECK(s.plan(plan, &place, w->collective, RAR_RING_IN_ORDER, 0) ==
		      (w->rounds == 2 ? 0 : -EOPNOTSUPP), &r);
	}
	return true;
}

static bool check_collectives(u32 size)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives); i++)
		if (!test_collective(&collectives[i], size))
			return false;
	return test_refused(size);
}

static bool check_all(u32 size)
{
	return test_tiling(size) && test_limit(size) && test_ways(size) &&
	       test_sim(size) && test_hosts(size) && check_collectives(size);
}

/* --- mutants --- */

static int mut_cut_unaligned(struct rar_ring *r, u64 bytes, u32 payload,
			     const struct rar_plan *plan)
{
	int err = rar_ring_cut(r, bytes, payload, plan);

	if (!err && bytes % (64 * plan->parts) == 0)
		r->block += 4;
	return err;
}

static int mut_cut_unlimited(struct rar_ring *r, u64 bytes, u32 payload,
			     const struct rar_plan *plan)
{
	return rar_ring_cut(r, lower(bytes, 1 << 30), payload, plan);
}

static int mut_cut_chunk_lost(struct rar_ring *r, u64 bytes, u32 payload,
			      const struct rar_plan *plan)
{
	int err = rar_ring_cut(r, bytes, payload, plan);

	r->nchunks -= !err && r->nchunks > 1;
	return err;
}

static int mut_cut_uneven(struct rar_ring *r, u64 bytes, u32 payload,
			  const struct rar_plan *plan)
{
	struct rar_plan even = *plan;

	if (plan->exact)
		bytes -= bytes % plan->parts;
	return rar_ring_cut(r, bytes, payload, &even);
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
	return 2 * (r->nchunks - rar_ring_block_chunks(r, r->plan.ends[RAR_RS]));
}

static u32 mut_need_all(const struct rar_ring *r)
{
	return rar_plan_has(&r->plan, RAR_AG) ? r->nchunks : rar_ring_need(r);
}

static u32 mut_need_sums(const struct rar_ring *r)
{
	return r->nchunks - rar_ring_block_chunks(r, r->plan.starts[RAR_AG]);
}

static enum rar_combine mut_combine_all(const struct rar_plan *plan,
					enum rar_phase phase, u32 block)
{
	return phase == RAR_RS ? RAR_COMBINE_ADD : RAR_COMBINE_STORE;
}

static enum rar_combine mut_combine_less(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	return block == plan->ends[RAR_AG] ? RAR_COMBINE_NONE :
	       rar_plan_combine(plan, phase, block);
}

static enum rar_combine mut_combine_adds(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	return rar_plan_combine(plan, phase, block) ? RAR_COMBINE_ADD : RAR_COMBINE_NONE;
}

static enum rar_phase mut_next_rs_far(const struct rar_plan *plan,
				      enum rar_phase phase, u32 block)
{
	return phase == RAR_RS ? RAR_RS : rar_plan_next(plan, phase, block);
}

/* As if every operation were an all-reduce. */
static enum rar_phase mut_next_always_ag(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	enum rar_phase next = rar_plan_next(plan, phase, block);

	return phase == RAR_RS && next == RAR_PHASES ? RAR_AG : next;
}

static enum rar_phase mut_next_ag_short(const struct rar_plan *plan,
					enum rar_phase phase, u32 block)
{
	return phase == RAR_AG && block == (plan->ends[RAR_AG] + 1) % plan->parts ?
	       RAR_PHASES : rar_plan_next(plan, phase, block);
}

static enum rar_phase mut_next_ag_far(const struct rar_plan *plan,
				      enum rar_phase phase, u32 block)
{
	enum rar_phase next = rar_plan_next(plan, phase, block);

	return next == RAR_PHASES ? RAR_AG : next;
}

static bool mut_completes_ag(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_AG;
}

static bool mut_completes_all(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return true;
}

static bool mut_injects_rs(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_RS && block == plan->starts[phase];
}

static bool mut_injects_sums(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return block == plan->starts[phase];
}

static bool mut_always(const struct rar_plan *plan)
{
	return true;
}

/* As if all had contributed to whatever is not added to any more. */
static bool mut_summed_ag(const struct rar_plan *plan, enum rar_phase phase)
{
	return phase == RAR_AG;
}

static bool mut_before_ag(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_AG && block != plan->starts[RAR_RS];
}

static enum rar_phase mut_result_ag(const struct rar_plan *plan, u32 block)
{
	return block == plan->ends[RAR_RS] ? RAR_RS : RAR_AG;
}

/* As if every rank injected. */
static u64 mut_share_size(const struct rar_ring *ring, u64 bytes)
{
	return bytes / sim.size;
}

static bool mut_returns_sums(const struct rar_plan *plan)
{
	return rar_plan_adds(plan);
}

static bool mut_returns_gathered(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_AG);
}

static int mut_plan_root_zero(struct rar_plan *plan, const struct rar_place *place,
			      u8 collective, u8 flags, u32 root)
{
	return rar_ring_plan(plan, place, collective, flags, root < place->size ? 0 : root);
}

static int mut_plan_no_order(struct rar_plan *plan, const struct rar_place *place,
			     u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);

	return err ?: rar_ring_plan(plan, place, collective, 0, root);
}

static int mut_plan_inexact(struct rar_plan *plan, const struct rar_place *place,
			    u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);

	plan->exact = false;
	return err;
}

/* As if the last rank of a host had nobody behind it. */
static int mut_plan_no_back(struct rar_plan *plan, const struct rar_place *place,
			    u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);

	plan->back = false;
	return err;
}

/* As if the sums had to come back over the last link. */
static int mut_plan_last_link(struct rar_plan *plan, const struct rar_place *place,
			      u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);

	if (place->hosts && place->index + 1 == place->ranks)
		plan->ends[RAR_AG] = RAR_NO_BLOCK;
	return err;
}

static int mut_plan_all_inject(struct rar_plan *plan, const struct rar_place *place,
			       u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);

	if (place->hosts && plan->parts == place->hosts)
		plan->starts[RAR_RS] = place->host;
	return err;
}

/* The fields of a plan that the next mutant takes from the plan of another rank. */
static struct {
	u8 collective;
	u8 flags;
	u32 field;
} wrong;

static u32 *plan_field(struct rar_plan *plan, u32 field)
{
	return field < RAR_PHASES ? &plan->starts[field] : &plan->ends[field - RAR_PHASES];
}

/* A row with a column that is wrong by one rank; or a phase that is none of its. */
static int mut_plan_wrong_column(struct rar_plan *plan, const struct rar_place *place,
				 u8 collective, u8 flags, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, flags, root);
	struct rar_place other = *place;
	struct rar_plan theirs;

	if (err || place->hosts || place->size == 1 || collective != wrong.collective ||
	    flags != wrong.flags)
		return err;
	if (*plan_field(plan, wrong.field) == RAR_ALL_BLOCKS) {
		*plan_field(plan, wrong.field) = plan->parts > 1 ? place->rank : 0;
		return 0;
	}
	other.rank = (place->rank + 1) % place->size;
	err = rar_ring_plan(&theirs, &other, collective, flags, root);
	*plan_field(plan, wrong.field) = *plan_field(&theirs, wrong.field);
	return err;
}

/* Is @field used? In a phase that a row does not have, nothing ends. */
static bool field_matters(const struct collective *w, u32 field)
{
	return field < RAR_PHASES || w->rounds == 2 || field == (w->adds ? 2 : 3);
}

static void test_mutant(const struct schedule *m, const char *name, const char *of)
{
	s = (struct schedule) {
		m->plan ?: real.plan, m->cut ?: real.cut, m->chunk ?: real.chunk,
		m->first ?: real.first, m->chunks ?: real.chunks,
		m->ntx ?: real.ntx, m->nback ?: real.nback, m->need ?: real.need,
		m->combine ?: real.combine, m->next ?: real.next,
		m->completes ?: real.completes, m->injects ?: real.injects,
		m->adds ?: real.adds, m->summed ?: real.summed,
		m->before ?: real.before, m->result ?: real.result,
		m->returns ?: real.returns, m->share ?: real.share,
	};
	quiet = true;
	tap_ok(!check_all(4), "mutant_%s%s__caught", name, of);
	quiet = false;
	s = real;
}

static void test_wrong_columns(void)
{
	static const char * const names[] = {
		"starts_rs_of_", "starts_ag_of_", "ends_rs_of_", "ends_ag_of_",
	};
	const struct schedule m = { .plan = mut_plan_wrong_column };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		const struct collective *w = &collectives[i];

		wrong.collective = w->collective;
		wrong.flags = w->flags;
		for (wrong.field = 0; wrong.field < ARRAY_SIZE(names); wrong.field++)
			if (field_matters(w, wrong.field))
				test_mutant(&m, names[wrong.field], w->name);
	}
}

static void test_mutants(void)
{
	static const struct {
		const char *name;
		struct schedule s;
	} mutants[] = {
		{ "plan_root_zero", { .plan = mut_plan_root_zero } },
		{ "plan_no_order", { .plan = mut_plan_no_order } },
		{ "plan_inexact", { .plan = mut_plan_inexact } },
		{ "plan_no_back", { .plan = mut_plan_no_back } },
		{ "plan_last_link", { .plan = mut_plan_last_link } },
		{ "plan_all_inject", { .plan = mut_plan_all_inject } },
		{ "cut_unaligned", { .cut = mut_cut_unaligned } },
		{ "cut_unlimited", { .cut = mut_cut_unlimited } },
		{ "cut_chunk_lost", { .cut = mut_cut_chunk_lost } },
		{ "cut_uneven", { .cut = mut_cut_uneven } },
		{ "chunk_crosses", { .chunk = mut_chunk_crosses } },
		{ "chunk_long", { .chunk = mut_chunk_long } },
		{ "first_rotated", { .first = mut_first_rotated } },
		{ "chunks_full", { .chunks = mut_chunks_full } },
		{ "ntx_both", { .ntx = mut_ntx_both } },
		{ "ntx_twice", { .ntx = mut_ntx_twice } },
		{ "need_all", { .need = mut_need_all } },
		{ "need_sums", { .need = mut_need_sums } },
		{ "combine_all", { .combine = mut_combine_all } },
		{ "combine_less", { .combine = mut_combine_less } },
		{ "combine_adds", { .combine = mut_combine_adds } },
		{ "next_rs_far", { .next = mut_next_rs_far } },
		{ "next_always_ag", { .next = mut_next_always_ag } },
		{ "next_ag_short", { .next = mut_next_ag_short } },
		{ "next_ag_far", { .next = mut_next_ag_far } },
		{ "completes_ag", { .completes = mut_completes_ag } },
		{ "completes_all", { .completes = mut_completes_all } },
		{ "injects_rs", { .injects = mut_injects_rs } },
		{ "injects_sums", { .injects = mut_injects_sums } },
		{ "adds_always", { .adds = mut_always } },
		{ "summed_ag", { .summed = mut_summed_ag } },
		{ "before_ag", { .before = mut_before_ag } },
		{ "result_ag", { .result = mut_result_ag } },
		{ "share_size", { .share = mut_share_size } },
		{ "returns_always", { .returns = mut_always } },
		{ "returns_sums", { .returns = mut_returns_sums } },
		{ "returns_gathered", { .returns = mut_returns_gathered } },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mutants); i++)
		test_mutant(&mutants[i].s, mutants[i].name, "");
	test_wrong_columns();
}

static void test_collectives(u32 size)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(collectives) && size <= PLAN_SIZE; i++)
		tap_ok(test_collective(&collectives[i], size), "n%u_%s", size,
		       collectives[i].name);
	tap_ok(test_refused(size), "n%u_refused", size);
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
		test_collectives(n);
	}
	test_mutants();
	tap_note("%.1f s", now() - start);
	return tap_end();
}
