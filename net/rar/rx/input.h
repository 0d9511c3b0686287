/* SPDX-License-Identifier: GPL-2.0 */
/* What input.c, chunk.c and early.c do for one another. */
#ifndef _RAR_INPUT_H
#define _RAR_INPUT_H

#include "rar.h"

/* What became of a packet, where it is not a drop reason (enum rar_mib). */
#define INPUT_OK	-1	/* used; the skb is still the caller's */
#define INPUT_TAKEN	-2	/* the skb is held, or on its way to the successor */
#define INPUT_LATER	-3	/* a frame: untouched, for the ingress hook */

/* A superpacket's chunks lie this far apart in it. */
static inline u32 rar_stride(const struct rar_member *m)
{
	return sizeof(struct rar_data_hdr) + m->payload;
}

/* chunk.c */
u32 rar_chunk_run(const struct rar_member *m, struct rar_pkt *pkt,
		  const struct rar_data_hdr *dh);
int rar_chunk_check(const struct rar_ring *ring, const struct rar_run *run, u64 bytes,
		    struct rar_chunk *c);
bool rar_chunk_early(const struct rar_member *m, u64 op_seq, const struct rar_run *run);
int rar_chunk_rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n);
int rar_chunk_use(struct rar_member *m, struct rar_pkt *pkt,
		  const struct rar_data_hdr *dh, const struct rar_run *run, u64 *done,
		  u64 *dups);

/* early.c */
int rar_early_hold(struct rar_member *m, struct rar_pkt *pkt,
		   const struct rar_data_hdr *dh, const struct rar_run *run);

#endif /* _RAR_INPUT_H */
