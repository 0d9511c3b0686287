/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_PASSING_H
#define _RAR_BOX_PASSING_H

#include "rar.h"

u32 rar_passing_udp(const struct sk_buff *skb, struct rar_addr *from, struct rar_addr *to);

#endif /* _RAR_BOX_PASSING_H */
