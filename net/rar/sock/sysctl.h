/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_SYSCTL_H
#define _RAR_SOCK_SYSCTL_H

#include "rar.h"

int rar_sysctl_init(struct rar_net *rn);
void rar_sysctl_destroy(struct rar_net *rn);

#endif /* _RAR_SOCK_SYSCTL_H */
