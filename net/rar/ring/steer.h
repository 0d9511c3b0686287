/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_STEER_H
#define _RAR_RING_STEER_H

#include "rar.h"

void rar_steer_plan(struct rar_member *m, struct rar_operation *op);
bool rar_steer_send(struct rar_link *link, const struct rar_tx_item *item);
void rar_steer_init(void);
void rar_steer_exit(void);

#endif /* _RAR_RING_STEER_H */
