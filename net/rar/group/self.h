/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_SELF_H
#define _RAR_GROUP_SELF_H

#include "rar.h"

#define RAR_SELF_PORTS	2	/* IPv4 and IPv6 */

struct rar_member *rar_self_new(struct rar_net *rn);
void rar_self_free(struct rar_member *self);
int rar_self_open(struct rar_member *self, __be16 num,
		  struct rar_port *ports[RAR_SELF_PORTS]);
void rar_self_close(struct rar_member *self,
		    struct rar_port *ports[RAR_SELF_PORTS]);
int rar_self_init(struct rar_member *m, const struct rar_member *self,
		  const struct rar_addr *addr);

#endif /* _RAR_GROUP_SELF_H */
