/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_TABLE_H
#define _RAR_GROUP_TABLE_H

#include "rar.h"

unsigned long rar_table_retry_in(u32 tries);
void rar_table_rcv(struct rar_member *m, const struct rar_pkt *pkt);
bool rar_table_tick(struct rar_member *m);
void rar_table_new_prev(struct rar_member *m);
void rar_table_reset(struct rar_member *m, const struct rar_resume *past);
void rar_table_alone(struct rar_member *m);

#endif /* _RAR_GROUP_TABLE_H */
