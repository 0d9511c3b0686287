/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the box: the box of a namespace, a job, a leg. */
#ifndef _RAR_BOX_JOB_H
#define _RAR_BOX_JOB_H

#include "rar.h"

#define BOX_JOB_LOOK	(HZ / 2)	/* see rar_job_look() */

struct box_op;

/*
 * struct rar_box - the box of a namespace, which may be off
 * @rn:		the namespace
 * @self:	sends answers to members that have no leg yet; it is not hashed.
 *		Made when net.rar.box_mem is first set; set once
 * @sealed:	sends them to members of groups with seals; NULL: the box has no
 *		key. RCU readers, rn->box_lock writers
 * @on:		members may enter: net.rar.box_mem is not 0; rn->box_lock
 * @ended:	it does not begin any more; rn->box_lock
 * @offers:	it has hooks for net.rar.box_offer; rn->box_lock
 * @ports:	UDP ports, IPv4 and IPv6; rn->box_lock
 * @port:	their number: net.rar.port when the box began
 * @alive:	jobs, and jobs at the box above, that are not yet freed; the end
 *		waits for them
 * @jobs:	struct box_job; RCU readers, rn->box_lock writers
 * @njobs:	entries of @jobs
 * @used:	bytes of rows and operations of all jobs
 * @key:	makes cookies
 * @lock:	protects @asks and @nasks
 * @asks:	ENTERs with a right cookie that @enter takes in
 * @nasks:	entries of @asks
 * @wq:		runs @enter and @look
 * @enter:	takes in @asks
 * @look:	ends jobs whose members are silent or do not all enter
 * @look_due:	when @look runs next, jiffies
 * @forget:	when rar_pool_forget() is due, jiffies
 */
struct rar_box {
	struct rar_net *rn;
	struct rar_member *self;
	struct rar_member __rcu *sealed;
	bool on;
	bool ended;
	bool offers;
	atomic_t alive;
	struct rar_port *ports[2];
	__be16 port;
	struct list_head jobs;
	u32 njobs;
	atomic64_t used;
	siphash_key_t key;
	spinlock_t lock; /* see above */
	struct list_head asks;
	u32 nasks;
	struct workqueue_struct *wq;
	struct work_struct enter;
	struct delayed_work look;
	unsigned long look_due;
	unsigned long forget;
};

/*
 * struct box_ask - an ENTER with a right cookie, until it is taken in
 * @node:	in box->asks
 * @from:	its sender
 * @to:		the address of the box that it came to
 * @way:	how it came
 * @host:	the host next to this one that brought it
 * @id:		group id
 * @epoch:	the group's
 * @digest:	of the group's table
 * @nonce:	of the ENTER; the answer repeats it
 * @cookie:	the right one, which the answer repeats, too
 * @ranks:	mask of the ranks for which the sender contributes
 * @rank:	the sender, or RAR_LOWER_RANK and the lowest of @ranks
 * @size:	of the group
 * @payload:	bytes of a full packet of the group
 * @pad:	bytes of padding for the answer
 * @security:	enum rar_security: the level of the group. The seal was right
 * @in_turn:	the sender is a box that can add to partial sums of other boxes
 */
struct box_ask {
	struct list_head node;
	struct rar_addr from, to;
	struct rar_way way;
	u64 host;
	u64 id, epoch, digest, nonce, cookie, ranks;
	u32 rank, size, payload, pad;
	u8 security;
	bool in_turn;
};

/*
 * struct box_leg - a member of a job, or a box below this one
 * @link:	to it; its path, @heard and @narrow are used
 * @ranks:	mask of the ranks for which it contributes. They are no other leg's; rn->box_lock
 * @nonce:	of its ENTER, 0 = nobody has entered by this leg; rn->box_lock
 * @pad:	bytes of padding that its ENTER had
 * @una:	the member needs nothing below this number any more; job->lock
 * @done:	operations complete at the member, with all before them; job->lock
 * @told:	the member has told @done
 * @in_turn:	it is a box that can add to partial sums of other boxes
 */
struct box_leg {
	struct rar_link link;
	u64 ranks;
	u64 nonce;
	u32 pad;
	u32 una;
	u64 done;
	bool told;
	bool in_turn;
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
 * @host:	the host next to this one that brought its ENTER
 * @last:	when the last leg came, jiffies; rn->box_lock
 * @again:	legs came after this box had entered above; rn->box_lock
 * @ranks:	mask of the ranks of all legs
 * @levels:	there is a box above or below. Set before @open
 * @in_turn:	all boxes can add to partial sums, so these go from box to box where the order has
 *		an effect. Set before @open
 * @up:		this box at the box above, NULL: there is none for this job; rn->box_lock
 * @open:	all members have entered, at this box or one above; rn->box_lock
 * @lock:	protects the fields below, operations and slots. Nothing is sent under it
 * @closed:	takes nothing in any more
 * @told:	all members have told how many operations they have completed
 * @base:	operations complete at all members, 0 before they have told
 * @ops:	operations by number modulo RAR_MAX_OPS
 * @sums:	slots whose sum is made, oldest first
 * @oldest:	when the first of @sums was made, us; U64_MAX: none. Others read it, and the
 *		fields down to @served, without the lock
 * @lowest:	priority of the least urgent operation that has a chunk without a sum;
 *		BOX_NO_PRIO: none
 * @rows:	bytes of rows
 * @served:	bytes of sums made lately
 * @scratch:	a payload, where a packet does not lie in one piece
 * @slots:	slots with a row
 * @until:	nothing is taken of operations below it
 * @refused:	chunks that found no room lately, less those for which sums make up
 * @pause:	operations for which nothing was taken the last time
 * @nsums:	sums made
 * @ngone:	chunks given up
 * @nevicted:	of them, those evicted for another chunk
 * @rising:	slots that were contributed to the box above and have no sum, by number
 * @up_seq:	number of the next contribution to the box above
 * @keyed:	struct box_keyed, keyed reductions
 * @nkeyed:	entries of @keyed
 * @nbatches:	batches sent
 * @keyed_timer: sends batches that are due; armed under @lock
 * @nlegs:	entries of @leg, by the lowest rank
 */
struct box_job {
	struct rar_member m;
	struct rar_box *box;
	struct list_head node;
	u64 group_epoch;
	u64 digest;
	unsigned long born;
	u64 host;
	unsigned long last;
	bool again;
	u64 ranks;
	bool levels;
	bool in_turn;
	struct box_up *up;
	bool open;
	spinlock_t lock; /* see above */
	bool closed;
	bool told;
	u64 base;
	struct box_op *ops[RAR_MAX_OPS];
	struct list_head sums;
	u64 oldest;
	u32 lowest;
	u64 rows;
	u64 served;
	void *scratch;
	u32 slots;
	u64 until;
	u32 refused;
	u32 pause;
	u64 nsums;
	u64 ngone;
	u64 nevicted;
	struct list_head rising;
	u32 up_seq;
	struct list_head keyed;
	u32 nkeyed;
	u32 nbatches;
	struct hrtimer keyed_timer;
	u32 nlegs;
	struct box_leg leg[];
};

/* Do packets go by a leg? */
static inline bool box_leg_used(const struct box_leg *leg)
{
	return READ_ONCE(leg->nonce);
}

/* Does the leg lead to a box below this one? */
static inline bool box_leg_is_lower(const struct box_leg *leg)
{
	return READ_ONCE(leg->link.rank) >= RAR_LOWER_RANK;
}

extern unsigned int rar_box_net_id;

/* The box of a namespace. Any context. */
static inline struct rar_box *rar_box_of(const struct net *net)
{
	return net_generic(net, rar_box_net_id);
}

/* Is the box on? Then it has @self and a port. */
static inline bool rar_box_is_on(const struct rar_box *box)
{
	/* Pairs with the release in box_start(). */
	return smp_load_acquire(&box->on);
}

static inline struct box_job *box_job(struct rar_member *m)
{
	return container_of(m, struct box_job, m);
}

/* The mask of all ranks of a group. */
static inline u64 box_all_ranks(u32 size)
{
	return GENMASK_ULL(size - 1, 0);
}

void rar_job_enter(struct rar_box *box, const struct box_ask *ask);
unsigned long rar_job_look(struct rar_box *box);
void rar_job_end_all(struct rar_box *box, bool sealed_only);
bool rar_job_entered_err(struct rar_box *box, u64 id, u64 epoch, u32 rank,
			 const struct rar_way *way, bool too_big);

void rar_slot_rcv_up(struct box_job *job, u32 rank, struct rar_pkt *pkt, u32 n);
void rar_slot_rcv_probe(struct box_job *job, u32 rank, const struct rar_pkt *pkt);
void rar_slot_rcv_above(struct box_job *job, struct rar_pkt *pkt, u32 n);
void rar_slot_rcv_return(struct box_job *job, const struct rar_link *from,
			 const struct rar_pkt *pkt);
void rar_slot_init(struct box_job *job);
void rar_slot_close(struct box_job *job);
void rar_pool_forget(struct box_job *job);

#endif /* _RAR_BOX_JOB_H */
