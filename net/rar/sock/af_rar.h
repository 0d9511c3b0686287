/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_AF_RAR_H
#define _RAR_SOCK_AF_RAR_H

#include "sock/sock.h"

int rar_sock_init(void);
void rar_sock_exit(void);

#endif /* _RAR_SOCK_AF_RAR_H */
