/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_DOUBLING_H
#define _RAR_RING_DOUBLING_H

#include "rar.h"

u32 rar_doubling_chunk(const struct rar_operation *op, u32 stage, u32 nth);
u64 rar_doubling_made(const struct rar_operation *op, u32 stage);
void rar_doubling_publish(struct rar_operation *op, u32 stage);
u64 rar_doubling_make(struct rar_member *m, struct rar_operation *op,
		      u32 stage, u32 nth, u64 mask);

#endif /* _RAR_RING_DOUBLING_H */
