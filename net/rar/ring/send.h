/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_SEND_H
#define _RAR_RING_SEND_H

#include "rar.h"

bool rar_send_link(struct rar_link *link, u32 own);
void rar_send_partners(struct rar_member *m);

#endif /* _RAR_RING_SEND_H */
