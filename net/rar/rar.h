/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The objects of AF_RAR: network namespace, member, link, packet.
 *
 * Lock order: take from left to right. The list of all locks, and of what each
 * protects, is in Documentation/design/index.rst.
 *
 *	rsk->send_lock > rsk->recv_lock > socket lock	(mutexes)
 *	socket lock, rsk->send_lock > regions->lock
 *	socket lock, rn->box_lock > rtnl > rn->hook_lock
 *	socket lock, rn->box_lock > rn->port_lock
 *
 *	socket lock, mmap_lock > rsk->counters_lock	(spinlocks from here on)
 *	rsk->counters_lock > m->lock > m->tx_lock
 *	draining.lock > m->lock, m->tx_lock, room->lock
 *	job->lock > job->lock of another job, if that is free
 *	held->lock > rn->lock
 *
 *	link->rx.lock, m->early.lock, seal->lock, root->lock, rn->lock,
 *	rn->past_lock, box->lock, local->lock, room->lock, turns->lock,
 *	later->lock, user_lock, mem_lock, hosts_lock: innermost, none inside
 *	another. Inside rn->lock and job->lock are the locks of their tables.
 *
 * Nothing is transmitted and no socket is woken under a spinlock. In process
 * context spinlocks are taken with bottom halves off, except for counters_lock,
 * which no softirq takes.
 *
 * The holder of send_lock or recv_lock may be waiting for a page of the user,
 * so a thread that waits for one of them can be interrupted. Threads wait for
 * the socket lock without an end, so no thread touches memory of the user under
 * it.
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
#include "core/settings.h"
#include "link/window.h"

struct rar_hook;
struct rar_member;
struct rar_pkt;
struct rar_port;
struct rar_seal;
struct rar_user;
struct xdp_buff;

#define RAR_TX_SLOTS	8192U	/* most chunks in flight, power of two */
#define RAR_RX_WIN	16384	/* numbers that a receiver keeps apart */
#define RAR_HISTORY	256	/* finished operations remembered */
#define RAR_MAX_MTU	9000	/* bytes; larger MTUs are not used, as skbs are linear */
#define RAR_PAYLOAD_UNIT 16	/* bytes; a multiple of every element size */
#define RAR_ACK_EVERY	8	/* packets per acknowledgment */
#define RAR_ACK_DELAY_US 1000	/* longest delay of one, when fewer packets came */
#define RAR_MTU_LOSSES	6	/* full-size packets lost before the MTU is blamed */
#define RAR_CLOCKS	4	/* starts of rank 0 that a joining member remembers */

#define RAR_SECRET	32	/* bytes of a key that a user sets, at most */

#define RAR_BOX_RANK	0xffff	/* of a box, which has no place in the ring */
#define RAR_BOX_LEGS	64	/* members that a box serves at most */
#define RAR_BOX_PAUSE	256	/* operations for which a box wants nothing, at most */

/* An IP address and UDP port. IPv4 lies in the first four bytes of @ip. */
struct rar_addr {
	u16 af;
	__be16 port;
	u32 scope;
	struct in6_addr ip;
};

/* A key that the members of a group share, or a box and those that use it. */
struct rar_secret {
	u8 bytes[RAR_SECRET];
	u32 len;		/* 0 = none */
};

/* Boxes side by side, in their order. */
struct rar_boxes {
	u32 n;
	struct rar_addr addr[RAR_LEGS];
};

/* How the jobs of a box share its memory: net.rar.box_policy; see box/pool.c. */
enum rar_pool_policy {
	RAR_POOL_STATIC,
	RAR_POOL_FCFS,
	RAR_POOL_RECLAIM,
	RAR_POOL_PREEMPT,
	RAR_POOL_NR
};

#define RAR_BOX_PREFIXES	6	/* of net.rar.box_allow */

/*
 * struct rar_allow - the hosts that may use the box of this host
 * @link:	hosts that are reached without a gateway
 * @n:		entries of @prefix in use
 * @prefix:	hosts with these addresses
 */
struct rar_allow {
	bool link;
	u32 n;
	struct rar_prefix {
		u16 af;
		u8 len;
		struct in6_addr ip;
	} prefix[RAR_BOX_PREFIXES];
};

/*
 * struct rar_net - per network namespace
 * @net:	the namespace
 * @members:	struct rar_member by group id and rank; RCU readers, @lock writers
 * @ids:	struct rar_member by group id alone; RCU readers, @lock writers
 * @all:	struct rar_member by @index, to go through all of them
 * @lock:	protects @members, @ids, @all, @generation and @nmembers
 * @generation:	changes when a member comes or goes; never 0
 * @nmembers:	members with a socket
 * @mem:	bytes of operation buffers, mem_lock
 * @mem_members: members that hold, want, or had such bytes, mem_lock
 * @mem_pass:	number of the look at all of them that is under way, mem_lock
 * @mem_lowest:	lowest epoch so far in this look that competes, mem_lock
 * @mem_turn:	lowest such epoch of the look before, mem_lock
 * @early:	bytes of unexpected messages held
 * @alive:	members not yet freed; the end of the namespace waits for them
 * @reply_jiffy: the jiffy in which @replies is counted
 * @replies:	answers to strangers in @reply_jiffy
 * @hooks:	ingress hooks by device, @hook_lock
 * @hook_lock:	protects @hooks
 * @ports:	UDP sockets, @port_lock
 * @port_lock:	protects @ports
 * @port_bits:	the UDP ports of @ports; lockless readers, @port_lock writers
 * @pasts:	failed epochs that processes remember, @past_lock; see resume.c
 * @npasts:	entries in @pasts
 * @past_lock:	protects @pasts and @npasts
 * @past_work:	drops entries of @pasts that no process can ask for any more
 * @box_lock:	protects the box of this host, its jobs, and settings that
 *		start it
 * @boxes:	net.rar.box, the boxes that groups of this host propose; @lock
 * @box_offers:	if there is none: groups take a box that offers itself; @lock
 * @box_allow:	net.rar.box_allow; @lock
 * @box_up:	net.rar.box_up, the box above the box of this host; @lock
 * @box_key:	key of the box of this host; @box_lock
 * @mib:	counters
 *
 * The settings of core/settings.h are written by sysctl.c, those that start the
 * box by the box under @box_lock. All others read them with READ_ONCE.
 */
struct rar_net {
	struct net *net;
	struct rhltable members;
	struct rhltable ids;
	struct xarray all;
	spinlock_t lock; /* see above */
	u32 generation;
	u32 nmembers;
	u64 mem;
	struct list_head mem_members;
	u32 mem_pass;
	u64 mem_lowest;
	u64 mem_turn;
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
	struct mutex box_lock; /* see above */
	struct rar_boxes boxes;
	bool box_offers;
	struct rar_allow box_allow;
	struct rar_addr box_up;
	struct rar_secret box_key;
	struct rar_mib_cpu __percpu *mib;
	struct ctl_table_header *sysctl;
	struct ctl_table *table;

	RAR_ALL_SETTINGS(RAR_NUMBER_FIELD, RAR_WORD_FIELD, RAR_NO_FIELD,
			 RAR_NO_FIELD)
	int sysctl_strict;
	unsigned long sysctl_box_mem;
	int sysctl_box_offer;
	int sysctl_box_roce;
};

extern unsigned int rar_net_id;
extern int rar_family;

/*
 * struct rar_path - the addressing of one direction, set before it is used
 * @src:	own address and port
 * @dst:	the neighbour's address and port
 * @oif:	device to use, 0 = any
 * @dev:	device of the route, 0 = not looked up yet
 * @only:	packets of the neighbour come by @dev and no other device; see
 *		rar_route_takes()
 * @mtu:	MTU configured in the route, bytes, 0 = none
 * @run_max:	chunks per superpacket that the route's device takes
 * @no_queue:	packets sent by that device are received at once, on the same CPU
 * @cache:	the route
 */
struct rar_path {
	struct rar_addr src;
	struct rar_addr dst;
	int oif;
	int dev;
	bool only;
	u32 mtu;
	u32 run_max;
	bool no_queue;
	struct dst_cache cache;
};

/*
 * struct rar_sender - the sock that owns the packets a member sends, per address family
 * @member: the member that sends
 * @sock: a UDP socket of the member's own that has no port, or NULL; set once
 * @room: entry in the socket's wait queue while own chunks wait for its memory
 */
struct rar_sender {
	struct rar_member *member;
	struct socket *sock;
	wait_queue_entry_t room;
};

/* A run that was sent, and not every chunk of it is acknowledged or given up; see sent.h. */
struct rar_sent {
	u64 time_us;
	u32 op;			/* low bits of the operation's number */
	u32 chunk;		/* the first one */
	u8 n;			/* chunks */
	u8 phase;
	u8 lane;
	bool last_full;		/* the last chunk fills a payload, as the others do */
	bool frame;		/* forwarded at the XDP hook */
	bool whole;		/* as a carrier */
	u16 flying;		/* chunks under way by its rail, with these */
};

/*
 * struct rar_carry - does the path to a neighbour pass carriers? See carry.c. Under tx_lock.
 * @proven:	chunks of the longest one that came, unless too many were lost since; 0 = none
 * @trial:	chunks of a longer one that is under way and will tell; 0 = none
 * @lost:	carriers given up since one last came that was as long as any of these
 * @lost_n:	chunks of the shortest of these
 * @off:	none is sent until then, jiffies
 * @wait:	for how long none is sent after the next failure, jiffies
 */
struct rar_carry {
	u32 proven;
	u32 trial;
	u32 lost;
	u32 lost_n;
	unsigned long off;
	unsigned long wait;
};

/*
 * struct rar_lane - a lane of a link; see lane.c. Under tx_lock.
 * @lost:	packets lost in a row, though packets that were sent later came:
 *		short ones, and those with a chunk of full size
 * @since_us:	when the first loss in each of @lost was found
 * @out_full:	it was left out because of packets of full size
 * @try:	when it is tried again, jiffies
 * @wait:	time between two tries, jiffies
 * @back:	when it was last used again, jiffies
 */
struct rar_lane {
	u32 lost[2];
	u64 since_us[2];
	bool out_full;
	unsigned long try;
	unsigned long wait;
	unsigned long back;
};

/*
 * struct rar_lanes - the lanes of a link. Under tx_lock.
 * @out:	lanes that are left out, a bit each
 * @suspect:	lanes that lost packets lately, or are left out, a bit each
 * @again:	packets with chunks that were sent before
 * @lane:	by number
 */
struct rar_lanes {
	u32 out;
	u32 suspect;
	u32 again;
	struct rar_lane lane[RAR_MAX_LANES];
};

/*
 * struct rar_rail - a further pair of addresses between two ranks; see rail.c
 * @path:	the addresses
 * @hook:	ingress hook of the device by which packets go or come,
 *		rn->hook_lock
 * @heard:	the other rank sends or takes packets by it
 */
struct rar_rail {
	struct rar_path path;
	struct rar_hook *hook;
	bool heard;
};

/*
 * struct rar_load - what is under way between a pair of addresses. Under
 *		     tx_lock
 * @flying:	chunks
 * @chunk_ns:	time that the pair takes for a chunk, smoothed, 0 = not known
 * @srtt_us:	its round trip, smoothed
 */
struct rar_load {
	u32 flying;
	u32 chunk_ns;
	u32 srtt_us;
};

/*
 * struct rar_rails - the rails of a link
 * @n:		further pairs of addresses; set once in an epoch, under tx_lock
 * @told:	the other rank has answered which addresses it has
 * @asked:	questions for them
 * @next:	when it is asked again, jiffies
 * @load:	of the link's own path, and of each of @more
 * @more:	the pairs
 */
struct rar_rails {
	u32 n;
	bool told;
	u32 asked;
	unsigned long next;
	struct rar_load load[RAR_MAX_RAILS + 1];
	struct rar_rail more[RAR_MAX_RAILS];
};

/*
 * struct rar_link_tx - the sending side of a link, under tx_lock
 * @next_seq:	next sequence number to use
 * @una:	lowest number neither acknowledged nor given up
 * @highest:	highest acknowledged number, plus 1
 * @nslots:	chunks in flight at most, a power of two, or 0; it grows, see
 *		rar_link_reserve()
 * @sent:	runs by the number of their first chunk, modulo @nslots
 * @heads:	bit per slot of @sent: a run begins there
 * @resolved:	bit per number, modulo @nslots: acknowledged or given up
 * @asked_seq:	last number that asked for an acknowledgment, plus 1
 * @inflight:	chunks in [una, next_seq) that are not resolved
 * @npend:	chunks that wait to be forwarded or sent again, all operations
 * @nback:	chunks that wait to go to the first rank of this host, all operations
 * @ninject:	own chunks not yet injected, all operations
 * @posted:	operations the neighbour has contributed to in full, as last advertised
 * @done:	operations that the neighbour has completed with all before them, as last told
 * @early_used:	bytes of @credit used by chunks of operations from @posted on
 * @come:	chunks of each block of the next operation that the neighbour has
 *		contributed to, as last advertised
 * @credit:	bytes of unexpected messages the neighbour accepts, as last advertised
 *
 * @progress_us: when an acknowledgment last acknowledged a new number
 * @answered:	the last acknowledgment acknowledged nothing new, and no timeout followed
 * @full_lost:	full-size chunks lost, though a packet sent later came, since the last
 *		acknowledged one. [0] counts superpackets' chunks, which may pass where
 *		single packets do not. [1] counts chunks sent alone, which may pass where
 *		superpackets do not. All chunks sent before the first loss was found
 *		count as one.
 * @full_since_us: when the first loss in each of @full_lost was found
 * @full_doubt:	full-size chunks given up at a timeout, of which it is not known yet
 *		whether a packet sent later came; indexed as @full_lost
 * @doubt_end:	highest number in @full_doubt, plus 1
 * @frames_lost: frames sent by XDP that were given up since the last acknowledged one
 * @frames_off:	no frames are sent by XDP until then, jiffies
 * @carry:	what is known about carriers
 * @lanes:	what is known about the lanes
 *
 * @win:	windows, and the clock that they read
 * @probe:	one chunk may leave regardless of the window
 * @marks:	marked chunks, total that the neighbour reported
 * @dups:	chunks received twice, total that the neighbour reported
 *
 * @blocked_us:	since when a chunk is ready to go and may not go, 0 = none is
 * @blocked_total_us: time that ready chunks could not go, up to @blocked_us
 * @probed_us:	when the last probe was sent
 * @sent_us:	when the last chunk was sent
 * @retransmits: chunks sent again
 * @forwarded:	chunks sent in the packet that brought them
 * @packets:	chunks sent
 * @bytes:	payload bytes sent
 */
struct rar_link_tx {
	u32 next_seq;
	u32 una;
	u32 highest;
	u32 nslots;
	struct rar_sent *sent;
	unsigned long *heads;
	unsigned long *resolved;
	u32 asked_seq;
	u32 inflight;
	u64 npend;
	u64 nback;
	u64 ninject;
	u64 posted;
	u64 done;
	u64 early_used;
	u32 come;
	u32 credit;

	u64 progress_us;
	bool answered;
	u32 full_lost[2];
	u64 full_since_us[2];
	u32 full_doubt[2];
	u32 doubt_end;
	u32 frames_lost;
	unsigned long frames_off;
	struct rar_carry carry;
	struct rar_lanes lanes;

	struct rar_window win;
	bool probe;
	u32 marks;
	u32 dups;

	u64 blocked_us;
	u64 blocked_total_us;
	u64 probed_us;
	u64 sent_us;
	u64 retransmits;
	u64 forwarded;
	u64 packets;
	u64 bytes;
};

/*
 * struct rar_link_rx - the receiving side of a link
 * @lock:	protects this struct
 * @cum:	all numbers below it are received, or given up by the sender
 * @highest:	highest number received, plus 1
 * @seen:	received numbers modulo RAR_RX_WIN, valid in
 *		[cum, cum + RAR_RX_WIN); NULL of a link by which no chunks with
 *		numbers come
 * @unacked:	packets since the last acknowledgment; a superpacket counts once
 * @told:	@highest as the last acknowledgment told it
 * @ack_us:	when the timer sends the next acknowledgment, 0 = none is due
 * @newest_us:	arrival of the newest packet
 * @lane:	of the acknowledgments
 * @ce:		chunks that came in packets with the CE mark
 * @dups:	new numbers that brought a chunk this rank had before
 */
struct rar_link_rx {
	spinlock_t lock; /* see above */
	u32 cum;
	u32 highest;
	unsigned long *seen;
	u32 unacked;
	u32 told;
	u64 ack_us;
	u32 ce;
	u32 dups;
	u64 newest_us;
	u32 lane;
};

/*
 * struct rar_link - a member's end of the link to a neighbour
 * @member:	the member, set once
 * @index:	its index in @member->link, or RAR_LINKS and the slot added if
 *		it is of a struct rar_direct_peer; set once
 * @out:	index in struct rar_operation.out, of a link by which chunks go
 *		with numbers; set before RUN
 * @rank:	the neighbour's rank, set once
 * @here:	the neighbour is in this namespace, and chunks may be handed over in memory; see
 *		push.c
 * @in_memory:	so they are: towards the predecessor, which decides by the same settings, too
 * @carries:	the neighbour is in this kernel and knows carriers, see carry.c
 * @dev:	device by which the neighbour's packets come in, 0 = not known
 * @path:	the addresses of both ends
 * @rails:	further ones, or NULL; set while joining
 * @hook:	ingress hook of the device by which packets come or go, rn->hook_lock
 * @tx:		the sending side, of a link by which chunks go
 * @rx:		the receiving side, of a link by which chunks come
 * @heard:	when the last valid packet came from the neighbour, jiffies
 * @ctl:	packets without chunks that were sent, for their lanes
 * @epoch:	token of packets on a link that leads to no rank, 0 = it is closed. tx_lock
 * @seal:	keys of packets with that token; NULL: none. The member's @lock
 * @silent:	the neighbour has answered nothing for several timeouts
 * @narrow:	the path carries less than the epoch's packets, on a link that leads to no rank
 */
struct rar_link {
	struct rar_member *member;
	u32 index;
	u32 out;
	u32 rank;
	bool here;
	bool in_memory;
	bool carries;
	int dev;
	struct rar_path path;
	struct rar_rails *rails;
	struct rar_hook *hook;
	struct rar_link_tx tx ____cacheline_aligned;
	struct rar_link_rx rx ____cacheline_aligned;
	unsigned long heard;
	u32 ctl;
	u64 epoch;
	struct rar_seal __rcu *seal;
	bool silent;
	bool narrow;
};

/*
 * struct rar_aside - functions of a group whose sums may also be made aside of the ring
 * @post:	an operation is on its way into the table: rar_link_inject() by one of the
 *		links; under tx_lock
 * @contributed: more of an operation is contributed, of each block @before chunks were: as @post
 * @claim:	own chunks are about to be injected by a link to a rank; may shorten the run.
 *		Returns false if nothing of it is left; under tx_lock
 * @find:	the link by which a packet of a rank that is no neighbour comes from an address;
 *		without an address, the link whose packets have a token; or NULL
 * @rcv:	takes in a packet that came by a link that leads to no rank
 */
struct rar_aside {
	void (*post)(struct rar_member *m, struct rar_operation *op);
	void (*contributed)(struct rar_member *m, struct rar_operation *op, u32 before);
	bool (*claim)(struct rar_link *link, struct rar_operation *op, struct rar_run *run);
	struct rar_link *(*find)(struct rar_member *m, u32 rank, const struct rar_addr *from,
				 u64 token);
	enum rar_rx (*rcv)(struct rar_member *m, struct rar_pkt *pkt, u32 n);
};

/*
 * struct rar_leg - a member's link to a box of its group
 * @link:	the link
 * @addr:	the box
 * @home:	the box that this host names itself, which may be below the group's; af 0: none
 * @since:	when the leg was lost, or @addr was last changed, jiffies
 * @away:	times in a row that it was opened at another box than @home; tx_lock to write
 * @home_at:	when to try @home again, if @away, jiffies; tx_lock to write
 * @any_order:	the box makes only sums whose order has no effect
 * @cast:	the box passes broadcasts on
 * @reduce:	the box makes the sums of reductions to a root
 * @keyed:	the box combines records of keyed reductions
 * @nonce:	of the present attempt to enter
 * @cookie:	proves to the box that this rank receives at its address, 0 = not known yet
 * @why:	enum rar_reason: what is wrong with the seals of the box, as its
 *		answers tell, or that this rank has no key for it
 * @opened:	when it was last opened, jiffies. tx_lock
 * @pause:	from its last loss to the next ENTER, jiffies. tx_lock
 * @next_try:	when to enter again, jiffies
 * @tries:	ENTERs sent in this attempt
 * @next_tell:	when to let the box hear this rank, jiffies; the timer's
 * @stood:	operations in a row that stood still while nothing came from the box. tx_lock
 * @heard_at:	the link's @heard when the first of them did. tx_lock
 * @stuck:	operations that stood still since a chunk of full size came, whatever else did
 * @from:	the box gets nothing of operations below this number, which were posted before
 *		the leg was open
 * @until:	the box wants nothing of operations below this number. tx_lock
 * @sums:	chunks whose sum came from the box, or which it has passed on or summed. tx_lock
 * @ringed:	chunks whose sum, or partial sum on its way to a root, came by the ring. tx_lock
 */
struct rar_leg {
	struct rar_link link;
	struct rar_addr addr;
	struct rar_addr home;
	unsigned long since;
	u32 away;
	unsigned long home_at;
	bool any_order;
	bool cast;
	bool reduce;
	bool keyed;
	u64 nonce;
	u64 cookie;
	u8 why;
	unsigned long opened;
	unsigned long pause;
	unsigned long next_try;
	u32 tries;
	unsigned long next_tell;
	u32 stood;
	unsigned long heard_at;
	u32 stuck;
	u64 from;
	u64 until;
	u64 sums;
	u64 ringed;
};

/*
 * struct rar_direct_peer - another rank, to which this one may send directly;
 * see direct.c. Its number among these is its slot
 * @link:	its path, rank and @heard; by halving chunks go by it with
 *		numbers, and it gets memory for that when it is first needed
 * @nonce:	joining, m->lock: the rank's nonce by the table, 0 = not known yet
 * @challenge:	joining, m->lock: random, of the questions whether packets reach it
 * @reached:	joining, m->lock: it answered a packet of full size
 * @reached_small: joining, m->lock: it answered a short packet
 * @tries:	joining, m->lock: packets sent to it
 * @tried_us:	joining, m->lock: when the last one was sent
 * @rto_us:	time that a question waits for its answer, set before RUN
 * @ask_us:	tx_lock: when it is asked next, 0 = nothing is missing
 * @asked_us:	tx_lock: when the oldest question without an answer was sent, 0 = none
 * @backoff:	tx_lock: questions since the last progress
 * @full_lost:	tx_lock: questions for chunks of full size, since one of these came there
 * @full_since_us: tx_lock: when the first of these questions came
 * @full_seq:	tx_lock: the operation of the last question, and
 * @full_missing: tx_lock: the chunks of full size that it asked for, a bit each
 */
struct rar_direct_peer {
	struct rar_link link;
	u64 nonce;
	u64 challenge;
	bool reached;
	bool reached_small;
	u32 tries;
	u64 tried_us;
	u32 rto_us;
	u64 ask_us;
	u64 asked_us;
	u32 backoff;
	u32 full_lost;
	u64 full_since_us;
	u64 full_seq;
	u64 full_missing;
};

/*
 * struct rar_direct - the direct exchange of short operations; see direct.c
 * @peer:	by slot; set before the member joins. NULL: the schedule has no
 *		direct exchange
 * @n:		slots
 * @all:	all ranks have a slot, whose number is their rank; that of this
 *		rank is not used
 * @paired:	the ranks reach one another directly that have to, set before
 *		RUN
 * @below:	operations of fewer bytes are exchanged directly, set before RUN
 * @doubling_below: of the other sums, those of fewer bytes go by doubling, set
 *		before RUN
 * @halving_below: of the other all-reduces, those of fewer bytes go by halving,
 *		set before RUN
 * @partners:	slots of the peers by halving, a bit each; 0: nothing goes so.
 *		Set before RUN
 * @next:	tx_lock: all operations below are sent, or are not sent directly
 * @pushing:	tx_lock: a CPU is sending operations
 * @running:	tx_lock: operations that were sent and are not complete
 * @news:	tx_lock: slots to be told which operations are complete here, a
 *		bit each
 * @news_us:	tx_lock: when they are told at the latest, 0 = there are none
 * @keyed:	tx_lock: there was a keyed reduction in this epoch
 */
struct rar_direct {
	struct rar_direct_peer *peer;
	u32 n;
	bool all;
	bool paired;
	u32 below;
	u32 doubling_below;
	u32 halving_below;
	u64 partners;
	u64 next;
	bool pushing;
	u32 running;
	u64 news;
	u64 news_us;
	bool keyed;
};

/*
 * struct rar_straggler - the rank that keeps the group waiting; see straggler.c. Under tx_lock.
 * @wanted:	operations posted by the rank that posted most, as far as known
 * @since_us:	since when this rank has posted fewer than @wanted, 0 = it has not
 * @own_us:	time this rank kept others waiting, up to @since_us
 * @rank:	the straggler: the rank with the largest such time, as far as known
 * @ms:		time the straggler kept others waiting
 */
struct rar_straggler {
	u64 wanted;
	u64 since_us;
	u64 own_us;
	u32 rank;
	u32 ms;
};

/*
 * struct rar_early - unexpected messages: packets of chunks this rank has not contributed to
 * @ops:	by operation, modulo the table's length: the last packet held
 *		for it, whose @next is the first packet; NULL if none is held
 * @lock:	protects @ops and @truesize; a packet is either seen by rar_post_open() or
 *		sees that it is not too early any more
 * @truesize:	bytes of memory that the packets hold
 */
struct rar_early {
	spinlock_t lock; /* see above */
	struct sk_buff *ops[RAR_MAX_OPS];
	u64 truesize;
};

/* The tokens by which a member that ends its join tells its neighbours, 0 = none. */
struct rar_bye {
	u64 nonce[RAR_LINKS];	/* theirs, or what they gave */
	u64 epoch;		/* of the proposal that the member was ready for */
};

/* The values that the proof of a JOIN, JOIN_ACK or REJECT covers. */
struct rar_claim {
	u64 nonce;		/* of the joining rank */
	u64 echo;		/* cookie with which its successor answers; or why it refuses */
	bool refuses;		/* REJECT */
	u32 size;
	u16 src, dst;		/* ranks */
	const struct rar_addr *from, *to;
};

/* An epoch that failed, and the lowest operation to repeat after it; see resume.c. */
struct rar_resume {
	u64 epoch;		/* 0 = none */
	u64 op;
	bool differ;		/* the members come from different epochs */
};

/* One rank in the join table. */
struct rar_row {
	u64 nonce;
	struct rar_addr addr;
	u16 user;		/* what the user calls it, exclusive-or its rank */
	u16 payload;
	bool beside;		/* it has found the rank before it in its kernel */
};

/*
 * struct rar_choice - which operations go by which way: borders, in bytes of
 * the tensor; see choice.c
 * @paired: each rank reaches each other rank directly that it has a link to
 * @direct: longest operation that is exchanged directly, 0 = none
 * @doubling: longest of the others that goes by doubling, 0 = none
 * @halving: longest of the other all-reduces that goes by halving, 0 = none
 */
struct rar_choice {
	bool paired;
	u32 direct;
	u32 doubling;
	u32 halving;
};

/*
 * struct rar_join_state - joining, under m->lock; see join.c, table.c
 * @nonce:	own, new for each attempt; only the successor and members know it
 * @key:	makes the tokens that strangers get instead of @nonce, see rar_key_cookie()
 * @pass:	token of the predecessor's packets: the cookie by which it was accepted
 * @peer_nonce:	nonces of the neighbours; of the successor, @pass there, or a cookie
 * @ok:		the neighbour answered (next) or echoed our nonce (prev)
 * @small_acks:	unpadded JOINs that the successor answered
 * @small_news:	of these, since JOINs are padded to @payload
 * @full_tries:	padded JOINs sent since the first of @small_news, all unanswered
 * @route_err:	why there is no route to the successor yet, negative errno; 0: there is
 * @odd:	enum rar_reason: why a sender with the predecessor's rank was
 *		refused
 * @unheard:	enum rar_reason: what was wrong with the seal of such a sender
 * @no_key:	the successor, or who sends in its name, answered with a bad proof
 * @tries:	JOINs sent
 * @unanswered:	JOINs sent since the successor's last answer
 * @payload:	bytes that the link to the successor carries in a packet
 * @deadline:	when the join times out, jiffies
 * @next_try:	when the next JOIN is due, jiffies
 * @refused_since: since when the successor refuses this rank, jiffies, 0 = it does not
 * @table:	rows by rank
 * @past:	failed epoch that the owner remembers
 * @resume:	failed epoch that all members so far have in common
 * @back:	slices of the table that came (rank 0: came round) in this step
 * @step:	rank 0: packet type that is going round
 * @step_tries:	rank 0: times that the packets of @step were sent
 * @step_next:	rank 0: when they are sent again, jiffies
 * @step_since:	when this step began, jiffies
 * @clock_base:	rank 0: random; added to the clock that COLLECT and PROPOSE carry
 * @round_clock: rank 0: that clock when COLLECT began to go round this time
 * @round_ms:	rank 0: time that the last COLLECT took
 * @apart_rounds: rank 0: COLLECTs that came round while ranks did not reach each other
 * @apart:	rank 0: a rank did not reach all others that it must, in this
 *		round of COLLECT
 * @choice:	what rank 0 has chosen, for RAR_AUTO, RAR_DIRECT and
 *		RAR_DOUBLING
 * @drawn:	the proposal: rank 0's clock when it was made
 * @clock:	latest reading of rank 0's clock, and of those that it had when it started before
 * @ready:	@drawn of the proposal that the member is ready for, or runs in; 0 = none
 * @hash:	over the table of that proposal; the epoch follows from it
 * @digest:	of the table
 * @wants:	rank 0: the boxes that it would propose; @lock of the member
 * @offers:	@wants is the first box that offers itself
 * @boxes:	the boxes that are proposed
 * @mtu:	smallest MTU so far, bytes
 * @min_payload: smallest @payload so far, bytes
 * @min_rank:	rank that has it
 * @caps:	what all members so far support
 */
struct rar_join_state {
	u64 nonce;
	siphash_key_t key;
	u64 pass;
	u64 peer_nonce[RAR_LINKS];
	bool ok[RAR_LINKS];
	u32 small_acks;
	u32 small_news;
	u32 full_tries;
	int route_err;
	u8 odd;
	u8 unheard;
	bool no_key;
	u32 tries;
	u32 unanswered;
	u32 payload;
	unsigned long deadline;
	unsigned long next_try;
	unsigned long refused_since;
	struct rar_row *table;
	struct rar_resume past;
	struct rar_resume resume;
	DECLARE_BITMAP(back, DIV_ROUND_UP(RAR_MAX_SIZE, RAR_TABLE_MAX));
	u8 step;
	u32 step_tries;
	unsigned long step_next;
	unsigned long step_since;
	u64 clock_base;
	u64 round_clock;
	u32 round_ms;
	u32 apart_rounds;
	bool apart;
	struct rar_choice choice;
	u64 drawn;
	u64 ready;
	u64 hash;
	u64 clock[RAR_CLOCKS];
	u64 digest;
	struct rar_boxes wants;
	bool offers;
	struct rar_boxes boxes;
	u32 mtu;
	u32 min_payload;
	u32 min_rank;
	struct rar_caps caps;
};

/*
 * struct rar_leave - leaving, under m->lock except @fin_due and @fin_next; see leave.c
 * @left:	a rank left, and both neighbours are told until they acknowledge it
 * @fin_due:	by link, the neighbour has not acknowledged it yet
 * @gone:	by link, the neighbour itself left
 * @rank:	the rank that left first
 * @why:	enum rar_reason: RAR_R_LEFT or RAR_R_DIED
 * @last:	operations that @rank had posted
 * @fin_next:	when the neighbours are told again, jiffies
 * @expires:	when the orphan or tombstone ends, jiffies
 * @orphan_bytes: bytes of the orphan's operations, charged to its user
 */
struct rar_leave {
	bool left;
	bool fin_due[RAR_LINKS];
	bool gone[RAR_LINKS];
	u32 rank;
	u8 why;
	u64 last;
	unsigned long fin_next;
	unsigned long expires;
	u64 orphan_bytes;
};

/*
 * struct rar_stood - a host that stood still; see stood.c
 * @due_us:	when the member's timer runs next at the latest, by the clock
 *		that counts suspended time, too; 0 = not known
 * @ms:		for how long the host stood still, when it last did
 * @at:		when the timer found that, jiffies
 */
struct rar_stood {
	u64 due_us;
	u32 ms;
	unsigned long at;
};

/*
 * struct rar_trust - what a joining member knows about its neighbours, besides
 * the successor's address
 * @prev:     the predecessor's address; af 0 = any
 * @secret:   the key that the members share; from it follow
 * @key:      the key of proofs and epochs; all zero = none, and
 * @join_key: the key of the seals of the join
 * @box:      the key of the boxes, which they share with their members; from it
 *            follows
 * @enter_key: the key of the seals by which a member enters at a box
 */
struct rar_trust {
	struct rar_addr prev;
	struct rar_secret secret;
	siphash_key_t key;
	u8 join_key[RAR_SECRET];
	struct rar_secret box;
	u8 enter_key[RAR_SECRET];
};

/*
 * struct rar_member - one member's side of a group
 *
 * Set once: before the member is hashed @rn, @id, @rank, @size, @index, @uid, @user; before
 * RUN @epoch, @payload, @lane (the ports after @port's), @nlanes, @schedule, @place,
 * @gather_below, and of the links @path and tx.sent.
 *
 * @lock protects @state, @error, @join, @undelivered, @ops_delivered, @counters and what it
 * points to, @pinned, and @leave except @fin_due and
 * @fin_next, which only repeat a packet. rn->lock protects @sk. These fields are read
 * locklessly with READ_ONCE where a stale value does no harm. @state is published with
 * smp_store_release. @local_node belongs to the list that the member is on, see push.c.
 *
 * @tx_lock protects the operation table: @ops, @op_oldest, @op_next, @op_whole, @op_come,
 * @ops_released and @history. It also protects the tx fields of each operation, the sending
 * sides of the links, @straggler, the times and counts of received chunks, and
 * @link_timer_us. The armed @link_timer holds a reference.
 *
 * References (@ref): one each for the hash table (dropped by rar_life_end()), the socket,
 * the armed timer, the queued work, each of push.c's lists, and each item of steer.c. A
 * member dies
 *  - on close before RUN: at once;
 *  - on close after a failure: as a tombstone that answers for 2 x dead_ms;
 *  - on close in RUN: as an orphan, until all operations are released and both neighbours
 *    know, or until linger_ms has passed; then as a tombstone;
 *  - with its namespace: rar_life_net_exit().
 *
 * The receive path looks a member up under RCU only. So the last put frees it from a work
 * item, after an RCU grace period; hooks, ports and routes are given back there.
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
	u32 user_rank;			/* what the user calls @rank; set before JOINING */
	u32 index;			/* key in rn->all */
	kuid_t uid;
	struct rar_user *user;		/* the user that is charged, referenced */

	spinlock_t lock; /* see above */
	u8 state;			/* enum rar_state */
	bool hashed;			/* rn->lock */
	bool counted;			/* rn->lock: counted in rn->nmembers */
	bool dead;			/* unhashed: no timer and no work starts any more */
	bool shut;			/* the user posts no more operations */
	bool tombstone;			/* only answers packets of its epoch */
	bool holds_module;		/* an orphan, see rar_member_let_go() */
	bool hushed;			/* failed; poll() and SO_ERROR do not say so yet */
	struct rcu_head announce;
	struct sock *sk;		/* NULL: orphan or tombstone */
	struct rar_error error;
	struct list_head undelivered;	/* operations, in order of send */
	u64 ops_delivered;		/* operations whose results were read */
	struct rar_counters *counters;	/* page of the socket, NULL = nobody has mapped it */
	struct list_head pinned;	/* operations in memory of the user, see pin.c */
	u32 nundelivered;
	u64 wanted;			/* mem_lock: bytes that send() lacked, or 0 */
	struct list_head want_node;	/* mem_lock: among the members that lack bytes */
	struct list_head mem_node;	/* mem_lock: in rn->mem_members */
	u32 mem_pass;			/* mem_lock: the last look at it */
	unsigned long want_since;	/* mem_lock: since when it lacks bytes, jiffies */
	unsigned long want_turn;	/* mem_lock: since when it is its turn, jiffies */
	unsigned long want_told;	/* mem_lock: when told the bytes are there, jiffies, or 0 */
	bool want_sleeps;		/* a send() waits for the bytes */
	u8 mem_lack;			/* enum rar_lack: limit without room */
	struct rar_join_state join;
	struct pid *owner;
	struct wait_queue_entry owner_wait;
	struct work_struct work;
	u32 op_timeout_ms;
	unsigned long late_since;	/* jiffies, 0 = nothing is overdue */

	struct rar_leave leave;
	u64 epoch;
	u32 payload;
	u8 schedule;			/* enum rar_schedule */
	struct rar_place place;
	u64 first_nonce;		/* of the first rank of this host, which hosts.c may list */
	struct rar_direct direct;
	struct rar_port *port;
	struct rar_port *lane[RAR_MAX_LANES - 1];
	u32 nlanes;
	struct rar_sender sender[2];	/* IPv4, IPv6 */
	struct rar_addr self;			/* own address as bound; af 0 = any */
	struct rar_addr *rail;		/* further own addresses, and */
	u32 nrails;			/* how many; set before JOINING */
	struct rar_trust trust;			/* set by connect() */
	u8 security;		/* enum rar_security; set by connect(), as is */
	u32 tail;		/* bytes of a packet's seal */
	struct rar_seal __rcu **seals;	/* by rank; m->lock; NULL: no seal */
	struct rar_hook *hook_lo;		/* of the loopback device; rn->hook_lock */
	struct list_head local_node;
	atomic_t local_state;
	struct list_head xdp_node;	/* members with work after frames, see push.c */
	atomic_t xdp_todo;
	struct list_head turn_node;	/* members with own chunks to send, see turn.c */
	atomic_t turn_queued;		/* on a CPU's list, and referenced */
	bool spread;			/* the newest operation is, over CPUs; see steer.c */
	u32 sk_mark;
	u32 sk_priority;

	struct timer_list timer;
	struct rar_stood stood;		/* the timer writes it */
	unsigned long told;		/* when an ABORT was last answered, jiffies */

	spinlock_t tx_lock ____cacheline_aligned; /* see above */
	u64 link_timer_us;		/* when link_timer is due, 0 = not armed */
	u64 ops_released;		/* operations taken off the table */
	u64 came_us;			/* when the predecessor's last chunk came */
	u64 starved_us;			/* time that operations waited for its chunks */
	struct hrtimer link_timer;	/* of all links */
	struct rar_operation __rcu *ops[RAR_MAX_OPS];	/* by op_seq */
	u64 op_oldest;			/* lowest operation not released */
	u64 op_next;			/* operations posted */
	u64 op_whole;			/* contributed in full: store release, load acquire */
	u32 op_come;			/* chunks of each block contributed to the next one */
	u64 ops_complete;
	u64 ops_done;			/* complete with all before them; m->lock writers */
	struct rar_straggler straggler;
	u64 rx_packets;			/* chunks accepted */
	u64 rx_bytes;
	u32 *history; /* RAR_HISTORY hashes; NULL before the first post */
	struct rar_link *link[RAR_LINKS];	/* a box's: NULL before READY */
	const struct rar_aside *aside;	/* NULL: all links lead to ranks */
	u32 nlegs;			/* boxes of the group; set before RUN */
	u32 box_wait_ms;		/* RAR_BOX_WAIT; set before JOINING */
	unsigned long box_until;	/* end of that, jiffies, 0 = over */
	u64 done_us;			/* when an operation was last completed here */
	struct rar_early early;
	bool one_host;			/* with other namespaces of this kernel; see hosts.c */
	struct hlist_node listed_node;	/* see hosts.c; hosts_lock */
	u64 listed_as;			/* the nonce under which it is listed, 0 = it is not */
};

/*
 * struct rar_frame - a packet in a driver's receive path, owned by us; see xdp.c
 * @xdp:	the packet, from its link header on
 * @generic:	an skb holds the packet all the same
 * @summed:	@sum is valid
 * @sent:	the packet was rewritten and will be forwarded by @dev
 * @link_len:	bytes of @link
 * @link:	link header to forward it with, set by rar_frame_ready()
 * @sum:	checksum of the payload
 * @dev:	device to forward it by, set by rar_frame_ready()
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
 * struct rar_way - by which device a packet came
 * @dev:	the device; in a VRF the VRF's port
 * @vrf:	the VRF that it belongs to, 0 = none
 * @inside:	it is a loopback device or a VRF itself: it has packets of this
 *		namespace only
 * @strict:	the device's rp_filter is 1, and the stack has not asked it yet
 */
struct rar_way {
	int dev;
	int vrf;
	bool inside;
	bool strict;
};

/*
 * A received packet, where it came from, and its parsed common header. Its data are in
 * @skb, or in @frame.
 */
struct rar_pkt {
	struct sk_buff *skb;
	struct rar_frame *frame;
	/* Set by validate.c: the link to its sender, NULL = no neighbour; */
	struct rar_link *link;
	/* where on that link it came, if that matters; */
	struct rar_path *path;
	/* the functions that take it if one of its ends is a box, or NULL. */
	const struct rar_aside *aside;
	struct rar_addr from;		/* port = UDP source port */
	struct rar_addr to;
	struct rar_way way;
	u32 off;			/* where the RAR header begins, bytes */
	u32 len;		/* header to payload, without the last seal */
	u32 opened;		/* seals found to be right from @off on */
	bool ce;
	bool local;			/* the stack found the packet to be for this host */
	bool whole;			/* nothing else is in the skb or frame */
	bool carrier;			/* came as one piece; see tx/carrier.c */
	bool ack_now;			/* a chunk of its run asks for an acknowledgment */
	bool echoes;			/* its sender has heard us: answers to it are not limited */
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
 * The lane of a run, by the run's number. So a chunk keeps its lane all the way round, and
 * its CPU where each lane has its own, unless it is sent again; see lane.c.
 */
static inline u32 rar_lane(const struct rar_member *m, const struct rar_run *run)
{
	return run->chunk / RAR_RUN_MAX % m->nlanes;
}

/* The bytes of a packet with a chunk besides its payload. */
static inline u32 rar_overhead(const struct rar_member *m)
{
	return sizeof(struct rar_data_hdr) + m->tail;
}

/*
 * Does a packet to or from @rank travel between a member and a box? A rank that
 * the group does not have belongs to a group of the same number and another
 * size.
 */
static inline bool rar_is_of_box(const struct rar_member *m, u32 rank)
{
	return rank == RAR_BOX_RANK || m->rank == RAR_BOX_RANK;
}

/* Distance between the chunks of a superpacket, bytes. */
static inline u32 rar_stride(const struct rar_member *m)
{
	return rar_overhead(m) + m->payload;
}

/* Has the member no operation in flight? Locklessly, or under tx_lock. */
static inline bool rar_member_is_first(const struct rar_member *m)
{
	return READ_ONCE(m->op_oldest) == READ_ONCE(m->op_next);
}

/* The payload of a packet that holds a run of @n chunks, bytes. */
static inline u32 rar_pkt_bytes(const struct rar_member *m,
				const struct rar_pkt *pkt, u32 n)
{
	if (pkt->carrier)
		n = 1;
	return pkt->len + m->tail - n * rar_overhead(m);
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

/* Must poll() and SO_ERROR not show the failure yet? */
static inline bool rar_member_hushed(const struct rar_member *m)
{
	/* Pairs with the release in fail.c: a reader that sees it also sees SO_ERROR. */
	return smp_load_acquire(&m->hushed);
}

/* Does the member move data? A caller that sees it does not leaves its buffers alone. */
static inline bool rar_member_runs(const struct rar_member *m)
{
	u8 state = rar_member_state(m);

	return state == RAR_S_RUN || state == RAR_S_LEAVING;
}

/* Does a link lead from a rank to a rank? If not, the group goes on without it. */
static inline bool rar_link_to_rank(const struct rar_link *link)
{
	const struct rar_member *m = link->member;

	return link->rank < m->size && m->rank < m->size;
}

/* Pairs of addresses of a link, at least 1. */
static inline u32 rar_link_rails(const struct rar_link *link)
{
	const struct rar_rails *rails = READ_ONCE(link->rails);

	/* Pairs with the release in rar_rail_rcv(): their paths are set. */
	return rails ? smp_load_acquire(&rails->n) + 1 : 1;
}

/* The path of a lane; the first pair of addresses is that of lane 0. */
static inline struct rar_path *rar_link_path(struct rar_link *link, u32 lane)
{
	u32 n = rar_link_rails(link);

	return n > 1 && lane % n ? &link->rails->more[lane % n - 1].path :
				   &link->path;
}

/* The scope of link-local neighbours: all are on the device of the successor's address. */
static inline u32 rar_member_scope(const struct rar_member *m)
{
	return m->link[RAR_NEXT]->path.dst.scope;
}

/* The links by which a member sends chunks: a leg for each box of the group. */
static inline u32 rar_outs(const struct rar_member *m)
{
	return RAR_LEG + m->nlegs;
}

/* Does a link lead from a member to a box? */
static inline bool rar_link_is_leg(const struct rar_link *link)
{
	return link->index >= RAR_LEG && link->index < RAR_OUTS;
}

/* Such a link is part of a leg. */
static inline struct rar_leg *rar_link_leg(struct rar_link *link)
{
	return container_of(link, struct rar_leg, link);
}

/* Enter anew, with a later nonce: the box takes no ENTER with an earlier one for news. */
static inline void rar_leg_renew(struct rar_leg *leg)
{
	leg->nonce = leg->nonce + 1 ?: 1;
}

/* The link to the box that makes the sum of a chunk. */
static inline struct rar_link *rar_leg_of(struct rar_member *m, const struct rar_operation *op,
					  u32 chunk)
{
	return m->link[RAR_LEG + rar_ring_box(&op->ring, chunk)];
}

/* The box at the end of an open leg; of a closed one, the group's box. */
static inline const struct rar_addr *rar_leg_box(const struct rar_leg *leg)
{
	const struct rar_link *link = &leg->link;

	return READ_ONCE(link->epoch) ?
		       &leg->addr :
		       &link->member->join.boxes.addr[link->index - RAR_LEG];
}

/* Is every operation that was posted complete here? */
static inline bool rar_member_idle(const struct rar_member *m)
{
	return READ_ONCE(m->ops_complete) == READ_ONCE(m->op_next);
}

/* Has a rank left after all that this rank posted? Then neighbours may go, and come again. */
static inline bool rar_member_is_over(const struct rar_member *m)
{
	return READ_ONCE(m->leave.left) && rar_member_idle(m);
}

#endif /* _RAR_H */
