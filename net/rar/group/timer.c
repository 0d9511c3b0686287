// SPDX-License-Identifier: GPL-2.0
/*
 * What happens without a packet or a call: a member's timer, its links' timer, its work item.
 */
#include "core/mem.h"
#include "core/member.h"
#include "group/enter.h"
#include "group/join.h"
#include "group/leave.h"
#include "group/stood.h"
#include "group/timer.h"
#include "group/watch.h"
#include "link/early.h"
#include "link/loss.h"
#include "link/rail.h"
#include "rar.h"
#include "ring/ask.h"
#include "ring/fail.h"
#include "ring/keyed.h"
#include "ring/leg.h"
#include "ring/push.h"
#include "tx/device.h"

/* Does send() lack memory? If it lacks it for too long the group ends. */
static bool tick_memory(struct rar_member *m)
{
	int ret = rar_mem_tick(m);

	if (ret < 0)
		rar_fail_pair(m, -ret, ret == -ETIMEDOUT ? RAR_R_TIMEOUT : RAR_R_NOMEM,
			      m->rank, m->rank, READ_ONCE(m->op_next));
	return ret;
}

static unsigned long keepalive(struct rar_member *m)
{
	unsigned long next, first = jiffies + MAX_JIFFY_OFFSET;
	struct rar_link *link;
	bool fell;

	rar_links_of(link, m, 0, RAR_OUTS) {
		if (!rar_link_to_rank(link))
			continue;
		next = rar_loss_keepalive(link, &fell);
		if (fell)
			rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank,
				      link->rank, READ_ONCE(m->op_oldest));
		if (time_before(next, first))
			first = next;
	}
	rar_each_partner(link, m)
		if (rar_loss_mtu_fell(link))
			rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank,
				      link->rank, READ_ONCE(m->op_oldest));
	return first;
}

static unsigned long tick_running(struct rar_member *m)
{
	unsigned long next = jiffies +
			     msecs_to_jiffies(rar_member_keepalive_ms(m));
	bool told = true;

	if (m->size == 1)
		return next;
	if (READ_ONCE(m->op_timeout_ms))
		next = min(next, jiffies + HZ / 20);
	if (tick_memory(m))
		next = min(next, jiffies + RAR_MEM_TICK);
	if (m->leave.left) {
		told = rar_leave_tick(m);
		if (!told && time_before(m->leave.fin_next, next))
			next = m->leave.fin_next;
	}
	if (m->tombstone)
		return m->leave.expires;
	next = min(next, rar_watch_tick(m));
	next = min(next, rar_rail_tick(m));
	if (m->nlegs) {
		next = min(next, rar_leg_tick(m));
		next = min(next, rar_enter_tick(m));
	}
	if (m->leave.left && rar_member_idle(m) &&
	    READ_ONCE(m->op_oldest) == READ_ONCE(m->op_next))
		return next;
	return min(next, keepalive(m));
}

/* Receive at the hook of the device by which the predecessor's packets come in now. */
static void hook_prev(struct rar_member *m)
{
	int dev = READ_ONCE(m->link[RAR_PREV]->dev);

	if (dev)
		rar_device_set(m->rn, &m->link[RAR_PREV]->hook, dev);
}

/* Push own chunks, for which there is room again. A member that has failed stops here. */
static void push(struct rar_member *m)
{
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_runs(m)) {
		rar_push(m);
		rar_keyed_tick(m);
	}
	rcu_read_unlock();
	local_bh_enable();
}

static void timer_fired(struct timer_list *t)
{
	struct rar_member *m = container_of(t, struct rar_member, timer);
	unsigned long next = jiffies + HZ;

	/* Pairs with rar_member_kick(): it arms the timer again, or what it stored is seen here. */
	smp_mb();
	rcu_read_lock();
	rar_stood_look(m);
	/* Pairs with the release in rar_member_set_state(). */
	switch (smp_load_acquire(&m->state)) {
	case RAR_S_JOINING:
	case RAR_S_READY:
		next = rar_join_tick(m);
		break;
	case RAR_S_RUN:
	case RAR_S_LEAVING:
		next = tick_running(m);
		break;
	case RAR_S_FAILED:
		next = m->sk ? jiffies + HZ : m->leave.expires;
		break;
	}
	rar_leave_check_orphan(m);
	rar_stood_expect(m, READ_ONCE(m->state) != RAR_S_BOUND, next);
	if (READ_ONCE(m->state) != RAR_S_BOUND)
		rar_member_kick(m, next);
	rcu_read_unlock();
	rar_member_put(m);
}

static void do_work(struct work_struct *work)
{
	struct rar_member *m = container_of(work, struct rar_member, work);

	push(m);
	rar_watch_check_owner(m);
	rar_join_route_again(m);
	rar_enter_work(m);
	if (rar_member_state(m) == RAR_S_FAILED)
		rar_early_flush(m);
	hook_prev(m);
	rar_rail_hook(m);
	rar_member_put(m);
}

/* Softirq, RCU read side. */
static void link_tick(struct rar_member *m)
{
	if (rar_loss_tick(m))
		rar_push(m);
	rar_leg_look(m);
	rar_ask_tick(m);
	rar_keyed_tick(m);
}

static enum hrtimer_restart link_timer(struct hrtimer *timer)
{
	struct rar_member *m = container_of(timer, struct rar_member, link_timer);
	bool again;
	u8 state;

	spin_lock(&m->tx_lock);
	/* If the timer was armed again meanwhile, the reference belongs to that. */
	again = hrtimer_is_queued(timer);
	if (!again)
		m->link_timer_us = 0;
	spin_unlock(&m->tx_lock);
	if (again)
		return HRTIMER_NORESTART;

	rcu_read_lock();
	/* Pairs with the release in rar_member_set_state(). */
	state = smp_load_acquire(&m->state);
	if (state == RAR_S_RUN || state == RAR_S_LEAVING)
		link_tick(m);
	rcu_read_unlock();
	rar_member_put(m);
	return HRTIMER_NORESTART;
}

/* Set up the timers and the work item of a new member. */
void rar_timer_init(struct rar_member *m)
{
	timer_setup(&m->timer, timer_fired, 0);
	INIT_WORK(&m->work, do_work);
	hrtimer_setup(&m->link_timer, link_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}
