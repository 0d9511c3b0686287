// SPDX-License-Identifier: GPL-2.0
/*
 * Turns: of the ranks in one kernel, one at a time lets a run of own chunks go round the ring.
 *
 * A run stays on one CPU as it goes from rank to rank. If every rank let its whole injection window
 * go at once, many runs would take their steps in turn, and each step would find its part of the
 * buffers driven out of the cache by the other runs. So a CPU lets one member inject one run, has
 * all packets that follow from it received, and then goes on with the next member. A tasklet does
 * this without counting anything: it runs when the CPU has no packets left to receive. If the
 * packets wait in a queue somewhere, it runs at once. Long operations that are spread over CPUs
 * (steer.c) take no turns: a CPU would stand idle until another one has gone through its run.
 */
#include <linux/interrupt.h>
#include <linux/percpu.h>

#include "core/member.h"
#include "ring/turn.h"

/* Members that have own chunks to send; used in bottom halves of that CPU. */
struct turns {
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
	struct turns *t = this_cpu_ptr(&turns);

	/* Pairs with the exchange in next_turn(), which sees what became ready before this. */
	if (atomic_xchg(&m->turn_queued, 1))
		return;
	/* A caller that found the member under RCU may come after its end. */
	if (!refcount_inc_not_zero(&m->ref))
		return;
	list_add_tail(&m->turn_node, &t->members);
	tasklet_schedule(&t->tasklet);
}

static void next_turn(struct tasklet_struct *tasklet)
{
	struct turns *t = container_of(tasklet, struct turns, tasklet);
	struct rar_member *m;

	rcu_read_lock();
	m = list_first_entry_or_null(&t->members, struct rar_member, turn_node);
	if (m) {
		list_del(&m->turn_node);
		/* From here on another CPU may queue the member. */
		atomic_xchg(&m->turn_queued, 0);
		/* rar_msg_stop_writing() waits for a CPU that misses the failure here. */
		if (rar_member_runs(m) && push_own(m))
			rar_turn_take(m);
		rar_member_put(m);
	}
	rcu_read_unlock();
	if (!list_empty(&t->members))
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
