/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_LEND_H
#define _RAR_CORE_LEND_H

#include <linux/types.h>

struct rar_operation;

void rar_lend_begin(struct rar_operation *op, u64 epoch);
void rar_lend_end(struct rar_operation *op);
bool rar_lend_valid(u32 id, u64 seq, u64 epoch);

#endif /* _RAR_CORE_LEND_H */
