/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal objects of AF_RAR.
 *
 * Lock order (take from left to right; all are leaf towards the network
 * stack: nothing is transmitted and no socket is woken under them):
 *
 *	rsk->send_lock > rsk->recv_lock (mutexes) > socket lock > m->lock >
 *	m->tx.lock
 *	m->rx.lock, m->early.lock, rn->lock, rn->past_lock, local->lock,
 *	mem_lock, user_lock: innermost, never nested; inside rn->lock those of its tables
 *	rn->hook_lock, rn->port_lock (mutexes, process context)
 *
 * Whoever waits for send_lock or recv_lock can be interrupted: their holder may be
 * waiting for a page of the user. Nobody touches memory of the user under the socket
 * lock, for which everybody waits without an end.
 *
 * All spinlocks are taken with bottom halves off in process context.
 */
#ifndef _RAR_H
#define _RAR_H

#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/ktime.h>
#include <linux/netfilter.h>
#include <linux/random.h>
#include <linux/refcount.h>
#include <linux/rar.h>
#include <linux/rar_wire.h>
#include <linux/rhashtable.h>
#include <linux/siphash.h>
#include <linux/skbuff.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/dst_cache.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "core/compat.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/ring.h"

struct rar_hook;
struct rar_port;
struct rar_user;
struct xdp_buff;

#define RAR_TX_SLOTS	1024	/* packets in flight on a link, power of two */
#define RAR_RX_WIN	2048	/* sequence numbers a receiver tells apart */
#define RAR_HISTORY	256	/* finished operations remembered */
#define RAR_MAX_MTU	9000	/* larger MTUs are not used: linear skbs */
#define RAR_PAYLOAD_UNIT 16	/* bytes, of any element a multiple */
#define RAR_ACK_EVERY	8	/* packets */
#define RAR_ACK_DELAY_US 1000	/* longest, when fewer came */
#define RAR_MTU_LOSSES	6	/* full-size packets, before the MTU is blamed */

/* The ends of a member's two links. */
enum rar_dir { RAR_NEXT, RAR_PREV, RAR_DIRS };

/*
 * struct rar_net - per network namespace
 * @net:	back pointer
 * @members:	struct rar_member by id and rank; RCU readers, @lock writers
 * @ids:	the same by id alone
 * @all:	the same by a number of its own, in which one goes through all of them
 * @lock:	protects @groups, @ids, @all and @nmembers
 * @nmembers:	groups with a socket
 * @mem:	bytes of operation buffers, mem_lock
 * @mem_members:	those that hold, want, or had some of it, mem_lock
 * @early:	bytes of packets held for operations not yet posted
 * @alive:	members not yet freed; the netns waits for them
 * @reply_jiffy, @replies: answers to strangers in that jiffy
 * @hooks:	ingress hooks by device, @hook_lock
 * @ports:	UDP sockets, @port_lock; @port_bits: their ports, lockless readers
 * @pasts:	of processes whose groups failed, @npasts of them, @past_lock; see resume.c
 * @past_work:	looks for those that are over
 * @mib:	counters
 * The sysctls are written by sysctl.c only and read with READ_ONCE.
 */
struct rar_net {
	struct net *net;
	struct rhltable members;
	struct rhltable ids;
	struct xarray all;
	spinlock_t lock; /* see above */
	u32 nmembers;
	u64 mem;
	struct list_head mem_members;
	atomic64_t early;
	atomic_t alive;
	unsigned long reply_jiffy;
	atomic_t replies;
	struct list_head hooks;
	struct mutex hook_lock; /* see above */
	struct list_head ports;
	struct mutex port_lock; /* see above */
	DECLARE_BITMAP(port_bits, 1 << 16);
	struct list_head pasts;
	u32 npasts;
	struct delayed_work past_work;
	spinlock_t past_lock; /* see above */
	struct rar_mib_cpu __percpu *mib;
	struct ctl_table_header *sysctl;
	struct ctl_table *table;
	int sysctl_port;
	int sysctl_rx_path;
	unsigned long sysctl_window;
	unsigned long sysctl_mem;
	int sysctl_early_bytes;
	int sysctl_copy_step;
	int sysctl_join_ms;
	int sysctl_dead_ms;
	int sysctl_linger_ms;
	int sysctl_max_members;
	int sysctl_super_chunks;
	int sysctl_local;
	int sysctl_lanes;
	int sysctl_xdp_mirror;
	int sysctl_strict;
};

extern unsigned int rar_net_id;
extern int rar_family;

/* An IP address and UDP port. IPv4 lies in the first four bytes of @ip. */
struct rar_addr {
	u16 af;
	__be16 port;
	u32 scope;
	struct in6_addr ip;
};

/*
 * struct rar_path - one direction's addressing, set before it is used
 * @src, @dst:	own and the neighbour's address and port
 * @oif:	device to use, 0 = any
 * @mtu:	that the route was configured with, 0 = none
 * @run_max:	chunks in a superpacket that the route's device takes
 * @no_queue:	what that device sends is received at once, on the same processor
 * @cache:	route
 */
struct rar_path {
	struct rar_addr src;
	struct rar_addr dst;
	int oif;
	u32 mtu;
	u32 run_max;
	bool no_queue;
	struct dst_cache cache;
};

/*
 * struct rar_sender - the sock that owns what a member sends, to one address family
 * @member: of this side
 * @sock: a UDP socket of the member's own that has no port, or NULL; set once
 * @room: on the socket's wait queue while own chunks wait for its memory
 */
struct rar_sender {
	struct rar_member *member;
	struct socket *sock;
	wait_queue_entry_t room;
};

/* A transmission that is neither acknowledged nor given up. */
struct rar_sent {
	u64 time_us;
	u32 op;			/* low bits of op_seq */
	u32 chunk;
	u8 phase;
	bool full;		/* carries a whole payload */
	bool alone;		/* in a packet of its own */
	bool head;		/* the first chunk of a packet */
	bool frame;		/* went on at the XDP hook */
};

/* The lowest delay of late: of the present spell and of the one before. */
struct rar_base {
	u32 now;
	u32 last;
	u64 since_us;
};

/*
 * struct rar_link_tx - the link to the successor, sending side
 * @lock:	protects everything here, the operation table m->ops and
 *		m->history, m->straggler, and the tx fields of each operation
 * @next_seq:	next sequence number
 * @una:	lowest one not resolved
 * @highest:	one above the highest one acknowledged
 * @sent:	by seq modulo RAR_TX_SLOTS; valid in [una, next_seq)
 * @resolved:	bit per slot: acknowledged or given up
 * @asked_seq:	one above the last one that asked for an acknowledgment
 * @inflight:	packets in [una, next_seq) that are not resolved
 * @npend:	chunks pending in all operations: to forward or to send again
 * @nback:	the same, to the first rank of this host
 * @ninject:	own chunks not yet injected in all operations
 * @nreleased:	operations taken off the table
 * @posted:	the successor's `posted`; @come: its `come`
 * @credit:	its credit
 * @early_used:	credit taken by chunks of operations from @posted on
 *
 * @srtt_us, @rttvar_us, @rto_us: as in RFC 6298; @rtt_us: the last sample
 * @rtt_base:	lowest round trip
 * @reorder_us:	how much later than a round trip an acknowledgment is no loss yet
 * @progress_us: when an acknowledgment last said something new
 * @backoff:	doublings of the timeout since the last progress
 * @answered:	an ACK without progress came since the last timeout; @in_vain: how many
 *		timeouts there were after such a one
 * @full_lost:	full-size chunks that did not come, though something sent later did,
 *		since one was acknowledged: those in superpackets, which may pass where
 *		single ones do not, and [1] those alone, which pass where others do.
 *		What was sent before the first of them was found counts once
 * @full_since_us: since when
 * @full_doubt:	full-size chunks that timeouts gave up, of which that is not known yet;
 *		@doubt_end: one above the highest of their numbers
 * @frames_lost: frames sent by XDP and given up since one was acknowledged;
 *		@frames_off: none are sent until then, jiffies
 *
 * @cwnd:	link window, packets; @ssthresh: slow start ends here;
 *		@cwnd_acked: acknowledged towards the next increase
 * @held:	the window held something back in this round trip
 * @probe:	one packet may leave whatever the window says
 * @recover:	no second reduction for what happened below this number
 * @undo_cwnd, @undo_left: what to go back to once so many of the packets given
 *		up prove to have come, the first of them at @undo_us
 * @noise:	packets acknowledged that excuse losses without a queue
 * @alpha:	share of marked packets, see window.c
 * @round_end:	the number that ends the round trip that @round_acked,
 *		@round_marks and @round_lost count; it began at @round_us
 * @chunk_ns:	how long the link takes for a chunk, at best of late
 * @burst_us:	since when chunks leave without an acknowledgment that makes room, 0 =
 *		they do not; the first was @burst_seq
 * @marks, @dups: totals that the successor reported
 *
 * @inj_out:	bytes injected whose all-gather has not come back
 * @inj_wnd:	injection window, limit of @inj_out; an operation may set a lower limit
 * @inj_max:	the most that all ranks together may have on its way round
 * @inj_base:	lowest delay round the ring
 * @inj_lowest_us: lowest of this round, which ends at @inj_round_us
 * @inj_limited: the window held something back
 * @inj_slow_start: doubling
 *
 * @timer:	of both links; @timer_us: when it is due, 0 = not armed. An armed
 *		one holds a reference on the group.
 * @blocked_us:	since when something is ready to go and may not, 0 = not
 * @came_us:	when the predecessor's last chunk came
 * @starved_us:	how long operations waited for the predecessor's chunks
 */
struct rar_link_tx {
	spinlock_t lock; /* see above */
	u32 next_seq;
	u32 una;
	u32 highest;
	struct rar_sent *sent;
	DECLARE_BITMAP(resolved, RAR_TX_SLOTS);
	u32 asked_seq;
	u32 inflight;
	u64 npend;
	u64 nback;
	u64 ninject;
	u64 nreleased;
	u64 posted;
	u64 early_used;
	u32 come;
	u32 credit;

	u32 srtt_us;
	u32 rttvar_us;
	u32 rto_us;
	u32 rtt_us;
	struct rar_base rtt_base;
	u32 reorder_us;
	u64 progress_us;
	u32 backoff;
	bool answered;
	u32 in_vain;
	u32 full_lost[2];
	u64 full_since_us[2];
	u32 full_doubt[2];
	u32 doubt_end;
	u32 frames_lost;
	unsigned long frames_off;

	u32 cwnd;
	u32 ssthresh;
	u32 cwnd_acked;
	bool held;
	bool probe;
	u32 recover;
	u32 undo_cwnd;
	u32 undo_left;
	u64 undo_us;
	u32 noise;
	u32 alpha;
	u32 round_end;
	u32 round_acked;
	u32 round_marks;
	u32 round_lost;
	u64 round_us;
	u32 chunk_ns;
	u64 burst_us;
	u32 burst_seq;
	u32 marks;
	u32 dups;

	u64 inj_out;
	u64 inj_wnd;
	u64 inj_max;
	struct rar_base inj_base;
	u32 inj_lowest_us;
	u64 inj_round_us;
	bool inj_limited;
	bool inj_slow_start;

	struct hrtimer timer;
	u64 timer_us;
	u64 blocked_us;
	u64 blocked_total_us;
	u64 came_us;
	u64 starved_us;
	u64 probed_us;
	u64 sent_us;
	u64 retransmits;
	u64 packets;
	u64 bytes;
};

/*
 * struct rar_link_rx - the link from the predecessor, receiving side
 * @lock:	protects everything here
 * @cum:	all below are received or given up by the sender
 * @highest:	one above the highest received
 * @seen:	by seq modulo RAR_RX_WIN, valid in [cum, cum + RAR_RX_WIN)
 * @unacked:	packets since the last acknowledgment
 * @ack_us:	when the timer shall send one, 0 = none is due
 * @newest_us:	arrival of the newest packet
 * @ce:		packets with the CE mark
 * @dups:	new numbers that brought an old chunk
 */
struct rar_link_rx {
	spinlock_t lock; /* see above */
	u32 cum;
	u32 highest;
	DECLARE_BITMAP(seen, RAR_RX_WIN);
	u32 unacked;
	u64 ack_us;
	u32 ce;
	u32 dups;
	u64 newest_us;
};

/*
 * struct rar_straggler - who keeps the group waiting; see straggler.c. Under tx.lock.
 * @wanted:	operations posted by the rank that posted most, as far as known
 * @since_us:	since when @wanted is more than this rank posted, 0 = it is not
 * @own_us:	how long this rank kept others waiting, up to @since_us
 * @rank:	the slowest rank, as far as known
 * @ms:		and its total
 */
struct rar_straggler {
	u64 wanted;
	u64 since_us;
	u64 own_us;
	u32 rank;
	u32 ms;
};

/*
 * struct rar_early - packets of chunks to which this rank has not contributed yet
 * @ops:	packets by operation, modulo the length of the table
 * @lock:	protects @ops and @truesize; orders a packet's "too early"
 *		against rar_post_open() so that none is left behind
 */
struct rar_early {
	spinlock_t lock; /* see above */
	struct sk_buff_head ops[RAR_MAX_OPS];
	u64 truesize;
};

/* What the proof of a JOIN or JOIN_ACK covers. */
struct rar_claim {
	u64 nonce;		/* of the one who joins */
	u64 echo;		/* what its successor answers with */
	u32 size;
	u16 src, dst;		/* ranks */
	const struct rar_addr *from, *to;
};

/* An epoch that failed, and the lowest operation to repeat; see resume.c. */
struct rar_resume {
	u64 epoch;		/* 0 = none */
	u64 op;
	bool differ;		/* members come from different epochs */
};

struct rar_row {
	u64 nonce;
	struct rar_addr addr;
	u32 payload;
};

/*
 * struct rar_join_state - joining, under m->lock; see join.c, table.c
 * @nonce:	own, new for each attempt; only the successor and members know it
 * @key:	of what strangers are told instead, see rar_key_is_token()
 * @peer_nonce:	of the neighbours
 * @ok:		the neighbour answered (next) or echoed our nonce (prev)
 * @small_acks:	unpadded JOINs that the successor answered
 * @full_tries:	padded ones sent since the first of these, all unanswered
 * @route_err:	why there is no route to the successor yet, negative errno; 0: there is
 * @odd_version: the predecessor asked in another version of the protocol
 * @odd:	enum rar_reason: why somebody with the predecessor's rank was refused
 * @payload:	of the own link to the successor
 * @table:	by rank
 * @back:	slices of the table that came (rank 0: came round) in this step
 * @past:	what the owner remembers; @resume: what all have in common
 * @step:	rank 0: packet type that is going round
 * @epoch:	proposed
 */
struct rar_join_state {
	u64 nonce;
	siphash_key_t key;
	u64 peer_nonce[RAR_DIRS];
	bool ok[RAR_DIRS];
	u32 small_acks;
	u32 full_tries;
	int route_err;
	bool odd_version;
	u8 odd;
	u32 tries;
	u32 unanswered;
	u32 payload;
	unsigned long deadline;
	unsigned long next_try;
	unsigned long refused_since;
	struct rar_row *table;
	struct rar_resume past;
	struct rar_resume resume;
	DECLARE_BITMAP(back, RAR_MAX_SIZE / RAR_TABLE_MAX);
	u8 step;
	u32 step_tries;
	unsigned long step_next;
	unsigned long step_since;
	u64 epoch;
	u64 digest;
	u32 mtu;
	u32 min_payload;
	u32 min_rank;
	struct rar_caps caps;
};

/* What a joining member knows about its neighbours besides the successor's address. */
struct rar_trust {
	struct rar_addr prev;	/* where the predecessor is; af 0 = anywhere */
	siphash_key_t key;	/* shared by the members; all zero = none */
};

/*
 * struct rar_member - one member's side of a group
 *
 * Set once: before the group is hashed @rn, @id, @rank, @size, @index, @uid, @user; before
 * RUN @epoch, @payload, @path, @lane (the ports behind @port's), @nlanes, @by_hosts,
 * @place, tx.sent.
 * @lock protects @state, @error, @join, @undelivered, @pinned, the leave fields but for
 * @fin_due and @fin_next, which only repeat a packet; rn->lock protects @sk. They
 * are read locklessly with READ_ONCE where a stale value does no harm. @state is
 * published with smp_store_release. @local_node belongs to the list that the
 * member is on, see local.c.
 *
 * References (@ref): the hash table (dropped by rar_life_end()), the
 * socket, the armed timer, the queued work, local.c's list and xdp.c's, and each item of
 * steer.c are each one. It dies
 *  - on close before RUN: at once;
 *  - on close after a failure: as a tombstone that answers for 2 x dead_ms;
 *  - on close in RUN: as an orphan, until all operations are released and
 *    both neighbours know, or linger_ms passed; then as a tombstone;
 *  - with its netns: rar_life_net_exit().
 * The last put frees it from a work item after an RCU grace period, since
 * the receive path looks it up under RCU only; hooks, ports and routes are
 * given back there.
 */
struct rar_member {
	struct rhlist_head node;
	struct rhlist_head id_node;
	struct rcu_work free;
	refcount_t ref;
	struct rar_net *rn;
	u64 id;				/* with @rank the key of rn->members */
	u32 rank;
	u32 size;
	u32 index;			/* in rn->all */
	kuid_t uid;
	struct rar_user *user;		/* who is charged, referenced */

	spinlock_t lock; /* see above */
	u8 state;			/* enum rar_state */
	bool hashed;			/* rn->lock */
	bool counted;			/* rn->lock: among the members with a socket */
	bool dead;			/* unhashed: no timer, no work any more */
	bool shut;			/* no more operations from the user */
	bool tombstone;			/* nothing left but to answer */
	bool holds_module;		/* an orphan, see rar_member_let_go() */
	bool hushed;			/* failed, and poll() and SO_ERROR do not say so yet */
	struct rcu_head announce;
	struct sock *sk;		/* NULL: orphan or tombstone */
	struct rar_error error;
	struct list_head undelivered;	/* operations, in order of send */
	struct list_head pinned;	/* those in memory of the user, see pin.c */
	u32 nundelivered;
	u64 wanted;			/* mem_lock: bytes that send() lacked, or 0 */
	struct list_head want_node;	/* mem_lock: is to be told when they are there */
	struct list_head mem_node;	/* mem_lock: in rn->mem_members */
	unsigned long want_since;	/* mem_lock: jiffies */
	unsigned long want_turn;	/* mem_lock: since when in its turn, jiffies */
	unsigned long want_told;	/* mem_lock: that they are there, jiffies, or 0 */
	bool want_sleeps;		/* a send() waits for them */
	struct rar_join_state join;
	struct pid *owner;
	struct wait_queue_entry owner_wait;
	struct work_struct work;
	u32 op_timeout_ms;
	unsigned long late_since;	/* jiffies, 0 = nothing is overdue */

	/* leaving: who left first, told to both neighbours until they ack */
	bool left;
	bool fin_due[RAR_DIRS];
	bool gone[RAR_DIRS];		/* that neighbour itself left */
	u32 left_rank;
	u8 left_why;			/* enum rar_reason: LEFT or DIED */
	u64 left_last;
	unsigned long fin_next;
	unsigned long expires;		/* orphan or tombstone, jiffies */
	u64 orphan_bytes;		/* of its operations, counted by its user */

	u64 epoch;
	u32 payload;
	bool by_hosts;
	struct rar_place place;
	struct rar_path path[RAR_DIRS];
	struct rar_port *port;
	struct rar_port *lane[RAR_MAX_LANES - 1];
	u32 nlanes;
	struct rar_sender sender[2];	/* IPv4, IPv6 */
	struct rar_addr self;			/* as bound; af 0 = any */
	struct rar_trust trust;			/* set by connect() */
	struct rar_hook *hook[3];	/* loopback, to next, from prev; rn->hook_lock */
	int prev_dev;			/* device the predecessor comes from */
	bool next_here, prev_here;	/* neighbours in this netns, see local.c */
	struct list_head local_node;
	atomic_t local_state;
	struct list_head xdp_node;	/* what frames left to do, see xdp.c */
	atomic_t xdp_todo;
	u32 sk_mark;
	u32 sk_priority;

	struct timer_list timer;
	unsigned long heard[RAR_DIRS];	/* jiffies of the last valid packet */
	unsigned long told;		/* jiffies of the last abort echo */

	struct rar_link_tx tx ____cacheline_aligned;
	struct rar_operation __rcu *ops[RAR_MAX_OPS];	/* by op_seq */
	u64 op_oldest;			/* tx.lock: lowest not released */
	u64 op_next;			/* posted */
	u64 op_whole;			/* and wholly contributed; release pairs with */
	u32 op_come;			/* rx acquire. Of the next: chunks of each block */
	u64 ops_complete;
	struct rar_straggler straggler;
	u64 rx_packets;			/* tx.lock: chunks accepted */
	u64 rx_bytes;
	u32 history[RAR_HISTORY];
	struct rar_link_rx rx ____cacheline_aligned;
	struct rar_early early;
};

/*
 * struct rar_frame - a packet in a driver's receive path, ours alone; see xdp.c
 * @xdp:	it, at its link header
 * @generic:	there is an skb around it all the same
 * @sum:	of its payload, as checksums have it; valid if @summed
 * @dev:	the device by which it can go on, and how, set by
 *		rar_frame_ready()
 * @link:	its new link header, @link_len bytes
 * @sent:	it holds what goes on by @dev
 */
struct rar_frame {
	struct xdp_buff *xdp;
	bool generic;
	bool summed;
	bool sent;
	u8 link_len;
	u8 link[VLAN_ETH_HLEN] __aligned(2);
	__wsum sum;
	struct net_device *dev;
};

/*
 * A packet, where it came from, and its parsed common header. Its data are in @skb,
 * or in @frame.
 */
struct rar_pkt {
	struct sk_buff *skb;
	struct rar_frame *frame;
	struct rar_addr from;		/* port = UDP source port */
	struct rar_addr to;
	int dev;
	u32 off;			/* of the RAR header */
	u32 len;			/* RAR header and payload */
	bool ce;
	bool local;			/* the stack found it to be for us */
	bool whole;			/* there is nothing else in it */
	bool ack_now;			/* a chunk of its run asks for it */
	u64 now_us;			/* when its data were published, 0 = they were not */
	struct rar_hdr h;
};

static inline struct rar_net *rar_net(const struct net *net)
{
	return net_generic(net, rar_net_id);
}

static inline bool rar_seq_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/* An epoch or a nonce; 0 is none. */
static inline u64 rar_random_token(void)
{
	return get_random_u64() ?: 1;
}

static inline u64 rar_now_us(void)
{
	return ktime_to_us(ktime_get());
}

/*
 * The flow that a run belongs to: by its number, so that a chunk keeps to one
 * lane all the way round, and to one CPU where each lane has its own.
 */
static inline u32 rar_lane(const struct rar_member *m, const struct rar_run *run)
{
	return run->chunk / RAR_RUN_MAX % m->nlanes;
}

/* A superpacket's chunks lie this far apart in it, bytes. */
static inline u32 rar_stride(const struct rar_member *m)
{
	return sizeof(struct rar_data_hdr) + m->payload;
}

/* Has it no operation in flight? Locklessly, or under tx.lock. */
static inline bool rar_member_is_first(const struct rar_member *m)
{
	return READ_ONCE(m->op_oldest) == READ_ONCE(m->op_next);
}

static inline bool rar_key_is_set(const siphash_key_t *key)
{
	return key->key[0] || key->key[1];
}

static inline u8 rar_member_state(const struct rar_member *m)
{
	/* Pairs with the release in rar_member_set_state(). */
	return smp_load_acquire(&m->state);
}

/* Must poll() still keep quiet about the failure? */
static inline bool rar_member_hushed(const struct rar_member *m)
{
	/* Pairs with the release in fail.c: SO_ERROR is seen with it. */
	return smp_load_acquire(&m->hushed);
}

/* Does it move data? Who found that it does not any more leaves its buffers alone. */
static inline bool rar_member_runs(const struct rar_member *m)
{
	u8 state = rar_member_state(m);

	return state == RAR_S_RUN || state == RAR_S_LEAVING;
}

/* Everything posted is complete here. */
static inline bool rar_member_idle(const struct rar_member *m)
{
	return READ_ONCE(m->ops_complete) == READ_ONCE(m->op_next);
}

#endif /* _RAR_H */
