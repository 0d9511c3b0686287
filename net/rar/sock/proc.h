/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_PROC_H
#define _RAR_SOCK_PROC_H

#include "rar.h"

int rar_proc_init(struct net *net);
void rar_proc_destroy(struct net *net);

#endif /* _RAR_SOCK_PROC_H */
