// SPDX-License-Identifier: GPL-2.0
/*
 * Turns: of the ranks in one kernel, one at a time lets a run of own chunks go round the ring.
 *
 * A run stays on one CPU as it goes from rank to rank. If every rank injected its whole window at
 * once, the steps of many runs would alternate, and the other runs would drive the buffers of a
 * step out of the cache. So a CPU lets one member inject one run, receives all packets that follow
 * from it, and then goes on with the next member. A tasklet does this without counting anything:
 * it runs when the CPU has no packets left to receive. If the packets wait in a queue somewhere,
 * it runs at once. Long operations that are spread over CPUs (steer.c) take no turns: a CPU would
 * stand idle while a run is on another CPU.
 */
#include <linux/interrupt.h>
#include <linux/percpu.h>

#include "core/member.h"
#include "ring/turn.h"

/*
 * struct turns - members that take turns on a CPU
 * @lock:	protects @members, and the turn_node of each. Bottom halves are off, but that is
 *		not enough: a realtime kernel may preempt such a section, and the tasklet of a CPU
 *		that goes offline runs on another CPU
 * @members:	they have own chunks to send; each is referenced
 * @tasklet:	scheduled while there are any: the first of @members has its turn
 */
struct turns {
	spinlock_t lock; /* see above */
	struct list_head members;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct turns, turns);
static bool (*push_own)(struct rar_member *m);

/**
 * rar_turn_take() - let a member send own chunks, one run at a time
 * @m: member, RCU read side
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_turn_take(struct rar_member *m)
{
	struct turns *t;

	lockdep_assert_in_softirq();
	/* Pairs with the exchange in next_turn(), which sees what became ready before this. */
	if (atomic_xchg(&m->turn_queued, 1))
		return;
	/* A caller that found the member under RCU may come after its end. */
	if (!refcount_inc_not_zero(&m->ref))
		return;
	t = this_cpu_ptr(&turns);
	spin_lock(&t->lock);
	list_add_tail(&m->turn_node, &t->members);
	spin_unlock(&t->lock);
	tasklet_schedule(&t->tasklet);
}

/* Take the first member off the list, with its reference, or NULL; @more: others are left. */
static struct rar_member *take_first(struct turns *t, bool *more)
{
	struct rar_member *m;

	spin_lock(&t->lock);
	m = list_first_entry_or_null(&t->members, struct rar_member, turn_node);
	if (m)
		list_del(&m->turn_node);
	*more = !list_empty(&t->members);
	spin_unlock(&t->lock);
	return m;
}

static void next_turn(struct tasklet_struct *tasklet)
{
	struct turns *t = container_of(tasklet, struct turns, tasklet);
	struct rar_member *m;
	bool more;

	rcu_read_lock();
	m = take_first(t, &more);
	if (m) {
		/* From here on another CPU may queue the member. */
		atomic_xchg(&m->turn_queued, 0);
		/* rar_msg_stop_writing() waits for a CPU that misses the failure here. */
		if (rar_member_runs(m) && push_own(m))
			rar_turn_take(m);
		rar_member_put(m);
	}
	rcu_read_unlock();
	/* A member that comes later schedules the tasklet itself. */
	if (more)
		tasklet_schedule(&t->tasklet);
}

/**
 * rar_turn_init() - prepare the lists
 * @push: sends one run of own chunks of a member, and all chunks that go before it; false if no own
 *	  chunk may go now. Called in softirq, RCU read side.
 */
void __init rar_turn_init(bool (*push)(struct rar_member *m))
{
	struct turns *t;
	int cpu;

	push_own = push;
	for_each_possible_cpu(cpu) {
		t = per_cpu_ptr(&turns, cpu);
		spin_lock_init(&t->lock);
		INIT_LIST_HEAD(&t->members);
		tasklet_setup(&t->tasklet, next_turn);
	}
}

/* At module unload: no member is left. */
void rar_turn_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&turns, cpu)->tasklet);
}
