/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_SYSCTL_H
#define _RAR_SOCK_SYSCTL_H

#include "sock/prefix.h"
#include "rar.h"

/* Bytes of a setting that is no number, at most */
#define RAR_SYSCTL_WORD	RAR_PREFIX_TEXT

void rar_sysctl_defaults(struct rar_net *rn);
int rar_sysctl_init(struct rar_net *rn);
void rar_sysctl_destroy(struct rar_net *rn);
u32 rar_sysctl_count(void);
bool rar_sysctl_get(struct rar_net *rn, u32 i, const char **name, u64 *value, char *word);

#endif /* _RAR_SOCK_SYSCTL_H */
