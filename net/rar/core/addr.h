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

/* Can it be the address of a single host? @ip: of IPv4 in its first word. */
static inline bool rar_addr_is_host(u16 af, const struct in6_addr *ip)
{
	__be32 v4 = ip->s6_addr32[0];

	if (af == AF_INET)
		return !ipv4_is_multicast(v4) && !ipv4_is_lbcast(v4) &&
		       !ipv4_is_zeronet(v4);
	return !ipv6_addr_is_multicast(ip) && !ipv6_addr_any(ip);
}

void rar_addr_to_sock(const struct rar_member *m, const struct rar_addr *a,
		      u32 rank, struct sockaddr_rar *sa);

#endif /* _RAR_CORE_ADDR_H */
