/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RX_UDP_H
#define _RAR_RX_UDP_H

#include "rar.h"

int rar_udp_rcv(struct sock *sk, struct sk_buff *skb);
int rar_udp_err(struct sock *sk, struct sk_buff *skb);

#endif /* _RAR_RX_UDP_H */
