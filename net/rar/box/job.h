/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the box share: the box of a namespace, a job, a leg. */
#ifndef _RAR_BOX_JOB_H
#define _RAR_BOX_JOB_H

#include "rar.h"

struct box_op;

/*
 * struct rar_box - the box of a namespace; made when net.rar.box_mem is first set
 * @rn:		the namespace
 * @self:	sends answers to members that have no leg yet; it is not hashed
 * @on:		members may enter; rn->box_lock
 * @ports:	UDP ports of net.rar.port, IPv4 and IPv6; rn->box_lock
 * @jobs:	struct box_job, rn->box_lock
 * @njobs:	entries of @jobs
 * @used:	bytes of rows and operations of all jobs
 * @key:	makes cookies
 * @lock:	protects @asks and @nasks
 * @asks:	ENTERs with a right cookie that @enter takes in
 * @nasks:	entries of @asks
 * @enter:	takes in @asks
 * @look:	ends jobs whose members are silent or do not all enter
 */
struct rar_box {
	struct rar_net *rn;
	struct rar_member *self;
	bool on;
	struct rar_port *ports[2];
	struct list_head jobs;
	u32 njobs;
	atomic64_t used;
	siphash_key_t key;
	spinlock_t lock; /* see above */
	struct list_head asks;
	u32 nasks;
	struct work_struct enter;
	struct delayed_work look;
};

/*
 * struct box_leg - a member of a job
 * @link:	to the member; its path and @heard are used
 * @nonce:	of the member's ENTER, 0 = it has not entered; rn->box_lock
 * @pad:	bytes of padding that its ENTER had
 * @una:	the member needs nothing below this number any more; job->lock
 * @done:	operations complete at the member, with all before them; job->lock
 */
struct box_leg {
	struct rar_link link;
	u64 nonce;
	u32 pad;
	u32 una;
	u64 done;
};

/*
 * struct box_job - a group at the box
 * @m:		the box as it appears in packets of this group: its rank is RAR_BOX_RANK, its
 *		epoch the token of the legs. Found by packets as members are
 * @box:	the box
 * @node:	in box->jobs
 * @group_epoch: with m.id the name of the group
 * @digest:	of the group's table
 * @born:	when the first member entered, jiffies
 * @open:	all members have entered; rn->box_lock
 * @lock:	protects the fields below, operations and slots. Nothing is sent under it
 * @closed:	takes nothing in any more
 * @base:	operations complete at all members
 * @ops:	operations by number modulo RAR_MAX_OPS
 * @sums:	slots whose sum is made, oldest first
 * @scratch:	a payload, where a packet does not lie in one piece
 * @slots:	slots with a row
 * @nsums:	sums made
 * @ngone:	chunks given up
 * @nlegs:	entries of @leg, by rank
 */
struct box_job {
	struct rar_member m;
	struct rar_box *box;
	struct list_head node;
	u64 group_epoch;
	u64 digest;
	unsigned long born;
	bool open;
	spinlock_t lock; /* see above */
	bool closed;
	u64 base;
	struct box_op *ops[RAR_MAX_OPS];
	struct list_head sums;
	void *scratch;
	u32 slots;
	u64 nsums;
	u64 ngone;
	u32 nlegs;
	struct box_leg leg[];
};

static inline struct box_job *box_job(struct rar_member *m)
{
	return container_of(m, struct box_job, m);
}

void rar_slot_rcv_up(struct box_job *job, u32 rank, struct rar_pkt *pkt, u32 n);
void rar_slot_rcv_probe(struct box_job *job, u32 rank, const struct rar_pkt *pkt);
void rar_slot_close(struct box_job *job);

#endif /* _RAR_BOX_JOB_H */
