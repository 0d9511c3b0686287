// SPDX-License-Identifier: GPL-2.0
/*
 * The link: a reliable hop from a rank to a neighbour.
 *
 * Every transmission has a number of its own. When a packet is lost its chunk is sent again
 * from the buffer, with a new number. pick.c chooses the chunks that go, out.c knows which
 * chunks wait, loss.c finds lost packets, ack.c acknowledges packets that came, and window.c
 * has the windows. The neighbour's credit also limits the chunks of operations that the
 * neighbour has not posted.
 *
 * Layers above decide by which link chunks go, and which rank is at its other end.
 */
#include "core/arrival.h"
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/trace.h"
#include "link/carry.h"
#include "link/lane.h"
#include "link/link.h"
#include "link/rail.h"
#include "link/out.h"
#include "link/pick.h"
#include "link/sent.h"
#include "link/straggler.h"
#include "link/window.h"
#include "tx/device.h"
#include "tx/port.h"
#include "tx/sender.h"

#define LINK_STARVED_US		1000	/* shorter gaps do not count as waiting */
#define LINK_EARLY		4	/* peers that may use all early_bytes */

/* -- timer of all links (loss.c) ----------------------------------------- */

/*
 * Let the timer look at the links at @when, us, or earlier. The timer looks again later at
 * everything that it finds too early. tx_lock held.
 */
void rar_link_timer_at(struct rar_member *m, u64 when)
{
	lockdep_assert_held(&m->tx_lock);
	if (READ_ONCE(m->dead) || (m->link_timer_us && m->link_timer_us <= when))
		return;
	if (!m->link_timer_us)
		refcount_inc(&m->ref);
	m->link_timer_us = when;
	hrtimer_start(&m->link_timer, ns_to_ktime(when * NSEC_PER_USEC), HRTIMER_MODE_ABS_SOFT);
}

/**
 * rar_link_stop() - stop the timer, which does not fire again
 * @m: member, dead
 */
void rar_link_stop(struct rar_member *m)
{
	bool armed;

	spin_lock_bh(&m->tx_lock);
	/* A timer that runs now finds the member dead, and drops its own reference. */
	armed = m->link_timer_us && hrtimer_try_to_cancel(&m->link_timer) == 1;
	if (armed)
		m->link_timer_us = 0;
	spin_unlock_bh(&m->tx_lock);
	if (armed)
		rar_member_put(m);
}

/* -- table of operations (tx_lock) --------------------------------------- */

/* The operation with number @seq, or NULL if it is not on the table. */
struct rar_operation *rar_link_op_at(struct rar_member *m, u64 seq)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[seq % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	return op && op->seq == seq ? op : NULL;
}

/* The operation of a transmission, or NULL if it is not on the table any more. */
struct rar_operation *rar_link_op_of(struct rar_member *m,
				     const struct rar_sent *sent)
{
	struct rar_operation *op;

	op = rcu_dereference_protected(m->ops[sent->op % RAR_MAX_OPS],
				       lockdep_is_held(&m->tx_lock));
	return op && (u32)op->seq == sent->op ? op : NULL;
}

/*
 * May the neighbour hold early chunks of the operation, which took credit? It holds none if
 * sums came back, because it has added to the sums.
 */
static bool op_lends(struct rar_link *link, struct rar_operation *op)
{
	return rar_link_out(link, op)->early_cost && op->seq >= link->tx.posted &&
	       !rar_plan_returns(&op->ring.plan);
}

/* Is all that a link sends of an operation acknowledged? */
static bool link_released(struct rar_link *link, struct rar_operation *op)
{
	const struct rar_out *out = rar_link_out(link, op);

	if (!out->owed.used || out->owed.up)
		return true;
	/* The neighbour may want any chunk until it has completed the operation. */
	if (out->owed.until_done)
		return op->seq < link->tx.done;
	return out->nacked == out->owed.ntx + out->owed.nback && !op_lends(link, op);
}

/* Send nothing more of an operation by a link. */
void rar_link_forget(struct rar_link *link, struct rar_operation *op)
{
	struct rar_out *out = rar_link_out(link, op);
	struct rar_link_tx *tx = &link->tx;
	u32 way;

	lockdep_assert_held(&link->member->tx_lock);
	for (way = RAR_RS; way < RAR_PHASES; way++) {
		if (!out->npend[way])
			continue;
		bitmap_zero(out->pend[way], op->ring.nchunks);
		tx->npend -= out->npend[way];
		out->npend[way] = 0;
	}
	tx->ninject -= out->inject_end - out->inject;
	out->inject = out->inject_end;
}

/* Will nothing be sent from the operation again? */
static bool op_released(struct rar_member *m, struct rar_operation *op)
{
	struct rar_link *link;

	rar_each_out(link, m)
		if (!link_released(link, op))
			return false;
	if (op->ring.plan.halving)
		rar_each_partner(link, m)
			if (!link_released(link, op))
				return false;
	return !op->peers && !atomic_read(&op->left);
}

/* Has a partner not acknowledged all that it gets of an operation? tx_lock. */
bool rar_link_owes(struct rar_link *link, struct rar_operation *op)
{
	return !link_released(link, op);
}

/* A partner left, and had completed an operation: it needs no more. tx_lock. */
void rar_link_left(struct rar_link *link, struct rar_operation *op)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 way;

	/* Acknowledgments that are still under way count no more. */
	for (way = RAR_RS; way < RAR_PHASES && out->owed.used; way++)
		bitmap_fill(out->acked[way], op->ring.nchunks);
	rar_link_forget(link, op);
	out->nacked = out->owed.ntx;
	rar_link_credit(link, max(link->tx.posted, op->seq + 1), 0,
			link->tx.credit);
	rar_link_try_release(link->member, op);
}

/**
 * rar_link_finished() - was there an operation such as another rank describes?
 * @m:      member, tx_lock held
 * @seq:    the operation's number, of one that was posted
 * @theirs: how the other rank describes it
 *
 * Return: false, too, if it was too long ago to know.
 */
bool rar_link_finished(struct rar_member *m, u64 seq,
		       const struct rar_fingerprint *theirs)
{
	lockdep_assert_held(&m->tx_lock);
	return m->history && seq + RAR_HISTORY > m->op_next &&
	       m->history[seq % RAR_HISTORY] == rar_fingerprint_hash(theirs);
}

/* Give back the credit that an operation took of a link. */
static void return_credit(struct rar_link *link, struct rar_operation *op)
{
	if (op->seq >= link->tx.posted)
		link->tx.early_used -= rar_link_out(link, op)->early_cost;
}

/* Take an operation off the table if it is released. Returns true if it is. */
bool rar_link_try_release(struct rar_member *m, struct rar_operation *op)
{
	struct rar_link *link;

	lockdep_assert_held(&m->tx_lock);
	if (!op_released(m, op) || rar_link_op_at(m, op->seq) != op)
		return false;

	rar_each_out(link, m) {
		if (op->ring.plan.aside)
			rar_link_forget(link, op);
		return_credit(link, op);
	}
	if (op->ring.plan.halving)
		rar_each_partner(link, m)
			return_credit(link, op);
	m->history[op->seq % RAR_HISTORY] = rar_fingerprint_hash(&op->fingerprint);
	RCU_INIT_POINTER(m->ops[op->seq % RAR_MAX_OPS], NULL);
	while (m->op_oldest < m->op_next && !rar_link_op_at(m, m->op_oldest))
		WRITE_ONCE(m->op_oldest, m->op_oldest + 1);
	m->ops_released++;
	trace_rar_release(m, op->seq, op->bytes);
	rar_op_unuse(op);
	return true;
}

/**
 * rar_link_release() - take a complete operation off the table if it is released
 * @m:  member
 * @op: operation, RCU read side
 */
void rar_link_release(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->tx_lock);
	rar_link_try_release(m, op);
	spin_unlock_bh(&m->tx_lock);
}

/* -- credit and contributions -------------------------------------------- */

/*
 * Take in what the neighbour advertises. Operations to which it has contributed in full give
 * their credit back. Such an operation may have waited only for that, so it may be released.
 */
void rar_link_credit(struct rar_link *link, u64 posted, u32 come, u32 credit)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;
	struct rar_operation *op;

	tx->credit = credit;
	if (tx->posted == posted)
		tx->come = max(tx->come, come);
	else if (tx->posted < posted)
		tx->come = come;
	while (tx->posted < posted) {
		if (tx->posted >= m->op_next) {
			tx->posted = posted;
			break;
		}
		op = rar_link_op_at(m, tx->posted++);
		if (!op || !rar_link_serves(link, op))
			continue;
		tx->early_used -= rar_link_out(link, op)->early_cost;
		rar_link_try_release(m, op);
	}
}

/*
 * Publish how much this rank has contributed: the operations that are whole, up to the first
 * one that is not, and of that one the chunks of each block. An operation that is off the
 * table is whole. A reader reads @op_whole first. So when it takes chunks of one operation
 * for chunks of the operation before, that one is whole. tx_lock.
 */
static void publish_whole(struct rar_member *m, u64 now)
{
	struct rar_operation *op = NULL;
	u64 whole = m->op_whole;

	while (whole < m->op_next) {
		op = rar_link_op_at(m, whole);
		if (op && op->come < op->ring.cpb)
			break;
		op = NULL;
		whole++;
	}
	if (whole != m->op_whole) {
		WRITE_ONCE(m->op_come, 0);
		/* Pairs with the acquire in rar_op_early(): a reader of the number finds
		 * the operations in the table, and no greater @op_come of an older one.
		 */
		smp_store_release(&m->op_whole, whole);
	}
	/* Pairs with the acquire in rar_op_early(). */
	smp_store_release(&m->op_come, op ? op->come : 0);
	rar_straggler_posted(m, now);
}

/* The first @n own chunks of an operation may be injected by a link. tx_lock. */
void rar_link_inject(struct rar_link *link, struct rar_operation *op, u32 n)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 end = out->owed.first + min(n, out->owed.own);

	link->tx.ninject += end - out->inject_end;
	out->inject_end = end;
}

/* The slot of a rank that has a direct link, as a bit. */
static u32 slot_bit(struct rar_member *m, u32 rank)
{
	struct rar_link *link = rar_member_direct(m, rank);

	return link ? rar_link_slot(link) : 0;
}

/* The slots of the ranks that a rank exchanges partial sums with. */
static void stage_slots(struct rar_member *m, struct rar_operation *op)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	struct rar_stage stage;
	u32 s;

	for (s = 0; s < st->n; s++) {
		stage = rar_stage(st, s);
		if (stage.sends)
			op->peers |= slot_bit(m, stage.peer);
		if (stage.takes)
			op->senders |= slot_bit(m, stage.peer);
	}
}

/* The slots of the ranks next to a rank in the tree of a broadcast. */
static void tree_slots(struct rar_member *m, struct rar_operation *op)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 stage = st->n, child;

	while ((child = rar_tree_child(st, &stage)) != RAR_NO_STAGE)
		op->peers |= slot_bit(m, child);
	op->senders = slot_bit(m, rar_tree_parent(st));
}

/* Find to which ranks an operation goes directly, and from which it comes. */
static void find_slots(struct rar_member *m, struct rar_operation *op)
{
	u32 root = op->fingerprint.root, all = 0;

	if (m->direct.all)
		all = GENMASK(m->size - 1, 0) & ~BIT(m->rank);
	op->peers = 0;		/* of an attempt that could not be posted */
	op->senders = 0;
	/* Chunks that have numbers are acknowledged one by one. */
	if (op->ring.plan.halving)
		return;
	if (op->ring.plan.tree) {
		tree_slots(m, op);
	} else if (op->ring.plan.doubling) {
		stage_slots(m, op);
	} else if (op->ring.plan.gathered) {
		op->peers = all;
		op->senders = all;
	} else if (m->rank == root) {
		op->peers = all;
	} else {
		op->senders = BIT(root);
	}
}

/**
 * rar_link_post() - put an operation on the table
 * @m:  member, its lock is held
 * @op: operation; the caller has taken the table's reference
 */
void rar_link_post(struct rar_member *m, struct rar_operation *op)
{
	struct rar_link *link;

	spin_lock(&m->tx_lock);
	op->posted_us = rar_now_us();
	atomic_set(&op->users, 1);
	op->come = op->later ? 0 : op->ring.cpb;
	if (op->ring.plan.direct && !op->keyed)
		find_slots(m, op);
	rar_each_out(link, m) {
		rar_window_post(link, op);
		if (!op->ring.plan.aside)
			rar_link_inject(link, op, op->come);
	}
	if (op->ring.plan.aside)
		m->aside->post(m, op);
	rcu_assign_pointer(m->ops[op->seq % RAR_MAX_OPS], op);
	WRITE_ONCE(m->op_next, op->seq + 1);
	if (!op->later)
		publish_whole(m, op->posted_us);
	spin_unlock(&m->tx_lock);
}

/**
 * rar_link_contributed() - note that more of an operation is contributed
 * @m:    member
 * @op:   operation, posted with @later set
 * @come: chunks of each block that lie in its buffer; all chunks in the last call
 *
 * Process context, one call at a time for an operation. The caller calls rar_post_open(), for
 * this operation and for those after it that were posted meanwhile.
 */
void rar_link_contributed(struct rar_member *m, struct rar_operation *op, u32 come)
{
	struct rar_link *link;
	bool posted;
	u32 before;
	u64 now;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	before = op->come;
	WRITE_ONCE(op->come, come);
	/* Unless the group has failed. */
	posted = rar_link_op_at(m, op->seq) == op;
	if (posted && op->ring.plan.aside)
		m->aside->contributed(m, op, before);
	else if (posted)
		rar_each_out(link, m)
			rar_link_inject(link, op, come);
	/* After a lead the others do not wait for this rank. */
	if (come == op->ring.cpb && !op->ring.lead)
		WRITE_ONCE(op->posted_us, now);
	publish_whole(m, now);
	spin_unlock_bh(&m->tx_lock);
}

/* Count chunks that came, and for how long they were missing, for RAR_INFO. tx_lock held. */
void rar_link_account(struct rar_member *m, const struct rar_operation *op,
		      const struct rar_arrival *a)
{
	/* Another CPU may have been here since the clock was read. */
	s64 gap = a->now_us - max(m->came_us, op->posted_us);

	m->rx_packets += hweight64(a->won);
	m->rx_bytes += rar_op_bytes(op, &a->run, a->won);
	if (gap > LINK_STARVED_US)
		m->starved_us += gap;
	m->came_us = max(m->came_us, a->now_us);
}

/* Note that chunks have arrived: what follows for the account and the credit. tx_lock held. */
static void note_arrival(struct rar_link *link, struct rar_operation *op,
			 const struct rar_arrival *a)
{
	const struct rar_plan *plan = &op->ring.plan;
	struct rar_member *m = link->member;
	const struct rar_run *run = &a->run;
	struct rar_link_tx *tx = &link->tx;

	rar_link_account(m, op, a);
	/* A sum of all ranks proves that the neighbour, too, has posted the operation. */
	if (rar_plan_adds(plan) && rar_plan_completes(plan, run->phase, a->c.block))
		rar_link_credit(link, max(tx->posted, op->seq), 0, tx->credit);
	/* The neighbour's contribution proves that it has posted the operation. */
	if (plan->gathered && link->rank == a->link->rank)
		rar_link_credit(link, max(tx->posted, op->seq + 1), 0, tx->credit);
	if (plan->halving && rar_link_is_direct(a->link))
		rar_link_credit(a->link, max(a->link->tx.posted, op->seq + 1),
				0, a->link->tx.credit);
	if (rar_plan_summed(plan, run->phase)) {
		/* The sum went round, so the neighbour had the RS chunks of this rank. */
		rar_out_acked(link, op, RAR_RS, run->chunk, a->won);
		if (a->c.block == rar_plan_own(plan))
			rar_window_returned(link, op, run->chunk, rar_op_bytes(op, run, a->won),
					    a->now_us);
	}
}

/**
 * rar_link_passed() - note that chunks arrived here and at the successor, too
 * @link: link to the successor, which is in this namespace
 * @op:   operation, RCU read side
 * @a:    the run, which is published here and there
 *
 * As rar_link_publish().
 */
void rar_link_passed(struct rar_link *link, struct rar_operation *op, const struct rar_arrival *a)
{
	enum rar_phase next = rar_plan_next(&op->ring.plan, a->run.phase, a->c.block);
	struct rar_member *m = link->member;
	u64 released;

	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	note_arrival(link, op, a);
	if (next != RAR_PHASES) {
		trace_rar_tx(m, op->seq, next, a->run.chunk, a->bytes);
		link->tx.packets += a->run.n;
		link->tx.bytes += a->bytes;
		rar_out_acked(link, op, next, a->run.chunk, a->won);
	}
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
}

/**
 * rar_link_publish() - note that received chunks are in the buffer, and let them go on
 * @link: link by which the chunks go on
 * @op:   operation, RCU read side
 * @a:    the run, whose new chunks are published
 * @item: set if the packet that brought the run goes on; NULL if it must not
 *
 * Softirq, or process context with bottom halves off. The caller calls rar_link_published()
 * afterwards.
 *
 * Return: true if the packet goes on as @item. The caller then drops the reference of @item
 * to the operation.
 */
bool rar_link_publish(struct rar_link *link, struct rar_operation *op,
		      const struct rar_arrival *a, struct rar_tx_item *item)
{
	const struct rar_plan *plan = &op->ring.plan;
	const struct rar_run *run = &a->run;
	enum rar_phase next = rar_plan_next(plan, run->phase, a->c.block);
	struct rar_member *m = link->member;
	struct rar_run out = *run;
	u64 released;
	bool forward = false;

	out.phase = next;
	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	note_arrival(link, op, a);
	if (next != RAR_PHASES) {
		forward = item && rar_pick_forward(link, op, &out, item, a->now_us);
		if (!forward)
			rar_out_pend(link, op, next, run->chunk, a->won);
	}
	if (rar_link_out(link, op)->owed.nback && run->phase == RAR_RS && next == RAR_AG)
		rar_out_pend(link, op, RAR_BACK, run->chunk, a->won);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
	return forward;
}

/**
 * rar_link_published() - count received chunks of the result, after the packet has gone on
 * @m:  member
 * @op: operation, RCU read side
 * @a:  the run, whose new chunks are published
 *
 * The caller calls rar_push() before or after.
 *
 * Return: true if the operation is complete here.
 */
bool rar_link_published(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a)
{
	int left, wake;

	if (!a->won || !rar_plan_last(&op->ring.plan, a->run.phase, a->c.block))
		return false;
	/* A full barrier; pairs with the barrier in rar_copy_out(). */
	left = atomic_sub_return(hweight64(a->won), &op->left);
	wake = READ_ONCE(op->wake_left);
	if (left && left <= wake && cmpxchg(&op->wake_left, wake, -1) == wake)
		rar_member_wake(m);
	return !left;
}

/**
 * rar_link_local_drop() - slow down, because a queue of this host did not take a packet
 * @link: link by which the packet went; no lock held
 *
 * The packet counts as sent, and loss.c will find it lost.
 */
void rar_link_local_drop(struct rar_link *link)
{
	spin_lock_bh(&link->member->tx_lock);
	rar_window_full(&link->tx);
	spin_unlock_bh(&link->member->tx_lock);
}

/* -- begin and end ------------------------------------------------------- */

/**
 * rar_link_new() - make a link of a member
 * @m:     member that has no such link
 * @index: enum rar_link_index
 * @rank:  at its other end, or RAR_BOX_RANK
 * @gfp:   how to allocate
 *
 * Any context that @gfp allows. Packets that come meanwhile find the link as
 * soon as it is there.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_link_new(struct rar_member *m, u32 index, u32 rank, gfp_t gfp)
{
	bool leg = index >= RAR_LEG && index < RAR_OUTS;
	struct rar_link *link;

	BUILD_BUG_ON(offsetof(struct rar_leg, link));
	link = kzalloc(leg ? sizeof(struct rar_leg) : sizeof(*link), gfp);
	if (!link)
		return -ENOMEM;
	if (index != RAR_NEXT)
		link->rx.seen = bitmap_zalloc(RAR_RX_WIN, gfp);
	if ((index != RAR_NEXT && !link->rx.seen) ||
	    dst_cache_init(&link->path.cache, gfp)) {
		bitmap_free(link->rx.seen);
		kfree(link);
		return -ENOMEM;
	}
	link->member = m;
	link->index = index;
	link->out = index;
	link->rank = rank;
	spin_lock_init(&link->rx.lock);
	/* Pairs with the address dependency in rar_member_next(). */
	smp_store_release(&m->link[index], link);
	return 0;
}
EXPORT_SYMBOL_GPL(rar_link_new);

/**
 * rar_link_init() - make the links of a new member to its neighbours
 * @m:    member, zeroed
 * @next: rank of its successor, or RAR_BOX_RANK
 * @prev: rank of its predecessor, or RAR_BOX_RANK
 *
 * Process context.
 *
 * Return: 0 or -ENOMEM; then there are none.
 */
int rar_link_init(struct rar_member *m, u32 next, u32 prev)
{
	int err;

	spin_lock_init(&m->tx_lock);
	err = rar_link_new(m, RAR_NEXT, next, GFP_KERNEL_ACCOUNT) ?:
	      rar_link_new(m, RAR_PREV, prev, GFP_KERNEL_ACCOUNT);
	if (err)
		rar_link_free(m);
	return err;
}

/**
 * rar_link_free() - free all links of a member, and its history
 * @m: member that nobody finds any more; it may have none
 *
 * Process context.
 */
void rar_link_free(struct rar_member *m)
{
	struct rar_link *link;
	u32 i;

	for (i = 0; i < RAR_LINKS; i++) {
		link = m->link[i];
		if (!link)
			continue;
		rar_device_set(m->rn, &link->hook, 0);
		rar_rail_free(link);
		dst_cache_destroy(&link->path.cache);
		kfree(link->tx.sent);
		bitmap_free(link->rx.seen);
		kfree(link);
		m->link[i] = NULL;
	}
	kfree(m->history);
	m->history = NULL;
}
EXPORT_SYMBOL_GPL(rar_link_free);

/**
 * rar_link_early() - the bytes that chunks may cost which come early by a link
 * @link: link by which chunks come, or will
 *
 * More than LINK_EARLY peers by halving share what so many may have: the
 * packets held may take several times early_bytes, see early.c.
 */
u32 rar_link_early(const struct rar_link *link)
{
	u64 bytes = READ_ONCE(link->member->rn->sysctl_early_bytes);
	u32 peers = hweight64(link->member->direct.partners);

	if (rar_link_is_direct(link) && peers > LINK_EARLY)
		bytes = div_u64(bytes * LINK_EARLY, peers);
	return bytes;
}

/**
 * rar_link_start() - prepare to send by a link when a new epoch begins
 * @link: link of a member whose payload is agreed; bottom halves are off
 */
void rar_link_start(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_link_tx *tx = &link->tx;

	/* The payload decides how many chunks a superpacket holds: look up the route again. */
	dst_cache_reset(&link->path.cache);
	WRITE_ONCE(link->path.run_max, 1);
	spin_lock(&m->tx_lock);
	tx->credit = rar_link_early(link) / 2;
	tx->sent_us = rar_now_us();
	tx->frames_off = jiffies;
	rar_carry_start(link);
	rar_lane_start(link);
	rar_window_init(link);
	spin_unlock(&m->tx_lock);
}

/* Forget the packets in flight, and the chunks that wait. */
void rar_link_flush_tx(struct rar_link *link)
{
	struct rar_link_tx *tx = &link->tx;

	lockdep_assert_held(&link->member->tx_lock);
	tx->npend = 0;
	tx->nback = 0;
	tx->ninject = 0;
	tx->una = tx->next_seq;
	tx->inflight = 0;
}

/**
 * rar_link_flush() - forget all operations
 * @m: member, failed or at its end
 */
void rar_link_flush(struct rar_member *m)
{
	struct rar_operation *op;
	struct rar_link *link;
	int i;

	spin_lock_bh(&m->tx_lock);
	for (i = 0; i < RAR_MAX_OPS; i++) {
		op = rcu_dereference_protected(m->ops[i],
					       lockdep_is_held(&m->tx_lock));
		RCU_INIT_POINTER(m->ops[i], NULL);
		if (op)
			rar_op_unuse(op);
	}
	m->op_oldest = m->op_next;
	rar_each_link(link, m)
		rar_link_flush_tx(link);
	rar_each_partner(link, m)
		rar_link_flush_tx(link);
	spin_unlock_bh(&m->tx_lock);
}

/**
 * rar_link_bury() - forget all operations and all packets in flight
 * @m: member that sends nothing any more
 */
void rar_link_bury(struct rar_member *m)
{
	struct rar_link *link;

	rar_link_flush(m);
	rar_each_link(link, m)
		rar_link_free_slots(link);
	rar_each_partner(link, m)
		rar_link_free_slots(link);
}
