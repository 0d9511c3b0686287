/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_MSG_H
#define _RAR_SOCK_MSG_H

#include "sock/sock.h"

void rar_msg_drop(struct rar_sock *rsk);
void rar_msg_stop_writing(struct rar_member *m);
bool rar_msg_may_send(struct rar_member *m);
int rar_sendmsg(struct socket *sock, struct msghdr *msg, size_t len);
struct rar_operation *rar_msg_ready(struct rar_member *m);
int rar_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags);

#endif /* _RAR_SOCK_MSG_H */
