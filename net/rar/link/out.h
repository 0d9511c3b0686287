/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_OUT_H
#define _RAR_LINK_OUT_H

#include "rar.h"

void rar_out_pend(struct rar_link *link, struct rar_operation *op, u32 way,
		  u32 chunk, u64 mask);
void rar_out_pend_unsent(struct rar_link *link, struct rar_operation *op,
			 const struct rar_run *run);
void rar_out_clear(struct rar_link *link, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask);
void rar_out_find(struct rar_link *link, struct rar_operation *op,
		  struct rar_run *run, u32 way, u32 max);
void rar_out_acked(struct rar_link *link, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask);
u32 rar_out_sent(struct rar_link *link, struct rar_operation *op, const struct rar_run *run);
u32 rar_out_welcome(const struct rar_link *link, const struct rar_operation *op,
		    const struct rar_run *run);
void rar_out_find_welcome(struct rar_link *link, struct rar_operation *op,
			  struct rar_run *run, u32 max);
u32 rar_out_take_credit(struct rar_link *link, struct rar_operation *op,
			const struct rar_run *run);

#endif /* _RAR_LINK_OUT_H */
