// SPDX-License-Identifier: GPL-2.0
/*
 * Batches at the root of a keyed reduction: chunks of several ranks whose records the box of the
 * group has combined.
 *
 * A batch is sent in pieces, which are kept here until all have come. Then all its chunks are
 * claimed at once, and its records are reduced. If a chunk has come before, or there is no room,
 * the batch is refused, and none of its chunks is claimed. So a chunk counts once, even if the box
 * fails. A batch is named by its number and the epoch of the leg, so pieces of two batches are
 * never put together.
 *
 * The root tells the box (WANT) which pieces are missing, and when it may forget the batch. It
 * tells the ranks that their chunks have come, in the same way as for chunks that they sent to it.
 * selftests/model/box_keyed.pml is the model, Documentation/design/box.rst the description.
 */
#include "core/keyed.h"
#include "core/member.h"
#include "core/op.h"
#include "link/link.h"
#include "ring/batch.h"
#include "ring/keyed.h"
#include "tx/control.h"

/* A piece of a batch that came. */
struct piece {
	u64 token;
	u32 number;
	u32 pieces;
	u32 index;
	u32 off;		/* where its content begins in the packet */
	u32 bytes;
};

/*
 * struct outcome - the effects of the pieces of a packet
 * @answer:  the box gets an answer: @refused and @lacks
 * @refused: the batch was refused
 * @lacks:   mask of the pieces that are missing
 * @reduce:  the batch was claimed, and is to be reduced. The fields below are about it
 * @pieces:  how many it has
 * @records: how many it has
 * @ranks:   mask of the ranks whose chunks it has
 * @ends:    mask of the ranks all of whose chunks are here now
 */
struct outcome {
	bool answer;
	bool refused;
	u64 lacks;
	bool reduce;
	u32 pieces;
	u32 records;
	u32 ranks;
	u32 ends;
};

/* A mask of all pieces of a batch. */
static u64 all_pieces(const struct rar_batch *b)
{
	return rar_mask(b->pieces);
}

/* Has a piece the length that it must have? */
static bool right_length(const struct rar_member *m, const struct rar_keyed *k,
			 const struct piece *p)
{
	if (!p->index)
		return p->bytes == m->size * sizeof(struct rar_batch_rank);
	if (p->index + 1 < p->pieces)
		return p->bytes == k->chunk;
	return p->bytes && p->bytes <= k->chunk && !(p->bytes % k->kind.record);
}

/* The records of a batch that is here. */
static u32 nrecords(const struct rar_keyed *k, const struct rar_batch *b)
{
	return b->pieces < 2 ? 0 : ((b->pieces - 2) * k->chunk + b->bytes) / k->kind.record;
}

/* Does a piece belong to a batch that the same leg brought before the newest? */
static bool is_old(const struct rar_batch *b, const struct piece *p)
{
	return b->token == p->token && (s32)(p->number - b->number) < 0;
}

/* Begin with a new batch if the piece does not belong to the newest. root->lock. */
static void begin(struct rar_batch *b, const struct piece *p)
{
	if (b->token == p->token && b->number == p->number && b->pieces == p->pieces)
		return;
	b->token = p->token;
	b->number = p->number;
	b->pieces = p->pieces;
	b->came = 0;
	b->over = false;
	b->refused = false;
}

/* Are all chunks that a batch has of a rank new and allowed? root->lock. */
static bool list_fits(const struct rar_keyed_from *from, const struct rar_batch_rank *r)
{
	u64 map = be64_to_cpu(r->map);
	bool last = be32_to_cpu(r->flags) & RAR_BF_LAST;
	u32 ahead, bit;

	for (; map; map &= map - 1) {
		bit = __ffs64(map);
		if (rar_keyed_judge(from, be32_to_cpu(r->first) + bit, last && map == 1ULL << bit,
				    &ahead) != RAR_RX_RETRY)
			return false;
	}
	return true;
}

/* May a batch that is here be claimed? root->lock. */
static bool may_claim(const struct rar_member *m, const struct rar_operation *op)
{
	const struct rar_keyed_root *root = op->keyed->root;
	const struct rar_batch *b = &root->batch;
	u32 rank;

	for (rank = 0; rank < m->size; rank++)
		if (b->list[rank].map &&
		    (rank == m->rank || !list_fits(&root->from[rank], &b->list[rank])))
			return false;
	return rar_keyed_has_room(root, nrecords(op->keyed, b));
}

/* Claim the chunks that a batch has of a rank. Return: the rank has no more. root->lock. */
static bool claim_list(struct rar_keyed_from *from, const struct rar_batch_rank *r)
{
	u32 first = be32_to_cpu(r->first);
	u64 map = be64_to_cpu(r->map);
	bool ends = false;

	if (be32_to_cpu(r->flags) & RAR_BF_LAST) {
		from->ending = true;
		from->end = first + fls64(map);
	}
	for (; map; map &= map - 1)
		ends = rar_keyed_note(from, first + __ffs64(map) - from->below);
	return ends;
}

/* All pieces are here: claim all chunks of the batch, or none. root->lock. */
static void decide(struct rar_member *m, struct rar_operation *op, struct outcome *out)
{
	struct rar_keyed_root *root = op->keyed->root;
	struct rar_batch *b = &root->batch;
	u32 rank;

	if (!may_claim(m, op)) {
		b->over = true;
		b->refused = true;
		return;
	}
	for (rank = 0; rank < m->size; rank++) {
		if (!b->list[rank].map)
			continue;
		out->ranks |= BIT(rank);
		if (claim_list(&root->from[rank], &b->list[rank]))
			out->ends |= BIT(rank);
	}
	root->open -= hweight32(out->ends);
	out->records = nrecords(op->keyed, b);
	out->pieces = b->pieces;
	root->reserved += out->records;
	root->busy++;
	b->busy = true;
	out->reduce = true;
}

/* Take a piece in. root->lock. */
static enum rar_rx take(struct rar_member *m, struct rar_operation *op, const struct sk_buff *skb,
			const struct piece *p, struct outcome *out)
{
	struct rar_batch *b = &op->keyed->root->batch;
	u64 bit = 1ULL << p->index;
	void *to;

	out->answer = false;
	if (b->busy || is_old(b, p))
		return RAR_DROP(Seq);
	begin(b, p);
	/* The box asks, or a piece before the last was lost or is late. */
	out->answer = b->over || b->came & bit || p->index + 1 == p->pieces;
	if (b->over || b->came & bit)
		return RAR_RX_DONE;
	to = p->index ? b->records + (p->index - 1) * op->keyed->chunk : (void *)b->list;
	if (skb_copy_bits(skb, p->off, to, p->bytes))
		return RAR_DROP(Short);
	b->came |= bit;
	if (p->index + 1 == p->pieces)
		b->bytes = p->bytes;
	if (b->came == all_pieces(b))
		decide(m, op, out);
	out->answer |= b->came == all_pieces(b);
	return RAR_RX_DONE;
}

/* Take a piece in, and note the answer for the box. */
static enum rar_rx take_piece(struct rar_member *m, struct rar_operation *op,
			      const struct sk_buff *skb, const struct piece *p,
			      struct outcome *out)
{
	struct rar_keyed_root *root = op->keyed->root;
	const struct rar_batch *b = &root->batch;
	enum rar_rx ret;

	spin_lock_bh(&root->lock);
	ret = take(m, op, skb, p, out);
	out->refused = b->refused;
	out->lacks = b->over ? 0 : all_pieces(b) & ~b->came;
	spin_unlock_bh(&root->lock);
	return ret;
}

/* Tell the group's first box which pieces of a batch are missing. If none is, it may forget it. */
static void answer(struct rar_member *m, u64 op_seq, const struct piece *p,
		   const struct outcome *out)
{
	struct rar_chunks_hdr ch = {
		.op_seq = cpu_to_be64(op_seq),
		.first = cpu_to_be32(p->number),
		.flags = out->refused ? cpu_to_be32(RAR_WF_REFUSED) : 0,
		.map[0] = cpu_to_le64(out->lacks),
	};

	rar_control_send(m->link[RAR_LEG], &ch, sizeof(ch), 0, RAR_T_WANT,
			 p->token);
}

/* Count a batch that was reduced, and act on the last chunks of ranks. */
static void reduced(struct rar_member *m, struct rar_operation *op, const struct outcome *out,
		    bool over)
{
	u32 bytes = out->records * op->keyed->kind.record, n = out->pieces;
	bool wake = over;

	rar_mib_add(m->rn, RxData, n);
	rar_mib_add(m->rn, RxBytes, bytes);
	spin_lock_bh(&m->tx_lock);
	m->rx_packets += n;
	m->rx_bytes += bytes;
	if (out->ends) {
		WRITE_ONCE(op->peers, op->peers & ~out->ends);
		wake |= rar_link_try_release(m, op);
	}
	spin_unlock_bh(&m->tx_lock);
	if (wake)
		rar_member_wake(m);
}

/* Reduce a batch that was claimed. No exit in between. */
static void reduce(struct rar_member *m, struct rar_operation *op, const struct outcome *out)
{
	struct rar_keyed_root *root = op->keyed->root;
	struct rar_batch *b = &root->batch;
	bool all, over;

	over = rar_keyed_reduce_all(root, b->records, out->records);
	spin_lock_bh(&root->lock);
	root->reserved -= out->records;
	root->busy--;
	b->over = true;
	b->busy = false;
	all = !root->open && !root->busy;
	spin_unlock_bh(&root->lock);
	reduced(m, op, out, over);
	if (all)
		rar_keyed_complete(m, op);
	else
		rar_keyed_tell(m, op, out->ranks, 0);
}

/* Take in the pieces of a packet of an operation of which this rank is the root. */
static enum rar_rx take_all(struct rar_member *m, struct rar_operation *op,
			    const struct rar_pkt *pkt, u32 n, struct piece *p)
{
	u32 end = pkt->off + pkt->len, head = sizeof(struct rar_data_hdr), len;
	enum rar_rx ret = RAR_RX_DONE;
	struct outcome out = {};

	for (; n--; p->index++, p->off += len) {
		len = n ? rar_stride(m) : end - (p->off - head);
		p->bytes = len - head;
		if (p->index >= p->pieces || !right_length(m, op->keyed, p))
			return RAR_DROP(Length);
		ret = take_piece(m, op, pkt->skb, p, &out);
		if (out.reduce)
			break;
	}
	if (out.reduce)
		reduce(m, op, &out);
	if (out.answer)
		answer(m, op->seq, p, &out);
	return ret;
}

/**
 * rar_batch_rcv() - take in pieces of a batch
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated AG of the box
 * @n:   pieces
 * @dh:  header of the first, of a keyed reduction
 *
 * Softirq.
 *
 * Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_batch_rcv(struct rar_member *m, const struct rar_pkt *pkt, u32 n,
			  const struct rar_data_hdr *dh)
{
	const struct rar_fingerprint theirs = rar_op_described(dh);
	u64 seq = be64_to_cpu(dh->op_seq);
	struct rar_operation *op;
	struct piece p = {
		.token = be64_to_cpu(pkt->h.token),
		.number = be32_to_cpu(dh->batch),
		.pieces = be32_to_cpu(dh->pieces),
		.index = be32_to_cpu(dh->chunk),
		.off = pkt->off + sizeof(*dh),
	};

	if (seq >= READ_ONCE(m->op_next))
		return RAR_DROP(EarlyFull);
	op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	if (!op || op->seq != seq) {
		/* All chunks have come. The ranks are told when they send theirs again. */
		answer(m, seq, &p, &(struct outcome) {});
		return RAR_RX_DONE;
	}
	/* If ranks disagree about the operation, their own chunks show which rank differs. */
	if (!op->keyed || !op->keyed->is_root || !op->keyed->root->batch.records ||
	    rar_fingerprint_differs(&theirs, &op->fingerprint))
		return RAR_DROP(Op);
	if (p.pieces > rar_keyed_pieces(&op->keyed->kind, m->payload))
		return RAR_DROP(Chunk);
	return take_all(m, op, pkt, n, &p);
}
