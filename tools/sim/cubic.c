// SPDX-License-Identifier: GPL-2.0
/*
 * TCP flows with CUBIC (RFC 9438) that share the link to rank 1 with the ring: their hosts are
 * others, and as fast as the ranks'. A receiver acknowledges each packet by its number (as SACK
 * does), by a way without a queue.
 *
 * Slow start ends when the round trip grows (HyStart, RFC 9406). A packet is lost if one that was
 * sent later came, and this one had a round trip and a quarter to come; the quarter grows if packets
 * prove to be late only (RACK, RFC 8985). One loss of a round trip reduces the window; marks do as
 * a loss (RFC 3168, RFC 8511).
 */
#include <math.h>

#include "sim.h"

#define FLOW_SLOTS	65536	/* packets that may be on their way */
#define FLOW_INIT	10	/* packets, RFC 6928 */
#define FLOW_C		0.4	/* of CUBIC */
#define FLOW_BETA	0.7
#define FLOW_ALPHA	(3 * (1 - FLOW_BETA) / (1 + FLOW_BETA))
#define FLOW_RTO_NS	200000000ULL
#define FLOW_BYTES	1448	/* payload in 1500 */

/*
 * struct flow - a TCP flow
 * @next, @una:	number that is sent next; the first one that is neither come nor lost
 * @recover:	losses of packets below it do not reduce the window again
 * @flying:	packets between them that have not come and are not lost
 * @cwnd, @ssthresh, @wmax: packets
 * @reno:	window of a Reno flow with the same average
 * @epoch:	when growth began after a reduction, ns; 0 = it begins with the next packet,
 * @start:	and with which window
 * @base, @srtt: lowest, and smoothed round trip, ns
 * @reorder:	quarters of a round trip for which a packet may be late
 * @sent:	when each packet was sent, ns; 0 = it came or is lost
 * @gone:	it was given up
 * @newest:	of the packets that came, when the newest was sent
 * @device_ps:	when its host's device is free
 * @heard:	when something came last, ns
 */
struct flow {
	u32 next, una, recover, flying;
	double cwnd, ssthresh, wmax, reno, start;
	u64 epoch;
	double base, srtt;
	u32 reorder;
	u64 sent[FLOW_SLOTS];
	bool gone[FLOW_SLOTS];
	u64 newest, device_ps, heard;
};

static struct flow *flows;

static void send_more(struct flow *f)
{
	u64 wire = (sim_set.mtu + sim_set.frame) * 8e12 / sim_set.bps / 10;
	struct sk_buff *skb;

	while (f->flying < (u32)f->cwnd && f->next - f->una < FLOW_SLOTS - 1) {
		skb = alloc_skb(sim_set.mtu, 0);
		skb->len = sim_set.mtu;
		skb->flow = f;
		skb->seq = f->next;
		f->sent[f->next % FLOW_SLOTS] = sim_ns;
		f->gone[f->next % FLOW_SLOTS] = false;
		f->next++;
		f->flying++;
		f->device_ps = max(f->device_ps, sim_ns * 1000) + wire;
		sim_at(f->device_ps / 1000 + sim_set.delay, SIM_PORT, &sim_ranks[1], skb);
	}
}

/* It came to the receiver. */
void sim_tcp_receive(struct sk_buff *skb)
{
	sim_got.tcp_bytes += skb->len + sim_set.frame;
	sim_at(sim_ns + sim_set.delay, SIM_TCP_ACK, NULL, skb);
}

static void reduce(struct flow *f, u32 seq)
{
	if ((s32)(seq - f->recover) < 0)
		return;
	f->recover = f->next;
	/* Fast convergence. */
	f->wmax = f->cwnd < f->wmax ? f->cwnd * (1 + FLOW_BETA) / 2 : f->cwnd;
	f->cwnd = max(f->cwnd * FLOW_BETA, 2.0);
	f->ssthresh = f->cwnd;
	f->epoch = 0;
}

static void grow(struct flow *f, double rtt)
{
	double t, target;

	if (f->cwnd < f->ssthresh) {
		if (rtt > f->base + min(max(f->base / 8, 4e6), 16e6) && f->cwnd >= 16)
			f->ssthresh = f->cwnd;
		f->cwnd++;
		return;
	}
	if (!f->epoch) {
		f->epoch = sim_ns;
		f->start = f->cwnd;
		f->reno = f->cwnd;
		f->wmax = max(f->wmax, f->cwnd);
	}
	t = (sim_ns - f->epoch + f->base) / 1e9 - cbrt((f->wmax - f->start) / FLOW_C);
	target = FLOW_C * t * t * t + f->wmax;
	f->reno += FLOW_ALPHA / f->cwnd;
	if (target > f->cwnd)
		f->cwnd += (min(target, 1.5 * f->cwnd) - f->cwnd) / f->cwnd;
	f->cwnd = max(f->cwnd, f->reno);
}

static void find_lost(struct flow *f)
{
	u64 patience = f->srtt * (4 + f->reorder) / 4;
	u32 seq, slot;

	for (seq = f->una; seq != f->next; seq++) {
		slot = seq % FLOW_SLOTS;
		if (!f->sent[slot] || f->gone[slot])
			continue;
		if (f->sent[slot] >= f->newest || f->sent[slot] + patience > sim_ns)
			break;
		f->gone[slot] = true;
		f->flying--;
		reduce(f, seq);
	}
	for (; f->una != f->next; f->una++) {
		slot = f->una % FLOW_SLOTS;
		if (f->sent[slot] && !(f->gone[slot] && f->sent[slot] + 4 * patience < sim_ns))
			break;
	}
}

/* The acknowledgment of a packet comes back. */
void sim_tcp_ack(struct sk_buff *skb)
{
	struct flow *f = skb->flow;
	u32 slot = skb->seq % FLOW_SLOTS;
	double rtt = sim_ns - f->sent[slot];

	f->heard = sim_ns;
	if (skb->seq - f->una < f->next - f->una && f->sent[slot]) {
		f->base = f->base ? min(f->base, rtt) : rtt;
		f->srtt = f->srtt ? (7 * f->srtt + rtt) / 8 : rtt;
		f->newest = max(f->newest, f->sent[slot]);
		if (f->gone[slot])
			f->reorder = min(f->reorder + 1, 4U);
		else
			f->flying--;
		f->sent[slot] = 0;
		if (skb->ce)
			reduce(f, skb->seq);
		else if (f->flying + 2 >= (u32)f->cwnd / 2)
			grow(f, rtt);
	}
	sim_skb_free(skb);
	find_lost(f);
	send_more(f);
}

/* Nothing came for long: all is lost. */
void sim_tcp_timer(void *what)
{
	struct flow *f = what;
	u64 due = f->heard + max(FLOW_RTO_NS, (u64)(3 * f->srtt));

	if (sim_ns >= due) {
		f->una = f->next;
		f->flying = 0;
		f->ssthresh = max(f->cwnd * FLOW_BETA, 2.0);
		f->cwnd = 1;
		f->recover = f->next;
		f->heard = sim_ns;
		send_more(f);
		due = sim_ns + FLOW_RTO_NS;
	}
	sim_at(due, SIM_TCP_TIMER, NULL, f);
}

void sim_tcp_begin(void)
{
	u32 i;

	flows = calloc(sim_set.cubic ?: 1, sizeof(*flows));
	for (i = 0; i < sim_set.cubic; i++) {
		flows[i].cwnd = FLOW_INIT;
		flows[i].ssthresh = 1e9;
		flows[i].reorder = 1;
		sim_at(FLOW_RTO_NS, SIM_TCP_TIMER, NULL, &flows[i]);
		send_more(&flows[i]);
	}
}

void sim_tcp_end(void)
{
	free(flows);
}
