/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_GATHER_H
#define _RAR_CORE_GATHER_H

#define RAR_GATHER_RANKS 16	/* the work at the end of an operation is bounded */

struct rar_member;
struct rar_operation;

void rar_gather_give(struct rar_operation *op);
void rar_gather_add(struct rar_member *m, struct rar_operation *op);

#endif /* _RAR_CORE_GATHER_H */
