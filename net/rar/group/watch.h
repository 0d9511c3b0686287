/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_WATCH_H
#define _RAR_GROUP_WATCH_H

#include "rar.h"

void rar_watch_ask(struct rar_member *m, u64 seq, u32 origin);
unsigned long rar_watch_tick(struct rar_member *m);
void rar_watch_owner(struct rar_member *m, struct pid *pid);
void rar_watch_check_owner(struct rar_member *m);

#endif /* _RAR_GROUP_WATCH_H */
