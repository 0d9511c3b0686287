/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_WINDOW_H
#define _RAR_LINK_WINDOW_H

#include "rar.h"

void rar_window_rtt(struct rar_member *m, u32 us, u64 now);
u64 rar_window_timeout(const struct rar_link_tx *tx);
u32 rar_window_patience(const struct rar_link_tx *tx);
void rar_window_lost(struct rar_member *m, u32 seq, bool head);
void rar_window_late(struct rar_link_tx *tx, u64 now);
void rar_window_collapse(struct rar_link_tx *tx);
void rar_window_full(struct rar_link_tx *tx);
void rar_window_acked(struct rar_member *m, u32 n, u32 packets, u32 marks);
void rar_window_spurious(struct rar_member *m, u32 n, u64 now);
void rar_window_begin(struct rar_member *m, u64 now);
u32 rar_window_burst(const struct rar_member *m, u64 now, u64 *more_us);
u32 rar_window_may_inject(struct rar_member *m, const struct rar_operation *op, u32 want);
void rar_window_post(struct rar_member *m, struct rar_operation *op);
void rar_window_injected(struct rar_member *m, struct rar_operation *op,
			 const struct rar_run *run, u64 now);
void rar_window_returned(struct rar_member *m, struct rar_operation *op,
			 u32 chunk, u64 bytes, u64 now);
void rar_window_init(struct rar_member *m);

#endif /* _RAR_LINK_WINDOW_H */
