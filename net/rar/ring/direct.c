// SPDX-License-Identifier: GPL-2.0
/*
 * The direct exchange of short operations: each rank sends what it contributes
 * straight to every other rank (DIRECT), in one hop. Every rank adds in rank
 * order (core/gather.c), so the bits are those of the ring. In a broadcast only
 * the root sends. By doubling partial sums go to one rank after another
 * (doubling.c); and a broadcast may go by a tree, in which each rank sends it
 * on to its children as it comes.
 *
 * No rank remembers what it has sent to which rank. Two facts about the operations on the
 * table are enough, and both can be read off the table at any moment:
 *
 *  - The operations that are complete here. Each packet names those among RAR_MAX_OPS
 *    operations. A rank where an operation is complete needs no more chunks of it, so the name
 *    of the operation acknowledges the chunks of all ranks at once. A rank that has nothing
 *    else to send names them in a DONE, within RAR_ACK_DELAY_US.
 *  - The chunks that have not come here. A rank that waits for them asks for them (DONE with
 *    RAR_DF_ASK; ask.c). It also asks if it needs to know that an operation
 *    is complete at another rank. The answer is a DONE, and the missing chunks.
 *
 * So a chunk is repeated only if a rank asks for it. An operation stays complete, and a chunk
 * that came stays here. So a packet that is late or comes twice does no harm.
 * selftests/model/direct.pml is a model of this.
 *
 * DIRECT_WINDOW bounds the bytes that are on their way to one rank: at most so many bytes, of
 * all ranks together, belong to operations that were sent and are not complete here. No
 * packet is on its way to this rank any more for an operation that is complete here.
 */
#include "core/halving.h"
#include "core/keyed.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/ring.h"
#include "link/ack.h"
#include "link/lane.h"
#include "link/link.h"
#include "rar.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/doubling.h"
#include "ring/fail.h"
#include "ring/halving.h"
#include "ring/peer.h"
#include "tx/control.h"
#include "tx/run.h"
#include "tx/sender.h"

#define DIRECT_WINDOW		(128 << 10)	/* bytes */

/* -- peers ---------------------------------------------------------------- */

static struct rar_direct_peer *peer_of(struct rar_link *link)
{
	return container_of(link, struct rar_direct_peer, link);
}

static u32 slot_of(struct rar_link *link)
{
	return peer_of(link) - link->member->direct.peer;
}

/* Does a rank get something of an operation that has no numbers? */
static bool goes_to(const struct rar_operation *op, const struct rar_link *link)
{
	return READ_ONCE(op->peers) & rar_link_slot(link);
}

/* Find the peers by halving, if anything goes so, and open their links. */
static void start_partners(struct rar_member *m)
{
	struct rar_partners partners = { };
	struct rar_link *link;
	u64 slots = 0;
	u32 i;

	if (m->direct.halving_below)
		rar_halves_partners(m->size, m->rank, &partners);
	for (i = 0; i < partners.n; i++) {
		link = rar_member_direct(m, partners.rank[i]);
		if (!link)
			continue;
		slots |= rar_link_slot(link);
		link->out = rar_outs(m) + i;
	}
	WRITE_ONCE(m->direct.partners, slots);
	rar_each_partner(link, m)
		rar_link_start(link);
}

/**
 * rar_direct_start() - prepare the direct exchange when a new epoch begins
 * @m: member in READY, @m->lock held
 */
void rar_direct_start(struct rar_member *m)
{
	struct rar_direct *d = &m->direct;
	u32 i;

	spin_lock(&m->tx_lock);
	d->next = 0;
	d->running = 0;
	d->news = 0;
	d->news_us = 0;
	d->keyed = false;
	for (i = 0; d->peer && i < d->n; i++) {
		/* As rar_link_start(): the payload is known now. */
		dst_cache_reset(&d->peer[i].link.path.cache);
		WRITE_ONCE(d->peer[i].link.path.run_max, 1);
		d->peer[i].ask_us = 0;
		d->peer[i].asked_us = 0;
		d->peer[i].backoff = 0;
		d->peer[i].full_lost = 0;
		d->peer[i].full_seq = 0;
		d->peer[i].full_missing = 0;
	}
	spin_unlock(&m->tx_lock);
	start_partners(m);
}

/* -- facts ---------------------------------------------------------------- */

/* The operations that are complete here: on the table, or taken off it. tx_lock. */
static struct rar_known known(struct rar_member *m)
{
	struct rar_known known = { .base = m->op_oldest };
	const struct rar_operation *op;
	u64 seq;

	for (seq = m->op_oldest; seq < m->op_next; seq++) {
		op = rar_link_op_at(m, seq);
		if (!op || !atomic_read(&op->left))
			known.map |= 1ULL << (seq - known.base);
	}
	return known;
}

static void runs_no_more(struct rar_member *m, struct rar_operation *op)
{
	m->direct.running -= op->direct_runs;
	op->direct_runs = false;
}

/* The chunks that a rank sends here in an operation: the first, and how many. */
static u32 chunks_from(const struct rar_operation *op, u32 rank, u32 *n)
{
	const struct rar_plan *plan = &op->ring.plan;
	u32 from = plan->tree ? rar_tree_parent(&plan->stages) :
				op->fingerprint.root;
	u32 block = plan->doubling ? rar_stage_from(&plan->stages, rank) :
		    plan->gathered ? rank :
		    rank == from ? 0 : RAR_NO_BLOCK;

	*n = rar_ring_block_chunks(&op->ring, block);
	return rar_ring_block_first(&op->ring, block);
}

/*
 * The chunks that this rank can send to a rank in an operation: the first one
 * of their block, and a bit each.
 */
static u32 chunks_to(const struct rar_operation *op, u32 rank, u64 *mask)
{
	const struct rar_plan *plan = &op->ring.plan;
	u32 block = plan->gathered ? rar_plan_own(plan) : 0, stage;
	struct rar_run run = { .phase = RAR_AG };

	if (plan->doubling) {
		stage = rar_stage_to(&plan->stages, rank);
		*mask = stage == RAR_NO_STAGE ? 0 :
						rar_doubling_made(op, stage);
		block = rar_plan_partial(plan, stage);
		return rar_ring_block_first(&op->ring, block);
	}
	run.chunk = rar_ring_block_first(&op->ring, block);
	run.n = rar_ring_block_chunks(&op->ring, block);
	*mask = rar_mask(run.n);
	/* What a rank of a tree passes on has to come first. */
	if (block != rar_plan_own(plan))
		*mask = rar_op_published(op, &run, *mask);
	return run.chunk;
}

/*
 * The chunks of full size that this rank sends to each rank, a bit each: all,
 * or all but the last.
 */
static u64 full_chunks(const struct rar_member *m, const struct rar_operation *op)
{
	const struct rar_plan *plan = &op->ring.plan;
	u32 own = plan->gathered ? rar_plan_own(plan) : 0;
	u32 n = rar_ring_block_chunks(&op->ring, own);
	u32 first = rar_ring_block_first(&op->ring, own);
	struct rar_chunk last;

	if (!n)
		return 0;
	rar_ring_chunk(&op->ring, first + n - 1, &last);
	return rar_mask(last.len == m->payload ? n : n - 1);
}

/* A rank needs no more chunks of an operation, which may release the operation. tx_lock. */
static void served(struct rar_member *m, struct rar_operation *op, u32 slot)
{
	op->peers &= ~BIT_ULL(slot);
	if (op->direct_sent && full_chunks(m, op))
		m->direct.peer[slot].full_lost = 0;
	if (op->peers)
		return;
	/* At the root of a broadcast the operation is complete from the beginning. */
	if (!atomic_read(&op->left))
		runs_no_more(m, op);
	rar_link_try_release(m, op);
}

/*
 * Take in which operations are complete at a rank. @base may be its low 32 bits: ranks are
 * RAR_MAX_OPS operations apart at most. tx_lock.
 */
static void take_known(struct rar_member *m, u32 slot, u32 base, u64 map)
{
	struct rar_operation *op;
	u64 seq, end = m->op_next;
	s32 at;

	for (seq = m->op_oldest; seq < end; seq++) {
		op = rar_link_op_at(m, seq);
		/* Chunks of a stream are acknowledged one by one, see keyed.c. */
		if (!op || op->keyed || !(op->peers & BIT_ULL(slot)))
			continue;
		at = (s32)((u32)seq - base);
		if (at < 0 || (at < 64 && map & (1ULL << at)))
			served(m, op, slot);
	}
}

/* The chunks of a rank that have not come here, a bit each. tx_lock. */
u64 rar_direct_lacks(const struct rar_operation *op, u32 rank)
{
	u32 n, first = chunks_from(op, rank, &n);
	u64 mask = rar_mask(n);

	if (!n || op->keyed || !atomic_read(&op->left) || op->ring.plan.halving)
		return 0;
	/* A peer is hardly in a stage before this rank is. */
	if (op->ring.plan.doubling && !op->ring.plan.stages.gets)
		mask &= rar_doubling_made(op, first / op->ring.cpb);
	return mask & ~rar_bits_get(op->claimed[RAR_AG], first, mask);
}

/**
 * rar_direct_concerns() - does a rank need anything of an operation, or send it
 * @m:    member, RCU read side
 * @op:   operation that goes directly, or keyed
 * @rank: the other rank
 *
 * Any context.
 *
 * Return: false if nothing more passes between the two.
 */
bool rar_direct_concerns(struct rar_member *m, struct rar_operation *op,
			 u32 rank)
{
	struct rar_link *link = rar_member_direct(m, rank);
	u32 n, first;
	u64 all;

	if (!link)
		return false;
	if (op->ring.plan.halving)
		return rar_halving_waits(m, op, link);
	if (goes_to(op, link))
		return true;
	if (op->keyed || !atomic_read(&op->left))
		return false;
	first = chunks_from(op, rank, &n);
	all = rar_mask(n);
	return n && rar_bits_get(op->claimed[RAR_AG], first, all) != all;
}

/* -- sending -------------------------------------------------------------- */

/* May another operation be on its way? tx_lock. */
static bool may_run(const struct rar_member *m, const struct rar_operation *op)
{
	u32 send = op->ring.plan.gathered ? 0 : hweight32(op->peers);
	u64 bytes = op->bytes * (max(hweight32(op->senders), send) + 1);

	return !m->direct.running || op->ring.plan.halving ||
	       (m->direct.running + 1) * bytes <= DIRECT_WINDOW;
}

/* A broadcast of another rank: this one waits for it. tx_lock. */
static void await_root(struct rar_member *m, const struct rar_operation *op)
{
	const struct rar_plan *plan = &op->ring.plan;

	if (plan->direct && !plan->gathered && op->senders &&
	    atomic_read(&op->left))
		rar_peer_expect(&m->direct.peer[__ffs(op->senders)].link);
}

/* rar_peer_watch() for ranks in these slots. tx_lock. */
static void watch_all(struct rar_member *m, u32 slots)
{
	u64 now = rar_now_us();

	for (; slots; slots &= slots - 1)
		rar_peer_watch(&m->direct.peer[__ffs(slots)], now);
}

/* Does this rank send anything of an operation directly? */
static bool goes_directly(const struct rar_operation *op)
{
	return op->peers || op->ring.plan.doubling || op->ring.plan.halving;
}

/* The next operation to send, referenced; NULL if none may go. tx_lock. */
static struct rar_operation *next_op(struct rar_member *m)
{
	struct rar_direct *d = &m->direct;
	struct rar_operation *op;

	d->next = max(d->next, m->op_oldest);
	/* As own chunks of the ring: none goes behind one that is not contributed in full. */
	for (; d->next < m->op_whole; d->next++) {
		op = rar_link_op_at(m, d->next);
		if (op)
			await_root(m, op);
		if (!op || op->direct_sent || op->keyed || !goes_directly(op))
			continue;
		if (!may_run(m, op) ||
		    !rar_sender_room(m, m->link[RAR_NEXT]->path.dst.af))
			return NULL;
		d->next++;
		op->direct_runs = !op->ring.plan.halving;
		d->running += op->direct_runs;
		/* A full barrier, which pairs with the one in pass_on(). */
		smp_store_mb(op->direct_sent, true);
		refcount_inc(&op->ref);
		rar_op_use(op);
		return op;
	}
	return NULL;
}

/*
 * Send a run to a rank. @again: perhaps its lane lost it. A packet that a queue
 * of this host refuses is asked for, as a lost one.
 */
static void send_run(struct rar_link *link, struct rar_operation *op,
		     const struct rar_run *run, const struct rar_known *told,
		     bool again)
{
	struct rar_member *m = link->member;
	struct rar_tx_item item = { .op = op, .run = *run };

	spin_lock_bh(&m->tx_lock);
	item.known = told ? *told : known(m);
	if (!told)
		m->direct.news &= ~rar_link_slot(link);
	item.lane = rar_lane_any(link, &item.run, again);
	spin_unlock_bh(&m->tx_lock);
	if (rar_run_send(link, &item) == -EMSGSIZE)
		rar_fail_sent(link, op->seq, -EMSGSIZE);
}

/*
 * Send the chunks of @mask, of one block, to a rank. Bit 0 is chunk @first.
 * @told: the operations that are complete here; NULL: find them for each run.
 */
static void send_mask(struct rar_link *link, struct rar_operation *op,
		      u32 first, u64 mask, const struct rar_known *told,
		      bool again)
{
	u32 most = READ_ONCE(link->path.run_max);
	struct rar_run run = { .phase = RAR_AG };
	bool sent = mask;
	u32 at;

	for (; mask; mask &= ~(rar_mask(run.n) << at)) {
		at = __ffs64(mask);
		run.chunk = first + at;
		run.n = min(rar_mask_run(mask >> at), most);
		send_run(link, op, &run, told, again);
	}
	if (sent)
		rar_mib_inc(link->member->rn, TxDirect);
}

/* Send the chunks of @mask to a rank, except those that are not here yet. */
static void send_chunks(struct rar_link *link, struct rar_operation *op, u64 mask,
			const struct rar_known *told, bool again)
{
	u64 can;
	u32 first = chunks_to(op, link->rank, &can);

	mask &= can;
	if (again)
		rar_mib_add(link->member->rn, TxRetrans, hweight64(mask));
	send_mask(link, op, first, mask, told, again);
}

/*
 * Choose the next operation to send. Return: the operation, referenced; NULL if
 * none may go. Sets @peers to the slots that need it, a bit each, and @told.
 * @first: this is the first call by a rar_direct_push(). If another push is
 * under way, it leaves the rest to that push, which looks again before it ends.
 * Otherwise the stack would grow: sending may complete an operation, this lets
 * the next one go, and so on.
 */
static struct rar_operation *pick(struct rar_member *m, bool first, u32 *peers,
				  struct rar_known *told)
{
	struct rar_direct *d = &m->direct;
	struct rar_operation *op;
	u32 watched = 0;

	spin_lock_bh(&m->tx_lock);
	if (first && d->pushing) {
		spin_unlock_bh(&m->tx_lock);
		return NULL;
	}
	op = next_op(m);
	d->pushing = op;
	if (op) {
		*told = known(m);
		*peers = op->peers;
		/* By doubling, or in a tree, most of them get nothing yet. */
		watched = op->ring.plan.doubling ||
			  (op->ring.plan.tree && op->senders) ? 0 : *peers;
		d->news &= ~watched;
	}
	watch_all(m, watched);
	spin_unlock_bh(&m->tx_lock);
	return op;
}

/* Send what this rank contributes, or has of a broadcast, to its peers. */
static void send_to(struct rar_member *m, struct rar_operation *op, u32 peers,
		    const struct rar_known *told)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 n = m->direct.n, i, slot, stage = st->n, child;

	if (op->ring.plan.tree) {
		while ((child = rar_tree_child(st, &stage)) != RAR_NO_STAGE)
			send_chunks(rar_member_direct(m, child), op, ~0ULL,
				    told, false);
		return;
	}
	/*
	 * Each rank begins with its successor, so that they do not all send to
	 * one rank.
	 */
	for (i = 1; i < n; i++) {
		slot = (m->rank + i) % n;
		if (peers & BIT(slot))
			send_chunks(&m->direct.peer[slot].link, op, ~0ULL, told,
				    false);
	}
}

/*
 * This rank has chunks of the partial sum before a stage: send them, if this
 * rank sends in that stage. @mask: from the tensor's chunk @nth on, a bit each.
 */
static void enter_stage(struct rar_member *m, struct rar_operation *op,
			u32 stage, u32 nth, u64 mask)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	struct rar_stage in = { };
	struct rar_link *link;

	if (stage < st->n)
		in = rar_stage(st, stage);
	if (!in.sends && !in.takes)
		return;
	link = rar_member_direct(m, in.peer);
	spin_lock_bh(&m->tx_lock);
	rar_peer_expect(link);
	spin_unlock_bh(&m->tx_lock);
	if (in.sends)
		send_mask(link, op, rar_doubling_chunk(op, stage, nth), mask,
			  NULL, false);
}

/*
 * By doubling: count chunks of the last partial sum, or of the sum that comes,
 * and complete the operation if they were the last ones.
 */
static void count(struct rar_member *m, struct rar_operation *op, u32 n)
{
	/* A full barrier; pairs with the barrier in rar_copy_out(). */
	if (!atomic_sub_return(n, &op->left))
		rar_done(m, op);
}

/*
 * Let chunks go through the stages from @stage on, as far as they can. @mask:
 * from the tensor's chunk @nth on, a bit each.
 */
static void advance(struct rar_member *m, struct rar_operation *op, u32 stage,
		    u32 nth, u64 mask)
{
	const struct rar_stages *st = &op->ring.plan.stages;

	while (stage < st->last) {
		mask = rar_doubling_make(m, op, stage, nth, mask);
		if (!mask)
			return;
		enter_stage(m, op, ++stage, nth, mask);
	}
	if (!st->gets && rar_stages_wait(st))
		count(m, op, hweight64(mask));
}

/* This rank has contributed: begin with its first stage. */
static void begin(struct rar_member *m, struct rar_operation *op)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u64 all = rar_mask(op->ring.cpb);

	rar_doubling_publish(op, st->first);
	enter_stage(m, op, st->first, 0, all);
	advance(m, op, st->first, 0, all);
}

/* The same by halving. If only this rank was missing that completes it. */
static void begin_halving(struct rar_member *m, struct rar_operation *op)
{
	if (rar_halving_begin(m, op))
		rar_done(m, op);
}

/*
 * Send chunks of a broadcast on to the children in its tree. Before this rank
 * begins with the operation, next_op() and send_to() do that.
 */
static void pass_on(struct rar_member *m, struct rar_operation *op, u32 chunk,
		    u64 mask)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	u32 stage = st->n, child;

	/* The chunks were published before. Pairs with next_op(). */
	smp_mb();
	if (!READ_ONCE(op->direct_sent))
		return;
	while ((child = rar_tree_child(st, &stage)) != RAR_NO_STAGE)
		send_mask(rar_member_direct(m, child), op, chunk, mask, NULL,
			  false);
}

/**
 * rar_direct_come() - go on with chunks that have come in a stage
 * @m:     member in RUN or LEAVING, RCU read side; no lock held
 * @op:    by doubling, or by a tree
 * @chunk: the first one of a run
 * @won:   those that were published just now, a bit each; at least one
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_direct_come(struct rar_member *m, struct rar_operation *op, u32 chunk,
		     u64 won)
{
	/*
	 * Keep the buffer, as the operation may be complete before the packet
	 * is built. If there is no reference to be had, the group has failed.
	 */
	if (!refcount_inc_not_zero(&op->ref))
		return;
	rar_op_use(op);
	if (op->ring.plan.tree)
		pass_on(m, op, chunk, won);
	else if (op->ring.plan.stages.gets)
		count(m, op, hweight64(won));
	else
		advance(m, op, chunk / op->ring.cpb, chunk % op->ring.cpb, won);
	if (rar_op_unuse(op))
		rar_member_wake(m);
}

/**
 * rar_direct_push() - send the operations that may go directly now
 * @m: member in RUN or LEAVING, RCU read side; no lock held
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_direct_push(struct rar_member *m)
{
	struct rar_operation *op;
	struct rar_known told;
	bool first = true;
	u32 peers;

	/* A caller that lets an operation go pushes it, so a stale read is harmless. */
	if (!m->direct.paired || READ_ONCE(m->direct.next) >= READ_ONCE(m->op_whole))
		return;
	for (; (op = pick(m, first, &peers, &told)); first = false) {
		if (op->ring.plan.doubling)
			begin(m, op);
		else if (op->ring.plan.halving)
			begin_halving(m, op);
		else
			send_to(m, op, peers, &told);
		if (rar_op_unuse(op))
			rar_member_wake(m);
	}
}

/* Complete a DONE with the operations that are complete here, and send it. */
static void send_done(struct rar_link *link, const struct rar_known *told,
		      struct rar_done_hdr *dh)
{
	dh->below = cpu_to_be64(told->base);
	dh->map = cpu_to_be64(told->map);
	rar_control_send(link, dh, sizeof(*dh), 0, RAR_T_DONE,
			 link->member->epoch);
}

/**
 * rar_direct_send_done() - send a DONE
 * @link: direct link, of a member in RUN or LEAVING
 * @dh:   its fields from @op_seq on; the rest is filled here
 *
 * Softirq, or process context with bottom halves off. No lock held.
 */
void rar_direct_send_done(struct rar_link *link, struct rar_done_hdr *dh)
{
	struct rar_member *m = link->member;
	struct rar_known told;

	spin_lock_bh(&m->tx_lock);
	told = known(m);
	spin_unlock_bh(&m->tx_lock);
	send_done(link, &told, dh);
}

/* Tell the ranks of these slots what is complete here. No lock held. */
void rar_direct_tell(struct rar_member *m, u64 slots)
{
	struct rar_known told;
	u32 slot;

	spin_lock_bh(&m->tx_lock);
	told = known(m);
	m->direct.news &= ~slots;
	spin_unlock_bh(&m->tx_lock);
	for (slot = 0; slot < m->direct.n; slot++)
		if (slots & BIT_ULL(slot))
			send_done(&m->direct.peer[slot].link, &told,
				  &(struct rar_done_hdr) { });
}

/**
 * rar_direct_done() - let the other ranks know that an operation is complete here
 * @m:  member, RCU read side; no lock held
 * @op: complete operation that went directly
 *
 * Softirq, or process context with bottom halves off.
 */
void rar_direct_done(struct rar_member *m, struct rar_operation *op)
{
	bool gathered = op->ring.plan.gathered;

	if (op->keyed)
		return;
	spin_lock_bh(&m->tx_lock);
	/*
	 * The packets of a broadcast, or of a reduction to a root, are on their
	 * way until the other ranks have them.
	 */
	if ((gathered && !op->ring.plan.stages.rooted) || !op->peers) {
		runs_no_more(m, op);
	} else {
		/* Nothing else makes this rank ask whether they have it. */
		watch_all(m, op->peers);
	}
	if (gathered && op->senders) {
		m->direct.news |= op->senders;
		if (!m->direct.news_us)
			m->direct.news_us = rar_now_us() + RAR_ACK_DELAY_US;
		rar_link_timer_at(m, m->direct.news_us);
	}
	spin_unlock_bh(&m->tx_lock);
	/* This rank sends nothing else that would tell the root, or parent. */
	if (!gathered && op->senders)
		rar_direct_tell(m, op->senders);
	rar_direct_push(m);
}

/* -- receiving ------------------------------------------------------------ */

/**
 * rar_direct_hear() - a rank is alive, and tells which operations are complete there
 * @link:  to the rank, of a member in RUN or LEAVING
 * @base:  all operations below are complete, low 32 bits
 * @map:   bit n: operation @base + n is complete, too
 * @chunk: it sent a chunk; while its chunks come, it is not asked for others
 *
 * Softirq.
 */
void rar_direct_hear(struct rar_link *link, u32 base, u64 map, bool chunk)
{
	struct rar_direct_peer *peer = peer_of(link);
	struct rar_member *m = link->member;
	u64 released;

	spin_lock_bh(&m->tx_lock);
	released = m->ops_released;
	peer->asked_us = 0;
	if (chunk && peer->ask_us) {
		peer->ask_us = rar_now_us() + peer->rto_us;
		peer->backoff = 0;
	}
	take_known(m, slot_of(link), base, map);
	released -= m->ops_released;
	spin_unlock_bh(&m->tx_lock);
	if (released)
		rar_member_wake(m);
}

/*
 * A rank lacks chunks that were sent to it. Do packets of full size not reach
 * it any more? They have been sent again and again for longer than dead_ms, and
 * not one has come since the last question. A question names the oldest
 * operation that lacks chunks, so if it names a later one than before, all
 * chunks of that one have come. By doubling it may name an earlier one, in
 * which that rank has come to the stage since. Short packets do reach the rank:
 * if nothing at all came from here for dead_ms, it would have ended the group.
 * tx_lock.
 */
static bool mtu_fell(struct rar_link *link, const struct rar_operation *op,
		     u64 missing)
{
	struct rar_direct_peer *peer = peer_of(link);
	struct rar_member *m = link->member;
	u64 full = full_chunks(m, op) & missing, now = rar_now_us();

	if (op->seq < peer->full_seq && !op->ring.plan.doubling)
		return false;
	if (op->seq > peer->full_seq ||
	    (op->seq == peer->full_seq && peer->full_missing & ~missing))
		peer->full_lost = 0;
	peer->full_seq = op->seq;
	peer->full_missing = full;
	if (!full)
		return false;
	if (!peer->full_lost++)
		peer->full_since_us = now;
	return rar_fail_narrow(m, peer->full_lost, peer->full_since_us, now);
}

/* Send chunks again that a rank lacks. */
static void send_again(struct rar_link *link, u64 seq, u64 missing)
{
	struct rar_member *m = link->member;
	struct rar_operation *op;
	struct rar_known told;
	bool fell = false;
	u64 can;

	spin_lock_bh(&m->tx_lock);
	op = rar_link_op_at(m, seq);
	/* If it was not sent yet, it will be. */
	if (op && op->direct_sent) {
		refcount_inc(&op->ref);
		rar_op_use(op);
		told = known(m);
		/* A chunk that waits for a third rank is not lost. */
		chunks_to(op, link->rank, &can);
		missing &= can;
		fell = mtu_fell(link, op, missing);
	} else {
		op = NULL;
	}
	spin_unlock_bh(&m->tx_lock);
	if (!op)
		return;
	if (fell)
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank, link->rank, seq);
	send_chunks(link, op, missing, &told, true);
	if (rar_op_unuse(op))
		rar_member_wake(m);
}

/**
 * rar_direct_rcv_done() - take in what a rank has and lacks, and answer
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated DONE
 *
 * Softirq.
 */
void rar_direct_rcv_done(struct rar_member *m, const struct rar_pkt *pkt)
{
	const __be32 asks = cpu_to_be32(RAR_DF_ASK | RAR_DF_UNA);
	struct rar_link *link = pkt->link;
	struct rar_done_hdr dh;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return;
	/* A rank that only asks does not answer this one, see ask.c. */
	if (!(dh.flags & asks))
		rar_member_hear(link);
	rar_direct_hear(link, be64_to_cpu(dh.below), be64_to_cpu(dh.map), false);
	if (dh.lacks && !(dh.flags & cpu_to_be32(RAR_DF_STREAM)))
		send_again(link, be64_to_cpu(dh.op_seq), be64_to_cpu(dh.lacks));
	if (dh.flags & cpu_to_be32(RAR_DF_ASK))
		rar_direct_tell(m, rar_link_slot(link));
	if (dh.flags & cpu_to_be32(RAR_DF_UNA) && READ_ONCE(link->rx.seen))
		rar_ack_rcv_una(link, be32_to_cpu(dh.chunk));
	rar_direct_push(m);
}

/**
 * rar_direct_left() - a rank left after all operations that it had posted were complete there
 * @m:    member, no lock held but m->lock
 * @rank: the rank
 * @last: operations that it had posted
 */
void rar_direct_left(struct rar_member *m, u32 rank, u64 last)
{
	struct rar_link *link = rar_member_direct(m, rank);
	struct rar_operation *op;
	u64 seq;

	if (!link)
		return;
	spin_lock_bh(&m->tx_lock);
	for (seq = m->op_oldest; seq < min(m->op_next, last); seq++) {
		op = rar_link_op_at(m, seq);
		/* A rank that left may still send the end of its stream. */
		if (op && goes_to(op, link) &&
		    !(op->keyed && op->keyed->is_root))
			served(m, op, slot_of(link));
		else if (op && op->ring.plan.halving &&
			 rar_link_is_partner(link))
			rar_link_left(link, op);
	}
	spin_unlock_bh(&m->tx_lock);
}
