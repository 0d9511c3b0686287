/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_ACK_H
#define _RAR_LINK_ACK_H

#include "rar.h"

struct rar_arrival;

bool rar_ack_check(const struct rar_data_hdr *dh, u32 n);
bool rar_ack_record(struct rar_link *link, const struct rar_arrival *a);
void rar_ack_send(struct rar_link *link);
void rar_ack_send_all(struct rar_member *m);
void rar_ack_rcv_una(struct rar_link *link, u32 una);
void rar_ack_rcv_probe(struct rar_link *link, const struct rar_pkt *pkt);

#endif /* _RAR_LINK_ACK_H */
