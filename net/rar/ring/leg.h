/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_LEG_H
#define _RAR_RING_LEG_H

#include "rar.h"

void rar_leg_open(struct rar_link *link, u64 nonce, u64 epoch, u32 flags);
void rar_leg_look(struct rar_member *m);
enum rar_rx rar_leg_rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n);
void rar_leg_rcv_want(struct rar_member *m, const struct rar_pkt *pkt);
unsigned long rar_leg_tick(struct rar_member *m);

#endif /* _RAR_RING_LEG_H */
