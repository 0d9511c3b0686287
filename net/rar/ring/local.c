// SPDX-License-Identifier: GPL-2.0
/*
 * Neighbours in one network namespace hand chunks over in memory: the successor
 * adds to its buffer what lies in the predecessor's. With RAR_BY_HOSTS the last rank
 * of a host also gives sums to its first one. The ring, its order and so its
 * bits are the same as with packets; joining, leaving, probes and errors still go by
 * packets, and so do chunks while the neighbour is not there to take them, or somebody
 * judges the packets of either.
 *
 * A group that has something to hand over is on the list of one CPU. The newest comes
 * first: so a run goes round before the next one starts, and its bytes stay in the
 * cache. Whoever queues drains, for a moment; then it is a work item's turn, on any CPU,
 * which begins with the oldest.
 */
#include <linux/percpu.h>
#include <linux/workqueue.h>

#include "rar.h"
#include "reduce/reduce.h"
#include "tx/rules.h"
#include "core/trace.h"

#define LOCAL_BUDGET_US	500	/* with bottom halves off */

/* Of a member: */
#define LOCAL_IDLE	0	/* not queued */
#define LOCAL_QUEUED	1
#define LOCAL_AGAIN	2	/* queued, and there is news */

/*
 * struct local - members with something to hand over
 * @lock:   protects @members and @active
 * @members: newest first; each has a reference
 * @active: somebody drains
 * @work:   continues
 */
struct local {
	spinlock_t lock; /* see above */
	struct list_head members;
	bool active;
	struct work_struct work;
};

static DEFINE_PER_CPU(struct local, locals);
/* What is being drained on this CPU just now, whosever it is. */
static DEFINE_PER_CPU(struct local *, draining);
static struct workqueue_struct *local_wq;

/* Chunks handed over at once: as many as may be added in one FPU section. */
u32 rar_local_run(const struct rar_member *m)
{
	return clamp_t(u32, RAR_REDUCE_MAX / m->payload, 1, RAR_RUN_MAX);
}

/**
 * rar_local_start() - a new epoch begins: which neighbours are here?
 * @m: member in READY, its payload agreed; @m->lock held
 */
void rar_local_start(struct rar_member *m)
{
	bool on = READ_ONCE(m->rn->sysctl_local);

	m->next_here = on && rar_route_is_here(m, &m->path[RAR_NEXT]);
	/* Whether it hands over in memory is its own choice. */
	m->prev_here = rar_route_is_here(m, &m->path[RAR_PREV]);
}

/* Another member, if it is here and runs in our epoch. */
static struct rar_member *member(const struct rar_member *m, u32 rank)
{
	struct rar_member *peer = rar_member_lookup(m->rn, m->id, rank, m->epoch);

	return peer && READ_ONCE(peer->epoch) == m->epoch &&
	       rar_member_runs(peer) ? peer : NULL;
}

/* What was taken goes to @to. Returns which chunks it has. */
static u64 give(struct rar_member *m, struct rar_member *to, struct rar_tx_item *item)
{
	const struct rar_run *run = &item->run;
	u64 done = 0;

	trace_rar_tx(m, item->op->seq, run->phase, run->chunk,
		     rar_op_bytes(item->op, run, rar_mask(run->n)));
	if (to)
		done = rar_chunk_local(to, item);
	rar_link_taken(m, item, done);
	return done;
}

/*
 * Hand over one run. Returns false if there is nothing to do. As for packets,
 * rar_msg_stop_writing() waits for who does not see that the group has failed.
 */
static bool hand_over(struct rar_member *m)
{
	struct rar_tx_item item;
	struct rar_member *next;

	if (!rar_member_runs(m))
		return false;
	if (rar_link_take_back(m, &item))
		return give(m, member(m, m->rank - m->place.index), &item);
	if (!m->next_here)
		return false;
	next = member(m, rar_member_rank(m, RAR_NEXT));
	if (!next || rar_rules_judged(m) || rar_rules_judged(next)) {
		rar_link_push_packets(m);
		return false;
	}
	if (!rar_link_take(m, next, &item))
		return false;
	rar_member_hear(next, RAR_PREV);
	rar_member_hear(m, RAR_NEXT);
	return give(m, next, &item);
}

static void enqueue(struct local *l, struct rar_member *m)
{
	spin_lock_bh(&l->lock);
	list_add(&m->local_node, &l->members);
	spin_unlock_bh(&l->lock);
}

/* Nothing is left to do for @m, unless somebody says so at this moment. */
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

/* The newest one, or NULL and it is over. */
static struct rar_member *newest(struct local *l)
{
	struct rar_member *m;

	spin_lock_bh(&l->lock);
	m = list_first_entry_or_null(&l->members, struct rar_member, local_node);
	l->active = m;
	spin_unlock_bh(&l->lock);
	return m;
}

/* Nobody waits for long, however much the others have to do. */
static void rotate(struct local *l)
{
	spin_lock_bh(&l->lock);
	if (!list_empty(&l->members))
		list_move(l->members.prev, &l->members);
	spin_unlock_bh(&l->lock);
}

/* RCU read side, bottom halves off. Returns false if something may be left. */
static bool drain(struct local *l)
{
	u64 end = rar_now_us() + LOCAL_BUDGET_US;
	struct rar_member *m;

	this_cpu_write(draining, l);
	while ((m = newest(l))) {
		atomic_xchg(&m->local_state, LOCAL_QUEUED);
		if (!hand_over(m))
			dequeue(l, m);
		if (rar_now_us() > end)
			break;
	}
	this_cpu_write(draining, NULL);
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

/**
 * rar_local_push() - hand over what is ready and may go, now or soon
 * @m: member with a successor here, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_local_push(struct rar_member *m)
{
	struct local *l = this_cpu_read(draining) ?: this_cpu_ptr(&locals);
	bool active;

	if (atomic_xchg(&m->local_state, LOCAL_AGAIN) != LOCAL_IDLE)
		return;
	/* Who found it under RCU may come after its end. */
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
 * rar_local_posted() - an operation was posted: a predecessor here may wait for it
 * @m: member, RCU read side; no lock held
 */
void rar_local_posted(struct rar_member *m)
{
	struct rar_member *prev = member(m, rar_member_rank(m, RAR_PREV));

	if (prev)
		rar_link_push(prev);
}

int __init rar_local_init(void)
{
	struct local *l;
	int cpu;

	local_wq = alloc_workqueue("rar_local", WQ_UNBOUND, 0);
	if (!local_wq)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		l = per_cpu_ptr(&locals, cpu);
		spin_lock_init(&l->lock);
		INIT_LIST_HEAD(&l->members);
		INIT_WORK(&l->work, drain_work);
	}
	return 0;
}

/* No group is left. */
void rar_local_exit(void)
{
	destroy_workqueue(local_wq);
}
