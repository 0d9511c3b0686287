/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_DROP_H
#define _RAR_CORE_DROP_H

#include "rar.h"

void rar_drop(struct rar_net *rn, struct sk_buff *skb, enum rar_mib reason);

#endif /* _RAR_CORE_DROP_H */
