/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_DONE_H
#define _RAR_RING_DONE_H

#include "rar.h"

void rar_done(struct rar_member *m, struct rar_operation *op);
void rar_done_delivered(struct rar_member *m, struct rar_operation *op);

#endif /* _RAR_RING_DONE_H */
