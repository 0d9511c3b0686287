/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_ENCAP_H
#define _RAR_ENCAP_H

#include <linux/types.h>

struct rar_addr;
struct rar_member;
struct rar_net;
struct rar_port;
struct sock;

struct rar_port *rar_port_get(struct rar_net *rn, u16 af, __be16 port);
void rar_port_put(struct rar_net *rn, struct rar_port *port);
void rar_port_put_lanes(struct rar_member *m);
bool rar_port_serves(const struct rar_net *rn, __be16 port);
u16 rar_port_af(const struct rar_port *port);
int rar_sender_open(struct rar_member *m, u16 af);
void rar_sender_set(struct rar_member *m, const struct sock *sk);
void rar_sender_detach(struct rar_member *m);
void rar_sender_put_all(struct rar_member *m);
struct sock *rar_sender_sk(const struct rar_member *m, u16 af);
bool rar_sender_room(struct rar_member *m, u16 af);

#endif /* _RAR_ENCAP_H */
