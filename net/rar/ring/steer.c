// SPDX-License-Identifier: GPL-2.0
/*
 * Steering: spreads the chunks that a rank injects over CPUs.
 *
 * veth or loopback, without a queueing discipline, receives a packet on the CPU that sent it.
 * The chunk goes on from there, and stays on that CPU all the way round the ring. So the CPU
 * on which own chunks start does the work. Without steering one CPU soon does all of it,
 * because acknowledgments start chunks on the CPU where other chunks arrived. Therefore each
 * lane of a long operation has its own CPU, among those that the sending process may use.
 *
 * Other devices have interrupts and queues of their own, and a queue with XDP belongs to one
 * CPU at a time. A rank bound to one CPU has neighbours bound to other CPUs. None of these is
 * steered.
 */
#include <linux/interrupt.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/topology.h>

#include "core/member.h"
#include "rar.h"
#include "ring/fail.h"
#include "ring/steer.h"
#include "tx/run.h"

#define SPREAD_MIN_BYTES	SZ_1M		/* shorter operations are over too soon */

/* Own chunks to send by a link; holds a reference to the link's member. */
struct steer_item {
	struct llist_node node;
	struct rar_link *link;
	struct rar_tx_item item;
};

/*
 * struct steer - chunks that a CPU sends for other CPUs
 * @items: newest first
 * @call:  interrupts that CPU; sent by a CPU that found @items empty
 * @send:  tasklet that sends @items
 */
struct steer {
	struct llist_head items;
	call_single_data_t call;
	struct tasklet_struct send;
};

static DEFINE_PER_CPU(struct steer, steers);

/* Send the queued chunks. Bottom halves are off. */
static void send_items(struct steer *s)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&s->items));
	struct steer_item *it, *next;
	struct rar_member *m;

	rcu_read_lock();
	llist_for_each_entry_safe(it, next, list, node) {
		m = it->link->member;
		/* rar_msg_stop_writing() waits for a CPU that misses the failure here. */
		if (rar_member_runs(m))
			rar_fail_sent(it->link, it->item.op->seq,
				      rar_run_send(it->link, &it->item));
		if (rar_op_unuse(it->item.op))
			rar_member_wake(m);
		rar_member_put(m);
		kfree(it);
	}
	rcu_read_unlock();
}

static void steer_send(struct tasklet_struct *t)
{
	send_items(container_of(t, struct steer, send));
}

static void steer_called(void *info)
{
	struct steer *s = info;

	tasklet_schedule(&s->send);
}

/**
 * rar_steer_plan() - choose the CPUs of an operation's lanes
 * @m: member
 * @op:  operation, not posted yet
 *
 * The first lane gets this CPU. The other lanes get the next CPUs of the same node that the
 * process may use. Process context, preemption is off.
 */
void rar_steer_plan(struct rar_member *m, struct rar_operation *op)
{
	int cpu = smp_processor_id();
	const struct cpumask *near = cpumask_of_node(cpu_to_node(cpu));
	u32 lane;

	WRITE_ONCE(m->spread, false);
	if (op->bytes < SPREAD_MIN_BYTES ||
	    !READ_ONCE(m->link[RAR_NEXT]->path.no_queue) ||
	    READ_ONCE(m->rn->sysctl_rx_path) == RAR_PATH_XDP ||
	    !cpumask_test_cpu(cpu, near))
		return;
	for (lane = 0; lane < m->nlanes; lane++) {
		op->cpu[lane] = cpu;
		op->steered |= cpu != op->cpu[0];
		do {
			cpu = cpumask_next_and(cpu, near, cpu_online_mask);
			if (cpu >= nr_cpu_ids)
				cpu = cpumask_first_and(near, cpu_online_mask);
		} while (cpu != op->cpu[0] && !cpumask_test_cpu(cpu, &current->cpus_mask));
	}
	WRITE_ONCE(m->spread, op->steered);
}

/**
 * rar_steer_send() - let another CPU send own chunks whose lane belongs to it
 * @link: link that they leave by, RCU read side
 * @item: own chunks; the item's reference passes on
 *
 * Bottom halves are off.
 *
 * Return: false if the caller must send them.
 */
bool rar_steer_send(struct rar_link *link, const struct rar_tx_item *item)
{
	struct rar_member *m = link->member;
	struct rar_operation *op = item->op;
	struct steer_item *it;
	struct steer *s;
	int cpu;

	if (!op->steered)
		return false;
	cpu = op->cpu[rar_lane(m, &item->run)];
	if (cpu == smp_processor_id())
		return false;
	it = kmalloc(sizeof(*it), GFP_ATOMIC | __GFP_NOWARN);
	if (!it)
		return false;
	if (!refcount_inc_not_zero(&m->ref)) {
		kfree(it);
		return false;
	}
	it->link = link;
	it->item = *item;
	rar_mib_add(m->rn, TxSpread, item->run.n);
	s = per_cpu_ptr(&steers, cpu);
	/* If the CPU is offline by now, its chunks are sent from here. */
	if (llist_add(&it->node, &s->items) && smp_call_function_single_async(cpu, &s->call))
		send_items(s);
	return true;
}

void rar_steer_init(void)
{
	struct steer *s;
	int cpu;

	for_each_possible_cpu(cpu) {
		s = per_cpu_ptr(&steers, cpu);
		init_llist_head(&s->items);
		INIT_CSD(&s->call, steer_called, s);
		tasklet_setup(&s->send, steer_send);
	}
}

/* At module unload: no member is left, so nothing is to be sent. */
void rar_steer_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&steers, cpu)->send);
}
