// SPDX-License-Identifier: GPL-2.0
/*
 * The link window, and the injection window.
 *
 * A sender with the window of window.c sends through a simulated bottleneck: a link with a
 * limited speed, a queue that drops packets that do not fit, random losses, and a TCP flow
 * beside it that reacts as Reno does. Time is virtual. The sender uses the window as link.c
 * and loss.c do: runs, credit for losses, patience, timeouts.
 */
#include "tap.h"
#include "util.h"
#include "window_world.h"

#define PS_PER_US	1000000ull
#define PS_PER_MS	(1000 * PS_PER_US)
#define PS_PER_S	(1000 * PS_PER_MS)
#define FRAME		66	/* bytes on the wire around a payload */
#define ACK_EVERY	8
#define PROBES		2	/* timeouts before all chunks are given up */
#define GSO_BYTES	65536
#define TCP_SLOTS	16384
#define TCP_DUPS	3
#define TCP_RTO		(10 * PS_PER_MS)
#define CAME		65536	/* numbers that came and are not acknowledged yet */
#define NEED		30	/* percent of a fair share */

u64 world_us;

enum kind { RING_ARRIVES, RING_COMES, RING_ACK_DUE, RING_ACK, RING_TIMER,
	    TCP_ARRIVES, TCP_ACK, TCP_TIMER, RING_STARTS };

struct event {
	u64 at, order;		/* time, ps; order of events at one time */
	enum kind kind;
	u32 seq, delay_us;
};

/* A bottleneck and its senders. */
struct scene {
	const char *name;
	u64 mbit;
	u32 faster;		/* speed of the senders' own wires, times @mbit */
	u32 rtt_us;		/* round trip without a queue */
	u32 buffer;		/* bytes of the queue */
	u32 payload;
	bool ring, tcp;
	u32 ms, warm_up_ms;
	u32 loss;		/* one of this many packets is lost at random, 0 = none */
	bool single;		/* no superpackets */
};

struct ring {
	struct rar_member m;
	struct rar_link link;
	struct rar_net net;
	u64 time_us[RAR_TX_SLOTS];
	bool head[RAR_TX_SLOTS], done[RAR_TX_SLOTS];
	u64 left;		/* chunks to send, new or again */
	u64 wire_free;		/* when its own wire is free, ps */
	u64 timer;		/* when the timer is due, ps; 0 = not armed */
	u32 came[CAME];
	u32 ncame, nacked, unacked;
	u64 newest_us, ack_due;
	u64 bytes, sent, lost;
};

struct tcp {
	double cwnd, ssthresh;
	u32 next, una, highest, recover, inflight;
	bool done[TCP_SLOTS];
	u64 wire_free, heard, bytes;
};

static struct sim {
	const struct scene *scene;
	u64 now, order, link_free, ps_per_byte, rnd;
	struct event *heap;
	u32 n, room;
	u64 cwnd_sum, cwnd_samples;
	struct ring ring;
	struct tcp tcp;
} sim;

/* ------------------------------------------------------------ events */

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void at(u64 when, enum kind kind, u32 seq, u32 delay_us)
{
	u32 i = sim.n++, up;

	if (sim.n > sim.room) {
		sim.room = 2 * sim.n;
		sim.heap = realloc(sim.heap, sim.room * sizeof(*sim.heap));
	}
	sim.heap[i] = (struct event){ when, sim.order++, kind, seq, delay_us };
	for (; i && sooner(&sim.heap[i], &sim.heap[up = (i - 1) / 2]); i = up)
		swap(sim.heap[i], sim.heap[up]);
}

static struct event next_event(void)
{
	struct event e = sim.heap[0];
	u32 i = 0, child;

	sim.heap[0] = sim.heap[--sim.n];
	while ((child = 2 * i + 1) < sim.n) {
		child += child + 1 < sim.n && sooner(&sim.heap[child + 1], &sim.heap[child]);
		if (!sooner(&sim.heap[child], &sim.heap[i]))
			break;
		swap(sim.heap[i], sim.heap[child]);
		i = child;
	}
	return e;
}

static u64 way(void)		/* there or back */
{
	return sim.scene->rtt_us * PS_PER_US / 2;
}

static u64 wire(void)		/* one packet */
{
	return (sim.scene->payload + FRAME) * sim.ps_per_byte;
}

/* Send a packet through the bottleneck. Returns when it arrives, 0 = never. */
static u64 through(void)
{
	u64 start = max(sim.now, sim.link_free);

	if (sim.scene->loss && !rnd_below(&sim.rnd, sim.scene->loss))
		return 0;
	if (start - sim.now + wire() > sim.scene->buffer * sim.ps_per_byte)
		return 0;
	sim.link_free = start + wire();
	return sim.link_free + way();
}

/* ------------------------------------------------------------ the ring's sender */

static void ring_timer_at(u64 us)
{
	u64 when = max(us * PS_PER_US, sim.now);

	if (sim.ring.timer && sim.ring.timer <= when)
		return;
	sim.ring.timer = when;
	at(when, RING_TIMER, 0, 0);
}

static u32 ring_run_most(const struct rar_link *link)
{
	return min(rar_window_run(link), link->path.run_max);
}

static u32 ring_may_send(const struct rar_link *link, u64 *more)
{
	const struct rar_link_tx *tx = &link->tx;
	u32 room = tx->probe;

	if (!rar_window_pace(link, world_us, more))
		return 0;
	if (tx->inflight < tx->win.cwnd)
		room = tx->win.cwnd - tx->inflight;
	room = min(room, RAR_TX_SLOTS - (tx->next_seq - tx->una));
	return min(room, ring_run_most(link));
}

/* The part of a run of @n that whole_run() in link.c lets go. */
static u32 ring_whole_run(struct rar_link_tx *tx, u32 n, u32 most)
{
	if (n <= most)
		return n;
	tx->win.held |= tx->inflight + n > tx->win.cwnd;
	return 2 * most >= n || !tx->inflight || tx->probe ? most : 0;
}

static void ring_number(struct ring *r, u32 n)
{
	struct rar_link_tx *tx = &r->link.tx;

	if (!tx->inflight)
		rar_window_begin(&r->link, world_us);
	for (u32 i = 0; i < n; i++) {
		u32 slot = tx->next_seq % RAR_TX_SLOTS;

		r->time_us[slot] = world_us;
		r->head[slot] = !i;
		r->done[slot] = false;
		r->wire_free = max(r->wire_free, sim.now) + wire() / sim.scene->faster;
		at(r->wire_free, RING_ARRIVES, tx->next_seq++, 0);
	}
	rar_window_sent(&r->link, n, world_us);
	tx->inflight += n;
	tx->probe = false;
	r->left -= n;
	r->sent += n;
}

static void ring_push(struct ring *r)
{
	struct rar_link_tx *tx = &r->link.tx;
	bool any = false;
	u64 more = 0;
	u32 most, n;

	while ((most = ring_may_send(&r->link, &more))) {
		n = ring_whole_run(tx, min_t(u64, ring_run_most(&r->link), r->left), most);
		if (!n)
			break;
		ring_number(r, n);
		any = true;
	}
	if (any) {
		tx->sent_us = world_us;
		ring_timer_at(world_us + rar_window_timeout(&tx->win));
	}
	if (more && r->left)
		ring_timer_at(more);
	tx->win.held |= r->left && tx->inflight >= tx->win.cwnd;
}

static void ring_resolve(struct ring *r, u32 seq)
{
	r->done[seq % RAR_TX_SLOTS] = true;
	r->link.tx.inflight--;
}

static void ring_advance(struct ring *r)
{
	struct rar_link_tx *tx = &r->link.tx;

	while (tx->una != tx->next_seq && r->done[tx->una % RAR_TX_SLOTS])
		tx->una++;
}

static void ring_give_up(struct ring *r, u32 seq)
{
	ring_resolve(r, seq);
	r->left++;
	r->lost++;
}

static void ring_detect_lost(struct ring *r)
{
	struct rar_link_tx *tx = &r->link.tx;
	u32 patience = rar_window_patience(&tx->win), last = tx->una - 2;

	for (u32 seq = tx->una; rar_seq_before(seq, tx->highest); seq++) {
		u32 slot = seq % RAR_TX_SLOTS;

		if (r->done[slot])
			continue;
		if (r->time_us[slot] + patience > world_us) {
			ring_timer_at(r->time_us[slot] + patience);
			break;
		}
		ring_give_up(r, seq);
		rar_window_lost(tx, seq, seq != last + 1 || r->head[slot]);
		last = seq;
	}
	ring_advance(r);
}

static void ring_timeout(struct ring *r)
{
	struct rar_link_tx *tx = &r->link.tx;
	u64 due = max(tx->sent_us, tx->progress_us) + rar_window_timeout(&tx->win);
	bool all;

	if (!tx->inflight)
		return;
	if (due > world_us) {
		ring_timer_at(due);
		return;
	}
	all = ++tx->win.backoff > PROBES;
	if (tx->win.backoff == PROBES + 1)
		rar_window_collapse(tx);
	tx->probe = true;
	for (u32 seq = tx->una; seq != tx->next_seq; seq++) {
		if (r->done[seq % RAR_TX_SLOTS])
			continue;
		ring_give_up(r, seq);
		rar_window_late(&tx->win, world_us);
		if (!all)
			break;
	}
	ring_advance(r);
	ring_timer_at(world_us + rar_window_timeout(&tx->win));
}

static void ring_ack(struct ring *r, u32 upto, u32 delay_us)
{
	struct rar_link_tx *tx = &r->link.tx;
	u32 n = 0, packets = 0;
	u64 sent_us = 0, rtt;

	for (; r->nacked != upto; r->nacked++) {
		u32 seq = r->came[r->nacked % CAME], slot = seq % RAR_TX_SLOTS;

		if (rar_seq_before(seq, tx->una) || r->done[slot])
			continue;
		ring_resolve(r, seq);
		n++;
		packets += r->head[slot];
		sent_us = max(sent_us, r->time_us[slot]);
		if (rar_seq_before(tx->highest, seq + 1))
			tx->highest = seq + 1;
	}
	if (!n)
		return;
	tx->progress_us = world_us;
	rtt = world_us - sent_us;
	rar_window_rtt(&tx->win, rtt > delay_us ? rtt - delay_us : 1, world_us);
	rar_window_acked(&r->link, n, packets, 0);
	ring_advance(r);
	ring_detect_lost(r);
}

/* ------------------------------------------------------------ the ring's receiver */

static void ring_send_ack(struct ring *r)
{
	r->unacked = 0;
	r->ack_due = 0;
	at(sim.now + way(), RING_ACK, r->ncame, world_us - r->newest_us);
}

static void ring_comes(struct ring *r, u32 seq)
{
	r->came[r->ncame++ % CAME] = seq;
	r->newest_us = world_us;
	r->bytes += sim.scene->payload;
	if (++r->unacked >= ACK_EVERY) {
		ring_send_ack(r);
	} else if (!r->ack_due) {
		r->ack_due = sim.now + RAR_ACK_DELAY_US * PS_PER_US;
		at(r->ack_due, RING_ACK_DUE, 0, 0);
	}
}

/* ------------------------------------------------------------ TCP */

static void tcp_push(struct tcp *t)
{
	while (t->inflight < (u32)t->cwnd && t->next - t->una < TCP_SLOTS) {
		t->done[t->next % TCP_SLOTS] = false;
		t->wire_free = max(t->wire_free, sim.now) + wire() / sim.scene->faster;
		at(t->wire_free, TCP_ARRIVES, t->next++, 0);
		t->inflight++;
	}
}

static void tcp_resolve(struct tcp *t, u32 seq)
{
	t->inflight -= !t->done[seq % TCP_SLOTS];
	t->done[seq % TCP_SLOTS] = true;
	while (t->una != t->next && t->done[t->una % TCP_SLOTS])
		t->una++;
}

/* No packet overtakes another here, so numbers missing below one that came are lost. */
static void tcp_ack(struct tcp *t, u32 seq)
{
	t->heard = sim.now;
	if (!rar_seq_before(seq, t->una))
		tcp_resolve(t, seq);
	while (rar_seq_before(t->una + TCP_DUPS, seq)) {
		if (!rar_seq_before(t->una, t->recover)) {
			t->ssthresh = max(t->cwnd / 2, 2.0);
			t->cwnd = t->ssthresh;
			t->recover = t->next;
		}
		tcp_resolve(t, t->una);
	}
	t->cwnd += t->cwnd < t->ssthresh ? 1 : 1 / t->cwnd;
	tcp_push(t);
}

static void tcp_timer(struct tcp *t)
{
	if (t->inflight && sim.now - t->heard >= TCP_RTO) {
		t->heard = sim.now;
		t->ssthresh = max(t->cwnd / 2, 2.0);
		t->cwnd = 1;
		while (t->una != t->next)
			tcp_resolve(t, t->una);
		t->recover = t->next;
		tcp_push(t);
	}
	at(sim.now + TCP_RTO / 4, TCP_TIMER, 0, 0);
}

/* ------------------------------------------------------------ the whole */

static void handle(const struct event *e)
{
	struct ring *r = &sim.ring;
	struct tcp *t = &sim.tcp;
	u64 comes;

	switch (e->kind) {
	case RING_ARRIVES:
	case TCP_ARRIVES:
		comes = through();
		if (comes && e->kind == RING_ARRIVES)
			at(comes, RING_COMES, e->seq, 0);
		else if (comes)		/* its ACK goes back at once */
			at(comes + way(), TCP_ACK, e->seq, 0);
		return;
	case RING_COMES:
		ring_comes(r, e->seq);
		return;
	case RING_ACK_DUE:
		if (r->ack_due == e->at)
			ring_send_ack(r);
		return;
	case RING_ACK:
		ring_ack(r, e->seq, e->delay_us);
		sim.cwnd_sum += r->link.tx.win.cwnd;
		sim.cwnd_samples++;
		break;
	case RING_TIMER:
		if (r->timer != e->at)
			return;
		r->timer = 0;
		ring_detect_lost(r);
		ring_timeout(r);
		break;
	case RING_STARTS:
		break;
	case TCP_ACK:
		t->bytes += sim.scene->payload;
		tcp_ack(t, e->seq);
		return;
	case TCP_TIMER:
		tcp_timer(t);
		return;
	}
	ring_push(r);
}

static void run_until(u64 end)
{
	while (sim.n && sim.heap[0].at <= end) {
		struct event e = next_event();

		sim.now = e.at;
		world_us = sim.now / PS_PER_US;
		handle(&e);
	}
	sim.now = end;
	world_us = end / PS_PER_US;
}

static void begin(const struct scene *scene)
{
	struct rar_link *link = &sim.ring.link;
	struct rar_member *m = &sim.ring.m;
	struct event *heap = sim.heap;
	u32 room = sim.room;
	u64 rnd = sim.rnd;

	memset(&sim, 0, sizeof(sim));
	sim.scene = scene;
	sim.heap = heap;
	sim.room = room;
	sim.rnd = rnd;
	sim.ps_per_byte = 8 * PS_PER_US / scene->mbit;
	sim.now = PS_PER_S;	/* 0 means "never" in the kernel */
	world_us = sim.now / PS_PER_US;

	m->rn = &sim.ring.net;
	m->rn->sysctl_window = 1 << 20;
	m->payload = scene->payload;
	link->member = m;
	link->path.run_max = scene->single ? 1 : GSO_BYTES / scene->payload;
	link->tx.sent_us = world_us;
	rar_window_init(link);
	sim.tcp.cwnd = 10;
	sim.tcp.ssthresh = TCP_SLOTS;
	sim.tcp.heard = sim.now;
}

/* Play a scene; counts begin after the warm-up. */
static void play(const struct scene *scene)
{
	u64 start;

	begin(scene);
	start = sim.now;
	if (scene->ring) {
		sim.ring.left = U64_MAX / 2;
		at(sim.now, RING_STARTS, 0, 0);
	}
	if (scene->tcp) {
		tcp_push(&sim.tcp);
		at(sim.now, TCP_TIMER, 0, 0);
	}
	run_until(start + scene->warm_up_ms * PS_PER_MS);
	sim.ring.bytes = 0;
	sim.tcp.bytes = 0;
	sim.cwnd_sum = 0;
	sim.cwnd_samples = 0;
	run_until(start + scene->ms * PS_PER_MS);
}

static u64 mbit(u64 bytes)
{
	return 8 * bytes / (1000 * (sim.scene->ms - sim.scene->warm_up_ms));
}

/* ------------------------------------------------------------ tests */

/* TCP and the ring each get at least NEED percent of half of TCP's speed alone. */
static void test_fair(const struct scene *both)
{
	struct scene alone = *both;
	u64 fair, ring, tcp;

	alone.ring = false;
	play(&alone);
	fair = max(mbit(sim.tcp.bytes) / 2, 1ull);
	play(both);
	ring = mbit(sim.ring.bytes);
	tcp = mbit(sim.tcp.bytes);
	tap_note("%s: TCP alone %llu, together TCP %llu, ring %llu Mbit/s, which lost %llu of %llu",
		 both->name, 2 * fair, tcp, ring, sim.ring.lost, sim.ring.sent);
	tap_ok(100 * tcp >= NEED * fair, "%s: TCP gets %llu %% of its fair share",
	       both->name, 100 * tcp / fair);
	tap_ok(100 * ring >= NEED * fair, "%s: the ring gets %llu %% of its fair share",
	       both->name, 100 * ring / fair);
}

#define SHALLOW(text, mbit, faster, rtt_us, buffer, payload, ms)		\
	{ text, mbit, faster, rtt_us, buffer, payload, true, true, ms, (ms) / 4, 0, false }

static const struct scene fair_scenes[] = {
	SHALLOW("100 Gbit/s, 80 us", 100000, 2, 15, 1000000, 8900, 500),
	SHALLOW("100 Gbit/s, 80 us, a longer way", 100000, 2, 60, 1000000, 8900, 500),
	SHALLOW("100 Gbit/s, 80 us, a long way", 100000, 2, 200, 1000000, 8900, 500),
	SHALLOW("100 Gbit/s, 80 us, small packets", 100000, 2, 30, 1000000, 1440, 200),
	SHALLOW("10 Gbit/s, 160 us", 10000, 4, 50, 200000, 1440, 2000),
	SHALLOW("1 Gbit/s, 100 KB", 1000, 10, 200, 100000, 1440, 10000),
};

/* A path so long that the largest window makes no queue. */
static const struct scene long_way = {
	.name = "10 Gbit/s, 20 ms", .mbit = 10000, .faster = 4, .rtt_us = 20000,
	.buffer = 4000000, .payload = 1440, .ring = true, .ms = 2000, .warm_up_ms = 1000,
};

/* The ring reaches its largest window, and has nothing more to send. */
static u32 grown(void)
{
	play(&long_way);
	sim.ring.left = 0;
	run_until(sim.now + PS_PER_S / 2);
	return sim.ring.link.tx.win.cwnd;
}

static void resume_after(u32 ms)
{
	run_until((sim.ring.link.tx.sent_us + 1000ull * ms) * PS_PER_US);
	sim.ring.left = U64_MAX / 2;
	sim.ring.sent = 0;
	at(sim.now, RING_STARTS, 0, 0);
	run_until(sim.now);
}

/* With each idle second the window is halved, and slow start leads back. */
static void test_idle(void)
{
	static const struct {
		u32 ms, halves;
	} idle[] = { { 900, 0 }, { 1100, 1 }, { 2900, 2 }, { 4500, 4 }, { 7500, 5 }, { 600000, 5 } };
	const struct rar_link_tx *tx = &sim.ring.link.tx;

	for (u32 i = 0; i < ARRAY_SIZE(idle); i++) {
		u32 was = grown(), now, later;

		resume_after(idle[i].ms);
		now = tx->win.cwnd;
		run_until(sim.now + 8 * long_way.rtt_us * PS_PER_US);
		later = tx->win.cwnd;
		tap_ok(was == RAR_TX_SLOTS && now == was >> idle[i].halves && 4 * later >= 3 * was,
		       "idle for %u ms: a window of %u is %u, and %u after 8 round trips",
		       idle[i].ms, was, now, later);
	}
}

/*
 * After idling chunks leave one after the other: 5/4 of the window in each round trip, and in
 * packets for a millisecond at most.
 */
static void test_pace(void)
{
	u32 was = grown(), run = rar_window_run(&sim.ring.link), due;
	u64 start;

	/* In a millisecond of 20. */
	due = was * 5 / 4 / 20;
	tap_ok(run + 1 >= due && run <= due, "a long way: %u of %u chunks in a packet", run, was);
	resume_after(500);
	start = sim.now;
	for (u32 part = 1; part <= 4; part++) {
		run_until(start + part * long_way.rtt_us / 5 * PS_PER_US);
		due = was * part / 4;
		tap_ok(sim.ring.sent + run >= due && sim.ring.sent <= due + run,
		       "a long way, after %u/5 of a round trip: %llu of %u chunks sent", part,
		       sim.ring.sent, was);
	}
	was = grown();
	sim.ring.link.path.no_queue = true;
	resume_after(500);
	tap_ok(sim.ring.sent == was, "no queue: %llu of %u chunks sent at once", sim.ring.sent, was);
}

/* A pause does not count as time to grow, and growth never begins after now. */
static void test_pause(void)
{
	struct rar_link_tx *tx = &sim.ring.link.tx;
	struct rar_cubic *c = &tx->win.cubic;
	u64 now;

	begin(&long_way);
	now = world_us + 10000000;
	tx->sent_us = now - 500000;
	c->since_us = now - 600000;
	rar_window_begin(&sim.ring.link, now);
	tap_ok(c->since_us == now - 100000, "a pause of 500 ms does not count");
	/* Growth began with the acknowledgment of what was sent last. */
	tx->sent_us = now - 500000;
	c->since_us = now - 499000;
	rar_window_begin(&sim.ring.link, now);
	tap_ok(c->since_us == now, "growth begins after a pause, not later");
}

/*
 * A ring that has little to send must not grow its window, nor take its own rate for the
 * speed of the link.
 */
static void test_trickle(void)
{
	struct rar_link_tx *tx = &sim.ring.link.tx;
	u32 was, ns;

	begin(&long_way);
	sim.ring.left = 500;
	at(sim.now, RING_STARTS, 0, 0);
	run_until(sim.now + 6 * long_way.rtt_us * PS_PER_US);
	was = tx->win.cwnd;
	ns = tx->win.chunk_ns;
	for (int i = 0; i < 16; i++) {
		sim.ring.left = 4;
		at(sim.now, RING_STARTS, 0, 0);
		run_until(sim.now + 2 * long_way.rtt_us * PS_PER_US);
	}
	tap_ok(tx->win.cwnd == was, "little to send: a window of %u is %u", was, tx->win.cwnd);
	tap_ok(tx->win.chunk_ns < 4 * ns, "little to send: a chunk of %u ns takes %u", ns,
	       tx->win.chunk_ns);
}

/* Few losses without a queue are noise and do not reduce the window; many losses do. */
static void test_noise(void)
{
	struct scene scene = long_way;
	u64 window;

	scene.single = true;
	scene.loss = 200;
	play(&scene);
	window = sim.cwnd_sum / max(sim.cwnd_samples, 1ull);
	tap_ok(8 * window >= RAR_TX_SLOTS, "0.5 %% of loss: the window is %llu of %u", window,
	       RAR_TX_SLOTS);
	scene.loss = 20;
	play(&scene);
	window = sim.cwnd_sum / max(sim.cwnd_samples, 1ull);
	tap_ok(16 * window <= RAR_TX_SLOTS, "5 %% of loss: the window is %llu of %u", window,
	       RAR_TX_SLOTS);
}

/* ------------------------------------------------------------ injection */

#define OWN	4096		/* own chunks of an operation */
#define ROUND_US 100		/* a chunk's way round the ring */

/* An operation of a ring of four, at a rank that injects. */
static const struct inject_case {
	const char *name;
	u8 collective, flags;
	u32 rank;
	u32 share;		/* the rank may use 1 / share of the window; 0: no limit */
} inject_cases[] = {
	{ "all-reduce", RAR_ALLREDUCE, 0, 1, 4 },
	{ "all-reduce in the order of ranks", RAR_ALLREDUCE, RAR_OPF_IN_ORDER, 0, 1 },
	{ "reduce-scatter", RAR_REDUCE_SCATTER, 0, 1, 0 },
	{ "all-gather", RAR_ALLGATHER, 0, 1, 0 },
	{ "broadcast", RAR_BROADCAST, 0, 2, 0 },
	{ "reduce", RAR_REDUCE, 0, 3, 0 },
};

/* Inject as much as the window allows. Returns the bytes that are on their way. */
static u64 inject(struct rar_operation *op, u32 *next, u32 end)
{
	struct rar_link *link = &sim.ring.link;
	u32 from = *next, n;

	while (*next < end && (n = rar_window_may_inject(link, op, min(end - *next, 4U)))) {
		const struct rar_run run = { .chunk = *next, .n = n };

		rar_window_injected(link, op, &run, world_us);
		*next += n;
	}
	return (u64)(*next - from) * op->ring.payload;
}

/* In each round all injected chunks come back; the last round shows the grown window. */
static void test_inject(const struct inject_case *c)
{
	const struct rar_place place = {
		.size = 4, .rank = c->rank
	};
	struct rar_link *link = &sim.ring.link;
	struct rar_member *m = &sim.ring.m;
	static u32 times[OWN];
	struct rar_operation op = { .out = { .inject_us = times, .returned = true } };
	u32 first, next, came, round;
	struct rar_plan plan;
	u64 out = 0;

	memset(times, 0, sizeof(times));
	begin(&long_way);
	if (rar_ring_plan(&plan, &place, c->collective, c->flags, 2) ||
	    rar_ring_cut(&op.ring, (u64)OWN * plan.parts * m->payload, m->payload, &plan))
		exit(1);
	op.out.owed = rar_ring_owed(&op.ring, RAR_NEXT);
	first = op.out.owed.first;
	rar_window_post(link, &op);
	for (round = 0, next = first, came = first; round < 8; round++) {
		out = inject(&op, &next, first + OWN);
		if (!c->share)
			break;
		world_us += ROUND_US;
		for (; came < next; came++)
			rar_window_returned(link, &op, came, m->payload, world_us);
	}
	if (c->share)
		/* the window may be missed by a part of a run */
		tap_ok((out + 4 * m->payload) * c->share > m->rn->sysctl_window &&
		       (out - 4 * m->payload) * c->share < m->rn->sysctl_window,
		       "%s: %llu bytes on their way, of %lu", c->name, out,
		       m->rn->sysctl_window);
	else
		tap_ok(next == first + OWN && !link->tx.win.inj_out,
		       "%s: %u of %u chunks injected that do not come back", c->name,
		       next - first, OWN);
}

int main(void)
{
	sim.rnd = seed_get();
	tap_begin();
	for (u32 i = 0; i < ARRAY_SIZE(fair_scenes); i++)
		test_fair(&fair_scenes[i]);
	test_idle();
	test_pace();
	test_pause();
	test_trickle();
	test_noise();
	for (u32 i = 0; i < ARRAY_SIZE(inject_cases); i++)
		test_inject(&inject_cases[i]);
	return tap_end();
}
