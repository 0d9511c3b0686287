/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_PORT_H
#define _RAR_TX_PORT_H

#include <linux/netfilter.h>
#include <linux/types.h>

struct rar_member;
struct rar_net;
struct rar_port;
struct sk_buff;
struct sock;

void rar_port_init(nf_hookfn *input,
		   int (*rcv)(struct sock *sk, struct sk_buff *skb),
		   int (*err)(struct sock *sk, struct sk_buff *skb));
struct rar_port *rar_port_get(struct rar_net *rn, u16 af, __be16 port);
void rar_port_put(struct rar_net *rn, struct rar_port *port);
void rar_port_put_lanes(struct rar_member *m);
bool rar_port_serves(const struct rar_net *rn, __be16 num);
u16 rar_port_af(const struct rar_port *port);

#endif /* _RAR_TX_PORT_H */
