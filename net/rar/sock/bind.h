/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_BIND_H
#define _RAR_SOCK_BIND_H

#include "sock/sock.h"

int rar_sock_check_addr(const struct sockaddr_rar *sa, int len);
int rar_sock_bind(struct sock *sk, const struct sockaddr_rar *self);
void rar_sock_unbind(struct sock *sk);
int rar_sock_join(struct sock *sk, const struct sockaddr_rar *next,
		  const struct rar_join_opts *opts, long timeo);

#endif /* _RAR_SOCK_BIND_H */
