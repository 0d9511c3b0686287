/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_KEYED_H
#define _RAR_RING_KEYED_H

#include "core/keyed.h"
#include "core/mib.h"
#include "rar.h"

void rar_keyed_complete(struct rar_member *m, struct rar_operation *op);
bool rar_keyed_has_room(const struct rar_keyed_root *root, u32 n);
bool rar_keyed_reduce_all(struct rar_keyed_root *root, const u8 *records, u32 n);
bool rar_keyed_note(struct rar_keyed_from *from, u32 ahead);
enum rar_rx rar_keyed_judge(const struct rar_keyed_from *from, u32 chunk, bool last, u32 *ahead);
void rar_keyed_tell(struct rar_member *m, struct rar_operation *op, u32 ranks, u32 flags);
bool rar_keyed_rcv_return(struct rar_member *m, const struct rar_chunks_hdr *ch);
bool rar_keyed_is(const struct rar_pkt *pkt);
enum rar_rx rar_keyed_rcv(struct rar_member *m, const struct rar_pkt *pkt);
void rar_keyed_rcv_done(struct rar_member *m, const struct rar_pkt *pkt);
void rar_keyed_tick(struct rar_member *m);
void rar_keyed_begin(struct rar_member *m, struct rar_operation *op);
u32 rar_keyed_give(struct rar_member *m, struct rar_operation *op, const void *records, u32 n);
void rar_keyed_end(struct rar_member *m, struct rar_operation *op);
void rar_keyed_read(struct rar_member *m, struct rar_operation *op, u64 n);

#endif /* _RAR_RING_KEYED_H */
