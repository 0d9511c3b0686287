/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_NOTICE_H
#define _RAR_GROUP_NOTICE_H

#include "rar.h"

void rar_notice_error(const struct rar_member *m, const struct rar_notice_hdr *n,
		      struct rar_error *err);
void rar_notice_reset(struct rar_member *m, u32 rank);
void rar_notice_rcv(struct rar_member *m, const struct rar_pkt *pkt);

#endif /* _RAR_GROUP_NOTICE_H */
