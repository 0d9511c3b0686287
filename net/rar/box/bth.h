/* SPDX-License-Identifier: GPL-2.0 */
/* RoCEv2 packets with parts of RDMA SENDs. */
#ifndef _RAR_BOX_BTH_H
#define _RAR_BOX_BTH_H

#include <linux/rar_roce.h>

#include "rar.h"

#define RAR_BTH_PSN_MASK	0xffffff	/* packet sequence numbers have 24 bits */

/* What of a message a packet is. */
enum rar_bth_part {
	RAR_BTH_FIRST	= 0,
	RAR_BTH_MIDDLE	= 1,
	RAR_BTH_LAST	= 2,
	RAR_BTH_ONLY	= 4,
};

/*
 * struct rar_bth - a packet of a reliable connection with a part of an RDMA SEND
 * @from:	the sender, without port
 * @to:		the receiver, without port
 * @qpn:	number of the receiver's queue pair
 * @psn:	packet sequence number
 * @part:	of the message
 * @udp:	where the UDP header is in the packet
 * @data:	where the payload is
 * @len:	bytes of the payload
 */
struct rar_bth {
	struct rar_addr from;
	struct rar_addr to;
	u32 qpn;
	u32 psn;
	enum rar_bth_part part;
	u32 udp;
	u32 data;
	u32 len;
};

bool rar_bth_read(const struct sk_buff *skb, struct rar_bth *bth);
bool rar_bth_open(struct sk_buff *skb, const struct rar_bth *bth);
void rar_bth_close(struct sk_buff *skb, const struct rar_bth *bth);

#endif /* _RAR_BOX_BTH_H */
