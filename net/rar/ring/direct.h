/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_DIRECT_H
#define _RAR_RING_DIRECT_H

#include "rar.h"

struct rar_done_hdr;

void rar_direct_start(struct rar_member *m);
void rar_direct_push(struct rar_member *m);
void rar_direct_come(struct rar_member *m, struct rar_operation *op, u32 chunk,
		     u64 won);
void rar_direct_send_done(struct rar_link *link, struct rar_done_hdr *dh);
void rar_direct_done(struct rar_member *m, struct rar_operation *op);
void rar_direct_hear(struct rar_link *link, u32 base, u64 map, bool chunk);
void rar_direct_rcv_done(struct rar_member *m, const struct rar_pkt *pkt);
u64 rar_direct_lacks(const struct rar_operation *op, u32 rank);
void rar_direct_tell(struct rar_member *m, u64 slots);
bool rar_direct_concerns(struct rar_member *m, struct rar_operation *op,
			 u32 rank);
void rar_direct_left(struct rar_member *m, u32 rank, u64 last);

#endif /* _RAR_RING_DIRECT_H */
