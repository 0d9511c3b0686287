// SPDX-License-Identifier: GPL-2.0
/*
 * Chunks: claim, add or store, publish, forward, record. Every chunk goes through these
 * steps at this rank, whether it comes in a packet, in a frame or in memory.
 */
#include <linux/mm.h>
#include <linux/prefetch.h>

#include "core/arrival.h"
#include "core/buf.h"
#include "core/cursor.h"
#include "core/hdr.h"
#include "core/member.h"
#include "core/op.h"
#include "core/ring.h"
#include "core/seal.h"
#include "core/trace.h"
#include "link/ack.h"
#include "link/carry.h"
#include "link/early.h"
#include "link/link.h"
#include "link/loss.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/chunk.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/fail.h"
#include "ring/halving.h"
#include "ring/peer.h"
#include "ring/push.h"
#include "ring/ringed.h"
#include "ring/round.h"
#include "tx/frame.h"
#include "tx/route.h"
#include "tx/run.h"

#define DATA_BOUNCE	64	/* bytes added via the stack */

/* A run of an operation that is released here. It is a duplicate, if the history agrees. */
static enum rar_rx input_finished(struct rar_member *m, const struct rar_arrival *a)
{
	bool agrees;

	spin_lock_bh(&m->tx_lock);
	agrees = rar_link_finished(m, a->op_seq, &a->fingerprint);
	spin_unlock_bh(&m->tx_lock);
	return agrees ? RAR_RX_DONE : RAR_DROP(Op);
}

/*
 * struct add_pass - chunks of a run while they are added
 * @op:		the operation
 * @ctx:	of the reduction
 * @in:		the chunks that came
 * @own:	the contribution of this rank
 * @sum:	the buffer that gets the sum
 * @both:	the packet gets the sum as well
 * @kind:	the reduction
 * @divisor:	of the sums, 0 = none
 */
struct add_pass {
	const struct rar_operation *op;
	const struct rar_kind *kind;
	struct rar_reduce_ctx ctx;
	struct rar_cursor in, own, sum;
	bool both;
	u32 divisor;
};

static void add_piece(struct add_pass *pass, void *sum, void *sum2, const void *in,
		      const void *own, u32 len)
{
	const struct rar_kind *kind = pass->kind;

	rar_reduce(&pass->ctx, kind, sum, sum2, in, own, len);
	if (pass->divisor)
		rar_reduce_divide(&pass->ctx, kind, sum, sum2, pass->divisor, len);
}

/* Add via the stack, because an element lies in two pieces. @len: a multiple of its size. */
static void add_bounced(struct add_pass *pass, u64 at, u64 off, u32 len)
{
	const struct rar_operation *op = pass->op;
	u8 in[DATA_BOUNCE], own[DATA_BOUNCE];

	rar_cursor_read(&pass->in, off, in, len);
	rar_buf_read(op->own, at, own, len);
	add_piece(pass, own, own, in, own, len);
	rar_buf_write(&op->buf, at, own, len);
	if (pass->both)
		rar_cursor_write(&pass->in, off, own, len);
}

/* Bytes of the three buffers that lie together in each. */
struct add_spans {
	void *in, *own, *sum;
	u32 n;			/* bytes, a multiple of the element's size, which may be 0 */
};

/*
 * Find where at most @len bytes lie, and begin to load them: the processor itself does not look
 * ahead into the next page.
 */
static struct add_spans add_find(struct add_pass *pass, u64 at, u64 off, u32 len)
{
	struct add_spans s;
	u32 m, k;

	s.in = rar_cursor_at(&pass->in, off, &s.n);
	s.own = rar_cursor_at(&pass->own, at, &m);
	s.sum = rar_cursor_at(&pass->sum, at, &k);
	s.n = min(min3(s.n, m, k), len);
	s.n -= s.n % pass->kind->size;
	prefetch(s.in);
	prefetchw(s.own);
	return s;
}

/* sum = in + own for a chunk. Each of the three may lie in pieces of any length. */
static void add_chunk(struct add_pass *pass, u64 at, u64 off, u32 len)
{
	struct add_spans s, next = add_find(pass, at, off, len);
	u32 n;

	for (; len; at += n, off += n, len -= n) {
		s = next;
		n = s.n ?: min_t(u32, len, DATA_BOUNCE);
		if (n < len)
			next = add_find(pass, at + n, off + n, len - n);
		if (s.n)
			add_piece(pass, s.sum, pass->both ? s.in : s.sum, s.in, s.own, n);
		else
			add_bounced(pass, at, off, n);
		rar_reduce_piece(&pass->ctx);
	}
}

/* The bytes of a run that are taken at once: all, if all are new and lie together; else a chunk. */
static u32 at_once(const struct rar_operation *op, const struct rar_arrival *a)
{
	return a->stride == op->ring.payload && a->won == rar_mask(a->run.n) ?
	       rar_ring_bytes(&op->ring, a->run.chunk, a->run.n) : op->ring.payload;
}

/* Add the chunks of @won. The FPU is held for RAR_REDUCE_MAX or RAR_REDUCE_PIECES at most. */
static void add_run(struct rar_member *m, struct rar_operation *op,
		    const struct rar_arrival *a, bool both)
{
	const struct rar_run *run = &a->run;
	u32 left = rar_ring_bytes(&op->ring, run->chunk, run->n), i, len;
	struct add_pass pass = {
		.op = op,
		.kind = rar_op_kind_at(op, run->chunk),
		.in = a->from,
		.own.buf = op->own,
		.sum.buf = &op->buf,
		.both = both,
		.divisor = rar_plan_completes(&op->ring.plan, RAR_RS, a->c.block) ? op->divisor : 0,
	};
	u32 step = at_once(op, a);
	u64 at = a->c.off, off = a->off;

	rar_reduce_begin(&pass.ctx);
	for (i = 0; left; i++) {
		len = min(left, step);
		if (a->won & (1ULL << i))
			add_chunk(&pass, at, off, len);
		off += a->stride;
		at += len;
		left -= len;
	}
	/*
	 * A frame goes on with a checksum; the bytes to sum up are in the cache
	 * now. With a seal they are still going to change.
	 */
	if (both && a->pkt->frame && !m->tail) {
		a->pkt->frame->sum = rar_cursor_csum(&pass.ctx, &pass.in, a->off, len);
		a->pkt->frame->summed = true;
	}
	rar_reduce_end(&pass.ctx);
	if (pass.ctx.fpu)
		rar_mib_add(m->rn, ReduceSimd, hweight64(a->won));
	else
		rar_mib_add(m->rn, ReduceScalar, hweight64(a->won));
}

/* Store the chunks that are new in the buffer. */
static void store_run(struct rar_operation *op, const struct rar_arrival *a)
{
	const struct rar_run *run = &a->run;
	u32 left = rar_ring_bytes(&op->ring, run->chunk, run->n), i, len;
	struct rar_cursor in = a->from, to = { .buf = op->sums };
	u32 step = at_once(op, a);
	u64 at = a->c.off, off = a->off;
	struct rar_reduce_ctx ctx;

	rar_reduce_begin_copy(&ctx, left);
	for (i = 0; left; i++) {
		len = min(left, step);
		if (a->won & (1ULL << i))
			rar_cursor_copy(&ctx, &to, at, &in, off, len);
		off += a->stride;
		at += len;
		left -= len;
	}
	rar_reduce_end(&ctx);
}

/*
 * May the packets that GRO chained to a superpacket be forwarded with it? GSO can cut the
 * superpacket again if each part holds whole segments.
 */
static bool chain_goes_on(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 size = skb_shinfo(pkt->skb)->gso_size, left = pkt->len + m->tail;
	struct sk_buff *part;

	if (!size)
		return false;
	skb_walk_frags(pkt->skb, part) {
		if (!rar_skb_alone(part) || skb_has_frag_list(part) ||
		    skb_headlen(part) > size || (part->next && part->len % size))
			return false;
		left -= part->len;
	}
	return !(left % size) &&
	       rar_route_takes_chains(m, &m->link[RAR_NEXT]->path);
}

/*
 * May we write to the packet, which holds a run of @n chunks, and forward it? Nobody else may see
 * its data, all of it must be this run, and new headers must fit. Where carriers are used, no other
 * packet goes on.
 */
static bool may_write(struct rar_member *m, const struct rar_operation *op,
		      const struct rar_pkt *pkt, u32 n)
{
	struct rar_link *next = m->link[RAR_NEXT];
	struct sk_buff *skb = pkt->skb;

	if (!pkt->whole || next->here)
		return false;
	if (pkt->carrier)
		return rar_carry_would(next, op, n);
	if (rar_carry_would(next, op, n))
		return false;
	if (pkt->frame)
		return rar_loss_frames_pass(next) && rar_frame_ready(next, pkt);
	return rar_skb_alone(skb) && pskb_may_pull(skb, pkt->off) &&
	       (!skb_has_frag_list(skb) || chain_goes_on(m, pkt));
}

/*
 * May a carrier's own pages be written to and go on? If not, its run goes on in another carrier:
 * the pages are those of the sender's buffer, or a tap still has to read them.
 */
static bool may_reuse(const struct rar_pkt *pkt)
{
	return rar_skb_alone(pkt->skb) &&
	       pskb_may_pull(pkt->skb, pkt->off + sizeof(struct rar_data_hdr));
}

/* @reuse: in the packet that brought the run. */
static void forward_packet(struct rar_link *link, struct rar_tx_item *item,
			   const struct rar_pkt *pkt, bool reuse)
{
	if (pkt->frame)
		rar_frame_forward(link, item, pkt);
	else if (!reuse)
		rar_fail_sent(link, item->op->seq, rar_run_pass_on(link, item));
	else
		rar_fail_sent(link, item->op->seq,
			      rar_run_forward(link, item, pkt->skb, pkt->off));
}

/*
 * Claim a sum where a box may make sums, too. RS is claimed before AG, so this rank adds
 * nothing after it stores the sum. A chunk to which it is adding at this moment is not claimed.
 */
static void claim_sum(struct rar_operation *op, struct rar_arrival *a)
{
	struct rar_run rs = a->run;
	u64 mask;

	rs.phase = RAR_RS;
	mask = rar_op_claim(op, &rs);
	mask |= rar_op_published(op, &rs, rar_mask(rs.n) & ~mask);
	a->won = rar_bits_test_and_set(op->claimed[RAR_AG], a->run.chunk, mask);
}

/* Where a box may make sums, too: a sum is AG, whether it came or was made here. */
static void publish_sum(struct rar_operation *op, const struct rar_arrival *a)
{
	struct rar_run run = a->run;

	run.phase = RAR_AG;
	rar_bits_test_and_set(op->claimed[RAR_AG], run.chunk, a->won);
	rar_op_publish(op, &run, a->won);
	/* After the claim of AG, for claim_sum(). */
	run.phase = RAR_RS;
	rar_op_publish(op, &run, a->won);
}

/* Set what of a run is claimed, and what was here before. */
static void note_claim(const struct rar_operation *op, struct rar_arrival *a, u64 won)
{
	u64 lost = rar_mask(a->run.n) & ~won;

	a->won = won;
	a->dups = lost ? rar_op_published(op, &a->run, lost) : 0;
	a->done = a->won | a->dups;
}

static void claim(struct rar_operation *op, struct rar_arrival *a)
{
	if (op->ring.plan.aside && a->run.phase == RAR_AG)
		claim_sum(op, a);
	else
		a->won = rar_op_claim(op, &a->run);
	note_claim(op, a, a->won);
}

static void publish(struct rar_operation *op, const struct rar_arrival *a)
{
	if (op->ring.plan.aside && rar_plan_completes(&op->ring.plan, a->run.phase, a->c.block))
		publish_sum(op, a);
	else
		rar_op_publish(op, &a->run, a->won);
}

/* Nothing of a run is new. In a group with a box it may still tell where its chunks go. */
static enum rar_rx input_old(struct rar_member *m, struct rar_operation *op,
			     struct rar_arrival *a)
{
	if (a->done != rar_mask(a->run.n))
		return RAR_DROP(Claimed);
	if (op->ring.plan.aside) {
		a->now_us = rar_now_us();
		rar_ringed_arrived(m, op, a, NULL);
		rar_push(m);
	}
	return RAR_RX_DONE;
}

/*
 * Add or store what is claimed, publish: no exit in between. Reading the packet
 * cannot fail, since rar_datagram_check() found its length. @write: the run may
 * go on at once, as it came.
 */
static enum rar_rx input_won(struct rar_member *m, struct rar_operation *op,
			     struct rar_arrival *a, bool write)
{
	struct rar_tx_item item = { .frame = a->pkt && a->pkt->frame,
				    .whole = a->pkt && a->pkt->carrier };
	struct rar_link *next = m->link[RAR_NEXT];
	const struct rar_run *run = &a->run;
	bool forward, reuse;
	u64 bytes;

	write &= a->won == rar_mask(run->n);
	reuse = write && (!item.whole || may_reuse(a->pkt));
	if (rar_ring_combine(run->phase) == RAR_COMBINE_ADD)
		add_run(m, op, a, reuse);
	else
		store_run(op, a);
	publish(op, a);
	bytes = rar_op_bytes(op, run, a->won);
	trace_rar_reduce(m, op->seq, run->phase, run->chunk, bytes);

	rar_mib_add(m->rn, RxData, hweight64(a->won));
	rar_mib_add(m->rn, RxBytes, bytes);
	a->now_us = rar_now_us();
	forward = op->ring.plan.aside ?
		  rar_ringed_arrived(m, op, a, write ? &item : NULL) :
		  rar_link_publish(next, op, a, write ? &item : NULL);
	if (forward) {
		forward_packet(next, &item, a->pkt, reuse);
		if (rar_op_unuse(op))
			rar_member_wake(m);
	}
	if (item.frame)
		rar_push_later(m, false);
	else
		rar_push(m);
	rar_done_lead(m, op, a);
	if (op->ring.plan.doubling || op->ring.plan.tree)
		rar_direct_come(m, op, run->chunk, a->won);
	if (op->ring.plan.halving ? rar_halving_come(m, op, a) :
				    rar_link_published(m, op, a))
		rar_done(m, op);
	return forward && reuse ? RAR_RX_TAKEN : RAR_RX_DONE;
}

/*
 * Claim a run, and take in what is new. Sets @done to the chunks that are published now, and @dups
 * to those of them that were published before.
 */
static enum rar_rx input_run(struct rar_member *m, struct rar_operation *op,
			     struct rar_arrival *a)
{
	bool write = a->pkt && rar_link_to_rank(a->link) && may_write(m, op, a->pkt, a->run.n);

	claim(op, a);
	return a->won ? input_won(m, op, a, write) : input_old(m, op, a);
}

/*
 * Does a chunk come as a complete sum before this rank has added to it? No honest rank
 * sends such a chunk. If it were taken the operation could end, and give the user's memory
 * back, while this rank still adds to that memory.
 */
static bool too_soon(const struct rar_operation *op, const struct rar_arrival *a)
{
	u64 mask = rar_mask(a->run.n);
	struct rar_run rs = a->run;

	rs.phase = RAR_RS;
	return rar_plan_adds_before(&op->ring.plan, a->run.phase, a->c.block) &&
	       rar_op_published(op, &rs, mask) != mask;
}

/* The rank from which the chunks of a block come directly. */
static u32 direct_from(const struct rar_operation *op, u32 block)
{
	const struct rar_stages *st = &op->ring.plan.stages;
	struct rar_stage stage;

	if (op->ring.plan.tree)
		return rar_tree_parent(st);
	if (!op->ring.plan.gathered)
		return op->fingerprint.root;
	if (!op->ring.plan.doubling)
		return block;
	if (block >= st->n)
		return RAR_NO_RANK;
	stage = rar_stage(st, block);
	return stage.takes ? stage.peer : RAR_NO_RANK;
}

/*
 * Did the run come from where it must? Chunks that go directly come from the
 * rank that contributes them, or from the peer of the stage. Others come by the
 * ring; or, if the ring brings no sums, sums by the leg.
 */
static bool from_right_rank(const struct rar_operation *op, const struct rar_arrival *a)
{
	const struct rar_plan *plan = &op->ring.plan;

	if (a->run.phase == RAR_AG && !rar_plan_has(plan, RAR_AG))
		return rar_link_is_leg(a->link);
	if (!plan->direct)
		return !rar_link_is_direct(a->link);
	if (plan->halving)
		return rar_halving_may_come(op, a);
	return rar_link_is_direct(a->link) &&
	       a->link->rank == direct_from(op, a->c.block);
}

/* Take in a run of an operation that was posted here. */
static enum rar_rx input_posted(struct rar_member *m, struct rar_arrival *a)
{
	struct rar_operation *op;
	enum rar_reason why;
	enum rar_rx ret;

	op = rcu_dereference(m->ops[a->op_seq % RAR_MAX_OPS]);
	if (!op || op->seq != a->op_seq) {
		a->dups = rar_mask(a->run.n);
		return input_finished(m, a);
	}
	why = rar_fingerprint_differs(&a->fingerprint, &op->fingerprint);
	if (why && !rar_link_to_rank(a->link))
		return RAR_DROP(Op);
	if (why) {
		rar_fail_differs(m, &a->fingerprint, op, why, a->link->rank);
		return RAR_DROP(Op);
	}
	ret = rar_op_check(&op->ring, &a->run, a->bytes, &a->c);
	if (ret != RAR_RX_DONE)
		return ret;
	if (!from_right_rank(op, a) || too_soon(op, a))
		return RAR_DROP(Chunk);
	return input_run(m, op, a);
}

/**
 * rar_chunk_use() - take in a run that came in a packet, and that is not too early
 * @m: member in RUN or LEAVING
 * @a: the run; @link, @pkt, @dh, @op_seq, @run and @done are set, the rest is 0
 *
 * Bottom halves off, RCU read side.
 *
 * Return: RAR_RX_DONE; RAR_RX_TAKEN and the packet is consumed; or why the run is dropped.
 */
enum rar_rx rar_chunk_use(struct rar_member *m, struct rar_arrival *a)
{
	a->fingerprint = rar_op_described(a->dh);
	a->bytes = rar_pkt_bytes(m, a->pkt, a->run.n);
	a->from = rar_pkt_cursor(a->pkt);
	a->off = a->pkt->off + sizeof(*a->dh);
	a->stride = a->pkt->carrier ? m->payload : rar_stride(m);
	return input_posted(m, a);
}

/* -- from rank to rank in memory ------------------------------------------------- */

/* An arrival of a run at a rank: hop @i of its way. */
static struct rar_arrival arrival(const struct rar_round *round, u32 i)
{
	const struct rar_operation *from = i ? round->hop[i - 1].op : round->op;
	const struct rar_hop *hop = &round->hop[i];
	struct rar_arrival a = {
		.link = hop->m->link[RAR_PREV],
		.op_seq = from->seq,
		.fingerprint = from->fingerprint,
		.run = round->run,
		.bytes = round->bytes,
		.off = round->c.off,
		.stride = from->ring.payload,
		.c = round->c,
	};

	a.run.phase = hop->phase;
	a.from.buf = rar_op_source(from, &a.run, &round->c);
	return a;
}

/* A run has passed several ranks. It may have to go on from the last. */
static noinline_for_stack void arrived(struct rar_round *round)
{
	u64 now = rar_now_us();
	struct rar_member *m;
	struct rar_arrival a;
	bool last;
	u32 i;

	for (i = 0; i < round->n; i++) {
		m = round->hop[i].m;
		a = arrival(round, i);
		note_claim(round->hop[i].op, &a, rar_mask(a.run.n));
		a.now_us = now;
		trace_rar_reduce(m, a.op_seq, a.run.phase, a.run.chunk, a.bytes);
		rar_mib_inc(m->rn, RxLocal);
		rar_mib_inc(m->rn, RxRound);
		rar_mib_add(m->rn, RxData, a.run.n);
		rar_mib_add(m->rn, RxBytes, a.bytes);
		rar_member_hear(a.link);
		if (i + 1 < round->n)
			rar_member_hear(m->link[RAR_NEXT]);
		last = i + 1 == round->n && !round->ends;
		if (last)
			rar_link_publish(m->link[RAR_NEXT], round->hop[i].op,
					 &a, NULL);
		else
			rar_link_passed(m->link[RAR_NEXT], round->hop[i].op,
					&a);
		/* Its window or the credit of its successor may have room again. */
		if (last || !m->link[RAR_NEXT]->here ||
		    a.c.block == rar_plan_own(&round->hop[i].op->ring.plan))
			rar_push(m);
		if (rar_link_published(m, round->hop[i].op, &a))
			rar_done(m, round->hop[i].op);
	}
}

/*
 * Let the next arrival read the buffer of a claimed one that will be published, and so may be
 * complete. If there is no reference to be had, the group has failed before, and the user's memory
 * is given back after a grace period.
 */
static bool hold(struct rar_operation *op)
{
	if (!refcount_inc_not_zero(&op->ref))
		return false;
	rar_op_use(op);
	return true;
}

/* Take the arrivals one by one that are claimed. Return: the chunks that the first rank has now. */
static u64 take_claimed(struct rar_round *round)
{
	u64 mask = rar_mask(round->run.n), done = 0, held = 0;
	struct rar_arrival a;
	struct rar_hop *hop;
	u32 i;

	for (i = 0; i <= round->nclaimed; i++) {
		hop = &round->hop[i];
		a = arrival(round, i);
		note_claim(hop->op, &a, i < round->nclaimed ? mask : round->won);
		if (!i)
			done = a.done;
		if (i < round->nclaimed && hold(hop->op))
			held |= BIT_ULL(i);
		if (a.won)
			input_won(hop->m, hop->op, &a, false);
	}
	for (i = 0; i < round->nclaimed; i++)
		if (held & BIT_ULL(i) && rar_op_unuse(round->hop[i].op))
			rar_member_wake(round->hop[i].m);
	return done;
}

/*
 * Let a run pass several ranks. If another CPU has a chunk of it somewhere, what is claimed goes
 * from rank to rank. Return: the chunks that the first rank has now.
 */
static noinline_for_stack u64 go_round(struct rar_round *round)
{
	if (!rar_round_claim(round))
		return take_claimed(round);
	rar_round_pass(round);
	arrived(round);
	return rar_mask(round->run.n);
}

/**
 * rar_chunk_local() - take chunks from the buffer of a rank in this namespace
 * @link: to the rank, of a member in RUN or LEAVING
 * @from: the rank
 * @item: the chunks; their operation is that rank's, and referenced
 *
 * Bottom halves off, RCU read side.
 *
 * Return: the chunks of the run that are here now. The others came too early, or another
 * CPU is adding them.
 */
u64 rar_chunk_local(struct rar_link *link, struct rar_member *from,
		    const struct rar_tx_item *item)
{
	const struct rar_operation *op = item->op;
	struct rar_member *m = link->member;
	struct rar_arrival a = {
		.link = link,
		.op_seq = op->seq,
		.fingerprint = op->fingerprint,
		.run = item->run,
		.stride = op->ring.payload,
		.done = rar_mask(item->run.n),
	};
	struct rar_round round;
	struct rar_chunk c;

	if (rar_round_find(&round, from, item))
		return go_round(&round);
	if (rar_op_early(m, op->seq, &a.run))
		return 0;
	rar_ring_chunk(&op->ring, a.run.chunk, &c);
	a.bytes = rar_ring_bytes(&op->ring, a.run.chunk, a.run.n);
	a.from.buf = rar_op_source(op, &a.run, &c);
	a.off = c.off;
	if (input_posted(m, &a) != RAR_RX_DONE)
		return 0;
	rar_mib_inc(m->rn, RxLocal);
	return a.done;
}

/*
 * How many chunks from that of a header on may be a run? A run lies in one block, but a device may
 * merge packets of two. An operation that is not posted yet is held chunk by chunk.
 */
static u32 run_max(const struct rar_member *m, const struct rar_data_hdr *dh)
{
	u64 seq = be64_to_cpu(dh->op_seq);
	const struct rar_operation *op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	u32 chunk = be32_to_cpu(dh->chunk);

	if (!op || op->seq != seq || chunk >= op->ring.nchunks)
		return RAR_RUN_MAX;
	return min_t(u32, rar_ring_block_end(&op->ring, chunk) - chunk, RAR_RUN_MAX);
}

/*
 * Is the seal right of packet @i of a superpacket, at @off, which has the
 * header that follows from the first one?
 */
static bool opens(struct rar_member *m, struct rar_pkt *pkt, u32 i, u32 off,
		  u32 len)
{
	if (!m->tail || i < pkt->opened)
		return true;
	if (rar_seal_open(m, pkt, off, len) != RAR_RX_DONE)
		return false;
	pkt->opened = i + 1;
	return true;
}

/*
 * Count the chunks that form a run with the first chunk of @pkt. Each has a header of its
 * own, which must follow from the first header; any of them may ask for an acknowledgment.
 */
u32 rar_chunk_run(struct rar_member *m, struct rar_pkt *pkt,
		  const struct rar_data_hdr *dh)
{
	const bool numbered = dh->h.type != RAR_T_DIRECT ||
			      rar_mode_is_numbered(be16_to_cpu(dh->mode));
	const u32 tail = m->tail, stride = rar_stride(m);
	u32 n, off = pkt->off, left = pkt->len + tail, len, together;
	const struct rar_hdr_words *first = (const void *)dh, *h;
	struct rar_cursor cursor = { .skb = pkt->skb };
	struct rar_hdr_words buf;
	u32 max = run_max(m, dh);

	pkt->ack_now = false;
	for (n = 1; n < max && left > stride; n++) {
		off += stride;
		left -= stride;
		len = min(left, stride);
		if (len < sizeof(buf) + tail)
			break;
		len -= tail;
		h = rar_cursor_at(&cursor, off, &together);
		if (together < sizeof(buf))
			h = skb_header_pointer(pkt->skb, off, sizeof(buf), &buf);
		if (!h ||
		    !rar_hdr_is_nth(first, n, len - sizeof(buf), numbered, h) ||
		    !opens(m, pkt, n, off, len))
			break;
		pkt->ack_now |= rar_hdr_ack_now(h);
	}
	return n;
}

/*
 * If a packet says that it is a carrier: is it one as it was sent? Sets @n to its chunks. Return:
 * RAR_RX_DONE, or the drop with its reason.
 */
static enum rar_rx open_carrier(const struct rar_member *m, const struct rar_pkt *pkt,
				const struct rar_data_hdr *dh, u32 *n)
{
	bool whole = dh->flags & RAR_F_WHOLE;

	if (whole != pkt->carrier)
		return RAR_DROP(Cut);
	if (!whole)
		return RAR_RX_DONE;
	*n = DIV_ROUND_UP(rar_pkt_bytes(m, pkt, 1), m->payload);
	if (*n > RAR_RUN_MAX)
		return RAR_DROP(Length);
	rar_mib_inc(m->rn, RxWhole);
	return RAR_RX_DONE;
}

/*
 * Take in a validated packet that holds a run of @n chunks with numbers: RS,
 * AG, or DIRECT. Return: RAR_RX_DONE, RAR_RX_TAKEN if pkt->skb was taken,
 * or the drop with its reason.
 */
enum rar_rx rar_chunk_rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	enum rar_phase phase = pkt->h.type == RAR_T_RS ? RAR_RS : RAR_AG;
	struct rar_cursor cursor = rar_pkt_cursor(pkt);
	struct rar_arrival a = { };
	struct rar_data_hdr dh;
	enum rar_rx ret;
	bool early;

	rar_cursor_read(&cursor, pkt->off, &dh, sizeof(dh));
	dh.flags |= pkt->ack_now ? RAR_F_ACK_NOW : 0;
	ret = open_carrier(m, pkt, &dh, &n);
	if (ret != RAR_RX_DONE)
		return ret;
	if (!rar_ack_check(&dh, n))
		return RAR_DROP(Seq);
	a.link = pkt->link;
	a.pkt = pkt;
	a.dh = &dh;
	a.op_seq = be64_to_cpu(dh.op_seq);
	a.run = (struct rar_run){ be32_to_cpu(dh.chunk), n, phase };
	a.done = rar_mask(n);
	/* rar_rcv_frame() has looked, before the frame was decrypted. */
	early = !pkt->frame && rar_op_early(m, a.op_seq, &a.run);
	ret = early ? rar_early_hold(m, &a) : RAR_RX_RETRY;
	if (pkt->frame && m->security != RAR_SECURITY_ENCRYPT)
		rar_frame_mirror(m->rn, pkt->frame);
	if (ret == RAR_RX_RETRY)
		ret = rar_chunk_use(m, &a);
	if (ret != RAR_RX_DONE && ret != RAR_RX_TAKEN)
		return ret;
	if (a.dups)
		rar_mib_add(m->rn, RxDup, hweight64(a.dups));
	if (!rar_ack_record(a.link, &a))
		return ret;
	if (pkt->frame)
		rar_push_later(m, true);
	else
		rar_ack_send(a.link);
	return ret;
}

/* Take in DIRECT with numbers, see rar_chunk_rcv(). */
static enum rar_rx rcv_numbered(struct rar_member *m, struct rar_pkt *pkt,
				u32 n)
{
	struct rar_link *link = pkt->link;

	if (!rar_link_is_partner(link))
		return RAR_DROP(Chunk);
	/* The first operation of this rank gets it from its own memory. */
	if (!rar_link_open_rx(link, GFP_ATOMIC | __GFP_NOWARN))
		return RAR_DROP(Memory);
	rar_peer_alive(link, true);
	return rar_chunk_rcv(m, pkt, n);
}

/**
 * rar_chunk_rcv_direct() - take in chunks that came directly
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated DIRECT
 * @n:   its chunks, a run
 *
 * Softirq.
 *
 * Return: RAR_RX_DONE, RAR_RX_TAKEN if @pkt->skb was taken, or the drop with
 * its reason.
 */
enum rar_rx rar_chunk_rcv_direct(struct rar_member *m, struct rar_pkt *pkt,
				 u32 n)
{
	enum rar_rx ret = RAR_RX_RETRY;
	struct rar_data_hdr dh;
	struct rar_arrival a = {
		.link = pkt->link, .pkt = pkt, .dh = &dh, .done = rar_mask(n),
	};

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return RAR_DROP(Short);
	/* A chunk of the ring and a chunk that came directly are never the same. */
	if (!rar_way_is_direct(rar_mode_way(be16_to_cpu(dh.mode))))
		return RAR_DROP(Chunk);
	if (rar_mode_is_numbered(be16_to_cpu(dh.mode)))
		return rcv_numbered(m, pkt, n);
	rar_direct_hear(pkt->link, be32_to_cpu(dh.base),
			be64_to_cpu(dh.complete), true);
	a.op_seq = be64_to_cpu(dh.op_seq);
	a.run = (struct rar_run){ be32_to_cpu(dh.chunk), n, RAR_AG };
	if (rar_op_early(m, a.op_seq, &a.run))
		ret = rar_early_hold(m, &a);
	if (ret == RAR_RX_RETRY)
		ret = rar_chunk_use(m, &a);
	if (a.dups)
		rar_mib_add(m->rn, RxDup, hweight64(a.dups));
	/* What the sender has told may let others go. */
	rar_direct_push(m);
	return ret;
}

/**
 * rar_chunk_rcv_probe() - fail the group if the predecessor disagrees about an operation
 * @m:   member in RUN or LEAVING; RCU read lock held
 * @pkt: validated PROBE
 *
 * Chunks are compared, too. But ranks that disagree may all wait for chunks of one another, so
 * that none is sent. They send probes, because an operation waits.
 */
void rar_chunk_rcv_probe(struct rar_member *m, const struct rar_pkt *pkt)
{
	const struct rar_operation *op;
	struct rar_fingerprint theirs;
	struct rar_probe_hdr ph;
	enum rar_reason why;
	u64 seq;

	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)) || !ph.collective)
		return;
	seq = be64_to_cpu(ph.op_seq);
	op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	if (!op || op->seq != seq)
		return;
	theirs = (struct rar_fingerprint) {
		.count = be64_to_cpu(ph.count),
		.root = be16_to_cpu(ph.root),
		.collective = ph.collective,
		.dtype = ph.dtype,
		.redop = ph.redop,
		.mode = be16_to_cpu(ph.mode),
	};
	why = rar_fingerprint_differs(&theirs, &op->fingerprint);
	if (why)
		rar_fail_differs(m, &theirs, op, why, pkt->link->rank);
}
