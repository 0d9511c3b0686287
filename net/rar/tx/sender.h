/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_SENDER_H
#define _RAR_TX_SENDER_H

#include "rar.h"

void rar_sender_fix_mtu(struct sock *sk);
int rar_sender_open(struct rar_member *m, u16 af);
void rar_sender_set(struct rar_member *m, const struct sock *sk);
void rar_sender_detach(struct rar_member *m);
void rar_sender_put_all(struct rar_member *m);
struct sock *rar_sender_sk(const struct rar_member *m, u16 af);
bool rar_sender_room(struct rar_member *m, u16 af);

#endif /* _RAR_TX_SENDER_H */
