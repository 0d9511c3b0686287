/* SPDX-License-Identifier: GPL-2.0 */
/* A simulated ring: what is set, what is counted, and the files that make it. */
#ifndef _RAR_SIM_H
#define _RAR_SIM_H

#include "core/arrival.h"
#include "core/member.h"
#include "core/op.h"
#include "rar.h"

#define SIM_NONE	(~(u32)0)
#define SIM_IP_UDP	28	/* bytes of both headers */

/*
 * struct sim_set - what is simulated; times in ns
 * @ranks:	of the ring
 * @fold:	ranks that are really simulated, a divisor of @ranks; see net.c
 * @schedule:	RAR_BY_RANKS, RAR_DIRECT or RAR_DOUBLING, for all lengths; or RAR_AUTO
 * @halving:	RAR_DOUBLING: by halving, for all lengths
 * @collective:	RAR_ALLREDUCE, RAR_BROADCAST or RAR_REDUCE
 * @root:	of a broadcast or reduction
 * @ops:	operations, one after the other; all ranks begin each together
 * @bytes:	of the tensor
 * @mtu:	bytes of an IP packet
 * @frame:	bytes that a packet takes on the wire beside its IP packet
 * @super:	chunks in a superpacket, at most
 * @whole:	a superpacket is one packet on the wire
 * @bps:	bits per second of each rank's device, in both directions
 * @delay:	of each link, one way
 * @loss:	share of the packets that a link loses
 * @queue:	packets of full size that the queue of a switch's port holds; 0: there are no switches,
 *		and a device's own queue has no limit; see wire.c
 * @mark:	packets in that queue from which on it marks, 0 = never
 * @reorder:	share of the packets that are late by up to half of @delay
 * @cubic:	TCP flows that share the port of rank 1 with the ring
 * @no_ring:	only the TCP flows run, for @limit
 * @cpus:	that all ranks share; 0: each rank has one of its own
 * @packet:	time of a CPU for a packet or superpacket that comes, and for its way out
 * @build:	time for one that is built
 * @chunk:	time for each chunk in it
 * @byte_ps:	picoseconds for each byte in it
 * @ack:	time for an acknowledgment or a probe, at each end
 * @call:	time for send() and for the wake-up and recv()
 * @slow:	rank whose CPU takes @slow_by times as long, SIM_NONE = none
 * @late:	rank that posts each operation @late_by later, SIM_NONE = none
 * @window, @early: net.rar.window, net.rar.early_bytes
 * @seed:	of the losses
 * @numbers:	carry numbers, and compare the sums
 * @no_resend:	never send a chunk again: for a test that such a ring hangs
 * @limit:	simulated time after which an operation counts as hung
 */
struct sim_set {
	u32 ranks, fold, schedule, collective, root, ops;
	u64 bytes;
	u32 mtu, frame, super;
	bool whole, halving;
	double bps;
	u64 delay;
	double loss;
	u32 queue, mark;
	double reorder;
	u32 cubic;
	bool no_ring;
	u32 cpus;
	u64 packet, build, chunk, byte_ps, ack, call;
	u32 slow;
	double slow_by;
	u32 late;
	u64 late_by;
	u64 window;
	u32 early;
	u64 seed;
	bool numbers, no_resend;
	u64 limit;
};

/*
 * struct sim_got - what came of it
 * @ns:		by operation: from the common start until the last rank has its result
 * @hung:	operations that did not end in time
 * @wrong:	elements of sums that are wrong
 * @odd:	chunks whose header has a flag that nothing here sets
 * @unreleased:	operations that a rank still owes its successor at the end
 * @events:	of the simulation
 * @data:	chunks that left, again or not, of all simulated ranks
 * @sent:	payload bytes of them
 * @again:	chunks sent again
 * @dups:	chunks received twice
 * @forwarded:	chunks sent in the packet that brought them
 * @acks:	acknowledgments
 * @lost:	packets lost on links
 * @added:	chunks that were added or stored, at all simulated ranks
 * @ring_bytes:	on the wire, of the ring's packets that the port of rank 1 let through since
 *		sim_shares_begin(), and
 * @tcp_bytes:	of those of the TCP flows that came for the first time
 * @shares_ns:	for how long they were counted
 * @cwnd:	largest link window at the end, chunks
 * @busy:	time of the busiest CPU
 */
struct sim_got {
	u64 *ns;
	u32 hung;
	u64 wrong, odd, unreleased, events;
	u64 data, sent, again, dups, forwarded, acks, lost, added;
	u64 ring_bytes, tcp_bytes, shares_ns;
	u32 cwnd;
	u64 busy;
};

/* A rank, or with a fold one that stands for several. */
struct sim_rank {
	struct rar_member m;
	u64 device_ps;		/* when its device is free */
	u64 port_ps;		/* when the port of the switch that leads to it is free */
	u64 tick;		/* when the member's timer is due, 0 = not armed */
	bool reading;		/* the user was woken */
	u32 next;		/* operation that the user posts next */
	u64 *numbers;		/* of the operation, first contributed, then summed */
};

extern struct sim_set sim_set;
extern struct sim_got sim_got;
extern struct sim_rank *sim_ranks;
extern struct rar_ring sim_ring;	/* of rank 0 */

/* net.c: events, CPUs, links */
enum sim_kind { SIM_PACKET, SIM_LINK_TIMER, SIM_TICK, SIM_POST, SIM_READ, SIM_CPU, SIM_PORT,
		SIM_TCP_PACKET, SIM_TCP_ACK, SIM_TCP_TIMER };

void sim_at(u64 ns, enum sim_kind kind, struct sim_rank *rank, void *what);
void sim_spend(const struct sim_rank *rank, u64 ns);
void sim_send(struct sim_rank *from, struct sk_buff *skb, u32 rank);
bool sim_is_data(const struct sk_buff *skb);
struct sk_buff *sim_part_of(const struct sk_buff *skb, u32 i, u32 n);
bool sim_next_event(u64 until);
void sim_random_begin(void);
double sim_random_share(void);
void sim_net_begin(void);
void sim_net_end(void);
void sim_handle(enum sim_kind kind, struct sim_rank *rank, void *what);

/* wire.c: switches */
void sim_switch_send(struct sim_rank *from, struct sk_buff *skb, struct sim_rank *to);
void sim_port(struct sim_rank *to, struct sk_buff *skb);
void sim_shares_begin(void);
void sim_shares_end(void);

/* cubic.c: TCP flows that share the link to rank 1 with the ring */
void sim_tcp_begin(void);
void sim_tcp_end(void);
void sim_tcp_receive(struct sk_buff *skb);
void sim_tcp_ack(struct sk_buff *skb);
void sim_tcp_timer(void *flow);

/* around.c: the layers around ring and link */
void sim_receive(struct sim_rank *rank, struct sk_buff *skb);
void sim_tick(struct sim_rank *rank);
void sim_link_timer(struct sim_rank *rank);
void sim_collect(void);

/* run.c: the ranks and their users */
int sim_run(void);
void sim_woken(struct rar_member *m);
u64 sim_number(u32 rank, u64 i);
u32 sim_payload(void);
u32 sim_super(void);

/* coarse.c: very large rings, without the module's code */
u64 sim_coarse(void);

/* join.c: how long it takes to join */
void sim_join(void);

static inline struct sim_rank *sim_rank_of(const struct rar_member *m)
{
	return container_of(m, struct sim_rank, m);
}

#endif /* _RAR_SIM_H */
