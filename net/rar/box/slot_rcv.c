// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that concern slots: contributions and PROBEs of members, RETURNs, sums and partial sums
 * of the box above. Counts what happens, and answers when the lock of the job is dropped.
 */
#include "box/batch.h"
#include "box/slot.h"
#include "box/up.h"
#include "core/mib.h"

/* The bytes of @n chunks, which may lie in several blocks: devices merge packets. */
static u32 bytes_of(const struct rar_ring *ring, u32 chunk, u32 n)
{
	u32 end = chunk + n, bytes = 0, k;

	for (; chunk < end; chunk += k) {
		k = min(end, rar_ring_block_end(ring, chunk)) - chunk;
		bytes += rar_ring_bytes(ring, chunk, k);
	}
	return bytes;
}

/* Is a run that came one of the operation's? @asks: it is a question, without payload. */
static bool fits(struct box_job *job, const struct box_op *op, u32 chunk, u32 n,
		 const struct rar_pkt *pkt, bool asks)
{
	bool fits = chunk < op->ring.nchunks && n <= op->ring.nchunks - chunk &&
		    (asks || bytes_of(&op->ring, chunk, n) ==
			     rar_pkt_bytes(&job->m, pkt, n));

	if (!fits)
		rar_mib_inc(job->m.rn, DropChunk);
	return fits;
}

/* Is it a question: of a rank for chunks of a broadcast, or of a box below for partial sums? */
static bool asks(const struct box_job *job, const struct rar_data_hdr *dh, u32 rank,
		 const struct rar_pkt *pkt)
{
	if (dh->collective == RAR_BROADCAST)
		return be16_to_cpu(dh->root) != rank;
	return box_leg_is_lower(&job->leg[rank]) && dh->count && pkt->len == sizeof(*dh);
}

/* The chunks of a question, which is a header alone. 0: it makes no sense. */
static u32 asks_for(const struct rar_data_hdr *dh, const struct rar_pkt *pkt)
{
	u32 n = dh->box.chunks;

	return pkt->len == sizeof(*dh) && n <= RAR_RUN_MAX ? n : 0;
}

/* Take in all chunks of a run. job->lock held. */
static void rcv_run(struct box_job *job, u32 rank, const struct rar_pkt *pkt, u32 n,
		    const struct rar_data_hdr *dh, struct box_out *out)
{
	u32 chunk = be32_to_cpu(dh->chunk), seq = be32_to_cpu(dh->seq);
	u32 off = pkt->off + sizeof(*dh), i, len;
	bool asked = asks(job, dh, rank, pkt), paused = be64_to_cpu(dh->op_seq) < job->until;
	struct box_op *op = paused ? NULL : rar_slot_find_op(job, dh);
	const void *data = NULL;

	if (!op) {
		out->gone = rar_mask(n);
		out->gone_to = job->leg[rank].ranks;
		return;
	}
	if (!fits(job, op, chunk, n, pkt, asked && (op->cast || op->passed)))
		return;
	out->came = asked ? 0 : be16_to_cpu(dh->box.ranks);
	for (i = 0; i < n; i++) {
		len = rar_ring_bytes(&op->ring, chunk + i, 1);
		if (!asked)
			data = skb_header_pointer(pkt->skb, off, len, job->scratch);
		rar_slot_take(job, op, chunk + i, rank, seq + i, data, i, out);
		off += rar_stride(&job->m);
		/* A pause has begun. */
		if (op->seq < job->until) {
			out->gone |= rar_mask(n) & ~rar_mask(i + 1);
			break;
		}
	}
}

/**
 * rar_slot_rcv_up() - take in a run of contributions
 * @job:  job
 * @rank: the member that sent it
 * @pkt:  validated
 * @n:    chunks, unless the member asks for chunks: then the packet tells
 *
 * Softirq.
 */
void rar_slot_rcv_up(struct box_job *job, u32 rank, struct rar_pkt *pkt, u32 n)
{
	struct box_out out = {
		.now = rar_now_us(),
		.evicted = LIST_HEAD_INIT(out.evicted),
	};
	struct rar_data_hdr dh;
	u64 sums;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return;
	if (dh.collective == RAR_REDUCE_BY_KEY) {
		rar_batch_rcv_up(job, rank, pkt, n, &dh);
		return;
	}
	if (asks(job, &dh, rank, pkt))
		n = asks_for(&dh, pkt);
	if (!n) {
		rar_mib_inc(job->m.rn, DropChunk);
		return;
	}
	spin_lock_bh(&job->lock);
	sums = job->nsums;
	if (!job->closed) {
		rcv_run(job, rank, pkt, n, &dh, &out);
		/* After the run, whose numbers may replace older ones below @una. */
		rar_slot_advance(job, &job->leg[rank], be32_to_cpu(dh.una));
	}
	sums = job->nsums - sums;
	out.una = rar_slot_lowest_rising(job);
	spin_unlock_bh(&job->lock);
	rar_mib_add(job->m.rn, BoxTaken, n);
	rar_mib_add(job->m.rn, BoxSums, sums);
	rar_mib_add(job->m.rn, BoxGaveUp, hweight64(out.gone) + out.nevicted);
	rar_mib_add(job->m.rn, BoxEvicted, out.nevicted);
	rar_answer_run(job, rank, &dh, n, &out);
}

/**
 * rar_slot_rcv_probe() - take in which operations are complete at a member, and answer
 * @job:  job
 * @rank: the member
 * @pkt:  validated PROBE
 *
 * Softirq.
 */
void rar_slot_rcv_probe(struct box_job *job, u32 rank, const struct rar_pkt *pkt)
{
	struct box_leg *leg = &job->leg[rank];
	struct rar_probe_hdr ph;
	bool raised, news;
	u64 from, base;
	s32 more;

	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)))
		return;
	from = be64_to_cpu(ph.op_seq);
	spin_lock_bh(&job->lock);
	more = be32_to_cpu(ph.done) - (u32)leg->done;
	if (more > 0)
		leg->done += more;
	leg->told = true;
	rar_slot_advance(job, leg, be32_to_cpu(ph.una));
	base = job->base;
	rar_slot_raise_base(job);
	rar_batch_raise_base(job, job->base);
	raised = !job->closed && from > job->until;
	if (raised)
		rar_slot_raise_until(job, from);
	news = raised || job->base != base;
	spin_unlock_bh(&job->lock);
	rar_answer_ack(job, rank);
	if (raised)
		rar_answer_until(job, from);
	if (news)
		rar_up_tell(job);
}

/* -- packets of the box above -------------------------------------------------- */

/* Take in a run of sums of all ranks, or of partial sums. job->lock held. */
static void rcv_sums(struct box_job *job, const struct rar_data_hdr *dh, const struct rar_pkt *pkt,
		     u32 n, struct box_out *out)
{
	u32 chunk = be32_to_cpu(dh->chunk), off = pkt->off + sizeof(*dh), i, len;
	const struct rar_fingerprint p = rar_op_described(dh);
	u64 seq = be64_to_cpu(dh->op_seq);
	struct box_op *op = job->ops[seq % RAR_MAX_OPS];
	bool partial = pkt->h.type == RAR_T_RS;

	if (job->closed || !op || op->seq != seq || rar_fingerprint_differs(&p, &op->fingerprint) ||
	    !fits(job, op, chunk, n, pkt, false))
		return;
	out->came = be16_to_cpu(dh->box.ranks);
	for (i = 0; i < n; i++) {
		len = rar_ring_bytes(&op->ring, chunk + i, 1);
		if (partial)
			rar_slot_take_partial(job, op, chunk + i,
					      skb_header_pointer(pkt->skb, off, len, job->scratch),
					      i, out);
		else
			rar_slot_take_sum(job, op, chunk + i, pkt, off, i, out);
		/* It also says how long it waited there for ranks that are not here. */
		if (!partial && out->sums[i])
			out->sums[i]->due += be32_to_cpu(dh->held_us);
		off += rar_stride(&job->m);
	}
}

/**
 * rar_slot_rcv_above() - take in sums for all members, or partial sums to which this box adds
 * @job: job of a box below the sender
 * @pkt: validated AG or RS
 * @n:   chunks
 *
 * Softirq, RCU read side.
 */
void rar_slot_rcv_above(struct box_job *job, struct rar_pkt *pkt, u32 n)
{
	struct box_out out = {
		.now = rar_now_us(),
		.evicted = LIST_HEAD_INIT(out.evicted),
	};
	struct rar_data_hdr dh;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return;
	spin_lock_bh(&job->lock);
	rcv_sums(job, &dh, pkt, n, &out);
	out.una = rar_slot_lowest_rising(job);
	spin_unlock_bh(&job->lock);
	rar_mib_add(job->m.rn, BoxSums, hweight64(out.fresh));
	rar_answer_run(job, U32_MAX, &dh, n, &out);
}

/**
 * rar_slot_rcv_return() - take in that a box above or below gives chunks up, and tell all others
 * @job:  job
 * @from: the link by which it came
 * @pkt:  validated RETURN
 *
 * Softirq, RCU read side.
 */
void rar_slot_rcv_return(struct box_job *job, const struct rar_link *from,
			 const struct rar_pkt *pkt)
{
	struct rar_chunks_hdr ch;
	u64 seq;
	u32 more;

	if (skb_copy_bits(pkt->skb, pkt->off, &ch, sizeof(ch)))
		return;
	seq = be64_to_cpu(ch.op_seq);
	more = be32_to_cpu(ch.until) - (u32)seq;
	spin_lock_bh(&job->lock);
	if (!job->closed) {
		rar_slot_end_returned(job, &ch);
		if (ch.until && more <= RAR_BOX_PAUSE && seq + more > job->until)
			rar_slot_raise_until(job, seq + more);
	}
	spin_unlock_bh(&job->lock);
	rar_answer_return(job, from, &ch);
}
