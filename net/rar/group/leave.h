/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_LEAVE_H
#define _RAR_GROUP_LEAVE_H

#include "rar.h"

void rar_leave_shutdown(struct rar_member *m);
void rar_leave_release(struct rar_member *m);
void rar_leave_rcv_fin(struct rar_member *m, const struct rar_error *fin,
		       enum rar_dir dir);
void rar_leave_rcv_fin_ack(struct rar_member *m, enum rar_dir dir);
bool rar_leave_tick(struct rar_member *m);
void rar_leave_check_orphan(struct rar_member *m);

#endif /* _RAR_GROUP_LEAVE_H */
