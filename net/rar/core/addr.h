/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_ADDR_H
#define _RAR_CORE_ADDR_H

#include "rar.h"

void rar_addr_to_sock(const struct rar_member *m, const struct rar_addr *a,
		      u32 rank, struct sockaddr_rar *sa);

#endif /* _RAR_CORE_ADDR_H */
