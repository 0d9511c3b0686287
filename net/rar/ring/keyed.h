/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_KEYED_H
#define _RAR_RING_KEYED_H

#include "core/mib.h"
#include "rar.h"

bool rar_keyed_is(const struct rar_pkt *pkt);
enum rar_rx rar_keyed_rcv(struct rar_member *m, const struct rar_pkt *pkt);
void rar_keyed_rcv_done(struct rar_member *m, const struct rar_pkt *pkt);
void rar_keyed_tick(struct rar_member *m);
void rar_keyed_begin(struct rar_member *m, struct rar_operation *op);
u32 rar_keyed_give(struct rar_member *m, struct rar_operation *op, const void *records, u32 n);
void rar_keyed_end(struct rar_member *m, struct rar_operation *op);
void rar_keyed_read(struct rar_member *m, struct rar_operation *op, u64 n);

#endif /* _RAR_RING_KEYED_H */
