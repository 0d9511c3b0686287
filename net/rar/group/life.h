/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_LIFE_H
#define _RAR_GROUP_LIFE_H

#include "rar.h"

void rar_life_end(struct rar_member *m);
void rar_life_detach(struct rar_member *m);
void rar_life_forget(struct rar_member *m);
struct rar_member *rar_life_alloc(struct rar_net *rn,
				  const struct sockaddr_rar *self);
void rar_life_net_exit(struct rar_net *rn);

#endif /* _RAR_GROUP_LIFE_H */
