/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_PUSH_H
#define _RAR_RING_PUSH_H

#include "rar.h"

void rar_push_start(struct rar_member *m);
void rar_push(struct rar_member *m);
void rar_push_posted(struct rar_member *m);
void rar_push_later(struct rar_member *m, bool ack);
int rar_push_init(void);
void rar_push_exit(void);

#endif /* _RAR_RING_PUSH_H */
