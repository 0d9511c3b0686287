// SPDX-License-Identifier: GPL-2.0
/*
 * Joining: how long the table takes. A model of table.c, none of whose code runs here: rank 0
 * sends the slices of COLLECT round until all have come back, then those of PROPOSE, then COMMIT.
 * Slices that have not come back are sent again and again. A step that takes too long ends: rank 0
 * begins with COLLECT again, and copies of an earlier COLLECT that come back later count. The times
 * are those of table.c, from which the Makefile takes them.
 *
 * Before, each rank asks its successor twice, all at the same time.
 */
#include <math.h>

#include "sim.h"
#include "table_times.h"

#define US		1000.0
#define MS		1000000.0
#define JIFFY		(NSEC_PER_JIFFY * 1.0)
#define GIVE_UP_MS	30000	/* net.rar.join_ms */
#define DEAD_MS		5000	/* net.rar.dead_ms */
#define COPIES		256
#define MAX_SLICES	(65536 / RAR_TABLE_MAX)

/*
 * struct slice - the copies of a slice that will come back
 * @sent:	when a copy was sent, ns
 * @back:	when it comes back; copies do not overtake one another
 * @n:		copies since the proposal, the last COPIES of which are kept
 */
struct slice {
	double sent[COPIES], back[COPIES];
	u32 n;
};

/*
 * struct table - the step of rank 0
 * @now:	when it looks, ns
 * @since:	when the step began
 * @free:	when the slowest device or CPU of the ring is free
 * @hop:	time of a hop without waiting
 * @each:	time that a packet occupies a device or a CPU
 * @round:	time that a slice last took to go round
 * @slice:	of the table
 * @slices:	how many
 * @sent:	packets that rank 0 sent in all steps
 * @again:	times that it began with COLLECT again
 */
struct table {
	double now, since, free, hop, each, round;
	struct slice slice[MAX_SLICES];
	u32 slices;
	u64 sent, again;
};

/* As rar_table_retry_in(). */
static double retry_in(u32 tries)
{
	double ms = min_t(u32, TABLE_RETRY_MS << min(tries, 8U), TABLE_RETRY_MAX_MS);

	ms += ms / 2 * (sim_random_share() - 0.5);
	return ceil(ms * MS / JIFFY) * JIFFY;
}

/* How long a step may take that may take at least @ms. */
static double limit(const struct table *t, double ms)
{
	return max(ms * MS, TABLE_STUCK_ROUNDS * t->round);
}

/* A copy of a slice goes round. */
static void send_slice(struct table *t, struct slice *s)
{
	t->free = max(t->free, t->now) + t->each;
	t->sent++;
	if (sim_random_share() >= pow(1 - sim_set.loss, sim_set.ranks))
		return;
	s->sent[s->n % COPIES] = t->now;
	s->back[s->n++ % COPIES] = t->free + sim_set.ranks * t->hop;
}

/* When the first copy comes back in this step; INFINITY if none has been sent that does. */
static double first_back(struct table *t, const struct slice *s)
{
	u32 i;

	for (i = s->n < COPIES ? 0 : s->n - COPIES; i < s->n; i++)
		if (s->back[i % COPIES] > t->since) {
			t->round = s->back[i % COPIES] - s->sent[i % COPIES];
			return s->back[i % COPIES];
		}
	return INFINITY;
}

/* When all of the first @n slices are back. */
static double all_back(struct table *t, u32 n)
{
	double last = 0;
	u32 i;

	for (i = 0; i < n; i++)
		last = max(last, first_back(t, &t->slice[i]));
	return last;
}

/* One step, of @n packets. Returns false if it was given up after @limit ns. */
static bool step(struct table *t, u32 n, double limit)
{
	u32 i, tries = 0;
	double next;

	t->since = t->now;
	for (next = t->now;; next += retry_in(tries++)) {
		if (all_back(t, n) <= min(next, t->since + limit)) {
			/* The timer sends the first packets of the next step. */
			t->now = ceil(all_back(t, n) / JIFFY) * JIFFY;
			return true;
		}
		if (next > t->since + limit) {
			t->now = t->since + limit;
			return false;
		}
		t->now = next;
		for (i = 0; i < n; i++)
			if (first_back(t, &t->slice[i]) > next)
				send_slice(t, &t->slice[i]);
	}
}

/* Copies of another step do not count. */
static void forget(struct table *t)
{
	u32 i;

	for (i = 0; i < t->slices; i++)
		t->slice[i].n = 0;
}

/* PROPOSE and COMMIT, after COLLECT. Returns false if the proposal was given up. */
static bool propose(struct table *t)
{
	bool back;

	forget(t);
	back = step(t, t->slices, limit(t, TABLE_STUCK_MS));
	forget(t);
	return back;
}

/* Returns false if the join timed out. */
static bool steps(struct table *t)
{
	for (; t->now < GIVE_UP_MS * MS; t->again++)
		if (step(t, t->slices, limit(t, TABLE_STUCK_MS)) && propose(t))
			return step(t, 1, limit(t, DEAD_MS)) && t->now < GIVE_UP_MS * MS;
	return false;
}

void sim_join(void)
{
	u32 rows = min_t(u32, sim_set.ranks, RAR_TABLE_MAX);
	u32 bytes = sizeof(struct rar_table_hdr) + rows * sizeof(struct rar_wire_member) +
		    SIM_IP_UDP + sim_set.frame;
	double wire = sim_set.bps ? bytes * 8e9 / sim_set.bps : 0;
	double full = sim_set.bps ? (sim_set.mtu + sim_set.frame) * 8e9 / sim_set.bps : 0;
	static struct table t;
	bool joined;

	sim_random_begin();
	t.slices = DIV_ROUND_UP(sim_set.ranks, RAR_TABLE_MAX);
	t.hop = sim_set.delay + wire + sim_set.packet;
	t.each = max(wire, sim_set.packet * 1.0);
	/* JOIN, JOIN_ACK, and both again with the nonces. */
	t.now = 4 * (sim_set.delay + full + sim_set.packet);
	joined = steps(&t);
	printf("ranks=%u slices=%u round_us=%.3f us=%.3f sent=%llu again=%llu joined=%d\n",
	       sim_set.ranks, t.slices, sim_set.ranks * t.hop / US, t.now / US, t.sent, t.again,
	       joined);
}
