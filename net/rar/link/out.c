// SPDX-License-Identifier: GPL-2.0
/*
 * The chunks of an operation that a link has to send: which are pending, which are acknowledged,
 * and which may go before the neighbour has posted the operation. All under tx_lock.
 */
#include "core/op.h"
#include "core/ring.h"
#include "link/link.h"
#include "link/out.h"

/* -- pending chunks ------------------------------------------------------ */

/* The count of pending chunks of all operations: to the neighbour, or back. */
static u64 *pend_count(struct rar_link_tx *tx, u32 way)
{
	return way == RAR_BACK ? &tx->nback : &tx->npend;
}

/* Make chunks pending: they will be sent, unless they were acknowledged. */
void rar_out_pend(struct rar_link *link, struct rar_operation *op, u32 way,
		  u32 chunk, u64 mask)
{
	struct rar_out *out = rar_link_out(link, op);

	mask &= ~rar_bits_get(out->acked[way], chunk, mask);
	mask = rar_bits_set(out->pend[way], chunk, mask);
	if (!mask)
		return;
	out->npend[way] += hweight64(mask);
	*pend_count(&link->tx, way) += hweight64(mask);
	out->pend_from[way] = min_t(u32, out->pend_from[way], chunk + __ffs64(mask));
}

/* The same of those that were never sent. */
void rar_out_pend_unsent(struct rar_link *link, struct rar_operation *op,
			 const struct rar_run *run)
{
	u64 mask = rar_mask(run->n);

	mask &= ~rar_bits_get(rar_link_out(link, op)->sent[run->phase],
			      run->chunk, mask);
	rar_out_pend(link, op, run->phase, run->chunk, mask);
}

/* Make chunks pending no more: they were chosen, or are acknowledged. */
void rar_out_clear(struct rar_link *link, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 n;

	if (!out->npend[way])
		return;
	n = hweight64(rar_bits_clear(out->pend[way], chunk, mask));
	out->npend[way] -= n;
	*pend_count(&link->tx, way) -= n;
}

/* Set @run to the pending chunks from @chunk on. @chunk is pending. */
static void find_run(const struct rar_operation *op, const struct rar_out *out,
		     struct rar_run *run, u32 way, u32 chunk, u32 max)
{
	u32 end = min(rar_ring_block_end(&op->ring, chunk), chunk + max);

	run->chunk = chunk;
	run->n = find_next_zero_bit(out->pend[way], end, chunk) - chunk;
}

/* Set @run to the first pending chunks of an operation that has some. They stay pending. */
void rar_out_find(struct rar_link *link, struct rar_operation *op,
		  struct rar_run *run, u32 way, u32 max)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 chunk = find_next_bit(out->pend[way], op->ring.nchunks, out->pend_from[way]);

	out->pend_from[way] = chunk;
	find_run(op, out, run, way, chunk, max);
}

/* Note that the receiver has these chunks, or provably does not need them any more. */
void rar_out_acked(struct rar_link *link, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask)
{
	struct rar_out *out = rar_link_out(link, op);

	mask = rar_bits_set(out->acked[way], chunk, mask);
	if (!mask)
		return;
	out->nacked += hweight64(mask);
	rar_out_clear(link, op, way, chunk, mask);
}

/* Note that a run leaves. Return: how many of its chunks leave for the first time. */
u32 rar_out_sent(struct rar_link *link, struct rar_operation *op, const struct rar_run *run)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 fresh = hweight64(rar_bits_set(out->sent[run->phase], run->chunk,
					   rar_mask(run->n)));

	out->nsent += fresh;
	return fresh;
}

/* -- credit -------------------------------------------------------------- */

/*
 * How many chunks of a run has the neighbour contributed to, as far as known? It has
 * contributed to all chunks that are sums of all ranks.
 */
u32 rar_out_welcome(const struct rar_link *link, const struct rar_operation *op,
		    const struct rar_run *run)
{
	const struct rar_link_tx *tx = &link->tx;
	u32 at;

	if (op->seq < tx->posted || rar_plan_summed(&op->ring.plan, run->phase))
		return run->n;
	if (op->seq > tx->posted || !tx->come)
		return 0;
	at = run->chunk % op->ring.cpb;
	return at < tx->come ? min(run->n, tx->come - at) : 0;
}

/*
 * Like rar_out_find(). But if the neighbour has contributed to a part of the operation, chunks
 * of that part are preferred, in whichever block they lie.
 */
void rar_out_find_welcome(struct rar_link *link, struct rar_operation *op,
			  struct rar_run *run, u32 max)
{
	struct rar_out *out = rar_link_out(link, op);
	const struct rar_link_tx *tx = &link->tx;
	u32 chunk, nchunks = op->ring.nchunks;
	struct rar_run first;

	rar_out_find(link, op, run, run->phase, max);
	first = *run;
	while (op->seq == tx->posted && tx->come && !rar_out_welcome(link, op, run)) {
		chunk = find_next_bit(out->pend[run->phase], nchunks,
				      rar_ring_block_end(&op->ring, run->chunk));
		if (chunk >= nchunks) {
			*run = first;
			break;
		}
		find_run(op, out, run, run->phase, chunk, max);
	}
}

/*
 * How many chunks of a run may be sent? Chunks that are welcome, or that were sent before,
 * need no credit. The other chunks take credit.
 */
u32 rar_out_take_credit(struct rar_link *link, struct rar_operation *op,
			const struct rar_run *run)
{
	struct rar_out *out = rar_link_out(link, op);
	u32 n = rar_out_welcome(link, op, run), each, k;
	struct rar_link_tx *tx = &link->tx;
	u64 fresh, rest, cost;
	struct rar_chunk c;

	if (n)
		return n;
	n = run->n;
	rar_ring_chunk(&op->ring, run->chunk, &c);
	each = c.len + RAR_EARLY_COST;
	fresh = rar_mask(n) & ~rar_bits_get(out->sent[run->phase], run->chunk, rar_mask(n));
	rest = fresh;
	for (k = tx->credit > tx->early_used ? (u32)(tx->credit - tx->early_used) / each : 0;
	     k && rest; k--)
		rest &= rest - 1;
	if (rest)
		n = __ffs64(rest);
	cost = hweight64(fresh & rar_mask(n)) * (u64)each;
	if (n) {
		tx->early_used += cost;
		out->early_cost += cost;
	}
	return n;
}
