/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_LEAVE_H
#define _RAR_GROUP_LEAVE_H

#include "rar.h"

void rar_leave_shutdown(struct rar_member *m);
void rar_leave_release(struct rar_member *m);
void rar_leave_rcv_fin(struct rar_link *link, const struct rar_error *fin);
void rar_leave_rcv_fin_ack(struct rar_link *link);
bool rar_leave_tick(struct rar_member *m);
void rar_leave_check_orphan(struct rar_member *m);

#endif /* _RAR_GROUP_LEAVE_H */
