/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_ENTER_H
#define _RAR_GROUP_ENTER_H

#include "rar.h"

int rar_enter_begin(struct rar_member *m);
unsigned long rar_enter_tick(struct rar_member *m);
bool rar_enter_awaited(const struct rar_member *m);
void rar_enter_work(struct rar_member *m);
void rar_enter_rcv_unheard(struct rar_member *m, const struct rar_pkt *pkt,
			   enum rar_reason why);

#endif /* _RAR_GROUP_ENTER_H */
