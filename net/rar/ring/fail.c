// SPDX-License-Identifier: GPL-2.0
/*
 * Failure: how a group learns that it cannot go on, whom it names, and how
 * everybody hears of it. Silence of a neighbour, an overdue operation, the
 * exit of the owner, news from others.
 */
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "rar.h"

/* -- the error ----------------------------------------------------------- */

/*
 * Forget what will never be complete, and all behind it: recv() delivers in
 * the order of send. What is complete before it stays. Returns the first
 * operation that is not complete.
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

/* The cookie that this rank gave the operation. */
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
	enum rar_dir dir = err->rank == rar_member_rank(m, RAR_NEXT) ?
			   RAR_NEXT : RAR_PREV;

	m->error = *err;
	m->error.cookie = cookie_of(m, err->op_seq);
	memset(&m->error.addr, 0, sizeof(m->error.addr));
	if (err->rank < m->size && m->join.table &&
	    m->join.table[err->rank].addr.af)
		rar_sock_addr(m, &m->join.table[err->rank].addr,
			      err->rank, &m->error.addr);
	else if (err->rank == rar_member_rank(m, dir))
		rar_sock_addr(m, &m->path[dir].dst, err->rank,
			      &m->error.addr);
}

/* Tell the neighbour in @dir that the running group failed, and why. */
void rar_fail_tell(struct rar_member *m, enum rar_dir dir)
{
	struct rar_error err;

	spin_lock_bh(&m->lock);
	err = m->error;
	spin_unlock_bh(&m->lock);
	rar_packet_notice(m, dir, RAR_T_ABORT, m->epoch, &err);
}

/* What SO_ERROR says; a member without a socket, or that was replaced, says nothing. */
static void set_sk_err(struct rar_member *m, int err)
{
	spin_lock_bh(&m->rn->lock);
	if (m->sk)
		WRITE_ONCE(m->sk->sk_err, err);
	spin_unlock_bh(&m->rn->lock);
}

/* May a chunk be added to memory of the user at this moment? */
static bool writes_to_user(const struct rar_member *m)
{
	const struct rar_operation *op;

	lockdep_assert_held(&m->lock);
	list_for_each_entry(op, &m->undelivered, node)
		if (op->pinned && !op->complete)
			return true;
	return false;
}

/* No chunk is added any more. Softirq. */
static void announce(struct rcu_head *head)
{
	struct rar_member *m = container_of(head, struct rar_member, announce);

	set_sk_err(m, m->error.err);
	/* Pairs with the acquire in rar_member_hushed(). */
	smp_store_release(&m->hushed, false);
	rar_member_wake(m);
	rar_member_put(m);
}

/* A running group is over. */
static void fail_running(struct rar_member *m)
{
	rar_mib_inc(m->rn, GroupsFailed);
	rar_fail_tell(m, RAR_NEXT);
	rar_fail_tell(m, RAR_PREV);
	rar_link_flush(m);
	rar_member_schedule(m);	/* gives back what is held */
	rar_member_kick(m, jiffies + 1);
}

/**
 * rar_fail() - the group cannot go on
 * @m: member
 * @err: why; the first one wins
 *
 * Any context, no lock held. A running group is FAILED for good; a failed
 * join goes back to BOUND and may be tried again. Tells both neighbours. Whoever sees
 * the failure in poll() or SO_ERROR may use memory of operations in place again.
 */
void rar_fail(struct rar_member *m, const struct rar_error *err)
{
	u64 nonce[RAR_DIRS] = {};
	bool running, joining, hushed;
	int dir;

	spin_lock_bh(&m->lock);
	running = m->state == RAR_S_RUN || m->state == RAR_S_LEAVING;
	joining = m->state == RAR_S_JOINING || m->state == RAR_S_READY;
	hushed = running && writes_to_user(m);
	if (running || joining)
		record_error(m, err);
	if (hushed) {
		refcount_inc(&m->ref);
		m->hushed = true;
	} else if (running || joining) {
		set_sk_err(m, err->err);
	}
	if (running) {
		/* Before anybody sees the state, and joins again. */
		rar_resume_failed(m, drop_incomplete(m));
		rar_member_set_state(m, RAR_S_FAILED);
	} else if (joining) {
		rar_join_reset(m, nonce);
	}
	spin_unlock_bh(&m->lock);

	if (running)
		fail_running(m);
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (nonce[dir])
			rar_packet_notice(m, dir, RAR_T_ABORT, nonce[dir],
					  err);
	if (hushed)
		call_rcu(&m->announce, announce);
	if (running || joining)
		rar_member_wake(m);
}

/* rar_fail() for reasons that are no more than two ranks and an op. */
void rar_fail_pair(struct rar_member *m, int err, enum rar_reason why,
		   u32 rank, u32 other, u64 op_seq)
{
	struct rar_error e = { .err = err, .reason = why, .rank = rank,
			       .other = other, .op_seq = op_seq };

	rar_fail(m, &e);
}

/* -- silence and overdue operations --------------------------------------- */

/* Does anything posted still depend on the neighbour in @dir? */
static bool needs(const struct rar_member *m, enum rar_dir dir)
{
	if (dir == RAR_PREV)
		return !rar_member_idle(m);
	return READ_ONCE(m->op_oldest) != READ_ONCE(m->op_next);
}

/* Fail the group if a neighbour has been silent for too long. */
static void check_silence(struct rar_member *m)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(m->rn->sysctl_dead_ms));
	struct rar_error err = { .err = ECONNRESET, .reason = RAR_R_SILENT };
	u32 other;
	int dir;

	if (!m->sk || (m->left && rar_member_idle(m)))
		return;
	for (dir = 0; dir < RAR_DIRS; dir++) {
		unsigned long heard = READ_ONCE(m->heard[dir]);

		if ((m->gone[dir] && !needs(m, dir)) ||
		    time_before(jiffies, heard + dead))
			continue;
		other = rar_member_rank(m, dir);
		err.rank = other;
		err.other = m->rank;
		/* Not its fault but ours: both ends of the link are named. */
		if (rar_route_cut_off(m, &m->path[dir])) {
			err.reason = RAR_R_NODEV;
			err.rank = m->rank;
			err.other = other;
		}
		err.silent_ms = jiffies_to_msecs(jiffies - heard);
		rar_fail(m, &err);
		return;
	}
}

/*
 * Operation @seq is overdue at rank @origin: the first rank behind it that
 * has not contributed to it is named. A rank knows that of itself and, from ACKs, of
 * its successor; else the question goes on round the ring.
 */
static void ask_late(struct rar_member *m, u64 seq, u32 origin)
{
	u32 next = rar_member_rank(m, RAR_NEXT);
	struct rar_error ask = { .err = ETIMEDOUT, .reason = RAR_R_TIMEOUT,
				 .rank = origin, .other = origin,
				 .op_seq = seq };

	if (READ_ONCE(m->op_whole) <= seq)
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, m->rank,
			      m->rank, seq);
	else if (READ_ONCE(m->tx.posted) <= seq)
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, next, next,
			      seq);
	else if (next != origin)
		rar_packet_notice(m, RAR_NEXT, RAR_T_LATE, m->epoch, &ask);
}

static void check_op_timeout(struct rar_member *m)
{
	u32 limit = READ_ONCE(m->op_timeout_ms);
	struct rar_operation *op;
	bool late = false;
	u64 seq = 0;

	if (!limit)
		return;
	spin_lock_bh(&m->lock);
	list_for_each_entry(op, &m->undelivered, node) {
		if (op->complete)
			continue;
		seq = op->seq;
		/* As long as it is copied in it is the others who wait; the acquire, for
		 * @posted_us, pairs with the release in rar_link_contributed().
		 */
		late = seq < smp_load_acquire(&m->op_whole) &&
		       rar_now_us() - READ_ONCE(op->posted_us) > limit * 1000ULL;
		break;
	}
	spin_unlock_bh(&m->lock);
	if (!late) {
		m->late_since = 0;
		return;
	}
	if (!m->late_since)
		m->late_since = jiffies | 1;
	ask_late(m, seq, m->rank);
	if (time_after(jiffies, m->late_since + HZ))
		rar_fail_pair(m, ETIMEDOUT, RAR_R_TIMEOUT, m->rank,
			      m->rank, seq);
}

/* When will a neighbour have been silent for too long, if nothing comes from it? */
static unsigned long silence_ends(const struct rar_member *m)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(m->rn->sysctl_dead_ms));
	unsigned long next = jiffies + dead, end;
	int dir;

	for (dir = 0; dir < RAR_DIRS; dir++) {
		end = READ_ONCE(m->heard[dir]) + dead;
		if (!m->gone[dir] && time_after(end, jiffies) && time_before(end, next))
			next = end;
	}
	return next;
}

/**
 * rar_fail_tick() - timer of a running group
 * @m: member
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_fail_tick(struct rar_member *m)
{
	check_silence(m);
	check_op_timeout(m);
	return silence_ends(m);
}

/* -- the process that a member belongs to -------------------------------- */

static int owner_wake(struct wait_queue_entry *wait, unsigned int mode,
		      int sync, void *key)
{
	struct rar_member *m = container_of(wait, struct rar_member,
					    owner_wait);

	rar_member_schedule(m);
	return 0;
}

static bool pid_exited(struct pid *pid)
{
	struct task_struct *task;
	bool exited;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	exited = !task ||
		 (READ_ONCE(task->exit_state) && thread_group_empty(task));
	rcu_read_unlock();
	return exited;
}

/**
 * rar_fail_set_owner() - bind the member's life to a process
 * @m: member
 * @pid: process, a reference is taken over; NULL = none any more
 *
 * Process context. A descriptor inherited by a child does not keep a member
 * alive: when its process exits the group is told so.
 */
void rar_fail_set_owner(struct rar_member *m, struct pid *pid)
{
	struct pid *old;

	spin_lock_bh(&m->lock);
	old = m->owner;
	m->owner = pid;
	spin_unlock_bh(&m->lock);
	if (old) {
		remove_wait_queue(&old->wait_pidfd, &m->owner_wait);
		put_pid(old);
	}
	if (!pid)
		return;
	init_waitqueue_func_entry(&m->owner_wait, owner_wake);
	add_wait_queue(&pid->wait_pidfd, &m->owner_wait);
	if (pid_exited(pid))
		rar_member_schedule(m);
}

void rar_fail_check_owner(struct rar_member *m)
{
	struct pid *pid;
	bool exited, left;

	spin_lock_bh(&m->lock);
	pid = get_pid(m->owner);
	left = m->state == RAR_S_LEAVING;	/* nobody waits for it */
	spin_unlock_bh(&m->lock);
	exited = pid && pid_exited(pid);
	put_pid(pid);
	if (!exited || left)
		return;
	rar_fail_pair(m, ECONNRESET, RAR_R_DIED, m->rank, m->rank,
		      READ_ONCE(m->op_next));
	if (rar_member_state(m) == RAR_S_FAILED)
		rar_pin_end(m);
}

/* -- notices ------------------------------------------------------------- */

/* What calls return because of others: never what means something else there. */
static bool wire_errno_ok(u32 err)
{
	return err == ECONNRESET || err == EMSGSIZE || err == EBADMSG || err == EACCES ||
	       err == EADDRINUSE || err == ETIMEDOUT || err == ENOBUFS;
}

/* Only a member that disagrees about the size may name a rank beyond ours. */
static u32 wire_rank(const struct rar_member *m, __be32 rank, u32 reason)
{
	u32 size = reason == RAR_R_SIZE ? RAR_MAX_SIZE : m->size;

	return be32_to_cpu(rank) < size ? be32_to_cpu(rank) : RAR_NO_RANK;
}

/* A notice of another member as an error of @m. */
void rar_fail_from_wire(const struct rar_member *m, const struct rar_notice_hdr *n,
			struct rar_error *err)
{
	memset(err, 0, sizeof(*err));
	err->err = wire_errno_ok(be32_to_cpu(n->err)) ? be32_to_cpu(n->err) :
							ECONNRESET;
	err->reason = be32_to_cpu(n->reason) < RAR_R_NR ?
		      be32_to_cpu(n->reason) : RAR_R_NONE;
	err->rank = wire_rank(m, n->rank, err->reason);
	err->other = wire_rank(m, n->other, err->reason);
	err->op_seq = be64_to_cpu(n->op_seq);
	err->silent_ms = be32_to_cpu(n->silent_ms);
}

/*
 * A neighbour has not heard us, as it says at last. Is that because we are cut off? The
 * neighbours cannot know.
 */
static void own_fault(struct rar_member *m, struct rar_error *err)
{
	int dir;

	if (err->reason != RAR_R_SILENT || err->rank != m->rank)
		return;
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (err->other == rar_member_rank(m, dir) &&
		    rar_route_cut_off(m, &m->path[dir]))
			err->reason = RAR_R_NODEV;
}

/**
 * rar_fail_rcv() - ABORT, LATE, FIN, FIN_ACK, RESET of the epoch
 * @m: member in RUN or later
 * @pkt: validated: from a neighbour's address, token is the epoch
 */
void rar_fail_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_notice_hdr n = {};
	struct rar_error err;
	enum rar_dir dir;

	dir = src == rar_member_rank(m, RAR_NEXT) ? RAR_NEXT : RAR_PREV;
	if (pkt->h.type == RAR_T_RESET) {
		rar_fail_pair(m, ECONNRESET, RAR_R_RESET, src, src, 0);
		return;
	}
	if (skb_copy_bits(pkt->skb, pkt->off, &n, sizeof(n)))
		return;
	rar_fail_from_wire(m, &n, &err);
	switch (pkt->h.type) {
	case RAR_T_ABORT:
		own_fault(m, &err);
		rar_fail(m, &err);
		break;
	case RAR_T_FIN:
		if (err.rank < m->size)
			rar_leave_rcv_fin(m, &err, dir);
		break;
	case RAR_T_LATE:
		if (err.rank >= m->size)
			break;
		ask_late(m, err.op_seq, err.rank);
		break;
	case RAR_T_FIN_ACK:
		rar_leave_rcv_fin_ack(m, dir);
		break;
	}
}
