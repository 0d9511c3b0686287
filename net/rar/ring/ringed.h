/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_RINGED_H
#define _RAR_RING_RINGED_H

#include "rar.h"

struct rar_arrival;

bool rar_ringed_is_cast(const struct rar_operation *op);
bool rar_ringed_gets_none(const struct rar_operation *op);
bool rar_ringed_claim(struct rar_link *link, struct rar_operation *op, struct rar_run *run);
void rar_ringed_post(struct rar_member *m, struct rar_operation *op);
void rar_ringed_contributed(struct rar_member *m, struct rar_operation *op, u32 before);
bool rar_ringed_arrived(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a, struct rar_tx_item *item);
void rar_ringed_returned(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask,
			 bool handed);
void rar_ringed_passed(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask);
void rar_ringed_wanted(struct rar_member *m, struct rar_operation *op, u32 chunk, u64 mask);
void rar_ringed_rest(struct rar_member *m, struct rar_operation *op, u32 box);
void rar_ringed_tell(struct rar_link *link);
void rar_ringed_tell_all(struct rar_member *m);
u64 rar_ringed_close(struct rar_link *link);
u64 rar_ringed_leave(struct rar_link *link);
void rar_ringed_leave_all(struct rar_member *m);

#endif /* _RAR_RING_RINGED_H */
