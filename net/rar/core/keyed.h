/* SPDX-License-Identifier: GPL-2.0 */
/* A keyed reduction at one rank: the table of the root, or the stream of another rank. */
#ifndef _RAR_CORE_KEYED_H
#define _RAR_CORE_KEYED_H

#include <linux/minmax.h>
#include <linux/rar_wire.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "core/gather.h"
#include "reduce/keyed.h"

struct rar_fingerprint;

#define RAR_STREAM_CHUNKS	64	/* of a window at most: bits of rar_done_hdr.lacks */
#define RAR_BATCH_PIECES	64	/* most pieces of a batch: bits of rar_chunks_hdr.map[0] */
#define RAR_BATCH_RECORDS	8192	/* most records of a batch */

/*
 * struct rar_keyed_from - the chunks that came to the root from a rank
 * @below:   all chunks below came
 * @map:     bit n: chunk @below + n came, too
 * @end:     after the last chunk, if @ending
 * @news:    chunks that came since the last acknowledgment
 * @ending:  the last chunk came
 * @ended:   all chunks came
 * @refused: a chunk was refused, and the rank has not been told that it may come now
 * @ce:      a chunk came with the CE mark since the last acknowledgment
 */
struct rar_keyed_from {
	u32 below;
	u64 map;
	u32 end;
	u32 news;
	bool ending;
	bool ended;
	bool refused;
	bool ce;
};

/*
 * struct rar_batch - the newest batch of the box at the root, see ring/batch.c
 * @token:  epoch of the leg by which it comes, 0 = none has come
 * @number: its number
 * @pieces: how many it has
 * @came:   bit n: piece n came
 * @bytes:  of its last piece
 * @busy:   all pieces are here, and its records are being reduced: nothing of it changes
 * @over:   it was taken or refused
 * @refused: it was refused
 * @list:   piece 0
 * @records: the other pieces, each at its place; NULL: records do not go by a box
 */
struct rar_batch {
	u64 token;
	u32 number;
	u32 pieces;
	u64 came;
	u32 bytes;
	bool busy;
	bool over;
	bool refused;
	struct rar_batch_rank list[RAR_GATHER_RANKS];
	u8 *records;
};

/*
 * struct rar_keyed_root - the root's side
 * @lock:   protects this struct; taken in softirq. recv() reads the table without it when the
 *          operation is complete
 * @table:  one record for each key
 * @over:   records whose keys had no room in @table, a ring of @nover records. They wait for
 *          recv(), which owns those from @over_read to @over_end: it is the only reader
 * @nover:  records that @over has room for
 * @over_read: records that were read from @over, in all
 * @over_end:  records that were put there, in all
 * @partial: there were such records
 * @reserved: records of chunks that are being reduced, and may have to wait there
 * @busy:   chunks that are claimed and not reduced
 * @open:   ranks that have not sent their last record; this rank counts, too
 * @from:   by rank
 * @news_us: when chunks that came are acknowledged at the latest, 0 = there are none
 * @call_us: when ranks of which nothing has come are told again that they may begin
 * @slot:   recv(): the next place of the table to read
 * @batch:  the newest batch of the box
 */
struct rar_keyed_root {
	spinlock_t lock; /* see above */
	struct rar_keyed_table table;
	u8 *over;
	u64 nover;
	u64 over_read;
	u64 over_end;
	bool partial;
	u64 reserved;
	u32 busy;
	u32 open;
	struct rar_keyed_from from[RAR_GATHER_RANKS];
	u64 news_us;
	u64 call_us;
	u64 slot;
	struct rar_batch batch;
};

/*
 * struct rar_stream - the records that a rank sends to the root; under tx_lock
 * @window: chunks that the operation's buffer has room for. Chunk n lies at place n modulo that
 * @next:   chunks that are filled; send() fills the next one
 * @sent:   chunks that were sent
 * @una:    all chunks below are acknowledged
 * @acked:  bit n: chunk @una + n is acknowledged, too
 * @again:  bit n: chunk @una + n will be sent again
 * @boxed:  bit n: chunk @una + n was sent to the box, and not to the root
 * @direct: new chunks before this one go straight to the root, after the box gave chunks up
 * @skip:   how many did so the last time
 * @judged: the box is not blamed again before this chunk is acknowledged
 * @last:   bytes of the last chunk, if @ended
 * @full:   the root has refused chunks: they go one by one
 * @told:   the root has told of the stream, so it has posted
 * @nlost:  chunks of full size on the straight path that were lost, since one came
 * @lost_us: when the first of them was
 * @cwnd:   chunks that may be on their way
 * @ssthresh: up to here @cwnd grows by each chunk that is acknowledged, then by each window
 * @grown:  chunks acknowledged since @cwnd grew
 * @recover: @cwnd does not shrink again before this chunk is acknowledged
 * @rtt_us: time from a chunk to its acknowledgment, smoothed; 0 = not measured
 * @backoff: times that @due_us passed without an acknowledgment
 * @due_us: when the oldest chunk is sent again, 0 = all are acknowledged
 * @sent_us: by place, when the chunk was sent
 * @fill:   send_lock: bytes in the chunk that send() fills
 */
struct rar_stream {
	u32 window;
	u32 next;
	u32 sent;
	u32 una;
	u64 acked;
	u64 again;
	u64 boxed;
	u32 direct;
	u32 skip;
	u32 judged;
	u32 last;
	bool full;
	bool told;
	u32 nlost;
	u64 lost_us;
	u32 cwnd;
	u32 ssthresh;
	u32 grown;
	u32 recover;
	u32 rtt_us;
	u32 backoff;
	u64 due_us;
	u64 sent_us[RAR_STREAM_CHUNKS];
	u32 fill;
};

/*
 * struct rar_keyed - a keyed reduction
 * @kind:  of its records
 * @chunk: bytes of a chunk, whole records; only the last one of a rank may be shorter
 * @ended: this rank has given its last record
 * @root:  at the root
 * @stream: elsewhere
 */
struct rar_keyed {
	struct rar_keyed_kind kind;
	u32 chunk;
	bool ended;
	union {
		struct rar_keyed_root *root;
		struct rar_stream *stream;
	};
	bool is_root;
};

bool rar_keyed_of(struct rar_keyed_kind *kind, const struct rar_fingerprint *fingerprint);
u32 rar_keyed_window(u32 chunk);
u64 rar_keyed_room(const struct rar_keyed_kind *kind, u64 slots, u32 payload, bool box);
struct rar_keyed *rar_keyed_alloc(const struct rar_fingerprint *fingerprint, u32 payload,
				  u32 size, bool is_root, bool box);
void rar_keyed_free(struct rar_keyed *k);

/* Bytes of a chunk: whole records. */
static inline u32 rar_keyed_chunk(const struct rar_keyed_kind *kind, u32 payload)
{
	return payload - payload % kind->record;
}

/* Pieces that a batch may have, with its list. */
static inline u32 rar_keyed_pieces(const struct rar_keyed_kind *kind, u32 payload)
{
	return 1 + min_t(u32, RAR_BATCH_PIECES - 1,
			 RAR_BATCH_RECORDS / (payload / kind->record));
}

/* Records that a batch may have. */
static inline u32 rar_keyed_batch_max(const struct rar_keyed_kind *kind, u32 payload)
{
	return (rar_keyed_pieces(kind, payload) - 1) * (payload / kind->record);
}

/* Are there records that wait for recv()? */
static inline bool rar_keyed_has_over(const struct rar_keyed_root *root)
{
	return READ_ONCE(root->over_read) != READ_ONCE(root->over_end);
}

/* Chunks that send() may fill, besides the one that it fills. Locklessly, or under tx_lock. */
static inline u32 rar_stream_free(const struct rar_stream *s)
{
	return s->window - 1 - (READ_ONCE(s->next) - READ_ONCE(s->una));
}

/*
 * The leg is closed, so chunks at the box are sent again, to the root, by the timer. Return: there
 * are some. tx_lock.
 */
static inline bool rar_stream_unbox(struct rar_stream *s)
{
	s->again |= s->boxed & ~s->acked;
	return s->again;
}

/* Is a send() that waits woken? It has half of the chunks, so not for each of them. */
static inline bool rar_stream_writable(const struct rar_stream *s)
{
	return rar_stream_free(s) >= s->window / 2;
}

#endif /* _RAR_CORE_KEYED_H */
