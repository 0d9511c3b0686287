/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that test_ring tests, and a simulation of whole operations: ranks post an
 * operation, follow their plans, and packets arrive in any order.
 */
#ifndef RING_SIM_H
#define RING_SIM_H

#include "core/ring.h"
#include "tap.h"
#include "util.h"

#define SIM_SIZE	17		/* ranks in a simulation */
#define PLAN_SIZE	9		/* ranks, with every collective and root */
#define SIM_WINDOW	2		/* own chunks of a rank on their way round at most */
#define SIM_CHUNKS	128		/* chunks in a simulation at most */
#define FULL_CHUNKS	2048		/* of operations with more chunks samples are tested */
#define SAMPLES		400
#define HOST_LAYOUTS	16		/* layouts by hosts for each number of ranks */
#define MAX_CHUNKS	(U32_MAX / 2)	/* chunks that can be numbered */
#define SMALL		8192		/* bytes of a tensor that is a single block */

/* The functions under test; a mutant replaces one of them. */
static struct schedule {
	int (*plan)(struct rar_plan *plan, const struct rar_place *place, u8 collective,
		    u16 mode, u32 root);
	int (*cut)(struct rar_ring *ring, u64 bytes, u32 payload,
		   const struct rar_plan *plan);
	int (*lead)(struct rar_ring *ring, u64 bytes);
	u32 (*end)(const struct rar_ring *ring, u32 chunk);
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
	bool (*last)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	struct rar_span (*given)(const struct rar_plan *plan, u64 bytes);
	struct rar_span (*got)(const struct rar_plan *plan, u64 bytes);
	bool (*injects)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	bool (*adds)(const struct rar_plan *plan);
	bool (*summed)(const struct rar_plan *plan, enum rar_phase phase);
	bool (*before)(const struct rar_plan *plan, enum rar_phase phase, u32 block);
	enum rar_phase (*result)(const struct rar_plan *plan, u32 block);
	bool (*returns)(const struct rar_plan *plan);
	u64 (*share)(const struct rar_ring *ring, u64 bytes);
	u64 (*room)(const struct rar_plan *plan, u64 bytes, u32 payload);
} s;

static const struct schedule real = {
	rar_ring_plan, rar_ring_cut, rar_ring_lead, rar_ring_block_end, rar_ring_chunk,
	rar_ring_block_first,
	rar_ring_block_chunks, rar_ring_ntx, rar_ring_nback, rar_ring_need,
	rar_plan_combine, rar_plan_next, rar_plan_completes, rar_plan_last,
	rar_plan_given, rar_plan_got, rar_plan_injects,
	rar_plan_adds, rar_plan_summed, rar_plan_adds_before, rar_plan_result,
	rar_plan_returns, rar_ring_share, rar_plan_room,
};

/* 1168 to 8896: payloads at MTUs of 1280, 1500 and 9000 */
static const u32 payloads[] = {
	1, 16, 64, 80, 1168, 1376, 1408, 8880, 8896, 65504, 1 << 20,
};

static u64 seed;
static bool quiet;			/* mutants: failures are expected */

/* Report a failed condition with the operation's schedule, and return false. */
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

/* The right length of a block: a rank's share, or all of a short tensor, rounded up to 64. */
static u64 block_of(u64 bytes, u32 size)
{
	u64 share = bytes <= SMALL ? bytes : bytes / size + (bytes % size != 0);

	return share + (64 - share % 64) % 64;
}

/* The most bytes a rank may send: its share of the work, or a short tensor in both phases. */
static u64 most_sent(u64 bytes, u32 size)
{
	return bytes <= SMALL ? 2 * bytes : 2 * (size - 1) * (bytes / size + 64);
}

/* --- whole operations --- */

#define DIRECT		(RAR_WAY_DIRECT << 12)
#define DOUBLING	(RAR_WAY_DOUBLING << 12)

/*
 * The table of ring.h in another form, as a reference: the rank that begins a block, the
 * ranks that get the result, and the number of hops.
 */
static const struct collective {
	const char *name;
	u8 collective;
	u16 mode;
	bool adds;			/* ranks add; otherwise their own data go round */
	bool one;			/* a single block */
	bool exact;			/* equal blocks */
	bool rooted;
	u32 begins;			/* from the block's rank, or the root, to the injector */
	u32 rounds;			/* rounds of size - 1 hops */
} collectives[] = {
	{ "allreduce", RAR_ALLREDUCE, .adds = true, .rounds = 2 },
	{ "in_order", RAR_ALLREDUCE, RAR_OPF_IN_ORDER, .adds = true, .one = true,
	  .rounds = 2 },
	{ "reduce_scatter", RAR_REDUCE_SCATTER, .adds = true, .exact = true, .begins = 1,
	  .rounds = 1 },
	{ "allgather", RAR_ALLGATHER, .exact = true, .rounds = 1 },
	{ "broadcast", RAR_BROADCAST, .one = true, .rooted = true, .rounds = 1 },
	{ "reduce", RAR_REDUCE, .adds = true, .one = true, .rooted = true, .begins = 1,
	  .rounds = 1 },
	{ "barrier", RAR_BARRIER, .adds = true, .rounds = 2 },
};

/* The ranks whose data are in a sum, in the order of addition. */
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
	u32 host[SIM_SIZE];		/* host of each rank */
	u32 first[SIM_SIZE];		/* first rank of each host */
	u32 hosts;			/* 0: all ranks are alike */
	struct sum buf[SIM_SIZE][SIM_CHUNKS];
	u8 got[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	u8 final[SIM_SIZE][SIM_CHUNKS];
	u32 nlast[SIM_SIZE];
	u8 acked[SIM_SIZE][RAR_PHASES][SIM_CHUNKS];
	bool posted[SIM_SIZE];
	u32 injected[SIM_SIZE];
	u32 returned[SIM_SIZE];
	u32 ntx[SIM_SIZE];
	u32 nback[SIM_SIZE];
	u64 sent[SIM_SIZE];
	u32 hops;			/* most hops of a packet */
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
	/* The plan is right about the contributions in a chunk that leaves. */
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

/* Send back in memory, to the first rank of this host. */
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
	struct rar_place place = {
		.size = sim.size, .rank = rank, .hosts = sim.hosts
	};

	if (sim.hosts) {
		place.host = host;
		place.ranks = (host + 1 < sim.hosts ? sim.first[host + 1] : sim.size) -
			      sim.first[host];
		place.index = rank - sim.first[host];
	}
	return s.plan(plan, &place, sim.what->collective, sim.what->mode, sim.root);
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

/* Set a rank's buffer: its contribution, and nothing in chunks that another rank sends. */
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

/* Inject own chunks, as many as may be on their way round. */
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

/* Take a chunk that is part of the result. */
static bool sim_complete(const struct packet *pkt, u32 block)
{
	const struct rar_ring *r = &sim.ring[pkt->to];

	CHECK(sim.buf[pkt->to][pkt->chunk].n == (sim.what->adds ? sim.size : 1), r);
	CHECK(s.result(&r->plan, block) == pkt->phase, r);
	/* A complete sum means that the successor has posted the operation. */
	CHECK(!s.adds(&r->plan) || sim.posted[(pkt->to + 1) % sim.size], r);
	sim.final[pkt->to][pkt->chunk]++;
	return true;
}

/* Acknowledge the predecessor's chunk, and what AG implies: the own RS chunk came, too. */
static void sim_acknowledge(const struct packet *pkt)
{
	const struct rar_ring *r = &sim.ring[pkt->to];

	if (!pkt->back)
		sim.acked[(pkt->to + sim.size - 1) % sim.size][pkt->phase][pkt->chunk] = 1;
	if (pkt->phase == RAR_AG && s.adds(&r->plan))
		sim.acked[pkt->to][RAR_RS][pkt->chunk] = 1;
}

/* As chunk.c and link.c: add or store, then follow the plan. */
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
	/* No chunk comes after the operation is complete. */
	CHECK(sim.nlast[pkt->to] < s.need(r), r);
	sim.nlast[pkt->to] += s.last(&r->plan, pkt->phase, c.block);
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

/* Bytes of the block whose sums become complete here. */
static u64 complete_bytes(const struct rar_ring *r)
{
	u64 from = lower(r->bytes, r->plan.ends[RAR_RS] * r->block);

	return lower(r->bytes, from + r->block) - from;
}

static bool in_span(struct rar_span span, const struct rar_chunk *c)
{
	return c->off >= span.off && c->off + c->len <= span.off + span.len;
}

/* The user gives what the rank contributes, and gets what the rank has in the end. */
static bool sim_judge_spans(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	struct rar_span given = s.given(&r->plan, r->bytes), got = s.got(&r->plan, r->bytes);
	struct rar_chunk c;
	u32 chunk;

	CHECK(s.room(&r->plan, r->bytes, 1408) == r->bytes, r);
	for (chunk = 0; r->bytes && chunk < r->nchunks; chunk++) {
		s.chunk(r, chunk, &c);
		CHECK(in_span(given, &c) ==
		      (sim.what->adds || sim_injector(c.block) == rank), r);
		CHECK(in_span(got, &c) == sim_gets(rank, c.block), r);
	}
	CHECK(r->bytes || (!given.len && !got.len), r);
	return true;
}

/* Has a rank each chunk of its result exactly once, added from the injector on? */
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
		/* A rank does not get the chunks that it sends round itself. */
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

/* Has a rank sent and got as many chunks as its schedule says? */
static bool sim_judge(u32 rank)
{
	const struct rar_ring *r = &sim.ring[rank];
	u32 i, nacked = 0;

	for (i = 0; i < RAR_PHASES * r->nchunks; i++)
		nacked += sim.acked[rank][i / r->nchunks][i % r->nchunks];
	CHECK(nacked == s.ntx(r), r);
	CHECK(sim.ntx[rank] == s.ntx(r), r);
	CHECK(sim.nback[rank] == s.nback(r), r);
	CHECK(sim.nlast[rank] == s.need(r), r);
	CHECK(sim.returned[rank] == (sim.size > 1 && s.returns(&r->plan) ?
				     s.chunks(r, rar_plan_own(&r->plan)) : 0), r);
	if (sim.what->rounds < 2 || sim.what->one)
		return true;
	if (!sim.hosts)
		CHECK(sim.sent[rank] <= most_sent(r->bytes, sim.size), r);
	/* A host sends no more than its share. */
	else if (sim.hosts > 1 && sim.host[(rank + 1) % sim.size] != sim.host[rank])
		CHECK(sim.sent[rank] - (r->plan.back ? complete_bytes(r) : 0) <=
		      most_sent(r->bytes, sim.hosts), r);
	return true;
}

/*
 * Check all ranks together. By hosts sums also go back in memory: more transmissions, fewer
 * hops.
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
	/* All ranks except one send, so ranks that disagree about the operation notice it. */
	CHECK(senders + 1 >= sim.size, r);
	CHECK(sim.hosts > 1 ? sim.hops <= hops : sim.hops == hops, r);
	CHECK(sent == r->bytes * hops, r);
	/* With all blocks there, the shares of the ranks that inject fill the window. */
	if (sim.size > 1 && r->nblocks == r->plan.parts)
		CHECK(shares <= 1 << 20 && shares + sim.size > 1 << 20, r);
	return true;
}

/* Deliver a packet; it stays in the network if its rank has not posted the operation. */
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
		if (!sim_judge_result(i) || !sim_judge_spans(i) || !sim_judge(i))
			return false;
	return sim_judge_all();
}

#endif /* RING_SIM_H */
