/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_HOSTS_H
#define _RAR_CORE_HOSTS_H

#include "rar.h"

void rar_hosts_remove(struct rar_member *m);
void rar_hosts_add(struct rar_member *m, u64 nonce);
struct rar_member *rar_hosts_find(const struct rar_member *m, u32 rank, u64 nonce);
bool rar_hosts_share(const struct rar_member *m, u32 rank, u64 nonce);

#endif /* _RAR_CORE_HOSTS_H */
