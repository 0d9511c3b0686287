/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_SOCKOPT_H
#define _RAR_SOCK_SOCKOPT_H

#include "rar.h"

int rar_setsockopt(struct socket *sock, int level, int optname,
		   sockptr_t optval, unsigned int optlen);
int rar_getsockopt(struct socket *sock, int level, int optname,
		   char __user *optval, int __user *optlen);

#endif /* _RAR_SOCK_SOCKOPT_H */
