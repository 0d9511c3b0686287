/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_ALLOW_H
#define _RAR_BOX_ALLOW_H

#include <linux/inet.h>

#include "rar.h"

/* Bytes of net.rar.box_allow as text: "link ", and addresses with "/128 " each. */
#define RAR_ALLOW_TEXT	(8 + RAR_BOX_PREFIXES * (INET6_ADDRSTRLEN + 5))

int rar_allow_set(struct rar_net *rn, char *text);
void rar_allow_show(struct rar_net *rn, char *text);
u64 rar_allow_neighbour(const struct sk_buff *skb, const struct rar_addr *from);
bool rar_allow_has(struct rar_member *self, const struct rar_addr *from,
		   const struct rar_addr *to);

#endif /* _RAR_BOX_ALLOW_H */
