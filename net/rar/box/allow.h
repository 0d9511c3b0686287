/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_ALLOW_H
#define _RAR_BOX_ALLOW_H

#include "rar.h"

u64 rar_allow_neighbour(const struct sk_buff *skb, const struct rar_addr *from);
bool rar_allow_has(struct rar_member *self, const struct rar_addr *from,
		   const struct rar_addr *to);

#endif /* _RAR_BOX_ALLOW_H */
