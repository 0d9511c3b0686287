// SPDX-License-Identifier: GPL-2.0
/*
 * Answers of the box: sums, partial sums, RETURNs for chunks that it gives up, and answers to
 * PROBE. Nothing is sent under a job's lock.
 */
#include "box/slot.h"
#include "box/up.h"
#include "core/hdr.h"
#include "core/mib.h"
#include "tx/control.h"
#include "tx/run.h"

/* The number of a member's newest contribution to a slot, and when it came, us. */
static u32 seq_of(const struct box_slot *slot, u32 rank)
{
	return READ_ONCE(slot->come[rank]);
}

static u32 came_at(const struct box_slot *slot, u32 rank)
{
	return READ_ONCE(slot->come[rank]) >> 32;
}

static bool is_cast(const struct box_slot *slot)
{
	return slot->dh.collective == RAR_BROADCAST;
}

/* Is a rank the root of a broadcast? */
static bool is_root(const struct box_slot *slot, u32 rank)
{
	return is_cast(slot) && be16_to_cpu(slot->dh.root) == rank;
}

/*
 * Does a rank get no payload? The root of a broadcast gets none; of a reduction only the root does.
 */
static bool gets_none(const struct box_slot *slot, u32 rank)
{
	return is_root(slot, rank) || (slot->dh.collective == RAR_REDUCE &&
				       be16_to_cpu(slot->dh.root) != rank);
}

/*
 * May a rank have what is in a slot? Of a broadcast it must have asked; or all, at the root. If so,
 * what the answer needs of @come and @since is seen, too.
 */
static bool is_due(const struct box_slot *slot, u32 rank)
{
	if (is_root(slot, rank))
		return smp_load_acquire(&slot->made); /* pairs with succeed() in slot.c */
	if (!is_cast(slot))
		return true;
	return smp_load_acquire(&slot->got) & BIT_ULL(rank); /* pairs with take() in slot.c */
}

/* Is the sum of chunk @i of a run for a rank? @from sent the run. */
static bool is_for(const struct box_out *out, u32 i, u32 rank, u32 from)
{
	const struct box_slot *slot = out->sums[i];

	if (!slot || (out->rise | out->fall) >> i & 1 || !is_due(slot, rank))
		return false;
	return rank == from || out->fresh >> i & 1 ||
	       (out->whole >> i & 1 && is_root(slot, rank));
}

/*
 * Send sums to a rank, from chunk @i of the run on, as many as fit a packet, lie in one block and
 * answer packets with consecutive numbers. The first says how long its contribution waited for
 * those of others. Returns how many were sent.
 */
static u32 send_sums(struct box_job *job, const struct box_out *out, u32 i, u32 n, u32 rank,
		     u32 from)
{
	struct rar_link *link = &job->leg[rank].link;
	u32 max = max(READ_ONCE(link->path.run_max), 1U), k;
	const struct box_slot *first = out->sums[i];
	struct kvec sum[RAR_RUN_MAX];
	struct rar_data_hdr dh;
	u32 seq = seq_of(first, rank), due;

	for (k = 0; k < min(max, n - i); k++) {
		if (!is_for(out, i + k, rank, from) || out->sums[i + k]->block != first->block ||
		    seq_of(out->sums[i + k], rank) != seq + k)
			break;
		sum[k].iov_base = out->sums[i + k]->sum;
		sum[k].iov_len = out->sums[i + k]->len;
	}
	/* A contribution that came again just now may have another number. */
	if (!k)
		return 1;
	dh = first->dh;
	dh.seq = cpu_to_be32(seq);
	due = is_root(first, rank) ? (u32)READ_ONCE(first->since) : first->due;
	/* A contribution that came again came after @due. */
	dh.held_us = cpu_to_be32(max((s32)(due - came_at(first, rank)), 0));
	if (gets_none(first, rank)) {
		dh.box.chunks = k;
		rar_control_send(link, &dh, sizeof(dh), 0, RAR_T_AG,
				 job->m.epoch);
	} else if (rar_run_sums(link, &dh, sum, k, RAR_T_AG, job->m.epoch) ==
		   -EMSGSIZE) {
		WRITE_ONCE(link->narrow, true);
	}
	return k;
}

/*
 * Send partial sums to the box below whose ranks are in turn, from chunk @i of the run on: as many
 * as fit a packet, lie in one block, and have the same number of ranks added. Returns their number.
 */
static u32 send_partial(struct box_job *job, const struct box_out *out, u32 i, u32 n)
{
	struct rar_link *link = &job->leg[out->to[i]].link;
	u32 max = max(READ_ONCE(link->path.run_max), 1U), k;
	const struct box_slot *first = out->sums[i];
	struct kvec sum[RAR_RUN_MAX];
	struct rar_data_hdr dh = first->dh;

	for (k = 0; k < min(max, n - i); k++) {
		if (!(out->fall >> (i + k) & 1) || out->turn[i + k] != out->turn[i] ||
		    out->sums[i + k]->block != first->block)
			break;
		sum[k].iov_base = out->sums[i + k]->sum;
		sum[k].iov_len = out->sums[i + k]->len;
	}
	dh.seq = cpu_to_be32(seq_of(first, out->to[i]));
	dh.box.ranks = cpu_to_be16(out->turn[i]);
	/*
	 * A later partial sum may overwrite this one now. Then the box below has had this one
	 * already, and drops it: the header says how many ranks had added.
	 */
	if (rar_run_sums(link, &dh, sum, k, RAR_T_RS, job->m.epoch) ==
	    -EMSGSIZE)
		WRITE_ONCE(link->narrow, true);
	return k;
}

static void send_return(struct box_job *job, u32 rank, struct rar_chunks_hdr *ch)
{
	rar_control_send(&job->leg[rank].link, ch, sizeof(*ch), 0, RAR_T_RETURN,
			 job->m.epoch);
}

/**
 * rar_answer_return() - tell all members, and the box above, which chunks are given up
 * @job:  job
 * @from: the link by which that came, it is not told; or NULL
 * @ch:   the chunks; its common header is filled here
 *
 * Softirq, RCU read side; no lock held.
 */
void rar_answer_return(struct box_job *job, const struct rar_link *from,
		       struct rar_chunks_hdr *ch)
{
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		if (box_leg_used(&job->leg[i]) && &job->leg[i].link != from)
			send_return(job, i, ch);
	if (!from || from->member == &job->m)
		rar_up_return(job, ch);
}

/* Tell which chunks of a run are given up, and for how long the box wants nothing. */
static void answer_gone(struct box_job *job, const struct rar_data_hdr *dh,
			const struct box_out *out)
{
	u64 until = READ_ONCE(job->until);
	struct rar_chunks_hdr ch = {
		.op_seq = dh->op_seq,
		.first = dh->chunk,
		.until = until > be64_to_cpu(dh->op_seq) ? cpu_to_be32((u32)until) : 0,
		.map[0] = cpu_to_le64(out->gone),
	};
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		if (out->gone_to & job->leg[i].ranks)
			send_return(job, i, &ch);
	/* The boxes below wait for what this one does not send. */
	if (out->gone_to)
		rar_up_return(job, &ch);
}

/* Tell all members that the box wants nothing of operations below a number. */
void rar_answer_until(struct box_job *job, u64 until)
{
	struct rar_chunks_hdr ch = {
		.op_seq = cpu_to_be64(until - 1),
		.until = cpu_to_be32((u32)until),
	};
	u32 i;

	for (i = 0; i < job->nlegs; i++)
		if (box_leg_used(&job->leg[i]))
			send_return(job, i, &ch);
}

/* "I am here": answers a member that has to wait for other members. */
void rar_answer_ack(struct box_job *job, u32 rank)
{
	struct rar_ack_hdr ah = {};

	rar_control_send(&job->leg[rank].link, &ah, sizeof(ah), 0, RAR_T_ACK,
			 job->m.epoch);
}

/* Hand a partial sum to the rank that adds next in the ring, as the ring would. */
static void hand_over(const struct box_slot *slot)
{
	const struct kvec sum = { .iov_base = slot->sum, .iov_len = slot->len };
	struct rar_data_hdr dh = slot->dh;

	rar_run_sums(&slot->job->leg[slot->next].link, &dh, &sum, 1, RAR_T_RS,
		     slot->job->m.epoch);
	rar_mib_inc(slot->job->m.rn, BoxHanded);
}

/* Is a slot's chunk to be told in the same RETURN as the first one's? */
static bool same_return(const struct box_slot *first, const struct box_slot *slot)
{
	return first->job == slot->job && first->dh.op_seq == slot->dh.op_seq &&
	       first->chunk / BOX_RETURN_BITS == slot->chunk / BOX_RETURN_BITS &&
	       rar_slot_is_handed(first) == rar_slot_is_handed(slot);
}

/* Tell the members of a job which of its chunks were evicted, and hand partial sums over. */
static void answer_evicted(struct box_out *out)
{
	struct box_slot *first = list_first_entry(&out->evicted, struct box_slot, node);
	struct box_slot *slot, *tmp;
	struct box_job *job = first->job;
	u32 base = rounddown(first->chunk, BOX_RETURN_BITS), i;
	struct rar_chunks_hdr ch = {
		.op_seq = first->dh.op_seq,
		.first = cpu_to_be32(base),
		.flags = rar_slot_is_handed(first) ? cpu_to_be32(RAR_RF_HANDED) : 0,
	};
	LIST_HEAD(told);

	list_for_each_entry_safe(slot, tmp, &out->evicted, node) {
		if (!same_return(first, slot))
			continue;
		i = slot->chunk - base;
		ch.map[i / 64] |= cpu_to_le64(1ULL << i % 64);
		list_move_tail(&slot->node, &told);
	}
	list_for_each_entry_safe(slot, tmp, &told, node) {
		if (rar_slot_is_handed(slot))
			hand_over(slot);
		rar_slot_put(slot);
	}
	rar_answer_return(job, NULL, &ch);
}

/**
 * rar_answer_run() - send what follows from a run of contributions
 * @job:  job
 * @from: the member that sent the run, or U32_MAX
 * @dh:   header of the first chunk
 * @n:    chunks
 * @out:  what follows; its references are dropped
 *
 * Softirq, RCU read side; no lock held.
 */
void rar_answer_run(struct box_job *job, u32 from, const struct rar_data_hdr *dh, u32 n,
		    struct box_out *out)
{
	u32 rank, i, k;

	for (rank = 0; rank < job->nlegs; rank++) {
		for (i = 0; i < n && box_leg_used(&job->leg[rank]); i += k) {
			k = 1;
			if (is_for(out, i, rank, from))
				k = send_sums(job, out, i, n, rank, from);
		}
	}
	for (i = 0; i < n; i += k)
		k = out->fall >> i & 1 ? send_partial(job, out, i, n) : 1;
	rar_up_send(job, out, n);
	answer_gone(job, dh, out);
	if (out->wait)
		rar_answer_ack(job, from);
	for (i = 0; i < n; i++)
		if (out->sums[i])
			rar_slot_put(out->sums[i]);
	while (!list_empty(&out->evicted))
		answer_evicted(out);
}
