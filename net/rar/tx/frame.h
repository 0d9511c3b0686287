/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_FRAME_H
#define _RAR_TX_FRAME_H

#include "rar.h"

bool rar_frame_ready(struct rar_link *link, const struct rar_pkt *pkt);
void rar_frame_forward(struct rar_link *link, struct rar_tx_item *item,
		       const struct rar_pkt *pkt);
void rar_frame_mirror(struct rar_net *rn, const struct rar_frame *frame);

#endif /* _RAR_TX_FRAME_H */
