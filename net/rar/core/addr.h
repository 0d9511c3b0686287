/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_ADDR_H
#define _RAR_CORE_ADDR_H

#include <net/ipv6.h>

#include "rar.h"

/* Are two addresses, and their ports, the same? */
static inline bool rar_addr_same(const struct rar_addr *a, const struct rar_addr *b)
{
	return a->port == b->port && ipv6_addr_equal(&a->ip, &b->ip);
}

void rar_addr_to_sock(const struct rar_member *m, const struct rar_addr *a,
		      u32 rank, struct sockaddr_rar *sa);

#endif /* _RAR_CORE_ADDR_H */
