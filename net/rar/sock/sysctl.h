/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_SYSCTL_H
#define _RAR_SOCK_SYSCTL_H

#include "rar.h"

int rar_sysctl_init(struct rar_net *rn);
void rar_sysctl_destroy(struct rar_net *rn);
u32 rar_sysctl_count(void);
const char *rar_sysctl_get(const struct rar_net *rn, u32 i, const char **name, u64 *value);

#endif /* _RAR_SOCK_SYSCTL_H */
