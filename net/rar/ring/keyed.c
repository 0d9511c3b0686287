// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reduction: each rank sends a stream of records straight to the root, which reduces the
 * records with the same key as their packets arrive.
 *
 * A chunk is as many whole records as a packet carries. The root claims it once, and reduces its
 * records at once, in the order of arrival: the order makes no difference to the reductions that
 * there are. A rank keeps a chunk in the buffer of its stream until the root acknowledges it
 * (DONE with RAR_DF_STREAM). A rank whose last chunk is in that buffer is complete.
 *
 * A key that has no room in the root's table is not reduced: its record waits for recv() as it
 * is. If the records of a chunk could fill the memory for that, the root refuses the chunk,
 * and says so (RAR_DF_FULL) and when it may come (RAR_DF_OPEN). So no record is lost, and no
 * memory grows. A root that has not posted the operation drops chunks. When it has it calls the
 * other ranks, again and again until a chunk comes. A rank that takes another rank for the root
 * notices it then.
 * selftests/model/keyed.pml is a model of this and of stream.c, without the window's growth.
 * Chunks that come by the box of the group are claimed in batch.c.
 */
#include "core/hdr.h"
#include "core/keyed.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "link/link.h"
#include "rar.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/fail.h"
#include "ring/keyed.h"
#include "ring/stream.h"

#define KEYED_BATCH	16	/* records whose places are fetched from memory together */
#define KEYED_ACK_EVERY	16	/* chunks of a rank that are acknowledged together */
#define KEYED_CALL_US	200000	/* a rank of which nothing has come is told that it may begin */

/* The keyed reduction with a number, or NULL. RCU read side. */
static struct rar_operation *keyed_at(struct rar_member *m, u64 seq)
{
	struct rar_operation *op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);

	return op && op->seq == seq && op->keyed ? op : NULL;
}

/* Tell a rank that all chunks of an operation have come here. */
static void send_all_came(struct rar_link *link, u64 seq)
{
	struct rar_done_hdr dh = {
		.op_seq = cpu_to_be64(seq),
		.flags = cpu_to_be32(RAR_DF_STREAM | RAR_DF_ALL),
	};

	rar_direct_send_done(link, &dh);
}

/* Complete an operation here, once. RCU read side, bottom halves off. */
void rar_keyed_complete(struct rar_member *m, struct rar_operation *op)
{
	u32 rank;

	if (atomic_cmpxchg(&op->left, 1, 0) != 1)
		return;
	rar_done(m, op);
	for (rank = 0; op->keyed->is_root && rank < m->size; rank++)
		if (rank != m->rank)
			send_all_came(&m->direct.peer[rank].link, op->seq);
}

/* -- the root: chunks ------------------------------------------------------- */

/* May @n records have to wait, and would there be room for them? root->lock. */
bool rar_keyed_has_room(const struct rar_keyed_root *root, u32 n)
{
	/* A record that waits may be reserved for, too, as long as its chunk is being reduced. */
	return root->over_end - root->over_read + root->reserved + n <= root->nover;
}

/* Let a record wait for recv() as it is. root->lock; there is room. */
static void pass(struct rar_keyed_root *root, const u8 *record)
{
	u32 len = root->table.kind.record;

	memcpy(root->over + root->over_end % root->nover * len, record, len);
	root->partial = true;
	/* Pairs with the acquire in next_over(): the record is there. */
	smp_store_release(&root->over_end, root->over_end + 1);
}

/*
 * Reduce up to KEYED_BATCH records that lie together, which have room. Return: does a record wait
 * for recv(), which had none before?
 */
static bool reduce_batch(struct rar_keyed_root *root, const u8 *records, u32 n)
{
	struct rar_keyed_table *t = &root->table;
	u32 hash[KEYED_BATCH], len = t->kind.record, i;
	bool none, over;

	for (i = 0; i < n; i++) {
		hash[i] = rar_keyed_hash(t, records + i * len);
		rar_keyed_prefetch(t, hash[i]);
	}
	spin_lock_bh(&root->lock);
	none = root->over_read == root->over_end;
	for (i = 0; i < n; i++)
		if (!rar_keyed_add(t, hash[i], records + i * len))
			pass(root, records + i * len);
	over = none && root->over_read != root->over_end;
	spin_unlock_bh(&root->lock);
	return over;
}

/* Reduce @n consecutive records, for which there is room. Return: as reduce_batch(). */
bool rar_keyed_reduce_all(struct rar_keyed_root *root, const u8 *records, u32 n)
{
	bool over = false;
	u32 now;

	for (; n; n -= now, records += now * root->table.kind.record) {
		now = min_t(u32, n, KEYED_BATCH);
		over |= reduce_batch(root, records, now);
	}
	return over;
}

/* Reduce the records of a packet, from @off on. The packet is as long as it says. */
static bool reduce_packet(struct rar_keyed_root *root, const struct sk_buff *skb, u32 off, u32 n)
{
	u8 buf[KEYED_BATCH * RAR_KEYED_RECORD_MAX];
	u32 len = root->table.kind.record, now;
	const u8 *records;
	bool over = false;

	for (; n; n -= now, off += now * len) {
		now = min_t(u32, n, KEYED_BATCH);
		records = skb_header_pointer(skb, off, now * len, buf);
		over |= reduce_batch(root, records, now);
	}
	return over;
}

/* Note that a chunk came. Return: is it the last that was missing? root->lock. */
bool rar_keyed_note(struct rar_keyed_from *from, u32 ahead)
{
	from->news++;
	from->map |= 1ULL << ahead;
	while (from->map & 1) {
		from->map >>= 1;
		from->below++;
	}
	from->ended = from->ending && from->below == from->end;
	return from->ended;
}

/* The content of an acknowledgment. */
struct news {
	bool due;
	u32 below;
	u64 map;
	u32 flags;
};

/* Collect the content of the next acknowledgment to a rank. root->lock. */
static void take_news(struct rar_keyed_from *from, struct news *news, u32 flags)
{
	*news = (struct news) {
		.due = true,
		.below = from->below,
		.map = from->map,
		.flags = flags | RAR_DF_STREAM | (from->refused ? RAR_DF_FULL : 0) |
			 (from->ce ? RAR_DF_CE : 0),
	};
	from->news = 0;
	from->ce = false;
}

static void send_news(struct rar_link *link, u64 seq, const struct news *news)
{
	struct rar_done_hdr dh = {
		.op_seq = cpu_to_be64(seq),
		.lacks = cpu_to_be64(~news->map),
		.flags = cpu_to_be32(news->flags),
		.chunk = cpu_to_be32(news->below),
	};

	rar_direct_send_done(link, &dh);
}

/* A chunk that came. */
struct stream_chunk {
	u32 rank;
	u32 chunk;
	u32 n;			/* records */
	u32 off;		/* where they begin in the packet */
	bool last;
	bool ack_now;
	bool new;		/* set: it was claimed */
	bool ends;		/* set: it was the last that was missing of its rank */
	bool all;		/* set: all chunks of all ranks are reduced */
	bool over;		/* set: recv() has a record to read, and had none before */
	u64 later_us;		/* set: when the timer acknowledges it at the latest, or 0 */
	struct news news;	/* set: an acknowledgment that goes at once, if due */
};

/*
 * Is a chunk of a rank new (RAR_RX_RETRY), and may it come? root->lock. Sets how far it is ahead.
 */
enum rar_rx rar_keyed_judge(const struct rar_keyed_from *from, u32 chunk, bool last, u32 *ahead)
{
	*ahead = chunk - from->below;
	if ((s32)*ahead < 0)
		return RAR_RX_DONE;
	if (*ahead >= RAR_STREAM_CHUNKS)
		return RAR_DROP(Seq);
	if (from->map >> *ahead & 1)
		return RAR_RX_DONE;
	if (from->ending && (last || (s32)(chunk - from->end) >= 0))
		return RAR_DROP(Chunk);
	/* Chunks after the last one cannot have come. */
	return last && from->map >> *ahead ? RAR_DROP(Chunk) : RAR_RX_RETRY;
}

/* Claim a chunk if it is new. root->lock. */
static enum rar_rx claim_chunk(struct rar_keyed_root *root, const struct rar_pkt *pkt,
			       struct stream_chunk *c)
{
	struct rar_keyed_from *from = &root->from[c->rank];
	enum rar_rx ret;
	u32 ahead;

	ret = rar_keyed_judge(from, c->chunk, c->last, &ahead);
	if (ret != RAR_RX_DONE && ret != RAR_RX_RETRY)
		return ret;
	from->ce |= pkt->ce;
	if (ret == RAR_RX_DONE) {
		take_news(from, &c->news, 0);
		return ret;
	}
	if (!rar_keyed_has_room(root, c->n)) {
		from->refused = true;
		take_news(from, &c->news, 0);
		return RAR_DROP(EarlyFull);
	}
	if (rar_keyed_has_room(root, root->nover / 2))
		from->refused = false;
	root->reserved += c->n;
	root->busy++;
	c->new = true;
	if (c->last) {
		from->ending = true;
		from->end = c->chunk + 1;
	}
	c->ends = rar_keyed_note(from, ahead);
	root->open -= c->ends;
	if (c->ack_now || from->map || c->ends || from->news >= KEYED_ACK_EVERY) {
		take_news(from, &c->news, 0);
	} else if (!root->news_us) {
		root->news_us = rar_now_us() + RAR_ACK_DELAY_US;
		c->later_us = root->news_us;
	}
	return RAR_RX_DONE;
}

/* Reduce a chunk that was claimed. No exit in between. */
static void reduce_chunk(struct rar_keyed_root *root, const struct rar_pkt *pkt,
			 struct stream_chunk *c)
{
	c->over = reduce_packet(root, pkt->skb, c->off, c->n);
	spin_lock_bh(&root->lock);
	root->reserved -= c->n;
	root->busy--;
	c->all = !root->open && !root->busy;
	spin_unlock_bh(&root->lock);
}

/* Count a chunk that was reduced, and act on the last one of a rank. */
static void reduced(struct rar_member *m, struct rar_operation *op, const struct stream_chunk *c)
{
	u32 bytes = c->n * op->keyed->kind.record;
	bool wake = c->over;

	rar_mib_inc(m->rn, RxData);
	rar_mib_add(m->rn, RxBytes, bytes);
	spin_lock_bh(&m->tx_lock);
	m->rx_packets++;
	m->rx_bytes += bytes;
	/*
	 * A rank whose chunks are all here is not asked any more. Another CPU, which took the last
	 * chunk of another rank, may have completed the operation before this.
	 */
	if (c->ends) {
		WRITE_ONCE(op->peers, op->peers & ~BIT(c->rank));
		wake |= rar_link_try_release(m, op);
	}
	if (c->later_us)
		rar_link_timer_at(m, c->later_us);
	spin_unlock_bh(&m->tx_lock);
	if (wake)
		rar_member_wake(m);
}

/* Take in a chunk of an operation of which this rank is the root. */
static enum rar_rx root_rcv(struct rar_member *m, struct rar_operation *op,
			    const struct rar_pkt *pkt, struct stream_chunk *c)
{
	struct rar_keyed_root *root = op->keyed->root;
	enum rar_rx ret;

	spin_lock_bh(&root->lock);
	ret = claim_chunk(root, pkt, c);
	spin_unlock_bh(&root->lock);
	if (c->new) {
		reduce_chunk(root, pkt, c);
		reduced(m, op, c);
	} else if (ret == RAR_RX_DONE) {
		rar_mib_inc(m->rn, RxDup);
	}
	if (c->all)
		rar_keyed_complete(m, op);
	else if (c->news.due)
		send_news(pkt->link, op->seq, &c->news);
	return ret;
}

/* Does a packet, which is a DIRECT, bring a chunk of a stream? */
bool rar_keyed_is(const struct rar_pkt *pkt)
{
	u32 off = pkt->off + offsetof(struct rar_data_hdr, collective);
	u8 collective;

	return !skb_copy_bits(pkt->skb, off, &collective, sizeof(collective)) &&
	       collective == RAR_REDUCE_BY_KEY;
}

/* Are the lengths of a chunk right? */
static bool right_length(const struct rar_keyed *k, u32 bytes, bool last)
{
	return !(bytes % k->kind.record) && (last ? bytes <= k->chunk : bytes == k->chunk);
}

/* A chunk of an operation that is released here: the sender has missed that it is complete. */
static enum rar_rx released(struct rar_member *m, const struct rar_pkt *pkt, u64 seq,
			    const struct rar_fingerprint *theirs)
{
	bool agrees;

	spin_lock_bh(&m->tx_lock);
	/* It may have been posted only now: the history may be of an older one like it. */
	agrees = !rar_link_op_at(m, seq) && theirs->root == m->rank &&
		 rar_link_finished(m, seq, theirs);
	spin_unlock_bh(&m->tx_lock);
	if (!agrees)
		return RAR_DROP(Op);
	rar_mib_inc(m->rn, RxDup);
	send_all_came(pkt->link, seq);
	return RAR_RX_DONE;
}

/**
 * rar_keyed_rcv() - take in a chunk of a stream
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated DIRECT, with rar_keyed_is()
 *
 * Softirq.
 *
 * Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_keyed_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 bytes = pkt->len - sizeof(struct rar_data_hdr);
	struct rar_fingerprint theirs;
	struct rar_operation *op;
	struct rar_data_hdr dh;
	enum rar_reason why;
	u64 seq;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return RAR_DROP(Short);
	rar_direct_hear(pkt->link, be32_to_cpu(dh.base),
			be64_to_cpu(dh.complete), true);
	seq = be64_to_cpu(dh.op_seq);
	if (seq >= READ_ONCE(m->op_next))
		return RAR_DROP(EarlyFull);
	theirs = rar_op_described(&dh);
	op = rcu_dereference(m->ops[seq % RAR_MAX_OPS]);
	if (!op || op->seq != seq)
		return released(m, pkt, seq, &theirs);
	why = rar_fingerprint_differs(&theirs, &op->fingerprint);
	if (why) {
		rar_fail_differs(m, &theirs, op, why, pkt->link->rank);
		return RAR_DROP(Op);
	}
	if (!op->keyed->is_root)
		return RAR_DROP(Chunk);
	if (!right_length(op->keyed, bytes, dh.flags & RAR_F_LAST))
		return RAR_DROP(Length);
	return root_rcv(m, op, pkt, &(struct stream_chunk) {
		.rank = pkt->link->rank,
		.chunk = be32_to_cpu(dh.chunk),
		.n = bytes / op->keyed->kind.record,
		.off = pkt->off + sizeof(dh),
		.last = dh.flags & RAR_F_LAST,
		.ack_now = dh.flags & RAR_F_ACK_NOW,
	});
}

/* -- the root: its own records, and recv() ---------------------------------- */

/**
 * rar_keyed_give() - reduce records of this rank, which is the root
 * @m:       member
 * @op:      posted, referenced
 * @records: records of the user
 * @n:       how many
 *
 * Process context, send_lock held.
 *
 * Return: how many were taken; fewer than @n if recv() must make room first.
 */
u32 rar_keyed_give(struct rar_member *m, struct rar_operation *op, const void *records, u32 n)
{
	struct rar_keyed_root *root = op->keyed->root;
	u32 done = 0, now;
	bool over = false, room;

	while (done < n) {
		now = min_t(u32, n - done, KEYED_BATCH);
		spin_lock_bh(&root->lock);
		room = rar_keyed_has_room(root, now);
		root->reserved += room ? now : 0;
		spin_unlock_bh(&root->lock);
		if (!room)
			break;
		over |= reduce_batch(root, records + done * root->table.kind.record, now);
		spin_lock_bh(&root->lock);
		root->reserved -= now;
		spin_unlock_bh(&root->lock);
		done += now;
	}
	if (over)
		rar_member_wake(m);
	return done;
}

/* Acknowledge the streams of ranks, a bit each. RCU read side, bottom halves off. */
void rar_keyed_tell(struct rar_member *m, struct rar_operation *op, u32 ranks, u32 flags)
{
	struct rar_keyed_root *root = op->keyed->root;
	struct news news;
	u32 rank;

	for (rank = 0; rank < m->size; rank++) {
		if (!(ranks & BIT(rank)))
			continue;
		spin_lock_bh(&root->lock);
		take_news(&root->from[rank], &news, flags);
		spin_unlock_bh(&root->lock);
		send_news(&m->direct.peer[rank].link, op->seq, &news);
	}
}

/* Tell ranks, a bit each, that their chunks may come now. Process context. */
static void call_ranks(struct rar_member *m, struct rar_operation *op, u32 ranks)
{
	local_bh_disable();
	rcu_read_lock();
	if (rar_member_runs(m))
		rar_keyed_tell(m, op, ranks, RAR_DF_OPEN);
	rcu_read_unlock();
	local_bh_enable();
}

/**
 * rar_keyed_read() - give back the room of records that recv() has copied out
 * @m:  member
 * @op: posted; this rank is the root
 * @n:  records that were read of those that had no room in the table
 *
 * Process context, recv_lock held.
 */
void rar_keyed_read(struct rar_member *m, struct rar_operation *op, u64 n)
{
	struct rar_keyed_root *root = op->keyed->root;
	u32 rank, ranks = 0;

	spin_lock_bh(&root->lock);
	WRITE_ONCE(root->over_read, root->over_read + n);
	/* Not for each record: a rank that is told may send a whole window. */
	for (rank = 0; rank < m->size && rar_keyed_has_room(root, root->nover / 2); rank++) {
		if (root->from[rank].refused)
			ranks |= BIT(rank);
		root->from[rank].refused = false;
	}
	spin_unlock_bh(&root->lock);
	call_ranks(m, op, ranks);
}

/**
 * rar_keyed_begin() - let a keyed reduction begin that was posted
 * @m:  member
 * @op: posted, referenced
 *
 * Process context, send_lock held.
 */
void rar_keyed_begin(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->tx_lock);
	m->direct.keyed = true;
	if (!op->keyed->is_root)
		rar_stream_begin(op);
	/* So that a rank that is silent is found, and chunks that were refused come again. */
	if (op->peers)
		rar_link_timer_at(m, rar_now_us() + RAR_ACK_DELAY_US);
	spin_unlock_bh(&m->tx_lock);
	if (op->keyed->is_root)
		call_ranks(m, op, READ_ONCE(op->peers));
}

/* Return: have all ranks given all? */
static bool end_root(struct rar_operation *op)
{
	struct rar_keyed_root *root = op->keyed->root;
	bool all;

	WRITE_ONCE(op->posted_us, rar_now_us());
	/* Pairs with the acquire in gave_all(). */
	smp_store_release(&op->keyed->ended, true);
	spin_lock_bh(&root->lock);
	all = !--root->open && !root->busy;
	spin_unlock_bh(&root->lock);
	return all;
}

/**
 * rar_keyed_end() - note that this rank has given its last record
 * @m:  member
 * @op: posted, referenced
 *
 * Process context, send_lock held.
 */
void rar_keyed_end(struct rar_member *m, struct rar_operation *op)
{
	bool all = true;

	if (op->keyed->is_root)
		all = end_root(op);
	else
		rar_stream_end(m, op);
	local_bh_disable();
	rcu_read_lock();
	/* If the group has failed the operation is not complete. */
	if (all && rar_member_runs(m))
		rar_keyed_complete(m, op);
	rcu_read_unlock();
	local_bh_enable();
}

/* -- the box ----------------------------------------------------------------- */

/**
 * rar_keyed_rcv_return() - take in that the box gives chunks of this rank's stream up
 * @m:  member in RUN or LEAVING, RCU read side
 * @ch: RETURN
 *
 * Softirq.
 *
 * Return: false if it is about another operation.
 */
bool rar_keyed_rcv_return(struct rar_member *m, const struct rar_chunks_hdr *ch)
{
	struct rar_operation *op = keyed_at(m, be64_to_cpu(ch->op_seq));

	if (op && !op->keyed->is_root)
		rar_stream_returned(m, op, be32_to_cpu(ch->first), le64_to_cpu(ch->map[0]));
	return op;
}

/* -- acknowledgments of a stream of this rank -------------------------------- */

/**
 * rar_keyed_rcv_done() - take in an acknowledgment of the root
 * @m:   member in RUN or LEAVING, RCU read side
 * @pkt: validated DONE
 *
 * Softirq.
 */
void rar_keyed_rcv_done(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_operation *op;
	struct rar_done_hdr dh;
	u32 flags;

	if (skb_copy_bits(pkt->skb, pkt->off, &dh, sizeof(dh)))
		return;
	flags = be32_to_cpu(dh.flags);
	op = keyed_at(m, be64_to_cpu(dh.op_seq));
	if (!(flags & RAR_DF_STREAM) || !op)
		return;
	if (pkt->link->rank != op->fingerprint.root)
		rar_fail_pair(m, EBADMSG, RAR_R_ROOT, pkt->link->rank, m->rank, op->seq);
	else
		rar_stream_acked(m, op, be32_to_cpu(dh.chunk), ~be64_to_cpu(dh.lacks), flags);
}

/* -- time ------------------------------------------------------------------- */

/* The ranks of which nothing has come, a bit each. root->lock. */
static u32 unheard(const struct rar_keyed_root *root, u32 size)
{
	u32 ranks = 0, rank;

	for (rank = 0; rank < size; rank++)
		if (!root->from[rank].below && !root->from[rank].map)
			ranks |= BIT(rank);
	return ranks;
}

/* Send acknowledgments that are due, and call ranks that may not know that they may begin. */
static void root_tick(struct rar_member *m, struct rar_operation *op, u64 now)
{
	struct rar_keyed_root *root = op->keyed->root;
	u32 rank, ranks = 0, call = 0;
	u64 later;

	spin_lock_bh(&root->lock);
	if (root->news_us && now >= root->news_us) {
		root->news_us = 0;
		for (rank = 0; rank < m->size; rank++)
			if (root->from[rank].news)
				ranks |= BIT(rank);
	}
	later = root->news_us;
	if (now >= root->call_us) {
		root->call_us = now + KEYED_CALL_US;
		call = unheard(root, m->size) & READ_ONCE(op->peers);
	}
	if (unheard(root, m->size) & READ_ONCE(op->peers) && (!later || root->call_us < later))
		later = root->call_us;
	spin_unlock_bh(&root->lock);
	if (later) {
		spin_lock_bh(&m->tx_lock);
		rar_link_timer_at(m, later);
		spin_unlock_bh(&m->tx_lock);
	}
	rar_keyed_tell(m, op, ranks & ~call, 0);
	rar_keyed_tell(m, op, call, RAR_DF_OPEN);
}

/**
 * rar_keyed_tick() - send acknowledgments and repeats that are due; part of the timer of all links
 * @m: member in RUN or LEAVING, RCU read side; no lock held
 *
 * Softirq.
 */
void rar_keyed_tick(struct rar_member *m)
{
	struct rar_operation *op;
	u64 now = rar_now_us(), seq;

	if (!READ_ONCE(m->direct.keyed))
		return;
	for (seq = READ_ONCE(m->op_oldest); seq < READ_ONCE(m->op_next); seq++) {
		op = keyed_at(m, seq);
		if (op && op->keyed->is_root)
			root_tick(m, op, now);
		else if (op)
			rar_stream_tick(m, op, now);
	}
}
