/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_PEERS_H
#define _RAR_GROUP_PEERS_H

#include "rar.h"

bool rar_peers_wanted(const struct rar_member *m);
int rar_peers_prepare(struct rar_member *m);
void rar_peers_free(struct rar_member *m);

#endif /* _RAR_GROUP_PEERS_H */
