/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_TURN_H
#define _RAR_RING_TURN_H

#include "rar.h"

void rar_turn_take(struct rar_member *m);
void rar_turn_init(bool (*push)(struct rar_member *m));
void rar_turn_exit(void);

#endif /* _RAR_RING_TURN_H */
