/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_PREFIX_H
#define _RAR_SOCK_PREFIX_H

#include <linux/inet.h>

#include "rar.h"

/* Bytes of the text: "link ", and addresses with "/128 " each. */
#define RAR_PREFIX_TEXT	(8 + RAR_BOX_PREFIXES * (INET6_ADDRSTRLEN + 5))

int rar_prefix_set(struct rar_net *rn, char *text);
void rar_prefix_show(struct rar_net *rn, char *text);

#endif /* _RAR_SOCK_PREFIX_H */
