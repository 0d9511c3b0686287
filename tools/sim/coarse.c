// SPDX-License-Identifier: GPL-2.0
/*
 * Very large rings, without the module's code: at each rank a block is one event.
 *
 * Rank r passes on block r - t in step t of 2(N-1) steps. It begins when the block's first packet
 * is here and the block before has left. A packet occupies the rank for as long as its CPU or its
 * device, whichever is longer, needs for it. Windows and credit hold nothing back. A loss delays
 * its chunk and no other: by a round trip and the link's patience, or if no packet follows on the
 * link by the timeout.
 */
#include <math.h>

#include "sim.h"

#define REORDER_NS	250000.0	/* REORDER_MIN_US of window.c */
#define TIMEOUT_NS	5000000.0	/* RTO_MIN_US of window.c */
#define SLACK_NS	2000000.0	/* of a timeout beyond a round trip: RAR_ACK_DELAY_US, RTO_SLACK_US */

/* What a rank needs for a block, ns. */
struct block {
	u64 chunks, packets;	/* of a block */
	double cpu, build, wire; /* of a packet: that comes, that is built, on the wire */
};

static struct block block_of(void)
{
	u64 bytes = sim_ring.block, chunks = DIV_ROUND_UP(bytes, sim_payload());
	struct block b = { .chunks = chunks, .packets = DIV_ROUND_UP(chunks, sim_super()) };
	double each = (double)chunks / b.packets;

	b.build = each * sim_set.chunk + (double)bytes / b.packets * sim_set.byte_ps / 1000;
	b.cpu = b.build + sim_set.packet;
	b.build += sim_set.build;
	if (sim_set.bps)
		b.wire = ((double)bytes / b.packets + each * (sizeof(struct rar_data_hdr) +
			  SIM_IP_UDP + sim_set.frame)) * 8e9 / sim_set.bps;
	return b;
}

/* The hops without a loss before the next one, if each has one with probability @p. */
static u64 lucky_hops(double p)
{
	double share;

	if (p <= 0)
		return U64_MAX;
	share = 1 - sim_random_share();
	return log(share) / log1p(-p);
}

/*
 * struct state - where all blocks are
 * @b:		a block
 * @free:	by rank: when it may begin with its next block
 * @come:	by block: when its first packet is at the rank that passes it on next
 * @behind:	by chunk: what its losses cost
 * @lucky:	hops until the next loss
 * @p:		share of the hops of a block with a loss
 * @rtt:	of a link
 */
struct state {
	struct block b;
	double *free, *come, *behind;
	u64 lucky;
	double p, rtt;
};

/* A chunk of block @i is lost on a hop. @last: no block follows it on the link. */
static void lose(struct state *s, u32 i, bool last)
{
	u64 chunk = sim_random_share() * s->b.chunks;
	double cost = s->rtt + max(REORDER_NS, s->rtt / 4);

	if (last && chunk + 1 == s->b.chunks)
		cost = max(TIMEOUT_NS, s->rtt + SLACK_NS);
	s->behind[i * s->b.chunks + chunk] += cost;
	s->lucky = lucky_hops(s->p);
}

/*
 * For how long a packet occupies rank @r. To every second one belongs an acknowledgment at each end.
 * A rank whose CPU is slower than its device builds packets from its buffer if a block has several:
 * when one comes, others of the block still wait to be sent.
 */
static double occupies(const struct block *b, u32 r)
{
	double by = r == sim_set.slow ? sim_set.slow_by : 1;
	double cpu = b->cpu + sim_set.ack;

	if (cpu * by < b->wire)
		return b->wire;
	return (b->packets > 1 ? cpu + b->build : cpu) * by;
}

/* Rank @r passes block @i on. */
static void pass(struct state *s, u32 r, u32 i, bool last)
{
	const struct block *b = &s->b;
	double cpu = r == sim_set.slow ? b->cpu * sim_set.slow_by : b->cpu;
	double start = max(s->come[i], s->free[r]);

	s->free[r] = start + b->packets * occupies(b, r);
	s->come[i] = start + cpu + b->wire + sim_set.delay;
	if (!s->lucky--)
		lose(s, i, last);
}

/* What the losses cost the chunk of block @i that lost most. */
static double worst(const struct state *s, u32 i)
{
	double most = 0;
	u64 c;

	for (c = 0; c < s->b.chunks; c++)
		most = max(most, s->behind[i * s->b.chunks + c]);
	return most;
}

/* Returns when the last block is at its last rank. */
static double run(struct state *s)
{
	u32 n = sim_set.ranks, i;
	u64 t, steps = 2 * (n - 1ULL);
	double last = 0, rest;

	for (t = 0; t < steps; t++)
		for (i = 0; i < sim_ring.nblocks; i++)
			pass(s, (i + t) % n, i, t + 1 == steps);
	rest = (s->b.packets - 1) * max(s->b.cpu, s->b.wire) + s->b.cpu;
	for (i = 0; i < sim_ring.nblocks; i++)
		last = max(last, s->come[i] + worst(s, i) + rest);
	return last;
}

static void cut(void)
{
	const struct rar_place place = { .size = sim_set.ranks, .ranks = 1 };
	struct rar_plan plan;

	if (rar_ring_plan(&plan, &place, RAR_ALLREDUCE, 0, 0) ||
	    rar_ring_cut(&sim_ring, sim_set.bytes, sim_payload(), &plan)) {
		fprintf(stderr, "sim: the operation cannot be cut\n");
		exit(2);
	}
}

/* The time of an operation, ns. */
u64 sim_coarse(void)
{
	struct state s = { };
	double end;

	cut();
	sim_random_begin();
	s.b = block_of();
	s.free = calloc(sim_set.ranks, sizeof(double));
	s.come = calloc(sim_set.ranks, sizeof(double));
	s.behind = calloc(sim_ring.nblocks * s.b.chunks, sizeof(double));
	if (sim_set.late != SIM_NONE)
		s.free[sim_set.late] = sim_set.late_by;
	if (sim_set.late != SIM_NONE && sim_set.late < sim_ring.nblocks)
		s.come[sim_set.late] = sim_set.late_by;
	s.p = 1 - pow(1 - sim_set.loss, s.b.chunks);
	s.lucky = lucky_hops(s.p);
	s.rtt = 2 * sim_set.delay + s.b.cpu + s.b.wire + 2 * sim_set.ack;
	end = run(&s);
	free(s.free);
	free(s.come);
	free(s.behind);
	return end + 2 * sim_set.call;
}
