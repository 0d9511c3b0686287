/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_PAIR_H
#define _RAR_GROUP_PAIR_H

#include "rar.h"

void rar_pair_reset(struct rar_member *m);
void rar_pair_learn(struct rar_member *m, u32 rank, const struct rar_row *row);
bool rar_pair_all(const struct rar_member *m);
const struct rar_direct_peer *rar_pair_missing(const struct rar_member *m);
void rar_pair_try(struct rar_member *m);
void rar_pair_rcv(struct rar_member *m, struct rar_pkt *pkt);
void rar_pair_rcv_ack(struct rar_member *m, const struct rar_pkt *pkt);

#endif /* _RAR_GROUP_PAIR_H */
