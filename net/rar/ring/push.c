// SPDX-License-Identifier: GPL-2.0
/*
 * Sends whatever may go: as packets, in memory, or after the frames that came together.
 *
 * Neighbours in one network namespace hand chunks over in memory: the successor adds the
 * predecessor's chunks to its own buffer. With RAR_BY_HOSTS the last rank of a host also
 * gives sums to the host's first rank. The ring and its order, and so the results, are
 * bit-identical to those with packets. Joining, leaving, probes and errors still use
 * packets. So do chunks while the neighbour cannot take them, or while the packets of either
 * rank are filtered. Neighbours in two namespaces of one kernel use packets, as the owners of the
 * namespaces expect; only the first rank of a host may get its sums from another namespace.
 *
 * A member that has chunks to hand over is on the list of one CPU. The newest member comes
 * first: so a run goes round before the next run starts, and its bytes stay in the cache.
 * The caller that queues the first member drains the list, for a short time. Then a work
 * item continues, on any CPU, and begins with the oldest member.
 *
 * Frames leave when the driver has gone through all frames that came. A packet sent before
 * that would overtake them, and the successor would take that for a loss. So a tasklet sends
 * the rest afterwards, once for all frames that came together: acknowledgments, and
 * chunks that waited.
 */
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

#include "core/hosts.h"
#include "core/member.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/link.h"
#include "link/pick.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/chunk.h"
#include "ring/direct.h"
#include "ring/push.h"
#include "ring/round.h"
#include "ring/send.h"
#include "ring/turn.h"
#include "tx/route.h"
#include "tx/rules.h"
#include "tx/run.h"

#define LOCAL_BUDGET_US	500	/* with bottom halves off */

/* States of rar_member.local_state: */
#define LOCAL_IDLE	0	/* not queued */
#define LOCAL_QUEUED	1
#define LOCAL_AGAIN	2	/* queued, and there is something new to do */

/*
 * struct local - members with chunks to hand over
 * @lock:   protects @members and @active
 * @members: newest first; each has a reference
 * @active: a caller or @work drains the list
 * @work:   drains the list after the caller's time is over
 */
struct local {
	spinlock_t lock; /* see above */
	struct list_head members;
	bool active;
	struct work_struct work;
};

static DEFINE_PER_CPU(struct local, locals);

/*
 * struct draining - what a CPU drains
 * @lock: held while it drains. Bottom halves are off, but a realtime kernel may preempt such a
 *        section, and another one that drains would set @list to NULL under way
 * @list: the list that is being drained, whichever CPU owns it; read without the lock: whoever
 *        finds a list here adds to it and need not drain it
 */
struct draining {
	local_lock_t lock; /* see above */
	struct local *list;
};

static DEFINE_PER_CPU(struct draining, draining) = { .lock = INIT_LOCAL_LOCK(lock) };
static struct workqueue_struct *local_wq;

/*
 * May chunks go to the successor in carriers? A box's sum may overwrite a chunk while the successor
 * would read it. A frame has no room for a carrier: mostly neighbours in one
 * kernel receive by the same path. A carrier has no seal.
 */
static bool carries(const struct rar_member *m)
{
	u32 next = m->link[RAR_NEXT]->rank;
	bool shared;

	rcu_read_lock();
	shared = rar_hosts_share(m, next, m->join.table[next].nonce);
	rcu_read_unlock();
	return shared && READ_ONCE(m->rn->sysctl_carriers) && !m->nlegs &&
	       !m->tail && rar_rules_rx_path(m->rn) != RAR_PATH_XDP;
}

/**
 * rar_push_start() - find the neighbours in this namespace and kernel when an epoch begins
 * @m: member in READY, its payload agreed; @m->lock held
 */
void rar_push_start(struct rar_member *m)
{
	/* A box's sum may overwrite a chunk while the successor would read it. */
	bool on = READ_ONCE(m->rn->sysctl_local) && !m->nlegs;

	m->link[RAR_NEXT]->here =
		on && rar_route_is_here(m, &m->link[RAR_NEXT]->path);
	m->link[RAR_NEXT]->carries = carries(m);
	/* The predecessor itself decides whether it hands over in memory. */
	m->link[RAR_PREV]->here =
		rar_route_is_here(m, &m->link[RAR_PREV]->path);
	m->link[RAR_NEXT]->in_memory = m->link[RAR_NEXT]->here;
	m->link[RAR_PREV]->in_memory = on && m->link[RAR_PREV]->here;
}

/* -- packets ------------------------------------------------------------------ */

/* In a turn. */
static bool push_own(struct rar_member *m)
{
	return rar_send_link(m->link[RAR_NEXT], 1);
}

/*
 * Do several runs of own chunks wait to go round within this kernel? They go in turns, unless they
 * are spread over CPUs: each of these needs work at all times. Two ranks take no turns, since what
 * they have under way stays in the cache anyway.
 */
static bool in_turns(const struct rar_link *link)
{
	const struct rar_member *m = link->member;

	return link->carries && m->size > 2 && !READ_ONCE(m->spread) &&
	       READ_ONCE(link->tx.ninject) > READ_ONCE(link->path.run_max);
}

/*
 * Send as packets the chunks that are ready and may go. RCU read side, no lock held;
 * softirq, or process context with bottom halves off.
 */
static void push_packets(struct rar_member *m)
{
	struct rar_link *link;
	bool turns;

	rar_each_out(link, m) {
		turns = in_turns(link);
		rar_send_link(link, turns ? 0 : U32_MAX);
		if (turns)
			rar_turn_take(m);
	}
	rar_send_partners(m);
}

/* -- memory ------------------------------------------------------------------- */

/* Give chunks to @to. Returns the chunks of the run that @to has. */
static u64 give(struct rar_member *m, struct rar_member *to, struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;
	u64 done = 0;

	trace_rar_tx(m, item->op->seq, run->phase, run->chunk,
		     rar_op_bytes(item->op, run, rar_mask(run->n)));
	if (to)
		done = rar_chunk_local(to->link[RAR_PREV], m, item);
	rar_pick_taken(m->link[RAR_NEXT], item, done);
	return done;
}

/*
 * Hand over one run. Returns false if there is nothing to do. If this misses a failure
 * of the member, rar_msg_stop_writing() waits for it, as for packets.
 */
static bool hand_over(struct rar_member *m)
{
	struct rar_link *link = m->link[RAR_NEXT];
	struct rar_tx_item item;
	struct rar_member *next;

	if (!rar_member_runs(m))
		return false;
	if (rar_pick_take_back(link, &item))
		return give(m, rar_member_first(m), &item);
	if (!link->here)
		return false;
	next = rar_member_peer(m, link->rank);
	if (!next || rar_rules_judged(m) || rar_rules_judged(next)) {
		push_packets(m);
		return false;
	}
	if (!rar_pick_take(link, next, &item))
		return false;
	rar_member_hear(next->link[RAR_PREV]);
	rar_member_hear(m->link[RAR_NEXT]);
	return give(m, next, &item);
}

static void enqueue(struct local *l, struct rar_member *m)
{
	spin_lock_bh(&l->lock);
	list_add(&m->local_node, &l->members);
	spin_unlock_bh(&l->lock);
}

/* Take @m off the list, unless something new to do came at this moment. */
static void dequeue(struct local *l, struct rar_member *m)
{
	spin_lock_bh(&l->lock);
	list_del(&m->local_node);
	spin_unlock_bh(&l->lock);
	if (atomic_cmpxchg(&m->local_state, LOCAL_QUEUED, LOCAL_IDLE) == LOCAL_QUEUED)
		rar_member_put(m);
	else
		enqueue(l, m);
}

/* The newest member, or NULL if the list is empty: then draining ends. */
static struct rar_member *newest(struct local *l)
{
	struct rar_member *m;

	spin_lock_bh(&l->lock);
	m = list_first_entry_or_null(&l->members, struct rar_member, local_node);
	l->active = m;
	spin_unlock_bh(&l->lock);
	return m;
}

/* Start at the oldest member, so that none waits for long. */
static void rotate(struct local *l)
{
	spin_lock_bh(&l->lock);
	if (!list_empty(&l->members))
		list_move(l->members.prev, &l->members);
	spin_unlock_bh(&l->lock);
}

/* RCU read side, bottom halves off. Returns false if members may be left. */
static bool drain(struct local *l)
{
	u64 end = rar_now_us() + LOCAL_BUDGET_US;
	struct rar_member *m;

	local_lock_nested_bh(&draining.lock);
	this_cpu_write(draining.list, l);
	while ((m = newest(l))) {
		atomic_xchg(&m->local_state, LOCAL_QUEUED);
		if (!hand_over(m))
			dequeue(l, m);
		if (rar_now_us() > end)
			break;
	}
	this_cpu_write(draining.list, NULL);
	local_unlock_nested_bh(&draining.lock);
	return !m;
}

static void drain_work(struct work_struct *work)
{
	struct local *l = container_of(work, struct local, work);
	bool done;

	do {
		local_bh_disable();
		rcu_read_lock();
		rotate(l);
		done = drain(l);
		rcu_read_unlock();
		local_bh_enable();
		cond_resched();
	} while (!done);
}

/* Hand over what may go, now or soon. Context as in push_packets(). */
static void push_local(struct rar_member *m)
{
	struct local *l = this_cpu_read(draining.list) ?: this_cpu_ptr(&locals);
	bool active;

	if (atomic_xchg(&m->local_state, LOCAL_AGAIN) != LOCAL_IDLE)
		return;
	/* A caller that found the member under RCU may come after its end. */
	if (!refcount_inc_not_zero(&m->ref))
		return;
	spin_lock_bh(&l->lock);
	list_add(&m->local_node, &l->members);
	active = l->active;
	l->active = true;
	spin_unlock_bh(&l->lock);
	if (!active && !drain(l))
		queue_work(local_wq, &l->work);
}

/**
 * rar_push() - send the chunks that are ready and may go
 * @m: member, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_push(struct rar_member *m)
{
	rar_direct_push(m);
	if (!m->link[RAR_NEXT]->here)
		push_packets(m);
	else
		rar_send_partners(m);
	if (m->link[RAR_NEXT]->here || READ_ONCE(m->link[RAR_NEXT]->tx.nback))
		push_local(m);
}

/**
 * rar_push_posted() - let a predecessor in this namespace push after a post
 * @m: member that posted an operation, RCU read side; no lock held
 */
void rar_push_posted(struct rar_member *m)
{
	struct rar_member *prev = rar_member_peer(m, m->link[RAR_PREV]->rank);

	if (prev)
		rar_push(prev);
}

/* -- after frames ---------------------------------------------------------------- */

/* Bits of rar_member.xdp_todo: */
#define XDP_QUEUED	1	/* the member is on a CPU's list, and referenced */
#define XDP_ACK		2	/* an acknowledgment is due */

/*
 * struct later - members that have something to send after the frames, on a CPU
 * @lock:	protects @members, and the xdp_node of each; bottom halves are off, see turn.c
 * @members:	each is referenced
 * @tasklet:	scheduled while there are any
 */
struct later {
	spinlock_t lock; /* see above */
	struct list_head members;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct later, laters);

/**
 * rar_push_later() - after the frames, send the chunks that are ready and may go
 * @m: member, RCU read side
 * @ack: also send an acknowledgment
 *
 * Softirq.
 */
void rar_push_later(struct rar_member *m, bool ack)
{
	struct later *later;

	lockdep_assert_in_softirq();
	/* Pairs with the exchange in send_later(), which sees this if the member is queued. */
	if (atomic_fetch_or(XDP_QUEUED | (ack ? XDP_ACK : 0), &m->xdp_todo) &
	    XDP_QUEUED)
		return;
	/* A caller that found the member under RCU may come after its end. */
	if (!refcount_inc_not_zero(&m->ref))
		return;
	later = this_cpu_ptr(&laters);
	spin_lock(&later->lock);
	list_add_tail(&m->xdp_node, &later->members);
	spin_unlock(&later->lock);
	tasklet_schedule(&later->tasklet);
}

/* Take the first member off the list, with its reference, or NULL. */
static struct rar_member *take_first(struct later *later)
{
	struct rar_member *m;

	spin_lock(&later->lock);
	m = list_first_entry_or_null(&later->members, struct rar_member, xdp_node);
	if (m)
		list_del(&m->xdp_node);
	spin_unlock(&later->lock);
	return m;
}

static void send_later(struct tasklet_struct *t)
{
	struct later *later = container_of(t, struct later, tasklet);
	struct rar_member *m;
	int todo;

	rcu_read_lock();
	while ((m = take_first(later))) {
		/* From here on another CPU may queue the member. */
		todo = atomic_xchg(&m->xdp_todo, 0);
		/* rar_msg_stop_writing() waits for a CPU that misses the failure here. */
		if (rar_member_runs(m)) {
			if (todo & XDP_ACK)
				rar_ack_send_all(m);
			rar_push(m);
		}
		rar_member_put(m);
	}
	rcu_read_unlock();
}

/* -- begin and end --------------------------------------------------------------- */

int __init rar_push_init(void)
{
	struct later *later;
	struct local *l;
	int cpu;

	local_wq = alloc_workqueue("rar_local", WQ_UNBOUND, 0);
	if (!local_wq)
		return -ENOMEM;
	if (rar_round_init()) {
		destroy_workqueue(local_wq);
		return -ENOMEM;
	}
	rar_turn_init(push_own);
	for_each_possible_cpu(cpu) {
		l = per_cpu_ptr(&locals, cpu);
		spin_lock_init(&l->lock);
		INIT_LIST_HEAD(&l->members);
		INIT_WORK(&l->work, drain_work);
		later = per_cpu_ptr(&laters, cpu);
		spin_lock_init(&later->lock);
		INIT_LIST_HEAD(&later->members);
		tasklet_setup(&later->tasklet, send_later);
	}
	return 0;
}

/* At module unload: no member and no XDP program is left. */
void rar_push_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&laters, cpu)->tasklet);
	rar_turn_exit();
	destroy_workqueue(local_wq);
	rar_round_exit();
}
