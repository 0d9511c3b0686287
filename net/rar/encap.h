/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_ENCAP_H
#define _RAR_ENCAP_H

#include <linux/types.h>

struct rar_addr;
struct rar_member;
struct rar_net;
struct rar_port;
struct sock;

struct rar_port *rar_encap_get(struct rar_net *rn, u16 af, __be16 port);
void rar_encap_put(struct rar_net *rn, struct rar_port *port);
void rar_encap_put_lanes(struct rar_member *m);
bool rar_encap_serves(const struct rar_net *rn, __be16 port);
u16 rar_encap_af(const struct rar_port *port);
int rar_encap_sender(struct rar_member *m, u16 af);
void rar_encap_sender_set(struct rar_member *m, const struct sock *sk);
void rar_encap_detach(struct rar_member *m);
void rar_encap_put_senders(struct rar_member *m);
struct sock *rar_encap_sk(const struct rar_member *m, u16 af);
bool rar_encap_room(struct rar_member *m, u16 af);

#endif /* _RAR_ENCAP_H */
