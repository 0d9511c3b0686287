/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_CARRIER_H
#define _RAR_TX_CARRIER_H

#include "rar.h"

void rar_carrier_label(const struct rar_link *link, const struct rar_tx_item *item,
		       struct sk_buff *skb);
struct sk_buff *rar_carrier_build(const struct rar_link *link, const struct rar_tx_item *item);
bool rar_carrier_is(const struct sk_buff *skb);
struct sk_buff *rar_carrier_keep(const struct rar_pkt *pkt);

#endif /* _RAR_TX_CARRIER_H */
