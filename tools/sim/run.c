// SPDX-License-Identifier: GPL-2.0
/*
 * The ranks and their users: all begin an operation together, and wait until the last one has
 * its result.
 */
#include <malloc.h>

#include "core/user.h"
#include "group/choice.h"
#include "group/peers.h"
#include "link/early.h"
#include "link/link.h"
#include "link/straggler.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/post.h"
#include "sim.h"

#define SUPER_BYTES	65000	/* of a superpacket */
#define PAIR_RTO_US	5000		/* PAIR_RTO_MIN_US of pair.c, beside two round trips */
#define RELEASE_STEP	100000000ULL /* ns */
#define RELEASE_STEPS	200

struct sim_set sim_set;
struct sim_got sim_got;
struct sim_rank *sim_ranks;
struct rar_ring sim_ring;

static struct rar_net net;
static struct rar_mib_cpu mib;
static struct rar_user user;
static u64 begun, last_end;
static u32 waiting;

/* The contribution of a rank to an element. */
u64 sim_number(u32 rank, u64 i)
{
	u64 x = (rank + 1) * 0x9e3779b97f4a7c15ULL + i * 0xbf58476d1ce4e5b9ULL;

	return (x ^ x >> 29) * 0x94d049bb133111ebULL;
}

/* Bytes of a chunk. */
u32 sim_payload(void)
{
	u32 hdrs = SIM_IP_UDP + sizeof(struct rar_data_hdr);

	return (sim_set.mtu - hdrs) / RAR_PAYLOAD_UNIT * RAR_PAYLOAD_UNIT;
}

/* Chunks in a superpacket at most: as many as an IP packet can hold. */
u32 sim_super(void)
{
	return clamp_t(u32, SUPER_BYTES / (sim_payload() + sizeof(struct rar_data_hdr)), 1,
		       sim_set.super);
}

/* ------------------------------------------------------------ ranks */

static void set_link(struct rar_link *link)
{
	link->path.dst.af = AF_INET;
	link->path.src.af = AF_INET;
}

static void begin_rank(struct sim_rank *rank, u32 i)
{
	struct rar_member *m = &rank->m;
	u32 k;

	refcount_set(&m->ref, 1);
	m->rn = &net;
	m->user = &user;
	m->rank = i;
	m->size = sim_set.ranks;
	m->state = RAR_S_RUN;
	m->epoch = 1;
	m->payload = sim_payload();
	m->place = (struct rar_place) { .size = m->size, .rank = i, .ranks = 1 };
	m->nlanes = 1;
	INIT_LIST_HEAD(&m->undelivered);
	INIT_LIST_HEAD(&m->pinned);
	rar_link_init(m, (i + 1) % m->size, (i + m->size - 1) % m->size);
	rar_early_init(m);
	set_link(m->link[RAR_NEXT]);
	set_link(m->link[RAR_PREV]);
	rar_link_prepare(m->link[RAR_NEXT]);
	rar_link_start(m->link[RAR_NEXT]);
	rar_straggler_start(m);
	m->link[RAR_NEXT]->path.run_max = sim_super();
	m->schedule = sim_set.schedule;
	if (rar_peers_prepare(m)) {
		fprintf(stderr, "sim: no memory\n");
		exit(2);
	}
	m->join.min_payload = m->payload;
	m->join.caps.dtypes[0] = RAR_CAPS_WAYS;
	rar_choice_make(m, true, &m->join.choice);
	rar_choice_take(m);
	for (k = 0; k < m->direct.n; k++) {
		set_link(&m->direct.peer[k].link);
		m->direct.peer[k].rto_us = PAIR_RTO_US + 2 * sim_set.delay / NSEC_PER_USEC;
	}
	rar_direct_start(m);
	for (k = 0; k < m->direct.n; k++)
		m->direct.peer[k].link.path.run_max = sim_super();
}

static void end_rank(struct sim_rank *rank)
{
	struct rar_member *m = &rank->m;
	struct rar_operation *op;

	sim_got.cwnd = max(sim_got.cwnd, m->link[RAR_NEXT]->tx.win.cwnd);
	rar_early_flush(m);
	rar_link_bury(m);
	/* Of an operation that hung. */
	while ((op = list_first_entry_or_null(&m->undelivered, struct rar_operation, node)))
		rar_done_delivered(m, op);
	rar_link_free(m);
	rar_peers_free(m);
}

/* ------------------------------------------------------------ users */

/* The way of all operations. */
static enum rar_wire_way way(const struct rar_member *m)
{
	switch (sim_set.schedule) {
	case RAR_AUTO:
		return rar_choice_way(m, sim_set.collective, false, sim_set.bytes);
	case RAR_DIRECT:
		return RAR_WAY_DIRECT;
	case RAR_DOUBLING:
		return sim_set.halving ? RAR_WAY_HALVING : RAR_WAY_DOUBLING;
	}
	return RAR_WAY_RING;
}

static struct rar_operation *new_op(struct sim_rank *rank)
{
	struct rar_member *m = &rank->m;
	const struct rar_fingerprint fingerprint = {
		.collective = sim_set.collective, .root = sim_set.root, .dtype = RAR_U64, .redop = RAR_SUM,
		.count = sim_set.bytes / 8, .mode = rar_way_mode(way(m)),
	};
	struct rar_operation *op;
	struct rar_span given;
	struct rar_plan plan;
	u64 i;

	rar_ring_plan(&plan, &m->place, fingerprint.collective, fingerprint.mode,
		      sim_set.root);
	op = rar_op_alloc(m, fingerprint.mode, sim_set.bytes,
			  rar_plan_room(&plan, sim_set.bytes, m->payload));
	given = rar_plan_given(&plan, sim_set.bytes);
	if (rar_op_schedule(op, &fingerprint, m->payload, &m->place)) {
		fprintf(stderr, "sim: the operation cannot be cut\n");
		exit(2);
	}
	op->step = 0;
	if (rank == sim_ranks)
		sim_ring = op->ring;
	if (sim_set.collective == RAR_BROADCAST && m->rank != sim_set.root)
		return op;
	for (i = 0; i < given.len / 8 && sim_set.numbers; i++)
		((u64 *)(op->buf.linear + given.off))[i] = sim_number(m->rank, i);
	return op;
}

static void post(struct sim_rank *rank)
{
	struct rar_operation *op = new_op(rank);
	int err;

	sim_spend(rank, sim_set.call);
	rank->next++;
	err = rar_post(&rank->m, op);
	if (err) {
		fprintf(stderr, "sim: post: %d\n", err);
		exit(2);
	}
}

/* Element @i of what a rank gets. */
static u64 wanted(u32 rank, u64 i)
{
	u64 share = sim_set.bytes / 8 / sim_set.ranks, sum = 0;
	u32 r;

	switch (sim_set.collective) {
	case RAR_BROADCAST:
		return sim_number(sim_set.root, i);
	case RAR_ALLGATHER:
		return sim_number(i / share, i % share);
	case RAR_REDUCE_SCATTER:
		i += rank * share;
		break;
	}
	for (r = 0; r < sim_set.ranks; r++)
		sum += sim_number(r, i);
	return sum;
}

static void check(struct sim_rank *rank, const struct rar_operation *op)
{
	struct rar_span got = rar_plan_got(&op->ring.plan, op->bytes);
	const u64 *sums = op->buf.linear + got.off;
	u64 i;

	if (sim_set.collective == RAR_REDUCE && rank->m.rank != sim_set.root)
		return;
	for (i = 0; i < got.len / 8; i++)
		sim_got.wrong += sums[i] != wanted(rank->m.rank, i);
}

/* The first operation of a rank, if its user may read it. */
static struct rar_operation *readable(struct rar_member *m)
{
	struct rar_operation *op = list_first_entry_or_null(&m->undelivered,
							    struct rar_operation, node);

	return op && rar_op_ready(op) ? op : NULL;
}

void sim_woken(struct rar_member *m)
{
	struct sim_rank *rank = sim_rank_of(m);

	if (rank->reading || !readable(m))
		return;
	rank->reading = true;
	sim_at(sim_ns, SIM_READ, rank, NULL);
}

static void read_result(struct sim_rank *rank)
{
	struct rar_operation *op = readable(&rank->m);

	rank->reading = false;
	sim_spend(rank, sim_set.call);
	if (sim_set.numbers)
		check(rank, op);
	rar_done_delivered(&rank->m, op);
	last_end = max(last_end, sim_ns);
	waiting--;
}

void sim_handle(enum sim_kind kind, struct sim_rank *rank, void *what)
{
	switch (kind) {
	case SIM_PACKET:
		sim_receive(rank, what);
		break;
	case SIM_LINK_TIMER:
		/* A timer that was moved is left to its later event. */
		if (rank->m.link_timer_us == (uintptr_t)what)
			sim_link_timer(rank);
		break;
	case SIM_TICK:
		if (rank->tick == (uintptr_t)what)
			sim_tick(rank);
		break;
	case SIM_POST:
		post(rank);
		break;
	case SIM_READ:
		read_result(rank);
		break;
	default:
		break;
	}
	sim_collect();
}

/* ------------------------------------------------------------ operations */

static void one_op(u32 i)
{
	u32 r;

	begun = max(last_end, sim_ns);
	waiting = sim_set.fold;
	for (r = 0; r < sim_set.fold; r++)
		sim_at(begun + (r == sim_set.late ? sim_set.late_by : 0), SIM_POST,
		       &sim_ranks[r], NULL);
	while (waiting && sim_next_event(begun + sim_set.limit))
		;
	sim_got.hung += waiting > 0;
	sim_got.ns[i] = waiting ? sim_set.limit : last_end - begun;
}

/* Time passes, without operations. */
static void pass(u64 ns)
{
	u64 end = sim_ns + ns;

	while (sim_next_event(end))
		;
}

/* Operations that ranks still owe their successors. */
static u64 unreleased(void)
{
	u64 n = 0;
	u32 r;

	for (r = 0; r < sim_set.fold; r++)
		n += sim_ranks[r].m.op_next - sim_ranks[r].m.op_oldest;
	return n;
}

/* The last acknowledgments come, or chunks are sent again until they do. */
static void wait_for_release(void)
{
	u64 step = RELEASE_STEP + 4 * sim_set.delay, end = sim_ns;
	u32 i;

	for (i = 0; i < RELEASE_STEPS && unreleased(); i++) {
		end += step;
		while (sim_next_event(end))
			;
	}
}

static void count(void)
{
	sim_got.again = mib.v[RAR_MIB_TxRetrans];
	sim_got.dups = mib.v[RAR_MIB_RxDup];
	sim_got.forwarded = mib.v[RAR_MIB_TxForward];
	sim_got.acks = mib.v[RAR_MIB_TxAck];
	sim_got.unreleased = unreleased();
}

/* Run all operations. Returns 0, or 1 if one hung or a sum is wrong. */
int sim_run(void)
{
	u64 *ns = calloc(sim_set.ops, sizeof(*ns));
	u32 r, i;

	memset(&mib, 0, sizeof(mib));
	sim_got = (struct sim_got){ .ns = ns };
	net = (struct rar_net) {
		.mib = &mib, .sysctl_window = sim_set.window, .sysctl_dead_ms = 5000,
		.sysctl_early_bytes = sim_set.early, .sysctl_mem = 1ULL << 40,
		.sysctl_halving_bytes = sim_set.halving ? RAR_HALVING_MAX_BYTES : 0,
	};
	refcount_set(&user.ref, 1);
	last_end = 0;
	/* The heap grows by small steps, so memory that nothing is written to is not used. */
	mallopt(M_TOP_PAD, 0);
	sim_ranks = aligned_alloc(64, sim_set.fold * sizeof(*sim_ranks));
	memset(sim_ranks, 0, sim_set.fold * sizeof(*sim_ranks));
	sim_net_begin();
	for (r = 0; r < sim_set.fold; r++)
		begin_rank(&sim_ranks[r], r);
	sim_tcp_begin();
	for (i = 0; i < sim_set.ops && !sim_got.hung; i++) {
		if (i == 1)
			sim_shares_begin();
		if (sim_set.no_ring)
			pass(sim_set.limit / sim_set.ops);
		else
			one_op(i);
	}
	sim_shares_end();
	if (!sim_got.hung && !sim_set.no_ring)
		wait_for_release();
	count();
	for (r = 0; r < sim_set.fold; r++)
		end_rank(&sim_ranks[r]);
	sim_collect();
	sim_net_end();
	sim_tcp_end();
	free(sim_ranks);
	sim_ranks = NULL;
	return sim_got.hung || sim_got.wrong;
}
