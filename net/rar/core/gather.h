/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_GATHER_H
#define _RAR_CORE_GATHER_H

#include <linux/types.h>

#define RAR_GATHER_RANKS 16	/* the work at the end of an operation is bounded */

struct rar_member;
struct rar_operation;

void rar_gather_clear(struct rar_operation *op);
void rar_gather_give(struct rar_operation *op);
void rar_gather_end(const struct rar_operation *op);
void rar_gather_add(struct rar_member *m, struct rar_operation *op);
void rar_gather_pair(struct rar_member *m, struct rar_operation *op, u32 to,
		     u32 first, u32 second, u32 n, bool last);

#endif /* _RAR_CORE_GATHER_H */
