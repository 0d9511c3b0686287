/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_LOSS_H
#define _RAR_LINK_LOSS_H

#include "rar.h"

bool rar_loss_frames_pass(const struct rar_link *link);
bool rar_loss_rcv_ack(struct rar_link *link, const struct rar_pkt *pkt);
void rar_loss_rcv_numbers(struct rar_link *link, u32 seq, u64 which,
			  u32 delay);
void rar_loss_refused(struct rar_link *link);
bool rar_loss_tick(struct rar_member *m);
unsigned long rar_loss_keepalive(struct rar_link *link, bool *fell);
bool rar_loss_mtu_fell(struct rar_link *link);

#endif /* _RAR_LINK_LOSS_H */
