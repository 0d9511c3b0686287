// SPDX-License-Identifier: GPL-2.0
/*
 * The error of a member: recorded, told to both neighbours and to the user.
 */

#include "core/addr.h"
#include "core/event.h"
#include "core/member.h"
#include "core/op.h"
#include "core/pin.h"
#include "core/resume.h"
#include "link/link.h"
#include "rar.h"
#include "ring/fail.h"
#include "ring/ringed.h"
#include "tx/control.h"
#include "tx/run.h"

#define FAIL_MTU_MS	1000U	/* as LOSS_MTU_MS */

/*
 * Drop the first operation that will never be complete, and all operations after it, since
 * recv() delivers in the order of send. Complete operations before it stay. Returns the
 * number of the first operation that is not complete.
 */
static u64 drop_incomplete(struct rar_member *m)
{
	struct rar_operation *op, *tmp;
	u64 done = m->op_next;

	lockdep_assert_held(&m->lock);
	list_for_each_entry_safe(op, tmp, &m->undelivered, node) {
		if (!op->complete)
			done = min(done, op->seq);
		if (op->seq < done)
			continue;
		list_del_init(&op->node);
		m->nundelivered--;
		rar_op_put(op);
	}
	return done;
}

/* The cookie that this rank gave an operation. */
static u64 cookie_of(struct rar_member *m, u64 op_seq)
{
	struct rar_operation *op;

	list_for_each_entry(op, &m->undelivered, node)
		if (op->seq == op_seq)
			return op->cookie;
	return 0;
}

static void record_error(struct rar_member *m,
			 const struct rar_error *err)
{
	const struct rar_link *link = rar_member_link_to(m, err->rank);

	m->error = *err;
	m->error.cookie = cookie_of(m, err->op_seq);
	m->error.user_rank = rar_member_user_rank(m, err->rank);
	memset(&m->error.addr, 0, sizeof(m->error.addr));
	if (err->rank < m->size && m->join.table &&
	    m->join.table[err->rank].addr.af)
		rar_addr_to_sock(m, &m->join.table[err->rank].addr,
				 err->rank, &m->error.addr);
	else if (link)
		rar_addr_to_sock(m, &link->path.dst, err->rank, &m->error.addr);
}

/* Tell a neighbour that this running member failed, and why. */
void rar_fail_tell(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_error err;

	spin_lock_bh(&m->lock);
	err = m->error;
	spin_unlock_bh(&m->lock);
	rar_control_notice(link, RAR_T_ABORT, m->epoch, &err);
}

/* Set what SO_ERROR says. A member that has no socket or was replaced sets nothing. */
static void set_sk_err(struct rar_member *m, int err)
{
	spin_lock_bh(&m->rn->lock);
	if (m->sk)
		WRITE_ONCE(m->sk->sk_err, err);
	spin_unlock_bh(&m->rn->lock);
}

/* Memory of the user is neither written to nor read any more: show the failure. Softirq. */
static void announce(struct rcu_head *head)
{
	struct rar_member *m = container_of(head, struct rar_member, announce);

	set_sk_err(m, m->error.err);
	/* Pairs with the acquire in rar_member_hushed(). */
	smp_store_release(&m->hushed, false);
	rar_member_wake(m);
	rar_member_put(m);
}

/* End a running member that failed. */
static void fail_running(struct rar_member *m)
{
	struct rar_link *link;

	rar_mib_inc(m->rn, GroupsFailed);
	rar_each_link(link, m)
		if (rar_link_to_rank(link))
			rar_fail_tell(link);
	rar_ringed_leave_all(m);
	rar_link_flush(m);
	rar_member_schedule(m);	/* gives back the held packets */
	rar_member_kick(m, jiffies + 1);
}

/**
 * rar_fail_join() - end a join without a ring
 * @m:   member in JOINING or READY, @m->lock held; BOUND afterwards
 * @bye: set to the tokens by which the neighbours can be told
 */
void rar_fail_join(struct rar_member *m, struct rar_bye *bye)
{
	u32 i;

	lockdep_assert_held(&m->lock);
	for (i = 0; i < RAR_LINKS; i++) {
		bye->nonce[i] = m->join.ok[i] ? m->join.peer_nonce[i] : 0;
		m->join.ok[i] = false;
		m->join.peer_nonce[i] = 0;
	}
	bye->epoch = m->epoch;
	WRITE_ONCE(m->join.pass, 0);
	WRITE_ONCE(m->join.nonce, 0);
	WRITE_ONCE(m->epoch, 0);
	rar_member_set_state(m, RAR_S_BOUND);
}

/**
 * rar_fail_tell_join() - tell the neighbours that a join ended
 * @m:   member, no lock held
 * @bye: from rar_fail_join(), or empty
 * @err: why
 *
 * A neighbour that is in RUN already listens to the epoch alone. One that is not hears first that
 * this rank gave up joining.
 */
void rar_fail_tell_join(struct rar_member *m, const struct rar_bye *bye,
			const struct rar_error *err)
{
	struct rar_link *link;
	u64 nonce;

	rar_each_link(link, m) {
		nonce = bye->nonce[link->index];
		if (nonce)
			rar_control_notice(link, RAR_T_ABORT, nonce, err);
		if (nonce && bye->epoch)
			rar_control_notice(link, RAR_T_ABORT, bye->epoch, err);
	}
}

/**
 * rar_fail() - end a member that cannot go on
 * @m: member
 * @err: why; the first error stays
 *
 * Any context, no lock held. A running member is FAILED for good. A member whose join
 * failed goes back to BOUND and may join again. Both neighbours are told. Once poll() or
 * SO_ERROR shows the failure, the user may use the memory of operations in place again.
 */
void rar_fail(struct rar_member *m, const struct rar_error *err)
{
	bool running, joining, hushed;
	struct rar_bye bye = { };
	struct rar_error told;

	spin_lock_bh(&m->lock);
	running = m->state == RAR_S_RUN || m->state == RAR_S_LEAVING;
	joining = m->state == RAR_S_JOINING || m->state == RAR_S_READY;
	hushed = running && rar_pin_any(m);
	if (running || joining)
		record_error(m, err);
	if (hushed) {
		refcount_inc(&m->ref);
		m->hushed = true;
	} else if (running || joining) {
		set_sk_err(m, err->err);
	}
	if (running) {
		/* Before any thread sees the new state and joins again. */
		rar_resume_failed(m, drop_incomplete(m));
		rar_member_set_state(m, RAR_S_FAILED);
	} else if (joining) {
		rar_fail_join(m, &bye);
	}
	told = m->error;
	spin_unlock_bh(&m->lock);

	if (running)
		fail_running(m);
	rar_fail_tell_join(m, &bye, err);
	if (hushed)
		call_rcu(&m->announce, announce);
	if (running || joining) {
		rar_member_wake(m);
		rar_event_send(m, running ? RAR_EVENT_FAILED : RAR_EVENT_JOIN_FAILED, &told);
	}
}

/* rar_fail() for errors that consist of a reason, two ranks and an operation. */
void rar_fail_pair(struct rar_member *m, int err, enum rar_reason why,
		   u32 rank, u32 other, u64 op_seq)
{
	struct rar_error e = { .err = err, .reason = why, .rank = rank,
			       .other = other, .op_seq = op_seq };

	rar_fail(m, &e);
}

/**
 * rar_fail_differs() - end a group whose ranks disagree about an operation
 * @m:      member, no lock held
 * @theirs: what a packet of @rank says about @op
 * @op:     the operation as it was posted here
 * @why:    from rar_fingerprint_differs()
 * @rank:   rank that sent the packet
 */
void rar_fail_differs(struct rar_member *m,
		      const struct rar_fingerprint *theirs,
		      const struct rar_operation *op, enum rar_reason why,
		      u32 rank)
{
	struct rar_error e = {
		.err = EBADMSG, .reason = why, .rank = rank, .other = m->rank,
		.op_seq = op->seq, .value = rar_fingerprint_value(theirs, why),
		.other_value = rar_fingerprint_value(&op->fingerprint, why),
	};

	rar_fail(m, &e);
}

/**
 * rar_fail_narrow() - does a path between two ranks carry short packets only?
 * @m:     member
 * @lost:  packets of full size that were lost, since one came
 * @since: when the first of them was, us
 * @now:   us
 *
 * By then the other rank would have ended the group, had it heard nothing at all.
 */
bool rar_fail_narrow(const struct rar_member *m, u32 lost, u64 since, u64 now)
{
	u32 dead = READ_ONCE(m->rn->sysctl_dead_ms);

	return lost >= RAR_MTU_LOSSES &&
	       (s64)(now - since) > (dead + max(dead / 2, FAIL_MTU_MS)) * (s64)USEC_PER_MSEC;
}

/**
 * rar_fail_sent() - act on the error of a packet that a queue of this host refused
 * @link:   link that the packet was sent by; no lock held
 * @op_seq: the packet's operation
 * @err:    as rar_run_send() returns it
 *
 * A refused packet counts as sent, and the link will find it lost. Sending slows down at once.
 * If the route became narrower than the epoch's packets, the group fails; or it goes on without the
 * box, if that is at an end of the link.
 */
void rar_fail_sent(struct rar_link *link, u64 op_seq, int err)
{
	struct rar_member *m = link->member;

	if (err == -EMSGSIZE && !rar_link_to_rank(link)) {
		WRITE_ONCE(link->narrow, true);
		/* The timer closes the leg. The box looks at its legs again and again. */
		if (m->rank < m->size)
			rar_member_kick(m, jiffies);
	} else if (err < 0 && err != -ENOBUFS && rar_link_rails(link) > 1) {
		/*
		 * This pair of addresses has no way: its lanes will be left
		 * out. If no pair has one, loss.c finds that.
		 */
		return;
	} else if (err == -EMSGSIZE) {
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank, link->rank, op_seq);
	} else if (err) {
		rar_link_local_drop(link);
	}
}
