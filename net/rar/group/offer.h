/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_OFFER_H
#define _RAR_GROUP_OFFER_H

#include "rar.h"

void rar_offer_to_wire(const struct rar_addr *box, struct rar_wire_box *w);
void rar_offer_from_wire(const struct rar_wire_box *w, struct rar_addr *box);
void rar_offer_rcv(struct rar_member *m, const struct rar_pkt *pkt);
void rar_offer_pass(struct rar_member *m, const struct rar_row *first);

#endif /* _RAR_GROUP_OFFER_H */
