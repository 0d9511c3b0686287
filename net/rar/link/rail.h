/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_RAIL_H
#define _RAR_LINK_RAIL_H

#include "rar.h"

int rar_rail_prepare(struct rar_member *m);
void rar_rail_start(struct rar_member *m);
void rar_rail_free(struct rar_link *link);
unsigned long rar_rail_tick(struct rar_member *m);
void rar_rail_rcv(struct rar_member *m, const struct rar_pkt *pkt);
void rar_rail_hook(struct rar_member *m);
bool rar_rail_may_be(u16 af, const struct in6_addr *ip);
bool rar_rail_cut_off(struct rar_link *link);

#endif /* _RAR_LINK_RAIL_H */
