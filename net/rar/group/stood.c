// SPDX-License-Identifier: GPL-2.0
/*
 * A host that stood still: somebody paused its machine, or no CPU was left for
 * softirqs. The clocks went on meanwhile, or jump when it goes on. So
 * everything seems overdue, and nobody else is to blame for that.
 *
 * A member's timer runs once in a keepalive interval. If it is late by more
 * than another one, the host stood still. Then all that the member waits for
 * gets that much more time before it is judged, and the member asks once more.
 * The other ranks may have lost their patience with this one. If they have, its
 * error says why.
 */
#include "core/mem.h"
#include "core/member.h"
#include "core/op.h"
#include "group/stood.h"
#include "link/link.h"

/* Time that includes the time for which the host was suspended, us. */
static u64 boot_us(void)
{
	return ktime_to_us(ktime_get_boottime());
}

/*
 * For how long does the host stand still, as far as the timer has not seen it
 * yet, us?
 */
static u64 late_us(const struct rar_member *m)
{
	u64 due = READ_ONCE(m->stood.due_us), now = boot_us();
	u64 keepalive = rar_member_keepalive_ms(m) * (u64)USEC_PER_MSEC;

	return due && now > due + keepalive ? now - due : 0;
}

/* -- waiting begins later ------------------------------------------------- */

/* Jiffies; 0 is never. */
static void later(unsigned long *since, unsigned long late)
{
	unsigned long when = *since + late;

	if (*since)
		WRITE_ONCE(*since,
			   (time_before(when, jiffies) ? when : jiffies) | 1);
}

/* Microseconds; 0 is never. */
static void later_us(u64 *since, u64 late, u64 now)
{
	if (*since)
		WRITE_ONCE(*since, min(*since + late, now));
}

/* The deadlines of joining and leaving, and of an operation that is overdue. */
static void later_group(struct rar_member *m, unsigned long late)
{
	spin_lock_bh(&m->lock);
	m->join.deadline += late;
	later(&m->join.step_since, late);
	later(&m->join.refused_since, late);
	later(&m->late_since, late);
	m->leave.expires += late;
	spin_unlock_bh(&m->lock);
}

/* The operations, and full-size packets that do not pass. tx_lock. */
static void later_ops(struct rar_member *m, u64 late, u64 now)
{
	struct rar_operation *op;
	u64 seq;
	u32 i;

	for (seq = m->op_oldest; seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (!op)
			continue;
		later_us(&op->posted_us, late, now);
		for (i = 0; i < rar_outs(m); i++)
			later_us(&op->out[i].moved_us, late, now);
	}
	later_us(&m->done_us, late, now);
}

/* What is known about the paths. tx_lock, RCU read side. */
static void later_paths(struct rar_member *m, u64 late, u64 now)
{
	struct rar_direct_peer *peer = READ_ONCE(m->direct.peer);
	struct rar_link_tx *tx;
	struct rar_link *link;
	u32 i, k;

	rar_each_link(link, m) {
		tx = &link->tx;
		for (k = 0; k < ARRAY_SIZE(tx->full_since_us); k++)
			later_us(&tx->full_since_us[k], late, now);
	}
	for (i = 0; peer && i < m->direct.n; i++) {
		later_us(&peer[i].asked_us, late, now);
		later_us(&peer[i].full_since_us, late, now);
	}
	rar_each_partner(link, m) {
		tx = &link->tx;
		for (k = 0; k < ARRAY_SIZE(tx->full_since_us); k++)
			later_us(&tx->full_since_us[k], late, now);
	}
}

/* The boxes. tx_lock. */
static void later_legs(struct rar_member *m, unsigned long late)
{
	struct rar_link *link;

	rar_each_leg(link, m) {
		later(&rar_link_leg(link)->since, late);
		rar_link_leg(link)->home_at += late;
	}
}

/*
 * The host stood still for a while: nothing that this member waits for is
 * overdue yet.
 */
static void forgive(struct rar_member *m, u64 us)
{
	u64 ms = min_t(u64, div_u64(us, USEC_PER_MSEC), INT_MAX);
	unsigned long late = msecs_to_jiffies(ms);
	u64 now = rar_now_us();
	struct rar_link *link;

	rar_each_link(link, m)
		rar_member_hear_later(link, late);
	later_group(m, late);
	spin_lock_bh(&m->tx_lock);
	later_ops(m, us, now);
	later_paths(m, us, now);
	later_legs(m, late);
	spin_unlock_bh(&m->tx_lock);
	rar_mem_later(m, late);
}

/* -- the timer ------------------------------------------------------------ */

/**
 * rar_stood_look() - has the host stood still? Then give everything more time
 * @m: member, in its timer, which then asks whatever it waits for once more
 */
void rar_stood_look(struct rar_member *m)
{
	u64 late = late_us(m);

	if (!late)
		return;
	rar_mib_inc(m->rn, HostStood);
	WRITE_ONCE(m->stood.ms, rar_stood_ms(m));
	WRITE_ONCE(m->stood.at, jiffies);
	WRITE_ONCE(m->stood.due_us, 0);
	forgive(m, late);
}

/**
 * rar_stood_expect() - note when the timer runs next
 * @m:    member, in its timer
 * @runs: it does run
 * @next: jiffies; the timer may be late by an eighth of the time until then
 */
void rar_stood_expect(struct rar_member *m, bool runs, unsigned long next)
{
	long in = max((long)(next - jiffies), 0L);

	in += in / 8 + 1;
	WRITE_ONCE(m->stood.due_us,
		   runs ? boot_us() + jiffies_to_usecs(in) : 0);
}

/* -- the reason ----------------------------------------------------------- */

/**
 * rar_stood_ms() - for how long did the host stand still at most, lately?
 * @m: member
 *
 * Any context. The timer need not have run since.
 *
 * Return: milliseconds, 0 if it did not.
 */
u32 rar_stood_ms(const struct rar_member *m)
{
	u32 dead_ms = READ_ONCE(m->rn->sysctl_dead_ms);
	unsigned long lately = 2 * msecs_to_jiffies(dead_ms);
	u64 ms = div_u64(late_us(m), USEC_PER_MSEC);

	if (time_before(jiffies, READ_ONCE(m->stood.at) + lately))
		ms = max_t(u64, ms, READ_ONCE(m->stood.ms));
	return min_t(u64, ms, U32_MAX);
}

/**
 * rar_stood_own() - name this rank if others gave its host up
 * @m:     member
 * @other: the rank with which it has lost touch
 * @err:   error that names another rank; changed if this one is to blame
 */
void rar_stood_own(const struct rar_member *m, u32 other, struct rar_error *err)
{
	u32 ms = rar_stood_ms(m);

	if (ms < READ_ONCE(m->rn->sysctl_dead_ms))
		return;
	err->reason = RAR_R_STALLED;
	err->rank = m->rank;
	err->other = other;
	err->silent_ms = ms;
}
