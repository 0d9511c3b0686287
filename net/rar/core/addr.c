// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses between the wire, the stack and the user, and the number of their
 * family.
 */
#include <linux/module.h>

#include "core/addr.h"
#include "rar.h"

int rar_family = AF_RAR;
module_param_named(family, rar_family, int, 0444);
MODULE_PARM_DESC(family, "address family number, an unused one (22)");

/**
 * rar_addr_to_sock() - convert a member's address to the user's form
 * @m:  member
 * @a:    address
 * @rank: rank it belongs to
 * @sa:   to fill
 */
void rar_addr_to_sock(const struct rar_member *m, const struct rar_addr *a,
		      u32 rank, struct sockaddr_rar *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->srar_family = rar_family;
	sa->srar_port = a->port;
	sa->srar_af = a->af;
	sa->srar_scope_id = a->scope;
	sa->srar_rank = rank;
	sa->srar_size = m->size;
	sa->srar_group = m->id;
	memcpy(sa->srar_addr, &a->ip, sizeof(sa->srar_addr));
}
