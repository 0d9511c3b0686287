/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_INPUT_H
#define _RAR_INPUT_H

#include "rar.h"
#include "rx/datagram.h"

enum rar_verdict { RAR_PASS, RAR_TAKEN };

enum rar_verdict rar_rcv(struct rar_net *rn, struct sk_buff *skb,
			 enum rar_entry entry);
int rar_rcv_frame(struct rar_net *rn, struct rar_frame *frame,
		  const struct net_device *dev, u32 nhoff, __be16 protocol);

#endif /* _RAR_INPUT_H */
