/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_STREAM_H
#define _RAR_RING_STREAM_H

#include "rar.h"

void rar_stream_begin(struct rar_operation *op);
void rar_stream_push(struct rar_member *m, struct rar_operation *op);
u32 rar_stream_filled(struct rar_member *m, struct rar_operation *op);
void rar_stream_end(struct rar_member *m, struct rar_operation *op);
void rar_stream_acked(struct rar_member *m, struct rar_operation *op, u32 below, u64 map,
		      u32 flags);
void rar_stream_returned(struct rar_member *m, struct rar_operation *op, u32 first, u64 map);
void rar_stream_tick(struct rar_member *m, struct rar_operation *op, u64 now);

#endif /* _RAR_RING_STREAM_H */
