/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_JOIN_H
#define _RAR_GROUP_JOIN_H

#include "rar.h"

void rar_join_rcv_odd(struct rar_member *m, const struct rar_pkt *pkt);
void rar_join_rcv_unheard(struct rar_member *m, const struct rar_pkt *pkt,
			  enum rar_reason why);
void rar_join_rcv(struct rar_member *m, struct rar_pkt *pkt);
unsigned long rar_join_tick(struct rar_member *m);
void rar_join_route_again(struct rar_member *m);
int rar_join_start(struct rar_member *m, const struct rar_addr *next,
		   u32 timeout_ms);

#endif /* _RAR_GROUP_JOIN_H */
