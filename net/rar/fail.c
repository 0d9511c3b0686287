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
static u64 drop_incomplete(struct rar_group *grp)
{
	struct rar_operation *op, *tmp;
	u64 done = grp->op_next;

	lockdep_assert_held(&grp->lock);
	list_for_each_entry_safe(op, tmp, &grp->undelivered, node) {
		if (!op->complete)
			done = min(done, op->seq);
		if (op->seq < done)
			continue;
		list_del_init(&op->node);
		grp->nundelivered--;
		rar_op_put(op);
	}
	return done;
}

/* The cookie that this rank gave the operation. */
static u64 cookie_of(struct rar_group *grp, u64 op_seq)
{
	struct rar_operation *op;

	list_for_each_entry(op, &grp->undelivered, node)
		if (op->seq == op_seq)
			return op->cookie;
	return 0;
}

static void record_error(struct rar_group *grp,
			 const struct rar_error *err)
{
	enum rar_dir dir = err->rank == rar_group_rank(grp, RAR_NEXT) ?
			   RAR_NEXT : RAR_PREV;

	grp->error = *err;
	grp->error.cookie = cookie_of(grp, err->op_seq);
	memset(&grp->error.addr, 0, sizeof(grp->error.addr));
	if (err->rank < grp->size && grp->join.members &&
	    grp->join.members[err->rank].addr.af)
		rar_sock_addr(grp, &grp->join.members[err->rank].addr,
			      err->rank, &grp->error.addr);
	else if (err->rank == rar_group_rank(grp, dir))
		rar_sock_addr(grp, &grp->path[dir].dst, err->rank,
			      &grp->error.addr);
}

/* Tell the neighbour in @dir that the running group failed, and why. */
void rar_fail_tell(struct rar_group *grp, enum rar_dir dir)
{
	struct rar_error err;

	spin_lock_bh(&grp->lock);
	err = grp->error;
	spin_unlock_bh(&grp->lock);
	rar_output_notice(grp, dir, RAR_T_ABORT, grp->epoch, &err);
}

/* What SO_ERROR says; a member without a socket, or that was replaced, says nothing. */
static void set_sk_err(struct rar_group *grp, int err)
{
	spin_lock_bh(&grp->rn->lock);
	if (grp->sk)
		WRITE_ONCE(grp->sk->sk_err, err);
	spin_unlock_bh(&grp->rn->lock);
}

/* May a chunk be added to memory of the user at this moment? */
static bool writes_to_user(const struct rar_group *grp)
{
	const struct rar_operation *op;

	lockdep_assert_held(&grp->lock);
	list_for_each_entry(op, &grp->undelivered, node)
		if (op->pinned && !op->complete)
			return true;
	return false;
}

/* No chunk is added any more. Softirq. */
static void announce(struct rcu_head *head)
{
	struct rar_group *grp = container_of(head, struct rar_group, announce);

	set_sk_err(grp, grp->error.err);
	/* Pairs with the acquire in rar_group_hushed(). */
	smp_store_release(&grp->hushed, false);
	rar_group_wake(grp);
	rar_group_put(grp);
}

/* A running group is over. */
static void fail_running(struct rar_group *grp)
{
	rar_mib_inc(grp->rn, GroupsFailed);
	rar_fail_tell(grp, RAR_NEXT);
	rar_fail_tell(grp, RAR_PREV);
	rar_link_flush(grp);
	rar_group_schedule(grp);	/* gives back what is held */
	rar_group_kick(grp, jiffies + 1);
}

/**
 * rar_fail() - the group cannot go on
 * @grp: group
 * @err: why; the first one wins
 *
 * Any context, no lock held. A running group is FAILED for good; a failed
 * join goes back to BOUND and may be tried again. Tells both neighbours. Whoever sees
 * the failure in poll() or SO_ERROR may use memory of operations in place again.
 */
void rar_fail(struct rar_group *grp, const struct rar_error *err)
{
	u64 nonce[RAR_DIRS] = {};
	bool running, joining, hushed;
	int dir;

	spin_lock_bh(&grp->lock);
	running = grp->state == RAR_S_RUN || grp->state == RAR_S_LEAVING;
	joining = grp->state == RAR_S_JOINING || grp->state == RAR_S_READY;
	hushed = running && writes_to_user(grp);
	if (running || joining)
		record_error(grp, err);
	if (hushed) {
		refcount_inc(&grp->ref);
		grp->hushed = true;
	} else if (running || joining) {
		set_sk_err(grp, err->err);
	}
	if (running) {
		/* Before anybody sees the state, and joins again. */
		rar_resume_failed(grp, drop_incomplete(grp));
		rar_group_set_state(grp, RAR_S_FAILED);
	} else if (joining) {
		rar_join_reset(grp, nonce);
	}
	spin_unlock_bh(&grp->lock);

	if (running)
		fail_running(grp);
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (nonce[dir])
			rar_output_notice(grp, dir, RAR_T_ABORT, nonce[dir],
					  err);
	if (hushed)
		call_rcu(&grp->announce, announce);
	if (running || joining)
		rar_group_wake(grp);
}

/* rar_fail() for reasons that are no more than two ranks and an op. */
void rar_fail_pair(struct rar_group *grp, int err, enum rar_reason why,
		   u32 rank, u32 other, u64 op_seq)
{
	struct rar_error e = { .err = err, .reason = why, .rank = rank,
			       .other = other, .op_seq = op_seq };

	rar_fail(grp, &e);
}

/* -- silence and overdue operations --------------------------------------- */

/* Does anything posted still depend on the neighbour in @dir? */
static bool needs(const struct rar_group *grp, enum rar_dir dir)
{
	if (dir == RAR_PREV)
		return !rar_group_idle(grp);
	return READ_ONCE(grp->op_oldest) != READ_ONCE(grp->op_next);
}

/* Fail the group if a neighbour has been silent for too long. */
static void check_silence(struct rar_group *grp)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(grp->rn->sysctl_dead_ms));
	struct rar_error err = { .err = ECONNRESET, .reason = RAR_R_SILENT };
	u32 other;
	int dir;

	if (!grp->sk || (grp->left && rar_group_idle(grp)))
		return;
	for (dir = 0; dir < RAR_DIRS; dir++) {
		unsigned long heard = READ_ONCE(grp->heard[dir]);

		if ((grp->gone[dir] && !needs(grp, dir)) ||
		    time_before(jiffies, heard + dead))
			continue;
		other = rar_group_rank(grp, dir);
		err.rank = other;
		err.other = grp->rank;
		/* Not its fault but ours: both ends of the link are named. */
		if (rar_route_cut_off(grp, &grp->path[dir])) {
			err.reason = RAR_R_NODEV;
			err.rank = grp->rank;
			err.other = other;
		}
		err.silent_ms = jiffies_to_msecs(jiffies - heard);
		rar_fail(grp, &err);
		return;
	}
}

/*
 * Operation @seq is overdue at rank @origin: the first rank behind it that
 * has not contributed to it is named. A rank knows that of itself and, from ACKs, of
 * its successor; else the question goes on round the ring.
 */
static void ask_late(struct rar_group *grp, u64 seq, u32 origin)
{
	u32 next = rar_group_rank(grp, RAR_NEXT);
	struct rar_error ask = { .err = ETIMEDOUT, .reason = RAR_R_TIMEOUT,
				 .rank = origin, .other = origin,
				 .op_seq = seq };

	if (READ_ONCE(grp->op_whole) <= seq)
		rar_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, grp->rank,
			      grp->rank, seq);
	else if (READ_ONCE(grp->tx.posted) <= seq)
		rar_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, next, next,
			      seq);
	else if (next != origin)
		rar_output_notice(grp, RAR_NEXT, RAR_T_LATE, grp->epoch, &ask);
}

static void check_op_timeout(struct rar_group *grp)
{
	u32 limit = READ_ONCE(grp->op_timeout_ms);
	struct rar_operation *op;
	bool late = false;
	u64 seq = 0;

	if (!limit)
		return;
	spin_lock_bh(&grp->lock);
	list_for_each_entry(op, &grp->undelivered, node) {
		if (op->complete)
			continue;
		seq = op->seq;
		/* As long as it is copied in it is the others who wait; the acquire, for
		 * @posted_us, pairs with the release in rar_link_contributed().
		 */
		late = seq < smp_load_acquire(&grp->op_whole) &&
		       rar_now_us() - READ_ONCE(op->posted_us) > limit * 1000ULL;
		break;
	}
	spin_unlock_bh(&grp->lock);
	if (!late) {
		grp->late_since = 0;
		return;
	}
	if (!grp->late_since)
		grp->late_since = jiffies | 1;
	ask_late(grp, seq, grp->rank);
	if (time_after(jiffies, grp->late_since + HZ))
		rar_fail_pair(grp, ETIMEDOUT, RAR_R_TIMEOUT, grp->rank,
			      grp->rank, seq);
}

/* When will a neighbour have been silent for too long, if nothing comes from it? */
static unsigned long silence_ends(const struct rar_group *grp)
{
	unsigned long dead = msecs_to_jiffies(READ_ONCE(grp->rn->sysctl_dead_ms));
	unsigned long next = jiffies + dead, end;
	int dir;

	for (dir = 0; dir < RAR_DIRS; dir++) {
		end = READ_ONCE(grp->heard[dir]) + dead;
		if (!grp->gone[dir] && time_after(end, jiffies) && time_before(end, next))
			next = end;
	}
	return next;
}

/**
 * rar_fail_tick() - timer of a running group
 * @grp: group
 *
 * Return: jiffies of the next call, at the latest.
 */
unsigned long rar_fail_tick(struct rar_group *grp)
{
	check_silence(grp);
	check_op_timeout(grp);
	return silence_ends(grp);
}

/* -- the process that a member belongs to -------------------------------- */

static int owner_wake(struct wait_queue_entry *wait, unsigned int mode,
		      int sync, void *key)
{
	struct rar_group *grp = container_of(wait, struct rar_group,
					     owner_wait);

	rar_group_schedule(grp);
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
 * @grp: group
 * @pid: process, a reference is taken over; NULL = none any more
 *
 * Process context. A descriptor inherited by a child does not keep a member
 * alive: when its process exits the group is told so.
 */
void rar_fail_set_owner(struct rar_group *grp, struct pid *pid)
{
	struct pid *old;

	spin_lock_bh(&grp->lock);
	old = grp->owner;
	grp->owner = pid;
	spin_unlock_bh(&grp->lock);
	if (old) {
		remove_wait_queue(&old->wait_pidfd, &grp->owner_wait);
		put_pid(old);
	}
	if (!pid)
		return;
	init_waitqueue_func_entry(&grp->owner_wait, owner_wake);
	add_wait_queue(&pid->wait_pidfd, &grp->owner_wait);
	if (pid_exited(pid))
		rar_group_schedule(grp);
}

void rar_fail_check_owner(struct rar_group *grp)
{
	struct pid *pid;
	bool exited, left;

	spin_lock_bh(&grp->lock);
	pid = get_pid(grp->owner);
	left = grp->state == RAR_S_LEAVING;	/* nobody waits for it */
	spin_unlock_bh(&grp->lock);
	exited = pid && pid_exited(pid);
	put_pid(pid);
	if (!exited || left)
		return;
	rar_fail_pair(grp, ECONNRESET, RAR_R_DIED, grp->rank, grp->rank,
		      READ_ONCE(grp->op_next));
	if (rar_group_state(grp) == RAR_S_FAILED)
		rar_pin_end(grp);
}

/* -- notices ------------------------------------------------------------- */

/* What calls return because of others: never what means something else there. */
static bool wire_errno_ok(u32 err)
{
	return err == ECONNRESET || err == EMSGSIZE || err == EBADMSG || err == EACCES ||
	       err == EADDRINUSE || err == ETIMEDOUT || err == ENOBUFS;
}

/* Only a member that disagrees about the size may name a rank beyond ours. */
static u32 wire_rank(const struct rar_group *grp, __be32 rank, u32 reason)
{
	u32 size = reason == RAR_R_SIZE ? RAR_MAX_SIZE : grp->size;

	return be32_to_cpu(rank) < size ? be32_to_cpu(rank) : RAR_NO_RANK;
}

/* A notice of another member as an error of @grp. */
void rar_fail_from_wire(const struct rar_group *grp, const struct rar_notice_hdr *n,
			struct rar_error *err)
{
	memset(err, 0, sizeof(*err));
	err->err = wire_errno_ok(be32_to_cpu(n->err)) ? be32_to_cpu(n->err) :
							ECONNRESET;
	err->reason = be32_to_cpu(n->reason) < RAR_R_NR ?
		      be32_to_cpu(n->reason) : RAR_R_NONE;
	err->rank = wire_rank(grp, n->rank, err->reason);
	err->other = wire_rank(grp, n->other, err->reason);
	err->op_seq = be64_to_cpu(n->op_seq);
	err->silent_ms = be32_to_cpu(n->silent_ms);
}

/*
 * A neighbour has not heard us, as it says at last. Is that because we are cut off? The
 * neighbours cannot know.
 */
static void own_fault(struct rar_group *grp, struct rar_error *err)
{
	int dir;

	if (err->reason != RAR_R_SILENT || err->rank != grp->rank)
		return;
	for (dir = 0; dir < RAR_DIRS; dir++)
		if (err->other == rar_group_rank(grp, dir) &&
		    rar_route_cut_off(grp, &grp->path[dir]))
			err->reason = RAR_R_NODEV;
}

/**
 * rar_fail_rcv() - ABORT, LATE, FIN, FIN_ACK, RESET of the epoch
 * @grp: group in RUN or later
 * @pkt: validated: from a neighbour's address, token is the epoch
 */
void rar_fail_rcv(struct rar_group *grp, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_notice_hdr n = {};
	struct rar_error err;
	enum rar_dir dir;

	dir = src == rar_group_rank(grp, RAR_NEXT) ? RAR_NEXT : RAR_PREV;
	if (pkt->h.type == RAR_T_RESET) {
		rar_fail_pair(grp, ECONNRESET, RAR_R_RESET, src, src, 0);
		return;
	}
	if (skb_copy_bits(pkt->skb, pkt->off, &n, sizeof(n)))
		return;
	rar_fail_from_wire(grp, &n, &err);
	switch (pkt->h.type) {
	case RAR_T_ABORT:
		own_fault(grp, &err);
		rar_fail(grp, &err);
		break;
	case RAR_T_FIN:
		if (err.rank < grp->size)
			rar_leave_rcv_fin(grp, &err, dir);
		break;
	case RAR_T_LATE:
		if (err.rank >= grp->size)
			break;
		ask_late(grp, err.op_seq, err.rank);
		break;
	case RAR_T_FIN_ACK:
		rar_leave_rcv_fin_ack(grp, dir);
		break;
	}
}
