/* SPDX-License-Identifier: GPL-2.0 */
/* An arrival: a run of chunks that came, while this rank takes it in. */
#ifndef _RAR_CORE_ARRIVAL_H
#define _RAR_CORE_ARRIVAL_H

#include "core/cursor.h"
#include "core/op.h"
#include "core/ring.h"

struct rar_link;
struct rar_pkt;

/*
 * struct rar_arrival - a run of chunks that came, on the stack of the code that takes it in
 *
 * The code that receives the run sets @link, @pkt, @dh, @op_seq and @run, and all bits of the
 * run in @done. chunk.c sets the other fields.
 *
 * @link:	the link by which the run came
 * @pkt:	the packet that brought the run; NULL: it lies in the buffer of a rank in this
 *		namespace
 * @dh:		header of the first chunk; NULL without a packet
 * @op_seq:	number of the operation
 * @fingerprint: the operation as the sender describes it
 * @run:	the chunks
 * @bytes:	payload of the run
 * @from:	the packet or the buffer, from which the chunks are read
 * @off:	offset of the first chunk there
 * @stride:	distance of the chunks there, bytes
 * @c:		place of the first chunk in the operation
 * @won:	chunks that are new at this rank
 * @done:	chunks that are at this rank now, or were before
 * @dups:	chunks of @done that were at this rank before
 * @now_us:	when the new chunks were published, 0 = no chunk was new
 */
struct rar_arrival {
	struct rar_link *link;
	struct rar_pkt *pkt;
	const struct rar_data_hdr *dh;
	u64 op_seq;
	struct rar_fingerprint fingerprint;
	struct rar_run run;
	u64 bytes;
	struct rar_cursor from;
	u64 off;
	u32 stride;
	struct rar_chunk c;
	u64 won;
	u64 done;
	u64 dups;
	u64 now_us;
};

#endif /* _RAR_CORE_ARRIVAL_H */
