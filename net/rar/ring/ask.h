/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_ASK_H
#define _RAR_RING_ASK_H

#include "rar.h"

void rar_ask_tick(struct rar_member *m);
bool rar_ask_silent(struct rar_member *m, u32 *rank, u32 *ms);

#endif /* _RAR_RING_ASK_H */
