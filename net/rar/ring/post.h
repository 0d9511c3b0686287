/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_POST_H
#define _RAR_RING_POST_H

#include "rar.h"

void rar_post_open(struct rar_member *m, u64 op_seq, bool tell);
void rar_post_open_from(struct rar_member *m, u64 op_seq);
bool rar_post_all_unread(struct rar_member *m);
int rar_post_may(struct rar_member *m);
int rar_post(struct rar_member *m, struct rar_operation *op);

#endif /* _RAR_RING_POST_H */
