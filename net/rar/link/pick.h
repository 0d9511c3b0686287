/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_PICK_H
#define _RAR_LINK_PICK_H

#include "rar.h"

#define RAR_PICK_BATCH		16

u32 rar_pick_batch(struct rar_link *link, struct rar_tx_item *items, u32 own);
bool rar_pick_take_back(struct rar_link *link, struct rar_tx_item *item);
bool rar_pick_take(struct rar_link *link, struct rar_member *next,
		   struct rar_tx_item *item);
void rar_pick_taken(struct rar_link *link, struct rar_tx_item *item, u64 done);
bool rar_pick_forward(struct rar_link *link, struct rar_operation *op,
		      const struct rar_run *run, struct rar_tx_item *item, u64 now);

#endif /* _RAR_LINK_PICK_H */
