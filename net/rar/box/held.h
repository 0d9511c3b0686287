/* SPDX-License-Identifier: GPL-2.0 */
/* What a box holds of RoCEv2 messages: jobs, their connections, places of messages. */
#ifndef _RAR_BOX_HELD_H
#define _RAR_BOX_HELD_H

#include <linux/rar_roce.h>

#include "box/bth.h"
#include "box/job.h"
#include "reduce/reduce.h"

#define HELD_JOBS	64			/* of a namespace, */
#define HELD_JOBS_NEXT	32			/* by the same next host */
#define HELD_MSGS	(2 * RAR_ROCE_WINDOW)	/* messages that a job may have here */
#define HELD_HASH_BITS	8

struct nf_hook_state;

/* How a packet goes on. */
enum held_how {
	HELD_RAW,	/* as it came */
	HELD_SUM,	/* its sum was written into it */
	HELD_KEPT,	/* it is held, or on the list of packets that go */
};

/*
 * struct held_range - where a message is in the sequence of a connection
 * @used:	it is known
 * @msg:	number of the message
 * @psn:	of its first packet
 * @n:		packets
 */
struct held_range {
	bool used;
	u32 msg;
	u32 psn;
	u32 n;
};

/*
 * struct held_flow - the connection of a rank to its successor
 * @node:	in the namespace's hash; unhashed: the rank was not heard yet
 * @from:	address of the rank
 * @to:		address of its successor
 * @qpn:	number of the successor's queue pair
 * @rank:	the rank
 * @job:	the job
 * @range:	messages by number modulo 2 * window
 * @packets:	struct held_packet, by sequence number. A packet goes only after those before it, so
 *		that the loss of one rank does not look like a loss to all
 */
struct held_flow {
	struct hlist_node node;
	struct rar_addr from;
	struct rar_addr to;
	u32 qpn;
	u32 rank;
	struct held_job *job;
	struct held_range range[HELD_MSGS];
	struct list_head packets;
};

/*
 * struct held_packet - a packet that is held
 * @node:	in flow->packets, or on the list of packets that go
 * @skb:	the packet
 * @dev:	its device, which is held, too
 * @okfn:	where it goes on
 * @bridged:	that is in a bridge
 * @bth:	what was read from it
 * @slot:	its place
 * @rank:	of its sender
 * @sum:	its sum was written into it
 */
struct held_packet {
	struct list_head node;
	struct sk_buff *skb;
	struct net_device *dev;
	int (*okfn)(struct net *net, struct sock *sk, struct sk_buff *skb);
	bool bridged;
	struct rar_bth bth;
	struct held_slot *slot;
	u32 rank;
	bool sum;
};

/*
 * struct held_slot - one packet's place of a message, and what came for it
 * @node:	in held->open, until its sum is made
 * @job:	the job
 * @msg:	the message
 * @index:	number of the packet in the message
 * @born:	when the first packet came, jiffies
 * @summed:	the sum is made: it is @sum
 * @mask:	ranks whose packet came
 * @packet:	the packets that are held, by rank
 * @sum:	payload of the sum
 */
struct held_slot {
	struct list_head node;
	struct held_job *job;
	struct held_msg *msg;
	u32 index;
	unsigned long born;
	bool summed;
	u64 mask;
	struct held_packet **packet;
	void *sum;
};

/*
 * struct held_msg - a message of all ranks
 * @msg:	its number
 * @bytes:	its length
 * @dtype:	enum rar_dtype
 * @redop:	enum rar_redop
 * @kind:	how elements are reduced
 * @payload:	bytes of all packets but the last
 * @begun:	ranks whose first packet came
 * @n:		packets
 * @slot:	by number of the packet: NULL, a slot, or HELD_OVER
 */
struct held_msg {
	u32 msg;
	u32 bytes;
	u8 dtype;
	u8 redop;
	const struct rar_kind *kind;
	u32 payload;
	u64 begun;
	u32 n;
	struct held_slot *slot[];
};

/*
 * struct held_job - the ranks that sum with one another
 * @node:	in held->jobs
 * @held:	all jobs of the namespace
 * @id:		drawn by the ranks
 * @heard:	when a packet of it came last, jiffies
 * @host:	the host next to this one that brought its first packet
 * @window:	messages that a rank may send at once
 * @oldest:	messages before this one are forgotten
 * @nsums:	sums made
 * @nraw:	packets that went on raw
 * @msg:	messages by number modulo 2 * window
 * @size:	number of ranks
 * @flow:	by rank
 */
struct held_job {
	struct list_head node;
	struct rar_held *held;
	u64 id;
	unsigned long heard;
	u64 host;
	u32 window;
	u32 oldest;
	u64 nsums;
	u64 nraw;
	struct held_msg *msg[HELD_MSGS];
	u32 size;
	struct held_flow flow[];
};

/*
 * struct rar_held - all that the box of a namespace holds
 * @box:	the box, whose memory is used
 * @lock:	protects everything below, except @njobs for those who only look whether it is 0
 * @jobs:	struct held_job
 * @njobs:	entries of @jobs
 * @npackets:	packets held
 * @used:	bytes
 * @open:	slots without a sum, oldest first
 * @flows:	struct held_flow by addresses and number of the queue pair
 */
struct rar_held {
	struct rar_box *box;
	spinlock_t lock; /* see above */
	struct list_head jobs;
	u32 njobs;
	u32 npackets;
	u64 used;
	struct list_head open;
	struct hlist_head flows[1 << HELD_HASH_BITS];
};

void rar_held_init(struct rar_held *held, struct rar_box *box);
bool rar_held_knows(struct rar_held *held, const struct rar_bth *bth);
enum held_how rar_held_take(struct rar_held *held, struct sk_buff *skb, const struct rar_bth *bth,
			    const struct nf_hook_state *state, struct list_head *out);
void rar_held_expire(struct rar_held *held, unsigned long open, unsigned long idle,
		     struct list_head *out);
void rar_held_end(struct rar_held *held, struct list_head *out);
void rar_held_send(struct rar_held *held, struct list_head *out, int max);
bool rar_held_is_header(const struct sk_buff *skb, const struct rar_bth *bth);

#endif /* _RAR_BOX_HELD_H */
