/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_CARRY_H
#define _RAR_LINK_CARRY_H

#include "rar.h"

void rar_carry_start(struct rar_link *link);
bool rar_carry_would(const struct rar_link *link, const struct rar_operation *op, u32 n);
bool rar_carry_may(const struct rar_link *link, const struct rar_operation *op,
		   const struct rar_run *run);
void rar_carry_sent(struct rar_carry *carry, u32 n);
void rar_carry_came(struct rar_carry *carry, u32 n);
void rar_carry_lost(struct rar_carry *carry, u32 n);

#endif /* _RAR_LINK_CARRY_H */
