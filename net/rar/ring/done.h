/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_DONE_H
#define _RAR_RING_DONE_H

#include "rar.h"

struct rar_arrival;

void rar_done(struct rar_member *m, struct rar_operation *op);
void rar_done_passed(struct rar_member *m);
void rar_done_lead(struct rar_member *m, struct rar_operation *op, const struct rar_arrival *a);
void rar_done_delivered(struct rar_member *m, struct rar_operation *op);

#endif /* _RAR_RING_DONE_H */
